//! The text format: a line a row, fields between delimiters, backslash escapes.

use super::fields::{Fields, LineEnd, Record, bad_format};
use rubato_base::Result;

/// Splits lines of the text format.
#[derive(Debug)]
pub(super) struct TextParser {
    pub(super) delimiter: u8,
    pub(super) null: Vec<u8>,
    pub(super) line_end: LineEnd,
}

impl TextParser {
    /// Splits the first line of `data`; at the end of all data a last line needs no newline.
    pub(super) fn parse(&mut self, data: &[u8], at_end: bool, fields: &mut Fields) -> Result<Record> {
        fields.clear();
        let (length, bytes) = match find_line_end(data) {
            Some(newline) => (newline, newline + 1),
            None if at_end && !data.is_empty() => (data.len(), data.len()),
            None => return Ok(Record::Incomplete),
        };
        let mut line = &data[..length];
        if bytes > length {
            line = self.strip_carriage_return(line)?;
        }
        if line == b"\\." {
            return Ok(Record::End);
        }
        let special = memchr::memchr2(b'\\', b'\r', line);
        if special.is_some() && line.contains(&b'\r') {
            return Err(bad_format("literal carriage return found in data")
                .with_hint("Use \"\\r\" to represent carriage return."));
        }
        self.split(line, special.is_some(), fields);
        Ok(Record::Row { bytes, lines: 1 })
    }

    fn strip_carriage_return<'a>(&mut self, line: &'a [u8]) -> Result<&'a [u8]> {
        let stripped = line.strip_suffix(b"\r");
        if self.line_end == LineEnd::Unknown {
            self.line_end = if stripped.is_some() {
                LineEnd::CarriageReturnNewline
            } else {
                LineEnd::Newline
            };
        }
        match (self.line_end, stripped) {
            (LineEnd::CarriageReturnNewline, Some(line)) => Ok(line),
            (LineEnd::CarriageReturnNewline, None) => {
                Err(bad_format("literal newline found in data").with_hint("Use \"\\n\" to represent newline."))
            }
            _ => Ok(line),
        }
    }

    fn split(&self, line: &[u8], has_escapes: bool, fields: &mut Fields) {
        if has_escapes {
            return self.split_escaped(line, fields);
        }
        let mut start = 0;
        for end in memchr::memchr_iter(self.delimiter, line).chain([line.len()]) {
            if line[start..end] == self.null {
                fields.push_null();
            } else {
                fields.push_data(start..end);
            }
            start = end + 1;
        }
    }

    fn split_escaped(&self, line: &[u8], fields: &mut Fields) {
        let mut start = 0;
        loop {
            let end = find_delimiter(&line[start..], self.delimiter).map_or(line.len(), |at| start + at);
            let field = &line[start..end];
            if field == self.null {
                fields.push_null();
            } else if field.contains(&b'\\') {
                let from = fields.scratch.len();
                unescape(field, &mut fields.scratch);
                fields.push_scratch(from);
            } else {
                fields.push_data(start..end);
            }
            if end >= line.len() {
                return;
            }
            start = end + 1;
        }
    }
}

/// The first newline that no backslash stands before.
fn find_line_end(data: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let newline = from + memchr::memchr(b'\n', &data[from..])?;
        let backslashes = data[..newline].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(newline);
        }
        from = newline + 1;
    }
}

/// The first delimiter that no backslash stands before.
fn find_delimiter(rest: &[u8], delimiter: u8) -> Option<usize> {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            byte if byte == delimiter => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

fn unescape(field: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < field.len() {
        let byte = field[at];
        at += 1;
        if byte != b'\\' || at == field.len() {
            out.push(byte);
            continue;
        }
        let escaped = field[at];
        at += 1;
        match escaped {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => out.push(number(field, &mut at, escaped - b'0', 8, 2)),
            b'x' if field.get(at).is_some_and(u8::is_ascii_hexdigit) => out.push(number(field, &mut at, 0, 16, 2)),
            other => out.push(other),
        }
    }
}

/// At most `digits_max` more digits of a byte's number.
fn number(field: &[u8], at: &mut usize, first: u8, base: u32, digits_max: usize) -> u8 {
    let mut value = first;
    for _ in 0..digits_max {
        let Some(digit) = field.get(*at).and_then(|byte| char::from(*byte).to_digit(base)) else {
            break;
        };
        value = value.wrapping_mul(base as u8).wrapping_add(digit as u8);
        *at += 1;
    }
    value
}
