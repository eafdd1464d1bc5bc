//! Checkpoints, eviction and reading back in, against a store that is a map.

mod wide;

use rubato_base::{ColumnSet, GlobalId, Key, Lsn, NodeId, Result, Row, SessionId, TableId, Timestamp, Value};
use rubato_protocol::{
    BeginOptions, CommitLog, CommitRecord, DecisionRecord, FormulaDatabase, Insertion, KeyRange, LaidRow, OnBusy,
    OrderedRead, Policies, PrepareRecord, RowSource, Stop, StoredRow,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

const TABLE: TableId = TableId(1);

type Rows = BTreeMap<Key, StoredRow>;

#[derive(Clone, Default)]
struct Store(Arc<Mutex<(Rows, u64)>>);

impl RowSource for Store {
    fn get(&self, _: TableId, key: &[u8]) -> Result<Option<StoredRow>> {
        let mut state = self.0.lock().expect("lock");
        state.1 += 1;
        Ok(state.0.get(key).cloned())
    }

    fn scan(
        &self,
        _: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(Key, StoredRow)>> {
        let mut state = self.0.lock().expect("lock");
        let range = state.0.range::<[u8], _>((from, to));
        let copy = |(key, row): (&Key, &StoredRow)| (key.clone(), row.clone());
        let rows: Vec<_> = if reverse {
            range.rev().take(limit).map(copy).collect()
        } else {
            range.take(limit).map(copy).collect()
        };
        state.1 += rows.len() as u64;
        Ok(rows)
    }

    fn scan_some(
        &self,
        _: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        (limit, bytes): (usize, usize),
    ) -> Result<(Vec<(Key, StoredRow)>, bool)> {
        let mut state = self.0.lock().expect("lock");
        let (mut rows, mut taken) = (Vec::new(), 0);
        let mut range = state.0.range::<[u8], _>((from, to));
        while rows.len() < limit && (taken < bytes || rows.is_empty()) {
            let next = if reverse { range.next_back() } else { range.next() };
            let Some((key, row)) = next else {
                break;
            };
            taken += row.row.as_bytes().len();
            rows.push((key.clone(), row.clone()));
        }
        let may_be_more = range.next().is_some();
        state.1 += rows.len() as u64;
        Ok((rows, may_be_more))
    }
}

/// A store that takes rows, and has them when the test says so.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<u64>>);

impl RowSource for Slow {
    fn get(&self, _: TableId, _: &[u8]) -> Result<Option<StoredRow>> {
        Ok(None)
    }

    fn scan(&self, _: TableId, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool, _: usize) -> Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }

    fn takes_rows(&self) -> bool {
        true
    }

    fn lay_down(&self, _: TableId, _: &mut dyn Iterator<Item = LaidRow<'_>>) -> Result<u64> {
        Ok(1)
    }

    fn laid_down(&self) -> u64 {
        *self.0.lock().expect("lock")
    }
}

/// Whoever lays rows may be held back because memory is full of them.
#[test]
fn rows_that_the_store_has_taken_leave_memory_although_no_more_are_laid() {
    let store = Slow::default();
    let mut database = FormulaDatabase::new(Box::new(store.clone()), Policies::default(), Timestamp::ZERO);
    database.set_memory_limit(1 << 20);
    let id = begin(&mut database, false);
    database.create_private_table(TABLE);
    assert!(database.lay_down(&[TABLE]));
    for number in 0..5_000 {
        let laid = database.lay_row(id, TABLE, key(number), row(number, "a row of some length"));
        assert!(laid.expect("lays"), "{number}");
    }
    let evict = |database: &mut FormulaDatabase| (0..20).any(|_| database.evict(400_000));
    assert!(!evict(&mut database), "the store does not have them");
    *store.0.lock().expect("lock") = 1;
    assert!(evict(&mut database), "{} bytes", database.memory_bytes());
}

/// What is made of many tables at once, a database say, is as much as what is made of a large one.
#[test]
fn private_storage_is_kept_in_memory_as_long_as_all_of_it_is_little() {
    let mut database = FormulaDatabase::new(Box::new(Slow::default()), Policies::default(), Timestamp::ZERO);
    database.set_memory_limit(1 << 20);
    database.create_table(TABLE);
    insert_all(&mut database, 0..200);
    let laid_down = [2, 3, 4, 5].map(|number| {
        let own = TableId(number);
        database.create_private_table(own);
        database.lay_out(own, TABLE);
        database.is_laid_down(own)
    });
    assert_eq!(laid_down, [false, false, true, true]);
    database.drop_table(TableId(2));
    database.create_private_table(TableId(6));
    database.lay_out(TableId(6), TABLE);
    assert!(!database.is_laid_down(TableId(6)), "there is room again");
}

struct NoLog;

impl CommitLog for NoLog {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        Ok(Lsn(0))
    }

    fn append_prepare(&mut self, _: &PrepareRecord<'_>) -> Result<Lsn> {
        Ok(Lsn(0))
    }

    fn append_decision(&mut self, _: &DecisionRecord<'_>) -> Result<Lsn> {
        Ok(Lsn(0))
    }
}

