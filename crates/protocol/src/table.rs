//! The items of one table (or index) that are in memory.

use crate::api::{KeyRange, RowSource, StoredRow};
pub(crate) use crate::chunks::Slot;
use crate::chunks::{Chunks, SegmentState};
use crate::exact::ExactKeys;
use crate::gone::Deletions;
use crate::hollow::Hollows;
use crate::item::{Item, ReadMarks};
use crate::laying::Laying;
use crate::live::LiveSnapshots;
use crate::noting::NotedChanges;
use crate::rules::{Rule, is_kept};
use crate::tail::Tail;
use crate::undecided::{Folded, Retained};
use rubato_base::{Key, Lsn, Result, Row, TableId, Timestamp};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

/// Range marks kept apart before the oldest is merged into the table's own mark: an insert compares its key with each.
const RANGE_MARKS_MAX: usize = 8;
/// What an item costs beside its row: the item, its key among the ordered ones, their own share and that of the exact ones.
const ITEM_BYTES: usize = size_of::<Item>() + size_of::<Key>() + 40;
/// What a committed formula costs that is not folded yet, about: some values.
const RETAINED_BYTES: usize = 128;
/// What an allocation costs beside its content.
const ALLOCATION_BYTES: usize = 16;

/// Where a checkpoint stands in a table: it takes the deletions first, since an item that comes to be where there was one has
/// to be found later, not before.
#[derive(Clone, Debug)]
pub(crate) enum FlushFrom {
    Deletions(Bound<Key>),
    Items(Bound<Key>),
}

/// Rows at each end of a table that say how large its rows are.
const SAMPLED_ROWS: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// All keys in order, for scans.
    map: BTreeMap<Key, Slot>,
    /// The same keys, for look-ups.
    exact: ExactKeys,
    chunks: Chunks,
    /// Whether every row of the table is in memory, so that what is not there does not exist.
    pub(crate) complete: bool,
    /// No row above this key is in the store alone; `None` if that is not known. Rows that are added in the order of their keys,
    /// as most are, need not be looked for then.
    stored_up_to: Option<Key>,
    /// Where the store has nothing that counts.
    pub(crate) hollows: Hollows,
    /// What rows have in columns that they lack.
    pub(crate) tail: Tail,
    /// Set while only its creator knows it, see `laying`.
    pub(crate) private: Option<Laying>,
    /// No snapshot below this finds its rows (rule R-7).
    pub(crate) made_at: Timestamp,
    /// Set while somebody wants to know which rows commits change, see `noting`.
    pub(crate) noted: Option<NotedChanges>,
    /// No row that is not in memory was read above this timestamp.
    pub(crate) low_water: Timestamp,
    pub(crate) range_marks: Vec<(KeyRange, Timestamp)>,
    /// No range that is not among `range_marks` was read above this timestamp.
    pub(crate) range_low_water: Timestamp,
    /// Reads of all rows at once.
    pub(crate) all_read: ReadMarks,
    /// Rows that have left memory for the store.
    pub(crate) departures: u64,
    /// How many items and deletions are dirty.
    pub(crate) dirty: usize,
    /// Deletions that the store does not know yet, of rows that are no items any more.
    pub(crate) deletions: Deletions,
    /// Where the checkpoint under way goes on to look for dirty items; `None` if it is done with this table.
    pub(crate) flush_from: Option<FlushFrom>,
    /// Where reading the table into memory goes on (see [`crate::FormulaDatabase::load_some`]); `None` if it is not under way.
    pub(crate) load_from: Option<Bound<Key>>,
    /// The key behind which the evicting hand goes on.
    pub(crate) hand: Option<Key>,
    /// The largest commit timestamp of any change here: a range read at or above it is still good.
    pub(crate) last_cts: Timestamp,
}

