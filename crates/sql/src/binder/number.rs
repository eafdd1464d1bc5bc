//! Numbers as they are written, and the types that they have.

use super::typed::Typed;
use crate::parser::Literal;
use crate::parser::lexer::TokenKind;
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_formula::{Expr, resolve_operator};
use sqlparser::ast::{self, UnaryOperator};

/// A number behind any number of minus signs and parentheses, and whether it is negative.
pub(super) fn signed_number(expr: &ast::Expr) -> Option<(&str, bool)> {
    let (mut rest, mut is_negative) = (expr, false);
    loop {
        match rest {
            ast::Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => {
                is_negative = !is_negative;
                rest = expr;
            }
            ast::Expr::Nested(expr) => rest = expr,
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Number(number, _) => return Some((number, is_negative)),
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// The sign belongs to the number, as in PostgreSQL: -2147483648 is an integer, though 2147483648 is none.
pub(super) fn signed_value(number: &str, is_negative: bool) -> Result<Typed> {
    let typed = number_value(number)?;
    if !is_negative {
        return Ok(typed);
    }
    let resolved = resolve_operator("-", None, typed.data_type)?;
    let call = Expr::Call {
        function: resolved.function,
        arguments: vec![typed.expr],
    };
    let negated = call.fold_constants();
    Ok(match (&negated, number.replace('_', "").as_str()) {
        (Expr::Literal(Value::Int8(smallest)), _) if *smallest == i64::from(i32::MIN) => {
            Typed::new(Expr::Literal(Value::Int4(i32::MIN)), DataType::Int4)
        }
        (_, "9223372036854775808") => Typed::new(Expr::Literal(Value::Int8(i64::MIN)), DataType::Int8),
        _ => Typed::new(negated, resolved.result_type),
    })
}

/// A number without a sign.
pub(super) fn number_value(text: &str) -> Result<Typed> {
    let plain = text.replace('_', "");
    let kind = if plain.bytes().all(|byte| byte.is_ascii_digit()) {
        TokenKind::Integer
    } else {
        TokenKind::Decimal
    };
    let literal: Literal = crate::parser::number_literal(&plain, kind).ok_or_else(|| {
        Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("the number {text} is out of range"),
        )
    })?;
    Ok(Typed::new(Expr::Literal(literal.value()), literal.data_type()))
}
