//! What `rubato demo` runs, against any server: `cargo run --release -p rubato-bench --example demo -- URL`

use std::io::{Write, stdout};
use std::process::ExitCode;

use rubato_bench::demo::{DemoSettings, run_demo};

fn main() -> ExitCode {
    let url = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "postgres://rubato@127.0.0.1:5433/rubato".to_owned());
    match run_demo(&url, DemoSettings::default()) {
        Ok(report) => {
            let (load_s, held) = (
                report.load.as_secs_f64(),
                report.checks.iter().filter(|check| check.violation.is_none()),
            );
            let summary = format!(
                "loaded in {load_s:.1} s\n{}{} conditions hold",
                report.round,
                held.count()
            );
            // Nothing is left to be done if standard output is gone.
            let _ = writeln!(stdout(), "{summary}");
            if report.holds() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "demo: {error}");
            ExitCode::FAILURE
        }
    }
}
