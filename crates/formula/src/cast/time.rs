//! Conversions between dates, times and intervals. `None` where there is no conversion.

use rubato_base::datetime::{self, DAY_US, Interval, TimeZone};
use rubato_base::{ColumnType, DataType, Result, Value};

pub(super) fn to_time(value: &Value, to: ColumnType, zone: &TimeZone) -> Result<Option<Value>> {
    let digits = to.modifier;
    Ok(match to.data_type {
        DataType::Date => to_date(value, zone)?,
        DataType::Time => time_of_day(value, zone)?.map(|time| Value::Time(datetime::round_to_digits(time, digits))),
        DataType::Timestamp => {
            local_time(value, zone)?.map(|time| Value::Timestamp(datetime::round_to_digits(time, digits)))
        }
        DataType::TimestampTz => {
            instant(value, zone)?.map(|time| Value::TimestampTz(datetime::round_to_digits(time, digits)))
        }
        DataType::Interval => match value {
            Value::Time(time) => Some(Value::Interval(Interval {
                months: 0,
                days: 0,
                microseconds: *time,
            })),
            Value::Interval(interval) => Some(Value::Interval(*interval)),
            _ => None,
        }
        .map(|interval| match interval {
            Value::Interval(interval) => Value::Interval(datetime::fit_interval(interval, to.modifier)),
            other => other,
        }),
        _ => None,
    }
    .or_else(|| is_infinite_time(value, to.data_type).then_some(Value::Null)))
}

/// An infinite timestamp has no time of day: PostgreSQL makes it NULL.
fn is_infinite_time(value: &Value, to: DataType) -> bool {
    let infinite = matches!(value, Value::Timestamp(time) | Value::TimestampTz(time) if datetime::is_infinite(*time));
    infinite && to == DataType::Time
}

fn to_date(value: &Value, zone: &TimeZone) -> Result<Option<Value>> {
    Ok(Some(Value::Date(match value {
        Value::Date(date) => *date,
        Value::Timestamp(time) => datetime::timestamp_to_date(*time),
        Value::TimestampTz(time) => datetime::timestamptz_to_date(*time, zone)?,
        _ => return Ok(None),
    })))
}

fn time_of_day(value: &Value, zone: &TimeZone) -> Result<Option<i64>> {
    Ok(match value {
        Value::Time(time) => Some(*time),
        Value::Timestamp(time) => datetime::timestamp_to_time(*time),
        Value::TimestampTz(time) => datetime::timestamp_to_time(datetime::timestamptz_to_timestamp(*time, zone)?),
        Value::Interval(interval) => Some(interval.microseconds.rem_euclid(DAY_US)),
        _ => None,
    })
}

fn local_time(value: &Value, zone: &TimeZone) -> Result<Option<i64>> {
    Ok(Some(match value {
        Value::Timestamp(time) => *time,
        Value::Date(date) => datetime::date_to_timestamp(*date)?,
        Value::TimestampTz(time) => datetime::timestamptz_to_timestamp(*time, zone)?,
        _ => return Ok(None),
    }))
}

fn instant(value: &Value, zone: &TimeZone) -> Result<Option<i64>> {
    Ok(Some(match value {
        Value::TimestampTz(time) => *time,
        Value::Date(date) => datetime::date_to_timestamptz(*date, zone)?,
        Value::Timestamp(time) => datetime::timestamp_to_timestamptz(*time, zone)?,
        _ => return Ok(None),
    }))
}
