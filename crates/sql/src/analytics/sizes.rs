//! How many rows things have, roughly: only the order of the joins and the choice of the way depend on it.

use super::order::Source;
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use rubato_formula::{Comparison, Expr};

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
pub(super) fn table_rows(table: &Table, context: &ExecutionContext<'_>) -> f64 {
    let (rows, is_complete) = context.database.of_this_node().rows_in_memory(table.id);
    let others = if is_complete { 0.0 } else { UNKNOWN_ROWS };
    rows as f64 + others
}

/// The share of a table's rows for which a term is true, as a rule of thumb; columns are the table's own.
pub(super) fn selectivity(term: &Expr, table: Option<&Table>) -> f64 {
    let unique = |column: usize| table.is_some_and(|table| table.primary_key == [column]);
    match term {
        Expr::Compare(Comparison::Equal, left, right) => match (&**left, &**right) {
            (Expr::Column(column), _) | (_, Expr::Column(column)) if unique(*column) => 0.0001,
            (Expr::Column(_), Expr::Column(_)) => 0.3,
            _ => 0.05,
        },
        Expr::Compare(Comparison::NotEqual, ..) => 0.9,
        Expr::Compare(..) => 0.4,
        Expr::InList(_, list) => (0.05 * list.len() as f64).min(0.6),
        Expr::Or(terms) => terms.iter().map(|term| selectivity(term, table)).sum::<f64>().min(0.9),
        Expr::And(terms) => terms.iter().map(|term| selectivity(term, table)).product(),
        Expr::Not(term) => 1.0 - selectivity(term, table),
        Expr::Call { function, .. } if function.name().contains("~~") => 0.1,
        Expr::Literal(_) => 1.0,
        _ => 0.3,
    }
}
