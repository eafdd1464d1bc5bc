//! What the session, the catalog and the sequences say.

use super::FunctionEntry;
use super::Implementation;
use super::argument::{argument, entry, typed};
use crate::context::{EvalContext, SessionFact, SizePart};
use ecow::EcoString;
use rubato_base::{DataType, Error, Result, SqlState, Value};

fn setting(context: &EvalContext<'_>, name: &str, missing_ok: bool) -> Result<Value> {
    match context.environment.setting(name) {
        Some(value) => Ok(Value::text(&value)),
        None if missing_ok => Ok(Value::Null),
        None => Err(Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )),
    }
}

fn set_config(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    match arguments {
        [Value::Text(name), Value::Text(value), local] => context
            .environment
            .set_setting(name, value, matches!(local, Value::Bool(true)))
            .map(|text| Value::text(&text)),
        _ => Err(Error::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "set_config needs a name and a value",
        )),
    }
}

fn size_pretty(bytes: i64) -> EcoString {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    // PostgreSQL moves to the next unit at ten times 1024, and halves are rounded away from zero on the way.
    let mut size = i128::from(bytes);
    if size.abs() < 10 * 1024 {
        return EcoString::from(format!("{size} bytes"));
    }
    size /= 512;
    for unit in &UNITS[1..5] {
        if size.abs() < 20 * 1024 - 1 {
            return EcoString::from(format!("{} {unit}", (size + size.signum()) / 2));
        }
        size /= 1024;
    }
    EcoString::from(format!("{} PB", (size + size.signum()) / 2))
}

