//! The borders of the server's own retry (promise 7): it tries again as long as what the client has been told, row counts and rows, comes
//! out the same.

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

    // Rows were shown that would be others, or are locked.
    let read = |id: usize| format!("insert into seen select {id}, count(*) from t where v > 50");
    for (shown, why) in [
        ("select count(*) from t where v > 50", "would show other rows"),
        ("select v from t where id = 1", "would show other rows"),
        ("select id from t where v < 50 order by id", "would show other rows"),
        // Without FROM, but not without rows.
        ("select (select v from t where id = 1)", "would show other rows"),
        (
            "select exists (select from t where id = 1 and v > 50)",
            "would show other rows",
        ),
        ("select 100 in (select v from t)", "would show other rows"),
        ("select array(select v from t order by id)", "would show other rows"),
        ("values ((select sum(v) from t))", "would show other rows"),
        (
            "select 1 where (select v from t where id = 1) < 50",
            "would show other rows",
        ),
        (
            "update t set w = 8 where id = 2 returning (select sum(v) from t)",
            "would show other rows",
        ),
        ("select v from t where id = 2 for update", ""),
    ] {
        run(&mut admin, &["update t set v = 1 where id = 1"]);
        let error = overtaken(&database, &mut admin, &[shown, &read(10)]).expect_err("told");
        assert_eq!(error.code().as_str(), "40001", "{shown}");
        assert!(error.message().contains(why), "{shown}: {error}");
        assert!(error.fields().detail.is_some(), "the item is named: {error}");
    }

    // Rows were shown, and are so still.
    for (number, shown) in [
        "select v from t where id = 2",
        "select id from t order by v desc, id",
        "select v, w from t where id = 2 union all select 1, 2",
        "update t set w = 7 where id = 2 returning v, w",
        "select w from t where false",
        "select (select w from t where id = 2), 100 in (select w from t)",
    ]
    .into_iter()
    .enumerate()
    {
        run(&mut admin, &["update t set v = 1, w = 0"]);
        run(&mut admin, &["update t set v = 2 where id = 2"]);
        let before = aborts();
        let again = match number {
            // The order is that of the rows as they were: who asks for one gets those rows in another.
            1 => overtaken(&database, &mut admin, &[shown, "update t set w = 1 where v > 50"]),
            _ => overtaken(&database, &mut admin, &[shown, &read(20 + number)]),
        };
        assert!(aborts() > before, "{shown}: there was something to try again");
        if number == 1 {
            assert_eq!(again.expect_err("told").code().as_str(), "40001");
            continue;
        }
        again.unwrap_or_else(|error| panic!("{shown}: {error}"));
        let seen = format!("select n from seen where id = {}", 20 + number);
        assert_eq!(values(&mut admin, &seen), [Value::Int8(1)], "{shown}");
        assert_eq!(values(&mut admin, "select v from t where id = 1"), [Value::Int4(101)]);
    }

    // What is pending is shown again as it was, and is there once.
    run(&mut admin, &["update t set v = 1, w = 0"]);
    let mut session = database.session().expect("a session");
    run(&mut session, &["begin", "update t set w = w + 1 where id = 2"]);
    assert_eq!(values(&mut session, "select w from t where id = 2"), [Value::Int4(1)]);
    run(&mut session, &[&read(40)]);
    run(&mut admin, &["update t set v = 100 where id = 1"]);
    run(&mut session, &["update t set v = v + 1 where id = 1"]);
    assert_eq!(values(&mut session, "select w from t where id = 2"), [Value::Int4(1)]);
    run(&mut session, &["commit"]);
    assert_eq!(values(&mut admin, "select n from seen where id = 40"), [Value::Int8(1)]);
    assert_eq!(values(&mut admin, "select v + w from t where id = 2"), [Value::Int4(2)]);
    run(&mut admin, &["update t set v = 2, w = 0 where id = 2"]);

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

