//! FROM: relations, joins and what they join on.

use super::expression::ExpressionBinder;
use super::joins::JOINED;
use super::records::{function_name, is_populating, is_record_function, populating_query, record_query};
use super::scope::{Hidden, Scope, ScopeColumn};
use super::sets::{calls_of_rows_from, several_arrays};
use super::typed::Typed;
use super::{Context, NamedRelation, located};
use crate::catalog::Table;
use crate::client::OutputColumn;
use crate::parser::is_rows_from;
use crate::parser::syntax::fold;
use crate::plan::{JoinKind, Relation};
use crate::planner::{BoundQuery, Query, QueryRelation};
use rubato_base::{ColumnType, Error, Result, SqlState};
use rubato_formula::Expr;
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// FROM while it is read.
pub(super) struct From {
    /// The names.
    pub scope: Scope,
    /// The relations and the terms that are as good as WHERE's.
    pub query: Query,
}

impl From {
    /// One table.
    pub(super) fn of_table(table: &Arc<Table>, alias: &str) -> From {
        let mut from = From {
            scope: Scope::of_table(table, alias),
            query: Query::default(),
        };
        push(&mut from, Relation::Table(Arc::clone(table)));
        from
    }

    /// Adds a query as a relation.
    pub(super) fn push_query(&mut self, alias: &str, query: Arc<BoundQuery>, columns: &[OutputColumn]) {
        self.push_rows(alias, Relation::Query(query), columns);
    }

    /// The place of the table that a lock names. 42P01, or 0A000 where it is part of an optional side.
    pub(super) fn lockable(&self, alias: &str) -> Result<usize> {
        let named = self.scope.relation_named(alias).map_err(|_| {
            Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{alias}\" in FOR UPDATE clause not found in FROM clause"),
            )
        });
        let named = &self.scope.relations[named?];
        if named.stands_for.is_some() {
            let message = "FOR UPDATE cannot be applied to a join";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let place = self.query.relation_of(named.first);
        match self.query.relations[place].alias == JOINED {
            true => Err(nullable_side()),
            false => Ok(place),
        }
    }

    fn push_rows(&mut self, alias: &str, relation: Relation<BoundQuery>, columns: &[OutputColumn]) {
        let told_as = columns.iter().map(|column| Some((column.table?, column.column_number)));
        let told_as = told_as.collect();
        let columns = columns.iter().map(|column| ScopeColumn {
            name: column.name.clone(),
            column_type: ColumnType {
                data_type: column.data_type,
                modifier: column.modifier,
            },
            hidden: Hidden::No,
        });
        self.scope.push(alias, columns.collect(), None);
        self.scope.tell_as(told_as);
        push(self, relation);
    }
}

