//! The views of `pg_catalog` that show tables, indexes and sequences to people.

use super::classes::sequence_type;
use super::definitions::index_definition;
use super::objects::{IndexView, table_indexes};
use super::{Source, View, no_others, none_of_table, oid, registry, text, written_with_schema};
use crate::binder::{materialised_text, view_text};
use crate::catalog::{Catalog, Sequence, Table};
use rubato_base::{Result, Value};
use rubato_formula::{Environment, SessionFact};
use std::sync::Arc;

/// A view that shows a number of each table of the users': how often it was read, say. These are not counted by table.
macro_rules! of_tables {
    ($($name:literal),* $(,)?) => {
        [$(Source {
            name: $name,
            columns: &["relid", "schemaname", "relname"],
            of_table: |view, table| vec![vec![oid(table.oid), view.schema_name(table.schema), text(&table.name)]],
            others: no_others,
        }),*]
    };
}

/// The same for each index.
macro_rules! of_indexes {
    ($($name:literal),* $(,)?) => {
        [$(Source {
            name: $name,
            columns: &["relid", "indexrelid", "schemaname", "relname", "indexrelname"],
            of_table: indexes_by_number,
            others: no_others,
        }),*]
    };
}

static TABLE_VIEWS: [Source; 6] = of_tables![
    "pg_catalog.pg_stat_all_tables",
    "pg_catalog.pg_stat_user_tables",
    "pg_catalog.pg_stat_xact_all_tables",
    "pg_catalog.pg_stat_xact_user_tables",
    "pg_catalog.pg_statio_all_tables",
    "pg_catalog.pg_statio_user_tables",
];

static INDEX_VIEWS: [Source; 4] = of_indexes![
    "pg_catalog.pg_stat_all_indexes",
    "pg_catalog.pg_stat_user_indexes",
    "pg_catalog.pg_statio_all_indexes",
    "pg_catalog.pg_statio_user_indexes",
];

static LISTS: [Source; 4] = [
    Source {
        name: "pg_catalog.pg_tables",
        columns: &[
            "schemaname",
            "tablename",
            "tableowner",
            "hasindexes",
            "hasrules",
            "hastriggers",
            "rowsecurity",
        ],
        of_table: |view, table| {
            let indexed = !table.primary_key.is_empty() || !table.indexes.is_empty();
            let triggered = !table.foreign_keys.is_empty() || !table.referenced_by.is_empty();
            if table.materialised.is_some() {
                return Vec::new();
            }
            vec![table_row(
                view,
                view.schema_name(table.schema),
                &table.name,
                indexed,
                triggered,
            )]
        },
        others: |view| {
            let tables = registry::tables().filter(|table| !table.is_view);
            tables
                .map(|table| table_row(view, text(table.schema), table.short_name(), false, false))
                .collect()
        },
    },
    Source {
        name: "pg_catalog.pg_indexes",
        columns: &["schemaname", "tablename", "indexname", "indexdef"],
        of_table: |view, table| {
            let row = |index: IndexView<'_>| {
                vec![
                    view.schema_name(table.schema),
                    text(&table.name),
                    text(index.name),
                    text(&view.named(index_definition(
                        table,
                        &index,
                        &written_with_schema(view.catalog, &table.key()),
                    ))),
                ]
            };
            table_indexes(table).map(row).collect()
        },
        others: no_others,
    },
    Source {
        name: "pg_catalog.pg_views",
        columns: &["schemaname", "viewname", "viewowner", "definition"],
        of_table: none_of_table,
        others: |view| {
            let row = |own: &Arc<crate::catalog::View>| {
                let definition = format!(" {};", view_text(own));
                vec![
                    view.schema_name(own.schema),
                    text(&own.name),
                    text(view.user),
                    text(&definition),
                ]
            };
            view.catalog.views.values().map(row).collect()
        },
    },
    Source {
        name: "pg_catalog.pg_matviews",
        columns: &[
            "schemaname",
            "matviewname",
            "matviewowner",
            "hasindexes",
            "ispopulated",
            "definition",
        ],
        of_table: |view, table| {
            let (Some(own), Some(query)) = (&table.materialised, materialised_text(table)) else {
                return Vec::new();
            };
            vec![vec![
                view.schema_name(table.schema),
                text(&table.name),
                text(view.user),
                Value::Bool(!table.indexes.is_empty()),
                Value::Bool(own.is_populated),
                text(&format!(" {query};")),
            ]]
        },
        others: no_others,
    },
];

pub(super) static SOURCES: [&[Source]; 3] = [&TABLE_VIEWS, &INDEX_VIEWS, &LISTS];

fn indexes_by_number(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let row = |index: IndexView<'_>| {
        vec![
            oid(table.oid),
            oid(index.oid),
            view.schema_name(table.schema),
            text(&table.name),
            text(index.name),
        ]
    };
    table_indexes(table).map(row).collect()
}

fn table_row(view: &View<'_>, schema: Value, name: &str, indexed: bool, triggered: bool) -> Vec<Value> {
    vec![
        schema,
        text(name),
        text(view.user),
        Value::Bool(indexed),
        Value::Bool(false),
        Value::Bool(triggered),
        Value::Bool(false),
    ]
}

/// The rows of `pg_sequences`.
///
/// Errors: 0A000 on a node that does not have the sequences.
pub(super) fn sequences(catalog: &Catalog, environment: &dyn Environment) -> Result<Vec<Vec<Value>>> {
    let owner = environment.fact(SessionFact::CurrentUser);
    let row = |sequence: &Arc<Sequence>| {
        let last = environment.catalog_function("pg_sequence_last_value", &[oid(sequence.id)])?;
        Ok(vec![
            text(&catalog.schema_name(sequence.schema)),
            text(&sequence.name),
            owner.clone(),
            oid(sequence_type(catalog, sequence).oid()),
            Value::Int8(sequence.start),
            Value::Int8(sequence.minimum),
            Value::Int8(sequence.maximum),
            Value::Int8(sequence.increment),
            Value::Bool(sequence.cycle),
            Value::Int8(sequence.cache),
            last,
        ])
    };
    catalog.sequences.values().map(row).collect()
}
