//! A table that serves as a queue: filled at one end, emptied at the other, scanned from the front.

use rubato_base::{ColumnSet, Key, Lsn, Result, Row, SessionId, TableId, Timestamp, TransactionId, Value};
use rubato_protocol::{
    BeginOptions, CommitLog, CommitRecord, DirtyRow, FormulaDatabase, Insertion, KeyRange, OnBusy, OrderedRead,
    Policies, RowSource, ScanEnd, StoredRow,
};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const QUEUE: TableId = TableId(1);

/// The store, which is a map, and counts the rows that scans were given.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<BTreeMap<Key, StoredRow>>>, Arc<AtomicUsize>);

impl RowSource for Store {
    fn get(&self, _: TableId, key: &[u8]) -> Result<Option<StoredRow>> {
        Ok(self.0.lock().expect("lock").get(key).cloned())
    }

    fn scan(
        &self,
        _: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(Key, StoredRow)>> {
        let rows = self.0.lock().expect("lock");
        let range = rows.range::<[u8], _>((from, to));
        let copy = |(key, row): (&Key, &StoredRow)| (key.clone(), row.clone());
        let given: Vec<_> = if reverse {
            range.rev().take(limit).map(copy).collect()
        } else {
            range.take(limit).map(copy).collect()
        };
        self.1.fetch_add(given.len(), Ordering::Relaxed);
        Ok(given)
    }
}

impl Store {
    fn write(&self, rows: &[DirtyRow]) {
        let mut stored = self.0.lock().expect("lock");
        for taken in rows {
            match &taken.row {
                Some(row) => {
                    let row = StoredRow {
                        cts: taken.cts,
                        row: row.clone(),
                    };
                    stored.insert(taken.key.clone(), row);
                }
                None => drop(stored.remove(taken.key.as_bytes())),
            }
        }
    }
}

/// A log that counts its records.
#[derive(Default)]
struct CountingLog(u64);

impl CommitLog for CountingLog {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
}

struct World {
    database: FormulaDatabase,
    store: Store,
    log: CountingLog,
}

fn key(id: i32) -> Key {
    Key::of(&[Value::Int4(id)])
}

impl World {
    fn new() -> World {
        let store = Store::default();
        let mut database = FormulaDatabase::new(Box::new(store.clone()), Policies::default(), Timestamp::ZERO);
        database.create_table(QUEUE);
        World {
            database,
            store,
            log: CountingLog::default(),
        }
    }

    fn begin(&mut self, read_only: bool) -> TransactionId {
        self.database.begin(BeginOptions {
            session: SessionId(1),
            read_only,
        })
    }

    fn commit(&mut self, id: TransactionId) -> Lsn {
        let committed = self.database.commit(id, None, &mut self.log);
        committed.expect("commits").durable_at
    }

    fn put_now(&mut self, id: TransactionId, number: i32) -> Insertion {
        let row = Row::from_values(&[Value::Int4(number)]);
        self.database.insert(id, QUEUE, key(number), row).expect("inserts")
    }

    fn put(&mut self, number: i32) {
        let id = self.begin(false);
        assert_eq!(self.put_now(id, number), Insertion::Inserted);
        self.commit(id);
    }

    fn take(&mut self, number: i32) {
        let id = self.begin(false);
        let key = key(number);
        let read = self
            .database
            .read_for_update(id, QUEUE, key.as_bytes(), ColumnSet::ALL, OnBusy::Queue);
        assert!(matches!(read, Ok(OrderedRead::Row(Some(_)))));
        self.database.delete(id, QUEUE, key.as_bytes()).expect("deletes");
        self.commit(id);
    }

    /// What `id` sees.
    fn seen(&mut self, id: TransactionId) -> Vec<i32> {
        self.seen_between(id, Bound::Unbounded, Bound::Unbounded, usize::MAX)
    }

