//! How large a column may be and how large it may become: the arithmetic of escrow (protocol section 5).

use crate::amount::{Amount, FLOAT_LEAST, FLOAT_MAX, REAL_MAX, Towards};
use crate::change::{Change, ColumnChange};
use crate::expr::{Comparison, Expr};
use crate::step::Step;
use rubato_base::codec::{ByteReader, put_length, put_value};
use rubato_base::{ColumnType, DataType, Error, Numeric, Result, SqlState, Value};
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

/// The least and greatest value of a number type: integers, `numeric(p, s)`, and floats, whose limits are kept well inside those of
/// the type; no limits for any other type.
pub fn type_bounds(column_type: ColumnType) -> Bounds {
    let between = |low: Value, high: Value| Bounds {
        low: Some(low),
        high: Some(high),
    };
    match column_type.data_type {
        DataType::Int2 => between(Value::Int2(i16::MIN), Value::Int2(i16::MAX)),
        DataType::Int4 => between(Value::Int4(i32::MIN), Value::Int4(i32::MAX)),
        DataType::Int8 => between(Value::Int8(i64::MIN), Value::Int8(i64::MAX)),
        DataType::Float8 => between(Value::Float8(-FLOAT_MAX), Value::Float8(FLOAT_MAX)),
        DataType::Float4 => between(Value::Float4(-REAL_MAX), Value::Float4(REAL_MAX)),
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

/// XX001
fn no_limits() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "damaged data: no limits of columns")
}

/// Keeps nothing within: its limit is no number.
static UNKNOWN: Bounds = Bounds {
    low: Some(Value::Null),
    high: None,
};

impl RowBounds {
    /// Appends them to `out`, for messages between nodes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let columns = match self {
            RowBounds::None => return out.push(0),
            RowBounds::Unknown => return out.push(1),
            RowBounds::Columns(columns) => columns,
        };
        out.push(2);
        put_length(out, columns.len());
        for bound in columns.iter().flat_map(|own| [&own.low, &own.high]) {
            out.push(u8::from(bound.is_some()));
            bound.iter().for_each(|value| put_value(out, value));
        }
    }

    /// Reads what [`RowBounds::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<RowBounds> {
        match reader.u8()? {
            0 => return Ok(RowBounds::None),
            1 => return Ok(RowBounds::Unknown),
            2 => {}
            _ => {
                return Err(Error::new(
                    SqlState::DATA_CORRUPTED,
                    "damaged data: no limits of columns",
                ));
            }
        }
        let bound = |reader: &mut ByteReader<'_>| match reader.u8()? {
            0 => Ok(None),
            _ => reader.value().map(Some),
        };
        let count = reader.length()?;
        // Each column takes two bytes at least: no room is made for what is not there.
        if count > reader.rest().len() / 2 {
            return Err(no_limits());
        }
        let columns = (0..count).map(|_| {
            let (low, high) = (bound(reader)?, bound(reader)?);
            Ok(Bounds { low, high })
        });
        Ok(RowBounds::Columns(columns.collect::<Result<_>>()?))
    }

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

/// The column itself, also widened to another exact number type, or from `real` to `double precision`.
fn is_column(expr: &Expr, column: usize) -> bool {
    match expr {
        Expr::Column(index) => *index == column,
        Expr::Cast { operand, from, to, .. } => {
            let exact = from.is_integer() || *from == DataType::Numeric;
            let widens = exact
                && to.modifier < 0
                && (to.data_type == DataType::Numeric || (to.data_type.is_integer() && to.data_type >= *from));
            let doubles = *from == DataType::Float4 && to.data_type == DataType::Float8;
            (widens || doubles) && is_column(operand, column)
        }
        _ => false,
    }
}

