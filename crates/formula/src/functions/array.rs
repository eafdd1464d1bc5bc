//! Arrays: how they are made, taken apart and joined.

use super::argument::{Argument, Output, argument, entry, typed, value_at, values_from, wrong_type};
use super::{FunctionEntry, Implementation};
use crate::context::EvalContext;
use ecow::EcoString;
use rubato_base::array::{Dimension, Dimensions};
use rubato_base::{Array, DataType, Error, Result, SqlState, Value};
use std::sync::Arc;

/// `ARRAY[a, b]`: an empty array that says what the elements are of, and the elements.
pub const ARRAY_OF: &str = "ARRAY[]";
/// `ARRAY[a, b]` where the elements are arrays: one dimension more. The first argument is as in [`ARRAY_OF`].
pub const ARRAY_OF_ARRAYS: &str = "ARRAY[][]";
/// `a[1][2]`
pub const ELEMENT_AT: &str = "[]";
/// `a[1:2]`: the array and both bounds of each dimension; one that was not written is `false`.
pub const SLICE: &str = "[:]";
/// `SET a[1] = value`: the array, the value, and the subscripts.
pub const WITH_ELEMENT: &str = "[]=";

impl<'a> Argument<'a> for &'a Array {
    fn take(value: &'a Value) -> Result<Self> {
        match value {
            Value::Array(array) => Ok(array),
            other => Err(wrong_type(other, "an array")),
        }
    }
}

impl Output for Array {
    fn output(self) -> Result<Value> {
        Ok(Value::Array(Arc::new(self)))
    }
}

