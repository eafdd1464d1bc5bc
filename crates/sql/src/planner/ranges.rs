//! Accesses by several ranges of a key: lists, arrays and ORs on its columns, NULLs, and texts that begin alike.

use super::access::{Candidate, EQUAL_SHARE, INDEX_FACTOR, RANGE_SHARE, TABLE_ROWS, elements_of, equal};
use super::facts::{BRANCH_TERMS, Fact, Says};
use super::ways::Or;
use crate::catalog::{RowExpression, Table};
use crate::plan::{Access, Alternative, Bounds, KeyPart, RangeAccess, RangesAccess, RowList};
use rubato_formula::Expr;

/// Elements that an array is taken to have.
const ELEMENTS: usize = 10;
/// At most so many ranges come from lists; with an array, for each of its elements.
const RANGES_MAX: usize = 100_000;
const RANGES_PER_ELEMENT_MAX: usize = 100;
/// A secondary index is no way to more of the table than this.
const INDEX_SHARE_MAX: f64 = 0.5;

/// The share of rows that a partial index is taken to have.
const PARTIAL_SHARE: f64 = 0.2;

/// Whether a predicate says more than that something is not NULL.
fn is_selective(predicate: &RowExpression) -> bool {
    !matches!(&predicate.expr, Expr::Not(inner) if matches!(**inner, Expr::IsNull(_)))
}

/// What facts say about the columns of one key, as far as its ranges can hold it.
struct Reach {
    alternative: Alternative,
    /// Terms that hold for every row reached.
    satisfied: Vec<usize>,
    /// The share of the rows reached, about.
    share: f64,
    /// How many ranges there are.
    ranges: usize,
    /// Whether each range is at most one row.
    single: bool,
}

impl Reach {
    /// Whether one range without lists says it all.
    fn is_plain(&self) -> bool {
        let plain_part = |part: &KeyPart| matches!(part, KeyPart::One(_));
        self.alternative.prefix.iter().all(plain_part)
            && matches!(self.alternative.bounds, Bounds::All | Bounds::Between { .. })
    }

    /// Whether it leaves anything out.
    fn is_bounded(&self) -> bool {
        !self.alternative.prefix.is_empty() || !matches!(self.alternative.bounds, Bounds::All | Bounds::NotNull)
    }

    fn rows(&self) -> f64 {
        if self.single {
            return self.ranges as f64;
        }
        (TABLE_ROWS * self.share).max(2.0)
    }
}

