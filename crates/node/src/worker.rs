//! One worker: stages of its own, and the sessions that are parked with it.

use crate::door::Door;
use crate::driver::{Driver, RUN_LIMIT};
use crate::hosted::{HostedSessions, NO_CONNECTION, Task};
use crate::node::{Inbox, Shared, partition_session};
use crate::relay::{EPOCH_2000_US, Left, SessionWork};
use rubato_base::{Error, Lsn, Result, SessionId, SqlState};
use rubato_sql::client::{Request, Responder};
use rubato_sql::databases::{DatabaseId, Databases, FIRST_NAME, no_database};
use rubato_sql::insight::Insight;
use rubato_sql::session::{Identity, Session, SessionSeed};
use rubato_stages::worker::{CLIENT_HAS_GONE, CancelReason, IdleTimeout, SessionStart, Signal, StatementWorker};
use rubato_stages::{StageKind, StageMetrics};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often work that is held back tries again while memory is full.
const HELD_BACK_PAUSE_US: i64 = 1000;
/// How long work is held back when no checkpoint helps: memory is full of what open transactions hold.
const HELD_BACK_US_MAX: i64 = 5_000_000;

/// Instructions handled before other nodes have their turn, at least and at most: each takes one session through about a dozen statements
/// at most. Who waits on another node for a word of this one holds rows there.
///
/// Simulated, TPC-C on 16 nodes with 20 and 80 terminals each, in times the throughput of one: 8.4 and 9.3 with all that a round has in
/// one turn (processors were at work for 66 and 75 % of the time), 9.2 and 13.1 with 8, 10.4 and 12.7 with 4, 11.6 and 12.3 with 2. Real
/// nodes that share two processors paid 5 % for turns of 2, and nothing that could be told from noise for turns of 4.
const TURN_LIMITS: (usize, usize) = (4, 16);
/// One in so many of those that wait, between the two.
///
/// Simulated as above with 80 terminals: 0.91 messages a transaction in place of 0.95 with turns of 4 whatever waits, and a p99 of 70 ms in
/// place of 81, at the same throughput; with one in two, and 32 at most, 0.88 and 50 ms, but with 20 terminals 2 % less throughput.
const TURN_SHARE: usize = 4;

/// So long others wait at most, who have yet to be read or sent to, beside what is under way then: statements of many sessions may each take
/// long at one thing, like a value of 100 MB.
const RUN_US_MAX: i64 = 5_000;

/// A session that waits for a transaction.
struct Parked {
    stage: StageKind,
    work: Box<SessionWork>,
}

/// The engine of one thread (see [`StatementWorker`]).
pub struct NodeWorker {
    shared: Arc<Shared>,
    index: usize,
    inbox: Arc<Inbox>,
    driver: Driver,
    insight: Arc<Insight>,
    parked: BTreeMap<SessionId, Parked>,
    /// None of them is overdue before that: it is asked often, and seldom so.
    parked_due_us: Option<i64>,
    /// Sessions that were woken while their work was still on its way to be parked (threads per stage only).
    woken_early: BTreeSet<SessionId>,
    /// Work that is about to write, held back while memory is full.
    held_back: VecDeque<(StageKind, Box<SessionWork>)>,
    /// Since when sessions have been held back.
    held_since_us: BTreeMap<SessionId, i64>,
    completed: VecDeque<Box<SessionWork>>,
    /// The session whose work came in last, and whether others have come in since the log was last forced.
    last_session: SessionId,
    several_sessions: bool,
    submitted: VecDeque<(StageKind, Box<SessionWork>)>,
    door: Door,
    hosted: HostedSessions,
    now_us: i64,
}

