//! `pg_extension`: the views of what happens now belong to the extension `rubato`, which is always there. So tools know that no user made them:
//! `pg_dump` leaves them out, as it does with every extension that the program brings along.

use super::constraints::{CLASSES, dependency};
use super::{OWNER, Source, Value, View, none_of_table, oid, registry, text};
use crate::catalog::SchemaId;

/// The oid of the extension: below those of what users make.
const EXTENSION: u32 = 15_001;
/// The oid of `pg_extension`.
const EXTENSIONS: u32 = 3079;
/// The oid of `pg_namespace`.
pub(super) const SCHEMAS: u32 = 2615;

pub(super) static SOURCES: &[Source] = &[Source {
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
    others: |_| {
        vec![vec![
            oid(EXTENSION),
            text("rubato"),
            oid(OWNER),
            oid(SchemaId::PG_CATALOG.0),
            Value::Bool(false),
            text(env!("CARGO_PKG_VERSION")),
        ]]
    },
}];

/// What belongs to the extension, as `pg_depend` says it.
pub(super) fn members(_: &View<'_>, rows: &mut Vec<Vec<Value>>) {
    let own = (EXTENSIONS, EXTENSION);
    rows.push(dependency((SCHEMAS, SchemaId::RUBATO.0), own, 0, "e"));
    let views = registry::tables().filter(|table| table.schema == "rubato");
    rows.extend(views.map(|view| dependency((CLASSES, view.oid), own, 0, "e")));
}
