//! Views that are written or whose tables are renamed, among several sessions and after a restart.

use crate::world::*;

fn code(said: &[String]) -> &str {
    let error = said.iter().find_map(|line| line.strip_prefix("E "));
    error.map_or("none", |error| &error[..5])
}

#[test]
fn sums_through_a_view_do_not_wait_for_each_other() {
    let mut world = World::new(3);
    world.must(
        0,
        "create table t (id int primary key, n int not null check (n >= 0)); insert into t values (1, 100);
         create view v as select id as key, n as amount from t; create view w as select * from v",
    );
    for session in 0..3 {
        world.must(session, "begin");
    }
    world.must(0, "update v set amount = amount - 10 where key = 1");
    world.must(1, "update w set amount = amount - 20 where key = 1");
    world.must(2, "update t set n = n - 30 where id = 1");
    for session in [1, 2, 0] {
        world.must(session, "commit");
    }
    assert_eq!(world.rows(0, "select amount from w"), ["40"]);
}

#[test]
fn a_statement_that_was_prepared_follows_the_view() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table t (id int primary key, a int, b int); insert into t values (1, 10, 20);
         create view v as select id, a as x from t",
    );
    world.must(1, "prepare p as update v set x = x + 1 where id = 1");
    world.must(1, "prepare q as select x from v");
    world.must(1, "execute p");
    world.must(0, "create or replace view v as select id, b as x from t");
    world.must(1, "execute p");
    assert_eq!(world.rows(1, "execute q"), ["21"]);
    assert_eq!(world.rows(0, "select a, b from t"), ["11|21"]);
    world.must(0, "alter table t rename b to c; alter table t rename to u");
    world.must(1, "execute p");
    assert_eq!(world.rows(1, "execute q"), ["22"]);
    world.must(0, "alter view v set (check_option = local)");
    world.must(
        0,
        "create or replace view v as select id, c as x from u where c < 24 with check option",
    );
    world.must(1, "execute p");
    assert_eq!(code(&world.ask(1, "execute p")), "44000");
    assert_eq!(world.rows(1, "execute q"), ["23"]);
}

#[test]
fn renaming_is_taken_back_with_its_transaction() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table t (id int primary key, a int); insert into t values (1, 10); create view v as select t.a from t where a > 0",
    );
    let text = "select pg_get_viewdef('v'::regclass)";
    let before = world.rows(0, text);
    world.must(
        0,
        "begin; alter table t rename a to b; alter table t rename to u; update u set b = 11",
    );
    assert_eq!(world.rows(0, "select a from v"), ["11"]);
    assert_eq!(world.rows(0, text), [" SELECT u.b AS a FROM u WHERE b > 0;"]);
    assert_eq!(world.rows(1, "select a from v"), ["10"]);
    world.must(0, "rollback");
    assert_eq!(world.rows(0, text), before);
    assert_eq!(world.rows(0, "select a from v"), ["10"]);
}

#[test]
fn texts_say_the_new_names() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (a int, b int); create table u (b int, c int); create schema s; create table s.x (y int);
         create view plain as select a, b + 1 as more from t where a > 0;
         create view labels as select coalesce(a, 0), a::text, t.b from t;
         create view inner_labels as select q.a from (select a from t) q;
         create view joined as select a, c from t join u using (b);
         create view starred as select q.a from (select * from t) q;
         create view captured as select (select max(b) from u where a = c) as m from t;
         create view taken as select t.a from t, u as other;
         create view in_schema as select s.x.y from s.x;
         alter table t rename a to c; alter table t rename b to d; alter table t rename to other;
         alter table s.x rename y to z; alter schema s rename to s2; alter table s2.x rename to xx",
    );
    for (view, text) in [
        ("plain", "SELECT c AS \"a\", d + 1 AS more FROM other WHERE c > 0"),
        (
            "labels",
            "SELECT coalesce(c, 0), c::TEXT AS \"a\", other.d AS \"b\" FROM other",
        ),
        ("inner_labels", "SELECT q.a FROM (SELECT c AS \"a\" FROM other) q"),
    ] {
        let shown = world.rows(0, &format!("select pg_get_viewdef('{view}'::regclass)"));
        assert_eq!(
            shown[0].replace('"', ""),
            format!(" {text};").replace('"', ""),
            "{view}"
        );
    }
    for view in [
        "plain",
        "labels",
        "inner_labels",
        "joined",
        "starred",
        "captured",
        "taken",
        "in_schema",
    ] {
        world.must(0, &format!("select * from {view}"));
        // What is shown can be said again.
        let shown = world
            .rows(0, &format!("select pg_get_viewdef('{view}'::regclass)"))
            .join("\n");
        world.must(0, &format!("create view again_{view} as {shown}"));
    }
}

