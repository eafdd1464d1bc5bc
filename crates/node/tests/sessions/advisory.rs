//! Advisory locks and `pg_sleep`: who waits, for how long, and that nobody else does.

use crate::world::*;
use rubato_sql::client::Request;
use rubato_stages::worker::CancelReason;

const LOCK: &str = "select pg_advisory_lock(7)";

fn error_of(said: &[String]) -> Option<&str> {
    said.iter().find_map(|line| line.strip_prefix("E "))
}

#[test]
fn a_lock_is_waited_for_in_order_and_survives_its_transaction() {
    let mut world = World::new(4);
    world.must(0, "begin; select pg_advisory_lock(7); rollback");
    world.begin(1, LOCK);
    world.begin(2, LOCK);
    assert!(!world.is_idle(1) && !world.is_idle(2));
    assert_eq!(
        world.rows(3, "select pg_try_advisory_lock(7), pg_try_advisory_lock(0, 7)"),
        ["f|t"]
    );
    assert_eq!(
        world.rows(0, "select pg_advisory_unlock(7), pg_advisory_unlock(7)"),
        ["t|f"]
    );
    world.run();
    assert!(world.is_idle(1) && !world.is_idle(2));
    assert_eq!(world.said(1), ["T 1", "D ", "C SELECT 1", "Z I"]);
    world.send(1, [Request::Terminate]);
    world.run();
    assert_eq!(world.said(2), ["T 1", "D ", "C SELECT 1", "Z I"]);
}

#[test]
fn a_lock_of_a_transaction_ends_with_it() {
    for end in ["commit", "rollback", "select 1 / 0"] {
        let mut world = World::new(2);
        world.must(0, "begin; select pg_advisory_xact_lock(1, 2)");
        world.begin(1, "select pg_advisory_xact_lock_shared(1, 2)");
        assert!(!world.is_idle(1));
        assert_eq!(world.rows(0, "select pg_advisory_unlock(1, 2)"), ["f"]);
        world.ask(0, end);
        assert_eq!(world.said(1), ["T 1", "D ", "C SELECT 1", "Z I"], "{end}");
        // Outside of a block it ends with its statement.
        world.ask(0, "rollback");
        assert_eq!(world.rows(0, "select pg_try_advisory_lock(1, 2)"), ["t"]);
    }
}

#[test]
fn a_transaction_that_goes_back_to_a_savepoint_gives_back_what_it_took_since() {
    let mut world = World::new(2);
    world.must(0, "begin; select pg_advisory_xact_lock(1); savepoint a");
    world.must(
        0,
        "select pg_advisory_xact_lock(1), pg_advisory_xact_lock_shared(2), pg_advisory_lock(3)",
    );
    world.begin(1, "select pg_advisory_xact_lock(2)");
    assert!(!world.is_idle(1));
    world.must(0, "rollback to savepoint a");
    assert_eq!(world.said(1), ["T 1", "D ", "C SELECT 1", "Z I"]);
    let others = "select pg_try_advisory_lock(1), pg_try_advisory_lock(2), pg_try_advisory_lock(3)";
    assert_eq!(world.rows(1, others), ["f|t|f"]);
    world.must(0, "commit");
    assert_eq!(world.rows(1, others), ["t|t|f"]);
}

/// A statement that waits is begun anew when it is woken: what it has given back it does not give back twice, and says so again.
#[test]
fn what_was_given_back_before_a_wait_is_given_back_once() {
    let ways = [
        // Holds of the lock before, what is asked, what it says, whether the lock is held behind it.
        (
            1,
            "select pg_advisory_lock(1), pg_advisory_unlock(1), pg_advisory_lock(2)",
            "|t|",
            true,
        ),
        (1, "select pg_advisory_unlock(1), pg_advisory_lock(2)", "t|", false),
        (2, "select pg_advisory_unlock(1), pg_advisory_lock(2)", "t|", true),
        (
            2,
            "select pg_advisory_unlock(1), pg_advisory_unlock(1), pg_advisory_unlock(1), pg_advisory_lock(2)",
            "t|t|f|",
            false,
        ),
        (
            1,
            "select pg_advisory_unlock(1), pg_advisory_lock(1), pg_advisory_lock(2)",
            "t||",
            true,
        ),
    ];
    for (holds, asked, said, is_held) in ways {
        let mut world = World::new(2);
        (0..holds).for_each(|_| drop(world.rows(0, "select pg_advisory_lock(1)")));
        world.rows(1, "select pg_advisory_lock(2)");
        world.begin(0, asked);
        assert!(!world.is_idle(0), "{asked}");
        world.rows(1, "select pg_advisory_unlock(2)");
        assert!(world.said(0).contains(&format!("D {said}")), "{asked}");
        let free = world.rows(1, "select pg_try_advisory_lock(1)");
        assert_eq!(free, [if is_held { "f" } else { "t" }], "{asked}");
    }
}

