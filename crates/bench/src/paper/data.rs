//! What the experiments find, as data: the report is made of this, and the simulated grid is told it.

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::fit;

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

impl Setup {
    /// What is told of it while it runs.
    pub fn title(&self) -> String {
        let Setup {
            workload,
            nodes,
            remote_share,
            experiment,
            ..
        } = self;
        format!("{workload}, {nodes} nodes, {remote_share} % remote ({experiment})")
    }
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

/// CPU time that a grid of several nodes takes beyond what its nodes would take alone, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Talk {
    /// A message with its share of a frame: both ends together.
    pub message_us: f64,
    /// A statement, whatever is said for it: where its rows are is looked for, and its transaction waits for a tick.
    pub statement_us: f64,
    /// A commit in two phases beyond its messages, on all nodes together.
    #[serde(default)]
    pub commit_us: f64,
}

/// What the simulated grid takes from the real one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ServiceTimes {
    /// CPU time of a statement of TPC-C, with its share of everything else at one node but for forced writes, in microseconds.
    pub statement_us: f64,
    /// The same of YCSB.
    pub operation_us: f64,
    /// What nodes spend to talk in TPC-C.
    pub talk: Talk,
    /// The same of YCSB: its messages ask and answer, and no commit of several nodes is in what they cost.
    pub operation_talk: Talk,
    /// A forced write, in microseconds of the disk.
    pub force_us: f64,
    /// The same, in microseconds of CPU time.
    pub force_cpu_us: f64,
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

/// What the machine takes for things that no run is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// A forced write, in microseconds: of the disk, and of CPU time.
    pub force_us: (f64, f64),
    /// One way from node to node.
    pub network_delay_us: f64,
    /// Bandwidth.
    pub bytes_per_us: f64,
    /// How many processors it has.
    pub processors: u32,
}

/// Service times from what was measured: statements from grids of one node, frames from what larger ones cost beyond that, and beyond
/// as many nodes that are no grid where these were run: so many processes on one machine make each other dearer. Where there are grids
/// that have a processor for each node, as the simulated ones have, messages are theirs alone: a process that shares one is put to sleep and
/// woken for every few frames, and finds its caches cold.
pub(super) fn service_times(real: &[Run], machine: Machine) -> ServiceTimes {
    let (force_us, force_cpu_us) = machine.force_us;
    let is_tpcc = |run: &&Run| run.setup.workload == super::TPCC;
    let of = |experiment: &'static str| real.iter().filter(move |run| run.setup.experiment == experiment);
    let tpcc = of(super::GROWTH).filter(is_tpcc).collect::<Vec<_>>();
    let ycsb = of(super::GROWTH).filter(|run| !is_tpcc(run)).collect::<Vec<_>>();
    let of_one = |runs: &[&Run]| {
        let one = runs.iter().copied().filter(|run| run.setup.nodes == 1);
        of_statement(one, force_cpu_us)
    };
    let statement_us = of_one(&tpcc).unwrap_or(0.0);
    let operation_us = of_one(&ycsb).unwrap_or(statement_us);
    let apart_us = |nodes: u32| {
        let apart = of(super::APART).filter(|run| run.setup.nodes == nodes);
        of_statement(apart, force_cpu_us).unwrap_or(statement_us)
    };
    let all_tpcc: Vec<&Run> = tpcc.iter().copied().chain(of(super::WRONG_NODE)).collect();
    let talk = of_talk(
        &with_own_processors(&all_tpcc, machine.processors),
        apart_us,
        force_cpu_us,
    )
    .unwrap_or_default();
    ServiceTimes {
        statement_us,
        operation_us,
        talk,
        operation_talk: of_talk(
            &with_own_processors(&ycsb, machine.processors),
            |_| operation_us,
            force_cpu_us,
        )
        .unwrap_or(talk),
        force_us,
        force_cpu_us,
        network_delay_us: machine.network_delay_us,
        bytes_per_us: machine.bytes_per_us,
    }
}

/// The runs whose nodes had a processor each, if there is one of several nodes among them; else all.
fn with_own_processors<'r>(runs: &[&'r Run], processors: u32) -> Vec<&'r Run> {
    let own = || runs.iter().copied().filter(|run| run.setup.nodes <= processors);
    match own().any(|run| run.setup.nodes > 1) {
        true => own().collect(),
        false => runs.to_vec(),
    }
}

/// What a statement takes without forced writes; none without statements.
fn of_statement<'r>(runs: impl Iterator<Item = &'r Run>, force_cpu_us: f64) -> Option<f64> {
    let (mut time_us, mut statements) = (0.0, 0.0);
    for run in runs {
        time_us += run.each.cpu_us - force_cpu_us * run.each.forces;
        statements += run.each.statements;
    }
    (statements > 0.0).then(|| time_us.max(0.0) / statements)
}

