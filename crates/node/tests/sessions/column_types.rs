//! ALTER COLUMN TYPE. What is said is what PostgreSQL 15 says.

use crate::world::*;
use rubato_node::NodeSettings;

const ROWS: usize = 3000;

fn filled(sessions: usize) -> World {
    let mut world = World::new(sessions);
    world.must(
        0,
        "create table t (id serial primary key, a text, n numeric(10,2) default 7, k int check (k >= 0), u text unique)",
    );
    world.must(
        0,
        &format!("insert into t (a, k, u) select g::text, g % 10, 'u' || g from generate_series(1, {ROWS}) g"),
    );
    world.must(0, "create index on t (k, a)");
    world
}

fn first(said: &[String]) -> &str {
    said.iter()
        .find(|line| line.starts_with('E'))
        .map_or("", String::as_str)
}

/// What the table is once `a` is an integer and `k` a bigint that is ten times as large.
fn check_changed(world: &mut World, what: &str) {
    for (sql, expected) in [
        (
            "select count(*), sum(a), max(a), sum(k) from t",
            "3000|4501500|3000|135000",
        ),
        ("select id, n, u from t where a = 77 and k = 70", "77|7.00|u77"),
        ("select count(*) from t where k = 30 and a < 100", "10"),
        ("select a from t where u = 'u2999'", "2999"),
        ("select a + 1 from t where id = 5", "6"),
        (
            "select data_type from information_schema.columns where table_name = 't' and column_name = 'k'",
            "bigint",
        ),
    ] {
        assert_eq!(world.rows(0, sql), [expected], "{what}: {sql}");
    }
}

const CHANGE: &str = "alter table t alter a type int using a::int, alter column k set data type bigint using k * 10";

#[test]
fn rows_are_converted_and_are_there_after_a_restart() {
    for change in [
        CHANGE.to_owned(),
        format!("begin; {CHANGE}; commit"),
        format!("begin; update t set k = k where id = 5; {CHANGE}; commit"),
        format!("begin; savepoint s; alter table t alter u type int using id; rollback to s; {CHANGE}; commit"),
        format!("begin; alter table t alter a type varchar(9); {CHANGE}; alter table t alter id type bigint; commit"),
        format!("alter table t drop constraint t_pkey; {CHANGE}; alter table t add primary key (id)"),
    ] {
        for (before, after) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut world = filled(1);
            if before {
                world.node.checkpoint().expect("a checkpoint");
            }
            world.must(0, &change);
            if after {
                world.node.checkpoint().expect("a checkpoint");
            }
            for _ in 0..2 {
                check_changed(&mut world, &change);
                world = world.restart();
            }
            // It goes on as any other table.
            world.must(
                0,
                "insert into t (a, k, u) values (1, 5000000000, 'new'); update t set k = 31 where id = 3",
            );
            assert!(world.ask(0, "insert into t (a, k, u) values (1, 1, 'u1')")[0].starts_with("E 23505"));
            assert!(world.ask(0, "update t set k = -1 where id = 3")[0].starts_with("E 23514"));
            assert_eq!(world.rows(0, "select id from t where k = 31"), ["3"]);
        }
    }
}

#[test]
fn a_change_that_does_not_commit_leaves_nothing() {
    let mut world = filled(2);
    let was = "select count(*), max(a), sum(k) from t";
    let before = world.rows(0, was);
    world.must(0, &format!("begin; {CHANGE}; rollback"));
    assert_eq!(world.rows(0, was), before);
    world.must(0, "insert into t (a, k) values ('x', 1)");
    assert!(first(&world.ask(0, CHANGE)).starts_with("E 22P02 invalid input syntax for type integer: \"x\""));
    world.must(0, "delete from t where a = 'x'");
    // The process ends before the commit.
    world.must(0, &format!("begin; {CHANGE}"));
    world.begin(1, "select count(*) from t where a = '77'");
    assert!(world.said(1).contains(&"D 1".to_owned()), "others read what was there");
    let mut world = world.restart();
    assert_eq!(world.rows(0, was), before);
    world.must(0, CHANGE);
    check_changed(&mut world, "after a restart");
}

