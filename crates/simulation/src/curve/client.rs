//! A terminal of a workload, played again from the start of its transaction after every answer.

use crate::answer::Answer;
use crate::client::requests;
use crate::direct::rows;
use crate::programs::tpcc::Notebook;
use crate::talk::Question;
use rubato_base::{DataType, Value};
use rubato_sql::client::Request;
use rubato_workload::tpcc::{Settings, TpccTerminal};
use rubato_workload::ycsb::{InsertedRecords, Shape, Workload, YcsbTerminal};
use rubato_workload::{Batch, Client, ClientError, Param, Random, Rows, Terminal, values};
use std::collections::VecDeque;

/// Attempts of a transaction before its error counts as one, and the longest wait before the first retry; as the benchmark has them.
const ATTEMPTS_MAX: u32 = 100;
const BACK_OFF_US: i64 = 1_000;
/// The wait doubles with each retry up to so many times.
const DOUBLINGS_MAX: u32 = 4;

enum Program {
    Tpcc(Box<TpccTerminal<usize>>),
    Ycsb(Box<YcsbTerminal<usize>>),
}

/// What a client does next.
pub(super) enum Move {
    /// It asks this.
    Ask(VecDeque<Request>),
    /// It waits, and tries again.
    BackOff(i64),
    /// Its transaction is over: committed, rolled back as it was meant to be, or failed.
    Ended(Result<bool, String>),
}

/// One client with its session.
pub(super) struct CurveClient {
    program: Program,
    pub(super) site: usize,
    texts: Vec<String>,
    types: Vec<Vec<DataType>>,
    answers: Vec<Answer>,
    pub(super) kind: usize,
    retries: u32,
    random: Random,
    pub(super) began_us: i64,
    rolls_back: bool,
    /// An answer on its way.
    pub(super) inbox: Option<Answer>,
    /// It has no transaction.
    pub(super) is_idle: bool,
}

impl CurveClient {
    pub(super) fn tpcc(settings: Settings, number: u64, site: usize) -> Result<CurveClient, ClientError> {
        let mut notebook = Notebook::default();
        let terminal = TpccTerminal::new(&mut notebook, settings, number)?;
        Ok(CurveClient::of(
            Program::Tpcc(Box::new(terminal)),
            notebook,
            (settings.seed, number),
            site,
        ))
    }

    pub(super) fn ycsb(
        workload: Workload,
        shape: Shape,
        (seed, number): (u64, u64),
        site: usize,
    ) -> Result<CurveClient, ClientError> {
        let mut notebook = Notebook::default();
        let records = InsertedRecords::new(shape.records);
        let chosen = workload.distribution();
        let terminal = YcsbTerminal::new(&mut notebook, workload, chosen, shape, records, seed, number)?;
        Ok(CurveClient::of(
            Program::Ycsb(Box::new(terminal)),
            notebook,
            (seed, number),
            site,
        ))
    }

    fn of(program: Program, notebook: Notebook, (seed, number): (u64, u64), site: usize) -> CurveClient {
        CurveClient {
            program,
            site,
            texts: notebook.0,
            types: Vec::new(),
            answers: Vec::new(),
            kind: 0,
            retries: 0,
            random: Random::derived(seed, &[31, number]),
            began_us: 0,
            rolls_back: false,
            inbox: None,
            is_idle: true,
        }
    }

    /// What has to be asked before anything else.
    pub(super) fn preparation(&self) -> VecDeque<Request> {
        requests(Question::Prepare(self.texts.clone()))
    }

    pub(super) fn on_prepared(&mut self, answer: Answer) {
        self.types = answer.parameter_types;
    }

    /// Begins a transaction if it has none, and goes on with it.
    pub(super) fn go_on_or_begin(&mut self, now_us: i64) -> Move {
        if std::mem::take(&mut self.is_idle) {
            self.begin(now_us);
        }
        self.go_on()
    }

    /// Draws the next transaction.
    fn begin(&mut self, now_us: i64) {
        let drawn = match &mut self.program {
            Program::Tpcc(terminal) => Terminal::<Replay<'_>>::draw(&mut **terminal),
            Program::Ycsb(terminal) => Terminal::<Replay<'_>>::draw(&mut **terminal),
        };
        self.kind = drawn.kind;
        self.began_us = now_us;
        self.retries = 0;
        self.answers.clear();
    }

