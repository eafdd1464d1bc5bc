//! What an enum knows about its labels. An empty array of the type stands first and says which type is meant: the arguments that users
//! write are mostly NULL.

use super::argument::{Output, argument, entry, value_at};
use super::{FunctionEntry, Implementation};
use crate::context::EvalContext;
use rubato_base::{Array, DataType, EnumLabel, EnumValue, Error, Result, SqlState, Value};

/// The type, and its labels.
fn labels_of<'a>(arguments: &[Value], context: &'a EvalContext<'_>) -> Result<(u32, &'a [EnumLabel])> {
    let empty: &Array = argument(arguments, 0)?;
    match empty.element {
        DataType::Enum(type_oid) => Ok((type_oid, context.text.enums.labels(type_oid))),
        other => Err(Error::internal(format!("a function of enums was called with {other}"))),
    }
}

fn value_of(type_oid: u32, label: &EnumLabel) -> Value {
    Value::Enum(EnumValue {
        type_oid,
        position: label.position,
    })
}

/// 55000.
fn no_labels(type_oid: u32) -> Error {
    let message = format!("enum {} contains no values", DataType::Enum(type_oid));
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

fn first(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (type_oid, labels) = labels_of(arguments, context)?;
    labels
        .first()
        .map(|label| value_of(type_oid, label))
        .ok_or_else(|| no_labels(type_oid))
}

fn last(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (type_oid, labels) = labels_of(arguments, context)?;
    labels
        .last()
        .map(|label| value_of(type_oid, label))
        .ok_or_else(|| no_labels(type_oid))
}

/// All labels, or those between two; NULL is no bound.
fn range(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (type_oid, labels) = labels_of(arguments, context)?;
    let position = |place: usize| match value_at(arguments, place) {
        Value::Enum(value) => Some(value.position),
        _ => None,
    };
    let (from, to) = (position(1), position(2));
    let within = labels
        .iter()
        .filter(|label| from.is_none_or(|from| from <= label.position) && to.is_none_or(|to| label.position <= to));
    let items = within.map(|label| value_of(type_oid, label)).collect();
    Array::new(DataType::Enum(type_oid), items).output()
}

pub(super) static ENUMERATION: &[FunctionEntry] = &[
    entry!("enum_first_of" (SameArray) -> Element, Implementation::Context(first)).stable(),
    entry!("enum_last_of" (SameArray) -> Element, Implementation::Context(last)).stable(),
    entry!("enum_range_of" (SameArray) -> SameArray, Implementation::Context(range)).stable(),
    entry!("enum_range_of" (SameArray, Element, Element) -> SameArray, Implementation::Context(range))
        .lenient()
        .stable(),
];
