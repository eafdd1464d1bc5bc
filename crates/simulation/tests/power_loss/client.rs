//! Clients of a node in one thread: they submit scripts and are answered when the log is forced far enough.

use rubato_base::{Error, Value};
use rubato_node::Node;
use rubato_simulation::connections::{Connections, Outcome};
use rubato_sql::client::Request;
use std::collections::VecDeque;

/// What a script was answered.
#[derive(Default)]
pub struct Answer {
    pub rows: Vec<Vec<Value>>,
    pub error: Option<Error>,
}

/// A worker of the node with its sessions.
pub struct Clients {
    connections: Connections,
    busy: Vec<bool>,
}

impl Clients {
    pub fn new(node: &Node, index: usize, count: usize) -> Clients {
        let mut connections = Connections::new(node, index, 1, false).expect("a worker");
        for client in 0..count {
            let session = (index * 100 + client + 1) as u64;
            connections.connect(client, session).expect("a session");
        }
        Clients {
            connections,
            busy: vec![false; count],
        }
    }

    pub fn count(&self) -> usize {
        self.busy.len()
    }

    pub fn is_idle(&self, session: usize) -> bool {
        !self.busy[session]
    }

    pub fn submit(&mut self, session: usize, sql: String) {
        let taken = self
            .connections
            .submit(session, VecDeque::from([Request::Query { sql }]));
        assert!(taken, "the session is busy");
        self.busy[session] = true;
    }

    /// Runs what can run; gives the answers that may be sent, by session.
    pub fn run(&mut self, now_us: i64) -> Vec<(usize, Answer)> {
        self.connections.run(now_us);
        self.connections.on_read();
        self.release()
    }

    /// Forces the log as an idle thread would.
    pub fn force(&mut self) -> Vec<(usize, Answer)> {
        self.connections.force();
        self.release()
    }

    fn release(&mut self) -> Vec<(usize, Answer)> {
        let mut answers = Vec::new();
        for (session, outcome) in self.connections.take_outcomes() {
            let Outcome::Answered(answer) = outcome else { continue };
            self.busy[session] = false;
            let rows = answer.outputs.into_iter().flat_map(|output| output.rows).collect();
            let error = answer.error;
            answers.push((session, Answer { rows, error }));
        }
        answers
    }
}
