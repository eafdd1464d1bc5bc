//! Queries in FROM that need not be queries: those that only choose rows and columns become part of the query around them, and
//! conditions on the rows of others go down into them. So keys and indexes serve as if the query had been written without them.

use super::bound::{BoundQuery, BoundSelect, Query, QueryRelation, SelectParts};
use super::flatten;
use super::subqueries::each_input;
use crate::plan::{JoinKind, Relation};
use rubato_formula::{Expr, Volatility};
use std::sync::Arc;

/// Merges what can be merged, at every depth.
pub(super) fn merge_queries(mut select: BoundSelect) -> BoundSelect {
    select.query.terms = flatten(std::mem::take(&mut select.query.terms));
    let mut place = 0;
    while place < select.query.relations.len() {
        if let Relation::Query(query) = &mut select.query.relations[place].relation
            && let BoundQuery::Select(inner) = &**query
            && can_merge(inner)
        {
            // What is merged may hold more to be merged.
            let inner = merge_queries((**inner).clone());
            if fits(&inner, &select, place) {
                merge(&mut select, place, inner);
                continue;
            }
        }
        place += 1;
    }
    push_terms_down(&mut select.query);
    select
}

/// Whether a query only chooses rows and columns.
fn can_merge(inner: &BoundSelect) -> bool {
    let parts = &inner.parts;
    let is_plain = parts.aggregate.is_none()
        && !parts.distinct
        && parts.order_by.is_empty()
        && parts.limit.is_none()
        && parts.offset.is_none()
        && parts.lock.is_none()
        && !inner.query.relations.iter().any(QueryRelation::is_of_select_list);
    is_plain && parts.projection.iter().all(may_be_repeated)
}

/// Whether it does no harm to evaluate an expression more or less often.
fn may_be_repeated(expr: &Expr) -> bool {
    expr.volatility() < Volatility::Volatile
}

fn fits(inner: &BoundSelect, outer: &BoundSelect, place: usize) -> bool {
    let relation = &outer.query.relations[place];
    if outer.parts.lock.is_some() {
        return false;
    }
    match relation.join {
        JoinKind::Inner => {
            // A LEFT JOIN has to have something to its left.
            let others = || {
                let (before, own_and_behind) = outer.query.relations.split_at(place);
                before.iter().chain(&own_and_behind[1..])
            };
            inner.query.relations.iter().any(stands_first)
                || others().all(|other| other.join == JoinKind::Inner)
                || others().any(stands_first)
        }
        // Its columns are NULL where there is no row: only those of one relation are so by themselves.
        JoinKind::Left => {
            let [only] = inner.query.relations.as_slice() else {
                return false;
            };
            only.join == JoinKind::Inner
                && inner
                    .parts
                    .projection
                    .iter()
                    .all(|expr| matches!(expr, Expr::Column(_)))
                && !inner.query.terms.iter().any(Expr::has_subquery)
        }
    }
}

/// Whether a relation can be the first of a query: its rows depend on no other's.
fn stands_first(relation: &QueryRelation) -> bool {
    let depends = matches!(&relation.relation, Relation::Lateral { .. } | Relation::Computed(_));
    relation.join == JoinKind::Inner && !depends && !relation.relation.is_lateral()
}

/// Puts the relations of a query in the place of the query.
fn merge(outer: &mut BoundSelect, place: usize, inner: BoundSelect) {
    let offset = outer.query.width();
    let shift = |expr: &Expr| expr.remap_columns(&|column| column + offset);
    let projection: Vec<Expr> = inner.parts.projection.iter().map(shift).collect();
    let merged = outer.query.relations.remove(place);
    let range = merged.first..merged.first + merged.types.len();
    let replace = |expr: &mut Expr| {
        replace_columns(expr, &|column| {
            let own = range.contains(&column).then(|| column - range.start)?;
            projection.get(own).cloned()
        });
    };
    each_expression(outer, &replace);
    let terms: Vec<Expr> = inner.query.terms.iter().map(shift).collect();
    let mut on = merged.on;
    on.iter_mut().for_each(replace);
    for mut relation in inner.query.relations {
        relation.first += offset;
        relation.on = relation.on.iter().map(shift).collect();
        for expr in relation.relation.outer_expressions_mut() {
            *expr = shift(expr);
        }
        if merged.join == JoinKind::Left {
            relation.join = JoinKind::Left;
            relation.on = on.iter().chain(&terms).cloned().collect();
        }
        outer.query.relations.push(relation);
    }
    if merged.join == JoinKind::Inner {
        outer.query.terms.extend(flatten(terms));
    }
}

