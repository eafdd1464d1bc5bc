//! Deleted rows: out of the scans' way as soon as nobody can see what they were.
//!
//! A deleted row stays where it was (a *tombstone*) as long as a live snapshot may read what was there before, as long as its
//! deletion is not on the disk (who finds nothing there must not be told before it is), and as long as somebody stands in its
//! queue. Then it leaves the ordered keys: a table that serves as a queue, filled at one end and emptied at the other, is
//! scanned in the time of its living rows. What a checkpoint has yet to say of it is kept apart, by key.

use crate::database::FormulaDatabase;
use crate::item::Item;
use crate::live::LiveSnapshots;
use crate::memory::DirtyRow;
use crate::table::{Table, item_bytes, prune_counted};
use rubato_base::{Key, Lsn, TableId, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Tombstones that one call of [`FormulaDatabase::set_durable`] looks at: a few microseconds of work.
const SWEEP_STEPS_MAX: usize = 32;
/// What the memory of a deletion costs beside its key's own bytes.
const GONE_BYTES: usize = size_of::<Key>() + size_of::<Gone>() + 16;

/// A deletion that the store does not know yet.
#[derive(Clone, Copy, Debug)]
struct Gone {
    cts: Timestamp,
    dirty: bool,
    flushing: bool,
}

/// The deletions of one table that the store does not know yet and whose rows are not among its items any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletions(BTreeMap<Key, Gone>);

impl Deletions {
    /// Whether the store's row of `key` is out of date: it was deleted.
    pub(crate) fn hides(&self, key: &[u8]) -> bool {
        self.0.contains_key(key)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.keys().map(gone_bytes).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The key gets an item again, which is to say from now on what is said here.
    pub(crate) fn revive(&mut self, key: &[u8], item: &mut Item, memory_bytes: &mut usize) -> bool {
        let Some((key, gone)) = self.0.remove_entry(key) else {
            return false;
        };
        *memory_bytes = memory_bytes.saturating_sub(gone_bytes(&key));
        (item.cts, item.dirty, item.flushing) = (gone.cts, gone.dirty, gone.flushing);
        true
    }

    fn keep(&mut self, item: Item, memory_bytes: &mut usize) {
        *memory_bytes += gone_bytes(&item.key);
        let gone = Gone {
            cts: item.cts,
            dirty: item.dirty,
            flushing: item.flushing,
        };
        self.0.insert(item.key, gone);
    }

    /// Takes dirty deletions up to the limit of rows and of steps; returns where to go on, if there is more, and how many it
    /// took.
    pub(crate) fn take_dirty(
        &mut self,
        table: TableId,
        from: Bound<Key>,
        (limit, steps): (usize, &mut usize),
        rows: &mut Vec<DirtyRow>,
    ) -> (Option<Bound<Key>>, usize) {
        let mut taken = 0;
        for (key, gone) in self.0.range_mut((from, Bound::Unbounded)) {
            if *steps == 0 || rows.len() >= limit {
                return (Some(Bound::Included(key.clone())), taken);
            }
            *steps -= 1;
            if std::mem::take(&mut gone.dirty) {
                gone.flushing = true;
                taken += 1;
                rows.push(DirtyRow::new(table, key.clone(), gone.cts, None));
            }
        }
        (None, taken)
    }

    /// The store knows the deletion now.
    pub(crate) fn flushed(&mut self, key: &[u8], memory_bytes: &mut usize) {
        let Some(gone) = self.0.get_mut(key) else { return };
        gone.flushing = false;
        if !gone.dirty
            && let Some((key, _)) = self.0.remove_entry(key)
        {
            *memory_bytes = memory_bytes.saturating_sub(gone_bytes(&key));
        }
    }

    /// The store did not take the deletion; true if it is to be said anew.
    pub(crate) fn not_flushed(&mut self, key: &[u8]) -> bool {
        let Some(gone) = self.0.get_mut(key) else { return false };
        gone.flushing = false;
        !std::mem::replace(&mut gone.dirty, true)
    }
}

fn gone_bytes(key: &Key) -> usize {
    GONE_BYTES + key.heap_bytes()
}

/// Keys whose items may have no row any more, in the order in which that came about.
pub(crate) type Tombstones = VecDeque<(TableId, Key)>;

/// What the first tombstone waits for at least, so that it is not looked at again before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    lsn: Lsn,
    cts: Timestamp,
}

impl Awaited {
    fn is_reached(self, durable: Lsn, oldest: Timestamp) -> bool {
        self.lsn <= durable && self.cts <= oldest
    }
}

/// What is to be done about the first tombstone.
enum Verdict {
    /// Nobody needs it.
    Leaves,
    /// Somebody needs it until this is reached.
    Awaits(Awaited),
    /// Somebody needs it, and those behind it were deleted later.
    Stays,
    /// It waits for whoever stands in its queue.
    IsBusy,
    /// It is none (any more).
    Passed,
}

impl FormulaDatabase {
    /// The log is forced up to `durable`: deletions up to there may leave the ordered keys. To be called every now and then.
    pub fn set_durable(&mut self, durable: Lsn) {
        if self.tombstones.is_empty() {
            return;
        }
        let oldest = self.live.oldest().unwrap_or(Timestamp::MAX);
        if self
            .awaited_gone
            .is_some_and(|awaited| !awaited.is_reached(durable, oldest))
        {
            return;
        }
        self.awaited_gone = None;
        for _ in 0..SWEEP_STEPS_MAX.min(self.tombstones.len()) {
            let Some((id, key)) = self.tombstones.front() else {
                return;
            };
            let Some(table) = self.tables.get_mut(*id) else {
                self.tombstones.pop_front();
                continue;
            };
            match judge(table, key, (durable, oldest, &self.live), &mut self.memory_bytes) {
                Verdict::Stays => return,
                Verdict::Awaits(awaited) => {
                    self.awaited_gone = Some(awaited);
                    return;
                }
                Verdict::Leaves => {
                    table.remove_tombstone(key, &mut self.memory_bytes);
                    self.tombstones.pop_front();
                }
                Verdict::IsBusy => self.tombstones.rotate_left(1),
                Verdict::Passed => drop(self.tombstones.pop_front()),
            }
        }
    }
}

fn judge(
    table: &mut Table,
    key: &Key,
    (durable, oldest, live): (Lsn, Timestamp, &LiveSnapshots),
    memory_bytes: &mut usize,
) -> Verdict {
    let Some(slot) = table.find(key.as_bytes()) else {
        return Verdict::Passed;
    };
    let is_flushing = table.flush_from.is_some();
    let item = table.item_mut(slot);
    if item.row.is_some() {
        return Verdict::Passed;
    }
    let awaited = Awaited {
        lsn: item.lsn,
        cts: item.cts,
    };
    if !awaited.is_reached(durable, oldest) {
        return Verdict::Awaits(awaited);
    }
    // A checkpoint goes over each table once: what it has yet to take must not move to where it has been.
    if is_flushing {
        return Verdict::Stays;
    }
    if !item.intents().is_empty() || !item.above().is_empty() {
        return Verdict::IsBusy;
    }
    prune_counted(item, live, memory_bytes);
    if !item.versions.is_empty() {
        return Verdict::Stays;
    }
    Verdict::Leaves
}

impl Table {
    /// Takes a tombstone off the ordered keys. Who read that there is nothing is remembered by the table's mark of ranges, which
    /// every insert comes above; of formulas there are none without a row.
    fn remove_tombstone(&mut self, key: &Key, memory_bytes: &mut usize) {
        let Some(item) = self.remove(key) else { return };
        *memory_bytes = memory_bytes.saturating_sub(item_bytes(&item));
        self.raise_range_mark(key, item.marks.highest());
        if item.dirty || item.flushing {
            self.deletions.keep(item, memory_bytes);
        }
    }
}
