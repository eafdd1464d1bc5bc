//! The agreed interface between the thread that owns sockets and the engine that runs statements on the same thread.
//!
//! The owner decodes what clients sent into [`Work`] and hands it in; the engine runs what can run, and gives each work back
//! when it is finished or wants its answers sent first. A local statement goes in and comes out on one thread.

use rubato_base::{Lsn, Result, SessionId, SqlState};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Wakes a worker's thread from any other thread, at any time; several wakes may be seen as one.
pub trait Wake: Send + Sync {
    /// Makes the worker call [`StatementWorker::on_wake`] and [`StatementWorker::run`] soon.
    fn wake(&self);
}

/// A shared [`Wake`].
pub type WakeHandle = Arc<dyn Wake>;

/// What a session begins with: a client that has passed login.
#[derive(Clone, Debug, Default)]
pub struct SessionStart {
    /// Unique for the life of the process. The low 32 bits are the "process id" that the client is told.
    pub session: SessionId,
    /// The worker that owns the session.
    pub worker: usize,
    /// The user that logged in.
    pub user: String,
    /// The database that it asks for.
    pub database: String,
    /// Settings from the startup message and its `options`, in order, names as the client wrote them. The session refuses
    /// unknown names and bad values.
    pub settings: Vec<(String, String)>,
    /// Where the client is, for logs and `pg_stat_activity`.
    pub peer: String,
    /// The end of the connection at the server.
    pub local: Option<Endpoint>,
    /// The client's end of the connection; `None` in process.
    pub remote: Option<Endpoint>,
    /// Reaches the other sessions.
    pub signals: Option<Arc<dyn Signals>>,
    /// What the server says of itself: settings that SHOW tells and nobody can change, by name.
    pub server: Arc<[(String, String)]>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address, without the port.
    pub address: String,
    /// The port.
    pub port: u16,
}

/// The stack of a thread that does a worker's work, or reads what it has written, in bytes. Expressions are bound, evaluated and dropped by
/// recursion, and may nest as deep as the parser lets them; what is not used of it takes no memory.
pub const STACK_BYTES: usize = 64 << 20;

/// What one session may have another do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// To give up its statement, as if its client had asked for that.
    Cancel,
    /// The same, if this is the secret key of the session: its client has asked for it, at whichever node.
    CancelBy(i32),
    /// To end.
    Terminate,
    /// To end, since the node that had its advisory locks was not heard of: others may have them.
    Bereave,
    /// To give its client what others have told it on channels.
    Deliver,
}

/// Reaches sessions by the numbers that clients know them by. May be used from any thread, and waits for nobody.
pub trait Signals: fmt::Debug + Send + Sync {
    /// Passes a signal on; `false` if there is no such session.
    fn signal(&self, process_id: i32, signal: Signal) -> bool;
}

/// Why running work is to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The client sent a cancel request: 57014.
    ClientRequest,
    /// The client is gone: its answers reach nobody. The session ends, and nothing is begun of what its client had sent: 08006.
    Disconnected,
    /// The session is to end, or the server stops and the grace time is over: 57P01. Nothing else of the session is begun.
    Shutdown,
}

/// How long a client may be silent, and what it is told when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimeout {
    /// In microseconds.
    pub after_us: i64,
    /// 25P03 within a transaction, else 57P05.
    pub code: SqlState,
    /// In words.
    pub message: &'static str,
}

/// What is said of a client that has gone.
pub const CLIENT_HAS_GONE: &str = "connection to client lost";

/// A session with requests to do and a place to answer.
///
/// There is at most one work of a session under way, so order within a session needs no further care.
#[derive(Debug)]
pub struct Work<Session, Request, Responder> {
    /// The session itself: whoever has the work has the session.
    pub session: Box<Session>,
    /// The owner's number for the connection, given back unchanged.
    pub connection: usize,
    /// What is still to do, in order.
    pub requests: VecDeque<Request>,
    /// Where the answers go.
    pub responder: Responder,
    /// The answers may be sent once the log is forced up to here.
    pub durable_at: Lsn,
}

