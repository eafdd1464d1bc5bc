//! Sum, difference, product, quotient, remainder and rounding, with PostgreSQL's result scales.

use super::{
    DISPLAY_SCALE_MAX, Form, Numeric, SCALE_MAX, SIGNIFICANT_DIGITS_MIN, decimal_length, power_of_ten,
    small_power_of_ten,
};
use crate::{Error, Result, SqlState};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

impl Numeric {
    /// The sum; its scale is the larger one. 22003 if it has too many digits.
    pub fn checked_add(&self, other: &Numeric) -> Result<Numeric> {
        if let (Form::Small { mantissa: a, scale: x }, Form::Small { mantissa: b, scale: y }) = (&self.0, &other.0) {
            if x == y {
                return Ok(Numeric::from_wide(i128::from(*a) + i128::from(*b), *x));
            }
            if let Some((a, b, scale)) = align(*a, *x, *b, *y)
                && let Some(sum) = a.checked_add(b)
            {
                return Ok(Numeric::from_wide(sum, scale));
            }
        }
        let (Some((a, x)), Some((b, y))) = (self.decimal(), other.decimal()) else {
            return Ok(self.add_special(other));
        };
        let scale = x.max(y);
        let sum = power_of_ten(u32::from(scale - x)) * a.as_ref() + power_of_ten(u32::from(scale - y)) * b.as_ref();
        Numeric::checked_big(sum, scale.into())
    }

    /// The difference; its scale is the larger one. 22003 if it has too many digits.
    pub fn checked_sub(&self, other: &Numeric) -> Result<Numeric> {
        if let (Form::Small { mantissa: a, scale: x }, Form::Small { mantissa: b, scale: y }) = (&self.0, &other.0)
            && x == y
        {
            return Ok(Numeric::from_wide(i128::from(*a) - i128::from(*b), *x));
        }
        self.checked_add(&other.neg())
    }

    fn add_special(&self, other: &Numeric) -> Numeric {
        match (self.rank(), other.rank()) {
            (2, _) | (_, 2) | (-1, 1) | (1, -1) => Numeric::NAN,
            (0, _) => other.clone(),
            _ => self.clone(),
        }
    }

    /// The product; its scale is the sum of the two, at most 16383. 22003 if it has too many digits.
    pub fn checked_mul(&self, other: &Numeric) -> Result<Numeric> {
        if let (Form::Small { mantissa: a, scale: x }, Form::Small { mantissa: b, scale: y }) = (&self.0, &other.0)
            && u32::from(*x) + u32::from(*y) <= SCALE_MAX
        {
            return Ok(Numeric::from_wide(i128::from(*a) * i128::from(*b), x + y));
        }
        let (Some((a, x)), Some((b, y))) = (self.decimal(), other.decimal()) else {
            let sign = self.signum() * other.signum();
            return Ok(if self.is_nan() || other.is_nan() {
                Numeric::NAN
            } else {
                infinity_of_sign(sign)
            });
        };
        let scale = u32::from(x) + u32::from(y);
        let product = a.as_ref() * b.as_ref();
        if scale <= SCALE_MAX {
            return Numeric::checked_big(product, scale);
        }
        Numeric::checked_big(divide_rounding(&product, &power_of_ten(scale - SCALE_MAX)), SCALE_MAX)
    }

    /// The quotient, rounded half away from zero to at least 16 significant digits and at least the scale of either operand.
    /// 22012 if `other` is zero.
    pub fn checked_div(&self, other: &Numeric) -> Result<Numeric> {
        if !self.is_finite() || !other.is_finite() {
            return self.divide_special(other);
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        let scale = self.quotient_scale(other);
        self.quotient(other, scale)
    }

    fn divide_special(&self, other: &Numeric) -> Result<Numeric> {
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::NAN);
        }
        if self.is_finite() {
            return Ok(Numeric::ZERO);
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        // An infinity by an infinity is not a number; by a finite number it keeps its size.
        Ok(if other.is_finite() {
            infinity_of_sign(self.signum() * other.signum())
        } else {
            Numeric::NAN
        })
    }

