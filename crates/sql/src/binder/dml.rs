//! UPDATE and DELETE.

use super::array::joined_parts;
use super::expression::ExpressionBinder;
use super::from::From;
use super::scope::Scope;
use super::subquery::query_of;
use super::target::{Target, Write};
use super::{Context, located, object_name};
use crate::catalog::Table;
use crate::client::OutputColumn;
use crate::parser::syntax::fold;
use crate::plan::{Assignment, ChangePlan, DeletePlan, PlanBody, RowChange, UpdatePlan};
use crate::planner::{order_reason, plan_change, plan_target};
use rubato_base::{Error, Result, SqlState, Value};
use rubato_formula::{Expr, Volatility, analyse_assignment};
use sqlparser::ast::{self, Spanned};
use std::sync::{Arc, OnceLock};

impl Context<'_> {
    pub(super) fn update(&self, statement: &ast::Update) -> Result<(PlanBody, Vec<OutputColumn>)> {
        let written = self.target(&statement.table, Write::Update)?;
        let (table, alias) = (&written.table, &written.alias);
        let from = match &statement.from {
            Some(ast::UpdateTableFromKind::AfterSet(from) | ast::UpdateTableFromKind::BeforeSet(from)) => from,
            None => &Vec::new(),
        };
        let mut sources = self.sources_beside(&written, from)?;
        let scope = sources.scope.clone();
        let binder = ExpressionBinder::new(self, &scope, "UPDATE");
        let mut assignments = self.assignments(&statement.assignments, &written, &binder)?;
        sources
            .query
            .terms
            .extend(self.where_terms(statement.selection.as_ref(), &scope)?);
        let (returning, output) = self.returning(statement.returning.as_ref(), &scope)?;
        let values = assignments.iter_mut().map(|(_, value)| value);
        let asks = self.asks_for_each_row(values.chain(&mut sources.query.terms));
        if !from.is_empty() || self.writes_within.get() || asks {
            let (columns, values) = assignments.into_iter().unzip();
            let change = (RowChange::Update(columns), values);
            return Ok((self.joined_change(table, sources, change, returning), output));
        }
        let terms = sources.query.terms;
        let (mut target, filter) = plan_target(table, alias, terms, self);
        let not_null = |column: usize| table.columns.get(column).is_some_and(|column| column.not_null);
        let assignments: Vec<Assignment> = assignments
            .into_iter()
            .map(|(column, expression)| {
                let expression = expression.fold_constants();
                let column_type = table.columns[column].column_type;
                let shape = analyse_assignment(column as u16, column_type, &not_null, &expression);
                Assignment {
                    column,
                    expression,
                    shape,
                }
            })
            .collect();
        let changed = table.changed_with(assignments.iter().map(|assignment| assignment.column).collect());
        let changes_key = table.primary_key.iter().any(|column| changed.contains_column(*column));
        let changed_indexes: Vec<usize> = (0..table.indexes.len())
            .filter(|index| table.read_by_index(&table.indexes[*index]).intersects(changed))
            .collect();
        let ordered_because = order_reason(
            table,
            filter.as_ref(),
            &assignments,
            changes_key,
            &changed_indexes,
            returning.is_some(),
        );
        if ordered_because.is_some() {
            let exprs = assignments
                .iter()
                .map(|assignment| &assignment.expression)
                .chain(returning.iter().flatten());
            exprs.for_each(|expr| target.reads = target.reads.union(expr.columns()));
        }
        let mut changes = assignments.iter().map(|assignment| &assignment.expression);
        let plan = UpdatePlan {
            target,
            filter,
            each_differs: changes.any(|change| change.volatility() == Volatility::Volatile),
            columns_read: OnceLock::new(),
            assignments,
            ordered_because,
            bounds: table.row_bounds(),
            changes_key,
            changed_indexes,
            returning,
        };
        Ok((PlanBody::Update(plan), output))
    }

    pub(super) fn delete(&self, statement: &ast::Delete) -> Result<(PlanBody, Vec<OutputColumn>)> {
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &statement.from;
        let [target] = from.as_slice() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "DELETE takes one table"));
        };
        let written = self.target(target, Write::Delete)?;
        let (table, alias) = (&written.table, &written.alias);
        let using = statement.using.as_deref().unwrap_or_default();
        let mut sources = self.sources_beside(&written, using)?;
        let scope = sources.scope.clone();
        sources
            .query
            .terms
            .extend(self.where_terms(statement.selection.as_ref(), &scope)?);
        let (returning, output) = self.returning(statement.returning.as_ref(), &scope)?;
        let asks = self.asks_for_each_row(sources.query.terms.iter_mut());
        if !using.is_empty() || self.writes_within.get() || asks {
            let change = (RowChange::Delete, Vec::new());
            return Ok((self.joined_change(table, sources, change, returning), output));
        }
        let terms = sources.query.terms;
        let (mut target, filter) = plan_target(table, alias, terms, self);
        for expr in returning.iter().flatten() {
            target.reads = target.reads.union(expr.columns());
        }
        let plan = DeletePlan {
            target,
            filter,
            returning,
        };
        Ok((PlanBody::Delete(plan), output))
    }

    /// The table that a statement changes, and what stands beside it in FROM or USING.
    fn sources_beside(&self, written: &Target, from: &[ast::TableWithJoins]) -> Result<From> {
        let mut sources = written.from();
        from.iter().try_for_each(|item| self.joined(item, &mut sources))?;
        Ok(sources)
    }

    /// Whether queries have to be asked for each row; those that refer to nothing around them are asked before.
    fn asks_for_each_row<'e>(&self, exprs: impl Iterator<Item = &'e mut Expr>) -> bool {
        let mut asks = false;
        exprs.for_each(|expr| asks |= self.asked_before(expr, "a statement").is_err());
        asks
    }

    /// An UPDATE or DELETE whose rows a query finds.
    fn joined_change(
        &self,
        table: &Arc<Table>,
        sources: From,
        (change, mut projection): (RowChange, Vec<Expr>),
        mut returning: Option<Vec<Expr>>,
    ) -> PlanBody {
        let width = table.columns.len();
        let others = columns_read(returning.iter().flatten(), width);
        let place = |column: usize| match others.iter().position(|other| *other == column) {
            Some(place) => width + place,
            None => column,
        };
        for expr in returning.iter_mut().flatten() {
            *expr = expr.remap_columns(&place);
        }
        projection.extend(others.iter().map(|column| Expr::Column(*column)));
        let source = plan_change(sources.query, projection, self);
        PlanBody::Change(ChangePlan {
            table: Arc::clone(table),
            source,
            change,
            returning,
        })
    }

    /// What a statement changes, under the alias that it has there.
    pub(super) fn target(&self, target: &ast::TableWithJoins, write: Write) -> Result<Target> {
        let ast::TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = &target.relation
        else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "a statement changes one table"));
        };
        if !target.joins.is_empty() {
            return Err(Error::unsupported("a join in the target of UPDATE or DELETE"));
        }
        let mut target = self.target_of(name, write)?;
        if let Some(alias) = alias {
            target.alias = fold(&alias.name);
        }
        Ok(target)
    }

    fn where_terms(&self, selection: Option<&ast::Expr>, scope: &Scope) -> Result<Vec<Expr>> {
        let binder = ExpressionBinder::new(self, scope, "WHERE");
        Ok(selection
            .map(|selection| binder.condition(selection))
            .transpose()?
            .into_iter()
            .collect())
    }

    /// SET: columns and values cast to their types.
    pub(super) fn assignments(
        &self,
        list: &[ast::Assignment],
        target: &Target,
        binder: &ExpressionBinder<'_>,
    ) -> Result<Vec<(usize, Expr)>> {
        let table = &target.table;
        let mut assignments: Vec<(usize, Expr)> = Vec::with_capacity(list.len());
        let mut push = |name: &ast::ObjectName, value: Assigned<'_>| {
            let column = self.target_column(name, target)?;
            if assignments.iter().any(|(other, _)| *other == column) {
                let message = format!("multiple assignments to same column \"{}\"", table.columns[column].name);
                return located(self, name.span(), Err(Error::new(SqlState::SYNTAX_ERROR, message)));
            }
            let value = self.assigned_value(table, column, value, binder)?;
            assignments.push((column, value));
            Ok(())
        };
        for assignment in joined_parts(list, &target.alias).iter() {
            match &assignment.target {
                ast::AssignmentTarget::ColumnName(name) => push(name, Assigned::Value(&assignment.value))?,
                ast::AssignmentTarget::Tuple(names) if query_of(&assignment.value).is_some() => {
                    for (index, name) in names.iter().enumerate() {
                        push(name, Assigned::Column(&assignment.value, index, names.len()))?;
                    }
                }
                ast::AssignmentTarget::Tuple(names) => {
                    let values = row_values(&assignment.value)?;
                    if values.len() != names.len() {
                        return Err(Error::new(
                            SqlState::SYNTAX_ERROR,
                            "number of columns does not match number of values",
                        ));
                    }
                    names
                        .iter()
                        .zip(values)
                        .try_for_each(|(name, value)| push(name, Assigned::Value(value)))?;
                }
            }
        }
        Ok(assignments)
    }

    fn assigned_value(
        &self,
        table: &Table,
        column: usize,
        value: Assigned<'_>,
        binder: &ExpressionBinder<'_>,
    ) -> Result<Expr> {
        let definition = &table.columns[column];
        let is_default = matches!(value, Assigned::Value(value) if is_default(value));
        if definition.identity_always == Some(true) && !is_default {
            return Err(Error::new(
                SqlState(*b"428C9"),
                format!("column \"{}\" can only be updated to DEFAULT", definition.name),
            )
            .with_detail(format!(
                "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                definition.name
            )));
        }
        if let Some(own) = &definition.generated {
            if is_default {
                return Ok(own.expr.clone());
            }
            let message = format!("column \"{}\" can only be updated to DEFAULT", definition.name);
            return Err(Error::new(SqlState(*b"428C9"), message)
                .with_detail(format!("Column \"{}\" is a generated column.", definition.name)));
        }
        if is_default {
            return Ok(definition.default.clone().unwrap_or(Expr::Literal(Value::Null)));
        }
        let (typed, span) = match value {
            Assigned::Value(value) => (binder.bind(value)?, value.span()),
            Assigned::Column(value, index, wanted) => match query_of(value) {
                Some(query) => (binder.column_of_subquery(query, index, wanted)?, query.span()),
                None => return Err(Error::internal("an assignment lost its query")),
            },
        };
        located(self, span, self.assign(typed, &definition.name, definition.column_type))
    }

    fn target_column(&self, name: &ast::ObjectName, target: &Target) -> Result<usize> {
        let path = object_name(name)?;
        let column = match path.as_slice() {
            [column] => column,
            [qualifier, column] if *qualifier == target.alias => column,
            [column, _] => column,
            _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "improper qualified name")),
        };
        located(self, name.span(), target.column(column, Write::Update))
    }
}