    /// The first rows that `id` sees between the bounds.
    fn seen_between(&mut self, id: TransactionId, from: Bound<i32>, to: Bound<i32>, limit: usize) -> Vec<i32> {
        let range = KeyRange {
            from: from.map(key),
            to: to.map(key),
        };
        let mut seen = Vec::new();
        let mut visit = |_: &[u8], row: rubato_base::RowRef<'_>| {
            seen.push(row.get(0).as_i64().expect("a number") as i32);
            seen.len() < limit
        };
        let end = self
            .database
            .scan(id, QUEUE, &range, false, ColumnSet::ALL, &mut visit)
            .expect("scans");
        assert_eq!(end == ScanEnd::Exhausted, seen.len() < limit);
        seen
    }

    fn first(&mut self) -> Vec<i32> {
        let id = self.begin(true);
        let first = self.seen_between(id, Bound::Included(0), Bound::Unbounded, 1);
        self.database.rollback(id);
        first
    }

    /// All that may leaves memory.
    fn evict(&mut self) {
        // Not more than that: what is dirty or busy stays.
        let _ = (0..100).any(|_| self.database.evict(0) || self.database.nothing_may_leave());
    }

    fn seen_now(&mut self) -> Vec<i32> {
        let id = self.begin(true);
        let seen = self.seen(id);
        self.database.rollback(id);
        seen
    }

    /// Everything is durable: tombstones leave, as many as there are.
    fn settle(&mut self) {
        (0..100).for_each(|_| self.database.set_durable(Lsn(self.log.0)));
    }

    /// A whole checkpoint; `between` happens after each of its batches was taken and before it is said to be in the store.
    fn checkpoint(&mut self, mut between: impl FnMut(&mut World)) -> Vec<i32> {
        self.database.begin_checkpoint();
        let mut deleted = Vec::new();
        while self.database.has_more_to_flush() {
            let rows = self.database.take_dirty(1);
            between(self);
            self.store.write(&rows);
            self.database.flushed(&rows);
            let gone = rows.iter().filter(|row| row.row.is_none());
            deleted.extend(gone.map(|row| row.cts.0 as i32));
        }
        deleted
    }

    fn stored(&self) -> usize {
        self.store.0.lock().expect("lock").len()
    }
}

#[test]
fn deleted_rows_leave_memory_when_they_are_durable_and_seen_by_nobody() {
    let mut world = World::new();
    world.put(0);
    world.checkpoint(|_| {});
    let one_row = world.database.memory_bytes();
    for number in 1..2_000 {
        world.put(number);
        world.take(number - 1);
        world.settle();
    }
    // What is left of the deleted rows is what the next checkpoint says of them; the living row is as large as the first.
    assert_eq!(world.database.dirty_rows(), 2_000);
    assert_eq!(world.checkpoint(World::settle).len(), 1_999);
    world.settle();
    assert_eq!(world.database.memory_bytes(), one_row);
    assert_eq!(world.stored(), 1);
    assert_eq!(world.seen_now(), [1_999]);
}

/// What nobody takes off the account is memory that nothing gives back: a node came to have no room for rows.
#[test]
fn what_was_kept_of_a_deleted_row_for_older_snapshots_leaves_the_account_with_it() {
    let mut world = World::new();
    let readers: Vec<TransactionId> = (0..200)
        .map(|number| {
            world.put(number);
            let reader = world.begin(true);
            world.take(number);
            reader
        })
        .collect();
    readers.into_iter().for_each(|reader| world.database.rollback(reader));
    world.settle();
    world.checkpoint(World::settle);
    world.settle();
    assert_eq!(world.database.memory_bytes(), 0);
}

