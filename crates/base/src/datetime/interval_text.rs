//! Reading intervals.

use super::decode::{Fault, parse_fraction};
use super::{DAY_US, HOUR_US, Interval, MINUTE_US, SECOND_US};
use std::borrow::Cow;

/// A unit of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    /// As in PostgreSQL, no more than ten letters count.
    fn from_word(word: &str) -> Option<Unit> {
        Some(match word.get(..10).unwrap_or(word) {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennium" | "millennia" => Unit::Millennium,
            _ => return None,
        })
    }

    /// A unit of ISO 8601 by its letter, which means another thing after the `T`.
    fn from_letter(letter: u8, after_t: bool) -> Option<Unit> {
        Some(match (letter, after_t) {
            (b'Y', false) => Unit::Year,
            (b'M', false) => Unit::Month,
            (b'W', false) => Unit::Week,
            (b'D', false) => Unit::Day,
            (b'H', true) => Unit::Hour,
            (b'M', true) => Unit::Minute,
            (b'S', true) => Unit::Second,
            _ => return None,
        })
    }
}

/// What a second with a fraction gives.
const ALL_OF_A_SECOND: [Unit; 3] = [Unit::Second, Unit::Millisecond, Unit::Microsecond];

/// Reads an interval.
pub(super) fn decode_interval(text: &str) -> Result<Interval, Fault> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    if let Some(rest) = trimmed.strip_prefix('P') {
        return decode_iso(rest);
    }
    let mut reader = Reader {
        text: trimmed,
        at: 0,
        sum: Sum::default(),
        seen: 0,
        fields: 0,
        ago: false,
    };
    reader.run()?;
    if reader.fields == 0 {
        return Err(Fault::Syntax);
    }
    reader.sum.into_interval(reader.ago)
}

/// The parts as they add up.
#[derive(Default)]
struct Sum {
    years: i64,
    months: i64,
    days: i64,
    microseconds: i64,
}

impl Sum {
    fn add(part: &mut i64, value: i64, scale: i64) -> Result<(), Fault> {
        let product = value.checked_mul(scale).ok_or(Fault::Field)?;
        *part = part.checked_add(product).ok_or(Fault::Field)?;
        Ok(())
    }

    /// A number of units: whole ones, and a fraction of the same sign that goes to smaller parts.
    fn add_unit(&mut self, unit: Unit, whole: i64, fraction: f64) -> Result<(), Fault> {
        match unit {
            Unit::Microsecond => self.add_time(whole, fraction, 1),
            Unit::Millisecond => self.add_time(whole, fraction, 1000),
            Unit::Second => self.add_time(whole, fraction, SECOND_US),
            Unit::Minute => self.add_time(whole, fraction, MINUTE_US),
            Unit::Hour => self.add_time(whole, fraction, HOUR_US),
            Unit::Day => {
                Sum::add(&mut self.days, whole, 1)?;
                self.add_time(0, fraction, DAY_US)
            }
            Unit::Week => {
                Sum::add(&mut self.days, whole, 7)?;
                self.add_days(fraction * 7.0)
            }
            Unit::Month => {
                Sum::add(&mut self.months, whole, 1)?;
                self.add_days(fraction * 30.0)
            }
            Unit::Year => self.add_years(whole, fraction, 1),
            Unit::Decade => self.add_years(whole, fraction, 10),
            Unit::Century => self.add_years(whole, fraction, 100),
            Unit::Millennium => self.add_years(whole, fraction, 1000),
        }
    }

    fn add_years(&mut self, whole: i64, fraction: f64, years: i64) -> Result<(), Fault> {
        Sum::add(&mut self.years, whole, years)?;
        Sum::add(
            &mut self.months,
            (fraction * (years * 12) as f64).round_ties_even() as i64,
            1,
        )
    }

    fn add_days(&mut self, days: f64) -> Result<(), Fault> {
        let whole = days.trunc();
        Sum::add(&mut self.days, whole as i64, 1)?;
        self.add_time(0, days - whole, DAY_US)
    }

    fn add_time(&mut self, whole: i64, fraction: f64, scale: i64) -> Result<(), Fault> {
        Sum::add(&mut self.microseconds, whole, scale)?;
        // PostgreSQL leaves exact halves where they are.
        let exact = fraction * scale as f64;
        let away = if (exact - exact.trunc()).abs() > 0.5 {
            exact.signum()
        } else {
            0.0
        };
        Sum::add(&mut self.microseconds, (exact.trunc() + away) as i64, 1)
    }

    fn into_interval(self, ago: bool) -> Result<Interval, Fault> {
        let sign = if ago { -1 } else { 1 };
        let field = |value: i64| i32::try_from(value).map_err(|_| Fault::Field);
        let months = i64::from(field(self.years)?) * 12 + i64::from(field(self.months)?);
        Ok(Interval {
            months: i32::try_from(months * sign).map_err(|_| Fault::Interval)?,
            days: field(i64::from(field(self.days)?) * sign)?,
            microseconds: self.microseconds.checked_mul(sign).ok_or(Fault::Field)?,
        })
    }
}

