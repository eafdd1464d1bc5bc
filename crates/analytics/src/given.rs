//! What was given of a tree's rows, for the case that it has to start again.

use rubato_base::Value;
use rubato_base::codec::encode_value;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Rows that are kept, at most: whoever has been given more cannot have the tree start again.
const ROWS_MAX: usize = 1 << 18;

/// How often each row was given, told apart by two hashes of its values.
pub(crate) struct Given {
    keys: [RandomState; 2],
    rows: HashMap<[u64; 2], u32>,
    state: State,
    /// A row's values as bytes.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Rows are noted.
    Notes,
    /// Too many were given.
    Lost,
    /// The tree has started again: what was given before is passed over.
    PassesOver,
}

impl Default for Given {
    fn default() -> Given {
        Given {
            keys: [RandomState::new(), RandomState::new()],
            rows: HashMap::new(),
            state: State::Notes,
            bytes: Vec::new(),
        }
    }
}

impl Given {
    /// Whether a row is to be given; one that is counts as given.
    pub(crate) fn takes(&mut self, row: &[Value]) -> bool {
        match self.state {
            State::Lost => true,
            State::Notes if self.rows.len() >= ROWS_MAX => {
                (self.state, self.rows) = (State::Lost, HashMap::new());
                true
            }
            State::Notes => {
                let key = self.key_of(row);
                *self.rows.entry(key).or_default() += 1;
                true
            }
            State::PassesOver if self.rows.is_empty() => true,
            State::PassesOver => {
                let key = self.key_of(row);
                let Some(left) = self.rows.get_mut(&key) else {
                    return true;
                };
                *left -= 1;
                if *left == 0 {
                    self.rows.remove(&key);
                }
                false
            }
        }
    }

    /// The tree starts again, and comes upon what was given once more. False if that is not known any more.
    pub(crate) fn start_again(&mut self) -> bool {
        let knows = self.state == State::Notes || self.rows.is_empty() && self.state != State::Lost;
        if knows {
            self.state = State::PassesOver;
        }
        knows
    }

    /// Whether everything that was given before has come again.
    pub(crate) fn is_complete(&self) -> bool {
        self.state != State::PassesOver || self.rows.is_empty()
    }

    fn key_of(&mut self, row: &[Value]) -> [u64; 2] {
        self.bytes.clear();
        row.iter().for_each(|value| encode_value(value, &mut self.bytes));
        [0, 1].map(|key: usize| self.keys[key].hash_one(&self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: i32) -> [Value; 2] {
        [Value::Int4(n), Value::Text(format!("row {n}").into())]
    }

    #[test]
    fn what_was_given_is_passed_over_as_often_as_it_was_given() {
        let mut given = Given::default();
        assert!([1, 2, 2, 3].iter().all(|n| given.takes(&row(*n))));
        assert!(given.is_complete() && given.start_again() && !given.is_complete());
        // In another order, and with more of some.
        let taken: Vec<i32> = [2, 4, 2, 3, 2, 1, 1]
            .into_iter()
            .filter(|n| given.takes(&row(*n)))
            .collect();
        assert_eq!(taken, [4, 2, 1]);
        assert!(given.is_complete());
    }

    #[test]
    fn of_too_many_it_is_not_known() {
        let mut given = Given::default();
        assert!((0..=ROWS_MAX as i32).all(|n| given.takes(&row(n))));
        assert!(!given.start_again());
        assert!(given.takes(&row(0)), "all is given");
    }
}
