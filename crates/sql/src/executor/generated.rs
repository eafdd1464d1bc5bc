//! Rows that no table holds: lists of values, the system tables, and series, which are made row by row as they are read.

use super::ExecutionContext;
use crate::plan::{Relation, Step};
use rubato_base::{DataType, Error, Numeric, Result, SqlState, Value};

/// What a relation that no table holds gives, once its expressions are known.
#[derive(Debug)]
pub(super) enum Generated {
    /// All rows.
    Rows(Vec<Vec<Value>>),
    /// The series from its beginning; `None` if a bound is NULL.
    Series(Option<Series>),
}

pub(super) fn generate(step: &Step, outer: &[Value], context: &ExecutionContext<'_>) -> Result<Generated> {
    let value = |expr: &rubato_formula::Expr| expr.evaluate(outer, context.evaluation);
    Ok(match &step.relation {
        Relation::Table(_) | Relation::Query(_) | Relation::Lateral { .. } | Relation::Computed(_) => {
            Generated::Rows(Vec::new())
        }
        Relation::Values(rows) => {
            let rows = rows.iter().map(|row| row.iter().map(value).collect());
            Generated::Rows(rows.collect::<Result<_>>()?)
        }
        Relation::Series {
            start,
            stop,
            step,
            data_type,
        } => {
            let step = step.as_ref().map(value).transpose()?;
            Generated::Series(Series::new(value(start)?, value(stop)?, step, *data_type)?)
        }
        Relation::System(name) => {
            let now_us = context.evaluation.statement_time_us;
            Generated::Rows(crate::system_tables::rows(
                name,
                context.catalog,
                context.database,
                context.insight,
                now_us,
            )?)
        }
    })
}

/// What is left of a `generate_series`: its next value, and where it ends. However long it is, no more of it is held than this.
#[derive(Clone, Debug)]
pub(super) struct Series {
    left: Left,
    data_type: DataType,
}

#[derive(Clone, Debug)]
enum Left {
    Whole {
        next: i64,
        stop: i64,
        step: i64,
    },
    Numeric {
        next: Numeric,
        stop: Numeric,
        step: Numeric,
    },
    Nothing,
}

impl Series {
    fn new(start: Value, stop: Value, step: Option<Value>, data_type: DataType) -> Result<Option<Series>> {
        let step = step.unwrap_or(match data_type {
            DataType::Numeric => Value::Numeric(Numeric::from_i64(1)),
            _ => Value::Int8(1),
        });
        if start.is_null() || stop.is_null() || step.is_null() {
            return Ok(None);
        }
        let left = match (start, stop, step) {
            (Value::Numeric(next), Value::Numeric(stop), Value::Numeric(step)) => {
                for (what, number) in [("start value", &next), ("stop value", &stop), ("step size", &step)] {
                    check_finite(what, number)?;
                }
                Left::Numeric { next, stop, step }
            }
            (start, stop, step) => match (start.as_i64(), stop.as_i64(), step.as_i64()) {
                (Some(next), Some(stop), Some(step)) => Left::Whole { next, stop, step },
                _ => return Err(Error::unsupported("generate_series over anything but numbers")),
            },
        };
        if left.stands_still() {
            return Err(invalid("step size cannot equal zero".to_owned()));
        }
        Ok(Some(Series { left, data_type }))
    }

    /// Whether there is no further value.
    pub(super) fn is_over(&self) -> bool {
        match &self.left {
            Left::Whole { next, stop, step } => {
                if *step > 0 {
                    next > stop
                } else {
                    next < stop
                }
            }
            Left::Numeric { next, stop, step } => {
                if step.signum() > 0 {
                    next > stop
                } else {
                    next < stop
                }
            }
            Left::Nothing => true,
        }
    }

    /// The next value. 22003 if the one after it has more digits than a number may have.
    pub(super) fn next(&mut self) -> Result<Option<Value>> {
        if self.is_over() {
            return Ok(None);
        }
        match &mut self.left {
            Left::Whole { next, step, .. } => {
                let number = *next;
                match number.checked_add(*step) {
                    Some(following) => *next = following,
                    None => self.left = Left::Nothing,
                }
                Ok(Some(whole(number, self.data_type)))
            }
            Left::Numeric { next, step, .. } => {
                let following = next.checked_add(step)?;
                Ok(Some(Value::Numeric(std::mem::replace(next, following))))
            }
            Left::Nothing => Ok(None),
        }
    }
}

impl Left {
    fn stands_still(&self) -> bool {
        match self {
            Left::Whole { step, .. } => *step == 0,
            Left::Numeric { step, .. } => step.is_zero(),
            Left::Nothing => false,
        }
    }
}

fn whole(number: i64, data_type: DataType) -> Value {
    match data_type {
        DataType::Int4 => i32::try_from(number).map_or(Value::Int8(number), Value::Int4),
        _ => Value::Int8(number),
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
        let series = Series::new(
            Value::Int8(start),
            Value::Int8(stop),
            Some(Value::Int8(step)),
            DataType::Int8,
        );
        let mut series = series.expect("a series").expect("no NULL");
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
