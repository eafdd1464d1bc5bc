//! ON CONFLICT.

use super::ExecutionContext;
use super::constraints::{check_options, check_row, unique_violation};
use super::referential::Effects;
use super::rows::{Conflict, change_row, check_changed_row, insert_row};
use super::sorting::FixedHasher;
use crate::catalog::Table;
use crate::far::Rows;
use crate::plan::{ConflictAction, OnConflict};
use rubato_base::{ColumnSet, Error, Key, Result, Row, SqlState, Value};
use rubato_formula::{Change, EvalContext, Expr, Formula, analyse_assignment};
use rubato_protocol::{OnBusy, OrderedRead, Outcome, Stop};
use std::collections::HashSet;
use std::sync::Arc;

/// Inserts rows of one statement that says what to do about conflicts.
#[derive(Debug)]
pub(crate) struct Resolver {
    /// The unique index whose entries are written first, so that its conflicts are found first.
    first: Option<usize>,
    /// Rows that this statement has inserted or updated; only DO UPDATE asks for them.
    touched: HashSet<Key, FixedHasher>,
    /// Whether another node may insert or update a row by one operation.
    is_at_once: bool,
}

/// What became of a row.
pub(crate) enum Resolution {
    Inserted,
    /// The row that was there, as it is now.
    Updated(Vec<Value>),
    LeftOut,
}

impl Resolver {
    /// A resolver for one run of a statement.
    pub(crate) fn new(on_conflict: &OnConflict, table: &Table) -> Resolver {
        let first = on_conflict
            .arbiter
            .flatten()
            .filter(|index| *index < table.indexes.len());
        Resolver {
            first,
            touched: HashSet::default(),
            is_at_once: assignments_at_once(on_conflict, table).is_some(),
        }
    }

    /// Inserts a row, or does what ON CONFLICT says.
    pub(crate) fn insert(
        &mut self,
        (table, on_conflict): (&Arc<Table>, &OnConflict),
        key: &Key,
        values: &[Value],
        effects: &mut Effects,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Resolution> {
        check_row(table, values, ColumnSet::ALL, context.evaluation)?;
        if let Some(resolved) = self.upsert((table, on_conflict), key, values, effects, context) {
            return resolved;
        }
        let mark = context.database.mark(context.transaction);
        let row = Row::from_values(values);
        let Some(conflict) = insert_row(table, key, row, values, self.first, context)? else {
            if matches!(on_conflict.action, ConflictAction::Update { .. }) {
                self.touched.insert(key.clone());
            }
            check_options(table, values, ColumnSet::ALL, context.evaluation)?;
            effects.row_added(table, values);
            return Ok(Resolution::Inserted);
        };
        if on_conflict.arbiter.is_some_and(|arbiter| arbiter != conflict.index) {
            return Err(Stop::Fail(unique_violation(
                table,
                conflict.index,
                values,
                context.evaluation.text,
            )));
        }
        context.database.undo(context.transaction, &mark);
        match &on_conflict.action {
            ConflictAction::Nothing => Ok(Resolution::LeftOut),
            ConflictAction::Update { assignments, filter } => self.update(
                table,
                &conflict,
                values,
                (assignments, filter.as_ref()),
                effects,
                context,
            ),
        }
    }

    fn update(
        &mut self,
        table: &Arc<Table>,
        conflict: &Conflict,
        excluded: &[Value],
        (assignments, filter): (&[(usize, Expr)], Option<&Expr>),
        effects: &mut Effects,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Resolution> {
        let read = context.database.read_for_update(
            context.transaction,
            table.id,
            conflict.key.as_bytes(),
            ColumnSet::ALL,
            OnBusy::Queue,
        )?;
        let OrderedRead::Row(Some(old)) = read else {
            return Err(Stop::Fail(Error::internal(
                "a row that is in the way of an insert is not there",
            )));
        };
        self.check_untouched(&conflict.key)?;
        let mut tuple = super::keys::row_values(table, old.as_ref());
        tuple.extend_from_slice(excluded);
        if let Some(filter) = filter
            && !filter.is_true(&tuple, context.evaluation)?
        {
            return Ok(Resolution::LeftOut);
        }
        let mut changes = values_of(assignments, &tuple, context.evaluation)?;
        let new_key = change_row(table, &conflict.key, old.as_ref(), &mut changes, effects, context)?;
        self.touched.insert(new_key);
        updated(table, tuple, changes, context.evaluation)
    }

    /// Has another node insert the row or update the one that is there, if one has its place and nothing else is to be looked after.
    fn upsert(
        &mut self,
        (table, on_conflict): (&Arc<Table>, &OnConflict),
        key: &Key,
        values: &[Value],
        effects: &mut Effects,
        context: &mut ExecutionContext<'_>,
    ) -> Option<Outcome<Resolution>> {
        if !self.is_at_once || !context.database.is_row_elsewhere(table.id, key) {
            return None;
        }
        let assignments = assignments_at_once(on_conflict, table)?;
        let formula = upsert_formula(table, assignments, values, context.evaluation)?;
        if let Err(refused) = self.check_untouched(key) {
            return Some(Err(refused));
        }
        let row = Row::from_values(values);
        let changed = context.database.upsert((table.id, key), &row, &formula)?;
        Some(changed.and_then(|old| {
            let evaluation = context.evaluation;
            let Some(old) = old else {
                self.touched.insert(key.clone());
                check_options(table, values, ColumnSet::ALL, evaluation)?;
                effects.row_added(table, values);
                return Ok(Resolution::Inserted);
            };
            let mut tuple = super::keys::row_values(table, old.as_ref());
            tuple.extend_from_slice(values);
            let changes = values_of(assignments, &tuple, evaluation)?;
            check_changed_row(table, old.as_ref(), &changes, effects, evaluation)?;
            self.touched.insert(key.clone());
            updated(table, tuple, changes, evaluation)
        }))
    }

    /// Errors: 21000 if this statement has inserted or updated the row already.
    fn check_untouched(&self, key: &Key) -> Outcome<()> {
        if !self.touched.contains(key) {
            return Ok(());
        }
        let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
        let hint =
            "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.";
        Err(Stop::Fail(
            Error::new(SqlState::CARDINALITY_VIOLATION, message).with_hint(hint),
        ))
    }
}

/// What the assignments come to over the row that is there followed by the one that was to be inserted.
fn values_of(
    assignments: &[(usize, Expr)],
    tuple: &[Value],
    evaluation: &EvalContext<'_>,
) -> Result<Vec<(usize, Value)>> {
    let value = |(column, expr): &(usize, Expr)| Ok((*column, expr.evaluate(tuple, evaluation)?));
    assignments.iter().map(value).collect()
}

/// The row as it is now. The one that was in the way need not have been seen through the view that is written through: what the view checks
/// is asked whatever was changed.
fn updated(
    table: &Table,
    mut tuple: Vec<Value>,
    changes: Vec<(usize, Value)>,
    evaluation: &EvalContext<'_>,
) -> Outcome<Resolution> {
    tuple.truncate(table.columns.len());
    for (column, value) in changes {
        tuple[column] = value;
    }
    check_options(table, &tuple, ColumnSet::ALL, evaluation)?;
    Ok(Resolution::Updated(tuple))
}

/// The assignments, if a row is inserted or changed by one operation: only its key may be in the way of it, each row that is there is
/// changed, and nothing has to be looked after but the columns that the assignments name.
fn assignments_at_once<'a>(on_conflict: &'a OnConflict, table: &Table) -> Option<&'a [(usize, Expr)]> {
    let ConflictAction::Update {
        assignments,
        filter: None,
    } = &on_conflict.action
    else {
        return None;
    };
    let changed: ColumnSet = assignments.iter().map(|assignment| assignment.0).collect();
    let changes_more = table.primary_key.iter().any(|column| changed.contains_column(*column))
        || table.generated_of(changed).next().is_some()
        || Effects::may_be_deferred(table);
    let is_by_key = table.indexes.is_empty() && !table.primary_key.is_empty() && on_conflict.arbiter == Some(None);
    (is_by_key && !changes_more).then_some(assignments)
}

