//! Cancels that come while what they are for may have committed already: on all nodes together, or on the one that runs it.

use super::Session;
use super::far::unknown;
use crate::client::Responder;
use crate::grid::Completed;
use crate::partition::Partition;
use rubato_base::{Error, Result, SqlState};

/// How long the answer of a cancelled statement is awaited that may have committed elsewhere: a node that is not heard of for so long has
/// been given up.
const CANCEL_GRACE_US: i64 = 10_000_000;

impl Session {
    /// A statement that was cancelled while it runs elsewhere, and may commit there: it is cancelled there, and how it has ended is awaited,
    /// for a while. `Some`: it is to end with this error.
    pub(super) fn cancel_away(&mut self, error: Error, partition: &Partition) -> Option<Error> {
        let now_us = self.now_us;
        let Some(away) = self.away.as_mut().filter(|away| away.waits) else {
            return Some(error);
        };
        if let Some((own, until_us)) = &mut away.cancelled {
            if now_us >= *until_us {
                return Some(unknown());
            }
            *own = error;
            return None;
        }
        if !partition.grid.as_ref().is_some_and(|desk| desk.cancel(self.id)) {
            return Some(error);
        }
        away.cancelled = Some((error, now_us + CANCEL_GRACE_US));
        self.deadline_us = Some(now_us + CANCEL_GRACE_US);
        None
    }

    /// How what ran elsewhere has ended, for the client: by the cancel of its session if that came in time.
    pub(super) fn outcome_of_cancelled(&mut self, outcome: Result<Completed>) -> Result<Completed> {
        let cancelled = self.away.as_mut().and_then(|away| away.cancelled.take());
        match (outcome, cancelled) {
            (Err(error), Some((own, _))) if error.code() != SqlState::TRANSACTION_RESOLUTION_UNKNOWN => Err(own),
            // It has not ended: the cancel is for what follows.
            (Ok(Completed::AwaitsData), Some((own, _))) => {
                self.cancelled = Some(own);
                Ok(Completed::AwaitsData)
            }
            (outcome, cancelled) => {
                self.cancelled_too_late(cancelled.map(|(own, _)| own));
                outcome
            }
        }
    }

    /// A cancel that has come when its statement had ended already is for nobody; who was to be terminated is, behind the answer.
    pub(super) fn cancelled_too_late(&mut self, cancelled: Option<Error>) {
        let cancelled = cancelled.filter(|error| self.ends_with_error(error));
        self.ends_with = cancelled.or(self.ends_with.take());
    }

    /// Whether the session ends with an error: the server has given up its statement since the session is to end, or its client has gone.
    /// What the client has sent behind that statement counted on it, and is not begun.
    pub(super) fn ends_with_error(&self, error: &Error) -> bool {
        let ends = matches!(error.code(), SqlState::ADMIN_SHUTDOWN | SqlState::CONNECTION_FAILURE);
        ends && !self.is_hosted
    }

    /// What is under way is to end with this error when it is next run. With one that ends the session (`Session::ends_with_error`)
    /// nothing behind that is begun, and between two requests the next one is not. False if nothing was under way.
    pub fn cancel(&mut self, error: Error) -> bool {
        let is_under_way = self.is_busy()
            || self.is_between_statements()
            || self.awaits_data()
            || self.commit_waits_since_us.is_some();
        if is_under_way {
            self.cancelled = Some(error);
        } else {
            self.cancelled_too_late(Some(error));
        }
        is_under_way
    }

    /// Ends a session that was terminated while it could not be, if it is.
    pub(super) fn end_terminated(&mut self, partition: &mut Partition, responder: &mut dyn Responder) {
        if self.current.is_none()
            && self.commit_waits_since_us.is_none()
            && let Some(error) = self.ends_with.take()
        {
            responder.fatal(&error);
            self.leave(partition);
            self.is_over = true;
        }
    }
}
