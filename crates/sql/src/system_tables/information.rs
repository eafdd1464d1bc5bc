//! `information_schema`.

use super::{SystemTable, text};
use crate::catalog::{Catalog, Column, Deferral, Table};
use DataType::{Int4, Text};
use rubato_base::{ColumnType, DataType, Value};

/// What `table_catalog` and its kin say.
const DATABASE: &str = "rubato";

pub(super) static TABLES: &[SystemTable] = &[
    SystemTable {
        name: "information_schema.schemata",
        oid: 13_001,
        columns: &[("catalog_name", Text), ("schema_name", Text), ("schema_owner", Text)],
        rows: |_| {
            ["pg_catalog", "public", "information_schema"]
                .map(|schema| vec![text(DATABASE), text(schema), text("rubato")])
                .to_vec()
        },
    },
    SystemTable {
        name: "information_schema.tables",
        oid: 13_002,
        columns: &[
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("table_type", Text),
            ("is_insertable_into", Text),
            ("is_typed", Text),
        ],
        rows: table_rows,
    },
    SystemTable {
        name: "information_schema.columns",
        oid: 13_003,
        columns: &[
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("column_name", Text),
            ("ordinal_position", Int4),
            ("column_default", Text),
            ("is_nullable", Text),
            ("data_type", Text),
            ("character_maximum_length", Int4),
            ("numeric_precision", Int4),
            ("numeric_scale", Int4),
            ("datetime_precision", Int4),
            ("udt_name", Text),
            ("is_identity", Text),
            ("identity_generation", Text),
            ("is_generated", Text),
            ("is_updatable", Text),
        ],
        rows: column_rows,
    },
    SystemTable {
        name: "information_schema.table_constraints",
        oid: 13_004,
        columns: &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("constraint_type", Text),
            ("is_deferrable", Text),
            ("initially_deferred", Text),
            ("enforced", Text),
        ],
        rows: constraint_rows,
    },
    SystemTable {
        name: "information_schema.key_column_usage",
        oid: 13_005,
        columns: &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("column_name", Text),
            ("ordinal_position", Int4),
        ],
        rows: key_rows,
    },
];

fn table_rows(catalog: &Catalog) -> Vec<Vec<Value>> {
    let row = |schema: &str, name: &str, kind: &str, insertable: &str| {
        vec![
            text(DATABASE),
            text(schema),
            text(name),
            text(kind),
            text(insertable),
            text("NO"),
        ]
    };
    let users = catalog
        .tables
        .keys()
        .map(|name| row("public", name, "BASE TABLE", "YES"));
    users
        .chain(super::tables().map(|table| row(table.schema(), table.short_name(), "VIEW", "NO")))
        .collect()
}

fn number(value: Option<i64>) -> Value {
    value.map_or(Value::Null, |value| {
        Value::Int4(i32::try_from(value).unwrap_or(i32::MAX))
    })
}

fn column_rows(catalog: &Catalog) -> Vec<Vec<Value>> {
    let visible = |table: &Table| {
        let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.dropped);
        columns
            .map(|(place, column)| column_row(&table.name, place, column))
            .collect::<Vec<_>>()
    };
    catalog.tables.values().flat_map(|table| visible(table)).collect()
}

fn column_row(table: &str, place: usize, column: &Column) -> Vec<Value> {
    let ColumnType { data_type, modifier } = column.column_type;
    let length = match data_type {
        DataType::Char | DataType::Varchar => ColumnType::character_length(modifier).map(|length| length as i64),
        _ => None,
    };
    let (precision, scale) = match data_type {
        DataType::Int2 => (Some(16), Some(0)),
        DataType::Int4 => (Some(32), Some(0)),
        DataType::Int8 => (Some(64), Some(0)),
        DataType::Float4 => (Some(24), None),
        DataType::Float8 => (Some(53), None),
        DataType::Numeric => match ColumnType::numeric_precision_scale(modifier) {
            Some((precision, scale)) => (Some(i64::from(precision)), Some(i64::from(scale))),
            None => (None, None),
        },
        _ => (None, None),
    };
    let digits = match data_type {
        DataType::Date => Some(0),
        DataType::Time | DataType::Timestamp | DataType::TimestampTz => {
            Some(if modifier < 0 { 6 } else { i64::from(modifier) })
        }
        DataType::Interval => Some(6),
        _ => None,
    };
    let generation = match column.identity_always {
        Some(true) => text("ALWAYS"),
        Some(false) => text("BY DEFAULT"),
        None => Value::Null,
    };
    let default = column
        .default_text
        .as_ref()
        .filter(|_| column.identity_always.is_none());
    vec![
        text(DATABASE),
        text("public"),
        text(table),
        text(&column.name),
        number(Some(place as i64 + 1)),
        default.map_or(Value::Null, |default| text(default)),
        text(if column.not_null { "NO" } else { "YES" }),
        text(data_type.name()),
        number(length),
        number(precision),
        number(scale),
        number(digits),
        text(data_type.name()),
        text(if column.identity_always.is_some() { "YES" } else { "NO" }),
        generation,
        text("NEVER"),
        text("YES"),
    ]
}

/// Name, kind and columns of each constraint, and when it is checked.
fn constraints(table: &Table) -> Vec<(&str, &'static str, &[usize], Deferral)> {
    let mut list: Vec<(&str, &str, &[usize], Deferral)> = Vec::new();
    if !table.primary_key.is_empty() {
        let name = &table.primary_key_name;
        list.push((name, "PRIMARY KEY", &table.primary_key, Deferral::Never));
    }
    list.extend(
        table
            .indexes
            .iter()
            .filter(|index| index.constraint)
            .map(|i| (i.name.as_str(), "UNIQUE", &*i.columns, i.deferral)),
    );
    list.extend(
        table
            .foreign_keys
            .iter()
            .map(|key| (key.name.as_str(), "FOREIGN KEY", &*key.columns, key.deferral)),
    );
    list.extend(
        table
            .checks
            .iter()
            .map(|check| (check.name.as_str(), "CHECK", &[] as &[usize], Deferral::Never)),
    );
    list
}

fn yes_or_no(is_so: bool) -> Value {
    text(if is_so { "YES" } else { "NO" })
}

fn constraint_rows(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in catalog.tables.values() {
        for (name, kind, _, deferral) in constraints(table) {
            rows.push(vec![
                text(DATABASE),
                text("public"),
                text(name),
                text(DATABASE),
                text("public"),
                text(&table.name),
                text(kind),
                yes_or_no(deferral.is_deferrable()),
                yes_or_no(deferral.is_initially_deferred()),
                yes_or_no(true),
            ]);
        }
    }
    rows
}

fn key_rows(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in catalog.tables.values() {
        for (name, _, columns, _) in constraints(table) {
            for (place, column) in columns.iter().enumerate() {
                rows.push(vec![
                    text(DATABASE),
                    text("public"),
                    text(name),
                    text("public"),
                    text(&table.name),
                    text(&table.columns[*column].name),
                    number(Some(place as i64 + 1)),
                ]);
            }
        }
    }
    rows
}
