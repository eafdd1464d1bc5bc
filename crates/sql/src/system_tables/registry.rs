//! Which system tables there are: those that were recorded from PostgreSQL, with its columns, and Rubato's own views.

use super::names::{ObjectKind, character_type, counted_type};
use super::{Content, Source, SystemColumn, SystemTable};
use super::{
    classes, columns, constraints, domains, enums, extension, information, keywords, live, none_of_table, schema_views,
    singles, values,
};
use rubato_base::text_format::{TextContext, parse_text};
use rubato_base::{ColumnType, DataType, Value};
use rubato_formula::KeptOpen;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Schema, name, number, kind and columns of each, as `recorded/record.py` wrote them down.
static RELATIONS: &str = include_str!("recorded/relations.tsv");

struct Registry {
    tables: Vec<SystemTable>,
    by_name: HashMap<(&'static str, &'static str), usize>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut tables: Vec<SystemTable> = RELATIONS.lines().filter_map(recorded).collect();
    tables.extend(live::own_views());
    let by_name = tables.iter().enumerate();
    let by_name = by_name
        .map(|(place, table)| ((table.schema, table.short_name()), place))
        .collect();
    Registry { tables, by_name }
});

/// Functions of many rows, which stand in FROM with brackets; `name` has them.
static FUNCTIONS: LazyLock<Vec<SystemTable>> = LazyLock::new(|| {
    let views = [
        ("pg_catalog.pg_show_all_settings()", 2084, "pg_settings"),
        ("pg_catalog.pg_timezone_names()", 2856, "pg_timezone_names"),
        ("pg_catalog.pg_timezone_abbrevs()", 2599, "pg_timezone_abbrevs"),
        ("pg_catalog.pg_available_extensions()", 3082, "pg_available_extensions"),
    ];
    let views = views
        .into_iter()
        .filter_map(|(name, oid, view)| view_function(name, oid, find(None, view)?));
    views.chain([keywords_function()]).collect()
});

/// The function of which a view is made.
fn view_function(name: &'static str, oid: u32, view: &SystemTable) -> Option<SystemTable> {
    Some(SystemTable {
        schema: "pg_catalog",
        name,
        oid,
        is_view: false,
        columns: view.columns.clone(),
        content: match &view.content {
            Content::Session(rows) => Content::Session(*rows),
            Content::Catalog(source) => Content::Catalog(*source),
            Content::Live(_) => return None,
        },
    })
}

fn keywords_function() -> SystemTable {
    let columns = ["word", "catcode", "barelabel", "catdesc", "baredesc"];
    let data_type = |name: &str| {
        if name == "barelabel" {
            DataType::Bool
        } else {
            DataType::Text
        }
    };
    let source = Source {
        name: "pg_catalog.pg_get_keywords()",
        columns: &["word", "catcode", "barelabel", "catdesc", "baredesc"],
        of_table: none_of_table,
        others: |_| keywords::rows(),
    };
    SystemTable {
        schema: "pg_catalog",
        name: source.name,
        oid: 1686,
        is_view: false,
        columns: columns
            .map(|name| column(name, ColumnType::plain(data_type(name)), Value::Null))
            .into(),
        content: Content::Catalog(Some(source)),
    }
}

/// All system tables.
pub(super) fn tables() -> impl Iterator<Item = &'static SystemTable> {
    REGISTRY.tables.iter()
}

/// Everything that makes rows from a catalog.
pub(super) fn sources() -> impl Iterator<Item = &'static Source> {
    let lists = [
        classes::SOURCES,
        columns::SOURCES,
        constraints::SOURCES,
        domains::SOURCES,
        enums::SOURCES,
        extension::SOURCES,
        information::SOURCES,
        values::SOURCES,
    ];
    lists.into_iter().chain(schema_views::SOURCES).flatten()
}

/// The system table of this name; those of `pg_catalog` are found without their schema too.
pub(crate) fn find(schema: Option<&str>, name: &str) -> Option<&'static SystemTable> {
    let schema = schema.unwrap_or("pg_catalog");
    let by_name: &HashMap<(&str, &str), usize> = &REGISTRY.by_name;
    by_name
        .get(&(schema, name))
        .and_then(|place| REGISTRY.tables.get(*place))
}

/// The function of many rows of this name, without arguments.
pub(crate) fn function(name: &str) -> Option<&'static SystemTable> {
    let mut functions = FUNCTIONS.iter();
    functions.find(|function| function.short_name().strip_suffix("()") == Some(name))
}

/// The system table, or function of many rows, that a plan names.
pub(crate) fn by_full_name(name: &str) -> Option<&'static SystemTable> {
    let (schema, short) = name.split_once('.')?;
    find(Some(schema), short).or_else(|| FUNCTIONS.iter().find(|function| function.name == name))
}

/// Whether this is the number of a system table.
pub(crate) fn has_number(number: i64) -> bool {
    tables().any(|table| i64::from(table.oid) == number)
}

pub(super) fn column(name: &'static str, column_type: ColumnType, default: Value) -> SystemColumn {
    SystemColumn {
        name,
        column_type,
        default,
    }
}

