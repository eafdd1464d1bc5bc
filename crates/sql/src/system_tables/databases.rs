//! What is told of databases: the tables that all of them share, and functions that name a database.

use super::singles::counted_else_nothing;
use super::{Live, OWNER, find, int4, oid, text};
use crate::databases::{Databases, no_database};
use rubato_base::{Array, DataType, Error, Result, SqlState, Value};
use std::sync::Arc;

/// The oid of `pg_database`.
const CATALOG: u32 = 1262;
/// What may be granted on a database.
const PRIVILEGES: [&str; 4] = ["create", "connect", "temporary", "temp"];

/// A row of a system table: what is said by name, and what it holds where nothing is said.
pub(super) fn row(table: &str, said: &[(&str, Value)]) -> Vec<Value> {
    let Some(table) = find(None, table) else {
        return Vec::new();
    };
    let value = |name: &str| {
        said.iter()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value.clone())
    };
    let columns = table.columns.iter();
    let values = columns.map(|column| value(column.name).unwrap_or_else(|| column.default.clone()));
    values.chain([oid(table.oid)]).collect()
}

/// `pg_database`.
pub(super) fn databases(live: &Live<'_>) -> Vec<Vec<Value>> {
    let listed = live.databases.listed().map(|(number, name, database)| {
        let facts = &database.facts;
        // What goes over all databases (pg_dumpall) is to come to each once: not to the first one's second name, too.
        let is_itself = number == facts.id.0;
        let said = [
            ("oid", oid(number)),
            ("datname", text(name)),
            ("datdba", oid(OWNER)),
            ("encoding", Value::Int4(6)),
            ("datlocprovider", text("c")),
            ("datistemplate", Value::Bool(facts.is_template)),
            ("datallowconn", Value::Bool(facts.allows_connections && is_itself)),
            ("datconnlimit", Value::Int4(facts.connections_max)),
            ("dattablespace", oid(1663)),
            ("datcollate", text("C")),
            ("datctype", text("C")),
        ];
        row("pg_database", &said)
    });
    listed.collect()
}

/// `pg_stat_database`.
pub(super) fn statistics(live: &Live<'_>) -> Vec<Vec<Value>> {
    let listed = live.databases.listed().map(|(number, name, _)| {
        let sessions = live.sessions.values();
        let count = sessions.filter(|facts| facts.identity.database == name).count();
        let said = [
            ("datid", oid(number)),
            ("datname", text(name)),
            ("numbackends", int4(count as i64)),
        ];
        counted_else_nothing("pg_stat_database", row("pg_stat_database", &said))
    });
    listed.collect()
}

/// `pg_db_role_setting`.
pub(super) fn settings(live: &Live<'_>) -> Vec<Vec<Value>> {
    let with_settings = live
        .databases
        .iter()
        .filter(|database| !database.facts.settings.is_empty());
    let rows = with_settings.map(|database| {
        let settings = database.facts.settings.iter();
        let settings = settings.map(|(name, value)| text(&format!("{name}={value}"))).collect();
        let said = [
            ("setdatabase", oid(database.facts.id.0)),
            (
                "setconfig",
                Value::Array(Arc::new(Array::new(DataType::Text, settings))),
            ),
        ];
        row("pg_db_role_setting", &said)
    });
    rows.collect()
}

/// `pg_shdescription`.
pub(super) fn descriptions(live: &Live<'_>) -> Vec<Vec<Value>> {
    let rows = live.databases.iter().filter_map(|database| {
        let comment = database.facts.comment.as_deref()?;
        let said = [
            ("objoid", oid(database.facts.id.0)),
            ("classoid", oid(CATALOG)),
            ("description", text(comment)),
        ];
        Some(row("pg_shdescription", &said))
    });
    rows.collect()
}

/// The value of a function that asks about a database, for arguments of which none is NULL; `None` for any other function.
pub(crate) fn shared_function(name: &str, arguments: &[Value], databases: &Databases) -> Option<Result<Value>> {
    match (name, arguments) {
        ("shobj_description", [number, Value::Text(catalog)]) => {
            let wanted = number.as_i64().filter(|_| catalog.as_str() == "pg_database");
            let mut all = databases.iter();
            let found = all.find(|database| Some(i64::from(database.facts.id.0)) == wanted);
            let comment = found.and_then(|database| database.facts.comment.as_deref());
            Some(Ok(comment.map_or(Value::Null, text)))
        }
        ("has_database_privilege", [.., database, Value::Text(privileges)]) => {
            Some(may_do(database, privileges.as_str(), databases))
        }
        _ => None,
    }
}

/// Whoever is logged in may do everything. 3D000, 22023.
fn may_do(database: &Value, privileges: &str, databases: &Databases) -> Result<Value> {
    let is_listed = match database {
        Value::Text(name) => {
            databases.find(name).ok_or_else(|| no_database(name))?;
            true
        }
        number => databases
            .listed()
            .any(|(listed, _, _)| Some(i64::from(listed)) == number.as_i64()),
    };
    for privilege in privileges.split(',') {
        let plain = privilege.trim().to_ascii_lowercase();
        let plain = plain.strip_suffix(" with grant option").unwrap_or(&plain);
        if !PRIVILEGES.contains(&plain) {
            let message = format!("unrecognized privilege type: \"{}\"", privilege.trim());
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    Ok(if is_listed { Value::Bool(true) } else { Value::Null })
}
