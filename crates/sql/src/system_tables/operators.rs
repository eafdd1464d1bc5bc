//! `regoper` and `regoperator`: operators by their symbols, with or without the types of their sides.

use super::View;
use super::names::{found, found_by_name, found_by_number, type_name, type_number};
use crate::binder::name_of_text;
use rubato_base::{Error, Result, SqlState, Value};

const OPERATORS: &str = "pg_catalog.pg_operator";
/// The places of an operator's symbol and of the types of its sides in `pg_operator`.
const SYMBOL: usize = 1;
const SIDES: [usize; 2] = [7, 8];

fn named(symbol: &str, view: &View<'_>) -> Vec<Vec<Value>> {
    found(OPERATORS, "oprname", &Value::text(symbol), view)
}

/// Those of a symbol that may have a schema before it. 3F000 if that is not there.
fn named_in_schema(text: &str, view: &View<'_>) -> Result<Vec<Vec<Value>>> {
    let text = text.trim();
    let (schema, symbol) = text.rsplit_once('.').unwrap_or(("", text));
    let mut path = match schema {
        "" => Vec::new(),
        schema => name_of_text(schema)?,
    };
    path.push(symbol.to_owned());
    found_by_name(OPERATORS, "oprname", &path, view)
}

fn number_at(row: &[Value], place: usize) -> i64 {
    row.get(place).and_then(Value::as_i64).unwrap_or(0)
}

fn symbol_at(row: &[Value]) -> String {
    row.get(SYMBOL).and_then(Value::as_str).unwrap_or("").to_owned()
}

fn missing(text: &str) -> Error {
    let message = format!("operator does not exist: {text}");
    Error::new(SqlState::UNDEFINED_FUNCTION, message)
}

/// The number of the only operator of a symbol. 42725 if there are several.
pub(super) fn operator_number(text: &str, view: &View<'_>) -> Result<i64> {
    match &named_in_schema(text, view)?[..] {
        [] => Err(missing(text)),
        [row] => Ok(number_at(row, 0)),
        _ => {
            let message = format!("more than one operator named {text}");
            Err(Error::new(SqlState::AMBIGUOUS_FUNCTION, message))
        }
    }
}

/// The number of `symbol(left,right)`.
pub(super) fn operator_with_sides_number(text: &str, view: &View<'_>) -> Result<i64> {
    let invalid = |what: &str| Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what);
    let (symbol, rest) = text
        .split_once('(')
        .ok_or_else(|| invalid("expected a left parenthesis"))?;
    let sides = rest.trim_end().strip_suffix(')');
    let sides = sides.ok_or_else(|| invalid("expected a right parenthesis"))?;
    let wanted: Vec<i64> = sides.split(',').map(side_number).collect::<Result<_>>()?;
    match wanted.len() {
        1 => {
            let hint = "Use NONE to denote the missing argument of a unary operator.";
            return Err(Error::new(SqlState::UNDEFINED_PARAMETER, "missing argument").with_hint(hint));
        }
        2 => {}
        _ => {
            let error = Error::new(SqlState::TOO_MANY_ARGUMENTS, "too many arguments");
            return Err(error.with_hint("Provide two argument types for operator."));
        }
    }
    let rows = named_in_schema(symbol, view)?;
    let row = rows
        .iter()
        .find(|row| SIDES.map(|place| number_at(row, place)) == wanted[..]);
    row.map(|row| number_at(row, 0)).ok_or_else(|| missing(text))
}

fn side_number(text: &str) -> Result<i64> {
    match text.trim() {
        none if none.eq_ignore_ascii_case("none") => Ok(0),
        name => type_number(name),
    }
}

/// The symbol of an operator, with its schema where others have it too.
pub(super) fn operator_name(number: i64, view: &View<'_>) -> Option<String> {
    let symbol = symbol_at(&found_by_number(OPERATORS, number, view)?);
    match named(&symbol, view).len() {
        1 => Some(symbol),
        _ => Some(format!("pg_catalog.{symbol}")),
    }
}

/// An operator with the types of its sides.
pub(super) fn operator_with_sides_name(number: i64, view: &View<'_>) -> Option<String> {
    let row = found_by_number(OPERATORS, number, view)?;
    let sides = SIDES.map(|place| match number_at(&row, place) {
        0 => "NONE".to_owned(),
        number => type_name(number, -1),
    });
    Some(format!("{}({})", symbol_at(&row), sides.join(",")))
}
