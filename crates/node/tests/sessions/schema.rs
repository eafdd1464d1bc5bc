//! Schema changes among other sessions: who waits for whom, what old snapshots see, and what is there after a restart.

use crate::world::*;

fn filled(sessions: usize) -> World {
    filled_with(sessions, 20_000)
}

fn filled_with(sessions: usize, rows: usize) -> World {
    let mut world = World::new(sessions);
    world.must(0, "create table t (id int not null, n int not null, note text)");
    world.must(
        0,
        &format!("insert into t select g, g % 10, 'x' from generate_series(1, {rows}) g"),
    );
    world.must(
        0,
        "create table other (id int primary key, n int not null); insert into other values (1, 0)",
    );
    world
}

fn tags(said: &[String]) -> Vec<&str> {
    said.iter().filter_map(|line| line.strip_prefix("C ")).collect()
}

#[test]
fn writers_wait_for_a_schema_change_and_it_waits_for_them() {
    let mut world = filled(3);
    world.must(1, "begin; update t set n = n + 1 where id = 1 and n >= 0");
    world.begin(0, "alter table t add primary key (id)");
    assert!(!world.is_idle(0), "it does not wait for one who has begun to write");
    world.send(1, [query("update t set n = n + 1 where id = 2 and n >= 0; commit")]);
    while !world.is_idle(1) {
        world.turn();
    }
    world.said(1);
    // It is under way: others write elsewhere, and read.
    assert!(!world.is_idle(0));
    world.send(1, [query("update t set n = 100 where id = 3")]);
    world.send(
        2,
        [query("update other set n = n + 1 where id = 1; select count(*) from t")],
    );
    world.turn();
    assert!(!world.is_idle(0) && !world.is_idle(1));
    world.run();
    let said = world.said(2);
    assert_eq!(tags(&said), ["UPDATE 1", "SELECT 1"], "{said:?}");
    assert_eq!(tags(&world.said(0)), ["ALTER TABLE"]);
    assert_eq!(tags(&world.said(1)), ["UPDATE 1"]);
    assert_eq!(world.rows(1, "select id from t where n = 100"), ["3"]);
    assert_eq!(world.rows(1, "select count(*) from t where n = 2"), ["2000"]);
    assert_eq!(world.node.figures().protocol.aborts.iter().sum::<u64>(), 0);
}

/// A statement goes on with the rows that it found, and what has gone leaves memory when it has ended.
#[test]
fn who_reads_what_is_dropped_meanwhile_reads_it_to_the_end() {
    for change in ["drop table t", "truncate t", "alter table t add primary key (id)"] {
        for checkpoint in [false, true] {
            let mut world = filled_with(2, 60_000);
            world.node.checkpoint().expect("a checkpoint");
            world.send(
                1,
                [query(
                    "select count(*), sum(length(note)) from t, generate_series(1, 10) g where id > 0",
                )],
            );
            world.turn();
            world.send(0, [query(change)]);
            while !world.is_idle(0) {
                assert!(!world.is_idle(1), "{change}: it is too short");
                world.turn();
            }
            if checkpoint {
                world.node.checkpoint().expect("a checkpoint");
            }
            let full = world.node.figures().memory_bytes;
            world.run();
            assert_eq!(
                world.said(1),
                ["T 2", "D 600000|600000", "C SELECT 1", "Z I"],
                "{change}"
            );
            assert!(world.said(0).last().is_some_and(|line| line == "Z I"), "{change}");
            if change == "drop table t" {
                let left = world.node.figures().memory_bytes;
                assert!(left < full / 10, "{left} of {full} bytes are left");
            }
        }
    }
}

