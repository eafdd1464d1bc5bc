//! COPY into a table that its own transaction has made: the rows are laid down in the store before it commits.

use super::data::*;
use super::lent;
use crate::world::*;
use rubato_node::NodeSettings;
use rubato_sql::client::Request;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: usize = 60_000;
const COPY: &str = "copy t from stdin";
const CREATE: &str = "begin; create table t (id int primary key, n int, note text not null); create index on t (n)";

/// A little memory, so that rows must leave it before the transaction ends.
pub fn world() -> World {
    world_of(16 << 20)
}

fn world_of(memory_bytes: usize) -> World {
    let settings = NodeSettings {
        memory_bytes,
        ..NodeSettings::default()
    };
    let mut world = lent::world_with(2, settings);
    world.must(
        0,
        "create table small (id int primary key, n int); insert into small values (1, 0)",
    );
    world
}

/// Runs until a session is idle: while memory is full it is held back until a checkpoint, or the store, has taken some rows. As a
/// server does it asks whether a checkpoint is due: that has rows on their way to the store go on that would wait for more.
pub fn run_through(world: &mut World, session: usize) {
    let begun = Instant::now();
    world.run();
    while !world.is_idle(session) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is held back for ever");
        if world.node.checkpoint_is_due() {
            world.node.checkpoint().expect("a checkpoint");
        }
        std::thread::yield_now();
        world.turn();
    }
}

/// A statement that must succeed, or be told what it is refused with.
pub fn ask(world: &mut World, sql: &str) -> Vec<String> {
    world.send(0, [query(sql)]);
    run_through(world, 0);
    world.said(0)
}

pub fn must(world: &mut World, sql: &str) {
    let said = ask(world, sql);
    assert!(!said.iter().any(|line| line.starts_with('E')), "{sql}: {said:?}");
}

pub fn copy(world: &mut World, data: &[u8]) -> Vec<String> {
    let said = ask(world, COPY);
    assert_eq!(said, ["G"]);
    for piece in pieces(data) {
        world.send(0, [copy_data(&piece)]);
        run_through(world, 0);
    }
    world.send(0, [Request::CopyDone]);
    run_through(world, 0);
    world.said(0)
}

/// Creates the table and loads it, with a checkpoint and another session's change every now and then.
fn load(world: &mut World) {
    world.must(0, CREATE);
    let logged = world.node.figures().log_bytes;
    world.start_copy(0, COPY);
    let data = rows(1, ROWS);
    for (number, piece) in pieces(&data).iter().enumerate() {
        world.send(0, [copy_data(piece)]);
        run_through(world, 0);
        if number % 16 == 0 {
            world.node.checkpoint().expect("a checkpoint");
            world.must(1, "update small set n = n + 1");
        }
    }
    assert_eq!(world.copy_done(0), [format!("C COPY {ROWS}"), "Z T".into()]);
    let logged = world.node.figures().log_bytes - logged;
    assert!(
        logged < data.len() as u64 / 10,
        "rows that are laid down are not logged: {logged}"
    );
    assert!(lent::jobs() > 1, "rows are read and written by other threads");
}

/// What all rows of the table come to, by its own order and by its index, in this life of the node and the next.
pub fn assert_rows(mut world: World, expected: &str) {
    lent::wait_for_running(0);
    for _ in 0..2 {
        let sql = "select count(*), sum(id), sum(n), min(note) from t";
        assert_eq!(world.rows(1, sql), [expected]);
        assert_eq!(world.rows(1, &format!("{sql} where n > -1000000")), [expected]);
        let some = world.rows(1, "select count(*) from t where n = 42");
        assert_eq!(some, world.rows(1, "select count(*) from t where n + 0 = 42"));
        world = world.restart();
        world.node.checkpoint().expect("a checkpoint");
    }
}

pub fn sums(ids: impl Iterator<Item = usize> + Clone) -> String {
    let count = ids.clone().count();
    let n: usize = ids.clone().map(|id| id % 100).sum();
    format!("{count}|{}|{n}|note 1", ids.sum::<usize>())
}

#[test]
fn what_was_laid_down_is_there_once_it_has_committed() {
    let mut world = world();
    load(&mut world);
    assert!(
        world.ask(1, "select count(*) from t")[0].starts_with("E 42P01"),
        "nobody else knows it"
    );
    assert_eq!(world.rows(0, "select count(*), max(n) from t"), [format!("{ROWS}|99")]);
    must(&mut world, "commit");
    assert_rows(world, &sums(1..=ROWS));
}

