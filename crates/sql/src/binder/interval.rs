//! Literals of intervals with the fields that count: `INTERVAL '1-2' YEAR TO MONTH`.

use super::expression::ExpressionBinder;
use super::located;
use super::typed::Typed;
use rubato_base::datetime::{HOUR_US, Interval, MINUTE_US, parse_interval, round_to_digits};
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_formula::Expr;
use sqlparser::ast::{self, DateTimeField, Spanned};

/// The text with the unit that a bare number is of, and with hours where minutes come first.
fn with_units(text: &str, first: &DateTimeField, last: &DateTimeField) -> String {
    let trimmed = text.trim();
    let is_number = trimmed.parse::<f64>().is_ok() && !trimmed.contains(|letter: char| letter.is_alphabetic());
    let is_minutes = (first, last) == (&DateTimeField::Minute, &DateTimeField::Second);
    match trimmed.strip_prefix('-') {
        _ if is_number => format!("{trimmed} {last}"),
        _ if !is_minutes || trimmed.matches(':').count() != 1 => text.to_owned(),
        Some(rest) => format!("-0:{rest}"),
        None => format!("0:{trimmed}"),
    }
}

/// The interval without what is below a field.
fn cut(interval: Interval, last: &DateTimeField) -> Interval {
    let Interval {
        months,
        days,
        microseconds,
    } = interval;
    match last {
        DateTimeField::Year => Interval {
            months: months - months % 12,
            days: 0,
            microseconds: 0,
        },
        DateTimeField::Month => Interval {
            months,
            days: 0,
            microseconds: 0,
        },
        DateTimeField::Day => Interval {
            months,
            days,
            microseconds: 0,
        },
        DateTimeField::Hour => Interval {
            months,
            days,
            microseconds: microseconds - microseconds % HOUR_US,
        },
        DateTimeField::Minute => Interval {
            months,
            days,
            microseconds: microseconds - microseconds % MINUTE_US,
        },
        _ => interval,
    }
}

impl ExpressionBinder<'_> {
    pub(super) fn interval(&self, interval: &ast::Interval) -> Result<Typed> {
        let literal = self.bind(&interval.value)?;
        let Some(first) = &interval.leading_field else {
            let to = rubato_base::ColumnType::plain(DataType::Interval);
            return located(self.context, interval.value.span(), self.context.cast(literal, to));
        };
        let Expr::Literal(Value::Text(text)) = &literal.expr else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "INTERVAL takes a string literal"));
        };
        let last = interval.last_field.as_ref().unwrap_or(first);
        let parsed = parse_interval(&with_units(text, first, last));
        let mut value = cut(located(self.context, interval.value.span(), parsed)?, last);
        let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
        if let Some(digits) = digits {
            value.microseconds = round_to_digits(value.microseconds, digits.min(6) as i32);
        }
        Ok(Typed::new(Expr::Literal(Value::Interval(value)), DataType::Interval))
    }
}