impl Context<'_> {
    /// Binds FROM.
    pub(super) fn from(&self, from: &[ast::TableWithJoins]) -> Result<From> {
        let mut state = From {
            scope: Scope::default(),
            query: Query::default(),
        };
        for item in from {
            self.joined(item, &mut state)?;
        }
        Ok(state)
    }

    pub(super) fn factor(&self, factor: &ast::TableFactor, state: &mut From) -> Result<()> {
        match factor {
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                sample: None,
                ..
            } => {
                if let [ast::ObjectNamePart::Identifier(word)] = name.0.as_slice()
                    && word.quote_style.is_none()
                    && NILADIC.contains(&fold(word).as_str())
                {
                    return self.functions(&[(name, &[])], false, alias.as_ref(), state, factor);
                }
                if let Some(named) = self.named_query(name)? {
                    let alias_name = alias
                        .as_ref()
                        .map_or_else(|| named.name.clone(), |alias| fold(&alias.name));
                    self.check_alias(&alias_name, &state.scope, factor)?;
                    state.push_rows(&alias_name, named.relation, &named.columns);
                    return self.rename(alias.as_ref(), state);
                }
                if self.sequence(name, alias.as_ref(), state, factor)? {
                    return Ok(());
                }
                let relation = self.relation(name)?;
                let (own, schema) = match &relation {
                    NamedRelation::Table(table) => (table.name.as_str(), table.schema),
                    NamedRelation::System(system) => (system.short_name(), system.schema_id()),
                    NamedRelation::View(view) => (view.name.as_str(), view.schema),
                };
                let alias_name = alias.as_ref().map_or_else(|| own.to_owned(), |alias| fold(&alias.name));
                let schema = alias.is_none().then_some(schema);
                let others = state.scope.relations.iter();
                let mut others = others.filter(|other| other.alias == alias_name);
                if schema.is_none() || others.any(|other| other.schema.is_none() || other.schema == schema) {
                    self.check_alias(&alias_name, &state.scope, factor)?;
                }
                match &relation {
                    NamedRelation::Table(table) => {
                        self.note_relation(name, alias.as_ref(), &table.key());
                        self.check_populated(table)?;
                        state.scope.push_table(table, &alias_name);
                        push(state, Relation::Table(Arc::clone(table)));
                    }
                    NamedRelation::System(system) => {
                        state.scope.push(&alias_name, system.scope_columns(), None);
                        state.scope.tell_as_own(system.oid);
                        push(state, Relation::System(system.name.to_owned()));
                    }
                    NamedRelation::View(view) => {
                        self.note_relation(name, alias.as_ref(), &view.key());
                        let (query, columns) = self.bind_view(view)?;
                        state.push_query(&alias_name, query, &columns);
                        state.scope.set_origin(view.key());
                        state.scope.tell_as_own(view.oid);
                    }
                }
                state.scope.set_schema(schema);
                if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                    state.scope.keep_names();
                }
                self.rename(alias.as_ref(), state)
            }
            ast::TableFactor::Table {
                name,
                alias,
                args: Some(ast::TableFunctionArgs { args, .. }),
                with_ordinality,
                ..
            }
            | ast::TableFactor::Function {
                name,
                args,
                alias,
                with_ordinality,
                ..
            } if is_rows_from(name) => {
                let calls = calls_of_rows_from(args)?;
                self.functions(&calls, *with_ordinality, alias.as_ref(), state, factor)
            }
            ast::TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality: false,
                ..
            } if is_populating(name) => self.populated_rows((name, &args.args), alias.as_ref(), state, factor),
            ast::TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality: false,
                ..
            } if is_record_function(name) => self.record_rows((name, &args.args), alias.as_ref(), state, factor),
            ast::TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                ..
            } => self.functions(&[(name, &args.args)], *with_ordinality, alias.as_ref(), state, factor),
            ast::TableFactor::Function {
                name,
                args,
                alias,
                with_ordinality,
                ..
            } => match several_arrays(name, args) {
                Some(arrays) => self.unnest(&arrays, *with_ordinality, alias.as_ref(), state, factor),
                None => self.functions(&[(name, args)], *with_ordinality, alias.as_ref(), state, factor),
            },
            ast::TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_ordinality,
                ..
            } => self.unnest(array_exprs, *with_ordinality, alias.as_ref(), state, factor),
            ast::TableFactor::Derived {
                lateral: true,
                subquery: query,
                alias: Some(alias),
                ..
            } => self.lateral(query, alias, state, factor),
            ast::TableFactor::Derived {
                lateral: false,
                subquery: query,
                alias,
                ..
            } => {
                let Some(values) = plain_values(query) else {
                    let Some(alias) = alias else {
                        return located(self, factor.span(), Err(without_alias()));
                    };
                    let alias_name = fold(&alias.name);
                    self.check_alias(&alias_name, &state.scope, factor)?;
                    let (plan, columns) = self.nested(query)?;
                    state.push_query(&alias_name, plan, &columns);
                    return self.rename(Some(alias), state);
                };
                let alias_name = alias
                    .as_ref()
                    .map_or_else(|| "*VALUES*".to_owned(), |alias| fold(&alias.name));
                self.check_alias(&alias_name, &state.scope, factor)?;
                let (rows, columns) = self.values(values)?;
                state.scope.push(&alias_name, columns, None);
                self.rename(alias.as_ref(), state)?;
                push(state, Relation::Values(rows));
                Ok(())
            }
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => match alias {
                Some(alias) => self.joined_as(table_with_joins, alias, factor, state),
                None => self.joined(table_with_joins, state),
            },
            ast::TableFactor::Derived { .. } => located(self, factor.span(), Err(without_alias())),
            other => Err(Error::unsupported(format!("{other} in FROM"))),
        }
    }

    /// A query that may refer to the relations before it.
    fn lateral(
        &self,
        query: &ast::Query,
        alias: &ast::TableAlias,
        state: &mut From,
        factor: &ast::TableFactor,
    ) -> Result<()> {
        let alias_name = fold(&alias.name);
        self.check_alias(&alias_name, &state.scope, factor)?;
        let ((query, columns), references) = self.within_scope(&state.scope, || self.nested(query))?;
        let (outer, arguments) = references.arguments();
        let relation = if arguments.is_empty() {
            Relation::Query(query)
        } else {
            Relation::Lateral {
                query,
                outer,
                arguments,
            }
        };
        state.push_rows(&alias_name, relation, &columns);
        self.rename(Some(alias), state)
    }

    /// `json_to_recordset(document) AS alias (column type, ...)` and its kin.
    fn record_rows(
        &self,
        (name, arguments): (&ast::ObjectName, &[ast::FunctionArg]),
        alias: Option<&ast::TableAlias>,
        state: &mut From,
        factor: &ast::TableFactor,
    ) -> Result<()> {
        let query = located(
            self,
            factor.span(),
            record_query(&function_name(name), arguments, alias),
        )?;
        match alias {
            Some(alias) => self.lateral(&query, alias, state, factor),
            None => Err(Error::internal("columns without an alias")),
        }
    }

    /// `json_populate_recordset(NULL::table, document)` and its kin.
    fn populated_rows(
        &self,
        (name, arguments): (&ast::ObjectName, &[ast::FunctionArg]),
        alias: Option<&ast::TableAlias>,
        state: &mut From,
        factor: &ast::TableFactor,
    ) -> Result<()> {
        let own = function_name(name);
        let query = located(self, factor.span(), populating_query(self, &own, arguments))?;
        let unnamed = ast::TableAlias {
            explicit: false,
            name: ast::Ident::with_quote('"', own),
            columns: Vec::new(),
            at: None,
        };
        self.lateral(&query, alias.unwrap_or(&unnamed), state, factor)
    }

    pub(super) fn check_alias(&self, alias: &str, scope: &Scope, factor: &ast::TableFactor) -> Result<()> {
        let mut others = scope.relations[scope.first_own..].iter();
        if others.any(|relation| relation.alias == alias && !relation.is_covered) {
            let error = Error::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table name \"{alias}\" specified more than once"),
            );
            return located(self, factor.span(), Err(error));
        }
        Ok(())
    }

    /// Column names given with the alias.
    pub(super) fn rename(&self, alias: Option<&ast::TableAlias>, state: &mut From) -> Result<()> {
        let Some(alias) = alias else { return Ok(()) };
        let Some(relation) = state.scope.relations.last_mut() else {
            return Ok(());
        };
        let mut visible = relation.columns.iter_mut().filter(|column| column.hidden == Hidden::No);
        let mut names = alias.columns.iter();
        let count = visible.by_ref().count();
        let visible = relation.columns.iter_mut().filter(|column| column.hidden == Hidden::No);
        for (column, name) in visible.zip(names.by_ref()) {
            column.name = fold(&name.name);
        }
        if names.next().is_some() {
            return Err(Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!(
                    "table \"{}\" has {count} columns available but {} columns specified",
                    relation.alias,
                    alias.columns.len()
                ),
            ));
        }
        Ok(())
    }

    /// The rows of VALUES and their columns.
    pub(super) fn values(&self, values: &ast::Values) -> Result<(Vec<Vec<Expr>>, Vec<ScopeColumn>)> {
        let empty = Scope::default();
        let binder = ExpressionBinder::new(self, &empty, "VALUES");
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut columns: Vec<Vec<Typed>> = vec![Vec::with_capacity(values.rows.len()); width];
        for row in &values.rows {
            if row.content.len() != width {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            for (column, expr) in columns.iter_mut().zip(&row.content) {
                column.push(binder.bind(expr)?);
            }
        }
        let mut rows = vec![Vec::with_capacity(width); values.rows.len()];
        let mut names = Vec::with_capacity(width);
        for (index, column) in columns.into_iter().enumerate() {
            let (mut exprs, column_type) = binder.common("VALUES", column)?;
            exprs
                .iter_mut()
                .try_for_each(|expr| self.asked_before(expr, "VALUES"))?;
            for (row, expr) in rows.iter_mut().zip(exprs) {
                row.push(expr);
            }
            names.push(ScopeColumn {
                name: format!("column{}", index + 1),
                column_type,
                hidden: Hidden::No,
            });
        }
        Ok((rows, names))
    }
}

/// Functions that are called without brackets, and so can be no tables.
const NILADIC: [&str; 11] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

pub(super) fn push(state: &mut From, relation: Relation<BoundQuery>) {
    let Some(named) = state.scope.relations.last() else {
        return;
    };
    state.query.relations.push(QueryRelation {
        relation,
        alias: named.alias.clone(),
        first: named.first,
        types: named.columns.iter().map(|column| column.column_type).collect(),
        join: JoinKind::Inner,
        on: Vec::new(),
    });
}

/// The VALUES of a query that is nothing else.
pub(super) fn plain_values(query: &ast::Query) -> Option<&ast::Values> {
    let bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    match &*query.body {
        ast::SetExpr::Values(values) if bare => Some(values),
        _ => None,
    }
}

fn without_alias() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias")
        .with_hint("For example, FROM (SELECT ...) [AS] foo.")
}

/// 0A000: rows that may be missing cannot be locked.
pub(super) fn nullable_side() -> Error {
    Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "FOR UPDATE cannot be applied to the nullable side of an outer join",
    )
}