/// By how much more CPU time for so many messages, statements and commits in two phases. None without messages.
///
/// Terminals at the wrong node have many messages and few commits over nodes, so that the two are told apart. Frames are not told from the
/// messages in them: nodes that have more to say put more into each.
fn of_talk(runs: &[&Run], statement_us: impl Fn(u32) -> f64, force_cpu_us: f64) -> Option<Talk> {
    let grids = runs.iter().filter(|run| run.setup.nodes > 1 && run.each.messages > 0.0);
    let beyond = |run: &&&Run| {
        let each = &run.each;
        // Who sends a statement on counts it, too.
        let counted_times = if run.setup.experiment == super::WRONG_NODE {
            2.0
        } else {
            1.0
        };
        let statements = each.statements / counted_times;
        let beyond_us = each.cpu_us - statement_us(run.setup.nodes) * statements - force_cpu_us * each.forces;
        ([each.messages, statements, each.two_phase_commits], beyond_us)
    };
    let measured: Vec<_> = grids.map(|run| beyond(&run)).collect();
    let [message_us, statement_us, commit_us] = fit::costs(&measured);
    (!measured.is_empty()).then_some(Talk {
        message_us,
        statement_us,
        commit_us,
    })
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
                frames: messages / 2.0,
                statements: 20.0,
                ..Counters::default()
            },
            busy: Vec::new(),
            conditions: 12,
            violations: Vec::new(),
        }
    }

    const MACHINE: Machine = Machine {
        force_us: (100.0, 10.0),
        network_delay_us: 50.0,
        bytes_per_us: 125.0,
        processors: 1,
    };

    #[test]
    fn messages_cost_what_larger_grids_take_beyond_one_node() {
        let runs = [run(1, 400.0, 0.0), run(2, 440.0, 4.0), run(4, 480.0, 8.0)];
        let times = service_times(&runs, MACHINE);
        assert!((times.statement_us - 20.0).abs() < 1e-9 && (times.talk.message_us - 10.0).abs() < 1e-9);
        assert_eq!((times.operation_us, times.force_us), (times.statement_us, 100.0));
        assert_eq!(times.operation_talk.message_us, times.talk.message_us);
        assert_eq!(service_times(&[], MACHINE).talk.message_us, 0.0);
    }

    #[test]
    fn what_nodes_that_are_no_grid_take_as_well_and_forced_writes_are_not_counted_for_messages() {
        let mut apart = run(4, 420.0, 0.0);
        apart.setup.experiment = crate::paper::APART.to_owned();
        let mut grid = run(4, 480.0, 4.0);
        grid.each.forces = 2.0;
        let times = service_times(&[run(1, 400.0, 0.0), apart, grid], MACHINE);
        assert!((times.statement_us - 20.0).abs() < 1e-9 && (times.talk.message_us - 10.0).abs() < 1e-9);
    }

    #[test]
    fn messages_cost_what_nodes_with_a_processor_each_take() {
        let runs = [run(1, 400.0, 0.0), run(2, 440.0, 4.0), run(4, 560.0, 8.0)];
        let with = |processors| {
            let machine = Machine { processors, ..MACHINE };
            service_times(&runs, machine).talk.message_us
        };
        assert!((with(2) - 10.0).abs() < 1e-9, "{}", with(2));
        assert!(with(1) > 15.0 && with(4) > 15.0);
    }

    #[test]
    fn what_each_transaction_takes_in_a_grid_is_told_from_messages() {
        let grid = |nodes, messages| run(nodes, 400.0 + 30.0 + 5.0 * messages, messages);
        let talk = service_times(&[run(1, 400.0, 0.0), grid(2, 1.0), grid(8, 3.0)], MACHINE).talk;
        let is_found = (talk.message_us - 5.0).abs() < 1e-6 && (talk.statement_us - 1.5).abs() < 1e-6;
        assert!(is_found, "{talk:?}");
    }

    #[test]
    fn commits_over_nodes_are_told_from_messages_by_terminals_at_the_wrong_node() {
        let grid = |messages, commits| {
            let mut run = run(2, 400.0 + 20.0 + 10.0 * messages + 150.0 * commits, messages);
            run.each.two_phase_commits = commits;
            run
        };
        let mut wrong = grid(30.0, 0.1);
        wrong.setup.experiment = crate::paper::WRONG_NODE.to_owned();
        wrong.each.statements *= 2.0;
        let runs = [
            run(1, 400.0, 0.0),
            grid(1.0, 0.1),
            grid(2.0, 0.3),
            grid(3.0, 0.4),
            wrong,
        ];
        let talk = service_times(&runs, MACHINE).talk;
        let is_found = [talk.message_us - 10.0, talk.statement_us - 1.0, talk.commit_us - 150.0];
        assert!(is_found.iter().all(|off_by| off_by.abs() < 1e-6), "{talk:?}");
    }

    #[test]
    fn messages_of_ycsb_cost_what_they_cost_there() {
        let of_ycsb = |nodes, cpu_us, frames| {
            let mut run = run(nodes, cpu_us, frames);
            run.setup.workload = "YCSB 95-5".to_owned();
            run
        };
        let runs = [
            run(1, 400.0, 0.0),
            run(2, 440.0, 4.0),
            of_ycsb(1, 600.0, 0.0),
            of_ycsb(2, 608.0, 2.0),
        ];
        let times = service_times(&runs, MACHINE);
        assert!((times.operation_us - 30.0).abs() < 1e-9 && (times.operation_talk.message_us - 4.0).abs() < 1e-9);
        assert!((times.talk.message_us - 10.0).abs() < 1e-9);
    }
}
