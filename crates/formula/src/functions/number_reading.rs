//! `to_number`: numbers read by a pattern.

use super::FunctionEntry;
use super::argument::{entry, typed};
use rubato_base::{Error, Numeric, Result, SqlState};

/// A text on its way through a pattern.
struct Reading<'a> {
    rest: &'a str,
    digits: String,
    is_negative: bool,
    has_sign: bool,
    has_point: bool,
    pattern_has_point: bool,
    /// How many more digits the pattern has room for behind the point.
    decimals_left: usize,
    /// Digits behind a `V`, by which the number is to be divided.
    shift: Option<u32>,
}

impl Reading<'_> {
    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        self.rest = &self.rest[self.next().map_or(0, char::len_utf8)..];
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.next() == Some(wanted);
        if found {
            self.skip();
        }
        found
    }

    fn sign(&mut self) {
        if self.has_sign {
            return;
        }
        self.has_sign = true;
        match self.next() {
            Some('-' | '<') => self.is_negative = true,
            Some('+') => {}
            _ => {
                self.has_sign = false;
                return;
            }
        }
        self.skip();
    }

    fn digit(&mut self) {
        if self.digits.is_empty() {
            self.rest = self.rest.trim_start();
            self.sign();
        }
        match self.next() {
            Some(digit) if digit.is_ascii_digit() => {
                if self.has_point && self.decimals_left == 0 {
                    return;
                }
                self.digits.push(digit);
                self.skip();
                self.shift = self.shift.map(|shift| shift + 1);
                self.decimals_left -= usize::from(self.has_point);
            }
            // In front of its place in the pattern, where the number has fewer digits.
            Some('.') if self.pattern_has_point && !self.has_point => self.point(),
            // A point that the pattern does not have ends the number.
            Some('.') if !self.pattern_has_point && self.shift.is_none() && !self.digits.is_empty() => self.rest = "",
            _ => {}
        }
    }

    fn point(&mut self) {
        if self.has_point {
            self.digit();
        } else if self.take('.') {
            self.has_point = true;
            self.digits.push('.');
        }
    }
}

/// The keyword that a pattern begins with.
fn keyword(pattern: &str) -> Option<&'static str> {
    const KEYWORDS: [&str; 16] = [
        "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", "S", "D", "G", "L", "V", "9", "0", "B",
    ];
    let begins = |word: &&str| {
        pattern
            .get(..word.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    KEYWORDS.into_iter().find(begins)
}

/// How many digits a pattern has behind its point, if it has one.
fn decimals_of(pattern: &str) -> Option<usize> {
    let mut decimals = None;
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        if letter == '"' {
            let inside = &rest[1..];
            rest = inside.find('"').map_or("", |end| &inside[end + 1..]);
            continue;
        }
        let word = keyword(rest);
        rest = &rest[word.map_or(letter.len_utf8(), str::len)..];
        match word {
            Some("D") => decimals = decimals.or(Some(0)),
            None if letter == '.' => decimals = decimals.or(Some(0)),
            Some("9" | "0") => decimals = decimals.map(|count| count + 1),
            _ => {}
        }
    }
    decimals
}

fn to_number(text: &str, pattern: &str) -> Result<Option<Numeric>> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let decimals = decimals_of(pattern);
    let mut reading = Reading {
        rest: text,
        digits: String::new(),
        is_negative: false,
        has_sign: false,
        has_point: false,
        pattern_has_point: decimals.is_some(),
        decimals_left: decimals.unwrap_or(0),
        shift: None,
    };
    let mut pattern = pattern;
    while let Some(letter) = pattern.chars().next() {
        if letter == '"' {
            let inside = &pattern[1..];
            let end = inside.find('"').unwrap_or(inside.len());
            inside[..end].chars().for_each(|_| reading.skip());
            pattern = inside.get(end + 1..).unwrap_or("");
            continue;
        }
        let word = keyword(pattern);
        pattern = &pattern[word.map_or(letter.len_utf8(), str::len)..];
        match word {
            Some("9" | "0") => reading.digit(),
            Some("D") => reading.point(),
            None if letter == '.' => reading.point(),
            Some("G") => drop(reading.take(',')),
            None if letter == ',' => drop(reading.take(',')),
            Some("S" | "SG" | "MI" | "PL") => {
                if reading.digits.is_empty() {
                    reading.rest = reading.rest.trim_start();
                }
                reading.sign();
            }
            Some("PR") => drop(reading.take('>')),
            Some("V") => reading.shift = Some(0),
            Some("L") if reading.next().is_some_and(|next| !next.is_ascii_digit()) => reading.skip(),
            Some("TH") => (0..2).for_each(|_| reading.skip()),
            Some("RN") => return Err(Error::unsupported("\"RN\" in the reading of a number")),
            Some(_) => {}
            None => reading.skip(),
        }
    }
    finish(&reading)
}

fn finish(reading: &Reading<'_>) -> Result<Option<Numeric>> {
    if !reading.digits.contains(|letter: char| letter.is_ascii_digit()) {
        let message = "invalid input syntax for type numeric: \" \"";
        return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    let mut number = Numeric::parse(&reading.digits)?;
    if let Some(shift) = reading.shift.filter(|shift| *shift > 0) {
        number = number.checked_div(&Numeric::from_i64(10).power(&Numeric::from_i64(shift.into()))?)?;
    }
    Ok(Some(if reading.is_negative { number.neg() } else { number }))
}

pub(super) static NUMBER_READING: &[FunctionEntry] = &[
    entry!("to_number" (Text, Text) -> Numeric, typed!(|text: &str, pattern: &str| to_number(text, pattern))).stable(),
];
