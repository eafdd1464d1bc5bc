//! What a window function gives for one row after the other of a partition.

use rubato_base::datetime::Interval;
use rubato_base::{Error, Result, SqlState, Value};
use rubato_formula::{Accumulator, Expr, ResolvedAggregate};
use rubato_sql::window::{FrameBound, FrameUnit, WindowCall, WindowFunction};
use std::ops::Range;

/// A partition among rows.
pub(crate) struct Partition<'a> {
    pub(crate) rows: Range<usize>,
    /// For each row, where the group of its peers begins.
    pub(crate) peers: &'a [usize],
    /// For each row, the arguments of the call, and behind them what its FILTER says.
    pub(crate) inputs: &'a [Vec<Value>],
}

/// A call under way in one partition.
pub(crate) struct Call {
    row: usize,
    /// How many groups of peers have begun.
    groups: i64,
    /// Where the group of peers of the row ends.
    peers_end: usize,
    /// What an aggregate knows of which rows.
    so_far: Option<(Accumulator, Range<usize>)>,
    /// Its result, while the rows are the same.
    result: Option<Value>,
    distances: (i64, i64),
}

impl Call {
    /// In front of the partition that begins at `row`. 22004, 22013 for a distance that is NULL or negative.
    pub(crate) fn new(call: &WindowCall, row: usize) -> Result<Call> {
        let distances = (
            distance(&call.frame.start, call.frame.unit, "starting")?,
            distance(&call.frame.end, call.frame.unit, "ending")?,
        );
        Ok(Call {
            row,
            groups: 0,
            peers_end: row,
            so_far: None,
            result: None,
            distances,
        })
    }

    /// The row that comes next.
    pub(crate) fn row(&self) -> usize {
        self.row
    }

    /// The value of the next row, and how many other rows were looked at for it.
    pub(crate) fn next(&mut self, call: &WindowCall, partition: &Partition<'_>) -> Result<(Value, usize)> {
        let row = self.row;
        let begins_group = row == partition.rows.start || partition.peers[row] == row;
        let mut took = 0;
        if begins_group {
            self.groups += 1;
            self.peers_end = group_end(row, partition);
            took += self.peers_end - row;
        }
        let value = self.value(call, partition, &mut took)?;
        self.row += 1;
        Ok((value, took))
    }

    fn value(&mut self, call: &WindowCall, partition: &Partition<'_>, took: &mut usize) -> Result<Value> {
        use WindowFunction as F;
        let (row, begin, end) = (self.row, partition.rows.start, partition.rows.end);
        let count = (end - begin) as f64;
        let own = &partition.inputs[row];
        Ok(match &call.function {
            F::RowNumber => Value::Int8((row - begin + 1) as i64),
            F::Rank => Value::Int8((partition.peers[row] - begin + 1) as i64),
            F::DenseRank => Value::Int8(self.groups),
            F::PercentRank if end - begin == 1 => Value::Float8(0.0),
            F::PercentRank => Value::Float8((partition.peers[row] - begin) as f64 / (count - 1.0)),
            F::CumulativeDistribution => Value::Float8((self.peers_end - begin) as f64 / count),
            F::Tiles => tile(partition, row)?,
            F::Lag | F::Lead => {
                let distance = match own.get(1).filter(|_| call.arguments.len() > 1) {
                    None => 1,
                    Some(Value::Null) => return Ok(Value::Null),
                    Some(distance) => distance.as_i64().unwrap_or(1),
                };
                let forward = if call.function == F::Lead { distance } else { -distance };
                let other = (row as i64)
                    .checked_add(forward)
                    .and_then(|row| usize::try_from(row).ok());
                match other.filter(|other| partition.rows.contains(other)) {
                    Some(other) => first_value(partition, other),
                    None if call.arguments.len() > 2 => own.get(2).cloned().unwrap_or_default(),
                    None => Value::Null,
                }
            }
            F::First | F::Last | F::Nth => {
                let frame = self.frame(call, partition, took);
                let wanted = match call.function {
                    F::First => Some(frame.start),
                    F::Last => frame.end.checked_sub(1),
                    _ => match own.get(1) {
                        None | Some(Value::Null) => return Ok(Value::Null),
                        Some(place) => {
                            let place = place.as_i64().unwrap_or(0);
                            if place <= 0 {
                                return Err(Error::new(
                                    SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE,
                                    "argument of nth_value must be greater than zero",
                                ));
                            }
                            usize::try_from(place - 1)
                                .ok()
                                .and_then(|place| frame.start.checked_add(place))
                        }
                    },
                };
                let within = wanted.filter(|wanted| frame.contains(wanted));
                within.map_or(Value::Null, |wanted| first_value(partition, wanted))
            }
            F::Aggregate(aggregate) => self.aggregate(aggregate, call, partition, took)?,
        })
    }

