//! Whether an index of some rows has all that a query asks for, and whether what a query compares is what an index holds.

use super::flatten;
use super::known::ParameterTypes;
use rubato_base::{Row, Value};
use rubato_formula::{Comparison, EvalContext, Expr, Tuple, Volatility};
use std::cmp::Ordering;

/// Whether what an index holds by an expression, without a session, is what a query of any session gets by it: plans are for all of them.
pub(crate) fn is_alike_in_all_sessions(expr: &Expr) -> bool {
    expr.volatility() == Volatility::Immutable
}

/// Whether `predicate` is true of every row of which all `terms` are. Both read columns by the same numbers.
pub(crate) fn implies(terms: &[Expr], predicate: &Expr, parameters: ParameterTypes<'_>) -> bool {
    let wanted = flatten(vec![predicate.clone()]);
    wanted.iter().all(|wanted| {
        let concerned = terms.iter().filter(|term| term.columns().intersects(wanted.columns()));
        concerned.into_iter().any(|term| term_implies(term, wanted, parameters))
    })
}

/// Whether `expr` is `wanted`, which an index holds.
pub(crate) fn is_same(expr: &Expr, wanted: &Expr, parameters: ParameterTypes<'_>) -> bool {
    if matches!(expr, Expr::Column(_) | Expr::Literal(_) | Expr::Parameter(_)) || expr.columns() != wanted.columns() {
        return false;
    }
    expr == wanted || (expr.has_parameter() && with_known(expr, parameters) == *wanted)
}

/// The expression with the values of parameters that are known.
fn with_known(expr: &Expr, parameters: ParameterTypes<'_>) -> Expr {
    let mut known = expr.clone();
    known.transform(&mut |node| {
        if let Expr::Parameter(index) = node
            && let Some(value) = parameters.known_value(*index)
        {
            *node = Expr::Literal(value);
        }
    });
    known.fold_constants()
}

fn term_implies(term: &Expr, wanted: &Expr, parameters: ParameterTypes<'_>) -> bool {
    let term = with_known(term, parameters);
    known_implies(&term, wanted)
}

fn known_implies(term: &Expr, wanted: &Expr) -> bool {
    if term == wanted {
        return true;
    }
    if let Expr::Or(branches) = term {
        return branches.iter().all(|branch| known_implies(branch, wanted));
    }
    if let Expr::And(parts) = term {
        return parts.iter().any(|part| known_implies(part, wanted));
    }
    if let Expr::Or(branches) = wanted
        && branches.iter().any(|branch| known_implies(term, branch))
    {
        return true;
    }
    if let Expr::And(parts) = wanted {
        return parts.iter().all(|part| known_implies(term, part));
    }
    values_imply(term, wanted) || rules_out_null(term, wanted) || bound_implies(term, wanted)
}

/// A term that gives a column one of some values: what is wanted is computed of each. Values that are equal may differ for functions
/// and casts (`1` and `1.00`), so that nothing but comparisons may be wanted.
fn values_imply(term: &Expr, wanted: &Expr) -> bool {
    let Some((column, values)) = given_values(term) else {
        return false;
    };
    let mut reads_other = false;
    wanted.walk(&mut |part| {
        reads_other |= match part {
            Expr::Column(own) => *own != column,
            Expr::Call { .. } | Expr::Cast { .. } | Expr::CompareElements { .. } => true,
            _ => false,
        }
    });
    let holds = |value: &Value| wanted.is_true(&OneColumn(column, value), &EvalContext::constant());
    !reads_other && values.into_iter().all(|value| holds(value).unwrap_or(false))
}

