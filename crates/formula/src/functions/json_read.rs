//! What is in documents: `->` and its kin, for `json` by its text and for `jsonb` as it is.

use super::argument::{Argument, Output, argument, entry, typed, values_from, wrong_type};
use super::{FunctionEntry, Implementation};
use ecow::EcoString;
use rubato_base::json::{Node, NodeKind, place_of, write_string};
use rubato_base::{Array, Error, Json, Result, SqlState, Value};
use std::sync::Arc;

impl<'a> Argument<'a> for &'a Json {
    fn take(value: &'a Value) -> Result<Self> {
        match value {
            Value::Jsonb(json) => Ok(json),
            other => Err(wrong_type(other, "jsonb")),
        }
    }
}

impl Output for &Json {
    fn output(self) -> Result<Value> {
        Ok(Value::Jsonb(Arc::new(self.clone())))
    }
}

/// One step into a document.
enum Step<'a> {
    Key(&'a str),
    Place(i64),
    /// A key of an object or the number of an array's element, whichever it meets.
    Either(&'a str),
}

impl Step<'_> {
    fn of_document<'j>(&self, json: &'j Json) -> Option<&'j Json> {
        match self {
            Step::Key(key) => json.field(key),
            Step::Place(place) => json.item(*place),
            Step::Either(step) => json.step(step),
        }
    }

    fn of_node<'n>(&self, node: &'n Node) -> Option<&'n Node> {
        match (&node.kind, self) {
            // Of equal keys the last one counts.
            (NodeKind::Object(pairs), Step::Key(key) | Step::Either(key)) => {
                pairs.iter().rev().find(|(own, _)| own == key).map(|(_, value)| value)
            }
            (NodeKind::Array(items), step) => {
                let place = match step {
                    Step::Key(_) => return None,
                    Step::Place(place) => *place,
                    Step::Either(step) => step.trim().parse::<i32>().ok()?.into(),
                };
                items.get(place_of(place, items.len())?)
            }
            _ => None,
        }
    }
}

/// What stands at the end of the steps in a `json`: its text, or with `as_text` the string that it is.
fn text_at(text: &str, steps: &[Step<'_>], as_text: bool) -> Result<Option<EcoString>> {
    let root = Node::parse(text)?;
    let found = steps.iter().try_fold(&root, |node, step| step.of_node(node));
    Ok(found.and_then(|node| node_text(text, node, as_text)))
}

/// The text of a part of a `json`; with `as_text` the string that it is, and nothing for null.
pub(crate) fn node_text(text: &str, node: &Node, as_text: bool) -> Option<EcoString> {
    match &node.kind {
        NodeKind::Null if as_text => None,
        NodeKind::String(string) if as_text => Some(string.clone()),
        _ => Some(EcoString::from(&text[node.start..node.end])),
    }
}

fn document_at<'j>(json: &'j Json, steps: &[Step<'_>]) -> Option<&'j Json> {
    steps.iter().try_fold(json, |json, step| step.of_document(json))
}

/// The steps that a path lists; `None` with a NULL among them.
fn steps(path: &[Value]) -> Option<Vec<Step<'_>>> {
    path.iter().map(|step| step.as_str().map(Step::Either)).collect()
}

fn json_path(text: &str, path: &[Value], as_text: bool) -> Result<Option<EcoString>> {
    match steps(path) {
        Some(steps) => text_at(text, &steps, as_text),
        None => Ok(None),
    }
}

fn jsonb_path<'j>(json: &'j Json, path: &[Value]) -> Option<&'j Json> {
    document_at(json, &steps(path)?)
}

/// An element of an array. A document that is no array and no object is the only element of one, as it is for PostgreSQL (which keeps it
/// so).
fn element(json: &Json, place: i32) -> Option<&Json> {
    match json {
        Json::Array(_) | Json::Object(_) => json.item(place.into()),
        scalar => matches!(place, 0 | -1).then_some(scalar),
    }
}

/// Whether the document has the key, or is or has the string.
fn has_key(json: &Json, key: &str) -> bool {
    let is_key = |json: &Json| matches!(json, Json::String(string) if string == key);
    match json {
        Json::Object(_) => json.field(key).is_some(),
        Json::Array(items) => items.iter().any(is_key),
        other => is_key(other),
    }
}

fn keys_of(array: &Array) -> impl Iterator<Item = &str> {
    array.items.iter().filter_map(Value::as_str)
}

