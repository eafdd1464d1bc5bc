//! One client connection: what is read, what is to be sent, and who has its session.

use super::port::Unwanted;
use super::sender::Flight;
use super::transport::Transport;
use crate::login::Login;
use crate::wire::PgResponder;
use rubato_base::{Error, SessionId};
use rubato_sql::client::{Request, Responder};
use rubato_stages::worker::IdleTimeout;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// Input capacity that a connection keeps while it is idle.
const KEPT_INPUT_BYTES: usize = 4 << 10;

/// Request slots that a connection keeps while it is idle.
const KEPT_REQUESTS: usize = 16;

/// Where a connection stands. At most one work of its session is under way.
pub(crate) enum Phase<S> {
    /// No session yet.
    Login(Box<Login>),
    /// The session is here and nothing runs.
    Open(Box<S>),
    /// The engine has session, requests and responder.
    Inside,
    /// There is no session any more; what is written is still to be sent.
    Leaving,
}

pub(crate) struct Connection<S> {
    /// `None` once the client is known to be gone.
    pub(crate) transport: Option<Transport>,
    pub(crate) peer: SocketAddr,
    pub(crate) session: SessionId,
    pub(crate) phase: Phase<S>,
    /// The socket may have something to read.
    pub(crate) readable: bool,
    /// The system has told that the client sends nothing more; the end itself may still have to be read.
    pub(crate) hung_up: bool,
    /// The end was read: the client sends nothing more.
    pub(crate) ended: bool,
    /// Is in the list of connections to look at.
    pub(crate) queued: bool,
    /// What is written may not be sent before the log has come so far.
    pub(crate) held: bool,
    /// The client wants what runs to be cancelled, while that waits here for its answers to be sent.
    pub(crate) cancelled: bool,
    /// The session has something to give to its client, which is to be fetched when all that was written before is sent.
    pub(crate) is_told: bool,
    /// The connection is to end.
    pub(crate) unwanted: Option<Unwanted>,
    /// When the connection ends if the client stays silent, and what it is told then.
    pub(crate) idle_until: Option<(i64, IdleTimeout)>,
    /// The last request given to the engine ends the session.
    pub(crate) terminating: bool,
    /// Bytes that are no whole message yet.
    pub(crate) input: Vec<u8>,
    /// Decoded and not yet run.
    pub(crate) requests: VecDeque<Request>,
    /// Ends the connection once `requests` are run.
    pub(crate) fatal: Option<Error>,
    /// What is written and not yet sent, from `sent_bytes` on.
    pub(crate) responder: Option<Box<dyn Responder>>,
    pub(crate) sent_bytes: usize,
    /// An answer was given to the sending thread: nothing else is done until it is sent.
    pub(crate) is_with_sender: bool,
    pub(crate) flight: Arc<Flight>,
    /// Since when the client takes no more bytes.
    pub(crate) stalled_since_us: Option<i64>,
}

impl<S> Connection<S> {
    pub(crate) fn new(transport: Transport, peer: SocketAddr, session: SessionId) -> Connection<S> {
        Connection {
            transport: Some(transport),
            peer,
            session,
            phase: Phase::Login(Box::default()),
            readable: true,
            hung_up: false,
            ended: false,
            queued: false,
            held: false,
            cancelled: false,
            is_told: false,
            unwanted: None,
            idle_until: None,
            terminating: false,
            input: Vec::new(),
            requests: VecDeque::new(),
            fatal: None,
            responder: None,
            sent_bytes: 0,
            is_with_sender: false,
            flight: Arc::default(),
            stalled_since_us: None,
        }
    }

    pub(crate) fn has_output(&mut self) -> bool {
        self.responder
            .as_mut()
            .is_some_and(|responder| responder.buffered_bytes() > 0)
    }

    /// Drops the first `count` bytes of the input, and memory that is no longer needed.
    pub(crate) fn consume_input(&mut self, count: usize) {
        self.input.drain(..count);
        if self.input.is_empty() && self.input.capacity() > KEPT_INPUT_BYTES {
            self.input = Vec::new();
        }
    }

    /// Takes back the empty request queue, and frees it if it had grown.
    pub(crate) fn keep_requests(&mut self, requests: VecDeque<Request>) {
        self.requests = requests;
        if self.requests.is_empty() && self.requests.capacity() > KEPT_REQUESTS {
            self.requests = VecDeque::new();
        }
    }

    /// The client is gone: nothing can be read or sent.
    pub(crate) fn on_gone(&mut self) {
        self.transport = None;
        self.ended = true;
        self.readable = false;
        self.fatal = None;
        self.requests.clear();
        self.input = Vec::new();
    }
}

/// The concrete responder inside.
pub(crate) fn pg(responder: &mut dyn Responder) -> &mut PgResponder {
    responder
        .as_any()
        .downcast_mut()
        .expect("an engine gives back the responder that it was given")
}
