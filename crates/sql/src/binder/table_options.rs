//! What CREATE TABLE says of a table beside its columns and constraints.

use super::dml::find_column;
use crate::catalog::{OnCommit, PARTS_MAX, RelationName, Spread, SpreadWay, Table};
use crate::moves::{STEP_ROWS, STEP_ROWS_MAX};
use crate::parser::syntax::fold;
use rubato_base::text_format::{TextContext, parse_text};
use rubato_base::{Error, Key, NodeId, Result, SqlState, Value};
use sqlparser::ast;
use std::collections::BTreeSet;

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

/// The options of `WITH (...)`, by name; what is not about the grid is about PostgreSQL's files.
fn options(statement: &ast::CreateTable) -> Vec<(String, Option<String>)> {
    let (ast::CreateTableOptions::With(list) | ast::CreateTableOptions::Options(list)) = &statement.table_options
    else {
        return Vec::new();
    };
    let named = |option: &ast::SqlOption| match option {
        ast::SqlOption::Ident(own) => Some((fold(own), None)),
        ast::SqlOption::KeyValue { key, value } => {
            let text = match value {
                ast::Expr::Value(value) => value.value.clone().into_string(),
                _ => None,
            };
            Some((fold(key), Some(text.unwrap_or_else(|| value.to_string()))))
        }
        _ => None,
    };
    list.iter().filter_map(named).collect()
}

/// How the rows of a new table lie on the nodes of a grid: on all, by the first column of the primary key, unless the options say
/// something else. Its columns and keys are known.
pub(super) fn spread(statement: &ast::CreateTable, table: &Table) -> Result<Option<Spread>> {
    let options = options(statement);
    if step_of(&options)?.is_some() {
        let message = "\"spread_nodes\" is for the rows of a table that is there";
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message).with_hint(
            "A new table lies on all nodes of the grid; ALTER TABLE ... SET (spread_nodes = ...) moves it.",
        ));
    }
    let said = spread_of(&options, table)?;
    match (said, table.schema.is_temporary()) {
        (Some(Some(_)), true) => Err(Error::unsupported("a temporary table that is spread over nodes")),
        (_, true) => Ok(None),
        (said, false) => Ok(said.unwrap_or_else(|| Some(Spread::default()))),
    }
}

/// What options say of how a table's rows lie: `None` if nothing. `Some(None)`: all on the keeper.
///
/// Errors: 22023 for values that are none, 42703 for a column that is not there.
pub(super) fn spread_of(options: &[(String, Option<String>)], table: &Table) -> Result<Option<Option<Spread>>> {
    let find = |name: &str| {
        options
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_deref())
    };
    let (spread, by) = (find("spread"), find("spread_by").flatten());
    let (parts, bounds) = (find("spread_parts").flatten(), find("spread_bounds").flatten());
    let word = spread.map(|value| value.unwrap_or("true").to_ascii_lowercase());
    let says_how = by.is_some() || parts.is_some() || bounds.is_some();
    let way = match word.as_deref() {
        None if !says_how => return Ok(None),
        None | Some("true" | "on" | "1") => way_of(by, parts, bounds, table)?,
        Some("false" | "off" | "0" | "everywhere") if says_how => {
            let message =
                "\"spread_by\", \"spread_parts\" and \"spread_bounds\" are for tables of which each node has some rows";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Some("false" | "off" | "0") => return Ok(Some(None)),
        Some("everywhere") => SpreadWay::Everywhere,
        Some(other) => {
            let message = format!("invalid value for option \"spread\": {other}");
            return Err(
                Error::new(SqlState::INVALID_PARAMETER_VALUE, message).with_hint("It is true, false or everywhere.")
            );
        }
    };
    Ok(Some(Some(Spread::of_way(way))))
}

