//! GROUPING SETS, ROLLUP and CUBE: the groupings by each set, one after the other, as a UNION ALL of them would give them.

use super::aggregate::{Grouping, check_key};
use super::expression::{AGGREGATE_BASE, ExpressionBinder};
use super::scope::Scope;
use super::typed::Typed;
use super::{Context, located};
use crate::plan::{AggregateCall, AggregatePlan, Relation, SetOperation};
use crate::planner::{BoundQuery, BoundSelect, BoundSet, Query, QueryRelation, SelectParts};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::Expr;
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// Column numbers from here on stand for calls of GROUPING.
pub(super) const GROUPING_BASE: usize = 1 << 28;
/// PostgreSQL takes no more sets.
const SETS_MAX: usize = 4096;

/// What GROUP BY says.
#[derive(Debug, Default)]
pub(super) struct GroupKeys {
    /// Every key, once.
    pub(super) keys: Vec<Expr>,
    /// The place in the select list that each is, if it is one: of two equal ones there each may be a key.
    pub(super) items: Vec<Option<usize>>,
    /// The sets by places of keys, if sets are given.
    pub(super) sets: Option<Vec<Vec<usize>>>,
}

impl GroupKeys {
    /// The place of a key, which it is given if it has none yet. An expression is the first of the select list that is equal, if any is.
    pub(super) fn place(&mut self, key: Expr, item: Option<usize>) -> usize {
        let mut known = self.keys.iter().zip(&self.items);
        let known = known.position(|(own, own_item)| *own == key && *own_item == item);
        known.unwrap_or_else(|| {
            self.keys.push(key);
            self.items.push(item);
            self.keys.len() - 1
        })
    }

    /// The key that a column of the select list is, by its own place.
    fn of_item(&self, item: usize) -> Option<usize> {
        self.items.iter().position(|own| *own == Some(item))
    }
}

/// What the groupings have in common.
pub(super) struct SetParts<'a> {
    pub(super) scope: &'a Scope,
    pub(super) query: Query,
    pub(super) calls: Vec<AggregateCall>,
    pub(super) having: Option<Expr>,
    pub(super) groupings: Vec<Vec<Expr>>,
    /// The types of the visible columns.
    pub(super) types: Vec<ColumnType>,
}

impl ExpressionBinder<'_> {
    /// `GROUPING (...)`
    pub(super) fn grouping_call(&self, arguments: &[&ast::Expr]) -> Result<Typed> {
        let Some(groupings) = self.groupings else {
            let message = format!("grouping operations are not allowed in {}", self.clause);
            return Err(Error::new(SqlState::GROUPING_ERROR, message));
        };
        if arguments.len() > 31 {
            let message = "GROUPING must have fewer than 32 arguments";
            return Err(Error::new(SqlState::TOO_MANY_ARGUMENTS, message));
        }
        let bound = arguments
            .iter()
            .map(|argument| Ok(self.context.settle(self.bind(argument)?)?.expr));
        let bound = bound.collect::<Result<Vec<Expr>>>()?;
        let mut groupings = groupings.borrow_mut();
        groupings.push(bound);
        let column = Expr::Column(GROUPING_BASE + groupings.len() - 1);
        Ok(Typed::new(column, DataType::Int4))
    }
}

