//! The store behind: which rows have to go there, and which may leave memory.

use crate::api::{Change, Outcome, Stop};
use crate::database::{FormulaDatabase, table_of};
use crate::item::Intent;
use crate::table::{Table, row_bytes};
use crate::transaction::{ReadRecord, WriteRecord};
use rubato_base::{Error, Key, Row, SqlState, TableId, Timestamp, TransactionId};
use std::ops::Bound;

/// A committed row as a checkpoint takes it: the newest version, whatever older snapshots still need in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct DirtyRow {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// The commit timestamp of its last change.
    pub cts: Timestamp,
    /// The row; `None` if it was deleted.
    pub row: Option<Row>,
}

/// Items that one call of the evicting hand looks at: a pause of well under a millisecond.
const EVICTION_STEPS_MAX: usize = 4096;

/// The pending changes and reads of one transaction may take one part in so many of the memory.
pub const TRANSACTION_SHARE: usize = 2;
/// A transaction that takes more than one part in so many may not add to it ...
const CROWDING_SHARE: usize = 16;
/// ... when the pending changes of all leave less than one part in so many for rows.
const ROWS_SHARE: usize = 4;
/// A pending change costs about this besides its content: its records in the transaction and on the item.
const PENDING_BYTES: usize = size_of::<WriteRecord>() + size_of::<Intent>() + size_of::<Change>() + 96;

/// What a pending change costs in memory, about.
pub(crate) fn pending_cost(key: &Key, change: &Change) -> usize {
    let content = match change {
        Change::Insert(row) | Change::Replace(row) => row.as_bytes().len(),
        // A formula is a handful of small values.
        Change::Update(_) => 128,
        Change::Delete => 0,
    };
    PENDING_BYTES + 2 * key.heap_bytes() + content
}

