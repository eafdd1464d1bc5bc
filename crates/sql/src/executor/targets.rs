//! Which rows an UPDATE or DELETE is about: found at the snapshot, before the first of them is changed.

use super::access::{distinct_keys, read_entries};
use super::keys::{access_range, point_key, rest_of_range, whole_range};
use super::lock::still_reached;
use super::{BATCH_TUPLES, ExecutionContext, Held};
use crate::catalog::Table;
use crate::plan::{Access, Relation, Step};
use rubato_base::{ColumnSet, Error, Key, Result, Row, RowRef};
use rubato_formula::{EvalContext, Expr};
use rubato_protocol::{KeyRange, OnBusy, OrderedRead, Outcome, ScanEnd, Stop};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// The keys of the rows concerned.
pub(crate) type TargetKeys = SmallVec<[Key; 1]>;

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

    /// The columns that the conditions read, with existence.
    pub(crate) fn columns(&self) -> ColumnSet {
        let mut columns = ColumnSet::EXISTENCE;
        for condition in self.conditions() {
            columns = columns.union(condition.columns());
        }
        if let Access::Range(access) = &self.step.access
            && let Some(index) = access.index
        {
            columns = columns.union(self.table.indexes[index].columns.iter().copied().collect());
        }
        columns
    }

    fn conditions(&self) -> impl Iterator<Item = &'a Expr> + use<'a> {
        self.step
            .condition
            .iter()
            .chain(&self.step.filter_after)
            .chain(self.filter)
    }

    fn accepts(&self, row: RowRef<'_>, evaluation: &EvalContext<'_>) -> Result<bool> {
        for condition in self.conditions() {
            if !condition.is_true(&row, evaluation)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The keys of the rows concerned. Rows named by their keys are not read: they are read when they are changed.
    pub(crate) fn find(&self, context: &mut ExecutionContext<'_>) -> Outcome<TargetKeys> {
        match &self.step.access {
            Access::Point(key) => Ok(point_key(self.table, key, &(), context.evaluation)?
                .into_iter()
                .collect()),
            Access::Points(points) => Ok(distinct_keys(self.table, points, &(), context.evaluation)?.into()),
            Access::Full { .. } => self.scan(&whole_range(), context),
            Access::Range(access) => match access_range(self.table, access, &(), context.evaluation)? {
                None => Ok(smallvec![]),
                Some(range) => match access.index {
                    None => self.scan(&range, context),
                    Some(index) => self.scan_index(index, range, context),
                },
            },
        }
    }

    fn scan(&self, range: &KeyRange, context: &mut ExecutionContext<'_>) -> Outcome<TargetKeys> {
        let mut keys = TargetKeys::new();
        let mut held = Held::default();
        let mut failure = None;
        let (evaluation, limits) = (context.evaluation, context.limits);
        let mut visit = |key: &[u8], row: RowRef<'_>| {
            let taken = self.accepts(row, evaluation).and_then(|accepted| {
                if accepted {
                    let key = Key::from_bytes(key);
                    held.add_bytes(size_of::<Key>() + key.heap_bytes(), &limits)?;
                    keys.push(key);
                }
                Ok(())
            });
            failure = taken.err();
            failure.is_none()
        };
        let transaction = context.transaction;
        context
            .database
            .scan(transaction, self.table.id, range, false, self.columns(), &mut visit)?;
        failure.map_or(Ok(keys), |error| Err(Stop::Fail(error)))
    }

    fn scan_index(&self, index: usize, range: KeyRange, context: &mut ExecutionContext<'_>) -> Outcome<TargetKeys> {
        let mut keys = TargetKeys::new();
        let mut held = Held::default();
        let has_conditions = self.conditions().next().is_some();
        let mut rest = range;
        loop {
            let (found, end) = read_entries(self.table, index, &rest, false, BATCH_TUPLES, context)?;
            for key in found {
                if has_conditions {
                    let database = &mut *context.database;
                    let row = database.read(context.transaction, self.table.id, key.as_bytes(), self.columns())?;
                    let Some(row) = row else { continue };
                    if !self.accepts(Row::as_ref(&row), context.evaluation)? {
                        continue;
                    }
                }
                held.add_bytes(size_of::<Key>() + key.heap_bytes(), &context.limits)?;
                keys.push(key);
            }
            match end {
                ScanEnd::Exhausted => return Ok(keys),
                ScanEnd::Stopped(last) => rest = rest_of_range(&rest, &last, false),
            }
        }
    }

    /// Whether a row that a blind formula is for satisfies the conditions, where finding its key has not looked at them. They
    /// read key columns only, which never change: reading them at the snapshot keeps nobody off.
    pub(crate) fn accepts_unread(&self, key: &Key, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let was_read = matches!(self.step.access, Access::Full { .. } | Access::Range(_));
        if was_read || self.conditions().next().is_none() {
            return Ok(true);
        }
        let database = &mut *context.database;
        let row = database.read(context.transaction, self.table.id, key.as_bytes(), self.columns())?;
        Ok(match row {
            Some(row) => self.accepts(Row::as_ref(&row), context.evaluation)?,
            None => false,
        })
    }

    /// Reads a row to write; `None` if it is gone or no longer satisfies the conditions.
    pub(crate) fn read_to_write(
        &self,
        key: &Key,
        columns: ColumnSet,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Option<Row>> {
        let database = &mut *context.database;
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
            && still_reached(self.step, self.table, &[], &row, key, context)?;
        Ok(concerned.then_some(row))
    }
}
