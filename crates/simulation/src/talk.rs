//! A client's program as a conversation that is played again from its start after every answer.
//!
//! A program is plain code that asks and gets an answer. It cannot block, since everything runs in one thread; so it is run up
//! to the first question without an answer, the question is put to the node, and when the answer has come the program runs again
//! from its start, on the answers that it has had. It must depend on nothing else: what it draws comes from a seed of its own.

use crate::answer::Answer;
use crate::history::Step;
use rubato_base::{Error, Value};
use rubato_workload::Random;

/// What a program asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// SQL text, in one request.
    Sql(String),
    /// The same by the extended protocol.
    Extended(String),
    /// Prepares statements under the numbers from 0, and describes them.
    Prepare(Vec<String>),
    /// Runs prepared statements with these values, then Sync.
    Run(Vec<(usize, Vec<Value>)>),
    /// Nothing for so many microseconds.
    Pause(i64),
}

/// Why a program does not go on.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// It waits for an answer.
    Asked(Question),
    /// It was answered with an error.
    Failed(Error),
    /// It was answered with what can not be.
    Absurd(String),
}

/// A conversation so far.
pub struct Talk<'a> {
    answers: &'a [Answer],
    at: usize,
    /// What is drawn for the transaction.
    pub random: Random,
    /// The transaction's number, from 1: unique in the run.
    pub number: i64,
    /// What was seen and done so far.
    pub steps: Vec<Step>,
    /// What the question under way would do.
    pub attempts: Vec<Step>,
    /// Whether the question under way, if it is answered, commits.
    pub commits: bool,
    /// Whether statements go by the extended protocol.
    pub extended: bool,
    /// Whether the client can pause within a transaction.
    pub pauses: bool,
}

impl<'a> Talk<'a> {
    /// A conversation with the answers had so far. `random` is the same for each replay.
    pub fn new(answers: &'a [Answer], random: Random, number: i64) -> Talk<'a> {
        Talk {
            answers,
            at: 0,
            random,
            number,
            steps: Vec::new(),
            attempts: Vec::new(),
            commits: false,
            extended: false,
            pauses: false,
        }
    }

    /// Puts a question.
    ///
    /// # Errors
    /// [`Stop::Asked`] if it is not answered yet; [`Stop::Failed`] if the answer is an error.
    pub fn question(&mut self, question: impl FnOnce() -> Question) -> Result<&'a Answer, Stop> {
        let answer = self.try_question(question)?;
        match &answer.error {
            Some(error) => Err(Stop::Failed(error.clone())),
            None => Ok(answer),
        }
    }

    /// The same, for whom an error is an answer.
    ///
    /// # Errors
    /// [`Stop::Asked`] if it is not answered yet.
    pub fn try_question(&mut self, question: impl FnOnce() -> Question) -> Result<&'a Answer, Stop> {
        let Some(answer) = self.answers.get(self.at) else {
            return Err(Stop::Asked(question()));
        };
        self.at += 1;
        self.commits = false;
        self.attempts.clear();
        Ok(answer)
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// As [`Talk::question`].
    pub fn sql(&mut self, text: impl Into<String>) -> Result<&'a Answer, Stop> {
        let extended = self.extended;
        self.question(|| statement(text.into(), extended))
    }

    /// Runs a statement for which an error is an answer.
    ///
    /// # Errors
    /// As [`Talk::try_question`].
    pub fn try_sql(&mut self, text: impl Into<String>) -> Result<&'a Answer, Stop> {
        let extended = self.extended;
        self.try_question(|| statement(text.into(), extended))
    }

    /// Thinks for a moment, now and then.
    ///
    /// # Errors
    /// [`Stop::Asked`] if the moment is not over.
    pub fn think(&mut self) -> Result<(), Stop> {
        if self.pauses && self.random.uniform(0, 5) == 0 {
            let pause_us = 1 << self.random.uniform(4, 19);
            self.question(|| Question::Pause(pause_us))?;
        }
        Ok(())
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: i64) -> bool {
        self.random.uniform(1, 100) <= percent
    }
}

fn statement(text: String, extended: bool) -> Question {
    if extended {
        Question::Extended(text)
    } else {
        Question::Sql(text)
    }
}
