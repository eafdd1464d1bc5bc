//! The query stage: batches of tuples from the first relation.

use super::ExecutionContext;
use super::access::{StepState, read_step};
use super::batch::Batch;
use crate::plan::Step;
use rubato_protocol::Outcome;

/// Appends tuples of the first relation until `output` holds `want`, or there are no more.
pub(crate) fn query_batch(
    step: &Step,
    state: &mut StepState,
    want: usize,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<()> {
    while output.len() < want && !state.exhausted {
        if state.input.is_empty() {
            state.input.push_nulls();
        }
        state.exhausted = read_step(step, state, want, context, output)?;
    }
    Ok(())
}
