//! COPY: data that comes in over many requests, and rows that go out in pieces.

use super::copy_again::{Kept, held_up};
use super::execute::{Outside, with_evaluation};
use super::running::Part;
use super::{Current, Next, PartitionLock, RESPONSE_BYTES_MAX, Session, SessionContext, ToBind};
use crate::advisory::AdvisoryLocks;
use crate::catalog::{Catalog, Table};
use crate::client::{Format, Responder};
use crate::executor::{CopyOut, CopyReader, ExecutionContext};
use crate::insight::Insight;
use crate::partition::{Partition, SequenceValues};
use crate::statement::{CopyFormat, CopyStatement, Statement};
use bytes::Bytes;
use rubato_base::{Error, SqlState};
use rubato_protocol::{Outcome, Stop};
use rubato_stages::StageKind;
use std::sync::Arc;

/// A COPY FROM STDIN under way.
pub(super) struct CopyIn {
    pub(super) reader: Box<CopyReader>,
    /// Its data so far, as long as it may begin anew.
    pub(super) kept: Option<Kept>,
    /// The catalog that the statement was bound to, or what became of it since.
    catalog: Arc<Catalog>,
    /// The statement, which goes on when the data has ended.
    pub(super) current: Current,
    /// What each row takes of sequences that are on another node.
    numbers: Vec<(u32, usize)>,
    /// Data whose rows have yet to get them.
    unread: Option<Bytes>,
    /// No more data comes.
    is_over: bool,
    /// What is left to do when the transaction that it waits for has ended.
    resume: Option<Resume>,
}

#[derive(Clone, Copy, PartialEq)]
enum Resume {
    /// To read the data that has come.
    Read,
    Feed,
    /// To lay the table anew, see `copy_anew.rs`.
    LayAnew,
    Finish,
    /// To finish as well, now that others have had their turn.
    GoOn,
}

impl CopyIn {
    /// Others have their turn before the COPY goes on by itself: its data has ended, or its table is being laid anew.
    pub(super) fn pauses(&self) -> bool {
        matches!(self.resume, Some(Resume::GoOn | Resume::LayAnew))
    }

    /// Its table is being laid anew, which makes room in memory.
    pub(super) fn makes_room(&self) -> bool {
        self.resume == Some(Resume::LayAnew)
    }

    /// Whether no more data comes.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Its table has other storage, in which rows are laid.
    pub(super) fn goes_on_in(&mut self, table: Arc<Table>, catalog: Arc<Catalog>) {
        self.reader.goes_on_in(table);
        self.catalog = catalog;
    }
}

fn wire_format(copy: &CopyStatement) -> Format {
    if copy.format == CopyFormat::Binary {
        Format::Binary
    } else {
        Format::Text
    }
}

