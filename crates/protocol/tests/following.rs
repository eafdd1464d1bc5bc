//! Who has read through the formulas of others falls with them, and is told so before anything else.

mod doubles;

use doubles::{CountingLog, Empty, options};
use rubato_base::{ColumnSet, Key, Row, TableId, Timestamp, TransactionId, Value};
use rubato_protocol::{FormulaDatabase, Insertion, OnBusy, OrderedRead, Policies, QueuePolicy, Stop};

const TABLE: TableId = TableId(1);

fn key(id: i32) -> Key {
    Key::of(&[Value::Int4(id)])
}

fn begin(database: &mut FormulaDatabase) -> TransactionId {
    database.begin(options())
}

fn read_to_write(database: &mut FormulaDatabase, transaction: TransactionId, id: i32) -> Option<Row> {
    let read = database.read_for_update(transaction, TABLE, key(id).as_bytes(), ColumnSet::ALL, OnBusy::Queue);
    match read.expect("reads through what stands before") {
        OrderedRead::Row(row) => row,
        OrderedRead::Busy => panic!("nobody asked whether it is busy"),
    }
}

/// Rule A-1. Rows 1 and 2 are there; `owner` deletes row 1, `follower` reads through that. When `owner` goes back, `follower` has
/// seen what never was: whatever it asks next, even of another row, is refused, and it need not come as far as its commit.
#[test]
fn who_has_read_through_what_is_rolled_back_is_refused_whatever_he_asks_next() {
    let policies = Policies {
        queue: QueuePolicy::Pipeline,
        ..Policies::default()
    };
    let mut database = FormulaDatabase::new(Box::new(Empty), policies, Timestamp::ZERO);
    database.create_table(TABLE);
    let mut log = CountingLog(0);
    let loader = begin(&mut database);
    for id in [1, 2] {
        let row = Row::from_values(&[Value::Int4(id)]);
        let inserted = database.insert(loader, TABLE, key(id), row);
        assert_eq!(inserted, Ok(Insertion::Inserted));
    }
    database.commit(loader, None, &mut log).expect("commits");

    let owner = begin(&mut database);
    assert!(read_to_write(&mut database, owner, 1).is_some());
    database.delete(owner, TABLE, key(1).as_bytes()).expect("deletes");
    let follower = begin(&mut database);
    assert!(read_to_write(&mut database, follower, 1).is_none(), "reads through");
    let bystander = begin(&mut database);
    assert!(read_to_write(&mut database, bystander, 2).is_some());

    database.rollback(owner);
    let asked = database.read(follower, TABLE, key(2).as_bytes(), ColumnSet::ALL);
    match asked.map(|row| row.is_some()) {
        Err(Stop::Abort(error)) => assert!(error.to_string().contains("read through"), "{error}"),
        other => panic!("it goes on with what never was: {other:?}"),
    }
    let committed = database.commit(follower, None, &mut log);
    assert!(matches!(committed, Err(Stop::Abort(_))));
    database.rollback(follower);
    database
        .commit(bystander, None, &mut log)
        .expect("who has not read through it commits");
    let later = begin(&mut database);
    assert!(
        read_to_write(&mut database, later, 1).is_some(),
        "the row was never deleted"
    );
}
