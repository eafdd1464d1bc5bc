//! Dates, times and intervals: arithmetic, fields, truncation, time zones.

use super::FunctionEntry;
use super::argument::{Day, Instant, LocalTime, TimeOfDay, entry, typed};
use rubato_base::datetime::{self, DAY_US, Field, Interval, TimeZone};
use rubato_base::{DataType, Error, Numeric, Result, SqlState};

/// Seconds from 1970-01-01 to 2000-01-01.
const UNIX_EPOCH_S: f64 = 946_684_800.0;

fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn date_minus_days(date: Day, days: i32) -> Result<Day> {
    datetime::date_plus_days(date.0, -i64::from(days)).map(Day)
}

fn date_plus_time(date: Day, time: TimeOfDay) -> Result<LocalTime> {
    let midnight = datetime::date_to_timestamp(date.0)?;
    if datetime::is_infinite(midnight) {
        return Ok(LocalTime(midnight));
    }
    midnight
        .checked_add(time.0)
        .map(LocalTime)
        .ok_or_else(|| out_of_range("timestamp"))
}

fn shift(time: i64, interval: &Interval) -> Result<LocalTime> {
    datetime::add_interval_to_timestamp(time, interval).map(LocalTime)
}

fn shift_date(date: Day, interval: &Interval) -> Result<LocalTime> {
    shift(datetime::date_to_timestamp(date.0)?, interval)
}

fn shift_back(time: i64, interval: &Interval) -> Result<LocalTime> {
    shift(time, &interval.checked_neg()?)
}

fn only_microseconds(microseconds: i64) -> Interval {
    Interval {
        months: 0,
        days: 0,
        microseconds,
    }
}

/// The begin of the interval of this length that a time lies in, counted from `origin`.
fn date_bin(stride: &Interval, time: i64, origin: i64) -> Result<i64> {
    if datetime::is_infinite(time) {
        return Ok(time);
    }
    if datetime::is_infinite(origin) {
        return Err(out_of_range("origin"));
    }
    if stride.months != 0 {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let days = i64::from(stride.days).checked_mul(DAY_US);
    let length = days.and_then(|days| days.checked_add(stride.microseconds));
    let length = length.ok_or_else(|| out_of_range("interval"))?;
    if length <= 0 {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "stride must be greater than zero",
        ));
    }
    let distance = time.checked_sub(origin).ok_or_else(|| out_of_range("interval"))?;
    let bin = distance.div_euclid(length).checked_mul(length);
    bin.and_then(|bin| origin.checked_add(bin))
        .filter(|time| datetime::is_timestamp(*time))
        .ok_or_else(|| out_of_range("timestamp"))
}

fn float(number: Option<Numeric>) -> Option<f64> {
    number.map(|number| number.to_f64())
}

fn zone_named(name: &str) -> Result<TimeZone> {
    TimeZone::from_words(name).ok_or_else(|| {
        Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        )
    })
}

/// The zone of `make_timestamptz`, where a number needs a sign and counts east. 22023 for a number without one and for unknown names.
fn zone_of_parts(name: &str) -> Result<TimeZone> {
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        let error = Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
        return Err(error.with_hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    TimeZone::from_offset(name).map_or_else(|| zone_named(name), Ok)
}

/// The zone at a fixed distance east of Greenwich.
fn zone_at(interval: &Interval) -> Result<TimeZone> {
    if interval.months != 0 || interval.days != 0 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "interval time zone must not include months or days",
        ));
    }
    TimeZone::fixed(i32::try_from(interval.microseconds / datetime::SECOND_US).unwrap_or(i32::MAX))
}

fn to_local(instant: Instant, zone: &TimeZone) -> Result<LocalTime> {
    datetime::timestamptz_to_timestamp(instant.0, zone).map(LocalTime)
}

fn to_instant(local: LocalTime, zone: &TimeZone) -> Result<Instant> {
    datetime::timestamp_to_timestamptz(local.0, zone).map(Instant)
}

