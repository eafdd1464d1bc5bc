//! The elements, keys and fields of documents as rows.

use crate::functions::node_text;
use rubato_base::json::{Node, NodeKind};
use rubato_base::{Error, Json, Result, SqlState, Value};
use std::sync::Arc;

fn invalid(message: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn part(json: &Json, as_text: bool) -> Value {
    if as_text {
        json.as_text().map_or(Value::Null, Value::Text)
    } else {
        Value::Jsonb(Arc::new(json.clone()))
    }
}

fn text_part(text: &str, node: &Node, as_text: bool) -> Value {
    node_text(text, node, as_text).map_or(Value::Null, Value::Text)
}

/// The elements of an array. 22023 for another document.
pub(super) fn elements(document: &Value, as_text: bool) -> Result<Vec<Value>> {
    match document {
        Value::Jsonb(json) => match &**json {
            Json::Array(items) => Ok(items.iter().map(|item| part(item, as_text)).collect()),
            Json::Object(_) => Err(invalid("cannot extract elements from an object")),
            _ => Err(invalid("cannot extract elements from a scalar")),
        },
        other => {
            let text = other.as_str().unwrap_or("");
            match Node::parse(text)?.kind {
                NodeKind::Array(items) => Ok(items.iter().map(|item| text_part(text, item, as_text)).collect()),
                NodeKind::Object(_) => Err(invalid("cannot call json_array_elements on a non-array")),
                _ => Err(invalid("cannot call json_array_elements on a scalar")),
            }
        }
    }
}

/// The keys of an object, as often as they stand in a `json`. 22023 for another document.
pub(super) fn keys(document: &Value) -> Result<Vec<Value>> {
    let refused = |is_array: bool, name: &str| {
        let kind = if is_array { "an array" } else { "a scalar" };
        Err(invalid(&format!("cannot call {name} on {kind}")))
    };
    match document {
        Value::Jsonb(json) => match &**json {
            Json::Object(pairs) => Ok(pairs.iter().map(|(key, _)| Value::Text(key.clone())).collect()),
            other => refused(!other.is_scalar(), "jsonb_object_keys"),
        },
        other => match Node::parse(other.as_str().unwrap_or(""))?.kind {
            NodeKind::Object(pairs) => Ok(pairs.into_iter().map(|(key, _)| Value::Text(key)).collect()),
            NodeKind::Array(_) => refused(true, "json_object_keys"),
            _ => refused(false, "json_object_keys"),
        },
    }
}

/// The keys and values of an object, one behind the other. 22023 for another document.
pub(super) fn pairs(document: &Value, as_text: bool) -> Result<Vec<Value>> {
    match document {
        Value::Jsonb(json) => match &**json {
            Json::Object(pairs) => {
                let pair = |(key, value): &(_, Json)| [Value::Text(ecow::EcoString::clone(key)), part(value, as_text)];
                Ok(pairs.iter().flat_map(pair).collect())
            }
            _ if as_text => Err(invalid("cannot call jsonb_each_text on a non-object")),
            _ => Err(invalid("cannot call jsonb_each on a non-object")),
        },
        other => {
            let text = other.as_str().unwrap_or("");
            match Node::parse(text)?.kind {
                NodeKind::Object(pairs) => {
                    let pair = |(key, value)| [Value::Text(key), text_part(text, &value, as_text)];
                    Ok(pairs.into_iter().flat_map(pair).collect())
                }
                NodeKind::Array(_) => Err(invalid("cannot deconstruct an array as an object")),
                _ => Err(invalid("cannot deconstruct a scalar")),
            }
        }
    }
}
