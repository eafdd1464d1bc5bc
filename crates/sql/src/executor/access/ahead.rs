//! Rows of other nodes that come to be read by their keys are asked for together, before the first of them is read.

use super::super::BATCH_TUPLES;
use super::super::keys::point_key;
use super::{ExecutionContext, Reader, StepState};
use crate::catalog::Table;
use crate::plan::{Access, Relation, Step};
use rubato_base::Key;

/// Asks for the partners of the tuples that are to be joined, where a key leads to them. A tuple whose key cannot be made fails when its turn
/// comes.
pub(super) fn look_ahead(step: &Step, state: &StepState, context: &mut ExecutionContext<'_>) {
    let (Relation::Table(table), Access::Point(key)) = (&step.relation, &step.access) else {
        return;
    };
    if state.next_input > 0 || state.lock.is_some() || !context.database.may_combine(table.id) {
        return;
    }
    let evaluation = context.evaluation;
    let tuples = (0..state.input.len().min(BATCH_TUPLES)).map(|index| state.input.tuple(index));
    let keys = tuples.filter_map(|tuple| point_key(table, key, tuple, evaluation).ok().flatten());
    let keys: Vec<Key> = keys.collect();
    context.database.look_ahead(table.id, step.reads, &keys);
}

/// Asks for rows whose keys are known.
pub(super) fn keys_ahead(table: &Table, keys: &[Key], reader: &Reader<'_>, context: &mut ExecutionContext<'_>) {
    if reader.lock.is_none() {
        let count = keys.len().min(BATCH_TUPLES);
        context.database.look_ahead(table.id, reader.step.reads, &keys[..count]);
    }
}
