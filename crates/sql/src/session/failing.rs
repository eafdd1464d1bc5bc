//! What fails: the request under way, with its transaction or its block; and what a block that has failed, and goes back to a savepoint,
//! keeps of that to be run again with it.
//!
//! A statement that has failed is run again with its block as the others are, and must fail again as its client was told. What is wrong
//! with the client's own words, as a text that cannot be read, is so whatever others do, and what a text means is for the catalogs to say,
//! about which no isolation level promises anything: both are left out.

use super::replay::{Replayed, changes_words_only, is_repeatable};
use super::{Block, Current, Next, Origin, Session};
use crate::client::Responder;
use crate::partition::Partition;
use crate::plan::{Plan, PlanBody};
use crate::statement::Statement;
use rubato_base::{Draws, Error, SqlState};
use rubato_formula::Expr;
use rubato_stages::StageKind;

/// What a failure means for what is run again of its block.
enum Kept {
    /// The block cannot be run again.
    Lost,
    /// It comes out the same without it.
    LeftOut,
    /// It has to fail again.
    Statement(Box<Replayed>),
}

impl Session {
    /// Ends the current request with an error.
    pub(super) fn fail(&mut self, error: Error, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        let error = self.told_error(error, partition);
        let error = self.as_of_what_was_read(error, partition);
        if let Some(next) = self.fails_again(&error, partition, responder) {
            return next;
        }
        let kept = self.kept_of_failure(&error);
        let ends_block = self.is_committing();
        if self.block != Block::Explicit {
            // An error tells of what was read, as rows do.
            let lsn = self.read_depends_on(partition);
            self.raise_durable(lsn);
        }
        self.end_pauses(partition);
        let is_copying_away = self.copy_away.take().is_some();
        self.give_up_call(is_copying_away, partition);
        if let Some(current) = self.current.take() {
            if !current.streamed && current.origin != Origin::Script {
                responder.truncate(current.mark);
            }
            if let Origin::Portal(name) = &current.origin {
                self.portals.fail(name);
            }
            if let Some(fetch) = &current.fetch {
                self.portals.fail(&fetch.name);
            }
        }
        self.to_bind = None;
        self.copy_in = None;
        self.copy_again = None;
        self.copy_out = None;
        self.give_up_schema_change(partition);
        self.deadline_us = None;
        self.commit_waits_since_us = None;
        let was_replaying = self.after_replay.take().is_some();
        self.tick_ticket = None;
        if let Some(desk) = &partition.grid {
            desk.forget_questions(self.id);
        }
        self.retries = 0;
        self.fail_record(partition, error.code());
        if ends_block {
            // A COMMIT that fails ends the block all the same.
            self.roll_back(partition);
            self.end_block(false, responder);
        } else {
            self.end_what_set_its_own(partition);
            self.fail_transaction(kept, partition, responder);
        }
        if was_replaying && self.block == Block::Failed {
            self.lose_block(&error, partition);
        }
        if self.ends_with_error(&error) {
            // As in PostgreSQL nothing follows, not even that the session is ready.
            responder.fatal(&error);
            self.leave(partition);
            self.is_over = true;
            return Next::To(StageKind::Parser);
        }
        responder.error(&error);
        if self.in_script {
            self.script.clear();
        } else {
            self.skip_to_sync = true;
        }
        Next::To(StageKind::Parser)
    }

    /// The error as its client is told it: that of a cancel goes before others.
    fn told_error(&mut self, error: Error, partition: &Partition) -> Error {
        let is_unknown = error.code() == SqlState::TRANSACTION_RESOLUTION_UNKNOWN;
        let error = match self.cancelled.take() {
            // Whoever is told of a cancel takes it that nothing was done.
            Some(cancelled) if is_unknown => {
                self.cancelled_too_late(Some(cancelled));
                error
            }
            Some(cancelled) if error.code() != cancelled.code() => cancelled,
            _ => error,
        };
        let catalog = self.catalog(partition);
        let path = self.path_in(&catalog);
        error.with_type_names(&|marked| path.name_of(marked, &catalog))
    }

    /// What an error does to the transaction: a block fails, anything else is rolled back.
    fn fail_transaction(&mut self, kept: Kept, partition: &mut Partition, responder: &mut dyn Responder) {
        match self.block {
            Block::Explicit => {
                self.block = Block::Failed;
                // Without savepoints there is nothing left to keep: whoever waits for this transaction goes on.
                let has_savepoints = |open: &super::OpenTransaction| !open.savepoints.is_empty();
                match &self.transaction {
                    Some(transaction) if has_savepoints(transaction) => {
                        partition.database.stop_waiting(transaction.id);
                        self.keep_failure(kept);
                    }
                    Some(_) => {
                        self.replay.forget();
                        self.roll_back(partition);
                    }
                    None => self.replay.forget(),
                }
            }
            // What it has kept is run again with it if it goes back to a savepoint.
            Block::Failed => {}
            Block::None | Block::Implicit => {
                self.replay.forget();
                self.roll_back(partition);
                self.end_block(false, responder);
            }
        }
    }

