//! One item: the newest committed row, what older snapshots still need, who has read it, and who is about to write it.
//!
//! A committed formula is folded into the row at once; what older live snapshots see is kept as *undo* (the former values of
//! the changed columns), one entry for each live snapshot at most (protocol.md section 4, fold). Pending formulas stand in
//! `intents`, in order of arrival, together with the places of read-to-write transactions: one list is both the paper's
//! formula list and the queue.

use crate::api::Change;
use crate::live::LiveSnapshots;
use crate::rules::{Rule, is_kept};
use crate::tail::Tail;
use crate::undecided::Retained;
use crate::versions::{Undo, UndoChange, Versions};
use rubato_base::{ColumnSet, Key, Lsn, Result, Row, Timestamp, TransactionId, Value};
use rubato_formula::{Formula, RowBounds};
use smallvec::SmallVec;
use std::borrow::Cow;

/// The largest timestamps at which the item was read, by columns. Never lowered while the item is in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadMarks(pub(crate) [(ColumnSet, Timestamp); 2]);

impl ReadMarks {
    pub(crate) fn all_at(ts: Timestamp) -> ReadMarks {
        ReadMarks([(ColumnSet::ALL, ts), (ColumnSet::EMPTY, Timestamp::ZERO)])
    }

    pub(crate) fn raise(&mut self, columns: ColumnSet, ts: Timestamp) {
        let [first, second] = &mut self.0;
        for mark in [&mut *first, &mut *second] {
            if mark.0 == columns {
                mark.1 = mark.1.max(ts);
                return;
            }
        }
        for mark in [&*first, &*second] {
            if mark.0.covers(columns) && mark.1 >= ts {
                return;
            }
        }
        // A new set of columns takes the place of the older mark, which the younger one absorbs unless it is empty: a mark may
        // say too much, never too little.
        let older = if first.1 <= second.1 { first } else { second };
        if older.0.is_empty() || older.1 == Timestamp::ZERO {
            *older = (columns, ts);
        } else {
            *older = (older.0.union(columns), older.1.max(ts));
        }
    }

    /// The largest timestamp at which one of `columns` was read.
    pub(crate) fn floor(&self, columns: ColumnSet) -> Timestamp {
        self.0
            .iter()
            .filter(|mark| mark.0.intersects(columns))
            .map(|mark| mark.1)
            .max()
            .unwrap_or_default()
    }

    pub(crate) fn highest(&self) -> Timestamp {
        self.0[0].1.max(self.0[1].1)
    }
}

/// A transaction's place on an item: what it has read to write, and its pending formulas.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) transaction: TransactionId,
    /// The columns that it has read to write, or waits for its turn to; empty for a transaction that only places blind formulas.
    pub(crate) ordered: ColumnSet,
    /// Those of them for which its turn has not come yet.
    pub(crate) awaited: ColumnSet,
    /// The columns that its changes write.
    pub(crate) written: ColumnSet,
    /// Its pending changes, oldest first.
    pub(crate) changes: SmallVec<[Change; 1]>,
    /// Set while its transaction is prepared: the smallest place that it may take.
    pub(crate) floor: Option<Timestamp>,
    /// The bounds under which its blind formulas were let through (escrow).
    pub(crate) claimed_under: RowBounds,
    /// Formulas that were let through under bounds and undone again by ROLLBACK TO SAVEPOINT: that they kept the bounds was told.
    pub(crate) withdrawn: Vec<Formula>,
}

impl Intent {
    /// The columns that it has read to write in its turn.
    pub(crate) fn read(&self) -> ColumnSet {
        ColumnSet(self.ordered.0 & !self.awaited.0)
    }
}

/// What an item has only while somebody is about to write it, or did and is not folded yet. It goes as soon as that is over: kept
/// with older versions it stayed with each changed row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hot {
    /// In order of arrival. Mostly there is one.
    pub(crate) intents: SmallVec<[Intent; 1]>,
    /// Committed formulas above a prepared one that is not decided yet, in order of their places (see `undecided.rs`).
    pub(crate) above: Vec<Retained>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    /// Its key, by which an exact look-up knows it.
    pub(crate) key: Key,
    /// The newest committed row; `None` if there is none (never was, or deleted).
    pub(crate) row: Option<Row>,
    /// The commit timestamp of the newest committed change.
    pub(crate) cts: Timestamp,
    /// Behind the log record of that change.
    pub(crate) lsn: Lsn,
    pub(crate) marks: ReadMarks,
    /// Grows when the slot is left by its key.
    pub(crate) generation: u32,
    /// Changed since the last checkpoint took it.
    pub(crate) dirty: bool,
    /// A checkpoint has taken it and has not said that it is in the store.
    pub(crate) flushing: bool,
    /// Used since the evicting hand last passed.
    pub(crate) referenced: bool,
    /// It came into being at `cts`: whoever reads below sees no row, and no version has to say so. There is none then.
    pub(crate) is_new: bool,
    pub(crate) versions: Versions,
    pub(crate) hot: Option<Box<Hot>>,
}

