//! Types, databases, roles and settings in `pg_catalog`, and the tables that are always empty here.

use super::{OWNER, OWNER_NAME, PG_CATALOG, SystemTable, oid, text};
use crate::catalog::Catalog;
use DataType::{Bool, Float4, Int2, Int4, Int8, Name, Oid, Text};
use rubato_base::{DataType, Value};

fn nothing(_: &Catalog) -> Vec<Vec<Value>> {
    Vec::new()
}

const ROLE_COLUMNS: &[(&str, DataType)] = &[
    ("rolname", Name),
    ("rolsuper", Bool),
    ("rolinherit", Bool),
    ("rolcreaterole", Bool),
    ("rolcreatedb", Bool),
    ("rolcanlogin", Bool),
    ("rolreplication", Bool),
    ("rolconnlimit", Int4),
    ("rolbypassrls", Bool),
    ("rolvaliduntil", DataType::TimestampTz),
    ("oid", Oid),
];

pub(super) static TABLES: &[SystemTable] = &[
    SystemTable {
        name: "pg_catalog.pg_type",
        oid: 1247,
        columns: &[
            ("oid", Oid),
            ("typname", Name),
            ("typnamespace", Oid),
            ("typowner", Oid),
            ("typlen", Int2),
            ("typbyval", Bool),
            ("typtype", Text),
            ("typcategory", Text),
            ("typispreferred", Bool),
            ("typisdefined", Bool),
            ("typdelim", Text),
            ("typrelid", Oid),
            ("typelem", Oid),
            ("typarray", Oid),
            ("typinput", Text),
            ("typoutput", Text),
            ("typnotnull", Bool),
            ("typbasetype", Oid),
            ("typtypmod", Int4),
            ("typndims", Int4),
            ("typcollation", Oid),
            ("typdefault", Text),
        ],
        rows: types,
    },
    SystemTable {
        name: "pg_catalog.pg_database",
        oid: 1262,
        columns: &[
            ("oid", Oid),
            ("datname", Name),
            ("datdba", Oid),
            ("encoding", Int4),
            ("datcollate", Name),
            ("datctype", Name),
            ("daticulocale", Text),
            ("datlocprovider", Text),
            ("datistemplate", Bool),
            ("datallowconn", Bool),
            ("datconnlimit", Int4),
            ("dattablespace", Oid),
            ("datacl", Text),
        ],
        rows: databases,
    },
    SystemTable {
        name: "pg_catalog.pg_roles",
        oid: 12_010,
        columns: ROLE_COLUMNS,
        rows: roles,
    },
    SystemTable {
        name: "pg_catalog.pg_authid",
        oid: 1260,
        columns: ROLE_COLUMNS,
        rows: roles,
    },
    SystemTable {
        name: "pg_catalog.pg_user",
        oid: 12_011,
        columns: &[
            ("usename", Name),
            ("usesysid", Oid),
            ("usecreatedb", Bool),
            ("usesuper", Bool),
        ],
        rows: |_| vec![vec![text(OWNER_NAME), oid(OWNER), Value::Bool(true), Value::Bool(true)]],
    },
    SystemTable {
        name: "pg_catalog.pg_settings",
        oid: 12_012,
        columns: &[
            ("name", Text),
            ("setting", Text),
            ("unit", Text),
            ("category", Text),
            ("short_desc", Text),
            ("context", Text),
            ("vartype", Text),
        ],
        rows: settings,
    },
    SystemTable {
        name: "pg_catalog.pg_sequences",
        oid: 12_013,
        columns: &[
            ("schemaname", Name),
            ("sequencename", Name),
            ("sequenceowner", Name),
            ("start_value", Int8),
            ("min_value", Int8),
            ("max_value", Int8),
            ("increment_by", Int8),
            ("cycle", Bool),
            ("cache_size", Int8),
        ],
        rows: sequences,
    },
    SystemTable {
        name: "pg_catalog.pg_am",
        oid: 2601,
        columns: &[("oid", Oid), ("amname", Name), ("amtype", Text)],
        rows: |_| {
            vec![
                vec![oid(2), text("heap"), text("t")],
                vec![oid(403), text("btree"), text("i")],
            ]
        },
    },
    SystemTable {
        name: "pg_catalog.pg_description",
        oid: 2609,
        columns: &[
            ("objoid", Oid),
            ("classoid", Oid),
            ("objsubid", Int4),
            ("description", Text),
        ],
        rows: nothing,
    },
    SystemTable {
        name: "pg_catalog.pg_enum",
        oid: 3501,
        columns: &[
            ("oid", Oid),
            ("enumtypid", Oid),
            ("enumsortorder", Float4),
            ("enumlabel", Name),
        ],
        rows: nothing,
    },
    SystemTable {
        name: "pg_catalog.pg_range",
        oid: 3541,
        columns: &[
            ("rngtypid", Oid),
            ("rngsubtype", Oid),
            ("rngmultitypid", Oid),
            ("rngcollation", Oid),
        ],
        rows: nothing,
    },
    SystemTable {
        name: "pg_catalog.pg_inherits",
        oid: 2611,
        columns: &[("inhrelid", Oid), ("inhparent", Oid), ("inhseqno", Int4)],
        rows: nothing,
    },
    SystemTable {
        name: "pg_catalog.pg_trigger",
        oid: 2620,
        columns: &[("oid", Oid), ("tgrelid", Oid), ("tgname", Name), ("tgisinternal", Bool)],
        rows: nothing,
    },
    SystemTable {
        name: "pg_catalog.pg_extension",
        oid: 3079,
        columns: &[
            ("oid", Oid),
            ("extname", Name),
            ("extnamespace", Oid),
            ("extversion", Text),
        ],
        rows: nothing,
    },
    SystemTable {
        name: "pg_catalog.pg_collation",
        oid: 3456,
        columns: &[
            ("oid", Oid),
            ("collname", Name),
            ("collnamespace", Oid),
            ("collprovider", Text),
        ],
        rows: |_| {
            [(100, "default"), (950, "C"), (951, "POSIX")]
                .map(|(number, name)| vec![oid(number), text(name), oid(PG_CATALOG), text("c")])
                .to_vec()
        },
    },
    SystemTable {
        name: "pg_catalog.pg_views",
        oid: 12_014,
        columns: &[
            ("schemaname", Name),
            ("viewname", Name),
            ("viewowner", Name),
            ("definition", Text),
        ],
        rows: nothing,
    },
    SystemTable {
        name: "pg_catalog.pg_matviews",
        oid: 12_015,
        columns: &[
            ("schemaname", Name),
            ("matviewname", Name),
            ("matviewowner", Name),
            ("definition", Text),
        ],
        rows: nothing,
    },
];

