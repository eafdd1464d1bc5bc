//! What the catalog says: names and definitions by number, visibility, privileges.

use super::argument::{entry, typed};
use super::{FunctionEntry, Implementation};
use crate::context::EvalContext;
use rubato_base::{ColumnType, DataType, NAME_BYTES_MAX, Result, Value, name_up_to};

/// A function that the session answers out of its catalog.
macro_rules! catalog {
    ($name:literal ($($argument:ident),*) -> $result:ident) => {
        entry!($name ($($argument),*) -> $result, Implementation::Context(|arguments, c| {
            c.environment.catalog_function($name, arguments)
        }))
        .stable()
    };
}

/// A function that says the same of everything.
macro_rules! always {
    ($name:literal ($($argument:ident),*) -> $result:ident, $value:expr) => {
        entry!($name ($($argument),*) -> $result, Implementation::Many(|_| Ok($value))).stable()
    };
}

/// Whether a role may do something to an object: whoever is logged in may do everything. The object is named by its number or its name,
/// and the role, if it is named, likewise.
macro_rules! privileges {
    ($($name:literal),* $(,)?) => {
        static PRIVILEGES: &[FunctionEntry] = &[
            $(
                always!($name (Text, Text) -> Bool, Value::Bool(true)),
                always!($name (Oid, Text) -> Bool, Value::Bool(true)),
                always!($name (Name, Text, Text) -> Bool, Value::Bool(true)),
                always!($name (Name, Oid, Text) -> Bool, Value::Bool(true)),
                always!($name (Oid, Text, Text) -> Bool, Value::Bool(true)),
                always!($name (Oid, Oid, Text) -> Bool, Value::Bool(true)),
            )*
        ];
    };
}

privileges! {
    "has_schema_privilege", "has_table_privilege", "has_sequence_privilege", "has_any_column_privilege",
    "has_function_privilege", "has_type_privilege", "has_tablespace_privilege", "has_language_privilege",
    "has_foreign_data_wrapper_privilege", "has_server_privilege", "pg_has_role",
}

/// The privileges as entries.
pub(super) static RIGHTS: &[FunctionEntry] = PRIVILEGES;

/// PostgreSQL's numbers of encodings, of which one can be had.
fn encoding_number(name: &str) -> i32 {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => 6,
        "sqlascii" => 0,
        "latin1" | "iso88591" => 8,
        _ => -1,
    }
}

/// A name and a number, together not longer than a name may be.
fn with_number(name: &str, number: i64) -> String {
    let number = format!("_{number}");
    format!("{}{number}", name_up_to(name, NAME_BYTES_MAX - number.len()))
}

fn encoding_name(number: i32) -> &'static str {
    match number {
        0 => "SQL_ASCII",
        6 => "UTF8",
        8 => "LATIN1",
        _ => "",
    }
}

/// A type that there is has its name from here; of others the session may know one.
fn format_type(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let Some(number) = arguments.first().and_then(Value::as_i64) else {
        return Ok(Value::Null);
    };
    let modifier = match arguments.get(1) {
        Some(Value::Int4(modifier)) => *modifier,
        _ => -1,
    };
    let data_type = u32::try_from(number).ok().filter(|number| *number != 0);
    // `character` would be read as `character(1)`: a column without a length is told by a name that has none.
    let is_of_column = matches!(arguments.get(1), Some(Value::Int4(_)));
    let unbounded = data_type
        .and_then(DataType::from_oid)
        .filter(|_| is_of_column && modifier < 0);
    match unbounded {
        Some(DataType::Char) => return Ok(Value::text("bpchar")),
        Some(other) if other.element() == Some(DataType::Char) => return Ok(Value::text("bpchar[]")),
        _ => {}
    }
    match data_type.and_then(DataType::from_oid) {
        Some(data_type) => Ok(Value::text(&ColumnType { data_type, modifier }.to_string())),
        None if number == 0 => Ok(Value::text("-")),
        None => Ok(match context.environment.catalog_function("format_type", arguments)? {
            Value::Null => Value::text("???"),
            name => name,
        }),
    }
}

