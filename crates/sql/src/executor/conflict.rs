//! ON CONFLICT.

use super::ExecutionContext;
use super::constraints::{check_options, check_row, unique_violation};
use super::referential::Effects;
use super::rows::{Conflict, change_row, insert_row};
use super::sorting::FixedHasher;
use crate::catalog::Table;
use crate::plan::{ConflictAction, OnConflict};
use rubato_base::{ColumnSet, Error, Key, Row, SqlState, Value};
use rubato_formula::Expr;
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
        if self.touched.contains(&conflict.key) {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            let hint =
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.";
            return Err(Stop::Fail(
                Error::new(SqlState::CARDINALITY_VIOLATION, message).with_hint(hint),
            ));
        }
        let mut tuple = super::keys::row_values(table, old.as_ref());
        tuple.extend_from_slice(excluded);
        if let Some(filter) = filter
            && !filter.is_true(&tuple, context.evaluation)?
        {
            return Ok(Resolution::LeftOut);
        }
        let mut changes = Vec::with_capacity(assignments.len());
        for (column, expr) in assignments {
            changes.push((*column, expr.evaluate(&tuple, context.evaluation)?));
        }
        let new_key = change_row(table, &conflict.key, old.as_ref(), &mut changes, effects, context)?;
        self.touched.insert(new_key);
        tuple.truncate(table.columns.len());
        for (column, value) in changes {
            tuple[column] = value;
        }
        Ok(Resolution::Updated(tuple))
    }
}
