//! The store.

use crate::engine::{Engine, Entry, sorted};
use crate::keys::{self, OwnKey};
use crate::layout;
use crate::reserve;
use rubato_storage::{
    Batch, Change, CheckReport, Error, KEY_BYTES_MAX, KeyValue, Result, Sorted, Store, bounds_are_empty,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

mod dropping;
#[cfg(test)]
mod tests;

/// A batch of fewer bytes is little.
const LITTLE_BYTES: usize = 256 << 10;

/// What must be free before a stopped engine is started again: it needs some space to recover in.
pub(crate) const PROBE_BYTES: usize = 8 * 1024 * 1024;
const PROBE_NAME: &str = "rubato-probe";

/// The default store. See the crate's documentation.
pub struct EmbeddedStore {
    path: PathBuf,
    cache_bytes: u64,
    /// Locked for writing only to exchange the engine; `None` while it could not be opened again.
    engine: RwLock<Option<Engine>>,
    /// Table to space.
    spaces: RwLock<BTreeMap<u32, u32>>,
    writes: Mutex<Writes>,
}

/// What only changes need; its lock puts them in order.
#[derive(Default)]
struct Writes {
    next_space: u32,
    /// Spaces of dropped tables whose keys have not all been removed.
    garbage: BTreeSet<u32>,
    /// Changes of this room's own keys since the last force, in order. The engine stops for good on a write error; they are given to
    /// its successor, because they are visible already.
    unforced: Vec<Vec<Entry>>,
}

/// Where the changes of a batch go.
struct Spaces<'a> {
    /// In the order of the spaces, as their keys come in the engine.
    changes_of: Vec<(u32, Sorted<'a>)>,
    /// Tables that have got a space.
    new: Vec<(u32, u32)>,
    /// The space that the next new table gets.
    next: u32,
    /// What this room notes of the new ones.
    own_entries: Vec<Entry>,
}

impl Spaces<'_> {
    /// The changes of rows in the order of the engine's keys.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.changes_of.iter().flat_map(|(space, changes)| {
            let entry = |change: Change<'_>| {
                let key = keys::in_space(*space, change.key).into();
                (key, change.value.map(fjall::Slice::from))
            };
            changes.changes().map(entry)
        })
    }
}

impl EmbeddedStore {
    /// Opens the store in a folder, making it if it does not exist. `cache_bytes` bounds the block cache; the tables
    /// in memory that wait to be flushed take up to 64 MiB more.
    ///
    /// # Errors
    /// `Locked`, `NewerVersion`, `Corrupt`, `NoSpace`, `ReadOnly`, `Io`.
    pub fn open(path: impl Into<PathBuf>, cache_bytes: u64) -> Result<EmbeddedStore> {
        let path = path.into();
        std::fs::create_dir_all(&path).map_err(|error| Error::from_io(&path.display().to_string(), &error))?;
        let is_new = layout::begin_making(&path)?;
        layout::check(&path)?;
        let open = || Engine::open(&path, cache_bytes).map_err(|error| layout::named(&path, sorted(&path, &error)));
        let engine = match open() {
            // Whoever is to make room, by TRUNCATE or DELETE, has to be served first.
            Err(Error::NoSpace { .. }) if reserve::give_up(&path) => open()?,
            opened => opened?,
        };
        let store = EmbeddedStore {
            path,
            cache_bytes,
            engine: RwLock::new(None),
            spaces: RwLock::default(),
            writes: Mutex::default(),
        };
        let noted = store.make_notes(&engine).and_then(|()| store.load(&engine));
        noted.map_err(|error| layout::named(&store.path, error))?;
        *store.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(engine);
        if is_new {
            layout::finish_making(&store.path)?;
        }
        // What a crash came before. Where the disk is full it has to wait, and is removed with what is dropped next.
        let unused = store.unused(&store.lock_writes());
        unused.into_iter().for_each(|spaces| drop(store.drop_files(spaces)));
        Ok(store)
    }

    /// Whether there is a store in a folder: made once, and not only begun.
    ///
    /// # Errors
    /// What the disk says.
    pub fn is_in(path: &Path) -> Result<bool> {
        layout::is_made(path)
    }

