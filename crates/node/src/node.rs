//! The node: what its workers share.

use crate::checkpoint::CheckpointReport;
use crate::commit_log::{Attached, LogEnd};
use crate::errors::{OwnPlace, log_error, write_refusal};
use crate::hosted::{Heard, Hosting};
use crate::laying::Laying;
use crate::memory::{FILLED_SHARE, RowsBound, Stuck};
use crate::recovery::{GridPast, RecoveryProgress, RecoveryReport, recover};
use crate::relay::EPOCH_2000_US;
use crate::source::StoredTables;
use crate::worker::NodeWorker;
use parking_lot::{Condvar, Mutex};
use rubato_base::trace::Tracer;
use rubato_base::{Error, Lsn, Result, SessionId, SqlState};
use rubato_log::{Forcer, LogDirectory, Options};
use rubato_protocol::{Admission, Policies, Statistics};
use rubato_sql::analytics::Engine;
use rubato_sql::client::Responder;
use rubato_sql::executor::Limits;
use rubato_sql::insight::STORED_BYTES;
use rubato_sql::partition::Partition;
use rubato_sql::session::{PLANS_MAX_DEFAULT, PlanCache};
use rubato_stages::worker::WakeHandle;
use rubato_stages::{Helper, Helpers};
use rubato_storage::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Pause between two attempts to force a log that fails.
const FORCE_PAUSE_US: i64 = 250_000;
/// A checkpoint is due in filled memory when more than one part in so many is not stored yet.
const DIRTY_SHARE: usize = 3;

/// Threads that may read the data of COPY at a time.
const COPY_HELPERS_MAX: usize = 4;

/// Log bytes after which a checkpoint is due on a disk that is nearly full.
const TIGHT_LOG_BYTES: u64 = 4 << 20;
/// Bytes of catalogs in the log after which a checkpoint is due: a restart takes some seconds to take them apart where rows come between.
const ATTACHED_BYTES_MAX: u64 = 64 << 20;
/// Rows read at once while memory is being filled after a restart: a pause of about half a millisecond.
const WARM_UP_ROWS: usize = 256;

/// How a node runs.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// From the operating system's random numbers: UUIDs and other numbers that nobody is to guess follow from it. Another one for each start.
    pub secret: u128,
    /// Bytes that rows in memory may take.
    pub memory_bytes: usize,
    /// Policies of the protocol.
    pub policies: Policies,
    /// Log bytes after which a checkpoint is due: what a restart has to replay at most, about.
    pub checkpoint_log_bytes: u64,
    /// How much one statement may hold.
    pub limits: Limits,
    /// How many statements one worker's stage may have waiting.
    pub queue_capacity: usize,
    /// Load control by conflict potential, if it is switched on.
    pub admission: Option<Admission>,
    /// Threads of each kind of stage, for each worker; 0 runs all stages on the worker's own thread.
    pub stage_threads: usize,
    /// The clock, in microseconds since 1970: what `clock_timestamp()`, EXPLAIN ANALYZE and the stages' figures read. The default
    /// stands still.
    pub clock_us: fn() -> i64,
    /// Lends a thread to a recovery, to read the log ahead, and to loads, to read their data and to write rows to the store; without
    /// one, whoever needs it does everything itself.
    pub helper: Option<Helper>,
    /// Runs statements over many rows; without it the stages of the relay run what they can.
    pub analytics: Option<Arc<dyn Engine>>,
    /// Makes what writes answers for clients of other nodes: a responder of the kind that those nodes have for their clients.
    /// Without one this node runs nothing for them.
    pub hosted_responder: Option<fn() -> Box<dyn Responder>>,
    /// Says which statements are traced, and takes the spans of their ways; without one none is.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// Is told every second or so how far a recovery has come.
    pub on_recovery: fn(RecoveryProgress),
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings {
            secret: 0,
            memory_bytes: 1 << 30,
            policies: Policies::default(),
            checkpoint_log_bytes: 1 << 30,
            limits: Limits::default(),
            queue_capacity: 16_384,
            admission: None,
            stage_threads: 0,
            clock_us: || 0,
            helper: None,
            analytics: None,
            hosted_responder: None,
            tracer: None,
            on_recovery: |_| {},
        }
    }
}

