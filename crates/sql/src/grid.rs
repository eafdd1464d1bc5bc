//! What a session needs of a grid of nodes: where its transactions begin in time, and other nodes that run them.
//!
//! A node alone has none of this. In a grid each transaction begins at a tick of the timestamp stage (rules T-1 and T-2), and a
//! transaction whose rows lie on another node runs there (decision 0030): this session becomes its client, and hands on what that
//! node answers.

use crate::catalog::{Catalog, SchemaId};
use crate::channels::Told;
use crate::client::{Formats, TransactionStatus};
use crate::databases::{DatabaseId, Databases};
use crate::far::Whereabouts;
use crate::plan::Plan;
use rubato_base::trace::{Effort, TraceContext};
use rubato_base::{
    DataType, Draws, Error, LastNumbers, Lsn, NodeId, Result, SessionId, Timestamp, TransactionId, Value,
};
use rubato_protocol::grid::{Answer as FarAnswer, Ending, Operation};
use rubato_protocol::{CommitLog, FormulaDatabase};
use std::sync::Arc;

/// What the sessions of one node ask the grid for.
pub trait GridDesk: Send + Sync {
    /// A tick for a transaction that the session begins at once. `None`: it is asked for, the session is woken when it has come, and
    /// asks again with the same `ticket`, which is set here. A session that does not come back leaves its ticket to expire.
    ///
    /// A tick stands above all that was acknowledged before the call that made the ticket, and nobody else has it.
    ///
    /// Errors: 53300 if too many wait; 57P03 if the stage did not answer.
    fn take_tick(&self, session: SessionId, ticket: &mut Option<u64>) -> Result<Option<Timestamp>>;

    /// Where a statement that begins a transaction is to run.
    ///
    /// Errors: 22023 if it asks for the outcome of a transaction of no node.
    fn home_of(&self, plan: &Plan, parameters: &[Value]) -> Result<Home>;

    /// The node that runs what there is once in a grid (schema changes, sequences, locks that are no row's), unless this is it.
    fn keeper(&self) -> Option<NodeId>;

    /// The keeper may be another by what these databases say: what that means for this node, if it is.
    fn follow_keeper(&self, databases: &Databases) -> Option<Followed>;

    /// Above every version of the catalogs that this node has told as their keeper: where the next one begins to count.
    ///
    /// Errors: 57P03 if that one cannot be reached; 55006 while a version is not known to all.
    fn version_for_next(&self, keeper: NodeId) -> Result<u64>;

    /// Whether another node is heard of.
    fn is_up(&self, node: NodeId) -> bool;

    /// The next numbers of a sequence that is on the keeper, for this session alone: some, at most `count`. `None`: they are asked
    /// for, the session is woken when they have come, and asks again for the same sequence.
    ///
    /// Errors: 2200H at the sequence's end; 57P03 if the keeper cannot be reached.
    fn take_numbers(&self, session: SessionId, sequence: u32, count: u32) -> Result<Option<Vec<i64>>>;

    /// Writes down again what the log before a checkpoint is needed for beside rows: that part of it goes.
    ///
    /// Errors: the log's.
    fn write_down(&self, log: &mut dyn CommitLog) -> Result<()>;

    /// Has another node run something for the session, which is woken when there is an answer. One call at a time: what was called
    /// before and has not ended is not heard of any more.
    ///
    /// Errors: 57P03 if the node cannot be reached; 53200 if too much waits to be sent to it.
    fn call(&self, session: SessionId, to: NodeId, call: Call) -> Result<()>;

    /// The next piece of the answer, if it has come. The node goes on with what it has to say when a piece was taken.
    fn take_answer(&self, session: SessionId) -> Option<Answer>;

    /// What the session has called for is to be cancelled where it runs. True if something may be left of it there that an error does not
    /// undo, a commit or a lock: how it has ended is to be awaited then, and is told as ever.
    fn cancel(&self, session: SessionId) -> bool;

    /// The session does not want what it has called for any more, or sends no more data to a COPY that awaits it there.
    fn give_up(&self, session: SessionId);

    /// The session's statement has ended: what it has asked for ([`GridDesk::take_numbers`], [`GridDesk::take_sessions`]) is not for the
    /// next one.
    fn forget_questions(&self, session: SessionId);

    /// The session ends, and what other nodes keep for it.
    fn leave(&self, session: SessionId);

    /// This node.
    fn node(&self) -> Option<NodeId> {
        None
    }

    /// What is so on all other nodes that can be reached: rows of these views (a bit for each), each with the number of its view, with the
    /// names of a database. `None`: they are asked for, the session is woken when they have come, and asks again.
    fn take_sessions(&self, session: SessionId, shown: (u8, DatabaseId)) -> Option<OfOthers>;

