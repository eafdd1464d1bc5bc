//! Steps that run queries for each tuple of the steps before: expressions in which queries are asked, and LATERAL.
//!
//! An expression asks a query where it comes to it, so that a branch of a CASE that is not taken asks nothing. What is not known then is
//! asked, in as many slices as that takes, and the expression is computed again.

use super::{Reader, StepState};
use crate::executor::ExecutionContext;
use crate::executor::asking::Question;
use crate::executor::batch::Batch;
use crate::executor::nested::QueryRun;
use crate::executor::sorting::FixedHasher;
use crate::plan::{QueryPlan, Step};
use rubato_base::{Error, Result, Row, Value};
use rubato_formula::{EvalContext, Expr, Subqueries};
use rubato_protocol::{Outcome, Stop};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// What the answers that are kept for equal arguments may take, in bytes.
const ANSWERS_BYTES_MAX: usize = 8 << 20;
/// What an answer takes beside its arguments and its value, about, in bytes.
const ANSWER_BYTES: usize = 96;

/// A step that computes expressions.
#[derive(Debug, Default)]
pub(super) struct Computing {
    answers: Answers,
    asked: Option<AskedNow>,
}

/// The query that is asked.
#[derive(Debug)]
struct AskedNow {
    number: usize,
    arguments: Vec<Value>,
    /// The values that it refers to: its arguments, and those of the queries around.
    outer: Vec<Value>,
    question: Question,
}

/// The answers of one query by its packed arguments.
type ByArguments = HashMap<Box<[u8]>, Value, FixedHasher>;

/// What is known by now; an expression that needs more says so.
#[derive(Debug, Default)]
struct Answers {
    /// By number.
    known: RefCell<HashMap<usize, ByArguments, FixedHasher>>,
    bytes: Cell<usize>,
    missing: RefCell<Option<(usize, Vec<Value>)>>,
}

impl Subqueries for Answers {
    fn answer(&self, number: usize, arguments: &[Value]) -> Result<Value> {
        let known = self.known.borrow();
        let packed = Row::from_values(arguments);
        if let Some(value) = known
            .get(&number)
            .and_then(|answers| answers.get(packed.as_ref().as_bytes()))
        {
            return Ok(value.clone());
        }
        self.missing.replace(Some((number, arguments.to_vec())));
        Err(Error::internal("a query within an expression was not asked"))
    }
}

impl Answers {
    fn add(&self, number: usize, arguments: &[Value], answer: Value) {
        let packed: Box<[u8]> = Row::from_values(arguments).as_ref().as_bytes().into();
        let bytes = packed.len() + answer.heap_bytes() + ANSWER_BYTES;
        self.bytes.set(self.bytes.get() + bytes);
        self.known
            .borrow_mut()
            .entry(number)
            .or_default()
            .insert(packed, answer);
    }

    /// A tuple is done: what may be another the next time is forgotten, and everything if it has become too much.
    fn end_tuple(&self, context: &ExecutionContext<'_>) {
        let queries = context.subqueries.map_or(&[][..], |subqueries| &subqueries.queries);
        if self.bytes.get() > ANSWERS_BYTES_MAX {
            self.known.borrow_mut().clear();
            self.bytes.set(0);
        } else {
            let is_stable = |number: &usize| queries.get(*number).is_some_and(|query| query.is_stable);
            self.known.borrow_mut().retain(|number, _| is_stable(number));
        }
    }
}