/// PostgreSQL's internal name and category of each type that is not an array.
const TYPE_NAMES: [(DataType, &str, &str); 23] = [
    (DataType::Bool, "bool", "B"),
    (DataType::Bytea, "bytea", "U"),
    (DataType::Name, "name", "S"),
    (DataType::Int8, "int8", "N"),
    (DataType::Int2, "int2", "N"),
    (DataType::Int4, "int4", "N"),
    (DataType::Text, "text", "S"),
    (DataType::Oid, "oid", "N"),
    (DataType::Float4, "float4", "N"),
    (DataType::Float8, "float8", "N"),
    (DataType::Char, "bpchar", "S"),
    (DataType::Varchar, "varchar", "S"),
    (DataType::Date, "date", "D"),
    (DataType::Time, "time", "D"),
    (DataType::Timestamp, "timestamp", "D"),
    (DataType::TimestampTz, "timestamptz", "D"),
    (DataType::Interval, "interval", "T"),
    (DataType::Numeric, "numeric", "N"),
    (DataType::Uuid, "uuid", "U"),
    (DataType::Json, "json", "U"),
    (DataType::Jsonb, "jsonb", "U"),
    (DataType::Int2Vector, "int2vector", "A"),
    (DataType::OidVector, "oidvector", "A"),
];

