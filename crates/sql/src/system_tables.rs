//! The part of `pg_catalog` and `information_schema` that drivers and people look into, made from a catalog version.
//!
//! Rows exist only while a statement reads them. Columns that say what this system does not have hold what PostgreSQL would say of
//! a table without it. Lists of other kinds (`reloptions`, privileges) are shown as text.

mod definitions;
mod information;
mod keywords;
mod live;
mod relations;
mod values;

pub(crate) use definitions::quoted;
pub(crate) use values::DATABASES;

use crate::binder::{Hidden, ScopeColumn};
use crate::catalog::Catalog;
use crate::insight::{Insight, SessionFacts};
use rubato_base::{ColumnType, DataType, Result, SessionId, Value};
use rubato_protocol::FormulaDatabase;
use rubato_stages::StageMetrics;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The oid of the schema `pg_catalog`.
const PG_CATALOG: u32 = 11;
/// The oid of the schema `public`.
const PUBLIC: u32 = 2200;
/// The oid of the schema `information_schema`.
const INFORMATION_SCHEMA: u32 = 13_000;
/// The oid of the schema `rubato`, which holds the views of what happens now.
const RUBATO: u32 = 13_001;
/// The oid of the role that owns everything.
const OWNER: u32 = 10;
/// Its name.
const OWNER_NAME: &str = "rubato";

/// Whether this is the number of a system table.
pub(crate) fn has_number(number: i64) -> bool {
    tables().any(|table| i64::from(table.oid) == number)
}

/// A system table.
pub(crate) struct SystemTable {
    /// Its name with the schema.
    pub name: &'static str,
    /// PostgreSQL's number of it, where it has one.
    pub oid: u32,
    /// Names and types of its columns.
    pub columns: &'static [(&'static str, DataType)],
    rows: fn(&Catalog) -> Vec<Vec<Value>>,
}

impl SystemTable {
    /// The name without the schema.
    pub fn short_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, name)| name)
    }

    fn schema(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(schema, _)| schema)
    }

    /// The columns as names see them.
    pub fn scope_columns(&self) -> Vec<ScopeColumn> {
        let column = |(name, data_type): &(&str, DataType)| ScopeColumn {
            name: (*name).to_owned(),
            column_type: ColumnType::plain(*data_type),
            hidden: Hidden::No,
        };
        self.columns.iter().map(column).collect()
    }
}

/// The system table of this name; those of `pg_catalog` are found without their schema too.
pub(crate) fn find(schema: Option<&str>, name: &str) -> Option<&'static SystemTable> {
    let schema = schema.unwrap_or("pg_catalog");
    tables().find(|table| table.schema() == schema && table.short_name() == name)
}

/// Functions of many rows, which stand in FROM with brackets; `name` has them.
static FUNCTIONS: &[SystemTable] = &[SystemTable {
    name: "pg_catalog.pg_get_keywords()",
    oid: 1686,
    columns: &[
        ("word", DataType::Text),
        ("catcode", DataType::Text),
        ("barelabel", DataType::Bool),
        ("catdesc", DataType::Text),
        ("baredesc", DataType::Text),
    ],
    rows: |_| keywords::rows(),
}];

/// The function of many rows of this name, without arguments.
pub(crate) fn function(name: &str) -> Option<&'static SystemTable> {
    FUNCTIONS
        .iter()
        .find(|function| function.short_name().strip_suffix("()") == Some(name))
}

fn tables() -> impl Iterator<Item = &'static SystemTable> {
    relations::TABLES
        .iter()
        .chain(values::TABLES)
        .chain(information::TABLES)
        .chain(live::tables())
}

/// What views of the moment look into.
struct Live<'a> {
    catalog: &'a Catalog,
    database: &'a FormulaDatabase,
    sessions: BTreeMap<SessionId, Arc<SessionFacts>>,
    stages: Vec<Arc<StageMetrics>>,
    counters: Vec<(&'static str, i64)>,
    /// In microseconds since 2000-01-01 UTC.
    now_us: i64,
}

/// All rows of the system table that a plan names (`schema.name`), one value a column. An unknown name has none.
pub fn rows(
    name: &str,
    catalog: &Catalog,
    database: &FormulaDatabase,
    insight: &Insight,
    now_us: i64,
) -> Result<Vec<Vec<Value>>> {
    if !live::tables().any(|table| table.name == name) {
        return Ok(of_catalog(name, catalog));
    }
    let live = Live {
        catalog,
        database,
        sessions: insight.sessions(),
        stages: insight.stages(),
        counters: insight.counters(),
        now_us,
    };
    Ok(live::rows(name, &live))
}

fn of_catalog(name: &str, catalog: &Catalog) -> Vec<Vec<Value>> {
    tables()
        .chain(FUNCTIONS)
        .find(|table| table.name == name)
        .map(|table| (table.rows)(catalog))
        .unwrap_or_default()
}

fn oid(number: u32) -> Value {
    Value::Int8(i64::from(number))
}

fn text(text: &str) -> Value {
    Value::text(text)
}

fn int2(number: usize) -> Value {
    Value::Int2(i16::try_from(number).unwrap_or(i16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_every_column_of_its_type() {
        let catalog = crate::binder::tests_support::catalog_of(&[
            "create table parent (id serial primary key, name varchar(10) not null unique, at timestamptz default now())",
            "create table child (a int, b numeric(12,2) check (b > 0), p int references parent on delete cascade, unique (a, b))",
            "create index child_p on child (p)",
            "create table plain (x text)",
        ]);
        let mut seen = 0;
        for table in tables() {
            for row in of_catalog(table.name, &catalog) {
                assert_eq!(row.len(), table.columns.len(), "{}", table.name);
                for (value, (name, data_type)) in row.iter().zip(table.columns) {
                    let fits = match value {
                        Value::Null => true,
                        Value::Int8(_) => matches!(data_type, DataType::Int8 | DataType::Oid),
                        Value::Text(_) => data_type.is_text(),
                        Value::Array(array) => data_type.element() == Some(array.element),
                        other => other.data_type() == *data_type,
                    };
                    assert!(fits, "{}.{name}: {value:?} is no {data_type}", table.name);
                    seen += 1;
                }
            }
        }
        assert!(seen > 1000);
    }

    #[test]
    fn tables_are_found_by_name() {
        assert!(find(None, "pg_class").is_some());
        assert!(find(Some("pg_catalog"), "pg_tables").is_some());
        assert!(find(Some("information_schema"), "tables").is_some());
        assert!(find(None, "tables").is_none());
        assert!(find(Some("rubato"), "hot_items").is_some());
        assert!(of_catalog("pg_catalog.nothing", &Catalog::default()).is_empty());
    }
}
