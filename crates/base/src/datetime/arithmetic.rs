//! Sums, differences and conversions of dates, times and timestamps.

use super::calendar::{Parts, days_of, month_length};
use super::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY_US, HOUR_US, Interval, MINUTE_US, TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY, TimeZone, check_date, check_timestamp, is_infinite, is_infinite_date, out_of_range,
};
use crate::{Error, Result, SqlState};

fn timestamp_range(value: i128) -> Result<i64> {
    check_timestamp(value).ok_or_else(|| out_of_range("timestamp"))
}

/// A date so many days later. 22008 beyond the range.
pub fn date_plus_days(date: i32, days: i64) -> Result<i32> {
    if is_infinite_date(date) {
        return Ok(date);
    }
    i64::from(date)
        .checked_add(days)
        .and_then(check_date)
        .ok_or_else(|| out_of_range("date"))
}

/// Days from the second date to the first. 22008 if one is infinite.
pub fn date_minus_date(date: i32, other: i32) -> Result<i32> {
    if is_infinite_date(date) || is_infinite_date(other) {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite dates",
        ));
    }
    // Both lie in the range of dates, whose width fits.
    Ok(date.wrapping_sub(other))
}

fn date_range_error() -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
}

/// Midnight of a date. 22008 if timestamps do not reach so far.
pub fn date_to_timestamp(date: i32) -> Result<i64> {
    match date {
        DATE_INFINITY => Ok(TIMESTAMP_INFINITY),
        DATE_NEGATIVE_INFINITY => Ok(TIMESTAMP_NEGATIVE_INFINITY),
        _ => check_timestamp(i128::from(date) * i128::from(DAY_US)).ok_or_else(date_range_error),
    }
}

/// Midnight of a date in a zone. 22008 if timestamps do not reach so far.
pub fn date_to_timestamptz(date: i32, zone: &TimeZone) -> Result<i64> {
    timestamp_to_timestamptz(date_to_timestamp(date)?, zone).map_err(|_| date_range_error())
}

/// The date of a timestamp.
pub fn timestamp_to_date(timestamp: i64) -> i32 {
    match timestamp {
        TIMESTAMP_INFINITY => DATE_INFINITY,
        TIMESTAMP_NEGATIVE_INFINITY => DATE_NEGATIVE_INFINITY,
        // The days of every timestamp fit.
        _ => timestamp.div_euclid(DAY_US) as i32,
    }
}

/// The time of day of a timestamp, `None` (NULL) for an infinity.
pub fn timestamp_to_time(timestamp: i64) -> Option<i64> {
    (!is_infinite(timestamp)).then(|| timestamp.rem_euclid(DAY_US))
}

/// The instant at which the clocks of a zone show a timestamp. 22008 beyond the range.
pub fn timestamp_to_timestamptz(timestamp: i64, zone: &TimeZone) -> Result<i64> {
    if is_infinite(timestamp) {
        Ok(timestamp)
    } else {
        timestamp_range(zone.utc_of(timestamp.into()))
    }
}

/// What the clocks of a zone show at an instant. 22008 beyond the range.
pub fn timestamptz_to_timestamp(timestamp: i64, zone: &TimeZone) -> Result<i64> {
    if is_infinite(timestamp) {
        Ok(timestamp)
    } else {
        timestamp_range(zone.local_of(timestamp))
    }
}

/// The date in a zone at an instant. 22008 beyond the range.
pub fn timestamptz_to_date(timestamp: i64, zone: &TimeZone) -> Result<i32> {
    Ok(timestamp_to_date(timestamptz_to_timestamp(timestamp, zone)?))
}

/// A timestamp so much later: first the months, cut to the length of the month, then the days, then the time. 22008 beyond the
/// range.
pub fn add_interval_to_timestamp(timestamp: i64, interval: &Interval) -> Result<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    let moved = timestamp_range(add_months_and_days(timestamp.into(), interval))?;
    timestamp_range(i128::from(moved) + i128::from(interval.microseconds))
}

/// As [`add_interval_to_timestamp`], where months and days are counted on the clocks of a zone.
pub fn add_interval_to_timestamptz(timestamp: i64, interval: &Interval, zone: &TimeZone) -> Result<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    let moved = if interval.months == 0 && interval.days == 0 {
        timestamp
    } else {
        timestamp_range(zone.utc_of(add_months_and_days(zone.local_of(timestamp), interval)))?
    };
    timestamp_range(i128::from(moved) + i128::from(interval.microseconds))
}

