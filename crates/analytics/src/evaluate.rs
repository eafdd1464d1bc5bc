//! Evaluation of nodes over a batch.

use crate::failure::{carried, inexact};
use crate::kinds::{Builder, Column, DECIMAL_DIGITS, Kind, View};
use crate::node::{Arithmetic, Members, Node, Surroundings, Values, Work};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Datum, Decimal128Array, Float64Array, Int16Array, Int32Array, Int64Array,
    PrimitiveArray, RecordBatch, Scalar, StringViewBuilder, new_null_array,
};
use arrow::compute::kernels::{boolean, cmp};
use arrow::compute::{SlicesIterator, filter_record_batch, interleave};
use arrow::datatypes::{ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;
use datafusion_common::{DataFusionError, Result};
use rubato_base::datetime::{Field, extract_from_date};
use rubato_base::{DataType, Error, Key, SqlState, Value};
use rubato_formula::{Comparison, EvalContext, Expr, ListSets, NoEnvironment};
use std::cmp::Ordering;
use std::sync::Arc;

/// An array, or one value for all rows.
#[derive(Clone)]
pub(crate) struct Operand {
    pub(crate) array: ArrayRef,
    pub(crate) is_scalar: bool,
}

impl Operand {
    fn array(array: ArrayRef) -> Operand {
        Operand {
            array,
            is_scalar: false,
        }
    }

    /// An array with one value for each of `rows`.
    pub(crate) fn into_array(self, rows: usize) -> Result<ArrayRef> {
        if !self.is_scalar {
            return Ok(self.array);
        }
        let places: Vec<(usize, usize)> = vec![(0, 0); rows];
        Ok(interleave(&[&*self.array], &places)?)
    }
}

impl Node {
    /// The values over a batch.
    pub(crate) fn evaluate(&self, batch: &RecordBatch) -> Result<Operand> {
        Ok(Operand::array(match &self.work {
            Work::Column(index) => Arc::clone(batch.column(*index)),
            Work::Constant(array) => {
                return Ok(Operand {
                    array: Arc::clone(array),
                    is_scalar: true,
                });
            }
            Work::And(terms) => Arc::new(connect(terms, false, batch)?),
            Work::Or(terms) => Arc::new(connect(terms, true, batch)?),
            Work::Not(inner) => Arc::new(boolean::not(&inner.truth(batch)?)?),
            Work::IsNull(inner) => Arc::new(boolean::is_null(&inner.array(batch)?)?),
            Work::Compare(comparison, left, right) => Arc::new(compare(*comparison, left, right, batch)?),
            Work::Arithmetic(operation, left, right) => arithmetic(*operation, self.column, left, right, batch)?,
            Work::Widen(inner) => {
                let operand = inner.evaluate(batch)?;
                return Ok(Operand {
                    array: widen(&operand.array, inner.column, self.column)?,
                    ..operand
                });
            }
            Work::Pack(inner) => pack(&inner.array(batch)?, inner.column)?,
            Work::Key(inner) => keys(&inner.array(batch)?, inner.column)?,
            Work::TrimBlanks(inner) => trim_blanks(&inner.array(batch)?),
            Work::Like {
                operand,
                pattern,
                negated,
            } => {
                let (array, pattern) = (operand.array(batch)?, Scalar::new(Arc::clone(pattern)));
                Arc::new(match negated {
                    true => arrow::compute::nlike(&array, &pattern)?,
                    false => arrow::compute::like(&array, &pattern)?,
                })
            }
            Work::DatePart(part, inner) => parts_of_dates(*part, &inner.array(batch)?, self.column)?,
            Work::Among(inner, members) => Arc::new(among(&inner.array(batch)?, inner.column, members)?),
            Work::Case { branches, otherwise } => case(branches, otherwise, self.column, batch)?,
            Work::Rows { expr, inputs, around } => by_rows(expr, inputs, around, self.column, batch)?,
        }))
    }

    pub(crate) fn array(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        self.evaluate(batch)?.into_array(batch.num_rows())
    }

    fn truth(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        Ok(self.array(batch)?.as_boolean().clone())
    }

    /// The values of the rows where `chosen` is true; the others are NULL, and not evaluated if that could be an error.
    fn array_where(&self, batch: &RecordBatch, chosen: &BooleanArray) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        if !self.can_fail() || chosen.true_count() == rows {
            return self.array(batch);
        }
        if chosen.true_count() == 0 {
            return Ok(new_null_array(&self.column.kind.arrow_type(), rows));
        }
        let some = self.array(&filter_record_batch(batch, chosen)?)?;
        scattered(&some, chosen)
    }
}

