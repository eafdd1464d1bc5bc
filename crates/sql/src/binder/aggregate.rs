//! GROUP BY: what stands above the grouping may only speak of keys and aggregates.

use super::expression::{AGGREGATE_BASE, WINDOW_BASE};
use super::list_sets::{LIST_ALIAS, is_set};
use super::scope::Scope;
use super::{Context, located};
use crate::plan::{AggregateCall, AggregatePlan};
use rubato_base::{Error, Result, SqlState};
use rubato_formula::Expr;

/// Rewrites expressions over joined tuples to expressions over groups.
pub(super) struct Grouping<'a> {
    context: &'a Context<'a>,
    scope: &'a Scope,
    keys: Vec<Expr>,
}

impl<'a> Grouping<'a> {
    /// A grouping by `keys`. Columns of a table whose whole primary key is among the keys are determined by it, and become keys
    /// themselves where they are used.
    pub fn new(context: &'a Context<'a>, scope: &'a Scope, keys: Vec<Expr>) -> Grouping<'a> {
        let mut unique: Vec<Expr> = Vec::new();
        for key in keys {
            if !unique.contains(&key) {
                unique.push(key);
            }
        }
        Grouping {
            context,
            scope,
            keys: unique,
        }
    }

    /// Adds the columns that `exprs` use and the keys determine.
    pub fn add_determined<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>) {
        for expr in exprs {
            self.add_determined_of(expr);
        }
    }

    fn add_determined_of(&mut self, expr: &Expr) {
        if self.keys.contains(expr) {
            return;
        }
        if let Expr::Column(global) = expr {
            if *global < AGGREGATE_BASE && self.is_determined(*global) {
                self.keys.push(expr.clone());
            }
            return;
        }
        let mut children = Vec::new();
        expr.for_each_child(&mut |child| children.push(child));
        children.into_iter().for_each(|child| self.add_determined_of(child));
    }

    fn is_determined(&self, global: usize) -> bool {
        let Some((relation, _)) = self.scope.column(global) else {
            return false;
        };
        let Some(table) = &relation.table else { return false };
        let is_key = |column: &usize| self.keys.contains(&Expr::Column(relation.first + column));
        !table.primary_key.is_empty() && table.primary_key.iter().all(is_key)
    }

    /// What is grouped by, each once.
    pub fn keys(&self) -> &[Expr] {
        &self.keys
    }

    /// `expr` over the group's tuple: keys first, then aggregates. 42803 if it reads a column that has no single value in a group.
    pub fn rewrite(&self, expr: &mut Expr) -> Result<()> {
        if let Some(key) = self.keys.iter().position(|key| key == expr) {
            *expr = Expr::Column(key);
            return Ok(());
        }
        if let Expr::Column(global) = expr {
            if *global >= WINDOW_BASE || is_set(*global) {
                return Ok(());
            }
            if *global >= AGGREGATE_BASE {
                *global = self.keys.len() + *global - AGGREGATE_BASE;
                return Ok(());
            }
            return Err(self.ungrouped(*global));
        }
        let mut result = Ok(());
        let asks = matches!(expr, Expr::Subquery { .. });
        expr.for_each_child_mut(&mut |child| {
            if result.is_ok() {
                let column = if let Expr::Column(global) = child {
                    Some(*global)
                } else {
                    None
                };
                result = self.rewrite(child).map_err(|error| match column {
                    Some(global) if asks => self.ungrouped_within(global),
                    _ => error,
                });
            }
        });
        result
    }

    fn name_of(&self, global: usize) -> String {
        match self.scope.column(global) {
            Some((relation, column)) if relation.alias.is_empty() => relation.columns[column].name.clone(),
            Some((relation, column)) => format!("{}.{}", relation.alias, relation.columns[column].name),
            None => "?".to_owned(),
        }
    }

    /// A query within refers to a column that is not grouped by.
    fn ungrouped_within(&self, global: usize) -> Error {
        let name = self.name_of(global);
        Error::new(
            SqlState::GROUPING_ERROR,
            format!("subquery uses ungrouped column \"{name}\" from outer query"),
        )
    }

    fn ungrouped(&self, global: usize) -> Error {
        if self
            .scope
            .column(global)
            .is_some_and(|(relation, _)| relation.alias == LIST_ALIAS)
        {
            return Error::unsupported("a set-returning function beside grouping sets that is no key of them")
                .with_hint("Aggregate in a query in FROM, and call the function beside its columns.");
        }
        let name = self.name_of(global);
        Error::new(
            SqlState::GROUPING_ERROR,
            format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"),
        )
        .with_position(self.context.noted_position(global))
    }

    /// The finished aggregation.
    pub fn into_plan(self, calls: Vec<AggregateCall>, having: Option<Expr>) -> AggregatePlan {
        AggregatePlan {
            keys: self.keys,
            calls,
            having,
        }
    }
}

/// Refuses aggregates in a group key.
pub(super) fn check_key(context: &Context<'_>, span: sqlparser::tokenizer::Span, key: &Expr) -> Result<()> {
    let mut aggregated = false;
    key.for_each_column(&mut |column| aggregated |= column >= AGGREGATE_BASE && !is_set(column));
    let result = match aggregated {
        true => Err(Error::new(
            SqlState::GROUPING_ERROR,
            "aggregate functions are not allowed in GROUP BY",
        )),
        false => Ok(()),
    };
    located(context, span, result)
}