    /// Tells the sessions of other nodes that listen what a transaction of this one tells, once the log is forced so far: how far it has to
    /// be before all of them are told, behind what was told before. Who tells more, by way of another node, does so behind that.
    fn tell(&self, who: (DatabaseId, i32), told: &[Told], durable_at: Lsn) -> Lsn;

    /// Whether the keeper still has what it keeps for the session.
    fn keeps_session(&self, session: SessionId) -> bool;

    /// Whether this node serves anybody.
    ///
    /// Errors: 57P03 if it was removed from its grid, or stands on a folder that is not its newest one.
    fn serves(&self) -> Result<()>;

    /// All nodes of the grid, this one among them, in ascending order.
    fn members(&self) -> Vec<NodeId>;

    /// The turns in which these nodes come to have the parts of a table: as few parts as can be go from those that have them now.
    fn turns(&self, now: &[NodeId], nodes: &[NodeId]) -> Vec<NodeId>;

    /// Whether the others can agree on something without this node, so that it may go.
    fn may_do_without(&self, node: NodeId) -> bool;

    /// The node is no member any more, which whoever keeps the list writes down and tells the others.
    fn remove_node(&self, node: NodeId);

    /// The last tick at which somebody may have begun with the catalogs as they are, on the node that changes them; [`Timestamp::MAX`]
    /// if that is known later only.
    fn last_tick(&self) -> Option<Timestamp>;

    /// The catalogs of this node are others from now on. Called with the partition held.
    fn catalogs_change(&self) {}

    /// Where rows are that are not here, if there are any: by the committed catalogs, and by those that a transaction has made.
    fn whereabouts(&self, databases: &Arc<Databases>, made: &[Arc<Catalog>]) -> Option<Arc<dyn Whereabouts>>;

    /// Has other nodes do operations in the transaction of a session, which is one over several nodes from the first of them on. The
    /// session is woken when it can be told something ([`GridDesk::take_told`]). Of each node it asks one thing at a time.
    fn operate(
        &self,
        who: (SessionId, TransactionId),
        operations: Vec<(NodeId, Operation)>,
        database: &mut FormulaDatabase,
    );

    /// What has come of the session's transaction over several nodes since the last call.
    fn take_told(&self, session: SessionId) -> Vec<FarTold>;

    /// Which other nodes have to confirm what the session's transaction over several was told, and at which place, as
    /// [`rubato_protocol::grid::Coordinator::to_confirm`].
    fn to_confirm(&self, session: SessionId, own: Timestamp, is_failing: bool) -> (Timestamp, Vec<NodeId>);

    /// Commits the session's transaction over several nodes, which owes no answer: how that ended is told.
    fn commit(&self, session: SessionId, log: &mut dyn CommitLog);

    /// Gives up a commit that nobody has decided yet: the transaction is still to be rolled back here. False if it may have committed.
    fn give_up_commit(&self, session: SessionId) -> bool;

    /// Rolls it back. Nothing more is told of it. False if what the session has done on this node is to be rolled back by itself.
    fn roll_back(&self, session: SessionId) -> bool;

    /// What the session asks of other nodes from now on is measured ([`FarTold::Called`]), and belongs to this trace if there is one;
    /// until [`GridDesk::end_trace`].
    fn trace(&self, session: SessionId, context: Option<TraceContext>) {
        let _ = (session, context);
    }

    /// It is not measured any more.
    fn end_trace(&self, session: SessionId) {
        let _ = session;
    }

    /// Whether somebody has asked since the last call: whoever drives the node's part in its grid has something to send.
    fn has_news(&self) -> bool;
}

/// A node that has heard of another keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// This node.
    pub own: NodeId,
    /// Which of its starts this is.
    pub life: u64,
    /// Whether it is the keeper itself.
    pub is_here: bool,
}

/// What a session is told of its transaction over several nodes.
#[derive(Clone, Debug)]
pub enum FarTold {
    /// What a node gave that it has asked.
    Answer(NodeId, FarAnswer),
    /// The transaction has ended. Nobody may be told before the log is forced up to here.
    Ended(Ending, Lsn),
    /// How long a node took for what it was asked, and what for.
    Called(FarCall),
}

/// Something that a node was asked, and has answered. Times are in microseconds since 2000-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarCall {
    /// The node.
    pub node: NodeId,
    /// What it was asked for.
    pub what: &'static str,
    /// Operations.
    pub operations: u32,
    /// Rows, or groups of rows, that came.
    pub rows: u64,
    /// Messages there and back.
    pub messages: u32,
    /// Bytes of what was asked.
    pub bytes_sent: u64,
    /// Bytes of what was answered.
    pub bytes_received: u64,
    /// When it was asked.
    pub asked_us: i64,
    /// When the answer came.
    pub answered_us: i64,
    /// What the node said about it, if it did.
    pub effort: Effort,
}

