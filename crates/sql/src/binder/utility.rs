//! Statements of the small grammar that have parts to bind: EXPLAIN, PREPARE, EXECUTE, DECLARE and COPY.

use super::dml::find_column;
use super::expression::ExpressionBinder;
use super::scope::Scope;
use super::{BindSettings, Context, NamedRelation, SearchPath, TextSettings, bind_part, bind_source, located};
use crate::catalog::{Catalog, Table};
use crate::client::OutputColumn;
use crate::parser::Literal;
use crate::parser::syntax::{Source, parse_expression, parse_expressions, parse_statement, parse_type, with_stack_for};
use crate::parser::utility::{CopySyntax, SchemaSyntax, Syntax};
use crate::plan::{PlanBody, SelectPlan};
use crate::statement::{CopyStatement, CursorOptions, Definitions, SchemaChange, Statement, Utility};
use rubato_base::text_format::TextContext;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, TableId};
use rubato_formula::Expr;
use sqlparser::ast;
use std::sync::Arc;

/// Binds what [`crate::parser::utility::parse_utility`] read.
pub(super) fn bind_utility(
    syntax: Syntax,
    source: Source<'_>,
    literals: &[Literal],
    declared: &[DataType],
    catalog: &Catalog,
    settings: &dyn BindSettings,
) -> Result<Statement> {
    let utility = match syntax {
        Syntax::Empty => return Ok(Statement::Empty),
        Syntax::Done(utility) => *utility,
        Syntax::Explain {
            analyze,
            json,
            statement,
        } => {
            let statement = bind_source(source.tail(statement), literals, declared, catalog, settings)?;
            let is_execute =
                matches!(&statement, Statement::Utility(utility) if matches!(**utility, Utility::Execute { .. }));
            if !is_execute && !matches!(statement, Statement::Planned(_)) {
                return Err(Error::unsupported(
                    "EXPLAIN of anything but SELECT, INSERT, UPDATE, DELETE, VALUES and EXECUTE",
                ));
            }
            Utility::Explain {
                analyze,
                json,
                statement,
            }
        }
        Syntax::Prepare { name, types, statement } => {
            let names = context(source, catalog, settings);
            let types = types
                .into_iter()
                .map(|range| prepared_type(&names, range))
                .collect::<Result<Vec<_>>>()?;
            // Bound once now, so that mistakes are told now; PostgreSQL prepares nothing but planned statements.
            let settings = WithParameters(settings);
            match bind_part(source, statement, &[], &types, catalog, &settings)? {
                Statement::Planned(_) => {}
                _ => return Err(source.syntax_error(statement.0)),
            }
            Utility::Prepare {
                name,
                types,
                sql: source.text[statement.0..statement.1].to_owned(),
            }
        }
        Syntax::Declare {
            name,
            options,
            statement,
        } => {
            let query = bind_part(source, statement, &[], declared, catalog, settings)?;
            let sql = source.text[statement.0..statement.1].to_owned();
            match &query {
                Statement::Planned(plan) => match &plan.body {
                    PlanBody::Select(select) => may_be_locked(select, options)?,
                    PlanBody::With(_) => {
                        let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
                        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                    }
                    _ => return Err(source.syntax_error(statement.0)),
                },
                _ => return Err(source.syntax_error(statement.0)),
            }
            Utility::Declare {
                name,
                options,
                statement: query,
                sql,
            }
        }
        Syntax::Execute { name, arguments } => {
            let context = context(source, catalog, settings);
            Utility::Execute {
                name,
                arguments: context.execute_arguments(arguments)?,
            }
        }
        Syntax::Copy(copy) => {
            let context = context(source, catalog, settings);
            Utility::Copy(context.copy(*copy, settings)?)
        }
        Syntax::AlterSequence(sequence) => {
            let context = context(source, catalog, settings);
            Utility::Schema(context.alter_sequence(&sequence)?)
        }
        Syntax::AlterTable(alter) => {
            let context = context(source, catalog, settings);
            let change = with_stack_for(source.text, || context.alter_by_pieces(&alter));
            Utility::Schema(change?)
        }
        Syntax::Comment(syntax) => {
            let context = context(source, catalog, settings);
            Utility::Schema(context.remark(syntax)?)
        }
        Syntax::Domain(statement) => {
            let context = context(source, catalog, settings);
            Utility::Schema(context.domain_statement(statement)?)
        }
        Syntax::Enum(statement) => {
            let context = context(source, catalog, settings);
            Utility::Schema(context.enum_statement(statement)?)
        }
        Syntax::Do(block) => Utility::Schema(SchemaChange::Do(Definitions {
            block,
            settings: TextSettings {
                text: settings.text_context(),
                path: settings.search_path(),
            },
        })),
        Syntax::Schema(syntax) => {
            let context = context(source, catalog, settings);
            match syntax {
                SchemaSyntax::Refresh {
                    relation,
                    with_data,
                    concurrently,
                } => Utility::CreateTableAs(context.refresh(&relation, with_data, concurrently)?),
                syntax => Utility::Schema(context.schema_change(syntax)?),
            }
        }
        Syntax::Materialised(syntax) => {
            let context = context(source, catalog, settings);
            Utility::CreateTableAs(context.create_materialised(syntax)?)
        }
        Syntax::CreateSequence(sequence) => {
            let context = context(source, catalog, settings);
            Utility::Schema(context.create_sequence(&sequence)?)
        }
    };
    Ok(Statement::Utility(Arc::new(utility)))
}

