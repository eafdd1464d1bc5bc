//! Tables, columns, indexes and constraints in `pg_catalog`.

use super::definitions::{index_definition, primary_key_definition};
use super::{INFORMATION_SCHEMA, OWNER, OWNER_NAME, PG_CATALOG, PUBLIC, RUBATO, SystemTable, int2, oid, tables, text};
use crate::catalog::{Catalog, Deferral, ReferentialAction, Table};
use DataType::{Bool, Float4, Int2, Int4, Name, Oid, Text};
use rubato_base::{Array, DataType, Value};
use std::sync::Arc;

pub(super) static TABLES: &[SystemTable] = &[
    SystemTable {
        name: "pg_catalog.pg_namespace",
        oid: 2615,
        columns: &[("oid", Oid), ("nspname", Name), ("nspowner", Oid), ("nspacl", Text)],
        rows: namespaces,
    },
    SystemTable {
        name: "pg_catalog.pg_class",
        oid: 1259,
        columns: &[
            ("oid", Oid),
            ("relname", Name),
            ("relnamespace", Oid),
            ("reltype", Oid),
            ("reloftype", Oid),
            ("relowner", Oid),
            ("relam", Oid),
            ("relfilenode", Oid),
            ("reltablespace", Oid),
            ("relpages", Int4),
            ("reltuples", Float4),
            ("relallvisible", Int4),
            ("reltoastrelid", Oid),
            ("relhasindex", Bool),
            ("relisshared", Bool),
            ("relpersistence", Text),
            ("relkind", Text),
            ("relnatts", Int2),
            ("relchecks", Int2),
            ("relhasrules", Bool),
            ("relhastriggers", Bool),
            ("relhassubclass", Bool),
            ("relrowsecurity", Bool),
            ("relforcerowsecurity", Bool),
            ("relispopulated", Bool),
            ("relreplident", Text),
            ("relispartition", Bool),
            ("relrewrite", Oid),
            ("reloptions", Text),
            ("relacl", Text),
            ("relpartbound", Text),
        ],
        rows: classes,
    },
    SystemTable {
        name: "pg_catalog.pg_attribute",
        oid: 1249,
        columns: &[
            ("attrelid", Oid),
            ("attname", Name),
            ("atttypid", Oid),
            ("attlen", Int2),
            ("attnum", Int2),
            ("attndims", Int4),
            ("atttypmod", Int4),
            ("attnotnull", Bool),
            ("atthasdef", Bool),
            ("attidentity", Text),
            ("attgenerated", Text),
            ("attisdropped", Bool),
            ("attcollation", Oid),
            ("attacl", Text),
        ],
        rows: attributes,
    },
    SystemTable {
        name: "pg_catalog.pg_attrdef",
        oid: 2604,
        columns: &[("oid", Oid), ("adrelid", Oid), ("adnum", Int2), ("adbin", Text)],
        rows: defaults,
    },
    SystemTable {
        name: "pg_catalog.pg_index",
        oid: 2610,
        columns: &[
            ("indexrelid", Oid),
            ("indrelid", Oid),
            ("indnatts", Int2),
            ("indnkeyatts", Int2),
            ("indisunique", Bool),
            ("indisprimary", Bool),
            ("indisexclusion", Bool),
            ("indimmediate", Bool),
            ("indisclustered", Bool),
            ("indisvalid", Bool),
            ("indisreplident", Bool),
            ("indkey", DataType::Int2Vector),
            ("indcollation", DataType::OidVector),
            ("indclass", DataType::OidVector),
            ("indoption", DataType::Int2Vector),
            ("indexprs", Text),
            ("indpred", Text),
        ],
        rows: indexes,
    },
    SystemTable {
        name: "pg_catalog.pg_constraint",
        oid: 2606,
        columns: &[
            ("oid", Oid),
            ("conname", Name),
            ("connamespace", Oid),
            ("contype", Text),
            ("condeferrable", Bool),
            ("condeferred", Bool),
            ("convalidated", Bool),
            ("conrelid", Oid),
            ("contypid", Oid),
            ("conindid", Oid),
            ("conparentid", Oid),
            ("confrelid", Oid),
            ("confupdtype", Text),
            ("confdeltype", Text),
            ("confmatchtype", Text),
            ("conkey", DataType::Int2Array),
            ("confkey", DataType::Int2Array),
            ("conbin", Text),
        ],
        rows: constraints,
    },
    SystemTable {
        name: "pg_catalog.pg_tables",
        oid: 12_000,
        columns: &[
            ("schemaname", Name),
            ("tablename", Name),
            ("tableowner", Name),
            ("tablespace", Name),
            ("hasindexes", Bool),
            ("hasrules", Bool),
            ("hastriggers", Bool),
            ("rowsecurity", Bool),
        ],
        rows: table_list,
    },
    SystemTable {
        name: "pg_catalog.pg_indexes",
        oid: 12_001,
        columns: &[
            ("schemaname", Name),
            ("tablename", Name),
            ("indexname", Name),
            ("tablespace", Name),
            ("indexdef", Text),
        ],
        rows: index_list,
    },
];