#[test]
fn what_was_laid_down_is_gone_once_it_is_rolled_back() {
    for how in ["rollback", "an error", "a crash", "the client has gone"] {
        let mut world = world();
        let stored = world.stored_tables().len();
        load(&mut world);
        match how {
            "rollback" => must(&mut world, how),
            "an error" => {
                world.ask(0, "select 1 / 0");
                assert_eq!(world.ask(0, "commit"), ["C ROLLBACK", "Z I"]);
            }
            "a crash" => world = world.restart(),
            _ => drop(world.tell(0, [Request::Terminate])),
        }
        lent::wait_for_running(0);
        for _ in 0..2 {
            world.node.checkpoint().expect("a checkpoint");
            assert!(
                world.ask(1, "select count(*) from t")[0].starts_with("E 42P01"),
                "{how}"
            );
            // The small table and the checkpoint's mark.
            assert!(
                world.stored_tables().len() <= stored.max(2),
                "{how}: {:?}",
                world.stored_tables()
            );
            let figures = world.node.figures();
            assert_eq!((figures.live_transactions, figures.pending_bytes), (0, 0), "{how}");
            world = world.restart();
        }
        load(&mut world);
        must(&mut world, "commit");
        assert_rows(world, &sums(1..=ROWS));
    }
}

/// A COPY that fails, or ends early, takes its table along: nothing but the end of the transaction takes laid rows back.
#[test]
fn what_a_copy_that_failed_has_laid_down_is_gone() {
    for wrong in ["x\t1\ta\n", "7\t1\tlaid already\n", "1000001\t1\t\\N\n"] {
        let mut world = world();
        must(&mut world, CREATE);
        let mut data = rows(1, ROWS);
        data.extend_from_slice(wrong.as_bytes());
        let said = copy(&mut world, &data);
        assert!(said[0].starts_with("E 2"), "{said:?}");
        assert_eq!(said[1..], ["Z E"]);
        assert!(world.context(0).starts_with(&format!("COPY t, line {}", ROWS + 1)));
        must(&mut world, "rollback");
        load(&mut world);
        must(&mut world, "commit");
        assert_rows(world, &sums(1..=ROWS));
    }
}

/// What comes behind a savepoint is not laid, so that it can be taken back without what lies before it.
#[test]
fn what_was_laid_down_before_a_savepoint_stays_when_the_rest_is_taken_back() {
    for restarts in [false, true] {
        let mut world = world_of(64 << 20);
        load(&mut world);
        must(&mut world, "savepoint a");
        let more = rows(ROWS + 1, ROWS + 10_000);
        assert_eq!(copy(&mut world, &more), ["C COPY 10000", "Z T"]);
        must(
            &mut world,
            "update t set n = 42 where id = 7; delete from t where id = 8",
        );
        must(&mut world, "rollback to a");
        assert_eq!(world.rows(0, "select count(*) from t"), [ROWS.to_string()]);
        if restarts {
            // An error behind the savepoint, half way through the data.
            let mut wrong = more.clone();
            wrong.extend_from_slice(b"x\t1\ta\n");
            assert_eq!(copy(&mut world, &wrong)[1..], ["Z E"]);
            must(&mut world, "rollback to a");
        }
        assert_eq!(copy(&mut world, &more), ["C COPY 10000", "Z T"]);
        world.node.checkpoint().expect("a checkpoint");
        must(&mut world, "commit");
        if restarts {
            world = world.restart();
        }
        assert_rows(world, &sums(1..=ROWS + 10_000));
    }
}

/// The table is made behind the savepoint: rolled back to it, the table is gone with all its rows.
#[test]
fn a_table_made_behind_a_savepoint_goes_with_it() {
    for rolls_back in [true, false] {
        let mut world = world_of(256 << 20);
        must(&mut world, "begin; insert into small values (2, 0); savepoint a");
        must(&mut world, &CREATE["begin; ".len()..]);
        assert_eq!(copy(&mut world, &rows(1, ROWS))[0], format!("C COPY {ROWS}"));
        world.node.checkpoint().expect("a checkpoint");
        if rolls_back {
            must(&mut world, "rollback to a");
            assert_eq!(world.rows(0, "select count(*) from small"), ["2"]);
            must(&mut world, &CREATE["begin; ".len()..]);
            assert_eq!(copy(&mut world, &rows(1, 5))[0], "C COPY 5");
        }
        must(&mut world, "commit");
        assert_rows(world, &sums(1..=if rolls_back { 5 } else { ROWS }));
    }
}

