//! Which rows an UPDATE or DELETE is about: found at the snapshot, before the first of them is changed.
//!
//! Both the search and the changes go on in slices; where they stand is a [`ChangeRun`].

use super::access::read_entries;
use super::insert::Written;
use super::keys::{distinct_keys, element_keys, point_key};
use super::lock::{indexed_columns, still_reached};
use super::ranges::{access_range, access_ranges};
use super::referential::Effects;
use super::seen::SeenKeys;
use super::sieving::sieve_of_columns;
use super::{BATCH_TUPLES, ExecutionContext, Held, Limits, Turn};
use crate::catalog::Table;
use crate::far::Passage;
use crate::plan::{Access, Relation, Step};
use rubato_base::{ColumnSet, Error, Key, Result, Row, RowRef};
use rubato_formula::{EvalContext, Expr, Formula};
use rubato_protocol::{KeyRange, OnBusy, OrderedRead, Outcome, ScanEnd, Stop};
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::sync::Arc;

/// The keys of the rows concerned.
pub(crate) type TargetKeys = SmallVec<[Key; 1]>;

/// An UPDATE or DELETE under way: the keys of its rows are found, then each row is changed, then foreign keys have their say.
#[derive(Debug, Default)]
pub(crate) struct ChangeRun {
    search: Search,
    /// The ranges to search through, in order, each of the primary key or of an index.
    ranges: Vec<(Option<usize>, KeyRange)>,
    /// The keys that were found, where several ways may lead to one row.
    seen: Option<Box<SeenKeys>>,
    /// Those of an access by several ranges, once somebody has asked whether a row is still within.
    pub(crate) reach: OnceCell<Vec<KeyRange>>,
    keys: TargetKeys,
    /// What another node makes of a row of its own, once it is known whether a formula says that.
    pub(crate) at_once: Option<Option<Box<Formula>>>,
    held: Held,
    /// Where an UPDATE that names rows by their keys has moved some of them, and where the last one.
    moved: Option<Box<SeenKeys>>,
    moved_last: Option<Key>,
    /// The next key whose row is to be changed.
    pub(crate) next: usize,
    pub(crate) written: Written,
    pub(crate) effects: Effects,
}

/// How far the search for the rows is.
#[derive(Debug, Default)]
enum Search {
    #[default]
    Fresh,
    /// The next of the ranges, and what is left of it if it was begun.
    Range(usize, Option<KeyRange>),
    Done,
}

impl ChangeRun {
    /// The key of the next row to be changed, without going past it. `Some(None)`: the context's rows are spent; `None`: there are
    /// no more.
    pub(crate) fn next_key(&self, context: &ExecutionContext<'_>) -> Option<Option<Key>> {
        let key = self.keys.get(self.next)?;
        Some((!context.is_spent()).then(|| key.clone()))
    }

    /// Does `work` with the row of the turn, if there is one; on trial it leaves no trace in the run.
    pub(crate) fn in_turn(
        &mut self,
        turn: Turn,
        work: impl FnOnce(&mut ChangeRun, &Key) -> Outcome<()>,
    ) -> Option<Outcome<()>> {
        let key = self.keys.get(self.next + turn.distance())?.clone();
        match turn {
            Turn::Own => Some(work(self, &key)),
            Turn::Prepared(_) => Some(Ok(())),
            Turn::Trial(_) => {
                let before = (std::mem::take(&mut self.written), std::mem::take(&mut self.effects));
                self.moved_last = None;
                let outcome = work(self, &key);
                (self.written, self.effects) = before;
                if let (Some(moved), Some(last)) = (&mut self.moved, self.moved_last.take()) {
                    moved.forget(&last);
                }
                Some(outcome)
            }
        }
    }

    /// The statement has moved a row to this key. What is named by keys is not read before its turn comes, and this one is not to be taken
    /// for a row that was there.
    pub(crate) fn note_moved(&mut self, key: Key, limits: &Limits) -> Result<()> {
        self.moved_last = Some(key.clone());
        self.moved.get_or_insert_default().insert(key, limits).map(drop)
    }

    /// Whether the row at this key is one that the statement has moved there.
    pub(crate) fn has_moved(&self, key: &Key) -> bool {
        self.moved.as_ref().is_some_and(|moved| moved.has(key))
    }

    /// What the statement did.
    pub(crate) fn take_written(&mut self) -> Written {
        let mut written = std::mem::take(&mut self.written);
        written.found = self.keys.len() as u64;
        written
    }

    /// Takes those back that were found behind so many.
    fn forget_keys(&mut self, kept: usize) {
        if let Some(seen) = &mut self.seen {
            self.keys[kept..].iter().for_each(|key| seen.forget(key));
        }
        self.keys.truncate(kept);
    }

