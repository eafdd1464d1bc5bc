//! Relations that are found by hash, because no key leads to them.

use super::queries::offer_from;
use super::{Position, Reader, read_table};
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::hashed::{HashedRows, Reading};
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

/// Reads the rows of a relation that is best found by hash, until the context's rows are spent. Those that do not satisfy `partners` are of
/// no use.
///
/// Errors: [`rubato_protocol::Stop::Wait`] has kept what was read.
pub(super) fn prepare_hashing(
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
