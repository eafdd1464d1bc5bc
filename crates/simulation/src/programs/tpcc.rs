//! TPC-C: the terminals of `rubato-workload`, played again from the start of a transaction after every answer.

use super::Ending;
use crate::answer::Answer;
use crate::direct::rows;
use crate::talk::{Question, Stop, Talk};
use rubato_base::{DataType, Error, SqlState, Value};
use rubato_workload::tpcc::{Scale, Settings, TpccTerminal};
use rubato_workload::{Batch, Client, ClientError, Param, Rows, Terminal, values};

/// The population: small, with every rule and proportion kept.
pub const SCALE: Scale = Scale {
    warehouses: 1,
    items: 60,
    customers: 10,
};

/// Takes down which statements a terminal wants prepared.
#[derive(Default)]
pub(crate) struct Notebook(pub(crate) Vec<String>);

impl Client for Notebook {
    type Statement = usize;

    fn prepare(&mut self, sql: &str) -> Result<usize, ClientError> {
        self.0.push(sql.to_owned());
        Ok(self.0.len() - 1)
    }

    fn execute(&mut self, _: usize, _: &[Param<'_>]) -> Result<Rows, ClientError> {
        Err(ClientError::unexpected("a notebook runs nothing"))
    }

    fn simple(&mut self, _: &str) -> Result<(), ClientError> {
        Err(ClientError::unexpected("a notebook runs nothing"))
    }

    fn copy_in(&mut self, _: &str, _: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
        Err(ClientError::unexpected("a notebook loads nothing"))
    }
}

/// One terminal.
pub struct TpccProgram {
    terminal: Option<TpccTerminal<usize>>,
    texts: Vec<String>,
    types: Vec<Vec<DataType>>,
    /// The transaction that was drawn last, and the one in which the statements were prepared.
    drawn: i64,
    prepared_in: Option<i64>,
    is_prepared: bool,
    /// The kind of transaction that was drawn last.
    pub name: &'static str,
}

impl TpccProgram {
    /// The terminal of a client.
    pub fn new(seed: u64, number: usize) -> TpccProgram {
        let mut notebook = Notebook::default();
        let terminal = TpccTerminal::new(&mut notebook, Settings::unpaced(SCALE, seed), number as u64);
        TpccProgram {
            terminal: terminal.ok(),
            texts: notebook.0,
            types: Vec::new(),
            drawn: 0,
            prepared_in: None,
            is_prepared: false,
            name: "tpcc",
        }
    }

    /// What was prepared is gone.
    pub fn on_connected(&mut self) {
        self.is_prepared = false;
        self.prepared_in = None;
    }

    /// Runs the transaction of this number.
    ///
    /// # Errors
    /// The question under way, or why the transaction failed.
    pub fn run(&mut self, talk: &mut Talk<'_>) -> Result<Ending, Stop> {
        if !self.is_prepared || self.prepared_in == Some(talk.number) {
            self.prepared_in = Some(talk.number);
            let texts = self.texts.clone();
            let answer = talk.question(|| Question::Prepare(texts))?;
            self.types.clone_from(&answer.parameter_types);
            self.is_prepared = true;
        }
        let Some(terminal) = &mut self.terminal else {
            return Err(Stop::Absurd("a terminal without statements".into()));
        };
        let mut asking = Asking {
            talk,
            texts: &self.texts,
            types: &self.types,
            stop: None,
        };
        if self.drawn != asking.talk.number {
            self.drawn = asking.talk.number;
            let drawn = Terminal::<Asking<'_, '_>>::draw(terminal);
            self.name = Terminal::<Asking<'_, '_>>::kinds(terminal)[drawn.kind];
        }
        // The time that goes into rows: it decides nothing.
        let now_us = 1_700_000_000_000_000 + asking.talk.number;
        let attempted = terminal.attempt(&mut asking, now_us);
        match (attempted, asking.stop) {
            (_, Some(stop)) => Err(stop),
            (Ok(rubato_workload::Ending::Committed), None) => Ok(Ending::Committed),
            (Ok(rubato_workload::Ending::RolledBack), None) => Ok(Ending::RolledBack),
            (Err(error), None) if error.is_retryable() => {
                let message = error.message().to_owned();
                Err(Stop::Failed(Error::new(SqlState::SERIALIZATION_FAILURE, message)))
            }
            (Err(error), None) => Err(Stop::Absurd(error.to_string())),
        }
    }
}

/// The conversation as the workload's client.
struct Asking<'a, 't> {
    talk: &'a mut Talk<'t>,
    texts: &'a [String],
    types: &'a [Vec<DataType>],
    /// Why the conversation does not go on.
    stop: Option<Stop>,
}

impl Asking<'_, '_> {
    fn ask(&mut self, calls: Vec<(usize, Vec<Value>)>) -> Result<Answer, ClientError> {
        let commits = |(statement, _): &(usize, Vec<Value>)| self.texts[*statement] == "COMMIT";
        self.talk.commits = calls.iter().any(commits);
        match self.talk.question(|| Question::Run(calls)) {
            Ok(answer) => Ok(answer.clone()),
            Err(stop) => {
                self.stop = Some(stop);
                Err(ClientError::lost("the conversation does not go on"))
            }
        }
    }

    fn call(&self, statement: usize, params: &[Param<'_>]) -> (usize, Vec<Value>) {
        let types = self.types.get(statement).map_or(&[][..], Vec::as_slice);
        (statement, values::values(params, types))
    }
}

impl Client for Asking<'_, '_> {
    type Statement = usize;

    fn prepare(&mut self, _: &str) -> Result<usize, ClientError> {
        Err(ClientError::unexpected("all is prepared already"))
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>]) -> Result<Rows, ClientError> {
        let call = self.call(statement, params);
        let answer = self.ask(vec![call])?;
        Ok(answer.outputs.last().map(rows).unwrap_or_default())
    }

    fn execute_batch(&mut self, batch: &Batch<'_, usize>) -> Result<Vec<Rows>, ClientError> {
        let calls = batch.calls().map(|(statement, params)| self.call(statement, params));
        let calls = calls.collect();
        let answer = self.ask(calls)?;
        Ok(answer.outputs.iter().map(rows).collect())
    }

    fn simple(&mut self, _: &str) -> Result<(), ClientError> {
        Err(ClientError::unexpected("a terminal runs prepared statements only"))
    }

    fn copy_in(&mut self, _: &str, _: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
        Err(ClientError::unexpected("a terminal loads nothing"))
    }
}
