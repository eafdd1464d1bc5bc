//! The update stage: UPDATE as blind formulas where the plan allows it, and read to write where it does not.

use super::ExecutionContext;
use super::keys::point_key;
use super::rows::{ChangedRow, change_row, check_changed_row, columns_to_remove};
use super::targets::{ChangeRun, Target};
use crate::catalog::{Check, Table};
use crate::far::Rows;
use crate::plan::{Access, Assignment, UpdatePlan};
use rubato_base::{ColumnSet, Key, Result, Row, Value};
use rubato_formula::{Change, ColumnChange, EvalContext, Formula};
use rubato_protocol::{BlindUpdate, Outcome};
use smallvec::SmallVec;

/// Goes on with the statement; false when the context's rows are spent before it has done everything.
pub(crate) fn run_update(plan: &UpdatePlan, run: &mut ChangeRun, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    let target = Target::new(&plan.target, plan.filter.as_ref())?;
    if !target.find(run, context)? {
        return Ok(false);
    }
    let mut blind = None;
    let mut is_first = true;
    while let Some(key) = run.next_key(context) {
        if key.is_none() {
            return Ok(false);
        }
        context.row_in_turn(|context, turn| {
            run.in_turn(turn, |run, key| {
                if std::mem::take(&mut is_first) || plan.each_differs {
                    blind = blind_formula(plan, target.table, context.evaluation);
                }
                if update_blind(&target, key, blind.as_ref(), plan, run, context)? {
                    return Ok(());
                }
                let columns = columns_to_read(plan, &target);
                if context.database.is_row_elsewhere(target.table.id, key)
                    && let Some(old) = update_at_once((plan, &target), key, columns, run, context)
                {
                    return old?.map_or(Ok(()), |old| note_updated(plan, &target, &old, run, context));
                }
                update_ordered(plan, &target, key, columns, run, context)
            })
        })?;
        run.next += 1;
    }
    run.effects.settle(context)
}

/// Places a row's blind formula if that is possible; false if the row must be read to write.
fn update_blind(
    target: &Target<'_>,
    key: &Key,
    blind: Option<&Formula>,
    plan: &UpdatePlan,
    run: &mut ChangeRun,
    context: &mut ExecutionContext<'_>,
) -> Outcome<bool> {
    let Some(formula) = blind else { return Ok(false) };
    if !target.accepts_unread(key, context)? {
        return Ok(true);
    }
    let (database, transaction) = (&mut context.database, context.transaction);
    let placed = database.update_blind(
        transaction,
        target.table.id,
        key.as_bytes(),
        formula.clone(),
        &plan.bounds,
    )?;
    run.written.count += u64::from(placed == BlindUpdate::Pending);
    run.written.blind += u64::from(placed == BlindUpdate::Pending);
    run.written.escalated += u64::from(placed == BlindUpdate::MustBeOrdered);
    Ok(placed != BlindUpdate::MustBeOrdered)
}

/// The statement as a blind formula, which reads nothing but that its row exists. `None` if it must be ordered; an error in a constant is also left to the ordered way, which
/// raises it only if there is a row.
fn blind_formula(plan: &UpdatePlan, table: &Table, evaluation: &EvalContext<'_>) -> Option<Formula> {
    if plan.ordered_because.is_some() || plan.changes_key || !plan.changed_indexes.is_empty() {
        return None;
    }
    let not_null = |column: usize| table.columns.get(column).is_some_and(|column| column.not_null);
    let changes = changes_of(plan, table, evaluation)?;
    // With the values of this execution it may turn out to be one that fails, whatever the plan said.
    if !changes.iter().all(|change| change.may_be_blind(&not_null)) {
        return None;
    }
    if !table.checks.is_empty() {
        keeps_checks(plan, table, &changes, evaluation)?;
    }
    Formula::new(changes).ok()
}

/// What the statement makes of each column; `None` if no formula can say it, or a constant is none.
fn changes_of(plan: &UpdatePlan, table: &Table, evaluation: &EvalContext<'_>) -> Option<SmallVec<[Change; 2]>> {
    let assignments = plan.assignments.iter();
    let change = |assignment: &Assignment| {
        let column_type = table.columns[assignment.column].column_type;
        let change = assignment
            .shape
            .change(column_type, &assignment.expression, evaluation)
            .ok()??;
        Some(Change {
            column: assignment.column as u16,
            column_type,
            change,
        })
    };
    assignments.map(change).collect()
}