/// `spread_nodes`, the nodes that a table is to lie on, in ascending order, and `spread_rows`, how many rows one step moves there.
///
/// Errors: 22023 for values that are none.
pub(super) fn step_of(options: &[(String, Option<String>)]) -> Result<Option<(Vec<NodeId>, usize)>> {
    let invalid = |message: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let find = |name: &str| options.iter().find(|(own, _)| own == name);
    let (nodes, rows) = (find("spread_nodes"), find("spread_rows"));
    let Some((_, nodes)) = nodes else {
        let alone = "\"spread_rows\" is said with \"spread_nodes\"";
        return rows.map_or(Ok(None), |_| Err(invalid(alone.to_owned())));
    };
    if options.len() > 1 + usize::from(rows.is_some()) {
        return Err(invalid(
            "\"spread_nodes\" is said alone, or with \"spread_rows\"".to_owned(),
        ));
    }
    let said = nodes.as_deref().unwrap_or_default();
    let numbers = said.split(',').map(|number| number.trim().parse().map(NodeId));
    let nodes = numbers.collect::<std::result::Result<BTreeSet<NodeId>, _>>();
    let nodes = nodes.map_err(|_| {
        invalid(format!("invalid value for option \"spread_nodes\": {said}"))
            .with_hint("It is a list of numbers of nodes, as '0,2'.")
    })?;
    let rows = rows.map_or(Ok(STEP_ROWS), |(_, rows)| rows.as_deref().unwrap_or_default().parse());
    match rows {
        Ok(rows @ 1..=STEP_ROWS_MAX) => Ok(Some((nodes.into_iter().collect(), rows))),
        _ => Err(invalid(format!(
            "\"spread_rows\" is a number from 1 to {STEP_ROWS_MAX}"
        ))),
    }
}

fn way_of(by: Option<&str>, parts: Option<&str>, bounds: Option<&str>, table: &Table) -> Result<SpreadWay> {
    let invalid = |message: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let column = match by {
        None => None,
        Some(name) => {
            let column = find_column(table, name)?;
            if !table.primary_key.contains(&column) {
                let message = format!("column \"{name}\" named in \"spread_by\" is not part of the primary key");
                return Err(invalid(message));
            }
            Some(column)
        }
    };
    let (Some(bounds), None) = (bounds, parts) else {
        if bounds.is_some() {
            return Err(invalid(
                "\"spread_parts\" and \"spread_bounds\" exclude each other".to_owned(),
            ));
        }
        let parts = match parts.map(|parts| parts.parse::<u16>()) {
            None => PARTS_MAX,
            Some(Ok(parts @ 1..=PARTS_MAX)) => parts,
            Some(_) => return Err(invalid(format!("\"spread_parts\" is a number from 1 to {PARTS_MAX}"))),
        };
        return Ok(SpreadWay::Hash { column, parts });
    };
    let bounds = bounds_of(bounds, column, table)?;
    Ok(SpreadWay::Range { column, bounds })
}

/// `spread_bounds`: an array of values of the column, ascending.
fn bounds_of(text: &str, column: Option<usize>, table: &Table) -> Result<Vec<Value>> {
    let invalid = |message: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let Some(column) = column.or_else(|| table.primary_key.first().copied()) else {
        return Err(invalid(format!(
            "table \"{}\" has no primary key, whose ranges \"spread_bounds\" tells",
            table.name
        )));
    };
    let column_type = table.key_type(column);
    let array = column_type.data_type.array();
    let array = array.ok_or_else(|| invalid("\"spread_bounds\" cannot be of this type".to_owned()))?;
    let bounds = match parse_text(array, column_type.modifier, text, &TextContext::default())? {
        Value::Array(array) => array.items.clone(),
        _ => Vec::new(),
    };
    let keys: Vec<Key> = bounds
        .iter()
        .map(|bound| Key::of(std::slice::from_ref(bound)))
        .collect();
    let is_ascending = keys.windows(2).all(|pair| pair[0] < pair[1]);
    if bounds.is_empty() || bounds.len() >= usize::from(PARTS_MAX) || bounds.iter().any(Value::is_null) || !is_ascending
    {
        return Err(invalid(format!(
            "\"spread_bounds\" is an array of 1 to {} values in ascending order",
            PARTS_MAX - 1
        )));
    }
    Ok(bounds)
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
