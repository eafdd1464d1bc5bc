//! The store behind: which rows have to go there, and which may leave memory.

use crate::api::{Change, Outcome, Stop};
use crate::database::{FormulaDatabase, table_of};
use crate::item::{Intent, Item};
use crate::live::LiveSnapshots;
use crate::table::{FlushFrom, Slot, Table, item_bytes, prune_counted};
use crate::transaction::{ReadRecord, WriteRecord};
use rubato_base::{Error, Key, Result, Row, SqlState, TableId, Timestamp, TransactionId};
use rubato_formula::{ColumnChange, Formula};
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
    /// Where it is in memory, most likely.
    pub(crate) slot: Option<Slot>,
}

impl DirtyRow {
    /// A row, wherever it is in memory.
    pub fn new(table: TableId, key: Key, cts: Timestamp, row: Option<Row>) -> DirtyRow {
        DirtyRow {
            table,
            key,
            cts,
            row,
            slot: None,
        }
    }
}

/// Items that one call of the evicting hand looks at: a pause of well under a millisecond.
const EVICTION_STEPS_MAX: usize = 8192;
/// Items of one table that the hand goes over at once.
const HAND_STEPS: usize = 1024;
/// Bytes of rows that one call of [`FormulaDatabase::load_some`] reads, about.
const LOAD_BYTES: usize = 1 << 20;
/// Items that one call of [`FormulaDatabase::take_dirty`] looks at, for the same reason.
const FLUSH_STEPS_MAX: usize = 1024;

/// The pending changes and reads of one transaction may take one part in so many of the memory.
pub const TRANSACTION_SHARE: usize = 2;
/// A transaction that takes more than one part in so many may not add to it ...
const CROWDING_SHARE: usize = 16;
/// ... when the pending changes of all leave less than one part in so many for rows.
const ROWS_SHARE: usize = 4;
/// A transaction may hold little more when it has all but one part in so many of what it may hold.
const NEARLY: usize = 4;
/// A pending change costs about this besides its content: its records in the transaction and on the item.
const PENDING_BYTES: usize = size_of::<WriteRecord>() + size_of::<Intent>() + size_of::<Change>() + 96;

/// A formula of a handful of small values takes about this.
const FORMULA_BYTES: usize = 128;

/// What a pending change costs in memory, about; `row` is the one that it changes, if that has committed.
pub(crate) fn pending_cost(key: &Key, change: &Change, row: Option<&Row>) -> usize {
    let content = match change {
        Change::Insert(row) | Change::Replace(row) => row.as_bytes().len(),
        Change::Update(formula) => FORMULA_BYTES.max(formula.heap_bytes() + evaluated_bytes(formula, row)),
        Change::Delete => 0,
    };
    PENDING_BYTES + 2 * key.heap_bytes() + content
}