/// Every expression over the joined relations.
fn each_expression(select: &mut BoundSelect, change: &dyn Fn(&mut Expr)) {
    let BoundSelect { query, parts } = select;
    query.terms.iter_mut().for_each(change);
    for QueryRelation { relation, on, .. } in &mut query.relations {
        on.iter_mut().for_each(change);
        relation.outer_expressions_mut().for_each(change);
    }
    match &mut parts.aggregate {
        None => parts.projection.iter_mut().for_each(change),
        Some(aggregate) => each_input(aggregate, &mut |expr| change(expr)),
    }
}

fn replace_columns(expr: &mut Expr, with: &dyn Fn(usize) -> Option<Expr>) {
    if let Expr::Column(column) = expr {
        if let Some(other) = with(*column) {
            *expr = other;
        }
        return;
    }
    expr.for_each_child_mut(&mut |child| replace_columns(child, with));
}

/// Hands conditions on the rows of one query to that query.
fn push_terms_down(query: &mut Query) {
    let terms = std::mem::take(&mut query.terms);
    for term in terms {
        if !push_down(query, &term) {
            query.terms.push(term);
        }
    }
}

fn push_down(query: &mut Query, term: &Expr) -> bool {
    let mut only = None;
    let mut is_one = true;
    term.for_each_column(&mut |column| {
        let relation = query.relation_of(column);
        is_one &= *only.get_or_insert(relation) == relation;
    });
    let Some(place) = only.filter(|_| is_one && may_be_repeated(term)) else {
        return false;
    };
    let relation = &mut query.relations[place];
    let Relation::Query(inner) = &mut relation.relation else {
        return false;
    };
    let own = term.remap_columns(&|column| column - relation.first);
    if relation.join == JoinKind::Left || !takes(inner, &own) {
        return false;
    }
    take(Arc::make_mut(inner), &own);
    true
}

/// Whether a query gives the same rows if a condition on its columns is asked within it.
fn takes(query: &BoundQuery, term: &Expr) -> bool {
    match query {
        BoundQuery::Recursive(_) | BoundQuery::FullJoin(_) => false,
        BoundQuery::Set(set) => takes(&set.left, term) && takes(&set.right, term),
        BoundQuery::Select(select) => within(&select.parts, term).is_some(),
        // A row that is left out is missing in the partitions of others.
        BoundQuery::Window(_) => false,
    }
}

fn take(query: &mut BoundQuery, term: &Expr) {
    match query {
        BoundQuery::Recursive(_) | BoundQuery::FullJoin(_) => {}
        BoundQuery::Set(set) => {
            take(&mut set.left, term);
            take(&mut set.right, term);
        }
        BoundQuery::Select(select) => select.query.terms.extend(within(&select.parts, term)),
        BoundQuery::Window(_) => {}
    }
}

/// A condition on the columns of a SELECT as one on what it reads; `None` if that would change its rows.
fn within(parts: &SelectParts, term: &Expr) -> Option<Expr> {
    if parts.limit.is_some() || parts.offset.is_some() || parts.lock.is_some() {
        return None;
    }
    let mut fits = true;
    let mut own = term.clone();
    term.for_each_column(&mut |column| fits &= source_of(parts, column).is_some());
    replace_columns(&mut own, &|column| source_of(parts, column));
    fits.then_some(own)
}

/// What a column of a SELECT is over the joined relations; of groups, only their keys are.
fn source_of(parts: &SelectParts, column: usize) -> Option<Expr> {
    let expr = parts.projection.get(column)?;
    let source = match (&parts.aggregate, expr) {
        (None, expr) => expr,
        (Some(aggregate), Expr::Column(group)) => aggregate.keys.get(*group)?,
        (Some(_), _) => return None,
    };
    may_be_repeated(source).then(|| source.clone())
}