/// What the workers of one node share.
pub(crate) struct Shared {
    pub(crate) settings: NodeSettings,
    pub(crate) partition: Mutex<Partition>,
    pub(crate) plans: Mutex<PlanCache>,
    pub(crate) forcer: Forcer,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inboxes: Mutex<Vec<Arc<Inbox>>>,
    /// Work for clients of other nodes.
    pub(crate) hosting: Hosting,
    /// There are other nodes, for which the first worker interrupts what it does.
    pub(crate) has_others: AtomicBool,
    /// Wakes whoever drives this node's part in its grid.
    pub(crate) grid_wake: Mutex<Option<WakeHandle>>,
    /// Storage of which the store may hold rows.
    pub(crate) stored: StoredTables,
    /// Rows on their way there.
    pub(crate) laying: Arc<Laying>,
    /// Threads that read the data of COPY.
    pub(crate) copy_helpers: Helpers,
    /// Answers wait, however far the log is forced: not everybody in the grid would find what they tell of.
    pub(crate) answers_held: Arc<AtomicBool>,
    /// Held by the thread that forces the log.
    forcing: AtomicBool,
    log_thread: LogThread,
    checkpoints: AtomicU64,
    /// A statement waits for a checkpoint that has not begun.
    pub(crate) checkpoint_asked: AtomicBool,
    /// The node has more in memory than it may and nothing of it can leave before a checkpoint.
    pub(crate) crowded: AtomicBool,
    /// Transactions that were let in by load control although they are judged, and have not ended.
    pub(crate) judged_inside: AtomicUsize,
    /// Which node of a grid this is, if it is one.
    pub(crate) place: OwnPlace,
    /// Why the last checkpoint failed, if it did.
    pub(crate) checkpoint_failure: Mutex<Option<Error>>,
    /// A checkpoint has ended, or would have had nothing to store, and memory was full all the same: of what open transactions hold.
    pub(crate) stuck: AtomicBool,
    /// Since when.
    pub(crate) stuck_since: Mutex<Stuck>,
    /// When the last checkpoint ended, or the node was started.
    pub(crate) last_checkpoint_us: AtomicI64,
    /// When it was looked last whether the store has tables that were dropped.
    pub(crate) unused_looked_at_us: AtomicI64,
    /// Steps until eviction is tried again after it found nothing.
    pub(crate) eviction_pause: AtomicUsize,
    /// The log's writing end, to close it.
    log_end: LogEnd,
    /// When a force that failed may be tried again.
    force_again_at_us: AtomicI64,
    last_mark: AtomicU64,
    /// What the log has of catalogs since.
    pub(crate) attached: Attached,
    statements: AtomicU64,
    /// When it was opened, in microseconds since 2000.
    pub(crate) started_us: i64,
    /// What rows in memory take, as of the last step.
    pub(crate) memory_bytes: AtomicUsize,
    /// What they may take.
    pub(crate) rows_bound: RowsBound,
}

/// How a thread that does nothing else but force the log is told to.
#[derive(Default)]
pub(crate) struct LogThread {
    serves: AtomicBool,
    wanted: Mutex<bool>,
    changed: Condvar,
}

/// What other threads tell a worker.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) woken: Mutex<Vec<SessionId>>,
    /// Whether answers of this worker wait for the log.
    pub(crate) waits_for_log: AtomicBool,
    pub(crate) wake: Mutex<Option<WakeHandle>>,
}

impl Inbox {
    pub(crate) fn wake(&self) {
        if let Some(wake) = &*self.wake.lock() {
            wake.wake();
        }
    }
}

/// Bits of a session id that name the session; those above name its worker.
const SESSION_BITS: u32 = 48;

