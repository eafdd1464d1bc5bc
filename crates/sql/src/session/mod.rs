//! The session: what a client has said so far, and what it is answered.
//!
//! A session is driven stage by stage. Each `on_` method is the work of one kind of stage on this session and says where the
//! session goes next ([`Next`]): the parser stage takes the next request or statement and looks its text up among the plans,
//! the optimizer stage binds it, the security stage checks that it may run, the transaction stage begins and ends
//! transactions and runs everything that is not planned, the other stages run the plan. A session that has to wait for another
//! transaction is parked where it stands and goes on there when it is woken.
//!
//! The server runs a statement again by itself when its transaction was aborted and the client has not yet been told anything
//! that depended on a read (promise 7), or it comes out the same again: a statement outside of a block always, within a block as long as
//! what all statements so far have answered, row counts and rows, comes out as it was told (`replay`).
//!
//! Invariants:
//! - Whatever is answered waits for `durable_at`: nothing is acknowledged that the log could still lose (promise 4).
//! - After an error within a block only ROLLBACK (to a savepoint) and COMMIT are taken; after an error in an extended-query
//!   sequence everything up to Sync is passed over.

mod anew;
mod away;
mod beside;
mod block;
mod cancel;
mod catalogs;
mod channels;
mod circles;
mod constraints;
mod copy;
mod copy_again;
mod copy_anew;
mod copy_away;
mod cursors;
mod databases;
mod deciding;
mod discard;
mod drawing;
mod environment;
mod everywhere;
mod execute;
mod explained;
mod extended;
mod failing;
mod far;
mod finish;
mod follow;
mod had;
mod idle;
mod kept_open;
mod later;
mod moves;
mod notices;
mod numbers;
mod path;
mod pause;
mod place;
mod plans;
mod portals;
mod portals_away;
mod prepared;
mod random;
mod replay;
mod running;
mod schema;
mod script;
mod scroll;
mod seen;
mod settings;
mod shown;
mod slices;
mod standing;
mod table_locks;
mod temporary;
mod upkeep;
mod utility;
mod way;

pub use environment::Identity;
pub use plans::{PLANS_MAX_DEFAULT, PlanCache};
pub use prepared::RESULT_TYPE_CHANGED;
pub use replay::REPLAY_STATEMENTS_MAX;
pub use settings::Settings;

use crate::analytics::Engine;
use crate::catalog::SchemaId;
use crate::client::{Formats, Request, Responder, TransactionStatus};
use crate::executor::{CopyOut, Cursor, Limits};
use crate::far::Mark;
use crate::insight::SessionFacts;
use crate::partition::Partition;
use crate::plan::PlanBody;
use crate::route::may_lock;
use crate::statement::{Statement, Utility};
use block::OpenTransaction;
use environment::TakenNumbers;
use parking_lot::Mutex;
use portals::Portals;
use prepared::Prepared;
use random::Randoms;
pub use random::SessionSeed;
use replay::Replay;
use rubato_base::text_format::TextContext;
use rubato_base::trace::TraceContext;
use rubato_base::{DataType, Draws, Error, Lsn, Result, SessionId, SqlState, TransactionId, Value};
use rubato_stages::{Helpers, StageKind};
use script::Piece;
use std::collections::{BTreeMap, VecDeque};
use std::ops::DerefMut;
use std::sync::Arc;

/// How often the server runs a statement or a replayable block again after an abort before the client is told.
pub const RETRIES_MAX: u32 = 100;
/// Commits after an abort for which a session counts as one whose transactions meet others (load control).
const CONFLICTS_REMEMBERED: u32 = 8;
/// Answered bytes after which a statement that streams rows lets them be sent before it goes on.
pub const RESPONSE_BYTES_MAX: usize = 256 << 10;
/// How long a commit under the pessimistic policy waits for earlier readers before it goes on as optimistic.
pub const READER_WAIT_US_MAX: i64 = 100_000;

