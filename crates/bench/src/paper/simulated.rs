//! The simulated grid: another program, which is told the service times that were measured, and tells what came of them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::data::{Run, ServiceTimes, SimulationRequest};
use super::processes::Stopper;
use crate::arguments::PaperArguments;
use crate::error::BenchError;

/// What the program is called.
const PROGRAM: &str = "rubato-simulation";
/// How often it is looked after.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Runs it; a sentence if there is no such program.
pub(super) fn run(
    arguments: &PaperArguments,
    service_times: &ServiceTimes,
    stopper: &Stopper,
) -> Result<Result<Vec<Run>, String>, BenchError> {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let program: Option<PathBuf> = arguments.simulation.clone().or(beside);
    let Some(program) = program.filter(|program| program.is_file()) else {
        let why = format!("There is no simulated grid: the program {PROGRAM} was not found.");
        return Ok(Err(why));
    };
    let request = SimulationRequest {
        service_times: service_times.clone(),
        nodes: arguments.simulated_nodes.clone(),
        remote_shares: arguments.remote_shares.clone(),
        terminals_per_node: arguments.simulated_terminals_per_node,
        warehouses_per_node: arguments.simulated_warehouses_per_node,
        records_per_node: arguments.records_per_node,
        seconds: arguments.simulated_seconds,
        seed: arguments.seed,
    };
    let (asked, answered) = (
        arguments.out.join("service-times.json"),
        arguments.out.join("simulated.json"),
    );
    let text = serde_json::to_string_pretty(&request).map_err(std::io::Error::from)?;
    std::fs::write(&asked, text + "\n")?;
    let mut command = Command::new(program);
    command
        .arg("paper")
        .arg("--request")
        .arg(&asked)
        .arg("--answer")
        .arg(&answered);
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break status;
        }
        if let Err(interrupted) = stopper.check() {
            let _ = process.kill();
            let _ = process.wait();
            return Err(interrupted);
        }
        std::thread::sleep(LOOK);
    };
    if !status.success() {
        return Ok(Err(format!(
            "There is no simulated grid: {PROGRAM} ended with {status}."
        )));
    }
    let runs = serde_json::from_str(&std::fs::read_to_string(answered)?).map_err(std::io::Error::from)?;
    Ok(Ok(runs))
}
