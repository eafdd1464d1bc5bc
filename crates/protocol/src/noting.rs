//! Noting which rows of a table commits change: for whoever goes over the table while others write to it, and comes back to these.
//!
//! Who notes begins with the snapshot that it reads (both in one step): what is noted from then on is what that snapshot does not have.

use crate::api::Outcome;
use crate::database::{FormulaDatabase, table_of};
use rubato_base::{Key, TableId};
use std::collections::BTreeSet;

/// What a noted key costs beside its own bytes, about.
const NOTED_BYTES: usize = size_of::<Key>() + 16;

/// The keys of a table's rows that commits have changed since somebody began to note them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotedChanges(BTreeSet<Key>);

impl NotedChanges {
    pub(crate) fn note(&mut self, key: &Key, memory_bytes: &mut usize) {
        if !self.0.contains(key) {
            *memory_bytes += noted_bytes(key);
            self.0.insert(key.clone());
        }
    }

    /// What the noted keys cost.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(noted_bytes).sum()
    }
}

fn noted_bytes(key: &Key) -> usize {
    NOTED_BYTES + key.heap_bytes()
}

impl FormulaDatabase {
    /// From now on the keys of rows that commits change in this table are noted. They count as memory. One at a time may note the
    /// changes of a table.
    pub fn note_changes(&mut self, table: TableId) -> Outcome<()> {
        let held = table_of(&mut self.tables, table)?;
        held.noted.get_or_insert_default();
        Ok(())
    }

    /// How many keys are noted.
    pub fn noted_changes(&self, table: TableId) -> usize {
        let held = self.tables.get(table);
        held.and_then(|held| held.noted.as_ref())
            .map_or(0, |noted| noted.0.len())
    }

    /// The keys that were noted, in order. Noting goes on, with none.
    pub fn take_noted(&mut self, table: TableId) -> Vec<Key> {
        let held = self.tables.get_mut(table);
        let Some(noted) = held.and_then(|held| held.noted.as_mut()) else {
            return Vec::new();
        };
        self.memory_bytes = self.memory_bytes.saturating_sub(noted.bytes());
        std::mem::take(&mut noted.0).into_iter().collect()
    }

    /// Nobody needs to know any more.
    pub fn stop_noting(&mut self, table: TableId) {
        self.take_noted(table);
        if let Ok(held) = table_of(&mut self.tables, table) {
            held.noted = None;
        }
    }
}
