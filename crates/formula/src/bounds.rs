//! How large a column may be and how large it may become: the arithmetic of escrow (protocol section 5).

use crate::expr::{Comparison, Expr};
use rubato_base::{ColumnType, DataType, Numeric, Value};
use std::cmp::Ordering;

/// The least and the greatest value that a column may hold; `None` where there is no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The least value allowed.
    pub low: Option<Value>,
    /// The greatest value allowed.
    pub high: Option<Value>,
}

impl Bounds {
    /// Whether nothing is limited.
    pub fn is_unbounded(&self) -> bool {
        self.low.is_none() && self.high.is_none()
    }

    /// The values that both allow.
    #[must_use]
    pub fn intersect(self, other: Bounds) -> Bounds {
        let tighter = |a: Option<Value>, b: Option<Value>, wanted: Ordering| match (a, b) {
            (Some(a), Some(b)) => Some(if a.compare(&b) == Some(wanted) { a } else { b }),
            (a, b) => a.or(b),
        };
        Bounds {
            low: tighter(self.low, other.low, Ordering::Greater),
            high: tighter(self.high, other.high, Ordering::Less),
        }
    }
}

/// The least and greatest value of a number type: integers and `numeric(p, s)`; no limits for any other type.
pub fn type_bounds(column_type: ColumnType) -> Bounds {
    let between = |low: Value, high: Value| Bounds {
        low: Some(low),
        high: Some(high),
    };
    match column_type.data_type {
        DataType::Int2 => between(Value::Int2(i16::MIN), Value::Int2(i16::MAX)),
        DataType::Int4 => between(Value::Int4(i32::MIN), Value::Int4(i32::MAX)),
        DataType::Int8 => between(Value::Int8(i64::MIN), Value::Int8(i64::MAX)),
        DataType::Numeric => match ColumnType::numeric_precision_scale(column_type.modifier) {
            Some((precision, scale)) => match greatest_numeric(precision, scale) {
                Some(greatest) => between(Value::Numeric(greatest.neg()), Value::Numeric(greatest)),
                None => Bounds::default(),
            },
            None => Bounds::default(),
        },
        _ => Bounds::default(),
    }
}

/// `precision` nines, `scale` of them after the point.
fn greatest_numeric(precision: u32, scale: i32) -> Option<Numeric> {
    Numeric::parse(&format!("{}e{}", "9".repeat(precision as usize), -scale)).ok()
}

/// The limits that a check constraint puts on a column, when it does nothing else: `x >= k`, `x < k` (integers), and such
/// comparisons joined by AND, also of other columns. `None` if the check reads the column in any other way.
pub fn check_bounds(check: &Expr, column: usize) -> Option<Bounds> {
    match check {
        Expr::And(terms) => {
            let mut bounds = Bounds::default();
            for term in terms {
                bounds = bounds.intersect(check_bounds(term, column)?);
            }
            Some(bounds)
        }
        Expr::Compare(comparison, left, right) => match (&**left, &**right) {
            (own, Expr::Literal(limit)) if is_column(own, column) => limit_of(*comparison, limit),
            (Expr::Literal(limit), own) if is_column(own, column) => limit_of(comparison.mirrored(), limit),
            _ => without(check, column),
        },
        _ => without(check, column),
    }
}

fn without(check: &Expr, column: usize) -> Option<Bounds> {
    let mut read = false;
    check.for_each_column(&mut |index| read |= index == column);
    (!read).then(Bounds::default)
}

/// The column itself, also widened to another exact number type.
fn is_column(expr: &Expr, column: usize) -> bool {
    match expr {
        Expr::Column(index) => *index == column,
        Expr::Cast { operand, from, to, .. } => {
            let widens = from.is_integer()
                && to.modifier < 0
                && (to.data_type == DataType::Numeric || (to.data_type.is_integer() && to.data_type >= *from));
            widens && is_column(operand, column)
        }
        _ => false,
    }
}

fn limit_of(comparison: Comparison, limit: &Value) -> Option<Bounds> {
    let beside = |step: i64| match limit {
        Value::Numeric(number) => Some(Value::Numeric(number.checked_add(&Numeric::from_i64(step)).ok()?)),
        _ => Some(Value::Int8(limit.as_i64()?.checked_add(step)?)),
    };
    let exact = matches!(limit, Value::Int2(_) | Value::Int4(_) | Value::Int8(_))
        || matches!(limit, Value::Numeric(number) if number.is_finite());
    if !exact {
        return None;
    }
    Some(match comparison {
        Comparison::GreaterOrEqual => Bounds {
            low: Some(limit.clone()),
            high: None,
        },
        Comparison::LessOrEqual => Bounds {
            low: None,
            high: Some(limit.clone()),
        },
        // A strict limit is the next value only where values are whole numbers, which the limit alone does not tell: a numeric
        // column may lie between. One whole step is inside the limit for both.
        Comparison::Greater => Bounds {
            low: Some(beside(1)?),
            high: None,
        },
        Comparison::Less => Bounds {
            low: None,
            high: Some(beside(-1)?),
        },
        Comparison::Equal | Comparison::NotEqual => return None,
    })
}

