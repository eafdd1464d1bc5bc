//! A small engine that stands in for a node: enough commands to exercise every path of the wire.

use rubato_base::text_format::TextContext;
use rubato_base::{DataType, Error, Lsn, Result, SessionId, SqlState, Value};
use rubato_sql::channels::Notification;
use rubato_sql::client::{Format, OutputColumn, Request, Responder, TransactionStatus};
use rubato_stages::worker::{CancelReason, SessionStart, Signal, Signals, StatementWorker, WakeHandle, Work};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Bytes answered after which a session gives way.
const YIELD_BYTES: usize = 64 << 10;

/// What all workers of one test share.
#[derive(Default)]
pub struct World {
    pub appended: AtomicU64,
    pub forced: AtomicU64,
    pub forces: AtomicU64,
    pub commits: AtomicU64,
    pub rolled_back: AtomicU64,
    pub sessions_ended: AtomicU64,
    pub cancels: Mutex<Vec<CancelReason>>,
    /// While set, no worker forces the log: somebody else is said to.
    pub force_elsewhere: AtomicBool,
    pub wakes: Mutex<Vec<WakeHandle>>,
    /// What is to be told to the only session.
    pub letters: Mutex<VecDeque<String>>,
    pub signals: Mutex<Option<Arc<dyn Signals>>>,
}

impl World {
    /// Something is told to the session with this number, as clients know it.
    pub fn tell(&self, process_id: i32, letter: String) {
        self.letters.lock().unwrap().push_back(letter);
        let signals = self.signals.lock().unwrap();
        assert!(signals.as_ref().unwrap().signal(process_id, Signal::Deliver));
    }

    /// Forces the log from another thread.
    pub fn force_from_outside(&self) {
        self.forced.store(self.appended.load(SeqCst), SeqCst);
        self.wakes.lock().unwrap().iter().for_each(|wake| wake.wake());
    }
}

pub struct TestSession {
    id: SessionId,
    statement: String,
    in_transaction: bool,
    skipping: bool,
    /// Rows still to send, and their size.
    rows: Option<(usize, usize)>,
    copied: Option<usize>,
}

type TestWork = Work<TestSession, Request, Box<dyn Responder>>;

pub struct TestEngine {
    world: Arc<World>,
    runnable: VecDeque<TestWork>,
    /// Work that waits for a moment, or for ever.
    waiting: HashMap<SessionId, (TestWork, Option<i64>, bool)>,
    completed: VecDeque<TestWork>,
}

impl TestEngine {
    pub fn new(world: Arc<World>, wake: WakeHandle) -> TestEngine {
        world.wakes.lock().unwrap().push(wake);
        TestEngine {
            world,
            runnable: VecDeque::new(),
            waiting: HashMap::new(),
            completed: VecDeque::new(),
        }
    }

    fn finish_waiting(&mut self, session: SessionId, outcome: std::result::Result<&str, Error>) {
        let Some((mut work, _, simple)) = self.waiting.remove(&session) else {
            return;
        };
        match outcome {
            Ok(tag) => work.responder.command_complete(tag),
            Err(error) => {
                work.responder.error(&error);
                work.session.skipping = !simple;
            }
        }
        if simple {
            ready(&mut work);
        }
        self.runnable.push_back(work);
    }

