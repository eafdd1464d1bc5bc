//! COPY FROM: a state machine that is fed pieces of data and inserts rows.

use super::binary::BinaryParser;
use super::csv::CsvParser;
use super::fields::{Fields, LineEnd, Record, bad_format, text_of};
use super::text::TextParser;
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::constraints::{check_row, unique_violation};
use crate::executor::keys::new_row_key;
use crate::executor::referential::Effects;
use crate::executor::rows::insert_row;
use crate::statement::{CopyFormat, CopyStatement};
use rubato_base::binary_format::parse_binary;
use rubato_base::text_format::parse_text;
use rubato_base::{ColumnSet, Error, Result, Row, SqlState, Value};
use rubato_formula::Expr;
use rubato_protocol::{Outcome, Stop};
use std::sync::Arc;

/// The longest record taken.
const RECORD_BYTES_MAX: usize = 256 << 20;
/// The longest piece of the data shown in an error's context.
const SHOWN_BYTES_MAX: usize = 100;
/// Rows after which foreign keys to other tables are checked.
const EFFECTS_BATCH_ROWS: usize = 4096;

/// COPY FROM under way.
///
/// Any stop but [`Stop::Wait`] ends it: the transaction, or the statement's part of it, is to be rolled back, so that nothing is
/// loaded. On `Stop::Wait` the reader has undone the one row that must wait: do *not* undo the statement, and go on with
/// `feed(&[])`, or `finish` again, when the transaction is woken.
pub struct CopyReader {
    table: Arc<Table>,
    columns: Vec<usize>,
    /// Columns that the data does not have and what they become.
    defaults: Vec<(usize, Expr)>,
    parser: Parser,
    skips_header: bool,
    is_self_referring: bool,
    buffer: Vec<u8>,
    fields: Fields,
    values: Vec<Value>,
    effects: Effects,
    line: u64,
    rows: u64,
    ended: bool,
}

enum Parser {
    Text(TextParser),
    Csv(CsvParser),
    Binary(BinaryParser),
}

