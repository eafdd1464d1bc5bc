//! Times that `.datetime()` reads, in the strict manner of the standard.

use ecow::EcoString;
use rubato_base::datetime::{self, DAY_US, SECOND_US};
use rubato_base::{Error, Result, SqlState};

/// A day or a time. Offsets are in seconds east of UTC.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    Date(i32),
    Time(i64),
    TimeTz(i64, i32),
    Timestamp(i64),
    TimestampTz(i64, i32),
}

/// Fields of templates, longer names first, and whether digits may follow each other across them without a separator.
const FIELDS: [(&str, bool); 34] = [
    ("SSSSS", true),
    ("MONTH", false),
    ("YYYY", true),
    ("RRRR", true),
    ("HH24", true),
    ("HH12", true),
    ("SSSS", true),
    ("A.M.", false),
    ("P.M.", false),
    ("YYY", true),
    ("DDD", true),
    ("FF1", false),
    ("FF2", false),
    ("FF3", false),
    ("FF4", false),
    ("FF5", false),
    ("FF6", false),
    ("TZH", false),
    ("TZM", true),
    ("MON", false),
    ("YY", true),
    ("RR", true),
    ("MM", true),
    ("DD", true),
    ("HH", true),
    ("MI", true),
    ("SS", true),
    ("MS", true),
    ("US", true),
    ("AM", false),
    ("PM", false),
    ("Y", true),
    ("J", true),
    ("D", true),
];

/// A piece of a template.
enum Piece<'a> {
    Field(&'static str, &'a str),
    /// A separator, which the text must have.
    Separator(char),
    /// A character in quotes.
    Letter(char),
}

impl Piece<'_> {
    /// Whether a number before it ends where it begins, whatever it is.
    fn separates(&self) -> bool {
        match self {
            Piece::Field(name, _) => FIELDS.iter().any(|(own, is_digit)| own == name && !is_digit),
            Piece::Letter(letter) => !letter.is_ascii_digit(),
            Piece::Separator(_) => true,
        }
    }
}

