//! One SQL value.

use crate::datetime::Interval;
use crate::{Array, DataType, EnumValue, Json, Network, Numeric};
use ecow::{EcoString, EcoVec};
use std::cmp::Ordering;
use std::sync::Arc;

/// One SQL value. 24 bytes; text of up to 15 bytes is held inline, longer text is shared by reference count.
///
/// `PartialEq` and [`Value::compare`] follow PostgreSQL within one type family: numbers of any two types compare by
/// value, NaN equals NaN and is greatest, -0 equals 0. Trailing blanks of `char(n)` are the caller's affair.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// NULL of any type.
    #[default]
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`, `oid`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Numeric),
    /// `text`, `varchar`, `char`, `name`, `json`
    Text(EcoString),
    /// `bytea`
    Bytea(EcoVec<u8>),
    /// Days since 2000-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 2000-01-01 00:00, without a time zone.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00 UTC.
    TimestampTz(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// An array
    Array(Arc<Array>),
    /// `jsonb`
    Jsonb(Arc<Json>),
    /// A value of an enum.
    Enum(EnumValue),
    /// `inet`
    Inet(Network),
    /// `cidr`: nothing is set to the right of the mask
    Cidr(Network),
    /// `macaddr`
    MacAddr([u8; 6]),
    /// `macaddr8`
    MacAddr8([u8; 8]),
}

impl Value {
    /// A text value.
    pub fn text(text: &str) -> Value {
        Value::Text(EcoString::from(text))
    }

    /// A bytea value.
    pub fn bytea(bytes: &[u8]) -> Value {
        Value::Bytea(EcoVec::from(bytes))
    }

    /// Whether this is NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The type of the value as such: text for every character type, [`DataType::Unknown`] for NULL.
    #[inline]
    pub fn data_type(&self) -> DataType {
        match self {
            Value::Null => DataType::Unknown,
            Value::Bool(_) => DataType::Bool,
            Value::Int2(_) => DataType::Int2,
            Value::Int4(_) => DataType::Int4,
            Value::Int8(_) => DataType::Int8,
            Value::Float4(_) => DataType::Float4,
            Value::Float8(_) => DataType::Float8,
            Value::Numeric(_) => DataType::Numeric,
            Value::Text(_) => DataType::Text,
            Value::Bytea(_) => DataType::Bytea,
            Value::Date(_) => DataType::Date,
            Value::Time(_) => DataType::Time,
            Value::Timestamp(_) => DataType::Timestamp,
            Value::TimestampTz(_) => DataType::TimestampTz,
            Value::Interval(_) => DataType::Interval,
            Value::Uuid(_) => DataType::Uuid,
            Value::Array(array) => array.data_type(),
            Value::Jsonb(_) => DataType::Jsonb,
            Value::Enum(value) => DataType::Enum(value.type_oid),
            Value::Inet(_) => DataType::Inet,
            Value::Cidr(_) => DataType::Cidr,
            Value::MacAddr(_) => DataType::MacAddr,
            Value::MacAddr8(_) => DataType::MacAddr8,
        }
    }

    /// The whole number in an integer value of any size.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int2(v) => Some(i64::from(*v)),
            Value::Int4(v) => Some(i64::from(*v)),
            Value::Int8(v) => Some(*v),
            _ => None,
        }
    }

    /// The text in a character value.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// Bytes of memory held outside the value itself.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Value::Text(text) if text.len() > 15 => text.len() + 16,
            Value::Bytea(bytes) => bytes.len() + 16,
            Value::Array(array) => array.heap_bytes(),
            Value::Jsonb(json) => json.heap_bytes(),
            _ => 0,
        }
    }

    /// The order of two values that are not NULL, `None` if one is NULL or the types do not compare.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        use Value::{Bool, Bytea, Date, Interval, Text, Time, Timestamp, TimestampTz, Uuid};
        Some(match (self, other) {
            (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Bool(a), Bool(b)) => a.cmp(b),
            (Bytea(a), Bytea(b)) => a.as_slice().cmp(b.as_slice()),
            (Date(a), Date(b)) => a.cmp(b),
            (Time(a), Time(b)) | (Timestamp(a), Timestamp(b)) | (TimestampTz(a), TimestampTz(b)) => a.cmp(b),
            (Interval(a), Interval(b)) => a.cmp(b),
            (Uuid(a), Uuid(b)) => a.cmp(b),
            (Value::Array(a), Value::Array(b)) => a.order(b),
            (Value::Jsonb(a), Value::Jsonb(b)) => a.order(b),
            (Value::Enum(a), Value::Enum(b)) => a.cmp(b),
            (Value::Inet(a) | Value::Cidr(a), Value::Inet(b) | Value::Cidr(b)) => a.cmp(b),
            (Value::MacAddr(a), Value::MacAddr(b)) => a.cmp(b),
            (Value::MacAddr8(a), Value::MacAddr8(b)) => a.cmp(b),
            _ => return compare_numbers(self, other),
        })
    }

    /// The order used by ORDER BY ascending and by keys: NULL last.
    pub fn order(&self, other: &Value) -> Ordering {
        match (self.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.compare(other).unwrap_or(Ordering::Equal),
        }
    }
}

fn compare_numbers(a: &Value, b: &Value) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return Some(a.cmp(&b));
    }
    if let (Some(a), Some(b)) = (as_numeric(a), as_numeric(b)) {
        return Some(a.cmp(&b));
    }
    Some(compare_floats(as_f64(a)?, as_f64(b)?))
}

/// PostgreSQL's order of floats: NaN equals NaN and is greater than everything else.
fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn as_numeric(value: &Value) -> Option<Numeric> {
    match value {
        Value::Numeric(number) => Some(number.clone()),
        _ => value.as_i64().map(Numeric::from_i64),
    }
}

fn as_f64(value: &Value) -> Option<f64> {
    match value {
        Value::Float4(v) => Some(f64::from(*v)),
        Value::Float8(v) => Some(*v),
        Value::Numeric(number) => Some(number.to_f64()),
        _ => value.as_i64().map(|v| v as f64),
    }
}

/// NULL equals NULL here, as for GROUP BY and DISTINCT; SQL's `=` is three-valued and lives with the operators.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self.is_null(), other.is_null()) {
            (true, true) => true,
            (false, false) => self.compare(other) == Some(Ordering::Equal),
            _ => false,
        }
    }
}

impl Eq for Value {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_three_words() {
        assert_eq!(size_of::<Value>(), 24);
    }

    #[test]
    fn numbers_of_two_types_compare_by_value() {
        assert_eq!(Value::Int2(3), Value::Int8(3));
        assert_eq!(Value::Int4(3).compare(&Value::Float8(3.5)), Some(Ordering::Less));
        assert_eq!(
            Value::Numeric(Numeric::from_i64(4)).compare(&Value::Int4(3)),
            Some(Ordering::Greater)
        );
        assert_eq!(Value::Float8(f64::NAN), Value::Float4(f32::NAN));
        assert_eq!(Value::Float8(0.0), Value::Float8(-0.0));
    }

    #[test]
    fn null_orders_last_and_text_by_bytes() {
        assert_eq!(Value::Null.order(&Value::Int4(1)), Ordering::Greater);
        assert_eq!(Value::text("a").order(&Value::text("B")), Ordering::Greater);
        assert_eq!(Value::text("a").compare(&Value::Int4(1)), None);
    }
}
