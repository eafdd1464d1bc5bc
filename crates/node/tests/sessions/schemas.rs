//! Schemas, search paths and temporary relations among several sessions, and after a restart.

use crate::world::*;

fn code(said: &[String]) -> &str {
    let error = said.iter().find_map(|line| line.strip_prefix("E "));
    error.map_or("none", |error| &error[..5])
}

#[test]
fn plans_are_shared_only_by_sessions_that_mean_the_same() {
    let mut world = World::new(3);
    world.must(0, "create schema a; create schema b");
    for (schema, value) in [("a", 1), ("b", 2), ("public", 3)] {
        world.must(0, &format!("create table {schema}.t (x int)"));
        world.must(0, &format!("insert into {schema}.t values ({value})"));
    }
    world.must(0, "set search_path to a");
    world.must(1, "set search_path to b");
    let sql = "select x from t where x > 0";
    for _ in 0..3 {
        for (session, expected) in [(0, "1"), (1, "2"), (2, "3")] {
            assert_eq!(world.rows(session, sql), [expected]);
            let said = world.tell(
                session,
                unnamed(sql).into_iter().chain([rubato_sql::client::Request::Sync]),
            );
            assert!(said.contains(&format!("D {expected}")), "{said:?}");
        }
    }
    // A statement that was prepared under one path means what the next one says.
    world.tell(2, [parse("p", sql), rubato_sql::client::Request::Sync]);
    world.must(2, "set search_path to b");
    let said = world.tell(2, [bind("", "p"), execute("", 0), rubato_sql::client::Request::Sync]);
    assert!(said.contains(&"D 2".to_owned()), "{said:?}");
}

#[test]
fn what_is_made_in_front_hides_what_was_found_behind() {
    let mut world = World::new(2);
    world.must(0, "create schema a; create table t (x int); insert into t values (1)");
    world.must(1, "set search_path to a, public");
    let sql = "select x from t";
    assert_eq!(world.rows(1, sql), ["1"]);
    assert_eq!(world.rows(1, sql), ["1"]);
    world.must(0, "create table a.t (x int); insert into a.t values (2)");
    assert_eq!(world.rows(1, sql), ["2"]);
    world.must(0, "drop table a.t");
    assert_eq!(world.rows(1, sql), ["1"]);
    assert_eq!(world.rows(0, sql), ["1"]);
    // So does a session's own table, for this session.
    world.must(0, "create temp table t (x int); insert into t values (3)");
    assert_eq!(
        (world.rows(0, sql), world.rows(1, sql)),
        (vec!["3".to_owned()], vec!["1".to_owned()])
    );
    world.must(0, "drop table t");
    assert_eq!(world.rows(0, sql), ["1"]);
}

#[test]
fn sessions_have_temporary_tables_of_the_same_name() {
    let mut world = World::new(3);
    for session in 0..3 {
        world.must(session, "create temp table t (id serial primary key, x int unique)");
        world.must(session, &format!("insert into t (x) values ({session}), (10)"));
    }
    for session in 0..3 {
        let rows = world.rows(session, "select id, x from t order by id");
        assert_eq!(rows, [format!("1|{session}"), "2|10".to_owned()]);
    }
    assert_eq!(
        world.rows(0, "select count(*) from pg_class where relname = 't'"),
        ["3"]
    );
    let theirs = world.rows(
        0,
        "select relnamespace::regnamespace from pg_class where relname = 't' and not pg_table_is_visible(oid) limit 1",
    );
    assert_eq!(code(&world.ask(0, &format!("select * from {}.t", theirs[0]))), "0A000");
    assert_eq!(code(&world.ask(0, &format!("drop table {}.t", theirs[0]))), "0A000");
    // Nor by a path that leads there.
    world.must(0, &format!("drop table t; set search_path to {}, public", theirs[0]));
    for sql in [
        "select * from t",
        "update t set x = 7",
        "alter table t add y int",
        "create index on t (x)",
    ] {
        assert_eq!(code(&world.ask(0, sql)), "42P01", "{sql}");
    }
    world.must(0, "create table made (a int)");
    assert_eq!(
        world.rows(
            0,
            "select relnamespace::regnamespace from pg_class where relname = 'made'"
        ),
        ["public"]
    );
}

