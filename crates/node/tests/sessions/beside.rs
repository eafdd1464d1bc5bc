//! Schema changes beside those who write to the table: nobody is held up, and what is made is as the rows are in the end.

use crate::world::*;
use rubato_node::NodeSettings;
use rubato_stages::worker::CancelReason;

const ROWS: usize = 30_000;
/// Statements that a writer sends at once.
const STATEMENTS: usize = 10;
/// So many rows that the entries of an index of theirs go to the store.
const LITTLE_MEMORY_BYTES: usize = 16 << 20;
/// Turns in a row that a writer may have to wait: those in which the last rows are gone over.
const HELD_UP_TURNS_MAX: usize = 3;

fn world(memory_bytes: usize) -> World {
    let settings = NodeSettings {
        memory_bytes,
        ..NodeSettings::default()
    };
    let mut world = World::with(4, settings);
    world.must(
        0,
        "create table parent (id int primary key); insert into parent select generate_series(0, 999)",
    );
    world.must(
        0,
        "create table t (id int primary key, n int, u int not null, note text)",
    );
    for from in (1..ROWS).step_by(10_000) {
        let to = from + 9_999;
        world.must(
            0,
            &format!("insert into t select g, g % 1000, g, 'x' from generate_series({from}, {to}) g"),
        );
    }
    world
}

/// Statements that change the table at random, and never break a constraint that is being added.
struct Writers {
    state: u64,
    next_id: usize,
}

impl Writers {
    fn random(&mut self, below: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % below
    }

    fn statement(&mut self) -> String {
        let id = 1 + self.random(ROWS);
        match self.random(6) {
            0 => {
                self.next_id += 1;
                let (new, n) = (ROWS + self.next_id, self.random(1000));
                format!("insert into t values ({new}, {n}, {new}, 'new')")
            }
            1 => format!("delete from t where id = {id}"),
            // Blind as long as no index has the column.
            2 => format!("update t set n = n / 2 where id = {id}"),
            3 => format!(
                "update t set n = {} where id between {id} and {}",
                self.random(1000),
                id + 20
            ),
            // Keys that are unique go from one row to another.
            4 => format!(
                "begin; update t set u = -{id} where id = {id}; delete from t where id = {0}; update t set u = {0} where id = {id}; commit",
                1 + self.random(ROWS)
            ),
            _ => format!("update t set note = 'y' where id = {id}"),
        }
    }
}

/// The change, with a writer beside it all the while; what the one who changes was told, and how many statements were written.
fn change_beside_a_writer(world: &mut World, change: &str, seed: u64) -> (Vec<String>, usize) {
    let mut writers = Writers {
        state: seed,
        next_id: 0,
    };
    world.send(0, [query(change)]);
    let (mut written, mut held_up) = (0, 0);
    while !world.is_idle(0) {
        if world.is_idle(1) {
            held_up = 0;
            written += STATEMENTS;
            let said = world.said(1);
            assert!(!said.iter().any(|line| line.starts_with('E')), "{change}: {said:?}");
            let statements: Vec<_> = (0..STATEMENTS).map(|_| query(&writers.statement())).collect();
            world.send(1, statements);
        } else {
            held_up += 1;
            assert!(held_up <= HELD_UP_TURNS_MAX, "{change} holds a writer up");
        }
        world.turn();
    }
    world.run();
    (world.said(0), written)
}

/// Every way to the rows finds the same ones.
fn assert_indexed(world: &mut World, column: &str, what: &str) {
    let scanned = world.rows(2, &format!("select {column} + 0, id from t order by 1, 2"));
    let plan = world
        .rows(2, &format!("explain select id from t where {column} = 5"))
        .join(" ");
    assert!(
        plan.contains("index t_") || plan.contains("index once"),
        "{what}: {plan}"
    );
    for some in scanned.chunks(scanned.len() / 200 + 1) {
        let (key, _) = some[0].split_once('|').expect("two columns");
        let mut found = world.rows(2, &format!("select {column}, id from t where {column} = {key}"));
        found.sort();
        let mut expected: Vec<String> = scanned
            .iter()
            .filter(|row| row.split_once('|').is_some_and(|row| row.0 == key))
            .cloned()
            .collect();
        expected.sort();
        assert_eq!(found, expected, "{what}: {column} = {key}");
    }
    // In the order of the index.
    let ordered = world.rows(
        2,
        &format!("select {column}, id from t where {column} > -1000000 order by {column}"),
    );
    assert_eq!(ordered.len(), scanned.len(), "{what}");
}

