//! `information_schema.columns`.

use super::definitions::shown_default;
use super::domains::{beneath, domain_facts, domain_kind};
use super::information::{number, yes_or_no};
use super::values::type_names;
use super::{Source, View, int4, registry, text};
use crate::binder::writable;
use crate::catalog::{Column, RelationName, Sequence, Table};
use rubato_base::datetime::{interval_digits, interval_fields};
use rubato_base::{ColumnType, DataType, Value};

pub(super) static SOURCES: &[Source] = &[Source {
    name: "information_schema.columns",
    columns: COLUMN_COLUMNS,
    of_table: columns_of_table,
    others: system_columns,
}];

const COLUMN_COLUMNS: &[&str] = &[
    "table_catalog",
    "table_schema",
    "table_name",
    "column_name",
    "ordinal_position",
    "column_default",
    "is_nullable",
    "data_type",
    "character_maximum_length",
    "character_octet_length",
    "numeric_precision",
    "numeric_precision_radix",
    "numeric_scale",
    "datetime_precision",
    "interval_type",
    "collation_catalog",
    "collation_schema",
    "collation_name",
    "domain_catalog",
    "domain_schema",
    "domain_name",
    "udt_catalog",
    "udt_schema",
    "udt_name",
    "dtd_identifier",
    "is_self_referencing",
    "is_identity",
    "identity_generation",
    "identity_start",
    "identity_increment",
    "identity_maximum",
    "identity_minimum",
    "identity_cycle",
    "is_generated",
    "generation_expression",
    "is_updatable",
];

/// What `information_schema.columns` says of a type.
#[derive(Default)]
pub(super) struct TypeFacts {
    pub length: Option<i64>,
    pub bytes: Option<i64>,
    pub precision: Option<i64>,
    pub radix: Option<i64>,
    pub scale: Option<i64>,
    pub digits: Option<i64>,
}

pub(super) fn type_facts(ColumnType { data_type, modifier }: ColumnType) -> TypeFacts {
    let (length, bytes) = match data_type {
        DataType::Char | DataType::Varchar => {
            let length = ColumnType::character_length(modifier).map(|length| length as i64);
            (length, Some(length.map_or(1 << 30, |length| length * 4)))
        }
        DataType::Text => (None, Some(1 << 30)),
        _ => (None, None),
    };
    let (precision, radix, scale) = match data_type {
        DataType::Int2 => (Some(16), Some(2), Some(0)),
        DataType::Int4 => (Some(32), Some(2), Some(0)),
        DataType::Int8 => (Some(64), Some(2), Some(0)),
        DataType::Float4 => (Some(24), Some(2), None),
        DataType::Float8 => (Some(53), Some(2), None),
        DataType::Numeric => match ColumnType::numeric_precision_scale(modifier) {
            Some((precision, scale)) => (Some(i64::from(precision)), Some(10), Some(i64::from(scale))),
            None => (None, Some(10), None),
        },
        _ => (None, None, None),
    };
    let digits = match data_type {
        DataType::Date => Some(0),
        DataType::Time | DataType::Timestamp | DataType::TimestampTz => {
            Some(if modifier < 0 { 6 } else { i64::from(modifier) })
        }
        DataType::Interval => Some(i64::from(interval_digits(modifier).unwrap_or(6))),
        _ => None,
    };
    TypeFacts {
        length,
        bytes,
        precision,
        radix,
        scale,
        digits,
    }
}

/// PostgreSQL's own name of a type.
fn internal_name(data_type: DataType) -> &'static str {
    let wanted = i64::from(data_type.oid());
    type_names()
        .iter()
        .find(|(number, _)| *number == wanted)
        .map_or("", |(_, name)| name)
}

/// Schema and PostgreSQL's own name of a type, also of one of the users.
pub(super) fn own_name(view: &View<'_>, data_type: DataType) -> (String, String) {
    let own = super::enums::schema_and_name(view, data_type);
    own.unwrap_or_else(|| ("pg_catalog".to_owned(), internal_name(data_type).to_owned()))
}

/// What `information_schema` calls a type.
pub(super) fn shown_kind(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Enum(_) => "USER-DEFINED",
        other if other.element().is_some() => "ARRAY",
        other => other.name(),
    }
}

/// The fields of an interval, in capitals, if they are not all.
pub(super) fn interval_type(ColumnType { data_type, modifier }: ColumnType) -> Value {
    let fields = interval_fields(modifier).to_ascii_uppercase();
    match fields.strip_prefix(' ') {
        Some(fields) if data_type == DataType::Interval => text(fields),
        _ => Value::Null,
    }
}

/// A column as `information_schema.columns` shows it.
struct ColumnRow<'a> {
    schema: &'a str,
    table: &'a str,
    name: &'a str,
    place: usize,
    column_type: ColumnType,
    not_null: bool,
    default: Option<&'a str>,
    generated: Option<&'a str>,
    domain: Option<&'a RelationName>,
    identity: Option<(bool, Option<&'a Sequence>)>,
    updatable: bool,
}