#[test]
fn what_cannot_be_changed_is_told() {
    let mut world = filled(1);
    world.must(
        0,
        "create table p (id int primary key); create table c (id int primary key, p int references p)",
    );
    world.must(0, "insert into p values (1); insert into c values (1, 1)");
    world.must(0, "create table s (n smallint unique, m int, d text default '5', g int generated always as identity, constraint mm check (m < n))");
    world.must(0, "insert into s (n, m) values (1, 0), (2, 0)");
    for (change, error) in [
        (
            "t alter a type int",
            "E 42804 column \"a\" cannot be cast automatically to type integer",
        ),
        (
            "t alter a type int using now()",
            "E 42804 result of USING clause for column \"a\" cannot be cast automatically to type integer",
        ),
        (
            "t alter a type int using nope",
            "E 42703 column \"nope\" does not exist",
        ),
        (
            "t alter a type int using count(*)",
            "E 42803 aggregate functions are not allowed in transform expressions",
        ),
        (
            "t alter a type int using 'x'",
            "E 22P02 invalid input syntax for type integer: \"x\"",
        ),
        (
            "t alter nope type int",
            "E 42703 column \"nope\" of relation \"t\" does not exist",
        ),
        ("t alter a type nopetype", "E 42704 type \"nopetype\" does not exist"),
        (
            "t alter a type varchar(3), alter a type text",
            "E 0A000 cannot alter type of column \"a\" twice",
        ),
        (
            "t alter a type varchar(3)",
            "E 22001 value too long for type character varying(3)",
        ),
        (
            "t alter k type text",
            "E 42883 operator does not exist: text >= integer",
        ),
        (
            "t alter n type boolean using true",
            "E 42804 default for column \"n\" cannot be cast automatically to type boolean",
        ),
        (
            "s alter d type int using d::int",
            "E 42804 default for column \"d\" cannot be cast automatically to type integer",
        ),
        (
            "s alter g type text",
            "E 22023 identity column type must be smallint, integer, or bigint",
        ),
        (
            "c alter p type text",
            "E 42804 foreign key constraint \"c_p_fkey\" cannot be implemented",
        ),
        (
            "p alter id type text",
            "E 42804 foreign key constraint \"c_p_fkey\" cannot be implemented",
        ),
        (
            "c alter p type bigint using p + 1",
            "E 23503 insert or update on table \"c\" violates foreign key constraint \"c_p_fkey\"",
        ),
        (
            "p alter id type bigint using id + 5",
            "E 23503 insert or update on table \"c\" violates foreign key constraint \"c_p_fkey\"",
        ),
        (
            "s alter n type int using 5",
            "E 23505 could not create unique index \"s_n_key\"",
        ),
        (
            "s alter n type int using n - 1",
            "E 23514 check constraint \"mm\" of relation \"s\" is violated by some row",
        ),
        (
            "s alter n set not null, alter n type bigint using nullif(n, 1)",
            "E 23502 column \"n\" of relation \"s\" contains null values",
        ),
        (
            "s alter n type bigint using nullif(n, 1), alter n set not null",
            "E 23502 column \"n\" of relation \"s\" contains null values",
        ),
        (
            "s alter n type bigint, add check (n > 1)",
            "E 23514 check constraint \"s_n_check\" of relation \"s\" is violated by some row",
        ),
        (
            "s add check (n > 1), alter n type bigint",
            "E 23514 check constraint \"s_n_check\" of relation \"s\" is violated by some row",
        ),
        (
            "p alter id type interval using null",
            "E 0A000 a key over column \"id\" of type interval",
        ),
        (
            "p alter id type int using 1, alter id type int using 2",
            "E 0A000 cannot alter type of column \"id\" twice",
        ),
    ] {
        let said = world.ask(0, &format!("alter table {change}"));
        assert!(first(&said).starts_with(error), "{change}: {said:?}");
    }
    world.must(0, "alter table if exists nope alter a type int");
    world.must(
        0,
        "alter table p alter id type bigint; alter table c alter p type smallint; alter table c alter p type bigint",
    );
    world.must(
        0,
        "insert into p values (5000000000); insert into c values (2, 5000000000)",
    );
    assert!(first(&world.ask(0, "insert into c values (3, 3)")).starts_with("E 23503"));
    assert!(first(&world.ask(0, "delete from p where id = 1")).starts_with("E 23503"));
    // A serial column counts on beyond what it could.
    world.must(
        0,
        "alter table t alter id type bigint; alter sequence t_id_seq as bigint restart 3000000000 maxvalue 9000000000",
    );
    world.must(0, "insert into t (a) values ('x')");
    assert_eq!(world.rows(0, "select id, n from t where a = 'x'"), ["3000000000|7.00"]);
    // The default becomes one of the new type, and goes before the change where it cannot.
    world.must(
        0,
        "alter table t alter n type text; insert into t (id, a) values (-1, 'y')",
    );
    assert_eq!(world.rows(0, "select n || '!' from t where id = -1"), ["7!"]);
    world.must(
        0,
        "alter table s alter d drop default, alter d type int using d::int, alter d set default 6",
    );
    world.must(0, "insert into s (n, m) values (9, 0)");
    assert_eq!(world.rows(0, "select d from s order by n"), ["5", "5", "6"]);
    world.must(0, "alter table s add column z int default 4; alter table s alter n type numeric(5,2), alter z type text using z || 'z', add check (n > 0.5)");
    assert_eq!(
        world.rows(0, "select n, m, z from s order by n"),
        ["1.00|0|4z", "2.00|0|4z", "9.00|0|4z"]
    );
    // Both sides of a key at once, and a default that goes behind the change.
    world.must(
        0,
        "create table r (id int primary key, p int default 1 references r); insert into r values (1, 1), (2, 1)",
    );
    assert!(first(&world.ask(0, "alter table r alter p type text")).starts_with("E 42804"));
    world.must(0, "alter table r alter id type text, alter p type boolean using true, alter p drop default, drop constraint r_p_fkey");
    world.must(0, "alter table r alter p drop default, alter p type int using 1, alter id type int using id::int, add foreign key (p) references r");
    world.must(
        0,
        "alter table r alter id type text, alter p type text using (p + 0)::text",
    );
    assert_eq!(
        world.rows(0, "select id, p || '!' from r order by id"),
        ["1|1!", "2|1!"]
    );
    assert!(first(&world.ask(0, "insert into r values ('3', '4')")).starts_with("E 23503"));
    // A check of two columns that are changed at once, and one whose words meant other columns before.
    world.must(
        0,
        "create table k (a int, b int, check (a < b)); insert into k values (1, 2)",
    );
    assert!(
        first(&world.ask(0, "alter table k alter a type text"))
            .starts_with("E 42883 operator does not exist: text < integer")
    );
    world.must(0, "alter table k alter a type text, alter b type text");
    assert!(first(&world.ask(0, "insert into k values ('3', '10')")).starts_with("E 23514"));
    world.must(
        0,
        "alter table k rename a to x; alter table k rename b to a; alter table k rename x to b",
    );
    world.must(0, "alter table k alter a type varchar(9), alter b type varchar(9)");
    let definition = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'k_check'";
    assert_eq!(world.rows(0, definition), ["CHECK ((b < a))"]);
    assert!(first(&world.ask(0, "insert into k (b, a) values ('3', '10')")).starts_with("E 23514"));
    let mut world = world.restart();
    assert_eq!(
        world.rows(0, "select n, m, z from s order by n"),
        ["1.00|0|4z", "2.00|0|4z", "9.00|0|4z"]
    );
}