/// Writers that come while it waits for others come behind it.
#[test]
fn a_schema_change_gets_its_turn_under_load() {
    let mut world = filled(4);
    world.must(1, "begin; update t set n = n + 1 where id = 1 and n >= 0");
    world.begin(0, "alter table t add primary key (id)");
    world.begin(2, "update t set n = n + 1 where id = 2");
    world.begin(3, "insert into t values (-1, 55, 'new')");
    assert!(!world.is_idle(0) && !world.is_idle(2) && !world.is_idle(3));
    world.must(1, "update t set n = n + 1 where id = 2; commit");
    world.run();
    for (session, tag) in [(0, "ALTER TABLE"), (2, "UPDATE 1"), (3, "INSERT 0 1")] {
        assert_eq!(tags(&world.said(session)), [tag]);
    }
    assert_eq!(world.rows(0, "select id from t where n = 55"), ["-1"]);
    assert_eq!(world.rows(0, "select n from t where id = 2"), ["4"]);
}

#[test]
fn schema_changes_of_different_tables_go_together_and_of_one_table_one_after_the_other() {
    let mut world = filled(2);
    world.must(
        0,
        "begin; create table a (id int primary key); alter table other add column extra int",
    );
    world.must(
        1,
        "begin; create table b (id int primary key); create index t_n on t (n)",
    );
    world.must(0, "commit");
    world.must(
        1,
        "insert into b values (1); insert into t values (0, 77, 'new'); commit",
    );
    assert_eq!(world.rows(0, "select id, n, extra from other"), ["1|0|"]);
    assert_eq!(world.rows(0, "select id from t where n = 77"), ["0"]);
    world.must(0, "begin; alter table a add column x int");
    world.begin(1, "alter table a add column y int");
    assert!(!world.is_idle(1));
    world.must(0, "commit");
    world.run();
    assert_eq!(tags(&world.said(1)), ["ALTER TABLE"]);
    world.must(0, "insert into a (id, x, y) values (1, 2, 3)");
    // One new name twice: one of them is told.
    world.must(0, "begin; create index same on a (x)");
    world.must(1, "begin; create index same on b (id)");
    world.must(0, "commit");
    let said = world.ask(1, "commit");
    assert!(said[0].starts_with("E 40001"), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("Z I"));
}

#[test]
fn a_table_created_twice_at_once_waits_and_is_refused() {
    let mut world = World::new(2);
    world.must(0, "begin; create table a (id int primary key)");
    world.begin(1, "create table a (id int)");
    assert!(!world.is_idle(1));
    world.must(0, "commit");
    world.run();
    assert!(world.said(1)[0].starts_with("E 42P07"));
    world.must(0, "begin; drop table a; create table a (id int)");
    world.begin(1, "drop table a");
    world.must(0, "rollback");
    world.run();
    assert_eq!(tags(&world.said(1)), ["DROP TABLE"]);
}

#[test]
fn an_old_snapshot_sees_rows_that_were_laid_out_since() {
    for change in [
        "create index on t (n)",
        "alter table t add primary key (id)",
        "alter table t add primary key (id); create index on t (n)",
    ] {
        let mut world = filled(2);
        world.must(1, "begin; select * from other");
        world.must(0, change);
        assert_eq!(
            world.rows(1, "select count(*) from t where n = 3"),
            ["2000"],
            "{change}"
        );
        assert_eq!(world.rows(1, "select n from t where id = 13"), ["3"], "{change}");
        world.must(1, "update t set n = 3 where id = 1; commit");
        assert_eq!(
            world.rows(0, "select count(*) from t where n = 3"),
            ["2001"],
            "{change}"
        );
        // What it had read has changed: then there is no place for it.
        world.must(1, "begin; select * from other");
        world.must(0, "update other set n = n + 1 where id = 1; create index on t (note)");
        let said = world.ask(1, "select count(*) from t where note = 'x'");
        assert!(said[0].starts_with("E 40001"), "{said:?}");
        world.must(1, "rollback");
    }
}

const CHECKS: [(&str, &str); 4] = [
    ("select count(*), sum(n), min(id), max(id) from t", "3000|13510|1|3000"),
    ("select count(*) from t where n = 7", "299"),
    ("select n, note from t where id = 77", "17|y"),
    ("select count(*) from t where n = 17", "1"),
];

