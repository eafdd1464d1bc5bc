//! Sums under limits as clients see them: nobody waits while there is plenty, the last unit is sold once, and a limit that would be
//! broken is told at the statement, whoever commits first, also behind savepoints and a restart.

use rubato_base::{Error, Value};
use rubato_embedded::{Database, Options, Session};
use std::time::{Duration, Instant};

const TABLE: &str = "create table stock (item int primary key, qty int not null check (qty >= 0), sold int not null check (sold <= 1000))";
const SELL: &str = "update stock set qty = qty - 1, sold = sold + 1 where item = 1";

fn session(database: &Database) -> Session {
    database.session().expect("a session")
}

fn opened(place: &tempfile::TempDir) -> Database {
    Database::open(place.path(), Options::default()).expect("opens")
}

fn values(session: &mut Session, sql: &str) -> Vec<Value> {
    session.query(sql).expect("reads").rows.remove(0)
}

fn waits(database: &Database) -> u64 {
    database.node().figures().protocol.waits.iter().sum()
}

fn aborts(database: &Database) -> u64 {
    database.node().figures().protocol.aborts.iter().sum()
}

#[test]
fn nobody_waits_while_there_is_plenty_in_whatever_order_they_end() {
    let place = tempfile::tempdir().expect("a folder");
    let database = opened(&place);
    let mut admin = session(&database);
    admin.execute(TABLE).expect("makes");
    admin.execute("insert into stock values (1, 200, 0)").expect("fills");
    // One thread: whoever waited would hang the test.
    let mut sellers: Vec<Session> = (0..64).map(|_| session(&database)).collect();
    for seller in &mut sellers {
        seller.execute("begin").expect("begins");
        seller.execute(SELL).expect("sells");
        seller.execute("savepoint one").expect("saves");
        seller.execute(SELL).expect("sells another");
    }
    for (number, seller) in sellers.iter_mut().enumerate().rev() {
        match number % 4 {
            0 => seller.execute("rollback"),
            1 => seller.execute("rollback to one").and_then(|_| seller.execute("commit")),
            _ => seller.execute("commit"),
        }
        .expect("ends");
    }
    assert_eq!((waits(&database), aborts(&database)), (0, 0));
    let sold = 16 + 32 * 2;
    let expected = vec![Value::Int4(200 - sold), Value::Int4(sold)];
    assert_eq!(values(&mut admin, "select qty, sold from stock"), expected);
}

#[test]
fn the_last_unit_is_sold_once_and_a_restart_finds_it_so() {
    let place = tempfile::tempdir().expect("a folder");
    let database = opened(&place);
    let mut admin = session(&database);
    admin.execute(TABLE).expect("makes");
    admin.execute("insert into stock values (1, 300, 0)").expect("fills");
    let (told, refusals) = std::thread::scope(|scope| {
        let sellers: Vec<_> = (0..16)
            .map(|_| {
                let mut seller = session(&database);
                scope.spawn(move || {
                    let mut told = 0;
                    loop {
                        match seller.execute(SELL) {
                            Ok(_) => told += 1,
                            Err(error) => return (told, error),
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<(i32, Error)> = sellers.into_iter().map(|it| it.join().expect("no panic")).collect();
        let told: i32 = ended.iter().map(|(told, _)| told).sum();
        (told, ended.into_iter().map(|(_, error)| error).collect::<Vec<_>>())
    });
    assert_eq!(told, 300);
    for error in refusals {
        let message = "new row for relation \"stock\" violates check constraint \"stock_qty_check\"";
        assert_eq!((error.code().as_str(), error.message()), ("23514", message));
        assert_eq!(
            error.fields().detail.as_deref(),
            Some("Failing row contains (1, -1, 301).")
        );
    }
    assert_eq!(aborts(&database), 0, "who is refused by the limit is not aborted");
    drop(admin);
    drop(database);
    let database = opened(&place);
    let mut admin = session(&database);
    let expected = vec![Value::Int4(0), Value::Int4(300)];
    assert_eq!(values(&mut admin, "select qty, sold from stock"), expected);
    let error = admin.execute(SELL).expect_err("there is none left");
    assert_eq!(error.code().as_str(), "23514");
}

/// Two transactions run the same statement; the second has to wait for the first, which then ends with `end`. What the
/// second's statement and its commit gave.
fn second_after(database: &Database, statement: &str, end: &str) -> (Option<Error>, Option<Error>) {
    let mut first = session(database);
    first.execute("begin").expect("begins");
    first.execute(statement).expect("the first fits");
    let before = waits(database);
    let mut second = session(database);
    std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            second.execute("begin").expect("begins");
            let told = second.execute(statement).err();
            (told, second.execute("commit").err())
        });
        let begun = Instant::now();
        while waits(database) == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "the second never waits");
            std::thread::sleep(Duration::from_millis(1));
        }
        first.execute(end).expect("ends");
        second.join().expect("no panic")
    })
}

#[test]
fn what_would_fail_fails_at_the_statement_and_never_after_commit() {
    let place = tempfile::tempdir().expect("a folder");
    let database = opened(&place);
    let mut admin = session(&database);
    let tables = "create table t (id int primary key, near_end int, small numeric(4,2), share int, divisor int, tag varchar(8), bounded numeric(6,1) check (bounded between 0 and 10))";
    admin.execute(tables).expect("makes");
    let fill = "insert into t values (1, 2147483646, 99.00, 10, 1, 'abcd', 6)";
    admin.execute(fill).expect("fills");
    let cases = [
        ("update t set near_end = near_end + 1 where id = 1", "22003"),
        ("update t set small = small + 0.60 where id = 1", "22003"),
        (
            "update t set share = share / divisor, divisor = divisor - 1 where id = 1",
            "22012",
        ),
        ("update t set tag = tag || 'wxyz' where id = 1", "22001"),
        ("update t set bounded = bounded - 4 where id = 1", "23514"),
        ("update t set bounded = bounded + 3 where id = 1", "23514"),
    ];
    for (statement, code) in cases {
        for end in ["rollback", "commit"] {
            let (told, at_commit) = second_after(&database, statement, end);
            assert_eq!(at_commit, None, "{statement}, {end}");
            let told = told.map(|error| error.code().as_str().to_owned());
            let expected = (end == "commit").then(|| code.to_owned());
            assert_eq!(told, expected, "{statement}, {end}");
            admin.execute("delete from t").expect("empties");
            admin.execute(fill).expect("fills");
        }
    }
    assert_eq!(aborts(&database), 0);
}
