//! Trigonometry in degrees, exact where the angle is, and the inverse hyperbolic functions.

use super::FunctionEntry;
use super::argument::{entry, typed};
use rubato_base::{Error, Result, SqlState};

fn out_of_range() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

/// The sine up to 30 degrees, where it is a half.
fn low_sine(degrees: f64) -> f64 {
    degrees.to_radians().sin() / 30_f64.to_radians().sin() / 2.0
}

/// The cosine up to 60 degrees, where it is a half.
fn low_cosine(degrees: f64) -> f64 {
    1.0 - (1.0 - degrees.to_radians().cos()) / (1.0 - 60_f64.to_radians().cos()) / 2.0
}

/// The sine up to 90 degrees.
fn quarter_sine(degrees: f64) -> f64 {
    if degrees <= 30.0 {
        low_sine(degrees)
    } else {
        low_cosine(90.0 - degrees)
    }
}

/// The cosine up to 90 degrees.
fn quarter_cosine(degrees: f64) -> f64 {
    if degrees <= 60.0 {
        low_cosine(degrees)
    } else {
        low_sine(90.0 - degrees)
    }
}

/// An angle in the first quarter, and the signs that sine and cosine have where it was.
fn quarter(degrees: f64) -> Result<(f64, f64, f64)> {
    if degrees.is_infinite() {
        return Err(out_of_range());
    }
    let (mut degrees, mut sine, mut cosine) = (degrees % 360.0, 1.0, 1.0);
    if degrees < 0.0 {
        (degrees, sine) = (-degrees, -sine);
    }
    if degrees > 180.0 {
        (degrees, sine) = (360.0 - degrees, -sine);
    }
    if degrees > 90.0 {
        (degrees, cosine) = (180.0 - degrees, -cosine);
    }
    Ok((degrees, sine, cosine))
}

/// PostgreSQL knows no negative zero here.
fn plain(result: f64) -> f64 {
    if result == 0.0 { 0.0 } else { result }
}

fn sine(degrees: f64) -> Result<f64> {
    let (degrees, sign, _) = quarter(degrees)?;
    Ok(sign * quarter_sine(degrees))
}

fn cosine(degrees: f64) -> Result<f64> {
    let (degrees, _, sign) = quarter(degrees)?;
    Ok(sign * quarter_cosine(degrees))
}

fn tangent(degrees: f64) -> Result<f64> {
    let (degrees, sine, cosine) = quarter(degrees)?;
    let one = quarter_sine(45.0) / quarter_cosine(45.0);
    Ok(plain(
        sine * cosine * (quarter_sine(degrees) / quarter_cosine(degrees) / one),
    ))
}

fn cotangent(degrees: f64) -> Result<f64> {
    let (degrees, sine, cosine) = quarter(degrees)?;
    let one = quarter_cosine(45.0) / quarter_sine(45.0);
    Ok(plain(
        sine * cosine * (quarter_cosine(degrees) / quarter_sine(degrees) / one),
    ))
}

/// The angle of a sine of at least 0.
fn quarter_arc_sine(sine: f64) -> f64 {
    if sine <= 0.5 {
        sine.asin() / 0.5_f64.asin() * 30.0
    } else {
        90.0 - sine.acos() / 0.5_f64.acos() * 60.0
    }
}

/// The angle of a cosine of at least 0.
fn quarter_arc_cosine(cosine: f64) -> f64 {
    if cosine <= 0.5 {
        90.0 - cosine.asin() / 0.5_f64.asin() * 30.0
    } else {
        cosine.acos() / 0.5_f64.acos() * 60.0
    }
}

fn arc_sine(sine: f64) -> Result<f64> {
    if sine.abs() > 1.0 {
        return Err(out_of_range());
    }
    Ok(if sine >= 0.0 {
        quarter_arc_sine(sine)
    } else {
        -quarter_arc_sine(-sine)
    })
}

fn arc_cosine(cosine: f64) -> Result<f64> {
    if cosine.abs() > 1.0 {
        return Err(out_of_range());
    }
    Ok(if cosine >= 0.0 {
        quarter_arc_cosine(cosine)
    } else {
        90.0 + quarter_arc_sine(-cosine)
    })
}

/// Radians as degrees, so that an eighth of a circle is 45.
fn in_degrees(radians: f64) -> f64 {
    radians / 1_f64.atan() * 45.0
}

fn inverse_cosine(a: f64) -> Result<f64> {
    if a < 1.0 { Err(out_of_range()) } else { Ok(a.acosh()) }
}

fn inverse_tangent(a: f64) -> Result<f64> {
    if a.abs() > 1.0 {
        Err(out_of_range())
    } else {
        Ok(a.atanh())
    }
}

pub(super) static TRIGONOMETRY: &[FunctionEntry] = &[
    entry!("sind" (Float8) -> Float8, typed!(|a: f64| sine(a))),
    entry!("cosd" (Float8) -> Float8, typed!(|a: f64| cosine(a))),
    entry!("tand" (Float8) -> Float8, typed!(|a: f64| tangent(a))),
    entry!("cotd" (Float8) -> Float8, typed!(|a: f64| cotangent(a))),
    entry!("asind" (Float8) -> Float8, typed!(|a: f64| arc_sine(a))),
    entry!("acosd" (Float8) -> Float8, typed!(|a: f64| arc_cosine(a))),
    entry!("atand" (Float8) -> Float8, typed!(|a: f64| in_degrees(a.atan()))),
    entry!("atan2d" (Float8, Float8) -> Float8, typed!(|a: f64, b: f64| in_degrees(a.atan2(b)))),
    entry!("asinh" (Float8) -> Float8, typed!(|a: f64| a.asinh())),
    entry!("acosh" (Float8) -> Float8, typed!(|a: f64| inverse_cosine(a))),
    entry!("atanh" (Float8) -> Float8, typed!(|a: f64| inverse_tangent(a))),
];
