//! One-dimensional arrays: values of parameters and constants, as `= ANY ($1)` takes them.

use crate::binary_format::{parse_binary, write_binary};
use crate::text_format::{TextContext, parse_text, write_text};
use crate::{DataType, Error, Result, SqlState, Value};
use std::cmp::Ordering;

/// Bytes of the binary form before the elements of an array that has some.
const HEADER_BYTES: usize = 20;
/// What the length of a NULL element is in the binary form.
const NULL_LENGTH: i32 = -1;

/// An array of one dimension; each element is of the element type or NULL.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of the elements.
    pub element: DataType,
    /// The elements.
    pub items: Vec<Value>,
}

impl Array {
    /// The type of the array itself.
    pub fn data_type(&self) -> DataType {
        self.element.array().unwrap_or(DataType::Unknown)
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        let items = self.items.iter().map(Value::heap_bytes).sum::<usize>();
        size_of::<Array>() + self.items.len() * size_of::<Value>() + items
    }

    /// PostgreSQL's order: element by element, then the shorter one first.
    pub fn order(&self, other: &Array) -> Ordering {
        let pairs = self.items.iter().zip(&other.items);
        let differing = pairs.map(|(own, other)| own.order(other)).find(|order| order.is_ne());
        differing.unwrap_or_else(|| self.items.len().cmp(&other.items.len()))
    }

    /// Reads `{1,2,NULL}`. 22P02 for text of another form, 0A000 for more than one dimension, and the errors of the elements.
    pub fn parse(element: DataType, text: &str, context: &TextContext) -> Result<Array> {
        let mut reader = TextReader {
            whole: text,
            rest: text.trim_matches(is_blank),
        };
        let mut items = Vec::new();
        reader.open()?;
        if !reader.closes() {
            loop {
                items.push(match reader.item()? {
                    Some(item) => parse_text(element, -1, &item, context)?,
                    None => Value::Null,
                });
                if !reader.continues()? {
                    break;
                }
            }
        }
        if !reader.rest.is_empty() {
            return Err(reader.malformed("Junk after closing right brace."));
        }
        Ok(Array { element, items })
    }

    /// Appends `{1,2,NULL}`.
    pub fn write(&self, context: &TextContext, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut shown = Vec::new();
        for (place, item) in self.items.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            if item.is_null() {
                out.extend_from_slice(b"NULL");
                continue;
            }
            shown.clear();
            write_text(item, self.element, context, &mut shown);
            write_item(&shown, out);
        }
        out.push(b'}');
    }

    /// Reads the binary form. 22P03 for another form, 42804 for another element type, 0A000 for more than one dimension.
    pub fn parse_binary(element: DataType, bytes: &[u8]) -> Result<Array> {
        let mut reader = BinaryReader(bytes);
        let (dimensions, _flags, oid) = (reader.number()?, reader.number()?, reader.number()? as u32);
        if oid != element.oid() {
            let message = format!(
                "binary data has array element type {oid} instead of expected {} ({element})",
                element.oid()
            );
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let count = match dimensions {
            0 => 0,
            1 => reader
                .number()
                .and_then(|count| usize::try_from(count).map_err(|_| malformed()))?,
            2.. => return Err(dimensions_unsupported()),
            _ => return Err(malformed()),
        };
        if dimensions == 1 {
            let _lower_bound = reader.number()?;
        }
        // An element is at least its length: a false count must not reserve memory.
        let mut items = Vec::with_capacity(count.min(reader.0.len() / 4));
        for _ in 0..count {
            items.push(match reader.number()? {
                NULL_LENGTH => Value::Null,
                length => {
                    let length = usize::try_from(length).map_err(|_| malformed())?;
                    parse_binary(element, -1, reader.take(length)?)?
                }
            });
        }
        if reader.0.is_empty() {
            Ok(Array { element, items })
        } else {
            Err(malformed())
        }
    }

    /// Appends the binary form.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        out.reserve(HEADER_BYTES + 8 * self.items.len());
        let has_null = self.items.iter().any(Value::is_null);
        let dimensions = i32::from(!self.items.is_empty());
        out.extend_from_slice(&dimensions.to_be_bytes());
        out.extend_from_slice(&i32::from(has_null).to_be_bytes());
        out.extend_from_slice(&self.element.oid().to_be_bytes());
        if self.items.is_empty() {
            return;
        }
        out.extend_from_slice(&(self.items.len() as i32).to_be_bytes());
        out.extend_from_slice(&1_i32.to_be_bytes());
        for item in &self.items {
            if item.is_null() {
                out.extend_from_slice(&NULL_LENGTH.to_be_bytes());
                continue;
            }
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            write_binary(item, self.element, out);
            let length = (out.len() - start - 4) as i32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

fn malformed() -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

fn dimensions_unsupported() -> Error {
    Error::unsupported("an array of more than one dimension")
}

struct BinaryReader<'a>(&'a [u8]);

impl<'a> BinaryReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<i32> {
        let bytes = self.take(4)?.try_into().map_err(|_| malformed())?;
        Ok(i32::from_be_bytes(bytes))
    }
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Whether a character ends an element that is not quoted, or must be quoted within one.
fn is_structure(letter: char) -> bool {
    matches!(letter, '{' | '}' | ',' | '"')
}