/// The values at the places where `chosen` is true, NULL elsewhere.
fn scattered(some: &ArrayRef, chosen: &BooleanArray) -> Result<ArrayRef> {
    let null = new_null_array(some.data_type(), 1);
    let mut places = vec![(1, 0); chosen.len()];
    let mut next = 0;
    for (from, to) in SlicesIterator::new(chosen) {
        for place in &mut places[from..to] {
            *place = (0, next);
            next += 1;
        }
    }
    Ok(interleave(&[&**some, &*null], &places)?)
}

/// Three-valued AND (`decisive` false) or OR (`decisive` true); later terms are asked where earlier ones do not decide.
fn connect(terms: &[Node], decisive: bool, batch: &RecordBatch) -> Result<BooleanArray> {
    let mut so_far: Option<BooleanArray> = None;
    for term in terms {
        so_far = Some(match so_far {
            None => term.truth(batch)?,
            Some(so_far) => {
                let own = if term.can_fail() {
                    let open: BooleanArray = so_far.iter().map(|truth| Some(truth != Some(decisive))).collect();
                    term.array_where(batch, &open)?
                } else {
                    term.array(batch)?
                };
                match decisive {
                    false => boolean::and_kleene(&so_far, own.as_boolean())?,
                    true => boolean::or_kleene(&so_far, own.as_boolean())?,
                }
            }
        });
    }
    Ok(so_far.unwrap_or_else(|| BooleanArray::from(vec![!decisive; batch.num_rows()])))
}

fn compare(comparison: Comparison, left: &Node, right: &Node, batch: &RecordBatch) -> Result<BooleanArray> {
    let kind = left.column.kind;
    let (left, right) = (left.evaluate(batch)?, right.evaluate(batch)?);
    if kind == Kind::Float64 {
        let (left, right) = (left.into_array(batch.num_rows())?, right.into_array(batch.num_rows())?);
        return Ok(compare_floats(comparison, left.as_primitive(), right.as_primitive()));
    }
    let both_scalar = left.is_scalar && right.is_scalar;
    let datum = |operand: Operand| -> Box<dyn Datum> {
        if operand.is_scalar && !both_scalar {
            Box::new(Scalar::new(operand.array))
        } else {
            Box::new(operand.array)
        }
    };
    let (left, right) = (datum(left), datum(right));
    let (left, right) = (&*left, &*right);
    let result = match comparison {
        Comparison::Equal => cmp::eq(left, right),
        Comparison::NotEqual => cmp::neq(left, right),
        Comparison::Less => cmp::lt(left, right),
        Comparison::LessOrEqual => cmp::lt_eq(left, right),
        Comparison::Greater => cmp::gt(left, right),
        Comparison::GreaterOrEqual => cmp::gt_eq(left, right),
    }?;
    if both_scalar {
        let places = vec![(0, 0); batch.num_rows()];
        return Ok(interleave(&[&result], &places)?.as_boolean().clone());
    }
    Ok(result)
}

/// As PostgreSQL orders floats: NaN equals NaN and is the largest, -0 equals 0.
fn compare_floats(comparison: Comparison, left: &Float64Array, right: &Float64Array) -> BooleanArray {
    let order = |a: f64, b: f64| -> Ordering { a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())) };
    let pairs = left.iter().zip(right.iter());
    pairs.map(|(a, b)| Some(comparison.holds(order(a?, b?)))).collect()
}

