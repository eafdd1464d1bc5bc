//! How the rows of one relation may be reached, and what that costs.

use super::bound::BoundQuery;
use super::facts::{Fact, Says};
use super::ranges;
use super::ways::{Or, OrBranch};
use crate::catalog::Table;
use crate::plan::{Access, Bounds, ElementsAccess, KeyPart, Relation};
use rubato_base::Value;
use rubato_formula::Expr;

/// Rows that a table is taken to have: only the order of costs matters.
pub(super) const TABLE_ROWS: f64 = 100_000.0;
/// The share of rows that share a value of one key column.
pub(super) const EQUAL_SHARE: f64 = 0.01;
/// The share of rows within a range bounded on both sides, and on one.
pub(super) const RANGE_SHARE: [f64; 3] = [1.0, 0.3, 0.1];
/// What a row found by a secondary index costs more than one found by the primary key.
pub(super) const INDEX_FACTOR: f64 = 1.2;
/// Rows that a system table, or what is not known, is taken to have.
const SYSTEM_ROWS: f64 = 1000.0;
/// Elements that an array is taken to have.
const ELEMENTS: f64 = 10.0;
/// What a row found by its whole key costs: nothing is cheaper.
pub(super) const ONE_ROW: f64 = 0.9;
/// At most this many keys are looked up one by one.
const POINTS_MAX: usize = 10_000;

/// At most so many branches of an OR go their own ways.
const UNION_MAX: usize = 100;
/// A row found by one of several ways costs more: whether another has found it is looked up.
const UNION_FACTOR: f64 = 1.1;
/// Several ways are none to more of the table than this.
const UNION_SHARE_MAX: f64 = 0.5;

/// One way to reach a relation's rows.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The way.
    pub access: Access,
    /// Terms that hold for every row reached.
    pub satisfied: Vec<usize>,
    /// Rows touched, about.
    pub cost: f64,
}

/// Every candidate for a table of which this is known; the whole table is always among them.
pub(super) fn table_candidates(table: &Table, usable: &[usize], facts: &[&Fact], ors: &[Or<'_>]) -> Vec<Candidate> {
    let mut candidates = vec![whole(TABLE_ROWS)];
    candidates.extend(key_candidates(table, facts, ors));
    candidates.extend(elements_candidate(table, facts));
    for index in std::iter::once(None).chain(usable.iter().copied().map(Some)) {
        candidates.extend(ranges::candidates(table, index, facts, ors));
    }
    candidates.extend(ors.iter().filter_map(|or| union_candidate(table, usable, facts, or)));
    candidates
}

/// The candidate for a relation that is no table; `is_compared` tells whether a column of it is compared with what is known.
pub(super) fn other_candidate(relation: &Relation<BoundQuery>, is_compared: bool) -> Candidate {
    whole(match relation {
        Relation::Values(_) | Relation::Working(..) => 10.0,
        // One row a tuple, but a dear one: rows that a key finds come first, those of a scan later.
        Relation::Computed(_) => 3.0,
        // It finds rows by hash where a column is compared with what is known.
        Relation::System(_) if is_compared => SYSTEM_ROWS * EQUAL_SHARE,
        _ => SYSTEM_ROWS,
    })
}

/// The candidate that costs least.
pub(super) fn cheapest(candidates: Vec<Candidate>) -> Candidate {
    candidates.into_iter().fold(
        whole(f64::INFINITY),
        |best, next| if next.cost < best.cost { next } else { best },
    )
}

fn whole(cost: f64) -> Candidate {
    Candidate {
        access: Access::Full { reverse: false },
        satisfied: Vec::new(),
        cost,
    }
}

/// The ways of the branches of an OR together, if each of them has one. What they find is checked against the OR once more.
fn union_candidate(table: &Table, usable: &[usize], facts: &[&Fact], or: &Or<'_>) -> Option<Candidate> {
    if or.branches.len() > UNION_MAX {
        return None;
    }
    let (mut ways, mut cost) = (Vec::with_capacity(or.branches.len()), 0.0);
    for branch in &or.branches {
        let all: Vec<&Fact> = branch.facts.iter().chain(facts).copied().collect();
        let mut own = key_candidates(table, &all, &[]);
        own.extend(elements_candidate(table, &all));
        for index in std::iter::once(None).chain(usable.iter().copied().map(Some)) {
            own.extend(ranges::candidates(table, index, &all, &[]));
        }
        let best = own
            .into_iter()
            .reduce(|best, next| if next.cost < best.cost { next } else { best })?;
        cost += UNION_FACTOR * best.cost;
        ways.push(best.access);
    }
    // Ways by one key are known as its ranges, each in order. And none is to be a long one round to most of the table.
    let keys = || ways.iter().map(key_of_way);
    let differ = keys().zip(keys().skip(1)).any(|(one, other)| one != other);
    (differ && cost < TABLE_ROWS * UNION_SHARE_MAX).then_some(Candidate {
        access: Access::Union(ways),
        satisfied: Vec::new(),
        cost,
    })
}

/// The index that a way goes by, `None` for the primary key.
fn key_of_way(way: &Access) -> Option<usize> {
    match way {
        Access::Range(range) => range.index,
        Access::Ranges(ranges) => ranges.index,
        Access::Point(_) | Access::Points(_) | Access::Elements(_) | Access::Union(_) | Access::Full { .. } => None,
    }
}

pub(super) fn equal<'a>(facts: &[&'a Fact], column: usize) -> Option<(&'a Expr, Option<usize>)> {
    let find = |exact: bool| {
        facts
            .iter()
            .filter(|fact| fact.column == column && fact.exact == exact)
            .find_map(|fact| match &fact.says {
                Says::Equal(value) => Some((value, fact.term.filter(|_| fact.exact))),
                _ => None,
            })
    };
    find(true).or_else(|| find(false))
}

