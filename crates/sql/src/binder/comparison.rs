//! Comparisons: of two operands, of rows, with lists and with bounds.

use super::expression::{ExpressionBinder, and, boolean, not_if, or};
use super::located;
use super::subquery::{compared_by, query_of};
use super::typed::Typed;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{
    CastContext, Comparison, Expr, build_comparison, build_elements_comparison, cast_expr, common_type, comparable,
    comparison_type,
};
use sqlparser::ast::{self, BinaryOperator, Spanned};
use std::sync::Arc;

impl ExpressionBinder<'_> {
    /// A comparison of two operands.
    pub fn compare(&self, comparison: Comparison, left: Typed, right: Typed) -> Result<Typed> {
        let (left, right) = self.unify(left, right)?;
        Ok(boolean(build_comparison(comparison, left, right)?))
    }

    /// What is joined to text, as text: whether it is the same in every session is a matter of its type. A number of an object is not read as a name
    /// here.
    pub(super) fn as_text(&self, typed: Typed) -> Result<Typed> {
        let from = self.context.type_of(&typed);
        if from.is_text() || matches!(from, DataType::Unknown | DataType::Oid) {
            return Ok(typed);
        }
        let to = ColumnType::plain(DataType::Text);
        let expr = cast_expr(typed.expr, from, to, CastContext::Assignment)?;
        Ok(Typed {
            span: typed.span,
            ..Typed::of(expr, to)
        })
    }

    /// Two operands where what was unknown has the type in which they are compared.
    pub(super) fn unify(&self, left: Typed, right: Typed) -> Result<((Expr, DataType), (Expr, DataType))> {
        let types = (self.context.type_of(&left), self.context.type_of(&right));
        let common = comparison_type(types.0, types.1);
        let known = |typed: Typed, data_type: DataType| match (data_type, common) {
            (DataType::Unknown, Some(common)) => {
                let typed = match types {
                    (DataType::Name, _) | (_, DataType::Name) => self.name_beside_names(typed)?,
                    _ => typed,
                };
                Ok((self.context.coerce(typed, common, CastContext::Implicit)?, common))
            }
            _ => Ok((typed.expr, data_type)),
        };
        Ok((known(left, types.0)?, known(right, types.1)?))
    }

    /// A literal beside a name is one, and no longer than names are.
    fn name_beside_names(&self, literal: Typed) -> Result<Typed> {
        let text = self.context.coerce(literal, DataType::Text, CastContext::Implicit)?;
        let name = ColumnType::plain(DataType::Name);
        self.context.cast(Typed::new(text, DataType::Text), name)
    }

    pub(super) fn compare_rows(
        &self,
        comparison: Comparison,
        left: &[ast::Expr],
        right: &[ast::Expr],
    ) -> Result<Typed> {
        let pairs: Vec<(Typed, Typed)> = pairs_of(left, right)?
            .map(|(left, right)| Ok((self.bind(left)?, self.bind(right)?)))
            .collect::<Result<_>>()?;
        self.compare_pairs(comparison, &pairs)
    }

    /// A comparison of rows whose values are bound.
    pub(super) fn compare_pairs(&self, comparison: Comparison, pairs: &[(Typed, Typed)]) -> Result<Typed> {
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

    /// `operand IN (items)`. Several items that read no column meet in one type, together with the operand, as in PostgreSQL:
    /// `real_column IN (1.1, 2.2)` compares with values of `real`. Where there is no such type, and for the other items, each
    /// comparison stands for itself.
    pub(super) fn in_items(&self, operand: Typed, items: Vec<Typed>, negated: bool) -> Result<Typed> {
        let (listed, others): (Vec<Typed>, Vec<Typed>) = items.into_iter().partition(|item| item.expr.is_constant());
        let mut pairs = match self.list_type(&operand, &listed) {
            Some(common) => self.list_pairs(&operand, listed, common)?,
            None => self.single_pairs(&operand, listed)?,
        };
        let listed = pairs.len();
        pairs.extend(self.single_pairs(&operand, others)?);
        if !negated && pairs.len() == 1 {
            // A list of one is an equality.
            return Ok(boolean(or(pairs.into_iter().map(equality).collect())));
        }
        let has_same_left = |pairs: &[[Expr; 2]]| pairs.windows(2).all(|pair| pair[0][0] == pair[1][0]);
        let expr = if has_same_left(&pairs) {
            in_list(pairs)
        } else if has_same_left(&pairs[..listed]) && listed > 1 {
            let rest = pairs.split_off(listed);
            or(std::iter::once(in_list(pairs))
                .chain(rest.into_iter().map(equality))
                .collect())
        } else {
            or(pairs.into_iter().map(equality).collect())
        };
        Ok(boolean(not_if(negated, expr)))
    }

    /// The type that several items of a list are given; `None` if each is compared by itself.
    fn list_type(&self, operand: &Typed, items: &[Typed]) -> Option<DataType> {
        let types: Vec<DataType> = std::iter::once(operand)
            .chain(items)
            .map(|typed| self.context.type_of(typed))
            .collect();
        common_type("IN", &types).ok().filter(|_| items.len() > 1)
    }

    fn list_pairs(&self, operand: &Typed, items: Vec<Typed>, common: DataType) -> Result<Vec<[Expr; 2]>> {
        let operand = self.known_operand(operand.clone(), common)?;
        let pair = |item: Typed| {
            let item = match (self.context.type_of(&item), common) {
                (DataType::Unknown, DataType::Name) => self.name_beside_names(item)?,
                _ => item,
            };
            let item = self.context.coerce(item, common, CastContext::Implicit)?;
            comparable("=", (operand.expr.clone(), operand.data_type), (item, common))
        };
        items.into_iter().map(pair).collect()
    }

    fn single_pairs(&self, operand: &Typed, items: Vec<Typed>) -> Result<Vec<[Expr; 2]>> {
        let pair = |item: Typed| {
            let (left, right) = self.unify(operand.clone(), item)?;
            comparable("=", left, right)
        };
        items.into_iter().map(pair).collect()
    }

    /// An operand with the type that it has, or that it takes if it is unknown and compared with values of type `other`.
    pub(super) fn known_operand(&self, operand: Typed, other: DataType) -> Result<Typed> {
        let own = self.context.type_of(&operand);
        let taken = comparison_type(own, other).filter(|_| own == DataType::Unknown);
        Ok(match taken {
            Some(taken) => Typed::new(self.context.coerce(operand, taken, CastContext::Implicit)?, taken),
            None => Typed {
                data_type: own,
                ..operand
            },
        })
    }

    pub(super) fn between(
        &self,
        operand: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
    ) -> Result<Typed> {
        // What the parser makes of SYMMETRIC: either bound may be the lower one.
        if let ast::Expr::UnaryOp {
            op: ast::UnaryOperator::PGPrefixFactorial,
            expr: low,
        } = low
        {
            let straight = self.between(operand, low, high, negated)?.expr;
            let reversed = self.between(operand, high, low, negated)?.expr;
            let both = vec![straight, reversed];
            return Ok(boolean(if negated { Expr::And(both) } else { Expr::Or(both) }));
        }
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
        if super::comparison::comparison_of(op).is_none() {
            return self.any_pattern((left, &op.to_string()), right, any);
        }
        let comparison = compared_by(op, if any { "ANY" } else { "ALL" })?;
        if let Some(query) = query_of(right) {
            return self.any_subquery(left, comparison, query, any);
        }
        let position = self.operator_position(left);
        let operand = self.bind(left)?;
        let compared = match self.listed_elements(right)? {
            Some(items) => self.compare_items(comparison, operand, items, any),
            None => self.compare_elements(comparison, operand, self.bind(right)?, any),
        };
        compared.map_err(|error| error.with_position(position))
    }

    /// The items of `ARRAY[...]`, also where it is cast to an array type.
    fn listed_elements(&self, array: &ast::Expr) -> Result<Option<Vec<Typed>>> {
        match array {
            ast::Expr::Nested(inner) => self.listed_elements(inner),
            // What lists arrays has the elements of all of them.
            ast::Expr::Array(ast::Array { elem, .. }) if !elem.iter().any(super::array::is_listed) => {
                let items = elem.iter().map(|item| self.bind(item));
                items.collect::<Result<Vec<_>>>().map(Some)
            }
            ast::Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                let array_type = self.context.bind_type(data_type)?;
                let of_items = |data_type| ColumnType {
                    data_type,
                    ..array_type
                };
                let to = array_type.data_type.element().map(of_items);
                let (Some(to), Some(items)) = (to, self.listed_elements(expr)?) else {
                    return Ok(None);
                };
                let items = items.into_iter().map(|item| self.context.cast(item, to));
                items.collect::<Result<Vec<_>>>().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The items of `ARRAY[...]` meet in one type before they are compared with the operand.
    fn compare_items(&self, comparison: Comparison, operand: Typed, items: Vec<Typed>, any: bool) -> Result<Typed> {
        let (items, common) = self.common("ARRAY", items)?;
        let element = common.data_type;
        if element.element().is_some() {
            let array = self.array_of_items(items, element)?;
            return self.compare_elements(comparison, operand, array, any);
        }
        let operand = self.known_operand(operand, element)?;
        let pair = |item: Expr| {
            comparable(
                comparison.symbol(),
                (operand.expr.clone(), operand.data_type),
                (item, element),
            )
        };
        let mut pairs = items.into_iter().map(pair).collect::<Result<Vec<_>>>()?;
        let is_in_list = matches!(
            (any, comparison),
            (true, Comparison::Equal) | (false, Comparison::NotEqual)
        );
        if is_in_list && pairs.len() != 1 {
            return Ok(boolean(not_if(!any, in_list(pairs))));
        }
        let compared = |[left, right]: [Expr; 2]| Expr::Compare(comparison, Box::new(left), Box::new(right));
        let terms = pairs.drain(..).map(compared).collect();
        Ok(boolean(if any { or(terms) } else { and(terms) }))
    }

    /// A comparison with the elements of an array that is known when the statement runs. A parameter or literal of unknown type is
    /// an array of what is compared with it.
    pub(super) fn compare_elements(
        &self,
        comparison: Comparison,
        operand: Typed,
        array: Typed,
        any: bool,
    ) -> Result<Typed> {
        let (own, given) = (self.context.type_of(&operand), self.context.type_of(&array));
        let element = match given.element() {
            Some(element) => element,
            None if given == DataType::Unknown => comparison_type(own, given).unwrap_or(DataType::Text),
            None => {
                let message = "op ANY/ALL (array) requires array on right side";
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        let array_type = match given {
            DataType::Unknown => element
                .array()
                .ok_or_else(|| Error::unsupported(format!("an array of type {element}")))?,
            given => given,
        };
        let array = self.context.coerce(array, array_type, CastContext::Implicit)?;
        let known = comparison_type(own, element).filter(|_| own == DataType::Unknown);
        let operand = match known {
            Some(known) => (self.context.coerce(operand, known, CastContext::Implicit)?, known),
            None => (operand.expr, own),
        };
        let compared = build_elements_comparison(operand, comparison, (array, element), !any)?;
        Ok(boolean(compared))
    }
}

fn equality([left, right]: [Expr; 2]) -> Expr {
    Expr::Compare(Comparison::Equal, Box::new(left), Box::new(right))
}

/// Pairs that have the same left side.
fn in_list(pairs: Vec<[Expr; 2]>) -> Expr {
    let left = pairs
        .first()
        .map_or(Expr::Literal(Value::Null), |[left, _]| left.clone());
    let items = pairs.into_iter().map(|[_, right]| right).collect();
    Expr::InList(Box::new(left), Arc::new(items))
}

/// The items of two rows side by side. 42601 where one has more.
pub(super) fn pairs_of<'a>(
    left: &'a [ast::Expr],
    right: &'a [ast::Expr],
) -> Result<impl Iterator<Item = (&'a ast::Expr, &'a ast::Expr)>> {
    match left.len() == right.len() && !left.is_empty() {
        true => Ok(left.iter().zip(right)),
        false => Err(Error::new(
            SqlState::SYNTAX_ERROR,
            "unequal number of entries in row expressions",
        )),
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
        BinaryOperator::PGCustomBinaryOperator(parts) => return named_comparison(parts),
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessOrEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// The symbol of an operator that is no comparison. 0A000 for those that this version does not have.
pub(super) fn symbol_of(op: &BinaryOperator) -> Result<&str> {
    Ok(match op {
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Modulo => "%",
        BinaryOperator::PGExp => "^",
        BinaryOperator::StringConcat => "||",
        BinaryOperator::BitwiseAnd => "&",
        BinaryOperator::BitwiseOr => "|",
        BinaryOperator::PGBitwiseXor => "#",
        BinaryOperator::PGBitwiseShiftLeft => "<<",
        BinaryOperator::PGBitwiseShiftRight => ">>",
        BinaryOperator::PGRegexMatch => "~",
        BinaryOperator::PGRegexIMatch => "~*",
        BinaryOperator::PGRegexNotMatch => "!~",
        BinaryOperator::PGRegexNotIMatch => "!~*",
        BinaryOperator::PGLikeMatch => "~~",
        BinaryOperator::PGILikeMatch => "~~*",
        BinaryOperator::PGNotLikeMatch => "!~~",
        BinaryOperator::PGNotILikeMatch => "!~~*",
        BinaryOperator::PGStartsWith => "^@",
        BinaryOperator::AtArrow => "@>",
        BinaryOperator::ArrowAt => "<@",
        BinaryOperator::PGOverlap => "&&",
        BinaryOperator::Arrow => "->",
        BinaryOperator::LongArrow => "->>",
        BinaryOperator::HashArrow => "#>",
        BinaryOperator::HashLongArrow => "#>>",
        BinaryOperator::HashMinus => "#-",
        BinaryOperator::Question => "?",
        BinaryOperator::QuestionAnd => "?&",
        BinaryOperator::QuestionPipe => "?|",
        BinaryOperator::AtQuestion => "@?",
        BinaryOperator::AtAt => "@@",
        BinaryOperator::Custom(symbol) => symbol,
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.last() {
            Some(symbol) => symbol,
            None => return Err(Error::unsupported(format!("operator {op}"))),
        },
        other => return Err(Error::unsupported(format!("operator {other}"))),
    })
}

/// `OPERATOR(pg_catalog.=)` and its kin.
fn named_comparison(path: &[String]) -> Option<Comparison> {
    let symbol = match path {
        [symbol] => symbol,
        [schema, symbol] if schema == "pg_catalog" => symbol,
        _ => return None,
    };
    Some(match symbol.as_str() {
        "=" => Comparison::Equal,
        "<>" | "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// CASE of an operand that is another one each time it is evaluated, of the comparisons with each value: it is compared as it is.
pub(super) fn switch(tests: Vec<(Expr, Expr)>, otherwise: Box<Expr>) -> Result<Expr> {
    let mut operand = None;
    let mut branches = Vec::with_capacity(tests.len());
    for (test, result) in tests {
        let Expr::Compare(Comparison::Equal, own, value) = test else {
            return Err(of_several_types());
        };
        if operand.get_or_insert_with(|| own.clone()) != &own {
            return Err(of_several_types());
        }
        branches.push((*value, result));
    }
    match operand {
        Some(operand) => Ok(Expr::Switch {
            operand,
            branches,
            otherwise,
        }),
        None => Ok(*otherwise),
    }
}

fn of_several_types() -> Error {
    Error::unsupported("CASE of a volatile operand that is compared as several types")
        .with_hint("Cast the operand to the type of the values.")
}