impl Table {
    pub(crate) fn new(complete: bool, low_water: Timestamp) -> Table {
        Table {
            map: BTreeMap::new(),
            exact: ExactKeys::default(),
            chunks: Chunks::default(),
            complete,
            stored_up_to: None,
            hollows: Hollows::default(),
            tail: Tail::default(),
            private: None,
            made_at: Timestamp::ZERO,
            noted: None,
            low_water,
            range_marks: Vec::new(),
            range_low_water: low_water,
            all_read: ReadMarks::default(),
            departures: 0,
            dirty: 0,
            deletions: Deletions::default(),
            flush_from: None,
            load_from: (!complete).then_some(Bound::Unbounded),
            hand: None,
            last_cts: Timestamp::ZERO,
        }
    }

    /// The table's rows are in `source`: notes the last of them.
    pub(crate) fn note_stored(&mut self, id: TableId, source: &dyn RowSource) {
        self.hollows.clear();
        // Where the store cannot be read, whoever asks for a row is told so.
        if let Ok(last) = source.scan(id, Bound::Unbounded, Bound::Unbounded, true, 1) {
            self.stored_up_to = last.into_iter().next().map(|row| row.0);
            if self.stored_up_to.is_none() {
                (self.complete, self.load_from) = (true, None);
            }
        }
    }

    /// Whether a row that is not in memory may be in the store.
    fn may_be_stored(&self, key: &[u8]) -> bool {
        !self.complete
            && !self.deletions.hides(key)
            && self.stored_up_to.as_ref().is_none_or(|last| key <= last.as_bytes())
    }

    pub(crate) fn item(&self, slot: Slot) -> &Item {
        self.chunks.get(slot)
    }

    /// The item that had the slot at that generation, if it still has it.
    pub(crate) fn item_at(&self, slot: Slot, generation: u32) -> Option<&Item> {
        self.chunks.at(slot, generation)
    }

    pub(crate) fn item_mut(&mut self, slot: Slot) -> &mut Item {
        self.chunks.get_mut(slot)
    }

    /// An item, and what its row may lack.
    pub(crate) fn item_and_tail(&mut self, slot: Slot) -> (&mut Item, &Tail) {
        (self.chunks.get_mut(slot), &self.tail)
    }

    /// Gives the table another tail: whoever has kept rows in a form of its own has to read them again.
    pub(crate) fn set_tail(&mut self, tail: Tail) {
        if self.tail != tail {
            self.tail = tail;
            self.chunks.note_all_changed();
        }
    }

    /// Whatever has the slot now, if the slot is in memory.
    pub(crate) fn peek(&self, slot: Slot) -> Option<&Item> {
        self.chunks.peek(slot)
    }

    /// The same, to change it.
    pub(crate) fn peek_mut(&mut self, slot: Slot) -> Option<&mut Item> {
        self.chunks.peek_mut(slot)
    }

    /// Whether the item of `key` has the slot.
    pub(crate) fn has(&self, slot: Slot, key: &Key) -> bool {
        self.chunks.peek(slot).is_some_and(|item| item.key == *key)
    }