fn key(id: i32) -> Key {
    Key::of(&[Value::Int4(id)])
}

fn row(id: i32, text: &str) -> Row {
    Row::from_values(&[Value::Int4(id), Value::text(text)])
}

fn begin(database: &mut FormulaDatabase, read_only: bool) -> rubato_base::TransactionId {
    database.begin(BeginOptions {
        session: SessionId(1),
        read_only,
    })
}

fn insert_all(database: &mut FormulaDatabase, ids: impl Iterator<Item = i32>) {
    let id = begin(database, false);
    for number in ids {
        let done = database
            .insert(id, TABLE, key(number), row(number, "a row of some length"))
            .expect("inserts");
        assert_eq!(done, Insertion::Inserted);
    }
    database.commit(id, None, &mut NoLog).expect("commits");
}

/// A whole checkpoint; returns how many rows it wrote.
fn checkpoint(database: &mut FormulaDatabase, store: &Store) -> usize {
    database.begin_checkpoint();
    let mut count = 0;
    while database.has_more_to_flush() {
        let rows = database.take_dirty(100);
        count += rows.len();
        let mut state = store.0.lock().expect("lock");
        for taken in &rows {
            match &taken.row {
                Some(row) => drop(state.0.insert(
                    taken.key.clone(),
                    StoredRow {
                        cts: taken.cts,
                        row: row.clone(),
                    },
                )),
                None => drop(state.0.remove(taken.key.as_bytes())),
            }
        }
        drop(state);
        database.flushed(&rows);
    }
    count
}

fn scan(database: &mut FormulaDatabase, reverse: bool, limit: usize) -> Vec<i32> {
    let id = begin(database, true);
    let all = KeyRange {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };
    let mut seen = Vec::new();
    let mut visit = |_: &[u8], row: rubato_base::RowRef<'_>| {
        seen.push(row.get(0).as_i64().expect("a number") as i32);
        seen.len() < limit
    };
    database
        .scan(id, TABLE, &all, reverse, ColumnSet::ALL, &mut visit)
        .expect("scans");
    database.rollback(id);
    seen
}

fn database(store: &Store) -> FormulaDatabase {
    FormulaDatabase::new(Box::new(store.clone()), Policies::default(), Timestamp::ZERO)
}

#[test]
fn what_was_stored_leaves_and_is_found_again_in_order() {
    let store = Store::default();
    let mut database = database(&store);
    database.create_table(TABLE);
    insert_all(&mut database, (0..5_000).filter(|id| id % 2 == 0));
    let held = database.memory_bytes();
    assert!(
        !database.evict(0) && database.memory_bytes() == held,
        "nothing that is not stored leaves"
    );
    assert_eq!(
        (
            database.dirty_rows(),
            checkpoint(&mut database, &store),
            database.dirty_rows()
        ),
        (2_500, 2_500, 0)
    );
    while !database.evict(held / 3) {
        assert!(!database.nothing_may_leave());
    }
    assert!(database.memory_bytes() <= held / 3);
    // New rows between stored ones, an update and a delete: memory over the store.
    insert_all(&mut database, (0..5_000).filter(|id| id % 10 == 1));
    let id = begin(&mut database, false);
    for gone in [0, 4_998, 2_000] {
        let read = database.read_for_update(id, TABLE, key(gone).as_bytes(), ColumnSet::ALL, OnBusy::Queue);
        assert!(matches!(read, Ok(OrderedRead::Row(Some(_)))));
        database.delete(id, TABLE, key(gone).as_bytes()).expect("deletes");
    }
    database.commit(id, None, &mut NoLog).expect("commits");
    let mut expected: Vec<i32> = (0..5_000)
        .filter(|id| (id % 2 == 0 || id % 10 == 1) && ![0, 4_998, 2_000].contains(id))
        .collect();
    assert_eq!(scan(&mut database, false, usize::MAX), expected);
    assert_eq!(checkpoint(&mut database, &store), 503);
    assert_eq!(scan(&mut database, false, usize::MAX), expected);
    expected.reverse();
    assert_eq!(scan(&mut database, true, usize::MAX), expected);
}

