//! Values as text, in PostgreSQL's input and output forms.

use crate::datetime::{self, DateOrder, IntervalStyle, TimeZone};
use crate::enumeration::Marked;
use crate::json;
use crate::mac_address;
use crate::{
    Array, ColumnType, DataType, EnumTypes, Error, Json, NAME_BYTES_MAX, Network, Numeric, Result, SqlState, Value,
    name_up_to,
};
use ecow::{EcoString, EcoVec};
use std::sync::Arc;

mod float_text;
mod packed;

pub use packed::encode_text;

/// What `char(n)` is padded with, some at a time.
const BLANKS: &str = "                                                                ";

/// What reading and writing text depends on, besides the type.
#[derive(Clone, Debug, Default)]
pub struct TextContext {
    /// The session's time zone.
    pub time_zone: TimeZone,
    /// What `now` in a text stands for: microseconds since 2000-01-01 UTC.
    pub now_us: i64,
    /// How `01/02/03` is read.
    pub date_order: DateOrder,
    /// How intervals are shown.
    pub interval_style: IntervalStyle,
    /// Whether `bytea` is shown as text with escapes.
    pub escapes_bytea: bool,
    /// Floats are shown with so many digits less than they hold for certain, instead of with as few as read back as the same.
    pub float_digits_less: Option<u8>,
    /// What the values of enums are called.
    pub enums: Arc<EnumTypes>,
}

fn invalid_syntax(data_type: DataType, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {data_type}: \"{text}\""),
    )
}

fn value_out_of_range(data_type: DataType, text: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {data_type}"),
    )
}

/// Reads a value of a type with its modifier (-1 for none) from its text. The errors are PostgreSQL's: 22P02 or 22007 for text that
/// the type does not read, 22003 or 22008 beyond its range, 22001 for a string that is too long.
pub fn parse_text(data_type: DataType, modifier: i32, text: &str, context: &TextContext) -> Result<Value> {
    let (zone, now_us, order) = (&context.time_zone, context.now_us, context.date_order);
    let value = match data_type {
        DataType::Bool => Value::Bool(parse_bool(text)?),
        DataType::Int2 => Value::Int2(parse_integer(text, data_type, i16::MIN.into(), i16::MAX.into())? as i16),
        DataType::Int4 => Value::Int4(parse_integer(text, data_type, i32::MIN.into(), i32::MAX.into())? as i32),
        DataType::Int8 => Value::Int8(parse_integer(text, data_type, i64::MIN, i64::MAX)?),
        DataType::Oid => Value::Int8(parse_oid(text)?),
        DataType::Float4 => Value::Float4(parse_float4(text)?),
        DataType::Float8 => Value::Float8(parse_float8(text)?),
        DataType::Numeric => Value::Numeric(Numeric::parse(text)?),
        DataType::Text | DataType::Varchar | DataType::Char | DataType::Name | DataType::Unknown => {
            return parse_characters(data_type, modifier, text);
        }
        DataType::Bytea => Value::Bytea(parse_bytea(text)?),
        DataType::Date => Value::Date(datetime::parse_date(text, order, zone, now_us)?),
        DataType::Time => Value::Time(datetime::parse_time(text, order, zone, now_us)?),
        DataType::Timestamp => Value::Timestamp(datetime::parse_timestamp(text, order, zone, now_us)?),
        DataType::TimestampTz => Value::TimestampTz(datetime::parse_timestamptz(text, order, zone, now_us)?),
        DataType::Interval => Value::Interval(datetime::parse_interval(&datetime::with_interval_units(
            text, modifier,
        ))?),
        DataType::Uuid => Value::Uuid(parse_uuid(text)?),
        DataType::Inet => Value::Inet(Network::parse(text, false)?),
        DataType::Cidr => Value::Cidr(Network::parse(text, true)?),
        DataType::MacAddr => Value::MacAddr(mac_address::parse_mac(text)?),
        DataType::MacAddr8 => Value::MacAddr8(mac_address::parse_mac8(text)?),
        DataType::Void => Value::Null,
        DataType::Json => {
            json::check(text)?;
            Value::text(text)
        }
        DataType::Jsonb => Value::Jsonb(Arc::new(Json::parse(text)?)),
        DataType::JsonPath => Value::Text(json::path::JsonPath::parse(text)?.to_text()),
        DataType::Enum(number) => Value::Enum(context.enums.parse(number, text)?),
        // The elements have the modifier.
        array => return parse_array(array, modifier, text, context),
    };
    if modifier < 0 {
        Ok(value)
    } else {
        apply_modifier(value, data_type, modifier)
    }
}

