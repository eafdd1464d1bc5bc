//! Constraints that rows may violate: among several sessions, and after a restart.

use crate::world::*;

fn refused(world: &mut World, session: usize, sql: &str, code: &str) {
    let said = world.ask(session, sql);
    let wanted = format!("E {code} ");
    assert!(said.iter().any(|line| line.starts_with(&wanted)), "{sql}: {said:?}");
}

/// Sums on a column with a limit go side by side; where rows may lie beyond it, each is looked at in its place.
#[test]
fn sums_beyond_a_limit_that_is_not_valid_are_refused() {
    let mut world = World::new(2);
    world.must(0, "create table t (id int primary key, n int, m int)");
    world.must(0, "insert into t values (1, -5, 0), (2, 5, 0)");
    world.must(0, "alter table t add constraint positive check (n > 0) not valid");
    let plan = world.rows(0, "explain update t set m = m + 1 where id = 2").join("\n");
    assert!(
        plan.contains("rows may violate the CHECK constraint positive"),
        "{plan}"
    );
    refused(&mut world, 0, "update t set m = m + 1 where id = 1", "23514");
    refused(&mut world, 0, "update t set n = n + 1 where id = 1", "23514");
    // What the one takes is not there for the other, who waits for it.
    world.must(0, "begin; update t set n = n - 3 where id = 2");
    world.begin(1, "update t set n = n - 3 where id = 2");
    world.must(0, "commit");
    world.run();
    let said = world.said(1);
    assert!(said.iter().any(|line| line.starts_with("E 23514")), "{said:?}");
    assert_eq!(world.rows(0, "select n from t order by id"), ["-5", "2"]);
    refused(&mut world, 0, "alter table t validate constraint positive", "23514");
    world.must(0, "update t set n = 8 where id = 1");
    world.must(0, "alter table t validate constraint positive");
    let plan = world.rows(0, "explain update t set n = n - 1 where id = 2").join("\n");
    assert!(!plan.contains("may violate"), "{plan}");
    // Now they go side by side again, and none of them breaks the limit.
    world.must(0, "begin; update t set n = n - 3 where id = 1");
    world.must(1, "update t set n = n - 3 where id = 1");
    world.must(0, "commit");
    refused(&mut world, 1, "update t set n = n - 3 where id = 1", "23514");
    assert_eq!(world.rows(0, "select n from t order by id"), ["2", "2"]);
}

/// A plan that was made before knows the constraint, and a plan that was made while rows might violate it knows that they do not.
#[test]
fn prepared_statements_follow() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (id int primary key, n int); insert into t values (1, -5)",
    );
    world.must(0, "prepare p as update t set n = n - 1 where id = 1");
    world.must(0, "execute p");
    world.must(0, "alter table t add check (n > 0) not valid");
    refused(&mut world, 0, "execute p", "23514");
    world.must(0, "update t set n = 2; alter table t validate constraint t_n_check");
    world.must(0, "execute p");
    refused(&mut world, 0, "execute p", "23514");
}

#[test]
fn they_outlast_a_restart() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table u (id int primary key); create table t (id int primary key, n int, u int)",
    );
    world.must(
        0,
        "create domain d as int; create table v (x d); insert into v values (50)",
    );
    world.must(0, "insert into t values (1, -5, 9)");
    world.must(0, "alter table t add constraint positive check (n > 0) not valid");
    world.must(
        0,
        "alter table t add constraint refers foreign key (u) references u not valid",
    );
    world.must(0, "alter domain d add constraint small check (value < 10) not valid");
    let shown = "select conname, convalidated, pg_get_constraintdef(oid, true) from pg_constraint \
                 where conrelid = 't'::regclass and contype <> 'p' order by 1";
    for _ in 0..2 {
        world = world.restart();
        assert_eq!(
            world.rows(0, shown),
            [
                "positive|f|CHECK (n > 0) NOT VALID",
                "refers|f|FOREIGN KEY (u) REFERENCES u(id) NOT VALID"
            ]
        );
        refused(&mut world, 0, "update t set id = 2", "23514");
        refused(&mut world, 0, "insert into t values (3, 1, 9)", "23503");
        refused(&mut world, 0, "insert into v values (20)", "23514");
        refused(&mut world, 0, "alter domain d validate constraint small", "23514");
        refused(&mut world, 0, "alter table t validate constraint refers", "23503");
    }
    world.must(0, "update t set n = 1, u = null; update v set x = 1");
    world.must(
        0,
        "alter table t validate constraint refers, validate constraint positive",
    );
    world.must(0, "alter domain d validate constraint small");
    world = world.restart();
    assert_eq!(
        world.rows(0, shown),
        ["positive|t|CHECK (n > 0)", "refers|t|FOREIGN KEY (u) REFERENCES u(id)"]
    );
}
