//! The rows' part of schema changes: fills indexes, lays rows out under a new key, checks what is there.
//!
//! All of it is ordinary reading and writing in the transaction of the schema change, in batches. The new storage is known to
//! nobody else before the new catalog is; the old rows are read under the protocol, so that a row that another transaction
//! commits meanwhile aborts one of the two.

use super::constraints::{shown_key, unique_constraint};
use super::keys::{new_row_key, rest_of_range, whole_range};
use super::referential::check_referring;
use super::rows::insert_entry;
use super::{BATCH_TUPLES, ExecutionContext};
use crate::catalog::Table;
use crate::schema_change::StorageWork;
use rubato_base::{ColumnSet, Error, Key, Result, Row, SqlState, TableId, Value};
use rubato_formula::{Change, Formula, RowBounds, Tuple, Volatility};
use rubato_protocol::{Insertion, Outcome, ScanEnd, Stop};
use std::sync::Arc;

/// Carries out the rows' part of a schema change; `context.catalog` is the new catalog, and the storage that the works create is
/// there. Storage and sequences are the caller's: for `Create`, `Drop`, `StartSequence` and `DropSequence` nothing is done here.
///
/// 23505, 23502, 23514 or 23503 if a row that is there does not satisfy what is new.
pub fn carry_out_all(works: &[StorageWork], context: &mut ExecutionContext<'_>) -> Outcome<()> {
    for (place, work) in works.iter().enumerate() {
        let later = &works[place + 1..];
        // An index that is made anew later, for rows under another key, need not be made for the rows as they are now.
        let is_in_vain = matches!(work, StorageWork::FillIndex { .. }) && later.contains(work);
        if !is_in_vain {
            carry_out_before(work, later, context)?;
        }
    }
    Ok(())
}

/// Carries out one work that no other work of the same table follows, see [`carry_out_all`].
pub fn carry_out(work: &StorageWork, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    carry_out_before(work, &[], context)
}

/// Where a table's rows are while `later` works are still to come: a rewrite takes them from there.
fn storage_of(table: &Table, later: &[StorageWork]) -> TableId {
    let rewritten = later.iter().find_map(|work| match work {
        StorageWork::Rewrite { table: name, from, .. } if *name == table.name => Some(*from),
        _ => None,
    });
    rewritten.unwrap_or(table.id)
}

fn carry_out_before(work: &StorageWork, later: &[StorageWork], context: &mut ExecutionContext<'_>) -> Outcome<()> {
    match work {
        StorageWork::Create { .. }
        | StorageWork::Drop { .. }
        | StorageWork::StartSequence { .. }
        | StorageWork::DropSequence { .. } => Ok(()),
        StorageWork::FillIndex { table, index } => {
            let table = table_of(table, context)?;
            let columns = table.indexes[*index].columns.iter().copied().collect();
            let storage = storage_of(&table, later);
            for_each_row(storage, columns, context, &mut |key, row, context| {
                fill_index(&table, *index, key, row, context)
            })
        }
        StorageWork::Rewrite { table, from, .. } => {
            let table = table_of(table, context)?;
            for_each_row(*from, ColumnSet::ALL, context, &mut |_, row, context| {
                rewrite(&table, row, context)
            })
        }
        StorageWork::VerifyNotNull { table, column } => {
            let table = table_of(table, context)?;
            for_each_row(
                storage_of(&table, later),
                ColumnSet::column(*column),
                context,
                &mut |_, row, _| Ok(refuse_null(&table, *column, row)?),
            )
        }
        StorageWork::VerifyCheck { table, check } => {
            let table = table_of(table, context)?;
            let check = &table.checks[*check];
            for_each_row(
                storage_of(&table, later),
                check.columns,
                context,
                &mut |_, row, context| {
                    if check.condition.is_not_false(row, context.evaluation)? {
                        return Ok(());
                    }
                    let message = format!(
                        "check constraint \"{}\" of relation \"{}\" is violated by some row",
                        check.name, table.name
                    );
                    let error = Error::new(SqlState::CHECK_VIOLATION, message);
                    Err(Stop::Fail(error.with_names(Some(&table.name), None, Some(&check.name))))
                },
            )
        }
        StorageWork::VerifyForeignKey { table, foreign_key } => {
            let table = table_of(table, context)?;
            let columns = &table.foreign_keys[*foreign_key].columns;
            let reads = columns.iter().copied().collect();
            for_each_row(storage_of(&table, later), reads, context, &mut |_, row, context| {
                let values: Vec<Value> = columns.iter().map(|column| row.get(*column)).collect();
                if values.iter().any(Value::is_null) {
                    return Ok(());
                }
                check_referring(&table, *foreign_key, &values, context)
            })
        }
        StorageWork::FillColumn { table, column } => {
            let table = table_of(table, context)?;
            fill_column(&table, storage_of(&table, later), *column, context)
        }
    }
}