fn write_item(shown: &[u8], out: &mut Vec<u8>) {
    let special = |byte: &u8| {
        byte.is_ascii() && (is_structure(char::from(*byte)) || is_blank(char::from(*byte)) || *byte == b'\\')
    };
    if !shown.is_empty() && !shown.eq_ignore_ascii_case(b"null") && !shown.iter().any(special) {
        out.extend_from_slice(shown);
        return;
    }
    out.push(b'"');
    for byte in shown {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Reads the text form from its start to its end.
struct TextReader<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl TextReader<'_> {
    fn malformed(&self, detail: &str) -> Error {
        let message = format!("malformed array literal: \"{}\"", self.whole);
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    }

    fn ends(&self) -> Error {
        self.malformed("Unexpected end of input.")
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    /// Takes `letter` if it comes next, behind blanks.
    fn accept(&mut self, letter: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(letter) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn open(&mut self) -> Result<()> {
        if self.rest.starts_with('[') {
            return Err(Error::unsupported("an array literal with bounds"));
        }
        if self.accept('{') {
            Ok(())
        } else {
            Err(self.malformed("Array value must start with \"{\" or dimension information."))
        }
    }

    fn closes(&mut self) -> bool {
        self.accept('}')
    }

    /// Whether another element follows; the end of the array is taken.
    fn continues(&mut self) -> Result<bool> {
        if self.accept(',') {
            return Ok(true);
        }
        if self.closes() {
            return Ok(false);
        }
        Err(match self.rest.chars().next() {
            None => self.ends(),
            Some(_) => self.malformed("Unexpected array element."),
        })
    }

    /// The text of the next element, `None` for NULL.
    fn item(&mut self) -> Result<Option<String>> {
        self.skip_blanks();
        match self.rest.chars().next() {
            None => Err(self.ends()),
            Some('{') => Err(dimensions_unsupported()),
            Some(letter @ (',' | '}')) => Err(self.malformed(&format!("Unexpected \"{letter}\" character."))),
            Some('"') => self.quoted().map(Some),
            Some(_) => self.unquoted(),
        }
    }

    fn quoted(&mut self) -> Result<String> {
        let mut item = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(item);
                }
                '\\' => item.extend(letters.next().map(|(_, escaped)| escaped)),
                plain => item.push(plain),
            }
        }
        Err(self.ends())
    }

    fn unquoted(&mut self) -> Result<Option<String>> {
        let mut item = String::new();
        // Blanks at the end do not count unless they are escaped.
        let (mut kept, mut escaped) = (0, false);
        let mut end = self.rest.len();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => {
                    let (_, next) = letters.next().ok_or_else(|| self.ends())?;
                    item.push(next);
                    (kept, escaped) = (item.len(), true);
                }
                '"' | '{' => return Err(self.malformed(&format!("Unexpected \"{letter}\" character."))),
                ',' | '}' => {
                    end = at;
                    break;
                }
                plain => {
                    item.push(plain);
                    if !is_blank(plain) {
                        kept = item.len();
                    }
                }
            }
        }
        self.rest = &self.rest[end..];
        item.truncate(kept);
        Ok((escaped || !item.eq_ignore_ascii_case("null")).then_some(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(element: DataType, text: &str) -> String {
        let context = TextContext::default();
        let array = Array::parse(element, text, &context).unwrap();
        let mut binary = Vec::new();
        array.write_binary(&mut binary);
        let again = Array::parse_binary(element, &binary).unwrap();
        assert_eq!(again.order(&array), Ordering::Equal);
        let mut shown = Vec::new();
        again.write(&context, &mut shown);
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn arrays_go_there_and_back() {
        for (element, text, shown) in [
            (DataType::Int4, "{}", "{}"),
            (DataType::Int4, " { 1, -2 ,NULL,null } ", "{1,-2,NULL,NULL}"),
            (
                DataType::Text,
                r#"{a, b c ,"",  "null","x\"y\\z",\ ,gr ü n}"#,
                r#"{a,"b c","","null","x\"y\\z"," ","gr ü n"}"#,
            ),
            (DataType::Text, "{nul, \"{\",\"a,b\"}", "{nul,\"{\",\"a,b\"}"),
            (DataType::Bool, "{t,false}", "{t,f}"),
        ] {
            assert_eq!(there_and_back(element, text), shown, "{text}");
        }
    }

    /// Messages and details as PostgreSQL 15 gives them.
    #[test]
    fn malformed_literals_are_refused() {
        for (text, detail) in [
            ("", "Array value must start with \"{\" or dimension information."),
            ("1,2", "Array value must start with \"{\" or dimension information."),
            ("{1,2", "Unexpected end of input."),
            ("{1,\"2}", "Unexpected end of input."),
            ("{1,}", "Unexpected \"}\" character."),
            ("{,1}", "Unexpected \",\" character."),
            ("{1}2", "Junk after closing right brace."),
        ] {
            let error = Array::parse(DataType::Int4, text, &TextContext::default()).unwrap_err();
            assert_eq!(error.code(), SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
            assert_eq!(error.message(), format!("malformed array literal: \"{text}\""));
            assert_eq!(error.fields().detail.as_deref(), Some(detail), "{text}");
        }
        let error = Array::parse(DataType::Int4, "{1,x}", &TextContext::default()).unwrap_err();
        assert_eq!(error.message(), "invalid input syntax for type integer: \"x\"");
        let nested = Array::parse(DataType::Int4, "{{1},{2}}", &TextContext::default()).unwrap_err();
        assert_eq!(nested.code(), SqlState::FEATURE_NOT_SUPPORTED);
    }

    #[test]
    fn binary_forms_that_lie_are_refused() {
        let mut binary = Vec::new();
        let array = Array {
            element: DataType::Int4,
            items: vec![Value::Int4(1), Value::Null],
        };
        array.write_binary(&mut binary);
        for end in 0..binary.len() {
            assert!(Array::parse_binary(DataType::Int4, &binary[..end]).is_err());
        }
        let error = Array::parse_binary(DataType::Int8, &binary).unwrap_err();
        assert_eq!(error.code(), SqlState::DATATYPE_MISMATCH);
        binary[12..16].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(Array::parse_binary(DataType::Int4, &binary).is_err());
    }
}