/// Reads the style of words, and the SQL standard's.
struct Reader<'a> {
    text: &'a str,
    /// Always at a character boundary: only ASCII is ever stepped over.
    at: usize,
    sum: Sum,
    /// Units that were given, one bit each.
    seen: u32,
    fields: u32,
    ago: bool,
}

impl<'a> Reader<'a> {
    fn run(&mut self) -> Result<(), Fault> {
        while let Some(c) = self.peek() {
            if c.is_ascii_whitespace() || matches!(c, b'@' | b',') {
                self.at += 1;
            } else if !self.ago && (c.is_ascii_digit() || matches!(c, b'+' | b'-' | b'.')) {
                self.quantity()?;
                self.fields += 1;
            } else if self.take(|c| c.is_ascii_alphabetic()).eq_ignore_ascii_case("ago") && self.fields > 0 {
                self.ago = true;
                self.take(|c| c.is_ascii_whitespace());
            } else {
                return Err(Fault::Syntax);
            }
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn mark(&mut self, units: &[Unit]) -> Result<(), Fault> {
        let bits = units.iter().fold(0, |bits, unit| bits | 1 << (*unit as u32));
        if self.seen & bits != 0 {
            return Err(Fault::Syntax);
        }
        self.seen |= bits;
        Ok(())
    }

    fn quantity(&mut self) -> Result<(), Fault> {
        let negative = self.peek() == Some(b'-');
        if negative || self.peek() == Some(b'+') {
            self.at += 1;
            self.take(|c| c.is_ascii_whitespace());
        }
        let sign = if negative { -1 } else { 1 };
        let digits = self.take(|c| c.is_ascii_digit());
        match self.peek() {
            Some(b':') => return self.clock(digits, sign),
            Some(b'-') if !digits.is_empty() => return self.years_and_months(digits, sign),
            _ => {}
        }
        let fraction = self.fraction()?;
        if digits.is_empty() && fraction.is_none() {
            return Err(Fault::Syntax);
        }
        let whole = whole_number(digits)? * sign;
        self.take(|c| c.is_ascii_whitespace());
        let unit = self.unit()?;
        match (unit, fraction) {
            (Unit::Second, Some(part)) if part != 0.0 => self.mark(&ALL_OF_A_SECOND)?,
            _ => self.mark(&[unit])?,
        }
        self.sum.add_unit(unit, whole, fraction.unwrap_or(0.0) * sign as f64)
    }

    /// The unit behind a number; without one, days before a clock time, else seconds.
    fn unit(&mut self) -> Result<Unit, Fault> {
        let word = self.take(|c| c.is_ascii_alphabetic());
        // Only the shortest units may run into what follows them.
        let short = ["d", "h", "m", "s", "y", "mon"]
            .iter()
            .any(|unit| word.eq_ignore_ascii_case(unit));
        let runs_on = match self.peek() {
            Some(next) if next.is_ascii_digit() || next == b'+' => !short,
            next => matches!(next, Some(b'-' | b'/' | b'.' | b'_')),
        };
        if !word.is_empty() && runs_on {
            return Err(Fault::Syntax);
        }
        if !word.is_empty() && !word.eq_ignore_ascii_case("ago") {
            return Unit::from_word(&word.to_ascii_lowercase()).ok_or(Fault::Syntax);
        }
        if !word.is_empty() {
            self.at -= word.len();
            return Ok(Unit::Second);
        }
        let rest = self.text[self.at..].trim_start_matches(['+', '-', ' ']);
        let clock = rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(':');
        if clock && rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Unit::Day);
        }
        if self.at < self.text.len() {
            Err(Fault::Syntax)
        } else {
            Ok(Unit::Second)
        }
    }

    fn fraction(&mut self) -> Result<Option<f64>, Fault> {
        if self.peek() != Some(b'.') {
            return Ok(None);
        }
        let start = self.at;
        self.at += 1;
        let digits = self.take(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Ok(Some(0.0));
        }
        self.text[start..self.at].parse().map(Some).map_err(|_| Fault::Syntax)
    }

    /// `1-2`: years and months.
    fn years_and_months(&mut self, years: &str, sign: i64) -> Result<(), Fault> {
        self.at += 1;
        let months = whole_number(self.take(|c| c.is_ascii_digit()))?;
        if months > 11 {
            return Err(Fault::Field);
        }
        if self.peek().is_some_and(|next| !next.is_ascii_whitespace()) {
            return Err(Fault::Syntax);
        }
        self.mark(&[Unit::Year, Unit::Month])?;
        self.sum.add_unit(Unit::Year, whole_number(years)? * sign, 0.0)?;
        self.sum.add_unit(Unit::Month, months * sign, 0.0)
    }

