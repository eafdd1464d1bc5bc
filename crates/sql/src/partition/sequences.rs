//! The numbers of sequences: what was given, and how far the log says that they may have been.

use crate::catalog::Sequence;
use crate::outcomes::Outcomes;
use rubato_base::{Error, Lsn, Result, SqlState, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// 2200H: what is said at the end of a sequence.
pub const SEQUENCE_ENDED: SqlState = SqlState(*b"2200H");

/// Numbers taken ahead of what was logged: after a crash at most as many are skipped, as in PostgreSQL.
const LOGGED_AHEAD: i64 = 32;

/// In the log, with the number of a sequence's values: the number beside it is the next one, and was not given. Numbers of values are smaller.
const IS_NEXT: u32 = 1 << 31;

/// The value of one sequence.
#[derive(Clone, Copy, Debug)]
struct SequenceValue {
    /// The number given last; or, unless `is_called`, the next one.
    number: i64,
    /// Whether `number` was given.
    is_called: bool,
    /// The number up to which the log says that numbers may have been given, if one was.
    logged: i64,
}

impl SequenceValue {
    /// That of a sequence whose next number is this one, whatever its increment is by then.
    fn beginning(number: i64) -> SequenceValue {
        SequenceValue {
            number,
            is_called: false,
            logged: number,
        }
    }

    /// That of a sequence which has given this number last, as far as the log knows.
    fn given(number: i64) -> SequenceValue {
        SequenceValue {
            number,
            is_called: true,
            logged: number,
        }
    }

    /// As the log has it: up to which number some may have been given, or the next one.
    fn in_log(&self, values: u32) -> (u32, i64) {
        match self.is_called {
            true => (values, self.logged),
            false => (values | IS_NEXT, self.number),
        }
    }
}

/// Values of sequences by [`Sequence::values`], and the ids of transactions, which are such a sequence too. They move outside of
/// transactions, as in PostgreSQL; a sequence that is started over has other ones, which its transaction's catalog says.
#[derive(Debug, Default)]
pub struct SequenceValues {
    /// They are on another node of the grid, with everything else that there is once: what is here counts for nothing.
    pub are_elsewhere: bool,
    /// Ids of transactions and their outcomes.
    pub outcomes: Outcomes,
    values: BTreeMap<u32, SequenceValue>,
    moved: Vec<(u32, i64)>,
    logged_at: Lsn,
    /// Values that no catalog has, and since when that is known: of sequences that were dropped or started over, or that a transaction is
    /// about to make or start over.
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
        let first = SequenceValue::beginning(sequence.start);
        let value = self.values.entry(sequence.values).or_insert(first);
        let was_called = value.is_called;
        let next = match was_called {
            false => value.number,
            true => match value.number.checked_add(sequence.increment) {
                Some(next) if next >= sequence.minimum && next <= sequence.maximum => next,
                _ if sequence.cycle && sequence.increment > 0 => sequence.minimum,
                _ if sequence.cycle => sequence.maximum,
                _ => return Err(exhausted(sequence)),
            },
        };
        (value.number, value.is_called) = (next, true);
        let is_logged = match sequence.increment > 0 {
            true => next <= value.logged,
            false => next >= value.logged,
        };
        let beyond = !(was_called && is_logged);
        if beyond || sequence.cycle {
            let ahead = next.saturating_add(sequence.increment.saturating_mul(LOGGED_AHEAD));
            let ahead = if sequence.cycle {
                next
            } else {
                ahead.clamp(sequence.minimum, sequence.maximum)
            };
            value.logged = ahead;
            self.moved.push((sequence.values, ahead));
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
        let set = match is_called {
            true => SequenceValue::given(value),
            false => SequenceValue::beginning(value),
        };
        self.put(sequence.values, set);
        Ok(value)
    }

    /// A number, and whether `nextval` gives the one after it; else it gives the number itself.
    pub fn state(&self, sequence: &Sequence) -> (i64, bool) {
        let Some(SequenceValue { number, is_called, .. }) = self.values.get(&sequence.values).copied() else {
            return (sequence.start, false);
        };
        // What was recovered may stand one step in front of the first number.
        let is_number = number >= sequence.minimum && number <= sequence.maximum;
        match is_called && !is_number {
            true => (number.saturating_add(sequence.increment), false),
            false => (number, is_called),
        }
    }

    /// The sequence begins with this number, in values that only the transaction knows which has made it or starts it over.
    pub fn begin(&mut self, sequence: &Sequence, number: i64) {
        self.put(sequence.values, SequenceValue::beginning(number));
    }

    fn put(&mut self, values: u32, value: SequenceValue) {
        self.values.insert(values, value);
        self.moved.push(value.in_log(values));
        // A number that a transaction had which was rolled back before a crash is given again.
        self.unknown_since.remove(&values);
    }

    /// Puts back what the log or a checkpoint says.
    pub fn recover(&mut self, id: u32, value: i64) {
        let recovered = match id & IS_NEXT {
            0 => SequenceValue::given(value),
            _ => SequenceValue::beginning(value),
        };
        self.values.insert(id & !IS_NEXT, recovered);
    }

    /// All sequences with the number that each has given last, or its next one, as [`SequenceValues::recover`] takes them.
    pub fn given(&self) -> Vec<(u32, i64)> {
        let given = |(id, value): (&u32, &SequenceValue)| {
            let logged = value.number;
            SequenceValue { logged, ..*value }.in_log(*id)
        };
        self.values.iter().map(given).collect()
    }

    /// All sequences with the value up to which numbers may have been given, or the next one, for a checkpoint.
    pub fn all(&self) -> Vec<(u32, i64)> {
        self.values.iter().map(|(id, value)| value.in_log(*id)).collect()
    }

    /// A sequence that begins as another one is now.
    pub fn copy(&mut self, from: u32, to: u32) {
        if let Some(value) = self.values.get(&from).copied() {
            self.put(to, value);
        }
    }

    /// Sequences that are gone with their database.
    pub fn forget(&mut self, gone: impl IntoIterator<Item = u32>) {
        for id in gone {
            self.values.remove(&id);
            self.moved.retain(|(moved, _)| *moved & !IS_NEXT != id);
        }
    }

    /// Forgets the values that no catalog has and that no transaction can be about to make, for it would have begun before `oldest`.
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
            values: 7,
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
            values: 8,
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
    fn the_next_number_is_the_same_after_a_restart_with_another_increment() {
        let mut values = SequenceValues::default();
        values.begin(&sequence(1, false), 10);
        let mut recovered = SequenceValues::default();
        for (id, value) in values.take_moved() {
            recovered.recover(id, value);
        }
        for values in [&mut values, &mut recovered] {
            assert_eq!(values.state(&sequence(5, false)), (10, false));
            assert_eq!(values.next(&sequence(5, false)), Ok(10));
            assert_eq!(values.next(&sequence(5, false)), Ok(15));
        }
        for logged in [values.all(), values.take_moved()] {
            assert_eq!(logged, [(7, 100)]);
        }
    }

    #[test]
    fn values_that_were_given_up_once_stay_when_they_are_those_of_another() {
        let (mut values, at) = (SequenceValues::default(), Timestamp);
        values.begin(&sequence(1, false), 10);
        values.forget_unknown(&BTreeSet::new(), at(50), at(40));
        // After a crash the number is that of a transaction which has begun since.
        values.begin(&sequence(1, false), 20);
        values.forget_unknown(&BTreeSet::new(), at(90), at(60));
        values.forget_unknown(&BTreeSet::new(), at(95), at(80));
        assert_eq!(values.state(&sequence(1, false)), (20, false));
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
