//! What an object is called that other catalogs name by the numbers of its catalog and its own: `pg_describe_object` for people,
//! `pg_identify_object` for tools.

use super::constraints::{CLASSES, CONSTRAINTS, DEFAULTS, NAMESPACES, REWRITES, TYPES, rule_view};
use super::enums::written_by_number;
use super::names::{ObjectKind, found_by_number, name_of, type_name};
use super::objects::{Object, default_number};
use super::operators::operator_with_sides_name;
use super::{View, quoted, registry, text, written_with_schema};
use crate::catalog::{RelationName, Table};
use rubato_base::{Error, Result, SqlState, Value};

/// What an object is called.
struct Identity {
    kind: &'static str,
    schema: Option<String>,
    /// Where the name alone, within its schema, says which it is.
    name: Option<String>,
    /// The name by which it is found from everywhere.
    identity: String,
    /// The name for people: as the reader finds it, or the whole description of what is part of something else.
    short: String,
    /// The column that is meant, for people.
    column: Option<String>,
}

impl Identity {
    /// Something that is in no schema.
    fn plain(kind: &'static str, name: &str) -> Identity {
        Identity {
            kind,
            schema: None,
            name: Some(quoted(name)),
            identity: quoted(name),
            short: name.to_owned(),
            column: None,
        }
    }

    /// Something of `pg_catalog`, with its name as it is written.
    fn in_catalog(kind: &'static str, written: String) -> Identity {
        Identity {
            kind,
            schema: Some("pg_catalog".to_owned()),
            name: None,
            identity: format!("pg_catalog.{written}"),
            short: written,
            column: None,
        }
    }

    /// A part of something else, with its description.
    fn part(kind: &'static str, schema: Option<String>, identity: String, description: String) -> Identity {
        Identity {
            kind,
            schema,
            name: None,
            identity,
            short: description,
            column: None,
        }
    }
}

/// `pg_describe_object`. XX000 for a class of objects that there is not.
pub(super) fn described(view: &View<'_>, class: i64, number: i64, part: i64) -> Result<Value> {
    Ok(identified(view, class, number, part)?.map_or(Value::Null, |own| {
        let Identity {
            kind, short, column, ..
        } = own;
        text(&match (kind, column) {
            ("default value" | "table constraint" | "domain constraint" | "rule" | "cast", _) => short,
            (kind, Some(column)) => {
                let relation = kind.strip_suffix(" column").unwrap_or(kind);
                format!("column {column} of {relation} {short}")
            }
            (kind, None) => format!("{kind} {short}"),
        })
    }))
}

/// `pg_identify_object`: kind, schema, name and identity.
pub(super) fn identity(view: &View<'_>, class: i64, number: i64, part: i64) -> Result<[Value; 4]> {
    let shown = |own: Option<String>| own.as_deref().map_or(Value::Null, text);
    Ok(match identified(view, class, number, part)? {
        Some(own) => [text(own.kind), shown(own.schema), shown(own.name), text(&own.identity)],
        None => match class {
            i if i == i64::from(CLASSES) => [text("relation"), Value::Null, Value::Null, Value::Null],
            _ => [Value::Null, Value::Null, Value::Null, Value::Null],
        },
    })
}

fn identified(view: &View<'_>, class: i64, number: i64, part: i64) -> Result<Option<Identity>> {
    let system = |kind, table: &str| {
        let row = found_by_number(table, number, view)?;
        let name = row.get(1).and_then(Value::as_str)?;
        Some(Identity::plain(kind, name))
    };
    let class = u32::try_from(class).unwrap_or(0);
    Ok(match class {
        0 => None,
        CLASSES => relation(view, number, part),
        CONSTRAINTS => constraint(view, number),
        DEFAULTS => default(view, number),
        NAMESPACES => system("schema", "pg_catalog.pg_namespace"),
        TYPES => type_identity(view, number),
        REWRITES => rule_view(number).and_then(|number| rule(view, number)),
        1255 => routine(view, number),
        2617 => operator(view, number),
        2605 => cast(view, number),
        1260 => system("role", "pg_catalog.pg_authid"),
        1262 => system("database", "pg_catalog.pg_database"),
        2612 => system("language", "pg_catalog.pg_language"),
        2601 => system("access method", "pg_catalog.pg_am"),
        3079 => system("extension", "pg_catalog.pg_extension"),
        1213 => system("tablespace", "pg_catalog.pg_tablespace"),
        3456 => collation(view, number),
        other => {
            let message = format!("unrecognized object class: {other}");
            return Err(Error::new(SqlState::INTERNAL_ERROR, message));
        }
    })
}

/// The kinds of relations: alone, and where one of their columns is meant.
fn relation_kind(object: &Object) -> Option<(&'static str, &'static str)> {
    Some(match object {
        Object::Table(table) if table.materialised.is_some() => ("materialized view", "materialized view column"),
        Object::Table(_) => ("table", "table column"),
        Object::PrimaryKey(_) | Object::Index(..) => ("index", "index column"),
        Object::Sequence(_) => ("sequence", "sequence column"),
        Object::View(_) => ("view", "view column"),
        Object::Check(..) | Object::ForeignKey(..) | Object::DomainCheck(..) => return None,
    })
}

