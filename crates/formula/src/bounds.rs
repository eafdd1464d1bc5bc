//! How large a column may be and how large it may become: the arithmetic of escrow (protocol section 5).

use crate::expr::{Comparison, Expr};
use rubato_base::{ColumnType, DataType, Numeric, Value};
use std::cmp::Ordering;
use std::sync::Arc;

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

/// The limits of every column of a table's rows: what escrow holds pending additions against. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RowBounds {
    /// No column has limits.
    #[default]
    None,
    /// Those of the columns in their order.
    Columns(Arc<[Bounds]>),
    /// There may be limits that nobody knows any more: no value is within them for certain.
    Unknown,
}

/// Keeps nothing within: its limit is no number.
static UNKNOWN: Bounds = Bounds {
    low: Some(Value::Null),
    high: None,
};

impl RowBounds {
    /// The limits of the columns in their order.
    pub fn new(columns: Vec<Bounds>) -> RowBounds {
        let limited = columns.iter().any(|bounds| !bounds.is_unbounded());
        match limited {
            true => RowBounds::Columns(columns.into()),
            false => RowBounds::None,
        }
    }

    /// The limits of one column, if it has any.
    pub fn of(&self, column: usize) -> Option<&Bounds> {
        match self {
            RowBounds::None => None,
            RowBounds::Columns(columns) => columns.get(column).filter(|bounds| !bounds.is_unbounded()),
            RowBounds::Unknown => Some(&UNKNOWN),
        }
    }

    /// Whether no column has limits.
    pub fn is_unbounded(&self) -> bool {
        matches!(self, RowBounds::None)
    }
}

/// The limits that a check constraint puts on a column, when it does nothing else: `x >= k`, `x < k`, `NOT x < k`, `x >= k OR x IS
/// NULL`, and such conditions joined by AND, also with conditions on other columns. `None` if the check reads the column in any
/// other way. A strict limit may come out narrower than it is written, never wider.
pub fn check_bounds(check: &Expr, column: usize, column_type: ColumnType) -> Option<Bounds> {
    match check {
        Expr::And(terms) => {
            let mut bounds = Bounds::default();
            for term in terms {
                bounds = bounds.intersect(check_bounds(term, column, column_type)?);
            }
            Some(bounds)
        }
        // A check is kept where it is NULL, so that the second branch says nothing that the first does not.
        Expr::Or(terms) => match terms.as_slice() {
            [bound, Expr::IsNull(tested)] | [Expr::IsNull(tested), bound]
                if is_column(tested, column) && matches!(bound, Expr::Compare(..)) =>
            {
                let bounds = check_bounds(bound, column, column_type)?;
                // A condition on another column would be one on this column's being NULL.
                (!bounds.is_unbounded()).then_some(bounds)
            }
            _ => without(check, column),
        },
        Expr::Not(inner) => match &**inner {
            Expr::Compare(comparison, left, right) => {
                let negated = Expr::Compare(comparison.negated(), left.clone(), right.clone());
                check_bounds(&negated, column, column_type)
            }
            _ => without(check, column),
        },
        Expr::Compare(comparison, left, right) => match (&**left, &**right) {
            (own, Expr::Literal(limit)) if is_column(own, column) => limit_of(*comparison, limit, column_type),
            (Expr::Literal(limit), own) if is_column(own, column) => {
                limit_of(comparison.mirrored(), limit, column_type)
            }
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
            let exact = from.is_integer() || *from == DataType::Numeric;
            let widens = exact
                && to.modifier < 0
                && (to.data_type == DataType::Numeric || (to.data_type.is_integer() && to.data_type >= *from));
            widens && is_column(operand, column)
        }
        _ => false,
    }
}

fn limit_of(comparison: Comparison, limit: &Value, column_type: ColumnType) -> Option<Bounds> {
    let limit = match limit {
        Value::Numeric(number) if number.is_finite() => number.clone(),
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => Numeric::from_i64(limit.as_i64()?),
        _ => return None,
    };
    let low = |low: Numeric| Bounds {
        low: Some(Value::Numeric(low)),
        high: None,
    };
    let high = |high: Numeric| Bounds {
        low: None,
        high: Some(Value::Numeric(high)),
    };
    Some(match comparison {
        Comparison::GreaterOrEqual => low(limit),
        Comparison::LessOrEqual => high(limit),
        Comparison::Greater => low(limit.checked_add(&step_of(column_type)).ok()?),
        Comparison::Less => high(limit.checked_sub(&step_of(column_type)).ok()?),
        Comparison::Equal | Comparison::NotEqual => return None,
    })
}

/// How far apart two values of the column are at least. A numeric column without a scale has no such distance: one whole step is
/// then well inside a strict limit.
fn step_of(column_type: ColumnType) -> Numeric {
    let scale = match column_type.data_type {
        DataType::Numeric => ColumnType::numeric_precision_scale(column_type.modifier).map_or(0, |(_, scale)| scale),
        _ => 0,
    };
    Numeric::parse(&format!("1e{}", -scale)).unwrap_or_else(|_| Numeric::from_i64(1))
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
/// abort, in any order.
///
/// Whatever happens, the value is that of the row or of one of the assignments, and some of the additions on top: it lies between
/// the least of the former with all that is taken away, and the greatest with all that is added.
///
/// Methods that return `bool` leave the range as it was and say `false` when a value is NULL, not finite or not an exact number:
/// the caller then cannot prove anything and reads.
#[derive(Clone, Debug)]
pub struct Range {
    least: Amount,
    greatest: Amount,
    taken: Amount,
    added: Amount,
}

impl Range {
    /// The range of one certain value; `None` for NULL, NaN, infinities and what is not an exact number.
    pub fn of(value: &Value) -> Option<Range> {
        let amount = Amount::of(value)?;
        Some(Range {
            least: amount.clone(),
            greatest: amount,
            taken: Amount::Whole(0),
            added: Amount::Whole(0),
        })
    }

    /// A pending addition: it may or may not happen.
    pub fn add_delta(&mut self, delta: &Value) -> bool {
        let Some(delta) = Amount::of(delta) else { return false };
        let sum = if delta.is_negative() {
            &mut self.taken
        } else {
            &mut self.added
        };
        let Some(more) = sum.plus(&delta) else { return false };
        *sum = more;
        true
    }

    /// A pending assignment: the column may come to have this value instead, before or behind the additions.
    pub fn include_set(&mut self, value: &Value) -> bool {
        let Some(amount) = Amount::of(value) else { return false };
        if amount.compare(&self.least) == Ordering::Less {
            self.least = amount;
        } else if amount.compare(&self.greatest) == Ordering::Greater {
            self.greatest = amount;
        }
        true
    }

    /// Whether every possible value is allowed. A bound that is not an exact number allows nothing.
    pub fn within(&self, bounds: &Bounds) -> bool {
        let keeps = |bound: &Option<Value>, end: Option<Amount>, forbidden: Ordering| match bound {
            None => true,
            Some(bound) => end
                .zip(Amount::of(bound))
                .is_some_and(|(end, bound)| end.compare(&bound) != forbidden),
        };
        keeps(&bounds.low, self.least.plus(&self.taken), Ordering::Less)
            && keeps(&bounds.high, self.greatest.plus(&self.added), Ordering::Greater)
    }
}
