//! What the nodes count themselves, from their metrics pages, and what the system says of their time.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// A page that takes longer is not waited for.
const PAGE_TIME_MAX: Duration = Duration::from_secs(10);
/// Units of the times in `/proc/PID/stat` are these on Linux, whatever the machine.
const US_PER_TICK: f64 = 10_000.0;
/// Places of `utime` and `stime` behind the program's name, which is in brackets.
const TIMES: [usize; 2] = [11, 12];

/// Sums over all nodes; or, of a run, what each transaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counters {
    /// CPU time of the processes in microseconds, user and system (`/proc/PID/stat`).
    pub cpu_us: f64,
    /// Messages between nodes.
    pub messages: f64,
    /// What of them was sent together counts once.
    pub frames: f64,
    /// Bytes between nodes.
    pub bytes: f64,
    /// Forced writes of logs.
    pub forces: f64,
    /// Statements begun.
    pub statements: f64,
    /// Commits over several nodes, in two phases.
    pub two_phase_commits: f64,
}

impl Counters {
    /// Of one page, and of the process's CPU time.
    pub fn of(page: &BTreeMap<String, f64>, cpu_us: f64) -> Counters {
        let number = |name: &str| page.get(name).copied().unwrap_or(0.0);
        Counters {
            cpu_us,
            messages: number("rubato_grid_messages_sent_total"),
            frames: number("rubato_grid_frames_sent_total"),
            bytes: number("rubato_grid_sent_bytes_total"),
            forces: number("rubato_log_forces_total"),
            statements: number("rubato_statements_total"),
            two_phase_commits: number("rubato_grid_commits_total{way=\"two_phases\"}"),
        }
    }

    fn with(&self, other: &Counters, join: impl Fn(f64, f64) -> f64) -> Counters {
        Counters {
            cpu_us: join(self.cpu_us, other.cpu_us),
            messages: join(self.messages, other.messages),
            frames: join(self.frames, other.frames),
            bytes: join(self.bytes, other.bytes),
            forces: join(self.forces, other.forces),
            statements: join(self.statements, other.statements),
            two_phase_commits: join(self.two_phase_commits, other.two_phase_commits),
        }
    }

    pub fn add(&mut self, other: &Counters) {
        *self = self.with(other, |one, other| one + other);
    }

    /// What each of so many transactions has come to since `before`.
    pub fn since(&self, before: &Counters, transactions: u64) -> Counters {
        let count = transactions.max(1) as f64;
        self.with(before, |after, before| (after - before) / count)
    }
}

/// The numbers of a node's metrics page, by their names with labels.
pub(super) fn page(address: SocketAddr) -> Result<BTreeMap<String, f64>, BenchError> {
    read(address)
        .map(|text| numbers(&text))
        .map_err(|wrong| BenchError::Processes(format!("no metrics from {address}: {wrong}")))
}

fn read(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PAGE_TIME_MAX)?;
    stream.set_read_timeout(Some(PAGE_TIME_MAX))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn numbers(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    pairs
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// CPU time that a process has used so far, in microseconds.
pub(super) fn cpu_us(process: u32) -> Result<f64, BenchError> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))
        .map_err(|wrong| BenchError::Processes(format!("no CPU time of process {process}: {wrong}")))?;
    Ok(ticks(&stat) * US_PER_TICK)
}

/// CPU time that the calling thread has used so far, in microseconds, from `/proc/thread-self/schedstat`.
pub(super) fn own_cpu_us() -> std::io::Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ns.map(|ns| ns / 1e3)
        .ok_or_else(|| std::io::Error::other("no CPU time of this thread"))
}

/// What a process has of the machine's memory, from `/proc/PID/status`.
pub(super) fn resident_bytes(process: u32) -> Result<u64, BenchError> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))
        .map_err(|wrong| BenchError::Processes(format!("no memory of process {process}: {wrong}")))?;
    Ok(kibibytes(&status) << 10)
}

fn kibibytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn ticks(stat: &str) -> f64 {
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let times = TIMES.iter().filter_map(|place| fields.get(*place)?.parse::<f64>().ok());
    times.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_and_a_line_of_the_system_are_read() {
        let text = "HTTP/1.1 200 OK\r\n\r\n# HELP x y\nrubato_log_forces_total 7\n\
                    rubato_grid_commits_total{way=\"two_phases\"} 3\n";
        let first = Counters::of(&numbers(text), 100.0);
        assert_eq!((first.forces, first.two_phase_commits, first.messages), (7.0, 3.0, 0.0));
        let mut both = first;
        both.add(&first);
        let each = both.since(&first, 7);
        assert_eq!((each.forces, each.cpu_us), (1.0, 100.0 / 7.0));
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 9 0";
        assert_eq!(ticks(stat), 300.0);
        assert_eq!(kibibytes("Name:\tx\nVmRSS:\t  1234 kB\nThreads:\t1\n"), 1234);
    }
}
