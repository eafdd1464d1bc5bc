//! One simulated client: which transaction it is at, what it has asked and what it waits for.

use crate::answer::Answer;
use crate::history::{Fate, Step, Transaction};
use crate::plan::{Load, Plan, Trouble};
use crate::programs::tpcc::TpccProgram;
use crate::programs::{Ending, Workload};
use crate::talk::{Question, Stop, Talk};
use rubato_sql::client::Request;
use rubato_workload::Random;
use std::collections::VecDeque;

/// What a client runs.
pub(crate) enum Program {
    /// One of these each time.
    Tables(Vec<Workload>),
    /// A terminal of TPC-C.
    Tpcc(Box<TpccProgram>),
    /// Reads everything.
    ReadEverything,
}

/// The transaction that a client is at.
pub(crate) struct UnderWay {
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    pub(crate) began: u64,
    pub(crate) answers: Vec<Answer>,
    pub(crate) steps: Vec<Step>,
    /// What the question that is out would do.
    attempts: Vec<Step>,
    /// Whether the question that is out commits.
    pub(crate) commits: bool,
    workload: Option<Workload>,
}

/// What a client does next.
#[derive(Debug)]
pub(crate) enum Move {
    /// It asks this.
    Ask(VecDeque<Request>),
    /// It does nothing for so many microseconds.
    Pause(i64),
    /// Its transaction is over. `true`: its block is still open and must be rolled back.
    Ended(Fate, bool),
    /// It was told what cannot be.
    Absurd(String),
}

/// A client.
pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) worker: usize,
    pub(crate) program: Program,
    /// Transactions that it has still to run.
    pub(crate) left: usize,
    pub(crate) under_way: Option<UnderWay>,
    /// Since when it waits for an answer.
    pub(crate) waits_since_us: Option<i64>,
    /// Its connection broke while this one's commit was under way.
    pub(crate) dying: Option<Transaction>,
    /// It rolls a failed block back.
    pub(crate) rolls_back: bool,
    pub(crate) is_connected: bool,
    /// An answer on its way.
    pub(crate) inbox: Option<Answer>,
    /// Counts its connections, moves and pauses: what was meant for an earlier one comes too late.
    pub(crate) generation: u64,
}