#[test]
fn an_index_is_built_while_others_write() {
    for memory_bytes in [LITTLE_MEMORY_BYTES, 1 << 30] {
        for (change, column) in [
            ("create index on t (n)", "n"),
            ("create unique index on t (u)", "u"),
            ("alter table t add constraint once unique (u)", "u"),
        ] {
            for seed in 1..4 {
                let mut world = world(memory_bytes);
                let (said, written) = change_beside_a_writer(&mut world, change, seed);
                assert!(!said.iter().any(|line| line.starts_with('E')), "{change}: {said:?}");
                assert!(written > 20, "{change}: {written}");
                let what = format!("{change}, {memory_bytes} bytes, seed {seed}");
                assert_indexed(&mut world, column, &what);
                let mut world = world.restart();
                assert_indexed(&mut world, column, &format!("{what}, after a restart"));
                // It is kept up like any other.
                world.must(0, "update t set n = 5 where id = 7; delete from t where id = 8; insert into t values (0, 5, 0, 'last')");
                world.node.checkpoint().expect("a checkpoint");
                assert_indexed(&mut world, column, &format!("{what}, with a checkpoint"));
                assert_indexed(&mut world.restart(), column, &format!("{what}, after another"));
            }
        }
    }
}

#[test]
fn constraints_are_checked_while_others_write() {
    for change in [
        "alter table t add constraint small check (n < 1000)",
        "alter table t alter n set not null",
        "alter table t add foreign key (n) references parent",
    ] {
        let mut world = world(1 << 30);
        let (said, written) = change_beside_a_writer(&mut world, change, 7);
        assert!(!said.iter().any(|line| line.starts_with('E')), "{change}: {said:?}");
        assert!(written > 20, "{change}: {written}");
        for refused in [
            "update t set n = null where id = 3",
            "update t set n = 1000 where id = 3",
        ] {
            let is_refused = world.ask(0, refused)[0].starts_with("E 23");
            let should_be = refused.contains("null") == change.contains("not null");
            assert_eq!(is_refused, should_be, "{change}: {refused}");
        }
    }
}

/// What a writer does meanwhile counts, wherever the change has come to.
#[test]
fn what_others_write_meanwhile_may_be_what_is_refused() {
    let cases = [
        (
            "create unique index on t (u)",
            "update t set u = 2 where id = 1",
            "E 23505",
        ),
        (
            "create unique index on t (u)",
            "insert into t values (0, 0, 29999, '')",
            "E 23505",
        ),
        (
            "create index on t ((1 / n))",
            "update t set n = 0 where id = 1001",
            "E 22012",
        ),
        (
            "alter table t add check (n >= 0)",
            "update t set n = -1 where id = 1",
            "E 23514",
        ),
        (
            "alter table t add check (n >= 0)",
            "update t set n = -1 where id = 29999",
            "E 23514",
        ),
        (
            "alter table t alter n set not null",
            "update t set n = null where id = 1",
            "E 23502",
        ),
        (
            "alter table t add foreign key (n) references parent",
            "update t set n = 1000 where id = 1",
            "E 23503",
        ),
        (
            "alter table t add foreign key (n) references parent",
            "delete from parent where id = 1",
            "E 23503",
        ),
        (
            "alter table t add foreign key (n) references parent",
            "update parent set id = 1000 where id = 999",
            "E 23503",
        ),
    ];
    for (change, write, code) in cases {
        for turns in [1, 2, 4] {
            let mut world = world(1 << 30);
            world.must(0, "update t set n = 1 where n = 0");
            world.send(0, [query(change)]);
            for _ in 0..turns {
                world.turn();
            }
            assert!(!world.is_idle(0), "{change}");
            assert!(!world.ask(1, write)[0].starts_with('E'), "{change}: {write}");
            assert!(world.is_idle(0), "{change}");
            let said = world.said(0);
            assert!(said[0].starts_with(code), "{change}, {write} after {turns}: {said:?}");
            // Nothing is left of it.
            world.must(
                1,
                "update t set n = 2, u = -5 where id = 2; insert into t values (-1, -1, 2, '')",
            );
            assert_eq!(world.node.figures().live_transactions, 0, "{change}");
        }
    }
}

/// A key that goes from one row to another is never there twice.
#[test]
fn keys_that_change_hands_meanwhile_are_unique() {
    for memory_bytes in [LITTLE_MEMORY_BYTES, 1 << 30] {
        let mut world = world(memory_bytes);
        world.send(0, [query("create unique index on t (u)")]);
        let mut round = 0;
        while !world.is_idle(0) && world.is_idle(1) {
            // From an early row to a late one and back, and a row that is replaced.
            let (early, late) = if round % 2 == 0 { (29_990, 10) } else { (10, 29_990) };
            world.send(
                1,
                [query(&format!(
                    "begin; update t set u = -1 where id = 10; update t set u = {late} where id = 29990; update t set u = {early} where id = 10; commit;
                     begin; delete from t where id = 500; insert into t values (500, {round}, 500, 'again'); commit"
                ))],
            );
            world.turn();
            let said = world.said(1);
            assert!(!said.iter().any(|line| line.starts_with('E')), "{said:?}");
            round += 1;
        }
        assert!(round > 4);
        world.run();
        assert!(world.said(0).contains(&"C CREATE INDEX".to_owned()));
        assert_indexed(&mut world, "u", "changing hands");
        assert_indexed(&mut world.restart(), "u", "changing hands, after a restart");
    }
}