    /// `hh:mm`, `hh:mm:ss.fraction` or `mm:ss.fraction`; the hours may be any number.
    fn clock(&mut self, first: &str, sign: i64) -> Result<(), Fault> {
        self.mark(&[Unit::Hour, Unit::Minute])?;
        self.mark(&ALL_OF_A_SECOND)?;
        self.at += 1;
        let second = whole_number(self.take(|c| c.is_ascii_digit()))?;
        let mut third = None;
        if self.peek() == Some(b':') {
            self.at += 1;
            third = Some(whole_number(self.take(|c| c.is_ascii_digit()))?);
        }
        let mut fraction = None;
        if self.peek() == Some(b'.') {
            self.at += 1;
            fraction = Some(parse_fraction(self.take(|c| c.is_ascii_digit()))?);
        }
        let first = whole_number(first)?;
        let (hours, minutes, seconds) = match (third, fraction) {
            (Some(third), _) => (first, second, third),
            (None, Some(_)) => (0, first, second),
            (None, None) => (first, second, 0),
        };
        if minutes > 59 || seconds > 60 {
            return Err(Fault::Field);
        }
        self.sum.add_unit(Unit::Hour, hours * sign, 0.0)?;
        self.sum.add_unit(Unit::Minute, minutes * sign, 0.0)?;
        self.sum.add_unit(Unit::Second, seconds * sign, 0.0)?;
        self.sum.add_unit(Unit::Microsecond, fraction.unwrap_or(0) * sign, 0.0)
    }
}

/// Digits as a number; none are 0.
fn whole_number(digits: &str) -> Result<i64, Fault> {
    if digits.len() > 18 {
        return Err(Fault::Field);
    }
    Ok(digits.bytes().fold(0, |sum, c| sum * 10 + i64::from(c - b'0')))
}

/// ISO 8601's form with designators, behind the `P`.
fn decode_iso(text: &str) -> Result<Interval, Fault> {
    let mut sum = Sum::default();
    let mut after_t = false;
    let mut rest = text;
    if rest.is_empty() {
        return Err(Fault::Syntax);
    }
    let has_designators = rest.contains(|c: char| c.is_ascii_alphabetic() && c != 'T');
    if !has_designators && rest.contains(|c: char| c.is_ascii_digit()) {
        return decode_iso_alternative(rest);
    }
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            after_t = true;
            rest = time;
            continue;
        }
        let length = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
            .ok_or(Fault::Syntax)?;
        let (number, tail) = rest.split_at(length);
        let unit = Unit::from_letter(tail.as_bytes()[0], after_t).ok_or(Fault::Syntax)?;
        let (unsigned, sign) = match number.strip_prefix('-') {
            Some(unsigned) => (unsigned, -1),
            None => (number.strip_prefix('+').unwrap_or(number), 1),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all_digits = |part: &str| part.bytes().all(|c| c.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
            return Err(Fault::Syntax);
        }
        let part: f64 = if fraction.is_empty() {
            0.0
        } else {
            format!("0.{fraction}").parse().map_err(|_| Fault::Syntax)?
        };
        sum.add_unit(unit, whole_number(whole)? * sign, part * sign as f64)?;
        rest = &tail[1..];
    }
    sum.into_interval(false)
}

/// ISO 8601's alternative form, `0001-02-03T04:05:06`, behind the `P`.
fn decode_iso_alternative(text: &str) -> Result<Interval, Fault> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut sum = Sum::default();
    let (date, time) = (
        parted(date, [4, 2, 2], '-'),
        time.map(|time| parted(time, [2, 2, 2], ':')),
    );
    let (date, time) = (&*date, time.as_deref());
    let date_units = [Unit::Year, Unit::Month, Unit::Day];
    let time_units = [Unit::Hour, Unit::Minute, Unit::Second];
    let parts = date.split('-').filter(|_| !date.is_empty()).zip(date_units);
    let behind = time.into_iter().flat_map(|time| time.split(':')).zip(time_units);
    let is_too_long = date.split('-').count() > 3 || time.is_some_and(|time| time.split(':').count() > 3);
    if is_too_long || (date.is_empty() && time.is_none()) {
        return Err(Fault::Syntax);
    }
    for (number, unit) in parts.chain(behind) {
        let (whole, fraction) = match (unit, number.split_once('.')) {
            (Unit::Second, Some((whole, fraction))) => (whole, parse_fraction(fraction)?),
            _ => (number, 0),
        };
        if whole.is_empty() || !whole.bytes().all(|c| c.is_ascii_digit()) {
            return Err(Fault::Syntax);
        }
        sum.add_unit(unit, whole_number(whole)?, 0.0)?;
        sum.add_unit(Unit::Microsecond, fraction, 0.0)?;
    }
    sum.into_interval(false)
}

/// `20200101` as `2020-01-01`: digits alone, of which there are as many as the parts have together.
fn parted(digits: &str, widths: [usize; 3], between: char) -> Cow<'_, str> {
    let is_basic = digits.len() == widths.iter().sum() && digits.bytes().all(|c| c.is_ascii_digit());
    if !is_basic {
        return Cow::Borrowed(digits);
    }
    let (first, rest) = digits.split_at(widths[0]);
    let (second, third) = rest.split_at(widths[1]);
    Cow::Owned(format!("{first}{between}{second}{between}{third}"))
}