impl CopyReader {
    /// A reader for a COPY FROM statement.
    pub fn new(statement: &CopyStatement) -> Result<CopyReader> {
        let table = statement
            .table
            .clone()
            .ok_or_else(|| Error::internal("COPY FROM without a table"))?;
        let null = statement.null.as_bytes().to_vec();
        let parser = match statement.format {
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
            }),
            CopyFormat::Binary => Parser::Binary(BinaryParser::default()),
        };
        let columns = if statement.columns.is_empty() {
            (0..table.columns.len())
                .filter(|column| !table.columns[*column].dropped)
                .collect()
        } else {
            statement.columns.clone()
        };
        let missing = table
            .columns
            .iter()
            .enumerate()
            .filter(|(number, column)| !column.dropped && !columns.contains(number));
        let defaults = missing
            .filter_map(|(number, column)| Some((number, column.default.clone()?)))
            .collect();
        let is_self_referring = table.foreign_keys.iter().any(|key| key.referenced_table == table.name);
        Ok(CopyReader {
            values: vec![Value::Null; table.columns.len()],
            defaults,
            columns,
            parser,
            skips_header: statement.header && statement.format != CopyFormat::Binary,
            is_self_referring,
            buffer: Vec::new(),
            fields: Fields::default(),
            effects: Effects::default(),
            line: 0,
            rows: 0,
            ended: false,
            table,
        })
    }

    /// Rows inserted so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes the next piece of data, which may end anywhere. Keeps what is not a whole record yet, or could not be inserted yet.
    pub fn feed(&mut self, data: &[u8], context: &mut ExecutionContext<'_>) -> Outcome<()> {
        self.take_in(data, false, context)
    }

    /// The data is over: inserts a last record without a newline and checks foreign keys. Returns the number of rows.
    pub fn finish(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<u64> {
        self.take_in(&[], true, context)?;
        if let Parser::Binary(parser) = &self.parser
            && !self.ended
        {
            let message = if parser.past_header() {
                "unexpected EOF in COPY data"
            } else {
                "COPY file signature not recognized"
            };
            return Err(Stop::Fail(bad_format(message)));
        }
        self.effects.settle(context)?;
        Ok(self.rows)
    }

    fn take_in(&mut self, data: &[u8], at_end: bool, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        if self.ended {
            return Ok(());
        }
        if self.buffer.is_empty() {
            let (used, outcome) = self.consume(data, at_end, context);
            self.buffer.extend_from_slice(&data[used..]);
            outcome
        } else {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.extend_from_slice(data);
            let (used, outcome) = self.consume(&buffer, at_end, context);
            buffer.drain(..used);
            self.buffer = buffer;
            outcome
        }
    }

    /// Inserts the records of `data`; returns how many bytes are dealt with.
    fn consume(&mut self, data: &[u8], at_end: bool, context: &mut ExecutionContext<'_>) -> (usize, Outcome<()>) {
        let mut used = 0;
        loop {
            match self.next_record(&data[used..], at_end, context) {
                Ok(0) => return (used, Ok(())),
                Ok(bytes) => used += bytes,
                Err(stop) => return (used, Err(stop)),
            }
        }
    }

    /// Deals with the first record; returns its bytes, 0 if it is not complete.
    fn next_record(&mut self, data: &[u8], at_end: bool, context: &mut ExecutionContext<'_>) -> Outcome<usize> {
        let record = match &mut self.parser {
            Parser::Text(parser) => parser.parse(data, at_end, &mut self.fields),
            Parser::Csv(parser) => parser.parse(data, at_end, &mut self.fields),
            Parser::Binary(parser) if !parser.past_header() => {
                return Ok(parser.parse_header(data)?.unwrap_or(0));
            }
            Parser::Binary(parser) => parser.parse(data, self.columns.len(), &mut self.fields),
        };
        match record {
            Err(error) => Err(Stop::Fail(error.with_context(self.place(self.line + 1)))),
            Ok(Record::Incomplete) if data.len() > RECORD_BYTES_MAX => {
                let message = format!("a record of COPY is longer than {RECORD_BYTES_MAX} bytes");
                Err(Stop::Fail(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)))
            }
            Ok(Record::Incomplete) => Ok(0),
            Ok(Record::End) => {
                self.ended = true;
                Ok(0)
            }
            Ok(Record::Unterminated { lines }) => {
                let place = format!("{}: \"{}\"", self.place(self.line + lines), shown(data));
                Err(Stop::Fail(
                    bad_format("unterminated CSV quoted field").with_context(place),
                ))
            }
            Ok(Record::Row { bytes, lines }) => {
                if self.skips_header {
                    self.skips_header = false;
                } else {
                    self.load(&data[..bytes], self.line + lines, context)?;
                }
                self.line += lines;
                Ok(bytes)
            }
        }
    }

    /// Inserts one record.
    fn load(&mut self, record: &[u8], line: u64, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        self.parse_fields(record, line, context)?;
        for (column, default) in &self.defaults {
            self.values[*column] = default.evaluate(&(), context.evaluation)?;
        }
        if let Err(error) = check_row(&self.table, self.values.as_slice(), ColumnSet::ALL, context.evaluation) {
            return Err(Stop::Fail(error.with_context(self.place_of_record(record, line))));
        }
        let savepoint = context.database.savepoint(context.transaction);
        let key = new_row_key(&self.table, self.values.as_slice(), context)
            .map_err(|error| error.with_context(self.place(line)))?;
        let row = Row::from_values(&self.values);
        match insert_row(&self.table, &key, row, self.values.as_slice(), None, context) {
            Ok(None) => {}
            Ok(Some(conflict)) => {
                let error = unique_violation(&self.table, conflict.index, &self.values, context.evaluation.text);
                return Err(Stop::Fail(error.with_context(self.place(line))));
            }
            Err(Stop::Wait(wait)) => {
                context.database.rollback_to(context.transaction, savepoint);
                return Err(Stop::Wait(wait));
            }
            Err(Stop::Fail(error)) => return Err(Stop::Fail(error.with_context(self.place(line)))),
            Err(stop) => return Err(stop),
        }
        self.rows += 1;
        if !self.table.foreign_keys.is_empty() {
            self.effects.row_added(&self.table, &self.values);
            if !self.is_self_referring && self.effects.referring_count() >= EFFECTS_BATCH_ROWS {
                self.effects.settle(context)?;
            }
        }
        Ok(())
    }

    fn parse_fields(&mut self, record: &[u8], line: u64, context: &ExecutionContext<'_>) -> Result<()> {
        if self.fields.len() > self.columns.len() {
            let error = bad_format("extra data after last expected column");
            return Err(error.with_context(self.place_of_record(record, line)));
        }
        for place in 0..self.columns.len() {
            let column = self.columns[place];
            if place >= self.fields.len() {
                let error = bad_format(format!(
                    "missing data for column \"{}\"",
                    self.table.columns[column].name
                ));
                return Err(error.with_context(self.place_of_record(record, line)));
            }
            let value = match self.fields.get(place, record) {
                None => Value::Null,
                Some(bytes) => match self.parse_value(column, bytes, context) {
                    Ok(value) => value,
                    Err(error) => return Err(error.with_context(self.place_of_field(column, bytes, line))),
                },
            };
            self.values[column] = value;
        }
        Ok(())
    }

    fn parse_value(&self, column: usize, bytes: &[u8], context: &ExecutionContext<'_>) -> Result<Value> {
        let column_type = self.table.columns[column].column_type;
        if matches!(self.parser, Parser::Binary(_)) {
            return parse_binary(column_type.data_type, column_type.modifier, bytes);
        }
        parse_text(
            column_type.data_type,
            column_type.modifier,
            text_of(bytes)?,
            context.evaluation.text,
        )
    }

    fn place(&self, line: u64) -> String {
        format!("COPY {}, line {line}", self.table.name)
    }

    fn place_of_record(&self, record: &[u8], line: u64) -> String {
        if matches!(self.parser, Parser::Binary(_)) {
            return self.place(line);
        }
        let end = record
            .iter()
            .rposition(|byte| !matches!(byte, b'\n' | b'\r'))
            .map_or(0, |last| last + 1);
        format!("{}: \"{}\"", self.place(line), shown(&record[..end]))
    }

    fn place_of_field(&self, column: usize, bytes: &[u8], line: u64) -> String {
        let place = format!("{}, column {}", self.place(line), self.table.columns[column].name);
        if matches!(self.parser, Parser::Binary(_)) {
            place
        } else {
            format!("{place}: \"{}\"", shown(bytes))
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= SHOWN_BYTES_MAX {
        return text.into_owned();
    }
    let end = (0..=SHOWN_BYTES_MAX)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    format!("{}...", &text[..end])
}