/// One who has begun to write and takes long holds the change up, but nobody else.
#[test]
fn a_writer_who_takes_long_holds_up_nobody_but_the_change() {
    let mut world = world(1 << 30);
    world.must(1, "begin; update t set n = n + 1 where id = 1");
    world.begin(0, "create index on t (n)");
    assert!(!world.is_idle(0), "it does not wait for one who has begun to write");
    for id in 2..50 {
        world.must(2, &format!("update t set n = n + 1 where id = {id}"));
        world.must(
            3,
            &format!("begin; insert into t values (-{id}, {id}, -{id}, ''); commit"),
        );
    }
    assert!(!world.is_idle(0));
    world.must(1, "update t set n = 77 where id = 3; commit");
    world.run();
    assert_eq!(world.said(0), ["C CREATE INDEX", "Z I"]);
    assert_indexed(&mut world, "n", "with one who took long");
    assert_eq!(world.node.figures().protocol.aborts.iter().sum::<u64>(), 0);
}

#[test]
fn one_that_is_given_up_leaves_nothing() {
    for turns in [1, 5, 20] {
        let mut world = world(LITTLE_MEMORY_BYTES);
        let memory_bytes = world.node.figures().memory_bytes;
        world.must(1, "begin; update t set n = n + 1 where id = 1");
        world.must(3, "begin");
        world.send(3, [query("create index on t (n)")]);
        for turn in 0..turns {
            world.turn();
            world.must(2, &format!("update t set n = 3 where id = {}", turn + 100));
        }
        world.cancel(3, CancelReason::ClientRequest);
        world.run();
        assert!(world.said(3)[0].starts_with("E 57014"), "after {turns}");
        world.must(3, "rollback");
        world.must(1, "commit");
        assert_eq!(world.node.figures().live_transactions, 0, "after {turns}");
        let left = world.node.figures().memory_bytes.saturating_sub(memory_bytes);
        assert!(left < 64 << 10, "after {turns}: {left} bytes");
        world.must(2, "create index on t (n)");
        assert_indexed(&mut world, "n", "after one that was given up");
    }
}

/// Within a block the tables are its own from then on until it ends.
#[test]
fn within_a_block_writers_wait_once_it_is_done() {
    let mut world = world(1 << 30);
    world.must(0, "begin; create index on t (n)");
    assert_indexed_within(&mut world);
    world.begin(1, "update t set n = 5 where id = 9");
    assert!(!world.is_idle(1));
    world.must(
        0,
        "update t set n = 5 where id = 10; create unique index on t (u); commit",
    );
    world.run();
    assert!(world.is_idle(1));
    assert_indexed(&mut world, "n", "a block");
    assert_indexed(&mut world, "u", "a block");
    assert_indexed(&mut world.restart(), "n", "a block, after a restart");
}

fn assert_indexed_within(world: &mut World) {
    let plan = world.rows(0, "explain select id from t where n = 5").join(" ");
    assert!(plan.contains("index t_") || plan.contains("index once"), "{plan}");
    assert_eq!(
        world.rows(0, "select count(*) from t where n = 5"),
        [(ROWS / 1000).to_string()]
    );
}

/// What is made of rows comes to its end beside those who change them without a pause.
#[test]
fn a_table_is_made_of_rows_that_others_change_all_the_while() {
    for (change, of) in [
        ("create table made as select id, n from t", "made"),
        ("refresh materialized view seen", "seen"),
    ] {
        let mut world = world(1 << 30);
        world.must(0, "create materialized view seen as select id, n from t");
        world.send(0, [query(change)]);
        let mut written = 0;
        for turns in 0.. {
            assert!(turns < 100_000, "{change} does not come to its end");
            if world.is_idle(0) {
                break;
            }
            if world.is_idle(1) {
                let said = world.said(1);
                assert!(!said.iter().any(|line| line.starts_with('E')), "{change}: {said:?}");
                // Two rows that have the same sum before and after.
                let (one, other) = (1 + written % ROWS, 1 + (written * 7 + 3) % ROWS);
                written += 1;
                let moved = format!(
                    "begin; update t set n = n + 1 where id = {one}; update t set n = n - 1 where id = {other}; commit"
                );
                world.send(1, [query(&moved)]);
            }
            world.turn();
        }
        world.run();
        let said = world.said(0);
        assert!(!said.iter().any(|line| line.starts_with('E')), "{change}: {said:?}");
        assert!(written > 20, "{change}: {written}");
        let sums = world.rows(2, &format!("select (select sum(n) from {of}), (select sum(n) from t)"));
        let (made, now) = sums[0].split_once('|').expect("two sums");
        assert_eq!(made, now, "{change}");
    }
}
