//! The order of joins: the two parts whose join gives the fewest rows are joined next, until all are one.

use super::build::filtered;
use super::sizes::Sizes;
use super::tree::{Join, JoinMode, Tree};
use crate::plan::{Access, JoinKind, Relation};
use rubato_base::ColumnType;
use rubato_formula::{Comparison, Expr};
use std::collections::BTreeMap;

/// More relations than a set of them has bits.
const RELATIONS_MAX: usize = 64;

/// A relation of the statement.
pub(super) struct Source {
    pub(super) relation: Relation,
    pub(super) alias: String,
    /// The number of its first column.
    pub(super) first: usize,
    pub(super) types: Vec<ColumnType>,
    pub(super) join: JoinKind,
    /// Which rows its join gives.
    pub(super) mode: Mode,
    /// A left join's condition.
    pub(super) on: Vec<Expr>,
    /// How its rows are reached, if that depends on no other relation.
    pub(super) access: Option<Access>,
    /// About how many rows it has.
    pub(super) base_rows: f64,
}

/// Which rows the join with a relation gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Pairs.
    Inner,
    /// Also rows of the others without a partner.
    Left,
    /// Rows of the others that have a partner.
    Semi,
    /// Rows of the others that have none.
    Anti,
}

/// Relations that are joined already.
pub(super) struct Part {
    pub(super) tree: Tree,
    /// The numbers of its columns through all relations.
    ids: Vec<usize>,
    members: u64,
    pub(super) rows: f64,
    /// The relation, if it is a left join's that is still to be joined.
    waits: Option<usize>,
}

impl Part {
    pub(super) fn new(tree: Tree, ids: Vec<usize>, number: usize, rows: f64) -> Part {
        Part {
            tree,
            ids,
            members: 1 << number,
            rows,
            waits: None,
        }
    }

    /// Gives the columns numbers from `base` on, and the part one as the relation `number`.
    pub(super) fn shift(&mut self, base: usize, number: usize) {
        self.ids.iter_mut().for_each(|id| *id += base);
        self.members = 1 << number;
    }

    /// Where each column stands.
    pub(super) fn places(&self) -> BTreeMap<usize, usize> {
        self.ids.iter().enumerate().map(|(place, id)| (*id, place)).collect()
    }

    /// Where a column stands.
    fn place(&self, global: usize) -> usize {
        self.ids.iter().position(|id| *id == global).unwrap_or(0)
    }
}

/// The relations that an expression speaks of.
pub(super) fn members_of(expr: &Expr, firsts: &[usize]) -> u64 {
    let mut members = 0;
    expr.for_each_column(&mut |global| {
        let relation = firsts.iter().rposition(|first| *first <= global).unwrap_or(0);
        members |= 1 << relation.min(RELATIONS_MAX - 1);
    });
    members
}

/// Joins that are being put in order.
pub(super) struct Joining {
    terms: Vec<Expr>,
    needed: Vec<usize>,
    parts: Vec<Part>,
}

/// Two parts that may be joined next.
struct Candidate {
    left: usize,
    right: usize,
    rows: f64,
    is_linked: bool,
}

impl Joining {
    /// `terms` must hold of joined rows; `needed` columns stand above.
    pub(super) fn new(terms: Vec<Expr>, needed: Vec<usize>) -> Joining {
        Joining {
            terms,
            needed,
            parts: Vec::new(),
        }
    }

    /// Takes the terms that only speak of one relation.
    pub(super) fn take_local(&mut self, sources: &[Source], number: usize) -> Vec<Expr> {
        let firsts: Vec<usize> = sources.iter().map(|source| source.first).collect();
        let is_local = |term: &Expr| members_of(term, &firsts) == 1 << number;
        let (local, rest) = std::mem::take(&mut self.terms).into_iter().partition(is_local);
        self.terms = rest;
        local
    }

    /// The columns between these numbers that joins, or what stands above, need.
    pub(super) fn needed_of(&self, sources: &[Source], first: usize, end: usize) -> Vec<usize> {
        let mut needed = self.needed.clone();
        let conditions = sources.iter().flat_map(|source| &source.on);
        for term in self.terms.iter().chain(conditions) {
            term.for_each_column(&mut |global| needed.push(global));
        }
        needed.retain(|global| (first..end).contains(global));
        needed
    }

    pub(super) fn add(&mut self, mut part: Part, source: &Source, number: usize) {
        part.waits = (source.join == JoinKind::Left).then_some(number);
        self.parts.push(part);
    }

