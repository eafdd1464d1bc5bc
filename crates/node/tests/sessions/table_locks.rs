//! LOCK TABLE and changes of definitions: who waits for whom, and that rows wait for neither.

use crate::world::*;
use rubato_stages::worker::CancelReason;

fn world() -> World {
    let mut world = World::new(3);
    world.must(0, "create table t (id int primary key, v int)");
    world.must(0, "create table u (id int primary key)");
    world.must(0, "insert into t values (1, 1), (2, 2)");
    world
}

fn error_of(said: &[String]) -> Option<&str> {
    said.iter().find_map(|line| line.strip_prefix("E "))
}

#[test]
fn programs_take_turns_by_locking_a_table() {
    let mut world = world();
    world.must(
        0,
        "begin; lock table t in exclusive mode; update t set v = 7 where id = 1",
    );
    world.begin(1, "begin; lock t in share row exclusive mode");
    assert!(!world.is_idle(1));
    // Who only reads, or locks another table, or nothing, waits for nobody.
    world.must(2, "begin; lock t in access share mode; lock u; commit");
    assert_eq!(world.rows(2, "select v from t where id = 2"), ["2"]);
    world.must(2, "update t set v = v + 1 where id = 2");
    let refused = world.ask(2, "begin; lock table u, t in share mode nowait");
    assert_eq!(
        error_of(&refused),
        Some("55P03 could not obtain lock on relation \"t\"")
    );
    world.must(2, "rollback");
    world.must(0, "commit");
    world.run();
    assert!(world.is_idle(1));
    assert_eq!(world.rows(1, "select v from t order by id"), ["7", "3"]);
    world.must(1, "rollback");
}

#[test]
fn what_is_locked_is_not_changed_beneath_it() {
    for change in [
        "truncate t",
        "drop table t",
        "drop table t, u",
        "alter table t add column w int default 3",
        "alter table t alter column v type bigint",
        "alter table t rename to other",
        "do $$ begin alter table t drop column v; end $$",
        "create temp table mine (a int); drop table mine, t",
    ] {
        let mut world = world();
        world.must(0, "begin isolation level repeatable read, read only");
        world.must(0, "lock table t in access share mode");
        let before = world.rows(0, "select * from t order by id");
        world.begin(1, change);
        assert!(!world.is_idle(1), "{change}");
        assert_eq!(world.rows(0, "select * from t order by id"), before, "{change}");
        assert_eq!(world.rows(2, "select count(*) from t"), ["2"], "{change}");
        world.must(0, "commit");
        world.run();
        assert!(world.is_idle(1), "{change}");
        assert_eq!(error_of(&world.said(1)), None, "{change}");
    }
}

#[test]
fn changes_lock_as_much_as_they_need() {
    let waiting = [
        ("create index on t (v)", "row exclusive", true),
        ("create index on t (v)", "row share", false),
        ("alter table u add foreign key (id) references t", "access share", false),
        ("alter table t add check (v > 0)", "access share", true),
        ("comment on table t is 'all'", "access exclusive", false),
        ("create table w (a int references t)", "row share", false),
        ("create table w (a int references t)", "share", true),
        ("create view w as select * from t", "access exclusive", false),
    ];
    for (change, mode, waits) in waiting {
        let mut world = world();
        world.must(0, &format!("begin; lock table t, u in {mode} mode"));
        world.begin(1, change);
        assert_eq!(!world.is_idle(1), waits, "{change}, {mode}");
        world.must(0, "commit");
        world.run();
        assert_eq!(error_of(&world.said(1)), None, "{change}, {mode}");
    }
}

/// A block of definitions has its tables until it ends.
#[test]
fn whoever_locks_waits_for_a_change_and_sees_what_became_of_it() {
    for (end, found) in [
        ("commit", Some("42P01 relation \"t\" does not exist")),
        ("rollback", None),
    ] {
        let mut world = world();
        world.must(0, "begin; drop table t");
        world.begin(1, "begin; lock table t in access share mode");
        assert!(!world.is_idle(1));
        world.must(0, end);
        world.run();
        let said = world.said(1);
        assert_eq!(error_of(&said), found, "{end}: {said:?}");
    }
}

