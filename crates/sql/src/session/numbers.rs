//! Numbers of sequences in statements that run on another node than the one that has the sequences: they are fetched before a statement
//! begins, and a long one does no more in a slice than there are numbers for, so that nothing waits in the midst of an expression.

use super::environment::sequence_of;
use super::far::FOR_OTHERS;
use super::{Current, Session};
use crate::catalog::Catalog;
use crate::executor::{BATCH_TUPLES, CopyReader};
use crate::partition::{Partition, SEQUENCE_ENDED};
use crate::plan::{InsertSource, Plan, PlanBody};
use crate::route::{numbers_called, numbers_called_by, shown_of_all_nodes};
use rubato_base::{SqlState, Value};
use rubato_protocol::{Outcome, Stop};
use std::collections::VecDeque;

/// Rows whose numbers are fetched together, where it is not known how many rows there will be. A slice may look at a batch more of them
/// than it should.
const ROWS_AHEAD: usize = 4 * BATCH_TUPLES;

/// The numbers that a statement takes.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Sequences, and how many numbers of each: in all, or for each row.
    calls: Vec<(u32, usize)>,
    is_in_all: bool,
    /// All of them are there, or were.
    are_fetched: bool,
}

impl Wanted {
    /// `None` if it takes none, or none that can be fetched.
    fn of(plan: &Plan, parameters: &[Value], named: impl Fn(&str) -> Option<u32>) -> Option<Wanted> {
        let calls = counted(numbers_called(plan, parameters)?, named)?;
        let is_in_all = match &plan.body {
            PlanBody::Insert(insert) => {
                matches!(insert.source, InsertSource::Values(_)) && insert.on_conflict.is_none()
            }
            PlanBody::Select(select) => select.steps.is_empty(),
            _ => false,
        };
        (!calls.is_empty()).then_some(Wanted {
            calls,
            is_in_all,
            are_fetched: false,
        })
    }
}

/// The sequences of these names, and how often each of them is named. `None` if one is not known.
fn counted(names: Vec<String>, named: impl Fn(&str) -> Option<u32>) -> Option<Vec<(u32, usize)>> {
    let mut calls: Vec<(u32, usize)> = Vec::new();
    for name in names {
        let sequence = named(&name)?;
        match calls.iter_mut().find(|(own, _)| *own == sequence) {
            Some((_, count)) => *count += 1,
            None => calls.push((sequence, 1)),
        }
    }
    Some(calls)
}

impl Session {
    /// The numbers that each row of a COPY takes of sequences that are elsewhere.
    pub(super) fn numbers_of_rows(
        &mut self,
        reader: &CopyReader,
        catalog: &Catalog,
        partition: &Partition,
    ) -> Vec<(u32, usize)> {
        self.taken.are_here = !partition.sequences.are_elsewhere;
        if self.taken.are_here {
            return Vec::new();
        }
        let path = self.path_in(catalog);
        let named = |name: &str| sequence_of(name, catalog, &path).ok().map(|sequence| sequence.id);
        counted(numbers_called_by(reader.evaluated()), named).unwrap_or_default()
    }

    /// Fetches what so many rows take that take so many each.
    ///
    /// Errors: as [`Session::fetch_numbers`].
    pub(super) fn have_numbers_for(
        &mut self,
        rows: usize,
        each: &[(u32, usize)],
        partition: &Partition,
    ) -> Outcome<()> {
        for (sequence, count) in each {
            self.fetch_of(*sequence, rows * count, rows * count, partition)?;
        }
        Ok(())
    }

