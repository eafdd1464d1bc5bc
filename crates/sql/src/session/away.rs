//! Transactions that run on another node of the grid: the session there does what this one would do, and this one tells its client.
//!
//! The other node's session commits in its own log, runs again by itself what was aborted, and has the cursors and savepoints of the
//! transaction. Here are the client's words (prepared statements, portals' parameters, settings), which go along with each call.

use super::environment::handed_over;
use super::follow::{CursorsAway, MarksAway, goes_along, runs_anywhere};
use super::script::parameter_types;
use super::{Block, Current, Next, Origin, Session};
use crate::catalog::Catalog;
use crate::client::{Responder, TransactionStatus};
use crate::grid::{Answer, Call, Completed, Ended, GridDesk, Home, Run};
use crate::partition::Partition;
use crate::plan::Plan;
use crate::statement::{Statement, Utility};
use rubato_base::{DataType, Error, NodeId, Result, SqlState};
use rubato_stages::StageKind;
use std::sync::Arc;

/// How much longer than the node that runs a statement this one waits before it tells the client that its time is over.
const TIMEOUT_GRACE_US: i64 = 1_000_000;

const LOCK_TIMEOUT: &str = "lock_timeout";

/// A transaction, or a single statement, that runs elsewhere.
pub(super) struct Away {
    node: NodeId,
    /// A transaction has begun there.
    in_block: bool,
    /// An answer is awaited.
    pub(super) waits: bool,
    /// Why what is awaited was cancelled, and until when its answer is awaited all the same: it may have committed.
    pub(super) cancelled: Option<(Error, i64)>,
    /// The catalog that the transaction sees, if it has changes of its own.
    pub(super) catalog: Option<Arc<Catalog>>,
    /// Cursors that were declared there.
    pub(super) cursors: CursorsAway,
    pub(super) marks: MarksAway,
}

impl Away {
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Where.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }
}

/// What the session does with a statement.
pub(super) enum Course {
    /// It runs it itself.
    Here,
    /// It does not, and goes on so.
    Away(Next),
}

