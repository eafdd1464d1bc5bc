//! Foreign keys, looked at when a statement has done everything else: rows that refer must find what they refer to, and rows
//! that were referred to are not missed or take the referring rows along.

use super::constraints::shown_key;
use super::keys::{entry_target, prefix_range, push_key_value, whole_range};
use super::rows::{change_row, remove_row};
use super::{ExecutionContext, Held};
use crate::catalog::{ForeignKey, ReferentialAction, Table};
use rubato_base::{ColumnSet, Error, Key, KeyWriter, Result, Row, RowRef, SqlState, TableId, Value};
use rubato_formula::Tuple;
use rubato_protocol::{KeyRange, OnBusy, OrderedRead, Outcome, Stop};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a statement has done that foreign keys have to say something about.
#[derive(Default)]
pub(crate) struct Effects {
    referring: Vec<Referring>,
    referred: VecDeque<Referred>,
    held: Held,
}

/// A row that must find what it refers to.
struct Referring {
    table: Arc<Table>,
    foreign_key: usize,
    /// The values of the referring columns.
    values: Vec<Value>,
}

/// A row that others may refer to and that is gone or has another key.
struct Referred {
    table: Arc<Table>,
    old: Row,
    /// `None` if it is gone.
    new: Option<Row>,
}

impl Effects {
    /// Takes note of a new row.
    pub(crate) fn row_added<T: Tuple + ?Sized>(&mut self, table: &Arc<Table>, row: &T) {
        self.note_referring(table, row, ColumnSet::ALL);
    }

    /// Takes note of a changed row.
    pub(crate) fn row_changed<T: Tuple + ?Sized>(
        &mut self,
        table: &Arc<Table>,
        old: RowRef<'_>,
        new: &T,
        changed: ColumnSet,
    ) {
        self.note_referring(table, new, changed);
        if !table.referenced_by.is_empty() {
            let values: Vec<Value> = (0..table.columns.len()).map(|column| new.column(column)).collect();
            let new = Some(Row::from_values(&values));
            self.referred.push_back(Referred {
                table: Arc::clone(table),
                old: old.to_row(),
                new,
            });
        }
    }

    /// Takes note of a deleted row.
    pub(crate) fn row_removed(&mut self, table: &Arc<Table>, old: RowRef<'_>) {
        if !table.referenced_by.is_empty() {
            self.referred.push_back(Referred {
                table: Arc::clone(table),
                old: old.to_row(),
                new: None,
            });
        }
    }

    /// How many rows wait to be checked for what they refer to.
    pub(crate) fn referring_count(&self) -> usize {
        self.referring.len()
    }

    fn note_referring<T: Tuple + ?Sized>(&mut self, table: &Arc<Table>, row: &T, changed: ColumnSet) {
        for (number, foreign_key) in table.foreign_keys.iter().enumerate() {
            if !foreign_key
                .columns
                .iter()
                .any(|column| changed.contains_column(*column))
            {
                continue;
            }
            let values: Vec<Value> = foreign_key.columns.iter().map(|column| row.column(*column)).collect();
            // MATCH SIMPLE: a NULL refers to nothing.
            if !values.iter().any(Value::is_null) {
                self.referring.push(Referring {
                    table: Arc::clone(table),
                    foreign_key: number,
                    values,
                });
            }
        }
    }

    /// Checks and carries out everything noted. 23503.
    pub(crate) fn settle(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        let mut refusals = Vec::new();
        while let Some(referred) = self.referred.pop_front() {
            for (name, constraint) in &referred.table.referenced_by {
                let (child, place) = referring_table(context, name, constraint)?;
                let foreign_key = &child.foreign_keys[place];
                let Some(old) = referred_values(foreign_key, &referred.old) else {
                    continue;
                };
                let new = referred.new.as_ref().map(|row| referred_values(foreign_key, row));
                if new.as_ref().is_some_and(|new| new.as_ref() == Some(&old)) {
                    continue;
                }
                let action = if new.is_none() {
                    foreign_key.on_delete
                } else {
                    foreign_key.on_update
                };
                if action == ReferentialAction::Refuse {
                    self.held.add(&old, &context.limits)?;
                    refusals.push((Arc::clone(&referred.table), Arc::clone(&child), place, old));
                } else {
                    self.follow(&child, foreign_key, action, &old, referred.new.as_ref(), context)?;
                }
            }
        }
        for (table, child, place, values) in refusals {
            refuse_if_referred(&table, &child, &child.foreign_keys[place], &values, context)?;
        }
        let mut last_checked: Option<(TableId, usize, Vec<Value>)> = None;
        for check in self.referring.drain(..) {
            let same = last_checked
                .as_ref()
                .is_some_and(|last| last.0 == check.table.id && last.1 == check.foreign_key && last.2 == check.values);
            if !same {
                check_referring(&check.table, check.foreign_key, &check.values, context)?;
                last_checked = Some((check.table.id, check.foreign_key, check.values));
            }
        }
        Ok(())
    }