#[test]
fn temporary_relations_go_with_their_session() {
    let mut world = World::new(2);
    let count = "select (select count(*) from pg_class where relpersistence = 't'), count(*) from pg_namespace \
                 where nspname like 'pg_temp%'";
    world.must(
        0,
        "create temp table t (id serial primary key); insert into t default values",
    );
    world.must(0, "create temp view v as select id from t; create temp sequence s");
    world.must(0, "begin; create temp table u (a int)");
    assert_ne!(world.rows(1, count), ["0|0"]);
    world.tell(0, [rubato_sql::client::Request::Terminate]);
    assert_eq!(world.rows(1, count), ["0|0"]);
    let world = &mut world.restart();
    assert_eq!(world.rows(1, count), ["0|0"]);
}

#[test]
fn a_restart_forgets_temporary_relations_and_nothing_else() {
    let mut world = World::new(2);
    world.must(0, "create schema s; create table s.kept (id serial primary key, x int)");
    world.must(0, "insert into s.kept (x) values (1), (2)");
    for round in 0..3 {
        world.must(
            0,
            "create temp table t (id serial primary key, x int); create index on t (x)",
        );
        world.must(0, "insert into t (x) select g from generate_series(1, 100) g");
        world.must(0, "create temp view v as select x from t");
        world.must(1, "create temp table t (other text)");
        if round == 1 {
            world.must(1, "checkpoint");
        }
        world = world.restart();
        for session in 0..2 {
            assert_eq!(code(&world.ask(session, "select * from t")), "42P01");
            assert_eq!(code(&world.ask(session, "select * from v")), "42P01");
        }
        assert_eq!(
            world.rows(0, "select count(*) from pg_class where relpersistence = 't'"),
            ["0"]
        );
        assert_eq!(world.rows(0, "select count(*), max(x) from s.kept"), ["2|2"]);
    }
    world.must(0, "set search_path to s");
    world.must(0, "insert into kept (x) values (3)");
    assert_eq!(world.rows(0, "select count(distinct id) from kept"), ["3"]);
}

#[test]
fn a_schema_that_goes_and_a_table_made_in_it_exclude_each_other() {
    let mut world = World::new(2);
    world.must(0, "create schema s");
    world.must(0, "begin; create table s.t (a int)");
    world.must(1, "drop schema s");
    assert_eq!(code(&world.ask(0, "commit")), "40001");
    assert_eq!(code(&world.ask(0, "select * from s.t")), "42P01");
    world.must(0, "begin; create schema s; create table s.t (a int)");
    world.must(1, "create schema other; create table other.t (a int)");
    world.must(0, "commit");
    assert_eq!(world.rows(1, "select count(*) from s.t, other.t"), ["0"]);
}

#[test]
fn rows_of_materialised_views_outlast_a_restart() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table t (id int primary key, x int); insert into t values (1, 10), (2, 20)",
    );
    world.must(0, "create materialized view m as select id, x * 2 as y from t");
    world.must(0, "create unique index on m (id); insert into t values (3, 30)");
    world.must(0, "create materialized view n as select y from m with no data");
    let mut world = world.restart();
    assert_eq!(world.rows(1, "select y from m where id = 2"), ["40"]);
    assert_eq!(world.rows(1, "select count(*) from m"), ["2"]);
    assert_eq!(code(&world.ask(1, "select * from n")), "55000");
    world.must(1, "refresh materialized view m; refresh materialized view n");
    assert_eq!(
        world.rows(0, "select id, y from m order by id"),
        ["1|20", "2|40", "3|60"]
    );
    let mut world = world.restart();
    assert_eq!(world.rows(0, "select y from n order by y"), ["20", "40", "60"]);
}

