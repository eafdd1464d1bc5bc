//! `extract`, `date_part` and `date_trunc`.

use super::calendar::{Parts, date_of, day_of_week, days_of, iso_week, iso_week_start};
use super::{
    DAY_US, HOUR_US, Interval, MINUTE_US, SECOND_US, TimeZone, UNIX_EPOCH_DAYS, check_timestamp, is_infinite,
    is_infinite_date, out_of_range,
};
use crate::{DataType, Error, Numeric, Result, SqlState};

/// A part of a date or time that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the field of its name")]
pub enum Field {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Epoch,
    Julian,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

impl Field {
    /// The field of a name, in either case, that is to be taken from a value of `data_type`. 22023 for an unknown name.
    pub fn parse(name: &str, data_type: DataType) -> Result<Field> {
        let lower = name.to_ascii_lowercase();
        Ok(match lower.as_str() {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => Field::Microsecond,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => Field::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Field::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Field::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Field::Hour,
            "d" | "day" | "days" => Field::Day,
            "w" | "week" | "weeks" => Field::Week,
            "mon" | "mons" | "month" | "months" => Field::Month,
            "qtr" | "quarter" => Field::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Field::Year,
            "dec" | "decs" | "decade" | "decades" => Field::Decade,
            "c" | "cent" | "century" | "centuries" => Field::Century,
            "mil" | "mils" | "millennium" | "millennia" => Field::Millennium,
            "isoyear" => Field::IsoYear,
            "dow" => Field::DayOfWeek,
            "isodow" => Field::IsoDayOfWeek,
            "doy" => Field::DayOfYear,
            "epoch" => Field::Epoch,
            "j" | "jd" | "julian" => Field::Julian,
            "timezone" => Field::Timezone,
            "timezone_h" | "timezone_hour" => Field::TimezoneHour,
            "timezone_m" | "timezone_minute" => Field::TimezoneMinute,
            _ => {
                return Err(unrecognized(&lower, data_type));
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Field::Microsecond => "microseconds",
            Field::Millisecond => "milliseconds",
            Field::Second => "second",
            Field::Minute => "minute",
            Field::Hour => "hour",
            Field::Day => "day",
            Field::Week => "week",
            Field::Month => "month",
            Field::Quarter => "quarter",
            Field::Year => "year",
            Field::Decade => "decade",
            Field::Century => "century",
            Field::Millennium => "millennium",
            Field::IsoYear => "isoyear",
            Field::DayOfWeek => "dow",
            Field::IsoDayOfWeek => "isodow",
            Field::DayOfYear => "doy",
            Field::Epoch => "epoch",
            Field::Julian => "julian",
            Field::Timezone => "timezone",
            Field::TimezoneHour => "timezone_hour",
            Field::TimezoneMinute => "timezone_minute",
        }
    }

    /// Whether the field grows without end with the time, so that an infinite time has an infinite field.
    fn is_endless(self) -> bool {
        matches!(
            self,
            Field::Year
                | Field::Decade
                | Field::Century
                | Field::Millennium
                | Field::IsoYear
                | Field::Epoch
                | Field::Julian
        )
    }

    fn unsupported<T>(self, data_type: DataType) -> Result<T> {
        Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("unit \"{}\" not supported for type {data_type}", self.name()),
        ))
    }
}

fn unrecognized(name: &str, data_type: DataType) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unit \"{name}\" not recognized for type {data_type}"),
    )
}

/// The error of cutting to a field that divides no time. PostgreSQL does not even know some of them there.
fn not_a_unit<T>(field: Field, data_type: DataType) -> Result<T> {
    match field {
        Field::DayOfWeek | Field::IsoDayOfWeek | Field::DayOfYear | Field::IsoYear | Field::Epoch | Field::Julian => {
            Err(unrecognized(field.name(), data_type))
        }
        _ => field.unsupported(data_type),
    }
}

/// Microseconds as a number of larger units with so many decimal digits.
fn fraction(microseconds: i128, digits: u32) -> Result<Numeric> {
    Numeric::from_parts(microseconds, digits)
}

fn infinite_field(field: Field, positive: bool) -> Option<Numeric> {
    field.is_endless().then_some(if positive {
        Numeric::INFINITY
    } else {
        Numeric::NEGATIVE_INFINITY
    })
}

