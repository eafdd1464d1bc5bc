//! A thread that sends for a worker.
//!
//! To send is a seventh of a worker's time where many clients ask little at a time: the system does all of the receiver's part in
//! that call, and wakes the client. Answers of sessions that shared a round go to this thread together, which costs the worker
//! one wake at most. A worker that serves one session sends by itself, and so does one whose sending thread does not come to its
//! turn: nothing waits for it twice. Decision 0019 has the measurements.

use super::connection::{Phase, pg};
use super::port::{Letter, WorkerPort};
use super::shared::WireCounters;
use super::transport::{Transport, write_some};
use super::{SqlWorker, WorkerLoop};
use crate::settings::Sending;
use mio::net::TcpStream;
use rubato_base::SessionId;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Answers larger than this are sent by the worker: it would have to copy them.
const HANDED_BYTES_MAX: usize = 8 << 10;

/// Own sends that take less than this wake nobody: the clients' core is busy, and has no time for a sending thread.
const SLOW_SEND_NS: u64 = 4_000;
/// A send during which the system gave the core to somebody else says nothing.
const OWN_SEND_NS_MAX: u64 = 20_000;
/// The average is over about so many.
const AVERAGED_OVER: u64 = 32;
/// See [`OwnSends::are_slow`].
const HANDED_IN_A_ROW_MAX: u32 = 31;

/// Nothing of the connection is with the sending thread.
const LANDED: u8 = 0;
/// The sending thread has an answer.
const UNDER_WAY: u8 = 1;
/// It has, and the worker waits to be told when it is sent.
const AWAITED: u8 = 2;

/// What a send of the worker's own takes, on average.
#[derive(Debug, Default)]
pub(super) struct OwnSends {
    average_ns: u64,
    /// Answers that might have been handed over since the worker last sent one itself.
    handed: u32,
}

impl OwnSends {
    pub(super) fn note(&mut self, took: Duration) {
        let took_ns = (took.as_nanos() as u64).min(OWN_SEND_NS_MAX);
        self.average_ns = (self.average_ns * (AVERAGED_OVER - 1) + took_ns) / AVERAGED_OVER;
        self.handed = 0;
    }

    /// Whether they take so long that the next answer is handed over. Now and then one is not, to see what it takes.
    fn are_slow(&mut self) -> bool {
        self.handed += 1;
        self.average_ns >= SLOW_SEND_NS && self.handed <= HANDED_IN_A_ROW_MAX
    }
}

/// Where a connection's answer stands that the sending thread was given. There is one at a time, so that answers keep their order.
#[derive(Debug, Default)]
pub(crate) struct Flight(AtomicU8);

impl Flight {
    /// Whether the answer is sent; if not, the worker gets a letter when it is.
    pub(super) fn has_landed(&self) -> bool {
        let waited = self
            .0
            .compare_exchange(UNDER_WAY, AWAITED, Ordering::AcqRel, Ordering::Acquire);
        waited == Err(LANDED)
    }
}

/// An answer on its way. The socket stays open until it is sent, whatever becomes of its connection.
struct Job {
    socket: Arc<TcpStream>,
    flight: Arc<Flight>,
    connection: usize,
    session: SessionId,
    length_bytes: usize,
}

#[derive(Default)]
struct Load {
    jobs: Vec<Job>,
    /// The answers, one behind the other.
    bytes: Vec<u8>,
    /// The round that they come from is over: the thread was asked to take them.
    was_offered: bool,
    is_over: bool,
}

struct Dock {
    load: Mutex<Load>,
    asleep: AtomicBool,
    port: Arc<WorkerPort>,
}

impl Dock {
    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends until it is over. Never sleeps while there is a load.
    fn run(&self) {
        let mut taken = Load::default();
        loop {
            let is_over = {
                let mut load = self.load();
                load.was_offered = false;
                std::mem::swap(&mut taken.jobs, &mut load.jobs);
                std::mem::swap(&mut taken.bytes, &mut load.bytes);
                load.is_over
            };
            if taken.jobs.is_empty() {
                if is_over {
                    return;
                }
                self.sleep();
                continue;
            }
            let mut from = 0;
            for job in taken.jobs.drain(..) {
                let bytes = &taken.bytes[from..from + job.length_bytes];
                from += job.length_bytes;
                self.send(&job, bytes);
            }
            taken.bytes.clear();
        }
    }