/// What the last holder did is seen by who has waited for it, as if the transaction began then.
#[test]
fn who_has_waited_sees_what_the_holder_did() {
    let mut world = World::new(2);
    world.must(0, "create table done (version int primary key)");
    world.must(0, "begin; select pg_advisory_xact_lock(1)");
    world.begin(1, "begin; select pg_advisory_xact_lock(1)");
    world.must(0, "insert into done values (1); commit");
    assert_eq!(world.said(1).last().map(String::as_str), Some("Z T"));
    assert_eq!(world.rows(1, "select version from done"), ["1"]);
    world.must(1, "insert into done values (2); commit");
}

#[test]
fn a_wait_is_cancelled_times_out_and_is_no_circle() {
    let mut world = World::new(3);
    world.must(0, LOCK);
    world.begin(1, LOCK);
    world.cancel(1, CancelReason::ClientRequest);
    world.run();
    let said = world.said(1);
    assert_eq!(error_of(&said), Some("57014 canceling statement due to user request"));
    for (setting, error) in [
        ("lock_timeout", "55P03 canceling statement due to lock timeout"),
        (
            "statement_timeout",
            "57014 canceling statement due to statement timeout",
        ),
    ] {
        world.must(1, &format!("set {setting} = '200ms'"));
        world.begin(1, LOCK);
        world.pass(300_000);
        world.run();
        assert_eq!(error_of(&world.said(1)), Some(error));
        world.must(1, &format!("reset {setting}"));
    }
    world.must(2, "select pg_advisory_lock(8)");
    world.begin(2, LOCK);
    let said = world.ask(0, "select pg_advisory_lock(8)");
    assert_eq!(error_of(&said), Some("40P01 deadlock detected"));
    world.must(0, "discard all");
    assert_eq!(world.said(2).last().map(String::as_str), Some("Z I"));
    // Nobody is left in a queue.
    world.must(2, "select pg_advisory_unlock_all()");
    assert_eq!(
        world.rows(1, "select pg_try_advisory_lock(7), pg_try_advisory_lock(8)"),
        ["t|t"]
    );
}

#[test]
fn a_sleep_ends_in_time_and_holds_nobody_up() {
    let mut world = World::new(2);
    world.begin(0, "select 1, pg_sleep(0.5), pg_sleep_for('250 ms')");
    assert!(!world.is_idle(0));
    world.must(1, "create table t (id int primary key)");
    world.pass(499_000);
    world.run();
    assert!(!world.is_idle(0));
    world.pass(2_000);
    world.run();
    assert!(!world.is_idle(0));
    world.pass(250_000);
    world.run();
    assert_eq!(world.said(0), ["T 3", "D 1||", "C SELECT 1", "Z I"]);
    assert_eq!(world.rows(0, "select pg_sleep(-1), pg_sleep(0)"), ["|"]);
    world.must(0, "set statement_timeout = '1s'");
    world.begin(0, "select pg_sleep(1000)");
    world.pass(1_000_001);
    world.run();
    let said = world.said(0);
    assert_eq!(
        error_of(&said),
        Some("57014 canceling statement due to statement timeout")
    );
    world.must(0, "insert into t values (1)");
    let said = world.ask(0, "select pg_sleep(1) from t");
    assert!(
        error_of(&said).is_some_and(|error| error.starts_with("0A000")),
        "{said:?}"
    );
}

#[test]
fn a_clock_that_is_set_is_told_and_nothing_waits_longer_or_less_for_that() {
    let hour_us = 3_600_000_000;
    for by_us in [hour_us, -hour_us] {
        let mut world = World::new(3);
        world.must(2, "create table t (id int primary key); insert into t values (1)");
        world.must(2, "begin; select id from t where id = 1 for update");
        let began = world.rows(0, "select extract(epoch from now())::int8");
        world.must(1, "set statement_timeout = '3s'");
        world.begin(0, "select pg_sleep(3)");
        world.begin(1, "select id from t where id = 1 for update");
        world.set_clock(by_us);
        world.pass(2_900_000);
        world.run();
        assert_eq!([0, 1].map(|session| world.is_idle(session)), [false; 2], "{by_us}");
        world.pass(200_000);
        world.run();
        assert_eq!(world.said(0), ["T 1", "D ", "C SELECT 1", "Z I"]);
        let told = world.said(1);
        let timed_out = "57014 canceling statement due to statement timeout";
        assert_eq!(error_of(&told), Some(timed_out), "{by_us}");
        let ended = world.rows(0, "select extract(epoch from now())::int8");
        let [began, ended] = [began, ended].map(|rows| rows[0].parse::<i64>().expect("seconds"));
        let passed = ended - began - by_us / 1_000_000;
        assert!((3..=4).contains(&passed), "{by_us}: {passed}");
    }
}