/// The sets of keys that GROUP BY stands for; `key` binds one expression and gives its place.
pub(super) fn sets_of(
    exprs: &[ast::Expr],
    key: &mut dyn FnMut(&ast::Expr) -> Result<usize>,
) -> Result<Vec<Vec<usize>>> {
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for expr in exprs {
        let own = match expr {
            ast::Expr::GroupingSets(lists) => {
                let mut own = Vec::new();
                for list in lists {
                    own.extend(set_of_list(list, key)?);
                }
                own
            }
            ast::Expr::Rollup(lists) => {
                let lists = bound_lists(lists, key)?;
                (0..=lists.len()).rev().map(|count| lists[..count].concat()).collect()
            }
            ast::Expr::Cube(lists) => {
                let lists = bound_lists(lists, key)?;
                if lists.len() > 12 {
                    return Err(Error::new(SqlState::TOO_MANY_COLUMNS, "CUBE is limited to 12 elements"));
                }
                let chosen = |mask: usize| {
                    let all = 1 << lists.len();
                    // The set of all comes first.
                    let mask = all - 1 - mask;
                    let own = lists.iter().enumerate();
                    own.filter(|(place, _)| mask & (1 << (lists.len() - 1 - place)) != 0)
                        .flat_map(|(_, list)| list.clone())
                        .collect()
                };
                (0..1 << lists.len()).map(chosen).collect()
            }
            ast::Expr::Tuple(items) if items.is_empty() => vec![Vec::new()],
            ast::Expr::Tuple(items) => vec![bound_list(items, key)?],
            other => vec![vec![key(other)?]],
        };
        let mut product = Vec::with_capacity(sets.len() * own.len());
        for set in &sets {
            for other in &own {
                let mut both = set.clone();
                both.extend(other.iter().filter(|place| !set.contains(place)));
                product.push(both);
            }
        }
        if product.len() > SETS_MAX {
            let message = format!("too many grouping sets present (maximum {SETS_MAX})");
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        sets = product;
    }
    Ok(sets)
}

/// An element of GROUPING SETS, which may itself be ROLLUP, CUBE or GROUPING SETS.
fn set_of_list(list: &[ast::Expr], key: &mut dyn FnMut(&ast::Expr) -> Result<usize>) -> Result<Vec<Vec<usize>>> {
    match list {
        [nested @ (ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_))] => {
            sets_of(std::slice::from_ref(nested), key)
        }
        [ast::Expr::Function(function)] => match nested_sets(function) {
            Some(nested) => sets_of(std::slice::from_ref(&nested), key),
            None => Ok(vec![bound_list(list, key)?]),
        },
        list => Ok(vec![bound_list(list, key)?]),
    }
}

/// Within GROUPING SETS the parser takes ROLLUP and CUBE for functions.
fn nested_sets(function: &ast::Function) -> Option<ast::Expr> {
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let lists = list.args.iter().map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Tuple(items))) => Some(items.clone()),
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(vec![expr.clone()]),
        _ => None,
    });
    let lists: Vec<Vec<ast::Expr>> = lists.collect::<Option<_>>()?;
    match function.name.to_string().to_ascii_lowercase().as_str() {
        "rollup" => Some(ast::Expr::Rollup(lists)),
        "cube" => Some(ast::Expr::Cube(lists)),
        _ => None,
    }
}

fn bound_lists(lists: &[Vec<ast::Expr>], key: &mut dyn FnMut(&ast::Expr) -> Result<usize>) -> Result<Vec<Vec<usize>>> {
    lists.iter().map(|list| bound_list(list, key)).collect()
}

