//! Domains as types, and as `information_schema` shows them.

use super::columns::{TypeFacts, interval_type, own_name, shown_kind, type_facts};
use super::definitions::shown_literal;
use super::information::in_schema;
use super::{OWNER, Source, View, no_others, none_of_table, oid, text};
use crate::catalog::{Domain, RelationName, Table};
use rubato_base::{DataType, Value};

pub(super) static SOURCES: &[Source] = &[
    Source {
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
            "interval_type",
            "domain_default",
            "udt_catalog",
            "udt_schema",
            "udt_name",
            "dtd_identifier",
        ],
        of_table: none_of_table,
        others: |view| view.catalog.domains.values().map(|domain| row(view, domain)).collect(),
    },
    Source {
        name: "information_schema.domain_constraints",
        columns: &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "domain_catalog",
            "domain_schema",
            "domain_name",
            "is_deferrable",
            "initially_deferred",
        ],
        of_table: none_of_table,
        others: constraints,
    },
    Source {
        name: "information_schema.domain_udt_usage",
        columns: &[
            "udt_catalog",
            "udt_schema",
            "udt_name",
            "domain_catalog",
            "domain_schema",
            "domain_name",
        ],
        of_table: none_of_table,
        others: |view| {
            let domains = view.catalog.domains.values();
            domains.map(|domain| base_type(view, domain)).collect()
        },
    },
    Source {
        name: "information_schema.column_domain_usage",
        columns: &[
            "domain_catalog",
            "domain_schema",
            "domain_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
        ],
        of_table: columns_of_domains,
        others: no_others,
    },
];

fn constraints(view: &View<'_>) -> Vec<Vec<Value>> {
    let of_domain = |domain: &Domain| {
        let own = in_schema(view, domain.schema, &domain.name);
        let row = |name: &str| {
            let constraint = in_schema(view, domain.schema, name).into_iter();
            constraint.chain(own.clone()).chain([text("NO"), text("NO")]).collect()
        };
        domain.checks.iter().map(|check| row(&check.name)).collect::<Vec<_>>()
    };
    let domains = view.catalog.domains.values();
    domains.flat_map(|domain| of_domain(domain)).collect()
}

fn base_type(view: &View<'_>, domain: &Domain) -> Vec<Value> {
    let (schema, name) = beneath(view, domain);
    let base = [text(view.database), text(&schema), text(&name)].into_iter();
    base.chain(in_schema(view, domain.schema, &domain.name)).collect()
}

/// What `information_schema` calls the type that a domain is over.
pub(super) fn domain_kind(domain: &Domain) -> &'static str {
    match &domain.base {
        Some(_) => "USER-DEFINED",
        None => shown_kind(domain.column_type.data_type),
    }
}

/// What it says of that type: nothing, if it is a domain itself.
pub(super) fn domain_facts(domain: &Domain) -> TypeFacts {
    match &domain.base {
        Some(_) => TypeFacts::default(),
        None => type_facts(domain.column_type),
    }
}

/// Schema and name of what a domain is over.
pub(super) fn beneath(view: &View<'_>, domain: &Domain) -> (String, String) {
    match domain_beneath(view, domain) {
        Some(base) => (view.catalog.schema_name(base.schema), base.name.clone()),
        None => own_name(view, domain.column_type.data_type),
    }
}

fn domain_beneath<'a>(view: &'a View<'_>, domain: &Domain) -> Option<&'a Domain> {
    let number = domain.base.as_ref()?.oid;
    let mut domains = view.catalog.domains.values();
    domains.find(|other| other.oid == number).map(|found| &**found)
}

fn columns_of_domains(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let columns = table.columns.iter().filter(|column| !column.dropped);
    let row = |(domain, column): (&RelationName, &str)| {
        let domain = in_schema(view, domain.schema, &domain.name).into_iter();
        let own = in_schema(view, table.schema, &table.name);
        domain.chain(own).chain([text(column)]).collect()
    };
    let of_domains = columns.filter_map(|column| Some((column.domain.as_ref()?, column.name.as_str())));
    of_domains.map(row).collect()
}

fn row(view: &View<'_>, domain: &Domain) -> Vec<Value> {
    let facts = domain_facts(domain);
    let number = |value: Option<i64>| value.map_or(Value::Null, super::int4);
    let (type_schema, type_name) = beneath(view, domain);
    vec![
        text(view.database),
        text(&view.catalog.schema_name(domain.schema)),
        text(&domain.name),
        text(domain_kind(domain)),
        number(facts.length),
        number(facts.bytes),
        number(facts.precision),
        number(facts.radix),
        number(facts.scale),
        number(facts.digits),
        interval_type(domain.column_type),
        shown_default(view, domain),
        text(view.database),
        text(&type_schema),
        text(&type_name),
        text("1"),
    ]
}

fn shown_default(view: &View<'_>, domain: &Domain) -> Value {
    let written = domain.default_text.as_deref();
    let shown = written.and_then(|written| shown_literal(view, written, domain.column_type.data_type));
    shown.as_deref().map_or(Value::Null, text)
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
            "typbasetype" => domain.base.as_ref().map_or(number.clone(), |base| oid(base.oid)),
            "typtypmod" => Value::Int4(domain.base.as_ref().map_or(domain.column_type.modifier, |_| -1)),
            "typdefaultbin" | "typdefault" => shown_default(view, domain),
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
