//! Scalar expressions: from the syntax tree to typed expressions.

use super::comparison::{comparison_of, pairs_of, row_of, switch, symbol_of};
use super::naming::{column_of, found_in};
use super::number::{number_value, signed_number, signed_value};
use super::scope::{Found, Scope};
use super::subquery::query_of;
use super::typed::{Typed, shared_modifier};
use super::window::Windows;
use super::{Context, located};
use crate::catalog::SchemaId;
use crate::parser::syntax::fold;
use crate::plan::AggregateCall;
use crate::system_tables::ObjectKind;
use rubato_base::text_format::TextContext;
use rubato_base::{Array, ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{
    ArgumentType, CastContext, Comparison, Expr, Volatility, common_type, comparable, resolve_function,
    resolve_operator,
};
use sqlparser::ast::{self, BinaryOperator, Spanned, UnaryOperator};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Column numbers from here on stand for the results of aggregate calls.
pub(crate) const AGGREGATE_BASE: usize = 1 << 24;
/// Column numbers from here on stand for the results of calls with OVER.
pub(crate) const WINDOW_BASE: usize = 1 << 27;
/// How deep an expression may nest here; the parser's own limit is lower, chains of operators count one each.
const DEPTH_MAX: usize = 1800;

/// Binds the expressions of one clause.
pub(crate) struct ExpressionBinder<'a> {
    /// The statement.
    pub context: &'a Context<'a>,
    /// The columns in reach.
    pub scope: &'a Scope,
    /// Where aggregate calls are collected; without it they are refused.
    pub aggregates: Option<&'a RefCell<Vec<AggregateCall>>>,
    /// The name of the clause for errors.
    pub clause: &'static str,
    /// The name of the clause if it may ask no query.
    pub(super) without_subqueries: Option<&'static str>,
    pub(super) inside_aggregate: Cell<bool>,
    /// Where calls of GROUPING are collected; without it they are refused.
    pub(super) groupings: Option<&'a RefCell<Vec<Vec<Expr>>>>,
    /// Where calls with OVER are collected; without it they are refused.
    pub(super) windows: Option<&'a Windows<'a>>,
    /// Why no such call may stand here, within another one.
    pub(super) inside_window: Cell<Option<&'static str>>,
    /// Whether what is bound may not be evaluated at all, and how often that was said.
    pub(super) conditional: Cell<usize>,
    /// What is being bound that takes no functions of rows.
    pub(super) without_sets: Cell<Option<&'static str>>,
    depth: Cell<usize>,
}

