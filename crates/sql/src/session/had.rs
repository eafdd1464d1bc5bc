//! The last number that a session has had of each sequence, wherever it has taken it.
//!
//! It is the client's session that knows: what its statements take on another node comes back with their answers, and goes along with the
//! next one, to whichever node has the sequences by then.

use super::Session;
use rubato_base::LastNumbers;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What `currval` and `lastval` tell.
#[derive(Clone, Debug, Default)]
pub(super) struct HadNumbers {
    by_sequence: BTreeMap<u32, i64>,
    /// The sequence that gave a number last, which `lastval` asks.
    last: Option<u32>,
    /// All of it for another node, made when it is asked for.
    shared: Option<Arc<LastNumbers>>,
    /// Of it what has come since that was taken last.
    news: NewNumbers,
}

#[derive(Clone, Debug, Default)]
struct NewNumbers {
    by_sequence: BTreeMap<u32, i64>,
    last: Option<u32>,
}

/// Numbers for another node: the sequence that gave one last stands at the end.
fn told(by_sequence: &BTreeMap<u32, i64>, last: Option<u32>) -> LastNumbers {
    let number_of = |sequence: u32| by_sequence.get(&sequence).map(|value| (sequence, *value));
    let last = last.and_then(number_of);
    let others = by_sequence.iter().map(|(sequence, value)| (*sequence, *value));
    LastNumbers {
        by_sequence: others.filter(|own| Some(*own) != last).chain(last).collect(),
        last: last.map(|(_, value)| value),
    }
}

/// The sequence that gave one last, of numbers that another node tells.
fn last_told(numbers: &LastNumbers) -> Option<u32> {
    let (sequence, _) = numbers.by_sequence.last()?;
    numbers.last.map(|_| *sequence)
}

impl HadNumbers {
    /// `nextval` gives a number (`is_last`), or `setval` sets one.
    pub(super) fn note(&mut self, sequence: u32, value: i64, is_last: bool) {
        self.shared = None;
        self.by_sequence.insert(sequence, value);
        self.news.by_sequence.insert(sequence, value);
        if is_last || self.last == Some(sequence) {
            (self.last, self.news.last) = (Some(sequence), Some(sequence));
        }
    }

    pub(super) fn of(&self, sequence: u32) -> Option<i64> {
        self.by_sequence.get(&sequence).copied()
    }

    /// The sequence that gave a number last, and the number that the session has had of it last.
    pub(super) fn last(&self) -> Option<(u32, i64)> {
        let sequence = self.last?;
        self.of(sequence).map(|value| (sequence, value))
    }

    /// All of it, for the node that a statement is to run on. The same one until it changes.
    pub(super) fn shared(&mut self) -> Option<Arc<LastNumbers>> {
        if self.by_sequence.is_empty() {
            return None;
        }
        let (by_sequence, last) = (&self.by_sequence, self.last);
        let made = self.shared.get_or_insert_with(|| Arc::new(told(by_sequence, last)));
        Some(Arc::clone(made))
    }

    /// What has come since this was asked last.
    fn take_news(&mut self) -> LastNumbers {
        let NewNumbers { by_sequence, last } = std::mem::take(&mut self.news);
        told(&by_sequence, last)
    }

    /// It has come on another node.
    pub(super) fn hear(&mut self, news: &LastNumbers) {
        if !news.is_empty() {
            self.shared = None;
            self.by_sequence.extend(news.by_sequence.iter().copied());
            self.last = last_told(news).or(self.last);
        }
    }
}

impl Session {
    /// The numbers that a session on another node has had, for which this one works.
    pub fn take_numbers_over(&mut self, had: &LastNumbers) {
        self.taken.had = HadNumbers {
            by_sequence: had.by_sequence.iter().copied().collect(),
            last: last_told(had),
            ..HadNumbers::default()
        };
    }

    /// Of the numbers that this one has had for it what has come since that was asked last.
    pub fn new_numbers(&mut self) -> LastNumbers {
        self.taken.had.take_news()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_had_elsewhere_is_had() {
        let (mut own, mut other) = (HadNumbers::default(), HadNumbers::default());
        assert_eq!(own.shared(), None);
        own.note(7, 1, true);
        own.note(8, 20, false);
        let shared = own.shared().expect("some");
        assert!(own.shared().is_some_and(|again| Arc::ptr_eq(&shared, &again)));
        other.hear(&shared);
        assert_eq!(
            (other.of(7), other.of(8), other.last()),
            (Some(1), Some(20), Some((7, 1)))
        );
        assert!(other.take_news().is_empty(), "it is known where it comes from");
        other.note(9, 5, true);
        other.note(7, 2, false);
        let news = other.take_news();
        assert_eq!((&news.by_sequence[..], news.last), (&[(7, 2), (9, 5)][..], Some(5)));
        own.hear(&news);
        assert_eq!((own.of(7), own.of(9), own.last()), (Some(2), Some(5), Some((9, 5))));
        assert!(own.shared().is_some_and(|again| again.by_sequence.len() == 3));
        own.hear(&other.take_news());
        assert_eq!(own.last(), Some((9, 5)));
        other.note(7, 3, true);
        other.note(9, 6, false);
        other.note(7, 4, false);
        own.hear(&other.take_news());
        assert_eq!(
            own.last(),
            Some((7, 4)),
            "what is set counts, of the sequence that gave a number last"
        );
    }
}
