//! Making sense of the fields of a date or time, as PostgreSQL's `DecodeDateTime` does under the DateStyles `ISO`.

use super::calendar::{date_of, month_length};
use super::tokens::{Token, tokens};
use super::zone::{TimeZone, parse_offset};
use super::{DAY_US, SECOND_US};

/// Why a text is no date or time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not read as one.
    Syntax,
    /// A field has a value that it cannot have.
    Field,
    /// The same, for a month or day: the order of the fields may be meant differently.
    MonthOrDay,
    /// An offset from UTC is too large.
    Displacement,
    /// No zone has this name.
    UnknownZone(String),
    /// The months of an interval do not fit, though each of its fields does.
    Interval,
}

/// A word that stands for a whole date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Infinity,
    NegativeInfinity,
    Epoch,
    Now,
    /// Midnight so many days from now.
    Day(i64),
}

/// Which of a date's numbers is which, where their length does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// `01/31/2024`
    #[default]
    MonthDayYear,
    /// `31/01/2024`
    DayMonthYear,
    /// `24/01/31`
    YearMonthDay,
}

/// What the zone field said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    Offset(i32),
    Named(TimeZone),
}

/// The fields of a text, checked.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub special: Option<Special>,
    /// Astronomical year, month and day.
    pub date: Option<(i64, i64, i64)>,
    /// Microseconds since midnight; 24:00 and a leap second count over.
    pub time: Option<i64>,
    pub zone: Option<Zone>,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

/// The number of a month by its name, its first three letters, or `sept`.
pub(super) fn month_number(word: &str) -> Option<i64> {
    if word.eq_ignore_ascii_case("sept") {
        return Some(9);
    }
    name_index(word, &MONTHS).map(|index| index as i64 + 1)
}

fn name_index(word: &str, names: &[&str]) -> Option<usize> {
    names
        .iter()
        .position(|name| word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(&name[..3]))
}

fn is_day_name(word: &str) -> bool {
    name_index(word, &DAYS).is_some()
        || ["tues", "wednes", "weds", "thur", "thurs"]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name))
}

/// Reads the fields of a text.
pub(super) fn decode(text: &str, order: DateOrder) -> Result<Decoded, Fault> {
    decode_fields(text, false, order)
}

/// Reads the fields of a text where bare digits are a time of day.
pub(super) fn decode_time(text: &str, order: DateOrder) -> Result<Decoded, Fault> {
    decode_fields(text, true, order)
}

fn decode_fields(text: &str, time_wanted: bool, order: DateOrder) -> Result<Decoded, Fault> {
    if let Some(decoded) = decode_plain(text.as_bytes()) {
        return Ok(decoded);
    }
    let fields = tokens(text).ok_or(Fault::Syntax)?;
    if fields.is_empty() {
        return Err(Fault::Syntax);
    }
    let mut decoder = Decoder {
        time_wanted,
        order,
        ..Decoder::default()
    };
    for (index, field) in fields.iter().enumerate() {
        decoder.field(*field, fields.get(index + 1).copied())?;
    }
    decoder.finish()
}

