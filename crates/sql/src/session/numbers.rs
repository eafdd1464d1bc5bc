//! Numbers of sequences in statements that run on another node than the one that has the sequences: they are fetched before a statement
//! begins, and a long one does no more in a slice than there are numbers for, so that nothing waits in the midst of an expression.

use super::environment::sequence_of;
use super::far::FOR_OTHERS;
use super::{Current, Session};
use crate::catalog::Catalog;
use crate::executor::BATCH_TUPLES;
use crate::partition::Partition;
use crate::plan::{InsertSource, Plan, PlanBody};
use crate::route::numbers_called;
use rubato_base::Value;
use rubato_protocol::{Outcome, Stop};

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
        let mut calls: Vec<(u32, usize)> = Vec::new();
        for name in numbers_called(plan, parameters)? {
            let sequence = named(&name)?;
            match calls.iter_mut().find(|(own, _)| *own == sequence) {
                Some((_, count)) => *count += 1,
                None => calls.push((sequence, 1)),
            }
        }
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

impl Session {
    /// Before a statement begins: fetches what it will take.
    ///
    /// Errors: [`Stop::Wait`] until it is there.
    pub(super) fn fetch_numbers(&mut self, plan: &Plan, catalog: &Catalog, partition: &Partition) -> Outcome<()> {
        if !partition.sequences.are_elsewhere {
            return Ok(());
        }
        let path = self.path_in(catalog);
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        if current.numbers.is_none() {
            let named = |name: &str| sequence_of(name, catalog, &path).ok().map(|sequence| sequence.id);
            current.numbers = Some(Wanted::of(plan, &current.parameters, named));
            self.taken.ahead.clear();
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
        let (Some(wanted), Some(desk)) = (wanted, &partition.grid) else {
            return Ok(());
        };
        if wanted.are_fetched {
            return Ok(());
        }
        let mut rows_max = usize::MAX;
        for (sequence, count) in wanted.calls {
            let ahead = self.taken.ahead.entry(sequence).or_default();
            let (low, full) = match wanted.is_in_all {
                true => (count, count),
                false => (2 * count * BATCH_TUPLES, count * ROWS_AHEAD),
            };
            while ahead.len() < low {
                let missing = u32::try_from(full - ahead.len()).unwrap_or(u32::MAX);
                match desk.take_numbers(self.id, sequence, missing).map_err(Stop::Fail)? {
                    Some(numbers) => ahead.extend(numbers),
                    None => return Err(Stop::Wait(FOR_OTHERS)),
                }
            }
            if !wanted.is_in_all {
                rows_max = rows_max.min(ahead.len() / count - BATCH_TUPLES);
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
