//! Messages of a transaction whose statement's way somebody wants to see.

use rubato_base::trace::{Effort, TraceContext};
use rubato_protocol::grid::{Answer, Message};

/// A message that is measured, or that answers one.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedMessage {
    /// What is said.
    pub message: Message,
    /// Where it belongs, if spans of the way are collected.
    pub context: Option<TraceContext>,
    /// In an answer: how long the node took for it.
    pub effort: Option<Effort>,
}

/// How many rows, or groups of them, an answer has.
pub fn rows_of(answer: &Answer) -> u64 {
    match answer {
        Answer::Row(row) => u64::from(row.is_some()),
        Answer::Rows(rows) | Answer::Page { rows, .. } => rows.len() as u64,
        Answer::Entries { entries, rows, .. } => (entries.len() + rows.len()) as u64,
        Answer::Groups { groups, .. } => groups.len() as u64,
        Answer::Several(answers) => answers.iter().map(rows_of).sum(),
        _ => 0,
    }
}
