//! Semi-joins: where the rows of a relation that is joined by equality are on other nodes, and no key leads to them, all tuples before
//! are read first, if they are not too many, and the values that they have go along with what is asked for. So only rows come that have a
//! partner.

use super::access::StepState;
use super::batch::Batch;
use super::hashed::{Hashable, HashedRows, partner_terms, push_value};
use super::join::join_batch;
use super::{BATCH_TUPLES, ExecutionContext};
use crate::plan::{Access, Relation, Step};
use rubato_base::{Key, KeyWriter, Result, Value};
use rubato_formula::Expr;
use rubato_protocol::Outcome;
use std::collections::BTreeMap;

/// So many tuples are waited for before others are asked.
const SEMI_JOIN_TUPLES_MAX: usize = 4096;
/// So many bytes of them.
const TUPLES_BYTES_MAX: usize = 4 << 20;
/// How long a list of values may be that goes along with each page.
const SEMI_JOIN_BYTES_MAX: usize = 64 << 10;
/// With more bytes of keys such a list is surely too long.
const KEYS_BYTES_MAX: usize = 4 * SEMI_JOIN_BYTES_MAX;

/// What is known of the tuples that a step is joined with.
#[derive(Debug, Default)]
pub(crate) enum Gathering {
    /// Nothing.
    #[default]
    Untried,
    /// They are being read, so many bytes so far.
    Open(usize),
    /// They are all here.
    Whole,
    /// They come in batches.
    InBatches,
}

impl Gathering {
    /// Whether all tuples before are here.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Gathering::Whole)
    }
}

/// Whether the step's rows are best asked for with all values of the tuples before.
fn may_gather(step: &Step, state: &StepState, want: usize, context: &ExecutionContext<'_>) -> bool {
    // Whoever wants few rows may not need all tuples.
    let (Relation::Table(table), Access::Full { .. }, BATCH_TUPLES) = (&step.relation, &step.access, want) else {
        return false;
    };
    state.lock.is_none() && context.database.may_combine(table.id) && HashedRows::new(step).is_some()
}

/// Reads all tuples that the step is joined with, if that serves, as far as the context's rows allow for: whether it goes on with those
/// that are here.
///
/// Errors: [`rubato_protocol::Stop::Wait`] has kept those that are here.
pub(crate) fn gather(
    (step, earlier_steps): (&Step, &[Step]),
    (state, earlier_states): (&mut StepState, &mut [StepState]),
    want: usize,
    context: &mut ExecutionContext<'_>,
) -> Outcome<bool> {
    if matches!(state.gathering, Gathering::Untried) {
        state.gathering = match may_gather(step, state, want, context) {
            true => Gathering::Open(0),
            false => Gathering::InBatches,
        };
    }
    while let Gathering::Open(bytes) = state.gathering {
        if context.is_spent() {
            return Ok(false);
        }
        let mut more = Batch::new(state.input.width());
        join_batch(earlier_steps, earlier_states, BATCH_TUPLES, context, &mut more)?;
        if more.is_empty() {
            if context.is_spent() {
                return Ok(false);
            }
            (state.gathering, state.exhausted) = (Gathering::Whole, true);
            return Ok(true);
        }
        let bytes = bytes + more.heap_bytes();
        let is_much = bytes > TUPLES_BYTES_MAX || state.input.len() + more.len() > SEMI_JOIN_TUPLES_MAX;
        state.input.append(more);
        state.gathering = match is_much {
            true => Gathering::InBatches,
            false => Gathering::Open(bytes),
        };
    }
    Ok(true)
}

/// What rows must satisfy to have a partner among the tuples, as far as others can look at it: terms over the columns of a row.
pub(crate) fn partners(step: &Step, tuples: &Batch, context: &ExecutionContext<'_>) -> Result<Vec<Expr>> {
    let each = (0..tuples.len()).map(|place| tuples.tuple(place));
    partner_terms(step, each, context.evaluation)
}

/// The different values that tuples have, as long as they are few and tell who is equal to one of them.
#[derive(Debug, Default)]
pub struct PartnerValues {
    values: BTreeMap<Key, Value>,
    /// Those of the keys, of which one is at most some bytes longer than its value.
    bytes: usize,
    tuples: usize,
    is_useless: bool,
}

impl PartnerValues {
    /// Adds the value of one more tuple. NULL is equal to nothing.
    pub fn add(&mut self, value: Value) {
        if self.is_useless {
            return;
        }
        self.tuples += 1;
        let mut writer = KeyWriter::default();
        match push_value(&mut writer, &value) {
            Hashable::Yes => {
                let key = writer.finish();
                let length = key.as_bytes().len();
                if self.values.insert(key, value).is_none() {
                    self.bytes += length;
                }
            }
            Hashable::Never => {}
            Hashable::No => self.give_up(),
        }
        if self.tuples > SEMI_JOIN_TUPLES_MAX || self.bytes > KEYS_BYTES_MAX {
            self.give_up();
        }
    }

    /// They tell nothing, whatever is added.
    pub fn give_up(&mut self) {
        (self.values, self.is_useless) = (BTreeMap::new(), true);
    }

    /// Whether they tell nothing.
    pub fn is_useless(&self) -> bool {
        self.is_useless
    }

    /// That an expression has one of them, as a term; `None` where they tell nothing, or are too long to go along with each page.
    pub fn among(&self, own: Expr) -> Option<Expr> {
        if self.is_useless {
            return None;
        }
        let items = self.values.values().cloned().map(Expr::Literal).collect();
        let term = Expr::InList(Box::new(own), std::sync::Arc::new(items));
        let mut bytes = Vec::new();
        term.encode(&mut bytes);
        (bytes.len() <= SEMI_JOIN_BYTES_MAX).then_some(term)
    }
}