#[test]
fn what_was_laid_out_is_there_after_a_restart() {
    let changes = [
        "create index on t (n)",
        "alter table t add primary key (id)",
        "alter table t add primary key (id); create unique index on t (id, n); create index on t (n)",
        "begin; alter table t add primary key (id); create index on t (n); commit",
        "begin; update t set n = n where id = 5; create index on t (n); commit",
        "begin; create index on t (n); savepoint a; alter table t add primary key (id); rollback to a; commit",
        "alter table t add primary key (id); alter table t drop constraint t_pkey; create index on t (n)",
        "alter table t add column extra int default 5; create index on t (extra)",
        "alter table t add column extra int default 5 + (random() * 0)::int; create index on t (extra)",
    ];
    for change in changes {
        for (before, after) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut world = filled_with(1, 3000);
            if before {
                world.node.checkpoint().expect("a checkpoint");
            }
            world.must(0, change);
            world.must(0, "update t set n = n + 10, note = 'y' where id = 77");
            if after {
                world.node.checkpoint().expect("a checkpoint");
            }
            for restarts in 0..2 {
                for (sql, expected) in CHECKS {
                    assert_eq!(world.rows(0, sql), [expected], "{change}, {restarts}: {sql}");
                }
                world = world.restart();
            }
            // It goes on as any other table.
            world.must(
                0,
                "insert into t (id, n, note) values (3001, 7, 'z'); delete from t where id = 7",
            );
            assert_eq!(world.rows(0, "select count(*) from t where n = 7"), ["299"], "{change}");
        }
    }
}

/// A checkpoint under way when rows are laid out: the source's rows that it must store are not forgotten.
#[test]
fn a_schema_change_during_a_checkpoint_loses_nothing() {
    let mut world = filled_with(1, 3000);
    let node = world.node.clone();
    std::thread::scope(|scope| {
        let checkpoints = scope.spawn(move || (0..20).for_each(|_| drop(node.checkpoint())));
        world.must(0, "alter table t add primary key (id)");
        world.must(0, "create index on t (n)");
        world.must(0, "update t set n = n + 10, note = 'y' where id = 77");
        checkpoints.join().expect("checkpoints");
    });
    let mut world = world.restart();
    for (sql, expected) in CHECKS {
        assert_eq!(world.rows(0, sql), [expected], "{sql}");
    }
}

#[test]
fn a_schema_change_that_fails_or_is_rolled_back_leaves_nothing() {
    let mut world = filled(2);
    world.must(0, "insert into t values (5, 0, 'twice')");
    assert!(world.ask(0, "alter table t add primary key (id)")[0].starts_with("E 23505"));
    assert!(world.ask(0, "create unique index on t (n)")[0].starts_with("E 23505"));
    world.must(0, "begin; create index on t (n); rollback");
    world.must(1, "update t set n = 1 where id = 2; create index on t (n)");
    assert_eq!(world.rows(0, "select count(*) from t where n = 1"), ["2001"]);
    let mut world = world.restart();
    assert_eq!(world.rows(0, "select count(*) from t where n = 1"), ["2001"]);
}

#[test]
fn who_reads_what_was_laid_anew_or_added_is_answered_when_the_record_of_it_is_forced() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table t (id int primary key, v int); insert into t values (1, 10)",
    );
    let changes = [
        ("update t set v = 11", "select v from t", "11"),
        ("alter table t alter v type bigint using v + 1", "select v from t", "12"),
        (
            "begin; update t set v = 13; alter table t alter v type int; commit",
            "begin; select v from t; commit",
            "13",
        ),
        ("alter table t add late int default 7", "select late from t", "7"),
        ("create table u (id int primary key)", "select count(*) from u", "0"),
    ];
    for (change, read, shown) in changes {
        world.node.force().expect("forced");
        world.must(0, change);
        let recorded_at = world.durable_at(0);
        let said = world.must(1, read);
        assert!(said.contains(&format!("D {shown}")), "{read}: {said:?}");
        assert!(world.durable_at(1) >= recorded_at, "a crash could take {change} back");
    }
}

