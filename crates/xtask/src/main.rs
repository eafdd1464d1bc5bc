//! `cargo xtask`: the project's own checks and its one test command.

use std::process::ExitCode;

use rubato_xtask::{check, run, tree};

const HELP: &str = "\
The project's own checks and its one test command.

  cargo xtask check             layering, sizes, forbidden words, links, openings of rooms (seconds)
  cargo xtask test              everything: fmt, clippy, the checks, cargo test, cargo doc, client suites
  cargo xtask test --quick      the same with the short form of the client suites
  cargo xtask clients [--quick] [--suites a,b] [--reference] [--rounds N] [--connections N]
                                only the client suites of tests/clients; --reference runs them against a
                                PostgreSQL 15 of their own in place of Rubato, to test the suites themselves
  cargo xtask paper --out DIR [...]
                                builds a release of the program and of the simulated grid, and makes the experiments of the
                                Rubato DB paper with both; the arguments are those of `rubato bench paper`

The last line of a run with clients is `N passed, N failed`. The exit status is 0 only if nothing failed.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let root = tree::workspace_root();
    let outcome = match arguments.first().map(String::as_str) {
        Some("check") => check::report(&root),
        Some("test") => run::test(&root, rest),
        Some("paper") => run::paper(&root, rest),
        Some("clients") => run::clients_only(&root, rest),
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("which task?\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}