#[test]
fn rows_of_a_temporary_table_end_with_the_transaction_however_it_commits() {
    let mut world = World::new(1);
    world.must(0, "create temp table t (a int) on commit delete rows");
    world.must(0, "insert into t values (1); select count(*) from t");
    assert_eq!(world.rows(0, "select count(*) from t"), ["0"]);
    let said = world.tell(
        0,
        [
            parse("", "insert into t values (2)"),
            bind("", ""),
            execute("", 0),
            parse("", "select count(*) from t"),
            bind("", ""),
            execute("", 0),
            rubato_sql::client::Request::Sync,
        ],
    );
    assert!(said.contains(&"D 1".to_owned()), "{said:?}");
    assert_eq!(world.rows(0, "select count(*) from t"), ["0"]);
    world.must(0, "begin; insert into t values (3)");
    world.must(0, "savepoint s; insert into t values (4); rollback to s");
    assert_eq!(world.rows(0, "select count(*) from t"), ["1"]);
    world.must(0, "commit");
    assert_eq!(world.rows(0, "select count(*) from t"), ["0"]);
}

#[test]
fn data_are_copied_by_names_with_a_schema() {
    let mut world = World::new(1);
    world.must(0, "create schema s; create table s.t (id int primary key, x text)");
    world.must(0, "create table t (other int)");
    world.must(0, "create temp table own (id int) on commit delete rows");
    let load = |world: &mut World, sql: &str, data: &str| {
        let requests = [
            query(sql),
            rubato_sql::client::Request::CopyData(data.as_bytes().to_vec().into()),
            rubato_sql::client::Request::CopyDone,
        ];
        world.tell(0, requests)
    };
    let said = load(&mut world, "copy s.t from stdin", "1\ta\n2\tb\n");
    assert!(said.contains(&"C COPY 2".to_owned()), "{said:?}");
    let said = load(&mut world, "copy own from stdin", "1\n2\n3\n");
    assert!(said.contains(&"C COPY 3".to_owned()), "{said:?}");
    assert_eq!(world.rows(0, "select count(*) from own"), ["0"]);
    let said = world.must(0, "copy s.t (x) to stdout");
    assert!(said.contains(&"d a\n".to_owned()), "{said:?}");
    assert_eq!(code(&world.ask(0, "copy s.nope to stdout")), "42P01");
    world.must(0, "set search_path to s");
    let said = load(&mut world, "copy t from stdin", "3\tc\n");
    assert!(said.contains(&"C COPY 1".to_owned()), "{said:?}");
    world.must(0, "create materialized view m as select x from t");
    assert_eq!(code(&world.ask(0, "copy m from stdin")), "42809");
}

/// A transaction that is run again by the server makes its temporary tables again.
#[test]
fn many_sessions_make_and_drop_temporary_tables_among_writers() {
    let mut world = World::new(4);
    world.must(
        0,
        "create table hot (id int primary key, n int); insert into hot values (1, 0)",
    );
    for _ in 0..5 {
        for session in 0..4 {
            world.begin(
                session,
                "begin; create temp table work on commit drop as select n from hot; \
                 insert into work select n + 1 from work; update hot set n = n + 1 where id = 1; commit",
            );
        }
        world.run();
        for session in 0..4 {
            let said = world.said(session);
            let refused = said.iter().any(|line| line.starts_with("E 40001"));
            assert!(refused || said.iter().any(|line| line == "C COMMIT"), "{said:?}");
            if refused {
                world.ask(session, "rollback");
            }
        }
    }
    assert_eq!(
        world.rows(0, "select count(*) from pg_class where relpersistence = 't'"),
        ["0"]
    );
    assert_eq!(code(&world.ask(1, "select * from work")), "42P01");
}
