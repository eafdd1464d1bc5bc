//! TPC-C: loading, running and checking over any client, and the command.

use std::time::Duration;

use rubato_workload::tpcc::{
    HotRows, Scale, Settings, TpccTerminal, check_conditions, create_indexes, create_tables, load_jobs, settle,
};
use rubato_workload::{Client, ClientError, Placement};

use crate::arguments::TpccArguments;
use crate::compare::{Benchmark, Sessions};
use crate::error::BenchError;
use crate::gate::Gate;
use crate::loading::{LoadTimes, load_in_parallel, timed};
use crate::report::{CheckReport, Headline, RoundReport};
use crate::runner::{RunSettings, run_terminals};

/// Creates the tables and loads the population over several sessions at once, then indexes it. Gives how long copying the rows
/// took.
///
/// # Errors
/// A session could not be opened or a statement failed.
pub fn load<C, F>(connect: F, scale: Scale, seed: u64, sessions: usize, progress: bool) -> Result<Duration, BenchError>
where
    C: Client,
    F: Fn() -> Result<C, BenchError> + Sync,
{
    let mut client = connect()?;
    create_tables(&mut client, Placement::AsIs)
        .map_err(|error| BenchError::client("creating the tables of TPC-C", error))?;
    let jobs = load_jobs(scale, seed);
    let rows = jobs.iter().map(|job| job.rows()).sum();
    let copied = load_in_parallel(&jobs, rows, sessions, progress, || {
        let mut client = connect()?;
        Ok(move |job: &rubato_workload::tpcc::LoadJob, progress: &dyn Fn(u64)| {
            let loaded = job.run(&mut client, progress);
            loaded
                .map(drop)
                .map_err(|error| BenchError::client("loading TPC-C", error))
        })
    })?;
    let indexed = create_indexes(&mut client).and_then(|()| settle(&mut client));
    indexed.map_err(|error| BenchError::client("indexing TPC-C", error))?;
    Ok(copied)
}

/// Runs the terminals; the headline is tpmC: committed New-Orders a minute, those rolled back by design not counted.
///
/// # Errors
/// A terminal could not be made.
pub fn run<C, F>(connect: F, settings: Settings, run_settings: RunSettings) -> Result<RoundReport, BenchError>
where
    C: Client,
    C::Statement: Send,
    F: Fn() -> Result<C, BenchError> + Sync,
{
    run_at(|_| connect(), settings, run_settings, None)
}

/// As [`run`], where a terminal's number, from 0, decides what it connects to, in turns with others if there is a gate.
///
/// # Errors
/// A terminal could not be made.
pub(crate) fn run_at<C, F>(
    connect: F,
    settings: Settings,
    run_settings: RunSettings,
    gate: Option<&Gate>,
) -> Result<RoundReport, BenchError>
where
    C: Client,
    C::Statement: Send,
    F: Fn(u64) -> Result<C, BenchError> + Sync,
{
    let (mut report, terminals) = run_terminals(run_settings, gate, |number| {
        let mut client = connect(number)?;
        let terminal = TpccTerminal::new(&mut client, settings, number);
        Ok((
            client,
            terminal.map_err(|error| BenchError::client("preparing TPC-C", error))?,
        ))
    })?;
    report.headline = Headline {
        name: "tpmC",
        value: report.per_minute("New-Order"),
    };
    let skipped = terminals.iter().map(TpccTerminal::skipped_districts).sum();
    if skipped > 0 {
        report.notes.insert("districts without a new order to deliver", skipped);
    }
    Ok(report)
}

/// Checks the twelve consistency conditions.
///
/// # Errors
/// What the client reported; a broken condition is no error.
pub fn check<C: Client>(client: &mut C, scale: Scale, when: &'static str) -> Result<Vec<CheckReport>, ClientError> {
    let results = check_conditions(client, scale)?.into_iter();
    let name = |number, text| format!("condition {number}, {text}");
    Ok(results
        .map(|result| CheckReport {
            when,
            name: name(result.number, result.text),
            violation: result.violation,
        })
        .collect())
}

