//! Aggregates as DataFusion's, with PostgreSQL's results.
//!
//! Counts, sums of exact numbers, and least and greatest values are kept as one number a group; everything else, also DISTINCT and
//! ORDER BY within a call, by the accumulator of `rubato_formula` for each group.

use crate::failure::{carried, inexact};
use crate::groups::Groups;
use crate::kinds::{Builder, Column, Kind};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int16Array, Int32Array, Int64Array};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use parking_lot::Mutex;
use rubato_base::{DataType, Numeric, Value};
use rubato_formula::{AggregateKind, ResolvedAggregate};
use std::mem::size_of;
use std::sync::Arc;

/// What is computed of each group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    /// An aggregate of SQL.
    Aggregate {
        resolved: ResolvedAggregate,
        distinct: bool,
        /// How many of the arguments are the aggregate's; those behind are what its input is ordered by ...
        arguments: usize,
        /// ... in this direction: descending, and NULLs first.
        order: Vec<(bool, bool)>,
    },
    /// The value of the group's first row.
    First,
}

/// One aggregate over columns of known forms.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Aggregate {
    pub(crate) wanted: Wanted,
    pub(crate) inputs: Vec<Column>,
    pub(crate) result: Column,
    signature: Signature,
}

impl Aggregate {
    pub(crate) fn new(wanted: Wanted, inputs: Vec<Column>, decimals: bool) -> Aggregate {
        let result = result_column(&wanted, &inputs, decimals);
        Aggregate {
            wanted,
            inputs,
            result,
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }

    fn groups(&self) -> Box<dyn GroupsAccumulator> {
        match self.quick() {
            Some(state) => Box::new(Quick {
                state,
                input: self.inputs.first().copied(),
                result: self.result,
            }),
            None => Box::new(Groups::new(&self.wanted, &self.inputs, self.result)),
        }
    }

    /// The state of an aggregate that is one number a group.
    fn quick(&self) -> Option<State> {
        let Wanted::Aggregate {
            resolved,
            distinct: false,
            ..
        } = &self.wanted
        else {
            return None;
        };
        let input = self.inputs.first().map(|input| input.kind);
        let is_exact = input.is_some_and(|kind| kind.is_integer() || matches!(kind, Kind::Decimal(_)));
        // Dates and times are whole numbers that nobody sums.
        Some(match resolved.kind {
            AggregateKind::CountRows | AggregateKind::Count => State::Count(Vec::new()),
            AggregateKind::Sum | AggregateKind::Average if is_exact => State::Sum {
                sums: Vec::new(),
                counts: Vec::new(),
                is_average: resolved.kind == AggregateKind::Average,
            },
            AggregateKind::Minimum | AggregateKind::Maximum if is_exact => State::Extreme {
                best: Vec::new(),
                is_max: resolved.kind == AggregateKind::Maximum,
            },
            _ => return None,
        })
    }
}

fn result_column(wanted: &Wanted, inputs: &[Column], decimals: bool) -> Column {
    let input = inputs.first().copied();
    let Wanted::Aggregate { resolved, distinct, .. } = wanted else {
        return input.unwrap_or(Column::boolean());
    };
    let plain = Column::plain(resolved.result_type);
    match (resolved.kind, input) {
        (AggregateKind::Minimum | AggregateKind::Maximum, Some(input)) if input.kind != Kind::Packed => Column {
            data_type: resolved.result_type,
            ..input
        },
        (AggregateKind::Sum, Some(input)) if decimals && !distinct => match input.kind {
            Kind::Decimal(scale) => Column::decimal(scale),
            Kind::Int64 if resolved.result_type == DataType::Numeric => Column::decimal(0),
            _ => plain,
        },
        (
            AggregateKind::Sum,
            Some(Column {
                kind: Kind::Decimal(scale),
                ..
            }),
        ) => Column::decimal(scale),
        _ => plain,
    }
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        match &self.wanted {
            Wanted::First => "first",
            Wanted::Aggregate { resolved, .. } => match resolved.kind {
                AggregateKind::CountRows | AggregateKind::Count => "count",
                AggregateKind::Sum => "sum",
                AggregateKind::Average => "avg",
                AggregateKind::Minimum => "min",
                AggregateKind::Maximum => "max",
                _ => "aggregate",
            },
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(self.result.kind.arrow_type())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup(Mutex::new(self.groups()))))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let fields = match self.quick() {
            Some(state) => state.fields(self.result),
            None => vec![("state", ArrowType::Binary)],
        };
        let named = |(suffix, arrow_type)| -> FieldRef {
            Arc::new(Field::new(format!("{}[{suffix}]", args.name), arrow_type, true))
        };
        Ok(fields.into_iter().map(named).collect())
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(self.groups())
    }
}

/// An aggregate that is one number a group.
struct Quick {
    state: State,
    input: Option<Column>,
    result: Column,
}

