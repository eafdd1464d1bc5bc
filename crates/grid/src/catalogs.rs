//! How all nodes come to have the catalogs that the first node commits.
//!
//! The first node tells each change behind its commit, and everything when a channel stands. Whatever it says afterwards on the same
//! channel, ticks above all, comes behind that: a transaction that begins after a schema change was acknowledged finds it on every node.

use rubato_base::Timestamp;

/// What nodes say to each other about catalogs.
#[derive(Clone, Debug, PartialEq)]
pub enum CatalogMessage {
    /// To the first node: the catalogs here are of this version, 0 if there are none.
    Have(u64),
    /// From the first node: the catalogs of all databases at a version, in the form of the log.
    All {
        /// Counts the changes of all catalogs.
        version: u64,
        /// Whoever began at a later tick begins with them.
        last_tick: Timestamp,
        /// The databases with their catalogs.
        content: Vec<u8>,
    },
}

impl CatalogMessage {
    /// For traces and figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            CatalogMessage::Have(_) => "catalogs: have",
            CatalogMessage::All { .. } => "catalogs: all",
        }
    }
}