/// Where a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// On the node of the session.
    Here,
    /// On another one.
    At(NodeId),
    /// On the keeper, which has things that there are once. Rows of other nodes can be reached from there as from everywhere.
    AtKeeper(NodeId),
    /// It needs rows of several nodes, and can run on any.
    OverSeveral,
    /// On any: it needs the catalogs, which every node has from the tick on that it begins with.
    Catalogs,
    /// It needs nothing of any.
    Anywhere,
}

/// Something that another node runs for a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Who asks.
    pub user: String,
    /// The database, as it was called when the session began.
    pub database: String,
    /// Its number.
    pub database_id: DatabaseId,
    /// The number by which the client is known.
    pub backend_id: i32,
    /// The session's settings that are not as they begin.
    pub settings: Arc<[(String, String)]>,
    /// Whether the session's transaction is there already. If it is not, and `begin` is not given, the statement is one of its own.
    pub in_block: bool,
    /// The text that begins the transaction before the statement is run.
    pub begin: Option<String>,
    /// Whether the statement only reads: nothing is in doubt if its answer is lost.
    pub only_reads: bool,
    /// Whether it may take or give back advisory locks that its transaction does not end.
    pub may_lock: bool,
    /// The schema of the session's temporary relations, as the keeper has called it.
    pub temporary: Option<SchemaId>,
    /// Where the statement belongs, if it is traced.
    pub trace: Option<TraceContext>,
    /// What the statement has drawn before, if it is run again.
    pub draws: Option<Draws>,
    /// The last numbers that the session has had of sequences; nothing if it has had none.
    pub numbers: Option<Arc<LastNumbers>>,
    /// When the transaction that is begun with it began for its client, in microseconds since 2000-01-01 UTC, if it did before.
    pub began_us: Option<i64>,
    /// What is run.
    pub run: Run,
}

/// What is so on other nodes.
#[derive(Clone, Debug, Default)]
pub struct OfOthers {
    /// Rows of views, each with the number of its view.
    pub rows: Vec<(u8, Vec<Value>)>,
    /// The nodes to which a channel stands and which have not said anything for so long that they were given up.
    pub silent: Vec<NodeId>,
}

/// What a [`Call`] runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    /// A text without parameters; its columns are told with its rows.
    Text(String),
    /// A COPY FROM STDIN whose table is laid anew before its rows come; its client knows that it is to send data.
    LayAnew(String),
    /// A prepared text, its parameters, and how its columns are wanted; the client has been told of them.
    Prepared {
        /// The text.
        sql: String,
        /// Types of the parameters.
        types: Vec<DataType>,
        /// Their values.
        values: Vec<Value>,
        /// Types of the columns that the client knows of, if it knows.
        columns: Option<Vec<DataType>>,
        /// As in a Bind message.
        formats: Formats,
        /// The portal it becomes.
        portal: String,
        /// At most so many rows, 0 for all.
        max_rows: u32,
    },
    /// More of a portal.
    More {
        /// Which one.
        portal: String,
        /// At most so many rows, 0 for all.
        max_rows: u32,
    },
    /// Data of the COPY FROM STDIN under way.
    Data {
        /// As the client has sent it.
        data: Vec<u8>,
        /// What follows.
        end: DataEnd,
    },
}

/// What follows a piece of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataEnd {
    /// More of it.
    More,
    /// Nothing: that was all.
    Done,
    /// Nothing: the client has given up, and says why.
    Failed(String),
}

/// A piece of what another node answers.
#[derive(Clone, Debug)]
pub struct Answer {
    /// For the client, in the form of its responder.
    pub told: Vec<u8>,
    /// The end, if this is the last piece.
    pub end: Option<Ended>,
}

/// How a call has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What came of the statement.
    pub outcome: std::result::Result<Completed, Error>,
    /// Where the transaction stands there now.
    pub status: TransactionStatus,
    /// The schema of the session's temporary relations, if they are there.
    pub temporary: Option<SchemaId>,
    /// The catalog that the transaction sees there, if that has changed: one of its own, or what is committed.
    pub catalog: Option<Option<Arc<Catalog>>>,
    /// Numbers of sequences that it has had there.
    pub numbers: LastNumbers,
    /// What functions have set there of the session's settings: name, value, and whether it is LOCAL.
    pub settings: Vec<(String, String, bool)>,
}

impl Ended {
    /// One that was lost, with its transaction.
    pub fn lost(error: Error) -> Ended {
        Ended {
            outcome: Err(error),
            status: TransactionStatus::Idle,
            temporary: None,
            catalog: None,
            numbers: LastNumbers::default(),
            settings: Vec::new(),
        }
    }
}

/// How a statement ended that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completed {
    /// With this tag.
    Tag(String),
    /// At its row limit.
    Suspended,
    /// It was empty.
    Empty,
    /// It has not: it is a COPY FROM STDIN, and waits for data.
    AwaitsData,
}
