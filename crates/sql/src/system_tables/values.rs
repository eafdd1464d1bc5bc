//! Types, functions, operators, roles and settings: what does not depend on the tables that there are.

use super::extension::SCHEMAS;
use super::registry::{find, recorded_rows};
use super::{DATABASE_OWNER, OWNER, Source, View, int4, none_of_table, oid, text};
use crate::catalog::{SYSTEM_SCHEMAS, SchemaId};
use rubato_base::{Array, DataType, Value};
use rubato_formula::{Environment, function_exists};
use std::sync::{Arc, LazyLock};

static TYPES: &str = include_str!("recorded/pg_type.tsv");
static FUNCTIONS: &str = include_str!("recorded/pg_proc.tsv");
static OPERATORS: &str = include_str!("recorded/pg_operator.tsv");
static OPERATOR_CLASSES: &str = include_str!("recorded/pg_opclass.tsv");
static CASTS: &str = include_str!("recorded/pg_cast.tsv");
static ACCESS_METHODS: &str = include_str!("recorded/pg_am.tsv");
static COLLATIONS: &str = include_str!("recorded/pg_collation.tsv");
static LANGUAGES: &str = include_str!("recorded/pg_language.tsv");
static DESCRIPTIONS: &str = include_str!("recorded/pg_description.tsv");
static SETTINGS: &str = include_str!("recorded/pg_settings.tsv");

/// A source whose rows were recorded, as far as `$wanted` says so of their fields.
macro_rules! recorded {
    ($name:literal, $short:literal, $text:ident, [$($column:literal),* $(,)?], $wanted:expr) => {
        Source {
            name: $name,
            columns: &[$($column),*],
            of_table: none_of_table,
            others: |_| recorded_rows($short, $text, &[$($column),*], $wanted),
        }
    };
}

/// What is known of a type.
const TYPE_COLUMNS: [&str; 31] = [
    "oid",
    "typname",
    "typnamespace",
    "typowner",
    "typlen",
    "typbyval",
    "typtype",
    "typcategory",
    "typispreferred",
    "typisdefined",
    "typdelim",
    "typrelid",
    "typsubscript",
    "typelem",
    "typarray",
    "typinput",
    "typoutput",
    "typreceive",
    "typsend",
    "typmodin",
    "typmodout",
    "typanalyze",
    "typalign",
    "typstorage",
    "typnotnull",
    "typbasetype",
    "typtypmod",
    "typndims",
    "typcollation",
    "typdefaultbin",
    "typdefault",
];