#[test]
fn a_scan_that_wants_one_row_reads_few() {
    let store = Store::default();
    let mut database = database(&store);
    database.create_table(TABLE);
    insert_all(&mut database, 0..3_000);
    checkpoint(&mut database, &store);
    while !database.evict(0) && !database.nothing_may_leave() {}
    insert_all(&mut database, 10_000..40_000);
    store.0.lock().expect("lock").1 = 0;
    assert_eq!(scan(&mut database, false, 1), [0]);
    assert!(store.0.lock().expect("lock").1 <= 16);
    assert_eq!(scan(&mut database, true, 3), [39_999, 39_998, 39_997]);
    assert!(store.0.lock().expect("lock").1 <= 32);
}

#[test]
fn a_table_that_fits_is_read_into_memory_bit_by_bit() {
    let store = Store::default();
    let mut first = database(&store);
    first.create_table(TABLE);
    insert_all(&mut first, 0..1_000);
    checkpoint(&mut first, &store);
    let mut second = database(&store);
    second.raise_clock(first.clock());
    second.open_table(TABLE);
    second.finish_recovery();
    // A row changes and one goes while the table is being read.
    assert!(second.load_some(100, usize::MAX).expect("reads"));
    let id = begin(&mut second, false);
    for gone in [50, 500] {
        let read = second.read_for_update(id, TABLE, key(gone).as_bytes(), ColumnSet::ALL, OnBusy::Queue);
        assert!(matches!(read, Ok(OrderedRead::Row(Some(_)))));
        second.delete(id, TABLE, key(gone).as_bytes()).expect("deletes");
    }
    second.commit(id, None, &mut NoLog).expect("commits");
    while second.load_some(100, usize::MAX).expect("reads") {}
    store.0.lock().expect("lock").1 = 0;
    let expected: Vec<i32> = (0..1_000).filter(|id| ![50, 500].contains(id)).collect();
    assert_eq!(scan(&mut second, false, usize::MAX), expected);
    assert_eq!(store.0.lock().expect("lock").1, 0, "the store was asked");
    // Once rows have left it is asked again.
    checkpoint(&mut second, &store);
    while !second.evict(0) && !second.nothing_may_leave() {}
    assert_eq!(scan(&mut second, false, usize::MAX), expected);
    assert!(store.0.lock().expect("lock").1 > 0);
    assert!(!second.load_some(100, 0).expect("memory is full"));
}

#[test]
fn rows_behind_the_last_one_in_the_store_are_not_looked_for_there() {
    let store = Store::default();
    let mut first = database(&store);
    first.create_table(TABLE);
    insert_all(&mut first, 0..100);
    checkpoint(&mut first, &store);
    let mut second = database(&store);
    second.raise_clock(first.clock());
    second.open_table(TABLE);
    second.finish_recovery();
    store.0.lock().expect("lock").1 = 0;
    insert_all(&mut second, 100..200);
    assert_eq!(store.0.lock().expect("lock").1, 0, "the store was asked");
    // What is there is found, and what has left memory since is, too.
    let taken = |database: &mut FormulaDatabase, id: i32| {
        let transaction = begin(database, false);
        let outcome = database.insert(transaction, TABLE, key(id), row(id, "twice"));
        database.rollback(transaction);
        matches!(outcome, Ok(Insertion::Exists(_)))
    };
    assert!(taken(&mut second, 99) && taken(&mut second, 150));
    checkpoint(&mut second, &store);
    while !second.evict(0) && !second.nothing_may_leave() {}
    assert!(taken(&mut second, 199) && !taken(&mut second, 200));
    // A table of which the store has nothing is wholly in memory.
    let mut third = database(&Store::default());
    third.open_table(TABLE);
    assert!(!third.load_some(1, usize::MAX).expect("nothing to read"));
}