    /// Makes the tree of notes what it is in this version: new, or with what an older version has noted among the rows.
    fn make_notes(&self, engine: &Engine) -> Result<()> {
        let version = keys::version(&engine.rows).map_err(|error| self.sorted(&error))?;
        if let Some(found) = version.filter(|found| *found > keys::FORMAT_VERSION) {
            let reason = format!(
                "format version {found}; this program reads up to {}",
                keys::FORMAT_VERSION
            );
            return Err(Error::NewerVersion {
                file: self.path.display().to_string(),
                reason,
            });
        }
        if version.is_some_and(|found| found >= keys::NOTES_VERSION) {
            return Ok(());
        }
        let mut notes = Vec::new();
        for guard in engine.rows.prefix([0, 0, 0, 0]) {
            let (key, value) = guard.into_inner().map_err(|error| self.sorted(&error))?;
            notes.push((key, Some(value)));
        }
        let mut among_rows: Vec<Entry> = notes.iter().map(|(key, _)| (key.clone(), None)).collect();
        let version = Some(fjall::Slice::from(keys::FORMAT_VERSION.to_be_bytes()));
        notes.retain(|(key, _)| **key != keys::VERSION_KEY);
        among_rows.retain(|(key, _)| **key != keys::VERSION_KEY);
        among_rows.push((keys::VERSION_KEY.into(), version));
        // The tree before what says that there is one.
        layout::force_trees(&self.path)?;
        // Of its journal the engine applies nothing to a tree that is older than the newest key in a file of the tree. The version among the rows
        // goes to a file before any deletion does, and stays: what journals of version 1 have of rows is settled with that.
        engine
            .commit_also_among_rows(&notes, &among_rows)
            .and_then(|()| engine.force())
            .map_err(|error| self.sorted(&error))
    }

    /// Reads what this room keeps about its tables.
    fn load(&self, engine: &Engine) -> Result<()> {
        let mut writes = self.lock_writes();
        let mut spaces = BTreeMap::new();
        writes.next_space = 1;
        for guard in engine.notes.iter() {
            let (key, value) = guard.into_inner().map_err(|error| self.sorted(&error))?;
            let number = keys::number(&value);
            match keys::parse_own_key(&key) {
                OwnKey::Garbage(space) => {
                    writes.garbage.insert(space);
                }
                OwnKey::Table(table) => {
                    spaces.insert(table, number.ok_or_else(|| self.corrupt("a table has no space"))?);
                }
                OwnKey::Other if *key == keys::NEXT_SPACE_KEY => {
                    writes.next_space = number.ok_or_else(|| self.corrupt("the number of spaces is damaged"))?;
                }
                OwnKey::Other => return Err(self.corrupt("an unknown key among the store's own")),
            }
        }
        *self.spaces.write().unwrap_or_else(PoisonError::into_inner) = spaces;
        Ok(())
    }

    fn lock_writes(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn space(&self, table: u32) -> Option<u32> {
        self.spaces
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&table)
            .copied()
    }

    fn sorted(&self, error: &fjall::Error) -> Error {
        sorted(&self.path, error)
    }

