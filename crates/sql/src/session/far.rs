//! The part of a session's transaction that is on other nodes: what it asks them, what it hears, and how all of it commits.

use super::block::OpenTransaction;
use super::{Block, Session};
use crate::far::{FarRows, Mark, Rows, stop_of};
use crate::grid::FarTold;
use crate::partition::Partition;
use crate::statement::{Statement, Utility};
use rubato_base::{Error, Lsn, SqlState, TableId, TransactionId};
use rubato_protocol::grid::Ending;
use rubato_protocol::{Outcome, Stop, Wait, WaitReason};

/// For what other nodes are to do: nobody in particular has to end first.
pub(super) const FOR_OTHERS: Wait = Wait {
    owner: TransactionId(0),
    table: TableId(0),
    reason: WaitReason::Elsewhere,
};

impl OpenTransaction {
    /// Whether it was over several nodes, and is not any more.
    pub(super) fn has_ended(&self) -> bool {
        self.far.as_ref().is_some_and(|far| far.end().is_some())
    }

    /// Why it was rolled back without having been asked to.
    pub(super) fn why_ended(&self) -> Option<Error> {
        match self.far.as_ref()?.end()? {
            (Ending::RolledBack(error), _) => Some(error.clone()),
            _ => None,
        }
    }
}

fn rows_of<'a>(transaction: &'a mut OpenTransaction, partition: &'a mut Partition) -> Rows<'a> {
    Rows::new(&mut partition.database, transaction.far.as_deref_mut())
}

impl Session {
    /// Lets the open transaction know where rows are now. Called before each of its statements: tables may have come meanwhile.
    pub(super) fn see_whereabouts(&mut self, partition: &Partition) {
        let Some(transaction) = self.transaction.as_mut().filter(|open| open.has_tick) else {
            return;
        };
        let (desk, made) = (partition.grid.as_ref(), &transaction.placed_by);
        let Some(whereabouts) = desk.and_then(|desk| desk.whereabouts(&partition.databases, made)) else {
            return;
        };
        match &mut transaction.far {
            Some(far) => far.see(whereabouts),
            None => transaction.far = Some(Box::new(FarRows::new(whereabouts))),
        }
    }

    /// A statement begins in the transaction: how it goes back to here.
    pub(super) fn begin_statement(&mut self, id: TransactionId, partition: &mut Partition) -> Mark {
        if let Some(far) = self.transaction.as_mut().and_then(|open| open.far.as_mut()) {
            far.end_statement();
        }
        self.mark(id, partition)
    }

    /// Where the transaction stands.
    pub(super) fn mark(&mut self, id: TransactionId, partition: &mut Partition) -> Mark {
        let far = self.transaction.as_mut().and_then(|open| open.far.as_deref_mut());
        Rows::new(&mut partition.database, far).mark(id)
    }

    /// Undoes a statement of the open transaction.
    pub(super) fn undo_to(&mut self, mark: &Mark, partition: &mut Partition) {
        if let Some(transaction) = &mut self.transaction {
            let id = transaction.id;
            rows_of(transaction, partition).undo(id, mark);
        }
    }

    /// Whether other nodes have rows of the storage.
    pub(super) fn is_on_others(&self, storage: TableId) -> bool {
        let far = self.transaction.as_ref().and_then(|open| open.far.as_ref());
        far.is_some_and(|far| far.whereabouts().is_on_others(storage))
    }

    /// Takes what other nodes have answered.
    pub(super) fn hear_others(&mut self, partition: &Partition) {
        let Some(far) = self.transaction.as_mut().and_then(|open| open.far.as_mut()) else {
            return;
        };
        let Some(desk) = partition.grid.as_ref().filter(|_| far.has_begun()) else {
            return;
        };
        for told in desk.take_told(self.id) {
            match told {
                FarTold::Answer(node, answer) => far.on_answer(node, answer),
                FarTold::Ended(ending, durable_at) => far.on_end(ending, durable_at),
                FarTold::Called(call) => {
                    if let Some(way) = &mut self.way {
                        way.on_call(&call);
                    }
                }
            }
        }
    }

    /// Asks them what is to be asked next.
    pub(super) fn ask_others(&mut self, partition: &mut Partition) {
        if self.holds_questions {
            return;
        }
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        let (Some(far), Some(desk)) = (&mut transaction.far, &partition.grid) else {
            return;
        };
        let questions = far.take_questions();
        if !questions.is_empty() {
            let who = (self.id, transaction.id);
            desk.operate(who, questions, &mut partition.database);
        }
    }

    /// Before an error is told: those must have committed whose formulas the transaction has read through, on all nodes, and it must
    /// have been so what was seen (rule Q-7).
    ///
    /// Errors: [`Stop::Wait`] until that is known; [`Stop::Abort`] if it was never so.
    pub(super) fn confirm_read_through(&mut self, partition: &mut Partition) -> Outcome<()> {
        let Some(id) = self.transaction.as_ref().map(|transaction| transaction.id) else {
            return Ok(());
        };
        partition.database.settle_read_through(id)?;
        self.confirm_on_all_nodes(true, partition)
    }