fn format_error(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

fn pieces(template: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(letter) = rest.chars().next() {
        let begins = |name: &str| {
            rest.get(..name.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(name))
        };
        if let Some((name, _)) = FIELDS.iter().find(|(name, _)| begins(name)) {
            if matches!(*name, "J" | "D") {
                return Err(Error::unsupported(format!("pattern \"{name}\" of .datetime()")));
            }
            pieces.push(Piece::Field(name, &rest[..name.len()]));
            rest = &rest[name.len()..];
        } else if letter == '"' {
            let inside = &rest[1..];
            let end = inside.find('"').unwrap_or(inside.len());
            pieces.extend(inside[..end].chars().map(Piece::Letter));
            rest = inside.get(end + 1..).unwrap_or("");
        } else if "-./,':; ".contains(letter) {
            pieces.push(Piece::Separator(letter));
            rest = &rest[1..];
        } else {
            return Err(format_error(format!("invalid datetime format separator: \"{letter}\"")));
        }
    }
    Ok(pieces)
}

/// What a text says.
#[derive(Default)]
struct Reading {
    year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    day_of_year: Option<i32>,
    hour: i32,
    minute: i32,
    second: i32,
    seconds_of_day: Option<i32>,
    microsecond: i64,
    is_12_hours: bool,
    is_afternoon: bool,
    east: i32,
    zone_hour: i32,
    zone_minute: i32,
    is_dated: bool,
    is_timed: bool,
    is_zoned: bool,
}

/// Takes a number, of so many characters or up to what is no digit; how many digits it has.
fn take_number(rest: &mut &str, width: usize, is_open: bool, field: &str) -> Result<(i32, usize)> {
    let trimmed = rest.trim_start();
    let invalid = |detail: String| {
        let shown: String = trimmed.chars().take(width).collect();
        let message = format!("invalid value \"{shown}\" for \"{field}\"");
        format_error(message).with_detail(detail)
    };
    let window = if is_open {
        trimmed
    } else {
        trimmed.get(..width).unwrap_or(trimmed)
    };
    if !is_open && trimmed.len() < width {
        let message = format!("source string too short for \"{field}\" formatting field");
        let detail = format!("Field requires {width} characters, but only {} remain.", trimmed.len());
        return Err(format_error(message)
            .with_detail(detail)
            .with_hint("If your source string is not fixed-width, try using the \"FM\" modifier."));
    }
    let sign = usize::from(window.starts_with(['+', '-']));
    let digits = window[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(invalid("Value must be an integer.".to_owned()));
    }
    let used = sign + digits;
    if !is_open && used < width {
        let detail = format!("Field requires {width} characters, but only {used} could be parsed.");
        return Err(
            invalid(detail).with_hint("If your source string is not fixed-width, try using the \"FM\" modifier.")
        );
    }
    let number = window[..used].parse().map_err(|_| {
        let message = format!("value for \"{field}\" in source string is out of range");
        let detail = "Value must be in the range -2147483648 to 2147483647.";
        Error::new(SqlState::DATETIME_FIELD_OVERFLOW, message).with_detail(detail)
    })?;
    *rest = &trimmed[used..];
    Ok((number, used))
}

/// The year nearest to 2020 that ends with these digits.
fn whole_year(year: i32, digits: usize) -> i32 {
    match (digits, year) {
        (2, ..70) => year + 2000,
        (2, 70..100) => year + 1900,
        (3, 100..520) => year + 2000,
        (3, 520..1000) => year + 1000,
        (1, _) | (3, ..100) => year + 2000,
        _ => year,
    }
}

fn read(text: &str, template: &str) -> Result<Reading> {
    let pieces = pieces(template)?;
    let mut reading = Reading {
        east: 1,
        ..Reading::default()
    };
    for piece in &pieces {
        if let Piece::Field(name, _) = piece {
            note(&mut reading, name);
        }
    }
    let mut rest = text;
    for (place, piece) in pieces.iter().enumerate() {
        let Some(letter) = rest.chars().next() else {
            return Err(format_error("input string is too short for datetime format"));
        };
        match piece {
            Piece::Separator(wanted) if letter != *wanted => {
                return Err(format_error(format!("unmatched format separator \"{wanted}\"")));
            }
            Piece::Letter(wanted) if letter != *wanted => {
                return Err(format_error(format!("unmatched format character \"{wanted}\"")));
            }
            Piece::Separator(_) | Piece::Letter(_) => rest = &rest[letter.len_utf8()..],
            Piece::Field(name, written) => {
                let is_open = pieces.get(place + 1).is_none_or(Piece::separates);
                read_field(&mut reading, (name, written), &mut rest, is_open)?;
            }
        }
    }
    if !pieces.is_empty() && !rest.trim_start().is_empty() {
        let message = "trailing characters remain in input string after datetime format";
        return Err(format_error(message));
    }
    Ok(reading)
}

/// What a field says of the kind of time.
fn note(reading: &mut Reading, name: &str) {
    match name {
        "TZH" | "TZM" => reading.is_zoned = true,
        "YYYY" | "YYY" | "YY" | "Y" | "RRRR" | "RR" | "MM" | "MON" | "MONTH" | "DD" | "DDD" => reading.is_dated = true,
        _ => reading.is_timed = true,
    }
}

fn read_field(reading: &mut Reading, (name, written): (&str, &str), rest: &mut &str, is_open: bool) -> Result<()> {
    let mut number = |width: usize| take_number(rest, width, is_open, written);
    match name {
        "YYYY" | "RRRR" => {
            let (year, digits) = number(4)?;
            reading.year = Some(if name == "RRRR" && digits < 4 {
                whole_year(year, digits)
            } else {
                year
            });
        }
        "YYY" | "YY" | "Y" | "RR" => {
            let (year, digits) = number(name.len())?;
            reading.year = Some(whole_year(year, digits));
        }
        "MM" => reading.month = Some(number(2)?.0),
        "DD" => reading.day = Some(number(2)?.0),
        "DDD" => reading.day_of_year = Some(number(3)?.0),
        "HH24" => reading.hour = number(2)?.0,
        "HH12" | "HH" => {
            reading.is_12_hours = true;
            reading.hour = number(2)?.0;
        }
        "MI" => reading.minute = number(2)?.0,
        "SS" => reading.second = number(2)?.0,
        "SSSS" | "SSSSS" => reading.seconds_of_day = Some(number(5)?.0),
        "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
            let width = match name {
                "MS" => 3,
                "US" => 6,
                other => usize::from(other.as_bytes()[2] - b'0'),
            };
            let (fraction, digits) = number(width)?;
            let scale = 6_u32.checked_sub(digits as u32).ok_or_else(|| out_of_range(written))?;
            reading.microsecond = i64::from(fraction) * 10_i64.pow(scale);
        }
        "AM" | "PM" | "A.M." | "P.M." => {
            reading.is_12_hours = true;
            reading.is_afternoon = take_half(rest, name.len(), written)?;
        }
        "MON" | "MONTH" => reading.month = Some(super::super::functions::take_month(rest, written, name == "MON")?),
        "TZH" => {
            let sign = rest.chars().next().filter(|sign| matches!(sign, '+' | '-' | ' '));
            reading.east = if sign == Some('-') { -1 } else { 1 };
            *rest = &rest[usize::from(sign.is_some())..];
            reading.zone_hour = take_number(rest, 2, is_open, written)?.0;
        }
        _ => reading.zone_minute = number(2)?.0,
    }
    Ok(())
}

fn take_half(rest: &mut &str, width: usize, written: &str) -> Result<bool> {
    let head = rest.get(..width).unwrap_or("").to_ascii_uppercase();
    let is_afternoon = match head.replace('.', "").as_str() {
        "AM" => false,
        "PM" => true,
        _ => {
            let shown: String = rest.chars().take(width).collect();
            let message = format!("invalid value \"{shown}\" for \"{written}\"");
            let detail = "The given value did not match any of the allowed values for this field.";
            return Err(format_error(message).with_detail(detail));
        }
    };
    *rest = &rest[width..];
    Ok(is_afternoon)
}