impl Session {
    /// Before a statement runs here: whether it runs elsewhere, because its transaction does.
    pub(super) fn on_away(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Course {
        let Some(current) = &self.current else {
            return Course::Here;
        };
        // What a block tells is told in the order of its statements: by whoever runs them.
        let is_told_along = self.block == Block::Explicit && is_notify(&current.statement);
        if !is_told_along && (!goes_along(&current.statement) || self.explains_its_own(&current.statement)) {
            return Course::Here;
        }
        let Some(away) = &self.away else {
            return self.run_at_keeper(partition, responder);
        };
        if self.sets_its_own(partition) {
            return Course::Here;
        }
        if away.waits {
            return Course::Away(self.hear(partition, responder));
        }
        if self.is_of_portal_away(current) {
            return Course::Here;
        }
        let node = away.node;
        Course::Away(self.send_away(node, partition, responder))
    }

    /// Whether another node may know what a text speaks of: the transaction runs there, or would.
    pub(super) fn may_be_known_elsewhere(&self, partition: &Partition) -> bool {
        let keeper = || partition.grid.as_ref().and_then(|desk| desk.keeper());
        self.transaction.is_none() && (self.away.is_some() || keeper().is_some())
    }

    /// Whether the transaction is one of this node: it has begun here, or is run again here under an id that names this node.
    pub(super) fn is_of_this_node(&self) -> bool {
        self.transaction.is_some() || self.asked_id.is_some() || self.begins_later
    }

    /// What is no plan runs on the node that has everything that there is once.
    fn run_at_keeper(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Course {
        // It is rolled back to what is no more there.
        if self.block == Block::Failed {
            return Course::Here;
        }
        match self.home_of_explained(partition) {
            Some(Home::Here) => return Course::Here,
            // As what is not explained: rows of other nodes can be reached.
            Some(Home::At(_)) if self.is_hosted => return Course::Here,
            Some(Home::At(node)) => return Course::Away(self.send_away(node, partition, responder)),
            _ => {}
        }
        let reads_here = |current: &Current| self.has_its_portal(current) || self.holds_rows_here(current, partition);
        if self.current.as_ref().is_some_and(reads_here) {
            return Course::Here;
        }
        let held_at = self
            .current
            .as_ref()
            .and_then(|current| self.node_of_held(&current.statement));
        if let Some(node) = held_at.filter(|_| !self.is_of_this_node()) {
            return Course::Away(self.send_away(node, partition, responder));
        }
        let is_no_plan = |current: &Current| matches!(current.statement, Statement::Utility(_) | Statement::Elsewhere);
        let keeper = partition.grid.as_ref().and_then(|desk| desk.keeper());
        let (Some(node), true) = (keeper, self.current.as_ref().is_some_and(is_no_plan)) else {
            return Course::Here;
        };
        let runs_here = |current: &Current| matches!(&current.statement, Statement::Utility(own) if runs_anywhere(own));
        let is_data = |current: &Current| match &current.statement {
            Statement::Utility(own) => {
                matches!(&**own, Utility::Copy(copy) if !self.copies_with_temporary(copy, partition))
            }
            _ => false,
        };
        let current = self.current.as_ref();
        if current.is_some_and(is_data) || (self.is_of_this_node() && current.is_some_and(runs_here)) {
            return Course::Here;
        }
        if self.is_of_this_node() {
            return Course::Away(self.move_to_keeper(begun_elsewhere(node), partition, responder));
        }
        // Whoever sent it here did not know yet that this node has handed over.
        if self.is_hosted {
            return Course::Away(self.fail(handed_over(), partition, responder));
        }
        Course::Away(self.send_away(node, partition, responder))
    }

    /// EXPLAIN of an EXECUTE: only this session knows the prepared statement. With ANALYZE it runs here if it can begin here, since its rows
    /// can be reached from everywhere.
    fn explains_its_own(&self, statement: &Statement) -> bool {
        let Statement::Utility(utility) = statement else {
            return false;
        };
        match &**utility {
            Utility::Explain {
                analyze,
                statement: Statement::Utility(explained),
                ..
            } => matches!(**explained, Utility::Execute { .. }) && (!analyze || self.away.is_none()),
            _ => false,
        }
    }

    /// Has another node run the current statement.
    pub(super) fn send_away(&mut self, node: NodeId, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.origin != Origin::Replay)
        {
            self.replay.forget();
        }
        self.describe_executed(responder);
        let run = self.run_of_current();
        match run.and_then(|run| self.call(node, run, partition)) {
            Ok(next) => next,
            Err(error) => match self.go_back(&error, partition, responder) {
                Some(next) => next,
                None => self.fail(error, partition, responder),
            },
        }
    }

    /// The columns of an EXECUTE are told here: the other node gets the statement with its parameters, as of a client that knows them.
    fn describe_executed(&mut self, responder: &mut dyn Responder) {
        let Some(current) = self.current.as_mut().filter(|own| own.is_executed() && own.describe) else {
            return;
        };
        if let Statement::Planned(plan) = &current.statement
            && plan.returns_rows()
        {
            current.describe = false;
            responder.row_description(&plan.output, &current.formats);
        }
    }

    /// What the other node is told to run.
    fn run_of_current(&mut self) -> Result<Run> {
        let lost = || Error::internal("a call without a statement");
        let current = self.current.as_ref().ok_or_else(lost)?;
        if let Some(fetch) = &current.fetch {
            let name = fetch.name.clone();
            return self.run_of_portal(&name);
        }
        let is_prepared = match &current.statement {
            Statement::Planned(_) => current.is_executed(),
            // A cursor is declared with its parameters. What gives rows would come as text of a script, and be described once more.
            Statement::Utility(own) => {
                let gives_rows = matches!(**own, Utility::Fetch { .. } | Utility::Explain { .. });
                !current.parameters.is_empty() || (gives_rows && current.portal().is_some())
            }
            Statement::Empty | Statement::Elsewhere => false,
        };
        // Its client was told what columns it has before it was run again; a text would tell them once more, as of another result. What its
        // parameters stand for is in its text.
        let is_told = |plan: &Plan| current.origin == Origin::Script && !current.describe && plan.returns_rows();
        let is_told = !is_prepared && matches!(&current.statement, Statement::Planned(plan) if is_told(plan));
        if is_prepared || is_told {
            let parameters = || (parameter_types(&current.statement), current.parameters.to_vec());
            let (types, values) = if is_told { Default::default() } else { parameters() };
            return Ok(Run::Prepared {
                sql: current.sql.to_string(),
                types,
                values,
                columns: columns_of(&current.statement),
                formats: current.formats.clone(),
                portal: String::new(),
                max_rows: 0,
            });
        }
        match (&current.statement, &current.origin) {
            (Statement::Planned(_), Origin::Portal(name)) => {
                let name = name.clone();
                self.run_of_portal(&name)
            }
            // Its data has begun to come.
            (Statement::Utility(_), _) if current.anew.is_some() => Ok(Run::LayAnew(current.sql.to_string())),
            _ => Ok(Run::Text(current.sql.to_string())),
        }
    }

    /// Asks another node for something.
    ///
    /// Errors: 40001 if what it is for was sent on once already: however nodes disagree on where things are, nothing goes around for ever.
    /// Those of [`GridDesk::call`].
    pub(super) fn call(&mut self, node: NodeId, run: Run, partition: &Partition) -> Result<Next> {
        if self.is_sent_on && self.away.is_none() {
            return Err(handed_over());
        }
        let desk = desk_of(partition)?;
        let in_block = self.away.as_ref().is_some_and(|away| away.in_block);
        let is_data = matches!(run, Run::Data { .. });
        let alone = self.current.as_ref().is_none_or(|current| current.alone) && self.block == Block::None;
        let call = Call {
            user: self.identity.user.clone(),
            database: self.identity.database.clone(),
            database_id: self.identity.database_id,
            backend_id: self.identity.backend_id,
            settings: self.settings_for(&run),
            in_block,
            begin: (!in_block && !alone && !is_data).then(|| self.begin_text()),
            only_reads: self.current.as_ref().is_some_and(Current::only_reads),
            may_lock: self.current.as_ref().is_some_and(Current::may_lock),
            temporary: self.temporary_elsewhere(),
            trace: self.trace_context(),
            draws: self.drawn_before(partition).filter(|draws| !draws.is_empty()),
            numbers: self.taken.had.shared(),
            began_us: self.began_us.filter(|_| !in_block),
            run,
        };
        desk.call(self.id, node, call)?;
        // One that was waited for here is not one to begin another transaction at: others commit meanwhile.
        self.tick_ticket = None;
        let before = self.away.take();
        let kept = before.map(|away| (away.catalog, away.cursors, away.marks));
        let (catalog, cursors, marks) = kept.unwrap_or_default();
        self.away = Some(Away {
            node,
            in_block,
            waits: true,
            cancelled: None,
            catalog,
            cursors,
            marks,
        });
        Ok(self.await_answer())
    }

    /// The settings that something runs with there.
    fn settings_for(&self, run: &Run) -> Arc<[(String, String)]> {
        let changed = self.settings.changed();
        let Some(patience_us) = self.patience_us().filter(|_| matches!(run, Run::LayAnew(_))) else {
            return changed;
        };
        if self
            .settings
            .timeout_us(LOCK_TIMEOUT)
            .is_some_and(|own_us| own_us < patience_us)
        {
            return changed;
        }
        let others = changed.iter().filter(|(name, _)| name != LOCK_TIMEOUT).cloned();
        let own = (LOCK_TIMEOUT.to_owned(), format!("{}ms", patience_us / 1000));
        others.chain([own]).collect()
    }

    pub(super) fn await_answer(&mut self) -> Next {
        let until_us = self.away.as_ref().and_then(|away| Some(away.cancelled.as_ref()?.1));
        let own_us = || Some(self.statement_deadline_us()? + TIMEOUT_GRACE_US);
        self.deadline_us = until_us.or_else(own_us);
        Next::Park(self.commit_stage())
    }

    /// How the transaction begins where it runs.
    fn begin_text(&self) -> String {
        let mut text = "BEGIN".to_owned();
        if let Some(level) = &self.modes.isolation {
            text += &format!(" ISOLATION LEVEL {level}");
        }
        match self.modes.read_only {
            Some(true) => text += " READ ONLY",
            Some(false) => text += " READ WRITE",
            None => {}
        }
        if self.modes.deferrable == Some(true) {
            text += " DEFERRABLE";
        }
        text
    }

    /// Tells the client what has come of an answer.
    fn hear(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        let Some(Answer { told, end }) = partition.grid.as_ref().and_then(|desk| desk.take_answer(self.id)) else {
            return self.await_answer();
        };
        let current = self.current.as_ref();
        let is_unheard = current.is_some_and(|current| self.is_unheard(current));
        let is_compared = !is_unheard && current.is_some_and(|current| current.origin == Origin::Replay);
        let is_move = current.is_some_and(|current| current.fetch.as_ref().is_some_and(|fetch| fetch.is_move));
        if !told.is_empty() && !is_unheard && !is_move {
            responder.put_answer(&told);
        }
        let Some(end) = end else {
            let buffered_bytes = responder.buffered_bytes();
            match &mut self.current {
                // A piece of what is compared when it is whole: nothing of it is to go out.
                Some(current) if is_compared => current.hold_or_stream(buffered_bytes),
                Some(current) => current.streamed = true,
                None => {}
            }
            // The client was shown less.
            if is_compared && self.current.as_ref().is_some_and(|current| current.streamed) {
                return self.comes_out_otherwise(partition, responder);
            }
            return Next::Yield;
        };
        self.end_call(end, partition, responder)
    }

    pub(super) fn end_call(&mut self, end: Ended, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        self.deadline_us = None;
        self.hear_of_temporary(end.temporary);
        self.taken.had.hear(&end.numbers);
        let ran_at = self.away.as_ref().map(Away::node);
        let is_cancelled = self.away.as_ref().is_some_and(|away| away.cancelled.is_some());
        let has_savepoints = self.away.as_ref().is_some_and(|away| !away.marks.is_empty());
        let end = Ended {
            outcome: self.outcome_of_cancelled(end.outcome),
            ..end
        };
        match end.outcome {
            Ok(Completed::AwaitsData) => {
                if let Some(away) = &mut self.away {
                    away.waits = false;
                }
                self.await_data_for_other();
                return Next::To(StageKind::Parser);
            }
            _ => self.note_status(end.status, end.catalog),
        }
        if end.outcome.is_ok() {
            self.follow_settings(&end.settings, responder);
        }
        match end.outcome {
            // It was looked at before.
            Ok(Completed::AwaitsData) => Next::To(StageKind::Parser),
            // It is not this session that is to end.
            Err(error) if error.code() == SqlState::ADMIN_SHUTDOWN && !is_cancelled => {
                let message = "the node that runs the transaction is being stopped";
                self.fail(Error::new(SqlState::CANNOT_CONNECT_NOW, message), partition, responder)
            }
            Err(error) => match self.go_back(&error, partition, responder) {
                Some(next) => next,
                None => self.fail_away(error, has_savepoints, partition, responder),
            },
            Ok(Completed::Empty) => {
                self.end_record(partition, "");
                self.current = None;
                responder.empty_query();
                Next::To(StageKind::Parser)
            }
            Ok(Completed::Suspended | Completed::Tag(_))
                if self.current.as_ref().is_some_and(|own| own.fetch.is_some()) =>
            {
                self.end_fetch_away(&end.outcome, partition, responder);
                Next::To(StageKind::Parser)
            }
            Ok(Completed::Suspended) => {
                self.end_record(partition, "");
                self.suspend_portal(responder);
                Next::To(StageKind::Parser)
            }
            Ok(Completed::Tag(tag)) => {
                if self.block == Block::None {
                    self.began_us = None;
                }
                // The block goes on after an error: it was rolled back to a savepoint.
                if end.status == TransactionStatus::InTransaction && self.block == Block::Failed {
                    self.block = Block::Explicit;
                }
                if let Some(current) = self.current.as_mut().filter(|own| own.origin == Origin::Replay) {
                    current.tag = Some(tag);
                    return self.next_of_replay(partition, responder);
                }
                self.end_record(partition, &tag);
                if let Some(current) = self.current.take() {
                    self.follow_savepoint(&current.statement, responder);
                    if let Some(node) = ran_at {
                        self.follow_cursor(&current, node, partition);
                    }
                    responder.command_complete(&tag);
                    if let Origin::Portal(name) = &current.origin {
                        self.end_portal(name, &tag);
                    }
                }
                Next::To(StageKind::Parser)
            }
        }
    }

    /// A statement has failed elsewhere, and perhaps its transaction there is gone with the savepoints that it had.
    fn fail_away(
        &mut self,
        error: Error,
        had_savepoints: bool,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        let lost = (had_savepoints && self.away.is_none()).then(|| error.clone());
        let next = self.fail(error, partition, responder);
        if self.block == Block::Failed && lost.is_some() {
            self.lost = lost;
        }
        next
    }

    fn note_status(&mut self, status: TransactionStatus, catalog: Option<Option<Arc<Catalog>>>) {
        let is_over = status == TransactionStatus::Idle;
        if is_over {
            self.away = None;
        } else if let Some(away) = &mut self.away {
            (away.in_block, away.waits) = (true, false);
            if let Some(catalog) = catalog {
                away.catalog = catalog;
            }
        }
    }

    /// Whether another node owes an answer.
    pub(super) fn awaits_other(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.waits)
    }

