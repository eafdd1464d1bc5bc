//! Runs terminals, one thread each, through a warm-up and a measured interval.

use std::panic::resume_unwind;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rubato_workload::{Client, Drawn, Random, Terminal, run_transaction};

use crate::error::BenchError;
use crate::gate::{Gate, Turn};
use crate::measure::Measurement;
use crate::report::RoundReport;

/// Width of one point of the throughput over time.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// A run that takes turns ends when its gate says so; if nobody does, then.
const GATED_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Longest sleep between two looks at the clock while a user "types" or "thinks".
const NAP_MAX: Duration = Duration::from_millis(100);

/// How a run is paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSettings {
    /// Number of terminals; each has a thread and a session.
    pub terminals: u64,
    /// Time before anything counts.
    pub warmup: Duration,
    /// Time in which everything that ends counts.
    pub duration: Duration,
    /// Attempts of one transaction before its error is given to the user.
    pub attempts_max: u32,
    /// Before a retry a terminal waits a random time up to this, doubled with each retry up to sixteen times.
    pub backoff: Duration,
}

impl Default for RunSettings {
    fn default() -> RunSettings {
        RunSettings {
            terminals: 10,
            warmup: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            attempts_max: 100,
            backoff: Duration::from_millis(1),
        }
    }
}

/// The times of a run, known once all terminals are ready.
#[derive(Clone, Copy)]
struct Schedule {
    begin: Instant,
    begin_wall_us: i64,
    measured: Instant,
    end: Instant,
}

impl Schedule {
    fn starting_now(settings: RunSettings, takes_turns: bool) -> Schedule {
        let begin = Instant::now();
        let measured = begin + settings.warmup;
        let duration = if takes_turns { GATED_TIME_MAX } else { settings.duration };
        Schedule {
            begin,
            begin_wall_us: wall_us(),
            measured,
            end: measured + duration,
        }
    }
}

