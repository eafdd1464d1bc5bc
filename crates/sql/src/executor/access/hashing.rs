//! Relations that are found by hash, because no key leads to them.

use super::queries::offer_from;
use super::{Position, Reader, read_table};
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::hashed::{HashedRows, Reading};
use crate::plan::{Access, Relation, Step};
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

/// Reads the rows of a relation that is best found by hash, until the context's rows are spent.
pub(super) fn prepare_hashing(step: &Step, so_far: Hashing, context: &mut ExecutionContext<'_>) -> Outcome<Hashing> {
    let (Relation::Table(table), Access::Full { .. }) = (&step.relation, &step.access) else {
        return Ok(Hashing::Useless);
    };
    let (mut hashed, rest) = match so_far {
        Hashing::Untried => match HashedRows::new(step) {
            Some(hashed) => (hashed, KeyRange::WHOLE),
            None => return Ok(Hashing::Useless),
        },
        Hashing::Reading(hashed, rest) => (hashed, rest),
        other => return Ok(other),
    };
    Ok(match hashed.read(step, table, &rest, context)? {
        Reading::Paused(rest) => Hashing::Reading(hashed, rest),
        Reading::Done => Hashing::Ready(hashed),
        Reading::DoesNotFit => Hashing::Useless,
    })
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