/// The work of a [`StatementWorker`].
pub type WorkOf<W> =
    Work<<W as StatementWorker>::Session, <W as StatementWorker>::Request, <W as StatementWorker>::Responder>;

/// The engine of one thread. All methods are called on the thread that owns it and none may block, but
/// [`StatementWorker::force_if_idle`].
pub trait StatementWorker: Send {
    /// A client's session.
    type Session: Send;
    /// One decoded request.
    type Request: Send;
    /// Where answers go.
    type Responder: Send;

    /// Makes a session. Settings that the session keeps in another form than the client wrote them (`DateStyle`) are
    /// reported through `responder`, after the owner's own reports. 3D000 if there is no such database.
    fn open_session(&mut self, start: SessionStart, responder: &mut Self::Responder) -> Result<Box<Self::Session>>;

    /// Takes work in. It is bounded by the number of connections, so it cannot be refused.
    fn submit(&mut self, work: WorkOf<Self>)
    where
        Self: Sized;

    /// Runs what can run now; returns when everything waits for another thread, a lock or time, or others are to have their turn
    /// ([`StatementWorker::has_more`]).
    fn run(&mut self, now_us: i64);

    /// The wall clock was set by so much since [`StatementWorker::run`] was called last: what is to happen after a while is not to come sooner or
    /// later for that. Called before it is run by the new time.
    fn shift_time(&mut self, _by_us: i64) {}

    /// Whether [`StatementWorker::run`] has returned although more can run, so that its owner looks after others first: it is to be
    /// called again soon.
    fn has_more(&self) -> bool {
        self.waiting() > 0
    }

    /// How many works wait for their turn, or are done and wait to be taken.
    fn waiting(&self) -> usize {
        0
    }

    /// Work that is done, in the order of completion. If `requests` is not empty it stopped early, since the responder's
    /// buffer is large or the client asked for a flush: it is to be submitted again once the answers are sent. A session
    /// that was given `Terminate` comes back with its transaction rolled back and may be dropped.
    fn poll_completed(&mut self) -> Option<WorkOf<Self>>
    where
        Self: Sized;

    /// The thread was woken by its [`Wake`].
    fn on_wake(&mut self);

    /// The position up to which the log is forced. Answers whose `durable_at` is above stay unsent.
    fn forced_lsn(&self) -> Lsn;

    /// Called when answers wait for the log and nothing else is ready. Forces the log on this thread, unless another thread
    /// is doing so (then `false`, and the worker must be woken when the log has moved). `true` if the log moved.
    fn force_if_idle(&mut self) -> bool;

    /// The next moment at which [`StatementWorker::run`] must be called even if nothing happens, in microseconds.
    fn next_deadline_us(&self) -> Option<i64>;

    /// How long a client may leave a session as it is now without a word before its connection is ended; `None`: for ever.
    fn idle_timeout(&self, _session: &Self::Session) -> Option<IdleTimeout> {
        None
    }

    /// A client has asked here that a session that is not here give up its statement: whoever has it is told, with the secret key that the
    /// client knows. `false` if nobody has it who can be reached.
    fn cancel_elsewhere(&mut self, _process_id: i32, _secret_key: i32) -> bool {
        false
    }

    /// Whether the session is in the midst of a statement although it has no request to do: it awaits data (COPY). Then a cancel
    /// is to be answered at once: submit its work as it is, and cancel it.
    fn awaits_data(&self, _session: &Self::Session) -> bool {
        false
    }

    /// Whether the client of a session can be given now what others tell it. Else the session gives it by itself, when it comes to that.
    fn takes_told(&self, _session: &Self::Session) -> bool {
        true
    }

    /// Whether what the session has answered so far of a statement waits for more of it, and is not to be sent before.
    fn holds_answer(&self, _session: &Self::Session) -> bool {
        false
    }

