//! `to_date` and `to_timestamp`: times read by PostgreSQL's patterns, by its rules for what separates and for what is missing.

use super::time_pattern::{DAYS, MONTHS, Piece, ROMAN, pieces};
use rubato_base::datetime::{self, SECOND_US, TimeZone};
use rubato_base::{Error, Result, SqlState};

/// The Julian day of 2000-01-01, from which dates are counted.
const EPOCH_JULIAN: i64 = 2_451_545;

/// Which of the two calendars a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calendar {
    Gregorian,
    IsoWeek,
}

/// What a text said. A field that it did not name is 0, as in PostgreSQL.
#[derive(Debug, Default)]
struct Reading {
    calendar: Option<Calendar>,
    year: i32,
    /// Digits that the pattern asks of the year.
    year_digits: usize,
    century: i32,
    before_christ: bool,
    month: i32,
    week: i32,
    week_of_month: i32,
    day: i32,
    day_of_year: i32,
    /// Sunday is 1.
    day_of_week: i32,
    julian: i32,
    hour: i32,
    half_day: bool,
    afternoon: bool,
    minute: i32,
    second: i32,
    second_of_day: i32,
    millisecond: i32,
    microsecond: i32,
    /// How many digits behind the point are kept.
    fraction_digits: Option<i32>,
    /// 0 where no zone is given.
    zone_sign: i32,
    zone_hour: i32,
    zone_minute: i32,
}

fn invalid(message: String, detail: &str) -> Error {
    Error::new(SqlState::INVALID_DATETIME_FORMAT, message).with_detail(detail)
}

fn overflow(text: &str) -> Error {
    let message = format!("date/time field value out of range: \"{text}\"");
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// 22007: none of the names is there.
fn no_name(word: &str, rest: &str) -> Error {
    let value = rest.split_whitespace().next().unwrap_or(rest);
    invalid(
        format!("invalid value \"{value}\" for \"{word}\""),
        "The given value did not match any of the allowed values for this field.",
    )
}

/// Takes one of the names, in any case: its place among them.
fn take_name<'n>(rest: &mut &str, word: &str, names: impl Iterator<Item = &'n str>) -> Result<usize> {
    for (place, name) in names.enumerate() {
        if rest
            .get(..name.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(name))
        {
            *rest = &rest[name.len()..];
            return Ok(place);
        }
    }
    Err(no_name(word, rest))
}

/// Takes the name of a month: its number.
pub(crate) fn take_month(rest: &mut &str, word: &str, short: bool) -> Result<i32> {
    *rest = rest.trim_start();
    let names = MONTHS.iter().map(|name| if short { &name[..3] } else { name });
    take_name(rest, word, names).map(|place| place as i32 + 1)
}

/// A number as C reads it, with a sign: its value and how many bytes it takes.
fn number_at(text: &str) -> Option<(i64, usize)> {
    let blanks = text.len() - text.trim_start().len();
    let sign = usize::from(text[blanks..].starts_with(['-', '+']));
    let digits = text[blanks + sign..].bytes().take_while(u8::is_ascii_digit).count();
    let end = blanks + sign + digits;
    let number = text[blanks..end].parse().unwrap_or(i64::MAX);
    (digits > 0).then_some((number, end))
}

/// A field of the pattern, and whether its digits end where others begin.
struct Field<'a> {
    word: &'static str,
    fill: bool,
    ordinal: bool,
    next: Option<&'a Piece<'a>>,
}