#[test]
fn a_transaction_may_hold_half_of_the_memory() {
    let store = Store::default();
    let mut database = database(&store);
    database.create_table(TABLE);
    database.set_memory_limit(200_000);
    let id = begin(&mut database, false);
    let refused = (0..10_000).find_map(
        |number| match database.insert(id, TABLE, key(number), row(number, "x")) {
            Err(Stop::Fail(error)) => Some((number, error)),
            other => {
                other.expect("inserts");
                None
            }
        },
    );
    let (number, error) = refused.expect("there is a bound");
    assert_eq!(error.code().as_str(), "53200");
    assert!((100..1_000).contains(&number), "{number}");
    assert!(database.pending_bytes() > 50_000 && database.pending_bytes() <= 100_000);
    let savepoint = database.savepoint(id);
    database.rollback_to(id, savepoint);
    database.rollback(id);
    assert_eq!(database.pending_bytes(), 0);
    insert_all(&mut database, 0..10);
}

#[test]
fn who_read_a_row_that_has_left_stands_before_its_next_writer_wherever_he_commits() {
    let store = Store::default();
    let mut database = database(&store);
    database.create_table(TABLE);
    insert_all(&mut database, 0..2);
    checkpoint(&mut database, &store);
    let add = || {
        let change = rubato_formula::Change::set(
            1,
            rubato_base::ColumnType::plain(rubato_base::DataType::Text),
            Value::text("y"),
        );
        rubato_formula::Formula::new([change]).expect("a formula")
    };
    let writer = begin(&mut database, false);
    let reader = begin(&mut database, false);
    let read = database.read(reader, TABLE, key(0).as_bytes(), ColumnSet::ALL);
    assert!(read.expect("reads").is_some());
    while !database.evict(0) && !database.nothing_may_leave() {}
    assert_eq!(database.memory_bytes(), database.pending_bytes(), "the row has left");
    // A later reader of what `reader` writes pushes its commit up, above what it read at.
    let later = begin(&mut database, true);
    let read = database.read(later, TABLE, key(1).as_bytes(), ColumnSet::ALL);
    assert!(read.expect("reads").is_some());
    // The row comes back only after the reader has committed.
    let [first, second] = [(reader, 1), (writer, 0)].map(|(id, number)| {
        let none = rubato_formula::RowBounds::None;
        let placed = database.update_blind(id, TABLE, key(number).as_bytes(), add(), &none);
        assert_eq!(placed, Ok(rubato_protocol::BlindUpdate::Pending));
        database.commit(id, None, &mut NoLog).expect("commits").cts
    });
    assert!(first > database.snapshot(later).expect("live"));
    assert!(
        second > first,
        "the row was overwritten before the place at which it was read"
    );
}

/// What a snapshot has of the rows: number, text and the column that was added, from both ends.
fn with_added(database: &mut FormulaDatabase, id: rubato_base::TransactionId) -> Vec<(Value, Value)> {
    let all = KeyRange {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };
    let mut found = Vec::new();
    for reverse in [false, true] {
        let mut rows = Vec::new();
        let mut visit = |_: &[u8], row: rubato_base::RowRef<'_>| {
            assert_eq!(row.column_count(), 3);
            rows.push((row.get(0), row.get(2)));
            true
        };
        database
            .scan(id, TABLE, &all, reverse, ColumnSet::ALL, &mut visit)
            .expect("scans");
        if reverse {
            rows.reverse();
            assert_eq!(found, rows);
        }
        found = rows;
    }
    found
}