/// A field of a `date`; `None` is NULL (of an infinite date). 0A000 for a field that dates have not.
pub fn extract_from_date(field: Field, date: i32) -> Result<Option<Numeric>> {
    match field {
        Field::Microsecond | Field::Millisecond | Field::Second | Field::Minute | Field::Hour => {
            return field.unsupported(DataType::Date);
        }
        Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute => return field.unsupported(DataType::Date),
        _ => {}
    }
    if is_infinite_date(date) {
        return Ok(infinite_field(field, date > 0));
    }
    let days = i64::from(date);
    Ok(Some(Numeric::from_i64(match field {
        Field::Epoch => (days + UNIX_EPOCH_DAYS) * 86_400,
        Field::Julian => days + 2_451_545,
        _ => match day_field(field, days) {
            Some(value) => value,
            None => return field.unsupported(DataType::Date),
        },
    })))
}

/// A field that depends on the day alone.
fn day_field(field: Field, days: i64) -> Option<i64> {
    let (year, month, day) = date_of(days);
    // Years before 1 count back from -1: there was no year 0.
    let named_year = |year: i64| if year > 0 { year } else { year - 1 };
    let era = |length: i64| {
        if year > 0 {
            (year + length - 1) / length
        } else {
            -((length - 1 - (year - 1)) / length)
        }
    };
    Some(match field {
        Field::Day => day,
        Field::Week => iso_week(days).1,
        Field::Month => month,
        Field::Quarter => (month - 1) / 3 + 1,
        Field::Year => named_year(year),
        Field::Decade => year.div_euclid(10),
        Field::Century => era(100),
        Field::Millennium => era(1000),
        Field::IsoYear => named_year(iso_week(days).0),
        Field::DayOfWeek => day_of_week(days),
        Field::IsoDayOfWeek => (day_of_week(days) + 6) % 7 + 1,
        Field::DayOfYear => days - days_of(year, 1, 1) + 1,
        _ => return None,
    })
}

/// A field that depends on the time of day alone; `time` may be negative, in intervals.
fn time_field(field: Field, time: i64) -> Option<Result<Numeric>> {
    let within_minute = i128::from(time % MINUTE_US);
    Some(match field {
        Field::Microsecond => fraction(within_minute, 0),
        Field::Millisecond => fraction(within_minute, 3),
        Field::Second => fraction(within_minute, 6),
        Field::Minute => Ok(Numeric::from_i64(time / MINUTE_US % 60)),
        Field::Hour => Ok(Numeric::from_i64(time / HOUR_US)),
        _ => return None,
    })
}

/// A field of a `time`. 0A000 for a field that times have not.
pub fn extract_from_time(field: Field, time: i64) -> Result<Numeric> {
    match field {
        Field::Epoch => fraction(time.into(), 6),
        _ => time_field(field, time).unwrap_or_else(|| field.unsupported(DataType::Time)),
    }
}

/// A field of a `timestamp`; `None` is NULL (of an infinite timestamp). 0A000 for a field that timestamps have not.
pub fn extract_from_timestamp(field: Field, timestamp: i64) -> Result<Option<Numeric>> {
    if is_infinite(timestamp) {
        return Ok(infinite_field(field, timestamp > 0));
    }
    extract_finite(field, timestamp, timestamp.into()).map(Some)
}

/// `epoch_base` is the timestamp that the epoch is counted to: UTC where `local` is local.
fn extract_finite(field: Field, epoch_base: i64, local: i128) -> Result<Numeric> {
    let local = i64::try_from(local).map_err(|_| out_of_range("timestamp"))?;
    let (days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    match field {
        Field::Epoch => fraction(
            i128::from(epoch_base) + i128::from(UNIX_EPOCH_DAYS) * i128::from(DAY_US),
            6,
        ),
        Field::Julian => Numeric::from_i64(days + 2_451_545)
            .checked_add(&Numeric::from_i64(time).checked_div(&Numeric::from_i64(DAY_US))?),
        _ => match (day_field(field, days), time_field(field, time)) {
            (Some(value), _) => Ok(Numeric::from_i64(value)),
            (None, Some(value)) => value,
            (None, None) => field.unsupported(DataType::Timestamp),
        },
    }
}

/// A field of a `timestamptz` in a zone; `None` is NULL (of an infinite timestamp).
pub fn extract_from_timestamptz(field: Field, timestamp: i64, zone: &TimeZone) -> Result<Option<Numeric>> {
    if is_infinite(timestamp) {
        return Ok(infinite_field(field, timestamp > 0));
    }
    let offset = i64::from(zone.offset_at(timestamp));
    Ok(Some(match field {
        Field::Timezone => Numeric::from_i64(offset),
        Field::TimezoneHour => Numeric::from_i64(offset / 3600),
        Field::TimezoneMinute => Numeric::from_i64(offset / 60 % 60),
        _ => extract_finite(field, timestamp, zone.local_of(timestamp))?,
    }))
}

/// A field of an `interval`. 0A000 for a field that intervals have not.
pub fn extract_from_interval(field: Field, interval: &Interval) -> Result<Numeric> {
    let months = i64::from(interval.months);
    let years = months / 12;
    Ok(Numeric::from_i64(match field {
        Field::Day => interval.days.into(),
        Field::Month => months % 12,
        Field::Quarter => months % 12 / 3 + 1,
        Field::Year => years,
        Field::Decade => years / 10,
        Field::Century => years / 100,
        Field::Millennium => years / 1000,
        Field::Epoch => {
            // A year counts 365.25 days here, so seconds are counted in quarters of days.
            let quarter_days = 1461 * years + 4 * 30 * (months % 12) + 4 * i64::from(interval.days);
            let seconds = i128::from(quarter_days) * 21_600;
            return fraction(seconds * i128::from(SECOND_US) + i128::from(interval.microseconds), 6);
        }
        _ => {
            return time_field(field, interval.microseconds).unwrap_or_else(|| field.unsupported(DataType::Interval));
        }
    }))
}

/// The beginning of the field that a `timestamp` is in. 0A000 for a field without one.
pub fn truncate_timestamp(field: Field, timestamp: i64) -> Result<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    let local = truncate_local(field, timestamp.into(), DataType::Timestamp)?;
    check_timestamp(local).ok_or_else(|| out_of_range("timestamp"))
}