fn types(_: &Catalog) -> Vec<Vec<Value>> {
    let own = TYPE_NAMES
        .iter()
        .map(|(data_type, name, category)| type_row(*data_type, name, category));
    let arrays = TYPE_NAMES.iter().filter_map(|(element, name, _)| {
        let array = element.array()?;
        Some(type_row(array, &format!("_{name}"), "A"))
    });
    own.chain(arrays).collect()
}

fn type_row(data_type: DataType, name: &str, category: &str) -> Vec<Value> {
    let by_value = (1..=8).contains(&data_type.length());
    let related = |other: Option<DataType>| oid(other.map_or(0, DataType::oid));
    let is_array = data_type.element().is_some() && !data_type.is_vector();
    // As PostgreSQL calls them: `array_in`, `int4in`, `json_in`.
    let functions = match name {
        _ if is_array => "array_".to_owned(),
        "date" | "time" | "timestamp" | "timestamptz" | "interval" | "numeric" | "uuid" | "json" | "jsonb" => {
            format!("{name}_")
        }
        _ => name.to_owned(),
    };
    let is_text = data_type.element().unwrap_or(data_type).is_text();
    vec![
        oid(data_type.oid()),
        text(name),
        oid(PG_CATALOG),
        oid(OWNER),
        Value::Int2(data_type.length()),
        Value::Bool(by_value),
        text("b"),
        text(category),
        Value::Bool(rubato_formula::is_preferred(data_type)),
        Value::Bool(true),
        text(","),
        oid(0),
        related(data_type.element()),
        related(data_type.array()),
        text(&format!("{functions}in")),
        text(&format!("{functions}out")),
        Value::Bool(false),
        oid(0),
        Value::Int4(-1),
        Value::Int4(0),
        oid(if is_text { 100 } else { 0 }),
        Value::Null,
    ]
}

/// The numbers and names of databases: they all mean the same tables.
pub(crate) const DATABASES: [(u32, &str); 2] = [(5, "postgres"), (16_383, "rubato")];

fn databases(_: &Catalog) -> Vec<Vec<Value>> {
    let row = |(number, name): (u32, &str)| {
        vec![
            oid(number),
            text(name),
            oid(OWNER),
            Value::Int4(6),
            text("C"),
            text("C"),
            Value::Null,
            text("c"),
            Value::Bool(false),
            Value::Bool(true),
            Value::Int4(-1),
            oid(1663),
            Value::Null,
        ]
    };
    DATABASES.map(row).to_vec()
}

fn roles(_: &Catalog) -> Vec<Vec<Value>> {
    let yes = Value::Bool(true);
    vec![vec![
        text(OWNER_NAME),
        yes.clone(),
        yes.clone(),
        yes.clone(),
        yes.clone(),
        yes.clone(),
        yes.clone(),
        Value::Int4(-1),
        yes,
        Value::Null,
        oid(OWNER),
    ]]
}

fn settings(_: &Catalog) -> Vec<Vec<Value>> {
    let row = |(name, value, kind): (&str, &str, &str)| {
        vec![
            text(name),
            text(value),
            Value::Null,
            text("Preset Options"),
            text("Fixed in this version."),
            text("internal"),
            text(kind),
        ]
    };
    [
        ("block_size", "8192", "integer"),
        ("integer_datetimes", "on", "bool"),
        ("max_identifier_length", "63", "integer"),
        ("max_index_keys", "32", "integer"),
        ("server_encoding", "UTF8", "string"),
        ("server_version_num", "150000", "integer"),
        ("standard_conforming_strings", "on", "bool"),
    ]
    .map(row)
    .to_vec()
}

fn sequences(catalog: &Catalog) -> Vec<Vec<Value>> {
    catalog
        .sequences
        .values()
        .map(|sequence| {
            vec![
                text("public"),
                text(&sequence.name),
                text(OWNER_NAME),
                Value::Int8(sequence.start),
                Value::Int8(sequence.minimum),
                Value::Int8(sequence.maximum),
                Value::Int8(sequence.increment),
                Value::Bool(sequence.cycle),
                Value::Int8(1),
            ]
        })
        .collect()
}
