//! `pg_class` and what hangs on it: attributes, defaults, indexes, sequences.

use super::definitions::shown_default;
use super::domains::type_number;
use super::objects::{default_number, table_indexes};
use super::vector;
use super::{OWNER, Source, View, collation, column_numbers, int2, no_others, none_of_table, oid, registry, text};
use crate::catalog::{Catalog, Column, SchemaId, Table};
use crate::deparse::{free_label, key_label, shown};
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{Array, ColumnType, DataType, Value};
use std::sync::Arc;

pub(super) static SOURCES: &[Source] = &[
    Source {
        name: "pg_catalog.pg_class",
        columns: &[
            "oid",
            "relname",
            "relnamespace",
            "reltype",
            "relowner",
            "relam",
            "relfilenode",
            "relpages",
            "reltuples",
            "relhasindex",
            "relpersistence",
            "relkind",
            "relnatts",
            "relchecks",
            "relhastriggers",
            "relhasrules",
            "relispopulated",
            "relreplident",
            "reloptions",
        ],
        of_table: classes_of_table,
        others: other_classes,
    },
    Source {
        name: "pg_catalog.pg_attribute",
        columns: &[
            "attrelid",
            "attname",
            "atttypid",
            "attlen",
            "attnum",
            "attndims",
            "attcacheoff",
            "atttypmod",
            "attbyval",
            "attalign",
            "attstorage",
            "attnotnull",
            "atthasdef",
            "attidentity",
            "attgenerated",
            "attisdropped",
            "attislocal",
            "attcollation",
            "attstattarget",
            "atthasmissing",
            "attmissingval",
        ],
        of_table: attributes_of_table,
        others: other_attributes,
    },
    Source {
        name: "pg_catalog.pg_attrdef",
        columns: &["oid", "adrelid", "adnum", "adbin"],
        of_table: defaults,
        others: no_others,
    },
    Source {
        name: "pg_catalog.pg_index",
        columns: &[
            "indexrelid",
            "indrelid",
            "indnatts",
            "indnkeyatts",
            "indisunique",
            "indisprimary",
            "indimmediate",
            "indisvalid",
            "indisready",
            "indislive",
            "indkey",
            "indcollation",
            "indclass",
            "indoption",
            "indexprs",
            "indpred",
            "indnullsnotdistinct",
        ],
        of_table: indexes,
        others: no_others,
    },
    Source {
        name: "pg_catalog.pg_sequence",
        columns: &[
            "seqrelid",
            "seqtypid",
            "seqstart",
            "seqincrement",
            "seqmax",
            "seqmin",
            "seqcache",
            "seqcycle",
        ],
        of_table: none_of_table,
        others: sequences,
    },
];

const YES: Value = Value::Bool(true);
/// The number of btree's access method, and of that of tables.
const BTREE: u32 = 403;
const HEAP: u32 = 2;
/// Where numbers of rows' types begin, above those of all objects.
const ROW_TYPES: u32 = 0x2000_0000;

struct Class<'a> {
    oid: u32,
    name: &'a str,
    namespace: SchemaId,
    access_method: u32,
    kind: &'a str,
    columns: usize,
    checks: usize,
    indexed: bool,
    triggered: bool,
    ruled: bool,
    populated: bool,
    options: Vec<String>,
}

const PLAIN: Class<'static> = Class {
    oid: 0,
    name: "",
    namespace: SchemaId::PUBLIC,
    access_method: 0,
    kind: "r",
    columns: 0,
    checks: 0,
    indexed: false,
    triggered: false,
    ruled: false,
    populated: true,
    options: Vec::new(),
};

/// A list of texts; NULL if there are none.
fn text_array(items: &[String]) -> Value {
    match items {
        [] => Value::Null,
        items => Value::Array(Arc::new(Array::new(
            DataType::Text,
            items.iter().map(|item| text(item)).collect(),
        ))),
    }
}

