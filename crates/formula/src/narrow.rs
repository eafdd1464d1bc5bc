//! Comparisons brought to the type of what is compared, so that a column is looked up in its own order and needs no conversion.

use crate::expr::{Comparison, Expr};
use rubato_base::datetime::{date_to_timestamp, timestamp_to_date};
use rubato_base::{DataType, Value};

/// A date compared with the literal of a timestamp, as a comparison with a date; anything else stays as it is. In PostgreSQL, too, such a
/// comparison fails for no date, however far it lies.
pub(crate) fn narrow(expr: &mut Expr) {
    let Expr::Compare(comparison, left, right) = expr else {
        return;
    };
    let narrowed = match (
        date_operand(left),
        timestamp(right),
        date_operand(right),
        timestamp(left),
    ) {
        (Some(date), Some(bound), ..) => with_date(*comparison, date, bound),
        (.., Some(date), Some(bound)) => with_date(comparison.mirrored(), date, bound),
        _ => None,
    };
    if let Some(narrowed) = narrowed {
        *expr = narrowed;
    }
}

fn with_date(comparison: Comparison, date: &Expr, bound: i64) -> Option<Expr> {
    let day = timestamp_to_date(bound);
    let is_midnight = date_to_timestamp(day).ok()? == bound;
    let comparison = match comparison {
        Comparison::Less if !is_midnight => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual if !is_midnight => Comparison::Greater,
        Comparison::Equal | Comparison::NotEqual if !is_midnight => return None,
        same => same,
    };
    let day = Box::new(Expr::Literal(Value::Date(day)));
    Some(Expr::Compare(comparison, Box::new(date.clone()), day))
}

/// What is converted, if this is a date as a timestamp.
fn date_operand(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Cast {
            operand,
            from: DataType::Date,
            to,
            ..
        } if to.data_type == DataType::Timestamp && to.modifier < 0 => Some(operand),
        _ => None,
    }
}

fn timestamp(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(Value::Timestamp(microseconds)) => Some(*microseconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvalContext;
    use rubato_base::ColumnType;
    use rubato_base::datetime::DAY_US;

    const COMPARISONS: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];

    #[test]
    fn a_narrowed_comparison_says_the_same() {
        let infinities = [i32::MAX, i32::MIN];
        let bounds = [-DAY_US, -1, 0, 1, DAY_US - 1, DAY_US, i64::MAX, i64::MIN];
        for comparison in COMPARISONS {
            for bound in bounds {
                for day in (-3..4).chain(infinities) {
                    for is_mirrored in [false, true] {
                        says_the_same(comparison, day, bound, is_mirrored);
                    }
                }
            }
        }
    }

    fn says_the_same(comparison: Comparison, day: i32, bound: i64, is_mirrored: bool) {
        let cast = Box::new(Expr::Cast {
            operand: Box::new(Expr::Literal(Value::Date(day))),
            from: DataType::Date,
            to: ColumnType::plain(DataType::Timestamp),
            explicit: false,
        });
        let bound = Box::new(Expr::Literal(Value::Timestamp(bound)));
        let whole = match is_mirrored {
            false => Expr::Compare(comparison, cast, bound),
            true => Expr::Compare(comparison, bound, cast),
        };
        let mut narrowed = whole.clone();
        narrow(&mut narrowed);
        let context = EvalContext::constant();
        let both = [&whole, &narrowed].map(|expr| expr.evaluate(&(), &context).unwrap());
        assert_eq!(both[0], both[1], "{whole:?} and {narrowed:?}");
    }
}