    /// Attempts beyond the first of the transaction that has ended.
    pub(super) fn retries(&self) -> u32 {
        self.retries
    }

    pub(super) fn hear(&mut self, answer: Answer) {
        if std::mem::take(&mut self.rolls_back) {
            self.answers.clear();
        } else {
            self.answers.push(answer);
        }
    }

    /// Goes on with what it was answered.
    pub(super) fn go_on(&mut self) -> Move {
        let mut replay = Replay {
            types: &self.types,
            answers: &self.answers,
            at: 0,
            question: None,
        };
        let now_us = self.began_us;
        let attempted = match &mut self.program {
            Program::Tpcc(terminal) => terminal.attempt(&mut replay, now_us),
            Program::Ycsb(terminal) => terminal.attempt(&mut replay, now_us),
        };
        if let Some(question) = replay.question {
            return Move::Ask(requests(question));
        }
        let error = match attempted {
            Ok(ending) => return Move::Ended(Ok(ending == rubato_workload::Ending::Committed)),
            Err(error) => error,
        };
        if self.answers.last().is_some_and(|answer| answer.in_block) {
            self.rolls_back = true;
            if !error.is_retryable() || self.retries + 1 >= ATTEMPTS_MAX {
                self.retries = ATTEMPTS_MAX;
            }
            return Move::Ask(requests(Question::Sql("ROLLBACK".to_owned())));
        }
        if !error.is_retryable() || self.retries + 1 >= ATTEMPTS_MAX {
            return Move::Ended(Err(error.to_string()));
        }
        self.back_off()
    }

    /// After a rollback, or an error outside of a block: waits and begins the same transaction again.
    pub(super) fn back_off(&mut self) -> Move {
        if self.retries >= ATTEMPTS_MAX {
            return Move::Ended(Err("given up after an error that cannot be tried again".to_owned()));
        }
        let longest_us = BACK_OFF_US << self.retries.min(DOUBLINGS_MAX);
        self.retries += 1;
        self.answers.clear();
        Move::BackOff(self.random.uniform(0, longest_us))
    }

    /// Whether what it hears next is the end of a rollback.
    pub(super) fn is_rolling_back(&self) -> bool {
        self.rolls_back
    }
}

/// The answers so far as the workload's client.
struct Replay<'a> {
    types: &'a [Vec<DataType>],
    answers: &'a [Answer],
    at: usize,
    question: Option<Question>,
}

impl Replay<'_> {
    fn ask(&mut self, calls: Vec<(usize, Vec<Value>)>) -> Result<Vec<Rows>, ClientError> {
        let Some(answer) = self.answers.get(self.at) else {
            self.question = Some(Question::Run(calls));
            return Err(ClientError::lost("the conversation does not go on"));
        };
        self.at += 1;
        match &answer.error {
            Some(error) => Err(ClientError::server(error.code().as_str(), error.message())),
            None => Ok(answer.outputs.iter().map(rows).collect()),
        }
    }

    fn call(&self, statement: usize, params: &[Param<'_>]) -> (usize, Vec<Value>) {
        let types = self.types.get(statement).map_or(&[][..], Vec::as_slice);
        (statement, values::values(params, types))
    }
}

impl Client for Replay<'_> {
    type Statement = usize;

    fn prepare(&mut self, _: &str) -> Result<usize, ClientError> {
        Err(ClientError::unexpected("all is prepared already"))
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>]) -> Result<Rows, ClientError> {
        let call = self.call(statement, params);
        Ok(self.ask(vec![call])?.pop().unwrap_or_default())
    }

    fn execute_batch(&mut self, batch: &Batch<'_, usize>) -> Result<Vec<Rows>, ClientError> {
        let calls = batch.calls().map(|(statement, params)| self.call(statement, params));
        let calls = calls.collect();
        self.ask(calls)
    }

    fn simple(&mut self, _: &str) -> Result<(), ClientError> {
        Err(ClientError::unexpected("a terminal runs prepared statements only"))
    }

    fn copy_in(&mut self, _: &str, _: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
        Err(ClientError::unexpected("a terminal loads nothing"))
    }
}