/// Rows in memory, rows in the store, rows that come back: all have the column that was added later, and what is written of one
/// that lacks it takes it along.
#[test]
fn rows_have_what_was_added_later_wherever_they_are() {
    let tail = |value: i32| Some(Row::from_values(&[Value::Null, Value::Null, Value::Int4(value)]));
    let add = |column: u16, value: i32| {
        let int = rubato_base::ColumnType::plain(rubato_base::DataType::Int4);
        rubato_formula::Formula::new([rubato_formula::Change::add(column, int, Value::Int4(value))]).expect("a formula")
    };
    let store = Store::default();
    let mut database = database(&store);
    database.create_table(TABLE);
    insert_all(&mut database, 0..600);
    checkpoint(&mut database, &store);
    while !database.evict(0) && !database.nothing_may_leave() {}
    insert_all(&mut database, 600..900);
    // Somebody tries, and takes it back.
    database.set_tail(TABLE, tail(5));
    let id = begin(&mut database, true);
    assert_eq!(with_added(&mut database, id)[450], (Value::Int4(450), Value::Int4(5)));
    database.rollback(id);
    database.set_tail(TABLE, None);
    database.set_tail(TABLE, tail(7));
    let old = begin(&mut database, true);
    let unbounded = rubato_formula::RowBounds::default();
    let id = begin(&mut database, false);
    for row in [10, 700] {
        for formula in [add(2, 1), add(2, 2)] {
            database
                .update_blind(id, TABLE, key(row).as_bytes(), formula, &unbounded)
                .expect("adds");
        }
        let read = database
            .read(id, TABLE, key(row).as_bytes(), ColumnSet::ALL)
            .expect("reads");
        assert_eq!(read.expect("a row").get(2), Value::Int4(10));
    }
    // Of these the column itself is not written.
    for row in [11, 701] {
        database
            .update_blind(id, TABLE, key(row).as_bytes(), add(0, 10_000), &unbounded)
            .expect("adds");
    }
    let null = Row::from_values(&[Value::Int4(1_000), Value::text("new"), Value::Null]);
    database.insert(id, TABLE, key(1_000), null).expect("inserts");
    database.commit(id, None, &mut NoLog).expect("commits");
    let expected = |number: i32| match number {
        10 | 700 => (Value::Int4(number), Value::Int4(10)),
        11 | 701 => (Value::Int4(number + 10_000), Value::Int4(7)),
        _ => (Value::Int4(number), Value::Int4(7)),
    };
    let mut after: Vec<(Value, Value)> = (0..900).map(expected).collect();
    after.push((Value::Int4(1_000), Value::Null));
    let before: Vec<(Value, Value)> = (0..900).map(|number| (Value::Int4(number), Value::Int4(7))).collect();
    assert_eq!(with_added(&mut database, old), before);
    database.rollback(old);
    for round in 0..3 {
        let id = begin(&mut database, true);
        assert_eq!(with_added(&mut database, id), after, "round {round}");
        for number in [5, 10, 11, 650, 701] {
            let read = database
                .read(id, TABLE, key(number).as_bytes(), ColumnSet::ALL)
                .expect("reads");
            assert_eq!(read.expect("a row").get(2), expected(number).1);
        }
        database.rollback(id);
        // Stored as they are, driven out, and read again.
        checkpoint(&mut database, &store);
        while !database.evict(0) && !database.nothing_may_leave() {}
    }
    // After a restart the log has changes of rows that the store has without the column.
    let mut second = FormulaDatabase::new(Box::new(store.clone()), Policies::default(), database.clock());
    second.open_table(TABLE);
    second.set_tail(TABLE, tail(7));
    let cts = database.clock().next_tick();
    let change = rubato_protocol::Change::Update(add(2, 100));
    second.replay(cts, TABLE, &key(20), change).expect("replays");
    second.finish_recovery();
    after[20].1 = Value::Int4(107);
    let id = begin(&mut second, true);
    assert_eq!(with_added(&mut second, id), after);
}

/// Rule F-7.
#[test]
fn the_oldest_snapshot_is_given_up_where_memory_is_full_of_what_is_kept_for_it() {
    let store = Store::default();
    let mut database = database(&store);
    database.create_table(TABLE);
    insert_all(&mut database, 0..10);
    let open = [0, 1].map(|_| {
        let id = begin(&mut database, false);
        let read = database
            .read(id, TABLE, key(1).as_bytes(), ColumnSet::ALL)
            .expect("reads");
        assert!(read.is_some());
        id
    });
    let began = database.clock();
    insert_all(&mut database, 10..1_000);
    let later = begin(&mut database, false);
    checkpoint(&mut database, &store);
    let leaves = |database: &mut FormulaDatabase| {
        while !database.evict(0) {
            if database.nothing_may_leave() {
                return false;
            }
        }
        true
    };
    let held = database.memory_bytes();
    assert!(!leaves(&mut database) && database.memory_bytes() > held / 2);
    // Those that began later are not asked to make room.
    assert_eq!(database.give_up_oldest_snapshot(Timestamp::ZERO), None);
    for _ in open {
        assert!(database.give_up_oldest_snapshot(began).is_some());
    }
    assert_eq!(database.give_up_oldest_snapshot(began), None);
    assert!(leaves(&mut database));
    for id in open {
        let read = database.read(id, TABLE, key(2).as_bytes(), ColumnSet::ALL);
        assert!(
            matches!(&read, Err(Stop::Abort(error)) if error.code().as_str() == "40001"),
            "{read:?}"
        );
        database.rollback(id);
    }
    let read = database
        .read(later, TABLE, key(999).as_bytes(), ColumnSet::ALL)
        .expect("reads");
    assert!(read.is_some());
    // In a grid: who has not come yet does not come any more, whatever is told later of who is live.
    let (old, new) = (Timestamp(began.0 + 1), Timestamp(u64::MAX / 2));
    database.expect_snapshots(vec![old], new);
    assert!(database.may_come(old) && database.may_come(new));
    assert_eq!(database.give_up_oldest_snapshot(old), Some(old));
    for _ in 0..2 {
        assert!(!database.may_come(old) && database.may_come(new));
        database.expect_snapshots(vec![old], new);
    }
}

