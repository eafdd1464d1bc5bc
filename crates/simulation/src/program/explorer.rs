//! The subcommands of the explorer.

use crate::exhaustive::{Limits, report};
use crate::grid::{GridWorkload, broken};
use clap::Args;
use std::process::ExitCode;

/// Settings of `exhaustive`.
#[derive(Debug, Args)]
pub struct Exhaustive {
    /// States of one configuration; what is beyond is cut off, and the report says so.
    #[arg(long, default_value_t = 1_000_000)]
    states: usize,
    /// Only configurations whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// Settings of `broken`.
#[derive(Debug, Args)]
pub struct Broken {
    /// States of one configuration while the broken rule has not been noticed.
    #[arg(long, default_value_t = 150_000)]
    states: usize,
    /// Only the rule of this number, such as P-4.
    #[arg(long, default_value = "")]
    rule: String,
    /// By seeds of the simulated grid, not by the explorer
    #[arg(long)]
    grid: bool,
    /// Seeds of the grid for one rule
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// These workloads of the grid only, with commas
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
}

/// Runs every configuration.
pub fn exhaustive(arguments: &Exhaustive) -> ExitCode {
    let limits = Limits {
        states_max: arguments.states,
    };
    code(report::exhaustive(limits, &arguments.only, &mut say))
}

/// Prints the table of the schedules.
pub fn schedules() -> ExitCode {
    code(report::schedules(&mut say))
}

/// Breaks each rule.
pub fn broken(arguments: &Broken) -> ExitCode {
    let (states_max, rule) = (arguments.states, &arguments.rule);
    if !rubato_protocol::break_rule(None) {
        say("The switches that break a rule are not built in. Run:");
        say("  cargo run --release -p rubato-simulation --features broken-rules -- broken");
        return ExitCode::from(2);
    }
    if arguments.grid {
        let named = |name: &String| GridWorkload::named(name);
        let Some(workloads) = arguments.workloads.iter().map(named).collect::<Option<Vec<_>>>() else {
            say("There is no such workload.");
            return ExitCode::from(2);
        };
        broken::report(rule, arguments.seeds, &workloads, &mut say);
        return ExitCode::SUCCESS;
    }
    code(report::broken(Limits { states_max }, rule, &mut say))
}

fn say(line: &str) {
    println!("{line}");
}

fn code(right: bool) -> ExitCode {
    ExitCode::from(u8::from(!right))
}
