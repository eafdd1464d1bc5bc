//! `to_char` of numbers.

use super::FunctionEntry;
use super::argument::{entry, typed};
use super::number_pattern::{Pattern, Place, SignPlace};
use rubato_base::{Error, Numeric, Result, SqlState};

/// What `to_char` needs of a number, whose type decides how halves are rounded.
trait Shown {
    /// With a sign, multiplied as the pattern says, and rounded to what it shows; how many digits it has behind the point is set in the pattern.
    fn rounded(&self, pattern: &mut Pattern) -> Result<String>;
    /// `1.23e+04` with its sign; none for what is no number.
    fn scientific(&self, decimals: usize) -> Result<Option<String>>;
    /// Rounded to a whole number; 0 for what is none that fits.
    fn whole(&self) -> i64;
}

impl Shown for Numeric {
    fn rounded(&self, pattern: &mut Pattern) -> Result<String> {
        let shifted = match pattern.shift {
            0 => self.clone(),
            shift => self.checked_mul(&Numeric::from(10_i64).power(&Numeric::from(shift as i64))?)?,
        };
        Ok(shifted.round(pattern.behind as i32).to_string())
    }

    fn scientific(&self, decimals: usize) -> Result<Option<String>> {
        if !self.is_finite() {
            return Ok(None);
        }
        let text = self.abs().to_string();
        let (before, behind) = text.split_once('.').unwrap_or((&text, ""));
        let digits = format!("{before}{behind}");
        let first = digits.find(|digit| digit != '0');
        let exponent = first.map_or(0, |first| before.len() as i64 - 1 - first as i64);
        // Only the point moves. What is rounded up to 10 stays so, as in PostgreSQL.
        let (head, tail) = digits[first.unwrap_or(0)..].split_at(1);
        let mantissa = Numeric::parse(&format!("{head}.{tail}0"))?.round(decimals as i32);
        let sign = if self.signum() < 0 { "-" } else { "" };
        Ok(Some(format!("{sign}{mantissa}e{}", exponent_text(exponent))))
    }

    fn whole(&self) -> i64 {
        self.round(0).to_string().parse().unwrap_or(0)
    }
}

fn exponent_text(exponent: i64) -> String {
    let way = if exponent < 0 { '-' } else { '+' };
    format!("{way}{:02}", exponent.abs())
}

/// An `integer`: with an exponent it is shown as a float is.
struct Integer(i32);

impl Shown for Integer {
    fn rounded(&self, pattern: &mut Pattern) -> Result<String> {
        Numeric::from(i64::from(self.0)).rounded(pattern)
    }

    fn scientific(&self, decimals: usize) -> Result<Option<String>> {
        Float::of_8(f64::from(self.0)).scientific(decimals)
    }

    fn whole(&self) -> i64 {
        i64::from(self.0)
    }
}

/// A float, and how many digits its type keeps for certain: no more are shown.
struct Float {
    value: f64,
    digits_max: usize,
}

impl Float {
    fn of_4(value: f32) -> Float {
        Float {
            value: f64::from(value),
            digits_max: f32::DIGITS as usize,
        }
    }

    fn of_8(value: f64) -> Float {
        Float {
            value,
            digits_max: f64::DIGITS as usize,
        }
    }
}

impl Shown for Float {
    fn rounded(&self, pattern: &mut Pattern) -> Result<String> {
        let value = self.value * 10_f64.powi(pattern.shift as i32);
        let shown = |decimals: usize| match value {
            _ if value.is_nan() => "NaN".to_owned(),
            _ if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
            // The formatter rounds the binary value, halves to even, as C does.
            _ => format!("{value:.decimals$}"),
        };
        let whole = shown(0).trim_start_matches('-').len();
        pattern.behind = pattern.behind.min(self.digits_max.saturating_sub(whole));
        Ok(shown(pattern.behind))
    }

    fn scientific(&self, decimals: usize) -> Result<Option<String>> {
        let text = format!("{:.decimals$e}", self.value);
        let parts = text.split_once('e').filter(|_| self.value.is_finite());
        Ok(parts.map(|(mantissa, exponent)| format!("{mantissa}e{}", exponent_text(exponent.parse().unwrap_or(0)))))
    }

    fn whole(&self) -> i64 {
        self.value.round_ties_even() as i64
    }
}

fn to_char(number: &impl Shown, text: &str) -> Result<String> {
    let mut pattern = Pattern::parse(text)?;
    if pattern.roman {
        return written_in_letters(number.whole(), &pattern);
    }
    if pattern.scientific {
        return scientific(number, &pattern);
    }
    let text = number.rounded(&mut pattern)?;
    pattern.before += pattern.shift;
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.as_str()),
    };
    let width = digits.find('.').unwrap_or(digits.len());
    if width > pattern.before {
        let overflow = format!("{}.{}", "#".repeat(pattern.before), "#".repeat(pattern.behind));
        return Writer::new(&pattern, &overflow, 0, is_negative).write();
    }
    let blanks = pattern.before - width;
    Writer::new(&pattern, digits, blanks, is_negative).write()
}

