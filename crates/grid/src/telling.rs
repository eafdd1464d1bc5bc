//! What is told on channels (NOTIFY), from the node that has committed it to the sessions that listen on other nodes.
//!
//! A teller numbers what it tells each node, and says it again until it is taken. Who hears it takes it in this order, each once.

/// What nodes say to each other about channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TellMessage {
    /// A transaction has committed, and tells this.
    Told {
        /// The life of the node that tells.
        life: u64,
        /// Counts what it has told this node.
        number: u64,
        /// The first that it keeps: none before comes any more.
        oldest: u64,
        /// What was told.
        telling: Telling,
    },
    /// It was taken, and all before it.
    Taken {
        /// The life of the node that told.
        life: u64,
        /// Up to here.
        number: u64,
    },
}

/// What one transaction tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    /// The database.
    pub database: u32,
    /// Who tells, as clients know him.
    pub backend_id: i32,
    /// Channels, and what is told on each.
    pub told: Vec<(String, String)>,
}

impl TellMessage {
    /// For traces and figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            TellMessage::Told { .. } => "channels: told",
            TellMessage::Taken { .. } => "channels: taken",
        }
    }
}
