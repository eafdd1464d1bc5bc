//! Properties of numbers, against big integers and floats.

use super::Numeric;
use num_bigint::BigInt;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Mantissas on both sides of every boundary of size, with scales.
fn number() -> impl Strategy<Value = (BigInt, u32)> {
    let mantissa = prop_oneof![
        4 => (-1000_i64..1000).prop_map(BigInt::from),
        4 => any::<i64>().prop_map(BigInt::from),
        2 => any::<i128>().prop_map(BigInt::from),
        1 => (any::<i128>(), 0_u32..60).prop_map(|(m, e)| BigInt::from(m) * BigInt::from(10).pow(e)),
    ];
    (mantissa, prop_oneof![4 => 0_u32..6, 1 => 0_u32..60])
}

fn text_of((mantissa, scale): &(BigInt, u32)) -> String {
    let digits = format!(
        "{:0>width$}",
        mantissa.magnitude().to_string(),
        width = *scale as usize + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - *scale as usize);
    let sign = if mantissa < &BigInt::ZERO { "-" } else { "" };
    if fraction.is_empty() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

fn numeric(parts: &(BigInt, u32)) -> Numeric {
    Numeric::parse(&text_of(parts)).expect("a number")
}

fn aligned(a: &(BigInt, u32), b: &(BigInt, u32)) -> (BigInt, BigInt, u32) {
    let scale = a.1.max(b.1);
    let raise = |x: &(BigInt, u32)| &x.0 * BigInt::from(10).pow(scale - x.1);
    (raise(a), raise(b), scale)
}

fn key(number: &Numeric) -> Vec<u8> {
    let mut bytes = Vec::new();
    number.encode_key(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn text_reads_back(a in number()) {
        prop_assert_eq!(numeric(&a).to_string(), text_of(&a));
        prop_assert_eq!(numeric(&a).scale(), a.1);
    }

    #[test]
    fn sums_products_and_remainders_are_exact(a in number(), b in number()) {
        let (x, y) = (numeric(&a), numeric(&b));
        let (p, q, scale) = aligned(&a, &b);
        prop_assert_eq!(x.checked_add(&y).expect("a sum").to_string(), text_of(&(&p + &q, scale)));
        prop_assert_eq!(x.checked_sub(&y).expect("a difference").to_string(), text_of(&(&p - &q, scale)));
        prop_assert_eq!(x.checked_mul(&y).expect("a product").to_string(), text_of(&(&a.0 * &b.0, a.1 + b.1)));
        if q != BigInt::ZERO {
            prop_assert_eq!(x.checked_rem(&y).expect("a remainder").to_string(), text_of(&(&p % &q, scale)));
        }
    }

    #[test]
    fn a_quotient_is_within_half_a_unit_of_its_last_digit(a in number(), b in number()) {
        prop_assume!(b.0 != BigInt::ZERO);
        let quotient = numeric(&a).checked_div(&numeric(&b)).expect("a quotient");
        prop_assert!(quotient.scale() >= a.1.max(b.1));
        // |q * b - a| <= |b| * 10^-scale / 2
        let error = quotient.checked_mul(&numeric(&b)).expect("a product").checked_sub(&numeric(&a)).expect("a rest").abs();
        let bound = numeric(&b).abs().checked_mul(&numeric(&(BigInt::from(5), quotient.scale() + 1))).expect("a bound");
        prop_assert!(error <= bound, "{} > {}", error, bound);
    }

    #[test]
    fn order_equality_hash_and_keys_agree(a in number(), b in number(), zeros in 0_u32..30) {
        let (x, y) = (numeric(&a), numeric(&b));
        let (p, q, _) = aligned(&a, &b);
        prop_assert_eq!(x.cmp(&y), p.cmp(&q));
        prop_assert_eq!(key(&x).cmp(&key(&y)), p.cmp(&q));
        let longer = numeric(&(&a.0 * BigInt::from(10).pow(zeros), a.1 + zeros));
        prop_assert_eq!(x.cmp(&longer), Ordering::Equal);
        prop_assert_eq!(key(&x), key(&longer));
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        prop_assert_eq!(hasher.hash_one(&x), hasher.hash_one(&longer));
    }

    #[test]
    fn codecs_read_back(a in number(), tail in proptest::collection::vec(any::<u8>(), 0..4)) {
        let x = numeric(&a);
        let mut bytes = Vec::new();
        x.encode(&mut bytes);
        let back = Numeric::decode(&bytes).expect("a stored number");
        prop_assert_eq!((back.to_string(), x.encode_fixed().is_some()), (x.to_string(), bytes.len() == Numeric::ENCODED_LENGTH));
        let mut ordered = key(&x);
        let length = ordered.len();
        ordered.extend(tail);
        let (back, used) = Numeric::decode_key(&ordered).expect("a key");
        prop_assert_eq!((back, used), (x.clone(), length));
        let mut wire = Vec::new();
        x.to_wire(&mut wire);
        prop_assert_eq!(Numeric::from_wire(&wire).expect("a wire form").to_string(), x.to_string());
    }

    #[test]
    fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), text in "[-+.0-9eEinfaNI ]{0,12}") {
        let _ = Numeric::decode(&bytes);
        let _ = Numeric::decode_key(&bytes);
        let _ = Numeric::from_wire(&bytes);
        let _ = Numeric::parse(&text);
    }

    #[test]
    fn rounding_takes_the_nearest(a in number(), digits in -20_i32..30) {
        let x = numeric(&a);
        let (rounded, cut) = (x.round(digits), x.trunc(digits));
        let half = Numeric::parse(&format!("5e{}", -digits - 1)).expect("a half");
        prop_assert!(rounded.checked_sub(&x).expect("a rest").abs() <= half);
        prop_assert!(cut.abs() <= x.abs());
        prop_assert!(x.floor() <= x && x <= x.ceil());
    }

    #[test]
    fn floats_convert_to_the_nearest(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
        let digits = format!("{value:.14e}");
        let near: f64 = digits.parse().expect("a float");
        if near.is_finite() {
            prop_assert_eq!(Numeric::from_f64(value).to_f64(), near);
        }
    }

    #[test]
    fn functions_agree_with_floats(value in 1e-6_f64..1e6) {
        let x = Numeric::from_f64(value);
        let value = x.to_f64();
        let near = |ours: Numeric, theirs: f64| (ours.to_f64() - theirs).abs() <= theirs.abs() * 1e-13 + 1e-15;
        prop_assert!(near(x.sqrt().expect("a root"), value.sqrt()));
        prop_assert!(near(x.ln().expect("a logarithm"), value.ln()));
        prop_assert!(near(x.power(&Numeric::parse("1.5").expect("a number")).expect("a power"), value.powf(1.5)));
        let small = Numeric::from_f64(value / 1e5);
        prop_assert!(near(small.exp().expect("a power"), small.to_f64().exp()));
    }
}