/// The candidates for one key: the ranges that its columns' facts give, and for each OR those of its branches.
pub(super) fn candidates(table: &Table, index: Option<usize>, facts: &[&Fact], ors: &[Or<'_>]) -> Vec<Candidate> {
    if key_of(table, index).is_empty() {
        return Vec::new();
    }
    let own = reach(table, index, facts);
    let mut candidates = Vec::new();
    for or in ors {
        candidates.extend(of_branches(table, index, facts, or));
    }
    candidates.push(if own.is_plain() {
        plain(table, index, own)
    } else {
        let cost = own.rows() * factor(index) + own.ranges as f64;
        Candidate {
            satisfied: own.satisfied,
            access: ranges(index, vec![own.alternative]),
            cost,
        }
    });
    candidates
}

fn key_of(table: &Table, index: Option<usize>) -> &[usize] {
    match index {
        Some(index) => &table.indexes[index].columns,
        None => &table.primary_key,
    }
}

/// Reading a whole index is worth it for its order only.
fn factor(index: Option<usize>) -> f64 {
    if index.is_some() { INDEX_FACTOR } else { 1.0 }
}

fn ranges(index: Option<usize>, alternatives: Vec<Alternative>) -> Access {
    Access::Ranges(RangesAccess {
        index,
        alternatives,
        reverse: false,
    })
}

/// What rows found by a part of a key cost more than those found by all of another: it decides where nothing else does.
const PART_FACTOR: f64 = 1.05;

/// Equalities on the first columns and bounds of the next: one range.
fn plain(table: &Table, index: Option<usize>, own: Reach) -> Candidate {
    // The first columns of a key are shared by more rows than all of one: of two indexes the one that is compared as a whole leads to fewer.
    let is_part = own.alternative.prefix.len() < key_of(table, index).len();
    let cost = own.rows() * factor(index) * if is_part { PART_FACTOR } else { 1.0 };
    let part = |part| match part {
        KeyPart::One(value) => Some(value),
        _ => None,
    };
    let (low, high) = match own.alternative.bounds {
        Bounds::Between { low, high } => (low, high),
        _ => (None, None),
    };
    Candidate {
        access: Access::Range(RangeAccess {
            index,
            prefix: own.alternative.prefix.into_iter().filter_map(part).collect(),
            low,
            high,
            reverse: false,
        }),
        satisfied: own.satisfied,
        cost,
    }
}

/// The ranges of all branches of an OR, each together with what holds for all of them. Every branch must say something about the
/// first column of the key.
fn of_branches(table: &Table, index: Option<usize>, facts: &[&Fact], or: &Or<'_>) -> Option<Candidate> {
    let mut satisfied: Option<Vec<usize>> = None;
    let mut holds_or = true;
    let (mut share, mut rows, mut count) = (0.0, 0.0, 0);
    let mut alternatives = Vec::with_capacity(or.branches.len());
    for branch in &or.branches {
        let all: Vec<&Fact> = branch.facts.iter().chain(facts).copied().collect();
        let reach = reach(table, index, &all);
        if !reach.is_bounded() {
            return None;
        }
        holds_or &= (0..branch.terms).all(|term| reach.satisfied.contains(&(BRANCH_TERMS + term)));
        share += reach.share;
        rows += reach.rows();
        count += reach.ranges;
        let shared = |term: &usize| *term < BRANCH_TERMS && satisfied.as_ref().is_none_or(|terms| terms.contains(term));
        satisfied = Some(reach.satisfied.iter().copied().filter(shared).collect());
        alternatives.push(reach.alternative);
    }
    if count > RANGES_MAX || (index.is_some() && share > INDEX_SHARE_MAX && !is_two_sided(&alternatives)) {
        return None;
    }
    let mut satisfied = satisfied?;
    satisfied.extend(holds_or.then_some(or.term));
    // However many there are, they are ranges of one table.
    let rows = f64::min(rows, TABLE_ROWS * INDEX_SHARE_MAX);
    Some(Candidate {
        access: ranges(index, alternatives),
        satisfied,
        cost: rows * factor(index) + count as f64,
    })
}

/// Whether each alternative is a range with two ends.
fn is_two_sided(alternatives: &[Alternative]) -> bool {
    alternatives.iter().all(|alternative| match &alternative.bounds {
        Bounds::Between { low, high } => low.is_some() && high.is_some(),
        _ => !alternative.prefix.is_empty(),
    })
}

fn reach(table: &Table, index: Option<usize>, facts: &[&Fact]) -> Reach {
    let key = key_of(table, index);
    let mut own = Reach {
        alternative: Alternative {
            prefix: Vec::with_capacity(key.len()),
            bounds: Bounds::All,
        },
        satisfied: Vec::new(),
        share: match index {
            Some(index) if table.indexes[index].predicate.as_ref().is_some_and(is_selective) => PARTIAL_SHARE,
            _ => 1.0,
        },
        ranges: 1,
        single: false,
    };
    let mut finds_null = false;
    let mut has_array = false;
    let mut rows: Option<RowList> = None;
    for column in key {
        let (ranges_max, lists) = match has_array {
            true => (RANGES_PER_ELEMENT_MAX, own.ranges / ELEMENTS),
            false => (RANGES_MAX, own.ranges),
        };
        let (part, term, values) = if let Some((value, term)) = equal(facts, *column) {
            (KeyPart::One(value.clone()), term, 1)
        } else if let Some(term) = null(facts, *column) {
            finds_null = true;
            (KeyPart::Null, term, 1)
        } else if let Some((values, term)) = listed(facts, *column, ranges_max / lists) {
            (KeyPart::Any(values.to_vec()), term, values.len())
        } else if let Some((array, term)) =
            elements_of(facts, *column).filter(|_| !has_array && lists <= RANGES_PER_ELEMENT_MAX)
        {
            has_array = true;
            (KeyPart::Elements(array.clone()), term, ELEMENTS)
        } else if let Some((rows, place)) =
            of_row(facts, *column, rows.as_ref()).filter(|_| rows.is_some() || !has_array)
        {
            // The columns of one row go together: the second one makes no more ranges.
            let values = if has_array { 1 } else { ELEMENTS };
            has_array = true;
            (KeyPart::OfRow(rows, place), None, values)
        } else {
            break;
        };
        if let KeyPart::OfRow(list, _) = &part {
            rows = Some(list.clone());
        }
        own.alternative.prefix.push(part);
        own.satisfied.extend(term);
        own.ranges *= values.max(1);
        // A long list is taken for a range with two ends.
        own.share *= f64::min(EQUAL_SHARE * values as f64, RANGE_SHARE[2]);
    }
    let unique = index.is_none_or(|index| table.indexes[index].unique);
    own.single = unique && !finds_null && own.alternative.prefix.len() == key.len();
    if let Some(next) = key.get(own.alternative.prefix.len()) {
        let narrow = index.is_none() || !own.alternative.prefix.is_empty();
        let (bounds, satisfied, share) = bounds(facts, *next, narrow);
        own.alternative.bounds = bounds;
        own.satisfied.extend(satisfied);
        own.share *= share;
    }
    own
}

/// The list of rows, that which is `taken` if one is, of one of which the column is this one.
fn of_row(facts: &[&Fact], column: usize, taken: Option<&RowList>) -> Option<(RowList, usize)> {
    let own = facts.iter().filter(|fact| fact.column == column);
    own.into_iter().find_map(|fact| match &fact.says {
        Says::OfRow(rows, place) if taken.is_none_or(|taken| taken == rows) => Some((rows.clone(), *place)),
        _ => None,
    })
}

/// What is asked of the first column without an equality, which terms that satisfies, and the share of rows within.
fn bounds(facts: &[&Fact], column: usize, narrow: bool) -> (Bounds, Vec<usize>, f64) {
    let (mut low, mut high) = (None, None);
    let (mut pattern, mut not_null) = (None, None);
    let mut satisfied = Vec::new();
    let mut take = |fact: &Fact| satisfied.extend(fact.term.filter(|_| fact.exact));
    for fact in facts.iter().filter(|fact| fact.column == column) {
        match &fact.says {
            Says::Low(value, included) if low.is_none() => {
                low = Some((value.clone(), *included));
                take(fact);
            }
            Says::High(value, included) if high.is_none() => {
                high = Some((value.clone(), *included));
                take(fact);
            }
            // A pattern that is not known yet may begin with anything, and then an index is the long way.
            Says::Like(like, known) if pattern.is_none() && (*known || narrow) => pattern = Some(like.clone()),
            Says::NotNull if not_null.is_none() => not_null = Some(fact.term),
            _ => {}
        }
    }
    let ends = usize::from(low.is_some()) + usize::from(high.is_some());
    match (ends, pattern) {
        (0, Some(pattern)) => (Bounds::Like(pattern), satisfied, RANGE_SHARE[2]),
        (0, None) => match not_null {
            Some(term) => (Bounds::NotNull, term.into_iter().collect(), RANGE_SHARE[0]),
            None => (Bounds::All, satisfied, RANGE_SHARE[0]),
        },
        _ => (Bounds::Between { low, high }, satisfied, RANGE_SHARE[ends]),
    }
}

/// The term that says that the column is NULL.
fn null(facts: &[&Fact], column: usize) -> Option<Option<usize>> {
    let is_null = |fact: &&&Fact| fact.column == column && matches!(fact.says, Says::Null);
    facts.iter().find(is_null).map(|fact| fact.term)
}

/// A list of at most `values_max` values, one of which the column has.
fn listed<'a>(facts: &[&'a Fact], column: usize, values_max: usize) -> Option<(&'a [Expr], Option<usize>)> {
    let own = facts.iter().filter(|fact| fact.column == column);
    own.into_iter().find_map(|fact| match &fact.says {
        Says::In(values) if values.len() <= values_max => Some((&**values, fact.term.filter(|_| fact.exact))),
        _ => None,
    })
}
