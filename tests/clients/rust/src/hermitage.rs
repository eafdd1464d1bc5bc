//! Hermitage's list of anomalies, each as a script of two or three sessions at each isolation level's name.
//!
//! A script is the same for every server. A step that waits is left waiting while the others go on. Whatever way an anomaly is
//! prevented (a wait, a retry inside the server, a refusal), the outcome must be explained by some order of the transactions
//! that committed: `order.rs` tries them all.

mod order;
mod scripts;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::Options;
use crate::report::{Checked, Failure, check, require};
use crate::session::connect;
use order::{Transaction, explained};
use scripts::{SCRIPTS, Script};

/// A step that takes longer counts as waiting, and the script goes on with the other sessions.
const WAIT: Duration = Duration::from_millis(150);
/// Nothing may wait longer once the script is over.
const END: Duration = Duration::from_secs(20);
const SESSIONS: usize = 3;

/// Rows by id.
pub type Rows = BTreeMap<i32, i64>;

/// A statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Read(i32),
    /// `SELECT ... FOR UPDATE`: what a cursor that updates holds.
    ReadToWrite(i32),
    ReadAll,
    ReadMultiples(i64),
    ReadValue(i64),
    Set(i32, i64),
    SetWhereValue(i64, i64),
    Add(i32, i64),
    AddToAll(i64),
    DeleteValue(i64),
    Insert(i32, i64),
    Commit,
    Abort,
}

impl Statement {
    fn sql(self) -> String {
        match self {
            Statement::Read(id) => format!("select id, value from test where id = {id}"),
            Statement::ReadToWrite(id) => format!("select id, value from test where id = {id} for update"),
            Statement::ReadAll => "select id, value from test".into(),
            Statement::ReadMultiples(of) => format!("select id, value from test where value % {of} = 0"),
            Statement::ReadValue(value) => format!("select id, value from test where value = {value}"),
            Statement::Set(id, value) => format!("update test set value = {value} where id = {id}"),
            Statement::SetWhereValue(value, from) => format!("update test set value = {value} where value = {from}"),
            Statement::Add(id, by) => format!("update test set value = value + {by} where id = {id}"),
            Statement::AddToAll(by) => format!("update test set value = value + {by}"),
            Statement::DeleteValue(value) => format!("delete from test where value = {value}"),
            Statement::Insert(id, value) => format!("insert into test (id, value) values ({id}, {value})"),
            Statement::Commit => "commit".into(),
            Statement::Abort => "rollback".into(),
        }
    }
}

/// What a statement answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Rows(Rows),
    Count(u64),
    Refused(String),
}

/// Runs every script at every level; true if nothing was left unexplained.
pub async fn run(options: &Options) -> Result<bool, Failure> {
    let url = options.text("url")?;
    let mut held = true;
    for level in options.text("levels")?.split(',') {
        for script in SCRIPTS {
            let name = format!("{} at {level}", script.name);
            held &= check(&name, one(url, level, script)).await;
        }
    }
    Ok(held)
}

async fn one(url: &str, level: &str, script: &Script) -> Checked {
    let admin = connect(url).await?;
    let table = "drop table if exists test; create table test (id int primary key, value int8 not null); insert into test values (1, 10), (2, 20)";
    admin.batch_execute(table).await?;
    let begin = match level {
        "default" => "begin".to_owned(),
        level => format!("begin isolation level {level}"),
    };
    let mut play = Play::new(url, begin).await?;
    for (session, statement) in script.steps {
        play.step(*session - 1, *statement).await?;
    }
    let (transactions, waits) = play.end().await?;
    let rows = admin.simple_query("select id, value from test").await?;
    let last = match answer(Ok(rows)) {
        Answer::Rows(rows) => rows,
        other => return Err(Failure::new(format!("the last look gave {other:?}"))),
    };
    let refused: Vec<String> = transactions.iter().filter_map(Transaction::refusal).collect();
    println!("{} at {level}: {waits} waits, refused: {refused:?}", script.name);
    let order = explained(&transactions, &last);
    require(order, || {
        format!("no order of {transactions:?} explains what they saw and {last:?}")
    })?;
    let code = refused.iter().find(|code| !["40001", "40P01"].contains(&code.as_str()));
    require(code.is_none(), || format!("refused with {code:?}"))?;
    require(transactions.iter().any(Transaction::has_committed), || {
        "nobody committed".into()
    })
}

