//! Square root, power, exponential and logarithm, computed in fixed point to PostgreSQL's result scales.

use super::arithmetic::divide_rounding;
use super::{
    DISPLAY_SCALE_MAX, INTEGER_DIGITS_MAX, Numeric, SIGNIFICANT_DIGITS_MIN, decimal_length, overflow, power_of_ten,
};
use crate::{Error, Result, SqlState};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// log10(e)
const LOG10_E: f64 = std::f64::consts::LOG10_E;
/// Digits computed beyond those that are kept.
const GUARD_DIGITS: i64 = 12;
/// Beyond this size of exponent, e^x leaves every range (2000 digits, times 3).
const EXPONENT_MAX: f64 = 6000.0;

fn power_error(message: &str) -> Error {
    Error::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

fn logarithm_error(message: &str) -> Error {
    Error::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message)
}

impl Numeric {
    /// The square root, to at least 16 significant digits. 2201F for a negative number.
    pub fn sqrt(&self) -> Result<Numeric> {
        if self.signum() < 0 {
            return Err(power_error("cannot take square root of a negative number"));
        }
        let Some((mantissa, own_scale)) = self.decimal() else {
            return Ok(self.clone());
        };
        let (weight, _) = self.leading_digit();
        let scale = result_scale(weight * 2 + 1, own_scale.into());
        let radicand = mantissa.as_ref() * power_of_ten(2 * scale - u32::from(own_scale));
        let root = radicand.sqrt();
        // The root lies above the half exactly when the rest is larger than the root.
        let rest = &radicand - &root * &root;
        Numeric::checked_big(if rest > root { root + 1 } else { root }, scale)
    }

    /// e to this power. 22003 if that has too many digits.
    pub fn exp(&self) -> Result<Numeric> {
        if !self.is_finite() {
            return Ok(if *self == Numeric::NEGATIVE_INFINITY {
                Numeric::ZERO
            } else {
                self.clone()
            });
        }
        let weight = (self.to_f64() * LOG10_E).clamp(-2000.0, 2000.0) as i64;
        self.exp_to_scale(result_scale(weight, self.scale()))
    }

    /// Finite only.
    fn exp_to_scale(&self, scale: u32) -> Result<Numeric> {
        let approximate = self.to_f64();
        if approximate.abs() >= EXPONENT_MAX {
            return if approximate > 0.0 {
                Err(overflow())
            } else {
                Ok(Numeric::small(0, scale as u16))
            };
        }
        let Some((mantissa, own_scale)) = self.decimal() else {
            return Ok(self.clone());
        };
        let weight = (approximate.abs() * LOG10_E) as i64 + 1;
        let precision = (i64::from(scale) + weight + GUARD_DIGITS).max(i64::from(own_scale)) as u32;
        let argument = BigInt::from(mantissa.magnitude().clone()) * power_of_ten(precision - u32::from(own_scale));
        let mut result = fixed_exp(&argument, precision);
        if mantissa.sign() == Sign::Minus {
            result = power_of_ten(2 * precision) / result;
        }
        Numeric::checked_big(
            divide_rounding(&result, &power_of_ten(precision - scale.min(precision))),
            scale,
        )
    }

    /// The natural logarithm. 2201E for zero and negative numbers.
    pub fn ln(&self) -> Result<Numeric> {
        self.check_logarithm()?;
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let scale = result_scale(self.logarithm_weight(), self.scale());
        self.ln_to_scale(scale)
    }

    /// The logarithm to base 10. 2201E for zero and negative numbers.
    pub fn log10(&self) -> Result<Numeric> {
        Numeric::from_i64(10).log_of(self)
    }

