//! DELETE: always read to write.

use super::ExecutionContext;
use super::keys::point_key;
use super::rows::{columns_to_remove, note_removed, remove_row};
use super::targets::{ChangeRun, Target};
use crate::far::Rows;
use crate::plan::{Access, DeletePlan};
use rubato_formula::{EvalContext, Expr};
use rubato_protocol::Outcome;

/// Goes on with the statement; false when the context's rows are spent before it has done everything.
pub(crate) fn run_delete(plan: &DeletePlan, run: &mut ChangeRun, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    let target = Target::new(&plan.target, plan.filter.as_ref())?;
    if !target.find(run, context)? {
        return Ok(false);
    }
    let mut columns = target.columns().union(columns_to_remove(target.table));
    for expr in plan.returning.iter().flatten() {
        columns = columns.union(expr.columns());
    }
    while let Some(key) = run.next_key(context) {
        if key.is_none() {
            return Ok(false);
        }
        context.row_in_turn(|context, turn| {
            run.in_turn(turn, |run, key| {
                let deleted = match target.is_named_by_keys() {
                    true => context.database.delete_read((target.table.id, key)),
                    false => None,
                };
                let row = match deleted {
                    Some(deleted) => {
                        let Some(row) = deleted? else { return Ok(()) };
                        note_removed(target.table, key, row.as_ref(), &mut run.effects, context)?;
                        row
                    }
                    None => {
                        let Some(row) = target.read_to_write(key, columns, &run.reach, context)? else {
                            return Ok(());
                        };
                        remove_row(target.table, key, row.as_ref(), &mut run.effects, context)?;
                        row
                    }
                };
                run.written.add(plan.returning.as_ref(), &row, context)?;
                Ok(())
            })
        })?;
        run.next += 1;
    }
    run.effects.settle(context)
}

/// The target of a statement that deletes one row that is named by its key, and asks for nothing else, wherever that is.
fn named_alone(plan: &DeletePlan) -> Option<(Target<'_>, &[Expr])> {
    let Access::Point(key) = &plan.target.access else {
        return None;
    };
    let target = Target::new(&plan.target, plan.filter.as_ref()).ok()?;
    let table = target.table;
    let is_alone = target.is_named_by_keys() && table.indexes.is_empty() && table.referenced_by.is_empty();
    is_alone.then_some((target, key))
}

/// Whether the statement deletes one row and asks for nothing else, wherever that is.
pub(super) fn asks_once(plan: &DeletePlan) -> bool {
    named_alone(plan).is_some()
}

/// Asks for what a deletion whose turn has not come will have another node do, if it is that of a row that is named by its key. False if
/// it does more than that.
pub(super) fn delete_later(plan: &DeletePlan, evaluation: &EvalContext<'_>, database: &mut Rows<'_>) -> bool {
    let Some((target, key)) = named_alone(plan) else {
        return false;
    };
    let key = point_key(target.table, key, &(), evaluation).ok().flatten();
    if let Some(key) = key {
        database.delete_later((target.table.id, &key));
    }
    true
}
