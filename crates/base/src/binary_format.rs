//! Values in PostgreSQL's binary form, without the length that stands before them on the wire.

use crate::datetime::{self, DAY_US, Interval};
use crate::json;
use crate::mac_address::mac_extended;
use crate::text_format::{TextContext, apply_modifier, parse_characters, write_text};
use crate::{Array, ColumnType, DataType, Error, Network, Numeric, Result, SqlState, Value};
use std::sync::Arc;

fn wrong_length() -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| wrong_length())
}

/// Reads a value of a type with its modifier (-1 for none) from its binary form. 22P03 for a wrong length or form, 22021 for text that
/// is not UTF-8, 22008 for a time beyond its range; the modifier's errors as in [`apply_modifier`].
pub fn parse_binary(data_type: DataType, modifier: i32, bytes: &[u8], context: &TextContext) -> Result<Value> {
    let value = match data_type {
        DataType::Bool => Value::Bool(fixed::<1>(bytes)?[0] != 0),
        DataType::Int2 => Value::Int2(i16::from_be_bytes(fixed(bytes)?)),
        DataType::Int4 => Value::Int4(i32::from_be_bytes(fixed(bytes)?)),
        DataType::Int8 => Value::Int8(i64::from_be_bytes(fixed(bytes)?)),
        DataType::Oid => Value::Int8(u32::from_be_bytes(fixed(bytes)?).into()),
        DataType::Float4 => Value::Float4(f32::from_be_bytes(fixed(bytes)?)),
        DataType::Float8 => Value::Float8(f64::from_be_bytes(fixed(bytes)?)),
        DataType::Numeric => Value::Numeric(Numeric::from_wire(bytes)?),
        DataType::Text | DataType::Varchar | DataType::Char | DataType::Name | DataType::Unknown => {
            return parse_characters(data_type, modifier, utf8(bytes)?);
        }
        DataType::Bytea => Value::bytea(bytes),
        DataType::Date => Value::Date(checked_date(i32::from_be_bytes(fixed(bytes)?))?),
        DataType::Time => Value::Time(checked_time(i64::from_be_bytes(fixed(bytes)?))?),
        DataType::Timestamp => Value::Timestamp(checked_timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        DataType::TimestampTz => Value::TimestampTz(checked_timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        DataType::Interval => Value::Interval(parse_interval(&fixed(bytes)?)),
        DataType::Uuid => Value::Uuid(fixed(bytes)?),
        DataType::Inet => Value::Inet(Network::parse_binary(bytes, false)?),
        DataType::Cidr => Value::Cidr(Network::parse_binary(bytes, true)?),
        DataType::MacAddr => Value::MacAddr(fixed(bytes)?),
        DataType::MacAddr8 => Value::MacAddr8(match fixed(bytes) {
            Ok(short) => mac_extended(short),
            Err(_) => fixed(bytes)?,
        }),
        DataType::Void if bytes.is_empty() => Value::Null,
        DataType::Void => return Err(wrong_length()),
        DataType::Json => {
            let text = utf8(bytes)?;
            json::check(text)?;
            Value::text(text)
        }
        DataType::Jsonb => Value::Jsonb(Arc::new(json::parse_binary(bytes, utf8)?)),
        DataType::JsonPath => Value::Text(json::path::parse_binary(bytes, utf8)?.to_text()),
        DataType::Enum(number) => Value::Enum(context.enums.parse(number, utf8(bytes)?)?),
        array => {
            let element = array.element().ok_or_else(wrong_length)?;
            let element = ColumnType {
                data_type: element,
                modifier,
            };
            // The elements have the modifier.
            return Ok(Value::Array(Arc::new(Array::parse_binary(element, bytes, context)?)));
        }
    };
    if modifier < 0 {
        Ok(value)
    } else {
        apply_modifier(value, data_type, modifier)
    }
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        // The bytes of the sequence that is at fault, as many as PostgreSQL would show.
        let start = error.valid_up_to();
        let expected = match bytes[start] {
            0xf0..=0xf7 => 4,
            0xe0..=0xef => 3,
            0xc0..=0xdf => 2,
            _ => 1,
        };
        let shown: Vec<String> = bytes[start..]
            .iter()
            .take(expected)
            .map(|byte| format!("0x{byte:02x}"))
            .collect();
        Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
        )
    })
}