const YES: Value = Value::Bool(true);
const NO: Value = Value::Bool(false);

fn namespaces(_: &Catalog) -> Vec<Vec<Value>> {
    [
        (PG_CATALOG, "pg_catalog"),
        (PUBLIC, "public"),
        (INFORMATION_SCHEMA, "information_schema"),
        (RUBATO, "rubato"),
    ]
    .map(|(number, name)| vec![oid(number), text(name), oid(OWNER), Value::Null])
    .to_vec()
}

struct Class<'a> {
    oid: u32,
    name: &'a str,
    namespace: u32,
    kind: &'a str,
    columns: usize,
    checks: usize,
    indexed: bool,
    triggered: bool,
}

impl Class<'_> {
    fn row(&self) -> Vec<Value> {
        vec![
            oid(self.oid),
            text(self.name),
            oid(self.namespace),
            oid(0),
            oid(0),
            oid(OWNER),
            oid(if self.kind == "i" { 403 } else { 2 }),
            oid(self.oid),
            oid(0),
            Value::Int4(1),
            Value::Float4(-1.0),
            Value::Int4(0),
            oid(0),
            Value::Bool(self.indexed),
            NO,
            text("p"),
            text(self.kind),
            int2(self.columns),
            int2(self.checks),
            NO,
            Value::Bool(self.triggered),
            NO,
            NO,
            NO,
            Value::Bool(true),
            text("d"),
            NO,
            oid(0),
            Value::Null,
            Value::Null,
            Value::Null,
        ]
    }
}

fn classes(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let plain = Class {
        oid: 0,
        name: "",
        namespace: PUBLIC,
        kind: "r",
        columns: 0,
        checks: 0,
        indexed: false,
        triggered: false,
    };
    for table in catalog.tables.values() {
        let class = Class {
            oid: table.oid,
            name: &table.name,
            columns: table.columns.len(),
            checks: table.checks.len(),
            indexed: !table.primary_key.is_empty() || !table.indexes.is_empty(),
            triggered: !table.foreign_keys.is_empty() || !table.referenced_by.is_empty(),
            ..plain
        };
        rows.push(class.row());
        rows.extend(table_indexes(table).map(|index| {
            Class {
                oid: index.oid,
                name: index.name,
                kind: "i",
                columns: index.columns.len(),
                ..plain
            }
            .row()
        }));
    }
    for sequence in catalog.sequences.values() {
        rows.push(
            Class {
                oid: sequence.id,
                name: &sequence.name,
                kind: "S",
                columns: 3,
                ..plain
            }
            .row(),
        );
    }
    for table in tables() {
        let namespace = match table.schema() {
            "pg_catalog" => PG_CATALOG,
            "rubato" => RUBATO,
            _ => INFORMATION_SCHEMA,
        };
        let kind = if table.oid >= 12_000 { "v" } else { "r" };
        let class = Class {
            oid: table.oid,
            name: table.short_name(),
            namespace,
            kind,
            columns: table.columns.len(),
            ..plain
        };
        rows.push(class.row());
    }
    rows
}

/// An index as PostgreSQL sees it; the primary key is one whose number is that of the table's storage.
struct IndexView<'a> {
    oid: u32,
    name: &'a str,
    columns: &'a [usize],
    unique: bool,
    primary: bool,
    deferral: Deferral,
}

fn table_indexes(table: &Table) -> impl Iterator<Item = IndexView<'_>> {
    let primary = (!table.primary_key.is_empty()).then(|| IndexView {
        oid: table.id.0,
        name: &table.primary_key_name,
        columns: &table.primary_key,
        unique: true,
        primary: true,
        deferral: Deferral::Never,
    });
    primary.into_iter().chain(table.indexes.iter().map(|index| IndexView {
        oid: index.id.0,
        name: &index.name,
        columns: &index.columns,
        unique: index.is_to_be_unique(),
        primary: false,
        deferral: index.deferral,
    }))
}

