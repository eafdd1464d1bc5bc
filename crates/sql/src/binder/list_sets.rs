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
use crate::planner::{Query, QueryRelation};
use rubato_base::{Error, Result, SqlState};
use rubato_formula::Expr;

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
