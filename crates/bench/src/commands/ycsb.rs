//! YCSB: loading and running over any client, and the command.

use std::collections::BTreeMap;
use std::time::Duration;

use rubato_workload::ycsb::{
    self, Distribution, InsertedRecords, Shape, Workload, YcsbTerminal, count_columns, count_records, create_table,
    load_parts,
};
use rubato_workload::{Client, Placement};

use crate::arguments::YcsbArguments;
use crate::compare::{Benchmark, Sessions};
use crate::error::BenchError;
use crate::gate::Gate;
use crate::loading::{LoadTimes, load_in_parallel, timed};
use crate::report::{CheckReport, RoundReport};
use crate::runner::{RunSettings, run_terminals};

/// What a YCSB run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YcsbSettings {
    /// The mix.
    pub workload: Workload,
    /// How records are chosen.
    pub distribution: Distribution,
    /// Shape of the table.
    pub shape: Shape,
    /// Seed of all choices.
    pub seed: u64,
}

/// Creates the table and loads it over several sessions at once. Gives how long copying the rows took.
///
/// # Errors
/// A session could not be opened or a statement failed.
pub fn load<C, F>(connect: F, shape: Shape, seed: u64, sessions: usize, progress: bool) -> Result<Duration, BenchError>
where
    C: Client,
    F: Fn() -> Result<C, BenchError> + Sync,
{
    let mut client = connect()?;
    create_table(&mut client, shape, Placement::AsIs)
        .map_err(|error| BenchError::client("creating the table of YCSB", error))?;
    let copied = load_in_parallel(&load_parts(shape, seed), shape.records, sessions, progress, || {
        let mut client = connect()?;
        Ok(move |part: &ycsb::LoadPart, progress: &dyn Fn(u64)| {
            let loaded = part.run(&mut client, progress);
            loaded
                .map(drop)
                .map_err(|error| BenchError::client("loading YCSB", error))
        })
    })?;
    ycsb::settle(&mut client).map_err(|error| BenchError::client("settling YCSB", error))?;
    Ok(copied)
}

/// Runs the clients, in turns with others if there is a gate; `records` is shared by all runs on the same table. A client's number, from 0,
/// decides what it connects to.
///
/// # Errors
/// A client could not be made.
pub fn run<C, F>(
    connect: F,
    settings: YcsbSettings,
    records: &InsertedRecords,
    run_settings: RunSettings,
    gate: Option<&Gate>,
) -> Result<RoundReport, BenchError>
where
    C: Client,
    C::Statement: Send,
    F: Fn(u64) -> Result<C, BenchError> + Sync,
{
    let YcsbSettings {
        workload,
        distribution,
        shape,
        seed,
    } = settings;
    let (mut report, terminals) = run_terminals(run_settings, gate, |number| {
        let mut client = connect(number)?;
        let terminal = YcsbTerminal::new(
            &mut client,
            workload,
            distribution,
            shape,
            records.clone(),
            seed,
            number,
        );
        Ok((
            client,
            terminal.map_err(|error| BenchError::client("preparing YCSB", error))?,
        ))
    })?;
    report.headline.name = "operations/s";
    let misses = terminals.iter().map(YcsbTerminal::misses).sum();
    if misses > 0 {
        report.notes.insert("operations that found no record", misses);
    }
    Ok(report)
}

pub(crate) struct YcsbBenchmark {
    settings: YcsbSettings,
    run_settings: RunSettings,
    is_loaded_anew: bool,
    load_sessions: usize,
    progress: bool,
    /// Records of each target's table.
    records: BTreeMap<String, InsertedRecords>,
}

impl YcsbBenchmark {
    pub fn new(arguments: &YcsbArguments) -> Result<YcsbBenchmark, BenchError> {
        let refused = |what: String| BenchError::Arguments(what);
        let workload = Workload::from_name(&arguments.workload)
            .ok_or_else(|| refused(format!("`{}` is no workload of YCSB", arguments.workload)))?;
        let distribution = match arguments.distribution.as_deref() {
            None => workload.distribution(),
            Some("zipfian") => Distribution::Zipfian,
            Some("uniform") => Distribution::Uniform,
            Some("latest") => Distribution::Latest,
            Some(other) => return Err(refused(format!("`{other}` is no distribution of YCSB"))),
        };
        if !(1..=1000).contains(&arguments.columns) || arguments.records == 0 {
            return Err(refused("at least one record of 1 to 1000 columns".to_owned()));
        }
        let shape = Shape {
            records: arguments.records,
            columns: arguments.columns,
        };
        Ok(YcsbBenchmark {
            settings: YcsbSettings {
                workload,
                distribution,
                shape,
                seed: arguments.common.seed,
            },
            run_settings: arguments.common.run_settings(),
            is_loaded_anew: arguments.load.is_wanted(),
            load_sessions: arguments.load.load_sessions,
            progress: !arguments.common.quiet,
            records: BTreeMap::new(),
        })
    }

    fn records(&mut self, sessions: &Sessions) -> Result<InsertedRecords, BenchError> {
        if let Some(records) = self.records.get(&sessions.target.name) {
            return Ok(records.clone());
        }
        let mut client = sessions.open()?;
        let columns = count_columns(&mut client).map_err(sessions.failed("counting the columns"))?;
        if columns != self.settings.shape.columns {
            return Err(BenchError::Arguments(format!(
                "the records of {} are divided into {columns} columns: say --columns {columns}, or load them anew",
                sessions.target.name
            )));
        }
        let counted = count_records(&mut client).map_err(sessions.failed("counting the records"))?;
        let records = InsertedRecords::new(counted);
        self.records.insert(sessions.target.name.clone(), records.clone());
        Ok(records)
    }
}

impl Benchmark for YcsbBenchmark {
    fn name(&self) -> String {
        format!("YCSB {}", self.settings.workload.name().to_uppercase())
    }

    fn settings(&self) -> String {
        let YcsbSettings {
            distribution, shape, ..
        } = self.settings;
        let choice = match distribution {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
        };
        let (records, columns, clients) = (shape.records, shape.columns, self.run_settings.terminals);
        format!("{records} records in {columns} columns, {choice}, {clients} clients")
    }

    fn load(&mut self, sessions: &Sessions) -> Result<Option<LoadTimes>, BenchError> {
        if !self.is_loaded_anew {
            return Ok(None);
        }
        let YcsbSettings { shape, seed, .. } = self.settings;
        timed(|| load(|| sessions.open(), shape, seed, self.load_sessions, self.progress)).map(Some)
    }

    fn round(&mut self, sessions: &Sessions, round: u32) -> Result<RoundReport, BenchError> {
        let records = self.records(sessions)?;
        let seed = self.settings.seed.wrapping_add(u64::from(round) << 32);
        run(
            |_| sessions.open(),
            YcsbSettings { seed, ..self.settings },
            &records,
            self.run_settings,
            None,
        )
    }

    /// YCSB states nothing about its data.
    fn check(&mut self, _: &Sessions, _: &'static str) -> Result<Vec<CheckReport>, BenchError> {
        Ok(Vec::new())
    }
}
