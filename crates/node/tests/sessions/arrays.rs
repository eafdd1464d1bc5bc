//! Arrays and documents in tables: over checkpoints and restarts, by key, in statements with parameters, and within limits.

use crate::world::*;
use rubato_sql::client::Request;

const TABLE: &str = "create table kept (id int primary key, tags text[] unique, n int[], v varchar(4)[], j json, d jsonb, \
     check (cardinality(n) < 5 and n[1] > 0)); \
     create index kept_d on kept (d)";

const ROWS: &str = "insert into kept values \
     (1, '{a,\"b c\",NULL}', '{1,2}', '{ab}', '{\"a\":  1}', '{\"b\": [1, 2.50], \"a\": null}'), \
     (2, '{}', '{{1,2},{3,4}}', '{}', '[]', '[]'), \
     (3, null, '[0:1]={7,8}', null, null, '\"text\"')";

fn all(world: &mut World) -> Vec<String> {
    world.rows(0, "select * from kept order by id")
}

#[test]
fn values_survive_restarts_with_and_without_a_checkpoint() {
    let mut world = World::new(1);
    world.must(0, TABLE);
    world.must(0, ROWS);
    world.must(
        0,
        "update kept set n = n || 9, d = d || '{\"new\": true}', tags = array_append(tags, 'x') where id <> 2",
    );
    world.must(0, "update kept set n[2][1] = 30, d = jsonb_build_array(d) where id = 2");
    let before = all(&mut world);
    assert_eq!(
        before,
        [
            "1|{a,\"b c\",NULL,x}|{1,2,9}|{ab}|{\"a\":  1}|{\"a\": null, \"b\": [1, 2.50], \"new\": true}",
            "2|{}|{{1,2},{30,4}}|{}|[]|[[]]",
            "3|{x}|[0:2]={7,8,9}|||[\"text\", {\"new\": true}]",
        ]
    );
    let mut world = world.restart();
    assert_eq!(all(&mut world), before);
    world.must(0, "checkpoint");
    world.must(0, "update kept set d = d - 'new' where id = 1");
    let mut world = world.restart();
    let changed = world.rows(
        0,
        "select d, n[1:2] from kept where d = '{\"a\": null, \"b\": [1, 2.5]}'",
    );
    assert_eq!(changed, ["{\"a\": null, \"b\": [1, 2.50]}|{1,2}"]);
    assert_eq!(all(&mut world)[1..], before[1..]);
}

#[test]
fn keys_and_checks_hold() {
    let mut world = World::new(1);
    world.must(0, TABLE);
    world.must(0, ROWS);
    for (sql, code) in [
        ("insert into kept (id, tags) values (4, '{}')", "E 23505"),
        ("insert into kept (id, n) values (4, '{0}')", "E 23514"),
        ("insert into kept (id, n) values (4, '{1,2,3,4,5}')", "E 23514"),
        ("insert into kept (id, v) values (4, '{abcde}')", "E 22001"),
        ("insert into kept (id, j) values (4, '{')", "E 22P02"),
        ("create index on kept (j)", "E 42704"),
    ] {
        let said = world.ask(0, sql);
        assert!(said[0].starts_with(code), "{sql}: {said:?}");
    }
    assert_eq!(world.rows(0, "select id from kept where tags = '{}'"), ["2"]);
    assert_eq!(world.rows(0, "select id from kept order by d"), ["2", "3", "1"]);
}

/// Literals are taken out of the text of a statement before its plan is looked up.
#[test]
fn plans_are_shared_by_statements_that_differ_in_literals() {
    let mut world = World::new(1);
    world.must(0, TABLE);
    world.must(0, ROWS);
    for (key, expected) in [("b", "[1, 2.50]"), ("a", "null"), ("c", "")] {
        let rows = world.rows(0, &format!("select d->'{key}' from kept where id = 1"));
        assert_eq!(rows, [expected], "{key}");
    }
    for (place, expected) in [(1, "a"), (2, "b c"), (9, "")] {
        let rows = world.rows(0, &format!("select tags[{place}] from kept where id = 1"));
        assert_eq!(rows, [expected], "{place}");
    }
    assert_eq!(
        world.rows(
            0,
            "select (array[1,2,3])[2], array[1,2] || 3, d['b'][0] from kept where id = 1"
        ),
        ["2|{1,2,3}|1"]
    );
    assert_eq!(
        world.rows(0, "select array[4,5] || 6, '{1,2}'::int[] || '{7}'"),
        ["{4,5,6}|{1,2,7}"]
    );
    let said = world.tell(
        0,
        [
            parse(
                "s",
                "select id, unnest($1::text[]) from kept where n @> $2 and d @> $3 order by 1, 2",
            ),
            bind_to("p", "s", &["{x,y}", "{1}", "[]"]),
            execute("p", 0),
            Request::Sync,
        ],
    );
    let rows: Vec<&String> = said.iter().filter(|line| line.starts_with("D ")).collect();
    assert_eq!(rows, ["D 2|x", "D 2|y"]);
}

#[test]
fn functions_of_rows_see_what_stands_before_them() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table numbers (n bigint); insert into numbers select generate_series(1, 2000)",
    );
    assert_eq!(world.rows(0, "select cardinality(array_agg(n)) from numbers"), ["2000"]);
    assert_eq!(
        world.rows(0, "select count(*) from numbers, generate_series(1, n % 3) g"),
        ["2001"]
    );
    let parts = world.rows(0, "select unnest(array[n, -n]) from numbers where n < 3 order by 1");
    assert_eq!(parts, ["-2", "-1", "1", "2"]);
}
