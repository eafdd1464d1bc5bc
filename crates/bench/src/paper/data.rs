//! What the experiments find, as data: the report is made of this, and the simulated grid is told it.

use serde::{Deserialize, Serialize};

use super::counters::Counters;

/// What a grid was given to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    /// What it was for.
    pub experiment: String,
    /// `TPC-C`, or the mix of YCSB.
    pub workload: String,
    pub nodes: u32,
    /// Of TPC-C, in percent.
    pub remote_share: f64,
    /// Terminals or clients, of all nodes.
    pub terminals: u64,
    /// Threads for each stage; 0: all stages on the workers.
    pub stage_threads: u32,
}

/// For which part of the time a simulated node was at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Busy {
    pub processor: f64,
    pub disk: f64,
    /// Its way into the network.
    pub network: f64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub setup: Setup,
    /// Measured time in seconds; of the simulated grid virtual time.
    pub seconds: f64,
    /// Committed transactions, or operations.
    pub transactions: u64,
    pub per_second: f64,
    /// Committed New-Orders a minute; 0 for YCSB.
    pub new_orders_per_minute: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Latency of reads and writes apart, where the workload has them: half of them.
    pub read_p50_ms: f64,
    /// See there.
    pub write_p50_ms: f64,
    pub retries: u64,
    pub errors: u64,
    /// What each transaction came to.
    pub each: Counters,
    /// How busy each node was; only the simulated grid knows.
    #[serde(default)]
    pub busy: Vec<Busy>,
    /// Consistency conditions that were checked afterwards, and those that did not hold.
    pub conditions: usize,
    pub violations: Vec<String>,
}

/// What the simulated grid takes from the real one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ServiceTimes {
    /// CPU time of a statement of TPC-C, with its share of everything else at one node, in microseconds.
    pub statement_us: f64,
    /// The same of YCSB.
    pub operation_us: f64,
    /// CPU time that both ends together spend on a message between nodes in TPC-C, in microseconds.
    pub message_us: f64,
    /// The same of YCSB: its messages ask and answer, and no commit of several nodes is in what they cost.
    pub operation_message_us: f64,
    /// A forced write, in microseconds.
    pub force_us: f64,
    /// One way from node to node, in microseconds.
    pub network_delay_us: f64,
    /// Bandwidth of a node's connection.
    pub bytes_per_us: f64,
}

/// What the simulated grid is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SimulationRequest {
    pub service_times: ServiceTimes,
    pub nodes: Vec<u32>,
    pub remote_shares: Vec<f64>,
    pub terminals_per_node: u64,
    pub warehouses_per_node: u32,
    pub records_per_node: u64,
    /// Virtual seconds that count.
    pub seconds: f64,
    pub seed: u64,
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Findings {
    /// Grids of processes.
    pub real: Vec<Run>,
    /// Simulated ones.
    pub simulated: Vec<Run>,
    pub service_times: ServiceTimes,
    /// What could not be done, in sentences.
    pub left_out: Vec<String>,
}

/// Service times from what was measured: statements from grids of one node, messages from what larger ones cost beyond that.
pub(super) fn service_times(real: &[Run], force_us: f64, network_delay_us: f64, bytes_per_us: f64) -> ServiceTimes {
    let is_plain = |run: &&Run| run.setup.experiment == super::GROWTH;
    let is_tpcc = |run: &&Run| run.setup.workload == super::TPCC;
    let tpcc = || real.iter().filter(is_plain).filter(is_tpcc);
    let ycsb = || real.iter().filter(is_plain).filter(|run| !is_tpcc(run));
    let of_one = |runs: &mut dyn Iterator<Item = &Run>| {
        let (mut time_us, mut statements) = (0.0, 0.0);
        for run in runs.filter(|run| run.setup.nodes == 1) {
            time_us += run.each.cpu_us;
            statements += run.each.statements;
        }
        if statements > 0.0 { time_us / statements } else { 0.0 }
    };
    let (statement_us, operation_us) = (of_one(&mut tpcc()), of_one(&mut ycsb()));
    let operation_us = if operation_us > 0.0 { operation_us } else { statement_us };
    let message_us = of_message(&mut tpcc(), statement_us).unwrap_or(0.0);
    ServiceTimes {
        statement_us,
        operation_us,
        message_us,
        operation_message_us: of_message(&mut ycsb(), operation_us).unwrap_or(message_us),
        force_us,
        network_delay_us,
        bytes_per_us,
    }
}

/// The least squares through nothing: so much more CPU time for so many messages. None without messages.
fn of_message(runs: &mut dyn Iterator<Item = &Run>, statement_us: f64) -> Option<f64> {
    let (mut products, mut squares) = (0.0, 0.0);
    for run in runs.filter(|run| run.setup.nodes > 1) {
        let beyond_us = run.each.cpu_us - statement_us * run.each.statements;
        products += beyond_us * run.each.messages;
        squares += run.each.messages * run.each.messages;
    }
    (squares > 0.0).then(|| (products / squares).max(0.0))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::paper) fn run(nodes: u32, cpu_us: f64, messages: f64) -> Run {
        Run {
            setup: Setup {
                experiment: crate::paper::GROWTH.to_owned(),
                workload: crate::paper::TPCC.to_owned(),
                nodes,
                remote_share: 1.0,
                terminals: 10,
                stage_threads: 0,
            },
            seconds: 1.0,
            transactions: 100,
            per_second: 100.0,
            new_orders_per_minute: 2_700.0,
            p50_ms: 1.0,
            p99_ms: 2.0,
            read_p50_ms: 0.0,
            write_p50_ms: 0.0,
            retries: 0,
            errors: 0,
            each: Counters {
                cpu_us,
                messages,
                statements: 20.0,
                ..Counters::default()
            },
            busy: Vec::new(),
            conditions: 12,
            violations: Vec::new(),
        }
    }

    #[test]
    fn messages_cost_what_larger_grids_take_beyond_one_node() {
        let runs = [run(1, 400.0, 0.0), run(2, 440.0, 4.0), run(4, 480.0, 8.0)];
        let times = service_times(&runs, 100.0, 50.0, 125.0);
        assert!((times.statement_us - 20.0).abs() < 1e-9 && (times.message_us - 10.0).abs() < 1e-9);
        assert_eq!((times.operation_us, times.force_us), (times.statement_us, 100.0));
        assert_eq!(times.operation_message_us, times.message_us);
        assert_eq!(service_times(&[], 1.0, 1.0, 1.0).message_us, 0.0);
    }

    #[test]
    fn messages_of_ycsb_cost_what_they_cost_there() {
        let of_ycsb = |nodes, cpu_us, messages| {
            let mut run = run(nodes, cpu_us, messages);
            run.setup.workload = "YCSB 95-5".to_owned();
            run
        };
        let runs = [
            run(1, 400.0, 0.0),
            run(2, 440.0, 4.0),
            of_ycsb(1, 600.0, 0.0),
            of_ycsb(2, 608.0, 2.0),
        ];
        let times = service_times(&runs, 100.0, 50.0, 125.0);
        assert!((times.operation_us - 30.0).abs() < 1e-9 && (times.operation_message_us - 4.0).abs() < 1e-9);
        assert!((times.message_us - 10.0).abs() < 1e-9);
    }
}
