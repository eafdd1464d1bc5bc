//! What is shown of hot items, where one transaction has done much.

mod doubles;

use doubles::{CountingLog, Empty, options};
use rubato_base::{ColumnSet, Key, Row, TableId, Timestamp, Value};
use rubato_protocol::{FormulaDatabase, Insertion, OnBusy, Policies};
use std::time::{Duration, Instant};

const READ: TableId = TableId(1);
const LOCKED: TableId = TableId(2);
const ROWS: i32 = 170_000;
const LOCKS: i32 = 90_000;

fn key(id: i32) -> Key {
    Key::of(&[Value::Int4(id)])
}

/// Whoever asks holds the partition: with each read looked for among all locks this took a minute.
#[test]
fn items_that_one_transaction_has_locked_are_shown_however_much_it_has_read() {
    let mut database = FormulaDatabase::new(Box::new(Empty), Policies::default(), Timestamp::ZERO);
    let mut log = CountingLog(0);
    let loader = database.begin(options());
    for (table, rows) in [(READ, ROWS), (LOCKED, LOCKS)] {
        database.create_table(table);
        for id in 0..rows {
            let inserted = database.insert(loader, table, key(id), Row::from_values(&[Value::Int4(id)]));
            assert_eq!(inserted, Ok(Insertion::Inserted));
        }
    }
    database.commit(loader, None, &mut log).expect("commits");
    let batch = database.begin(options());
    for id in 0..ROWS {
        let row = database.read(batch, READ, key(id).as_bytes(), ColumnSet::ALL);
        assert!(row.expect("reads").is_some());
    }
    for id in 0..LOCKS {
        let read = database.read_for_update(batch, LOCKED, key(id).as_bytes(), ColumnSet::ALL, OnBusy::Queue);
        read.expect("nobody is in the way");
    }
    let began = Instant::now();
    let hot = database.hot_items();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!((1..10_000).contains(&hot.len()), "{}", hot.len());
    for ((table, key), item) in hot {
        assert!(table == LOCKED && key.is_some());
        assert_eq!((item.transactions, item.queue, item.pending), (1, 1, 0));
    }
}