impl Client {
    pub(crate) fn new(number: usize, plan: &Plan) -> Client {
        let program = match (&plan.load, number) {
            (_, 0) => Program::ReadEverything,
            (Load::Tables(workloads), _) => Program::Tables(workloads.clone()),
            (Load::Tpcc, _) => Program::Tpcc(Box::new(TpccProgram::new(plan.seed, number))),
        };
        Client {
            number,
            worker: number % plan.workers,
            left: if number == 0 { 0 } else { plan.transactions },
            program,
            under_way: None,
            waits_since_us: None,
            dying: None,
            rolls_back: false,
            is_connected: false,
            inbox: None,
            generation: 0,
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self, number: i64, moment: u64, random: &mut Random) {
        let (name, workload) = match &self.program {
            Program::Tables(workloads) => {
                let at = random.uniform(0, workloads.len() as i64 - 1) as usize;
                (workloads[at].name(), Some(workloads[at]))
            }
            Program::Tpcc(_) => ("tpcc", None),
            Program::ReadEverything => ("everything", None),
        };
        self.under_way = Some(UnderWay {
            name,
            number,
            began: moment,
            answers: Vec::new(),
            steps: Vec::new(),
            attempts: Vec::new(),
            commits: false,
            workload,
        });
    }

    /// Goes on with what it was answered.
    pub(crate) fn go_on(&mut self, plan: &Plan) -> Move {
        let Some(under_way) = &mut self.under_way else {
            return Move::Absurd("a client without a transaction".into());
        };
        let random = Random::derived(plan.seed, &[3, under_way.number as u64]);
        let mut talk = Talk::new(&under_way.answers, random, under_way.number);
        talk.extended = talk.random.uniform(0, 1) == 1;
        talk.pauses = plan.has(Trouble::Pauses);
        let done = match (&mut self.program, under_way.workload) {
            (Program::Tpcc(terminal), _) => terminal.run(&mut talk),
            (_, Some(workload)) => workload.run(&mut talk),
            (_, None) if matches!(plan.load, Load::Tpcc) => Ok(Ending::Committed),
            (_, None) => talk.read_everything(),
        };
        let (steps, commits) = (std::mem::take(&mut talk.steps), talk.commits);
        let attempts = std::mem::take(&mut talk.attempts);
        (under_way.steps, under_way.attempts) = (steps, attempts);
        if let Program::Tpcc(terminal) = &self.program {
            under_way.name = terminal.name;
        }
        let in_block = under_way.answers.last().is_some_and(|answer| answer.in_block);
        match done {
            Ok(Ending::Committed) => Move::Ended(Fate::Committed, false),
            Ok(Ending::RolledBack) => Move::Ended(Fate::Aborted, false),
            Err(Stop::Failed(_)) => Move::Ended(Fate::Aborted, in_block),
            Err(Stop::Absurd(what)) => Move::Absurd(format!("{what} in {} {}", under_way.name, under_way.number)),
            Err(Stop::Asked(Question::Pause(pause_us))) => Move::Pause(pause_us),
            Err(Stop::Asked(question)) => {
                under_way.commits = commits;
                Move::Ask(requests(question))
            }
        }
    }

    /// Takes the transaction under way as ended.
    pub(crate) fn take(&mut self, fate: Fate, moment: u64) -> Option<Transaction> {
        let mut under_way = self.under_way.take()?;
        if fate == Fate::Unknown {
            under_way.steps.append(&mut under_way.attempts);
        }
        self.waits_since_us = None;
        Some(Transaction {
            name: under_way.name,
            client: self.number,
            began: under_way.began,
            ended: moment,
            fate,
            steps: under_way.steps,
        })
    }

    /// How a transaction ends whose connection breaks now.
    pub(crate) fn fate_if_cut_off(&self) -> Fate {
        let in_commit = |under_way: &UnderWay| under_way.commits && self.waits_since_us.is_some();
        if self.under_way.as_ref().is_some_and(in_commit) {
            Fate::Unknown
        } else {
            Fate::Aborted
        }
    }

    /// A new connection knows nothing of what was prepared on the old one.
    pub(crate) fn on_connected(&mut self) {
        if let Program::Tpcc(terminal) = &mut self.program {
            terminal.on_connected();
        }
    }
}

pub(crate) fn requests(question: Question) -> VecDeque<Request> {
    let mut requests = VecDeque::new();
    let execute = |portal: &str| Request::Execute {
        portal: portal.to_owned(),
        max_rows: 0,
    };
    match question {
        Question::Pause(_) => {}
        Question::Sql(sql) => requests.push_back(Request::Query { sql }),
        Question::Extended(sql) => {
            requests.push_back(Request::Parse {
                name: String::new(),
                sql,
                parameter_types: Vec::new(),
            });
            let (statement, values) = (String::new(), Vec::new());
            requests.push_back(Request::BindValues {
                columns: None,
                portal: String::new(),
                statement,
                values,
                formats: Default::default(),
            });
            requests.push_back(execute(""));
            requests.push_back(Request::Sync);
        }
        Question::Prepare(texts) => {
            for (number, sql) in texts.into_iter().enumerate() {
                let name = format!("s{number}");
                requests.push_back(Request::Parse {
                    name: name.clone(),
                    sql,
                    parameter_types: Vec::new(),
                });
                requests.push_back(Request::DescribeStatement(name));
            }
            requests.push_back(Request::Sync);
        }
        Question::Run(calls) => {
            for (number, values) in calls {
                let statement = format!("s{number}");
                requests.push_back(Request::BindValues {
                    columns: None,
                    portal: String::new(),
                    statement,
                    values,
                    formats: Default::default(),
                });
                requests.push_back(execute(""));
            }
            requests.push_back(Request::Sync);
        }
    }
    requests
}
