//! What statements whose turn has not come will have other nodes do: see [`crate::far`].

use super::constraints::check_row;
use super::keys::{entry_key, entry_row, row_key};
use super::update::update_later;
use super::{ExecutionContext, conflict, delete, referential::Effects};
use crate::plan::{InsertPlan, InsertSource, Plan, PlanBody};
use rubato_base::{Key, Row, TableId, Value};
use rubato_formula::{EvalContext, Expr, Volatility};
use std::sync::Arc;

/// A statement with its parameters.
pub(crate) type GivenChange = (Arc<Plan>, Arc<[Value]>);

/// Asks for what statements whose turn has not come will have other nodes do, as far as each is one change of a row that is named by its
/// key, or adds one row. The statement that waits, `current`, comes first: what else it will ask. What cannot be said yet is left to its
/// turn.
pub(crate) fn changes_later(current: &GivenChange, later: &[GivenChange], context: &mut ExecutionContext<'_>) {
    let (plan, parameters) = current;
    match &plan.body {
        // It asks for nothing else.
        PlanBody::Update(_) => {}
        PlanBody::Delete(delete) if delete::asks_once(delete) => {}
        PlanBody::Insert(insert) if insert.on_conflict.is_some() => {
            let asks_once = |on_conflict| conflict::asks_once(on_conflict, &insert.table);
            if !insert.on_conflict.as_ref().is_some_and(asks_once) {
                return;
            }
        }
        PlanBody::Insert(insert) => {
            let Some(records) = records_of((insert, plan), &given(parameters, context)) else {
                return;
            };
            let is_asked = |record: &Record| context.database.waits_for_insert(record.0, &record.1);
            let Some(asked) = records.iter().position(is_asked) else {
                return;
            };
            insert_later(records.into_iter().skip(asked + 1), context);
        }
        _ => return,
    }
    for (plan, parameters) in later {
        let evaluation = given(parameters, context);
        match &plan.body {
            PlanBody::Update(update) => update_later(update, &evaluation, &mut context.database),
            PlanBody::Insert(insert) => {
                if insert_later_or_change((insert, plan), &evaluation, context).is_none() {
                    return;
                }
            }
            PlanBody::Delete(delete) => {
                if !delete::delete_later(delete, &evaluation, &mut context.database) {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn given<'a>(parameters: &'a [Value], context: &ExecutionContext<'a>) -> EvalContext<'a> {
    EvalContext {
        parameters,
        ..*context.evaluation
    }
}

/// A row of a table, or an entry of an index.
type Record = (TableId, Key, Row);

fn insert_later(records: impl IntoIterator<Item = Record>, context: &mut ExecutionContext<'_>) {
    for (storage, key, row) in records {
        context.database.insert_later(storage, key, row);
    }
}

/// Asks for what an INSERT of one row does. `None` if that cannot be said before its turn, or fails, or if it does more than that.
fn insert_later_or_change(
    insert: (&InsertPlan, &Plan),
    evaluation: &EvalContext<'_>,
    context: &mut ExecutionContext<'_>,
) -> Option<()> {
    let table = &insert.0.table;
    let Some(on_conflict) = &insert.0.on_conflict else {
        insert_later(records_of(insert, evaluation)?, context);
        return Some(());
    };
    let (key, values) = row_of(insert, evaluation)?;
    let row = (key, &values[..]);
    conflict::insert_later((table, on_conflict), row, evaluation, &mut context.database).then_some(())
}

/// What an INSERT of one row adds, in the order in which it does.
fn records_of(insert: (&InsertPlan, &Plan), evaluation: &EvalContext<'_>) -> Option<Vec<Record>> {
    let table = &insert.0.table;
    let (key, values) = row_of(insert, evaluation)?;
    let mut records = vec![(table.id, key.clone(), Row::from_values(&values))];
    for index in &table.indexes {
        if let Some(entry) = entry_key(table, index, &values, key.as_bytes()).ok()? {
            records.push((index.id, entry, entry_row(index, key.as_bytes())));
        }
    }
    Some(records)
}

/// The only row of an INSERT, with its key, as it is inserted.
fn row_of((insert, plan): (&InsertPlan, &Plan), evaluation: &EvalContext<'_>) -> Option<(Key, Vec<Value>)> {
    let table = &insert.table;
    let InsertSource::Values(rows) = &insert.source else {
        return None;
    };
    let [row] = &rows[..] else { return None };
    let is_always_the_same = |expr: &Expr| expr.volatility() == Volatility::Immutable;
    let does_more = !plan.subqueries.queries.is_empty()
        || !table.foreign_keys.is_empty()
        || table.primary_key.is_empty()
        || Effects::may_be_deferred(table);
    if does_more || !row.iter().all(is_always_the_same) {
        return None;
    }
    let values: Result<Vec<Value>, _> = row.iter().map(|expr| expr.evaluate(&(), evaluation)).collect();
    let mut values = values.ok()?;
    super::rows::complete_row(table, &mut values, evaluation).ok()?;
    check_row(table, &values, rubato_base::ColumnSet::ALL, evaluation).ok()?;
    let key = row_key(table, &values, || 0).ok()?;
    Some((key, values))
}
