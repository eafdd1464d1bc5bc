//! Bytes in and out of one connection, and what time brings.

use super::connection::{Connection, Phase, pg};
use super::port::Unwanted;
use super::shared::WireCounters;
use super::transport::{ReadOutcome, Transport};
use super::{
    CANCEL_GRACE_US, HANGUP_GRACE_US, READ_BYTES, RESPONDERS_KEPT, STALL_CHECK_US, SqlWorker, WireRefusal, WorkerLoop,
};
use crate::wire::{Decoded, PgResponder, decode_requests};
use mio::unix::SourceFd;
use rubato_base::{Error, SessionId};
use rubato_sql::client::{Request, Responder};
use rubato_stages::worker::CancelReason;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;

/// Reads of one connection before the others have their turn.
const READS_PER_TURN: usize = 16;

/// How one step of a connection ended.
pub(super) enum Progress {
    /// Something changed; go on with this connection.
    Again,
    /// It waits for an event, the engine or the log.
    Waits,
    /// It is over; forget it.
    Over,
}

impl<W: SqlWorker> WorkerLoop<W> {
    /// Does all that can be done for one connection without waiting, up to a bound.
    pub(super) fn advance(&mut self, index: usize, now_us: i64) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        connection.queued = false;
        for _ in 0..READS_PER_TURN {
            match self.step(index, now_us) {
                Progress::Again => {}
                Progress::Waits => return,
                Progress::Over => return self.forget(index),
            }
        }
        self.enqueue(index);
    }

    fn step(&mut self, index: usize, now_us: i64) -> Progress {
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Waits;
        };
        if connection.is_with_sender {
            if !connection.flight.has_landed() {
                return Progress::Waits;
            }
            connection.is_with_sender = false;
        }
        if matches!(connection.phase, Phase::Inside) || connection.held {
            return Progress::Waits;
        }
        match self.send(index, now_us) {
            Progress::Again => {}
            Progress::Waits if self.holds_its_end_up(index) => {}
            other => return other,
        }
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Waits;
        };
        match connection.phase {
            Phase::Leaving => Progress::Over,
            Phase::Inside => Progress::Waits,
            Phase::Login(_) => self.step_login(index),
            Phase::Open(_) => self.step_open(index),
        }
    }

    /// Whether the session is to end, and its client takes nothing. As in PostgreSQL such a client is told no more: what its session has
    /// locked is not for it to keep.
    fn holds_its_end_up(&mut self, index: usize) -> bool {
        let Some(connection) = self.connections.get_mut(index) else {
            return false;
        };
        let holds = connection.unwanted.is_some() && connection.stalled_since_us.is_some();
        if holds {
            connection.on_gone();
        }
        holds
    }

    // Sends what is written; `Again` when nothing is left to send.
    fn send(&mut self, index: usize, now_us: i64) -> Progress {
        let is_held = self.connections.get_mut(index).is_some_and(|connection| {
            let Phase::Open(session) = &connection.phase else {
                return false;
            };
            let goes_on = connection.fatal.is_none() && connection.unwanted.is_none() && self.stopping.is_none();
            goes_on && self.engine.holds_answer(session)
        });
        if is_held {
            return Progress::Again;
        }
        if self.hand_over(index) {
            return Progress::Waits;
        }
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Waits;
        };
        if connection.has_output() {
            let sent_before = connection.sent_bytes;
            let began = std::time::Instant::now();
            let sent = send_output(connection);
            self.own_sends.note(began.elapsed());
            WireCounters::add(
                &self.shared.counters.sent_bytes,
                connection.sent_bytes.saturating_sub(sent_before),
            );
            match sent {
                Ok(true) => {}
                Ok(false) => {
                    if connection.stalled_since_us.is_none() {
                        self.stalled += 1;
                        self.stall_check_at_us = self.stall_check_at_us.max(now_us + STALL_CHECK_US);
                    }
                    if connection.stalled_since_us.is_none() || connection.sent_bytes > sent_before {
                        connection.stalled_since_us = Some(now_us);
                    }
                    return Progress::Waits;
                }
                Err(wrong) => {
                    tracing::debug!(session = connection.session.0, %wrong, "a client is gone");
                    connection.on_gone();
                }
            }
        }
        if connection.stalled_since_us.take().is_some() {
            self.stalled -= 1;
        }
        connection.sent_bytes = 0;
        if let Some(responder) = connection.responder.take() {
            self.rest_responder(responder);
        }
        Progress::Again
    }

    pub(super) fn rest_responder(&mut self, mut responder: Box<dyn Responder>) {
        if self.responders.len() < RESPONDERS_KEPT {
            pg(&mut *responder).clear();
            self.responders.push(responder);
        }
    }

    /// The responder of a connection, from the pool if it has none.
    pub(super) fn responder(&mut self, index: usize) -> Option<&mut PgResponder> {
        let connection = self.connections.get_mut(index)?;
        let pool = &mut self.responders;
        let responder = connection
            .responder
            .get_or_insert_with(|| pool.pop().unwrap_or_else(|| Box::new(PgResponder::new())));
        Some(pg(&mut **responder))
    }

    /// Reads once into the connection's input: whether anything came.
    pub(super) fn read_input(&mut self, index: usize) -> bool {
        let Some(connection) = self.connections.get_mut(index) else {
            return false;
        };
        let Some(count) = read_some(connection, &mut self.scratch) else {
            return false;
        };
        WireCounters::add(&self.shared.counters.received_bytes, count);
        connection.input.extend_from_slice(&self.scratch[..count]);
        true
    }

    fn step_open(&mut self, index: usize) -> Progress {
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Waits;
        };
        // What runs may come to its end within the grace time.
        let finishes = self.stopping.as_ref().is_some_and(|stopping| !stopping.cancelled)
            && !connection.requests.is_empty()
            && matches!(&connection.phase, Phase::Open(session) if self.engine.is_under_way(session));
        if (self.stopping.is_some() && !finishes) || connection.unwanted.is_some() {
            connection.requests.clear();
            connection.fatal = Some(connection.unwanted.unwrap_or(Unwanted::ByCommand).error());
        }
        if !connection.requests.is_empty() {
            return self.submit(index);
        }
        if let Some(error) = connection.fatal.take() {
            return self.end_session(index, Some(error));
        }
        if std::mem::take(&mut connection.is_told)
            && matches!(&connection.phase, Phase::Open(session) if self.engine.takes_told(session))
        {
            connection.requests.push_back(Request::Deliver);
            return self.submit(index);
        }
        // What was left over is no whole message, so only more bytes can help.
        let Some(count) = read_some(connection, &mut self.scratch) else {
            if connection.ended {
                return self.end_session(index, None);
            }
            return Progress::Waits;
        };
        let counters = &self.shared.counters;
        WireCounters::add(&counters.received_bytes, count);
        let limit = self.shared.settings.message_bytes_max;
        let decoded = decode_input(connection, &self.scratch[..count], limit);
        connection.fatal = decoded.fatal;
        if connection.requests.is_empty() {
            return Progress::Again;
        }
        WireCounters::add(&counters.requests, connection.requests.len());
        WireCounters::add(&counters.batches, 1);
        self.submit(index)
    }

    /// Sends answers for which the log has come far enough.
    pub(super) fn release_held(&mut self, now_us: i64) {
        if self.held.is_empty() {
            return;
        }
        let forced = self.engine.forced_lsn();
        while let Some(Reverse((lsn, index))) = self.held.peek().copied() {
            if lsn > forced {
                return;
            }
            self.held.pop();
            if let Some(connection) = self.connections.get_mut(index) {
                connection.held = false;
                self.advance(index, now_us);
            }
        }
    }

    /// Acts on every deadline that has passed.
    pub(super) fn on_deadlines(&mut self, now_us: i64) {
        self.count_refused(now_us);
        while let Some((_, index, session)) = pop_due(&mut self.login_deadlines, now_us) {
            if self
                .find(index, session)
                .is_some_and(|connection| matches!(connection.phase, Phase::Login(_)))
            {
                let why = "a client did not log in in time";
                if self.refused.may_say(why, now_us.unsigned_abs()) {
                    tracing::info!(session = session.0, "{why}");
                }
                WireRefusal::count(&self.shared);
                self.forget(index);
            }
        }
        while let Some((_, index, session)) = pop_due(&mut self.hangup_deadlines, now_us) {
            self.end_after_hangup(index, session, now_us);
        }
        while self.idle_deadlines.first().is_some_and(|deadline| deadline.0 <= now_us) {
            let Some((_, index, session)) = self.idle_deadlines.pop_first() else {
                break;
            };
            if let Some(connection) = self.find(index, session)
                && let Some((_, timeout)) = connection.idle_until.take()
            {
                connection.fatal = Some(Error::new(timeout.code, timeout.message));
                self.enqueue(index);
            }
        }
        if self.accept_again_at_us.take_if(|at| *at <= now_us).is_some() {
            (0..self.listeners.len()).for_each(|listener| self.accept(listener, now_us));
        }
        self.drop_stalled(now_us);
        self.on_grace_over(now_us);
    }

    /// The session of a client that has hung up a while ago ends with what is still to do for it: what it has sent behind one statement
    /// counts on that one, so that nothing of it may be done without.
    fn end_after_hangup(&mut self, index: usize, session: SessionId, now_us: i64) {
        let Some(connection) = self.find(index, session) else {
            return;
        };
        connection.unwanted.get_or_insert(Unwanted::Gone);
        self.engine.cancel(session, CancelReason::Disconnected);
        self.enqueue(index);
        // Its statement may just be on its way from one thread to another.
        self.hangup_deadlines
            .push_back((now_us + HANGUP_GRACE_US, index, session));
    }

    pub(super) fn find(&mut self, index: usize, session: SessionId) -> Option<&mut Connection<W::Session>> {
        self.connections
            .get_mut(index)
            .filter(|connection| connection.session == session)
    }

    fn drop_stalled(&mut self, now_us: i64) {
        let limit_us = self.shared.settings.send_timeout.as_micros() as i64;
        if self.stalled == 0 || now_us < self.stall_check_at_us || limit_us == 0 {
            return;
        }
        self.stall_check_at_us = now_us + STALL_CHECK_US;
        let is_late = |since: Option<i64>| since.is_some_and(|since| now_us - since > limit_us);
        let late: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| is_late(connection.stalled_since_us))
            .map(|(i, _)| i)
            .collect();
        for index in late {
            if let Some(connection) = self.connections.get_mut(index) {
                tracing::info!(
                    session = connection.session.0,
                    "a client took no bytes for too long and is let go"
                );
                connection.on_gone();
                self.enqueue(index);
            }
        }
    }

    fn on_grace_over(&mut self, now_us: i64) {
        let Some(stopping) = self.stopping.as_mut() else { return };
        if stopping.cancelled || now_us < stopping.cancel_at_us {
            return;
        }
        stopping.cancelled = true;
        stopping.leave_at_us = now_us + CANCEL_GRACE_US;
        for (_, connection) in &self.connections {
            self.engine.cancel(connection.session, CancelReason::Shutdown);
        }
    }

    /// Drops a connection that has no session any more, or never had one.
    pub(super) fn forget(&mut self, index: usize) {
        let Some(mut connection) = self.connections.try_remove(index) else {
            return;
        };
        if let Some(transport) = connection.transport.as_mut() {
            transport.close();
            let _ = self.poll.registry().deregister(&mut SourceFd(&transport.as_raw_fd()));
        }
        if let Some((deadline_us, _)) = connection.idle_until {
            self.idle_deadlines.remove(&(deadline_us, index, connection.session));
        }
        if connection.stalled_since_us.is_some() {
            self.stalled -= 1;
        }
        self.shared.unregister(connection.session);
        self.shared.on_connection_closed(self.index);
    }
}

