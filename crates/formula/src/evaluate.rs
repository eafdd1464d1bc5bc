//! Evaluation of an expression over one tuple.

use crate::cast::cast_value;
use crate::context::EvalContext;
use crate::expr::{Comparison, Expr};
use crate::functions::Function;
use crate::lists::{List, Membership};
use rubato_base::{Error, Result, Row, RowRef, SqlState, Value};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

/// Something that has columns.
pub trait Tuple {
    /// Column `index`; NULL if there are fewer.
    fn column(&self, index: usize) -> Value;

    /// Column `index` without a copy, where the tuple holds it as a value.
    fn column_ref(&self, index: usize) -> Option<&Value> {
        let _ = index;
        None
    }
}

impl Tuple for [Value] {
    fn column(&self, index: usize) -> Value {
        self.get(index).cloned().unwrap_or_default()
    }

    fn column_ref(&self, index: usize) -> Option<&Value> {
        self.get(index)
    }
}

impl Tuple for Vec<Value> {
    fn column(&self, index: usize) -> Value {
        self.as_slice().column(index)
    }

    fn column_ref(&self, index: usize) -> Option<&Value> {
        self.get(index)
    }
}

impl<const N: usize> Tuple for [Value; N] {
    fn column(&self, index: usize) -> Value {
        self.as_slice().column(index)
    }

    fn column_ref(&self, index: usize) -> Option<&Value> {
        self.get(index)
    }
}

impl Tuple for RowRef<'_> {
    fn column(&self, index: usize) -> Value {
        self.get(index)
    }
}

impl Tuple for Row {
    fn column(&self, index: usize) -> Value {
        self.get(index)
    }
}

/// The tuple without columns, for constants.
impl Tuple for () {
    fn column(&self, _index: usize) -> Value {
        Value::Null
    }
}

impl<T: Tuple + ?Sized> Tuple for &T {
    fn column(&self, index: usize) -> Value {
        (**self).column(index)
    }

    fn column_ref(&self, index: usize) -> Option<&Value> {
        (**self).column_ref(index)
    }
}

/// A value that need not be copied when a literal, a parameter or a tuple already holds it.
enum Operand<'a> {
    Borrowed(&'a Value),
    Owned(Value),
}

impl Deref for Operand<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Operand::Borrowed(value) => value,
            Operand::Owned(value) => value,
        }
    }
}

