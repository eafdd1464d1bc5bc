//! Conditions that are looked at in the bytes of a row, before anything is made of it.

use crate::kinds::{Column, Kind, small_decimal};
use rubato_base::codec::decode_value;
use rubato_base::{DataType, Result, RowRef, Value};
use rubato_formula::{Comparison, Expr};
use std::cmp::Ordering;

/// Comparisons of a leaf's columns with constants and with each other, all of which must hold. None of them can fail.
#[derive(Debug, Default)]
pub(crate) struct Sieve {
    tests: Vec<Test>,
}

#[derive(Debug)]
struct Test {
    /// The column's place among those of the leaf.
    column: usize,
    /// The form that its bytes are compared in.
    form: Form,
    comparison: Comparison,
    bound: Bound,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// Four or eight bytes of a whole number.
    Whole,
    /// A number of this scale.
    Decimal(u8),
    /// Anything else.
    Value,
}

#[derive(Debug)]
enum Bound {
    /// Another column of the leaf.
    Column(usize),
    /// A constant, and as a number in the column's form where it has one.
    Constant(Value, Option<i128>),
}

impl Sieve {
    /// Takes the terms over a leaf's columns that it can look at; the others are left.
    pub(crate) fn take(terms: &[Expr], columns: &[Column]) -> (Sieve, Vec<Expr>) {
        let mut sieve = Sieve::default();
        let mut rest = Vec::new();
        for term in terms {
            match test(term, columns) {
                Some(test) => sieve.tests.push(test),
                None => rest.push(term.clone()),
            }
        }
        (sieve, rest)
    }

