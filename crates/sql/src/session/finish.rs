//! The end of a statement: commit, answer, or another try.

use super::{Block, CONFLICTS_REMEMBERED, Current, Next, Origin, RETRIES_MAX, Session};
use crate::client::Responder;
use crate::executor::Cursor;
use crate::partition::Partition;
use crate::plan::PlanBody;
use crate::statement::{Statement, Utility};
use rubato_base::{Error, SqlState};
use rubato_protocol::{Stop, has_filled_memory, was_too_old};
use rubato_stages::StageKind;
use std::sync::Arc;

impl Session {
    /// The statement has run: commits it if it is a transaction of its own, and answers its tag.
    pub(super) fn finish(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        let Some(current) = &self.current else {
            return Next::To(StageKind::Parser);
        };
        if self.block == Block::None {
            match self.commit_now(partition, responder) {
                Ok(None) => {}
                Ok(Some(park)) => return park,
                Err(error) if error.is_retryable() => return self.run_again(error, partition, responder),
                Err(error) => return self.fail(error, partition, responder),
            }
        } else if current.origin == Origin::Replay {
            return self.next_of_replay(partition, responder);
        } else {
            match self.confirm_what_is_shown(partition) {
                Ok(()) => {}
                Err(Stop::Wait(wait)) => return self.park(&wait),
                Err(Stop::Abort(error)) => return self.run_again(error, partition, responder),
                Err(Stop::Fail(error)) => return self.fail(error, partition, responder),
            }
            match self.block == Block::Explicit && self.replay.is_kept_and_empty() && self.depends_on_no_row() {
                true => self.begin_later(partition),
                false => self.keep_for_replay(responder),
            }
            self.end_what_set_its_own(partition);
            // Inside an implicit block the answer may go out before Sync commits, but not before what it read is durable.
            if self.block == Block::Implicit {
                let lsn = self.read_depends_on(partition);
                self.raise_durable(lsn);
            }
        }
        if let Err(error) = self.note_sequences(partition) {
            return self.fail(error, partition, responder);
        }
        self.retries = 0;
        self.deadline_us = None;
        self.copy_again = None;
        self.end_pauses(partition);
        let changed = self.settings.take_untold();
        if !changed.is_empty() {
            self.after_settings(changed, responder);
        }
        if let Some(current) = self.current.take() {
            let tag = current.tag.unwrap_or_default();
            self.end_record(partition, &tag);
            responder.command_complete(&tag);
            if let Origin::Portal(name) = &current.origin {
                self.end_portal(name, &tag);
            }
        }
        Next::To(StageKind::Parser)
    }

    /// The transaction was aborted. Rule B-1: runs the statement, or the block so far, again if the client cannot tell; otherwise says
    /// so. Rule B-3: so it does after a bounded number of attempts.
    pub(super) fn run_again(&mut self, error: Error, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        if let Some(why) = self.transaction.as_ref().and_then(|open| open.why_ended())
            && why.code() != SqlState::SERIALIZATION_FAILURE
        {
            return self.fail(why, partition, responder);
        }
        // What it waits for may take as long as a node is down.
        if error.code() == SqlState::CANNOT_CONNECT_NOW {
            return self.fail(error, partition, responder);
        }
        if has_filled_memory(&error) && self.may_run_again() && self.may_go_anew(&error, true, partition) {
            return self.go_anew(error, partition, responder);
        }
        // What fills memory by itself, or takes longer than others take to fill it, would begin again for ever, and its client would not hear why.
        if has_filled_memory(&error) || (was_too_old(&error) && self.retries > 0) {
            return self.fail(error, partition, responder);
        }
        self.begin_again(error, partition, responder)
    }