/// Rule F-7, of branches that wait for their coordinators: they stay, and hold up no memory.
#[test]
fn prepared_branches_whose_snapshot_is_given_up_end_as_they_are_decided_and_hold_at_no_other_place() {
    for commits in [true, false] {
        let store = Store::default();
        let mut database = database(&store);
        database.create_table(TABLE);
        insert_all(&mut database, 0..10);
        let tick = database.clock().next_tick();
        let prepared = [1, 2].map(|number| {
            let global = GlobalId {
                tick,
                coordinator: NodeId(number),
            };
            let id = database.begin_branch(tick, false);
            let read = database
                .read(id, TABLE, key(9).as_bytes(), ColumnSet::ALL)
                .expect("reads");
            assert!(read.is_some());
            let own = key(number as i32);
            let read = database.read_for_update(id, TABLE, own.as_bytes(), ColumnSet::ALL, OnBusy::Queue);
            assert!(matches!(read, Ok(OrderedRead::Row(Some(_)))));
            database.delete(id, TABLE, own.as_bytes()).expect("deletes");
            let floor = database.prepare(id, global, &mut NoLog).expect("prepares").floor;
            (id, global, floor)
        });
        insert_all(&mut database, 10..1_000);
        checkpoint(&mut database, &store);
        let held = database.memory_bytes();
        while !database.evict(0) && !database.nothing_may_leave() {}
        assert!(database.memory_bytes() > held / 2);
        let now = database.clock();
        assert_eq!(database.give_up_oldest_snapshot(now), Some(tick));
        while !database.evict(0) && !database.nothing_may_leave() {}
        assert!(database.memory_bytes() < held / 10);
        for (id, global, floor) in prepared {
            let checked = database.check_at(id, now.next_tick());
            assert!(matches!(checked, Err(Stop::Abort(_))), "{checked:?}");
            match commits {
                true => assert!(
                    database
                        .commit_at(id, global, floor, &mut NoLog)
                        .expect("commits")
                        .is_some()
                ),
                false => database.roll_back_branch(id, global, &mut NoLog),
            }
        }
        // All others go on at snapshots of theirs.
        assert_eq!(database.give_up_oldest_snapshot(database.clock()), None);
        let later = begin(&mut database, false);
        for id in [1, 2, 9, 500] {
            let read = database
                .read(later, TABLE, key(id).as_bytes(), ColumnSet::ALL)
                .expect("reads");
            assert_eq!(read.is_some(), id > 2 || !commits, "{id}");
        }
    }
}

/// Rule F-7, of who has filled memory with changes of its own: begun again it would do so again.
#[test]
fn who_fills_memory_alone_is_told_that_it_does() {
    let store = Store::default();
    let mut database = database(&store);
    database.set_memory_limit(16 << 20);
    database.create_table(TABLE);
    insert_all(&mut database, 0..10);
    let id = begin(&mut database, false);
    let inserted = database.insert(id, TABLE, key(10), row(10, "one"));
    assert_eq!(inserted, Ok(Insertion::Inserted));
    assert!(database.give_up_oldest_snapshot(database.clock()).is_some());
    let read = database.read(id, TABLE, key(2).as_bytes(), ColumnSet::ALL);
    assert!(
        matches!(&read, Err(Stop::Abort(error)) if error.code().as_str() == "53200"),
        "{read:?}"
    );
}
