//! Conversions to numbers. `None` where there is no conversion.

use rubato_base::{ColumnType, Error, Numeric, Result, SqlState, Value};

pub(crate) fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"))
}

pub(super) fn to_i16(value: &Value) -> Result<Option<i16>> {
    let wide = wide_integer(value, "smallint", -32_768.0, 32_768.0)?;
    wide.map(|wide| i16::try_from(wide).map_err(|_| out_of_range("smallint")))
        .transpose()
}

pub(super) fn to_i32(value: &Value) -> Result<Option<i32>> {
    if let Value::Bool(truth) = value {
        return Ok(Some(i32::from(*truth)));
    }
    let wide = wide_integer(value, "integer", -2_147_483_648.0, 2_147_483_648.0)?;
    wide.map(|wide| i32::try_from(wide).map_err(|_| out_of_range("integer")))
        .transpose()
}

pub(super) fn to_i64(value: &Value) -> Result<Option<i64>> {
    wide_integer(
        value,
        "bigint",
        -9_223_372_036_854_775_808.0,
        9_223_372_036_854_775_808.0,
    )
}

pub(super) fn to_oid(value: &Value) -> Result<Option<Value>> {
    let Some(number) = value.as_i64() else { return Ok(None) };
    // As PostgreSQL does, a negative int4 stands for the object id with the same bits.
    let number = if let Value::Int4(signed) = value {
        i64::from(*signed as u32)
    } else {
        number
    };
    match u32::try_from(number) {
        Ok(oid) => Ok(Some(Value::Int8(i64::from(oid)))),
        Err(_) => Err(out_of_range("OID")),
    }
}

/// The nearest whole number (floats: halves to even; numeric: halves away from zero). The bounds are those of the target type:
/// the lowest value, and the first one above the highest.
fn wide_integer(value: &Value, name: &str, lowest: f64, above: f64) -> Result<Option<i64>> {
    let from_float = |number: f64| {
        let rounded = number.round_ties_even();
        if rounded >= lowest && rounded < above {
            Ok(Some(rounded as i64))
        } else {
            Err(out_of_range(name))
        }
    };
    match value {
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => Ok(value.as_i64()),
        Value::Float4(number) => from_float(f64::from(*number)),
        Value::Float8(number) => from_float(*number),
        Value::Numeric(number) => {
            if number.is_nan() || !number.is_finite() {
                let what = if number.is_nan() { "NaN" } else { "infinity" };
                let message = format!("cannot convert {what} to {name}");
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            number.to_i64().map(Some).map_err(|_| out_of_range(name))
        }
        _ => Ok(None),
    }
}

pub(super) fn to_f32(value: &Value) -> Result<Option<f32>> {
    let number = match value {
        Value::Float4(number) => return Ok(Some(*number)),
        Value::Float8(number) => *number,
        // From the digits themselves: by way of f64 some numbers would be rounded twice.
        Value::Numeric(number) if number.is_finite() => return real_of(number).map(Some),
        Value::Numeric(number) => number.to_f64(),
        _ => return Ok(value.as_i64().map(|number| number as f32)),
    };
    let narrow = number as f32;
    if narrow.is_infinite() && number.is_finite() {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range: overflow",
        ));
    }
    if narrow == 0.0 && number != 0.0 {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range: underflow",
        ));
    }
    Ok(Some(narrow))
}

fn real_of(number: &Numeric) -> Result<f32> {
    let digits = number.to_string();
    match digits.parse::<f32>() {
        Ok(real) if real.is_finite() && (real != 0.0 || number.is_zero()) => Ok(real),
        _ => Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{digits}\" is out of range for type real"),
        )),
    }
}

pub(super) fn to_f64(value: &Value) -> Result<Option<f64>> {
    Ok(match value {
        Value::Float4(number) => Some(f64::from(*number)),
        Value::Float8(number) => Some(*number),
        Value::Numeric(number) => {
            let wide = number.to_f64();
            if (wide.is_infinite() && number.is_finite()) || (wide == 0.0 && !number.is_zero()) {
                return Err(Error::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("\"{number}\" is out of range for type double precision"),
                ));
            }
            Some(wide)
        }
        _ => value.as_i64().map(|number| number as f64),
    })
}

pub(super) fn to_numeric(value: &Value, modifier: i32) -> Result<Option<Numeric>> {
    let number = match value {
        Value::Numeric(number) => number.clone(),
        Value::Float4(number) => Numeric::from_f32(*number),
        Value::Float8(number) => Numeric::from_f64(*number),
        _ => match value.as_i64() {
            Some(number) => Numeric::from_i64(number),
            None => return Ok(None),
        },
    };
    match ColumnType::numeric_precision_scale(modifier) {
        Some((precision, scale)) => number.with_modifier(precision, scale).map(Some),
        None => Ok(Some(number)),
    }
}
