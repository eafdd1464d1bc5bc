//! The end of a run: nothing goes wrong any more, and everything has to come to rest.

use super::world::{PATIENCE_US, Phase, World};
use crate::check::Violation;
use crate::history::{Step, Table};
use rubato_node::grid::GridFigures;
use rubato_storage::Faults as StoreFaults;

impl World<'_> {
    /// The run may have come to its next phase.
    pub(super) fn enter_next_phase(&mut self) -> Result<(), Violation> {
        let is_busy = |client: &crate::client::Client| {
            client.left > 0 || client.under_way.is_some() || client.rolls_back || client.is_connected
        };
        let busy = self.clients.iter().any(is_busy) || !self.operator.is_done();
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
                self.end_all_lives()?;
                Phase::RestingAgain
            }
            Phase::RestingAgain if self.is_at_rest()? => {
                self.read_everything();
                Phase::ReadingAgain
            }
            Phase::ReadingAgain if !busy && self.is_at_rest()? => Phase::Over,
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
        let told = self.sites.iter().map(|site| {
            let figures = site.running.as_ref().map(|running| running.node.figures());
            figures.map_or("down".into(), described)
        });
        let told: Vec<String> = told.collect();
        let what = format!("{:?} for a minute: {}", self.phase, told.join("; "));
        Err(Violation::new("no rest", what))
    }

    fn calm_down(&mut self) {
        self.network.heal();
        for site in &self.sites {
            site.disk.power.stays();
            site.disk.rows.set_faults(StoreFaults::default());
        }
    }

    /// Whether all members are up and connected, and know what there is.
    pub(super) fn all_are_ready(&self) -> bool {
        let members = &self.sites[self.first].members;
        members.iter().all(|node| {
            let running = self.sites[node.0 as usize].running.as_ref();
            let figures = running.map(|running| running.node.figures());
            let mut others = members.iter().filter(|other| *other != node);
            figures.is_some_and(|figures| figures.is_born && figures.has_catalogs)
                && others.all(|other| self.network.is_up(*node, *other))
        })
    }

    /// Every transaction is decided everywhere: nobody holds anything for anybody.
    fn is_at_rest(&self) -> Result<bool, Violation> {
        if !self.all_are_ready() {
            return Ok(false);
        }
        for running in self.sites.iter().filter_map(|site| site.running.as_ref()) {
            let figures = running.node.figures();
            if figures.node.protocol.fold_failures > 0 {
                return Err(Violation::new("a blind formula failed", described(figures)));
            }
            let held = figures.open_transactions + figures.open_branches + figures.prepared + figures.undone_decisions;
            if held + figures.node.live_transactions + figures.node.pending_bytes > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All nodes go down, and what they leave can be recovered: all of it, if their logs are forced before.
    fn end_all_lives(&mut self) -> Result<(), Violation> {
        let is_forced = self.random.uniform(0, 1) == 0;
        let members = self.sites[self.first].members.clone();
        let (mut rows, mut entries) = (0, 0);
        for at in 0..self.sites.len() {
            if let Some(running) = self.sites[at].running.as_ref().filter(|_| is_forced) {
                let forced = running.node.force();
                forced.map_err(|error| Violation::new("not forced at rest", error.to_string()))?;
            }
            self.go_down(at);
            let found = self.verify_disk(at)?;
            if members.contains(&self.sites[at].id()) {
                (rows, entries) = (rows + found.rows, entries + found.index_entries);
            }
        }
        let read = |table: Table| self.rows_read(table);
        let expected = (Table::ALL.into_iter().map(read).sum::<u64>(), read(Table::Member));
        // (Of a table with copies each node has all rows, and a table's twin is not read.)
        if is_forced && self.plan.copied.is_none() && !self.plan.has_twin() && (rows, entries) != expected {
            let what = format!("the disks of all have {rows} rows and {entries} entries, {expected:?} were read");
            return Err(Violation::new("rows and entries", what));
        }
        Ok(())
    }

    /// How many rows of a table were there when all was read last.
    fn rows_read(&self, table: Table) -> u64 {
        let steps = (self.history.transactions.iter().rev()).flat_map(|transaction| &transaction.steps);
        let mut counts = steps.filter_map(|step| match step {
            Step::ReadAll(of, rows) if *of == table => Some(rows.len() as u64),
            _ => None,
        });
        counts.next().unwrap_or(0)
    }

    /// From now on nothing of unknown outcome can take effect any more.
    fn end_unknown(&mut self) {
        let ended = self.next_moment();
        for mut transaction in std::mem::take(&mut self.unknown) {
            transaction.ended = ended;
            self.history.transactions.push(transaction);
        }
    }

    /// Everything is read as often as there are nodes, each time at another one if that can be.
    fn read_everything(&mut self) {
        self.clients[0].left = self.sites[self.first].members.len();
        self.act_in(1, 0);
    }
}

fn described(figures: GridFigures) -> String {
    format!(
        "born {}, catalogs {}, {} transactions, {} branches ({} prepared), {} decisions, {} live, {} bytes pending, {} fold failures",
        figures.is_born,
        figures.has_catalogs,
        figures.open_transactions,
        figures.open_branches,
        figures.prepared,
        figures.undone_decisions,
        figures.node.live_transactions,
        figures.node.pending_bytes,
        figures.node.protocol.fold_failures
    )
}
