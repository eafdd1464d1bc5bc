//! The numbers that escrow reckons with: exact ones, and floats that are rounded to the safe side.

use rubato_base::{Numeric, Value};
use std::cmp::Ordering;

/// The greatest float that is reckoned with: sums and products of such ones stay far from the end of `double precision`.
pub(crate) const FLOAT_MAX: f64 = 1e300;
/// The least one but zero: differences of such ones, and nine digits less, are still far from underflow.
pub(crate) const FLOAT_LEAST: f64 = 1e-200;
/// The same for `real`.
pub(crate) const REAL_MAX: f32 = 1e37;
pub(crate) const REAL_LEAST: f64 = 1e-12;

/// The side to which a float is rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Towards {
    Low,
    High,
}

impl Towards {
    /// The next float on this side: where the number itself lies if `value` is the nearest one to it.
    pub(crate) fn beyond(self, value: f64) -> f64 {
        match self {
            Towards::Low => value.next_down(),
            Towards::High => value.next_up(),
        }
    }

    fn opposite(self) -> Towards {
        match self {
            Towards::Low => Towards::High,
            Towards::High => Towards::Low,
        }
    }
}

/// A number: whole numbers stay machine numbers, and are exact as decimals are; floats come in with the first float.
#[derive(Clone, Debug)]
pub(crate) enum Amount {
    Whole(i128),
    Decimal(Numeric),
    Float(f64),
}

impl Amount {
    pub(crate) const ZERO: Amount = Amount::Whole(0);

    /// `None` for what is no number, not finite, or a float too large or too small to be reckoned with.
    pub(crate) fn of(value: &Value) -> Option<Amount> {
        let between = |float: f64, least: f64, greatest: f64| {
            (float == 0.0 || (least..=greatest).contains(&float.abs())).then_some(Amount::Float(float))
        };
        match value {
            Value::Numeric(number) if number.is_finite() => Some(Amount::Decimal(number.clone())),
            Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => value.as_i64().map(|v| Amount::Whole(v.into())),
            Value::Float8(float) => between(*float, FLOAT_LEAST, FLOAT_MAX),
            Value::Float4(float) => between(f64::from(*float), REAL_LEAST, f64::from(REAL_MAX)),
            _ => None,
        }
    }

    /// A float on this side of the amount, or the amount itself; infinite beyond the floats.
    pub(crate) fn to_float(&self, towards: Towards) -> f64 {
        match self {
            Amount::Float(float) => *float,
            Amount::Whole(0) => 0.0,
            Amount::Whole(whole) => towards.beyond(*whole as f64),
            Amount::Decimal(number) if number.is_zero() => 0.0,
            Amount::Decimal(number) => towards.beyond(number.to_f64()),
        }
    }

    fn to_numeric(&self) -> Option<Numeric> {
        match self {
            Amount::Whole(whole) => Some(Numeric::from_i128(*whole)),
            Amount::Decimal(number) => Some(number.clone()),
            Amount::Float(_) => None,
        }
    }

    /// The sum, on this side of the right one where it is not exact. `None` if it is too large.
    pub(crate) fn plus(&self, other: &Amount, towards: Towards) -> Option<Amount> {
        if let (Amount::Whole(a), Amount::Whole(b)) = (self, other) {
            return a.checked_add(*b).map(Amount::Whole);
        }
        if let (Some(a), Some(b)) = (self.to_numeric(), other.to_numeric()) {
            return a.checked_add(&b).ok().map(Amount::Decimal);
        }
        let (a, b) = (self.to_float(towards), other.to_float(towards));
        let sum = if a == 0.0 || b == 0.0 {
            a + b
        } else {
            towards.beyond(a + b)
        };
        sum.is_finite().then_some(Amount::Float(sum))
    }

    /// Whether the amount is certainly not beyond `bound`, of which `inside` is the side that is allowed.
    pub(crate) fn keeps(&self, bound: &Amount, inside: Towards) -> bool {
        let forbidden = match inside {
            Towards::Low => Ordering::Greater,
            Towards::High => Ordering::Less,
        };
        if let (Amount::Whole(a), Amount::Whole(b)) = (self, bound) {
            return a.cmp(b) != forbidden;
        }
        if let (Some(a), Some(b)) = (self.to_numeric(), bound.to_numeric()) {
            return a.cmp(&b) != forbidden;
        }
        let (end, bound) = (self.to_float(inside.opposite()), bound.to_float(inside));
        end.partial_cmp(&bound).is_some_and(|order| order != forbidden)
    }

    /// Digits after the point of a decimal.
    pub(crate) fn digits(&self) -> u32 {
        match self {
            Amount::Decimal(number) => number.scale(),
            _ => 0,
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn whole(&self) -> Option<u32> {
        match self {
            Amount::Whole(whole) => u32::try_from(*whole).ok(),
            _ => None,
        }
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Amount::Whole(whole) => *whole < 0,
            Amount::Decimal(number) => number.signum() < 0,
            Amount::Float(float) => *float < 0.0,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Amount::Whole(whole) => *whole == 0,
            Amount::Decimal(number) => number.is_zero(),
            Amount::Float(float) => *float == 0.0,
        }
    }

    pub(crate) fn negated(&self) -> Amount {
        match self {
            // No amount comes near the end of 128 bits: sums are refused before.
            Amount::Whole(whole) => Amount::Whole(whole.saturating_neg()),
            Amount::Decimal(number) => Amount::Decimal(number.neg()),
            Amount::Float(float) => Amount::Float(-float),
        }
    }

    /// The lesser of the two, or a float below both.
    pub(crate) fn least(self, other: Amount) -> Amount {
        self.outer(other, Towards::Low)
    }

    /// The greater of the two, or a float above both.
    pub(crate) fn greatest(self, other: Amount) -> Amount {
        self.outer(other, Towards::High)
    }

    fn outer(self, other: Amount, towards: Towards) -> Amount {
        let is_outer = |order: Ordering| match towards {
            Towards::Low => order == Ordering::Less,
            Towards::High => order == Ordering::Greater,
        };
        let order = match (&self, &other) {
            (Amount::Whole(a), Amount::Whole(b)) => a.cmp(b),
            _ => match (self.to_numeric(), other.to_numeric()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => {
                    let (a, b) = (self.to_float(towards), other.to_float(towards));
                    return Amount::Float(if is_outer(b.total_cmp(&a)) { b } else { a });
                }
            },
        };
        if is_outer(order.reverse()) { other } else { self }
    }
}
