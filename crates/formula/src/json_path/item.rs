//! What a path finds: parts of documents, values made on the way, and times.

use super::moment::Moment;
use rubato_base::{Json, Numeric};
use std::ops::Deref;
use std::rc::Rc;

/// Between two documents that `.keyvalue()` tells apart.
const DOCUMENT_DISTANCE: i64 = 10_000_000_000;

/// One result, or one on the way.
#[derive(Clone)]
pub(super) enum Item<'a> {
    /// A part of a document.
    Part(Part<'a>),
    /// What `.datetime()` made.
    Moment(Moment),
}

/// A part of a document, and its place: PostgreSQL's offset in its binary form, as far as the path asks for it.
#[derive(Clone)]
pub(super) struct Part<'a> {
    json: Held<'a>,
    pub place: i64,
}

#[derive(Clone)]
enum Held<'a> {
    Borrowed(&'a Json),
    Owned(Rc<Json>),
}

impl Deref for Part<'_> {
    type Target = Json;

    fn deref(&self) -> &Json {
        match &self.json {
            Held::Borrowed(json) => json,
            Held::Owned(json) => json,
        }
    }
}

impl<'a> Part<'a> {
    /// A whole document, with its number among those that the path meets.
    pub fn whole(json: &'a Json, number: i64) -> Part<'a> {
        Part {
            json: Held::Borrowed(json),
            place: number * DOCUMENT_DISTANCE,
        }
    }

    /// The same of a document that was made.
    pub fn made(json: Json, number: i64) -> Part<'a> {
        Part {
            json: Held::Owned(Rc::new(json)),
            place: number * DOCUMENT_DISTANCE,
        }
    }

    fn child(&self, json: &Json, of_borrowed: impl FnOnce(&'a Json) -> Option<&'a Json>, place: i64) -> Part<'a> {
        let held = match &self.json {
            Held::Borrowed(own) => of_borrowed(own).map(Held::Borrowed),
            Held::Owned(_) => None,
        };
        Part {
            json: held.unwrap_or_else(|| Held::Owned(Rc::new(json.clone()))),
            place,
        }
    }

    /// The element of an array.
    pub fn item(&self, index: usize, with_places: bool) -> Option<Part<'a>> {
        let Json::Array(items) = &**self else { return None };
        let place = if with_places {
            self.places().get(index).copied()?
        } else {
            self.place
        };
        let of_borrowed = |own: &'a Json| match own {
            Json::Array(items) => items.get(index),
            _ => None,
        };
        Some(self.child(items.get(index)?, of_borrowed, place))
    }

    /// The value of a key of an object.
    pub fn field(&self, key: &str, with_places: bool) -> Option<Part<'a>> {
        let json = self.deref().field(key)?;
        let place = match &**self {
            Json::Object(pairs) if with_places => {
                let index = pairs.iter().position(|(own, _)| own == key)?;
                self.places().get(index).copied()?
            }
            _ => self.place,
        };
        Some(self.child(json, |own| own.field(key), place))
    }

    /// The elements of an array or the values of an object.
    pub fn children(&self, with_places: bool) -> Vec<Part<'a>> {
        let places = if with_places { self.places() } else { Vec::new() };
        let place = |index: usize| places.get(index).copied().unwrap_or(self.place);
        match (&self.json, &**self) {
            (Held::Borrowed(Json::Array(items)), _) => {
                let part = |(index, json)| Part {
                    json: Held::Borrowed(json),
                    place: place(index),
                };
                items.iter().enumerate().map(part).collect()
            }
            (Held::Borrowed(Json::Object(pairs)), _) => {
                let part = |(index, (_, json)): (usize, &'a (_, Json))| Part {
                    json: Held::Borrowed(json),
                    place: place(index),
                };
                pairs.iter().enumerate().map(part).collect()
            }
            (_, Json::Array(items)) => {
                let part = |(index, json): (usize, &Json)| self.child(json, |_| None, place(index));
                items.iter().enumerate().map(part).collect()
            }
            (_, Json::Object(pairs)) => {
                let part = |(index, (_, json)): (usize, &(_, Json))| self.child(json, |_| None, place(index));
                pairs.iter().enumerate().map(part).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Where the elements or values are.
    fn places(&self) -> Vec<i64> {
        let mut places = Vec::new();
        let _ = binary_end(self, self.place, Some(&mut places));
        places
    }
}

/// Where PostgreSQL's binary form of a document ends that begins at `start`, a multiple of four behind a document's own start.
fn binary_end(json: &Json, start: i64, mut places: Option<&mut Vec<i64>>) -> i64 {
    let aligned = |at: i64| (at + 3) / 4 * 4;
    let mut note = |place: i64| {
        if let Some(places) = places.as_deref_mut() {
            places.push(place);
        }
    };
    match json {
        Json::Null | Json::Bool(_) => start,
        Json::String(string) => start + string.len() as i64,
        Json::Number(number) => aligned(start) + numeric_bytes(number),
        Json::Array(items) => {
            let mut at = start + 4 + 4 * items.len() as i64;
            for item in items {
                at = part_start(item, at);
                note(at);
                at = binary_end(item, at, None);
            }
            at
        }
        Json::Object(pairs) => {
            let keys: i64 = pairs.iter().map(|(key, _)| key.len() as i64).sum();
            let mut at = start + 4 + 8 * pairs.len() as i64 + keys;
            for (_, value) in pairs {
                at = part_start(value, at);
                note(at);
                at = binary_end(value, at, None);
            }
            at
        }
    }
}

/// Where a part begins behind another one that ends here.
fn part_start(json: &Json, end: i64) -> i64 {
    if json.is_scalar() { end } else { (end + 3) / 4 * 4 }
}

/// The bytes of a number in PostgreSQL's binary form: a length, a header, and digits in base 10000.
fn numeric_bytes(number: &Numeric) -> i64 {
    let mut wire = Vec::new();
    number.to_wire(&mut wire);
    let field = |at: usize| {
        wire.get(at..at + 2)
            .map_or(0, |bytes| i16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let is_short = number.is_finite() && field(6) <= 63 && (-64..=63).contains(&field(2));
    4 + if is_short { 2 } else { 4 } + wire.len() as i64 - 8
}

impl<'a> Item<'a> {
    /// A single value that the path has or makes.
    pub fn scalar(json: Json) -> Item<'a> {
        Item::Part(Part::made(json, 0))
    }

    /// The part of a document that it is.
    pub fn part(&self) -> Option<&Part<'a>> {
        match self {
            Item::Part(part) => Some(part),
            Item::Moment(_) => None,
        }
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        matches!(self.part().map(|part| &**part), Some(Json::Array(_)))
    }

    /// The number that it is.
    pub fn number(&self) -> Option<&Numeric> {
        match self.part().map(|part| &**part) {
            Some(Json::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// The string that it is.
    pub fn string(&self) -> Option<&str> {
        match self.part().map(|part| &**part) {
            Some(Json::String(string)) => Some(string),
            _ => None,
        }
    }

    /// What `.type()` says.
    pub fn type_name(&self) -> &'static str {
        match self {
            Item::Part(part) => part.type_name(),
            Item::Moment(moment) => moment.type_name(),
        }
    }

    /// As a part of a document of its own.
    pub fn into_json(self) -> Json {
        match self {
            Item::Part(part) => match part.json {
                Held::Borrowed(json) => json.clone(),
                Held::Owned(json) => Rc::unwrap_or_clone(json),
            },
            Item::Moment(moment) => Json::String(moment.to_text()),
        }
    }
}
