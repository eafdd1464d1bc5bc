//! What a participant says so that circles of waits over several partitions are found (rule Q-5).

use super::{Branch, Participant};
use crate::database::FormulaDatabase;
use crate::grid::message::{Body, Outgoing, Reply};
use crate::grid::probe::{Probe, Waiter};
use crate::rules::{Rule, is_kept};
use rubato_base::{GlobalId, Lsn};

impl Participant {
    /// Tells the coordinators of branches that have come to wait for others, and of those.
    pub(super) fn tell_waits(&mut self, database: &mut FormulaDatabase) {
        for wait in database.take_spread_waits() {
            let global_of = |transaction| self.by_transaction.get(transaction).copied();
            let (Some(waiter), Some(ahead)) = (global_of(&wait.waiter), global_of(&wait.ahead)) else {
                continue;
            };
            if !is_kept(Rule::Q5) {
                continue;
            }
            let is_known = |branch: &mut Branch| std::mem::replace(&mut branch.waits, true) && !wait.is_new;
            if !self.branches.get_mut(&waiter).is_none_or(is_known) {
                self.reply(waiter, Reply::Waits, Lsn(0));
            }
            let is_known = |branch: &mut Branch| std::mem::replace(&mut branch.is_awaited, true);
            if !self.branches.get_mut(&ahead).is_none_or(is_known) {
                self.reply(ahead, Reply::Awaited, Lsn(0));
            }
        }
    }

    /// A probe asks who stands ahead of the branch: it goes on to that one's coordinator, or has found a circle or a line that is too long.
    pub(super) fn on_probe(&mut self, database: &FormulaDatabase, global: GlobalId, probe: Probe) {
        let Some(transaction) = self.branches.get(&global).map(|branch| branch.transaction) else {
            return;
        };
        let waiter = Waiter {
            transaction: global,
            at: self.node,
        };
        let ahead = database.spread_ahead(transaction);
        let ahead: Vec<GlobalId> = (ahead.iter().filter_map(|ahead| self.by_transaction.get(ahead).copied())).collect();
        let Some(probe) = probe.step(waiter, ahead.len() as u32) else {
            return;
        };
        for (transaction, waiting) in ahead.into_iter().filter_map(|ahead| probe.clone().go_on(ahead)) {
            let (to, body) = (transaction.coordinator, Body::Waiting(waiting));
            self.outgoing.push(Outgoing::at_once(to, transaction, body));
        }
    }
}
