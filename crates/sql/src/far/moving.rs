//! Rows that are on their way to another node: each is where it was, or where it comes to be (decision 0036).
//!
//! Whoever looks for one looks where it was first. A row goes there in one transaction with coming to be elsewhere, and never back: so at
//! any one snapshot it is on exactly one of the two, and who has a place in the queue where it was is in the way of its move.

use super::walk::walk_on;
use super::{Moving, Passage, Rows};
use rubato_base::{ColumnSet, Error, Key, NodeId, RowRef, TableId, TransactionId};
use rubato_protocol::grid::{Answer, Operation};
use rubato_protocol::{KeyRange, Outcome, ScanEnd, Stop};

impl Rows<'_> {
    /// Where a row is, if it is on its way.
    pub(crate) fn moving(&self, storage: TableId, key: &[u8]) -> Option<Moving> {
        self.far.as_ref()?.whereabouts().moving(storage, key)
    }

    /// The nodes from which rows of the storage move; `None` is this one.
    pub(crate) fn former_holders(&self, storage: TableId) -> Vec<Option<NodeId>> {
        let far = self.far.as_ref();
        far.map_or(Vec::new(), |far| far.whereabouts().former_holders(storage))
    }

    /// Reads or locks a row that is on its way.
    pub(super) fn ask_moving(
        &mut self,
        transaction: TransactionId,
        moving: Moving,
        operation: &Operation,
    ) -> Outcome<Answer> {
        if matches!(operation, Operation::Read { .. }) {
            self.want_moving(moving, operation);
        }
        match self.ask_on(transaction, moving.from, operation)? {
            Answer::Row(None) => self.ask_on(transaction, moving.to, operation),
            found => Ok(found),
        }
    }

    /// Both nodes are asked at once.
    pub(super) fn want_moving(&mut self, moving: Moving, operation: &Operation) {
        let Some(far) = self.far.as_deref_mut().filter(|far| !far.is_within_row()) else {
            return;
        };
        for node in [moving.from, moving.to].into_iter().flatten() {
            far.want(node, operation.clone());
        }
    }

    /// Changes a row that is on its way, where it is. A new one is made if it is on neither node.
    pub(super) fn change_moving(
        &mut self,
        transaction: TransactionId,
        moving: Moving,
        place: (TableId, &Key),
        operation: &Operation,
    ) -> Outcome<Answer> {
        let lock = Operation::Lock {
            table: place.0,
            key: place.1.clone(),
            columns: ColumnSet::EXISTENCE,
        };
        let is_new = matches!(operation, Operation::Insert { .. });
        let at_first = self.ask_on(transaction, moving.from, &lock)?;
        if is_new && at_first != Answer::Row(None) {
            return Ok(at_first);
        }
        if !is_new || moving.takes_new {
            let is_moved = at_first == Answer::Row(None);
            let node = if is_moved { moving.to } else { moving.from };
            return self.change_on(transaction, node, place, operation);
        }
        match self.ask_on(transaction, moving.to, &lock)? {
            Answer::Row(None) => self.change_on(transaction, moving.from, place, operation),
            found => Ok(found),
        }
    }

    /// Moves a row, within the part of a statement that belongs to it. Whether it was there.
    pub(crate) fn move_row(
        &mut self,
        transaction: TransactionId,
        moving: Moving,
        (table, key): (TableId, &Key),
    ) -> Outcome<bool> {
        self.touch(table, Some(key.as_bytes()), true);
        let lock = Operation::Lock {
            table,
            key: key.clone(),
            columns: ColumnSet::ALL,
        };
        let Answer::Row(Some(row)) = self.ask_on(transaction, moving.from, &lock)? else {
            return Ok(false);
        };
        let key = key.clone();
        let place = (table, &key.clone());
        self.change_on(
            transaction,
            moving.from,
            place,
            &Operation::Delete {
                table,
                key: key.clone(),
            },
        )?;
        match self.change_on(transaction, moving.to, place, &Operation::Insert { table, key, row })? {
            Answer::Row(None) => Ok(true),
            _ => Err(Stop::Fail(Error::internal("a row that moves is on two nodes"))),
        }
    }

    /// Visits the rows of a range that one node has; `None` is this one.
    pub(crate) fn pass_on(
        &mut self,
        transaction: TransactionId,
        node: Option<NodeId>,
        (table, range): (TableId, &KeyRange),
        visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
    ) -> Outcome<ScanEnd> {
        let how = Passage::plain(false, Some(ColumnSet::EXISTENCE));
        match self.far.as_deref_mut() {
            Some(far) => walk_on(vec![node], (self.here, far), transaction, (table, range), how, visit),
            None => self
                .here
                .scan(transaction, table, range, false, ColumnSet::EXISTENCE, visit),
        }
    }

    fn ask_on(&mut self, transaction: TransactionId, node: Option<NodeId>, operation: &Operation) -> Outcome<Answer> {
        match (node, self.far.as_deref_mut()) {
            (Some(node), Some(far)) => far.ask(node, operation.clone()),
            _ => operation.run(self.here, transaction),
        }
    }
}
