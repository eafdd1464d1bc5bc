//! The one test command: the tools of the toolchain, then real clients against the freshly built program.

mod clients;
mod steps;
mod tools;

use std::path::Path;
use std::process::Command;

use steps::Steps;

use crate::check::purity::PURE_ROOMS;

/// `cargo xtask test [--quick]`: everything. An error names the steps that failed.
pub fn test(root: &Path, arguments: &[String]) -> Result<(), String> {
    let mut steps = Steps::new(root);
    steps.cargo("format", &["fmt", "--all", "--check"]);
    steps.cargo(
        "lint",
        &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    );
    lint_pure_rooms(&mut steps);
    steps.cargo("unit and integration tests", &["test", "--workspace"]);
    let denied = [("RUSTDOCFLAGS", "-D warnings".to_string())];
    steps.cargo_with("documentation", &["doc", "--workspace", "--no-deps"], &denied);
    let clients = clients::build_and_run(&mut steps, arguments);
    steps.finish(clients)
}

/// `cargo xtask clients ...`: builds the program and runs the client suites only.
pub fn clients_only(root: &Path, arguments: &[String]) -> Result<(), String> {
    let mut steps = Steps::new(root);
    let clients = clients::build_and_run(&mut steps, arguments);
    steps.finish(clients)
}

/// `cargo xtask paper ...`: builds the program and the simulated grid as they are released, and makes the experiments of the paper
/// with both. What follows is for `rubato bench paper`.
pub fn paper(root: &Path, arguments: &[String]) -> Result<(), String> {
    let mut steps = Steps::new(root);
    let packages = ["--package", "rubato-server", "--package", "rubato-simulation"];
    let build: Vec<&str> = ["build", "--release", "--bins"].into_iter().chain(packages).collect();
    if steps.cargo("build", &build) {
        // The simulated grid is found beside the program.
        let mut program = Command::new(steps.target().join("release/rubato"));
        program.args(["bench", "paper"]).args(arguments);
        steps.command("experiments of the paper", &mut program);
    }
    steps.finish(clients::Counts::default())
}

fn lint_pure_rooms(steps: &mut Steps) {
    let rooms = crate::tree::rooms(steps.root());
    let packages: Vec<String> = PURE_ROOMS
        .iter()
        .filter(|room| rooms.iter().any(|present| present == *room))
        .flat_map(|room| ["--package".to_string(), format!("rubato-{room}")])
        .collect();
    let mut arguments = vec!["clippy", "--no-deps", "--lib"];
    arguments.extend(packages.iter().map(String::as_str));
    arguments.push("--");
    for lint in [
        "clippy::disallowed_types",
        "clippy::disallowed_methods",
        "clippy::iter_over_hash_type",
    ] {
        arguments.extend(["-D", lint]);
    }
    let list = steps
        .root()
        .join("crates/xtask/pure-rooms")
        .to_string_lossy()
        .into_owned();
    steps.cargo_with("lint of the pure rooms", &arguments, &[("CLIPPY_CONF_DIR", list)]);
}