impl NodeWorker {
    pub(crate) fn new(shared: Arc<Shared>, index: usize, inbox: Arc<Inbox>) -> Result<NodeWorker> {
        let insight = Arc::clone(&shared.partition.lock().insight);
        let driver = Driver::new(&shared, index, &inbox)?;
        insight.add_stages(driver.metrics());
        Ok(NodeWorker {
            driver,
            insight,
            shared,
            index,
            inbox,
            parked: BTreeMap::new(),
            parked_due_us: None,
            woken_early: BTreeSet::new(),
            held_back: VecDeque::new(),
            held_since_us: BTreeMap::new(),
            completed: VecDeque::new(),
            last_session: SessionId::default(),
            several_sessions: false,
            submitted: VecDeque::new(),
            door: Door::default(),
            hosted: HostedSessions::default(),
            now_us: 0,
        })
    }

    /// Figures of this worker's stages.
    pub fn stage_metrics(&self) -> Arc<StageMetrics> {
        self.driver.metrics()
    }

    /// How many sessions wait for a transaction.
    pub fn parked_sessions(&self) -> usize {
        self.parked.len()
    }

    fn feed(&mut self) {
        while let Some((stage, work)) = self.submitted.pop_front() {
            if let Err(work) = self.driver.submit(self.now_us, stage, work) {
                self.submitted.push_front((stage, work));
                return;
            }
        }
    }

    fn gather(&mut self) {
        while let Some((left_as, mut work)) = self.driver.poll() {
            work.durable_at = work.session.durable_at();
            if !self.held_since_us.is_empty() && !matches!(left_as, Left::HeldBack(_)) {
                self.held_since_us.remove(&work.session.id);
            }
            // It was not under way when that was asked for: it was on its way to be begun.
            let is_cancelled = work.connection == NO_CONNECTION
                && self.hosted.is_to_be_cancelled(work.session.id)
                && work.session.cancel(why_cancelled(CancelReason::ClientRequest));
            if is_cancelled {
                self.hosted.on_cancelled(work.session.id, true);
            }
            match left_as {
                Left::Idle => {
                    self.door.on_idle(&self.shared, &work);
                    self.complete(work);
                }
                Left::Yielded => {
                    work.requests.push_front(Request::GoOn);
                    self.complete(work);
                }
                Left::HeldBack(stage) => {
                    self.held_since_us.entry(work.session.id).or_insert(self.now_us);
                    self.held_back.push_back((stage, work));
                    continue;
                }
                Left::Parked(stage) => {
                    if self.woken_early.remove(&work.session.id) || is_cancelled {
                        self.submitted.push_back((stage, work));
                    } else {
                        self.park(stage, work);
                    }
                }
            }
        }
    }

    /// Gives work back to its owner, or to the node whose client it is for.
    fn complete(&mut self, work: Box<SessionWork>) {
        if work.connection != NO_CONNECTION {
            return self.completed.push_back(work);
        }
        let tasks = self.hosted.on_completed(*work, &self.shared);
        self.do_tasks(tasks);
        self.shared.wake_grid();
    }

    /// Takes up what other nodes have called for. One worker does that, so that what one node says stays in order.
    fn take_calls(&mut self) {
        if self.index != 0 {
            return;
        }
        for work in self.hosted.take_resting() {
            self.submit(work);
        }
        loop {
            let Some(heard) = self.shared.hosting.heard.lock().pop_front() else {
                return;
            };
            let tasks = self.hosted.on_heard(heard, &self.shared);
            self.do_tasks(tasks);
        }
    }

