//! How all nodes come to have the catalogs that one of them commits.
//!
//! That node has the version of each change agreed on ([`crate::agreement`]), and then tells the change. Ticks come with the version
//! that is agreed on, and a node that lacks it asks all others: a transaction that begins after a schema change was acknowledged
//! finds it on every node (rule T-6).

use rubato_base::{NodeId, Timestamp};

/// What nodes say to each other about catalogs.
#[derive(Clone, Debug, PartialEq)]
pub enum CatalogMessage {
    /// The catalogs here are of this version, 0 if there are none: whoever has newer ones tells them.
    Have(u64),
    /// The catalogs of all databases at a version, in the form of the log.
    All {
        /// Counts the changes of all catalogs.
        version: u64,
        /// Whoever began at a later tick begins with them.
        last_tick: Timestamp,
        /// The databases with their catalogs.
        content: Vec<u8>,
    },
    /// Who says this has kept what there is once, and the node that hears it keeps it from now on.
    HandOver {
        /// Whoever began at a later tick begins with these catalogs.
        last_tick: Timestamp,
        /// The databases with their catalogs, and the numbers of sequences, in the form of the log.
        content: Vec<u8>,
        /// The last number that was given to a node: who has not heard of it would give it again.
        last_node: NodeId,
    },
    /// It has been handed over so often as far as the node knows that was to keep it.
    TakenOver(u64),
}

impl CatalogMessage {
    /// For traces and figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            CatalogMessage::Have(_) => "catalogs: have",
            CatalogMessage::All { .. } => "catalogs: all",
            CatalogMessage::HandOver { .. } => "catalogs: hand over",
            CatalogMessage::TakenOver(_) => "catalogs: taken over",
        }
    }
}
