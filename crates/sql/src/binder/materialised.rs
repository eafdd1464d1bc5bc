//! CREATE and REFRESH MATERIALIZED VIEW: a table with the columns of a query, and then its rows.

use super::create_as::table_with;
use super::{Context, no_relation};
use crate::catalog::{Materialised, OnCommit, RelationName, Table};
use crate::parser::syntax::{Source, parse_statement, with_stack_for};
use crate::parser::utility::MaterialisedSyntax;
use crate::plan::{Plan, PlanBody};
use crate::statement::{CreateTableAs, SchemaChange};
use crate::system_tables::written_with_schema;
use rubato_base::{Error, Result, SqlState};
use sqlparser::ast;
use std::sync::Arc;

impl Context<'_> {
    pub(super) fn create_materialised(self, syntax: MaterialisedSyntax) -> Result<CreateTableAs> {
        let name = self.new_name(&syntax.name, false)?;
        let (start, end) = syntax.query;
        let part = self.over(Source {
            text: &self.source.text[start..end],
            ..self.source.tail(start)
        });
        part.defines_view.set(!syntax.with_data);
        let (mut table, source) = part.materialised(&name, &syntax.columns)?;
        if let Some(materialised) = &mut table.materialised {
            Arc::make_mut(materialised).is_populated = syntax.with_data;
        }
        Ok(CreateTableAs {
            change: SchemaChange::CreateTable {
                table: Box::new(table),
                sequences: Vec::new(),
                comments: Vec::new(),
                if_not_exists: syntax.if_not_exists,
            },
            name,
            source,
            with_data: syntax.with_data,
            tag: "CREATE MATERIALIZED VIEW",
        })
    }

    /// The view that the text is the query of, and the plan of its rows.
    fn materialised(self, name: &RelationName, columns: &[String]) -> Result<(Table, Arc<Plan>)> {
        let source = self.source;
        with_stack_for(source.text, || {
            let parsed = parse_statement(source)?;
            let ast::Statement::Query(query) = &parsed.statement else {
                return Err(source.syntax_error(0));
            };
            if crate::parser::highest_parameter(source.text).is_some_and(|number| number > 0) {
                let message = "materialized views may not be defined using bound parameters";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let (query, select, output) = self.view_query(query)?;
            if query
                .depends
                .iter()
                .any(|dependency| dependency.relation.schema.is_temporary())
            {
                let message = "materialized views must not use temporary tables or views";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            if columns.len() > output.len() {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    "too many column names were specified",
                ));
            }
            let mut table = table_with(name, columns, &output)?;
            table.on_commit = OnCommit::Preserve;
            table.materialised = Some(Arc::new(Materialised {
                query,
                is_populated: true,
            }));
            let plan = self.plan(select);
            Ok((table, self.finished(PlanBody::Select(plan), output)?))
        })
    }

    /// REFRESH: the rows are made anew of what the query gives now.
    pub(super) fn refresh(self, path: &[String], with_data: bool, concurrently: bool) -> Result<CreateTableAs> {
        let name = self.old_name(path)?;
        let Some(table) = self.catalog.tables.get(&name) else {
            return Err(match self.catalog.has_relation(&name) {
                true => not_materialised(&name),
                false => no_relation(&path.join(".")),
            });
        };
        let Some(materialised) = table.materialised.clone() else {
            return Err(not_materialised(&name));
        };
        if concurrently {
            self.check_concurrent(table, &materialised, with_data)?;
        }
        let part = self.over(Source::new(&materialised.query.text));
        part.views.borrow_mut().push(materialised.query.clone());
        part.defines_view.set(!with_data);
        let columns: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
        let (made, source) = part.materialised(&name, &columns).map_err(Error::without_position)?;
        check_types(table, &made)?;
        Ok(CreateTableAs {
            change: SchemaChange::Refresh {
                name: name.clone(),
                with_data,
            },
            name,
            source,
            with_data,
            tag: "REFRESH MATERIALIZED VIEW",
        })
    }

    /// What CONCURRENTLY asks for: rows to compare with, and an index to compare them by.
    fn check_concurrent(&self, table: &Table, materialised: &Materialised, with_data: bool) -> Result<()> {
        if !with_data {
            let message = "REFRESH options CONCURRENTLY and WITH NO DATA cannot be used together";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        if !materialised.is_populated {
            let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if !table.indexes.iter().any(|index| index.unique && index.is_plain()) {
            let message = format!(
                "cannot refresh materialized view \"{}\" concurrently",
                written_with_schema(self.catalog, &table.key())
            );
            return Err(
                Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(
                    "Create a unique index with no WHERE clause on one or more columns of the materialized view.",
                ),
            );
        }
        Ok(())
    }
}

/// 42804: the query of a materialised view gives other types than its columns have, as a program of before made them.
fn check_types(table: &Table, made: &Table) -> Result<()> {
    let mut pairs = table.columns.iter().zip(&made.columns);
    let Some((column, now)) = pairs.find(|(own, made)| own.column_type.data_type != made.column_type.data_type) else {
        return Ok(());
    };
    let (own, now) = (column.column_type.data_type, now.column_type.data_type);
    let message = format!(
        "column \"{}\" of materialized view \"{}\" has type {own}, its query gives {now}",
        column.name, table.name
    );
    Err(Error::new(SqlState::DATATYPE_MISMATCH, message).with_hint("Drop the view and make it again."))
}

fn not_materialised(name: &RelationName) -> Error {
    let message = format!("\"{name}\" is not a materialized view");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