fn attributes(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in catalog.tables.values() {
        for (place, column) in table.columns.iter().enumerate() {
            let data_type = column.column_type.data_type;
            let identity = match column.identity_always {
                Some(true) => "a",
                Some(false) => "d",
                None => "",
            };
            let default = column.default.is_some() && column.identity_always.is_none();
            rows.push(vec![
                oid(table.oid),
                text(&column.name),
                oid(if column.dropped { 0 } else { data_type.oid() }),
                Value::Int2(data_type.length()),
                int2(place + 1),
                Value::Int4(dimensions(data_type)),
                Value::Int4(column.column_type.modifier),
                Value::Bool(column.not_null),
                Value::Bool(default),
                text(identity),
                text(""),
                Value::Bool(column.dropped),
                oid(collation(data_type)),
                Value::Null,
            ]);
        }
        for index in table_indexes(table) {
            for (place, column) in index.columns.iter().enumerate() {
                let column = &table.columns[*column];
                rows.push(system_attribute(
                    index.oid,
                    &column.name,
                    column.column_type.data_type,
                    place,
                ));
            }
        }
    }
    for table in tables() {
        for (place, (name, data_type)) in table.columns.iter().enumerate() {
            rows.push(system_attribute(table.oid, name, *data_type, place));
        }
    }
    rows
}

/// How many dimensions an array was declared with, as far as that is kept.
fn dimensions(data_type: DataType) -> i32 {
    i32::from(data_type.element().is_some() && !data_type.is_vector())
}

/// The default collation, for what has text in it.
fn collation(data_type: DataType) -> u32 {
    if data_type.element().unwrap_or(data_type).is_text() {
        100
    } else {
        0
    }
}

fn collations(table: &Table, columns: &[usize]) -> Vec<Value> {
    let of = |column: &usize| oid(collation(table.columns[*column].column_type.data_type));
    columns.iter().map(of).collect()
}

fn system_attribute(relation: u32, name: &str, data_type: DataType, place: usize) -> Vec<Value> {
    vec![
        oid(relation),
        text(name),
        oid(data_type.oid()),
        Value::Int2(data_type.length()),
        int2(place + 1),
        Value::Int4(0),
        Value::Int4(-1),
        NO,
        NO,
        text(""),
        text(""),
        NO,
        oid(0),
        Value::Null,
    ]
}

fn defaults(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in catalog.tables.values() {
        for (place, column) in table.columns.iter().enumerate() {
            if let Some(default) = column
                .default_text
                .as_ref()
                .filter(|_| column.identity_always.is_none())
            {
                let number = derived_oid(table, 2000 + place);
                rows.push(vec![oid(number), oid(table.oid), int2(place + 1), text(default)]);
            }
        }
    }
    rows
}

/// A number for what has none of its own: far above every id that is handed out one by one.
fn derived_oid(table: &Table, place: usize) -> u32 {
    0x8000_0000 | (table.oid.wrapping_mul(4096).wrapping_add(place as u32) & 0x7fff_ffff)
}

/// The numbers of columns.
fn numbers(columns: &[usize]) -> Vec<Value> {
    columns.iter().map(|column| int2(column + 1)).collect()
}

fn vector(element: DataType, items: Vec<Value>) -> Value {
    Value::Array(Arc::new(Array::vector(element, items)))
}

fn array(columns: &[usize]) -> Value {
    Value::Array(Arc::new(Array::new(DataType::Int2, numbers(columns))))
}

fn indexes(catalog: &Catalog) -> Vec<Vec<Value>> {
    let row = |table: &Table, index: IndexView<'_>| {
        vec![
            oid(index.oid),
            oid(table.oid),
            int2(index.columns.len()),
            int2(index.columns.len()),
            Value::Bool(index.unique),
            Value::Bool(index.primary),
            NO,
            Value::Bool(!index.deferral.is_deferrable()),
            NO,
            YES,
            NO,
            vector(DataType::Int2, numbers(index.columns)),
            vector(DataType::Oid, collations(table, index.columns)),
            vector(DataType::Oid, vec![oid(0); index.columns.len()]),
            vector(DataType::Int2, vec![Value::Int2(0); index.columns.len()]),
            Value::Null,
            Value::Null,
        ]
    };
    catalog
        .tables
        .values()
        .flat_map(|table| table_indexes(table).map(|index| row(table, index)))
        .collect()
}

struct Constraint<'a> {
    oid: u32,
    name: &'a str,
    kind: &'a str,
    index: u32,
    referred: u32,
    deferral: Deferral,
    actions: Option<(ReferentialAction, ReferentialAction)>,
    columns: Value,
    referred_columns: Value,
    condition: Value,
}

