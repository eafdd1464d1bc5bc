//! Functions of exact numbers.

use super::FunctionEntry;
use super::argument::{entry, typed};
use crate::cast::out_of_range;
use rubato_base::{Numeric, Result};

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

pub(super) static NUMERIC_MATH: &[FunctionEntry] = &[
    entry!("@" (Numeric) -> Numeric, typed!(|a: &Numeric| a.abs())),
    entry!("abs" (Numeric) -> Numeric, typed!(|a: &Numeric| a.abs())),
    entry!("sign" (Numeric) -> Numeric, typed!(|a: &Numeric| a.sign())),
    entry!("ceil" (Numeric) -> Numeric, typed!(|a: &Numeric| a.ceil())),
    entry!("ceiling" (Numeric) -> Numeric, typed!(|a: &Numeric| a.ceil())),
    entry!("floor" (Numeric) -> Numeric, typed!(|a: &Numeric| a.floor())),
    entry!("round" (Numeric) -> Numeric, typed!(|a: &Numeric| a.round(0))),
    entry!("round" (Numeric, Int4) -> Numeric, typed!(|a: &Numeric, digits: i32| a.round(digits))),
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
    entry!("scale" (Numeric) -> Int4, typed!(|a: &Numeric| a.is_finite().then(|| a.scale() as i32))),
    entry!("min_scale" (Numeric) -> Int4, typed!(|a: &Numeric| min_scale(a))),
    entry!("trim_scale" (Numeric) -> Numeric, typed!(|a: Numeric| min_scale(&a).map_or(a.clone(), |digits| a.trunc(digits)))),
    entry!("gcd" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| narrow(gcd(a.into(), b.into())))),
    entry!("gcd" (Int8, Int8) -> Int8, typed!(|a: i64, b: i64| gcd(a, b))),
    entry!("lcm" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| narrow(lcm(a.into(), b.into())))),
    entry!("lcm" (Int8, Int8) -> Int8, typed!(|a: i64, b: i64| lcm(a, b))),
];
