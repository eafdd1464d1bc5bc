//! What one node is asked in a transaction, one question at a time, and what for.

use rubato_protocol::grid::{Operation, SEVERAL_MAX};
use std::collections::VecDeque;

/// Bytes of operations that are asked for together.
const SEVERAL_BYTES_MAX: usize = 256 << 10;

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The call with this number of the row with this number.
    Call(u64, usize),
    /// Whoever reads it.
    Seen,
    /// What was told of definitions at this place.
    Definition(usize),
    /// The change with this number, which a statement makes whose turn has not come.
    Later(u32),
    /// Whoever lays rows.
    Laid,
    /// The error that this round is about.
    Confirmed(u32),
    /// Nobody waits for it.
    Nothing,
}

/// One node: it is asked again when it has answered.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// How many operations it has been given, or is to be given: the number of the next.
    pub(super) numbered: u32,
    pub(super) asked: Vec<(Purpose, Operation)>,
    pub(super) waiting: VecDeque<(Purpose, Operation)>,
}

impl Line {
    /// What is to be asked next, all that may be asked for together.
    pub(super) fn next_question(&mut self) -> Option<Operation> {
        if !self.asked.is_empty() {
            return None;
        }
        let mut bytes = 0;
        while let Some((purpose, operation)) = self.waiting.pop_front() {
            bytes += operation.bytes();
            let may_be_last = self.asked.is_empty()
                || (operation.may_be_one_of_several() && bytes <= SEVERAL_BYTES_MAX && self.asked.len() < SEVERAL_MAX);
            if !may_be_last {
                self.waiting.push_front((purpose, operation));
                break;
            }
            let is_alone = !operation.may_be_one_of_several();
            self.asked.push((purpose, operation));
            if is_alone {
                break;
            }
        }
        match &self.asked[..] {
            [] => None,
            [(_, operation)] => Some(operation.clone()),
            several => Some(Operation::Several {
                operations: several.iter().map(|(_, operation)| operation.clone()).collect(),
            }),
        }
    }
}
