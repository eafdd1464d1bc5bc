//! Committed formulas above a prepared one whose outcome is not known yet.
//!
//! A branch of a transaction over several partitions that is prepared on an item has a *floor*: it will commit at or above it,
//! or not at all. Others go on meanwhile: a blind formula that commits above the floor is kept as it is, unevaluated, and
//! folded in the order of places once the outcome below it is known. So it neither waits nor aborts (promise 2). A reader at
//! or above the floor waits for the outcome, a reader below it does not (promise 3).

use crate::api::Change;
use crate::item::{Effect, Item, apply_changes};
use crate::live::LiveSnapshots;
use crate::rules::{Rule, is_kept};
use crate::tail::Tail;
use rubato_base::{ColumnSet, Lsn, Result, Timestamp, TransactionId};
use smallvec::SmallVec;
use std::borrow::Cow;

/// A committed change that could not be folded yet.
#[derive(Clone, Debug)]
pub(crate) struct Retained {
    pub(crate) cts: Timestamp,
    /// Behind its log record.
    pub(crate) lsn: Lsn,
    pub(crate) written: ColumnSet,
    pub(crate) changes: SmallVec<[Change; 1]>,
}

impl Item {
    /// Committed formulas that are not folded yet.
    pub(crate) fn above(&self) -> &[Retained] {
        self.hot.as_ref().map_or(&[], |hot| &hot.above)
    }

    /// The commit timestamp of the newest committed change, folded or not.
    pub(crate) fn newest_cts(&self) -> Timestamp {
        self.above().last().map_or(self.cts, |last| last.cts)
    }

    /// The smallest place that a prepared branch may still take here.
    pub(crate) fn lowest_floor(&self) -> Option<Timestamp> {
        self.intents().iter().filter_map(|intent| intent.floor).min()
    }

    /// Whether a change that commits at `cts` must be kept unevaluated, because something may still be placed below it.
    ///
    /// Rule F-2: formulas are folded in the order of their places, never past the floor of a prepared branch.
    pub(crate) fn must_retain(&self, cts: Timestamp) -> bool {
        self.lowest_floor().is_some_and(|floor| floor <= cts) && is_kept(Rule::F2)
    }

    /// The prepared transaction for whose outcome a reader of `columns` at `at` must wait.
    ///
    /// Rule P-4: a reader at or above the floor of a prepared branch waits for its outcome if it reads a column that the branch,
    /// or a formula kept above it, writes; a reader below the floor does not wait, and nobody waits for whom is not prepared.
    pub(crate) fn unsettled(&self, reader: TransactionId, columns: ColumnSet, at: Timestamp) -> Option<TransactionId> {
        if self.hot.is_none() || !is_kept(Rule::P4) {
            return None;
        }
        let prepared = |at: Timestamp| {
            let others = self.intents().iter().filter(|intent| intent.transaction != reader);
            others.filter(move |intent| intent.floor.is_some_and(|floor| floor <= at))
        };
        let concerned = prepared(at).find(|intent| intent.written.intersects(columns));
        if let Some(intent) = concerned {
            return Some(intent.transaction);
        }
        let kept = self.hiding(columns, at)?;
        prepared(kept.cts).next().map(|intent| intent.transaction)
    }

    /// Whether the folded row lacks a committed change of these columns at `at`. For the transaction whose own floor keeps that
    /// change from being folded: everybody else waits.
    pub(crate) fn hides(&self, columns: ColumnSet, at: Timestamp) -> bool {
        self.hiding(columns, at).is_some()
    }

    fn hiding(&self, columns: ColumnSet, at: Timestamp) -> Option<&Retained> {
        let hides = |kept: &&Retained| kept.cts <= at && kept.written.intersects(columns);
        self.above().iter().find(hides)
    }

    /// Keeps a committed change above what is undecided, in the order of places.
    pub(crate) fn retain(&mut self, kept: Retained) {
        let above = &mut self.hot().above;
        // Replay gives the changes of one transaction one by one.
        if let Some(same) = above.iter_mut().find(|other| other.cts == kept.cts) {
            same.written = same.written.union(kept.written);
            same.changes.extend(kept.changes);
            same.lsn = same.lsn.max(kept.lsn);
            return;
        }
        let at = above.partition_point(|other| other.cts < kept.cts);
        above.insert(at, kept);
    }

