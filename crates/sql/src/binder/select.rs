//! SELECT and VALUES.

use super::aggregate::Grouping;
use super::expand::expanded;
use super::expression::{AGGREGATE_BASE, ExpressionBinder};
use super::from::{From, plain_values};
use super::grouping_sets::{GroupKeys, SetParts, has_sets, sets_of};
use super::in_order::computed_in_order;
use super::json::Comparing;
use super::labels::column_name;
use super::list_sets::{place_above_groups, sets_above_groups};
use super::scope::{Hidden, Scope};
use super::tail::{Tail, refuse_query_parts, sort_parts};
use super::typed::Typed;
use super::window::{WindowBound, Windows, distinct_on as distinct_on_of, with_ties};
use super::{Context, located, object_name};
use crate::client::OutputColumn;
use crate::parser::syntax::fold;
use crate::plan::{AggregateCall, Relation, SortKey};
use crate::planner::{BoundQuery, BoundSelect, Query, QueryRelation, SelectParts};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, TableId};
use rubato_formula::{CastContext, Expr};
use sqlparser::ast::{self, Spanned};
use std::cell::RefCell;
use std::sync::Arc;

/// A column of the select list.
pub(super) struct Item {
    pub typed: Typed,
    pub name: String,
    pub origin: Option<(TableId, i16)>,
}

/// PostgreSQL's MaxTupleAttributeNumber: the columns of a result.
const TARGETS_MAX: usize = 1664;

