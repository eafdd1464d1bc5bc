//! Exact decimal numbers, as PostgreSQL's `numeric`.
//!
//! A number whose digits fit an `i64` is held inline and is computed on without allocation; any other is a big integer behind a
//! shared pointer. The representation is canonical: `Big` never holds a mantissa that fits an `i64`.

mod arithmetic;
mod functions;
mod key_codec;
mod parse;
#[cfg(test)]
mod recorded;
mod row_codec;
mod show;
mod wire;

use crate::{Error, Result, SqlState};
use num_bigint::{BigInt, BigUint, Sign};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Most digits after the decimal point that a value may keep.
const SCALE_MAX: u32 = 16_383;
/// Most digits before the decimal point.
const INTEGER_DIGITS_MAX: u64 = 131_072;
/// Significant digits that division and the functions aim at.
const SIGNIFICANT_DIGITS_MIN: i64 = 16;
/// Most digits after the point that division and the functions choose by themselves.
const DISPLAY_SCALE_MAX: i64 = 1000;

/// An exact decimal number, NaN or an infinity. 16 bytes; cloning never copies digits.
///
/// Equality, order and hash are PostgreSQL's: by value (`1.0` equals `1.00`), NaN equals NaN and is greater than all else.
#[derive(Clone)]
pub struct Numeric(Form);

#[derive(Clone)]
enum Form {
    /// `mantissa * 10^-scale`
    Small {
        mantissa: i64,
        scale: u16,
    },
    Big(Arc<Decimal>),
    NotANumber,
    Infinity,
    NegativeInfinity,
}

/// `mantissa * 10^-scale`
struct Decimal {
    mantissa: BigInt,
    scale: u16,
}

impl Numeric {
    /// Zero, without digits after the point.
    pub const ZERO: Numeric = Numeric::small(0, 0);
    /// One, without digits after the point.
    pub const ONE: Numeric = Numeric::small(1, 0);
    /// Not a number.
    pub const NAN: Numeric = Numeric(Form::NotANumber);
    /// Positive infinity.
    pub const INFINITY: Numeric = Numeric(Form::Infinity);
    /// Negative infinity.
    pub const NEGATIVE_INFINITY: Numeric = Numeric(Form::NegativeInfinity);

    /// The caller keeps `scale` within [`SCALE_MAX`].
    const fn small(mantissa: i64, scale: u16) -> Numeric {
        Numeric(Form::Small { mantissa, scale })
    }

    /// A whole number.
    pub fn from_i64(value: i64) -> Numeric {
        Numeric::small(value, 0)
    }

    /// A whole number.
    pub fn from_i128(value: i128) -> Numeric {
        Numeric::from_wide(value, 0)
    }

    /// `mantissa * 10^-scale`. 22003 if `scale` is over 16383.
    pub fn from_parts(mantissa: i128, scale: u32) -> Result<Numeric> {
        if scale > SCALE_MAX {
            Err(overflow())
        } else {
            Ok(Numeric::from_wide(mantissa, scale as u16))
        }
    }

    fn from_wide(mantissa: i128, scale: u16) -> Numeric {
        match i64::try_from(mantissa) {
            Ok(mantissa) => Numeric::small(mantissa, scale),
            Err(_) => Numeric(Form::Big(Arc::new(Decimal {
                mantissa: BigInt::from(mantissa),
                scale,
            }))),
        }
    }

    /// The canonical form of a big result, without the check of its size.
    fn from_big(mantissa: BigInt, scale: u16) -> Numeric {
        match i64::try_from(&mantissa) {
            Ok(mantissa) => Numeric::small(mantissa, scale),
            Err(_) => Numeric(Form::Big(Arc::new(Decimal { mantissa, scale }))),
        }
    }

    /// The canonical form of a big result; 22003 if it has too many digits.
    fn checked_big(mantissa: BigInt, scale: u32) -> Result<Numeric> {
        // A bit is worth log10(2) = 0.30103 digits; the estimate is only refined near the limit.
        let digits_max = INTEGER_DIGITS_MAX + u64::from(scale);
        let digits_least = mantissa.bits().saturating_sub(1) * 30_102 / 100_000;
        let too_long = digits_least > digits_max
            || (digits_least + 10 + digits_max / 10_000 > digits_max
                && decimal_length(mantissa.magnitude()) > digits_max);
        if scale > SCALE_MAX || too_long {
            return Err(overflow());
        }
        Ok(Numeric::from_big(mantissa, scale as u16))
    }