fn pop_due(deadlines: &mut VecDeque<(i64, usize, SessionId)>, now_us: i64) -> Option<(i64, usize, SessionId)> {
    if deadlines.front()?.0 <= now_us {
        deadlines.pop_front()
    } else {
        None
    }
}

// Bytes from the socket, or `None`: nothing there now, or never again (`ended`).
fn read_some<S>(connection: &mut Connection<S>, scratch: &mut [u8]) -> Option<usize> {
    if !connection.readable {
        return None;
    }
    let transport = connection.transport.as_mut()?;
    match transport.read(&mut scratch[..READ_BYTES]) {
        Ok(ReadOutcome::Data { count, drained }) => {
            // The end gives no event of its own when it had come before this read.
            connection.readable = !drained || connection.hung_up;
            Some(count)
        }
        Ok(ReadOutcome::Empty) => {
            connection.readable = false;
            None
        }
        Ok(ReadOutcome::End) => {
            connection.readable = false;
            connection.ended = true;
            None
        }
        Err(wrong) => {
            tracing::debug!(session = connection.session.0, %wrong, "a client is gone");
            connection.on_gone();
            None
        }
    }
}

fn decode_input<S>(connection: &mut Connection<S>, new: &[u8], limit: usize) -> Decoded {
    if connection.input.is_empty() {
        let decoded = decode_requests(new, limit, &mut connection.requests);
        connection.input.extend_from_slice(&new[decoded.consumed_bytes..]);
        return decoded;
    }
    connection.input.extend_from_slice(new);
    let decoded = decode_requests(&connection.input, limit, &mut connection.requests);
    connection.consume_input(decoded.consumed_bytes);
    decoded
}

// Whether everything is sent.
fn send_output<S>(connection: &mut Connection<S>) -> std::io::Result<bool> {
    let (Some(transport), Some(responder)) = (connection.transport.as_mut(), connection.responder.as_mut()) else {
        return Ok(true);
    };
    let bytes = pg(&mut **responder).bytes();
    while connection.sent_bytes < bytes.len() {
        let count = Transport::write(transport, &bytes[connection.sent_bytes..])?;
        if count == 0 {
            return Ok(false);
        }
        connection.sent_bytes += count;
    }
    transport.flush()
}
