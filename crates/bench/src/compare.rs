//! Runs one workload on several servers in turn and writes the reports.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use rubato_workload::Client;

use crate::arguments::{BenchCommand, CommonArguments};
use crate::commands::{hotspot, tpcc, tpch, ycsb};
use crate::error::BenchError;
use crate::loading::LoadTimes;
use crate::paper;
use crate::plot;
use crate::report::{CheckReport, Comparison, Headline, RoundReport, TargetReport};
use crate::url::{Target, isolation_level};
use crate::wire::Connection;

/// One workload with its settings, on any target.
pub(crate) trait Benchmark {
    /// Its name.
    fn name(&self) -> String;
    /// Its settings in words.
    fn settings(&self) -> String;
    /// Creates and fills the tables; `None` if it is not to.
    fn load(&mut self, sessions: &Sessions) -> Result<Option<LoadTimes>, BenchError>;
    /// Runs one round (from 0).
    fn round(&mut self, sessions: &Sessions, round: u32) -> Result<RoundReport, BenchError>;
    /// Checks what must be true now.
    fn check(&mut self, sessions: &Sessions, when: &'static str) -> Result<Vec<CheckReport>, BenchError>;
}

/// Opens sessions of one target, all with the same settings.
pub(crate) struct Sessions {
    pub target: Target,
    pub isolation: Option<String>,
    pub pipelining: bool,
}

impl Sessions {
    /// A new session.
    pub fn open(&self) -> Result<Connection, BenchError> {
        let mut connection = Connection::open(&self.target)?;
        connection.set_pipelining(self.pipelining);
        if let Some(level) = &self.isolation {
            let doing = format!("setting the isolation level of {}", self.target.name);
            let sql = format!("SET default_transaction_isolation = '{level}'");
            connection
                .simple(&sql)
                .map_err(|error| BenchError::client(doing, error))?;
        }
        Ok(connection)
    }