    /// Runs the statement, or the block so far, again if the client cannot tell; otherwise says why not.
    pub(super) fn begin_again(
        &mut self,
        error: Error,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        self.conflicts = CONFLICTS_REMEMBERED;
        self.retries += 1;
        self.copy_out = None;
        self.give_up_schema_change(partition);
        self.give_back_grants(partition);
        let may = self.may_run_again();
        let Some(current) = self.current.as_mut().filter(|_| may) else {
            return self.fail(error, partition, responder);
        };
        match self.block {
            Block::None => {
                responder.truncate(current.mark);
                if let Some(making) = current.making.take() {
                    (current.statement, current.told_tag, current.streamed) = (making, None, false);
                }
                reset(current);
                self.undo(partition);
                Next::To(StageKind::Transaction)
            }
            // What it has shown so far was to be compared, and is nobody's.
            _ if current.origin == Origin::Replay => {
                responder.truncate(current.mark);
                self.replay_block(None, partition, responder)
            }
            _ => {
                responder.truncate(current.mark);
                reset(current);
                let under_way = self.current.take();
                self.replay_block(under_way, partition, responder)
            }
        }
    }

    /// Whether the client has asked for the block's COMMIT, which may have to run the block again first.
    pub(super) fn is_committing(&self) -> bool {
        let current = self.after_replay.as_ref().or(self.current.as_ref());
        current.is_some_and(|current| {
            matches!(&current.statement, Statement::Utility(utility) if matches!(**utility, Utility::Commit { .. }))
        })
    }

    /// Whether the statement, or the block so far, can be run again without the client noticing.
    pub(super) fn may_run_again(&self) -> bool {
        let Some(current) = &self.current else {
            return false;
        };
        // What is made anew has shown nothing, though it may not be kept for a block.
        let is_unseen = !current.streamed || (current.making.is_some() && self.block == Block::None);
        let unseen = is_unseen && (current.origin == Origin::Replay || current.rows == 0 || current.cursor.is_some());
        // (The block of a portal that was run to its row limit before is not kept.)
        let first_portal_run = current.fetch.is_none();
        let is_kept = match self.block {
            Block::None => true,
            Block::Explicit => self.replay.is_kept(),
            _ => false,
        };
        unseen && first_portal_run && is_kept && self.retries <= RETRIES_MAX && self.cancelled.is_none()
    }

    /// The block needs what is on the node that keeps what there is once. It runs there from its beginning on, if the client cannot tell.
    ///
    /// Errors: `error`, which becomes 40001, if it could: the session's blocks begin there from now on.
    pub(super) fn move_to_keeper(
        &mut self,
        error: Error,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        self.begins_at_keeper = true;
        // An id of the transaction names the node that it was given on.
        let has_shown_id = self.asked_id.is_some();
        let is_unseen =
            self.block == Block::Explicit && self.replay.is_kept() && self.cancelled.is_none() && !has_shown_id;
        match self.current.take() {
            Some(mut current) if is_unseen && !current.streamed && current.fetch.is_none() => {
                responder.truncate(current.mark);
                (current.rows, current.cursor) = (0, None);
                let under_way = Some(current).filter(|current| current.origin != Origin::Replay);
                self.replay_block(under_way, partition, responder)
            }
            current => {
                self.current = current;
                self.fail(error, partition, responder)
            }
        }
    }
}

/// Whether the statement is a SELECT without FROM. Queries within its expressions may read rows all the same.
pub(super) fn reads_no_row(statement: &Statement) -> bool {
    match statement {
        Statement::Planned(plan) => matches!(&plan.body, PlanBody::Select(select) if select.steps.is_empty()),
        _ => false,
    }
}

/// Puts a statement back to its start.
pub(super) fn reset(current: &mut Current) {
    current.rows = 0;
    current.tag = None;
    current.failure = None;
    // Those that were fetched for it are taken, or were forgotten.
    current.numbers = None;
    current.cursor = match &current.statement {
        Statement::Planned(plan) => Some(Box::new(Cursor::new(Arc::clone(plan)))),
        _ => None,
    };
}
