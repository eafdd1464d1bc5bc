//! `+ - * / %` and the signs, on every pair of number types that PostgreSQL has them for.

use super::FunctionEntry;
use super::argument::{entry, typed};
use crate::cast::out_of_range;
use rubato_base::{Error, Numeric, Result, SqlState};

pub(super) fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// The checked operations of one integer type, with the name that its errors carry.
trait Integer: Copy {
    const NAME: &'static str;
    fn sum(self, other: Self) -> Option<Self>;
    fn difference(self, other: Self) -> Option<Self>;
    fn product(self, other: Self) -> Option<Self>;
    fn quotient(self, other: Self) -> Option<Self>;
    fn remainder(self, other: Self) -> Self;
    fn is_zero(self) -> bool;
}

macro_rules! integer {
    ($($rust:ty, $name:literal;)*) => {$(
        impl Integer for $rust {
            const NAME: &'static str = $name;
            fn sum(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            fn difference(self, other: Self) -> Option<Self> {
                self.checked_sub(other)
            }
            fn product(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }
            fn quotient(self, other: Self) -> Option<Self> {
                self.checked_div(other)
            }
            fn remainder(self, other: Self) -> Self {
                // The one overflow, the lowest number by -1, leaves no rest.
                self.checked_rem(other).unwrap_or(0)
            }
            fn is_zero(self) -> bool {
                self == 0
            }
        }
    )*};
}

integer! {
    i16, "smallint";
    i32, "integer";
    i64, "bigint";
}

fn in_range<T: Integer>(result: Option<T>) -> Result<T> {
    result.ok_or_else(|| out_of_range(T::NAME))
}

fn divide<T: Integer>(a: T, b: T) -> Result<T> {
    if b.is_zero() {
        Err(division_by_zero())
    } else {
        in_range(a.quotient(b))
    }
}

fn remainder<T: Integer>(a: T, b: T) -> Result<T> {
    if b.is_zero() {
        Err(division_by_zero())
    } else {
        Ok(a.remainder(b))
    }
}

/// The result of a float operation; 22003 if finite operands gave an infinity.
pub(super) fn checked_float(result: f64, operands_finite: bool) -> Result<f64> {
    if result.is_infinite() && operands_finite {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range: overflow",
        ));
    }
    Ok(result)
}

/// The same where a zero can only be an underflow.
fn checked_product(result: f64, operands_finite: bool, zero_is_right: bool) -> Result<f64> {
    if result == 0.0 && !zero_is_right {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range: underflow",
        ));
    }
    checked_float(result, operands_finite)
}

fn both_finite(a: f64, b: f64) -> bool {
    a.is_finite() && b.is_finite()
}

fn add_floats(a: f64, b: f64) -> Result<f64> {
    checked_float(a + b, both_finite(a, b))
}

fn subtract_floats(a: f64, b: f64) -> Result<f64> {
    checked_float(a - b, both_finite(a, b))
}

pub(super) fn multiply_floats(a: f64, b: f64) -> Result<f64> {
    checked_product(a * b, both_finite(a, b), a == 0.0 || b == 0.0)
}

pub(super) fn divide_floats(a: f64, b: f64) -> Result<f64> {
    if b == 0.0 && !a.is_nan() {
        return Err(division_by_zero());
    }
    checked_product(a / b, a.is_finite(), a == 0.0 || b.is_infinite())
}

/// A float8 result of two float4 operands, narrowed; the sums and products of two float4 are exact enough in float8 that the one
/// rounding here gives what float4 arithmetic gives.
fn narrow(result: Result<f64>, operands_finite: bool) -> Result<f32> {
    let wide = result?;
    let narrow = wide as f32;
    checked_product(f64::from(narrow), operands_finite, wide == 0.0).map(|_| narrow)
}

fn real(operation: fn(f64, f64) -> Result<f64>, a: f32, b: f32) -> Result<f32> {
    narrow(operation(f64::from(a), f64::from(b)), a.is_finite() && b.is_finite())
}

