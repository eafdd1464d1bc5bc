//! COPY FROM: a state machine that is fed pieces of data, packs rows, and places them.

use super::binary::BinaryParser;
use super::csv::CsvParser;
use super::fields::{Fields, LineEnd, Record, bad_format};
use super::packed::{PackedRows, Packer, shown};
use super::place_of;
use super::text::TextParser;
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::constraints::unique_violation;
use crate::executor::keys::new_row_key;
use crate::executor::referential::Effects;
use crate::executor::rows::{insert_row, lay_row};
use crate::statement::{CopyFormat, CopyStatement};
use rubato_base::{Error, Key, Result, SqlState, TableId};
use rubato_formula::EvalContext;
use rubato_protocol::{FormulaDatabase, Outcome, Stop};

/// The longest record taken.
const RECORD_BYTES_MAX: usize = 256 << 20;
/// Rows after which foreign keys to other tables are checked.
const EFFECTS_BATCH_ROWS: usize = 4096;

/// COPY FROM under way: [`CopyReader::pack`] turns data into rows, [`CopyReader::place`] puts them into the partition.
///
/// Any stop but [`Stop::Wait`] ends it: the transaction, or the statement's part of it, is to be rolled back, so that nothing is
/// loaded. On `Stop::Wait` the reader has undone the one row that must wait: do *not* undo the statement, and go on with
/// `place` when the transaction is woken.
pub struct CopyReader {
    packer: Packer,
    parser: Parser,
    skips_header: bool,
    is_volatile: bool,
    is_self_referring: bool,
    /// Rows are laid in storage that nobody else knows, instead of being inserted.
    lays_rows: bool,
    buffer: Vec<u8>,
    fields: Fields,
    waiting: PackedRows,
    /// What is wrong with the data behind the waiting rows: told once these are placed, for one of them may be wrong too.
    failure: Option<Error>,
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
            }),
            CopyFormat::Binary => Parser::Binary(BinaryParser::default()),
        }
    }
}

impl CopyReader {
    /// A reader for a COPY FROM statement.
    pub fn new(statement: &CopyStatement) -> Result<CopyReader> {
        let table = statement
            .table
            .clone()
            .ok_or_else(|| Error::internal("COPY FROM without a table"))?;
        let is_binary = statement.format == CopyFormat::Binary;
        let is_self_referring = table.foreign_keys.iter().any(|key| key.referenced_table == table.name);
        let packer = Packer::new(table, &statement.columns, is_binary);
        Ok(CopyReader {
            is_volatile: packer.is_volatile(),
            packer,
            parser: Parser::new(statement),
            skips_header: statement.header && !is_binary,
            is_self_referring,
            lays_rows: false,
            buffer: Vec::new(),
            fields: Fields::default(),
            waiting: PackedRows::default(),
            failure: None,
            effects: Effects::default(),
            line: 0,
            rows: 0,
            ended: false,
        })
    }

    /// Rows inserted so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether [`CopyReader::pack`] must be called by whoever holds the partition: a default takes numbers from a sequence.
    pub fn packs_in_partition(&self) -> bool {
        self.is_volatile
    }

    /// Rows are to be laid (see `FormulaDatabase::lay_row`) in the table's storage and that of its indexes, if these are empty storage that
    /// only this transaction knows, so that there may be more of them than memory holds. Before the first data. The table must have
    /// no foreign keys, and no savepoint may be open: nothing takes such a row back but the end of the transaction.
    pub fn lay_rows(&mut self, database: &mut FormulaDatabase) {
        let table = &self.packer.table;
        self.lays_rows = table.foreign_keys.is_empty() && database.lay_down(&storage_of(table));
    }

    /// Takes the next piece of data, which may end anywhere, and packs its rows. Keeps what is not a whole record yet. What is
    /// wrong with the data is told by [`CopyReader::place`].
    pub fn pack(&mut self, data: &[u8], evaluation: &EvalContext<'_>) {
        self.take_in(data, false, evaluation);
    }

    /// Inserts the rows that were packed.
    pub fn place(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        while self.place_first(context)? {}
        self.failure.take().map_or(Ok(()), |error| Err(Stop::Fail(error)))
    }

    /// The data is over: inserts a last record without a newline and checks foreign keys. Returns the number of rows.
    pub fn finish(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<u64> {
        self.take_in(&[], true, context.evaluation);
        self.place(context)?;
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
        if self.lays_rows {
            context.database.finish_laying(&storage_of(&self.packer.table))?;
        }
        self.effects.settle_all(context)?;
        Ok(self.rows)
    }

    fn take_in(&mut self, data: &[u8], at_end: bool, evaluation: &EvalContext<'_>) {
        if self.ended || self.failure.is_some() {
            return;
        }
        if self.buffer.is_empty() {
            let used = self.consume(data, at_end, evaluation);
            self.buffer.extend_from_slice(&data[used..]);
        } else {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.extend_from_slice(data);
            let used = self.consume(&buffer, at_end, evaluation);
            buffer.drain(..used);
            self.buffer = buffer;
        }
    }

    /// Packs the records of `data`; returns how many bytes are dealt with.
    fn consume(&mut self, data: &[u8], at_end: bool, evaluation: &EvalContext<'_>) -> usize {
        let mut used = 0;
        loop {
            match self.next_record(&data[used..], at_end, evaluation) {
                Ok(0) => return used,
                Ok(bytes) => used += bytes,
                Err(error) => {
                    self.failure = Some(error);
                    return used;
                }
            }
        }
    }

    /// Deals with the first record; returns its bytes, 0 if it is not complete.
    fn next_record(&mut self, data: &[u8], at_end: bool, evaluation: &EvalContext<'_>) -> Result<usize> {
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
                } else {
                    let (fields, rows) = (&self.fields, &mut self.waiting);
                    self.packer.pack(&data[..bytes], fields, self.line, evaluation, rows)?;
                }
                Ok(bytes)
            }
        }
    }

    /// Inserts the first of the waiting rows; false if there is none.
    fn place_first(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let Some(first) = self.waiting.first() else {
            return Ok(false);
        };
        let table = &self.packer.table;
        let in_context = |error: Error| error.with_context(place_of(table, first.line));
        let savepoint = context.database.savepoint(context.transaction);
        let key = if first.key.is_empty() {
            new_row_key(table, &first.row, context).map_err(in_context)?
        } else {
            Key::from_bytes(first.key)
        };
        let placed = if self.lays_rows {
            lay_row(table, &key, &first.row, context)
        } else {
            insert_row(table, &key, first.row.to_row(), &first.row, None, context)
        };
        match placed {
            Ok(None) => {}
            Ok(Some(conflict)) => {
                let error = unique_violation(table, conflict.index, &first.row, context.evaluation.text);
                return Err(Stop::Fail(in_context(error)));
            }
            Err(Stop::Wait(wait)) => {
                context.database.undo_statement(context.transaction, savepoint);
                return Err(Stop::Wait(wait));
            }
            Err(Stop::Fail(error)) => return Err(Stop::Fail(in_context(error))),
            Err(stop) => return Err(stop),
        }
        if !table.foreign_keys.is_empty() {
            self.effects.row_added(table, &first.row);
        }
        self.rows += 1;
        self.waiting.advance();
        if !self.is_self_referring && self.effects.referring_count() >= EFFECTS_BATCH_ROWS {
            self.effects.settle_all(context)?;
        }
        Ok(true)
    }
}

/// The storage of a table and of its indexes.
fn storage_of(table: &Table) -> Vec<TableId> {
    let indexes = table.indexes.iter().map(|index| index.id);
    std::iter::once(table.id).chain(indexes).collect()
}
