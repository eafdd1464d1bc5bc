//! What a statement writes to: a table, or a view that stands for one.
//!
//! A view over one table, without anything that makes other rows of the table's, is written as PostgreSQL writes it: what is done to
//! its columns is done to the table's, to rows that satisfy its conditions. The statement is bound over the table's own columns, so
//! that its plan is the one that the same statement on the table has: formulas stay formulas.

use super::expression::ExpressionBinder;
use super::from::From;
use super::scope::{Scope, ScopeColumn};
use super::{Context, Hidden, NamedRelation, ResolvedPath};
use crate::catalog::{Catalog, Check, SchemaId, Table, View, ViewCheck};
use crate::parser::syntax::{Source, fold, parse_statement, with_stack_for};
use rubato_base::text_format::TextContext;
use rubato_base::{ColumnType, Error, Result, SqlState};
use rubato_formula::Expr;
use sqlparser::ast;
use std::sync::Arc;

/// What a statement does to a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Insert,
    Update,
    Delete,
    Merge,
}

/// A relation that rows are written to.
pub(super) struct Target {
    /// The table whose rows they are; what views check of new rows is among its checks.
    pub table: Arc<Table>,
    /// What the statement calls it.
    pub alias: String,
    /// What rows have to satisfy to be those of the view.
    pub terms: Vec<Expr>,
    /// Of a view.
    view: Option<ViewColumns>,
}

/// The columns of a view over its table.
struct ViewColumns {
    name: String,
    schema: SchemaId,
    columns: Vec<ViewColumn>,
}

struct ViewColumn {
    name: String,
    column_type: ColumnType,
    /// The table's column that it is, if it is one: such a column can be written.
    written: Option<usize>,
    /// Over the table's columns.
    value: Expr,
}

/// The place of a column that cannot be written, in lists of the table's columns.
pub(super) const NOT_WRITABLE: usize = usize::MAX;

impl Target {
    fn of_table(table: Arc<Table>) -> Target {
        Target {
            alias: table.name.clone(),
            table,
            terms: Vec::new(),
            view: None,
        }
    }

    /// The name of what the statement names.
    pub fn name(&self) -> &str {
        self.view.as_ref().map_or(&self.table.name, |view| &view.name)
    }

    /// Whether it is a view, which has no constraints of its own.
    pub fn is_view(&self) -> bool {
        self.view.is_some()
    }

    /// Its columns, under its alias.
    pub fn scope(&self) -> Scope {
        let mut scope = Scope::default();
        self.push_onto(&mut scope, &self.alias);
        scope
    }

    /// The same in FROM.
    pub fn from(&self) -> From {
        let mut from = From::of_table(&self.table, &self.alias);
        from.scope = self.scope();
        from.query.terms.extend(self.terms.iter().cloned());
        from
    }

    /// Adds its columns to a scope.
    pub fn push_onto(&self, scope: &mut Scope, alias: &str) {
        let Some(view) = &self.view else {
            return scope.push_table(&self.table, alias);
        };
        let columns = view.columns.iter().map(|column| {
            let own = ScopeColumn {
                name: column.name.clone(),
                column_type: column.column_type,
                hidden: Hidden::No,
            };
            (own, column.value.clone())
        });
        scope.push_view(&self.table, alias, columns.collect());
        scope.set_schema((view.name == alias).then_some(view.schema));
    }