/// As [`add_interval_to_timestamptz`] with the opposite interval.
pub fn subtract_interval_from_timestamptz(timestamp: i64, interval: &Interval, zone: &TimeZone) -> Result<i64> {
    add_interval_to_timestamptz(timestamp, &interval.checked_neg()?, zone)
}

fn add_months_and_days(local: i128, interval: &Interval) -> i128 {
    let shifted = if interval.months == 0 {
        local
    } else {
        // A local time is at most a day off the range of timestamps, which an i64 still holds.
        let mut parts = Parts::of(local.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        let months = parts.year * 12 + parts.month - 1 + i64::from(interval.months);
        parts.year = months.div_euclid(12);
        parts.month = months.rem_euclid(12) + 1;
        parts.day = parts.day.min(month_length(parts.year, parts.month));
        parts.timestamp()
    };
    shifted + i128::from(interval.days) * i128::from(DAY_US)
}

/// A time of day so much later, around the clock; months and days do not count.
pub fn add_interval_to_time(time: i64, interval: &Interval) -> i64 {
    (time + interval.microseconds % DAY_US).rem_euclid(DAY_US)
}

/// The time from the second timestamp to the first, in days and a rest. 22008 if one is infinite.
pub fn timestamp_minus_timestamp(timestamp: i64, other: i64) -> Result<Interval> {
    if is_infinite(timestamp) || is_infinite(other) {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite timestamps",
        ));
    }
    let difference = timestamp.checked_sub(other).ok_or_else(|| out_of_range("interval"))?;
    Interval {
        months: 0,
        days: 0,
        microseconds: difference,
    }
    .justify_hours()
}

/// The time from the second local timestamp to the first, in years, months, days and a rest. 22008 if one is infinite.
pub fn age(timestamp: i64, other: i64) -> Result<Interval> {
    if is_infinite(timestamp) || is_infinite(other) {
        return Err(out_of_range("timestamp"));
    }
    let (late, early, sign) = if timestamp < other {
        (Parts::of(other), Parts::of(timestamp), -1)
    } else {
        (Parts::of(timestamp), Parts::of(other), 1)
    };
    let mut time = late.time() - early.time();
    let mut days = late.day - early.day;
    let mut months = (late.year - early.year) * 12 + late.month - early.month;
    if time < 0 {
        time += DAY_US;
        days -= 1;
    }
    while days < 0 {
        // The month that is broken up is the earlier one's.
        days += month_length(early.year, early.month);
        months -= 1;
    }
    Ok(Interval {
        months: (months * sign) as i32,
        days: (days * sign) as i32,
        microseconds: time * sign,
    })
}

/// The date of a year (negative for BC), month and day. 22008 if there is none such.
pub fn make_date(year: i32, month: i32, day: i32) -> Result<i32> {
    let astronomical = if year < 0 { i64::from(year) + 1 } else { i64::from(year) };
    let exists = year != 0
        && (1..=12).contains(&month)
        && day >= 1
        && i64::from(day) <= month_length(astronomical, month.into());
    if !exists {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date field value out of range: {year}-{month:02}-{day:02}"),
        ));
    }
    check_date(days_of(astronomical, month.into(), day.into())).ok_or_else(|| {
        Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date out of range: {year}-{month:02}-{day:02}"),
        )
    })
}

/// The time of day of an hour, minute and second. 22008 if there is none such.
pub fn make_time(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let microseconds = (second * 1e6).round_ties_even();
    let fits = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60e6).contains(&microseconds);
    let time = i64::from(hour) * HOUR_US + i64::from(minute) * MINUTE_US + microseconds as i64;
    if !fits || time > DAY_US {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("time field value out of range: {hour}:{minute:02}:{second:02}"),
        ));
    }
    Ok(time)
}

/// The timestamp of a year (negative for BC), month, day, hour, minute and second. 22008 if there is none such.
pub fn make_timestamp(year: i32, month: i32, day: i32, hour: i32, minute: i32, second: f64) -> Result<i64> {
    let date = make_date(year, month, day)?;
    let time = make_time(hour, minute, second)?;
    timestamp_range(i128::from(date) * i128::from(DAY_US) + i128::from(time))
}