#[test]
fn what_was_said_survives_a_restart() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (id int primary key, a int, b int constraint small check (b < 100), c text);
         create view v with (security_barrier) as select id, a from t where a > 0 with local check option;
         create unique index i on t (a desc nulls last, b) include (c) nulls not distinct;
         create table d (id int primary key deferrable initially deferred, x int generated always as identity);
         create table k (id int, extra int, primary key (id) include (extra));
         create sequence s as smallint;
         comment on index i is 'an index'; comment on constraint small on t is 'a check';
         insert into t values (1, 1, 1, 'x'); insert into d (id) values (1), (2)",
    );
    world.must(
        0,
        "alter table t rename a to z; alter table t rename constraint small to smaller; alter table d alter x set generated by default",
    );
    let looks = [
        "select id, a from v",
        "select pg_get_viewdef('v'::regclass)",
        "select reloptions from pg_class where relname = 'v'",
        "select pg_get_indexdef('i'::regclass), obj_description('i'::regclass, 'pg_class')",
        "select conname, pg_get_constraintdef(oid), obj_description(oid, 'pg_constraint') from pg_constraint where conrelid >= 16384 order by 1",
        "select data_type, max_value from pg_sequences where sequencename = 's'",
        "select attidentity from pg_attribute where attrelid = 'd'::regclass and attname = 'x'",
    ];
    let before: Vec<Vec<String>> = looks.iter().map(|look| world.rows(0, look)).collect();
    assert_eq!(
        before[3],
        [
            "CREATE UNIQUE INDEX i ON public.t USING btree (z DESC NULLS LAST, b) INCLUDE (c) NULLS NOT DISTINCT|an index"
        ]
    );
    let mut world = world.restart();
    for (look, before) in looks.iter().zip(before) {
        assert_eq!(world.rows(0, look), before, "{look}");
    }
    assert_eq!(code(&world.ask(0, "insert into v values (2, -1)")), "44000");
    world.must(0, "update d set id = 3 - id");
    world.must(0, "begin; insert into d (id) values (1)");
    assert_eq!(code(&world.ask(0, "commit")), "23505");
    world.must(0, "insert into t (id, b) values (3, 3)");
    assert_eq!(code(&world.ask(0, "insert into t (id, b) values (4, 3)")), "23505");
    world.must(0, "insert into d (id, x) values (9, 90)");
    world.must(0, "drop table t cascade; drop table d; drop table k");
}

#[test]
fn an_index_that_is_built_says_how_far_it_is() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table t (id int primary key, n int); insert into t select g, g % 7 from generate_series(1, 30000) g",
    );
    let look = "select relid::regclass, command, phase, tuples_total, tuples_done from pg_stat_progress_create_index";
    assert_eq!(world.rows(1, look), Vec::<String>::new());
    world.send(0, [query("create index on t (n)")]);
    let mut done = Vec::new();
    while !world.is_idle(0) {
        world.turn();
        world.send(1, [query(look)]);
        world.turn();
        for row in world.said(1).iter().filter_map(|line| line.strip_prefix("D ")) {
            let shown = row.strip_prefix("t|CREATE INDEX|building index|30000|");
            done.push(shown.and_then(|done| done.parse::<u64>().ok()).expect(row));
        }
    }
    assert!(done.len() >= 3, "{done:?}");
    assert!(done.is_sorted() && done.first() < done.last(), "{done:?}");
    assert_eq!(world.rows(1, look), Vec::<String>::new());
}