    /// Splits the borrow: the ordered keys, and access to the items by slot.
    pub(crate) fn map_and_items(&mut self) -> (&BTreeMap<Key, Slot>, Items<'_>) {
        let items = Items {
            chunks: &mut self.chunks,
            tail: &self.tail,
        };
        (&self.map, items)
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<Slot> {
        self.exact.find(key, |slot| self.item(slot).key.as_bytes() == key)
    }

    /// Whether a key that is not in memory has a row in the store.
    pub(crate) fn is_stored(&self, id: TableId, key: &[u8], source: &dyn RowSource) -> Result<bool> {
        Ok(self.may_be_stored(key) && source.get(id, key)?.is_some())
    }

    /// The slot of `key`, from memory or the store; a key without a row gets an empty item, which carries its read marks.
    pub(crate) fn find_or_load(
        &mut self,
        id: TableId,
        key: &[u8],
        source: &dyn RowSource,
        memory_bytes: &mut usize,
    ) -> Result<Slot> {
        if let Some(slot) = self.find(key) {
            return Ok(slot);
        }
        let stored = if self.may_be_stored(key) {
            source.get(id, key)?
        } else {
            None
        };
        Ok(self.add_stored(key, stored, memory_bytes))
    }

    /// Adds an item whose key is not in memory, as the store has it.
    pub(crate) fn add_stored(&mut self, key: &[u8], stored: Option<StoredRow>, memory_bytes: &mut usize) -> Slot {
        // The table's own low-water mark counts for every item; only a range mark above it must be carried by this one.
        let range_floor = self.range_floor(key);
        let marks = if range_floor > self.low_water {
            ReadMarks::all_at(range_floor)
        } else {
            ReadMarks::default()
        };
        let mut item = Item {
            marks,
            ..Item::default()
        };
        if !self.deletions.revive(key, &mut item, memory_bytes)
            && let Some(stored) = stored
        {
            item.cts = stored.cts;
            item.row = Some(stored.row);
        }
        self.add(Key::from_bytes(key), item, memory_bytes)
    }

    /// Adds an item whose key is not in memory.
    pub(crate) fn add(&mut self, key: Key, mut item: Item, memory_bytes: &mut usize) -> Slot {
        item.key = key;
        *memory_bytes += item_bytes(&item);
        item.referenced = true;
        let key = item.key.clone();
        let slot = self.chunks.add(item);
        self.exact.add(key.as_bytes(), slot);
        match self.map.entry(key) {
            Entry::Vacant(entry) => entry.insert(slot),
            Entry::Occupied(_) => unreachable!("the key was not in memory"),
        };
        slot
    }

    /// Takes an item out of memory.
    ///
    /// Rule R-5: the marks that it carried stay, as the table's low-water mark.
    pub(crate) fn evict(&mut self, key: &Key, memory_bytes: &mut usize) {
        let Some(item) = self.remove(key) else { return };
        if item.row.is_some() {
            self.departures += 1;
            self.hollows.fill(key);
            // Of a complete table nothing was in the store alone: now this row is.
            if self.complete || self.stored_up_to.is_some() {
                self.stored_up_to = self.stored_up_to.take().max(Some(key.clone()));
            }
            self.complete = false;
            self.load_from = None;
        }
        if is_kept(Rule::R5) {
            self.low_water = self.low_water.max(item.marks.highest());
        }
        *memory_bytes = memory_bytes.saturating_sub(item_bytes(&item));
    }

    /// Takes an item out: its slot is free for another key, and whoever remembers the slot finds that it is not the same.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Item> {
        let slot = self.map.remove(key)?;
        self.exact.remove(key.as_bytes(), slot);
        let (item, gave_room_back) = self.chunks.remove(slot);
        if gave_room_back {
            self.exact.shrink();
        }
        Some(item)
    }

    /// The keys in order, with their slots.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Key, &Slot)> {
        self.map.iter()
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Notes that `key`, which is not in memory any more, was read up to `ts`.
    pub(crate) fn raise_range_mark(&mut self, key: &Key, ts: Timestamp) {
        if self.range_floor(key.as_bytes()) < ts {
            self.range_low_water = ts;
        }
    }

    /// The largest timestamp at which a range that holds `key` may have been read.
    pub(crate) fn range_floor(&self, key: &[u8]) -> Timestamp {
        let marks = self.range_marks.iter().filter(|(range, _)| contains(range, key));
        marks.map(|mark| mark.1).fold(self.range_low_water, Timestamp::max)
    }

    /// A range that was read at `ts` was read on, up to `joined`.
    pub(crate) fn extend_mark(&mut self, range: &KeyRange, joined: &KeyRange, ts: Timestamp) {
        match self
            .range_marks
            .iter_mut()
            .find(|mark| mark.0 == *range && mark.1 == ts)
        {
            Some(mark) => mark.0 = joined.clone(),
            None => self.mark_range(joined, ts),
        }
    }

