//! JSON: the checked text of `json`, and the parsed form of `jsonb`.
//!
//! The parser is our own because errors are PostgreSQL's, with the token at fault, and because `json` gives back parts of its text as they
//! were written; numbers are exact.

mod codec;
mod lexer;
mod parser;
pub mod path;
mod show;

pub use parser::{Node, NodeKind, check};
pub use show::write_string;

use crate::{Error, Numeric, Result, SqlState};
use ecow::EcoString;
use std::cmp::Ordering;

/// How deep a document may nest: far from the end of any stack that walks over it.
pub const DEPTH_MAX: usize = 1000;
/// The first byte of the binary form of `jsonb`.
pub(crate) const BINARY_VERSION: u8 = 1;

/// A `jsonb` document or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, exact.
    Number(Numeric),
    /// A string without NUL.
    String(EcoString),
    /// An array.
    Array(Vec<Json>),
    /// An object: each key once, shorter keys first, keys of one length by their bytes.
    Object(Vec<(EcoString, Json)>),
}

/// The order in which an object keeps its keys.
pub fn order_keys(left: &str, right: &str) -> Ordering {
    left.len()
        .cmp(&right.len())
        .then_with(|| left.as_bytes().cmp(right.as_bytes()))
}

impl Json {
    /// Reads a document. 22P02 for text that is none, 22P05 for an escape that no text can hold, 54001 for one that nests too deeply.
    pub fn parse(text: &str) -> Result<Json> {
        Json::from_node(text, Node::parse(text)?)
    }

    /// The document that a parsed text means.
    pub fn from_node(text: &str, node: Node) -> Result<Json> {
        Ok(match node.kind {
            NodeKind::Null => Json::Null,
            NodeKind::Bool(truth) => Json::Bool(truth),
            NodeKind::Number => Json::Number(Numeric::parse(&text[node.start..node.end])?),
            NodeKind::String(string) => Json::String(string),
            NodeKind::Array(items) => {
                let items = items.into_iter().map(|item| Json::from_node(text, item));
                Json::Array(items.collect::<Result<_>>()?)
            }
            NodeKind::Object(pairs) => {
                let pairs = pairs
                    .into_iter()
                    .map(|(key, value)| Ok((key, Json::from_node(text, value)?)));
                Json::object(pairs.collect::<Result<_>>()?)
            }
        })
    }

    /// An object of these pairs; of equal keys the last one counts.
    pub fn object(mut pairs: Vec<(EcoString, Json)>) -> Json {
        // The sort is stable: the last of equal keys stands last.
        pairs.sort_by(|left, right| order_keys(&left.0, &right.0));
        pairs.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        Json::Object(pairs)
    }

    /// The value of a key of an object.
    pub fn field(&self, key: &str) -> Option<&Json> {
        let Json::Object(pairs) = self else { return None };
        let place = pairs.binary_search_by(|(own, _)| order_keys(own, key)).ok()?;
        Some(&pairs[place].1)
    }

    /// The element of an array at a place from 0; negative ones count from its end.
    pub fn item(&self, place: i64) -> Option<&Json> {
        let Json::Array(items) = self else { return None };
        items.get(place_of(place, items.len())?)
    }

    /// The element at one step of a path: a key of an object, or the number of an array's element.
    pub fn step(&self, step: &str) -> Option<&Json> {
        match self {
            Json::Object(_) => self.field(step),
            Json::Array(_) => self.item(step.trim().parse::<i32>().ok()?.into()),
            _ => None,
        }
    }

