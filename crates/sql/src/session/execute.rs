//! The transaction stage's begin, and the stages that run plans.

use super::anew::Anew;
use super::away::{Course, begun_elsewhere};
use super::environment::SessionEnvironment;
use super::extended::output_of;
use super::kept_open::OpenThings;
use super::pause::{Pause, PauseView};
use super::place::Place;
use super::running::Part;
use super::shown::ShownModes;
use super::{Block, Current, Next, Origin, READER_WAIT_US_MAX, RESPONSE_BYTES_MAX, Session, SessionContext, ToBind};
use crate::advisory::AdvisoryLocks;
use crate::binder::{BindSettings, SearchPath};
use crate::catalog::{Catalog, RelationName, SchemaId, Table};
use crate::client::{Request, Responder};
use crate::executor::{Completion, Cursor, Progress, StatementKind};
use crate::insight::Insight;
use crate::partition::{Partition, SequenceValues};
use crate::plan::{Plan, PlanBody};
use crate::statement::Statement;
use rubato_base::text_format::TextContext;
use rubato_base::{Error, SqlState, TransactionId, Value};
use rubato_formula::EvalContext;
use rubato_protocol::{CommitPolicy, Outcome, Stop, Wait, WaitReason};
use rubato_stages::StageKind;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

impl BindSettings for Session {
    fn text_context(&self) -> TextContext {
        self.text.clone()
    }

    fn search_path(&self) -> SearchPath {
        self.set_path()
    }
}

/// What functions change outside of transactions, and what they look into.
pub(super) type Outside<'a> = (&'a mut SequenceValues, &'a mut AdvisoryLocks, &'a Insight);

