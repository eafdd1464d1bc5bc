//! Rows of a statement whose parts are run ahead of their turn, to ask other nodes for all that they need together.
//!
//! A row that has to wait for another node takes those behind it along: their parts are run on trial, one pass after the other, until
//! each has all its answers; what a trial does here is undone, what it asks of other nodes is done there. Then the rows are done in
//! order, and find their answers.
//!
//! Invariants:
//! - Rows that are ahead together are independent: no two touch the same place if one of them changes it. So it is all the same that
//!   their operations are not in the order of the rows. When two are found not to be, what all of them have had done is taken back, and
//!   they are done one by one.
//! - No row is done before the trials of all have come to their end: only so can they be taken back together.
//! - Behind a row whose trial fails nothing is run: when its turn comes the statement fails.

use super::ROWS_AHEAD;
use super::conversation::FarMark;
use rubato_base::{Key, NodeId, TableId};
use rubato_formula::Drawn;
use rubato_protocol::grid::{Answer, Operation};
use std::collections::BTreeMap;

/// Bytes that they ask with, after which no row is added.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// A call within the part of a statement that belongs to one row.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) node: NodeId,
    pub(super) number: u32,
    pub(super) operation: Operation,
    pub(super) answer: Option<Answer>,
}

/// What is known of a row whose part is done, or was run ahead.
#[derive(Debug, Default)]
pub(super) struct RowCalls {
    /// Consecutive.
    pub(super) id: u64,
    pub(super) calls: Vec<Call>,
    /// Numbers that were made for the row.
    pub(super) numbers: Vec<u64>,
    /// What it has drawn that is another value each time.
    pub(super) drawn: Option<Drawn>,
    /// Its trial came to its end.
    is_complete: bool,
    /// What its trial came upon, and whether it changes that; a storage without a key is all of it.
    touched: BTreeMap<(TableId, Option<Key>), bool>,
}

impl RowCalls {
    pub(super) fn new(id: u64) -> RowCalls {
        RowCalls {
            id,
            ..RowCalls::default()
        }
    }

    /// It is that of the next row, of which nothing is known: mostly nothing was of this one.
    pub(super) fn begin_next(&mut self, id: u64) {
        let has_none = self.calls.is_empty() && self.numbers.is_empty() && self.touched.is_empty();
        match has_none && self.drawn.is_none() && !self.is_complete {
            true => self.id = id,
            false => *self = RowCalls::new(id),
        }
    }

    pub(super) fn touch(&mut self, storage: TableId, key: Option<&[u8]>, changes: bool) {
        let place = (storage, key.map(Key::from_bytes));
        *self.touched.entry(place).or_default() |= changes;
    }

    /// It begins anew under another number; what it has drawn stays drawn.
    fn begin_anew(&mut self, id: u64) {
        self.id = id;
        self.calls.clear();
        self.touched.clear();
        self.is_complete = false;
    }
}

/// How rows that are run ahead stand.
#[derive(Debug)]
pub(super) struct Ahead {
    /// How many of them there are, from the one whose turn it is; 0: none is run ahead.
    rows: usize,
    /// Of the moment before the first of them.
    pub(super) began: FarMark,
    /// None of them is done yet.
    pub(super) can_be_undone: bool,
    /// They cannot be done together.
    pub(super) must_be_undone: bool,
    /// They were found not to depend on each other, and none was run since: those that are left do not either.
    pub(super) is_checked: bool,
    /// So many rows are done one by one before any is run ahead.
    alone: usize,
    rows_max: usize,
    /// What they ask.
    pub(super) bytes: usize,
    /// Any were since the statement began.
    has_begun: bool,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead {
            rows: 0,
            began: FarMark::default(),
            can_be_undone: true,
            must_be_undone: false,
            is_checked: false,
            alone: 0,
            rows_max: ROWS_AHEAD,
            bytes: 0,
            has_begun: false,
        }
    }
}

impl Ahead {
    /// The statement has ended.
    pub(super) fn end_statement(&mut self) {
        self.bytes = 0;
        if self.has_begun {
            *self = Ahead::default();
        }
    }

    /// Whether rows are run ahead.
    pub(super) fn is_running(&self) -> bool {
        self.rows > 0
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Begins with the row that has to wait: how many there may be. `None`: it is to be done alone.
    pub(super) fn begin(&mut self, began: FarMark) -> Option<usize> {
        if self.alone > 0 || self.is_running() || self.rows_max < 2 {
            return None;
        }
        (self.rows, self.began, self.bytes) = (self.rows_max, began, 0);
        self.has_begun = true;
        (self.can_be_undone, self.must_be_undone) = (true, false);
        Some(self.rows)
    }

    /// There are no more than so many.
    pub(super) fn limit(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
    }

    /// The first one is done with; so many are still known of.
    pub(super) fn on_done(&mut self, known: usize) {
        self.alone = self.alone.saturating_sub(1);
        if self.is_running() {
            self.can_be_undone = false;
            self.rows -= 1;
            if self.rows == 0 {
                // Those behind one that was to fail, and did not.
                self.rows = known;
                self.rows_max = (2 * self.rows_max).min(ROWS_AHEAD);
            }
        }
    }

    /// They are taken back, and done one by one.
    pub(super) fn give_up(&mut self, rows: usize) {
        (self.rows, self.alone, self.must_be_undone) = (0, rows, false);
        self.rows_max = (self.rows_max / 2).max(2);
    }
}

/// Whether two of the rows touch the same place, and one of them changes it.
pub(super) fn depend<'a>(rows: impl Iterator<Item = &'a RowCalls> + Clone) -> bool {
    let mut places: BTreeMap<(TableId, Option<&Key>), bool> = BTreeMap::new();
    // Storage that is changed anywhere, by whom if by one row.
    let mut changed: BTreeMap<TableId, Option<u64>> = BTreeMap::new();
    for row in rows.clone() {
        for ((storage, key), changes) in &row.touched {
            let before = places.get(&(*storage, key.as_ref())).copied();
            if before.is_some_and(|before| before || *changes) {
                return true;
            }
            places.insert((*storage, key.as_ref()), *changes);
            if *changes {
                let by = changed.entry(*storage).or_insert(Some(row.id));
                *by = by.filter(|by| *by == row.id);
            }
        }
    }
    rows.into_iter().any(|row| {
        let mut scanned = row.touched.keys().filter(|(_, key)| key.is_none());
        scanned.any(|(storage, _)| changed.get(storage).is_some_and(|by| *by != Some(row.id)))
    })
}

impl RowCalls {
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn complete(&mut self) {
        self.is_complete = true;
    }

    pub(super) fn renew(rows: &mut dyn Iterator<Item = &mut RowCalls>, from: u64) {
        for (id, row) in (from..).zip(rows) {
            row.begin_anew(id);
        }
    }
}
