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
    let tables = "create table t (id int primary key, near_end int, small numeric(4,2), share int, divisor int, tag varchar(8), bounded numeric(6,1) check (bounded between 0 and 10), d float8, r real, spare float8 check (spare >= 0))";
    admin.execute(tables).expect("makes");
    let fill = "insert into t values (1, 2147483646, 99.00, 10, 1, 'abcd', 6, 1e308, 2e38, 6)";
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
        // What is no sum, and sums of floats.
        ("update t set small = small + 0.60::float8 where id = 1", "22003"),
        ("update t set small = small - -0.60::float8 where id = 1", "22003"),
        ("update t set near_end = near_end + 0.6::float8 where id = 1", "22003"),
        ("update t set bounded = bounded - 4::float8 where id = 1", "23514"),
        ("update t set bounded = bounded * 1.5 where id = 1", "23514"),
        ("update t set spare = spare - 4 where id = 1", "23514"),
        ("update t set d = d + 5e307 where id = 1", "22003"),
        ("update t set d = d * 1.5 where id = 1", "22003"),
        ("update t set r = r + 1e38 where id = 1", "22003"),
        ("update t set share = share * 40000 where id = 1", "22003"),
        (
            "update t set share = coalesce(share, 0) * 1000000 + 2000000000 where id = 1",
            "22003",
        ),
        (
            "update t set near_end = case when share > 3 then near_end + 1 else near_end - 1 end where id = 1",
            "22003",
        ),
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

/// Sums of floats, products and CASE, far from the limits: one thread, so that whoever waited would hang the test.
#[test]
fn what_is_no_plain_sum_waits_for_nobody_either_and_comes_to_what_one_after_the_other_gives() {
    let place = tempfile::tempdir().expect("a folder");
    let database = opened(&place);
    let mut admin = session(&database);
    let table = "create table w (id int primary key, ytd numeric(12,2) not null, bal float8, quantity int, seen timestamptz, note varchar(20))";
    admin.execute(table).expect("makes");
    admin
        .execute("insert into w values (1, 300000.00, 10.1, 50, null, 'x')")
        .expect("fills");
    let statements = [
        "update w set ytd = ytd + 10.505::float8, bal = bal - 0.1 where id = 1",
        "update w set ytd = ytd * 1.0005, bal = bal * 1.1 where id = 1",
        "update w set quantity = case when quantity >= 17 then quantity - 7 else quantity - 7 + 91 end where id = 1",
        "update w set ytd = round(ytd + 0.1::float8)::numeric, note = left('y' || note, 20) where id = 1",
        "update w set quantity = greatest(quantity, 30), seen = greatest(seen, now()) where id = 1",
        "update w set bal = coalesce(bal, 0) + 1.7::real, quantity = (quantity + 5) % 60 where id = 1",
    ];
    let mut writers: Vec<Session> = (0..30).map(|_| session(&database)).collect();
    for (number, writer) in writers.iter_mut().enumerate() {
        writer.execute("begin").expect("begins");
        writer
            .execute(statements[number % statements.len()])
            .expect("is let through");
    }
    // They commit in another order than they came, and every fifth does not.
    let order: Vec<usize> = (0..writers.len()).map(|at| at * 7 % 30).collect();
    for number in &order {
        let end = if number % 5 == 4 { "rollback" } else { "commit" };
        writers[*number].execute(end).expect("ends");
    }
    assert_eq!((waits(&database), aborts(&database)), (0, 0));
    let shown = "select ytd, bal, quantity, note from w";
    let together = values(&mut admin, shown);
    admin
        .execute("update w set ytd = 300000.00, bal = 10.1, quantity = 50, note = 'x'")
        .expect("begins anew");
    for number in order.iter().filter(|number| *number % 5 != 4) {
        let ordered = format!("{} returning id", statements[number % statements.len()]);
        admin.query(&ordered).expect("is done");
    }
    assert_eq!(values(&mut admin, shown), together);
}