    /// Rule R-3: notes that the range was read at `ts`, also for keys that do not exist yet.
    pub(crate) fn mark_range(&mut self, range: &KeyRange, ts: Timestamp) {
        if ts <= self.range_low_water || !is_kept(Rule::R3) {
            return;
        }
        if let Some(mark) = self.range_marks.iter_mut().find(|mark| mark.0 == *range) {
            mark.1 = mark.1.max(ts);
            return;
        }
        if self.range_marks.len() == RANGE_MARKS_MAX {
            let oldest = (0..RANGE_MARKS_MAX)
                .min_by_key(|at| self.range_marks[*at].1)
                .unwrap_or(0);
            let mark = self.range_marks.swap_remove(oldest);
            self.range_low_water = self.range_low_water.max(mark.1);
        }
        self.range_marks.push((range.clone(), ts));
    }

    /// Notes that the committed row of `slot` changed from `before` bytes.
    pub(crate) fn touched(&mut self, slot: Slot, before: usize, memory_bytes: &mut usize) {
        let item = self.item_mut(slot);
        let after = row_bytes(item);
        let was_dirty = std::mem::replace(&mut item.dirty, true);
        *memory_bytes = (*memory_bytes + after).saturating_sub(before);
        if !was_dirty {
            self.dirty += 1;
        }
        if let Some(noted) = &mut self.noted {
            noted.note(&self.chunks.get(slot).key, memory_bytes);
        }
        self.chunks.note_change(slot);
    }

    /// The segments that its items lie in, see [`crate::Segment`].
    pub(crate) fn segments(&self) -> impl ExactSizeIterator<Item = SegmentState> {
        self.chunks.segments()
    }

    /// The items of a segment, in no order of their keys, and places that no item has.
    pub(crate) fn segment_items(&self, number: usize) -> impl Iterator<Item = &Item> {
        self.chunks.segment_items(number)
    }

    /// Keeps a committed change of `slot` above what is undecided there.
    pub(crate) fn retain(&mut self, slot: Slot, kept: Retained, memory_bytes: &mut usize) {
        self.last_cts = self.last_cts.max(kept.cts);
        let item = self.item_mut(slot);
        let before = row_bytes(item);
        item.retain(kept);
        *memory_bytes = (*memory_bytes + row_bytes(item)).saturating_sub(before);
        if let Some(noted) = &mut self.noted {
            noted.note(&self.chunks.get(slot).key, memory_bytes);
        }
    }

    /// Folds what is settled on `slot`; returns how many formulas could not be applied.
    pub(crate) fn fold_settled(&mut self, slot: Slot, live: &LiveSnapshots, memory_bytes: &mut usize) -> u64 {
        let (item, tail) = self.item_and_tail(slot);
        let before = row_bytes(item);
        let folded = item.fold_settled(live, tail);
        self.note_folded(slot, before, folded, memory_bytes)
    }

    /// Folds a committed change, or keeps it above what is undecided; returns how many formulas could not be applied.
    pub(crate) fn fold_or_retain(
        &mut self,
        slot: Slot,
        kept: Retained,
        live: &LiveSnapshots,
        memory_bytes: &mut usize,
    ) -> u64 {
        let cts = kept.cts;
        let (item, tail) = self.item_and_tail(slot);
        let before = row_bytes(item);
        if item.may_fold_now(cts) {
            let folded = item.fold_now(kept, live, tail);
            self.last_cts = self.last_cts.max(cts);
            return self.note_folded(slot, before, folded, memory_bytes);
        }
        self.retain(slot, kept, memory_bytes);
        self.fold_settled(slot, live, memory_bytes)
    }

    fn note_folded(&mut self, slot: Slot, before: usize, folded: Folded, memory_bytes: &mut usize) -> u64 {
        if folded.changed {
            self.touched(slot, before, memory_bytes);
        } else {
            let after = row_bytes(self.item_mut(slot));
            *memory_bytes = (*memory_bytes + after).saturating_sub(before);
        }
        folded.failures
    }