    /// Opens a session, in this database if it is for a client of another node who is in it.
    ///
    /// Errors: 3D000, 55000, 57P03; those of settings.
    fn open(
        &mut self,
        start: SessionStart,
        in_database: Option<DatabaseId>,
        responder: &mut Box<dyn Responder>,
    ) -> Result<Box<Session>> {
        let partition = self.shared.partition.lock();
        // Whoever asks by way of a connection alone whether the node works goes to another one.
        partition.grid.as_ref().map_or(Ok(()), |desk| desk.serves())?;
        let (database_id, settings) = match in_database {
            // Its client is in it, and says which settings it has.
            Some(id) if partition.databases.get(id).is_some() => (id, Vec::new()),
            Some(_) => return Err(no_database(&start.database)),
            None => database_of(&start, &partition.databases)?,
        };
        let identity = Identity {
            user: start.user,
            database: start.database,
            database_id,
            backend_id: (start.session.0 & 0x7fff_ffff) as i32,
            remote: start.remote,
            local: start.local,
            signals: start.signals,
            node_started_us: self.shared.started_us,
        };
        let id = partition_session(start.session, self.index);
        let seed = SessionSeed::new(self.shared.settings.secret, start.session.0, self.now_us);
        let mut session = Session::new(id, self.index, identity, seed);
        if partition.grid.as_ref().is_some_and(|desk| desk.keeper().is_some()) {
            session.has_temporary_elsewhere();
        }
        // Whoever is in a database is known before somebody may drop it.
        self.insight.add_session(session.facts());
        drop(partition);
        session.tell_server(start.server);
        if self.shared.settings.tracer.is_some() {
            session.may_be_traced();
        }
        for (name, value) in settings {
            // One that is no longer known is passed over: it must not keep everybody out.
            if let Ok(Some((name, value))) = session.startup_setting(&name, &value) {
                responder.parameter_status(&name, &value);
            }
        }
        for (name, value) in &start.settings {
            if let Some((name, value)) = session.startup_setting(name, value)? {
                responder.parameter_status(&name, &value);
            }
        }
        session.facts().begin_at(self.now_us - EPOCH_2000_US);
        Ok(Box::new(session))
    }

    fn do_tasks(&mut self, tasks: Vec<Task>) {
        for task in tasks {
            match task {
                Task::Run(work) => self.submit(*work),
                Task::Cancel(session) => {
                    let is_cancelled = self.cancel_if_under_way(session, CancelReason::ClientRequest);
                    self.hosted.on_cancelled(session, is_cancelled);
                }
                Task::Open(client, start, database, mut responder) => {
                    let opened = self.open(*start, Some(database), &mut responder);
                    let opened = opened.map(|session| (session, responder));
                    let tasks = self.hosted.on_opened(client, opened, &self.shared);
                    self.do_tasks(tasks);
                }
            }
        }
    }

    /// Cancels what the session has under way, wherever its work is. False if there is nothing.
    fn cancel_if_under_way(&mut self, session: SessionId, reason: CancelReason) -> bool {
        let id = partition_session(session, self.index);
        let held = self
            .held_back
            .iter_mut()
            // A statement that pauses for others to have their turn is here between two turns.
            .chain(&mut self.submitted)
            .map(|(_, work)| work)
            .find(|work| work.session.id == id);
        let held = held.or_else(|| self.parked.get_mut(&id).map(|parked| &mut parked.work));
        let held = held.or_else(|| self.door.work_of(id));
        // Or it waits for its turn within the stages.
        let Some(work) = held.or_else(|| self.driver.work_of(id)) else {
            return false;
        };
        let is_cancelled = work.session.cancel(why_cancelled(reason));
        self.unpark(id);
        is_cancelled
    }

    fn let_in(&mut self) {
        while let Some(work) = self.door.let_in(&self.shared, self.now_us) {
            self.submitted.push_back((StageKind::Parser, work));
        }
    }

    fn park(&mut self, stage: StageKind, work: Box<SessionWork>) {
        let due_us = work.session.deadline_us().map(unix);
        self.parked_due_us = [self.parked_due_us, due_us].into_iter().flatten().min();
        self.parked.insert(work.session.id, Parked { stage, work });
    }

    fn unpark(&mut self, session: SessionId) {
        if let Some(Parked { stage, work }) = self.parked.remove(&session) {
            self.submitted.push_back((stage, work));
        }
    }

    fn unpark_woken(&mut self) {
        let woken = std::mem::take(&mut *self.inbox.woken.lock());
        for session in woken {
            if !self.parked.contains_key(&session) && matches!(self.driver, Driver::Threads { .. }) {
                self.woken_early.insert(session);
            }
            self.unpark(session);
        }
    }