pub(super) fn invalid_subscript(message: impl Into<String>) -> Error {
    Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

/// An array or NULL.
pub(super) fn array_or_null(value: &Value) -> Result<Option<&Array>> {
    match value {
        Value::Null => Ok(None),
        other => <&Array>::take(other).map(Some),
    }
}

/// The type of arrays that hold a value, where nothing else says it.
fn element_of(value: &Value) -> DataType {
    match value.data_type() {
        DataType::Unknown => DataType::Text,
        known => known,
    }
}

/// Adds an element at one end of an array, which NULL and an empty one begin.
fn extended(array: &Value, value: &Value, at_start: bool) -> Result<Array> {
    let Some(array) = array_or_null(array)? else {
        return Ok(Array::new(element_of(value), vec![value.clone()]));
    };
    let mut items = Vec::with_capacity(array.items.len() + 1);
    items.extend(at_start.then(|| value.clone()));
    items.extend_from_slice(&array.items);
    items.extend((!at_start).then(|| value.clone()));
    match array.dimensions() {
        [] => Ok(Array::new(array.element, items)),
        [dimension] => {
            let dimension = Dimension {
                length: dimension.length + 1,
                lower: dimension.lower,
            };
            Array::shaped(array.element, items, Dimensions::from_slice(&[dimension]))
        }
        _ => Err(Error::new(
            SqlState(*b"22000"),
            "argument must be empty or one-dimensional array",
        )),
    }
}

/// Two arrays one behind the other; an array of a dimension less is an element of the other.
fn joined(left: &Value, right: &Value) -> Result<Value> {
    let (Some(first), Some(second)) = (array_or_null(left)?, array_or_null(right)?) else {
        return Ok(if left.is_null() { right.clone() } else { left.clone() });
    };
    let (own, other) = (first.dimensions(), second.dimensions());
    if own.is_empty() {
        return Ok(right.clone());
    }
    if other.is_empty() {
        return Ok(left.clone());
    }
    let lengths = |dimensions: &[Dimension]| dimensions.iter().map(|one| one.length).collect::<Vec<_>>();
    let incompatible =
        |detail: String| Err(invalid_subscript("cannot concatenate incompatible arrays").with_detail(detail));
    let mut dimensions;
    if own.len() == other.len() {
        if lengths(&own[1..]) != lengths(&other[1..]) {
            return incompatible(
                "Arrays with differing element dimensions are not compatible for concatenation.".to_owned(),
            );
        }
        dimensions = Dimensions::from_slice(own);
        dimensions[0].length += other[0].length;
    } else {
        let (longer, shorter) = if own.len() > other.len() {
            (own, other)
        } else {
            (other, own)
        };
        if longer.len() != shorter.len() + 1 {
            return incompatible(format!(
                "Arrays of {} and {} dimensions are not compatible for concatenation.",
                own.len(),
                other.len()
            ));
        }
        if lengths(&longer[1..]) != lengths(shorter) {
            return incompatible("Arrays with differing dimensions are not compatible for concatenation.".to_owned());
        }
        dimensions = Dimensions::from_slice(longer);
        dimensions[0].length += 1;
    }
    let items = [first.items.as_slice(), second.items.as_slice()].concat();
    Array::shaped(first.element, items, dimensions)?.output()
}

/// The array that `ARRAY[...]` makes: `kind` says what of.
fn array_of(arguments: &[Value]) -> Result<Value> {
    let kind: &Array = argument(arguments, 0)?;
    Array::new(kind.element, values_from(arguments, 1).to_vec()).output()
}

/// An array of arrays, which must be of the same dimensions; empty and missing ones only among themselves.
pub(crate) fn array_of_arrays(element: DataType, arrays: &[Value]) -> Result<Value> {
    let mismatch = || invalid_subscript("multidimensional arrays must have array expressions with matching dimensions");
    let mut items = Vec::new();
    let mut inner: Option<&[Dimension]> = None;
    for array in arrays {
        let array = array_or_null(array)?;
        let dimensions = array.map_or(&[][..], Array::dimensions);
        if *inner.get_or_insert(dimensions) != dimensions {
            return Err(mismatch());
        }
        items.extend(array.into_iter().flat_map(|array| array.items.iter().cloned()));
    }
    if items.is_empty() {
        return Array::new(element, items).output();
    }
    let mut dimensions = Dimensions::from_slice(&[Dimension::of(arrays.len())]);
    dimensions.extend_from_slice(inner.unwrap_or_default());
    Array::shaped(element, items, dimensions)?.output()
}

fn subscripts(arguments: &[Value]) -> Option<Vec<i64>> {
    arguments.iter().map(Value::as_i64).collect()
}

fn element_at(arguments: &[Value]) -> Result<Value> {
    let array: &Array = argument(arguments, 0)?;
    let places = subscripts(values_from(arguments, 1)).unwrap_or_default();
    Ok(array.get(&places).cloned().unwrap_or_default())
}

fn slice(arguments: &[Value]) -> Result<Array> {
    let array: &Array = argument(arguments, 0)?;
    let bounds: Vec<_> = values_from(arguments, 1)
        .chunks(2)
        .map(|pair| (pair[0].as_i64(), pair.get(1).and_then(Value::as_i64)))
        .collect();
    Ok(array.slice(&bounds))
}

fn with_element(arguments: &[Value]) -> Result<Array> {
    let [array, value, places @ ..] = arguments else {
        return Err(Error::internal("an element is set in no array"));
    };
    let Some(places) = subscripts(places) else {
        let message = "array subscript in assignment must not be null";
        return Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    };
    let nothing = Array::new(element_of(value), Vec::new());
    array_or_null(array)?
        .unwrap_or(&nothing)
        .with_element(&places, value.clone())
}

fn dimension(array: &Array, number: i32) -> Option<Dimension> {
    let place = usize::try_from(number).ok()?.checked_sub(1)?;
    array.dimensions().get(place).copied()
}

fn dimensions_text(array: &Array) -> Option<EcoString> {
    let bounds = |dimension: &Dimension| format!("[{}:{}]", dimension.lower, dimension.upper());
    let text = array.dimensions().iter().map(bounds).collect::<String>();
    (!text.is_empty()).then(|| EcoString::from(text))
}

/// The parts of a text between delimiters; its letters if there is none, and no part of an empty text.
pub(crate) fn text_parts(text: &str, delimiter: Option<&str>, null: Option<&str>) -> Vec<Value> {
    let part = |part: &str| match null {
        Some(null) if null == part => Value::Null,
        _ => Value::text(part),
    };
    match delimiter {
        _ if text.is_empty() => Vec::new(),
        None => text
            .char_indices()
            .map(|(at, letter)| part(&text[at..at + letter.len_utf8()]))
            .collect(),
        Some("") => vec![part(text)],
        Some(delimiter) => text.split(delimiter).map(part).collect(),
    }
}

fn string_to_array(arguments: &[Value]) -> Result<Value> {
    let Some(text) = arguments.first().and_then(Value::as_str) else {
        return Ok(Value::Null);
    };
    let given = |index: usize| arguments.get(index).and_then(Value::as_str);
    Array::new(DataType::Text, text_parts(text, given(1), given(2))).output()
}

fn array_to_string(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (Some(array), Some(delimiter)) = (
        arguments.first().map(array_or_null).transpose()?.flatten(),
        arguments.get(1).and_then(Value::as_str),
    ) else {
        return Ok(Value::Null);
    };
    let null = arguments.get(2).and_then(Value::as_str);
    let mut text = EcoString::new();
    let mut is_first = true;
    for item in &array.items {
        let shown = match (item, null) {
            (Value::Null, None) => continue,
            (Value::Null, Some(null)) => EcoString::from(null),
            (item, _) => output_text(item, array.element, context)?,
        };
        if !std::mem::take(&mut is_first) {
            text.push_str(delimiter);
        }
        text.push_str(&shown);
    }
    Ok(Value::Text(text))
}

/// What a client would see; a truth value is a letter.
fn output_text(value: &Value, data_type: DataType, context: &EvalContext<'_>) -> Result<EcoString> {
    match value {
        Value::Bool(truth) => Ok(EcoString::from(if *truth { "t" } else { "f" })),
        _ => crate::cast::text_of(value, data_type, context.text),
    }
}

fn array_fill(arguments: &[Value]) -> Result<Value> {
    let missing = |message: &str| Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message);
    let value = arguments.first().cloned().unwrap_or_default();
    let numbers = |index: usize, what: &str| {
        let array = array_or_null(value_at(arguments, index))?
            .ok_or_else(|| missing("dimension array or low bound array cannot be null"))?;
        if array.dimensions().len() > 1 {
            let detail = format!("{what} array must be one dimensional.");
            return Err(invalid_subscript("wrong number of array subscripts").with_detail(detail));
        }
        subscripts(&array.items).ok_or_else(|| missing("dimension values cannot be null"))
    };
    let lengths = numbers(1, "Dimension")?;
    let lowers = match arguments.len() {
        3.. => numbers(2, "Low bound")?,
        _ => vec![1; lengths.len()],
    };
    if lowers.len() != lengths.len() {
        let detail = "Low bound array has different size than dimensions array.";
        return Err(invalid_subscript("wrong number of array subscripts").with_detail(detail));
    }
    let dimension = |(length, lower): (&i64, &i64)| Dimension {
        length: u32::try_from(*length).unwrap_or(0),
        lower: *lower as i32,
    };
    let dimensions: Dimensions = lengths.iter().zip(&lowers).map(dimension).collect();
    let wanted = dimensions
        .iter()
        .try_fold(1_usize, |count, dimension| count.checked_mul(dimension.length as usize))
        .unwrap_or(usize::MAX);
    let count = if dimensions.is_empty() { 0 } else { wanted };
    let bytes = count.saturating_mul(size_of::<Value>() + value.heap_bytes());
    if bytes > FILLED_BYTES_MAX {
        let message = format!("array size exceeds the maximum allowed ({FILLED_BYTES_MAX} bytes)");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let element = element_of(&value);
    Array::shaped(element, vec![value; count], dimensions)?.output()
}

/// Most bytes of an array that is made of one value.
const FILLED_BYTES_MAX: usize = 1 << 28;

fn trimmed(array: &Array, count: i32) -> Result<Array> {
    let length = array.dimensions().first().map_or(0, |dimension| dimension.length);
    let kept = u32::try_from(count).ok().and_then(|count| length.checked_sub(count));
    let Some(kept) = kept else {
        let message = format!("number of elements to trim must be between 0 and {length}");
        return Err(invalid_subscript(message));
    };
    if count == 0 {
        return Ok(array.clone());
    }
    let last = array
        .dimensions()
        .first()
        .map(|dimension| i64::from(dimension.lower) + i64::from(kept) - 1);
    Ok(array.slice(&[(None, last)]))
}

pub(super) static ARRAY: &[FunctionEntry] = &[
    entry!("ARRAY[]" (SameArray, Element) -> SameArray, Implementation::Many(array_of))
        .lenient()
        .variadic(),
    entry!("ARRAY[][]" (SameArray, SameArray) -> SameArray, Implementation::Many(|a| {
        let kind: &Array = argument(a, 0)?;
        array_of_arrays(kind.element, values_from(a, 1))
    }))
    .lenient()
    .variadic(),
    entry!("[]" (SameArray, Int4) -> Element, Implementation::Many(element_at)).variadic(),
    entry!("[:]" (SameArray, Any) -> SameArray, Implementation::Many(|a| slice(a)?.output())).variadic(),
    entry!("[]=" (SameArray, Element, Int4) -> SameArray, Implementation::Many(|a| with_element(a)?.output()))
        .lenient()
        .variadic(),
    entry!("||" (Array, Element) -> Array, Implementation::Binary(|a, b| extended(a, b, false)?.output())).lenient(),
    entry!("||" (Element, Array) -> Array, Implementation::Binary(|a, b| extended(b, a, true)?.output())).lenient(),
    entry!("||" (Array, Array) -> Array, Implementation::Binary(joined)).lenient(),
    entry!("array_append" (Array, Element) -> Array, Implementation::Binary(|a, b| extended(a, b, false)?.output()))
        .lenient(),
    entry!("array_prepend" (Element, Array) -> Array, Implementation::Binary(|a, b| extended(b, a, true)?.output()))
        .lenient(),
    entry!("array_cat" (Array, Array) -> Array, Implementation::Binary(joined)).lenient(),
    entry!("array_ndims" (SameArray) -> Int4, typed!(|a: &Array| {
        let count = a.dimensions().len() as i32;
        (count > 0).then_some(count)
    })),
    entry!("array_dims" (SameArray) -> Text, typed!(|a: &Array| dimensions_text(a))),
    entry!("array_length" (SameArray, Int4) -> Int4, typed!(|a: &Array, number: i32| {
        dimension(a, number).map(|dimension| dimension.length as i32)
    })),
    entry!("array_lower" (SameArray, Int4) -> Int4, typed!(|a: &Array, number: i32| {
        dimension(a, number).map(|dimension| dimension.lower)
    })),
    entry!("array_upper" (SameArray, Int4) -> Int4, typed!(|a: &Array, number: i32| {
        dimension(a, number).map(|dimension| dimension.upper() as i32)
    })),
    entry!("cardinality" (SameArray) -> Int4, typed!(|a: &Array| a.items.len() as i32)),
    entry!("array_fill" (Element, Int4Array) -> SameArray, Implementation::Many(array_fill)).lenient(),
    entry!("array_fill" (Element, Int4Array, Int4Array) -> SameArray, Implementation::Many(array_fill)).lenient(),
    entry!("trim_array" (SameArray, Int4) -> SameArray, typed!(|a: &Array, count: i32| trimmed(a, count))),
    entry!("string_to_array" (Text, Text) -> TextArray, Implementation::Many(string_to_array)).lenient(),
    entry!("string_to_array" (Text, Text, Text) -> TextArray, Implementation::Many(string_to_array)).lenient(),
    entry!("array_to_string" (SameArray, Text) -> Text, Implementation::Context(array_to_string)).stable(),
    entry!("array_to_string" (SameArray, Text, Text) -> Text, Implementation::Context(array_to_string))
        .stable()
        .lenient(),
];
