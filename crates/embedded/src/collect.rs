//! Answers gathered as values.

use rubato_base::text_format::TextContext;
use rubato_base::{DataType, Error, Row, Value};
use rubato_sql::client::{Format, OutputColumn, Responder, RowsDigest, TransactionStatus};
use std::any::Any;

/// Rows of a statement of a block that are summed up, in case the block has to be run again.
const ROWS_SUMMED_MAX: usize = 1_000;

/// What one statement answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The names of the columns (simple statements only).
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// The command tag, for example `UPDATE 1`.
    pub tag: String,
    /// Data of COPY TO STDOUT.
    pub copied: Vec<u8>,
}

impl Output {
    /// Rows affected or returned, as the tag says.
    pub fn affected(&self) -> u64 {
        self.tag
            .rsplit(' ')
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap_or(0)
    }
}

/// A responder that keeps what it is told.
#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) outputs: Vec<Output>,
    pub(crate) current: Output,
    pub(crate) error: Option<Error>,
    pub(crate) wants_copy_data: bool,
    pub(crate) in_transaction: bool,
    pub(crate) parameter_types: Vec<DataType>,
}

impl Collector {
    pub(crate) fn clear(&mut self) {
        self.outputs.clear();
        self.current = Output::default();
        self.error = None;
        self.wants_copy_data = false;
    }
}

impl Responder for Collector {
    fn parse_complete(&mut self) {}
    fn bind_complete(&mut self) {}
    fn close_complete(&mut self) {}
    fn no_data(&mut self) {}
    fn parameter_description(&mut self, types: &[DataType]) {
        self.parameter_types = types.to_vec();
    }

    fn row_description(&mut self, columns: &[OutputColumn], _: &[Format]) {
        self.current.columns = columns.iter().map(|column| column.name.clone()).collect();
    }

    fn data_row(&mut self, values: &[Value], _: &[OutputColumn], _: &[Format], _: &TextContext) {
        self.current.rows.push(values.to_vec());
    }

    fn command_complete(&mut self, tag: &str) {
        self.current.tag.push_str(tag);
        self.outputs.push(std::mem::take(&mut self.current));
    }

    fn empty_query(&mut self) {}
    fn portal_suspended(&mut self) {}

    fn error(&mut self, error: &Error) {
        self.error.get_or_insert_with(|| error.clone());
    }

    fn notice(&mut self, severity: &'static str, notice: &Error) {
        tracing::debug!(severity, %notice, "notice");
    }

    fn ready_for_query(&mut self, status: TransactionStatus) {
        self.in_transaction = status != TransactionStatus::Idle;
    }

    fn parameter_status(&mut self, _: &str, _: &str) {}

    fn copy_in(&mut self, _: Format, _: usize) {
        self.wants_copy_data = true;
    }

    fn copy_out(&mut self, _: Format, _: usize) {}

    fn copy_data(&mut self, data: &[u8]) {
        self.current.copied.extend_from_slice(data);
    }

    fn copy_done(&mut self) {}

    fn buffered_bytes(&self) -> usize {
        // Rows are taken by the caller in one piece: nothing is to be sent before. What is counted only marks a place.
        self.current.rows.len().min(rubato_sql::session::RESPONSE_BYTES_MAX / 2)
    }

    fn rows_digest(&self, rows: usize) -> Option<u64> {
        let mut digest = RowsDigest::default();
        let since = self.current.rows.get(rows..)?;
        if since.len() > ROWS_SUMMED_MAX {
            return None;
        }
        since
            .iter()
            .for_each(|row| digest.add(Row::from_values(row).as_ref().as_bytes()));
        Some(digest.sum())
    }

    fn truncate(&mut self, rows: usize) {
        self.current.rows.truncate(rows);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
