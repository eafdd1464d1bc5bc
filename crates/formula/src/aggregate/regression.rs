//! Statistics of pairs of numbers: `corr`, `covar_pop`, `regr_slope` and their kin, by the method of Youngs and Cramer.

use rubato_base::{Error, Result, SqlState, Value};

/// What is computed of the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Regression {
    /// `corr`
    Correlation,
    /// `covar_pop`
    CovariancePopulation,
    /// `covar_samp`
    CovarianceSample,
    /// `regr_count`
    Count,
    /// `regr_avgx`
    AverageX,
    /// `regr_avgy`
    AverageY,
    /// `regr_sxx`
    SquaresX,
    /// `regr_syy`
    SquaresY,
    /// `regr_sxy`
    Products,
    /// `regr_slope`
    Slope,
    /// `regr_intercept`
    Intercept,
    /// `regr_r2`
    Determination,
}

impl Regression {
    const ALL: [(Regression, &'static str); 12] = [
        (Regression::Correlation, "corr"),
        (Regression::CovariancePopulation, "covar_pop"),
        (Regression::CovarianceSample, "covar_samp"),
        (Regression::Count, "regr_count"),
        (Regression::AverageX, "regr_avgx"),
        (Regression::AverageY, "regr_avgy"),
        (Regression::SquaresX, "regr_sxx"),
        (Regression::SquaresY, "regr_syy"),
        (Regression::Products, "regr_sxy"),
        (Regression::Slope, "regr_slope"),
        (Regression::Intercept, "regr_intercept"),
        (Regression::Determination, "regr_r2"),
    ];

    /// The one of this name.
    pub(super) fn of_name(name: &str) -> Option<Regression> {
        Regression::ALL
            .iter()
            .find(|(_, own)| *own == name)
            .map(|(kind, _)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Regression::ALL
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| name)
    }
}

/// Count, sums, and sums of squared differences and of their products.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PairMoments {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

impl PairMoments {
    /// Takes a pair: what is explained first, as in PostgreSQL.
    pub(super) fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count == 0.0 {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
            return Ok(());
        }
        let (from_x, from_y) = (x * self.count - self.x, y * self.count - self.y);
        let scale = 1.0 / (self.count * before.count);
        self.xx += from_x * from_x * scale;
        self.yy += from_y * from_y * scale;
        self.xy += from_x * from_y * scale;
        let was_finite = |sum: f64, value: f64| !sum.is_infinite() && !value.is_infinite();
        let (finite_x, finite_y) = (was_finite(before.x, x), was_finite(before.y, y));
        let overflows = ((self.x.is_infinite() || self.xx.is_infinite()) && finite_x)
            || ((self.y.is_infinite() || self.yy.is_infinite()) && finite_y)
            || (self.xy.is_infinite() && finite_x && finite_y);
        if overflows {
            return Err(overflow());
        }
        for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, other: &PairMoments) -> Result<()> {
        if other.count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            *self = *other;
            return Ok(());
        }
        let count = self.count + other.count;
        let from_x = self.x / self.count - other.x / other.count;
        let from_y = self.y / self.count - other.y / other.count;
        let weight = self.count * other.count / count;
        let merged = PairMoments {
            count,
            x: self.x + other.x,
            y: self.y + other.y,
            xx: self.xx + other.xx + weight * from_x * from_x,
            yy: self.yy + other.yy + weight * from_y * from_y,
            xy: self.xy + other.xy + weight * from_x * from_y,
        };
        let overflows = |sum: f64, one: f64, two: f64| sum.is_infinite() && !one.is_infinite() && !two.is_infinite();
        let pairs = [
            (merged.x, self.x, other.x),
            (merged.y, self.y, other.y),
            (merged.xx, self.xx, other.xx),
            (merged.yy, self.yy, other.yy),
            (merged.xy, self.xy, other.xy),
        ];
        if pairs.into_iter().any(|(sum, one, two)| overflows(sum, one, two)) {
            return Err(overflow());
        }
        *self = merged;
        Ok(())
    }

    pub(super) fn finish(&self, kind: Regression) -> Value {
        let PairMoments {
            count,
            x,
            y,
            xx,
            yy,
            xy,
        } = *self;
        if kind == Regression::Count {
            return Value::Int8(count as i64);
        }
        let least = if kind == Regression::CovarianceSample { 2.0 } else { 1.0 };
        if count < least {
            return Value::Null;
        }
        let result = match kind {
            Regression::Count => count,
            Regression::Correlation if xx == 0.0 || yy == 0.0 => return Value::Null,
            Regression::Correlation => xy / (xx * yy).sqrt(),
            Regression::CovariancePopulation => xy / count,
            Regression::CovarianceSample => xy / (count - 1.0),
            Regression::AverageX => x / count,
            Regression::AverageY => y / count,
            Regression::SquaresX => xx,
            Regression::SquaresY => yy,
            Regression::Products => xy,
            Regression::Slope | Regression::Intercept | Regression::Determination if xx == 0.0 => return Value::Null,
            Regression::Slope => xy / xx,
            Regression::Intercept => (y - x * xy / xx) / count,
            Regression::Determination if yy == 0.0 => 1.0,
            Regression::Determination => (xy * xy) / (xx * yy),
        };
        Value::Float8(result)
    }
}
