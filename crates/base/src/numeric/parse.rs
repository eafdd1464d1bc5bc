//! Reading a number from text.

use super::{Form, INTEGER_DIGITS_MAX, Numeric, SCALE_MAX, overflow};
use crate::{Error, Result, SqlState};
use num_bigint::{BigInt, BigUint, Sign};
use std::io::Write;

impl Numeric {
    /// Reads what PostgreSQL's `numeric` input reads: blanks around, a sign, digits with a point, an exponent, `NaN`, `Infinity`.
    /// 22P02 for any other text, 22003 for too many digits.
    pub fn parse(text: &str) -> Result<Numeric> {
        let trimmed = text.trim_matches(is_space);
        let invalid = || {
            Error::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type numeric: \"{text}\""),
            )
        };
        match parse_finite(trimmed.as_bytes()) {
            Some(result) => result,
            None => parse_special(trimmed).ok_or_else(invalid),
        }
    }
}

/// The blanks that C's `isspace` knows.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn parse_special(text: &str) -> Option<Numeric> {
    let (negative, word) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if text.eq_ignore_ascii_case("nan") {
        return Some(Numeric::NAN);
    }
    if !word.eq_ignore_ascii_case("inf") && !word.eq_ignore_ascii_case("infinity") {
        return None;
    }
    Some(Numeric(if negative {
        Form::NegativeInfinity
    } else {
        Form::Infinity
    }))
}

/// The parts of a number's text: digits without the point, how many of them stand after it, and the exponent.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// `None` if the text is not a number.
fn parse_finite(text: &[u8]) -> Option<Result<Numeric>> {
    let parts = split(text)?;
    let scale = parts.fraction.len() as i64 - parts.exponent;
    let digits = parts.whole.len() + parts.fraction.len();
    if digits <= 18 && (0..=i64::from(SCALE_MAX)).contains(&scale) {
        let magnitude = parts
            .whole
            .iter()
            .chain(parts.fraction)
            .fold(0_i64, |sum, c| sum * 10 + i64::from(c - b'0'));
        return Some(Ok(Numeric::small(
            if parts.negative { -magnitude } else { magnitude },
            scale as u16,
        )));
    }
    Some(parts.into_number(scale))
}

fn split(text: &[u8]) -> Option<Parts<'_>> {
    let (negative, text) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, rest) = text.split_at(digits_at(text));
    let (fraction, rest) = match rest.first() {
        Some(b'.') => rest[1..].split_at(digits_at(&rest[1..])),
        _ => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    Some(Parts {
        negative,
        whole,
        fraction,
        exponent: split_exponent(rest)?,
    })
}

fn digits_at(text: &[u8]) -> usize {
    text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len())
}

fn split_exponent(text: &[u8]) -> Option<i64> {
    let Some(first) = text.first() else { return Some(0) };
    if !matches!(first, b'e' | b'E') {
        return None;
    }
    let (negative, digits) = match text.get(1)? {
        b'-' => (true, &text[2..]),
        b'+' => (false, &text[2..]),
        _ => (false, &text[1..]),
    };
    if digits.is_empty() || digits_at(digits) != digits.len() {
        return None;
    }
    // Far beyond every limit it no longer matters how far.
    let size = digits
        .iter()
        .fold(0_i64, |sum, c| (sum * 10 + i64::from(c - b'0')).min(1 << 40));
    Some(if negative { -size } else { size })
}

impl Parts<'_> {
    fn into_number(self, scale: i64) -> Result<Numeric> {
        let digits: Vec<u8> = self
            .whole
            .iter()
            .chain(self.fraction)
            .copied()
            .skip_while(|c| *c == b'0')
            .map(|c| c - b'0')
            .collect();
        if scale > i64::from(SCALE_MAX) || self.exponent.abs() >= i64::from(i32::MAX) / 2 {
            return Err(overflow());
        }
        let kept_scale = scale.max(0) as u32;
        if digits.is_empty() {
            return Ok(Numeric::small(0, kept_scale as u16));
        }
        if digits.len() as i64 - scale > INTEGER_DIGITS_MAX as i64 {
            return Err(overflow());
        }
        let magnitude = BigUint::from_radix_be(&digits, 10).ok_or_else(overflow)?;
        let magnitude = if scale < 0 {
            magnitude * BigUint::from(10_u32).pow(-scale as u32)
        } else {
            magnitude
        };
        let sign = if self.negative { Sign::Minus } else { Sign::Plus };
        Numeric::checked_big(BigInt::from_biguint(sign, magnitude), kept_scale)
    }
}

/// A float with `digits` + 1 significant digits, trailing zeros after the point cut as C's `%g` does.
pub(super) fn from_float(value: f64, digits: usize) -> Numeric {
    if value.is_nan() {
        return Numeric::NAN;
    }
    if value.is_infinite() {
        return Numeric(if value < 0.0 {
            Form::NegativeInfinity
        } else {
            Form::Infinity
        });
    }
    // Sign, 15 digits, point and exponent take at most 23 bytes.
    let mut buffer = [0_u8; 32];
    let mut rest = &mut buffer[..];
    let written = write!(rest, "{value:.digits$e}").map(|()| rest.len());
    let length = 32 - written.unwrap_or(32);
    let text = &buffer[..length];
    let mark = text.iter().position(|c| *c == b'e').unwrap_or(length);
    let mut significant = mark;
    while significant > 0 && text[significant - 1] == b'0' {
        significant -= 1;
    }
    if significant > 0 && text[significant - 1] == b'.' {
        significant -= 1;
    }
    let mut short = [0_u8; 32];
    let kept = if significant == 0 || text[..significant] == *b"-" {
        mark
    } else {
        significant
    };
    short[..kept].copy_from_slice(&text[..kept]);
    short[kept..kept + length - mark].copy_from_slice(&text[mark..]);
    match parse_finite(&short[..kept + length - mark]) {
        Some(Ok(number)) => number,
        _ => Numeric::ZERO,
    }
}
