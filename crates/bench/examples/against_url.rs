//! Runs a workload against any PostgreSQL-compatible server, as `rubato bench` does:
//! `cargo run --release -p rubato-bench --example against_url -- tpcc --url postgres://postgres@127.0.0.1/postgres`

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::Parser;
use rubato_bench::{BenchCommand, execute};

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: BenchCommand,
}

fn main() -> ExitCode {
    match execute(&Program::parse().command, &mut stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be done if standard error is gone too.
            let _ = writeln!(std::io::stderr(), "against_url: {error}");
            ExitCode::FAILURE
        }
    }
}