/// Computes the expressions of a step for the tuple under way, and gives them as its one row: whether that is done.
pub(super) fn read_computed(
    step: &Step,
    expressions: &[Expr],
    state: &mut StepState,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<bool> {
    let mut computing = state.computing.take().unwrap_or_default();
    let outcome = compute(expressions, &mut computing, state, context);
    if outcome.is_err() {
        // If it has to wait, it asks again.
        computing.asked = None;
    }
    if matches!(outcome, Ok(Some(_))) {
        computing.answers.end_tuple(context);
    }
    state.computing = Some(computing);
    let Some(row) = outcome? else { return Ok(false) };
    context.spend(1);
    state.loops += 1;
    let mut reader = reader(step, state, context, output);
    reader.offer_generated(&row)?;
    Ok(true)
}

/// The values of the expressions, `None` when the context's rows are spent.
fn compute(
    expressions: &[Expr],
    computing: &mut Computing,
    state: &StepState,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Vec<Value>>> {
    let tuple = state.input.tuple(state.next_input);
    loop {
        if computing.asked.is_some() && !ask(computing, context)? {
            return Ok(None);
        }
        let evaluation = EvalContext {
            subqueries: Some(&computing.answers),
            ..*context.evaluation
        };
        let values = expressions.iter().map(|expr| expr.evaluate(tuple, &evaluation));
        let error = match values.collect::<Result<Vec<Value>>>() {
            Ok(row) => return Ok(Some(row)),
            Err(error) => error,
        };
        let missing = computing.answers.missing.take();
        let (Some((number, arguments)), Some(subqueries)) = (missing, context.subqueries) else {
            return Err(Stop::Fail(error));
        };
        let Some(subquery) = subqueries.queries.get(number) else {
            return Err(Stop::Fail(error));
        };
        let mut outer = outer_values(context);
        fill_outer(&mut outer, &subquery.outer, &arguments);
        computing.asked = Some(AskedNow {
            number,
            arguments,
            outer,
            question: Question::new(subquery),
        });
    }
}

/// Goes on with the query that is asked: whether it is answered.
fn ask(computing: &mut Computing, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    let Some(asked) = &mut computing.asked else {
        return Ok(true);
    };
    let queries = context.subqueries.map_or(&[][..], |subqueries| &subqueries.queries);
    let Some(subquery) = queries.get(asked.number) else {
        return Ok(true);
    };
    let Some(answer) = asked.question.ask(subquery, &asked.outer, context)? else {
        return Ok(false);
    };
    computing.answers.add(asked.number, &asked.arguments, answer);
    computing.asked = None;
    Ok(true)
}

/// A query that is run for each tuple.
#[derive(Debug)]
pub(super) struct LateralRun {
    outer: Vec<Value>,
    run: QueryRun,
}

/// Gives rows of a query that refers to the tuple under way, until `output` holds `want`: whether there are no more.
pub(super) fn read_lateral(
    step: &Step,
    (plan, places, arguments): (&QueryPlan, &[usize], &[Expr]),
    state: &mut StepState,
    want: usize,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<bool> {
    let mut lateral = match state.lateral.take() {
        Some(lateral) => lateral,
        None => {
            state.loops += 1;
            let tuple = state.input.tuple(state.next_input);
            let values = arguments.iter().map(|expr| expr.evaluate(tuple, context.evaluation));
            let mut outer = outer_values(context);
            fill_outer(&mut outer, places, &values.collect::<Result<Vec<Value>>>()?);
            let run = QueryRun::new(plan);
            Box::new(LateralRun { outer, run })
        }
    };
    let mut failure = None;
    let LateralRun { outer, run } = &mut *lateral;
    let outcome = {
        let mut reader = reader(step, state, context, output);
        let mut offer = |row: &[Value]| {
            failure = reader.offer_generated(row).err();
            failure.is_none() && reader.output.len() < want
        };
        context.with_outer(outer, |context| run.run(plan, context, &mut offer))
    };
    let is_over = match outcome {
        Err(wait @ Stop::Wait(_)) => {
            state.lateral = Some(lateral);
            return Err(wait);
        }
        outcome => outcome?,
    };
    context.spend(1);
    if let Some(failure) = failure {
        return Err(Stop::Fail(failure));
    }
    if !is_over {
        state.lateral = Some(lateral);
    }
    Ok(is_over)
}

/// The values that the queries around refer to, with room for all.
fn outer_values(context: &ExecutionContext<'_>) -> Vec<Value> {
    let mut outer = context.evaluation.outer.to_vec();
    let count = context.subqueries.map_or(0, |subqueries| subqueries.outer_count);
    outer.resize(count.max(outer.len()), Value::Null);
    outer
}

fn fill_outer(outer: &mut [Value], places: &[usize], arguments: &[Value]) {
    for (place, argument) in places.iter().zip(arguments) {
        if let Some(slot) = outer.get_mut(*place) {
            slot.clone_from(argument);
        }
    }
}

/// What takes rows that are made for the tuple under way.
fn reader<'a>(
    step: &'a Step,
    state: &'a mut StepState,
    context: &ExecutionContext<'a>,
    output: &'a mut Batch,
) -> Reader<'a> {
    Reader {
        step,
        outer: state.input.tuple(state.next_input),
        lock: None,
        evaluation: context.evaluation,
        output,
        matched: &mut state.matched,
        rows: &mut state.rows,
        lookups: &mut state.lookups,
        looked_at: 0,
        ranges: 0,
        seen: None,
        limits: context.limits,
    }
}