/// Where a session goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To this stage.
    To(StageKind),
    /// It waits for another transaction; when woken (or at [`Session::deadline_us`]) it goes on at this stage.
    Park(StageKind),
    /// Its answers should be sent, and others have their turn, before it goes on (with [`Request::GoOn`] put in front of its
    /// requests).
    Yield,
    /// It has nothing to do until there are requests.
    Idle,
}

/// The right to the partition: whoever holds the guard is alone with it.
pub trait PartitionLock {
    /// What is held.
    type Guard<'a>: DerefMut<Target = Partition>
    where
        Self: 'a;

    /// Waits until no other thread holds the partition: never longer than one step of one statement.
    fn lock(&self) -> Self::Guard<'_>;
}

/// What the stages share with every session they handle.
pub struct SessionContext<'a> {
    /// The plans of the node; held only for a look-up.
    pub plans: &'a Mutex<PlanCache>,
    /// The time at which the stage's instruction was taken up, in microseconds since 2000-01-01 UTC.
    pub now_us: i64,
    /// The clock itself.
    pub clock_us: &'a dyn Fn() -> i64,
    /// How much one statement may hold.
    pub limits: Limits,
    /// What runs statements that the relay does not, if there is such an engine.
    pub analytics: Option<&'a dyn Engine>,
    /// Threads that read the data of COPY.
    pub helpers: &'a Helpers,
}

/// Whether statements share a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Each on its own.
    None,
    /// One transaction up to the end of the script or to Sync.
    Implicit,
    /// Between BEGIN and COMMIT.
    Explicit,
    /// The same, after an error.
    Failed,
}

/// Where the current statement came from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// A simple query.
    Script,
    /// A portal.
    Portal(String),
    /// It is run again, silently.
    Replay,
}

/// The statement under way.
struct Current {
    statement: Statement,
    /// The catalog version it was bound to.
    catalog_version: u64,
    /// Its text, for binding it again.
    sql: Arc<str>,
    /// Whether it was prepared: its parameters stand in its text as `$n`, and its result is what it was when it was prepared.
    is_prepared: bool,
    parameters: Arc<[Value]>,
    cursor: Option<Box<Cursor>>,
    origin: Origin,
    formats: Formats,
    max_rows: usize,
    rows: usize,
    /// Whether the row description is still to be given (simple query).
    describe: bool,
    savepoint: Option<Mark>,
    /// Answered bytes before the statement, to take its answers back when it is run again.
    mark: usize,
    /// Whether answers have gone out since: then it cannot be run again.
    streamed: bool,
    /// What has been answered of it waits here for more: see [`Session::holds_answer`].
    holds: bool,
    /// Whether it is a transaction of its own.
    alone: bool,
    /// The tag it ended with; the transaction stage finishes it.
    tag: Option<String>,
    /// FETCH or MOVE: the statement is that of the cursor.
    fetch: Option<cursors::Fetch>,
    /// What it failed with, while that is not certain: see [`Session::refuse`].
    failure: Option<Error>,
    /// The tag that is told in place of that of the plan.
    told_tag: Option<&'static str>,
    /// The statement that made the table into which this one puts its rows: it is what is run again.
    making: Option<Statement>,
    started_us: i64,
    /// What it takes of sequences that are on another node, once that was looked at.
    numbers: Option<Option<numbers::Wanted>>,
    /// Whether it has asked other nodes for what it shows of them.
    sees_others: bool,
    /// It has changed more than may be pending.
    anew: Option<anew::Anew>,
}

impl Current {
    /// Whether it is a query all of whose rows are wanted, and none has gone out.
    fn is_unseen_query(&self) -> bool {
        let is_query = matches!(&self.statement, Statement::Planned(plan) if matches!(plan.body, PlanBody::Select(_)));
        let is_whole = self.max_rows == usize::MAX && self.fetch.is_none() && self.origin != Origin::Replay;
        is_query && is_whole && !self.streamed
    }

