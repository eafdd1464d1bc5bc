//! GREATEST, LEAST and NULLIF, which take any type.

use super::FunctionEntry;
use super::Implementation;
use super::argument::entry;
use rubato_base::Value;
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

pub(super) static CONDITIONAL: &[FunctionEntry] = &[
    entry!("greatest" (Element) -> Element, Implementation::Many(|a| Ok(outermost(a, Ordering::Greater))))
        .lenient()
        .variadic(),
    entry!("least" (Element) -> Element, Implementation::Many(|a| Ok(outermost(a, Ordering::Less))))
        .lenient()
        .variadic(),
    entry!("nullif" (Element, Element) -> Element, Implementation::Binary(|a, b| {
        let equal = !a.is_null() && !b.is_null() && a.compare(b) == Some(Ordering::Equal);
        Ok(if equal { Value::Null } else { a.clone() })
    }))
    .lenient(),
];
