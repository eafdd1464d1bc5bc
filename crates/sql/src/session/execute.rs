//! The transaction stage's begin, and the stages that run plans.

use super::environment::SessionEnvironment;
use super::extended::output_of;
use super::{
    Block, Current, Next, Origin, READER_WAIT_US_MAX, RESPONSE_BYTES_MAX, SLICE_ROWS_MAX, Session, SessionContext,
    ToBind,
};
use crate::binder::BindSettings;
use crate::catalog::Catalog;
use crate::client::Responder;
use crate::executor::{Cursor, ExecutionContext, Limits, Progress};
use crate::partition::{Partition, SequenceValues};
use crate::plan::{Plan, PlanBody};
use crate::statement::Statement;
use rubato_base::text_format::TextContext;
use rubato_base::{Error, SqlState, TransactionId, Value};
use rubato_formula::EvalContext;
use rubato_protocol::{CommitPolicy, Stop, Wait, WaitReason};
use rubato_stages::StageKind;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

impl BindSettings for Session {
    fn text_context(&self) -> TextContext {
        self.text.clone()
    }
}

/// Runs `work` with everything that expressions may see of the session.
pub(super) fn with_evaluation<T>(
    session: &mut Session,
    catalog: &Catalog,
    sequences: &mut SequenceValues,
    parameters: &[Value],
    times_us: (i64, i64),
    work: impl FnOnce(&EvalContext<'_>) -> T,
) -> T {
    let environment = SessionEnvironment {
        catalog,
        sequences: RefCell::new(sequences),
        taken: RefCell::new(&mut session.taken),
        settings: RefCell::new(&mut session.settings),
        identity: &session.identity,
        random_state: Cell::new(session.random_state),
        clock_us: times_us.1,
        asked_id: Cell::new(session.asked_id),
        depends_on: Cell::new(session.durable_at),
    };
    let evaluation = EvalContext {
        parameters,
        text: &session.text,
        statement_time_us: times_us.0,
        environment: &environment,
    };
    let result = work(&evaluation);
    session.random_state = environment.random_state.get();
    session.asked_id = environment.asked_id.get();
    session.durable_at = environment.depends_on.get();
    result
}

impl Session {
    /// The stage that runs the current plan: the last one of its relay. On one node the earlier stages' steps are functions
    /// that it calls, since their rows are in the same partition.
    pub(super) fn execution_stage(&self) -> StageKind {
        let Some(current) = &self.current else {
            return StageKind::Parser;
        };
        if current.tag.is_some() {
            return StageKind::Transaction;
        }
        match &current.statement {
            Statement::Planned(plan) => stage_of(plan),
            _ => StageKind::Transaction,
        }
    }

    /// The transaction stage: begins what has to begin, runs what is not planned, ends what has run.
    pub fn on_transaction(
        &mut self,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Next {
        if let Some(next) = self.stop_cancelled(partition, context, responder) {
            return next;
        }
        let Some(current) = &mut self.current else {
            return Next::To(StageKind::Parser);
        };
        if current.tag.is_some() {
            return self.finish(partition, responder);
        }
        if self.block == Block::Explicit && self.replay.is_none() && self.transaction.is_none() {
            self.replay = Some(Vec::new());
        }
        match current.statement.clone() {
            Statement::Empty => {
                responder.empty_query();
                self.current = None;
                Next::To(StageKind::Parser)
            }
            Statement::Utility(utility) => match self.run_utility(&utility, partition, context, responder) {
                Ok(next) => next,
                Err(Stop::Wait(wait)) => self.park(&wait, context),
                Err(Stop::Abort(error) | Stop::Fail(error)) => self.fail(error, partition, responder),
            },
            Statement::Planned(plan) => self.begin_planned(&plan, partition, context, responder),
        }
    }

    fn begin_planned(
        &mut self,
        plan: &Arc<Plan>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Next {
        let catalog = self.catalog(partition);
        let Some(current) = &mut self.current else {
            return Next::To(StageKind::Parser);
        };
        if current.catalog_version != catalog.version && !is_current(plan, &catalog) {
            self.to_bind = Some(ToBind::Again);
            return Next::To(StageKind::Optimizer);
        }
        current.catalog_version = catalog.version;
        if !matches!(plan.body, PlanBody::Select(_))
            && let Err(error) = partition.admit_write()
        {
            return self.fail(error, partition, responder);
        }
        let alone_and_reading = current.alone && plan.read_only;
        if current.describe && !plan.output.is_empty() && current.cursor.is_none() {
            current.describe = false;
            current.mark = responder.buffered_bytes();
            responder.row_description(&plan.output, &current.formats);
        }
        let id = self.ensure_transaction(partition, alone_and_reading, context.now_us);
        self.text.now_us = self.transaction_time_us(context.now_us);
        let savepoint = partition.database.savepoint(id);
        if let Some(current) = &mut self.current {
            current.savepoint = Some(savepoint);
            if current.cursor.is_none() {
                current.cursor = Some(Box::new(Cursor::new(Arc::clone(plan))));
                current.mark = responder.buffered_bytes();
            }
        }
        if !plan.read_only {
            self.note_written(plan);
        }
        Next::To(stage_of(plan))
    }

    /// Keeps the versions of the tables that a writing statement was planned for: commit checks them.
    fn note_written(&mut self, plan: &Plan) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        for (name, version) in &plan.table_versions {
            if !transaction.written_versions.iter().any(|(other, _)| other == name) {
                transaction.written_versions.push((name.clone(), *version));
            }
        }
    }

    /// The query, update, join and aggregation stages: runs the current plan until it is done, has to wait, or has answered
    /// as much as should be sent first.
    pub fn on_execution(
        &mut self,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Next {
        if let Some(next) = self.stop_cancelled(partition, context, responder) {
            return next;
        }
        let Some(mut current) = self.current.take() else {
            return Next::To(StageKind::Parser);
        };
        let Some(transaction) = self.transaction.as_ref().map(|transaction| transaction.id) else {
            self.current = Some(current);
            return Next::To(StageKind::Transaction);
        };
        let outcome = self.run_cursor(&mut current, transaction, partition, context.limits, responder);
        let parameters_hold_rows = current.rows;
        match outcome {
            Ok(Progress::Complete(completion)) => {
                current.tag = Some(completion.to_string());
                self.current = Some(current);
                self.deadline_us = None;
                self.finish(partition, responder)
            }
            Ok(Progress::Suspended) => {
                let at_limit = parameters_hold_rows >= current.max_rows;
                current.streamed |= !at_limit;
                self.current = Some(current);
                if let Err(error) = self.note_sequences(partition) {
                    return self.fail(error, partition, responder);
                }
                if at_limit {
                    if let Some(current) = &mut self.current {
                        current.rows = 0;
                    }
                    let lsn = if self.block == Block::Explicit {
                        Default::default()
                    } else {
                        self.read_depends_on(partition)
                    };
                    self.raise_durable(lsn);
                    self.suspend_portal(responder);
                    return Next::To(StageKind::Parser);
                }
                if self.block != Block::Explicit {
                    let lsn = self.read_depends_on(partition);
                    self.raise_durable(lsn);
                }
                self.deadline_us = self.statement_deadline_us();
                Next::Yield
            }
            Err(stop) => {
                let savepoint = current.savepoint;
                self.current = Some(current);
                if let Some(savepoint) = savepoint {
                    partition.database.undo_statement(transaction, savepoint);
                }
                match stop {
                    Stop::Wait(wait) => self.park(&wait, context),
                    Stop::Abort(error) => self.run_again(error, partition, responder),
                    Stop::Fail(error) => self.fail(error, partition, responder),
                }
            }
        }
    }

    fn run_cursor(
        &mut self,
        current: &mut Current,
        transaction: TransactionId,
        partition: &mut Partition,
        limits: Limits,
        responder: &mut dyn Responder,
    ) -> rubato_protocol::Outcome<Progress> {
        let Some(mut cursor) = current.cursor.take() else {
            return Err(Stop::Fail(Error::internal("a statement has lost its cursor")));
        };
        let catalog = self.catalog(partition);
        let text = self.text.clone();
        let Partition {
            database,
            sequences,
            row_numbers,
            insight,
            ..
        } = partition;
        let (statement, formats) = (&current.statement, &current.formats);
        let columns = output_of(statement);
        let silent = current.origin == Origin::Replay;
        let left = current.max_rows - current.rows.min(current.max_rows);
        let rows = &mut current.rows;
        let parameters = Arc::clone(&current.parameters);
        let times_us = (current.started_us, current.started_us);
        let rows_left = match cursor.plan().body {
            PlanBody::Select(ref select) if select.lock.is_none() => SLICE_ROWS_MAX,
            _ => ExecutionContext::UNBOUNDED,
        };
        let outcome = with_evaluation(self, &catalog, sequences, &parameters, times_us, |evaluation| {
            let mut execution = ExecutionContext {
                database,
                transaction,
                catalog: &catalog,
                evaluation,
                row_numbers,
                limits,
                rows_left,
                insight,
            };
            let packed = cursor.run_packed(&mut execution, left, &mut |row, places| {
                *rows += 1;
                if !silent {
                    responder.packed_row(row, places, &columns, formats, &text);
                }
            })?;
            if let Some(progress) = packed {
                return Ok(progress);
            }
            cursor.run(&mut execution, left, &mut |values| {
                *rows += 1;
                if !silent {
                    responder.data_row(values, &columns, formats, &text);
                }
                responder.buffered_bytes() < RESPONSE_BYTES_MAX
            })
        });
        current.cursor = Some(cursor);
        outcome
    }

    /// When the statement under way is to be cancelled.
    pub(super) fn statement_deadline_us(&self) -> Option<i64> {
        let started_us = self.current.as_ref()?.started_us;
        self.settings
            .timeout_us("statement_timeout")
            .map(|limit| started_us + limit)
    }

    /// Parks the session until the transaction that it waits for has ended.
    pub(super) fn park(&mut self, wait: &Wait, context: &SessionContext<'_>) -> Next {
        self.note_wait(wait);
        let statement = self.statement_deadline_us();
        let lock = self
            .settings
            .timeout_us("lock_timeout")
            .map(|limit| context.now_us + limit);
        let reader = self.waits_for_reader.then_some(context.now_us + READER_WAIT_US_MAX);
        self.deadline_us = [statement, lock, reader].into_iter().flatten().min();
        Next::Park(self.execution_stage())
    }

    pub(super) fn note_wait(&mut self, wait: &Wait) {
        self.waits_for_reader = wait.reason == WaitReason::Reader;
    }

    /// Whether the statement under way has been cancelled or has run out of time.
    fn stop_cancelled(
        &mut self,
        partition: &mut Partition,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        if self.cancelled.is_none()
            && let Some(deadline_us) = self.deadline_us
            && context.now_us >= deadline_us
        {
            self.deadline_us = None;
            if std::mem::take(&mut self.waits_for_reader) {
                if let Some(transaction) = &self.transaction {
                    partition.database.stop_waiting(transaction.id);
                    partition
                        .database
                        .set_commit_policy(transaction.id, CommitPolicy::Optimistic);
                }
            } else {
                self.cancelled = Some(self.timeout_error(context.now_us));
            }
        }
        let error = self.cancelled.take()?;
        if let Some(transaction) = &self.transaction {
            partition.database.stop_waiting(transaction.id);
        }
        Some(self.fail(error, partition, responder))
    }

    fn timeout_error(&self, now_us: i64) -> Error {
        let started_us = self.current.as_ref().map_or(now_us, |current| current.started_us);
        match self.settings.timeout_us("statement_timeout") {
            Some(limit) if now_us >= started_us + limit => {
                Error::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")
            }
            _ => Error::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"),
        }
    }
}

/// The verb of a planned statement, as its tag has it.
pub(super) fn verb(plan: &Plan) -> &'static str {
    match plan.body {
        PlanBody::Select(_) => "SELECT",
        PlanBody::Insert(_) => "INSERT",
        PlanBody::Update(_) => "UPDATE",
        PlanBody::Delete(_) => "DELETE",
    }
}

/// Whether the plan's tables are as they were when it was made.
fn is_current(plan: &Plan, catalog: &Catalog) -> bool {
    plan.table_versions
        .iter()
        .all(|(name, version)| catalog.tables.get(name).is_some_and(|table| table.version == *version))
}

fn stage_of(plan: &Plan) -> StageKind {
    match &plan.body {
        PlanBody::Select(select) if select.aggregate.is_some() || !select.order_by.is_empty() || select.distinct => {
            StageKind::Aggregation
        }
        PlanBody::Select(select) if select.steps.len() > 1 => StageKind::Join,
        PlanBody::Select(_) => StageKind::Query,
        _ => StageKind::Update,
    }
}