fn no_array(kind: &str, what: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("cannot {what} of {kind}"))
}

fn json_length(text: &str) -> Result<i32> {
    match Node::parse(text)?.kind {
        NodeKind::Array(items) => Ok(items.len() as i32),
        NodeKind::Object(_) => Err(no_array("a non-array", "get array length")),
        _ => Err(no_array("a scalar", "get array length")),
    }
}

fn jsonb_length(json: &Json) -> Result<i32> {
    match json {
        Json::Array(items) => Ok(items.len() as i32),
        Json::Object(_) => Err(no_array("a non-array", "get array length")),
        _ => Err(no_array("a scalar", "get array length")),
    }
}

fn json_type(text: &str) -> Result<&'static str> {
    Ok(match Node::parse(text)?.kind {
        NodeKind::Null => "null",
        NodeKind::Bool(_) => "boolean",
        NodeKind::Number => "number",
        NodeKind::String(_) => "string",
        NodeKind::Array(_) => "array",
        NodeKind::Object(_) => "object",
    })
}

/// The text of a part without the fields that are null, and without blanks.
fn write_stripped(text: &str, node: &Node, out: &mut Vec<u8>) {
    match &node.kind {
        NodeKind::String(string) => write_string(string, out),
        NodeKind::Array(items) => {
            out.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_stripped(text, item, out);
            }
            out.push(b']');
        }
        NodeKind::Object(pairs) => {
            out.push(b'{');
            let kept = pairs.iter().filter(|(_, value)| !matches!(value.kind, NodeKind::Null));
            for (place, (key, value)) in kept.enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write_stripped(text, value, out);
            }
            out.push(b'}');
        }
        _ => out.extend_from_slice(&text.as_bytes()[node.start..node.end]),
    }
}

fn stripped(json: &Json) -> Json {
    match json {
        Json::Array(items) => Json::Array(items.iter().map(stripped).collect()),
        Json::Object(pairs) => {
            let kept = pairs.iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(key, value)| (key.clone(), stripped(value))).collect())
        }
        other => other.clone(),
    }
}

fn pretty(json: &Json) -> Result<Value> {
    let mut out = Vec::new();
    json.write_pretty(0, &mut out);
    super::json_make::text_value(out)
}