    /// The portal that it came from.
    fn portal(&self) -> Option<&str> {
        match &self.origin {
            Origin::Portal(name) => Some(name),
            Origin::Script | Origin::Replay => None,
        }
    }

    /// Whether it is planned, and cannot write.
    fn only_reads(&self) -> bool {
        matches!(&self.statement, Statement::Planned(plan) if plan.read_only)
    }

    /// Whether it is planned, and may take or give back advisory locks that its transaction does not end.
    fn may_lock(&self) -> bool {
        matches!(&self.statement, Statement::Planned(plan) if may_lock(plan))
    }

    /// Whether it is what EXECUTE of a script runs, or what is run again: its parameters stand in its text as `$n`.
    fn is_executed(&self) -> bool {
        self.is_prepared && self.portal().is_none()
    }
}

/// What is to be bound, and why.
enum ToBind {
    /// The next statement of a script, with the key of the plan cache.
    Script(Piece),
    /// A Parse message.
    Parse {
        name: String,
        sql: String,
        types: Vec<DataType>,
    },
    /// The current statement, whose plan is out of date.
    Again,
}

/// One client's session.
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Which worker it belongs to.
    pub worker: usize,
    identity: Identity,
    known_path: path::KnownPath,
    facts: Arc<SessionFacts>,
    settings: Settings,
    text: TextContext,
    random: Randoms,
    /// Where they were when the statement under way began.
    random_before: Randoms,
    /// The session's own, of which each statement has some.
    random_own: Randoms,
    /// What a statement that is run again for another node has drawn there.
    draws_given: Option<Draws>,
    prepared: BTreeMap<String, Arc<Prepared>>,
    portals: Portals,
    block: Block,
    transaction: Option<OpenTransaction>,
    modes: crate::statement::TransactionModes,
    script: VecDeque<Piece>,
    in_script: bool,
    to_bind: Option<ToBind>,
    current: Option<Current>,
    slices: slices::Slices,
    /// The way of the statement under way, if it is recorded.
    way: Option<Box<way::Way>>,
    /// Where what it does for a session on another node belongs.
    traced_by: Option<TraceContext>,
    /// What the text that it was given says of that; only looked for where there may be traces.
    asked_trace: Option<Option<TraceContext>>,
    is_traceable: bool,
    copy_in: Option<copy::CopyIn>,
    /// What a COPY that has begun anew was sent before.
    copy_again: Option<copy_again::CopyAgain>,
    copy_out: Option<Box<CopyOut>>,
    changing_schema: Option<Box<schema::SchemaChanging>>,
    skip_to_sync: bool,
    /// The last that its client was told is that it is ready for what comes next, and nothing has come.
    is_ready: bool,
    taken: TakenNumbers,
    /// What is to be asked of other nodes waits for what is asked for later statements.
    holds_questions: bool,
    /// The id of the open transaction, if its client has asked for one.
    asked_id: Option<u64>,
    /// When the transaction that is run again, or begins later, began: `now()` stays what it was.
    began_us: Option<i64>,
    /// The block has begun here, and its transaction begins with the first statement that may depend on rows.
    begins_later: bool,
    durable_at: Lsn,
    retries: u32,
    replay: Replay,
    /// The transaction, if it runs on another node.
    away: Option<away::Away>,
    /// It works for a client of another node: see [`Session::serve_another_node`].
    is_hosted: bool,
    /// That one works for a client of yet another node.
    is_sent_on: bool,
    temporary: temporary::Temporary,
    /// The data that comes in for a COPY on another node.
    copy_away: Option<copy_away::CopyAway>,
    /// Its blocks begin on the node that keeps what there is once: one of them has needed what is there once.
    begins_at_keeper: bool,
    /// The statement of the portal that is run begins a transaction, and many like it are behind it.
    is_batched: bool,
    /// Portals that were read in pieces on other nodes.
    portals_away: u64,
    /// The tick that it has asked for.
    tick_ticket: Option<u64>,
    /// It was terminated, or its client has gone, while it committed or between two requests: it ends behind the answer.
    ends_with: Option<Error>,
    /// What fails are the client's words, or what they mean: no row that others write has to do with it.
    fails_by_words: bool,
    /// The statement that was under way when a replay began.
    after_replay: Option<Current>,
    /// Why the block, which has failed, has lost its savepoints.
    lost: Option<Error>,
    deadline_us: Option<i64>,
    waits_for_reader: bool,
    /// Since when the commit at the end of a script or at Sync waits.
    commit_waits_since_us: Option<i64>,
    /// The time at which its stage's instruction was taken up.
    now_us: i64,
    cancelled: Option<Error>,
    /// How many of its next commits still count as those of a session that was aborted lately.
    conflicts: u32,
    pauses: pause::Pauses,
    /// What is told it on channels, and what its transaction does to them.
    channels: channels::SessionChannels,
    is_over: bool,
}

