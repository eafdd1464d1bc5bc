//! How long a client may be silent.

use super::{Block, Session};
use crate::client::{Request, Responder};
use rubato_base::SqlState;
use rubato_stages::worker::IdleTimeout;

impl Session {
    /// How long the client may be silent while the session is as it is now (`idle_in_transaction_session_timeout`,
    /// `idle_session_timeout`). As in PostgreSQL that is asked of one alone who was told that the session is ready, and has not begun with
    /// anything since: not in the midst of COPY, nor before its Sync.
    pub fn idle_timeout(&self) -> Option<IdleTimeout> {
        let (setting, code, message) = match self.block {
            Block::Explicit | Block::Failed => (
                "idle_in_transaction_session_timeout",
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
            ),
            Block::None | Block::Implicit => (
                "idle_session_timeout",
                SqlState::IDLE_SESSION_TIMEOUT,
                "terminating connection due to idle-session timeout",
            ),
        };
        let after_us = self.settings.timeout_us(setting).filter(|_| self.is_ready)?;
        Some(IdleTimeout {
            after_us,
            code,
            message,
        })
    }

    /// Tells the client that the session is ready for what comes next.
    pub(super) fn tell_ready(&mut self, responder: &mut dyn Responder) {
        self.is_ready = true;
        responder.ready_for_query(self.status());
    }

    /// A request has come: whether the session is still ready for one of its client's.
    pub(super) fn note_request(&mut self, request: &Request) {
        self.is_ready &= matches!(request, Request::Deliver | Request::GoOn);
    }
}