/// Rules B-1 and B-2 where the block has savepoints, settings and locks of its session.
#[test]
fn savepoints_are_set_again_with_their_block() {
    let place = tempfile::tempdir().expect("a folder");
    let (database, mut admin) = opened(&place);
    let aborts = || database.node().figures().protocol.aborts.iter().sum::<u64>();
    let before = aborts();
    let with_savepoints = [
        "set local extra_float_digits = 2",
        "savepoint a",
        "insert into seen select 1, count(*) from t where v > 50",
        "savepoint b",
        "update t set w = 5 where id = 2",
        "select w from t where id = 2",
        "rollback to b",
        "select w from t where id = 2",
        "release b",
        "show extra_float_digits",
        "savepoint c",
        "insert into seen values (2, 2)",
    ];
    overtaken(&database, &mut admin, &with_savepoints).expect("tried again");
    assert!(aborts() > before, "there was something to try again");
    assert_eq!(
        values(&mut admin, "select sum(n), count(*) from seen")[1],
        Value::Int8(2)
    );
    assert_eq!(values(&mut admin, "select n from seen where id = 1"), [Value::Int8(1)]);
    assert_eq!(values(&mut admin, "select w from t where id = 2"), [Value::Int4(0)]);
    assert_eq!(values(&mut admin, "select v from t where id = 1"), [Value::Int4(101)]);

    // What was done since a savepoint goes back with it, although the savepoint was set anew after it.
    run(&mut admin, &["update t set v = 1 where id = 1", "truncate seen"]);
    let mut session = database.session().expect("a session");
    run(
        &mut session,
        &["begin", "insert into seen select 1, count(*) from t where v > 50"],
    );
    run(&mut session, &["savepoint a", "select pg_advisory_xact_lock(7)"]);
    let before = aborts();
    run(&mut admin, &["update t set v = 100 where id = 1"]);
    run(
        &mut session,
        &["insert into seen values (3, 3)", "update t set v = v + 1 where id = 1"],
    );
    let is_free = "select pg_try_advisory_xact_lock(7)";
    assert_eq!(values(&mut admin, is_free), [Value::Bool(false)]);
    run(&mut session, &["rollback to a"]);
    assert_eq!(values(&mut admin, is_free), [Value::Bool(true)]);
    run(&mut session, &["commit"]);
    assert!(aborts() > before, "there was something to try again");
    assert_eq!(values(&mut admin, "select n from seen"), [Value::Int8(1)]);

    // One that does not come out the same has no savepoint left to go on from.
    for shown in [
        "select count(*) from t where v > 50",
        "update t set w = w + 1 where v > 50",
    ] {
        run(&mut admin, &["update t set v = 1 where id = 1", "truncate seen"]);
        let mut session = database.session().expect("a session");
        let read = "insert into seen select 1, count(*) from t where v > 50";
        run(&mut session, &["begin", "savepoint a", shown, "savepoint b", read]);
        run(&mut admin, &["update t set v = 100 where id = 1"]);
        for sql in [
            "select v from t where id = 1 for update",
            "rollback to b",
            "rollback to a",
        ] {
            let error = session.execute(sql).expect_err(sql);
            assert_eq!(error.code().as_str(), "40001", "{sql}: {error}");
        }
        run(&mut session, &["rollback"]);
        assert_eq!(values(&mut admin, "select count(*) from seen"), [Value::Int8(0)]);
        let error = session.execute("rollback to a").expect_err("no block");
        assert_eq!(error.code().as_str(), "25P01");
    }

    // What ran under settings that are others now is not run again.
    for setting in [
        "set timezone = 'Asia/Tokyo'",
        "select set_config('timezone', 'Asia/Tokyo', true)",
    ] {
        run(&mut admin, &["update t set v = 1 where id = 1", "truncate seen"]);
        let read = "insert into seen select 1, count(*) from t where v > 50";
        let error = overtaken(&database, &mut admin, &[read, setting]).expect_err("told");
        assert_eq!(error.code().as_str(), "40001", "{setting}");
    }
}

/// How a statement comes from its client.
type Way = fn(&mut Session, &str) -> Result<(), Error>;

fn as_script(session: &mut Session, sql: &str) -> Result<(), Error> {
    session.execute(sql).map(drop)
}

fn as_prepared(session: &mut Session, sql: &str) -> Result<(), Error> {
    let statement = session.prepare(sql)?;
    session.run(&statement, &[]).map(drop)
}