impl Session {
    /// A session for a client that has passed login.
    pub fn new(id: SessionId, worker: usize, identity: Identity, seed: SessionSeed) -> Session {
        Session {
            id,
            worker,
            facts: Arc::new(SessionFacts::new(id, identity.clone())),
            identity,
            known_path: path::KnownPath::default(),
            settings: Settings::default(),
            text: TextContext::default(),
            random: Randoms::seeded(seed),
            random_before: Randoms::seeded(seed),
            random_own: Randoms::seeded(seed),
            draws_given: None,
            prepared: BTreeMap::new(),
            portals: Portals::default(),
            block: Block::None,
            transaction: None,
            modes: Default::default(),
            script: VecDeque::new(),
            in_script: false,
            to_bind: None,
            current: None,
            way: None,
            traced_by: None,
            asked_trace: None,
            is_traceable: false,
            copy_in: None,
            copy_again: None,
            copy_out: None,
            changing_schema: None,
            skip_to_sync: false,
            is_ready: true,
            taken: TakenNumbers::default(),
            holds_questions: false,
            asked_id: None,
            begins_later: false,
            began_us: None,
            durable_at: Lsn(0),
            retries: 0,
            replay: Replay::default(),
            away: None,
            is_hosted: false,
            is_sent_on: false,
            temporary: temporary::Temporary::of(id),
            copy_away: None,
            begins_at_keeper: false,
            is_batched: false,
            portals_away: 0,
            tick_ticket: None,
            ends_with: None,
            fails_by_words: false,
            after_replay: None,
            lost: None,
            deadline_us: None,
            waits_for_reader: false,
            commit_waits_since_us: None,
            now_us: 0,
            slices: slices::Slices::default(),
            cancelled: None,
            conflicts: 0,
            pauses: pause::Pauses::default(),
            channels: channels::SessionChannels::default(),
            is_over: false,
        }
    }

    /// Applies a setting of the database's or of the startup message. Reports what the client is to be told.
    pub fn startup_setting(&mut self, name: &str, value: &str) -> Result<Option<(String, String)>> {
        let report = self.settings.set(name, Some(value), false)?;
        self.settings.begin();
        self.settings.shape(&mut self.text);
        self.tell_application();
        Ok(report)
    }

    /// Values of settings that the server fixes, by name.
    pub fn tell_server(&mut self, settings: std::sync::Arc<[(String, String)]>) {
        self.settings.tell_server(settings);
    }

    /// It works for a session on another node, whose client it does not see, and which may do so too. Temporary relations that it makes are in
    /// this schema.
    pub fn serve_another_node(&mut self, schema: SchemaId, is_sent_on: bool) {
        (self.is_hosted, self.is_sent_on) = (true, is_sent_on);
        self.facts.serves_another();
        self.settings.serve_another_node();
        self.temporary.make(schema);
    }