    /// The block that was being run again has failed: some of its statements are not undone and others are, so that it has no savepoint any
    /// more to go back to.
    fn lose_block(&mut self, why: &Error, partition: &mut Partition) {
        self.replay.forget();
        self.roll_back(partition);
        self.lost = Some(why.clone());
    }

    fn keep_failure(&mut self, kept: Kept) {
        match kept {
            Kept::Lost => self.replay.forget(),
            Kept::LeftOut => {}
            Kept::Statement(replayed) => self.replay.keep(*replayed),
        }
    }

    /// What an error of the request under way means for its block.
    fn kept_of_failure(&mut self, error: &Error) -> Kept {
        let is_of_words = std::mem::take(&mut self.fails_by_words) || says_nothing_of_rows(error.code());
        let is_replaying = self.after_replay.is_some();
        if self.block != Block::Explicit || !self.replay.is_kept() || self.away.is_some() || is_replaying {
            return Kept::Lost;
        }
        match &self.current {
            _ if is_of_words => Kept::LeftOut,
            _ if !comes_again(error.code()) => Kept::Lost,
            Some(current) => kept_of(current, error, || self.drawn()),
            None => Kept::Lost,
        }
    }

    /// A statement that is run again has failed. Rule B-2: so it must have before, and in the same way.
    fn fails_again(&mut self, error: &Error, partition: &mut Partition, responder: &mut dyn Responder) -> Option<Next> {
        let current = self.current.as_ref().filter(|own| own.origin == Origin::Replay)?;
        if self.replay.now_fails_with(error) {
            responder.truncate(current.mark);
            self.end_pauses(partition);
            self.current = None;
            self.to_bind = None;
            self.deadline_us = None;
            self.block = Block::Failed;
            if let Some(transaction) = &self.transaction {
                partition.database.stop_waiting(transaction.id);
            }
            return Some(self.go_on_with_replay(responder));
        }
        comes_again(error.code()).then(|| self.fails_otherwise(error, partition, responder))
    }
}

/// What a statement that has failed means for what is run again of its block.
fn kept_of(current: &Current, error: &Error, drawn: impl FnOnce() -> (Draws, u64)) -> Kept {
    let is_repeated = match &current.statement {
        Statement::Planned(plan) => {
            // Who has locked rows, or has been shown some before the error, may rely on these.
            let is_locking = !plan.read_only && matches!(plan.body, PlanBody::Select(_));
            let is_unseen = !current.streamed && (current.rows == 0 || current.origin != Origin::Script);
            let is_whole = current.max_rows == usize::MAX && current.fetch.is_none() && current.anew.is_none();
            !is_locking && is_unseen && is_whole && !outlives_block(plan)
        }
        Statement::Utility(utility) if changes_words_only(utility) => return Kept::LeftOut,
        Statement::Utility(utility) => is_repeatable(utility),
        Statement::Empty | Statement::Elsewhere => false,
    };
    match is_repeated {
        true => Kept::Statement(Box::new(Replayed::failed(current, error.clone(), drawn()))),
        false => Kept::Lost,
    }
}

/// Errors that say no more than what the client's own words, and those of its session, do not fit: no other transaction has to do with that.
fn says_nothing_of_rows(code: SqlState) -> bool {
    matches!(
        code,
        SqlState::INVALID_SAVEPOINT_SPECIFICATION
            | SqlState::INVALID_SQL_STATEMENT_NAME
            | SqlState::DUPLICATE_PREPARED_STATEMENT
            | SqlState::INVALID_CURSOR_NAME
            | SqlState::PROTOCOL_VIOLATION
            | SqlState::ACTIVE_SQL_TRANSACTION
            | SqlState::READ_ONLY_SQL_TRANSACTION
    )
}

/// Errors that rows and definitions lead to, and lead to again if they are the same: not those of circumstances (cancelled, out of memory, a
/// node that is away).
fn comes_again(code: SqlState) -> bool {
    let class = &code.0[..2];
    matches!(class, b"21" | b"22" | b"23" | b"3F" | b"42" | b"44") || code == SqlState::FEATURE_NOT_SUPPORTED
}

/// Whether a plan may have done something that going back to a savepoint does not undo, and doing it twice would show.
fn outlives_block(plan: &Plan) -> bool {
    let mut found = false;
    let mut note = |expr: &Expr| {
        expr.walk(&mut |node| {
            if let Expr::Call { function, .. } = node {
                found |= is_kept_for_good(function.name());
            }
        });
    };
    plan.body.for_each_expression(&mut note);
    for subquery in &plan.subqueries.queries {
        subquery
            .plan
            .for_each_select(&mut |select| select.for_each_expression(&mut note));
    }
    found
}

/// Numbers that are drawn again are others, as they are anyway.
fn is_kept_for_good(function: &str) -> bool {
    let names = [
        "setval",
        "set_config",
        "pg_cancel_backend",
        "pg_terminate_backend",
        "pg_sleep",
    ];
    let is_lock = function.starts_with("pg_advisory") || function.starts_with("pg_try_advisory");
    is_lock || names.contains(&function)
}
