//! What `rubato demo` shows: load TPC-C, run the mix, check the conditions.

use std::time::Duration;

use rubato_workload::tpcc::{Scale, Settings};

use super::tpcc;
use crate::error::BenchError;
use crate::report::{CheckReport, RoundReport};
use crate::runner::RunSettings;
use crate::url::Target;
use crate::wire::Connection;

/// What the demonstration does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemoSettings {
    /// Warehouses to load.
    pub warehouses: u32,
    /// Terminals that run the mix.
    pub terminals: u64,
    /// Time they run, after one second of warm-up.
    pub duration: Duration,
    /// Seed of all data and choices.
    pub seed: u64,
    /// Whether a progress bar is shown on standard error.
    pub progress: bool,
}

impl Default for DemoSettings {
    fn default() -> DemoSettings {
        DemoSettings {
            warehouses: 1,
            terminals: 10,
            duration: Duration::from_secs(10),
            seed: 1,
            progress: true,
        }
    }
}

/// What the demonstration found.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoReport {
    /// Time loading took.
    pub load: Duration,
    /// The measured mix; its `Display` is the table to print.
    pub round: RoundReport,
    /// The twelve conditions after the run.
    pub checks: Vec<CheckReport>,
}

impl DemoReport {
    /// Whether every condition holds.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.violation.is_none())
    }
}

/// Loads TPC-C into the database of `url`, runs the mix and checks the conditions. Replaces tables of the same names.
///
/// # Errors
/// The URL is wrong, the server cannot be reached, or a statement outside the mix failed.
pub fn run_demo(url: &str, settings: DemoSettings) -> Result<DemoReport, BenchError> {
    let target = Target::parse(url)?;
    let connect = || Connection::open(&target);
    let scale = Scale::specification(i64::from(settings.warehouses.max(1)));
    let started = std::time::Instant::now();
    tpcc::load(connect, scale, settings.seed, 2, settings.progress)?;
    let load = started.elapsed();
    let run_settings = RunSettings {
        terminals: settings.terminals,
        warmup: Duration::from_secs(1),
        duration: settings.duration,
        ..RunSettings::default()
    };
    let round = tpcc::run(connect, Settings::unpaced(scale, settings.seed), run_settings)?;
    let checks = tpcc::check(&mut connect()?, scale, "after the run");
    let checks = checks.map_err(|error| BenchError::client("checking the conditions", error))?;
    Ok(DemoReport { load, round, checks })
}
