//! How other threads reach a worker.

use mio::net::TcpStream;
use rubato_base::{Error, SessionId, SqlState};
use rubato_stages::worker::{CLIENT_HAS_GONE, Wake};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Why a session is to end before its client wants to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unwanted {
    /// Somebody has asked for it, or the server stops.
    ByCommand,
    /// Others may have the advisory locks that it thinks it has.
    WithoutLocks,
    /// Its client has hung up a while ago.
    Gone,
}

impl Unwanted {
    /// What its client is told: 57P01, or 08006.
    pub(crate) fn error(self) -> Error {
        match self {
            Unwanted::ByCommand => Error::new(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ),
            Unwanted::WithoutLocks => Error::new(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection because its advisory locks were lost",
            )
            .with_detail("The node of the grid that keeps them was not heard of; others may have them by now.")
            .with_hint("Connect again, and take them again."),
            // One that has closed its half of the connection only may hear it.
            Unwanted::Gone => Error::new(SqlState::CONNECTION_FAILURE, CLIENT_HAS_GONE),
        }
    }
}

/// Something another thread asks of a worker.
pub(crate) enum Letter {
    /// A connection to own.
    Connection(TcpStream, SocketAddr),
    /// A client asked to cancel what a session runs.
    Cancel(SessionId),
    /// Somebody wants a session to end.
    Terminate(SessionId, Unwanted),
    /// A session was told something on a channel.
    Deliver(SessionId),
    /// The sending thread has sent a connection's answer, for which the worker waits.
    Sent(usize, SessionId),
    /// It could send only a part of it; here is the rest.
    Unsent(usize, SessionId, Vec<u8>),
    /// Finish what runs and end.
    ShutDown,
}

/// A worker as other threads see it.
pub(crate) struct WorkerPort {
    waker: mio::Waker,
    /// Set while the worker is in, or about to go into, the system call that waits. A wake of a worker that is awake costs
    /// no system call.
    asleep: AtomicBool,
    woken: AtomicBool,
    letters: Mutex<Vec<Letter>>,
    /// Connections that it owns or that are on their way to it.
    pub(crate) connections: AtomicUsize,
}

impl WorkerPort {
    pub(crate) fn new(waker: mio::Waker) -> WorkerPort {
        WorkerPort {
            waker,
            asleep: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            letters: Mutex::new(Vec::new()),
            connections: AtomicUsize::new(0),
        }
    }

    pub(crate) fn send(&self, letter: Letter) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        self.wake();
    }

    /// Ends the worker's wait, if it waits; one that is awake looks for itself before it waits whether there is something to do.
    pub(crate) fn rouse(&self) {
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Err(wrong) = self.waker.wake()
        {
            tracing::error!(%wrong, "a worker could not be woken");
        }
    }

    /// Whether it has connections, or is about to.
    pub(crate) fn has_connections(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > 0
    }

    /// Whether somebody has woken the worker since it last waited.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// Called by the worker before it waits: whether it may wait at all.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        !self.is_woken()
    }

    /// Called by the worker after it waited: whether somebody woke it, and what letters came.
    pub(crate) fn wake_up(&self) -> (bool, Vec<Letter>) {
        self.asleep.store(false, Ordering::SeqCst);
        if !self.woken.swap(false, Ordering::SeqCst) {
            return (false, Vec::new());
        }
        (
            true,
            std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner)),
        )
    }
}

impl Wake for WorkerPort {
    fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        self.rouse();
    }
}