fn table_of(name: &str, context: &ExecutionContext<'_>) -> Result<Arc<Table>> {
    let table = context.catalog.tables.get(name).cloned();
    table.ok_or_else(|| Error::internal(format!("the table \"{name}\" is not in the new catalog")))
}

/// Calls `visit` with every row of a storage, in batches.
fn for_each_row(
    storage: TableId,
    columns: ColumnSet,
    context: &mut ExecutionContext<'_>,
    visit: &mut dyn FnMut(&Key, &Row, &mut ExecutionContext<'_>) -> Outcome<()>,
) -> Outcome<()> {
    let columns = columns.union(ColumnSet::EXISTENCE);
    let mut rest = whole_range();
    loop {
        let mut batch: Vec<(Key, Row)> = Vec::with_capacity(BATCH_TUPLES);
        let end = context
            .database
            .scan(context.transaction, storage, &rest, false, columns, &mut |key, row| {
                batch.push((Key::from_bytes(key), row.to_row()));
                batch.len() < BATCH_TUPLES
            })?;
        for (key, row) in &batch {
            visit(key, row, context)?;
        }
        match end {
            ScanEnd::Exhausted => return Ok(()),
            ScanEnd::Stopped(key) => rest = rest_of_range(&rest, &key, false),
        }
    }
}

fn fill_index(table: &Table, index: usize, key: &Key, row: &Row, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    match insert_entry(table, index, row, key, context)? {
        None => Ok(()),
        Some(_) => Err(Stop::Fail(duplicated(table, Some(index), row, context))),
    }
}

fn rewrite(table: &Table, row: &Row, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    for &column in &table.primary_key {
        refuse_null(table, column, row)?;
    }
    let key = new_row_key(table, row, context)?;
    match context
        .database
        .insert(context.transaction, table.id, key, row.clone())?
    {
        Insertion::Inserted => Ok(()),
        Insertion::Exists(_) => Err(Stop::Fail(duplicated(table, None, row, context))),
    }
}

fn duplicated<T: Tuple + ?Sized>(
    table: &Table,
    index: Option<usize>,
    row: &T,
    context: &ExecutionContext<'_>,
) -> Error {
    let (columns, name) = unique_constraint(table, index);
    let key = shown_key(table, columns, row, true, context.evaluation.text);
    Error::new(
        SqlState::UNIQUE_VIOLATION,
        format!("could not create unique index \"{name}\""),
    )
    .with_detail(format!("Key {key} is duplicated."))
    .with_names(Some(&table.name), None, Some(name))
}

fn refuse_null(table: &Table, column: usize, row: &Row) -> Result<()> {
    if !row.as_ref().encoded(column).is_empty() {
        return Ok(());
    }
    let name = &table.columns[column].name;
    let message = format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
    Err(Error::new(SqlState::NOT_NULL_VIOLATION, message).with_names(Some(&table.name), Some(name), None))
}

fn fill_column(table: &Table, storage: TableId, column: usize, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    let Some(default) = table.columns[column].default.clone() else {
        return Ok(());
    };
    let column_type = table.columns[column].column_type;
    let each_differs = default.volatility() == Volatility::Volatile;
    let mut value = None;
    for_each_row(storage, ColumnSet::EXISTENCE, context, &mut |key, _, context| {
        if each_differs || value.is_none() {
            value = Some(default.evaluate(&(), context.evaluation)?);
        }
        let change = Change::set(column as u16, column_type, value.clone().unwrap_or_default());
        let formula = Formula::new([change])?;
        context.database.update_blind(
            context.transaction,
            storage,
            key.as_bytes(),
            formula,
            &RowBounds::default(),
        )?;
        Ok(())
    })
}