fn limit_of(comparison: Comparison, limit: &Value, column_type: ColumnType) -> Option<Bounds> {
    let is_float = matches!(column_type.data_type, DataType::Float4 | DataType::Float8);
    if is_float {
        // A comparison with a float is one of floats.
        let limit = match limit {
            Value::Float8(limit) => *limit,
            Value::Float4(limit) => f64::from(*limit),
            Value::Numeric(limit) => limit.to_f64(),
            whole => whole.as_i64()? as f64,
        };
        return float_limit(comparison, limit);
    }
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

/// A strict limit is the next float, or at zero the next one that is reckoned with.
fn float_limit(comparison: Comparison, limit: f64) -> Option<Bounds> {
    let low = |low: f64| Bounds {
        low: Some(Value::Float8(low)),
        high: None,
    };
    let high = |high: f64| Bounds {
        low: None,
        high: Some(Value::Float8(high)),
    };
    let within = limit == 0.0 || (FLOAT_LEAST..=FLOAT_MAX).contains(&limit.abs());
    within.then_some(match comparison {
        Comparison::GreaterOrEqual => low(limit),
        Comparison::LessOrEqual => high(limit),
        Comparison::Greater if limit == 0.0 => low(FLOAT_LEAST),
        Comparison::Less if limit == 0.0 => high(-FLOAT_LEAST),
        Comparison::Greater => low(limit.next_up()),
        Comparison::Less => high(limit.next_down()),
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

/// What is left of a number at least, of all that pending products take from it: floats stay far from underflow.
const SHRUNK_LEAST: f64 = 1e-9;

/// Every value that a column may come to have while additions, assignments and other steps are pending, each of which may still
/// commit or abort, in any order.
///
/// Whatever happens, the value is that of the row or of one of the assignments, and some of the additions on top: it lies between
/// the least of the former with all that is taken away, and the greatest with all that is added. Where there are products, each
/// of these parts may have been multiplied by some of them. NULL stays NULL unless it is assigned to.
///
/// Methods that return `bool` leave the range as it was and say `false` when a value is not finite or no number that can be
/// reckoned with: the caller then cannot prove anything and reads.
#[derive(Clone, Debug)]
pub struct Range {
    /// The least and the greatest of the values that all begins with; `None` while there is only NULL.
    from: Option<(Amount, Amount)>,
    taken: Amount,
    added: Amount,
    /// The product of all factors above one, and of all below one.
    grown: f64,
    shrunk: f64,
    /// Whether the sign may change.
    mirrored: bool,
}

impl Step {
    /// Whether every value that may take the place of the column's is allowed.
    pub(crate) fn sets_within(&self, bounds: &Bounds) -> bool {
        let range = Range {
            from: self.sets.clone(),
            ..Range::NULL
        };
        range.within(bounds)
    }
}

impl Range {
    const NULL: Range = Range {
        from: None,
        taken: Amount::ZERO,
        added: Amount::ZERO,
        grown: 1.0,
        shrunk: 1.0,
        mirrored: false,
    };

    /// The range of one certain value; `None` for NaN, infinities and what is no number.
    pub fn of(value: &Value) -> Option<Range> {
        let from = match value {
            Value::Null => None,
            value => {
                let amount = Amount::of(value)?;
                Some((amount.clone(), amount))
            }
        };
        Some(Range { from, ..Range::NULL })
    }

    /// A pending addition: it may or may not happen.
    pub fn add_delta(&mut self, delta: &Value) -> bool {
        let Some(delta) = Amount::of(delta) else { return false };
        let (sum, towards) = if delta.is_negative() {
            (&mut self.taken, Towards::Low)
        } else {
            (&mut self.added, Towards::High)
        };
        let Some(more) = sum.plus(&delta, towards) else {
            return false;
        };
        *sum = more;
        true
    }

    /// A pending assignment: the column may come to have this value instead, before or behind the additions.
    pub fn include_set(&mut self, value: &Value) -> bool {
        if value.is_null() {
            return true;
        }
        let Some(amount) = Amount::of(value) else { return false };
        self.include(amount.clone(), amount);
        true
    }

    /// Any pending change of the column.
    pub fn add_change(&mut self, change: &Change) -> bool {
        match &change.change {
            ColumnChange::Set(value) => self.include_set(value),
            ColumnChange::Add(delta) => self.add_delta(delta),
            ColumnChange::Evaluate(_) => change.step().is_some_and(|step| self.add_step(step)),
        }
    }

    /// A pending expression over the column itself.
    fn add_step(&mut self, step: &Step) -> bool {
        let taken = self.taken.plus(&step.taken, Towards::Low);
        let added = self.added.plus(&step.added, Towards::High);
        let (Some(taken), Some(added)) = (taken, added) else {
            return false;
        };
        (self.taken, self.added) = (taken, added);
        if let Some((least, greatest)) = step.sets.clone() {
            self.include(least, greatest);
        }
        if step.grown != 1.0 {
            self.grown = (self.grown * step.grown).next_up();
        }
        if step.shrunk != 1.0 {
            self.shrunk = (self.shrunk * step.shrunk).next_down();
        }
        self.mirrored |= step.mirrored;
        true
    }

    fn include(&mut self, least: Amount, greatest: Amount) {
        self.from = Some(match self.from.take() {
            Some((low, high)) => (low.least(least), high.greatest(greatest)),
            None => (least, greatest),
        });
    }

    /// Whether every possible value is allowed. A bound that is no number allows nothing.
    pub fn within(&self, bounds: &Bounds) -> bool {
        let bound_of = |bound: &Option<Value>| match bound {
            None => Some(None),
            Some(bound) => Amount::of(bound).map(Some),
        };
        let (Some(low), Some(high)) = (bound_of(&bounds.low), bound_of(&bounds.high)) else {
            return false;
        };
        let Some(from) = &self.from else { return true };
        let (least, greatest) = self.ends(from);
        let keeps = |bound: Option<Amount>, end: Option<Amount>, inside: Towards| {
            bound.is_none_or(|bound| end.is_some_and(|end| end.keeps(&bound, inside)))
        };
        keeps(low, least, Towards::High) && keeps(high, greatest, Towards::Low)
    }

    /// The least and the greatest possible value; `None` where nobody can tell.
    fn ends(&self, (least, greatest): &(Amount, Amount)) -> (Option<Amount>, Option<Amount>) {
        if self.grown == 1.0 && self.shrunk == 1.0 && !self.mirrored {
            return (
                least.plus(&self.taken, Towards::Low),
                greatest.plus(&self.added, Towards::High),
            );
        }
        if self.shrunk < SHRUNK_LEAST {
            return (None, None);
        }
        let (low, high) = (Towards::Low, Towards::High);
        let (least, greatest) = (least.to_float(low), greatest.to_float(high));
        let (taken, added) = (self.taken.to_float(low), self.added.to_float(high));
        let sum = |a: f64, b: f64, towards: Towards| {
            let sum = towards.beyond(towards.beyond(a) + towards.beyond(b));
            sum.is_finite().then_some(Amount::Float(sum))
        };
        if self.mirrored {
            let moved = (added - taken).next_up() * self.grown;
            let size = sum(least.abs().max(greatest.abs()) * self.grown, moved, high);
            return (size.as_ref().map(Amount::negated), size);
        }
        // What is below zero goes down as it grows, what is above as it shrinks.
        let lowest = least * if least < 0.0 { self.grown } else { self.shrunk };
        let highest = greatest * if greatest > 0.0 { self.grown } else { self.shrunk };
        (
            sum(lowest, taken * self.grown, low),
            sum(highest, added * self.grown, high),
        )
    }
}
