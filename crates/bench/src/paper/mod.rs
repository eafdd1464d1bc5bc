//! The experiments of section 5 of the Rubato DB paper: table 2 and figures 6 to 10, by one command (decision 0035).
//!
//! Grids of processes of this very program show what a transaction costs as the grid grows: CPU time, messages, bytes, forced writes.
//! One machine cannot show more throughput by them. That is what the simulated grid is for: the program `rubato-simulation`, which
//! runs the same nodes in virtual time, is given the service times that were measured. The report says of every figure which it is.

mod clients;
mod counters;
mod data;
mod experiments;
mod fit;
mod overload;
mod ports;
mod processes;
mod report;
mod simulated;
mod turns;

use std::io::{Seek, Write};
use std::path::Path;
use std::time::Instant;

use crate::arguments::{Experiment, PaperArguments};
use crate::error::BenchError;
pub use clients::without_huge_pages;
use data::{Findings, Machine, Run, Setup, service_times};
use experiments::{Laboratory, tpcc_setup};
pub use overload::run as run_overload;
pub use ports::free_addresses;
pub use processes::Stopper;

/// What runs of TPC-C are called.
const TPCC: &str = "TPC-C";
/// What a run was made for: the grid grows; its terminals are at the wrong node; threads of stages are compared; the nodes are no
/// grid.
const GROWTH: &str = "growth";
/// See there.
const WRONG_NODE: &str = "wrong node";
/// See there.
const THREADS: &str = "threads";
/// See there.
const APART: &str = "apart";
/// Figure 8 is of so many nodes.
const THREADS_NODES: u32 = 4;
/// Threads for each stage that it compares; with 0 workers run all stages, as they do by default.
const STAGE_THREADS: [u32; 3] = [0, 1, 4];
/// Figures 9 and 10 go up to here.
const YCSB_NODES_MAX: u32 = 12;
/// Larger grids do not take turns: each run has a grid of its own, and all of them are there at the same time.
const TURNS_NODES_MAX: u32 = 2;
/// Forced writes that are timed, and bytes of each.
const FORCES: usize = 400;
const FORCE_BYTES: usize = 4096;

/// Makes the experiments, and writes the report and its plots. The folder has all data, too.
///
/// # Errors
/// [`BenchError::ChecksFailed`] after everything was written, if a condition did not hold; others end the experiments.
pub fn run(arguments: &PaperArguments, stopper: &Stopper, out: &mut dyn Write) -> Result<(), BenchError> {
    check(arguments)?;
    std::fs::create_dir_all(&arguments.out)?;
    let began = Instant::now();
    let tell = |what: &str| {
        // Nobody is harmed if it cannot be said.
        let _ = writeln!(std::io::stderr(), "{:6.0} s  {what}", began.elapsed().as_secs_f64());
    };
    let laboratory = Laboratory {
        arguments,
        stopper,
        tell: &tell,
    };
    let mut findings = Findings::default();
    let processors =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    let (delay_us, force_us) = match &arguments.real {
        Some(file) => {
            let earlier = earlier(file)?;
            findings.real = earlier.real;
            let times = earlier.service_times;
            (times.network_delay_us, (times.force_us, times.force_cpu_us))
        }
        None => {
            let round_trip_us = real_grids(&laboratory, processors, &mut findings.real)?;
            (round_trip_us / 2.0, force_us()?)
        }
    };
    let machine = Machine {
        force_us,
        network_delay_us: arguments.network_delay_us.unwrap_or(delay_us),
        bytes_per_us: arguments.bytes_per_us,
        processors,
    };
    findings.service_times = service_times(&findings.real, machine);
    if is_wanted(arguments, Experiment::Simulated) {
        tell("the simulated grid");
        match simulated::run(arguments, &findings.service_times, stopper)? {
            Ok(runs) => findings.simulated = runs,
            Err(why) => findings.left_out.push(why),
        }
    }
    let report = report::write(arguments, &findings)?;
    writeln!(out, "{}", report.display())?;
    let runs = findings.real.iter().chain(&findings.simulated);
    match runs.map(|run| run.violations.len()).sum() {
        0 => Ok(()),
        count => Err(BenchError::ChecksFailed(count)),
    }
}