impl Session {
    pub(super) fn start_copy(
        &mut self,
        copy: &CopyStatement,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        self.forget_numbers(partition);
        if !copy.from {
            return self.copy_out(copy, partition, context, responder);
        }
        let is_temporary = copy.table.as_ref().is_some_and(|table| table.schema.is_temporary());
        if self.is_read_only() && !is_temporary {
            let message = "cannot execute COPY FROM in a read-only transaction";
            return Err(Stop::Fail(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message)));
        }
        partition.admit_write()?;
        let is_anew = self.is_anew();
        if is_anew && let Some(next) = self.begin_copy_again(partition, responder)? {
            return Ok(next);
        }
        let mut reader = Box::new(CopyReader::new(copy)?);
        let id = self.ensure_transaction(partition, false, context.now_us)?;
        let catalog = self.catalog(partition);
        if !self.has_table_still(&reader, partition) {
            self.to_bind = Some(ToBind::Again);
            return Ok(Next::To(StageKind::Optimizer));
        }
        match (is_anew, &copy.table) {
            // Whoever waits to have a table to himself holds nothing of it.
            (true, _) => self.have_table_to_lay(&reader, partition, context)?,
            (false, Some(table)) => self.note_written(&[(table.key(), table.version)], partition)?,
            (false, None) => {}
        }
        if let Some(next) = self.read_portals_ahead(partition, context)? {
            return Ok(next);
        }
        let savepoint = self.begin_statement(id, partition);
        if let Some(table) = &copy.table
            && !is_anew
            && self.transaction.as_ref().is_some_and(|it| it.savepoints.is_empty())
            && !partition.database.written_tables(id).contains(&table.id)
        {
            reader.lay_rows(&mut partition.database);
        }
        let numbers = self.numbers_of_rows(&reader, &catalog, partition);
        let Some(mut current) = self.current.take() else {
            return Ok(Next::To(StageKind::Parser));
        };
        current.savepoint = Some(savepoint);
        // Its data comes once: it cannot be run again.
        current.streamed = true;
        let mut copy_in = CopyIn {
            reader,
            kept: None,
            catalog,
            current,
            numbers,
            unread: None,
            is_over: false,
            resume: is_anew.then_some(Resume::LayAnew),
        };
        copy_in.kept = self.kept_of(&copy_in, partition);
        if copy_in.kept.is_none() {
            self.replay.forget();
        }
        self.copy_in = Some(copy_in);
        self.deadline_us = self.statement_deadline_us();
        // Of one that begins again the client knows.
        if !is_anew && self.copy_again.is_none() {
            responder.copy_in(wire_format(copy), copy.columns.len());
        }
        Ok(Next::To(StageKind::Parser))
    }

    /// Whether a COPY FROM was cancelled, has run out of time, or had to wait and can go on: its next step.
    pub(super) fn resume_copy<L: PartitionLock>(
        &mut self,
        lock: &L,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        if self.copy_away.is_some() {
            return self.resume_data_away(&mut lock.lock(), context, responder);
        }
        let copy = self.copy_in.as_mut()?;
        let resume = copy.resume.take();
        if self.cancelled.is_none()
            && self
                .deadline_us
                .is_some_and(|deadline_us| context.now_us >= deadline_us)
        {
            self.cancelled = Some(self.timeout_error(context.now_us));
        }
        if self.cancelled.is_none() && resume.is_none() {
            return self.feed_again(lock, context, responder);
        }
        // That of a wait is over.
        self.deadline_us = self.statement_deadline_us();
        let mut partition = lock.lock();
        match resume {
            Some(Resume::Finish | Resume::GoOn) if self.cancelled.is_none() => {
                self.finish_copy(&mut partition, context, responder)
            }
            Some(Resume::Read) if self.cancelled.is_none() => self.read_copied(&mut partition, context, responder),
            Some(Resume::LayAnew) if self.cancelled.is_none() => {
                let copy = self.copy_in.take()?;
                self.go_on_anew(copy, &mut partition, context, responder)
            }
            _ => self.place_copied(&mut partition, context, responder),
        }
    }

    /// Data of a COPY FROM: read here, while others have the partition, and placed in one go.
    pub(super) fn copy_data<L: PartitionLock>(
        &mut self,
        data: Bytes,
        lock: &L,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        // What still comes in behind an error is passed over.
        let mut copy = self.copy_in.take()?;
        copy.keep(&data);
        if copy.reader.packs_in_partition() {
            copy.unread = Some(data);
            self.copy_in = Some(copy);
            return self.read_copied(&mut lock.lock(), context, responder);
        }
        let outside = (
            &mut SequenceValues::default(),
            &mut AdvisoryLocks::default(),
            &Insight::default(),
        );
        self.pack(&mut copy, data, outside, context);
        self.copy_in = Some(copy);
        self.place_copied(&mut lock.lock(), context, responder)
    }

    /// Reads the data that has come, whose rows take what belongs to the partition, or to the node that has the sequences.
    fn read_copied(
        &mut self,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let mut copy = self.copy_in.take()?;
        if let Some(data) = copy.unread.take() {
            let rows = copy.reader.rows_at_most(&data);
            let fetched = match copy.numbers.is_empty() {
                true => Ok(()),
                false => self.have_numbers_for(rows, &copy.numbers, partition),
            };
            if let Err(stop) = fetched {
                copy.unread = Some(data);
                return self.after_copy_step(copy, Err(stop), Resume::Read, partition, responder);
            }
            let Partition {
                sequences,
                advisory,
                insight,
                ..
            } = &mut *partition;
            self.pack(&mut copy, data, (sequences, advisory, &**insight), context);
        }
        self.copy_in = Some(copy);
        self.place_copied(partition, context, responder)
    }

    fn pack(&mut self, copy: &mut CopyIn, data: Bytes, outside: Outside<'_>, context: &SessionContext<'_>) {
        let times_us = (copy.current.started_us, context.now_us);
        with_evaluation(self, &copy.catalog, outside, &[], times_us, |evaluation| {
            copy.reader.pack(data, evaluation);
            if copy.reader.may_read_ahead() {
                copy.reader.read_ahead(context.helpers, evaluation);
            }
        });
    }

    fn place_copied(
        &mut self,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let mut copy = self.copy_in.take()?;
        if let Some(error) = self.cancelled.take().or_else(|| partition.admit_write().err()) {
            if copy.may_go_anew(&error) {
                return Some(self.copy_anew(copy, error, partition, responder));
            }
            self.current = Some(copy.current);
            return Some(self.fail(error, partition, responder));
        }
        let outcome = self.with_copy(&mut copy, partition, context, CopyReader::place);
        if outcome.is_ok() && copy.reader.is_full() {
            if self.is_to_lay_anew(&copy, partition) {
                return self.go_on_anew(copy, partition, context, responder);
            }
            copy.reader.goes_on_pending();
            self.copy_in = Some(copy);
            return self.place_copied(partition, context, responder);
        }
        if outcome.is_ok() && self.is_one_of_many(&mut copy, partition) {
            let error = held_up("It was to begin anew, since it brings many rows.");
            return Some(self.copy_anew(copy, error, partition, responder));
        }
        let outcome = outcome.map(|()| None);
        self.after_copy_step(copy, outcome, Resume::Feed, partition, responder)
    }

    /// Lays the table of a COPY anew; then there is room for more of its rows.
    fn go_on_anew(
        &mut self,
        mut copy: CopyIn,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let resume = match self.lay_anew(&mut copy, partition, context) {
            Ok(true) if copy.is_over => Resume::Finish,
            Ok(true) => Resume::Feed,
            Ok(false) => {
                copy.resume = Some(Resume::LayAnew);
                self.copy_in = Some(copy);
                return Some(Next::Yield);
            }
            Err(stop) => return self.after_copy_step(copy, Err(stop), Resume::LayAnew, partition, responder),
        };
        self.after_copy_step(copy, Ok(None), resume, partition, responder)
    }

    pub(super) fn copy_done<L: PartitionLock>(
        &mut self,
        lock: &L,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        self.finish_copy(&mut lock.lock(), context, responder)
    }

    fn finish_copy(
        &mut self,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let mut copy = self.copy_in.take()?;
        copy.is_over = true;
        let outcome = self.with_copy(&mut copy, partition, context, CopyReader::finish);
        if matches!(outcome, Ok(None)) && copy.reader.is_full() {
            if self.is_to_lay_anew(&copy, partition) {
                return self.go_on_anew(copy, partition, context, responder);
            }
            copy.reader.goes_on_pending();
        }
        self.after_copy_step(copy, outcome, Resume::Finish, partition, responder)
    }

    fn after_copy_step(
        &mut self,
        mut copy: CopyIn,
        outcome: Outcome<Option<u64>>,
        resume: Resume,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        match outcome {
            Ok(None) if resume == Resume::Finish => {
                copy.resume = Some(Resume::GoOn);
                self.copy_in = Some(copy);
                Some(Next::Yield)
            }
            Ok(None) => {
                self.copy_in = Some(copy);
                // By way of the stage, so that memory is looked after and others have their turn.
                Some(Next::To(StageKind::Parser))
            }
            Ok(Some(rows)) => {
                self.keep_until_committed(copy, rows, responder);
                Some(self.finish(partition, responder))
            }
            Err(Stop::Wait(wait)) => {
                copy.resume = Some(resume);
                self.copy_in = Some(copy);
                self.wait_until(&wait);
                Some(Next::Park(StageKind::Parser))
            }
            Err(Stop::Abort(error)) => Some(self.copy_again(copy, error, partition, responder)),
            Err(Stop::Fail(error)) => Some(self.fail_or_copy_again(copy, error, partition, responder)),
        }
    }

    pub(super) fn undo_copy(&mut self, copy: CopyIn, partition: &mut Partition) {
        let savepoint = copy.current.savepoint.clone();
        self.current = Some(copy.current);
        if let Some(savepoint) = savepoint {
            self.undo_to(&savepoint, partition);
        }
    }

    pub(super) fn copy_fail(
        &mut self,
        reason: &str,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let copy = self.copy_in.take()?;
        self.current = Some(copy.current);
        let error = Error::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"));
        Some(self.fail(error, partition, responder))
    }

    fn with_copy<T>(
        &mut self,
        copy: &mut CopyIn,
        partition: &mut Partition,
        context: &SessionContext<'_>,
        work: impl FnOnce(&mut CopyReader, &mut ExecutionContext<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let Some(transaction) = self.transaction.as_ref().map(|transaction| transaction.id) else {
            return Err(Stop::Fail(Error::internal("a COPY without a transaction")));
        };
        let catalog = self.catalog(partition);
        let times_us = (copy.current.started_us, context.now_us);
        let reader = &mut copy.reader;
        let part = Part {
            transaction,
            catalog: &catalog,
            parameters: &[],
            times_us,
            limits: context.limits,
            analytics: None,
        };
        self.run_part(partition, part, ExecutionContext::UNBOUNDED, |execution| {
            work(reader, execution)
        })
    }

    fn copy_out(
        &mut self,
        copy: &CopyStatement,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        let transaction = self.ensure_transaction(partition, false, context.now_us)?;
        let mut versions = Vec::new();
        if let Some(query) = &copy.query {
            query.for_each_table_read(&mut |table| versions.push(table.version));
        }
        self.see_schema(versions.into_iter(), partition)?;
        let mut running = match self.copy_out.take() {
            Some(running) => running,
            None => {
                let Some(Statement::Utility(utility)) = self.current.as_ref().map(|current| &current.statement) else {
                    return Err(Stop::Fail(Error::internal("a COPY without a statement")));
                };
                let running = Box::new(CopyOut::new(utility)?);
                responder.copy_out(wire_format(copy), copy.output.len());
                running
            }
        };
        self.replay.forget();
        let catalog = self.catalog(partition);
        let times_us = (context.now_us, context.now_us);
        let part = Part {
            transaction,
            catalog: &catalog,
            parameters: &[],
            times_us,
            limits: context.limits,
            analytics: context.analytics,
        };
        let rows = self.run_slice(partition, part, context.clock_us, Option::is_none, |execution| {
            running.run(execution, &mut |message| {
                responder.copy_data(message);
                responder.buffered_bytes() < RESPONSE_BYTES_MAX
            })
        });
        if matches!(rows, Err(Stop::Wait(_))) {
            // It goes on where it stands: the client has been told that data comes, and may have some.
            self.copy_out = Some(running);
            if let Some(current) = &mut self.current {
                current.streamed = true;
            }
            return rows.map(|_| Next::Yield);
        }
        let rows = rows?;
        let lsn = self.read_depends_on(partition);
        self.raise_durable(lsn);
        match rows {
            Some(rows) => {
                responder.copy_done();
                Ok(self.answered(format!("COPY {rows}"), partition, responder))
            }
            None => {
                self.copy_out = Some(running);
                self.deadline_us = self.statement_deadline_us();
                if let Some(current) = &mut self.current {
                    current.streamed = true;
                }
                Ok(Next::Yield)
            }
        }
    }
}