    /// CASCADE, SET NULL, SET DEFAULT.
    fn follow(
        &mut self,
        child: &Arc<Table>,
        foreign_key: &ForeignKey,
        action: ReferentialAction,
        old: &[Value],
        new: Option<&Row>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        for key in find_referring(child, foreign_key, old, false, context)? {
            self.held
                .add_bytes(size_of::<Key>() + key.heap_bytes(), &context.limits)?;
            let read = context.database.read_for_update(
                context.transaction,
                child.id,
                key.as_bytes(),
                ColumnSet::ALL,
                OnBusy::Queue,
            )?;
            let OrderedRead::Row(Some(row)) = read else { continue };
            if !refers(foreign_key, &row, old) {
                continue;
            }
            match (action, new) {
                (ReferentialAction::Cascade, None) => remove_row(child, &key, row.as_ref(), self, context)?,
                _ => {
                    let changes = following_values(child, foreign_key, action, new, context)?;
                    change_row(child, &key, row.as_ref(), &changes, self, context)?;
                }
            }
        }
        Ok(())
    }
}

fn following_values(
    child: &Table,
    foreign_key: &ForeignKey,
    action: ReferentialAction,
    new: Option<&Row>,
    context: &ExecutionContext<'_>,
) -> Result<Vec<(usize, Value)>> {
    let pairs = foreign_key.columns.iter().zip(&foreign_key.referenced_columns);
    pairs
        .map(|(&column, &referenced)| {
            let value = match (action, new, &child.columns[column].default) {
                (ReferentialAction::Cascade, Some(new), _) => {
                    let column_type = child.columns[column].column_type;
                    super::keys::stored_value(column_type, new.get(referenced))?
                }
                (ReferentialAction::SetDefault, _, Some(default)) => default.evaluate(&(), context.evaluation)?,
                _ => Value::Null,
            };
            Ok((column, value))
        })
        .collect()
}

/// The referring table of a `referenced_by` entry, and the place of the foreign key in it.
fn referring_table(context: &ExecutionContext<'_>, name: &str, constraint: &str) -> Result<(Arc<Table>, usize)> {
    let lost = || {
        Error::internal(format!(
            "the foreign key \"{constraint}\" of \"{name}\" is not in the catalog"
        ))
    };
    let child = context.catalog.tables.get(name).ok_or_else(lost)?;
    let place = child
        .foreign_keys
        .iter()
        .position(|key| key.name == constraint)
        .ok_or_else(lost)?;
    Ok((Arc::clone(child), place))
}

/// The referred values of a row; `None` if one is NULL, so that nothing can refer to it.
fn referred_values(foreign_key: &ForeignKey, row: &Row) -> Option<Vec<Value>> {
    let values: Vec<Value> = foreign_key
        .referenced_columns
        .iter()
        .map(|column| row.get(*column))
        .collect();
    (!values.iter().any(Value::is_null)).then_some(values)
}

fn refers(foreign_key: &ForeignKey, row: &Row, values: &[Value]) -> bool {
    refers_ref(foreign_key, row.as_ref(), values)
}

fn refers_ref(foreign_key: &ForeignKey, row: RowRef<'_>, values: &[Value]) -> bool {
    foreign_key
        .columns
        .iter()
        .zip(values)
        .all(|(column, value)| row.get(*column) == *value)
}

/// 23503 unless there is a row that these values refer to.
pub(crate) fn check_referring(
    table: &Table,
    foreign_key: usize,
    values: &[Value],
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    let foreign_key = &table.foreign_keys[foreign_key];
    let parent = parent_of(foreign_key, context)?;
    if has_row(&parent, &foreign_key.referenced_columns, values, context)? {
        return Ok(());
    }
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        table.name, foreign_key.name
    );
    let shown = shown_values(table, &foreign_key.columns, values, context);
    Err(Stop::Fail(
        Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(format!(
                "Key {shown} is not present in table \"{}\".",
                foreign_key.referenced_table
            ))
            .with_names(Some(&table.name), None, Some(&foreign_key.name)),
    ))
}

fn parent_of(foreign_key: &ForeignKey, context: &ExecutionContext<'_>) -> Result<Arc<Table>> {
    context
        .catalog
        .tables
        .get(&foreign_key.referenced_table)
        .cloned()
        .ok_or_else(|| {
            Error::internal(format!(
                "\"{}\" refers to a table that is not in the catalog",
                foreign_key.name
            ))
        })
}

fn refuse_if_referred(
    table: &Table,
    child: &Table,
    foreign_key: &ForeignKey,
    values: &[Value],
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    if has_row(table, &foreign_key.referenced_columns, values, context)?
        || find_referring(child, foreign_key, values, true, context)?.is_empty()
    {
        return Ok(());
    }
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
        table.name, foreign_key.name, child.name
    );
    let shown = shown_values(table, &foreign_key.referenced_columns, values, context);
    Err(Stop::Fail(
        Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(format!(
                "Key {shown} is still referenced from table \"{}\".",
                child.name
            ))
            .with_names(Some(&child.name), None, Some(&foreign_key.name)),
    ))
}

