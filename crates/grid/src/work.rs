//! What the node of a client and the node that runs its transaction say to each other (decision 0030, point 2).
//!
//! These messages arrive in the order in which they were sent or not at all: when the channel breaks, both ends forget what was under
//! way, and the node that ran it rolls back what had not committed.

use rubato_base::trace::TraceContext;
use rubato_base::{DataType, Error, Value};

/// A message about the work of a session of a client, which the client's node numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkMessage {
    /// The session, at the node of its client.
    pub session: u64,
    /// Counts what the session calls for; answers have the number of their call.
    pub number: u64,
    /// What is said.
    pub content: WorkContent,
}

/// What is said about a session's work.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkContent {
    /// To the node that runs it: something to run.
    Call(Box<WorkCall>),
    /// To the node that runs it: a piece of the answer was taken, more may come.
    More,
    /// To the node that runs it: the answer is not wanted any more.
    GiveUp,
    /// To the node that runs it: the session has ended.
    Leave,
    /// To the client's node: a piece of the answer.
    Answer {
        /// For the client, in the form of its responder.
        told: Vec<u8>,
        /// The end, if this is the last piece.
        end: Option<WorkEnd>,
    },
}

/// Something to run for a session.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkCall {
    /// Who asks.
    pub user: String,
    /// The database.
    pub database: String,
    /// Settings that are not as they begin, if they have changed since the last call.
    pub settings: Option<Vec<(String, String)>>,
    /// Whether the transaction is there already.
    pub in_block: bool,
    /// The text that begins one.
    pub begin: Option<String>,
    /// Where the statement belongs, if it is traced.
    pub trace: Option<TraceContext>,
    /// What is run.
    pub run: WorkRun,
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkRun {
    /// A text without parameters.
    Text(String),
    /// A text with parameters.
    Prepared {
        /// The text.
        sql: String,
        /// Types of the parameters.
        types: Vec<DataType>,
        /// Their values.
        values: Vec<Value>,
        /// Which result columns are binary: none, one for all, or one a column.
        binary: Vec<bool>,
        /// The portal it becomes.
        portal: String,
        /// At most so many rows, 0 for all.
        max_rows: u32,
    },
    /// More rows of a portal.
    More {
        /// Which.
        portal: String,
        /// At most so many, 0 for all.
        max_rows: u32,
    },
}

/// How a call has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkEnd {
    /// What came of it.
    pub outcome: WorkOutcome,
    /// Where the transaction stands now.
    pub status: WorkStatus,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkOutcome {
    /// It ended with this tag.
    Tag(String),
    /// It stopped at its row limit.
    Suspended,
    /// There was nothing to run.
    Empty,
    /// It failed.
    Failed(Error),
}

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStatus {
    /// There is none.
    Idle,
    /// It is open.
    Open,
    /// It is open and has failed.
    Failed,
}

impl WorkMessage {
    /// What kind of message it is, for traces and figures.
    pub fn name(&self) -> &'static str {
        match &self.content {
            WorkContent::Call(_) => "message: call",
            WorkContent::More => "message: more",
            WorkContent::GiveUp => "message: give up",
            WorkContent::Leave => "message: leave",
            WorkContent::Answer { .. } => "message: work done",
        }
    }
}