    /// The mantissa and scale of a finite number.
    fn decimal(&self) -> Option<(Cow<'_, BigInt>, u16)> {
        match &self.0 {
            Form::Small { mantissa, scale } => Some((Cow::Owned(BigInt::from(*mantissa)), *scale)),
            Form::Big(decimal) => Some((Cow::Borrowed(&decimal.mantissa), decimal.scale)),
            _ => None,
        }
    }

    /// `mantissa * 10^-scale` where the mantissa is that small; `None` for longer numbers, NaN and the infinities.
    pub fn to_parts(&self) -> Option<(i64, u32)> {
        match &self.0 {
            Form::Small { mantissa, scale } => Some((*mantissa, u32::from(*scale))),
            _ => None,
        }
    }

    /// The same with a mantissa of up to 128 bits.
    pub fn to_wide_parts(&self) -> Option<(i128, u32)> {
        match &self.0 {
            Form::Small { mantissa, scale } => Some((i128::from(*mantissa), u32::from(*scale))),
            Form::Big(decimal) => Some((i128::try_from(&decimal.mantissa).ok()?, u32::from(decimal.scale))),
            _ => None,
        }
    }

    /// The number of digits kept after the decimal point; 0 for NaN and the infinities.
    pub fn scale(&self) -> u32 {
        match &self.0 {
            Form::Small { scale, .. } => u32::from(*scale),
            Form::Big(decimal) => u32::from(decimal.scale),
            _ => 0,
        }
    }