/// The usual `2024-01-31` and `2024-01-31 12:34:56.789`, without fields cut out; anything unusual is left to the general way.
fn decode_plain(text: &[u8]) -> Option<Decoded> {
    let pair = |at: usize| {
        let (high, low) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
        (high < 10 && low < 10).then(|| i64::from(high * 10 + low))
    };
    if !(text.len() == 10 || text.len() >= 19) || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (pair(0)? * 100 + pair(2)?, pair(5)?, pair(8)?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > month_length(year, month) {
        return None;
    }
    let time = if text.len() == 10 {
        None
    } else {
        let (hour, minute, second) = (pair(11)?, pair(14)?, pair(17)?);
        if text[10] != b' ' || text[13] != b':' || text[16] != b':' || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let microseconds = match &text[19..] {
            [] => 0,
            [b'.', digits @ ..] => parse_fraction(std::str::from_utf8(digits).ok()?).ok()?,
            _ => return None,
        };
        Some(((hour * 60 + minute) * 60 + second) * SECOND_US + microseconds)
    };
    Some(Decoded {
        date: Some((year, month, day)),
        time,
        ..Decoded::default()
    })
}

#[derive(Default)]
struct Decoder {
    special: Option<Special>,
    year: Option<(i64, usize)>,
    month: Option<i64>,
    /// Whether the month was given by name, so that the number before it is a day.
    month_by_name: bool,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    time: Option<i64>,
    afternoon: Option<bool>,
    before_christ: bool,
    zone: Option<Zone>,
    julian_prefix: bool,
    saw_date: bool,
    /// Whether bare digits are a time of day.
    time_wanted: bool,
    order: DateOrder,
}

impl Decoder {
    fn field(&mut self, field: Token<'_>, next: Option<Token<'_>>) -> Result<(), Fault> {
        match field {
            Token::Date(text) => self.date(text),
            Token::Time(text) => set(&mut self.time, parse_clock(text)?),
            Token::Number(text) => self.number(text),
            Token::Signed(text) => self.offset(text),
            Token::Word(word) => self.word(word, next),
            Token::Zone(name) => self.zone_name(name, true),
            Token::SignedWord { negative, word } if is_infinity(word) => set(
                &mut self.special,
                if negative {
                    Special::NegativeInfinity
                } else {
                    Special::Infinity
                },
            ),
            Token::SignedWord { .. } => Err(Fault::Syntax),
        }
    }

    fn offset(&mut self, text: &str) -> Result<(), Fault> {
        let offset = parse_offset(text).ok_or(Fault::Displacement)?;
        set(&mut self.zone, Zone::Offset(offset))
    }

    fn word(&mut self, word: &str, next: Option<Token<'_>>) -> Result<(), Fault> {
        let lower = word.to_ascii_lowercase();
        if let Some(month) = month_number(&lower) {
            self.month_by_name = true;
            // A number that was taken for the month was the day.
            if let (Some(number), None) = (self.month.take(), self.day) {
                self.day = Some(number);
            }
            return set(&mut self.month, month);
        }
        match lower.as_str() {
            "infinity" => return set(&mut self.special, Special::Infinity),
            "epoch" => return set(&mut self.special, Special::Epoch),
            "now" => return set(&mut self.special, Special::Now),
            "today" => return set(&mut self.special, Special::Day(0)),
            "tomorrow" => return set(&mut self.special, Special::Day(1)),
            "yesterday" => return set(&mut self.special, Special::Day(-1)),
            "allballs" => {
                self.zone = Some(Zone::Offset(0));
                return set(&mut self.time, 0);
            }
            "am" => return set(&mut self.afternoon, false),
            "pm" => return set(&mut self.afternoon, true),
            "bc" => {
                self.before_christ = true;
                return Ok(());
            }
            "ad" | "at" | "on" => return Ok(()),
            "t" if self.saw_date || self.year.is_some() || self.time_wanted => return Ok(()),
            "j" | "jd" | "julian" if matches!(next, Some(Token::Number(_))) => {
                self.julian_prefix = true;
                return Ok(());
            }
            _ if is_day_name(&lower) => return Ok(()),
            _ => {}
        }
        self.zone_name(word, false)
    }

    /// `is_surely` one if it can be nothing else by its form.
    fn zone_name(&mut self, word: &str, is_surely: bool) -> Result<(), Fault> {
        if word.eq_ignore_ascii_case("dst") {
            return self.daylight();
        }
        let zone = match TimeZone::from_words(word) {
            Some(zone) => zone
                .fixed_offset()
                .map_or_else(|| Zone::Named(zone.clone()), Zone::Offset),
            None if is_surely => return Err(Fault::UnknownZone(word.to_ascii_lowercase())),
            None => return Err(Fault::Syntax),
        };
        set(&mut self.zone, zone)
    }

    fn daylight(&mut self) -> Result<(), Fault> {
        match self.zone {
            Some(Zone::Offset(offset)) => {
                self.zone = Some(Zone::Offset(offset + 3600));
                Ok(())
            }
            _ => Err(Fault::Syntax),
        }
    }

    /// Whether a whole date has been read.
    fn has_date(&self) -> bool {
        self.saw_date || (self.year.is_some() && self.month.is_some() && self.day.is_some())
    }

    /// `040506-08`: a time of day and the distance of its zone.
    fn compact_time_in_zone(&mut self, text: &str) -> Result<(), Fault> {
        let (digits, west) = text.split_once('-').ok_or(Fault::Syntax)?;
        let is_number = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
        if self.time.is_some() || !matches!(digits.len(), 4 | 6) || !is_number(digits) || !is_number(west) {
            return Err(Fault::Syntax);
        }
        self.offset(&text[digits.len()..])?;
        self.compact_time(digits, None)
    }

    fn date(&mut self, text: &str) -> Result<(), Fault> {
        if self.has_date() {
            return self.compact_time_in_zone(text);
        }
        let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
        if let [year, day] = parts[..]
            && year.len() == 4
            && day.len() == 3
        {
            self.day_of_year = day.parse().ok();
            self.year = Some((parse_number(year)?, 4));
            self.saw_date = true;
            return Ok(());
        }
        if parts.len() != 3 || parts.iter().any(|part| part.is_empty()) {
            return Err(Fault::Syntax);
        }
        for part in &parts {
            if let Some(month) = month_number(part) {
                set(&mut self.month, month)?;
                self.month_by_name = true;
            }
        }
        for part in parts.iter().filter(|part| month_number(part).is_none()) {
            self.date_part(part)?;
        }
        self.saw_date = true;
        Ok(())
    }

    /// A number that is a year, month or day by its length and place: year first if it has three digits or more, else in the order
    /// of the DateStyle.
    fn date_part(&mut self, digits: &str) -> Result<(), Fault> {
        let value = parse_number(digits)?;
        let is_long = digits.len() >= 3;
        let is_first = self.year.is_none() && self.day.is_none() && (self.month.is_none() || self.month_by_name);
        if is_long && self.year.is_none() || is_first && self.order == DateOrder::YearMonthDay {
            self.year = Some((value, digits.len()));
        } else if is_first && self.order == DateOrder::DayMonthYear {
            self.day = Some(value);
        } else if let (true, true, None, Some((first, 1 | 2))) = (is_long, self.month_by_name, self.day, self.year) {
            // `31 Jan 2024`: what was taken for a year was the day.
            self.day = Some(first);
            self.year = Some((value, digits.len()));
        } else if self.month.is_none() {
            self.month = Some(value);
        } else if self.day.is_none() {
            self.day = Some(value);
        } else if self.year.is_none() {
            self.year = Some((value, digits.len()));
        } else {
            return Err(Fault::Syntax);
        }
        Ok(())
    }

    fn number(&mut self, text: &str) -> Result<(), Fault> {
        if self.julian_prefix && self.julian.is_none() {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            self.julian = Some(parse_number(whole)?);
            if !fraction.is_empty() {
                let part: f64 = format!("0.{fraction}").parse().map_err(|_| Fault::Syntax)?;
                self.time = Some((part * DAY_US as f64).round() as i64);
            }
            return Ok(());
        }
        let (digits, fraction) = text
            .split_once('.')
            .map_or((text, None), |(whole, part)| (whole, Some(part)));
        if (self.has_date() || self.time_wanted) && self.time.is_none() && matches!(digits.len(), 4 | 6) {
            return self.compact_time(digits, fraction);
        }
        let untouched = self.year.is_none() && self.month.is_none() && self.day.is_none();
        match fraction {
            Some(day) if untouched && digits.len() == 4 && day.len() == 3 => {
                self.year = Some((parse_number(digits)?, 4));
                self.day_of_year = Some(parse_number(day)?);
                self.saw_date = true;
                return Ok(());
            }
            Some(_) => return Err(Fault::Syntax),
            None => {}
        }
        if untouched && matches!(digits.len(), 6 | 8) {
            let (year, rest) = digits.split_at(digits.len() - 4);
            self.year = Some((parse_number(year)?, year.len()));
            self.month = Some(parse_number(&rest[..2])?);
            self.day = Some(parse_number(&rest[2..])?);
            self.saw_date = true;
            return Ok(());
        }
        if self.month_by_name
            && self.day.is_none()
            && digits.len() <= 2
            && (self.year.is_some() || self.order != DateOrder::YearMonthDay)
        {
            self.day = Some(parse_number(digits)?);
            return Ok(());
        }
        self.date_part(digits)
    }

    fn compact_time(&mut self, digits: &str, fraction: Option<&str>) -> Result<(), Fault> {
        let part = |at: usize| {
            if digits.len() > at {
                parse_number(&digits[at..at + 2])
            } else {
                Ok(0)
            }
        };
        let microseconds = parse_fraction(fraction.unwrap_or(""))?;
        set(&mut self.time, clock(part(0)?, part(2)?, part(4)?, microseconds)?)
    }

    fn finish(mut self) -> Result<Decoded, Fault> {
        if self.special.is_some() {
            let alone = self.year.is_none() && self.month.is_none() && self.day.is_none() && self.julian.is_none();
            let day = matches!(self.special, Some(Special::Day(_)));
            // A time of day behind `epoch` is read over.
            return if alone && (day || self.time.is_none() || self.special == Some(Special::Epoch)) {
                Ok(Decoded {
                    special: self.special,
                    date: None,
                    time: self.time()?,
                    zone: self.zone,
                })
            } else {
                Err(Fault::Syntax)
            };
        }
        let time = self.time()?;
        let date = self.calendar_date()?;
        if date.is_none() && time.is_none() {
            return Err(Fault::Syntax);
        }
        Ok(Decoded {
            special: None,
            date,
            time,
            zone: self.zone,
        })
    }

    fn time(&mut self) -> Result<Option<i64>, Fault> {
        let Some(time) = self.time else {
            return if self.afternoon.is_some() {
                Err(Fault::Syntax)
            } else {
                Ok(None)
            };
        };
        let half_day = DAY_US / 2;
        let hour = time / (3600 * SECOND_US);
        match self.afternoon {
            Some(_) if hour > 12 => Err(Fault::Field),
            Some(true) if hour != 12 => Ok(Some(time + half_day)),
            Some(false) if hour == 12 => Ok(Some(time - half_day)),
            _ => Ok(Some(time)),
        }
    }

    fn calendar_date(&self) -> Result<Option<(i64, i64, i64)>, Fault> {
        if let Some(julian) = self.julian {
            return Ok(Some(date_of(julian - 2_451_545)));
        }
        if self.year.is_none() && self.month.is_none() && self.day.is_none() {
            return if self.before_christ {
                Err(Fault::Syntax)
            } else {
                Ok(None)
            };
        }
        let Some((year, digits)) = self.year else {
            return Err(Fault::Syntax);
        };
        let year = match year {
            0 if self.before_christ || digits > 2 => return Err(Fault::Field),
            year if self.before_christ => 1 - year,
            year if digits <= 2 && year < 70 => year + 2000,
            year if digits <= 2 => year + 1900,
            year => year,
        };
        if let Some(day) = self.day_of_year {
            let longest = if month_length(year, 2) == 29 { 366 } else { 365 };
            if !(1..=longest).contains(&day) {
                return Err(Fault::Field);
            }
            return Ok(Some(date_of(super::calendar::days_of(year, 1, 1) + day - 1)));
        }
        let (Some(month), Some(day)) = (self.month, self.day) else {
            return Err(Fault::Syntax);
        };
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Fault::MonthOrDay);
        }
        if day > month_length(year, month) {
            return Err(Fault::Field);
        }
        Ok(Some((year, month, day)))
    }
}