/// Settings for the statement within a PREPARE, which may name parameters wherever it comes from.
struct WithParameters<'a>(&'a dyn BindSettings);

impl BindSettings for WithParameters<'_> {
    fn text_context(&self) -> TextContext {
        self.0.text_context()
    }

    fn search_path(&self) -> SearchPath {
        self.0.search_path()
    }
}

fn context<'a>(source: Source<'a>, catalog: &'a Catalog, settings: &dyn BindSettings) -> Context<'a> {
    Context::new(
        source,
        catalog,
        settings.text_context(),
        settings.search_path().resolve(catalog),
    )
}

/// Whether the rows of a cursor with these options may be locked.
fn may_be_locked(query: &SelectPlan, options: CursorOptions) -> Result<()> {
    if query.lock.is_none() {
        return Ok(());
    }
    if options.hold {
        let message = "DECLARE CURSOR WITH HOLD ... FOR UPDATE is not supported";
        return Err(
            Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail("Holdable cursors must be READ ONLY.")
        );
    }
    if options.scrolls == Some(true) {
        let message = "DECLARE SCROLL CURSOR ... FOR UPDATE is not supported";
        return Err(
            Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail("Scrollable cursors must be READ ONLY.")
        );
    }
    if options.insensitive {
        let message = "DECLARE INSENSITIVE CURSOR ... FOR UPDATE is not valid";
        return Err(Error::new(SqlState::INVALID_CURSOR_DEFINITION, message)
            .with_detail("Insensitive cursors must be READ ONLY."));
    }
    Ok(())
}

fn prepared_type(context: &Context<'_>, (start, end): (usize, usize)) -> Result<DataType> {
    let source = context.source;
    let part = Source {
        text: &source.text[start..end],
        ..source.tail(start)
    };
    if part.text.trim().eq_ignore_ascii_case("unknown") {
        return Ok(DataType::Unknown);
    }
    Ok(context.bind_type(&parse_type(part)?)?.data_type)
}

impl<'a> Context<'a> {
    /// The arguments, each with its position.
    fn execute_arguments(&self, range: Option<(usize, usize)>) -> Result<Vec<(Expr, Option<u32>)>> {
        let Some(range) = range.filter(|(start, end)| !self.source.text[*start..*end].trim().is_empty()) else {
            return Ok(Vec::new());
        };
        let context = self.part(range);
        let part = context.source;
        let scope = Scope::default();
        let binder = ExpressionBinder::new(&context, &scope, "EXECUTE parameter");
        let bind = |expr: &ast::Expr| {
            let position = context.position(ast::Spanned::span(expr));
            Ok((context.settle(binder.bind(expr)?)?.expr.fold_constants(), position))
        };
        parse_expressions(part)?.iter().map(bind).collect()
    }

    fn copy(&self, copy: CopySyntax, settings: &dyn BindSettings) -> Result<CopyStatement> {
        let mut statement = CopyStatement {
            from: copy.from,
            table: None,
            columns: Vec::new(),
            query: None,
            output: Vec::new(),
            format: copy.options.format,
            delimiter: copy.options.delimiter,
            null: copy.options.null,
            header: copy.options.header,
            quote: copy.options.quote,
            escape: copy.options.escape,
            force_quote: Vec::new(),
            match_header: copy.options.match_header,
            force_null: Vec::new(),
            force_not_null: Vec::new(),
            filter: None,
        };
        match (&copy.table, copy.query) {
            (Some(path), _) => self.copy_table(path, &copy.columns, &mut statement)?,
            (None, Some((start, end))) => self.copy_query((start, end), settings, &mut statement)?,
            (None, None) => return Err(Error::internal("COPY without a table or query")),
        }
        if let (Some(range), Some(table)) = (copy.filter, &statement.table) {
            statement.filter = Some(self.copy_filter(range, table)?);
        }
        let names: Vec<&str> = statement.output.iter().map(|column| column.name.as_str()).collect();
        let places = |option: &str, wanted: &[String]| -> Result<Vec<usize>> {
            let place = |name: &String| {
                names.iter().position(|other| other == name).ok_or_else(|| {
                    let message = format!("{option} column \"{name}\" not referenced by COPY");
                    Error::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                })
            };
            wanted.iter().map(place).collect()
        };
        let force_null = places("FORCE_NULL", &copy.options.force_null)?;
        let force_not_null = places("FORCE_NOT_NULL", &copy.options.force_not_null)?;
        let force_quote = match &copy.options.force_quote {
            None => (0..names.len()).collect(),
            Some(wanted) => places("FORCE_QUOTE", wanted)?,
        };
        Ok(CopyStatement {
            force_quote,
            force_null,
            force_not_null,
            ..statement
        })
    }

