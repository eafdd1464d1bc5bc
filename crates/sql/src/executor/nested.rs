//! Queries whose rows another query reads: those in FROM, names of WITH, and the sides of set operations.

use super::full_join::FullJoinRun;
use super::keys::group_key;
use super::recursive::RecursiveRun;
use super::seen::SeenKeys;
use super::select::{SelectRun, Sink};
use super::sorting::FixedHasher;
use super::{ExecutionContext, Held};
use crate::analytics::{Run, start_query};
use crate::plan::{QueryPlan, SetOperation, SetPlan};
use rubato_base::{Key, Value};
use rubato_protocol::{Outcome, Stop};
use std::cell::Cell;
use std::collections::HashMap;

/// A running query. It borrows nothing between two calls: plan and context come with each, always the same plan.
#[derive(Debug)]
pub(crate) enum QueryRun {
    Select(Box<SelectRun>),
    Set(Box<SetRun>),
    Recursive(Box<RecursiveRun>),
    FullJoin(Box<FullJoinRun>),
    /// Only an engine has windows.
    Window(Option<Box<dyn Run>>),
}

impl QueryRun {
    pub(crate) fn new(plan: &QueryPlan) -> QueryRun {
        match plan {
            QueryPlan::Select(_) => QueryRun::Select(Box::default()),
            QueryPlan::Set(set) => QueryRun::Set(Box::new(SetRun::new(set))),
            QueryPlan::Recursive(plan) => QueryRun::Recursive(Box::new(RecursiveRun::new(plan))),
            QueryPlan::Window(_) => QueryRun::Window(None),
            QueryPlan::FullJoin(plan) => QueryRun::FullJoin(Box::new(FullJoinRun::new(plan))),
        }
    }

    /// Gives rows until `sink` returns false behind one, the context's rows are spent, or there are no more: then `true`.
    ///
    /// On [`Stop::Wait`] nothing was given in this call: call again.
    pub(crate) fn run(
        &mut self,
        plan: &QueryPlan,
        context: &mut ExecutionContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        if let (QueryRun::Select(run), QueryPlan::Select(plan)) = (&mut *self, plan) {
            return run.run(plan, context, usize::MAX, sink);
        }
        let mut gives = false;
        let outcome = self.run_combined(plan, context, &mut |row| {
            gives = true;
            sink(row)
        });
        match outcome {
            // One of its queries waits behind what another has given.
            Err(Stop::Wait(_)) if gives => Ok(false),
            outcome => outcome,
        }
    }

    fn run_combined(
        &mut self,
        plan: &QueryPlan,
        context: &mut ExecutionContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        match (self, plan) {
            (QueryRun::Set(run), QueryPlan::Set(plan)) => run.run(plan, context, sink),
            (QueryRun::Recursive(run), QueryPlan::Recursive(plan)) => run.run(plan, context, sink),
            (QueryRun::FullJoin(run), QueryPlan::FullJoin(plan)) => run.run(plan, context, sink),
            (QueryRun::Window(run), plan) => {
                let run = match run {
                    Some(run) => run,
                    None => run.insert(start_query(plan, context)?),
                };
                run.run(context, usize::MAX, sink)
            }
            _ => Ok(true),
        }
    }
}

/// A running set operation. UNION reads the left side, then the right one; the others read the right side first, whose rows decide
/// about those of the left one.
#[derive(Debug)]
pub(crate) struct SetRun {
    left: QueryRun,
    right: QueryRun,
    first_is_done: bool,
    /// How often each row came from the right side and has not met one of the left (INTERSECT, EXCEPT).
    counts: HashMap<Key, u64, FixedHasher>,
    /// Rows that were given, where each is given once.
    seen: SeenKeys,
    held: Held,
}

impl SetRun {
    fn new(plan: &SetPlan) -> SetRun {
        SetRun {
            left: QueryRun::new(&plan.left),
            right: QueryRun::new(&plan.right),
            first_is_done: false,
            counts: HashMap::default(),
            seen: SeenKeys::default(),
            held: Held::default(),
        }
    }

    fn run(&mut self, plan: &SetPlan, context: &mut ExecutionContext<'_>, sink: &mut Sink<'_>) -> Outcome<bool> {
        if plan.operation == SetOperation::Union {
            return self.unite(plan, context, sink);
        }
        if !self.first_is_done {
            self.first_is_done = self.count_right(plan, context)?;
            if !self.first_is_done {
                return Ok(false);
            }
        }
        self.filter_left(plan, context, sink)
    }

    fn unite(&mut self, plan: &SetPlan, context: &mut ExecutionContext<'_>, sink: &mut Sink<'_>) -> Outcome<bool> {
        let limits = context.limits;
        let goes_on = Cell::new(true);
        let mut failure = None;
        let seen = &mut self.seen;
        let mut offer = |row: &[Value]| {
            let is_new = plan.all
                || seen.insert(group_key(row), &limits).unwrap_or_else(|error| {
                    failure = Some(error);
                    false
                });
            goes_on.set((!is_new || sink(row)) && failure.is_none());
            goes_on.get()
        };
        if !self.first_is_done {
            self.first_is_done = self.left.run(&plan.left, context, &mut offer)?;
        }
        let is_over = self.first_is_done && goes_on.get() && self.right.run(&plan.right, context, &mut offer)?;
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(is_over),
        }
    }

    /// Whether all rows of the right side are counted.
    fn count_right(&mut self, plan: &SetPlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let limits = context.limits;
        let mut failure = None;
        let (counts, held) = (&mut self.counts, &mut self.held);
        let is_done = self.right.run(&plan.right, context, &mut |row| {
            let key = group_key(row);
            match counts.get_mut(&key) {
                Some(count) => *count += 1,
                None => {
                    failure = held
                        .add_bytes(size_of::<(Key, u64)>() + key.heap_bytes(), &limits)
                        .err();
                    counts.insert(key, 1);
                }
            }
            failure.is_none()
        })?;
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(is_done),
        }
    }

    fn filter_left(
        &mut self,
        plan: &SetPlan,
        context: &mut ExecutionContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        let limits = context.limits;
        let mut failure = None;
        let (counts, seen) = (&mut self.counts, &mut self.seen);
        let is_done = self.left.run(&plan.left, context, &mut |row| {
            let key = group_key(row);
            let is_right = match counts.get_mut(&key) {
                // With ALL each row of the right side meets one of the left.
                Some(count) if plan.all => {
                    let met = *count > 0;
                    *count = count.saturating_sub(1);
                    met
                }
                other => other.is_some(),
            };
            let wanted = is_right == (plan.operation == SetOperation::Intersect);
            let is_new = wanted
                && (plan.all
                    || seen.insert(key, &limits).unwrap_or_else(|error| {
                        failure = Some(error);
                        false
                    }));
            (!is_new || sink(row)) && failure.is_none()
        })?;
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(is_done),
        }
    }
}