/// Shows values that belong to `columns` in order.
fn shown_values(table: &Table, columns: &[usize], values: &[Value], context: &ExecutionContext<'_>) -> String {
    let mut row = vec![Value::Null; table.columns.len()];
    for (&column, value) in columns.iter().zip(values) {
        row[column] = value.clone();
    }
    shown_key(table, columns, &row, false, context.evaluation.text)
}

/// Whether the table has a row with these values in a primary key or unique index of exactly these columns.
fn has_row(table: &Table, columns: &[usize], values: &[Value], context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    let storage = match prefix_order(&table.primary_key, columns) {
        Some(order) if table.primary_key.len() == columns.len() => Some((table.id, &table.primary_key, order)),
        _ => table
            .indexes
            .iter()
            .filter(|index| index.unique && index.columns.len() == columns.len())
            .find_map(|index| prefix_order(&index.columns, columns).map(|order| (index.id, &index.columns, order))),
    };
    let Some((storage, key_columns, order)) = storage else {
        let message = format!(
            "\"{}\" has no unique key of the columns that are referred to",
            table.name
        );
        return Err(Stop::Fail(Error::internal(message)));
    };
    let Some(key) = prefix_key(table, key_columns, &order, values) else {
        return Ok(false);
    };
    let row = context
        .database
        .read(context.transaction, storage, key.as_bytes(), ColumnSet::EXISTENCE)?;
    Ok(row.is_some())
}

/// For each of the first key columns, which of `columns` it is; `None` unless `columns` are the first columns of the key.
fn prefix_order(key_columns: &[usize], columns: &[usize]) -> Option<Vec<usize>> {
    let first = key_columns.get(..columns.len())?;
    first
        .iter()
        .map(|column| columns.iter().position(|other| other == column))
        .collect()
}

/// The key (or its beginning) of `values` put in order; `None` if no key can have them.
fn prefix_key(table: &Table, key_columns: &[usize], order: &[usize], values: &[Value]) -> Option<Key> {
    let mut writer = KeyWriter::default();
    for (&column, &place) in key_columns.iter().zip(order) {
        if !push_key_value(&mut writer, table.columns[column].column_type, &values[place]) {
            return None;
        }
    }
    Some(writer.finish())
}

/// The keys of the rows that refer to `values`; at most one if `one` is enough. By key or index where there is one, else by
/// looking at every row.
fn find_referring(
    child: &Table,
    foreign_key: &ForeignKey,
    values: &[Value],
    one: bool,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Vec<Key>> {
    let columns: ColumnSet = foreign_key.columns.iter().copied().collect();
    if let Some(order) = prefix_order(&child.primary_key, &foreign_key.columns) {
        let Some(prefix) = prefix_key(child, &child.primary_key, &order, values) else {
            return Ok(Vec::new());
        };
        let range = prefix_range(prefix.as_bytes());
        return scan_keys(child.id, &range, ColumnSet::EXISTENCE, one, context, &mut |key, _| {
            Ok(Some(Key::from_bytes(key)))
        });
    }
    for index in &child.indexes {
        let Some(order) = prefix_order(&index.columns, &foreign_key.columns) else {
            continue;
        };
        let Some(prefix) = prefix_key(child, &index.columns, &order, values) else {
            return Ok(Vec::new());
        };
        let reads = ColumnSet::EXISTENCE.union(ColumnSet::column(0));
        let range = prefix_range(prefix.as_bytes());
        return scan_keys(index.id, &range, reads, one, context, &mut |key, row| {
            entry_target(child, index, key, row).map(Some)
        });
    }
    let reads = columns.union(ColumnSet::EXISTENCE);
    scan_keys(child.id, &whole_range(), reads, one, context, &mut |key, row| {
        Ok(refers_ref(foreign_key, row, values).then(|| Key::from_bytes(key)))
    })
}

/// Whether a visited row or entry stands for a row that refers: that row's key.
type Choice<'a> = dyn FnMut(&[u8], RowRef<'_>) -> Result<Option<Key>> + 'a;

fn scan_keys(
    storage: TableId,
    range: &KeyRange,
    columns: ColumnSet,
    one: bool,
    context: &mut ExecutionContext<'_>,
    choose: &mut Choice<'_>,
) -> Outcome<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    let mut held = Held::default();
    let mut failure = None;
    let limits = context.limits;
    let mut visit = |key: &[u8], row: RowRef<'_>| {
        let chosen = choose(key, row).and_then(|chosen| {
            if let Some(key) = chosen {
                held.add_bytes(size_of::<Key>() + key.heap_bytes(), &limits)?;
                keys.push(key);
            }
            Ok(())
        });
        failure = chosen.err();
        failure.is_none() && (!one || keys.is_empty())
    };
    context
        .database
        .scan(context.transaction, storage, range, false, columns, &mut visit)?;
    failure.map_or(Ok(keys), |error| Err(Stop::Fail(error)))
}
