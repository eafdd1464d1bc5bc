//! What a run found, as data: the text, the JSON and the plot are made of this.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::measure::{KindMeasurement, Measurement};
use crate::runner::INTERVAL;

/// One figure that stands for a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Headline {
    /// What it counts, such as `tpmC`.
    pub name: &'static str,
    /// How many.
    pub value: f64,
}

/// One kind of transaction in one round. Latencies are of committed transactions, in milliseconds, retries included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindReport {
    /// Name of the kind.
    pub name: &'static str,
    /// Transactions the server acknowledged as committed.
    pub committed: u64,
    /// Half of them took at most this long.
    pub p50_ms: f64,
    /// Nine of ten.
    pub p90_ms: f64,
    /// Nineteen of twenty.
    pub p95_ms: f64,
    /// Ninety-nine of a hundred.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Rollbacks the workload asked for.
    pub rollbacks: u64,
    /// Attempts that ended with 40001 or 40P01 at the client.
    pub aborts: u64,
    /// Attempts beyond the first.
    pub retries: u64,
    /// Transactions given up with an error.
    pub errors: u64,
}

impl KindReport {
    fn new(name: &'static str, measured: &KindMeasurement) -> KindReport {
        let quantile_ms = |quantile| measured.latency_us.value_at_quantile(quantile) as f64 / 1000.0;
        KindReport {
            name,
            committed: measured.committed(),
            p50_ms: quantile_ms(0.5),
            p90_ms: quantile_ms(0.9),
            p95_ms: quantile_ms(0.95),
            p99_ms: quantile_ms(0.99),
            max_ms: measured.latency_us.max() as f64 / 1000.0,
            rollbacks: measured.rollbacks,
            aborts: measured.aborts,
            retries: measured.retries,
            errors: measured.errors,
        }
    }
}

/// One measured interval on one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundReport {
    /// Measured time in seconds.
    pub duration_s: f64,
    /// Set by the workload; committed transactions a second until then.
    pub headline: Headline,
    /// Committed transactions of all kinds a second.
    pub transactions_per_second: f64,
    /// Half of the committed transactions of all kinds took at most this long.
    pub p50_ms: f64,
    /// Ninety-nine of a hundred.
    pub p99_ms: f64,
    /// Kind by kind; kinds that never ran are left out.
    pub kinds: Vec<KindReport>,
    /// Committed transactions a second, second by second.
    pub throughput: Vec<f64>,
    /// Errors that reached the client, by message.
    pub error_examples: BTreeMap<String, u64>,
    /// Terminals whose connection was lost.
    pub terminals_lost: u64,
    /// What else the workload counted.
    pub notes: BTreeMap<&'static str, u64>,
}

impl RoundReport {
    pub(crate) fn new(measured: &Measurement, kinds: &[&'static str], duration: Duration) -> RoundReport {
        let duration_s = duration.as_secs_f64();
        let all = kinds.iter().zip(&measured.kinds);
        let ran = |kind: &KindMeasurement| kind.committed() + kind.rollbacks + kind.aborts + kind.errors > 0;
        let committed: u64 = measured.kinds.iter().map(KindMeasurement::committed).sum();
        let per_second = if duration_s > 0.0 {
            committed as f64 / duration_s
        } else {
            0.0
        };
        let width_s = |index: usize| (duration_s - index as f64 * INTERVAL.as_secs_f64()).min(INTERVAL.as_secs_f64());
        let points = measured.intervals.iter().enumerate();
        let mut together = KindMeasurement::new();
        for kind in &measured.kinds {
            // All have the same precision and grow; nothing can fail to fit.
            let _ = together.latency_us.add(&kind.latency_us);
        }
        let together = KindReport::new("all", &together);
        RoundReport {
            duration_s,
            headline: Headline {
                name: "transactions/s",
                value: per_second,
            },
            transactions_per_second: per_second,
            p50_ms: together.p50_ms,
            p99_ms: together.p99_ms,
            kinds: all
                .filter(|(_, kind)| ran(kind))
                .map(|(name, kind)| KindReport::new(name, kind))
                .collect(),
            throughput: points
                .map(|(index, count)| count.all as f64 / width_s(index).max(1e-3))
                .collect(),
            error_examples: measured.examples.clone(),
            terminals_lost: measured.terminals_lost,
            notes: BTreeMap::new(),
        }
    }

    /// Committed transactions of one kind a minute.
    pub fn per_minute(&self, kind: &str) -> f64 {
        let found = self.kinds.iter().find(|report| report.name == kind);
        found.map_or(0.0, |report| report.committed as f64 * 60.0 / self.duration_s.max(1e-9))
    }

    /// Transactions given up with an error, all kinds.
    pub fn errors(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.errors).sum()
    }

    /// Attempts beyond the first, all kinds.
    pub fn retries(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.retries).sum()
    }

    /// Rollbacks that the workload asked for, all kinds.
    pub fn rollbacks(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.rollbacks).sum()
    }

    /// Committed transactions, all kinds.
    pub fn committed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.committed).sum()
    }
}

/// Whether something that must be true is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// When: after loading or after the run.
    pub when: &'static str,
    /// What must be true.
    pub name: String,
    /// What breaks it; nothing if it holds.
    pub violation: Option<String>,
}

/// All rounds on one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetReport {
    /// The target's name.
    pub name: String,
    /// The version the server reported.
    pub server_version: String,
    /// The isolation level of its sessions, as the server names it.
    pub isolation: String,
    /// Whether its sessions ran under TLS.
    pub tls: bool,
    /// Time loading took in seconds, if it was loaded: with indexes, statistics and a checkpoint.
    pub load_s: Option<f64>,
    /// The part of it in which rows were copied, in seconds.
    pub copy_s: Option<f64>,
    /// Round by round.
    pub rounds: Vec<RoundReport>,
    /// The median of the rounds' headlines.
    pub headline: Headline,
    /// This headline as a multiple of the first target's.
    pub ratio_to_first: f64,
    /// What was checked.
    pub checks: Vec<CheckReport>,
}

/// One run of a workload on one or several servers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the workload.
    pub workload: String,
    /// Its settings in words.
    pub settings: String,
    /// Server by server, in the order given.
    pub targets: Vec<TargetReport>,
}

impl Comparison {
    /// Fills in the medians and the ratios.
    pub(crate) fn settle(&mut self) {
        for target in &mut self.targets {
            let mut values: Vec<f64> = target.rounds.iter().map(|round| round.headline.value).collect();
            target.headline.value = median(&mut values);
            target.headline.name = target
                .rounds
                .first()
                .map_or(target.headline.name, |round| round.headline.name);
        }
        let first = self.targets.first().map_or(0.0, |target| target.headline.value);
        for target in &mut self.targets {
            target.ratio_to_first = if first > 0.0 {
                target.headline.value / first
            } else {
                0.0
            };
        }
    }

    /// Checks that did not hold.
    pub fn failed_checks(&self) -> usize {
        self.targets
            .iter()
            .flat_map(|target| &target.checks)
            .filter(|check| check.violation.is_some())
            .count()
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_few() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
    }
}
