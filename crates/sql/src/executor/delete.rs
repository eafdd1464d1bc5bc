//! DELETE: always read to write.

use super::ExecutionContext;
use super::insert::Written;
use super::referential::Effects;
use super::rows::{columns_to_remove, remove_row};
use super::targets::Target;
use crate::plan::DeletePlan;
use rubato_protocol::Outcome;

/// Runs the whole statement.
pub(crate) fn run_delete(plan: &DeletePlan, context: &mut ExecutionContext<'_>) -> Outcome<Written> {
    let target = Target::new(&plan.target, plan.filter.as_ref())?;
    let mut written = Written::default();
    let mut effects = Effects::default();
    let mut columns = target.columns().union(columns_to_remove(target.table));
    for expr in plan.returning.iter().flatten() {
        columns = columns.union(expr.columns());
    }
    let keys = target.find(context)?;
    written.found = keys.len() as u64;
    for key in &keys {
        let Some(row) = target.read_to_write(key, columns, context)? else {
            continue;
        };
        remove_row(target.table, key, row.as_ref(), &mut effects, context)?;
        written.add(plan.returning.as_ref(), &row, context)?;
    }
    effects.settle(context)?;
    Ok(written)
}