#[test]
fn an_error_that_tells_of_a_row_is_told_when_its_record_is_forced() {
    let mut world = World::new(2);
    world.must(0, "create table t (id int primary key, v int)");
    for id in 1..3 {
        world.node.force().expect("forced");
        world.must(0, &format!("insert into t values ({id}, 10)"));
        let recorded_at = world.durable_at(0);
        let insert = format!("insert into t values ({id}, 11)");
        let refused = match id {
            1 => insert,
            _ => format!("select 1; {insert}"),
        };
        let said = world.ask(1, &refused);
        assert!(said.iter().any(|said| said.starts_with("E 23505")), "{said:?}");
        assert!(world.durable_at(1) >= recorded_at, "a crash could take the row back");
    }
}

/// Two transactions each make a change that is fine by itself, and not beside the other one: the second is refused, and the catalogs stay whole.
#[test]
fn changes_that_do_not_fit_together_are_not_both_made() {
    let ways = [
        ("create sequence x", "create table x (a int)"),
        ("create table x (a int)", "create sequence x"),
        ("create view x as select 1 as a", "create sequence x"),
        ("create sequence x", "create view x as select 1 as a"),
        ("create view x as select 1 as a", "create type x as enum ('a')"),
        ("create type x as enum ('a')", "create table x (a int)"),
        ("create domain x as int", "create table x (a int)"),
        ("create domain x as int", "create type x as enum ('a')"),
        ("create index x on old (a)", "create table x (a int)"),
        ("create table x (a int)", "create index x on old (a)"),
        ("create table y (a int default nextval('s'))", "drop sequence s"),
        ("alter table old alter a set default nextval('s')", "drop sequence s"),
        ("drop sequence s", "create table y (a int default nextval('s'))"),
        ("alter sequence s owned by old.a", "drop table old"),
    ];
    for (own, other) in ways {
        let mut world = World::new(2);
        world.must(0, "create table old (a int); create sequence s");
        world.must(0, &format!("begin; {own}"));
        world.must(1, other);
        let said = world.ask(0, "commit");
        assert!(said[0].starts_with("E 40001"), "{own} beside {other}: {said:?}");
        let twice = "select relname from pg_class where relname = 'x' group by 1 having count(*) > 1";
        assert_eq!(world.rows(0, twice), Vec::<String>::new(), "{own} beside {other}");
    }
    // What does fit is put together.
    let mut world = World::new(2);
    world.must(0, "create table old (a int); create sequence s");
    world.must(0, "begin; create table x (a int default nextval('s')); create sequence y owned by x.a; create view z as select * from x");
    world.must(
        1,
        "create table w (id serial primary key); create type e as enum ('a'); create index i on old (a)",
    );
    world.must(0, "commit");
    assert_eq!(world.rows(1, "insert into x default values returning a"), ["1"]);
}