impl Context<'_> {
    /// Binds a query. `wanted` are types for result columns that have none of their own (INSERT ... SELECT).
    pub(super) fn query(&self, query: &ast::Query, wanted: &[DataType]) -> Result<(BoundSelect, Vec<OutputColumn>)> {
        refuse_query_parts(query)?;
        self.within_names(query.with.as_ref(), || self.query_body(query, wanted))
    }

    fn query_body(&self, query: &ast::Query, wanted: &[DataType]) -> Result<(BoundSelect, Vec<OutputColumn>)> {
        let tail = Tail::of(query);
        match &*query.body {
            ast::SetExpr::Select(select) => self.select(&tail, select, wanted),
            ast::SetExpr::Values(values) => self.values_query(values, &tail),
            ast::SetExpr::Query(inner) if tail.is_empty() => self.query(inner, wanted),
            ast::SetExpr::Query(inner) => {
                tail.refuse_twice(inner)?;
                let (select, columns) = self.query(inner, wanted)?;
                self.over_query(BoundQuery::Select(Box::new(select)), &columns, &tail)
            }
            ast::SetExpr::SetOperation { .. } => self.set_query(&query.body, &tail, wanted),
            ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_) => {
                Err(Error::unsupported("a statement that writes within a query"))
            }
            ast::SetExpr::Table(_) => Err(Error::unsupported("TABLE name").with_hint("Write SELECT * FROM name.")),
        }
    }

    /// VALUES as a statement.
    pub(super) fn values_query(
        &self,
        values: &ast::Values,
        tail: &Tail<'_>,
    ) -> Result<(BoundSelect, Vec<OutputColumn>)> {
        let (rows, columns) = self.values(values)?;
        let mut scope = Scope::default();
        scope.push("*VALUES*", columns.clone(), None);
        let types = columns.iter().map(|column| column.column_type).collect();
        let relation = QueryRelation::first(Relation::Values(rows), "*VALUES*", types);
        let from = From {
            scope,
            query: Query {
                relations: vec![relation],
                terms: Vec::new(),
            },
        };
        let items = expand_all(&from.scope);
        self.finish_select(tail, None, from, items)
    }

    /// A query that gives the columns of another, in the order and within the limits of `tail`.
    pub(super) fn over_query(
        &self,
        query: BoundQuery,
        columns: &[OutputColumn],
        tail: &Tail<'_>,
    ) -> Result<(BoundSelect, Vec<OutputColumn>)> {
        let mut from = From {
            scope: Scope::default(),
            query: Query::default(),
        };
        from.push_query("*SELECT*", Arc::new(query), columns);
        let items = expand_all(&from.scope);
        self.finish_select(tail, None, from, items)
    }

    pub(super) fn select(
        &self,
        tail: &Tail<'_>,
        select: &ast::Select,
        wanted: &[DataType],
    ) -> Result<(BoundSelect, Vec<OutputColumn>)> {
        refuse_select_parts(select)?;
        self.check_windows(&select.named_window)?;
        let mut from = self.from(&select.from)?;
        let calls = RefCell::new(Vec::new());
        let filter = select
            .selection
            .as_ref()
            .map(|filter| ExpressionBinder::new(self, &from.scope, "WHERE").condition(filter))
            .transpose()?;
        let windows = Windows {
            named: &select.named_window,
            ..Windows::default()
        };
        let outer_sets = self.sets.take();
        let listed = self.items_and_keys(select, &from.scope, (&calls, &windows), wanted);
        let sets = self.sets.replace(outer_sets);
        let (mut items, mut keys) = listed?;
        self.place_sets(sets, &mut from, &mut items, &mut keys.keys);
        let having = match &select.having {
            Some(having) => {
                let binder = ExpressionBinder::new(self, &from.scope, "HAVING");
                let binder = binder.with_aggregates(&calls).with_groupings(&windows.groupings);
                Some(binder.condition(having)?)
            }
            None => None,
        };
        from.query.terms.extend(filter);
        let distinct = matches!(select.distinct, Some(ast::Distinct::Distinct));
        if distinct {
            let mut items = items.iter();
            items.try_for_each(|item| self.check_comparable(&item.typed, Comparing::Equality))?;
        }
        let distinct_on = match &select.distinct {
            Some(ast::Distinct::On(exprs)) => exprs.as_slice(),
            _ => &[],
        };
        let grouped = Grouped {
            keys,
            having,
            calls,
            distinct,
            distinct_on,
            windows,
        };
        self.finish_select(tail, Some(grouped), from, items)
    }

    /// The select list, with the types that are wanted of it, and GROUP BY, which may name what it has.
    fn items_and_keys(
        &self,
        select: &ast::Select,
        scope: &Scope,
        (calls, windows): (&RefCell<Vec<AggregateCall>>, &Windows<'_>),
        wanted: &[DataType],
    ) -> Result<(Vec<Item>, GroupKeys)> {
        let mut items = self.select_list(&select.projection, scope, (calls, Some(windows)))?;
        for (item, wanted) in items.iter_mut().zip(wanted) {
            if self.type_of(&item.typed) == DataType::Unknown {
                let expr = self.coerce(item.typed.clone(), *wanted, CastContext::Assignment)?;
                item.typed = Typed::new(expr, *wanted);
            }
        }
        *self.unsettled.borrow_mut() = items
            .iter()
            .map(|item| self.type_of(&item.typed) == DataType::Unknown)
            .collect();
        for item in &mut items {
            item.typed = self.settle(item.typed.clone())?;
        }
        let keys = self.group_keys(&select.group_by, scope, &items, calls)?;
        Ok((items, keys))
    }

    fn select_list(
        &self,
        list: &[ast::SelectItem],
        scope: &Scope,
        (calls, windows): (&RefCell<Vec<AggregateCall>>, Option<&Windows<'_>>),
    ) -> Result<Vec<Item>> {
        let mut binder = ExpressionBinder::new(self, scope, "SELECT").with_aggregates(calls);
        if let Some(windows) = windows {
            binder = binder.with_windows(windows).with_groupings(&windows.groupings);
        }
        let mut items = Vec::with_capacity(list.len());
        for entry in list {
            let (array, alias) = match entry {
                ast::SelectItem::UnnamedExpr(expr) => (expanded(expr), None),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expanded(expr), Some(fold(alias))),
                _ => (None, None),
            };
            if let Some(array) = array {
                items.extend(binder.expanded_items(array, alias.as_deref())?);
                continue;
            }
            match entry {
                ast::SelectItem::UnnamedExpr(expr) => items.push(self.item(&binder, expr, None)?),
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    if alias.quote_style == Some('\'') {
                        let message = format!("syntax error at or near \"'{}'\"", alias.value);
                        return located(self, alias.span, Err(Error::new(SqlState::SYNTAX_ERROR, message)));
                    }
                    items.push(self.item(&binder, expr, Some(fold(alias)))?);
                }
                ast::SelectItem::Wildcard(_) if scope.relations.is_empty() => {
                    return Err(Error::new(
                        SqlState::SYNTAX_ERROR,
                        "SELECT * with no tables specified is not valid",
                    ));
                }
                ast::SelectItem::Wildcard(_) => items.extend(expand_all(scope)),
                ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let path = object_name(name)?;
                    let alias = path.last().map_or("", String::as_str);
                    match scope.relation_named(alias) {
                        Ok(relation) => items.extend(expand(scope, relation)),
                        Err(error) => items.extend(located(self, name.span(), self.outer_row(alias, error))?),
                    }
                }
                other => return Err(Error::unsupported(format!("{other} in a select list"))),
            }
        }
        if items.len() > TARGETS_MAX {
            return Err(Error::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("target lists can have at most {TARGETS_MAX} entries"),
            ));
        }
        Ok(items)
    }

    pub(super) fn item(&self, binder: &ExpressionBinder<'_>, expr: &ast::Expr, alias: Option<String>) -> Result<Item> {
        let typed = binder.bind(expr)?;
        let origin = match typed.expr {
            Expr::Column(global) if global < AGGREGATE_BASE => origin_of(binder.scope, global),
            _ => None,
        };
        Ok(Item {
            typed,
            name: alias.unwrap_or_else(|| column_name(expr)),
            origin,
        })
    }

    fn group_keys(
        &self,
        group_by: &ast::GroupByExpr,
        scope: &Scope,
        items: &[Item],
        calls: &RefCell<Vec<AggregateCall>>,
    ) -> Result<GroupKeys> {
        let ast::GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(Error::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"WITH\""));
        }
        let binder = ExpressionBinder::new(self, scope, "GROUP BY").with_aggregates(calls);
        let mut keys = GroupKeys::default();
        let mut place = |expr: &ast::Expr| -> Result<usize> {
            let item = match position_of(expr) {
                Some(position) => {
                    let item = usize::try_from(position)
                        .ok()
                        .and_then(|position| position.checked_sub(1));
                    let item = item.filter(|item| *item < items.len());
                    let item = item.ok_or_else(|| no_position("GROUP BY", position));
                    Some(located(self, expr.span(), item)?)
                }
                None => named_item(&binder, expr, items),
            };
            let (key, item) = match item {
                Some(item) => (items[item].typed.expr.clone(), Some(item)),
                None => {
                    let key = self.group_key(&binder, expr)?;
                    let item = items.iter().position(|item| item.typed.expr == key);
                    (key, item)
                }
            };
            Ok(keys.place(self.checked_key(expr, key)?, item))
        };
        let sets = match has_sets(exprs) {
            true => Some(sets_of(exprs, &mut place)?),
            false => {
                exprs.iter().try_for_each(|expr| place(expr).map(drop))?;
                None
            }
        };
        keys.sets = sets;
        Ok(keys)
    }

    fn group_key(&self, binder: &ExpressionBinder<'_>, expr: &ast::Expr) -> Result<Expr> {
        let typed = self.settle(binder.bind(expr)?)?;
        located(self, expr.span(), self.check_comparable(&typed, Comparing::Equality))?;
        Ok(typed.expr)
    }

    fn finish_select(
        &self,
        tail: &Tail<'_>,
        grouped: Option<Grouped<'_>>,
        mut from: From,
        items: Vec<Item>,
    ) -> Result<(BoundSelect, Vec<OutputColumn>)> {
        let mut grouped = grouped.unwrap_or_default();
        let output: Vec<OutputColumn> = items.iter().map(output_column).collect();
        let mut projection: Vec<Expr> = items.iter().map(|item| item.typed.expr.clone()).collect();
        let order_by = self.order_by(tail, &from.scope, &items, &grouped, &mut projection)?;
        let distinct_on = self.distinct_on(&from.scope, &items, &grouped, &order_by, &mut projection)?;
        let lock = self.row_lock(tail, &from, &grouped)?;
        let calls = grouped.calls.take();
        let mut windows = grouped.windows.calls.take();
        let mut having = grouped.having.take();
        let groupings = grouped.windows.groupings.take();
        let is_grouped = !grouped.keys.keys.is_empty() || grouped.keys.sets.is_some();
        let aggregated = is_grouped || !calls.is_empty() || having.is_some();
        let has_sets = grouped.keys.sets.is_some();
        if !has_sets {
            let all_keys: Vec<usize> = (0..grouped.keys.keys.len()).collect();
            projection
                .iter_mut()
                .chain(&mut having)
                .try_for_each(|expr| self.set_groupings(expr, &groupings, &grouped.keys.keys, &all_keys))?;
        }
        let mut sets_above = None;
        let aggregate = if has_sets {
            None
        } else if aggregated {
            sets_above = sets_above_groups(&mut from.query, &mut grouped.keys.keys, projection.iter_mut())?;
            let mut grouping = Grouping::new(self, &from.scope, grouped.keys.keys.clone());
            let of_windows = windows.iter().flat_map(WindowBound::expressions);
            let of_sets = sets_above.iter().flat_map(|sets| sets.relation.outer_expressions());
            grouping.add_determined(projection.iter().chain(&having).chain(of_windows).chain(of_sets));
            let of_windows = windows.iter_mut().flat_map(WindowBound::expressions_mut);
            let of_sets = sets_above
                .iter_mut()
                .flat_map(|sets| sets.relation.outer_expressions_mut());
            projection
                .iter_mut()
                .chain(&mut having)
                .chain(of_windows)
                .chain(of_sets)
                .try_for_each(|expr| grouping.rewrite(expr))?;
            if let Some(sets) = &mut sets_above {
                place_above_groups(sets, grouping.keys().len() + calls.len(), projection.iter_mut());
            }
            Some(grouping.into_plan(calls.clone(), having.take()))
        } else {
            None
        };
        let (limit, offset) = self.limits(tail)?;
        let parts = SelectParts {
            aggregate,
            projection,
            distinct: grouped.distinct,
            visible: output.len(),
            order_by,
            limit,
            offset,
            lock,
        };
        let is_layered = !windows.is_empty() || sets_above.is_some();
        let mut select = match is_layered {
            _ if has_sets => {
                let own = SetParts {
                    scope: &from.scope,
                    query: from.query,
                    calls,
                    having,
                    groupings,
                    types: items.iter().map(type_of_item).collect(),
                };
                match is_layered {
                    true => self.windows_over_sets(own, grouped.keys, parts, &windows)?,
                    false => self.over_sets(&own, &grouped.keys, parts)?,
                }
            }
            true => {
                // Where there are groups, those that are left below make their keys.
                let above = match aggregated {
                    true => sets_above,
                    false => from.query.relations.pop_if(|last| last.is_of_select_list()),
                };
                self.over_windows((from.query, above), parts, windows)?
            }
            false => BoundSelect {
                query: from.query,
                parts,
            },
        };
        match (distinct_on.is_empty(), tail.has_ties()) {
            (true, false) => select = computed_in_order(select),
            (true, true) => select = with_ties(select)?,
            (false, has_ties) => {
                select = distinct_on_of(select, distinct_on);
                select = if has_ties { with_ties(select)? } else { select };
            }
        }
        Ok((select, output))
    }

    /// The columns of DISTINCT ON, found as those of ORDER BY are, which has to begin with them.
    fn distinct_on(
        &self,
        scope: &Scope,
        items: &[Item],
        grouped: &Grouped<'_>,
        order_by: &[SortKey],
        projection: &mut Vec<Expr>,
    ) -> Result<Vec<usize>> {
        let binder = ExpressionBinder::new(self, scope, "DISTINCT ON")
            .with_aggregates(&grouped.calls)
            .with_groupings(&grouped.windows.groupings)
            .with_windows(&grouped.windows);
        let mut columns = Vec::with_capacity(grouped.distinct_on.len());
        for expr in grouped.distinct_on {
            let column = self.order_column(&binder, expr, items, false, projection)?;
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        let different = |column: &usize| !columns.contains(column);
        let ordered: Vec<usize> = order_by.iter().map(|key| key.column).collect();
        let begins_otherwise = ordered.iter().take_while(|column| !different(column)).count();
        let rest_has_more = ordered[begins_otherwise..].iter().any(|column| !different(column));
        let is_incomplete = begins_otherwise < ordered.len() && columns.iter().any(|column| !ordered.contains(column));
        if rest_has_more || is_incomplete {
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            let error = Error::new(SqlState::INVALID_COLUMN_REFERENCE, message);
            return match grouped.distinct_on.first() {
                Some(first) => located(self, first.span(), Err(error)),
                None => Err(error),
            };
        }
        Ok(columns)
    }

    /// ORDER BY over the projection, which grows by what is not in the select list.
    fn order_by(
        &self,
        tail: &Tail<'_>,
        scope: &Scope,
        items: &[Item],
        grouped: &Grouped<'_>,
        projection: &mut Vec<Expr>,
    ) -> Result<Vec<SortKey>> {
        let Some(order_by) = tail.order_by else {
            return Ok(Vec::new());
        };
        let ast::OrderByKind::Expressions(exprs) = &order_by.kind else {
            return Err(Error::unsupported("ORDER BY ALL"));
        };
        let binder = ExpressionBinder::new(self, scope, "ORDER BY")
            .with_aggregates(&grouped.calls)
            .with_groupings(&grouped.windows.groupings)
            .with_windows(&grouped.windows);
        let mut keys: Vec<SortKey> = Vec::with_capacity(exprs.len());
        for (expr, (descending, nulls_first)) in sort_parts(exprs)? {
            let column = self.order_column(&binder, &expr, items, grouped.distinct, projection)?;
            if let Some(item) = items.get(column) {
                let compared = self.check_comparable(&item.typed, Comparing::Order);
                located(self, expr.span(), compared)?;
            }
            if !keys.iter().any(|key| key.column == column) {
                keys.push(SortKey {
                    column,
                    descending,
                    nulls_first,
                });
            }
        }
        Ok(keys)
    }

    fn order_column(
        &self,
        binder: &ExpressionBinder<'_>,
        expr: &ast::Expr,
        items: &[Item],
        distinct: bool,
        projection: &mut Vec<Expr>,
    ) -> Result<usize> {
        if let Some(position) = position_of(expr) {
            let index = usize::try_from(position)
                .ok()
                .and_then(|position| position.checked_sub(1));
            let index = index.filter(|index| *index < items.len());
            return located(
                self,
                expr.span(),
                index.ok_or_else(|| no_position("ORDER BY", position)),
            );
        }
        if let ast::Expr::Value(value) = expr
            && !matches!(value.value, ast::Value::Placeholder(_))
        {
            let error = Error::new(SqlState::SYNTAX_ERROR, "non-integer constant in ORDER BY");
            return located(self, expr.span(), Err(error));
        }
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold(ident);
            let mut named = items.iter().enumerate().filter(|(_, item)| item.name == name);
            if let Some((index, first)) = named.next() {
                if named.any(|(_, other)| other.typed.expr != first.typed.expr) {
                    let error = Error::new(SqlState::AMBIGUOUS_COLUMN, format!("ORDER BY \"{name}\" is ambiguous"));
                    return located(self, ident.span, Err(error));
                }
                return Ok(index);
            }
        }
        let typed = self.settle(binder.bind(expr)?)?;
        located(self, expr.span(), self.check_comparable(&typed, Comparing::Order))?;
        let key = typed.expr;
        if let Some(index) = projection.iter().position(|existing| *existing == key) {
            return Ok(index);
        }
        if distinct {
            let error = Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
            );
            return located(self, expr.span(), Err(error));
        }
        projection.push(key);
        Ok(projection.len() - 1)
    }

    /// RETURNING over `scope`.
    pub(super) fn returning(
        &self,
        list: Option<&Vec<ast::SelectItem>>,
        scope: &Scope,
    ) -> Result<(Option<Vec<Expr>>, Vec<OutputColumn>)> {
        let Some(list) = list else {
            return Ok((None, Vec::new()));
        };
        let calls = RefCell::new(Vec::new());
        let mut items = self.select_list(list, scope, (&calls, None))?;
        if !self.sets.take().is_empty() {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "set-returning functions are not allowed in RETURNING",
            ));
        }
        if !calls.borrow().is_empty() {
            return Err(Error::new(
                SqlState::GROUPING_ERROR,
                "aggregate functions are not allowed in RETURNING",
            ));
        }
        for item in &mut items {
            item.typed = self.settle(item.typed.clone())?;
        }
        let output = items.iter().map(output_column).collect();
        let mut exprs: Vec<Expr> = items.into_iter().map(|item| item.typed.expr).collect();
        exprs
            .iter_mut()
            .try_for_each(|expr| self.asked_before(expr, "RETURNING"))?;
        Ok((Some(exprs), output))
    }
}

