//! What a transaction tells other nodes of the definitions that it changes.
//!
//! It is told once for the whole transaction, not for a row or a statement: what is asked again finds its answer. Storage that the
//! transaction makes is made on another node before that is asked for anything else.

use rubato_base::{NodeId, TableId};
use rubato_protocol::grid::{Answer, Operation};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    told: Vec<Told>,
    /// Storage that the transaction has made, wherever its rows will be.
    created: Vec<TableId>,
    /// How many of it each node has made, or is about to.
    made: BTreeMap<NodeId, usize>,
}

#[derive(Debug)]
struct Told {
    node: NodeId,
    operation: Operation,
    answer: Option<Answer>,
}

impl Definitions {
    /// The place of this operation, if the node has been told of it and of nothing else about the same since.
    pub(super) fn find(&self, node: NodeId, operation: &Operation) -> Option<usize> {
        let is_about_the_same = |told: &Told| {
            told.node == node
                && discriminant(&told.operation) == discriminant(operation)
                && told.operation.table() == operation.table()
        };
        let last = self.told.iter().rposition(is_about_the_same)?;
        (self.told[last].operation == *operation).then_some(last)
    }

    /// The node is told of it: its place.
    pub(super) fn push(&mut self, node: NodeId, operation: Operation) -> usize {
        let answer = None;
        self.told.push(Told {
            node,
            operation,
            answer,
        });
        self.told.len() - 1
    }

    /// What the node has answered.
    pub(super) fn answer(&self, at: usize) -> Option<&Answer> {
        self.told.get(at)?.answer.as_ref()
    }

    /// A node's answer has come.
    pub(super) fn on_answer(&mut self, at: usize, answer: Answer) {
        if let Some(told) = self.told.get_mut(at) {
            told.answer = Some(answer);
        }
    }

    /// The transaction has made storage whose rows may be on other nodes.
    pub(super) fn create(&mut self, storage: TableId) {
        self.created.push(storage);
    }

    /// What the node has to make before it is asked for anything else.
    pub(super) fn take_uncreated(&mut self, node: NodeId) -> Option<Operation> {
        if self.created.is_empty() {
            return None;
        }
        let made = self.made.entry(node).or_insert(0);
        let storage = self.created[*made..].to_vec();
        *made = self.created.len();
        (!storage.is_empty()).then_some(Operation::Create { storage })
    }

    /// Whether there is such a thing.
    pub(super) fn is_uncreated(&self, node: NodeId) -> bool {
        self.made.get(&node).copied().unwrap_or(0) < self.created.len()
    }

    /// The nodes whose part of the transaction is not rows alone.
    pub(super) fn nodes(&self) -> BTreeSet<NodeId> {
        let made = self.made.keys().copied();
        self.told.iter().map(|told| told.node).chain(made).collect()
    }
}
