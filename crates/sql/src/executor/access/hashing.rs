//! Relations that are found by hash, because no key leads to them.

use super::queries::offer_from;
use super::{Position, Reader, StepState, read_table};
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::generated::generate;
use crate::executor::hashed::{HashedRows, Reading};
use crate::executor::semi_join::partners;
use crate::plan::{Access, Relation, Step};
use rubato_base::Result;
use rubato_formula::Expr;
use rubato_protocol::{KeyRange, Outcome};

/// Whether the rows are found by hash.
#[derive(Debug, Default)]
pub(super) enum Hashing {
    #[default]
    Untried,
    /// Rows are being read; this is left.
    Reading(HashedRows, KeyRange),
    /// Rows that no table holds are being made, behind this place.
    Making(HashedRows, Position),
    Useless,
    Ready(HashedRows),
}

/// Reads the rows of a relation that is best found by hash, as far as the context's rows allow for: whether the step goes on.
///
/// Errors: [`rubato_protocol::Stop::Wait`] has kept what was read.
pub(super) fn prepare_hashing(step: &Step, state: &mut StepState, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    // The first tuple may be the only one: hashing pays from the second on, unless all tuples go along with what is asked.
    let is_whole = state.gathering.is_whole();
    let is_known = matches!(state.hashing, Hashing::Useless | Hashing::Ready(_));
    if is_known || (state.loops == 0 && !is_whole) {
        return Ok(true);
    }
    if matches!(
        step.relation,
        Relation::Functions(_) | Relation::Values(_) | Relation::Working(..)
    ) {
        make_to_hash(step, state, context)?;
        return Ok(!matches!(state.hashing, Hashing::Making(..)));
    }
    let partners = match (&state.hashing, is_whole) {
        (Hashing::Untried, true) => partners(step, &state.input, context)?,
        _ => Vec::new(),
    };
    read_to_hash(step, &mut state.hashing, partners, context)?;
    Ok(!matches!(state.hashing, Hashing::Reading(..)))
}

/// Makes rows that are the same for each tuple, as far as the context's rows allow for.
fn make_to_hash(step: &Step, state: &mut StepState, context: &mut ExecutionContext<'_>) -> Result<()> {
    let hashing = std::mem::replace(&mut state.hashing, Hashing::Useless);
    let (mut hashed, mut position) = match hashing {
        Hashing::Untried if !step.relation.is_lateral() => match HashedRows::new(step) {
            Some(hashed) => (hashed, Position::Start),
            None => return Ok(()),
        },
        Hashing::Making(hashed, position) => (hashed, position),
        _ => return Ok(()),
    };
    let generated = match state.generated.take() {
        Some(generated) => generated,
        None => generate(step, state.input.tuple(state.next_input), context)?,
    };
    let (mut fits, mut made) = (true, 0);
    while fits && made < context.rows_left {
        let Some(row) = generated.next(&mut position)? else {
            break;
        };
        fits = hashed.add_generated(step, &row, context.evaluation, &context.limits)?;
        made += 1;
    }
    let is_over = generated.is_over(&position);
    state.generated = Some(generated);
    context.spend(made as u64 + 1);
    if fits {
        state.hashing = match is_over {
            true => Hashing::Ready(hashed),
            false => Hashing::Making(hashed, position),
        };
    }
    Ok(())
}

/// Rows that do not satisfy `partners` are of no use.
fn read_to_hash(
    step: &Step,
    hashing: &mut Hashing,
    partners: Vec<Expr>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    let (Relation::Table(table), Access::Full { .. }) = (&step.relation, &step.access) else {
        *hashing = Hashing::Useless;
        return Ok(());
    };
    let (mut hashed, rest) = match std::mem::take(hashing) {
        Hashing::Untried => match HashedRows::new(step) {
            Some(hashed) => (hashed.only(partners), KeyRange::WHOLE),
            None => {
                *hashing = Hashing::Useless;
                return Ok(());
            }
        },
        Hashing::Reading(hashed, rest) => (hashed, rest),
        other => {
            *hashing = other;
            return Ok(());
        }
    };
    *hashing = match hashed.read(step, table, &rest, context) {
        Ok(Reading::Paused(rest)) => Hashing::Reading(hashed, rest),
        Ok(Reading::Done) => Hashing::Ready(hashed),
        Ok(Reading::DoesNotFit) => Hashing::Useless,
        Err(stop) => {
            *hashing = Hashing::Reading(hashed, rest);
            return Err(stop);
        }
    };
    Ok(())
}

pub(super) fn read_hashed(
    hashed: &HashedRows,
    table: &Table,
    reader: &mut Reader<'_>,
    position: Position,
    want: usize,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Position>> {
    match hashed.candidates(reader.step, reader.outer, context.evaluation)? {
        Some(candidates) => offer_from(candidates, reader, position, want),
        None => read_table(table, &reader.step.access, reader, position, want, context),
    }
}
