//! A small byte reader and writer: lengths are LEB128, fixed numbers little-endian. Reading never panics.

use crate::array::{DIMENSIONS_MAX, Dimension, Dimensions};
use crate::types::{ENUM_ARRAY_TAG, ENUM_TAG};
use crate::{Array, DataType, EnumValue, Error, Json, Network, Numeric, Result, SqlState, Value, datetime::Interval};
use ecow::EcoString;
use std::sync::Arc;

/// The tag of an array whose dimensions are written down; no [`DataType`] has it.
const SHAPED_ARRAY: u8 = 250;

/// Reads what the `put_` functions wrote. Every short or malformed input is an error with SQLSTATE XX001.
#[derive(Clone, Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// A reader from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { rest: bytes }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.rest.len() {
            return Err(damaged("the data ends early"));
        }
        let (head, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A LEB128 number.
    pub fn length(&mut self) -> Result<usize> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value).map_err(|_| damaged("a length is too large"));
            }
        }
        Err(damaged("a length does not end"))
    }

    /// Bytes with their length before them.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// UTF-8 text with its length before it.
    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged("text is not UTF-8"))
    }

    /// A type as [`put_data_type`] wrote it.
    pub fn data_type(&mut self) -> Result<DataType> {
        match self.u8()? {
            ENUM_TAG => Ok(DataType::Enum(self.u32()?)),
            ENUM_ARRAY_TAG => Ok(DataType::EnumArray(self.u32()?)),
            tag => DataType::from_tag(tag).ok_or_else(|| damaged("an unknown type")),
        }
    }

    /// A value as [`put_value`] wrote it.
    pub fn value(&mut self) -> Result<Value> {
        decode_value(self.bytes()?)
    }
}