pub(super) static SOURCES: &[Source] = &[
    Source {
        name: "pg_catalog.pg_type",
        columns: &TYPE_COLUMNS,
        of_table: none_of_table,
        others: types,
    },
    recorded!(
        "pg_catalog.pg_proc",
        "pg_proc",
        FUNCTIONS,
        [
            "oid",
            "proname",
            "prolang",
            "prokind",
            "proisstrict",
            "proretset",
            "provolatile",
            "pronargs",
            "pronargdefaults",
            "provariadic",
            "prorettype",
            "proargtypes",
            "pronamespace",
            "proowner",
            "procost",
            "proparallel",
            "prosrc",
        ],
        |fields| function_exists(fields[1]) || is_type_function(fields[1])
    ),
    recorded!(
        "pg_catalog.pg_operator",
        "pg_operator",
        OPERATORS,
        [
            "oid",
            "oprname",
            "oprkind",
            "oprcanmerge",
            "oprcanhash",
            "oprleft",
            "oprright",
            "oprresult",
            "oprcom",
            "oprnegate",
            "oprcode",
            "oprrest",
            "oprjoin",
            "oprnamespace",
            "oprowner",
        ],
        |fields| [5, 6]
            .iter()
            .all(|side| fields[*side] == "0" || is_known_type(fields[*side]))
    ),
    recorded!(
        "pg_catalog.pg_opclass",
        "pg_opclass",
        OPERATOR_CLASSES,
        [
            "oid",
            "opcmethod",
            "opcname",
            "opcfamily",
            "opcintype",
            "opcdefault",
            "opckeytype",
            "opcnamespace",
            "opcowner"
        ],
        |fields| fields[1] == "403" && is_known_type(fields[4])
    ),
    recorded!(
        "pg_catalog.pg_cast",
        "pg_cast",
        CASTS,
        [
            "oid",
            "castsource",
            "casttarget",
            "castfunc",
            "castcontext",
            "castmethod"
        ],
        |fields| is_known_type(fields[1]) && is_known_type(fields[2])
    ),
    recorded!(
        "pg_catalog.pg_am",
        "pg_am",
        ACCESS_METHODS,
        ["oid", "amname", "amhandler", "amtype"],
        |_| true
    ),
    recorded!(
        "pg_catalog.pg_collation",
        "pg_collation",
        COLLATIONS,
        [
            "oid",
            "collname",
            "collprovider",
            "collisdeterministic",
            "collencoding",
            "collcollate",
            "collctype",
            "collnamespace",
            "collowner"
        ],
        |_| true
    ),
    recorded!(
        "pg_catalog.pg_language",
        "pg_language",
        LANGUAGES,
        ["oid", "lanname", "lanispl", "lanpltrusted", "lanowner"],
        |_| true
    ),
    Source {
        name: "pg_catalog.pg_namespace",
        columns: &["oid", "nspname", "nspowner", "nspacl"],
        of_table: none_of_table,
        others: |view| {
            let row = |(id, name): (SchemaId, String)| {
                let (owner, privileges) = match id {
                    SchemaId::PUBLIC => (DATABASE_OWNER, public_privileges()),
                    _ => (OWNER, Value::Null),
                };
                vec![oid(id.0), text(&name), oid(owner), privileges]
            };
            schemas(view).into_iter().map(row).collect()
        },
    },
    Source {
        name: "pg_catalog.pg_init_privs",
        columns: &["objoid", "classoid", "objsubid", "privtype", "initprivs"],
        of_table: none_of_table,
        others: |_| {
            vec![vec![
                oid(SchemaId::PUBLIC.0),
                oid(SCHEMAS),
                int4(0),
                text("i"),
                public_privileges(),
            ]]
        },
    },
    Source {
        name: "pg_catalog.pg_tablespace",
        columns: &["oid", "spcname", "spcowner"],
        of_table: none_of_table,
        others: |_| {
            [(1663, "pg_default"), (1664, "pg_global")]
                .map(|(number, name)| vec![oid(number), text(name), oid(OWNER)])
                .to_vec()
        },
    },
    Source {
        name: "pg_catalog.pg_authid",
        columns: ROLE_COLUMNS,
        of_table: none_of_table,
        others: roles,
    },
    Source {
        name: "pg_catalog.pg_roles",
        columns: ROLE_COLUMNS,
        of_table: none_of_table,
        others: roles,
    },
    Source {
        name: "pg_catalog.pg_user",
        columns: &[
            "usename",
            "usesysid",
            "usecreatedb",
            "usesuper",
            "userepl",
            "usebypassrls",
            "passwd",
        ],
        of_table: none_of_table,
        others: |view| {
            let yes = || Value::Bool(true);
            vec![vec![
                text(view.user),
                oid(OWNER),
                yes(),
                yes(),
                yes(),
                yes(),
                text("********"),
            ]]
        },
    },
];

const ROLE_COLUMNS: &[&str] = &[
    "oid",
    "rolname",
    "rolsuper",
    "rolinherit",
    "rolcreaterole",
    "rolcreatedb",
    "rolcanlogin",
    "rolreplication",
    "rolbypassrls",
    "rolconnlimit",
];

/// Types that only catalogs have, which are named all the same.
const CATALOG_TYPES: [&str; 21] = [
    "char",
    "_char",
    "regproc",
    "regclass",
    "regtype",
    "regprocedure",
    "regnamespace",
    "regrole",
    "regoper",
    "regoperator",
    "regconfig",
    "regdictionary",
    "regcollation",
    "int2vector",
    "oidvector",
    "pg_node_tree",
    "aclitem",
    "_aclitem",
    "xid",
    "_regtype",
    "_regclass",
];

fn is_known_type(number: &str) -> bool {
    let number = number.parse().ok().filter(|number| *number != 0);
    number.and_then(DataType::from_oid).is_some()
}

/// Whether a function reads or writes values of a type that is known.
fn is_type_function(name: &str) -> bool {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let known = |name: &&str| {
            CATALOG_TYPES.contains(name)
                || type_names()
                    .iter()
                    .any(|(number, own)| own == name && is_known_type(&number.to_string()))
        };
        let own = TYPES.lines().filter_map(|line| line.split('\t').nth(1));
        own.filter(known)
            .map(str::to_owned)
            .chain(["array", "any", "enum"].map(str::to_owned))
            .collect()
    });
    let ends = [
        "_in",
        "_out",
        "_recv",
        "_send",
        "in",
        "out",
        "recv",
        "send",
        "typmodin",
        "typmodout",
    ];
    let stem = |end: &&str| name.strip_suffix(*end);
    ends.iter()
        .filter_map(stem)
        .any(|stem| NAMES.iter().any(|own| own == stem))
}

/// Numbers and names of all of PostgreSQL's types.
pub(super) fn type_names() -> &'static [(i64, &'static str)] {
    static NAMES: LazyLock<Vec<(i64, &'static str)>> = LazyLock::new(|| {
        let entry = |line: &'static str| {
            let (number, rest) = line.split_once('\t')?;
            Some((number.parse().ok()?, rest.split('\t').next()?))
        };
        TYPES.lines().filter_map(entry).collect()
    });
    &NAMES
}

