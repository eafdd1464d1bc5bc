//! What an aggregate has seen of some rows as values, for somebody who has seen others.

use super::{Accumulator, State, wrong};
use crate::aggregate::ResolvedAggregate;
use crate::aggregate::deviation::FloatMoments;
use rubato_base::{Error, Result, SqlState, Value};

impl ResolvedAggregate {
    /// Whether rows can be aggregated where they are, and the parts put together: the result does not depend on the order of rows (the last
    /// digits of floats may), and what has been seen of many rows is small.
    pub fn has_parts(&self) -> bool {
        !self.distinct && Accumulator::new(self).parts().is_some()
    }
}

impl Accumulator {
    /// What it has seen, for [`Accumulator::merge_parts`]; `None` if there is no such form.
    pub fn parts(&self) -> Option<Vec<Value>> {
        let optional = |value: Option<Value>| value.unwrap_or_default();
        Some(match &self.0 {
            State::CountRows(count) | State::Count(count) => vec![Value::Int8(*count)],
            State::WholeSum { sum, count, .. } => {
                let (high, low) = ((*sum >> 64) as i64, *sum as i64);
                vec![Value::Int8(high), Value::Int8(low), Value::Int8(*count)]
            }
            State::FloatSum { sum, .. } => vec![optional(sum.map(Value::Float8))],
            State::FloatAverage(moments) => moments.parts().map(Value::Float8).to_vec(),
            State::ExactSum { sum, count, .. } => {
                vec![optional(sum.clone().map(Value::Numeric)), Value::Int8(*count)]
            }
            State::IntervalSum { sum, count, .. } => {
                vec![optional(sum.map(Value::Interval)), Value::Int8(*count)]
            }
            State::Extreme { best, .. } => vec![best.clone()],
            State::Truth { result, .. } => vec![optional(result.map(Value::Bool))],
            State::Bits { result, .. } => vec![optional(result.clone())],
            State::Text { .. }
            | State::Bytes { .. }
            | State::ExactMoments { .. }
            | State::FloatMoments { .. }
            | State::Collected(_)
            | State::Pairs { .. } => return None,
        })
    }

    /// Takes what another accumulator of the same aggregate has seen, from the values that are its parts. XX001 for anything else.
    pub fn merge_parts(&mut self, parts: &mut dyn Iterator<Item = Value>) -> Result<()> {
        let other = self.0.of_parts(parts)?;
        self.0.merge(&other)
    }
}

impl State {
    /// A state of the same aggregate.
    fn of_parts(&self, parts: &mut dyn Iterator<Item = Value>) -> Result<State> {
        let mut next = || parts.next().ok_or_else(|| damaged("a part is missing"));
        Ok(match self {
            State::CountRows(_) => State::CountRows(whole(&next()?)?),
            State::Count(_) => State::Count(whole(&next()?)?),
            State::WholeSum { result, .. } => {
                let (high, low) = (whole(&next()?)?, whole(&next()?)?);
                State::WholeSum {
                    sum: (i128::from(high) << 64) | i128::from(low as u64),
                    count: whole(&next()?)?,
                    result: *result,
                }
            }
            State::FloatSum { narrow, .. } => State::FloatSum {
                sum: match next()? {
                    Value::Null => None,
                    sum => Some(super::float(&sum)?),
                },
                narrow: *narrow,
            },
            State::FloatAverage(_) => {
                let parts = [next()?, next()?, next()?];
                let [count, sum, squared_differences] = &parts;
                State::FloatAverage(FloatMoments::of_parts([
                    super::float(count)?,
                    super::float(sum)?,
                    super::float(squared_differences)?,
                ]))
            }
            State::ExactSum { average, .. } => State::ExactSum {
                sum: match next()? {
                    Value::Null => None,
                    Value::Numeric(sum) => Some(sum),
                    other => return Err(wrong(&other)),
                },
                count: whole(&next()?)?,
                average: *average,
            },
            State::IntervalSum { average, .. } => State::IntervalSum {
                sum: match next()? {
                    Value::Null => None,
                    Value::Interval(sum) => Some(sum),
                    other => return Err(wrong(&other)),
                },
                count: whole(&next()?)?,
                average: *average,
            },
            State::Extreme {
                wanted, trims_blanks, ..
            } => State::Extreme {
                best: next()?,
                wanted: *wanted,
                trims_blanks: *trims_blanks,
            },
            State::Truth { decisive, .. } => State::Truth {
                result: match next()? {
                    Value::Null => None,
                    Value::Bool(truth) => Some(truth),
                    other => return Err(wrong(&other)),
                },
                decisive: *decisive,
            },
            State::Bits { operation, .. } => State::Bits {
                result: Some(next()?).filter(|value| !value.is_null()),
                operation: *operation,
            },
            State::Text { .. }
            | State::Bytes { .. }
            | State::ExactMoments { .. }
            | State::FloatMoments { .. }
            | State::Collected(_)
            | State::Pairs { .. } => return Err(damaged("there are no parts of such an aggregate")),
        })
    }
}

fn whole(value: &Value) -> Result<i64> {
    value.as_i64().ok_or_else(|| wrong(value))
}

fn damaged(what: &str) -> Error {
    Error::new(
        SqlState::DATA_CORRUPTED,
        format!("damaged data: of what an aggregate has seen, {what}"),
    )
}