impl FormulaDatabase {
    /// What items in memory and the pending changes of open transactions cost, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes + self.pending_bytes
    }

    /// What of [`FormulaDatabase::memory_bytes`] are pending changes: it leaves memory when their transactions end.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// About how much of memory cannot leave before a checkpoint has stored it.
    pub fn dirty_bytes(&self) -> usize {
        let items: usize = self.tables.iter().flatten().map(|table| table.map.len()).sum();
        (self.memory_bytes / items.max(1)).saturating_mul(self.dirty_rows())
    }

    /// How much memory may be taken. The owner keeps to it by checkpoints and [`FormulaDatabase::evict`]; here it only bounds
    /// what a transaction may hold by itself (53200).
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_bytes_max = bytes;
    }

    /// Whether the transaction may hold `bytes` more.
    pub(crate) fn may_hold(&self, transaction: TransactionId, bytes: usize) -> Outcome<()> {
        let Some(t) = self.transactions.get(transaction) else { return Ok(()) };
        let own = t.pending_bytes + t.reads.len() * size_of::<ReadRecord>() + bytes;
        let limit = self.memory_bytes_max;
        if own > limit / TRANSACTION_SHARE {
            let message = "the transaction's pending changes take too much memory";
            let detail = format!("A transaction may hold {} bytes of pending changes.", limit / TRANSACTION_SHARE);
            return Err(Stop::Fail(out_of_memory(message, detail)));
        }
        if own > limit / CROWDING_SHARE && self.pending_bytes > limit - limit / ROWS_SHARE {
            let message = "memory is full of the pending changes of open transactions";
            return Err(Stop::Fail(out_of_memory(message, format!("All together take {} bytes.", self.pending_bytes))));
        }
        Ok(())
    }

    /// How many rows have changed since a checkpoint took them.
    pub fn dirty_rows(&self) -> usize {
        self.tables.iter().flatten().map(|table| table.dirty.len() + table.to_flush.len()).sum()
    }

    /// A checkpoint begins: [`FormulaDatabase::take_dirty`] gives every row that is dirty now, and no row twice.
    pub fn begin_checkpoint(&mut self) {
        for table in self.tables.iter_mut().flatten() {
            table.to_flush.append(&mut table.dirty);
        }
    }

    /// Takes at most `limit` rows of the checkpoint. The log must be forced up to now before they are written, and
    /// [`FormulaDatabase::flushed`] called after; until then they stay in memory.
    pub fn take_dirty(&mut self, limit: usize) -> Vec<DirtyRow> {
        let mut rows = Vec::new();
        for (index, table) in self.tables.iter_mut().enumerate() {
            let Some(table) = table else { continue };
            while rows.len() < limit
                && let Some(key) = table.to_flush.pop()
            {
                rows.extend(take(table, TableId(index as u32), key));
            }
        }
        rows
    }

    /// The rows are in the store: unless they changed again they may leave memory.
    pub fn flushed(&mut self, rows: &[DirtyRow]) {
        for row in rows {
            let Ok(table) = table_of(&mut self.tables, row.table) else { continue };
            if let Some(slot) = table.find(row.key.as_bytes()) {
                table.item_mut(slot).flushing = false;
            }
        }
    }

    /// The rows did not reach the store: they are dirty again.
    pub fn not_flushed(&mut self, rows: &[DirtyRow]) {
        for row in rows {
            let Ok(table) = table_of(&mut self.tables, row.table) else { continue };
            if let Some(slot) = table.find(row.key.as_bytes()) {
                let item = table.item_mut(slot);
                item.flushing = false;
                if !std::mem::replace(&mut item.dirty, true) {
                    table.dirty.push(row.key.clone());
                }
            }
        }
    }

    /// Lets rows leave memory until at most `target_bytes` are held or a bounded number of items was looked at. Only rows that
    /// are in the store, that nobody is about to write and whose older versions nobody needs may leave; those used since the
    /// hand last passed get another round. Returns whether the target was reached.
    pub fn evict(&mut self, target_bytes: usize) -> bool {
        let target_bytes = target_bytes.saturating_sub(self.pending_bytes);
        let mut steps = EVICTION_STEPS_MAX;
        let mut tables_left = self.tables.len() * 2;
        while self.memory_bytes > target_bytes && steps > 0 && tables_left > 0 {
            tables_left -= 1;
            if self.hand_table >= self.tables.len() {
                self.hand_table = 0;
            }
            if self.evict_from(self.hand_table, target_bytes, &mut steps) {
                self.hand_table += 1;
            }
        }
        self.memory_bytes <= target_bytes
    }

    /// Moves the hand over one table; true when it reached its end.
    fn evict_from(&mut self, index: usize, target_bytes: usize, steps: &mut usize) -> bool {
        let oldest = self.live.oldest().unwrap_or(Timestamp::MAX);
        let Some(table) = self.tables[index].as_mut() else { return true };
        let from = table.hand.take().map_or(Bound::Unbounded, Bound::Excluded);
        let keys: Vec<Key> =
            table.map.range((from, Bound::Unbounded)).take((*steps).min(512)).map(|entry| entry.0.clone()).collect();
        *steps -= keys.len().max(1);
        let end = keys.len() < 512;
        for key in &keys {
            if self.memory_bytes <= target_bytes {
                break;
            }
            if may_leave(table, key, oldest, &self.live, &mut self.memory_bytes) {
                table.evict(key, &mut self.memory_bytes);
                self.statistics.evictions += 1;
            }
        }
        table.hand = if end { None } else { keys.last().cloned() };
        end
    }
}

fn take(table: &mut Table, id: TableId, key: Key) -> Option<DirtyRow> {
    let slot = table.find(key.as_bytes())?;
    let item = table.item_mut(slot);
    item.dirty = false;
    item.flushing = true;
    Some(DirtyRow { table: id, cts: item.cts, row: item.row.clone(), key })
}

fn may_leave(
    table: &mut Table,
    key: &Key,
    oldest: Timestamp,
    live: &crate::live::LiveSnapshots,
    memory_bytes: &mut usize,
) -> bool {
    let Some(slot) = table.find(key.as_bytes()) else { return false };
    let item = table.item_mut(slot);
    if item.dirty || item.flushing || item.cts > oldest {
        return false;
    }
    if item.hot.is_some() {
        let before = row_bytes(item);
        item.prune(live);
        *memory_bytes = (*memory_bytes + row_bytes(item)).saturating_sub(before);
    }
    item.hot.is_none() && !std::mem::replace(&mut item.referenced, false)
}

fn out_of_memory(message: &str, detail: String) -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, message)
        .with_detail(detail)
        .with_hint("Do the work in several smaller transactions, or give the database more memory with --memory.")
}
