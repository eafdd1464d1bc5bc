//! `to_number`: numbers read by a pattern.

use super::FunctionEntry;
use super::argument::{entry, typed};
use super::number_pattern::{Pattern, Place};
use rubato_base::{Error, Numeric, Result, SqlState};

/// A text on its way through a pattern.
struct Reading<'a> {
    pattern: &'a Pattern,
    rest: &'a str,
    /// Digits, and the point among them.
    digits: String,
    /// `-` or `+`, once it was read.
    sign: Option<char>,
    has_point: bool,
    /// How many digits were read.
    count: usize,
    /// How many of them behind the point.
    behind: usize,
}

impl Reading<'_> {
    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        self.rest = &self.rest[self.next().map_or(0, char::len_utf8)..];
    }

    /// A sign that is next there; `<` is one where the pattern has brackets.
    fn take_sign(&mut self, brackets: bool) {
        match self.next() {
            Some('<') if brackets => self.sign = Some('-'),
            Some(sign @ ('-' | '+')) => self.sign = Some(sign),
            _ => return,
        }
        self.skip();
    }

    /// A place of a digit or of the point, either of which may be there.
    fn digit_or_point(&mut self, is_digit: bool) {
        if self.next() == Some(' ') {
            self.skip();
        }
        if self.sign.is_none() && is_digit && self.count == 0 {
            self.take_sign(self.pattern.brackets);
        }
        let taken = match self.next() {
            Some(digit) if digit.is_ascii_digit() => {
                if self.has_point && self.behind == self.pattern.behind {
                    self.skip();
                    return;
                }
                self.digits.push(digit);
                self.count += 1;
                self.behind += usize::from(self.has_point);
                true
            }
            Some('.') if self.pattern.has_point && !self.has_point => {
                self.digits.push('.');
                self.has_point = true;
                true
            }
            Some(_) => false,
            None => return,
        };
        let is_signless = self.sign.is_none() && self.count > 0;
        let own_signs = self.pattern.has_plus || self.pattern.has_minus;
        match (taken, self.pattern.sign) {
            (true, Some(_)) if is_signless => {
                // S belongs to the last digit, wherever it stands.
                self.skip();
                self.take_sign(false);
            }
            (false, None) if is_signless && own_signs => {
                self.sign = self.next().filter(|letter| matches!(letter, '-' | '+'));
                self.skip();
            }
            // A place takes a letter, whatever it is.
            _ => self.skip(),
        }
    }

    /// A place for a sign of its own: one of these, else what is no part of a number.
    fn own_sign(&mut self, signs: &[char]) {
        match self.next().filter(|next| signs.contains(next)) {
            Some(sign) => {
                self.sign = Some(sign);
                self.skip();
            }
            None => self.skip_others(1),
        }
    }

    /// At most so many letters that are no part of a number.
    fn skip_others(&mut self, count: usize) {
        for _ in 0..count {
            if self.next().is_none_or(|next| "0123456789.,+-".contains(next)) {
                return;
            }
            self.skip();
        }
    }

    fn place(&mut self, place: Place) {
        match place {
            Place::Digit | Place::Zero => self.digit_or_point(true),
            Place::Point => self.digit_or_point(false),
            Place::Group if self.pattern.is_tight => {}
            Place::Group => self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest),
            Place::Currency => self.skip_others(1),
            Place::Ordinal(_) if self.pattern.has_point => {}
            Place::Ordinal(_) => self.skip_others(2),
            Place::Minus => self.own_sign(&['-']),
            Place::Plus => self.own_sign(&['+']),
            Place::PlusOrMinus => self.own_sign(&['-', '+']),
            Place::Roman(_) => {}
            Place::Literal(_) => self.skip(),
        }
    }

    /// The number that was read. 22P02 if there was none, 22003 where it has more digits than the pattern.
    fn finish(self) -> Result<Numeric> {
        if self.count == 0 {
            let sign = self.sign.unwrap_or(' ');
            let message = format!("invalid input syntax for type numeric: \"{sign}\"");
            return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
        }
        let precision = self.pattern.before + self.pattern.shift + self.behind;
        let number =
            Numeric::parse(self.digits.trim_end_matches('.'))?.with_modifier(precision as u32, self.behind as i32)?;
        let number = if self.sign == Some('-') { number.neg() } else { number };
        if !self.pattern.has_shift {
            return Ok(number);
        }
        let shift = -(self.pattern.shift as i64);
        number.checked_mul(&Numeric::from(10_i64).power(&Numeric::from(shift))?)
    }
}

fn to_number(text: &str, pattern: &str) -> Result<Option<Numeric>> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let pattern = Pattern::parse(pattern)?;
    for (refused, word) in [(pattern.scientific, "EEEE"), (pattern.roman, "RN")] {
        if refused {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("\"{word}\" not supported for input"),
            ));
        }
    }
    let mut reading = Reading {
        pattern: &pattern,
        rest: text,
        digits: String::new(),
        sign: None,
        has_point: false,
        count: 0,
        behind: 0,
    };
    for place in &pattern.places {
        if reading.rest.is_empty() {
            break;
        }
        reading.place(*place);
    }
    reading.finish().map(Some)
}

pub(super) static NUMBER_READING: &[FunctionEntry] = &[
    entry!("to_number" (Text, Text) -> Numeric, typed!(|text: &str, pattern: &str| to_number(text, pattern))).stable(),
];