/// A lock clause whose `steps` are still places in FROM.
/// What a SELECT says beside its list, FROM and WHERE.
#[derive(Default)]
pub(super) struct Grouped<'q> {
    pub(super) keys: GroupKeys,
    having: Option<Expr>,
    pub(super) calls: RefCell<Vec<AggregateCall>>,
    pub(super) distinct: bool,
    pub(super) distinct_on: &'q [ast::Expr],
    pub(super) windows: Windows<'q>,
}

fn refuse_select_parts(select: &ast::Select) -> Result<()> {
    if select.into.is_some() {
        return Err(Error::unsupported("SELECT INTO").with_hint("Use CREATE TABLE and INSERT ... SELECT."));
    }
    if !select.lateral_views.is_empty() || select.top.is_some() || select.prewhere.is_some() || select.qualify.is_some()
    {
        return Err(Error::new(
            SqlState::SYNTAX_ERROR,
            "syntax error: a clause that PostgreSQL does not have",
        ));
    }
    Ok(())
}

fn type_of_item(item: &Item) -> ColumnType {
    ColumnType {
        data_type: item.typed.data_type,
        modifier: item.typed.modifier,
    }
}

fn output_column(item: &Item) -> OutputColumn {
    OutputColumn {
        name: item.name.clone(),
        data_type: item.typed.data_type,
        modifier: item.typed.modifier,
        table: item.origin.map(|(table, _)| table),
        column_number: item.origin.map_or(0, |(_, number)| number),
        told_type: None,
    }
}

