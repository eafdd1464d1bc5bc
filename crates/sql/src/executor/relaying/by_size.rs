//! The order in which tables are joined from node to node, by how many rows they have.

use super::{relay_way, table_of};
use crate::analytics::table_rows;
use crate::executor::ExecutionContext;
use crate::plan::{Access, SelectPlan};

/// With fewer rows to pass on there is little to gain, and finding another order takes some tenths of a millisecond.
const ROWS_MIN: f64 = 8000.0;

/// The same SELECT with its tables in another order, where all rows of a large table would be passed on and another order costs much
/// less. It gives the same rows, in an order of their own.
pub(crate) fn by_size(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Option<Box<SelectPlan>> {
    let (joins, first) = (plan.joins.as_ref()?, plan.steps.first()?);
    let reads_all = match &first.access {
        Access::Full { .. } => true,
        Access::Range(range) => range.prefix.is_empty(),
        _ => false,
    };
    if !reads_all {
        return None;
    }
    let way = relay_way(plan, context)?;
    // Other nodes are taken to have as many as this one.
    let rows_of = |table: &_| table_rows(table, context) * way.nodes as f64;
    if rows_of(table_of(first)?) < ROWS_MIN {
        return None;
    }
    let other = joins.by_size(&rows_of)?;
    relay_way(&other, context).map(|_| Box::new(other))
}
