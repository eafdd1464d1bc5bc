//! GREATEST, LEAST, NULLIF and counts of NULLs, which take any type.

use super::FunctionEntry;
use super::Implementation;
use super::argument::entry;
use rubato_base::{Error, Key, Result, SqlState, Value};
use std::cmp::Ordering;

/// The outermost of the arguments that are not NULL.
fn outermost(arguments: &[Value], wanted: Ordering) -> Value {
    let mut best = Value::Null;
    for value in arguments {
        if best.is_null() || value.compare(&best) == Some(wanted) {
            best = value.clone();
        }
    }
    best
}

/// The value, if it satisfies what a domain says.
fn check_domain(arguments: &[Value]) -> Result<Value> {
    let [value, holds, Value::Text(domain), constraint] = arguments else {
        return Ok(Value::Null);
    };
    match (holds, constraint) {
        (Value::Bool(false), Value::Text(constraint)) => Err(domain_violation(domain, Some(constraint))),
        (Value::Bool(false), _) => Err(domain_violation(domain, None)),
        _ => Ok(value.clone()),
    }
}

/// 23514, or 23502 where it is no constraint but NOT NULL that is violated. The domain is a name, or the mark of one.
pub fn domain_violation(domain: &str, constraint: Option<&str>) -> Error {
    match constraint {
        Some(constraint) => {
            let message = format!("value for domain {domain} violates check constraint \"{constraint}\"");
            let error = Error::new(SqlState::CHECK_VIOLATION, message).with_data_type(domain);
            error.with_names(None, None, Some(constraint))
        }
        None => {
            let message = format!("domain {domain} does not allow null values");
            Error::new(SqlState::NOT_NULL_VIOLATION, message).with_data_type(domain)
        }
    }
}

/// How many of the arguments are NULL, or are not.
fn count_nulls(arguments: &[Value], are_null: bool) -> Value {
    let count = arguments.iter().filter(|value| value.is_null() == are_null).count();
    Value::Int4(i32::try_from(count).unwrap_or(i32::MAX))
}

/// `(a, b) = (x, y)` by keys: what rows have in common that are equal column by column; NULL if a column is. The columns are of types that
/// are compared as keys are, each side of the same.
pub const ROW_KEY: &str = "ROW()";

pub(super) static CONDITIONAL: &[FunctionEntry] = &[
    entry!("greatest" (Element) -> Element, Implementation::Many(|a| Ok(outermost(a, Ordering::Greater))))
        .lenient()
        .variadic(),
    entry!("least" (Element) -> Element, Implementation::Many(|a| Ok(outermost(a, Ordering::Less))))
        .lenient()
        .variadic(),
    entry!("num_nulls" (Any) -> Int4, Implementation::Many(|a| Ok(count_nulls(a, true))))
        .lenient()
        .variadic(),
    entry!("num_nonnulls" (Any) -> Int4, Implementation::Many(|a| Ok(count_nulls(a, false))))
        .lenient()
        .variadic(),
    entry!("ROW()" (Any) -> Bytea, Implementation::Many(|a| Ok(Value::Bytea(Key::of(a).as_bytes().into())))).variadic(),
    entry!("nullif" (Element, Element) -> Element, Implementation::Binary(|a, b| {
        let equal = !a.is_null() && !b.is_null() && a.compare(b) == Some(Ordering::Equal);
        Ok(if equal { Value::Null } else { a.clone() })
    }))
    .lenient(),
    // The value, whether the rule holds, the domain, its constraint.
    entry!("rubato_check_domain" (Element, Bool, Text, Text) -> Element, Implementation::Many(check_domain)).lenient(),
];
