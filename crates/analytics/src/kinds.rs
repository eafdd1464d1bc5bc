//! In which form columns hold values.
//!
//! Most types have an array of their own, in which arrow's order and equality are PostgreSQL's. A `numeric` of known scale is a whole
//! number with that scale ([`Kind::Decimal`]); what has no such form is held as the bytes of its value ([`Kind::Packed`]), which say
//! nothing of order: keys are made of it where it is compared.

use arrow::array::{
    Array, ArrayRef, BinaryViewArray, BinaryViewBuilder, BooleanArray, BooleanBuilder, Decimal128Array,
    Decimal128Builder, Float32Array, Float32Builder, Float64Array, Float64Builder, Int16Array, Int16Builder,
    Int32Array, Int32Builder, Int64Array, Int64Builder, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::DataType as ArrowType;
use rubato_base::codec::{decode_value, encode_value};
use rubato_base::{ColumnType, DataType, EnumValue, Error, Numeric, Result, Value};
use std::sync::Arc;

/// Digits that a decimal may have.
pub(crate) const DECIMAL_DIGITS: u8 = 38;

/// The form of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Bool,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    /// `numeric` of this scale.
    Decimal(u8),
    Text,
    /// The value's bytes in a row.
    Packed,
}

/// A column: the type that SQL sees, and its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Column {
    pub(crate) data_type: DataType,
    pub(crate) kind: Kind,
}

impl Column {
    /// A column of a type without a modifier.
    pub(crate) fn plain(data_type: DataType) -> Column {
        Column::of(ColumnType::plain(data_type), false)
    }

    /// A column of a type; with `decimals` a `numeric` of known scale is held as such.
    pub(crate) fn of(column_type: ColumnType, decimals: bool) -> Column {
        let kind = match column_type.data_type {
            DataType::Bool => Kind::Bool,
            DataType::Int2 => Kind::Int16,
            DataType::Int4 | DataType::Date => Kind::Int32,
            DataType::Int8 | DataType::Oid | DataType::Time | DataType::Timestamp | DataType::TimestampTz => {
                Kind::Int64
            }
            // Positions are in order as their labels are.
            DataType::Enum(_) => Kind::Int64,
            DataType::Float4 => Kind::Float32,
            DataType::Float8 => Kind::Float64,
            DataType::Numeric if decimals => decimal_kind(column_type.modifier),
            // Nobody has said what it is: then each value says it.
            DataType::Unknown => Kind::Packed,
            other if other.is_text() => Kind::Text,
            _ => Kind::Packed,
        };
        Column {
            data_type: column_type.data_type,
            kind,
        }
    }

    pub(crate) fn boolean() -> Column {
        Column::plain(DataType::Bool)
    }

    /// `numeric` of this scale.
    pub(crate) fn decimal(scale: u8) -> Column {
        Column {
            data_type: DataType::Numeric,
            kind: Kind::Decimal(scale),
        }
    }
}

fn decimal_kind(modifier: i32) -> Kind {
    match ColumnType::numeric_precision_scale(modifier) {
        Some((precision, scale)) if precision <= u32::from(DECIMAL_DIGITS) => {
            u8::try_from(scale).map_or(Kind::Packed, |scale| match scale <= DECIMAL_DIGITS {
                true => Kind::Decimal(scale),
                false => Kind::Packed,
            })
        }
        _ => Kind::Packed,
    }
}

impl Kind {
    pub(crate) fn arrow_type(self) -> ArrowType {
        match self {
            Kind::Bool => ArrowType::Boolean,
            Kind::Int16 => ArrowType::Int16,
            Kind::Int32 => ArrowType::Int32,
            Kind::Int64 => ArrowType::Int64,
            Kind::Float32 => ArrowType::Float32,
            Kind::Float64 => ArrowType::Float64,
            Kind::Decimal(scale) => ArrowType::Decimal128(DECIMAL_DIGITS, scale as i8),
            Kind::Text => ArrowType::Utf8View,
            Kind::Packed => ArrowType::BinaryView,
        }
    }

    /// Whether values are equal, and stand in order, as arrow has it.
    pub(crate) fn is_ordered(self) -> bool {
        !matches!(self, Kind::Float32 | Kind::Float64 | Kind::Packed)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Kind::Int16 | Kind::Int32 | Kind::Int64)
    }
}

