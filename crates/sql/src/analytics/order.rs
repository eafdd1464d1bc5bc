//! The order of joins: the two parts whose join gives the fewest rows are joined next, until all are one.

use super::build::filtered;
use super::sizes::Sizes;
use super::tree::{Join, JoinMode, Tree};
use crate::plan::{Access, JoinKind, Relation};
use rubato_base::ColumnType;
use rubato_formula::{Comparison, Expr};
use std::collections::{BTreeMap, BTreeSet};

/// More relations than a set of them has bits.
pub(super) const RELATIONS_MAX: usize = 64;

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
            members: bit(number),
            rows,
            waits: None,
        }
    }

    /// Gives the columns numbers from `base` on, and the part one as the relation `number`.
    pub(super) fn shift(&mut self, base: usize, number: usize) {
        self.ids.iter_mut().for_each(|id| *id += base);
        self.members = bit(number);
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

/// The set of one relation; of those that are too many there is none.
pub(super) fn bit(number: usize) -> u64 {
    if number < RELATIONS_MAX { 1 << number } else { 0 }
}

/// The relation that a column belongs to.
fn relation_of(global: usize, firsts: &[usize]) -> usize {
    firsts.partition_point(|first| *first <= global).saturating_sub(1)
}

/// The relations that an expression speaks of.
pub(super) fn members_of(expr: &Expr, firsts: &[usize]) -> u64 {
    let mut members = 0;
    expr.for_each_column(&mut |global| members |= bit(relation_of(global, firsts).min(RELATIONS_MAX - 1)));
    members
}

/// A term with the relations that it speaks of.
struct Term {
    expr: Expr,
    members: u64,
    /// Those of the two sides of an equality.
    sides: Option<(u64, u64)>,
}

impl Term {
    fn new(expr: Expr, firsts: &[usize]) -> Term {
        let sides = match &expr {
            Expr::Compare(Comparison::Equal, left, right) => {
                Some((members_of(left, firsts), members_of(right, firsts)))
            }
            _ => None,
        };
        Term {
            members: members_of(&expr, firsts),
            sides,
            expr,
        }
    }

    fn is_within(&self, members: u64) -> bool {
        self.members & !members == 0
    }

    /// What must be equal between two parts, by the numbers through all relations.
    fn equality(&self, a: &Part, b: &Part) -> Option<(&Expr, &Expr)> {
        let (Some((of_left, of_right)), Expr::Compare(_, left, right)) = (self.sides, &self.expr) else {
            return None;
        };
        let within = |members: u64, part: &Part| members != 0 && members & !part.members == 0;
        if within(of_left, a) && within(of_right, b) {
            Some((left, right))
        } else if within(of_right, a) && within(of_left, b) {
            Some((right, left))
        } else {
            None
        }
    }
}

/// Joins that are being put in order.
pub(super) struct Joining {
    terms: Vec<Term>,
    needed: Vec<usize>,
    parts: Vec<Part>,
    /// What joins of two parts give, by the members of both: it stays the same for as long as they are parts.
    outlooks: BTreeMap<(u64, u64), Option<Outlook>>,
}

/// What a join of two parts would give.
#[derive(Clone, Copy)]
struct Outlook {
    rows: f64,
    is_linked: bool,
}

/// Two parts that may be joined next.
struct Candidate {
    left: usize,
    right: usize,
    outlook: Outlook,
}

impl Joining {
    /// `terms` must hold of joined rows; `needed` columns stand above.
    pub(super) fn new(terms: Vec<Expr>, needed: Vec<usize>, sizes: &Sizes) -> Joining {
        Joining {
            terms: terms.into_iter().map(|term| Term::new(term, &sizes.firsts)).collect(),
            needed,
            parts: Vec::new(),
            outlooks: BTreeMap::new(),
        }
    }

    /// Takes the terms that only speak of one relation.
    pub(super) fn take_local(&mut self, number: usize) -> Vec<Expr> {
        self.take(&|term| term.members == bit(number))
    }

    fn take(&mut self, is_taken: &dyn Fn(&Term) -> bool) -> Vec<Expr> {
        let (taken, rest): (Vec<Term>, Vec<Term>) = std::mem::take(&mut self.terms).into_iter().partition(is_taken);
        self.terms = rest;
        taken.into_iter().map(|term| term.expr).collect()
    }

    /// The columns between these numbers that joins, or what stands above, need.
    pub(super) fn needed_of(&self, sources: &[Source], first: usize, end: usize) -> BTreeSet<usize> {
        let mut needed: BTreeSet<usize> = self.needed.iter().copied().collect();
        let conditions = sources.iter().flat_map(|source| &source.on);
        for term in self.terms.iter().map(|term| &term.expr).chain(conditions) {
            term.for_each_column(&mut |global| {
                needed.insert(global);
            });
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
        Some(self.with_terms(part))
    }

    fn next(&mut self, sources: &[Source], sizes: &Sizes) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for left in 0..self.parts.len() {
            for right in 0..self.parts.len() {
                let Some(outlook) = self.outlook(left, right, sources, sizes) else {
                    continue;
                };
                let is_better = best.as_ref().is_none_or(|Candidate { outlook: best, .. }| {
                    (outlook.is_linked, -outlook.rows) > (best.is_linked, -best.rows)
                });
                if is_better {
                    best = Some(Candidate { left, right, outlook });
                }
            }
        }
        best
    }

    /// What the join of two parts would give; `None` if they are not to be joined, or not in this order.
    fn outlook(&mut self, left: usize, right: usize, sources: &[Source], sizes: &Sizes) -> Option<Outlook> {
        let (a, b) = (&self.parts[left], &self.parts[right]);
        if left == right || a.waits.is_some() || (b.waits.is_none() && left > right) {
            return None;
        }
        let parts = (a.members, b.members);
        if let Some(known) = self.outlooks.get(&parts) {
            return *known;
        }
        let outlook = match b.waits {
            Some(number) => waiting(a, b, &sources[number], sizes),
            None => {
                let pairs: Vec<(&Expr, &Expr)> = self.terms.iter().filter_map(|term| term.equality(a, b)).collect();
                Some(Outlook {
                    rows: joined_rows(a, b, &pairs, sources, sizes),
                    is_linked: !pairs.is_empty(),
                })
            }
        };
        self.outlooks.insert(parts, outlook);
        outlook
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
        let (conditions, mode) = match b.waits {
            Some(number) => (sources[number].on.clone(), sources[number].mode),
            None => (self.take(&|term| term.is_within(members)), Mode::Inner),
        };
        let mut joined = joined(a, b, conditions, mode, candidate.outlook.rows, sizes);
        if mode != Mode::Inner {
            joined = self.with_terms(joined);
        }
        let joined = self.pruned(joined, sources);
        self.parts.push(joined);
    }

    /// Checks the terms that are left and speak of no relation besides those of the part.
    fn with_terms(&mut self, mut part: Part) -> Part {
        let own = self.take(&|term| term.is_within(part.members));
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

/// What the join with a relation of a left join would give; `None` while its condition speaks of other relations.
fn waiting(a: &Part, b: &Part, source: &Source, sizes: &Sizes) -> Option<Outlook> {
    let speaks_of = source.on.iter().map(|term| members_of(term, &sizes.firsts));
    let others = speaks_of.fold(0, |all, one| all | one) & !b.members;
    (others & !a.members == 0).then_some(Outlook {
        rows: match source.mode {
            Mode::Semi | Mode::Anti => a.rows * 0.5,
            Mode::Inner | Mode::Left => a.rows,
        },
        is_linked: others != 0,
    })
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
        let term = Term::new(term, &sizes.firsts);
        match term.equality(&left, &right) {
            Some((own, other)) => equal.push((
                own.remap_columns(&|global| left.place(global)),
                other.remap_columns(&|global| right.place(global)),
            )),
            None => {
                let place = |global: usize| ids.iter().position(|id| *id == global).unwrap_or(0);
                terms.push(term.expr.remap_columns(&place));
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
fn joined_rows(a: &Part, b: &Part, pairs: &[(&Expr, &Expr)], sources: &[Source], sizes: &Sizes) -> f64 {
    if pairs.is_empty() {
        return a.rows * b.rows;
    }
    let left: Vec<&Expr> = pairs.iter().map(|(left, _)| *left).collect();
    let right: Vec<&Expr> = pairs.iter().map(|(_, right)| *right).collect();
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
        let source = &sources[relation_of(*global, &sizes.firsts)];
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