    /// Whether a row as it is kept passes; `places` are the places of the leaf's columns in it.
    pub(crate) fn passes(&self, row: RowRef<'_>, places: &[usize]) -> Result<bool> {
        let encoded = |column: usize| places.get(column).map_or(&[][..], |place| row.encoded(*place));
        for test in &self.tests {
            let own = encoded(test.column);
            let holds = match &test.bound {
                Bound::Column(other) => test.columns_hold(own, encoded(*other))?,
                Bound::Constant(value, number) => test.constant_holds(own, value, *number)?,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a row of values passes.
    pub(crate) fn passes_values(&self, row: &[Value]) -> bool {
        self.tests.iter().all(|test| {
            let own = row.get(test.column).unwrap_or(&Value::Null);
            match &test.bound {
                Bound::Column(other) => test.holds(own, row.get(*other).unwrap_or(&Value::Null)),
                Bound::Constant(value, _) => test.holds(own, value),
            }
        })
    }
}

impl Test {
    fn columns_hold(&self, own: &[u8], other: &[u8]) -> Result<bool> {
        match (self.number(own), self.number(other)) {
            (Some(own), Some(other)) => Ok(self.comparison.holds(own.cmp(&other))),
            _ => Ok(self.holds(&value_of(own)?, &value_of(other)?)),
        }
    }

    fn constant_holds(&self, own: &[u8], value: &Value, number: Option<i128>) -> Result<bool> {
        match (self.number(own), number) {
            (Some(own), Some(bound)) => Ok(self.comparison.holds(own.cmp(&bound))),
            _ => Ok(self.holds(&value_of(own)?, value)),
        }
    }

    /// NULL is not true.
    fn holds(&self, own: &Value, other: &Value) -> bool {
        let order: Option<Ordering> = own.compare(other);
        order.is_some_and(|order| self.comparison.holds(order))
    }

    fn number(&self, bytes: &[u8]) -> Option<i128> {
        let (_, payload) = bytes.split_first()?;
        match self.form {
            Form::Whole => match payload.len() {
                4 => payload
                    .try_into()
                    .ok()
                    .map(|bytes| i128::from(i32::from_le_bytes(bytes))),
                8 => payload
                    .try_into()
                    .ok()
                    .map(|bytes| i128::from(i64::from_le_bytes(bytes))),
                _ => None,
            },
            Form::Decimal(scale) => small_decimal(payload, scale),
            Form::Value => None,
        }
    }
}

fn value_of(bytes: &[u8]) -> Result<Value> {
    match bytes {
        [] => Ok(Value::Null),
        bytes => decode_value(bytes),
    }
}

fn test(term: &Expr, columns: &[Column]) -> Option<Test> {
    let Expr::Compare(comparison, left, right) = term else {
        return None;
    };
    let (comparison, column, other) = match (&**left, &**right) {
        (Expr::Column(column), other) => (*comparison, *column, other),
        (other, Expr::Column(column)) => (comparison.mirrored(), *column, other),
        _ => return None,
    };
    let own = columns.get(column)?;
    let form = match own.kind {
        Kind::Int32 | Kind::Int64 => Form::Whole,
        Kind::Decimal(scale) => Form::Decimal(scale),
        _ => Form::Value,
    };
    let bound = match other {
        Expr::Column(other) => {
            let is_alike = columns.get(*other)? == own && comparable(own.data_type, own.data_type);
            is_alike.then_some(Bound::Column(*other))?
        }
        Expr::Literal(value) if comparable(own.data_type, value.data_type()) => {
            Bound::Constant(value.clone(), number_of(value, form))
        }
        _ => return None,
    };
    Some(Test {
        column,
        form,
        comparison,
        bound,
    })
}

/// Whether values of both types have an order between them.
fn comparable(own: DataType, other: DataType) -> bool {
    let is_exact = |data_type: DataType| {
        matches!(
            data_type,
            DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Numeric
        )
    };
    match own {
        DataType::Date | DataType::Timestamp | DataType::TimestampTz | DataType::Text | DataType::Bool => own == other,
        _ => is_exact(own) && is_exact(other),
    }
}

/// A constant as a number in a column's form.
fn number_of(value: &Value, form: Form) -> Option<i128> {
    match (form, value) {
        (Form::Whole, Value::Date(days)) => Some(i128::from(*days)),
        (Form::Whole, Value::Timestamp(us) | Value::TimestampTz(us)) => Some(i128::from(*us)),
        (Form::Whole, other) => other.as_i64().map(i128::from),
        (Form::Decimal(scale), Value::Numeric(number)) => scaled(number.to_wide_parts()?, scale),
        (Form::Decimal(scale), other) => scaled((i128::from(other.as_i64()?), 0), scale),
        (Form::Value, _) => None,
    }
}

/// The mantissa of a number written with more digits behind the point.
fn scaled((mantissa, own): (i128, u32), scale: u8) -> Option<i128> {
    let more = u32::from(scale).checked_sub(own)?;
    mantissa.checked_mul(10_i128.checked_pow(more)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::{ColumnType, Numeric, Row};

    const COMPARISONS: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];

    fn numeric(text: &str) -> Value {
        Value::Numeric(Numeric::parse(text).unwrap())
    }

    fn types() -> Vec<(ColumnType, Vec<Value>)> {
        let plain = ColumnType::plain;
        let short = ColumnType {
            data_type: DataType::Numeric,
            modifier: ((15 << 16) | 2) + 4,
        };
        let numbers = ["0.00", "1.50", "-2.25", "1000.00", "99999999999999999999.99", "NaN"];
        vec![
            (
                plain(DataType::Int4),
                vec![Value::Int4(1), Value::Int4(-7), Value::Int4(i32::MAX)],
            ),
            (plain(DataType::Int8), vec![Value::Int8(1), Value::Int8(i64::MIN)]),
            (plain(DataType::Int2), vec![Value::Int2(1), Value::Int2(-7)]),
            (plain(DataType::Date), vec![Value::Date(0), Value::Date(i32::MAX)]),
            (
                plain(DataType::Timestamp),
                vec![Value::Timestamp(5), Value::Timestamp(i64::MIN)],
            ),
            (short, numbers.map(numeric).to_vec()),
            (
                plain(DataType::Text),
                vec![Value::text("a"), Value::text(""), Value::text("ab")],
            ),
            (plain(DataType::Bool), vec![Value::Bool(true), Value::Bool(false)]),
        ]
    }

    /// What the evaluator says of each pair is what the sieve says, of the bytes and of the values.
    #[test]
    fn rows_pass_of_which_the_comparison_is_true() {
        let types = types();
        let mut looked_at = 0;
        for (own, values) in &types {
            let columns = [Column::of(*own, true), Column::of(*own, true)];
            for (_, bounds) in &types {
                for comparison in COMPARISONS {
                    for bound in bounds {
                        let literal = Box::new(Expr::Literal(bound.clone()));
                        let term = Expr::Compare(comparison, Box::new(Expr::Column(0)), literal);
                        looked_at += says_the_same(&term, &columns, values);
                    }
                }
            }
            for comparison in COMPARISONS {
                let term = Expr::Compare(comparison, Box::new(Expr::Column(1)), Box::new(Expr::Column(0)));
                looked_at += says_the_same(&term, &columns, values);
            }
        }
        assert!(looked_at > 1000, "{looked_at}");
    }

    /// How many rows were looked at.
    fn says_the_same(term: &Expr, columns: &[Column], values: &[Value]) -> usize {
        let (sieve, rest) = Sieve::take(std::slice::from_ref(term), columns);
        if !rest.is_empty() {
            return 0;
        }
        let with_null = || values.iter().chain(std::iter::once(&Value::Null));
        for first in with_null() {
            for second in with_null() {
                let row = [first.clone(), second.clone()];
                let expected = term
                    .evaluate(&row[..], &rubato_formula::EvalContext::constant())
                    .unwrap();
                let expected = expected == Value::Bool(true);
                let packed = Row::from_values(&[Value::Null, second.clone(), first.clone()]);
                assert_eq!(
                    sieve.passes(packed.as_ref(), &[2, 1]).unwrap(),
                    expected,
                    "{term:?} of {row:?}"
                );
                assert_eq!(sieve.passes_values(&row), expected, "{term:?} of {row:?}");
            }
        }
        (values.len() + 1) * (values.len() + 1)
    }
}
