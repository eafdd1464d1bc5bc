//! What a join that goes from node to node has to know of where rows are.

use super::Rows;
use rubato_base::{NodeId, TableId};
use rubato_protocol::KeyRange;

/// The nodes of a relay join, this one among them, in ascending order.
pub(crate) type RelayNodes = Vec<NodeId>;

impl Rows<'_> {
    /// The nodes that have rows of these storages, if all of these lie on the same ones and on more than one, and a join may go from
    /// node to node now: what belongs to one row of a statement reads rows.
    pub(crate) fn relay_nodes(&self, storages: impl Iterator<Item = TableId>) -> Option<RelayNodes> {
        let far = self.far.as_ref().filter(|far| far.may_relay())?;
        far.whereabouts().own_node()?;
        let mut all: Option<RelayNodes> = None;
        for storage in storages {
            let mut nodes = self.relay_holders(storage, &KeyRange::WHOLE);
            nodes.sort_unstable();
            if all.as_ref().is_some_and(|all| *all != nodes) {
                return None;
            }
            all = Some(nodes);
        }
        all.filter(|all| all.len() > 1)
    }

    /// These nodes with all that have anything of these storages: entries of an index may lie on more nodes than the rows of its table, which are
    /// on as many as it has ranges.
    pub(crate) fn with_holders(&self, mut nodes: RelayNodes, storages: impl Iterator<Item = TableId>) -> RelayNodes {
        nodes.extend(storages.flat_map(|storage| self.relay_holders(storage, &KeyRange::WHOLE)));
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// What is read from now on belongs to an expression, or does not any more; says what was so before. Who waits within one begins its
    /// query anew, and finds what was read: a round of a relay join would be another one.
    pub(crate) fn is_within_expression(&mut self, is_within: bool) -> bool {
        let far = self.far.as_deref_mut();
        far.is_some_and(|far| std::mem::replace(&mut far.within_expression, is_within))
    }

    /// The nodes of a relay join that may have rows with keys of the range.
    pub(crate) fn relay_holders(&self, storage: TableId, range: &KeyRange) -> RelayNodes {
        let Some(far) = &self.far else { return Vec::new() };
        let own = far.whereabouts().own_node();
        let nodes = far.whereabouts().nodes_of(storage, range).into_iter();
        nodes.filter_map(|node| node.or(own)).collect()
    }

    /// Whether a node is this one.
    pub(crate) fn is_own_node(&self, node: NodeId) -> bool {
        let far = self.far.as_ref();
        far.is_some_and(|far| far.whereabouts().own_node() == Some(node))
    }

    /// How the rows of a storage lie, for other nodes.
    pub(crate) fn places(&self, storage: TableId) -> Option<Vec<u8>> {
        self.far.as_ref()?.whereabouts().places(storage)
    }

    /// Whether all rows whose keys are alike in so many first columns are on one node.
    pub(crate) fn lies_by(&self, storage: TableId, columns: usize) -> bool {
        let far = self.far.as_ref();
        far.is_some_and(|far| far.whereabouts().lies_by(storage, columns))
    }

    /// The number of a round of a relay join that is asked of these nodes: the one that was asked for last, unless an answer to it has been
    /// forgotten, as all are when a statement ends or rows of it are undone. Then it is a new one, in which all nodes read the same again.
    pub(crate) fn round_of(&mut self, asked: Option<u32>, nodes: &[NodeId]) -> u32 {
        let Some(far) = self.far.as_deref_mut() else { return 0 };
        // What belongs to a row finds its answers with the row's calls.
        let is_call = |round| far.is_within_row() && !far.seen.has_any_of_round(round);
        match asked {
            Some(round) if far.seen.knows_round(round, nodes) || is_call(round) => round,
            forgotten => {
                forgotten.iter().for_each(|round| far.seen.forget_round(*round));
                far.next_round()
            }
        }
    }

    /// All answers of a round have been taken.
    pub(crate) fn end_round(&mut self, round: u32) {
        if let Some(far) = self.far.as_deref_mut() {
            far.seen.forget_round(round);
        }
    }
}
