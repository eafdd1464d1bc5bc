//! Functions that look into the catalog.

use super::columns::owned_sequence;
use super::definitions::{constraint_by_number, index_by_number};
use super::described::{described, identity};
use super::enums::written_by_number;
use super::names::{ObjectKind, function_arguments, function_result, name_of, number_of, type_name};
use super::objects::Object;
use super::qualified::{qualified, with_types};
use super::written_with_schema;
use super::{DATABASE_OWNER, OWNER, View, index_properties, made, registry, text};
use crate::binder::{materialised_text, name_of_text, view_text, with_named_literals, writable};
use crate::catalog::{RelationName, ViewQuery, available_extension};
use rubato_base::{Array, DataType, Error, Result, SqlState, Value};
use rubato_formula::quote_identifier;
use std::sync::Arc;

/// The value of a catalog function for arguments of which none is NULL. An unknown name has none. Errors are those of PostgreSQL for
/// names of nothing.
pub fn call(name: &str, arguments: &[Value], view: &View<'_>) -> Result<Value> {
    let number = |place: usize| arguments.get(place).and_then(Value::as_i64).unwrap_or(0);
    let shown = |found: Option<String>| found.map_or(Value::Null, |found| text(&found));
    let is_pretty = |place: usize| matches!(arguments.get(place), Some(Value::Bool(true)));
    if let Some(value) = named(name, arguments, view) {
        return value;
    }
    Ok(match (name, arguments) {
        ("format_type", _) => match written_by_number(view, number(0)) {
            Some(domain) => text(&domain),
            None => text(&type_name(number(0), -1)),
        },
        ("pg_get_expr", [Value::Text(expression), ..]) => shown_expression(expression, is_pretty(2), view),
        ("pg_get_indexdef", [_]) => shown(index_by_number(view, number(0), 0, false)),
        ("pg_get_indexdef", _) => shown(index_by_number(view, number(0), number(1), is_pretty(2))),
        ("pg_get_constraintdef", _) => match constraint_by_number(view, number(0), is_pretty(1)) {
            Some(definition) => text(&definition),
            None => return Err(missing_entry("constraint", number(0))),
        },
        ("pg_get_viewdef", [Value::Text(name), ..]) => {
            let number = number_of(ObjectKind::Relation, name, view)?;
            shown(view_definition(view, number))
        }
        ("pg_get_viewdef", _) => shown(view_definition(view, number(0))),
        ("pg_get_serial_sequence", [Value::Text(table), Value::Text(column)]) => serial_sequence(view, table, column)?,
        ("pg_get_function_result", _) => shown(function_result(number(0), view)),
        ("pg_get_function_arguments" | "pg_get_function_identity_arguments", _) => {
            shown(function_arguments(number(0), view))
        }
        ("acldefault", [Value::Text(kind), _]) => default_privileges(kind, &owner_name(number(1), view))?,
        ("pg_get_userbyid", _) => text(&owner_name(number(0), view)),
        ("obj_description", [_, Value::Text(class)]) => {
            let class = number_of(ObjectKind::Relation, class, view)?;
            description(view, number(0), 0, Some(class))
        }
        ("obj_description", _) => description(view, number(0), 0, None),
        ("col_description", _) => description(view, number(0), number(1), None),
        ("pg_relation_is_publishable", _) => Value::Bool(matches!(view.object(number(0)), Some(Object::Table(_)))),
        ("pg_relation_is_updatable", _) => Value::Int4(match view.object(number(0)) {
            Some(Object::View(found)) => writable(view.catalog, found).events(),
            Some(Object::Table(table)) if table.materialised.is_none() => 28,
            _ => 0,
        }),
        ("pg_column_is_updatable", _) => Value::Bool(match (view.object(number(0)), usize::try_from(number(1) - 1)) {
            (Some(Object::View(found)), Ok(place)) => {
                let writable = writable(view.catalog, found);
                writable.delete && writable.columns.get(place).copied().unwrap_or(false)
            }
            (Some(Object::Table(table)), Ok(_)) => table.materialised.is_none(),
            _ => false,
        }),
        ("pg_my_temp_schema", _) => {
            let own = view.path.temporary;
            Value::Int8(match view.catalog.is_empty_schema(own) {
                true => 0,
                false => i64::from(own.0),
            })
        }
        ("pg_is_other_temp_schema", _) => {
            let schemas = view.catalog.temporary_schemas().into_iter();
            let mut others = schemas.filter(|schema| *schema != view.path.temporary);
            Value::Bool(others.any(|schema| i64::from(schema.0) == number(0)))
        }
        ("pg_table_is_visible", _) => visible_relation(view, number(0)),
        ("pg_type_is_visible", _) => visible_type(view, number(0)),
        ("pg_relation_filenode", _) => match view.object(number(0)) {
            Some(_) => Value::Int8(number(0)),
            None => Value::Null,
        },
        ("pg_index_column_has_property", [_, _, Value::Text(property)]) => {
            index_properties::of_column(view, number(0), number(1), property)
        }
        ("pg_index_has_property", [_, Value::Text(property)]) => index_properties::of_index(view, number(0), property),
        ("pg_indexam_has_property", [_, Value::Text(property)]) => index_properties::of_method(number(0), property),
        ("pg_describe_object", _) => described(view, number(0), number(1), number(2))?,
        ("rubato_identity_part", [.., Value::Text(part)]) => {
            let [kind, schema, name, identity] = identity(view, number(0), number(1), number(2))?;
            match part.as_str() {
                "type" => kind,
                "schema" => schema,
                "name" => name,
                _ => identity,
            }
        }
        ("pg_identify_object", _) => {
            let identity = identity(view, number(0), number(1), number(2))?;
            Value::Array(Arc::new(Array::new(DataType::Text, identity.to_vec())))
        }
        ("oidvectortypes", [Value::Array(types)]) => {
            let names = types
                .items
                .iter()
                .filter_map(Value::as_i64)
                .map(|number| type_name(number, -1));
            text(&names.collect::<Vec<_>>().join(", "))
        }
        _ => Value::Null,
    })
}

