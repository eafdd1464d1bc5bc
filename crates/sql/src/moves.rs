//! How far tables are whose rows move to other nodes (decision 0036), as the node knows that keeps the catalogs. It is not written down:
//! whoever begins anew looks at all rows again, and finds those only that have not moved.

use crate::executor::MovePlace;
use rubato_base::{Key, TableId, Timestamp};
use std::collections::BTreeMap;

/// Rows that one step moves at most.
pub(crate) const STEP_ROWS_MAX: usize = 10_000;
/// Rows that it moves if nothing is said.
pub(crate) const STEP_ROWS: usize = 1_000;

/// The tables that move, by their storage.
#[derive(Debug, Default)]
pub(crate) struct Moves(BTreeMap<TableId, Moving>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Moving {
    /// Whether it was known by then that new rows are made where they come to be.
    takes_new: bool,
    phase: Phase,
    /// Where the next search begins.
    place: MovePlace,
    /// What the last one has found, which is to move.
    found: Vec<(TableId, Key)>,
    /// What is told to have moved when the next search does not find it any more.
    asked: Vec<(TableId, Key)>,
    rows_moved: u64,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing, as long as a transaction is open that may not know that rows move.
    Begins(Timestamp),
    Searches,
    Moves,
    /// Nothing, as long as a transaction is open that reads rows where they were.
    Ends(Timestamp),
}

/// What a step is to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    /// Transactions have to end first.
    Nothing,
    /// All know where rows are looked for: new ones may be made where they come to be.
    Open,
    Search(MovePlace),
    Move(Vec<(TableId, Key)>),
    /// All rows are where they come to be.
    End,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Searched {
    /// Entries of storage that are to move.
    pub found: Vec<(TableId, Key)>,
    /// Where the next search begins; `None`: there is nothing left.
    pub place: Option<MovePlace>,
}

impl Moves {
    /// What is due of a table. `begun` is when the transaction began that asks, and `oldest` the oldest one of the grid that is open.
    pub(crate) fn due(&mut self, (table, takes_new): (TableId, bool), begun: Timestamp, oldest: Timestamp) -> Due {
        let fresh = || Moving {
            takes_new,
            phase: Phase::Begins(begun),
            place: MovePlace::default(),
            found: Vec::new(),
            asked: Vec::new(),
            rows_moved: 0,
        };
        let moving = self.0.entry(table).or_insert_with(fresh);
        if moving.takes_new != takes_new {
            *moving = fresh();
        }
        match moving.phase {
            Phase::Begins(since) if oldest > since && !takes_new => Due::Open,
            Phase::Begins(since) if oldest > since => {
                moving.phase = Phase::Searches;
                Due::Search(moving.place.clone())
            }
            Phase::Ends(since) if oldest > since => Due::End,
            Phase::Begins(_) | Phase::Ends(_) => Due::Nothing,
            Phase::Searches => Due::Search(moving.place.clone()),
            Phase::Moves => {
                moving.phase = Phase::Searches;
                moving.asked.clone_from(&moving.found);
                Due::Move(std::mem::take(&mut moving.found))
            }
        }
    }

    /// A search of a transaction that began then has ended.
    pub(crate) fn on_searched(&mut self, table: TableId, begun: Timestamp, searched: Searched) {
        let Some(moving) = self.0.get_mut(&table) else {
            return;
        };
        let asked = std::mem::take(&mut moving.asked);
        if searched.found.first() != asked.first() {
            moving.rows_moved += asked.len() as u64;
        }
        moving.phase = match (searched.found.is_empty(), &searched.place) {
            (false, _) => Phase::Moves,
            (true, Some(_)) => Phase::Searches,
            (true, None) => Phase::Ends(begun),
        };
        moving.place = searched.place.unwrap_or_default();
        moving.found = searched.found;
    }

    /// Tables that are not there any more are forgotten.
    pub(crate) fn keep(&mut self, is_there: impl Fn(TableId) -> bool) {
        self.0.retain(|table, _| is_there(*table));
    }

    /// The table rests.
    pub(crate) fn forget(&mut self, table: TableId) {
        self.0.remove(&table);
    }

    /// What is told of a table: its state, and how many entries of its storage have moved.
    pub(crate) fn told(&self, table: TableId) -> (&'static str, u64) {
        match self.0.get(&table) {
            None => ("is to move", 0),
            Some(moving) => {
                let state = match moving.phase {
                    Phase::Begins(_) => "waits to begin",
                    Phase::Searches | Phase::Moves => "moves",
                    Phase::Ends(_) => "waits to end",
                };
                (state, moving.rows_moved)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tick: u64) -> Timestamp {
        Timestamp(tick)
    }

    #[test]
    fn nothing_moves_before_those_have_ended_who_may_not_know_of_it() {
        let (mut moves, table) = (Moves::default(), TableId(7));
        assert_eq!(moves.due((table, false), at(1), at(1)), Due::Nothing);
        assert_eq!(moves.due((table, false), at(3), at(2)), Due::Open);
        assert_eq!(moves.due((table, false), at(4), at(2)), Due::Open, "it was rolled back");
        assert_eq!(
            moves.due((table, true), at(5), at(2)),
            Due::Nothing,
            "whoever makes new rows as before"
        );
        let new = (table, true);
        assert_eq!(moves.due(new, at(9), at(5)), Due::Nothing, "one of that very tick");
        let place = MovePlace::default();
        assert_eq!(moves.due(new, at(9), at(6)), Due::Search(place.clone()));
        let found = vec![(table, Key::of(&[rubato_base::Value::Int4(1)]))];
        let searched = |found: &[(TableId, Key)], place| Searched {
            found: found.to_vec(),
            place,
        };
        moves.on_searched(table, at(9), searched(&found, Some(place.clone())));
        assert_eq!(moves.due(new, at(10), at(6)), Due::Move(found.clone()));
        // It was rolled back: it is found again, and has not moved.
        assert_eq!(moves.due(new, at(11), at(6)), Due::Search(place.clone()));
        moves.on_searched(table, at(11), searched(&found, Some(place.clone())));
        assert_eq!(moves.told(table), ("moves", 0));
        assert_eq!(moves.due(new, at(12), at(6)), Due::Move(found));
        assert_eq!(moves.due(new, at(13), at(6)), Due::Search(place));
        moves.on_searched(table, at(13), searched(&[], None));
        assert_eq!(moves.told(table).1, 1);
        assert_eq!(moves.due(new, at(14), at(13)), Due::Nothing);
        assert_eq!(moves.due(new, at(15), at(14)), Due::End);
    }
}
