//! What tools ask: sizes as text, and facts about servers that are always the same here.

use super::FunctionEntry;
use super::Implementation;
use super::advisory::nothing;
use super::argument::{Instant, argument, entry, typed, value_at};
use rubato_base::binary_format::write_binary;
use rubato_base::datetime::{Interval, SECOND_US};
use rubato_base::text_format::TextContext;
use rubato_base::{Array, DataType, Error, Numeric, Result, SqlState, Value};
use std::sync::Arc;

/// The bytes that a text like `1.5 GB` says.
fn size_of_text(text: &str) -> Result<i64> {
    let invalid = |detail: Option<String>| {
        let error = Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid size: \"{text}\""));
        detail.map_or(error.clone(), |detail| {
            let hint = "Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".";
            error.with_detail(detail).with_hint(hint)
        })
    };
    let trimmed = text.trim_start();
    let sign = usize::from(trimmed.starts_with(['+', '-']));
    let digits = |from: usize| trimmed[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(sign);
    let mut end = sign + whole;
    if trimmed[end..].starts_with('.') {
        let fraction = digits(end + 1);
        if whole + fraction == 0 {
            return Err(invalid(None));
        }
        end += 1 + fraction;
    } else if whole == 0 {
        return Err(invalid(None));
    }
    if trimmed[end..].starts_with(['e', 'E']) {
        let signed = usize::from(trimmed[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + signed);
        end += if exponent > 0 { 1 + signed + exponent } else { 0 };
    }
    let unit = trimmed[end..].trim();
    let power = match unit.to_ascii_lowercase().as_str() {
        "" | "bytes" => 0,
        "kb" => 1,
        "mb" => 2,
        "gb" => 3,
        "tb" => 4,
        "pb" => 5,
        _ => return Err(invalid(Some(format!("Invalid size unit: \"{unit}\".")))),
    };
    let bytes = Numeric::parse(&trimmed[..end])?.checked_mul(&Numeric::from_i64(1 << (10 * power)))?;
    bytes.round(0).to_i64()
}

fn size_pretty(bytes: &Numeric) -> Result<String> {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut size = bytes.clone();
    let (two, step) = (Numeric::from_i64(2), Numeric::from_i64(1024));
    let show = |number: &Numeric, unit: &str| {
        let mut out = Vec::new();
        number.write_text(&mut out);
        format!("{} {unit}", String::from_utf8_lossy(&out))
    };
    if size.abs() < Numeric::from_i64(10 * 1024) {
        return Ok(show(&size, UNITS[0]));
    }
    // Halves are kept until the last, for the rounding.
    size = size.checked_div_integer(&Numeric::from_i64(512))?;
    for unit in &UNITS[1..] {
        if size.abs() < Numeric::from_i64(20 * 1024 - 1) || *unit == "PB" {
            let rounded = size.checked_add(&size.sign())?.checked_div_integer(&two)?;
            return Ok(show(&rounded, unit));
        }
        size = size.checked_div_integer(&step)?;
    }
    Ok(String::new())
}

/// NULL has no size.
fn column_size(arguments: &[Value]) -> Result<Value> {
    let value = value_at(arguments, 0);
    Ok(match value.data_type().length() {
        _ if value.is_null() => Value::Null,
        length @ 1.. => Value::Int4(length.into()),
        _ => {
            let mut bytes = Vec::new();
            write_binary(value, value.data_type(), &TextContext::default(), &mut bytes);
            Value::Int4(bytes.len() as i32 + 4)
        }
    })
}

fn seconds_of(interval: &Interval) -> f64 {
    interval.length_us() as f64 / SECOND_US as f64
}

macro_rules! always {
    ($name:literal ($($argument:ident),*) -> $result:ident, $value:expr) => {
        entry!($name ($($argument),*) -> $result, Implementation::Many(|_| Ok($value))).stable()
    };
}

fn no_sessions() -> Value {
    Value::Array(Arc::new(Array::new(DataType::Int4, Vec::new())))
}

pub(super) static TOOLS: &[FunctionEntry] = &[
    entry!("pg_size_bytes" (Text) -> Int8, typed!(|text: &str| size_of_text(text))),
    entry!("pg_size_pretty" (Numeric) -> Text, typed!(|bytes: &Numeric| size_pretty(bytes))),
    entry!("pg_column_size" (Any) -> Int4, Implementation::Many(column_size)).stable(),
    always!("pg_trigger_depth" () -> Int4, Value::Int4(0)),
    always!("pg_blocking_pids" (Int4) -> Int4Array, no_sessions()),
    always!("pg_safe_snapshot_blocking_pids" (Int4) -> Int4Array, no_sessions()),
    always!("pg_notification_queue_usage" () -> Float8, Value::Float8(0.0)),
    always!("pg_jit_available" () -> Bool, Value::Bool(false)),
    always!("pg_reload_conf" () -> Bool, Value::Bool(true)),
    always!("pg_encoding_max_length" (Int4) -> Int4, Value::Int4(4)),
    always!("pg_last_xact_replay_timestamp" () -> TimestampTz, Value::Null),
    always!("pg_collation_for" (Text) -> Text, Value::text("\"default\"")),
    always!("has_parameter_privilege" (Text, Text) -> Bool, Value::Bool(true)),
    always!("has_parameter_privilege" (Name, Text, Text) -> Bool, Value::Bool(true)),
    always!("has_parameter_privilege" (Oid, Text, Text) -> Bool, Value::Bool(true)),
];

pub(super) static WAITING: &[FunctionEntry] = &[
    entry!("pg_sleep_for" (Interval) -> Void, typed!(with c |interval: Interval| {
        c.environment.sleep(seconds_of(&interval)).map(|()| nothing())
    }))
    .volatile(),
    entry!("pg_sleep_until" (TimestampTz) -> Void, Implementation::Context(|arguments, c| {
        let until: Instant = argument(arguments, 0)?;
        let distance_us = until.0.saturating_sub(c.environment.clock_time_us()?);
        c.environment.sleep(distance_us as f64 / SECOND_US as f64)?;
        Ok(nothing())
    }))
    .volatile(),
    entry!("setseed" (Float8) -> Void, typed!(with c |seed: f64| {
        c.environment.set_seed(seed).map(|()| nothing())
    }))
    .volatile(),
];
