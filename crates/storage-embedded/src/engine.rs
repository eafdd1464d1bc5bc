//! The engine, opened, and its errors sorted.

use crate::keys;
use crate::layout::{TREES, VERSION_MARKER};
use fjall::compaction::Leveled;
use fjall::{AbstractTree, Readable};
use rubato_storage::{Error, KeyValue};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// All tables lie in one tree of the engine. With a tree per table each would have its own memory table, the memory of
/// the store would grow with the number of tables, and (worse) the trees would be flushed one by one, so that a power
/// loss could keep one half of a batch that was not forced.
const ROWS: &str = "rows";

/// What the store notes about its tables lies in a tree of its own. Merging takes new files with all that lies between their first and last key:
/// with these small keys among the rows, below all of them, a few new tables at the other end had the whole upper level merged.
const NOTES: &str = "notes";

/// Memory tables that may wait to be flushed before a writer waits too. The engine's own limits wait forever when the
/// flushing thread has stopped on a full disk, so they must never be reached.
const FLUSHES_MAX: usize = 1;
/// Runs of files that have not been merged with what is older. Files that have nothing in common are one run, and cost a reader no more than one file.
const UNMERGED_RUNS_MAX: usize = 16;
/// Nobody is to wait long for merges of what others have brought, ...
const PATIENCE: u32 = 200;
/// ... unless there are so many that readers feel it.
const FAR_BEHIND_RUNS: usize = 4 * UNMERGED_RUNS_MAX;
const WAIT: Duration = Duration::from_millis(1);
/// So often is looked whether the engine does anything before it is taken to have stopped, ...
const FLUSH_IDLE_MAX: u32 = 2_000;
/// ... or to have nothing to merge that it was told of.
const MERGE_IDLE_MAX: u32 = 20;

/// Bytes that go through the journal before the memory table behind it is closed. Closing it is also what makes the engine look whether
/// its journal is full (64 MB, fixed) and may be left for a new one.
const MEMORY_TABLE_BYTES: u64 = 1 << 20;

/// Size of the files that merging makes. A merge takes whole files, and so less of what has not changed when they are smaller; with a
/// quarter of the engine's own 64 MiB, merging takes two thirds of the time. A folder keeps what it was made with.
const TABLE_BYTES: u64 = 16 << 20;

/// Files the engine keeps open.
const OPEN_FILES_MAX: usize = 128;

/// The smallest the engine allows.
const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A key of the engine with its new value.
pub(crate) type Entry = (fjall::Slice, Option<fjall::Slice>);

/// One thread of the engine flushes memory tables, the other merges files. With one for both, a flush waits for a merge,
/// and the memory table grows meanwhile.
const WORKERS: usize = 1;

pub(crate) struct Engine {
    database: fjall::Database,
    pub rows: fjall::Keyspace,
    pub notes: fjall::Keyspace,
    /// Keys and values committed since the memory table was last closed for their sake.
    journaled_bytes: AtomicU64,
    /// A file was not made: what the engine had closed for it stays closed, flushed by nobody, and its own limits come to wait for that for ever.
    has_stopped: AtomicBool,
}