fn arithmetic(
    operation: Arithmetic,
    column: Column,
    left: &Node,
    right: &Node,
    batch: &RecordBatch,
) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    let (left, right) = (left.evaluate(batch)?, right.evaluate(batch)?);
    if let Kind::Decimal(scale) = column.kind {
        let result = decimal_arithmetic(operation, left, right, rows)?;
        return Ok(Arc::new(result.with_precision_and_scale(DECIMAL_DIGITS, scale as i8)?));
    }
    let (left, right) = (left.into_array(rows)?, right.into_array(rows)?);
    use arrow::compute::kernels::numeric::{add, mul, sub};
    let result = match operation {
        Arithmetic::Add => add(&left, &right),
        Arithmetic::Subtract => sub(&left, &right),
        Arithmetic::Multiply => mul(&left, &right),
    };
    result.map_err(|error| match error {
        ArrowError::ArithmeticOverflow(_) => carried(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("{} out of range", column.data_type),
        )),
        other => other.into(),
    })
}

/// Operands of a sum have one scale.
fn decimal_arithmetic(operation: Arithmetic, left: Operand, right: Operand, rows: usize) -> Result<Decimal128Array> {
    let work = match operation {
        Arithmetic::Add => i128::checked_add,
        Arithmetic::Subtract => i128::checked_sub,
        Arithmetic::Multiply => i128::checked_mul,
    };
    let overflow = || ArrowError::ExternalError(Box::new(inexact()));
    let (a, b): (&Decimal128Array, &Decimal128Array) = (left.array.as_primitive(), right.array.as_primitive());
    if (left.is_scalar && a.is_null(0)) || (right.is_scalar && b.is_null(0)) {
        return Ok(Decimal128Array::new_null(rows));
    }
    Ok(match (left.is_scalar, right.is_scalar) {
        (true, false) => {
            let value = a.value(0);
            b.try_unary::<_, Decimal128Type, _>(|other| work(value, other).ok_or_else(overflow))?
        }
        (false, true) => {
            let value = b.value(0);
            a.try_unary::<_, Decimal128Type, _>(|other| work(other, value).ok_or_else(overflow))?
        }
        _ => {
            let (left, right) = (left.into_array(rows)?, right.into_array(rows)?);
            let (a, b): (&Decimal128Array, &Decimal128Array) = (left.as_primitive(), right.as_primitive());
            arrow::compute::try_binary(a, b, |a, b| work(a, b).ok_or_else(overflow))?
        }
    })
}

/// Numbers in a wider form.
pub(crate) fn widen(array: &ArrayRef, from: Column, to: Column) -> Result<ArrayRef> {
    let Kind::Decimal(scale) = to.kind else {
        return widen_number(array, from, to);
    };
    let own_scale = match from.kind {
        Kind::Decimal(own) => own,
        _ => 0,
    };
    let factor = 10i128
        .checked_pow(u32::from(scale.saturating_sub(own_scale)))
        .ok_or_else(inexact)?;
    let overflow = || ArrowError::ExternalError(Box::new(inexact()));
    let scaled = |number: i128| number.checked_mul(factor).ok_or_else(overflow);
    let result: Decimal128Array = match from.kind {
        Kind::Decimal(_) => array
            .as_primitive::<Decimal128Type>()
            .try_unary::<_, Decimal128Type, _>(scaled)?,
        _ => {
            let wide = widen_number(array, from, Column::plain(DataType::Int8))?;
            let wide: &Int64Array = wide.as_primitive();
            wide.try_unary::<_, Decimal128Type, _>(|number| scaled(i128::from(number)))?
        }
    };
    Ok(Arc::new(result.with_precision_and_scale(DECIMAL_DIGITS, scale as i8)?))
}

