//! A session in process.

use crate::Database;
use crate::collect::{Collector, Output};
use rubato_base::{DataType, Error, Lsn, Result, SessionId, Value};
use rubato_node::NodeWorker;
use rubato_sql::client::{Request, Responder};
use rubato_sql::session::Session as SqlSession;
use rubato_stages::worker::{SessionStart, StatementWorker, Wake, Work};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a session that waits for another one sleeps before it looks for itself, should nobody wake it.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// One session: statements one after the other, on whichever thread holds it.
pub struct Session {
    worker: NodeWorker,
    session: Option<Box<SqlSession>>,
    responder: Option<Box<dyn Responder>>,
    requests: VecDeque<Request>,
    bell: Arc<Bell>,
    prepared: u64,
    waits_for_disk: bool,
    durable_at: Lsn,
    // Last: the folder stays open as long as a session is.
    database: Database,
}

/// A prepared statement of one session.
#[derive(Clone, Debug)]
pub struct Statement {
    name: String,
    types: Vec<DataType>,
}

impl Statement {
    /// The types of its parameters, `$1` first.
    pub fn parameter_types(&self) -> &[DataType] {
        &self.types
    }
}

/// Rung by whoever ends a transaction that this session waits for.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

impl Bell {
    fn sleep(&self, at_most: Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rung, _) = self
            .changed
            .wait_timeout_while(rung, at_most.min(SLEEP_MAX), |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner);
        *rung = false;
    }
}

/// Microseconds since 1970 by the system's clock.
pub(crate) fn now_us() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64)
}

impl Session {
    pub(crate) fn new(database: Database, number: usize, name: &str) -> Result<Session> {
        let bell = Arc::new(Bell::default());
        let mut worker = database.node().worker(number, Some(Arc::clone(&bell) as _))?;
        let start = SessionStart {
            session: SessionId(number as u64 + 1),
            worker: number,
            user: "rubato".into(),
            database: name.to_owned(),
            settings: Vec::new(),
            peer: "in process".into(),
            ..SessionStart::default()
        };
        let mut responder: Box<dyn Responder> = Box::new(Collector::default());
        worker.run(now_us());
        let session = worker.open_session(start, &mut responder)?;
        Ok(Session {
            worker,
            session: Some(session),
            responder: Some(responder),
            requests: VecDeque::new(),
            bell,
            prepared: 0,
            waits_for_disk: true,
            durable_at: Lsn(0),
            database,
        })
    }

    /// Runs one or more statements; returns when all they answer is durable.
    pub fn execute(&mut self, sql: &str) -> Result<Vec<Output>> {
        self.requests.push_back(Request::Query { sql: sql.to_owned() });
        self.round(|collector| std::mem::take(&mut collector.outputs))
    }

    /// Runs one statement that returns rows or a count.
    pub fn query(&mut self, sql: &str) -> Result<Output> {
        Ok(self.execute(sql)?.pop().unwrap_or_default())
    }

