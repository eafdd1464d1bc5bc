//! FULL JOIN: the rows of the right side are kept, by hash where an equality leads to them; those of the left side look for them as they
//! come, and what nobody has met comes last.

use super::access::StepView;
use super::hashed::HashedRows;
use super::nested::QueryRun;
use super::select::Sink;
use super::{ExecutionContext, Held, Limits};
use crate::plan::{FullJoinPlan, Step};
use rubato_base::{Error, Result, Row, Value};
use rubato_formula::EvalContext;
use rubato_protocol::Outcome;

/// How many pairs are looked at before others have their turn.
const PAIRS_AT_ONCE: u64 = 1000;

/// A FULL JOIN under way. It borrows nothing between two calls.
#[derive(Debug)]
pub(crate) struct FullJoinRun {
    left: QueryRun,
    left_is_done: bool,
    right: QueryRun,
    right_is_done: bool,
    joining: Joining,
}

/// The right side, and what the row of the left side under way has yet to meet.
#[derive(Debug)]
struct Joining {
    step: Step,
    kept: HashedRows,
    /// Which of the kept rows have met one.
    met: Vec<bool>,
    /// Rows that can meet none: they hold a NULL where the other side is compared with.
    lonely: Vec<Row>,
    held: Held,
    /// How many of those that met nothing were given.
    given_last: usize,
    current: Option<LeftRow>,
    looked_at: u64,
}

#[derive(Debug)]
struct LeftRow {
    values: Vec<Value>,
    /// How many of the rows that it may meet were looked at.
    next: usize,
    has_met: bool,
}

impl FullJoinRun {
    pub(crate) fn new(plan: &FullJoinPlan) -> FullJoinRun {
        let step = plan.right_step();
        FullJoinRun {
            left: QueryRun::new(&plan.left),
            left_is_done: false,
            right: QueryRun::new(&plan.right),
            right_is_done: false,
            joining: Joining {
                kept: HashedRows::of_query(&step),
                step,
                met: Vec::new(),
                lonely: Vec::new(),
                held: Held::default(),
                given_last: 0,
                current: None,
                looked_at: 0,
            },
        }
    }

    /// As [`QueryRun::run`].
    pub(crate) fn run(
        &mut self,
        plan: &FullJoinPlan,
        context: &mut ExecutionContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        if !self.right_is_done && !self.keep_right(plan, context)? {
            return Ok(false);
        }
        while !self.left_is_done || self.joining.current.is_some() {
            let goes_on = self.join_left(plan, context, sink)?;
            context.spend(std::mem::take(&mut self.joining.looked_at));
            if !goes_on || context.is_spent() {
                return Ok(false);
            }
        }
        self.joining.give_last(plan, context, sink)
    }

    /// Whether all rows of the right side are kept.
    fn keep_right(&mut self, plan: &FullJoinPlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let (evaluation, limits, joining) = (context.evaluation, context.limits, &mut self.joining);
        let mut failure = None;
        self.right_is_done = self.right.run(&plan.right, context, &mut |row| {
            failure = joining.keep(row, evaluation, &limits).err();
            failure.is_none()
        })?;
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(self.right_is_done),
        }
    }

    /// Joins rows of the left side: whether more are wanted.
    fn join_left(
        &mut self,
        plan: &FullJoinPlan,
        context: &mut ExecutionContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        let FullJoinRun {
            left,
            left_is_done,
            joining,
            ..
        } = self;
        let evaluation = context.evaluation;
        let mut goes_on = joining.go_on(plan, evaluation, sink)?;
        if !goes_on || *left_is_done || joining.is_due() {
            return Ok(goes_on);
        }
        let mut failure: Option<Error> = None;
        let is_over = left.run(&plan.left, context, &mut |row| {
            joining.current = Some(LeftRow {
                values: row.to_vec(),
                next: 0,
                has_met: false,
            });
            match joining.go_on(plan, evaluation, sink) {
                Ok(wanted) => goes_on = wanted,
                Err(error) => failure = Some(error),
            }
            goes_on && failure.is_none() && !joining.is_due()
        })?;
        *left_is_done |= is_over;
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(goes_on),
        }
    }
}

impl Joining {
    fn keep(&mut self, row: &[Value], evaluation: &EvalContext<'_>, limits: &Limits) -> Result<()> {
        let before = self.kept.all().len();
        self.kept.add_row(&self.step, row, evaluation, limits)?;
        if self.kept.all().len() > before {
            self.met.push(false);
        } else {
            self.held.add(row, limits)?;
            self.lonely.push(Row::from_values(row));
        }
        Ok(())
    }

    /// Whether so many pairs were looked at that others should have their turn.
    fn is_due(&self) -> bool {
        self.looked_at >= PAIRS_AT_ONCE
    }

    /// Gives what the row of the left side meets, and the row alone if it meets nothing: whether more are wanted. The row stays where
    /// it is not done with.
    fn go_on(&mut self, plan: &FullJoinPlan, evaluation: &EvalContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let Some(mut current) = self.current.take() else {
            return Ok(true);
        };
        let places = self.kept.candidate_places(&self.step, &current.values, evaluation)?;
        let count = places.map_or(self.kept.all().len(), <[u32]>::len);
        while current.next < count {
            if self.looked_at >= PAIRS_AT_ONCE {
                self.current = Some(current);
                return Ok(true);
            }
            let place = places.map_or(current.next, |places| places[current.next] as usize);
            current.next += 1;
            self.looked_at += 1;
            let row = self.kept.all()[place].1.as_ref();
            let view = StepView {
                outer: &current.values,
                step: &self.step,
                row,
            };
            let meets = match &plan.condition {
                Some(condition) => condition.is_true(&view, evaluation)?,
                None => true,
            };
            if !meets {
                continue;
            }
            self.met[place] = true;
            current.has_met = true;
            let pair = [current.values.as_slice(), &row.values()].concat();
            if !sink(&pair) {
                self.current = Some(current);
                return Ok(false);
            }
        }
        if current.has_met {
            return Ok(true);
        }
        current
            .values
            .resize(plan.left_types.len() + plan.right_types.len(), Value::Null);
        Ok(sink(&current.values))
    }

    /// Gives the rows of the right side that have met nothing: whether all are given.
    fn give_last(
        &mut self,
        plan: &FullJoinPlan,
        context: &mut ExecutionContext<'_>,
        sink: &mut Sink<'_>,
    ) -> Outcome<bool> {
        let kept = self.met.len();
        while self.given_last < kept + self.lonely.len() {
            let place = self.given_last;
            self.given_last += 1;
            let row = match place.checked_sub(kept) {
                Some(lonely) => &self.lonely[lonely],
                None if self.met[place] => continue,
                None => &self.kept.all()[place].1,
            };
            let mut values = vec![Value::Null; plan.left_types.len()];
            values.extend(row.as_ref().values());
            context.spend(1);
            if !sink(&values) || context.is_spent() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