enum State {
    Count(Vec<i64>),
    /// Sums and how many values they are of.
    Sum {
        sums: Vec<i128>,
        counts: Vec<i64>,
        is_average: bool,
    },
    Extreme {
        best: Vec<Option<i128>>,
        is_max: bool,
    },
}

impl State {
    fn fields(&self, result: Column) -> Vec<(&'static str, ArrowType)> {
        match self {
            State::Count(_) => vec![("count", ArrowType::Int64)],
            State::Sum { .. } => vec![("sum", wide_type()), ("count", ArrowType::Int64)],
            State::Extreme { .. } => vec![("best", result.kind.arrow_type())],
        }
    }

    fn resize(&mut self, groups: usize) {
        match self {
            State::Count(counts) => counts.resize(groups, 0),
            State::Sum { sums, counts, .. } => {
                sums.resize(groups, 0);
                counts.resize(groups, 0);
            }
            State::Extreme { best, .. } => best.resize(groups, None),
        }
    }

    fn add(&mut self, group: usize, value: i128) -> Result<()> {
        match self {
            State::Count(counts) => counts[group] += 1,
            State::Sum { sums, counts, .. } => {
                sums[group] = sums[group].checked_add(value).ok_or_else(inexact)?;
                counts[group] += 1;
            }
            State::Extreme { best, is_max } => {
                let best = &mut best[group];
                *best = Some(match *best {
                    Some(known) if *is_max => known.max(value),
                    Some(known) => known.min(value),
                    None => value,
                });
            }
        }
        Ok(())
    }
}

fn wide_type() -> ArrowType {
    Kind::Decimal(0).arrow_type()
}

/// Calls `visit` with the group and the value of each row that counts.
fn each_number(
    array: &ArrayRef,
    groups: &[usize],
    filter: Option<&BooleanArray>,
    visit: &mut dyn FnMut(usize, i128) -> Result<()>,
) -> Result<()> {
    macro_rules! each {
        ($array:expr) => {{
            let array = $array;
            if array.null_count() == 0 && filter.is_none() {
                for (value, group) in array.values().iter().zip(groups) {
                    visit(*group, i128::from(*value))?;
                }
                return Ok(());
            }
            for (row, group) in groups.iter().enumerate() {
                if counts(filter, row) && array.is_valid(row) {
                    visit(*group, i128::from(array.value(row)))?;
                }
            }
        }};
    }
    match array.data_type() {
        ArrowType::Int16 => each!(array.as_any().downcast_ref::<Int16Array>().ok_or_else(wrong_form)?),
        ArrowType::Int32 => each!(array.as_any().downcast_ref::<Int32Array>().ok_or_else(wrong_form)?),
        ArrowType::Int64 => each!(array.as_any().downcast_ref::<Int64Array>().ok_or_else(wrong_form)?),
        _ => each!(
            array
                .as_any()
                .downcast_ref::<Decimal128Array>()
                .ok_or_else(wrong_form)?
        ),
    }
    Ok(())
}

fn wrong_form() -> DataFusionError {
    carried(rubato_base::Error::internal(
        "an aggregate was given an array of another form",
    ))
}

