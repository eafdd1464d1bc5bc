//! What transactions do, and the definition of strict serializability over what their clients saw.

use std::collections::BTreeMap;

/// A row, by number. Row `x` is kept by node `x % nodes`.
pub type Item = u8;

/// One step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Snapshot read.
    Read(Item),
    /// Blind formulas: `+ n`, `* n`, `= n`.
    Plus(Item, i64),
    /// See [`Op::Plus`].
    Times(Item, i64),
    /// See [`Op::Plus`].
    Set(Item, i64),
    /// Read to write, and add.
    ReadAdd(Item, i64),
    /// Read to write, and write nothing.
    Lock(Item),
    /// Insert a row with the value 100 unless it exists.
    Insert(Item),
    /// Insert a row with the value 100, or add to the one that exists.
    Upsert(Item, i64),
    /// Delete the row if it exists.
    Delete(Item),
    /// The same, and see only whether there was one. Done so by sessions on their own node; elsewhere the row is read.
    Remove(Item),
    /// The number and the sum of all rows of a node.
    Count(u8),
    /// Take back the step before, which was on this row.
    Back(Item),
    /// Give up.
    Rollback,
}

/// A transaction: its steps; it commits at the end unless it gives up before.
pub type Program = Vec<Op>;

/// What a client saw: one entry for each thing that an operation shows.
pub type Seen = Vec<Option<i64>>;

/// All rows.
pub type State = BTreeMap<Item, i64>;

/// What a new row holds.
pub const NEW_ROW: i64 = 100;

impl Op {
    /// The node that has the rows.
    pub fn node(self, nodes: u8) -> u8 {
        match self {
            Op::Read(x) | Op::Plus(x, _) | Op::Times(x, _) | Op::Set(x, _) | Op::ReadAdd(x, _) => x % nodes,
            Op::Lock(x) | Op::Insert(x) | Op::Upsert(x, _) | Op::Delete(x) | Op::Remove(x) | Op::Back(x) => x % nodes,
            Op::Count(node) => node % nodes,
            Op::Rollback => 0,
        }
    }

    /// Whether the operation may change rows.
    pub fn writes(self) -> bool {
        !matches!(self, Op::Read(_) | Op::Count(_) | Op::Back(_) | Op::Rollback)
    }

    /// The operation on the whole state, alone.
    fn apply(self, state: &mut State, nodes: u8, seen: &mut Seen) {
        match self {
            Op::Read(x) | Op::Lock(x) => seen.push(state.get(&x).copied()),
            Op::Plus(x, n) => seen.push(change(state, x, |v| v + n)),
            Op::Times(x, n) => seen.push(change(state, x, |v| v * n)),
            Op::Set(x, n) => seen.push(change(state, x, |_| n)),
            Op::ReadAdd(x, n) => {
                seen.push(state.get(&x).copied());
                change(state, x, |v| v + n);
            }
            Op::Insert(x) => {
                seen.push(state.get(&x).map(|_| 1));
                state.entry(x).or_insert(NEW_ROW);
            }
            Op::Upsert(x, n) => {
                seen.push(state.get(&x).copied());
                if change(state, x, |v| v + n).is_none() {
                    state.insert(x, NEW_ROW);
                }
            }
            Op::Delete(x) => seen.push(state.remove(&x)),
            Op::Remove(x) => seen.push(state.remove(&x).map(|_| 1)),
            Op::Count(node) => {
                let rows = state.iter().filter(|(x, _)| **x % nodes == node % nodes);
                let (count, sum) = rows.fold((0, 0), |(count, sum), (_, v)| (count + 1, sum + v));
                seen.extend([Some(count), Some(sum)]);
            }
            Op::Back(_) | Op::Rollback => {}
        }
    }
}

/// Changes a row; gives 1 if there is one (the row count).
fn change(state: &mut State, x: Item, f: impl Fn(i64) -> i64) -> Option<i64> {
    let value = state.get_mut(&x)?;
    *value = f(*value);
    Some(1)
}

/// How a transaction ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was told that it is committed.
    Committed,
    /// It left no trace.
    RolledBack,
    /// The client never learned: in or out.
    Unknown,
}

/// What is left when everything has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// What each client saw.
    pub seen: Vec<Seen>,
    /// How each transaction ended.
    pub ends: Vec<End>,
    /// For each transaction, those (as bits) that had been acknowledged before it began.
    pub before: Vec<u8>,
    /// The rows at the end.
    pub last: State,
}