/// A statement on its way to a session's task, and where its answer goes.
type Sent = (String, oneshot::Sender<Answer>);

/// The sessions of a script under way.
struct Play {
    sessions: Vec<mpsc::UnboundedSender<Sent>>,
    transactions: Vec<Transaction>,
    /// Answers that have not come yet: by session, with the step that they belong to.
    waiting: Vec<Vec<(usize, oneshot::Receiver<Answer>)>>,
    begin: String,
    waits: usize,
}

impl Play {
    async fn new(url: &str, begin: String) -> Result<Play, Failure> {
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let client = connect(url).await?;
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(session(client, receiver));
            sessions.push(sender);
        }
        Ok(Play {
            sessions,
            transactions: vec![Transaction::default(); SESSIONS],
            waiting: (0..SESSIONS).map(|_| Vec::new()).collect(),
            begin,
            waits: 0,
        })
    }

    /// Sends a statement; a session begins its transaction with its first one. Goes on without the answer if it takes long.
    async fn step(&mut self, session: usize, statement: Statement) -> Checked {
        if self.transactions[session].begun.is_none() {
            self.transactions[session].begun = Some(Instant::now());
            let begin = self.begin.clone();
            let begun = self.send(session, begin)?;
            begun.await.map_err(|_| Failure::new("a session ended"))?;
        }
        let answer = self.send(session, statement.sql())?;
        let step = self.transactions[session].steps.len();
        self.transactions[session].steps.push((statement, None));
        self.waiting[session].push((step, answer));
        if !self.take_answers(session, WAIT).await? {
            self.waits += 1;
        }
        // Others may have been let go by it.
        for other in 0..SESSIONS {
            self.take_answers(other, Duration::from_millis(20)).await?;
        }
        Ok(())
    }

    fn send(&self, session: usize, sql: String) -> Result<oneshot::Receiver<Answer>, Failure> {
        let (sender, receiver) = oneshot::channel();
        let sent = self.sessions[session].send((sql, sender));
        sent.map_err(|_| Failure::new("a session ended"))?;
        Ok(receiver)
    }

    /// Takes the answers of a session that have come, in order; whether all have.
    async fn take_answers(&mut self, session: usize, patience: Duration) -> Result<bool, Failure> {
        while let Some((step, receiver)) = self.waiting[session].first_mut() {
            let Ok(answer) = timeout(patience, receiver).await else {
                return Ok(false);
            };
            let answer = answer.map_err(|_| Failure::new("a session ended"))?;
            let step = *step;
            self.transactions[session].take(step, answer, Instant::now());
            self.waiting[session].remove(0);
        }
        Ok(true)
    }

    /// Waits for whoever still waits.
    async fn end(mut self) -> Result<(Vec<Transaction>, usize), Failure> {
        for session in 0..SESSIONS {
            let all = self.take_answers(session, END).await?;
            require(all, || format!("session {} waits for ever", session + 1))?;
        }
        let begun = self
            .transactions
            .into_iter()
            .filter(|transaction| transaction.begun.is_some());
        Ok((begun.collect(), self.waits))
    }
}

async fn session(client: Client, mut statements: mpsc::UnboundedReceiver<Sent>) {
    while let Some((sql, sender)) = statements.recv().await {
        // Whoever asked may have given up.
        let _ = sender.send(answer(client.simple_query(&sql).await));
    }
}

fn answer(outcome: Result<Vec<SimpleQueryMessage>, tokio_postgres::Error>) -> Answer {
    let messages = match outcome {
        Ok(messages) => messages,
        Err(error) => {
            let code = error
                .code()
                .map_or_else(|| error.to_string(), |code| code.code().to_owned());
            return Answer::Refused(code);
        }
    };
    let (mut rows, mut is_read, mut count) = (Rows::new(), false, 0);
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let number = |column| {
                    row.get(column)
                        .and_then(|text| text.parse::<i64>().ok())
                        .unwrap_or(i64::MIN)
                };
                rows.insert(number(0) as i32, number(1));
            }
            SimpleQueryMessage::RowDescription(_) => is_read = true,
            SimpleQueryMessage::CommandComplete(affected) => count = affected,
            _ => {}
        }
    }
    if is_read {
        Answer::Rows(rows)
    } else {
        Answer::Count(count)
    }
}