    fn aggregate(
        &mut self,
        aggregate: &ResolvedAggregate,
        call: &WindowCall,
        partition: &Partition<'_>,
        took: &mut usize,
    ) -> Result<Value> {
        let frame = self.frame(call, partition, took);
        let (mut accumulator, known) = match self.so_far.take() {
            Some((accumulator, known)) if known.start == frame.start && known.end <= frame.end => (accumulator, known),
            _ => {
                self.result = None;
                (aggregate.accumulator(), frame.start..frame.start)
            }
        };
        for row in known.end..frame.end {
            let inputs = &partition.inputs[row];
            let (arguments, filter) = inputs.split_at(call.arguments.len().min(inputs.len()));
            let counts = call.filter.is_none() || matches!(filter.first(), Some(Value::Bool(true)));
            if counts {
                accumulator.add(arguments)?;
            }
            self.result = None;
            *took += 1;
        }
        let result = match &self.result {
            Some(result) => result.clone(),
            None => accumulator.finish()?,
        };
        self.result = Some(result.clone());
        self.so_far = Some((accumulator, frame));
        Ok(result)
    }

    /// The rows that the call looks at, empty if its ends do not meet.
    fn frame(&self, call: &WindowCall, partition: &Partition<'_>, took: &mut usize) -> Range<usize> {
        let rows = &partition.rows;
        let start = self.bound(call, partition, true, took);
        let end = self.bound(call, partition, false, took);
        let (start, end) = (start.clamp(rows.start, rows.end), end.clamp(rows.start, rows.end));
        start.min(end)..end
    }

    /// The first row of the frame, or the row behind its last one.
    fn bound(&self, call: &WindowCall, partition: &Partition<'_>, is_start: bool, took: &mut usize) -> usize {
        let rows = &partition.rows;
        let (bound, distance) = match is_start {
            true => (&call.frame.start, self.distances.0),
            false => (&call.frame.end, self.distances.1),
        };
        let distance = match bound {
            FrameBound::UnboundedPreceding => return rows.start,
            FrameBound::UnboundedFollowing => return rows.end,
            FrameBound::CurrentRow => 0,
            FrameBound::Preceding(_) => -distance,
            FrameBound::Following(_) => distance,
        };
        match call.frame.unit {
            FrameUnit::Rows => {
                let own = (self.row as i64)
                    .saturating_add(distance)
                    .saturating_add(i64::from(!is_start));
                usize::try_from(own).unwrap_or(0)
            }
            FrameUnit::Range if !matches!(bound, FrameBound::CurrentRow) => self.key_bound(call, partition, is_start),
            FrameUnit::Range | FrameUnit::Groups => self.group_bound(distance, partition, is_start, took),
        }
    }

