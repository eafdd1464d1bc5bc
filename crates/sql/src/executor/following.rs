//! What becomes of the referring columns of rows that follow the row which they refer to.

use super::ExecutionContext;
use super::keys::assigned_value;
use crate::catalog::{Column, ForeignKey, ReferentialAction, Table};
use rubato_base::{DataType, Result, Row, Value};

/// The referring columns' new values, in the order of the foreign key; `new` is what the referred row is now, if it is not gone.
///
/// Errors: those of an assignment (22001, 22003) where a column's type does not take what it is to follow.
pub(super) fn following_values(
    (parent, child): (&Table, &Table),
    foreign_key: &ForeignKey,
    action: ReferentialAction,
    new: Option<&Row>,
    context: &ExecutionContext<'_>,
) -> Result<Vec<(usize, Value)>> {
    let pairs = foreign_key.columns.iter().zip(&foreign_key.referenced_columns);
    pairs
        .map(|(&column, &referenced)| {
            let own = &child.columns[column];
            let value = match (action, new, &own.default) {
                (ReferentialAction::Cascade, Some(new), _) => {
                    let value = unpadded_for(own, &parent.columns[referenced], new.get(referenced));
                    assigned_value(own.column_type, value)?
                }
                (ReferentialAction::SetDefault, _, Some(default)) => default.evaluate(&(), context.evaluation)?,
                _ => Value::Null,
            };
            Ok((column, value))
        })
        .collect()
}

/// Whether the referred columns are written as before. Those who refer to a row follow it from 1.0 to 1.00, too, though that is equal.
pub(super) fn is_written_alike(foreign_key: &ForeignKey, old: &Row, new: &Row) -> bool {
    let (old, new) = (old.as_ref(), new.as_ref());
    let mut columns = foreign_key.referenced_columns.iter();
    columns.all(|column| old.encoded(*column) == new.encoded(*column))
}

/// Whether a row that follows comes to have other values than the one that it follows: a column's type may have rounded or cut them, so that
/// it may refer to another row, or to none.
pub(super) fn is_other_than_followed(
    foreign_key: &ForeignKey,
    new: Option<&Row>,
    following: &[(usize, Value)],
) -> bool {
    let mut pairs = foreign_key.referenced_columns.iter().zip(following);
    new.is_some_and(|new| pairs.any(|(referenced, (_, value))| new.get(*referenced) != *value))
}

/// Referred values as columns of the referring table have them: text that refers to a `char(n)` has none of its padding.
pub(super) fn as_referred_to(
    parent: &Table,
    child: &Table,
    foreign_key: &ForeignKey,
    values: Vec<Value>,
) -> Vec<Value> {
    let pairs = foreign_key.columns.iter().zip(&foreign_key.referenced_columns);
    let unpadded = |((own, referenced), value): ((&usize, &usize), Value)| {
        unpadded_for(&child.columns[*own], &parent.columns[*referenced], value)
    };
    pairs.zip(values).map(unpadded).collect()
}

fn is_padded(column: &Column) -> bool {
    column.column_type.data_type == DataType::Char
}

fn unpadded_for(child: &Column, parent: &Column, value: Value) -> Value {
    match &value {
        Value::Text(text) if is_padded(parent) && !is_padded(child) && text.ends_with(' ') => {
            Value::text(text.trim_end_matches(' '))
        }
        _ => value,
    }
}

/// Whether a row of the referring table can refer to these values: a `char(n)` refers to text by what it is without its padding, so never
/// to one that ends in a blank.
pub(super) fn may_be_referred_to(parent: &Table, child: &Table, foreign_key: &ForeignKey, values: &[Value]) -> bool {
    let pairs = foreign_key.columns.iter().zip(&foreign_key.referenced_columns);
    pairs.zip(values).all(|((own, referenced), value)| {
        let is_unpadded = is_padded(&child.columns[*own]) && !is_padded(&parent.columns[*referenced]);
        !(is_unpadded && matches!(value, Value::Text(text) if text.ends_with(' ')))
    })
}
