//! The running state of one aggregate over one group.

mod parts;

use super::collect::Collected;
use super::deviation::{ExactMoments, FloatMoments};
use super::regression::{PairMoments, Regression};
use super::{AggregateKind, ResolvedAggregate};
use crate::cast::out_of_range;
use crate::functions::text::TEXT_BYTES_MAX;
use ecow::{EcoString, EcoVec};
use rubato_base::datetime::Interval;
use rubato_base::{DataType, Error, Numeric, Result, SqlState, Value};
use std::cmp::Ordering;

/// The running state of one aggregate over one group. NULL arguments are passed over, except by `count(*)`.
#[derive(Clone, Debug)]
pub struct Accumulator(State);

#[derive(Clone, Debug)]
enum State {
    CountRows(i64),
    Count(i64),
    /// Whole numbers, summed wide; the flag and type say what comes of it.
    WholeSum {
        sum: i128,
        count: i64,
        result: WholeResult,
    },
    FloatSum {
        sum: Option<f64>,
        narrow: bool,
    },
    FloatAverage(FloatMoments),
    ExactSum {
        sum: Option<Numeric>,
        count: i64,
        average: bool,
    },
    IntervalSum {
        sum: Option<Interval>,
        count: i64,
        average: bool,
    },
    Extreme {
        best: Value,
        wanted: Ordering,
        trims_blanks: bool,
    },
    Truth {
        result: Option<bool>,
        decisive: bool,
    },
    Bits {
        result: Option<Value>,
        operation: fn(i64, i64) -> i64,
    },
    Text {
        text: Option<EcoString>,
        delimiter: EcoString,
    },
    Bytes {
        bytes: Option<EcoVec<u8>>,
        delimiter: EcoVec<u8>,
    },
    ExactMoments {
        moments: ExactMoments,
        sample: bool,
        root: bool,
    },
    FloatMoments {
        moments: FloatMoments,
        sample: bool,
        root: bool,
    },
    Collected(Collected),
    Pairs {
        moments: PairMoments,
        kind: Regression,
    },
}

#[derive(Clone, Copy, Debug)]
enum WholeResult {
    Int8,
    Numeric,
    Average,
}

impl Accumulator {
    /// The state before any row.
    pub fn new(aggregate: &ResolvedAggregate) -> Accumulator {
        let argument = aggregate.argument_types.first().copied().unwrap_or(DataType::Unknown);
        let is_float = matches!(argument, DataType::Float4 | DataType::Float8);
        let extreme = |wanted| State::Extreme {
            best: Value::Null,
            wanted,
            trims_blanks: argument == DataType::Char,
        };
        let moments = |sample, root| match is_float {
            true => State::FloatMoments {
                moments: FloatMoments::default(),
                sample,
                root,
            },
            false => State::ExactMoments {
                moments: ExactMoments::default(),
                sample,
                root,
            },
        };
        let bits = |operation| State::Bits {
            result: None,
            operation,
        };
        Accumulator(match aggregate.kind {
            AggregateKind::CountRows => State::CountRows(0),
            AggregateKind::Count => State::Count(0),
            AggregateKind::Sum => sum_state(argument, false),
            AggregateKind::Average => sum_state(argument, true),
            AggregateKind::Minimum => extreme(Ordering::Less),
            AggregateKind::Maximum => extreme(Ordering::Greater),
            AggregateKind::BoolAnd => State::Truth {
                result: None,
                decisive: false,
            },
            AggregateKind::BoolOr => State::Truth {
                result: None,
                decisive: true,
            },
            AggregateKind::BitAnd => bits(|a, b| a & b),
            AggregateKind::BitOr => bits(|a, b| a | b),
            AggregateKind::BitXor => bits(|a, b| a ^ b),
            AggregateKind::Concatenate if argument == DataType::Bytea => State::Bytes {
                bytes: None,
                delimiter: EcoVec::new(),
            },
            AggregateKind::Concatenate => State::Text {
                text: None,
                delimiter: EcoString::new(),
            },
            AggregateKind::CollectArray => {
                State::Collected(match (aggregate.result_type.element(), argument.element()) {
                    (element, None) => Collected::Items {
                        element: element.unwrap_or(argument),
                        items: None,
                    },
                    (_, Some(element)) => Collected::Arrays {
                        element,
                        count: 0,
                        whole: None,
                    },
                })
            }
            AggregateKind::CollectJson => State::Collected(Collected::JsonArray(None)),
            AggregateKind::CollectJsonb => State::Collected(Collected::Documents(None)),
            AggregateKind::CollectJsonObject => State::Collected(Collected::JsonObject(None)),
            AggregateKind::CollectJsonbObject => State::Collected(Collected::Pairs(None)),
            AggregateKind::Regression(kind) => State::Pairs {
                moments: PairMoments::default(),
                kind,
            },
            AggregateKind::DeviationSample => moments(true, true),
            AggregateKind::DeviationPopulation => moments(false, true),
            AggregateKind::VarianceSample => moments(true, false),
            AggregateKind::VariancePopulation => moments(false, false),
        })
    }

