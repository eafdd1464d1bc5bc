//! Storage that only one transaction knows, in which rows are laid without being pending first.
//!
//! Private storage is read by nobody else before its transaction has committed, so that its rows need no places and no intents:
//! they are there as soon as they are laid. The log does not have them. Of two ways that make them outlive a crash, the caller
//! takes one:
//! - They stay in memory until the transaction has committed, and the commit says what they were made of: recovery makes them again.
//! - They are *laid down*: they go to the store while they are laid, may leave memory, and are forced before the commit. However
//!   many they are, they take no more memory than others do. A transaction that does not commit leaves rows in the store under a
//!   number that no catalog has; whoever owns the store drops them.

use crate::api::RowSource;
use crate::api::{Outcome, Stop};
use crate::database::{FormulaDatabase, table_of};
use crate::item::Item;
use crate::table::{Slot, Table, item_bytes, row_bytes};
use rubato_base::{Error, Key, Result, Row, TableId, Timestamp, TransactionId};
use std::collections::VecDeque;

/// Rows that are laid down together, ...
const LAID_DOWN_ROWS: usize = 2048;
/// ... or sooner if there is a row for each so many bytes of the memory: they take about one part in sixteen of it then, ...
const MEMORY_BYTES_PER_ROW: usize = 4096;
/// ... or if they take that part of it because they are large. They cannot leave before they are given: where the bound was the number
/// alone, large rows filled the memory, and who laid them was held back for the memory that he did not come to give.
const LAID_DOWN_SHARE: usize = 16;
/// Where memory is full, less is given too, if it is one part in so many at least.
const WORTH_GIVING_SHARE: usize = 256;
/// Storage that has a row for each so many bytes of the memory is laid down instead of staying in memory, if the store takes rows, ...
const MEMORY_BYTES_PER_KEPT_ROW: usize = 2048;
/// ... and storage of which all that is kept so takes one part in so many of the memory. It is looked at when so much has come.
const KEPT_SHARE: usize = 16;
const KEPT_STEP_SHARE: usize = 256;

/// How the rows of private storage come there, and how they outlive a crash.
#[derive(Clone, Debug)]
pub(crate) enum Laying {
    /// Like others: pending, and in the log.
    None,
    /// They are laid, and in memory only: about so many are to be, and so many bytes of them have come.
    InMemory { rows: usize, bytes: usize },
    /// They are laid, and go to the store.
    Down(Down),
}

/// Where rows that are laid down have come. Until the store has them they are dirty, so that their slots do not move.
#[derive(Clone, Debug, Default)]
pub(crate) struct Down {
    /// Not given to the store yet, ...
    to_give: Vec<Slot>,
    /// ... and what that takes of memory.
    to_give_bytes: usize,
    /// Given: they are in the store when it has come so far.
    given: VecDeque<(u64, Vec<Slot>)>,
}

impl FormulaDatabase {
    /// Declares new, empty storage that only its creator knows.
    pub fn create_private_table(&mut self, table: TableId) {
        self.create_table(table);
        if let Ok(held) = table_of(&mut self.tables, table) {
            held.private = Some(Laying::None);
        }
    }

    /// Rows are to be laid in private storage that is empty, about one for each of `source`. They stay in memory if they are few together with
    /// those of other private storage (a new database has many), or the store takes none. Many are laid down from the first one on: to give the store all that had been kept until they were too many was one long step.
    pub fn lay_out(&mut self, table: TableId, source: TableId) {
        let rows = self.rows_in_memory(source).0;
        if rows + self.rows_to_keep() >= self.kept_rows_max() && self.lay_down(&[table]) {
            return;
        }
        if let Ok(held) = table_of(&mut self.tables, table)
            && held.private.is_some()
            && held.len() == 0
        {
            held.private = Some(Laying::InMemory { rows, bytes: 0 });
        }
    }

    /// Whether rows can be laid down: the store takes rows of transactions that have not committed.
    pub fn takes_rows(&self) -> bool {
        self.source.takes_rows()
    }

