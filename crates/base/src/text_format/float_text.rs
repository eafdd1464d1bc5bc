//! The text of floats: the fewest digits that read back as the same, as PostgreSQL chooses them.
//!
//! Rust's `{:e}` finds the fewest digits too, but differs in two corners. A decimal exactly half way between two floats reads back
//! as one of them by rounding to even; PostgreSQL does not rely on that and takes a longer one. And of two equally near decimals
//! PostgreSQL takes the even one.

use crate::datetime::write_padded;
use std::io::Write;

/// A float in scientific form, `-1.234e5`, on the stack.
struct Scientific {
    bytes: [u8; 40],
    length: usize,
}

impl Scientific {
    fn of(write: impl FnOnce(&mut &mut [u8]) -> std::io::Result<()>) -> Scientific {
        // Sign, 17 digits, point and exponent take at most 24 bytes.
        let mut bytes = [0; 40];
        let mut rest = &mut bytes[..];
        let left = write(&mut rest).map_or(40, |()| rest.len());
        Scientific {
            bytes,
            length: 40 - left,
        }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The digits before the exponent, with their point and without sign, and the exponent.
    fn parts(&self) -> (&[u8], i32) {
        let text = self.text().strip_prefix(b"-").unwrap_or(self.text());
        let mark = text.iter().position(|c| *c == b'e').unwrap_or(text.len());
        let exponent = std::str::from_utf8(&text[(mark + 1).min(text.len())..])
            .ok()
            .and_then(|text| text.parse().ok());
        (&text[..mark], exponent.unwrap_or(0))
    }

    /// The digits as a whole number, how many there are, and the power of ten of the last one.
    fn number(&self) -> (u64, usize, i32) {
        let (digits, exponent) = self.parts();
        let count = digits.iter().filter(|c| **c != b'.').count();
        let value = digits
            .iter()
            .filter(|c| **c != b'.')
            .fold(0_u64, |sum, c| sum * 10 + u64::from(c - b'0'));
        (value, count, exponent - (count as i32 - 1))
    }
}

/// Whether `digits * 10^tens` is exactly half way from the float `mantissa * 2^twos` to a neighbour.
fn is_half_way(digits: u64, tens: i32, mantissa: u64, twos: i32) -> bool {
    // Only beyond the whole numbers that floats hold exactly can a short decimal be a middle; and a middle, an odd number of 54
    // bits times a power of two, has no room for more than 23 fives.
    if twos < 1 || !(0..=23).contains(&tens) || digits == 0 {
        return false;
    }
    let product = u128::from(digits) * 5_u128.pow(tens as u32);
    let odd = product >> product.trailing_zeros();
    odd == u128::from(2 * mantissa + 1) || odd == u128::from(2 * mantissa - 1)
}

/// Appends a `double precision`.
pub(super) fn write_float8(value: f64, out: &mut Vec<u8>) {
    if write_special(value, out) {
        return;
    }
    let mut shown = Scientific::of(|rest| write!(rest, "{value:e}"));
    let (_, mut count, _) = shown.number();
    let bits = value.to_bits();
    let (mantissa, twos) = ((bits & ((1 << 52) - 1)) | 1 << 52, (bits >> 52 & 0x7ff) as i32 - 1075);
    let half_way = |shown: &Scientific| {
        let (digits, _, tens) = shown.number();
        is_half_way(digits, tens, mantissa, twos)
    };
    while half_way(&shown) && count < 17 {
        count += 1;
        shown = Scientific::of(|rest| write!(rest, "{value:.*e}", count - 1));
    }
    if count >= 16 {
        // Shorter decimals are never equally near.
        shown = Scientific::of(|rest| write!(rest, "{value:.*e}", count - 1));
    }
    write_shown(&shown, 15, out);
}

/// Appends a `real`.
pub(super) fn write_float4(value: f32, out: &mut Vec<u8>) {
    if write_special(value.into(), out) {
        return;
    }
    let mut shown = Scientific::of(|rest| write!(rest, "{value:e}"));
    let (_, mut count, _) = shown.number();
    let bits = value.to_bits();
    let (mantissa, twos) = (
        u64::from(bits & ((1 << 23) - 1)) | 1 << 23,
        (bits >> 23 & 0xff) as i32 - 150,
    );
    let half_way = |shown: &Scientific| {
        let (digits, _, tens) = shown.number();
        is_half_way(digits, tens, mantissa, twos)
    };
    while half_way(&shown) && count < 9 {
        count += 1;
        shown = Scientific::of(|rest| write!(rest, "{value:.*e}", count - 1));
    }
    if count >= 7 {
        // Shorter decimals are never equally near.
        shown = Scientific::of(|rest| write!(rest, "{value:.*e}", count - 1));
    }
    write_shown(&shown, 6, out);
}

/// Appends a float with at most so many digits, at least one, as C's `%g` does.
pub(super) fn write_rounded(value: f64, digits: u8, out: &mut Vec<u8>) {
    if write_special(value, out) {
        return;
    }
    let digits = usize::from(digits.max(1));
    let rounded = Scientific::of(|rest| write!(rest, "{value:.*e}", digits - 1));
    let text = rounded.text();
    let mark = text.iter().position(|c| *c == b'e').unwrap_or(text.len());
    let (number, exponent) = text.split_at(mark);
    let number = match number.contains(&b'.') {
        true => {
            let end = number.iter().rposition(|c| *c != b'0').map_or(0, |last| last + 1);
            number[..end].strip_suffix(b".").unwrap_or(&number[..end])
        }
        false => number,
    };
    let shown = Scientific::of(|rest| rest.write_all(number).and_then(|()| rest.write_all(exponent)));
    write_shown(&shown, digits as i32, out);
}

fn write_special(value: f64, out: &mut Vec<u8>) -> bool {
    if value.is_finite() {
        return false;
    }
    let text: &[u8] = match (value.is_nan(), value > 0.0) {
        (true, _) => b"NaN",
        (false, true) => b"Infinity",
        (false, false) => b"-Infinity",
    };
    out.extend_from_slice(text);
    true
}

/// Writes plainly from 10^-4 to below 10^`plain_below`, else with a signed exponent of two digits at least.
fn write_shown(shown: &Scientific, plain_below: i32, out: &mut Vec<u8>) {
    let (text, exponent) = shown.parts();
    let (first, fraction) = (&text[..1], text.get(2..).unwrap_or(&[]));
    if shown.text().starts_with(b"-") {
        out.push(b'-');
    }
    if !(-4..plain_below).contains(&exponent) {
        out.extend_from_slice(text);
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        write_padded(exponent.unsigned_abs().into(), 2, out);
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(first);
        out.extend_from_slice(fraction);
    } else {
        let places = exponent as usize;
        let whole = places.min(fraction.len());
        out.extend_from_slice(first);
        out.extend_from_slice(&fraction[..whole]);
        out.resize(out.len() + places - whole, b'0');
        if whole < fraction.len() {
            out.push(b'.');
            out.extend_from_slice(&fraction[whole..]);
        }
    }
}
