//! What an expression over a column and constants can make of this column: how escrow holds within limits what is no plain sum
//! (rule E-1 of the protocol).
//!
//! `x + 10.5::float8`, `x * 2`, `CASE WHEN x >= 15 THEN x - 5 ELSE x + 86 END`, `coalesce(x, 0) + 1`: nobody need know the result to know
//! how far from `x` it lies. A [`Step`] says so, and covers what is computed on the way to it as well, roundings included: as long as
//! everything that it says stays within the limits of the column, no operator and no cast of the expression can fail.
//!
//! Floats are reckoned with between [`crate::amount::FLOAT_LEAST`] and [`crate::amount::FLOAT_MAX`] (or zero) only. The difference of
//! two such numbers is zero or a multiple of the last digit of the lesser one, so that neither a product nor a cast comes near to
//! underflow, as long as all factors together take nine digits at most.

use crate::amount::{Amount, REAL_LEAST, REAL_MAX, Towards};
use crate::expr::Expr;
use crate::failure::reason_within;
use crate::functions::{ArgumentType, Function, Volatility};
use rubato_base::{ColumnType, DataType, Value};

/// Half the distance of two floats, relative to them, and of two reals, and the 15 digits of a float that numeric keeps: generously.
const FLOAT_ROUNDING: f64 = 2.3e-16;
const REAL_ROUNDING: f64 = 1.2e-7;
const DIGITS_ROUNDING: f64 = 1e-14;

/// Digits before and after the point that a numeric column may have.
const DIGITS_MAX: i32 = 100;
/// Digits after the point with which a numeric still becomes a float that is reckoned with, and those that one may come back with.
const DIGITS_TO_FLOAT: u32 = 200;
const DIGITS_OF_FLOAT: u32 = 240;
/// Digits after the point that a quotient has more than its operands.
const DIGITS_OF_QUOTIENT: u32 = 40;

/// The result is the column, or a value in `sets`, multiplied by something between `shrunk` and `grown` (and -1, if `mirrored`), and
/// something between `taken` and `added` on top, multiplied in the same way: or NULL.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The least and the greatest value that takes the place of the column's.
    pub(crate) sets: Option<(Amount, Amount)>,
    /// At most zero.
    pub(crate) taken: Amount,
    /// At least zero.
    pub(crate) added: Amount,
    /// At least one.
    pub(crate) grown: f64,
    /// At most one, more than zero.
    pub(crate) shrunk: f64,
    pub(crate) mirrored: bool,
    /// Digits after the point that the result may have as a numeric.
    digits: u32,
    /// Whether there is anything that fails outside the limits.
    pub(crate) can_fail: bool,
    /// Whether the result may be NULL where the column is not.
    pub(crate) may_be_null: bool,
}

impl Step {
    /// The column as it is.
    const COLUMN: Step = Step {
        sets: None,
        taken: Amount::ZERO,
        added: Amount::ZERO,
        grown: 1.0,
        shrunk: 1.0,
        mirrored: false,
        digits: 0,
        can_fail: false,
        may_be_null: false,
    };

    /// What the expression makes of the column; `None` if it cannot be told. An expression that is `planned` has constants whose
    /// values are not known yet: then this says what there is to be, if they are such as can be reckoned with.
    pub(crate) fn of(column: usize, column_type: ColumnType, planned: bool, expr: &Expr) -> Option<Step> {
        let is_reckoned = match column_type.data_type {
            DataType::Numeric => {
                let (precision, scale) = ColumnType::numeric_precision_scale(column_type.modifier)?;
                let digits = precision as i32 - scale;
                (0..=DIGITS_MAX).contains(&scale) && digits <= DIGITS_MAX
            }
            other => other.is_integer() || matches!(other, DataType::Float4 | DataType::Float8),
        };
        let analysis = Analysis {
            column,
            column_type,
            planned,
        };
        match analysis.part(expr).filter(|_| is_reckoned)? {
            Part::Own(step) => Some(step),
            Part::Constant(_) => None,
        }
    }

