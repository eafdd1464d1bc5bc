//! Aggregates that keep what they are fed: `array_agg` and those that make documents.

use crate::functions::{as_document, document, text_value};
use ecow::EcoString;
use rubato_base::array::{Dimension, Dimensions};
use rubato_base::json::write_string;
use rubato_base::{Array, DataType, Error, Json, Result, SqlState, Value};
use std::sync::Arc;

/// What has been collected; nothing before the first row.
#[derive(Clone, Debug)]
pub(super) enum Collected {
    /// `array_agg` of single values.
    Items {
        element: DataType,
        items: Option<Vec<Value>>,
    },
    /// `array_agg` of arrays of one shape.
    Arrays {
        element: DataType,
        count: usize,
        whole: Option<Array>,
    },
    /// `json_agg`, as its text without the bracket at its end.
    JsonArray(Option<Vec<u8>>),
    /// `json_object_agg`, likewise.
    JsonObject(Option<Vec<u8>>),
    /// `jsonb_agg`
    Documents(Option<Vec<Json>>),
    /// `jsonb_object_agg`
    Pairs(Option<Vec<(EcoString, Json)>>),
}

impl Collected {
    /// Takes one row's arguments, also those that are NULL.
    pub fn add(&mut self, arguments: &[Value]) -> Result<()> {
        let null = Value::Null;
        let first = arguments.first().unwrap_or(&null);
        let second = arguments.get(1).unwrap_or(&null);
        match self {
            Collected::Items { items, .. } => items.get_or_insert_default().push(first.clone()),
            Collected::Arrays { count, whole, .. } => {
                stack(whole, first)?;
                *count += 1;
            }
            Collected::JsonArray(text) => {
                let breaks = *second == Value::Bool(true);
                let delimiter = if breaks { ", \n " } else { ", " };
                delimit(text, '[', delimiter).extend_from_slice(first.as_str().unwrap_or("null").as_bytes());
            }
            Collected::JsonObject(text) => {
                let key = first.as_str().ok_or_else(no_key)?;
                let text = delimit(text, '{', ", ");
                // As PostgreSQL spaces it.
                if text.len() == 1 {
                    text.push(b' ');
                }
                write_string(key, text);
                text.extend_from_slice(b" : ");
                text.extend_from_slice(second.as_str().unwrap_or("null").as_bytes());
            }
            Collected::Documents(items) => items.get_or_insert_default().push(as_document(first)),
            Collected::Pairs(pairs) => {
                let key = first.as_str().ok_or_else(no_key)?;
                pairs
                    .get_or_insert_default()
                    .push((EcoString::from(key), as_document(second)));
            }
        }
        Ok(())
    }

    /// Takes what another one has collected, as if its rows came after this one's.
    pub fn merge(&mut self, other: &Collected) -> Result<()> {
        match (self, other) {
            (
                Collected::Items { items, .. },
                Collected::Items {
                    items: Some(others), ..
                },
            ) => {
                items.get_or_insert_default().extend_from_slice(others);
            }
            (
                Collected::Arrays { count, whole, .. },
                Collected::Arrays {
                    whole: Some(other),
                    count: more,
                    ..
                },
            ) => {
                match whole {
                    None => *whole = Some(other.clone()),
                    Some(own) if same_shape(own, other) => {
                        own.items.extend_from_slice(&other.items);
                    }
                    Some(_) => return Err(other_shape()),
                }
                *count += more;
            }
            (Collected::JsonArray(own), Collected::JsonArray(Some(other)))
            | (Collected::JsonObject(own), Collected::JsonObject(Some(other))) => match own {
                None => *own = Some(other.clone()),
                Some(own) => {
                    own.extend_from_slice(b", ");
                    own.extend_from_slice(other[1..].trim_ascii_start());
                }
            },
            (Collected::Documents(items), Collected::Documents(Some(others))) => {
                items.get_or_insert_default().extend_from_slice(others);
            }
            (Collected::Pairs(pairs), Collected::Pairs(Some(others))) => {
                pairs.get_or_insert_default().extend_from_slice(others);
            }
            // The other side has seen nothing.
            (own, other) if std::mem::discriminant(own) == std::mem::discriminant(other) => {}
            _ => return Err(Error::internal("two different aggregates were merged")),
        }
        Ok(())
    }

    /// The result so far: NULL of no rows.
    pub fn finish(&self) -> Result<Value> {
        let closed = |text: &[u8], end: &[u8]| text_value([text, end].concat());
        match self {
            Collected::Items {
                element,
                items: Some(items),
            } => Ok(Value::Array(Arc::new(Array::new(*element, items.clone())))),
            Collected::Arrays {
                element,
                count,
                whole: Some(whole),
            } => {
                let mut dimensions = Dimensions::from_slice(&[Dimension::of(*count)]);
                dimensions.extend_from_slice(whole.dimensions());
                let array = Array::shaped(*element, whole.items.clone(), dimensions)?;
                Ok(Value::Array(Arc::new(array)))
            }
            Collected::JsonArray(Some(text)) => closed(text, b"]"),
            Collected::JsonObject(Some(text)) => closed(text, b" }"),
            Collected::Documents(Some(items)) => document(Json::Array(items.clone())),
            Collected::Pairs(Some(pairs)) => document(Json::object(pairs.clone())),
            _ => Ok(Value::Null),
        }
    }
}

fn no_key() -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null")
}

fn other_shape() -> Error {
    Error::new(
        SqlState::ARRAY_SUBSCRIPT_ERROR,
        "cannot accumulate arrays of different dimensionality",
    )
}

fn same_shape(left: &Array, right: &Array) -> bool {
    left.dimensions() == right.dimensions()
}

/// The text so far, begun, or with what stands between two elements.
fn delimit<'a>(text: &'a mut Option<Vec<u8>>, bracket: char, delimiter: &str) -> &'a mut Vec<u8> {
    match text {
        Some(text) => {
            text.extend_from_slice(delimiter.as_bytes());
            text
        }
        None => text.insert(vec![bracket as u8]),
    }
}

/// Adds the elements of an array to those of arrays of the same shape; the dimensions stay those of one.
fn stack(whole: &mut Option<Array>, value: &Value) -> Result<()> {
    let Value::Array(array) = value else {
        return Err(Error::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "cannot accumulate null arrays",
        ));
    };
    if whole.is_none() && array.dimensions().is_empty() {
        return Err(Error::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "cannot accumulate empty arrays",
        ));
    }
    match whole {
        None => *whole = Some(Array::clone(array)),
        Some(own) if same_shape(own, array) => own.items.extend_from_slice(&array.items),
        Some(_) => return Err(other_shape()),
    }
    Ok(())
}
