//! Views: CREATE VIEW, and what a view's name in FROM stands for.
//!
//! A view keeps the text of its query, in which `*` was replaced by the columns that it stood for: columns that its tables get later are
//! none of it. Where a view is read, its query is bound as if it stood there; plans are cached, so that this happens once a text.

use super::renaming::without_database;
use super::scope::{Hidden, Scope};
use super::stored_text::has_columns;
use super::target::Write;
use super::writing_with::writing_body;
use super::{Context, object_name};
use crate::catalog::{Dependency, RelationName, View, ViewCheck, ViewOptions, ViewQuery};
use crate::client::OutputColumn;
use crate::parser::syntax::fold;
use crate::plan::Relation;
use crate::planner::{BoundQuery, BoundSelect};
use crate::statement::SchemaChange;
use rubato_base::{ColumnType, Error, Result, SqlState};
use rubato_formula::Expr;
use sqlparser::ast;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How deep views may refer to views.
pub(super) const VIEWS_DEEP_MAX: usize = 100;

impl Context<'_> {
    /// CREATE [OR REPLACE] VIEW.
    pub(super) fn create_view(&self, statement: &ast::CreateView, check: Option<ViewCheck>) -> Result<SchemaChange> {
        let tables = statement.query.with.iter().flat_map(|with| &with.cte_tables);
        if tables
            .map(|table| &table.query)
            .any(|query| writing_body(query).is_some())
        {
            let message = "views must not contain data-modifying statements in WITH";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if let Some(number) = crate::parser::highest_parameter(self.source.text).filter(|number| *number > 0) {
            return Err(Error::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${number}"),
            ));
        }
        self.defines_view.set(true);
        let options = view_options(statement, check)?;
        let (query, _, output) = self.view_query(&statement.query)?;
        let columns = self.view_columns(statement, &output)?;
        let own = query
            .depends
            .iter()
            .any(|dependency| dependency.relation.schema.is_temporary());
        let name = object_name(&statement.name)?;
        let name = self.new_name(&name, statement.temporary || own)?;
        let view = View {
            oid: 0,
            schema: name.schema,
            name: name.name,
            columns,
            query,
            options,
            version: 1,
        };
        let (_, again) = self.bind_view(&view)?;
        let types = |columns: &[OutputColumn]| columns.iter().map(|column| column.data_type).collect::<Vec<_>>();
        if types(&again) != types(&output) {
            return Err(Error::unsupported(
                "a view whose text does not say the types of its columns",
            ));
        }
        self.check_option(&view)?;
        Ok(SchemaChange::CreateView {
            view,
            or_replace: statement.or_replace,
            becomes_temporary: own && !statement.temporary,
        })
    }

    /// 0A000: what cannot be written cannot be checked.
    pub(super) fn check_option(&self, view: &View) -> Result<()> {
        if view.options.check.is_none() {
            return Ok(());
        }
        let Err(error) = self.writable_view(view, Write::Update) else {
            return Ok(());
        };
        if error.code() != SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE {
            return Err(error);
        }
        let message = "WITH CHECK OPTION is supported only on automatically updatable views";
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_hint(error.fields().detail.clone().unwrap_or_default()))
    }

    /// The query of a view that is to be made: as it is kept, and bound.
    pub(super) fn view_query(&self, query: &ast::Query) -> Result<(ViewQuery, BoundSelect, Vec<OutputColumn>)> {
        let mut named = query.clone();
        self.within_names(query.with.as_ref(), || self.replace_wildcards(&mut named.body))?;
        let mut all_named = named.clone();
        self.replace_nested(&mut all_named);
        let (select, output) = self.query(query, &[])?;
        let mut query = ViewQuery {
            text: all_named.to_string(),
            depends: self.dependencies(&select),
            path: self.path.searched.to_vec(),
        };
        // What stands for several columns of one name within cannot be said by names.
        if !has_columns(&query, self.catalog, &output) {
            query.text = named.to_string();
        }
        query.text = without_database(&query, self.catalog);
        Ok((query, select, output))
    }

    fn view_columns(&self, statement: &ast::CreateView, output: &[OutputColumn]) -> Result<Vec<(String, ColumnType)>> {
        if statement.columns.len() > output.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut names = BTreeSet::new();
        let mut columns = Vec::with_capacity(output.len());
        for (place, column) in output.iter().enumerate() {
            let given = statement.columns.get(place);
            let name = given.map_or_else(|| column.name.clone(), |given| fold(&given.name));
            if !names.insert(name.clone()) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
            }
            let column_type = ColumnType {
                data_type: column.data_type,
                modifier: column.modifier,
            };
            columns.push((name, column_type));
        }
        Ok(columns)
    }

    /// The query of a view, with the view's columns.
    pub(super) fn bind_view(&self, view: &View) -> Result<(Arc<BoundQuery>, Vec<OutputColumn>)> {
        let depth = self.views.borrow().len();
        let empty = Scope::default();
        let bound = self.within_view(&view.query, |query| {
            // Nothing of the query around is in its reach.
            self.within_scope(&empty, || self.nested(query))
        });
        let ((query, mut columns), _) = bound?;
        for (column, (name, _)) in columns.iter_mut().zip(&view.columns) {
            column.name.clone_from(name);
        }
        if depth == 0 {
            self.view_queries.borrow_mut().push(Arc::clone(&query));
        }
        Ok((query, columns))
    }

    fn replace_wildcards(&self, body: &mut ast::SetExpr) -> Result<()> {
        match body {
            ast::SetExpr::Select(select) => self.replace_wildcards_of(select),
            ast::SetExpr::Query(query) => {
                let with = query.with.clone();
                self.within_names(with.as_ref(), || self.replace_wildcards(&mut query.body))
            }
            ast::SetExpr::SetOperation { left, right, .. } => {
                self.replace_wildcards(left)?;
                self.replace_wildcards(right)
            }
            _ => Ok(()),
        }
    }

    /// The same in the queries of WITH and FROM, as far as it goes.
    fn replace_nested(&self, query: &mut ast::Query) {
        if let Some(with) = &mut query.with {
            for place in 0..with.cte_tables.len() {
                let mut before = with.clone();
                before.cte_tables.truncate(place);
                let own = &mut with.cte_tables[place].query;
                self.replace_within(Some(&before), own);
            }
        }
        let with = query.with.clone();
        self.replace_nested_of(with.as_ref(), &mut query.body);
    }

    fn replace_within(&self, with: Option<&ast::With>, query: &mut ast::Query) {
        let mut replaced = query.clone();
        let own = query.with.clone();
        let outcome = self.within_names(with, || {
            let outcome = self.within_names(own.as_ref(), || self.replace_wildcards(&mut replaced.body));
            self.replace_nested(&mut replaced);
            outcome
        });
        if outcome.is_ok() {
            *query = replaced;
        }
    }

    fn replace_nested_of(&self, with: Option<&ast::With>, body: &mut ast::SetExpr) {
        match body {
            ast::SetExpr::Select(select) => {
                let joined = select.from.iter_mut().flat_map(|item| {
                    let joins = item.joins.iter_mut().map(|join| &mut join.relation);
                    std::iter::once(&mut item.relation).chain(joins)
                });
                for factor in joined {
                    if let ast::TableFactor::Derived {
                        lateral: false,
                        subquery,
                        ..
                    } = factor
                    {
                        self.replace_within(with, subquery);
                    }
                }
            }
            ast::SetExpr::SetOperation { left, right, .. } => {
                self.replace_nested_of(with, left);
                self.replace_nested_of(with, right);
            }
            _ => {}
        }
    }

    fn replace_wildcards_of(&self, select: &mut ast::Select) -> Result<()> {
        let has_wildcard = select.projection.iter().any(|item| {
            matches!(
                item,
                ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..)
            )
        });
        if !has_wildcard {
            return Ok(());
        }
        let parameters = self.parameters.borrow().clone();
        let trial = self.begin_trial();
        let from = self.from(&select.from);
        self.end_trial(&trial);
        self.parameters.replace(parameters);
        let scope = from?.scope;
        let mut items = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            match &item {
                ast::SelectItem::Wildcard(_) => items.extend(named_columns(&scope, None)),
                ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let alias = object_name(name)?.pop().unwrap_or_default();
                    items.extend(named_columns(&scope, Some(&alias)));
                }
                _ => items.push(item),
            }
        }
        select.projection = items;
        Ok(())
    }

    /// What a query reads: tables with the columns, and views.
    fn dependencies(&self, select: &BoundSelect) -> Vec<Dependency> {
        let mut used: BTreeMap<RelationName, BTreeSet<usize>> = BTreeMap::new();
        let views = self.view_queries.borrow();
        columns_used(select, &views, &mut used);
        for subquery in self.subqueries.borrow().iter() {
            let query = subquery.query();
            query.for_each_select(&mut |select| columns_used(select, &views, &mut used));
        }
        self.named_dependencies(used)
    }
}

