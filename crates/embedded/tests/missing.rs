//! Columns that are added with a default, over a folder: rows that are in the store alone, kept columns, crashes.

use rubato_base::Value;
use rubato_embedded::{Database, Options, Session, check};

const ROWS: usize = 60_000;

fn opened(folder: &tempfile::TempDir) -> Database {
    let mut options = Options::default();
    options.node.memory_bytes = 64 << 20;
    Database::open(folder.path(), options).expect("opens")
}

fn run(session: &mut Session, sql: &str) {
    session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn shown(session: &mut Session, sql: &str) -> Vec<Vec<Value>> {
    let found = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    found.rows
}

fn numbers(session: &mut Session, sql: &str) -> Vec<i64> {
    let rows = shown(session, sql);
    rows[0].iter().map(|value| value.as_i64().expect("a number")).collect()
}

/// A folder with a table whose rows are in the store.
fn make(folder: &tempfile::TempDir) {
    let database = opened(folder);
    let mut session = database.session().expect("a session");
    run(
        &mut session,
        "create table t (id int primary key, n int not null, filler text)",
    );
    for first in (0..ROWS).step_by(1_000) {
        let fill = format!(
            "insert into t select i, i % 10, repeat('x', 100) from generate_series({first}, {}) i",
            first + 999
        );
        run(&mut session, &fill);
    }
    run(&mut session, "checkpoint");
}

#[test]
fn rows_in_the_store_have_it_also_after_crashes() {
    let folder = tempfile::tempdir().expect("a folder");
    make(&folder);
    let mut database = opened(&folder);
    let mut session = database.session().expect("a session");
    run(&mut session, "alter table t add column c int not null default 7");
    run(
        &mut session,
        "begin; alter table t add column gone int default 1; update t set gone = 2 where id < 100; rollback",
    );
    run(
        &mut session,
        "alter table t add column s text default 'late'; create index on t (c, id)",
    );
    run(
        &mut session,
        "update t set c = c + n where id % 1000 = 3; update t set n = 0, s = null where id = 4",
    );
    let (sum, count) = (7 * ROWS as i64 + 3 * (ROWS as i64 / 1000), ROWS as i64);
    for round in 0..4 {
        assert_eq!(
            numbers(&mut session, "select sum(c), count(s) from t"),
            [sum, count - 1],
            "round {round}"
        );
        assert_eq!(
            numbers(&mut session, "select count(*) from t where c = 10"),
            [ROWS as i64 / 1000]
        );
        assert_eq!(numbers(&mut session, "select c from t where id = 59003"), [10]);
        let row = [Value::Int4(0), Value::Int4(7), Value::Null];
        assert_eq!(shown(&mut session, "select n, c, s from t where id = 4"), [row]);
        let late = [Value::Int4(7), Value::text("late")];
        assert_eq!(
            shown(&mut session, "select c, s from t order by id desc limit 1"),
            [late]
        );
        // Killed; and, once, after a checkpoint, which stores rows as they are.
        if round == 1 {
            run(&mut session, "checkpoint");
        }
        drop(session);
        drop(database);
        let report = check(folder.path()).expect("whole");
        assert_eq!((report.rows, report.index_entries), (ROWS as u64, ROWS as u64));
        database = opened(&folder);
        session = database.session().expect("a session");
    }
}

#[cfg(feature = "analytics")]
#[test]
fn kept_columns_are_of_the_column_that_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::default();
    options.node.analytics = Some(std::sync::Arc::new(rubato_analytics::DataFusion::new(8 << 20)));
    let database = Database::open(folder.path(), options).expect("opens");
    let (mut session, mut other) = (database.session().expect("one"), database.session().expect("one"));
    run(&mut session, "create table t (id int primary key, n int not null)");
    run(
        &mut session,
        "insert into t select i, i % 10 from generate_series(1, 30000) i",
    );
    run(&mut session, "set rubato.analytics = on");
    run(&mut other, "set rubato.analytics = on");
    let all = |session: &mut Session, columns: &str| -> Vec<i64> {
        let mut found = Vec::new();
        // From the third time on they are kept.
        for _ in 0..4 {
            found = numbers(session, &format!("select {columns} from t"));
        }
        found
    };
    assert_eq!(all(&mut session, "sum(n), count(*)"), [135_000, 30_000]);
    run(&mut session, "begin; alter table t add column c int default 7");
    assert_eq!(all(&mut session, "sum(n), sum(c)"), [135_000, 210_000]);
    assert_eq!(all(&mut other, "sum(n), count(*)"), [135_000, 30_000]);
    run(&mut session, "rollback; begin; alter table t add column c int");
    assert_eq!(all(&mut session, "sum(n), count(c)"), [135_000, 0]);
    run(&mut session, "rollback; alter table t add column c int default 9");
    assert_eq!(all(&mut other, "sum(n), sum(c)"), [135_000, 270_000]);
    run(&mut session, "update t set c = c + 1 where id <= 10");
    assert_eq!(all(&mut other, "sum(n), sum(c)"), [135_000, 270_010]);
    run(
        &mut session,
        "alter table t drop column c; alter table t add column c int default 1",
    );
    assert_eq!(all(&mut other, "sum(n), sum(c)"), [135_000, 30_000]);
}
