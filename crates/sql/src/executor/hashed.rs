//! A relation that is joined by equality and can be reached by no key: its rows are read once and found by hash from then on. The
//! rows of a query that is joined are kept here too.

use super::access::StepView;
use super::semi_join::PartnerValues;
use super::sieving::{over_row, sieve_of, with_terms};
use super::sorting::FixedHasher;
use super::{ExecutionContext, Held, Limits};
use crate::catalog::Table;
use crate::far::Passage;
use crate::plan::Step;
use rubato_base::{Key, KeyWriter, Result, Row, RowRef, Value};
use rubato_formula::{Comparison, EvalContext, Expr, Tuple, Volatility};
use rubato_protocol::grid::Sieve;
use rubato_protocol::{KeyRange, Outcome, ScanEnd, Stop};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The rows of a relation by the values that a join compares. It narrows the choice only: the join condition is still asked.
#[derive(Debug)]
pub(crate) struct HashedRows {
    rows: Vec<(Key, Row)>,
    places: HashMap<Key, SmallVec<[u32; 2]>, FixedHasher>,
    terms: SmallVec<[Equality; 2]>,
    /// What rows that have a partner satisfy: terms over the columns of a row.
    partners: Vec<Expr>,
    held: Held,
}

/// How far the reading of the rows got.
pub(crate) enum Reading {
    /// This is left.
    Paused(KeyRange),
    Done,
    /// They cannot be hashed, or are too many to hold: the table is scanned for each tuple.
    DoesNotFit,
}

/// A term `left = right` of the condition, by its place among the terms.
#[derive(Clone, Copy, Debug)]
struct Equality {
    term: usize,
    /// Whether the relation's own side is the left one.
    own_left: bool,
}

/// Whether hashing serves a value: equal values must have equal keys.
pub(super) enum Hashable {
    Yes,
    /// NULL equals nothing.
    Never,
    /// Floats compare with rounding across types.
    No,
}

impl HashedRows {
    /// Rows to be read; `None` if the step's condition has no fitting equality.
    pub(crate) fn new(step: &Step) -> Option<HashedRows> {
        let terms = equalities(step);
        (!terms.is_empty()).then(|| HashedRows {
            rows: Vec::new(),
            places: HashMap::default(),
            terms,
            partners: Vec::new(),
            held: Held::default(),
        })
    }

    /// The same, where rows that do not satisfy these terms are of no use.
    pub(crate) fn only(mut self, partners: Vec<Expr>) -> HashedRows {
        self.partners = partners;
        self
    }

    /// The rows of a query, to be added. Without a fitting equality each of them may join with any tuple.
    pub(crate) fn of_query(step: &Step) -> HashedRows {
        HashedRows {
            rows: Vec::new(),
            places: HashMap::default(),
            terms: equalities(step),
            partners: Vec::new(),
            held: Held::default(),
        }
    }

    /// Adds a row of a query. 53200 if it does not fit.
    pub(crate) fn add_row(
        &mut self,
        step: &Step,
        values: &[Value],
        evaluation: &EvalContext<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let row = Row::from_values(values);
        self.held.add_bytes(row.as_ref().as_bytes().len() + 64, limits)?;
        if !self.terms.is_empty() && !self.add(step, &[], row.as_ref(), evaluation)? {
            // Those that were left out so far hold a NULL, and join with nothing.
            self.terms.clear();
        }
        if self.terms.is_empty() {
            self.rows.push((Key::default(), row));
        }
        Ok(())
    }

    /// Adds a row that no table holds; `false` if they cannot be hashed, or are too many to hold.
    pub(crate) fn add_generated(
        &mut self,
        step: &Step,
        values: &[Value],
        evaluation: &EvalContext<'_>,
        limits: &Limits,
    ) -> Result<bool> {
        let row = Row::from_values(values);
        let fits = self.held.add_bytes(row.as_ref().as_bytes().len() + 64, limits).is_ok();
        Ok(fits && self.add(step, &[], row.as_ref(), evaluation)?)
    }

    /// All rows.
    pub(crate) fn all(&self) -> &[(Key, Row)] {
        &self.rows
    }

    /// Reads rows of the step's table until the context's rows are spent.
    pub(crate) fn read(
        &mut self,
        step: &Step,
        table: &Table,
        rest: &KeyRange,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Reading> {
        let (evaluation, limits, rows_left) = (context.evaluation, context.limits, context.rows_left);
        let sieve = sieve_of(step, (table.id, rest), evaluation, &context.database);
        let sieve = with_terms(sieve, &self.partners);
        let how = Passage {
            reverse: false,
            columns: Some(step.reads),
            sieve: &sieve,
            useful: usize::MAX,
            along: None,
        };
        let (mut fits, mut failure, mut looked_at) = (true, None, 0);
        let mut visit = |key: &[u8], row: RowRef<'_>| {
            looked_at += 1;
            match self.add(step, key, row, evaluation) {
                Ok(hashable) => fits = hashable && self.held.add_bytes(row.as_bytes().len() + 64, &limits).is_ok(),
                Err(error) => failure = Some(error),
            }
            fits && failure.is_none() && looked_at < rows_left
        };
        let (database, transaction) = (&mut context.database, context.transaction);
        let end = database.pass(transaction, (table.id, rest), how, &mut visit)?;
        context.spend(looked_at as u64);
        match (failure, end) {
            (Some(error), _) => Err(Stop::Fail(error)),
            (None, _) if !fits => Ok(Reading::DoesNotFit),
            (None, ScanEnd::Exhausted) => Ok(Reading::Done),
            (None, ScanEnd::Stopped(last)) => Ok(Reading::Paused(rest.rest_behind(&last, false))),
        }
    }

