//! The decimal text of a number.

use super::{Form, Numeric};
use std::fmt;

impl Numeric {
    /// Appends PostgreSQL's text of the number, with as many digits after the point as its scale says.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Small { mantissa, scale } => {
                if *mantissa < 0 {
                    out.push(b'-');
                }
                let mut buffer = itoa::Buffer::new();
                place_point(
                    buffer.format(mantissa.unsigned_abs()).as_bytes(),
                    usize::from(*scale),
                    out,
                );
            }
            Form::Big(decimal) => {
                if self.signum() < 0 {
                    out.push(b'-');
                }
                let digits = decimal.mantissa.magnitude().to_str_radix(10);
                place_point(digits.as_bytes(), usize::from(decimal.scale), out);
            }
            Form::NotANumber => out.extend_from_slice(b"NaN"),
            Form::Infinity => out.extend_from_slice(b"Infinity"),
            Form::NegativeInfinity => out.extend_from_slice(b"-Infinity"),
        }
    }
}

fn place_point(digits: &[u8], scale: usize, out: &mut Vec<u8>) {
    if scale == 0 {
        out.extend_from_slice(digits);
    } else if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + scale - digits.len(), b'0');
        out.extend_from_slice(digits);
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(24);
        self.write_text(&mut text);
        f.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
