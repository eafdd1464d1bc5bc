//! The borders of the server's own retry (promise 7): it tries again as long as the client has been shown nothing but row counts
//! that come out the same.

use rubato_base::{Error, Value};
use rubato_embedded::{Database, Options, Session};
use std::time::{Duration, Instant};

fn opened(place: &tempfile::TempDir) -> (Database, Session) {
    let database = Database::open(place.path(), Options::default()).expect("opens");
    let mut admin = database.session().expect("a session");
    let tables = "create table t (id int primary key, v int not null, w int not null); create table seen (id int primary key, n int8)";
    admin.execute(tables).expect("makes");
    admin
        .execute("insert into t values (1, 1, 0), (2, 2, 0)")
        .expect("fills");
    (database, admin)
}

fn run(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

fn values(session: &mut Session, sql: &str) -> Vec<Value> {
    session.query(sql).expect("reads").rows.remove(0)
}

/// A block begins with `statements`; meanwhile somebody else changes what they read; then it writes what that one wrote and commits.
fn overtaken(database: &Database, admin: &mut Session, statements: &[&str]) -> Result<(), Error> {
    let mut session = database.session().expect("a session");
    run(&mut session, &["begin"]);
    run(&mut session, statements);
    run(admin, &["update t set v = 100 where id = 1"]);
    session.execute("update t set v = v + 1 where id = 1")?;
    session.execute("commit").map(|_| ())
}

/// Rules B-1, B-2 and B-3.
#[test]
fn the_server_tries_again_until_the_client_has_seen_something() {
    let place = tempfile::tempdir().expect("a folder");
    let (database, mut admin) = opened(&place);
    let aborts = || database.node().figures().protocol.aborts.iter().sum::<u64>();

    // Row counts only, and they come out the same: the client is told nothing.
    let count = "insert into seen select 1, count(*) from t where v > 50";
    overtaken(&database, &mut admin, &[count]).expect("tried again");
    assert!(aborts() > 0, "there was something to try again");
    assert_eq!(values(&mut admin, "select n from seen"), [Value::Int8(1)]);
    assert_eq!(values(&mut admin, "select v from t where id = 1"), [Value::Int4(101)]);

    // A row count that would be another one.
    run(&mut admin, &["update t set v = 1 where id = 1"]);
    let error = overtaken(&database, &mut admin, &["update t set w = w + 1 where v > 50"]).expect_err("told");
    assert_eq!(error.code().as_str(), "40001");
    assert!(error.message().contains("would affect other rows"), "{error}");

    // Something was shown.
    for shown in [
        "select count(*) from t where v > 50",
        "update t set w = 7 where id = 2 returning v",
    ] {
        run(&mut admin, &["update t set v = 1 where id = 1"]);
        let read = "insert into seen select 10 + count(*), count(v) from t where v > 50 on conflict do nothing";
        let error = overtaken(&database, &mut admin, &[shown, read]).expect_err("told");
        assert_eq!(error.code().as_str(), "40001", "{shown}");
        assert!(error.fields().detail.is_some(), "the item is named: {error}");
    }

    // A statement of its own, overtaken while it waits.
    run(&mut admin, &["update t set v = 1 where id = 1"]);
    let (before, mut first) = (aborts(), database.session().expect("a session"));
    run(&mut first, &["begin", "update t set v = v * 10 where id = 2"]);
    let waits = || database.node().figures().protocol.waits.iter().sum::<u64>();
    let waited = waits();
    let mut second = database.session().expect("a session");
    std::thread::scope(|scope| {
        let second = scope.spawn(move || second.execute("update t set w = w + v where v >= 1").map(|_| ()));
        let begun = Instant::now();
        while waits() == waited {
            assert!(begun.elapsed() < Duration::from_secs(60), "the second never waits");
            std::thread::sleep(Duration::from_millis(1));
        }
        run(&mut first, &["commit"]);
        second.join().expect("no panic").expect("tried again");
    });
    assert!(aborts() > before, "what it had read was overwritten");
    assert_eq!(values(&mut admin, "select w from t where id = 2"), [Value::Int4(20)]);
}