/// Appends a LEB128 number.
pub fn put_length(out: &mut Vec<u8>, length: usize) {
    let mut rest = length as u64;
    while rest >= 0x80 {
        out.push((rest as u8 & 0x7f) | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends bytes with their length before them.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a type: its tag and, for those of the users, its number.
pub fn put_data_type(out: &mut Vec<u8>, data_type: DataType) {
    out.push(data_type.tag());
    if let Some(number) = data_type.enum_number() {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Appends a value with its length before it.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut encoded = Vec::with_capacity(16);
    encode_value(value, &mut encoded);
    put_bytes(out, &encoded);
}

/// Appends a value: nothing for NULL, otherwise the tag of its type and its payload, of fixed length for fixed types.
pub fn encode_value(value: &Value, out: &mut Vec<u8>) {
    if value.is_null() {
        return;
    }
    match value {
        Value::Array(array) if !array.is_plain() => return encode_shaped(array, out),
        _ => put_data_type(out, value.data_type()),
    }
    match value {
        Value::Null => {}
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Int2(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Int4(v) | Value::Date(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Int8(v) | Value::Time(v) | Value::Timestamp(v) | Value::TimestampTz(v) => {
            out.extend_from_slice(&v.to_le_bytes());
        }
        Value::Float4(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Float8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Numeric(v) => v.encode(out),
        Value::Text(v) => out.extend_from_slice(v.as_bytes()),
        Value::Bytea(v) => out.extend_from_slice(v),
        Value::Interval(v) => {
            out.extend_from_slice(&v.months.to_le_bytes());
            out.extend_from_slice(&v.days.to_le_bytes());
            out.extend_from_slice(&v.microseconds.to_le_bytes());
        }
        Value::Uuid(v) => out.extend_from_slice(v),
        Value::Array(v) => v.items.iter().for_each(|item| put_value(out, item)),
        Value::Jsonb(v) => v.encode(out),
        Value::Enum(v) => out.extend_from_slice(&v.position.to_le_bytes()),
        Value::Inet(v) | Value::Cidr(v) => v.encode(out),
        Value::MacAddr(v) => out.extend_from_slice(v),
        Value::MacAddr8(v) => out.extend_from_slice(v),
    }
}

/// An array of several dimensions, or one that does not count from 1: a tag of its own, which programs that know no such arrays refuse.
fn encode_shaped(array: &Array, out: &mut Vec<u8>) {
    out.push(SHAPED_ARRAY);
    put_data_type(out, array.data_type());
    put_length(out, array.dimensions().len());
    for dimension in array.dimensions() {
        out.extend_from_slice(&dimension.length.to_le_bytes());
        out.extend_from_slice(&dimension.lower.to_le_bytes());
    }
    array.items.iter().for_each(|item| put_value(out, item));
}

/// Reads a value that [`encode_value`] wrote; `bytes` is exactly that value.
#[inline]
pub fn decode_value(bytes: &[u8]) -> Result<Value> {
    let Some((&tag, payload)) = bytes.split_first() else {
        return Ok(Value::Null);
    };
    match tag {
        SHAPED_ARRAY => return decode_shaped(payload),
        ENUM_TAG | ENUM_ARRAY_TAG => return decode_enum(bytes),
        _ => {}
    }
    let data_type = DataType::from_tag(tag).ok_or_else(|| damaged("a value has an unknown type tag"))?;
    Ok(match data_type {
        DataType::Bool => Value::Bool(fixed::<1>(payload)?[0] != 0),
        DataType::Int2 => Value::Int2(i16::from_le_bytes(fixed(payload)?)),
        DataType::Int4 => Value::Int4(i32::from_le_bytes(fixed(payload)?)),
        DataType::Int8 => Value::Int8(i64::from_le_bytes(fixed(payload)?)),
        DataType::Float4 => Value::Float4(f32::from_le_bytes(fixed(payload)?)),
        DataType::Float8 => Value::Float8(f64::from_le_bytes(fixed(payload)?)),
        DataType::Numeric => Value::Numeric(Numeric::decode(payload)?),
        DataType::Text => Value::Text(EcoString::from(
            std::str::from_utf8(payload).map_err(|_| damaged("a text value is not UTF-8"))?,
        )),
        DataType::Bytea => Value::bytea(payload),
        DataType::Date => Value::Date(i32::from_le_bytes(fixed(payload)?)),
        DataType::Time => Value::Time(i64::from_le_bytes(fixed(payload)?)),
        DataType::Timestamp => Value::Timestamp(i64::from_le_bytes(fixed(payload)?)),
        DataType::TimestampTz => Value::TimestampTz(i64::from_le_bytes(fixed(payload)?)),
        DataType::Interval => {
            let bytes = fixed::<16>(payload)?;
            let mut reader = ByteReader::new(&bytes);
            Value::Interval(Interval {
                months: i32::from_le_bytes(reader.array()?),
                days: i32::from_le_bytes(reader.array()?),
                microseconds: i64::from_le_bytes(reader.array()?),
            })
        }
        DataType::Uuid => Value::Uuid(fixed(payload)?),
        DataType::Inet => Value::Inet(Network::decode(payload)?),
        DataType::Cidr => Value::Cidr(Network::decode(payload)?),
        DataType::MacAddr => Value::MacAddr(fixed(payload)?),
        DataType::MacAddr8 => Value::MacAddr8(fixed(payload)?),
        DataType::Jsonb => Value::Jsonb(Arc::new(Json::decode(payload)?)),
        other => match other.element() {
            Some(element) => Value::Array(Arc::new(Array::new(element, decode_items(payload)?))),
            None => return Err(damaged("a value has a type that is never stored")),
        },
    })
}

/// A value of an enum, or an array of them: the number of the type stands before them.
fn decode_enum(bytes: &[u8]) -> Result<Value> {
    let mut reader = ByteReader::new(bytes);
    Ok(match reader.data_type()? {
        DataType::Enum(type_oid) => Value::Enum(EnumValue {
            type_oid,
            position: i64::from_le_bytes(fixed(reader.rest())?),
        }),
        other => {
            let element = other.element().unwrap_or(DataType::Unknown);
            Value::Array(Arc::new(Array::new(element, decode_items(reader.rest())?)))
        }
    })
}

fn decode_items(payload: &[u8]) -> Result<Vec<Value>> {
    let mut reader = ByteReader::new(payload);
    let mut items = Vec::new();
    while !reader.rest().is_empty() {
        items.push(reader.value()?);
    }
    Ok(items)
}

fn decode_shaped(payload: &[u8]) -> Result<Value> {
    let mut reader = ByteReader::new(payload);
    let element = reader.data_type()?.element();
    let element = element.ok_or_else(|| damaged("an array has an unknown type"))?;
    let mut dimensions = Dimensions::new();
    for _ in 0..reader.length()?.min(DIMENSIONS_MAX + 1) {
        let (length, lower) = (reader.u32()?, reader.u32()? as i32);
        dimensions.push(Dimension { length, lower });
    }
    let items = decode_items(reader.rest())?;
    let array = Array::shaped(element, items, dimensions).map_err(|error| damaged(error.message()))?;
    Ok(Value::Array(Arc::new(array)))
}

/// Whether [`decode_value`] would take these bytes, without a copy of what is in them.
pub(crate) fn check_value(bytes: &[u8]) -> Result<()> {
    match bytes.split_first() {
        Some((&tag, payload)) if tag == DataType::Text.tag() => std::str::from_utf8(payload)
            .map(drop)
            .map_err(|_| damaged("a text value is not UTF-8")),
        Some((&tag, _)) if tag == DataType::Bytea.tag() => Ok(()),
        _ => decode_value(bytes).map(drop),
    }
}

#[inline]
fn fixed<const N: usize>(payload: &[u8]) -> Result<[u8; N]> {
    payload.try_into().map_err(|_| damaged("a value has the wrong length"))
}

/// XX001: bytes that this program did not write, or that were damaged since.
pub(crate) fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("damaged data: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_format::{TextContext, parse_text};

    #[test]
    fn lengths_round_trip_and_short_input_is_an_error() {
        for length in [0, 1, 127, 128, 300, 1 << 20, usize::MAX >> 1] {
            let mut out = Vec::new();
            put_length(&mut out, length);
            assert_eq!(ByteReader::new(&out).length().unwrap(), length);
            assert!(ByteReader::new(&out[..out.len() - 1]).length().is_err());
        }
    }

    fn parsed(data_type: DataType, text: &str) -> Value {
        parse_text(data_type, -1, text, &TextContext::default()).unwrap()
    }

    /// Arrays in checks of folders that programs before array columns wrote.
    #[test]
    fn plain_arrays_are_written_as_ever() {
        let mut out = Vec::new();
        encode_value(&parsed(DataType::Int4Array, "{1,NULL}"), &mut out);
        assert_eq!(out, [23, 5, 3, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn values_round_trip() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int2(-3),
            Value::Int4(7),
            Value::Int8(i64::MIN),
            Value::Float4(1.5),
            Value::Float8(-0.25),
            Value::Numeric(Numeric::from_i64(12345)),
            Value::text("a somewhat longer text than fits inline"),
            Value::bytea(&[0, 255, 1]),
            Value::Date(-1),
            Value::Time(1),
            Value::Timestamp(2),
            Value::TimestampTz(3),
            Value::Interval(Interval {
                months: 1,
                days: -2,
                microseconds: 3,
            }),
            Value::Uuid([9; 16]),
            parsed(DataType::TextArray, "{a,NULL,\"b c\"}"),
            parsed(DataType::Int4Array, "{{1,2},{3,4}}"),
            parsed(DataType::Int4Array, "[0:1]={1,2}"),
            parsed(DataType::Jsonb, r#"{"a": [1, "x", null, {}], "b": true}"#),
        ];
        for value in values {
            let mut out = Vec::new();
            put_value(&mut out, &value);
            assert_eq!(ByteReader::new(&out).value().unwrap(), value);
            assert!(check_value(ByteReader::new(&out).bytes().unwrap()).is_ok());
        }
        let wrong: [&[u8]; 3] = [
            &[99, 1],
            &[DataType::Int4.tag(), 1],
            &[DataType::Text.tag(), b'a', 0xff],
        ];
        for bytes in wrong {
            assert!(decode_value(bytes).is_err() && check_value(bytes).is_err());
        }
    }
}