/// A value that a decimal of the column's scale cannot hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inexact;

/// Why a value was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    Inexact,
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Failed(error)
    }
}

/// Puts values of one column together.
#[derive(Debug)]
pub(crate) enum Builder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder, u8),
    Text(StringViewBuilder),
    Packed(BinaryViewBuilder, Vec<u8>),
}

/// Text and bytes of a batch lie in blocks of this size.
const BLOCK_BYTES: u32 = 64 << 10;

impl Builder {
    pub(crate) fn new(kind: Kind, capacity: usize) -> Builder {
        match kind {
            Kind::Bool => Builder::Bool(BooleanBuilder::with_capacity(capacity)),
            Kind::Int16 => Builder::Int16(Int16Builder::with_capacity(capacity)),
            Kind::Int32 => Builder::Int32(Int32Builder::with_capacity(capacity)),
            Kind::Int64 => Builder::Int64(Int64Builder::with_capacity(capacity)),
            Kind::Float32 => Builder::Float32(Float32Builder::with_capacity(capacity)),
            Kind::Float64 => Builder::Float64(Float64Builder::with_capacity(capacity)),
            Kind::Decimal(scale) => {
                let builder = Decimal128Builder::with_capacity(capacity).with_data_type(kind.arrow_type());
                Builder::Decimal(builder, scale)
            }
            Kind::Text => Builder::Text(StringViewBuilder::with_capacity(capacity).with_fixed_block_size(BLOCK_BYTES)),
            Kind::Packed => Builder::Packed(
                BinaryViewBuilder::with_capacity(capacity).with_fixed_block_size(BLOCK_BYTES),
                Vec::new(),
            ),
        }
    }

    pub(crate) fn push_null(&mut self) {
        match self {
            Builder::Bool(builder) => builder.append_null(),
            Builder::Int16(builder) => builder.append_null(),
            Builder::Int32(builder) => builder.append_null(),
            Builder::Int64(builder) => builder.append_null(),
            Builder::Float32(builder) => builder.append_null(),
            Builder::Float64(builder) => builder.append_null(),
            Builder::Decimal(builder, _) => builder.append_null(),
            Builder::Text(builder) => builder.append_null(),
            Builder::Packed(builder, _) => builder.append_null(),
        }
    }

    /// Takes a column of a row in its own bytes, without a value between where the form allows for it.
    pub(crate) fn push_encoded(&mut self, bytes: &[u8]) -> std::result::Result<(), Refused> {
        let Some((tag, payload)) = bytes.split_first() else {
            self.push_null();
            return Ok(());
        };
        match self {
            Builder::Int32(builder) if let Ok(number) = payload.try_into() => {
                builder.append_value(i32::from_le_bytes(number));
            }
            Builder::Int64(builder) if let Ok(number) = payload.try_into() => {
                builder.append_value(i64::from_le_bytes(number));
            }
            Builder::Text(builder) if *tag == DataType::Text.tag() => match std::str::from_utf8(payload) {
                Ok(text) => builder.append_value(text),
                Err(_) => return self.push(&decode_value(bytes)?),
            },
            Builder::Packed(builder, _) => builder.append_value(bytes),
            Builder::Decimal(builder, scale) => match small_decimal(payload, *scale) {
                Some(mantissa) => builder.append_value(mantissa),
                None => return self.push(&decode_value(bytes)?),
            },
            _ => return self.push(&decode_value(bytes)?),
        }
        Ok(())
    }

