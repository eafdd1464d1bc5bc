//! Circles of waits that lead through advisory locks and through rows: neither the locks nor the rows see them alone.

use super::Session;
use super::pause::Pause;
use crate::partition::Partition;
use rubato_base::{Error, SessionId, SqlState};
use rubato_protocol::Stop;
use std::collections::{BTreeMap, BTreeSet};

impl Session {
    /// Why the statement under way stops: 40P01 where it would wait for itself, through what others wait for, and 40001 where it would wait
    /// for a lock and its transaction is lost (rule Q-8).
    pub(super) fn or_deadlock(&mut self, stop: Stop, partition: &mut Partition) -> Stop {
        if let Some(lost) = self.lost_before_lock(&stop, partition) {
            return Stop::Abort(lost);
        }
        let waits = match &stop {
            Stop::Wait(_) => true,
            // It says that it cannot wait where it stands, and is begun again then.
            Stop::Fail(_) => self.pauses.pause.is_some_and(Pause::is_for_lock),
            Stop::Abort(_) => false,
        };
        if !waits || !partition.advisory.is_waited_for() || !waits_for_itself(self.id, partition) {
            return stop;
        }
        if self.pauses.pause.take().is_some_and(Pause::is_for_lock) {
            partition.advisory.stop_waiting(self.id);
        }
        if let Some(transaction) = &self.transaction {
            partition.database.stop_waiting(transaction.id);
        }
        if self.changes_definitions() {
            return Stop::Abort(changed_in_circle());
        }
        let error = Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
            .with_detail("The session waits for others that wait for it, through advisory locks and rows.")
            .with_hint("Take advisory locks and rows in the same order everywhere.");
        Stop::Fail(error)
    }

    /// What comes of a circle over several nodes that leads through an advisory lock: nothing else tells who waits for one.
    fn lost_before_lock(&mut self, stop: &Stop, partition: &mut Partition) -> Option<Error> {
        let for_lock = matches!(stop, Stop::Fail(_)) && self.pauses.pause.is_some_and(Pause::is_for_lock);
        let transaction = self.transaction.as_ref().filter(|_| for_lock)?;
        let lost = partition.database.loss_of(transaction.id)?.clone();
        self.pauses.pause = None;
        partition.advisory.stop_waiting(self.id);
        Some(lost)
    }
}

/// 40001, as changes of definitions that meet are told otherwise, too: one of them alone is run again by the server.
pub(super) fn changed_in_circle() -> Error {
    let message = "could not serialize access: changes of definitions wait for each other";
    Error::new(SqlState::SERIALIZATION_FAILURE, message)
}

fn waits_for_itself(session: SessionId, partition: &Partition) -> bool {
    let for_rows: BTreeMap<SessionId, SessionId> = partition.database.waiting_sessions().collect();
    let (mut seen, mut open) = (BTreeSet::new(), vec![session]);
    while let Some(waiter) = open.pop() {
        let for_locks = partition.advisory.blockers(waiter).into_iter();
        for other in for_locks.chain(for_rows.get(&waiter).copied()) {
            if other == session {
                return true;
            }
            if seen.insert(other) {
                open.push(other);
            }
        }
    }
    false
}