impl ColumnRow<'_> {
    fn row(&self, view: &View<'_>) -> Vec<Value> {
        let data_type = self.column_type.data_type;
        let domain = self.domain.and_then(|domain| view.catalog.domains.get(domain));
        // What a column is shown as that is of a domain is what that one is over.
        let shown = domain.map_or_else(|| shown_kind(data_type), |domain| domain_kind(domain));
        let facts = domain.map_or_else(|| type_facts(self.column_type), |domain| domain_facts(domain));
        let (type_schema, type_name) = match domain {
            Some(domain) => beneath(view, domain),
            None => own_name(view, data_type),
        };
        let sequence = self.identity.and_then(|(_, sequence)| sequence);
        let of_sequence =
            |value: fn(&Sequence) -> i64| sequence.map_or(Value::Null, |sequence| text(&value(sequence).to_string()));
        let generation = self
            .identity
            .map(|(always, _)| if always { "ALWAYS" } else { "BY DEFAULT" });
        let collation = |part: &str| {
            if data_type == DataType::Name {
                text(part)
            } else {
                Value::Null
            }
        };
        vec![
            text(view.database),
            text(self.schema),
            text(self.table),
            text(self.name),
            int4(self.place as i64 + 1),
            self.default.map_or(Value::Null, text),
            yes_or_no(!self.not_null),
            text(shown),
            number(facts.length),
            number(facts.bytes),
            number(facts.precision),
            number(facts.radix),
            number(facts.scale),
            number(facts.digits),
            interval_type(self.column_type),
            collation(view.database),
            collation("pg_catalog"),
            collation("C"),
            self.domain.map_or(Value::Null, |_| text(view.database)),
            self.domain
                .map_or(Value::Null, |domain| text(&view.catalog.schema_name(domain.schema))),
            self.domain.map_or(Value::Null, |domain| text(&domain.name)),
            text(view.database),
            text(&type_schema),
            text(&type_name),
            text(&(self.place + 1).to_string()),
            yes_or_no(false),
            yes_or_no(self.identity.is_some()),
            generation.map_or(Value::Null, text),
            of_sequence(|sequence| sequence.start),
            of_sequence(|sequence| sequence.increment),
            of_sequence(|sequence| sequence.maximum),
            of_sequence(|sequence| sequence.minimum),
            yes_or_no(sequence.is_some_and(|sequence| sequence.cycle)),
            text(if self.generated.is_some() { "ALWAYS" } else { "NEVER" }),
            self.generated.map_or(Value::Null, text),
            yes_or_no(self.updatable),
        ]
    }
}

fn columns_of_table(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    if table.materialised.is_some() {
        return Vec::new();
    }
    let schema = view.catalog.schema_name(table.schema);
    let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.dropped);
    let row = |(place, column): (usize, &Column)| {
        let identity = column
            .identity_always
            .map(|always| (always, owned_sequence(view, &table.key(), place)));
        let default = shown_default(view, column);
        let generated = column
            .generated
            .as_ref()
            .map(|own| view.named(crate::deparse::shown(table, own)));
        ColumnRow {
            schema: &schema,
            table: &table.name,
            name: &column.name,
            place,
            column_type: column.column_type,
            not_null: column.not_null,
            default: default.as_deref(),
            generated: generated.as_deref(),
            domain: column.domain.as_ref(),
            identity,
            updatable: true,
        }
        .row(view)
    };
    columns.map(row).collect()
}

/// The sequence that a column owns. Only what is looked for is compared, since there are as many sequences as tables.
pub(super) fn owned_sequence<'a>(view: &View<'a>, table: &RelationName, column: usize) -> Option<&'a Sequence> {
    let is_owned = |sequence: &&std::sync::Arc<Sequence>| {
        let owner = sequence.owned_by.as_ref();
        owner.is_some_and(|(owner, owned)| *owned == column && owner == table)
    };
    view.catalog
        .sequences
        .values()
        .find(is_owned)
        .map(|sequence| &**sequence)
}

fn columns_of_views(view: &View<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for own in view.catalog.views.values() {
        let schema = view.catalog.schema_name(own.schema);
        let writable = writable(view.catalog, own);
        for (place, (name, column_type)) in own.columns.iter().enumerate() {
            let row = ColumnRow {
                schema: &schema,
                table: &own.name,
                name,
                place,
                column_type: *column_type,
                not_null: false,
                default: None,
                generated: None,
                domain: None,
                identity: None,
                updatable: writable.columns.get(place).copied().unwrap_or(false),
            };
            rows.push(row.row(view));
        }
    }
    rows
}

fn system_columns(view: &View<'_>) -> Vec<Vec<Value>> {
    let mut rows = columns_of_views(view);
    for table in registry::tables() {
        for (place, column) in table.columns.iter().enumerate() {
            let row = ColumnRow {
                schema: table.schema,
                table: table.short_name(),
                name: column.name,
                place,
                column_type: ColumnType::plain(column.column_type.data_type),
                not_null: !table.is_view && !column.default.is_null(),
                default: None,
                generated: None,
                domain: None,
                identity: None,
                updatable: false,
            };
            rows.push(row.row(view));
        }
    }
    rows
}
