//! The hot spot: running and checking over any client, and the command.

use rubato_workload::hotspot::{self, HotspotTerminal, Style, Tally};
use rubato_workload::{Client, ClientError};

use crate::arguments::HotspotArguments;
use crate::compare::{Benchmark, Sessions, unchecked};
use crate::error::BenchError;
use crate::loading::LoadTimes;
use crate::report::{CheckReport, RoundReport};
use crate::runner::{RunSettings, run_terminals};

/// Creates the tables anew and runs the clients. Also returns what they know of the final state.
///
/// # Errors
/// The tables could not be created or a client not be made.
pub fn run<C, F>(connect: F, seed: u64, style: Style, settings: RunSettings) -> Result<(RoundReport, Tally), BenchError>
where
    C: Client,
    C::Statement: Send,
    F: Fn() -> Result<C, BenchError> + Sync,
{
    let created = hotspot::create_tables(&mut connect()?, settings.terminals);
    created.map_err(|error| BenchError::client("creating the tables of the hot spot", error))?;
    let (report, terminals) = run_terminals(settings, None, |number| {
        let mut client = connect()?;
        let terminal = HotspotTerminal::new(&mut client, seed, number, style);
        Ok((
            client,
            terminal.map_err(|error| BenchError::client("preparing the hot spot", error))?,
        ))
    })?;
    let mut tally = Tally::default();
    terminals.iter().for_each(|terminal| tally.add(terminal.tally()));
    Ok((report, tally))
}

/// Compares the final state with what the clients know.
///
/// # Errors
/// What the client reported.
pub fn check<C: Client>(client: &mut C, tally: Tally) -> Result<CheckReport, ClientError> {
    let name = "the hot row, the history and the private rows hold exactly what was committed".to_owned();
    Ok(CheckReport {
        when: "after the run",
        name,
        violation: hotspot::check(client, tally)?,
    })
}

pub(crate) struct HotspotBenchmark {
    seed: u64,
    style: Style,
    settings: RunSettings,
    is_checked: bool,
    checks: Vec<CheckReport>,
}

impl HotspotBenchmark {
    pub fn new(arguments: &HotspotArguments) -> HotspotBenchmark {
        HotspotBenchmark {
            seed: arguments.common.seed,
            style: arguments.style.into(),
            settings: arguments.common.run_settings(),
            is_checked: arguments.common.check,
            checks: Vec::new(),
        }
    }
}

impl Benchmark for HotspotBenchmark {
    fn name(&self) -> String {
        "Hot spot".to_owned()
    }

    fn settings(&self) -> String {
        format!(
            "{} clients on one row, {}, six statements a transaction",
            self.settings.terminals,
            match self.style {
                Style::Add => "which they add to",
                Style::ReadFirst => "which they read and then set",
                Style::Lock => "which they read for update and then set",
            }
        )
    }

    /// The tables are small and created anew for each round.
    fn load(&mut self, _: &Sessions) -> Result<Option<LoadTimes>, BenchError> {
        Ok(None)
    }

    fn round(&mut self, sessions: &Sessions, round: u32) -> Result<RoundReport, BenchError> {
        let seed = self.seed.wrapping_add(u64::from(round) << 32);
        let (report, tally) = run(|| sessions.open(), seed, self.style, self.settings)?;
        if self.is_checked {
            let failed = sessions.failed("checking the hot row");
            let checked = sessions
                .open()
                .and_then(|mut client| check(&mut client, tally).map_err(failed));
            self.checks.push(checked.unwrap_or_else(|error| unchecked(&error)));
        }
        Ok(report)
    }

    fn check(&mut self, _: &Sessions, _: &'static str) -> Result<Vec<CheckReport>, BenchError> {
        Ok(std::mem::take(&mut self.checks))
    }
}
