//! The one thing a workload needs of a database: a blocking session that prepares and executes SQL.

use std::fmt;
use std::ops::Range;

/// One blocking session with a database.
///
/// Statements of one session run in the order in which they are given. An error leaves the session usable unless
/// [`ClientError::is_connection_lost`] says otherwise; an open transaction is then aborted and waits for `ROLLBACK`.
pub trait Client {
    /// Handle of a prepared statement; valid for the session that made it, for as long as the session lives.
    type Statement: Copy;

    /// Prepares one statement with parameters `$1`, `$2`, ...; the server infers their types.
    ///
    /// # Errors
    /// What the server says of the text, or a lost connection.
    fn prepare(&mut self, sql: &str) -> Result<Self::Statement, ClientError>;

    /// Executes a prepared statement and returns its rows and the number of rows affected.
    ///
    /// # Errors
    /// The server's error, or a lost connection.
    fn execute(&mut self, statement: Self::Statement, params: &[Param<'_>]) -> Result<Rows, ClientError>;

    /// Executes several statements in order, if the client can in one round trip. One result per call.
    ///
    /// # Errors
    /// The first error; the calls after it were not executed.
    fn execute_batch(&mut self, batch: &Batch<'_, Self::Statement>) -> Result<Vec<Rows>, ClientError> {
        batch
            .calls()
            .map(|(statement, params)| self.execute(statement, params))
            .collect()
    }

    /// Runs SQL text that needs no parameters and whose rows nobody wants.
    ///
    /// # Errors
    /// The server's error, or a lost connection.
    fn simple(&mut self, sql: &str) -> Result<(), ClientError>;

    /// Runs `COPY ... FROM STDIN`. `chunks` fills the (empty) buffer with the next piece and says whether there was one.
    /// Returns the number of rows loaded.
    ///
    /// # Errors
    /// The server's error, or a lost connection; nothing is loaded then.
    fn copy_in(&mut self, sql: &str, chunks: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError>;

    /// Whether a transaction block is open (or failed and waits for `ROLLBACK`). A client that cannot tell says yes.
    fn in_transaction(&self) -> bool {
        true
    }
}

/// Runs `VACUUM ANALYZE` of the tables and `CHECKPOINT` where the server knows them.
pub(crate) fn settle<C: Client>(client: &mut C, tables: &[&str]) -> Result<(), ClientError> {
    let vacuums = tables.iter().map(|table| format!("VACUUM ANALYZE {table}"));
    for sql in vacuums.chain(["CHECKPOINT".to_owned()]) {
        match client.simple(&sql) {
            Err(error) if error.is_connection_lost() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// An exact number: `unscaled / 10^scale`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimal {
    /// All digits, without the point.
    pub unscaled: i64,
    /// Digits after the point.
    pub scale: u8,
}

impl Decimal {
    /// Money in hundredths.
    pub fn from_cents(cents: i64) -> Decimal {
        Decimal {
            unscaled: cents,
            scale: 2,
        }
    }

    /// Reads `-12.340`; `None` if it is no plain decimal number or does not fit.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mut unscaled, mut scale, mut in_fraction, mut seen) = (0i64, 0u8, false, false);
        for byte in digits.bytes() {
            match byte {
                b'0'..=b'9' => {
                    unscaled = unscaled.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                    scale = scale.checked_add(u8::from(in_fraction))?;
                    seen = true;
                }
                b'.' if !in_fraction => in_fraction = true,
                _ => return None,
            }
        }
        seen.then_some(Decimal {
            unscaled: if negative { -unscaled } else { unscaled },
            scale,
        })
    }

    /// The value at another scale, if that loses no digit.
    pub fn at_scale(self, scale: u8) -> Option<i64> {
        let mut unscaled = self.unscaled;
        for _ in self.scale..scale {
            unscaled = unscaled.checked_mul(10)?;
        }
        for _ in scale..self.scale {
            if unscaled % 10 != 0 {
                return None;
            }
            unscaled /= 10;
        }
        Some(unscaled)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.unscaled < 0 { "-" } else { "" };
        let magnitude = self.unscaled.unsigned_abs();
        match 10u64.checked_pow(u32::from(self.scale)) {
            Some(1) => write!(out, "{sign}{magnitude}"),
            Some(unit) => {
                write!(
                    out,
                    "{sign}{}.{:0width$}",
                    magnitude / unit,
                    magnitude % unit,
                    width = usize::from(self.scale)
                )
            }
            None => write!(out, "{sign}0.{magnitude:0width$}", width = usize::from(self.scale)),
        }
    }
}

/// One parameter of a statement. A client converts it to the type the server inferred.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// SQL NULL of any type.
    Null,
    /// For int2, int4, int8 and numeric.
    Int(i64),
    /// For numeric.
    Decimal(Decimal),
    /// For text, varchar and char.
    Text(&'a str),
    /// For timestamp: microseconds since the Unix epoch.
    Timestamp(i64),
}

/// Several calls that need no answer of each other, to be sent in one round trip.
#[derive(Debug)]
pub struct Batch<'a, S> {
    calls: Vec<(S, Range<usize>)>,
    params: Vec<Param<'a>>,
}

impl<'a, S: Copy> Batch<'a, S> {
    /// An empty batch with room for `calls` calls.
    pub fn with_capacity(calls: usize) -> Batch<'a, S> {
        Batch {
            calls: Vec::with_capacity(calls),
            params: Vec::with_capacity(calls * 6),
        }
    }

    /// Adds a call; returns its index among the results.
    pub fn push(&mut self, statement: S, params: &[Param<'a>]) -> usize {
        let start = self.params.len();
        self.params.extend_from_slice(params);
        self.calls.push((statement, start..self.params.len()));
        self.calls.len() - 1
    }

    /// The calls in order.
    pub fn calls(&self) -> impl Iterator<Item = (S, &[Param<'a>])> {
        self.calls
            .iter()
            .map(|(statement, range)| (*statement, &self.params[range.clone()]))
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    Null,
    Int(i64),
    Decimal(Decimal),
    Float(f64),
    Timestamp(i64),
    Text { start: usize, end: usize },
}

/// The answer to one statement: typed cells row by row, and the number of rows affected.
///
/// A client fills it with the `push_` methods, cell after cell; a workload reads it by (row, column), both from 0.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    columns: usize,
    cells: Vec<Cell>,
    text: String,
    affected: u64,
}

impl Rows {
    /// No rows yet, of this many columns.
    pub fn new(columns: usize) -> Rows {
        Rows {
            columns,
            ..Rows::default()
        }
    }

    /// Adds a NULL.
    pub fn push_null(&mut self) {
        self.cells.push(Cell::Null);
    }

    /// Adds an integer (also bool, as 0 or 1).
    pub fn push_int(&mut self, value: i64) {
        self.cells.push(Cell::Int(value));
    }

    /// Adds an exact number.
    pub fn push_decimal(&mut self, value: Decimal) {
        self.cells.push(Cell::Decimal(value));
    }

    /// Adds a floating point number.
    pub fn push_float(&mut self, value: f64) {
        self.cells.push(Cell::Float(value));
    }

    /// Adds a timestamp in microseconds since the Unix epoch.
    pub fn push_timestamp(&mut self, value_us: i64) {
        self.cells.push(Cell::Timestamp(value_us));
    }

    /// Adds text.
    pub fn push_text(&mut self, value: &str) {
        let start = self.text.len();
        self.text.push_str(value);
        self.cells.push(Cell::Text {
            start,
            end: self.text.len(),
        });
    }

    /// Sets the number of rows the command tag names.
    pub fn set_affected(&mut self, affected: u64) {
        self.affected = affected;
    }

    /// Rows the statement inserted, updated, deleted or returned, as the command tag says.
    pub fn affected(&self) -> u64 {
        self.affected
    }

    /// Number of rows returned.
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Whether no row was returned.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a cell is NULL.
    ///
    /// # Errors
    /// There is no such cell.
    pub fn is_null(&self, row: usize, column: usize) -> Result<bool, ClientError> {
        Ok(matches!(self.cell(row, column)?, Cell::Null))
    }

    /// A cell as an integer; an exact number without a fraction will do.
    ///
    /// # Errors
    /// There is no such cell or it is something else.
    pub fn int(&self, row: usize, column: usize) -> Result<i64, ClientError> {
        match self.cell(row, column)? {
            Cell::Int(value) => Ok(value),
            Cell::Decimal(value) => value.at_scale(0).ok_or_else(|| mismatch("integer", row, column)),
            _ => Err(mismatch("integer", row, column)),
        }
    }

    /// A cell as an integer, `None` for NULL.
    ///
    /// # Errors
    /// There is no such cell or it is something else.
    pub fn int_or_null(&self, row: usize, column: usize) -> Result<Option<i64>, ClientError> {
        if self.is_null(row, column)? {
            Ok(None)
        } else {
            self.int(row, column).map(Some)
        }
    }

    /// A cell as an exact number at a scale (2: hundredths).
    ///
    /// # Errors
    /// There is no such cell, it is something else, or it has more digits than that.
    pub fn scaled(&self, row: usize, column: usize, scale: u8) -> Result<i64, ClientError> {
        let value = match self.cell(row, column)? {
            Cell::Int(value) => Decimal {
                unscaled: value,
                scale: 0,
            },
            Cell::Decimal(value) => value,
            _ => return Err(mismatch("number", row, column)),
        };
        value
            .at_scale(scale)
            .ok_or_else(|| mismatch("number of that scale", row, column))
    }

    /// A cell as text.
    ///
    /// # Errors
    /// There is no such cell or it is something else.
    pub fn text(&self, row: usize, column: usize) -> Result<&str, ClientError> {
        match self.cell(row, column)? {
            Cell::Text { start, end } => Ok(&self.text[start..end]),
            _ => Err(mismatch("text", row, column)),
        }
    }

    /// A cell as a timestamp in microseconds since the Unix epoch, `None` for NULL.
    ///
    /// # Errors
    /// There is no such cell or it is something else.
    pub fn timestamp_or_null(&self, row: usize, column: usize) -> Result<Option<i64>, ClientError> {
        match self.cell(row, column)? {
            Cell::Null => Ok(None),
            Cell::Timestamp(value_us) => Ok(Some(value_us)),
            _ => Err(mismatch("timestamp", row, column)),
        }
    }

    /// A cell as a floating point number.
    ///
    /// # Errors
    /// There is no such cell or it is something else.
    pub fn float(&self, row: usize, column: usize) -> Result<f64, ClientError> {
        match self.cell(row, column)? {
            Cell::Float(value) => Ok(value),
            _ => Err(mismatch("float", row, column)),
        }
    }

    fn cell(&self, row: usize, column: usize) -> Result<Cell, ClientError> {
        if column >= self.columns {
            return Err(ClientError::unexpected(format!(
                "there is no column {column}, only {}",
                self.columns
            )));
        }
        let found = row
            .checked_mul(self.columns)
            .and_then(|start| self.cells.get(start + column))
            .copied();
        found.ok_or_else(|| ClientError::unexpected(format!("there is no row {row}, only {}", self.len())))
    }
}

fn mismatch(wanted: &str, row: usize, column: usize) -> ClientError {
    ClientError::unexpected(format!("row {row} column {column} is no {wanted}"))
}

/// Why a statement failed, as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    sqlstate: [u8; 5],
    message: String,
    connection_lost: bool,
}

impl ClientError {
    /// An error the server reported. A code that is not five ASCII characters becomes `XX000`.
    pub fn server(sqlstate: &str, message: impl Into<String>) -> ClientError {
        let sqlstate = sqlstate
            .as_bytes()
            .try_into()
            .ok()
            .filter(|code: &[u8; 5]| code.is_ascii())
            .unwrap_or(*b"XX000");
        ClientError {
            sqlstate,
            message: message.into(),
            connection_lost: false,
        }
    }

    /// The connection is gone; whether the last commit took effect is not known. SQLSTATE 08006.
    pub fn lost(message: impl Into<String>) -> ClientError {
        ClientError {
            sqlstate: *b"08006",
            message: message.into(),
            connection_lost: true,
        }
    }

    /// The answer is not what the workload knows must come (a missing row, another type). SQLSTATE XX000.
    pub fn unexpected(message: impl Into<String>) -> ClientError {
        ClientError::server("XX000", message)
    }

    /// The transaction found, by its own reads, that a concurrent one was there first and must run again.
    /// SQLSTATE 40001, like the server's own finding of the same.
    pub fn overtaken(message: impl Into<String>) -> ClientError {
        ClientError::server("40001", message)
    }

    /// The five characters of the SQLSTATE.
    pub fn sqlstate(&self) -> &str {
        std::str::from_utf8(&self.sqlstate).unwrap_or("XX000")
    }

    /// The server's message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the same transaction may succeed if it is run again: 40001 (serialization) and 40P01 (deadlock).
    pub fn is_retryable(&self) -> bool {
        matches!(&self.sqlstate, b"40001" | b"40P01")
    }

    /// Whether the session is over.
    pub fn is_connection_lost(&self) -> bool {
        self.connection_lost
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (SQLSTATE {})", self.message, self.sqlstate())
    }
}

impl std::error::Error for ClientError {}

/// Attempts at one piece of a load; whoever loads alone meets a conflict with a schema change that goes on, and not often.
const LOAD_ATTEMPTS_MAX: u32 = 20;

/// Runs a piece of a load, of which nothing is there if it fails, and again after a retryable error.
///
/// # Errors
/// What the client reported at last.
pub(crate) fn load_piece<T>(mut piece: impl FnMut() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let mut left = LOAD_ATTEMPTS_MAX;
    loop {
        left -= 1;
        match piece() {
            Err(error) if error.is_retryable() && left > 0 => {}
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_print_and_parse() {
        for text in ["0.00", "-0.05", "300000.00", "12", "-4999.99", "0.1234"] {
            assert_eq!(
                Decimal::parse(text).map(|decimal| decimal.to_string()).as_deref(),
                Some(text)
            );
        }
        for text in ["", "-", ".", "1.2.3", "1e5", "NaN", "99999999999999999999"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::parse("1.50").and_then(|decimal| decimal.at_scale(1)), Some(15));
        assert_eq!(Decimal::parse("1.55").and_then(|decimal| decimal.at_scale(1)), None);
    }

    #[test]
    fn rows_are_read_by_row_and_column() {
        let mut rows = Rows::new(2);
        rows.push_int(7);
        rows.push_text("seven");
        rows.push_null();
        rows.push_text("none");
        assert_eq!(rows.len(), 2);
        assert_eq!((rows.int(0, 0), rows.text(0, 1)), (Ok(7), Ok("seven")));
        assert_eq!((rows.int_or_null(1, 0), rows.text(1, 1)), (Ok(None), Ok("none")));
        assert!(rows.int(2, 0).is_err() && rows.int(0, 2).is_err() && rows.int(0, 1).is_err());
    }

    #[test]
    fn a_piece_of_a_load_is_tried_again_after_a_conflict_only_and_not_for_ever() {
        let mut tries = 0;
        let ended = load_piece(|| {
            tries += 1;
            match tries {
                3 => Ok("loaded"),
                _ => Err(ClientError::overtaken("met another")),
            }
        });
        assert_eq!((ended.ok(), tries), (Some("loaded"), 3));
        for (sqlstate, expected) in [("40001", LOAD_ATTEMPTS_MAX), ("23505", 1)] {
            let mut tries = 0;
            let ended: Result<(), ClientError> = load_piece(|| {
                tries += 1;
                Err(ClientError::server(sqlstate, ""))
            });
            assert_eq!((ended.is_err(), tries), (true, expected));
        }
    }

    #[test]
    fn only_serialization_and_deadlock_are_retryable() {
        assert!(ClientError::server("40001", "").is_retryable());
        assert!(ClientError::server("40P01", "").is_retryable());
        assert!(!ClientError::server("23505", "").is_retryable());
        assert!(!ClientError::lost("gone").is_retryable());
        assert_eq!(ClientError::server("nonsense", "").sqlstate(), "XX000");
    }
}