impl Class<'_> {
    /// What stands for the type of its rows: tools take a relation without one for none that has rows. There is no such type.
    fn row_type(&self) -> u32 {
        match self.kind {
            "r" | "v" | "m" => ROW_TYPES | self.oid,
            _ => 0,
        }
    }

    fn row(&self) -> Vec<Value> {
        let (pages, rows) = match self.kind {
            "S" => (1, 1.0),
            "i" => (1, 0.0),
            _ => (0, -1.0),
        };
        vec![
            oid(self.oid),
            text(self.name),
            oid(self.namespace.0),
            oid(self.row_type()),
            oid(OWNER),
            oid(self.access_method),
            oid(if self.kind == "v" { 0 } else { self.oid }),
            Value::Int4(pages),
            Value::Float4(rows),
            Value::Bool(self.indexed),
            text(if self.namespace.is_temporary() { "t" } else { "p" }),
            text(self.kind),
            int2(self.columns),
            int2(self.checks),
            Value::Bool(self.triggered),
            Value::Bool(self.ruled),
            Value::Bool(self.populated),
            text(if matches!(self.kind, "r" | "m") { "d" } else { "n" }),
            text_array(&self.options),
        ]
    }
}

fn classes_of_table(_: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let class = Class {
        oid: table.oid,
        name: &table.name,
        namespace: table.schema,
        access_method: HEAP,
        kind: if table.materialised.is_some() { "m" } else { "r" },
        ruled: table.materialised.is_some(),
        populated: table.materialised.as_ref().is_none_or(|view| view.is_populated),
        columns: table.columns.len(),
        checks: table.checks.iter().filter(|check| check.domain.is_none()).count(),
        indexed: !table.primary_key.is_empty() || !table.indexes.is_empty(),
        triggered: !table.foreign_keys.is_empty() || !table.referenced_by.is_empty(),
        options: match &table.spread {
            Some(spread) => spread.options(table),
            None if table.materialised.is_some() || table.schema.is_temporary() => Vec::new(),
            None => vec!["spread=false".to_owned()],
        },
    };
    let indexes = table_indexes(table).map(|index| {
        Class {
            oid: index.oid,
            name: index.name,
            namespace: table.schema,
            access_method: BTREE,
            kind: "i",
            columns: index.columns.len() + index.included.len(),
            ..PLAIN
        }
        .row()
    });
    std::iter::once(class.row()).chain(indexes).collect()
}

fn other_classes(view: &View<'_>) -> Vec<Vec<Value>> {
    let sequences = view.catalog.sequences.values().map(|sequence| {
        Class {
            oid: sequence.id,
            name: &sequence.name,
            namespace: sequence.schema,
            kind: "S",
            columns: 3,
            ..PLAIN
        }
        .row()
    });
    let views = view.catalog.views.values().map(|view| {
        Class {
            oid: view.oid,
            name: &view.name,
            namespace: view.schema,
            kind: "v",
            columns: view.columns.len(),
            ruled: true,
            options: view.options.listed(),
            ..PLAIN
        }
        .row()
    });
    let system = registry::tables().map(|table| {
        Class {
            oid: table.oid,
            name: table.short_name(),
            namespace: table.schema_id(),
            access_method: if table.is_view { 0 } else { HEAP },
            kind: if table.is_view { "v" } else { "r" },
            columns: table.columns.len(),
            ..PLAIN
        }
        .row()
    });
    sequences.chain(views).chain(system).collect()
}

/// What is alike in every place where an attribute of a type is.
struct Attribute<'a> {
    relation: u32,
    name: &'a str,
    column_type: ColumnType,
    /// The number of its type, if that is not known by itself.
    type_number: Option<u32>,
    number: usize,
    not_null: bool,
    has_default: bool,
    identity: &'a str,
    generated: &'a str,
    dropped: bool,
    /// What rows lack, as an array of one.
    missing: Value,
}

impl Attribute<'_> {
    fn row(&self) -> Vec<Value> {
        let data_type = self.column_type.data_type;
        let told = super::told_type(data_type, self.column_type.modifier);
        let number = told.or(self.type_number).unwrap_or(data_type.oid());
        let is_character = told.is_some() && data_type == DataType::Text;
        let (by_value, align, storage) = layout(if is_character { DataType::Bool } else { data_type });
        vec![
            oid(self.relation),
            text(self.name),
            oid(if self.dropped { 0 } else { number }),
            Value::Int2(if is_character { 1 } else { data_type.length() }),
            int2(self.number),
            Value::Int4(i32::from(data_type.element().is_some() && !data_type.is_vector())),
            Value::Int4(-1),
            Value::Int4(if told.is_some() { -1 } else { self.column_type.modifier }),
            Value::Bool(by_value),
            text(align),
            text(storage),
            Value::Bool(self.not_null),
            Value::Bool(self.has_default),
            text(self.identity),
            text(self.generated),
            Value::Bool(self.dropped),
            YES,
            oid(if told.is_some() { 0 } else { collation(data_type) }),
            Value::Int4(-1),
            Value::Bool(!self.missing.is_null()),
            self.missing.clone(),
        ]
    }
}