    fn add(&mut self, key: Key, limits: &Limits) -> Result<()> {
        if let Some(seen) = &mut self.seen
            && !seen.insert(key.clone(), limits)?
        {
            return Ok(());
        }
        self.held.add_bytes(size_of::<Key>() + key.heap_bytes(), limits)?;
        self.keys.push(key);
        Ok(())
    }
}

/// A target relation with what its rows must satisfy.
pub(crate) struct Target<'a> {
    pub(crate) table: &'a Arc<Table>,
    step: &'a Step,
    filter: Option<&'a Expr>,
}

impl<'a> Target<'a> {
    /// The target of a statement.
    pub(crate) fn new(step: &'a Step, filter: Option<&'a Expr>) -> Result<Target<'a>> {
        match &step.relation {
            Relation::Table(table) => Ok(Target { table, step, filter }),
            _ => Err(Error::internal("only rows of tables can be changed")),
        }
    }

    /// Whether several rows are named by their keys, some of which may have none.
    pub(crate) fn names_several_keys(&self) -> bool {
        fn names(access: &Access) -> bool {
            match access {
                Access::Points(_) | Access::Elements(_) => true,
                Access::Union(ways) => ways.len() > 1 || ways.iter().any(names),
                Access::Point(_) | Access::Full { .. } | Access::Range(_) | Access::Ranges(_) => false,
            }
        }
        names(&self.step.access)
    }

    /// The columns that the conditions read, with existence.
    pub(crate) fn columns(&self) -> ColumnSet {
        let mut columns = ColumnSet::EXISTENCE;
        for condition in self.conditions() {
            columns = columns.union(condition.columns());
        }
        columns.union(indexed_columns(self.step, self.table))
    }

    fn conditions(&self) -> impl Iterator<Item = &'a Expr> + use<'a> {
        self.step
            .condition
            .iter()
            .chain(&self.step.filter_after)
            .chain(self.filter)
    }

    /// Whether a row that the access has reached satisfies the conditions.
    pub(super) fn accepts(&self, row: RowRef<'_>, evaluation: &EvalContext<'_>) -> Result<bool> {
        for condition in self.conditions() {
            if !condition.is_true(&row, evaluation)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the keys of the rows concerned; false when the context's rows are spent before all are found. Rows named by their
    /// keys are not read: they are read when they are changed.
    pub(crate) fn find(&self, run: &mut ChangeRun, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let found = self.find_more(run, context);
        if found.is_err() && matches!(run.search, Search::Fresh) {
            // What was visited before a wait counts for nothing: it starts over.
            run.keys.clear();
            run.held.clear();
        }
        run.search = found?;
        Ok(matches!(run.search, Search::Done))
    }

    fn find_more(&self, run: &mut ChangeRun, context: &mut ExecutionContext<'_>) -> Outcome<Search> {
        let (mut next, mut rest) = match std::mem::take(&mut run.search) {
            Search::Done => return Ok(Search::Done),
            Search::Fresh => {
                (run.ranges, run.seen) = (Vec::new(), None);
                if matches!(self.step.access, Access::Union(_)) {
                    run.seen = Some(Box::default());
                }
                self.start(&self.step.access, run, context)?;
                (0, None)
            }
            Search::Range(next, rest) => (next, rest),
        };
        while next < run.ranges.len() {
            if context.is_spent() {
                return Ok(Search::Range(next, rest));
            }
            let (index, range) = &run.ranges[next];
            let (index, range) = (*index, rest.take().unwrap_or_else(|| range.clone()));
            let (kept, held) = (run.keys.len(), run.held);
            let found = match index {
                Some(index) => self.scan_index(index, &range, run, context),
                None => self.scan(&range, run, context),
            };
            if matches!(found, Err(Stop::Wait(_))) {
                // It goes on where this piece began.
                run.forget_keys(kept);
                (run.held, run.search) = (held, Search::Range(next, Some(range)));
            }
            rest = found?;
            next += usize::from(rest.is_none());
        }
        Ok(Search::Done)
    }

    /// Finds keys that are known without a search, and the ranges to search through.
    fn start(&self, access: &Access, run: &mut ChangeRun, context: &ExecutionContext<'_>) -> Outcome<()> {
        let (table, evaluation) = (self.table, context.evaluation);
        let keys = match access {
            Access::Point(key) => point_key(table, key, &(), evaluation)?.into_iter().collect(),
            Access::Points(points) => distinct_keys(table, points, &(), evaluation)?,
            Access::Elements(access) => element_keys(table, access, &(), evaluation)?,
            Access::Full { .. } => {
                run.ranges.push((None, KeyRange::WHOLE));
                return Ok(());
            }
            Access::Range(access) => {
                let range = access_range(table, access, &(), evaluation)?;
                run.ranges.extend(range.map(|range| (access.index, range)));
                return Ok(());
            }
            Access::Ranges(access) => {
                let ranges = access_ranges(table, access, &(), context)?;
                run.ranges.extend(ranges.into_iter().map(|range| (access.index, range)));
                return Ok(());
            }
            Access::Union(ways) => return ways.iter().try_for_each(|way| self.start(way, run, context)),
        };
        if run.seen.is_none() {
            run.keys.extend(keys);
            return Ok(());
        }
        Ok(keys.into_iter().try_for_each(|key| run.add(key, &context.limits))?)
    }

    /// Scans until the context's rows are spent; what is left, if anything.
    fn scan(
        &self,
        range: &KeyRange,
        run: &mut ChangeRun,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Option<KeyRange>> {
        let mut failure = None;
        let (evaluation, limits) = (context.evaluation, context.limits);
        let (mut looked_at, rows_left) = (0, context.rows_left);
        let mut visit = |key: &[u8], row: RowRef<'_>| {
            looked_at += 1;
            let taken = self.accepts(row, evaluation).and_then(|accepted| {
                if accepted {
                    run.add(Key::from_bytes(key), &limits)?;
                }
                Ok(())
            });
            failure = taken.err();
            failure.is_none() && looked_at < rows_left
        };
        let sieve = sieve_of_columns(self.conditions(), (self.table.id, range), evaluation, &context.database);
        let how = Passage {
            reverse: false,
            columns: Some(self.columns()),
            sieve: &sieve,
            useful: usize::MAX,
            along: None,
        };
        let (database, transaction) = (&mut context.database, context.transaction);
        let end = database.pass(transaction, (self.table.id, range), how, &mut visit)?;
        context.spend(looked_at as u64 + 1);
        match (failure, end) {
            (Some(error), _) => Err(Stop::Fail(error)),
            (None, ScanEnd::Exhausted) => Ok(None),
            (None, ScanEnd::Stopped(last)) => Ok(Some(range.rest_behind(&last, false))),
        }
    }

    /// Finds the rows of the next entries of an index; what is left, if anything.
    fn scan_index(
        &self,
        index: usize,
        range: &KeyRange,
        run: &mut ChangeRun,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Option<KeyRange>> {
        let has_conditions = self.conditions().next().is_some();
        let columns = self.columns();
        let rows_along = has_conditions.then_some(columns);
        let (found, end) = read_entries(
            self.table,
            index,
            (range, false),
            (BATCH_TUPLES, rows_along),
            true,
            context,
        )?;
        context.spend(found.len() as u64 + 1);
        if has_conditions {
            let database = &mut context.database;
            found
                .iter()
                .for_each(|key| database.want(self.table.id, key.as_bytes(), columns));
        }
        for key in found {
            if has_conditions {
                let database = &mut context.database;
                let row = database.read(context.transaction, self.table.id, key.as_bytes(), columns)?;
                let Some(row) = row else { continue };
                if !self.accepts(Row::as_ref(&row), context.evaluation)? {
                    continue;
                }
            }
            run.add(key, &context.limits)?;
        }
        Ok(match end {
            ScanEnd::Exhausted => None,
            ScanEnd::Stopped(last) => Some(range.rest_behind(&last, false)),
        })
    }

    /// Whether a row that a blind formula is for satisfies the conditions, where finding its key has not looked at them. They
    /// read key columns only, which never change: reading them at the snapshot keeps nobody off.
    pub(crate) fn accepts_unread(&self, key: &Key, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let was_read = matches!(
            self.step.access,
            Access::Full { .. } | Access::Range(_) | Access::Ranges(_)
        );
        if was_read || self.conditions().next().is_none() {
            return Ok(true);
        }
        let database = &mut context.database;
        let row = database.read(context.transaction, self.table.id, key.as_bytes(), self.columns())?;
        Ok(match row {
            Some(row) => self.accepts(Row::as_ref(&row), context.evaluation)?,
            None => false,
        })
    }

    /// Whether its rows are named by their keys, and need not satisfy anything else.
    pub(crate) fn is_named_by_keys(&self) -> bool {
        let by_keys = matches!(
            self.step.access,
            Access::Point(_) | Access::Points(_) | Access::Elements(_)
        );
        by_keys && self.conditions().next().is_none()
    }

    /// Reads a row to write; `None` if it is gone or no longer satisfies the conditions.
    pub(crate) fn read_to_write(
        &self,
        key: &Key,
        columns: ColumnSet,
        reach: &OnceCell<Vec<KeyRange>>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Option<Row>> {
        let database = &mut context.database;
        let read = database.read_for_update(
            context.transaction,
            self.table.id,
            key.as_bytes(),
            columns,
            OnBusy::Queue,
        )?;
        let OrderedRead::Row(Some(row)) = read else {
            return Ok(None);
        };
        let concerned = self.accepts(row.as_ref(), context.evaluation)?
            && still_reached(self.step, self.table, &[], (key, &row), reach, context)?;
        Ok(concerned.then_some(row))
    }
}