/// One line of what was recorded; `None` for a line that is none.
fn recorded(line: &'static str) -> Option<SystemTable> {
    let mut fields = line.split('\t');
    let (schema, short) = (fields.next()?, fields.next()?);
    let (oid, kind) = (fields.next()?.parse().ok()?, fields.next()?);
    let columns = fields.next()?.split(' ').filter_map(recorded_column).collect();
    let name: &'static str = Box::leak(format!("{schema}.{short}").into_boxed_str());
    let source = || sources().find(|source| source.name == name).copied();
    let content = match (live::view_of(name), name) {
        (Some(rows), _) => Content::Live(rows),
        (None, "pg_catalog.pg_settings") => Content::Session(|_, environment| Ok(values::settings(environment))),
        (None, "pg_catalog.pg_timezone_names") => Content::Session(|_, environment| singles::time_zones(environment)),
        (None, "pg_catalog.pg_timezone_abbrevs") => {
            Content::Session(|_, environment| singles::time_zone_abbreviations(environment))
        }
        (None, "pg_catalog.pg_sequences") => Content::Session(schema_views::sequences),
        (None, "pg_catalog.pg_stat_bgwriter") => {
            Content::Session(|_, _| Ok(singles::nothing_counted("pg_stat_bgwriter")))
        }
        (None, "pg_catalog.pg_stat_archiver") => {
            Content::Session(|_, _| Ok(singles::nothing_counted("pg_stat_archiver")))
        }
        (None, "pg_catalog.pg_stat_wal") => Content::Session(|_, _| Ok(singles::nothing_counted("pg_stat_wal"))),
        (None, "pg_catalog.pg_prepared_statements") => {
            Content::Session(|_, environment| environment.kept_open(KeptOpen::Statements))
        }
        (None, "pg_catalog.pg_cursors") => Content::Session(|_, environment| environment.kept_open(KeptOpen::Cursors)),
        (None, _) => Content::Catalog(source()),
    };
    Some(SystemTable {
        schema,
        name,
        oid,
        is_view: kind == "v",
        columns,
        content,
    })
}

fn recorded_column(text: &'static str) -> Option<SystemColumn> {
    let (name, type_name) = text.split_once(':')?;
    let (type_name, not_null) = match type_name.strip_suffix('!') {
        Some(type_name) => (type_name, true),
        None => (type_name, false),
    };
    let column_type = type_of(type_name);
    let default = if not_null {
        nothing_of(column_type.data_type)
    } else {
        Value::Null
    };
    Some(column(name, column_type, default))
}

/// The type that stands for PostgreSQL's type of a catalog's column: what has no type here is shown as text.
fn type_of(name: &str) -> ColumnType {
    let plain = ColumnType::plain;
    if let Some(own) = counted_type(name) {
        return own;
    }
    match name {
        "oid" => plain(DataType::Oid),
        "regproc" => ObjectKind::Function.column_type(),
        "regtype" => ObjectKind::Type.column_type(),
        "char" => character_type(),
        "bool" => plain(DataType::Bool),
        "int2" => plain(DataType::Int2),
        "int4" => plain(DataType::Int4),
        "int8" => plain(DataType::Int8),
        "float4" => plain(DataType::Float4),
        "float8" => plain(DataType::Float8),
        "numeric" => plain(DataType::Numeric),
        "name" => plain(DataType::Name),
        "varchar" => plain(DataType::Varchar),
        "bytea" => plain(DataType::Bytea),
        "timestamptz" => plain(DataType::TimestampTz),
        "interval" => plain(DataType::Interval),
        "inet" => plain(DataType::Inet),
        "_bool" => plain(DataType::BoolArray),
        "_int2" => plain(DataType::Int2Array),
        "int2vector" => plain(DataType::Int2Vector),
        "oidvector" => plain(DataType::OidVector),
        "_oid" => plain(DataType::OidArray),
        "_float4" => plain(DataType::Float4Array),
        "_float8" => plain(DataType::Float8Array),
        "_name" => plain(DataType::NameArray),
        "_text" | "_regtype" | "_char" | "_aclitem" | "anyarray" | "_pg_statistic" => plain(DataType::TextArray),
        _ => plain(DataType::Text),
    }
}

/// What stands in a column that holds no NULL, where nothing is said.
fn nothing_of(data_type: DataType) -> Value {
    let zero = match data_type {
        DataType::Bool => "f",
        DataType::Text | DataType::Name | DataType::Varchar => "",
        data_type if data_type.is_vector() => "",
        data_type if data_type.element().is_some() => "{}",
        _ => "0",
    };
    parse_text(data_type, -1, zero, &TextContext::default()).unwrap_or_default()
}

/// The rows that were recorded for a table, as far as `wanted` says so of their first columns' text: the header of the recorded text names
/// the columns, `columns` are those wanted.
pub(super) fn recorded_rows(
    table: &str,
    recorded: &'static str,
    columns: &[&str],
    wanted: impl Fn(&[&str]) -> bool,
) -> Vec<Vec<Value>> {
    let Some(table) = find(None, table) else {
        return Vec::new();
    };
    let mut lines = recorded.lines();
    let header: Vec<&str> = lines.next().map_or(Vec::new(), |header| header.split('\t').collect());
    let places: Vec<Option<(usize, DataType)>> = columns
        .iter()
        .map(|wanted| {
            let place = header.iter().position(|name| name == wanted)?;
            let column = table.columns.iter().find(|column| column.name == *wanted)?;
            Some((place, column.column_type.data_type))
        })
        .collect();
    let context = TextContext::default();
    let value = |fields: &[&str], place: &Option<(usize, DataType)>| {
        let (place, data_type) = (*place)?;
        let field = fields.get(place).filter(|field| **field != "\\N")?;
        parse_text(data_type, -1, &field.replace("\\\\", "\\"), &context).ok()
    };
    let rows = lines.map(|line| line.split('\t').collect::<Vec<&str>>());
    rows.filter(|fields| wanted(fields))
        .map(|fields| {
            places
                .iter()
                .map(|place| value(&fields, place).unwrap_or_default())
                .collect()
        })
        .collect()
}