    pub(crate) fn push(&mut self, value: &Value) -> std::result::Result<(), Refused> {
        if value.is_null() {
            self.push_null();
            return Ok(());
        }
        let whole = || {
            let number = match value {
                Value::Date(days) => Some(i64::from(*days)),
                Value::Time(us) | Value::Timestamp(us) | Value::TimestampTz(us) => Some(*us),
                Value::Enum(value) => Some(value.position),
                other => other.as_i64(),
            };
            number.ok_or_else(|| mismatch(value))
        };
        match self {
            Builder::Bool(builder) => match value {
                Value::Bool(truth) => builder.append_value(*truth),
                other => return Err(mismatch(other).into()),
            },
            Builder::Int16(builder) => builder.append_value(i16::try_from(whole()?).map_err(|_| mismatch(value))?),
            Builder::Int32(builder) => builder.append_value(i32::try_from(whole()?).map_err(|_| mismatch(value))?),
            Builder::Int64(builder) => builder.append_value(whole()?),
            Builder::Float32(builder) => match value {
                Value::Float4(number) => builder.append_value(*number),
                other => return Err(mismatch(other).into()),
            },
            Builder::Float64(builder) => match value {
                Value::Float8(number) => builder.append_value(*number),
                Value::Float4(number) => builder.append_value(f64::from(*number)),
                other => return Err(mismatch(other).into()),
            },
            Builder::Decimal(builder, scale) => match value {
                Value::Numeric(number) => match number.to_wide_parts() {
                    Some((mantissa, own)) if own == u32::from(*scale) => builder.append_value(mantissa),
                    _ => return Err(Refused::Inexact),
                },
                other => return Err(mismatch(other).into()),
            },
            Builder::Text(builder) => match value {
                Value::Text(text) => builder.append_value(text),
                other => return Err(mismatch(other).into()),
            },
            Builder::Packed(builder, scratch) => {
                scratch.clear();
                encode_value(value, scratch);
                builder.append_value(&scratch);
            }
        }
        Ok(())
    }

    /// What was put together; the builder begins anew.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Bool(builder) => Arc::new(builder.finish()),
            Builder::Int16(builder) => Arc::new(builder.finish()),
            Builder::Int32(builder) => Arc::new(builder.finish()),
            Builder::Int64(builder) => Arc::new(builder.finish()),
            Builder::Float32(builder) => Arc::new(builder.finish()),
            Builder::Float64(builder) => Arc::new(builder.finish()),
            Builder::Decimal(builder, _) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::Packed(builder, _) => Arc::new(builder.finish()),
        }
    }
}

/// The mantissa of a numeric in a row, if it is short and of this scale.
pub(crate) fn small_decimal(payload: &[u8], scale: u8) -> Option<i128> {
    let bytes: &[u8; Numeric::ENCODED_LENGTH] = payload.try_into().ok()?;
    let [0, mantissa @ .., low, high] = bytes else {
        return None;
    };
    let mantissa: &[u8; 8] = mantissa;
    (u16::from_le_bytes([*low, *high]) == u16::from(scale)).then(|| i128::from(i64::from_le_bytes(*mantissa)))
}

fn mismatch(value: &Value) -> Error {
    Error::internal(format!("a column was given {}", value.data_type()))
}

