//! `to_char` of times: the patterns of PostgreSQL. What reads times by them is in `time_reading`.
//!
//! Known: YYYY YYY YY Y and the same with I, MM MON Mon mon MONTH Month month RM, DD DDD IDDD D ID, DAY Day day DY Dy dy, HH HH12 HH24, MI, SS
//! SSSS, MS, US, FF1 to FF6, AM PM am pm A.M. P.M., AD BC ad bc A.D. B.C., Q, W, WW, IW, CC, J, TZ tz TZH TZM OF, with the modifiers FM and TM
//! (names are English) and the suffix TH/th; text in quotes and anything else stands for itself.

use super::FunctionEntry;
use super::argument::{Day, Instant, LocalTime, entry, typed};
use super::time_reading::{to_date, to_timestamp};
use ecow::EcoString;
use rubato_base::datetime::{self, DAY_US, Field, HOUR_US, MINUTE_US, SECOND_US, TimeZone};
use rubato_base::{DataType, Numeric, Result};
use std::fmt::Write;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
pub(super) const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Keywords, longest first among those that begin alike. What is written in lower case there is matched exactly; the others in any
/// case.
const KEYWORDS: [&str; 74] = [
    "MONTH", "Month", "month", "HH24", "HH12", "YYYY", "IYYY", "SSSSS", "SSSS", "Y,YYY", "A.M.", "P.M.", "a.m.",
    "p.m.", "A.D.", "B.C.", "a.d.", "b.c.", "IDDD", "YYY", "IYY", "DDD", "DAY", "Day", "day", "MON", "Mon", "mon",
    "TZH", "TZM", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "YY", "IY", "MM", "DD", "DY", "Dy", "dy", "HH", "MI", "SS",
    "MS", "US", "AM", "PM", "am", "pm", "ID", "IW", "WW", "CC", "TZ", "tz", "OF", "RM", "rm", "FM", "TM", "FX", "AD",
    "BC", "ad", "bc", "Y", "I", "D", "W", "Q", "J",
];

/// A piece of a pattern.
pub(super) enum Piece<'a> {
    Keyword {
        word: &'static str,
        fill: bool,
        ordinal: Option<&'a str>,
    },
    /// A character that stands for itself.
    Literal(&'a str),
    /// What stands in quotes.
    Quoted(&'a str),
}

pub(super) fn pieces(pattern: &str) -> Vec<Piece<'_>> {
    let mut result = Vec::new();
    let mut rest = pattern;
    let mut fill = true;
    while let Some(first) = rest.chars().next() {
        if let Some(inside) = rest.strip_prefix('"') {
            let (parts, behind) = in_quotes(inside);
            result.extend(parts.into_iter().map(Piece::Quoted));
            rest = behind;
            continue;
        }
        if rest.starts_with("\\\"") {
            result.push(Piece::Literal(&rest[1..2]));
            rest = &rest[2..];
            continue;
        }
        let Some(word) = keyword_at(rest) else {
            let (literal, behind) = rest.split_at(first.len_utf8());
            result.push(Piece::Literal(literal));
            rest = behind;
            continue;
        };
        rest = &rest[word.len()..];
        match word {
            "FM" | "TM" => fill = false,
            "FX" => {}
            _ => {
                let ordinal = rest.get(..2).filter(|suffix| matches!(*suffix, "TH" | "th"));
                rest = &rest[ordinal.map_or(0, str::len)..];
                result.push(Piece::Keyword { word, fill, ordinal });
                fill = true;
            }
        }
    }
    result
}

/// What stands in quotes, of which the first one has been read, and what follows the other one. A backslash is for the character behind
/// it, and stands between two parts.
pub(super) fn in_quotes(inside: &str) -> (Vec<&str>, &str) {
    let (mut parts, mut from) = (Vec::new(), 0);
    let mut characters = inside.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == '"' {
            parts.push(&inside[from..at]);
            return (parts, &inside[at + 1..]);
        }
        if character == '\\' && characters.next().is_some() {
            parts.push(&inside[from..at]);
            from = at + 1;
        }
    }
    parts.push(&inside[from..]);
    (parts, "")
}

/// The keyword that the pattern begins with: as it is spelled, else in capitals.
fn keyword_at(rest: &str) -> Option<&'static str> {
    let exact = KEYWORDS.iter().copied().find(|word| rest.starts_with(word));
    let loose = KEYWORDS.iter().copied().find(|word| {
        rest.get(..word.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(word))
    });
    match (exact, loose) {
        (Some(exact), Some(loose)) if loose.len() > exact.len() => Some(loose),
        (Some(exact), _) => Some(exact),
        (None, loose) => loose,
    }
}

