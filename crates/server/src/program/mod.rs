//! The program `rubato`: what its commands do. Generic over the [`Engine`], so that it can be tested without one.

mod arguments;
mod engine;
mod environment;
mod grid;
mod log;
mod password;
mod shell;
mod signals;
mod start;
mod units;

pub use arguments::{Arguments, LogFormat, StartArguments};
pub use engine::{AdmissionPolicy, CommitPolicy, Engine, EngineSettings, QueuePolicy};
pub use units::{Size, memory_default};

use arguments::{Command, DemoArguments, GridCommand};
use clap::Parser;
use log::start_log;
use rubato_bench::paper::Stopper;
use rubato_bench::{BenchCommand, BenchError};
use signal_hook::consts::SIGTERM;
use signals::{Hangup, StopSignals};
use start::{Running, explain};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Status after an error; clap's own for a wrong command line is 2.
const FAILURE: u8 = 1;

/// Status after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;

/// What `rubato grid status` asks. The tables come last: their keeper may be down.
const GRID_STATUS: [&str; 3] = [GRID_NODES, GRID_STAGES, GRID_TABLES];

/// How it stands with the nodes.
const GRID_NODES: &str = "SELECT node, address, state, life, is_keeper AS keeper, is_leader AS leader, votes, term, round_trip_us, waiting_bytes, messages_sent, \
     messages_received, bytes_sent, bytes_received, why FROM rubato.nodes ORDER BY node";

/// What else it asks: what the stages of each node have done, and what waits at them now and has waited at most.
const GRID_STAGES: &str = "SELECT node, stage, sum(handled) AS handled, sum(queue_length) AS queue_length, max(queue_length_max) AS queue_length_max, \
     round(avg(wait_us)::numeric, 1) AS wait_us, max(wait_us_max) AS wait_us_max, round(avg(service_us)::numeric, 1) AS service_us, \
     max(service_us_max) AS service_us_max FROM rubato.stages GROUP BY node, stage HAVING sum(handled) > 0 ORDER BY node, stage";

/// And where the tables of its database lie, as far as they move or are not where others are.
const GRID_TABLES: &str = "SELECT CASE nodes WHEN '' THEN '(keeper)' ELSE nodes END AS nodes, former_nodes, state, count(*) AS tables, \
     sum(rows_moved) AS rows_moved FROM rubato.moves GROUP BY 1, 2, 3 ORDER BY 1, 2";

/// How often a running demonstration, or experiment, looks for Ctrl-C.
const DEMO_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Reads the command line and does what it says.
pub fn main<E: Engine>() -> ExitCode {
    match run::<E>(Arguments::parse()) {
        Ok(code) => code,
        Err(message) => {
            // Where it cannot be said the exit code has to do.
            let _ = writeln!(std::io::stderr(), "rubato: {message}");
            ExitCode::from(FAILURE)
        }
    }
}

fn run<E: Engine>(arguments: Arguments) -> Result<ExitCode, String> {
    match arguments.command {
        None => start::<E>(arguments.start),
        Some(Command::Start(start_arguments)) => start::<E>(*start_arguments),
        Some(Command::Demo(demo_arguments)) => demo::<E>(&demo_arguments),
        Some(Command::Sql(sql)) => shell::run(&sql.url, &sql.commands),
        Some(Command::Grid(command)) => on_grid(&command),
        Some(Command::Bench(BenchCommand::Paper(paper))) => {
            experiments(move |stopper| rubato_bench::paper::run(&paper, stopper, &mut std::io::stdout()))
        }
        Some(Command::Bench(BenchCommand::Overload(overload))) => {
            rubato_bench::paper::without_huge_pages();
            experiments(move |stopper| rubato_bench::paper::run_overload(&overload, stopper, &mut std::io::stdout()))
        }
        Some(Command::Bench(bench)) => {
            rubato_bench::execute(&bench, &mut std::io::stdout()).map_err(|wrong| wrong.to_string())?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Check { data }) => {
            E::check(&data, &mut |line| println!("{line}")).map_err(|error| explain(&error))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Password { user }) => password::print_line(&user),
    }
}

fn on_grid(command: &GridCommand) -> Result<ExitCode, String> {
    match command {
        GridCommand::Status { server } => shell::run(&server.url, &GRID_STATUS.map(str::to_owned)),
        GridCommand::Rebalance {
            server,
            rows_per_second,
        } => grid::rearrange(&server.url, grid::Wanted::Everywhere, *rows_per_second),
        GridCommand::Drain {
            node,
            server,
            rows_per_second,
        } => grid::rearrange(&server.url, grid::Wanted::Without(*node), *rows_per_second),
        GridCommand::HandOver { node, server } => grid::hand_over(&server.url, *node),
        GridCommand::Remove { node, server } => grid::remove(&server.url, *node),
    }
}