impl Item {
    pub(crate) fn hot(&mut self) -> &mut Hot {
        self.hot.get_or_insert_with(Box::default)
    }

    pub(crate) fn intents(&self) -> &[Intent] {
        self.hot.as_ref().map_or(&[], |hot| &hot.intents)
    }

    pub(crate) fn intent(&self, transaction: TransactionId) -> Option<&Intent> {
        self.intents().iter().find(|intent| intent.transaction == transaction)
    }

    /// The transaction's intent, appended at the end if it has none.
    pub(crate) fn intent_or_new(&mut self, transaction: TransactionId) -> &mut Intent {
        let intents = &mut self.hot().intents;
        let at = intents
            .iter()
            .position(|intent| intent.transaction == transaction)
            .unwrap_or_else(|| {
                intents.push(Intent {
                    transaction,
                    ordered: ColumnSet::EMPTY,
                    awaited: ColumnSet::EMPTY,
                    written: ColumnSet::EMPTY,
                    changes: SmallVec::new(),
                    floor: None,
                    claimed_under: RowBounds::default(),
                    withdrawn: Vec::new(),
                });
                intents.len() - 1
            });
        &mut intents[at]
    }

    pub(crate) fn remove_intent(&mut self, transaction: TransactionId) -> Option<Intent> {
        let hot = self.hot.as_mut()?;
        let at = hot
            .intents
            .iter()
            .position(|intent| intent.transaction == transaction)?;
        let intent = hot.intents.remove(at);
        self.cool();
        Some(intent)
    }

    /// Gives the hot part back when nothing is left in it.
    pub(crate) fn cool(&mut self) {
        if self
            .hot
            .as_ref()
            .is_some_and(|hot| hot.intents.is_empty() && hot.above.is_empty())
        {
            self.hot = None;
        }
    }

    /// The committed row at `ts`, which a live transaction reads or which is not below the newest version.
    ///
    /// Rule R-1: formulas with `cts <= ts`; whoever is pending is passed by.
    pub(crate) fn committed_at(&self, ts: Timestamp, tail: &Tail) -> Option<Cow<'_, Row>> {
        let mut row = tail.whole_of(&self.row);
        if self.cts <= ts {
            return row;
        }
        if self.is_new {
            return None;
        }
        for undo in self.versions.iter() {
            row = match &undo.change {
                UndoChange::Row(former) => tail.whole_of(former),
                UndoChange::Columns(columns) => row.map(|row| {
                    let mut row = row.into_owned();
                    row.set(columns);
                    Cow::Owned(row)
                }),
            };
            if undo.cts <= ts {
                break;
            }
        }
        row
    }

    /// The row as it is kept, if every transaction whose snapshot is at `ts` sees it as it is: it is the newest, and nobody is
    /// about to change it.
    #[inline]
    pub(crate) fn untouched_at(&self, ts: Timestamp) -> Option<&Row> {
        self.row.as_ref().filter(|_| self.hot.is_none() && self.cts <= ts)
    }

    /// Whether the version at `when` is still known: the newest is, and those that live snapshots read are.
    ///
    /// Rule V-3: a version that is not known is not taken for the same.
    pub(crate) fn knows(&self, when: Timestamp) -> bool {
        if !is_kept(Rule::V3) {
            return true;
        }
        let mut older = self.versions.iter();
        self.cts <= when || self.is_new || older.any(|undo| undo.cts <= when && when < undo.until)
    }

    /// Replaces the newest version by `row`.
    ///
    /// Rule F-1: what live snapshots before `cts` still read is kept.
    pub(crate) fn install(&mut self, effect: Effect, (cts, lsn): (Timestamp, Lsn), live: &LiveSnapshots, tail: &Tail) {
        if let (Effect::Columns(_), Some(row)) = (&effect, &mut self.row) {
            tail.complete(row);
        }
        self.keep_version(&effect, cts, live);
        match effect {
            Effect::Columns(columns) => {
                if let Some(row) = self.row.as_mut() {
                    row.set(&columns);
                }
            }
            Effect::Row(row) => self.row = row,
        }
        self.cts = cts;
        self.lsn = lsn;
        self.referenced = true;
        self.cool();
    }

    /// Keeps what the effect at `cts` is about to replace, if a live snapshot reads it.
    fn keep_version(&mut self, effect: &Effect, cts: Timestamp, live: &LiveSnapshots) {
        let needed = live.any_in(self.cts, cts) && is_kept(Rule::F1);
        if std::mem::take(&mut self.is_new) && live.any_in(Timestamp::ZERO, self.cts) {
            self.versions.push(Undo {
                cts: Timestamp::ZERO,
                until: self.cts,
                change: UndoChange::Row(None),
            });
        }
        if !needed && self.versions.is_empty() {
            return;
        }
        if self.row.is_none() && self.cts == Timestamp::ZERO && self.versions.is_empty() {
            self.is_new = true;
            return;
        }
        self.versions.push(Undo {
            cts: self.cts,
            until: cts,
            change: self.former(effect),
        });
        self.versions.prune(cts, needed, live);
    }

    fn former(&self, effect: &Effect) -> UndoChange {
        match (effect, &self.row) {
            (Effect::Columns(columns), Some(row)) => {
                UndoChange::Columns(columns.iter().map(|(column, _)| (*column, row.get(*column))).collect())
            }
            (_, row) => UndoChange::Row(row.clone()),
        }
    }

    /// Drops undo that no live snapshot needs any more.
    pub(crate) fn prune(&mut self, live: &LiveSnapshots) {
        self.versions.prune(self.cts, false, live);
        self.is_new &= live.any_in(Timestamp::ZERO, self.cts);
    }
}

