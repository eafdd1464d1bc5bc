//! What a statement leaves of each row, where all rows of its table are laid anew (see `session/anew.rs`).

use super::ExecutionContext;
use super::constraints::{check_options, check_row};
use super::rows::{ChangedRow, complete_changes};
use super::targets::Target;
use super::update::values_of;
use crate::plan::{Plan, PlanBody, UpdatePlan};
use rubato_base::{ColumnSet, Error, Key, Result, Row, Value};
use rubato_formula::{EvalContext, Tuple};
use rubato_protocol::{KeyRange, Outcome};
use std::cell::OnceCell;

/// What is left of a row.
pub(super) enum Left {
    /// The statement is not about it.
    Same,
    /// Its new values, which satisfy what the table says of a row alone.
    Changed(Row),
    /// Nothing.
    Gone,
}

/// What the statement leaves of a row of its table. `reach` is kept from one row to the next.
///
/// Errors: those of the statement, of this row.
pub(super) fn left_of(
    plan: &Plan,
    (key, row): (&Key, &Row),
    reach: &OnceCell<Vec<KeyRange>>,
    context: &ExecutionContext<'_>,
) -> Outcome<Left> {
    let (step, filter) = match &plan.body {
        PlanBody::Insert(_) => return Ok(Left::Same),
        PlanBody::Update(update) => (&update.target, update.filter.as_ref()),
        PlanBody::Delete(delete) => (&delete.target, delete.filter.as_ref()),
        _ => return Err(Error::internal("rows are laid anew for a statement that does not change them").into()),
    };
    let target = Target::new(step, filter)?;
    if !target.concerns(key, row, reach, context)? {
        return Ok(Left::Same);
    }
    Ok(match &plan.body {
        PlanBody::Update(update) => Left::Changed(updated(update, &target, row, context.evaluation)?),
        _ => Left::Gone,
    })
}

fn updated(update: &UpdatePlan, target: &Target<'_>, row: &Row, evaluation: &EvalContext<'_>) -> Result<Row> {
    let (table, old) = (target.table, row.as_ref());
    let mut changes = values_of(update, row, evaluation)?;
    complete_changes(table, old, &mut changes, evaluation)?;
    let new = ChangedRow { old, changes: &changes };
    let changed: ColumnSet = changes.iter().map(|change| change.0).collect();
    check_row(table, &new, changed, evaluation)?;
    check_options(table, &new, changed, evaluation)?;
    let values: Vec<Value> = (0..table.columns.len()).map(|column| new.column(column)).collect();
    Ok(Row::from_values(&values))
}
