//! JSON out of other values: `to_json`, the functions that build documents, and text as documents show values.

use super::argument::{Output, argument, entry, value_at};
use super::{FunctionEntry, Implementation};
use crate::context::EvalContext;
use ecow::EcoString;
use rubato_base::json::{DEPTH_MAX, write_string};
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{Array, DataType, Error, Json, Numeric, Result, SqlState, Value};
use std::sync::Arc;

/// Bytes as text: all that is written is UTF-8.
pub(crate) fn text_value(bytes: Vec<u8>) -> Result<Value> {
    let text = String::from_utf8(bytes).map_err(|_| Error::internal("the text of a document is not UTF-8"))?;
    Ok(Value::Text(EcoString::from(text)))
}

/// A document as a value. 54001 if it nests more deeply than one that is read may.
pub(crate) fn document(json: Json) -> Result<Value> {
    if json.is_deeper_than(DEPTH_MAX) {
        return Err(Error::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            "stack depth limit exceeded",
        ));
    }
    Ok(Value::Jsonb(Arc::new(json)))
}

/// A value of a type as JSON. A text of type `json` must be given as such: it stands as it is.
fn write_json(value: &Value, data_type: DataType, context: &TextContext, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Int2(_) | Value::Int4(_) => write_text(value, data_type, context, out),
        Value::Int8(_) if data_type != DataType::Oid => write_text(value, data_type, context, out),
        Value::Float4(_) | Value::Float8(_) | Value::Numeric(_) if is_finite(value) => {
            write_text(value, data_type, context, out);
        }
        Value::Text(text) if data_type == DataType::Json => out.extend_from_slice(text.as_bytes()),
        Value::Jsonb(json) => json.write(out),
        Value::Array(array) => {
            write_array(array, 0, &mut array.items.iter(), (context, ","), out);
        }
        other => write_string(&shown(other, data_type, context), out),
    }
}

fn is_finite(value: &Value) -> bool {
    match value {
        Value::Float4(number) => number.is_finite(),
        Value::Float8(number) => number.is_finite(),
        Value::Numeric(number) => number.is_finite(),
        _ => true,
    }
}

/// The text of a value that is a string in JSON; times as the standard of dates writes them.
fn shown(value: &Value, data_type: DataType, context: &TextContext) -> String {
    let mut bytes = Vec::new();
    write_text(value, data_type, context, &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match value {
        Value::Timestamp(_) => text.replacen(' ', "T", 1),
        Value::TimestampTz(_) => with_minutes(text.replacen(' ', "T", 1)),
        _ => text,
    }
}

/// The zone of a time with its minutes: `+00` is `+00:00`.
fn with_minutes(text: String) -> String {
    let (time, era) = match text.strip_suffix(" BC") {
        Some(time) => (time, " BC"),
        None => (text.as_str(), ""),
    };
    let zone = time
        .find('T')
        .and_then(|from| Some(from + time[from..].rfind(['+', '-'])?));
    match zone {
        Some(at) if time.len() - at == 3 => format!("{time}:00{era}"),
        _ => text,
    }
}

fn write_array(
    array: &Array,
    level: usize,
    items: &mut std::slice::Iter<'_, Value>,
    (context, delimiter): (&TextContext, &str),
    out: &mut Vec<u8>,
) {
    out.push(b'[');
    let length = array.dimensions().get(level).map_or(0, |dimension| dimension.length);
    for place in 0..length {
        if place > 0 {
            out.extend_from_slice(delimiter.as_bytes());
        }
        if level + 1 < array.dimensions().len() {
            write_array(array, level + 1, items, (context, ","), out);
        } else if let Some(item) = items.next() {
            write_json(item, array.element, context, out);
        }
    }
    out.push(b']');
}

/// A value of a type as a document.
fn to_document(value: &Value, data_type: DataType, context: &TextContext) -> Result<Json> {
    let number = |text: String| Numeric::parse(&text).map(Json::Number);
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int2(_) | Value::Int4(_) => Json::Number(Numeric::from_i64(value.as_i64().unwrap_or(0))),
        Value::Int8(whole) if data_type != DataType::Oid => Json::Number(Numeric::from_i64(*whole)),
        Value::Numeric(number) if number.is_finite() => Json::Number(number.clone()),
        Value::Float4(_) | Value::Float8(_) if is_finite(value) => number(shown(value, data_type, context))?,
        Value::Text(text) if data_type == DataType::Json => Json::parse(text)?,
        Value::Jsonb(json) => Json::clone(json),
        Value::Array(array) => array_document(array, 0, &mut array.items.iter(), context)?,
        other => Json::String(EcoString::from(shown(other, data_type, context))),
    })
}

