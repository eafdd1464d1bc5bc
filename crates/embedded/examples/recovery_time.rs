//! How long a start takes that has much log to play back:
//! `cargo run --release -p rubato-embedded --example recovery_time [DIR] [LOG_MIB] [MEMORY_MIB]`.
//!
//! Threads run TPC-B's transaction (three blind updates and an insert) without any checkpoint until the log has that size; then
//! the folder is opened as after a crash.

use rubato_base::Value;
use rubato_embedded::{Database, Options, Session};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const THREADS: usize = 16;
const ACCOUNTS: i32 = 100_000;
/// TPC-B transactions in one of ours: the log is filled faster, and each change costs the same at the start.
const GROUP: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder: PathBuf = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let log_mib: u64 = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let memory_mib: usize = arguments.next().map_or(Ok(4096), |text| text.parse())?;
    let folder = folder.join(format!("rubato-recovery-time-{}", std::process::id()));
    let result = measure(&folder, log_mib << 20, memory_mib << 20);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn options(memory_bytes: usize) -> Options {
    let mut options = Options::default();
    options.node.memory_bytes = memory_bytes;
    options.node.checkpoint_log_bytes = u64::MAX;
    options
}

fn measure(folder: &Path, log_bytes: u64, memory_bytes: usize) -> Result<(), Box<dyn Error>> {
    let database = Database::open(folder, options(8 << 30))?;
    let mut session = database.session()?;
    for (table, rows) in [("branch", 16), ("teller", 160), ("account", ACCOUNTS)] {
        session.execute(&format!(
            "create table {table} (id int primary key, balance int, filler char(84))"
        ))?;
        let data: String = (0..rows).map(|id| format!("{id}\t0\t\n")).collect();
        session.copy_in(&format!("copy {table} from stdin"), data.as_bytes())?;
    }
    session.execute("create table history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))")?;
    let begin = Instant::now();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let mut session = database.session().expect("a session");
            let database = database.clone();
            std::thread::spawn(move || {
                while database.node().figures().log_bytes < log_bytes {
                    transactions(&mut session, thread as i32).expect("runs");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let figures = database.node().figures();
    println!(
        "{} MiB of log in {:.0} s, {} records",
        figures.log_bytes >> 20,
        begin.elapsed().as_secs_f64(),
        figures.log_records
    );
    let expected = session.query("select count(*), sum(delta) from history")?.rows;
    drop(session);
    drop(database);
    let begin = Instant::now();
    let processor_before = processor_seconds();
    let database = Database::open(folder, options(memory_bytes))?;
    let recovery = database.recovery();
    println!(
        "opened in {:.1} s ({:.1} s of processor time): {} records, {} MiB; {}",
        begin.elapsed().as_secs_f64(),
        processor_seconds() - processor_before,
        recovery.transactions,
        recovery.log_bytes >> 20,
        memory()
    );
    let mut session = database.session()?;
    assert_eq!(
        session.query("select count(*), sum(delta) from history")?.rows,
        expected
    );
    let sum = session.query("select sum(balance) from account")?.rows;
    assert_eq!(sum[0][0], expected[0][1]);
    Ok(())
}

fn transactions(session: &mut Session, thread: i32) -> rubato_base::Result<()> {
    let account = session.prepare("update account set balance = balance + $1 where id = $2")?;
    let teller = session.prepare("update teller set balance = balance + $1 where id = $2")?;
    let branch = session.prepare("update branch set balance = balance + $1 where id = $2")?;
    let history = session.prepare("insert into history values ($1, $2, $3, $4, current_timestamp, '')")?;
    let int = |value: i32| Value::Int4(value);
    for round in 0..500 {
        let mut calls = Vec::new();
        for step in 0..GROUP as i32 {
            let (aid, delta) = ((round * 7_919 + step * 104_729 + thread) % ACCOUNTS, round % 100 - 50);
            calls.push((&account, vec![int(delta), int(aid)]));
            calls.push((&teller, vec![int(delta), int(thread * 10)]));
            calls.push((&branch, vec![int(delta), int(thread)]));
            calls.push((&history, vec![int(thread * 10), int(thread), int(aid), int(delta)]));
        }
        session.run_all(calls)?;
    }
    Ok(())
}

/// Processor time of this thread so far: what is left when other programs run on the same machine.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds: f64 = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or_default();
    nanoseconds / 1e9
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS"));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join(", ")
}