#[test]
fn a_lock_goes_with_its_savepoint_or_its_transaction() {
    for end in ["commit", "rollback", "rollback to savepoint a"] {
        let mut world = world();
        world.must(0, "begin; savepoint a; lock table t");
        world.begin(1, "begin; lock table t in access share mode");
        assert!(!world.is_idle(1));
        world.must(0, end);
        world.run();
        assert!(world.is_idle(1), "{end}");
        assert_eq!(error_of(&world.said(1)), None, "{end}");
    }
}

#[test]
fn a_wait_for_a_table_is_cancelled_and_times_out() {
    let mut world = world();
    world.must(0, "begin; lock table t");
    for statement in ["begin; lock table t", "truncate t"] {
        world.begin(1, statement);
        world.cancel(1, CancelReason::ClientRequest);
        world.run();
        let error = "57014 canceling statement due to user request";
        assert_eq!(error_of(&world.said(1)), Some(error), "{statement}");
        world.must(1, "rollback; set lock_timeout = '200ms'");
        world.begin(1, statement);
        world.pass(300_000);
        world.run();
        let (said, error) = (world.said(1), "55P03 canceling statement due to lock timeout");
        assert_eq!(error_of(&said), Some(error), "{statement}: {said:?}");
        world.must(1, "rollback; reset lock_timeout");
    }
    world.must(0, "commit");
    world.must(1, "begin; lock table t; commit; truncate t");
}

#[test]
fn circles_of_tables_and_rows_are_found() {
    let second = [
        // Both lock.
        (
            "begin; lock table t",
            "begin; lock table u",
            "lock table u",
            "lock table t",
        ),
        // One changes what the other has locked, and waits for its rows.
        (
            "begin; lock table t in share mode",
            "begin; update u set id = 5; lock table u in share mode",
            "drop table u",
            "truncate t",
        ),
        // One has changed rows of what the other is about to change.
        (
            "begin; update t set v = 9 where id = 1",
            "begin; lock table u",
            "lock table u",
            "drop table t",
        ),
    ];
    for (zero, one, then_zero, then_one) in second {
        let mut world = world();
        world.must(0, zero);
        world.must(1, one);
        world.begin(0, then_zero);
        assert!(!world.is_idle(0), "{then_zero}");
        world.begin(1, then_one);
        world.run();
        let ended = [0, 1].map(|client| world.is_idle(client));
        assert!(ended.contains(&true), "{then_zero} and {then_one} wait for each other");
        let deadlocks = [0, 1].map(|client| ended[client] && error_of(&world.said(client)).is_some());
        assert!(deadlocks.contains(&true), "{then_zero} and {then_one}");
    }
}

#[test]
fn a_view_is_locked_with_what_it_reads_and_other_relations_cannot_be() {
    let mut world = world();
    world.must(0, "create view v as select * from t; create view w as select * from v");
    world.must(0, "create sequence s; create index i on t (v)");
    world.must(0, "begin; lock table w in share mode");
    world.begin(1, "truncate t");
    assert!(!world.is_idle(1));
    world.must(0, "commit");
    for (name, kind) in [("s", "sequences"), ("i", "indexes")] {
        let said = world.ask(2, &format!("begin; lock table {name}"));
        let error = format!("42809 cannot lock relation \"{name}\"");
        assert_eq!(error_of(&said), Some(error.as_str()), "{kind}");
        world.must(2, "rollback");
    }
}

/// What is asked for may be another table, or none, when its turn comes.
#[test]
fn who_has_waited_for_another_table_stands_in_no_queue() {
    for again in ["create table t (id int)", "alter table u rename to t", "select 1"] {
        let mut world = world();
        world.must(0, "begin; alter table t rename to old");
        for waiter in 1..3 {
            world.begin(waiter, "begin; lock table t in share mode");
            assert!(!world.is_idle(waiter), "{again}");
        }
        world.must(0, again);
        world.must(0, "commit");
        world.run();
        for waiter in 1..3 {
            assert!(world.is_idle(waiter), "{again}");
            let gone = (again == "select 1").then_some("42P01 relation \"t\" does not exist");
            assert_eq!(error_of(&world.said(waiter)), gone, "{again}");
        }
        // The one that has been renamed is free.
        world.must(
            0,
            "begin; lock table old nowait; commit; alter table old add column more int",
        );
        for waiter in 1..3 {
            world.must(waiter, "rollback");
        }
    }
}
