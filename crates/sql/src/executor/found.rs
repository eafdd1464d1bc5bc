//! The rows that a query finds for a statement that changes them, with their keys, locked.

use super::select::SelectRun;
use super::{BATCH_TUPLES, ExecutionContext, Held};
use crate::far::waits_for_others;
use crate::plan::SelectPlan;
use rubato_base::{Error, Key, Result, Value};
use rubato_protocol::Outcome;
use std::collections::VecDeque;

/// A row that was found: its key, unless an outer join found none, and what the query gave beside it.
pub(crate) type FoundRow = (Option<Key>, Vec<Value>);

/// The rows found so far. It borrows nothing between two calls.
#[derive(Debug, Default)]
pub(crate) struct FoundRows {
    source: SelectRun,
    is_done: bool,
    rows: VecDeque<FoundRow>,
    held: Held,
    count: u64,
}

impl FoundRows {
    /// Finds and locks the rows that `wanted` takes: whether all are found. If it has to wait for a transaction of this node, it starts over.
    pub(crate) fn find(
        &mut self,
        plan: &SelectPlan,
        context: &mut ExecutionContext<'_>,
        wanted: &mut dyn FnMut(Option<&Key>) -> Result<bool>,
    ) -> Outcome<bool> {
        if self.is_done {
            return Ok(true);
        }
        let outcome = self.find_more(plan, context, wanted);
        if outcome.as_ref().is_err_and(|stop| !waits_for_others(stop)) {
            *self = FoundRows::default();
        }
        self.is_done = outcome?;
        Ok(self.is_done)
    }

    /// Whether nothing was looked for yet, or all of it has to be looked for again.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.is_done && self.rows.is_empty()
    }

    fn find_more(
        &mut self,
        plan: &SelectPlan,
        context: &mut ExecutionContext<'_>,
        wanted: &mut dyn FnMut(Option<&Key>) -> Result<bool>,
    ) -> Outcome<bool> {
        let limits = context.limits;
        loop {
            let FoundRows { source, rows, held, .. } = self;
            let mut failure = None;
            let is_over = source.run(plan, context, BATCH_TUPLES, &mut |row| {
                let taken = found_row(row).and_then(|(key, values)| {
                    if wanted(key.as_ref())? {
                        held.add(values, &limits)?;
                        rows.push_back((key, values.to_vec()));
                    }
                    Ok(())
                });
                failure = taken.err();
                failure.is_none()
            })?;
            if let Some(error) = failure {
                return Err(error.into());
            }
            self.count = self.rows.len() as u64;
            if is_over || context.is_spent() {
                return Ok(is_over);
            }
        }
    }

    /// The row whose turn is next.
    pub(crate) fn front(&self) -> Option<&FoundRow> {
        self.rows.front()
    }

    /// That row is done with.
    pub(crate) fn pop_front(&mut self) {
        self.rows.pop_front();
    }

    /// The row at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&FoundRow> {
        self.rows.get(place)
    }

    /// How many were found.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// What the query gave of a row, and the row's key, which comes last.
fn found_row(row: &[Value]) -> Result<(Option<Key>, &[Value])> {
    match row.split_last() {
        Some((Value::Bytea(key), values)) => Ok((Some(Key::from_bytes(key)), values)),
        Some((Value::Null, values)) => Ok((None, values)),
        _ => Err(Error::internal("a row to be changed without a key")),
    }
}
