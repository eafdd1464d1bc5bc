//! Reading dates, times and timestamps from text.

use super::calendar::days_of;
use super::decode::{DateOrder, Decoded, Fault, Special, Zone, decode, decode_time};
use super::interval::INTERVAL_FIELD_OVERFLOW;
use super::interval_text::decode_interval;
use super::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY_US, Interval, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, TimeZone,
    UNIX_EPOCH_DAYS, check_date, check_timestamp,
};
use crate::{Error, Result, SqlState};

/// The error for a text that a type does not read.
fn fault_error(fault: Fault, type_name: &str, text: &str) -> Error {
    let field = || {
        Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        )
    };
    match fault {
        Fault::Syntax => Error::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        ),
        Fault::Field => field(),
        Fault::MonthOrDay => field().with_hint("Perhaps you need a different \"datestyle\" setting."),
        Fault::Displacement => Error::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            format!("time zone displacement out of range: \"{text}\""),
        ),
        Fault::Interval => Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range"),
        Fault::UnknownZone(name) => Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        ),
    }
}

fn range_error(what: &str, text: &str) -> Error {
    Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("{what} out of range: \"{text}\""),
    )
}

/// Reads a `date`; the time of day and the zone of a longer text are ignored. `now_us` (microseconds since 2000-01-01 UTC) is what
/// `now` and `today` stand for, seen from `zone`. 22007 for other text, 22008 beyond the range.
pub fn parse_date(text: &str, order: DateOrder, zone: &TimeZone, now_us: i64) -> Result<i32> {
    let decoded = decode(text, order).map_err(|fault| fault_error(fault, "date", text))?;
    let today = || zone.local_of(now_us).div_euclid(i128::from(DAY_US)) as i64;
    let days = match decoded.special {
        Some(Special::Infinity) => return Ok(DATE_INFINITY),
        Some(Special::NegativeInfinity) => return Ok(DATE_NEGATIVE_INFINITY),
        Some(Special::Epoch) => -UNIX_EPOCH_DAYS,
        Some(Special::Now) => today(),
        Some(Special::Day(days)) => today() + days,
        None => {
            let (year, month, day) = decoded.date.ok_or_else(|| fault_error(Fault::Syntax, "date", text))?;
            days_of(year, month, day)
        }
    };
    check_date(days).ok_or_else(|| range_error("date", text))
}

/// Reads a `time`: microseconds since midnight. 22007 for other text, 22008 beyond the range.
pub fn parse_time(text: &str, order: DateOrder, zone: &TimeZone, now_us: i64) -> Result<i64> {
    let decoded = decode_time(text, order).map_err(|fault| fault_error(fault, "time", text))?;
    let now = zone.local_of(now_us).rem_euclid(i128::from(DAY_US)) as i64;
    let syntax = || fault_error(Fault::Syntax, "time", text);
    match decoded.special {
        Some(Special::Now) => Ok(now),
        Some(_) => Err(syntax()),
        // A zone that is more than an offset needs the date to have a meaning.
        None if matches!(&decoded.zone, Some(Zone::Named(zone)) if zone.needs_date()) && decoded.date.is_none() => {
            Err(syntax())
        }
        None => decoded.time.ok_or_else(syntax),
    }
}

/// Reads a `timestamp`; a zone in the text is ignored. Otherwise as [`parse_date`].
pub fn parse_timestamp(text: &str, order: DateOrder, zone: &TimeZone, now_us: i64) -> Result<i64> {
    let decoded = decode(text, order).map_err(|fault| fault_error(fault, "timestamp", text))?;
    match local_timestamp(&decoded, zone, now_us) {
        Ok(Some(local)) => check_timestamp(local).ok_or_else(|| range_error("timestamp", text)),
        Ok(None) => Err(fault_error(Fault::Syntax, "timestamp", text)),
        Err(infinite) => Ok(infinite),
    }
}

/// Reads a `timestamptz`; without a zone in the text, the time is one of `zone`. Otherwise as [`parse_date`].
pub fn parse_timestamptz(text: &str, order: DateOrder, zone: &TimeZone, now_us: i64) -> Result<i64> {
    let type_name = "timestamp with time zone";
    let decoded = decode(text, order).map_err(|fault| fault_error(fault, type_name, text))?;
    match decoded.special {
        Some(Special::Now) => return Ok(now_us),
        Some(Special::Epoch) => return Ok(-UNIX_EPOCH_DAYS * DAY_US),
        _ => {}
    }
    let timestamp = match local_timestamp(&decoded, zone, now_us) {
        Ok(Some(local)) => match &decoded.zone {
            Some(Zone::Offset(east_s)) => local - i128::from(*east_s) * i128::from(super::SECOND_US),
            Some(Zone::Named(named)) => named.utc_of(local),
            None => zone.utc_of(local),
        },
        Ok(None) => return Err(fault_error(Fault::Syntax, type_name, text)),
        Err(infinite) => return Ok(infinite),
    };
    check_timestamp(timestamp).ok_or_else(|| range_error("timestamp", text))
}

/// The local time, `None` if the text has no date; an infinity comes back as the error.
fn local_timestamp(decoded: &Decoded, zone: &TimeZone, now_us: i64) -> std::result::Result<Option<i128>, i64> {
    let day = i128::from(DAY_US);
    let time = i128::from(decoded.time.unwrap_or(0));
    match decoded.special {
        Some(Special::Infinity) => Err(TIMESTAMP_INFINITY),
        Some(Special::NegativeInfinity) => Err(TIMESTAMP_NEGATIVE_INFINITY),
        Some(Special::Epoch) => Ok(Some(-i128::from(UNIX_EPOCH_DAYS) * day)),
        Some(Special::Now) => Ok(Some(zone.local_of(now_us))),
        Some(Special::Day(days)) => Ok(Some(
            (zone.local_of(now_us).div_euclid(day) + i128::from(days)) * day + time,
        )),
        None => Ok(decoded
            .date
            .map(|(year, month, day_of_month)| i128::from(days_of(year, month, day_of_month)) * day + time)),
    }
}

/// Reads an `interval`: PostgreSQL's words, the SQL standard's `1-2` and `1 2:03:04`, ISO 8601's `P1Y2M`. 22007 for other text,
/// 22015 beyond the range.
pub fn parse_interval(text: &str) -> Result<Interval> {
    decode_interval(text).map_err(|fault| match fault {
        Fault::Field => Error::new(
            INTERVAL_FIELD_OVERFLOW,
            format!("interval field value out of range: \"{text}\""),
        ),
        other => fault_error(other, "interval", text),
    })
}
