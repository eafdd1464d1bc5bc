//! Relations that are found by hash, because no key leads to them.

use super::queries::offer_from;
use super::{Position, Reader, StepState, read_table};
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::hashed::{HashedRows, Reading};
use crate::executor::semi_join::partners;
use crate::plan::{Access, Relation, Step};
use rubato_formula::Expr;
use rubato_protocol::{KeyRange, Outcome};

/// Whether the rows are found by hash.
#[derive(Debug, Default)]
pub(super) enum Hashing {
    #[default]
    Untried,
    /// Rows are being read; this is left.
    Reading(HashedRows, KeyRange),
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
    let partners = match (&state.hashing, is_whole) {
        (Hashing::Untried, true) => partners(step, &state.input, context)?,
        _ => Vec::new(),
    };
    read_to_hash(step, &mut state.hashing, partners, context)?;
    Ok(!matches!(state.hashing, Hashing::Reading(..)))
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