    /// Both finite, `other` not zero.
    pub(super) fn quotient(&self, other: &Numeric, scale: u32) -> Result<Numeric> {
        let shift = i64::from(scale) + i64::from(other.scale()) - i64::from(self.scale());
        if let (Form::Small { mantissa: a, .. }, Form::Small { mantissa: b, .. }) = (&self.0, &other.0)
            && let Ok(shift) = u32::try_from(shift)
            && let Some(dividend) = small_power_of_ten(shift).and_then(|power| power.checked_mul(i128::from(*a)))
        {
            return Ok(Numeric::from_wide(
                divide_rounding_wide(dividend, i128::from(*b)),
                scale as u16,
            ));
        }
        let (Some((a, _)), Some((b, _))) = (self.decimal(), other.decimal()) else {
            return Ok(Numeric::NAN);
        };
        let quotient = if shift >= 0 {
            divide_rounding(&(power_of_ten(shift as u32) * a.as_ref()), b.as_ref())
        } else {
            divide_rounding(a.as_ref(), &(power_of_ten(-shift as u32) * b.as_ref()))
        };
        Numeric::checked_big(quotient, scale)
    }

    /// PostgreSQL's `select_div_scale`, which looks at the first digit and weight in base 10000.
    fn quotient_scale(&self, other: &Numeric) -> u32 {
        let (weight, digit) = self.leading_digit();
        let (other_weight, other_digit) = other.leading_digit();
        let quotient_weight = weight - other_weight - i64::from(digit <= other_digit);
        let scale = SIGNIFICANT_DIGITS_MIN - quotient_weight * 4;
        scale
            .max(self.scale().into())
            .max(other.scale().into())
            .clamp(0, DISPLAY_SCALE_MAX) as u32
    }

    /// The power of 10000 of the first digit that is not 0 in base 10000, and that digit; zeros for zero.
    pub(super) fn leading_digit(&self) -> (i64, u32) {
        let (weight, digits) = self.leading_digits(1);
        (weight, digits as u32)
    }

    /// The power of 10000 of the first digit, and the first `count` digits (at most 4) in base 10000 as one number.
    pub(super) fn leading_digits(&self, count: u32) -> (i64, u64) {
        if self.is_zero() || !self.is_finite() {
            return (0, 0);
        }
        let weight = self.decimal_weight().div_euclid(4);
        let shift = i64::from(self.scale()) + 4 * (weight - i64::from(count) + 1);
        if let Form::Small { mantissa, .. } = &self.0 {
            let magnitude = i128::from(mantissa.unsigned_abs());
            let digits = match u32::try_from(shift) {
                Ok(down) => small_power_of_ten(down).map(|power| magnitude / power),
                Err(_) => small_power_of_ten(-shift as u32).and_then(|power| magnitude.checked_mul(power)),
            };
            if let Some(digits) = digits {
                return (weight, digits as u64);
            }
        }
        let Some((mantissa, _)) = self.decimal() else {
            return (0, 0);
        };
        let digits = if shift >= 0 {
            mantissa.magnitude() / power_of_ten(shift as u32).magnitude()
        } else {
            mantissa.magnitude() * power_of_ten(-shift as u32).magnitude()
        };
        (weight, u64::try_from(digits).unwrap_or(0))
    }

    /// The power of ten of the first digit that is not 0; 0 for zero.
    pub(super) fn decimal_weight(&self) -> i64 {
        match &self.0 {
            Form::Small { mantissa: 0, .. } => 0,
            Form::Small { mantissa, scale } => i64::from(mantissa.unsigned_abs().ilog10()) - i64::from(*scale),
            Form::Big(decimal) => decimal_length(decimal.mantissa.magnitude()) as i64 - 1 - i64::from(decimal.scale),
            _ => 0,
        }
    }

