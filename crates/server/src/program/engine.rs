//! What the program needs of the database itself.

use crate::metrics::MetricsSource;
use crate::worker::SqlWorker;
use clap::ValueEnum;
use rubato_base::Result;
use rubato_base::trace::Tracer;
use rubato_node::grid::{GridNode, GridSettings};
use rubato_stages::worker::WakeHandle;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The data folder.
    pub data: PathBuf,
    /// Memory for rows, versions and caches.
    pub memory_bytes: u64,
    /// How many workers will be asked for.
    pub workers: usize,
    /// Threads per stage kind; 0 runs all stages on the workers.
    pub stage_threads: usize,
    /// What a commit does about earlier readers.
    pub commit_policy: CommitPolicy,
    /// What a read to write does behind another that has written.
    pub queue_policy: QueuePolicy,
    /// How load is controlled, if it is.
    pub admission: AdmissionPolicy,
    /// Its place in a grid, if it has one.
    pub grid: Option<GridSettings>,
    /// What takes the spans of traced statements, if any are traced.
    pub tracer: Option<Arc<dyn Tracer>>,
}

/// What a commit does about earlier readers of what it writes (paper rules P1 and P2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommitPolicy {
    /// It commits, and what they still need is retained.
    Optimistic,
    /// It waits for them a bounded time.
    Pessimistic,
}

/// What a read to write does about another that stands before it and has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicy {
    /// It waits until that one has ended.
    Wait,
    /// It reads through what that one has written and commits behind it, or is aborted with it.
    Pipeline,
}

/// Load control by conflict potential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdmissionPolicy {
    /// None.
    Off,
    /// The paper's: a new transaction waits a little while many are active.
    Age,
    /// A transaction of a session that was aborted lately waits a little while others such are active.
    #[value(alias = "on")]
    #[serde(alias = "on")]
    Conflict,
}

/// An open database.
pub trait Engine: Sized {
    /// What runs statements on each worker thread.
    type Worker: SqlWorker;

    /// A data folder that nobody else can open meanwhile.
    type Folder;

    /// Locks a data folder, and makes it if it is not there. Refuses one that another process has open, or a newer program wrote.
    fn lock(data: &Path) -> Result<Self::Folder>;

    /// Opens what is in the folder of the settings, or begins it, and recovers.
    fn open(folder: Self::Folder, settings: &EngineSettings) -> Result<Self>;

    /// Makes the engine of one worker; `index` counts from 0 below `EngineSettings::workers`.
    fn worker(&self, index: usize, wake: WakeHandle) -> Result<Self::Worker>;

    /// The part in a grid that somebody has to drive, if it has a place in one.
    fn grid(&self) -> Option<GridNode>;

    /// The numbers of the engine.
    fn metrics(&self) -> Arc<dyn MetricsSource>;

    /// Forces what is not forced and closes the folder. All workers have been dropped.
    fn close(self) -> Result<()>;

    /// Verifies a folder that nobody has open, writing what it finds line by line; an error if it is damaged.
    fn check(data: &Path, report: &mut dyn FnMut(&str)) -> Result<()>;
}