    /// A client error with the target's name.
    pub fn failed(&self, doing: &str) -> impl FnOnce(rubato_workload::ClientError) -> BenchError {
        let doing = format!("{doing} on {}", self.target.name);
        move |error| BenchError::client(doing, error)
    }
}

/// Runs the command, writes the text to `out` and the files that were asked for.
///
/// # Errors
/// [`BenchError::ChecksFailed`] after everything was written, if a check did not hold; other errors end the run.
pub fn execute(command: &BenchCommand, out: &mut dyn Write) -> Result<(), BenchError> {
    if let Some(common) = common_of(command) {
        check_reports([&common.json, &common.svg])?;
    }
    let comparison = match command {
        BenchCommand::Tpcc(arguments) => compare(&arguments.common, arguments.pipeline, |sessions| {
            tpcc::TpccBenchmark::new(arguments, sessions)
        })?,
        BenchCommand::Ycsb(arguments) => compare(&arguments.common, true, |_| ycsb::YcsbBenchmark::new(arguments))?,
        BenchCommand::Hotspot(arguments) => compare(&arguments.common, false, |_| {
            Ok(hotspot::HotspotBenchmark::new(arguments))
        })?,
        BenchCommand::Tpch(arguments) => return tpch::run(arguments, out),
        BenchCommand::Paper(arguments) => return paper::run(arguments, &paper::Stopper::default(), out),
        BenchCommand::Overload(arguments) => return paper::run_overload(arguments, &paper::Stopper::default(), out),
    };
    let Some(common) = common_of(command) else {
        return Ok(());
    };
    write!(out, "{comparison}")?;
    if let Some(path) = &common.json {
        let json = serde_json::to_string_pretty(&comparison).map_err(std::io::Error::from)?;
        fs::write(path, json + "\n")?;
    }
    if let Some(path) = &common.svg {
        fs::write(path, plot::svg(&comparison))?;
    }
    match comparison.failed_checks() {
        0 => Ok(()),
        count => Err(BenchError::ChecksFailed(count)),
    }
}

/// What workloads share that are compared.
fn common_of(command: &BenchCommand) -> Option<&CommonArguments> {
    match command {
        BenchCommand::Tpcc(arguments) => Some(&arguments.common),
        BenchCommand::Ycsb(arguments) => Some(&arguments.common),
        BenchCommand::Hotspot(arguments) => Some(&arguments.common),
        BenchCommand::Tpch(_) | BenchCommand::Paper(_) | BenchCommand::Overload(_) => None,
    }
}

/// Makes the files of the reports: what was measured for minutes is not to be lost since it cannot be written.
fn check_reports(paths: [&Option<PathBuf>; 2]) -> Result<(), BenchError> {
    for path in paths.into_iter().flatten() {
        let opened = fs::File::options().create(true).append(true).open(path);
        opened.map_err(|wrong| BenchError::Arguments(format!("cannot write {}: {wrong}", path.display())))?;
    }
    Ok(())
}

/// Loads every target, then alternates the rounds, then checks.
fn compare<B: Benchmark>(
    common: &CommonArguments,
    pipelining: bool,
    make: impl Fn(&Sessions) -> Result<B, BenchError>,
) -> Result<Comparison, BenchError> {
    let mut runs = Vec::new();
    for url in &common.urls {
        let target = Target::parse(url)?;
        let asked = common.isolation.as_deref().map(isolation_level).transpose()?;
        let isolation = target.isolation.clone().or(asked);
        let sessions = Sessions {
            target,
            isolation,
            pipelining,
        };
        let benchmark = make(&sessions)?;
        let report = describe(&sessions)?;
        runs.push((sessions, benchmark, report));
    }
    for (sessions, benchmark, report) in &mut runs {
        let loaded = benchmark.load(sessions)?;
        report.load_s = loaded.map(|took| took.whole.as_secs_f64());
        report.copy_s = loaded.map(|took| took.copied.as_secs_f64());
        if common.check && loaded.is_some() {
            report.checks.extend(benchmark.check(sessions, "after loading")?);
        }
    }
    for round in 0..common.rounds.max(1) {
        for (sessions, benchmark, report) in &mut runs {
            let (name, rounds) = (&sessions.target.name, common.rounds.max(1));
            tell(common, &format!("{name}: round {} of {rounds}", round + 1));
            report.rounds.push(benchmark.round(sessions, round)?);
        }
    }
    if common.check {
        for (sessions, benchmark, report) in &mut runs {
            report.checks.extend(
                benchmark
                    .check(sessions, "after the run")
                    .unwrap_or_else(|error| vec![unchecked(&error)]),
            );
        }
    }
    let (workload, settings) = runs
        .first()
        .map(|(_, run, _)| (run.name(), run.settings()))
        .unwrap_or_default();
    let targets = runs.into_iter().map(|(_, _, report)| report).collect();
    let mut comparison = Comparison {
        workload,
        settings,
        targets,
    };
    comparison.settle();
    Ok(comparison)
}

/// Says on standard error what is going on; a long run would be silent otherwise.
fn tell(common: &CommonArguments, what: &str) {
    if !common.quiet {
        let seconds = common.warmup + common.duration;
        // Nobody is harmed if it cannot be said.
        let _ = writeln!(std::io::stderr(), "{what}, {seconds:.0} s");
    }
}

/// What was measured is still to be reported when the server can no longer be asked: the check counts as not passed.
pub(crate) fn unchecked(error: &BenchError) -> CheckReport {
    let name = "the check could be run".to_owned();
    CheckReport {
        when: "after the run",
        name,
        violation: Some(error.to_string()),
    }
}

/// Version and isolation level as the server reports them.
fn describe(sessions: &Sessions) -> Result<TargetReport, BenchError> {
    let mut connection = sessions.open()?;
    let shown = connection
        .prepare("SHOW default_transaction_isolation")
        .and_then(|statement| connection.execute(statement, &[]))
        .and_then(|rows| rows.text(0, 0).map(str::to_owned));
    Ok(TargetReport {
        name: sessions.target.name.clone(),
        server_version: connection.server_version().to_owned(),
        isolation: shown.unwrap_or_else(|_| "unknown".to_owned()),
        tls: connection.is_tls(),
        load_s: None,
        copy_s: None,
        rounds: Vec::new(),
        headline: Headline { name: "", value: 0.0 },
        ratio_to_first: 0.0,
        checks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_cannot_be_written_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = folder.path().join("report.json");
        assert!(check_reports([&Some(good.clone()), &None]).is_ok());
        let refused = check_reports([&Some(good), &Some(folder.path().join("none/plot.svg"))]);
        let refused = refused.expect_err("its folder is not there").to_string();
        assert!(refused.contains("plot.svg"), "{refused}");
    }
}
