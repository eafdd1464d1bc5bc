//! Rows that are laid down in the store before their transaction commits: the power goes in the midst of every operation of the disk
//! in turn, and what is there afterwards is what some number of whole steps has made, all acknowledged ones among them.

use rubato_base::Value;
use rubato_log::{Options, PowerLoss};
use rubato_node::{Node, NodeSettings};
use rubato_simulation::direct::Direct;
use rubato_simulation::disk::Disk;
use rubato_workload::Client;

/// More than the store is given at once.
const ROWS: i64 = 1_500;
/// So few that rows leave memory while they are laid.
const MEMORY_BYTES: usize = 700_000;

fn open(disk: &Disk) -> rubato_base::Result<(Node, Direct)> {
    let settings = NodeSettings {
        memory_bytes: MEMORY_BYTES,
        ..NodeSettings::default()
    };
    let options = Options {
        prepare_in_background: false,
        ..Options::default()
    };
    let (node, _) = Node::open(disk.store(), disk.directory(), options, settings)?;
    let direct = Direct::new(&node, 0)?;
    Ok((node, direct))
}

fn copy(direct: &mut Direct, table: &str, ids: std::ops::Range<i64>) -> bool {
    let mut pieces = ids.step_by(500).map(|first| {
        let lines = (first..first + 500).map(|id| format!("{id}\t{}\n", id * 7));
        lines.collect::<String>().into_bytes()
    });
    let mut chunks = |chunk: &mut Vec<u8>| {
        let piece = pieces.next();
        let is_more = piece.is_some();
        *chunk = piece.unwrap_or_default();
        is_more
    };
    let copied = direct.copy_in(&format!("copy {table} from stdin"), &mut chunks);
    copied.inspect_err(|error| println!("copy {table}: {error}")).is_ok()
}

type Step = fn(&Node, &mut Direct) -> bool;

fn is_done(direct: &mut Direct, sql: &str) -> bool {
    direct.sql(sql).inspect_err(|error| println!("{sql}: {error}")).is_ok()
}

/// What is done, in order; each step is one transaction, or something that changes no rows.
const STEPS: [Step; 8] = [
    |_, direct| is_done(direct, "create table a (id int not null, n int)"),
    |_, direct| {
        is_done(direct, "begin; truncate a")
            && copy(direct, "a", 0..ROWS)
            && is_done(direct, "create index on a (n)")
            && is_done(direct, "commit")
    },
    |node, _| node.checkpoint().is_ok(),
    |_, direct| is_done(direct, "alter table a add primary key (id)"),
    |_, direct| {
        is_done(direct, "begin; create table b (id int primary key, n int unique)")
            && copy(direct, "b", 0..ROWS)
            && is_done(
                direct,
                "insert into b values (-1, -1); update b set n = -5 where id = 5; delete from b where id = 6; commit",
            )
    },
    |node, direct| {
        let laid = is_done(direct, "begin; truncate b") && copy(direct, "b", 0..ROWS);
        laid && node.checkpoint().is_ok() && is_done(direct, "rollback")
    },
    |_, direct| {
        is_done(
            direct,
            "create table c (id int primary key); insert into c values (1), (2)",
        )
    },
    |node, _| node.checkpoint().is_ok(),
];

/// What each table holds, by both ways to its rows; nothing for one that is not there.
fn contents(direct: &mut Direct) -> Vec<String> {
    let mut found = Vec::new();
    for (table, column) in [("a", "n"), ("b", "n"), ("c", "id")] {
        let sql = format!(
            "select count(*), coalesce(sum({column}), 0) from {table}; select count(*) from {table} where {column} >= -100"
        );
        match direct.sql(&sql) {
            Ok(answer) => found.extend(answer.outputs.iter().map(|output| format!("{table} {:?}", output.rows))),
            Err(error) => assert!(error.message().contains("does not exist"), "{error}"),
        }
    }
    found
}

/// What is there after each number of steps.
fn expected() -> Vec<Vec<String>> {
    let disk = Disk::default();
    let (node, mut direct) = open(&disk).expect("opens");
    let mut states = vec![contents(&mut direct)];
    for (number, step) in STEPS.iter().enumerate() {
        assert!(step(&node, &mut direct), "step {number}");
        states.push(contents(&mut direct));
    }
    states
}