    /// Prepares a statement with parameters `$1`, `$2` ...
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.prepared += 1;
        let name = format!("s{}", self.prepared);
        self.requests.push_back(Request::Parse {
            name: name.clone(),
            sql: sql.to_owned(),
            parameter_types: Vec::new(),
        });
        self.requests.push_back(Request::DescribeStatement(name.clone()));
        self.requests.push_back(Request::Sync);
        let types = self.round(|collector| std::mem::take(&mut collector.parameter_types))?;
        Ok(Statement { name, types })
    }

    /// Runs a prepared statement. Values are of the types that the statement's parameters have.
    pub fn run(&mut self, statement: &Statement, values: &[Value]) -> Result<Output> {
        self.push_call(statement, values.to_vec());
        self.requests.push_back(Request::Sync);
        self.round(|collector| collector.outputs.pop().unwrap_or_default())
    }

    /// Runs prepared statements one after the other; after an error the rest is passed over. Outside of a transaction block
    /// they are one transaction.
    pub fn run_all<'s>(&mut self, calls: impl IntoIterator<Item = (&'s Statement, Vec<Value>)>) -> Result<Vec<Output>> {
        for (statement, values) in calls {
            self.push_call(statement, values);
        }
        self.requests.push_back(Request::Sync);
        self.round(|collector| std::mem::take(&mut collector.outputs))
    }

    fn push_call(&mut self, statement: &Statement, values: Vec<Value>) {
        self.requests.push_back(Request::BindValues {
            columns: None,
            portal: String::new(),
            formats: Default::default(),
            statement: statement.name.clone(),
            values,
        });
        self.requests.push_back(Request::Execute {
            portal: String::new(),
            max_rows: 0,
        });
    }

    /// Loads rows with `COPY ... FROM STDIN`; `data` is in the format that the statement names.
    pub fn copy_in(&mut self, sql: &str, data: &[u8]) -> Result<u64> {
        self.requests.push_back(Request::Query { sql: sql.to_owned() });
        for chunk in data.chunks(1 << 16) {
            self.requests.push_back(Request::CopyData(bytes_of(chunk)));
        }
        self.requests.push_back(Request::CopyDone);
        self.round(|collector| collector.outputs.pop().unwrap_or_default().affected())
    }

    /// Whether answers wait until what they depend on is on the disk, as they do unless this is switched off: for a thread that
    /// serves many clients, and goes on with the next one's transaction while the log is being forced for the last ones'.
    ///
    /// Without waiting, whoever is given an answer has to wait for [`Session::durable_at`] first: what it tells may be of a
    /// commit that a crash would still undo.
    pub fn set_waits_for_disk(&mut self, waits: bool) {
        self.waits_for_disk = waits;
    }

    /// How far the log has to be on the disk for everything that this session has answered so far
    /// (see [`Database::wait_until_durable`]).
    pub fn durable_at(&self) -> Lsn {
        self.durable_at
    }

    /// Whether a transaction block is open.
    pub fn in_transaction(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.in_transaction())
    }

    /// Hands the requests in, runs until they are answered, and waits until the answers are durable, if it is to.
    fn round<T>(&mut self, take: impl FnOnce(&mut Collector) -> T) -> Result<T> {
        let (Some(session), Some(responder)) = (self.session.take(), self.responder.take()) else {
            return Err(Error::internal("the session was lost"));
        };
        let requests = std::mem::take(&mut self.requests);
        self.worker.submit(Work {
            session,
            connection: 0,
            requests,
            responder,
            durable_at: Lsn(0),
        });
        loop {
            self.worker.run(now_us());
            let Some(work) = self.worker.poll_completed() else {
                if self.worker.has_more() {
                    continue;
                }
                let deadline_us = self.worker.next_deadline_us().unwrap_or(i64::MAX);
                let left_us = deadline_us.saturating_sub(now_us()).max(0);
                self.bell.sleep(Duration::from_micros(left_us as u64));
                continue;
            };
            if !work.requests.is_empty() {
                self.worker.submit(work);
                continue;
            }
            self.session = Some(work.session);
            self.requests = work.requests;
            let mut responder = work.responder;
            self.durable_at = self.durable_at.max(work.durable_at);
            if self.waits_for_disk {
                self.database.wait_until_durable(self.durable_at);
            }
            let Some(collector) = responder.as_any().downcast_mut::<Collector>() else {
                return Err(Error::internal("the answers were lost"));
            };
            let result = match collector.error.take() {
                Some(error) => Err(error),
                None => Ok(take(collector)),
            };
            collector.clear();
            self.responder = Some(responder);
            return result;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let (Some(session), Some(responder)) = (self.session.take(), self.responder.take()) {
            let requests = VecDeque::from([Request::Terminate]);
            self.worker.submit(Work {
                session,
                connection: 0,
                requests,
                responder,
                durable_at: Lsn(0),
            });
            self.worker.run(now_us());
        }
    }
}

fn bytes_of(chunk: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(chunk)
}
