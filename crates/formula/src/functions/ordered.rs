//! What ordered-set aggregates make of the values that they collect, in their order.

use super::argument::{Output, argument, entry};
use super::{FunctionEntry, Implementation};
use rubato_base::{Array, Error, Result, SqlState, Value};
use std::sync::Arc;

/// 22003 for what is no share.
fn share(fraction: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(fraction);
    }
    let message = format!("percentile value {fraction} is not between 0 and 1");
    Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
}

/// The value at a share of the way from the first to the last.
fn continuous(values: &[Value], fraction: f64) -> Result<Value> {
    let fraction = share(fraction)?;
    let Some(last) = values.len().checked_sub(1) else {
        return Ok(Value::Null);
    };
    let place = fraction * last as f64;
    let (low, high) = (&values[place.floor() as usize], &values[place.ceil() as usize]);
    let part = place - place.floor();
    Ok(match (low, high) {
        (Value::Float8(low), Value::Float8(high)) if part > 0.0 => Value::Float8(low + part * (high - low)),
        (Value::Interval(low), Value::Interval(high)) if part > 0.0 => {
            let distance = high.checked_sub(low)?;
            return low.checked_add(&distance.checked_mul(part)?)?.output();
        }
        (low, _) => low.clone(),
    })
}

fn percentile_cont(arguments: &[Value]) -> Result<Value> {
    let values: &Array = argument(arguments, 0)?;
    continuous(&values.items, argument::<f64>(arguments, 1)?)
}

/// What `of_share` finds for each of a list of shares, in a list of the same dimensions.
fn for_each_share(arguments: &[Value], of_share: fn(&[Value], f64) -> Result<Value>) -> Result<Value> {
    let (values, fractions): (&Array, &Array) = (argument(arguments, 0)?, argument(arguments, 1)?);
    if values.items.is_empty() {
        return Ok(Value::Null);
    }
    let found = fractions.items.iter().map(|fraction| match fraction {
        Value::Float8(fraction) => of_share(&values.items, *fraction),
        _ => Ok(Value::Null),
    });
    Ok(Value::Array(Arc::new(
        fractions.with_items(values.element, found.collect::<Result<_>>()?),
    )))
}

fn percentiles_cont(arguments: &[Value]) -> Result<Value> {
    for_each_share(arguments, continuous)
}

/// The place, from 1, of the first value that at least a share of all reaches.
fn discrete_place(values: &[Value], fraction: f64) -> Result<usize> {
    Ok((share(fraction)? * values.len() as f64).ceil().max(1.0) as usize)
}

fn percentile_disc(arguments: &[Value]) -> Result<Value> {
    let values: &Array = argument(arguments, 0)?;
    let place = discrete_place(&values.items, argument::<f64>(arguments, 1)?)?;
    Ok(Value::Int4(i32::try_from(place).unwrap_or(i32::MAX)))
}

fn percentiles_disc(arguments: &[Value]) -> Result<Value> {
    for_each_share(arguments, |values, fraction| {
        let place = discrete_place(values, fraction)?;
        Ok(values.get(place - 1).cloned().unwrap_or(Value::Null))
    })
}

/// The place of the first of the most frequent values, which come in order: equal ones stand together, also where they are written
/// differently (`1.0` and `1.00`).
fn mode(arguments: &[Value]) -> Result<Value> {
    let values: &Array = argument(arguments, 0)?;
    let (mut most, mut place, mut begin) = (0, None, 0);
    for (end, value) in values.items.iter().enumerate() {
        if values.items[begin].compare(value) != Some(std::cmp::Ordering::Equal) {
            begin = end;
        }
        if end + 1 - begin > most {
            (most, place) = (end + 1 - begin, Some(begin));
        }
    }
    Ok(place.map_or(Value::Null, |place| {
        Value::Int4(i32::try_from(place + 1).unwrap_or(i32::MAX))
    }))
}

pub(super) static ORDERED: &[FunctionEntry] = &[
    entry!("percentile_cont_of" (Float8Array, Float8) -> Float8, Implementation::Many(percentile_cont)),
    entry!("percentile_cont_of" (IntervalArray, Float8) -> Interval, Implementation::Many(percentile_cont)),
    entry!("percentile_cont_of" (Float8Array, Float8Array) -> Float8Array, Implementation::Many(percentiles_cont)),
    entry!("percentile_cont_of" (IntervalArray, Float8Array) -> IntervalArray, Implementation::Many(percentiles_cont)),
    entry!("percentile_disc_place" (SameArray, Float8) -> Int4, Implementation::Many(percentile_disc)),
    entry!("percentile_disc_of" (SameArray, Float8Array) -> SameArray, Implementation::Many(percentiles_disc)),
    entry!("mode_place" (SameArray) -> Int4, Implementation::Many(mode)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::DataType;

    #[test]
    fn places_are_those_of_postgresql() {
        let values = |numbers: &[i32]| {
            let items = numbers.iter().map(|number| Value::Int4(*number)).collect();
            Value::Array(Arc::new(Array::new(DataType::Int4, items)))
        };
        let disc = |fraction| percentile_disc(&[values(&[5, 10, 20]), Value::Float8(fraction)]);
        assert_eq!(disc(0.0).unwrap(), Value::Int4(1));
        assert_eq!(disc(0.34).unwrap(), Value::Int4(2));
        assert_eq!(disc(1.0).unwrap(), Value::Int4(3));
        assert!(disc(1.5).is_err());
        assert_eq!(mode(&[values(&[1, 2, 2, 3, 3])]).unwrap(), Value::Int4(2));
        assert_eq!(mode(&[values(&[])]).unwrap(), Value::Null);
        let numbers = ["0", "1.0", "1.00"].map(|text| Value::Numeric(rubato_base::Numeric::parse(text).unwrap()));
        let numbers = Value::Array(Arc::new(Array::new(DataType::Numeric, numbers.to_vec())));
        assert_eq!(mode(&[numbers]).unwrap(), Value::Int4(2));
    }
}