/// Whether PostgreSQL passes values of a type by value, how it aligns them, and where it stores them.
pub(super) fn layout(data_type: DataType) -> (bool, &'static str, &'static str) {
    match data_type.length() {
        1 => (true, "c", "p"),
        2 => (true, "s", "p"),
        4 => (true, "i", "p"),
        8 if data_type == DataType::MacAddr8 => (false, "i", "p"),
        8 => (true, "d", "p"),
        64 => (false, "c", "p"),
        16 if data_type == DataType::Uuid => (false, "c", "p"),
        16 => (false, "d", "p"),
        6 => (false, "i", "p"),
        _ if matches!(data_type, DataType::Numeric | DataType::Inet | DataType::Cidr) => (false, "i", "m"),
        _ => (false, "i", "x"),
    }
}

fn attributes_of_table(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let own = table.columns.iter().enumerate();
    let mut rows: Vec<Vec<Value>> = own
        .map(|(place, column)| {
            let type_number = type_number(view, column.domain.as_ref(), column.column_type.data_type);
            Attribute {
                type_number: Some(type_number),
                missing: missing(view, column),
                ..attribute(table, place, column)
            }
            .row()
        })
        .collect();
    for index in table_indexes(table) {
        let mut labels = Vec::new();
        for (place, column) in index.all_columns().iter().enumerate() {
            let label = match table.key_expression(*column) {
                Some(own) => key_label(own),
                None => &table.columns[*column].name,
            };
            let name = free_label(&labels, label);
            rows.push(plain_attribute(index.oid, &name, table.key_type(*column), place, false));
            labels.push(name);
        }
    }
    rows
}

fn attribute<'a>(table: &Table, place: usize, column: &'a Column) -> Attribute<'a> {
    Attribute {
        relation: table.oid,
        name: &column.name,
        column_type: column.column_type,
        type_number: None,
        number: place + 1,
        not_null: column.not_null,
        has_default: has_default(column),
        identity: match column.identity_always {
            Some(true) => "a",
            Some(false) => "d",
            None => "",
        },
        generated: if column.generated.is_some() { "s" } else { "" },
        dropped: column.dropped,
        missing: Value::Null,
    }
}

/// What rows lack of a column.
fn missing(view: &View<'_>, column: &Column) -> Value {
    let Some(value) = column.missing.as_ref().filter(|_| !column.dropped) else {
        return Value::Null;
    };
    let mut written = Vec::new();
    write_text(
        value,
        column.column_type.data_type,
        &TextContext::default(),
        &mut written,
    );
    let written = view.named(String::from_utf8_lossy(&written).into_owned());
    Value::Array(Arc::new(Array::new(DataType::Text, vec![text(&written)])))
}

/// Whether a column has a default that is shown, which an identity column's is not, or is generated.
pub(super) fn has_default(column: &Column) -> bool {
    column.generated.is_some() || (column.default_text.is_some() && column.identity_always.is_none())
}

fn other_attributes(view: &View<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for sequence in view.catalog.sequences.values() {
        let columns = [
            ("last_value", DataType::Int8),
            ("log_cnt", DataType::Int8),
            ("is_called", DataType::Bool),
        ];
        for (place, (name, data_type)) in columns.into_iter().enumerate() {
            rows.push(plain_attribute(
                sequence.id,
                name,
                ColumnType::plain(data_type),
                place,
                true,
            ));
        }
    }
    for view in view.catalog.views.values() {
        for (place, (name, column_type)) in view.columns.iter().enumerate() {
            rows.push(plain_attribute(view.oid, name, *column_type, place, false));
        }
    }
    for table in registry::tables() {
        for (place, column) in table.columns.iter().enumerate() {
            let not_null = !table.is_view && !column.default.is_null();
            rows.push(plain_attribute(
                table.oid,
                column.name,
                column.column_type,
                place,
                not_null,
            ));
        }
    }
    rows
}