    fn corrupt(&self, reason: &str) -> Error {
        Error::Corrupt {
            file: self.path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    /// The engine for reading. If an earlier failure left none, tries once more to open it.
    fn read_engine(&self) -> Result<RwLockReadGuard<'_, Option<Engine>>> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        if engine.is_some() {
            return Ok(engine);
        }
        drop(engine);
        self.restart_engine(&mut self.lock_writes())?;
        Ok(self.engine.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a change on the engine, which stops for good on any write error; then on its successor, if the cause is gone.
    fn change(&self, writes: &mut Writes, run: impl Fn(&Engine) -> fjall::Result<()>) -> Result<()> {
        let first = match &*self.engine.read().unwrap_or_else(PoisonError::into_inner) {
            Some(engine) => run(engine),
            None => Err(fjall::Error::Poisoned),
        };
        let Err(first) = first else { return Ok(()) };
        // A first error with a cause is the better message if the restart fails for lack of anything better.
        self.restart_engine(writes)
            .map_err(|error| match (&error, self.sorted(&first)) {
                (Error::Io { .. }, cause @ (Error::NoSpace { .. } | Error::ReadOnly { .. })) => cause,
                _ => error,
            })?;
        match &*self.engine.read().unwrap_or_else(PoisonError::into_inner) {
            Some(engine) => run(engine).map_err(|error| self.sorted(&error)),
            None => Err(self.sorted(&first)),
        }
    }

    /// Closes the engine and opens it again, with everything that was applied. Until it is clear that the disk takes
    /// writes, the old one stays, because it still answers reads.
    fn restart_engine(&self, writes: &mut Writes) -> Result<()> {
        probe(&self.path)?;
        let mut slot = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        *slot = None;
        let engine = Engine::open(&self.path, self.cache_bytes).map_err(|error| self.sorted(&error))?;
        // As one batch: with some of them only, an older batch would lie over a newer one that the engine still had.
        let mut merged: BTreeMap<&[u8], &Entry> = BTreeMap::new();
        for entry in writes.unforced.iter().flatten() {
            merged.insert(&entry.0, entry);
        }
        let merged: Vec<Entry> = merged.into_values().cloned().collect();
        engine
            .commit(&merged)
            .and_then(|()| engine.force())
            .map_err(|error| self.sorted(&error))?;
        *slot = Some(engine);
        writes.unforced.clear();
        Ok(())
    }

    /// Changes keys of this room's own.
    fn commit(&self, writes: &mut Writes, entries: Vec<Entry>) -> Result<()> {
        self.change(writes, |engine| engine.commit(&entries))?;
        writes.unforced.push(entries);
        Ok(())
    }

    /// Where the changes go.
    fn spaces_for<'a>(&self, changes: Sorted<'a>, next_space: u32) -> Spaces<'a> {
        let mut spaces = Spaces {
            changes_of: Vec::new(),
            new: Vec::new(),
            next: next_space,
            own_entries: Vec::new(),
        };
        for (table, changes) in changes.by_table() {
            let known = self.space(table);
            // Deleting from a table that does not exist is nothing to do.
            if known.is_none() && changes.changes().all(|change| change.value.is_none()) {
                continue;
            }
            let space = known.unwrap_or(spaces.next);
            if known.is_none() {
                let number = fjall::Slice::from(space.to_be_bytes());
                spaces.own_entries.push((keys::table_key(table).into(), Some(number)));
                spaces.new.push((table, space));
                spaces.next += 1;
            }
            spaces.changes_of.push((space, changes));
        }
        if !spaces.new.is_empty() {
            let next = fjall::Slice::from(spaces.next.to_be_bytes());
            spaces.own_entries.push((keys::NEXT_SPACE_KEY.into(), Some(next)));
        }
        spaces.changes_of.sort_unstable_by_key(|(space, _)| *space);
        spaces
    }

    /// Waits until merging has caught up with what came, with no lock in hand: the engine comes to an end with that by itself.
    fn wait_for_merges(&self) {
        if let Some(engine) = &*self.engine.read().unwrap_or_else(PoisonError::into_inner) {
            engine.wait_for_merges();
        }
    }

    /// Applies changes of rows: they become a file. What this room notes of new tables goes before them, and stands whatever comes of the
    /// rows: a table without rows is no harm, two tables in one space would be.
    fn ingest(&self, writes: &mut Writes, spaces: &mut Spaces<'_>) -> Result<()> {
        if !spaces.own_entries.is_empty() {
            self.commit(writes, std::mem::take(&mut spaces.own_entries))?;
            writes.next_space = spaces.next;
            let mut known = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
            known.extend(spaces.new.drain(..));
        }
        self.ingest_rows(writes, || spaces.entries())
    }

    /// What was noted before is durable before the rows are, which are so at once.
    fn ingest_rows<I: Iterator<Item = Entry>>(&self, writes: &mut Writes, entries: impl Fn() -> I) -> Result<()> {
        if !writes.unforced.is_empty() {
            self.force_locked(writes)?;
        }
        self.change(writes, |engine| engine.ingest(entries()))
    }

    fn force_locked(&self, writes: &mut Writes) -> Result<()> {
        self.change(writes, Engine::force)?;
        writes.unforced.clear();
        Ok(())
    }
}

