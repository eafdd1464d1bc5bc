//! The life of a session on its connection: login, work, and the end.

use super::connection::{Phase, pg};
use super::flow::Progress;
use super::port::Unwanted;
use super::shared::is_loopback;
use super::time::steady_us;
use super::transport::Transport;
use super::{SqlWorker, WireRefusal, WorkerLoop};
use crate::login::{LoginRules, LoginStep};
use crate::wire::startup::StartupParameters;
use rubato_base::{Error, SessionId, SqlState};
use rubato_sql::client::{Request, Responder, TransactionStatus};
use rubato_stages::worker::{CancelReason, Endpoint, SessionStart, Signal, Signals, Work, WorkOf};
use std::cmp::Reverse;
use std::net::SocketAddr;
use std::sync::Arc;

/// The version that clients read: drivers look at the number in front.
pub(crate) const SERVER_VERSION: &str = concat!("15.0 (Rubato ", env!("CARGO_PKG_VERSION"), ")");

/// What PostgreSQL reports when a session starts, in its order. A setting of the client's takes the place of the value.
const REPORTED: [(&str, &str); 13] = [
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("default_transaction_read_only", "off"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("IntervalStyle", "postgres"),
    ("is_superuser", "on"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("session_authorization", ""),
    ("standard_conforming_strings", "on"),
    ("TimeZone", "UTC"),
];

impl<W: SqlWorker> WorkerLoop<W> {
    /// One step of a login.
    pub(super) fn step_login(&mut self, index: usize) -> Progress {
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Waits;
        };
        if self.stopping.is_some() {
            return self.refuse(
                index,
                &Error::new(SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down"),
            );
        }
        let Phase::Login(mut login) = std::mem::replace(&mut connection.phase, Phase::Leaving) else {
            return Progress::Waits;
        };
        let input = std::mem::take(&mut connection.input);
        let shared = std::sync::Arc::clone(&self.shared);
        let rules = LoginRules {
            tls_available: shared.tls.is_some(),
            tls_required: shared.tls.is_some() && !is_loopback(&connection.peer),
            end_point_hash: shared.tls.as_ref().and_then(|tls| tls.end_point_hash.as_deref()),
            passwords: shared.passwords.as_ref(),
        };
        let Some(responder) = self.responder(index) else {
            return Progress::Over;
        };
        let (taken, step) = login.step(&input, &rules, responder);
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Over;
        };
        connection.phase = Phase::Login(login);
        connection.input = input;
        connection.consume_input(taken);
        self.on_login_step(index, step)
    }

    fn on_login_step(&mut self, index: usize, step: LoginStep) -> Progress {
        match step {
            LoginStep::Continue => Progress::Again,
            LoginStep::Wait if self.read_input(index) => Progress::Again,
            LoginStep::Wait => match self.connections.get(index) {
                Some(connection) if connection.ended => Progress::Over,
                _ => Progress::Waits,
            },
            LoginStep::StartTls => self.start_tls(index),
            LoginStep::Cancel { process_id, secret_key } => {
                self.on_cancel_request(process_id, secret_key);
                Progress::Over
            }
            LoginStep::Accepted(asked) => self.open_session(index, asked),
            LoginStep::Refused(error) => self.refuse(index, &error),
        }
    }

    /// The session may be that of another node: a client whose connections are spread over the nodes does not choose where it asks.
    fn on_cancel_request(&mut self, process_id: i32, secret_key: i32) {
        let is_passed_on = match self.shared.has_session(process_id) {
            true => self.shared.signal(process_id, Signal::CancelBy(secret_key)),
            false => self.engine.cancel_elsewhere(process_id, secret_key),
        };
        if !is_passed_on {
            tracing::debug!(process_id, "a cancel request names no session or a wrong secret");
        }
    }

    fn refuse(&mut self, index: usize, error: &Error) -> Progress {
        WireRefusal::count(&self.shared);
        if let Some(responder) = self.responder(index) {
            responder.fatal(error);
        }
        let now_us = steady_us();
        self.count_refused(now_us);
        if let Some(connection) = self.connections.get_mut(index) {
            if self.refused.may_say(error.message(), now_us.unsigned_abs()) {
                tracing::info!(peer = %connection.peer, %error, "a connection was refused");
            }
            connection.phase = Phase::Leaving;
        }
        Progress::Again
    }

    /// How many refused connections are not in the log: anybody can have any number of them refused.
    pub(super) fn count_refused(&mut self, now_us: i64) {
        if let Some(more) = self.refused.take_left_out(now_us.unsigned_abs()) {
            tracing::info!(more, "further connections were refused within a minute");
        }
    }

    // The one byte of the answer fits into the socket's buffer, which is still empty; if not, the client is let go.
    fn start_tls(&mut self, index: usize) -> Progress {
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Over;
        };
        let (Some(mut transport), Some(settings)) = (connection.transport.take(), self.shared.tls.as_ref()) else {
            return Progress::Over;
        };
        let answer = connection
            .responder
            .as_mut()
            .map_or(&[][..], |responder| pg(&mut **responder).bytes());
        let sent = transport.write(answer).is_ok_and(|sent| sent == answer.len());
        if let Some(responder) = connection.responder.as_mut() {
            pg(&mut **responder).clear();
        }
        match transport.into_tls(&settings.config) {
            Ok(transport) if sent => connection.transport = Some(transport),
            _ => return Progress::Over,
        }
        if let Phase::Login(login) = &mut connection.phase {
            login.on_tls_started();
        }
        Progress::Again
    }

    fn open_session(&mut self, index: usize, asked: StartupParameters) -> Progress {
        if self.shared.is_crowded() {
            let message = "sorry, too many clients already";
            return self.refuse(index, &Error::new(SqlState::TOO_MANY_CONNECTIONS, message));
        }
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Over;
        };
        let (session, remote) = (connection.session, connection.peer);
        let local = connection.transport.as_ref().and_then(Transport::local);
        let mut responder = match self.responder(index) {
            Some(_) => match self
                .connections
                .get_mut(index)
                .and_then(|connection| connection.responder.take())
            {
                Some(responder) => responder,
                None => return Progress::Over,
            },
            None => return Progress::Over,
        };
        let wire = pg(&mut *responder);
        wire.authentication_ok();
        report_settings(wire, &asked);
        let start = SessionStart {
            session,
            worker: self.index,
            user: asked.user,
            database: asked.database,
            settings: asked.settings,
            peer: remote.to_string(),
            remote: Some(endpoint(remote)),
            local: local.map(endpoint),
            signals: Some(Arc::clone(&self.shared) as Arc<dyn Signals>),
            server: std::sync::Arc::clone(&self.shared.shown),
        };
        let opened = self.engine.open_session(start, &mut responder);
        let registered = opened.and_then(|opened| Ok((opened, self.shared.register(session, self.index)?)));
        let wire = pg(&mut *responder);
        if let Ok((_, (process_id, secret_key))) = &registered {
            wire.backend_key_data(*process_id, *secret_key);
            wire.ready_for_query(TransactionStatus::Idle);
        }
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Over;
        };
        connection.responder = Some(responder);
        match registered {
            Ok((opened, _)) => {
                connection.phase = Phase::Open(opened);
                // Requests that came along with the last login message.
                let input = std::mem::take(&mut connection.input);
                let limit = self.shared.settings.message_bytes_max;
                let decoded = crate::wire::decode_requests(&input, limit, &mut connection.requests);
                connection.input = input;
                connection.consume_input(decoded.consumed_bytes);
                connection.fatal = decoded.fatal;
                self.expect_word(index, super::steady_us());
                Progress::Again
            }
            Err(error) => self.refuse(index, &error),
        }
    }

    /// Gives session and requests to the engine.
    pub(super) fn submit(&mut self, index: usize) -> Progress {
        if self.responder(index).is_none() {
            return Progress::Over;
        }
        let Some(connection) = self.connections.get_mut(index) else {
            return Progress::Over;
        };
        let Phase::Open(session) = std::mem::replace(&mut connection.phase, Phase::Inside) else {
            return Progress::Waits;
        };
        let Some(responder) = connection.responder.take() else {
            return Progress::Over;
        };
        let requests = std::mem::take(&mut connection.requests);
        // What others tell it is no word of the client's.
        let is_told = matches!((requests.front(), requests.len()), (Some(Request::Deliver), 1));
        if let Some((deadline_us, _)) = connection.idle_until.take_if(|_| !is_told) {
            self.idle_deadlines.remove(&(deadline_us, index, connection.session));
        }
        let (id, cancelled) = (connection.session, std::mem::take(&mut connection.cancelled));
        connection.terminating = matches!(requests.back(), Some(Request::Terminate));
        self.submitted = true;
        let durable_at = rubato_base::Lsn::default();
        self.engine.submit(Work {
            session,
            connection: index,
            requests,
            responder,
            durable_at,
        });
        if cancelled {
            self.engine.cancel(id, CancelReason::ClientRequest);
        }
        Progress::Waits
    }

    /// A client wants what its session runs to be cancelled. A statement that pauses while its answers are sent is cancelled when
    /// it goes on; one that awaits data is so at once.
    pub(super) fn cancel(&mut self, session: SessionId) {
        self.engine.cancel(session, CancelReason::ClientRequest);
        let mut connections = self.connections.iter_mut();
        let Some((index, connection)) = connections.find(|(_, connection)| connection.session == session) else {
            return;
        };
        let Phase::Open(open) = &connection.phase else { return };
        if !connection.requests.is_empty() {
            connection.cancelled = true;
        } else if self.engine.awaits_data(open) {
            connection.cancelled = true;
            self.submit(index);
        }
    }

    /// A session has something to give to its client: it is fetched in the connection's turn, when its client has been sent all else. As
    /// long as the client takes nothing, it stays where it is counted.
    pub(super) fn deliver(&mut self, session: SessionId) {
        let mut connections = self.connections.iter_mut();
        if let Some((index, connection)) = connections.find(|(_, connection)| connection.session == session) {
            connection.is_told = true;
            self.enqueue(index);
        }
    }

    /// Somebody wants the session to end: what it runs is given up, and then it is told so.
    pub(super) fn terminate(&mut self, session: SessionId, why: Unwanted) {
        self.engine.cancel(session, CancelReason::Shutdown);
        let mut connections = self.connections.iter_mut();
        if let Some((index, connection)) = connections.find(|(_, connection)| connection.session == session) {
            connection.unwanted = Some(why);
            self.enqueue(index);
        }
    }

    /// Ends the session, rolling back what is open, after saying `error`.
    pub(super) fn end_session(&mut self, index: usize, error: Option<Error>) -> Progress {
        if let Some(error) = &error
            && let Some(responder) = self.responder(index)
        {
            responder.fatal(error);
        }
        if let Some(connection) = self.connections.get_mut(index) {
            connection.requests.clear();
            connection.requests.push_back(Request::Terminate);
        }
        self.submit(index)
    }

    /// From now on the client may be silent for as long as its session lets it, if that has nothing to do.
    fn expect_word(&mut self, index: usize, now_us: i64) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let Phase::Open(session) = &connection.phase else {
            return;
        };
        let is_silent = connection.requests.is_empty() && connection.idle_until.is_none();
        if let Some(timeout) = self.engine.idle_timeout(session).filter(|_| is_silent) {
            let until_us = now_us.saturating_add(timeout.after_us);
            connection.idle_until = Some((until_us, timeout));
            self.idle_deadlines.insert((until_us, index, connection.session));
        }
    }

    /// Takes work back from the engine.
    pub(super) fn on_completed(&mut self, work: WorkOf<W>, now_us: i64) {
        let index = work.connection;
        let forced = self.engine.forced_lsn();
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let is_over = (connection.terminating && work.requests.is_empty()) || self.engine.is_over(&work.session);
        connection.keep_requests(work.requests);
        connection.responder = Some(work.responder);
        connection.phase = if is_over {
            Phase::Leaving
        } else {
            Phase::Open(work.session)
        };
        self.expect_word(index, now_us);
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if connection.transport.is_none() {
            // The client is gone: nobody waits for the log, and what is left to do is to end the session.
            connection.requests.clear();
        } else if work.durable_at > forced && connection.has_output() {
            connection.held = true;
            self.held.push(Reverse((work.durable_at, index)));
            return;
        }
        if matches!(connection.requests.front(), Some(Request::GoOn)) {
            return self.rest(index);
        }
        self.advance(index, now_us);
    }
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint {
        address: address.ip().to_canonical().to_string(),
        port: address.port(),
    }
}

fn report_settings(wire: &mut dyn Responder, asked: &StartupParameters) {
    for (name, value) in REPORTED {
        let own = asked
            .settings
            .iter()
            .rev()
            .find(|(setting, _)| setting.eq_ignore_ascii_case(name));
        let value = match name {
            "session_authorization" => &asked.user,
            // Kept in another form than the client wrote it; the session reports what it made of it.
            "DateStyle" | "client_encoding" | "server_version" | "server_encoding" | "integer_datetimes" => value,
            _ => own.map_or(value, |(_, value)| value),
        };
        wire.parameter_status(name, value);
    }
}
