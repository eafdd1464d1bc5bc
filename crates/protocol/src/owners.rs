//! Who owns a transaction, a session or the participant of a grid, and how its owner hears of it: that its wait is over, and that it
//! was rolled back without being asked.
//!
//! Sessions and branches work on the same rows, and wait for each other. Each kind has a queue of its own, so that whoever empties
//! one cannot lose what is in the other.

use crate::database::FormulaDatabase;
use crate::transaction::Transaction;
use rubato_base::{Error, SessionId, TableId, Timestamp, TransactionId};

/// A session's transaction that was rolled back before its session knew of it.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    /// Why.
    pub(crate) error: Error,
    /// Where it began.
    pub(crate) begun: Timestamp,
    /// Who waits for the session to have heard of it: it has to undo what is not rows.
    waiters: Vec<TransactionId>,
}

impl FormulaDatabase {
    /// Transactions of sessions whose wait is over: run their statement again. Branches are in a queue of their own
    /// ([`FormulaDatabase::take_woken_branches`]).
    pub fn take_woken(&mut self) -> Vec<(TransactionId, SessionId)> {
        std::mem::take(&mut self.woken)
    }

    /// Branches whose wait is over: their participant goes on with them.
    pub fn take_woken_branches(&mut self) -> Vec<TransactionId> {
        std::mem::take(&mut self.woken_branches)
    }

    /// Whether a participant has something to do that it was not asked for: a branch was woken or doomed, or has come to wait.
    pub fn has_news_of_branches(&self) -> bool {
        !self.woken_branches.is_empty() || !self.doomed_branches.is_empty() || self.has_spread_waits()
    }

    /// Branches that were doomed since the last call: their participant rolls them back.
    pub fn take_doomed_branches(&mut self) -> Vec<TransactionId> {
        std::mem::take(&mut self.doomed_branches)
    }

    /// Rolls back the transactions of sessions that were doomed in a grid, without waiting for their owners.
    ///
    /// Rule Q-8: each session is told the reason when it comes to the rows again, or to COMMIT: every call gives
    /// [`crate::Stop::Abort`] until it has rolled the transaction back itself.
    pub fn roll_back_doomed(&mut self) {
        while let Some(transaction) = self.doomed.pop() {
            let Some(error) = self.doom_of(transaction).cloned() else {
                continue;
            };
            self.lose(transaction, error);
        }
    }

    /// Why a session's transaction was rolled back that does not know of it yet.
    pub fn loss_of(&self, transaction: TransactionId) -> Option<&Error> {
        self.lost.get(&transaction).map(|lost| &lost.error)
    }

    /// Which sessions wait for rows, and each for whose transaction.
    pub fn waiting_sessions(&self) -> impl Iterator<Item = (SessionId, SessionId)> + '_ {
        let of_session = |t: &Transaction| (t.session != SessionId::default()).then_some(t.session);
        self.transactions.iter().filter_map(move |t| {
            let owner = self.transactions.get(t.waiting_for?)?;
            Some((of_session(t)?, of_session(owner)?))
        })
    }

    /// A session's transaction becomes a branch; false if it has ended, must be rolled back, is one already, or did not begin at the
    /// tick.
    pub(crate) fn adopt(&mut self, transaction: TransactionId, tick: Timestamp) -> bool {
        let own = |t: &&mut Transaction| t.begun == tick && t.doomed.is_none() && !t.is_branch && !t.is_adopted;
        match self.transactions.get_mut(transaction).filter(own) {
            Some(t) => t.is_adopted = true,
            None => return false,
        }
        // Rule Q-5: who waits for it waited for one that was here alone.
        self.note_waits_behind(transaction);
        true
    }

    /// Whether an adopted transaction waits for what its coordinator has asked, and not for a statement of its session.
    pub(crate) fn wait_for_coordinator(&mut self, transaction: TransactionId, waits: bool) {
        if let Some(t) = self.transactions.get_mut(transaction).filter(|t| t.is_adopted) {
            t.is_branch = waits;
        }
    }

    /// Rolls a session's transaction back, and keeps the reason for the session.
    pub(crate) fn lose(&mut self, transaction: TransactionId, error: Error) {
        let Some((begun, session)) = self.transactions.get(transaction).map(|t| (t.begun, t.session)) else {
            return;
        };
        // Its session waits for rows, or beside them, and has to hear of it.
        if self.waits_for(transaction).is_some() || self.waits_beside.contains_key(&session) {
            self.stop_waiting(transaction);
            self.tell_owner(transaction);
        }
        let own = self.closed.iter().filter(|(_, owner)| **owner == transaction);
        let closed: Vec<TableId> = own.map(|(table, _)| *table).collect();
        self.rollback(transaction);
        // (One that is prepared stays.)
        if self.transactions.is_live(transaction) {
            return;
        }
        let waiters = Vec::new();
        self.lost.insert(transaction, Lost { error, begun, waiters });
        // Its session has still to take back what it did to their definitions.
        for table in closed {
            self.closed.entry(table).or_insert(transaction);
        }
    }

    /// The session of an adopted transaction has rolled it back, and wants to hear nothing more of it: it is a branch like others, until
    /// its coordinator's word has come.
    pub fn leave(&mut self, transaction: TransactionId) {
        match self.transactions.get_mut(transaction).filter(|t| t.is_adopted) {
            Some(t) => (t.is_adopted, t.is_branch) = (false, true),
            None => self.forget_lost(transaction),
        }
    }

    /// The session has heard that its transaction is lost, and has undone what it did beside rows.
    pub(crate) fn forget_lost(&mut self, transaction: TransactionId) {
        self.closed.retain(|_, owner| *owner != transaction);
        let waiters = self.lost.remove(&transaction).map_or(Vec::new(), |lost| lost.waiters);
        for waiter in waiters {
            self.wake(waiter, transaction);
        }
    }

    /// Has a transaction wait until the session of a lost one has heard of it; false if that one is not lost.
    pub(crate) fn wait_for_lost(&mut self, transaction: TransactionId, lost: TransactionId) -> bool {
        let Some(found) = self.lost.get_mut(&lost) else {
            return false;
        };
        found.waiters.push(transaction);
        if let Some(t) = self.transactions.get_mut(transaction) {
            t.waiting_for = Some(lost);
        }
        true
    }

    /// Tells a transaction's owner that its wait is over, if it waits for `ended`.
    pub(crate) fn wake(&mut self, waiter: TransactionId, ended: TransactionId) {
        let Some(t) = self.transactions.get_mut(waiter) else {
            return;
        };
        if t.waiting_for == Some(ended) {
            t.waiting_for = None;
            self.tell_owner(waiter);
        }
    }

    /// Rule A-4: a wake goes to whoever owns the transaction, a session or the participant.
    pub(crate) fn tell_owner(&mut self, transaction: TransactionId) {
        match self.transactions.get(transaction) {
            Some(t) if t.is_branch => self.woken_branches.push(t.id),
            Some(t) => self.woken.push((t.id, t.session)),
            None => {}
        }
    }
}
