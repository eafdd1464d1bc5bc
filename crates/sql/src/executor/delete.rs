//! DELETE: always read to write.

use super::ExecutionContext;
use super::rows::{columns_to_remove, remove_row};
use super::targets::{ChangeRun, Target};
use crate::plan::DeletePlan;
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
                let Some(row) = target.read_to_write(key, columns, &run.reach, context)? else {
                    return Ok(());
                };
                remove_row(target.table, key, row.as_ref(), &mut run.effects, context)?;
                run.written.add(plan.returning.as_ref(), &row, context)?;
                Ok(())
            })
        })?;
        run.next += 1;
    }
    run.effects.settle(context)
}