/// The id by which the partition knows a session of a worker.
pub(crate) fn partition_session(session: SessionId, worker: usize) -> SessionId {
    SessionId((session.0 & ((1 << SESSION_BITS) - 1)) | ((worker as u64) << SESSION_BITS))
}

impl Shared {
    /// Tells the owners of transactions whose wait is over: sessions by the inboxes of their workers, branches by whoever drives
    /// the node's part in its grid. Sessions that stand in the way of an older transaction of the grid lose theirs (rule Q-8).
    pub(crate) fn deliver_woken(&self, partition: &mut Partition, own_worker: usize) {
        partition.database.roll_back_doomed();
        partition.note_lock_waits();
        let asks = partition.grid.as_ref().is_some_and(|desk| desk.has_news());
        if asks || partition.insight.has_signals() || partition.database.has_news_of_branches() {
            self.wake_grid();
        }
        let woken = partition.database.take_woken();
        let advised = partition.advisory.take_woken();
        if woken.is_empty() && advised.is_empty() {
            return;
        }
        let woken = woken.into_iter().map(|(_, session)| session);
        self.wake_sessions(woken.chain(advised), own_worker);
    }

    /// Hands on what other nodes have said about the work for their clients.
    pub(crate) fn host(&self, heard: impl Iterator<Item = Heard>) {
        let mut inbox = self.hosting.heard.lock();
        let before = inbox.len();
        inbox.extend(heard);
        if inbox.len() > before
            && let Some(first) = self.inboxes.lock().first()
        {
            first.wake();
        }
    }

    /// There is something to do for whoever drives the node's part in its grid.
    pub(crate) fn wake_grid(&self) {
        if let Some(wake) = &*self.grid_wake.lock() {
            wake.wake();
        }
    }

    /// Tells sessions, by the inboxes of their workers, to go on.
    pub(crate) fn wake_sessions(&self, woken: impl IntoIterator<Item = SessionId>, own_worker: usize) {
        let inboxes = self.inboxes.lock();
        for session in woken {
            let worker = (session.0 >> SESSION_BITS) as usize;
            let Some(inbox) = inboxes.get(worker) else { continue };
            inbox.woken.lock().push(session);
            if worker != own_worker {
                inbox.wake();
            }
        }
    }

    /// Between two statements: deletions that are durable leave the ordered keys, who waited for what has ended is told, and
    /// memory is kept within its bounds.
    pub(crate) fn settle(&self, partition: &mut Partition, worker: usize) {
        partition.database.set_durable(self.forced_lsn());
        self.deliver_woken(partition, worker);
        self.keep_within_memory(partition);
        self.keep_admission(partition);
        if partition.checkpoints.is_wanted() {
            self.checkpoint_asked.store(true, Ordering::Release);
        }
    }

    /// Forces the log unless another thread is at it; true if it was forced. Workers whose answers wait are woken. After a
    /// failure it is tried again every now and then, as long as somebody asks: nothing appended is given up.
    pub(crate) fn force_if_idle(&self, own_worker: usize, now_us: i64) -> Result<bool> {
        if !self.may_force(now_us) {
            return Ok(false);
        }
        if self.forcing.swap(true, Ordering::AcqRel) {
            let inboxes = self.inboxes.lock();
            if let Some(own) = inboxes.get(own_worker) {
                own.waits_for_log.store(true, Ordering::Release);
            }
            // The other thread may have finished just before the flag was set: then nobody would wake this one.
            return Ok(!self.forcing.load(Ordering::Acquire));
        }
        let forced = self.forcer.force();
        self.forcing.store(false, Ordering::Release);
        self.wake_those_who_wait();
        let again_at_us = if forced.is_err() { now_us + FORCE_PAUSE_US } else { 0 };
        self.force_again_at_us.store(again_at_us, Ordering::Relaxed);
        forced.map(|_| true).map_err(|error| log_error(&error))
    }

