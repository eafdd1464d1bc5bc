//! Numbers of objects as names, and back: `regclass` and its kin.
//!
//! A value of such a type is the number, an `oid`; the modifier of its type says of what. Its text is made where it becomes text.

use super::definitions::quoted;
use super::enums::written_by_number;
use super::objects::Object;
use super::operators::{operator_name, operator_number, operator_with_sides_name, operator_with_sides_number};
use super::values::type_names;
use super::{View, made, registry};
use crate::binder::{name_of_text, no_relation, split_path, type_of_text};
use crate::catalog::{SchemaId, no_schema};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};

/// What an object number is the number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// `regclass`
    Relation,
    /// `regtype`
    Type,
    /// `regproc`
    Function,
    /// `regprocedure`
    FunctionWithArguments,
    /// `regnamespace`
    Schema,
    /// `regrole`
    Role,
    /// `regoper`
    Operator,
    /// `regoperator`
    OperatorWithSides,
    /// `regconfig`
    TextSearch,
    /// `regdictionary`
    Dictionary,
    /// `regcollation`
    Collation,
}

/// Name, number, and the functions from and to text, of each kind's type.
const KINDS: [(ObjectKind, &str, u32, &str, &str); 11] = [
    (ObjectKind::Relation, "regclass", 2205, "regclassin", "regclassout"),
    (ObjectKind::Type, "regtype", 2206, "regtypein", "regtypeout"),
    (ObjectKind::Function, "regproc", 24, "regprocin", "regprocout"),
    (
        ObjectKind::FunctionWithArguments,
        "regprocedure",
        2202,
        "regprocedurein",
        "regprocedureout",
    ),
    (
        ObjectKind::Schema,
        "regnamespace",
        4089,
        "regnamespacein",
        "regnamespaceout",
    ),
    (ObjectKind::Role, "regrole", 4096, "regrolein", "regroleout"),
    (ObjectKind::Operator, "regoper", 2203, "regoperin", "regoperout"),
    (
        ObjectKind::OperatorWithSides,
        "regoperator",
        2204,
        "regoperatorin",
        "regoperatorout",
    ),
    (ObjectKind::TextSearch, "regconfig", 3734, "regconfigin", "regconfigout"),
    (
        ObjectKind::Dictionary,
        "regdictionary",
        3769,
        "regdictionaryin",
        "regdictionaryout",
    ),
    (
        ObjectKind::Collation,
        "regcollation",
        4191,
        "regcollationin",
        "regcollationout",
    ),
];

impl ObjectKind {
    fn entry(self) -> (ObjectKind, &'static str, u32, &'static str, &'static str) {
        KINDS.into_iter().find(|entry| entry.0 == self).unwrap_or(KINDS[0])
    }

    /// The kind whose type has this name.
    pub(crate) fn of_type_name(name: &str) -> Option<ObjectKind> {
        KINDS.iter().find(|entry| entry.1 == name).map(|entry| entry.0)
    }

    /// The kind of number that a function gives.
    pub(crate) fn given_by(function: &str) -> Option<ObjectKind> {
        ObjectKind::of_type_name(function.strip_prefix("to_")?)
    }

    /// The kind that a type says its values are numbers of.
    pub(crate) fn of_type(data_type: DataType, modifier: i32) -> Option<ObjectKind> {
        let is_meant = |number: u32| data_type == DataType::Oid && i64::from(modifier) == i64::from(number);
        KINDS.iter().find(|entry| is_meant(entry.2)).map(|entry| entry.0)
    }

    /// The type.
    pub(crate) fn column_type(self) -> ColumnType {
        ColumnType {
            data_type: DataType::Oid,
            modifier: self.type_number() as i32,
        }
    }

    /// PostgreSQL's number of the type.
    pub(crate) fn type_number(self) -> u32 {
        self.entry().2
    }

    /// The function that reads a name.
    pub(crate) fn input(self) -> &'static str {
        self.entry().3
    }

    /// The function that writes it.
    pub(crate) fn output(self) -> &'static str {
        self.entry().4
    }
}

/// The number of the one-byte type `"char"`, whose values are text here; the modifier of a text says that it is one.
const CHARACTER: u32 = 18;

/// PostgreSQL's types of the numbers of transactions, and of commands within one; the modifier of an `oid` says that it is one.
const COUNTED: [(&str, u32); 2] = [("xid", 28), ("cid", 29)];

/// The type of a column of such numbers, by its name.
pub(super) fn counted_type(name: &str) -> Option<ColumnType> {
    let (_, number) = COUNTED.iter().find(|(own, _)| *own == name)?;
    Some(ColumnType {
        data_type: DataType::Oid,
        modifier: *number as i32,
    })
}

/// The type of a column of one byte.
pub(super) fn character_type() -> ColumnType {
    ColumnType {
        data_type: DataType::Text,
        modifier: CHARACTER as i32,
    }
}

