//! What a branch has read is confirmed at a later place piece by piece (rule Q-7): what was confirmed there stays so, and what is read behind
//! that is looked at as well.

mod doubles;

use doubles::{CountingLog, Empty, options};
use rubato_base::{
    ColumnSet, ColumnType, DataType, GlobalId, Key, NodeId, Row, TableId, Timestamp, TransactionId, Value,
};
use rubato_formula::{Change as ColumnFormula, Formula, RowBounds};
use rubato_protocol::{BlindUpdate, FormulaDatabase, Insertion, KeyRange, OnBusy, Policies, Stop};
use std::ops::Bound;

const TABLE: TableId = TableId(1);
const ROWS: i32 = 5;

fn key(id: i32) -> Key {
    Key::of(&[Value::Int4(id)])
}

fn row(id: i32, v: i32) -> Row {
    Row::from_values(&[Value::Int4(id), Value::Int4(v)])
}

fn filled(log: &mut CountingLog) -> FormulaDatabase {
    let mut database = FormulaDatabase::new(Box::new(Empty), Policies::default(), Timestamp::ZERO);
    database.create_table(TABLE);
    let loader = database.begin(options());
    for id in 0..ROWS {
        assert_eq!(
            database.insert(loader, TABLE, key(id), row(id, 0)),
            Ok(Insertion::Inserted)
        );
    }
    database.commit(loader, None, log).expect("commits");
    database
}

/// Deletes a row, and commits.
fn delete(database: &mut FormulaDatabase, id: i32, log: &mut CountingLog) {
    let writer = database.begin(options());
    let read = database.read_for_update(writer, TABLE, key(id).as_bytes(), ColumnSet::ALL, OnBusy::Queue);
    read.expect("nobody is in the way");
    database.delete(writer, TABLE, key(id).as_bytes()).expect("deletes");
    database.commit(writer, None, log).expect("commits");
}

fn read(database: &mut FormulaDatabase, reader: TransactionId, id: i32) -> bool {
    let row = database.read(reader, TABLE, key(id).as_bytes(), ColumnSet::ALL);
    row.expect("reads").is_some()
}

/// Reads rows from one on, as long as they are below another one: as a scan in pieces does.
fn scan(database: &mut FormulaDatabase, reader: TransactionId, (from, below): (Bound<i32>, i32)) -> usize {
    let range = KeyRange {
        from: from.map(key),
        to: Bound::Excluded(key(below)),
    };
    scan_range(database, reader, &range)
}

fn scan_range(database: &mut FormulaDatabase, reader: TransactionId, range: &KeyRange) -> usize {
    let mut rows = 0;
    let mut visit = |_: &[u8], _: rubato_base::RowRef<'_>| {
        rows += 1;
        true
    };
    database
        .scan(reader, TABLE, range, false, ColumnSet::ALL, &mut visit)
        .expect("reads");
    rows
}

/// A reader that has begun before a row was deleted, if one was; and a place behind that.
fn begun_before(deleted: Option<i32>) -> (FormulaDatabase, TransactionId, Timestamp) {
    let mut log = CountingLog(0);
    let mut database = filled(&mut log);
    let reader = database.begin(options());
    if let Some(deleted) = deleted {
        delete(&mut database, deleted, &mut log);
    }
    let at = Timestamp(database.newest_place().0 + 1_000);
    (database, reader, at)
}

fn is_confirmed(database: &mut FormulaDatabase, reader: TransactionId, at: Timestamp) -> bool {
    match database.confirm_at(reader, at) {
        Ok(()) => true,
        Err(Stop::Abort(_)) => false,
        Err(stop) => panic!("{stop:?}"),
    }
}

#[test]
fn what_is_read_behind_what_was_confirmed_is_looked_at_too() {
    for (deleted, comes_out) in [(None, true), (Some(1), false), (Some(2), false)] {
        let (mut database, reader, at) = begun_before(deleted);
        assert!(read(&mut database, reader, 0));
        assert!(is_confirmed(&mut database, reader, at));
        assert!(read(&mut database, reader, 1) && read(&mut database, reader, 2));
        assert_eq!(is_confirmed(&mut database, reader, at), comes_out, "{deleted:?}");
    }
}

#[test]
fn a_scan_that_goes_on_is_looked_at_as_far_as_it_has_gone() {
    for (deleted, first, second) in [(None, true, true), (Some(1), false, false), (Some(3), true, false)] {
        let (mut database, reader, at) = begun_before(deleted);
        assert_eq!(scan(&mut database, reader, (Bound::Unbounded, 2)), 2);
        assert_eq!(is_confirmed(&mut database, reader, at), first, "{deleted:?}");
        if first {
            assert_eq!(scan(&mut database, reader, (Bound::Included(2), ROWS)), 3);
            assert_eq!(is_confirmed(&mut database, reader, at), second, "{deleted:?}");
        }
    }
}

/// At another place everything is looked at again.
#[test]
fn what_has_changed_since_it_was_confirmed_is_not_so_at_a_later_place() {
    let mut log = CountingLog(0);
    let mut database = filled(&mut log);
    let reader = database.begin(options());
    delete(&mut database, 4, &mut log);
    let at = Timestamp(database.newest_place().0 + 1_000);
    assert!(read(&mut database, reader, 1));
    assert!(is_confirmed(&mut database, reader, at));
    delete(&mut database, 1, &mut log);
    let later = Timestamp(database.newest_place().0 + 1_000);
    assert!(is_confirmed(&mut database, reader, at), "it is kept as it was there");
    assert!(!is_confirmed(&mut database, reader, later));
}

