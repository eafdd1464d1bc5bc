//! Queries within expressions that refer to the rows around them, as joins: EXISTS becomes a join that gives each row once, or only
//! rows without a partner; a value that is an aggregate becomes a group for each value that it is asked for.

use super::build::Builder;
use super::order::{Mode, Part, Source};
use super::tree::Tree;
use crate::plan::{AggregateCall, JoinKind, QueryPlan, Relation, SelectPlan, Subquery, SubqueryKind};
use rubato_base::{ColumnType, DataType, Result, Value};
use rubato_formula::{AggregateKind, Comparison, Expr, OUTER_BASE};
use std::collections::BTreeMap;

/// What the joins of a SELECT become besides its relations.
#[derive(Default)]
pub(super) struct Correlated {
    /// What columns of computed relations are, over the columns of others.
    pub(super) definitions: BTreeMap<usize, Expr>,
    /// Queries that are joined, each with the rows that it gives.
    pub(super) sources: Vec<(Source, Part)>,
}

/// A query's conditions that speak of the rows around it.
struct Inner {
    part: Part,
    /// Over the columns of both.
    terms: Vec<Expr>,
}

impl Correlated {
    /// Replaces columns by what they are.
    pub(super) fn define(&self, expr: &mut Expr) {
        if self.definitions.is_empty() {
            return;
        }
        if let Expr::Column(column) = expr {
            if let Some(definition) = self.definitions.get(column) {
                *expr = definition.clone();
            }
            return;
        }
        expr.for_each_child_mut(&mut |child| self.define(child));
    }
}

impl Builder<'_, '_> {
    /// Takes a computed relation whose first column is `first`; `false` if it has to be computed row by row. `next` is the number of the
    /// first column that no relation has, `number` that of the next relation.
    pub(super) fn computed(
        &self,
        expressions: &[Expr],
        first: usize,
        terms: &mut Vec<Expr>,
        (next, number): (&mut usize, &mut usize),
        found: &mut Correlated,
    ) -> Result<bool> {
        for (place, expr) in expressions.iter().enumerate() {
            let own = Expr::Column(first + place);
            let (inner, negated) = match expr {
                Expr::Not(inner) => (&**inner, true),
                other => (other, false),
            };
            let exists = match inner {
                Expr::Subquery { number, arguments } => self
                    .subquery(*number)
                    .filter(|subquery| subquery.kind == SubqueryKind::Exists)
                    .map(|subquery| (subquery, arguments)),
                _ => None,
            };
            if let Some((subquery, arguments)) = exists {
                let Some(term) = terms.iter().position(|term| *term == own) else {
                    return Ok(false);
                };
                let mode = if negated { Mode::Anti } else { Mode::Semi };
                let Some(joined) = self.exists(subquery, arguments, mode, (next, number))? else {
                    return Ok(false);
                };
                terms.remove(term);
                found.sources.push(joined);
                continue;
            }
            let Some(definition) = self.values(expr.clone(), (next, number), found)? else {
                return Ok(false);
            };
            found.definitions.insert(first + place, definition);
        }
        Ok(true)
    }

    fn subquery(&self, number: usize) -> Option<&Subquery> {
        self.context.subqueries?.queries.get(number)
    }

    fn exists(
        &self,
        subquery: &Subquery,
        arguments: &[Expr],
        mode: Mode,
        (next, number): (&mut usize, &mut usize),
    ) -> Result<Option<(Source, Part)>> {
        let QueryPlan::Select(plan) = &subquery.plan else {
            return Ok(None);
        };
        if plan.aggregate.is_some() || plan.limit.is_some() || plan.offset.is_some() {
            return Ok(None);
        }
        let Some(inner) = self.inner(plan, (subquery, arguments), Vec::new(), (*next, *number))? else {
            return Ok(None);
        };
        let source = joined_source(inner.terms, mode, *next);
        *next += width_of(plan);
        *number += 1;
        Ok(Some((source, inner.part)))
    }

    /// An expression with each value that it asks for in place of the question.
    fn values(
        &self,
        mut expr: Expr,
        (next, number): (&mut usize, &mut usize),
        found: &mut Correlated,
    ) -> Result<Option<Expr>> {
        if let Expr::Subquery {
            number: asked,
            arguments,
        } = &expr
        {
            let Some(subquery) = self.subquery(*asked) else {
                return Ok(None);
            };
            return self.value(subquery, arguments, (next, number), found);
        }
        let mut outcome = Ok(true);
        expr.for_each_child_mut(&mut |child| {
            if matches!(outcome, Ok(true)) {
                outcome = self
                    .values(child.clone(), (next, number), found)
                    .map(|value| value.map(|value| *child = value).is_some());
            }
        });
        Ok(outcome?.then_some(expr))
    }