#[test]
fn the_account_is_what_is_there_whatever_was_done() {
    for seed in 1..40_u64 {
        let mut world = World::new();
        let (mut state, mut readers) = (seed, Vec::new());
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut there = BTreeMap::new();
        for _ in 0..400 {
            let number = next(20) as i32;
            match next(8) {
                0..3 => match there.remove(&number) {
                    Some(()) => world.take(number),
                    None => {
                        world.put(number);
                        there.insert(number, ());
                    }
                },
                3 => readers.push(world.begin(true)),
                4 if !readers.is_empty() => {
                    let reader = readers.swap_remove(next(readers.len() as u64) as usize);
                    world.seen(reader);
                    world.database.rollback(reader);
                }
                5 => drop(world.checkpoint(World::settle)),
                6 => world.evict(),
                _ => world.settle(),
            }
        }
        world.database.drop_table(QUEUE);
        assert_eq!(world.database.memory_bytes(), 0, "seed {seed}");
    }
}

#[test]
fn nobody_is_told_of_a_deletion_before_it_is_durable() {
    let mut world = World::new();
    world.put(1);
    world.take(1);
    let before = world.database.memory_bytes();
    world.database.set_durable(Lsn(1));
    assert_eq!(world.database.memory_bytes(), before, "the deletion is not durable");
    let id = world.begin(true);
    assert!(world.seen(id).is_empty());
    assert_eq!(world.commit(id), Lsn(2), "who sees nothing depends on the deletion");
}

#[test]
fn an_old_snapshot_sees_the_deleted_row() {
    let mut world = World::new();
    world.put(1);
    let old = world.begin(false);
    world.take(1);
    world.settle();
    assert_eq!(world.seen(old), [1]);
    assert!(world.seen_now().is_empty());
    assert!(world.database.commit(old, None, &mut world.log).is_ok(), "it only read");
    world.settle();
    world.put(1);
    assert_eq!(world.seen_now(), [1]);
}

#[test]
fn who_saw_that_there_is_nothing_stands_before_the_next_insert() {
    let mut world = World::new();
    world.put(1);
    world.take(1);
    let writer = world.begin(false);
    let reader = world.begin(false);
    let read = world.database.read(reader, QUEUE, key(1).as_bytes(), ColumnSet::ALL);
    assert!(read.expect("reads").is_none());
    let seen_at = world.database.snapshot(reader).expect("live");
    world.settle();
    assert_eq!(world.put_now(writer, 1), Insertion::Inserted);
    let committed = world.database.commit(writer, None, &mut world.log).expect("commits");
    assert!(committed.cts > seen_at, "the insert stands behind the reader");
    let read = world.database.read(reader, QUEUE, key(1).as_bytes(), ColumnSet::ALL);
    assert!(
        read.expect("reads").is_none(),
        "the reader's snapshot stays what it was"
    );
}

#[test]
fn a_checkpoint_finds_every_deletion_whenever_rows_come_and_go() {
    // Rows are inserted, deleted and inserted again before, between and after the steps of checkpoints; what is in the store
    // and in memory together is what was committed, also for a second database over the same store.
    for seed in 1..60u64 {
        let (mut world, mut state) = (World::new(), seed);
        let mut expected: Vec<i32> = Vec::new();
        let mut step = |world: &mut World, expected: &mut Vec<i32>| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let number = ((state >> 33) % 12) as i32;
            match expected.binary_search(&number) {
                Ok(at) => {
                    world.take(number);
                    expected.remove(at);
                }
                Err(at) => {
                    world.put(number);
                    expected.insert(at, number);
                }
            }
            if (state >> 50) % 3 > 0 {
                world.settle();
            }
            number
        };
        for _ in 0..6 {
            for _ in 0..5 {
                step(&mut world, &mut expected);
            }
            let (begun, mut touched) = (expected.clone(), Vec::new());
            world.checkpoint(|world| touched.push(step(world, &mut expected)));
            // The log is cut behind a checkpoint: what was deleted before it began is not in the store any more.
            for number in (0..12).filter(|number| !touched.contains(number)) {
                let is_stored = world.store.0.lock().expect("lock").contains_key(&key(number));
                assert_eq!(is_stored, begun.contains(&number), "seed {seed}: row {number}");
            }
            assert_eq!(world.seen_now(), expected, "seed {seed}");
        }
        world.checkpoint(|_| {});
        world.settle();
        assert_eq!(
            world.stored(),
            expected.len(),
            "seed {seed}: the store has what was deleted"
        );
        world.evict();
        assert_eq!(world.seen_now(), expected, "seed {seed}: after eviction");
    }
}

