//! A running SELECT: the pipeline of stages, its place in it, and the rows that wait to be given.

mod locking;

use super::access::{StepLock, StepState};
use super::aggregation::{Aggregation, FinishedGroups};
use super::batch::Batch;
use super::combining::{Combining, Parts};
use super::join::join_batch;
use super::lock::lock_tuple;
use super::point::{is_single_point, run_point};
use super::relaying::{Relaying, by_size};
use super::sorting::{Merge, Seen, Sorter, Window};
use super::{BATCH_TUPLES, ExecutionContext, Held};
use crate::analytics::{Run, choose};
use crate::far::waits_for_others;
use crate::plan::{Access, LockWait, RangeAccess, RangesAccess, Relation, SelectPlan, Step};
use rubato_base::{Result, Value};
use rubato_formula::{EvalContext, Tuple};
use rubato_protocol::{Outcome, Stop, Wait};
use std::collections::VecDeque;
use std::fmt;

/// Takes rows; false to pause behind the row it was given.
pub(crate) type Sink<'a> = dyn FnMut(&[Value]) -> bool + 'a;

/// A running SELECT. It borrows nothing: plan and context come with each call, always the same plan.
#[derive(Debug, Default)]
pub(crate) struct SelectRun {
    phase: Phase,
    states: Vec<StepState>,
    /// The plan with its tables in another order, which takes its place.
    other_order: Option<Box<SelectPlan>>,
    /// Its tables are joined from node to node.
    relaying: Option<Box<Relaying>>,
    batch: Batch,
    next: usize,
    without_relation_done: bool,
    window: Window,
    seen: Option<Seen>,
    held: Held,
    /// No engine is to run it: it is one's own leaf.
    stays: bool,
    /// What the short way of a single row did.
    point: Option<StepCounters>,
    /// What the next row has to wait for.
    wait: Option<Wait>,
    /// Sorted tuples whose locks are asked for.
    in_turn: VecDeque<Vec<Value>>,
    /// The locks of the tuples that have been read are asked for one after the other, in their order.
    locks_in_order: bool,
}

#[derive(Default)]
enum Phase {
    #[default]
    Fresh,
    /// Tuples are grouped; how many more are of use.
    Grouping(Box<Aggregation>, usize),
    /// Groups that nodes make of their rows are put together.
    Combining(Box<Parts>, Box<Aggregation>),
    /// Rows are sorted.
    Sorting(Box<Sorter<()>>),
    /// Tuples are projected and given as they come.
    Streaming,
    /// An engine runs it.
    Elsewhere(Box<dyn Run>),
    /// Rows are locked as they are found; none is given before all are.
    Locking(Vec<Vec<Value>>),
    /// Rows and their tuples are sorted, to be locked in that order.
    SortingToLock(Box<Sorter<Vec<Value>>>),
    /// Sorted tuples that are still to be locked, and the rows of those that have been.
    LockingSorted(Box<Merge<Vec<Value>>>, Vec<Vec<Value>>),
    /// Groups become rows, which are sorted.
    Projecting(FinishedGroups, Box<Sorter<()>>),
    /// All rows are known; they are given in order.
    Merging(Box<Merge<()>>),
    /// All rows are locked.
    Collected(Vec<Vec<Value>>),
    Ended,
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Fresh => "Fresh",
            Phase::Grouping(..) => "Grouping",
            Phase::Combining(..) => "Combining",
            Phase::Sorting(_) => "Sorting",
            Phase::Streaming => "Streaming",
            Phase::Elsewhere(_) => "Elsewhere",
            Phase::Locking(_) => "Locking",
            Phase::SortingToLock(_) => "SortingToLock",
            Phase::LockingSorted(..) => "LockingSorted",
            Phase::Projecting(..) => "Projecting",
            Phase::Merging(_) => "Merging",
            Phase::Collected(_) => "Collected",
            Phase::Ended => "Ended",
        })
    }
}

/// What comes next of the joined tuples.
enum NextTuple {
    /// The tuple at this place of the batch.
    At(usize),
    /// The context's rows are spent, and there may be more.
    Paused,
    /// There are no more.
    End,
}

/// The counters of one step, for EXPLAIN ANALYZE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounters {
    /// How often the step was entered: once for the first, once a tuple of the steps before for the others.
    pub loops: u64,
    /// Tuples given to the next step.
    pub rows: u64,
    /// Rows and index entries looked at.
    pub lookups: u64,
}