    /// Before rows, or how many there were, are told in a block: what the transaction has seen on several nodes was so at one place (rule
    /// On one it sees nothing else.
    ///
    /// Errors: as [`Session::confirm_read_through`].
    pub(super) fn confirm_what_is_shown(&mut self, partition: &mut Partition) -> Outcome<()> {
        let current = self.current.as_ref();
        let shows_rows = current.is_some_and(|current| match &current.statement {
            Statement::Planned(_) => true,
            Statement::Utility(utility) => matches!(**utility, Utility::Copy(_) | Utility::Explain { .. }),
            Statement::Empty | Statement::Elsewhere => false,
        });
        match self.block == Block::Explicit && shows_rows {
            true => self.confirm_on_all_nodes(false, partition),
            false => Ok(()),
        }
    }

    fn confirm_on_all_nodes(&mut self, is_failing: bool, partition: &mut Partition) -> Outcome<()> {
        if !self.is_over_several_nodes() {
            return Ok(());
        }
        self.hear_others(partition);
        let (Some(open), Some(desk)) = (&mut self.transaction, &partition.grid) else {
            return Ok(());
        };
        // Nothing where it has ended, which is told below.
        let own = partition.database.snapshot(open.id).unwrap_or_default();
        let (at, nodes) = desk.to_confirm(self.id, own, is_failing);
        let (id, asked) = (open.id, open.far.as_mut().map(|far| far.confirm(&nodes, at)));
        if matches!(asked, Some(Err(Stop::Wait(_)))) {
            self.ask_others(partition);
        }
        asked.transpose()?;
        partition.database.confirm_at(id, at)
    }

    /// Whether the transaction is on several nodes.
    pub(super) fn is_over_several_nodes(&self) -> bool {
        let far = self.transaction.as_ref().and_then(|open| open.far.as_ref());
        far.is_some_and(|far| far.has_begun())
    }

    /// Whether all nodes are committing the transaction: nothing stops that any more.
    pub(super) fn commits_far(&self) -> bool {
        self.transaction.as_ref().is_some_and(|open| open.commits_far)
    }

    /// Has the nodes give up the commit, for it has taken too long or was cancelled. False if it may be decided.
    pub(super) fn gives_up_commit(&mut self, partition: &Partition) -> bool {
        let desk = partition.grid.as_ref();
        let is_given_up = desk.is_some_and(|desk| desk.give_up_commit(self.id));
        if let (true, Some(transaction)) = (is_given_up, &mut self.transaction) {
            transaction.commits_far = false;
        }
        is_given_up
    }

    /// Commits on all nodes. Waits until it is known how that ended.
    ///
    /// Errors: [`Stop::Abort`] if it was rolled back for another transaction; 08007 if nobody knows.
    pub(super) fn commit_on_all_nodes(&mut self, partition: &mut Partition) -> Outcome<()> {
        let durable_at = self.end_on_all_nodes(partition)?;
        self.raise_durable(durable_at);
        let cancelled = self.cancelled.take();
        self.cancelled_too_late(cancelled);
        // What is attached to its branch has said so.
        self.asked_id = None;
        if let Some(transaction) = self.transaction.take()
            && !transaction.is_attached
        {
            partition.schema_changes.end(transaction.id);
        }
        Ok(())
    }

    fn end_on_all_nodes(&mut self, partition: &mut Partition) -> Outcome<Lsn> {
        self.hear_others(partition);
        if let Some(far) = self.transaction.as_mut().and_then(|open| open.far.as_mut()) {
            far.take_back_all_later();
        }
        self.ask_others(partition);
        let lost = || Error::internal("a transaction over several nodes has lost its part");
        let transaction = self.transaction.as_mut().ok_or_else(lost)?;
        let Some(far) = &mut transaction.far else {
            return Err(lost().into());
        };
        match far.end() {
            Some((Ending::Committed(_), durable_at)) => return Ok(*durable_at),
            Some((Ending::RolledBack(error), _)) => return Err(stop_of(error.clone())),
            Some((Ending::Unknown, _)) => return Err(unknown().into()),
            None => {}
        }
        if transaction.commits_far || far.awaits_answers() {
            return Err(Stop::Wait(FOR_OTHERS));
        }
        if let Some(transaction) = &self.transaction {
            self.check_viewed(transaction, partition)?;
        }
        self.attach_on_all_nodes(partition)?;
        if let (Some(transaction), Some(desk)) = (&mut self.transaction, &partition.grid) {
            transaction.commits_far = true;
            desk.commit(self.id, &mut *partition.log);
        }
        Err(Stop::Wait(FOR_OTHERS))
    }

    /// Rolls back on all nodes; nobody waits for that. False if what is on this node has to be rolled back by itself.
    pub(super) fn roll_back_on_all(&self, transaction: &OpenTransaction, partition: &Partition) -> bool {
        let far = transaction.far.as_ref().filter(|far| far.has_begun());
        let (Some(_), Some(desk)) = (far, &partition.grid) else {
            return false;
        };
        desk.roll_back(self.id)
    }
}

pub(super) fn unknown() -> Error {
    let message = "it is not known whether the transaction has committed";
    Error::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message)
        .with_detail("The node that was to commit it was started again meanwhile.")
        .with_hint("Look whether its changes are there before you do it again.")
}
