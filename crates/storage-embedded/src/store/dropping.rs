//! Dropped tables, also on a full disk.

use super::{EmbeddedStore, Writes};
use crate::engine::Entry;
use crate::{keys, reserve};
use rubato_storage::{Error, Result};
use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::PoisonError;

/// Keys of dropped tables that are removed with one hold of the lock; keeps others from waiting long.
const SWEEP_KEYS_MAX: usize = 50_000;

impl EmbeddedStore {
    /// Notes that the tables are dropped, lets their files go, and removes what they have in files with others' rows; the same of tables
    /// that were dropped before, if that was not done.
    pub(super) fn drop_all(&self, tables: &[u32]) -> Result<()> {
        let unused = {
            let mut writes = self.lock_writes();
            self.note_dropped(tables, &mut writes).map(|()| self.unused(&writes))
        };
        let dropped = unused.and_then(|unused| {
            unused.iter().cloned().try_for_each(|spaces| self.drop_files(spaces))?;
            Ok(unused)
        });
        match dropped {
            Err(Error::NoSpace { .. }) => self.drop_on_full_disk(tables),
            Err(error) => Err(error),
            Ok(unused) => match self.sweep(unused) {
                // Nobody sees what is left. It goes when there is room.
                Err(Error::NoSpace { .. }) => Ok(()),
                swept => swept,
            },
        }
    }

    /// The spaces between two tables that are there, for all such ranges in which something is to be removed. Most tables that are dropped
    /// together were made together: they lie in the same files, which may go where nobody else has rows in them.
    pub(super) fn unused(&self, writes: &Writes) -> Vec<Range<u32>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let used: BTreeSet<u32> = spaces.values().copied().collect();
        let mut unused: Vec<Range<u32>> = Vec::new();
        for garbage in &writes.garbage {
            if unused.last().is_some_and(|last| last.contains(garbage)) {
                continue;
            }
            // Space 0 is none of a table's, and those that have yet to be given may be given meanwhile.
            let from = used.range(..garbage).next_back().map_or(1, |before| before + 1);
            let to = used.range(garbage..).next().map_or(writes.next_space, |behind| *behind);
            unused.push(from..to);
        }
        unused
    }

    /// Most of large dropped tables goes at once, with the files that have nothing else. Nobody waits for it with the lock in hand: merges
    /// come to their end before.
    pub(super) fn drop_files(&self, spaces: Range<u32>) -> Result<()> {
        let guard = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = &*guard else { return Ok(()) };
        let dropped = engine.drop_files(spaces.start.to_be_bytes(), spaces.end.to_be_bytes());
        dropped.map_err(|error| self.sorted(&error))
    }

    /// Notes, durably, that the tables are dropped, as far as that is not done: files go for good.
    fn note_dropped(&self, tables: &[u32], writes: &mut Writes) -> Result<()> {
        let found: Vec<(u32, u32)> = tables
            .iter()
            .filter_map(|table| Some((*table, self.space(*table)?)))
            .collect();
        if found.is_empty() {
            return Ok(());
        }
        let entries = found.iter().flat_map(|(table, space)| -> [Entry; 2] {
            [
                (keys::table_key(*table).into(), None),
                (keys::garbage_key(*space).into(), Some(fjall::Slice::from([]))),
            ]
        });
        self.commit(writes, entries.collect())?;
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        for (table, _) in &found {
            spaces.remove(table);
        }
        drop(spaces);
        writes.garbage.extend(found.iter().map(|(_, space)| *space));
        self.force_locked(writes)
    }

    /// Deletes all keys in spaces that are unused: some at a time, so that others change something in between. They are looked for without the lock,
    /// since nobody changes them.
    fn sweep(&self, unused: Vec<Range<u32>>) -> Result<()> {
        if unused.is_empty() {
            return Ok(());
        }
        let swept: BTreeSet<u32> = {
            let writes = self.lock_writes();
            let is_unused = |space: &u32| unused.iter().any(|spaces| spaces.contains(space));
            writes.garbage.iter().copied().filter(is_unused).collect()
        };
        let mut gone: Vec<Entry> = Vec::new();
        let mut from = Bound::Unbounded;
        loop {
            gone.clear();
            self.find_keys(&unused, &from, &mut gone)?;
            let Some((last, _)) = gone.last() else { break };
            from = Bound::Excluded(last.clone());
            self.wait_for_merges();
            self.ingest_rows(&mut self.lock_writes(), || gone.iter().cloned())?;
        }
        let mut writes = self.lock_writes();
        let entries = swept.iter().map(|space| (keys::garbage_key(*space).into(), None));
        self.commit(&mut writes, entries.collect())?;
        writes.garbage.retain(|space| !swept.contains(space));
        Ok(())
    }

    /// The next keys in the spaces to delete.
    fn find_keys(&self, unused: &[Range<u32>], from: &Bound<fjall::Slice>, gone: &mut Vec<Entry>) -> Result<()> {
        let guard = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = &*guard else {
            return Err(self.sorted(&fjall::Error::Poisoned));
        };
        for spaces in unused {
            let begin = fjall::Slice::from(spaces.start.to_be_bytes());
            let from = match from {
                Bound::Excluded(last) if *last >= begin => Bound::Excluded(last.clone()),
                _ => Bound::Included(begin),
            };
            let to = fjall::Slice::from(spaces.end.to_be_bytes());
            if matches!(&from, Bound::Excluded(last) if *last >= to) {
                continue;
            }
            for row in engine
                .rows
                .range((from, Bound::Excluded(to)))
                .take(SWEEP_KEYS_MAX - gone.len())
            {
                gone.push((row.key().map_err(|error| self.sorted(&error))?, None));
            }
        }
        Ok(())
    }

    /// Drops tables on a full disk, with the room that is set aside for that and nobody else: the lock is held until what has gone is free.
    /// The engine removes files that nobody reads any more, and those that were written by half, when it is opened.
    fn drop_on_full_disk(&self, tables: &[u32]) -> Result<()> {
        let mut writes = self.lock_writes();
        reserve::give_up(&self.path);
        let dropped = self.restart_engine(&mut writes).and_then(|()| {
            self.note_dropped(tables, &mut writes)?;
            self.unused(&writes)
                .into_iter()
                .try_for_each(|spaces| self.drop_files(spaces))?;
            self.restart_engine(&mut writes)
        });
        reserve::keep(&self.path);
        dropped
    }
}