    /// The remainder, with the sign of `self` and the larger scale. 22012 if `other` is zero.
    pub fn checked_rem(&self, other: &Numeric) -> Result<Numeric> {
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::NAN);
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        if !self.is_finite() {
            return Ok(Numeric::NAN);
        }
        if let (Form::Small { mantissa: a, scale: x }, Form::Small { mantissa: b, scale: y }) = (&self.0, &other.0)
            && let Some((a, b, scale)) = align(*a, *x, *b, *y)
        {
            return Ok(Numeric::from_wide(a % b, scale));
        }
        let (Some((a, x)), Some((b, y))) = (self.decimal(), other.decimal()) else {
            return Ok(self.clone());
        };
        let scale = x.max(y);
        let dividend = power_of_ten(u32::from(scale - x)) * a.as_ref();
        let divisor = power_of_ten(u32::from(scale - y)) * b.as_ref();
        Numeric::checked_big(dividend % divisor, scale.into())
    }

    /// The whole quotient, truncated towards zero (`div(a, b)`). 22012 if `other` is zero.
    pub fn checked_div_integer(&self, other: &Numeric) -> Result<Numeric> {
        if !self.is_finite() || !other.is_finite() {
            return self.divide_special(other);
        }
        let remainder = self.checked_rem(other)?;
        self.checked_sub(&remainder)?.quotient(other, 0)
    }

    /// The number with the opposite sign.
    #[must_use]
    pub fn neg(&self) -> Numeric {
        match &self.0 {
            Form::Small { mantissa, scale } => Numeric::from_wide(-i128::from(*mantissa), *scale),
            Form::Big(decimal) => Numeric::from_big(-&decimal.mantissa, decimal.scale),
            Form::NotANumber => Numeric::NAN,
            Form::Infinity => Numeric::NEGATIVE_INFINITY,
            Form::NegativeInfinity => Numeric::INFINITY,
        }
    }

    /// The number without its sign.
    #[must_use]
    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// -1, 0 or 1 as a number; NaN for NaN.
    #[must_use]
    pub fn sign(&self) -> Numeric {
        if self.is_nan() {
            Numeric::NAN
        } else {
            Numeric::from_i64(self.signum().into())
        }
    }

    /// Rounded half away from zero to `digits` digits after the point (before it, if negative).
    #[must_use]
    pub fn round(&self, digits: i32) -> Numeric {
        self.rescale(digits, Rounding::HalfAwayFromZero)
    }

    /// [`Numeric::round`]. 22003 where a digit more is one too many.
    pub fn checked_round(&self, digits: i32) -> Result<Numeric> {
        self.round(digits).checked_add(&Numeric::ZERO)
    }

    /// Cut to `digits` digits after the point (before it, if negative).
    #[must_use]
    pub fn trunc(&self, digits: i32) -> Numeric {
        self.rescale(digits, Rounding::TowardsZero)
    }

    /// The least whole number that is not less.
    #[must_use]
    pub fn ceil(&self) -> Numeric {
        self.rescale(0, Rounding::Up)
    }

    /// The greatest whole number that is not greater.
    #[must_use]
    pub fn floor(&self) -> Numeric {
        self.rescale(0, Rounding::Down)
    }

    fn rescale(&self, digits: i32, rounding: Rounding) -> Numeric {
        // 131072 digits before the point is where every number ends; one more place rounds to zero.
        let digits = digits.clamp(-131_073, SCALE_MAX as i32);
        let kept_scale = digits.max(0) as u16;
        match &self.0 {
            Form::Small { mantissa, scale } if i32::from(*scale) == digits => Numeric::small(*mantissa, *scale),
            Form::Small { mantissa, scale } => {
                let raised = rescale_wide(i128::from(*mantissa), digits - i32::from(*scale), digits, rounding);
                raised.map_or_else(
                    || rescale_big(&BigInt::from(*mantissa), *scale, digits, rounding),
                    |mantissa| Numeric::from_wide(mantissa, kept_scale),
                )
            }
            Form::Big(decimal) => rescale_big(&decimal.mantissa, decimal.scale, digits, rounding),
            _ => self.clone(),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    HalfAwayFromZero,
    TowardsZero,
    Up,
    Down,
}

/// Moves a mantissa by `shift` decimal places; `None` if 128 bits are not enough.
fn rescale_wide(mantissa: i128, shift: i32, digits: i32, rounding: Rounding) -> Option<i128> {
    if shift >= 0 {
        return small_power_of_ten(shift as u32)?.checked_mul(mantissa);
    }
    let power = small_power_of_ten(shift.unsigned_abs())?;
    let quotient = match rounding {
        Rounding::HalfAwayFromZero => divide_rounding_wide(mantissa, power),
        Rounding::TowardsZero => mantissa / power,
        Rounding::Down => mantissa.div_euclid(power),
        Rounding::Up => -(-mantissa).div_euclid(power),
    };
    // Places before the point come back as zeros.
    small_power_of_ten((-digits).max(0) as u32)?.checked_mul(quotient)
}

fn rescale_big(mantissa: &BigInt, scale: u16, digits: i32, rounding: Rounding) -> Numeric {
    let shift = digits - i32::from(scale);
    let kept_scale = digits.max(0) as u16;
    if shift >= 0 {
        return Numeric::from_big(mantissa * power_of_ten(shift as u32), kept_scale);
    }
    let power = power_of_ten(shift.unsigned_abs());
    let mut quotient = mantissa / &power;
    let remainder = mantissa % &power;
    match rounding {
        Rounding::HalfAwayFromZero => quotient = divide_rounding(mantissa, &power),
        Rounding::Up if remainder.sign() == Sign::Plus => quotient += 1,
        Rounding::Down if remainder.sign() == Sign::Minus => quotient -= 1,
        _ => {}
    }
    Numeric::from_big(quotient * power_of_ten((-digits).max(0) as u32), kept_scale)
}

/// Both mantissas at the larger scale, where 128 bits hold them.
fn align(a: i64, a_scale: u16, b: i64, b_scale: u16) -> Option<(i128, i128, u16)> {
    let scaled = |value: i64, digits: u16| small_power_of_ten(digits.into())?.checked_mul(value.into());
    if a_scale < b_scale {
        Some((scaled(a, b_scale - a_scale)?, b.into(), b_scale))
    } else {
        Some((a.into(), scaled(b, a_scale - b_scale)?, a_scale))
    }
}

/// The quotient rounded half away from zero.
fn divide_rounding_wide(dividend: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (dividend / divisor, dividend % divisor);
    let up = remainder.unsigned_abs() >= divisor.unsigned_abs() - remainder.unsigned_abs();
    if up {
        quotient + dividend.signum() * divisor.signum()
    } else {
        quotient
    }
}

/// The quotient rounded half away from zero.
pub(super) fn divide_rounding(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    let remainder = dividend % divisor;
    let twice = remainder.magnitude() * 2_u32;
    if twice.cmp(divisor.magnitude()) == Ordering::Less {
        return quotient;
    }
    if dividend.sign() == divisor.sign() {
        quotient + 1
    } else {
        quotient - 1
    }
}

fn infinity_of_sign(sign: i32) -> Numeric {
    match sign {
        1 => Numeric::INFINITY,
        -1 => Numeric::NEGATIVE_INFINITY,
        _ => Numeric::NAN,
    }
}

impl Numeric {
    /// The value as a column `numeric(precision, scale)` keeps it: rounded; 22003 if it does not fit.
    pub fn with_modifier(&self, precision: u32, scale: i32) -> Result<Numeric> {
        let overflow = |detail: String| {
            Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail))
        };
        if self.is_nan() {
            return Ok(Numeric::NAN);
        }
        if !self.is_finite() {
            return overflow(format!(
                "A field with precision {precision}, scale {scale} cannot hold an infinite value."
            ));
        }
        let rounded = self.round(scale);
        let digits_max = i64::from(precision) - i64::from(scale);
        if rounded.is_zero() || rounded.decimal_weight() < digits_max {
            return Ok(rounded);
        }
        let bound = if digits_max == 0 {
            "1".to_owned()
        } else {
            format!("10^{digits_max}")
        };
        overflow(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
        ))
    }
}
