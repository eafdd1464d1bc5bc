//! Row locks: rows are read to write, and what the statement asked of them is asked again of their newest value.

use super::ExecutionContext;
use super::access::{StepState, StepView, fill};
use super::keys::{entry_key, in_range};
use super::ranges::{access_range, access_ranges, in_ranges};
use crate::catalog::Table;
use crate::plan::{Access, JoinKind, LockWait, Relation, SelectPlan, Step};
use crate::planner::expressions;
use rubato_base::{ColumnSet, Error, Key, Row, SqlState, TableId, Value};
use rubato_formula::Expr;
use rubato_protocol::{KeyRange, OnBusy, OrderedRead, Outcome, Stop};
use std::cell::OnceCell;

/// Reads a row to write. `None` if there is no such row, or if it is busy and shall be left out; 55P03 for NOWAIT.
pub(crate) fn read_locked(
    table: &Table,
    key: &Key,
    columns: ColumnSet,
    wait: LockWait,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Row>> {
    let on_busy = if wait == LockWait::Queue {
        OnBusy::Queue
    } else {
        OnBusy::Tell
    };
    match context
        .database
        .read_for_update(context.transaction, table.id, key.as_bytes(), columns, on_busy)?
    {
        OrderedRead::Row(row) => Ok(row),
        OrderedRead::Busy if wait == LockWait::SkipLocked => Ok(None),
        OrderedRead::Busy => {
            let message = format!("could not obtain lock on row in relation \"{}\"", table.name);
            Err(Stop::Fail(Error::new(SqlState::LOCK_NOT_AVAILABLE, message)))
        }
    }
}

/// Locks the rows of a joined tuple that were read at the snapshot. `false` if the tuple is to be left out.
pub(crate) fn lock_tuple(
    plan: &SelectPlan,
    states: &[StepState],
    tuple: &mut [Value],
    context: &mut ExecutionContext<'_>,
) -> Outcome<bool> {
    let peeks = states
        .iter()
        .any(|state| state.lock.is_some_and(|lock| lock.peeks() && !lock.at_once));
    // Nothing is locked of a tuple that is then left out.
    if peeks && !refresh(plan, states, &mut tuple.to_vec(), &mut peek_row, context)? {
        return Ok(false);
    }
    refresh(plan, states, tuple, &mut read_locked, context)
}

/// Asks other nodes for the locks of tuples that are locked soon, so that those of several are asked for together; `in_order` as
/// [`crate::far::Rows::want_locks`].
pub(crate) fn lock_tuples_ahead<'t>(
    plan: &SelectPlan,
    states: &[StepState],
    tuples: impl IntoIterator<Item = &'t [Value]>,
    in_order: bool,
    context: &mut ExecutionContext<'_>,
) {
    let tuples = tuples.into_iter();
    let locks = tuples.flat_map(|tuple| locks_of(plan, states, tuple));
    context.database.want_locks(locks, in_order);
}

/// The rows that a tuple locks, in the order in which it does.
fn locks_of<'a>(
    plan: &'a SelectPlan,
    states: &'a [StepState],
    tuple: &'a [Value],
) -> impl Iterator<Item = (TableId, &'a [u8], ColumnSet)> {
    let steps = plan.steps.iter().zip(states);
    steps.filter_map(move |(step, state)| {
        let lock = state
            .lock
            .filter(|lock| !lock.at_once && lock.wait == LockWait::Queue)?;
        let (Relation::Table(table), Value::Bytea(key)) = (&step.relation, &tuple[lock.key_slot]) else {
            return None;
        };
        Some((table.id, key.as_slice(), locked_columns(step, table)))
    })
}

