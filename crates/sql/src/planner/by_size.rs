//! Another order of joins, by how many rows tables have.
//!
//! Plans are made without sizes and kept by their text, so their order is one by rules: of a table and those that it refers to, the one that
//! refers comes first, since each of its rows leads to one row of the others by their whole key. Where a join goes from node to node
//! (decision 0037) each row of the first table is passed on, and a larger one may have a hundred times as many rows as another that few
//! rows are wanted of. So such joins are put in order once more when they begin, with what is known of sizes then.

use super::ParameterTypes;
use super::access::Candidate;
use super::bound::{Query, SelectParts};
use super::choosing::Planned;
use super::known::KnownParameters;
use super::pipeline::{Builder, drop_unneeded_sort_columns};
use super::ways::{Placed, Terms};
use crate::catalog::Table;
use crate::plan::{Access, JoinKind, Relation, SelectPlan};
use rubato_base::{DataType, Value};
use rubato_formula::{Comparison, Expr};
use std::collections::BTreeMap;
use std::sync::Arc;

/// More relations are not passed on from node to node.
const RELATIONS_MAX: usize = rubato_protocol::grid::RELAY_STEPS_MAX;
/// Passing a tuple on and looking for its partner costs as much as looking at so many rows of a scan.
const PASSING_COST: f64 = 2.0;
/// A partner that an entry of an index leads to is passed on twice.
const ENTRY_COST: f64 = 3.0;
/// Another order has to cost less than this share: estimates are rough.
const WORTHWHILE_SHARE: f64 = 0.5;

/// What tables a SELECT joins and how, before an order was chosen.
#[derive(Debug)]
pub struct Joins {
    query: Query,
    parts: SelectParts,
    /// Types of the parameters.
    types: BTreeMap<usize, DataType>,
    /// The order that was chosen without sizes.
    order: Vec<usize>,
}

impl KnownParameters for Joins {
    fn data_type(&self, index: usize) -> DataType {
        self.types.get(&index).copied().unwrap_or(DataType::Unknown)
    }

    fn known_value(&self, _: usize) -> Option<Value> {
        None
    }
}

impl Joins {
    /// What is needed to put joins of tables in order later; `None` for what is no join of tables alone.
    pub(super) fn of(
        query: &Query,
        parts: &SelectParts,
        planned: &Planned,
        parameters: ParameterTypes<'_>,
    ) -> Option<Arc<Joins>> {
        let is_table =
            |(relation, _): &(usize, Candidate)| matches!(query.relations[*relation].relation, Relation::Table(_));
        let is_join = (2..=RELATIONS_MAX).contains(&planned.len()) && planned.len() == query.relations.len();
        if !is_join || parts.lock.is_some() || !planned.iter().all(is_table) {
            return None;
        }
        let mut types = BTreeMap::new();
        let conditions = query.relations.iter().flat_map(|relation| &relation.on);
        for term in query.terms.iter().chain(conditions) {
            term.walk(&mut |node| {
                if let Expr::Parameter(index) = node {
                    types.insert(*index, parameters.data_type(*index));
                }
            });
        }
        Some(Arc::new(Joins {
            query: query.clone(),
            parts: parts.clone(),
            types,
            order: planned.iter().map(|(relation, _)| *relation).collect(),
        }))
    }

    /// The same SELECT with its tables in another order, if that costs much less for tables of so many rows.
    pub(crate) fn by_size(&self, rows_of: &dyn Fn(&Table) -> f64) -> Option<SelectPlan> {
        let terms = Terms::new(&self.query, self);
        let sized = Sized {
            rows: self
                .query
                .relations
                .iter()
                .map(|own| own.table().map_or(0.0, |table| rows_of(table)))
                .collect(),
            terms: &terms,
        };
        let as_planned = sized.cost_of(&self.order);
        let drivers = (0..self.order.len()).filter(|driver| *driver != self.order[0]);
        let orders = drivers.filter_map(|driver| sized.follow(driver));
        let (cost, planned) = orders.reduce(|best, next| if next.0 < best.0 { next } else { best })?;
        if cost > as_planned * WORTHWHILE_SHARE {
            return None;
        }
        let (query, mut parts) = (self.query.clone(), self.parts.clone());
        drop_unneeded_sort_columns(&mut parts);
        let mut builder = Builder::new(query, planned);
        builder.place_terms();
        builder.need_upper(&parts);
        Some(builder.into_plan(parts, None, self))
    }
}