fn widen_number(array: &ArrayRef, from: Column, to: Column) -> Result<ArrayRef> {
    fn mapped<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
        array: &ArrayRef,
        map: fn(A::Native) -> B::Native,
    ) -> ArrayRef {
        let array: &PrimitiveArray<A> = array.as_primitive();
        Arc::new(array.unary::<_, B>(map))
    }
    Ok(match (from.kind, to.kind) {
        (own, wanted) if own == wanted => Arc::clone(array),
        (Kind::Int16, Kind::Int32) => mapped::<Int16Type, Int32Type>(array, i32::from),
        (Kind::Int16, Kind::Int64) => mapped::<Int16Type, Int64Type>(array, i64::from),
        (Kind::Int32, Kind::Int64) => mapped::<Int32Type, Int64Type>(array, i64::from),
        (Kind::Float32, Kind::Float64) => mapped::<Float32Type, Float64Type>(array, f64::from),
        (own, wanted) => return Err(carried(Error::internal(format!("{own:?} as {wanted:?}")))),
    })
}

/// The values of an array one after the other.
pub(crate) fn each_value(array: &ArrayRef, column: Column, mut visit: impl FnMut(Value) -> Result<()>) -> Result<()> {
    let view = View::new(array, column).map_err(carried)?;
    for row in 0..array.len() {
        visit(view.value(row).map_err(carried)?)?;
    }
    Ok(())
}

fn pack(array: &ArrayRef, column: Column) -> Result<ArrayRef> {
    let mut builder = Builder::new(Kind::Packed, array.len());
    each_value(array, column, |value| Ok(builder.push(&value)?))?;
    Ok(builder.finish())
}

fn keys(array: &ArrayRef, column: Column) -> Result<ArrayRef> {
    let mut builder = arrow::array::BinaryViewBuilder::with_capacity(array.len());
    each_value(array, column, |value| {
        match value {
            Value::Null => builder.append_null(),
            value => builder.append_value(Key::of(&[value]).as_bytes()),
        }
        Ok(())
    })?;
    Ok(Arc::new(builder.finish()))
}

fn trim_blanks(array: &ArrayRef) -> ArrayRef {
    let array = array.as_string_view();
    let mut builder = StringViewBuilder::with_capacity(array.len());
    for text in array {
        builder.append_option(text.map(trimmed));
    }
    Arc::new(builder.finish())
}

/// Looks at eight bytes at a time: `char(25)` is mostly blanks, and a search by characters took half of a query's time.
fn trimmed(text: &str) -> &str {
    const BLANKS: &[u8] = &[b' '; 8];
    let mut rest = text.as_bytes();
    while let Some(shorter) = rest.strip_suffix(BLANKS) {
        rest = shorter;
    }
    let length = rest.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..length]
}

fn parts_of_dates(field: Field, array: &ArrayRef, column: Column) -> Result<ArrayRef> {
    let dates: &Int32Array = array.as_primitive();
    // Infinity has no such part as a number of this form.
    let whole = |days: i32| -> Result<i64> {
        let part = extract_from_date(field, days).map_err(carried)?;
        let parts = part.and_then(|number| number.to_parts());
        parts
            .filter(|(_, scale)| *scale == 0)
            .map(|(number, _)| number)
            .ok_or_else(inexact)
    };
    let numbers: Int64Array = dates.try_unary::<_, Int64Type, DataFusionError>(whole)?;
    match column.kind {
        Kind::Float64 => Ok(Arc::new(numbers.unary::<_, Float64Type>(|number| number as f64))),
        _ => widen(&(Arc::new(numbers) as ArrayRef), Column::plain(DataType::Int8), column),
    }
}