impl Intent {
    /// The intent as a committed change that cannot be folded yet.
    pub(crate) fn into_retained(self, cts: Timestamp, lsn: Lsn) -> Retained {
        Retained {
            cts,
            lsn,
            written: self.written,
            changes: self.changes,
        }
    }
}

/// What a commit does to an item, evaluated.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// New values of columns of a row that stays.
    Columns(Vec<(usize, Value)>),
    /// A new row, or none.
    Row(Option<Row>),
}

/// Applies pending changes to a row that is visible and has all columns.
pub(crate) fn apply_changes<'a>(
    row: Option<Cow<'a, Row>>,
    changes: &[Change],
    tail: &Tail,
) -> Result<Option<Cow<'a, Row>>> {
    let mut row = row;
    for change in changes {
        row = match change {
            // The transaction may have added a column since.
            Change::Insert(new) | Change::Replace(new) => Some(tail.whole(Cow::Owned(new.clone()))),
            Change::Delete => None,
            Change::Update(formula) => match row {
                Some(row) => {
                    let values = formula.apply(row.as_ref().as_ref())?;
                    let mut row = row.into_owned();
                    row.set(&values);
                    Some(Cow::Owned(row))
                }
                None => None,
            },
        };
    }
    Ok(row)
}

/// Errors: as [`apply_changes`] over the row as it is kept. What need not be made to know that is not made.
pub(crate) fn check_changes(row: &Option<Row>, changes: &[Change], tail: &Tail) -> Result<()> {
    match changes {
        [Change::Insert(_) | Change::Replace(_) | Change::Delete] => Ok(()),
        [Change::Update(formula)] => match tail.whole_of(row) {
            Some(row) => formula.apply(row.as_ref().as_ref()).map(drop),
            None => Ok(()),
        },
        several => apply_changes(tail.whole_of(row), several, tail).map(drop),
    }
}

