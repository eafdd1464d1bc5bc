//! The node as the program's engine: its folder, its files, and the thread that makes checkpoints.
//!
//! A data folder holds `LOCK` (which process has it), `log/` and `store/`.

use rubato_base::{Error, Result, SqlState};
use rubato_log::{FileDirectory, LogDirectory, Options};
use rubato_node::{Node, NodeSettings, NodeWorker};
use rubato_server::metrics::{MetricsSource, MetricsText};
use rubato_server::program::{CommitPolicy, Engine, EngineSettings};
use rubato_stages::worker::WakeHandle;
use rubato_stages::{StageKind, StageMetrics, StageNumbers};
use rubato_storage::Store;
use rubato_storage_embedded::EmbeddedStore;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is looked whether a checkpoint is due. When memory is full, statements wait about this long.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(20);

/// Pause after a checkpoint that failed, for example on a full disk.
const CHECKPOINT_RETRY: Duration = Duration::from_secs(1);

/// The store's block cache gets one part in this many of the memory; rows get the rest.
const CACHE_SHARE: u64 = 8;

/// What the store takes besides its cache, and the program besides rows.
const RESERVED_BYTES: u64 = 64 << 20;

/// The least that rows get, however small the memory.
const ROW_BYTES_MIN: u64 = 16 << 20;

/// An open node.
pub struct NodeEngine {
    node: Node,
    stages: Arc<Mutex<Vec<Arc<StageMetrics>>>>,
    checkpoints: Checkpoints,
    log_thread: Option<JoinHandle<()>>,
    /// Locked for as long as it is open.
    _lock: File,
}

impl Engine for NodeEngine {
    type Worker = NodeWorker;

    fn open(settings: &EngineSettings) -> Result<NodeEngine> {
        let data = &settings.data;
        let directory = FileDirectory::create(data.join("log")).map_err(|wrong| io_error(data, &wrong))?;
        let lock = lock_folder(data)?;
        let cache_bytes = settings.memory_bytes / CACHE_SHARE;
        let store = EmbeddedStore::open(data.join("store"), cache_bytes).map_err(|wrong| store_error(&wrong))?;
        let row_bytes = settings
            .memory_bytes
            .saturating_sub(cache_bytes + RESERVED_BYTES)
            .max(ROW_BYTES_MIN);
        let mut node_settings = NodeSettings {
            memory_bytes: usize::try_from(row_bytes).unwrap_or(usize::MAX),
            clock_us: now_us,
            stage_threads: settings.stage_threads,
            admission: settings.admission.then(rubato_protocol::Admission::default),
            ..NodeSettings::default()
        };
        node_settings.policies.commit = match settings.commit_policy {
            CommitPolicy::Optimistic => rubato_protocol::CommitPolicy::Optimistic,
            CommitPolicy::Pessimistic => rubato_protocol::CommitPolicy::Pessimistic,
        };
        let (node, report) = Node::open(Arc::new(store), Arc::new(directory), Options::default(), node_settings)?;
        tracing::info!(
            transactions = report.transactions,
            log_bytes = report.log_bytes,
            cut_bytes = report.cut_bytes,
            "recovered"
        );
        let checkpoints = Checkpoints::start(node.clone()).map_err(|wrong| io_error(data, &wrong))?;
        let own = node.clone();
        let log_thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || own.serve_log());
        let log_thread = Some(log_thread.map_err(|wrong| io_error(data, &wrong))?);
        Ok(NodeEngine {
            node,
            stages: Arc::default(),
            checkpoints,
            log_thread,
            _lock: lock,
        })
    }

    fn worker(&self, index: usize, wake: WakeHandle) -> Result<NodeWorker> {
        let worker = self.node.worker(index, Some(wake))?;
        self.stages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(worker.stage_metrics());
        Ok(worker)
    }

    fn metrics(&self) -> Arc<dyn MetricsSource> {
        Arc::new(NodeMetrics {
            node: self.node.clone(),
            stages: Arc::clone(&self.stages),
        })
    }

    fn close(mut self) -> Result<()> {
        self.node.end_log();
        if let Some(thread) = self.log_thread.take() {
            let _ = thread.join();
        }
        self.checkpoints.end();
        self.node.close()
    }

    fn check(data: &Path, report: &mut dyn FnMut(&str)) -> Result<()> {
        let directory = FileDirectory::open(data.join("log")).map_err(|wrong| io_error(data, &wrong))?;
        let _lock = lock_folder(data)?;
        let directory: Arc<dyn LogDirectory> = Arc::new(directory);
        let log = rubato_log::check(directory).map_err(|wrong| log_error(&wrong))?;
        report(&format!(
            "log: {} records, {} bytes in {} files",
            log.records, log.payload_bytes, log.segments
        ));
        let store = EmbeddedStore::open(data.join("store"), RESERVED_BYTES).map_err(|wrong| store_error(&wrong))?;
        let found = store.check().map_err(|wrong| store_error(&wrong))?;
        report(&format!(
            "store: {} rows, {} bytes in {} tables",
            found.rows, found.bytes, found.tables
        ));
        report("no damage found");
        Ok(())
    }
}

/// Microseconds since 1970 by the system's clock.
fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

fn io_error(path: &Path, wrong: &std::io::Error) -> Error {
    log_error(&rubato_log::Error::from_io(&path.display().to_string(), wrong))
}

