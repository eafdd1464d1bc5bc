//! Storage that a schema change has made, or replaced, among snapshots older and newer than it.

mod doubles;

use doubles::{CountingLog, Empty, options};
use rubato_base::{ColumnSet, GlobalId, Key, NodeId, Row, TableId, Timestamp, TransactionId, Value};
use rubato_protocol::{FormulaDatabase, Insertion, Outcome, Policies, Stop};

const OLD: TableId = TableId(1);
const NEW: TableId = TableId(2);
const COUNTER: TableId = TableId(3);

fn key() -> Key {
    Key::of(&[Value::Int4(1)])
}

fn row() -> Row {
    Row::from_values(&[Value::Int4(7)])
}

/// A database with one row in the old storage, and one in the table beside it.
fn filled(log: &mut CountingLog) -> FormulaDatabase {
    let mut database = FormulaDatabase::new(Box::new(Empty), Policies::default(), Timestamp::ZERO);
    let loader = database.begin(options());
    for table in [OLD, COUNTER] {
        database.create_table(table);
        assert_eq!(database.insert(loader, table, key(), row()), Ok(Insertion::Inserted));
    }
    database.commit(loader, None, log).expect("commits");
    database
}

fn reads(database: &mut FormulaDatabase, reader: TransactionId, table: TableId) -> Outcome<bool> {
    let row = database.read(reader, table, key().as_bytes(), ColumnSet::ALL)?;
    Ok(row.is_some())
}

fn is_refused(read: Outcome<bool>) -> bool {
    matches!(read, Err(Stop::Abort(error)) if error.to_string().contains("made anew"))
}

/// Rule R-7, of a change that has committed here.
#[test]
fn storage_is_read_from_the_commit_that_made_it_to_the_one_that_replaced_it() {
    let mut log = CountingLog(0);
    let mut database = filled(&mut log);
    let before = database.begin(options());
    let change = database.begin(options());
    database.define(change);
    database.create_private_table(NEW);
    assert_eq!(database.insert(change, NEW, key(), row()), Ok(Insertion::Inserted));
    database.commit(change, None, &mut log).expect("commits");
    database.publish_table(NEW);
    database.note_replaced(OLD, database.newest_place());
    let behind = database.begin(options());
    assert_eq!(reads(&mut database, before, OLD), Ok(true));
    assert!(
        is_refused(reads(&mut database, before, NEW)),
        "its rows are not there yet"
    );
    assert!(
        is_refused(reads(&mut database, behind, OLD)),
        "its rows are those of before"
    );
    assert_eq!(reads(&mut database, behind, NEW), Ok(true));
}

/// Rule R-7, of one that is prepared: whether it comes to stand below a newer snapshot is not known.
#[test]
fn who_reads_what_a_prepared_change_may_replace_below_waits_for_its_outcome() {
    let mut log = CountingLog(0);
    for commits in [true, false] {
        let mut database = filled(&mut log);
        let tick = database.clock().next_tick();
        let change = database.begin_branch(tick, false);
        database.define(change);
        database.close_tables(change, &[OLD]).expect("closed");
        assert_eq!(
            database.insert(change, COUNTER, Key::of(&[Value::Int4(2)]), row()),
            Ok(Insertion::Inserted)
        );
        let before = database.begin(options());
        let global = GlobalId {
            tick,
            coordinator: NodeId(1),
        };
        let prepared = database.prepare(change, global, &mut log).expect("prepared");
        let began = database.snapshot(before).expect("its snapshot");
        assert!(
            prepared.floor > began,
            "it stands above whoever has begun here (rule C-8)"
        );
        assert_eq!(reads(&mut database, before, OLD), Ok(true), "it reads below");
        let behind = database.begin(options());
        assert!(matches!(reads(&mut database, behind, OLD), Err(Stop::Wait(_))));
        assert_eq!(reads(&mut database, behind, COUNTER), Ok(true), "that is another table");
        if commits {
            database
                .commit_at(change, global, prepared.floor, &mut log)
                .expect("commits");
            database.note_replaced(OLD, prepared.floor);
            assert!(is_refused(reads(&mut database, behind, OLD)));
            assert_eq!(reads(&mut database, before, OLD), Ok(true));
        } else {
            database.roll_back_branch(change, global, &mut log);
            assert_eq!(reads(&mut database, behind, OLD), Ok(true));
        }
    }
}
