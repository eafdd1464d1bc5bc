//! Functions of rows in a select list, and in GROUP BY: each of their rows is a row of the result. They are computed behind FROM, or above
//! the groups if these are not made of what they give, and above windows.

use super::Context;
use super::expression::{AGGREGATE_BASE, ExpressionBinder, WINDOW_BASE};
use super::from::{From, push};
use super::grouping_sets::GROUPING_BASE;
use super::scope::{Hidden, ScopeColumn};
use super::select::Item;
use super::sets::BoundSet;
use super::typed::Typed;
use crate::plan::{Relation, RowsFrom};
use crate::planner::{BoundQuery, BoundSelect, Query, QueryRelation};
use rubato_base::{Error, Result, SqlState};
use rubato_formula::Expr;
use std::collections::BTreeMap;

/// Column numbers from here on stand for the values of functions of rows in a select list.
const SET_BASE: usize = 1 << 25;

/// What the functions of rows of a select list are called among the relations.
pub(super) const LIST_ALIAS: &str = "*select list*";

/// Whether the number of a column stands for what a function of rows gives.
pub(super) fn is_set(column: usize) -> bool {
    (SET_BASE..WINDOW_BASE).contains(&column)
}

/// Whether an expression takes what a function of rows of the select list makes.
pub(super) fn is_of_sets(expr: &Expr) -> bool {
    reads(expr, is_set)
}

fn reads(expr: &Expr, wanted: impl Fn(usize) -> bool) -> bool {
    let mut found = false;
    expr.for_each_column(&mut |column| found |= wanted(column));
    found
}

impl Context<'_> {
    /// Puts the functions of rows of a select list behind FROM, and their columns into the list and the keys.
    pub(super) fn place_sets(&self, sets: Vec<BoundSet>, from: &mut From, items: &mut [Item], keys: &mut [Expr]) {
        if sets.is_empty() {
            return;
        }
        let first = from.scope.width();
        let columns = sets
            .iter()
            .flat_map(|set| &set.columns)
            .map(|(_, column_type)| ScopeColumn {
                name: String::new(),
                column_type: *column_type,
                hidden: Hidden::Dropped,
            });
        let columns = columns.collect();
        from.scope.push(LIST_ALIAS, columns, None);
        let calls = sets.into_iter().map(|set| set.call).collect();
        push(
            from,
            Relation::Functions(RowsFrom {
                calls,
                ordinality: false,
                is_last: true,
            }),
        );
        let place = |column: usize| match is_set(column) {
            true => first + column - SET_BASE,
            false => column,
        };
        for expr in items.iter_mut().map(|item| &mut item.typed.expr).chain(keys) {
            *expr = expr.remap_columns(&place);
        }
    }
}

/// Takes the functions of rows out of FROM that the groups are not made of: they are called for each group, and their columns are marked as
/// theirs in `exprs`, which do not speak of groups yet.
///
/// Errors: 42803 for a key that is made of aggregates.
pub(super) fn sets_above_groups<'e>(
    query: &mut Query,
    keys: &mut [Expr],
    exprs: impl Iterator<Item = &'e mut Expr>,
) -> Result<Option<QueryRelation>> {
    let Some(QueryRelation {
        relation: Relation::Functions(functions),
        alias,
        first,
        types,
        ..
    }) = query.relations.pop_if(|last| last.is_of_select_list())
    else {
        return Ok(None);
    };
    let is_key = |place: usize| keys.iter().any(|key| reads(key, |column| column == first + place));
    let below: Vec<bool> = (0..functions.calls.len()).map(is_key).collect();
    let new_number = |column: usize| match column.checked_sub(first).filter(|place| *place < below.len()) {
        None => column,
        Some(place) => {
            let among = below[..place].iter().filter(|other| **other == below[place]).count();
            among + if below[place] { first } else { SET_BASE }
        }
    };
    exprs.for_each(|expr| *expr = expr.remap_columns(&new_number));
    keys.iter_mut().for_each(|key| *key = key.remap_columns(&new_number));
    let part = |wanted: bool| {
        let chosen = |place: &usize| below[*place] == wanted;
        let calls = (0..below.len())
            .filter(chosen)
            .map(|place| functions.calls[place].clone());
        let functions = RowsFrom {
            calls: calls.collect(),
            ..functions.clone()
        };
        let types = (0..below.len()).filter(chosen).map(|place| types[place]).collect();
        let relation = QueryRelation {
            first,
            ..QueryRelation::first(Relation::Functions(functions), alias.clone(), types)
        };
        below.contains(&wanted).then_some(relation)
    };
    let of_keys = part(true);
    let mut arguments = of_keys.iter().flat_map(|sets| sets.relation.outer_expressions());
    if arguments.any(|argument| reads(argument, |column| column >= AGGREGATE_BASE)) {
        return Err(Error::new(
            SqlState::GROUPING_ERROR,
            "aggregate functions are not allowed in GROUP BY",
        ));
    }
    drop(arguments);
    query.relations.extend(of_keys);
    Ok(part(false))
}

/// Gives what functions above the groups make its numbers, behind those of the groups.
pub(super) fn place_above_groups<'e>(
    sets: &mut QueryRelation,
    width: usize,
    exprs: impl Iterator<Item = &'e mut Expr>,
) {
    sets.first = width;
    for expr in exprs {
        *expr = expr.remap_columns(&|column| match is_set(column) {
            true => width + column - SET_BASE,
            false => column,
        });
    }
}

