//! Enums: types whose values are labels in the order of their declaration.
//!
//! A value is a position, so that rows and keys are in order whatever it is called, and a label may be renamed without touching one of
//! them. Positions lie far apart: a label that comes later finds room between two others. What positions are called is looked up in
//! [`EnumTypes`] where values become text or are read from it.

use crate::{DataType, Error, Result, SqlState};
use ecow::EcoString;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The distance of labels that are declared one after the other.
const POSITION_STEP: i64 = 1 << 40;

/// A value of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnumValue {
    /// The number of the type.
    pub type_oid: u32,
    /// The position of its label.
    pub position: i64,
}

/// One label of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumLabel {
    /// Its number among the labels of all enums.
    pub oid: u32,
    /// Its position among those of its type.
    pub position: i64,
    /// Its text.
    pub text: EcoString,
}

impl EnumLabel {
    /// Where it stands among those of its type: those that are declared together are counted from 1.
    pub fn sort_order(&self) -> f32 {
        (self.position as f64 / POSITION_STEP as f64) as f32 + 1.0
    }
}

/// The labels of one enum, in order.
pub type EnumLabels = Vec<EnumLabel>;

/// The position of a label that comes behind all others.
pub fn last_position(labels: &[EnumLabel]) -> Option<i64> {
    match labels.last() {
        Some(last) => last.position.checked_add(POSITION_STEP),
        None => Some(0),
    }
}

/// The position of a label that comes to stand at `place`; `None` if there is no room between its neighbours.
pub fn position_at(labels: &[EnumLabel], place: usize) -> Option<i64> {
    let next = labels.get(place)?.position;
    let Some(before) = place.checked_sub(1).and_then(|before| labels.get(before)) else {
        return next.checked_sub(POSITION_STEP);
    };
    let distance = next.checked_sub(before.position)?;
    (distance > 1).then(|| before.position + distance / 2)
}

/// What the values of the users' enums are called.
#[derive(Clone, Debug, Default)]
pub struct EnumTypes(BTreeMap<u32, Arc<EnumLabels>>);

impl EnumTypes {
    /// The enums with these numbers and labels.
    pub fn new(types: impl IntoIterator<Item = (u32, Arc<EnumLabels>)>) -> EnumTypes {
        EnumTypes(types.into_iter().collect())
    }

    /// The labels of a type, in order; none if there is no such type.
    pub fn labels(&self, type_oid: u32) -> &[EnumLabel] {
        self.0.get(&type_oid).map_or(&[], |labels| labels.as_slice())
    }

    /// The label of a value.
    pub fn label(&self, value: EnumValue) -> Option<&EcoString> {
        let labels = self.labels(value.type_oid);
        let place = labels.binary_search_by_key(&value.position, |label| label.position);
        Some(&labels[place.ok()?].text)
    }

    /// The value with this label. 22P02 if there is none.
    pub fn parse(&self, type_oid: u32, text: &str) -> Result<EnumValue> {
        let found = self.labels(type_oid).iter().find(|label| label.text == text);
        let position = found.map(|label| label.position).ok_or_else(|| {
            let name = DataType::Enum(type_oid);
            let message = format!("invalid input value for enum {name}: \"{text}\"");
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })?;
        Ok(EnumValue { type_oid, position })
    }
}

/// What stands around a mark.
const MARK: char = '\u{1}';

/// What only the catalog can name. A message, or a definition shown, that is made where there is none has a mark in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// The enum or domain with this number, as it must be written to be found.
    Type(u32),
    /// Its name alone. Never within a text.
    BareType(u32),
    /// The schema of an enum or domain. Never within a text.
    SchemaOfType(u32),
    /// The schema with this number.
    Schema(u32),
    /// The label of a value.
    Label(EnumValue),
    /// The same within quotes.
    QuotedLabel(EnumValue),
}

impl Marked {
    /// The mark.
    pub fn mark(self) -> String {
        match self {
            Marked::Type(number) | Marked::BareType(number) | Marked::SchemaOfType(number) => {
                format!("{MARK}{number}{MARK}")
            }
            Marked::Schema(number) => format!("{MARK}s{number}{MARK}"),
            Marked::Label(value) => format!("{MARK}{}:{}{MARK}", value.type_oid, value.position),
            Marked::QuotedLabel(value) => format!("{MARK}{}:{}\"{MARK}", value.type_oid, value.position),
        }
    }