    fn add(&mut self, amount: &Amount) -> Option<()> {
        if amount.is_negative() {
            self.taken = self.taken.plus(amount, Towards::Low)?;
        } else {
            self.added = self.added.plus(amount, Towards::High)?;
        }
        Some(())
    }

    /// The result is rounded by `most` at most.
    fn round(&mut self, most: Amount) -> Option<()> {
        self.add(&most.negated())?;
        self.add(&most)
    }

    /// The result is rounded by this part of it at most.
    fn round_relative(&mut self, most: f64) {
        self.multiply(1.0, most);
    }

    /// The result is multiplied by about `factor`, which is positive.
    fn multiply(&mut self, factor: f64, error: f64) {
        self.grown = (self.grown * factor.max(1.0) * (1.0 + error)).next_up();
        self.shrunk = (self.shrunk * factor.min(1.0) * (1.0 - error)).next_down();
    }

    fn set(&mut self, least: Amount, greatest: Amount) {
        self.sets = Some(match self.sets.take() {
            Some((low, high)) => (low.least(least), high.greatest(greatest)),
            None => (least, greatest),
        });
    }

    /// Either this or `other`.
    fn join(mut self, other: Step) -> Step {
        if let Some((least, greatest)) = other.sets {
            self.set(least, greatest);
        }
        self.taken = self.taken.least(other.taken);
        self.added = self.added.greatest(other.added);
        self.grown = self.grown.max(other.grown);
        self.shrunk = self.shrunk.min(other.shrunk);
        self.mirrored |= other.mirrored;
        self.digits = self.digits.max(other.digits);
        self.can_fail |= other.can_fail;
        self.may_be_null |= other.may_be_null;
        self
    }
}

enum Part {
    Own(Step),
    Constant(Constant),
}

enum Constant {
    Null,
    Amount(Amount),
    /// Its value comes with the execution.
    Planned,
}

struct Analysis {
    column: usize,
    column_type: ColumnType,
    planned: bool,
}

impl Analysis {
    fn part(&self, expr: &Expr) -> Option<Part> {
        if expr.is_constant() {
            return self.constant(expr).map(Part::Constant);
        }
        let step = match expr {
            Expr::Column(index) => (*index == self.column).then(|| self.own()),
            Expr::Cast { operand, from, to, .. } => match self.part(operand)? {
                Part::Own(step) => self.cast(step, *from, *to),
                Part::Constant(_) => None,
            },
            Expr::Coalesce(list) => {
                let steps: Option<Vec<Step>> = list.iter().map(|item| self.alternative(item)).collect();
                let steps = steps?;
                let may_be_null = steps.iter().all(|step| step.may_be_null);
                let joined = steps.into_iter().reduce(Step::join)?;
                Some(Step { may_be_null, ..joined })
            }
            Expr::Case { branches, otherwise } => {
                let mut step = self.alternative(otherwise)?;
                for (condition, result) in branches {
                    step = self.condition(condition, step)?;
                    step = step.join(self.alternative(result)?);
                }
                Some(step)
            }
            Expr::Call { function, arguments } => self.call(*function, arguments),
            _ => None,
        };
        step.map(Part::Own)
    }

    fn own(&self) -> Step {
        let scale = ColumnType::numeric_precision_scale(self.column_type.modifier).map_or(0, |(_, scale)| scale);
        Step {
            digits: scale.max(0) as u32,
            ..Step::COLUMN
        }
    }

    fn constant(&self, expr: &Expr) -> Option<Constant> {
        match expr {
            Expr::Literal(Value::Null) => Some(Constant::Null),
            Expr::Literal(value) => self.amount(value).map(Constant::Amount),
            // A part that is not needed must not be evaluated where that shows.
            _ => (self.planned && expr.volatility() != Volatility::Volatile).then_some(Constant::Planned),
        }
    }

