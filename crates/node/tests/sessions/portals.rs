//! Portals that are read in pieces while their own transaction goes on.

use crate::world::*;
use rubato_node::NodeSettings;
use rubato_sql::client::Request;
use rubato_sql::executor::Limits;

fn numbered(rows: usize) -> World {
    numbered_with(rows, NodeSettings::default())
}

fn numbered_with(rows: usize, settings: NodeSettings) -> World {
    let mut world = World::with(2, settings);
    world.must(0, "create table dd (id int primary key, a int); create index on dd (a)");
    for first in (1..=rows).step_by(800) {
        let last = rows.min(first + 799);
        world.must(
            0,
            &format!("insert into dd select g, g from generate_series({first}, {last}) g"),
        );
    }
    world
}

/// Opens a portal in a block of its own.
fn open(world: &mut World, portal: &str, sql: &str) {
    world.must(0, "begin");
    let said = world.tell(0, [parse("", sql), bind(portal, ""), Request::Sync]);
    assert_eq!(said, ["1", "2", "Z T"]);
}

/// The next rows of a portal, and how it left off.
fn next(world: &mut World, portal: &str, max_rows: u32) -> (Vec<String>, String) {
    let said = world.tell(0, [execute(portal, max_rows), Request::Sync]);
    let rows = said.iter().filter_map(|line| line.strip_prefix("D "));
    (rows.map(str::to_owned).collect(), said[said.len() - 2].clone())
}

/// Reads a portal row by row, with a statement behind each row.
fn read_with(world: &mut World, portal: &str, statement: impl Fn(usize) -> String) -> Vec<String> {
    let mut all = Vec::new();
    for turn in 0..100 {
        let (mut rows, left) = next(world, portal, 1);
        all.append(&mut rows);
        if left.starts_with('C') {
            return all;
        }
        world.must(0, &statement(turn));
    }
    panic!("the portal does not end: {all:?}");
}

#[test]
fn a_portal_does_not_see_what_is_written_after_it_was_opened() {
    for (query, statement) in [
        ("select id from dd order by id", "insert into dd values (100 + {n}, 1)"),
        (
            "select id from dd where a > 0 order by a",
            "update dd set a = a + 10 where a = {n} + 1",
        ),
        ("select id from dd where a > 0 order by a", "update dd set a = a + 10"),
        ("select id from dd", "delete from dd where id > 1"),
        ("select id from dd", "delete from dd where id > 1 returning id"),
        (
            "select d.id from dd d join dd e on e.id = d.id",
            "delete from dd where id > 1",
        ),
        ("select id from dd", "explain analyze delete from dd where id > 1"),
        (
            "select id from dd order by a desc",
            "insert into dd values (200 + {n}, -{n})",
        ),
        (
            "select max(id) from dd group by a order by 1",
            "insert into dd values (200 + {n}, 200 + {n})",
        ),
        (
            "select distinct id from dd",
            "insert into dd values (200 + {n}, 200 + {n})",
        ),
    ] {
        let mut world = numbered(3);
        open(&mut world, "p", query);
        let rows = read_with(&mut world, "p", |n| statement.replace("{n}", &n.to_string()));
        let expected = if query.contains("desc") {
            ["3", "2", "1"]
        } else {
            ["1", "2", "3"]
        };
        assert_eq!(rows, expected, "{query}: {statement}");
    }
}

#[test]
fn nor_one_that_has_not_begun_or_what_copy_writes() {
    let mut world = numbered(3);
    open(&mut world, "p", "select id from dd");
    world.must(0, "insert into dd values (4, 4)");
    assert_eq!(next(&mut world, "p", 0).0, ["1", "2", "3"]);
    let said = world.tell(
        0,
        [
            parse("", "select id from dd"),
            bind("q", ""),
            execute("q", 1),
            Request::Sync,
        ],
    );
    assert_eq!(said[2], "D 1");
    world.send(0, [query("copy dd from stdin")]);
    world.run();
    world.tell(
        0,
        [Request::CopyData(b"0\t0\n5\t5\n".to_vec().into()), Request::CopyDone],
    );
    assert_eq!(next(&mut world, "q", 0).0, ["2", "3", "4"]);
    assert_eq!(world.rows(0, "select count(*) from dd"), ["6"]);
}

#[test]
fn limit_and_offset_hold_over_rows_read_ahead() {
    let mut world = numbered(10);
    open(&mut world, "p", "select id from dd order by id limit 5 offset 2");
    assert_eq!(next(&mut world, "p", 2), (vec!["3".into(), "4".into()], "s".into()));
    world.must(0, "delete from dd");
    assert_eq!(next(&mut world, "p", 2), (vec!["5".into(), "6".into()], "s".into()));
    assert_eq!(next(&mut world, "p", 2), (vec!["7".into()], "C SELECT 1".into()));
}