impl Expr {
    /// The value over `tuple`. Errors are those of the functions and casts within.
    pub fn evaluate<T: Tuple + ?Sized>(&self, tuple: &T, context: &EvalContext<'_>) -> Result<Value> {
        match self {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Column(index) => Ok(tuple.column(*index)),
            Expr::Parameter(index) => parameter(context, *index).cloned(),
            Expr::Call { function, arguments } => call(*function, arguments, tuple, context),
            Expr::Subquery { number, arguments } => subquery(*number, arguments, tuple, context),
            Expr::And(terms) => connect(terms, false, tuple, context),
            Expr::Or(terms) => connect(terms, true, tuple, context),
            Expr::Not(term) => Ok(match truth(&*term.operand(tuple, context)?)? {
                Some(truth) => Value::Bool(!truth),
                None => Value::Null,
            }),
            Expr::Compare(comparison, left, right) => {
                let left = left.operand(tuple, context)?;
                let right = right.operand(tuple, context)?;
                compare(*comparison, &left, &right)
            }
            Expr::IsNull(operand) => Ok(Value::Bool(operand.operand(tuple, context)?.is_null())),
            Expr::IsDistinct(left, right) => {
                let left = left.operand(tuple, context)?;
                let right = right.operand(tuple, context)?;
                Ok(Value::Bool(*left != *right))
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if condition.is_true(tuple, context)? {
                        return result.evaluate(tuple, context);
                    }
                }
                otherwise.evaluate(tuple, context)
            }
            Expr::Switch {
                operand,
                branches,
                otherwise,
            } => {
                let given = operand.operand(tuple, context)?;
                for (value, result) in branches {
                    let equal = compare(Comparison::Equal, &given, &*value.operand(tuple, context)?)?;
                    if equal == Value::Bool(true) {
                        return result.evaluate(tuple, context);
                    }
                }
                otherwise.evaluate(tuple, context)
            }
            Expr::InList(operand, list) => in_list(operand, list, tuple, context),
            Expr::CompareElements {
                operand,
                comparison,
                array,
                all,
            } => {
                let value = operand.operand(tuple, context)?;
                if let Some(result) = hashed_elements(&value, *comparison, array, *all, context) {
                    return Ok(result);
                }
                compare_elements(&value, *comparison, &*array.operand(tuple, context)?, *all)
            }
            Expr::Coalesce(arguments) => {
                for argument in arguments {
                    let value = argument.evaluate(tuple, context)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Expr::Cast {
                operand,
                from,
                to,
                explicit,
            } => cast_value(operand.evaluate(tuple, context)?, *from, *to, *explicit, context.text),
        }
    }

    /// Whether a condition is true; NULL counts as false.
    pub fn is_true<T: Tuple + ?Sized>(&self, tuple: &T, context: &EvalContext<'_>) -> Result<bool> {
        Ok(truth(&*self.operand(tuple, context)?)? == Some(true))
    }

    /// Whether a check constraint holds: it fails only when it is false, not when it is NULL.
    pub fn is_not_false<T: Tuple + ?Sized>(&self, tuple: &T, context: &EvalContext<'_>) -> Result<bool> {
        Ok(truth(&*self.operand(tuple, context)?)? != Some(false))
    }

    fn operand<'a, T: Tuple + ?Sized>(&'a self, tuple: &'a T, context: &'a EvalContext<'_>) -> Result<Operand<'a>> {
        Ok(match self {
            Expr::Literal(value) => Operand::Borrowed(value),
            Expr::Parameter(index) => Operand::Borrowed(parameter(context, *index)?),
            Expr::Column(index) => match tuple.column_ref(*index) {
                Some(value) => Operand::Borrowed(value),
                None => Operand::Owned(tuple.column(*index)),
            },
            _ => Operand::Owned(self.evaluate(tuple, context)?),
        })
    }
}

fn parameter<'a>(context: &'a EvalContext<'_>, index: usize) -> Result<&'a Value> {
    context.parameter(index).ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_PARAMETER,
            format!("there is no parameter ${}", index.saturating_add(1)),
        )
    })
}

fn call<T: Tuple + ?Sized>(
    function: Function,
    arguments: &[Expr],
    tuple: &T,
    context: &EvalContext<'_>,
) -> Result<Value> {
    match arguments {
        [argument] => {
            let value = argument.operand(tuple, context)?;
            function.call_unary(&value, context)
        }
        [left, right] => {
            let left = left.operand(tuple, context)?;
            let right = right.operand(tuple, context)?;
            function.call_binary(&left, &right, context)
        }
        _ => {
            let mut values: SmallVec<[Value; 4]> = SmallVec::with_capacity(arguments.len());
            for argument in arguments {
                values.push(argument.evaluate(tuple, context)?);
            }
            function.call(&values, context)
        }
    }
}

fn subquery<T: Tuple + ?Sized>(
    number: usize,
    arguments: &[Expr],
    tuple: &T,
    context: &EvalContext<'_>,
) -> Result<Value> {
    let Some(subqueries) = context.subqueries else {
        return Err(Error::internal("a query within an expression that no step computes"));
    };
    let mut values: SmallVec<[Value; 4]> = SmallVec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(argument.evaluate(tuple, context)?);
    }
    subqueries.answer(number, &values)
}

fn truth(value: &Value) -> Result<Option<bool>> {
    match value {
        Value::Bool(truth) => Ok(Some(*truth)),
        Value::Null => Ok(None),
        other => Err(Error::internal(format!("a condition of type {}", other.data_type()))),
    }
}