impl SelectRun {
    /// A run that no engine is to take.
    pub(crate) fn on_relay() -> SelectRun {
        SelectRun {
            stays: true,
            ..SelectRun::default()
        }
    }

    /// What the steps have done so far.
    pub(crate) fn counters(&self) -> Vec<StepCounters> {
        let counters = |state: &StepState| StepCounters {
            loops: state.loops,
            rows: state.rows,
            lookups: state.lookups,
        };
        self.point.into_iter().chain(self.states.iter().map(counters)).collect()
    }

    /// Whether nothing has been read yet.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self.phase, Phase::Fresh)
    }

    /// Whether rows are still to be read: all that are known can be given without the database.
    pub(crate) fn is_reading(&self) -> bool {
        !matches!(self.phase, Phase::Merging(_) | Phase::Collected(_) | Phase::Ended)
    }

    /// Ends the run in front of its first row: that was given another way.
    pub(crate) fn end_given(&mut self, rows: u64) {
        self.phase = Phase::Ended;
        self.point = Some(StepCounters {
            loops: 1,
            rows,
            lookups: rows,
        });
    }

    /// Gives at most `max_rows` rows of the visible columns; `true` when there are no more. `false` also when the context's rows are
    /// spent.
    ///
    /// On [`Stop::Wait`] nothing was given in this call: call again. A run that locks and waits for a transaction of this node begins again
    /// then: the snapshot may have moved meanwhile.
    pub(crate) fn run(
        &mut self,
        plan: &SelectPlan,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        if self.is_fresh() {
            self.other_order = by_size(plan, context);
        }
        let other = self.other_order.take();
        let outcome = self.advance(other.as_deref().unwrap_or(plan), context, max_rows, sink);
        self.other_order = other;
        if plan.lock.is_some() && outcome.as_ref().is_err_and(|stop| !waits_for_others(stop)) {
            let stays = self.stays;
            *self = SelectRun {
                stays,
                ..SelectRun::default()
            };
        }
        let is_over = outcome?;
        self.wait.take().map_or(Ok(is_over), |wait| Err(Stop::Wait(wait)))
    }

    fn advance(
        &mut self,
        plan: &SelectPlan,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        if matches!(self.phase, Phase::Fresh) {
            if is_single_point(plan) && max_rows > 0 {
                let counters = self.point.insert(StepCounters::default());
                let is_over = run_point(plan, context, max_rows, sink, counters)?;
                // With the only row given, nothing is left to come back for.
                self.phase = Phase::Ended;
                return Ok(is_over);
            }
            let elsewhere = if self.stays { None } else { choose(plan, context)? };
            match elsewhere {
                Some(run) => self.phase = Phase::Elsewhere(run),
                None => self.start(plan, context)?,
            }
        }
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Grouping(aggregation, wanted) => self.collect_groups(plan, aggregation, wanted, context)?,
            Phase::Combining(parts, aggregation) => self.combine(plan, parts, aggregation, context)?,
            Phase::Projecting(groups, sorter) => self.project_groups(plan, groups, sorter, context)?,
            Phase::Sorting(sorter) => self.collect_sorted(plan, sorter, context)?,
            Phase::Locking(rows) => self.collect_locked(plan, rows, context)?,
            Phase::SortingToLock(sorter) => self.sort_to_lock(plan, sorter, context)?,
            Phase::LockingSorted(tuples, rows) => self.lock_sorted(plan, tuples, rows, context)?,
            other => other,
        };
        match &self.phase {
            Phase::Grouping(..)
            | Phase::Combining(..)
            | Phase::Projecting(..)
            | Phase::Sorting(_)
            | Phase::Locking(_)
            | Phase::SortingToLock(_)
            | Phase::LockingSorted(..) => Ok(false),
            Phase::Merging(_) => Ok(self.give_merged(plan, context, max_rows, sink)),
            Phase::Streaming => self.stream(plan, context, max_rows, sink),
            Phase::Elsewhere(_) => self.run_elsewhere(context, max_rows, sink),
            Phase::Collected(_) => Ok(self.give_collected(plan.visible, max_rows, sink)),
            Phase::Fresh | Phase::Ended => Ok(true),
        }
    }

    /// Whether an engine runs it, which gives rows as they come.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.phase, Phase::Elsewhere(_))
    }

    fn run_elsewhere(
        &mut self,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        let Phase::Elsewhere(run) = &mut self.phase else {
            return Ok(true);
        };
        let is_over = run.run(context, max_rows, sink)?;
        if is_over {
            self.end();
        }
        Ok(is_over)
    }

    fn start(&mut self, plan: &SelectPlan, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        self.window = Window::new(plan.limit.as_ref(), plan.offset.as_ref(), context)?;
        let width = prepare_states(plan, &mut self.states);
        self.batch = Batch::new(width);
        self.seen = plan.distinct.then(Seen::default);
        let parts = match Relaying::of(plan, context)? {
            Some(relaying) if relaying.makes_groups() => Some(Parts::OfTuples(relaying)),
            relaying => {
                self.relaying = relaying.map(Box::new);
                Combining::of(plan, context)?.map(Parts::OfRows)
            }
        };
        self.phase = if let (Some(parts), Some(aggregate)) = (parts, &plan.aggregate) {
            Phase::Combining(Box::new(parts), Box::new(Aggregation::new(aggregate)))
        } else if let Some(aggregate) = &plan.aggregate {
            let wanted = plan
                .input_limit
                .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
            Phase::Grouping(Box::new(Aggregation::new(aggregate)), wanted)
        } else if !plan.order_by.is_empty() && plan.lock.is_some() {
            // A row may be gone when its turn comes: the sorter cannot know how many will be of use.
            Phase::SortingToLock(Box::new(Sorter::new(None)))
        } else if !plan.order_by.is_empty() {
            Phase::Sorting(Box::new(Sorter::new(self.window.useful_rows())))
        } else if plan.lock.is_some() {
            Phase::Locking(Vec::new())
        } else {
            Phase::Streaming
        };
        Ok(())
    }

    /// Fills `batch` with the next tuples, at most `want`; without any, there are no more, or the context's rows are spent.
    fn pull(&mut self, plan: &SelectPlan, want: usize, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        self.next = 0;
        self.batch.clear();
        if plan.steps.is_empty() {
            // Without FROM there is one tuple, without slots.
            if !std::mem::replace(&mut self.without_relation_done, true) {
                self.batch.push_nulls();
            }
            return Ok(());
        }
        let want = want.clamp(1, BATCH_TUPLES);
        if plan.lock.is_some() && context.database.has_others() {
            // What is asked of other nodes together is not to be less because little is left of the slice.
            context.rows_left = context.rows_left.max(want);
        }
        let joined = match &mut self.relaying {
            Some(relaying) => relaying.pull(want, context, &mut self.batch),
            None => join_batch(&plan.steps, &mut self.states, want, context, &mut self.batch),
        };
        match joined {
            // Without rows, what has been read is kept, and the wait told at the end. Rows that are locked begin again, but not for what
            // other nodes have yet to answer.
            Err(stop) if plan.lock.is_none() || waits_for_others(&stop) => self.keep_wait(stop),
            outcome => outcome,
        }
    }

    /// A wait is told at the end, and the run goes on where it stands.
    fn keep_wait(&mut self, stop: Stop) -> Outcome<()> {
        match stop {
            Stop::Wait(wait) => {
                self.wait = Some(wait);
                Ok(())
            }
            stop => Err(stop),
        }
    }

    /// Whether it stops before its end.
    fn pauses(&self, context: &ExecutionContext<'_>) -> bool {
        context.is_spent() || self.wait.is_some()
    }

    /// The next tuple's place in `batch`. `useful` is how many more could be of use.
    fn next_tuple(
        &mut self,
        plan: &SelectPlan,
        useful: usize,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<NextTuple> {
        loop {
            if self.next >= self.batch.len() {
                self.pull(plan, useful, context)?;
                self.lock_ahead(plan, useful, context);
                if self.batch.is_empty() {
                    return Ok(if self.pauses(context) {
                        NextTuple::Paused
                    } else {
                        NextTuple::End
                    });
                }
            }
            let place = self.next;
            self.next += 1;
            if passes(plan, self.batch.tuple(place), context.evaluation)? {
                return Ok(NextTuple::At(place));
            }
        }
    }

    fn stream(
        &mut self,
        plan: &SelectPlan,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        let mut given = 0;
        let mut row = Vec::with_capacity(plan.projection.len());
        while !self.window.is_closed() {
            if given == max_rows {
                return Ok(false);
            }
            let useful = self.window.useful_rows().unwrap_or(usize::MAX);
            let useful = useful.min((max_rows - given).saturating_add(self.window.skip as usize));
            let place = match self.next_tuple(plan, useful, context)? {
                NextTuple::At(place) => place,
                NextTuple::Paused => {
                    if given > 0 {
                        // It is told when nothing is given before it.
                        self.wait = None;
                    }
                    return Ok(false);
                }
                NextTuple::End => break,
            };
            if !self.project(plan, place, &mut row, context)? {
                continue;
            }
            given += 1;
            if !sink(&row[..plan.visible]) {
                return Ok(self.window.is_closed());
            }
        }
        self.end();
        Ok(true)
    }

    fn end(&mut self) {
        let states = std::mem::take(&mut self.states);
        *self = SelectRun {
            phase: Phase::Ended,
            states,
            ..SelectRun::default()
        };
    }

    /// Projects a tuple of the batch into `row`: whether DISTINCT and the window let it through.
    fn project(
        &mut self,
        plan: &SelectPlan,
        place: usize,
        row: &mut Vec<Value>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        if let Some(lock) = &plan.lock
            && !lock.steps.is_empty()
            && !lock_tuple(plan, &self.states, self.batch.tuple_mut(place), context)?
        {
            return Ok(false);
        }
        row.clear();
        for expr in &plan.projection {
            row.push(expr.evaluate(self.batch.tuple(place), context.evaluation)?);
        }
        if let Some(seen) = &mut self.seen
            && !seen.insert(&row[..plan.visible], &context.limits)?
        {
            return Ok(false);
        }
        Ok(self.window.admit())
    }

    fn collected(&mut self, rows: Vec<Vec<Value>>) -> Phase {
        self.next = 0;
        Phase::Collected(rows)
    }

    /// Groups what is left, at most `wanted` tuples, as far as it gets.
    fn collect_groups(
        &mut self,
        plan: &SelectPlan,
        mut aggregation: Box<Aggregation>,
        mut wanted: usize,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Phase> {
        let Some(aggregate) = &plan.aggregate else {
            return Ok(Phase::Ended);
        };
        while wanted > 0 {
            self.pull(plan, wanted, context)?;
            if self.batch.is_empty() && self.pauses(context) {
                return Ok(Phase::Grouping(aggregation, wanted));
            }
            if self.batch.is_empty() {
                break;
            }
            let added = aggregation.add_batch(aggregate, &self.batch, plan.filter.as_ref(), context)?;
            wanted = wanted.saturating_sub(added);
        }
        let sorter = Box::new(Sorter::new(self.window.useful_rows()));
        self.project_groups(plan, aggregation.finish(), sorter, context)
    }

    /// Puts together what is left, as far as it gets.
    fn combine(
        &mut self,
        plan: &SelectPlan,
        mut parts: Box<Parts>,
        mut aggregation: Box<Aggregation>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Phase> {
        let Some(aggregate) = &plan.aggregate else {
            return Ok(Phase::Ended);
        };
        match parts.run(aggregate, &mut aggregation, context) {
            Ok(true) => {}
            Ok(false) => return Ok(Phase::Combining(parts, aggregation)),
            // What was put together is kept, and the wait told at the end.
            Err(Stop::Wait(wait)) => {
                self.wait = Some(wait);
                return Ok(Phase::Combining(parts, aggregation));
            }
            Err(stop) => return Err(stop),
        }
        let sorter = Box::new(Sorter::new(self.window.useful_rows()));
        self.project_groups(plan, aggregation.finish(), sorter, context)
    }

    /// Makes rows of groups that satisfy HAVING, and sorts them.
    fn project_groups(
        &mut self,
        plan: &SelectPlan,
        mut groups: FinishedGroups,
        mut sorter: Box<Sorter<()>>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Phase> {
        let Some(aggregate) = &plan.aggregate else {
            return Ok(Phase::Ended);
        };
        while !groups.is_empty() {
            if context.is_spent() {
                return Ok(Phase::Projecting(groups, sorter));
            }
            context.spend(1);
            let Some(tuple) = groups.next(aggregate, context)? else {
                continue;
            };
            let row = projected(plan, &tuple, context)?;
            if let Some(seen) = &mut self.seen
                && !seen.insert(&row[..plan.visible], &context.limits)?
            {
                continue;
            }
            sorter.push(row, (), &plan.order_by, &context.limits)?;
        }
        Ok(Phase::Merging(Box::new(sorter.finish(&plan.order_by))))
    }

    /// Sorts what is left, as far as it gets.
    fn collect_sorted(
        &mut self,
        plan: &SelectPlan,
        mut sorter: Box<Sorter<()>>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Phase> {
        loop {
            let place = match self.next_tuple(plan, usize::MAX, context)? {
                NextTuple::At(place) => place,
                NextTuple::Paused => return Ok(Phase::Sorting(sorter)),
                NextTuple::End => break,
            };
            let row = projected(plan, self.batch.tuple(place), context)?;
            if let Some(seen) = &mut self.seen
                && !seen.insert(&row[..plan.visible], &context.limits)?
            {
                continue;
            }
            sorter.push(row, (), &plan.order_by, &context.limits)?;
        }
        Ok(Phase::Merging(Box::new(sorter.finish(&plan.order_by))))
    }

    fn give_merged(
        &mut self,
        plan: &SelectPlan,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut Sink<'_>,
    ) -> bool {
        let Phase::Merging(merge) = &mut self.phase else {
            return true;
        };
        let mut given = 0;
        while !self.window.is_closed() && given < max_rows && !context.is_spent() {
            let Some((row, ())) = merge.next(&plan.order_by) else {
                self.end();
                return true;
            };
            context.spend(1);
            if !self.window.admit() {
                continue;
            }
            given += 1;
            if !sink(&row[..plan.visible]) {
                break;
            }
        }
        // As PostgreSQL: who has been given the last row learns of the end when he asks again.
        let is_over = self.window.is_closed() && given < max_rows;
        if is_over {
            self.end();
        }
        is_over
    }

    fn give_collected(&mut self, visible: usize, max_rows: usize, sink: &mut Sink<'_>) -> bool {
        let Phase::Collected(rows) = &mut self.phase else {
            return true;
        };
        let mut given = 0;
        while let Some(row) = rows.get_mut(self.next) {
            if given == max_rows {
                return false;
            }
            self.next += 1;
            given += 1;
            let row = std::mem::take(row);
            if !sink(&row[..visible]) && self.next < rows.len() {
                return false;
            }
        }
        self.end();
        true
    }
}

fn projected<T: Tuple + ?Sized>(plan: &SelectPlan, tuple: &T, context: &ExecutionContext<'_>) -> Result<Vec<Value>> {
    let mut row = Vec::with_capacity(plan.projection.len());
    for expr in &plan.projection {
        row.push(expr.evaluate(tuple, context.evaluation)?);
    }
    Ok(row)
}

fn passes(plan: &SelectPlan, tuple: &[Value], evaluation: &EvalContext<'_>) -> Result<bool> {
    match &plan.filter {
        Some(filter) => filter.is_true(tuple, evaluation),
        None => Ok(true),
    }
}

/// One state a step, with hidden slots for the keys of rows to be locked; returns the width of a tuple.
fn prepare_states(plan: &SelectPlan, states: &mut Vec<StepState>) -> usize {
    states.clear();
    let mut width = plan
        .steps
        .iter()
        .map(|step| step.first_slot + step.columns.len())
        .max()
        .unwrap_or(0);
    for (number, step) in plan.steps.iter().enumerate() {
        let mut state = StepState::default();
        if let Some(lock) = plan.lock.as_ref().filter(|lock| lock.steps.contains(&number))
            && matches!(step.relation, Relation::Table(_))
        {
            // What a join may throw away must not be locked by those who protect only what they give.
            let keeps_all = lock.wait != LockWait::SkipLocked || plan.steps.len() == 1;
            let at_once = locks_at_once(plan, step) && keeps_all;
            state.lock = Some(StepLock {
                key_slot: width,
                at_once,
                wait: lock.wait,
            });
            width += 1;
        }
        states.push(state);
    }
    states.iter_mut().for_each(|state| state.input = Batch::new(width));
    width
}

/// Whether the step's rows are locked as they are found. A snapshot read before would only be one more thing that another
/// transaction can overwrite; but rows that a sort may throw away must not be locked.
fn locks_at_once(plan: &SelectPlan, step: &Step) -> bool {
    match &step.access {
        Access::Point(_) | Access::Points(_) | Access::Elements(_) => true,
        Access::Range(RangeAccess { index, .. }) | Access::Ranges(RangesAccess { index, .. }) => {
            index.is_some() && plan.order_by.is_empty()
        }
        Access::Union(_) | Access::Full { .. } => false,
    }
}