/// A number of a field that PostgreSQL's `extract` knows.
fn field(name: &str, time: i64) -> Result<i64> {
    let number: Option<Numeric> = datetime::extract_from_timestamp(Field::parse(name, DataType::Timestamp)?, time)?;
    number.map_or(Ok(0), |number| number.floor().to_i64())
}

fn to_char(time: i64, zone: Option<&TimeZone>, pattern: &str) -> Result<Option<EcoString>> {
    if datetime::is_infinite(time) || pattern.is_empty() {
        return Ok(None);
    }
    let local = match zone {
        Some(zone) => datetime::timestamptz_to_timestamp(time, zone)?,
        None => time,
    };
    let mut result = EcoString::new();
    for piece in pieces(pattern) {
        match piece {
            Piece::Literal(text) | Piece::Quoted(text) => result.push_str(text),
            Piece::Keyword { word, fill, ordinal } => {
                let start = result.len();
                write_keyword(&mut result, word, fill, local, zone.map(|zone| (zone, time)))?;
                if let Some(ordinal) = ordinal {
                    let suffix = ordinal_suffix(&result[start..]);
                    result.push_str(&if ordinal == "TH" {
                        suffix.to_uppercase()
                    } else {
                        suffix.to_owned()
                    });
                }
            }
        }
    }
    Ok(Some(result))
}

pub(super) fn ordinal_suffix(number: &str) -> &'static str {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    if digits.ends_with("11") || digits.ends_with("12") || digits.ends_with("13") {
        return "th";
    }
    match digits.chars().last() {
        Some('1') => "st",
        Some('2') => "nd",
        Some('3') => "rd",
        _ => "th",
    }
}

/// Appends a number, filled with zeros to `width` unless FM says not to.
fn write_number(out: &mut EcoString, number: i64, width: usize, fill: bool) {
    let width = if fill { width } else { 0 };
    // Writing to a string cannot fail.
    let _ = write!(out, "{number:0width$}");
}

/// Appends a name, filled with blanks to `width` unless FM says not to.
fn write_name(out: &mut EcoString, name: &str, width: usize, fill: bool) {
    let width = if fill { width } else { 0 };
    let _ = write!(out, "{name:width$}");
}

fn cased(name: &str, pattern: &str) -> String {
    if pattern.chars().all(|letter| letter.is_ascii_uppercase()) {
        name.to_uppercase()
    } else if pattern.starts_with(|first: char| first.is_ascii_lowercase()) {
        name.to_lowercase()
    } else {
        name.to_owned()
    }
}

