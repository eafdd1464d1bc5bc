//! What happened in a run, line by line, and how often what is rare.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Counts by name, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Counts one.
    pub fn count(&mut self, name: &'static str) {
        self.add(name, 1);
    }

    /// Counts several.
    pub fn add(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    /// How often something happened.
    pub fn get(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Coverage) {
        for (name, count) in &other.counts {
            self.add(name, *count);
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in &self.counts {
            writeln!(out, "  {count:>12}  {name}")?;
        }
        Ok(())
    }
}

/// The trace of a run: always its sum, its text only if asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    text: Option<String>,
    line: String,
    sum: u64,
    lines: u64,
}

impl Trace {
    /// A trace that keeps its text, or not.
    pub fn new(keeps_text: bool) -> Trace {
        Trace {
            text: keeps_text.then(String::new),
            sum: 0xcbf2_9ce4_8422_2325,
            ..Trace::default()
        }
    }

    /// Adds a line.
    pub fn note(&mut self, line: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a string does not fail.
        let _ = writeln!(self.line, "{line}");
        for byte in self.line.bytes() {
            self.sum = (self.sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines += 1;
        if let Some(text) = &mut self.text {
            text.push_str(&self.line);
        }
    }

    /// The same for the same lines.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many lines.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The text, if it was kept.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or("")
    }
}
