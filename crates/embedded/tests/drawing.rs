//! What a block has drawn, random numbers and numbers of sequences, it draws again when the server runs it again: its client has seen ids.

use rubato_base::Value;
use rubato_embedded::{Database, Options, Session};

fn opened(place: &tempfile::TempDir) -> (Database, Session) {
    let database = Database::open(place.path(), Options::default()).expect("opens");
    let mut admin = database.session().expect("a session");
    for sql in [
        "create table t (id int primary key, v int not null)",
        "insert into t values (1, 1), (2, 2)",
        "create table orders (id serial primary key, n bigint)",
        "create table events (id uuid primary key default gen_random_uuid(), n bigint)",
    ] {
        admin.execute(sql).expect(sql);
    }
    (database, admin)
}

fn rows(session: &mut Session, sql: &str) -> Vec<Value> {
    session.query(sql).expect(sql).rows.concat()
}

/// A block with these statements has read what others change before it writes that: gives what they showed.
fn overtaken(database: &Database, admin: &mut Session, statements: &[&str]) -> Result<Vec<Value>, String> {
    let mut session = database.session().expect("a session");
    session.execute("begin").expect("begins");
    session
        .execute("insert into orders select 1000 + (select count(*) from orders), count(*) from t where v > 50")
        .expect("reads what is changed");
    let mut shown = Vec::new();
    for sql in statements {
        shown.extend(rows(&mut session, sql));
    }
    admin.execute("update t set v = 100 where id = 1").expect("changes");
    let written = session.execute("update t set v = v + 1 where id = 1");
    written
        .and_then(|_| session.execute("commit"))
        .map(|_| shown)
        .map_err(|error| error.to_string())
}

fn has_tried_again(database: &Database) -> bool {
    database.node().figures().protocol.aborts.iter().sum::<u64>() > 0
}

#[test]
fn ids_that_were_shown_are_the_same_when_the_block_is_run_again() {
    for statements in [
        &["insert into orders (n) values (7), (8) returning id"][..],
        &["insert into events (n) values (7) returning id"],
        &[
            "insert into orders (n) values (7) returning id",
            "select currval('orders_id_seq'), lastval()",
        ],
        &["insert into orders (n) select v from t where v < 50 and id = 2 returning id, n"],
        &["select nextval('orders_id_seq'), random(), gen_random_uuid()"],
        &[
            "insert into orders (n) values (1) returning id",
            "insert into events (n) values (1) returning id",
        ],
    ] {
        let place = tempfile::tempdir().expect("a folder");
        let (database, mut admin) = opened(&place);
        let shown = overtaken(&database, &mut admin, statements).expect("tried again");
        assert!(has_tried_again(&database), "{statements:?}");
        let is_there = |id: &Value, ids: &[Value]| ids.contains(id);
        let mut kept = rows(&mut admin, "select id from orders");
        kept.extend(rows(&mut admin, "select id from events"));
        if statements[0].starts_with("insert") {
            assert!(is_there(&shown[0], &kept), "{shown:?} of {kept:?}");
        }
        // Nobody else gets one of them.
        let next = rows(&mut admin, "insert into orders (n) values (9) returning id");
        assert!(!is_there(&next[0], &kept), "{next:?} of {kept:?}");
    }
}

/// A sequence that was set, or begun anew, gives numbers again: what was drawn before is not to be drawn behind that.
#[test]
fn a_number_that_the_sequence_gives_once_more_is_not_drawn_again() {
    for statements in [
        &[
            "select nextval('orders_id_seq')",
            "select setval('orders_id_seq', 100)",
            "select nextval('orders_id_seq')",
        ][..],
        &[
            "truncate orders restart identity",
            "insert into orders (n) values (1), (2), (3) returning id",
        ],
        &[
            "alter sequence orders_id_seq restart with 40",
            "insert into orders (n) values (1) returning id",
        ],
    ] {
        let place = tempfile::tempdir().expect("a folder");
        let (database, mut admin) = opened(&place);
        admin
            .execute("insert into orders (n) select g from generate_series(1, 5) g")
            .expect("fills");
        let mut session = database.session().expect("a session");
        // Whether it is told or done again: numbers that are taken afterwards are nobody's.
        let _ = overtaken(&database, &mut admin, statements);
        for _ in 0..10 {
            let next = session.query("insert into orders (n) values (9) returning id");
            assert!(next.is_ok(), "{statements:?}: {next:?}");
        }
    }
}

/// `setseed` gives the numbers of `random()` a second time, and no UUID; a session of another start has others, at the same seed too.
#[test]
fn what_nobody_is_to_guess_does_not_come_again_with_the_seed() {
    let place = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let (database, mut admin) = match all.is_empty() {
            true => opened(&place),
            false => {
                let database = Database::open(place.path(), Options::default()).expect("opens");
                let session = database.session().expect("a session");
                (database, session)
            }
        };
        let mut other = database.session().expect("a session");
        for session in [&mut admin, &mut other] {
            for _ in 0..2 {
                session.execute("select setseed(0.5)").expect("a seed");
                numbers.push(rows(session, "select random()"));
                let drawn = "select gen_random_uuid(), uuid_generate_v4(), uuid_generate_v1(), gen_random_bytes(16)";
                all.extend(rows(session, drawn));
            }
        }
    }
    assert_eq!(all.len(), 32);
    let first = numbers[0].clone();
    assert!(numbers.iter().all(|own| *own == first), "{numbers:?}");
    let texts: std::collections::BTreeSet<String> = all.iter().map(|value| format!("{value:?}")).collect();
    assert_eq!(texts.len(), all.len(), "{all:?}");
}