    /// Sees that there are `low` numbers of a sequence; if there are less, asks for as many as make it `full`.
    fn fetch_of(&mut self, sequence: u32, low: usize, full: usize, partition: &Partition) -> Outcome<()> {
        let Some(desk) = &partition.grid else { return Ok(()) };
        let again = self.taken.drawn.count(sequence);
        let (low, full) = (low.saturating_sub(again), full.saturating_sub(again));
        let ahead = self.taken.ahead.entry(sequence).or_default();
        while ahead.len() < low && !self.taken.ended.contains_key(&sequence) {
            let missing = u32::try_from(full - ahead.len()).unwrap_or(u32::MAX);
            let taken = desk.take_numbers(self.id, sequence, missing);
            self.taken.are_asked = matches!(taken, Ok(None));
            match taken {
                Ok(Some(numbers)) => ahead.extend(numbers),
                Ok(None) => return Err(Stop::Wait(FOR_OTHERS)),
                // There may be enough of them all the same.
                Err(error) if error.code() == SEQUENCE_ENDED => {
                    self.taken.ended.insert(sequence, error);
                }
                Err(error) if error.code() == SqlState::SERIALIZATION_FAILURE => return Err(Stop::Abort(error)),
                Err(error) => return Err(Stop::Fail(error)),
            }
        }
        Ok(())
    }

    /// Numbers that a statement has left over, or has asked for and not waited for, are nobody's: the next one's are those of its own time.
    pub(super) fn forget_numbers(&mut self, partition: &Partition) {
        self.taken.forget_ahead();
        if std::mem::take(&mut self.taken.are_asked)
            && let Some(desk) = &partition.grid
        {
            desk.forget_questions(self.id);
        }
    }

    /// Before a statement begins that shows what is so on all nodes: asks the others.
    ///
    /// Errors: [`Stop::Wait`] until that is there.
    pub(super) fn see_other_sessions(&mut self, plan: &Plan, partition: &Partition) -> Outcome<()> {
        let (Some(desk), Some(current)) = (&partition.grid, &mut self.current) else {
            return Ok(());
        };
        let views = if current.sees_others {
            0
        } else {
            shown_of_all_nodes(plan)
        };
        if views == 0 {
            return Ok(());
        }
        let shown = (views, self.identity.database_id);
        let others = desk.take_sessions(self.id, shown).ok_or(Stop::Wait(FOR_OTHERS))?;
        partition.insight.set_elsewhere(others.rows);
        current.sees_others = true;
        Ok(())
    }

    /// Before a statement begins: fetches what it will take.
    ///
    /// Errors: [`Stop::Wait`] until it is there.
    pub(super) fn fetch_numbers(&mut self, plan: &Plan, catalog: &Catalog, partition: &Partition) -> Outcome<()> {
        self.taken.are_here = !partition.sequences.are_elsewhere;
        if self.taken.are_here {
            return Ok(());
        }
        let path = self.path_in(catalog);
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        if current.numbers.is_none() {
            let named = |name: &str| sequence_of(name, catalog, &path).ok().map(|sequence| sequence.id);
            current.numbers = Some(Wanted::of(plan, &current.parameters, named));
            self.forget_numbers(partition);
        }
        self.have_numbers(partition)
    }

    /// Before a slice: sees that there are numbers for it, and has it do no more than there are for.
    ///
    /// Errors: as [`Session::fetch_numbers`].
    pub(super) fn have_numbers(&mut self, partition: &Partition) -> Outcome<()> {
        let wanted = self
            .current
            .as_ref()
            .and_then(|current| current.numbers.clone().flatten());
        let Some(wanted) = wanted else {
            return Ok(());
        };
        if wanted.are_fetched {
            return Ok(());
        }
        let mut rows_max = usize::MAX;
        for (sequence, count) in wanted.calls {
            let (low, full) = match wanted.is_in_all {
                true => (count, count),
                false => (2 * count * BATCH_TUPLES, count * ROWS_AHEAD),
            };
            self.fetch_of(sequence, low, full, partition)?;
            if !wanted.is_in_all && !self.taken.ended.contains_key(&sequence) {
                let ahead = self.taken.ahead.get(&sequence).map_or(0, VecDeque::len);
                let ahead = ahead + self.taken.drawn.count(sequence);
                rows_max = rows_max.min(ahead / count - BATCH_TUPLES);
            }
        }
        self.slices.limit(rows_max);
        if let Some(Current {
            numbers: Some(Some(own)),
            ..
        }) = &mut self.current
        {
            own.are_fetched = own.is_in_all;
        }
        Ok(())
    }
}