/// The columns from `first` on that expressions read, each once.
pub(super) fn columns_read<'e>(exprs: impl Iterator<Item = &'e Expr>, first: usize) -> Vec<usize> {
    let mut columns = Vec::new();
    for expr in exprs {
        expr.for_each_column(&mut |column| {
            if column >= first && !columns.contains(&column) {
                columns.push(column);
            }
        });
    }
    columns
}

/// What a column is set to.
#[derive(Clone, Copy)]
enum Assigned<'a> {
    Value(&'a ast::Expr),
    /// One of so many columns of a query.
    Column(&'a ast::Expr, usize, usize),
}

/// The number of a table's column. 42703.
pub(super) fn find_column(table: &Table, name: &str) -> Result<usize> {
    table
        .columns
        .iter()
        .position(|column| !column.dropped && column.name == name)
        .ok_or_else(|| {
            Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
            )
        })
}

/// Whether a value is the keyword DEFAULT.
pub(super) fn is_default(value: &ast::Expr) -> bool {
    matches!(value, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

fn row_values(value: &ast::Expr) -> Result<&[ast::Expr]> {
    match value {
        ast::Expr::Tuple(values) => Ok(values),
        ast::Expr::Nested(inner) => Ok(std::slice::from_ref(inner)),
        _ => Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
        )),
    }
}
