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

/// Keys of dropped tables that one force removes; keeps the force short.
const SWEEP_KEYS_MAX: usize = 50_000;

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
    garbage: BTreeSet<u32>,
    /// Those of them whose files have yet to go.
    with_files: BTreeSet<u32>,
    /// The last key that was removed of the first of them: to find the next ones the engine steps over the deletions of all that were
    /// removed before, as long as these are not merged away.
    swept: Option<fjall::Slice>,
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
        store.load(&engine).map_err(|error| layout::named(&store.path, error))?;
        *store.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(engine);
        if is_new {
            layout::finish_making(&store.path)?;
        }
        // What a crash came before. Where the disk is full it has to wait, and is removed by sweeping.
        let garbage: Vec<u32> = store.lock_writes().garbage.iter().copied().collect();
        garbage.into_iter().for_each(|space| drop(store.drop_files(space)));
        Ok(store)
    }

    /// Whether there is a store in a folder: made once, and not only begun.
    ///
    /// # Errors
    /// What the disk says.
    pub fn is_in(path: &Path) -> Result<bool> {
        layout::is_made(path)
    }

    /// Reads what this room keeps about its tables.
    fn load(&self, engine: &Engine) -> Result<()> {
        let mut writes = self.lock_writes();
        let mut spaces = BTreeMap::new();
        writes.next_space = 1;
        let mut version = None;
        for guard in engine.rows.prefix([0, 0, 0, 0]) {
            let (key, value) = guard.into_inner().map_err(|error| self.sorted(&error))?;
            let number = keys::number(&value);
            match keys::parse_own_key(&key) {
                OwnKey::Garbage(space) => {
                    writes.garbage.insert(space);
                }
                OwnKey::Table(table) => {
                    spaces.insert(table, number.ok_or_else(|| self.corrupt("a table has no space"))?);
                }
                OwnKey::Other if *key == keys::VERSION_KEY => version = number,
                OwnKey::Other if *key == keys::NEXT_SPACE_KEY => {
                    writes.next_space = number.ok_or_else(|| self.corrupt("the number of spaces is damaged"))?;
                }
                OwnKey::Other => return Err(self.corrupt("an unknown key among the store's own")),
            }
        }
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
        if version != Some(keys::FORMAT_VERSION) {
            let entry = (
                keys::VERSION_KEY.into(),
                Some(keys::FORMAT_VERSION.to_be_bytes().into()),
            );
            // Of its journal the engine applies nothing that is older than the newest key in a file. This one goes to a file before any
            // deletion does, and stays: what journals of version 1 have of rows is settled with that.
            engine.commit(&[entry]).map_err(|error| self.sorted(&error))?;
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

    /// Applies changes of rows: they become a file. What this room notes of new tables goes before them, and stands whatever comes of the
    /// rows: a table without rows is no harm, two tables in one space would be.
    fn ingest(&self, writes: &mut Writes, spaces: &mut Spaces<'_>) -> Result<()> {
        if !spaces.own_entries.is_empty() {
            self.commit(writes, std::mem::take(&mut spaces.own_entries))?;
            writes.next_space = spaces.next;
            let mut known = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
            known.extend(spaces.new.drain(..));
        }
        self.change(writes, |engine| engine.ingest(spaces.entries()))?;
        // What was applied before is durable as well.
        writes.unforced.clear();
        Ok(())
    }

    fn force_locked(&self, writes: &mut Writes) -> Result<()> {
        self.change(writes, Engine::force)?;
        writes.unforced.clear();
        Ok(())
    }

    /// Removes some keys of dropped tables. Nobody can see them, so it does not matter how far it gets.
    fn sweep(&self, writes: &mut Writes) -> Result<()> {
        let mut left = SWEEP_KEYS_MAX;
        while let Some(space) = writes.garbage.first().copied().filter(|_| left > 0) {
            let mut gone: Vec<Entry> = Vec::new();
            {
                let guard = self.engine.read().unwrap_or_else(PoisonError::into_inner);
                let Some(engine) = &*guard else { return Ok(()) };
                let own_prefix = space.to_be_bytes();
                let swept = writes.swept.take().filter(|key| key.starts_with(&own_prefix));
                let from = swept.map_or(Bound::Included(own_prefix.as_slice().into()), Bound::Excluded);
                let to = Bound::Excluded(fjall::Slice::from(space.saturating_add(1).to_be_bytes()));
                for row in engine.rows.range((from, to)).take(left) {
                    gone.push((row.key().map_err(|error| self.sorted(&error))?, None));
                }
            }
            self.change(writes, |engine| engine.ingest(gone.iter().cloned()))?;
            if gone.len() < left {
                self.commit(writes, vec![(keys::garbage_key(space).into(), None)])?;
                writes.garbage.remove(&space);
            } else {
                writes.swept = gone.last().map(|(key, _)| key.clone());
            }
            left -= gone.len();
        }
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
        let mut writes = self.lock_writes();
        let changes = batch.sorted();
        let mut spaces = self.spaces_for(changes, writes.next_space);
        self.ingest(&mut writes, &mut spaces)
    }

    fn force(&self) -> Result<()> {
        let mut writes = self.lock_writes();
        self.sweep(&mut writes)?;
        self.force_locked(&mut writes)
    }

    fn drop_table(&self, table: u32) -> Result<()> {
        self.drop_one(table)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &EmbeddedStore, key: u8, value: u8) {
        let mut batch = Batch::new();
        batch.put(1, vec![key], vec![value]);
        batch.put(2, vec![key], vec![value]);
        store.apply(batch).expect("applies");
    }

    #[test]
    fn what_was_applied_but_not_forced_outlives_the_engine() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        put(&store, 1, 1);
        store.force().expect("forces");
        put(&store, 2, 2);
        put(&store, 2, 3);
        store.drop_table(1).expect("drops");
        store.restart_engine(&mut store.lock_writes()).expect("restarts");
        assert_eq!((store.get(1, &[2]), store.get(2, &[2])), (Ok(None), Ok(Some(vec![3]))));
        assert!(!folder.path().join(PROBE_NAME).exists());
        // As after a failed restart: the next read tries again.
        *store.engine.write().expect("lock") = None;
        assert_eq!(store.get(2, &[1]), Ok(Some(vec![1])));
        put(&store, 3, 3);
        *store.engine.write().expect("lock") = None;
        put(&store, 4, 4);
        assert_eq!(
            (store.get(2, &[3]), store.get(1, &[4])),
            (Ok(Some(vec![3])), Ok(Some(vec![4])))
        );
    }

    fn delete(store: &EmbeddedStore, key: u8) {
        let mut batch = Batch::new();
        batch.delete(1, [key]);
        batch.delete(2, [key]);
        store.apply(batch).expect("applies");
    }

    fn flush(engine: &Engine) -> fjall::Result<()> {
        engine.rows.rotate_memtable_and_wait()
    }

    /// Merges everything into one level, where deletions vanish.
    fn merge(store: &EmbeddedStore) {
        let merge = |engine: &Engine| flush(engine).and_then(|()| engine.rows.major_compact());
        store.change(&mut store.lock_writes(), merge).expect("merges");
    }

    #[test]
    fn what_was_deleted_stays_so_when_files_are_merged_and_the_store_is_opened_again() {
        let folder = tempfile::tempdir().expect("a folder");
        for round in 0..3 {
            let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
            for key in 0..20 {
                assert_eq!(
                    store.get(2, &[key]),
                    Ok((round > 0 && key < 3).then(|| vec![key])),
                    "{round}"
                );
            }
            (0..20).for_each(|key| put(&store, key, key));
            (3..20).for_each(|key| delete(&store, key));
            store.force().expect("forces");
            merge(&store);
        }
    }

    #[test]
    fn a_table_whose_first_rows_failed_shares_its_space_with_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        let batch = |table| {
            let mut batch = Batch::new();
            batch.put(table, [1], [table as u8]);
            batch
        };
        // Where the engine's files of rows are.
        let files = folder.path().join("keyspaces/1/tables");
        let away = folder.path().join("away");
        std::fs::rename(&files, &away).expect("renames");
        std::fs::write(&files, "no folder").expect("writes");
        store.apply(batch(1)).expect_err("there is no place for the file");
        std::fs::remove_file(&files).expect("removes");
        std::fs::rename(&away, &files).expect("renames");
        store.apply(batch(2)).expect("applies");
        drop(store);
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        assert_eq!((store.get(1, &[1]), store.get(2, &[1])), (Ok(None), Ok(Some(vec![2]))));
    }

    #[test]
    fn rows_in_the_journal_of_an_older_version_do_not_come_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        put(&store, 1, 1);
        // Version 1 wrote rows through the journal.
        let space = store.space(2).expect("a table");
        let version: Entry = (keys::VERSION_KEY.into(), Some(1_u32.to_be_bytes().into()));
        let row: Entry = (keys::in_space(space, &[7]).into(), Some([7].into()));
        for older in [version, row] {
            store.commit(&mut store.lock_writes(), vec![older]).expect("commits");
        }
        drop(store);
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        assert_eq!(store.get(2, &[7]), Ok(Some(vec![7])));
        delete(&store, 7);
        merge(&store);
        drop(store);
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        assert_eq!((store.get(2, &[7]), store.get(2, &[1])), (Ok(None), Ok(Some(vec![1]))));
    }

    #[test]
    fn rows_and_dropped_tables_leave_nothing_for_the_engine_to_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        for round in 0..10 {
            let mut batch = Batch::new();
            for key in 0..5000_u32 {
                batch.put(round, key.to_be_bytes(), [1; 100]);
            }
            store.apply(batch).expect("applies");
            store.drop_table(round).expect("drops");
            store.force().expect("forces");
        }
        drop(store);
        let journals = std::fs::read_dir(folder.path()).expect("lists").flatten();
        let journals = journals.filter(|entry| entry.path().extension().is_some_and(|end| end == "jnl"));
        let written = |path: PathBuf| {
            std::fs::read(path)
                .expect("reads")
                .iter()
                .filter(|byte| **byte != 0)
                .count()
        };
        let bytes: Vec<usize> = journals.map(|entry| written(entry.path())).collect();
        assert!(!bytes.is_empty() && bytes.iter().sum::<usize>() < 20_000, "{bytes:?}");
    }

    #[test]
    fn damaged_and_missing_tables_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        for key in 0..=255 {
            put(&store, key, key);
        }
        store.force().expect("forces");
        store.change(&mut store.lock_writes(), flush).expect("flushes");
        store.check().expect("nothing is damaged");
        drop(store);
        let tables: Vec<PathBuf> = ["0", "1", "2"]
            .iter()
            .flat_map(|tree| std::fs::read_dir(folder.path().join("keyspaces").join(tree).join("tables")))
            .flatten()
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert!(!tables.is_empty());
        for table in tables {
            let whole = std::fs::read(&table).expect("reads");
            let refused = |why: &str| match EmbeddedStore::open(folder.path(), 8 << 20).and_then(|store| store.check())
            {
                Err(Error::Corrupt { file, .. }) => assert_eq!(file, table.display().to_string(), "{why}"),
                other => panic!("{why}: {other:?}"),
            };
            for place in (0..whole.len()).step_by(whole.len() / 9) {
                let mut damaged = whole.clone();
                damaged[place] ^= 1;
                std::fs::write(&table, damaged).expect("writes");
                refused("a byte");
            }
            std::fs::write(&table, &whole[..whole.len() / 2]).expect("writes");
            refused("its end");
            std::fs::remove_file(&table).expect("removes");
            refused("all of it");
            std::fs::write(&table, whole).expect("writes");
        }
        let marker = folder.path().join("version");
        std::fs::write(&marker, "no").expect("writes");
        match EmbeddedStore::open(folder.path(), 8 << 20).err() {
            Some(Error::Corrupt { file, .. }) => assert_eq!(file, marker.display().to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_newer_format_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        let newer = (
            keys::VERSION_KEY.into(),
            Some((keys::FORMAT_VERSION + 1).to_be_bytes().into()),
        );
        store.commit(&mut store.lock_writes(), vec![newer]).expect("commits");
        store.force().expect("forces");
        drop(store);
        let refused = EmbeddedStore::open(folder.path(), 8 << 20).err();
        assert!(matches!(refused, Some(Error::NewerVersion { .. })), "{refused:?}");
    }
}