    /// Whether the pause after a force that failed is over. A pause that seems longer than any is one from before the wall clock
    /// was set back: commits must not wait for that.
    pub(crate) fn may_force(&self, now_us: i64) -> bool {
        let left_us = self.force_again_at_us.load(Ordering::Relaxed) - now_us;
        !(1..=FORCE_PAUSE_US).contains(&left_us)
    }

    /// Up to where the log is on the disk.
    pub(crate) fn forced_lsn(&self) -> Lsn {
        Lsn(self.forcer.forced_lsn().0)
    }

    /// Up to where answers may leave.
    pub(crate) fn answered_lsn(&self) -> Lsn {
        match self.answers_held.load(Ordering::Acquire) {
            true => Lsn(0),
            false => self.forced_lsn(),
        }
    }

    /// Answers that were held may leave.
    pub(crate) fn release_answers(&self) {
        if self.answers_held.swap(false, Ordering::AcqRel) {
            self.inboxes.lock().iter().for_each(|inbox| inbox.wake());
        }
    }

    fn wake_those_who_wait(&self) {
        for inbox in self.inboxes.lock().iter() {
            if inbox.waits_for_log.swap(false, Ordering::AcqRel) {
                inbox.wake();
            }
        }
    }

    /// Has the log's own thread force it; false if there is none. The worker is woken when that is done.
    pub(crate) fn ask_to_force(&self, own_worker: usize) -> bool {
        if !self.log_thread.serves.load(Ordering::Acquire) {
            return false;
        }
        if let Some(own) = self.inboxes.lock().get(own_worker) {
            own.waits_for_log.store(true, Ordering::Release);
        }
        *self.log_thread.wanted.lock() = true;
        self.log_thread.changed.notify_one();
        true
    }

    /// Keeps up to date whether what writes may be begun: not while the log cannot grow, nor while memory is full and no
    /// checkpoint can empty it.
    pub(crate) fn keep_admission(&self, partition: &mut Partition) {
        let log_is_full = self.forcer.shortage().map(|error| write_refusal(&error));
        partition.log_is_full = log_is_full.is_some();
        let shortage = log_is_full.or_else(|| {
            let crowded = self.crowded.load(Ordering::Acquire);
            crowded.then(|| self.checkpoint_failure.lock().clone()).flatten()
        });
        if shortage.is_some() || partition.refuses_writes.is_some() {
            partition.refuses_writes = shortage.map(|error| self.place.told(error));
        }
    }

    /// Figures for `rubato.statistics`. Whoever asks holds the partition.
    fn counters(&self) -> Vec<(&'static str, i64)> {
        let log = self.forcer.counters();
        let (hits, misses) = {
            let plans = self.plans.lock();
            (plans.hits, plans.misses)
        };
        let numbers = [
            ("statements", self.statements.load(Ordering::Relaxed)),
            ("checkpoints", self.checkpoints.load(Ordering::Relaxed)),
            ("plan_hits", hits),
            ("plan_misses", misses),
            ("log_forces", log.forces),
            ("log_bytes", log.bytes),
            ("log_records", log.records),
            (STORED_BYTES, self.store.bytes_used().unwrap_or(0)),
        ];
        numbers.map(|(name, number)| (name, number as i64)).to_vec()
    }

    pub(crate) fn count_statement(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }
}

/// A node: one partition with its log and its store.
#[derive(Clone)]
pub struct Node(pub(crate) Arc<Shared>);

