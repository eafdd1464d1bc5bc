//! The csv format: quoted fields may hold delimiters and newlines.

use super::fields::{Fields, LineEnd, Record, bad_format};
use rubato_base::Result;

/// Splits records of the csv format.
#[derive(Debug)]
pub(super) struct CsvParser {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) escape: u8,
    pub(super) null: Vec<u8>,
    pub(super) line_end: LineEnd,
    /// Places of fields that are NULL though they are quoted, if their text is the null string.
    pub(super) force_null: Vec<usize>,
    /// Places of fields that are never NULL.
    pub(super) force_not_null: Vec<usize>,
}

/// A field under way.
struct Open {
    start: usize,
    scratch_start: usize,
    /// Whether a quote was seen: then the bytes are in the scratch and the field is never NULL.
    quoted: bool,
}

impl CsvParser {
    /// Splits the first record of `data`; at the end of all data a last one needs no newline.
    pub(super) fn parse(&mut self, data: &[u8], at_end: bool, fields: &mut Fields) -> Result<Record> {
        fields.clear();
        if data.is_empty() {
            return Ok(Record::Incomplete);
        }
        let mut open = Open {
            start: 0,
            scratch_start: 0,
            quoted: false,
        };
        let mut in_quotes = false;
        let mut lines = 1;
        let mut at = 0;
        while at < data.len() {
            let byte = data[at];
            if in_quotes {
                let next = data.get(at + 1).copied();
                if byte == self.escape && (next.is_none() && !at_end) {
                    return Ok(Record::Incomplete);
                }
                if byte == self.escape && next.is_some_and(|next| next == self.escape || next == self.quote) {
                    fields.scratch.extend(next);
                    at += 2;
                    continue;
                }
                if byte == self.quote {
                    in_quotes = false;
                } else {
                    lines += u64::from(byte == b'\n');
                    fields.scratch.push(byte);
                }
                at += 1;
                continue;
            }
            match byte {
                b'\n' => return self.end(data, at, at + 1, open, fields, lines),
                b'\r' if at + 1 == data.len() && !at_end => return Ok(Record::Incomplete),
                b'\r' if data.get(at + 1) == Some(&b'\n') && self.line_end != LineEnd::Newline => {
                    self.line_end = LineEnd::CarriageReturnNewline;
                    return self.end(data, at, at + 2, open, fields, lines);
                }
                b'\r' => {
                    return Err(bad_format("unquoted carriage return found in data")
                        .with_hint("Use quoted CSV field to represent carriage return."));
                }
                byte if byte == self.delimiter => {
                    self.close(data, at, open, fields);
                    open = Open {
                        start: at + 1,
                        scratch_start: fields.scratch.len(),
                        quoted: false,
                    };
                }
                byte if byte == self.quote => {
                    if !open.quoted {
                        fields.scratch.extend_from_slice(&data[open.start..at]);
                        open.quoted = true;
                    }
                    in_quotes = true;
                }
                byte if open.quoted => fields.scratch.push(byte),
                _ => {}
            }
            at += 1;
        }
        match (at_end, in_quotes) {
            (false, _) => Ok(Record::Incomplete),
            (true, true) => {
                // A line end within quotes is counted once it is known what ends a line.
                let lines = if self.line_end == LineEnd::Unknown { 1 } else { lines };
                Ok(Record::Unterminated { lines })
            }
            (true, false) => self.end(data, data.len(), data.len(), open, fields, lines),
        }
    }

    fn close(&self, data: &[u8], end: usize, open: Open, fields: &mut Fields) {
        let place = fields.len();
        if open.quoted {
            if self.force_null.contains(&place) && fields.scratch[open.scratch_start..] == self.null {
                fields.push_null();
            } else {
                fields.push_scratch(open.scratch_start);
            }
        } else if data[open.start..end] == self.null && !self.force_not_null.contains(&place) {
            fields.push_null();
        } else {
            fields.push_data(open.start..end);
        }
    }

    fn end(
        &mut self,
        data: &[u8],
        end: usize,
        bytes: usize,
        open: Open,
        fields: &mut Fields,
        lines: u64,
    ) -> Result<Record> {
        if &data[..end] == b"\\." {
            return Ok(Record::End);
        }
        if self.line_end == LineEnd::Unknown {
            self.line_end = LineEnd::Newline;
        } else if self.line_end == LineEnd::CarriageReturnNewline && bytes == end + 1 {
            return Err(
                bad_format("unquoted newline found in data").with_hint("Use quoted CSV field to represent newline.")
            );
        }
        self.close(data, end, open, fields);
        Ok(Record::Row { bytes, lines })
    }
}