#[test]
fn wider_types_keep_rows_where_they_are() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (id int primary key, v varchar(3) unique, n numeric(4,2))",
    );
    world.must(0, "insert into t values (1, 'abc', 1.50), (2, 'abd', 2)");
    let storage = "select indexrelid, count(*) from pg_index where indisprimary group by 1";
    let before = world.rows(0, storage);
    world.must(0, "alter table t alter v type varchar(5), alter n type numeric(6,2)");
    world.must(0, "alter table t alter v type text, alter n type numeric");
    assert_eq!(world.rows(0, storage), before);
    world.must(0, "insert into t values (3, 'abcdefg', 123456.789)");
    assert!(first(&world.ask(0, "insert into t values (4, 'abc', 0)")).starts_with("E 23505"));
    let mut world = world.restart();
    assert_eq!(world.rows(0, "select id, n from t where v = 'abc'"), ["1|1.50"]);
    assert_eq!(
        world.rows(0, "select id, n from t where v like 'abcd%'"),
        ["3|123456.789"]
    );
    world.must(0, "alter table t alter v type varchar(7)");
    assert_ne!(world.rows(0, storage), before);
}

/// Others read meanwhile, writers wait, and an old snapshot sees the rows as they are now.
#[test]
fn others_go_on_while_rows_are_converted() {
    let mut world = filled(3);
    world.must(2, "create table other (id int)");
    world.must(2, "begin; select * from other");
    world.send(0, [query(CHANGE)]);
    world.turn();
    assert!(!world.is_idle(0), "it is one step");
    world.send(1, [query("insert into t (a, k, u) values (9, 9, 'late')")]);
    world.run();
    assert_eq!(first(&world.said(0)), "");
    assert_eq!(first(&world.said(1)), "");
    assert_eq!(world.rows(2, "select sum(a) from t where k = 70 and a < 100"), ["520"]);
    world.must(2, "commit");
    assert_eq!(world.rows(0, "select a from t where u = 'late'"), ["9"]);
}