pub(super) static JSON_READ: &[FunctionEntry] = &[
    entry!("->" (Json, Text) -> Json, typed!(|a: &str, key: &str| text_at(a, &[Step::Key(key)], false))),
    entry!("->" (Json, Int4) -> Json, typed!(|a: &str, place: i32| text_at(a, &[Step::Place(place.into())], false))),
    entry!("->>" (Json, Text) -> Text, typed!(|a: &str, key: &str| text_at(a, &[Step::Key(key)], true))),
    entry!("->>" (Json, Int4) -> Text, typed!(|a: &str, place: i32| text_at(a, &[Step::Place(place.into())], true))),
    entry!("#>" (Json, TextArray) -> Json, typed!(|a: &str, path: &Array| json_path(a, &path.items, false))),
    entry!("#>>" (Json, TextArray) -> Text, typed!(|a: &str, path: &Array| json_path(a, &path.items, true))),
    entry!("->" (Jsonb, Text) -> Jsonb, typed!(|a: &Json, key: &str| a.field(key))),
    entry!("->" (Jsonb, Int4) -> Jsonb, typed!(|a: &Json, place: i32| element(a, place))),
    entry!("->>" (Jsonb, Text) -> Text, typed!(|a: &Json, key: &str| a.field(key).and_then(Json::as_text))),
    entry!("->>" (Jsonb, Int4) -> Text, typed!(|a: &Json, place: i32| element(a, place).and_then(Json::as_text))),
    entry!("#>" (Jsonb, TextArray) -> Jsonb, typed!(|a: &Json, path: &Array| jsonb_path(a, &path.items))),
    entry!("#>>" (Jsonb, TextArray) -> Text, typed!(|a: &Json, path: &Array| {
        jsonb_path(a, &path.items).and_then(Json::as_text)
    })),
    entry!("json_extract_path" (Json, Text) -> Json, Implementation::Many(|a| {
        json_path(argument(a, 0)?, values_from(a, 1), false)?.output()
    }))
    .variadic(),
    entry!("json_extract_path_text" (Json, Text) -> Text, Implementation::Many(|a| {
        json_path(argument(a, 0)?, values_from(a, 1), true)?.output()
    }))
    .variadic(),
    entry!("jsonb_extract_path" (Jsonb, Text) -> Jsonb, Implementation::Many(|a| {
        jsonb_path(argument(a, 0)?, values_from(a, 1)).output()
    }))
    .variadic(),
    entry!("jsonb_extract_path_text" (Jsonb, Text) -> Text, Implementation::Many(|a| {
        jsonb_path(argument(a, 0)?, values_from(a, 1)).and_then(Json::as_text).output()
    }))
    .variadic(),
    entry!("@>" (Jsonb, Jsonb) -> Bool, typed!(|a: &Json, b: &Json| a.contains(b))),
    entry!("<@" (Jsonb, Jsonb) -> Bool, typed!(|a: &Json, b: &Json| b.contains(a))),
    entry!("?" (Jsonb, Text) -> Bool, typed!(|a: &Json, key: &str| has_key(a, key))),
    entry!("?|" (Jsonb, TextArray) -> Bool, typed!(|a: &Json, keys: &Array| keys_of(keys).any(|key| has_key(a, key)))),
    entry!("?&" (Jsonb, TextArray) -> Bool, typed!(|a: &Json, keys: &Array| keys_of(keys).all(|key| has_key(a, key)))),
    entry!("jsonb_contains" (Jsonb, Jsonb) -> Bool, typed!(|a: &Json, b: &Json| a.contains(b))),
    entry!("jsonb_contained" (Jsonb, Jsonb) -> Bool, typed!(|a: &Json, b: &Json| b.contains(a))),
    entry!("jsonb_exists" (Jsonb, Text) -> Bool, typed!(|a: &Json, key: &str| has_key(a, key))),
    entry!("jsonb_exists_any" (Jsonb, TextArray) -> Bool, typed!(|a: &Json, keys: &Array| {
        keys_of(keys).any(|key| has_key(a, key))
    })),
    entry!("jsonb_exists_all" (Jsonb, TextArray) -> Bool, typed!(|a: &Json, keys: &Array| {
        keys_of(keys).all(|key| has_key(a, key))
    })),
    entry!("json_object_field" (Json, Text) -> Json, typed!(|a: &str, key: &str| {
        text_at(a, &[Step::Key(key)], false)
    })),
    entry!("json_object_field_text" (Json, Text) -> Text, typed!(|a: &str, key: &str| {
        text_at(a, &[Step::Key(key)], true)
    })),
    entry!("json_array_element" (Json, Int4) -> Json, typed!(|a: &str, place: i32| {
        text_at(a, &[Step::Place(place.into())], false)
    })),
    entry!("json_array_element_text" (Json, Int4) -> Text, typed!(|a: &str, place: i32| {
        text_at(a, &[Step::Place(place.into())], true)
    })),
    entry!("jsonb_object_field" (Jsonb, Text) -> Jsonb, typed!(|a: &Json, key: &str| a.field(key))),
    entry!("jsonb_object_field_text" (Jsonb, Text) -> Text, typed!(|a: &Json, key: &str| {
        a.field(key).and_then(Json::as_text)
    })),
    entry!("jsonb_array_element" (Jsonb, Int4) -> Jsonb, typed!(|a: &Json, place: i32| element(a, place))),
    entry!("jsonb_array_element_text" (Jsonb, Int4) -> Text, typed!(|a: &Json, place: i32| {
        element(a, place).and_then(Json::as_text)
    })),
    entry!("json_array_length" (Json) -> Int4, typed!(|a: &str| json_length(a))),
    entry!("jsonb_array_length" (Jsonb) -> Int4, typed!(|a: &Json| jsonb_length(a))),
    entry!("json_typeof" (Json) -> Text, typed!(|a: &str| json_type(a))),
    entry!("jsonb_typeof" (Jsonb) -> Text, typed!(|a: &Json| a.type_name())),
    entry!("json_strip_nulls" (Json) -> Json, typed!(|a: &str| {
        let mut out = Vec::new();
        write_stripped(a, &Node::parse(a)?, &mut out);
        super::json_make::text_value(out)
    })),
    entry!("jsonb_strip_nulls" (Jsonb) -> Jsonb, typed!(|a: &Json| Value::Jsonb(Arc::new(stripped(a))))),
    entry!("jsonb_pretty" (Jsonb) -> Text, typed!(|a: &Json| pretty(a))),
];
