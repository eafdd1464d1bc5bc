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
        columns: &[("rngtypid", Oid), ("rngsubtype", Oid), ("rngcollation", Oid)],
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

/// PostgreSQL's internal name, category and array type of each type.
const TYPE_NAMES: [(DataType, &str, &str, u32); 19] = [
    (DataType::Bool, "bool", "B", 1000),
    (DataType::Bytea, "bytea", "U", 1001),
    (DataType::Name, "name", "S", 1003),
    (DataType::Int8, "int8", "N", 1016),
    (DataType::Int2, "int2", "N", 1005),
    (DataType::Int4, "int4", "N", 1007),
    (DataType::Text, "text", "S", 1009),
    (DataType::Oid, "oid", "N", 1028),
    (DataType::Float4, "float4", "N", 1021),
    (DataType::Float8, "float8", "N", 1022),
    (DataType::Char, "bpchar", "S", 1014),
    (DataType::Varchar, "varchar", "S", 1015),
    (DataType::Date, "date", "D", 1182),
    (DataType::Time, "time", "D", 1183),
    (DataType::Timestamp, "timestamp", "D", 1115),
    (DataType::TimestampTz, "timestamptz", "D", 1185),
    (DataType::Interval, "interval", "T", 1187),
    (DataType::Numeric, "numeric", "N", 1231),
    (DataType::Uuid, "uuid", "U", 2951),
];

fn types(_: &Catalog) -> Vec<Vec<Value>> {
    let by_value = |data_type: DataType| (1..=8).contains(&data_type.length());
    let row = |(data_type, name, category, array): &(DataType, &str, &str, u32)| {
        vec![
            oid(data_type.oid()),
            text(name),
            oid(PG_CATALOG),
            oid(OWNER),
            Value::Int2(data_type.length()),
            Value::Bool(by_value(*data_type)),
            text("b"),
            text(category),
            Value::Bool(rubato_formula::is_preferred(*data_type)),
            Value::Bool(true),
            text(","),
            oid(0),
            oid(0),
            oid(*array),
            text(&format!("{name}in")),
            text(&format!("{name}out")),
            Value::Bool(false),
            oid(0),
            Value::Int4(-1),
            Value::Int4(0),
            oid(if data_type.is_text() { 100 } else { 0 }),
            Value::Null,
        ]
    };
    TYPE_NAMES.iter().map(row).collect()
}

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
    [(5, "postgres"), (16_383, "rubato")].map(row).to_vec()
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
