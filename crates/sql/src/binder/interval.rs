//! Literals of intervals with the fields that count: `INTERVAL '1-2' YEAR TO MONTH`, and texts as values of such types.

use super::expression::ExpressionBinder;
use super::typed::Typed;
use super::{Context, located};
use rubato_base::datetime::interval_modifier;
use rubato_base::text_format::parse_text;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::Expr;
use sqlparser::ast::{self, DateTimeField, Spanned};

/// The place of a field among those of an interval.
fn place(field: &DateTimeField) -> Option<usize> {
    use DateTimeField::{Day, Hour, Minute, Month, Second, Year};
    [Year, Month, Day, Hour, Minute, Second]
        .iter()
        .position(|own| own == field)
}

impl ExpressionBinder<'_> {
    pub(super) fn interval(&self, interval: &ast::Interval) -> Result<Typed> {
        let literal = self.bind(&interval.value)?;
        let fields = match &interval.leading_field {
            None => None,
            Some(first) => {
                let last = interval.last_field.as_ref().unwrap_or(first);
                let unknown = || Error::unsupported(format!("an interval of {first} to {last}"));
                Some(place(first).zip(place(last)).ok_or_else(unknown)?)
            }
        };
        if fields.is_some() && !matches!(literal.expr, Expr::Literal(Value::Text(_)) | Expr::Parameter(_)) {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "INTERVAL takes a string literal"));
        }
        let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
        let to = ColumnType {
            data_type: DataType::Interval,
            modifier: interval_modifier(fields, digits),
        };
        located(self.context, interval.value.span(), self.context.cast(literal, to))
    }
}

impl Context<'_> {
    /// A text without a type as an interval with certain fields: of what a bare number is depends on these. `None` for anything else.
    pub(super) fn interval_of_text(&self, typed: &Typed, to: ColumnType) -> Option<Result<Expr>> {
        if to.data_type != DataType::Interval || to.modifier < 0 {
            return None;
        }
        match &typed.expr {
            Expr::Literal(Value::Text(text)) => {
                let value = parse_text(to.data_type, to.modifier, text, &self.text);
                Some(located(self, typed.span, value).map(Expr::Literal))
            }
            Expr::Parameter(index) if self.parameters.borrow().is_literal(*index) => {
                self.parameters.borrow_mut().infer(*index, DataType::Text);
                Some(Ok(Expr::Cast {
                    operand: Box::new(typed.expr.clone()),
                    from: DataType::Text,
                    to,
                    explicit: true,
                }))
            }
            _ => None,
        }
    }
}
