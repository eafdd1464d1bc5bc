//! The experiments over grids of processes.

use std::time::{Duration, Instant};

use rubato_workload::tpcc::{
    CONDITION_COUNT, LoadJob, Scale, Settings, create_indexes, create_tables, load_jobs, settle,
};
use rubato_workload::ycsb::{InsertedRecords, Shape, Workload, create_table, load_parts, settle as ycsb_settle};
use rubato_workload::{Client, ClientError, Placement};

use super::counters::Counters;
use super::data::{Run, Setup};
use super::processes::{Grid, NodeSettings, Stopper};
use super::{APART, GROWTH, TPCC, WRONG_NODE};
use crate::arguments::PaperArguments;
use crate::commands::{tpcc, ycsb};
use crate::error::BenchError;
use crate::loading::load_in_parallel;
use crate::report::RoundReport;
use crate::runner::RunSettings;
use crate::wire::Connection;

/// Before anything counts.
const WARMUP: Duration = Duration::from_secs(1);
/// Nodes that are loaded at a time.
const LOADERS: usize = 2;
/// How long a node may take to hear of new tables, and how often that is looked at.
const TABLES_TIME_MAX: Duration = Duration::from_secs(10);
const TABLES_LOOK: Duration = Duration::from_millis(20);
/// Fields of a record, as in the original.
const YCSB_COLUMNS: usize = 10;

/// What experiments are made with.
pub(super) struct Laboratory<'a> {
    pub arguments: &'a PaperArguments,
    pub stopper: &'a Stopper,
    /// Tells how far it is.
    pub tell: &'a dyn Fn(&str),
}

