//! How many rows things have, roughly: only the order of the joins and the choice of the way depend on it.

use super::order::Source;
use crate::catalog::Table;
use crate::executor::ExecutionContext;

/// Rows that a table is taken to have besides those in memory, if the store may have more.
const UNKNOWN_ROWS: f64 = 10_000.0;

/// What the estimates of a statement's relations need.
pub(super) struct Sizes {
    /// The number of each relation's first column.
    pub(super) firsts: Vec<usize>,
}

impl Sizes {
    pub(super) fn of(sources: &[Source]) -> Sizes {
        Sizes {
            firsts: sources.iter().map(|source| source.first).collect(),
        }
    }
}

/// About how many rows a table has.
pub(crate) fn table_rows(table: &Table, context: &ExecutionContext<'_>) -> f64 {
    let (rows, is_complete) = context.database.of_this_node().rows_in_memory(table.id);
    let others = if is_complete { 0.0 } else { UNKNOWN_ROWS };
    rows as f64 + others
}
