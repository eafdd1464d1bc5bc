//! What a client was told stays true when it goes back to a savepoint.

mod doubles;

use doubles::{CountingLog, Empty, options};
use rubato_base::{ColumnSet, Key, Row, TableId, TransactionId, Value};
use rubato_protocol::{FormulaDatabase, Insertion, Policies, Stop};

const TABLE: TableId = TableId(1);

fn key(id: i32) -> Key {
    Key::of(&[Value::Int4(id)])
}

fn begin(database: &mut FormulaDatabase) -> TransactionId {
    database.begin(options())
}

fn insert(database: &mut FormulaDatabase, transaction: TransactionId, id: i32) {
    let row = Row::from_values(&[Value::Int4(id)]);
    let inserted = database.insert(transaction, TABLE, key(id), row);
    assert_eq!(inserted, Ok(Insertion::Inserted));
}

/// `first` is told that key 1 is free and goes back to its savepoint. `second` takes the key, and sees nothing of key 2, so it
/// stands both behind and before `first`, once that has inserted key 2: there is no order.
#[test]
fn that_a_key_was_free_is_protected_after_its_insert_was_taken_back() {
    let mut database = FormulaDatabase::new(Box::new(Empty), Policies::default(), rubato_base::Timestamp::ZERO);
    database.create_table(TABLE);
    let mut log = CountingLog(0);
    let first = begin(&mut database);
    let savepoint = database.savepoint(first);
    insert(&mut database, first, 1);
    database.rollback_to(first, savepoint);
    let second = begin(&mut database);
    insert(&mut database, second, 1);
    let seen = database.read(second, TABLE, key(2).as_bytes(), ColumnSet::ALL);
    assert!(seen.expect("reads").is_none());
    database.commit(second, None, &mut log).expect("commits");
    insert(&mut database, first, 2);
    assert!(matches!(database.commit(first, None, &mut log), Err(Stop::Abort(_))));
}

/// Nothing else of a statement that was taken back is held against its transaction.
#[test]
fn who_took_back_an_insert_and_stands_before_the_next_one_commits() {
    let mut database = FormulaDatabase::new(Box::new(Empty), Policies::default(), rubato_base::Timestamp::ZERO);
    database.create_table(TABLE);
    let mut log = CountingLog(0);
    let first = begin(&mut database);
    let savepoint = database.savepoint(first);
    insert(&mut database, first, 1);
    database.rollback_to(first, savepoint);
    let second = begin(&mut database);
    insert(&mut database, second, 1);
    database.commit(second, None, &mut log).expect("commits");
    insert(&mut database, first, 2);
    database
        .commit(first, None, &mut log)
        .expect("it stands before the second");
}
