//! Prepared statements whose tables change: those whose result would be another one are refused, the others go on.

use crate::world::*;
use rubato_node::NodeSettings;
use rubato_sql::client::Request;

const CHANGED: &str = "E 0A000 cached plan must not change result type";

fn priced(sessions: usize) -> World {
    let mut world = World::new(sessions);
    world.must(0, "create table dd (id int primary key, price int not null, a int)");
    world.must(0, "insert into dd values (1, 500, 7), (2, 600, 8)");
    world
}

fn describe(name: &str) -> Request {
    Request::DescribeStatement(name.into())
}

/// What of the answers is an error, a row or a description.
fn told(said: &[String]) -> Vec<&str> {
    let tells = |line: &&str| line.starts_with(['E', 'D', 'T', 'n']);
    said.iter().map(String::as_str).filter(tells).collect()
}

#[test]
fn a_statement_whose_result_would_be_another_one_is_refused() {
    for (statement, change) in [
        (
            "select * from dd where id = $1",
            "alter table dd drop price; alter table dd add disc int default 3",
        ),
        ("select * from dd where id = $1", "alter table dd drop a"),
        ("select * from dd where id = $1", "alter table dd add b int"),
        ("select * from dd where id = $1", "alter table dd rename a to b"),
        (
            "select a from dd where id = $1",
            "drop table dd; create table dd (id int primary key, a text, price int); insert into dd values (1, 'x', 1)",
        ),
        (
            "select a from dd where id = $1",
            "drop table dd; create table dd (id int primary key, a numeric(4,1)); insert into dd values (1, 2)",
        ),
        (
            "insert into dd values ($1, 5, 5) returning *",
            "alter table dd add b int",
        ),
        (
            "update dd set a = 1 where id = $1 returning *",
            "alter table dd drop price",
        ),
        ("delete from dd where id = $1 returning *", "alter table dd drop price"),
    ] {
        let mut world = priced(2);
        let said = world.tell(0, [parse("s", statement), describe("s"), Request::Sync]);
        assert!(!said.iter().any(|line| line.starts_with('E')), "{said:?}");
        world.must(1, change);
        let run = |value| {
            [
                bind_to("", "s", &[value]),
                Request::DescribePortal(String::new()),
                execute("", 0),
                Request::Sync,
            ]
        };
        for value in ["1", "3"] {
            let said = world.tell(0, run(value));
            assert_eq!(said, [CHANGED, "Z I"], "{statement}: {change}");
        }
        let said = world.tell(0, [describe("s"), Request::Sync]);
        assert_eq!(said, [CHANGED, "Z I"], "{statement}: {change}");
        // Prepared anew it is what it is now.
        let said = world.tell(
            0,
            [
                Request::CloseStatement("s".into()),
                parse("s", statement),
                Request::Sync,
            ],
        );
        assert_eq!(said, ["3", "1", "Z I"]);
        assert!(!told(&world.tell(0, run("1"))).contains(&CHANGED));
    }
}

#[test]
fn a_statement_with_the_same_result_goes_on() {
    for change in [
        "create index on dd (a)",
        "alter table dd drop a; alter table dd add c int",
        "drop table dd; create table dd (more text, price int, id int primary key); insert into dd values ('x', 500, 1)",
        "begin; alter table dd add x int; rollback",
    ] {
        let mut world = priced(2);
        let sql = "select id, price from dd where id = $1 and price > 0";
        world.tell(
            0,
            [parse("s", sql), bind_to("", "s", &["1"]), execute("", 0), Request::Sync],
        );
        world.must(1, change);
        for _ in 0..2 {
            let requests = [describe("s"), bind_to("", "s", &["1"]), execute("", 0), Request::Sync];
            assert_eq!(told(&world.tell(0, requests)), ["T 2", "D 1|500"], "{change}");
        }
    }
}

#[test]
fn a_statement_whose_table_has_gone_says_so() {
    let mut world = priced(2);
    world.tell(0, [parse("s", "select * from dd"), Request::Sync]);
    world.must(1, "drop table dd");
    let gone = "E 42P01 relation \"dd\" does not exist";
    assert_eq!(world.tell(0, [describe("s"), Request::Sync]), [gone, "Z I"]);
    assert_eq!(
        world.tell(0, [bind("", "s"), execute("", 0), Request::Sync]),
        [gone, "Z I"]
    );
    world.must(1, "create table dd (id int primary key, price int not null, a int)");
    assert_eq!(
        told(&world.tell(0, [describe("s"), bind("", "s"), execute("", 0), Request::Sync])),
        ["T 3"]
    );
}

/// One's own change of the schema counts as that of others, and only as long as it is not rolled back.
#[test]
fn a_statement_follows_the_schema_of_its_own_transaction() {
    let mut world = priced(1);
    world.tell(0, [parse("s", "select * from dd where id = $1"), Request::Sync]);
    world.must(0, "begin; savepoint a; alter table dd drop price");
    let run = || [bind_to("", "s", &["1"]), execute("", 0), Request::Sync];
    assert_eq!(world.tell(0, run()), [CHANGED, "Z E"]);
    world.must(0, "rollback to a");
    assert_eq!(told(&world.tell(0, run())), ["D 1|500|7"]);
    world.must(0, "alter table dd drop price; commit");
    assert_eq!(world.tell(0, run()), [CHANGED, "Z I"]);
}