/// The rows go to the store while they are converted: there may be more of them than a transaction may hold.
#[test]
fn more_rows_than_memory_holds_are_converted() {
    let settings = NodeSettings {
        memory_bytes: 4 << 20,
        ..NodeSettings::default()
    };
    let mut world = World::with(1, settings);
    world.must(0, "create table t (id int primary key, a text, pad text)");
    for part in 0..20 {
        let from = part * 1000;
        world.must(
            0,
            &format!("insert into t select g, g::text, repeat('x', 300) from generate_series({from}, {from} + 999) g"),
        );
        world.node.checkpoint().expect("a checkpoint");
    }
    world.must(0, "alter table t alter a type bigint using a::bigint");
    let sum = "select count(*), sum(a) from t";
    assert_eq!(world.rows(0, sum), ["20000|199990000"]);
    let mut world = world.restart();
    assert_eq!(world.rows(0, sum), ["20000|199990000"]);
}

/// A deferrable constraint is looked at once more.
#[test]
fn unique_constraints_hold_for_what_values_become() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (id int primary key, n int unique deferrable, p int references t deferrable)",
    );
    world.must(0, "insert into t values (1, 1, 1), (2, 2, 1)");
    let said = world.ask(0, "alter table t alter n type bigint using 5");
    assert!(
        first(&said).starts_with("E 23505 could not create unique index \"t_n_key\""),
        "{said:?}"
    );
    world.must(
        0,
        "alter table t alter n type bigint using n + 5, alter id type bigint, alter p type bigint",
    );
    assert!(first(&world.ask(0, "insert into t values (3, 7, 1)")).starts_with("E 23505"));
    assert!(first(&world.ask(0, "insert into t values (3, 8, 9)")).starts_with("E 23503"));
}