/// Laid rows are changed like others by their own transaction.
#[test]
fn what_was_laid_down_can_be_changed_before_it_commits() {
    let mut world = world();
    load(&mut world);
    must(&mut world, "update t set note = 'changed' where id between 2 and 500");
    must(&mut world, "delete from t where id between 501 and 1000");
    must(&mut world, "insert into t values (501, 1, 'again')");
    assert!(world.ask(1, "select 1 from t")[0].starts_with("E 42P01"));
    world.node.checkpoint().expect("a checkpoint");
    must(&mut world, "commit");
    let ids = (1..=501).chain(1001..=ROWS);
    let expected = sums(ids).replace("note 1", "again");
    assert_eq!(
        world
            .rows(1, "select note from t where id in (1, 2, 500, 501, 1001) order by id")
            .len(),
        5
    );
    assert_rows(world, &expected);
}

/// TRUNCATE gives the table new storage, which the rows are laid down in.
#[test]
fn a_table_that_was_emptied_is_loaded_again() {
    for commits in [true, false] {
        let mut world = world();
        load(&mut world);
        must(&mut world, "commit");
        must(&mut world, "begin; truncate t");
        assert_eq!(copy(&mut world, &rows(1, 50_000)), ["C COPY 50000", "Z T"]);
        world.node.checkpoint().expect("a checkpoint");
        must(&mut world, if commits { "commit" } else { "rollback" });
        assert_rows(world, &sums(1..=if commits { 50_000 } else { ROWS }));
    }
}

/// Ends the thread that makes checkpoints, even if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Checkpoints that another thread makes, one after the other, while rows are laid down and tables come and go.
#[test]
fn checkpoints_go_on_while_rows_are_laid_down() {
    let mut world = world();
    let (node, is_over) = (world.node.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let checkpoints = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                node.checkpoint().expect("a checkpoint");
            }
        });
        let ends = Ends(&is_over);
        for round in 0..4 {
            must(&mut world, CREATE);
            assert_eq!(copy(&mut world, &rows(1, ROWS))[0], format!("C COPY {ROWS}"));
            must(&mut world, if round % 2 == 0 { "rollback" } else { "commit" });
            if round == 1 {
                must(&mut world, "drop table t");
            }
        }
        drop(ends);
        checkpoints.join().expect("no panic");
    });
    drop(node);
    assert_rows(world, &sums(1..=ROWS));
}

/// Rows that are laid down leave memory when the store has them, and a checkpoint is no help to that.
#[test]
fn a_memory_full_of_rows_on_their_way_to_the_store_asks_for_no_checkpoint() {
    // Fewer rows than fill a batch on its way.
    let mut world = world_of(1 << 20);
    world.node.checkpoint().expect("a checkpoint");
    let checkpoints = world.node.figures().checkpoints;
    must(&mut world, CREATE);
    world.start_copy(0, COPY);
    let mut held_back = 0;
    for piece in pieces(&rows(1, ROWS)) {
        world.send(0, [copy_data(&piece)]);
        world.run();
        let begun = Instant::now();
        while !world.is_idle(0) {
            held_back += 1;
            assert!(!world.node.checkpoint_is_due(), "nothing is to be stored");
            assert!(begun.elapsed() < Duration::from_secs(60), "it is held back for ever");
            std::thread::yield_now();
            world.turn();
        }
    }
    assert!(held_back > 0, "memory was not full");
    assert_eq!(world.copy_done(0), [format!("C COPY {ROWS}"), "Z T".into()]);
    must(&mut world, "commit");
    assert_eq!(world.node.figures().checkpoints, checkpoints);
    assert_rows(world, &sums(1..=ROWS));
}

/// What was dropped leaves the disk although the log has not grown.
#[test]
fn a_dropped_table_asks_for_a_checkpoint_after_a_while() {
    let mut world = world();
    load(&mut world);
    must(&mut world, "commit");
    world.node.checkpoint().expect("a checkpoint");
    let stored = world.stored_tables().len();
    pass(60_000_000);
    assert!(!world.node.checkpoint_is_due(), "there is nothing to drop");
    must(&mut world, "drop table t");
    pass(2_000_000);
    assert!(world.node.checkpoint_is_due(), "the last one was long ago");
    world.node.checkpoint().expect("a checkpoint");
    assert!(world.stored_tables().len() <= stored - 2);
    assert!(!world.node.checkpoint_is_due());
    // And what was laid down in vain.
    load(&mut world);
    must(&mut world, "rollback");
    assert!(!world.node.checkpoint_is_due(), "not one after the other");
    pass(11_000_000);
    assert!(world.node.checkpoint_is_due());
    world.node.checkpoint().expect("a checkpoint");
    pass(60_000_000);
    assert!(!world.node.checkpoint_is_due());
}
