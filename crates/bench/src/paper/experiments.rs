//! The experiments over grids of processes: what each needs before it can run, and what is made of what it did.

use std::sync::Arc;
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
use crate::gate::Gate;
use crate::loading::load_in_parallel;
use crate::report::RoundReport;
use crate::runner::RunSettings;
use crate::wire::Connection;

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

    fn start(&self, nodes: u32, stage_threads: u32, are_apart: bool) -> Result<Grid<'_>, BenchError> {
        let settings = NodeSettings {
            memory: self.arguments.memory.clone(),
            are_apart,
            more: vec!["--stage-threads".to_owned(), stage_threads.to_string()],
        };
        Grid::start(nodes, &settings, self.stopper)
    }

    /// A grid with the rows of TPC-C of its own: the rows that a run before had added would make it slower than that one.
    ///
    /// Nodes that are no grid have each its own terminals and warehouses: what a transaction costs there beyond one node alone, it costs
    /// because so many processes share the machine, and not because of a grid.
    pub fn tpcc(&self, setup: Setup) -> Result<Ready<'_>, BenchError> {
        (self.tell)(&setup.title());
        let is_apart = setup.experiment == APART;
        let grid = self.start(setup.nodes, setup.stage_threads, is_apart)?;
        let round_trip_us = if is_apart { None } else { grid.round_trip_us()? };
        let scale = self.scale(if is_apart { 1 } else { setup.nodes });
        match is_apart {
            true => self.load_tpcc_apart(&grid, scale)?,
            false => self.load_tpcc(&grid)?,
        }
        let settings = Settings::unpaced(scale, self.arguments.seed).with_remote_share(setup.remote_share);
        Ok(Ready {
            setup,
            grid: Arc::new(grid),
            round_trip_us,
            work: Work::Tpcc(settings),
        })
    }

    /// Both mixes of YCSB, on one grid with its rows.
    pub fn ycsb(&self, nodes: u32) -> Result<Vec<Ready<'_>>, BenchError> {
        (self.tell)(&format!("YCSB, {nodes} nodes"));
        let grid = Arc::new(self.start(nodes, 0, false)?);
        let shape = self.load_ycsb(&grid)?;
        let mixes = [Workload::ReadIntensive, Workload::WriteIntensive].into_iter();
        Ok(mixes.map(|workload| self.mix(&grid, workload, shape)).collect())
    }

    fn mix<'s>(&self, grid: &Arc<Grid<'s>>, workload: Workload, shape: Shape) -> Ready<'s> {
        let setup = Setup {
            experiment: GROWTH.to_owned(),
            workload: format!("YCSB {}", workload.name()),
            nodes: grid.nodes() as u32,
            remote_share: 0.0,
            terminals: self.arguments.terminals_per_node * grid.nodes() as u64,
            stage_threads: 0,
        };
        let settings = ycsb::YcsbSettings {
            workload,
            distribution: workload.distribution(),
            shape,
            seed: self.arguments.seed,
        };
        Ready {
            setup,
            grid: grid.clone(),
            round_trip_us: None,
            work: Work::Ycsb(settings, InsertedRecords::new(shape.records)),
        }
    }

    /// Loads TPC-C into each of the nodes that are no grid.
    fn load_tpcc_apart(&self, nodes: &Grid<'_>, scale: Scale) -> Result<(), BenchError> {
        let failed = |error: ClientError| BenchError::client("loading TPC-C", error);
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
        Ok(())
    }

    /// Loads TPC-C: each node's own warehouses through that node.
    fn load_tpcc(&self, grid: &Grid<'_>) -> Result<(), BenchError> {
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

    /// Loads YCSB, through all nodes.
    fn load_ycsb(&self, grid: &Grid<'_>) -> Result<Shape, BenchError> {
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
}

/// A run whose grid is there, with its rows.
pub(super) struct Ready<'s> {
    pub setup: Setup,
    pub grid: Arc<Grid<'s>>,
    /// Between its idle nodes, where that was measured.
    pub round_trip_us: Option<f64>,
    work: Work,
}

enum Work {
    Tpcc(Settings),
    Ycsb(ycsb::YcsbSettings, InsertedRecords),
}

impl Ready<'_> {
    /// Runs it, in turns with others if there is a gate.
    pub fn run(&self, duration: Duration, gate: Option<&Gate>) -> Result<RoundReport, BenchError> {
        let pace = RunSettings {
            terminals: self.setup.terminals.max(1),
            warmup: Duration::ZERO,
            duration,
            ..RunSettings::default()
        };
        match &self.work {
            Work::Tpcc(settings) => {
                let connect = |terminal| self.grid.connect(self.node_of(terminal, settings.scale));
                tpcc::run_at(connect, *settings, pace, gate)
            }
            // Clients of YCSB are at any node.
            Work::Ycsb(settings, records) => {
                let connect = |client: u64| self.grid.connect(client as usize);
                ycsb::run(connect, *settings, records, pace, gate)
            }
        }
    }

    fn node_of(&self, terminal: u64, scale: Scale) -> usize {
        if self.setup.experiment == APART {
            return terminal as usize / scale.warehouses as usize;
        }
        let off_by = usize::from(self.setup.experiment == WRONG_NODE);
        let warehouse = terminal as i64 % scale.warehouses + 1;
        self.grid.node_of_warehouse(warehouse) + off_by
    }

    /// What came of it, with the conditions of TPC-C on grids.
    pub fn ended(self, report: &RoundReport, each: Counters) -> Result<Run, BenchError> {
        let p50_ms = |kind: &str| {
            let found = report.kinds.iter().find(|report| report.name == kind);
            found.map_or(0.0, |report| report.p50_ms)
        };
        let errors = report.error_examples.iter();
        let mut run = Run {
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
            violations: errors
                .map(|(message, count)| format!("{count} errors: {message}"))
                .collect(),
            setup: self.setup,
        };
        if let Work::Tpcc(settings) = self.work {
            run.new_orders_per_minute = report.per_minute("New-Order");
            if run.setup.experiment != APART {
                check_conditions(&self.grid, settings.scale, &mut run)?;
            }
        }
        Ok(run)
    }
}

fn check_conditions(grid: &Grid<'_>, scale: Scale, run: &mut Run) -> Result<(), BenchError> {
    let checked = tpcc::check(&mut grid.connect(0)?, scale, "after the run");
    let checked = checked.map_err(|error| BenchError::client("checking the conditions", error))?;
    let violations = checked.iter().filter_map(|check| {
        let violation = check.violation.as_ref()?;
        Some(format!("{}: {violation}", check.name))
    });
    run.conditions = checked.len();
    run.violations.extend(violations);
    if run.conditions != CONDITION_COUNT {
        run.violations
            .push(format!("{} conditions were checked", run.conditions));
    }
    Ok(())
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