/// A schema change that takes long lets others read the table all the while, and writers of other tables write.
#[test]
fn readers_read_while_a_table_changes() {
    for change in [
        "create index on t (n)",
        "alter table t add column c int not null default 7",
        "alter table t add constraint low check (n < 7)",
        "alter table t add constraint once unique (id, n)",
        "alter table t alter n type bigint",
        "alter table t alter n type text",
        "alter table t add foreign key (n) references u",
    ] {
        let mut world = World::new(3);
        world.must(
            0,
            "create table t (id int primary key, n int); insert into t select g, g % 7 from generate_series(1, 30000) g;
             create table u (id int primary key); insert into u select generate_series(0, 6); create table o (n int); insert into o values (0)",
        );
        world.send(0, [query(change)]);
        let mut turns = 0;
        while !world.is_idle(0) {
            assert!(turns < TURNS_MAX, "{change} does not end");
            world.send(1, [query("select n from t where id = 77")]);
            world.send(2, [query("update o set n = n + 1")]);
            world.turn();
            assert!(world.is_idle(1) && world.is_idle(2), "{change} holds others up");
            let said = world.said(1);
            assert!(said.contains(&"D 0".to_owned()), "{change}: {said:?}");
            turns += 1;
        }
        let said = world.said(0);
        assert_eq!(code(&said), "none", "{change}: {said:?}");
        world.said(2);
        assert_eq!(world.rows(1, "select n from o"), [turns.to_string()], "{change}");
    }
}

/// Of two transactions, one has a view read what it did not read, and the other changes what that is: the second is told so.
#[test]
fn views_and_what_others_change_beneath_them_are_put_together_only_where_they_fit() {
    let swap = "alter table t rename a to c; alter table t rename b to a; alter table t rename c to b";
    let replaced = "create or replace view v as select id, a from t";
    let ways = [
        (swap, replaced),
        (
            "alter table t drop b",
            "create or replace view v as select id, b from t",
        ),
        (
            "alter table t alter a type text",
            "create or replace view v as select id, a + 1 as x from t",
        ),
        (
            "alter table t drop constraint t_pkey",
            "create or replace view v as select id, a from t group by id",
        ),
        (
            "alter view v rename id to number",
            "create view over as select id from v",
        ),
        (
            "drop view v; create view v as select 'x' as id",
            "create view over as select id + 1 from v",
        ),
        (
            "drop view v; create table v (id text)",
            "create view over as select id + 1 from v",
        ),
        (
            "alter materialized view m rename id to number",
            "create view over as select id from m",
        ),
        (
            "alter type mood rename value 'sad' to 'low'",
            "create view over as select 'sad'::mood as m",
        ),
        (
            "alter domain small add check (value < 5)",
            "create or replace view v as select id, 7::small as s from t",
        ),
        (
            "alter schema own rename to others",
            "create view over as select id from own.w",
        ),
        (
            "alter schema own rename to others",
            "create view over as select nextval('own.s')",
        ),
        (
            "alter sequence own.s rename to s2",
            "create view over as select nextval('own.s')",
        ),
    ];
    for (one, other) in ways.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]) {
        let mut world = World::new(2);
        world.must(
            0,
            "create table t (id int primary key, a int, b int); insert into t values (1, 10, 100);
             create type mood as enum ('sad', 'ok'); create domain small as int;
             create view v as select id from t; create materialized view m as select id from t;
             create schema own; create view own.w as select id from t; create sequence own.s",
        );
        world.must(0, &format!("begin; {one}"));
        world.must(1, other);
        let said = world.ask(0, "commit");
        assert!(said[0].starts_with("E 40001"), "{one} beside {other}: {said:?}");
    }
    // What does not touch one another is put together: a view with the same columns over another query, too.
    let mut world = World::new(2);
    world.must(
        0,
        "create table t (id int primary key, a int); create table u (id int); create view v as select id from t; create materialized view m as select id from u",
    );
    world.must(
        0,
        "begin; create or replace view v as select id from u; alter table t add b int",
    );
    world.must(1, "create view over as select id from v; refresh materialized view m");
    world.must(0, "commit");
    assert_eq!(world.rows(1, "select * from over"), Vec::<String>::new());
}