/// A SELECT whose rows are chosen, by `choose`, before functions of its list make more of each: PostgreSQL calls these behind the sort, where
/// it sorts by none of them. `choose` is given the SELECT of what is read behind it, and the new places of the columns `on`; any other
/// SELECT is given to it as it is.
pub(super) fn chosen_below_sets(
    mut select: BoundSelect,
    on: Vec<usize>,
    choose: impl FnOnce(BoundSelect, Vec<usize>) -> BoundSelect,
) -> BoundSelect {
    let sorts = select.parts.order_by.iter().map(|key| key.column);
    let keys: Vec<usize> = on.iter().copied().chain(sorts).collect();
    let Some(mut sets) = sets_behind_sort(&mut select, &keys) else {
        return choose(select, on);
    };
    let mut behind = select.parts.clone();
    (behind.aggregate, behind.distinct) = (None, false);
    let (below, places) = read_behind(&mut behind.projection, &mut sets, &keys);
    let parts = &mut select.parts;
    for (key, place) in parts.order_by.iter_mut().zip(&places[on.len()..]) {
        key.column = *place;
    }
    (parts.limit, parts.offset) = (None, None);
    (parts.visible, parts.projection) = (below.len(), below);
    let width = parts.visible;
    let chosen = choose(select, places[..on.len()].to_vec());
    let chosen = QueryRelation::over(BoundQuery::Select(Box::new(chosen)), "*chosen*", width);
    BoundSelect {
        query: Query {
            relations: vec![chosen, sets],
            terms: Vec::new(),
        },
        parts: behind,
    }
}

/// Takes the functions of rows out of a SELECT with an order, unless a column of `keys` is made of what they give.
fn sets_behind_sort(select: &mut BoundSelect, keys: &[usize]) -> Option<QueryRelation> {
    let BoundSelect { query, parts } = select;
    if parts.order_by.is_empty() || parts.aggregate.is_some() {
        return None;
    }
    query.relations.pop_if(|last| {
        let is_of_sets = |key: &usize| reads(&parts.projection[*key], |column| column >= last.first);
        last.is_of_select_list() && !keys.iter().any(is_of_sets)
    })
}

/// What a query below has to give: the columns `keys` of a projection, whose places in it are given too, and what else that and functions
/// behind it read. Both are about its columns afterwards.
fn read_behind(projection: &mut [Expr], sets: &mut QueryRelation, keys: &[usize]) -> (Vec<Expr>, Vec<usize>) {
    let mut below: Vec<Expr> = Vec::new();
    let mut place = |expr: Expr| {
        let known = below.iter().position(|known| *known == expr);
        known.unwrap_or_else(|| {
            below.push(expr);
            below.len() - 1
        })
    };
    let places: Vec<usize> = keys.iter().map(|key| place(projection[*key].clone())).collect();
    let mut columns = BTreeMap::new();
    for expr in projection.iter().chain(sets.relation.outer_expressions()) {
        expr.for_each_column(&mut |column| {
            if column < sets.first {
                columns.insert(column, place(Expr::Column(column)));
            }
        });
    }
    let (first, width) = (sets.first, below.len());
    let new_number = |column: usize| match columns.get(&column) {
        Some(place) => *place,
        None => width + column - first,
    };
    for (place, expr) in projection.iter_mut().enumerate() {
        *expr = match keys.iter().position(|key| *key == place) {
            Some(key) => Expr::Column(places[key]),
            None => expr.remap_columns(&new_number),
        };
    }
    for expr in sets.relation.outer_expressions_mut() {
        *expr = expr.remap_columns(&new_number);
    }
    sets.first = width;
    (below, places)
}

impl ExpressionBinder<'_> {
    /// A call of a function of rows where a value stands.
    pub(super) fn set_value(&self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        let refused = |message: String| Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        if self.inside_aggregate.get() {
            let message = "aggregate function calls cannot contain set-returning function calls";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("You might be able to move the set-returning function into a LATERAL FROM item."));
        }
        let is_key = self.clause == "GROUP BY";
        let clause = Some(self.clause).filter(|clause| *clause != "SELECT" && !is_key);
        if let Some(clause) = self.without_sets.get().or(clause) {
            return refused(format!("set-returning functions are not allowed in {clause}"));
        }
        let set = self.set_call(name, arguments)?;
        let [(_, column_type)] = set.columns.as_slice() else {
            return Err(Error::unsupported(format!("{name} in a select list"))
                .with_hint("Functions of several columns may stand in FROM."));
        };
        let is_nested = |column: usize| is_set(column) || column >= GROUPING_BASE;
        if set.call.arguments.iter().any(|argument| reads(argument, is_nested)) {
            return Err(Error::unsupported(
                "a set-returning function of other set-returning functions, or of GROUPING",
            )
            .with_hint("Call the inner one in a query in FROM, and the other one on its columns."));
        }
        let data_type = column_type.data_type;
        let mut sets = self.context.sets.borrow_mut();
        // A key is what the select list has, if it has the same.
        let known = sets.iter().position(|known| is_key && *known == set);
        let place = known.unwrap_or_else(|| {
            sets.push(set);
            sets.len() - 1
        });
        Ok(Typed::new(Expr::Column(SET_BASE + place), data_type))
    }
}
