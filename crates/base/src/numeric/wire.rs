//! PostgreSQL's binary form of a number: digits in base 10000.

use super::{Form, Numeric, SCALE_MAX};
use crate::{Error, Result, SqlState};
use num_bigint::{BigInt, BigUint, Sign};

const SIGN_POSITIVE: u16 = 0x0000;
const SIGN_NEGATIVE: u16 = 0x4000;
const SIGN_NAN: u16 = 0xc000;
const SIGN_INFINITY: u16 = 0xd000;
const SIGN_NEGATIVE_INFINITY: u16 = 0xf000;
/// PostgreSQL sends this scale with an infinity, and ignores it.
const INFINITY_SCALE: u16 = 0x20;

fn invalid(what: &str) -> Error {
    Error::new(
        SqlState::INVALID_BINARY_REPRESENTATION,
        format!("invalid {what} in external \"numeric\" value"),
    )
}

fn wrong_length() -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

impl Numeric {
    /// Appends PostgreSQL's binary form.
    pub fn to_wire(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Small { mantissa, scale } => {
                let mut buffer = itoa::Buffer::new();
                write_digits(
                    buffer.format(mantissa.unsigned_abs()).as_bytes(),
                    *scale,
                    *mantissa < 0,
                    out,
                );
            }
            Form::Big(decimal) => {
                let digits = decimal.mantissa.magnitude().to_str_radix(10);
                write_digits(digits.as_bytes(), decimal.scale, self.signum() < 0, out);
            }
            Form::NotANumber => write_header(0, 0, SIGN_NAN, 0, out),
            Form::Infinity => write_header(0, 0, SIGN_INFINITY, INFINITY_SCALE, out),
            Form::NegativeInfinity => write_header(0, 0, SIGN_NEGATIVE_INFINITY, INFINITY_SCALE, out),
        }
    }

    /// Reads PostgreSQL's binary form. 22P03 for any other bytes.
    pub fn from_wire(bytes: &[u8]) -> Result<Numeric> {
        let (head, digits) = bytes.split_first_chunk::<8>().ok_or_else(wrong_length)?;
        let field = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (count, weight, sign, scale) = (field(0), field(2) as i16, field(4), field(6));
        if usize::from(count) * 2 != digits.len() {
            return Err(wrong_length());
        }
        let negative = match sign {
            SIGN_POSITIVE => false,
            SIGN_NEGATIVE => true,
            SIGN_NAN => return Ok(Numeric::NAN),
            SIGN_INFINITY => return Ok(Numeric::INFINITY),
            SIGN_NEGATIVE_INFINITY => return Ok(Numeric::NEGATIVE_INFINITY),
            _ => return Err(invalid("sign")),
        };
        if u32::from(scale) > SCALE_MAX {
            return Err(invalid("scale"));
        }
        read_digits(digits, weight.into(), scale, negative)
    }
}

fn write_header(count: u16, weight: i16, sign: u16, scale: u16, out: &mut Vec<u8>) {
    for field in [count, weight as u16, sign, scale] {
        out.extend_from_slice(&field.to_be_bytes());
    }
}

/// `digits` are ASCII, without leading zeros (or one "0").
fn write_digits(digits: &[u8], scale: u16, negative: bool, out: &mut Vec<u8>) {
    let significant = digits.len() - digits.iter().rev().take_while(|c| **c == b'0').count();
    if significant == 0 {
        return write_header(0, 0, SIGN_POSITIVE, scale, out);
    }
    let sign = if negative { SIGN_NEGATIVE } else { SIGN_POSITIVE };
    // The first digit stands at 10^top; groups of four begin at multiples of four.
    let top = digits.len() as i64 - 1 - i64::from(scale);
    let weight = top.div_euclid(4);
    let first = (top.rem_euclid(4) + 1) as usize;
    let (head, tail) = digits[..significant].split_at(first.min(significant));
    let count = 1 + tail.len().div_ceil(4);
    write_header(count as u16, weight as i16, sign, scale, out);
    let mut push = |group: &[u8], width: usize| {
        let value = group.iter().fold(0_u16, |sum, c| sum * 10 + u16::from(c - b'0'));
        out.extend_from_slice(&(value * 10_u16.pow((width - group.len()) as u32)).to_be_bytes());
    };
    push(head, first);
    tail.chunks(4).for_each(|group| push(group, 4));
}

/// A number of at most four groups, which ends inside an `i64`; `None` leaves it to the general way.
fn read_small(groups: &[u8], weight: i64, scale: u16, negative: bool) -> Option<Numeric> {
    if groups.len() > 8 {
        return None;
    }
    let value = groups.chunks_exact(2).try_fold(0_i64, |sum, group| {
        let group = i64::from(u16::from_be_bytes([group[0], group[1]]));
        (group <= 9999).then_some(sum * 10_000 + group)
    })?;
    // Decimal digits that the groups have after the point, against those that are wanted.
    let present = (groups.len() as i64 / 2 - 1 - weight) * 4;
    let shift = i64::from(scale) - present;
    let mantissa = if shift >= 0 {
        value.checked_mul(10_i64.checked_pow(shift.try_into().ok()?)?)?
    } else {
        value / 10_i64.checked_pow((-shift).try_into().ok()?)?
    };
    Some(Numeric::small(if negative { -mantissa } else { mantissa }, scale))
}

fn read_digits(groups: &[u8], weight: i64, scale: u16, negative: bool) -> Result<Numeric> {
    if let Some(number) = read_small(groups, weight, scale, negative) {
        return Ok(number);
    }
    let mut digits = Vec::with_capacity(groups.len() * 2);
    for group in groups.chunks_exact(2) {
        let value = u16::from_be_bytes([group[0], group[1]]);
        if value > 9999 {
            return Err(invalid("digit"));
        }
        digits.extend([value / 1000, value / 100 % 10, value / 10 % 10, value % 10].map(|digit| digit as u8));
    }
    // Digits beyond the scale are cut, missing ones are zeros.
    let wanted = ((weight + 1) * 4 + i64::from(scale)).max(0) as usize;
    if digits.iter().all(|digit| *digit == 0) {
        return Ok(Numeric::small(0, scale));
    }
    digits.resize(wanted, 0);
    let sign = if negative { Sign::Minus } else { Sign::Plus };
    let magnitude = BigUint::from_radix_be(&digits, 10).unwrap_or_default();
    Numeric::checked_big(BigInt::from_biguint(sign, magnitude), scale.into())
}