    fn amount(&self, value: &Value) -> Option<Amount> {
        let amount = Amount::of(value)?;
        let of_real = |float: f64| float == 0.0 || (REAL_LEAST..=f64::from(REAL_MAX)).contains(&float.abs());
        match amount {
            Amount::Float(float) if self.column_type.data_type == DataType::Float4 && !of_real(float) => None,
            amount => Some(amount),
        }
    }

    /// One of several parts that may become the result.
    fn alternative(&self, expr: &Expr) -> Option<Step> {
        Some(match self.part(expr)? {
            Part::Own(step) => step,
            Part::Constant(Constant::Planned) => Step::COLUMN,
            Part::Constant(Constant::Null) => Step {
                may_be_null: true,
                ..Step::COLUMN
            },
            Part::Constant(Constant::Amount(amount)) => Step {
                digits: amount.digits(),
                sets: Some((amount.clone(), amount)),
                ..Step::COLUMN
            },
        })
    }

    /// `step`, and what is computed for a condition; `None` if the condition may fail.
    fn condition(&self, condition: &Expr, mut step: Step) -> Option<Step> {
        match condition {
            Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::Compare(..)
            | Expr::IsDistinct(..)
            | Expr::InList(..) => {
                let mut safe = Some(step);
                condition.for_each_child(&mut |child| {
                    safe = safe.take().and_then(|step| self.condition(child, step));
                });
                safe
            }
            operand => {
                if let Some(Part::Own(computed)) = self.part(operand) {
                    let may_be_null = step.may_be_null;
                    step = step.join(computed);
                    return Some(Step { may_be_null, ..step });
                }
                reason_within(operand, self.column, self.column_type, self.planned)
                    .is_none()
                    .then_some(step)
            }
        }
    }

    fn cast(&self, mut step: Step, from: DataType, to: ColumnType) -> Option<Step> {
        let own = self.column_type;
        if !self.carries(to.data_type) || !self.carries(from) {
            return None;
        }
        match to.data_type {
            DataType::Numeric => {
                match from {
                    DataType::Float8 => {
                        step.round_relative(DIGITS_ROUNDING);
                        step.digits = DIGITS_OF_FLOAT;
                    }
                    DataType::Float4 => return None,
                    _ => {}
                }
                if let Some((precision, scale)) = ColumnType::numeric_precision_scale(to.modifier) {
                    let (own_precision, own_scale) = ColumnType::numeric_precision_scale(own.modifier)?;
                    let holds = own.data_type == DataType::Numeric
                        && precision as i32 - scale >= own_precision as i32 - own_scale
                        && (0..=DIGITS_MAX).contains(&scale);
                    if !holds {
                        return None;
                    }
                    step.can_fail = true;
                    step.digits = scale as u32;
                    step.round(Amount::Float(10_f64.powi(-scale)))?;
                }
            }
            DataType::Float8 if from != DataType::Numeric || step.digits <= DIGITS_TO_FLOAT => {
                step.round_relative(FLOAT_ROUNDING);
            }
            DataType::Float4 if from != DataType::Numeric => {
                step.can_fail |= from != DataType::Float4;
                step.round_relative(REAL_ROUNDING);
            }
            DataType::Float8 | DataType::Float4 => return None,
            whole if from.is_integer() && whole >= from => {}
            _ => {
                step.can_fail = true;
                if !from.is_integer() {
                    step.round(Amount::Whole(1))?;
                }
            }
        }
        Some(step)
    }

    /// Whether every value within the limits of the column is one of this type.
    fn carries(&self, data_type: DataType) -> bool {
        match self.column_type.data_type {
            own if own == data_type => true,
            own if own.is_integer() => {
                (data_type.is_integer() && data_type >= own)
                    || matches!(data_type, DataType::Numeric | DataType::Float8)
            }
            DataType::Numeric | DataType::Float4 => data_type == DataType::Float8,
            DataType::Float8 => data_type == DataType::Numeric,
            _ => false,
        }
    }