/// Whether the values that the statement sets keep the CHECK constraints on changed columns; what it adds is left to escrow.
fn keeps_checks(plan: &UpdatePlan, table: &Table, changes: &[Change], evaluation: &EvalContext<'_>) -> Option<()> {
    for check in &table.checks {
        if !touched(check, changes) || given_values_satisfy(check, table, changes, evaluation)? {
            continue;
        }
        for change in changes {
            let column = usize::from(change.column);
            if !check.columns.contains_column(column) {
                continue;
            }
            match &change.change {
                ColumnChange::Add(_) | ColumnChange::Set(Value::Null) => {}
                _ if change.sets_within(plan.bounds.of(column)?) => {}
                ColumnChange::Set(_) | ColumnChange::Evaluate(_) => return None,
            }
        }
    }
    Some(())
}

fn touched(check: &Check, changes: &[Change]) -> bool {
    changes
        .iter()
        .any(|change| check.columns.contains_column(usize::from(change.column)))
}

/// Whether the statement itself gives every value that the check reads; `None` if they violate it: the ordered way says so if
/// there is a row.
fn given_values_satisfy(
    check: &Check,
    table: &Table,
    changes: &[Change],
    evaluation: &EvalContext<'_>,
) -> Option<bool> {
    let mut row = vec![Value::Null; table.columns.len()];
    for change in changes {
        if let ColumnChange::Set(value) = &change.change {
            row[usize::from(change.column)] = value.clone();
        }
    }
    let mut all_given = true;
    check.condition.for_each_column(&mut |column| {
        all_given &= changes
            .iter()
            .any(|change| usize::from(change.column) == column && matches!(change.change, ColumnChange::Set(_)))
    });
    if !all_given {
        return Some(false);
    }
    check.holds(&row, evaluation).ok()?.then_some(true)
}

/// What an ordered update reads of its rows: the same whenever it runs.
fn columns_to_read(plan: &UpdatePlan, target: &Target<'_>) -> ColumnSet {
    *plan.columns_read.get_or_init(|| find_columns_to_read(plan, target))
}

fn find_columns_to_read(plan: &UpdatePlan, target: &Target<'_>) -> ColumnSet {
    let changed: ColumnSet = plan.assignments.iter().map(|assignment| assignment.column).collect();
    let mut columns = target.columns();
    for assignment in &plan.assignments {
        columns = columns.union(assignment.expression.columns());
    }
    for expr in plan.returning.iter().flatten() {
        columns = columns.union(expr.columns());
    }
    columns.union(columns_to_change(target.table, changed))
}

/// What is read of a row in order to change these columns of it.
pub(crate) fn columns_to_change(table: &Table, changed: ColumnSet) -> ColumnSet {
    let generated = table.generated_of(changed);
    let mut columns = generated.fold(ColumnSet::EXISTENCE, |columns, (_, own)| columns.union(own.columns));
    let changed = table.changed_with(changed);
    for check in table.checks.iter().filter(|check| check.is_affected(changed)) {
        columns = columns.union(check.columns);
    }
    for index in &table.indexes {
        let read = table.read_by_index(index);
        if read.intersects(changed) {
            columns = columns.union(read);
        }
    }
    for key in table
        .foreign_keys
        .iter()
        .filter(|key| key.columns.iter().any(|it| changed.contains_column(*it)))
    {
        columns = columns.union(key.columns.iter().copied().collect());
    }
    if table.primary_key.iter().any(|column| changed.contains_column(*column)) {
        // The row moves to another key with all its columns.
        columns = ColumnSet::ALL;
    }
    if table.referenced_by.is_empty() {
        columns
    } else {
        columns.union(columns_to_remove(table))
    }
}