impl Constraint<'_> {
    fn row(self, table: &Table) -> Vec<Value> {
        let letter = |action: Option<ReferentialAction>| match action {
            None => text(" "),
            Some(ReferentialAction::Refuse) => text("a"),
            Some(ReferentialAction::Restrict) => text("r"),
            Some(ReferentialAction::Cascade) => text("c"),
            Some(ReferentialAction::SetNull) => text("n"),
            Some(ReferentialAction::SetDefault) => text("d"),
        };
        vec![
            oid(self.oid),
            text(self.name),
            oid(PUBLIC),
            text(self.kind),
            Value::Bool(self.deferral.is_deferrable()),
            Value::Bool(self.deferral.is_initially_deferred()),
            YES,
            oid(table.oid),
            oid(0),
            oid(self.index),
            oid(0),
            oid(self.referred),
            letter(self.actions.map(|(update, _)| update)),
            letter(self.actions.map(|(_, delete)| delete)),
            text(if self.kind == "f" { "s" } else { " " }),
            self.columns,
            self.referred_columns,
            self.condition,
        ]
    }
}

fn constraints(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in catalog.tables.values() {
        let is_constraint =
            |index: &IndexView<'_>| index.primary || table.indexes.iter().any(|i| i.constraint && i.name == index.name);
        for index in table_indexes(table).filter(is_constraint) {
            let constraint = Constraint {
                oid: index.oid,
                name: index.name,
                kind: if index.primary { "p" } else { "u" },
                index: index.oid,
                referred: 0,
                deferral: index.deferral,
                actions: None,
                columns: array(index.columns),
                referred_columns: Value::Null,
                condition: Value::Null,
            };
            rows.push(constraint.row(table));
        }
        for (place, check) in table.checks.iter().enumerate() {
            let mut columns = Vec::new();
            check.condition.for_each_column(&mut |column| columns.push(column));
            columns.sort_unstable();
            columns.dedup();
            let constraint = Constraint {
                oid: derived_oid(table, place),
                name: &check.name,
                kind: "c",
                index: 0,
                referred: 0,
                deferral: Deferral::Never,
                actions: None,
                columns: array(&columns),
                referred_columns: Value::Null,
                condition: text(&check.text),
            };
            rows.push(constraint.row(table));
        }
        for (place, key) in table.foreign_keys.iter().enumerate() {
            let referred = catalog.tables.get(&key.referenced_table).map_or(0, |table| table.oid);
            let constraint = Constraint {
                oid: derived_oid(table, 1000 + place),
                name: &key.name,
                kind: "f",
                index: 0,
                referred,
                deferral: key.deferral,
                actions: Some((key.on_update, key.on_delete)),
                columns: array(&key.columns),
                referred_columns: array(&key.referenced_columns),
                condition: Value::Null,
            };
            rows.push(constraint.row(table));
        }
    }
    rows
}

fn table_list(catalog: &Catalog) -> Vec<Vec<Value>> {
    let row = |schema: &str, name: &str, indexed: bool, triggered: bool| {
        vec![
            text(schema),
            text(name),
            text(OWNER_NAME),
            Value::Null,
            Value::Bool(indexed),
            NO,
            Value::Bool(triggered),
            NO,
        ]
    };
    let users = catalog.tables.values().map(|table| {
        let indexed = !table.primary_key.is_empty() || !table.indexes.is_empty();
        row(
            "public",
            &table.name,
            indexed,
            !table.foreign_keys.is_empty() || !table.referenced_by.is_empty(),
        )
    });
    let system = tables().filter(|table| table.oid < 12_000);
    users
        .chain(system.map(|table| row(table.schema(), table.short_name(), false, false)))
        .collect()
}

fn index_list(catalog: &Catalog) -> Vec<Vec<Value>> {
    let row = |table: &Table, name: &str, definition: String| {
        vec![
            text("public"),
            text(&table.name),
            text(name),
            Value::Null,
            text(&definition),
        ]
    };
    let of_table = |table: &Table| {
        let primary =
            (!table.primary_key.is_empty()).then(|| row(table, &table.primary_key_name, primary_key_definition(table)));
        let others = table
            .indexes
            .iter()
            .map(|index| row(table, &index.name, index_definition(table, index)));
        primary.into_iter().chain(others).collect::<Vec<_>>()
    };
    catalog.tables.values().flat_map(|table| of_table(table)).collect()
}