/// Whether two versions agree on `columns` (and on existence, always).
pub(crate) fn same(a: Option<&Row>, b: Option<&Row>, columns: ColumnSet) -> bool {
    let (a, b) = match (a, b) {
        (None, None) => return true,
        (Some(a), Some(b)) => (a.as_ref(), b.as_ref()),
        _ => return false,
    };
    let count = a.column_count().max(b.column_count());
    (0..count)
        .filter(|column| columns.contains_column(*column))
        .all(|column| a.encoded(column) == b.encoded(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(a: i32, b: i32) -> Row {
        Row::from_values(&[Value::Int4(a), Value::Int4(b)])
    }

    fn seen(item: &Item, ts: u64) -> Option<Row> {
        item.committed_at(Timestamp(ts), &Tail::default()).map(Cow::into_owned)
    }

    #[test]
    fn a_mark_may_say_too_much_and_never_too_little() {
        let sets = [
            ColumnSet::column(0),
            ColumnSet::column(1),
            ColumnSet::EXISTENCE,
            ColumnSet::ALL,
            ColumnSet(6),
        ];
        let mut state = 1u64;
        for _ in 0..500 {
            let mut marks = ReadMarks::default();
            let mut reads = Vec::new();
            for _ in 0..8 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let (columns, ts) = (sets[(state >> 33) as usize % sets.len()], Timestamp((state >> 40) % 50));
                marks.raise(columns, ts);
                reads.push((columns, ts));
                for (read, at) in &reads {
                    assert!(marks.floor(*read) >= *at, "{reads:?} {marks:?}");
                }
            }
        }
    }

    #[test]
    fn old_snapshots_see_old_versions_and_memory_is_one_entry_for_each() {
        let mut live = LiveSnapshots::default();
        live.insert(Timestamp(10));
        let mut item = Item {
            row: Some(row(0, 0)),
            cts: Timestamp(5),
            ..Item::default()
        };
        for step in 1..=1000u64 {
            let ts = 10 + step * 2;
            // A short transaction is always live beside the long reader at 10.
            live.insert(Timestamp(ts - 1));
            let columns = vec![(0, Value::Int4(step as i32))];
            let place = (Timestamp(ts), Lsn(step));
            item.install(Effect::Columns(columns), place, &live, &Tail::default());
            assert_eq!(seen(&item, 10), Some(row(0, 0)));
            assert_eq!(seen(&item, ts - 1), Some(row(step as i32 - 1, 0)));
            live.remove(Timestamp(ts - 1));
            assert!(item.hot.is_none() && item.versions.len() <= 8);
        }
        live.remove(Timestamp(10));
        item.prune(&live);
        assert!(item.versions.is_empty());
    }

    #[test]
    fn a_row_that_is_new_needs_no_version_until_it_changes() {
        let mut live = LiveSnapshots::default();
        live.insert(Timestamp(5));
        let mut item = Item::default();
        let new = Effect::Row(Some(row(1, 1)));
        item.install(new, (Timestamp(10), Lsn(1)), &live, &Tail::default());
        assert!(item.versions.is_empty() && item.knows(Timestamp(5)));
        assert_eq!((seen(&item, 5), seen(&item, 10)), (None, Some(row(1, 1))));
        live.insert(Timestamp(15));
        let change = Effect::Columns(vec![(1, Value::Int4(2))]);
        item.install(change, (Timestamp(20), Lsn(2)), &live, &Tail::default());
        assert_eq!(item.versions.len(), 2);
        assert_eq!(
            (seen(&item, 5), seen(&item, 15), seen(&item, 20)),
            (None, Some(row(1, 1)), Some(row(1, 2)))
        );
        live.remove(Timestamp(5));
        item.prune(&live);
        assert_eq!((item.versions.len(), seen(&item, 15)), (1, Some(row(1, 1))));
        assert!(!item.knows(Timestamp(5)));
    }

    #[test]
    fn undo_crosses_deletion_and_other_columns() {
        let mut live = LiveSnapshots::default();
        live.insert(Timestamp(1));
        live.insert(Timestamp(25));
        let mut item = Item {
            row: Some(row(1, 1)),
            cts: Timestamp(0),
            ..Item::default()
        };
        let effects = [
            (10, Effect::Columns(vec![(0, Value::Int4(2))])),
            (20, Effect::Columns(vec![(1, Value::Int4(3))])),
            (30, Effect::Row(None)),
            (40, Effect::Row(Some(row(9, 9)))),
        ];
        for (ts, effect) in effects {
            item.install(effect, (Timestamp(ts), Lsn(ts)), &live, &Tail::default());
        }
        assert_eq!(
            (seen(&item, 1), seen(&item, 25), seen(&item, 40)),
            (Some(row(1, 1)), Some(row(2, 3)), Some(row(9, 9)))
        );
        live.remove(Timestamp(25));
        item.prune(&live);
        assert_eq!((seen(&item, 1), seen(&item, 40)), (Some(row(1, 1)), Some(row(9, 9))));
    }
}