#[test]
fn a_deletion_hides_the_row_that_the_store_still_has() {
    let mut world = World::new();
    (0..20).for_each(|number| world.put(number));
    world.checkpoint(|_| {});
    world.evict();
    let left: Vec<i32> = (0..20).filter(|number| number % 3 == 0).collect();
    for number in (0..20).filter(|number| number % 3 != 0) {
        world.take(number);
    }
    world.settle();
    assert_eq!(world.stored(), 20);
    assert_eq!(world.seen_now(), left);
    let id = world.begin(true);
    let read = world.database.read(id, QUEUE, key(1).as_bytes(), ColumnSet::ALL);
    assert!(read.expect("reads").is_none());
    world.database.rollback(id);
    // A store that fails takes nothing: the deletions are said again.
    world.database.begin_checkpoint();
    let rows = world.database.take_dirty(usize::MAX);
    world.database.not_flushed(&rows);
    assert_eq!(world.database.dirty_rows(), 13);
    world.checkpoint(|_| {});
    assert_eq!((world.stored(), world.database.dirty_rows()), (7, 0));
    world.put(1);
    assert_eq!(world.seen_now().len(), 8);
}

#[test]
fn the_front_of_a_queue_in_the_store_is_found_without_its_dead_rows() {
    let mut world = World::new();
    (0..1_000).for_each(|number| world.put(number));
    world.checkpoint(|_| {});
    world.evict();
    let mut given = Vec::new();
    for number in 0..900 {
        let before = world.store.1.load(Ordering::Relaxed);
        assert_eq!(world.first(), [number]);
        given.push(world.store.1.load(Ordering::Relaxed) - before);
        world.take(number);
        world.settle();
        if number == 400 {
            world.checkpoint(World::settle);
        }
    }
    let most = given.iter().max().expect("scans");
    assert!(*most <= 24, "a scan was given {most} rows of the store");
    // A row comes to the front again, and to the store alone.
    world.put(17);
    assert_eq!(world.first(), [17]);
    world.checkpoint(World::settle);
    world.evict();
    assert_eq!(world.first(), [17]);
    world.take(17);
    world.settle();
    assert_eq!(world.first(), [900]);
}

#[test]
fn what_scans_have_noted_of_the_store_hides_no_row() {
    for seed in 1..200u64 {
        let (mut world, mut state) = (World::new(), seed);
        let mut expected: Vec<i32> = Vec::new();
        let mut draw = |most: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % most
        };
        for _ in 0..150 {
            let number = draw(30) as i32;
            match draw(12) {
                0 => drop(world.checkpoint(World::settle)),
                1 | 2 => world.evict(),
                3..=7 => match expected.binary_search(&number) {
                    Ok(at) => {
                        world.take(number);
                        expected.remove(at);
                    }
                    Err(at) => {
                        world.put(number);
                        expected.insert(at, number);
                    }
                },
                _ => world.settle(),
            }
            let (width, limit) = (draw(30) as i32, 1 + draw(4) as usize);
            let (from, to) = match draw(3) {
                0 => (Bound::Included(number), Bound::Excluded(number + width)),
                1 => (Bound::Excluded(number), Bound::Included(number + width)),
                _ => (Bound::Included(number), Bound::Unbounded),
            };
            let is_within = |found: &&i32| (from, to).contains(*found);
            let within: Vec<i32> = expected.iter().filter(is_within).take(limit).copied().collect();
            let id = world.begin(true);
            assert_eq!(
                world.seen_between(id, from, to, limit),
                within,
                "seed {seed}: {from:?} to {to:?}"
            );
            world.database.rollback(id);
        }
    }
}
