//! Rubato as a library: open a folder, run SQL and transactions in process, without a socket. The server opens its folder the
//! same way.
//!
//! ```
//! # let place = tempfile::tempdir().expect("a folder");
//! # let folder = place.path().join("shop");
//! let database = rubato_embedded::Database::open(folder, Default::default())?;
//! let mut session = database.session()?;
//! session.execute("create table if not exists stock (item int primary key, left_over int not null)")?;
//! session.execute("insert into stock values (1, 100) on conflict do nothing")?;
//! let sell = session.prepare("update stock set left_over = left_over - $1 where item = $2")?;
//! session.run(&sell, &[rubato_base::Value::Int4(1), rubato_base::Value::Int4(1)])?;
//! # Ok::<(), rubato_base::Error>(())
//! ```
//!
//! Invariants:
//! - One process has a folder open at a time; a second one is refused by name.
//! - A call returns when what it answers is durable (promise 4).
//! - Sessions of one database run on any threads; a commit of one shares its forced write with the others'.
//!
//! Start with [`Database`].

mod background;
mod collect;
mod folder;
mod session;

pub use collect::Output;
pub use folder::{CheckReport, FORMAT_VERSION, Folder, check};
pub use session::{Session, Statement};

use background::Background;
use rubato_base::{Error, Lsn, Result};
use rubato_log::LogDirectory;
use rubato_node::grid::{GridNode, GridSettings};
use rubato_node::{Node, NodeSettings, RecoveryReport};
use rubato_storage::Store;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How a folder is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How the node runs; its `memory_bytes` is what the whole database may take, the store's cache included.
    pub node: NodeSettings,
}

/// Pause before a log that could not be forced is tried again.
const FORCE_PAUSE: Duration = Duration::from_millis(250);
/// One part in so many of the memory may be columns of tables that analytics keeps between statements: nothing where nobody asks for
/// many rows.
#[cfg(feature = "analytics")]
const COLUMNS_SHARE: usize = 8;
/// One part in so many of the memory is the store's cache, ...
const STORE_CACHE_SHARE: usize = 8;
/// ... which is never smaller or larger than this.
const STORE_CACHE_BYTES: (usize, usize) = (8 << 20, 512 << 20);
/// One part in so many is for commits that wait for the disk, ...
const LOG_BUFFER_SHARE: usize = 32;
/// ... never less or more than this.
const LOG_BUFFER_BYTES: (usize, usize) = (2 << 20, 64 << 20);
/// What the store takes beside its cache, and the program beside rows: memory tables, batches on their way, plans,
/// threads, and what the allocator has not given back yet.
const FIXED_BYTES: usize = 128 << 20;
/// Rows cost more than they are counted for (measured: half to three quarters as much again), because they come and go in all sizes
/// and the allocator cannot fill every gap. So many parts in a hundred of what is left are for what they count.
const COUNTED_PERCENT: usize = 60;
/// Rows get at least one part in so many of the memory, however small that is.
const ROWS_SHARE_MIN: usize = 8;

/// An open folder.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    node: Node,
    recovery: RecoveryReport,
    next_session: AtomicUsize,
    // Ends before the folder's lock is given back.
    background: Background,
    _folder: Folder,
}

