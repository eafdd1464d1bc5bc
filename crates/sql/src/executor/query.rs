//! The query stage: batches of tuples from the first relation.

use super::ExecutionContext;
use super::access::{StepState, read_query, read_step};
use super::batch::Batch;
use crate::plan::{Relation, Step};
use rubato_protocol::{Outcome, Stop};

/// Appends tuples of the first relation until `output` holds `want`, there are no more, or the context's rows are spent.
pub(crate) fn query_batch(
    step: &Step,
    state: &mut StepState,
    want: usize,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<()> {
    while output.len() < want && !state.exhausted && !context.is_spent() {
        if state.input.is_empty() {
            state.input.push_nulls();
        }
        let outcome = match &step.relation {
            Relation::Query(plan) => read_query(step, plan, state, want, context, output),
            _ => read_step(step, state, want, context, output),
        };
        state.exhausted = match outcome {
            // It is met again when there is nothing before it.
            Err(Stop::Wait(_)) if !output.is_empty() => break,
            outcome => outcome?,
        };
    }
    Ok(())
}