impl Laboratory<'_> {
    fn scale(&self, nodes: u32) -> Scale {
        let warehouses = i64::from(nodes) * i64::from(self.arguments.warehouses_per_node);
        match self.arguments.small {
            true => Scale::quick(warehouses),
            false => Scale::specification(warehouses),
        }
    }

    pub fn start(&self, nodes: u32, stage_threads: u32) -> Result<Grid<'_>, BenchError> {
        self.start_with(nodes, stage_threads, false)
    }

    fn start_with(&self, nodes: u32, stage_threads: u32, are_apart: bool) -> Result<Grid<'_>, BenchError> {
        let settings = NodeSettings {
            memory: self.arguments.memory.clone(),
            are_apart,
            more: vec!["--stage-threads".to_owned(), stage_threads.to_string()],
        };
        Grid::start(nodes, &settings, self.stopper)
    }

    /// TPC-C on as many nodes that are no grid together, each with its own terminals and warehouses: what a transaction costs here
    /// beyond one node alone, it costs because so many processes share the machine, and not because of the grid.
    pub fn run_tpcc_apart(&self, mut setup: Setup) -> Result<Run, BenchError> {
        setup.experiment = APART.to_owned();
        (self.tell)(&format!("TPC-C, {} nodes that are no grid", setup.nodes));
        let nodes = self.start_with(setup.nodes, setup.stage_threads, true)?;
        let failed = |error: ClientError| BenchError::client("loading TPC-C", error);
        let scale = self.scale(1);
        let numbers: Vec<usize> = (0..nodes.nodes()).collect();
        load_in_parallel(&numbers, 0, LOADERS, false, || {
            Ok(|node: &usize, progress: &dyn Fn(u64)| {
                let mut client = nodes.connect(*node)?;
                create_tables(&mut client, Placement::Spread).map_err(failed)?;
                for job in load_jobs(scale, self.arguments.seed) {
                    job.run(&mut client, progress).map_err(failed)?;
                }
                create_indexes(&mut client).map_err(failed)?;
                settle(&mut client).map_err(failed)
            })
        })?;
        let settings = Settings::unpaced(scale, self.arguments.seed).with_remote_share(setup.remote_share);
        let connect = |terminal: u64| nodes.connect(terminal as usize / scale.warehouses as usize);
        let (report, each) = self.measure(&nodes, setup.terminals, |pace| tpcc::run_at(connect, settings, pace))?;
        let mut run = run_of(setup, &report, each);
        run.new_orders_per_minute = report.per_minute("New-Order");
        Ok(run)
    }

    /// Loads TPC-C: each node's own warehouses through that node.
    pub fn load_tpcc(&self, grid: &Grid<'_>) -> Result<(), BenchError> {
        let scale = self.scale(grid.nodes() as u32);
        let failed = |error: ClientError| BenchError::client("loading TPC-C", error);
        let mut client = grid.connect(0)?;
        create_tables(&mut client, Placement::Spread).map_err(failed)?;
        for node in 0..grid.nodes() {
            wait_for_tables(&mut grid.connect(node)?, "order_line").map_err(failed)?;
        }
        let mut of_nodes: Vec<(usize, Vec<LoadJob>)> = (0..grid.nodes()).map(|node| (node, Vec::new())).collect();
        for job in load_jobs(scale, self.arguments.seed) {
            let node = job.warehouse().map_or(0, |warehouse| grid.node_of_warehouse(warehouse));
            of_nodes[node].1.push(job);
        }
        load_in_parallel(&of_nodes, 0, LOADERS, false, || {
            Ok(|(node, jobs): &(usize, Vec<LoadJob>), progress: &dyn Fn(u64)| {
                let mut client = grid.connect(*node)?;
                let mut loaded = jobs.iter().map(|job| job.run(&mut client, progress).map(drop));
                loaded.try_for_each(|loaded| loaded.map_err(failed))
            })
        })?;
        create_indexes(&mut client).map_err(failed)?;
        for node in 0..grid.nodes() {
            settle(&mut grid.connect(node)?).map_err(failed)?;
        }
        Ok(())
    }

    /// Runs TPC-C, and checks its conditions.
    pub fn run_tpcc(&self, grid: &Grid<'_>, setup: Setup) -> Result<Run, BenchError> {
        (self.tell)(&format!(
            "TPC-C, {} nodes, {} % remote ({})",
            setup.nodes, setup.remote_share, setup.experiment
        ));
        let off_by = usize::from(setup.experiment == WRONG_NODE);
        let scale = self.scale(setup.nodes);
        let settings = Settings::unpaced(scale, self.arguments.seed).with_remote_share(setup.remote_share);
        let connect = |terminal: u64| {
            let warehouse = terminal as i64 % scale.warehouses + 1;
            grid.connect(grid.node_of_warehouse(warehouse) + off_by)
        };
        let (report, each) = self.measure(grid, setup.terminals, |pace| tpcc::run_at(connect, settings, pace))?;
        let checked = tpcc::check(&mut grid.connect(0)?, scale, "after the run");
        let checked = checked.map_err(|error| BenchError::client("checking the conditions", error))?;
        let violations = checked.iter().filter_map(|check| {
            let violation = check.violation.as_ref()?;
            Some(format!("{}: {violation}", check.name))
        });
        let mut run = run_of(setup, &report, each);
        run.new_orders_per_minute = report.per_minute("New-Order");
        run.conditions = checked.len();
        run.violations = violations.collect();
        if run.conditions != CONDITION_COUNT {
            run.violations
                .push(format!("{} conditions were checked", run.conditions));
        }
        Ok(run)
    }

    /// Loads YCSB, through all nodes.
    pub fn load_ycsb(&self, grid: &Grid<'_>) -> Result<Shape, BenchError> {
        let shape = Shape {
            records: self.arguments.records_per_node * grid.nodes() as u64,
            columns: YCSB_COLUMNS,
        };
        let failed = |error: ClientError| BenchError::client("loading YCSB", error);
        let mut client = grid.connect(0)?;
        create_table(&mut client, shape, Placement::Spread).map_err(failed)?;
        for node in 0..grid.nodes() {
            wait_for_tables(&mut grid.connect(node)?, "usertable").map_err(failed)?;
        }
        for part in load_parts(shape, self.arguments.seed) {
            part.run(&mut client, &|_| {}).map_err(failed)?;
        }
        ycsb_settle(&mut client).map_err(failed)?;
        Ok(shape)
    }

    /// Runs one mix of YCSB, whose clients are at any node.
    pub fn run_ycsb(&self, grid: &Grid<'_>, workload: Workload, shape: Shape) -> Result<Run, BenchError> {
        let setup = Setup {
            experiment: GROWTH.to_owned(),
            workload: format!("YCSB {}", workload.name()),
            nodes: grid.nodes() as u32,
            remote_share: 0.0,
            terminals: self.arguments.terminals_per_node * grid.nodes() as u64,
            stage_threads: 0,
        };
        (self.tell)(&format!("{}, {} nodes", setup.workload, setup.nodes));
        let settings = ycsb::YcsbSettings {
            workload,
            distribution: workload.distribution(),
            shape,
            seed: self.arguments.seed,
        };
        let records = InsertedRecords::new(shape.records);
        let connect = |client: u64| grid.connect(client as usize);
        let (report, each) = self.measure(grid, setup.terminals, |pace| {
            ycsb::run(connect, settings, &records, pace)
        })?;
        Ok(run_of(setup, &report, each))
    }

    /// Warms up, then runs between two readings of the counters, so that what they count is of the run's transactions.
    fn measure(
        &self,
        grid: &Grid<'_>,
        terminals: u64,
        run: impl Fn(RunSettings) -> Result<RoundReport, BenchError>,
    ) -> Result<(RoundReport, Counters), BenchError> {
        let seconds = Duration::try_from_secs_f64(self.arguments.seconds);
        let duration = seconds.map_err(|wrong| BenchError::Arguments(format!("--seconds: {wrong}")))?;
        let pace = |duration| RunSettings {
            terminals: terminals.max(1),
            warmup: Duration::ZERO,
            duration,
            ..RunSettings::default()
        };
        run(pace(WARMUP.min(duration)))?;
        let before = grid.counters()?;
        let report = run(pace(duration))?;
        let after = grid.counters()?;
        self.stopper.check()?;
        let transactions = report.committed() + report.rollbacks();
        Ok((report, after.since(&before, transactions)))
    }
}

