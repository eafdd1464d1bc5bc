//! Rows that are large.

use crate::*;

#[test]
fn what_an_update_writes_counts_for_the_transaction() {
    let text = rubato_base::ColumnType::plain(rubato_base::DataType::Text);
    let long = "y".repeat(10_000);
    let written = [
        rubato_formula::Change::set(1, text, Value::text(&long)),
        // It comes to be as large as what was there.
        rubato_formula::Change::evaluate(1, text, rubato_formula::Expr::Column(1)),
    ];
    for change in written {
        let mut database = database(&Store::default());
        database.create_table(TABLE);
        insert_wide(&mut database, 50, &long);
        database.set_memory_limit(200_000);
        let set = rubato_formula::Formula::new([change]).expect("a formula");
        let id = begin(&mut database, false);
        let none = rubato_formula::RowBounds::None;
        let mut update = |number| database.update_blind(id, TABLE, key(number).as_bytes(), set.clone(), &none);
        let refused = (0..50).find_map(|number| match update(number) {
            Err(Stop::Fail(error)) => Some((number, error)),
            other => {
                other.expect("updates");
                None
            }
        });
        let (number, error) = refused.expect("there is a bound");
        assert_eq!(error.code().as_str(), "53200");
        assert!((5..10).contains(&number), "{number}");
        database.rollback(id);
        assert_eq!(database.pending_bytes(), 0);
    }
}

fn insert_wide(database: &mut FormulaDatabase, rows: i32, text: &str) {
    let id = begin(database, false);
    for number in 0..rows {
        let done = database.insert(id, TABLE, key(number), row(number, text));
        assert_eq!(done, Ok(Insertion::Inserted));
    }
    database.commit(id, None, &mut NoLog).expect("commits");
}

#[test]
fn large_rows_are_read_from_the_store_by_their_size() {
    let store = Store::default();
    let mut first = database(&store);
    first.create_table(TABLE);
    insert_wide(&mut first, 20, &"y".repeat(600_000));
    checkpoint(&mut first, &store);
    let mut second = database(&store);
    second.raise_clock(first.clock());
    second.open_table(TABLE);
    second.finish_recovery();
    store.0.lock().expect("lock").1 = 0;
    for reverse in [false, true] {
        assert_eq!(scan(&mut second, reverse, 1).len(), 1);
    }
    assert_eq!(store.0.lock().expect("lock").1, 4, "two for each");
    let all: Vec<i32> = (0..20).collect();
    assert_eq!(scan(&mut second, false, usize::MAX), all);
    assert_eq!(
        scan(&mut second, true, usize::MAX),
        all.iter().rev().copied().collect::<Vec<_>>()
    );
    while second.load_some(256, 6_000_000).expect("reads") {}
    let held = second.memory_bytes();
    assert!((6_000_000..7_300_000).contains(&held), "{held} bytes");
    while second.load_some(256, usize::MAX).expect("reads") {}
    store.0.lock().expect("lock").1 = 0;
    assert_eq!(scan(&mut second, false, usize::MAX), all);
    assert_eq!(store.0.lock().expect("lock").1, 0, "all are in memory");
}

/// What a snapshot keeps of a row counts for what it is, whatever the row has become, until nobody reads it.
#[test]
fn what_older_versions_hold_counts() {
    let text = rubato_base::ColumnType::plain(rubato_base::DataType::Text);
    let long = "y".repeat(10_000);
    for is_deleted in [false, true] {
        let store = Store::default();
        let mut database = database(&store);
        database.create_table(TABLE);
        insert_wide(&mut database, 20, &long);
        let reader = begin(&mut database, true);
        let read = database.read(reader, TABLE, key(0).as_bytes(), ColumnSet::ALL);
        assert!(read.expect("reads").is_some());
        for number in 0..20 {
            let id = begin(&mut database, false);
            let key = key(number);
            let read = database.read_for_update(id, TABLE, key.as_bytes(), ColumnSet::ALL, OnBusy::Queue);
            assert!(matches!(read, Ok(OrderedRead::Row(Some(_)))));
            let short = rubato_formula::Change::set(1, text, Value::text("z"));
            let short = rubato_formula::Formula::new([short]).expect("a formula");
            let changed = match is_deleted {
                true => database.delete(id, TABLE, key.as_bytes()),
                false => database.update(id, TABLE, key.as_bytes(), short),
            };
            changed.expect("changes");
            database.commit(id, None, &mut NoLog).expect("commits");
        }
        let held = database.memory_bytes();
        assert!((200_000..220_000).contains(&held), "{held} bytes");
        checkpoint(&mut database, &store);
        assert!(!database.evict(100_000), "the reader is there");
        database.rollback(reader);
        while !database.evict(0) && !database.nothing_may_leave() {}
        let held = database.memory_bytes();
        assert!(held < 10_000, "{held} bytes");
    }
}

/// A database of 16 MiB whose store has each row as soon as it is given.
fn laying() -> (FormulaDatabase, rubato_base::TransactionId) {
    let store = Slow::default();
    *store.0.lock().expect("lock") = 1;
    let mut database = FormulaDatabase::new(Box::new(store), Policies::default(), Timestamp::ZERO);
    database.set_memory_limit(MEMORY_BYTES);
    let id = begin(&mut database, false);
    database.create_private_table(TABLE);
    (database, id)
}

const MEMORY_BYTES: usize = 16 << 20;

fn lay(database: &mut FormulaDatabase, id: rubato_base::TransactionId, number: i32, text: &str) {
    let laid = database.lay_row(id, TABLE, key(number), row(number, text));
    assert!(laid.expect("lays"), "{number}");
}

/// Whoever lays large rows is not held back for memory that he alone can give.
#[test]
fn large_rows_that_are_laid_leave_memory_before_it_is_full() {
    let (mut database, id) = laying();
    assert!(database.lay_down(&[TABLE]));
    let text = "y".repeat(100_000);
    for number in 0..500 {
        lay(&mut database, id, number, &text);
        (0..20).any(|_| database.evict(MEMORY_BYTES / 4));
        let held = database.memory_bytes();
        assert!(held <= MEMORY_BYTES / 4, "{number}: {held} bytes");
    }
}

/// What is too little to be given by itself is given where memory is full of other things.
#[test]
fn what_was_laid_leaves_where_memory_is_full() {
    let (mut database, id) = laying();
    assert!(database.lay_down(&[TABLE]));
    for number in 0..5 {
        lay(&mut database, id, number, &"y".repeat(100_000));
    }
    assert!(database.memory_bytes() > 500_000);
    assert!(
        (0..20).any(|_| database.evict(100_000)),
        "{} bytes",
        database.memory_bytes()
    );
}

/// Few large rows are much, too: they do not stay in memory.
#[test]
fn large_rows_are_laid_down_although_they_are_few() {
    let text = "y".repeat(100_000);
    for (tables, rows, is_laid_down) in [(1, 5, false), (1, 20, true), (5, 5, true)] {
        let (mut database, id) = laying();
        let tables: Vec<TableId> = (0..tables).map(|number| TableId(TABLE.0 + number)).collect();
        for table in &tables {
            database.create_private_table(*table);
            database.lay_out(*table, TableId(1000));
            for number in 0..rows {
                let laid = database.lay_row(id, *table, key(number), row(number, &text));
                assert!(laid.expect("lays"), "{number}");
            }
        }
        let down = tables.iter().any(|table| database.is_laid_down(*table));
        assert_eq!(down, is_laid_down, "{} tables, {rows} rows", tables.len());
    }
}
