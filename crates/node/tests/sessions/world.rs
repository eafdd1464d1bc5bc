//! A node without files, with one worker, driven as a server drives it: each answer that a session is done with is taken away,
//! and a session that stopped early gets a fresh responder.

use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{DataType, Error, Lsn, SessionId, Value};
use rubato_log::MemoryDirectory;
use rubato_node::{Node, NodeSettings, NodeWorker};
use rubato_sql::client::{Bind, BoundValues, Format, OutputColumn, Request, Responder, RowsDigest, TransactionStatus};
use rubato_sql::session::Session;
use rubato_stages::worker::{CancelReason, SessionStart, StatementWorker, Work};
use rubato_storage::{Faults, MemoryStore, Store};
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Turns of the worker after which a session hangs.
pub const TURNS_MAX: usize = 20_000;

/// Answers of one turn, a line each; `D 1|x` is a row, `C UPDATE 1` a tag, `Z I` the status.
#[derive(Default)]
pub struct Lines {
    pub lines: Vec<String>,
    bytes: usize,
    /// Of the last error, where it was.
    context: Option<String>,
    detail: Option<String>,
    /// Settings that the client was told of.
    reports: Vec<String>,
}

impl Lines {
    fn say(&mut self, line: impl Into<String>) {
        let line = line.into();
        self.bytes += line.len();
        self.lines.push(line);
    }
}

impl Responder for Lines {
    fn notification(&mut self, told: &rubato_sql::channels::Notification) {
        self.say(format!("A {} {} {}", told.backend_id, told.channel, told.payload));
    }