/// `1.23e+04` with a blank for a plus, or as many # as that would be.
fn scientific(number: &impl Shown, pattern: &Pattern) -> Result<String> {
    let Some(text) = number.scientific(pattern.behind)? else {
        let (before, behind) = ("#".repeat(pattern.before), "#".repeat(pattern.behind + 4));
        return Ok(format!(" {before}.{behind}"));
    };
    let blank = if text.starts_with('-') { "" } else { " " };
    Ok(format!("{blank}{text}"))
}

/// A number on its way into a pattern, by PostgreSQL's rules.
struct Writer<'a> {
    pattern: &'a Pattern,
    /// Digits with a point, or # in their place, or a word.
    digits: &'a str,
    is_negative: bool,
    /// How many places before the point are more than the digits.
    blanks: usize,
    /// The last of the digits that has to be shown, where not all are.
    relevant: Option<usize>,
    /// S, where it is anchored.
    sign: Option<SignPlace>,
    brackets: bool,
    is_signed: bool,
    /// How many places of digits and of the point there are, and one for a sign.
    places: usize,
    /// How many places of digits and of the point are written.
    place: usize,
    /// How many of the digits are written.
    position: usize,
    /// Whether the last place showed a digit.
    is_within: bool,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(pattern: &'a Pattern, digits: &'a str, blanks: usize, is_negative: bool) -> Writer<'a> {
        let own_signs = pattern.has_plus || pattern.has_minus;
        let is_signed = match own_signs {
            true => pattern.has_minus,
            false => !is_negative && pattern.is_tight && pattern.sign.is_none(),
        };
        let sign = pattern.sign.map(|sign| match sign {
            SignPlace::Leading(before) if before == pattern.before => SignPlace::Trailing,
            other => other,
        });
        let places = pattern.before + pattern.behind + usize::from(!is_signed && blanks == 0);
        Writer {
            pattern,
            digits,
            is_negative,
            blanks,
            relevant: relevant_digits(pattern, digits, blanks),
            sign,
            brackets: pattern.brackets && (own_signs || is_negative || !pattern.is_tight),
            is_signed,
            places: places + usize::from(blanks > 0) + usize::from(pattern.has_point),
            place: 0,
            position: 0,
            is_within: false,
            out: String::new(),
        }
    }

    fn write(mut self) -> Result<String> {
        for place in &self.pattern.places {
            match place {
                Place::Digit | Place::Zero | Place::Point => {
                    // A place behind all that the number has ends it.
                    if !self.digit(*place) {
                        break;
                    }
                }
                Place::Group if self.is_within => self.out.push(','),
                Place::Plus if !self.is_negative => self.out.push('+'),
                Place::Minus if self.is_negative => self.out.push('-'),
                Place::Group | Place::Plus | Place::Minus if self.pattern.is_tight => {}
                Place::Group | Place::Plus | Place::Minus | Place::Currency => self.out.push(' '),
                Place::PlusOrMinus => self.out.push(self.sign_letter()),
                Place::Literal(letter) => self.out.push(*letter),
                Place::Ordinal(_) if self.digits.starts_with('#') || self.is_negative || self.pattern.has_point => {}
                Place::Ordinal(capital) => {
                    let suffix = ordinal(self.digits)?;
                    match capital {
                        true => self.out.push_str(&suffix.to_ascii_uppercase()),
                        false => self.out.push_str(suffix),
                    }
                }
                Place::Roman(_) => {}
            }
        }
        Ok(self.out)
    }

    fn sign_letter(&self) -> char {
        if self.is_negative { '-' } else { '+' }
    }

    fn is_relevant_point(&self) -> bool {
        self.relevant.is_some_and(|place| self.digits[place..].starts_with('.'))
    }

    /// Whether the next digit is a zero before the point that need not be there.
    fn is_bare_zero(&self) -> bool {
        let has_zeros = self.pattern.first_zero.is_some();
        !has_zeros && self.position == 0 && self.digits.starts_with('0') && self.pattern.behind != 0
    }

    /// Writes a place of a digit or of the point; false where there is nothing more to write.
    fn digit(&mut self, place: Place) -> bool {
        self.is_within = false;
        let has_begun = self.place >= self.blanks || self.pattern.first_zero == Some(self.place);
        if !self.is_signed && has_begun && (!self.is_bare_zero() || self.is_relevant_point()) {
            self.sign_before();
        }
        if self.place < self.blanks {
            self.blank();
        } else if !self.digit_or_point(place) {
            return false;
        }
        if self.place + 2 == self.places && self.relevant != Some(self.position) {
            self.sign_behind();
        }
        self.place += 1;
        true
    }

    /// A place in front of the digits.
    fn blank(&mut self) {
        if self.pattern.first_zero.is_some_and(|first| first <= self.place) {
            self.out.push('0');
            self.is_within = true;
        } else if !self.pattern.is_tight {
            self.out.push(' ');
        }
    }

    fn digit_or_point(&mut self, place: Place) -> bool {
        let next = self.digits[self.position..].chars().next();
        let is_left_out = self.relevant.is_some_and(|relevant| self.position > relevant) && place != Place::Zero;
        match next {
            Some('.') => self.out.push('.'),
            _ if is_left_out => {}
            _ if self.is_bare_zero() && !self.pattern.is_tight => self.out.push(' '),
            _ if self.is_bare_zero() && self.is_relevant_point() => self.out.push('0'),
            _ if self.is_bare_zero() => {}
            Some(digit) => {
                self.out.push(digit);
                self.is_within = true;
            }
            None => return false,
        }
        self.position += usize::from(next.is_some());
        true
    }

    fn sign_before(&mut self) {
        match self.sign {
            Some(SignPlace::Leading(_)) => self.out.push(self.sign_letter()),
            Some(SignPlace::Trailing) => return,
            None if self.brackets => self.out.push(if self.is_negative { '<' } else { ' ' }),
            None if self.is_negative => self.out.push('-'),
            None if !self.pattern.is_tight => self.out.push(' '),
            None => {}
        }
        self.is_signed = true;
    }

    fn sign_behind(&mut self) {
        if self.is_signed && self.brackets {
            self.out.push(if self.is_negative { '>' } else { ' ' });
        } else if self.sign == Some(SignPlace::Trailing) {
            self.out.push(self.sign_letter());
        }
    }
}

