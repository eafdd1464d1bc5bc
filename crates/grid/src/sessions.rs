//! What nodes tell each other of their clients' sessions and of who waits for whom, and have each other do to sessions.

use rubato_base::Value;

/// Rows that one node tells of what is so there.
pub const SESSIONS_MAX: usize = 100_000;

/// A message about the sessions of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionsMessage {
    /// A session wants to know what is so on other nodes.
    Wanted {
        /// Who asks, as its node counts sessions.
        session: u64,
        /// Counts what the node has asked for.
        number: u64,
        /// The views that show it, a bit for each.
        views: u8,
        /// The database whose names they have.
        database: u32,
    },
    /// This is so.
    Given {
        /// Who asked.
        session: u64,
        /// What is answered.
        number: u64,
        /// Rows as the views have them, each with the number of its view.
        rows: Vec<(u8, Vec<Value>)>,
    },
    /// A session is to give up its statement, or to end.
    Signal {
        /// Which one, as clients know it.
        backend_id: i32,
        /// What it is to do.
        asked: Asked,
    },
}

/// What a session is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To give up its statement.
    Cancel,
    /// To end.
    Terminate,
    /// To give up its statement, if this is its secret key: its client has asked for that, at another node.
    CancelBy(i32),
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
