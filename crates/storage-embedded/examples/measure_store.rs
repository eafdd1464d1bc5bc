//! Measures the embedded store on the checkpoint's access pattern:
//! `cargo run --release -p rubato-storage-embedded --example measure_store [DIR] [CACHE_MIB]`.
//!
//! Loads 1.5 million rows of about 260 bytes into ten tables in sorted batches of 20,000, each forced; then 60 batches of
//! 20,000 random keys; then random gets, gets of missing keys, and scans of 100 rows. The figures of decision 0002 for
//! both engines come from this program over each engine's own interface.

use rubato_storage::{Batch, Store};
use rubato_storage_embedded::EmbeddedStore;
use std::error::Error;
use std::ops::Bound;
use std::path::PathBuf;
use std::time::Instant;

const TABLES: u64 = 10;
const ROWS: u64 = 1_500_000;
const BATCH_ROWS: usize = 20_000;
const ROUNDS: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let cache_mib: u64 = std::env::args().nth(2).map_or(Ok(64), |text| text.parse())?;
    let folder = folder.join(format!("rubato-measure-store-{}", std::process::id()));
    let result = measure(folder.clone(), cache_mib << 20);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(folder: PathBuf, cache_bytes: u64) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let store = EmbeddedStore::open(&folder, cache_bytes)?;
    println!("open an empty folder: {:.1} ms", milliseconds(begin));
    let mut random = 1;
    let begin = Instant::now();
    let mut next = 0;
    while next < ROWS {
        let until = (next + BATCH_ROWS as u64).min(ROWS);
        store.apply(batch(next..until, &mut random))?;
        store.force()?;
        next = until;
    }
    let rate = ROWS as f64 / begin.elapsed().as_secs_f64();
    println!(
        "load: {rate:.0} rows/s, {} MB on disk, {}",
        store.bytes_used()? / 1_000_000,
        memory()
    );
    upserts(&store, &mut random)?;
    reads(&store, &mut random)?;
    let begin = Instant::now();
    drop(store);
    println!("close: {:.1} ms", milliseconds(begin));
    let begin = Instant::now();
    let store = EmbeddedStore::open(&folder, cache_bytes)?;
    println!("open again: {:.1} ms, {}", milliseconds(begin), memory());
    let begin = Instant::now();
    let report = store.check()?;
    println!("check: {} rows in {:.1} s", report.rows, begin.elapsed().as_secs_f64());
    Ok(())
}

fn upserts(store: &EmbeddedStore, random: &mut u64) -> Result<(), Box<dyn Error>> {
    let (mut apply_ms, mut force_ms) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        let numbers: Vec<u64> = (0..BATCH_ROWS).map(|_| next_random(random) % ROWS).collect();
        let changes = batch(numbers.into_iter(), random);
        let begin = Instant::now();
        store.apply(changes)?;
        apply_ms.push(milliseconds(begin));
        let begin = Instant::now();
        store.force()?;
        force_ms.push(milliseconds(begin));
    }
    let rate = (ROUNDS * BATCH_ROWS) as f64 / begin.elapsed().as_secs_f64();
    println!(
        "random upserts: {rate:.0} rows/s; apply ms {}; force ms {}",
        spread(apply_ms),
        spread(force_ms)
    );
    println!("  {} MB on disk, {}", store.bytes_used()? / 1_000_000, memory());
    Ok(())
}

fn reads(store: &EmbeddedStore, random: &mut u64) -> Result<(), Box<dyn Error>> {
    let (mut found_us, mut missing_us, mut scan_us) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..200_000 {
        let (table, mut key) = key(next_random(random) % ROWS);
        let begin = Instant::now();
        let found = store.get(table, &key)?.is_some();
        found_us.push(milliseconds(begin) * 1000.0);
        key.push(1);
        let begin = Instant::now();
        let missing = store.get(table, &key)?.is_none();
        missing_us.push(milliseconds(begin) * 1000.0);
        assert!(found && missing, "every row was written, and nothing else");
    }
    for _ in 0..10_000 {
        let (table, key) = key(next_random(random) % (ROWS * 9 / 10));
        let begin = Instant::now();
        let rows = store.scan(table, Bound::Included(&key), Bound::Unbounded, false, 100)?;
        scan_us.push(milliseconds(begin) * 1000.0);
        assert_eq!(rows.len(), 100);
    }
    println!(
        "get us {}; missing us {}; scan 100 us {}",
        spread(found_us),
        spread(missing_us),
        spread(scan_us)
    );
    Ok(())
}

fn batch(numbers: impl Iterator<Item = u64>, random: &mut u64) -> Batch {
    let mut batch = Batch::new();
    for number in numbers {
        let (table, key) = key(number);
        batch.put(table, key, value(random));
    }
    batch
}

fn key(number: u64) -> (u32, Vec<u8>) {
    let mut key = vec![1; 4];
    key.extend_from_slice(&(number / TABLES).to_be_bytes());
    ((number % TABLES) as u32, key)
}

/// Half of it compresses, as rows do.
fn value(random: &mut u64) -> Vec<u8> {
    let mut value = Vec::with_capacity(256);
    while value.len() < 250 {
        value.extend_from_slice(&next_random(random).to_le_bytes());
        value.extend_from_slice(b"customer");
    }
    value
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

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1000.0
}

fn spread(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!("p50 {:.1} p99 {:.1} max {:.1}", at(0.5), at(0.99), at(1.0))
}

/// splitmix64.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