fn among(array: &ArrayRef, column: Column, members: &Members) -> Result<BooleanArray> {
    let verdict = |is_member: bool| match (is_member, members.has_null) {
        (true, _) => Some(true),
        (false, true) => None,
        (false, false) => Some(false),
    };
    Ok(match &members.values {
        Values::Text(texts) => {
            let array = array.as_string_view();
            array.iter().map(|text| verdict(texts.contains(text?))).collect()
        }
        Values::Whole(numbers) => match column.kind {
            Kind::Int16 => {
                let array: &Int16Array = array.as_primitive();
                let is_member = |number: i16| numbers.contains(&i64::from(number));
                array.iter().map(|number| verdict(is_member(number?))).collect()
            }
            Kind::Int32 => {
                let array: &Int32Array = array.as_primitive();
                let is_member = |number: i32| numbers.contains(&i64::from(number));
                array.iter().map(|number| verdict(is_member(number?))).collect()
            }
            _ => {
                let array: &Int64Array = array.as_primitive();
                array.iter().map(|number| verdict(numbers.contains(&number?))).collect()
            }
        },
    })
}

/// Each result is computed for the rows that its condition is the first to be true of.
fn case(branches: &[(Node, Node)], otherwise: &Node, column: Column, batch: &RecordBatch) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    let mut open = BooleanArray::from(vec![true; rows]);
    let mut results: Vec<ArrayRef> = Vec::with_capacity(branches.len() + 1);
    let mut places = vec![(branches.len(), 0); rows];
    for (number, (condition, result)) in branches.iter().enumerate() {
        let holds = condition.array_where(batch, &open)?;
        let holds = holds.as_boolean();
        let chosen: BooleanArray = (0..rows)
            .map(|row| Some(open.value(row) && holds.is_valid(row) && holds.value(row)))
            .collect();
        for (row, place) in places.iter_mut().enumerate() {
            if chosen.value(row) {
                *place = (number, row);
            } else if place.0 == branches.len() {
                place.1 = row;
            }
        }
        results.push(result.array_where(batch, &chosen)?);
        open = boolean::and(&open, &boolean::not(&chosen)?)?;
    }
    if branches.is_empty() {
        places.iter_mut().enumerate().for_each(|(row, place)| place.1 = row);
    }
    results.push(otherwise.array_where(batch, &open)?);
    if let Kind::Decimal(scale) = column.kind {
        for result in &mut results {
            let decimals: &Decimal128Array = result.as_primitive();
            *result = Arc::new(decimals.clone().with_precision_and_scale(DECIMAL_DIGITS, scale as i8)?);
        }
    }
    let results: Vec<&dyn Array> = results.iter().map(|result| &**result).collect();
    Ok(interleave(&results, &places)?)
}

fn by_rows(
    expr: &Expr,
    inputs: &[(usize, Column)],
    around: &Surroundings,
    column: Column,
    batch: &RecordBatch,
) -> Result<ArrayRef> {
    let views = inputs
        .iter()
        .map(|(place, column)| View::new(batch.column(*place), *column))
        .collect::<rubato_base::Result<Vec<_>>>()
        .map_err(carried)?;
    let lists = ListSets::default();
    let context = EvalContext {
        parameters: &[],
        text: &around.text,
        statement_time_us: around.statement_time_us,
        environment: &NoEnvironment,
        sizes: None,
        lists: Some(&lists),
        answers: &[],
        outer: &[],
        subqueries: None,
    };
    let mut builder = Builder::new(column.kind, batch.num_rows());
    let mut tuple: Vec<Value> = Vec::with_capacity(inputs.len());
    for row in 0..batch.num_rows() {
        tuple.clear();
        for view in &views {
            tuple.push(view.value(row).map_err(carried)?);
        }
        let value = expr.evaluate(&tuple, &context).map_err(carried)?;
        builder.push(&value)?;
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::trimmed;

    #[test]
    fn blanks_at_the_end_go_and_no_others() {
        for text in ["", "a", "a b", " a", "ä", "a        b", "       ", "é\t", "\u{2003}"] {
            for blanks in 0..30 {
                let padded = format!("{text}{}", " ".repeat(blanks));
                assert_eq!(trimmed(&padded), text.trim_end_matches(' '));
            }
        }
    }
}