fn relation(view: &View<'_>, number: i64, part: i64) -> Option<Identity> {
    let (kinds, schema, name, short) = match view.object(number) {
        Some(object) => {
            let relation = object.relation()?;
            let schema = view.catalog.schema_name(relation.schema);
            let kinds = relation_kind(object)?;
            (kinds, schema, relation.name.clone(), view.written(&relation))
        }
        None => {
            let table = registry::tables().find(|table| i64::from(table.oid) == number)?;
            let kinds = match table.is_view {
                true => ("view", "view column"),
                false => ("table", "table column"),
            };
            let short = name_of(ObjectKind::Relation, number, view);
            (kinds, table.schema.into(), table.short_name().to_owned(), short)
        }
    };
    let name = quoted(&name);
    let identity = format!("{}.{name}", quoted(&schema));
    let column = match part {
        0 => None,
        part => Some(column_name(view, number, part)?),
    };
    Some(Identity {
        kind: if column.is_some() { kinds.1 } else { kinds.0 },
        schema: Some(quoted(&schema)),
        name: Some(name),
        identity: match &column {
            Some(column) => format!("{identity}.{}", quoted(column)),
            None => identity,
        },
        short,
        column,
    })
}

fn column_name(view: &View<'_>, number: i64, part: i64) -> Option<String> {
    let place = usize::try_from(part - 1).ok()?;
    match view.object(number) {
        Some(Object::Table(table)) => table.columns.get(place).map(|column| column.name.clone()),
        Some(Object::View(own)) => own.columns.get(place).map(|(name, _)| name.clone()),
        Some(_) => None,
        None => {
            let table = registry::tables().find(|table| i64::from(table.oid) == number)?;
            table.columns.get(place).map(|column| column.name.to_owned())
        }
    }
}

fn constraint(view: &View<'_>, number: i64) -> Option<Identity> {
    let object = view.object(number)?;
    let (table, name) = match object {
        Object::PrimaryKey(table) | Object::Index(table, _) => (table, object.relation()?.name.clone()),
        Object::Check(table, place) => (table, table.checks.get(*place)?.name.clone()),
        Object::ForeignKey(table, place) => (table, table.foreign_keys.get(*place)?.name.clone()),
        Object::DomainCheck(domain, place) => {
            let name = &domain.checks.get(*place)?.name;
            let on = written_with_schema(view.catalog, &domain.key());
            let identity = format!("{} on {on}", quoted(name));
            let schema = Some(quoted(&view.catalog.schema_name(domain.schema)));
            return Some(Identity::part(
                "domain constraint",
                schema,
                identity,
                format!("constraint {name}"),
            ));
        }
        Object::Table(_) | Object::Sequence(_) | Object::View(_) => return None,
    };
    let on = written_with_schema(view.catalog, &table.key());
    let description = format!("constraint {name} on table {}", view.written(&table.key()));
    let schema = Some(quoted(&view.catalog.schema_name(table.schema)));
    let identity = format!("{} on {on}", quoted(&name));
    Some(Identity::part("table constraint", schema, identity, description))
}

fn default(view: &View<'_>, number: i64) -> Option<Identity> {
    let of_table = |table: &Table| {
        let mut columns = 0..table.columns.len();
        columns.find(|place| i64::from(default_number(table, *place)) == number)
    };
    let mut tables = view.catalog.tables.values();
    let (table, place) = tables.find_map(|table| Some((table, of_table(table)?)))?;
    let column = &table.columns.get(place)?.name;
    let of = written_with_schema(view.catalog, &table.key());
    let description = format!(
        "default value for column {column} of table {}",
        view.written(&table.key())
    );
    let identity = format!("for {of}.{}", quoted(column));
    Some(Identity::part("default value", None, identity, description))
}

fn type_identity(view: &View<'_>, number: i64) -> Option<Identity> {
    let row = found_by_number("pg_catalog.pg_type", number, view)?;
    let name = quoted(row.get(1).and_then(Value::as_str)?);
    let schema = name_of(ObjectKind::Schema, row.get(2).and_then(Value::as_i64)?, view);
    let own = written_by_number(view, number);
    let identity = match &own {
        Some(_) => format!("{schema}.{name}"),
        None => type_name(number, -1),
    };
    Some(Identity {
        kind: "type",
        schema: Some(schema),
        name: Some(name),
        short: own.unwrap_or_else(|| identity.clone()),
        identity,
        column: None,
    })
}

fn rule(view: &View<'_>, number: i64) -> Option<Identity> {
    let object = view.object(number)?;
    let (kind, relation): (&str, RelationName) = (relation_kind(object)?.0, object.relation()?);
    let on = written_with_schema(view.catalog, &relation);
    let description = format!("rule _RETURN on {kind} {}", view.written(&relation));
    Some(Identity::part(
        "rule",
        None,
        format!("\"_RETURN\" on {on}"),
        description,
    ))
}

fn routine(view: &View<'_>, number: i64) -> Option<Identity> {
    found_by_number("pg_catalog.pg_proc", number, view)?;
    let name = name_of(ObjectKind::FunctionWithArguments, number, view);
    Some(Identity::in_catalog("function", name))
}

fn operator(view: &View<'_>, number: i64) -> Option<Identity> {
    operator_with_sides_name(number, view).map(|name| Identity::in_catalog("operator", name))
}

fn collation(view: &View<'_>, number: i64) -> Option<Identity> {
    found_by_number("pg_catalog.pg_collation", number, view)?;
    let name = name_of(ObjectKind::Collation, number, view);
    Some(Identity {
        name: Some(name.clone()),
        ..Identity::in_catalog("collation", name)
    })
}

fn cast(view: &View<'_>, number: i64) -> Option<Identity> {
    let row = found_by_number("pg_catalog.pg_cast", number, view)?;
    let side = |place: usize| Some(type_name(row.get(place)?.as_i64()?, -1));
    let (from, to) = (side(1)?, side(2)?);
    let description = format!("cast from {from} to {to}");
    Some(Identity::part("cast", None, format!("({from} AS {to})"), description))
}
