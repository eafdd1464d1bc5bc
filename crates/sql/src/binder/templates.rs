//! Forms of expressions that are short for others: those are written, and bound in their place.

use super::array::{is_listed, listed};
use super::expression::ExpressionBinder;
use super::located;
use super::records::function_name;
use super::typed::Typed;
use crate::parser::syntax::{Source, parse_expression};
use rubato_base::{DataType, Error, Result, SqlState};
use sqlparser::ast::{self, Spanned};

impl ExpressionBinder<'_> {
    fn bind_text(&self, text: &str, whole: &ast::Expr) -> Result<Typed> {
        let expr = parse_expression(Source::new(text))?;
        let bound = self.bind(&expr).map_err(Error::without_position);
        located(self.context, whole.span(), bound)
    }

    /// `operand operator ANY (array)` for an operator that is no comparison. NULL where it depends on a NULL: as the operands of OR, or of
    /// AND, which a list of items becomes.
    pub(super) fn any_pattern(
        &self,
        (operand, operator): (&ast::Expr, &str),
        patterns: &ast::Expr,
        any: bool,
    ) -> Result<Typed> {
        let items = listed(patterns).filter(|items| !items.is_empty() && !items.iter().any(is_listed));
        if let Some(items) = items {
            let tested = items.iter().map(|item| format!("(({operand}) {operator} ({item}))"));
            let tested: Vec<String> = tested.collect();
            let text = format!("({})", tested.join(if any { " OR " } else { " AND " }));
            return self.bind_text(&text, operand);
        }
        let (rows, is_null) = match patterns {
            ast::Expr::Subquery(query) => (format!("({query})"), "false".to_owned()),
            array => (
                format!("unnest(({array})::text[])"),
                format!("(({array})::text[] IS NULL)"),
            ),
        };
        let tested = format!("(({operand}) {operator} \"*pattern*\")");
        let (decides, otherwise) = match any {
            true => (format!("bool_or({tested})"), "false"),
            false => (format!("NOT bool_and({tested})"), "true"),
        };
        let text = format!(
            "(SELECT CASE WHEN {decides} THEN {any} WHEN {is_null} OR bool_or({tested} IS NULL) THEN NULL ELSE {otherwise} END \
             FROM {rows} AS \"*patterns*\" (\"*pattern*\"))"
        );
        self.bind_text(&text, operand)
    }

    /// `percentile_cont(share) WITHIN GROUP (ORDER BY value)` and its kin: the values are collected in order, but for NULL.
    pub(super) fn ordered_set(&self, name: &str, function: &ast::Function) -> Result<Typed> {
        let ([order], ast::FunctionArguments::List(list), None) =
            (function.within_group.as_slice(), &function.args, &function.over)
        else {
            return Err(Error::unsupported(format!("{name} in this form")));
        };
        let value = &order.expr;
        let typed = self.context.settle(self.on_trial(|| self.bind(value))?)?;
        let collected = match (name, typed.data_type) {
            ("percentile_cont", data_type) if data_type != DataType::Interval => format!("({value})::float8"),
            _ => format!("({value})"),
        };
        // Of rows that are filtered it is not evaluated, also where the filter is NULL.
        let kept = match &function.filter {
            Some(filter) => format!("CASE WHEN ({filter}) THEN ({value}) IS NOT NULL END"),
            None => format!("({value}) IS NOT NULL"),
        };
        let options = &order.options;
        let values = format!("array_agg({collected} ORDER BY {collected}{options}) FILTER (WHERE {kept})");
        let text = match (name, list.args.as_slice()) {
            ("percentile_cont", [fraction]) => format!("percentile_cont_of({values}, {fraction})"),
            ("percentile_disc", [fraction]) if self.is_list(fraction)? => {
                format!("percentile_disc_of({values}, {fraction})")
            }
            ("percentile_disc", [fraction]) => format!("({values})[percentile_disc_place({values}, {fraction})]"),
            ("mode", []) => format!("({values})[mode_place({values})]"),
            ("rank" | "dense_rank" | "percent_rank" | "cume_dist", _) => {
                return Err(Error::unsupported(format!("{name} WITHIN GROUP")));
            }
            _ => {
                let message =
                    format!("function {name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        self.bind_text(&text, value)
    }

    /// Whether an argument is an array.
    fn is_list(&self, argument: &ast::FunctionArg) -> Result<bool> {
        let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) = argument else {
            return Ok(false);
        };
        let typed = self.on_trial(|| self.bind(argument))?;
        Ok(self.context.type_of(&typed).element().is_some())
    }

    /// `(start, end) OVERLAPS (start, end)`, where an end may be a length. Of two times of which one is NULL the other is the beginning,
    /// and nobody knows the end: the answer is NULL where it depends on that.
    pub(super) fn overlaps(&self, left: &ast::Expr, right: &ast::Expr) -> Result<Typed> {
        let sides = (super::comparison::row_of(left), super::comparison::row_of(right));
        let (Some([start, end]), Some([other_start, other_end])) = sides else {
            let message = "wrong number of parameters on left side of OVERLAPS expression";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        };
        let end_of = |start: &ast::Expr, end: &ast::Expr| {
            let typed = self.bind(end)?;
            Ok::<_, Error>(match self.context.type_of(&typed) {
                DataType::Interval => format!("(({start}) + ({end}))"),
                _ => format!("({end})"),
            })
        };
        let (end, other_end) = (end_of(start, end)?, end_of(other_start, other_end)?);
        let low_of = |start: &ast::Expr, end: &str| format!("least({start}, {end})");
        let high_of = |start: &ast::Expr, end: &str| {
            format!("CASE WHEN ({start}) IS NOT NULL AND {end} IS NOT NULL THEN greatest({start}, {end}) END")
        };
        let (low, high) = (low_of(start, &end), high_of(start, &end));
        let (other_low, other_high) = (low_of(other_start, &other_end), high_of(other_start, &other_end));
        let text = format!(
            "CASE WHEN {low} > {other_low} THEN {low} < {other_high} OR ({high} IS NULL AND NULL) \
             WHEN {low} < {other_low} THEN {other_low} < {high} OR ({other_high} IS NULL AND NULL) \
             WHEN {low} = {other_low} THEN ({high} IS NOT NULL AND {other_high} IS NOT NULL) OR NULL END"
        );
        self.bind_text(&text, left)
    }

    /// `operand SIMILAR TO pattern`
    pub(super) fn similar(
        &self,
        (operand, pattern): (&ast::Expr, &ast::Expr),
        escape: Option<&ast::Expr>,
        negated: bool,
    ) -> Result<Typed> {
        let position = self.operator_position(operand);
        let mut arguments = vec![self.bind(pattern)?];
        arguments.extend(escape.map(|escape| self.bind(escape)).transpose()?);
        let pattern = self.function_call("similar_to_escape", arguments)?;
        let operand = self.bind(operand)?;
        self.operator(if negated { "!~" } else { "~" }, operand, pattern)
            .map_err(|error| error.with_position(position))
    }
}

/// The array of `ALL (array)`, which the library takes for a call where a pattern stands.
pub(super) fn all_of(pattern: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(call) = pattern else {
        return None;
    };
    let ast::FunctionArguments::List(list) = &call.args else {
        return None;
    };
    match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array))] if function_name(&call.name) == "all" => {
            Some(array)
        }
        _ => None,
    }
}
