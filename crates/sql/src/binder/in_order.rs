//! What has effects in a select list is computed of the rows in their order, and of no more of them than are given.

use crate::plan::SortKey;
use crate::planner::{BoundQuery, BoundSelect, Query, QueryRelation, SelectParts};
use rubato_formula::{Expr, Volatility};

/// The same rows, whose volatile expressions are computed behind the sort, as in PostgreSQL: `SELECT nextval('s'), id FROM t ORDER BY id`
/// numbers the rows in their order. Those that the rows are sorted by are computed before.
pub(super) fn computed_in_order(select: BoundSelect) -> BoundSelect {
    let parts = &select.parts;
    if parts.order_by.is_empty() || parts.distinct || parts.lock.is_some() {
        return select;
    }
    let is_late = |place: usize| {
        let expr = &parts.projection[place];
        let sorts = parts.order_by.iter().any(|key| key.column == place);
        expr.volatility() == Volatility::Volatile && !sorts && !expr.has_subquery()
    };
    let late: Vec<bool> = (0..parts.projection.len())
        .map(|place| place < parts.visible && is_late(place))
        .collect();
    if !late.contains(&true) {
        return select;
    }
    let BoundSelect { query, mut parts } = select;
    let projection = std::mem::take(&mut parts.projection);
    let mut inner: Vec<Expr> = Vec::with_capacity(projection.len());
    let mut places: Vec<usize> = Vec::with_capacity(projection.len());
    for (expr, late) in projection.iter().zip(&late) {
        places.push(inner.len());
        if !late {
            inner.push(expr.clone());
        }
    }
    for (expr, _) in projection.iter().zip(&late).filter(|(_, late)| **late) {
        expr.for_each_column(&mut |column| {
            if !inner.contains(&Expr::Column(column)) {
                inner.push(Expr::Column(column));
            }
        });
    }
    let place_of = |column: usize| inner.iter().position(|known| *known == Expr::Column(column));
    let outer = (0..parts.visible).map(|place| match late[place] {
        true => projection[place].remap_columns(&|column| place_of(column).unwrap_or(column)),
        false => Expr::Column(places[place]),
    });
    let outer: Vec<Expr> = outer.collect();
    for SortKey { column, .. } in &mut parts.order_by {
        *column = places[*column];
    }
    let width = inner.len();
    (parts.visible, parts.projection) = (width, inner);
    let sorted = BoundQuery::Select(Box::new(BoundSelect { query, parts }));
    BoundSelect {
        query: Query {
            relations: vec![QueryRelation::over(sorted, "*sorted*", width)],
            terms: Vec::new(),
        },
        parts: SelectParts::of_columns(outer),
    }
}
