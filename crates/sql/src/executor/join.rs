//! The join stage: finds the partners of each tuple by key, index or scan.

use super::ExecutionContext;
use super::access::{StepState, read_step};
use super::batch::Batch;
use super::query::query_batch;
use super::semi_join::gather;
use crate::plan::{JoinKind, Step};
use rubato_protocol::{Outcome, Stop};

/// Appends tuples that have gone through all of `steps` until `output` holds `want`, there are no more, or the context's rows are
/// spent.
///
/// On [`Stop::Wait`] `output` is as it was; call again.
pub(crate) fn join_batch(
    steps: &[Step],
    states: &mut [StepState],
    want: usize,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<()> {
    let (Some((step, earlier_steps)), Some((state, earlier_states))) = (steps.split_last(), states.split_last_mut())
    else {
        return Ok(());
    };
    if earlier_steps.is_empty() {
        return query_batch(step, state, want, context, output);
    }
    match gather((step, earlier_steps), (state, earlier_states), want, context) {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(Stop::Wait(_)) if !output.is_empty() => return Ok(()),
        Err(stop) => return Err(stop),
    }
    while output.len() < want && !context.is_spent() {
        if state.next_input >= state.input.len() {
            if state.exhausted {
                break;
            }
            state.input.clear();
            state.next_input = 0;
            match join_batch(earlier_steps, earlier_states, want, context, &mut state.input) {
                Err(Stop::Wait(_)) if !output.is_empty() => break,
                outcome => outcome?,
            }
            if state.input.is_empty() {
                state.exhausted = !context.is_spent();
                break;
            }
        }
        let is_done = match read_step(step, state, want, context, output) {
            // It is met again when there is nothing before it.
            Err(Stop::Wait(_)) if !output.is_empty() => break,
            outcome => outcome?,
        };
        if is_done {
            extend_with_nulls(step, state, context, output)?;
            state.next_input += 1;
            state.matched = false;
        }
    }
    Ok(())
}

/// A left join keeps a tuple that found no partner.
fn extend_with_nulls(
    step: &Step,
    state: &mut StepState,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<()> {
    if step.join != JoinKind::Left || state.matched {
        return Ok(());
    }
    // The slots of this step are still NULL in the outer tuple.
    let tuple = state.input.tuple(state.next_input);
    let kept = match &step.filter_after {
        Some(filter) => filter.is_true(tuple, context.evaluation)?,
        None => true,
    };
    if kept {
        output.push_copy(tuple);
        state.rows += 1;
    }
    Ok(())
}