fn plain_attribute(relation: u32, name: &str, column_type: ColumnType, place: usize, not_null: bool) -> Vec<Value> {
    Attribute {
        relation,
        name,
        column_type,
        type_number: None,
        number: place + 1,
        not_null,
        has_default: false,
        identity: "",
        generated: "",
        dropped: false,
        missing: Value::Null,
    }
    .row()
}

fn defaults(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let columns = table
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| has_default(column));
    let row = |(place, column): (usize, &Column)| {
        vec![
            oid(default_number(table, place)),
            oid(table.oid),
            int2(place + 1),
            match &column.generated {
                Some(own) => text(&view.named(shown(table, own))),
                None => shown_default(view, column).map_or(Value::Null, |default| text(&default)),
            },
        ]
    };
    columns.map(row).collect()
}

fn indexes(_: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let of_columns = |columns: &[usize], number: fn(DataType) -> u32| {
        let numbers = columns
            .iter()
            .map(|column| oid(number(table.key_type(*column).data_type)));
        vector(DataType::Oid, numbers.collect())
    };
    let rows = table_indexes(table).map(|index| {
        let orders = (0..index.columns.len()).map(|place| Value::Int2(i16::from(index.order(place).bits())));
        let orders = orders.collect();
        vec![
            oid(index.oid),
            oid(table.oid),
            int2(index.columns.len() + index.included.len()),
            int2(index.columns.len()),
            Value::Bool(index.unique),
            Value::Bool(index.is_primary()),
            Value::Bool(!index.deferral.is_deferrable()),
            YES,
            YES,
            YES,
            vector(DataType::Int2, column_numbers(&index.all_columns())),
            of_columns(index.columns, collation),
            of_columns(index.columns, default_operator_class),
            vector(DataType::Int2, orders),
            shown_expressions(table, index.columns),
            index.predicate.map_or(Value::Null, |own| text(&shown(table, own))),
            Value::Bool(index.nulls_not_distinct),
        ]
    });
    rows.collect()
}

/// The expressions of an index, as the catalog has them.
fn shown_expressions(table: &Table, columns: &[usize]) -> Value {
    let own = columns.iter().filter_map(|number| table.key_expression(*number));
    let shown: Vec<String> = own.map(|own| shown(table, &own.value)).collect();
    if shown.is_empty() {
        Value::Null
    } else {
        text(&shown.join(", "))
    }
}

/// The number of btree's default operator class of a type.
fn default_operator_class(data_type: DataType) -> u32 {
    let wanted = match data_type {
        DataType::Varchar => DataType::Text,
        other => other,
    };
    super::values::operator_classes()
        .iter()
        .find(|(own, _)| *own == wanted.oid())
        .map_or(0, |(_, number)| *number)
}

fn sequences(view: &View<'_>) -> Vec<Vec<Value>> {
    let sequences = view.catalog.sequences.values();
    let row = |sequence: &std::sync::Arc<crate::catalog::Sequence>| {
        vec![
            oid(sequence.id),
            oid(sequence_type(view.catalog, sequence).oid()),
            Value::Int8(sequence.start),
            Value::Int8(sequence.increment),
            Value::Int8(sequence.maximum),
            Value::Int8(sequence.minimum),
            Value::Int8(sequence.cache),
            Value::Bool(sequence.cycle),
        ]
    };
    sequences.map(row).collect()
}

/// The type of a sequence's numbers. Of one that was made when that was not kept: that of the column that owns it, as far as its
/// limits fit there.
pub(super) fn sequence_type(catalog: &Catalog, sequence: &crate::catalog::Sequence) -> DataType {
    if let Some(own) = sequence.data_type {
        return own;
    }
    let owner = sequence.owned_by.as_ref().and_then(|(table, column)| {
        let table = catalog.tables.get(table)?;
        table.columns.get(*column)
    });
    match owner.map(|column| column.column_type.data_type) {
        Some(own @ (DataType::Int2 | DataType::Int4)) if sequence.maximum <= limit(own) => own,
        _ => DataType::Int8,
    }
}

fn limit(data_type: DataType) -> i64 {
    match data_type {
        DataType::Int2 => i64::from(i16::MAX),
        DataType::Int4 => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}