/// The beginning of the field that a `timestamptz` is in, on the clocks of a zone.
pub fn truncate_timestamptz(field: Field, timestamp: i64, zone: &TimeZone) -> Result<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    let before = zone.local_of(timestamp);
    let local = truncate_local(field, before, DataType::TimestampTz)?;
    // Within a day the offset stays what it is, so that an hour that comes twice does not change into the other.
    let utc = if field < Field::Day {
        i128::from(timestamp) - (before - local)
    } else {
        zone.utc_of(local)
    };
    check_timestamp(utc).ok_or_else(|| out_of_range("timestamp"))
}

fn truncate_local(field: Field, local: i128, data_type: DataType) -> Result<i128> {
    let local = i64::try_from(local).map_err(|_| out_of_range("timestamp"))?;
    let parts = Parts::of(local);
    let (year, month) = (parts.year, parts.month);
    let cut = |unit: i64| Ok(i128::from(local - local.rem_euclid(unit)));
    let era = |length: i64| {
        if year > 0 {
            (year + length - 1) / length * length - length + 1
        } else {
            -((length - 1 - (year - 1)) / length) * length + 1
        }
    };
    let (first_year, first_month) = match field {
        Field::Microsecond => return Ok(local.into()),
        Field::Millisecond => return cut(1000),
        Field::Second => return cut(SECOND_US),
        Field::Minute => return cut(MINUTE_US),
        Field::Hour => return cut(HOUR_US),
        Field::Day => return cut(DAY_US),
        Field::Week => {
            let (year, week) = iso_week(local.div_euclid(DAY_US));
            return Ok(i128::from(iso_week_start(year, week)) * i128::from(DAY_US));
        }
        Field::Month => (year, month),
        Field::Quarter => (year, (month - 1) / 3 * 3 + 1),
        Field::Year => (year, 1),
        Field::Decade => (year.div_euclid(10) * 10, 1),
        Field::Century => (era(100), 1),
        Field::Millennium => (era(1000), 1),
        _ => return not_a_unit(field, data_type),
    };
    let parts = Parts {
        year: first_year,
        month: first_month,
        day: 1,
        hour: 0,
        minute: 0,
        second: 0,
        microsecond: 0,
    };
    Ok(parts.timestamp())
}

/// An `interval` without what is smaller than the field. 0A000 for a field that does not divide intervals.
pub fn truncate_interval(field: Field, interval: &Interval) -> Result<Interval> {
    let cut_time = |unit: i64| Interval {
        microseconds: interval.microseconds - interval.microseconds % unit,
        ..*interval
    };
    let cut_months = |unit: i32| Interval {
        months: interval.months - interval.months % unit,
        days: 0,
        microseconds: 0,
    };
    Ok(match field {
        Field::Microsecond => *interval,
        Field::Millisecond => cut_time(1000),
        Field::Second => cut_time(SECOND_US),
        Field::Minute => cut_time(MINUTE_US),
        Field::Hour => cut_time(HOUR_US),
        Field::Day => Interval {
            microseconds: 0,
            ..*interval
        },
        Field::Month => cut_months(1),
        Field::Quarter => cut_months(3),
        Field::Year => cut_months(12),
        Field::Decade => cut_months(120),
        Field::Century => cut_months(1200),
        Field::Millennium => cut_months(12_000),
        Field::Week => {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("unit \"week\" not supported for type {}", DataType::Interval),
            )
            .with_detail("Months usually have fractional weeks."));
        }
        _ => return not_a_unit(field, DataType::Interval),
    })
}