#[test]
fn a_number_is_two_words() {
    assert_eq!(size_of::<Numeric>(), 16);
}

#[test]
fn keys_order_the_numbers_that_are_not_finite() {
    let ordered = [
        Numeric::NEGATIVE_INFINITY,
        Numeric::parse("-1e131071").expect("a number"),
        Numeric::from_i64(-1),
        Numeric::parse("-1e-16383").expect("a number"),
        Numeric::ZERO,
        Numeric::parse("1e-16383").expect("a number"),
        Numeric::from_i64(1),
        Numeric::parse("1e131071").expect("a number"),
        Numeric::INFINITY,
        Numeric::NAN,
    ];
    for pair in ordered.windows(2) {
        assert!(
            pair[0] < pair[1] && key(&pair[0]) < key(&pair[1]),
            "{} {}",
            pair[0].scale(),
            pair[1].scale()
        );
    }
    for number in &ordered {
        assert_eq!(
            Numeric::decode_key(&key(number)).expect("a key"),
            (number.clone(), key(number).len())
        );
        let mut bytes = Vec::new();
        number.encode(&mut bytes);
        assert_eq!(Numeric::decode(&bytes).expect("a stored number"), *number);
    }
}

#[test]
fn too_many_digits_overflow() {
    let large = Numeric::parse("1e131071").expect("the largest power of ten");
    for result in [
        large.checked_mul(&Numeric::from_i64(10)),
        large.checked_add(&large.checked_mul(&Numeric::from_i64(9)).expect("it fits")),
    ] {
        assert_eq!(
            result.expect_err("too many digits").code(),
            crate::SqlState::NUMERIC_VALUE_OUT_OF_RANGE
        );
    }
}
