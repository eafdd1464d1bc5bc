//! Going back when a row has to be waited for: a row that is locked as it is found waits for whoever has it, and a snapshot read for the
//! outcome of a prepared branch of the grid.

use super::{Position, Reader};
use crate::executor::ExecutionContext;

/// Where a step stood before a call that may have to wait.
pub(super) struct Mark {
    position: Position,
    tuples: usize,
    rows: u64,
    lookups: u64,
}

impl Mark {
    /// `None` where no read waits.
    pub(super) fn of(reader: &Reader<'_>, position: &Position, context: &ExecutionContext<'_>) -> Option<Mark> {
        let locks = reader.lock.is_some_and(|lock| lock.at_once);
        (locks || context.database.reads_may_wait()).then(|| Mark {
            position: position.clone(),
            tuples: reader.output.len(),
            rows: *reader.rows,
            lookups: *reader.lookups,
        })
    }

    /// Takes back what the call has given: the position to go on from.
    pub(super) fn go_back(self, reader: &mut Reader<'_>) -> Position {
        reader.output.truncate(self.tuples);
        (*reader.rows, *reader.lookups) = (self.rows, self.lookups);
        self.position
    }
}