    /// All as one part; `None` if there are too many relations, or a left join comes first.
    pub(super) fn finish(mut self, sources: &[Source], sizes: &Sizes) -> Option<Part> {
        if sources.len() > RELATIONS_MAX {
            return None;
        }
        while self.parts.len() > 1 {
            let candidate = self.next(sources, sizes)?;
            self.join(&candidate, sources, sizes);
        }
        let part = self.parts.pop()?;
        if part.waits.is_some() {
            return None;
        }
        Some(self.with_terms(part, sizes))
    }

    fn next(&self, sources: &[Source], sizes: &Sizes) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for left in 0..self.parts.len() {
            for right in 0..self.parts.len() {
                let Some(candidate) = self.candidate(left, right, sources, sizes) else {
                    continue;
                };
                let is_better = best
                    .as_ref()
                    .is_none_or(|best| (candidate.is_linked, -candidate.rows) > (best.is_linked, -best.rows));
                if is_better {
                    best = Some(candidate);
                }
            }
        }
        best
    }

    fn candidate(&self, left: usize, right: usize, sources: &[Source], sizes: &Sizes) -> Option<Candidate> {
        let (a, b) = (&self.parts[left], &self.parts[right]);
        if left == right || a.waits.is_some() {
            return None;
        }
        if let Some(number) = b.waits {
            let speaks_of = sources[number].on.iter().map(|term| members_of(term, &sizes.firsts));
            let others = speaks_of.fold(0, |all, one| all | one) & !b.members;
            return (others & !a.members == 0).then_some(Candidate {
                left,
                right,
                rows: match sources[number].mode {
                    Mode::Semi | Mode::Anti => a.rows * 0.5,
                    Mode::Inner | Mode::Left => a.rows,
                },
                is_linked: others != 0,
            });
        }
        if left > right {
            return None;
        }
        let pairs = self.equalities(a, b, sizes);
        Some(Candidate {
            left,
            right,
            rows: joined_rows(a, b, &pairs, sources, sizes),
            is_linked: !pairs.is_empty(),
        })
    }

    /// What must be equal between two parts, by the numbers through all relations.
    fn equalities(&self, a: &Part, b: &Part, sizes: &Sizes) -> Vec<(Expr, Expr)> {
        let pairs = self.terms.iter().filter_map(|term| equality(term, a, b, sizes));
        pairs.collect()
    }

    fn join(&mut self, candidate: &Candidate, sources: &[Source], sizes: &Sizes) {
        let (first, second) = (candidate.left.max(candidate.right), candidate.left.min(candidate.right));
        let upper = self.parts.swap_remove(first);
        let lower = self.parts.swap_remove(second);
        let (a, b) = if candidate.left < candidate.right {
            (lower, upper)
        } else {
            (upper, lower)
        };
        let members = a.members | b.members;
        let is_within = |term: &Expr| members_of(term, &sizes.firsts) & !members == 0;
        let (conditions, mode) = match b.waits {
            Some(number) => (sources[number].on.clone(), sources[number].mode),
            None => {
                let (own, rest) = std::mem::take(&mut self.terms).into_iter().partition(is_within);
                self.terms = rest;
                (own, Mode::Inner)
            }
        };
        let mut joined = joined(a, b, conditions, mode, candidate.rows, sizes);
        if mode != Mode::Inner {
            joined = self.with_terms(joined, sizes);
        }
        let joined = self.pruned(joined, sources);
        self.parts.push(joined);
    }

    /// Checks the terms that are left and speak of no relation besides those of the part.
    fn with_terms(&mut self, mut part: Part, sizes: &Sizes) -> Part {
        let is_within = |term: &Expr| members_of(term, &sizes.firsts) & !part.members == 0;
        let (own, rest): (Vec<Expr>, Vec<Expr>) = std::mem::take(&mut self.terms).into_iter().partition(is_within);
        self.terms = rest;
        let place = |global: usize| part.place(global);
        let own = own.iter().map(|term| term.remap_columns(&place)).collect();
        part.tree = filtered(part.tree, own);
        part
    }

    /// Leaves out of a join the columns that nobody needs any more.
    fn pruned(&self, mut part: Part, sources: &[Source]) -> Part {
        let needed = self.needed_of(sources, 0, usize::MAX);
        if let Tree::Join(join) = &mut part.tree {
            let kept = |id: &usize| needed.contains(id);
            let pairs = std::mem::take(&mut join.output).into_iter().zip(&part.ids);
            join.output = pairs.filter(|(_, id)| kept(id)).map(|(place, _)| place).collect();
            part.ids.retain(kept);
        }
        part
    }
}

