//! Data of COPY FROM, turned into packed rows record by record. It needs nothing of the partition.

use super::binary::BinaryParser;
use super::csv::CsvParser;
use super::fields::{Fields, LineEnd, Record, bad_format};
use super::packed::{PackedRows, Packer, shown};
use super::place_of;
use super::text::TextParser;
use crate::catalog::Table;
use crate::statement::{CopyFormat, CopyStatement};
use rubato_base::{Error, Result, SqlState};
use rubato_formula::{EvalContext, Expr, Volatility};
use std::sync::Arc;

/// The longest record taken.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// What was read of a piece of data.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) rows: PackedRows,
    /// What is wrong with the data behind the rows: told once these are placed, for one of them may be wrong too.
    pub(super) failure: Option<Error>,
}

/// A state machine that is fed pieces of data, which may end anywhere.
pub(super) struct Reading {
    packer: Packer,
    parser: Parser,
    skips_header: bool,
    /// The header must name the columns.
    matches_header: bool,
    /// What is not a whole record yet.
    buffer: Vec<u8>,
    fields: Fields,
    line: u64,
    /// The data has said that it ends, or was wrong: what follows is passed over.
    ended: bool,
    failed: bool,
}

enum Parser {
    Text(TextParser),
    Csv(CsvParser),
    Binary(BinaryParser),
}

impl Parser {
    fn new(statement: &CopyStatement) -> Parser {
        let null = statement.null.as_bytes().to_vec();
        match statement.format {
            CopyFormat::Text => Parser::Text(TextParser {
                delimiter: statement.delimiter,
                null,
                line_end: LineEnd::Unknown,
            }),
            CopyFormat::Csv => Parser::Csv(CsvParser {
                delimiter: statement.delimiter,
                quote: statement.quote,
                escape: statement.escape,
                null,
                line_end: LineEnd::Unknown,
                force_null: statement.force_null.clone(),
                force_not_null: statement.force_not_null.clone(),
            }),
            CopyFormat::Binary => Parser::Binary(BinaryParser::default()),
        }
    }
}

impl Reading {
    pub(super) fn new(statement: &CopyStatement, table: Arc<Table>) -> Reading {
        let is_binary = statement.format == CopyFormat::Binary;
        Reading {
            packer: Packer::new(table, statement),
            parser: Parser::new(statement),
            skips_header: statement.header && !is_binary,
            matches_header: statement.match_header,
            buffer: Vec::new(),
            fields: Fields::default(),
            line: 0,
            ended: false,
            failed: false,
        }
    }

    /// How much the defaults, checks and filter that are evaluated draw on.
    pub(super) fn volatility(&self) -> Volatility {
        self.packer.volatility()
    }

    /// What is evaluated for each row.
    pub(super) fn evaluated(&self) -> impl Iterator<Item = &Expr> {
        self.packer.evaluated()
    }

    /// See [`super::CopyReader::rows_at_most`].
    pub(super) fn rows_at_most(&self, data: &[u8]) -> usize {
        let ends = match &self.parser {
            Parser::Text(_) | Parser::Csv(_) => data.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count(),
            // A record has the number of its fields, and the length of each.
            Parser::Binary(_) => data.len() / (size_of::<i16>() + size_of::<i32>() * self.packer.fields()) + 1,
        };
        ends + 1
    }

    /// Takes the next piece of data and appends its rows to `packed`.
    pub(super) fn take_in(&mut self, data: &[u8], evaluation: &EvalContext<'_>, packed: &mut Packed) {
        self.take(data, false, evaluation, packed);
    }

    /// The data is over: what is left may be a last record without a newline.
    pub(super) fn finish(&mut self, evaluation: &EvalContext<'_>, packed: &mut Packed) {
        self.take(&[], true, evaluation, packed);
        // The end may come between two records instead of the trailer; of a record, at least its count makes it one.
        if let Parser::Binary(parser) = &self.parser
            && !self.ended
            && !self.failed
            && !(parser.past_header() && self.buffer.len() < size_of::<i16>())
        {
            let message = if parser.past_header() {
                "unexpected EOF in COPY data"
            } else {
                "COPY file signature not recognized"
            };
            packed.failure = Some(bad_format(message));
        }
        self.ended = true;
    }

    fn take(&mut self, data: &[u8], at_end: bool, evaluation: &EvalContext<'_>, packed: &mut Packed) {
        if self.ended && !self.failed && matches!(self.parser, Parser::Binary(_)) && !data.is_empty() {
            packed.failure = Some(self.behind_trailer());
            self.failed = true;
        }
        if self.ended || self.failed {
            return;
        }
        if self.buffer.is_empty() {
            let used = self.consume(data, at_end, evaluation, packed);
            self.buffer.extend_from_slice(&data[used..]);
        } else {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.extend_from_slice(data);
            let used = self.consume(&buffer, at_end, evaluation, packed);
            buffer.drain(..used);
            self.buffer = buffer;
        }
    }

    /// Packs the records of `data`; returns how many bytes are dealt with.
    fn consume(&mut self, data: &[u8], at_end: bool, evaluation: &EvalContext<'_>, packed: &mut Packed) -> usize {
        let mut used = 0;
        loop {
            match self.next_record(&data[used..], at_end, evaluation, &mut packed.rows) {
                Ok(0) => return used,
                Ok(bytes) => used += bytes,
                Err(error) => {
                    packed.failure = Some(error);
                    self.failed = true;
                    return used;
                }
            }
        }
    }

    /// The text formats pass over what stands behind their end marker, the binary one does not.
    fn behind_trailer(&self) -> Error {
        bad_format("received copy data after EOF marker").with_context(place_of(&self.packer.table, self.line + 1))
    }

    /// Deals with the first record; returns its bytes, 0 if it is not complete.
    fn next_record(
        &mut self,
        data: &[u8],
        at_end: bool,
        evaluation: &EvalContext<'_>,
        rows: &mut PackedRows,
    ) -> Result<usize> {
        let record = match &mut self.parser {
            Parser::Text(parser) => parser.parse(data, at_end, &mut self.fields),
            Parser::Csv(parser) => parser.parse(data, at_end, &mut self.fields),
            Parser::Binary(parser) if !parser.past_header() => {
                return Ok(parser.parse_header(data)?.unwrap_or(0));
            }
            Parser::Binary(parser) => parser.parse(data, self.packer.columns.len(), &mut self.fields),
        };
        match record {
            Err(error) => Err(error.with_context(place_of(&self.packer.table, self.line + 1))),
            Ok(Record::Incomplete) if data.len() > RECORD_BYTES_MAX => {
                let message = format!("a record of COPY is longer than {RECORD_BYTES_MAX} bytes");
                Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
            }
            Ok(Record::Incomplete) => Ok(0),
            Ok(Record::End) => {
                self.ended = true;
                if matches!(self.parser, Parser::Binary(_)) && data.len() > size_of::<i16>() {
                    return Err(self.behind_trailer());
                }
                Ok(0)
            }
            Ok(Record::Unterminated { lines }) => {
                let place = place_of(&self.packer.table, self.line + lines);
                let place = format!("{place}: \"{}\"", shown(data));
                Err(bad_format("unterminated CSV quoted field").with_context(place))
            }
            Ok(Record::Row { bytes, lines }) => {
                self.line += lines;
                if self.skips_header {
                    self.skips_header = false;
                    if self.matches_header {
                        self.packer.check_header(&data[..bytes], &self.fields)?;
                    }
                } else {
                    self.packer
                        .pack(&data[..bytes], &self.fields, self.line, evaluation, rows)?;
                }
                Ok(bytes)
            }
        }
    }
}
