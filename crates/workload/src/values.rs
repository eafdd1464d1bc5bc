//! Values of the workload's client and of a node in the same process, one as the other.

use crate::client::{Decimal, Param, Rows};
use rubato_base::{DataType, Numeric, Value};

/// Between 1970 and 2000, in microseconds.
const EPOCH_2000_US: i64 = 946_684_800_000_000;

/// Parameters as values of these types.
pub fn values(params: &[Param<'_>], types: &[DataType]) -> Vec<Value> {
    let pairs = params.iter().zip(types);
    pairs.map(|(param, data_type)| value(param, *data_type)).collect()
}

fn value(param: &Param<'_>, data_type: DataType) -> Value {
    match (param, data_type) {
        (Param::Null, _) => Value::Null,
        (Param::Int(number), DataType::Int2) => Value::Int2(*number as i16),
        (Param::Int(number), DataType::Int4) => Value::Int4(*number as i32),
        (Param::Int(number), DataType::Numeric) => Value::Numeric(Numeric::from_i64(*number)),
        (Param::Int(number), _) => Value::Int8(*number),
        (Param::Decimal(decimal), _) => {
            let number = Numeric::from_parts(i128::from(decimal.unscaled), u32::from(decimal.scale));
            number.map_or(Value::Null, Value::Numeric)
        }
        (Param::Text(text), _) => Value::text(text),
        (Param::Timestamp(unix_us), _) => Value::Timestamp(unix_us - EPOCH_2000_US),
    }
}

/// What a statement answered, for the workload: its rows, and how many rows it affected.
pub fn rows(answered: &[Vec<Value>], affected: u64) -> Rows {
    let mut rows = Rows::new(answered.first().map_or(0, Vec::len));
    for cell in answered.iter().flatten() {
        match cell {
            Value::Null => rows.push_null(),
            Value::Numeric(number) => match decimal(number) {
                Some(decimal) => rows.push_decimal(decimal),
                None => rows.push_float(number.to_f64()),
            },
            Value::Float8(number) => rows.push_float(*number),
            Value::Text(text) => rows.push_text(text),
            Value::Timestamp(us) => rows.push_timestamp(us + EPOCH_2000_US),
            other => match other.as_i64() {
                Some(number) => rows.push_int(number),
                None => rows.push_text(&format!("{other:?}")),
            },
        }
    }
    rows.set_affected(affected);
    rows
}

fn decimal(number: &Numeric) -> Option<Decimal> {
    let (unscaled, scale) = number.to_parts()?;
    let scale = scale.try_into().ok()?;
    Some(Decimal { unscaled, scale })
}
