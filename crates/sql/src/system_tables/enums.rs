//! Enums as `pg_enum` and `pg_type` show them.

use super::domains::written_by_number as written_domain;
use super::{OWNER, Source, View, none_of_table, oid, text};
use crate::catalog::EnumType;
use rubato_base::{DataType, Value};
use std::sync::Arc;

/// PostgreSQL's numbers of the types whose rows in `pg_type` are like those of enums and of their arrays.
const LIKE_ENUM: u32 = 3500;
const LIKE_ARRAY: u32 = 1009;
/// PostgreSQL's numbers of the functions that read and write enums, as text and in binary.
const FUNCTIONS: [(&str, u32); 4] = [
    ("typinput", 3506),
    ("typoutput", 3507),
    ("typreceive", 3532),
    ("typsend", 3533),
];

pub(super) static SOURCES: &[Source] = &[Source {
    name: "pg_catalog.pg_enum",
    columns: &["oid", "enumtypid", "enumsortorder", "enumlabel"],
    of_table: none_of_table,
    others: |view| view.catalog.enums.values().flat_map(|own| labels(own)).collect(),
}];

fn labels(own: &EnumType) -> Vec<Vec<Value>> {
    let row = |label: &rubato_base::EnumLabel| {
        vec![
            oid(label.oid),
            oid(own.oid),
            Value::Float4(label.sort_order()),
            text(&label.text),
        ]
    };
    own.labels.iter().map(row).collect()
}

/// The rows of `pg_type` for enums and their arrays, after those of others.
pub(super) fn types(view: &View<'_>, columns: &[&str], known: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let like = |number: u32| known.iter().find(|row| row.first() == Some(&oid(number)));
    let (Some(of_enum), Some(of_array)) = (like(LIKE_ENUM), like(LIKE_ARRAY)) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for own in view.catalog.enums.values() {
        let array = oid(own.oid + 1);
        let changed = |row: &[Value], change: &dyn Fn(&str) -> Option<Value>| {
            let values = columns.iter().zip(row);
            values
                .map(|(column, value)| change(column).unwrap_or_else(|| value.clone()))
                .collect()
        };
        let common = |column: &str| match column {
            "typnamespace" => Some(oid(own.schema.0)),
            "typowner" => Some(oid(OWNER)),
            _ => None,
        };
        rows.push(changed(of_enum, &|column| match column {
            "oid" => Some(oid(own.oid)),
            "typname" => Some(text(&own.name)),
            "typtype" => Some(text("e")),
            "typcategory" => Some(text("E")),
            "typarray" => Some(array.clone()),
            other => match FUNCTIONS.iter().find(|(name, _)| *name == other) {
                Some((_, number)) => Some(oid(*number)),
                None => common(other),
            },
        }));
        rows.push(changed(of_array, &|column| match column {
            "oid" => Some(array.clone()),
            "typname" => Some(text(&array_name(&own.name))),
            "typelem" => Some(oid(own.oid)),
            "typcollation" => Some(oid(0)),
            other => common(other),
        }));
    }
    rows
}

/// What PostgreSQL calls the type of arrays of a type.
fn array_name(name: &str) -> String {
    format!("_{name}")
}

/// The enum or array of an enum with this number, as it must be written to be found.
fn written_enum(view: &View<'_>, number: i64) -> Option<String> {
    let number = u32::try_from(number).ok()?;
    let (enum_number, behind) = match view.catalog.type_by_oid(number)? {
        DataType::Enum(own) => (own, ""),
        DataType::EnumArray(own) => (own, "[]"),
        _ => return None,
    };
    let written = view.path.written_by_number(enum_number, view.catalog)?;
    Some(format!("{written}{behind}"))
}

/// The type of the users with this number, as it must be written to be found.
pub(super) fn written_by_number(view: &View<'_>, number: i64) -> Option<String> {
    written_domain(view, number).or_else(|| written_enum(view, number))
}

/// The schema and PostgreSQL's own name of a type of the users.
pub(super) fn schema_and_name(view: &View<'_>, data_type: DataType) -> Option<(String, String)> {
    let own: &Arc<EnumType> = view.catalog.enum_by_oid(data_type.enum_number()?)?;
    let name = match data_type.element() {
        Some(_) => array_name(&own.name),
        None => own.name.clone(),
    };
    Some((view.catalog.schema_name(own.schema), name))
}
