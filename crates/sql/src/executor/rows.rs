//! Writes single rows together with their index entries.

use super::ExecutionContext;
use super::constraints::{check_options, check_row, unique_violation};
use super::keys::{entry_key, entry_row, entry_target, is_unique_entry, new_row_key, row_key};
use super::referential::Effects;
use crate::catalog::Table;
use crate::far::LaidFrom;
use rubato_base::{ColumnSet, Error, Key, Result, Row, RowRef, SqlState, Value};
use rubato_formula::{Change, EvalContext, Formula, Tuple};
use rubato_protocol::{Insertion, OnBusy, OrderedRead, Outcome, Stop};
use std::sync::Arc;

/// A row with some columns changed.
pub(crate) struct ChangedRow<'a> {
    pub(crate) old: RowRef<'a>,
    pub(crate) changes: &'a [(usize, Value)],
}

impl Tuple for ChangedRow<'_> {
    fn column(&self, index: usize) -> Value {
        self.column_ref(index).cloned().unwrap_or_else(|| self.old.get(index))
    }

    fn column_ref(&self, index: usize) -> Option<&Value> {
        self.changes
            .iter()
            .find(|change| change.0 == index)
            .map(|change| &change.1)
    }
}

/// Gives the generated columns of a new row their values.
pub(crate) fn complete_row(table: &Table, values: &mut [Value], evaluation: &EvalContext<'_>) -> Result<()> {
    for (number, own) in table.generated_columns() {
        values[number] = own.expr.evaluate(values, evaluation)?;
    }
    Ok(())
}

/// Adds what is generated of changed columns to the changes of a row.
pub(super) fn complete_changes(
    table: &Table,
    old: RowRef<'_>,
    changes: &mut Vec<(usize, Value)>,
    evaluation: &EvalContext<'_>,
) -> Result<()> {
    let changed: ColumnSet = changes.iter().map(|change| change.0).collect();
    for (number, own) in table.generated_of(changed) {
        let new = ChangedRow { old, changes };
        let value = own.expr.evaluate(&new, evaluation)?;
        match changes.iter_mut().find(|change| change.0 == number) {
            Some(change) => change.1 = value,
            None => changes.push((number, value)),
        }
    }
    Ok(())
}

/// Another row that holds a key which may be held once.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The unique index, or `None` for the primary key.
    pub(crate) index: Option<usize>,
    /// The other row's key.
    pub(crate) key: Key,
}

