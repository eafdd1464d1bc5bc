//! The end of a run: nothing goes wrong any more, and everything has to come to rest.

use super::sites::verify_disk;
use super::world::{PATIENCE_US, Phase, World};
use crate::check::Violation;
use crate::history::{Change, Fate, History, Key, Row, Step};
use crate::programs::COUNTERS;
use rubato_node::grid::GridFigures;
use rubato_protocol::WaitReason;
use std::collections::BTreeSet;

/// Outcomes that nobody knows beyond which the sums of counters are not searched.
const UNKNOWN_MAX: usize = 16;

impl World<'_> {
    /// The run may have come to its next phase.
    pub(super) fn enter_next_phase(&mut self) -> Result<(), Violation> {
        let busy = self.clients.iter().any(|client| client.is_busy());
        let next = match self.phase {
            Phase::Working if !busy => {
                self.calm_down();
                Phase::Resting
            }
            Phase::Resting if self.is_at_rest()? => {
                self.end_unknown();
                self.read_everything();
                Phase::Reading
            }
            Phase::Reading if !busy && self.is_at_rest()? => {
                self.cut_logs()?;
                (0..self.sites.len()).for_each(|at| self.go_down(at));
                for site in &self.sites {
                    verify_disk(site)?;
                }
                Phase::RestingAgain
            }
            Phase::RestingAgain if self.is_at_rest()? => {
                self.read_everything();
                Phase::ReadingAgain
            }
            Phase::ReadingAgain if !busy && self.is_at_rest()? => {
                self.count_all();
                check_counters(&self.history)?;
                Phase::Over
            }
            _ => return self.check_patience(),
        };
        self.note(format_args!("{next:?}"));
        (self.phase, self.since_us) = (next, self.now_us);
        Ok(())
    }

    fn check_patience(&self) -> Result<(), Violation> {
        if self.phase == Phase::Working || self.now_us - self.since_us < PATIENCE_US {
            return Ok(());
        }
        let figures = self
            .sites
            .iter()
            .map(|site| site.node.as_ref().map(|node| node.figures()));
        let told: Vec<String> = figures
            .map(|figures| figures.map_or("down".into(), described))
            .collect();
        let what = format!("{:?} for a minute: {}", self.phase, told.join("; "));
        Err(Violation::new("no rest", what))
    }

    /// Nothing goes wrong any more.
    fn calm_down(&mut self) {
        self.network.heal();
        self.sites.iter().for_each(|site| site.calm_down());
    }

    /// Every transaction is decided everywhere: nobody holds anything for anybody.
    fn is_at_rest(&self) -> Result<bool, Violation> {
        for site in &self.sites {
            let Some(node) = &site.node else { return Ok(false) };
            let figures = node.figures();
            if figures.node.protocol.fold_failures > 0 {
                return Err(Violation::new("a blind formula failed", described(figures)));
            }
            let held = figures.open_transactions + figures.open_branches + figures.prepared + figures.undone_decisions;
            let pending = figures.node.live_transactions + figures.node.pending_bytes;
            if !figures.is_born || held + pending > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// From now on nothing of unknown outcome can take effect any more.
    fn end_unknown(&mut self) {
        let ended = self.next_moment();
        for mut transaction in std::mem::take(&mut self.unknown) {
            transaction.ended = ended;
            self.history.transactions.push(transaction);
        }
    }

    fn read_everything(&mut self) {
        self.clients[0].site = self.random.uniform(0, self.sites.len() as i64 - 1) as usize;
        self.clients[0].left = 1;
        self.act_in(1, 0);
    }

    /// Every log can be cut up to its end.
    fn cut_logs(&mut self) -> Result<(), Violation> {
        for site in &self.sites {
            let Some(node) = &site.node else { continue };
            let forced = node.force();
            let made = forced.and_then(|end| node.checkpoint().map(|report| (end, report)));
            let (end, report) = made.map_err(|error| Violation::new("no checkpoint at rest", error.to_string()))?;
            if report.log_start < end.0 {
                let what = format!("the log is kept from {} on, it ended at {}", report.log_start, end.0);
                return Err(Violation::new("a log that cannot be cut", what));
            }
        }
        Ok(())
    }

    fn count_all(&mut self) {
        for at in 0..self.sites.len() {
            if let Some(figures) = self.sites[at].node.as_ref().map(|node| node.figures()) {
                self.count_figures(&figures);
            }
        }
    }

    /// Adds the figures of a life that ends.
    pub(super) fn count_figures(&mut self, figures: &GridFigures) {
        let protocol = figures.node.protocol;
        for (name, reason) in [
            ("waits: queue", WaitReason::Queue),
            ("waits: after whom it follows", WaitReason::After),
            ("waits: behind an ordered one", WaitReason::Ordered),
            ("waits: earlier reader", WaitReason::Reader),
            ("waits: behind a prepared branch", WaitReason::Prepared),
        ] {
            self.coverage.add(name, protocol.waits[reason as usize]);
        }
        self.coverage.add("terms", figures.term);
        self.coverage.add("messages refused", figures.refused);
        self.coverage
            .add("messages dropped before a log that cannot be forced", figures.dropped);
        self.coverage.add("evictions", protocol.evictions);
        self.coverage.add("blind updates", protocol.blind_updates);
        self.coverage
            .add("blind updates refused by bounds", protocol.bounds_refused);
        self.coverage.add("reads to write", protocol.ordered_reads);
    }
}

fn described(figures: GridFigures) -> String {
    format!(
        "born {}, {} transactions, {} branches ({} prepared), {} decisions, {} live, {} bytes pending, {} fold failures",
        figures.is_born,
        figures.open_transactions,
        figures.open_branches,
        figures.prepared,
        figures.undone_decisions,
        figures.node.live_transactions,
        figures.node.pending_bytes,
        figures.node.protocol.fold_failures
    )
}

/// The counters are what was acknowledged makes of them, with some of the outcomes that nobody knows, each of them whole. Only where
/// every change of them is an addition: then the order does not matter.
fn check_counters(history: &History) -> Result<(), Violation> {
    let is_counter = |key: &Key| key.0 == COUNTERS.table && (COUNTERS.first..=COUNTERS.last()).contains(&key.1);
    let mut sums = vec![0_i64; COUNTERS.count as usize];
    let mut unknown: Vec<Vec<i64>> = Vec::new();
    for transaction in history.transactions.iter().filter(|one| one.fate != Fate::Aborted) {
        let mut added = vec![0_i64; sums.len()];
        for step in transaction.lasting_steps() {
            match step {
                Step::Change(key, Change::Add(amount), true) if is_counter(key) => {
                    added[(key.1 - COUNTERS.first) as usize] += amount;
                }
                Step::Change(key, _, true) if is_counter(key) => return Ok(()),
                _ => {}
            }
        }
        match transaction.fate {
            Fate::Committed => sums.iter_mut().zip(&added).for_each(|(sum, added)| *sum += added),
            _ if added.iter().any(|added| *added != 0) => unknown.push(added),
            _ => {}
        }
    }
    if unknown.len() > UNKNOWN_MAX {
        return Ok(());
    }
    let mut possible = BTreeSet::from([sums.clone()]);
    for added in &unknown {
        let with = |sums: &Vec<i64>| sums.iter().zip(added).map(|(sum, added)| sum + added).collect();
        let more: Vec<Vec<i64>> = possible.iter().map(with).collect();
        possible.extend(more);
    }
    let found = last_counters(history);
    match found {
        Some(found) if !possible.contains(&found) => {
            let what = format!("{found:?}, acknowledged {sums:?}, unknown {unknown:?}");
            Err(Violation::new("sum of counters", what))
        }
        _ => Ok(()),
    }
}

fn last_counters(history: &History) -> Option<Vec<i64>> {
    let steps = history
        .transactions
        .iter()
        .rev()
        .flat_map(|transaction| &transaction.steps);
    let mut readings = steps.filter_map(|step| match step {
        Step::ReadAll(table, rows) if *table == COUNTERS.table => Some(rows),
        _ => None,
    });
    let rows: &Vec<(i64, Row)> = readings.next()?;
    let counters = (COUNTERS.first..=COUNTERS.last()).map(|id| {
        let row = rows.iter().find(|(found, _)| *found == id);
        row.map(|(_, row)| row.number)
    });
    counters.collect()
}