    /// Commits what runs elsewhere. `Ok(Some)`: that takes time, call again when woken. An error has rolled it back.
    pub(super) fn commit_away(&mut self, partition: &mut Partition) -> Result<Option<Next>> {
        let Some(away) = &self.away else { return Ok(None) };
        if !away.waits {
            let node = away.node;
            return self.call(node, Run::Text("COMMIT".to_owned()), partition).map(Some);
        }
        let end = desk_of(partition)?.take_answer(self.id).and_then(|answer| answer.end);
        let Some(end) = end else {
            return Ok(Some(self.await_answer()));
        };
        self.hear_of_temporary(end.temporary);
        let outcome = self.outcome_of_cancelled(end.outcome);
        let away = self.away.take();
        self.deadline_us = None;
        match outcome? {
            Completed::Tag(tag) if tag == "COMMIT" => {
                let cursors = away.map(|away| away.cursors).unwrap_or_default();
                self.portals.elsewhere.outlast(cursors);
                Ok(None)
            }
            other => Err(Error::internal(format!("a COMMIT on another node ended as {other:?}"))),
        }
    }

    /// Rolls back what runs elsewhere; nobody waits for that.
    pub(super) fn roll_back_away(&mut self, partition: &Partition) {
        let Some(away) = self.away.take() else { return };
        let Some(desk) = &partition.grid else { return };
        if away.waits {
            desk.give_up(self.id);
        }
        let call = Call {
            in_block: true,
            ..self.unheard_call(Run::Text("ROLLBACK".to_owned()))
        };
        // A node that cannot be reached has rolled it back, or will when it knows.
        let _ = desk.call(self.id, away.node, call);
        desk.give_up(self.id);
    }

