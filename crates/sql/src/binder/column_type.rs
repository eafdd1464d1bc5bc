//! ALTER COLUMN TYPE: what becomes of the values, of the default and of the checks.

use super::expression::ExpressionBinder;
use super::named_literals::with_sequences;
use super::scope::Scope;
use super::typed::Typed;
use super::{Context, located};
use crate::catalog::{Check, Column, Domain, RowExpression, Sequence, Table};
use crate::parser::syntax::{Source, parse_expressions};
use crate::statement::AlterAction;
use crate::system_tables::written_with_schema;
use rubato_base::{ColumnSet, ColumnType, DataType, Error, Result, SqlState};
use rubato_formula::{CastContext, Expr, can_cast};
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;
use std::sync::Arc;

impl Context<'_> {
    /// Changes the column in `table`, which is as the statement has made it so far, and says what is to be done.
    pub(super) fn alter_type(
        &self,
        (data_type, using): (&ast::DataType, Option<&ast::Expr>),
        table: &mut Table,
        column: usize,
        before: &[AlterAction],
    ) -> Result<AlterAction> {
        let is_same =
            |action: &AlterAction| matches!(action, AlterAction::AlterType { column: other, .. } if *other == column);
        if before.iter().any(is_same) {
            let message = format!("cannot alter type of column \"{}\" twice", table.columns[column].name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let domain = self.domain(data_type)?;
        let column_type = match &domain {
            Some(domain) => domain.column_type,
            None => self.bind_type(data_type)?,
        };
        let conversion = self.conversion(using, table, column, (column_type, domain.as_deref()))?;
        let default = self.converted_default(table, column, column_type)?;
        let definition = &mut table.columns[column];
        definition.column_type = column_type;
        definition.default.clone_from(&default);
        definition.domain = domain.as_ref().map(|domain| domain.key());
        Ok(AlterAction::AlterType {
            column,
            column_type,
            domain: definition.domain.clone(),
            conversion,
            default,
        })
    }

    /// What becomes of the values; `None` if they stay as they are. Rows are as they were before the statement.
    fn conversion(
        &self,
        using: Option<&ast::Expr>,
        table: &Table,
        column: usize,
        (to, domain): (ColumnType, Option<&Domain>),
    ) -> Result<Option<Expr>> {
        let has_rules = domain.is_some_and(|domain| domain.rules().next().is_some());
        let known = self.catalog.tables.get(&table.key());
        let rows = match known.filter(|known| column < known.columns.len()) {
            Some(known) => Arc::clone(known),
            None => Arc::new(table.clone()),
        };
        let own = &rows.columns[column];
        let scope = Scope::of_table(&rows, &rows.name);
        if using.is_some() && own.generated.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{}\" is a generated column.", own.name);
            return Err(Error::new(SqlState::INVALID_COLUMN_DEFINITION, message).with_detail(detail));
        }
        let (typed, hint) = match using {
            Some(using) => {
                let binder = ExpressionBinder::new(self, &scope, "transform expressions");
                (
                    binder.bind(using)?,
                    "You might need to add an explicit cast.".to_owned(),
                )
            }
            None if !has_rules && own.generated.is_none() && keeps_values(own.column_type, to) => return Ok(None),
            None => {
                let typed = Typed {
                    expr: Expr::Column(column),
                    data_type: own.column_type.data_type,
                    modifier: own.column_type.modifier,
                    span: Span::empty(),
                };
                let name = crate::system_tables::quoted(&own.name);
                (typed, format!("You might need to specify \"USING {name}::{to}\"."))
            }
        };
        let from = self.type_of(&typed);
        if from != DataType::Unknown && !can_cast(from, to.data_type, CastContext::Assignment) {
            let what = match using {
                Some(_) => "result of USING clause for column",
                None => "column",
            };
            let wanted = match domain {
                Some(domain) => self.path.written_type(&domain.key(), self.catalog),
                None => to.data_type.to_string(),
            };
            let message = format!("{what} \"{}\" cannot be cast automatically to type {wanted}", own.name);
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint));
        }
        if let Some(generated) = &own.generated {
            return self.regenerated(own, &generated.expr, to).map(Some);
        }
        let span = using.map_or(Span::empty(), Spanned::span);
        let expr = located(self, span, self.assign(typed, &own.name, to))?;
        let value = match domain {
            None => expr,
            Some(domain) => {
                let (data_type, modifier) = (to.data_type, to.modifier);
                let typed = Typed {
                    expr,
                    data_type,
                    modifier,
                    span,
                };
                self.checked_by_domain(typed, domain)?.expr
            }
        };
        Ok(Some(value.fold_constants()))
    }

    /// What a generated column is made of, as a value of its new type. 42804 where it does not become one by itself.
    fn regenerated(&self, own: &Column, expr: &Expr, to: ColumnType) -> Result<Expr> {
        // What it was cast to for the column is not cast once more.
        let (expr, from) = match expr {
            Expr::Cast {
                operand,
                from,
                explicit: false,
                ..
            } => (&**operand, ColumnType::plain(*from)),
            expr => (expr, own.column_type),
        };
        if !can_cast(from.data_type, to.data_type, CastContext::Assignment) {
            let message = format!(
                "generation expression for column \"{}\" cannot be cast automatically to type {}",
                own.name, to.data_type
            );
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let typed = Typed {
            expr: expr.clone(),
            data_type: from.data_type,
            modifier: from.modifier,
            span: Span::empty(),
        };
        self.assign(typed, &own.name, to).map(Expr::fold_constants)
    }

    /// The column's default as a value of its new type. 42804 where it does not become one by itself.
    fn converted_default(&self, table: &Table, column: usize, to: ColumnType) -> Result<Option<Expr>> {
        let own = &table.columns[column];
        if own.identity_always.is_some() && !to.data_type.is_integer() {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let (Some(_), Some(text)) = (&own.default, &own.default_text) else {
            return Ok(own.default.clone());
        };
        if !can_cast(own.column_type.data_type, to.data_type, CastContext::Assignment) {
            let message = format!(
                "default for column \"{}\" cannot be cast automatically to type {}",
                own.name, to.data_type
            );
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        // From its text, so that what it was cast to before is not cast once more.
        let written = |sequence: &Sequence| written_with_schema(self.catalog, &sequence.key());
        let text = match &own.default {
            Some(default) => &with_sequences(text, default, self.catalog, &written),
            None => text,
        };
        let bound = self.stored(text, |context, expr| context.column_default(expr, &own.name, to));
        bound.map(|(default, _)| default)
    }

    /// The checks that read columns to which the actions have given another type, bound again for the table as it is in the end.
    pub(super) fn checks_again(
        &self,
        before: &Arc<Table>,
        table: Table,
        actions: &[AlterAction],
    ) -> Result<Vec<Check>> {
        let retyped = actions.iter().filter_map(|action| match action {
            AlterAction::AlterType { column, .. } => Some(*column),
            _ => None,
        });
        let retyped: ColumnSet = retyped.collect();
        let table = Arc::new(table);
        let reading = table.checks.iter().filter(|check| {
            // What a domain says goes with the type.
            check.domain.is_none() && check.columns.intersects(retyped)
        });
        let bound = reading.map(|check| {
            let known = before.checks.iter().find(|known| known.name == check.name);
            // The text names columns as they were called when it was written.
            let says_the_same = |known: &Check| {
                let condition = self.stored_condition(before, known);
                condition.is_ok_and(|condition| condition == known.condition)
            };
            if !known.is_none_or(says_the_same) {
                return Err(renamed(check));
            }
            let condition = self.stored_condition(&table, check)?;
            Ok(Check {
                name: check.name.clone(),
                columns: condition.columns(),
                condition,
                text: check.text.clone(),
                is_valid: check.is_valid,
                domain: None,
                option_of: None,
            })
        });
        bound.collect()
    }

    /// What indexes hold of columns to which the actions have given another type, bound again for the table as it is in the end.
    pub(super) fn expressions_again(
        &self,
        before: &Table,
        table: &Table,
        actions: &[AlterAction],
    ) -> Result<Option<AlterAction>> {
        let retyped: Vec<usize> = actions
            .iter()
            .filter_map(|action| match action {
                AlterAction::AlterType { column, .. } => Some(*column),
                _ => None,
            })
            .collect();
        let is_concerned = |own: &RowExpression| retyped.iter().any(|column| own.reads(*column));
        let mut expressions = before.expressions.clone();
        let mut is_changed = false;
        for own in expressions.iter_mut().filter(|own| is_concerned(&own.value)) {
            let text = self.path.named(crate::deparse::shown(before, &own.value), self.catalog);
            *own = self.stored(&text, |context, expr| context.key_expression(expr, table))?;
            is_changed = true;
        }
        let mut predicates = Vec::new();
        for index in &before.indexes {
            if let Some(own) = index.predicate.as_ref().filter(|own| is_concerned(own)) {
                let text = self.path.named(crate::deparse::shown(before, own), self.catalog);
                let own = self.stored(&text, |context, expr| context.index_predicate(expr, table))?;
                predicates.push((index.name.clone(), own));
            }
        }
        Ok(
            (is_changed || !predicates.is_empty()).then_some(AlterAction::ReplaceExpressions {
                expressions,
                predicates,
            }),
        )
    }

    /// What a check says of a table, by its text.
    pub(super) fn stored_condition(&self, table: &Arc<Table>, check: &Check) -> Result<Expr> {
        let scope = Scope::of_table(table, &table.name);
        let condition = self.stored(&check.text, |context, expr| {
            ExpressionBinder::new(context, &scope, "CHECK").condition(expr)
        });
        condition.map(Expr::fold_constants)
    }

    /// Binds an expression that the catalog has as text. An error has no place in what the client has sent.
    fn stored<T>(&self, text: &str, bind: impl FnOnce(&Context<'_>, &ast::Expr) -> Result<T>) -> Result<T> {
        let source = Source::new(text);
        let context = self.over(source);
        let bound = parse_expressions(source).and_then(|parsed| match parsed.as_slice() {
            [expr] => bind(&context, expr),
            _ => Err(Error::internal("the catalog has a text that is not one expression")),
        });
        bound.map_err(|error| error.with_position(None))
    }
}

/// 0A000: the text of a check says something else by now.
fn renamed(check: &Check) -> Error {
    let what = format!(
        "changing the type of a column renamed since check constraint \"{}\" was made",
        check.name
    );
    Error::unsupported(what).with_hint("Drop the constraint, and add it again behind the change.")
}

/// Whether every value of one type is the same value of the other.
fn keeps_values(from: ColumnType, to: ColumnType) -> bool {
    let is_plain = |data_type: DataType| matches!(data_type, DataType::Text | DataType::Varchar);
    if is_plain(from.data_type) && is_plain(to.data_type) {
        let length = |of: ColumnType| match of.data_type {
            DataType::Varchar => ColumnType::character_length(of.modifier).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        return length(from) <= length(to);
    }
    if from.data_type != to.data_type {
        return false;
    }
    if from.data_type != DataType::Numeric || to.modifier < 0 {
        return from.modifier == to.modifier || (to.modifier < 0 && from.data_type != DataType::Char);
    }
    let of = |of: ColumnType| ColumnType::numeric_precision_scale(of.modifier);
    matches!((of(from), of(to)), (Some(from), Some(to)) if from.1 == to.1 && from.0 <= to.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wider_types_keep_values() {
        let numeric = ColumnType::numeric;
        let text = ColumnType::plain(DataType::Text);
        let varchar = |length: i32| ColumnType {
            data_type: DataType::Varchar,
            modifier: length + 4,
        };
        for (from, to, keeps) in [
            (varchar(5), varchar(6), true),
            (varchar(6), varchar(5), false),
            (varchar(6), text, true),
            (text, varchar(6), false),
            (text, ColumnType::plain(DataType::Varchar), true),
            (numeric(5, 2), numeric(6, 2), true),
            (numeric(5, 2), numeric(6, 3), false),
            (numeric(6, 2), numeric(5, 2), false),
            (numeric(6, 2), ColumnType::plain(DataType::Numeric), true),
            (ColumnType::plain(DataType::Numeric), numeric(6, 2), false),
            (
                ColumnType::plain(DataType::Int4),
                ColumnType::plain(DataType::Int8),
                false,
            ),
            (
                ColumnType::plain(DataType::Int4),
                ColumnType::plain(DataType::Int4),
                true,
            ),
        ] {
            assert_eq!(keeps_values(from, to), keeps, "{from} to {to}");
        }
    }
}