fn equality(term: &Expr, a: &Part, b: &Part, sizes: &Sizes) -> Option<(Expr, Expr)> {
    let Expr::Compare(Comparison::Equal, left, right) = term else {
        return None;
    };
    let (of_left, of_right) = (members_of(left, &sizes.firsts), members_of(right, &sizes.firsts));
    let within = |members: u64, part: &Part| members != 0 && members & !part.members == 0;
    if within(of_left, a) && within(of_right, b) {
        Some(((**left).clone(), (**right).clone()))
    } else if within(of_right, a) && within(of_left, b) {
        Some(((**right).clone(), (**left).clone()))
    } else {
        None
    }
}

/// The smaller part is the one that is kept, so it becomes the left input.
fn joined(a: Part, b: Part, conditions: Vec<Expr>, mode: Mode, rows: f64, sizes: &Sizes) -> Part {
    let (left, right, kind) = match (mode, a.rows <= b.rows) {
        (Mode::Inner, true) => (a, b, JoinMode::Inner),
        (Mode::Inner, false) => (b, a, JoinMode::Inner),
        (Mode::Left, true) => (a, b, JoinMode::Left),
        (Mode::Left, false) => (b, a, JoinMode::Right),
        (Mode::Semi, true) => (a, b, JoinMode::LeftSemi),
        (Mode::Semi, false) => (b, a, JoinMode::RightSemi),
        (Mode::Anti, true) => (a, b, JoinMode::LeftAnti),
        (Mode::Anti, false) => (b, a, JoinMode::RightAnti),
    };
    let ids: Vec<usize> = left.ids.iter().chain(&right.ids).copied().collect();
    let (mut equal, mut terms) = (Vec::new(), Vec::new());
    for term in conditions {
        match equality(&term, &left, &right, sizes) {
            Some((own, other)) => equal.push((
                own.remap_columns(&|global| left.place(global)),
                other.remap_columns(&|global| right.place(global)),
            )),
            None => {
                let place = |global: usize| ids.iter().position(|id| *id == global).unwrap_or(0);
                terms.push(term.remap_columns(&place));
            }
        }
    }
    let members = left.members | right.members;
    // A join that only chooses rows gives the columns of one side.
    let ids = match kind {
        JoinMode::LeftSemi | JoinMode::LeftAnti => left.ids.clone(),
        JoinMode::RightSemi | JoinMode::RightAnti => right.ids.clone(),
        JoinMode::Inner | JoinMode::Left | JoinMode::Right => ids,
    };
    let join = Join {
        kind,
        output: (0..ids.len()).collect(),
        left: left.tree,
        right: right.tree,
        equal,
        terms,
        null_equals_null: false,
        gathers: Vec::new(),
    };
    Part {
        tree: Tree::Join(Box::new(join)),
        ids,
        members,
        rows,
        waits: None,
    }
}

/// How many rows a join gives: each row of one side finds its share of the other's different values.
fn joined_rows(a: &Part, b: &Part, pairs: &[(Expr, Expr)], sources: &[Source], sizes: &Sizes) -> f64 {
    if pairs.is_empty() {
        return a.rows * b.rows;
    }
    let left: Vec<&Expr> = pairs.iter().map(|(left, _)| left).collect();
    let right: Vec<&Expr> = pairs.iter().map(|(_, right)| right).collect();
    let different = match (key_rows(&left, sources, sizes), key_rows(&right, sources, sizes)) {
        (Some(one), Some(other)) => one.max(other),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => a.rows.max(b.rows).sqrt(),
    };
    (a.rows * b.rows / different.max(1.0)).max(1.0)
}

/// The rows of the table whose whole key is among the columns, if there is one.
fn key_rows(exprs: &[&Expr], sources: &[Source], sizes: &Sizes) -> Option<f64> {
    let columns: Vec<usize> = exprs
        .iter()
        .filter_map(|expr| match expr {
            Expr::Column(global) => Some(*global),
            _ => None,
        })
        .collect();
    let mut most: Option<f64> = None;
    for global in &columns {
        let number = sizes.firsts.iter().rposition(|first| first <= global)?;
        let source = &sources[number];
        let Relation::Table(table) = &source.relation else {
            continue;
        };
        let has =
            |own: &[usize]| !own.is_empty() && own.iter().all(|column| columns.contains(&(source.first + column)));
        let unique = table.indexes.iter().filter(|index| index.unique && index.is_plain());
        if has(&table.primary_key) || unique.map(|index| &index.columns).any(|own| has(own)) {
            most = Some(most.unwrap_or(0.0).max(source.base_rows));
        }
    }
    most
}
