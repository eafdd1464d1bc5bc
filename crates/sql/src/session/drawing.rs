//! What statements of a block draw: random numbers, and numbers of sequences. A statement that is run again with its block draws the same once
//! more, so that rows come out as their client has seen them: ids that RETURNING shows, above all.
//!
//! Nobody else has got the numbers: sequences do not go back when a transaction is rolled back.

use super::random::Randoms;
use super::{Origin, Session};
use crate::catalog::Sequence;
use crate::partition::Partition;
use rubato_base::Draws;
use std::collections::{BTreeMap, VecDeque};

/// Numbers of sequences that are kept of one statement; what draws more of them draws others when it is run again.
const NUMBERS_MAX: usize = 1024;

/// What the statement under way has drawn, and what it is to draw again.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockDraws {
    /// In order; `None` if the block is not run again, they are too many, or mean something else if they are drawn again.
    numbers: Option<Vec<(u32, i64)>>,
    again: BTreeMap<u32, VecDeque<i64>>,
    /// A sequence was set within the block: what is drawn behind that depends on it.
    is_set: bool,
    /// That of the catalog when it began.
    version: u64,
}

impl BlockDraws {
    fn begin(&mut self, version: u64, again: &[(u32, i64)], is_kept: bool) {
        self.version = version;
        self.numbers = (is_kept && !self.is_set).then(Vec::new);
        self.again.clear();
        for (sequence, number) in again {
            self.again.entry(*sequence).or_default().push_back(*number);
        }
    }

    /// A sequence is set.
    pub(super) fn is_set(&mut self) {
        *self = BlockDraws {
            is_set: true,
            ..BlockDraws::default()
        };
    }

    /// The block is over.
    pub(super) fn forget(&mut self) {
        *self = BlockDraws::default();
    }

    pub(super) fn note(&mut self, sequence: u32, number: i64) {
        if let Some(numbers) = &mut self.numbers {
            numbers.push((sequence, number));
        }
        if self.numbers.as_ref().is_some_and(|own| own.len() > NUMBERS_MAX) {
            self.numbers = None;
        }
    }

    /// How many numbers of a sequence are drawn again.
    pub(super) fn count(&self, sequence: u32) -> usize {
        self.again.get(&sequence).map_or(0, VecDeque::len)
    }

    /// The next number that is drawn again. `last` is what the sequence has given last, where that is known: what it has not given, or gives once
    /// more since it was set back, is not drawn again.
    pub(super) fn next(&mut self, sequence: &Sequence, last: Option<(i64, bool)>) -> Option<i64> {
        let queue = self.again.get_mut(&sequence.id)?;
        let number = queue.pop_front()?;
        let is_given = last.is_none_or(|(last, is_called)| {
            is_called
                && match sequence.increment > 0 {
                    true => number <= last,
                    false => number >= last,
                }
        });
        if !is_given || sequence.cycle {
            self.again.remove(&sequence.id);
            return None;
        }
        Some(number)
    }
}

impl Session {
    /// Before a statement begins, or begins anew: what it has drawn before is drawn again if it is run again with its block.
    pub(super) fn begin_drawing(&mut self, partition: &Partition) {
        let again = self.drawn_before(partition).or_else(|| self.draws_given.clone());
        let again = again.unwrap_or_default();
        match again.random {
            Some(state) => self.random = Randoms::of(state),
            None => self.random.next_statement(&mut self.random_own),
        }
        self.random_before = self.random;
        let version = self.committed(partition).version;
        let is_kept = self.replay.is_kept();
        self.taken.drawn.begin(version, &again.numbers, is_kept);
    }

    /// What the statement under way has drawn before, if it is run again. Where a definition has changed since, a sequence may have begun anew.
    pub(super) fn drawn_before(&self, partition: &Partition) -> Option<Draws> {
        let current = self.current.as_ref().filter(|own| own.origin == Origin::Replay);
        let (mut draws, version) = current.and_then(|_| self.replay.drawn_now().cloned())?;
        if version != self.committed(partition).version {
            draws.numbers.clear();
        }
        Some(draws)
    }

    /// What the statement has drawn since, and the version of the catalog then. Numbers of sequences that the block itself may have made or changed
    /// are not among them.
    pub(super) fn drawn(&self) -> (Draws, u64) {
        let has_own = self.transaction.as_ref().is_some_and(|open| open.catalog.is_some());
        let numbers = self.taken.drawn.numbers.as_ref().filter(|_| !has_own);
        let draws = Draws {
            random: (self.random != self.random_before).then(|| self.random_before.state()),
            numbers: numbers.cloned().unwrap_or_default(),
        };
        (draws, self.taken.drawn.version)
    }

    /// The next statement is one that is run again, and has drawn this before on another node.
    pub fn draw_again(&mut self, draws: Option<Draws>) {
        self.draws_given = draws;
    }
}