/// Whole primary keys.
fn key_candidates(table: &Table, facts: &[&Fact], ors: &[Or<'_>]) -> Vec<Candidate> {
    let key = &table.primary_key;
    if key.is_empty() {
        return Vec::new();
    }
    let mut candidates = Vec::new();
    let mut satisfied = Vec::new();
    let mut choices: Vec<Vec<Expr>> = Vec::with_capacity(key.len());
    for column in key {
        if let Some((value, term)) = equal(facts, *column) {
            choices.push(vec![value.clone()]);
            satisfied.extend(term);
            continue;
        }
        let list = facts
            .iter()
            .filter(|fact| fact.column == *column)
            .find_map(|fact| match &fact.says {
                Says::In(values) => Some((values.clone(), fact.term.filter(|_| fact.exact))),
                _ => None,
            });
        let Some((values, term)) = list else { break };
        choices.push(values);
        satisfied.extend(term);
    }
    let count = choices
        .iter()
        .map(Vec::len)
        .try_fold(1usize, usize::checked_mul)
        .unwrap_or(usize::MAX);
    if choices.len() == key.len() && count <= POINTS_MAX {
        let access = if choices.iter().all(|values| values.len() == 1) {
            Access::Point(choices.into_iter().flatten().collect())
        } else {
            Access::Points(product(&choices))
        };
        let cost = if count == 1 { ONE_ROW } else { count as f64 };
        candidates.push(Candidate {
            access,
            satisfied,
            cost,
        });
    }
    for or in ors {
        let keys: Option<Vec<Vec<Expr>>> = or
            .branches
            .iter()
            .map(|branch| key.iter().map(|column| value_of(branch, *column)).collect())
            .collect();
        if let Some(keys) = keys.filter(|keys| keys.len() <= POINTS_MAX) {
            let holds = or.branches.iter().all(|branch| says_only(branch, key.len()));
            candidates.push(Candidate {
                cost: keys.len() as f64,
                access: Access::Points(keys),
                satisfied: holds.then_some(or.term).into_iter().collect(),
            });
        }
    }
    candidates
}

/// Whole primary keys of which one column is compared with the elements of an array.
fn elements_candidate(table: &Table, facts: &[&Fact]) -> Option<Candidate> {
    let mut satisfied = Vec::new();
    let mut key = Vec::with_capacity(table.primary_key.len());
    let mut array = None;
    for (place, column) in table.primary_key.iter().enumerate() {
        if let Some((value, term)) = equal(facts, *column) {
            key.push(value.clone());
            satisfied.extend(term);
            continue;
        }
        let (elements, term) = elements_of(facts, *column).filter(|_| array.is_none())?;
        key.push(Expr::Literal(Value::Null));
        satisfied.extend(term);
        array = Some((place, elements.clone()));
    }
    let (place, array) = array?;
    Some(Candidate {
        access: Access::Elements(ElementsAccess { key, place, array }),
        satisfied,
        cost: ELEMENTS,
    })
}

pub(super) fn elements_of<'a>(facts: &[&'a Fact], column: usize) -> Option<(&'a Expr, Option<usize>)> {
    let own = facts.iter().filter(|fact| fact.column == column);
    own.into_iter().find_map(|fact| match &fact.says {
        Says::Elements(array) => Some((array, fact.term.filter(|_| fact.exact))),
        _ => None,
    })
}