    /// A call outside of any transaction, of which nobody is told how it ends.
    pub(super) fn unheard_call(&mut self, run: Run) -> Call {
        Call {
            user: self.identity.user.clone(),
            database: self.identity.database.clone(),
            database_id: self.identity.database_id,
            backend_id: self.identity.backend_id,
            settings: self.settings.changed(),
            in_block: false,
            begin: None,
            only_reads: false,
            may_lock: false,
            temporary: self.temporary_elsewhere(),
            trace: None,
            draws: None,
            numbers: self.taken.had.shared(),
            began_us: None,
            run,
        }
    }

    /// The statement under way failed here, and not where it runs: by a cancel, or since the other node cannot be reached.
    pub(super) fn give_up_call(&mut self, is_copying: bool, partition: &Partition) {
        let (Some(away), Some(desk)) = (&mut self.away, &partition.grid) else {
            return;
        };
        if std::mem::take(&mut away.waits) || is_copying {
            desk.give_up(self.id);
        }
        // A COPY that waits for data there is rolled back.
        if !away.in_block && self.block == Block::None && !is_copying {
            self.away = None;
        }
    }
}

/// 40001: the session begins there the next time.
pub(super) fn begun_elsewhere(node: NodeId) -> Error {
    let detail = format!(
        "It has begun on this node, has shown rows, and this statement needs what is on node {}.",
        node.0
    );
    Error::serialization("the transaction has to run on another node", detail)
        .with_hint("Run it again: transactions of this session begin there from now on.")
}

fn desk_of(partition: &Partition) -> Result<&Arc<dyn GridDesk>> {
    let lost = || Error::internal("a transaction on another node outside of a grid");
    partition.grid.as_ref().ok_or_else(lost)
}

fn is_notify(statement: &Statement) -> bool {
    matches!(statement, Statement::Utility(utility) if matches!(**utility, Utility::Notify { .. }))
}

/// Types of the columns of what is planned.
pub(super) fn columns_of(statement: &Statement) -> Option<Vec<DataType>> {
    let Statement::Planned(plan) = statement else {
        return None;
    };
    Some(plan.output.iter().map(|column| column.data_type).collect())
}