    /// Takes one row's arguments, already of the types that the aggregate takes.
    pub fn add(&mut self, arguments: &[Value]) -> Result<()> {
        match &mut self.0 {
            State::CountRows(count) => {
                *count += 1;
                return Ok(());
            }
            State::Collected(collected) => return collected.add(arguments),
            _ => {}
        }
        match arguments.first() {
            None | Some(Value::Null) => Ok(()),
            Some(value) => self.0.add(value, arguments.get(1)),
        }
    }

    /// Takes what another accumulator of the same aggregate has seen, as if its rows came after this one's.
    pub fn merge(&mut self, other: &Accumulator) -> Result<()> {
        self.0.merge(&other.0)
    }

    /// The result so far.
    pub fn finish(&self) -> Result<Value> {
        self.0.finish()
    }
}

fn sum_state(argument: DataType, average: bool) -> State {
    match argument {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => {
            let result = match (average, argument) {
                (true, _) => WholeResult::Average,
                (false, DataType::Int8) => WholeResult::Numeric,
                (false, _) => WholeResult::Int8,
            };
            State::WholeSum {
                sum: 0,
                count: 0,
                result,
            }
        }
        DataType::Float4 | DataType::Float8 if average => State::FloatAverage(FloatMoments::default()),
        DataType::Float4 | DataType::Float8 => State::FloatSum {
            sum: None,
            narrow: argument == DataType::Float4,
        },
        DataType::Interval => State::IntervalSum {
            sum: None,
            count: 0,
            average,
        },
        _ => State::ExactSum {
            sum: None,
            count: 0,
            average,
        },
    }
}

fn wrong(value: &Value) -> Error {
    Error::internal(format!("an aggregate was fed {}", value.data_type()))
}

fn number(value: &Value) -> Result<Numeric> {
    match value {
        Value::Numeric(number) => Ok(number.clone()),
        other => other.as_i64().map(Numeric::from_i64).ok_or_else(|| wrong(other)),
    }
}

fn float(value: &Value) -> Result<f64> {
    match value {
        Value::Float4(number) => Ok(f64::from(*number)),
        Value::Float8(number) => Ok(*number),
        other => Err(wrong(other)),
    }
}

/// A sum of floats in the width of the argument's type, as PostgreSQL keeps it.
fn add_float(sum: &mut Option<f64>, value: f64, narrow: bool) -> Result<()> {
    let Some(before) = *sum else {
        *sum = Some(value);
        return Ok(());
    };
    let wide = before + value;
    let after = if narrow { f64::from(wide as f32) } else { wide };
    if after.is_infinite() && before.is_finite() && value.is_finite() {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range: overflow",
        ));
    }
    *sum = Some(after);
    Ok(())
}

fn add_interval(sum: &mut Option<Interval>, value: &Interval) -> Result<()> {
    *sum = Some(match sum {
        Some(sum) => sum.checked_add(value)?,
        None => *value,
    });
    Ok(())
}

fn add_numeric(sum: &mut Option<Numeric>, value: &Numeric) -> Result<()> {
    *sum = Some(match sum {
        Some(sum) => sum.checked_add(value)?,
        None => value.clone(),
    });
    Ok(())
}

/// What another node has counted.
fn add_count(count: &mut i64, other: i64) -> Result<()> {
    *count = count.checked_add(other).ok_or_else(|| out_of_range("bigint"))?;
    Ok(())
}

fn take_extreme(best: &mut Value, value: &Value, wanted: Ordering, trims_blanks: bool) {
    let order = match (value, &*best) {
        (_, Value::Null) => wanted,
        (Value::Text(value), Value::Text(best)) if trims_blanks => value
            .trim_end_matches(' ')
            .as_bytes()
            .cmp(best.trim_end_matches(' ').as_bytes()),
        (value, best) => value.order(best),
    };
    if order == wanted {
        *best = value.clone();
    }
}

