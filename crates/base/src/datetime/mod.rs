//! Dates, times, timestamps, intervals and time zones, as PostgreSQL counts, reads and writes them.
//!
//! A date is a count of days since 2000-01-01 (`i32`), a timestamp one of microseconds since 2000-01-01 00:00 (`i64`), local or
//! UTC as its type says; the greatest and least values of either stand for `infinity` and `-infinity`. A time of day is a count of
//! microseconds since midnight, up to and including 24:00. No function here reads a clock: where text may say `now`, the caller
//! passes the time.

mod abbreviations;
mod arithmetic;
mod calendar;
mod decode;
mod fields;
mod interval;
mod interval_text;
mod interval_type;
mod parse;
mod show;
mod tokens;
mod zone;

#[cfg(test)]
mod recorded;

pub use arithmetic::{
    add_interval_to_time, add_interval_to_timestamp, add_interval_to_timestamptz, age, date_minus_date, date_plus_days,
    date_to_timestamp, date_to_timestamptz, make_date, make_time, make_timestamp, subtract_interval_from_timestamptz,
    timestamp_minus_timestamp, timestamp_to_date, timestamp_to_time, timestamp_to_timestamptz, timestamptz_to_date,
    timestamptz_to_timestamp,
};
pub use decode::DateOrder;
pub use fields::{
    Field, extract_from_date, extract_from_interval, extract_from_time, extract_from_timestamp,
    extract_from_timestamptz, truncate_interval, truncate_timestamp, truncate_timestamptz,
};
pub use interval::{Interval, IntervalStyle};
pub use interval_type::{fit_interval, interval_digits, interval_fields, interval_modifier, with_interval_units};
pub use parse::{parse_date, parse_interval, parse_time, parse_timestamp, parse_timestamptz};
pub(crate) use show::write_number as write_padded;
pub use show::{write_date, write_interval, write_iso_interval, write_time, write_timestamp, write_timestamptz};
pub use zone::TimeZone;

use crate::{Error, SqlState};

/// Microseconds in a second.
pub const SECOND_US: i64 = 1_000_000;
/// Microseconds in a minute.
pub const MINUTE_US: i64 = 60 * SECOND_US;
/// Microseconds in an hour.
pub const HOUR_US: i64 = 60 * MINUTE_US;
/// Microseconds in a day.
pub const DAY_US: i64 = 24 * HOUR_US;

/// The date `infinity`.
pub const DATE_INFINITY: i32 = i32::MAX;
/// The date `-infinity`.
pub const DATE_NEGATIVE_INFINITY: i32 = i32::MIN;
/// The timestamp `infinity`.
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
/// The timestamp `-infinity`.
pub const TIMESTAMP_NEGATIVE_INFINITY: i64 = i64::MIN;

/// Days from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_DAYS: i64 = 10_957;
/// Seconds from 1970-01-01 to 2000-01-01.
pub(crate) const UNIX_EPOCH_SECONDS: i64 = UNIX_EPOCH_DAYS * 86_400;

/// 4714-11-24 BC: the first day of the Julian count, and the first date.
const DATE_MIN: i64 = -2_451_545;
/// The day after 5874897-12-31, the last date.
const DATE_END: i64 = 2_145_031_949;
/// 4714-11-24 BC 00:00, the first timestamp.
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// 294277-01-01 00:00, just after the last timestamp.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

/// A finite timestamp, if it lies in PostgreSQL's range.
fn check_timestamp(value: i128) -> Option<i64> {
    i64::try_from(value)
        .ok()
        .filter(|value| (TIMESTAMP_MIN..TIMESTAMP_END).contains(value))
}

/// A finite date, if it lies in PostgreSQL's range.
fn check_date(days: i64) -> Option<i32> {
    (DATE_MIN..DATE_END).contains(&days).then_some(days as i32)
}

/// Whether a timestamp is `infinity` or `-infinity`.
pub fn is_infinite(timestamp: i64) -> bool {
    timestamp == TIMESTAMP_INFINITY || timestamp == TIMESTAMP_NEGATIVE_INFINITY
}

/// Whether a date is `infinity` or `-infinity`.
pub fn is_infinite_date(date: i32) -> bool {
    date == DATE_INFINITY || date == DATE_NEGATIVE_INFINITY
}

/// Rounds microseconds to `digits` fractional digits of a second, halves away from zero, as a column `timestamp(digits)` does.
/// 6 digits and more, and a negative count (no modifier), change nothing.
pub fn round_to_digits(microseconds: i64, digits: i32) -> i64 {
    if !(0..6).contains(&digits) || is_infinite(microseconds) {
        return microseconds;
    }
    let unit = 10_i64.pow(6 - digits as u32);
    let rest = microseconds % unit;
    let whole = microseconds - rest;
    if rest.abs() * 2 >= unit {
        whole.saturating_add(unit * rest.signum())
    } else {
        whole
    }
}

/// Whether a number is a timestamp: in PostgreSQL's range, or infinite.
pub fn is_timestamp(timestamp: i64) -> bool {
    is_infinite(timestamp) || check_timestamp(timestamp.into()).is_some()
}

/// Whether a number is a date: in PostgreSQL's range, or infinite.
pub fn is_date(date: i32) -> bool {
    is_infinite_date(date) || check_date(date.into()).is_some()
}
