//! The database as SQL defines it: one transaction after the other.

use crate::history::{Change, Key, Row, Step, Table, Transaction};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What the tables hold.
pub type Contents = BTreeMap<Key, Row>;

/// What the tables hold, with a sum by which equal states are known.
#[derive(Clone, Debug, Default)]
pub struct State {
    rows: Contents,
    sum: u64,
}

/// What a transaction replaced, to take it back.
pub type Undo = Vec<(Key, Option<Row>)>;

impl State {
    /// A state with these rows.
    pub fn new(contents: &Contents) -> State {
        let mut state = State::default();
        for (key, row) in contents {
            state.put(*key, Some(row.clone()));
        }
        state
    }

    /// Equal for equal rows.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The rows.
    pub fn rows(&self) -> &Contents {
        &self.rows
    }

    /// Runs a transaction. If what its client saw is not what it sees here, says at which step, and nothing has changed.
    ///
    /// # Errors
    /// The step that does not fit.
    pub fn run<'t>(&mut self, transaction: &'t Transaction) -> Result<Undo, &'t Step> {
        let mut undo = Undo::new();
        let mut saved = 0;
        for step in &transaction.steps {
            let fits = match step {
                Step::Save => {
                    saved = undo.len();
                    true
                }
                Step::Back => {
                    self.take_back(undo.split_off(saved));
                    true
                }
                Step::Change(key, change, found) => self.change(*key, change, *found, &mut undo),
                Step::Insert(key, row, inserted) => self.insert(*key, row, *inserted, &mut undo),
                Step::Attempt(key, change) => {
                    let found = self.rows.contains_key(key);
                    self.change(*key, change, found, &mut undo)
                }
                Step::AttemptInsert(key, row) => {
                    let inserted = !self.rows.contains_key(key);
                    self.insert(*key, row, inserted, &mut undo)
                }
                _ => self.shows(step),
            };
            if !fits {
                self.take_back(undo);
                return Err(step);
            }
        }
        Ok(undo)
    }

    /// Undoes changes.
    pub fn take_back(&mut self, undo: Undo) {
        for (key, row) in undo.into_iter().rev() {
            self.put(key, row);
        }
    }

    fn put(&mut self, key: Key, row: Option<Row>) -> Option<Row> {
        if let Some(row) = &row {
            self.sum ^= hash(&key, row);
        }
        let before = match row {
            Some(row) => self.rows.insert(key, row),
            None => self.rows.remove(&key),
        };
        if let Some(row) = &before {
            self.sum ^= hash(&key, row);
        }
        before
    }

    fn replace(&mut self, key: Key, row: Option<Row>, undo: &mut Undo) {
        let before = self.put(key, row);
        undo.push((key, before));
    }

    fn change(&mut self, key: Key, change: &Change, found: bool, undo: &mut Undo) -> bool {
        let Some(row) = self.rows.get(&key) else {
            return !found;
        };
        if !found {
            return false;
        }
        let mut row = row.clone();
        match change {
            Change::Add(amount) => row.number += amount,
            Change::Negate => row.number = -row.number,
            Change::Set(number) => row.number = *number,
            Change::Append(element) => row.text.push_str(&format!(" {element}")),
            Change::Regroup(group) => row.group = *group,
            Change::Delete => {
                self.replace(key, None, undo);
                return true;
            }
        }
        if key.0 == Table::Bounded && row.number < 0 {
            return false;
        }
        self.replace(key, Some(row), undo);
        true
    }

    fn insert(&mut self, key: Key, row: &Row, inserted: bool, undo: &mut Undo) -> bool {
        if self.rows.contains_key(&key) == inserted {
            return false;
        }
        if inserted {
            self.replace(key, Some(row.clone()), undo);
        }
        true
    }

    fn range(&self, table: Table, from: i64, to: i64) -> impl Iterator<Item = (&Key, &Row)> {
        self.rows.range((table, from)..=(table, to))
    }

    fn shows(&self, step: &Step) -> bool {
        match step {
            Step::ReadNumber(key, seen) => self.rows.get(key).map(|row| row.number) == *seen,
            Step::ReadText(key, seen) => self.rows.get(key).map(|row| &row.text) == seen.as_ref(),
            Step::ReadRange(table, from, to, seen) => {
                let rows = self.range(*table, *from, *to);
                rows.map(|((_, id), row)| (*id, row.number)).eq(seen.iter().copied())
            }
            Step::ReadGroup(table, group, seen) => {
                let rows = self.range(*table, i64::MIN, i64::MAX);
                let in_group = rows.filter(|(_, row)| row.group == *group);
                in_group.map(|((_, id), _)| *id).eq(seen.iter().copied())
            }
            Step::Total(table, from, to, count, sum) => {
                let numbers = self.range(*table, *from, *to).map(|(_, row)| row.number);
                let found = numbers.fold((0, 0), |(count, sum), number| (count + 1, sum + number));
                found == (*count, *sum)
            }
            Step::ReadAll(table, seen) => {
                let rows = self.range(*table, i64::MIN, i64::MAX);
                rows.map(|((_, id), row)| (*id, row))
                    .eq(seen.iter().map(|(id, row)| (*id, row)))
            }
            Step::Refused(key, amount) => self.rows.get(key).is_some_and(|row| row.number + amount < 0),
            Step::Change(..) | Step::Insert(..) | Step::Attempt(..) | Step::AttemptInsert(..) => true,
            Step::Save | Step::Back => true,
        }
    }
}

fn hash(key: &Key, row: &Row) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, row).hash(&mut hasher);
    hasher.finish()
}