    /// What keys and newest committed rows have in bytes: of a large table as its first and last rows have.
    pub(crate) fn content_bytes(&self) -> usize {
        let content = |slot: &Slot| {
            let item = self.item(*slot);
            let row = |row: &Row| item.key.as_bytes().len() + row.as_bytes().len();
            item.row.as_ref().map_or(0, row)
        };
        let count = self.map.len();
        if count <= 2 * SAMPLED_ROWS {
            return self.map.values().map(content).sum();
        }
        let ends = self
            .map
            .values()
            .take(SAMPLED_ROWS)
            .chain(self.map.values().rev().take(SAMPLED_ROWS));
        let sampled: usize = ends.map(content).sum();
        (sampled as u128 * count as u128 / (2 * SAMPLED_ROWS) as u128) as usize
    }

    /// What all items cost, for taking a dropped table off the account.
    pub(crate) fn bytes(&self) -> usize {
        let items = self.map.values().map(|slot| item_bytes(self.item(*slot)));
        let noted = self.noted.as_ref().map_or(0, NotedChanges::bytes);
        items.sum::<usize>() + self.deletions.bytes() + noted
    }
}

/// Items by slot, apart from the ordered keys.
pub(crate) struct Items<'a> {
    chunks: &'a mut Chunks,
    /// What rows may lack.
    pub(crate) tail: &'a Tail,
}

impl Items<'_> {
    pub(crate) fn get(&mut self, slot: Slot) -> &mut Item {
        self.chunks.get_mut(slot)
    }
}

pub(crate) fn item_bytes(item: &Item) -> usize {
    ITEM_BYTES + 2 * item.key.heap_bytes() + row_bytes(item)
}

/// What the committed row of an item costs, with the older versions that live snapshots still read.
pub(crate) fn row_bytes(item: &Item) -> usize {
    let row = item
        .row
        .as_ref()
        .map_or(0, |row| row.as_bytes().len() + ALLOCATION_BYTES);
    row + item.versions.bytes() + item.above().len() * RETAINED_BYTES
}

/// Drops versions that no live snapshot needs any more, from the account too: what stayed there of rows that have left was memory that nothing
/// could give back before a restart.
pub(crate) fn prune_counted(item: &mut Item, live: &LiveSnapshots, memory_bytes: &mut usize) {
    if item.versions.is_empty() {
        return;
    }
    let before = row_bytes(item);
    item.prune(live);
    *memory_bytes = (*memory_bytes + row_bytes(item)).saturating_sub(before);
}

pub(crate) fn contains(range: &KeyRange, key: &[u8]) -> bool {
    let above = match &range.from {
        Bound::Included(from) => key >= from.as_bytes(),
        Bound::Excluded(from) => key > from.as_bytes(),
        Bound::Unbounded => true,
    };
    above
        && match &range.to {
            Bound::Included(to) => key <= to.as_bytes(),
            Bound::Excluded(to) => key < to.as_bytes(),
            Bound::Unbounded => true,
        }
}

/// The bounds of a range as the ordered keys take them; `None` if it is empty (a map refuses such a range).
pub(crate) fn key_bounds(range: &KeyRange) -> Option<(Bound<&Key>, Bound<&Key>)> {
    let (from, to) = (range.from.as_ref(), range.to.as_ref());
    (!is_empty(from, to)).then_some((from, to))
}

/// Whether nothing can be between the bounds.
pub(crate) fn is_empty<K: Ord + ?Sized>(from: Bound<&K>, to: Bound<&K>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        _ => false,
    }
}

/// The bounds of a range as the store takes them; `None` if it is empty.
pub(crate) fn byte_bounds(range: &KeyRange) -> Option<(Bound<&[u8]>, Bound<&[u8]>)> {
    let (from, to) = key_bounds(range)?;
    Some((from.map(Key::as_bytes), to.map(Key::as_bytes)))
}

/// A row read back during recovery was written before every record that is replayed onto it.
pub(crate) const RECOVERED_LSN: Lsn = Lsn(0);