    /// How many rows of private storage are to stay in memory as it is.
    fn rows_to_keep(&self) -> usize {
        let rows = |(_, held): (_, &Table)| match held.private {
            Some(Laying::InMemory { rows, .. }) => rows,
            _ => 0,
        };
        self.tables.iter().map(rows).sum()
    }

    /// What rows of private storage take that have come to stay in memory as it is, in bytes.
    fn kept_bytes(&self) -> usize {
        let bytes = |(_, held): (_, &Table)| match held.private {
            Some(Laying::InMemory { bytes, .. }) => bytes,
            _ => 0,
        };
        self.tables.iter().map(bytes).sum()
    }

    /// As many rows of private storage stay in memory.
    fn kept_rows_max(&self) -> usize {
        self.memory_bytes_max / MEMORY_BYTES_PER_KEPT_ROW
    }

    /// Whether rows may be laid in the storage: it is known to its creator only, and not written to like others.
    pub fn is_laid_out(&self, table: TableId) -> bool {
        matches!(self.laying(table), Some(Laying::InMemory { .. } | Laying::Down(_)))
    }

    /// Whether the rows of private storage go to the store.
    pub fn is_laid_down(&self, table: TableId) -> bool {
        matches!(self.laying(table), Some(Laying::Down(_)))
    }