/// A restart takes up the last of several catalogs in the log where no rows come between: what is between was for nothing.
/// What others commit after a change of a block that changed nothing, or was rolled back to a savepoint, is theirs: the block's commit does
/// not bring back what they have renamed or dropped by then.
#[test]
fn a_block_commits_no_definitions_but_its_own() {
    let begun = [
        "begin; drop table if exists nothing_there",
        "begin; create table if not exists other (id int)",
        "begin; savepoint a; create table short (i int); rollback to a",
        "begin; savepoint a; create index on t (n); rollback to a",
    ];
    for first in begun {
        for (last, left) in [
            ("drop table staging", "other own t"),
            ("alter table staging rename to real", "other own real t"),
        ] {
            let mut world = filled_with(2, 10);
            world.must(0, first);
            world.must(1, "create table staging (i int); insert into staging values (1), (2)");
            world.must(0, "create table own (i int)");
            world.must(1, last);
            world.must(0, "commit");
            let tables = "select string_agg(relname, ' ' order by relname) from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace";
            assert_eq!(world.rows(1, tables), [left], "{first}, {last}");
            if left.contains("real") {
                assert_eq!(
                    world
                        .rows(0, "insert into real values (3); select count(*) from real")
                        .last()
                        .unwrap(),
                    "3"
                );
            }
            // Nor does it fail for what others have changed meanwhile.
            world.must(0, first);
            world.must(1, "create table again (i int)");
            world.must(0, "create table its_own (i int)");
            world.must(1, "alter table again add column j int");
            world.must(0, "commit");
            world.must(1, "insert into again (j) values (1)");
        }
    }
}

#[test]
fn what_was_written_and_rolled_back_to_a_savepoint_does_not_count_at_commit() {
    let mut world = filled_with(2, 10);
    world.must(
        0,
        "begin; savepoint a; alter table t add x int default 1; insert into t values (11, 1, 'y', 2); rollback to a",
    );
    world.must(1, "create table foo (i int)");
    world.must(0, "insert into t values (12, 1, 'y'); commit");
    assert_eq!(world.rows(1, "select count(*) from t"), ["11"]);
}

#[test]
fn of_catalogs_one_after_the_other_the_last_one_counts() {
    let mut world = World::new(2);
    world.must(0, "create database other");
    let other = world.enter("other").expect("a session there");
    for number in 0..5 {
        world.must(0, &format!("create table made{number} (id int primary key, n serial)"));
        world.must(other, &format!("create table there{number} (id int primary key)"));
        world.must(
            0,
            &format!("create table gone{number} (id int); create index on gone{number} (id)"),
        );
        world.must(0, &format!("drop table gone{number}"));
    }
    world.must(0, "insert into made0 values (1); insert into made4 values (1), (2)");
    world.must(other, "insert into there4 values (1)");
    world.must(0, "alter table made4 add column late int not null default 7");
    world.must(0, "create table last (id int); drop table made1");
    world.leave(other);
    for _ in 0..2 {
        world = world.restart();
        let names = "select relname from pg_class where relkind = 'r' and relname ~ '^(made|gone|last)' order by 1";
        assert_eq!(world.rows(0, names), ["last", "made0", "made2", "made3", "made4"]);
        assert_eq!(world.rows(0, "select * from made4 order by id"), ["1|1|7", "2|2|7"]);
        assert_eq!(world.rows(0, "select * from made0"), ["1|1"]);
        let other = world.enter("other").expect("a session there");
        let counted = "select count(*) from pg_class where relkind = 'r' and relname like 'there%'";
        assert_eq!(world.rows(other, counted), ["5"]);
        assert_eq!(world.rows(other, "select * from there4"), ["1"]);
        world.leave(other);
    }
}

/// Each schema change writes the whole catalog, and a restart reads them all.
#[test]
fn many_schema_changes_ask_for_a_checkpoint() {
    let mut world = World::new(1);
    let columns: Vec<String> = (0..800).map(|number| format!("column{number} int")).collect();
    let columns = columns.join(", ");
    for table in 0..20 {
        world.must(0, &format!("create table wide{table} ({columns})"));
    }
    let mut changes = 0;
    while !world.node.checkpoint_is_due() {
        changes += 1;
        assert!(changes < 1000, "no checkpoint is due");
        world.must(0, &format!("create table narrow{changes} (id int)"));
    }
    assert!(changes > 50, "after {changes}");
    world = world.restart();
    assert!(world.node.checkpoint_is_due(), "what a start has read counts as well");
    world.node.checkpoint().expect("a checkpoint");
    assert!(!world.node.checkpoint_is_due());
    world.must(0, "create table narrow (id int)");
    assert!(!world.node.checkpoint_is_due());
}