    // Runs one work until it is done, gives way or waits.
    fn run_work(&mut self, mut work: TestWork, now_us: i64) {
        loop {
            if work.session.rows.is_some() && !send_rows(&mut work) {
                return self.completed.push_back(work);
            }
            let Some(request) = work.requests.pop_front() else {
                return self.completed.push_back(work);
            };
            if work.session.skipping && !matches!(request, Request::Sync | Request::Terminate) {
                continue;
            }
            match request {
                Request::Query { sql } | Request::LayAnew { sql } => {
                    if let Some(wait) = wait_of(&sql, now_us) {
                        self.waiting.insert(work.session.id, (work, wait, true));
                        return;
                    }
                    self.execute(&sql, &mut work, true);
                    let is_copy = work.session.copied.is_some();
                    if work.session.rows.is_none() && !is_copy {
                        ready(&mut work);
                    }
                }
                Request::Parse { sql, .. } => {
                    work.session.statement = sql;
                    work.responder.parse_complete();
                }
                Request::Bind(_) | Request::BindValues { .. } => work.responder.bind_complete(),
                Request::DescribeStatement(_) => {
                    work.responder.parameter_description(&[]);
                    work.responder.row_description(&columns(), &[]);
                }
                Request::DescribePortal(_) => work.responder.row_description(&columns(), &[]),
                Request::Execute { .. } => {
                    let sql = work.session.statement.clone();
                    if let Some(wait) = wait_of(&sql, now_us) {
                        self.waiting.insert(work.session.id, (work, wait, false));
                        return;
                    }
                    self.execute(&sql, &mut work, false);
                }
                Request::CloseStatement(_) | Request::ClosePortal(_) => work.responder.close_complete(),
                Request::Sync => {
                    work.session.skipping = false;
                    ready(&mut work);
                }
                Request::Deliver => {
                    for letter in self.world.letters.lock().unwrap().drain(..) {
                        work.responder.notification(&Notification {
                            channel: "news".into(),
                            payload: letter.into(),
                            backend_id: 0,
                            durable_at: Lsn(0),
                        });
                    }
                }
                Request::Flush | Request::GoOn => return self.completed.push_back(work),
                Request::CopyData(data) => work.session.copied = work.session.copied.map(|bytes| bytes + data.len()),
                Request::CopyDone => {
                    let bytes = work.session.copied.take().unwrap_or(0);
                    work.responder.command_complete(&format!("COPY {bytes}"));
                    ready(&mut work);
                }
                Request::CopyFail(reason) => {
                    work.session.copied = None;
                    work.responder.error(&Error::new(SqlState::QUERY_CANCELED, reason));
                    ready(&mut work);
                }
                Request::Invalid { error, .. } => {
                    work.responder.error(&error);
                    work.session.skipping = true;
                }
                Request::Terminate => {
                    if work.session.in_transaction {
                        self.world.rolled_back.fetch_add(1, SeqCst);
                    }
                    self.world.sessions_ended.fetch_add(1, SeqCst);
                    return self.completed.push_back(work);
                }
            }
        }
    }

    fn execute(&mut self, sql: &str, work: &mut TestWork, simple: bool) {
        let words: Vec<&str> = sql.trim_end_matches(';').split_whitespace().collect();
        let number = |index: usize| {
            words
                .get(index)
                .and_then(|word| word.parse::<usize>().ok())
                .unwrap_or(0)
        };
        match words.first().copied().unwrap_or("") {
            "" => return work.responder.empty_query(),
            "SELECT" => {
                if simple {
                    work.responder.row_description(&columns(), &[]);
                }
                send_row(work, words.get(1).copied().unwrap_or("nothing"));
            }
            "ROWS" => {
                work.responder.row_description(&columns(), &[]);
                work.session.rows = Some((number(1), number(2)));
                return;
            }
            "BEGIN" => work.session.in_transaction = true,
            "COMMIT" => {
                work.session.in_transaction = false;
                work.durable_at = Lsn(self.world.appended.fetch_add(1, SeqCst) + 1);
                self.world.commits.fetch_add(1, SeqCst);
            }
            "COPY" => {
                work.session.copied = Some(0);
                return work.responder.copy_in(Format::Text, 1);
            }
            "LENGTH" => {
                if simple {
                    work.responder.row_description(&columns(), &[]);
                }
                send_row(work, &sql.len().to_string());
            }
            _ => {
                work.session.skipping = !simple;
                return work
                    .responder
                    .error(&Error::new(SqlState::SYNTAX_ERROR, "no such command"));
            }
        }
        work.responder.command_complete(words[0]);
    }
}

fn wait_of(sql: &str, now_us: i64) -> Option<Option<i64>> {
    match sql.split_once(' ') {
        _ if sql == "WAIT" => Some(None),
        Some(("SLEEP", milliseconds)) => Some(Some(now_us + milliseconds.parse::<i64>().ok()? * 1000)),
        _ => None,
    }
}

