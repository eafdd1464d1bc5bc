//! What an assignment of an UPDATE is, seen at plan time: a constant, an addition to the column itself, or something else.

use crate::bounds::{Bounds, Range};
use crate::cast::cast_value;
use crate::change::{Change, ColumnChange, Computation};
use crate::context::EvalContext;
use crate::expr::Expr;
use crate::failure::failure_reason;
use crate::functions::Volatility;
use crate::step::Step;
use rubato_base::{ColumnType, DataType, Numeric, Result, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// The shape of one assignment `column = expr`.
#[derive(Clone, Debug, PartialEq)]
pub enum AssignmentShape {
    /// The expression reads no column: it is evaluated once and set.
    Set,
    /// `column + k`, `k + column` or `column - k`, where `k` reads no column.
    Add(Addend),
    /// Computed from the column itself and constants, in a way that leads so far from its value at most that escrow can keep it from
    /// failing: `column + 10.5::float8`, `column * 2`, `coalesce(column, 0) + 1`, `CASE` over such. Whether these constants are such as
    /// can be reckoned with is seen when the statement runs.
    Bounded {
        /// Whether there is anything that fails outside the limits of the column.
        can_fail: bool,
    },
    /// Anything else. The reason says why it may fail after the statement, if it may: then it is not blind.
    Evaluate {
        /// Why evaluation over some row may raise an error; `None` if it provably cannot.
        can_fail: Option<String>,
    },
}

/// What an assignment adds to its column.
#[derive(Clone, Debug, PartialEq)]
pub struct Addend {
    /// The amount: reads no column; a whole number or a numeric.
    pub amount: Expr,
    /// Whether it is subtracted.
    pub negated: bool,
}

/// The shape of `column = expr`, where `expr` is the whole right-hand side with its cast to the column's type. `not_null` tells
/// which columns of the row are NOT NULL.
pub fn analyse_assignment(
    column: u16,
    column_type: ColumnType,
    not_null: &dyn Fn(usize) -> bool,
    expr: &Expr,
) -> AssignmentShape {
    if expr.is_constant() {
        return AssignmentShape::Set;
    }
    if let Some(addend) = find_addend(usize::from(column), column_type, expr) {
        return AssignmentShape::Add(addend);
    }
    let step = Step::of(usize::from(column), column_type, true, expr);
    if let Some(step) = step.filter(|step| !step.may_be_null || !not_null(usize::from(column))) {
        return AssignmentShape::Bounded {
            can_fail: step.can_fail,
        };
    }
    AssignmentShape::Evaluate {
        can_fail: failure_reason(usize::from(column), column_type, not_null, true, expr),
    }
}

fn find_addend(column: usize, column_type: ColumnType, expr: &Expr) -> Option<Addend> {
    let is_exact = |data_type: DataType| data_type.is_integer() || data_type == DataType::Numeric;
    if !is_exact(column_type.data_type) {
        return None;
    }
    let sum = match expr {
        Expr::Cast { operand, from, to, .. } if *to == column_type && is_exact(*from) => operand,
        other => other,
    };
    let Expr::Call { function, arguments } = sum else {
        return None;
    };
    let [left, right] = arguments.as_slice() else {
        return None;
    };
    let result = function.entry().result;
    let exact_result = matches!(result, crate::ArgumentType::Exact(data_type) if is_exact(data_type));
    if !exact_result {
        return None;
    }
    let is_own = |operand: &Expr| is_column_widened(operand, column);
    let addend = |amount: &Expr, negated| {
        Some(Addend {
            amount: amount.clone(),
            negated,
        })
    };
    match function.name() {
        "+" if is_own(left) && right.is_constant() => addend(right, false),
        "+" if is_own(right) && left.is_constant() => addend(left, false),
        "-" if is_own(left) && right.is_constant() => addend(right, true),
        _ => None,
    }
}

/// The column itself, also through casts that change nothing in its value: to a wider integer, or to numeric without a modifier.
fn is_column_widened(expr: &Expr, column: usize) -> bool {
    match expr {
        Expr::Column(index) => *index == column,
        Expr::Cast { operand, from, to, .. } => {
            let widens = to.modifier < 0
                && match to.data_type {
                    DataType::Numeric => from.is_integer() || *from == DataType::Numeric,
                    wider => wider.is_integer() && from.is_integer() && wider >= *from,
                };
            widens && is_column_widened(operand, column)
        }
        _ => false,
    }
}

impl AssignmentShape {
    /// The change that one execution of `column = expr` makes; `expr` and `column_type` are those that were analysed.
    ///
    /// `None` means that no formula can say it (the expression stays volatile or dependent on the session): the statement must then
    /// read the row and set the result. NOT NULL is the caller's to check on a `Set`. An amount that does not prove to be a plain
    /// addition (it is too large for the column, or rounding the sum depends on the sum's sign) gives an `Evaluate`; an `Add` of
    /// NULL is a `Set` to NULL.
    pub fn change(
        &self,
        column_type: ColumnType,
        expr: &Expr,
        context: &EvalContext<'_>,
    ) -> Result<Option<ColumnChange>> {
        match self {
            AssignmentShape::Set => {
                let value = expr.evaluate(&(), context)?;
                let value = cast_value(value, column_type.data_type, column_type, false, context.text)?;
                return Ok(Some(ColumnChange::Set(value)));
            }
            AssignmentShape::Add(addend) => {
                let amount = addend.amount.evaluate(&(), context)?;
                if amount.is_null() {
                    return Ok(Some(ColumnChange::Set(Value::Null)));
                }
                if let Some(delta) = exact_delta(&amount, addend.negated, column_type) {
                    return Ok(Some(ColumnChange::Add(delta)));
                }
            }
            AssignmentShape::Bounded { .. } | AssignmentShape::Evaluate { .. } => {}
        }
        let mut bound = expr.clone();
        let is_of_row = bind_constants(&mut bound, context)?;
        Ok(is_of_row.then(|| ColumnChange::Evaluate(Arc::new(Computation::of_row(bound)))))
    }
}

impl Change {
    /// Whether the change, with the values that its execution has given it, cannot fail over any row in which its column stays within
    /// its limits: only such a change may be blind (rule W-2). `not_null` tells which columns of the row are NOT NULL.
    pub fn may_be_blind(&self, not_null: &dyn Fn(usize) -> bool) -> bool {
        let column = usize::from(self.column);
        match &self.change {
            ColumnChange::Set(value) => !value.is_null() || !not_null(column),
            ColumnChange::Add(_) => true,
            ColumnChange::Evaluate(expr) => match self.step() {
                Some(step) => !step.may_be_null || !not_null(column),
                None => failure_reason(column, self.column_type, not_null, false, expr).is_none(),
            },
        }
    }

    /// Whether escrow has to keep the change within the limits of its column: outside of them it fails.
    pub fn needs_escrow(&self) -> bool {
        match &self.change {
            ColumnChange::Set(_) => false,
            ColumnChange::Add(_) => true,
            ColumnChange::Evaluate(_) => self.step().is_some_and(|step| step.can_fail),
        }
    }

    /// Whether the value after the change is that before it, or one within these bounds; escrow looks after what is added.
    pub fn sets_within(&self, bounds: &Bounds) -> bool {
        match &self.change {
            ColumnChange::Set(value) => Range::of(value).is_some_and(|range| range.within(bounds)),
            ColumnChange::Add(_) => true,
            ColumnChange::Evaluate(_) => self
                .step()
                .is_some_and(|step| step.can_fail || step.sets_within(bounds)),
        }
    }
}

/// The amount as a value of the column's type such that adding it equals evaluating the statement on every row; `None` if that
/// cannot be proved.
pub(crate) fn exact_delta(amount: &Value, negated: bool, column_type: ColumnType) -> Option<Value> {
    let signed = |number: Numeric| if negated { number.neg() } else { number };
    let number = match amount {
        Value::Numeric(number) if number.is_finite() => signed(number.clone()),
        other => {
            let whole = i128::from(other.as_i64()?);
            let whole = if negated { -whole } else { whole };
            if column_type.data_type.is_integer() {
                return integer_delta(whole, column_type.data_type);
            }
            Numeric::from_i128(whole)
        }
    };
    if column_type.data_type.is_integer() {
        // A whole number: the sum is whole too, and the cast back rounds nothing.
        let whole = number.round(0);
        return if whole == number {
            integer_delta(whole.to_i64().ok()?.into(), column_type.data_type)
        } else {
            None
        };
    }
    match ColumnType::numeric_precision_scale(column_type.modifier) {
        None => Some(Value::Numeric(number)),
        Some((_, scale)) => rounded_delta(&number, scale).map(Value::Numeric),
    }
}

fn integer_delta(whole: i128, data_type: DataType) -> Option<Value> {
    match data_type {
        DataType::Int2 => i16::try_from(whole).ok().map(Value::Int2),
        DataType::Int4 => i32::try_from(whole).ok().map(Value::Int4),
        DataType::Int8 => i64::try_from(whole).ok().map(Value::Int8),
        _ => None,
    }
}

/// The amount rounded to the column's scale. The column holds a multiple of the unit, so rounding the sum moves it by the nearest
/// multiple of the unit to the amount, whatever the column holds, except on a tie: halves go away from zero, and that looks at
/// the sign of the sum.
fn rounded_delta(number: &Numeric, scale: i32) -> Option<Numeric> {
    let rounded = number.round(scale);
    let rest = number.checked_sub(&rounded).ok()?.abs();
    let half = Numeric::parse(&format!("5e{}", -(i64::from(scale) + 1))).ok()?;
    (rest != half).then_some(rounded)
}

/// Replaces every part that reads no column, and that a formula could not keep, by its value: parameters, and calls that look at the
/// session or the clock. Says whether the result depends on nothing but the row.
fn bind_constants(expr: &mut Expr, context: &EvalContext<'_>) -> Result<bool> {
    let part = bind_parts(expr, context)?;
    match part.reads_row || part.is_of_row {
        true => Ok(part.is_of_row),
        false => bind_value(expr, context),
    }
}

/// What a part of an expression depends on.
#[derive(Clone, Copy)]
struct Part {
    /// It reads a column.
    reads_row: bool,
    /// It depends on nothing else.
    is_of_row: bool,
}

/// The same for all parts within that read no column, but not for the whole: if that reads none either it is replaced at once, by whoever
/// has it within. Each part is looked at once.
fn bind_parts(expr: &mut Expr, context: &EvalContext<'_>) -> Result<Part> {
    let mut whole = Part {
        reads_row: matches!(expr, Expr::Column(_)),
        is_of_row: expr.own_volatility() == Volatility::Immutable && !matches!(expr, Expr::Parameter(_)),
    };
    let mut parts: SmallVec<[Part; 8]> = SmallVec::new();
    let mut failure = None;
    expr.for_each_child_mut(&mut |child| match bind_parts(child, context) {
        Ok(part) => parts.push(part),
        Err(error) => failure = Some(error),
    });
    whole.reads_row |= parts.iter().any(|part| part.reads_row);
    if whole.reads_row && failure.is_none() {
        let mut parts = parts.iter_mut();
        expr.for_each_child_mut(&mut |child| {
            if let Some(part) = parts.next().filter(|part| !part.reads_row && !part.is_of_row) {
                match bind_value(child, context) {
                    Ok(is_of_row) => part.is_of_row = is_of_row,
                    Err(error) => failure = Some(error),
                }
            }
        });
    }
    whole.is_of_row &= parts.iter().all(|part| part.is_of_row);
    failure.map_or(Ok(whole), Err)
}

/// Replaces a part that reads no column by its value. Says whether nothing but the row is left to depend on.
fn bind_value(expr: &mut Expr, context: &EvalContext<'_>) -> Result<bool> {
    let substituted = expr.substitute_parameters(context);
    *expr = match substituted.evaluate(&(), context) {
        Ok(value) => Expr::Literal(value),
        // It may stand in a branch that is never taken: let the row decide.
        Err(_) if substituted.volatility() == Volatility::Immutable => substituted,
        Err(error) => return Err(error),
    };
    Ok(!expr.has_parameter())
}