/// With FM: the last digit behind the point that is no zero, or the point, or the last 0 of the pattern.
fn relevant_digits(pattern: &Pattern, digits: &str, blanks: usize) -> Option<usize> {
    let point = digits.find('.').filter(|_| pattern.is_tight && pattern.has_point)?;
    let kept = digits[point + 1..].trim_end_matches('0').len();
    let zeros = match pattern.last_zero > blanks {
        true => (digits.len() - 1).min(pattern.last_zero - blanks),
        false => 0,
    };
    Some((point + kept).max(zeros))
}

/// `st`, `nd`, `rd` or `th`. 22P02 for what is no number.
fn ordinal(digits: &str) -> Result<&'static str> {
    if !digits.ends_with(|last: char| last.is_ascii_digit()) {
        let message = format!("\"{digits}\" is not a number");
        return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    let is_teen = digits.len() > 1 && digits[digits.len() - 2..].starts_with('1');
    Ok(match digits.chars().last() {
        Some('1') if !is_teen => "st",
        Some('2') if !is_teen => "nd",
        Some('3') if !is_teen => "rd",
        _ => "th",
    })
}

const ROMAN: [(i64, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];

/// The longest number below 4000 has so many letters.
const ROMAN_WIDTH: usize = 15;

fn roman(whole: i64) -> String {
    if !(1..4000).contains(&whole) {
        return "#".repeat(ROMAN_WIDTH);
    }
    let (mut left, mut letters) = (whole, String::new());
    for (value, letter) in ROMAN {
        while left >= value {
            letters.push_str(letter);
            left -= value;
        }
    }
    letters
}

/// The places of a pattern with RN: digits have none.
fn written_in_letters(whole: i64, pattern: &Pattern) -> Result<String> {
    let mut out = String::new();
    for place in &pattern.places {
        match place {
            Place::Roman(capital) => {
                let mut letters = roman(whole);
                if !capital {
                    letters.make_ascii_lowercase();
                }
                out.push_str(&match pattern.is_tight {
                    true => letters,
                    false => format!("{letters:>ROMAN_WIDTH$}"),
                });
            }
            Place::Literal(letter) => out.push(*letter),
            Place::Currency => out.push(' '),
            // There is no sign to be written, and PostgreSQL ends with it.
            Place::PlusOrMinus => break,
            Place::Group | Place::Minus | Place::Plus if !pattern.is_tight => out.push(' '),
            _ => {}
        }
    }
    Ok(out)
}

pub(super) static NUMBER_SHOWING: &[FunctionEntry] = &[
    entry!("to_char" (Int4, Text) -> Text, typed!(|a: i32, pattern: &str| to_char(&Integer(a), pattern))),
    entry!("to_char" (Int8, Text) -> Text, typed!(|a: i64, pattern: &str| to_char(&Numeric::from(a), pattern))),
    entry!("to_char" (Numeric, Text) -> Text, typed!(|a: &Numeric, pattern: &str| to_char(a, pattern))),
    entry!("to_char" (Float4, Text) -> Text, typed!(|a: f32, pattern: &str| to_char(&Float::of_4(a), pattern))),
    entry!("to_char" (Float8, Text) -> Text, typed!(|a: f64, pattern: &str| to_char(&Float::of_8(a), pattern))),
];