/// Runs the terminals that `make` builds, each in a thread of its own, and measures them. The first kind of the
/// terminals is the one the headline may count. Also returns the terminals, for what they counted themselves.
///
/// With a gate the run takes turns with others: what they come to is to be the duration of `settings`.
///
/// # Errors
/// A terminal could not be made. Errors of transactions are part of the report.
pub fn run_terminals<C, T, F>(
    settings: RunSettings,
    gate: Option<&Gate>,
    make: F,
) -> Result<(RoundReport, Vec<T>), BenchError>
where
    C: Client,
    T: Terminal<C> + Send,
    F: Fn(u64) -> Result<(C, T), BenchError> + Sync,
{
    let terminals = settings.terminals.max(1);
    let barrier = Barrier::new(terminals as usize + 1);
    let schedule = OnceLock::new();
    let in_thread = |number| {
        let made = make(number);
        barrier.wait();
        barrier.wait();
        let (mut client, mut terminal) = made?;
        let schedule = schedule.get().expect("the schedule is set between the two barriers");
        Ok((
            run_one(&settings, (schedule, gate), number, &mut client, &mut terminal),
            terminal,
        ))
    };
    let results: Vec<Result<(Measurement, T), BenchError>> = thread::scope(|scope| {
        let in_thread = &in_thread;
        let threads: Vec<_> = (0..terminals)
            .map(|number| scope.spawn(move || in_thread(number)))
            .collect();
        barrier.wait();
        let _ = schedule.set(Schedule::starting_now(settings, gate.is_some()));
        barrier.wait();
        gate.into_iter().for_each(Gate::set_ready);
        // A panic of a terminal is a bug of this program: it goes on as one.
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let mut total: Option<Measurement> = None;
    let mut kinds: &'static [&'static str] = &[];
    let mut done = Vec::new();
    for result in results {
        let (measurement, terminal) = result?;
        kinds = terminal.kinds();
        match &mut total {
            None => total = Some(measurement),
            Some(total) => total.merge(measurement),
        }
        done.push(terminal);
    }
    let total = total.unwrap_or_else(|| Measurement::new(0, 0));
    Ok((RoundReport::new(&total, kinds, settings.duration), done))
}

/// Microseconds since the Unix epoch.
pub(crate) fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn run_one<C: Client, T: Terminal<C>>(
    settings: &RunSettings,
    (schedule, gate): (&Schedule, Option<&Gate>),
    number: u64,
    client: &mut C,
    terminal: &mut T,
) -> Measurement {
    let intervals = settings.duration.as_nanos().div_ceil(INTERVAL.as_nanos());
    let mut measurement = Measurement::new(terminal.kinds().len(), usize::try_from(intervals).unwrap_or(0));
    let mut random = Random::derived(number, &[0xBAC0]);
    let mut back_off = |retries| back_off(settings.backoff, retries, &mut random);
    let mut now = Instant::now();
    while now < schedule.end {
        // Held until the transaction has ended.
        let held = gate.map(Gate::wait);
        if held.is_some() {
            now = Instant::now();
        }
        let turn = held.as_deref().copied().unwrap_or(Turn::Measured);
        if turn == Turn::Over {
            break;
        }
        let Drawn {
            kind,
            keying_us,
            thinking_us,
        } = terminal.draw();
        if !pause(keying_us, schedule.end) {
            break;
        }
        let started = if keying_us > 0 { Instant::now() } else { now };
        let since_begin_us = started.saturating_duration_since(schedule.begin).as_micros();
        let now_us = schedule
            .begin_wall_us
            .saturating_add(i64::try_from(since_begin_us).unwrap_or(0));
        let outcome = run_transaction(terminal, client, settings.attempts_max, now_us, &mut back_off);
        now = Instant::now();
        let is_lost = outcome.result.as_ref().is_err_and(|error| error.is_connection_lost());
        let counts = turn == Turn::Measured && now >= schedule.measured;
        if counts && (now < schedule.end || is_lost) {
            let interval = (now - schedule.measured).as_nanos() / INTERVAL.as_nanos();
            measurement.record(
                kind,
                &outcome,
                now - started,
                usize::try_from(interval).unwrap_or(usize::MAX),
            );
        }
        if is_lost {
            measurement.terminals_lost += 1;
            break;
        }
        if thinking_us > 0 {
            pause(thinking_us, schedule.end);
            now = Instant::now();
        }
    }
    measurement
}

/// Waits before a retry: without that, terminals that abort each other take the processor from those that would commit.
fn back_off(longest: Duration, retries: u32, random: &mut Random) {
    if !longest.is_zero() {
        thread::sleep((longest * (1 << retries.min(4))).mul_f64(random.fraction()));
    }
}

/// Waits; false if the end came first.
fn pause(pause_us: u64, end: Instant) -> bool {
    if pause_us == 0 {
        return true;
    }
    let until = Instant::now() + Duration::from_micros(pause_us);
    loop {
        let now = Instant::now();
        if now >= end {
            return false;
        }
        if now >= until {
            return true;
        }
        thread::sleep((until - now).min(end - now).min(NAP_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_workload::{ClientError, Ending, Param, Rows};

    struct Nobody;

    impl Client for Nobody {
        type Statement = ();
        fn prepare(&mut self, _: &str) -> Result<(), ClientError> {
            Ok(())
        }
        fn execute(&mut self, (): (), _: &[Param<'_>]) -> Result<Rows, ClientError> {
            Ok(Rows::default())
        }
        fn simple(&mut self, _: &str) -> Result<(), ClientError> {
            Ok(())
        }
        fn copy_in(&mut self, _: &str, _: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
            Ok(0)
        }
    }

    /// Ends each transaction after a millisecond; every tenth is rolled back; may lose its connection.
    struct Ticks {
        drawn: u64,
        lost_after: u64,
    }

    impl Terminal<Nobody> for Ticks {
        fn kinds(&self) -> &'static [&'static str] {
            &["even", "odd"]
        }
        fn draw(&mut self) -> Drawn {
            self.drawn += 1;
            Drawn {
                kind: (self.drawn % 2) as usize,
                ..Drawn::default()
            }
        }
        fn attempt(&mut self, _: &mut Nobody, _: i64) -> Result<Ending, ClientError> {
            thread::sleep(Duration::from_millis(1));
            match self.drawn {
                drawn if drawn >= self.lost_after => Err(ClientError::lost("gone")),
                drawn if drawn.is_multiple_of(10) => Ok(Ending::RolledBack),
                _ => Ok(Ending::Committed),
            }
        }
    }

    fn settings() -> RunSettings {
        RunSettings {
            terminals: 3,
            warmup: Duration::from_millis(100),
            duration: Duration::from_millis(300),
            attempts_max: 1,
            backoff: Duration::ZERO,
        }
    }

    #[test]
    fn only_the_measured_interval_counts() {
        let make = |_| {
            Ok((
                Nobody,
                Ticks {
                    drawn: 0,
                    lost_after: u64::MAX,
                },
            ))
        };
        let (report, terminals) = run_terminals(settings(), None, make).expect("a run");
        let counted: u64 = report.kinds.iter().map(|kind| kind.committed + kind.rollbacks).sum();
        let drawn: u64 = terminals.iter().map(|terminal| terminal.drawn).sum();
        assert_eq!(terminals.len(), 3);
        assert!(counted > 0 && counted < drawn, "{counted} of {drawn}");
        assert_eq!(report.throughput.len(), 1);
        assert_eq!(report.kinds[1].rollbacks, 0);
    }

    #[test]
    fn in_turns_nothing_is_done_between_them_and_only_what_is_measured_counts() {
        let make = |_| {
            let (drawn, lost_after) = (0, u64::MAX);
            Ok((Nobody, Ticks { drawn, lost_after }))
        };
        let gate = Gate::default();
        let closed = gate.close();
        let (report, terminals) = thread::scope(|scope| {
            let run = scope.spawn(|| run_terminals(settings(), Some(&gate), make));
            while !gate.is_ready() {
                thread::sleep(Duration::from_millis(1));
            }
            let turn = |mut closed: std::sync::RwLockWriteGuard<'_, Turn>, turn| {
                *closed = turn;
                drop(closed);
                thread::sleep(Duration::from_millis(50));
            };
            turn(closed, Turn::WarmUp);
            let closed = gate.close();
            // None is under way, so that whoever counts elsewhere counts the same.
            thread::sleep(Duration::from_millis(50));
            turn(closed, Turn::Measured);
            turn(gate.close(), Turn::Over);
            run.join().expect("no panic").expect("a run")
        });
        let counted: u64 = report.kinds.iter().map(|kind| kind.committed + kind.rollbacks).sum();
        let drawn: u64 = terminals.iter().map(|terminal| terminal.drawn).sum();
        // Three terminals, two turns of 50 ms, a millisecond each; nothing in the 50 ms between the turns.
        assert!(counted > 0 && counted < drawn && drawn <= 320, "{counted} of {drawn}");
    }

    #[test]
    fn a_lost_connection_ends_its_terminal_and_is_counted() {
        let make = |_| {
            Ok((
                Nobody,
                Ticks {
                    drawn: 0,
                    lost_after: 150,
                },
            ))
        };
        let (report, _) = run_terminals(settings(), None, make).expect("a run");
        assert_eq!(report.terminals_lost, 3);
        assert_eq!(report.errors(), 3);
    }

    #[test]
    fn a_terminal_that_cannot_be_made_is_an_error() {
        let refused = || BenchError::client("connecting", ClientError::lost("refused"));
        let make = |number| {
            if number == 1 {
                Err(refused())
            } else {
                Ok((
                    Nobody,
                    Ticks {
                        drawn: 0,
                        lost_after: 1,
                    },
                ))
            }
        };
        assert!(run_terminals::<Nobody, Ticks, _>(settings(), None, make).is_err());
    }
}