/// Nobody waits for the end of the other session: a timeout is only checked.
fn terminate(context: &EvalContext<'_>, process: i32, timeout_ms: i64) -> Result<bool> {
    if timeout_ms < 0 {
        let message = "\"timeout\" must not be negative";
        return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    context.environment.signal(process, true)
}

fn relation_size(arguments: &[Value], context: &EvalContext<'_>, part: SizePart) -> Result<Value> {
    let (Some(sizes), Some(relation)) = (context.sizes, arguments.first()) else {
        return Ok(Value::Null);
    };
    Ok(sizes.relation(relation, part)?.map_or(Value::Null, Value::Int8))
}

/// The size of one of PostgreSQL's forks of a relation, of which there is the first alone. 22023 for a name that none has.
fn fork_size(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let own = relation_size(arguments, context, SizePart::Own)?;
    match argument(arguments, 1)? {
        "main" => Ok(own),
        "fsm" | "vm" | "init" if own.is_null() => Ok(Value::Null),
        "fsm" | "vm" | "init" => Ok(Value::Int8(0)),
        _ => Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
            .with_hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")),
    }
}

fn database_size(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (Some(sizes), [database]) = (context.sizes, arguments) else {
        return Ok(Value::Null);
    };
    Ok(sizes.database(database)?.map_or(Value::Null, Value::Int8))
}

macro_rules! size {
    ($name:literal ($argument:ident), $part:ident) => {
        entry!($name ($argument) -> Int8, Implementation::Context(|arguments, c| {
            relation_size(arguments, c, SizePart::$part)
        }))
        .volatile()
    };
}

macro_rules! fact {
    ($name:literal -> $result:ident, $fact:ident) => {
        entry!($name () -> $result, typed!(with c || c.environment.fact(SessionFact::$fact))).stable()
    };
}

macro_rules! type_names {
    ($($argument:ident)*) => {
        static TYPE_NAMES: &[FunctionEntry] = &[
            $(entry!("pg_typeof" ($argument) -> Text, Implementation::Many(|_| {
                Ok(Value::text(DataType::$argument.name()))
            })).lenient(),)*
        ];
    };
}

type_names! {
    Bool Int2 Int4 Int8 Float4 Float8 Numeric Text Varchar Char Bytea Date Time Timestamp TimestampTz Interval Uuid Oid Name
    BoolArray Int2Array Int4Array Int8Array Float4Array Float8Array NumericArray TextArray VarcharArray
    CharArray ByteaArray DateArray TimeArray TimestampArray TimestampTzArray IntervalArray UuidArray OidArray
    NameArray Json Jsonb JsonArray JsonbArray Int2Vector OidVector JsonPath JsonPathArray Inet InetArray Cidr CidrArray
    MacAddr MacAddrArray MacAddr8 MacAddr8Array
}

pub(super) static TYPES: &[FunctionEntry] = TYPE_NAMES;

pub(super) static SYSTEM: &[FunctionEntry] = &[
    fact!("version" -> Text, Version),
    fact!("current_database" -> Name, CurrentDatabase),
    fact!("current_catalog" -> Name, CurrentDatabase),
    fact!("current_schema" -> Name, CurrentSchema),
    fact!("current_user" -> Name, CurrentUser),
    fact!("current_role" -> Name, CurrentUser),
    fact!("user" -> Name, CurrentUser),
    fact!("session_user" -> Name, SessionUser),
    fact!("pg_backend_pid" -> Int4, BackendId),
    fact!("inet_server_port" -> Int4, ServerPort),
    fact!("inet_server_addr" -> Inet, ServerAddress),
    fact!("inet_client_addr" -> Inet, ClientAddress),
    fact!("inet_client_port" -> Int4, ClientPort),
    fact!("pg_postmaster_start_time" -> TimestampTz, StartTime),
    fact!("pg_conf_load_time" -> TimestampTz, StartTime),
    entry!("pg_cancel_backend" (Int4) -> Bool, typed!(with c |process: i32| c.environment.signal(process, false)))
        .volatile(),
    entry!("pg_terminate_backend" (Int4) -> Bool, typed!(with c |process: i32| c.environment.signal(process, true)))
        .volatile(),
    entry!("pg_terminate_backend" (Int4, Int8) -> Bool, typed!(with c |process: i32, timeout_ms: i64| {
        terminate(c, process, timeout_ms)
    }))
    .volatile(),
    entry!("pg_current_xact_id" () -> Int8, typed!(with c || c.environment.transaction_id())).stable(),
    entry!("pg_current_xact_id_if_assigned" () -> Int8, typed!(with c || c.environment.assigned_transaction_id()))
        .stable(),
    entry!("pg_xact_status" (Int8) -> Text, typed!(with c |id: i64| c.environment.transaction_status(id))).stable(),
    entry!("txid_current" () -> Int8, typed!(with c || c.environment.transaction_id())).stable(),
    entry!("txid_current_if_assigned" () -> Int8, typed!(with c || c.environment.assigned_transaction_id())).stable(),
    entry!("txid_status" (Int8) -> Text, typed!(with c |id: i64| c.environment.transaction_status(id))).stable(),
    entry!("nextval" (Text) -> Int8, typed!(with c |name: &str| c.environment.next_value(name))).volatile(),
    entry!("currval" (Text) -> Int8, typed!(with c |name: &str| c.environment.current_value(name))).volatile(),
    entry!("lastval" () -> Int8, typed!(with c || c.environment.last_value())).volatile(),
    entry!("setval" (Text, Int8) -> Int8, typed!(with c |name: &str, value: i64| {
        c.environment.set_value(name, value, true)
    }))
    .volatile(),
    entry!("setval" (Text, Int8, Bool) -> Int8, typed!(with c |name: &str, value: i64, called: bool| {
        c.environment.set_value(name, value, called)
    }))
    .volatile(),
    entry!("current_setting" (Text) -> Text, typed!(with c |name: &str| setting(c, name, false))).stable(),
    entry!("current_setting" (Text, Bool) -> Text, typed!(with c |name: &str, missing_ok: bool| {
        setting(c, name, missing_ok)
    }))
    .stable(),
    entry!("set_config" (Text, Text, Bool) -> Text, Implementation::Context(set_config))
        .lenient()
        .volatile(),
    entry!("pg_size_pretty" (Int8) -> Text, typed!(|bytes: i64| size_pretty(bytes))),
    size!("pg_relation_size"(Oid), Own),
    size!("pg_relation_size"(Text), Own),
    entry!("pg_relation_size" (Oid, Text) -> Int8, Implementation::Context(fork_size)).volatile(),
    entry!("pg_relation_size" (Text, Text) -> Int8, Implementation::Context(fork_size)).volatile(),
    size!("pg_table_size"(Oid), Own),
    size!("pg_table_size"(Text), Own),
    size!("pg_indexes_size"(Oid), Indexes),
    size!("pg_indexes_size"(Text), Indexes),
    size!("pg_total_relation_size"(Oid), Total),
    size!("pg_total_relation_size"(Text), Total),
    entry!("pg_database_size" (Name) -> Int8, Implementation::Context(database_size)).volatile(),
    entry!("pg_database_size" (Oid) -> Int8, Implementation::Context(database_size)).volatile(),
];