fn write_keyword(out: &mut EcoString, word: &str, fill: bool, time: i64, zone: Option<(&TimeZone, i64)>) -> Result<()> {
    let of_day = time.rem_euclid(DAY_US);
    let (hour, second) = (of_day / HOUR_US, of_day / SECOND_US % 60);
    let year = || field("year", time).map(i64::abs);
    let iso_year = || field("isoyear", time).map(i64::abs);
    let month = || field("month", time).map(|month| (month - 1).clamp(0, 11) as usize);
    let week_day = || field("dow", time).map(|day| day.clamp(0, 6) as usize);
    let morning = hour < 12;
    match word {
        "YYYY" => write_number(out, year()?, 4, fill),
        "Y,YYY" => {
            let _ = write!(out, "{},{:03}", year()? / 1000, year()? % 1000);
        }
        "YYY" => write_number(out, year()? % 1000, 3, fill),
        "YY" => write_number(out, year()? % 100, 2, fill),
        "Y" => write_number(out, year()? % 10, 1, fill),
        "IYYY" => write_number(out, iso_year()?, 4, fill),
        "IYY" => write_number(out, iso_year()? % 1000, 3, fill),
        "IY" => write_number(out, iso_year()? % 100, 2, fill),
        "I" => write_number(out, iso_year()? % 10, 1, fill),
        "CC" => {
            let century = field("century", time)?;
            write_number(out, century, if century < 0 { 3 } else { 2 }, fill);
        }
        "MM" => write_number(out, field("month", time)?, 2, fill),
        "MONTH" | "Month" | "month" => write_name(out, &cased(MONTHS[month()?], word), 9, fill),
        "MON" | "Mon" | "mon" => out.push_str(&cased(&MONTHS[month()?][..3], word)),
        "RM" | "rm" => write_name(out, &cased(ROMAN[month()?], word), 4, fill),
        "DD" => write_number(out, field("day", time)?, 2, fill),
        "DDD" => write_number(out, field("doy", time)?, 3, fill),
        "IDDD" => write_number(out, (field("week", time)? - 1) * 7 + field("isodow", time)?, 3, fill),
        "D" => write_number(out, field("dow", time)? + 1, 1, fill),
        "ID" => write_number(out, field("isodow", time)?, 1, fill),
        "DAY" | "Day" | "day" => write_name(out, &cased(DAYS[week_day()?], word), 9, fill),
        "DY" | "Dy" | "dy" => out.push_str(&cased(&DAYS[week_day()?][..3], word)),
        "HH" | "HH12" => write_number(out, (hour + 11) % 12 + 1, 2, fill),
        "HH24" => write_number(out, hour, 2, fill),
        "MI" => write_number(out, of_day / MINUTE_US % 60, 2, fill),
        "SS" => write_number(out, second, 2, fill),
        "SSSS" | "SSSSS" => write_number(out, of_day / SECOND_US, 1, fill),
        "MS" => write_number(out, of_day % SECOND_US / 1000, 3, true),
        "US" => write_number(out, of_day % SECOND_US, 6, true),
        "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
            let digits = usize::from(word.as_bytes()[2] - b'0');
            let part = of_day % SECOND_US / 10_i64.pow(6 - digits as u32);
            write_number(out, part, digits, true);
        }
        "AM" | "PM" => out.push_str(if morning { "AM" } else { "PM" }),
        "am" | "pm" => out.push_str(if morning { "am" } else { "pm" }),
        "A.M." | "P.M." => out.push_str(if morning { "A.M." } else { "P.M." }),
        "a.m." | "p.m." => out.push_str(if morning { "a.m." } else { "p.m." }),
        "AD" | "BC" => out.push_str(if field("year", time)? < 0 { "BC" } else { "AD" }),
        "ad" | "bc" => out.push_str(if field("year", time)? < 0 { "bc" } else { "ad" }),
        "A.D." | "B.C." => out.push_str(if field("year", time)? < 0 { "B.C." } else { "A.D." }),
        "a.d." | "b.c." => out.push_str(if field("year", time)? < 0 { "b.c." } else { "a.d." }),
        "W" => write_number(out, (field("day", time)? - 1) / 7 + 1, 1, fill),
        "WW" => write_number(out, (field("doy", time)? - 1) / 7 + 1, 2, fill),
        "IW" => write_number(out, field("week", time)?, 2, fill),
        "Q" => write_number(out, field("quarter", time)?, 1, fill),
        "J" => write_number(out, field("julian", time)?, 1, fill),
        "TZ" | "tz" | "TZH" | "TZM" | "OF" => write_zone(out, word, zone),
        _ => {}
    }
    Ok(())
}

fn write_zone(out: &mut EcoString, word: &str, zone: Option<(&TimeZone, i64)>) {
    let offset_s = zone.map_or(0, |(zone, time)| zone.offset_at(time));
    let minutes = offset_s / 60;
    let _ = match (word, zone) {
        ("TZH", _) => {
            let sign = if offset_s < 0 { '-' } else { '+' };
            write!(out, "{sign}{:02}", minutes.abs() / 60)
        }
        ("TZM", _) => write!(out, "{:02}", minutes.abs() % 60),
        ("OF", _) if minutes % 60 == 0 => write!(out, "{:+03}", minutes / 60),
        ("OF", _) => {
            write!(
                out,
                "{}{:02}:{:02}",
                if minutes < 0 { '-' } else { '+' },
                minutes.abs() / 60,
                minutes.abs() % 60
            )
        }
        (_, None) => Ok(()),
        ("tz", Some((zone, time))) => write!(out, "{}", zone.abbreviation_at(time).to_lowercase()),
        (_, Some((zone, time))) => write!(out, "{}", zone.abbreviation_at(time).to_uppercase()),
    };
}

pub(super) static TIME_PATTERN: &[FunctionEntry] = &[
    entry!("to_char" (Timestamp, Text) -> Text, typed!(|time: LocalTime, pattern: &str| to_char(time.0, None, pattern))),
    entry!("to_char" (TimestampTz, Text) -> Text, typed!(with c |time: Instant, pattern: &str| {
        to_char(time.0, Some(c.time_zone()), pattern)
    }))
    .stable(),
    entry!("to_date" (Text, Text) -> Date, typed!(|text: &str, pattern: &str| to_date(text, pattern).map(Day))),
    entry!("to_timestamp" (Text, Text) -> TimestampTz, typed!(with c |text: &str, pattern: &str| {
        to_timestamp(text, pattern, c.time_zone()).map(Instant)
    }))
    .stable(),
];
