//! Records turned into packed rows and keys, without the partition: what COPY has read and not placed yet.

use super::fields::{Fields, bad_format, text_of, whole_text};
use super::place_of;
use crate::catalog::Table;
use crate::executor::constraints::{check_conditions, check_row};
use crate::executor::keys::row_key;
use crate::statement::{CopyFormat, CopyStatement};
use rubato_base::binary_format::parse_binary;
use rubato_base::codec::encode_value;
use rubato_base::text_format::encode_text;
use rubato_base::{ColumnSet, Result, RowRef, pack_columns};
use rubato_formula::{EvalContext, Expr, ListSets, Volatility};
use std::ops::Range;
use std::sync::Arc;

/// Rows side by side in one allocation, with their keys.
#[derive(Debug, Default)]
pub(super) struct PackedRows {
    bytes: Vec<u8>,
    /// Where each row ends, where its key ends, and the line that it came from.
    rows: Vec<(usize, usize, u64)>,
    /// How many of them are done with, and where the bytes of the next begin.
    done: usize,
    from: usize,
}

/// A row that is not done with.
pub(super) struct Waiting<'a> {
    pub(super) row: RowRef<'a>,
    /// Its primary key; empty if the table has none.
    pub(super) key: &'a [u8],
    pub(super) line: u64,
}

impl PackedRows {
    pub(super) fn first(&self) -> Option<Waiting<'_>> {
        self.get(0)
    }

    /// The row that is so far behind the first.
    pub(super) fn get(&self, distance: usize) -> Option<Waiting<'_>> {
        let place = self.done + distance;
        let (row_end, key_end, line) = *self.rows.get(place)?;
        let from = match distance {
            0 => self.from,
            _ => self.rows[place - 1].1,
        };
        Some(Waiting {
            row: RowRef::trusted(&self.bytes[from..row_end]),
            key: &self.bytes[row_end..key_end],
            line,
        })
    }

    /// The first row is done with.
    pub(super) fn advance(&mut self) {
        self.from = self.rows[self.done].1;
        self.done += 1;
        if self.done == self.rows.len() {
            self.bytes.clear();
            self.rows.clear();
            (self.done, self.from) = (0, 0);
        }
    }
}

