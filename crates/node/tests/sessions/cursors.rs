//! Cursors of SQL: DECLARE, FETCH, MOVE and CLOSE, as PostgreSQL 15 answers.

use crate::world::*;
use rubato_sql::client::Request;

fn numbered(rows: usize) -> World {
    let mut world = World::new(2);
    world.must(0, "create table dd (id int primary key, a int)");
    world.must(
        0,
        &format!("insert into dd select g, g * 10 from generate_series(1, {rows}) g"),
    );
    world
}

/// A conversation, each line a statement and its answer without the status at its end.
fn talk(world: &mut World, lines: &[(&str, &[&str])]) {
    for (sql, expected) in lines {
        let mut said = world.ask(0, sql);
        said.pop();
        assert_eq!(said, *expected, "{sql}");
    }
}

#[test]
fn a_cursor_is_read_forward_and_closed() {
    let mut world = numbered(7);
    talk(
        &mut world,
        &[
            ("begin", &["C BEGIN"]),
            (
                "declare c cursor for select id from dd order by id",
                &["C DECLARE CURSOR"],
            ),
            ("fetch c", &["T 1", "D 1", "C FETCH 1"]),
            ("fetch next from c", &["T 1", "D 2", "C FETCH 1"]),
            ("fetch 0 from c", &["T 1", "D 2", "C FETCH 1"]),
            ("rollback", &["C ROLLBACK"]),
            ("begin", &["C BEGIN"]),
            (
                "declare \"C d\" binary insensitive no scroll cursor without hold for select id from dd order by id",
                &["C DECLARE CURSOR"],
            ),
            ("move 0 in \"C d\"", &["C MOVE 0"]),
            ("fetch 0 in \"C d\"", &["T 1", "C FETCH 0"]),
            ("move 2 in \"C d\"", &["C MOVE 2"]),
            ("move 0 \"C d\"", &["C MOVE 1"]),
            ("fetch forward 2 from \"C d\"", &["T 1", "D 3", "D 4", "C FETCH 2"]),
            ("move forward from \"C d\"", &["C MOVE 1"]),
            ("fetch forward all from \"C d\"", &["T 1", "D 6", "D 7", "C FETCH 2"]),
            ("fetch all \"C d\"", &["T 1", "C FETCH 0"]),
            ("move all from \"C d\"", &["C MOVE 0"]),
            ("close \"C d\"", &["C CLOSE CURSOR"]),
            ("declare next cursor for values (1), (2)", &["C DECLARE CURSOR"]),
            ("fetch next", &["T 1", "D 1", "C FETCH 1"]),
            ("fetch next next", &["T 1", "D 2", "C FETCH 1"]),
            ("close all", &["C CLOSE CURSOR ALL"]),
            ("fetch next", &["E 34000 cursor \"next\" does not exist"]),
        ],
    );
}

#[test]
fn errors_of_cursors() {
    let mut world = numbered(3);
    let alone = "E 25P01 DECLARE CURSOR can only be used in transaction blocks";
    talk(
        &mut world,
        &[
            ("declare c cursor for select 1", &[alone]),
            ("fetch c", &["E 34000 cursor \"c\" does not exist"]),
            ("close c", &["E 34000 cursor \"c\" does not exist"]),
            ("close all", &["C CLOSE CURSOR ALL"]),
            (
                "begin; declare c cursor for select id from dd",
                &["C BEGIN", "C DECLARE CURSOR"],
            ),
            ("savepoint a", &["C SAVEPOINT"]),
            (
                "declare c cursor for select 1",
                &["E 42P03 cursor \"c\" already exists"],
            ),
            (
                "fetch c",
                &["E 25P02 current transaction is aborted, commands ignored until end of transaction block"],
            ),
            ("rollback to a; fetch c", &["C ROLLBACK", "T 1", "D 1", "C FETCH 1"]),
            ("rollback", &["C ROLLBACK"]),
            (
                "declare c cursor for insert into dd values (4)",
                &["E 42601 syntax error at or near \"insert\""],
            ),
            (
                "declare c scroll no scroll cursor for select 1",
                &["E 42P11 cannot specify both SCROLL and NO SCROLL"],
            ),
            (
                "declare c cursor with hold for select id from dd for update",
                &["E 0A000 DECLARE CURSOR WITH HOLD ... FOR UPDATE is not supported"],
            ),
            (
                "begin; declare c cursor for select 6 / (2 - id) from dd",
                &["C BEGIN", "C DECLARE CURSOR"],
            ),
            ("savepoint a; fetch c", &["C SAVEPOINT", "T 1", "D 6", "C FETCH 1"]),
            ("fetch c", &["T 1", "E 22012 division by zero"]),
            (
                "rollback to a; fetch c",
                &["C ROLLBACK", "E 55000 portal \"c\" cannot be run"],
            ),
            ("rollback", &["C ROLLBACK"]),
        ],
    );
    // The script of several statements is a block.
    let said = world.ask(0, "declare c cursor for select id from dd; fetch 2 from c");
    assert_eq!(said, ["C DECLARE CURSOR", "T 1", "D 1", "D 2", "C FETCH 2", "Z I"]);
    assert!(world.ask(0, "fetch c")[0].starts_with("E 34000"));
}