    fn add(&mut self, step: &Step, key: &[u8], row: RowRef<'_>, evaluation: &EvalContext<'_>) -> Result<bool> {
        let view = StepView { outer: &[], step, row };
        let mut writer = KeyWriter::default();
        match push_sides(&mut writer, step, &self.terms, true, &view, evaluation)? {
            Hashable::No => return Ok(false),
            Hashable::Never => {}
            Hashable::Yes => {
                self.places
                    .entry(writer.finish())
                    .or_default()
                    .push(self.rows.len() as u32);
                self.rows.push((Key::from_bytes(key), row.to_row()));
            }
        }
        Ok(true)
    }

    /// The rows that may join with an outer tuple, in key order; `None` if hashing cannot tell.
    pub(crate) fn candidates(
        &self,
        step: &Step,
        outer: &[Value],
        evaluation: &EvalContext<'_>,
    ) -> Result<Option<impl Iterator<Item = &(Key, Row)>>> {
        let places = self.candidate_places(step, outer, evaluation)?;
        Ok(places.map(|places| places.iter().map(|place| &self.rows[*place as usize])))
    }

    /// The places of these rows among all.
    pub(crate) fn candidate_places(
        &self,
        step: &Step,
        outer: &[Value],
        evaluation: &EvalContext<'_>,
    ) -> Result<Option<&[u32]>> {
        if self.terms.is_empty() {
            return Ok(None);
        }
        let mut writer = KeyWriter::default();
        Ok(
            match push_sides(&mut writer, step, &self.terms, false, outer, evaluation)? {
                Hashable::No => None,
                Hashable::Never => Some(&[]),
                Hashable::Yes => Some(self.places.get(&writer.finish()).map_or(&[], SmallVec::as_slice)),
            },
        )
    }
}

/// What the tuples say of the rows that they join with, as terms over the columns of a row. None where values do not tell: floats compare
/// with rounding, and long lists are not sent.
pub(crate) fn partner_terms<'t>(
    step: &Step,
    tuples: impl Iterator<Item = &'t [Value]> + Clone,
    evaluation: &EvalContext<'_>,
) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    for equality in equalities(step) {
        let Some(Expr::Compare(_, left, right)) = terms_of(step).get(equality.term) else {
            continue;
        };
        let (own, outer) = match equality.own_left {
            true => (left, right),
            false => (right, left),
        };
        let Some(own) = over_row(step, own, evaluation).filter(Sieve::can_have) else {
            continue;
        };
        let mut values = PartnerValues::default();
        for tuple in tuples.clone() {
            values.add(outer.evaluate(tuple, evaluation)?);
        }
        found.extend(values.among(own));
    }
    Ok(found)
}

fn terms_of(step: &Step) -> &[Expr] {
    match &step.condition {
        Some(Expr::And(terms)) => terms,
        Some(term) => std::slice::from_ref(term),
        None => &[],
    }
}

/// The terms that compare something of this step's rows alone with something of the tuples before.
fn equalities(step: &Step) -> SmallVec<[Equality; 2]> {
    let own = step.first_slot..step.first_slot + step.columns.len();
    let reads_only = |expr: &Expr, wanted: &dyn Fn(usize) -> bool| {
        let mut fits = true;
        expr.for_each_column(&mut |slot| fits &= wanted(slot));
        fits && !expr.is_constant() && expr.volatility() != Volatility::Volatile
    };
    let is_own = |expr: &Expr| reads_only(expr, &|slot| own.contains(&slot));
    let is_outer = |expr: &Expr| reads_only(expr, &|slot| slot < own.start);
    let equality = |(term, expr): (usize, &Expr)| match expr {
        Expr::Compare(Comparison::Equal, left, right) if is_own(left) && is_outer(right) => {
            Some(Equality { term, own_left: true })
        }
        Expr::Compare(Comparison::Equal, left, right) if is_outer(left) && is_own(right) => {
            Some(Equality { term, own_left: false })
        }
        _ => None,
    };
    terms_of(step).iter().enumerate().filter_map(equality).collect()
}

/// Appends the values of one side of each equality.
fn push_sides<T: Tuple + ?Sized>(
    writer: &mut KeyWriter,
    step: &Step,
    equalities: &[Equality],
    own: bool,
    tuple: &T,
    evaluation: &EvalContext<'_>,
) -> Result<Hashable> {
    let terms = terms_of(step);
    for equality in equalities {
        let Some(Expr::Compare(_, left, right)) = terms.get(equality.term) else {
            return Ok(Hashable::No);
        };
        let side = if equality.own_left == own { left } else { right };
        match push_value(writer, &side.evaluate(tuple, evaluation)?) {
            Hashable::Yes => {}
            other => return Ok(other),
        }
    }
    Ok(Hashable::Yes)
}

/// Appends a value as a key, of which equal values have the same one.
pub(super) fn push_value(writer: &mut KeyWriter, value: &Value) -> Hashable {
    match value {
        Value::Null => return Hashable::Never,
        Value::Float4(_) | Value::Float8(_) => return Hashable::No,
        Value::Numeric(number) => match super::keys::whole_number(number) {
            Some(whole) => writer.push(&Value::Int8(whole)),
            None => writer.push(value),
        },
        value => match value.as_i64() {
            Some(whole) => writer.push(&Value::Int8(whole)),
            None => writer.push(value),
        },
    }
    Hashable::Yes
}