fn take_bits(result: &mut Option<Value>, value: &Value, operation: fn(i64, i64) -> i64) -> Result<()> {
    *result = Some(match (&*result, value) {
        (None, value) => value.clone(),
        (Some(Value::Int2(a)), Value::Int2(b)) => Value::Int2(operation((*a).into(), (*b).into()) as i16),
        (Some(Value::Int4(a)), Value::Int4(b)) => Value::Int4(operation((*a).into(), (*b).into()) as i32),
        (Some(Value::Int8(a)), Value::Int8(b)) => Value::Int8(operation(*a, *b)),
        _ => return Err(wrong(value)),
    });
    Ok(())
}

impl State {
    fn add(&mut self, value: &Value, second: Option<&Value>) -> Result<()> {
        match self {
            State::CountRows(count) | State::Count(count) => *count += 1,
            State::Collected(collected) => collected.add(std::slice::from_ref(value))?,
            State::WholeSum { sum, count, .. } => {
                *sum += i128::from(value.as_i64().ok_or_else(|| wrong(value))?);
                *count += 1;
            }
            State::FloatSum { sum, narrow } => add_float(sum, float(value)?, *narrow)?,
            State::FloatAverage(moments) => moments.add(float(value)?)?,
            State::ExactSum { sum, count, .. } => {
                match value {
                    Value::Numeric(number) => add_numeric(sum, number)?,
                    other => return Err(wrong(other)),
                }
                *count += 1;
            }
            State::IntervalSum { sum, count, .. } => {
                let Value::Interval(interval) = value else {
                    return Err(wrong(value));
                };
                add_interval(sum, interval)?;
                *count += 1;
            }
            State::Extreme {
                best,
                wanted,
                trims_blanks,
            } => take_extreme(best, value, *wanted, *trims_blanks),
            State::Truth { result, decisive } => {
                let Value::Bool(truth) = value else {
                    return Err(wrong(value));
                };
                *result = Some(if truth == decisive {
                    *decisive
                } else {
                    result.unwrap_or(!*decisive)
                });
            }
            State::Bits { result, operation } => take_bits(result, value, *operation)?,
            State::Text { text, delimiter } => {
                let own = second.and_then(Value::as_str).unwrap_or("");
                let addition = value.as_str().ok_or_else(|| wrong(value))?;
                join_text(text, delimiter, own, addition)?;
            }
            State::Bytes { bytes, delimiter } => {
                let Value::Bytea(addition) = value else {
                    return Err(wrong(value));
                };
                let own = if let Some(Value::Bytea(own)) = second {
                    own.as_slice()
                } else {
                    &[]
                };
                join_bytes(bytes, delimiter, own, addition)?;
            }
            State::ExactMoments { moments, .. } => moments.add(&number(value)?)?,
            State::FloatMoments { moments, .. } => moments.add(float(value)?)?,
            State::Pairs { moments, .. } => match second {
                None | Some(Value::Null) => {}
                Some(second) => moments.add(float(value)?, float(second)?)?,
            },
        }
        Ok(())
    }

    fn merge(&mut self, other: &State) -> Result<()> {
        match (self, other) {
            (State::CountRows(a), State::CountRows(b)) | (State::Count(a), State::Count(b)) => add_count(a, *b)?,
            (State::WholeSum { sum: a, count: m, .. }, State::WholeSum { sum: b, count: n, .. }) => {
                *a = a.checked_add(*b).ok_or_else(|| out_of_range("numeric"))?;
                add_count(m, *n)?;
            }
            (State::FloatSum { sum: a, narrow }, State::FloatSum { sum: Some(b), .. }) => add_float(a, *b, *narrow)?,
            (State::FloatAverage(a), State::FloatAverage(b)) => a.merge(b)?,
            (
                State::ExactSum { sum: a, count: m, .. },
                State::ExactSum {
                    sum: Some(b), count: n, ..
                },
            ) => {
                add_numeric(a, b)?;
                add_count(m, *n)?;
            }
            (
                State::IntervalSum { sum: a, count: m, .. },
                State::IntervalSum {
                    sum: Some(b), count: n, ..
                },
            ) => {
                add_interval(a, b)?;
                add_count(m, *n)?;
            }
            (
                State::Extreme {
                    best: a,
                    wanted,
                    trims_blanks,
                },
                State::Extreme { best: b, .. },
            ) if !b.is_null() => {
                take_extreme(a, b, *wanted, *trims_blanks);
            }
            (State::Truth { result: a, decisive }, State::Truth { result: Some(b), .. }) => {
                *a = Some(if b == decisive {
                    *decisive
                } else {
                    a.unwrap_or(!*decisive)
                });
            }
            (State::Bits { result: a, operation }, State::Bits { result: Some(b), .. }) => take_bits(a, b, *operation)?,
            (
                State::Text { text, delimiter },
                State::Text {
                    text: Some(b),
                    delimiter: own,
                },
            ) => {
                join_text(text, delimiter, own, b)?;
            }
            (
                State::Bytes { bytes, delimiter },
                State::Bytes {
                    bytes: Some(b),
                    delimiter: own,
                },
            ) => {
                join_bytes(bytes, delimiter, own, b)?;
            }
            (State::Collected(a), State::Collected(b)) => a.merge(b)?,
            (State::ExactMoments { moments: a, .. }, State::ExactMoments { moments: b, .. }) => a.merge(b)?,
            (State::FloatMoments { moments: a, .. }, State::FloatMoments { moments: b, .. }) => a.merge(b)?,
            (State::Pairs { moments: a, .. }, State::Pairs { moments: b, .. }) => a.merge(b)?,
            // The other side has seen nothing.
            (own, other) if std::mem::discriminant(own) == std::mem::discriminant(other) => {}
            _ => return Err(Error::internal("two different aggregates were merged")),
        }
        Ok(())
    }