/// The type that clients are told of a value whose type has this modifier, if that is none of those that there are.
pub(crate) fn told_type(data_type: DataType, modifier: i32) -> Option<u32> {
    let is_character = data_type == DataType::Text && i64::from(modifier) == i64::from(CHARACTER);
    let kind = ObjectKind::of_type(data_type, modifier).map(ObjectKind::type_number);
    let is_meant = |number: &u32| data_type == DataType::Oid && i64::from(modifier) == i64::from(*number);
    let counted = || COUNTED.iter().map(|(_, number)| *number).find(is_meant);
    kind.or_else(counted).or_else(|| is_character.then_some(CHARACTER))
}

/// Whether text is a number or the dash, which stand for themselves.
fn as_number(text: &str) -> Option<i64> {
    if text == "-" {
        return Some(0);
    }
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse::<u32>().ok().map(i64::from)).flatten()
}

/// The number that a name stands for. The error says that there is no such object.
pub(super) fn number_of(kind: ObjectKind, name: &str, view: &View<'_>) -> Result<i64> {
    if let Some(number) = as_number(name) {
        return Ok(number);
    }
    match kind {
        ObjectKind::Relation => relation_number(name, view),
        ObjectKind::Type => match own_type_number(name, view) {
            Some(number) => Ok(number),
            None => match type_of_text(name) {
                Ok(data_type) => Ok(i64::from(data_type.data_type.oid())),
                Err(error) => match system_type_number(name) {
                    Some(number) => Ok(number),
                    None => name_of_text(name)
                        .map_or(Ok(()), |path| check_schema(&path, view))
                        .and(Err(error)),
                },
            },
        },
        ObjectKind::Function => function_number(name, view),
        ObjectKind::FunctionWithArguments => procedure_number(name, view),
        ObjectKind::Schema => {
            let number = find_number("pg_catalog.pg_namespace", "nspname", &single_name(name)?, view);
            number.ok_or_else(|| missing(SqlState::INVALID_SCHEMA_NAME, "schema", name))
        }
        ObjectKind::Role => {
            let number = find_number("pg_catalog.pg_authid", "rolname", &single_name(name)?, view);
            number.ok_or_else(|| missing(SqlState::UNDEFINED_OBJECT, "role", name))
        }
        ObjectKind::Operator => operator_number(name, view),
        ObjectKind::OperatorWithSides => operator_with_sides_number(name, view),
        ObjectKind::TextSearch | ObjectKind::Dictionary => {
            // There is no text search.
            let what = match kind {
                ObjectKind::TextSearch => "text search configuration",
                _ => "text search dictionary",
            };
            Err(missing(SqlState::UNDEFINED_OBJECT, what, name))
        }
        ObjectKind::Collation => {
            let number = find_number("pg_catalog.pg_collation", "collname", &plain_name(name)?, view);
            number.ok_or_else(|| {
                let message = format!(
                    "collation \"{}\" for encoding \"UTF8\" does not exist",
                    plain_name(name).unwrap_or_default()
                );
                Error::new(SqlState::UNDEFINED_OBJECT, message)
            })
        }
    }
}

fn missing(code: SqlState, what: &str, name: &str) -> Error {
    Error::new(code, format!("{what} \"{name}\" does not exist"))
}

fn plain_name(text: &str) -> Result<String> {
    let mut path = name_of_text(text)?;
    Ok(path.pop().unwrap_or_default())
}

/// A name of what is in no schema. 42602 for one in parts.
fn single_name(text: &str) -> Result<String> {
    match name_of_text(text)?.as_slice() {
        [name] => Ok(name.clone()),
        _ => Err(Error::new(SqlState::INVALID_NAME, "invalid name syntax")),
    }
}

/// The number of a type that PostgreSQL has and no value is of here: `trigger`, `record` and their kin.
fn system_type_number(text: &str) -> Option<i64> {
    let path = name_of_text(text).ok()?;
    let name = match path.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return None,
    };
    let known = type_names().iter().find(|(_, own)| own == name);
    known.map(|(number, _)| *number)
}

/// The number of a domain, an enum, or arrays of one.
fn own_type_number(text: &str, view: &View<'_>) -> Option<i64> {
    let element = text.trim_end().strip_suffix("[]");
    let path = name_of_text(element.unwrap_or(text)).ok()?;
    let (schema, name) = split_path(&path, &view.path.database).ok()?;
    let find = |name: &str| view.path.find_type(schema, name, view.catalog).ok().flatten();
    let own_enum = |name: &str| view.catalog.enums.get(&find(name)?).map(|own| own.data_type());
    let number = |data_type: DataType| i64::from(data_type.oid());
    if element.is_some() {
        return own_enum(name).and_then(DataType::array).map(number);
    }
    let domain = find(name).and_then(|found| view.catalog.domains.get(&found));
    let array = || own_enum(name.strip_prefix('_')?).and_then(DataType::array);
    let domain = domain.map(|domain| i64::from(domain.oid));
    domain.or_else(|| own_enum(name).or_else(array).map(number))
}

