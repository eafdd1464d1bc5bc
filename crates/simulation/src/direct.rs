//! A client that is alone with a node and waits for each answer: it loads, and it looks at what is there.

use crate::answer::{Answer, Output};
use crate::client::requests;
use crate::clock;
use crate::connections::{Connections, Outcome};
use crate::talk::Question;
use bytes::Bytes;
use rubato_base::{DataType, Error, Result, SqlState};
use rubato_node::Node;
use rubato_sql::client::Request;
use rubato_workload::{Batch, Client, ClientError, Param, Rows, values};
use std::collections::VecDeque;

/// Rounds in which an answer has to come.
const ROUNDS_MAX: usize = 1_000;
/// Time between two rounds: enough for a force that failed to be tried again.
const ROUND_US: i64 = 20_000;
/// The number of the only client.
const CLIENT: usize = 0;

/// A session, alone with its node.
pub struct Direct {
    node: Node,
    connections: Connections,
    now_us: i64,
    types: Vec<Vec<DataType>>,
    in_block: bool,
}

impl Direct {
    /// Connects to a node that has no other workers.
    ///
    /// # Errors
    /// As [`Node::worker`].
    pub fn new(node: &Node, now_us: i64) -> Result<Direct> {
        let mut connections = Connections::new(node, 0, 1, false)?;
        connections.connect(CLIENT, 1)?;
        Ok(Direct {
            node: node.clone(),
            connections,
            now_us,
            types: Vec::new(),
            in_block: false,
        })
    }

    /// Runs a script.
    ///
    /// # Errors
    /// What the node says of it.
    pub fn sql(&mut self, sql: &str) -> Result<Answer> {
        self.ask(requests(Question::Sql(sql.to_owned())))
    }

    fn ask(&mut self, requests: VecDeque<Request>) -> Result<Answer> {
        if !self.connections.submit(CLIENT, requests) {
            return Err(Error::internal("the session is busy"));
        }
        for _ in 0..ROUNDS_MAX {
            self.now_us += ROUND_US;
            clock::set(self.now_us);
            self.connections.run(self.now_us);
            self.connections.on_read();
            if self.node.checkpoint_is_due() {
                // As the background would; a failure is met again by whoever waits for room.
                let _ = self.node.checkpoint();
            }
            if self.connections.waits_for_log() {
                self.connections.force();
            }
            if let Some((_, Outcome::Answered(answer))) = self.connections.take_outcomes().pop() {
                self.in_block = answer.in_block;
                return answer.error.clone().map_or(Ok(answer), Err);
            }
        }
        Err(Error::new(SqlState::INTERNAL_ERROR, "no answer came"))
    }

    fn run(&mut self, calls: Vec<(usize, Vec<rubato_base::Value>)>) -> std::result::Result<Vec<Output>, ClientError> {
        let answer = self.ask(requests(Question::Run(calls))).map_err(client_error)?;
        Ok(answer.outputs)
    }

    fn call(&self, statement: usize, params: &[Param<'_>]) -> (usize, Vec<rubato_base::Value>) {
        let types = self.types.get(statement).map_or(&[][..], Vec::as_slice);
        (statement, values::values(params, types))
    }
}

fn client_error(error: Error) -> ClientError {
    ClientError::server(error.code().as_str(), error.message())
}

impl Client for Direct {
    type Statement = usize;

    fn prepare(&mut self, sql: &str) -> std::result::Result<usize, ClientError> {
        let number = self.types.len();
        let name = format!("s{number}");
        let requests = VecDeque::from([
            Request::Parse {
                name: name.clone(),
                sql: sql.to_owned(),
                parameter_types: Vec::new(),
            },
            Request::DescribeStatement(name),
            Request::Sync,
        ]);
        let answer = self.ask(requests).map_err(client_error)?;
        self.types
            .push(answer.parameter_types.into_iter().next().unwrap_or_default());
        Ok(number)
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>]) -> std::result::Result<Rows, ClientError> {
        let call = self.call(statement, params);
        Ok(self.run(vec![call])?.last().map(rows).unwrap_or_default())
    }

    fn execute_batch(&mut self, batch: &Batch<'_, usize>) -> std::result::Result<Vec<Rows>, ClientError> {
        let calls = batch.calls().map(|(statement, params)| self.call(statement, params));
        let calls = calls.collect();
        Ok(self.run(calls)?.iter().map(rows).collect())
    }

    fn simple(&mut self, sql: &str) -> std::result::Result<(), ClientError> {
        self.sql(sql).map(drop).map_err(client_error)
    }

    fn copy_in(
        &mut self,
        sql: &str,
        chunks: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> std::result::Result<u64, ClientError> {
        let mut asked = VecDeque::from([Request::Query { sql: sql.to_owned() }]);
        let mut chunk = Vec::new();
        while chunks(&mut chunk) {
            asked.push_back(Request::CopyData(Bytes::from(std::mem::take(&mut chunk))));
        }
        asked.push_back(Request::CopyDone);
        let answer = self.ask(asked).map_err(client_error)?;
        Ok(answer.outputs.last().map_or(0, Output::affected))
    }

    fn in_transaction(&self) -> bool {
        self.in_block
    }
}

/// What a statement answered, for the workload.
pub(crate) fn rows(output: &Output) -> Rows {
    values::rows(&output.rows, output.affected())
}
