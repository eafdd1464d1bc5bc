//! NOT NULL, CHECK and unique constraints, with PostgreSQL's words.

use super::keys::key_part;
use crate::catalog::{Check, Table};
use crate::deparse::shown_in_message;
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{ColumnSet, Error, Result, SqlState, Value};
use rubato_formula::{EvalContext, Tuple};

/// Longest text of one value in a message, in bytes.
const SHOWN_BYTES_MAX: usize = 64;

/// What views check of rows that are written through them, when everything else was found in order. 44000.
pub(crate) fn check_options<T: Tuple + ?Sized>(
    table: &Table,
    row: &T,
    changed: ColumnSet,
    evaluation: &EvalContext<'_>,
) -> Result<()> {
    for check in &table.checks {
        let Some(view) = &check.option_of else { continue };
        if is_affected(check, changed) && !check.holds(row, evaluation)? {
            let message = format!("new row violates check option for view \"{view}\"");
            return Err(
                Error::new(SqlState::WITH_CHECK_OPTION_VIOLATION, message).with_detail(failing_row(
                    table,
                    row,
                    evaluation.text,
                )),
            );
        }
    }
    Ok(())
}

fn is_affected(check: &Check, changed: ColumnSet) -> bool {
    check.is_affected(changed) || check.columns.is_empty()
}

/// Checks NOT NULL and CHECK constraints of a new row, as far as they read `changed` columns. 23502, 23514.
pub(crate) fn check_row<T: Tuple + ?Sized>(
    table: &Table,
    row: &T,
    changed: ColumnSet,
    evaluation: &EvalContext<'_>,
) -> Result<()> {
    check_not_null(table, row, changed, evaluation)?;
    check_conditions(table, row, changed, evaluation)
}

/// The CHECK constraints alone, of a row whose columns that are NOT NULL are known to be so. 23514.
pub(crate) fn check_conditions<T: Tuple + ?Sized>(
    table: &Table,
    row: &T,
    changed: ColumnSet,
    evaluation: &EvalContext<'_>,
) -> Result<()> {
    for check in table
        .checks
        .iter()
        .filter(|check| check.option_of.is_none() && is_affected(check, changed))
    {
        if !check.holds(row, evaluation)? {
            if let Some(rule) = &check.domain {
                return Err(rule.violation());
            }
            let message = format!(
                "new row for relation \"{}\" violates check constraint \"{}\"",
                table.name, check.name
            );
            let error =
                Error::new(SqlState::CHECK_VIOLATION, message).with_detail(failing_row(table, row, evaluation.text));
            return Err(table.named_in(error, None, Some(&check.name)));
        }
    }
    Ok(())
}

fn check_not_null<T: Tuple + ?Sized>(
    table: &Table,
    row: &T,
    changed: ColumnSet,
    evaluation: &EvalContext<'_>,
) -> Result<()> {
    for (number, column) in table.columns.iter().enumerate() {
        if !column.not_null || column.dropped || !changed.contains_column(number) {
            continue;
        }
        let is_null = match row.column_ref(number) {
            Some(value) => value.is_null(),
            None => row.column(number).is_null(),
        };
        if is_null {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, table.name
            );
            let error =
                Error::new(SqlState::NOT_NULL_VIOLATION, message).with_detail(failing_row(table, row, evaluation.text));
            return Err(table.named_in(error, Some(&column.name), None));
        }
    }
    Ok(())
}

fn failing_row<T: Tuple + ?Sized>(table: &Table, row: &T, text: &TextContext) -> String {
    let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.dropped);
    let shown = columns.map(|(number, column)| {
        let mut shown = shown_value(&row.column(number), column.column_type.data_type, text);
        if shown.len() > SHOWN_BYTES_MAX {
            let mut end = SHOWN_BYTES_MAX;
            while !shown.is_char_boundary(end) {
                end -= 1;
            }
            shown.truncate(end);
            shown.push_str("...");
        }
        shown
    });
    format!("Failing row contains ({}).", shown.collect::<Vec<_>>().join(", "))
}

fn shown_value(value: &Value, data_type: rubato_base::DataType, text: &TextContext) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut out = Vec::new();
    write_text(value, data_type, text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// `(a, b)=(1, 2)`, the way messages show a key.
pub(crate) fn shown_key<T: Tuple + ?Sized>(
    table: &Table,
    columns: &[usize],
    row: &T,
    quoted: bool,
    text: &TextContext,
) -> String {
    let names: Vec<String> = columns
        .iter()
        .map(|&column| match table.columns.get(column) {
            Some(column) if quoted => quote(&column.name),
            Some(column) => column.name.clone(),
            None => shown_in_message(table, column),
        })
        .collect();
    let values: Vec<String> = columns
        .iter()
        .map(|&column| {
            let value = key_part(table, column, row).unwrap_or_default();
            shown_value(&value, table.key_type(column).data_type, text)
        })
        .collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}

/// A name as a message shows it where PostgreSQL quotes identifiers.
fn quote(name: &str) -> String {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// The columns and the name of a unique constraint: the primary key or a unique index.
pub(crate) fn unique_constraint(table: &Table, index: Option<usize>) -> (&[usize], &str) {
    match index {
        Some(index) => (&table.indexes[index].columns, &table.indexes[index].name),
        None => (&table.primary_key, &table.primary_key_name),
    }
}

/// 23505: another row has the key already.
pub(crate) fn unique_violation<T: Tuple + ?Sized>(
    table: &Table,
    index: Option<usize>,
    row: &T,
    text: &TextContext,
) -> Error {
    let (columns, name) = unique_constraint(table, index);
    let message = format!("duplicate key value violates unique constraint \"{name}\"");
    let error = Error::new(SqlState::UNIQUE_VIOLATION, message).with_detail(format!(
        "Key {} already exists.",
        shown_key(table, columns, row, true, text)
    ));
    table.named_in(error, None, Some(name))
}