    /// What a text means that is nothing but a mark.
    pub(crate) fn of_mark(text: &str) -> Option<Marked> {
        Marked::read(text.strip_prefix(MARK)?.strip_suffix(MARK)?)
    }

    /// What a text between two marks means.
    fn read(text: &str) -> Option<Marked> {
        if let Some(schema) = text.strip_prefix('s') {
            return schema.parse().ok().map(Marked::Schema);
        }
        let Some((number, position)) = text.split_once(':') else {
            return text.parse().ok().map(Marked::Type);
        };
        let unquoted = position.strip_suffix('"');
        let value = EnumValue {
            type_oid: number.parse().ok()?,
            position: unquoted.unwrap_or(position).parse().ok()?,
        };
        Some(match unquoted {
            Some(_) => Marked::QuotedLabel(value),
            None => Marked::Label(value),
        })
    }
}

/// `text` with names where marks stand for what `name` knows; `None` if there are no marks.
pub fn with_names(text: &str, name: &dyn Fn(Marked) -> Option<String>) -> Option<String> {
    if !text.contains(MARK) {
        return None;
    }
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(MARK) {
        named.push_str(before);
        let marked = behind.split_once(MARK);
        match marked.and_then(|(marked, after)| Some((name(Marked::read(marked)?)?, after))) {
            Some((name, after)) => {
                named.push_str(&name);
                rest = after;
            }
            None => {
                named.push(MARK);
                rest = behind;
            }
        }
    }
    named.push_str(rest);
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserted(labels: &mut EnumLabels, place: usize, text: &str) {
        let position = match place == labels.len() {
            true => last_position(labels),
            false => position_at(labels, place),
        };
        let position = position.unwrap();
        let text = text.into();
        labels.insert(place, EnumLabel { oid: 0, position, text });
    }

    #[test]
    fn labels_find_their_place_between_others() {
        let mut labels = EnumLabels::new();
        for (place, text) in [(0, "b"), (1, "d"), (0, "a"), (2, "c"), (4, "e")] {
            inserted(&mut labels, place, text);
        }
        let texts: Vec<&str> = labels.iter().map(|label| label.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c", "d", "e"]);
        assert!(labels.is_sorted_by_key(|label| label.position));
        let types = EnumTypes::new([(5, Arc::new(labels))]);
        let value = types.parse(5, "c").unwrap();
        assert_eq!(types.label(value).map(EcoString::as_str), Some("c"));
        assert!(types.parse(5, "b").unwrap() < value);
        assert_eq!(
            types.parse(5, "C").unwrap_err().code(),
            SqlState::INVALID_TEXT_REPRESENTATION
        );
        assert_eq!(types.label(EnumValue { type_oid: 6, ..value }), None);
    }

    #[test]
    fn room_between_neighbours_ends() {
        let mut labels = EnumLabels::new();
        inserted(&mut labels, 0, "first");
        inserted(&mut labels, 1, "last");
        let mut count = 0;
        while position_at(&labels, 1).is_some() {
            inserted(&mut labels, 1, "between");
            count += 1;
        }
        assert_eq!(count, 40);
        assert!(labels.is_sorted_by_key(|label| label.position));
    }

    #[test]
    fn marks_become_names() {
        let value = EnumValue {
            type_oid: 16_400,
            position: -3,
        };
        let name = |marked: Marked| match marked {
            Marked::Type(16_400) => Some("mood".to_owned()),
            Marked::Label(own) if own == value => Some("it's".to_owned()),
            Marked::QuotedLabel(own) if own == value => Some("it''s".to_owned()),
            _ => None,
        };
        let named = |text: &str| with_names(text, &name);
        assert_eq!(named("integer = text"), None);
        let text = format!("{} = {}", DataType::Enum(16_400), DataType::EnumArray(16_400));
        assert_eq!(named(&text).as_deref(), Some("mood = mood[]"));
        let text = format!(
            "({}) '{}'",
            Marked::Label(value).mark(),
            Marked::QuotedLabel(value).mark()
        );
        assert_eq!(named(&text).as_deref(), Some("(it's) 'it''s'"));
        assert_eq!(named("\u{1}7\u{1} \u{1}").as_deref(), Some("\u{1}7\u{1} \u{1}"));
    }
}
