//! Arguments by name, defaults of arguments, and VARIADIC.

use super::expression::ExpressionBinder;
use super::function::no_function;
use super::typed::Typed;
use crate::parser::syntax::{Source, fold, parse_expression};
use rubato_base::{DataType, Error, Result, SqlState};
use rubato_formula::CastContext;
use sqlparser::ast;
use std::sync::LazyLock;

/// Functions whose arguments have names and defaults: `name(argument, argument = default, ...)`, as PostgreSQL's catalog has them.
const SIGNATURES: [&str; 22] = [
    "make_interval(years = 0, months = 0, weeks = 0, days = 0, hours = 0, mins = 0, secs = 0.0)",
    "make_date(year, month, day)",
    "make_time(hour, min, sec)",
    "make_timestamp(year, month, mday, hour, min, sec)",
    "jsonb_set(jsonb_in, path, replacement, create_if_missing = true)",
    "jsonb_set_lax(jsonb_in, path, replacement, create_if_missing = true, null_value_treatment = 'use_json_null')",
    "jsonb_insert(jsonb_in, path, replacement, insert_after = false)",
    "jsonb_path_exists(target, path, vars = '{}', silent = false)",
    "jsonb_path_match(target, path, vars = '{}', silent = false)",
    "jsonb_path_query(target, path, vars = '{}', silent = false)",
    "jsonb_path_query_array(target, path, vars = '{}', silent = false)",
    "jsonb_path_query_first(target, path, vars = '{}', silent = false)",
    "jsonb_path_exists_tz(target, path, vars = '{}', silent = false)",
    "jsonb_path_match_tz(target, path, vars = '{}', silent = false)",
    "jsonb_path_query_tz(target, path, vars = '{}', silent = false)",
    "jsonb_path_query_array_tz(target, path, vars = '{}', silent = false)",
    "jsonb_path_query_first_tz(target, path, vars = '{}', silent = false)",
    "parse_ident(str, strict = true)",
    "regexp_count(string, pattern, start, flags)",
    "regexp_like(string, pattern, flags)",
    "json_array_elements(from_json)",
    "jsonb_array_elements(from_json)",
];

/// A parameter: its name and default.
type Parameter = (&'static str, Option<ast::Expr>);

static PARAMETERS: LazyLock<Vec<(&'static str, Vec<Parameter>)>> = LazyLock::new(|| {
    let parameter = |text: &'static str| match text.split_once(" = ") {
        Some((name, default)) => (name, parse_expression(Source::new(default)).ok()),
        None => (text, None),
    };
    let signature = |text: &'static str| {
        let (name, list) = text.split_once('(')?;
        Some((name, list.strip_suffix(')')?.split(", ").map(parameter).collect()))
    };
    SIGNATURES.iter().filter_map(|text| signature(text)).collect()
});

fn parameters_of(name: &str) -> &'static [Parameter] {
    let found = PARAMETERS.iter().find(|(own, _)| *own == name);
    found.map_or(&[], |(_, parameters)| parameters.as_slice())
}

/// The name of an argument that is given by name, and the argument.
fn named(argument: &ast::FunctionArg) -> Option<(String, &ast::Expr)> {
    match argument {
        ast::FunctionArg::Named {
            name,
            arg: ast::FunctionArgExpr::Expr(expr),
            ..
        } => Some((fold(name), expr)),
        ast::FunctionArg::ExprNamed {
            name: ast::Expr::Identifier(name),
            arg: ast::FunctionArgExpr::Expr(expr),
            ..
        } => Some((fold(name), expr)),
        _ => None,
    }
}

/// The array that is the last argument with VARIADIC.
pub(super) fn variadic(list: &ast::FunctionArgumentList) -> Option<&ast::Expr> {
    let (name, expr) = named(list.args.last()?)?;
    (name == "variadic").then_some(expr)
}

/// The arguments in the order of the parameters, with the defaults of those that are needed and not given.
pub(super) fn in_order<'a>(name: &str, arguments: &'a [ast::FunctionArg]) -> Result<Vec<&'a ast::Expr>> {
    let parameters = parameters_of(name);
    let mut given: Vec<&ast::Expr> = Vec::with_capacity(arguments.len());
    let mut by_name: Vec<Option<&ast::Expr>> = Vec::new();
    for argument in arguments {
        if let Some((parameter, expr)) = named(argument) {
            let place = parameters.iter().position(|(own, _)| *own == parameter);
            let place = place.ok_or_else(|| no_function(&format!("{name}({parameter} => ...)")))?;
            let is_twice = place < given.len() || by_name.get(place).is_some_and(Option::is_some);
            if is_twice {
                let message = format!("argument name \"{parameter}\" used more than once");
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            by_name.resize(by_name.len().max(place + 1), None);
            by_name[place] = Some(expr);
        } else if !by_name.is_empty() {
            let message = "positional argument cannot follow named argument";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        } else if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument {
            given.push(expr);
        } else {
            return Err(Error::unsupported("this form of a function argument"));
        }
    }
    // All of its arguments have defaults, and there is one overload.
    let wanted = if name == "make_interval" {
        parameters.len()
    } else {
        by_name.len()
    };
    for place in given.len()..wanted {
        let by_name = by_name.get(place).copied().flatten();
        let default = parameters.get(place).and_then(|(_, default)| default.as_ref());
        given.push(by_name.or(default).ok_or_else(|| no_function(&format!("{name}()")))?);
    }
    Ok(given)
}

impl ExpressionBinder<'_> {
    /// A call whose last argument is an array of arguments. 42804 where it is none, 0A000 for a function that is not known to say the same of an array.
    pub(super) fn variadic_call(
        &self,
        name: &str,
        list: &ast::FunctionArgumentList,
        array: &ast::Expr,
    ) -> Result<Typed> {
        let (_, others) = list.args.split_last().unwrap_or((&list.args[0], &[]));
        let array = self.bind(array)?;
        let others = in_order(name, others)?.into_iter().map(|argument| self.bind(argument));
        let mut others = others.collect::<Result<Vec<_>>>()?;
        let of_type = self.context.type_of(&array);
        let takes_any = matches!(name, "concat" | "concat_ws" | "format");
        if of_type.element().is_none() && (takes_any || of_type != DataType::Unknown) {
            let message = "VARIADIC argument must be an array";
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        match (name, others.len()) {
            ("concat", 0) => {
                let nothing = self.bind(&ast::Expr::value(ast::Value::SingleQuotedString(String::new())))?;
                self.function_call("array_to_string", vec![array, nothing])
            }
            ("format", 1) => self.function_call("format_of_array", vec![others.remove(0), array]),
            ("concat_ws", 1) => self.function_call("array_to_string", vec![array, others.remove(0)]),
            ("json_extract_path" | "jsonb_extract_path" | "json_extract_path_text" | "jsonb_extract_path_text", 1) => {
                let kind = if name.starts_with("jsonb") {
                    DataType::Jsonb
                } else {
                    DataType::Json
                };
                let symbol = if name.ends_with("text") { "#>>" } else { "#>" };
                let document = self.context.coerce(others.remove(0), kind, CastContext::Implicit)?;
                self.operator(symbol, Typed::new(document, kind), array)
            }
            _ => Err(Error::unsupported(format!("VARIADIC in a call of {name}"))),
        }
    }
}