fn start<E: Engine>(arguments: StartArguments) -> Result<ExitCode, String> {
    let arguments = arguments.with_file()?;
    start_log(&arguments, "info")?;
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    for line in environment::unknown_settings(names) {
        tracing::warn!("{line}");
    }
    abort_on_panic();
    // Before anything is open, so that no signal in between is lost.
    let mut stop = StopSignals::watch(Hangup::IsNothing)?;
    if arguments.stop_with_stdin {
        stop_with_stdin()?;
    }
    let running = Running::<E>::begin(&arguments, &mut || stop.is_asked())?;
    say(&running.ready_line());
    stop.wait();
    running.end()?;
    Ok(ExitCode::SUCCESS)
}

/// Asks this process to stop when its standard input ends.
fn stop_with_stdin() -> Result<(), String> {
    let watch = || {
        // What comes in is of no interest; an error is an end as well.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        if let Err(wrong) = signal_hook::low_level::raise(SIGTERM) {
            tracing::error!(%wrong, "standard input has ended, and this node cannot be stopped");
        }
    };
    let started = std::thread::Builder::new().name("stdin".to_owned()).spawn(watch);
    started.map(drop).map_err(|wrong| wrong.to_string())
}

/// Experiments with nodes of their own. The first signal ends these, and by that the experiments, which remove what they have made.
fn experiments(run: impl FnOnce(&Stopper) -> Result<(), BenchError> + Send + 'static) -> Result<ExitCode, String> {
    let mut stop = StopSignals::watch(Hangup::Stops)?;
    let stopper = Stopper::default();
    let own = stopper.clone();
    let running = std::thread::spawn(move || run(&own));
    let mut interrupted = false;
    while !running.is_finished() {
        if stop.is_asked() {
            interrupted = true;
            stopper.stop();
        }
        std::thread::sleep(DEMO_CHECK_INTERVAL);
    }
    let ended = running.join().map_err(|_| "the experiments panicked".to_owned())?;
    if interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    ended.map_err(|wrong| wrong.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn demo<E: Engine>(arguments: &DemoArguments) -> Result<ExitCode, String> {
    let folder = tempfile::Builder::new()
        .prefix("rubato-demo-")
        .tempdir()
        .map_err(|wrong| wrong.to_string())?;
    let settings = StartArguments {
        data: Some(folder.path().join("data")),
        listen: Some("127.0.0.1:0".to_owned()),
        ..StartArguments::default()
    };
    start_log(&settings, "warn")?;
    abort_on_panic();
    let mut stop = StopSignals::watch(Hangup::Stops)?;
    let running = Running::<E>::begin(&settings, &mut || false)?;
    let port = running.address().map_or(0, |address| address.port());
    let url = format!("postgres://rubato@127.0.0.1:{port}/rubato");
    let demo_settings = rubato_bench::demo::DemoSettings {
        terminals: arguments.terminals.max(1),
        duration: Duration::try_from_secs_f64(arguments.duration).map_err(|wrong| format!("--duration: {wrong}"))?,
        progress: !arguments.quiet,
        ..rubato_bench::demo::DemoSettings::default()
    };
    let measuring = std::thread::spawn(move || rubato_bench::demo::run_demo(&url, demo_settings));
    while !measuring.is_finished() {
        if stop.is_asked() {
            running.end()?;
            return Ok(ExitCode::from(INTERRUPTED));
        }
        std::thread::sleep(DEMO_CHECK_INTERVAL);
    }
    let report = measuring.join().map_err(|_| "the demonstration panicked".to_owned())?;
    let report = report.map_err(|wrong| wrong.to_string())?;
    say(&format!(
        "TPC-C with 1 warehouse, loaded in {:.1} s\n\n{}",
        report.load.as_secs_f64(),
        report.round
    ));
    for check in report.checks.iter().filter(|check| check.violation.is_some()) {
        say(&format!("VIOLATED: {check:?}"));
    }
    let held = report.checks.iter().filter(|check| check.violation.is_none()).count();
    say(&format!(
        "{held} of {} consistency conditions hold",
        report.checks.len()
    ));
    if !arguments.exit {
        say(&format!(
            "{}\nCtrl-C ends it and removes {}",
            running.ready_line(),
            folder.path().display()
        ));
        stop.wait();
    }
    running.end()?;
    Ok(if report.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILURE)
    })
}

// Standard output may be closed; that is no reason to stop serving.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

// A thread that panics may leave work half done in memory. What counts is in the log: ending at once and recovering from it
// is safe, going on is not. What only reads and makes a plan leaves nothing, and is caught.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        if rubato_sql::is_caught() {
            tracing::error!(%panic, "a statement could not be planned; its client is told XX000");
            return;
        }
        tracing::error!(%panic, "a thread panicked; the process ends, the log has what was acknowledged");
        std::process::abort();
    }));
}
