//! What is made of a row and kept: generated columns, expressions of indexes, predicates of partial ones.

use super::create::Definition;
use super::dml::find_column;
use super::expression::ExpressionBinder;
use super::scope::Scope;
use super::typed::Typed;
use super::{Context, located};
use crate::catalog::{Column, KeyExpression, ReferentialAction, RowExpression, Table};
use crate::parser::syntax::fold;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState};
use rubato_formula::{Expr, Volatility};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// What is kept must be the same whenever it is made.
const NOT_IMMUTABLE: SqlState = SqlState(*b"42P17");

impl Context<'_> {
    /// The value of a generated column. 42P17 unless it depends on nothing but other columns of the row.
    pub(super) fn generated(&self, expr: &ast::Expr, table: &Table, column: &Column) -> Result<RowExpression> {
        let (table, scope) = scope_of(table);
        let typed = ExpressionBinder::new(self, &scope, "column generation expressions").bind(expr)?;
        let assigned = self.assign_default(typed, &column.name, column.column_type);
        let value = RowExpression::new(located(self, expr.span(), assigned)?.fold_constants());
        if let Some((number, _)) = table.generated_columns().find(|(number, _)| value.reads(*number)) {
            let name = &table.columns[number].name;
            let message = format!("cannot use generated column \"{name}\" in column generation expression");
            let error = Error::new(NOT_IMMUTABLE, message)
                .with_detail("A generated column cannot reference another generated column.");
            return Err(error.with_position(self.noted_position(number)));
        }
        must_be_immutable(&value.expr, "generation expression is not immutable")?;
        Ok(value)
    }

    /// `typed` as a value that the catalog keeps for a column. 42804 where it does not become one by itself.
    pub(super) fn assign_default(&self, typed: Typed, column: &str, column_type: ColumnType) -> Result<Expr> {
        let from = self.type_of(&typed);
        self.assign(typed, column, column_type)
            .map_err(|error| match error.code() {
                SqlState::DATATYPE_MISMATCH => Error::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "column \"{column}\" is of type {} but default expression is of type {from}",
                        column_type.data_type
                    ),
                )
                .with_hint("You will need to rewrite or cast the expression."),
                _ => error,
            })
    }

    /// The WHERE of CREATE INDEX.
    pub(super) fn index_predicate(&self, expr: &ast::Expr, table: &Table) -> Result<RowExpression> {
        let (_, scope) = scope_of(table);
        let typed = ExpressionBinder::new(self, &scope, "index predicates").bind(expr)?;
        let condition = located(self, expr.span(), self.condition(typed, "WHERE"))?.fold_constants();
        must_be_immutable(&condition, "functions in index predicate must be marked IMMUTABLE")?;
        Ok(RowExpression::new(condition))
    }

    /// An expression of CREATE INDEX or ON CONFLICT.
    pub(super) fn key_expression(&self, expr: &ast::Expr, table: &Table) -> Result<KeyExpression> {
        let (_, scope) = scope_of(table);
        let typed = ExpressionBinder::new(self, &scope, "index expressions").bind(expr)?;
        let typed = self.settle(typed)?;
        let column_type = ColumnType {
            data_type: typed.data_type,
            modifier: typed.modifier,
        };
        let value = typed.expr.fold_constants();
        must_be_immutable(&value, "functions in index expression must be marked IMMUTABLE")?;
        Ok(KeyExpression {
            value: RowExpression::new(value),
            column_type,
        })
    }
}

impl Definition<'_, '_> {
    /// The value of a column that is generated, once all columns are known.
    pub fn generated_column(&mut self, definition: &ast::ColumnDef) -> Result<()> {
        let expr = definition.options.iter().find_map(|option| match &option.option {
            ast::ColumnOption::Generated { generation_expr, .. } => generation_expr.as_ref(),
            _ => None,
        });
        let Some(expr) = expr else { return Ok(()) };
        let place = find_column(&self.table, &fold(&definition.name))?;
        let value = self.context.generated(expr, &self.table, &self.table.columns[place])?;
        self.table.columns[place].generated = Some(value);
        Ok(())
    }

    /// 42601 where a foreign key would give a generated column another value.
    pub fn refuse_actions_on_generated(
        &self,
        columns: &[usize],
        on_update: ReferentialAction,
        on_delete: ReferentialAction,
    ) -> Result<()> {
        use ReferentialAction::{Cascade, SetDefault, SetNull};
        let event = match (on_update, on_delete) {
            (Cascade | SetNull | SetDefault, _) => "ON UPDATE",
            (_, SetNull | SetDefault) => "ON DELETE",
            _ => return Ok(()),
        };
        if !columns
            .iter()
            .any(|column| self.table.columns[*column].generated.is_some())
        {
            return Ok(());
        }
        let message = format!("invalid {event} action for foreign key constraint containing generated column");
        Err(Error::new(SqlState::SYNTAX_ERROR, message))
    }

    /// The number by which a key names an expression; a column in brackets is just that column.
    pub fn key_of_expression(&mut self, expr: &ast::Expr) -> Result<usize> {
        let own = self.context.key_expression(expr, &self.table)?;
        if let Expr::Column(column) = own.value.expr {
            return Ok(column);
        }
        super::json::check_indexable(own.column_type.data_type)?;
        if own.column_type.data_type == DataType::Interval {
            return Err(Error::unsupported("a key over an expression of type interval"));
        }
        let known = self.table.expressions.iter().position(|known| *known == own);
        let place = known.unwrap_or(self.table.expressions.len());
        if known.is_none() {
            self.table.expressions.push(own);
        }
        Ok(KeyExpression::FIRST + place)
    }
}

fn scope_of(table: &Table) -> (Arc<Table>, Scope) {
    let table = Arc::new(table.clone());
    let scope = Scope::of_table(&table, &table.name);
    (table, scope)
}

fn must_be_immutable(expr: &Expr, message: &str) -> Result<()> {
    match expr.volatility() {
        Volatility::Immutable | Volatility::Shown => Ok(()),
        _ => Err(Error::new(NOT_IMMUTABLE, message)),
    }
}