fn range_error(what: &str) -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn checked_date(date: i32) -> Result<i32> {
    if datetime::is_date(date) {
        Ok(date)
    } else {
        Err(range_error("date"))
    }
}

fn checked_time(time: i64) -> Result<i64> {
    if (0..=DAY_US).contains(&time) {
        Ok(time)
    } else {
        Err(range_error("time"))
    }
}

fn checked_timestamp(timestamp: i64) -> Result<i64> {
    if datetime::is_timestamp(timestamp) {
        Ok(timestamp)
    } else {
        Err(range_error("timestamp"))
    }
}

fn parse_interval(bytes: &[u8; 16]) -> Interval {
    let word = u128::from_be_bytes(*bytes);
    Interval {
        microseconds: (word >> 64) as i64,
        days: (word >> 32) as i32,
        months: word as i32,
    }
}

/// Appends a value's binary form. Whole numbers are written in the width of `data_type`; any other value as what it is. NULL appends
/// nothing: the caller marks it. A value of an enum is its label, which the context knows.
pub fn write_binary(value: &Value, data_type: DataType, context: &TextContext, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(v) => out.push((*v).into()),
        Value::Int2(v) => write_integer((*v).into(), data_type, out),
        Value::Int4(v) => write_integer((*v).into(), data_type, out),
        Value::Int8(v) => write_integer(*v, data_type, out),
        Value::Float4(v) if data_type == DataType::Float8 => out.extend_from_slice(&f64::from(*v).to_be_bytes()),
        Value::Float4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Float8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Numeric(v) => v.to_wire(out),
        Value::Text(v) => {
            if data_type == DataType::JsonPath {
                out.push(json::BINARY_VERSION);
            }
            out.extend_from_slice(v.as_bytes());
        }
        Value::Bytea(v) => out.extend_from_slice(v),
        Value::Date(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Time(v) | Value::Timestamp(v) | Value::TimestampTz(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Interval(v) => {
            out.extend_from_slice(&v.microseconds.to_be_bytes());
            out.extend_from_slice(&v.days.to_be_bytes());
            out.extend_from_slice(&v.months.to_be_bytes());
        }
        Value::Uuid(v) => out.extend_from_slice(v),
        // What its elements are called is the type's affair: a text may be a varchar.
        Value::Array(v) => v.write_binary(data_type.element().unwrap_or(v.element), context, out),
        Value::Jsonb(v) => {
            out.push(json::BINARY_VERSION);
            v.write(out);
        }
        Value::Enum(_) => write_text(value, data_type, context, out),
        Value::Inet(v) => v.write_binary(data_type == DataType::Cidr, out),
        Value::Cidr(v) => v.write_binary(data_type != DataType::Inet, out),
        Value::MacAddr(v) => out.extend_from_slice(v),
        Value::MacAddr8(v) => out.extend_from_slice(v),
    }
}

fn write_integer(value: i64, data_type: DataType, out: &mut Vec<u8>) {
    match data_type {
        DataType::Int2 => out.extend_from_slice(&(value as i16).to_be_bytes()),
        DataType::Int4 | DataType::Oid => out.extend_from_slice(&(value as i32).to_be_bytes()),
        DataType::Numeric => Numeric::from_i64(value).to_wire(out),
        DataType::Float4 => out.extend_from_slice(&(value as f32).to_be_bytes()),
        DataType::Float8 => out.extend_from_slice(&(value as f64).to_be_bytes()),
        _ => out.extend_from_slice(&value.to_be_bytes()),
    }
}
