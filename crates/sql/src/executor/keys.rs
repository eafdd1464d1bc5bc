//! Keys of rows and of index entries.
//!
//! A key is always written with values of the key columns' own types: `char(n)` without its trailing blanks, whole numbers in
//! the column's size. An index entry's key is the indexed columns, followed by the row's key if the index is not unique or if an
//! indexed column is NULL (two NULLs are not equal, unless the index says so); the entry of a unique index holds the row's key in its only column.

use super::ExecutionContext;
use super::bounds::{Place, place};
use crate::catalog::{Index, Table};
use crate::plan::ElementsAccess;
use rubato_base::datetime::TimeZone;
use rubato_base::text_format::apply_modifier;
use rubato_base::{
    ColumnType, DataType, Error, Key, KeyReader, KeyWriter, Numeric, Result, Row, RowRef, SqlState, Value,
};
use rubato_formula::{EvalContext, Expr, Tuple};
use rubato_protocol::KeyRange;
use rubato_protocol::grid::EntryRow;
use std::borrow::Cow;
use std::ops::Bound;

/// The longest key of a row or index entry: longer ones are refused by the statement that makes them, with room to spare below
/// what a store takes.
pub(crate) const KEY_BYTES_MAX: usize = 32 << 10;

/// 54000 for a key that is too long to be kept.
fn checked(writer: KeyWriter, name: &str) -> Result<Key> {
    let key_bytes = writer.as_bytes().len();
    if key_bytes <= KEY_BYTES_MAX {
        return Ok(writer.finish());
    }
    let message = format!("index row size {key_bytes} exceeds maximum {KEY_BYTES_MAX} for index \"{name}\"");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .with_hint("Index a shorter column, for example one that holds a hash of the value."))
}

/// `value` as a key column of this type holds it; `None` if no value of the type is equal to it.
pub(crate) fn key_value(column_type: ColumnType, value: &Value) -> Option<Cow<'_, Value>> {
    let whole = |value: &Value| match value {
        Value::Numeric(number) => number
            .to_i64()
            .ok()
            .filter(|whole| Numeric::from_i64(*whole) == *number),
        other => other.as_i64(),
    };
    match (column_type.data_type, value) {
        (_, Value::Null) => Some(Cow::Borrowed(value)),
        (DataType::Char, Value::Text(text)) if text.ends_with(' ') => {
            Some(Cow::Owned(Value::text(text.trim_end_matches(' '))))
        }
        (DataType::Int2, Value::Int2(_))
        | (DataType::Int4, Value::Int4(_))
        | (DataType::Int8 | DataType::Oid, Value::Int8(_))
        | (DataType::Numeric, Value::Numeric(_)) => Some(Cow::Borrowed(value)),
        (DataType::Int2 | DataType::Int4, Value::Float4(_) | Value::Float8(_))
        | (DataType::Float4, Value::Int2(_) | Value::Int4(_) | Value::Int8(_) | Value::Numeric(_) | Value::Float8(_))
        | (DataType::Date, Value::Timestamp(_)) => match place(column_type.data_type, value.clone(), &TimeZone::UTC) {
            Place::At(equal) => Some(Cow::Owned(equal)),
            _ => None,
        },
        (DataType::Int2, other) => Some(Cow::Owned(Value::Int2(i16::try_from(whole(other)?).ok()?))),
        (DataType::Int4, other) => Some(Cow::Owned(Value::Int4(i32::try_from(whole(other)?).ok()?))),
        (DataType::Int8 | DataType::Oid, other) => Some(Cow::Owned(Value::Int8(whole(other)?))),
        (DataType::Numeric, other) => Some(Cow::Owned(Value::Numeric(Numeric::from_i64(other.as_i64()?)))),
        _ => Some(Cow::Borrowed(value)),
    }
}

/// The number as a whole one, if it is.
pub(crate) fn whole_number(number: &Numeric) -> Option<i64> {
    number
        .to_i64()
        .ok()
        .filter(|whole| Numeric::from_i64(*whole) == *number)
}

/// Appends `value` as a component of a key column of this type; `false` if no key can equal it.
pub(crate) fn push_key_value(writer: &mut KeyWriter, column_type: ColumnType, value: &Value) -> bool {
    match key_value(column_type, value) {
        Some(value) => writer.push(&value),
        None => return false,
    }
    true
}

