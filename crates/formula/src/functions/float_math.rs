//! Functions of `double precision` (and `real` where PostgreSQL has them).

use super::FunctionEntry;
use super::argument::{entry, typed};
use super::arithmetic::{checked_float, divide_floats};
use rubato_base::{Error, Result, SqlState};

fn power_error(message: &str) -> Error {
    Error::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

fn range_error(message: &str) -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

fn square_root(a: f64) -> Result<f64> {
    if a < 0.0 {
        Err(power_error("cannot take square root of a negative number"))
    } else {
        Ok(a.sqrt())
    }
}

fn power(a: f64, b: f64) -> Result<f64> {
    if a == 0.0 && b < 0.0 {
        return Err(power_error("zero raised to a negative power is undefined"));
    }
    if a < 0.0 && !b.is_nan() && b.floor() != b {
        return Err(power_error(
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    let result = a.powf(b);
    if result == 0.0 && a != 0.0 && a.is_finite() && b.is_finite() {
        return Err(range_error("value out of range: underflow"));
    }
    checked_float(result, a.is_finite() && b.is_finite())
}

fn exponential(a: f64) -> Result<f64> {
    let result = a.exp();
    if result == 0.0 && a.is_finite() {
        return Err(range_error("value out of range: underflow"));
    }
    checked_float(result, a.is_finite())
}

fn logarithm(a: f64, compute: fn(f64) -> f64) -> Result<f64> {
    let error = |message: &str| Err(Error::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message));
    if a == 0.0 {
        return error("cannot take logarithm of zero");
    }
    if a < 0.0 {
        return error("cannot take logarithm of a negative number");
    }
    Ok(compute(a))
}

/// A function that is defined for finite arguments only.
fn finite(a: f64, compute: fn(f64) -> f64) -> Result<f64> {
    if a.is_infinite() {
        Err(range_error("input is out of range"))
    } else {
        checked_float(compute(a), true)
    }
}

/// A function that is defined between -1 and 1.
fn bounded(a: f64, compute: fn(f64) -> f64) -> Result<f64> {
    // NaN is let through: its result is NaN.
    if a.abs() > 1.0 {
        Err(range_error("input is out of range"))
    } else {
        Ok(compute(a))
    }
}

fn sign(a: f64) -> f64 {
    if a > 0.0 {
        1.0
    } else if a < 0.0 {
        -1.0
    } else {
        0.0
    }
}

fn cotangent(a: f64) -> Result<f64> {
    if a.is_infinite() {
        Err(range_error("input is out of range"))
    } else {
        Ok(1.0 / a.tan())
    }
}

pub(super) static FLOAT_MATH: &[FunctionEntry] = &[
    entry!("@" (Float4) -> Float4, typed!(|a: f32| a.abs())),
    entry!("@" (Float8) -> Float8, typed!(|a: f64| a.abs())),
    entry!("abs" (Float4) -> Float4, typed!(|a: f32| a.abs())),
    entry!("abs" (Float8) -> Float8, typed!(|a: f64| a.abs())),
    entry!("sign" (Float8) -> Float8, typed!(|a: f64| sign(a))),
    entry!("ceil" (Float8) -> Float8, typed!(|a: f64| a.ceil())),
    entry!("ceiling" (Float8) -> Float8, typed!(|a: f64| a.ceil())),
    entry!("floor" (Float8) -> Float8, typed!(|a: f64| a.floor())),
    entry!("round" (Float8) -> Float8, typed!(|a: f64| a.round_ties_even())),
    entry!("trunc" (Float8) -> Float8, typed!(|a: f64| a.trunc())),
    entry!("sqrt" (Float8) -> Float8, typed!(|a: f64| square_root(a))),
    entry!("|/" (Float8) -> Float8, typed!(|a: f64| square_root(a))),
    entry!("cbrt" (Float8) -> Float8, typed!(|a: f64| a.cbrt())),
    entry!("||/" (Float8) -> Float8, typed!(|a: f64| a.cbrt())),
    entry!("power" (Float8, Float8) -> Float8, typed!(|a: f64, b: f64| power(a, b))),
    entry!("pow" (Float8, Float8) -> Float8, typed!(|a: f64, b: f64| power(a, b))),
    entry!("^" (Float8, Float8) -> Float8, typed!(|a: f64, b: f64| power(a, b))),
    entry!("exp" (Float8) -> Float8, typed!(|a: f64| exponential(a))),
    entry!("ln" (Float8) -> Float8, typed!(|a: f64| logarithm(a, f64::ln))),
    entry!("log" (Float8) -> Float8, typed!(|a: f64| logarithm(a, f64::log10))),
    entry!("log10" (Float8) -> Float8, typed!(|a: f64| logarithm(a, f64::log10))),
    entry!("pi" () -> Float8, typed!(|| std::f64::consts::PI)),
    entry!("degrees" (Float8) -> Float8, typed!(|a: f64| {
        divide_floats(a, 0.017_453_292_519_943_295)
    })),
    entry!("radians" (Float8) -> Float8, typed!(|a: f64| a * 0.017_453_292_519_943_295)),
    entry!("sin" (Float8) -> Float8, typed!(|a: f64| finite(a, f64::sin))),
    entry!("cos" (Float8) -> Float8, typed!(|a: f64| finite(a, f64::cos))),
    entry!("tan" (Float8) -> Float8, typed!(|a: f64| finite(a, f64::tan))),
    entry!("cot" (Float8) -> Float8, typed!(|a: f64| cotangent(a))),
    entry!("asin" (Float8) -> Float8, typed!(|a: f64| bounded(a, f64::asin))),
    entry!("acos" (Float8) -> Float8, typed!(|a: f64| bounded(a, f64::acos))),
    entry!("atan" (Float8) -> Float8, typed!(|a: f64| a.atan())),
    entry!("atan2" (Float8, Float8) -> Float8, typed!(|a: f64, b: f64| a.atan2(b))),
    entry!("sinh" (Float8) -> Float8, typed!(|a: f64| a.sinh())),
    entry!("cosh" (Float8) -> Float8, typed!(|a: f64| a.cosh())),
    entry!("tanh" (Float8) -> Float8, typed!(|a: f64| a.tanh())),
    entry!("random" () -> Float8, typed!(with c || c.environment.random())).volatile(),
];