impl Node {
    /// Opens what is in `store` and the log's `directory`, or starts an empty database there.
    ///
    /// Errors: 58030 where files cannot be read, XX001 where they are damaged (nothing is guessed), 0A000 where a newer
    /// program wrote them.
    pub fn open(
        store: Arc<dyn Store>,
        directory: Arc<dyn LogDirectory>,
        options: Options,
        settings: NodeSettings,
    ) -> Result<(Node, RecoveryReport)> {
        let (node, report, past) = Node::open_with_past(store, directory, options, settings)?;
        if past.standing.is_some() {
            let message = "the folder is that of a node of a grid: it cannot be opened by itself";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok((node, report))
    }

    /// The same for a node of a grid, with what its log says beside its rows.
    pub(crate) fn open_with_past(
        store: Arc<dyn Store>,
        directory: Arc<dyn LogDirectory>,
        options: Options,
        settings: NodeSettings,
    ) -> Result<(Node, RecoveryReport, GridPast)> {
        let recovered = recover(&store, directory, options, &settings)?;
        let (forcer, report) = (recovered.forcer, recovered.report);
        let shared = Shared {
            partition: Mutex::new(recovered.partition),
            plans: Mutex::new(PlanCache::new(PLANS_MAX_DEFAULT)),
            attached: recovered.attached,
            last_mark: AtomicU64::new(forcer.appended_lsn().0.saturating_sub(report.log_bytes)),
            forcer,
            store,
            inboxes: Mutex::new(Vec::new()),
            hosting: Hosting::default(),
            has_others: AtomicBool::new(false),
            grid_wake: Mutex::new(None),
            stored: recovered.stored,
            laying: recovered.laying,
            copy_helpers: Helpers::new(settings.helper, COPY_HELPERS_MAX),
            answers_held: Arc::default(),
            forcing: AtomicBool::new(false),
            log_thread: LogThread::default(),
            checkpoints: AtomicU64::new(0),
            checkpoint_asked: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            judged_inside: AtomicUsize::new(0),
            stuck: AtomicBool::new(false),
            stuck_since: Mutex::default(),
            place: recovered.place,
            checkpoint_failure: Mutex::new(None),
            last_checkpoint_us: AtomicI64::new((settings.clock_us)()),
            unused_looked_at_us: AtomicI64::new(0),
            eviction_pause: AtomicUsize::new(0),
            log_end: recovered.log_end,
            force_again_at_us: AtomicI64::new(0),
            statements: AtomicU64::new(0),
            started_us: (settings.clock_us)() - EPOCH_2000_US,
            memory_bytes: AtomicUsize::new(0),
            rows_bound: RowsBound::new(settings.memory_bytes),
            settings,
        };
        let shared = Arc::new(shared);
        let counted = Arc::downgrade(&shared);
        let counters = move || counted.upgrade().map_or(Vec::new(), |shared| shared.counters());
        shared.partition.lock().insight.set_counters(Box::new(counters));
        Ok((Node(shared), report, recovered.grid))
    }

    /// The engine of worker `index`; `wake` reaches its thread. Workers are made in order, starting with 0. 53200 if the threads
    /// of its stages cannot be started.
    pub fn worker(&self, index: usize, wake: Option<WakeHandle>) -> Result<NodeWorker> {
        let inbox = Arc::new(Inbox::default());
        *inbox.wake.lock() = wake;
        let mut inboxes = self.0.inboxes.lock();
        if inboxes.len() <= index {
            inboxes.resize_with(index + 1, Arc::default);
        }
        inboxes[index] = Arc::clone(&inbox);
        drop(inboxes);
        NodeWorker::new(Arc::clone(&self.0), index, inbox)
    }

    /// Says that whoever calls this makes the checkpoints that are due: then CHECKPOINT waits for one.
    pub fn serve_checkpoints(&self) {
        self.0.partition.lock().checkpoints.serve();
    }

    /// Whether a statement has asked for one, enough log has gathered, or memory is so full, that a checkpoint is due.
    pub fn checkpoint_is_due(&self) -> bool {
        let mark = self.0.last_mark.load(Ordering::Relaxed);
        let gathered = self.0.forcer.appended_lsn().0.saturating_sub(mark);
        let asked = self.0.checkpoint_asked.load(Ordering::Acquire);
        let is_full_of_catalogs = self.0.attached.load(Ordering::Relaxed) > ATTACHED_BYTES_MAX;
        if asked || is_full_of_catalogs || gathered > self.0.settings.checkpoint_log_bytes {
            return true;
        }
        if self.0.crowded.load(Ordering::Acquire) {
            return self.0.crowd_needs_checkpoint();
        }
        // What was laid in vain may be all that was done.
        if self.0.has_storage_to_drop() {
            return true;
        }
        if gathered == 0 {
            return false;
        }
        // A log that cannot grow gets room back by letting go of what a checkpoint has made unnecessary.
        if self.0.forcer.segment_count() > 1 && gathered > TIGHT_LOG_BYTES && self.0.forcer.is_tight() {
            return true;
        }
        // Soon rows will have to leave, and those that are not stored cannot: begin before writers have to wait.
        let limit = self.0.rows_bound.bytes();
        if self.0.memory_bytes.load(Ordering::Relaxed) < limit - limit / FILLED_SHARE {
            return false;
        }
        self.0.partition.lock().database.dirty_bytes() > limit / DIRTY_SHARE
    }

    /// Makes a checkpoint: rows to the store, the log cut behind them. Statements go on meanwhile. One thread at a time.
    ///
    /// Errors: nothing is lost by a failure; the next attempt begins anew.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        let made = self.0.checkpoint();
        *self.0.checkpoint_failure.lock() = made.as_ref().err().cloned();
        let mut partition = self.0.partition.lock();
        partition.checkpoints.end(made.as_ref().map(drop).map_err(Clone::clone));
        let report = match made {
            Ok(report) => report,
            Err(error) => {
                self.0.keep_admission(&mut partition);
                return Err(error);
            }
        };
        self.0.last_mark.store(report.log_start, Ordering::Relaxed);
        let now_us = (self.0.settings.clock_us)();
        self.0.last_checkpoint_us.store(now_us, Ordering::Relaxed);
        self.0.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.0.eviction_pause.store(0, Ordering::Relaxed);
        self.0.keep_within_memory(&mut partition);
        self.0.keep_admission(&mut partition);
        self.0
            .stuck
            .store(self.0.crowded.load(Ordering::Acquire), Ordering::Release);
        Ok(report)
    }