/// The key of a table's row: its primary key columns, or the given row number if the table has none.
pub fn row_key<T: Tuple + ?Sized>(table: &Table, row: &T, row_number: impl FnOnce() -> u64) -> Result<Key> {
    let mut writer = KeyWriter::default();
    if table.primary_key.is_empty() {
        writer.push(&Value::Int8(row_number() as i64));
    }
    for &column in &table.primary_key {
        push_column(&mut writer, table, column, row)?;
    }
    checked(writer, &table.primary_key_name)
}

fn push_column<T: Tuple + ?Sized>(writer: &mut KeyWriter, table: &Table, column: usize, row: &T) -> Result<()> {
    let column_type = table.columns[column].column_type;
    let fits = match row.column_ref(column) {
        Some(value) => push_key_value(writer, column_type, value),
        None => push_key_value(writer, column_type, &row.column(column)),
    };
    if fits {
        Ok(())
    } else {
        Err(Error::internal(format!(
            "a value of column {column} of {} has another type",
            table.name
        )))
    }
}

/// The types of the columns of a table's own key.
pub(crate) fn key_types(table: &Table, index: Option<usize>) -> impl Iterator<Item = ColumnType> + '_ {
    let columns = match index {
        Some(index) => &table.indexes[index].columns,
        None => &table.primary_key,
    };
    columns.iter().map(|&column| table.key_type(column))
}

/// The key of a row's entry in an index; `None` if the index has none for it.
pub(crate) fn entry_key<T: Tuple + ?Sized>(
    table: &Table,
    index: &Index,
    row: &T,
    row_key: &[u8],
) -> Result<Option<Key>> {
    if let Some(predicate) = &index.predicate
        && !predicate.expr.is_true(row, &EvalContext::constant())?
    {
        return Ok(None);
    }
    let mut writer = KeyWriter::default();
    let mut has_null = false;
    for &number in &index.columns {
        let Some(own) = table.key_expression(number) else {
            has_null |= row.column(number).is_null();
            push_column(&mut writer, table, number, row)?;
            continue;
        };
        let value = key_part(table, number, row)?;
        has_null |= value.is_null();
        if !push_key_value(&mut writer, own.column_type, &value) {
            return Err(Error::internal(format!(
                "index {} has a value of another type",
                index.name
            )));
        }
    }
    if !index.unique || (has_null && !index.options.nulls_not_distinct) {
        writer.push_raw(row_key);
    }
    checked(writer, &index.name).map(Some)
}

/// Whether rows with other keys may not have the row's entry in the index: it is unique, and has no NULL that is distinct from others.
pub(crate) fn is_unique_entry<T: Tuple + ?Sized>(table: &Table, index: &Index, row: &T) -> Result<bool> {
    let mut is_unique = index.unique;
    for &number in index.columns.iter().filter(|_| !index.options.nulls_not_distinct) {
        is_unique &= !key_part(table, number, row)?.is_null();
    }
    Ok(is_unique)
}

/// What a number in a key stands for in a row: what is indexed is immutable, and depends on the row alone.
pub(crate) fn key_part<T: Tuple + ?Sized>(table: &Table, number: usize, row: &T) -> Result<Value> {
    match table.key_expression(number) {
        Some(own) => own.value.expr.evaluate(row, &EvalContext::constant()),
        None => Ok(row.column(number)),
    }
}

/// What the entries begin with of all rows that have these values in the indexed columns.
pub(crate) fn entry_prefix(table: &Table, index: &Index, values: &[Value]) -> Result<Key> {
    let mut row = vec![Value::Null; table.columns.len()];
    for (&column, value) in index.columns.iter().zip(values) {
        row[column] = value.clone();
    }
    let mut writer = KeyWriter::default();
    for &column in &index.columns {
        push_column(&mut writer, table, column, &row)?;
    }
    checked(writer, &index.name)
}

/// The row of an index entry.
pub(crate) fn entry_row(index: &Index, row_key: &[u8]) -> Row {
    if index.unique {
        Row::from_values(&[Value::bytea(row_key)])
    } else {
        Row::from_values(&[])
    }
}

/// Where the entries of an index have the keys of their rows, as it is told to another node.
pub(crate) fn place_of_row_key(table: &Table, index: &Index) -> EntryRow {
    match index.unique {
        true => EntryRow::InContent,
        false => {
            let types = index.columns.iter().map(|column| table.key_type(*column).data_type);
            EntryRow::Behind(types.collect())
        }
    }
}

/// The key of the row that an index entry stands for.
pub(crate) fn entry_target(table: &Table, index: &Index, entry: &[u8], row: RowRef<'_>) -> Result<Key> {
    if index.unique {
        return match row.get(0) {
            Value::Bytea(key) => Ok(Key::from_bytes(&key)),
            _ => Err(Error::internal(format!(
                "an entry of index {} has no row key",
                index.name
            ))),
        };
    }
    let mut reader = KeyReader::new(entry);
    for &column in &index.columns {
        reader.next(table.key_type(column).data_type)?;
    }
    Ok(Key::from_bytes(reader.rest()))
}

