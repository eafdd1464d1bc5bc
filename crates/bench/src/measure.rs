//! What one terminal, and all together, measured.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use rubato_workload::{Ending, Outcome};

/// Different error messages kept as examples; the rest is counted only.
const EXAMPLES_MAX: usize = 8;

/// Counts and latencies of one kind of transaction.
#[derive(Clone, Debug)]
pub(crate) struct KindMeasurement {
    /// Latencies of committed transactions in microseconds.
    pub latency_us: Histogram<u64>,
    pub rollbacks: u64,
    pub aborts: u64,
    pub retries: u64,
    pub errors: u64,
}

impl KindMeasurement {
    pub fn new() -> KindMeasurement {
        // Three digits; it grows as far as the longest latency needs. Three is within what the crate allows.
        let latency_us = Histogram::new(3).expect("three significant digits are allowed");
        KindMeasurement {
            latency_us,
            rollbacks: 0,
            aborts: 0,
            retries: 0,
            errors: 0,
        }
    }

    pub fn committed(&self) -> u64 {
        self.latency_us.len()
    }
}

/// Everything that was measured in one run.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    pub kinds: Vec<KindMeasurement>,
    /// Committed transactions in each interval, all kinds and the first kind.
    pub intervals: Vec<IntervalCount>,
    /// Messages of errors that reached the client, with their number.
    pub examples: BTreeMap<String, u64>,
    /// Terminals that ended early because their connection was lost.
    pub terminals_lost: u64,
}

/// Committed transactions of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IntervalCount {
    pub all: u64,
    pub first_kind: u64,
}

impl Measurement {
    /// Nothing measured yet, of a run with this many kinds and intervals.
    pub fn new(kinds: usize, intervals: usize) -> Measurement {
        Measurement {
            kinds: vec![KindMeasurement::new(); kinds],
            intervals: vec![IntervalCount::default(); intervals],
            examples: BTreeMap::new(),
            terminals_lost: 0,
        }
    }

    /// Counts a transaction that ended in this interval of the measured time.
    pub fn record(&mut self, kind: usize, outcome: &Outcome, latency: Duration, interval: usize) {
        let Some(measured) = self.kinds.get_mut(kind) else {
            return;
        };
        measured.aborts += u64::from(outcome.aborts);
        measured.retries += u64::from(outcome.retries);
        match &outcome.result {
            Ok(Ending::Committed) => {
                let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
                // A histogram that grows takes any value.
                let _ = measured.latency_us.record(latency_us);
                if let Some(count) = self.intervals.get_mut(interval) {
                    count.all += 1;
                    count.first_kind += u64::from(kind == 0);
                }
            }
            Ok(Ending::RolledBack) => measured.rollbacks += 1,
            Err(error) => {
                measured.errors += 1;
                self.add_example(
                    format!("{} (SQLSTATE {})", without_numbers(error.message()), error.sqlstate()),
                    1,
                );
            }
        }
    }

    /// Adds what another terminal measured.
    pub fn merge(&mut self, other: Measurement) {
        for (mine, theirs) in self.kinds.iter_mut().zip(other.kinds) {
            // Both have the same precision and grow; nothing can fail to fit.
            let _ = mine.latency_us.add(&theirs.latency_us);
            mine.rollbacks += theirs.rollbacks;
            mine.aborts += theirs.aborts;
            mine.retries += theirs.retries;
            mine.errors += theirs.errors;
        }
        for (mine, theirs) in self.intervals.iter_mut().zip(other.intervals) {
            mine.all += theirs.all;
            mine.first_kind += theirs.first_kind;
        }
        for (message, count) in other.examples {
            self.add_example(message, count);
        }
        self.terminals_lost += other.terminals_lost;
    }

    fn add_example(&mut self, message: String, count: u64) {
        let is_known = self.examples.contains_key(&message);
        let message = if is_known || self.examples.len() < EXAMPLES_MAX {
            message
        } else {
            "others".to_owned()
        };
        *self.examples.entry(message).or_insert(0) += count;
    }
}

/// Process ids and keys would make each message its own kind.
fn without_numbers(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for character in message.chars() {
        let mark = if character.is_ascii_digit() { '#' } else { character };
        if mark != '#' || !out.ends_with('#') {
            out.push(mark);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_workload::ClientError;

    fn outcome(result: Result<Ending, ClientError>) -> Outcome {
        Outcome {
            result,
            aborts: 1,
            retries: 1,
        }
    }

    #[test]
    fn each_ending_is_counted_in_its_place() {
        let mut measured = Measurement::new(2, 3);
        measured.record(0, &outcome(Ok(Ending::Committed)), Duration::from_millis(5), 1);
        measured.record(0, &outcome(Ok(Ending::RolledBack)), Duration::from_millis(5), 1);
        measured.record(1, &outcome(Ok(Ending::Committed)), Duration::from_millis(9), 2);
        measured.record(1, &outcome(Err(ClientError::server("23505", "no"))), Duration::ZERO, 2);
        let mut all = Measurement::new(2, 3);
        all.merge(measured.clone());
        all.merge(measured);
        let [first, second] = &all.kinds[..] else {
            panic!("two kinds")
        };
        assert_eq!(
            (first.committed(), first.rollbacks, first.aborts, first.errors),
            (2, 2, 4, 0)
        );
        assert_eq!((second.committed(), second.errors), (2, 2));
        assert_eq!(all.intervals[1], IntervalCount { all: 2, first_kind: 2 });
        assert_eq!(all.intervals[2], IntervalCount { all: 2, first_kind: 0 });
        assert_eq!(all.examples.get("no (SQLSTATE 23505)"), Some(&2));
        assert!((first.latency_us.value_at_quantile(0.5) as i64 - 5000).abs() < 10);
    }

    #[test]
    fn only_a_few_messages_are_kept() {
        let mut measured = Measurement::new(1, 1);
        for number in 0..100 {
            let error = ClientError::server("23505", "x".repeat(number));
            measured.record(0, &outcome(Err(error)), Duration::ZERO, 0);
        }
        assert_eq!(measured.examples.len(), EXAMPLES_MAX + 1);
        assert_eq!(measured.examples.values().sum::<u64>(), 100);
        assert_eq!(without_numbers("pivot 4711, key 1"), "pivot #, key #");
    }
}
