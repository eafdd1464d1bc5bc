//! Steps with one clear line each, and a summary at the end.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::clients::Counts;

/// Runs steps one after the other and remembers which failed: a broken rule of form hides no broken promise.
pub struct Steps {
    root: PathBuf,
    failed: Vec<String>,
}

impl Steps {
    /// Steps inside the checkout at `root`.
    pub fn new(root: &Path) -> Steps {
        Steps {
            root: root.to_path_buf(),
            failed: Vec::new(),
        }
    }

    /// The checkout.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo puts what it builds.
    pub fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// One call of cargo as a step; true if it succeeded.
    pub fn cargo(&mut self, name: &str, arguments: &[&str]) -> bool {
        self.cargo_with(name, arguments, &[])
    }

    /// One call of cargo with more environment.
    pub fn cargo_with(&mut self, name: &str, arguments: &[&str], environment: &[(&str, String)]) -> bool {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        self.command(name, &mut command)
    }

    /// Any command as a step; true if it succeeded.
    pub fn command(&mut self, name: &str, command: &mut Command) -> bool {
        command.current_dir(&self.root);
        self.step(name, || match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{status}")),
            Err(error) => Err(format!(
                "`{}` cannot be run: {error}",
                command.get_program().to_string_lossy()
            )),
        })
    }

    /// Any work as a step; true if it succeeded.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Result<(), String>) -> bool {
        println!("== {name}");
        let begun = Instant::now();
        let outcome = work();
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("== {name}: ok ({seconds:.1} s)"),
            Err(reason) => {
                println!("== {name}: FAILED ({seconds:.1} s): {reason}");
                self.failed.push(name.to_string());
            }
        }
        !self.failed.iter().any(|failed| failed == name)
    }

    /// Prints the summary; the last line counts the checks of the client suites.
    pub fn finish(self, clients: Counts) -> Result<(), String> {
        let outcome = match self.failed.is_empty() && clients.failed == 0 {
            true => Ok(()),
            false if self.failed.is_empty() => Err("client checks failed".to_string()),
            false => Err(format!("failed steps: {}", self.failed.join(", "))),
        };
        match &outcome {
            Ok(()) => println!("== everything passed"),
            Err(sentence) => println!("== {sentence}"),
        }
        println!("{} passed, {} failed", clients.passed, clients.failed);
        outcome
    }
}
