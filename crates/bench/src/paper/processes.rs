//! A grid of processes of this very program, on loopback, in a folder that goes with it.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rubato_workload::{Client, ClientError};
use tempfile::TempDir;

use super::clients::NO_HUGE_PAGES;
use super::counters::{Counters, cpu_us, page, resident_bytes};
use super::ports::free_addresses;
use crate::error::BenchError;
use crate::url::Target;
use crate::wire::Connection;

/// How often the nodes of a grid are started if ports are taken.
const STARTS_MAX: u32 = 5;
/// How long the nodes may take to become one grid.
const MEETING_TIME_MAX: Duration = Duration::from_secs(60);
/// How often they are asked whether they are.
const MEETING_LOOK: Duration = Duration::from_millis(50);
/// Between the meeting and the measuring of round trips: each node has asked each other one by then.
const PROBE_TIME: Duration = Duration::from_millis(2_500);
/// What settings of this program in the environment begin with; they are not for the nodes.
const SETTINGS: &str = "RUBATO_";

/// Ends the processes that experiments have started, from any thread; those that are still to be started end at once.
#[derive(Clone, Default)]
pub struct Stopper {
    processes: Arc<Mutex<Vec<Child>>>,
    is_asked: Arc<AtomicBool>,
}

impl Stopper {
    /// Ends all. What waits for them gets an error, and nothing new is begun.
    pub fn stop(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        self.end_all();
    }

    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// An error once it was asked to stop.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        match self.is_asked() {
            true => Err(BenchError::Interrupted),
            false => Ok(()),
        }
    }

    /// Takes a process in, so that it ends with the others. Its number.
    pub(super) fn keep(&self, process: Child) -> u32 {
        let id = process.id();
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(process);
        if self.is_asked() {
            self.end_all();
        }
        id
    }

    fn end_all(&self) {
        self.end_those(|_| true);
    }

    /// Ends the processes of which this is true.
    fn end_those(&self, is_meant: impl Fn(u32) -> bool) {
        let mut kept = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let meant: Vec<Child> = kept.extract_if(.., |process| is_meant(process.id())).collect();
        drop(kept);
        for mut process in meant {
            // One that has ended already cannot be killed, and need not.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// What all nodes of a grid are told.
#[derive(Clone, Debug)]
pub(super) struct NodeSettings {
    pub memory: String,
    /// Whether each is a grid of its own, beside the others.
    pub are_apart: bool,
    /// More arguments of `start`.
    pub more: Vec<String>,
}

struct Node {
    process: u32,
    target: Target,
    metrics: SocketAddr,
}

/// Processes that are one grid, or each a grid of its own. They end when this is dropped, and their folder goes.
pub(super) struct Grid<'s> {
    nodes: Vec<Node>,
    /// All that were started, those too that have not become nodes.
    processes: Vec<u32>,
    stopper: &'s Stopper,
    folder: TempDir,
}

impl Drop for Grid<'_> {
    fn drop(&mut self) {
        self.stopper.end_those(|process| self.processes.contains(&process));
    }
}