    fn value(
        &self,
        subquery: &Subquery,
        arguments: &[Expr],
        (next, number): (&mut usize, &mut usize),
        found: &mut Correlated,
    ) -> Result<Option<Expr>> {
        let QueryPlan::Select(plan) = &subquery.plan else {
            return Ok(None);
        };
        let Some(aggregate) = &plan.aggregate else {
            return Ok(None);
        };
        let is_plain = aggregate.keys.is_empty()
            && aggregate.having.is_none()
            && plan.limit.is_none()
            && plan.offset.is_none()
            && plan.input_limit.is_none();
        let [result] = &plan.projection[..] else {
            return Ok(None);
        };
        if !is_plain || subquery.kind != SubqueryKind::Scalar || reads_outer(result) {
            return Ok(None);
        }
        let base = *next;
        let arguments_of_calls = aggregate.calls.iter().flat_map(call_expressions).cloned().collect();
        let Some(inner) = self.inner(plan, (subquery, arguments), arguments_of_calls, (base, *number))? else {
            return Ok(None);
        };
        let end = base + width_of(plan);
        let is_own = |expr: &Expr| every_column(expr, &|column| (base..end).contains(&column));
        let is_others = |expr: &Expr| every_column(expr, &|column| !(base..end).contains(&column));
        let (mut keys, mut on) = (Vec::new(), Vec::new());
        for term in inner.terms {
            let Expr::Compare(Comparison::Equal, left, right) = term else {
                return Ok(None);
            };
            let (own, other) = if is_own(&left) && is_others(&right) && !left.is_constant() {
                (*left, *right)
            } else if is_own(&right) && is_others(&left) && !right.is_constant() {
                (*right, *left)
            } else {
                return Ok(None);
            };
            let key = Expr::Column(end + keys.len());
            on.push(Expr::Compare(Comparison::Equal, Box::new(key), Box::new(other)));
            keys.push(own);
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let places = inner.part.places();
        let of_slots = self.slots(plan, base);
        let place = |column: usize| places.get(&column).copied().unwrap_or(0);
        let bound = |expr: &Expr| {
            let own = expr.bind_stable(self.evaluation).remap_columns(&of_slots);
            own.remap_columns(&place)
        };
        let calls: Vec<AggregateCall> = aggregate
            .calls
            .iter()
            .map(|call| super::build::bound_call(call, &bound))
            .collect();
        let first_call = end + keys.len();
        let value = result
            .bind_stable(self.evaluation)
            .remap_columns(&|call| first_call + call);
        let value = with_counts(value, &aggregate.calls, first_call);
        let ids: Vec<usize> = (end..first_call + calls.len()).collect();
        *next = first_call + calls.len();
        let rows = (inner.part.rows * 0.3).max(1.0);
        let tree = Tree::Aggregate {
            keys: keys.iter().map(|key| key.remap_columns(&place)).collect(),
            input: Box::new(inner.part.tree),
            calls,
        };
        let mut source = joined_source(on, Mode::Left, end);
        source.types = vec![ColumnType::plain(DataType::Unknown); ids.len()];
        found.sources.push((source, Part::new(tree, ids, *number, rows)));
        *number += 1;
        Ok(Some(value))
    }

    /// The rows of a query without its conditions on the rows around it, which become terms over both. Its own columns are numbered from
    /// `base` on.
    fn inner(
        &self,
        plan: &SelectPlan,
        (subquery, arguments): (&Subquery, &[Expr]),
        needed: Vec<Expr>,
        (base, number): (usize, usize),
    ) -> Result<Option<Inner>> {
        if plan.steps.is_empty() || plan.lock.is_some() || needed.iter().any(reads_outer) {
            return Ok(None);
        }
        let Some((mut part, terms)) = self.correlated(plan, &needed)? else {
            return Ok(None);
        };
        part.shift(base, number);
        let around = |expr: &Expr| {
            let mut own = expr.remap_columns(&|column| column + base);
            own.transform(&mut |node| {
                if let Expr::Parameter(index) = node
                    && let Some(outer) = index.checked_sub(OUTER_BASE)
                    && let Some(place) = subquery.outer.iter().position(|own| *own == outer)
                    && let Some(argument) = arguments.get(place)
                {
                    *node = argument.clone();
                }
            });
            own
        };
        let terms: Vec<Expr> = terms.iter().map(around).collect();
        // What is left belongs to a query further out.
        if terms.iter().any(reads_outer) {
            return Ok(None);
        }
        Ok(Some(Inner { part, terms }))
    }
}

/// Whether it reads of a tuple of a query around.
pub(super) fn reads_outer(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |node| found |= matches!(node, Expr::Parameter(index) if *index >= OUTER_BASE));
    found
}

fn every_column(expr: &Expr, holds: &dyn Fn(usize) -> bool) -> bool {
    let mut all = true;
    expr.for_each_column(&mut |column| all &= holds(column));
    all
}

fn call_expressions(call: &AggregateCall) -> impl Iterator<Item = &Expr> {
    let ordered = call.order_by.iter().map(|(expr, ..)| expr);
    call.arguments.iter().chain(&call.filter).chain(ordered)
}

/// Where there is no group, nothing was counted.
fn with_counts(value: Expr, calls: &[AggregateCall], first: usize) -> Expr {
    let mut value = value;
    value.transform(&mut |node| {
        if let Expr::Column(column) = node
            && let Some(call) = column.checked_sub(first).and_then(|place| calls.get(place))
            && matches!(call.aggregate.kind, AggregateKind::Count | AggregateKind::CountRows)
        {
            *node = Expr::Coalesce(vec![node.clone(), Expr::Literal(Value::Int8(0))]);
        }
    });
    value
}

fn joined_source(on: Vec<Expr>, mode: Mode, first: usize) -> Source {
    Source {
        relation: Relation::Computed(Vec::new()),
        alias: "*asked*".to_owned(),
        first,
        types: Vec::new(),
        join: JoinKind::Left,
        mode,
        on,
        access: None,
        base_rows: 1.0,
    }
}

fn width_of(plan: &SelectPlan) -> usize {
    plan.steps
        .iter()
        .map(|step| super::types::relation_types(&step.relation).len())
        .sum()
}
