//! What COPY costs, in processor time, which other programs on the machine do not change:
//! `cargo run --release -p rubato-embedded --example copy_speed [DIR] [ROWS] [SESSIONS] [nokey|key]`.
//!
//! Each session loads its own share of TPC-C's order lines (or, with `nokey`, of pgbench's accounts, into a table without a
//! primary key) by one COPY. Data is made beforehand.

use rubato_embedded::{Database, Options};
use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ORDER_LINE: &str = "create table order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int,
    ol_supply_w_id int, ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6,2), ol_dist_info char(24),
    primary key (ol_w_id, ol_d_id, ol_o_id, ol_number))";
const ACCOUNT: &str = "create table pgbench_accounts (aid int not null, bid int, abalance int, filler char(84))";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder: PathBuf = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rows: usize = arguments.next().map_or(Ok(600_000), |text| text.parse())?;
    let sessions: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let without_key = arguments.next().is_some_and(|word| word == "nokey");
    let folder = folder.join(format!("rubato-copy-speed-{}", std::process::id()));
    let result = measure(&folder, rows, sessions, without_key);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(folder: &PathBuf, rows: usize, sessions: usize, without_key: bool) -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    options.node.memory_bytes = 6 << 30;
    let database = Database::open(folder, options)?;
    let (definition, copy) = if without_key {
        (ACCOUNT, "copy pgbench_accounts from stdin")
    } else {
        (ORDER_LINE, "copy order_line from stdin")
    };
    database.session()?.execute(definition)?;
    let shares: Vec<String> = (0..sessions)
        .map(|session| {
            if without_key {
                accounts(session, rows / sessions)
            } else {
                order_lines(session, rows / sessions)
            }
        })
        .collect();
    let bytes: usize = shares.iter().map(String::len).sum();
    let (begin, before) = (Instant::now(), processor_seconds());
    let threads: Vec<_> = shares
        .into_iter()
        .map(|data| {
            let mut session = database.session().expect("a session");
            std::thread::spawn(move || session.copy_in(copy, data.as_bytes()).expect("loads"))
        })
        .collect();
    let loaded: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    let (wall, processor) = (begin.elapsed().as_secs_f64(), processor_seconds() - before);
    println!(
        "{loaded} rows, {} MB, {sessions} sessions: {wall:.2} s, {processor:.2} s of processor time, {:.0} ns a row",
        bytes / 1_000_000,
        processor * 1e9 / loaded as f64
    );
    Ok(())
}

fn order_lines(session: usize, rows: usize) -> String {
    let mut data = String::with_capacity(rows * 90);
    for row in 0..rows {
        let (order, line) = (row / 10, row % 10 + 1);
        let (district, id) = (order / 3000 + 1, order % 3000 + 1);
        let delivered = if id < 2101 { "2026-11-21 20:30:00.123456" } else { "\\N" };
        let cents = (row * 7919) % 999_999;
        let _ = writeln!(
            data,
            "{id}\t{district}\t{}\t{line}\t{}\t{}\t{delivered}\t5\t{}.{:02}\tqwertyuiopasdfghjklzxcvb",
            session + 1,
            (row * 31) % 100_000 + 1,
            session + 1,
            cents / 100,
            cents % 100
        );
    }
    data
}

fn accounts(session: usize, rows: usize) -> String {
    let mut data = String::with_capacity(rows * 100);
    for row in session * rows..(session + 1) * rows {
        let _ = writeln!(data, "{}\t{}\t0\t", row + 1, row / 100_000 + 1);
    }
    data
}

/// Processor time of all threads of this process so far.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit_once(')').map_or("", |parts| parts.1);
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|word| word.parse::<f64>().ok()).sum::<f64>() / 100.0
}
