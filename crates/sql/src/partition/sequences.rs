//! The numbers of sequences: what was given, and how far the log says that they may have been.

use crate::catalog::Sequence;
use crate::outcomes::Outcomes;
use rubato_base::{Error, Lsn, Result, SqlState, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// 2200H: what is said at the end of a sequence.
pub const SEQUENCE_ENDED: SqlState = SqlState(*b"2200H");

/// Numbers taken ahead of what was logged: after a crash at most as many are skipped, as in PostgreSQL.
const LOGGED_AHEAD: i64 = 32;

/// The value of one sequence.
#[derive(Clone, Copy, Debug)]
struct SequenceValue {
    /// The number given last, if one was; or, unless `is_called`, the one before the next.
    last: Option<i64>,
    /// Whether `last` was given.
    is_called: bool,
    /// The number up to which the log says that numbers may have been given.
    logged: Option<i64>,
}

/// A sequence that was started over, and how it was.
#[derive(Clone, Copy, Debug)]
pub struct Restarted {
    id: u32,
    former: Option<SequenceValue>,
}

/// Values of sequences by id, and the ids of transactions, which are such a sequence too. They move outside of transactions, as in
/// PostgreSQL.
#[derive(Debug, Default)]
pub struct SequenceValues {
    /// They are on another node of the grid, with everything else that there is once: what is here counts for nothing.
    pub are_elsewhere: bool,
    /// Ids of transactions and their outcomes.
    pub outcomes: Outcomes,
    values: BTreeMap<u32, SequenceValue>,
    moved: Vec<(u32, i64)>,
    logged_at: Lsn,
    /// Sequences that no catalog has, and since when that is known: those that were dropped, or that a transaction is about to make.
    unknown_since: BTreeMap<u32, Timestamp>,
}

impl SequenceValues {
    /// Behind the last record of numbers that may be given: no number, and no id, may be shown to anybody before the log is
    /// forced up to there, or a crash would give it again (promise 4).
    pub fn logged_at(&self) -> Lsn {
        self.logged_at
    }

    /// What has moved is written down up to here.
    pub(super) fn note_logged(&mut self, logged_at: Lsn) {
        self.logged_at = logged_at;
    }

    /// `nextval`. 2200H at its end.
    pub fn next(&mut self, sequence: &Sequence) -> Result<i64> {
        let value = self.values.entry(sequence.id).or_insert(SequenceValue {
            last: None,
            is_called: false,
            logged: None,
        });
        let next = match value.last {
            None => sequence.start,
            Some(last) => match last.checked_add(sequence.increment) {
                Some(next) if next >= sequence.minimum && next <= sequence.maximum => next,
                _ if sequence.cycle && sequence.increment > 0 => sequence.minimum,
                _ if sequence.cycle => sequence.maximum,
                _ => return Err(exhausted(sequence)),
            },
        };
        value.last = Some(next);
        value.is_called = true;
        let beyond = value.logged.is_none_or(|logged| {
            if sequence.increment > 0 {
                next > logged
            } else {
                next < logged
            }
        });
        if beyond || sequence.cycle {
            let ahead = next.saturating_add(sequence.increment.saturating_mul(LOGGED_AHEAD));
            let ahead = if sequence.cycle {
                next
            } else {
                ahead.clamp(sequence.minimum, sequence.maximum)
            };
            value.logged = Some(ahead);
            self.moved.push((sequence.id, ahead));
        }
        Ok(next)
    }

    /// `setval`. 22003 outside of the sequence's bounds.
    pub fn set(&mut self, sequence: &Sequence, value: i64, is_called: bool) -> Result<i64> {
        if value < sequence.minimum || value > sequence.maximum {
            let message = format!(
                "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                sequence.name, sequence.minimum, sequence.maximum
            );
            return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        let last = if is_called {
            value
        } else {
            value.saturating_sub(sequence.increment)
        };
        self.values.insert(
            sequence.id,
            SequenceValue {
                last: Some(last),
                is_called,
                logged: Some(last),
            },
        );
        self.moved.push((sequence.id, last));
        Ok(value)
    }

    /// A number, and whether `nextval` gives the one after it; else it gives the number itself.
    pub fn state(&self, sequence: &Sequence) -> (i64, bool) {
        let value = self.values.get(&sequence.id);
        let Some((value, last)) = value.and_then(|value| Some((value, value.last?))) else {
            return (sequence.start, false);
        };
        // What was recovered may stand one step in front of the first number.
        let is_number = last >= sequence.minimum && last <= sequence.maximum;
        match value.is_called && is_number {
            true => (last, true),
            false => (last.saturating_add(sequence.increment), false),
        }
    }

    /// Starts a sequence over (TRUNCATE ... RESTART IDENTITY). What it was before is given back to whoever is rolled back.
    pub fn restart(&mut self, sequence: &Sequence) -> Restarted {
        let before = sequence.start.saturating_sub(sequence.increment);
        let former = self.values.insert(
            sequence.id,
            SequenceValue {
                last: Some(before),
                is_called: false,
                logged: Some(before),
            },
        );
        self.moved.push((sequence.id, before));
        Restarted {
            id: sequence.id,
            former,
        }
    }

    /// Whoever has started a sequence over is rolled back: it goes on where it was. The last of them comes first.
    pub fn take_back(&mut self, restarted: Restarted) {
        let Restarted { id, former } = restarted;
        // Nobody knew of it before.
        let Some(value) = former else {
            return self.forget([id]);
        };
        self.values.insert(id, value);
        self.moved.extend(value.logged.map(|logged| (id, logged)));
    }

    /// Puts back what the log or a checkpoint says.
    pub fn recover(&mut self, id: u32, value: i64) {
        self.values.insert(
            id,
            SequenceValue {
                last: Some(value),
                is_called: true,
                logged: Some(value),
            },
        );
    }

    /// All sequences with the number that each has given last, or would have given before its next one.
    pub fn given(&self) -> Vec<(u32, i64)> {
        let given = |(id, value): (&u32, &SequenceValue)| value.last.map(|last| (*id, last));
        self.values.iter().filter_map(given).collect()
    }

    /// All sequences with the value up to which numbers may have been given, for a checkpoint.
    pub fn all(&self) -> Vec<(u32, i64)> {
        self.values
            .iter()
            .filter_map(|(id, value)| value.logged.map(|logged| (*id, logged)))
            .collect()
    }

    /// A sequence that begins as another one is now.
    pub fn copy(&mut self, from: u32, to: u32) {
        let Some(value) = self.values.get(&from).copied() else {
            return;
        };
        self.values.insert(to, value);
        self.moved.extend(value.logged.map(|logged| (to, logged)));
    }

    /// Sequences that are gone with their database.
    pub fn forget(&mut self, gone: impl IntoIterator<Item = u32>) {
        for id in gone {
            self.values.remove(&id);
            self.moved.retain(|(moved, _)| *moved != id);
        }
    }

    /// Forgets the sequences that no catalog has and that no transaction can be about to make, for it would have begun before `oldest`.
    pub(super) fn forget_unknown(&mut self, known: &BTreeSet<u32>, now: Timestamp, oldest: Timestamp) {
        let unknown: Vec<u32> = self.values.keys().copied().filter(|id| !known.contains(id)).collect();
        let since = |id: u32| (id, self.unknown_since.get(&id).copied().unwrap_or(now));
        let (gone, left): (Vec<_>, Vec<_>) = unknown.into_iter().map(since).partition(|(_, since)| *since < oldest);
        self.unknown_since = left.into_iter().collect();
        self.forget(gone.into_iter().map(|(id, _)| id));
    }

    pub(super) fn put_back(&mut self, moved: Vec<(u32, i64)>) {
        let since = std::mem::replace(&mut self.moved, moved);
        self.moved.extend(since);
    }

    pub(super) fn take_moved(&mut self) -> Vec<(u32, i64)> {
        std::mem::take(&mut self.moved)
    }
}

fn exhausted(sequence: &Sequence) -> Error {
    let (end, limit) = if sequence.increment > 0 {
        ("maximum", sequence.maximum)
    } else {
        ("minimum", sequence.minimum)
    };
    Error::new(
        SEQUENCE_ENDED,
        format!(
            "nextval: reached {end} value of sequence \"{}\" ({limit})",
            sequence.name
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i64, cycle: bool) -> Sequence {
        let (minimum, maximum) = (1, 100);
        let start = if increment > 0 { minimum } else { maximum };
        Sequence {
            id: 7,
            schema: crate::catalog::SchemaId::PUBLIC,
            name: "s".into(),
            start,
            increment,
            minimum,
            maximum,
            cycle,
            owned_by: None,
            data_type: None,
            cache: 1,
        }
    }

    #[test]
    fn what_was_dropped_is_forgotten_once_nobody_can_be_about_to_make_it() {
        let (mut values, at) = (SequenceValues::default(), Timestamp);
        let other = Sequence {
            id: 8,
            ..sequence(1, false)
        };
        for sequence in [&sequence(1, false), &other] {
            assert_eq!(values.next(sequence), Ok(1));
        }
        let known = BTreeSet::from([8]);
        // A transaction that began before may be about to make it.
        values.forget_unknown(&known, at(50), at(40));
        values.forget_unknown(&known, at(90), at(50));
        assert_eq!(values.all().len(), 2);
        // If it has, it stays.
        values.forget_unknown(&BTreeSet::from([7, 8]), at(100), at(60));
        values.forget_unknown(&known, at(110), at(105));
        assert_eq!(values.all().len(), 2);
        values.forget_unknown(&known, at(120), at(111));
        assert_eq!(values.all(), [(8, 33)]);
        assert_eq!(values.next(&other), Ok(2));
        values.forget_unknown(&known, at(130), Timestamp::MAX);
        assert_eq!(values.all().len(), 1);
    }

    #[test]
    fn a_sequence_counts_is_logged_ahead_and_ends() {
        let (sequence, mut values) = (sequence(1, false), SequenceValues::default());
        assert_eq!(
            (values.next(&sequence).unwrap(), values.next(&sequence).unwrap()),
            (1, 2)
        );
        assert_eq!(values.take_moved(), vec![(7, 33)]);
        for expected in 3..=100 {
            assert_eq!(values.next(&sequence).unwrap(), expected);
        }
        assert!(values.take_moved().iter().all(|(_, value)| *value <= 100));
        assert_eq!(values.next(&sequence).unwrap_err().code().as_str(), "2200H");
        values.recover(7, 40);
        assert_eq!(values.next(&sequence).unwrap(), 41);
    }

    #[test]
    fn a_sequence_cycles_runs_down_and_is_set() {
        let mut values = SequenceValues::default();
        let down = sequence(-30, true);
        let given: Vec<i64> = (0..5).map(|_| values.next(&down).unwrap()).collect();
        assert_eq!(given, [100, 70, 40, 10, 100]);
        let up = sequence(1, false);
        values.set(&up, 50, false).unwrap();
        assert_eq!(values.next(&up).unwrap(), 50);
        values.set(&up, 50, true).unwrap();
        assert_eq!(values.next(&up).unwrap(), 51);
        assert!(values.set(&up, 101, true).is_err());
    }
}