    /// What the client of the other node is known by, to whom this session tells something.
    pub fn is_known_as(&mut self, backend_id: i32) {
        self.identity.backend_id = backend_id;
    }

    /// The settings of a session on another node, for which this one works.
    pub fn take_settings_over(&mut self, changed: &[(String, String)]) {
        self.settings.take_over(changed);
        self.settings.shape(&mut self.text);
    }

    /// What functions have set of these settings since that was asked last.
    pub fn new_settings(&mut self) -> Vec<(String, String, bool)> {
        self.settings.take_set_here()
    }

    /// What other sessions see of this one.
    pub fn facts(&self) -> &Arc<SessionFacts> {
        &self.facts
    }

    fn tell_application(&self) {
        self.facts
            .set_application(&self.settings.get("application_name").unwrap_or_default());
    }

    /// Notes for others what the session does after a step that led to `next`.
    pub fn note_step(&self, next: Next, now_us: i64) {
        match next {
            Next::Idle => {
                let began_us = self
                    .transaction
                    .as_ref()
                    .map_or(0, |transaction| transaction.started_us);
                self.facts.rests(self.status(), began_us, now_us);
            }
            Next::Park(_) => self.facts.waits(now_us),
            Next::To(_) | Next::Yield => {}
        }
    }

    /// The answers given so far may be sent once the log is forced up to here.
    pub fn durable_at(&self) -> Lsn {
        self.durable_at
    }

    /// When a parked session must be looked at again even if nobody wakes it.
    pub fn deadline_us(&self) -> Option<i64> {
        self.deadline_us
    }

    /// The wall clock was set by so much: the statement under way has as much time left as before.
    pub fn shift_time(&mut self, by_us: i64) {
        if let Some(deadline_us) = &mut self.deadline_us {
            *deadline_us = deadline_us.saturating_add(by_us);
        }
        let copied = self.copy_in.as_mut().map(|copy| &mut copy.current);
        let copied_away = self.copy_away.as_mut().map(|copy| &mut copy.current);
        for current in self.current.iter_mut().chain(copied).chain(copied_away) {
            current.started_us = current.started_us.saturating_add(by_us);
        }
        self.shift_pause(by_us);
    }

    /// Whether a statement is under way.
    pub fn is_busy(&self) -> bool {
        self.current.is_some() || self.to_bind.is_some()
    }

    /// Whether a COPY FROM STDIN is under way.
    pub fn awaits_data(&self) -> bool {
        self.copy_in.is_some() || self.copy_away.is_some()
    }

    /// Whether the client and the session no longer understand each other: it has ended, and its connection is to be closed.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The open transaction, 0 if there is none.
    pub fn transaction_id(&self) -> TransactionId {
        self.transaction
            .as_ref()
            .map_or(TransactionId(0), |transaction| transaction.id)
    }

    /// Whether its next step places changes: the next slice of a statement that writes, or of a COPY.
    pub fn is_about_to_write(&self) -> bool {
        let writes = |current: &Current| match &current.statement {
            Statement::Planned(plan) => {
                let has_done_all = current.cursor.as_ref().is_some_and(|cursor| cursor.has_written());
                current.tag.is_none() && !has_done_all && !matches!(plan.body, PlanBody::Select(_))
            }
            Statement::Utility(utility) => {
                let writes = match &**utility {
                    Utility::Schema(change) => !schema::lets_go(change),
                    Utility::CreateTableAs(_) | Utility::Database(_) => true,
                    _ => false,
                };
                current.tag.is_none() && writes
            }
            Statement::Empty | Statement::Elsewhere => false,
        };
        let copies = self.copy_in.as_ref().is_some_and(|copy| !copy.makes_room());
        // What runs elsewhere writes there.
        let is_here = self.cancelled.is_none() && !self.awaits_other();
        is_here && (copies || self.current.as_ref().is_some_and(writes))
    }

    /// Whether one of its latest transactions was aborted because of others (load control, rule L-4).
    pub fn was_aborted_lately(&self) -> bool {
        self.conflicts > 0
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some() || self.block != Block::None
    }

