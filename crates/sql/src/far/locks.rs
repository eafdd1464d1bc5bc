//! Locks of rows of other nodes that are asked for before their turn.

use super::Rows;
use rubato_base::{ColumnSet, Key, NodeId, TableId};
use rubato_protocol::grid::Operation;

/// Rows that a statement locks one after the other, in its own order, where they are on several nodes: of more it asks for all at once.
///
/// Those who lock in an order that they have agreed on (by key, mostly) wait in no circle so. It costs a way there and back for each change
/// of nodes (decision 0059).
pub(crate) const LOCKED_IN_ORDER_MAX: usize = 8;

impl Rows<'_> {
    /// As [`Rows::want`], for what is soon read as [`Rows::read_for_update`] does by whoever queues, in this order. `in_order`: no more of
    /// them than the first ones that one other node has.
    pub(crate) fn want_locks<'k>(
        &mut self,
        locks: impl IntoIterator<Item = (TableId, &'k [u8], ColumnSet)>,
        in_order: bool,
    ) {
        let mut node = None;
        for (table, key, columns) in locks {
            let own = self.node_of_lock(table, key);
            if in_order && (own.is_none() || (node.is_some() && node != own)) {
                return;
            }
            node = own;
            if let (Some(node), Some(far)) = (own, self.far())
                && !far.is_within_row()
            {
                let key = Key::from_bytes(key);
                far.want(node, Operation::Lock { table, key, columns });
            }
        }
    }

    /// The other node that locks the row, if one does and it stays there.
    fn node_of_lock(&mut self, table: TableId, key: &[u8]) -> Option<NodeId> {
        match self.is_here(table, key) || self.moving(table, key).is_some() {
            true => None,
            false => self.queue_of(table, key).map(|(_, node)| node),
        }
    }
}