fn from_unix(seconds: f64) -> Result<Instant> {
    if seconds.is_infinite() {
        let infinite = if seconds > 0.0 {
            datetime::TIMESTAMP_INFINITY
        } else {
            datetime::TIMESTAMP_NEGATIVE_INFINITY
        };
        return Ok(Instant(infinite));
    }
    let microseconds = ((seconds - UNIX_EPOCH_S) * 1e6).round_ties_even();
    // Within PostgreSQL's range of timestamps; NaN is outside of every range.
    if !(-211_813_488_000_000_000.0..9_223_371_331_200_000_000.0).contains(&microseconds) {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{seconds}\""),
        ));
    }
    Ok(Instant(microseconds as i64))
}

/// Seconds that are out of range all the same, but small enough to be counted in microseconds first.
fn countable(seconds: f64) -> f64 {
    seconds.clamp(-1e9, 1e9)
}

fn make_interval(parts: [i32; 6], seconds: f64) -> Result<Interval> {
    let [years, months, weeks, days, hours, minutes] = parts;
    let whole = || {
        Some(Interval {
            months: years.checked_mul(12)?.checked_add(months)?,
            days: weeks.checked_mul(7)?.checked_add(days)?,
            microseconds: i64::from(hours)
                .checked_mul(datetime::HOUR_US)?
                .checked_add(i64::from(minutes) * datetime::MINUTE_US)?,
        })
    };
    let mut interval = whole().ok_or_else(|| out_of_range("interval"))?;
    let fraction = (seconds * 1e6).round_ties_even();
    if fraction.is_nan() || fraction.abs() >= 9e18 {
        return Err(out_of_range("interval"));
    }
    interval.microseconds = interval
        .microseconds
        .checked_add(fraction as i64)
        .ok_or_else(|| out_of_range("interval"))?;
    Ok(interval)
}

fn midnight_today(context: &crate::EvalContext<'_>) -> Result<i64> {
    let today = datetime::timestamptz_to_date(context.transaction_time_us(), context.time_zone())?;
    datetime::date_to_timestamp(today)
}

/// Days and hours carried upwards, and all parts given one sign.
fn justify(interval: &Interval) -> Result<Interval> {
    let whole_days = interval.microseconds / DAY_US;
    let mut microseconds = interval.microseconds % DAY_US;
    let mut days = i64::from(interval.days) + whole_days;
    let mut months = i64::from(interval.months) + days / 30;
    days %= 30;
    if months > 0 && (days < 0 || (days == 0 && microseconds < 0)) {
        days += 30;
        months -= 1;
    } else if months < 0 && (days > 0 || (days == 0 && microseconds > 0)) {
        days -= 30;
        months += 1;
    }
    if days > 0 && microseconds < 0 {
        microseconds += DAY_US;
        days -= 1;
    } else if days < 0 && microseconds > 0 {
        microseconds -= DAY_US;
        days += 1;
    }
    let months = i32::try_from(months).map_err(|_| out_of_range("interval"))?;
    Ok(Interval {
        months,
        days: days as i32,
        microseconds,
    })
}