/// Whether some order of the committed transactions (and of any of those whose clients never learned), in agreement with real
/// time, explains everything that was seen and what is left.
pub fn is_strictly_serializable(programs: &[Program], start: &State, nodes: u8, history: &History) -> bool {
    let count = programs.len();
    let unknown: Vec<usize> = (0..count).filter(|i| history.ends[*i] == End::Unknown).collect();
    (0..1u32 << unknown.len()).any(|subset| {
        let mut chosen: Vec<usize> = (0..count).filter(|i| history.ends[*i] == End::Committed).collect();
        let among = |at: &usize| subset & (1 << at) != 0;
        chosen.extend((0..unknown.len()).filter(among).map(|at| unknown[at]));
        let attempt = Attempt {
            programs,
            nodes,
            history,
        };
        attempt.extend(&mut chosen, start)
    })
}

struct Attempt<'a> {
    programs: &'a [Program],
    nodes: u8,
    history: &'a History,
}

impl Attempt<'_> {
    /// Puts one of those left next, in every way that what it saw allows.
    fn extend(&self, left: &mut Vec<usize>, state: &State) -> bool {
        if left.is_empty() {
            return *state == self.history.last;
        }
        for at in 0..left.len() {
            let i = left[at];
            let others = left.iter().filter(|other| **other != i);
            let must_wait = others.fold(0u8, |set, other| set | (1 << other)) & self.history.before[i];
            if must_wait != 0 {
                continue;
            }
            let (mut next, mut seen) = (state.clone(), Seen::new());
            let mut before = next.clone();
            for op in &self.programs[i] {
                match op {
                    Op::Back(_) => next.clone_from(&before),
                    op => {
                        before.clone_from(&next);
                        op.apply(&mut next, self.nodes, &mut seen);
                    }
                }
            }
            if seen != self.history.seen[i] {
                continue;
            }
            left.swap_remove(at);
            let found = self.extend(left, &next);
            left.push(i);
            let end = left.len() - 1;
            left.swap(at, end);
            if found {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(programs: &[Program], seen: &[Seen], before: [u8; 2], last: &[(Item, i64)]) -> bool {
        let history = History {
            seen: seen.to_vec(),
            ends: vec![End::Committed; programs.len()],
            before: before.to_vec(),
            last: last.iter().copied().collect(),
        };
        is_strictly_serializable(programs, &State::from([(1, 100), (2, 100)]), 1, &history)
    }

    #[test]
    fn a_lost_update_and_a_write_skew_have_no_order() {
        let both = [vec![Op::Read(1), Op::Plus(1, 7)], vec![Op::Read(1), Op::Plus(1, 5)]];
        let saw = |a, b| [vec![Some(a), Some(1)], vec![Some(b), Some(1)]];
        assert!(judge(&both, &saw(100, 107), [0, 0], &[(1, 112), (2, 100)]));
        assert!(!judge(&both, &saw(100, 100), [0, 0], &[(1, 112), (2, 100)]));
        assert!(!judge(&both, &saw(100, 107), [0, 0], &[(1, 105), (2, 100)]));
        let skew = [vec![Op::Read(1), Op::Plus(2, 7)], vec![Op::Read(2), Op::Plus(1, 5)]];
        assert!(!judge(&skew, &saw(100, 100), [0, 0], &[(1, 105), (2, 107)]));
    }

    #[test]
    fn an_order_against_real_time_is_none() {
        let programs = [vec![Op::Read(1)], vec![Op::Plus(1, 7)]];
        let seen = [vec![Some(100)], vec![Some(1)]];
        assert!(judge(&programs, &seen, [0, 0], &[(1, 107), (2, 100)]));
        // The reader began after the writer was acknowledged, and did not see it.
        assert!(!judge(&programs, &seen, [2, 0], &[(1, 107), (2, 100)]));
    }

    #[test]
    fn who_never_learned_is_in_or_out_and_not_by_half() {
        let programs = [vec![Op::Plus(1, 7), Op::Plus(2, 7)]];
        let history = |last: [(Item, i64); 2]| History {
            seen: vec![vec![Some(1), Some(1)]],
            ends: vec![End::Unknown],
            before: vec![0],
            last: State::from(last),
        };
        let start = State::from([(1, 100), (2, 100)]);
        let judge = |last| is_strictly_serializable(&programs, &start, 2, &history(last));
        assert!(judge([(1, 100), (2, 100)]) && judge([(1, 107), (2, 107)]));
        assert!(!judge([(1, 107), (2, 100)]));
    }
}
