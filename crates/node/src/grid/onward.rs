//! Ticks, what all agree on, numbers of sequences and how transactions have ended, where two nodes do not reach each other: a third one
//! that reaches both carries it on.
//!
//! Without that a node that reaches all but the one that leads could begin no transaction, and others none on its rows.

use super::GridMessage;
use super::state::GridState;
use rubato_base::{Lsn, NodeId};
use rubato_grid::onward::{Onward, OnwardMessage};
use std::collections::BTreeMap;

/// Rounds for which a way is taken that was heard by. Without word of it others are tried, one after the other.
const HEARD_ROUNDS: u32 = 20;

/// By which nodes others are reached that cannot be reached themselves.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// Who has carried on something of a node, and so many rounds ago.
    heard: BTreeMap<NodeId, (NodeId, u32)>,
    /// Counts those that were tried.
    turn: usize,
}

impl Ways {
    /// Another round.
    pub(super) fn on_round(&mut self) {
        self.heard.retain(|_, (_, rounds)| {
            *rounds += 1;
            *rounds <= HEARD_ROUNDS
        });
    }
}

impl GridState {
    /// To whom a message goes, and as what: to whom it is for, if that node is reached. Who is refused by others, since it stands on an old
    /// folder, has nothing to say to them by way of those that do not know yet.
    pub(super) fn by_way_of_another(&mut self, to: NodeId, message: GridMessage) -> (NodeId, GridMessage) {
        if self.calls.is_up(to) || !self.settings.nodes.contains(&to) || self.retired.is_some() {
            return (to, message);
        }
        match (self.way_to(to), Onward::of(message)) {
            (Some(way), Ok(said)) => {
                let from = self.settings.id;
                (way, GridMessage::Onward(OnwardMessage { from, to, said }))
            }
            (None, Ok(said)) => (to, said.into()),
            (_, Err(message)) => (to, *message),
        }
    }

    /// Whether a node is not reached, and another one may reach it.
    pub(super) fn is_by_way_only(&self, node: NodeId) -> bool {
        node != self.settings.id && !self.calls.is_up(node) && self.has_way_to(node)
    }

    fn has_way_to(&self, to: NodeId) -> bool {
        let own = self.settings.id;
        let mut nodes = self.settings.nodes.iter();
        nodes.any(|node| *node != own && *node != to && self.calls.is_up(*node))
    }

    /// A node that may reach it.
    fn way_to(&mut self, to: NodeId) -> Option<NodeId> {
        if let Some((way, _)) = self.ways.heard.get(&to).filter(|(way, _)| self.calls.is_up(*way)) {
            return Some(*way);
        }
        let own = self.settings.id;
        let is_way = |node: &&NodeId| **node != own && self.calls.is_up(**node);
        let reached: Vec<NodeId> = self.settings.nodes.iter().filter(is_way).copied().collect();
        self.ways.turn = self.ways.turn.wrapping_add(1);
        reached.get(self.ways.turn.checked_rem(reached.len())?).copied()
    }

    /// Another node says something that is to be carried on, or has carried it on. Gives what it was, and of whom, if it is for this node.
    pub(super) fn on_onward(&mut self, by: NodeId, message: OnwardMessage) -> Option<(NodeId, GridMessage)> {
        let (own, nodes) = (self.settings.id, &self.settings.nodes);
        let OnwardMessage { from, to, .. } = message;
        if to == own && from != own && nodes.contains(&from) {
            self.ways.heard.insert(from, (by, 0));
            return Some((from, message.said.into()));
        }
        match from == by && nodes.contains(&to) && self.calls.is_up(to) {
            true => self.send(to, GridMessage::Onward(message), Lsn(0)),
            false => self.refused += 1,
        }
        None
    }
}
