//! Rows of which several nodes have a copy each: they are read where the statement runs, and changed on all nodes.

use super::Rows;
use rubato_base::{ColumnSet, Error, Key, NodeId, TableId, TransactionId};
use rubato_protocol::grid::{Answer, Operation};
use rubato_protocol::{OnBusy, Outcome, Stop};

impl Rows<'_> {
    /// The nodes that have a copy of each row of the storage, if several have; `None` among them is this one.
    pub(super) fn copies(&self, storage: TableId) -> Option<Vec<Option<NodeId>>> {
        let copies = self.far.as_ref()?.whereabouts().copies(storage);
        (!copies.is_empty()).then(|| copies.to_vec())
    }

    /// Changes a row on all nodes; gives what the first of them answers. That one is asked first: who changes the row too waits there,
    /// and whoever has come through finds nobody on the others. A row that is there already stays as it is on all.
    pub(super) fn change_copies(
        &mut self,
        transaction: TransactionId,
        nodes: &[Option<NodeId>],
        place: (TableId, &Key),
        operation: &Operation,
    ) -> Outcome<Answer> {
        if let ([None, ..], Operation::Insert { .. }) = (nodes, operation) {
            // What is inserted here is undone while the others are asked. The place on the key stays, and with it that it is free.
            let (table, key) = (place.0, place.1.as_bytes());
            self.here
                .read_for_update(transaction, table, key, ColumnSet::EXISTENCE, OnBusy::Queue)?;
        }
        let mut given = None;
        let mut wait = None;
        for node in nodes {
            let answer = match self.change_on(transaction, *node, place, operation) {
                // The others are asked meanwhile.
                Err(Stop::Wait(own)) if given.is_some() => {
                    wait.get_or_insert(own);
                    continue;
                }
                outcome => outcome?,
            };
            let is_there = matches!((operation, &answer), (Operation::Insert { .. }, Answer::Row(Some(_))));
            if given.is_none() && is_there {
                return Ok(answer);
            }
            if is_there {
                return Err(Error::internal(
                    "a row is on one node of those that have copies of it, and not on the first",
                )
                .into());
            }
            given.get_or_insert(answer);
        }
        match (wait, given) {
            (Some(wait), _) => Err(Stop::Wait(wait)),
            (None, Some(answer)) => Ok(answer),
            (None, None) => Err(Error::internal("copies of rows that no node has").into()),
        }
    }

    /// Changes a row on one node; `None` is this one.
    pub(super) fn change_on(
        &mut self,
        transaction: TransactionId,
        node: Option<NodeId>,
        place: (TableId, &Key),
        operation: &Operation,
    ) -> Outcome<Answer> {
        let (Some(node), Some(far)) = (node, self.far.as_deref_mut()) else {
            return operation.run(self.here, transaction);
        };
        far.change(node, place, operation.clone())
    }
}