    /// Reads some rows into memory after a restart, as long as half of it is free, so that a database that fits is as fast as
    /// before. Returns whether there is more to do; statements go on between two calls.
    ///
    /// Errors: the store cannot be read.
    pub fn warm_up(&self) -> Result<bool> {
        let target = self.0.rows_bound.bytes() / 2;
        self.0.partition.lock().database.load_some(WARM_UP_ROWS, target)
    }

    /// Notes that the process takes `resident_bytes` of the `given_bytes` that it may: while it takes nearly all or more, fewer rows
    /// stay in memory than [`NodeSettings::memory_bytes`] says; afterwards as many as before. To be called some times a second by
    /// whoever knows, if anybody does.
    pub fn note_resident(&self, resident_bytes: usize, given_bytes: usize) {
        self.0.note_resident(resident_bytes, given_bytes);
    }

    /// Looks after a log that could not be forced or could not grow, and has writes admitted again when that is over. To be
    /// called every now and then, whatever else happens; costs nothing when all is well.
    pub fn look_after_log(&self) {
        if self.0.forcer.shortage().is_some() {
            // What comes of it is what `shortage` says next.
            if self.0.forcer.prepare_segment().is_ok() {
                let _ = self.0.forcer.force();
            }
        }
        self.0.keep_admission(&mut self.0.partition.lock());
    }

    /// Forces the log up to its end.
    pub fn force(&self) -> Result<Lsn> {
        self.0
            .forcer
            .force()
            .map(|lsn| Lsn(lsn.0))
            .map_err(|error| log_error(&error))
    }

