//! The engine, opened, and its errors sorted.

use crate::layout::VERSION_MARKER;
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
const TREE: &str = "rows";

/// Memory tables that may wait to be flushed before a writer waits too. The engine's own limits wait forever when the
/// flushing thread has stopped on a full disk, so they must never be reached.
const FLUSHES_MAX: usize = 1;
const UNMERGED_TABLES_MAX: usize = 16;
const WAIT: Duration = Duration::from_millis(1);
/// So often is looked whether the engine does anything before it is taken to have stopped.
const IDLE_MAX: u32 = 2_000;

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
        let rows = database.keyspace(TREE, options)?;
        Ok(Engine {
            database,
            rows,
            journaled_bytes: AtomicU64::new(0),
            has_stopped: AtomicBool::new(false),
        })
    }

    /// Sets and deletes all keys or none, durably, and makes everything durable that was committed before. They come in ascending order,
    /// each key once, and become files as they are: neither the journal nor the memory table sees them, which saves half of
    /// the work of a load.
    ///
    /// A deletion in a file vanishes when files are merged, and the engine, opened again, would then apply what its journal has of
    /// the key's older values: keys that come here must never have gone through [`Engine::commit`].
    pub fn ingest(&self, entries: impl Iterator<Item = Entry>) -> fjall::Result<()> {
        self.wait_for_flushes()?;
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

    /// Applies all entries or none, through the journal: for few and small ones, since the engine reads its journal again whenever it
    /// is opened.
    pub fn commit(&self, entries: &[Entry]) -> fjall::Result<()> {
        self.wait_for_flushes()?;
        let mut batch = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), entries.len());
        for (key, value) in entries {
            match value {
                Some(value) => batch.insert(&self.rows, key.clone(), value.clone()),
                None => batch.remove(&self.rows, key.clone()),
            }
        }
        batch.commit()?;
        let bytes = |(key, value): &Entry| (key.len() + value.as_ref().map_or(0, |value| value.len())) as u64;
        let bytes: u64 = entries.iter().map(bytes).sum();
        if self.journaled_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes >= MEMORY_TABLE_BYTES {
            self.rows.rotate_memtable()?;
            self.journaled_bytes.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes all commits durable.
    pub fn force(&self) -> fjall::Result<()> {
        self.database.persist(fjall::PersistMode::SyncData)
    }

    /// Lets go the files whose keys all lie from `from` to below `to`, which nobody looks for any more. Keys in files that have others too
    /// stay, and are to be deleted. They must never have gone through [`Engine::commit`]: with a file goes what it said of how far the
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

    /// Errors: `Poisoned` if the engine has stopped, or does nothing of what is waited for.
    fn wait_for_flushes(&self) -> fjall::Result<()> {
        if self.has_stopped.load(Ordering::Relaxed) {
            return Err(fjall::Error::Poisoned);
        }
        let mut idle = 0;
        while self.rows.sealed_memtable_count() > FLUSHES_MAX || self.rows.l0_table_count() > UNMERGED_TABLES_MAX {
            // Fails when the flushing thread has stopped.
            self.database.persist(fjall::PersistMode::Buffer)?;
            std::thread::sleep(WAIT);
            let is_idle = self.database.active_compactions() == 0 && self.database.outstanding_flushes() == 0;
            idle = if is_idle { idle + 1 } else { 0 };
            // It merges once for each file that comes, and may have had other files to take.
            if idle > IDLE_MAX {
                return Err(fjall::Error::Poisoned);
            }
        }
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
