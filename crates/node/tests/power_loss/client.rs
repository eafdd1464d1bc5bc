//! Clients of a node in one thread: they submit scripts and are answered when the log is forced far enough.

use rubato_base::text_format::TextContext;
use rubato_base::{DataType, Error, Lsn, SessionId, Value};
use rubato_node::{Node, NodeWorker};
use rubato_sql::client::{Format, OutputColumn, Request, Responder, TransactionStatus};
use rubato_sql::session::Session;
use rubato_stages::worker::{SessionStart, StatementWorker, Work, WorkOf};
use std::any::Any;
use std::collections::VecDeque;

/// What a script was answered.
#[derive(Default)]
pub struct Answer {
    pub rows: Vec<Vec<Value>>,
    pub error: Option<Error>,
}

impl Responder for Answer {
    fn parse_complete(&mut self) {}
    fn bind_complete(&mut self) {}
    fn close_complete(&mut self) {}
    fn no_data(&mut self) {}
    fn parameter_description(&mut self, _: &[DataType]) {}
    fn row_description(&mut self, _: &[OutputColumn], _: &[Format]) {}
    fn data_row(&mut self, values: &[Value], _: &[OutputColumn], _: &[Format], _: &TextContext) {
        self.rows.push(values.to_vec());
    }
    fn command_complete(&mut self, _: &str) {}
    fn empty_query(&mut self) {}
    fn portal_suspended(&mut self) {}
    fn error(&mut self, error: &Error) {
        self.error.get_or_insert_with(|| error.clone());
    }
    fn notice(&mut self, _: &'static str, _: &Error) {}
    fn ready_for_query(&mut self, _: TransactionStatus) {}
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: Format, _: usize) {}
    fn copy_out(&mut self, _: Format, _: usize) {}
    fn copy_data(&mut self, _: &[u8]) {}
    fn copy_done(&mut self) {}
    fn buffered_bytes(&self) -> usize {
        self.rows.len()
    }
    fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

enum State {
    Idle(Box<Session>),
    /// Its work is inside the worker.
    Working,
    /// Answered, but the log is not forced up to here.
    Held(Box<Session>, Lsn, Answer),
    Between,
}

/// A worker of the node with its sessions.
pub struct Clients {
    worker: NodeWorker,
    sessions: Vec<State>,
}

impl Clients {
    pub fn new(node: &Node, index: usize, count: usize) -> Clients {
        let mut worker = node.worker(index, None).expect("a worker");
        let sessions = (0..count).map(|number| {
            let start = SessionStart {
                session: SessionId((index * 100 + number + 1) as u64),
                worker: index,
                user: "rubato".into(),
                database: "rubato".into(),
                ..SessionStart::default()
            };
            let mut responder: Box<dyn Responder> = Box::new(Answer::default());
            State::Idle(worker.open_session(start, &mut responder).expect("a session"))
        });
        Clients {
            sessions: sessions.collect(),
            worker,
        }
    }

    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_idle(&self, session: usize) -> bool {
        matches!(self.sessions[session], State::Idle(_))
    }

    pub fn submit(&mut self, session: usize, sql: String) {
        let State::Idle(idle) = std::mem::replace(&mut self.sessions[session], State::Working) else {
            panic!("the session is busy");
        };
        let requests = VecDeque::from([Request::Query { sql }]);
        let responder = Box::new(Answer::default());
        self.worker.submit(Work {
            session: idle,
            connection: session,
            requests,
            responder,
            durable_at: Lsn(0),
        });
    }

    /// Runs what can run; gives the answers that may be sent, by session.
    pub fn run(&mut self, now_us: i64) -> Vec<(usize, Answer)> {
        self.worker.run(now_us);
        while let Some(work) = self.worker.poll_completed() {
            self.complete(work);
        }
        self.release()
    }

    /// Forces the log as an idle thread would.
    pub fn force(&mut self) -> Vec<(usize, Answer)> {
        self.worker.force_if_idle();
        self.release()
    }

    fn complete(&mut self, mut work: WorkOf<NodeWorker>) {
        if !work.requests.is_empty() {
            self.worker.submit(work);
            return;
        }
        let answer = work
            .responder
            .as_any()
            .downcast_mut::<Answer>()
            .map(std::mem::take)
            .expect("an answer");
        self.sessions[work.connection] = State::Held(work.session, work.durable_at, answer);
    }

    fn release(&mut self) -> Vec<(usize, Answer)> {
        let forced = self.worker.forced_lsn();
        let mut answers = Vec::new();
        for (number, state) in self.sessions.iter_mut().enumerate() {
            match std::mem::replace(state, State::Between) {
                State::Held(session, durable_at, answer) if durable_at <= forced => {
                    *state = State::Idle(session);
                    answers.push((number, answer));
                }
                other => *state = other,
            }
        }
        answers
    }
}
