//! What a session answers that works for a client of another node: rows for that client, and the end for that node.

use rubato_base::text_format::TextContext;
use rubato_base::{DataType, Error, RowRef, Value};
use rubato_grid::work::WorkOutcome;
use rubato_sql::client::{Format, OutputColumn, Responder, TransactionStatus};

/// How much of what is run is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hears {
    /// All: it is what the client asked for.
    All,
    /// It is of no concern to the client, unless it fails.
    Errors,
    /// It is of no concern to anybody.
    Nothing,
}

/// Keeps how a statement ends to itself, and has another responder write what comes before.
pub(super) struct HostedResponder {
    client: Box<dyn Responder>,
    outcome: Option<WorkOutcome>,
    status: TransactionStatus,
    /// How much of what is run now is heard of.
    pub(super) hears: Hears,
}

impl HostedResponder {
    pub(super) fn new(client: Box<dyn Responder>) -> HostedResponder {
        HostedResponder {
            client,
            outcome: None,
            status: TransactionStatus::Idle,
            hears: Hears::All,
        }
    }

    /// How what was run has ended; `None` if nobody is to hear of that, or it waits for data.
    pub(super) fn take_outcome(&mut self) -> Option<WorkOutcome> {
        self.outcome.take()
    }

    /// Where the transaction stands.
    pub(super) fn status(&self) -> TransactionStatus {
        self.status
    }

    fn end(&mut self, outcome: WorkOutcome) {
        let is_error = matches!(outcome, WorkOutcome::Failed(_));
        let has_failed = matches!(self.outcome, Some(WorkOutcome::Failed(_)));
        if self.hears != Hears::Nothing && (is_error || (self.hears == Hears::All && !has_failed)) {
            self.outcome = Some(outcome);
        }
    }
}

impl Responder for HostedResponder {
    // The client's node has told these.
    fn parse_complete(&mut self) {}

    fn bind_complete(&mut self) {}

    fn close_complete(&mut self) {}

    fn no_data(&mut self) {}

    fn parameter_description(&mut self, _: &[DataType]) {}

    fn row_description(&mut self, columns: &[OutputColumn], formats: &[Format]) {
        self.client.row_description(columns, formats);
    }

    fn data_row(&mut self, values: &[Value], columns: &[OutputColumn], formats: &[Format], context: &TextContext) {
        self.client.data_row(values, columns, formats, context);
    }

    fn packed_row(
        &mut self,
        row: RowRef<'_>,
        places: &[usize],
        columns: &[OutputColumn],
        formats: &[Format],
        context: &TextContext,
    ) {
        self.client.packed_row(row, places, columns, formats, context);
    }

    fn command_complete(&mut self, tag: &str) {
        self.end(WorkOutcome::Tag(tag.to_owned()));
    }

    fn empty_query(&mut self) {
        self.end(WorkOutcome::Empty);
    }

    fn portal_suspended(&mut self) {
        self.end(WorkOutcome::Suspended);
    }

    fn error(&mut self, error: &Error) {
        self.end(WorkOutcome::Failed(error.clone()));
    }

    fn notice(&mut self, severity: &'static str, notice: &Error) {
        if self.hears == Hears::All {
            self.client.notice(severity, notice);
        }
    }

    fn ready_for_query(&mut self, status: TransactionStatus) {
        self.status = status;
    }

    /// The client's own session tells it, which follows what is set here.
    fn parameter_status(&mut self, _: &str, _: &str) {}

    fn copy_in(&mut self, format: Format, columns: usize) {
        self.client.copy_in(format, columns);
    }

    fn copy_out(&mut self, format: Format, columns: usize) {
        self.client.copy_out(format, columns);
    }

    fn copy_data(&mut self, data: &[u8]) {
        self.client.copy_data(data);
    }

    fn copy_done(&mut self) {
        self.client.copy_done();
    }

    fn buffered_bytes(&self) -> usize {
        self.client.buffered_bytes()
    }

    fn rows_digest(&self, bytes: usize) -> Option<u64> {
        self.client.rows_digest(bytes)
    }

    fn truncate(&mut self, bytes: usize) {
        self.client.truncate(bytes);
    }

    fn take_answer(&mut self) -> Vec<u8> {
        self.client.take_answer()
    }

    fn put_answer(&mut self, answer: &[u8]) {
        self.client.put_answer(answer);
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