    /// Has what is held back try again: it is held back once more if memory is still full. Where no checkpoint helps it
    /// fails after a while, for whoever holds the memory may never end.
    fn release_held_back(&mut self) {
        let stuck = self.shared.stuck.load(Ordering::Acquire);
        for (stage, mut work) in std::mem::take(&mut self.held_back) {
            let since_us = self.held_since_us.get(&work.session.id).copied().unwrap_or(self.now_us);
            if stuck && self.now_us - since_us > HELD_BACK_US_MAX {
                work.session.cancel(memory_is_full());
            } else {
                work.session.cancel_if_overdue(self.now_us - EPOCH_2000_US);
            }
            self.submitted.push_back((stage, work));
        }
        if !self.shared.crowded.load(Ordering::Acquire) {
            self.held_since_us.clear();
        }
    }

    /// The wall clock was set: what was to happen after a while still does, and not sooner or later by as much.
    fn shift_deadlines(&mut self, by_us: i64) {
        let parked = self.parked.values_mut().map(|parked| &mut parked.work);
        let waiting = self
            .held_back
            .iter_mut()
            .chain(&mut self.submitted)
            .map(|(_, work)| work);
        self.door.shift_time(by_us);
        self.parked_due_us = self.parked_due_us.map(|due_us| due_us + by_us);
        for work in parked.chain(waiting) {
            work.session.shift_time(by_us);
        }
        self.held_since_us.values_mut().for_each(|since_us| *since_us += by_us);
    }

    fn unpark_overdue(&mut self) {
        let now_us = self.now_us;
        if self.parked_due_us.is_none_or(|due_us| due_us > now_us) {
            return;
        }
        let due_us = |parked: &Parked| parked.work.session.deadline_us().map(unix);
        let parked = self
            .parked
            .iter()
            .filter_map(|(id, parked)| Some((due_us(parked)?, *id)));
        let (overdue, later): (Vec<_>, Vec<_>) = parked.partition(|(due_us, _)| *due_us <= now_us);
        self.parked_due_us = later.iter().map(|(due_us, _)| *due_us).min();
        overdue.into_iter().for_each(|(_, session)| self.unpark(session));
    }
}

/// Microseconds since 2000 as microseconds since 1970.
fn unix(us: i64) -> i64 {
    us.saturating_add(EPOCH_2000_US)
}

impl StatementWorker for NodeWorker {
    type Session = Session;
    type Request = Request;
    type Responder = Box<dyn Responder>;

    fn open_session(&mut self, start: SessionStart, responder: &mut Box<dyn Responder>) -> Result<Box<Session>> {
        self.open(start, None, responder)
    }

    fn submit(&mut self, work: SessionWork) {
        self.several_sessions |= work.session.id != self.last_session;
        self.last_session = work.session.id;
        let work = Box::new(work);
        if Door::is_for(self.shared.settings.admission, &work) {
            self.door.push(self.now_us, work);
        } else {
            self.submitted.push_back((StageKind::Parser, work));
        }
    }

    fn shift_time(&mut self, by_us: i64) {
        self.now_us += by_us;
        self.shift_deadlines(by_us);
    }

    fn run(&mut self, now_us: i64) {
        if now_us < self.now_us {
            self.shift_deadlines(now_us - self.now_us);
        }
        self.now_us = now_us;
        self.unpark_overdue();
        self.release_held_back();
        self.take_calls();
        // One worker speaks with the other nodes (decision 0039).
        let speaks = self.index == 0 && self.shared.has_others.load(Ordering::Relaxed);
        let limit = match speaks {
            true => (self.waiting() / TURN_SHARE).clamp(TURN_LIMITS.0, TURN_LIMITS.1),
            false => RUN_LIMIT,
        };
        let clock_us = self.shared.settings.clock_us;
        let began_us = clock_us();
        loop {
            self.unpark_woken();
            self.let_in();
            self.feed();
            let handled = self.driver.run(clock_us, limit);
            self.gather();
            if (handled == 0 && self.submitted.is_empty()) || (handled == limit && speaks) {
                break;
            }
            if self.waiting() > 0 && clock_us() - began_us > RUN_US_MAX {
                break;
            }
        }
    }