fn columns() -> [OutputColumn; 1] {
    [OutputColumn {
        name: "value".to_owned(),
        data_type: DataType::Text,
        modifier: -1,
        table: None,
        column_number: 0,
        told_type: None,
    }]
}

fn send_row(work: &mut TestWork, text: &str) {
    work.responder
        .data_row(&[Value::text(text)], &columns(), &[], &TextContext::default());
}

// Whether all rows are sent.
fn send_rows(work: &mut TestWork) -> bool {
    let Some((mut count, size)) = work.session.rows.take() else {
        return true;
    };
    let row = "x".repeat(size);
    while count > 0 {
        if work.responder.buffered_bytes() > YIELD_BYTES {
            work.session.rows = Some((count, size));
            // Not empty, so that the owner submits it again.
            work.requests.push_front(Request::Flush);
            return false;
        }
        send_row(work, &row);
        count -= 1;
    }
    work.requests.retain(|request| !matches!(request, Request::Flush));
    work.responder.command_complete("ROWS");
    ready(work);
    true
}

fn ready(work: &mut TestWork) {
    let status = if work.session.in_transaction {
        TransactionStatus::InTransaction
    } else {
        TransactionStatus::Idle
    };
    work.responder.ready_for_query(status);
}

impl StatementWorker for TestEngine {
    type Session = TestSession;
    type Request = Request;
    type Responder = Box<dyn Responder>;

    fn open_session(&mut self, start: SessionStart, responder: &mut Box<dyn Responder>) -> Result<Box<TestSession>> {
        if let Some((name, _)) = start.settings.iter().find(|(name, _)| name == "nonsense") {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
        }
        if start.database == "other" {
            let message = format!("database \"{}\" does not exist", start.database);
            return Err(Error::new(SqlState::INVALID_CATALOG_NAME, message));
        }
        *self.world.signals.lock().unwrap() = start.signals.clone();
        responder.parameter_status("test_worker", &start.worker.to_string());
        Ok(Box::new(TestSession {
            id: start.session,
            statement: String::new(),
            in_transaction: false,
            skipping: false,
            rows: None,
            copied: None,
        }))
    }

    fn submit(&mut self, work: TestWork) {
        self.runnable.push_back(work);
    }

    fn run(&mut self, now_us: i64) {
        let is_due = |(_, until, _): &&(TestWork, Option<i64>, bool)| until.is_some_and(|until| until <= now_us);
        let due: Vec<SessionId> = self
            .waiting
            .values()
            .filter(is_due)
            .map(|(work, ..)| work.session.id)
            .collect();
        due.into_iter()
            .for_each(|session| self.finish_waiting(session, Ok("SLEEP")));
        while let Some(work) = self.runnable.pop_front() {
            self.run_work(work, now_us);
        }
    }

    fn poll_completed(&mut self) -> Option<TestWork> {
        self.completed.pop_front()
    }

    fn on_wake(&mut self) {}

    fn forced_lsn(&self) -> Lsn {
        Lsn(self.world.forced.load(SeqCst))
    }

    fn force_if_idle(&mut self) -> bool {
        if self.world.force_elsewhere.load(SeqCst) {
            return false;
        }
        let appended = self.world.appended.load(SeqCst);
        self.world.forces.fetch_add(1, SeqCst);
        self.world.forced.fetch_max(appended, SeqCst) < appended
    }

    fn next_deadline_us(&self) -> Option<i64> {
        self.waiting.values().filter_map(|(_, until, _)| *until).min()
    }

    fn cancel(&mut self, session: SessionId, reason: CancelReason) {
        let (code, message) = match reason {
            CancelReason::ClientRequest => (SqlState::QUERY_CANCELED, "canceling statement due to user request"),
            _ => (
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ),
        };
        if self.waiting.contains_key(&session) {
            self.world.cancels.lock().unwrap().push(reason);
        }
        self.finish_waiting(session, Err(Error::new(code, message)));
    }
}