impl Field<'_> {
    /// Whether what follows is nothing that a number could go on with.
    fn is_open(&self) -> bool {
        let is_digits = |word: &str| {
            let names = [
                "MON", "DAY", "DY", "RM", "TZ", "OF", "AM", "PM", "AD", "BC", "A.", "P.", "B.",
            ];
            word == "TZM" || !names.iter().any(|name| word.to_ascii_uppercase().starts_with(name))
        };
        self.ordinal
            || !self.fill
            || match self.next {
                None => true,
                Some(Piece::Keyword { word, .. }) => !is_digits(word),
                Some(Piece::Literal(text) | Piece::Quoted(text)) => {
                    !text.starts_with(|letter: char| letter.is_ascii_digit())
                }
            }
    }

    /// Takes a number of so many digits: its value, and how many bytes it took.
    fn take_number(&self, rest: &mut &str, digits: usize) -> Result<(i32, usize)> {
        let word = self.word;
        *rest = rest.trim_start();
        let cut = rest.char_indices().nth(digits).map_or(rest.len(), |(place, _)| place);
        let head = &rest[..cut];
        let no_integer = || {
            invalid(
                format!("invalid value \"{head}\" for \"{word}\""),
                "Value must be an integer.",
            )
        };
        let (number, used) = if self.is_open() {
            number_at(rest).ok_or_else(no_integer)?
        } else {
            if head.len() < digits {
                let message = format!("source string too short for \"{word}\" formatting field");
                let detail = format!("Field requires {digits} characters, but only {} remain.", head.len());
                return Err(invalid(message, &detail).with_hint(NOT_FIXED));
            }
            let (number, used) = number_at(head).ok_or_else(no_integer)?;
            if used < digits {
                let message = format!("invalid value \"{head}\" for \"{word}\"");
                let detail = format!("Field requires {digits} characters, but only {used} could be parsed.");
                return Err(invalid(message, &detail).with_hint(NOT_FIXED));
            }
            (number, used)
        };
        let number = i32::try_from(number).map_err(|_| {
            let message = format!("value for \"{word}\" in source string is out of range");
            let detail = "Value must be in the range -2147483648 to 2147483647.";
            Error::new(SqlState::DATETIME_FIELD_OVERFLOW, message).with_detail(detail)
        })?;
        *rest = &rest[used..];
        Ok((number, used))
    }

    /// Takes a number into a field of the reading. 22007 where it says otherwise already.
    fn set(&self, rest: &mut &str, digits: usize, field: &mut i32) -> Result<usize> {
        let (number, used) = self.take_number(rest, digits)?;
        self.put(number, field)?;
        Ok(used)
    }

    fn put(&self, number: i32, field: &mut i32) -> Result<()> {
        if *field != 0 && *field != number {
            let message = format!("conflicting values for \"{}\" field in formatting string", self.word);
            return Err(invalid(
                message,
                "This value contradicts a previous setting for the same field type.",
            ));
        }
        *field = number;
        Ok(())
    }
}

const NOT_FIXED: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// A year of few digits, as the one of its kind that is next to 2020.
fn next_to_2020(year: i32) -> i32 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

impl Reading {
    fn uses(&mut self, calendar: Calendar) -> Result<()> {
        if self.calendar.is_some_and(|own| own != calendar) {
            let error = Error::new(
                SqlState::INVALID_DATETIME_FORMAT,
                "invalid combination of date conventions",
            );
            let hint = "Do not mix Gregorian and ISO week date conventions in a formatting template.";
            return Err(error.with_hint(hint));
        }
        self.calendar = Some(calendar);
        Ok(())
    }

