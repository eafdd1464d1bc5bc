//! The client suites of `tests/clients`: builds what they need, runs them, counts their lines.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::steps::Steps;
use super::tools::{self, Place, Tools};

/// Checks that printed `name ... ok` and `name ... FAILED (reason)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that end in `ok`.
    pub passed: usize,
    /// Lines that say FAILED.
    pub failed: usize,
}

impl Counts {
    /// Counts one line of a suite.
    pub fn take(&mut self, line: &str) {
        let Some((_, verdict)) = line.split_once(" ... ") else {
            return;
        };
        if verdict == "ok" || verdict.starts_with("ok (") {
            self.passed += 1;
        } else if verdict.starts_with("FAILED") {
            self.failed += 1;
        }
    }
}

/// Installs the tools, builds the program and the Rust clients, and runs every suite.
pub fn build_and_run(steps: &mut Steps, arguments: &[String]) -> Counts {
    let mut counts = Counts::default();
    let reference = arguments.iter().any(|argument| argument == "--reference");
    let mut tools = None;
    let target = steps.target();
    let root = steps.root().to_path_buf();
    steps.step("client tools", || {
        let place = Place {
            root: &root,
            target: &target,
        };
        let found = tools.insert(tools::find_or_install(&place, suites(arguments).as_deref())?);
        for why in &found.spared {
            println!("left out: {why}");
        }
        match found.missing.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "{} (without the suites {})",
                found.missing.join("; "),
                found.left_out.join(", ")
            )),
        }
    });
    let built = reference || steps.cargo("release build", &["build", "--release", "--package", "rubato-server"]);
    let clients = built_rust_clients(steps, &target);
    let (true, true, Some(tools)) = (built, clients, tools) else {
        return counts;
    };
    let mut command = runner(steps.root(), &target, &tools, arguments);
    steps.step("client suites", || stream(&mut command, &mut counts));
    if runs_in_a_grid(arguments) {
        let mut in_grid = Counts::default();
        let mut command = runner(steps.root(), &target, &tools, &IN_A_GRID.map(String::from));
        steps.step("client suites at a node of a grid", || {
            stream(&mut command, &mut in_grid)
        });
        counts.passed += in_grid.passed;
        counts.failed += in_grid.failed;
    }
    counts
}

/// Suites that run once more in their short form against the second of three nodes: its clients are to see what those of a node alone see.
const IN_A_GRID: [&str; 5] = [
    "--grid-nodes",
    "3",
    "--quick",
    "--suites",
    "psycopg,sqlalchemy,asyncpg,node,go,jdbc,hibernate,tokio,sqlx,dump,hermitage,outcome,databases",
];

/// Whether all suites are asked for, of Rubato.
fn runs_in_a_grid(arguments: &[String]) -> bool {
    let chooses = |argument: &String| matches!(argument.as_str(), "--suites" | "--reference" | "--grid-nodes");
    !arguments.iter().any(chooses)
}

/// The suites that `--suites` names; None is all of them.
fn suites(arguments: &[String]) -> Option<Vec<&str>> {
    let after = arguments.iter().position(|argument| argument == "--suites")? + 1;
    Some(arguments.get(after)?.split(',').collect())
}

/// The Rust clients are a workspace of their own, built into the same target folder.
fn built_rust_clients(steps: &mut Steps, target: &Path) -> bool {
    let manifest = steps
        .root()
        .join("tests/clients/rust/Cargo.toml")
        .to_string_lossy()
        .into_owned();
    let target = target.to_string_lossy().into_owned();
    steps.cargo(
        "format of the Rust clients",
        &["fmt", "--manifest-path", &manifest, "--check"],
    );
    let place = [
        "--release",
        "--locked",
        "--manifest-path",
        &manifest,
        "--target-dir",
        &target,
    ];
    steps.cargo(
        "lint of the Rust clients",
        &[&["clippy"], &place[..], &["--", "-D", "warnings"]].concat(),
    );
    steps.cargo("tests of the Rust clients", &[&["test"], &place[..]].concat());
    steps.cargo("build of the Rust clients", &[&["build"], &place[..]].concat())
}

/// The Python program that starts nodes and runs the suites. It needs nothing but the standard library.
fn runner(root: &Path, target: &Path, tools: &Tools, arguments: &[String]) -> Command {
    let release = |name: &str| -> PathBuf { target.join("release").join(name) };
    let mut command = Command::new(&tools.python);
    command
        .arg("-u")
        .arg(root.join("tests/clients/run.py"))
        .current_dir(root);
    command.arg("--program").arg(release("rubato"));
    command.arg("--rust-clients").arg(release("rubato-clients"));
    for (option, path) in &tools.options {
        command.arg(option).arg(path);
    }
    command.arg("--left-out").arg(tools.left_out.join(","));
    command.arg("--work").arg(target.join("client-suites"));
    command.args(arguments);
    command
}

fn stream(command: &mut Command, counts: &mut Counts) -> Result<(), String> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("python cannot be run: {error}"))?;
    let lines = BufReader::new(child.stdout.take().expect("standard output was asked for")).lines();
    for line in lines.map_while(Result::ok) {
        println!("{line}");
        counts.take(&line);
    }
    let status = child.wait().map_err(|error| format!("the suites were lost: {error}"))?;
    match (status.success(), counts.passed + counts.failed) {
        (_, 0) => Err("no check was run".to_string()),
        (true, _) if counts.failed == 0 => Ok(()),
        _ => Err(format!("{} checks failed ({status})", counts.failed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_asked_for_are_known() {
        let arguments = ["--quick", "--suites", "psql,node"].map(String::from);
        assert_eq!(suites(&arguments), Some(vec!["psql", "node"]));
        assert_eq!(suites(&arguments[..1]), None);
    }

    #[test]
    fn a_choice_of_suites_is_not_run_in_a_grid_as_well() {
        let given = |arguments: &[&str]| runs_in_a_grid(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(given(&[]) && given(&["--quick", "--rounds", "3"]));
        assert!(!given(&["--suites", "psql"]) && !given(&["--reference"]) && !given(&["--grid-nodes", "2"]));
    }

    #[test]
    fn verdict_lines_are_counted_and_others_are_not() {
        let mut counts = Counts::default();
        for line in [
            "psql ddl ... ok",
            "pgbench select ... ok (9812 tps)",
            "crash ... FAILED (lost 1)",
            "waiting ... soon",
            "a line",
        ] {
            counts.take(line);
        }
        assert_eq!(counts, Counts { passed: 2, failed: 1 });
    }
}