fn relation_number(text: &str, view: &View<'_>) -> Result<i64> {
    let path = name_of_text(text)?;
    let (schema, name) = split_path(&path, &view.path.database)?;
    if let Some(table) = registry::find(schema, name) {
        return Ok(i64::from(table.oid));
    }
    let objects = view.catalog.made.objects(view.catalog);
    let candidates = view.path.candidates(schema, name, view.catalog)?;
    let found = candidates.iter().find_map(|candidate| objects.relation(candidate));
    found.map(i64::from).ok_or_else(|| match schema {
        Some(schema) if candidates.is_empty() => no_schema(schema),
        _ => no_relation(&path.join(".")),
    })
}

/// The number of the row of a system table that has a value in a column of names.
fn find_number(table: &str, column: &str, name: &str, view: &View<'_>) -> Option<i64> {
    found(table, column, &Value::text(name), view)
        .first()
        .and_then(|row| row.first()?.as_i64())
}

/// 3F000 if a name has a schema before it that is not there.
fn check_schema(path: &[String], view: &View<'_>) -> Result<()> {
    let (schema, _) = split_path(path, &view.path.database)?;
    match schema {
        Some(schema) if view.path.schema(schema, view.catalog)?.is_none() => Err(no_schema(schema)),
        _ => Ok(()),
    }
}

/// The place of the schema's number in the rows of functions and operators.
const SCHEMA: usize = 2;

/// The rows of functions, or of operators, with a name that may have a schema before it. 3F000 if that is not there.
pub(super) fn found_by_name(table: &str, column: &str, path: &[String], view: &View<'_>) -> Result<Vec<Vec<Value>>> {
    check_schema(path, view)?;
    let (schema, name) = split_path(path, &view.path.database)?;
    let schema = match schema {
        Some(schema) => view.path.schema(schema, view.catalog)?,
        None => None,
    };
    let mut rows = found(table, column, &Value::text(name), view);
    let is_there =
        |row: &Vec<Value>, schema: SchemaId| row.get(SCHEMA).and_then(Value::as_i64) == Some(i64::from(schema.0));
    rows.retain(|row| schema.is_none_or(|schema| is_there(row, schema)));
    Ok(rows)
}

/// The rows with a value in a column.
pub(super) fn found(table: &str, column: &str, value: &Value, view: &View<'_>) -> Vec<Vec<Value>> {
    let rows = made::rows_of(table, view);
    let place = registry::by_full_name(table).and_then(|table| table.columns.iter().position(|own| own.name == column));
    let places = place.and_then(|place| rows.places(place, value)).unwrap_or_default();
    places.into_iter().map(|place| rows.row(place).to_vec()).collect()
}

const FUNCTIONS: &str = "pg_catalog.pg_proc";
/// The places of a function's name and of its arguments in `pg_proc`.
const FUNCTION_NAME: usize = 1;
const FUNCTION_ARGUMENTS: usize = 19;

fn function_number(text: &str, view: &View<'_>) -> Result<i64> {
    let rows = found_by_name(FUNCTIONS, "proname", &name_of_text(text)?, view)?;
    match &rows[..] {
        [] => Err(missing(SqlState::UNDEFINED_FUNCTION, "function", text)),
        [row] => Ok(row.first().and_then(Value::as_i64).unwrap_or(0)),
        _ => Err(Error::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("more than one function named \"{text}\""),
        )),
    }
}