macro_rules! arithmetic_table {
    (
        integers $(($A:ident $a:ty, $B:ident $b:ty => $R:ident $r:ty))*;
        same $(($S:ident $s:ty))*;
        floats $(($C:ident $c:ty, $D:ident $d:ty))*;
        rest { $($rest:expr,)* }
    ) => {
        pub(super) static ARITHMETIC: &[FunctionEntry] = &[
            $(
                entry!("+" ($A, $B) -> $R, typed!(|a: $a, b: $b| in_range(<$r>::from(a).sum(<$r>::from(b))))),
                entry!("-" ($A, $B) -> $R, typed!(|a: $a, b: $b| in_range(<$r>::from(a).difference(<$r>::from(b))))),
                entry!("*" ($A, $B) -> $R, typed!(|a: $a, b: $b| in_range(<$r>::from(a).product(<$r>::from(b))))),
                entry!("/" ($A, $B) -> $R, typed!(|a: $a, b: $b| divide(<$r>::from(a), <$r>::from(b)))),
            )*
            $(
                entry!("%" ($S, $S) -> $S, typed!(|a: $s, b: $s| remainder(a, b))),
                entry!("mod" ($S, $S) -> $S, typed!(|a: $s, b: $s| remainder(a, b))),
                entry!("-" ($S) -> $S, typed!(|a: $s| in_range(a.checked_neg()))),
                entry!("+" ($S) -> $S, typed!(|a: $s| a)),
                entry!("@" ($S) -> $S, typed!(|a: $s| in_range(a.checked_abs()))),
                entry!("abs" ($S) -> $S, typed!(|a: $s| in_range(a.checked_abs()))),
            )*
            $(
                entry!("+" ($C, $D) -> Float8, typed!(|a: $c, b: $d| add_floats(a.into(), b.into()))),
                entry!("-" ($C, $D) -> Float8, typed!(|a: $c, b: $d| subtract_floats(a.into(), b.into()))),
                entry!("*" ($C, $D) -> Float8, typed!(|a: $c, b: $d| multiply_floats(a.into(), b.into()))),
                entry!("/" ($C, $D) -> Float8, typed!(|a: $c, b: $d| divide_floats(a.into(), b.into()))),
            )*
            $($rest,)*
        ];
    };
}

arithmetic_table! {
    integers
        (Int2 i16, Int2 i16 => Int2 i16) (Int2 i16, Int4 i32 => Int4 i32) (Int2 i16, Int8 i64 => Int8 i64)
        (Int4 i32, Int2 i16 => Int4 i32) (Int4 i32, Int4 i32 => Int4 i32) (Int4 i32, Int8 i64 => Int8 i64)
        (Int8 i64, Int2 i16 => Int8 i64) (Int8 i64, Int4 i32 => Int8 i64) (Int8 i64, Int8 i64 => Int8 i64);
    same (Int2 i16) (Int4 i32) (Int8 i64);
    floats (Float8 f64, Float8 f64) (Float4 f32, Float8 f64) (Float8 f64, Float4 f32);
    rest {
        entry!("+" (Float4, Float4) -> Float4, typed!(|a: f32, b: f32| real(add_floats, a, b))),
        entry!("-" (Float4, Float4) -> Float4, typed!(|a: f32, b: f32| real(subtract_floats, a, b))),
        entry!("*" (Float4, Float4) -> Float4, typed!(|a: f32, b: f32| real(multiply_floats, a, b))),
        entry!("/" (Float4, Float4) -> Float4, typed!(|a: f32, b: f32| real(divide_floats, a, b))),
        entry!("-" (Float4) -> Float4, typed!(|a: f32| -a)),
        entry!("-" (Float8) -> Float8, typed!(|a: f64| -a)),
        entry!("+" (Float4) -> Float4, typed!(|a: f32| a)),
        entry!("+" (Float8) -> Float8, typed!(|a: f64| a)),
        entry!("+" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.checked_add(b))),
        entry!("-" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.checked_sub(b))),
        entry!("*" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.checked_mul(b))),
        entry!("/" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.checked_div(b))),
        entry!("%" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.checked_rem(b))),
        entry!("mod" (Numeric, Numeric) -> Numeric, typed!(|a: &Numeric, b: &Numeric| a.checked_rem(b))),
        entry!("-" (Numeric) -> Numeric, typed!(|a: &Numeric| a.neg())),
        entry!("+" (Numeric) -> Numeric, typed!(|a: Numeric| a)),
    }
}
