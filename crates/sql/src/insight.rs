//! What the system views say beside the catalog: who is connected and does what, and the figures of the node.
//!
//! A session notes what it does in atomics of its own, and nobody looks at them before somebody asks. Everything else is read from
//! where it is kept anyway.

use crate::client::TransactionStatus;
use crate::databases::{DatabaseId, Databases};
use crate::executor::IndexProgress;
use crate::moves::Moves;
use crate::session::Identity;
use parking_lot::{Mutex, MutexGuard};
use rubato_base::{SessionId, Value};
use rubato_stages::StageMetrics;
use rubato_stages::worker::Signal;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

/// In a grid, the numbers by which clients know sessions have their node above so many bits.
pub const BACKEND_BITS: u32 = 21;

/// Sessions that have ended are forgotten when there are so many more entries than there were sessions at the last look.
const SWEEP_SLACK: usize = 64;

/// The figure of the node that says what its store takes on the disk.
pub const STORED_BYTES: &str = "stored_bytes";

/// Named figures of the node, read when somebody asks. It must not take the partition: whoever asks holds it.
pub type NodeCounters = Box<dyn Fn() -> Vec<(&'static str, i64)> + Send + Sync>;

/// Rows of views, each with the number of its view.
pub(crate) type RowsElsewhere = Arc<[(u8, Vec<Value>)]>;

/// What the views of one node look into.
#[derive(Default)]
pub struct Insight {
    sessions: Mutex<Sessions>,
    stages: Mutex<Vec<Arc<StageMetrics>>>,
    counters: OnceLock<NodeCounters>,
    databases: Mutex<Arc<Databases>>,
    nodes: Mutex<Arc<[NodeFacts]>>,
    moves: Mutex<Moves>,
    /// What was so on other nodes when somebody asked last: rows of views, each with the number of its view.
    elsewhere: Mutex<RowsElsewhere>,
    /// What sessions of other nodes are to do.
    signals: Mutex<Vec<Signalled>>,
}

/// A session that is to give up its statement, or to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signalled {
    /// Its node.
    pub node: u32,
    /// Which one, as clients know it.
    pub backend_id: i32,
    /// What it is to do.
    pub signal: Signal,
}

/// A node of the grid, as another one sees it.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Which one.
    pub node: u32,
    /// Where the others reach it.
    pub address: String,
    /// `here` for the one that is asked; else `up`, `greeting`, `dialling` or `down`.
    pub state: &'static str,
    /// Why there is no channel.
    pub why: Option<String>,
    /// Which of its starts was heard of last.
    pub life: u64,
    /// Whether it has what there is once in the grid.
    pub is_keeper: bool,
    /// Whether it leads, and so hands out the ticks.
    pub is_leader: bool,
    /// Whether it has a vote in what all agree on, as far as the node that is asked knows.
    pub votes: bool,
    /// The term in which it leads.
    pub term: Option<u64>,
    /// How long a question and its answer took last.
    pub round_trip_us: Option<u64>,
    /// Bytes that wait to be sent to it.
    pub waiting_bytes: u64,
    /// Messages sent to it and received from it.
    pub messages: [u64; 2],
    /// Frames sent to it and received from it.
    pub frames: [u64; 2],
    /// Bytes sent to it and received from it.
    pub bytes: [u64; 2],
}

#[derive(Default)]
struct Sessions {
    by_id: BTreeMap<SessionId, Weak<SessionFacts>>,
    sweep_at: usize,
}

impl Insight {
    /// A session has begun. It is forgotten when nobody holds its facts any more.
    pub fn add_session(&self, facts: &Arc<SessionFacts>) {
        let mut sessions = self.sessions.lock();
        if sessions.by_id.len() >= sessions.sweep_at {
            sessions.by_id.retain(|_, facts| facts.strong_count() > 0);
            sessions.sweep_at = sessions.by_id.len() * 2 + SWEEP_SLACK;
        }
        sessions.by_id.insert(facts.id, Arc::downgrade(facts));
    }

    /// The stages of a worker.
    pub fn add_stages(&self, stages: Arc<StageMetrics>) {
        self.stages.lock().push(stages);
    }

    /// Where the node's figures come from. Only the first one counts.
    pub fn set_counters(&self, counters: NodeCounters) {
        let _ = self.counters.set(counters);
    }

    /// The sessions that are there, by id.
    pub(crate) fn sessions(&self) -> BTreeMap<SessionId, Arc<SessionFacts>> {
        let sessions = self.sessions.lock();
        let live = |(id, facts): (&SessionId, &Weak<SessionFacts>)| Some((*id, facts.upgrade()?));
        sessions.by_id.iter().filter_map(live).collect()
    }