/// Three-valued AND (`decisive` false) or OR (`decisive` true).
fn connect<T: Tuple + ?Sized>(terms: &[Expr], decisive: bool, tuple: &T, context: &EvalContext<'_>) -> Result<Value> {
    let mut unknown = false;
    for term in terms {
        match truth(&*term.operand(tuple, context)?)? {
            Some(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(!decisive) })
}

fn in_list<T: Tuple + ?Sized>(
    operand: &Expr,
    list: &Arc<Vec<Expr>>,
    tuple: &T,
    context: &EvalContext<'_>,
) -> Result<Value> {
    let value = operand.operand(tuple, context)?;
    if value.is_null() {
        return Ok(if list.is_empty() {
            Value::Bool(false)
        } else {
            Value::Null
        });
    }
    if let Some(sets) = context.lists.filter(|_| List::is_long(list))
        && let Some(membership) = sets.find(List::Items(list), &value, context)
    {
        return Ok(membership.into());
    }
    let mut unknown = false;
    for element in list.iter() {
        match compare(Comparison::Equal, &value, &*element.operand(tuple, context)?)? {
            Value::Bool(true) => return Ok(Value::Bool(true)),
            Value::Null => unknown = true,
            _ => {}
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(false) })
}

/// The comparison with all elements of an array, if it is a question of whether a value is among them that a set can tell.
fn hashed_elements(
    value: &Value,
    comparison: Comparison,
    array: &Arc<Expr>,
    all: bool,
    context: &EvalContext<'_>,
) -> Option<Value> {
    let sets = context.lists.filter(|_| !value.is_null())?;
    match (comparison, all) {
        (Comparison::Equal, false) => Some(sets.find(List::Array(array), value, context)?.into()),
        (Comparison::NotEqual, true) => Some(match sets.find(List::Array(array), value, context)? {
            Membership::Yes => Value::Bool(false),
            Membership::No => Value::Bool(true),
            Membership::Unknown => Value::Null,
        }),
        _ => None,
    }
}

impl From<Membership> for Value {
    /// The result of `IN`.
    fn from(membership: Membership) -> Value {
        match membership {
            Membership::Yes => Value::Bool(true),
            Membership::No => Value::Bool(false),
            Membership::Unknown => Value::Null,
        }
    }
}

fn compare_elements(value: &Value, comparison: Comparison, array: &Value, all: bool) -> Result<Value> {
    let array = match array {
        Value::Null => return Ok(Value::Null),
        Value::Array(array) => array,
        other => return Err(Error::internal(format!("an array of type {}", other.data_type()))),
    };
    if value.is_null() {
        return Ok(if array.items.is_empty() {
            Value::Bool(all)
        } else {
            Value::Null
        });
    }
    let mut unknown = false;
    for element in &array.items {
        match compare(comparison, value, element)? {
            Value::Bool(holds) if holds != all => return Ok(Value::Bool(holds)),
            Value::Null => unknown = true,
            _ => {}
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(all) })
}

/// The result of a comparison: NULL if either value is.
pub fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<Value> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    match left.compare(right) {
        Some(order) => Ok(Value::Bool(comparison.holds(order))),
        None => Err(Error::internal(format!(
            "comparison of {} with {}",
            left.data_type(),
            right.data_type()
        ))),
    }
}

impl Comparison {
    /// Whether the comparison is true of two values that stand in this order.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order == Ordering::Equal,
            Comparison::NotEqual => order != Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::GreaterOrEqual => order != Ordering::Less,
        }
    }

    /// The operator as SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The comparison that an operator symbol stands for.
    pub fn from_symbol(symbol: &str) -> Option<Comparison> {
        Some(match symbol {
            "=" => Comparison::Equal,
            "<>" | "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// The comparison with its sides exchanged: `a < b` is `b > a`.
    #[must_use]
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    /// The comparison that is true exactly where this one is false.
    #[must_use]
    pub fn negated(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::NotEqual,
            Comparison::NotEqual => Comparison::Equal,
            Comparison::Less => Comparison::GreaterOrEqual,
            Comparison::LessOrEqual => Comparison::Greater,
            Comparison::Greater => Comparison::LessOrEqual,
            Comparison::GreaterOrEqual => Comparison::Less,
        }
    }
}