    /// Whether the session is in the midst of a statement, and has come back to let others have their turn, or what it has answered be sent.
    fn is_under_way(&self, _session: &Self::Session) -> bool {
        false
    }

    /// Whether the session has ended by itself: its answers are sent, and its connection is closed.
    fn is_over(&self, _session: &Self::Session) -> bool {
        false
    }

    /// Gives up what a session does right now; its work comes back through [`StatementWorker::poll_completed`]. Nothing
    /// happens if the session has no work inside.
    fn cancel(&mut self, session: SessionId, reason: CancelReason);
}

/// So many waiting works keep a worker busy for longer than it takes until another node has answered, or the log is forced.
///
/// Simulated, TPC-C on 16 nodes: with 80 terminals each, of which some 60 wait, questions and forced writes that are put off for them are
/// half as many, and throughput is 2.5 % higher; with 8 in place of 32 processors have nothing to do for 4 % of the time. With 20
/// terminals nothing is put off, which cost 7 to 14 % when it was.
const PLENTY: usize = 32;
/// Turns for which something is put off at most. See [`StatementWorker::has_more`].
const PUT_OFF_TURNS_MAX: u32 = 32;
/// The same as time, in microseconds: turns are long where statements go through many rows.
const PUT_OFF_US_MAX: i64 = 10_000;

/// Puts off what is cheaper for several at a time, a question to another node or a forced write, while there is plenty of other work.
#[derive(Clone, Copy, Debug, Default)]
pub struct PuttingOff {
    turns: u32,
    /// When the first of them ended.
    since_us: i64,
}

impl PuttingOff {
    /// After a turn: whether to put it off for another one. So many turns are put off in any case, and no more unless plenty of work
    /// waits. Time may be of any clock.
    pub fn goes_on(&mut self, waiting: usize, turns_anyway: u32, now_us: i64) -> bool {
        if self.turns == 0 {
            self.since_us = now_us;
        }
        let is_short = (0..PUT_OFF_US_MAX).contains(&now_us.saturating_sub(self.since_us));
        let turns_max = match waiting > PLENTY && is_short {
            true => PUT_OFF_TURNS_MAX.max(turns_anyway),
            false => turns_anyway,
        };
        let goes_on = self.turns < turns_max;
        self.turns = if goes_on { self.turns + 1 } else { 0 };
        goes_on
    }

    /// There is nothing to be put off.
    pub fn end(&mut self) {
        self.turns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wait_for_is_put_off_only_while_there_is_plenty_and_not_for_ever() {
        let turns = |waiting: usize, turns_anyway: u32| {
            let mut off = PuttingOff::default();
            std::iter::repeat_with(move || off.goes_on(waiting, turns_anyway, 7))
        };
        assert_eq!(turns(PLENTY, 0).take(3).collect::<Vec<_>>(), [false; 3]);
        let put_off = |waiting, turns_anyway| turns(waiting, turns_anyway).take_while(|goes_on| *goes_on).count();
        assert_eq!(
            [put_off(1, 8), put_off(PLENTY + 1, 8), put_off(PLENTY + 1, 0)],
            [8, 32, 32]
        );
        let mut off = PuttingOff::default();
        assert!(off.goes_on(100, 0, 0) && !off.goes_on(1, 0, 0) && off.goes_on(1, 1, 0));
        off.end();
        assert!(off.goes_on(1, 1, 0) && !off.goes_on(1, 1, 0));
        // Nor for long, whatever turns take; a clock that is set back puts nothing off.
        assert!(off.goes_on(100, 0, 50) && off.goes_on(100, 0, 50 + PUT_OFF_US_MAX - 1));
        assert!(!off.goes_on(100, 0, 50 + PUT_OFF_US_MAX));
        assert!(off.goes_on(100, 0, 50) && !off.goes_on(100, 0, 49));
    }
}