    /// The sessions in a database, but for one.
    pub(crate) fn sessions_in(&self, database: DatabaseId, but: SessionId) -> Vec<Arc<SessionFacts>> {
        let mut sessions: Vec<Arc<SessionFacts>> = self.sessions().into_values().collect();
        sessions.retain(|facts| facts.identity.database_id == database && facts.id != but);
        sessions
    }

    /// The databases.
    pub fn databases(&self) -> Arc<Databases> {
        Arc::clone(&self.databases.lock())
    }

    pub(crate) fn set_databases(&self, databases: Arc<Databases>) {
        *self.databases.lock() = databases;
    }

    /// What is so on other nodes.
    pub(crate) fn set_elsewhere(&self, rows: Vec<(u8, Vec<Value>)>) {
        *self.elsewhere.lock() = rows.into();
    }

    pub(crate) fn elsewhere(&self) -> RowsElsewhere {
        Arc::clone(&self.elsewhere.lock())
    }

    /// Has a session of this node do this. False if there is none, or it is not for it.
    pub fn signal_here(&self, backend_id: i32, signal: Signal) -> bool {
        let mut sessions = self.sessions().into_values();
        let found = sessions.find(|facts| facts.identity.backend_id == backend_id && facts.identity.signals.is_some());
        let signals = found.and_then(|facts| facts.identity.signals.clone());
        signals.is_some_and(|signals| signals.signal(backend_id, signal))
    }

    /// Has a session of this node end, whose advisory locks others may have.
    pub fn bereave(&self, session: SessionId) {
        let facts = self.sessions.lock().by_id.get(&session).and_then(Weak::upgrade);
        if let Some(facts) = facts
            && let Some(signals) = &facts.identity.signals
        {
            signals.signal(facts.identity.backend_id, Signal::Bereave);
        }
    }

    /// The same for a session of any node: of another one that can be reached it is not known whether it is there.
    pub(crate) fn signal(&self, backend_id: i32, signal: Signal) -> bool {
        self.signal_here(backend_id, signal) || self.signal_elsewhere(backend_id, signal)
    }

    /// Has another node be told so, if it can be reached.
    pub fn signal_elsewhere(&self, backend_id: i32, signal: Signal) -> bool {
        let node = backend_id as u32 >> BACKEND_BITS;
        let is_reached = self
            .nodes()
            .iter()
            .any(|facts| facts.node == node && facts.state == "up");
        if is_reached {
            self.signals.lock().push(Signalled {
                node,
                backend_id,
                signal,
            });
        }
        is_reached
    }

    /// What is to be said to other nodes.
    pub fn take_signals(&self) -> Vec<Signalled> {
        std::mem::take(&mut self.signals.lock())
    }

    /// Whether something is.
    pub fn has_signals(&self) -> bool {
        !self.signals.lock().is_empty()
    }

    /// How it stands with the nodes of the grid.
    pub fn set_nodes(&self, nodes: Vec<NodeFacts>) {
        *self.nodes.lock() = nodes.into();
    }

    pub(crate) fn nodes(&self) -> Arc<[NodeFacts]> {
        Arc::clone(&self.nodes.lock())
    }

    /// How far tables are whose rows move.
    pub(crate) fn moves(&self) -> MutexGuard<'_, Moves> {
        self.moves.lock()
    }

    pub(crate) fn stages(&self) -> Vec<Arc<StageMetrics>> {
        self.stages.lock().clone()
    }

    pub(crate) fn counters(&self) -> Vec<(&'static str, i64)> {
        self.counters.get().map_or(Vec::new(), |counters| counters())
    }
}

const ACTIVE: u8 = 0;
const IDLE: u8 = 1;
const IN_TRANSACTION: u8 = 2;
const FAILED: u8 = 3;

/// What one session does. Times are in microseconds since 2000-01-01 UTC, 0 for never.
pub struct SessionFacts {
    /// The id by which the partition knows it.
    pub(crate) id: SessionId,
    pub(crate) identity: Identity,
    application: Mutex<String>,
    began_us: AtomicI64,
    state: AtomicU8,
    state_since_us: AtomicI64,
    query_since_us: AtomicI64,
    transaction_since_us: AtomicI64,
    waiting_since_us: AtomicI64,
    query: Mutex<Option<Arc<str>>>,
    building: Mutex<Option<IndexProgress>>,
    /// It works for a session of another node, which is shown in its place.
    is_hosted: AtomicBool,
}

/// The same at one moment.
pub(crate) struct SessionNow {
    pub(crate) application: String,
    pub(crate) state: &'static str,
    pub(crate) state_since_us: i64,
    pub(crate) query_since_us: i64,
    pub(crate) transaction_since_us: i64,
    pub(crate) waiting_since_us: i64,
    pub(crate) query: String,
}

/// Of a longer statement others see only so much.
const QUERY_BYTES_MAX: usize = 64 << 10;

