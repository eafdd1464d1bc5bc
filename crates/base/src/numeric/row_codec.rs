//! The bytes of a number in a row: they keep its scale.

use super::{Decimal, Form, Numeric, SCALE_MAX};
use crate::{Error, Result, SqlState};
use num_bigint::BigInt;
use std::sync::Arc;

const TAG_SMALL: u8 = 0;
const TAG_BIG: u8 = 1;
const TAG_NAN: u8 = 2;
const TAG_INFINITY: u8 = 3;
const TAG_NEGATIVE_INFINITY: u8 = 4;

fn corrupted() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "a stored numeric is damaged")
}

impl Numeric {
    /// Bytes that [`Numeric::encode`] writes for every number whose digits fit an `i64`, for NaN and for the infinities.
    pub const ENCODED_LENGTH: usize = 11;

    /// Appends the number: a tag, 8 bytes of mantissa, 2 bytes of scale, so that most numbers can be overwritten in place by
    /// others. A mantissa beyond an `i64` follows the scale instead, and reaches to the end of the bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Big(decimal) => {
                let digits = decimal.mantissa.to_signed_bytes_le();
                out.push(TAG_BIG);
                out.extend_from_slice(&decimal.scale.to_le_bytes());
                out.extend_from_slice(&digits);
            }
            _ => out.extend_from_slice(&self.fixed_bytes()),
        }
    }

    /// The encoding, where it has the fixed length.
    pub fn encode_fixed(&self) -> Option<[u8; Numeric::ENCODED_LENGTH]> {
        (!matches!(self.0, Form::Big(_))).then(|| self.fixed_bytes())
    }

    fn fixed_bytes(&self) -> [u8; Numeric::ENCODED_LENGTH] {
        let (tag, mantissa, scale) = match &self.0 {
            Form::Small { mantissa, scale } => (TAG_SMALL, *mantissa, *scale),
            Form::Infinity => (TAG_INFINITY, 0, 0),
            Form::NegativeInfinity => (TAG_NEGATIVE_INFINITY, 0, 0),
            Form::NotANumber | Form::Big(_) => (TAG_NAN, 0, 0),
        };
        let mut bytes = [0; Numeric::ENCODED_LENGTH];
        bytes[0] = tag;
        bytes[1..9].copy_from_slice(&mantissa.to_le_bytes());
        bytes[9..].copy_from_slice(&scale.to_le_bytes());
        bytes
    }

    /// Reads the number that [`Numeric::encode`] wrote into exactly these bytes. XX001 for any other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Numeric> {
        let (tag, rest) = bytes.split_first().ok_or_else(corrupted)?;
        if *tag == TAG_BIG {
            return decode_big(rest);
        }
        let (mantissa, rest) = rest.split_first_chunk::<8>().ok_or_else(corrupted)?;
        let scale = u16::from_le_bytes(rest.try_into().map_err(|_| corrupted())?);
        match *tag {
            TAG_SMALL if u32::from(scale) <= SCALE_MAX => Ok(Numeric::small(i64::from_le_bytes(*mantissa), scale)),
            TAG_NAN => Ok(Numeric::NAN),
            TAG_INFINITY => Ok(Numeric::INFINITY),
            TAG_NEGATIVE_INFINITY => Ok(Numeric::NEGATIVE_INFINITY),
            _ => Err(corrupted()),
        }
    }
}

fn decode_big(bytes: &[u8]) -> Result<Numeric> {
    let (scale, digits) = bytes.split_first_chunk::<2>().ok_or_else(corrupted)?;
    let scale = u16::from_le_bytes(*scale);
    let mantissa = BigInt::from_signed_bytes_le(digits);
    if u32::from(scale) > SCALE_MAX || i64::try_from(&mantissa).is_ok() {
        return Err(corrupted());
    }
    Ok(Numeric(Form::Big(Arc::new(Decimal { mantissa, scale }))))
}