/// The statement as a formula for a row that another node reads to write and changes at once: what it comes to is found out here as well,
/// and if that fails, all of it is undone. `None` if more than the columns that it names has to be looked after.
fn formula_at_once(plan: &UpdatePlan, target: &Target<'_>, evaluation: &EvalContext<'_>) -> Option<Formula> {
    let table = target.table;
    let changed: ColumnSet = plan.assignments.iter().map(|assignment| assignment.column).collect();
    let computes = table.generated_of(changed).next().is_some();
    let changes_more = plan.changes_key || !plan.changed_indexes.is_empty() || computes;
    if changes_more || !target.is_named_by_keys() {
        return None;
    }
    Formula::new(changes_of(plan, table, evaluation)?).ok()
}

/// Asks for what an update whose turn has not come will have another node do, if it is one change of a row that is named by its key.
pub(super) fn update_later(plan: &UpdatePlan, evaluation: &EvalContext<'_>, database: &mut Rows<'_>) {
    let Access::Point(key) = &plan.target.access else {
        return;
    };
    if plan.each_differs {
        return;
    }
    let Ok(target) = Target::new(&plan.target, plan.filter.as_ref()) else {
        return;
    };
    let key = point_key(target.table, key, &(), evaluation).ok().flatten();
    let Some(key) = key.filter(|key| database.is_row_elsewhere(target.table.id, key)) else {
        return;
    };
    let place = (target.table.id, &key);
    match blind_formula(plan, target.table, evaluation) {
        Some(formula) if target.is_named_by_keys() => database.update_blind_later(place, formula, &plan.bounds),
        // The row is looked at first.
        Some(_) => {}
        None => {
            if let Some(formula) = formula_at_once(plan, &target, evaluation) {
                database.update_later(place, columns_to_read(plan, &target), &formula);
            }
        }
    }
}

/// Has another node read the row to write and change it: the row as it was. `None` if that cannot be said by a formula. The formula is made
/// once, however often the statement waits: it was 2 % of a transaction of TPC-C with 30 % remote rows, half of it for what was known.
fn update_at_once(
    (plan, target): (&UpdatePlan, &Target<'_>),
    key: &Key,
    columns: ColumnSet,
    run: &mut ChangeRun,
    context: &mut ExecutionContext<'_>,
) -> Option<Outcome<Option<Row>>> {
    let known = run.at_once.get_or_insert_with(|| match plan.each_differs {
        true => None,
        false => formula_at_once(plan, target, context.evaluation).map(Box::new),
    });
    let formula = known.as_ref()?;
    context.database.update_read((target.table.id, key), columns, formula)
}

/// Takes note of a row that was changed elsewhere.
fn note_updated(
    plan: &UpdatePlan,
    target: &Target<'_>,
    old: &Row,
    run: &mut ChangeRun,
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    let changes = values_of(plan, old, context.evaluation)?;
    check_changed_row(
        target.table,
        old.as_ref(),
        &changes,
        &mut run.effects,
        context.evaluation,
    )?;
    let new = ChangedRow {
        old: old.as_ref(),
        changes: &changes,
    };
    run.written.add(plan.returning.as_ref(), &new, context)?;
    Ok(())
}

/// What the assignments come to over a row.
pub(super) fn values_of(plan: &UpdatePlan, row: &Row, evaluation: &EvalContext<'_>) -> Result<Vec<(usize, Value)>> {
    let assignments = plan.assignments.iter();
    assignments
        .map(|own| Ok((own.column, own.expression.evaluate(row, evaluation)?)))
        .collect()
}

fn update_ordered(
    plan: &UpdatePlan,
    target: &Target<'_>,
    key: &Key,
    columns: ColumnSet,
    run: &mut ChangeRun,
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    if run.has_moved(key) {
        return Ok(());
    }
    let Some(row) = target.read_to_write(key, columns, &run.reach, context)? else {
        return Ok(());
    };
    let mut changes = values_of(plan, &row, context.evaluation)?;
    let new_key = change_row(target.table, key, row.as_ref(), &mut changes, &mut run.effects, context)?;
    if plan.changes_key && new_key != *key && target.names_several_keys() {
        run.note_moved(new_key, &context.limits)?;
    }
    let new = ChangedRow {
        old: row.as_ref(),
        changes: &changes,
    };
    run.written.add(plan.returning.as_ref(), &new, context)?;
    Ok(())
}