/// What was found before.
fn earlier(file: &Path) -> Result<Findings, BenchError> {
    let told = |wrong: &dyn std::fmt::Display| BenchError::Arguments(format!("--real {}: {wrong}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|wrong| told(&wrong))?;
    serde_json::from_str(&text).map_err(|wrong| told(&wrong))
}

fn is_wanted(arguments: &PaperArguments, experiment: Experiment) -> bool {
    arguments.only.is_empty() || arguments.only.contains(&experiment)
}

fn check(arguments: &PaperArguments) -> Result<(), BenchError> {
    let counts = arguments.nodes.iter().chain(&arguments.simulated_nodes);
    let is_wrong = counts.clone().any(|count| *count == 0) || arguments.warehouses_per_node == 0;
    let is_wrong =
        is_wrong || arguments.simulated_warehouses_per_node == 0 || arguments.simulated_terminals_per_node == 0;
    if is_wrong || arguments.terminals_per_node == 0 || arguments.records_per_node == 0 {
        let message = "a grid has at least one node, each with a warehouse, a record and a terminal";
        return Err(BenchError::Arguments(message.to_owned()));
    }
    let is_share = |share: &f64| (0.0..=100.0).contains(share);
    let is_positive = arguments.seconds > 0.0 && arguments.bytes_per_us > 0.0;
    if !(is_positive && arguments.remote_shares.iter().all(is_share)) {
        let message = "remote shares are from 0 to 100 %; times and bandwidths are more than nothing";
        return Err(BenchError::Arguments(message.to_owned()));
    }
    Ok(())
}

/// All experiments over processes; gives the median of what round trips between idle nodes took.
///
/// Those of which service times are made, on grids that have a processor for each node, take turns.
fn real_grids(laboratory: &Laboratory<'_>, processors: u32, runs: &mut Vec<Run>) -> Result<f64, BenchError> {
    let arguments = laboratory.arguments;
    let take_turns = |nodes: &u32| *nodes <= processors.min(TURNS_NODES_MAX);
    let (own, shared): (Vec<u32>, Vec<u32>) = arguments.nodes.iter().partition(|nodes| take_turns(nodes));
    let mut ready = Vec::new();
    for setup in own.iter().flat_map(|nodes| setups_of(*nodes, arguments)) {
        ready.push(laboratory.tpcc(setup)?);
    }
    for nodes in own.into_iter().filter(|_| is_wanted(arguments, Experiment::Ycsb)) {
        ready.extend(laboratory.ycsb(nodes)?);
    }
    let mut round_trips_us: Vec<f64> = ready.iter().filter_map(|ready| ready.round_trip_us).collect();
    if !ready.is_empty() {
        runs.extend(laboratory.in_turns(ready)?);
    }
    for nodes in shared {
        for setup in setups_of(nodes, arguments) {
            let ready = laboratory.tpcc(setup)?;
            round_trips_us.extend(ready.round_trip_us);
            runs.push(laboratory.alone(ready)?);
        }
        if is_wanted(arguments, Experiment::Ycsb) && nodes <= YCSB_NODES_MAX {
            for ready in laboratory.ycsb(nodes)? {
                runs.push(laboratory.alone(ready)?);
            }
        }
    }
    if is_wanted(arguments, Experiment::Threads) {
        let nodes = THREADS_NODES.min(arguments.nodes.iter().copied().max().unwrap_or(1));
        for stage_threads in STAGE_THREADS {
            let mut setup = tpcc_setup(nodes, 1.0, arguments);
            (setup.experiment, setup.stage_threads) = (THREADS.to_owned(), stage_threads);
            let ready = laboratory.tpcc(setup)?;
            runs.push(laboratory.alone(ready)?);
        }
    }
    round_trips_us.sort_by(f64::total_cmp);
    Ok(round_trips_us.get(round_trips_us.len() / 2).copied().unwrap_or(0.0))
}

/// The runs of TPC-C over so many processes.
fn setups_of(nodes: u32, arguments: &PaperArguments) -> Vec<Setup> {
    let named = |experiment: &str| Setup {
        experiment: experiment.to_owned(),
        ..tpcc_setup(nodes, 1.0, arguments)
    };
    let mut setups = Vec::new();
    if is_wanted(arguments, Experiment::Tpcc) {
        setups.extend(
            arguments
                .remote_shares
                .iter()
                .map(|share| tpcc_setup(nodes, *share, arguments)),
        );
    }
    if is_wanted(arguments, Experiment::Tpcc) && is_wanted(arguments, Experiment::WrongNode) && nodes > 1 {
        setups.push(named(WRONG_NODE));
    }
    if is_wanted(arguments, Experiment::Apart) && nodes > 1 {
        setups.push(named(APART));
    }
    setups
}

/// What a forced write takes where the nodes' folders are, in microseconds: the median, and the CPU time.
fn force_us() -> Result<(f64, f64), BenchError> {
    let mut file = tempfile::tempfile()?;
    // As a segment of the log, the file has its size before.
    file.write_all(&vec![0; FORCES * FORCE_BYTES])?;
    file.sync_all()?;
    file.rewind()?;
    let mut times_us = Vec::new();
    let cpu_before_us = counters::own_cpu_us()?;
    for _ in 0..FORCES {
        let began = Instant::now();
        file.write_all(&[7; FORCE_BYTES])?;
        file.sync_data()?;
        times_us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let cpu_us = counters::own_cpu_us()? - cpu_before_us;
    times_us.sort_by(f64::total_cmp);
    Ok((times_us[FORCES / 2], cpu_us / FORCES as f64))
}
