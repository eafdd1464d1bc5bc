//! What the node of a client and the node that runs its transaction say to each other (decision 0030, point 2).
//!
//! These messages arrive in the order in which they were sent or not at all: when the channel breaks, both ends forget what was under
//! way, and the node that ran it rolls back what had not committed.

use rubato_base::trace::TraceContext;
use rubato_base::{DataType, Draws, Error, LastNumbers, Value};

/// A message about the work of a session of a client, which the client's node numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkMessage {
    /// The session, at the node of its client.
    pub session: u64,
    /// Counts what the session calls for, from the life of its node on; answers have the number of their call.
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
    /// To the node that runs it: it is to be cancelled, and how it ended is still awaited.
    Cancel,
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
    /// The database, as it was called when the client's session began.
    pub database: String,
    /// Its number.
    pub database_id: u32,
    /// The number by which the client is known.
    pub backend_id: i32,
    /// Settings that are not as they begin, if they have changed since the last call.
    pub settings: Option<Vec<(String, String)>>,
    /// Whether the transaction is there already.
    pub in_block: bool,
    /// The text that begins one.
    pub begin: Option<String>,
    /// The schema of the client's temporary relations, 0 if it is not known to have any.
    pub temporary: u32,
    /// Where the statement belongs, if it is traced.
    pub trace: Option<TraceContext>,
    /// What the statement has drawn before, if it is run again.
    pub draws: Option<Draws>,
    /// The last numbers that the session has had of sequences, if there are others than at the last call.
    pub numbers: Option<LastNumbers>,
    /// When the transaction that is begun began for its client, in microseconds since 2000-01-01 UTC, if it did before.
    pub began_us: Option<i64>,
    /// What is run.
    pub run: WorkRun,
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkRun {
    /// A text without parameters.
    Text(String),
    /// A COPY FROM STDIN that begins anew, and lays its table anew first.
    LayAnew(String),
    /// A text with parameters.
    Prepared {
        /// The text.
        sql: String,
        /// Types of the parameters.
        types: Vec<DataType>,
        /// Their values.
        values: Vec<Value>,
        /// Types of the columns that its client knows of, if it knows.
        columns: Option<Vec<DataType>>,
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
    /// Data of the COPY FROM STDIN under way.
    Data {
        /// As the client has sent it.
        data: Vec<u8>,
        /// Whether it is the last of it.
        end: WorkDataEnd,
    },
}

/// What follows a piece of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkDataEnd {
    /// More of it.
    More,
    /// Nothing: that was all.
    Done,
    /// Nothing: the client has given up, and says why.
    Failed(String),
}

/// How a call has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkEnd {
    /// What came of it.
    pub outcome: WorkOutcome,
    /// Where the transaction stands now.
    pub status: WorkStatus,
    /// The schema of the client's temporary relations, 0 where they are not.
    pub temporary: u32,
    /// Whether the session has advisory locks there that its transaction does not end.
    pub locks: bool,
    /// The catalog that the transaction sees.
    pub catalog: WorkCatalog,
    /// Numbers of sequences that the session has had since the last end.
    pub numbers: LastNumbers,
    /// What functions have set of the session's settings since the last end, in their order: name, value, and whether it is LOCAL.
    pub settings: Vec<(String, String, bool)>,
    /// Whether a session has taken in what the call said of its client. If not, the client's node says it again.
    pub is_taken_in: bool,
}

impl WorkEnd {
    /// One that failed, and its transaction with it; nobody has taken in what the call said of the client.
    pub fn lost(error: Error) -> WorkEnd {
        WorkEnd {
            outcome: WorkOutcome::Failed(error),
            status: WorkStatus::Idle,
            temporary: 0,
            locks: false,
            catalog: WorkCatalog::AsBefore,
            numbers: LastNumbers::default(),
            settings: Vec::new(),
            is_taken_in: false,
        }
    }
}

/// The catalog that a transaction sees where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkCatalog {
    /// As it was told with the call before.
    AsBefore,
    /// What is committed.
    Committed,
    /// One with changes of its own.
    Own(Vec<u8>),
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
    /// It waits for the client's data.
    AwaitsData,
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
            WorkContent::Cancel => "message: cancel",
            WorkContent::Leave => "message: leave",
            WorkContent::Answer { .. } => "message: work done",
        }
    }
}