/// A block in which `failing` fails with `code`, and which goes back to a savepoint then; somebody else changes what it has read before it
/// writes what that one wrote, and commits.
fn failed_and_overtaken(
    database: &Database,
    admin: &mut Session,
    (failing, code): (&str, &str),
    other: &str,
    way: Way,
) -> Result<(), Error> {
    run(
        admin,
        &["update t set v = 1 where id = 1; delete from t where id > 2; truncate seen"],
    );
    let mut session = database.session().expect("a session");
    let before = [
        "begin",
        "savepoint a",
        "update t set w = w + 1 where id = 2",
        "savepoint b",
    ];
    for sql in before {
        way(&mut session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let error = way(&mut session, failing).expect_err(failing);
    assert_eq!(error.code().as_str(), code, "{failing}: {error}");
    let error = way(&mut session, "select 1").expect_err("the block has failed");
    assert_eq!(error.code().as_str(), "25P02");
    let read = "insert into seen select 1, count(*) from t where v > 50";
    for sql in ["rollback to b", "release b", read] {
        way(&mut session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    run(admin, &[other]);
    way(&mut session, "update t set v = v + 1 where id = 1")?;
    way(&mut session, "commit")
}

/// Rules B-1 and B-2 where statements of the block have failed, and were taken back to a savepoint.
#[test]
fn what_has_failed_fails_again_with_its_block() {
    let place = tempfile::tempdir().expect("a folder");
    let (database, mut admin) = opened(&place);
    run(&mut admin, &["create table child (id int references t)"]);
    let aborts = || database.node().figures().protocol.aborts.iter().sum::<u64>();
    let other = "update t set v = 100 where id = 1";
    for way in [as_script as Way, as_prepared] {
        for failing in [
            ("insert into t values (2, 2, 2)", "23505"),
            ("update t set v = null where id = 2", "23502"),
            ("insert into child values (77)", "23503"),
            ("select 1 / (v - v) from t where id = 2", "22012"),
            ("select 1 / (v - v) from t", "22012"),
            ("select (select v from t)", "21000"),
            ("select 1 / 0", "22012"),
            ("select 'x'::int", "22P02"),
            ("select * from nosuch where id = 1", "42P01"),
            ("insert into t values (1, 2, 3, 4)", "42601"),
            ("update t set nosuch = 1", "42703"),
            ("selec 1", "42601"),
            ("select 'open", "42601"),
            ("release nosuch", "3B001"),
            ("rollback to nosuch", "3B001"),
            ("set timezone = 'Nowhere'", "22023"),
            ("execute nosuch", "26000"),
        ] {
            let before = aborts();
            failed_and_overtaken(&database, &mut admin, failing, other, way)
                .unwrap_or_else(|error| panic!("{failing:?}: {error}"));
            assert!(aborts() > before, "{failing:?}: there was something to try again");
            assert_eq!(
                values(&mut admin, "select n from seen"),
                [Value::Int8(1)],
                "{failing:?}"
            );
            assert_eq!(values(&mut admin, "select v from t where id = 1"), [Value::Int4(101)]);
        }
        // What a text means is for the catalogs to say, which no level of isolation covers.
        let made = "create table nosuch (id int); update t set v = 100 where id = 1";
        let unknown = ("select * from nosuch", "42P01");
        failed_and_overtaken(&database, &mut admin, unknown, made, way).expect("is told nothing");
        run(&mut admin, &["drop table nosuch"]);
        // It would not fail now, or otherwise.
        for (failing, other, why) in [
            (
                ("select 1 / (v - 1) from t where id = 1", "22012"),
                other,
                "would not fail now",
            ),
            (
                ("insert into t select v, 0, 0 from t where id = 1", "23505"),
                "update t set v = 2 where id = 1",
                "would fail otherwise now",
            ),
        ] {
            let error = failed_and_overtaken(&database, &mut admin, failing, other, way).expect_err("told");
            assert_eq!(error.code().as_str(), "40001", "{failing:?}: {error}");
            assert!(error.message().contains(why), "{failing:?}: {error}");
            assert!(
                error.fields().detail.is_some(),
                "what it was answered is named: {error}"
            );
        }
        // What is not undone is not done twice, and what circumstances are to blame for is not waited for.
        for failing in [
            ("select pg_advisory_lock(5), 1 / (v - v) from t where id = 2", "22012"),
            ("select setval('numbers', 5), 1 / (v - v) from t where id = 2", "22012"),
            ("create table t (id int)", "42P07"),
            ("select v from t where id = 2 and v / (w - w) = 1 for update", "22012"),
        ] {
            run(&mut admin, &["create sequence if not exists numbers"]);
            let error = failed_and_overtaken(&database, &mut admin, failing, other, way).expect_err("told");
            assert_eq!(error.code().as_str(), "40001", "{failing:?}: {error}");
            assert!(
                !error.message().contains("an earlier statement"),
                "{failing:?}: {error}"
            );
        }
    }
}

/// Migrations look a table up in the catalogs before they read or make it, and others make tables meanwhile: no level of isolation covers
/// the catalogs, so a block that is run again is not lost to what they have shown.
#[test]
fn what_the_catalogs_have_shown_is_not_compared() {
    let place = tempfile::tempdir().expect("a folder");
    let (database, mut admin) = opened(&place);
    for looked_up in [
        "select relname from pg_class where relname = 'made'",
        "select count(*) from information_schema.tables where table_name like 'made%'",
        "select to_regclass('made')",
        "select (select count(*) from pg_class), exists (select 1 from pg_attribute where attname = 'of_made')",
        "with c as (select oid from pg_class) select count(*) from c join pg_attribute on attrelid = c.oid",
    ] {
        run(&mut admin, &["update t set v = 1 where id = 1; truncate seen"]);
        let mut session = database.session().expect("a session");
        run(&mut session, &["begin"]);
        session.query(looked_up).expect("looks it up");
        run(
            &mut session,
            &["insert into seen select 1, count(*) from t where v > 50"],
        );
        let made = "create table made (of_made int primary key); update t set v = 100 where id = 1";
        run(&mut admin, &[made]);
        let rows = session.query("select of_made from made").map(|read| read.rows.len());
        assert_eq!(rows.ok(), Some(0), "{looked_up}");
        run(&mut session, &["update t set v = v + 1 where id = 1", "commit"]);
        assert_eq!(
            values(&mut admin, "select n from seen"),
            [Value::Int8(1)],
            "{looked_up}"
        );
        run(&mut admin, &["drop table made"]);
    }
    // What it has shown of tables beside them is compared.
    run(&mut admin, &["update t set v = 1 where id = 1; truncate seen"]);
    let mut session = database.session().expect("a session");
    run(&mut session, &["begin"]);
    values(
        &mut session,
        "select v from t where (select count(*) from pg_class) > 0 and id = 1",
    );
    run(&mut admin, &["update t set v = 100 where id = 1"]);
    let ended = session.query("insert into seen select 1, count(*) from t where v > 50");
    let ended = ended.and_then(|_| session.query("update t set v = v + 1 where id = 1"));
    let error = ended
        .and_then(|_| session.query("commit"))
        .expect_err("it has shown another");
    assert_eq!(error.code().as_str(), "40001", "{error}");
}

/// As drivers do that set a savepoint around each statement; and the other way round: what has not failed fails now.
#[test]
fn a_savepoint_around_each_statement_is_kept_with_its_block() {
    let place = tempfile::tempdir().expect("a folder");
    let (database, mut admin) = opened(&place);
    let aborts = || database.node().figures().protocol.aborts.iter().sum::<u64>();
    for way in [as_script as Way, as_prepared] {
        run(&mut admin, &["update t set v = 1, w = 0 where id = 1; truncate seen"]);
        let mut session = database.session().expect("a session");
        way(&mut session, "begin").expect("begins");
        for (sql, code) in [
            ("insert into seen values (1, 1)", None),
            ("insert into seen values (1, 2)", Some("23505")),
            ("select * from nosuch", Some("42P01")),
            ("insert into seen select 2, count(*) from t where v > 50", None),
            ("select n from seen where id = 1", None),
            ("update t set w = 1 / (w - 7) where id = 2", None),
            ("insert into seen values (2, 3)", Some("23505")),
            ("select 1 / (v - 100) from t where id = 2", None),
        ] {
            way(&mut session, "savepoint around").expect("a savepoint");
            let outcome = way(&mut session, sql);
            assert_eq!(
                outcome.err().map(|error| error.code().as_str().to_owned()),
                code.map(str::to_owned),
                "{sql}"
            );
            let after = if code.is_some() {
                "rollback to around"
            } else {
                "release around"
            };
            way(&mut session, after).expect(after);
        }
        let before = aborts();
        run(&mut admin, &["update t set v = 100 where id = 1"]);
        way(&mut session, "update t set v = v + 1 where id = 1").expect("tried again");
        way(&mut session, "commit").expect("commits");
        assert!(aborts() > before, "there was something to try again");
        assert_eq!(values(&mut admin, "select sum(n)::int8 from seen"), [Value::Int8(2)]);
        assert_eq!(values(&mut admin, "select v from t where id = 1"), [Value::Int4(101)]);

        // An error that nobody has been told is none of the statement that is under way.
        run(&mut admin, &["update t set v = 1 where id = 1; truncate seen"]);
        let read = "insert into seen select 1, count(*) from t where v > 50";
        let mut session = database.session().expect("a session");
        for sql in ["begin", "savepoint a", "select 1 / (v - 100) from t where id = 1", read] {
            way(&mut session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        run(&mut admin, &["update t set v = 100 where id = 1"]);
        let error = way(&mut session, "update t set v = v + 1 where id = 1").and_then(|()| way(&mut session, "commit"));
        let error = error.expect_err("told");
        assert_eq!(error.code().as_str(), "40001", "{error}");
        assert!(error.message().contains("would fail now"), "{error}");
    }
}

/// Rule V-2, of storage: who has read a table before it was replaced cannot stand behind those who have changed it since.
#[test]
fn what_was_read_of_a_table_that_was_replaced_holds_no_more() {
    for change in [
        "truncate old",
        "alter table old alter column v type bigint",
        "alter table old add column w float default random()",
        "drop table old; create table old (id int primary key, v int)",
    ] {
        for read in [
            "select v from old where id = 1",
            "select count(*) from old",
            "select v from old where id = 77",
        ] {
            let place = tempfile::tempdir().expect("a folder");
            let (database, mut admin) = opened(&place);
            run(
                &mut admin,
                &["create table old (id int primary key, v int); insert into old values (1, 1), (2, 2)"],
            );
            let mut reader = database.session().expect("a session");
            run(&mut reader, &["begin", read]);
            admin
                .execute(change)
                .unwrap_or_else(|error| panic!("{change}: {error}"));
            let other = "insert into old (id, v) values (1, 5), (77, 5), (78, 5) on conflict (id) do update set v = old.v + excluded.v";
            run(
                &mut admin,
                &["begin", other, "update t set v = 50 where id = 1", "commit"],
            );
            let written = reader.execute("update t set v = v * 2 where id = 1");
            let ended = written.and_then(|_| reader.execute("commit"));
            let error = ended.expect_err("it would have to stand before what it has read through");
            assert_eq!(error.code().as_str(), "40001", "{change}: {read}: {error}");
            assert_eq!(
                values(&mut admin, "select v from t where id = 1"),
                [Value::Int4(50)],
                "{change}: {read}"
            );
            // Who only reads is not refused.
            let mut reader = database.session().expect("a session");
            run(&mut reader, &["begin", read]);
            run(&mut admin, &["truncate old"]);
            run(&mut reader, &["select v from t where id = 2", "commit"]);
        }
    }
}

/// Rule C-8: who has read a table as it was, and goes on behind a change of it, does not find there what the same commit has done elsewhere.
#[test]
fn a_schema_change_stands_above_who_has_read_the_table_as_it_was() {
    for change in [
        "truncate old; insert into old values (1, 50)",
        "alter table old alter column v type bigint; update old set v = 50 where id = 1",
        "drop table old; create table old (id int primary key, v int); insert into old values (1, 50)",
    ] {
        for read in ["select v from old where id = 1", "select sum(v)::int from old"] {
            let place = tempfile::tempdir().expect("a folder");
            let (database, mut admin) = opened(&place);
            run(
                &mut admin,
                &["create table old (id int primary key, v int); insert into old values (1, 10)"],
            );
            let mut reader = database.session().expect("a session");
            run(&mut admin, &["begin", change, "update t set v = 50 where id = 1"]);
            run(&mut reader, &["begin"]);
            let before = values(&mut reader, read);
            run(&mut admin, &["commit"]);
            assert_eq!(
                values(&mut reader, "select v from t where id = 1"),
                [Value::Int4(1)],
                "{change}: {read}"
            );
            // What was read there before and what is there now are not the same: it is told, or finds what was there.
            match reader.query(read) {
                Ok(again) => assert_eq!(again.rows.concat(), before, "{change}: {read}"),
                Err(error) => assert_eq!(error.code().as_str(), "40001", "{change}: {read}: {error}"),
            }
        }
    }
}

/// Rule R-8: who has read a table by its name, or what it was by then, stands before the commit that gives the name to another one.
#[test]
fn who_has_read_a_table_stands_before_the_commit_that_makes_its_name_anothers() {
    for (read, change) in [
        (
            "select v from now where id = 1",
            "alter table now rename to former; alter table next rename to now",
        ),
        (
            "select sum(v) from now",
            "alter table now rename to former; alter table next rename to now",
        ),
        ("select * from now", "alter table now add w int default 7"),
        (
            "select b from now",
            "alter table now rename b to c; alter table now add b int default 7",
        ),
        (
            "select * from shown",
            "create or replace view shown as select v + 1 as v from now",
        ),
        (
            "select * from shown",
            "drop view shown; create view shown as select v from next",
        ),
    ] {
        for goes_on in [
            "update t set v = v + 10 where id = 1",
            "insert into other select max(v) from t",
        ] {
            let place = tempfile::tempdir().expect("a folder");
            let (database, mut admin) = opened(&place);
            run(
                &mut admin,
                &[
                    "create table now (id int primary key, v int, b int); insert into now values (1, 10, 0)",
                    "create table next (id int primary key, v int, b int); insert into next values (1, 11, 0)",
                    "create table other (v int primary key)",
                    "create view shown as select v from now",
                ],
            );
            let mut reader = database.session().expect("a session");
            run(&mut reader, &["begin"]);
            values(&mut reader, read);
            run(
                &mut admin,
                &["begin", change, "update t set v = 50 where id = 1", "commit"],
            );
            // It goes on behind the change: on what that has left, or with what it has read itself being another's.
            let ended = reader.query(goes_on).and_then(|_| reader.query("commit"));
            let finds_change = match goes_on.starts_with("update") {
                true => ended.is_ok(),
                false => ended.is_ok() && values(&mut admin, "select v from other") == [Value::Int4(50)],
            };
            assert!(!finds_change, "{read}: {change}: {goes_on}");
            if let Err(error) = ended {
                assert_eq!(error.code().as_str(), "40001", "{read}: {change}: {goes_on}: {error}");
            }
        }
    }
}

/// Rule R-8: a block that has read a table is told nothing of what it has become by a commit behind that, neither an error nor its new columns.
#[test]
fn who_has_read_a_table_is_not_told_what_it_has_become() {
    for change in [
        "drop table t",
        "alter table t alter v type bigint",
        "alter table t rename v to w",
        "alter table t rename to u",
        "alter table t alter txt type varchar(2000000)",
        "alter schema s rename to r",
        "drop schema s cascade",
        "drop table t; create table t (id int primary key, other int)",
    ] {
        for next in [
            "select * from t where id = 1",
            "insert into t values (2, 3, 'a')",
            "update t set v = 4 where id = 1",
        ] {
            for read in ["select v, txt from t where id = 1", "select count(*) from t"] {
                // A block that comes out the same behind the change stands there.
                if read.contains("count") && change.starts_with("alter table") {
                    continue;
                }
                let place = tempfile::tempdir().expect("a folder");
                let (database, mut admin) = opened(&place);
                run(
                    &mut admin,
                    &[
                        "create schema s; set search_path = s",
                        "create table t (id int primary key, v int, txt text); insert into t values (1, 10, 'a')",
                    ],
                );
                let mut reader = database.session().expect("a session");
                run(&mut reader, &["set search_path = s", "begin"]);
                values(&mut reader, read);
                run(&mut reader, &["savepoint a"]);
                run(&mut admin, &[change]);
                let error = reader.query(next).expect_err("it has read what the table was");
                assert_eq!(error.code().as_str(), "40001", "{read}: {change}: {next}: {error}");
            }
        }
    }
}
