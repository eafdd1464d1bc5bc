//! What a statement leaves of each row, where all rows of its table are laid anew (see `session/anew.rs`).

use super::ExecutionContext;
use super::constraints::{check_options, check_row};
use super::keys::{distinct_keys, element_keys, entry_key, point_key};
use super::ranges::{access_range, access_ranges, in_ranges};
use super::rows::{ChangedRow, complete_changes};
use super::targets::Target;
use super::update::values_of;
use crate::catalog::Table;
use crate::plan::{Access, Plan, PlanBody, UpdatePlan};
use rubato_base::{ColumnSet, Error, Key, Result, Row, Value};
use rubato_formula::{EvalContext, Tuple};
use rubato_protocol::{KeyRange, Outcome};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// What is left of a row.
pub(super) enum Left {
    /// The statement is not about it.
    Same,
    /// Its new values, which satisfy what the table says of a row alone.
    Changed(Row),
    /// Nothing.
    Gone,
}

/// The rows that the access of a statement reaches.
#[derive(Debug, Default)]
pub(super) struct Reach {
    is_all: bool,
    keys: BTreeSet<Key>,
    /// Of the primary key or of an index, each in order and apart from each other.
    ranges: Vec<(Option<usize>, Vec<KeyRange>)>,
}

impl Reach {
    fn of(access: &Access, table: &Table, context: &ExecutionContext<'_>) -> Result<Reach> {
        let mut reach = Reach::default();
        reach.add(access, table, context)?;
        Ok(reach)
    }

    fn add(&mut self, access: &Access, table: &Table, context: &ExecutionContext<'_>) -> Result<()> {
        let evaluation = context.evaluation;
        match access {
            Access::Full { .. } => self.is_all = true,
            Access::Point(key) => self.keys.extend(point_key(table, key, &(), evaluation)?),
            Access::Points(points) => self.keys.extend(distinct_keys(table, points, &(), evaluation)?),
            Access::Elements(access) => self.keys.extend(element_keys(table, access, &(), evaluation)?),
            Access::Range(access) => {
                let range = access_range(table, access, &(), evaluation)?;
                self.ranges.push((access.index, range.into_iter().collect()));
            }
            Access::Ranges(access) => {
                self.ranges
                    .push((access.index, access_ranges(table, access, &(), context)?));
            }
            Access::Union(ways) => ways.iter().try_for_each(|way| self.add(way, table, context))?,
        }
        Ok(())
    }

    fn has(&self, table: &Table, key: &Key, row: &Row) -> Result<bool> {
        if self.is_all || self.keys.contains(key) {
            return Ok(true);
        }
        for (index, ranges) in &self.ranges {
            let is_within = match index {
                None => in_ranges(ranges, key),
                Some(index) => entry_key(table, &table.indexes[*index], row, key.as_bytes())?
                    .is_some_and(|entry| in_ranges(ranges, &entry)),
            };
            if is_within {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What the statement leaves of a row of its table. `reach` is kept from one row to the next.
///
/// Errors: those of the statement, of this row.
pub(super) fn left_of(
    plan: &Plan,
    (key, row): (&Key, &Row),
    reach: &OnceCell<Reach>,
    context: &ExecutionContext<'_>,
) -> Outcome<Left> {
    let (step, filter) = match &plan.body {
        PlanBody::Insert(_) => return Ok(Left::Same),
        PlanBody::Update(update) => (&update.target, update.filter.as_ref()),
        PlanBody::Delete(delete) => (&delete.target, delete.filter.as_ref()),
        _ => return Err(Error::internal("rows are laid anew for a statement that does not change them").into()),
    };
    let target = Target::new(step, filter)?;
    let reach = match reach.get() {
        Some(reach) => reach,
        None => {
            let found = Reach::of(&step.access, target.table, context)?;
            reach.get_or_init(|| found)
        }
    };
    // The conditions of a plan say no more than its access leaves open.
    if !(reach.has(target.table, key, row)? && target.accepts(row.as_ref(), context.evaluation)?) {
        return Ok(Left::Same);
    }
    Ok(match &plan.body {
        PlanBody::Update(update) => Left::Changed(updated(update, &target, row, context.evaluation)?),
        _ => Left::Gone,
    })
}

fn updated(update: &UpdatePlan, target: &Target<'_>, row: &Row, evaluation: &EvalContext<'_>) -> Result<Row> {
    let (table, old) = (target.table, row.as_ref());
    let mut changes = values_of(update, row, evaluation)?;
    complete_changes(table, old, &mut changes, evaluation)?;
    let new = ChangedRow { old, changes: &changes };
    let changed: ColumnSet = changes.iter().map(|change| change.0).collect();
    check_row(table, &new, changed, evaluation)?;
    check_options(table, &new, changed, evaluation)?;
    let values: Vec<Value> = (0..table.columns.len()).map(|column| new.column(column)).collect();
    Ok(Row::from_values(&values))
}