    /// The number of a column of the table, by the name that it has here. 42703, or 0A000 if it is none of the table's.
    pub fn column(&self, name: &str, write: Write) -> Result<usize> {
        let Some(view) = &self.view else {
            return super::dml::find_column(&self.table, name);
        };
        let Some(place) = view.columns.iter().position(|column| column.name == name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", view.name);
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, message));
        };
        view.columns[place]
            .written
            .ok_or_else(|| self.not_writable(place, write))
    }

    /// All columns that can be named, as numbers of the table's.
    pub fn columns(&self) -> Vec<usize> {
        match &self.view {
            None => (0..self.table.columns.len())
                .filter(|column| !self.table.columns[*column].dropped)
                .collect(),
            Some(view) => {
                let columns = view.columns.iter();
                columns.map(|column| column.written.unwrap_or(NOT_WRITABLE)).collect()
            }
        }
    }

    /// 0A000: the column at a place of [`Target::columns`] is none of the table's.
    pub fn not_writable(&self, place: usize, write: Write) -> Error {
        let column = self.view.as_ref().and_then(|view| view.columns.get(place));
        let name = column.map_or("", |column| &column.name);
        let what = match write {
            Write::Insert => "insert into",
            _ => "update",
        };
        let message = format!("cannot {what} column \"{name}\" of view \"{}\"", self.name());
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_detail("View columns that are not columns of their base relation are not updatable.")
    }
}