    /// The logarithm of `number` to this base. 2201E for zero and negative numbers, 22012 for base 1.
    pub fn log_of(&self, number: &Numeric) -> Result<Numeric> {
        self.check_logarithm()?;
        number.check_logarithm()?;
        if self.is_nan() || number.is_nan() || (!self.is_finite() && !number.is_finite()) {
            return Ok(Numeric::NAN);
        }
        if !self.is_finite() || !number.is_finite() {
            return Ok(if self.is_finite() {
                Numeric::INFINITY
            } else {
                Numeric::ZERO
            });
        }
        let weight = number.logarithm_weight() - self.logarithm_weight();
        let scale = result_scale(weight, self.scale().max(number.scale()));
        let precise = |operand: &Numeric| {
            let digits = i64::from(scale) + weight.max(0) - operand.logarithm_weight() + GUARD_DIGITS;
            operand.ln_to_scale(digits.max(i64::from(operand.scale())).clamp(0, 4000) as u32)
        };
        let divisor = precise(self)?;
        if divisor.is_zero() {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        precise(number)?.quotient(&divisor, scale)
    }

    fn check_logarithm(&self) -> Result<()> {
        match self.signum() {
            0 if !self.is_nan() => Err(logarithm_error("cannot take logarithm of zero")),
            -1 => Err(logarithm_error("cannot take logarithm of a negative number")),
            _ => Ok(()),
        }
    }

    /// PostgreSQL's `estimate_ln_dweight`: the power of ten of the first digit of the logarithm.
    fn logarithm_weight(&self) -> i64 {
        let tenth = |tenths| Numeric::small(tenths, 1);
        if *self >= tenth(9) && *self <= tenth(11) {
            let distance = self.checked_sub(&Numeric::ONE).unwrap_or(Numeric::ZERO);
            return distance.decimal_weight();
        }
        let (weight, digits) = self.leading_digits(2);
        let logarithm = (digits.max(1) as f64).ln() + ((weight - 1) * 4) as f64 * std::f64::consts::LN_10;
        logarithm.abs().log10() as i64
    }

    /// Finite and positive only.
    fn ln_to_scale(&self, scale: u32) -> Result<Numeric> {
        let Some((mantissa, own_scale)) = self.decimal() else {
            return Ok(self.clone());
        };
        let precision = (i64::from(scale) + GUARD_DIGITS) as u32;
        let weight = self.decimal_weight();
        // Near 1 the number itself is taken; further off, its powers of ten are taken out first.
        let exponent = if (-1..=1).contains(&weight) { 0 } else { weight };
        let shift = i64::from(precision) - i64::from(own_scale) - exponent;
        let argument = if shift >= 0 {
            mantissa.as_ref() * power_of_ten(shift as u32)
        } else {
            mantissa.as_ref() / power_of_ten(-shift as u32)
        };
        let mut result = fixed_ln(&argument, precision);
        if exponent != 0 {
            // The exponent has up to six digits, all of which come off the precision of ln(10).
            let ten = fixed_ln(&power_of_ten(precision + 7), precision + 6);
            result += ten * exponent / power_of_ten(6);
        }
        Numeric::checked_big(divide_rounding(&result, &power_of_ten(precision - scale)), scale)
    }

    /// This number to the power `exponent`: exact, then rounded, for whole exponents; otherwise to at least 16 significant
    /// digits. 2201F where the result is undefined or complex, 22003 where it has too many digits.
    pub fn power(&self, exponent: &Numeric) -> Result<Numeric> {
        if !self.is_finite() || !exponent.is_finite() {
            return self.power_special(exponent);
        }
        self.check_power(exponent)?;
        let whole = exponent.trunc(0);
        if whole == *exponent
            && let Ok(count) = whole.to_i64()
            && let Ok(count) = i32::try_from(count)
        {
            return self.power_whole(count, exponent.scale());
        }
        self.power_fraction(exponent)
    }

    fn check_power(&self, exponent: &Numeric) -> Result<()> {
        if self.signum() == 0 && !self.is_nan() && exponent.signum() < 0 {
            return Err(power_error("zero raised to a negative power is undefined"));
        }
        if self.signum() < 0 && exponent.is_finite() && exponent.trunc(0) != *exponent {
            return Err(power_error(
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        Ok(())
    }

    /// POSIX's rules for `pow` where an operand is not finite.
    fn power_special(&self, exponent: &Numeric) -> Result<Numeric> {
        if *self == Numeric::ONE || exponent.is_zero() {
            return Ok(Numeric::ONE);
        }
        if self.is_nan() || exponent.is_nan() {
            return Ok(Numeric::NAN);
        }
        self.check_power(exponent)?;
        let grows = exponent.signum() > 0;
        if self.is_zero() {
            return Ok(Numeric::ZERO);
        }
        if !exponent.is_finite() {
            return Ok(match self.abs().cmp(&Numeric::ONE) {
                Ordering::Equal => Numeric::ONE,
                order if (order == Ordering::Greater) == grows => Numeric::INFINITY,
                _ => Numeric::ZERO,
            });
        }
        Ok(match (grows, self.signum() < 0 && exponent.is_odd()) {
            (false, _) => Numeric::ZERO,
            (true, true) => Numeric::NEGATIVE_INFINITY,
            (true, false) => Numeric::INFINITY,
        })
    }

    fn is_odd(&self) -> bool {
        matches!(self.checked_rem(&Numeric::from_i64(2)), Ok(rest) if !rest.is_zero())
    }

    fn power_whole(&self, exponent: i32, exponent_scale: u32) -> Result<Numeric> {
        let (weight, digits) = self.leading_digits(4);
        let leading = if digits == 0 {
            0.0
        } else {
            (digits as f64).log10() + ((weight - 3) * 4) as f64
        };
        let result_weight = f64::from(exponent) * leading;
        if result_weight > INTEGER_DIGITS_MAX as f64 {
            return Err(overflow());
        }
        // Unlike the other functions, and unlike later releases, PostgreSQL 15 counts the 16 digits from the point here.
        let scale = result_scale(0, self.scale().max(exponent_scale));
        if result_weight + 1.0 < -f64::from(scale) || (self.is_zero() && exponent != 0) {
            return Ok(Numeric::small(0, scale as u16));
        }
        let Some((mantissa, own_scale)) = self.decimal() else {
            return Ok(self.clone());
        };
        let digits_kept = (i64::from(scale) + result_weight.abs() as i64 + GUARD_DIGITS + 10) as u64;
        let (power, tens) = truncated_power(
            mantissa.as_ref(),
            -i64::from(own_scale),
            exponent.unsigned_abs(),
            digits_kept,
        );
        let (dividend, divisor, shift) = if exponent >= 0 {
            (power, BigInt::from(1), i64::from(scale) + tens)
        } else {
            (BigInt::from(1), power, i64::from(scale) - tens)
        };
        let result = if shift >= 0 {
            divide_rounding(&(dividend * power_of_ten(shift as u32)), &divisor)
        } else {
            divide_rounding(&dividend, &(divisor * power_of_ten(-shift as u32)))
        };
        Numeric::checked_big(result, scale)
    }

    fn power_fraction(&self, exponent: &Numeric) -> Result<Numeric> {
        if self.is_zero() {
            return Ok(Numeric::small(0, SIGNIFICANT_DIGITS_MIN as u16));
        }
        let base = self.abs();
        let rough_scale = (8 - base.logarithm_weight()).clamp(0, 2 * DISPLAY_SCALE_MAX) as u32;
        let rough = base.ln_to_scale(rough_scale)?.to_f64() * exponent.to_f64();
        if rough.abs() > EXPONENT_MAX * 1.01 {
            let zero = || Ok(Numeric::small(0, DISPLAY_SCALE_MAX as u16));
            return if rough > 0.0 { Err(overflow()) } else { zero() };
        }
        let result_weight = rough * LOG10_E;
        let scale = result_scale(result_weight as i64, self.scale().max(exponent.scale()));
        // The product must be good to as many digits as the result has, before and after the point.
        let product_scale = i64::from(scale) + result_weight.abs() as i64 + GUARD_DIGITS;
        let logarithm_scale = product_scale + exponent.decimal_weight().max(0) + GUARD_DIGITS;
        let logarithm = base.ln_to_scale(logarithm_scale.clamp(0, 8000) as u32)?;
        let result = logarithm
            .checked_mul(exponent)?
            .round(product_scale as i32)
            .exp_to_scale(scale)?;
        Ok(if self.signum() < 0 && exponent.is_odd() {
            result.neg()
        } else {
            result
        })
    }
}

/// The scale that leaves 16 significant digits in a result of this weight, and no less than the operands have.
fn result_scale(weight: i64, operand_scale: u32) -> u32 {
    (SIGNIFICANT_DIGITS_MIN - weight)
        .max(operand_scale.into())
        .clamp(0, DISPLAY_SCALE_MAX) as u32
}

/// e^x for x >= 0, both times 10^precision.
fn fixed_exp(argument: &BigInt, precision: u32) -> BigInt {
    // x is halved until it is below 1/256, and the result squared as often; each squaring doubles the relative error.
    let one = power_of_ten(precision);
    let halvings = ((argument * 256_u32) / &one).bits() as u32;
    let extra = halvings / 3 + 4;
    let one = one * power_of_ten(extra);
    let reduced = (argument * power_of_ten(extra)) >> halvings;
    let mut term = one.clone();
    let mut sum = one.clone();
    let mut count = 1_u32;
    while term.sign() != Sign::NoSign {
        term = &term * &reduced / &one / count;
        sum += &term;
        count += 1;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    sum / power_of_ten(extra)
}

/// ln(x) for x between 0.01 and 1000, both times 10^precision; off by a few units of the last place.
fn fixed_ln(argument: &BigInt, precision: u32) -> BigInt {
    let one = power_of_ten(precision);
    let near = &one / 64_u32;
    let mut root = argument.clone();
    let mut doublings = 0_u32;
    while (&root - &one).magnitude() > near.magnitude() {
        root = (root * &one).sqrt();
        doublings += 1;
    }
    // ln(x) = 2 artanh((x - 1) / (x + 1))
    let ratio = (&root - &one) * &one / (&root + &one);
    let square = &ratio * &ratio / &one;
    let mut term = ratio.clone();
    let mut sum = ratio;
    let mut divisor = 3_u32;
    while term.sign() != Sign::NoSign {
        term = &term * &square / &one;
        sum += &term / divisor;
        divisor += 2;
    }
    sum << (doublings + 1)
}

/// `mantissa * 10^tens` to a power, as a mantissa of about `digits_kept` digits and an exponent of ten.
fn truncated_power(mantissa: &BigInt, tens: i64, exponent: u32, digits_kept: u64) -> (BigInt, i64) {
    let mut result = (BigInt::from(1), 0_i64);
    let mut square = (mantissa.clone(), tens);
    let mut rest = exponent;
    while rest > 0 {
        if rest & 1 == 1 {
            result = truncate((result.0 * &square.0, result.1 + square.1), digits_kept);
        }
        rest >>= 1;
        if rest > 0 {
            square = truncate((&square.0 * &square.0, 2 * square.1), digits_kept);
        }
    }
    result
}

fn truncate((mantissa, tens): (BigInt, i64), digits_kept: u64) -> (BigInt, i64) {
    // Only clearly oversized numbers are cut: counting digits costs more than carrying a few.
    if mantissa.bits() < digits_kept * 4 {
        return (mantissa, tens);
    }
    let surplus = decimal_length(mantissa.magnitude()).saturating_sub(digits_kept) as u32;
    (mantissa / power_of_ten(surplus), tens + i64::from(surplus))
}
