//! The rules over the tree. Each rule is a pure function; [`run_all`] feeds them the checkout.

pub mod honesty;
pub mod layering;
pub mod links;
pub mod openings;
pub mod purity;
pub mod sizes;

use std::fmt;
use std::path::Path;

use crate::tree::{self, TextFile};

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `path` or `path:line`.
    pub place: String,
    /// What is wrong there, and what to do instead.
    pub message: String,
}

impl Finding {
    /// A finding at a line of a file.
    pub fn at(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            place: format!("{path}:{line}"),
            message: message.into(),
        }
    }

    /// A finding about a whole file or room.
    pub fn of(place: &str, message: impl Into<String>) -> Finding {
        Finding {
            place: place.to_string(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// What one rule said about the checkout.
#[derive(Debug)]
pub struct Verdict {
    /// The rule's name, as it is printed.
    pub rule: &'static str,
    /// Empty if the rule holds.
    pub findings: Vec<Finding>,
    /// Things worth a look that fail nothing.
    pub remarks: Vec<Finding>,
}

impl Verdict {
    fn new(rule: &'static str, findings: Vec<Finding>) -> Verdict {
        Verdict {
            rule,
            findings,
            remarks: Vec::new(),
        }
    }
}

/// Runs every rule over the checkout at `root`. An error means that `cargo metadata` could not be asked.
pub fn run_all(root: &Path) -> Result<Vec<Verdict>, String> {
    let rust = rust_files(root);
    let sizes = sizes::check(&rust);
    Ok(vec![
        Verdict::new("layering", layering::check(&layering::ask_cargo(root)?)),
        Verdict {
            rule: "sizes",
            findings: sizes.findings,
            remarks: sizes.remarks,
        },
        Verdict::new("pure rooms", purity::check(&rust)),
        Verdict::new("honesty", honesty::check(&rust)),
        Verdict::new("openings", openings::check(&tree::rooms(root), &rust)),
        Verdict::new(
            "links",
            links::check(&documents(root), &|path| root.join(path).exists()),
        ),
    ])
}

/// Every Rust file that the rules judge.
pub fn rust_files(root: &Path) -> Vec<TextFile> {
    tree::files(root, &["crates", "tests"], &[".rs"])
}

/// Every Markdown file whose links are followed.
pub fn documents(root: &Path) -> Vec<TextFile> {
    let folders = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs",
        "crates",
        "tests",
    ];
    tree::files(root, &folders, &[".md"])
}

/// Prints every verdict; an error if any rule is broken.
pub fn report(root: &Path) -> Result<(), String> {
    let mut broken = Vec::new();
    for verdict in run_all(root)? {
        let ok = verdict.findings.is_empty();
        println!("{} ... {}", verdict.rule, if ok { "ok" } else { "FAILED" });
        for finding in &verdict.findings {
            println!("  {finding}");
        }
        for remark in &verdict.remarks {
            println!("  (remark) {remark}");
        }
        if !ok {
            broken.push(verdict.rule);
        }
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(format!("broken rules: {}", broken.join(", ")))
    }
}