/// An array of one column, to read values of.
pub(crate) enum View<'a> {
    Bool(&'a BooleanArray),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array, DataType),
    Int64(&'a Int64Array, DataType),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Decimal(&'a Decimal128Array, u8),
    Text(&'a StringViewArray),
    Packed(&'a BinaryViewArray),
}

impl<'a> View<'a> {
    pub(crate) fn new(array: &'a dyn Array, column: Column) -> Result<View<'a>> {
        let any = array.as_any();
        let view = match column.kind {
            Kind::Bool => any.downcast_ref().map(View::Bool),
            Kind::Int16 => any.downcast_ref().map(View::Int16),
            Kind::Int32 => any.downcast_ref().map(|array| View::Int32(array, column.data_type)),
            Kind::Int64 => any.downcast_ref().map(|array| View::Int64(array, column.data_type)),
            Kind::Float32 => any.downcast_ref().map(View::Float32),
            Kind::Float64 => any.downcast_ref().map(View::Float64),
            Kind::Decimal(scale) => any.downcast_ref().map(|array| View::Decimal(array, scale)),
            Kind::Text => any.downcast_ref().map(View::Text),
            Kind::Packed => any.downcast_ref().map(View::Packed),
        };
        view.ok_or_else(|| Error::internal(format!("an array of {} for a column of {column:?}", array.data_type())))
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            View::Bool(array) => array.is_null(row),
            View::Int16(array) => array.is_null(row),
            View::Int32(array, _) => array.is_null(row),
            View::Int64(array, _) => array.is_null(row),
            View::Float32(array) => array.is_null(row),
            View::Float64(array) => array.is_null(row),
            View::Decimal(array, _) => array.is_null(row),
            View::Text(array) => array.is_null(row),
            View::Packed(array) => array.is_null(row),
        }
    }

    /// The value in one row.
    pub(crate) fn value(&self, row: usize) -> Result<Value> {
        if self.is_null(row) {
            return Ok(Value::Null);
        }
        Ok(match self {
            View::Bool(array) => Value::Bool(array.value(row)),
            View::Int16(array) => Value::Int2(array.value(row)),
            View::Int32(array, DataType::Date) => Value::Date(array.value(row)),
            View::Int32(array, _) => Value::Int4(array.value(row)),
            View::Int64(array, data_type) => match data_type {
                DataType::Time => Value::Time(array.value(row)),
                DataType::Timestamp => Value::Timestamp(array.value(row)),
                DataType::TimestampTz => Value::TimestampTz(array.value(row)),
                DataType::Enum(type_oid) => Value::Enum(EnumValue {
                    type_oid: *type_oid,
                    position: array.value(row),
                }),
                _ => Value::Int8(array.value(row)),
            },
            View::Float32(array) => Value::Float4(array.value(row)),
            View::Float64(array) => Value::Float8(array.value(row)),
            View::Decimal(array, scale) => Value::Numeric(Numeric::from_parts(array.value(row), u32::from(*scale))?),
            View::Text(array) => Value::text(array.value(row)),
            View::Packed(array) => decode_value(array.value(row))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::{Network, Row};

    fn label(type_oid: u32, position: i64) -> Value {
        Value::Enum(EnumValue { type_oid, position })
    }

    fn numeric(text: &str) -> Value {
        Value::Numeric(Numeric::parse(text).unwrap())
    }

    fn samples() -> Vec<(ColumnType, Value)> {
        let plain = ColumnType::plain;
        vec![
            (plain(DataType::Bool), Value::Bool(true)),
            (plain(DataType::Int2), Value::Int2(-3)),
            (plain(DataType::Int4), Value::Int4(7)),
            (plain(DataType::Int8), Value::Int8(i64::MIN)),
            (plain(DataType::Float4), Value::Float4(1.5)),
            (plain(DataType::Float8), Value::Float8(f64::NAN)),
            (ColumnType::numeric(15, 2), numeric("-12345678901234567890.25")),
            (ColumnType::numeric(15, 2), numeric("0.10")),
            (plain(DataType::Numeric), numeric("0.1000")),
            (plain(DataType::Varchar), Value::text("with more than twelve bytes")),
            (plain(DataType::Bytea), Value::bytea(&[0, 255])),
            (plain(DataType::Date), Value::Date(-1)),
            (plain(DataType::Time), Value::Time(5)),
            (plain(DataType::Timestamp), Value::Timestamp(i64::MAX)),
            (plain(DataType::TimestampTz), Value::TimestampTz(9)),
            (plain(DataType::Uuid), Value::Uuid([7; 16])),
            (plain(DataType::Inet), Value::Inet(Network::v4(0x0a01_0203, 9))),
            (plain(DataType::MacAddr), Value::MacAddr([7; 6])),
            (plain(DataType::Enum(16_400)), label(16_400, -5)),
        ]
    }

    #[test]
    fn values_come_back_as_they_went_in_from_values_and_from_rows() {
        for (column_type, value) in samples() {
            let column = Column::of(column_type, true);
            let row = Row::from_values(&[value.clone(), Value::Null]);
            let mut builder = Builder::new(column.kind, 4);
            builder.push(&value).unwrap();
            for place in 0..2 {
                builder.push_encoded(row.as_ref().encoded(place)).unwrap();
            }
            let array = builder.finish();
            assert_eq!(array.data_type(), &column.kind.arrow_type());
            let view = View::new(&array, column).unwrap();
            for place in 0..2 {
                let read = view.value(place).unwrap();
                assert_eq!((read.data_type(), &read), (value.data_type(), &value));
                assert_eq!(format!("{read:?}"), format!("{value:?}"), "the scale too");
            }
            assert_eq!(view.value(2).unwrap(), Value::Null);
        }
    }

    #[test]
    fn a_decimal_takes_no_number_of_another_scale_and_no_nan() {
        for refused in ["NaN", "1.5", "1.500"] {
            let mut builder = Builder::new(Kind::Decimal(2), 1);
            assert!(matches!(builder.push(&numeric(refused)), Err(Refused::Inexact)));
            let row = Row::from_values(&[numeric(refused)]);
            let outcome = builder.push_encoded(row.as_ref().encoded(0));
            assert!(matches!(outcome, Err(Refused::Inexact)), "{refused}");
        }
    }
}