/// How a row is read again.
type ReadAgain<'a> =
    dyn FnMut(&Table, &Key, ColumnSet, LockWait, &mut ExecutionContext<'_>) -> Outcome<Option<Row>> + 'a;

/// Reads the rows of a tuple that are to be locked once more: whether the statement still wants it.
fn refresh(
    plan: &SelectPlan,
    states: &[StepState],
    tuple: &mut [Value],
    read: &mut ReadAgain<'_>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<bool> {
    let mut fresh = false;
    for (step, state) in plan.steps.iter().zip(states) {
        let (Some(lock), Relation::Table(table)) = (state.lock.filter(|lock| !lock.at_once), &step.relation) else {
            continue;
        };
        let Value::Bytea(key) = &tuple[lock.key_slot] else {
            continue;
        };
        let key = Key::from_bytes(key);
        let Some(row) = read(table, &key, locked_columns(step, table), lock.wait, context)? else {
            return Ok(false);
        };
        if !still_reached(step, table, tuple, (&key, &row), &state.reach, context)? {
            return Ok(false);
        }
        fill(tuple, step, row.as_ref());
        fresh = true;
    }
    if !fresh {
        return Ok(true);
    }
    for condition in plan.steps.iter().flat_map(conditions) {
        if !condition.is_true(&*tuple, context.evaluation)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A row that nobody else is about to write, without locking it.
fn peek_row(
    table: &Table,
    key: &Key,
    _: ColumnSet,
    _: LockWait,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Row>> {
    match context.database.peek(context.transaction, table.id, key.as_bytes())? {
        OrderedRead::Row(row) => Ok(row),
        OrderedRead::Busy => Ok(None),
    }
}

/// What a tuple with fresh rows must still satisfy. The partner of a left join stays the one that was found.
fn conditions(step: &Step) -> impl Iterator<Item = &Expr> {
    step.condition
        .iter()
        .filter(|_| step.join == JoinKind::Inner)
        .chain(&step.filter_after)
}

fn locked_columns(step: &Step, table: &Table) -> ColumnSet {
    step.reads.union(indexed_columns(step, table))
}

/// The columns of the secondary index by which rows are found.
pub(crate) fn indexed_columns(step: &Step, table: &Table) -> ColumnSet {
    let index = match &step.access {
        Access::Range(access) => access.index,
        Access::Ranges(access) => access.index,
        Access::Point(_) | Access::Points(_) | Access::Elements(_) | Access::Union(_) | Access::Full { .. } => None,
    };
    index.map_or(ColumnSet::EMPTY, |index| table.read_by_index(&table.indexes[index]))
}

/// Whether the access would still find the row: a primary key never changes, the place in an index may. `reach` keeps the ranges of
/// an access that is the same for every tuple.
pub(crate) fn still_reached(
    step: &Step,
    table: &Table,
    outer: &[Value],
    (key, row): (&Key, &Row),
    reach: &OnceCell<Vec<KeyRange>>,
    context: &ExecutionContext<'_>,
) -> Outcome<bool> {
    let view = StepView {
        outer,
        step,
        row: row.as_ref(),
    };
    let entry = |index: usize| entry_key(table, &table.indexes[index], row, key.as_bytes());
    match &step.access {
        Access::Range(access) => {
            let Some(index) = access.index else { return Ok(true) };
            let range = access_range(table, access, &view, context.evaluation)?;
            let entry = entry(index)?;
            Ok(range.is_some_and(|range| entry.is_some_and(|entry| in_range(&range, &entry))))
        }
        Access::Ranges(access) => {
            let Some(index) = access.index else { return Ok(true) };
            if let Some(ranges) = reach.get() {
                return Ok(entry(index)?.is_some_and(|entry| in_ranges(ranges, &entry)));
            }
            let ranges = access_ranges(table, access, &view, context)?;
            let found = entry(index)?.is_some_and(|entry| in_ranges(&ranges, &entry));
            let mut is_constant = true;
            expressions(&step.access, &mut |expr| is_constant &= expr.is_constant());
            if is_constant {
                reach.get_or_init(|| ranges);
            }
            Ok(found)
        }
        // The condition that the union stands for is asked again.
        Access::Point(_) | Access::Points(_) | Access::Elements(_) | Access::Union(_) | Access::Full { .. } => Ok(true),
    }
}