/// A node hears of new tables a moment after the first one; until then it takes their rows for those of another node, and refuses
/// COPY. One without rows shows when it knows them.
fn wait_for_tables(client: &mut Connection, last: &str) -> Result<(), ClientError> {
    let until = Instant::now() + TABLES_TIME_MAX;
    loop {
        match client.copy_in(&format!("COPY {last} FROM STDIN"), &mut |_| false) {
            Err(error) if error.sqlstate() == "0A000" && Instant::now() < until => std::thread::sleep(TABLES_LOOK),
            other => return other.map(drop),
        }
    }
}

fn run_of(setup: Setup, report: &RoundReport, each: Counters) -> Run {
    let p50_ms = |kind: &str| {
        let found = report.kinds.iter().find(|report| report.name == kind);
        found.map_or(0.0, |report| report.p50_ms)
    };
    Run {
        setup,
        seconds: report.duration_s,
        transactions: report.committed(),
        per_second: report.transactions_per_second,
        new_orders_per_minute: 0.0,
        p50_ms: report.p50_ms,
        p99_ms: report.p99_ms,
        read_p50_ms: p50_ms("Read"),
        write_p50_ms: p50_ms("Update"),
        retries: report.retries(),
        errors: report.errors(),
        each,
        busy: Vec::new(),
        conditions: 0,
        violations: report
            .error_examples
            .iter()
            .map(|(message, count)| format!("{count} errors: {message}"))
            .collect(),
    }
}

/// The setup of TPC-C.
pub(super) fn tpcc_setup(nodes: u32, remote_share: f64, arguments: &PaperArguments) -> Setup {
    Setup {
        experiment: GROWTH.to_owned(),
        workload: TPCC.to_owned(),
        nodes,
        remote_share,
        terminals: u64::from(nodes) * arguments.terminals_per_node,
        stage_threads: 0,
    }
}
