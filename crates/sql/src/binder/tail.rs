//! What stands behind the body of a query: order, limits and locks.

use super::expression::ExpressionBinder;
use super::scope::Scope;
use super::{Context, located};
use rubato_base::{DataType, Error, Result, SqlState};
use rubato_formula::{CastContext, Expr};
use sqlparser::ast::{self, Spanned};
use std::borrow::Cow;

/// What stands behind the body of a query.
#[derive(Default)]
pub(super) struct Tail<'q> {
    pub order_by: Option<&'q ast::OrderBy>,
    pub limit_clause: Option<&'q ast::LimitClause>,
    pub fetch: Option<&'q ast::Fetch>,
    pub locks: &'q [ast::LockClause],
}

impl<'q> Tail<'q> {
    pub fn of(query: &'q ast::Query) -> Tail<'q> {
        Tail {
            order_by: query.order_by.as_ref(),
            limit_clause: query.limit_clause.as_ref(),
            fetch: query.fetch.as_ref(),
            locks: &query.locks,
        }
    }

    /// 42601 if the query in brackets has the same clause.
    pub fn refuse_twice(&self, inner: &ast::Query) -> Result<()> {
        let inner_tail = Tail::of(inner);
        let limits = |tail: &Tail<'_>| match tail.limit_clause {
            Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.is_some() || tail.fetch.is_some(), offset.is_some())
            }
            _ => (tail.fetch.is_some(), false),
        };
        let (own, other) = (limits(self), limits(&inner_tail));
        let twice = [
            ("ORDER BY", self.order_by.is_some() && inner_tail.order_by.is_some()),
            ("OFFSET", own.1 && other.1),
            ("LIMIT", own.0 && other.0),
        ];
        match twice.into_iter().find(|clause| clause.1) {
            Some((clause, _)) => {
                let message = format!("multiple {clause} clauses not allowed");
                Err(Error::new(SqlState::SYNTAX_ERROR, message))
            }
            None => Ok(()),
        }
    }

    /// WITH TIES.
    pub fn has_ties(&self) -> bool {
        self.fetch.is_some_and(|fetch| fetch.with_ties)
    }

    pub fn is_empty(&self) -> bool {
        self.order_by.is_none() && self.limit_clause.is_none() && self.fetch.is_none() && self.locks.is_empty()
    }
}

/// 0A000 for what only other databases have, and for locks on rows that ties decide about.
pub(super) fn refuse_query_parts(query: &ast::Query) -> Result<()> {
    let Some(fetch) = &query.fetch else { return Ok(()) };
    if fetch.percent {
        return Err(Error::unsupported("FETCH FIRST ... PERCENT"));
    }
    if fetch.with_ties && !query.locks.is_empty() {
        return Err(Error::unsupported("FOR UPDATE with FETCH FIRST ... WITH TIES"));
    }
    Ok(())
}

impl Context<'_> {
    /// LIMIT (or FETCH) and OFFSET, over parameters only.
    pub(super) fn limits(&self, tail: &Tail<'_>) -> Result<(Option<Expr>, Option<Expr>)> {
        let (mut limit, mut offset) = (None, None);
        match tail.limit_clause {
            None => {}
            Some(ast::LimitClause::LimitOffset {
                limit: count,
                offset: skip,
                limit_by,
            }) => {
                if !limit_by.is_empty() {
                    return Err(Error::unsupported("LIMIT BY"));
                }
                limit = count.as_ref();
                offset = skip.as_ref().map(|skip| &skip.value);
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                    .with_hint("Use separate LIMIT and OFFSET clauses."));
            }
        }
        let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
        if let Some(fetch) = tail.fetch {
            if fetch.with_ties && fetch.quantity.as_ref().is_some_and(is_null) {
                let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
                return Err(Error::new(SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, message));
            }
            // A count in brackets in front of WITH TIES is read as that of a LIMIT.
            limit = fetch.quantity.as_ref().or(limit).or(Some(&one));
        }
        let bind = |expr: Option<&ast::Expr>, clause| expr.map(|expr| self.limit(expr, clause)).transpose();
        Ok((bind(limit, "LIMIT")?, bind(offset, "OFFSET")?))
    }

    fn limit(&self, expr: &ast::Expr, clause: &'static str) -> Result<Expr> {
        let empty = Scope::default();
        let typed = ExpressionBinder::new(self, &empty, clause).bind(expr)?;
        let coerced = self.coerce(typed, DataType::Int8, CastContext::Assignment);
        let mut limit = located(self, expr.span(), coerced)?;
        self.asked_before(&mut limit, clause)?;
        Ok(limit)
    }
}

fn is_null(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(value) if value.value == ast::Value::Null)
}

/// DESC and NULLS FIRST of a sort item.
pub(super) fn direction(options: &ast::OrderByOptions) -> Result<(bool, bool)> {
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(ast::OrderBySort::Using(operator)) => is_largest_first(operator)?,
    };
    Ok((descending, options.nulls_first.unwrap_or(descending)))
}

/// Whether the operator of `ORDER BY a USING operator` puts the largest value first. 42809 for one that orders nothing.
fn is_largest_first(operator: &ast::ObjectName) -> Result<bool> {
    match operator.0.last().map(ToString::to_string).as_deref() {
        Some("<") => Ok(false),
        Some(">") => Ok(true),
        _ => {
            let message = format!("operator {operator} is not a valid ordering operator");
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_hint("Ordering operators must be \"<\" or \">\" members of btree operator families."))
        }
    }
}

/// The columns of a row that is sorted or grouped by, since rows compare column by column; anything else as it is. A column of a row means
/// what it means in an expression: the name of no output, and no number of one.
pub(super) fn parts_of_row(expr: &ast::Expr) -> Vec<Cow<'_, ast::Expr>> {
    match expr {
        ast::Expr::Tuple(columns) => {
            let columns = columns.iter().cloned();
            columns
                .map(|own| Cow::Owned(ast::Expr::Nested(Box::new(own))))
                .collect()
        }
        ast::Expr::Nested(inner) if matches!(**inner, ast::Expr::Tuple(_)) => parts_of_row(inner),
        _ => vec![Cow::Borrowed(expr)],
    }
}

/// What ORDER BY lists, and whether each is descending and whether NULL comes first. NULL within a row is the largest value, whatever is said
/// of rows that are NULL.
pub(super) fn sort_parts(listed: &[ast::OrderByExpr]) -> Result<Vec<(Cow<'_, ast::Expr>, (bool, bool))>> {
    let mut parts = Vec::with_capacity(listed.len());
    for entry in listed {
        let (descending, nulls_first) = direction(&entry.options)?;
        for part in parts_of_row(&entry.expr) {
            let nulls_first = match &part {
                Cow::Owned(_) => descending,
                Cow::Borrowed(_) => nulls_first,
            };
            parts.push((part, (descending, nulls_first)));
        }
    }
    Ok(parts)
}