    /// The condition of COPY FROM ... WHERE, over the table's columns.
    fn copy_filter(&self, range: (usize, usize), table: &Arc<Table>) -> Result<Expr> {
        let context = self.part(range);
        let expr = parse_expression(context.source)?;
        let scope = Scope::of_table(table, &table.name);
        let binder = ExpressionBinder::new(&context, &scope, "COPY FROM WHERE conditions");
        let condition = context.condition(binder.bind(&expr)?, "WHERE");
        Ok(located(&context, ast::Spanned::span(&expr), condition)?.fold_constants())
    }

    /// The context of a part of the text.
    pub(super) fn part(&self, (start, end): (usize, usize)) -> Context<'a> {
        self.over(Source {
            text: &self.source.text[start..end],
            ..self.source.tail(start)
        })
    }

    fn copy_table(&self, path: &[String], names: &[String], statement: &mut CopyStatement) -> Result<()> {
        let relation = self.relation_by_path(path)?;
        let table = match relation {
            NamedRelation::Table(table) if table.materialised.is_some() => {
                let name = &table.name;
                let (message, hint) = match statement.from {
                    true => (format!("cannot change materialized view \"{name}\""), ""),
                    false => (
                        format!("cannot copy from materialized view \"{name}\""),
                        "Try the COPY (SELECT ...) TO variant.",
                    ),
                };
                let error = Error::new(SqlState::WRONG_OBJECT_TYPE, message);
                return Err(if hint.is_empty() { error } else { error.with_hint(hint) });
            }
            NamedRelation::Table(table) => table,
            NamedRelation::System(system) if statement.from => {
                return Err(Error::new(
                    SqlState::INSUFFICIENT_PRIVILEGE,
                    format!("permission denied: \"{}\" is a system catalog", system.short_name()),
                ));
            }
            NamedRelation::View(view) => {
                let direction = if statement.from { "to" } else { "from" };
                let error = Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot copy {direction} view \"{}\"", view.name),
                );
                return Err(if statement.from {
                    error.with_hint("Copy into the tables that it reads.")
                } else {
                    error.with_hint("Try the COPY (SELECT ...) TO variant.")
                });
            }
            NamedRelation::System(_) => {
                return Err(Error::unsupported("COPY of a system table").with_hint("COPY (SELECT ...) TO STDOUT."));
            }
        };
        statement.columns = if names.is_empty() {
            (0..table.columns.len())
                .filter(|column| !table.columns[*column].dropped && table.columns[*column].generated.is_none())
                .collect()
        } else {
            names
                .iter()
                .map(|name| find_column(&table, name))
                .collect::<Result<_>>()?
        };
        let generated = statement.columns.iter().map(|column| &table.columns[*column]);
        if let Some(column) = generated.into_iter().find(|column| column.generated.is_some()) {
            let message = format!("column \"{}\" is a generated column", column.name);
            return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                .with_detail("Generated columns cannot be used in COPY."));
        }
        let mut seen = statement.columns.clone();
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = &table.columns[twice[0]].name;
            let message = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        statement.output = statement
            .columns
            .iter()
            .map(|index| {
                let column = &table.columns[*index];
                let ColumnType { data_type, modifier } = column.column_type;
                let column_number = i16::try_from(index + 1).unwrap_or(0);
                OutputColumn {
                    name: column.name.clone(),
                    data_type,
                    modifier,
                    table: Some(TableId(table.oid)),
                    column_number,
                    told_type: None,
                }
            })
            .collect();
        if !statement.from {
            let scan = crate::planner::plan_table_scan(&table, &statement.columns);
            let context = self.over(self.source);
            let plan = context.finished(PlanBody::Select(scan), statement.output.clone())?;
            statement.query = Some(plan);
        }
        statement.table = Some(table);
        Ok(())
    }

    fn copy_query(
        &self,
        (start, end): (usize, usize),
        settings: &dyn BindSettings,
        statement: &mut CopyStatement,
    ) -> Result<()> {
        let part = Source {
            text: &self.source.text[start..end],
            ..self.source.tail(start)
        };
        let parsed = parse_statement(part)?;
        let ast::Statement::Query(query) = &parsed.statement else {
            return Err(Error::unsupported("COPY of anything but a query").with_hint("COPY (SELECT ...) TO STDOUT."));
        };
        let context = context(part, self.catalog, settings);
        let (select, output) = context.query(query, &[])?;
        let plan = context.plan(select);
        statement.query = Some(context.finished(PlanBody::Select(plan), output.clone())?);
        statement.output = output;
        Ok(())
    }
}
