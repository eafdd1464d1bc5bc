//! The ordered bytes of a number in a key.
//!
//! A class byte orders -Infinity, negative, zero, positive, Infinity, NaN. A number is then written as 0.d1d2d3... * 10^e with d1
//! not 0: first e, then the digits two by two, each pair p as 2p + 1 and the last one, rounded up with a zero where needed, as 2p.
//! So a number that goes on is greater than one that stops, and the digits end by themselves. Everything after the class byte of
//! a negative number is complemented. Trailing zeros are never written, so equal values give equal bytes.

use super::{Form, INTEGER_DIGITS_MAX, Numeric, SCALE_MAX};
use crate::{Error, Result, SqlState};
use num_bigint::{BigInt, BigUint, Sign};

const CLASS_NEGATIVE_INFINITY: u8 = 0x10;
const CLASS_NEGATIVE: u8 = 0x20;
const CLASS_ZERO: u8 = 0x30;
const CLASS_POSITIVE: u8 = 0x40;
const CLASS_INFINITY: u8 = 0x50;
const CLASS_NAN: u8 = 0x60;

/// Exponents from -64 to 63 take one byte, 0x40 to 0xbf; others take one of these and three bytes.
const EXPONENT_BELOW: u8 = 0x3f;
const EXPONENT_ABOVE: u8 = 0xc0;

fn corrupted() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "a numeric in a key is damaged")
}

impl Numeric {
    /// Appends bytes that compare as the numbers do. Equal numbers of different scale give equal bytes; no encoding is the
    /// beginning of another.
    pub fn encode_key(&self, out: &mut impl Extend<u8>) {
        let class = match &self.0 {
            Form::NegativeInfinity => CLASS_NEGATIVE_INFINITY,
            Form::Infinity => CLASS_INFINITY,
            Form::NotANumber => CLASS_NAN,
            _ => [CLASS_NEGATIVE, CLASS_ZERO, CLASS_POSITIVE][(self.signum() + 1) as usize],
        };
        out.extend([class]);
        let mask = if class == CLASS_NEGATIVE { 0xff } else { 0 };
        match &self.0 {
            Form::Small { mantissa, scale } if *mantissa != 0 => {
                let mut buffer = itoa::Buffer::new();
                let digits = buffer.format(mantissa.unsigned_abs()).as_bytes();
                write_number(digits, *scale, mask, out);
            }
            Form::Big(decimal) => {
                let digits = decimal.mantissa.magnitude().to_str_radix(10);
                write_number(digits.as_bytes(), decimal.scale, mask, out);
            }
            _ => {}
        }
    }

    /// Reads a number that [`Numeric::encode_key`] wrote, with the smallest scale that holds it, and how many bytes it took.
    /// XX001 for any other bytes.
    pub fn decode_key(bytes: &[u8]) -> Result<(Numeric, usize)> {
        let (class, rest) = bytes.split_first().ok_or_else(corrupted)?;
        let special = match *class {
            CLASS_NEGATIVE_INFINITY => Numeric::NEGATIVE_INFINITY,
            CLASS_INFINITY => Numeric::INFINITY,
            CLASS_NAN => Numeric::NAN,
            CLASS_ZERO => Numeric::ZERO,
            CLASS_POSITIVE => return read_number(rest, 0),
            CLASS_NEGATIVE => return read_number(rest, 0xff),
            _ => return Err(corrupted()),
        };
        Ok((special, 1))
    }
}

/// `digits` are ASCII, without leading zeros, not all zero.
fn write_number(digits: &[u8], scale: u16, mask: u8, out: &mut impl Extend<u8>) {
    let exponent = digits.len() as i64 - i64::from(scale);
    let significant = digits.len() - digits.iter().rev().take_while(|c| **c == b'0').count();
    let small = (-64..64).contains(&exponent);
    if small {
        out.extend([(exponent + 0x80) as u8 ^ mask]);
    } else {
        let prefix = if exponent < 0 { EXPONENT_BELOW } else { EXPONENT_ABOVE };
        let [_, high, middle, low] = ((exponent + (1 << 23)) as u32).to_be_bytes();
        out.extend([prefix, high, middle, low].map(|byte| byte ^ mask));
    }
    let pairs = significant.div_ceil(2);
    out.extend(digits[..significant].chunks(2).enumerate().map(|(index, pair)| {
        let value = (pair[0] - b'0') * 10 + pair.get(1).map_or(0, |c| c - b'0');
        (value * 2 + u8::from(index + 1 < pairs)) ^ mask
    }));
}

fn read_number(bytes: &[u8], mask: u8) -> Result<(Numeric, usize)> {
    let byte_at = |at: usize| bytes.get(at).map(|byte| byte ^ mask).ok_or_else(corrupted);
    let (exponent, start) = match byte_at(0)? {
        EXPONENT_BELOW | EXPONENT_ABOVE => {
            let value = u32::from_be_bytes([0, byte_at(1)?, byte_at(2)?, byte_at(3)?]);
            (i64::from(value) - (1 << 23), 4)
        }
        byte @ 0x40..=0xbf => (i64::from(byte) - 0x80, 1),
        _ => return Err(corrupted()),
    };
    let mut digits = Vec::with_capacity(20);
    let mut at = start;
    loop {
        let byte = byte_at(at)?;
        let pair = byte / 2;
        if pair > 99 {
            return Err(corrupted());
        }
        digits.extend([pair / 10, pair % 10]);
        at += 1;
        if byte % 2 == 0 {
            break;
        }
    }
    if digits.last() == Some(&0) {
        digits.pop();
    }
    Ok((assemble(&digits, exponent, mask != 0)?, at + 1))
}

/// The number 0.digits * 10^exponent.
fn assemble(digits: &[u8], exponent: i64, negative: bool) -> Result<Numeric> {
    let scale = digits.len() as i64 - exponent;
    if scale > i64::from(SCALE_MAX) || exponent > INTEGER_DIGITS_MAX as i64 || digits.first().is_none_or(|d| *d == 0) {
        return Err(corrupted());
    }
    if digits.len() <= 18 && (-18..=0).contains(&scale) | (scale >= 0) {
        let magnitude = digits.iter().fold(0_i64, |sum, digit| sum * 10 + i64::from(*digit));
        let signed = if negative { -magnitude } else { magnitude };
        let tens = 10_i64.pow((-scale).max(0) as u32);
        if let Some(mantissa) = signed.checked_mul(tens) {
            return Ok(Numeric::small(mantissa, scale.max(0) as u16));
        }
    }
    let magnitude = BigUint::from_radix_be(digits, 10).ok_or_else(corrupted)?;
    let magnitude = magnitude * BigUint::from(10_u32).pow((-scale).max(0) as u32);
    let sign = if negative { Sign::Minus } else { Sign::Plus };
    Ok(Numeric::from_big(
        BigInt::from_biguint(sign, magnitude),
        scale.max(0) as u16,
    ))
}
