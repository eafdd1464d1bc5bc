//! Queries within expressions, and views, as sessions see them.

use crate::world::*;
use rubato_stages::worker::CancelReason;

const ROWS: usize = 4000;

fn filled(sessions: usize) -> World {
    let mut world = World::new(sessions);
    world.must(0, "create table t (id int primary key, n int not null, tag int)");
    world.must(0, "create table u (id int primary key, t_id int, v int)");
    world.must(0, "create index on u (t_id)");
    world.must(
        0,
        &format!("insert into t select g, 0, g % 10 from generate_series(1, {ROWS}) g"),
    );
    world.must(0, "insert into u select g, g % 100, g from generate_series(1, 1000) g");
    world
}

#[test]
fn parameters_reach_queries_within() {
    let mut world = filled(1);
    let count = "select (select count(*) from u where t_id = $1 and v < $2 + t.tag) from t where id = $1";
    let ask = |world: &mut World, values: &[&str]| {
        world.tell(
            0,
            [
                bind_to("", "count", values),
                execute("", 0),
                rubato_sql::client::Request::Sync,
            ],
        )
    };
    world.tell(0, [parse("count", count), rubato_sql::client::Request::Sync]);
    for (values, expected) in [
        (["7", "500"], "5"),
        (["8", "500"], "5"),
        (["7", "1"], "1"),
        (["99", "2000"], "10"),
    ] {
        let said = ask(&mut world, &values);
        assert!(said.iter().any(|line| line.ends_with(expected)), "{values:?}: {said:?}");
    }
}

#[test]
fn others_have_their_turn_while_queries_are_asked_for_each_row() {
    for sql in [
        "select count(*) from t where (select count(*) from u where u.v < t.id) >= 0",
        "select count(*) from t where exists (select 1 from u where u.v = -1 - t.id)",
        "select sum((select count(*) from u u2 where u2.v % 7 = t.id)) from t",
        "select count(*) from t, lateral (select max(v) from u where u.v > t.id) x",
        "update t set n = (select count(*) from u where u.v < t.id)",
        "delete from t where not exists (select 1 from u where u.v = -t.id)",
    ] {
        let mut world = filled(2);
        world.send(0, [query(sql)]);
        let mut turns = 0;
        while !world.is_idle(0) && turns < 20 {
            world.turn();
            turns += 1;
        }
        assert!(!world.is_idle(0), "{sql} was one step");
        world.send(1, [query("select n from t where id = 5")]);
        world.turn();
        assert!(world.is_idle(1), "{sql}: a statement of one row waits for a long one");
        world.cancel(0, CancelReason::ClientRequest);
        world.run();
        let said = world.said(0);
        assert!(said.iter().any(|line| line.starts_with("E 57014")), "{sql}: {said:?}");
        assert_eq!(world.rows(0, "select count(*), sum(n) from t"), ["4000|0"], "{sql}");
    }
}

#[test]
fn rows_found_by_a_query_are_changed_as_they_are_now() {
    let mut world = filled(3);
    world.must(0, "begin; update t set n = n + 1 where id = 1");
    // Waits for the row, and then sees what it has become.
    world.begin(1, "update t set n = t.n * 10 + u.v from u where u.id = 3 and t.id = 1");
    world.run();
    assert!(!world.is_idle(1));
    world.must(0, "commit");
    world.run();
    assert!(world.said(1).iter().any(|line| line.contains("UPDATE 1")));
    assert_eq!(world.rows(0, "select n from t where id = 1"), ["13"]);
    // What was read beside the row is protected as well.
    world.must(0, "begin");
    world.must(0, "update t set n = (select v from u where id = 5) where id = 2");
    world.must(1, "update u set v = 0 where id = 5");
    let committed = world.ask(0, "commit");
    let n = world.rows(2, "select n from t where id = 2");
    assert!(n == ["5"] || (n == ["0"] && committed.iter().any(|line| line.starts_with("E 40001"))));
}

#[test]
fn a_row_that_several_others_join_is_changed_once() {
    let mut world = filled(1);
    assert!(
        world
            .ask(0, "update t set n = n + 1 from u where u.t_id = t.id")
            .iter()
            .any(|line| line.contains("UPDATE 99"))
    );
    assert_eq!(world.rows(0, "select sum(n) from t"), ["99"]);
    assert!(
        world
            .ask(0, "delete from t using u where u.t_id = t.id")
            .iter()
            .any(|line| line.contains("DELETE 99"))
    );
}