/// It shows what was there when it was declared, whatever its transaction writes.
#[test]
fn a_cursor_is_insensitive() {
    let mut world = numbered(4);
    world.must(0, "begin; declare c cursor for select id, a from dd");
    world.must(0, "update dd set a = 0; insert into dd values (5, 5)");
    assert_eq!(world.rows(0, "fetch 2 from c"), ["1|10", "2|20"]);
    world.must(0, "delete from dd");
    assert_eq!(world.rows(0, "fetch all from c"), ["3|30", "4|40"]);
    world.must(0, "rollback");
    // Nor does it keep anybody from changing the schema, but for its own transaction.
    world.must(0, "begin; declare c cursor for select id, a from dd; fetch c");
    assert!(world.ask(0, "drop table dd")[0].starts_with("E 55006"));
    world.must(0, "rollback");
    // A block that has shown rows of a cursor is not run again.
    world.must(0, "begin; declare c cursor for select a from dd where id < 3; fetch c");
    world.must(1, "update dd set a = 5 where id = 1");
    let said = world.ask(0, "update dd set a = 6 where id = 1; commit");
    assert!(said.iter().any(|line| line.starts_with("E 40001")), "{said:?}");
}

#[test]
fn a_cursor_with_hold_outlasts_its_transaction() {
    let mut world = numbered(30_000);
    world.must(0, "declare c cursor with hold for select id from dd where id > 2");
    world.must(
        0,
        "begin; declare d cursor with hold for select id from dd order by id desc",
    );
    assert_eq!(world.rows(0, "fetch d"), ["30000"]);
    world.must(0, "commit; delete from dd; drop table dd");
    assert_eq!(world.rows(0, "fetch 2 from c"), ["3", "4"]);
    world.must(0, "begin");
    assert_eq!(world.rows(0, "fetch 2 from d"), ["29999", "29998"]);
    world.must(0, "rollback");
    assert_eq!(world.rows(0, "fetch all from c").len(), 29_996);
    assert_eq!(
        world.ask(0, "fetch all from c; close c"),
        ["T 1", "C FETCH 0", "C CLOSE CURSOR", "Z I"]
    );
    assert_eq!(world.rows(0, "fetch d"), ["29997"]);
    world.must(0, "discard all");
    assert!(world.ask(0, "fetch d")[0].starts_with("E 34000"));
    // One of a transaction that was rolled back has gone with it.
    world.must(0, "begin; declare e cursor with hold for select 1; rollback");
    assert!(world.ask(0, "fetch e")[0].starts_with("E 34000"));
    assert!(
        world.ask(
            0,
            "declare e cursor with hold for select 1 / (2 - g) from generate_series(1, 3) g"
        )[0]
        .starts_with("E 22012")
    );
    assert!(world.ask(0, "fetch e")[0].starts_with("E 34000"));
    assert_eq!(world.node.figures().live_transactions, 0);
}

/// As drivers do it: a cursor with parameters, described as a portal, fetched by the extended protocol.
#[test]
fn a_cursor_in_the_extended_protocol() {
    let mut world = numbered(5);
    world.must(0, "begin");
    let declare = [
        parse(
            "",
            "declare \"c\" cursor for select id, a from dd where id > $1 and a < $2",
        ),
        Request::DescribeStatement(String::new()),
        bind_to("", "", &["1", "50"]),
        execute("", 0),
        Request::DescribePortal("c".into()),
        Request::Sync,
    ];
    assert_eq!(
        world.tell(0, declare),
        ["1", "t 2", "n", "2", "C DECLARE CURSOR", "T 2", "Z T"]
    );
    let fetch = || {
        [
            parse("", "fetch forward 2 from \"c\""),
            bind("", ""),
            Request::DescribePortal(String::new()),
            execute("", 0),
            Request::Sync,
        ]
    };
    assert_eq!(
        world.tell(0, fetch()),
        ["1", "2", "T 2", "D 2|20", "D 3|30", "C FETCH 2", "Z T"]
    );
    world.must(0, "update dd set a = 0");
    assert_eq!(world.tell(0, fetch()), ["1", "2", "T 2", "D 4|40", "C FETCH 1", "Z T"]);
    assert_eq!(world.tell(0, fetch()), ["1", "2", "T 2", "C FETCH 0", "Z T"]);
    let said = world.tell(0, unnamed("close c").into_iter().chain([Request::Sync]));
    assert_eq!(said, ["1", "2", "C CLOSE CURSOR", "Z T"]);
    let said = world.tell(0, fetch());
    assert_eq!(said[2..], ["n", "E 34000 cursor \"c\" does not exist", "Z E"]);
}