fn origin_of(scope: &Scope, global: usize) -> Option<(TableId, i16)> {
    let (relation, column) = scope.column(global)?;
    match &relation.table {
        Some(table) => Some((TableId(table.oid), i16::try_from(column + 1).unwrap_or(0))),
        None => relation.told_as.get(column).copied().flatten(),
    }
}

fn expand_all(scope: &Scope) -> Vec<Item> {
    let places = scope.visible_from(0);
    places.into_iter().map(|place| item_of_column(scope, place)).collect()
}

/// The columns that `alias.*` stands for.
fn expand(scope: &Scope, relation: usize) -> Vec<Item> {
    let columns = expanded_columns(scope, relation).into_iter();
    columns
        .map(|(index, _)| item_of_column(scope, (relation, index)))
        .collect()
}

/// Their places in the relation, and their names.
pub(super) fn expanded_columns(scope: &Scope, relation: usize) -> Vec<(usize, String)> {
    let columns = scope.relations[relation].columns.iter().enumerate();
    columns
        .filter(|(_, column)| matches!(column.hidden, Hidden::No | Hidden::Merged))
        .map(|(index, column)| (index, column.name.clone()))
        .collect()
}

fn item_of_column(scope: &Scope, (relation, index): (usize, usize)) -> Item {
    let source = &scope.relations[relation];
    let column = &source.columns[index];
    Item {
        typed: Typed {
            expr: scope.value_of(source.global(index)),
            data_type: column.column_type.data_type,
            modifier: column.column_type.modifier,
            span: sqlparser::tokenizer::Span::empty(),
        },
        name: column.name.clone(),
        origin: origin_of(scope, source.global(index)),
    }
}

/// The place in the select list that a name in GROUP BY stands for, where no column of FROM has it.
fn named_item(binder: &ExpressionBinder<'_>, expr: &ast::Expr, items: &[Item]) -> Option<usize> {
    let ast::Expr::Identifier(ident) = expr else {
        return None;
    };
    let name = fold(ident);
    let is_column = binder.scope.find(None, &name).is_ok();
    items.iter().position(|item| !is_column && item.name == name)
}

/// The number in `ORDER BY 2` and `GROUP BY 2`.
fn position_of(expr: &ast::Expr) -> Option<i64> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        ast::Expr::Nested(inner) => position_of(inner),
        ast::Expr::UnaryOp { op, expr } if *op == ast::UnaryOperator::Minus => position_of(expr)?.checked_neg(),
        _ => None,
    }
}

fn no_position(clause: &str, position: i64) -> Error {
    Error::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        format!("{clause} position {position} is not in select list"),
    )
}

/// Whether a query is VALUES alone, as INSERT reads it.
pub(super) fn insert_values(query: &ast::Query) -> Option<&ast::Values> {
    plain_values(query)
}