pub(super) static DATETIME: &[FunctionEntry] = &[
    entry!("+" (Date, Int4) -> Date, typed!(|a: Day, b: i32| datetime::date_plus_days(a.0, b.into()).map(Day))),
    entry!("+" (Int4, Date) -> Date, typed!(|a: i32, b: Day| datetime::date_plus_days(b.0, a.into()).map(Day))),
    entry!("-" (Date, Int4) -> Date, typed!(|a: Day, b: i32| date_minus_days(a, b))),
    entry!("-" (Date, Date) -> Int4, typed!(|a: Day, b: Day| datetime::date_minus_date(a.0, b.0))),
    entry!("+" (Date, Interval) -> Timestamp, typed!(|a: Day, b: Interval| shift_date(a, &b))),
    entry!("+" (Interval, Date) -> Timestamp, typed!(|a: Interval, b: Day| shift_date(b, &a))),
    entry!("-" (Date, Interval) -> Timestamp, typed!(|a: Day, b: Interval| shift_date(a, &b.checked_neg()?))),
    entry!("+" (Date, Time) -> Timestamp, typed!(|a: Day, b: TimeOfDay| date_plus_time(a, b))),
    entry!("+" (Time, Date) -> Timestamp, typed!(|a: TimeOfDay, b: Day| date_plus_time(b, a))),
    entry!("+" (Timestamp, Interval) -> Timestamp, typed!(|a: LocalTime, b: Interval| shift(a.0, &b))),
    entry!("+" (Interval, Timestamp) -> Timestamp, typed!(|a: Interval, b: LocalTime| shift(b.0, &a))),
    entry!("-" (Timestamp, Interval) -> Timestamp, typed!(|a: LocalTime, b: Interval| shift_back(a.0, &b))),
    entry!("-" (Timestamp, Timestamp) -> Interval, typed!(|a: LocalTime, b: LocalTime| {
        datetime::timestamp_minus_timestamp(a.0, b.0)
    })),
    entry!("+" (TimestampTz, Interval) -> TimestampTz, typed!(with c |a: Instant, b: Interval| {
        datetime::add_interval_to_timestamptz(a.0, &b, c.time_zone()).map(Instant)
    }))
    .stable(),
    entry!("+" (Interval, TimestampTz) -> TimestampTz, typed!(with c |a: Interval, b: Instant| {
        datetime::add_interval_to_timestamptz(b.0, &a, c.time_zone()).map(Instant)
    }))
    .stable(),
    entry!("-" (TimestampTz, Interval) -> TimestampTz, typed!(with c |a: Instant, b: Interval| {
        datetime::subtract_interval_from_timestamptz(a.0, &b, c.time_zone()).map(Instant)
    }))
    .stable(),
    entry!("-" (TimestampTz, TimestampTz) -> Interval, typed!(|a: Instant, b: Instant| {
        datetime::timestamp_minus_timestamp(a.0, b.0)
    })),
    entry!("+" (Time, Interval) -> Time, typed!(|a: TimeOfDay, b: Interval| {
        TimeOfDay(datetime::add_interval_to_time(a.0, &b))
    })),
    entry!("+" (Interval, Time) -> Time, typed!(|a: Interval, b: TimeOfDay| {
        TimeOfDay(datetime::add_interval_to_time(b.0, &a))
    })),
    entry!("-" (Time, Interval) -> Time, typed!(|a: TimeOfDay, b: Interval| {
        TimeOfDay((a.0 - b.microseconds % DAY_US).rem_euclid(DAY_US))
    })),
    entry!("-" (Time, Time) -> Interval, typed!(|a: TimeOfDay, b: TimeOfDay| only_microseconds(a.0 - b.0))),
    entry!("+" (Interval, Interval) -> Interval, typed!(|a: Interval, b: Interval| a.checked_add(&b))),
    entry!("-" (Interval, Interval) -> Interval, typed!(|a: Interval, b: Interval| a.checked_sub(&b))),
    entry!("-" (Interval) -> Interval, typed!(|a: Interval| a.checked_neg())),
    entry!("*" (Interval, Float8) -> Interval, typed!(|a: Interval, b: f64| a.checked_mul(b))),
    entry!("*" (Float8, Interval) -> Interval, typed!(|a: f64, b: Interval| b.checked_mul(a))),
    entry!("/" (Interval, Float8) -> Interval, typed!(|a: Interval, b: f64| a.checked_div(b))),
    entry!("extract" (Text, Date) -> Numeric, typed!(|field: &str, date: Day| {
        datetime::extract_from_date(Field::parse(field, DataType::Date)?, date.0)
    })),
    entry!("extract" (Text, Time) -> Numeric, typed!(|field: &str, time: TimeOfDay| {
        datetime::extract_from_time(Field::parse(field, DataType::Time)?, time.0)
    })),
    entry!("extract" (Text, Timestamp) -> Numeric, typed!(|field: &str, time: LocalTime| {
        datetime::extract_from_timestamp(Field::parse(field, DataType::Timestamp)?, time.0)
    })),
    entry!("extract" (Text, TimestampTz) -> Numeric, typed!(with c |field: &str, time: Instant| {
        datetime::extract_from_timestamptz(Field::parse(field, DataType::TimestampTz)?, time.0, c.time_zone())
    }))
    .stable(),
    entry!("extract" (Text, Interval) -> Numeric, typed!(|field: &str, interval: Interval| {
        datetime::extract_from_interval(Field::parse(field, DataType::Interval)?, &interval)
    })),
    entry!("date_part" (Text, Date) -> Float8, typed!(|field: &str, date: Day| {
        // Of a date PostgreSQL gives the parts of its midnight.
        let midnight = datetime::date_to_timestamp(date.0)?;
        datetime::extract_from_timestamp(Field::parse(field, DataType::Timestamp)?, midnight).map(float)
    })),
    entry!("date_part" (Text, Time) -> Float8, typed!(|field: &str, time: TimeOfDay| {
        datetime::extract_from_time(Field::parse(field, DataType::Time)?, time.0).map(|number| number.to_f64())
    })),
    entry!("date_part" (Text, Timestamp) -> Float8, typed!(|field: &str, time: LocalTime| {
        datetime::extract_from_timestamp(Field::parse(field, DataType::Timestamp)?, time.0).map(float)
    })),
    entry!("date_part" (Text, TimestampTz) -> Float8, typed!(with c |field: &str, time: Instant| {
        let field = Field::parse(field, DataType::TimestampTz)?;
        datetime::extract_from_timestamptz(field, time.0, c.time_zone()).map(float)
    }))
    .stable(),
    entry!("date_part" (Text, Interval) -> Float8, typed!(|field: &str, interval: Interval| {
        let field = Field::parse(field, DataType::Interval)?;
        datetime::extract_from_interval(field, &interval).map(|number| number.to_f64())
    })),
    entry!("date_bin" (Interval, Timestamp, Timestamp) -> Timestamp, typed!(|stride: Interval, time: LocalTime, origin: LocalTime| {
        date_bin(&stride, time.0, origin.0).map(LocalTime)
    })),
    entry!("date_bin" (Interval, TimestampTz, TimestampTz) -> TimestampTz, typed!(|stride: Interval, time: Instant, origin: Instant| {
        date_bin(&stride, time.0, origin.0).map(Instant)
    })),
    entry!("date_trunc" (Text, Timestamp) -> Timestamp, typed!(|field: &str, time: LocalTime| {
        datetime::truncate_timestamp(Field::parse(field, DataType::Timestamp)?, time.0).map(LocalTime)
    })),
    entry!("date_trunc" (Text, TimestampTz) -> TimestampTz, typed!(with c |field: &str, time: Instant| {
        let field = Field::parse(field, DataType::TimestampTz)?;
        datetime::truncate_timestamptz(field, time.0, c.time_zone()).map(Instant)
    }))
    .stable(),
    entry!("date_trunc" (Text, TimestampTz, Text) -> TimestampTz, typed!(|field: &str, time: Instant, zone: &str| {
        let field = Field::parse(field, DataType::TimestampTz)?;
        datetime::truncate_timestamptz(field, time.0, &zone_named(zone)?).map(Instant)
    }))
    .stable(),
    entry!("date_trunc" (Text, Interval) -> Interval, typed!(|field: &str, interval: Interval| {
        datetime::truncate_interval(Field::parse(field, DataType::Interval)?, &interval)
    })),
    entry!("age" (Timestamp, Timestamp) -> Interval, typed!(|a: LocalTime, b: LocalTime| datetime::age(a.0, b.0))),
    entry!("age" (TimestampTz, TimestampTz) -> Interval, typed!(with c |a: Instant, b: Instant| {
        datetime::age(to_local(a, c.time_zone())?.0, to_local(b, c.time_zone())?.0)
    }))
    .stable(),
    entry!("age" (Timestamp) -> Interval, typed!(with c |a: LocalTime| datetime::age(midnight_today(c)?, a.0)))
        .stable(),
    entry!("age" (TimestampTz) -> Interval, typed!(with c |a: Instant| {
        datetime::age(midnight_today(c)?, to_local(a, c.time_zone())?.0)
    }))
    .stable(),
    entry!("timezone" (Text, Timestamp) -> TimestampTz, typed!(|zone: &str, time: LocalTime| {
        to_instant(time, &zone_named(zone)?)
    })),
    entry!("timezone" (Text, TimestampTz) -> Timestamp, typed!(|zone: &str, time: Instant| {
        to_local(time, &zone_named(zone)?)
    })),
    entry!("timezone" (Interval, Timestamp) -> TimestampTz, typed!(|zone: Interval, time: LocalTime| {
        to_instant(time, &zone_at(&zone)?)
    })),
    entry!("timezone" (Interval, TimestampTz) -> Timestamp, typed!(|zone: Interval, time: Instant| {
        to_local(time, &zone_at(&zone)?)
    })),
    entry!("make_date" (Int4, Int4, Int4) -> Date, typed!(|year: i32, month: i32, day: i32| {
        datetime::make_date(year, month, day).map(Day)
    })),
    entry!("make_time" (Int4, Int4, Float8) -> Time, typed!(|hour: i32, minute: i32, second: f64| {
        datetime::make_time(hour, minute, countable(second)).map(TimeOfDay)
    })),
    entry!("make_timestamp" (Int4, Int4, Int4, Int4, Int4, Float8) -> Timestamp, typed!(
        |year: i32, month: i32, day: i32, hour: i32, minute: i32, second: f64| {
            datetime::make_timestamp(year, month, day, hour, minute, countable(second)).map(LocalTime)
        }
    )),
    entry!("make_timestamptz" (Int4, Int4, Int4, Int4, Int4, Float8) -> TimestampTz, typed!(
        with c |year: i32, month: i32, day: i32, hour: i32, minute: i32, second: f64| {
            let local = datetime::make_timestamp(year, month, day, hour, minute, countable(second))?;
            to_instant(LocalTime(local), c.time_zone())
        }
    ))
    .stable(),
    entry!("make_timestamptz" (Int4, Int4, Int4, Int4, Int4, Float8, Text) -> TimestampTz, typed!(
        |year: i32, month: i32, day: i32, hour: i32, minute: i32, second: f64, zone: &str| {
            let local = datetime::make_timestamp(year, month, day, hour, minute, countable(second))?;
            to_instant(LocalTime(local), &zone_of_parts(zone)?)
        }
    ))
    .stable(),
    entry!("make_interval" (Int4, Int4, Int4, Int4, Int4, Int4, Float8) -> Interval, typed!(
        |years: i32, months: i32, weeks: i32, days: i32, hours: i32, minutes: i32, seconds: f64| {
            make_interval([years, months, weeks, days, hours, minutes], seconds)
        }
    )),
    entry!("to_timestamp" (Float8) -> TimestampTz, typed!(|seconds: f64| from_unix(seconds))),
    entry!("justify_hours" (Interval) -> Interval, typed!(|a: Interval| a.justify_hours())),
    entry!("justify_days" (Interval) -> Interval, typed!(|a: Interval| a.justify_days())),
    entry!("justify_interval" (Interval) -> Interval, typed!(|a: Interval| justify(&a))),
    entry!("isfinite" (Date) -> Bool, typed!(|a: Day| !datetime::is_infinite_date(a.0))),
    entry!("isfinite" (Timestamp) -> Bool, typed!(|a: LocalTime| !datetime::is_infinite(a.0))),
    entry!("isfinite" (TimestampTz) -> Bool, typed!(|a: Instant| !datetime::is_infinite(a.0))),
    entry!("isfinite" (Interval) -> Bool, typed!(|_a: Interval| true)),
    entry!("date" (Timestamp) -> Date, typed!(|a: LocalTime| Day(datetime::timestamp_to_date(a.0)))),
    entry!("date" (TimestampTz) -> Date, typed!(with c |a: Instant| {
        datetime::timestamptz_to_date(a.0, c.time_zone()).map(Day)
    }))
    .stable(),
    entry!("timestamp" (Date, Time) -> Timestamp, typed!(|a: Day, b: TimeOfDay| date_plus_time(a, b))),
    entry!("timestamptz" (Date, Time) -> TimestampTz, typed!(with c |a: Day, b: TimeOfDay| {
        to_instant(date_plus_time(a, b)?, c.time_zone())
    }))
    .stable(),
    entry!("timestamp" (Date) -> Timestamp, typed!(|a: Day| datetime::date_to_timestamp(a.0).map(LocalTime))),
];
