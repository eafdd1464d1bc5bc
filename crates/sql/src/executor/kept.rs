//! Rows that a cursor has read before they were asked for.

use super::{ExecutionContext, Held, Limits};
use rubato_base::{Error, Value};
use std::collections::VecDeque;

/// The rows, and how the reading has ended.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    rows: VecDeque<Vec<Value>>,
    held: Held,
    pub(crate) end: KeptEnd,
}

/// What comes behind the kept rows.
#[derive(Debug, Default)]
pub(crate) enum KeptEnd {
    /// Rows that are still to be read.
    #[default]
    More,
    /// Nothing.
    All,
    /// An error, told when its turn comes.
    Failed(Error),
}

/// What [`Kept::give`] came to.
pub(crate) enum Given {
    /// As many rows as were asked for, or the sink wants a pause.
    Enough,
    /// All that were kept, so many.
    Exhausted(usize),
}

impl Kept {
    /// Keeps one more row. 53200 beyond the limits.
    pub(crate) fn push(&mut self, row: &[Value], limits: &Limits) -> Result<(), Error> {
        self.rows.push_back(row.to_vec());
        self.held.add(row, limits)
    }

    /// Estimated.
    pub(crate) fn bytes(&self) -> usize {
        self.held.bytes
    }

    /// Gives at most `max_rows` of the rows.
    pub(crate) fn give(
        &mut self,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Given {
        let mut given = 0;
        while given < max_rows && !context.is_spent() {
            let Some(row) = self.rows.pop_front() else {
                return Given::Exhausted(given);
            };
            context.spend(1);
            given += 1;
            if !sink(&row) {
                break;
            }
        }
        Given::Enough
    }
}
