//! Expressions that ask queries: they are computed by steps of their own, behind those whose tuples they read, and everything else
//! reads what was computed.

use super::bound::{BoundQuery, BoundSelect, Query, QueryRelation, SelectParts};
use super::flatten;
use crate::plan::{AggregatePlan, JoinKind, Relation};
use rubato_base::{ColumnType, DataType};
use rubato_formula::Expr;
use std::sync::Arc;

/// The same SELECT with every expression that asks a query computed by a relation of its own.
pub(super) fn compute_subqueries(mut select: BoundSelect) -> BoundSelect {
    let mut asks = false;
    select.for_each_expression(&mut |expr| asks |= expr.has_subquery());
    if !asks {
        return select;
    }
    if asks_above_groups(&select.parts) {
        select = over_groups(select);
    }
    let BoundSelect { query, parts } = &mut select;
    if query.relations.is_empty() {
        // What is computed is computed for something: for one row without columns.
        push(query, Relation::Values(vec![Vec::new()]), Vec::new());
    }
    compute_terms(query);
    compute_join_conditions(query);
    compute_upper(query, parts);
    select
}

fn asks_above_groups(parts: &SelectParts) -> bool {
    parts.aggregate.as_ref().is_some_and(|aggregate| {
        let mut above = parts.projection.iter().chain(&aggregate.having);
        above.any(Expr::has_subquery)
    })
}

/// Grouping becomes a query of its own: then what is asked of groups is asked of its rows.
fn over_groups(select: BoundSelect) -> BoundSelect {
    let BoundSelect { query, mut parts } = select;
    let Some(mut aggregate) = parts.aggregate.take() else {
        return BoundSelect { query, parts };
    };
    let having = aggregate.having.take();
    let width = aggregate.keys.len() + aggregate.calls.len();
    let groups = BoundSelect {
        query,
        parts: SelectParts {
            aggregate: Some(aggregate),
            ..SelectParts::of_columns((0..width).map(Expr::Column).collect())
        },
    };
    let mut outer = Query {
        relations: Vec::new(),
        terms: flatten(having.into_iter().collect()),
    };
    let relation = Relation::Query(Arc::new(BoundQuery::Select(Box::new(groups))));
    push(&mut outer, relation, vec![ColumnType::plain(DataType::Unknown); width]);
    BoundSelect { query: outer, parts }
}

/// Adds a relation; returns the number of its first column.
fn push(query: &mut Query, relation: Relation<BoundQuery>, types: Vec<ColumnType>) -> usize {
    let first = query.width();
    query.relations.push(QueryRelation {
        relation,
        alias: "*computed*".to_owned(),
        first,
        types,
        join: JoinKind::Inner,
        on: Vec::new(),
    });
    first
}

/// Adds a relation that computes these expressions; returns the number of the first.
fn push_computed(query: &mut Query, expressions: Vec<Expr>) -> usize {
    let types = vec![ColumnType::plain(DataType::Unknown); expressions.len()];
    push(query, Relation::Computed(expressions), types)
}

/// Each term of WHERE by itself, so that it is asked as soon as it can be.
fn compute_terms(query: &mut Query) {
    let terms = flatten(std::mem::take(&mut query.terms));
    for term in terms {
        let term = if term.has_subquery() {
            Expr::Column(push_computed(query, vec![term]))
        } else {
            term
        };
        query.terms.push(term);
    }
}

/// In the condition of an outer join a query refers to nothing of the optional side (the binder sees to that), and is asked before
/// the join.
fn compute_join_conditions(query: &mut Query) {
    for relation in 0..query.relations.len() {
        let mut on = std::mem::take(&mut query.relations[relation].on);
        for term in &mut on {
            let mut asked = Vec::new();
            term.transform(&mut |node| {
                if matches!(node, Expr::Subquery { .. }) {
                    asked.push(node.clone());
                    *node = Expr::Column(usize::MAX - asked.len());
                }
            });
            if asked.is_empty() {
                continue;
            }
            let first = push_computed(query, asked);
            *term = term.remap_columns(&|column| match usize::MAX - column {
                // As many are asked at the most as there are columns in a relation.
                place if place <= usize::from(u16::MAX) => first + place - 1,
                _ => column,
            });
        }
        query.relations[relation].on = on;
    }
}

/// What stands above the joins is computed for the tuples that are left.
fn compute_upper(query: &mut Query, parts: &mut SelectParts) {
    let first = query.width();
    let mut computed = Vec::new();
    let mut compute = |expr: &mut Expr| {
        if expr.has_subquery() {
            let column = Expr::Column(first + computed.len());
            computed.push(std::mem::replace(expr, column));
        }
    };
    match &mut parts.aggregate {
        None => parts.projection.iter_mut().for_each(&mut compute),
        Some(aggregate) => each_input(aggregate, &mut compute),
    }
    if !computed.is_empty() {
        push_computed(query, computed);
    }
}

/// What a grouping reads of the joined tuple.
pub(super) fn each_input(aggregate: &mut AggregatePlan, change: &mut dyn FnMut(&mut Expr)) {
    aggregate.keys.iter_mut().for_each(&mut *change);
    for call in &mut aggregate.calls {
        let ordered = call.order_by.iter_mut().map(|(expr, ..)| expr);
        call.arguments
            .iter_mut()
            .chain(&mut call.filter)
            .chain(ordered)
            .for_each(&mut *change);
    }
}