/// Joins with the rows of each relation.
struct Sized<'a> {
    terms: &'a Terms<'a>,
    rows: Vec<f64>,
}

/// A relation that comes next.
struct Next {
    candidate: Candidate,
    /// What it costs, for the tuples that there are.
    cost: f64,
    /// Tuples that go on.
    tuples: f64,
}

impl Sized<'_> {
    /// What an order costs; without end where it is none for nodes.
    fn cost_of(&self, order: &[usize]) -> f64 {
        let (mut cost, mut tuples) = (0.0, 1.0);
        let mut placed = Placed::none(self.rows.len());
        for relation in order {
            let Some(next) = self.next(*relation, &placed, tuples) else {
                return f64::INFINITY;
            };
            placed.push(*relation);
            cost += next.cost;
            tuples = next.tuples;
        }
        cost
    }

    /// Starts at `driver`, and takes the relation next that costs least with what it leaves to be passed on.
    fn follow(&self, driver: usize) -> Option<(f64, Planned)> {
        let relations = self.rows.len();
        let is_ready =
            |relation: usize, placed: &Placed| !placed.contains(relation) && self.terms.may_follow(relation, placed);
        let mut placed = Placed::none(relations);
        if self.terms.query.relations[driver].join == JoinKind::Left || !is_ready(driver, &placed) {
            return None;
        }
        let first = self.next(driver, &placed, 1.0)?;
        let (mut cost, mut tuples) = (first.cost, first.tuples);
        placed.push(driver);
        let mut planned = vec![(driver, first.candidate)];
        while planned.len() < relations {
            let ready = (0..relations).filter(|relation| is_ready(*relation, &placed));
            let ways = ready.filter_map(|relation| Some((relation, self.next(relation, &placed, tuples)?)));
            let burden = |next: &Next| next.cost + PASSING_COST * next.tuples;
            let (relation, next) =
                ways.reduce(|best, next| if burden(&next.1) < burden(&best.1) { next } else { best })?;
            cost += next.cost;
            tuples = next.tuples;
            placed.push(relation);
            planned.push((relation, next.candidate));
        }
        Some((cost, planned))
    }

    /// The cheapest way to a relation that nodes can go for so many tuples.
    fn next(&self, relation: usize, placed: &Placed, tuples: f64) -> Option<Next> {
        let candidates = self.terms.candidates(relation, placed).into_iter();
        let ways = candidates.filter_map(|candidate| {
            let (cost, partners) = self.reached(relation, &candidate, placed)?;
            Some((tuples * cost, tuples * partners, candidate))
        });
        let (cost, partners, candidate) = ways.reduce(|best, next| if next.0 < best.0 { next } else { best })?;
        let kept = partners * self.share(relation, &candidate, placed);
        let tuples = match self.terms.query.relations[relation].join {
            JoinKind::Left => kept.max(tuples),
            JoinKind::Inner => kept,
        };
        Some(Next {
            candidate,
            cost,
            tuples,
        })
    }

    /// What a tuple costs, and how many rows it finds; `None` where nodes do not go this way.
    fn reached(&self, relation: usize, candidate: &Candidate, placed: &Placed) -> Option<(f64, f64)> {
        let rows = self.rows[relation];
        let share = candidate.cost / super::access::TABLE_ROWS;
        match &candidate.access {
            Access::Full { .. } if placed.is_empty() => Some((rows, rows)),
            Access::Range(range) if placed.is_empty() && range.index.is_none() => Some((rows * share, rows * share)),
            Access::Ranges(ranges) if placed.is_empty() && ranges.index.is_none() => Some((rows * share, rows * share)),
            Access::Point(_) if !placed.is_empty() => Some((PASSING_COST, 1.0)),
            Access::Range(range) if !placed.is_empty() && !range.prefix.is_empty() && !range.reverse => {
                let partners = self.partners(relation, range.index, &range.prefix);
                let row_cost = if range.index.is_some() { ENTRY_COST } else { 1.0 };
                Some((PASSING_COST + partners * row_cost, partners))
            }
            _ => None,
        }
    }

    /// About how many rows have the same values in the first columns of a key.
    fn partners(&self, relation: usize, index: Option<usize>, prefix: &[Expr]) -> f64 {
        let rows = self.rows[relation].max(1.0);
        let Some(table) = self.terms.query.relations[relation].table() else {
            return rows;
        };
        let index = index.and_then(|index| table.indexes.get(index));
        if index.is_some_and(|index| index.unique && index.columns.len() == prefix.len()) {
            return 1.0;
        }
        // Of a relation whose whole key is compared there are as many values as it has rows.
        let mut compared: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut others = 0;
        for expr in prefix {
            match expr {
                Expr::Column(global) => {
                    let other = self.terms.query.relation_of(*global);
                    let column = global - self.terms.query.relations[other].first;
                    compared.entry(other).or_default().push(column);
                }
                _ => others += 1,
            }
        }
        let mut values = rows.sqrt().powi(others);
        for (other, columns) in compared {
            let is_key = |key: &[usize]| !key.is_empty() && key.iter().all(|column| columns.contains(column));
            let is_whole = self.terms.query.relations[other].table().is_some_and(|table| {
                let mut unique = table
                    .indexes
                    .iter()
                    .filter(|index| index.unique && index.predicate.is_none());
                is_key(&table.primary_key) || unique.any(|index| is_key(&index.columns))
            });
            values *= match is_whole {
                true => self.rows[other].max(1.0),
                false => rows.sqrt().powi(i32::try_from(columns.len()).unwrap_or(i32::MAX)),
            };
        }
        (rows / values).max(1.0)
    }

    /// The share of what is found that satisfies everything that is known then.
    fn share(&self, relation: usize, candidate: &Candidate, placed: &Placed) -> f64 {
        let query = self.terms.query;
        let own = &query.relations[relation];
        let terms = match own.join {
            JoinKind::Left => &own.on[..],
            JoinKind::Inner => &query.terms[..],
        };
        let left = terms
            .iter()
            .enumerate()
            .filter(|(index, _)| !candidate.satisfied.contains(index));
        let shares = left.filter_map(|(_, term)| {
            let (mut is_own, mut others, mut is_known) = (false, false, true);
            term.for_each_column(&mut |global| {
                let of = query.relation_of(global);
                is_own |= of == relation;
                others |= of != relation;
                is_known &= of == relation || placed.contains(of);
            });
            let table = own.table().filter(|_| !others);
            let term = term.remap_columns(&|global| if others { global } else { global - own.first });
            (is_own && is_known).then(|| selectivity(&term, table.map(|table| &**table)))
        });
        shares.product()
    }
}

/// The share of a table's rows for which a term is true, as a rule of thumb; columns are the table's own.
pub(crate) fn selectivity(term: &Expr, table: Option<&Table>) -> f64 {
    let unique = |column: usize| table.is_some_and(|table| table.primary_key == [column]);
    match term {
        Expr::Compare(Comparison::Equal, left, right) => match (&**left, &**right) {
            (Expr::Column(column), _) | (_, Expr::Column(column)) if unique(*column) => 0.0001,
            (Expr::Column(_), Expr::Column(_)) => 0.3,
            _ => 0.05,
        },
        Expr::Compare(Comparison::NotEqual, ..) => 0.9,
        Expr::Compare(..) => 0.4,
        Expr::InList(_, list) => (0.05 * list.len() as f64).min(0.6),
        Expr::Or(terms) => terms.iter().map(|term| selectivity(term, table)).sum::<f64>().min(0.9),
        Expr::And(terms) => terms.iter().map(|term| selectivity(term, table)).product(),
        Expr::Not(term) => 1.0 - selectivity(term, table),
        Expr::Call { function, .. } if function.name().contains("~~") => 0.1,
        Expr::Literal(_) => 1.0,
        _ => 0.3,
    }
}