fn log_error(wrong: &rubato_log::Error) -> Error {
    use rubato_log::Error as Log;
    let code = match wrong {
        Log::NoSpace { .. } => SqlState::DISK_FULL,
        Log::ReadOnly { .. } | Log::Io { .. } => SqlState::IO_ERROR,
        Log::Corrupt { .. } => SqlState::DATA_CORRUPTED,
        Log::NewerVersion { .. } => SqlState::FEATURE_NOT_SUPPORTED,
    };
    Error::new(code, wrong.to_string())
}

fn store_error(wrong: &rubato_storage::Error) -> Error {
    use rubato_storage::Error as Storage;
    let code = match wrong {
        Storage::NoSpace { .. } => SqlState::DISK_FULL,
        Storage::Corrupt { .. } => SqlState::DATA_CORRUPTED,
        Storage::NewerVersion { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        Storage::Locked { .. } => SqlState::CANNOT_CONNECT_NOW,
        Storage::KeyTooLong { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
        Storage::ReadOnly { .. } | Storage::Io { .. } => SqlState::IO_ERROR,
    };
    Error::new(code, wrong.to_string())
}

// The system lets go of the lock when the process ends, however it ends. The number inside is only for the message.
fn lock_folder(data: &Path) -> Result<File> {
    let path = data.join("LOCK");
    let fail = |wrong: &std::io::Error| io_error(&path, wrong);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|w| fail(&w))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            let message = format!(
                "the data folder {} is in use by process {}",
                data.display(),
                owner.trim()
            );
            return Err(Error::new(SqlState::CANNOT_CONNECT_NOW, message));
        }
        Err(TryLockError::Error(wrong)) => return Err(fail(&wrong)),
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(|wrong| fail(&wrong))?;
    Ok(file)
}

/// The thread that makes checkpoints when they are due.
struct Checkpoints {
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    fn start(node: Node) -> std::io::Result<Checkpoints> {
        let (end, ended) = channel();
        let thread = std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || {
                let mut pause = CHECKPOINT_INTERVAL;
                while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    pause = CHECKPOINT_INTERVAL;
                    if !node.checkpoint_is_due() {
                        continue;
                    }
                    match node.checkpoint() {
                        Ok(report) => tracing::debug!(?report, "checkpoint"),
                        Err(error) => {
                            tracing::warn!(%error, "a checkpoint failed and will be tried again");
                            pause = CHECKPOINT_RETRY;
                        }
                    }
                }
            })?;
        Ok(Checkpoints {
            end,
            thread: Some(thread),
        })
    }

    fn end(mut self) {
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Names of `rubato_protocol::AbortReason`, in its order.
const ABORT_REASONS: [&str; 5] = ["read_changed", "range_changed", "deadlock", "cascade", "formula_failed"];

/// Names of `rubato_protocol::WaitReason`, in its order.
const WAIT_REASONS: [&str; 4] = ["queue", "after", "ordered", "reader"];

/// Figures of a node and of its workers' stages.
struct NodeMetrics {
    node: Node,
    stages: Arc<Mutex<Vec<Arc<StageMetrics>>>>,
}

impl MetricsSource for NodeMetrics {
    fn write_metrics(&self, text: &mut MetricsText) {
        let mut stages = [StageNumbers::default(); StageKind::COUNT];
        for metrics in self.stages.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            stages
                .iter_mut()
                .zip(&metrics.snapshot())
                .for_each(|(sum, one)| sum.merge(one));
        }
        text.stages(&stages);
        let figures = self.node.figures();
        let protocol = &figures.protocol;
        let counters = [
            ("rubato_statements_total", "Statements begun.", figures.statements),
            (
                "rubato_commits_total",
                "Transactions that committed changes.",
                protocol.commits,
            ),
            (
                "rubato_read_only_commits_total",
                "Transactions that ended without changes.",
                protocol.read_only_commits,
            ),
            (
                "rubato_rollbacks_total",
                "Transactions rolled back, for whatever reason.",
                protocol.rollbacks,
            ),
            (
                "rubato_blind_updates_total",
                "Updates placed as blind formulas.",
                protocol.blind_updates,
            ),
            ("rubato_evictions_total", "Rows that left memory.", protocol.evictions),
            (
                "rubato_plan_hits_total",
                "Statements whose plan was in the cache.",
                figures.plan_hits,
            ),
            (
                "rubato_plan_misses_total",
                "Statements that were planned.",
                figures.plan_misses,
            ),
            (
                "rubato_log_forces_total",
                "Forced writes of the log.",
                figures.log_forces,
            ),
            ("rubato_log_bytes_total", "Bytes of the log.", figures.log_bytes),
            ("rubato_log_records_total", "Records of the log.", figures.log_records),
            ("rubato_checkpoints_total", "Checkpoints made.", figures.checkpoints),
        ];
        for (name, help, value) in counters {
            text.counter(name, help);
            text.sample(name, &[], value);
        }
        text.counter("rubato_aborts_total", "Aborts of the protocol by reason.");
        for (reason, count) in ABORT_REASONS.iter().zip(protocol.aborts) {
            text.sample("rubato_aborts_total", &[("reason", reason)], count);
        }
        text.counter("rubato_waits_total", "Waits of the protocol by reason.");
        for (reason, count) in WAIT_REASONS.iter().zip(protocol.waits) {
            text.sample("rubato_waits_total", &[("reason", reason)], count);
        }
        let gauges = [
            (
                "rubato_live_transactions",
                "Transactions that are live.",
                figures.live_transactions,
            ),
            ("rubato_memory_bytes", "What rows in memory take.", figures.memory_bytes),
            (
                "rubato_dirty_rows",
                "Rows that the store has not got yet.",
                figures.dirty_rows,
            ),
        ];
        for (name, help, value) in gauges {
            text.gauge(name, help);
            text.sample(name, &[], value);
        }
    }
}
