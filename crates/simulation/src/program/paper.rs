//! The simulated part of `rubato bench paper`: reads what it asks, writes what comes of it, both as JSON.

use crate::curve::{Curve, CurveLoad, Found, Times, measure};
use clap::Args;
use rubato_workload::ycsb::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// YCSB is run on grids up to here, as in the paper, where nodes have records.
const YCSB_NODES_MAX: u32 = 12;

/// Where the question is, and where the answer goes.
#[derive(Clone, Debug, Args)]
pub(super) struct Paper {
    /// What is asked
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// What is answered
    #[arg(long, value_name = "FILE")]
    answer: PathBuf,
}

#[derive(Deserialize)]
struct Talk {
    /// Not measured by itself, but it can be tried.
    #[serde(default)]
    frame_us: f64,
    message_us: f64,
    statement_us: f64,
    #[serde(default)]
    commit_us: f64,
}

#[derive(Deserialize)]
struct ServiceTimes {
    statement_us: f64,
    operation_us: f64,
    talk: Talk,
    operation_talk: Talk,
    force_us: f64,
    force_cpu_us: f64,
    network_delay_us: f64,
    bytes_per_us: f64,
}

#[derive(Deserialize)]
struct Request {
    service_times: ServiceTimes,
    nodes: Vec<u32>,
    remote_shares: Vec<f64>,
    terminals_per_node: u64,
    warehouses_per_node: u32,
    records_per_node: u64,
    seconds: f64,
    seed: u64,
}

#[derive(Serialize)]
struct Setup {
    experiment: &'static str,
    workload: String,
    nodes: u32,
    remote_share: f64,
    terminals: u64,
    stage_threads: u32,
}

#[derive(Serialize)]
struct Each {
    cpu_us: f64,
    messages: f64,
    frames: f64,
    bytes: f64,
    forces: f64,
    statements: f64,
    two_phase_commits: f64,
    messages_by_kind: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct Busy {
    processor: f64,
    disk: f64,
    network: f64,
}

#[derive(Serialize)]
struct Run {
    setup: Setup,
    seconds: f64,
    transactions: u64,
    per_second: f64,
    new_orders_per_minute: f64,
    p50_ms: f64,
    p99_ms: f64,
    read_p50_ms: f64,
    write_p50_ms: f64,
    retries: u64,
    errors: u64,
    each: Each,
    busy: Vec<Busy>,
    conditions: usize,
    violations: Vec<String>,
}

/// Runs all sizes and loads.
pub(super) fn run(arguments: &Paper) -> ExitCode {
    match answer(&arguments.request, &arguments.answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("rubato-simulation: {why}");
            ExitCode::FAILURE
        }
    }
}

fn answer(request: &Path, answer: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(request).map_err(|wrong| format!("{}: {wrong}", request.display()))?;
    let request: Request = serde_json::from_str(&text).map_err(|wrong| format!("the request: {wrong}"))?;
    let mut runs = Vec::new();
    for nodes in request.nodes.iter().copied() {
        let tpcc = request.remote_shares.iter();
        let mut loads: Vec<CurveLoad> = tpcc.map(|share| CurveLoad::Tpcc { remote_share: *share }).collect();
        if nodes <= YCSB_NODES_MAX && request.records_per_node > 0 {
            loads.extend([Workload::ReadIntensive, Workload::WriteIntensive].map(CurveLoad::Ycsb));
        }
        let curve = curve_of(&request, nodes, loads);
        println!("{nodes} nodes");
        let found =
            measure(&curve).map_err(|violation| format!("{nodes} nodes: {}: {}", violation.kind, violation.what))?;
        let told = curve.loads.iter().zip(&found);
        runs.extend(told.map(|(load, found)| run_of(&request, nodes, *load, found)));
    }
    let text = serde_json::to_string_pretty(&runs).map_err(|wrong| wrong.to_string())?;
    std::fs::write(answer, text + "\n").map_err(|wrong| format!("{}: {wrong}", answer.display()))
}

