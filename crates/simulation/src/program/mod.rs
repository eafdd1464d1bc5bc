//! The command line. It is a driver: it tells how long a run took and shows progress, which no part of a run sees.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod explorer;
mod paper;
mod seeds;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Whole nodes in virtual time, faults from one seed, independent checkers.
///
/// Without a subcommand seeds are run one after the other: `rubato-simulation --seeds 1000`. The exit code is 1 if one failed.
#[derive(Debug, Parser)]
#[command(name = "rubato-simulation", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    seeds: seeds::SeedArguments,
}

/// One thing to run; each has a module of its own beside this one.
#[derive(Debug, Subcommand)]
enum Command {
    /// Every order of messages, losses, repetitions and crashes of small transactions, over the protocol's own code.
    Exhaustive(explorer::Exhaustive),
    /// The design's schedules in every interleaving, under each policy.
    Schedules,
    /// Breaks each rule of the protocol in turn: the explorer must notice. Needs the feature `broken-rules`.
    Broken(explorer::Broken),
    /// Throughput and latency as a grid grows, with service times from a real machine: what `rubato bench paper` asks for.
    Paper(paper::Paper),
}

/// Runs the program with the arguments of the process. The exit code is 1 if a violation was found, 2 for wrong arguments.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::Exhaustive(arguments)) => explorer::exhaustive(&arguments),
        Some(Command::Schedules) => explorer::schedules(),
        Some(Command::Broken(arguments)) => explorer::broken(&arguments),
        Some(Command::Paper(arguments)) => paper::run(&arguments),
        None => seeds::run(&arguments.seeds),
    }
}