pub(crate) struct TpccBenchmark {
    settings: Settings,
    run_settings: RunSettings,
    is_loaded_anew: bool,
    load_sessions: usize,
    progress: bool,
    pipeline: bool,
}

impl TpccBenchmark {
    pub fn new(arguments: &TpccArguments, _sessions: &Sessions) -> Result<TpccBenchmark, BenchError> {
        if arguments.warehouses == 0 {
            return Err(BenchError::Arguments("at least one warehouse".to_owned()));
        }
        let scale = Scale::specification(i64::from(arguments.warehouses));
        let mut shares = Settings::unpaced(scale, arguments.common.seed);
        shares.remote_item_percent = arguments.remote_items;
        shares.remote_payment_percent = arguments.remote_payments;
        if let Some(percent) = arguments.remote_share {
            shares = shares.with_remote_share(percent);
        }
        Ok(TpccBenchmark {
            settings: Settings {
                keying_time: arguments.keying_time,
                think_time: arguments.think_time,
                delivery_locks: arguments.delivery_locks,
                hot_rows: if arguments.hot_rows_first {
                    HotRows::First
                } else {
                    HotRows::Last
                },
                ..shares
            },
            run_settings: arguments.common.run_settings(),
            is_loaded_anew: arguments.load.is_wanted(),
            load_sessions: arguments.load.load_sessions,
            progress: !arguments.common.quiet,
            pipeline: arguments.pipeline,
        })
    }
}

impl TpccBenchmark {
    /// Whether the tables that are there have all warehouses.
    fn check_loaded(&self, sessions: &Sessions) -> Result<(), BenchError> {
        let mut client = sessions.open()?;
        let counted = client
            .prepare("SELECT COUNT(*) FROM warehouse")
            .and_then(|statement| client.execute(statement, &[])?.int(0, 0));
        let loaded = counted.map_err(sessions.failed("counting the warehouses"))?;
        let (name, asked) = (&sessions.target.name, self.settings.scale.warehouses);
        match loaded < asked {
            true => Err(BenchError::Arguments(format!(
                "{name} has {loaded} of {asked} warehouses: say --warehouses {loaded}, or load them anew"
            ))),
            false => Ok(()),
        }
    }
}

impl Benchmark for TpccBenchmark {
    fn name(&self) -> String {
        "TPC-C".to_owned()
    }

    fn settings(&self) -> String {
        let (warehouses, terminals) = (self.settings.scale.warehouses, self.run_settings.terminals);
        let plural = if warehouses == 1 { "" } else { "s" };
        let pace = match (self.settings.keying_time > 0.0, self.settings.think_time > 0.0) {
            (false, false) => "no keying or think time",
            (true, true) => "keying and think time",
            (true, false) => "keying time",
            (false, true) => "think time",
        };
        let trips = if self.pipeline {
            ""
        } else {
            ", one round trip a statement"
        };
        let hot = if self.settings.hot_rows == HotRows::First {
            ", hot rows first"
        } else {
            ""
        };
        let locks = if self.settings.delivery_locks {
            ""
        } else {
            ", Delivery without FOR UPDATE"
        };
        format!("{warehouses} warehouse{plural}, {terminals} terminals, {pace}{trips}{hot}{locks}")
    }

    fn load(&mut self, sessions: &Sessions) -> Result<Option<LoadTimes>, BenchError> {
        if !self.is_loaded_anew {
            return self.check_loaded(sessions).map(|()| None);
        }
        let (scale, seed) = (self.settings.scale, self.settings.seed);
        timed(|| load(|| sessions.open(), scale, seed, self.load_sessions, self.progress)).map(Some)
    }

    fn round(&mut self, sessions: &Sessions, round: u32) -> Result<RoundReport, BenchError> {
        let seed = self.settings.seed.wrapping_add(u64::from(round) << 32);
        run(
            || sessions.open(),
            Settings { seed, ..self.settings },
            self.run_settings,
        )
    }

    fn check(&mut self, sessions: &Sessions, when: &'static str) -> Result<Vec<CheckReport>, BenchError> {
        check(&mut sessions.open()?, self.settings.scale, when).map_err(sessions.failed("checking the conditions"))
    }
}
