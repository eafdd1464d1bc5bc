//! A SELECT that locks: no row is given before all are locked.
//!
//! What has to wait for other nodes' answers goes on where it stands, and what is locked there soon is asked for together. What has to wait
//! for a transaction of this node begins again: the snapshot may have moved meanwhile.

use super::{NextTuple, Phase, SelectRun, passes, projected};
use crate::executor::lock::{lock_tuple, lock_tuples_ahead};
use crate::executor::sorting::{Merge, Sorter};
use crate::executor::{BATCH_TUPLES, ExecutionContext, WRITTEN_ROW_COST};
use crate::far::{LOCKED_IN_ORDER_MAX, waits_for_others};
use crate::plan::SelectPlan;
use rubato_base::Value;
use rubato_formula::{Expr, Volatility};
use rubato_protocol::Outcome;

impl SelectRun {
    /// Asks for the locks of the tuples that have just been read, as many as are of use; of a few, for those of each in its turn.
    pub(super) fn lock_ahead(&mut self, plan: &SelectPlan, useful: usize, context: &mut ExecutionContext<'_>) {
        self.locks_in_order = self.batch.len() <= LOCKED_IN_ORDER_MAX;
        if !self.locks_in_order {
            self.ask_for_locks(plan, (0, useful), context);
        }
    }

    /// Asks for the locks of those from this place on.
    fn ask_for_locks(&self, plan: &SelectPlan, (from, useful): (usize, usize), context: &mut ExecutionContext<'_>) {
        // A sort may throw tuples away, and what a condition says is asked once more.
        let differs = |filter: &Expr| filter.volatility() == Volatility::Volatile;
        let is_sure = plan.order_by.is_empty() && !plan.filter.as_ref().is_some_and(differs);
        if plan.lock.is_none() || !is_sure || !context.database.has_others() {
            return;
        }
        // As far as they are looked at: where the first is of this node, no further.
        let evaluation = context.evaluation;
        let tuples = (from..self.batch.len()).map(|place| self.batch.tuple(place));
        let known = tuples.map_while(|tuple| Some((tuple, passes(plan, tuple, evaluation).ok()?)));
        let wanted = known.filter_map(|(tuple, passes)| passes.then_some(tuple)).take(useful);
        lock_tuples_ahead(plan, &self.states, wanted, self.locks_in_order, context);
    }

    /// Locks what is left, as far as it gets. No row is shown before all are locked.
    pub(super) fn collect_locked(
        &mut self,
        plan: &SelectPlan,
        mut rows: Vec<Vec<Value>>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Phase> {
        while !self.window.is_closed() {
            let useful = self.window.useful_rows().unwrap_or(usize::MAX);
            let place = match self.next_tuple(plan, useful, context)? {
                NextTuple::At(place) => place,
                NextTuple::Paused => return Ok(Phase::Locking(rows)),
                NextTuple::End => break,
            };
            context.spend(WRITTEN_ROW_COST);
            if self.locks_in_order {
                self.ask_for_locks(plan, (place, useful), context);
            }
            let mut row = Vec::with_capacity(plan.projection.len());
            match self.project(plan, place, &mut row, context) {
                Ok(true) => {
                    self.held.add(&row, &context.limits)?;
                    rows.push(row);
                }
                Ok(false) => {}
                Err(stop) if waits_for_others(&stop) => {
                    self.next = place;
                    self.keep_wait(stop)?;
                    return Ok(Phase::Locking(rows));
                }
                Err(stop) => return Err(stop),
            }
        }
        Ok(self.collected(rows))
    }

    /// Sorts what is left at the snapshot, then locks in that order, as far as the window wants rows and as far as it gets.
    pub(super) fn sort_to_lock(
        &mut self,
        plan: &SelectPlan,
        mut sorter: Box<Sorter<Vec<Value>>>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Phase> {
        loop {
            let place = match self.next_tuple(plan, usize::MAX, context)? {
                NextTuple::At(place) => place,
                NextTuple::Paused => return Ok(Phase::SortingToLock(sorter)),
                NextTuple::End => break,
            };
            let tuple = self.batch.tuple(place).to_vec();
            let row = projected(plan, &tuple, context)?;
            self.held.add(&tuple, &context.limits)?;
            sorter.push(row, tuple, &plan.order_by, &context.limits)?;
        }
        let tuples = Box::new(sorter.finish(&plan.order_by));
        self.lock_sorted(plan, tuples, Vec::new(), context)
    }

    pub(super) fn lock_sorted(
        &mut self,
        plan: &SelectPlan,
        mut tuples: Box<Merge<Vec<Value>>>,
        mut rows: Vec<Vec<Value>>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Phase> {
        while !self.window.is_closed() {
            if context.is_spent() {
                return Ok(Phase::LockingSorted(tuples, rows));
            }
            if self.in_turn.is_empty() {
                self.take_in_turn(plan, &mut tuples, context);
            }
            if self.locks_in_order {
                let tuples = self.in_turn.iter().map(Vec::as_slice);
                lock_tuples_ahead(plan, &self.states, tuples, true, context);
            }
            let Some(tuple) = self.in_turn.front_mut() else {
                break;
            };
            context.spend(WRITTEN_ROW_COST);
            match lock_tuple(plan, &self.states, tuple, context) {
                Ok(true) if self.window.admit() => rows.push(projected(plan, tuple, context)?),
                Ok(_) => {}
                Err(stop) if waits_for_others(&stop) => {
                    self.keep_wait(stop)?;
                    return Ok(Phase::LockingSorted(tuples, rows));
                }
                Err(stop) => return Err(stop),
            }
            self.in_turn.pop_front();
        }
        Ok(self.collected(rows))
    }

    /// The next sorted tuples, as many as are of use, whose locks are asked for together; those of a few, each in its turn.
    fn take_in_turn(&mut self, plan: &SelectPlan, tuples: &mut Merge<Vec<Value>>, context: &mut ExecutionContext<'_>) {
        let useful = self.window.useful_rows().unwrap_or(BATCH_TUPLES).min(BATCH_TUPLES);
        while self.in_turn.len() < useful
            && let Some((_, tuple)) = tuples.next(&plan.order_by)
        {
            self.in_turn.push_back(tuple);
        }
        self.locks_in_order = self.in_turn.len() <= LOCKED_IN_ORDER_MAX;
        if !self.locks_in_order {
            let tuples = self.in_turn.iter().map(Vec::as_slice);
            lock_tuples_ahead(plan, &self.states, tuples, false, context);
        }
    }
}
