//! What other nodes confirm before an error or rows are told: that it was drawn from nothing that another transaction has taken back, and
//! from one state of all nodes (rule Q-7).

use super::conversation::FarRows;
use super::line::Purpose;
use rubato_base::{NodeId, TableId, Timestamp};
use rubato_protocol::Outcome;
use rubato_protocol::grid::Operation;
use std::collections::BTreeSet;

/// Who was asked.
#[derive(Debug, Default)]
pub(super) struct Confirming {
    /// Of what is to be told, or was last.
    round: u32,
    asked: BTreeSet<NodeId>,
    owing: BTreeSet<NodeId>,
}

impl Confirming {
    /// A node has confirmed what it was asked in the round.
    pub(super) fn on_answer(&mut self, node: NodeId, round: u32) {
        if round == self.round {
            self.owing.remove(&node);
        }
    }

    /// Nothing is asked: what comes of earlier rounds comes too late.
    pub(super) fn end(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        self.round = self.round.wrapping_add(1);
        self.asked.clear();
        self.owing.clear();
    }
}

impl FarRows {
    /// Has these nodes confirm what the transaction has read there, at a place.
    ///
    /// Errors: [`rubato_protocol::Stop::Wait`] until all have; [`rubato_protocol::Stop::Abort`] if it was not so.
    pub fn confirm(&mut self, nodes: &[NodeId], at: Timestamp) -> Outcome<()> {
        self.check()?;
        for node in nodes {
            if self.confirming.asked.insert(*node) {
                self.confirming.owing.insert(*node);
                let purpose = Purpose::Confirmed(self.confirming.round);
                self.give(*node, purpose, Operation::Confirm { at });
            }
        }
        if !self.confirming.owing.is_empty() {
            return Err(super::conversation::wait_for(TableId(0)));
        }
        self.confirming.end();
        Ok(())
    }
}
