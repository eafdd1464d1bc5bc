//! Variance and standard deviation, with PostgreSQL's two ways of computing them.

use rubato_base::{Error, Numeric, Result, SqlState, Value};

/// Count, sum and sum of squares of exact numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct ExactMoments {
    count: i64,
    sum: Option<Numeric>,
    squares: Option<Numeric>,
}

fn plus(total: &mut Option<Numeric>, number: &Numeric) -> Result<()> {
    *total = Some(match total {
        Some(total) => total.checked_add(number)?,
        None => number.clone(),
    });
    Ok(())
}

impl ExactMoments {
    pub(super) fn add(&mut self, number: &Numeric) -> Result<()> {
        self.count += 1;
        plus(&mut self.sum, number)?;
        plus(&mut self.squares, &number.checked_mul(number)?)
    }

    pub(super) fn merge(&mut self, other: &ExactMoments) -> Result<()> {
        self.count += other.count;
        if let (Some(sum), Some(squares)) = (&other.sum, &other.squares) {
            plus(&mut self.sum, sum)?;
            plus(&mut self.squares, squares)?;
        }
        Ok(())
    }

    /// `(n * sum(x^2) - sum(x)^2) / (n * (n - 1))` for a sample, `/ n^2` for a population; its root for a deviation.
    pub(super) fn finish(&self, sample: bool, root: bool) -> Result<Value> {
        let (Some(sum), Some(squares)) = (&self.sum, &self.squares) else {
            return Ok(Value::Null);
        };
        if sample && self.count < 2 {
            return Ok(Value::Null);
        }
        if !sum.is_finite() {
            return Ok(Value::Numeric(Numeric::NAN));
        }
        let count = Numeric::from_i64(self.count);
        let numerator = count.checked_mul(squares)?.checked_sub(&sum.checked_mul(sum)?)?;
        if numerator.signum() <= 0 {
            return Ok(Value::Numeric(Numeric::ZERO));
        }
        let degrees = Numeric::from_i64(if sample { self.count - 1 } else { self.count });
        let variance = numerator.checked_div(&count.checked_mul(&degrees)?)?;
        if !root {
            return Ok(Value::Numeric(variance));
        }
        let deviation = variance.sqrt()?;
        let scale = variance.scale();
        Ok(Value::Numeric(if deviation.scale() > scale {
            deviation.round(scale as i32)
        } else {
            deviation
        }))
    }
}

/// Count, sum and sum of squared differences of floats, updated by the method of Youngs and Cramer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloatMoments {
    count: f64,
    sum: f64,
    squared_differences: f64,
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

impl FloatMoments {
    pub(super) fn add(&mut self, value: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.sum += value;
        if before.count > 0.0 {
            let difference = value * self.count - self.sum;
            self.squared_differences += difference * difference / (self.count * before.count);
            if self.sum.is_infinite() || self.squared_differences.is_infinite() {
                if !before.sum.is_infinite() && !value.is_infinite() {
                    return Err(overflow());
                }
                self.squared_differences = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squared_differences = f64::NAN;
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, other: &FloatMoments) -> Result<()> {
        if other.count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            *self = *other;
            return Ok(());
        }
        let count = self.count + other.count;
        let sum = self.sum + other.sum;
        if sum.is_infinite() && !self.sum.is_infinite() && !other.sum.is_infinite() {
            return Err(overflow());
        }
        let difference = self.sum / self.count - other.sum / other.count;
        let own = self.squared_differences + other.squared_differences;
        let squared_differences = own + self.count * other.count * difference * difference / count;
        *self = FloatMoments {
            count,
            sum,
            squared_differences,
        };
        Ok(())
    }

    /// Count, sum and sum of squared differences.
    pub(super) fn parts(&self) -> [f64; 3] {
        [self.count, self.sum, self.squared_differences]
    }

    /// From its parts.
    pub(super) fn of_parts([count, sum, squared_differences]: [f64; 3]) -> FloatMoments {
        FloatMoments {
            count,
            sum,
            squared_differences,
        }
    }

    pub(super) fn average(&self) -> Value {
        if self.count == 0.0 {
            Value::Null
        } else {
            Value::Float8(self.sum / self.count)
        }
    }

    pub(super) fn finish(&self, sample: bool, root: bool) -> Value {
        let degrees = if sample { self.count - 1.0 } else { self.count };
        if degrees <= 0.0 {
            return Value::Null;
        }
        let variance = self.squared_differences / degrees;
        Value::Float8(if root { variance.sqrt() } else { variance })
    }
}