impl Context<'_> {
    /// What a statement writes to, by name. 42P01, 42809, or 55000 for a view that is more than a part of one table.
    pub(super) fn target_of(&self, name: &ast::ObjectName, write: Write) -> Result<Target> {
        match self.relation(name)? {
            NamedRelation::View(view) if write == Write::Merge => Err(no_merge_into(&view.name, "views")),
            NamedRelation::View(view) => self.view_target(&view, write, false),
            NamedRelation::Table(table) if table.materialised.is_some() && write == Write::Merge => {
                Err(no_merge_into(&table.name, "materialized views"))
            }
            _ => self.table_to_change(name).map(Target::of_table),
        }
    }

    /// A view as the table that it is a part of; `cascaded` if a view over it checks what is written through this one, too.
    fn view_target(&self, view: &View, write: Write, cascaded: bool) -> Result<Target> {
        let trial = self.begin_trial();
        let target = self.within_view(&view.query, |query| {
            let refused = |reason| not_updatable(view, write, reason);
            let (select, beneath) = self.read_by(query)?.map_err(refused)?;
            let check = view.options.check;
            let cascades = cascaded || check == Some(ViewCheck::Cascaded);
            let mut target = match beneath {
                NamedRelation::View(inner) => self.view_target(&inner, write, cascades)?,
                NamedRelation::Table(table) if table.materialised.is_none() => Target::of_table(table),
                _ => return Err(refused(NOT_ONE_TABLE)),
            };
            let scope = self.scope_of_view(&target, &select.from)?;
            let columns = self
                .view_columns_over(view, select, &scope, &target.table)
                .map_err(|error| match error {
                    NoColumns::Reason(reason) => refused(reason),
                    NoColumns::Error(error) => error,
                })?;
            if matches!(write, Write::Insert | Write::Update) && columns.iter().all(|column| column.written.is_none()) {
                return Err(refused(
                    "Views that have no updatable columns are not automatically updatable.",
                ));
            }
            if let Some(selection) = &select.selection {
                let condition = ExpressionBinder::new(self, &scope, "WHERE").condition(selection)?;
                if cascades || check.is_some() {
                    add_option(&mut target.table, view, &condition)?;
                }
                target.terms.push(condition);
            }
            target.alias.clone_from(&view.name);
            target.view = Some(ViewColumns {
                name: view.name.clone(),
                schema: view.schema,
                columns,
            });
            Ok(target)
        });
        if target.is_err() {
            self.end_trial(&trial);
        }
        target
    }

    /// Binds something of a view: its names mean what they meant when it was made, and nothing around is in reach.
    pub(super) fn within_view<T>(
        &self,
        own: &crate::catalog::ViewQuery,
        bind: impl FnOnce(&ast::Query) -> Result<T>,
    ) -> Result<T> {
        if self.views.borrow().len() >= super::view::VIEWS_DEEP_MAX {
            let message = "views refer to views too deeply";
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let names = std::mem::take(&mut *self.names.borrow_mut());
        let levels = std::mem::take(&mut *self.outer_levels.borrow_mut());
        self.views.borrow_mut().push(own.clone());
        let bound = with_stack_for(&own.text, || {
            let parsed = parse_statement(Source::new(&own.text))?;
            match &parsed.statement {
                ast::Statement::Query(query) => bind(query),
                _ => Err(Error::internal("a view without a query")),
            }
        });
        self.views.borrow_mut().pop();
        self.names.replace(names);
        self.outer_levels.replace(levels);
        // Positions would be those of the view's text.
        bound.map_err(Error::without_position)
    }

    /// The SELECT of a view that is no more than a part of one relation, and the relation; or why it is not.
    #[allow(clippy::type_complexity)]
    fn read_by<'q>(
        &self,
        query: &'q ast::Query,
    ) -> Result<std::result::Result<(&'q ast::Select, NamedRelation), &'static str>> {
        let select = match part_of_one(query) {
            Ok(select) => select,
            Err(reason) => return Ok(Err(reason)),
        };
        let [ast::TableWithJoins { relation, joins }] = select.from.as_slice() else {
            return Ok(Err(NOT_ONE_TABLE));
        };
        let ast::TableFactor::Table { name, args: None, .. } = relation else {
            return Ok(Err(NOT_ONE_TABLE));
        };
        if !joins.is_empty() {
            return Ok(Err(NOT_ONE_TABLE));
        }
        match self.relation(name) {
            Ok(relation) => Ok(Ok((select, relation))),
            // A sequence.
            Err(_) => Ok(Err(NOT_ONE_TABLE)),
        }
    }

    /// What the expressions of a view see of what is beneath it.
    fn scope_of_view(&self, target: &Target, from: &[ast::TableWithJoins]) -> Result<Scope> {
        let mut state = target.from();
        if let Some(ast::TableWithJoins {
            relation: ast::TableFactor::Table { alias, .. },
            ..
        }) = from.first()
        {
            if let (Some(alias), Some(named)) = (alias, state.scope.relations.last_mut()) {
                named.alias = fold(&alias.name);
                named.schema = None;
            }
            self.rename(alias.as_ref(), &mut state)?;
        }
        Ok(state.scope)
    }

    fn view_columns_over(
        &self,
        view: &View,
        select: &ast::Select,
        scope: &Scope,
        table: &Table,
    ) -> std::result::Result<Vec<ViewColumn>, NoColumns> {
        let items = self.plain_items(&select.projection, scope)?;
        let column = |((name, column_type), (value, own_type)): (&(String, ColumnType), (Expr, ColumnType))| {
            // A cast that changes nothing of a value makes another column of it all the same.
            let written = match value {
                Expr::Column(column) => Some(column).filter(|it| table.columns[*it].column_type == own_type),
                _ => None,
            };
            ViewColumn {
                name: name.clone(),
                column_type: *column_type,
                written,
                value,
            }
        };
        Ok(view.columns.iter().zip(items).map(column).collect())
    }

    /// What a view's list selects, over what is beneath it.
    fn plain_items(
        &self,
        list: &[ast::SelectItem],
        scope: &Scope,
    ) -> std::result::Result<Vec<(Expr, ColumnType)>, NoColumns> {
        let bound = self.returning(Some(&list.to_vec()), scope);
        let (exprs, output) = bound.map_err(|error| match error.code() {
            SqlState::WINDOWING_ERROR => {
                NoColumns::Reason("Views that return window functions are not automatically updatable.")
            }
            SqlState::GROUPING_ERROR => {
                NoColumns::Reason("Views that return aggregate functions are not automatically updatable.")
            }
            SqlState::FEATURE_NOT_SUPPORTED if error.message().starts_with("set-returning") => {
                NoColumns::Reason("Views that return set-returning functions are not automatically updatable.")
            }
            _ => NoColumns::Error(error),
        })?;
        let types = output.iter().map(|column| ColumnType {
            data_type: column.data_type,
            modifier: column.modifier,
        });
        Ok(exprs.unwrap_or_default().into_iter().zip(types).collect())
    }

    /// A view that may be there only in a moment, to be written in this way.
    pub(super) fn writable_view(&self, view: &View, write: Write) -> Result<Target> {
        self.view_target(view, write, false)
    }
}