/// Packs the records of one table.
pub(super) struct Packer {
    pub(super) table: Arc<Table>,
    /// The table's columns in the order of the data.
    pub(super) columns: Vec<usize>,
    /// Columns that the data does not have and what they become.
    defaults: Vec<(usize, Expr)>,
    not_null: Vec<usize>,
    is_binary: bool,
    /// What a row must satisfy to be taken.
    filter: Option<Expr>,
    lists: ListSets,
    /// The columns of the row under way, encoded, and where each lies.
    encoded: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Packer {
    /// For the statement's data, which has these columns (all of the table if none are named).
    pub(super) fn new(table: Arc<Table>, statement: &CopyStatement) -> Packer {
        let columns = &statement.columns;
        let live = |number: &usize| !table.columns[*number].dropped;
        let all = 0..table.columns.len();
        let is_given = |number: &usize| live(number) && table.columns[*number].generated.is_none();
        let columns: Vec<usize> = if columns.is_empty() {
            all.clone().filter(is_given).collect()
        } else {
            columns.clone()
        };
        let missing = all.clone().filter(|number| live(number) && !columns.contains(number));
        let defaults = missing
            .filter_map(|number| Some((number, table.columns[number].default.clone()?)))
            .collect();
        let not_null = all
            .filter(|number| live(number) && table.columns[*number].not_null)
            .collect();
        Packer {
            defaults,
            not_null,
            columns,
            is_binary: statement.format == CopyFormat::Binary,
            filter: statement.filter.clone(),
            lists: ListSets::default(),
            encoded: Vec::new(),
            ranges: vec![0..0; table.columns.len()],
            table,
        }
    }

    /// What defaults, checks and the filter draw on: volatile ones on what belongs to the partition (sequences), or they differ from call to call.
    pub(super) fn volatility(&self) -> Volatility {
        let all = self.evaluated().map(Expr::volatility);
        all.max().unwrap_or(Volatility::Immutable)
    }

    /// The defaults, checks and the filter.
    pub(super) fn evaluated(&self) -> impl Iterator<Item = &Expr> {
        let defaults = self.defaults.iter().map(|default| &default.1);
        let checks = self.table.checks.iter().map(|check| &check.condition);
        defaults.chain(checks).chain(&self.filter)
    }

    /// How many fields a record has.
    pub(super) fn fields(&self) -> usize {
        self.columns.len()
    }

    /// Whether the first line names the columns: 22P04 if not.
    pub(super) fn check_header(&self, record: &[u8], fields: &Fields) -> Result<()> {
        let fail = |message: String| Err(bad_format(message).with_context(self.place_of_record(record, 1)));
        let (found, expected) = (fields.len(), self.columns.len());
        if found != expected {
            return fail(format!(
                "wrong number of fields in header line: got {found}, expected {expected}"
            ));
        }
        for (place, column) in self.columns.iter().enumerate() {
            let name = &self.table.columns[*column].name;
            let number = place + 1;
            match fields.get(place, record) {
                Some(field) if field == name.as_bytes() => {}
                Some(field) => {
                    let got = String::from_utf8_lossy(field);
                    return fail(format!(
                        "column name mismatch in header line field {number}: got \"{got}\", expected \"{name}\""
                    ));
                }
                None => {
                    return fail(format!(
                        "column name mismatch in header line field {number}: got null value, expected \"{name}\""
                    ));
                }
            }
        }
        Ok(())
    }

    /// Packs one record and appends it to `rows`, checked for everything but keys that others may hold or refer to.
    pub(super) fn pack(
        &mut self,
        record: &[u8],
        fields: &Fields,
        line: u64,
        evaluation: &EvalContext<'_>,
        rows: &mut PackedRows,
    ) -> Result<()> {
        self.encode(record, fields, line, evaluation)?;
        let start = rows.bytes.len();
        let columns = self.ranges.iter().map(|range| &self.encoded[range.clone()]);
        pack_columns(columns, &mut rows.bytes);
        let row_end = rows.bytes.len();
        let row = RowRef::trusted(&rows.bytes[start..]);
        let taken = self.takes(row, evaluation);
        if !taken.map_err(|error| error.with_context(self.place_of_record(record, line)))? {
            rows.bytes.truncate(start);
            return Ok(());
        }
        let checked = if self.not_null.iter().any(|column| self.ranges[*column].is_empty()) {
            check_row(&self.table, &row, ColumnSet::ALL, evaluation)
        } else {
            check_conditions(&self.table, &row, ColumnSet::ALL, evaluation)
        };
        checked.map_err(|error| error.with_context(self.place_of_record(record, line)))?;
        if !self.table.primary_key.is_empty() {
            let key = row_key(&self.table, &row, || 0);
            let key = key.map_err(|error| error.with_context(place_of(&self.table, line)))?;
            rows.bytes.extend_from_slice(key.as_bytes());
        }
        rows.rows.push((row_end, rows.bytes.len(), line));
        Ok(())
    }

    fn takes(&self, row: RowRef<'_>, evaluation: &EvalContext<'_>) -> Result<bool> {
        let Some(filter) = &self.filter else { return Ok(true) };
        let evaluation = EvalContext {
            lists: Some(&self.lists),
            ..*evaluation
        };
        filter.is_true(&row, &evaluation)
    }

    fn encode(&mut self, record: &[u8], fields: &Fields, line: u64, evaluation: &EvalContext<'_>) -> Result<()> {
        if fields.len() > self.columns.len() {
            let error = bad_format("extra data after last expected column");
            return Err(error.with_context(self.place_of_record(record, line)));
        }
        self.encoded.clear();
        let text = if self.is_binary { None } else { whole_text(record) };
        for place in 0..self.columns.len() {
            let column = self.columns[place];
            if place >= fields.len() {
                let name = &self.table.columns[column].name;
                let error = bad_format(format!("missing data for column \"{name}\""));
                return Err(error.with_context(self.place_of_record(record, line)));
            }
            let start = self.encoded.len();
            let part = text.and_then(|text| fields.part_of(place, text));
            if let Some(bytes) = fields.get(place, record)
                && let Err(error) = self.encode_field(column, bytes, part, evaluation)
            {
                return Err(error.with_context(self.place_of_field(column, bytes, line)));
            }
            self.ranges[column] = start..self.encoded.len();
        }
        for (column, default) in &self.defaults {
            let start = self.encoded.len();
            encode_value(&default.evaluate(&(), evaluation)?, &mut self.encoded);
            self.ranges[*column] = start..self.encoded.len();
        }
        self.generate(evaluation)
            .map_err(|error| error.with_context(self.place_of_record(record, line)))
    }

    /// Encodes the generated columns, which are made of the others.
    fn generate(&mut self, evaluation: &EvalContext<'_>) -> Result<()> {
        let table = Arc::clone(&self.table);
        let mut generated = table.generated_columns().peekable();
        if generated.peek().is_none() {
            return Ok(());
        }
        // What they were in the row before is not to be looked at.
        for (column, _) in table.generated_columns() {
            self.ranges[column] = 0..0;
        }
        let mut given = Vec::new();
        pack_columns(self.ranges.iter().map(|range| &self.encoded[range.clone()]), &mut given);
        for (column, own) in generated {
            let value = own.expr.evaluate(&RowRef::trusted(&given), evaluation)?;
            let start = self.encoded.len();
            encode_value(&value, &mut self.encoded);
            self.ranges[column] = start..self.encoded.len();
        }
        Ok(())
    }

    /// Encodes a field; `text` is the same if that is known to be text.
    fn encode_field(
        &mut self,
        column: usize,
        bytes: &[u8],
        text: Option<&str>,
        evaluation: &EvalContext<'_>,
    ) -> Result<()> {
        let column_type = self.table.columns[column].column_type;
        if self.is_binary {
            let value = parse_binary(column_type.data_type, column_type.modifier, bytes, evaluation.text)?;
            encode_value(&value, &mut self.encoded);
            return Ok(());
        }
        let text = text.map_or_else(|| text_of(bytes), Ok)?;
        encode_text(column_type, text, evaluation.text, &mut self.encoded)
    }

    fn place_of_record(&self, record: &[u8], line: u64) -> String {
        if self.is_binary {
            return place_of(&self.table, line);
        }
        let end = record
            .iter()
            .rposition(|byte| !matches!(byte, b'\n' | b'\r'))
            .map_or(0, |last| last + 1);
        format!("{}: \"{}\"", place_of(&self.table, line), shown(&record[..end]))
    }

    fn place_of_field(&self, column: usize, bytes: &[u8], line: u64) -> String {
        let place = format!(
            "{}, column {}",
            place_of(&self.table, line),
            self.table.columns[column].name
        );
        if self.is_binary {
            place
        } else {
            format!("{place}: \"{}\"", shown(bytes))
        }
    }
}

/// The longest piece of the data shown in an error's context.
const SHOWN_BYTES_MAX: usize = 100;

/// Data as an error's context shows it.
pub(super) fn shown(bytes: &[u8]) -> String {
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
