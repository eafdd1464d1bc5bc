//! What other nodes leave out of the rows that a step reads.

use crate::far::Rows;
use crate::plan::Step;
use crate::planner::flatten;
use rubato_base::TableId;
use rubato_formula::{EvalContext, Expr, OUTER_BASE};
use rubato_protocol::KeyRange;
use rubato_protocol::grid::Sieve;

/// A term that is longer, as a list of very many values is, is not sent with each page.
const TERM_BYTES_MAX: usize = 16 << 10;

/// What is left out where rows of the step's table with keys of this range are on other nodes: what surely does not satisfy its
/// condition. What the condition says of the tuples before is not among that, so that pages serve all of them.
pub(crate) fn sieve_of(
    step: &Step,
    (table, range): (TableId, &KeyRange),
    evaluation: &EvalContext<'_>,
    rows: &Rows<'_>,
) -> Sieve {
    if !rows.is_range_elsewhere(table, range) {
        return Sieve::open().clone();
    }
    let terms = flatten(step.condition.iter().cloned().collect());
    let terms = terms.iter().map(|term| row_term(step, term, evaluation));
    Sieve::new(sent_terms(terms), true)
}

/// A sieve that leaves out what does not satisfy these terms either.
pub(crate) fn with_terms(sieve: Sieve, terms: &[Expr]) -> Sieve {
    match terms {
        [] => sieve,
        terms => Sieve::new([sieve.terms(), terms].concat(), sieve.takes_columns()),
    }
}

/// The same for conditions over the columns of a row, as those of a target are.
pub(crate) fn sieve_of_columns<'e>(
    conditions: impl Iterator<Item = &'e Expr>,
    (table, range): (TableId, &KeyRange),
    evaluation: &EvalContext<'_>,
    rows: &Rows<'_>,
) -> Sieve {
    if !rows.is_range_elsewhere(table, range) {
        return Sieve::open().clone();
    }
    let terms = flatten(conditions.cloned().collect());
    let terms = terms.iter().map(|term| match is_of_statement(term) {
        true => Term::OfRow(term.bind_stable(evaluation)),
        false => Term::Other(term.clone()),
    });
    Sieve::new(sent_terms(terms), true)
}

/// Whether what it reads beside columns is the same for the whole statement.
fn is_of_statement(expr: &Expr) -> bool {
    let mut is_own = true;
    expr.walk(&mut |node| is_own &= !matches!(node, Expr::Parameter(index) if *index >= OUTER_BASE));
    is_own
}

/// The terms that others can look at, as far as none before them that they cannot look at may fail: it would, as if all rows were here.
pub(crate) fn sent_terms(terms: impl Iterator<Item = Term>) -> Vec<Expr> {
    let mut sent = Vec::new();
    for term in terms {
        match term {
            Term::OfRow(term) if is_sent(&term) => sent.push(term),
            Term::OfRow(term) | Term::Other(term) if term.can_fail() => break,
            Term::OfRow(_) | Term::Other(_) => {}
        }
    }
    sent
}

/// Whether other nodes can evaluate an expression over their rows.
pub(crate) fn is_sent(expr: &Expr) -> bool {
    let mut bytes = Vec::new();
    if !Sieve::can_have(expr) {
        return false;
    }
    expr.encode(&mut bytes);
    bytes.len() <= TERM_BYTES_MAX
}

/// A part of a condition.
pub(crate) enum Term {
    /// Over the columns of a row, without parameters.
    OfRow(Expr),
    /// It needs more than the row.
    Other(Expr),
}

fn row_term(step: &Step, term: &Expr, evaluation: &EvalContext<'_>) -> Term {
    match over_row(step, term, evaluation) {
        Some(own) => Term::OfRow(own),
        None => Term::Other(term.clone()),
    }
}

/// An expression over a step's tuple as one over the columns of its row; `None` if it reads anything else that may be different from tuple
/// to tuple.
pub(crate) fn over_row(step: &Step, expr: &Expr, evaluation: &EvalContext<'_>) -> Option<Expr> {
    let column = |slot: usize| {
        let place = slot.checked_sub(step.first_slot)?;
        step.columns.get(place).copied()
    };
    let mut is_own = true;
    expr.walk(&mut |node| {
        is_own &= match node {
            Expr::Column(slot) => column(*slot).is_some(),
            Expr::Parameter(index) => *index < OUTER_BASE,
            _ => true,
        }
    });
    is_own.then(|| {
        expr.bind_stable(evaluation)
            .remap_columns(&|slot| column(slot).unwrap_or(slot))
    })
}