/// What a formula computes when it commits is taken to be as large as what it takes the place of.
fn evaluated_bytes(formula: &Formula, row: Option<&Row>) -> usize {
    let evaluated = { formula.changes().iter() }.filter(|change| matches!(change.change, ColumnChange::Evaluate(_)));
    let former = |column: u16| row.map_or(0, |row| row.as_ref().encoded(usize::from(column)).len());
    evaluated.map(|change| former(change.column)).sum()
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
        (self.memory_bytes / self.items().max(1)).saturating_mul(self.dirty_rows())
    }

    fn items(&self) -> usize {
        let tables = self.tables.iter().map(|(_, table)| table);
        tables.map(|table| table.len() + table.deletions.len()).sum()
    }

    /// How much memory may be taken. The owner keeps to it by checkpoints and [`FormulaDatabase::evict`]; here it only bounds
    /// what a transaction may hold by itself (53200).
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_bytes_max = bytes;
    }

    /// Whether the transaction may hold `bytes` more.
    pub(crate) fn may_hold(&self, transaction: TransactionId, bytes: usize) -> Outcome<()> {
        let Some(t) = self.transactions.get(transaction) else {
            return Ok(());
        };
        let own = t.pending_bytes + t.reads.len() * size_of::<ReadRecord>() + bytes;
        let limit = self.memory_bytes_max;
        if own > limit / TRANSACTION_SHARE {
            let message = "the transaction's pending changes take too much memory";
            let detail = format!(
                "A transaction may hold {} bytes of pending changes.",
                limit / TRANSACTION_SHARE
            );
            return Err(Stop::Fail(out_of_memory(message, detail)));
        }
        if own > limit / CROWDING_SHARE && self.pending_bytes > limit - limit / ROWS_SHARE {
            let message = "memory is full of the pending changes of open transactions";
            return Err(Stop::Fail(out_of_memory(
                message,
                format!("All together take {} bytes.", self.pending_bytes),
            )));
        }
        Ok(())
    }

    /// How many bytes of pending changes one transaction may hold.
    pub fn pending_bytes_max(&self) -> usize {
        self.memory_bytes_max / TRANSACTION_SHARE
    }

    /// Whether a change of each row of the table is certainly more than one transaction may have pending.
    pub fn has_too_many_rows(&self, table: TableId) -> bool {
        let rows = self.rows_in_memory(table).0;
        rows.saturating_mul(PENDING_BYTES) > self.memory_bytes_max / TRANSACTION_SHARE
    }

    /// Whether the transaction may hold little more than its pending changes.
    pub fn is_nearly_full(&self, transaction: TransactionId) -> bool {
        let own = self.transactions.get(transaction).map_or(0, |t| t.pending_bytes);
        let limit = self.memory_bytes_max;
        let is_full_for_it = own > limit / TRANSACTION_SHARE / NEARLY * (NEARLY - 1);
        is_full_for_it || (own > limit / CROWDING_SHARE && self.pending_bytes > limit / NEARLY * (NEARLY - 2))
    }

    /// How many rows have changed since a checkpoint took them.
    pub fn dirty_rows(&self) -> usize {
        let stored = self
            .tables
            .iter()
            .map(|(_, table)| table)
            .filter(|table| table.private.is_none());
        stored.map(|table| table.dirty).sum()
    }

    /// A checkpoint begins: [`FormulaDatabase::take_dirty`] gives every row that is dirty now, and no row twice.
    pub fn begin_checkpoint(&mut self) {
        for (_, table) in self.tables.iter_mut() {
            table.flush_from =
                (table.dirty > 0 && table.private.is_none()).then_some(FlushFrom::Deletions(Bound::Unbounded));
        }
    }

    /// The storage that the checkpoint has yet to take rows of: tables of the catalogs, and what was dropped and is kept for those who began
    /// before.
    pub fn storage_to_flush(&self) -> impl Iterator<Item = TableId> {
        let flushing = self.tables.iter().filter(|(_, table)| table.flush_from.is_some());
        flushing.map(|(id, _)| id)
    }

    /// The checkpoint has failed: what is dirty stays so, and the next one begins anew.
    pub fn give_up_checkpoint(&mut self) {
        for (_, table) in self.tables.iter_mut() {
            table.flush_from = None;
        }
    }

    /// Whether the checkpoint has not looked everywhere yet.
    pub fn has_more_to_flush(&self) -> bool {
        self.tables.iter().any(|(_, table)| table.flush_from.is_some())
    }

    /// Takes at most `limit` rows of the checkpoint, in the order of tables and keys, and fewer (even none) after a bounded
    /// number of items: [`FormulaDatabase::has_more_to_flush`] says whether to go on. The log must be forced up to now before
    /// they are written, and [`FormulaDatabase::flushed`] called after; until then they stay in memory.
    pub fn take_dirty(&mut self, limit: usize) -> Vec<DirtyRow> {
        let mut rows = Vec::new();
        let mut steps = FLUSH_STEPS_MAX;
        for (id, table) in self.tables.iter_mut() {
            if rows.len() >= limit || steps == 0 {
                break;
            }
            if let Some(from) = table.flush_from.take() {
                table.flush_from = take_from(table, id, from, (limit, &mut steps), &mut rows);
            }
        }
        rows
    }

    /// The rows are in the store: unless they changed again they may leave memory.
    pub fn flushed(&mut self, rows: &[DirtyRow]) {
        self.fruitless_steps = 0;
        for row in rows {
            let Ok(table) = table_of(&mut self.tables, row.table) else {
                continue;
            };
            let is_there = |slot: &Slot| table.has(*slot, &row.key);
            // Looking for the keys took a seventh of a checkpoint's time, while the partition was held.
            let slot = row.slot.filter(is_there).or_else(|| table.find(row.key.as_bytes()));
            match slot {
                Some(slot) => table.item_mut(slot).flushing = false,
                None => table.deletions.flushed(row.key.as_bytes(), &mut self.memory_bytes),
            }
        }
    }

    /// The rows did not reach the store: they are dirty again.
    pub fn not_flushed(&mut self, rows: &[DirtyRow]) {
        for row in rows {
            let Ok(table) = table_of(&mut self.tables, row.table) else {
                continue;
            };
            if let Some(slot) = table.find(row.key.as_bytes()) {
                let item = table.item_mut(slot);
                item.flushing = false;
                if !std::mem::replace(&mut item.dirty, true) {
                    table.dirty += 1;
                }
            } else if table.deletions.not_flushed(row.key.as_bytes()) {
                table.dirty += 1;
            }
        }
    }

    /// Reads at most `limit` rows of the store into memory, of tables that are not wholly there (after a restart), as long as
    /// less than `target_bytes` are held. A table that has been read to its end without one of its rows having left again is
    /// scanned in memory from then on. Returns whether there is more to read.
    pub fn load_some(&mut self, limit: usize, target_bytes: usize) -> Result<bool> {
        if self.memory_bytes() >= target_bytes {
            return Ok(false);
        }
        let mut tables = self.tables.iter_mut();
        let Some((id, table)) = tables.find(|(_, table)| table.load_from.is_some()) else {
            return Ok(false);
        };
        let from = table.load_from.clone().unwrap_or(Bound::Unbounded);
        let from = from.as_ref().map(Key::as_bytes);
        let source = &self.source;
        let (rows, may_be_more) = source.scan_some(id, from, Bound::Unbounded, false, (limit, LOAD_BYTES))?;
        let last = { rows.last().filter(|_| may_be_more) }.map(|row| row.0.clone());
        table.complete = last.is_none();
        table.load_from = last.map(Bound::Excluded);
        for (key, stored) in rows {
            if table.find(key.as_bytes()).is_none() && !table.deletions.hides(key.as_bytes()) {
                table.add_stored(key.as_bytes(), Some(stored), &mut self.memory_bytes);
            }
        }
        Ok(true)
    }

    /// Lets rows leave memory until at most `target_bytes` are held or a bounded number of items was looked at. Only rows that
    /// are in the store, that nobody is about to write and whose older versions nobody needs may leave; those used since the
    /// hand last passed get another round. Returns whether the target was reached.
    pub fn evict(&mut self, target_bytes: usize) -> bool {
        self.give_and_note_all_laid();
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

    /// Whether the hand went over everything, rows with a second chance included, and found nothing that may leave.
    pub fn nothing_may_leave(&self) -> bool {
        self.fruitless_steps >= 2 * self.items()
    }

    /// Moves the hand over one table; true when it reached its end.
    fn evict_from(&mut self, index: usize, target_bytes: usize, steps: &mut usize) -> bool {
        let oldest = self.live.oldest().unwrap_or(Timestamp::MAX);
        let Some(table) = self.tables.nth_mut(index) else {
            return true;
        };
        let from = table.hand.take().map_or(Bound::Unbounded, Bound::Excluded);
        let limit = (*steps).min(HAND_STEPS);
        let (mut seen, mut leaving, mut left) = (0, Vec::new(), self.memory_bytes);
        // No snapshot but its creator's finds private storage.
        let oldest = if table.private.is_some() {
            Timestamp::MAX
        } else {
            oldest
        };
        let (map, mut items) = table.map_and_items();
        let mut last = None;
        for (key, slot) in map.range((from, Bound::Unbounded)).take(limit) {
            let item = items.get(*slot);
            (seen, last) = (seen + 1, Some(key));
            if may_leave(item, oldest, &self.live, &mut self.memory_bytes) {
                left = left.saturating_sub(item_bytes(item));
                leaving.push(key.clone());
                if left <= target_bytes {
                    break;
                }
            }
        }
        let end = seen < limit && left > target_bytes;
        table.hand = if end { None } else { last.cloned() };
        *steps -= seen.max(1).min(*steps);
        self.fruitless_steps = if leaving.is_empty() {
            self.fruitless_steps + seen
        } else {
            0
        };
        self.statistics.evictions += leaving.len() as u64;
        for key in &leaving {
            table.evict(key, &mut self.memory_bytes);
        }
        end
    }
}

