//! One worker of the node with its connections, as the server's worker loop holds them: requests go in, answers come out when
//! the log is forced as far as they need, a connection that hangs up has its transaction rolled back.

use crate::answer::{Answer, Gathering};
use rubato_base::{Lsn, Result, SessionId};
use rubato_node::{Node, NodeWorker};
use rubato_sql::client::{Request, Responder};
use rubato_sql::session::Session;
use rubato_stages::worker::{CancelReason, SessionStart, StatementWorker, Wake, Work, WorkOf};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rung by another worker.
#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

enum Phase {
    /// The session waits for requests.
    Open(Box<Session>),
    /// Its work is with the engine.
    Inside,
    /// Answered, but the log is not forced up to here.
    Held(Box<Session>, Lsn, Gathering),
}

struct Connection {
    session: SessionId,
    phase: Phase,
    /// The client is gone: what is open is rolled back, and nobody is answered.
    gone: bool,
    /// The session was told to end.
    ending: bool,
}

/// What became of a connection.
#[derive(Debug)]
pub enum Outcome {
    /// All requests are answered.
    Answered(Answer),
    /// The client had gone, and its session has ended.
    Ended,
}

/// A worker with its connections. A client has a number that it keeps; each of its connections is a session of its own.
pub struct Connections {
    engine: NodeWorker,
    index: usize,
    bell: Arc<Bell>,
    connections: BTreeMap<usize, Connection>,
    /// Bytes that one row counts for each client: how soon a session yields to a client that reads slowly.
    piece_bytes: usize,
    /// Answers leave before the log is forced: a fault on purpose, that the checkers have to find.
    early_answers: bool,
    /// Works whose answers are to be read by their clients before they go on.
    yielded: Vec<WorkOf<NodeWorker>>,
    /// The engine was given something since it last ran.
    submitted: bool,
    /// Times that a session yielded for its answers to be sent.
    pub yields: u64,
}

impl Connections {
    /// The worker of this number of the node. Workers are made in order.
    pub fn new(node: &Node, index: usize, piece_bytes: usize, early_answers: bool) -> Result<Connections> {
        let bell = Arc::new(Bell::default());
        Ok(Connections {
            engine: node.worker(index, Some(Arc::clone(&bell) as _))?,
            index,
            bell,
            connections: BTreeMap::new(),
            piece_bytes,
            early_answers,
            yielded: Vec::new(),
            submitted: false,
            yields: 0,
        })
    }

    /// Connects a client. `session` was never used before in this life of the node.
    pub fn connect(&mut self, client: usize, session: u64) -> Result<()> {
        let start = SessionStart {
            session: SessionId(session),
            worker: self.index,
            user: "rubato".into(),
            database: "rubato".into(),
            ..SessionStart::default()
        };
        let mut responder: Box<dyn Responder> = Box::new(Gathering::new(1));
        let opened = self.engine.open_session(start, &mut responder)?;
        let connection = Connection {
            session: SessionId(session),
            phase: Phase::Open(opened),
            gone: false,
            ending: false,
        };
        self.connections.insert(client, connection);
        Ok(())
    }

    /// Whether a client has a session here, be it one that is about to end.
    pub fn is_connected(&self, client: usize) -> bool {
        self.connections.contains_key(&client)
    }

    /// Gives requests of a client to the engine; false if its session is busy or there is none.
    pub fn submit(&mut self, client: usize, requests: VecDeque<Request>) -> bool {
        let Some(connection) = self.connections.get_mut(&client) else {
            return false;
        };
        match std::mem::replace(&mut connection.phase, Phase::Inside) {
            Phase::Open(session) => {
                self.submitted = true;
                self.engine.submit(Work {
                    session,
                    connection: client,
                    requests,
                    responder: Box::new(Gathering::new(self.piece_bytes)),
                    durable_at: Lsn(0),
                });
                true
            }
            other => {
                connection.phase = other;
                false
            }
        }
    }

    /// The client's connection breaks.
    pub fn hang_up(&mut self, client: usize) {
        let Some(connection) = self.connections.get_mut(&client) else {
            return;
        };
        connection.gone = true;
        let session = connection.session;
        self.engine.cancel(session, CancelReason::Disconnected);
        self.end_if_gone(client);
    }

    /// The client asks that its statement be given up.
    pub fn cancel(&mut self, client: usize) {
        if let Some(connection) = self.connections.get(&client) {
            self.engine.cancel(connection.session, CancelReason::ClientRequest);
        }
    }

    /// Whether there is something to run: another worker has rung, or something was given to the engine, since the last
    /// [`Connections::run`].
    pub fn is_rung(&self) -> bool {
        self.submitted || self.bell.0.load(Ordering::SeqCst) || self.has_more()
    }