#[test]
fn execute_in_sql_follows_the_tables_too() {
    let mut world = priced(2);
    world.must(0, "prepare s (int) as select * from dd where id = $1");
    world.must(0, "prepare t (int) as select a from dd where id = $1");
    assert_eq!(world.rows(0, "execute s (1)"), ["1|500|7"]);
    world.must(1, "create index on dd (a)");
    assert_eq!(world.rows(0, "execute s (2)"), ["2|600|8"]);
    world.must(1, "alter table dd drop price");
    assert_eq!(world.ask(0, "execute s (1)"), [CHANGED, "Z I"]);
    assert_eq!(world.rows(0, "execute t (2)"), ["8"]);
    world.must(0, "deallocate s; prepare s (int) as select * from dd where id = $1");
    assert_eq!(world.rows(0, "execute s (2)"), ["2|8"]);
}

/// The change comes between Bind and Execute.
#[test]
fn a_portal_does_not_change_its_columns() {
    let mut world = priced(2);
    world.must(0, "begin");
    world.tell(
        0,
        [
            parse("s", "select * from dd order by id"),
            bind("p", "s"),
            bind("q", "s"),
            Request::Sync,
        ],
    );
    world.must(1, "alter table dd drop price; alter table dd add disc int default 3");
    assert_eq!(world.tell(0, [execute("p", 0), Request::Sync]), [CHANGED, "Z E"]);
    world.must(0, "rollback");
    // One that has begun goes on.
    world.must(0, "begin");
    let said = world.tell(
        0,
        [
            parse("t", "select id, a from dd"),
            bind("p", "t"),
            execute("p", 1),
            Request::Sync,
        ],
    );
    assert_eq!(told(&said), ["D 1|7"]);
    world.must(1, "create index on dd (a)");
    assert_eq!(told(&world.tell(0, [execute("p", 0), Request::Sync])), ["D 2|8"]);
}

/// Rows and tags of a statement that is bound to these values, and errors.
fn bound(world: &mut World, sql: &str, values: &[&str]) -> Vec<String> {
    let requests = [parse("", sql), bind_to("", "", values), execute("", 0), Request::Sync];
    let said = world.tell(0, requests);
    let tells = |line: &String| line.starts_with(['E', 'D', 'C']);
    said.into_iter().filter(tells).collect()
}

#[test]
fn explain_takes_the_values_that_its_statement_is_bound_to() {
    let mut world = priced(1);
    let said = bound(&mut world, "explain select a from dd where id = $1", &["2"]);
    assert_eq!(said.last().map(String::as_str), Some("C EXPLAIN"), "{said:?}");
    let said = bound(
        &mut world,
        "explain (analyze) select a from dd where id = $1 and a = $2",
        &["2", "8"],
    );
    assert!(said.iter().any(|line| line.contains("rows 1, 0 us")), "{said:?}");
    let said = bound(
        &mut world,
        "explain (analyze) update dd set a = $2 where id = $1",
        &["2", "80"],
    );
    assert_eq!(said.last().map(String::as_str), Some("C EXPLAIN"), "{said:?}");
    assert_eq!(world.rows(0, "select a from dd where id = 2"), ["80"]);
    let shown = world.rows(0, "explain select a from dd where id = 2").join("\n");
    assert!(shown.contains('2') && !shown.contains("$1"), "{shown}");
    let said = world.tell(
        0,
        [
            parse("e", "explain select a from dd where id = $1"),
            describe("e"),
            Request::Sync,
        ],
    );
    assert!(said.contains(&"t 1".to_owned()), "{said:?}");
}

#[test]
fn a_table_is_made_of_a_query_that_is_bound_to_values() {
    let mut world = priced(1);
    let sql = "create table made as select id, $2 as said from dd where id > $1";
    assert_eq!(bound(&mut world, sql, &["1", "x"]), ["C SELECT 1"]);
    assert_eq!(
        world.rows(0, "select id, said, pg_typeof(said) from made"),
        ["2|x|text"]
    );
    assert_eq!(
        bound(&mut world, "select a into other from dd where id = $1", &["1"]),
        ["C SELECT 1"]
    );
    assert_eq!(world.rows(0, "select * from other"), ["7"]);
    let none = "create table none as select a from dd where id = $1 with no data";
    assert_eq!(bound(&mut world, none, &["1"]), ["C CREATE TABLE AS"]);
}

/// Tens of thousands of prepared statements took more than a gigabyte, whatever a statement might take.
#[test]
fn prepared_statements_take_no_more_than_a_statement_may() {
    let mut settings = NodeSettings::default();
    settings.limits.bytes_max = 1 << 20;
    let mut world = World::with(1, settings);
    let mut refused = Vec::new();
    for number in 0..100 {
        let said = world.tell(0, [parse(&format!("s{number}"), "select 1"), Request::Sync]);
        refused.extend(said.into_iter().filter(|line| line.starts_with("E ")));
    }
    assert!((50..90).contains(&refused.len()), "{} refused", refused.len());
    assert!(refused[0].starts_with("E 53200"), "{}", refused[0]);
    let said = world.ask(0, "prepare another as select 2");
    assert!(said[0].starts_with("E 53200"), "{said:?}");
    world.must(0, "deallocate all; prepare another as select 2");
}