/// An exact number: whole numbers stay machine numbers.
#[derive(Clone, Debug)]
enum Amount {
    Whole(i128),
    Decimal(Numeric),
}

impl Amount {
    fn of(value: &Value) -> Option<Amount> {
        match value {
            Value::Numeric(number) if number.is_finite() => Some(Amount::Decimal(number.clone())),
            Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => value.as_i64().map(|v| Amount::Whole(v.into())),
            _ => None,
        }
    }

    fn to_numeric(&self) -> Numeric {
        match self {
            Amount::Whole(whole) => Numeric::from_i128(*whole),
            Amount::Decimal(number) => number.clone(),
        }
    }

    fn plus(&self, other: &Amount) -> Option<Amount> {
        match (self, other) {
            (Amount::Whole(a), Amount::Whole(b)) => a.checked_add(*b).map(Amount::Whole),
            _ => self
                .to_numeric()
                .checked_add(&other.to_numeric())
                .ok()
                .map(Amount::Decimal),
        }
    }

    fn minus(&self, other: &Amount) -> Option<Amount> {
        match (self, other) {
            (Amount::Whole(a), Amount::Whole(b)) => a.checked_sub(*b).map(Amount::Whole),
            _ => self
                .to_numeric()
                .checked_sub(&other.to_numeric())
                .ok()
                .map(Amount::Decimal),
        }
    }

    fn compare(&self, other: &Amount) -> Ordering {
        match (self, other) {
            (Amount::Whole(a), Amount::Whole(b)) => a.cmp(b),
            (Amount::Decimal(a), Amount::Decimal(b)) => a.cmp(b),
            _ => self.to_numeric().cmp(&other.to_numeric()),
        }
    }

    fn is_negative(&self) -> bool {
        match self {
            Amount::Whole(whole) => *whole < 0,
            Amount::Decimal(number) => number.signum() < 0,
        }
    }
}

/// Every value that a column may come to have while additions and assignments are pending, each of which may still commit or
/// abort: from `low` to `high`.
///
/// Methods that return `bool` leave the range as it was and say `false` when a value is NULL, not finite or not an exact number:
/// the caller then cannot prove anything and reads.
#[derive(Clone, Debug)]
pub struct Range {
    low: Amount,
    high: Amount,
}

impl Range {
    /// The range of one certain value; `None` for NULL, NaN, infinities and what is not an exact number.
    pub fn of(value: &Value) -> Option<Range> {
        let amount = Amount::of(value)?;
        Some(Range {
            low: amount.clone(),
            high: amount,
        })
    }

    /// The least value possible.
    pub fn low(&self) -> Value {
        Value::Numeric(self.low.to_numeric())
    }

    /// The greatest value possible.
    pub fn high(&self) -> Value {
        Value::Numeric(self.high.to_numeric())
    }

    /// A pending addition: it may or may not happen.
    pub fn add_delta(&mut self, delta: &Value) -> bool {
        self.change_end(delta, Amount::plus, true)
    }

    /// A pending addition will not happen: undoes [`Range::add_delta`], where no assignment was included since.
    pub fn withdraw_delta(&mut self, delta: &Value) -> bool {
        self.change_end(delta, Amount::minus, true)
    }

    /// A pending addition is now certain: the other end moves too.
    pub fn settle_delta(&mut self, delta: &Value) -> bool {
        self.change_end(delta, Amount::plus, false)
    }

    /// Moves the end that a delta widens, or the other one.
    fn change_end(&mut self, delta: &Value, change: fn(&Amount, &Amount) -> Option<Amount>, widens: bool) -> bool {
        let Some(delta) = Amount::of(delta) else { return false };
        let end = if delta.is_negative() == widens {
            &mut self.low
        } else {
            &mut self.high
        };
        match change(end, &delta) {
            Some(moved) => {
                *end = moved;
                true
            }
            None => false,
        }
    }

    /// A pending assignment: the column may come to have this value instead.
    pub fn include_set(&mut self, value: &Value) -> bool {
        let Some(amount) = Amount::of(value) else { return false };
        if amount.compare(&self.low) == Ordering::Less {
            self.low = amount;
        } else if amount.compare(&self.high) == Ordering::Greater {
            self.high = amount;
        }
        true
    }

    /// Whether every possible value is allowed. A bound that is not an exact number allows nothing.
    pub fn within(&self, bounds: &Bounds) -> bool {
        let keeps = |bound: &Option<Value>, end: &Amount, forbidden: Ordering| match bound {
            None => true,
            Some(bound) => Amount::of(bound).is_some_and(|bound| end.compare(&bound) != forbidden),
        };
        keeps(&bounds.low, &self.low, Ordering::Less) && keeps(&bounds.high, &self.high, Ordering::Greater)
    }
}
