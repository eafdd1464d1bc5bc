//! What `information_schema` says of types, as functions of a type's number and modifier, under the names that they have there.

use super::FunctionEntry;
use super::argument::{entry, typed};
use rubato_base::DataType;

/// The longest text of a type without a limit, in bytes, as `information_schema` has it.
const BYTES_MAX: i32 = 1 << 30;
/// Bytes of one character of the database's encoding at the most.
const CHARACTER_BYTES: i32 = 4;
/// What a modifier of numeric and of text has above what it says.
const HEADER: i32 = 4;

fn known(number: i64) -> Option<DataType> {
    u32::try_from(number).ok().and_then(DataType::from_oid)
}

fn length(number: i64, modifier: i32) -> Option<i32> {
    let has_length = matches!(known(number), Some(DataType::Varchar | DataType::Char));
    (has_length && modifier != -1).then(|| modifier.wrapping_sub(HEADER))
}

fn octets(number: i64, modifier: i32) -> Option<i32> {
    match known(number)? {
        DataType::Text | DataType::Varchar | DataType::Char if modifier == -1 => Some(BYTES_MAX),
        _ => length(number, modifier).map(|length| length.saturating_mul(CHARACTER_BYTES)),
    }
}

fn precision(number: i64, modifier: i32) -> Option<i32> {
    match known(number)? {
        DataType::Int2 => Some(16),
        DataType::Int4 => Some(32),
        DataType::Int8 => Some(64),
        DataType::Float4 => Some(24),
        DataType::Float8 => Some(53),
        DataType::Numeric => (modifier != -1).then(|| (modifier.wrapping_sub(HEADER) >> 16) & 0xffff),
        _ => None,
    }
}

fn radix(number: i64, _modifier: i32) -> Option<i32> {
    match known(number)? {
        DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Float4 | DataType::Float8 => Some(2),
        DataType::Numeric => Some(10),
        _ => None,
    }
}

fn scale(number: i64, modifier: i32) -> Option<i32> {
    match known(number)? {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => Some(0),
        DataType::Numeric => (modifier != -1).then(|| modifier.wrapping_sub(HEADER) & 0xffff),
        _ => None,
    }
}

fn digits_of_seconds(number: i64, modifier: i32) -> Option<i32> {
    match known(number)? {
        DataType::Date => Some(0),
        DataType::Time | DataType::Timestamp | DataType::TimestampTz => Some(if modifier < 0 { 6 } else { modifier }),
        DataType::Interval if modifier < 0 || modifier & 0xffff == 0xffff => Some(6),
        DataType::Interval => Some(modifier & 0xffff),
        _ => None,
    }
}

pub(super) static TRUE_TYPES: &[FunctionEntry] = &[
    entry!("information_schema._pg_char_max_length" (Oid, Int4) -> Int4, typed!(|number: i64, modifier: i32| length(number, modifier))),
    entry!("information_schema._pg_char_octet_length" (Oid, Int4) -> Int4, typed!(|number: i64, modifier: i32| octets(number, modifier))),
    entry!("information_schema._pg_numeric_precision" (Oid, Int4) -> Int4, typed!(|number: i64, modifier: i32| precision(number, modifier))),
    entry!("information_schema._pg_numeric_precision_radix" (Oid, Int4) -> Int4, typed!(|number: i64, modifier: i32| radix(number, modifier))),
    entry!("information_schema._pg_numeric_scale" (Oid, Int4) -> Int4, typed!(|number: i64, modifier: i32| scale(number, modifier))),
    entry!("information_schema._pg_datetime_precision" (Oid, Int4) -> Int4,
        typed!(|number: i64, modifier: i32| digits_of_seconds(number, modifier))),
];