    /// The first row whose sort key is not before the one that the frame begins with, or is beyond the one that it ends with.
    fn key_bound(&self, call: &WindowCall, partition: &Partition<'_>, is_start: bool) -> usize {
        let key_place = call.arguments.len() + usize::from(call.filter.is_some());
        let has_start = call.range.is_some_and(|range| range.start.is_some());
        let end_place = key_place + 1 + usize::from(!is_start && has_start);
        let (descending, nulls_first) = call
            .order
            .first()
            .map_or((false, false), |key| (key.descending, key.nulls_first));
        let wanted = &partition.inputs[self.row][end_place];
        // NULLs are peers of each other, and within no distance of anything else.
        if wanted.is_null() {
            return match is_start {
                true => partition.peers[self.row],
                false => self.peers_end,
            };
        }
        let is_before = |inputs: &Vec<Value>| {
            let key = &inputs[key_place];
            if key.is_null() {
                return nulls_first;
            }
            let order = key.order(wanted);
            let order = if descending { order.reverse() } else { order };
            order.is_lt() || (order.is_eq() && !is_start)
        };
        let rows = &partition.rows;
        rows.start + partition.inputs[rows.clone()].partition_point(is_before)
    }

    /// Where the group of peers begins, or ends, that is so many groups away.
    fn group_bound(&self, distance: i64, partition: &Partition<'_>, is_start: bool, took: &mut usize) -> usize {
        let rows = &partition.rows;
        let (mut begin, mut end) = (partition.peers[self.row].max(rows.start), self.peers_end);
        for _ in 0..distance.unsigned_abs() {
            *took += 1;
            if distance < 0 {
                if begin == rows.start {
                    return rows.start;
                }
                end = begin;
                begin = partition.peers[begin - 1].max(rows.start);
            } else {
                if end == rows.end {
                    return rows.end;
                }
                begin = end;
                end = group_end(begin, partition);
                *took += end - begin;
            }
        }
        if is_start { begin } else { end }
    }
}

fn first_value(partition: &Partition<'_>, row: usize) -> Value {
    partition.inputs[row].first().cloned().unwrap_or_default()
}

fn group_end(row: usize, partition: &Partition<'_>) -> usize {
    let rest = row + 1..partition.rows.end;
    let begin = partition.peers[row];
    rest.clone()
        .find(|other| partition.peers[*other] != begin)
        .unwrap_or(rest.end)
}

/// The first groups have one row more where the rows do not divide evenly.
fn tile(partition: &Partition<'_>, row: usize) -> Result<Value> {
    // The first row of the partition says how many there are.
    let count = match partition.inputs[partition.rows.start].first() {
        None | Some(Value::Null) => return Ok(Value::Null),
        Some(count) => count.as_i64().unwrap_or(0),
    };
    if count <= 0 {
        return Err(Error::new(
            SqlState::INVALID_ARGUMENT_FOR_NTILE,
            "argument of ntile must be greater than zero",
        ));
    }
    let (rows, place) = (partition.rows.len() as i64, (row - partition.rows.start) as i64);
    let (size, larger) = (rows / count, rows % count);
    let tile = match place < larger * (size + 1) {
        true => place / (size + 1),
        false => larger + (place - larger * (size + 1)) / size.max(1),
    };
    Ok(Value::Int4((tile + 1) as i32))
}

/// A number of rows or groups, checked; with RANGE only checked, since columns say where the frame ends.
fn distance(bound: &FrameBound, unit: FrameUnit, which: &str) -> Result<i64> {
    let (FrameBound::Preceding(expr) | FrameBound::Following(expr)) = bound else {
        return Ok(0);
    };
    let value = match expr {
        Expr::Literal(value) => value,
        _ => return Err(Error::internal("the distance of a frame is not known")),
    };
    if unit == FrameUnit::Range && !value.is_null() {
        return match is_negative(value) {
            true => Err(Error::new(
                SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
                "invalid preceding or following size in window function",
            )),
            false => Ok(0),
        };
    }
    match value.as_i64() {
        None => Err(Error::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            format!("frame {which} offset must not be null"),
        )),
        Some(distance) if distance < 0 => Err(Error::new(
            SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
            format!("frame {which} offset must not be negative"),
        )),
        Some(distance) => Ok(distance),
    }
}

fn is_negative(distance: &Value) -> bool {
    match distance {
        Value::Interval(interval) => *interval < Interval::default(),
        Value::Float8(number) => number.is_nan() || *number < 0.0,
        other => other.order(&Value::Int8(0)).is_lt(),
    }
}