    fn waiting(&self) -> usize {
        self.driver.waiting() + self.submitted.len()
    }

    fn poll_completed(&mut self) -> Option<SessionWork> {
        self.completed.pop_front().map(|work| *work)
    }

    fn on_wake(&mut self) {
        // `run` follows and looks at the inbox.
    }

    fn forced_lsn(&self) -> Lsn {
        self.shared.answered_lsn()
    }

    fn force_if_idle(&mut self) -> bool {
        // With one session there is nobody else to look after: forcing here saves two thread switches.
        let several = std::mem::replace(&mut self.several_sessions, false) || self.has_more();
        if several && self.shared.may_force(self.now_us) && self.shared.ask_to_force(self.index) {
            return false;
        }
        self.inbox.waits_for_log.store(false, Ordering::Release);
        if self.shared.answers_held.load(Ordering::Acquire) {
            // Whoever drives the node's part in the grid forces the log too, and wakes this worker.
            self.shared.wake_grid();
            return false;
        }
        // A disk that is full or fails: the answers stay unsent, and the log is forced again when this is asked again.
        self.shared.force_if_idle(self.index, self.now_us).unwrap_or(false)
    }

    fn next_deadline_us(&self) -> Option<i64> {
        let held_back = (!self.held_back.is_empty()).then_some(self.now_us + HELD_BACK_PAUSE_US);
        let door = self.door.deadline_us(self.shared.settings.admission, self.now_us);
        let hosted = self.hosted.is_busy().then_some(self.now_us);
        [self.parked_due_us, held_back, door, hosted]
            .into_iter()
            .flatten()
            .min()
    }

    fn idle_timeout(&self, session: &Session) -> Option<IdleTimeout> {
        session.idle_timeout()
    }

    fn is_over(&self, session: &Session) -> bool {
        session.is_over()
    }

    fn awaits_data(&self, session: &Session) -> bool {
        session.awaits_data()
    }

    fn takes_told(&self, session: &Session) -> bool {
        session.takes_told()
    }

    fn holds_answer(&self, session: &Session) -> bool {
        session.holds_answer()
    }

    fn is_under_way(&self, session: &Session) -> bool {
        session.is_under_way()
    }

    fn cancel(&mut self, session: SessionId, reason: CancelReason) {
        self.cancel_if_under_way(session, reason);
    }

    // Said with the next round of the node's clock at the latest.
    fn cancel_elsewhere(&mut self, process_id: i32, secret_key: i32) -> bool {
        self.insight.signal_elsewhere(process_id, Signal::CancelBy(secret_key))
    }
}

/// The database that a session asks for, and the settings that it begins with. 3D000, 55000.
fn database_of(start: &SessionStart, databases: &Databases) -> Result<(DatabaseId, Vec<(String, String)>)> {
    let name = &start.database;
    let found = databases.find(name).ok_or_else(|| {
        let hint = format!("Every server has the database \"{FIRST_NAME}\"; CREATE DATABASE makes others.");
        no_database(name).with_hint(hint)
    })?;
    if !found.facts.allows_connections {
        let message = format!("database \"{name}\" is not currently accepting connections");
        return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    Ok((found.facts.id, found.facts.settings.clone()))
}

fn why_cancelled(reason: CancelReason) -> Error {
    let (code, message) = match reason {
        CancelReason::ClientRequest => (SqlState::QUERY_CANCELED, "canceling statement due to user request"),
        CancelReason::Disconnected => (SqlState::CONNECTION_FAILURE, CLIENT_HAS_GONE),
        CancelReason::Shutdown => {
            let message = "terminating connection due to administrator command";
            (SqlState::ADMIN_SHUTDOWN, message)
        }
    };
    Error::new(code, message)
}

fn memory_is_full() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "memory is full of what open transactions hold")
        .with_hint("End transactions that have been open for long, or give the database more memory with --memory.")
}
