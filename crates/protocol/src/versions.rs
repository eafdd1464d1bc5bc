//! The versions of an item below its newest one, as far as somebody may still read them.
//!
//! Most items have none, and most others one, which stays until the item is changed again or leaves memory. So one takes a single
//! small allocation, apart from what an item has only while somebody is about to write it.

use crate::live::LiveSnapshots;
use rubato_base::{Row, Timestamp, Value};

/// What an older version costs beside large values, about.
const UNDO_BYTES: usize = 128;

/// What leads from a version to the one before it.
#[derive(Clone, Debug)]
pub(crate) struct Undo {
    /// The commit timestamp of the version that it leads to.
    pub(crate) cts: Timestamp,
    /// The commit timestamp of the version that came directly after that one; versions between it and the next entry's were
    /// read by nobody and are gone.
    pub(crate) until: Timestamp,
    pub(crate) change: UndoChange,
}

#[derive(Clone, Debug)]
pub(crate) enum UndoChange {
    /// Former values of columns.
    Columns(Vec<(usize, Value)>),
    /// The former row as a whole, or that there was none.
    Row(Option<Row>),
}

/// The versions of an item, from the newest backwards: the first entry undoes the row as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(Option<Box<Chain>>);

#[derive(Clone, Debug)]
struct Chain {
    newest: Undo,
    /// From the oldest on.
    older: Vec<Undo>,
    /// What all of them cost, about.
    bytes: usize,
}

impl Undo {
    /// What it costs, about.
    fn bytes(&self) -> usize {
        let content = match &self.change {
            UndoChange::Columns(values) => values.iter().map(|(_, value)| value.heap_bytes()).sum(),
            UndoChange::Row(row) => row.as_ref().map_or(0, |row| row.as_bytes().len()),
        };
        UNDO_BYTES + content
    }
}

impl Versions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |chain| 1 + chain.older.len())
    }

    /// What they cost in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |chain| chain.bytes)
    }

    /// From the newest backwards.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Undo> {
        let chain = self.0.iter();
        chain.flat_map(|chain| std::iter::once(&chain.newest).chain(chain.older.iter().rev()))
    }

    /// Puts one above all others.
    pub(crate) fn push(&mut self, undo: Undo) {
        let bytes = undo.bytes();
        match &mut self.0 {
            Some(chain) => {
                chain.bytes += bytes;
                chain.older.push(std::mem::replace(&mut chain.newest, undo));
            }
            None => {
                let (newest, older) = (undo, Vec::new());
                self.0 = Some(Box::new(Chain { newest, older, bytes }));
            }
        }
    }

    /// Keeps one entry for each version that a live snapshot reads, and merges or drops the others. `newest_cts` is the version that
    /// the newest entry undoes; `newest_needed` says that this entry is known to be read.
    pub(crate) fn prune(&mut self, newest_cts: Timestamp, newest_needed: bool, live: &LiveSnapshots) {
        // Merging is amortised: a list is walked when it has grown to twice what the live snapshots can need.
        if newest_needed && self.len() <= 2 * live.len() + 4 {
            return;
        }
        let Some(chain) = self.0.take() else {
            return;
        };
        if chain.older.is_empty() {
            self.0 = live.any_in(chain.newest.cts, newest_cts).then_some(chain);
            return;
        }
        let mut entries = { chain.older.into_iter() }
            .chain(std::iter::once(chain.newest))
            .peekable();
        while let Some(undo) = entries.next() {
            let above = entries.peek().map_or(newest_cts, |newer| newer.cts);
            if live.any_in(undo.cts, above) {
                self.push(undo);
            } else if let Some(kept) = &mut self.0 {
                let before = kept.newest.bytes();
                let older = std::mem::replace(&mut kept.newest.change, UndoChange::Row(None));
                kept.newest.change = undo.change.then(older);
                kept.bytes = kept.bytes + kept.newest.bytes() - before;
            }
        }
    }
}

impl UndoChange {
    /// This change, and `older` after it, as one.
    fn then(self, older: UndoChange) -> UndoChange {
        match (self, older) {
            (_, UndoChange::Row(row)) => UndoChange::Row(row),
            (UndoChange::Row(row), UndoChange::Columns(columns)) => UndoChange::Row(row.map(|mut row| {
                row.set(&columns);
                row
            })),
            (UndoChange::Columns(newer), UndoChange::Columns(mut columns)) => {
                for (column, value) in newer {
                    if !columns.iter().any(|(other, _)| *other == column) {
                        columns.push((column, value));
                    }
                }
                UndoChange::Columns(columns)
            }
        }
    }
}