pub(super) static CATALOG: &[FunctionEntry] = &[
    entry!("format_type" (Oid, Int4) -> Text, Implementation::Context(format_type))
        .lenient()
        .stable(),
    entry!("pg_encoding_to_char" (Int4) -> Name, typed!(|encoding: i32| encoding_name(encoding))).stable(),
    entry!("pg_char_to_encoding" (Name) -> Int4, typed!(|name: &str| encoding_number(name))).stable(),
    always!("pg_is_in_recovery" () -> Bool, Value::Bool(false)),
    always!("pg_is_wal_replay_paused" () -> Bool, Value::Bool(false)),
    always!("pg_client_encoding" () -> Name, Value::text("UTF8")),
    always!("getdatabaseencoding" () -> Name, Value::text("UTF8")),
    catalog!("pg_my_temp_schema" () -> Oid),
    catalog!("pg_is_other_temp_schema" (Oid) -> Bool),
    always!("pg_function_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_operator_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_opclass_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_opfamily_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_collation_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_conversion_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_ts_config_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_ts_dict_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_ts_parser_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_ts_template_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("pg_statistics_obj_is_visible" (Oid) -> Bool, Value::Bool(true)),
    always!("row_security_active" (Oid) -> Bool, Value::Bool(false)),
    always!("row_security_active" (Text) -> Bool, Value::Bool(false)),
    always!("has_column_privilege" (Oid, Int2, Text) -> Bool, Value::Bool(true)),
    always!("has_column_privilege" (Oid, Text, Text) -> Bool, Value::Bool(true)),
    always!("has_column_privilege" (Text, Text, Text) -> Bool, Value::Bool(true)),
    catalog!("pg_table_is_visible" (Oid) -> Bool),
    catalog!("pg_type_is_visible" (Oid) -> Bool),
    catalog!("pg_get_userbyid" (Oid) -> Name),
    catalog!("acldefault" (Text, Oid) -> TextArray),
    catalog!("current_schemas" (Bool) -> NameArray),
    catalog!("obj_description" (Oid) -> Text),
    catalog!("obj_description" (Oid, Name) -> Text),
    catalog!("col_description" (Oid, Int4) -> Text),
    catalog!("shobj_description" (Oid, Name) -> Text),
    catalog!("has_database_privilege" (Text, Text) -> Bool),
    catalog!("has_database_privilege" (Oid, Text) -> Bool),
    catalog!("has_database_privilege" (Name, Text, Text) -> Bool),
    catalog!("has_database_privilege" (Name, Oid, Text) -> Bool),
    catalog!("has_database_privilege" (Oid, Text, Text) -> Bool),
    catalog!("has_database_privilege" (Oid, Oid, Text) -> Bool),
    catalog!("regclassin" (Text) -> Oid),
    catalog!("regtypein" (Text) -> Oid),
    catalog!("regprocin" (Text) -> Oid),
    catalog!("regprocedurein" (Text) -> Oid),
    catalog!("regnamespacein" (Text) -> Oid),
    catalog!("regrolein" (Text) -> Oid),
    catalog!("regclassout" (Oid) -> Text),
    catalog!("regtypeout" (Oid) -> Text),
    catalog!("regprocout" (Oid) -> Text),
    catalog!("regprocedureout" (Oid) -> Text),
    catalog!("regnamespaceout" (Oid) -> Text),
    catalog!("regroleout" (Oid) -> Text),
    catalog!("regoperin" (Text) -> Oid),
    catalog!("regoperatorin" (Text) -> Oid),
    catalog!("regconfigin" (Text) -> Oid),
    catalog!("regdictionaryin" (Text) -> Oid),
    catalog!("regcollationin" (Text) -> Oid),
    catalog!("regoperout" (Oid) -> Text),
    catalog!("regoperatorout" (Oid) -> Text),
    catalog!("regconfigout" (Oid) -> Text),
    catalog!("regdictionaryout" (Oid) -> Text),
    catalog!("regcollationout" (Oid) -> Text),
    catalog!("to_regoper" (Text) -> Oid),
    catalog!("to_regoperator" (Text) -> Oid),
    catalog!("to_regcollation" (Text) -> Oid),
    catalog!("to_regclass" (Text) -> Oid),
    catalog!("to_regtype" (Text) -> Oid),
    catalog!("to_regproc" (Text) -> Oid),
    catalog!("to_regprocedure" (Text) -> Oid),
    catalog!("to_regnamespace" (Text) -> Oid),
    catalog!("to_regrole" (Text) -> Oid),
    catalog!("pg_get_expr" (Text, Oid) -> Text),
    catalog!("pg_get_expr" (Text, Oid, Bool) -> Text),
    catalog!("pg_get_indexdef" (Oid) -> Text),
    catalog!("pg_get_indexdef" (Oid, Int4, Bool) -> Text),
    catalog!("pg_get_constraintdef" (Oid) -> Text),
    catalog!("pg_get_constraintdef" (Oid, Bool) -> Text),
    catalog!("pg_get_viewdef" (Oid) -> Text),
    catalog!("pg_get_viewdef" (Oid, Bool) -> Text),
    catalog!("pg_get_viewdef" (Oid, Int4) -> Text),
    catalog!("pg_get_viewdef" (Text) -> Text),
    catalog!("pg_get_viewdef" (Text, Bool) -> Text),
    catalog!("pg_get_ruledef" (Oid) -> Text),
    catalog!("pg_get_ruledef" (Oid, Bool) -> Text),
    catalog!("pg_get_triggerdef" (Oid) -> Text),
    catalog!("pg_get_triggerdef" (Oid, Bool) -> Text),
    catalog!("pg_get_statisticsobjdef_columns" (Oid) -> Text),
    catalog!("pg_get_partkeydef" (Oid) -> Text),
    catalog!("pg_get_partition_constraintdef" (Oid) -> Text),
    catalog!("pg_get_functiondef" (Oid) -> Text),
    catalog!("pg_get_function_result" (Oid) -> Text),
    catalog!("pg_get_function_sqlbody" (Oid) -> Text),
    catalog!("pg_get_function_arguments" (Oid) -> Text),
    catalog!("pg_get_function_identity_arguments" (Oid) -> Text),
    catalog!("pg_get_serial_sequence" (Text, Text) -> Text),
    catalog!("pg_relation_is_publishable" (Oid) -> Bool),
    catalog!("pg_relation_is_updatable" (Oid, Bool) -> Int4),
    catalog!("pg_column_is_updatable" (Oid, Int2, Bool) -> Bool),
    catalog!("pg_relation_filenode" (Oid) -> Oid),
    catalog!("pg_index_column_has_property" (Oid, Int4, Text) -> Bool),
    catalog!("pg_index_has_property" (Oid, Text) -> Bool),
    catalog!("pg_indexam_has_property" (Oid, Text) -> Bool),
    catalog!("pg_describe_object" (Oid, Oid, Int4) -> Text),
    catalog!("rubato_identity_part" (Oid, Oid, Int4, Text) -> Text),
    catalog!("oidvectortypes" (OidVector) -> Text),
    catalog!("pg_sequence_last_value" (Oid) -> Int8).volatile(),
    entry!("nameconcatoid" (Name, Oid) -> Name, typed!(|name: &str, number: i64| with_number(name, number))),
    catalog!("pg_tablespace_location" (Oid) -> Text),
];
