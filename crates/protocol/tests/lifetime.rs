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

fn other_key() -> Key {
    Key::of(&[Value::Int4(2)])
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

/// Rule R-8: a change that leaves the table its storage, and gives it another name, or other columns.
#[test]
fn who_may_know_a_table_as_it_was_does_not_read_it_behind_its_change() {
    let mut log = CountingLog(0);
    let mut database = filled(&mut log);
    let rename = |database: &mut FormulaDatabase, log: &mut CountingLog, until: Timestamp| {
        let change = database.begin(options());
        database.define(change);
        assert_eq!(database.insert(change, NEW, key(), row()), Ok(Insertion::Inserted));
        database.commit(change, None, log).expect("commits");
        database.note_redefined(OLD, database.newest_place(), until);
    };
    database.create_table(NEW);
    // Here all who begin afterwards know it.
    let before = database.begin(options());
    assert_eq!(reads(&mut database, before, OLD), Ok(true));
    rename(&mut database, &mut log, Timestamp::ZERO);
    let behind = database.begin(options());
    assert_eq!(reads(&mut database, behind, OLD), Ok(true));
    assert_eq!(reads(&mut database, before, OLD), Ok(true), "he stands before it");
    // He would stand behind it, where what he has read is said of another table.
    let missing = database.read(behind, COUNTER, other_key().as_bytes(), ColumnSet::ALL);
    assert!(missing.expect("read").is_none());
    assert_eq!(
        database.insert(before, COUNTER, other_key(), row()),
        Ok(Insertion::Inserted)
    );
    let refused = database.commit(before, None, &mut log);
    assert!(matches!(refused, Err(Stop::Abort(_))), "{refused:?}");
}

/// Rule R-8, of a change of which other nodes have not heard.
#[test]
fn who_may_not_have_heard_of_a_change_does_not_read_the_table_behind_it() {
    let mut log = CountingLog(0);
    let mut database = filled(&mut log);
    let before = database.begin(options());
    let change = database.begin(options());
    database.define(change);
    assert_eq!(
        database.insert(change, COUNTER, other_key(), row()),
        Ok(Insertion::Inserted)
    );
    database.commit(change, None, &mut log).expect("commits");
    database.note_redefined(OLD, database.newest_place(), Timestamp::MAX);
    let unknowing = database.begin(options());
    let is_refused =
        |read: Outcome<bool>| matches!(read, Err(Stop::Abort(error)) if error.to_string().contains("was changed"));
    assert_eq!(reads(&mut database, before, OLD), Ok(true), "he stands before it");
    assert!(is_refused(reads(&mut database, unknowing, OLD)));
    assert_eq!(
        reads(&mut database, unknowing, COUNTER),
        Ok(true),
        "that is another table"
    );
    database.settle_redefined(database.clock());
    let knowing = database.begin(options());
    assert_eq!(reads(&mut database, knowing, OLD), Ok(true));
    assert!(is_refused(reads(&mut database, unknowing, OLD)));
}

/// Rules, of a change that has committed here and is to be carried out behind what came with its decision.
#[test]
fn who_comes_with_the_decision_of_a_change_does_not_read_the_table_behind_it() {
    let mut log = CountingLog(0);
    let mut database = filled(&mut log);
    let tick = database.clock().next_tick();
    let change = database.begin_branch(tick, false);
    database.define(change);
    database.close_tables(change, &[OLD]).expect("closed");
    database.attach_to_session(change, vec![1], &[], &[]).expect("attached");
    let before = database.begin(options());
    let global = GlobalId {
        tick,
        coordinator: NodeId(1),
    };
    let prepared = database.prepare(change, global, &mut log).expect("prepared");
    let behind = database.begin(options());
    database
        .commit_at(change, global, prepared.floor, &mut log)
        .expect("commits");
    assert!(matches!(reads(&mut database, behind, OLD), Err(Stop::Abort(_))));
    assert_eq!(reads(&mut database, before, OLD), Ok(true), "he stands before it");
    assert_eq!(reads(&mut database, behind, COUNTER), Ok(true), "that is another table");
    assert_eq!(database.take_ended_definitions().len(), 1);
    assert_eq!(reads(&mut database, behind, OLD), Ok(true), "it changed nothing of it");
}
