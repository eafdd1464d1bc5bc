//! Rows of other nodes that come to be read by their keys are asked for together, before the first of them is read.

use super::super::BATCH_TUPLES;
use super::super::keys::point_key;
use super::{ExecutionContext, Reader, StepState};
use crate::catalog::Table;
use crate::far::LOCKED_IN_ORDER_MAX;
use crate::plan::{Access, LockWait, Relation, Step};
use rubato_base::{ColumnSet, Key};

/// Asks for the partners of the tuples that are to be joined, where a key leads to them, or for their locks if they are locked as they are
/// found: of so many tuples at most. A tuple whose key cannot be made fails when its turn comes.
pub(super) fn look_ahead(step: &Step, state: &mut StepState, want: usize, context: &mut ExecutionContext<'_>) {
    let (Relation::Table(table), Access::Point(key)) = (&step.relation, &step.access) else {
        return;
    };
    let may_lock = state
        .lock
        .is_none_or(|lock| lock.at_once && lock.wait == LockWait::Queue);
    if state.next_input == 0 {
        state.asked_ahead = 0;
    }
    // Rows are asked for once for all tuples; locks as far as tuples are wanted by now, those of a few each in its turn.
    let in_order = state.lock.is_some() && state.input.len() <= LOCKED_IN_ORDER_MAX;
    let from = match in_order {
        true => state.next_input,
        false => state.asked_ahead.max(state.next_input),
    };
    let to = match state.lock {
        None if from > 0 => return,
        None => BATCH_TUPLES,
        Some(_) => state.next_input + want,
    };
    let to = to.min(state.input.len());
    if from >= to || !may_lock || !context.database.may_combine(table.id) {
        return;
    }
    state.asked_ahead = to;
    let evaluation = context.evaluation;
    let tuples = (from..to).map(|index| state.input.tuple(index));
    let keys = tuples.filter_map(|tuple| point_key(table, key, tuple, evaluation).ok().flatten());
    let keys: Vec<Key> = keys.collect();
    if state.lock.is_none() {
        return context.database.look_ahead(table.id, step.reads, &keys);
    }
    let locks = keys.iter().map(|key| (table.id, key.as_bytes(), step.reads));
    context.database.want_locks(locks, in_order);
}

/// The turn of the row at a place among these has come. Before the first is read all are asked for, or their locks if they are locked as
/// they are found: no more of these than are wanted by now. The locks of a few are asked for each in its turn, together with those behind it
/// that its node has. `columns` are those that are read.
pub(super) fn keys_ahead(
    table: &Table,
    (keys, at): (&[Key], usize),
    (columns, want): (ColumnSet, usize),
    reader: &Reader<'_>,
    context: &mut ExecutionContext<'_>,
) {
    match reader.lock {
        None if at == 0 => {
            let count = keys.len().min(BATCH_TUPLES);
            context.database.look_ahead(table.id, reader.step.reads, &keys[..count]);
        }
        Some(lock) if lock.at_once && lock.wait == LockWait::Queue => {
            let end = keys.len().min(at + want.saturating_sub(reader.output.len()));
            let in_order = end <= LOCKED_IN_ORDER_MAX;
            if at == 0 || in_order {
                let locks = keys[at..end].iter().map(|key| (table.id, key.as_bytes(), columns));
                context.database.want_locks(locks, in_order);
            }
        }
        _ => {}
    }
}