    /// Whether more can run, and others are to have their turn first.
    pub fn has_more(&self) -> bool {
        self.engine.has_more()
    }

    /// How many works wait for their turn.
    pub fn waiting(&self) -> usize {
        self.engine.waiting()
    }

    /// Runs all that can run.
    pub fn run(&mut self, now_us: i64) {
        if self.bell.0.swap(false, Ordering::SeqCst) {
            self.engine.on_wake();
        }
        self.submitted = false;
        self.engine.run(now_us);
        while let Some(work) = self.engine.poll_completed() {
            self.complete(work);
        }
    }

    /// Whether answers wait for the log.
    pub fn waits_for_log(&self) -> bool {
        let forced = self.engine.forced_lsn();
        let waits = |connection: &Connection| matches!(connection.phase, Phase::Held(_, lsn, _) if lsn > forced);
        !self.early_answers && self.connections.values().any(waits)
    }

    /// Forces the log on this worker's own account; true if it was forced.
    pub fn force(&mut self) -> bool {
        self.engine.force_if_idle()
    }

    /// When the engine wants to be run even if nothing happens.
    pub fn next_deadline_us(&self) -> Option<i64> {
        self.engine.next_deadline_us()
    }

    /// What may be sent by now, by client.
    pub fn take_outcomes(&mut self) -> Vec<(usize, Outcome)> {
        let forced = self.engine.forced_lsn();
        let mut outcomes = Vec::new();
        for (client, connection) in &mut self.connections {
            let phase = std::mem::replace(&mut connection.phase, Phase::Inside);
            match phase {
                Phase::Held(session, lsn, answer) if lsn <= forced || self.early_answers || connection.gone => {
                    connection.phase = Phase::Open(session);
                    let outcome = if connection.ending {
                        Outcome::Ended
                    } else {
                        Outcome::Answered(answer.into_answer())
                    };
                    outcomes.push((*client, outcome));
                }
                other => connection.phase = other,
            }
        }
        let ended = |(_, outcome): &&(usize, Outcome)| matches!(outcome, Outcome::Ended);
        for (client, _) in outcomes.iter().filter(ended) {
            self.connections.remove(client);
        }
        let gone = |connections: &BTreeMap<usize, Connection>, client: &usize| {
            connections.get(client).is_some_and(|connection| connection.gone)
        };
        // Nobody reads the answers of a client that has gone; its session is told to end.
        let deserted: Vec<usize> = outcomes
            .iter()
            .map(|(client, _)| *client)
            .filter(|client| gone(&self.connections, client))
            .collect();
        outcomes.retain(|(client, _)| !deserted.contains(client));
        deserted.into_iter().for_each(|client| self.end_if_gone(client));
        outcomes
    }

    /// Whether sessions wait for their clients to read.
    pub fn waits_for_readers(&self) -> bool {
        !self.yielded.is_empty()
    }

    /// The clients have read what was sent to them: their sessions go on.
    pub fn on_read(&mut self) {
        for mut work in std::mem::take(&mut self.yielded) {
            // As a server's worker does: what may have to be taken back stays.
            let holds = self.engine.holds_answer(&work.session);
            let gathering = work.responder.as_any().downcast_mut::<Gathering>();
            if let Some(gathering) = gathering.filter(|_| !holds) {
                gathering.send();
            }
            let connection = self.connections.get(&work.connection);
            let gone = connection.filter(|connection| connection.gone);
            let session = gone.map(|connection| connection.session);
            self.engine.submit(work);
            if let Some(session) = session {
                self.engine.cancel(session, CancelReason::Disconnected);
            }
        }
    }

    fn end_if_gone(&mut self, client: usize) {
        let Some(connection) = self.connections.get_mut(&client) else {
            return;
        };
        if connection.gone && !connection.ending && matches!(connection.phase, Phase::Open(_)) {
            connection.ending = true;
            self.submit(client, VecDeque::from([Request::Terminate]));
        }
    }

    fn complete(&mut self, mut work: WorkOf<NodeWorker>) {
        if !work.requests.is_empty() {
            self.yields += 1;
            return self.yielded.push(work);
        }
        let piece_bytes = self.piece_bytes;
        let gathered = work.responder.as_any().downcast_mut::<Gathering>();
        let answer = gathered.map(|gathering| std::mem::replace(gathering, Gathering::new(piece_bytes)));
        let answer = answer.unwrap_or_else(|| Gathering::new(piece_bytes));
        if let Some(connection) = self.connections.get_mut(&work.connection) {
            connection.phase = Phase::Held(work.session, work.durable_at, answer);
        }
    }
}