impl SessionFacts {
    pub(crate) fn new(id: SessionId, identity: Identity) -> SessionFacts {
        SessionFacts {
            id,
            identity,
            application: Mutex::default(),
            began_us: AtomicI64::new(0),
            state: AtomicU8::new(IDLE),
            state_since_us: AtomicI64::new(0),
            query_since_us: AtomicI64::new(0),
            transaction_since_us: AtomicI64::new(0),
            waiting_since_us: AtomicI64::new(0),
            query: Mutex::default(),
            building: Mutex::default(),
            is_hosted: AtomicBool::new(false),
        }
    }

    pub(crate) fn serves_another(&self) {
        self.is_hosted.store(true, Relaxed);
    }

    pub(crate) fn is_hosted(&self) -> bool {
        self.is_hosted.load(Relaxed)
    }

    pub(crate) fn set_application(&self, name: &str) {
        name.clone_into(&mut self.application.lock());
    }

    /// The session begins.
    pub fn begin_at(&self, now_us: i64) {
        self.began_us.store(now_us, Relaxed);
        self.state_since_us.store(now_us, Relaxed);
    }

    pub(crate) fn began_us(&self) -> i64 {
        self.began_us.load(Relaxed)
    }

    /// A statement begins.
    pub(crate) fn begins(&self, query: &Arc<str>, now_us: i64) {
        self.state.store(ACTIVE, Relaxed);
        self.state_since_us.store(now_us, Relaxed);
        self.query_since_us.store(now_us, Relaxed);
        // Loads are not kept for others to look at.
        let shown = match query.len() {
            0..=QUERY_BYTES_MAX => Arc::clone(query),
            _ => {
                let end = (0..=QUERY_BYTES_MAX).rev().find(|end| query.is_char_boundary(*end));
                Arc::from(&query[..end.unwrap_or(0)])
            }
        };
        *self.query.lock() = Some(shown);
    }

    /// How far the index is that it builds; `None` if it builds none.
    pub(crate) fn builds(&self, progress: Option<IndexProgress>) {
        *self.building.lock() = progress;
    }

    pub(crate) fn building(&self) -> Option<IndexProgress> {
        self.building.lock().clone()
    }

    /// It waits for another transaction.
    pub(crate) fn waits(&self, now_us: i64) {
        self.waiting_since_us.store(now_us, Relaxed);
    }

    /// It has nothing to do. `transaction_since_us` is when its open transaction began.
    pub(crate) fn rests(&self, status: TransactionStatus, transaction_since_us: i64, now_us: i64) {
        let state = match status {
            TransactionStatus::Idle => IDLE,
            TransactionStatus::InTransaction => IN_TRANSACTION,
            TransactionStatus::Failed => FAILED,
        };
        self.builds(None);
        self.state.store(state, Relaxed);
        self.state_since_us.store(now_us, Relaxed);
        self.transaction_since_us.store(transaction_since_us, Relaxed);
    }

    pub(crate) fn now(&self) -> SessionNow {
        let state = self.state.load(Relaxed);
        let (query_since_us, began_us) = (
            self.query_since_us.load(Relaxed),
            self.transaction_since_us.load(Relaxed),
        );
        SessionNow {
            application: self.application.lock().clone(),
            state: match state {
                ACTIVE => "active",
                IN_TRANSACTION => "idle in transaction",
                FAILED => "idle in transaction (aborted)",
                _ => "idle",
            },
            state_since_us: self.state_since_us.load(Relaxed),
            query_since_us,
            transaction_since_us: if began_us == 0 && state == ACTIVE {
                query_since_us
            } else {
                began_us
            },
            waiting_since_us: self.waiting_since_us.load(Relaxed),
            query: self.query.lock().as_deref().unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_have_ended_are_forgotten() {
        let insight = Insight::default();
        let stays = Arc::new(SessionFacts::new(SessionId(1), Identity::default()));
        insight.add_session(&stays);
        for number in 2..1000 {
            insight.add_session(&Arc::new(SessionFacts::new(SessionId(number), Identity::default())));
        }
        assert_eq!(insight.sessions().into_keys().collect::<Vec<_>>(), [SessionId(1)]);
        assert!(insight.sessions.lock().by_id.len() <= 2 * SWEEP_SLACK);
    }

    #[test]
    fn a_session_says_what_it_does() {
        let facts = SessionFacts::new(SessionId(1), Identity::default());
        assert_eq!(facts.now().state, "idle");
        facts.begins(&Arc::from("select 1"), 5);
        let now = facts.now();
        assert_eq!(
            (now.state, &*now.query, now.transaction_since_us),
            ("active", "select 1", 5)
        );
        facts.rests(TransactionStatus::InTransaction, 4, 9);
        let now = facts.now();
        assert_eq!(
            (now.state, now.state_since_us, now.transaction_since_us),
            ("idle in transaction", 9, 4)
        );
    }
}
