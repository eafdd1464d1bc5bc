//! How much memory rows take: they leave it when there are too many, and fewer may stay while the process takes more than it was
//! given.

use crate::node::Shared;
use rubato_base::Timestamp;
use rubato_sql::partition::Partition;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory may be over its bound by one part in so many before writers are held back; eviction goes as far below.
const MEMORY_SLACK: usize = 32;
/// Steps of statements before eviction is tried again when it has found nothing that may leave.
const EVICTION_PAUSE_STEPS: usize = 64;
/// Memory counts as filled when less than one part in so many is free.
pub(crate) const FILLED_SHARE: usize = 4;

/// Where memory is full a checkpoint is made at once if more than one part in so many of the rows' memory is not stored yet, ...
const CROWD_DIRTY_SHARE: usize = 16;
/// ... and for less after a while.
const CROWD_PAUSE_US: i64 = 1_000_000;

/// Memory that is full of what open transactions hold is waited for so long, ...
const SNAPSHOT_PATIENCE_US: i64 = 2_000_000;
/// ... and so long again when a snapshot was given up for it; then twice as many are.
const SNAPSHOT_PAUSE_US: i64 = 100_000;

/// Since when memory is full of what open transactions hold.
#[derive(Debug, Default)]
pub(crate) struct Stuck {
    since: Option<(i64, Timestamp)>,
    given_up: usize,
}

impl Stuck {
    /// The newest snapshot that may be given up by now: those that were there when it began.
    fn up_to(&mut self, clock: Timestamp, now_us: i64) -> Option<Timestamp> {
        let (since_us, began) = *self.since.get_or_insert((now_us, clock));
        let is_over = now_us.saturating_sub(since_us) >= SNAPSHOT_PATIENCE_US;
        is_over.then_some(began)
    }

    /// So many were given up: whether that helps is seen in a moment.
    fn wait_again(&mut self, count: usize, now_us: i64) {
        self.given_up += count;
        if let Some((since_us, _)) = &mut self.since {
            *since_us = now_us - SNAPSHOT_PATIENCE_US + SNAPSHOT_PAUSE_US;
        }
    }
}

/// The process stays below what it was given by one part in so many: what it takes is known a little late.
const RESIDENT_MARGIN_SHARE: usize = 32;
/// One look takes back one part in so many of what is too much: memory comes back some time after rows have left it.
const TAKE_SHARE: usize = 8;
/// One look gives one part in so many of the whole when there is room again: all of it within about half a minute.
const GIVE_SHARE: usize = 256;
/// Rows keep one part in so many of what they may take at most, whatever else takes memory.
const KEEP_SHARE: usize = 4;

/// How many bytes rows may take at present.
#[derive(Debug)]
pub(crate) struct RowsBound {
    most_bytes: usize,
    now_bytes: AtomicUsize,
}

impl RowsBound {
    pub(crate) fn new(most_bytes: usize) -> RowsBound {
        RowsBound {
            most_bytes,
            now_bytes: AtomicUsize::new(most_bytes),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.now_bytes.load(Ordering::Relaxed)
    }

    /// How many bytes rows and the pending changes, which cannot leave, may take together: however little there is, rows keep their
    /// part beside what a transaction was allowed to hold.
    fn bytes_with(&self, pending_bytes: usize) -> usize {
        let least = pending_bytes + self.most_bytes / KEEP_SHARE;
        self.bytes().max(least.min(self.most_bytes))
    }

    /// What follows from a look at the process: it takes `resident_bytes` of the `given_bytes`, rows count for `held_bytes` of it.
    ///
    /// Rows are counted, all else (merging in the store, gaps between allocations, large statements) is estimated, and at times takes
    /// more: then rows make room for it.
    fn correct(&self, held_bytes: usize, resident_bytes: usize, given_bytes: usize) {
        let margin = given_bytes / RESIDENT_MARGIN_SHARE;
        let (aim, now) = (given_bytes - margin, self.bytes());
        let next = if resident_bytes > aim {
            let too_much = (resident_bytes - aim) / TAKE_SHARE;
            let least = self.most_bytes / KEEP_SHARE;
            // What they do not take anyway is no room given.
            now.min(held_bytes).saturating_sub(too_much).max(least.min(now))
        } else if resident_bytes < aim - margin {
            (now + self.most_bytes / GIVE_SHARE).min(self.most_bytes)
        } else {
            now
        };
        self.now_bytes.store(next, Ordering::Relaxed);
    }
}

impl Shared {
    /// Lets rows leave memory if there are too many; called between statements.
    pub(crate) fn keep_within_memory(&self, partition: &mut Partition) {
        let limit = self.rows_bound.bytes_with(partition.database.pending_bytes());
        let held = partition.database.memory_bytes();
        self.memory_bytes.store(held, Ordering::Relaxed);
        if held <= limit {
            if self.crowded.load(Ordering::Acquire) {
                self.set_crowded(false);
            }
            return;
        }
        if self.crowded.load(Ordering::Acquire) && self.eviction_pause.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let slack = limit / MEMORY_SLACK;
        while !partition.database.evict(limit - slack) {
            if partition.database.nothing_may_leave() {
                self.eviction_pause.store(EVICTION_PAUSE_STEPS, Ordering::Relaxed);
                break;
            }
            // The hand looks at a bounded number of items at once: a little too much may stay until the next step.
            if partition.database.memory_bytes() <= limit + slack {
                return;
            }
        }
        self.set_crowded(partition.database.memory_bytes() > limit);
    }

