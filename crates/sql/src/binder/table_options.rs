//! What CREATE TABLE says of a table beside its columns and constraints.

use crate::catalog::{OnCommit, RelationName, Spread};
use crate::parser::syntax::fold;
use rubato_base::{Error, Result, SqlState};
use sqlparser::ast;

pub(super) fn refuse_parts(statement: &ast::CreateTable) -> Result<()> {
    let refused = [
        (statement.inherits.is_some(), "table inheritance"),
        (
            statement.partition_by.is_some() || statement.partition_of.is_some(),
            "PARTITION BY",
        ),
        (statement.external || statement.or_replace, "this form of CREATE TABLE"),
    ];
    match refused.iter().find(|(given, _)| *given) {
        Some((_, what)) => {
            Err(Error::unsupported(what)
                .with_hint("CREATE [UNLOGGED] TABLE with columns and constraints is supported."))
        }
        None => Ok(()),
    }
}

/// `WITH (spread)`: the rows lie on all nodes of a grid. What else stands there is about PostgreSQL's files.
pub(super) fn spread(statement: &ast::CreateTable, name: &RelationName) -> Result<Option<Spread>> {
    let (ast::CreateTableOptions::With(list) | ast::CreateTableOptions::Options(list)) = &statement.table_options
    else {
        return Ok(None);
    };
    let value_of = |option: &ast::SqlOption| match option {
        ast::SqlOption::Ident(own) if fold(own) == "spread" => Some("true".to_owned()),
        ast::SqlOption::KeyValue { key, value } if fold(key) == "spread" => Some(value.to_string()),
        _ => None,
    };
    let Some(value) = list.iter().find_map(value_of) else {
        return Ok(None);
    };
    match value.trim_matches('\'').to_ascii_lowercase().as_str() {
        "true" | "on" | "1" if name.schema.is_temporary() => {
            Err(Error::unsupported("a temporary table that is spread over nodes"))
        }
        "true" | "on" | "1" => Ok(Some(Spread::default())),
        "false" | "off" | "0" => Ok(None),
        _ => {
            let message = format!(
                "invalid value for boolean option \"spread\": {}",
                value.trim_matches('\'')
            );
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// ON COMMIT. 42P16 where the table is not temporary.
pub(super) fn on_commit(statement: &ast::CreateTable, name: &RelationName) -> Result<OnCommit> {
    let said = match statement.on_commit {
        None => return Ok(OnCommit::Preserve),
        Some(ast::OnCommit::PreserveRows) => OnCommit::Preserve,
        Some(ast::OnCommit::DeleteRows) => OnCommit::Delete,
        Some(ast::OnCommit::Drop) => OnCommit::Drop,
    };
    if !name.schema.is_temporary() {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    Ok(said)
}
