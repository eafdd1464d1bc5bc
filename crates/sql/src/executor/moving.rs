//! Rows that go to other nodes, table by table (decision 0036): they are looked for in one transaction, which protects nothing of them
//! that anybody changes, and moved in the next.

use super::{BATCH_TUPLES, ExecutionContext, Turn, WRITTEN_ROW_COST};
use crate::catalog::{RelationName, Table};
use crate::moves::Searched;
use rubato_base::{Key, NodeId, TableId};
use rubato_protocol::{KeyRange, Outcome, ScanEnd};
use std::ops::Bound;

/// Rows that one search looks at, at most.
const SEARCHED_ROWS_MAX: usize = 100_000;

/// A place in the storage of a table: storage and node by their number, and the last key that was looked at there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovePlace {
    storage: usize,
    node: usize,
    behind: Option<Key>,
}

/// What a step does with rows.
#[derive(Clone, Debug, PartialEq)]
pub enum MoveWork {
    /// Looks for rows that have to move.
    Search {
        /// Where it begins.
        from: MovePlace,
        /// How many it looks for.
        rows_max: usize,
    },
    /// Moves these.
    Move(Vec<(TableId, Key)>),
}

/// One step under way.
#[derive(Debug, Default)]
pub(super) struct MoveRun {
    place: Option<MovePlace>,
    looked_at: usize,
    searched: Searched,
    moved: usize,
}

impl MoveRun {
    /// Goes on; false when the context's rows are spent before all is done.
    pub(super) fn run(
        &mut self,
        (name, work): (&RelationName, &MoveWork),
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        match work {
            MoveWork::Search { from, rows_max } => {
                let table = super::schema::table_of(name, context)?;
                self.place.get_or_insert_with(|| from.clone());
                self.search(&table, *rows_max, context)
            }
            MoveWork::Move(keys) => self.move_rows(keys, context),
        }
    }

    /// What was found.
    pub(super) fn into_searched(self) -> Option<Searched> {
        self.place.is_some().then_some(self.searched)
    }

    fn search(&mut self, table: &Table, rows_max: usize, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let indexes = table.indexes.iter().map(|index| index.id);
        let storages: Vec<TableId> = std::iter::once(table.id).chain(indexes).collect();
        loop {
            let place = self.place.clone().unwrap_or_default();
            let Some(storage) = storages.get(place.storage) else {
                return Ok(true);
            };
            let holders = context.database.former_holders(*storage);
            let Some(node) = holders.get(place.node) else {
                self.go_to(MovePlace {
                    storage: place.storage + 1,
                    ..MovePlace::default()
                });
                continue;
            };
            if self.searched.found.len() >= rows_max || self.looked_at >= SEARCHED_ROWS_MAX {
                self.searched.place.get_or_insert(place);
                return Ok(true);
            }
            if context.is_spent() {
                return Ok(false);
            }
            self.look(place, (*storage, *node), rows_max, context)?;
        }
    }

    fn go_to(&mut self, place: MovePlace) {
        self.place = Some(place);
    }

    /// Looks at some rows of one node.
    fn look(
        &mut self,
        place: MovePlace,
        (storage, node): (TableId, Option<NodeId>),
        rows_max: usize,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let from = place.behind.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange {
            from,
            to: Bound::Unbounded,
        };
        let mut keys: Vec<Key> = Vec::with_capacity(BATCH_TUPLES);
        let end = context
            .database
            .pass_on(context.transaction, node, (storage, &range), &mut |key, _| {
                keys.push(Key::from_bytes(key));
                keys.len() < BATCH_TUPLES
            })?;
        context.spend(keys.len() as u64 + 1);
        let mut reached = place;
        for key in keys {
            if self.searched.found.len() >= rows_max {
                break;
            }
            self.looked_at += 1;
            let moving = context.database.moving(storage, key.as_bytes());
            if moving.is_some_and(|moving| moving.from == node) {
                // The next search begins with the first that was found: it is there if it was not moved.
                self.searched.place.get_or_insert_with(|| reached.clone());
                self.searched.found.push((storage, key.clone()));
            }
            reached.behind = Some(key);
        }
        if matches!(end, ScanEnd::Exhausted) && self.searched.found.len() < rows_max {
            reached = MovePlace {
                storage: reached.storage,
                node: reached.node + 1,
                behind: None,
            };
        }
        self.go_to(reached);
        Ok(())
    }

    fn move_rows(&mut self, keys: &[(TableId, Key)], context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        while self.moved < keys.len() {
            if context.is_spent() {
                return Ok(false);
            }
            let first = self.moved;
            context.row_in_turn(|context, turn| {
                let (storage, key) = keys.get(first + turn.distance())?;
                if matches!(turn, Turn::Prepared(_)) {
                    return Some(Ok(()));
                }
                let Some(moving) = context.database.moving(*storage, key.as_bytes()) else {
                    return Some(Ok(()));
                };
                context.spend(WRITTEN_ROW_COST);
                let moved = context.database.move_row(context.transaction, moving, (*storage, key));
                Some(moved.map(drop))
            })?;
            self.moved += 1;
        }
        Ok(true)
    }
}
