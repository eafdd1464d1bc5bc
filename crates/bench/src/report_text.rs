//! The report for people.

use std::fmt::{self, Write};

use crate::report::{CheckReport, Comparison, Headline, RoundReport, TargetReport};

impl fmt::Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}: {}", self.workload, self.settings)?;
        for target in &self.targets {
            writeln!(out)?;
            target.fmt(out)?;
        }
        if self.targets.len() > 1 {
            writeln!(out)?;
            ratios(self, out)?;
        }
        Ok(())
    }
}

impl fmt::Display for TargetReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{}  (server {}, isolation {}{})",
            self.name,
            self.server_version,
            self.isolation,
            if self.tls { ", under TLS" } else { "" }
        )?;
        if let (Some(load_s), Some(copy_s)) = (self.load_s, self.copy_s) {
            writeln!(
                out,
                "  rows copied in {copy_s:.1} s; loaded, with indexes and a checkpoint, in {load_s:.1} s"
            )?;
        }
        for (index, round) in self.rounds.iter().enumerate() {
            if self.rounds.len() > 1 {
                write!(out, "  round {}:", index + 1)?;
            }
            round.fmt(out)?;
        }
        checks(&self.checks, out)
    }
}

impl fmt::Display for RoundReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Headline { name, value } = &self.headline;
        writeln!(
            out,
            "  {name} {value:.1}, {:.1} transactions/s over {} s",
            self.transactions_per_second, self.duration_s
        )?;
        writeln!(
            out,
            "  {:<18}{:>10}{:>9}{:>9}{:>9}{:>9}{:>10}{:>10}{:>8}{:>8}{:>8}",
            "",
            "committed",
            "p50 ms",
            "p90 ms",
            "p95 ms",
            "p99 ms",
            "max ms",
            "rollbacks",
            "aborts",
            "retries",
            "errors"
        )?;
        for kind in &self.kinds {
            writeln!(
                out,
                "  {:<18}{:>10}{:>9.2}{:>9.2}{:>9.2}{:>9.2}{:>10.2}{:>10}{:>8}{:>8}{:>8}",
                kind.name,
                kind.committed,
                kind.p50_ms,
                kind.p90_ms,
                kind.p95_ms,
                kind.p99_ms,
                kind.max_ms,
                kind.rollbacks,
                kind.aborts,
                kind.retries,
                kind.errors
            )?;
        }
        for (note, count) in &self.notes {
            writeln!(out, "  {note}: {count}")?;
        }
        if self.terminals_lost > 0 {
            writeln!(out, "  terminals whose connection was lost: {}", self.terminals_lost)?;
        }
        for (message, count) in &self.error_examples {
            writeln!(out, "  error seen {count} times: {message}")?;
        }
        Ok(())
    }
}

fn checks(checks: &[CheckReport], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for when in ["after loading", "after the run"] {
        let of_when = || checks.iter().filter(|check| check.when == when);
        let (count, held) = (
            of_when().count(),
            of_when().filter(|check| check.violation.is_none()).count(),
        );
        if count > 0 {
            writeln!(out, "  checks {when}: {held} of {count} hold")?;
        }
        for check in of_when() {
            if let Some(violation) = &check.violation {
                writeln!(out, "    BROKEN {}: {violation}", check.name)?;
            }
        }
    }
    Ok(())
}

fn ratios(comparison: &Comparison, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let first = &comparison.targets[0];
    let width = comparison
        .targets
        .iter()
        .map(|target| target.name.len())
        .max()
        .unwrap_or(0);
    for target in &comparison.targets {
        let mut line = format!(
            "{:<width$}  {:>12.1} {}",
            target.name, target.headline.value, target.headline.name
        );
        if target.headline.value > 0.0 {
            let inverse = first.headline.value / target.headline.value;
            write!(
                line,
                "  {:.3} of {first} ({first} is {inverse:.2} times it)",
                target.ratio_to_first,
                first = first.name
            )?;
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}