fn bound_list(list: &[ast::Expr], key: &mut dyn FnMut(&ast::Expr) -> Result<usize>) -> Result<Vec<usize>> {
    let mut places = Vec::with_capacity(list.len());
    for expr in list {
        let place = key(expr)?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// Whether GROUP BY names sets.
pub(super) fn has_sets(exprs: &[ast::Expr]) -> bool {
    let is_set = |expr: &ast::Expr| {
        matches!(
            expr,
            ast::Expr::GroupingSets(_) | ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::Tuple(_)
        )
    };
    exprs.iter().any(is_set)
}

impl Context<'_> {
    /// Puts the value that each call of GROUPING has in a grouping by `set` into an expression. 42803 for what is no key.
    pub(super) fn set_groupings(
        &self,
        expr: &mut Expr,
        groupings: &[Vec<Expr>],
        keys: &[Expr],
        set: &[usize],
    ) -> Result<()> {
        let mut outcome = Ok(());
        expr.transform(&mut |node| {
            let Expr::Column(column) = node else { return };
            let Some(arguments) = column.checked_sub(GROUPING_BASE).and_then(|call| groupings.get(call)) else {
                return;
            };
            let mut bits = 0;
            for argument in arguments {
                match keys.iter().position(|key| key == argument) {
                    Some(place) => bits = bits << 1 | i32::from(!set.contains(&place)),
                    None => {
                        outcome = Err(Error::new(
                            SqlState::GROUPING_ERROR,
                            "arguments to GROUPING must be grouping expressions of the associated query level",
                        ));
                    }
                }
            }
            *node = Expr::Literal(Value::Int4(bits));
        });
        outcome
    }

    /// A SELECT that groups by sets: `parts` stand above all groupings, whose columns are its projection.
    pub(super) fn over_sets(
        &self,
        own: &SetParts<'_>,
        keys: &GroupKeys,
        mut parts: SelectParts,
    ) -> Result<BoundSelect> {
        let sets = keys.sets.as_deref().unwrap_or_default();
        let one = |set: &Vec<usize>| self.one_set(own, keys, set, &parts.projection);
        let selects = sets.iter().map(|set| Ok(BoundQuery::Select(Box::new(one(set)?))));
        let united = one_after_the_other(selects.collect::<Result<_>>()?);
        let width = parts.projection.len();
        let mut types = own.types.clone();
        types.resize(width, ColumnType::plain(DataType::Unknown));
        parts.projection = (0..width).map(Expr::Column).collect();
        let relations = united.map(|query| QueryRelation::first(Relation::Query(Arc::new(query)), "*sets*", types));
        let query = Query {
            relations: relations.into_iter().collect(),
            terms: Vec::new(),
        };
        Ok(BoundSelect { query, parts })
    }

    fn one_set(
        &self,
        own: &SetParts<'_>,
        group_keys: &GroupKeys,
        set: &[usize],
        projection: &[Expr],
    ) -> Result<BoundSelect> {
        let keys = &group_keys.keys;
        let grouped: Vec<Expr> = set.iter().map(|place| keys[*place].clone()).collect();
        // An expression is the first of equal keys.
        let first = (0..keys.len()).filter(|place| !keys[..*place].contains(&keys[*place]));
        let (own_keys, others): (Vec<usize>, Vec<usize>) = first.partition(|place| set.contains(place));
        let keys_at = |places: &[usize]| -> Vec<&Expr> { places.iter().map(|place| &keys[*place]).collect() };
        let (own_keys, others) = (keys_at(&own_keys), keys_at(&others));
        let grouping = Grouping::new(self, own.scope, grouped);
        let rewritten = |expr: &Expr| -> Result<Expr> {
            let mut expr = expr.clone();
            without_keys(&mut expr, (&others, &own_keys));
            self.set_groupings(&mut expr, &own.groupings, keys, set)?;
            grouping.rewrite(&mut expr)?;
            Ok(expr)
        };
        let column = |(place, expr): (usize, &Expr)| match group_keys.of_item(place) {
            Some(key) if !set.contains(&key) => Ok(Expr::Literal(Value::Null)),
            Some(_) => {
                let mut expr = expr.clone();
                grouping.rewrite(&mut expr)?;
                Ok(expr)
            }
            None => rewritten(expr),
        };
        let projection = projection.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let having = own.having.as_ref().map(&rewritten).transpose()?;
        let aggregate: AggregatePlan = grouping.into_plan(own.calls.clone(), having);
        Ok(BoundSelect {
            query: own.query.clone(),
            parts: SelectParts {
                aggregate: Some(aggregate),
                ..SelectParts::of_columns(projection)
            },
        })
    }

    /// Refuses aggregates in a key.
    pub(super) fn checked_key(&self, expr: &ast::Expr, key: Expr) -> Result<Expr> {
        check_key(self, expr.span(), &key)?;
        let reads_grouping = {
            let mut found = false;
            key.for_each_column(&mut |column| found |= column >= GROUPING_BASE);
            found
        };
        if reads_grouping {
            let message = "grouping operations are not allowed in GROUP BY";
            return located(self, expr.span(), Err(Error::new(SqlState::GROUPING_ERROR, message)));
        }
        Ok(key)
    }
}

/// All rows of these queries. There may be thousands of them, and what is made of it is looked through by recursion: it is as low as
/// it can be.
fn one_after_the_other(mut queries: Vec<BoundQuery>) -> Option<BoundQuery> {
    let rest = queries.split_off(queries.len().div_ceil(2));
    if rest.is_empty() {
        return queries.pop();
    }
    let (left, right) = (one_after_the_other(queries)?, one_after_the_other(rest)?);
    Some(BoundQuery::Set(Box::new(BoundSet {
        operation: SetOperation::Union,
        all: true,
        left,
        right,
    })))
}

/// Keys that are not in the set are NULL, but not within those that are.
fn without_keys(expr: &mut Expr, (others, grouped): (&[&Expr], &[&Expr])) {
    if grouped.contains(&&*expr) {
        return;
    }
    if others.contains(&&*expr) {
        *expr = Expr::Literal(Value::Null);
        return;
    }
    if matches!(expr, Expr::Column(column) if *column >= AGGREGATE_BASE) {
        return;
    }
    expr.for_each_child_mut(&mut |child| without_keys(child, (others, grouped)));
}