    /// Whether this is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self.0, Form::NotANumber)
    }

    /// Whether this is neither NaN nor an infinity.
    pub fn is_finite(&self) -> bool {
        matches!(self.0, Form::Small { .. } | Form::Big(_))
    }

    /// Whether this is zero, with whatever scale.
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Form::Small { mantissa: 0, .. })
    }

    /// -1, 0 or 1; 0 for NaN.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Form::Small { mantissa, .. } => mantissa.signum() as i32,
            Form::Big(decimal) => match decimal.mantissa.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
            Form::NotANumber => 0,
            Form::Infinity => 1,
            Form::NegativeInfinity => -1,
        }
    }

    /// Bytes of memory held outside the value itself.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Big(decimal) => (decimal.mantissa.bits() / 8) as usize + 64,
            _ => 0,
        }
    }

    /// The nearest whole number, halves away from zero. 22003 "bigint out of range" beyond an `i64`, 0A000 for NaN and the
    /// infinities.
    pub fn to_i64(&self) -> Result<i64> {
        match &self.0 {
            Form::Small { mantissa, scale: 0 } => return Ok(*mantissa),
            Form::NotANumber => {
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "cannot convert NaN to bigint",
                ));
            }
            Form::Infinity | Form::NegativeInfinity => {
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "cannot convert infinity to bigint",
                ));
            }
            _ => {}
        }
        match self.round(0).0 {
            Form::Small { mantissa, .. } => Ok(mantissa),
            _ => Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range")),
        }
    }

    /// The nearest `f64`; an infinity beyond its range.
    pub fn to_f64(&self) -> f64 {
        // Both operands of this division are exact, so its one rounding is the right one.
        const EXACT_POWERS: [f64; 23] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
            1e19, 1e20, 1e21, 1e22,
        ];
        match &self.0 {
            Form::Small { mantissa, scale } if mantissa.unsigned_abs() <= 1 << 53 && usize::from(*scale) < 23 => {
                *mantissa as f64 / EXACT_POWERS[usize::from(*scale)]
            }
            Form::NotANumber => f64::NAN,
            Form::Infinity => f64::INFINITY,
            Form::NegativeInfinity => f64::NEG_INFINITY,
            _ => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// A `double precision` as PostgreSQL casts it: 15 significant digits.
    pub fn from_f64(value: f64) -> Numeric {
        parse::from_float(value, 14)
    }

    /// A `real` as PostgreSQL casts it: 6 significant digits.
    pub fn from_f32(value: f32) -> Numeric {
        parse::from_float(f64::from(value), 5)
    }

    /// Where the value stands among the forms that are not finite.
    fn rank(&self) -> i8 {
        match self.0 {
            Form::NegativeInfinity => -1,
            Form::Small { .. } | Form::Big(_) => 0,
            Form::Infinity => 1,
            Form::NotANumber => 2,
        }
    }
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

/// 10^exponent where it fits.
fn small_power_of_ten(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

fn power_of_ten(exponent: u32) -> BigInt {
    small_power_of_ten(exponent).map_or_else(|| BigInt::from(10).pow(exponent), BigInt::from)
}

/// The number of decimal digits; 0 for 0.
fn decimal_length(magnitude: &BigUint) -> u64 {
    if magnitude.bits() == 0 {
        return 0;
    }
    if let Ok(small) = u128::try_from(magnitude) {
        return u64::from(small.ilog10()) + 1;
    }
    // floor((bits - 1) * log10(2)) is at most one digit short for every size reached here.
    let least = ((magnitude.bits() - 1) as f64 * std::f64::consts::LOG10_2).floor() as u64;
    let power = power_of_ten(least as u32);
    let mut length = least;
    let mut bound = power;
    while bound.magnitude() <= magnitude {
        bound *= 10;
        length += 1;
    }
    length
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        if let (Form::Small { mantissa: a, scale: x }, Form::Small { mantissa: b, scale: y }) = (&self.0, &other.0) {
            if x == y {
                return a.cmp(b);
            }
            if let Some(order) = compare_small(*a, *x, *b, *y) {
                return order;
            }
        }
        self.compare_slowly(other)
    }
}

/// The order of two inline numbers, where 128 bits are enough to tell.
fn compare_small(a: i64, a_scale: u16, b: i64, b_scale: u16) -> Option<Ordering> {
    if a.signum() != b.signum() {
        return Some(a.cmp(&b));
    }
    let scaled = |value: i64, digits: u16| small_power_of_ten(digits.into())?.checked_mul(value.into());
    if a_scale < b_scale {
        Some(scaled(a, b_scale - a_scale)?.cmp(&b.into()))
    } else {
        Some(i128::from(a).cmp(&scaled(b, a_scale - b_scale)?))
    }
}

impl Numeric {
    fn compare_slowly(&self, other: &Numeric) -> Ordering {
        let (Some((a, a_scale)), Some((b, b_scale))) = (self.decimal(), other.decimal()) else {
            return self.rank().cmp(&other.rank());
        };
        if a.sign() != b.sign() {
            return a.sign().cmp(&b.sign());
        }
        match a_scale.cmp(&b_scale) {
            Ordering::Equal => a.cmp(&b),
            Ordering::Less => (power_of_ten(u32::from(b_scale - a_scale)) * a.as_ref()).cmp(&b),
            Ordering::Greater => a
                .as_ref()
                .cmp(&(power_of_ten(u32::from(a_scale - b_scale)) * b.as_ref())),
        }
    }

    /// The mantissa without trailing zeros, and the exponent of ten that belongs to it (positive for whole tens): equal values
    /// give equal results. `None` for zero and what is not finite.
    fn normalized(&self) -> Option<(Cow<'_, BigInt>, i64)> {
        match &self.0 {
            Form::Small { mantissa, scale } if *mantissa != 0 => {
                let (mantissa, exponent) = strip_zeros(*mantissa, -i64::from(*scale));
                Some((Cow::Owned(BigInt::from(mantissa)), exponent))
            }
            Form::Big(decimal) => {
                let (mantissa, exponent) = strip_zeros_big(&decimal.mantissa, -i64::from(decimal.scale));
                Some((mantissa, exponent))
            }
            _ => None,
        }
    }
}

/// Moves trailing decimal zeros of a mantissa that is not 0 into the exponent.
fn strip_zeros(mut mantissa: i64, mut exponent: i64) -> (i64, i64) {
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    (mantissa, exponent)
}

fn strip_zeros_big(mantissa: &BigInt, exponent: i64) -> (Cow<'_, BigInt>, i64) {
    // As many factors of ten as there are factors of two at most; halving steps keep long runs of zeros cheap.
    let twos = mantissa.trailing_zeros().unwrap_or(0);
    let mut best = Cow::Borrowed(mantissa);
    let mut exponent = exponent;
    let mut step = twos.min(1 << 20);
    while step > 0 {
        let power = power_of_ten(step as u32);
        let zero = BigInt::ZERO;
        if best.as_ref() % &power == zero {
            best = Cow::Owned(best.as_ref() / &power);
            exponent += step as i64;
        } else {
            step /= 2;
        }
    }
    (best, exponent)
}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Form::Small { mantissa: 0, .. } => 0_i64.hash(state),
            Form::Small { mantissa, scale } => {
                let (mantissa, exponent) = strip_zeros(*mantissa, -i64::from(*scale));
                mantissa.hash(state);
                exponent.hash(state);
            }
            Form::Big(_) => {
                if let Some((mantissa, exponent)) = self.normalized() {
                    match i64::try_from(mantissa.as_ref()) {
                        Ok(mantissa) => mantissa.hash(state),
                        Err(_) => mantissa.hash(state),
                    }
                    exponent.hash(state);
                }
            }
            _ => (i64::MIN, self.rank()).hash(state),
        }
    }
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        Numeric::from_i64(value)
    }
}

#[cfg(test)]
mod properties;