/// What CREATE VIEW says in WITH (...), and behind the query.
fn view_options(statement: &ast::CreateView, check: Option<ViewCheck>) -> Result<ViewOptions> {
    let mut options = ViewOptions {
        check,
        ..ViewOptions::default()
    };
    let (ast::CreateTableOptions::With(list) | ast::CreateTableOptions::Options(list)) = &statement.options else {
        return Ok(options);
    };
    for option in list {
        let (name, value) = match option {
            ast::SqlOption::Ident(name) => (fold(name), None),
            ast::SqlOption::KeyValue { key, value } => (fold(key), Some(value)),
            other => return Err(Error::unsupported(format!("the option {other} of a view"))),
        };
        let value = value.map(|value| value.to_string().trim_matches('\'').to_ascii_lowercase());
        options.set(&name, value.as_deref())?;
    }
    Ok(options)
}

/// The columns that a wildcard stands for, by name.
fn named_columns(scope: &Scope, alias: Option<&str>) -> Vec<ast::SelectItem> {
    let places = match alias.map(|alias| scope.relation_named(alias)) {
        None => scope.visible_from(0),
        Some(Err(_)) => Vec::new(),
        Some(Ok(relation)) => {
            let columns = scope.relations[relation].columns.iter().enumerate();
            let seen = columns.filter(|(_, column)| matches!(column.hidden, Hidden::No | Hidden::Merged));
            seen.map(|(column, _)| (relation, column)).collect()
        }
    };
    let quoted = |name: &str| ast::Ident::with_quote('"', name);
    let named = |place: (usize, usize)| {
        let own = quoted(&scope.column_at(place).name);
        let expr = match scope.relations[place.0].alias.as_str() {
            // Of a FULL JOIN or the like: only its name finds it.
            "" => ast::Expr::Identifier(own),
            alias => ast::Expr::CompoundIdentifier(vec![quoted(alias), own]),
        };
        ast::SelectItem::UnnamedExpr(expr)
    };
    places.into_iter().map(named).collect()
}

/// Notes the columns of tables that a query reads, also in queries within FROM, but for those of views.
fn columns_used(select: &BoundSelect, views: &[Arc<BoundQuery>], used: &mut BTreeMap<RelationName, BTreeSet<usize>>) {
    let query = &select.query;
    let mut look = |expr: &Expr| {
        expr.for_each_column(&mut |column| {
            let Some(relation) = query.relations.get(query.relation_of(column)) else {
                return;
            };
            if let Relation::Table(table) = &relation.relation {
                let columns = used.entry(table.key()).or_default();
                columns.insert(column - relation.first);
            }
        });
    };
    select.for_each_input(&mut look);
    for relation in &query.relations {
        if let Relation::Query(inner) | Relation::Lateral { query: inner, .. } = &relation.relation
            && !views.iter().any(|view| Arc::ptr_eq(view, inner))
        {
            inner.for_each_select(&mut |select| columns_used(select, views, used));
        }
    }
}