/// The names of objects by their numbers and back; `None` for any other function.
fn named(function: &str, arguments: &[Value], view: &View<'_>) -> Option<Result<Value>> {
    let [argument] = arguments else { return None };
    let ends = [("to_", ""), ("", "out"), ("", "in")];
    let (end, kind) = ends.into_iter().find_map(|end| {
        let stem = function.strip_prefix(end.0)?.strip_suffix(end.1)?;
        Some((end, ObjectKind::of_type_name(stem)?))
    })?;
    Some(match (end, argument) {
        (("to_", _), Value::Text(name)) => known(kind, name, view),
        ((_, "in"), Value::Text(name)) => number_of(kind, name, view).map(Value::Int8),
        (_, argument) => Ok(text(&name_of(kind, argument.as_i64().unwrap_or(0), view))),
    })
}

fn owner_name(number: i64, view: &View<'_>) -> String {
    match u32::try_from(number) {
        Ok(OWNER) => view.user.to_owned(),
        Ok(DATABASE_OWNER) => "pg_database_owner".to_owned(),
        _ => format!("unknown (OID={number})"),
    }
}

/// What everybody and the owner may do with an object of this kind where nothing else was granted.
fn default_privileges(kind: &str, owner: &str) -> Result<Value> {
    let (everybody, owners) = match kind {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        other => {
            let message = format!("unrecognized objtype abbreviation: {other}");
            return Err(Error::new(SqlState::INTERNAL_ERROR, message));
        }
    };
    let owner = super::quoted(owner);
    let granted = [("", everybody), (owner.as_str(), owners)];
    let granted = granted.iter().filter(|(_, rights)| !rights.is_empty());
    let items = granted.map(|(role, rights)| text(&format!("{role}={rights}/{owner}")));
    Ok(Value::Array(Arc::new(Array::new(DataType::Text, items.collect()))))
}

fn missing_entry(what: &str, number: i64) -> Error {
    Error::new(
        SqlState::INTERNAL_ERROR,
        format!("cache lookup failed for {what} {number}"),
    )
}

/// The number that a name stands for, NULL if nothing has it.
fn known(kind: ObjectKind, name: &str, view: &View<'_>) -> Result<Value> {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty();
    match number_of(kind, name, view) {
        Ok(number) if !is_number && name != "-" => Ok(Value::Int8(number)),
        Err(error) if error.code() == SqlState::INVALID_NAME => Err(error),
        _ => Ok(Value::Null),
    }
}

/// The query of a view, materialised or not, as a statement; `None` for anything else.
fn view_definition(view: &View<'_>, number: i64) -> Option<String> {
    let (query, text) = match view.object(number)? {
        Object::View(found) => (&found.query, view_text(found)),
        Object::Table(table) => (&table.materialised.as_ref()?.query, materialised_text(table)?),
        _ => return None,
    };
    Some(format!(" {};", shown_query(query, &text, view)))
}

/// A text of a view's query; what it reads is named with its schema where that is not found otherwise.
fn shown_query(own: &ViewQuery, text: &str, view: &View<'_>) -> String {
    let schema_of = |name: &str| {
        let meant = own.meant(name)?;
        let is_found = view.path.sees(meant, view.catalog);
        (!is_found).then(|| format!("{}.", super::quoted(&view.catalog.schema_name(meant.schema))))
    };
    let query = with_named_literals(&qualified(text, &schema_of), &|literal| match literal.path.as_slice() {
        [name] => schema_of(name).map(|schema| schema + &super::quoted(name)),
        _ => None,
    });
    with_types(&query, view)
}