    fn parse_complete(&mut self) {
        self.say("1");
    }
    fn bind_complete(&mut self) {
        self.say("2");
    }
    fn close_complete(&mut self) {
        self.say("3");
    }
    fn no_data(&mut self) {
        self.say("n");
    }
    fn parameter_description(&mut self, types: &[DataType]) {
        self.say(format!("t {}", types.len()));
    }
    fn row_description(&mut self, columns: &[OutputColumn], _: &[Format]) {
        self.say(format!("T {}", columns.len()));
    }
    fn data_row(&mut self, values: &[Value], columns: &[OutputColumn], _: &[Format], context: &TextContext) {
        let shown = values.iter().zip(columns).map(|(value, column)| {
            let mut out = Vec::new();
            write_text(value, column.data_type, context, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        });
        let shown = shown.collect::<Vec<_>>().join("|");
        self.say(format!("D {shown}"));
    }
    fn command_complete(&mut self, tag: &str) {
        self.say(format!("C {tag}"));
    }
    fn empty_query(&mut self) {
        self.say("I");
    }
    fn portal_suspended(&mut self) {
        self.say("s");
    }
    fn error(&mut self, error: &Error) {
        self.context.clone_from(&error.fields().context);
        self.detail.clone_from(&error.fields().detail);
        self.say(format!("E {} {}", error.code().as_str(), error.message()));
    }
    fn notice(&mut self, severity: &'static str, notice: &Error) {
        self.say(format!("N {severity} {}", notice.message()));
    }
    fn ready_for_query(&mut self, status: TransactionStatus) {
        self.say(match status {
            TransactionStatus::Idle => "Z I",
            TransactionStatus::InTransaction => "Z T",
            TransactionStatus::Failed => "Z E",
        });
    }
    fn parameter_status(&mut self, name: &str, value: &str) {
        self.reports.push(format!("{name}={value}"));
    }
    fn copy_in(&mut self, _: Format, _: usize) {
        self.say("G");
    }
    fn copy_out(&mut self, _: Format, _: usize) {
        self.say("H");
    }
    fn copy_data(&mut self, data: &[u8]) {
        self.say(format!("d {}", String::from_utf8_lossy(data)));
    }
    fn copy_done(&mut self) {
        self.say("c");
    }
    fn take_answer(&mut self) -> Vec<u8> {
        self.bytes = 0;
        std::mem::take(&mut self.lines).join("\n").into_bytes()
    }
    fn put_answer(&mut self, answer: &[u8]) {
        String::from_utf8_lossy(answer).lines().for_each(|line| self.say(line));
    }
    fn buffered_bytes(&self) -> usize {
        self.bytes
    }
    fn rows_digest(&self, bytes: usize) -> Option<u64> {
        let mut before = 0;
        let mut digest = RowsDigest::default();
        for line in &self.lines {
            if before >= bytes && line.starts_with("D ") {
                digest.add(line.as_bytes());
            }
            before += line.len();
        }
        Some(digest.sum())
    }
    fn truncate(&mut self, bytes: usize) {
        while self.bytes > bytes {
            let line = self.lines.pop().expect("as many bytes as were counted");
            self.bytes -= line.len();
        }
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

thread_local! {
    /// The time in the worlds of one test.
    static NOW_US: Cell<i64> = const { Cell::new(1_700_000_000_000_000) };
    /// What passes with each look at the clock.
    static TICK_US: Cell<i64> = const { Cell::new(0) };
}

pub fn clock_us() -> i64 {
    pass(TICK_US.get());
    NOW_US.get()
}

/// From now on so much time passes with each look at the clock.
pub fn tick(us: i64) {
    TICK_US.set(us);
}

/// Time passes.
pub fn pass(us: i64) {
    NOW_US.with(|now_us| now_us.set(now_us.get() + us));
}

/// A node, its worker, and sessions by number.
pub struct World {
    pub node: Node,
    worker: NodeWorker,
    idle: Vec<Option<Box<Session>>>,
    said: Vec<Vec<String>>,
    contexts: Vec<Option<String>>,
    details: Vec<Option<String>>,
    /// Settings that the clients were told of.
    pub reports: Vec<String>,
    user: &'static str,
    gone: Vec<bool>,
    directory: Arc<MemoryDirectory>,
    store: Arc<MemoryStore>,
    settings: NodeSettings,
}

impl World {
    pub fn new(sessions: usize) -> World {
        World::with(sessions, NodeSettings::default())
    }

    pub fn with(sessions: usize, settings: NodeSettings) -> World {
        World::open(
            sessions,
            settings,
            Arc::default(),
            Arc::new(MemoryStore::new()),
            "rubato",
        )
    }

    /// One session of this user.
    pub fn of_user(user: &'static str) -> World {
        let settings = NodeSettings::default();
        World::open(1, settings, Arc::default(), Arc::new(MemoryStore::new()), user)
    }

    /// Another life of the node, on what it has forced.
    pub fn restart(self) -> World {
        let (sessions, settings) = (self.idle.len(), self.settings.clone());
        let (directory, store, user) = (Arc::clone(&self.directory), Arc::clone(&self.store), self.user);
        drop(self);
        World::open(sessions, settings, directory, store, user)
    }

    /// What the store may hold: nothing more than it has where the disk is full.
    pub fn set_disk(&self, space_bytes: Option<u64>) {
        self.store.set_faults(Faults {
            space_bytes,
            ..Faults::default()
        });
    }

    /// As [`World::restart`], with another memory.
    pub fn restart_within(mut self, memory_bytes: usize) -> World {
        self.settings.memory_bytes = memory_bytes;
        self.restart()
    }

    /// A node that reaches its store by way of another one, until it is started again.
    pub fn over(sessions: usize, way: impl Fn(Arc<MemoryStore>) -> Arc<dyn Store>) -> World {
        let store = Arc::new(MemoryStore::new());
        let seen = way(Arc::clone(&store));
        World::open_over(
            sessions,
            NodeSettings::default(),
            Arc::default(),
            (store, seen),
            "rubato",
        )
    }

    /// What a look at the disk finds, with so many keys under a number in the store.
    pub fn verified_with(&self, table: u32, keys: u32) -> rubato_node::VerifyReport {
        let mut batch = rubato_storage::Batch::new();
        (0..keys).for_each(|key| batch.put(table, key.to_be_bytes(), *b"a row of no table"));
        self.store.apply(batch).expect("applies");
        let store: Arc<dyn Store> = Arc::clone(&self.store) as _;
        rubato_node::verify(&store, Arc::clone(&self.directory) as _).expect("nothing is damaged")
    }

    /// The store takes nothing any more.
    pub fn stop_disk(&self) {
        self.store.set_faults(Faults {
            read_only: true,
            ..Faults::default()
        });
    }

    /// As [`World::restart`]; of what was not forced in the store so many changes are left.
    pub fn restart_after_power_loss(self, surviving_calls: usize) -> World {
        self.store.set_faults(Faults::default());
        self.store.lose_power(surviving_calls);
        self.restart()
    }

    fn open(
        sessions: usize,
        settings: NodeSettings,
        directory: Arc<MemoryDirectory>,
        store: Arc<MemoryStore>,
        user: &'static str,
    ) -> World {
        let seen = Arc::clone(&store) as _;
        World::open_over(sessions, settings, directory, (store, seen), user)
    }

    fn open_over(
        sessions: usize,
        settings: NodeSettings,
        directory: Arc<MemoryDirectory>,
        (store, seen): (Arc<MemoryStore>, Arc<dyn Store>),
        user: &'static str,
    ) -> World {
        let options = rubato_log::Options {
            prepare_in_background: false,
            ..rubato_log::Options::default()
        };
        let settings = NodeSettings { clock_us, ..settings };
        let opened = Node::open(seen, Arc::clone(&directory) as _, options, settings.clone());
        let (node, _) = opened.expect("a node");
        let worker = node.worker(0, None).expect("a worker");
        let mut world = World {
            node,
            worker,
            idle: Vec::new(),
            said: Vec::new(),
            contexts: Vec::new(),
            details: Vec::new(),
            reports: Vec::new(),
            user,
            gone: Vec::new(),
            directory,
            store,
            settings,
        };
        for _ in 0..sessions {
            world.enter("rubato").expect("a session");
        }
        world
    }

    /// One more session, in a database; its number.
    pub fn enter(&mut self, database: &str) -> Result<usize, Error> {
        let number = self.idle.len();
        let start = SessionStart {
            session: SessionId(number as u64 + 1),
            user: self.user.into(),
            database: database.into(),
            ..SessionStart::default()
        };
        let mut responder: Box<dyn Responder> = Box::new(Lines::default());
        self.idle.push(Some(self.worker.open_session(start, &mut responder)?));
        self.said.push(Vec::new());
        self.contexts.push(None);
        self.details.push(None);
        self.gone.push(false);
        Ok(number)
    }

    /// The client of an idle session ends it.
    pub fn leave(&mut self, session: usize) {
        self.tell(session, [Request::Terminate]);
        self.idle[session] = None;
    }

    pub fn is_idle(&self, session: usize) -> bool {
        self.idle[session].is_some()
    }

    /// How long the client of a session that is idle may be silent.
    pub fn idle_timeout_us(&self, session: usize) -> Option<i64> {
        self.idle[session]
            .as_ref()
            .and_then(|session| session.idle_timeout())
            .map(|timeout| timeout.after_us)
    }

    /// Hands requests to a session that is idle.
    pub fn send(&mut self, session: usize, requests: impl IntoIterator<Item = Request>) {
        let idle = self.idle[session].take().expect("the session is idle");
        self.submit(session, idle, requests.into_iter().collect());
    }

    fn submit(&mut self, number: usize, session: Box<Session>, requests: VecDeque<Request>) {
        self.worker.submit(Work {
            session,
            connection: number,
            requests,
            responder: Box::new(Lines::default()),
            durable_at: Lsn(0),
        });
    }

    /// Time passes.
    pub fn pass(&self, us: i64) {
        pass(us);
    }

    /// The wall clock is set by so much, which the worker's owner notices.
    pub fn set_clock(&mut self, by_us: i64) {
        pass(by_us);
        self.worker.shift_time(by_us);
    }

    /// One turn of the worker: what came back early goes in again. Whether anything came back.
    pub fn turn(&mut self) -> bool {
        self.worker.run(clock_us());
        let mut completed = Vec::new();
        while let Some(work) = self.worker.poll_completed() {
            completed.push(work);
        }
        self.worker.force_if_idle();
        let some = !completed.is_empty();
        for mut work in completed {
            if work.session.holds_answer() {
                self.worker.submit(work);
                continue;
            }
            let lines = work.responder.as_any().downcast_mut::<Lines>().expect("lines");
            self.said[work.connection].append(&mut lines.lines);
            self.details[work.connection] = lines.detail.take();
            self.reports.append(&mut lines.reports);
            if let Some(context) = lines.context.take() {
                self.contexts[work.connection] = Some(context);
            }
            if std::mem::take(&mut self.gone[work.connection]) {
                self.submit(work.connection, work.session, VecDeque::from([Request::Terminate]));
            } else if work.requests.is_empty() {
                self.idle[work.connection] = Some(work.session);
            } else {
                self.submit(work.connection, work.session, work.requests);
            }
        }
        some
    }

    /// Turns until every session is idle or waits for another one.
    pub fn run(&mut self) {
        for _ in 0..TURNS_MAX {
            if !self.turn() {
                return;
            }
        }
        panic!("a session neither ends nor waits; said {:?}", self.said);
    }

    /// Whether the session has ended by itself.
    pub fn is_over(&self, session: usize) -> bool {
        self.idle[session].as_ref().is_some_and(|session| session.is_over())
    }

    /// The client has gone: its owner puts an end to its session as soon as it has it back.
    pub fn client_leaves(&mut self, session: usize) {
        self.gone[session] = true;
    }

    pub fn cancel(&mut self, session: usize, reason: CancelReason) {
        self.worker.cancel(SessionId(session as u64 + 1), reason);
    }

    /// What a session was told since it was last asked.
    pub fn said(&mut self, session: usize) -> Vec<String> {
        std::mem::take(&mut self.said[session])
    }

    /// Where the last error was that a session was told, since this was last asked.
    /// The detail of the session's last error, if it has one.
    pub fn detail(&mut self, session: usize) -> Option<String> {
        self.details[session].take()
    }

    pub fn context(&mut self, session: usize) -> String {
        self.contexts[session].take().unwrap_or_default()
    }

    /// The storage of which the store has rows.
    pub fn stored_tables(&self) -> Vec<u32> {
        self.store.tables().expect("reads")
    }

    /// Up to where the log must be forced before the client of an idle session may see its answers.
    pub fn durable_at(&self, session: usize) -> Lsn {
        self.idle[session]
            .as_ref()
            .map_or(Lsn(0), |session| session.durable_at())
    }

    /// Sends a script and runs.
    pub fn begin(&mut self, session: usize, sql: &str) {
        self.send(session, [query(sql)]);
        self.run();
    }

    /// Sends requests, runs, and gives what was told.
    pub fn tell(&mut self, session: usize, requests: impl IntoIterator<Item = Request>) -> Vec<String> {
        self.send(session, requests);
        self.run();
        self.said(session)
    }

    /// Sends a script, runs, and gives what was told.
    pub fn ask(&mut self, session: usize, sql: &str) -> Vec<String> {
        self.begin(session, sql);
        self.said(session)
    }

    /// The same for a script that must succeed.
    pub fn must(&mut self, session: usize, sql: &str) -> Vec<String> {
        let said = self.ask(session, sql);
        assert!(!said.iter().any(|line| line.starts_with('E')), "{sql}: {said:?}");
        assert!(said.last().is_some_and(|line| line.starts_with('Z')), "{sql}: {said:?}");
        said
    }

    /// The rows of a script's answer.
    pub fn rows(&mut self, session: usize, sql: &str) -> Vec<String> {
        let said = self.must(session, sql);
        let rows = said.iter().filter_map(|line| line.strip_prefix("D "));
        rows.map(str::to_owned).collect()
    }
}

pub fn query(sql: &str) -> Request {
    Request::Query { sql: sql.into() }
}

pub fn parse(name: &str, sql: &str) -> Request {
    Request::Parse {
        name: name.into(),
        sql: sql.into(),
        parameter_types: Vec::new(),
    }
}

pub fn bind(portal: &str, statement: &str) -> Request {
    Request::Bind(Box::new(Bind {
        portal: portal.into(),
        statement: statement.into(),
        ..Bind::default()
    }))
}

/// Bind with values as text.
pub fn bind_to(portal: &str, statement: &str, values: &[&str]) -> Request {
    let mut parameters = BoundValues::default();
    values.iter().for_each(|value| parameters.push(Some(value.as_bytes())));
    Request::Bind(Box::new(Bind {
        portal: portal.into(),
        statement: statement.into(),
        parameters,
        ..Bind::default()
    }))
}

pub fn execute(portal: &str, max_rows: u32) -> Request {
    Request::Execute {
        portal: portal.into(),
        max_rows,
    }
}

/// Parse, Bind and Execute of one statement without parameters.
pub fn unnamed(sql: &str) -> [Request; 3] {
    [parse("", sql), bind("", ""), execute("", 0)]
}
