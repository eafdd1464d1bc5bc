//! Measures the log on this machine: `cargo run --release -p rubato-log --example force_latency [DIR]`.
//!
//! Prints append + force times for 1 and 16 threads (each commits 200 bytes and waits until they are durable), the size
//! of the groups, what forcing costs in a segment that is not filled beforehand, and the speed of replay.

use rubato_log::{FileDirectory, LogDirectory, Lsn, Options, Reader, open};
use std::error::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAYLOAD_BYTES: usize = 200;
const RUN_TIME: Duration = Duration::from_secs(4);
const REPLAY_BYTES: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("rubato-force-latency-{}", std::process::id()));
    let result = measure(&folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for (name, prefilled) in [("growing file", false), ("zero-filled file", true)] {
        println!("{name:18} write + fdatasync: {}", plain_file(folder, prefilled)?);
    }
    for threads in [1, 4, 16, 64] {
        commits(&folder.join(format!("commits-{threads}")), threads)?;
    }
    replay(&folder.join("replay"))
}

fn plain_file(folder: &Path, prefilled: bool) -> Result<String, Box<dyn Error>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(folder.join("plain"))?;
    if prefilled {
        file.write_all_at(&vec![0; 8 << 20], 0)?;
        file.sync_all()?;
    }
    let mut times = Vec::new();
    for round in 0..4000 {
        let begin = Instant::now();
        file.write_all_at(&[1; PAYLOAD_BYTES], round * PAYLOAD_BYTES as u64)?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    Ok(percentiles(times))
}

fn commits(folder: &Path, threads: usize) -> Result<(), Box<dyn Error>> {
    let directory: Arc<dyn LogDirectory> = Arc::new(FileDirectory::create(folder)?);
    let (appender, forcer, _) = open(directory, Options::default())?;
    let appender = Arc::new(Mutex::new(appender));
    let begin = Instant::now();
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let (appender, forcer) = (appender.clone(), forcer.clone());
            std::thread::spawn(move || {
                let mut times = Vec::new();
                while begin.elapsed() < RUN_TIME {
                    let begin = Instant::now();
                    let end = appender
                        .lock()
                        .expect("lock")
                        .append(&[7; PAYLOAD_BYTES])
                        .expect("space");
                    forcer.force_to(end).expect("forces");
                    times.push(begin.elapsed());
                }
                times
            })
        })
        .collect();
    let times: Vec<Duration> = handles
        .into_iter()
        .flat_map(|handle| handle.join().expect("no panic"))
        .collect();
    let rate = times.len() as f64 / begin.elapsed().as_secs_f64();
    let counters = forcer.counters();
    let group = counters.records as f64 / counters.forces as f64;
    println!(
        "{threads:2} threads: {rate:8.0} commits/s, {group:5.1} records a force, {}",
        percentiles(times)
    );
    Ok(())
}

fn replay(folder: &Path) -> Result<(), Box<dyn Error>> {
    let directory: Arc<dyn LogDirectory> = Arc::new(FileDirectory::create(folder)?);
    let (mut appender, forcer, _) = open(directory.clone(), Options::default())?;
    let begin = Instant::now();
    let mut appends_time = Duration::ZERO;
    while appender.next_lsn().0 < REPLAY_BYTES {
        let begin = Instant::now();
        for _ in 0..20_000 {
            appender.append(&[9; PAYLOAD_BYTES])?;
        }
        appends_time += begin.elapsed();
        forcer.force()?;
    }
    let records = forcer.counters().records;
    let append_ns = appends_time.as_nanos() as f64 / records as f64;
    let write_rate = REPLAY_BYTES as f64 / 1e6 / begin.elapsed().as_secs_f64();
    println!("append: {append_ns:.0} ns a record; bulk write: {write_rate:.0} MB/s with forces of 4 MB");
    drop((appender, forcer));
    let begin = Instant::now();
    let mut reader = Reader::open(directory, Lsn::ZERO)?;
    let mut count = 0_u64;
    while let Some(record) = reader.next_record()? {
        count += u64::from(record.payload[0] == 9);
    }
    let end = reader.into_tail()?.end;
    let rate = end.0 as f64 / 1e6 / begin.elapsed().as_secs_f64();
    println!("replay: {count} records of {PAYLOAD_BYTES} bytes, {rate:.0} MB/s (file cache warm)");
    Ok(())
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_micros();
    format!("p50 {} us, p99 {} us, max {} us", at(0.5), at(0.99), at(1.0))
}
