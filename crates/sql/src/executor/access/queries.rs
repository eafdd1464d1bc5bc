//! Steps that read the rows of a query: as they come where the pipeline begins with it, else all of them are kept.

use super::{Position, Reader, StepState};
use crate::executor::ExecutionContext;
use crate::executor::batch::Batch;
use crate::executor::hashed::HashedRows;
use crate::executor::nested::QueryRun;
use crate::plan::{QueryPlan, Step};
use rubato_base::{Key, Row};
use rubato_protocol::{Outcome, Stop};

/// A query that the step reads: running, with the rows that it has given where these are kept.
#[derive(Debug)]
pub(super) struct Nested {
    run: QueryRun,
    pub(super) kept: HashedRows,
    is_done: bool,
}

/// Appends rows of the query that the pipeline begins with, as they come, until `output` holds `want`; `true` when there are no more.
pub(crate) fn read_query(
    step: &Step,
    plan: &QueryPlan,
    state: &mut StepState,
    want: usize,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<bool> {
    let nested = state.nested.get_or_insert_with(|| Nested::new(step, plan));
    state.loops = 1;
    let evaluation = context.evaluation;
    let mut reader = Reader {
        step,
        outer: state.input.tuple(0),
        lock: None,
        evaluation,
        output,
        matched: &mut state.matched,
        rows: &mut state.rows,
        lookups: &mut state.lookups,
        looked_at: 0,
        ranges: 0,
        seen: None,
        limits: context.limits,
    };
    let mut failure = None;
    let is_over = nested.run.run(plan, context, &mut |row| {
        failure = reader.offer_generated(row).err();
        failure.is_none() && reader.output.len() < want
    })?;
    match failure {
        Some(error) => Err(Stop::Fail(error)),
        None => Ok(is_over),
    }
}

impl Nested {
    fn new(step: &Step, plan: &QueryPlan) -> Nested {
        Nested {
            run: QueryRun::new(plan),
            kept: HashedRows::of_query(step),
            is_done: false,
        }
    }
}

/// Runs the query that a later step joins with, which depends on no tuple, and keeps its rows: whether it has them all.
pub(super) fn keep_rows(
    step: &Step,
    plan: &QueryPlan,
    state: &mut StepState,
    context: &mut ExecutionContext<'_>,
) -> Outcome<bool> {
    let nested = state.nested.get_or_insert_with(|| Nested::new(step, plan));
    if nested.is_done {
        return Ok(true);
    }
    let (evaluation, limits, kept) = (context.evaluation, context.limits, &mut nested.kept);
    let mut failure = None;
    nested.is_done = nested.run.run(plan, context, &mut |row| {
        failure = kept.add_row(step, row, evaluation, &limits).err();
        failure.is_none()
    })?;
    match failure {
        Some(error) => Err(Stop::Fail(error)),
        None => Ok(nested.is_done),
    }
}

pub(super) fn read_kept(
    kept: &HashedRows,
    reader: &mut Reader<'_>,
    position: Position,
    want: usize,
) -> Outcome<Option<Position>> {
    match kept.candidates(reader.step, reader.outer, reader.evaluation)? {
        Some(candidates) => offer_from(candidates, reader, position, want),
        None => offer_from(kept.all().iter(), reader, position, want),
    }
}

/// Offers rows from the one on where the reading stands.
pub(super) fn offer_from<'r>(
    rows: impl Iterator<Item = &'r (Key, Row)>,
    reader: &mut Reader<'_>,
    position: Position,
    want: usize,
) -> Outcome<Option<Position>> {
    let first = if let Position::Generated(next) = position {
        next
    } else {
        0
    };
    for (place, (key, row)) in rows.enumerate().skip(first) {
        if reader.output.len() >= want {
            return Ok(Some(Position::Generated(place)));
        }
        reader.offer(key.as_bytes(), row.as_ref())?;
    }
    Ok(None)
}