impl Engine {
    pub fn open(path: &Path, cache_bytes: u64) -> fjall::Result<Engine> {
        let database = fjall::Database::builder(path)
            .cache_size(cache_bytes)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .max_cached_files(Some(OPEN_FILES_MAX))
            .manual_journal_persist(true)
            .worker_threads(WORKERS)
            .open()?;
        // The engine would close its memory table at some later time, in the background: `commit` does it, in time.
        let options = || {
            fjall::KeyspaceCreateOptions::default()
                .max_memtable_size(u64::MAX)
                .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(TABLE_BYTES)))
                .manual_journal_persist(true)
        };
        // The rows come first: `layout` knows their tree by its number.
        let rows = database.keyspace(ROWS, options)?;
        let has_notes = database.list_keyspace_names().iter().any(|name| **name == *NOTES);
        if !has_notes && keys::version(&rows)?.is_some_and(|version| version >= keys::NOTES_VERSION) {
            return Err(fjall::Error::KeyspaceDeleted);
        }
        let notes = database.keyspace(NOTES, options)?;
        Ok(Engine {
            database,
            rows,
            notes,
            journaled_bytes: AtomicU64::new(0),
            has_stopped: AtomicBool::new(false),
        })
    }

    /// Sets and deletes all keys of rows or none, durably. They come in ascending order,
    /// each key once, and become files as they are: neither the journal nor the memory table sees them, which saves half of
    /// the work of a load.
    ///
    /// A deletion in a file vanishes when files are merged, and the engine, opened again, would then apply what its journal has of
    /// the key's older values: keys that come here must never go through the journal.
    pub fn ingest(&self, entries: impl Iterator<Item = Entry>) -> fjall::Result<()> {
        self.check_goes_on()?;
        let made = self.make_files(entries);
        self.has_stopped.fetch_or(made.is_err(), Ordering::Relaxed);
        made
    }

    fn make_files(&self, entries: impl Iterator<Item = Entry>) -> fjall::Result<()> {
        let mut ingestion = self.rows.start_ingestion()?;
        for (key, value) in entries {
            match value {
                Some(value) => ingestion.write(key, value)?,
                None => ingestion.write_tombstone(key)?,
            }
        }
        ingestion.finish()
    }

    /// Applies all entries of the notes or none, through the journal: for few and small ones, since the engine reads its journal again whenever
    /// it is opened.
    pub fn commit(&self, entries: &[Entry]) -> fjall::Result<()> {
        self.commit_also_among_rows(entries, &[])
    }

    /// The same, with some that lie among the rows for the sake of other versions.
    pub fn commit_also_among_rows(&self, entries: &[Entry], among_rows: &[Entry]) -> fjall::Result<()> {
        self.check_goes_on()?;
        self.wait_for_flushes()?;
        let mut batch = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), entries.len() + among_rows.len());
        for (tree, entries) in [(&self.notes, entries), (&self.rows, among_rows)] {
            for (key, value) in entries {
                match value {
                    Some(value) => batch.insert(tree, key.clone(), value.clone()),
                    None => batch.remove(tree, key.clone()),
                }
            }
        }
        batch.commit()?;
        let bytes = |(key, value): &Entry| (key.len() + value.as_ref().map_or(0, |value| value.len())) as u64;
        let bytes: u64 = entries.iter().map(bytes).sum();
        if self.journaled_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes >= MEMORY_TABLE_BYTES {
            self.notes.rotate_memtable()?;
            self.journaled_bytes.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes all commits durable.
    pub fn force(&self) -> fjall::Result<()> {
        self.database.persist(fjall::PersistMode::SyncData)
    }

    /// Lets go the files whose keys all lie from `from` to below `to`, which nobody looks for any more. Keys in files that have others too
    /// stay, and are to be deleted. They must never have gone through the journal: with a file goes what it said of how far the
    /// journal counts, and the engine, opened again, applies more of that than before.
    ///
    /// Waits for merges under way.
    pub fn drop_files(&self, from: [u8; 4], to: [u8; 4]) -> fjall::Result<()> {
        Ok(self.rows.tree.drop_range(from..to)?)
    }

    /// Rows of one space between the bounds as of now, with their keys in it, as [`rubato_storage::Store::scan_some`] has them. (Without the
    /// snapshot the engine's iterators show half of a batch that is being applied.)
    pub fn rows_within(
        &self,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
        reverse: bool,
        (limit_rows, limit_bytes): (usize, usize),
    ) -> fjall::Result<(Vec<KeyValue>, bool)> {
        let mut range = self.database.snapshot().range(&self.rows, (from, to));
        let mut rows = Vec::with_capacity(limit_rows.min(1024));
        let mut bytes = 0;
        while rows.len() < limit_rows && (bytes < limit_bytes || rows.is_empty()) {
            let next = if reverse { range.next_back() } else { range.next() };
            let Some(guard) = next else {
                return Ok((rows, false));
            };
            let (key, value) = guard.into_inner()?;
            bytes += value.len();
            rows.push((key[4..].to_vec(), value.to_vec()));
        }
        Ok((rows, true))
    }

    pub fn bytes_used(&self) -> fjall::Result<u64> {
        self.database.disk_space()
    }

    /// Waits until merging has caught up with what came, but no longer than [`PATIENCE`] if it is not far behind: who waits for the writer is a client.
    pub fn wait_for_merges(&self) {
        let mut idle = 0;
        for waited in 0.. {
            let runs = self.rows.tree.l0_run_count();
            let is_behind = runs > UNMERGED_RUNS_MAX && (waited < PATIENCE || runs > FAR_BEHIND_RUNS);
            idle = if self.is_idle() { idle + 1 } else { 0 };
            // It merges once for each file that comes, and may have had other files to take: the next one has it go on.
            if !is_behind || idle > MERGE_IDLE_MAX {
                return;
            }
            if self.wait_a_little().is_err() {
                self.has_stopped.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Errors: `Poisoned` if the engine has stopped.
    fn check_goes_on(&self) -> fjall::Result<()> {
        match self.has_stopped.load(Ordering::Relaxed) {
            true => Err(fjall::Error::Poisoned),
            false => Ok(()),
        }
    }

    /// Errors: `Poisoned` if the engine has stopped, or does nothing of what is waited for.
    fn wait_for_flushes(&self) -> fjall::Result<()> {
        let mut idle = 0;
        while self.notes.sealed_memtable_count() > FLUSHES_MAX {
            self.wait_a_little()?;
            idle = if self.is_idle() { idle + 1 } else { 0 };
            if idle > FLUSH_IDLE_MAX {
                return Err(fjall::Error::Poisoned);
            }
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.database.active_compactions() == 0 && self.database.outstanding_flushes() == 0
    }

    /// Fails when the thread that merges and flushes has stopped.
    fn wait_a_little(&self) -> fjall::Result<()> {
        self.database.persist(fjall::PersistMode::Buffer)?;
        std::thread::sleep(WAIT);
        Ok(())
    }
}

/// Its journals; it does not say in which one there is damage.
const JOURNALS: &str = "*.jnl";

/// Sorts an error of the engine.
pub(crate) fn sorted(path: &Path, error: &fjall::Error) -> Error {
    let file = path.display().to_string();
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => Error::from_io(&file, error),
        fjall::Error::Locked => Error::Locked { file },
        fjall::Error::InvalidVersion(found) => match found {
            Some(found) => Error::NewerVersion {
                file,
                reason: format!("its engine's format is {found:?}"),
            },
            None => Error::Corrupt {
                file: path.join(VERSION_MARKER).display().to_string(),
                reason: "the engine's format marker is damaged".to_string(),
            },
        },
        fjall::Error::KeyspaceDeleted => Error::Corrupt {
            file: path.join(TREES).display().to_string(),
            reason: "the tree with what is noted about tables is missing".to_string(),
        },
        fjall::Error::JournalRecovery(_) => Error::Corrupt {
            file: path.join(JOURNALS).display().to_string(),
            reason: format!("the engine says: {error:?}"),
        },
        fjall::Error::Storage(_)
        | fjall::Error::Decompress(_)
        | fjall::Error::InvalidTrailer
        | fjall::Error::InvalidTag(_)
        | fjall::Error::Unrecoverable => Error::Corrupt {
            file,
            reason: format!("the engine says: {error:?}"),
        },
        _ => Error::Io {
            file,
            reason: format!("the engine says: {error:?}"),
        },
    }
}