    /// The storage that is known to its creators only.
    pub fn private_tables(&self) -> impl Iterator<Item = TableId> + '_ {
        let mut tables = self.tables.iter();
        std::iter::from_fn(move || tables.find(|(_, table)| table.private.is_some()).map(|(id, _)| id))
    }

    /// Rows are to be laid in private storage, and to go to the store from the first one on; false, and nothing has changed, if the
    /// store takes none, or rows have come there in another way.
    pub fn lay_down(&mut self, tables: &[TableId]) -> bool {
        let may_be = |table: &TableId| {
            let is_empty = || self.tables.get(*table).is_some_and(|held| held.len() == 0);
            self.is_laid_down(*table) || (self.laying(*table).is_some() && is_empty())
        };
        if !self.source.takes_rows() || !tables.iter().all(may_be) {
            return false;
        }
        for table in tables {
            if let Ok(held) = table_of(&mut self.tables, *table)
                && !matches!(held.private, Some(Laying::Down(_)))
            {
                held.private = Some(Laying::Down(Down::default()));
            }
        }
        true
    }

    /// The creator of private storage has committed: others find it, and the next checkpoint stores what of its rows is not in the
    /// store.
    pub fn publish_table(&mut self, table: TableId) {
        self.publish_table_above(table, self.last_cts);
    }

    /// As [`FormulaDatabase::publish_table`] of a creator that this node may not have heard the place of: whoever knows of the storage has begun
    /// above `bound`.
    pub fn publish_table_above(&mut self, table: TableId, bound: Timestamp) {
        if let Ok(held) = table_of(&mut self.tables, table) {
            (held.private, held.made_at) = (None, held.made_at.max(bound));
            self.last_made_at = self.last_made_at.max(bound);
        }
    }

    /// Puts a row into private storage; false if the key is taken. Nothing undoes it but dropping the storage.
    pub fn lay_row(&mut self, transaction: TransactionId, table: TableId, key: Key, row: Row) -> Outcome<bool> {
        let ts = self.active(transaction)?.ts;
        let held = table_of(&mut self.tables, table)?;
        if !matches!(held.private, Some(Laying::InMemory { .. } | Laying::Down(_))) {
            let message = "rows are laid out in storage that others may read";
            return Err(Stop::Fail(Error::internal(message)));
        }
        let place = held.find(key.as_bytes());
        if held.holds_row(table, (place, key.as_bytes()), &*self.source)? {
            return Ok(false);
        }
        let slot = held.put_laid(place, key, row, (ts, &mut self.memory_bytes));
        let added = item_bytes(held.item(slot));
        match &mut held.private {
            Some(Laying::Down(down)) => {
                down.to_give.push(slot);
                down.to_give_bytes += added;
            }
            Some(Laying::InMemory { bytes, .. }) => *bytes += added,
            _ => {}
        }
        self.put_laid_if_many(table, added)?;
        Ok(true)
    }

    /// Whether private storage has a row, one that was laid or one that is pending.
    pub fn is_laid(&mut self, table: TableId, key: &[u8]) -> Outcome<bool> {
        let held = table_of(&mut self.tables, table)?;
        let place = held.find(key);
        Ok(held.holds_row(table, (place, key), &*self.source)?)
    }

    /// Puts another row into private storage in place of the one of this key, if there is one, or takes it out. Only as long as nothing of the storage is on its way
    /// to the store: false otherwise, and nothing has changed. Nothing undoes it but dropping the storage.
    pub fn lay_again(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: Key,
        row: Option<Row>,
    ) -> Outcome<bool> {
        let ts = self.active(transaction)?.ts;
        let held = table_of(&mut self.tables, table)?;
        if !matches!(held.private, Some(Laying::InMemory { .. })) {
            return Ok(false);
        }
        held.take_laid(&key, &mut self.memory_bytes);
        if let Some(row) = row {
            held.put_laid(None, key, row, (ts, &mut self.memory_bytes));
        }
        Ok(true)
    }

    /// Gives the store what was laid, if it is much now that so many bytes have come.
    fn put_laid_if_many(&mut self, table: TableId, added: usize) -> Outcome<()> {
        let rows_max = LAID_DOWN_ROWS.min(self.memory_bytes_max / MEMORY_BYTES_PER_ROW);
        let bytes_max = self.memory_bytes_max / LAID_DOWN_SHARE;
        match self.laying(table) {
            Some(Laying::Down(down)) if down.to_give.len() >= rows_max || down.to_give_bytes >= bytes_max => {
                self.give_laid(table)
            }
            Some(Laying::InMemory { bytes, .. }) if self.keeps_too_much(table, (*bytes, added)) => {
                let held = table_of(&mut self.tables, table)?;
                let to_give = held.keys().map(|(_, slot)| *slot).collect();
                held.private = Some(Laying::Down(Down {
                    to_give,
                    ..Down::default()
                }));
                self.give_laid(table)
            }
            _ => Ok(()),
        }
    }

    /// Whether private storage that is kept in memory, and the others with it, has too much for that by now, and the store takes it.
    fn keeps_too_much(&self, table: TableId, (bytes, added): (usize, usize)) -> bool {
        let step = (self.memory_bytes_max / KEPT_STEP_SHARE).max(1);
        let has_come_far = bytes / step > bytes.saturating_sub(added) / step;
        let is_large = || has_come_far && self.kept_bytes() >= self.memory_bytes_max / KEPT_SHARE;
        let has_many = self.rows_in_memory(table).0 >= self.kept_rows_max();
        (has_many || is_large()) && self.source.takes_rows()
    }

    /// Above the numbers of storage in which rows were laid down in vain: the store may have them until it drops them.
    pub fn laid_in_vain_end(&self) -> u32 {
        self.laid_in_vain.last().map_or(0, |table| table.0 + 1)
    }

    /// Whether rows were laid down in the storage in vain: no catalog ever had it.
    pub fn is_laid_in_vain(&self, table: TableId) -> bool {
        self.laid_in_vain.contains(&table)
    }

    /// All rows of private storage are laid. Whether they are in the store, durably, so that nobody has to make them again.
    pub fn finish_laying(&mut self, tables: &[TableId]) -> Outcome<bool> {
        let down: Vec<TableId> = tables.iter().copied().filter(|id| self.is_laid_down(*id)).collect();
        for table in &down {
            self.give_laid(*table)?;
        }
        if !down.is_empty() {
            self.source.make_durable(&down)?;
        }
        for table in &down {
            self.note_laid(*table)?;
        }
        Ok(!tables.is_empty() && down.len() == tables.len())
    }

    fn laying(&self, table: TableId) -> Option<&Laying> {
        let held = self.tables.get(table)?;
        held.private.as_ref()
    }

    /// Gives the store the rows that it is to have, and notes which of those given before it has.
    fn give_laid(&mut self, table: TableId) -> Outcome<()> {
        let held = table_of(&mut self.tables, table)?;
        let Some(Laying::Down(down)) = &mut held.private else {
            return Ok(());
        };
        let slots = std::mem::take(&mut down.to_give);
        down.to_give_bytes = 0;
        let mut given = Vec::new();
        for some in slots.chunks(LAID_DOWN_ROWS) {
            let items = some.iter().map(|slot| held.item(*slot));
            let mut rows = items.filter_map(|item| Some((&item.key, item.cts, item.row.as_ref()?)));
            given.push((self.source.lay_down(table, &mut rows)?, some.to_vec()));
        }
        if let Some(Laying::Down(down)) = &mut held.private {
            down.given.extend(given);
        }
        self.note_laid(table)
    }

    /// Memory is full: the store gets what there is for it, and what it has may leave memory, of all storage. Whoever lays may itself be
    /// waiting for memory.
    pub(crate) fn give_and_note_all_laid(&mut self) {
        let worth = (self.memory_bytes_max / WORTH_GIVING_SHARE).max(1);
        let is_ready = |down: &Down| down.to_give_bytes >= worth || !down.given.is_empty();
        let is_going = |table: &TableId| matches!(self.laying(*table), Some(Laying::Down(down)) if is_ready(down));
        let going: Vec<TableId> = self.private_tables().filter(is_going).collect();
        for table in going {
            // The storage is there, and what the store does not take is told to whoever lays, when all is to be durable at the latest.
            let _ = match self.laying(table) {
                Some(Laying::Down(down)) if down.to_give_bytes >= worth => self.give_laid(table),
                _ => self.note_laid(table),
            };
        }
    }

    /// What the store has may leave memory.
    fn note_laid(&mut self, table: TableId) -> Outcome<()> {
        let held = table_of(&mut self.tables, table)?;
        let laid_down = self.source.laid_down();
        loop {
            let Some(Laying::Down(down)) = &mut held.private else {
                return Ok(());
            };
            if down.given.front().is_none_or(|(place, _)| *place > laid_down) {
                return Ok(());
            }
            let slots = down.given.pop_front().map(|(_, slots)| slots).unwrap_or_default();
            for slot in slots {
                held.dirty -= usize::from(std::mem::take(&mut held.item_mut(slot).dirty));
            }
        }
    }
}