fn given_values(term: &Expr) -> Option<(usize, Vec<&Value>)> {
    static TRUE: Value = Value::Bool(true);
    static FALSE: Value = Value::Bool(false);
    match term {
        Expr::Column(column) => Some((*column, vec![&TRUE])),
        Expr::Not(inner) => match &**inner {
            Expr::Column(column) => Some((*column, vec![&FALSE])),
            _ => None,
        },
        Expr::IsNull(inner) => match &**inner {
            Expr::Column(column) => Some((*column, vec![&Value::Null])),
            _ => None,
        },
        Expr::Compare(Comparison::Equal, left, right) => match (&**left, &**right) {
            (Expr::Column(column), Expr::Literal(value)) | (Expr::Literal(value), Expr::Column(column)) => {
                Some((*column, vec![value]))
            }
            _ => None,
        },
        Expr::InList(operand, items) => {
            let Expr::Column(column) = &**operand else { return None };
            let values: Option<Vec<&Value>> = items.iter().map(Expr::as_literal).collect();
            Some((*column, values?))
        }
        _ => None,
    }
}

/// A row of which one column is known.
struct OneColumn<'a>(usize, &'a Value);

impl Tuple for OneColumn<'_> {
    fn column(&self, index: usize) -> Value {
        if index == self.0 { self.1.clone() } else { Value::Null }
    }
}

/// A comparison is true of no NULL.
fn rules_out_null(term: &Expr, wanted: &Expr) -> bool {
    let Expr::Not(inner) = wanted else { return false };
    let Expr::IsNull(operand) = &**inner else { return false };
    let is_it =
        |expr: &Expr| expr == &**operand || matches!(expr, Expr::Cast { operand: inner, .. } if inner == operand);
    match term {
        Expr::Compare(_, left, right) => is_it(left) || is_it(right),
        Expr::InList(compared, _) => is_it(compared),
        Expr::CompareElements {
            operand: compared,
            all: false,
            ..
        } => is_it(compared),
        Expr::Call { function, arguments } if function.is_strict() => arguments.iter().any(is_it),
        other => is_it(other),
    }
}

/// The operand of a comparison with a value, which stands on the right.
fn bound(expr: &Expr) -> Option<(Comparison, &Expr, &Value)> {
    let Expr::Compare(comparison, left, right) = expr else {
        return None;
    };
    match (&**left, &**right) {
        (operand, Expr::Literal(value)) => Some((*comparison, operand, value)),
        (Expr::Literal(value), operand) => Some((comparison.mirrored(), operand, value)),
        _ => None,
    }
}

/// A stricter bound of the same operand.
fn bound_implies(term: &Expr, wanted: &Expr) -> bool {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let (Some((given, operand, value)), Some((asked, other, limit))) = (bound(term), bound(wanted)) else {
        return false;
    };
    let Some(order) = (operand == other).then(|| order_of(value, limit)).flatten() else {
        return false;
    };
    match (asked, given) {
        (Greater, Greater) | (GreaterOrEqual, Greater | GreaterOrEqual) | (NotEqual, Greater) => order.is_ge(),
        (Greater | NotEqual, GreaterOrEqual) => order.is_gt(),
        (Less, Less) | (LessOrEqual, Less | LessOrEqual) | (NotEqual, Less) => order.is_le(),
        (Less | NotEqual, LessOrEqual) => order.is_lt(),
        (Equal, Equal) | (NotEqual, NotEqual) => order.is_eq(),
        (NotEqual, Equal) => order.is_ne(),
        (Greater, Equal) => order.is_gt(),
        (GreaterOrEqual, Equal) => order.is_ge(),
        (Less, Equal) => order.is_lt(),
        (LessOrEqual, Equal) => order.is_le(),
        _ => false,
    }
}

/// How two values of one expression's comparisons are ordered; `None` if that is not known.
fn order_of(left: &Value, right: &Value) -> Option<Ordering> {
    let holds = |comparison| {
        let compare = Expr::Compare(
            comparison,
            Box::new(Expr::Literal(left.clone())),
            Box::new(Expr::Literal(right.clone())),
        );
        compare.is_true(&Row::from_values(&[]), &EvalContext::constant()).ok()
    };
    match (
        holds(Comparison::Less)?,
        holds(Comparison::Equal)?,
        holds(Comparison::Greater)?,
    ) {
        (true, ..) => Some(Ordering::Less),
        (_, true, _) => Some(Ordering::Equal),
        (.., true) => Some(Ordering::Greater),
        _ => None,
    }
}
