//! `pg_extension`: the views of what happens now belong to the extension `rubato`, which is always there. So tools know that no user made them:
//! `pg_dump` leaves them out, as it does with every extension that the program brings along. Beside it are those that users have created.

use super::constraints::{CLASSES, dependency};
use super::{OWNER, Source, Value, View, none_of_table, oid, registry, text};
use crate::catalog::{AVAILABLE_EXTENSIONS, AvailableExtension, SchemaId, available_extension};

/// The oid of the extension: below those of what users make.
const EXTENSION: u32 = 15_001;
/// The oid of `pg_extension`.
const EXTENSIONS: u32 = 3079;
/// The oid of `pg_namespace`.
pub(super) const SCHEMAS: u32 = 2615;

pub(super) static SOURCES: &[Source] = &[
    Source {
        name: "pg_catalog.pg_extension",
        columns: &[
            "oid",
            "extname",
            "extowner",
            "extnamespace",
            "extrelocatable",
            "extversion",
        ],
        of_table: none_of_table,
        others: |view| {
            let own = (EXTENSION, "rubato", SchemaId::PG_CATALOG, env!("CARGO_PKG_VERSION"));
            let created = view.catalog.extensions.iter().filter_map(|(name, created)| {
                let available = available_extension(name)?;
                Some((created.oid, available.name, created.schema, available.version))
            });
            let row = |(number, name, schema, version): (u32, &'static str, SchemaId, &'static str)| {
                vec![
                    oid(number),
                    text(name),
                    oid(OWNER),
                    oid(schema.0),
                    Value::Bool(false),
                    text(version),
                ]
            };
            std::iter::once(own).chain(created).map(row).collect()
        },
    },
    Source {
        name: "pg_catalog.pg_available_extensions",
        columns: &["name", "default_version", "installed_version", "comment"],
        of_table: none_of_table,
        others: |view| {
            let row = |available: &AvailableExtension| {
                let is_there = view.catalog.extensions.contains_key(available.name);
                vec![
                    text(available.name),
                    text(available.version),
                    if is_there { text(available.version) } else { Value::Null },
                    text(available.comment),
                ]
            };
            AVAILABLE_EXTENSIONS.iter().map(row).collect()
        },
    },
];

/// What belongs to the extension, as `pg_depend` says it.
pub(super) fn members(_: &View<'_>, rows: &mut Vec<Vec<Value>>) {
    let own = (EXTENSIONS, EXTENSION);
    rows.push(dependency((SCHEMAS, SchemaId::RUBATO.0), own, 0, "e"));
    let views = registry::tables().filter(|table| table.schema == "rubato");
    rows.extend(views.map(|view| dependency((CLASSES, view.oid), own, 0, "e")));
}
