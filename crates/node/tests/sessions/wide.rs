//! Rows of which few fit into memory.

use crate::copy::lent;
use crate::world::*;
use rubato_node::NodeSettings;
use rubato_sql::executor::Limits;

const ROW_BYTES: usize = 100_000;

fn world_of(memory_bytes: usize, statement_bytes: usize) -> World {
    let settings = NodeSettings {
        memory_bytes,
        limits: Limits {
            bytes_max: statement_bytes,
            ..Limits::default()
        },
        ..NodeSettings::default()
    };
    let mut world = lent::world_with(1, settings);
    must(&mut world, "create table w (id int primary key, n int, v text)");
    world
}

/// What is said of a statement that may be held back for some seconds, while its node makes the checkpoints that are due.
fn ask(world: &mut World, sql: &str) -> Vec<String> {
    world.send(0, [query(sql)]);
    world.run();
    for _ in 0..20_000 {
        if world.is_idle(0) {
            return world.said(0);
        }
        world.pass(10_000);
        if world.node.checkpoint_is_due() {
            world.node.checkpoint().expect("a checkpoint");
        }
        // Rows that are laid go to the store by a thread of their own.
        std::thread::sleep(std::time::Duration::from_millis(1));
        world.run();
    }
    panic!("{sql} is held back for ever");
}

fn must(world: &mut World, sql: &str) {
    let said = ask(world, sql);
    assert!(!said.iter().any(|line| line.starts_with('E')), "{sql}: {said:?}");
}

fn fill(world: &mut World, rows: usize) {
    for from in (1..=rows).step_by(10) {
        let to = (from + 9).min(rows);
        let insert =
            format!("insert into w select i, 0, repeat('y', {ROW_BYTES}) from generate_series({from}, {to}) i");
        must(world, &insert);
    }
    world.node.checkpoint().expect("a checkpoint");
}

const SUMS: &str = "select count(*), sum(id), sum(n), sum(length(v)) from w";

/// The rows that a statement has locked stay in memory, and fill it long before its changes do.
#[test]
fn a_statement_that_changes_more_rows_than_fit_lays_its_table_anew() {
    let (rows, of_half) = (400, 200);
    let bytes = |rows: usize| rows * ROW_BYTES;
    let statements = [
        (
            "update w set n = 1 where id > 0",
            "UPDATE",
            rows,
            "400|80200|400",
            bytes(rows),
        ),
        (
            "update w set v = v || 'z' where n >= 0",
            "UPDATE",
            rows,
            "400|80200|0",
            bytes(rows) + rows,
        ),
        (
            "delete from w where id % 2 = 0",
            "DELETE",
            of_half,
            "200|40000|0",
            bytes(of_half),
        ),
    ];
    for (statement, verb, changed, left, length) in statements {
        for (before, then) in [("", ""), ("begin", "commit")] {
            let mut world = world_of(16 << 20, 4 << 20);
            fill(&mut world, rows);
            must(&mut world, before);
            let said = ask(&mut world, statement);
            assert_eq!(said[0], format!("C {verb} {changed}"), "{statement} behind {before:?}");
            must(&mut world, then);
            for _ in 0..2 {
                assert_eq!(ask(&mut world, SUMS)[1], format!("D {left}|{length}"), "{statement}");
                world = world.restart();
            }
        }
    }
}

#[test]
fn copies_of_wide_rows_are_made_some_at_a_time() {
    let mut world = world_of(64 << 20, 4 << 20);
    fill(&mut world, 80);
    must(&mut world, "create table x (id int primary key, n int, v text)");
    assert_eq!(ask(&mut world, "insert into x select * from w")[0], "C INSERT 0 80");
    assert_eq!(ask(&mut world, "create table y as select * from w")[0], "C SELECT 80");
    let generated = format!("insert into x select -i, 0, repeat('z', {ROW_BYTES}) from generate_series(1, 80) i");
    assert_eq!(ask(&mut world, &generated)[0], "C INSERT 0 80");
    let all = 80 * ROW_BYTES;
    let sums = "select count(*), sum(length(v)) from";
    assert_eq!(ask(&mut world, &format!("{sums} y"))[1], format!("D 80|{all}"));
    assert_eq!(ask(&mut world, &format!("{sums} x"))[1], format!("D 160|{}", 2 * all));
}

/// What is read into memory after a start is as much as there is room for, and what is read of the store is all of it.
#[test]
fn wide_rows_come_from_the_store_by_their_size() {
    let (memory_bytes, rows) = (16 << 20, 240);
    let mut world = world_of(memory_bytes, 4 << 20);
    fill(&mut world, rows);
    let mut world = world.restart();
    while world.node.warm_up().expect("reads") {}
    let held = world.node.figures().memory_bytes;
    assert!((memory_bytes / 4..memory_bytes * 5 / 8).contains(&held), "{held} bytes");
    let all = format!("D {rows}|{}|0|{}", rows * (rows + 1) / 2, rows * ROW_BYTES);
    assert_eq!(ask(&mut world, SUMS)[1], all);
    let said = ask(&mut world, "select id from w where n = 0 order by id desc");
    let backwards: Vec<String> = (1..=rows).rev().map(|id| format!("D {id}")).collect();
    assert_eq!(said[1..=rows], backwards[..]);
}

/// Rows that are laid go to the store by their size: 2,048 of them were waited for, which memory did not hold, and it was memory that the
/// statement waited for.
#[test]
fn large_rows_are_laid_whoever_makes_them() {
    let mut world = world_of(16 << 20, 64 << 20);
    fill(&mut world, 160);
    let sums = world.rows(0, SUMS);
    must(&mut world, "create table w2 as select * from w");
    must(&mut world, "create index on w2 (n)");
    assert_eq!(
        world.rows(0, "select count(*), sum(length(v)) from w2"),
        [format!("160|{}", 160 * ROW_BYTES)]
    );
    must(&mut world, "alter table w alter column n type bigint");
    assert_eq!(world.rows(0, SUMS), sums);
    must(&mut world, "update w set n = 1");
    assert_eq!(world.rows(0, "select sum(n) from w"), ["160"]);
    world = world.restart();
    assert_eq!(
        world.rows(0, "select count(*), sum(n), sum(length(v)) from w"),
        [format!("160|160|{}", 160 * ROW_BYTES)]
    );
}

/// A text that becomes twice as long is computed when its statement runs, and counts for its transaction: as a formula it was computed
/// when the transaction committed, after it had been told that each statement had succeeded.
#[test]
fn a_text_does_not_grow_beyond_what_its_transaction_may_hold() {
    for twice in [
        "v || v",
        "concat(v, v)",
        "coalesce(v, '') || upper(v)",
        "v || (v || 'x')",
    ] {
        let mut world = world_of(16 << 20, 64 << 20);
        must(&mut world, "insert into w values (1, 0, repeat('y', 1000))");
        must(&mut world, "begin");
        let change = format!("update w set v = {twice} where id = 1");
        let refused = (0..22).find(|_| ask(&mut world, &change)[0].starts_with("E 53200"));
        assert!(
            refused.is_some_and(|round| (8..18).contains(&round)),
            "{twice}: {refused:?}"
        );
        must(&mut world, "rollback");
        assert_eq!(world.rows(0, "select length(v) from w"), ["1000"]);
    }
}
