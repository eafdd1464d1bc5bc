//! Domains as types, and as `information_schema` shows them.

use super::columns::{own_name, shown_kind, type_facts};
use super::{OWNER, Source, View, none_of_table, oid, text};
use crate::catalog::{Domain, RelationName};
use rubato_base::{DataType, Value};

pub(super) static SOURCES: &[Source] = &[Source {
    name: "information_schema.domains",
    columns: &[
        "domain_catalog",
        "domain_schema",
        "domain_name",
        "data_type",
        "character_maximum_length",
        "character_octet_length",
        "numeric_precision",
        "numeric_precision_radix",
        "numeric_scale",
        "datetime_precision",
        "domain_default",
        "udt_catalog",
        "udt_schema",
        "udt_name",
        "dtd_identifier",
    ],
    of_table: none_of_table,
    others: |view| view.catalog.domains.values().map(|domain| row(view, domain)).collect(),
}];

fn row(view: &View<'_>, domain: &Domain) -> Vec<Value> {
    let facts = type_facts(domain.column_type);
    let number = |value: Option<i64>| value.map_or(Value::Null, super::int4);
    let data_type = domain.column_type.data_type;
    let (type_schema, type_name) = own_name(view, data_type);
    vec![
        text(view.database),
        text(&view.catalog.schema_name(domain.schema)),
        text(&domain.name),
        text(shown_kind(data_type)),
        number(facts.length),
        number(facts.bytes),
        number(facts.precision),
        number(facts.radix),
        number(facts.scale),
        number(facts.digits),
        domain.default_text.as_deref().map_or(Value::Null, text),
        text(view.database),
        text(&type_schema),
        text(&type_name),
        text("1"),
    ]
}

/// The rows of `pg_type` for domains: those of the types that they are of, with what is theirs.
pub(super) fn types(view: &View<'_>, columns: &[&str], known: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let of_domain = |domain: &std::sync::Arc<Domain>| {
        let base = domain.column_type.data_type;
        let number = oid(base.oid());
        let row = known.iter().find(|row| row.first() == Some(&number))?;
        let own = columns.iter().zip(row).map(|(column, value)| match *column {
            "oid" => oid(domain.oid),
            "typname" => text(&domain.name),
            "typnamespace" => oid(domain.schema.0),
            "typowner" => oid(OWNER),
            "typtype" => text("d"),
            "typispreferred" => Value::Bool(false),
            "typarray" | "typelem" => oid(0),
            "typnotnull" => Value::Bool(domain.not_null),
            "typbasetype" => number.clone(),
            "typtypmod" => Value::Int4(domain.column_type.modifier),
            _ => value.clone(),
        });
        Some(own.collect())
    };
    view.catalog.domains.values().filter_map(of_domain).collect()
}

/// The domain with this number, as it must be written to be found.
pub(super) fn written_by_number(view: &View<'_>, number: i64) -> Option<String> {
    let mut domains = view.catalog.domains.values();
    let found = domains.find(|domain| i64::from(domain.oid) == number);
    found.map(|domain| view.path.written_type(&domain.key(), view.catalog))
}

/// The number of the type of a column: that of its domain, if it has one.
pub(super) fn type_number(view: &View<'_>, domain: Option<&RelationName>, data_type: DataType) -> u32 {
    let known = domain.and_then(|name| view.catalog.domains.get(name));
    known.map_or(data_type.oid(), |domain| domain.oid)
}