    fn sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        let load = self.load();
        let may_sleep = load.jobs.is_empty() && !load.is_over;
        drop(load);
        if may_sleep {
            std::thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn send(&self, job: &Job, bytes: &[u8]) {
        let rest = match send_all(&job.socket, bytes) {
            Ok(count) => &bytes[count..],
            // The worker tries again and meets the error itself.
            Err(_) => bytes,
        };
        if !rest.is_empty() {
            return self
                .port
                .send(Letter::Unsent(job.connection, job.session, rest.to_vec()));
        }
        if job.flight.0.swap(LANDED, Ordering::AcqRel) == AWAITED {
            self.port.send(Letter::Sent(job.connection, job.session));
        }
    }
}

/// How many bytes the socket took.
fn send_all(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match write_some(&mut socket, &bytes[sent..])? {
            0 => break,
            count => sent += count,
        }
    }
    Ok(sent)
}

/// The worker's end of its sending thread.
pub(super) struct Sender {
    dock: Arc<Dock>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
    /// Something was handed over in this round.
    has_given: bool,
}

impl Sender {
    /// Starts the thread; `None` where there is no second core to run it, or no thread to be had.
    pub(super) fn start(worker: usize, port: Arc<WorkerPort>) -> Option<Sender> {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return None;
        }
        let dock = Arc::new(Dock {
            load: Mutex::default(),
            asleep: AtomicBool::new(false),
            port,
        });
        let own = Arc::clone(&dock);
        let builder = std::thread::Builder::new().name(format!("sender-{worker}"));
        let handle = match builder.spawn(move || own.run()) {
            Ok(handle) => handle,
            Err(wrong) => {
                tracing::warn!(%wrong, "no thread to send answers; the worker sends them itself");
                return None;
            }
        };
        Some(Sender {
            dock,
            thread: handle.thread().clone(),
            handle: Some(handle),
            has_given: false,
        })
    }

    /// Hands an answer over; `false` if what was handed over in an earlier round is still waiting.
    fn give(&mut self, job: Job, bytes: &[u8]) -> bool {
        let mut load = self.dock.load();
        if load.was_offered {
            return false;
        }
        job.flight.0.store(UNDER_WAY, Ordering::Release);
        load.jobs.push(job);
        load.bytes.extend_from_slice(bytes);
        self.has_given = true;
        true
    }

    /// The round is over: what was handed over is to be sent.
    pub(super) fn offer(&mut self) {
        if !std::mem::take(&mut self.has_given) {
            return;
        }
        let mut load = self.dock.load();
        load.was_offered = !load.jobs.is_empty();
        let wakes = load.was_offered && self.dock.asleep.swap(false, Ordering::SeqCst);
        drop(load);
        if wakes {
            self.thread.unpark();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.dock.load().is_over = true;
        self.thread.unpark();
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

impl<W: SqlWorker> WorkerLoop<W> {
    /// Gives the connection's answer to the sending thread: whether that took it. Only where the client is then to speak next,
    /// so that nothing else is done with the connection before.
    pub(super) fn hand_over(&mut self, index: usize) -> bool {
        let (Some(sender), Some(connection)) = (self.sender.as_mut(), self.connections.get_mut(index)) else {
            return false;
        };
        let others_speak = !connection.requests.is_empty() || connection.readable || connection.fatal.is_some();
        if others_speak || connection.sent_bytes > 0 || self.stopping.is_some() {
            return false;
        }
        let always = self.shared.settings.sending == Sending::HandedOver;
        let pays = always || (self.shares_round && self.own_sends.are_slow());
        if !pays {
            return false;
        }
        let (Phase::Open(session), Some(Transport::Plain(socket)), Some(responder)) =
            (&connection.phase, &connection.transport, &mut connection.responder)
        else {
            return false;
        };
        let bytes = pg(&mut **responder).bytes();
        // A session in a COPY may be given to the engine without a look at its connection.
        if bytes.is_empty() || bytes.len() > HANDED_BYTES_MAX || self.engine.awaits_data(session) {
            return false;
        }
        let job = Job {
            socket: Arc::clone(socket),
            flight: Arc::clone(&connection.flight),
            connection: index,
            session: connection.session,
            length_bytes: bytes.len(),
        };
        if !sender.give(job, bytes) {
            return false;
        }
        WireCounters::add(&self.shared.counters.sent_bytes, bytes.len());
        connection.is_with_sender = true;
        if let Some(responder) = connection.responder.take() {
            self.rest_responder(responder);
        }
        true
    }

    /// The sending thread has sent an answer that was waited for.
    pub(super) fn on_sent(&mut self, index: usize, session: SessionId) {
        if self.find(index, session).is_some() {
            self.enqueue(index);
        }
    }

    /// The socket has not taken all of an answer: the worker goes on with it.
    pub(super) fn on_unsent(&mut self, index: usize, session: SessionId, rest: &[u8]) {
        let Some(connection) = self.find(index, session) else {
            return;
        };
        connection.is_with_sender = false;
        connection.flight.0.store(LANDED, Ordering::Release);
        if let Some(responder) = self.responder(index) {
            responder.raw(rest);
        }
        self.enqueue(index);
    }
}