fn parse_array(data_type: DataType, modifier: i32, text: &str, context: &TextContext) -> Result<Value> {
    let element = data_type.element().ok_or_else(|| invalid_syntax(data_type, text))?;
    let array = if data_type.is_vector() {
        Array::parse_vector(element, text, context)?
    } else {
        let element = ColumnType {
            data_type: element,
            modifier,
        };
        Array::parse(element, text, context)?
    };
    Ok(Value::Array(Arc::new(array)))
}

/// Fits a value that already has the type to the type's modifier, as an assignment does: numbers and times are rounded, `char(n)` is
/// padded, surplus blanks are cut. 22003 for a number and 22001 for a string that do not fit.
pub fn apply_modifier(value: Value, data_type: DataType, modifier: i32) -> Result<Value> {
    if modifier < 0 {
        return Ok(value);
    }
    Ok(match value {
        Value::Numeric(number) => match ColumnType::numeric_precision_scale(modifier) {
            Some((precision, scale)) => Value::Numeric(number.with_modifier(precision, scale)?),
            None => Value::Numeric(number),
        },
        Value::Text(text) => match fitted(&text, data_type, modifier)? {
            Some(other) => Value::Text(other),
            None => Value::Text(text),
        },
        Value::Time(time) => Value::Time(datetime::round_to_digits(time, modifier)),
        Value::Timestamp(timestamp) => Value::Timestamp(datetime::round_to_digits(timestamp, modifier)),
        Value::TimestampTz(timestamp) => Value::TimestampTz(datetime::round_to_digits(timestamp, modifier)),
        Value::Interval(interval) => Value::Interval(datetime::fit_interval(interval, modifier)),
        Value::Array(array) => {
            let element = data_type.element().unwrap_or(array.element);
            let fit = |item: &Value| apply_modifier(item.clone(), element, modifier);
            let items = array.items.iter().map(fit).collect::<Result<_>>()?;
            Value::Array(Arc::new(array.with_items(array.element, items)))
        }
        other => other,
    })
}

/// The text of a `varchar(n)` or `char(n)` where it must change to fit.
fn fitted(text: &str, data_type: DataType, modifier: i32) -> Result<Option<EcoString>> {
    let Some(length) = ColumnType::character_length(modifier) else {
        return Ok(None);
    };
    if !matches!(data_type, DataType::Varchar | DataType::Char) {
        return Ok(None);
    }
    // As many bytes as characters are wanted hold no more characters; ASCII is the rule.
    let characters = if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    };
    if characters > length {
        let cut = text.char_indices().nth(length).map_or(text.len(), |(at, _)| at);
        if text[cut..].bytes().any(|c| c != b' ') {
            return Err(Error::new(
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {data_type}({length})"),
            ));
        }
        return Ok(Some(EcoString::from(&text[..cut])));
    }
    if data_type == DataType::Varchar || characters == length {
        return Ok(None);
    }
    let mut padded = EcoString::with_capacity(text.len() + length - characters);
    padded.push_str(text);
    let mut missing = length - characters;
    while missing > 0 {
        let step = missing.min(BLANKS.len());
        padded.push_str(&BLANKS[..step]);
        missing -= step;
    }
    Ok(Some(padded))
}

