//! WITH RECURSIVE: the first query gives rows; the second one reads those that were new the last time, until there are none.

use super::keys::group_key;
use super::nested::QueryRun;
use super::seen::SeenKeys;
use super::select::Sink;
use super::{ExecutionContext, Held};
use crate::plan::RecursivePlan;
use rubato_base::Value;
use rubato_protocol::Outcome;
use std::cell::Cell;

/// The rows that a query of WITH RECURSIVE reads of itself, or that a statement within WITH has told, and those of queries around it.
#[derive(Clone, Copy, Debug)]
pub struct Working<'a> {
    number: usize,
    rows: &'a [Vec<Value>],
    outer: Option<&'a Working<'a>>,
}

impl<'a> Working<'a> {
    /// Rows beside those that are there.
    pub(crate) fn new(number: usize, rows: &'a [Vec<Value>], outer: Option<&'a Working<'a>>) -> Working<'a> {
        Working { number, rows, outer }
    }

    /// The rows that the query with this number gave last.
    pub(crate) fn find(&self, number: usize) -> &'a [Vec<Value>] {
        match self.outer {
            _ if self.number == number => self.rows,
            Some(outer) => outer.find(number),
            None => &[],
        }
    }
}

/// Such a query under way. It borrows nothing between two calls.
#[derive(Debug)]
pub(crate) struct RecursiveRun {
    first: QueryRun,
    first_is_done: bool,
    /// What reads `rows`; `None` before it has begun with them.
    again: Option<QueryRun>,
    rows: Vec<Vec<Value>>,
    held: Held,
    /// The rows that were given since.
    next: Vec<Vec<Value>>,
    next_held: Held,
    /// Without ALL: every row that was given.
    seen: SeenKeys,
}

impl RecursiveRun {
    pub(crate) fn new(plan: &RecursivePlan) -> RecursiveRun {
        RecursiveRun {
            first: QueryRun::new(&plan.first),
            first_is_done: false,
            again: None,
            rows: Vec::new(),
            held: Held::default(),
            next: Vec::new(),
            next_held: Held::default(),
            seen: SeenKeys::default(),
        }
    }

    /// As [`QueryRun::run`].
    pub(crate) fn run(
        &mut self,
        plan: &RecursivePlan,
        context: &mut ExecutionContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        loop {
            if self.first_is_done && self.again.is_none() {
                if self.next.is_empty() {
                    return Ok(true);
                }
                self.rows = std::mem::take(&mut self.next);
                self.held = std::mem::take(&mut self.next_held);
                self.again = Some(QueryRun::new(&plan.again));
            }
            let (is_over, goes_on) = self.run_once(plan, context, sink)?;
            if is_over && self.first_is_done {
                self.again = None;
            }
            self.first_is_done |= is_over;
            if !is_over || !goes_on {
                return Ok(false);
            }
            // A query that gives the same rows for ever goes on in slices, and can be cancelled.
            context.spend(1);
            if context.is_spent() {
                return Ok(false);
            }
        }
    }

    /// Goes on with the query whose turn it is: whether it has given all of its rows, and whether more are wanted.
    fn run_once(
        &mut self,
        plan: &RecursivePlan,
        context: &mut ExecutionContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Outcome<(bool, bool)> {
        let RecursiveRun {
            first,
            again,
            rows,
            next,
            next_held,
            seen,
            ..
        } = self;
        let limits = context.limits;
        let goes_on = Cell::new(true);
        let mut failure = None;
        let mut offer = |row: &[Value]| {
            let is_new = if plan.all {
                Ok(true)
            } else {
                seen.insert(group_key(row), &limits)
            };
            let taken = is_new.and_then(|is_new| {
                if is_new {
                    next_held.add(row, &limits)?;
                    next.push(row.to_vec());
                }
                Ok(is_new)
            });
            match taken {
                Ok(is_new) => goes_on.set(!is_new || sink(row)),
                Err(error) => {
                    failure = Some(error);
                    goes_on.set(false);
                }
            }
            goes_on.get()
        };
        let is_over = match again {
            None => first.run(&plan.first, context, &mut offer)?,
            Some(run) => {
                let working = Working::new(plan.number, rows, context.working);
                context.with_working(&working, |context| run.run(&plan.again, context, &mut offer))?
            }
        };
        match failure {
            Some(error) => Err(error.into()),
            None => Ok((is_over, goes_on.get())),
        }
    }
}