impl Database {
    /// Opens `path`, or starts an empty database there.
    ///
    /// Errors: 55006 another process has it open; 58030 it cannot be read or written; XX001 it is damaged (named by file and
    /// offset; nothing is guessed); 0A000 a newer program wrote it.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        Database::open_in(Folder::open(path.as_ref())?, options)
    }

    /// Opens what is in a folder, or starts an empty database there.
    ///
    /// Errors: as [`Database::open`].
    pub fn open_in(folder: Folder, options: Options) -> Result<Database> {
        let open = |parts: Parts| Node::open(parts.store, parts.log, parts.log_options, parts.settings);
        let (node, recovery) = open_parts(&folder, options, open)?;
        Ok(Database::of(folder, node, recovery))
    }

    /// The same as a node of a grid, with the part in the grid that somebody has to drive.
    ///
    /// Errors: as [`Database::open`]; 22023 for settings of no grid.
    pub fn open_in_grid(folder: Folder, options: Options, grid: GridSettings) -> Result<(Database, GridNode)> {
        let open = |parts: Parts| GridNode::open(parts.store, parts.log, parts.log_options, parts.settings, grid);
        let (node, recovery) = open_parts(&folder, options, open)?;
        Ok((Database::of(folder, node.node().clone(), recovery), node))
    }

    fn of(folder: Folder, node: Node, recovery: RecoveryReport) -> Database {
        let background = Background::start(node.clone());
        let inner = Inner {
            node,
            recovery,
            next_session: AtomicUsize::new(0),
            background,
            _folder: folder,
        };
        Database { inner: Arc::new(inner) }
    }

    /// A session in the database that every folder has, `rubato`. It may be moved to another thread; to use several threads, make one
    /// for each.
    pub fn session(&self) -> Result<Session> {
        self.session_in(rubato_sql::databases::FIRST_NAME)
    }

    /// A session in a database that was made with CREATE DATABASE. 3D000 if there is none of this name.
    pub fn session_in(&self, database: &str) -> Result<Session> {
        let number = self.inner.next_session.fetch_add(1, Ordering::Relaxed);
        Session::new(self.clone(), number, database)
    }

    /// Waits until the log is on the disk up to `durable_at` (see [`Session::durable_at`]); forces it, together with whoever else
    /// waits.
    ///
    /// A commit that is in the log can be neither undone nor acknowledged before it is durable: should the disk fail, this waits
    /// until it does not any more. Meanwhile no statement that writes is begun.
    pub fn wait_until_durable(&self, durable_at: Lsn) {
        while !self.is_durable(durable_at) {
            if let Err(error) = self.inner.node.force_to(durable_at) {
                tracing::warn!(%error, "a commit waits for the log");
                std::thread::sleep(FORCE_PAUSE);
            }
        }
    }

    /// Whether the log is on the disk up to `durable_at`.
    pub fn is_durable(&self, durable_at: Lsn) -> bool {
        durable_at <= self.inner.node.forced_lsn()
    }

    /// The node inside, for a server's workers. Sessions of [`Database::session`] must not be used beside them.
    pub fn node(&self) -> &Node {
        &self.inner.node
    }

    /// What opening has found.
    pub fn recovery(&self) -> RecoveryReport {
        self.inner.recovery
    }

    /// Makes a checkpoint now.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.background.checkpoint(&self.inner.node)
    }

    /// A last checkpoint, and the log closed: the next start has nothing to replay.
    pub fn close(self) -> Result<()> {
        self.inner.background.stop();
        self.inner.node.close()
    }
}

/// What a node is opened with.
struct Parts {
    store: Arc<dyn Store>,
    log: Arc<dyn LogDirectory>,
    log_options: rubato_log::Options,
    settings: NodeSettings,
}

/// What UUIDs of this life follow from.
fn secret() -> Result<u128> {
    let mut bytes = [0; 16];
    let drawn = getrandom::fill(&mut bytes);
    drawn.map_err(|wrong| Error::internal(format!("the system gives no random numbers: {wrong}")))?;
    Ok(u128::from_ne_bytes(bytes))
}

/// Shares out the memory, and opens what is in a folder.
fn open_parts<T>(folder: &Folder, options: Options, open: impl FnOnce(Parts) -> Result<T>) -> Result<T> {
    let memory = options.node.memory_bytes;
    let cache = (memory / STORE_CACHE_SHARE).clamp(STORE_CACHE_BYTES.0, STORE_CACHE_BYTES.1);
    let mut settings = NodeSettings {
        secret: secret()?,
        clock_us: session::now_us,
        helper: Some(background::lend_thread),
        on_recovery: |progress| {
            tracing::info!(
                replayed_mib = progress.log_bytes >> 20,
                of_mib = progress.log_bytes_total >> 20,
                "recovering"
            );
        },
        ..options.node
    };
    #[cfg(feature = "analytics")]
    if settings.analytics.is_none() {
        settings.analytics = Some(Arc::new(rubato_analytics::DataFusion::new(memory / COLUMNS_SHARE)));
    }
    let log_buffer = (memory / LOG_BUFFER_SHARE).clamp(LOG_BUFFER_BYTES.0, LOG_BUFFER_BYTES.1);
    let rows = memory.saturating_sub(cache + log_buffer + FIXED_BYTES);
    settings.memory_bytes = (rows / 100 * COUNTED_PERCENT).max(memory / ROWS_SHARE_MIN);
    let store = folder.store(cache)?;
    let log = folder.log()?;
    let log_options = rubato_log::Options {
        buffer_bytes_max: log_buffer,
        ..rubato_log::Options::default()
    };
    let opened = open(Parts {
        store,
        log,
        log_options,
        settings,
    })?;
    folder.begin();
    Ok(opened)
}

/// An error of the operating system on a file.
pub(crate) fn io_error(what: &str, path: &Path, wrong: &std::io::Error) -> Error {
    let code = match wrong.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::FileTooLarge => {
            rubato_base::SqlState::DISK_FULL
        }
        _ => rubato_base::SqlState::IO_ERROR,
    };
    Error::new(code, format!("{what} {}: {wrong}", path.display()))
}
