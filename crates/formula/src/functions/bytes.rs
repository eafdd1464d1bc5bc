//! Functions of `bytea`.

use super::argument::{entry, typed, value_at};
use super::{FunctionEntry, Implementation};
use rubato_base::binary_format::write_binary;
use rubato_base::{DataType, Error, Result, SqlState, Value};

fn joined(a: &[u8], b: &[u8]) -> Result<Vec<u8>> {
    super::text::fits([a.len(), b.len()])?;
    Ok([a, b].concat())
}

/// The part of `bytes` from position `start` (from 1), `length` long or to the end.
fn part(bytes: &[u8], start: i32, length: Option<i32>) -> Result<Vec<u8>> {
    let (from, to) = super::text::window(start, length)?;
    let clamp = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(bytes.len());
    Ok(bytes[clamp(from)..clamp(to).max(clamp(from))].to_vec())
}

/// Without the bytes at its ends that the set has.
fn trim(bytes: &[u8], set: &[u8], start: bool, end: bool) -> Vec<u8> {
    let is_kept = |byte: &u8| !set.contains(byte);
    let from = match start {
        true => bytes.iter().position(is_kept).unwrap_or(bytes.len()),
        false => 0,
    };
    let to = match end {
        true => bytes.iter().rposition(is_kept).map_or(0, |last| last + 1),
        false => bytes.len(),
    };
    bytes[from..to.max(from)].to_vec()
}

/// `bytes` with `length` of them from `start` (from 1) replaced by `patch`.
fn overlay(bytes: &[u8], patch: &[u8], start: i32, length: i32) -> Result<Vec<u8>> {
    let (before, resume) = super::text::replaced_window(start, length)?;
    let head = &bytes[..before.min(bytes.len())];
    Ok([head, patch, bytes.get(resume..).unwrap_or_default()].concat())
}

fn position(bytes: &[u8], wanted: &[u8]) -> i32 {
    if wanted.is_empty() {
        return 1;
    }
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
        .map_or(0, |index| index as i32 + 1)
}

fn byte_at(bytes: &[u8], index: i32) -> Result<i32> {
    let byte = usize::try_from(index).ok().and_then(|index| bytes.get(index));
    byte.map(|byte| i32::from(*byte)).ok_or_else(|| {
        // PostgreSQL's code for it is 2202E.
        let last = bytes.len() as i64 - 1;
        Error::new(
            SqlState(*b"2202E"),
            format!("index {index} out of valid range, 0..{last}"),
        )
    })
}

/// The functions that give values in the form in which they are sent.
macro_rules! sent {
    ($($name:literal $argument:ident;)*) => {
        pub(super) static SENT: &[FunctionEntry] = &[$(
            entry!($name ($argument) -> Bytea, Implementation::Context(|arguments, c| {
                let mut out = Vec::new();
                write_binary(value_at(arguments, 0), DataType::$argument, c.text, &mut out);
                Ok(Value::bytea(&out))
            })),
        )*];
    };
}

sent! {
    "boolsend" Bool; "int2send" Int2; "int4send" Int4; "int8send" Int8; "oidsend" Oid;
    "float4send" Float4; "float8send" Float8; "numeric_send" Numeric;
    "textsend" Text; "varcharsend" Varchar; "bpcharsend" Char; "namesend" Name; "byteasend" Bytea;
    "date_send" Date; "time_send" Time; "timestamp_send" Timestamp; "timestamptz_send" TimestampTz; "interval_send" Interval;
    "uuid_send" Uuid; "json_send" Json; "jsonb_send" Jsonb; "inet_send" Inet; "cidr_send" Cidr;
}

pub(super) static BYTES: &[FunctionEntry] = &[
    entry!("||" (Bytea, Bytea) -> Bytea, typed!(|a: &[u8], b: &[u8]| joined(a, b))),
    entry!("length" (Bytea) -> Int4, typed!(|a: &[u8]| a.len() as i32)),
    entry!("octet_length" (Bytea) -> Int4, typed!(|a: &[u8]| a.len() as i32)),
    entry!("bit_length" (Bytea) -> Int4, typed!(|a: &[u8]| (a.len() as i32).wrapping_mul(8))),
    entry!("substring" (Bytea, Int4) -> Bytea, typed!(|a: &[u8], start: i32| part(a, start, None))),
    entry!("substr" (Bytea, Int4) -> Bytea, typed!(|a: &[u8], start: i32| part(a, start, None))),
    entry!("substring" (Bytea, Int4, Int4) -> Bytea, typed!(|a: &[u8], start: i32, length: i32| {
        part(a, start, Some(length))
    })),
    entry!("substr" (Bytea, Int4, Int4) -> Bytea, typed!(|a: &[u8], start: i32, length: i32| {
        part(a, start, Some(length))
    })),
    entry!("position" (Bytea, Bytea) -> Int4, typed!(|a: &[u8], b: &[u8]| position(a, b))),
    entry!("btrim" (Bytea, Bytea) -> Bytea, typed!(|a: &[u8], set: &[u8]| trim(a, set, true, true))),
    entry!("ltrim" (Bytea, Bytea) -> Bytea, typed!(|a: &[u8], set: &[u8]| trim(a, set, true, false))),
    entry!("rtrim" (Bytea, Bytea) -> Bytea, typed!(|a: &[u8], set: &[u8]| trim(a, set, false, true))),
    entry!("overlay" (Bytea, Bytea, Int4) -> Bytea, typed!(|a: &[u8], b: &[u8], start: i32| {
        overlay(a, b, start, b.len() as i32)
    })),
    entry!("overlay" (Bytea, Bytea, Int4, Int4) -> Bytea, typed!(|a: &[u8], b: &[u8], start: i32, length: i32| {
        overlay(a, b, start, length)
    })),
    entry!("get_byte" (Bytea, Int4) -> Int4, typed!(|a: &[u8], index: i32| byte_at(a, index))),
];