fn out_of_range(text: &str) -> Error {
    let message = format!("date/time field value out of range: \"{text}\"");
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

impl Reading {
    fn date(&self, text: &str) -> Result<i32> {
        let year = self.year.unwrap_or(0);
        let first = |month: i32, day: i32| match year {
            // Without a year it is the year 1 BC.
            0 => datetime::make_date(-1, month, day),
            year => datetime::make_date(year, month, day),
        };
        match self.day_of_year {
            Some(day) => datetime::date_plus_days(first(1, 1)?, i64::from(day) - 1),
            None => first(self.month.unwrap_or(1), self.day.unwrap_or(1)),
        }
        .map_err(|_| out_of_range(text))
    }

    fn time(&self, text: &str) -> Result<i64> {
        let mut hour = self.hour;
        if self.is_12_hours {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(format_error(message).with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if self.is_afternoon { 12 } else { 0 };
        }
        let (hour, minute, second) = match self.seconds_of_day {
            Some(seconds) => (seconds / 3600, seconds / 60 % 60, seconds % 60),
            None => (hour, self.minute, self.second),
        };
        let fits = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        let fits = fits && (0..SECOND_US).contains(&self.microsecond);
        let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
        if fits {
            Ok(seconds * SECOND_US + self.microsecond)
        } else {
            Err(out_of_range(text))
        }
    }

    fn offset(&self, text: &str) -> Result<i32> {
        let fits = (0..16).contains(&self.zone_hour) && (0..60).contains(&self.zone_minute);
        let seconds = self
            .zone_hour
            .saturating_mul(60)
            .saturating_add(self.zone_minute)
            .saturating_mul(60);
        if fits {
            Ok(self.east * seconds)
        } else {
            Err(out_of_range(text))
        }
    }

    fn moment(&self, text: &str) -> Result<Moment> {
        match (self.is_dated, self.is_timed, self.is_zoned) {
            (true, true, is_zoned) => {
                let local = i64::from(self.date(text)?)
                    .checked_mul(DAY_US)
                    .and_then(|midnight| midnight.checked_add(self.time(text).ok()?))
                    .filter(|local| datetime::is_timestamp(*local))
                    .ok_or_else(|| out_of_range(text))?;
                self.time(text)?;
                if !is_zoned {
                    return Ok(Moment::Timestamp(local));
                }
                let east_s = self.offset(text)?;
                Ok(Moment::TimestampTz(local - i64::from(east_s) * SECOND_US, east_s))
            }
            (true, false, true) => Err(format_error("datetime format is zoned but not timed")),
            (true, false, false) => self.date(text).map(Moment::Date),
            (false, true, false) => self.time(text).map(Moment::Time),
            (false, true, true) => Ok(Moment::TimeTz(self.time(text)?, self.offset(text)?)),
            (false, false, _) => Err(format_error("datetime format is not dated and not timed")),
        }
    }
}

impl Moment {
    /// Reads a text by a template. 22007 and 22008 where it does not fit.
    pub fn read(text: &str, template: &str) -> Result<Moment> {
        read(text, template)?.moment(text)
    }

    /// Reads a text in one of the forms of ISO 8601.
    pub fn read_standard(text: &str) -> Option<Moment> {
        if let Ok(date) = Moment::read(text, "yyyy-mm-dd") {
            return Some(date);
        }
        for day in ["", "yyyy-mm-dd ", "yyyy-mm-dd\"T\""] {
            for fraction in [".US", ""] {
                for zone in ["TZH:TZM", "TZH", ""] {
                    let template = format!("{day}HH24:MI:SS{fraction}{zone}");
                    if let Ok(moment) = Moment::read(text, &template) {
                        return Some(moment);
                    }
                }
            }
        }
        None
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Moment::Date(_) => "date",
            Moment::Time(_) => "time without time zone",
            Moment::TimeTz(..) => "time with time zone",
            Moment::Timestamp(_) => "timestamp without time zone",
            Moment::TimestampTz(..) => "timestamp with time zone",
        }
    }

    /// Its text in a document.
    pub fn to_text(self) -> EcoString {
        let mut out = Vec::new();
        let mut offset = None;
        match self {
            Moment::Date(date) => datetime::write_date(date, &mut out),
            Moment::Time(time) => datetime::write_time(time, &mut out),
            Moment::TimeTz(time, east_s) => {
                datetime::write_time(time, &mut out);
                offset = Some(east_s);
            }
            Moment::Timestamp(local) => datetime::write_timestamp(local, &mut out),
            Moment::TimestampTz(timestamp, east_s) => {
                datetime::write_timestamp(timestamp + i64::from(east_s) * SECOND_US, &mut out);
                offset = Some(east_s);
            }
        }
        let text = String::from_utf8_lossy(&out);
        let (text, era) = text.strip_suffix(" BC").map_or((&*text, ""), |text| (text, " BC"));
        let offset = offset.map_or(String::new(), |east_s| {
            let sign = if east_s < 0 { '-' } else { '+' };
            format!("{sign}{:02}:{:02}", east_s.abs() / 3600, east_s.abs() / 60 % 60)
        });
        EcoString::from(format!("{}{offset}{era}", text.replacen(' ', "T", 1)))
    }
}