fn curve_of(request: &Request, nodes: u32, loads: Vec<CurveLoad>) -> Curve {
    let times = &request.service_times;
    let of_statement = |alone_us, beyond_us| if nodes > 1 { alone_us + beyond_us } else { alone_us };
    Curve {
        nodes,
        terminals_per_node: request.terminals_per_node,
        warehouses_per_node: request.warehouses_per_node,
        records_per_node: request.records_per_node,
        loads,
        times: Times {
            statement_us: of_statement(times.statement_us, times.talk.statement_us),
            frame_us: times.talk.frame_us,
            message_us: times.talk.message_us,
            commit_us: times.talk.commit_us,
            force_cpu_us: times.force_cpu_us,
            force_us: times.force_us,
            network_delay_us: times.network_delay_us,
            bytes_per_us: times.bytes_per_us,
        },
        operation_us: of_statement(times.operation_us, times.operation_talk.statement_us),
        operation_talk_us: (times.operation_talk.frame_us, times.operation_talk.message_us),
        measured_us: (request.seconds * 1e6) as i64,
        seed: request.seed,
    }
}

fn run_of(request: &Request, nodes: u32, load: CurveLoad, found: &Found) -> Run {
    let transactions = found.transactions.max(1) as f64;
    let (workload, remote_share) = match load {
        CurveLoad::Tpcc { remote_share } => ("TPC-C".to_owned(), remote_share),
        CurveLoad::Ycsb(workload) => (format!("YCSB {}", workload.name()), 0.0),
    };
    let is_tpcc = matches!(load, CurveLoad::Tpcc { .. });
    let of_kind = |kind: usize, quantile| match is_tpcc {
        true => 0.0,
        false => quantile_ms(found, Some(kind), quantile),
    };
    let mut violations = found.violations.clone();
    violations.extend(found.errors.iter().take(3).map(|error| format!("an error: {error}")));
    Run {
        setup: Setup {
            experiment: "growth",
            workload,
            nodes,
            remote_share,
            terminals: request.terminals_per_node * u64::from(nodes),
            stage_threads: 0,
        },
        seconds: request.seconds,
        transactions: found.transactions,
        per_second: found.transactions as f64 / request.seconds,
        new_orders_per_minute: if is_tpcc {
            found.first_kind as f64 * 60.0 / request.seconds
        } else {
            0.0
        },
        p50_ms: quantile_ms(found, None, 0.5),
        p99_ms: quantile_ms(found, None, 0.99),
        read_p50_ms: of_kind(0, 0.5),
        write_p50_ms: of_kind(1, 0.5),
        retries: found.retries,
        errors: found.errors.len() as u64,
        each: Each {
            cpu_us: found.cpu_us / transactions,
            messages: found.messages as f64 / transactions,
            frames: found.frames as f64 / transactions,
            bytes: found.bytes as f64 / transactions,
            forces: found.forces as f64 / transactions,
            statements: found.statements as f64 / transactions,
            two_phase_commits: found.two_phase_commits as f64 / transactions,
            messages_by_kind: found
                .messages_by_kind
                .iter()
                .map(|(kind, count)| (*kind, *count as f64 / transactions))
                .collect(),
        },
        busy: found.busy.iter().map(busy_of).collect(),
        conditions: found.conditions,
        violations,
    }
}

fn busy_of(busy: &crate::curve::Busy) -> Busy {
    Busy {
        processor: busy.processor,
        disk: busy.disk,
        network: busy.network,
    }
}

fn quantile_ms(found: &Found, kind: Option<usize>, quantile: f64) -> f64 {
    let of_kind = found
        .latencies_us
        .iter()
        .filter(|(of, _)| kind.is_none_or(|kind| *of == kind));
    let latencies_us: Vec<i64> = of_kind.map(|(_, latency_us)| *latency_us).collect();
    let at = (latencies_us.len() as f64 * quantile) as usize;
    let found = latencies_us.get(at).or(latencies_us.last());
    found.map_or(0.0, |latency_us| *latency_us as f64 / 1e3)
}