    fn call(&self, function: Function, arguments: &[Expr]) -> Option<Step> {
        if matches!(function.name(), "greatest" | "least") {
            let steps: Option<Vec<Step>> = arguments.iter().map(|item| self.alternative(item)).collect();
            let steps = steps?;
            let may_be_null = steps.iter().all(|step| step.may_be_null);
            let joined = steps.into_iter().reduce(Step::join)?;
            return Some(Step { may_be_null, ..joined });
        }
        let ArgumentType::Exact(result) = function.entry().result else {
            return None;
        };
        if !self.carries(result) {
            return None;
        }
        match arguments {
            [operand] => self.unary(function.name(), operand),
            [left, right] => self.binary(function.name(), result, left, right),
            _ => None,
        }
    }

    fn unary(&self, name: &str, operand: &Expr) -> Option<Step> {
        let Part::Own(mut step) = self.part(operand)? else {
            return None;
        };
        match name {
            "+" => {}
            "-" | "@" | "abs" => {
                step.mirrored = true;
                step.can_fail = true;
            }
            "round" | "trunc" | "floor" | "ceil" | "ceiling" => {
                step.round(Amount::Whole(1))?;
                step.digits = 0;
                step.can_fail = true;
            }
            _ => return None,
        }
        Some(step)
    }

    fn binary(&self, name: &str, result: DataType, left: &Expr, right: &Expr) -> Option<Step> {
        let (mut step, constant, own_first) = match (self.part(left)?, self.part(right)?) {
            (Part::Own(step), Part::Constant(constant)) => (step, constant, true),
            (Part::Constant(constant), Part::Own(step)) => (step, constant, false),
            _ => return None,
        };
        let known = matches!(name, "+" | "*" | "-")
            || (own_first && matches!(name, "/" | "%" | "mod"))
            || (own_first && matches!(name, "round" | "trunc"));
        if !known {
            return None;
        }
        step.can_fail = true;
        let amount = match constant {
            Constant::Null => {
                step.may_be_null = true;
                return Some(step);
            }
            Constant::Planned => return Some(step),
            Constant::Amount(amount) => amount,
        };
        let digits = match name {
            "round" | "trunc" => step.digits.min(amount.whole()?),
            "*" => step.digits.checked_add(amount.digits())?,
            "/" => step.digits.max(amount.digits()).checked_add(DIGITS_OF_QUOTIENT)?,
            _ => step.digits.max(amount.digits()),
        };
        match name {
            "+" => step.add(&amount)?,
            "-" if own_first => step.add(&amount.negated())?,
            "-" => {
                step.mirrored = true;
                step.add(&amount)?;
            }
            "*" if amount.is_zero() => step.set(Amount::ZERO, Amount::ZERO),
            "*" => multiply(&mut step, &amount, false)?,
            "/" => multiply(&mut step, &amount, true)?,
            "%" | "mod" if !amount.is_zero() => {
                let size = if amount.is_negative() { amount.negated() } else { amount };
                step.set(size.negated(), size);
            }
            // To so many digits after the point.
            "round" | "trunc" if !amount.is_negative() => step.round(Amount::Whole(1))?,
            _ => return None,
        }
        step.digits = digits;
        match result {
            DataType::Float8 => step.round_relative(FLOAT_ROUNDING),
            DataType::Float4 => step.round_relative(REAL_ROUNDING),
            _ => {}
        }
        Some(step)
    }
}

fn multiply(step: &mut Step, amount: &Amount, divides: bool) -> Option<()> {
    if amount.is_zero() {
        return None;
    }
    step.mirrored |= amount.is_negative();
    let size = amount.to_float(Towards::High).abs();
    let size = if divides { 1.0 / size } else { size };
    if !size.is_normal() {
        return None;
    }
    step.multiply(size, 4.0 * FLOAT_ROUNDING);
    if divides {
        // A quotient of whole numbers is cut; one of decimals keeps as many digits after the point as the column at least.
        step.round(Amount::Whole(1))?;
    }
    Some(())
}