impl<'a> ExpressionBinder<'a> {
    /// A binder that refuses aggregates.
    pub fn new(context: &'a Context<'a>, scope: &'a Scope, clause: &'static str) -> ExpressionBinder<'a> {
        ExpressionBinder {
            context,
            scope,
            aggregates: None,
            clause,
            without_subqueries: super::subquery::refused_in(clause),
            inside_aggregate: Cell::new(false),
            groupings: None,
            windows: None,
            inside_window: Cell::new(None),
            conditional: Cell::new(0),
            without_sets: Cell::new(None),
            depth: Cell::new(0),
        }
    }

    /// A binder that collects aggregate calls: the call's result is column [`AGGREGATE_BASE`] and its place.
    pub fn with_aggregates(mut self, calls: &'a RefCell<Vec<AggregateCall>>) -> ExpressionBinder<'a> {
        self.aggregates = Some(calls);
        self
    }

    /// A binder that collects calls of GROUPING.
    pub(super) fn with_groupings(mut self, groupings: &'a RefCell<Vec<Vec<Expr>>>) -> ExpressionBinder<'a> {
        self.groupings = Some(groupings);
        self
    }

    /// A binder that collects calls with OVER: the call's result is column [`WINDOW_BASE`] and its place.
    pub(super) fn with_windows(mut self, windows: &'a Windows<'a>) -> ExpressionBinder<'a> {
        self.windows = Some(windows);
        self
    }

    /// Binds an expression that must be a truth value.
    pub fn condition(&self, expr: &ast::Expr) -> Result<Expr> {
        let typed = self.bind(expr)?;
        located(self.context, expr.span(), self.context.condition(typed, self.clause))
    }

    /// Binds any expression.
    pub fn bind(&self, expr: &ast::Expr) -> Result<Typed> {
        if self.depth.get() > DEPTH_MAX {
            return Err(Error::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                "stack depth limit exceeded",
            ));
        }
        if let ast::Expr::Nested(inner) = expr {
            // As deep as the text nests, and there is stack for that.
            return self.bind(inner);
        }
        self.depth.set(self.depth.get() + 1);
        let bound = self.bind_inner(expr);
        self.depth.set(self.depth.get() - 1);
        bound
    }

    fn bind_inner(&self, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as Ast;
        match expr {
            // A keyword of PostgreSQL: a function without brackets.
            Ast::Identifier(name) if name.quote_style.is_none() && fold(name) == "current_schema" => {
                self.function_call("current_schema", Vec::new())
            }
            Ast::Identifier(name) => self.column(std::slice::from_ref(name)),
            Ast::CompoundIdentifier(names) => self.column(names),
            Ast::Nested(inner) => self.bind(inner),
            Ast::Value(value) => self.value(value),
            Ast::TypedString(typed) => self.typed_string(typed),
            Ast::Interval(interval) => self.interval(interval),
            Ast::UnaryOp { op, expr: operand } => self.unary(expr, op, operand),
            Ast::BinaryOp {
                op: BinaryOperator::And | BinaryOperator::Or,
                ..
            } => self.connective(expr),
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right),
            Ast::IsNull(operand) => self.is_null(operand, false),
            Ast::IsNotNull(operand) => self.is_null(operand, true),
            Ast::IsTrue(operand) => self.is_truth(operand, Some(true), false),
            Ast::IsNotTrue(operand) => self.is_truth(operand, Some(true), true),
            Ast::IsFalse(operand) => self.is_truth(operand, Some(false), false),
            Ast::IsNotFalse(operand) => self.is_truth(operand, Some(false), true),
            Ast::IsUnknown(operand) => self.is_truth(operand, None, false),
            Ast::IsNotUnknown(operand) => self.is_truth(operand, None, true),
            Ast::IsNormalized { expr, form, negated } => self.is_normalised(expr, *form, *negated),
            Ast::IsDistinctFrom(left, right) => self.distinct(left, right, false),
            Ast::IsNotDistinctFrom(left, right) => self.distinct(left, right, true),
            Ast::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Ast::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, low, high, *negated),
            Ast::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(
                if *negated { "!~~" } else { "~~" },
                expr,
                pattern,
                escape_char.as_deref(),
            ),
            Ast::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(
                if *negated { "!~~*" } else { "~~*" },
                expr,
                pattern,
                escape_char.as_deref(),
            ),
            Ast::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => self.cast(expr, data_type),
            Ast::Case {
                operand,
                conditions,
                else_result,
                ..
            } => {
                let without_sets = self.without_sets.replace(Some("CASE"));
                let case = self.case(operand.as_deref(), conditions, else_result.as_deref());
                self.without_sets.set(without_sets);
                case
            }
            Ast::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.any_all(left, compare_op, right, true),
            Ast::AllOp {
                left,
                compare_op,
                right,
            } => self.any_all(left, compare_op, right, false),
            Ast::Array(ast::Array { elem, .. }) => self.array(elem),
            Ast::CompoundFieldAccess { root, access_chain } => self.access(expr, root, access_chain),
            Ast::Collate { expr, collation } => self.collate(expr, collation),
            Ast::Function(function) => self.function(function),
            other => self.special_form(other),
        }
    }

    fn column(&self, names: &[ast::Ident]) -> Result<Typed> {
        let span = names.iter().fold(names[0].span, |span, name| span.union(&name.span));
        let found = match self.find_column(names) {
            Err(error) if error.code() == SqlState::UNDEFINED_COLUMN && self.system_column(names).is_some() => {
                let own = self.system_column(names).unwrap_or(Err(error));
                return located(self.context, span, own).map(|typed| typed.at(span));
            }
            Err(error) if self.is_free(names, &error) => {
                let outer = self
                    .context
                    .outer_column(names, &|scope| found_in(scope, names, self.schema_of(names)));
                if outer.is_none()
                    && names.len() == 1
                    && self.whole_row(&ast::Expr::Identifier(names[0].clone())).is_some()
                {
                    let error = Error::unsupported(format!("the row of \"{}\" as a value", fold(&names[0])));
                    return located(self.context, span, Err(error));
                }
                return located(self.context, span, outer.unwrap_or(Err(error))).map(|typed| typed.at(span));
            }
            found => located(self.context, span, found)?,
        };
        self.context.note_column(found.global, span);
        self.context.note_named(names, 0, self.scope, found);
        Ok(Typed {
            expr: self.scope.value_of(found.global),
            data_type: found.column_type.data_type,
            modifier: found.column_type.modifier,
            span,
        })
    }

    fn find_column(&self, names: &[ast::Ident]) -> Result<Found> {
        column_of(self.scope, names, self.schema_of(names))
    }

    /// The schema that a name begins with, behind the database if that is named, too.
    fn schema_of(&self, names: &[ast::Ident]) -> Option<SchemaId> {
        let schema = match names {
            [schema, _, _] => schema,
            [database, schema, _, _] if self.context.is_own_database(&fold(database)) => schema,
            _ => return None,
        };
        let found = self.context.path.schema(&fold(schema), self.context.catalog);
        found.ok().flatten()
    }

    /// Whether a name that was not found here may be one of a query around this one: not if its relation is here.
    fn is_free(&self, names: &[ast::Ident], error: &Error) -> bool {
        match names {
            [_] => error.code() == SqlState::UNDEFINED_COLUMN,
            _ => error.code() == SqlState::UNDEFINED_TABLE,
        }
    }

    fn value(&self, value: &ast::ValueWithSpan) -> Result<Typed> {
        let text = |text: &str| {
            if text.contains('\0') {
                let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
                let error = Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message);
                return located(self.context, value.span, Err(error));
            }
            Ok(Typed::new(Expr::Literal(Value::text(text)), DataType::Unknown).at(value.span))
        };
        match &value.value {
            ast::Value::Number(number, _) => located(self.context, value.span, number_value(number)),
            ast::Value::SingleQuotedString(content)
            | ast::Value::EscapedStringLiteral(content)
            | ast::Value::UnicodeStringLiteral(content)
            | ast::Value::NationalStringLiteral(content) => text(content),
            ast::Value::DollarQuotedString(quoted) => text(&quoted.value),
            ast::Value::Boolean(truth) => Ok(Typed::new(Expr::Literal(Value::Bool(*truth)), DataType::Bool)),
            ast::Value::Null => Ok(Typed::new(Expr::Literal(Value::Null), DataType::Unknown)),
            ast::Value::Placeholder(name) => {
                let referred = self.context.parameters.borrow_mut().refer(name);
                let (index, data_type) = located(self.context, value.span, referred)?;
                Ok(Typed::new(Expr::Parameter(index), data_type))
            }
            ast::Value::HexStringLiteral(_) | ast::Value::SingleQuotedByteStringLiteral(_) => {
                Err(Error::unsupported("a bit string literal").with_hint("For bytes, write '\\x...'::bytea."))
            }
            other => Err(Error::unsupported(format!("the literal {other}"))),
        }
    }

    fn typed_string(&self, typed: &ast::TypedString) -> Result<Typed> {
        let to = located(self.context, typed.value.span, self.context.bind_type(&typed.data_type))?;
        let literal = self.value(&typed.value)?;
        located(self.context, typed.value.span, self.context.cast(literal, to))
    }

    fn unary(&self, whole: &ast::Expr, op: &UnaryOperator, operand: &ast::Expr) -> Result<Typed> {
        let symbol = match op {
            UnaryOperator::Not => {
                let not = ExpressionBinder {
                    clause: "NOT",
                    ..self.same()
                };
                let inner = not.condition(operand)?;
                return Ok(boolean(Expr::Not(Box::new(inner))));
            }
            UnaryOperator::Minus => "-",
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            other => return Err(Error::unsupported(format!("operator {other}"))),
        };
        if let Some((number, is_negative)) = signed_number(whole) {
            return signed_value(number, is_negative);
        }
        let typed = self.bind(operand)?;
        let resolved = located(
            self.context,
            whole.span(),
            resolve_operator(symbol, None, self.context.type_of(&typed)),
        )?;
        self.call(resolved, vec![typed], whole.span())
    }

    /// AND and OR chains, without recursion along the chain.
    fn connective(&self, expr: &ast::Expr) -> Result<Typed> {
        let ast::Expr::BinaryOp { op, .. } = expr else {
            return self.bind(expr);
        };
        let mut terms = Vec::new();
        let mut rest = expr;
        while let ast::Expr::BinaryOp { left, op: next, right } = rest
            && next == op
        {
            terms.push(&**right);
            rest = left;
        }
        terms.push(rest);
        let is_and = *op == BinaryOperator::And;
        let clause = ExpressionBinder {
            clause: if is_and { "AND" } else { "OR" },
            ..self.same()
        };
        let mut bound = Vec::with_capacity(terms.len());
        for term in terms.into_iter().rev() {
            match (clause.condition(term)?, is_and) {
                (Expr::And(inner), true) | (Expr::Or(inner), false) => bound.extend(inner),
                (other, _) => bound.push(other),
            }
        }
        Ok(boolean(if is_and { Expr::And(bound) } else { Expr::Or(bound) }))
    }

    fn same(&self) -> ExpressionBinder<'a> {
        ExpressionBinder {
            context: self.context,
            scope: self.scope,
            aggregates: self.aggregates,
            clause: self.clause,
            without_subqueries: self.without_subqueries,
            inside_aggregate: self.inside_aggregate.clone(),
            groupings: self.groupings,
            windows: self.windows,
            inside_window: self.inside_window.clone(),
            conditional: self.conditional.clone(),
            depth: self.depth.clone(),
            without_sets: self.without_sets.clone(),
        }
    }

    fn binary(&self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr) -> Result<Typed> {
        let position = || self.operator_position(left);
        if *op == BinaryOperator::Overlaps {
            return self.overlaps(left, right);
        }
        if let Some(comparison) = comparison_of(op) {
            if let (Some(left), Some(right)) = (row_of(left), row_of(right)) {
                return self.compare_rows(comparison, left, right);
            }
            if let (Some(row), Some(query)) = (row_of(left), query_of(right)) {
                return self.row_with_subquery((row, position()), comparison, query);
            }
            let (left, right) = (self.bind(left)?, self.bind(right)?);
            return self
                .compare(comparison, left, right)
                .map_err(|error| error.with_position(position()));
        }
        let symbol = symbol_of(op)?;
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        self.operator(symbol, left, right)
            .map_err(|error| error.with_position(position()))
    }

    pub(super) fn operator(&self, symbol: &str, left: Typed, right: Typed) -> Result<Typed> {
        let types = |left: &Typed, right: &Typed| (self.context.type_of(left), self.context.type_of(right));
        let own = types(&left, &right);
        let resolved = resolve_operator(symbol, Some(own.0), own.1)?;
        let (left, right) = match symbol {
            "||" if resolved.result_type == DataType::Text => (self.as_text(left)?, self.as_text(right)?),
            _ => return self.call(resolved, vec![left, right], sqlparser::tokenizer::Span::empty()),
        };
        let own = types(&left, &right);
        let resolved = resolve_operator(symbol, Some(own.0), own.1)?;
        self.call(resolved, vec![left, right], sqlparser::tokenizer::Span::empty())
    }

    fn is_null(&self, operand: &ast::Expr, negated: bool) -> Result<Typed> {
        if let Some(row) = self.whole_row(operand) {
            return self.row_is_null(&row.columns, negated);
        }
        if let Some(items) = row_of(operand) {
            return self.row_is_null(items, negated);
        }
        let typed = self.context.settle(self.bind(operand)?)?;
        Ok(boolean(not_if(negated, Expr::IsNull(Box::new(typed.expr)))))
    }

    fn is_truth(&self, operand: &ast::Expr, truth: Option<bool>, negated: bool) -> Result<Typed> {
        let clause = match (truth, negated) {
            (Some(true), false) => "IS TRUE",
            (Some(true), true) => "IS NOT TRUE",
            (Some(false), false) => "IS FALSE",
            (Some(false), true) => "IS NOT FALSE",
            (None, false) => "IS UNKNOWN",
            (None, true) => "IS NOT UNKNOWN",
        };
        let operand = ExpressionBinder { clause, ..self.same() }.condition(operand)?;
        let expr = match truth {
            None => not_if(negated, Expr::IsNull(Box::new(operand))),
            Some(truth) => {
                let distinct = Expr::IsDistinct(Box::new(operand), Box::new(Expr::Literal(Value::Bool(truth))));
                not_if(!negated, distinct)
            }
        };
        Ok(boolean(expr))
    }

    fn distinct(&self, left: &ast::Expr, right: &ast::Expr, negated: bool) -> Result<Typed> {
        if let (Some(left), Some(right)) = (row_of(left), row_of(right)) {
            let pairs = pairs_of(left, right)?;
            let each = pairs.map(|(left, right)| Ok(self.distinct(left, right, false)?.expr));
            return Ok(boolean(not_if(negated, or(each.collect::<Result<_>>()?))));
        }
        let position = self.operator_position(left);
        let (left, right) = self.unify(self.bind(left)?, self.bind(right)?)?;
        let [left, right] = comparable("=", left, right).map_err(|error| error.with_position(position))?;
        Ok(boolean(not_if(
            negated,
            Expr::IsDistinct(Box::new(left), Box::new(right)),
        )))
    }

    fn like(
        &self,
        symbol: &str,
        operand: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> Result<Typed> {
        if let (Some(patterns), None) = (super::templates::all_of(pattern), escape) {
            return self.any_pattern((operand, symbol), patterns, false);
        }
        let position = self.operator_position(operand);
        let operand = self.bind(operand)?;
        let mut pattern = self.bind(pattern)?;
        if let Some(escape) = escape {
            let escape = self.bind(escape)?;
            pattern = self.function_call("like_escape", vec![pattern, escape])?;
        }
        self.operator(symbol, operand, pattern)
            .map_err(|error| error.with_position(position))
    }

    fn cast(&self, operand: &ast::Expr, data_type: &ast::DataType) -> Result<Typed> {
        let span = operand.span();
        if let Some(domain) = self.context.domain(data_type)? {
            return located(self.context, span, self.cast_to_domain(operand, &domain));
        }
        let to = located(self.context, span, self.context.bind_type(data_type))?;
        // PostgreSQL's catalogs use 'name'::regclass; the number of the relation is looked up here.
        if let ast::DataType::Regclass = data_type
            && let Some(typed) = self.context.relation_number(operand)?
        {
            return Ok(typed);
        }
        if let (Some(element), Some(items)) = (to.element(), super::array::listed(operand)) {
            return self.cast_array(items, element, to);
        }
        let typed = self.bind(operand)?;
        let element = to
            .element()
            .and_then(|own| ObjectKind::of_type(own.data_type, own.modifier));
        if let (Some(kind), Expr::Literal(Value::Text(text))) = (element, &typed.expr) {
            return located(self.context, span, self.numbers_of_objects(kind, text, to));
        }
        if let Some(kind) = ObjectKind::of_type(to.data_type, to.modifier) {
            let number = self.number_of_object(kind, typed);
            return located(self.context, span, number);
        }
        located(self.context, span, self.context.cast(typed, to))
    }

    /// `'{int4, text}'::regtype[]`
    fn numbers_of_objects(&self, kind: ObjectKind, text: &str, to: ColumnType) -> Result<Typed> {
        let names = Array::parse(ColumnType::plain(DataType::Text), text, &TextContext::default())?;
        let number = |name: &Value| match name {
            Value::Null => Ok(Expr::Literal(Value::Null)),
            name => {
                let name = Typed::new(Expr::Literal(name.clone()), DataType::Text);
                self.number_of_object(kind, name).map(|number| number.expr)
            }
        };
        let numbers = names.items.iter().map(number).collect::<Result<Vec<_>>>()?;
        let array = self.array_of_items(numbers, DataType::Oid)?;
        Ok(Typed {
            modifier: to.modifier,
            ..array
        })
    }

    /// `regclass` and its kin: a name is looked up, a number is one.
    pub(super) fn number_of_object(&self, kind: ObjectKind, operand: Typed) -> Result<Typed> {
        let from = self.context.type_of(&operand);
        let number = if from == DataType::Unknown || from.is_text() {
            let text = self.context.cast(operand, ColumnType::plain(DataType::Text))?;
            self.function_call(kind.input(), vec![text])?
        } else {
            self.context.cast(operand, ColumnType::plain(DataType::Oid))?
        };
        let ColumnType { data_type, modifier } = kind.column_type();
        Ok(Typed {
            data_type,
            modifier,
            ..number
        })
    }

    fn case(
        &self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let operand = operand.map(|operand| self.bind(operand)).transpose()?;
        let mut tests = Vec::with_capacity(conditions.len());
        let mut results = VecDeque::with_capacity(conditions.len() + 1);
        let before = self.conditional.get();
        for branch in conditions {
            tests.push(match &operand {
                Some(operand) => {
                    let value = self.bind(&branch.condition)?;
                    let compared = self.compare(Comparison::Equal, operand.clone(), value);
                    located(self.context, branch.condition.span(), compared)?.expr
                }
                None => ExpressionBinder {
                    clause: "CASE/WHEN",
                    ..self.same()
                }
                .condition(&branch.condition)?,
            });
            // From here on it depends on the condition whether something is evaluated.
            self.conditional.set(before + 1);
            results.push_back(self.bind(&branch.result)?);
        }
        // As in PostgreSQL, the type is found from ELSE on.
        results.push_front(match otherwise {
            Some(otherwise) => self.bind(otherwise)?,
            None => Typed::new(Expr::Literal(Value::Null), DataType::Unknown),
        });
        self.conditional.set(before);
        let span = conditions
            .first()
            .map_or_else(sqlparser::tokenizer::Span::empty, |branch| branch.result.span());
        let (results, column_type) = located(self.context, span, self.common("CASE", results.into()))?;
        let mut results = results.into_iter();
        let otherwise = Box::new(results.next().unwrap_or(Expr::Literal(Value::Null)));
        let is_drawn = operand.is_some_and(|operand| operand.expr.volatility() == Volatility::Volatile);
        let branches: Vec<(Expr, Expr)> = tests.into_iter().zip(results).collect();
        let case = match is_drawn {
            true => switch(branches, otherwise)?,
            false => Expr::Case { branches, otherwise },
        };
        Ok(Typed::of(case, column_type))
    }

    /// Expressions converted to the type in which they meet. It has the length or precision that all of them have.
    pub(super) fn common(&self, what: &str, items: Vec<Typed>) -> Result<(Vec<Expr>, ColumnType)> {
        let types: Vec<DataType> = items.iter().map(|item| self.context.type_of(item)).collect();
        let common = common_type(what, &types)?;
        let own: Vec<ColumnType> = items.iter().map(Typed::column_type).collect();
        let column_type = ColumnType {
            data_type: common,
            modifier: shared_modifier(&own, common),
        };
        let convert = |item| self.context.coerce(item, common, CastContext::Implicit);
        Ok((items.into_iter().map(convert).collect::<Result<_>>()?, column_type))
    }

    fn collate(&self, expr: &ast::Expr, collation: &ast::ObjectName) -> Result<Typed> {
        let name = super::object_name(collation)?;
        match name.last().map(|last| last.to_ascii_lowercase()).as_deref() {
            Some("c" | "posix" | "default" | "ucs_basic") => self.bind(expr),
            _ => {
                Err(Error::unsupported(format!("collation {collation}"))
                    .with_hint("Text is ordered by its bytes (\"C\")."))
            }
        }
    }

    /// A call of a function by name.
    pub(super) fn function_call(&self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        let types: Vec<DataType> = arguments
            .iter()
            .map(|argument| self.context.type_of(argument))
            .collect();
        let resolved = resolve_function(name, &types)?;
        self.call(resolved, arguments, sqlparser::tokenizer::Span::empty())
    }

    pub(super) fn call(
        &self,
        resolved: rubato_formula::Resolved,
        arguments: Vec<Typed>,
        span: sqlparser::tokenizer::Span,
    ) -> Result<Typed> {
        let wanted = resolved.function.entry().arguments;
        let convert = |(place, (argument, to)): (usize, (Typed, &DataType))| {
            // Where any type will do, a number of an object is its name.
            match wanted.get(place).or(wanted.last()) {
                Some(ArgumentType::Any) => self.context.coerce_any(argument, *to),
                _ => self.context.coerce(argument, *to, CastContext::Implicit),
            }
        };
        let arguments = arguments
            .into_iter()
            .zip(&resolved.argument_types)
            .enumerate()
            .map(convert)
            .collect::<Result<_>>();
        let arguments = located(self.context, span, arguments)?;
        let result = ObjectKind::given_by(resolved.function.name()).map(ObjectKind::column_type);
        Ok(Typed {
            modifier: result.map_or(-1, |result| result.modifier),
            ..Typed::new(
                Expr::Call {
                    function: resolved.function,
                    arguments,
                },
                resolved.result_type,
            )
        })
    }

    /// Where the operator behind `left` stands.
    pub(super) fn operator_position(&self, left: &ast::Expr) -> Option<u32> {
        self.context.places().position_after(left.span())
    }
}

pub(crate) fn boolean(expr: Expr) -> Typed {
    Typed::new(expr, DataType::Bool)
}

pub(super) fn not_if(negated: bool, expr: Expr) -> Expr {
    if negated { Expr::Not(Box::new(expr)) } else { expr }
}

pub(crate) fn and(mut terms: Vec<Expr>) -> Expr {
    if terms.len() == 1 {
        terms.remove(0)
    } else {
        Expr::And(terms)
    }
}

pub(crate) fn or(mut terms: Vec<Expr>) -> Expr {
    if terms.len() == 1 {
        terms.remove(0)
    } else {
        Expr::Or(terms)
    }
}