impl Table {
    /// Whether rows of it may be in the store, and nobody but its creator knows it.
    pub(crate) fn is_laid_down(&self) -> bool {
        matches!(self.private, Some(Laying::Down(_)))
    }

    /// Whether there is a row of this key, whose item is at `place` if it has one. Its creator may have looked for the key: then there is an
    /// item without a row.
    fn holds_row(&self, id: TableId, (place, key): (Option<Slot>, &[u8]), source: &dyn RowSource) -> Result<bool> {
        match place {
            Some(slot) => {
                let item = self.item(slot);
                Ok(item.row.is_some() || item.hot.is_some() || !item.versions.is_empty())
            }
            None => self.is_stored(id, key, source),
        }
    }

    /// Lays a row where there is none, below every place that a transaction with this snapshot may take.
    fn put_laid(
        &mut self,
        place: Option<Slot>,
        key: Key,
        row: Row,
        (ts, memory_bytes): (Timestamp, &mut usize),
    ) -> Slot {
        let slot = place.unwrap_or_else(|| self.add(key, Item::default(), memory_bytes));
        let before = row_bytes(self.item(slot));
        let item = self.item_mut(slot);
        (item.row, item.cts) = (Some(row), Timestamp(ts.0.saturating_sub(1)));
        self.touched(slot, before, memory_bytes);
        self.last_cts = self.last_cts.max(ts);
        slot
    }

    /// Takes a laid row out that the store does not have.
    fn take_laid(&mut self, key: &Key, memory_bytes: &mut usize) {
        let Some(item) = self.remove(key) else { return };
        self.dirty -= usize::from(item.dirty);
        *memory_bytes = memory_bytes.saturating_sub(item_bytes(&item));
    }
}
