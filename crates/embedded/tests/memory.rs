//! Data several times larger than the memory, at flat memory.

use rubato_base::Value;
use rubato_embedded::{Database, Options};
use std::fmt::Write;
use std::time::Instant;

const MEMORY_BYTES: usize = 128 << 20;
const FILLER_BYTES: usize = 3_000;
const ROWS: usize = 4 * MEMORY_BYTES / FILLER_BYTES;
const COPY_ROWS: usize = 2_000;

fn options() -> Options {
    let mut options = Options::default();
    options.node.memory_bytes = MEMORY_BYTES;
    options
}

/// Memory of the process that is in use and belongs to it alone, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find(|line| line.starts_with("RssAnon:"))
        .expect("a line");
    let kibibytes: usize = line
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number");
    kibibytes * 1024
}

#[test]
fn four_times_the_memory_is_loaded_and_read_within_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(folder.path(), options()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .execute("create table big (id int primary key, balance int not null, filler text not null)")
        .expect("makes");
    let begin = Instant::now();
    let mut highest = 0;
    for first in (0..ROWS).step_by(COPY_ROWS) {
        let mut data = String::new();
        for id in first..(first + COPY_ROWS).min(ROWS) {
            writeln!(data, "{id}\t0\t{:x>FILLER_BYTES$}", id * 7).expect("writes");
        }
        session.copy_in("copy big from stdin", data.as_bytes()).expect("copies");
        highest = highest.max(resident_bytes());
    }
    println!(
        "{ROWS} rows in {:.1} s, at most {} MiB",
        begin.elapsed().as_secs_f64(),
        highest >> 20
    );
    let update = session
        .prepare("update big set balance = balance + 1 where id = $1")
        .expect("prepares");
    let read = session
        .prepare("select balance, length(filler) from big where id = $1")
        .expect("prepares");
    for step in 0..2_000 {
        let id = Value::Int4((step * 7_919 % ROWS) as i32);
        session.run(&update, std::slice::from_ref(&id)).expect("updates");
        let seen = session.run(&read, &[id]).expect("reads");
        assert_eq!(seen.rows, [[Value::Int4(1), Value::Int4(FILLER_BYTES as i32)]]);
    }
    let sums = session
        .query("select count(*), sum(balance), sum(length(filler)) from big")
        .expect("scans");
    let expected = [
        Value::Int8(ROWS as i64),
        Value::Int8(2_000),
        Value::Int8((ROWS * FILLER_BYTES) as i64),
    ];
    assert_eq!(sums.rows, std::slice::from_ref(&expected));
    highest = highest.max(resident_bytes());
    println!(
        "read back after {:.1} s, at most {} MiB",
        begin.elapsed().as_secs_f64(),
        highest >> 20
    );
    assert!(
        highest < MEMORY_BYTES,
        "{} MiB of {} MiB",
        highest >> 20,
        MEMORY_BYTES >> 20
    );
    drop(session);
    drop(database);
    // As after a crash: without the last checkpoint.
    let database = Database::open(folder.path(), options()).expect("opens again");
    let mut session = database.session().expect("a session");
    let sums = session
        .query("select count(*), sum(balance), sum(length(filler)) from big")
        .expect("scans");
    assert_eq!(sums.rows, [expected]);
    assert!(
        resident_bytes() < MEMORY_BYTES,
        "after opening: {} MiB",
        resident_bytes() >> 20
    );
}

#[test]
fn a_transaction_larger_than_memory_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(folder.path(), options()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .execute("create table big (id int primary key, filler text not null)")
        .expect("makes");
    session.execute("begin").expect("begins");
    let insert = session.prepare("insert into big values ($1, $2)").expect("prepares");
    let filler = Value::text(&"y".repeat(100_000));
    let refused = (0..10_000).find_map(|id| session.run(&insert, &[Value::Int4(id), filler.clone()]).err());
    let refused = refused.expect("there is a bound");
    assert_eq!(refused.code().as_str(), "53200", "{refused}");
    session.execute("rollback").expect("rolls back");
    let count = session.query("select count(*) from big").expect("counts");
    assert_eq!(count.rows, [[Value::Int8(0)]]);
    session
        .execute("insert into big values (1, 'z')")
        .expect("memory is free again");
}