/// Runs the steps until the power goes in the midst of an operation; false if it did not. What is there then, and after another
/// life with a new table, must be right.
fn the_power_goes_after(operations: u64, states: &[Vec<String>]) -> bool {
    let disk = Disk::default();
    let (node, mut direct) = open(&disk).expect("opens");
    disk.power.goes_after(operations);
    let done = STEPS.iter().take_while(|step| step(&node, &mut direct)).count();
    drop((direct, node));
    let is_over = !disk.power.is_gone();
    let survivors = disk.rows.unforced_calls() / (1 + operations as usize % 3);
    disk.power_comes_back(
        if operations.is_multiple_of(2) {
            PowerLoss::DropAll
        } else {
            PowerLoss::Torn(operations)
        },
        survivors,
    );
    let (node, mut direct) = open(&disk).expect("recovers");
    let found = contents(&mut direct);
    let may_be = &states[done..(done + 2).min(states.len())];
    assert!(
        may_be.contains(&found),
        "after {operations} operations, {done} steps: {found:?}"
    );
    // New storage is given the numbers that were given to what is gone.
    let new = "create table d (id int primary key); create table e (id int); insert into d values (7); insert into e values (8)";
    direct.sql(new).expect("new tables");
    node.checkpoint().expect("a checkpoint");
    drop((direct, node));
    let (_node, mut direct) = open(&disk).expect("opens again");
    for (table, id) in [("d", 7), ("e", 8)] {
        let answer = direct.sql(&format!("select id from {table}")).expect("reads");
        assert_eq!(
            answer.outputs[0].rows,
            vec![vec![Value::Int4(id)]],
            "after {operations} operations"
        );
    }
    assert_eq!(contents(&mut direct), found, "after {operations} operations, once more");
    !is_over
}

#[test]
fn whatever_is_laid_down_is_there_as_a_whole_or_not_at_all() {
    let states = expected();
    assert_eq!(states[5].len(), 4, "{:?}", states[5]);
    let mut operations = 0;
    while the_power_goes_after(operations, &states) {
        operations += 1;
    }
    assert!(operations > 20, "{operations}");
}

#[test]
fn what_is_laid_down_leaves_memory_and_the_log_has_none_of_it() {
    let disk = Disk::default();
    let (node, mut direct) = open(&disk).expect("opens");
    direct
        .sql("begin; create table a (id int primary key, n int)")
        .expect("begins");
    let log_before = node.figures().log_bytes;
    assert!(copy(&mut direct, "a", 0..60 * ROWS));
    direct.sql("commit").expect("commits");
    let figures = node.figures();
    assert!(figures.memory_bytes <= MEMORY_BYTES, "{} bytes", figures.memory_bytes);
    assert!(figures.log_bytes - log_before < 100_000, "{} bytes", figures.log_bytes);
    let answer = direct.sql("select count(*), sum(n) from a").expect("reads");
    let (count, sum) = (60 * ROWS, (0..60 * ROWS).map(|id| id * 7).sum::<i64>());
    assert_eq!(answer.outputs[0].rows, vec![vec![Value::Int8(count), Value::Int8(sum)]]);
}

#[test]
fn a_key_that_is_there_twice_is_named_and_nothing_is_loaded() {
    let disk = Disk::default();
    let (_node, mut direct) = open(&disk).expect("opens");
    direct
        .sql("create table a (id int primary key, n int unique)")
        .expect("makes");
    // The first of the rows has left memory when its key comes again.
    direct.sql("begin; truncate a").expect("begins");
    let mut pieces = vec![
        b"17\t-1\n".to_vec(),
        (0..12 * ROWS)
            .map(|id| format!("{id}\t{id}\n"))
            .collect::<String>()
            .into_bytes(),
    ];
    let error = direct
        .copy_in("copy a from stdin", &mut |chunk| match pieces.pop() {
            Some(piece) => {
                *chunk = piece;
                true
            }
            None => false,
        })
        .expect_err("a duplicate");
    assert!(error.to_string().contains("duplicate key"), "{error}");
    direct.sql("rollback").expect("ends");
    let answer = direct.sql("select count(*) from a").expect("reads");
    assert_eq!(answer.outputs[0].rows, vec![vec![Value::Int8(0)]]);
}