/// Whether FILTER lets a row through.
pub(crate) fn counts(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl GroupsAccumulator for Quick {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.state.resize(total_num_groups);
        let array = match (values.first(), &mut self.state) {
            (None, State::Count(rows)) => {
                for (row, group) in group_indices.iter().enumerate() {
                    rows[*group] += i64::from(counts(opt_filter, row));
                }
                return Ok(());
            }
            (Some(array), State::Count(rows)) => {
                for (row, group) in group_indices.iter().enumerate() {
                    rows[*group] += i64::from(counts(opt_filter, row) && array.is_valid(row));
                }
                return Ok(());
            }
            (Some(array), _) => array,
            (None, _) => return Err(wrong_form()),
        };
        let state = &mut self.state;
        each_number(array, group_indices, opt_filter, &mut |group, value| {
            state.add(group, value)
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let result = self.result;
        match &mut self.state {
            State::Count(counts) => Ok(Arc::new(Int64Array::from(emit_to.take_needed(counts)))),
            State::Sum {
                sums,
                counts,
                is_average,
            } => {
                let sums = emit_to.take_needed(sums);
                let counts = emit_to.take_needed(counts);
                sum_results((&sums, &counts), *is_average, self.input, result)
            }
            State::Extreme { best, .. } => numbers(emit_to.take_needed(best), result),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(match &mut self.state {
            State::Count(counts) => vec![Arc::new(Int64Array::from(emit_to.take_needed(counts)))],
            State::Sum { sums, counts, .. } => {
                let sums = Decimal128Array::from(emit_to.take_needed(sums)).with_data_type(wide_type());
                vec![Arc::new(sums), Arc::new(Int64Array::from(emit_to.take_needed(counts)))]
            }
            State::Extreme { best, .. } => vec![numbers(emit_to.take_needed(best), self.result)?],
        })
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.state.resize(total_num_groups);
        let state = &mut self.state;
        match (&mut *state, values) {
            (State::Count(counts), [own]) => {
                let own: &Int64Array = own.as_primitive();
                for (count, group) in own.values().iter().zip(group_indices) {
                    counts[*group] += count;
                }
                Ok(())
            }
            (State::Sum { sums, counts, .. }, [own_sums, own_counts]) => {
                let (own_sums, own_counts): (&Decimal128Array, &Int64Array) =
                    (own_sums.as_primitive(), own_counts.as_primitive());
                for (row, group) in group_indices.iter().enumerate() {
                    sums[*group] = sums[*group].checked_add(own_sums.value(row)).ok_or_else(inexact)?;
                    counts[*group] += own_counts.value(row);
                }
                Ok(())
            }
            (_, [best]) => each_number(best, group_indices, None, &mut |group, value| state.add(group, value)),
            _ => Err(wrong_form()),
        }
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Err(wrong_form())
    }

    fn size(&self) -> usize {
        match &self.state {
            State::Count(counts) => counts.capacity() * size_of::<i64>(),
            State::Sum { sums, counts, .. } => {
                sums.capacity() * size_of::<i128>() + counts.capacity() * size_of::<i64>()
            }
            State::Extreme { best, .. } => best.capacity() * size_of::<Option<i128>>(),
        }
    }
}

/// Whole numbers or decimals in the form of a column.
fn numbers(values: Vec<Option<i128>>, column: Column) -> Result<ArrayRef> {
    fn fitting<T: TryFrom<i128>>(values: Vec<Option<i128>>) -> Result<Vec<Option<T>>> {
        let fit = |value: i128| T::try_from(value).map_err(|_| wrong_form());
        values.into_iter().map(|value| value.map(fit).transpose()).collect()
    }
    Ok(match column.kind {
        Kind::Int16 => Arc::new(Int16Array::from(fitting::<i16>(values)?)),
        Kind::Int32 => Arc::new(Int32Array::from(fitting::<i32>(values)?)),
        Kind::Int64 => Arc::new(Int64Array::from(fitting::<i64>(values)?)),
        _ => Arc::new(Decimal128Array::from(values).with_data_type(column.kind.arrow_type())),
    })
}

/// Sums, or averages; NULL for no values.
fn sum_results(
    (sums, counts): (&[i128], &[i64]),
    is_average: bool,
    input: Option<Column>,
    result: Column,
) -> Result<ArrayRef> {
    let values = sums.iter().zip(counts).map(|(sum, count)| (*count > 0).then_some(*sum));
    match result.kind {
        Kind::Int64 => {
            let out_of_range = || {
                let code = rubato_base::SqlState::NUMERIC_VALUE_OUT_OF_RANGE;
                carried(rubato_base::Error::new(code, "bigint out of range"))
            };
            let fit = |sum: i128| i64::try_from(sum).map_err(|_| out_of_range());
            let values = values.map(|sum| sum.map(fit).transpose());
            Ok(Arc::new(Int64Array::from(values.collect::<Result<Vec<_>>>()?)))
        }
        Kind::Decimal(_) => numbers(values.collect(), result),
        _ => {
            let scale = match input.map(|input| input.kind) {
                Some(Kind::Decimal(scale)) => u32::from(scale),
                _ => 0,
            };
            let mut builder = Builder::new(result.kind, sums.len());
            for (sum, count) in sums.iter().zip(counts) {
                let number = Numeric::from_parts(*sum, scale).map_err(carried)?;
                let number = match (*count, is_average) {
                    (0, _) => Value::Null,
                    (_, false) => Value::Numeric(number),
                    (count, true) => Value::Numeric(number.checked_div(&Numeric::from_i64(count)).map_err(carried)?),
                };
                builder.push(&number)?;
            }
            Ok(builder.finish())
        }
    }
}

/// The only group of an aggregate without GROUP BY.
struct OneGroup(Mutex<Box<dyn GroupsAccumulator>>);

impl std::fmt::Debug for OneGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneGroup")
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |array| array.len());
        self.0.get_mut().update_batch(values, &vec![0; rows], None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let groups = self.0.get_mut();
        // There may have been no batch at all.
        groups
            .update_batch(&[], &[], None, 1)
            .or_else(|_| Ok::<(), DataFusionError>(()))?;
        ScalarValue::try_from_array(&groups.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        self.0.lock().size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let arrays = self.0.get_mut().state(EmitTo::All)?;
        arrays
            .iter()
            .map(|array| ScalarValue::try_from_array(array, 0))
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |array| array.len());
        self.0.get_mut().merge_batch(states, &vec![0; rows], 1)
    }
}