fn procedure_number(text: &str, view: &View<'_>) -> Result<i64> {
    let (name, rest) = text
        .split_once('(')
        .ok_or_else(|| Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected a left parenthesis"))?;
    let arguments = rest
        .trim_end()
        .strip_suffix(')')
        .ok_or_else(|| Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected a right parenthesis"))?;
    let wanted: Vec<i64> = arguments
        .split(',')
        .map(str::trim)
        .filter(|argument| !argument.is_empty())
        .map(type_number)
        .collect::<Result<_>>()?;
    let rows = found_by_name(FUNCTIONS, "proname", &name_of_text(name.trim())?, view)?;
    let fits = |row: &&Vec<Value>| arguments_of(row) == wanted;
    let row = rows.iter().find(fits);
    row.and_then(|row| row.first()?.as_i64())
        .ok_or_else(|| missing(SqlState::UNDEFINED_FUNCTION, "function", text))
}

/// The number of a type, pseudo-types included.
pub(super) fn type_number(name: &str) -> Result<i64> {
    let pseudo = type_names().iter().find(|(_, own)| *own == name);
    match pseudo {
        Some((number, _)) => Ok(*number),
        None => type_of_text(name).map(|column_type| i64::from(column_type.data_type.oid())),
    }
}

fn arguments_of(row: &[Value]) -> Vec<i64> {
    match row.get(FUNCTION_ARGUMENTS) {
        Some(Value::Array(list)) => list.items.iter().filter_map(Value::as_i64).collect(),
        _ => Vec::new(),
    }
}

/// The name of an object; the number itself where there is none.
pub(super) fn name_of(kind: ObjectKind, number: i64, view: &View<'_>) -> String {
    if number == 0 {
        let is_operator = matches!(kind, ObjectKind::Operator | ObjectKind::OperatorWithSides);
        return if is_operator { "0" } else { "-" }.to_owned();
    }
    let name = match kind {
        ObjectKind::Relation => relation_name(number, view),
        ObjectKind::Type => match written_by_number(view, number) {
            Some(domain) => Some(domain),
            None => Some(type_name(number, -1)).filter(|name| name != "???"),
        },
        ObjectKind::Function => function_row(number, view).map(|row| quoted(&text_at(&row, FUNCTION_NAME))),
        ObjectKind::FunctionWithArguments => function_row(number, view).map(|row| {
            let arguments = arguments_of(&row);
            let arguments: Vec<String> = arguments.iter().map(|number| type_name(*number, -1)).collect();
            format!("{}({})", quoted(&text_at(&row, FUNCTION_NAME)), arguments.join(","))
        }),
        ObjectKind::Schema => name_at("pg_catalog.pg_namespace", number, view),
        ObjectKind::Role => name_at("pg_catalog.pg_authid", number, view),
        ObjectKind::Operator => operator_name(number, view),
        ObjectKind::OperatorWithSides => operator_with_sides_name(number, view),
        ObjectKind::TextSearch | ObjectKind::Dictionary => None,
        ObjectKind::Collation => name_at("pg_catalog.pg_collation", number, view),
    };
    name.unwrap_or_else(|| number.to_string())
}

fn text_at(row: &[Value], place: usize) -> String {
    match row.get(place) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn function_row(number: i64, view: &View<'_>) -> Option<Vec<Value>> {
    found(FUNCTIONS, "oid", &Value::Int8(number), view).pop()
}

/// The type of a function's result, as its definition says it.
pub(super) fn function_result(number: i64, view: &View<'_>) -> Option<String> {
    let row = function_row(number, view)?;
    let column = |name: &str| {
        let columns = &registry::by_full_name(FUNCTIONS)?.columns;
        row.get(columns.iter().position(|column| column.name == name)?)
    };
    let result = type_name(column("prorettype")?.as_i64()?, -1);
    let is_set = matches!(column("proretset"), Some(Value::Bool(true)));
    Some(if is_set { format!("SETOF {result}") } else { result })
}

/// The types of a function's arguments.
pub(super) fn function_arguments(number: i64, view: &View<'_>) -> Option<String> {
    let row = function_row(number, view)?;
    let arguments = arguments_of(&row).into_iter().map(|number| type_name(number, -1));
    Some(arguments.collect::<Vec<_>>().join(", "))
}

/// The row of a system table that has this number.
pub(super) fn found_by_number(table: &str, number: i64, view: &View<'_>) -> Option<Vec<Value>> {
    found(table, "oid", &Value::Int8(number), view).pop()
}

fn name_at(table: &str, number: i64, view: &View<'_>) -> Option<String> {
    let row = found_by_number(table, number, view)?;
    Some(quoted(&text_at(&row, 1)))
}

fn relation_name(number: i64, view: &View<'_>) -> Option<String> {
    if let Some(relation) = view.object(number).and_then(Object::relation) {
        return Some(view.written(&relation));
    }
    let table = registry::tables().find(|table| i64::from(table.oid) == number)?;
    Some(match table.schema {
        "pg_catalog" => table.short_name().to_owned(),
        _ => table.name.to_owned(),
    })
}

/// `format_type`: the name of a type with its modifier.
pub(super) fn type_name(number: i64, modifier: i32) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    let data_type = u32::try_from(number).ok().and_then(DataType::from_oid);
    if let Some(data_type) = data_type {
        return ColumnType { data_type, modifier }.to_string();
    }
    let other = type_names().iter().find(|(own, _)| *own == number);
    let Some((_, name)) = other else {
        return "???".to_owned();
    };
    match name.strip_prefix('_') {
        Some(element) => format!("{}[]", shown_type(element)),
        None => shown_type(name),
    }
}

fn shown_type(name: &str) -> String {
    match name {
        "char" | "any" => format!("\"{name}\""),
        "timetz" => "time with time zone".to_owned(),
        "varbit" => "bit varying".to_owned(),
        other => other.to_owned(),
    }
}