/// Takes dirty rows of one table up to the limit of rows and of steps; returns where to go on, if there is more.
fn take_from(
    table: &mut Table,
    id: TableId,
    from: FlushFrom,
    (limit, steps): (usize, &mut usize),
    rows: &mut Vec<DirtyRow>,
) -> Option<FlushFrom> {
    let from = match from {
        FlushFrom::Items(from) => from,
        FlushFrom::Deletions(from) => {
            let (rest, taken) = table.deletions.take_dirty(id, from, (limit, steps), rows);
            table.dirty -= taken;
            if let Some(rest) = rest {
                return Some(FlushFrom::Deletions(rest));
            }
            Bound::Unbounded
        }
    };
    let mut taken = 0;
    let (map, mut items) = table.map_and_items();
    let mut stopped = None;
    for (key, slot) in map.range((from, Bound::Unbounded)) {
        if *steps == 0 || rows.len() >= limit {
            stopped = Some(FlushFrom::Items(Bound::Included(key.clone())));
            break;
        }
        *steps -= 1;
        let item = items.get(*slot);
        if std::mem::take(&mut item.dirty) {
            item.flushing = true;
            taken += 1;
            rows.push(DirtyRow {
                table: id,
                cts: item.cts,
                row: item.row.clone(),
                key: key.clone(),
                slot: Some(*slot),
            });
        }
    }
    table.dirty -= taken;
    stopped
}

fn may_leave(item: &mut Item, oldest: Timestamp, live: &LiveSnapshots, memory_bytes: &mut usize) -> bool {
    if item.dirty || item.flushing || item.cts > oldest {
        return false;
    }
    prune_counted(item, live, memory_bytes);
    // Below its oldest snapshot nobody asks whether it was there before.
    item.versions.is_empty() && item.hot.is_none() && !std::mem::replace(&mut item.referenced, false)
}

/// 53200.
pub(crate) fn out_of_memory(message: &str, detail: String) -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, message)
        .with_detail(detail)
        .with_hint("Do the work in several smaller transactions, or give the database more memory with --memory.")
}