fn is_infinity(word: &str) -> bool {
    word.eq_ignore_ascii_case("infinity")
}

/// Whether a word is one of dates rather than of zones.
pub(super) fn is_date_word(word: &str) -> bool {
    const OTHERS: [&str; 16] = [
        "t",
        "j",
        "jd",
        "julian",
        "am",
        "pm",
        "ad",
        "bc",
        "at",
        "on",
        "epoch",
        "now",
        "today",
        "tomorrow",
        "yesterday",
        "infinity",
    ];
    month_number(word).is_some() || is_day_name(word) || OTHERS.iter().any(|other| word.eq_ignore_ascii_case(other))
}

/// Each field may be given once.
fn set<T>(field: &mut Option<T>, value: T) -> Result<(), Fault> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::Syntax),
    }
}

fn parse_number(digits: &str) -> Result<i64, Fault> {
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    let digits = digits.trim_start_matches('0');
    if digits.len() > 10 {
        return Err(Fault::Field);
    }
    Ok(digits.bytes().fold(0, |sum, c| sum * 10 + i64::from(c - b'0')))
}

/// Microseconds of the digits after a point, rounded.
pub(super) fn parse_fraction(digits: &str) -> Result<i64, Fault> {
    if !digits.bytes().all(|c| c.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    let kept = digits
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(6)
        .fold(0, |sum, c| sum * 10 + i64::from(c - b'0'));
    let up = digits.as_bytes().get(6).is_some_and(|c| *c >= b'5');
    Ok(kept + i64::from(up))
}

/// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.fraction`, as microseconds since midnight.
fn parse_clock(text: &str) -> Result<i64, Fault> {
    let (clock_text, fraction) = text
        .split_once('.')
        .map_or((text, ""), |(clock_text, part)| (clock_text, part));
    let parts: Vec<&str> = clock_text.split(':').collect();
    let microseconds = parse_fraction(fraction)?;
    match parts[..] {
        [hour, minute] if !text.contains('.') => clock(parse_number(hour)?, parse_number(minute)?, 0, 0),
        // Two fields and a fraction are minutes and seconds.
        [minute, second] => clock(0, parse_number(minute)?, parse_number(second)?, microseconds),
        [hour, minute, second] => clock(
            parse_number(hour)?,
            parse_number(minute)?,
            parse_number(second)?,
            microseconds,
        ),
        _ => Err(Fault::Syntax),
    }
}

/// A time of day up to 24:00:00, with a second of 60 for a leap second.
fn clock(hour: i64, minute: i64, second: i64, microseconds: i64) -> Result<i64, Fault> {
    if hour > 24 || minute > 59 || second > 60 {
        return Err(Fault::Field);
    }
    let time = ((hour * 60 + minute) * 60 + second) * SECOND_US + microseconds;
    if time > DAY_US {
        return Err(Fault::Field);
    }
    Ok(time)
}
