//! Storage that a schema change has made, or replaced, among snapshots older and newer than it.

use rubato_base::{
    ColumnSet, GlobalId, Key, Lsn, NodeId, Result, Row, SessionId, TableId, Timestamp, TransactionId, Value,
};
use rubato_protocol::{
    BeginOptions, CommitLog, CommitRecord, DecisionRecord, FormulaDatabase, Insertion, Outcome, Policies,
    PrepareRecord, RowSource, Stop, StoredRow,
};
use std::ops::Bound;

const OLD: TableId = TableId(1);
const NEW: TableId = TableId(2);
const COUNTER: TableId = TableId(3);

/// A store without rows.
struct Empty;

impl RowSource for Empty {
    fn get(&self, _: TableId, _: &[u8]) -> Result<Option<StoredRow>> {
        Ok(None)
    }

    fn scan(&self, _: TableId, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool, _: usize) -> Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }
}

/// A log that keeps nothing.
struct NoLog(u64);

impl NoLog {
    fn next(&mut self) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
}

impl CommitLog for NoLog {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        self.next()
    }

    fn append_prepare(&mut self, _: &PrepareRecord<'_>) -> Result<Lsn> {
        self.next()
    }

    fn append_decision(&mut self, _: &DecisionRecord<'_>) -> Result<Lsn> {
        self.next()
    }
}

fn key() -> Key {
    Key::of(&[Value::Int4(1)])
}

fn row() -> Row {
    Row::from_values(&[Value::Int4(7)])
}

fn options() -> BeginOptions {
    BeginOptions {
        session: SessionId(1),
        read_only: false,
    }
}

/// A database with one row in the old storage, and one in the table beside it.
fn filled(log: &mut NoLog) -> FormulaDatabase {
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
    let mut log = NoLog(0);
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
    let mut log = NoLog(0);
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