    /// The status that ReadyForQuery tells.
    pub fn status(&self) -> TransactionStatus {
        match self.block {
            Block::None | Block::Implicit => TransactionStatus::Idle,
            Block::Explicit => TransactionStatus::InTransaction,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// The parser stage: takes requests until one needs another stage.
    pub fn on_parser<L: PartitionLock>(
        &mut self,
        requests: &mut VecDeque<Request>,
        lock: &L,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Next {
        self.now_us = context.now_us;
        if matches!(requests.front(), Some(Request::GoOn)) {
            requests.pop_front();
            self.resume(responder);
        } else if self.has_paused() && matches!(requests.front(), Some(Request::Terminate)) {
            // A statement that had paused, and whose client has gone meanwhile.
            self.leave(&mut lock.lock());
            requests.clear();
            return Next::Idle;
        }
        if self.commit_waits_since_us.is_some()
            && let Some(next) = self.stop_cancelled(&mut lock.lock(), context, responder)
        {
            return next;
        }
        loop {
            // What has ended is told as a whole.
            let is_told = match self.in_script {
                true => !self.script.is_empty(),
                false => !matches!(requests.front(), Some(Request::Sync | Request::Terminate)),
            };
            if self.ends_with.is_some() && is_told {
                self.end_terminated(&mut lock.lock(), responder);
            }
            if self.is_over {
                requests.clear();
                return Next::Idle;
            }
            if self.current.is_some() {
                return Next::To(self.execution_stage());
            }
            // A parameter may say 'today'.
            self.text.now_us = self.transaction_time_us(context.now_us);
            if let Some(next) = self.resume_copy(lock, context, responder) {
                return next;
            }
            if self.in_script && !self.awaits_data() {
                match self.next_of_script(context) {
                    Some(next) => return next,
                    None => match self.end_script(&mut lock.lock(), responder) {
                        Next::Idle => continue,
                        next => return next,
                    },
                }
            }
            let Some(request) = requests.pop_front() else {
                return Next::Idle;
            };
            if let Some(next) = self.on_request(request, requests, lock, context, responder) {
                return next;
            }
        }
    }

    /// The answers given so far have been taken away: of a statement that has answered nothing yet, nothing more can be.
    fn resume(&mut self, responder: &dyn Responder) {
        if self.holds_answer() {
            return;
        }
        for current in self.current.iter_mut().chain(&mut self.after_replay) {
            if !current.streamed {
                current.mark = responder.buffered_bytes();
            }
        }
    }

    /// The security stage: whether the session may run the statement at all.
    pub fn on_security(&mut self, responder: &mut dyn Responder, partition: &mut Partition) -> Next {
        if let Some(current) = &mut self.current {
            current.mark = responder.buffered_bytes();
        }
        let Some(current) = &self.current else {
            return Next::To(StageKind::Parser);
        };
        self.facts.begins(&current.sql, current.started_us);
        if self.block == Block::Failed && !block::allowed_after_error(&current.statement) {
            return self.fail(extended::in_failed_block(), partition, responder);
        }
        let plan = match &current.statement {
            Statement::Planned(plan) if self.may_not_run(plan) => Arc::clone(plan),
            _ => return Next::To(StageKind::Transaction),
        };
        let catalog = self.catalog(partition);
        let path = self.path_in(&catalog);
        // What it names may not be there any more.
        if !execute::is_current(&plan, &catalog, &path.searched) {
            self.to_bind = Some(ToBind::Again);
            return Next::To(StageKind::Optimizer);
        }
        let verb = execute::verb(&plan);
        let message = format!("cannot execute {verb} in a read-only transaction");
        let error = Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message);
        self.fail(error, partition, responder)
    }

    fn raise_durable(&mut self, lsn: Lsn) {
        self.durable_at = self.durable_at.max(lsn);
    }
}
