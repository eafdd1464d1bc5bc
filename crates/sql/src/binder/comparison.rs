//! Comparisons: of two operands, of rows, with lists and with bounds.

use super::expression::{ExpressionBinder, and, boolean, not_if, or};
use super::located;
use super::typed::Typed;
use rubato_base::{DataType, Error, Result, SqlState};
use rubato_formula::{CastContext, Comparison, Expr, build_comparison, comparable, comparison_type};
use sqlparser::ast::{self, BinaryOperator, Spanned};

impl ExpressionBinder<'_> {
    /// A comparison of two operands.
    pub fn compare(&self, comparison: Comparison, left: Typed, right: Typed) -> Result<Typed> {
        let (left, right) = self.unify(left, right)?;
        Ok(boolean(build_comparison(comparison, left, right)?))
    }

    /// Two operands where what was unknown has the type in which they are compared.
    pub(super) fn unify(&self, left: Typed, right: Typed) -> Result<((Expr, DataType), (Expr, DataType))> {
        let types = (self.context.type_of(&left), self.context.type_of(&right));
        let common = comparison_type(types.0, types.1);
        let known = |typed: Typed, data_type: DataType| match (data_type, common) {
            (DataType::Unknown, Some(common)) => {
                Ok((self.context.coerce(typed, common, CastContext::Implicit)?, common))
            }
            _ => Ok((typed.expr, data_type)),
        };
        Ok((known(left, types.0)?, known(right, types.1)?))
    }

    pub(super) fn compare_rows(
        &self,
        comparison: Comparison,
        left: &[ast::Expr],
        right: &[ast::Expr],
    ) -> Result<Typed> {
        if left.len() != right.len() || left.is_empty() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "unequal number of entries in row expressions",
            ));
        }
        let pairs: Vec<(Typed, Typed)> = left
            .iter()
            .zip(right)
            .map(|(left, right)| Ok((self.bind(left)?, self.bind(right)?)))
            .collect::<Result<_>>()?;
        let each = |comparison: Comparison| -> Result<Vec<Expr>> {
            let compare = |(left, right): &(Typed, Typed)| self.compare(comparison, left.clone(), right.clone());
            pairs.iter().map(|pair| Ok(compare(pair)?.expr)).collect()
        };
        let expr = match comparison {
            Comparison::Equal => Expr::And(each(Comparison::Equal)?),
            Comparison::NotEqual => Expr::Or(each(Comparison::NotEqual)?),
            ordered => {
                // (a, b) < (c, d) is a < c or a = c and b < d; only the last pair may be equal.
                let strict = match ordered {
                    Comparison::Less | Comparison::LessOrEqual => Comparison::Less,
                    _ => Comparison::Greater,
                };
                let (equal, strict, last) = (each(Comparison::Equal)?, each(strict)?, each(ordered)?);
                let alternatives = (0..pairs.len()).map(|index| {
                    let own = if index + 1 == pairs.len() { &last } else { &strict };
                    and(equal[..index].iter().cloned().chain([own[index].clone()]).collect())
                });
                or(alternatives.collect())
            }
        };
        Ok(boolean(expr))
    }

    pub(super) fn in_list(&self, operand: &ast::Expr, list: &[ast::Expr], negated: bool) -> Result<Typed> {
        if let Some(row) = row_of(operand) {
            let rows = list.iter().map(|item| {
                let other = row_of(item).ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "IN wants rows here"))?;
                Ok(self.compare_rows(Comparison::Equal, row, other)?.expr)
            });
            return Ok(boolean(not_if(negated, or(rows.collect::<Result<_>>()?))));
        }
        let operand_span = operand.span();
        let operand = self.bind(operand)?;
        let items: Vec<Typed> = list.iter().map(|item| self.bind(item)).collect::<Result<_>>()?;
        located(self.context, operand_span, self.in_items(operand, items, negated))
    }

    /// `operand IN (items)`. The parameters and literals of unknown type among them take the others' type.
    pub(super) fn in_items(&self, operand: Typed, items: Vec<Typed>, negated: bool) -> Result<Typed> {
        let own = self.context.type_of(&operand);
        let known = std::iter::once(&operand)
            .chain(&items)
            .map(|typed| self.context.type_of(typed));
        let hint = known
            .clone()
            .find(|data_type| *data_type != DataType::Unknown)
            .unwrap_or(DataType::Text);
        let operand = if own == DataType::Unknown {
            Typed::new(self.context.coerce(operand, hint, CastContext::Implicit)?, hint)
        } else {
            operand
        };
        let own = self.context.type_of(&operand);
        let mut pairs = Vec::with_capacity(items.len());
        for item in items {
            let (left, right) = self.unify(
                Typed {
                    data_type: own,
                    ..operand.clone()
                },
                item,
            )?;
            pairs.push(comparable("=", left, right)?);
        }
        let shared = pairs.first().map(|[left, _]| left.clone());
        let expr = match shared {
            Some(left) if pairs.iter().all(|[other, _]| *other == left) => {
                Expr::InList(Box::new(left), pairs.into_iter().map(|[_, right]| right).collect())
            }
            _ => or(pairs
                .into_iter()
                .map(|[left, right]| Expr::Compare(Comparison::Equal, Box::new(left), Box::new(right)))
                .collect()),
        };
        Ok(boolean(not_if(negated, expr)))
    }

    pub(super) fn between(
        &self,
        operand: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
    ) -> Result<Typed> {
        let position = self.operator_position(operand);
        let (operand, low, high) = (self.bind(operand)?, self.bind(low)?, self.bind(high)?);
        let (below, above) = match negated {
            false => (Comparison::GreaterOrEqual, Comparison::LessOrEqual),
            true => (Comparison::Less, Comparison::Greater),
        };
        let bounds = || {
            Ok(vec![
                self.compare(below, operand.clone(), low)?.expr,
                self.compare(above, operand.clone(), high)?.expr,
            ])
        };
        let bounds = bounds().map_err(|error: Error| error.with_position(position))?;
        Ok(boolean(if negated { Expr::Or(bounds) } else { Expr::And(bounds) }))
    }

    pub(super) fn any_all(&self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr, any: bool) -> Result<Typed> {
        let word = if any { "ANY" } else { "ALL" };
        let mut array = right;
        while let ast::Expr::Nested(inner) = array {
            array = inner;
        }
        let ast::Expr::Array(ast::Array { elem, .. }) = array else {
            return Err(
                Error::unsupported(format!("{word} over anything but ARRAY[...]")).with_hint("Use IN with a list.")
            );
        };
        let Some(comparison) = comparison_of(op) else {
            return Err(Error::unsupported(format!("{word} with operator {op}")));
        };
        match (any, comparison) {
            (true, Comparison::Equal) => self.in_list(left, elem, false),
            (false, Comparison::NotEqual) => self.in_list(left, elem, true),
            _ => {
                let operand = self.bind(left)?;
                let terms = elem
                    .iter()
                    .map(|item| Ok(self.compare(comparison, operand.clone(), self.bind(item)?)?.expr));
                let terms = terms.collect::<Result<Vec<_>>>()?;
                Ok(boolean(if any { or(terms) } else { and(terms) }))
            }
        }
    }
}

/// The items of `(a, b)` or `ROW(a, b)`.
pub(super) fn row_of(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match expr {
        ast::Expr::Tuple(items) => Some(items),
        ast::Expr::Nested(inner) => row_of(inner),
        _ => None,
    }
}

/// The comparison that an operator is.
pub(super) fn comparison_of(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessOrEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}