/// Whoever changes it comes to stand behind the place, whether it was read by its key, in a range, or with all rows at once.
#[test]
fn nobody_comes_to_stand_before_the_place_where_something_was_confirmed() {
    for way in 0..4 {
        let mut log = CountingLog(0);
        let mut database = filled(&mut log);
        let reader = database.begin(options());
        let global = GlobalId {
            tick: database.newest_place().next_tick(),
            coordinator: NodeId(1),
        };
        let at = Timestamp(global.tick.0 + 1_000);
        match way {
            0 => assert!(read(&mut database, reader, 1)),
            1 => assert_eq!(scan(&mut database, reader, (Bound::Unbounded, 3)), 3),
            2 => {
                // The second time it is longer.
                assert_eq!(scan(&mut database, reader, (Bound::Unbounded, 1)), 1);
                assert!(is_confirmed(&mut database, reader, at));
                assert_eq!(scan(&mut database, reader, (Bound::Included(1), 3)), 2);
            }
            _ => assert_eq!(scan_range(&mut database, reader, &KeyRange::WHOLE), 5),
        }
        assert!(is_confirmed(&mut database, reader, at), "{way}");
        let writer = database.begin_branch(global.tick, false);
        let read = database.read_for_update(writer, TABLE, key(1).as_bytes(), ColumnSet::ALL, OnBusy::Queue);
        read.expect("nobody is in the way");
        database.delete(writer, TABLE, key(1).as_bytes()).expect("deletes");
        let prepared = database.prepare(writer, global, &mut log).expect("prepares");
        assert!(prepared.floor > at, "{way}: {prepared:?}");
    }
}

/// However often and long a transaction reads, what is kept of it is bounded, and says of each change of what it has read that it was one.
#[test]
fn what_is_kept_of_many_reads_is_short_and_says_the_same() {
    const MANY: i32 = 300_000;
    for (rows, changed, holds) in [
        (1_000, Some(999), false),
        (MANY, Some(MANY - 1), false),
        (1_000, None, true),
    ] {
        let mut log = CountingLog(0);
        let mut database = filled(&mut log);
        let loader = database.begin(options());
        for id in ROWS..rows {
            assert_eq!(
                database.insert(loader, TABLE, key(id), row(id, 0)),
                Ok(Insertion::Inserted)
            );
        }
        database.commit(loader, None, &mut log).expect("commits");
        let reader = database.begin(options());
        for place in 0..3 * MANY / 2 {
            assert!(read(&mut database, reader, place % rows));
        }
        for place in 0..150_000 {
            let from = place % 1_000;
            let range = KeyRange {
                from: Bound::Included(key(from)),
                to: Bound::Included(key(from)),
            };
            assert_eq!(scan_range(&mut database, reader, &range), 1);
        }
        let (kept_rows, kept_ranges) = database.reads_kept(reader);
        assert!(
            kept_rows <= 1 << 18 && kept_ranges <= 1 << 16,
            "{kept_rows}, {kept_ranges}"
        );
        if let Some(changed) = changed {
            delete(&mut database, changed, &mut log);
        }
        let at = Timestamp(database.newest_place().0 + 1_000);
        assert_eq!(is_confirmed(&mut database, reader, at), holds, "{rows}");
    }
}

/// What takes the place of many reads of a table has the columns of former reads of the whole table, too.
#[test]
fn reads_of_a_whole_table_are_kept_when_many_rows_of_it_are_read_behind_them() {
    const MANY: i32 = 300_000;
    for (rows, ranges) in [(10, 10), (MANY, 0), (0, 70_000)] {
        for (written, holds) in [(1, false), (2, true)] {
            let mut log = CountingLog(0);
            let mut database = filled(&mut log);
            let loader = database.begin(options());
            for id in ROWS..MANY {
                let row = Row::from_values(&[id, 0, 0, 0].map(Value::Int4));
                let inserted = database.insert(loader, TABLE, key(id), row);
                assert_eq!(inserted, Ok(Insertion::Inserted));
            }
            database.commit(loader, None, &mut log).expect("commits");
            let reader = database.begin(options());
            scan_column(&mut database, reader, &KeyRange::WHOLE, 1);
            for id in 0..rows {
                let row = database.read(reader, TABLE, key(id).as_bytes(), ColumnSet::column(3));
                assert!(row.expect("reads").is_some());
            }
            for from in 0..ranges {
                let range = KeyRange {
                    from: Bound::Included(key(2 * from)),
                    to: Bound::Included(key(2 * from)),
                };
                scan_column(&mut database, reader, &range, 3);
            }
            set(&mut database, MANY - 1, written, &mut log);
            let at = Timestamp(database.newest_place().0 + 1_000);
            let confirmed = is_confirmed(&mut database, reader, at);
            assert_eq!(confirmed, holds, "{rows}, {ranges}: column {written}");
        }
    }
}

fn scan_column(database: &mut FormulaDatabase, reader: TransactionId, range: &KeyRange, column: usize) {
    let mut visit = |_: &[u8], _: rubato_base::RowRef<'_>| true;
    let columns = ColumnSet::column(column);
    let read = database.scan(reader, TABLE, range, false, columns, &mut visit);
    read.expect("reads");
}

/// Sets a column of a row, and commits.
fn set(database: &mut FormulaDatabase, id: i32, column: u16, log: &mut CountingLog) {
    let writer = database.begin(options());
    let change = ColumnFormula::set(column, ColumnType::plain(DataType::Int4), Value::Int4(1));
    let formula = Formula::new([change]).expect("a formula");
    let placed = database.update_blind(writer, TABLE, key(id).as_bytes(), formula, &RowBounds::default());
    assert_eq!(placed, Ok(BlindUpdate::Pending));
    database.commit(writer, None, log).expect("commits");
}