/// The primary key that `expressions` give; `None` if one is NULL or cannot be a key: then there is no such row.
pub(crate) fn point_key<T: Tuple + ?Sized>(
    table: &Table,
    expressions: &[Expr],
    tuple: &T,
    evaluation: &EvalContext<'_>,
) -> Result<Option<Key>> {
    let mut writer = KeyWriter::default();
    for (expression, &column) in expressions.iter().zip(&table.primary_key) {
        let value = expression.evaluate(tuple, evaluation)?;
        if value.is_null() || !push_key_value(&mut writer, table.columns[column].column_type, &value) {
            return Ok(None);
        }
    }
    // No row has a key that is longer.
    Ok((writer.as_bytes().len() <= KEY_BYTES_MAX).then(|| writer.finish()))
}

/// The keys that an array gives, each once, in key order.
pub(crate) fn element_keys<T: Tuple + ?Sized>(
    table: &Table,
    access: &ElementsAccess,
    tuple: &T,
    evaluation: &EvalContext<'_>,
) -> Result<Vec<Key>> {
    let Value::Array(array) = access.array.evaluate(tuple, evaluation)? else {
        return Ok(Vec::new());
    };
    let mut key = access.key.clone();
    let mut keys = Vec::with_capacity(array.items.len());
    for element in &array.items {
        key[access.place] = Expr::Literal(element.clone());
        keys.extend(point_key(table, &key, tuple, evaluation)?);
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Whether `key` lies in the range.
pub(crate) fn in_range(range: &KeyRange, key: &Key) -> bool {
    let above = match &range.from {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
    };
    above
        && match &range.to {
            Bound::Unbounded => true,
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
        }
}

/// A key for hashing values: equal bytes if and only if GROUP BY takes the values for equal.
pub(crate) fn group_key(values: &[Value]) -> Key {
    Key::of(values)
}

/// All columns of a row as the table has them now.
pub(crate) fn row_values(table: &Table, row: RowRef<'_>) -> Vec<Value> {
    (0..table.columns.len()).map(|column| row.get(column)).collect()
}

/// The key for a row in new storage of its table, which it comes to from other storage. Where all of that is here recovery may have to make
/// it again, and counts as is counted here.
pub(crate) fn moved_row_key<T: Tuple + ?Sized>(
    table: &Table,
    values: &T,
    context: &mut ExecutionContext<'_>,
) -> Result<Key> {
    let is_made_again = !context.database.is_elsewhere(table.id) && context.database.here().is_laid_out(table.id);
    match is_made_again {
        true => row_key(table, values, || context.row_numbers.next_place(table.id)),
        false => new_row_key(table, values, context),
    }
}

/// The key for a new row of the table.
pub(crate) fn new_row_key<T: Tuple + ?Sized>(
    table: &Table,
    values: &T,
    context: &mut ExecutionContext<'_>,
) -> Result<Key> {
    let numbers = context.row_numbers;
    row_key(table, values, || {
        context.database.row_number(|| numbers.next_row_number(table.id))
    })
}

/// `value` as a column of this type keeps it, where the value comes from a column of another, comparable type. 22003 if the type
/// has no such value.
fn stored_value(column_type: ColumnType, value: Value) -> Result<Value> {
    if matches!(column_type.data_type, DataType::Char) {
        return Ok(value);
    }
    key_value(column_type, &value).map(Cow::into_owned).ok_or_else(|| {
        Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("{} out of range", column_type.data_type),
        )
    })
}

/// The same as an assignment gives it to the column: rounded, padded or cut to the type's length or precision. 22001 and 22003 if it does
/// not fit.
pub(crate) fn assigned_value(column_type: ColumnType, value: Value) -> Result<Value> {
    let value = stored_value(column_type, value)?;
    apply_modifier(value, column_type.data_type, column_type.modifier)
}

/// The keys of several points, each once, in key order.
pub(crate) fn distinct_keys<T: Tuple + ?Sized>(
    table: &Table,
    points: &[Vec<Expr>],
    tuple: &T,
    evaluation: &EvalContext<'_>,
) -> Result<Vec<Key>> {
    let mut keys = Vec::with_capacity(points.len());
    for point in points {
        keys.extend(point_key(table, point, tuple, evaluation)?);
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}