/// What can be written of a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writable {
    pub insert: bool,
    pub update: bool,
    pub delete: bool,
    /// Which of its columns can be.
    pub columns: Vec<bool>,
}

impl Writable {
    /// As a set of the numbers that PostgreSQL gives to kinds of statements.
    pub fn events(&self) -> i32 {
        i32::from(self.update) * (1 << 2) + i32::from(self.insert) * (1 << 3) + i32::from(self.delete) * (1 << 4)
    }
}

/// What can be written of a view as it is now.
pub(crate) fn writable(catalog: &Catalog, view: &View) -> Writable {
    let path = ResolvedPath::default();
    let context = Context::new(Source::new(""), catalog, TextContext::default(), path);
    let target = |write| context.writable_view(view, write).ok();
    let updated = target(Write::Update);
    let columns = updated.as_ref().map(Target::columns).unwrap_or_default();
    Writable {
        insert: target(Write::Insert).is_some(),
        update: updated.is_some(),
        delete: target(Write::Delete).is_some(),
        columns: columns.into_iter().map(|column| column != NOT_WRITABLE).collect(),
    }
}

enum NoColumns {
    Reason(&'static str),
    Error(Error),
}

const NOT_ONE_TABLE: &str = "Views that do not select from a single table or view are not automatically updatable.";

/// The SELECT of a query whose rows are rows of what it reads; or why they are not.
fn part_of_one(query: &ast::Query) -> std::result::Result<&ast::Select, &'static str> {
    let select = match &*query.body {
        ast::SetExpr::Select(select) => select,
        ast::SetExpr::Query(inner) if query.with.is_none() => return part_of_one(inner),
        ast::SetExpr::SetOperation { .. } => {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
        _ => return Err(NOT_ONE_TABLE),
    };
    let is_grouped = match &select.group_by {
        ast::GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
        ast::GroupByExpr::All(_) => true,
    };
    if select.distinct.is_some() && !matches!(select.distinct, Some(ast::Distinct::All)) {
        Err("Views containing DISTINCT are not automatically updatable.")
    } else if is_grouped {
        Err("Views containing GROUP BY are not automatically updatable.")
    } else if select.having.is_some() {
        Err("Views containing HAVING are not automatically updatable.")
    } else if query.with.is_some() {
        Err("Views containing WITH are not automatically updatable.")
    } else if query.limit_clause.is_some() || query.fetch.is_some() {
        Err("Views containing LIMIT or OFFSET are not automatically updatable.")
    } else {
        Ok(select)
    }
}

/// The condition of a view, as what is checked of rows that are written through it.
fn add_option(table: &mut Arc<Table>, view: &View, condition: &Expr) -> Result<()> {
    if condition.has_subquery() {
        return Err(Error::unsupported(
            "a subquery in the condition of a view with a check option",
        ));
    }
    Arc::make_mut(table).checks.push(Check {
        name: view.name.clone(),
        columns: condition.columns(),
        condition: condition.clone().fold_constants(),
        text: String::new(),
        is_valid: true,
        domain: None,
        option_of: Some(view.name.clone()),
    });
    Ok(())
}

/// 55000, with PostgreSQL's hints.
fn not_updatable(view: &View, write: Write, reason: &'static str) -> Error {
    let (what, event, verb) = match write {
        Write::Insert => ("insert into", "INSERT", "inserting into"),
        Write::Delete => ("delete from", "DELETE", "deleting from"),
        Write::Update | Write::Merge => ("update", "UPDATE", "updating"),
    };
    let message = format!("cannot {what} view \"{}\"", view.name);
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        .with_detail(reason)
        .with_hint(format!(
            "To enable {verb} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO INSTEAD rule."
        ))
}

fn no_merge_into(name: &str, kind: &str) -> Error {
    let message = format!("cannot execute MERGE on relation \"{name}\"");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_detail(format!("This operation is not supported for {kind}."))
}
