//! Functions of FROM that make rows of documents: queries over the documents are written, and bound in their place.

use super::types::bind_type;
use super::{Context, NamedRelation};
use crate::parser::syntax::{Source, fold, parse_statement};
use rubato_base::{DataType, Error, Result, SqlState};
use sqlparser::ast;

/// A function: its name, the type of its document, and whether that is an array of rows.
type DocumentFunction = (&'static str, &'static str, bool);

/// Functions whose columns their alias defines.
const RECORD_FUNCTIONS: [DocumentFunction; 4] = [
    ("json_to_record", "json", false),
    ("json_to_recordset", "json", true),
    ("jsonb_to_record", "jsonb", false),
    ("jsonb_to_recordset", "jsonb", true),
];

/// Functions whose columns are those of a table.
const POPULATING_FUNCTIONS: [DocumentFunction; 4] = [
    ("json_populate_record", "json", false),
    ("json_populate_recordset", "json", true),
    ("jsonb_populate_record", "jsonb", false),
    ("jsonb_populate_recordset", "jsonb", true),
];

fn of_name(functions: &'static [DocumentFunction], name: &str) -> Option<&'static DocumentFunction> {
    functions.iter().find(|(function, ..)| *function == name)
}

/// Whether it is a function whose columns its alias defines.
pub(super) fn is_record_function(name: &ast::ObjectName) -> bool {
    of_name(&RECORD_FUNCTIONS, &function_name(name)).is_some()
}

/// Whether it is a function whose columns are those of a table.
pub(super) fn is_populating(name: &ast::ObjectName) -> bool {
    of_name(&POPULATING_FUNCTIONS, &function_name(name)).is_some()
}

/// The name of a function without its schema.
pub(super) fn function_name(name: &ast::ObjectName) -> String {
    let last = name.0.last().and_then(ast::ObjectNamePart::as_ident);
    last.map(fold).unwrap_or_default()
}

/// A column that is read from a document: its name, and its type as it is and as it is written.
struct DocumentColumn {
    name: String,
    data_type: DataType,
    written: String,
}

/// The query that `json_to_recordset(document) AS alias (column type, ...)` is short for.
pub(super) fn record_query(
    name: &str,
    arguments: &[ast::FunctionArg],
    alias: Option<&ast::TableAlias>,
) -> Result<Box<ast::Query>> {
    let columns = alias.map_or(&[][..], |alias| alias.columns.as_slice());
    if columns.is_empty() || columns.iter().any(|column| column.data_type.is_none()) {
        let message = "a column definition list is required for functions returning \"record\"";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    let (Some(function), [document]) = (of_name(&RECORD_FUNCTIONS, name), arguments) else {
        return Err(no_such_call(name));
    };
    let mut wanted = Vec::with_capacity(columns.len());
    for column in columns {
        let Some(data_type) = &column.data_type else { continue };
        wanted.push(DocumentColumn {
            name: fold(&column.name),
            data_type: bind_type(data_type)?.data_type,
            written: data_type.to_string(),
        });
    }
    document_query(function, &wanted, document)
}

/// The query that `json_populate_recordset(NULL::table, document)` is short for.
pub(super) fn populating_query(
    context: &Context<'_>,
    name: &str,
    arguments: &[ast::FunctionArg],
) -> Result<Box<ast::Query>> {
    let (Some(function), [base, document]) = (of_name(&POPULATING_FUNCTIONS, name), arguments) else {
        return Err(no_such_call(name));
    };
    let NamedRelation::Table(table) = context.relation(row_type(base, name)?)? else {
        return Err(Error::unsupported(format!("{name} with rows of a view")));
    };
    let columns = table.columns.iter().filter(|column| !column.dropped);
    let wanted: Vec<DocumentColumn> = columns
        .map(|column| DocumentColumn {
            name: column.name.clone(),
            data_type: column.column_type.data_type,
            written: match &column.domain {
                Some(domain) => context.path.written_type(domain, context.catalog),
                None => context.path.named(column.column_type.to_string(), context.catalog),
            },
        })
        .collect();
    document_query(function, &wanted, document)
}

/// The table that `NULL::table` names. 0A000 for any other row to begin with.
fn row_type<'a>(base: &'a ast::FunctionArg, function: &str) -> Result<&'a ast::ObjectName> {
    if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Cast { expr, data_type, .. })) = base
        && let (ast::Expr::Value(value), ast::DataType::Custom(table, modifiers)) = (&**expr, data_type)
        && value.value == ast::Value::Null
        && modifiers.is_empty()
    {
        return Ok(table);
    }
    Err(Error::unsupported(format!(
        "{function} with a row that is not written NULL::table"
    )))
}

fn no_such_call(name: &str) -> Error {
    let message = format!("function {name} does not exist with these arguments");
    Error::new(SqlState::UNDEFINED_FUNCTION, message)
}

fn document_query(
    (name, kind, is_set): &DocumentFunction,
    columns: &[DocumentColumn],
    document: &ast::FunctionArg,
) -> Result<Box<ast::Query>> {
    let mut list = Vec::with_capacity(columns.len());
    for column in columns {
        let (key, data_type) = (column.name.replace('\'', "''"), &column.written);
        let value = match column.data_type {
            // A null of the document is none of SQL's.
            DataType::Json | DataType::Jsonb => format!(
                "(CASE WHEN {kind}_typeof(\"*document*\" -> '{key}') <> 'null' THEN \"*document*\" -> '{key}' END)::{data_type}"
            ),
            other if other.element().is_some() => {
                return Err(Error::unsupported(format!("a column of type {other} in {name}")));
            }
            _ => format!("(\"*document*\" ->> '{key}')::{data_type}"),
        };
        list.push(format!("{value} AS {}", crate::system_tables::quoted(&column.name)));
    }
    let rows = match is_set {
        true => format!("{kind}_array_elements(({document})::{kind})"),
        false => format!("(SELECT ({document})::{kind})"),
    };
    let text = format!(
        "SELECT {} FROM {rows} AS \"*documents*\" (\"*document*\")",
        list.join(", ")
    );
    match parse_statement(Source::new(&text))?.statement {
        ast::Statement::Query(query) => Ok(query),
        _ => Err(Error::internal("no query of documents")),
    }
}
