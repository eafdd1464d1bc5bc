//! Dropped tables, also on a full disk.

use super::{EmbeddedStore, Writes};
use crate::engine::Entry;
use crate::{keys, reserve};
use rubato_storage::{Error, Result};
use std::sync::PoisonError;

impl EmbeddedStore {
    /// Notes that a table is dropped, and lets its files go.
    pub(super) fn drop_one(&self, table: u32) -> Result<()> {
        let noted = self.note_dropped(table, &mut self.lock_writes());
        let dropped = noted.and_then(|spaces| {
            spaces.into_iter().try_for_each(|space| {
                self.drop_files(space)?;
                self.lock_writes().with_files.remove(&space);
                Ok(())
            })
        });
        match dropped {
            Err(Error::NoSpace { .. }) => self.drop_on_full_disk(table),
            other => other,
        }
    }

    /// Most of a large dropped table goes at once, with the files that have nothing else. Nobody waits for it with the lock in hand: merges
    /// come to their end before.
    pub(super) fn drop_files(&self, space: u32) -> Result<()> {
        let guard = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = &*guard else { return Ok(()) };
        let dropped = engine.drop_files(space.to_be_bytes(), space.saturating_add(1).to_be_bytes());
        dropped.map_err(|error| self.sorted(&error))
    }

    /// Notes that the table is dropped, if that is not done. The spaces whose files may go.
    fn note_dropped(&self, table: u32, writes: &mut Writes) -> Result<Vec<u32>> {
        if let Some(space) = self.space(table) {
            let entries: Vec<Entry> = vec![
                (keys::table_key(table).into(), None),
                (keys::garbage_key(space).into(), Some(fjall::Slice::from([]))),
            ];
            self.commit(writes, entries)?;
            self.spaces
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&table);
            writes.garbage.insert(space);
            writes.with_files.insert(space);
        }
        Ok(writes.with_files.iter().copied().collect())
    }

    /// Drops a table on a full disk, with the room that is set aside for that and nobody else: the lock is held until what has gone is free.
    /// The engine removes files that nobody reads any more, and those that were written by half, when it is opened.
    fn drop_on_full_disk(&self, table: u32) -> Result<()> {
        let mut writes = self.lock_writes();
        reserve::give_up(&self.path);
        let dropped = self.restart_engine(&mut writes).and_then(|()| {
            for space in self.note_dropped(table, &mut writes)? {
                self.drop_files(space)?;
                writes.with_files.remove(&space);
            }
            self.restart_engine(&mut writes)
        });
        reserve::keep(&self.path);
        dropped
    }
}
