//! CREATE TABLE AS and SELECT INTO: a table with the columns of a query, and then its rows.

use super::system_columns::refuse_system_name;
use super::{Context, object_name};
use crate::catalog::{Column, OnCommit, RelationName, Spread, Table};
use crate::client::OutputColumn;
use crate::parser::UNTYPED;
use crate::parser::syntax::fold;
use crate::plan::PlanBody;
use crate::statement::{CreateTableAs, SchemaChange, Statement, Utility};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, TableId};
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Context<'_> {
    /// CREATE TABLE name [(columns)] AS query; `with_data` is false for WITH NO DATA.
    pub(super) fn create_table_as(
        self,
        statement: &ast::CreateTable,
        query: &ast::Query,
        with_data: bool,
    ) -> Result<Statement> {
        if statement.columns.iter().any(has_definition) || !statement.constraints.is_empty() {
            let message = "CREATE TABLE AS takes names of columns, without types and constraints";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let names: Vec<String> = statement.columns.iter().map(|column| fold(&column.name)).collect();
        let name = self.new_name(&object_name(&statement.name)?, statement.temporary)?;
        let on_commit = super::table_options::on_commit(statement, &name)?;
        self.table_of_query((name, statement.if_not_exists, on_commit), &names, query, with_data)
    }

    /// SELECT ... INTO name: the query without the clause, and the name.
    pub(super) fn select_into(self, query: &ast::Query) -> Result<Statement> {
        let mut query = query.clone();
        let into = match &mut *query.body {
            ast::SetExpr::Select(select) => select.into.take(),
            _ => None,
        };
        let Some(into) = into else {
            return Err(Error::internal("SELECT INTO without INTO"));
        };
        let path = match into.targets.as_slice() {
            [ast::Expr::Identifier(name)] => vec![fold(name)],
            [ast::Expr::CompoundIdentifier(names)] => names.iter().map(fold).collect(),
            _ => {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    "SELECT INTO takes the name of a table",
                ));
            }
        };
        let name = self.new_name(&path, into.temporary)?;
        self.table_of_query((name, false, OnCommit::Preserve), &[], &query, true)
    }

    fn table_of_query(
        self,
        (name, if_not_exists, on_commit): (RelationName, bool, OnCommit),
        names: &[String],
        query: &ast::Query,
        with_data: bool,
    ) -> Result<Statement> {
        let (select, output) = self.query(query, &[])?;
        if names.len() > output.len() {
            let message = "too many column names were specified";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut table = table_with(&name, names, &output)?;
        table.on_commit = on_commit;
        let plan = self.plan(select);
        let source = self.finished(PlanBody::Select(plan), output)?;
        let change = SchemaChange::CreateTable {
            table: Box::new(table),
            sequences: Vec::new(),
            comments: Vec::new(),
            if_not_exists,
        };
        Ok(Statement::Utility(Arc::new(Utility::CreateTableAs(CreateTableAs {
            change,
            name,
            source,
            with_data,
            tag: "CREATE TABLE AS",
        }))))
    }
}

fn has_definition(column: &ast::ColumnDef) -> bool {
    !column.data_type.to_string().eq_ignore_ascii_case(UNTYPED) || !column.options.is_empty()
}

pub(super) fn table_with(name: &RelationName, names: &[String], output: &[OutputColumn]) -> Result<Table> {
    let mut taken = BTreeSet::new();
    let mut columns = Vec::with_capacity(output.len());
    for (place, column) in output.iter().enumerate() {
        let own = names.get(place).unwrap_or(&column.name);
        refuse_system_name(own)?;
        if !taken.insert(own.clone()) {
            let message = format!("column \"{own}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if column.data_type == DataType::Void {
            let message = format!("column \"{own}\" has pseudo-type void");
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        columns.push(Column {
            name: own.clone(),
            column_type: ColumnType {
                data_type: column.data_type,
                modifier: column.modifier,
            },
            not_null: false,
            default: None,
            default_text: None,
            identity_always: None,
            generated: None,
            domain: None,
            missing: None,
            dropped: false,
        });
    }
    Ok(Table {
        oid: 0,
        id: TableId(0),
        schema: name.schema,
        name: name.name.clone(),
        columns,
        primary_key: Vec::new(),
        primary_key_name: String::new(),
        primary_key_included: Vec::new(),
        remarks: Default::default(),
        indexes: Vec::new(),
        expressions: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        referenced_by: Vec::new(),
        materialised: None,
        on_commit: OnCommit::Preserve,
        is_unchecked: false,
        spread: (!name.schema.is_temporary()).then(Spread::default),
        version: 0,
    })
}