/// Runs `work` with everything that expressions may see of the session.
pub(super) fn with_evaluation<T>(
    session: &mut Session,
    catalog: &Catalog,
    (sequences, advisory, insight): Outside<'_>,
    parameters: &[Value],
    times_us: (i64, i64),
    work: impl FnOnce(&EvalContext<'_>) -> T,
) -> T {
    let path = session.path_in(catalog);
    let (actions, listened) = session.channels.parts_mut();
    let modes = ShownModes::new(&session.modes, &session.settings);
    let environment = SessionEnvironment {
        catalog,
        path,
        sequences: RefCell::new(sequences),
        taken: RefCell::new(&mut session.taken),
        settings: RefCell::new(&mut session.settings),
        modes,
        identity: &session.identity,
        insight,
        random: Cell::new(session.random),
        clock_us: times_us.1,
        turn: RefCell::default(),
        asked_id: Cell::new(session.asked_id),
        depends_on: Cell::new(session.durable_at),
        pauses: PauseView::new(
            &mut session.pauses,
            advisory,
            (session.id, session.identity.database_id),
            session.now_us,
        ),
        channels: RefCell::new(actions),
        open: OpenThings {
            prepared: &session.prepared,
            portals: &session.portals,
            channels: listened,
        },
    };
    let evaluation = EvalContext {
        parameters,
        text: &session.text,
        statement_time_us: times_us.0,
        environment: &environment,
        lists: None,
        sizes: None,
        answers: &[],
        outer: &[],
        subqueries: None,
    };
    let result = work(&evaluation);
    session.random = environment.random.get();
    session.asked_id = environment.asked_id.get();
    session.durable_at = environment.depends_on.get();
    session.settings.shape(&mut session.text);
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
            // Without a cursor it has yet to begin.
            Statement::Planned(plan) if current.cursor.is_some() => stage_of(plan),
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
        self.now_us = context.now_us;
        if let Some(next) = self.stop_cancelled(partition, context, responder) {
            return next;
        }
        let Some(current) = &mut self.current else {
            return Next::To(StageKind::Parser);
        };
        if let Some(error) = current.failure.take() {
            return self.refuse(error, partition, responder);
        }
        if current.tag.is_some() {
            return self.finish(partition, responder);
        }
        if let Err(error) = self.check_within_block() {
            return self.fail(error, partition, responder);
        }
        self.follow_temporary(partition);
        if let Course::Away(next) = self.on_away(partition, responder) {
            return next;
        }
        let Some(current) = &mut self.current else {
            return Next::To(StageKind::Parser);
        };
        if self.block == Block::Explicit && !self.replay.is_kept() && self.transaction.is_none() && self.away.is_none()
        {
            self.replay.begin();
            self.taken.drawn.forget();
        }
        match current.statement.clone() {
            Statement::Empty => {
                responder.empty_query();
                self.current = None;
                Next::To(StageKind::Parser)
            }
            Statement::Elsewhere => {
                let lost = Error::internal("a text for another node has come to none");
                self.fail(lost, partition, responder)
            }
            Statement::Utility(utility) => match self.run_utility(&utility, partition, context, responder) {
                Ok(next) => next,
                Err(stop) => match self.or_deadlock(stop, partition) {
                    Stop::Wait(wait) => self.park(&wait),
                    Stop::Abort(error) => self.run_again(error, partition, responder),
                    Stop::Fail(_) if self.pauses.pause == Some(Pause::Table) => self.park_for_lock(),
                    Stop::Fail(error) => self.refuse(error, partition, responder),
                },
            },
            Statement::Planned(plan) => match self.begin_planned(&plan, partition, context, responder) {
                Ok(next) => next,
                Err(Stop::Wait(wait)) => {
                    self.wait_until(&wait);
                    Next::Park(StageKind::Transaction)
                }
                Err(Stop::Abort(error)) => self.run_again(error, partition, responder),
                Err(Stop::Fail(error)) => self.fail(error, partition, responder),
            },
        }
    }

    fn begin_planned(
        &mut self,
        plan: &Arc<Plan>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        self.check_temporary(partition);
        let catalog = self.catalog(partition);
        let path = self.path_in(&catalog);
        self.see_enums(&catalog);
        let Some(current) = &mut self.current else {
            return Ok(Next::To(StageKind::Parser));
        };
        // One that has begun goes on with the tables as it found them, as between two slices.
        let has_begun = current.cursor.as_ref().is_some_and(|cursor| cursor.has_begun());
        let may_differ = current.catalog_version != catalog.version || plan.path != path.searched;
        if !has_begun && may_differ && !is_current(plan, &catalog, &path.searched) {
            self.to_bind = Some(ToBind::Again);
            return Ok(Next::To(StageKind::Optimizer));
        }
        current.catalog_version = catalog.version;
        let alone_and_reading = current.alone && plan.read_only;
        let begins_anew = current.cursor.is_none() && self.is_to_begin_anew(plan, partition);
        let is_anew = begins_anew || self.is_anew();
        if is_anew && let Some(current) = &mut self.current {
            (current.anew, current.cursor) = (Some(Anew::Table), None);
        }
        let place = match is_anew {
            true => self.place_of_laying(partition)?,
            false => self.place_of(plan, partition)?,
        };
        match place {
            Place::At(node) => return Ok(self.send_away(node, partition, responder)),
            Place::Moves(node) => return Ok(self.move_to_keeper(begun_elsewhere(node), partition, responder)),
            Place::Here | Place::Nowhere if is_anew => return self.lay_table_anew(plan, partition, context, responder),
            Place::Here | Place::Nowhere => {}
        }
        let writes = !has_begun && !matches!(plan.body, PlanBody::Select(_));
        if writes {
            partition.admit_write()?;
        }
        let id = match place {
            Place::Nowhere => self.ensure_private_transaction(partition, context.now_us),
            _ => self.ensure_transaction(partition, alone_and_reading, context.now_us)?,
        };
        self.see_definitions(&plan.table_versions, partition)?;
        self.note_used(plan);
        if writes {
            self.note_written(&plan.table_versions, partition)?;
            if let Some(next) = self.read_portals_ahead(partition, context)? {
                return Ok(next);
            }
        }
        if !has_begun {
            self.begin_drawing(partition);
            self.see_other_sessions(plan, partition)?;
        }
        // Each FETCH from a cursor has its own.
        if self.current.as_ref().is_some_and(|current| current.numbers.is_none()) {
            self.fetch_numbers(plan, &catalog, partition)?;
        }
        let Some(current) = &mut self.current else {
            return Ok(Next::To(StageKind::Parser));
        };
        if current.describe && plan.returns_rows() {
            current.describe = false;
            responder.row_description(&plan.output, &current.formats);
            // They are told once, whatever is taken back of the rows.
            current.mark = responder.buffered_bytes();
        }
        self.text.now_us = self.transaction_time_us(context.now_us);
        let savepoint = self.begin_statement(id, partition);
        if let Some(current) = &mut self.current {
            current.savepoint = Some(savepoint);
            if current.cursor.is_none() {
                let cursor = match current.anew {
                    Some(_) => Cursor::laying(Arc::clone(plan)),
                    None => Cursor::new(Arc::clone(plan)),
                };
                current.cursor = Some(Box::new(cursor));
                current.mark = responder.buffered_bytes();
            }
        }
        Ok(Next::To(stage_of(plan)))
    }

    /// Waits for those who change the tables that a statement writes to, and keeps the versions of the tables that it was planned
    /// for: commit checks them.
    pub(super) fn note_written(&mut self, tables: &[(RelationName, u64)], partition: &mut Partition) -> Outcome<()> {
        let catalog = self.catalog(partition);
        self.see_schema_of_related(tables, &catalog, partition)?;
        let Some(transaction) = &mut self.transaction else {
            return Ok(());
        };
        for (name, version) in tables {
            let is_noted = transaction.written_versions.iter().any(|(other, _)| other == name);
            // A name that was looked for in vain is no table.
            if is_noted || *version == 0 || catalog.views.contains_key(name) {
                continue;
            }
            for table in with_followers(name, &catalog) {
                partition.database.announce_write(transaction.id, table.id)?;
            }
            transaction.written_versions.push((name.clone(), *version));
        }
        Ok(())
    }

    /// The query, update, join and aggregation stages: runs the current plan until it is done, has to wait, or has answered
    /// as much as should be sent first.
    pub fn on_execution(
        &mut self,
        requests: &VecDeque<Request>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Next {
        self.now_us = context.now_us;
        if let Some(next) = self.stop_cancelled(partition, context, responder) {
            return next;
        }
        let numbers = self.have_numbers(partition);
        let Some(mut current) = self.current.take() else {
            return Next::To(StageKind::Parser);
        };
        let Some(transaction) = self.transaction.as_ref().map(|transaction| transaction.id) else {
            self.current = Some(current);
            return Next::To(StageKind::Transaction);
        };
        if let Some(error) = current.failure.take() {
            self.current = Some(current);
            return self.refuse(error, partition, responder);
        }
        // Behind a statement that waits for others there may be more to ask for.
        self.holds_questions = !requests.is_empty();
        let outcome = numbers.and_then(|()| self.run_cursor(&mut current, transaction, partition, context, responder));
        self.holds_questions = false;
        if !matches!(outcome, Err(Stop::Wait(_))) {
            self.ask_others(partition);
        }
        let parameters_hold_rows = current.rows;
        let outcome = outcome.and_then(|progress| {
            // Who has waited for a lock is to see what its last holder did.
            if self.was_given_locks() && self.block != Block::None && !self.is_read_only() {
                partition.database.catch_up(transaction)?;
            }
            Ok(progress)
        });
        match outcome {
            Ok(Progress::Complete(completion)) => {
                if current.fetch.is_some() {
                    self.current = Some(current);
                    return self.end_fetch(true, partition, responder);
                }
                // A portal that was read with a row limit tells how many rows came last.
                let rows = match (&current.origin, &current.statement) {
                    (Origin::Portal(_), Statement::Planned(plan)) if plan.returns_rows() => current.rows as u64,
                    _ => completion.rows,
                };
                let told = current.told_tag.map(str::to_owned);
                current.tag = Some(told.unwrap_or_else(|| Completion { rows, ..completion }.to_string()));
                self.current = Some(current);
                self.deadline_us = None;
                self.finish(partition, responder)
            }
            Ok(Progress::Suspended) => {
                let at_limit = parameters_hold_rows >= current.max_rows;
                match at_limit {
                    true => current.holds = false,
                    false => current.hold_or_stream(responder.buffered_bytes()),
                }
                let is_more = current.streamed && current.origin == Origin::Replay;
                self.current = Some(current);
                // The client was shown less, and nothing of this is to go out.
                if is_more {
                    return self.comes_out_otherwise(partition, responder);
                }
                if let Err(error) = self.note_sequences(partition) {
                    return self.fail(error, partition, responder);
                }
                if at_limit && self.current.as_ref().is_some_and(|current| current.fetch.is_some()) {
                    return self.end_fetch(false, partition, responder);
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
                    self.end_record(partition, "");
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
                let savepoint = current.savepoint.clone();
                self.current = Some(current);
                if matches!(stop, Stop::Wait(_)) {
                    self.ask_for_later(requests, partition, context);
                    self.ask_others(partition);
                }
                let stop = self.or_deadlock(stop, partition);
                if matches!(stop, Stop::Fail(_))
                    && let Some(next) = self.pause(partition, responder)
                {
                    return next;
                }
                if let Stop::Fail(error) = &stop
                    && self.may_go_anew(error, false, partition)
                {
                    return self.go_anew(error.clone(), partition, responder);
                }
                // What has to wait has undone what must wait, and goes on there.
                if let Some(savepoint) = savepoint.filter(|_| !matches!(stop, Stop::Wait(_))) {
                    self.undo_to(&savepoint, partition);
                }
                match stop {
                    Stop::Wait(wait) => self.park(&wait),
                    Stop::Abort(error) => self.run_again(error, partition, responder),
                    Stop::Fail(error) => self.refuse(error, partition, responder),
                }
            }
        }
    }

    /// Tells an error of the current statement, which is undone: once those have committed whose formulas the transaction has read
    /// through (rule Q-7 of the protocol). If one of them does not, it was never so.
    pub(super) fn refuse(&mut self, error: Error, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        let is_open = self.transaction.as_ref().is_some_and(|open| !open.has_ended());
        let settled = if is_open {
            self.confirm_read_through(partition)
        } else {
            Ok(())
        };
        match settled {
            Ok(()) => self.fail(error, partition, responder),
            Err(Stop::Fail(error)) => self.fail(error, partition, responder),
            Err(Stop::Abort(error)) => self.run_again(error, partition, responder),
            Err(Stop::Wait(wait)) => {
                if let Some(current) = &mut self.current {
                    current.failure = Some(error);
                }
                self.park(&wait)
            }
        }
    }

    fn run_cursor(
        &mut self,
        current: &mut Current,
        transaction: TransactionId,
        partition: &mut Partition,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Progress> {
        let Some(mut cursor) = current.cursor.take() else {
            return Err(Stop::Fail(Error::internal("a statement has lost its cursor")));
        };
        let catalog = self.catalog(partition);
        let text = self.text.clone();
        let (statement, formats) = (&current.statement, &current.formats);
        let columns = output_of(statement);
        let silent = self.is_unheard(current) || current.fetch.as_ref().is_some_and(|fetch| fetch.is_move);
        let left = current.max_rows - current.rows.min(current.max_rows);
        let rows = &mut current.rows;
        let parameters = Arc::clone(&current.parameters);
        let times_us = (current.started_us, current.started_us);
        let scroll = current.fetch.as_mut().and_then(|fetch| fetch.scroll.as_mut());
        let limits = match &scroll {
            Some(_) => self.portals.limits_beside(context.limits),
            None => context.limits,
        };
        let part = Part {
            transaction,
            catalog: &catalog,
            parameters: &parameters,
            times_us,
            limits,
            analytics: context.analytics,
        };
        let is_paused = |progress: &Progress| matches!(progress, Progress::Suspended);
        let outcome = self.run_slice(partition, part, context.clock_us, is_paused, |execution| {
            if let Some((scroll, walk)) = scroll {
                return scroll.go(walk, &mut cursor, execution, &mut |values| {
                    *rows += 1;
                    if !silent {
                        responder.data_row(values, &columns, formats, &text);
                    }
                    responder.buffered_bytes() < RESPONSE_BYTES_MAX
                });
            }
            let packed = cursor.run_packed(execution, left, &mut |row, places| {
                *rows += 1;
                if !silent {
                    responder.packed_row(row, places, &columns, formats, &text);
                }
            })?;
            if let Some(progress) = packed {
                return Ok(progress);
            }
            cursor.run(execution, left, &mut |values| {
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
        let limit_us = self.settings.timeout_us("statement_timeout")?;
        Some(self.started_us()? + limit_us)
    }

    /// Since when what is under way runs: a statement, or the commit at the end of a script or at Sync.
    fn started_us(&self) -> Option<i64> {
        let copied = self.copy_in.as_ref().map(|copy| &copy.current);
        let copied = copied.or(self.copy_away.as_ref().map(|copy| &copy.current));
        let current = self.after_replay.as_ref().or(self.current.as_ref()).or(copied);
        current.map(|current| current.started_us).or(self.commit_waits_since_us)
    }

    /// Parks the session until the transaction that it waits for has ended.
    pub(super) fn park(&mut self, wait: &Wait) -> Next {
        self.wait_until(wait);
        Next::Park(self.execution_stage())
    }

    /// Notes how long it may wait.
    pub(super) fn wait_until(&mut self, wait: &Wait) {
        self.waits_for_reader = wait.reason == WaitReason::Reader;
        let statement = self.statement_deadline_us();
        let lock_us = [self.settings.timeout_us("lock_timeout"), self.patience_us()];
        let lock = lock_us.into_iter().flatten().min().map(|limit| self.now_us + limit);
        let reader = self.waits_for_reader.then_some(self.now_us + READER_WAIT_US_MAX);
        self.deadline_us = [statement, lock, reader].into_iter().flatten().min();
    }

    /// Whether the statement under way has been cancelled or has run out of time.
    pub(super) fn stop_cancelled(
        &mut self,
        partition: &mut Partition,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let is_due = self
            .deadline_us
            .is_some_and(|deadline_us| context.now_us >= deadline_us);
        let is_asked = is_due || self.cancelled.is_some();
        // What all nodes have decided to commit is not stopped by anybody.
        if self.commits_far() && !(is_asked && self.gives_up_commit(partition)) {
            return None;
        }
        if self.cancelled.is_none()
            && let Some(deadline_us) = self.deadline_us
            && context.now_us >= deadline_us
        {
            self.deadline_us = None;
            if self.wakes_up(context.now_us) {
                return None;
            }
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
        let error = self.cancel_away(error, partition)?;
        if let Some(transaction) = &self.transaction {
            partition.database.stop_waiting(transaction.id);
        }
        if self.may_go_anew(&error, true, partition) {
            return Some(self.go_anew(error, partition, responder));
        }
        let back = self.go_back(&error, partition, responder);
        back.or_else(|| Some(self.fail(error, partition, responder)))
    }

    /// Cancels the statement under way if it has run out of time: for one that is kept from going on.
    pub fn cancel_if_overdue(&mut self, now_us: i64) {
        if self
            .statement_deadline_us()
            .is_some_and(|deadline_us| deadline_us <= now_us)
        {
            self.cancel(self.timeout_error(now_us));
        }
    }

    pub(super) fn timeout_error(&self, now_us: i64) -> Error {
        let started_us = self.started_us().unwrap_or(now_us);
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
    match StatementKind::of(&plan.body) {
        StatementKind::Select => "SELECT",
        StatementKind::Insert | StatementKind::CreateAs => "INSERT",
        StatementKind::Update => "UPDATE",
        StatementKind::Delete => "DELETE",
        StatementKind::Merge => "MERGE",
    }
}

/// A table and those whose rows its foreign keys take along.
pub(super) fn with_followers<'c>(name: &RelationName, catalog: &'c Catalog) -> SmallVec<[&'c Table; 2]> {
    let mut tables: SmallVec<[&Table; 2]> = catalog.tables.get(name).map(|table| &**table).into_iter().collect();
    let mut next = 0;
    while let Some(table) = tables.get(next).copied() {
        next += 1;
        for (child, _) in &table.referenced_by {
            if let Some(child) = catalog.tables.get(child)
                && !tables.iter().any(|known| known.id == child.id)
            {
                tables.push(child);
            }
        }
    }
    tables
}

/// Whether the plan's tables are as they were when it was made, and are found on the same path.
pub(super) fn is_current(plan: &Plan, catalog: &Catalog, path: &[SchemaId]) -> bool {
    let is_same = |(name, version): &(RelationName, u64)| catalog.plan_version(name) == *version;
    *plan.path == *path && plan.table_versions.iter().all(is_same)
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
