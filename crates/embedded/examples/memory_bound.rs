//! Loads several times more data than the memory bound allows and reads it back:
//! `cargo run --release -p rubato-embedded --example memory_bound [DIR] [MEMORY_MIB] [TIMES]`.
//!
//! Prints rates, and the resident memory of the process, which is to stay within the bound.

use rubato_base::Value;
use rubato_embedded::{Database, Options, Session};
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a row of the table takes as data, about.
const ROW_BYTES: usize = 250;
const COPY_ROWS: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder: PathBuf = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let memory_mib: usize = arguments.next().map_or(Ok(256), |text| text.parse())?;
    let times: usize = arguments.next().map_or(Ok(4), |text| text.parse())?;
    let folder = folder.join(format!("rubato-memory-bound-{}", std::process::id()));
    let result = measure(&folder, memory_mib << 20, times);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn options(memory_bytes: usize) -> Options {
    let mut options = Options::default();
    options.node.memory_bytes = memory_bytes;
    options
}

fn measure(folder: &Path, memory_bytes: usize, times: usize) -> Result<(), Box<dyn Error>> {
    let rows = memory_bytes * times / ROW_BYTES;
    let database = Database::open(folder, options(memory_bytes))?;
    let mut session = database.session()?;
    session.execute("create table big (id int primary key, balance int not null, filler text not null)")?;
    let begin = Instant::now();
    let mut slowest_ms = 0;
    for first in (0..rows).step_by(COPY_ROWS) {
        let mut data = String::new();
        for id in first..(first + COPY_ROWS).min(rows) {
            writeln!(data, "{id}\t{}\t{:0>220}", id % 1000, id * 7)?;
        }
        let begin = Instant::now();
        session.copy_in("copy big from stdin", data.as_bytes())?;
        slowest_ms = slowest_ms.max(begin.elapsed().as_millis());
    }
    report(
        &format!("COPY of {rows} rows, slowest {COPY_ROWS} rows {slowest_ms} ms"),
        rows,
        begin,
    );
    let figures = database.node().figures();
    println!(
        "  checkpoints {}, memory held {} MiB",
        figures.checkpoints,
        figures.memory_bytes >> 20
    );
    updates(&mut session, rows)?;
    reads(&mut session, rows)?;
    drop(session);
    let begin = Instant::now();
    database.close()?;
    println!("close: {} ms", begin.elapsed().as_millis());
    let begin = Instant::now();
    let database = Database::open(folder, options(memory_bytes))?;
    println!("open again: {} ms, {}", begin.elapsed().as_millis(), memory());
    reads(&mut database.session()?, rows)
}

fn updates(session: &mut Session, rows: usize) -> Result<(), Box<dyn Error>> {
    let update = session.prepare("update big set balance = balance + 1 where id = $1")?;
    let (mut random, count) = (1, 20_000);
    let begin = Instant::now();
    for chunk in 0..count / 100 {
        session.execute("begin")?;
        for _ in 0..100 {
            let id = next_random(&mut random) as usize % rows;
            session.run(&update, &[Value::Int4(id as i32)])?;
        }
        session.execute("commit")?;
        if chunk == 0 {
            report("first 100 random updates", 100, begin);
        }
    }
    report("random updates, 100 a transaction", count, begin);
    Ok(())
}

fn reads(session: &mut Session, rows: usize) -> Result<(), Box<dyn Error>> {
    let read = session.prepare("select balance from big where id = $1")?;
    let (mut random, count) = (5, 100_000);
    let begin = Instant::now();
    for _ in 0..count {
        let id = next_random(&mut random) as usize % rows;
        let output = session.run(&read, &[Value::Int4(id as i32)])?;
        assert_eq!(output.rows.len(), 1, "row {id}");
    }
    report("random reads", count, begin);
    let begin = Instant::now();
    let total = session.query("select count(*), sum(length(filler)) from big")?;
    assert_eq!(total.rows[0][0], Value::Int8(rows as i64));
    report("full scan", rows, begin);
    let begin = Instant::now();
    for _ in 0..1000 {
        let output = session.query("select id from big order by id limit 1")?;
        assert_eq!(output.rows[0][0], Value::Int4(0));
    }
    report("order by key limit 1", 1000, begin);
    let begin = Instant::now();
    for step in 0..1000 {
        let from = (step * 7919) % rows;
        let sql = format!("select count(*) from big where id >= {from} and id < {}", from + 100);
        session.query(&sql)?;
    }
    report("ranges of 100", 1000, begin);
    Ok(())
}

fn report(what: &str, count: usize, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    println!("{what}: {:.0}/s ({seconds:.1} s), {}", count as f64 / seconds, memory());
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status
        .lines()
        .filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS"));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join(", ")
}

/// splitmix64.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