    fn finish(&self) -> Result<Value> {
        Ok(match self {
            State::CountRows(count) | State::Count(count) => Value::Int8(*count),
            State::WholeSum { count: 0, .. } => Value::Null,
            State::WholeSum { sum, count, result } => match result {
                WholeResult::Int8 => Value::Int8(i64::try_from(*sum).map_err(|_| out_of_range("bigint"))?),
                WholeResult::Numeric => Value::Numeric(Numeric::from_i128(*sum)),
                WholeResult::Average => {
                    Value::Numeric(Numeric::from_i128(*sum).checked_div(&Numeric::from_i64(*count))?)
                }
            },
            State::FloatSum { sum: None, .. }
            | State::ExactSum { sum: None, .. }
            | State::IntervalSum { sum: None, .. } => Value::Null,
            State::FloatSum {
                sum: Some(sum),
                narrow: true,
            } => Value::Float4(*sum as f32),
            State::FloatSum {
                sum: Some(sum),
                narrow: false,
            } => Value::Float8(*sum),
            State::FloatAverage(moments) => moments.average(),
            State::ExactSum {
                sum: Some(sum),
                count,
                average: true,
            } => Value::Numeric(sum.checked_div(&Numeric::from_i64(*count))?),
            State::ExactSum { sum: Some(sum), .. } => Value::Numeric(sum.clone()),
            State::IntervalSum {
                sum: Some(sum),
                count,
                average: true,
            } => Value::Interval(sum.checked_div(*count as f64)?),
            State::IntervalSum { sum: Some(sum), .. } => Value::Interval(*sum),
            State::Extreme { best, .. } => best.clone(),
            State::Truth { result, .. } => result.map_or(Value::Null, Value::Bool),
            State::Bits { result, .. } => result.clone().unwrap_or_default(),
            State::Text { text, .. } => text.clone().map_or(Value::Null, Value::Text),
            State::Bytes { bytes, .. } => bytes.clone().map_or(Value::Null, Value::Bytea),
            State::ExactMoments { moments, sample, root } => moments.finish(*sample, *root)?,
            State::FloatMoments { moments, sample, root } => moments.finish(*sample, *root),
            State::Collected(collected) => collected.finish()?,
            State::Pairs { moments, kind } => moments.finish(*kind),
        })
    }
}

/// The first delimiter is only kept for a merge: it stands between what came before and this.
fn join_text(text: &mut Option<EcoString>, first: &mut EcoString, delimiter: &str, addition: &str) -> Result<()> {
    match text {
        None => {
            *first = EcoString::from(delimiter);
            *text = Some(EcoString::from(addition));
        }
        Some(text) => {
            check_length(text.len(), delimiter.len() + addition.len())?;
            text.push_str(delimiter);
            text.push_str(addition);
        }
    }
    Ok(())
}

/// 54000 for a text or a string of bytes that would be longer than any may be.
fn check_length(length: usize, addition: usize) -> Result<()> {
    if length.saturating_add(addition) <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("Cannot enlarge string buffer containing {length} bytes by {addition} more bytes.");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory").with_detail(detail))
}

fn join_bytes(bytes: &mut Option<EcoVec<u8>>, first: &mut EcoVec<u8>, delimiter: &[u8], addition: &[u8]) -> Result<()> {
    match bytes {
        None => {
            *first = EcoVec::from(delimiter);
            *bytes = Some(EcoVec::from(addition));
        }
        Some(bytes) => {
            check_length(bytes.len(), delimiter.len() + addition.len())?;
            bytes.extend_from_slice(delimiter);
            bytes.extend_from_slice(addition);
        }
    }
    Ok(())
}
