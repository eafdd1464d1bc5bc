//! Writing dates and times in the ISO style.

use super::calendar::{Parts, date_of};
use super::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY_US, HOUR_US, Interval, MINUTE_US, SECOND_US, TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY, TimeZone,
};

/// Appends a date: `2024-01-31`, `0044-03-15 BC`, `infinity`.
pub fn write_date(date: i32, out: &mut Vec<u8>) {
    match date {
        DATE_INFINITY => out.extend_from_slice(b"infinity"),
        DATE_NEGATIVE_INFINITY => out.extend_from_slice(b"-infinity"),
        _ => {
            let (year, month, day) = date_of(date.into());
            write_day(year, month, day, out);
            write_era(year, out);
        }
    }
}

/// Appends a time of day: `12:34:56.789`.
pub fn write_time(time: i64, out: &mut Vec<u8>) {
    write_clock(
        time / HOUR_US,
        time / MINUTE_US % 60,
        time / SECOND_US % 60,
        time % SECOND_US,
        out,
    );
}

/// Appends a timestamp: `2024-01-31 12:34:56.789`.
pub fn write_timestamp(timestamp: i64, out: &mut Vec<u8>) {
    if !write_infinity(timestamp, out) {
        write_local(timestamp, None, out);
    }
}

/// Appends a timestamp as the clocks of a zone show it: `2024-01-31 12:34:56.789+02`.
pub fn write_timestamptz(timestamp: i64, zone: &TimeZone, out: &mut Vec<u8>) {
    if !write_infinity(timestamp, out) {
        let offset = zone.offset_at(timestamp);
        // No timestamp in range comes near the ends of an i64.
        write_local(
            timestamp.saturating_add(i64::from(offset) * SECOND_US),
            Some(offset),
            out,
        );
    }
}

fn write_infinity(timestamp: i64, out: &mut Vec<u8>) -> bool {
    match timestamp {
        TIMESTAMP_INFINITY => out.extend_from_slice(b"infinity"),
        TIMESTAMP_NEGATIVE_INFINITY => out.extend_from_slice(b"-infinity"),
        _ => return false,
    }
    true
}

fn write_local(local: i64, offset: Option<i32>, out: &mut Vec<u8>) {
    let parts = Parts::of(local);
    write_day(parts.year, parts.month, parts.day, out);
    out.push(b' ');
    write_clock(parts.hour, parts.minute, parts.second, parts.microsecond, out);
    if let Some(offset) = offset {
        write_offset(offset, out);
    }
    write_era(parts.year, out);
}

fn write_day(year: i64, month: i64, day: i64, out: &mut Vec<u8>) {
    write_number(if year > 0 { year } else { 1 - year }, 4, out);
    out.push(b'-');
    write_number(month, 2, out);
    out.push(b'-');
    write_number(day, 2, out);
}

fn write_era(year: i64, out: &mut Vec<u8>) {
    if year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

fn write_clock(hour: i64, minute: i64, second: i64, microsecond: i64, out: &mut Vec<u8>) {
    write_number(hour, 2, out);
    out.push(b':');
    write_number(minute, 2, out);
    out.push(b':');
    write_number(second, 2, out);
    write_fraction(microsecond, out);
}

/// The point and the digits of microseconds up to the last that is not 0.
fn write_fraction(microsecond: i64, out: &mut Vec<u8>) {
    if microsecond == 0 {
        return;
    }
    out.push(b'.');
    write_number(microsecond, 6, out);
    while out.last() == Some(&b'0') {
        out.pop();
    }
}

/// A number that is not negative, with zeros in front up to `width` digits.
pub(crate) fn write_number(value: i64, width: usize, out: &mut Vec<u8>) {
    if width == 2 && (0..100).contains(&value) {
        out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
        return;
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value).as_bytes();
    out.resize(out.len() + width.saturating_sub(digits.len()), b'0');
    out.extend_from_slice(digits);
}

/// `+02`, `-05:30` or `-04:56:02` for seconds east of UTC.
pub(super) fn write_offset(east_s: i32, out: &mut Vec<u8>) {
    let size = i64::from(east_s.unsigned_abs());
    out.push(if east_s < 0 { b'-' } else { b'+' });
    write_number(size / 3600, 2, out);
    if size % 3600 != 0 {
        out.push(b':');
        write_number(size / 60 % 60, 2, out);
    }
    if size % 60 != 0 {
        out.push(b':');
        write_number(size % 60, 2, out);
    }
}

/// Appends an interval in the style `iso_8601`: `P1Y2M-3DT4H5M6.789S`.
pub fn write_iso_interval(interval: &Interval, out: &mut Vec<u8>) {
    if (interval.months, interval.days, interval.microseconds) == (0, 0, 0) {
        return out.extend_from_slice(b"PT0S");
    }
    let part = |value: i64, letter: u8, out: &mut Vec<u8>| {
        if value != 0 {
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            out.push(letter);
        }
    };
    out.push(b'P');
    part((interval.months / 12).into(), b'Y', out);
    part((interval.months % 12).into(), b'M', out);
    part(interval.days.into(), b'D', out);
    let time = interval.microseconds;
    if time == 0 {
        return;
    }
    out.push(b'T');
    part(time / HOUR_US, b'H', out);
    part(time % HOUR_US / MINUTE_US, b'M', out);
    let rest = time % MINUTE_US;
    if rest != 0 {
        if rest < 0 {
            out.push(b'-');
        }
        let size = rest.abs();
        out.extend_from_slice(itoa::Buffer::new().format(size / SECOND_US).as_bytes());
        write_fraction(size % SECOND_US, out);
        out.push(b'S');
    }
}

/// Appends an interval in the style `postgres`: `1 year 2 mons -3 days +04:05:06.789`.
pub fn write_interval(interval: &Interval, out: &mut Vec<u8>) {
    let start = out.len();
    let mut negative_before = false;
    let (years, months) = (interval.months / 12, interval.months % 12);
    for (value, name) in [(years, " year"), (months, " mon"), (interval.days, " day")] {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.push(b' ');
            if negative_before && value > 0 {
                out.push(b'+');
            }
        }
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        out.extend_from_slice(name.as_bytes());
        if value != 1 {
            out.push(b's');
        }
        negative_before = value < 0;
    }
    let empty = out.len() == start;
    if interval.microseconds == 0 && !empty {
        return;
    }
    if !empty {
        out.push(b' ');
    }
    if interval.microseconds < 0 {
        out.push(b'-');
    } else if negative_before {
        out.push(b'+');
    }
    let size = interval.microseconds.unsigned_abs();
    let (day, hour) = (DAY_US as u64, HOUR_US as u64);
    let within = (size % hour) as i64;
    let hours = (size / day * 24 + size % day / hour) as i64;
    write_clock(
        hours,
        within / MINUTE_US,
        within / SECOND_US % 60,
        within % SECOND_US,
        out,
    );
}