    /// Whether a checkpoint makes room in a memory that is full. One that has little to store does not: what is in the way goes when it has
    /// come to the store by itself (rows that are laid down), or with its transaction. Checkpoints one after the other had the store
    /// merge files without end, since each adds one whose key is far from all others: 300 of them and 60 s for a COPY of 3 s, with 128 MiB.
    pub(crate) fn crowd_needs_checkpoint(&self) -> bool {
        let mut partition = self.partition.lock();
        partition.drop_storage([]);
        self.eviction_pause.store(0, Ordering::Relaxed);
        self.keep_within_memory(&mut partition);
        if !self.crowded.load(Ordering::Acquire) {
            return false;
        }
        self.laying.hurry();
        let dirty_bytes = partition.database.dirty_bytes();
        let since_us = (self.settings.clock_us)() - self.last_checkpoint_us.load(Ordering::Relaxed);
        let is_due = dirty_bytes > self.rows_bound.bytes() / CROWD_DIRTY_SHARE
            || (dirty_bytes > 0 && !(0..CROWD_PAUSE_US).contains(&since_us));
        self.stuck.fetch_or(!is_due, Ordering::AcqRel);
        if !is_due {
            self.give_up_snapshot(&mut partition);
        }
        is_due
    }

    /// Memory is full, and no checkpoint helps. If that is for rows that are kept for the sake of an old snapshot, its transactions end,
    /// rather than that nobody can write as long as one of them stays open (rule F-7).
    fn give_up_snapshot(&self, partition: &mut Partition) {
        // Pending changes go with their own transactions, which are bounded.
        if partition.database.pending_bytes() > partition.database.memory_bytes() / 2 {
            return;
        }
        let now_us = (self.settings.clock_us)();
        let mut stuck = self.stuck_since.lock();
        let Some(up_to) = stuck.up_to(partition.database.clock(), now_us) else {
            return;
        };
        // As many again as before: a pool leaves dozens of transactions open.
        let wanted = stuck.given_up.max(1);
        let given_up = (0..wanted).map_while(|_| partition.database.give_up_oldest_snapshot(up_to));
        let count = given_up.count();
        if count > 0 {
            stuck.wait_again(count, now_us);
            drop(stuck);
            self.eviction_pause.store(0, Ordering::Relaxed);
            self.keep_within_memory(partition);
        }
    }

    fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Release);
        if !crowded {
            self.stuck.store(false, Ordering::Release);
            *self.stuck_since.lock() = Stuck::default();
        }
    }

    /// Notes that the process takes `resident_bytes` of the `given_bytes` that it may.
    pub(crate) fn note_resident(&self, resident_bytes: usize, given_bytes: usize) {
        let held = self.memory_bytes.load(Ordering::Relaxed);
        self.rows_bound.correct(held, resident_bytes, given_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn rows_make_room_for_what_was_not_counted_and_get_it_back() {
        let bound = RowsBound::new(200 * MIB);
        // The rest of the process takes 300 MiB where 240 were thought of.
        for _ in 0..200 {
            let held = bound.bytes();
            bound.correct(held, held + 300 * MIB, 440 * MIB);
        }
        assert!((110 * MIB..=128 * MIB).contains(&bound.bytes()), "{}", bound.bytes());
        for _ in 0..400 {
            let held = bound.bytes();
            bound.correct(held, held + 100 * MIB, 440 * MIB);
        }
        assert_eq!(bound.bytes(), 200 * MIB);
    }

    #[test]
    fn rows_keep_a_part_whatever_else_takes_memory() {
        let bound = RowsBound::new(200 * MIB);
        for _ in 0..1000 {
            bound.correct(bound.bytes(), 1 << 40, 440 * MIB);
        }
        assert_eq!(bound.bytes(), 50 * MIB);
        // A transaction may hold half of the whole, and is not held back for it.
        assert_eq!(bound.bytes_with(100 * MIB), 150 * MIB);
        assert_eq!(bound.bytes_with(190 * MIB), 200 * MIB);
    }

    #[test]
    fn room_that_rows_do_not_take_is_not_what_is_taken_back_first() {
        let bound = RowsBound::new(200 * MIB);
        bound.correct(80 * MIB, 440 * MIB, 440 * MIB);
        assert!(bound.bytes() < 80 * MIB);
    }
}