impl Store for EmbeddedStore {
    fn get(&self, table: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(space) = self.space(table) else {
            return Ok(None);
        };
        let guard = self.read_engine()?;
        let Some(engine) = &*guard else {
            return Err(self.sorted(&fjall::Error::Poisoned));
        };
        let value = engine
            .rows
            .get(keys::in_space(space, key))
            .map_err(|error| self.sorted(&error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Vec<KeyValue>> {
        Ok(self.scan_some(table, from, to, reverse, (limit_rows, usize::MAX))?.0)
    }

    fn scan_some(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limits: (usize, usize),
    ) -> Result<(Vec<KeyValue>, bool)> {
        let Some(space) = self.space(table) else {
            return Ok((Vec::new(), false));
        };
        if bounds_are_empty(from, to) {
            return Ok((Vec::new(), false));
        }
        let guard = self.read_engine()?;
        let Some(engine) = &*guard else {
            return Err(self.sorted(&fjall::Error::Poisoned));
        };
        let from = match from {
            Bound::Unbounded => Bound::Included(keys::in_space(space, &[])),
            bound => bound.map(|key| keys::in_space(space, key)),
        };
        let to = match to {
            // Spaces are given one by one from 1 on: there is always a next number.
            Bound::Unbounded => Bound::Excluded(keys::in_space(space.saturating_add(1), &[])),
            bound => bound.map(|key| keys::in_space(space, key)),
        };
        let taken = engine.rows_within(from, to, reverse, limits);
        taken.map_err(|error| self.sorted(&error))
    }

    fn apply(&self, mut batch: Batch) -> Result<()> {
        let key_bytes = batch.key_bytes_max();
        if key_bytes > KEY_BYTES_MAX {
            return Err(Error::KeyTooLong { key_bytes });
        }
        if batch.is_empty() {
            return Ok(());
        }
        // Who brings little waits for nobody: it is not that for which merging is behind.
        if batch.bytes() >= LITTLE_BYTES {
            self.wait_for_merges();
        }
        let mut writes = self.lock_writes();
        let changes = batch.sorted();
        let mut spaces = self.spaces_for(changes, writes.next_space);
        self.ingest(&mut writes, &mut spaces)
    }

    fn force(&self) -> Result<()> {
        self.force_locked(&mut self.lock_writes())
    }

    fn drop_tables(&self, tables: &[u32]) -> Result<()> {
        self.drop_all(tables)
    }

    fn keep_reserve(&self) {
        reserve::keep(&self.path);
    }

    fn give_up_reserve(&self) -> bool {
        reserve::give_up(&self.path)
    }

    fn tables(&self) -> Result<Vec<u32>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        Ok(spaces.keys().copied().collect())
    }

    fn bytes_used(&self) -> Result<u64> {
        let guard = self.read_engine()?;
        let Some(engine) = &*guard else {
            return Err(self.sorted(&fjall::Error::Poisoned));
        };
        engine.bytes_used().map_err(|error| self.sorted(&error))
    }

    fn check(&self) -> Result<CheckReport> {
        let tables: Vec<(u32, u32)> = self
            .spaces
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(table, space)| (*table, *space))
            .collect();
        layout::find_damage(&self.path)?;
        let guard = self.read_engine()?;
        let Some(engine) = &*guard else {
            return Err(self.sorted(&fjall::Error::Poisoned));
        };
        let mut report = CheckReport::default();
        for (table, space) in tables {
            let rows_before = report.rows;
            let mut last_key = Vec::new();
            for row in engine.rows.prefix(space.to_be_bytes()) {
                let (key, value) = row.into_inner().map_err(|error| match self.sorted(&error) {
                    Error::Corrupt { file, reason } => Error::Corrupt {
                        file,
                        reason: format!("table {table} behind key {last_key:02x?}: {reason}"),
                    },
                    other => other,
                })?;
                report.rows += 1;
                report.bytes += (key.len() - 4 + value.len()) as u64;
                last_key = key[4..].to_vec();
            }
            report.tables += u64::from(report.rows > rows_before);
        }
        Ok(report)
    }
}

/// Whether the disk takes writes again.
fn probe(path: &Path) -> Result<()> {
    let file = path.join(PROBE_NAME);
    let written = File::create(&file).and_then(|mut file| {
        file.write_all(&vec![1; PROBE_BYTES])?;
        file.sync_data()
    });
    // A probe that stays behind is overwritten by the next one.
    let _ = std::fs::remove_file(&file);
    written.map_err(|error| Error::from_io(&path.display().to_string(), &error))
}