    /// Serves the workers that have several sessions to look after: forces the log for them, until [`Node::end_log`]. Called by a
    /// thread that does nothing else. Without one, workers force the log themselves and their sessions wait meanwhile.
    pub fn serve_log(&self) {
        let log_thread = &self.0.log_thread;
        log_thread.serves.store(true, Ordering::Release);
        loop {
            let mut wanted = log_thread.wanted.lock();
            while !*wanted && log_thread.serves.load(Ordering::Acquire) {
                log_thread.changed.wait(&mut wanted);
            }
            if !std::mem::take(&mut *wanted) {
                return;
            }
            drop(wanted);
            // A failure is met again by the worker, which then asks at its own pace.
            let forced = self.0.forcer.force();
            self.0.wake_those_who_wait();
            if forced.is_err() {
                self.0
                    .force_again_at_us
                    .store((self.0.settings.clock_us)() + FORCE_PAUSE_US, Ordering::Relaxed);
            }
        }
    }

    /// Ends [`Node::serve_log`].
    pub fn end_log(&self) {
        let _wanted = self.0.log_thread.wanted.lock();
        self.0.log_thread.serves.store(false, Ordering::Release);
        self.0.log_thread.changed.notify_all();
    }

    /// Up to where the log is on the disk.
    pub fn forced_lsn(&self) -> Lsn {
        self.0.forced_lsn()
    }

    /// Up to where the log is written, whether or not it is on the disk.
    pub fn appended_lsn(&self) -> Lsn {
        Lsn(self.0.forcer.appended_lsn().0)
    }

    /// Forces the log up to `lsn`, together with everybody who asks at the same time.
    pub fn force_to(&self, lsn: Lsn) -> Result<()> {
        self.0
            .forcer
            .force_to(rubato_log::Lsn(lsn.0))
            .map(drop)
            .map_err(|error| log_error(&error))
    }

    /// A last checkpoint, and the log closed properly: the next start has nothing to replay. Afterwards the node only reads.
    pub fn close(&self) -> Result<()> {
        self.checkpoint()?;
        let end = {
            // Between two commits, not within one.
            let _partition = self.0.partition.lock();
            self.0.log_end.lock().take()
        };
        match end {
            Some(appender) => appender.close().map(drop).map_err(|error| log_error(&error)),
            None => Ok(()),
        }
    }

    /// Statements begun: what [`Node::figures`] has to look at every table for is not needed to know it.
    pub fn statements(&self) -> u64 {
        self.0.statements.load(Ordering::Relaxed)
    }

    /// Figures of the moment, for metrics.
    pub fn figures(&self) -> NodeFigures {
        let counters = self.0.forcer.counters();
        let (hits, misses) = {
            let plans = self.0.plans.lock();
            (plans.hits, plans.misses)
        };
        let partition = self.0.partition.lock();
        NodeFigures {
            protocol: *partition.database.statistics(),
            live_transactions: partition.database.live_transactions(),
            memory_bytes: partition.database.memory_bytes(),
            pending_bytes: partition.database.pending_bytes(),
            dirty_rows: partition.database.dirty_rows(),
            statements: self.0.statements.load(Ordering::Relaxed),
            plan_hits: hits,
            plan_misses: misses,
            log_forces: counters.forces,
            log_bytes: counters.bytes,
            log_records: counters.records,
            checkpoints: self.0.checkpoints.load(Ordering::Relaxed),
            stored_bytes: self.0.store.bytes_used().unwrap_or(0),
        }
    }
}

/// Figures of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeFigures {
    /// Counters of the protocol.
    pub protocol: Statistics,
    /// Transactions that are live.
    pub live_transactions: usize,
    /// What rows and pending changes in memory take.
    pub memory_bytes: usize,
    /// What pending changes take of it.
    pub pending_bytes: usize,
    /// Rows that the store has not got yet.
    pub dirty_rows: usize,
    /// Statements begun.
    pub statements: u64,
    /// Texts whose plan was in the cache.
    pub plan_hits: u64,
    /// Texts whose plan was not.
    pub plan_misses: u64,
    /// Forced writes of the log.
    pub log_forces: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Records of the log.
    pub log_records: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// What the store takes on the disk.
    pub stored_bytes: u64,
}