    /// `skipped` is how many characters more than the pattern has were skipped before.
    fn field(&mut self, field: &Field<'_>, rest: &mut &str, whole: &str, skipped: i32) -> Result<()> {
        let word = field.word;
        match word {
            "YYYY" | "YYY" | "YY" | "Y" | "Y,YYY" | "DDD" | "DD" | "D" | "MM" | "WW" | "W" => {
                self.uses(Calendar::Gregorian)?
            }
            "MONTH" | "Month" | "month" | "MON" | "Mon" | "mon" | "RM" | "rm" => self.uses(Calendar::Gregorian)?,
            "IYYY" | "IYY" | "IY" | "I" | "IDDD" | "ID" | "IW" => self.uses(Calendar::IsoWeek)?,
            _ => {}
        }
        match word {
            "HH" | "HH12" | "HH24" | "MI" | "SS" | "SSSS" | "SSSSS" | "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4"
            | "FF5" | "FF6" => self.time_field(field, rest),
            "AM" | "PM" | "am" | "pm" => self.half(take_name(rest, word, ["am", "pm"].into_iter())?),
            "A.M." | "P.M." | "a.m." | "p.m." => self.half(take_name(rest, word, ["a.m.", "p.m."].into_iter())?),
            "TZH" => {
                self.zone_sign = match rest.as_bytes().first() {
                    Some(b'-') => -1,
                    Some(b'+' | b' ') => 1,
                    // A minus may have passed for a separator.
                    _ if skipped > 0 && whole[..whole.len() - rest.len()].ends_with('-') => -1,
                    _ => 1,
                };
                *rest = rest.strip_prefix(['-', '+', ' ']).unwrap_or(rest);
                field.set(rest, 2, &mut self.zone_hour).map(drop)
            }
            "TZM" => {
                self.zone_sign = if self.zone_sign == 0 { 1 } else { self.zone_sign };
                field.set(rest, 2, &mut self.zone_minute).map(drop)
            }
            "TZ" | "tz" | "OF" => {
                let message = format!("formatting field \"{word}\" is only supported in to_char");
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            _ => self.date_field(field, rest),
        }
    }

    fn half(&mut self, place: usize) -> Result<()> {
        (self.half_day, self.afternoon) = (true, place == 1);
        Ok(())
    }

    fn time_field(&mut self, field: &Field<'_>, rest: &mut &str) -> Result<()> {
        match field.word {
            "HH24" => field.set(rest, 2, &mut self.hour)?,
            "HH" | "HH12" => {
                self.half_day = true;
                field.set(rest, 2, &mut self.hour)?
            }
            "MI" => field.set(rest, 2, &mut self.minute)?,
            "SS" => field.set(rest, 2, &mut self.second)?,
            "MS" => {
                let (number, digits) = field.take_number(rest, 3)?;
                // Digits after the point: .5 is 500 milliseconds.
                let scale = [1, 100, 10].get(digits).copied().unwrap_or(1);
                field.put(number * scale, &mut self.millisecond)?;
                0
            }
            "SSSS" | "SSSSS" => field.set(rest, 5, &mut self.second_of_day)?,
            word => {
                let width = word.strip_prefix("FF").and_then(|width| width.parse().ok());
                self.fraction_digits = width.or(self.fraction_digits);
                let (number, digits) = field.take_number(rest, width.unwrap_or(6) as usize)?;
                let scale = 10_i32.pow(6_usize.saturating_sub(digits) as u32);
                field.put(number.saturating_mul(scale), &mut self.microsecond)?;
                0
            }
        };
        Ok(())
    }

    fn date_field(&mut self, field: &Field<'_>, rest: &mut &str) -> Result<()> {
        let word = field.word;
        match word {
            "YYYY" | "IYYY" | "YYY" | "IYY" | "YY" | "IY" | "Y" | "I" => {
                let width = word.len();
                let (year, digits) = field.take_number(rest, width)?;
                let year = if width < 4 && digits < 4 {
                    next_to_2020(year)
                } else {
                    year
                };
                field.put(year, &mut self.year)?;
                self.year_digits = width;
            }
            "Y,YYY" => {
                let parts = rest.split_once(',').and_then(|(thousands, behind)| {
                    let (low, used) = number_at(behind)?;
                    let thousands = thousands.trim_start().parse::<i32>().ok()?;
                    let year = thousands.checked_mul(1000)?.checked_add(i32::try_from(low).ok()?)?;
                    Some((year, &behind[used..]))
                });
                let invalid = || Error::new(SqlState::INVALID_DATETIME_FORMAT, "invalid input string for \"Y,YYY\"");
                let (year, behind) = parts.ok_or_else(invalid)?;
                field.put(year, &mut self.year)?;
                (self.year_digits, *rest) = (4, behind);
            }
            "CC" => drop(field.set(rest, 2, &mut self.century)?),
            "AD" | "BC" | "ad" | "bc" => {
                self.before_christ = take_name(rest, word, ["ad", "bc"].into_iter())? == 1;
            }
            "A.D." | "B.C." | "a.d." | "b.c." => {
                self.before_christ = take_name(rest, word, ["a.d.", "b.c."].into_iter())? == 1;
            }
            "MONTH" | "Month" | "month" => field.put(take_month(rest, word, false)?, &mut self.month)?,
            "MON" | "Mon" | "mon" => field.put(take_month(rest, word, true)?, &mut self.month)?,
            "RM" | "rm" => {
                // VIII before VII before VI.
                let mut longest: Vec<usize> = (0..ROMAN.len()).collect();
                longest.sort_by_key(|place| std::cmp::Reverse(ROMAN[*place].len()));
                let place = take_name(rest, word, longest.iter().map(|place| ROMAN[*place]))?;
                field.put(longest[place] as i32 + 1, &mut self.month)?;
            }
            "MM" => drop(field.set(rest, 2, &mut self.month)?),
            "DD" => drop(field.set(rest, 2, &mut self.day)?),
            "DDD" | "IDDD" => drop(field.set(rest, 3, &mut self.day_of_year)?),
            "D" => drop(field.set(rest, 1, &mut self.day_of_week)?),
            "ID" => {
                let (day, _) = field.take_number(rest, 1)?;
                field.put(if day == 7 { 1 } else { day + 1 }, &mut self.day_of_week)?;
            }
            "DAY" | "Day" | "day" => {
                let place = take_name(rest, word, DAYS.iter().copied())?;
                field.put(place as i32 + 1, &mut self.day_of_week)?;
            }
            "DY" | "Dy" | "dy" => {
                let place = take_name(rest, word, DAYS.iter().map(|name| &name[..3]))?;
                field.put(place as i32 + 1, &mut self.day_of_week)?;
            }
            "WW" | "IW" => drop(field.set(rest, 2, &mut self.week)?),
            "W" => drop(field.set(rest, 1, &mut self.week_of_month)?),
            "J" => {
                let (day, used) = number_at(rest).ok_or_else(|| {
                    let message = format!("invalid value \"{rest}\" for \"J\"");
                    invalid(message, "Value must be an integer.")
                })?;
                self.julian = i32::try_from(day).unwrap_or(i32::MAX);
                *rest = &rest[used..];
            }
            // Of which day in the quarter nothing is said: PostgreSQL reads it and does no more.
            "Q" => drop(field.take_number(rest, 1)?),
            _ => {
                return Err(Error::unsupported(format!(
                    "pattern \"{word}\" in the reading of a time"
                )));
            }
        }
        Ok(())
    }

    /// The year, 1 BC being 0, as PostgreSQL makes it of year, century and era.
    fn full_year(&self) -> i32 {
        let century = if self.before_christ {
            -self.century
        } else {
            self.century
        };
        if self.year == 0 {
            return match century {
                0 => 0,
                1.. => (century - 1).saturating_mul(100) + 1,
                _ => century.saturating_mul(100) + 1,
            };
        }
        if century != 0 && self.year_digits <= 2 {
            let year = self.year % 100;
            return match (year, century) {
                (0, 0..) => century.saturating_mul(100),
                (0, _) => century.saturating_mul(100) + 1,
                (_, 0..) => (century - 1).saturating_mul(100) + year,
                _ => (century + 1).saturating_mul(100) - year + 1,
            };
        }
        let year = if self.before_christ { -self.year } else { self.year };
        if year < 0 { year + 1 } else { year }
    }

    /// The day, in days since 2000-01-01.
    fn date(&self, text: &str) -> Result<i32> {
        let year = self.full_year();
        let day_of = |year: i32, month: i32, day: i32| {
            let shown = if year <= 0 { year - 1 } else { year };
            datetime::make_date(shown, month, day).map_err(|_| overflow(text))
        };
        let plus = |date: i32, days: i64| datetime::date_plus_days(date, days).map_err(|_| overflow(text));
        let iso_monday = |week: i64| {
            let fourth = day_of(year, 1, 4)?;
            // 2000-01-03 was a Monday.
            let since_monday = (i64::from(fourth) - 2).rem_euclid(7);
            plus(fourth, (week - 1) * 7 - since_monday)
        };
        let is_iso = self.calendar == Some(Calendar::IsoWeek);
        if self.week != 0 && is_iso {
            let day = match self.day_of_week {
                0 => 0,
                1 => 6,
                day => i64::from(day) - 2,
            };
            return plus(iso_monday(self.week.into())?, day);
        }
        if self.julian != 0 && self.week == 0 {
            let days = i64::from(self.julian) - EPOCH_JULIAN;
            return plus(0, days);
        }
        let day_of_year = match self.week {
            0 => i64::from(self.day_of_year),
            week => (i64::from(week) - 1) * 7 + 1,
        };
        let day = match self.week_of_month {
            0 => self.day,
            week => (week - 1).saturating_mul(7).saturating_add(1),
        };
        if day_of_year != 0 && (self.month <= 1 || day <= 1) {
            if self.year == 0 && self.century == 0 && !self.before_christ {
                let message = "cannot calculate day of year without year information";
                return Err(Error::new(SqlState::INVALID_DATETIME_FORMAT, message));
            }
            if is_iso {
                return plus(iso_monday(1)?, day_of_year - 1);
            }
            let first = day_of(year, 1, 1)?;
            let found = plus(first, day_of_year - 1)?;
            let is_within = day_of_year > 0 && found < day_of(year + 1, 1, 1)?;
            return if is_within { Ok(found) } else { Err(overflow(text)) };
        }
        let or_one = |number: i32| if number == 0 { 1 } else { number };
        day_of(year, or_one(self.month), or_one(day))
    }

    /// Microseconds since midnight.
    fn time_us(&self, text: &str) -> Result<i64> {
        let fraction_us = i64::from(self.millisecond) * 1000 + i64::from(self.microsecond);
        let is_valid = (0..60).contains(&self.minute) && (0..60).contains(&self.second);
        if !is_valid || !(0..SECOND_US).contains(&fraction_us) || !(0..86_400).contains(&self.second_of_day) {
            return Err(overflow(text));
        }
        // Where both are given, each says what it names.
        let named = |own: i32, other: i32| i64::from(if own == 0 { other } else { own });
        let hour = named(self.full_hour(text)?, self.second_of_day / 3600);
        let minute = named(self.minute, self.second_of_day / 60 % 60);
        let second = named(self.second, self.second_of_day % 60);
        let seconds = hour * 3600 + minute * 60 + second;
        Ok(seconds * SECOND_US + fraction_us)
    }

    /// The hour from 0 to 23.
    fn full_hour(&self, text: &str) -> Result<i32> {
        let hour = self.hour;
        if !self.half_day {
            return if (0..24).contains(&hour) {
                Ok(hour)
            } else {
                Err(overflow(text))
            };
        }
        if !(1..=12).contains(&hour) {
            let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
            let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
            return Err(Error::new(SqlState::INVALID_DATETIME_FORMAT, message).with_hint(hint));
        }
        Ok(hour % 12 + if self.afternoon { 12 } else { 0 })
    }

    /// The zone that the text named, in microseconds east of UTC.
    fn zone_us(&self) -> Result<Option<i64>> {
        if self.zone_sign == 0 {
            return Ok(None);
        }
        let is_valid = (0..16).contains(&self.zone_hour) && (0..60).contains(&self.zone_minute);
        if !is_valid {
            let message = "time zone displacement out of range";
            return Err(Error::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, message));
        }
        let minutes = i64::from(self.zone_sign * (self.zone_hour * 60 + self.zone_minute));
        Ok(Some(minutes * 60 * SECOND_US))
    }
}

