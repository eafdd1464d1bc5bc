//! `to_char` of intervals.

use super::FunctionEntry;
use super::argument::{entry, typed};
use super::time_pattern::{Piece, ROMAN, ordinal_suffix, pieces};
use ecow::EcoString;
use rubato_base::datetime::{HOUR_US, Interval, MINUTE_US, SECOND_US};
use rubato_base::{Error, Result, SqlState};
use std::fmt::Write;

/// 22007: an interval is of no day.
fn invalid() -> Error {
    let message = "invalid format specification for an interval value";
    Error::new(SqlState::INVALID_DATETIME_FORMAT, message)
        .with_hint("Intervals are not tied to specific calendar dates.")
}

fn to_char(interval: &Interval, pattern: &str) -> Result<Option<EcoString>> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let mut out = EcoString::new();
    for piece in pieces(pattern) {
        match piece {
            Piece::Literal(text) | Piece::Quoted(text) => out.push_str(text),
            Piece::Keyword { word, fill, ordinal } => {
                let start = out.len();
                write_keyword(&mut out, word, fill, interval)?;
                if let Some(ordinal) = ordinal {
                    let suffix = ordinal_suffix(&out[start..]);
                    let is_upper = ordinal == "TH";
                    out.push_str(&if is_upper {
                        suffix.to_uppercase()
                    } else {
                        suffix.to_owned()
                    });
                }
            }
        }
    }
    Ok(Some(out))
}

fn write_keyword(out: &mut EcoString, word: &str, fill: bool, interval: &Interval) -> Result<()> {
    let time = interval.microseconds;
    let (hours, minutes, seconds) = (time / HOUR_US, time / MINUTE_US % 60, time / SECOND_US % 60);
    let (years, months, days) = (
        i64::from(interval.months / 12),
        i64::from(interval.months % 12),
        i64::from(interval.days),
    );
    let day_of_year = (years * 12 + months) * 30 + days;
    let mut number = |number: i64, width: usize| {
        let width = if fill { width + usize::from(number < 0) } else { 0 };
        // Writing to a string cannot fail.
        let _ = write!(out, "{number:0width$}");
    };
    match word {
        "HH24" => number(hours, 2),
        "HH" | "HH12" => number(if hours % 12 == 0 { 12 } else { hours % 12 }, 2),
        "MI" => number(minutes, 2),
        "SS" => number(seconds, 2),
        "MS" => number(time % SECOND_US / 1000, 3),
        "US" => number(time % SECOND_US, 6),
        "SSSS" | "SSSSS" => number(time / SECOND_US, 1),
        "YYYY" => number(years, 4),
        "YYY" => number(years % 1000, 3),
        "YY" => number(years % 100, 2),
        "Y" => number(years % 10, 1),
        "CC" => number(years / 100, 2),
        "MM" => number(months, 2),
        "DD" => number(days, 2),
        "DDD" => number(day_of_year, 3),
        "WW" => number((day_of_year - 1) / 7 + 1, 2),
        "Q" if months == 0 => {}
        "Q" => number((months - 1) / 3 + 1, 1),
        "RM" | "rm" if (years, months) == (0, 0) => {}
        "RM" | "rm" => {
            // Months of a whole year are its last, or its first where it is negative.
            let place = match months {
                0 if years > 0 => 11,
                0 => 0,
                1.. => months - 1,
                _ => 12 + months,
            };
            let name = ROMAN[place as usize];
            let width = if fill { 4 } else { 0 };
            let name = if word == "RM" {
                name.to_owned()
            } else {
                name.to_lowercase()
            };
            // Writing to a string cannot fail.
            let _ = write!(out, "{name:width$}");
        }
        "AM" | "PM" | "A.M." | "P.M." | "am" | "pm" | "a.m." | "p.m." => {
            let letter = if hours % 24 >= 12 { 'P' } else { 'A' };
            let text = if word.contains('.') {
                format!("{letter}.M.")
            } else {
                format!("{letter}M")
            };
            let is_upper = word.starts_with(['A', 'P']);
            out.push_str(&if is_upper { text } else { text.to_lowercase() });
        }
        _ => return Err(invalid()),
    }
    Ok(())
}

pub(super) static INTERVAL_PATTERN: &[FunctionEntry] = &[
    entry!("to_char" (Interval, Text) -> Text, typed!(|interval: Interval, pattern: &str| to_char(&interval, pattern)))
        .stable(),
];