/// Text of any character type.
pub(crate) fn parse_characters(data_type: DataType, modifier: i32, text: &str) -> Result<Value> {
    if text.bytes().any(|c| c == 0) {
        return Err(Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    if data_type == DataType::Name {
        return Ok(Value::text(name_up_to(text, NAME_BYTES_MAX)));
    }
    Ok(match fitted(text, data_type, modifier)? {
        Some(other) => Value::Text(other),
        None => Value::text(text),
    })
}

/// The blanks that C's `isspace` knows.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn parse_bool(text: &str) -> Result<bool> {
    let word = text.trim_matches(is_space);
    // Any beginning of a word is enough that is not one of the other's too.
    let begins = |full: &str| {
        full.get(..word.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    match word.as_bytes().first() {
        Some(b't' | b'T') if begins("true") => Ok(true),
        Some(b'f' | b'F') if begins("false") => Ok(false),
        Some(b'y' | b'Y') if begins("yes") => Ok(true),
        Some(b'n' | b'N') if begins("no") => Ok(false),
        Some(b'o' | b'O') if word.len() > 1 && begins("on") => Ok(true),
        Some(b'o' | b'O') if word.len() > 1 && begins("off") => Ok(false),
        Some(b'1') if word.len() == 1 => Ok(true),
        Some(b'0') if word.len() == 1 => Ok(false),
        _ => Err(invalid_syntax(DataType::Bool, text)),
    }
}

fn parse_integer(text: &str, data_type: DataType, least: i64, greatest: i64) -> Result<i64> {
    let trimmed = text.trim_matches(is_space);
    let (negative, digits) = match trimmed.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    if digits.is_empty() {
        return Err(invalid_syntax(data_type, text));
    }
    let mut value = Some(0_i64);
    for c in digits {
        let digit = c.wrapping_sub(b'0');
        if digit > 9 {
            return Err(invalid_syntax(data_type, text));
        }
        // Counting below zero reaches the least value too.
        value = value.and_then(|value| value.checked_mul(10)?.checked_sub(digit.into()));
    }
    let value = if negative {
        value
    } else {
        value.and_then(i64::checked_neg)
    };
    value
        .filter(|value| (least..=greatest).contains(value))
        .ok_or_else(|| value_out_of_range(data_type, text))
}

/// An object id: a number below 2^32; a negative one of 32 bits counts from there.
fn parse_oid(text: &str) -> Result<i64> {
    let value = parse_integer(text, DataType::Oid, i32::MIN.into(), u32::MAX.into())?;
    Ok(if value < 0 { value + (1 << 32) } else { value })
}

/// Whether a float's text means zero: no digit but 0 before its exponent.
fn is_written_zero(text: &str) -> bool {
    text.bytes()
        .take_while(|c| !matches!(c, b'e' | b'E'))
        .all(|c| matches!(c, b'0' | b'.' | b'+' | b'-'))
}

fn is_written_infinity(text: &str) -> bool {
    text.trim_start_matches(['+', '-']).starts_with(['i', 'I'])
}

fn float_out_of_range(data_type: DataType, text: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{text}\" is out of range for type {data_type}"),
    )
}

fn parse_float8(text: &str) -> Result<f64> {
    let trimmed = text.trim_matches(is_space);
    let value: f64 = trimmed.parse().map_err(|_| invalid_syntax(DataType::Float8, text))?;
    if (value.is_infinite() && !is_written_infinity(trimmed)) || (value == 0.0 && !is_written_zero(trimmed)) {
        return Err(float_out_of_range(DataType::Float8, trimmed));
    }
    Ok(value)
}

fn parse_float4(text: &str) -> Result<f32> {
    let trimmed = text.trim_matches(is_space);
    let value: f32 = trimmed.parse().map_err(|_| invalid_syntax(DataType::Float4, text))?;
    if (value.is_infinite() && !is_written_infinity(trimmed)) || (value == 0.0 && !is_written_zero(trimmed)) {
        return Err(float_out_of_range(DataType::Float4, trimmed));
    }
    Ok(value)
}

fn hex_digit(c: u8) -> Option<u8> {
    (c as char).to_digit(16).map(|digit| digit as u8)
}

fn parse_bytea(text: &str) -> Result<EcoVec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hex) => parse_hex(hex),
        None => parse_escapes(text.as_bytes()),
    }
}

fn parse_hex(hex: &str) -> Result<EcoVec<u8>> {
    let mut bytes = EcoVec::with_capacity(hex.len() / 2);
    let mut characters = hex.chars();
    let digit = |c: char| {
        c.to_digit(16).map(|digit| digit as u8).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid hexadecimal digit: \"{c}\""),
            )
        })
    };
    while let Some(first) = characters.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(first)?;
        let second = characters.next().ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "invalid hexadecimal data: odd number of digits",
            )
        })?;
        bytes.push(high << 4 | digit(second)?);
    }
    Ok(bytes)
}

/// The older form: bytes as they are, `\\` for a backslash, `\ooo` for any byte.
fn parse_escapes(text: &[u8]) -> Result<EcoVec<u8>> {
    let mut bytes = EcoVec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', tail @ ..] => {
                bytes.push(b'\\');
                tail
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                tail
            }
            [b'\\', ..] => {
                return Err(Error::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            [other, tail @ ..] => {
                bytes.push(*other);
                tail
            }
        };
    }
}

fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let read = || {
        let bytes = text.as_bytes();
        let mut rest = match bytes {
            [b'{', inner @ .., b'}'] => inner,
            [b'{', ..] => return None,
            all => all,
        };
        let mut uuid = [0; 16];
        for (index, byte) in uuid.iter_mut().enumerate() {
            let [high, low, tail @ ..] = rest else { return None };
            *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
            // A hyphen may stand after each four digits, not at the end.
            rest = match tail {
                [b'-', behind @ ..] if index % 2 == 1 && index < 15 => behind,
                _ => tail,
            };
        }
        rest.is_empty().then_some(uuid)
    };
    read().ok_or_else(|| invalid_syntax(DataType::Uuid, text))
}

/// Appends a value's text as PostgreSQL shows it (DateStyle `ISO, MDY`, floats with the fewest digits that read back as the same).
/// NULL appends nothing: the caller marks it.
pub fn write_text(value: &Value, data_type: DataType, context: &TextContext, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(v) => out.push(if *v { b't' } else { b'f' }),
        Value::Int2(v) => out.extend_from_slice(itoa::Buffer::new().format(*v).as_bytes()),
        Value::Int4(v) => out.extend_from_slice(itoa::Buffer::new().format(*v).as_bytes()),
        Value::Int8(v) => out.extend_from_slice(itoa::Buffer::new().format(*v).as_bytes()),
        Value::Float4(v) => match context.float_digits_less {
            None => float_text::write_float4(*v, out),
            Some(less) => float_text::write_rounded((*v).into(), 6_u8.saturating_sub(less), out),
        },
        Value::Float8(v) => match context.float_digits_less {
            None => float_text::write_float8(*v, out),
            Some(less) => float_text::write_rounded(*v, 15_u8.saturating_sub(less), out),
        },
        Value::Numeric(v) => v.write_text(out),
        Value::Text(v) if data_type == DataType::Bytea => write_bytea(v.as_bytes(), context, out),
        Value::Text(v) => out.extend_from_slice(v.as_bytes()),
        Value::Bytea(v) => write_bytea(v, context, out),
        Value::Date(v) => datetime::write_date(*v, out),
        Value::Time(v) => datetime::write_time(*v, out),
        Value::Timestamp(v) => datetime::write_timestamp(*v, out),
        Value::TimestampTz(v) => datetime::write_timestamptz(*v, &context.time_zone, out),
        Value::Interval(v) => match context.interval_style {
            IntervalStyle::Postgres => datetime::write_interval(v, out),
            IntervalStyle::Iso8601 => datetime::write_iso_interval(v, out),
        },
        Value::Uuid(v) => write_uuid(v, out),
        Value::Inet(v) => v.write_text(data_type == DataType::Cidr, out),
        Value::Cidr(v) => v.write_text(data_type != DataType::Inet, out),
        Value::MacAddr(v) => out.extend_from_slice(mac_address::mac_text(v).as_bytes()),
        Value::MacAddr8(v) => out.extend_from_slice(mac_address::mac_text(v).as_bytes()),
        Value::Array(v) if data_type.is_vector() => v.write_vector(context, out),
        Value::Array(v) => v.write(context, out),
        Value::Jsonb(v) => v.write(out),
        Value::Enum(v) => match context.enums.label(*v) {
            Some(label) => out.extend_from_slice(label.as_bytes()),
            None => out.extend_from_slice(Marked::Label(*v).mark().as_bytes()),
        },
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(
        bytes
            .iter()
            .flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
    );
}

fn write_bytea(bytes: &[u8], context: &TextContext, out: &mut Vec<u8>) {
    if context.escapes_bytea {
        for &byte in bytes {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b' '..=b'~' => out.push(byte),
                byte => out.extend_from_slice(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
            }
        }
        return;
    }
    out.reserve(2 + 2 * bytes.len());
    out.extend_from_slice(b"\\x");
    write_hex(bytes, out);
}

fn write_uuid(uuid: &[u8; 16], out: &mut Vec<u8>) {
    let mut from = 0;
    for length in [4, 2, 2, 2, 6] {
        if from > 0 {
            out.push(b'-');
        }
        write_hex(&uuid[from..from + length], out);
        from += length;
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod recorded;