/// Drops the first character, if there is one.
fn skip_one(rest: &mut &str) {
    let mut letters = rest.chars();
    letters.next();
    *rest = letters.as_str();
}

fn is_separator(letter: char) -> bool {
    letter == ' ' || letter.is_ascii_punctuation()
}

/// Reads a text by a pattern. What separates in the pattern stands for one separator or none, other letters for one character each; blanks
/// before fields are skipped. The text may end before the pattern does.
fn read(text: &str, pattern: &str) -> Result<Reading> {
    let mut reading = Reading::default();
    let pieces = pieces(pattern);
    let mut rest = text.trim_start();
    // How many characters more than the pattern has were skipped.
    let mut skipped = (text.chars().count() - rest.chars().count()) as i32;
    for (place, piece) in pieces.iter().enumerate() {
        if rest.is_empty() {
            break;
        }
        match piece {
            Piece::Literal(own) if own.starts_with(is_separator) => {
                skipped -= 1;
                if rest.starts_with(|letter: char| letter.is_whitespace() || is_separator(letter)) {
                    skip_one(&mut rest);
                    skipped += 1;
                }
            }
            Piece::Literal(own) | Piece::Quoted(own) => {
                for _ in own.chars() {
                    match skipped > 0 {
                        true => skipped -= 1,
                        false => skip_one(&mut rest),
                    }
                }
            }
            Piece::Keyword { word, fill, ordinal } => {
                let blanks = rest.len() - rest.trim_start().len();
                skipped += rest[..blanks].chars().count() as i32;
                rest = &rest[blanks..];
                let field = Field {
                    word,
                    fill: *fill,
                    ordinal: ordinal.is_some(),
                    next: pieces.get(place + 1),
                };
                reading.field(&field, &mut rest, text, skipped)?;
                if field.ordinal {
                    skip_one(&mut rest);
                    skip_one(&mut rest);
                }
            }
        }
    }
    Ok(reading)
}

/// `to_date`: days since 2000-01-01.
pub(super) fn to_date(text: &str, pattern: &str) -> Result<i32> {
    let reading = read(text, pattern)?;
    // What it says of the time is checked too.
    reading.time_us(text)?;
    reading.date(text)
}

/// `to_timestamp`: microseconds since 2000-01-01 in UTC.
pub(super) fn to_timestamp(text: &str, pattern: &str, zone: &TimeZone) -> Result<i64> {
    let reading = read(text, pattern)?;
    let time_us = reading.time_us(text)?;
    let local = datetime::date_to_timestamp(reading.date(text)?)? + time_us;
    let time = match reading.zone_us()? {
        Some(east_us) => local - east_us,
        None => datetime::timestamp_to_timestamptz(local, zone)?,
    };
    Ok(datetime::round_to_digits(time, reading.fraction_digits.unwrap_or(-1)))
}