/// Row 1 of `t` is of the first session, lock 7 of the second.
fn one_has_the_row_and_another_the_lock() -> World {
    let mut world = World::new(3);
    world.must(
        0,
        "create table t (id int primary key, v int); insert into t values (1, 1), (2, 1)",
    );
    world.must(0, "begin; update t set v = v * 2 + id where id = 1 returning v");
    world.must(1, "begin; update t set v = 5 where id = 2 returning v");
    world.must(1, "select pg_advisory_xact_lock(7)");
    world
}

#[test]
fn a_circle_through_a_lock_and_a_row_is_refused_to_who_closes_it() {
    let update = "update t set v = v * 2 + id where id = 1 returning v";
    // By a row.
    let mut world = one_has_the_row_and_another_the_lock();
    world.begin(0, "select pg_advisory_xact_lock(7)");
    assert!(!world.is_idle(0));
    let said = world.ask(1, update);
    assert_eq!(error_of(&said), Some("40P01 deadlock detected"));
    world.must(1, "rollback");
    assert_eq!(world.said(0), ["T 1", "D ", "C SELECT 1", "Z T"]);
    world.must(0, "commit");
    assert_eq!(world.rows(2, "select v from t order by id"), ["3", "1"]);
    // By the lock.
    let mut world = one_has_the_row_and_another_the_lock();
    world.begin(1, update);
    assert!(!world.is_idle(1));
    let said = world.ask(0, "select pg_advisory_xact_lock(7)");
    assert_eq!(error_of(&said), Some("40P01 deadlock detected"));
    world.must(0, "rollback");
    assert_eq!(world.said(1), ["T 1", "D 3", "C UPDATE 1", "Z T"]);
    // By a third, who waits for the row of one and is waited for by the other.
    let mut world = one_has_the_row_and_another_the_lock();
    world.must(2, "begin");
    world.must(2, "select pg_advisory_xact_lock(8)");
    world.begin(1, "select pg_advisory_xact_lock(8)");
    world.begin(0, "select pg_advisory_xact_lock(7)");
    let said = world.ask(2, update);
    assert_eq!(error_of(&said), Some("40P01 deadlock detected"));
}

#[test]
fn who_waits_for_a_row_beside_locks_of_others_is_in_no_circle() {
    let mut world = one_has_the_row_and_another_the_lock();
    world.must(2, "begin");
    world.begin(2, "select pg_advisory_xact_lock(7)");
    world.begin(1, "update t set v = v * 2 + id where id = 1 returning v");
    assert!(!world.is_idle(1) && !world.is_idle(2));
    world.must(0, "commit");
    assert_eq!(world.said(1), ["T 1", "D 7", "C UPDATE 1", "Z T"]);
    world.must(1, "commit");
    assert_eq!(world.said(2), ["T 1", "D ", "C SELECT 1", "Z T"]);
}

/// Wherever it stands in a query: as long as nothing of that has gone out, it waits.
#[test]
fn locks_are_waited_for_in_any_query() {
    let mut world = World::new(3);
    world.must(
        0,
        "create table locked (id int primary key); insert into locked values (1), (2), (3)",
    );
    for (sql, expected) in [
        (
            "select 1 from (select pg_advisory_xact_lock(3)) z",
            vec!["D 1", "C SELECT 1", "Z I"],
        ),
        (
            "with x as (select set_config('lock_timeout', '5000', true)) select pg_advisory_xact_lock(3) is null from x",
            vec!["D f", "C SELECT 1", "Z I"],
        ),
        (
            "select id, pg_advisory_xact_lock(id) from locked where id in (2, 3) order by id",
            vec!["D 2|", "D 3|", "C SELECT 2", "Z I"],
        ),
        (
            "select id from locked where id > 1 and pg_advisory_xact_lock_shared(id) is not null order by id",
            vec!["D 2", "D 3", "C SELECT 2", "Z I"],
        ),
    ] {
        world.must(0, "begin; select pg_advisory_xact_lock(3)");
        world.begin(1, sql);
        assert!(!world.is_idle(1), "{sql}: {:?}", world.said(1));
        // What it had locked by then it has given back.
        assert_eq!(world.rows(2, "select pg_try_advisory_lock(2)"), ["t"], "{sql}");
        assert_eq!(world.rows(2, "select pg_advisory_unlock(2)"), ["t"], "{sql}");
        world.must(0, "commit");
        world.run();
        let said = world.said(1);
        let told: Vec<&String> = said.iter().filter(|told| !told.starts_with('T')).collect();
        assert_eq!(told, expected, "{sql}");
        assert!(
            said.iter().filter(|told| told.starts_with('T')).count() <= 1,
            "{sql}: {said:?}"
        );
    }
    // Not in what writes.
    world.must(0, "begin; select pg_advisory_xact_lock(3)");
    let said = world.ask(
        1,
        "insert into locked select 4 where pg_advisory_xact_lock(3) is not null",
    );
    assert!(said[0].starts_with("E 0A000 waiting for an advisory lock"), "{said:?}");
}