/// An error of a row that is not asked for yet is told when it is.
#[test]
fn an_error_waits_for_its_row() {
    let mut world = numbered(3);
    open(&mut world, "p", "select 6 / (3 - id) from dd order by id");
    assert_eq!(next(&mut world, "p", 1).0, ["3"]);
    world.must(0, "savepoint a; insert into dd values (9, 9)");
    assert_eq!(next(&mut world, "p", 1).0, ["6"]);
    let (rows, left) = next(&mut world, "p", 1);
    assert_eq!((rows.len(), left.as_str()), (0, "E 22012 division by zero"));
    world.must(0, "rollback to a");
    assert_eq!(next(&mut world, "p", 1).1, "E 55000 portal \"p\" cannot be run");
}

/// Nothing is kept of a portal that is only read, and what is kept is within the limits of a statement.
#[test]
fn only_a_writing_transaction_keeps_rows() {
    let limits = Limits {
        rows_max: 1000,
        ..Limits::default()
    };
    let settings = NodeSettings {
        limits,
        ..NodeSettings::default()
    };
    let mut world = numbered_with(5000, settings);
    open(&mut world, "p", "select id from dd");
    let mut rows = 0;
    loop {
        let (some, left) = next(&mut world, "p", 300);
        rows += some.len();
        world.must(0, "select count(*) from dd");
        if left.starts_with('C') {
            break;
        }
    }
    assert_eq!(rows, 5000);
    world.must(0, "rollback");
    open(&mut world, "p", "select id from dd");
    next(&mut world, "p", 300);
    let said = world.ask(0, "update dd set a = 0 where id = 1");
    assert!(said[0].starts_with("E 53200"), "{said:?}");
    world.must(0, "rollback");
    open(&mut world, "p", "select id from dd");
    next(&mut world, "p", 4500);
    world.must(0, "update dd set a = 0 where id = 1");
    assert_eq!(next(&mut world, "p", 0).0.len(), 500);
}

/// Others have their turn while a large portal is read ahead, and the statement can be cancelled.
#[test]
fn a_large_portal_is_read_ahead_in_slices() {
    let mut world = numbered(60_000);
    open(&mut world, "p", "select id from dd");
    next(&mut world, "p", 1);
    world.send(0, [query("delete from dd where id > 59998")]);
    world.turn();
    assert!(!world.is_idle(0));
    world.must(1, "select 1");
    world.run();
    assert_eq!(world.said(0), ["C DELETE 2", "Z T"]);
    assert_eq!(next(&mut world, "p", 0).0.len(), 59_999);
}

#[test]
fn rollback_to_closes_portals_opened_since() {
    let mut world = numbered(3);
    open(&mut world, "p", "select id from dd");
    next(&mut world, "p", 1);
    world.must(0, "savepoint a; insert into dd values (4, 4)");
    world.tell(
        0,
        [
            parse("", "select id from dd"),
            bind("q", ""),
            execute("q", 1),
            Request::Sync,
        ],
    );
    world.must(0, "savepoint b");
    assert_eq!(next(&mut world, "q", 1).0, ["2"]);
    world.must(0, "rollback to b");
    assert_eq!(next(&mut world, "q", 1).0, ["3"]);
    world.ask(0, "select 1 / 0");
    // Who asks too early loses nothing.
    assert!(next(&mut world, "p", 1).1.starts_with("E 25P02"));
    world.must(0, "rollback to a");
    assert_eq!(next(&mut world, "p", 0).0, ["2", "3"]);
    assert_eq!(next(&mut world, "q", 0).1, "E 34000 portal \"q\" does not exist");
}

#[test]
fn a_table_with_an_open_portal_is_not_changed() {
    let mut world = numbered(3);
    world.must(0, "create table other (id int primary key)");
    for (change, verb) in [
        ("drop table dd", "DROP TABLE"),
        ("alter table dd add b int", "ALTER TABLE"),
        ("truncate other, dd", "TRUNCATE"),
        ("create index on dd (id, a)", "CREATE INDEX"),
    ] {
        open(&mut world, "p", "select id from dd");
        next(&mut world, "p", 1);
        world.must(
            0,
            "create table a (id int); drop table other; create table other (id int primary key)",
        );
        let said = world.ask(0, change);
        let message =
            format!("E 55006 cannot {verb} \"dd\" because it is being used by active queries in this session");
        assert_eq!(said, [message.as_str(), "Z E"]);
        world.must(0, "rollback");
    }
    // At its end it is not in use any more.
    open(&mut world, "p", "select id from dd");
    next(&mut world, "p", 0);
    world.must(0, "alter table dd add b int; commit");
    assert_eq!(world.rows(1, "select id, b from dd where id = 1"), ["1|"]);
}

