//! The fields of one record, as byte ranges of the data where they stand there as they are, and unescaped copies otherwise.

use rubato_base::{Error, Result, SqlState};
use std::ops::Range;

/// How the lines of the data end: the first line decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LineEnd {
    #[default]
    Unknown,
    Newline,
    CarriageReturnNewline,
}

/// What a parser found at the start of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Not all of it is there yet.
    Incomplete,
    /// A record of this many bytes and lines.
    Row { bytes: usize, lines: u64 },
    /// The end marker: nothing behind it counts.
    End,
    /// The data ended within quotes, on this line of the record.
    Unterminated { lines: u64 },
}

/// Where a field's bytes are; `None` is NULL.
#[derive(Clone, Debug)]
enum Place {
    Data(Range<usize>),
    Scratch(Range<usize>),
    Null,
}

/// The fields of one record.
#[derive(Debug, Default)]
pub(super) struct Fields {
    places: Vec<Place>,
    pub(super) scratch: Vec<u8>,
}

impl Fields {
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.scratch.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn push_null(&mut self) {
        self.places.push(Place::Null);
    }

    /// A field that stands in the data as it is.
    pub(super) fn push_data(&mut self, range: Range<usize>) {
        self.places.push(Place::Data(range));
    }

    /// A field whose unescaped bytes are in `scratch` from `start` on.
    pub(super) fn push_scratch(&mut self, start: usize) {
        self.places.push(Place::Scratch(start..self.scratch.len()));
    }

    /// Field `index`, which must be there; `None` is NULL.
    pub(super) fn get<'a>(&'a self, index: usize, data: &'a [u8]) -> Option<&'a [u8]> {
        match &self.places[index] {
            Place::Data(range) => Some(&data[range.clone()]),
            Place::Scratch(range) => Some(&self.scratch[range.clone()]),
            Place::Null => None,
        }
    }

    /// The part of `text` that is field `index`; `None` where it does not stand in the data as it is.
    pub(super) fn part_of<'a>(&self, index: usize, text: &'a str) -> Option<&'a str> {
        match &self.places[index] {
            Place::Data(range) => text.get(range.clone()),
            Place::Scratch(_) | Place::Null => None,
        }
    }
}

/// The whole record as text, where all of it is UTF-8 without NUL: then its fields need not be looked at one by one.
pub(super) fn whole_text(record: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(record).ok()?;
    memchr::memchr(0, record).is_none().then_some(text)
}

/// 22P04.
pub(super) fn bad_format(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// UTF-8 without NUL, or 22021.
pub(super) fn text_of(bytes: &[u8]) -> Result<&str> {
    let invalid = |bytes: &[u8]| {
        let shown: Vec<String> = bytes.iter().take(4).map(|byte| format!("0x{byte:02x}")).collect();
        let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
        Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let start = error.valid_up_to();
        let length = error.error_len().unwrap_or(bytes.len() - start);
        invalid(&bytes[start..start + length])
    })?;
    if bytes.contains(&0) {
        Err(invalid(&[0]))
    } else {
        Ok(text)
    }
}
