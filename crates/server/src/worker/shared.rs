//! What the workers of one server share.

use super::port::{Letter, Unwanted, WorkerPort};
use crate::passwords::Passwords;
use crate::scram::random;
use crate::settings::ServerSettings;
use crate::tls::TlsSettings;
use rubato_base::{Result, SessionId};
use rubato_stages::worker::{Signal, Signals};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counters of the wire; each is exact, together they are not of one moment.
#[derive(Debug, Default)]
pub struct WireCounters {
    /// Connections open now, those that log in included.
    pub connections: AtomicUsize,
    /// Connections ever accepted.
    pub connections_total: AtomicU64,
    /// Connections refused: wrong password, garbage, too many.
    pub connections_refused: AtomicU64,
    /// Bytes read from clients, under TLS after decryption.
    pub received_bytes: AtomicU64,
    /// Bytes sent to clients, under TLS before encryption.
    pub sent_bytes: AtomicU64,
    /// Requests (messages) decoded.
    pub requests: AtomicU64,
    /// Batches handed to the engine; requests per batch show how much clients pipeline.
    pub batches: AtomicU64,
}

impl WireCounters {
    pub(crate) fn add(counter: &AtomicU64, amount: usize) {
        counter.fetch_add(amount as u64, Relaxed);
    }
}

/// Settings, counters and the sessions by the number that a cancel request names.
pub(crate) struct Shared {
    pub(crate) settings: ServerSettings,
    pub(crate) tls: Option<TlsSettings>,
    pub(crate) passwords: Option<Passwords>,
    pub(crate) counters: Arc<WireCounters>,
    pub(crate) ports: Vec<Arc<WorkerPort>>,
    /// What SHOW tells of the server.
    pub(crate) shown: Arc<[(String, String)]>,
    sessions: Mutex<HashMap<i32, Registered>>,
    last_session: AtomicU64,
}

struct Registered {
    secret_key: i32,
    worker: usize,
    session: SessionId,
}

/// Settings that the server fixes, by name.
fn shown(settings: &ServerSettings, has_tls: bool) -> Arc<[(String, String)]> {
    let port = settings.listen.first().map_or(0, SocketAddr::port);
    let addresses: Vec<String> = settings.listen.iter().map(|address| address.ip().to_string()).collect();
    let shown = [
        ("listen_addresses", Some(addresses.join(", "))),
        ("max_connections", Some(settings.connections_max.to_string())),
        ("port", Some(port.to_string())),
        ("shared_buffers", settings.memory_bytes.map(show_bytes)),
        ("ssl", Some(if has_tls { "on" } else { "off" }.to_owned())),
    ];
    let shown = shown
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    shown.collect()
}

/// In the largest unit that needs no fraction.
fn show_bytes(bytes: u64) -> String {
    let units = [(1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB")];
    match units.into_iter().find(|(size, _)| bytes.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", bytes / size),
        None => format!("{}kB", bytes >> 10),
    }
}

impl Shared {
    pub(crate) fn new(
        settings: ServerSettings,
        tls: Option<TlsSettings>,
        passwords: Option<Passwords>,
        ports: Vec<Arc<WorkerPort>>,
    ) -> Shared {
        let last_session = AtomicU64::new(settings.sessions_behind);
        Shared {
            shown: shown(&settings, tls.is_some()),
            settings,
            tls,
            passwords,
            counters: Arc::default(),
            ports,
            sessions: Mutex::default(),
            last_session,
        }
    }

    /// A new session number, never used before.
    pub(crate) fn next_session(&self) -> SessionId {
        SessionId(self.last_session.fetch_add(1, Relaxed) + 1)
    }

    /// The number that stands for a session on the wire.
    pub(crate) fn process_id(session: SessionId) -> i32 {
        (session.0 & 0x7fff_ffff) as i32
    }

    /// Makes a session reachable for cancel requests: its process id and secret.
    pub(crate) fn register(&self, session: SessionId, worker: usize) -> Result<(i32, i32)> {
        let secret_key = i32::from_be_bytes(random::<4>()?);
        let process_id = Shared::process_id(session);
        self.sessions().insert(
            process_id,
            Registered {
                secret_key,
                worker,
                session,
            },
        );
        Ok((process_id, secret_key))
    }

    pub(crate) fn unregister(&self, session: SessionId) {
        self.sessions().remove(&Shared::process_id(session));
    }

    /// Whether there is such a session.
    pub(crate) fn has_session(&self, process_id: i32) -> bool {
        self.sessions().contains_key(&process_id)
    }

    /// The worker of a session that the signal is for, and the session.
    fn find(&self, process_id: i32, signal: Signal) -> Option<(usize, SessionId)> {
        let sessions = self.sessions();
        let found = sessions.get(&process_id)?;
        match signal {
            Signal::CancelBy(secret_key) if secret_key != found.secret_key => None,
            _ => Some((found.worker, found.session)),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<i32, Registered>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker with the fewest connections; the connection is counted as its own from here.
    pub(crate) fn choose_worker(&self) -> usize {
        let load = |index: &usize| self.ports[*index].connections.load(Relaxed);
        let worker = (0..self.ports.len()).min_by_key(load).unwrap_or(0);
        self.ports[worker].connections.fetch_add(1, Relaxed);
        self.counters.connections.fetch_add(1, Relaxed);
        self.counters.connections_total.fetch_add(1, Relaxed);
        worker
    }

    pub(crate) fn on_connection_closed(&self, worker: usize) {
        self.ports[worker].connections.fetch_sub(1, Relaxed);
        self.counters.connections.fetch_sub(1, Relaxed);
    }

    /// Whether so many sessions are open that a new one is to be told so. Connections that are only told so do not count: a crowd that
    /// asks all the time would keep everybody out.
    pub(crate) fn is_crowded(&self) -> bool {
        self.sessions().len() >= self.settings.connections_max
    }

    /// Whether there are as many connections as there may be sessions: some of them are only told that there is no room, or log in.
    pub(crate) fn is_full(&self) -> bool {
        self.counters.connections.load(Relaxed) >= self.settings.connections_max
    }

    /// Whether even telling so is too much.
    pub(crate) fn is_overrun(&self) -> bool {
        self.counters.connections.load(Relaxed) >= self.settings.connections_max + REFUSALS_MAX
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Signals for Shared {
    fn signal(&self, process_id: i32, signal: Signal) -> bool {
        let Some((worker, session)) = self.find(process_id, signal) else {
            return false;
        };
        self.ports[worker].send(match signal {
            Signal::Cancel | Signal::CancelBy(_) => Letter::Cancel(session),
            Signal::Terminate => Letter::Terminate(session, Unwanted::ByCommand),
            Signal::Bereave => Letter::Terminate(session, Unwanted::WithoutLocks),
            Signal::Deliver => Letter::Deliver(session),
        });
        true
    }
}

/// How many connections above the limit are kept for as long as it takes to tell them.
const REFUSALS_MAX: usize = 64;

/// Whether a client at this address is on this machine.
pub(crate) fn is_loopback(peer: &SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}