/// The assignments as a formula over the row that is there; `None` if no formula can say it.
fn upsert_formula(
    table: &Table,
    assignments: &[(usize, Expr)],
    excluded: &[Value],
    evaluation: &EvalContext<'_>,
) -> Option<Formula> {
    let is_not_null = |column: usize| table.columns[column].not_null;
    let change = |(column, expr): &(usize, Expr)| {
        let (number, column_type) = (*column as u16, table.columns[*column].column_type);
        let expr = expr.substitute_columns(table.columns.len(), excluded);
        let shape = analyse_assignment(number, column_type, &is_not_null, &expr);
        let change = shape.change(column_type, &expr, evaluation).ok()??;
        Some(Change {
            column: number,
            column_type,
            change,
        })
    };
    let changes: Option<Vec<Change>> = assignments.iter().map(change).collect();
    Formula::new(changes?).ok()
}

/// Asks for what an INSERT of this row whose turn has not come will have another node do, by what it says of conflicts. False if it does
/// more than that.
pub(super) fn insert_later(
    (table, on_conflict): (&Table, &OnConflict),
    (key, values): (Key, &[Value]),
    evaluation: &EvalContext<'_>,
    database: &mut Rows<'_>,
) -> bool {
    let row = Row::from_values(values);
    if leaves_out_by_key(on_conflict, table) {
        database.insert_later(table.id, key, row);
        return true;
    }
    let formula = assignments_at_once(on_conflict, table)
        .and_then(|assignments| upsert_formula(table, assignments, values, evaluation));
    if let Some(formula) = formula {
        database.upsert_later((table.id, &key), row, formula);
        return true;
    }
    false
}

/// Whether an INSERT of one row asks for one thing only.
pub(super) fn asks_once(on_conflict: &OnConflict, table: &Table) -> bool {
    leaves_out_by_key(on_conflict, table) || assignments_at_once(on_conflict, table).is_some()
}

fn leaves_out_by_key(on_conflict: &OnConflict, table: &Table) -> bool {
    matches!(on_conflict.action, ConflictAction::Nothing) && table.indexes.is_empty()
}
