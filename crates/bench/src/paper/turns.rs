//! How the runs on grids of processes are measured: one after the other, or in turns.
//!
//! A machine that others share too is slower at one time than at another, by a third and more. What messages cost is the difference of runs
//! of which each takes seconds; one after the other, what else the machine did meanwhile was taken for what they cost. In turns of less than
//! half a second it meets all of them alike (decision 0035, 9).

use std::sync::RwLockWriteGuard;
use std::thread;
use std::time::Duration;

use super::counters::Counters;
use super::data::Run;
use super::experiments::{Laboratory, Ready};
use super::processes::Stopper;
use crate::error::BenchError;
use crate::gate::{Gate, Turn};
use crate::report::RoundReport;

/// Before anything counts, where runs do not take turns.
const WARMUP: Duration = Duration::from_secs(1);
/// How long a turn is.
pub(super) const TURN: Duration = Duration::from_millis(400);
/// How often is looked whether the terminals of all runs are ready.
const READY_LOOK: Duration = Duration::from_millis(20);

impl Laboratory<'_> {
    /// Warms up, then runs between two readings of the counters, so that what they count is of the run's transactions.
    pub fn alone(&self, ready: Ready<'_>) -> Result<Run, BenchError> {
        (self.tell)(&format!("{}: measured", ready.setup.title()));
        let seconds = Duration::try_from_secs_f64(self.arguments.seconds);
        let duration = seconds.map_err(|wrong| BenchError::Arguments(format!("--seconds: {wrong}")))?;
        ready.run(WARMUP.min(duration), None)?;
        let before = ready.grid.counters()?;
        let report = ready.run(duration, None)?;
        let each = ready.grid.counters()?.since(&before, transactions(&report));
        self.stopper.check()?;
        ready.ended(&report, each)
    }

    /// Runs all of them, in turns; the first turn of each warms it up. Counters are read between turns, when no transaction is under way.
    pub fn in_turns(&self, ready: Vec<Ready<'_>>) -> Result<Vec<Run>, BenchError> {
        let turns = self.arguments.turns;
        (self.tell)(&format!("{} runs in {turns} turns each", ready.len()));
        let gates: Vec<Gate> = ready.iter().map(|_| Gate::default()).collect();
        let (reports, counted) = thread::scope(|scope| {
            let held = Held::all_of(&gates);
            let run = |(ready, gate)| scope.spawn(move || Ready::run(ready, TURN * turns, Some(gate)));
            let runs: Vec<_> = ready.iter().zip(&gates).map(run).collect();
            let has_ended = |at: usize| runs.get(at).is_some_and(|run| run.is_finished());
            let counted = take_turns(&ready, held, turns, self.stopper, has_ended);
            // A panic of a run is a bug of this program: it goes on as one.
            let ended = |run: thread::ScopedJoinHandle<'_, _>| {
                run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            (runs.into_iter().map(ended).collect::<Vec<_>>(), counted)
        });
        let counted = counted?;
        let each = ready.into_iter().zip(reports).zip(counted);
        each.map(|((ready, report), counted)| {
            let report: RoundReport = report?;
            let each = counted.since(&Counters::default(), transactions(&report));
            ready.ended(&report, each)
        })
        .collect()
    }
}

fn transactions(report: &RoundReport) -> u64 {
    report.committed() + report.rollbacks()
}

/// What the nodes of each run counted in its turns but the first.
fn take_turns(
    ready: &[Ready<'_>],
    mut gates: Held<'_>,
    turns: u32,
    stopper: &Stopper,
    has_ended: impl Fn(usize) -> bool,
) -> Result<Vec<Counters>, BenchError> {
    while (0..ready.len()).any(|at| !gates.all[at].is_ready() && !has_ended(at)) {
        stopper.check()?;
        thread::sleep(READY_LOOK);
    }
    let mut counted = vec![Counters::default(); ready.len()];
    for turn in 0..=turns {
        for place in 0..ready.len() {
            stopper.check()?;
            // To and fro, so that nobody always comes behind the same one.
            let at = if turn % 2 == 0 { place } else { ready.len() - 1 - place };
            let before = ready[at].grid.counters()?;
            let kind = if turn == 0 { Turn::WarmUp } else { Turn::Measured };
            gates.let_through(at, kind);
            let after = ready[at].grid.counters()?;
            if kind == Turn::Measured {
                counted[at].add(&after.since(&before, 1));
            }
        }
    }
    Ok(counted)
}

/// The gates of all runs, closed but for whose turn it is. When this is dropped all runs are over.
struct Held<'g> {
    all: &'g [Gate],
    closed: Vec<Option<RwLockWriteGuard<'g, Turn>>>,
}

impl<'g> Held<'g> {
    fn all_of(all: &'g [Gate]) -> Held<'g> {
        let closed = all.iter().map(|gate| Some(gate.close())).collect();
        Held { all, closed }
    }

    /// Gives one its turn.
    fn let_through(&mut self, at: usize, kind: Turn) {
        if let Some(mut closed) = self.closed[at].take() {
            *closed = kind;
        }
        thread::sleep(TURN);
        self.closed[at] = Some(self.all[at].close());
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for (gate, closed) in self.all.iter().zip(&mut self.closed) {
            *closed.take().unwrap_or_else(|| gate.close()) = Turn::Over;
        }
    }
}
