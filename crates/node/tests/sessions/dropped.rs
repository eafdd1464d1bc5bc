//! Tables that are dropped before, while and after a checkpoint takes their rows: in the end the store has nothing of them.

use crate::world::*;
use rubato_node::Node;
use rubato_storage::{Batch, CheckReport, KeyValue, MemoryStore, Store};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

thread_local! {
    /// Of the thread that makes a checkpoint: says that it has come to a step, and hears when to go on.
    static STEPS: RefCell<Option<(Sender<()>, Receiver<()>)>> = const { RefCell::new(None) };
}

/// A store whose changes wait, on the thread of the checkpoint, until the test has done what it does between two of them.
struct Stepwise(Arc<MemoryStore>);

fn step() {
    STEPS.with_borrow(|steps| {
        if let Some((reached, goes_on)) = steps {
            reached.send(()).expect("the test waits");
            goes_on.recv().expect("the test goes on");
        }
    });
}

impl Store for Stepwise {
    fn get(&self, table: u32, key: &[u8]) -> rubato_storage::Result<Option<Vec<u8>>> {
        self.0.get(table, key)
    }

    fn scan(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit_rows: usize,
    ) -> rubato_storage::Result<Vec<KeyValue>> {
        self.0.scan(table, from, to, reverse, limit_rows)
    }

    fn apply(&self, batch: Batch) -> rubato_storage::Result<()> {
        step();
        self.0.apply(batch).inspect(|()| step())
    }

    fn force(&self) -> rubato_storage::Result<()> {
        self.0.force().inspect(|()| step())
    }

    fn drop_tables(&self, tables: &[u32]) -> rubato_storage::Result<()> {
        step();
        self.0.drop_tables(tables)
    }

    fn tables(&self) -> rubato_storage::Result<Vec<u32>> {
        self.0.tables()
    }

    fn bytes_used(&self) -> rubato_storage::Result<u64> {
        self.0.bytes_used()
    }

    fn check(&self) -> rubato_storage::Result<CheckReport> {
        self.0.check()
    }
}

/// Makes a checkpoint, and does `meanwhile` at each of its steps.
fn checkpoint_with(node: &Node, meanwhile: &mut dyn FnMut()) -> rubato_base::Result<()> {
    let ((reached, is_reached), (go_on, goes_on)) = (channel(), channel());
    std::thread::scope(|scope| {
        let making = scope.spawn(|| {
            STEPS.set(Some((reached, goes_on)));
            let made = node.checkpoint();
            STEPS.set(None);
            made.map(drop)
        });
        while is_reached.recv().is_ok() {
            meanwhile();
            go_on.send(()).expect("it waits");
        }
        making.join().expect("no panic")
    })
}

/// More than a checkpoint takes at once.
const MAKES: [&str; 3] = [
    "create table t (id int primary key, n int); insert into t select g, g from generate_series(1, 700) g; \
     create index on t (n)",
    "create temporary table t (id int primary key, n int); insert into t select g, g from generate_series(1, 700) g",
    "begin; create table t (id int primary key); insert into t select generate_series(1, 700); savepoint s",
];

/// At which step of two checkpoints what happens: 0 is before the first, and what has not happened by the last does behind it.
#[derive(Clone, Copy, Debug)]
struct Order {
    makes: usize,
    dropped_at: usize,
    /// Who began before the table was dropped ends.
    reader_ends_at: Option<usize>,
    crashes_at: Option<usize>,
}

impl Order {
    fn happens(self, world: &mut World, step: usize) {
        if step == self.dropped_at {
            world.must(0, "drop table t");
        }
        if step == self.dropped_at && self.makes == 2 {
            world.must(0, "commit");
        }
        if Some(step) == self.reader_ends_at {
            world.must(1, "commit");
        }
        if Some(step) == self.crashes_at {
            world.stop_disk();
        }
    }
}

/// How many steps two checkpoints take.
fn nothing_stays(order: Order) -> usize {
    let mut world = World::over(2, |store| Arc::new(Stepwise(store)));
    world.must(0, "create table kept (id int primary key); insert into kept values (1)");
    world.node.checkpoint().expect("a checkpoint");
    let kept: BTreeSet<u32> = world.stored_tables().into_iter().collect();
    if order.reader_ends_at.is_some() {
        world.must(1, "begin isolation level repeatable read; select * from kept");
    }
    world.must(0, MAKES[order.makes]);
    order.happens(&mut world, 0);
    let (mut steps, node) = (0, world.node.clone());
    for _ in 0..2 {
        let made = checkpoint_with(&node, &mut || {
            steps += 1;
            order.happens(&mut world, steps);
        });
        assert!(made.is_ok() || order.crashes_at.is_some(), "{order:?}: {made:?}");
    }
    drop(node);
    if order.crashes_at.is_some() {
        world = world.restart_after_power_loss(steps % 3);
        world.must(0, "drop table if exists t");
    } else {
        (steps + 1..100).for_each(|step| order.happens(&mut world, step));
    }
    // What was dropped while one was made goes with the next.
    world.node.checkpoint().expect("a checkpoint");
    world.node.checkpoint().expect("a checkpoint");
    let mut left = world.stored_tables();
    left.retain(|table| !kept.contains(table));
    assert!(left.is_empty(), "{order:?} of {steps}: {left:?}");
    assert_eq!(world.rows(0, "select id from kept"), ["1"]);
    let memory = world.node.figures().memory_bytes;
    assert!(memory < 2_000, "{order:?}: {memory} bytes");
    steps
}

#[test]
fn nothing_of_a_dropped_table_stays_in_the_store_whenever_it_was_dropped() {
    for makes in 0..MAKES.len() {
        let mut dropped_at = 0;
        loop {
            let order = Order {
                makes,
                dropped_at,
                reader_ends_at: None,
                crashes_at: None,
            };
            if nothing_stays(order) < dropped_at {
                break;
            }
            dropped_at += 1;
        }
        assert!(dropped_at > 5, "{dropped_at}");
    }
}

#[test]
fn nor_where_one_who_began_before_keeps_it_for_a_while() {
    for makes in 0..MAKES.len() {
        for dropped_at in 0..10 {
            for reader_ends_at in dropped_at..12 {
                nothing_stays(Order {
                    makes,
                    dropped_at,
                    reader_ends_at: Some(reader_ends_at),
                    crashes_at: None,
                });
            }
        }
    }
}

#[test]
fn nor_where_the_power_goes() {
    for makes in 0..MAKES.len() {
        for dropped_at in 0..8 {
            for crashes_at in 1..10 {
                for reader_ends_at in [None, Some(50)] {
                    nothing_stays(Order {
                        makes,
                        dropped_at,
                        reader_ends_at,
                        crashes_at: Some(crashes_at),
                    });
                }
            }
        }
    }
}

#[test]
fn keys_of_no_table_are_counted_by_whoever_looks_at_the_disk() {
    let mut world = World::new(1);
    world.must(0, "create table kept (id int primary key); insert into kept values (1)");
    world.node.checkpoint().expect("a checkpoint");
    assert_eq!(world.verified_with(4242, 0).unclaimed_keys, 0);
    assert_eq!(world.verified_with(4242, 3_000).unclaimed_keys, 3_000);
}
