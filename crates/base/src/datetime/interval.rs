//! Intervals and their arithmetic.

use super::DAY_US;
use crate::{Error, Result, SqlState};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// SQLSTATE 22015.
pub(super) const INTERVAL_FIELD_OVERFLOW: SqlState = SqlState(*b"22015");

const DAY_SECONDS: f64 = 86_400.0;
const MONTH_DAYS: i64 = 30;

/// How intervals are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days +04:05:06`
    #[default]
    Postgres,
    /// `P1Y2M-3DT4H5M6S`
    Iso8601,
}

/// A span of time: months, days and microseconds are kept apart, since neither a month nor a day has a fixed length.
///
/// Equality, order and hash are PostgreSQL's: by length, with a month of 30 days and a day of 24 hours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub microseconds: i64,
}

fn range_error() -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

impl Interval {
    /// The length in microseconds, with a month of 30 days and a day of 24 hours.
    pub fn length_us(&self) -> i128 {
        let days = i64::from(self.days) + i64::from(self.months) * MONTH_DAYS;
        i128::from(self.microseconds) + i128::from(days) * i128::from(DAY_US)
    }

    /// The sum, part by part. 22008 if a part overflows.
    pub fn checked_add(&self, other: &Interval) -> Result<Interval> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                microseconds: self.microseconds.checked_add(other.microseconds)?,
            })
        };
        sum().ok_or_else(range_error)
    }

    /// The difference, part by part. 22008 if a part overflows.
    pub fn checked_sub(&self, other: &Interval) -> Result<Interval> {
        let difference = || {
            Some(Interval {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                microseconds: self.microseconds.checked_sub(other.microseconds)?,
            })
        };
        difference().ok_or_else(range_error)
    }

    /// The opposite. 22008 if a part overflows.
    pub fn checked_neg(&self) -> Result<Interval> {
        Interval::default().checked_sub(self)
    }

    /// The product; fractions of months go to days, fractions of days to microseconds. 22008 if a part overflows.
    pub fn checked_mul(&self, factor: f64) -> Result<Interval> {
        self.scale(|part| part * factor)
    }

    /// The quotient, as [`Interval::checked_mul`]. 22012 if `divisor` is 0.
    pub fn checked_div(&self, divisor: f64) -> Result<Interval> {
        if divisor == 0.0 {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        self.scale(|part| part / divisor)
    }

    fn scale(&self, apply: impl Fn(f64) -> f64) -> Result<Interval> {
        // Rounding to microseconds in between hides the noise of binary fractions.
        let round_micro = |value: f64| (value * 1e6).round_ties_even() / 1e6;
        let (exact_months, exact_days) = (apply(self.months.into()), apply(self.days.into()));
        let mut parts = Interval {
            months: whole(exact_months)?,
            days: whole(exact_days)?,
            microseconds: 0,
        };
        let spilled_days = round_micro((exact_months - f64::from(parts.months)) * MONTH_DAYS as f64);
        let mut spilled_s =
            round_micro((exact_days - f64::from(parts.days) + spilled_days - spilled_days.trunc()) * DAY_SECONDS);
        let mut more_days = spilled_days.trunc() as i32;
        if spilled_s.abs() >= DAY_SECONDS {
            let days = (spilled_s / DAY_SECONDS).trunc();
            more_days += days as i32;
            spilled_s -= days * DAY_SECONDS;
        }
        parts.days = parts.days.checked_add(more_days).ok_or_else(range_error)?;
        let microseconds = (apply(self.microseconds as f64) + spilled_s * 1e6).round_ties_even();
        // The upper bound itself is the first f64 that does not fit.
        if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&microseconds) {
            return Err(range_error());
        }
        parts.microseconds = microseconds as i64;
        Ok(parts)
    }

    /// Whole 24-hour spans of the microseconds as days. 22008 if the days overflow.
    pub fn justify_hours(&self) -> Result<Interval> {
        let mut days = i64::from(self.days) + self.microseconds / DAY_US;
        let mut microseconds = self.microseconds % DAY_US;
        if days > 0 && microseconds < 0 {
            microseconds += DAY_US;
            days -= 1;
        } else if days < 0 && microseconds > 0 {
            microseconds -= DAY_US;
            days += 1;
        }
        let days = i32::try_from(days).map_err(|_| range_error())?;
        Ok(Interval {
            months: self.months,
            days,
            microseconds,
        })
    }

    /// Whole 30-day spans of the days as months. 22008 if the months overflow.
    pub fn justify_days(&self) -> Result<Interval> {
        let mut months = i64::from(self.months) + i64::from(self.days) / MONTH_DAYS;
        let mut days = self.days % MONTH_DAYS as i32;
        if months > 0 && days < 0 {
            days += MONTH_DAYS as i32;
            months -= 1;
        } else if months < 0 && days > 0 {
            days -= MONTH_DAYS as i32;
            months += 1;
        }
        let months = i32::try_from(months).map_err(|_| range_error())?;
        Ok(Interval {
            months,
            days,
            microseconds: self.microseconds,
        })
    }
}

/// The whole part of a product, which must fit a part of an interval.
fn whole(value: f64) -> Result<i32> {
    let fits = value.is_finite() && value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX);
    if fits { Ok(value as i32) } else { Err(range_error()) }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Interval) -> bool {
        self.length_us() == other.length_us()
    }
}

impl Eq for Interval {}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Interval) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Interval) -> Ordering {
        self.length_us().cmp(&other.length_us())
    }
}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.length_us().hash(state);
    }
}
