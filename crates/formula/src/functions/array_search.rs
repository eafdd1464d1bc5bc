//! Arrays: what is in them.

use super::argument::{Output, argument, entry, typed, value_at};
use super::array::array_or_null;
use super::{FunctionEntry, Implementation};
use rubato_base::array::Dimensions;
use rubato_base::{Array, DataType, Error, Result, SqlState, Value};
use std::cmp::Ordering;

fn is_equal(left: &Value, right: &Value) -> bool {
    left.compare(right) == Some(Ordering::Equal)
}

/// Whether every element of `part` is in `whole`; NULL is in nothing.
fn contains(whole: &Array, part: &Array) -> bool {
    part.items
        .iter()
        .all(|item| whole.items.iter().any(|own| is_equal(own, item)))
}

fn overlaps(left: &Array, right: &Array) -> bool {
    left.items
        .iter()
        .any(|item| right.items.iter().any(|other| is_equal(item, other)))
}

fn refuse_dimensions(array: &Array, what: &str) -> Result<()> {
    if array.dimensions().len() <= 1 {
        return Ok(());
    }
    let message = format!("{what} elements in multidimensional arrays is not supported");
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

fn removed(array: &Value, value: &Value) -> Result<Value> {
    let Some(array) = array_or_null(array)? else {
        return Ok(Value::Null);
    };
    if array.dimensions().len() > 1 {
        let message = "removing elements from multidimensional arrays is not supported";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let kept: Vec<Value> = array.items.iter().filter(|item| *item != value).cloned().collect();
    let mut dimensions = Dimensions::from_slice(array.dimensions());
    dimensions
        .iter_mut()
        .for_each(|dimension| dimension.length = kept.len() as u32);
    Array::shaped(array.element, kept, dimensions)?.output()
}

fn replaced(arguments: &[Value]) -> Result<Value> {
    let [array, from, to] = arguments else {
        return Err(Error::internal("array_replace takes three arguments"));
    };
    let Some(array) = array_or_null(array)? else {
        return Ok(Value::Null);
    };
    let replace = |item: &Value| if item == from { to.clone() } else { item.clone() };
    array
        .with_items(array.element, array.items.iter().map(replace).collect())
        .output()
}

/// The subscripts of the elements equal to the value, NULL to NULL, from a subscript on.
fn positions<'a>(array: &'a Array, value: &'a Value, from: Option<i32>) -> impl Iterator<Item = i32> + 'a {
    let lower = array.dimensions().first().map_or(1, |dimension| dimension.lower);
    let places = array.items.iter().enumerate().filter(move |(_, item)| *item == value);
    let places = places.map(move |(place, _)| lower.saturating_add(place as i32));
    places.filter(move |place| from.is_none_or(|from| *place >= from))
}

fn position(arguments: &[Value]) -> Result<Value> {
    let Some(array) = array_or_null(value_at(arguments, 0))? else {
        return Ok(Value::Null);
    };
    refuse_dimensions(array, "searching for")?;
    let from = match arguments.get(2) {
        None => None,
        Some(Value::Null) => {
            let message = "initial position must not be null";
            return Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        Some(_) => Some(argument::<i32>(arguments, 2)?),
    };
    positions(array, value_at(arguments, 1), from).next().output()
}

fn all_positions(array: &Value, value: &Value) -> Result<Value> {
    let Some(array) = array_or_null(array)? else {
        return Ok(Value::Null);
    };
    refuse_dimensions(array, "searching for")?;
    let places = positions(array, value, None).map(Value::Int4).collect();
    Array::new(DataType::Int4, places).output()
}

/// How many of the thresholds, which are in order, the operand has reached. 22004 for NULL among them.
fn width_bucket(arguments: &[Value]) -> Result<Value> {
    let (operand, thresholds): (&Value, &Array) = (argument(arguments, 0)?, argument(arguments, 1)?);
    if thresholds.dimensions().len() > 1 {
        let message = "thresholds must be one-dimensional array";
        return Err(Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
    }
    if thresholds.items.iter().any(Value::is_null) {
        let message = "thresholds array must not contain NULLs";
        return Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    }
    let reached = thresholds
        .items
        .partition_point(|threshold| threshold.order(operand).is_le());
    Ok(Value::Int4(reached as i32))
}

pub(super) static ARRAY_SEARCH: &[FunctionEntry] = &[
    entry!("width_bucket" (Element, Array) -> Int4, Implementation::Many(width_bucket)),
    entry!("@>" (SameArray, SameArray) -> Bool, typed!(|a: &Array, b: &Array| contains(a, b))),
    entry!("<@" (SameArray, SameArray) -> Bool, typed!(|a: &Array, b: &Array| contains(b, a))),
    entry!("&&" (SameArray, SameArray) -> Bool, typed!(|a: &Array, b: &Array| overlaps(a, b))),
    entry!("arraycontains" (SameArray, SameArray) -> Bool, typed!(|a: &Array, b: &Array| contains(a, b))),
    entry!("arraycontained" (SameArray, SameArray) -> Bool, typed!(|a: &Array, b: &Array| contains(b, a))),
    entry!("arrayoverlap" (SameArray, SameArray) -> Bool, typed!(|a: &Array, b: &Array| overlaps(a, b))),
    entry!("array_remove" (Array, Element) -> Array, Implementation::Binary(removed)).lenient(),
    entry!("array_replace" (Array, Element, Element) -> Array, Implementation::Many(replaced)).lenient(),
    entry!("array_position" (Array, Element) -> Int4, Implementation::Many(position)).lenient(),
    entry!("array_position" (Array, Element, Int4) -> Int4, Implementation::Many(position)).lenient(),
    entry!("array_positions" (Array, Element) -> Int4Array, Implementation::Binary(all_positions)).lenient(),
];