    /// Whether this is neither an array nor an object.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Json::Array(_) | Json::Object(_))
    }

    /// Whether arrays and objects nest more than so deep.
    pub fn is_deeper_than(&self, depth: usize) -> bool {
        let within = |inner: &Json| inner.is_deeper_than(depth - 1);
        match self {
            Json::Array(items) => depth == 0 || items.iter().any(within),
            Json::Object(pairs) => depth == 0 || pairs.iter().any(|(_, value)| within(value)),
            _ => false,
        }
    }

    /// What `jsonb_typeof` says.
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The string itself, or the text of anything else; `None` for null.
    pub fn as_text(&self) -> Option<EcoString> {
        match self {
            Json::Null => None,
            Json::String(string) => Some(string.clone()),
            other => Some(other.to_text()),
        }
    }

    /// The text form.
    pub fn to_text(&self) -> EcoString {
        let mut out = Vec::new();
        self.write(&mut out);
        EcoString::from(String::from_utf8_lossy(&out).as_ref())
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        let own = size_of::<Json>();
        own + match self {
            Json::Null | Json::Bool(_) => 0,
            Json::Number(number) => number.heap_bytes(),
            Json::String(string) => string.len(),
            Json::Array(items) => items.iter().map(Json::heap_bytes).sum(),
            Json::Object(pairs) => pairs
                .iter()
                .map(|(key, value)| own + key.len() + value.heap_bytes())
                .sum(),
        }
    }

    /// PostgreSQL's order of `jsonb`: by kind, then by how many elements, then element by element. An empty array stands before everything
    /// else, if it is the whole document.
    pub fn order(&self, other: &Json) -> Ordering {
        let is_empty = |json: &Json| matches!(json, Json::Array(items) if items.is_empty());
        match (is_empty(self), is_empty(other)) {
            (true, false) if !matches!(other, Json::Object(_)) => Ordering::Less,
            (false, true) if !matches!(self, Json::Object(_)) => Ordering::Greater,
            _ => self.order_within(other),
        }
    }

    fn order_within(&self, other: &Json) -> Ordering {
        match (self, other) {
            (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
            (Json::Number(a), Json::Number(b)) => a.cmp(b),
            (Json::String(a), Json::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Json::Array(a), Json::Array(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pairs = a.iter().zip(b).map(|(a, b)| a.order_within(b));
                first_difference(pairs)
            }),
            (Json::Object(a), Json::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pairs = a.iter().zip(b);
                first_difference(pairs.map(|((key, value), (other_key, other))| {
                    key.as_bytes()
                        .cmp(other_key.as_bytes())
                        .then_with(|| value.order_within(other))
                }))
            }),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    /// Where its kind stands among the kinds.
    fn rank(&self) -> u8 {
        match self {
            Json::Null => 1,
            Json::String(_) => 2,
            Json::Number(_) => 3,
            Json::Bool(_) => 4,
            Json::Array(_) => 5,
            Json::Object(_) => 6,
        }
    }

    /// Whether everything in `other` is here too: the operator `@>`.
    pub fn contains(&self, other: &Json) -> bool {
        match (self, other) {
            // An array contains a single value, at the top only.
            (Json::Array(items), other) if other.is_scalar() => items.contains(other),
            _ => self.contains_within(other),
        }
    }

    fn contains_within(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(pairs)) => pairs
                .iter()
                .all(|(key, value)| self.field(key).is_some_and(|own| own.contains_within(value))),
            (Json::Array(items), Json::Array(others)) => others
                .iter()
                .all(|other| items.iter().any(|item| item.contains_within(other))),
            (own, other) => own == other,
        }
    }
}

/// The place from 0 of one that may count from the end.
pub fn place_of(place: i64, length: usize) -> Option<usize> {
    let place = if place < 0 { place + length as i64 } else { place };
    usize::try_from(place).ok().filter(|place| *place < length)
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Reads the binary form of `jsonb`: a version and the text.
pub(crate) fn parse_binary(bytes: &[u8], utf8: fn(&[u8]) -> Result<&str>) -> Result<Json> {
    match bytes.split_first() {
        Some((&BINARY_VERSION, text)) => Json::parse(utf8(text)?),
        Some((version, _)) => Err(Error::new(
            SqlState::INTERNAL_ERROR,
            format!("unsupported jsonb version number {version}"),
        )),
        None => Err(Error::new(SqlState::PROTOCOL_VIOLATION, "no data left in message")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Value};
    use std::sync::Arc;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn documents_are_normalised() {
        for (text, shown) in [
            (
                r#" {"bb":1, "a":1.50, "bb" : [ ], "":null} "#,
                r#"{"": null, "a": 1.50, "bb": []}"#,
            ),
            (r#""\u00e4\ud83d\ude00\n\/""#, "\"ä😀\\n/\""),
            ("1e3", "1000"),
            ("[1,  2.0,-0.5e-1]", "[1, 2.0, -0.05]"),
        ] {
            assert_eq!(json(text).to_text(), shown, "{text}");
        }
    }

    /// Recorded from PostgreSQL 15: `SELECT ... ORDER BY j`.
    #[test]
    fn documents_are_ordered_and_keys_compare_as_they_do() {
        let documents = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"b\"",
            "-1",
            "1",
            "1.5",
            "10",
            "false",
            "true",
            "[1]",
            "[null, 1]",
            "[1, []]",
            "[[], 1]",
            "{}",
            "{\"b\": 1}",
            "{\"a\": 1, \"b\": 1}",
        ];
        // What stands within an array is ordered by its kind, [] behind 1.
        let parsed: Vec<Json> = documents.iter().map(|text| json(text)).collect();
        for (place, a) in parsed.iter().enumerate() {
            for (other, b) in parsed.iter().enumerate() {
                let of = |json: &Json| Key::of(&[Value::Jsonb(Arc::new(json.clone()))]);
                assert_eq!(
                    a.order(b),
                    of(a).cmp(&of(b)),
                    "{} {}",
                    documents[place],
                    documents[other]
                );
                assert_eq!(
                    a.order(b),
                    place.cmp(&other),
                    "{} {}",
                    documents[place],
                    documents[other]
                );
            }
        }
        assert_eq!(json("[1, 2.0]"), json("[1.0, 2]"));
    }

    #[test]
    fn containment_looks_into_arrays_and_objects() {
        for (whole, part, contains) in [
            ("[1,2,[1,3]]", "[1,3]", false),
            ("[1,2,[1,3]]", "[[3]]", true),
            ("[\"foo\"]", "\"foo\"", true),
            ("\"foo\"", "[\"foo\"]", false),
            ("{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":1.0}}", true),
            ("{\"a\":[\"b\"]}", "{\"a\":\"b\"}", false),
        ] {
            assert_eq!(json(whole).contains(&json(part)), contains, "{whole} {part}");
        }
    }
}