/// The catalog keeps expressions as text, those of constraints within brackets.
fn shown_expression(expression: &str, pretty: bool, view: &View<'_>) -> Value {
    let expression = &with_named_literals(expression, &|literal| as_found(&literal.path, view));
    if let Some(shown) = with_short_type(expression, view) {
        return text(&shown);
    }
    if let Some(shown) = with_extension(expression, view) {
        return text(&shown);
    }
    let expression = with_types(expression, view);
    let inner = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    match inner.filter(|_| pretty) {
        Some(inner) if balanced(inner) => text(inner),
        _ => text(&expression),
    }
}

/// A call of an extension's function, with its schema where the reader does not find it without: a dump is read without any search path.
fn with_extension(expression: &str, view: &View<'_>) -> Option<String> {
    let (name, _) = expression.split_once('(')?;
    let called = name.rsplit_once('.').map_or(name, |(_, called)| called);
    let mut created = view.catalog.extensions.iter();
    let (_, own) = created.find(|(name, _)| {
        let available = available_extension(name);
        available.is_some_and(|available| available.functions.contains(&called))
    })?;
    let behind = &expression[name.len()..];
    Some(match view.path.searched.contains(&own.schema) {
        true => format!("{called}{behind}"),
        false => format!(
            "{}.{called}{behind}",
            quote_identifier(&view.catalog.schema_name(own.schema))
        ),
    })
}

/// A default that is a label, with the name of its type as the reader finds it.
fn with_short_type(expression: &str, view: &View<'_>) -> Option<String> {
    let (value, name) = expression.rsplit_once("::")?;
    let (name, brackets) = name.strip_suffix("[]").map_or((name, ""), |name| (name, "[]"));
    let mut enums = view.catalog.enums.values();
    let own = enums.find(|own| written_with_schema(view.catalog, &own.key()) == name)?;
    let short = view.path.written_type(&own.key(), view.catalog);
    Some(format!("{value}::{short}{brackets}"))
}

/// The name of a sequence, without schema if that is `public`, as the reader finds it.
fn as_found(path: &[String], view: &View<'_>) -> Option<String> {
    let relation = match path {
        [name] => RelationName::new(view.catalog.schema_id("public")?, name.as_str()),
        [schema, name] => RelationName::new(view.catalog.schema_id(schema)?, name.as_str()),
        _ => return None,
    };
    let is_known = view.catalog.sequences.contains_key(&relation);
    is_known.then(|| view.path.written(&relation, view.catalog))
}

/// Whether no bracket is closed before it was opened.
fn balanced(text: &str) -> bool {
    let mut depth = 0i64;
    for letter in text.chars() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// `schema.sequence` of the sequence that a column owns.
fn serial_sequence(view: &View<'_>, table: &str, column: &str) -> Result<Value> {
    let number = number_of(ObjectKind::Relation, table, view)?;
    let Some(Object::Table(found)) = view.object(number) else {
        return Ok(Value::Null);
    };
    let place = found.columns.iter().position(|own| own.name == column && !own.dropped);
    let Some(place) = place else {
        let shown = name_of_text(table)?.pop().unwrap_or_default();
        let message = format!("column \"{column}\" of relation \"{shown}\" does not exist");
        return Err(Error::new(SqlState::UNDEFINED_COLUMN, message));
    };
    let sequence = owned_sequence(view, &found.key(), place);
    Ok(sequence.map_or(Value::Null, |sequence| {
        text(&super::written_with_schema(view.catalog, &sequence.key()))
    }))
}

fn visible_relation(view: &View<'_>, number: i64) -> Value {
    let system = || registry::tables().find(|table| i64::from(table.oid) == number);
    match (view.object(number), system()) {
        (Some(object), _) => object.relation().map_or(Value::Null, |relation| {
            Value::Bool(view.path.sees(&relation, view.catalog))
        }),
        (None, Some(table)) => Value::Bool(view.path.searched.contains(&table.schema_id())),
        (None, None) => Value::Null,
    }
}

/// Whether the search path finds a type by its name alone.
fn visible_type(view: &View<'_>, number: i64) -> Value {
    let own = u32::try_from(number)
        .ok()
        .and_then(|number| view.catalog.type_by_number(number));
    Value::Bool(own.is_none_or(|own| {
        let found = view.path.find_type(None, &own.name, view.catalog);
        found.is_ok_and(|found| found == Some(own))
    }))
}

/// What `pg_description` says of an object, or of one of its columns.
fn description(view: &View<'_>, number: i64, part: i64, class: Option<i64>) -> Value {
    let rows = made::rows_of("pg_catalog.pg_description", view);
    let places = rows.places(0, &Value::Int8(number)).unwrap_or_default();
    let mut found = places.into_iter().map(|place| rows.row(place));
    let at = |row: &[Value], place: usize| row.get(place).and_then(Value::as_i64);
    let row = found.find(|row| at(row, 2) == Some(part) && (class.is_none() || at(row, 1) == class));
    row.and_then(|row| row.get(3)).cloned().unwrap_or_default()
}
