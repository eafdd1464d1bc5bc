//! Functions of exact numbers.

use super::FunctionEntry;
use super::argument::{entry, typed};
use crate::cast::out_of_range;
use rubato_base::{Error, Numeric, Result, SqlState};

fn greatest_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn gcd(a: i64, b: i64) -> Result<i64> {
    i64::try_from(greatest_divisor(a.unsigned_abs(), b.unsigned_abs())).map_err(|_| out_of_range("bigint"))
}

fn lcm(a: i64, b: i64) -> Result<i64> {
    if a == 0 || b == 0 {
        return Ok(0);
    }
    let wide = u128::from(a.unsigned_abs()) / u128::from(greatest_divisor(a.unsigned_abs(), b.unsigned_abs()))
        * u128::from(b.unsigned_abs());
    i64::try_from(wide).map_err(|_| out_of_range("bigint"))
}

fn narrow(wide: Result<i64>) -> Result<i32> {
    wide.and_then(|wide| i32::try_from(wide).map_err(|_| out_of_range("integer")))
}

/// NaN for what has no divisors.
fn numeric_gcd(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if !a.is_finite() || !b.is_finite() {
        return Ok(Numeric::NAN);
    }
    let scale = a.scale().max(b.scale()) as i32;
    let (mut a, mut b) = (a.abs(), b.abs());
    while !b.is_zero() {
        let rest = a.checked_rem(&b)?;
        (a, b) = (b, rest);
    }
    Ok(a.round(scale))
}

/// 22003 for a multiple that is too large.
fn numeric_lcm(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    let divisor = numeric_gcd(a, b)?;
    if divisor.is_nan() || divisor.is_zero() {
        return Ok(divisor);
    }
    let scale = a.scale().max(b.scale()) as i32;
    Ok(a.checked_div_integer(&divisor)?.checked_mul(b)?.abs().round(scale))
}

fn min_scale(number: &Numeric) -> Option<i32> {
    if !number.is_finite() {
        return None;
    }
    let scale = number.scale() as i32;
    Some(
        (0..=scale)
            .find(|digits| number.trunc(*digits) == *number)
            .unwrap_or(scale),
    )
}

/// 22003 beyond what PostgreSQL computes.
fn factorial(number: i64) -> Result<Numeric> {
    if number < 0 {
        return Err(out_of_range_of("factorial of a negative number is undefined"));
    }
    if number > 32_177 {
        return Err(out_of_range_of("value overflows numeric format"));
    }
    let mut product = Numeric::from(1_i64);
    for factor in 2..=number {
        product = product.checked_mul(&Numeric::from(factor))?;
    }
    Ok(product)
}

fn out_of_range_of(message: &'static str) -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// The number of the bucket of equal width that an operand lies in; 0 below the first, one more than there are above the last.
fn width_bucket(operand: f64, (low, high): (f64, f64), count: i32) -> Result<i32> {
    let refused = |message: &str| Err(Error::new(SqlState(*b"2201G"), message.to_owned()));
    if count <= 0 {
        return refused("count must be greater than zero");
    }
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return refused("operand, lower bound, and upper bound cannot be NaN");
    }
    if !low.is_finite() || !high.is_finite() {
        return refused("lower and upper bounds must be finite");
    }
    if low == high {
        return refused("lower bound cannot equal upper bound");
    }
    let share = (operand - low) / (high - low);
    if share < 0.0 {
        return Ok(0);
    }
    if share >= 1.0 {
        return count.checked_add(1).ok_or_else(|| out_of_range("integer"));
    }
    Ok((share * f64::from(count)) as i32 + 1)
}

pub(super) static NUMERIC_MATH: &[FunctionEntry] = &[
    entry!("@" (Numeric) -> Numeric, typed!(|a: &Numeric| a.abs())),
    entry!("abs" (Numeric) -> Numeric, typed!(|a: &Numeric| a.abs())),
    entry!("sign" (Numeric) -> Numeric, typed!(|a: &Numeric| a.sign())),
    entry!("ceil" (Numeric) -> Numeric, typed!(|a: &Numeric| a.ceil())),
    entry!("ceiling" (Numeric) -> Numeric, typed!(|a: &Numeric| a.ceil())),
    entry!("floor" (Numeric) -> Numeric, typed!(|a: &Numeric| a.floor())),
    entry!("round" (Numeric) -> Numeric, typed!(|a: &Numeric| a.checked_round(0))),
    entry!("round" (Numeric, Int4) -> Numeric, typed!(|a: &Numeric, digits: i32| a.checked_round(digits))),
    entry!("trunc" (Numeric) -> Numeric, typed!(|a: &Numeric| a.trunc(0))),
    entry!("trunc" (Numeric, Int4) -> Numeric, typed!(|a: &Numeric, digits: i32| a.trunc(digits))),
    entry!("div" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.checked_div_integer(b))),
    entry!("power" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.power(b))),
    entry!("pow" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.power(b))),
    entry!("^" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.power(b))),
    entry!("sqrt" (Numeric) -> Numeric, typed!(|a: &Numeric| a.sqrt())),
    entry!("exp" (Numeric) -> Numeric, typed!(|a: &Numeric| a.exp())),
    entry!("ln" (Numeric) -> Numeric, typed!(|a: &Numeric| a.ln())),
    entry!("log" (Numeric) -> Numeric, typed!(|a: &Numeric| a.log10())),
    entry!("log10" (Numeric) -> Numeric, typed!(|a: &Numeric| a.log10())),
    entry!("log" (Numeric, Numeric) -> Numeric, typed!(|base: &Numeric, a: &Numeric| base.log_of(a))),
    entry!("factorial" (Int8) -> Numeric, typed!(|a: i64| factorial(a))),
    entry!("width_bucket" (Float8, Float8, Float8, Int4) -> Int4, typed!(|a: f64, low: f64, high: f64, count: i32| {
        width_bucket(a, (low, high), count)
    })),
    entry!("width_bucket" (Numeric, Numeric, Numeric, Int4) -> Int4, typed!(
        |a: &Numeric, low: &Numeric, high: &Numeric, count: i32| {
            width_bucket(a.to_f64(), (low.to_f64(), high.to_f64()), count)
        }
    )),
    entry!("scale" (Numeric) -> Int4, typed!(|a: &Numeric| a.is_finite().then(|| a.scale() as i32))),
    entry!("min_scale" (Numeric) -> Int4, typed!(|a: &Numeric| min_scale(a))),
    entry!("trim_scale" (Numeric) -> Numeric, typed!(|a: Numeric| min_scale(&a).map_or(a.clone(), |digits| a.trunc(digits)))),
    entry!("gcd" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| narrow(gcd(a.into(), b.into())))),
    entry!("gcd" (Int8, Int8) -> Int8, typed!(|a: i64, b: i64| gcd(a, b))),
    entry!("gcd" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| numeric_gcd(a, b))),
    entry!("lcm" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| numeric_lcm(a, b))),
    entry!("lcm" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| narrow(lcm(a.into(), b.into())))),
    entry!("lcm" (Int8, Int8) -> Int8, typed!(|a: i64, b: i64| lcm(a, b))),
];