/// Rows that RETURNING has yet to give are known; the statement is not run again for them.
#[test]
fn rows_of_returning_outlast_other_writes() {
    let mut world = numbered(3);
    open(&mut world, "p", "update dd set a = a + 10 returning a");
    assert_eq!(next(&mut world, "p", 1).0, ["11"]);
    world.must(0, "create index on dd (id, a)");
    world.must(0, "update dd set a = a + 1");
    assert_eq!(next(&mut world, "p", 0).0, ["12", "13"]);
    assert_eq!(world.rows(0, "select a from dd order by id"), ["12", "13", "14"]);
}

/// What is wrong with the names of a statement does not matter in a block that has failed: those that it has made are gone.
#[test]
fn a_block_that_has_failed_refuses_statements_whatever_they_name() {
    let mut world = World::new(1);
    world.must(0, "begin; create table made (id int)");
    assert!(world.ask(0, "select 1/0")[1].starts_with("E 22012"));
    for sql in ["select id from made", "insert into none values (1)", "select 'x'::int"] {
        let said = world.ask(0, sql);
        assert!(said[0].starts_with("E 25P02"), "{sql}: {said:?}");
        let said = world.tell(0, [parse("", sql), Request::Sync]);
        assert!(said[0].starts_with("E 25P02"), "{sql}: {said:?}");
    }
    assert!(world.ask(0, "select )")[0].starts_with("E 42601"));
    world.must(0, "rollback");
    assert!(world.ask(0, "select id from made")[0].starts_with("E 42P01"));
}

/// A statement as drivers run it that want so many rows at most: some ask for one where there are none.
fn run(world: &mut World, session: usize, sql: &str, max_rows: u32) -> Vec<String> {
    let requests = [parse("", sql), bind("", ""), execute("", max_rows), Request::Sync];
    world.tell(session, requests)
}

/// A block that another transaction has overtaken is run again, however many rows its driver asks for at most, if it has shown them all.
#[test]
fn a_block_is_run_again_whatever_number_of_rows_is_asked_for() {
    for (asked, shown_max) in [(0, 0), (1, 0), (1, 5), (1, 1), (100, 100)] {
        let mut world = numbered(20);
        for (sql, max_rows) in [
            ("begin", asked),
            ("select a from dd where id = 7", shown_max),
            ("insert into dd select 100 + count(*), 0 from dd where a = 3", asked),
        ] {
            let said = run(&mut world, 0, sql, max_rows);
            assert_eq!(said.last().map(String::as_str), Some("Z T"), "{sql}: {said:?}");
        }
        world.must(1, "update dd set a = 50 where id = 3");
        let said = run(&mut world, 0, "update dd set a = a + 1 where id = 3", asked);
        // What was shown up to the limit may go on behind it, and cannot be shown once more.
        if shown_max == 1 {
            assert!(said[2].starts_with("E 40001"), "{said:?}");
            continue;
        }
        assert_eq!(said[2..], ["C UPDATE 1", "Z T"], "{asked}, {shown_max}");
        let said = run(&mut world, 0, "commit", asked);
        assert_eq!(said[2..], ["C COMMIT", "Z I"], "{asked}, {shown_max}");
        assert_eq!(
            world.rows(1, "select id, a from dd where id in (3, 100) order by id"),
            ["3|51", "100|0"]
        );
    }
}

/// What is run to its row limit has ended for its time-outs: they are for each Execute, and not for what its client says meanwhile.
#[test]
fn a_portal_that_keeps_its_place_leaves_no_deadline_behind() {
    for (setting, limit, query) in [
        ("statement_timeout", 1_500, "select id from dd order by a"),
        ("statement_timeout", 1_500, "select id from dd"),
        (
            "lock_timeout",
            1,
            "select id from dd where id in (1, 2, 3) order by id for update",
        ),
    ] {
        let mut world = numbered(2_000);
        world.must(0, &format!("set {setting} = '2s'"));
        world.must(1, "begin; select a from dd where id = 1 for update");
        world.must(0, "begin; update dd set a = a + 1 where id = 2000");
        // Its answers are sent, and others have their turn, before it comes to its limit; or it waits for the row.
        world.send(0, [parse("", query), bind("p", ""), execute("p", limit), Request::Sync]);
        world.run();
        world.must(1, "commit");
        world.run();
        let said = world.said(0);
        assert_eq!(said[said.len() - 2..], ["s", "Z T"], "{query}");
        world.pass(2_500_000);
        let (rows, left) = next(&mut world, "p", 1);
        assert_eq!((rows.len(), left.as_str()), (1, "s"), "{query}");
        world.pass(2_500_000);
        assert_eq!(world.must(0, "commit"), ["C COMMIT", "Z I"], "{query}");
        assert_eq!(world.rows(1, "select a from dd where id = 2000"), ["2001"], "{query}");
    }
}