impl<'s> Grid<'s> {
    /// Starts so many nodes, and waits until each sees all others. Begins anew, a few times, if a port that was free has been taken before
    /// its node listened there: by a connection of another node, say.
    pub fn start(count: u32, settings: &NodeSettings, stopper: &'s Stopper) -> Result<Grid<'s>, BenchError> {
        let is_taken = |wrong: &BenchError| wrong.to_string().contains("Address already in use");
        let mut started = Grid::try_start(count, settings, stopper);
        for _ in 1..STARTS_MAX {
            if !started.as_ref().is_err_and(is_taken) {
                break;
            }
            started = Grid::try_start(count, settings, stopper);
        }
        started
    }

    fn try_start(count: u32, settings: &NodeSettings, stopper: &'s Stopper) -> Result<Grid<'s>, BenchError> {
        let folder = tempfile::Builder::new().prefix("rubato-paper-").tempdir()?;
        let secret = folder.path().join("secret");
        let number = || RandomState::new().hash_one(Instant::now());
        std::fs::write(&secret, format!("{:016x}{:016x}\n", number(), number()))?;
        let (ports, metrics) = (free_addresses(count as usize)?, free_addresses(count as usize)?);
        let mut grid = Grid {
            nodes: Vec::new(),
            processes: Vec::new(),
            stopper,
            folder,
        };
        let path = grid.folder.path().to_path_buf();
        for node in 0..count as usize {
            stopper.check()?;
            let mut command = Command::new(std::env::current_exe()?);
            let own = std::env::vars_os().map(|(name, _)| name);
            for name in own.filter(|name| name.to_string_lossy().starts_with(SETTINGS)) {
                command.env_remove(name);
            }
            command.env_remove(NO_HUGE_PAGES);
            command
                .args(["start", "--stop-with-stdin", "--log", "warn", "--listen", "127.0.0.1:0"])
                .args(["--memory", &settings.memory, "--grid-listen", &ports[node].to_string()])
                .args(["--metrics-listen", &metrics[node].to_string()])
                .arg("--grid-secret-file")
                .arg(&secret)
                .arg("--data")
                .arg(path.join(format!("node{node}")))
                .args(&settings.more);
            if node > 0 && !settings.are_apart {
                command.args(["--join", &ports[0].to_string()]);
            }
            grid.begin(command, metrics[node], &path.join(format!("node{node}.log")))?;
        }
        if !settings.are_apart {
            grid.wait_for_all()?;
        }
        Ok(grid)
    }

    fn begin(&mut self, mut command: Command, metrics: SocketAddr, log: &Path) -> Result<(), BenchError> {
        let written = std::fs::File::create(log)?;
        // The pipe to its standard input closes however this program ends, and the node ends with that.
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(written)
            .spawn()
            .map_err(|wrong| BenchError::Processes(format!("a node cannot be started: {wrong}")))?;
        let out = process.stdout.take();
        let process = self.stopper.keep(process);
        self.processes.push(process);
        let mut line = String::new();
        if let Some(out) = out {
            BufReader::new(out).read_line(&mut line)?;
        }
        let port = line.split(" -p ").nth(1).and_then(|rest| rest.split(' ').next());
        let Some(port) = port.and_then(|port| port.parse::<u16>().ok()) else {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            return Err(BenchError::Processes(format!("a node did not start: {line}{said}")));
        };
        let number = self.nodes.len();
        let target = Target::parse(&format!("node{number}=postgres://rubato@127.0.0.1:{port}/rubato"))?;
        self.nodes.push(Node {
            process,
            target,
            metrics,
        });
        Ok(())
    }

    fn wait_for_all(&self) -> Result<(), BenchError> {
        let until = Instant::now() + MEETING_TIME_MAX;
        for node in 0..self.nodes.len() {
            let mut connection = self.connect(node)?;
            let failed = |error| BenchError::client("waiting for the grid", error);
            let question = "SELECT count(*) FROM rubato.nodes WHERE state IN ('here', 'up')";
            let question = connection.prepare(question).map_err(failed)?;
            let mut seen = || connection.execute(question, &[])?.int(0, 0);
            while seen().map_err(failed)? < self.nodes.len() as i64 {
                self.stopper.check()?;
                if Instant::now() > until {
                    return Err(failed(ClientError::unexpected("the nodes do not become one grid")));
                }
                thread::sleep(MEETING_LOOK);
            }
        }
        Ok(())
    }

    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// A session at a node.
    pub fn connect(&self, node: usize) -> Result<Connection, BenchError> {
        self.stopper.check()?;
        Connection::open(&self.nodes[node % self.nodes.len()].target)
    }

    /// What a node's process has of the machine's memory now.
    pub fn memory_bytes(&self, node: usize) -> Result<u64, BenchError> {
        self.stopper.check()?;
        resident_bytes(self.nodes[node % self.nodes.len()].process)
    }

    /// The node that has a warehouse: whole numbers that follow each other lie on nodes that follow each other.
    pub fn node_of_warehouse(&self, warehouse: i64) -> usize {
        warehouse.unsigned_abs() as usize % self.nodes.len()
    }

    /// What all nodes have counted and used so far.
    pub fn counters(&self) -> Result<Counters, BenchError> {
        self.stopper.check()?;
        let mut sum = Counters::default();
        for node in &self.nodes {
            sum.add(&Counters::of(&page(node.metrics)?, cpu_us(node.process)?));
        }
        Ok(sum)
    }

    /// The median of what round trips between idle nodes take, in microseconds; none in a grid of one.
    pub fn round_trip_us(&self) -> Result<Option<f64>, BenchError> {
        if self.nodes.len() < 2 {
            return Ok(None);
        }
        thread::sleep(PROBE_TIME);
        let mut trips = Vec::new();
        for node in 0..self.nodes.len() {
            let mut connection = self.connect(node)?;
            let asked = connection
                .prepare("SELECT round_trip_us FROM rubato.nodes WHERE round_trip_us IS NOT NULL")
                .and_then(|question| connection.execute(question, &[]))
                .and_then(|rows| {
                    (0..rows.len())
                        .map(|row| rows.int(row, 0))
                        .collect::<Result<Vec<_>, _>>()
                });
            trips.extend(asked.map_err(|error| BenchError::client("asking for round trips", error))?);
        }
        trips.sort_unstable();
        Ok(trips.get(trips.len() / 2).map(|trip| *trip as f64))
    }
}