/// Writes a new row whose constraints were checked, and its index entries, those of `first` before all others. On a conflict some
/// of that may have been written: the caller undoes it or fails.
pub(crate) fn insert_row<T: Tuple + ?Sized>(
    table: &Table,
    key: &Key,
    row: Row,
    values: &T,
    first: Option<usize>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Conflict>> {
    // An entry that no other row can have stands in the way of the same primary key only.
    let first = match first {
        Some(index) if is_unique_entry(table, &table.indexes[index], values)? => Some(index),
        _ => None,
    };
    if let Some(index) = first
        && let Some(conflict) = insert_entry(table, index, values, key, context)?
    {
        return Ok(Some(conflict));
    }
    if let Insertion::Exists(_) = context
        .database
        .insert(context.transaction, table.id, key.clone(), row)?
    {
        return Ok(Some(Conflict {
            index: None,
            key: key.clone(),
        }));
    }
    for index in (0..table.indexes.len()).filter(|index| Some(*index) != first) {
        if let Some(conflict) = insert_entry(table, index, values, key, context)? {
            return Ok(Some(conflict));
        }
    }
    Ok(None)
}

/// Lays a new row whose constraints were checked, and its index entries, in storage that only this transaction knows. What other nodes
/// say of it is told later, by its line.
pub(crate) fn lay_row(
    table: &Table,
    key: &Key,
    (row, line): (&RowRef<'_>, u64),
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Conflict>> {
    let (transaction, own) = (context.transaction, (table.id, key.clone()));
    let from = || LaidFrom { line, row: None };
    if !context.database.lay_row(transaction, own, row.to_row(), from)? {
        return Ok(Some(Conflict {
            index: None,
            key: key.clone(),
        }));
    }
    for (number, index) in table.indexes.iter().enumerate() {
        let Some(entry) = entry_key(table, index, row, key.as_bytes())? else {
            continue;
        };
        let content = entry_row(index, key.as_bytes());
        let from = || LaidFrom {
            line,
            row: Some(row.to_row()),
        };
        if !context
            .database
            .lay_row(transaction, (index.id, entry), content, from)?
        {
            return Ok(Some(Conflict {
                index: Some(number),
                key: key.clone(),
            }));
        }
    }
    Ok(None)
}

/// Writes a new row of the table and checks everything about it but foreign keys, which go to `effects`.
pub(crate) fn add_row(
    table: &Arc<Table>,
    values: &[Value],
    effects: &mut Effects,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Key> {
    check_row(table, values, ColumnSet::ALL, context.evaluation)?;
    let key = new_row_key(table, values, context)?;
    match insert_row(table, &key, Row::from_values(values), values, None, context)? {
        None => {
            check_options(table, values, ColumnSet::ALL, context.evaluation)?;
            effects.row_added(table, values);
        }
        Some(conflict) => {
            return Err(Stop::Fail(unique_violation(
                table,
                conflict.index,
                values,
                context.evaluation.text,
            )));
        }
    }
    Ok(key)
}

/// Writes the entry of a row in one index, if the index has one for it.
pub(crate) fn insert_entry<T: Tuple + ?Sized>(
    table: &Table,
    index_number: usize,
    values: &T,
    key: &Key,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Conflict>> {
    let index = &table.indexes[index_number];
    let Some(entry) = entry_key(table, index, values, key.as_bytes())? else {
        return Ok(None);
    };
    let row = entry_row(index, key.as_bytes());
    match context
        .database
        .insert(context.transaction, index.id, entry.clone(), row)?
    {
        Insertion::Inserted => Ok(None),
        Insertion::Exists(existing) => {
            let key = entry_target(table, index, entry.as_bytes(), existing.as_ref())?;
            Ok(Some(Conflict {
                index: Some(index_number),
                key,
            }))
        }
    }
}

fn remove_entry(table: &Table, index_number: usize, entry: &Key, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    let index = &table.indexes[index_number];
    let database = &mut context.database;
    let read = database.read_for_update(
        context.transaction,
        index.id,
        entry.as_bytes(),
        ColumnSet::EXISTENCE,
        OnBusy::Queue,
    )?;
    match read {
        OrderedRead::Row(Some(_)) => database.delete(context.transaction, index.id, entry.as_bytes()),
        _ => Err(Stop::Fail(Error::new(
            SqlState::DATA_CORRUPTED,
            format!("index \"{}\" has no entry for a row of \"{}\"", index.name, table.name),
        ))),
    }
}

/// Changes a row that was read to write; `changes` are of the columns' types, and what is generated of them is added. Checks
/// constraints, keeps the indexes, notes what foreign keys have to say. Returns the row's key, which may have changed.
pub(crate) fn change_row(
    table: &Arc<Table>,
    key: &Key,
    old: RowRef<'_>,
    changes: &mut Vec<(usize, Value)>,
    effects: &mut Effects,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Key> {
    complete_changes(table, old, changes, context.evaluation)?;
    let changes = &**changes;
    let new = ChangedRow { old, changes };
    let changed: ColumnSet = changes.iter().map(|change| change.0).collect();
    check_row(table, &new, changed, context.evaluation)?;
    let touches = |columns: &[usize]| {
        columns
            .iter()
            .any(|column| changes.iter().any(|change| change.0 == *column))
    };
    let new_key = if touches(&table.primary_key) {
        row_key(table, &new, || 0)?
    } else {
        key.clone()
    };
    if new_key == *key {
        let columns = changes
            .iter()
            .map(|(column, value)| Change::set(*column as u16, table.columns[*column].column_type, value.clone()));
        context
            .database
            .update(context.transaction, table.id, key.as_bytes(), Formula::new(columns)?)?;
        for (number, index) in table
            .indexes
            .iter()
            .enumerate()
            .filter(|(_, index)| table.read_by_index(index).intersects(changed))
        {
            let before = entry_key(table, index, &old, key.as_bytes())?;
            if before != entry_key(table, index, &new, key.as_bytes())? {
                if let Some(before) = before {
                    remove_entry(table, number, &before, context)?;
                }
                let conflict = insert_entry(table, number, &new, key, context)?;
                refuse(table, conflict, &new, context)?;
            }
        }
    } else {
        delete_row(table, key, old, context)?;
        let values: Vec<Value> = (0..table.columns.len()).map(|column| new.column(column)).collect();
        let conflict = insert_row(table, &new_key, Row::from_values(&values), &values, None, context)?;
        refuse(table, conflict, &new, context)?;
    }
    check_options(table, &new, changed, context.evaluation)?;
    effects.row_changed(table, old, &new, changed);
    Ok(new_key)
}

/// What belongs to the change of a row that another node has made already: its key, what the indexes have and what is generated stay as
/// they are.
pub(crate) fn check_changed_row(
    table: &Arc<Table>,
    old: RowRef<'_>,
    changes: &[(usize, Value)],
    effects: &mut Effects,
    evaluation: &EvalContext<'_>,
) -> Result<()> {
    let new = ChangedRow { old, changes };
    let changed: ColumnSet = changes.iter().map(|change| change.0).collect();
    check_row(table, &new, changed, evaluation)?;
    check_options(table, &new, changed, evaluation)?;
    effects.row_changed(table, old, &new, changed);
    Ok(())
}

fn refuse<T: Tuple + ?Sized>(
    table: &Table,
    conflict: Option<Conflict>,
    new: &T,
    context: &ExecutionContext<'_>,
) -> Outcome<()> {
    match conflict {
        None => Ok(()),
        Some(conflict) => Err(Stop::Fail(unique_violation(
            table,
            conflict.index,
            new,
            context.evaluation.text,
        ))),
    }
}

fn delete_row(table: &Table, key: &Key, old: RowRef<'_>, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    context.database.delete(context.transaction, table.id, key.as_bytes())?;
    remove_entries(table, key, old, context)
}

fn remove_entries(table: &Table, key: &Key, old: RowRef<'_>, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    for (number, index) in table.indexes.iter().enumerate() {
        if let Some(entry) = entry_key(table, index, &old, key.as_bytes())? {
            remove_entry(table, number, &entry, context)?;
        }
    }
    Ok(())
}

/// Deletes a row that was read to write, with its index entries.
pub(crate) fn remove_row(
    table: &Arc<Table>,
    key: &Key,
    old: RowRef<'_>,
    effects: &mut Effects,
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    context.database.delete(context.transaction, table.id, key.as_bytes())?;
    note_removed(table, key, old, effects, context)
}

/// What belongs to a row that another node has deleted already.
pub(crate) fn note_removed(
    table: &Arc<Table>,
    key: &Key,
    old: RowRef<'_>,
    effects: &mut Effects,
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    remove_entries(table, key, old, context)?;
    effects.row_removed(table, old);
    Ok(())
}

/// The columns that must be known of a row to delete it, or to move it: those of its indexes and of keys that others refer to.
pub(crate) fn columns_to_remove(table: &Table) -> ColumnSet {
    if !table.referenced_by.is_empty() {
        return ColumnSet::ALL;
    }
    let indexed = table.indexes.iter().map(|index| table.read_by_index(index));
    indexed.fold(ColumnSet::EXISTENCE, ColumnSet::union)
}
