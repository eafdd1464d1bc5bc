//! Changes of rows of other nodes, and new ones, that statements will make which a client has sent already, and whose turn has not come.
//!
//! A client that sends several statements together, each of which changes a row named by its key or adds one, would wait for one node after the
//! other: while the first of them waits, those behind it are asked for as well ([`crate::executor::changes_later`]), and find their answers.
//! With three remote rows an order, that is one way there and back in place of three.
//!
//! Invariants:
//! - A later change is done by its node behind all that was asked before it, and nothing else is asked of that node before its
//!   statement has made the same call; otherwise what was done for later statements there is taken back first. So the node does in
//!   their order what the statements do, or it is as if it had not been asked.
//! - A transaction does not commit with a change that no statement has made.

use super::ahead::BYTES_MAX;
use super::at_once::{blind, deleting, updating, upserting};
use super::{Elsewhere, Rows};
use rubato_base::{ColumnSet, Key, NodeId, Row, TableId};
use rubato_formula::{Formula, RowBounds};
use rubato_protocol::grid::{Answer, Operation};
use std::collections::VecDeque;

/// One of them.
#[derive(Debug)]
pub(super) struct LaterChange {
    pub(super) node: NodeId,
    pub(super) number: u32,
    operation: Operation,
    pub(super) answer: Option<Answer>,
}

/// Those that no statement has made yet, in the order of the statements.
#[derive(Debug, Default)]
pub(super) struct Later {
    changes: VecDeque<LaterChange>,
    /// What was asked since there was nothing to be asked.
    bytes: usize,
}

impl Later {
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether nothing more is asked for until there is nothing to be asked.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > BYTES_MAX
    }

    pub(super) fn push(&mut self, node: NodeId, number: u32, operation: Operation) {
        let answer = None;
        let before = if self.is_empty() { 0 } else { self.bytes };
        self.bytes = before + operation.bytes();
        self.changes.push_back(LaterChange {
            node,
            number,
            operation,
            answer,
        });
    }

    /// The next change on the node, if this is it, for the statement that makes it. One that its node has not done is to be asked for
    /// again.
    pub(super) fn claim(&mut self, node: NodeId, operation: &Operation) -> Option<LaterChange> {
        let at = self.changes.iter().position(|change| change.node == node)?;
        if self.changes[at].operation != *operation {
            return None;
        }
        let claimed = self.changes.remove(at);
        claimed.filter(|change| change.answer != Some(Answer::NotDone))
    }

    /// Forgets what is asked of the node: the first operation that is to be taken back, if there is one.
    pub(super) fn forget(&mut self, node: NodeId) -> Option<u32> {
        let first = self.changes.iter().find(|change| change.node == node)?.number;
        self.changes.retain(|change| change.node != node);
        Some(first)
    }

    /// The nodes that are asked for something, some of them more than once.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.changes.iter().map(|change| change.node)
    }

    /// Gives the answer back if its statement has made the change by now, or it was taken back.
    pub(super) fn on_answer(&mut self, (node, number): (NodeId, u32), answer: Answer) -> Option<Answer> {
        let mut changes = self.changes.iter_mut();
        match changes.find(|change| (change.node, change.number) == (node, number)) {
            Some(change) => {
                change.answer = Some(answer);
                None
            }
            None => Some(answer),
        }
    }
}

impl Rows<'_> {
    /// Whether the part of a row that is under way waits for this to be added by another node, and has asked nothing else.
    pub(crate) fn waits_for_insert(&self, storage: TableId, added: &Key) -> bool {
        let far = self.far.as_ref();
        far.and_then(|far| far.waits_for()).is_some_and(
            |operation| matches!(operation, Operation::Insert { table, key, .. } if (*table, key) == (storage, added)),
        )
    }

    /// As [`Rows::insert`], for a statement whose turn has not come, if one other node has the row.
    pub(crate) fn insert_later(&mut self, table: TableId, key: Key, row: Row) {
        self.change_later((table, &key.clone()), || Operation::Insert { table, key, row });
    }

    /// As [`Rows::upsert`], for a statement whose turn has not come, if one other node has the row.
    pub(crate) fn upsert_later(&mut self, place: (TableId, &Key), row: Row, formula: Formula) {
        self.change_later(place, || upserting(place, row, formula));
    }

    /// As [`Rows::delete_read`], for a statement whose turn has not come, if one other node has the row.
    pub(crate) fn delete_later(&mut self, place: (TableId, &Key)) {
        self.change_later(place, || deleting(place));
    }

    /// As [`Rows::update_read`], for a statement whose turn has not come, if one other node has the row.
    pub(crate) fn update_later(&mut self, place: (TableId, &Key), columns: ColumnSet, formula: &Formula) {
        self.change_later(place, || updating(place, columns, formula));
    }

    /// As [`Rows::update_blind`], for a statement whose turn has not come, if one other node has the row.
    pub(crate) fn update_blind_later(&mut self, place: (TableId, &Key), formula: Formula, bounds: &RowBounds) {
        self.change_later(place, || blind(place, formula, bounds));
    }

    fn change_later(&mut self, (table, key): (TableId, &Key), operation: impl FnOnce() -> Operation) {
        if let Some(Elsewhere::At(node)) = self.elsewhere(table, key.as_bytes())
            && let Some(far) = self.far.as_deref_mut()
        {
            far.change_later(node, operation());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(key: &[u8]) -> Operation {
        Operation::Delete {
            table: TableId(1),
            key: Key::from_bytes(key),
        }
    }

    #[test]
    fn a_change_is_found_by_whoever_makes_it_next_and_by_nobody_else() {
        let (one, other) = (NodeId(1), NodeId(2));
        let mut later = Later::default();
        for (number, node, key) in [(3, one, b"a"), (4, one, b"b"), (7, other, b"c"), (5, one, b"d")] {
            later.push(node, number, delete(key));
        }
        assert!(later.on_answer((one, 4), Answer::Done).is_none());
        assert_eq!(later.on_answer((one, 9), Answer::Done), Some(Answer::Done));
        assert!(later.claim(one, &delete(b"b")).is_none(), "it is not the next one");
        let claimed = later.claim(one, &delete(b"a"));
        assert!(claimed.is_some_and(|change| change.number == 3 && change.answer.is_none()));
        let claimed = later.claim(one, &delete(b"b"));
        assert!(claimed.is_some_and(|change| change.number == 4 && change.answer == Some(Answer::Done)));
        assert!(later.on_answer((one, 5), Answer::NotDone).is_none());
        assert!(later.claim(one, &delete(b"d")).is_none() && later.forget(one).is_none());
        assert_eq!(later.forget(other), Some(7));
        assert!(later.is_empty());
    }
}
