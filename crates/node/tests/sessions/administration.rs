//! What administrators and their tools ask: sizes, addresses, times, and the end of what others do.

use crate::world::*;

fn number(world: &mut World, sql: &str) -> i64 {
    let rows = world.rows(0, &format!("select {sql}"));
    rows[0].parse().unwrap_or_else(|_| panic!("{sql}: {rows:?}"))
}

#[test]
fn sizes_grow_with_rows_and_are_told_by_name_and_number() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (id int primary key, note text); create index t_note on t (note); create table bare (n int); create sequence s",
    );
    assert_eq!(number(&mut world, "pg_total_relation_size('t')"), 0);
    world.must(
        0,
        "insert into t select g, repeat('x', 100) || g from generate_series(1, 10000) g",
    );
    let own = number(&mut world, "pg_relation_size('t')");
    // Rows have some hundred bytes, entries of the index about as much.
    assert!((1_000_000..2_000_000).contains(&own), "{own}");
    let indexes = number(&mut world, "pg_indexes_size('t'::regclass)");
    assert!((1_000_000..2_000_000).contains(&indexes), "{indexes}");
    for (sql, expected) in [
        ("pg_table_size('public.t')", own),
        ("pg_relation_size('t'::regclass)", own),
        ("pg_relation_size('t_note')", indexes),
        ("pg_relation_size('t_note'::regclass)", indexes),
        ("pg_total_relation_size('t'::regclass)", own + indexes),
        ("pg_indexes_size('t')", indexes),
        ("pg_relation_size('t_pkey')", 0),
        ("pg_relation_size('s')", 0),
        ("pg_total_relation_size('bare')", 0),
        ("pg_database_size('rubato')", own + indexes),
        ("pg_database_size(current_database())", own + indexes),
    ] {
        assert_eq!(number(&mut world, sql), expected, "{sql}");
    }
    assert_eq!(
        world.rows(0, "select relname, pg_relation_size(oid) > 0 from pg_class where relname like 't%' and relnamespace = 2200 order by 1"),
        ["t|t", "t_note|t", "t_pkey|f"]
    );
    assert_eq!(
        world.rows(0, "select datname, pg_database_size(oid) > 0, pg_size_pretty(pg_database_size(datname)) like '%kB' from pg_database order by 1"),
        ["postgres|t|t", "rubato|t|t"]
    );
    assert_eq!(
        world.rows(
            0,
            "select pg_relation_size(4000000000::oid), pg_relation_size(null::text)"
        ),
        ["|"]
    );
    let said = world.ask(0, "select pg_relation_size('nothing')");
    assert!(
        said.contains(&"E 42P01 relation \"nothing\" does not exist".to_owned()),
        "{said:?}"
    );
    let said = world.ask(0, "select pg_database_size('nothing')");
    assert!(
        said.contains(&"E 3D000 database \"nothing\" does not exist".to_owned()),
        "{said:?}"
    );
    world.must(0, "delete from t where id > 5000");
    let left = number(&mut world, "pg_relation_size('t')");
    assert!(left < own * 6 / 10, "{left} of {own}");
    world.must(0, "create table sizes (n bigint); insert into sizes select pg_relation_size(oid) from pg_class where relname = 't'");
    let noted = number(&mut world, "sum(n) from sizes");
    // Deleted rows leave memory by and by.
    assert!((left * 9 / 10..left * 11 / 10).contains(&noted), "{noted} after {left}");
}

/// Answers of PostgreSQL 15.
#[test]
fn sizes_are_shown_as_in_postgresql() {
    let mut world = World::new(1);
    for (bytes, shown) in [
        ("0", "0 bytes"),
        ("10239", "10239 bytes"),
        ("10240", "10 kB"),
        ("-10240", "-10 kB"),
        ("1048576", "1024 kB"),
        ("10485247", "10239 kB"),
        ("10485248", "10 MB"),
        ("123456789012", "115 GB"),
        ("9223372036854775807", "8192 PB"),
    ] {
        assert_eq!(
            world.rows(0, &format!("select pg_size_pretty({bytes}::bigint)")),
            [shown]
        );
    }
}

/// A session in process has no addresses, and reaches nobody but itself.
#[test]
fn a_session_in_process_has_no_addresses() {
    let mut world = World::new(1);
    assert_eq!(
        world.rows(
            0,
            "select inet_client_addr(), inet_client_port(), inet_server_addr(), inet_server_port()"
        ),
        ["|||"]
    );
    assert_eq!(
        world.rows(
            0,
            "select pg_conf_load_time() = pg_postmaster_start_time(), pg_postmaster_start_time() <= now()"
        ),
        ["t|t"]
    );
    assert_eq!(
        world.rows(0, "select pg_cancel_backend(123456), pg_terminate_backend(123456), pg_terminate_backend(1234567, 10), pg_cancel_backend(null)"),
        ["f|f|f|"]
    );
    let said = world.ask(0, "select pg_cancel_backend(pg_backend_pid())");
    assert!(
        said.contains(&"E 57014 canceling statement due to user request".to_owned()),
        "{said:?}"
    );
    let said = world.ask(0, "select pg_terminate_backend(1, -1)");
    assert!(
        said.contains(&"E 22003 \"timeout\" must not be negative".to_owned()),
        "{said:?}"
    );
}

/// As in PostgreSQL: the error is the last that its client hears, and nothing that it has sent behind it is done.
#[test]
fn a_session_that_ends_itself_does_nothing_more() {
    let mut world = World::new(2);
    world.must(0, "create table t (a int); insert into t values (1)");
    let said = world.ask(
        0,
        "insert into t values (2); select pg_terminate_backend(pg_backend_pid()); insert into t values (3)",
    );
    let told = "E 57P01 terminating connection due to administrator command";
    assert_eq!(said.last().map(String::as_str), Some(told), "{said:?}");
    assert_eq!(world.rows(1, "select array_agg(a) from t"), ["{1}"]);
}