fn value_of(branch: &OrBranch<'_>, column: usize) -> Option<Expr> {
    branch.facts.iter().find_map(|fact| match &fact.says {
        Says::Equal(value) if fact.column == column => Some(value.clone()),
        _ => None,
    })
}

/// Whether a branch is nothing but equalities with so many columns.
fn says_only(branch: &OrBranch<'_>, columns: usize) -> bool {
    let equality = |fact: &&Fact| fact.exact && matches!(fact.says, Says::Equal(_));
    let mut named: Vec<usize> = branch.facts.iter().map(|fact| fact.column).collect();
    named.sort_unstable();
    named.dedup();
    branch.terms == columns && named.len() == columns && branch.facts.iter().all(equality)
}

fn product(choices: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    choices.iter().fold(vec![Vec::new()], |keys, values| {
        let extend = |key: &Vec<Expr>| {
            let key = key.clone();
            values
                .iter()
                .map(move |value| key.iter().cloned().chain([value.clone()]).collect::<Vec<Expr>>())
        };
        keys.iter().flat_map(extend).collect()
    })
}

/// The expressions of an access.
pub(crate) fn expressions<'a>(access: &'a Access, visit: &mut dyn FnMut(&'a Expr)) {
    match access {
        Access::Point(key) => key.iter().for_each(visit),
        Access::Points(keys) => keys.iter().flatten().for_each(visit),
        Access::Elements(access) => access.key.iter().chain([&access.array]).for_each(visit),
        Access::Range(range) => {
            range.prefix.iter().for_each(&mut *visit);
            range.low.iter().chain(&range.high).for_each(|(bound, _)| visit(bound));
        }
        Access::Ranges(ranges) => {
            for alternative in &ranges.alternatives {
                for part in &alternative.prefix {
                    match part {
                        KeyPart::One(value) | KeyPart::Elements(value) => visit(value),
                        KeyPart::OfRow(rows, _) => visit(&rows.keys),
                        KeyPart::Any(values) => values.iter().for_each(&mut *visit),
                        KeyPart::Null => {}
                    }
                }
                match &alternative.bounds {
                    Bounds::Between { low, high } => low.iter().chain(high).for_each(|(bound, _)| visit(bound)),
                    Bounds::Like(pattern) => visit(pattern),
                    Bounds::All | Bounds::NotNull => {}
                }
            }
        }
        Access::Union(ways) => ways.iter().for_each(|way| expressions(way, visit)),
        Access::Full { .. } => {}
    }
}

/// The same, to change.
pub(super) fn expressions_mut(access: &mut Access, visit: &mut dyn FnMut(&mut Expr)) {
    match access {
        Access::Point(key) => key.iter_mut().for_each(visit),
        Access::Points(keys) => keys.iter_mut().flatten().for_each(visit),
        Access::Elements(access) => {
            access.key.iter_mut().for_each(&mut *visit);
            visit(&mut access.array);
        }
        Access::Range(range) => {
            range.prefix.iter_mut().for_each(&mut *visit);
            range
                .low
                .iter_mut()
                .chain(&mut range.high)
                .for_each(|(bound, _)| visit(bound));
        }
        Access::Ranges(ranges) => {
            for alternative in &mut ranges.alternatives {
                for part in &mut alternative.prefix {
                    match part {
                        KeyPart::One(value) | KeyPart::Elements(value) => visit(value),
                        KeyPart::OfRow(rows, _) => visit(&mut rows.keys),
                        KeyPart::Any(values) => values.iter_mut().for_each(&mut *visit),
                        KeyPart::Null => {}
                    }
                }
                match &mut alternative.bounds {
                    Bounds::Between { low, high } => low.iter_mut().chain(high).for_each(|(bound, _)| visit(bound)),
                    Bounds::Like(pattern) => visit(pattern),
                    Bounds::All | Bounds::NotNull => {}
                }
            }
        }
        Access::Union(ways) => ways.iter_mut().for_each(|way| expressions_mut(way, visit)),
        Access::Full { .. } => {}
    }
}
