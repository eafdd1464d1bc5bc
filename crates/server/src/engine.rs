//! The node as the program's engine: a folder opened as the library opens it, and a thread that forces the log.

use crate::resident::Watch;
use rubato_base::{Error, Result, SqlState};
use rubato_embedded::{Database, Folder, Options};
use rubato_node::grid::GridNode;
use rubato_node::{Admission, Node, NodeSettings, NodeWorker};
use rubato_server::metrics::{MetricsSource, MetricsText};
use rubato_server::program::{AdmissionPolicy, CommitPolicy, Engine, EngineSettings, QueuePolicy};
use rubato_server::wire::PgResponder;
use rubato_sql::executor::Limits;
use rubato_stages::worker::{STACK_BYTES, WakeHandle};
use rubato_stages::{StageKind, StageMetrics, StageNumbers};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What one statement sorts, groups or keeps may take one part in so many of the memory.
const STATEMENT_SHARE: usize = 4;

/// An open node.
pub struct NodeEngine {
    database: Database,
    grid: Option<GridNode>,
    stages: Arc<Mutex<Vec<Arc<StageMetrics>>>>,
    log_thread: Option<JoinHandle<()>>,
    memory: Option<Watch>,
}

impl Engine for NodeEngine {
    type Worker = NodeWorker;

    type Folder = Folder;

    fn lock(data: &Path) -> Result<Folder> {
        Folder::open(data)
    }

    fn open(folder: Folder, settings: &EngineSettings) -> Result<NodeEngine> {
        let memory_bytes = usize::try_from(settings.memory_bytes).unwrap_or(usize::MAX);
        let limits = Limits::default();
        let mut node = NodeSettings {
            memory_bytes,
            limits: Limits {
                bytes_max: limits.bytes_max.min(memory_bytes / STATEMENT_SHARE),
                ..limits
            },
            stage_threads: settings.stage_threads,
            tracer: settings.tracer.clone(),
            hosted_responder: Some(|| Box::new(PgResponder::new())),
            admission: match settings.admission {
                AdmissionPolicy::Off => None,
                AdmissionPolicy::Age => Some(Admission::BY_AGE),
                AdmissionPolicy::Conflict => Some(Admission::BY_CONFLICT),
            },
            ..NodeSettings::default()
        };
        node.policies.commit = match settings.commit_policy {
            CommitPolicy::Optimistic => rubato_node::CommitPolicy::Optimistic,
            CommitPolicy::Pessimistic => rubato_node::CommitPolicy::Pessimistic,
        };
        node.policies.queue = match settings.queue_policy {
            QueuePolicy::Wait => rubato_node::QueuePolicy::Wait,
            QueuePolicy::Pipeline => rubato_node::QueuePolicy::Pipeline,
        };
        let options = Options { node };
        let (database, grid) = match settings.grid.clone() {
            None => (Database::open_in(folder, options)?, None),
            Some(grid) => {
                let (database, grid) = Database::open_in_grid(folder, options, grid)?;
                (database, Some(grid))
            }
        };
        let report = database.recovery();
        tracing::info!(
            transactions = report.transactions,
            log_bytes = report.log_bytes,
            cut_bytes = report.cut_bytes,
            "recovered"
        );
        if report.cut_bytes > 0 {
            // (Decision 0003: damage within the last write looks the same.)
            tracing::warn!(
                bytes = report.cut_bytes,
                "the log ended within a write that was cut off by a crash, and of which nobody was told: it was given up"
            );
        }
        let own = database.node().clone();
        let spawned = std::thread::Builder::new()
            .name("log".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || own.serve_log());
        let log_thread =
            spawned.map_err(|wrong| Error::new(SqlState::OUT_OF_MEMORY, format!("no thread for the log: {wrong}")))?;
        Ok(NodeEngine {
            memory: Some(Watch::begin(database.node().clone(), memory_bytes)),
            database,
            grid,
            stages: Arc::default(),
            log_thread: Some(log_thread),
        })
    }

    fn worker(&self, index: usize, wake: WakeHandle) -> Result<NodeWorker> {
        let worker = self.database.node().worker(index, Some(wake))?;
        self.stages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(worker.stage_metrics());
        Ok(worker)
    }

    fn grid(&self) -> Option<GridNode> {
        self.grid.clone()
    }

    fn metrics(&self) -> Arc<dyn MetricsSource> {
        Arc::new(NodeMetrics {
            node: self.database.node().clone(),
            grid: self.grid.clone(),
            stages: Arc::clone(&self.stages),
        })
    }

    fn close(mut self) -> Result<()> {
        drop(self.memory.take());
        self.database.node().end_log();
        if let Some(thread) = self.log_thread.take() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
        self.database.close()
    }

    fn check(data: &Path, report: &mut dyn FnMut(&str)) -> Result<()> {
        let found = rubato_embedded::check(data)?;
        report(&format!(
            "log: {} records, {} bytes in {} files, {} bytes of a cut-off write behind them",
            found.log_records, found.log_bytes, found.log_files, found.log_cut_bytes
        ));
        report(&format!(
            "store: {} keys, {} bytes",
            found.store_rows, found.store_bytes
        ));
        report(&format!(
            "together, with {} records to replay: {} tables, {} rows, {} index entries",
            found.replayed, found.tables, found.rows, found.index_entries
        ));
        if found.unclaimed_keys > 0 {
            report(&format!(
                "{} keys of the store belong to no table: the next start lets go of them",
                found.unclaimed_keys
            ));
        }
        report("no damage found");
        Ok(())
    }
}

/// Names of `AbortReason`, in its order.
const ABORT_REASONS: [&str; 8] = [
    "read_changed",
    "range_changed",
    "deadlock",
    "cascade",
    "formula_failed",
    "escrow",
    "in_doubt",
    "too_old",
];

/// Names of `WaitReason`, in its order.
const WAIT_REASONS: [&str; 8] = [
    "queue",
    "after",
    "ordered",
    "reader",
    "prepared",
    "table",
    "tick",
    "elsewhere",
];

/// A sample for each reason: there are as many names as reasons.
fn by_reason<const REASONS: usize>(
    text: &mut MetricsText,
    (name, help): (&str, &str),
    (reasons, counts): ([&str; REASONS], [u64; REASONS]),
) {
    text.counter(name, help);
    for (reason, count) in reasons.into_iter().zip(counts) {
        text.sample(name, &[("reason", reason)], count);
    }
}

/// Figures of a node and of its workers' stages.
struct NodeMetrics {
    node: Node,
    grid: Option<GridNode>,
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
        if let Some(grid) = &self.grid {
            let commits = grid.figures().commits;
            let name = "rubato_grid_commits_total";
            text.counter(
                name,
                "Transactions over nodes that this one has committed, by a round to their only participant or in two phases.",
            );
            text.sample(name, &[("way", "one_round")], commits.in_one_round);
            text.sample(name, &[("way", "two_phases")], commits.in_two_phases);
        }
        let aborts = ("rubato_aborts_total", "Aborts of the protocol by reason.");
        by_reason(text, aborts, (ABORT_REASONS, protocol.aborts));
        let waits = ("rubato_waits_total", "Waits of the protocol by reason.");
        by_reason(text, waits, (WAIT_REASONS, protocol.waits));
        let gauges = [
            (
                "rubato_live_transactions",
                "Transactions that are live.",
                figures.live_transactions,
            ),
            ("rubato_memory_bytes", "What rows in memory take.", figures.memory_bytes),
            (
                "rubato_stored_bytes",
                "What the store takes on the disk.",
                usize::try_from(figures.stored_bytes).unwrap_or(usize::MAX),
            ),
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