fn array_document(
    array: &Array,
    level: usize,
    items: &mut std::slice::Iter<'_, Value>,
    context: &TextContext,
) -> Result<Json> {
    let length = array.dimensions().get(level).map_or(0, |dimension| dimension.length);
    let mut documents = Vec::with_capacity(length as usize);
    for _ in 0..length {
        documents.push(if level + 1 < array.dimensions().len() {
            array_document(array, level + 1, items, context)?
        } else {
            to_document(items.next().unwrap_or(&Value::Null), array.element, context)?
        });
    }
    Ok(Json::Array(documents))
}

fn to_json(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let mut out = Vec::new();
    let value = value_at(arguments, 0);
    write_json(value, value.data_type(), context.text, &mut out);
    text_value(out)
}

fn array_to_json(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let array: &Array = argument(arguments, 0)?;
    let delimiter = if flag(arguments, 1) { ",\n " } else { "," };
    let mut out = Vec::new();
    write_array(array, 0, &mut array.items.iter(), (context.text, delimiter), &mut out);
    text_value(out)
}

/// Whether the argument that may be left out is true.
fn flag(arguments: &[Value], index: usize) -> bool {
    matches!(arguments.get(index), Some(Value::Bool(true)))
}

/// The text of an object with a line for each of its pairs.
fn in_lines(document: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(document.len());
    let (mut depth, mut is_quoted, mut is_escaped) = (0, false, false);
    for byte in document.bytes() {
        out.push(byte);
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 1 => out.extend_from_slice(b"\n "),
            _ => {}
        }
    }
    out
}

fn to_jsonb(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let value = value_at(arguments, 0);
    document(to_document(value, value.data_type(), context.text)?)
}

fn parsed(arguments: &[Value]) -> Result<Value> {
    let text: &str = argument(arguments, 0)?;
    document(Json::parse(text)?)
}

/// A value that is `json` already.
fn as_text(value: &Value) -> &str {
    value.as_str().unwrap_or("null")
}