/// Btree's default operator classes: the number of the type, that of the class.
pub(super) fn operator_classes() -> &'static [(u32, u32)] {
    static CLASSES: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
        let entry = |line: &'static str| {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                [number, "403", _, _, data_type, "t", ..] => Some((data_type.parse().ok()?, number.parse().ok()?)),
                _ => None,
            }
        };
        OPERATOR_CLASSES.lines().filter_map(entry).collect()
    });
    &CLASSES
}

/// What PostgreSQL says of the objects that it comes with.
pub(super) fn descriptions() -> Vec<Vec<Value>> {
    let columns = ["objoid", "classoid", "objsubid", "description"];
    recorded_rows("pg_description", DESCRIPTIONS, &columns, |_| true)
}

/// Who may do what in `public`, as PostgreSQL makes it.
fn public_privileges() -> Value {
    let items = ["pg_database_owner=UC/pg_database_owner", "=U/pg_database_owner"];
    Value::Array(Arc::new(Array::new(DataType::Text, items.map(text).to_vec())))
}

fn roles(view: &View<'_>) -> Vec<Vec<Value>> {
    let mut row = vec![oid(OWNER), text(view.user)];
    row.extend(std::iter::repeat_n(Value::Bool(true), 7));
    row.push(Value::Int4(-1));
    let mut owner = vec![oid(DATABASE_OWNER), text("pg_database_owner")];
    let rights = [false, true, false, false, false, false, false];
    owner.extend(rights.map(Value::Bool));
    owner.push(Value::Int4(-1));
    vec![row, owner]
}

/// The settings that the session knows, with what PostgreSQL says of them.
pub(super) fn settings(environment: &dyn Environment) -> Vec<Vec<Value>> {
    let columns = [
        "name",
        "unit",
        "category",
        "short_desc",
        "context",
        "vartype",
        "min_val",
        "max_val",
        "boot_val",
    ];
    let Some(table) = find(None, "pg_settings") else {
        return Vec::new();
    };
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    let mut rows = Vec::new();
    for values in recorded_rows("pg_settings", SETTINGS, &columns, |_| true) {
        let Some(Value::Text(name)) = values.first() else {
            continue;
        };
        let Some(setting) = environment.setting(name) else {
            continue;
        };
        let mut row = vec![Value::Null; table.columns.len()];
        // As a number of the unit that stands beside it, which SHOW puts behind.
        let setting = match values.get(1) {
            Some(Value::Text(unit)) => in_unit(&setting, unit).unwrap_or(setting),
            _ => setting,
        };
        let more = [
            ("setting", text(&setting)),
            ("reset_val", text(&setting)),
            ("source", text("default")),
            ("pending_restart", Value::Bool(false)),
        ];
        for (name, value) in columns.into_iter().zip(values.iter().cloned()).chain(more) {
            if let Some(slot) = place(name).and_then(|place| row.get_mut(place)) {
                *slot = value;
            }
        }
        rows.push(row);
    }
    rows
}

/// What SHOW gives with a unit as a number of another one; `None` where it is none.
fn in_unit(shown: &str, unit: &str) -> Option<String> {
    // Bytes, and milliseconds.
    const SIZES: [(&str, i64); 11] = [
        ("B", 1),
        ("kB", 1 << 10),
        ("8kB", 1 << 13),
        ("MB", 1 << 20),
        ("GB", 1 << 30),
        ("TB", 1 << 40),
        ("ms", 1),
        ("s", 1_000),
        ("min", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
    ];
    let size_of = |unit: &str| SIZES.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size);
    let digits = shown
        .find(|letter: char| !letter.is_ascii_digit())
        .filter(|digits| *digits > 0)?;
    let number: i64 = shown[..digits].parse().ok()?;
    Some((number.checked_mul(size_of(&shown[digits..])?)? / size_of(unit)?).to_string())
}

fn types(view: &View<'_>) -> Vec<Vec<Value>> {
    let is_wanted =
        |fields: &[&str]| is_known_type(fields[0]) || fields[6] == "p" || CATALOG_TYPES.contains(&fields[1]);
    let mut rows = recorded_rows("pg_type", TYPES, &TYPE_COLUMNS, is_wanted);
    let enums = super::enums::types(view, &TYPE_COLUMNS, &rows);
    rows.extend(enums);
    let domains = super::domains::types(view, &TYPE_COLUMNS, &rows);
    rows.extend(domains);
    rows
}

/// Every schema that there is.
pub(super) fn schemas(view: &View<'_>) -> Vec<(SchemaId, String)> {
    let system = SYSTEM_SCHEMAS.iter().map(|(id, name)| (*id, (*name).to_owned()));
    let own = view.catalog.schemas.iter().map(|(name, id)| (*id, name.clone()));
    let temporary = view.catalog.temporary_schemas().into_iter();
    let temporary = temporary.map(|id| (id, view.catalog.schema_name(id)));
    system.chain(own).chain(temporary).collect()
}
