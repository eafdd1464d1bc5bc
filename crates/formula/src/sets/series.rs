//! `generate_series` and `generate_subscripts`: however long a series is, no more of it is held than where it stands.

use crate::context::EvalContext;
use rubato_base::datetime::{Interval, TimeZone, add_interval_to_timestamp, add_interval_to_timestamptz};
use rubato_base::{Error, Numeric, Result, SqlState, Value};
use std::cmp::Ordering;

/// What is left of a series: its next value, and where it ends.
#[derive(Clone, Debug)]
pub(super) enum Series {
    Whole {
        next: i64,
        stop: i64,
        step: i64,
        /// Whether its values are of type `integer`.
        narrow: bool,
    },
    Numeric {
        next: Numeric,
        stop: Numeric,
        step: Numeric,
    },
    Time {
        next: i64,
        stop: i64,
        step: Interval,
        /// The zone in which days are counted, for `timestamp with time zone`.
        zone: Option<TimeZone>,
    },
    Nothing,
}

impl Series {
    /// The series from the first argument to the second, by steps of the third. 22023 for a step of zero and for numbers that are none.
    pub fn new(arguments: &[Value], context: &EvalContext<'_>) -> Result<Series> {
        let [start, stop, ..] = arguments else {
            return Err(Error::internal("a series without bounds"));
        };
        let series = match (start, stop, arguments.get(2)) {
            (Value::Numeric(next), Value::Numeric(stop), step) => {
                let one = Numeric::from_i64(1);
                let step = match step {
                    Some(Value::Numeric(step)) => step,
                    _ => &one,
                };
                for (what, number) in [("start value", next), ("stop value", stop), ("step size", step)] {
                    check_finite(what, number)?;
                }
                Series::Numeric {
                    next: next.clone(),
                    stop: stop.clone(),
                    step: step.clone(),
                }
            }
            (Value::Timestamp(next), Value::Timestamp(stop), Some(Value::Interval(step))) => Series::Time {
                next: *next,
                stop: *stop,
                step: *step,
                zone: None,
            },
            (Value::TimestampTz(next), Value::TimestampTz(stop), Some(Value::Interval(step))) => Series::Time {
                next: *next,
                stop: *stop,
                step: *step,
                zone: Some(context.text.time_zone.clone()),
            },
            (start, stop, step) => match (start.as_i64(), stop.as_i64(), step.map_or(Some(1), Value::as_i64)) {
                (Some(next), Some(stop), Some(step)) => Series::Whole {
                    next,
                    stop,
                    step,
                    narrow: matches!(start, Value::Int4(_)),
                },
                _ => return Err(Error::internal("a series of no numbers or times")),
            },
        };
        if series.direction() == Ordering::Equal {
            return Err(invalid("step size cannot equal zero".to_owned()));
        }
        Ok(series)
    }

    /// The subscripts of a dimension of an array, upwards or downwards; `None` where there is no such dimension.
    pub fn subscripts(arguments: &[Value]) -> Option<Series> {
        let (Value::Array(array), number) = (arguments.first()?, arguments.get(1)?.as_i64()?) else {
            return None;
        };
        let place = usize::try_from(number.checked_sub(1)?).ok()?;
        let dimension = array.dimensions().get(place)?;
        let (lower, upper) = (i64::from(dimension.lower), dimension.upper());
        let downwards = matches!(arguments.get(2), Some(Value::Bool(true)));
        let (next, stop, step) = if downwards {
            (upper, lower, -1)
        } else {
            (lower, upper, 1)
        };
        Some(Series::Whole {
            next,
            stop,
            step,
            narrow: true,
        })
    }

    /// Whether its values grow or fall.
    fn direction(&self) -> Ordering {
        match self {
            Series::Whole { step, .. } => step.cmp(&0),
            Series::Numeric { step, .. } => step.signum().cmp(&0),
            Series::Time { step, .. } => step.cmp(&Interval {
                months: 0,
                days: 0,
                microseconds: 0,
            }),
            Series::Nothing => Ordering::Equal,
        }
    }

    /// Whether there is no further value.
    pub fn is_over(&self) -> bool {
        let order = match self {
            Series::Whole { next, stop, .. } | Series::Time { next, stop, .. } => next.cmp(stop),
            Series::Numeric { next, stop, .. } => next.cmp(stop),
            Series::Nothing => return true,
        };
        order == self.direction()
    }

    /// The next value. 22003 or 22008 if the one after it leaves its type.
    pub fn next(&mut self) -> Result<Option<Value>> {
        if self.is_over() {
            return Ok(None);
        }
        match self {
            Series::Whole { next, step, narrow, .. } => {
                let value = match i32::try_from(*next) {
                    Ok(number) if *narrow => Value::Int4(number),
                    _ => Value::Int8(*next),
                };
                match next.checked_add(*step) {
                    Some(following) => *next = following,
                    None => *self = Series::Nothing,
                }
                Ok(Some(value))
            }
            Series::Numeric { next, step, .. } => {
                let following = next.checked_add(step)?;
                Ok(Some(Value::Numeric(std::mem::replace(next, following))))
            }
            Series::Time { next, step, zone, .. } => {
                let (value, following) = match zone {
                    Some(zone) => (
                        Value::TimestampTz(*next),
                        add_interval_to_timestamptz(*next, step, zone)?,
                    ),
                    None => (Value::Timestamp(*next), add_interval_to_timestamp(*next, step)?),
                };
                *next = following;
                Ok(Some(value))
            }
            Series::Nothing => Ok(None),
        }
    }
}

fn check_finite(what: &str, number: &Numeric) -> Result<()> {
    if number.is_finite() {
        return Ok(());
    }
    let word = if number.is_nan() { "NaN" } else { "infinity" };
    Err(invalid(format!("{what} cannot be {word}")))
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(start: i64, stop: i64, step: i64) -> Vec<Value> {
        let arguments = [start, stop, step].map(Value::Int8);
        let mut series = Series::new(&arguments, &EvalContext::constant()).expect("a series");
        std::iter::from_fn(|| series.next().expect("a value"))
            .take(100)
            .collect()
    }

    #[test]
    fn a_series_ends_where_its_type_ends() {
        let last = i64::MAX;
        assert_eq!(values(last - 1, last, 1), [Value::Int8(last - 1), Value::Int8(last)]);
        assert_eq!(values(i64::MIN + 1, i64::MIN, -1).len(), 2);
        assert_eq!(values(3, 1, 1), []);
        assert_eq!(values(5, 1, -2), [Value::Int8(5), Value::Int8(3), Value::Int8(1)]);
    }
}