/// A value that is `jsonb` already.
pub(crate) fn as_document(value: &Value) -> Json {
    match value {
        Value::Jsonb(json) => Json::clone(json),
        _ => Json::Null,
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn check_pairs(arguments: &[Value], name: &str) -> Result<()> {
    if arguments.len().is_multiple_of(2) {
        return Ok(());
    }
    Err(
        invalid("argument list must have even number of elements").with_hint(format!(
            "The arguments of {name}() must consist of alternating keys and values."
        )),
    )
}

fn build_json_object(arguments: &[Value]) -> Result<Value> {
    check_pairs(arguments, "json_build_object")?;
    let mut out = vec![b'{'];
    for (place, pair) in arguments.chunks_exact(2).enumerate() {
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        let key = pair[0].as_str().ok_or_else(|| {
            invalid(format!("argument {} cannot be null", 2 * place + 1)).with_hint("Object keys should be text.")
        })?;
        write_string(key, &mut out);
        out.extend_from_slice(b" : ");
        out.extend_from_slice(as_text(&pair[1]).as_bytes());
    }
    out.push(b'}');
    text_value(out)
}

/// A row as a document: names and values in turn, without blanks.
fn build_json_row(arguments: &[Value]) -> Result<Value> {
    let mut out = vec![b'{'];
    for (place, pair) in arguments.chunks_exact(2).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_string(pair[0].as_str().unwrap_or_default(), &mut out);
        out.push(b':');
        out.extend_from_slice(as_text(&pair[1]).as_bytes());
    }
    out.push(b'}');
    text_value(out)
}

fn build_json_array(arguments: &[Value]) -> Result<Value> {
    let items: Vec<&str> = arguments.iter().map(as_text).collect();
    Ok(Value::text(&format!("[{}]", items.join(", "))))
}

fn build_jsonb_object(arguments: &[Value]) -> Result<Value> {
    check_pairs(arguments, "jsonb_build_object")?;
    let pair = |(place, pair): (usize, &[Value])| match pair[0].as_str() {
        Some(key) => Ok((EcoString::from(key), as_document(&pair[1]))),
        None => Err(invalid(format!("argument {}: key must not be null", 2 * place + 1))),
    };
    let pairs = arguments.chunks_exact(2).enumerate().map(pair);
    document(Json::object(pairs.collect::<Result<_>>()?))
}

fn build_jsonb_array(arguments: &[Value]) -> Result<Value> {
    document(Json::Array(arguments.iter().map(as_document).collect()))
}

/// The keys and values that text arrays list: one of pairs, one of alternating keys and values, or two arrays.
fn listed_pairs(arguments: &[Value]) -> Result<Vec<(EcoString, Option<EcoString>)>> {
    let shape = |message: &str| Err(Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
    let first: &Array = argument(arguments, 0)?;
    let flat: Vec<(&Value, &Value)> = if arguments.len() > 1 {
        let second: &Array = argument(arguments, 1)?;
        if first.dimensions().len() > 1 || second.dimensions().len() > 1 {
            return shape("wrong number of array subscripts");
        }
        if first.items.len() != second.items.len() {
            return shape("mismatched array dimensions");
        }
        first.items.iter().zip(&second.items).collect()
    } else {
        match first.dimensions() {
            [] => {}
            [dimension] if dimension.length % 2 == 1 => return shape("array must have even number of elements"),
            [_, inner] if inner.length != 2 => return shape("array must have two columns"),
            [_] | [_, _] => {}
            _ => return shape("wrong number of array subscripts"),
        }
        first.items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect()
    };
    let pair = |(key, value): (&Value, &Value)| match key.as_str() {
        Some(key) => Ok((EcoString::from(key), value.as_str().map(EcoString::from))),
        None => Err(Error::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "null value not allowed for object key",
        )),
    };
    flat.into_iter().map(pair).collect()
}

fn json_object(arguments: &[Value]) -> Result<Value> {
    let mut out = vec![b'{'];
    for (place, (key, value)) in listed_pairs(arguments)?.into_iter().enumerate() {
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        write_string(&key, &mut out);
        out.extend_from_slice(b" : ");
        match value {
            Some(value) => write_string(&value, &mut out),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    text_value(out)
}

fn jsonb_object(arguments: &[Value]) -> Result<Value> {
    let pairs = listed_pairs(arguments)?.into_iter();
    let pairs = pairs.map(|(key, value)| (key, value.map_or(Json::Null, Json::String)));
    document(Json::object(pairs.collect()))
}

pub(super) static JSON_MAKE: &[FunctionEntry] = &[
    entry!("to_json" (Json) -> Json, Implementation::Unary(|a| Ok(a.clone()))),
    entry!("to_json" (Any) -> Json, Implementation::Context(to_json)).stable(),
    entry!("to_jsonb" (Jsonb) -> Jsonb, Implementation::Unary(|a| Ok(a.clone()))),
    entry!("to_jsonb" (Json) -> Jsonb, Implementation::Many(parsed)),
    entry!("to_jsonb" (Any) -> Jsonb, Implementation::Context(to_jsonb)).stable(),
    entry!("array_to_json" (SameArray) -> Json, Implementation::Context(array_to_json)).stable(),
    entry!("array_to_json" (SameArray, Bool) -> Json, Implementation::Context(array_to_json)).stable(),
    entry!("json_row" () -> Json, Implementation::Many(build_json_row)),
    entry!("json_row" (Any) -> Json, Implementation::Many(build_json_row))
        .variadic()
        .lenient(),
    entry!("row_to_json" (Json) -> Json, Implementation::Unary(|a| Ok(a.clone()))),
    entry!("row_to_json" (Json, Bool) -> Json, Implementation::Many(|a| {
        if flag(a, 1) { text_value(in_lines(argument(a, 0)?)) } else { Ok(value_at(a, 0).clone()) }
    })),
    entry!("json_build_object" () -> Json, Implementation::Many(build_json_object)),
    entry!("json_build_object" (Any) -> Json, Implementation::Many(build_json_object))
        .variadic()
        .lenient(),
    entry!("json_build_array" () -> Json, Implementation::Many(build_json_array)),
    entry!("json_build_array" (Any) -> Json, Implementation::Many(build_json_array))
        .variadic()
        .lenient(),
    entry!("jsonb_build_object" () -> Jsonb, Implementation::Many(build_jsonb_object)),
    entry!("jsonb_build_object" (Any) -> Jsonb, Implementation::Many(build_jsonb_object))
        .variadic()
        .lenient(),
    entry!("jsonb_build_array" () -> Jsonb, Implementation::Many(build_jsonb_array)),
    entry!("jsonb_build_array" (Any) -> Jsonb, Implementation::Many(build_jsonb_array))
        .variadic()
        .lenient(),
    entry!("json_object" (TextArray) -> Json, Implementation::Many(json_object)),
    entry!("json_object" (TextArray, TextArray) -> Json, Implementation::Many(json_object)),
    entry!("jsonb_object" (TextArray) -> Jsonb, Implementation::Many(|a| jsonb_object(a)?.output())),
    entry!("jsonb_object" (TextArray, TextArray) -> Jsonb, Implementation::Many(|a| jsonb_object(a)?.output())),
];
