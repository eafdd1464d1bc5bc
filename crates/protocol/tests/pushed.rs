//! What a node leaves out of a page, or makes groups of, is read all the same: whoever changes it is noticed as by a scan.

use rubato_base::{
    ColumnSet, ColumnType, DataType, Key, Lsn, Result, Row, SessionId, TableId, Timestamp, TransactionId, Value,
};
use rubato_formula::{Change, Comparison, Expr, Formula, PartialAggregate, PartialCall, resolve_aggregate};
use rubato_protocol::grid::{Answer, Operation, PAGE_LOOKED_AT_MAX, Sieve};
use rubato_protocol::{
    BeginOptions, CommitLog, CommitRecord, FormulaDatabase, KeyRange, OnBusy, Outcome, Policies, RowSource, Stop,
    StoredRow,
};
use std::ops::Bound;

/// Columns: id, v, note.
const TABLE: TableId = TableId(1);
const OTHER: TableId = TableId(2);
const V: u16 = 1;
const NOTE: u16 = 2;

struct NoStore;

impl RowSource for NoStore {
    fn get(&self, _: TableId, _: &[u8]) -> Result<Option<StoredRow>> {
        Ok(None)
    }

    fn scan(&self, _: TableId, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool, _: usize) -> Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }
}

struct NoLog;

impl CommitLog for NoLog {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        Ok(Lsn(1))
    }
}

fn key(id: i32) -> Key {
    Key::of(&[Value::Int4(id)])
}

fn read() -> ColumnSet {
    [0, usize::from(V)].into_iter().collect()
}

/// Rows of which `v` is 1000: none, so that nothing is sent.
fn sieve() -> Sieve {
    let column = Box::new(Expr::Column(usize::from(V)));
    let wanted = Box::new(Expr::Literal(Value::Int4(1000)));
    Sieve::new(vec![Expr::Compare(Comparison::Equal, column, wanted)], true)
}

fn page() -> Operation {
    Operation::Page {
        table: TABLE,
        range: KeyRange::WHOLE,
        reverse: false,
        columns: Some(read()),
        rows_max: 100,
        sieve: sieve(),
    }
}

/// How many rows have such a `v`.
fn aggregate() -> Operation {
    let count = resolve_aggregate("count", &[], false).expect("a type").expect("count");
    let call = PartialCall {
        aggregate: count,
        arguments: Vec::new(),
        filter: None,
    };
    Operation::Aggregate {
        table: TABLE,
        range: KeyRange::WHOLE,
        columns: read(),
        sieve: sieve(),
        aggregate: PartialAggregate::new(Vec::new(), vec![call]).expect("parts"),
        rows_max: 100,
    }
}

fn scan() -> Operation {
    Operation::Scan {
        table: TABLE,
        range: KeyRange::WHOLE,
        columns: read(),
    }
}

fn begin(database: &mut FormulaDatabase) -> TransactionId {
    database.begin(BeginOptions {
        session: SessionId(1),
        read_only: false,
    })
}

fn commit(database: &mut FormulaDatabase, id: TransactionId) {
    database.commit(id, None, &mut NoLog).expect("nobody is in the way");
}

fn filled(rows: i32) -> FormulaDatabase {
    let mut database = FormulaDatabase::new(Box::new(NoStore), Policies::default(), Timestamp::ZERO);
    database.create_table(TABLE);
    database.create_table(OTHER);
    let id = begin(&mut database);
    for (table, count) in [(TABLE, rows), (OTHER, 1)] {
        for number in 0..count {
            let row = Row::from_values(&[Value::Int4(number), Value::Int4(number), Value::Int4(0)]);
            database.insert(id, table, key(number), row).expect("inserts");
        }
    }
    commit(&mut database, id);
    database
}

fn set(database: &mut FormulaDatabase, table: TableId, column: u16) {
    let id = begin(database);
    let plain = ColumnType::plain(DataType::Int4);
    let formula = Formula::new([Change::set(column, plain, Value::Int4(77))]).expect("a formula");
    let read = database.read_for_update(id, table, key(0).as_bytes(), ColumnSet::EXISTENCE, OnBusy::Queue);
    read.expect("nobody is in the way");
    database
        .update(id, table, key(0).as_bytes(), formula)
        .expect("nobody is in the way");
    commit(database, id);
}

/// A transaction reads; others then do `between`, and change another row, which it reads to write: what it has read must hold there.
fn goes_on(operation: &Operation, between: &dyn Fn(&mut FormulaDatabase)) -> bool {
    let mut database = filled(20);
    let id = begin(&mut database);
    operation.run(&mut database, id).expect("nobody is in the way");
    between(&mut database);
    set(&mut database, OTHER, V);
    let read: Outcome<_> = database.read_for_update(id, OTHER, key(0).as_bytes(), ColumnSet::ALL, OnBusy::Queue);
    match read {
        Ok(_) => true,
        Err(Stop::Abort(_)) => false,
        Err(stop) => panic!("{stop:?}"),
    }
}

#[test]
fn what_was_left_out_was_read() {
    for operation in [scan(), page(), aggregate()] {
        assert!(goes_on(&operation, &|_| {}), "{operation:?}");
        // Of other columns nothing was read.
        assert!(
            goes_on(&operation, &|database| set(database, TABLE, NOTE)),
            "{operation:?}"
        );
        assert!(
            !goes_on(&operation, &|database| set(database, TABLE, V)),
            "{operation:?}"
        );
        let add = |database: &mut FormulaDatabase| {
            let id = begin(database);
            let row = Row::from_values(&[Value::Int4(100), Value::Int4(1), Value::Int4(0)]);
            database.insert(id, TABLE, key(100), row).expect("inserts");
            commit(database, id);
        };
        assert!(!goes_on(&operation, &add), "{operation:?}");
    }
}

#[test]
fn a_page_ends_when_enough_was_looked_at() {
    let rows = PAGE_LOOKED_AT_MAX as i32 + 10;
    let mut database = filled(rows);
    let id = begin(&mut database);
    let Ok(Answer::Page { rows, reached }) = page().run(&mut database, id) else {
        panic!("a page");
    };
    assert!(rows.len() <= 1);
    assert_eq!(reached, Some(key(PAGE_LOOKED_AT_MAX as i32 - 1)));
}