#[test]
fn a_view_lives_and_dies_with_its_transaction() {
    let mut world = filled(2);
    world.must(0, "begin; create view w as select id, n from t where tag = 3");
    assert!(world.ask(1, "select * from w")[0].starts_with("E 42P01"));
    world.must(0, "rollback");
    assert!(world.ask(0, "select * from w")[0].starts_with("E 42P01"));
    world.must(0, "create view w as select id, n from t where tag = 3");
    world.tell(
        1,
        [
            parse("read", "select count(*) from w"),
            rubato_sql::client::Request::Sync,
        ],
    );
    assert_eq!(world.rows(1, "select count(*) from w where id < 20"), ["2"]);
    world.must(
        0,
        "create or replace view w as select id, n from t where tag = 4 and id < 100",
    );
    let said = world.tell(1, [bind("", "read"), execute("", 0), rubato_sql::client::Request::Sync]);
    assert!(said.iter().any(|line| line.ends_with("10")), "{said:?}");
    for _ in 0..2 {
        assert_eq!(world.rows(0, "select count(*) from w"), ["10"]);
        assert!(world.ask(0, "drop table t")[0].starts_with("E 2BP01"));
        world.node.checkpoint().expect("a checkpoint");
        world = world.restart();
    }
    world.must(0, "drop table t cascade");
    assert!(world.ask(0, "select * from w")[0].starts_with("E 42P01"));
}

#[test]
fn a_view_of_a_table_that_goes_meanwhile_is_refused() {
    let mut world = filled(2);
    for change in ["drop table u", "alter table u drop column v"] {
        world.must(0, "begin; create view w as select id, v from u");
        world.must(1, &format!("begin; {change}"));
        world.must(1, "commit");
        let said = world.ask(0, "commit");
        assert!(said[0].starts_with("E 40001"), "{change}: {said:?}");
        world.must(
            0,
            "drop table if exists u; create table u (id int primary key, t_id int, v int)",
        );
    }
}

#[test]
fn a_table_is_made_of_a_query() {
    let mut world = filled(2);
    let tag = |world: &mut World, sql: &str| {
        let said = world.ask(0, sql);
        said.into_iter()
            .find(|line| line.starts_with(['C', 'E']))
            .unwrap_or_default()
    };
    for (sql, expected) in [
        (
            "create table c as select id, n, tag * 1.5 as x from t where tag = 3",
            "C SELECT 400",
        ),
        ("create table c as select 1 as one", "E 42P07"),
        ("create table if not exists c as select 1 as one", "C CREATE TABLE AS"),
        (
            "create table d (k, s) as select tag, count(*) from t group by tag with data",
            "C SELECT 10",
        ),
        ("create table e as select * from t with no data", "C CREATE TABLE AS"),
        (
            "select tag, max(id) as m into f from t group by tag having max(id) > (select 3999)",
            "C SELECT 1",
        ),
        ("create table g (a, b, c) as select 1, 2", "E 42601"),
        ("create table g as select 1 as a, 2 as a", "E 42701"),
        ("create table g as select 1 / (id - 5) as a from t", "E 22012"),
        ("begin; create table g as select id from c; rollback", "C BEGIN"),
        ("select count(*) from g", "E 42P01"),
    ] {
        let said = tag(&mut world, sql);
        assert!(said.starts_with(expected), "{sql}: {said}");
    }
    world.must(
        0,
        "begin; create table g as select id from c; insert into g values (-1); create index on g (id); commit",
    );
    for _ in 0..2 {
        assert_eq!(world.rows(0, "select count(*), sum(x) from c"), ["400|1800.0"]);
        assert_eq!(world.rows(0, "select s from d where k = 7"), ["400"]);
        assert_eq!(world.rows(0, "select count(*) from e"), ["0"]);
        assert_eq!(world.rows(0, "select * from f"), ["0|4000"]);
        assert_eq!(world.rows(1, "select count(*) from g where id < 20"), ["3"]);
        world = world.restart();
    }
    // As a prepared statement of the extended protocol.
    let said = world.tell(
        0,
        [
            parse("", "create table h as select id from t"),
            bind("", ""),
            execute("", 0),
            rubato_sql::client::Request::Sync,
        ],
    );
    assert!(said.iter().any(|line| line == "C SELECT 4000"), "{said:?}");
}

/// Literals of a text are parameters of its plan: those of two places are the same key nevertheless.
#[test]
fn keys_of_grouping_sets_are_known_by_their_literals() {
    let mut world = filled(1);
    let sql = "select n, n + 1 as c, count(*) from t group by grouping sets ((n), (n + 1)) order by 1, 2";
    assert_eq!(world.rows(0, sql), ["0||4000", "|1|4000"]);
    let sql = "select n + 1, n + 2, count(*) from t group by rollup (n + 1, n + 2) order by 1, 2";
    assert_eq!(world.rows(0, sql), ["1|2|4000", "1||4000", "||4000"]);
}
