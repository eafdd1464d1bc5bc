//! What the modifier of an interval's type says: which fields it has, and with how many digits the seconds. It is PostgreSQL's number:
//! a bit for each field above 16 bits for the digits.

use super::{HOUR_US, Interval, MINUTE_US, round_to_digits};
use std::borrow::Cow;
use std::fmt::Write;

/// The fields, from the largest to the smallest: the bit of each, its name, and the unit that a bare number is of.
const FIELDS: [(i32, &str); 6] = [
    (1 << 2, "year"),
    (1 << 1, "month"),
    (1 << 3, "day"),
    (1 << 10, "hour"),
    (1 << 11, "minute"),
    (1 << 12, "second"),
];
/// All fields.
const ALL_FIELDS: i32 = 0x7fff;
/// All digits.
const ALL_DIGITS: i32 = 0xffff;

/// A field by its place among year, month, day, hour, minute and second.
type Place = usize;

/// The modifier of `interval first TO last (digits)`; -1 where nothing is said. More digits than six are six.
pub fn interval_modifier(fields: Option<(Place, Place)>, digits: Option<u64>) -> i32 {
    let digits = digits.map(|digits| digits.min(6) as i32);
    let range = fields.map(|(first, last)| {
        let bits = FIELDS.iter().take(last + 1).skip(first);
        bits.fold(0, |range, (bit, _)| range | bit)
    });
    match (range, digits) {
        (None, None) => -1,
        (range, digits) => range.unwrap_or(ALL_FIELDS) << 16 | digits.unwrap_or(ALL_DIGITS),
    }
}

/// The first and the last field, unless all are meant.
fn fields_of(modifier: i32) -> Option<(Place, Place)> {
    let range = (modifier >> 16) & ALL_FIELDS;
    if modifier < 0 || range == ALL_FIELDS {
        return None;
    }
    let has = |place: &Place| range & FIELDS[*place].0 != 0;
    Some(((0..FIELDS.len()).find(has)?, (0..FIELDS.len()).rfind(has)?))
}

/// How many digits the seconds have, unless they have all.
pub fn interval_digits(modifier: i32) -> Option<i32> {
    let digits = modifier & ALL_DIGITS;
    (modifier >= 0 && digits != ALL_DIGITS).then_some(digits)
}

/// What stands behind `interval`: ` day to second(3)`.
pub fn interval_fields(modifier: i32) -> String {
    let mut shown = match fields_of(modifier) {
        None => String::new(),
        Some((first, last)) if first == last => format!(" {}", FIELDS[first].1),
        Some((first, last)) => format!(" {} to {}", FIELDS[first].1, FIELDS[last].1),
    };
    if let Some(digits) = interval_digits(modifier) {
        let _ = write!(shown, "({digits})");
    }
    shown
}

/// The interval without what is below its last field, and with so many digits.
pub fn fit_interval(interval: Interval, modifier: i32) -> Interval {
    let Interval {
        months,
        days,
        microseconds,
    } = interval;
    let last = fields_of(modifier).map_or(FIELDS.len() - 1, |(_, last)| last);
    Interval {
        months: if last == 0 { months - months % 12 } else { months },
        days: if last < 2 { 0 } else { days },
        microseconds: match last {
            0..=2 => 0,
            3 => microseconds - microseconds % HOUR_US,
            4 => microseconds - microseconds % MINUTE_US,
            _ => round_to_digits(microseconds, interval_digits(modifier).unwrap_or(6)),
        },
    }
}

/// The text with the unit that a bare number is of, with days before hours, and with hours where minutes come first.
pub fn with_interval_units(text: &str, modifier: i32) -> Cow<'_, str> {
    let Some((first, last)) = fields_of(modifier) else {
        return Cow::Borrowed(text);
    };
    let trimmed = text.trim();
    let is_number = |text: &str| text.parse::<f64>().is_ok() && !text.contains(|letter: char| letter.is_alphabetic());
    let words: Vec<&str> = trimmed.split_ascii_whitespace().collect();
    if let ([days, hours], 3) = (words.as_slice(), last)
        && is_number(days)
        && is_number(hours)
    {
        return Cow::Owned(format!("{days} day {hours} hour"));
    }
    let is_minutes = (first, last) == (4, 5);
    match trimmed.strip_prefix('-') {
        _ if is_number(trimmed) => Cow::Owned(format!("{trimmed} {}", FIELDS[last].1)),
        _ if !is_minutes || trimmed.matches(':').count() != 1 => Cow::Borrowed(text),
        Some(rest) => Cow::Owned(format!("-0:{rest}")),
        None => Cow::Owned(format!("0:{trimmed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_those_of_postgresql() {
        for (fields, digits, modifier, shown) in [
            (None, Some(3), 2_147_418_115, "(3)"),
            (Some((0, 1)), None, 458_751, " year to month"),
            (Some((2, 5)), None, 470_351_871, " day to second"),
            (Some((2, 5)), Some(2), 470_286_338, " day to second(2)"),
            (Some((5, 5)), Some(0), 268_435_456, " second(0)"),
            (Some((3, 3)), None, 67_174_399, " hour"),
            (None, None, -1, ""),
        ] {
            assert_eq!(interval_modifier(fields, digits), modifier, "{shown}");
            assert_eq!(interval_fields(modifier), shown);
        }
    }
}