    /// Folds what no prepared branch can come below of any more. Returns whether the row changed.
    ///
    /// A formula that cannot be applied here broke its promise (a blind formula cannot fail, see rule W-2): it is left out.
    pub(crate) fn fold_settled(&mut self, live: &LiveSnapshots, tail: &Tail) -> Folded {
        let mut folded = Folded::default();
        while let Some(first) = self.above().first().map(|first| first.cts) {
            if self.lowest_floor().is_some_and(|floor| floor <= first) && is_kept(Rule::F2) {
                break;
            }
            let kept = self.hot().above.remove(0);
            self.fold(kept, live, tail, &mut folded);
        }
        self.cool();
        folded
    }

    /// Whether a change that commits at `cts` can be folded at once: nothing may still be placed below it, and nothing is kept. A branch
    /// that commits has mostly such ones, and they need no place among those that are kept.
    pub(crate) fn may_fold_now(&self, cts: Timestamp) -> bool {
        self.above().is_empty() && !self.must_retain(cts)
    }

    /// Folds a committed change for which that is so.
    pub(crate) fn fold_now(&mut self, kept: Retained, live: &LiveSnapshots, tail: &Tail) -> Folded {
        let mut folded = Folded::default();
        self.fold(kept, live, tail, &mut folded);
        folded
    }

    fn fold(&mut self, kept: Retained, live: &LiveSnapshots, tail: &Tail, folded: &mut Folded) {
        match self.effect_of(&kept.changes, tail) {
            Ok(Some(effect)) => {
                self.install(effect, (kept.cts, kept.lsn.max(self.lsn)), live, tail);
                folded.changed = true;
            }
            Ok(None) => {}
            Err(_) => folded.failures += 1,
        }
    }

    fn effect_of(&self, changes: &[Change], tail: &Tail) -> Result<Option<Effect>> {
        let row = tail.whole_of(&self.row);
        if let [Change::Update(formula)] = changes {
            let values = row.map(|row| formula.apply(row.as_ref().as_ref())).transpose()?;
            return Ok(values.map(Effect::Columns));
        }
        let after = apply_changes(row, changes, tail)?.map(Cow::into_owned);
        Ok((after.is_some() || self.row.is_some()).then_some(Effect::Row(after)))
    }

    /// Whether others are prepared here, or are kept until those are decided.
    pub(crate) fn has_undecided(&self, own: TransactionId) -> bool {
        let others = self.intents().iter().filter(|intent| intent.transaction != own);
        !self.above().is_empty() || { others }.any(|intent| intent.floor.is_some())
    }

    /// Whether the changes of `own` can be applied wherever the prepared branches come to stand: nobody below, everybody below,
    /// and everybody above.
    ///
    /// Rule P-6: what cannot be evaluated yet is acknowledged only if it can be applied in each of these orders.
    pub(crate) fn survives(&self, own: TransactionId, changes: &[Change], tail: &Tail) -> bool {
        let others = || {
            let intents = self.intents().iter();
            let prepared = intents.filter(move |intent| intent.transaction != own && intent.floor.is_some());
            prepared.map(|intent| &intent.changes[..])
        };
        let kept = || self.above().iter().map(|kept| &kept.changes[..]);
        if !self.has_undecided(own) {
            // All orders are one.
            return self.applies(std::iter::once(changes), tail);
        }
        self.applies(kept().chain([changes]), tail)
            && self.applies(others().chain(kept()).chain([changes]), tail)
            && self.applies(kept().chain([changes]).chain(others()), tail)
    }

    fn applies<'a>(&self, all: impl Iterator<Item = &'a [Change]>, tail: &Tail) -> bool {
        let mut row = tail.whole_of(&self.row);
        for changes in all {
            match apply_changes(row, changes, tail) {
                Ok(next) => row = next,
                Err(_) => return false,
            }
        }
        true
    }
}

/// What folding did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folded {
    pub(crate) changed: bool,
    /// Formulas that could not be applied.
    pub(crate) failures: u64,
}
