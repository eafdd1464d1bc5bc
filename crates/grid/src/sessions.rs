//! What nodes tell each other of their clients' sessions, and have each other do to them.

use rubato_base::Value;

/// Rows that one node tells of its sessions.
pub const SESSIONS_MAX: usize = 100_000;

/// A message about the sessions of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionsMessage {
    /// A session wants to know what sessions there are.
    Wanted {
        /// Who asks, as its node counts sessions.
        session: u64,
        /// Counts what the node has asked for.
        number: u64,
    },
    /// These are there.
    Given {
        /// Who asked.
        session: u64,
        /// What is answered.
        number: u64,
        /// As `pg_stat_activity` shows them.
        rows: Vec<Vec<Value>>,
    },
    /// A session is to give up its statement, or to end.
    Signal {
        /// Which one, as clients know it.
        backend_id: i32,
        /// Whether it is to end.
        terminates: bool,
    },
}

impl SessionsMessage {
    /// For traces and figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            SessionsMessage::Wanted { .. } => "sessions: wanted",
            SessionsMessage::Given { .. } => "sessions: given",
            SessionsMessage::Signal { .. } => "sessions: signal",
        }
    }
}
