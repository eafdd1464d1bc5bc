//! Function calls, aggregates and the forms that look like functions.

use super::expression::{AGGREGATE_BASE, ExpressionBinder};
use super::json::Comparing;
use super::named_literals::OF_SEQUENCES;
use super::outer::CallText;
use super::typed::{Typed, shared_modifier};
use super::types::{TypeName, type_by_name};
use super::window::is_window_function;
use super::{located, object_name};
use crate::catalog::no_schema;
use crate::databases::is_same_name;
use crate::parser::subscripts::ASSIGNED_PART;
use crate::plan::AggregateCall;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{CastContext, Expr, function_exists, is_aggregate, is_set_function, resolve_aggregate};
use sqlparser::ast::{self, Spanned};

/// How the functions begin that `information_schema` has.
const OF_INFORMATION_SCHEMA: &str = "_pg_";

/// `'name'` of `'name'::regclass`.
fn without_regclass(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Cast {
            expr: inner, data_type, ..
        } if matches!(**inner, ast::Expr::Value(_)) && data_type.to_string().eq_ignore_ascii_case("regclass") => inner,
        other => other,
    }
}

impl ExpressionBinder<'_> {
    pub(super) fn function(&self, function: &ast::Function) -> Result<Typed> {
        let span = function.name.span();
        let bound = self.function_inner(function);
        located(self.context, span, bound)
    }

    /// A call that stands in FROM.
    pub(super) fn named_call(&self, name: &ast::ObjectName, arguments: &[ast::FunctionArg]) -> Result<Typed> {
        self.function(&ast::Function {
            name: name.clone(),
            uses_odbc_syntax: false,
            parameters: ast::FunctionArguments::None,
            args: ast::FunctionArguments::List(ast::FunctionArgumentList {
                duplicate_treatment: None,
                args: arguments.to_vec(),
                clauses: Vec::new(),
            }),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: Vec::new(),
        })
    }

    fn function_inner(&self, function: &ast::Function) -> Result<Typed> {
        if let Some(named) = super::whole_row::naming_rows(function) {
            return self.function_inner(&named);
        }
        let path = object_name(&function.name)?;
        let within = match path.as_slice() {
            [database, within @ ..] if path.len() == 3 => {
                if !is_same_name(database, &self.context.path.database) {
                    let message = format!("cross-database references are not implemented: {}", path.join("."));
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                within
            }
            within => within,
        };
        let qualified;
        let name = match within {
            [name] => name.as_str(),
            [schema, name] if schema == "pg_catalog" || schema == "public" => name.as_str(),
            [schema, name] if schema == "information_schema" && name.starts_with(OF_INFORMATION_SCHEMA) => {
                if let Some(column) = self.true_type(name, &function.args)? {
                    return Ok(column);
                }
                qualified = path[path.len() - 2..].join(".");
                qualified.as_str()
            }
            [schema, name] if self.is_of_extension(schema) => name.as_str(),
            [schema, _] if self.context.path.schema(schema, self.context.catalog)?.is_none() => {
                return Err(no_schema(schema));
            }
            _ => return Err(no_function(&path.join("."))),
        };
        if function.null_treatment.is_some() {
            return Err(Error::unsupported("RESPECT or IGNORE NULLS"));
        }
        if !function.within_group.is_empty() {
            return self.ordered_set(name, function);
        }
        let (arguments, list) = match &function.args {
            ast::FunctionArguments::None => (Vec::new(), None),
            ast::FunctionArguments::Subquery(query) if name == "array" => return self.array_subquery(query),
            ast::FunctionArguments::Subquery(_) => {
                return Err(Error::unsupported("a query as the argument of a function"));
            }
            ast::FunctionArguments::List(list) => {
                if let Some(array) = super::named_arguments::variadic(list) {
                    return self.variadic_call(name, list, array);
                }
                (argument_expressions(name, list)?, Some(list))
            }
        };
        if let Some(over) = &function.over {
            if !is_aggregate(name) && !is_window_function(name) {
                let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            return self.window_call(name, function, over, &arguments);
        }
        if is_window_function(name) {
            let message = format!("window function {name} requires an OVER clause");
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if is_aggregate(name) {
            return self.aggregate(CallText {
                name,
                function,
                list,
                arguments: &arguments,
            });
        }
        if function.filter.is_some() || list.is_some_and(|list| list.duplicate_treatment.is_some()) {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("DISTINCT or FILTER specified, but {name} is not an aggregate function"),
            ));
        }
        match name {
            "grouping" => self.grouping_call(&arguments),
            "nullif" => self.null_if(self.bind_all(&arguments)?),
            "coalesce" => {
                let without_sets = self.without_sets.replace(Some("COALESCE"));
                let items = self.coalesced(&arguments);
                self.without_sets.set(without_sets);
                let (items, column_type) = self.common("COALESCE", items?)?;
                Ok(Typed::of(Expr::Coalesce(items), column_type))
            }
            "current_timestamp" | "current_time" | "localtimestamp" | "localtime" if !arguments.is_empty() => {
                self.clock_with_precision(name, arguments[0])
            }
            ASSIGNED_PART => self.assigned_part(&arguments),
            "normalize" => self.normalised(&arguments),
            "row" => Err(Error::unsupported("a row value outside of a comparison")),
            _ => {
                let mut arguments = arguments;
                let is_of_sequence = OF_SEQUENCES.contains(&name);
                if is_of_sequence && let Some(first) = arguments.first_mut() {
                    // The number of a sequence is nobody's concern here: its name is looked up when the function runs.
                    *first = without_regclass(first);
                }
                let mut arguments = self.document_arguments(name, self.bind_arguments(name, &arguments)?)?;
                if let Some(first) = arguments.first_mut().filter(|_| is_of_sequence) {
                    self.context.number_in_view(&mut first.expr)?;
                }
                if is_set_function(name) {
                    return self.set_value(name, arguments);
                }
                match name {
                    "greatest" | "least" => {
                        let types: Vec<ColumnType> = arguments.iter().map(Typed::column_type).collect();
                        let call = self.function_call(name, arguments)?;
                        let modifier = shared_modifier(&types, call.data_type);
                        return Ok(Typed { modifier, ..call });
                    }
                    "enum_first" | "enum_last" | "enum_range" => return self.enum_function(name, arguments),
                    "pg_typeof" => return self.type_of(arguments),
                    _ => {}
                }
                self.call_or_cast(name, arguments)
            }
        }
    }

    /// Whether functions of an extension are looked for in this schema.
    fn is_of_extension(&self, schema: &str) -> bool {
        let mut extensions = self.context.catalog.extensions.values();
        self.context
            .catalog
            .schema_id(schema)
            .is_some_and(|id| extensions.any(|own| own.schema == id))
    }

    fn bind_all(&self, arguments: &[&ast::Expr]) -> Result<Vec<Typed>> {
        arguments.iter().map(|argument| self.bind(argument)).collect()
    }

    /// The arguments of COALESCE: it depends on the first whether the others are evaluated.
    fn coalesced(&self, arguments: &[&ast::Expr]) -> Result<Vec<Typed>> {
        let mut items = Vec::with_capacity(arguments.len());
        let before = self.conditional.get();
        for argument in arguments {
            let item = self.bind(argument);
            self.conditional.set(before + 1);
            items.push(item);
        }
        self.conditional.set(before);
        items.into_iter().collect()
    }

    /// A function, or the name of a type used like one.
    fn call_or_cast(&self, name: &str, mut arguments: Vec<Typed>) -> Result<Typed> {
        if arguments.len() == 1
            && !function_exists(name)
            && let Some(TypeName::Plain(to)) = type_by_name(name)
            && let Some(argument) = arguments.pop()
        {
            return self.context.cast(argument, ColumnType::plain(to.data_type));
        }
        self.function_call(name, arguments)
    }

    /// NULLIF gives its first argument, of the type by which `=` has compared it.
    fn null_if(&self, arguments: Vec<Typed>) -> Result<Typed> {
        use DataType as T;
        let types: Vec<DataType> = arguments
            .iter()
            .map(|argument| self.context.type_of(argument))
            .collect();
        let modifier = arguments.first().map_or(-1, |first| first.modifier);
        if let Some(common) = compared_by_another(&types) {
            let both = arguments.into_iter().map(|argument| {
                let given = self.context.coerce(argument, common, CastContext::Implicit)?;
                Ok(Typed::new(given, common))
            });
            let call = self.function_call("nullif", both.collect::<Result<Vec<_>>>()?)?;
            return match types.first() {
                // It is compared as what it is not given as.
                Some(T::Float4) => self.context.cast(call, ColumnType::plain(T::Float4)),
                _ => Ok(call),
            };
        }
        if let [T::Char, T::Char | T::Varchar | T::Unknown] | [T::Unknown | T::Varchar, T::Char] = types.as_slice() {
            // Trailing blanks do not count: they are compared without, and the length gives them back.
            let text = |argument| {
                let padded = self.context.coerce(argument, DataType::Char, CastContext::Implicit)?;
                let padded = Typed::new(padded, DataType::Char);
                let text = self.context.coerce(padded, DataType::Text, CastContext::Implicit)?;
                Ok(Typed::new(text, DataType::Text))
            };
            let texts = arguments.into_iter().map(text).collect::<Result<Vec<_>>>()?;
            let call = self.function_call("nullif", texts)?;
            let character = ColumnType {
                data_type: T::Char,
                modifier: if types.first() == Some(&T::Char) { modifier } else { -1 },
            };
            return self.context.cast(call, character);
        }
        let call = self.function_call("nullif", arguments)?;
        match compared_as(&types) {
            Some(own) if own != call.data_type => {
                let given = self.context.coerce(call, own, CastContext::Explicit)?;
                Ok(Typed::new(given, own))
            }
            _ if types.first() == Some(&call.data_type) => Ok(Typed { modifier, ..call }),
            _ => Ok(call),
        }
    }

    fn clock_with_precision(&self, name: &str, precision: &ast::Expr) -> Result<Typed> {
        let typed = self.function_call(name, Vec::new())?;
        let digits = match self.bind(precision)?.expr {
            Expr::Literal(Value::Int4(digits)) => digits.clamp(0, 6),
            _ => {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    format!("{name} takes a whole number"),
                ));
            }
        };
        let data_type = typed.data_type;
        self.context.cast(
            typed,
            ColumnType {
                data_type,
                modifier: digits,
            },
        )
    }

    /// A call of an aggregate: of this query, or of one around it. 42803 where that may have none.
    pub(super) fn aggregate(&self, text: CallText<'_>) -> Result<Typed> {
        let windows_before = self.windows.map(|windows| windows.calls.borrow().len());
        let trial = self.context.begin_trial();
        let is_nested = self.inside_aggregate.replace(true);
        let call = self.aggregate_call(text);
        self.inside_aggregate.set(is_nested);
        let call = call?;
        if let Some(value) = self.of_query_around(&call, &trial, text)? {
            return Ok(value);
        }
        let Some(calls) = self.aggregates else {
            return Err(Error::new(
                SqlState::GROUPING_ERROR,
                format!("aggregate functions are not allowed in {}", self.clause),
            ));
        };
        if is_nested {
            return Err(Error::new(
                SqlState::GROUPING_ERROR,
                "aggregate function calls cannot be nested",
            ));
        }
        if self.windows.map(|windows| windows.calls.borrow().len()) != windows_before {
            return Err(Error::new(
                SqlState::GROUPING_ERROR,
                "aggregate function calls cannot contain window function calls",
            ));
        }
        let result_type = call.aggregate.result_type;
        let mut calls = calls.borrow_mut();
        let index = calls
            .iter()
            .position(|other| same_call(other, &call))
            .unwrap_or_else(|| {
                calls.push(call);
                calls.len() - 1
            });
        Ok(Typed::new(Expr::Column(AGGREGATE_BASE + index), result_type))
    }

    pub(super) fn aggregate_call(&self, text: CallText<'_>) -> Result<AggregateCall> {
        let CallText {
            name,
            function,
            list,
            arguments,
        } = text;
        let mut distinct = false;
        let mut order_by = Vec::new();
        if let Some(list) = list {
            distinct = matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
            for clause in &list.clauses {
                let ast::FunctionArgumentClause::OrderBy(items) = clause else {
                    return Err(Error::unsupported(format!("{clause} in an aggregate call")));
                };
                for item in items {
                    let typed = self.context.settle(self.bind(&item.expr)?)?;
                    let (descending, nulls_first) = super::tail::direction(&item.options)?;
                    order_by.push((typed.expr, descending, nulls_first));
                }
            }
        }
        let star = list.is_some_and(|list| list.args.iter().any(is_wildcard));
        if arguments.is_empty() && !star {
            return Err(match name {
                "count" => Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    "count(*) must be used to call a parameterless aggregate function",
                ),
                _ => no_function(&format!("{name}()")),
            });
        }
        if star && (name != "count" || distinct) {
            return Err(no_function(&format!("{name}()")));
        }
        let given = self.bind_arguments(name, arguments)?;
        if distinct {
            self.check_listed(&given, &order_by)?;
        }
        if distinct && order_by.is_empty() && collects(name) {
            // PostgreSQL finds equal ones by sorting, which shows in what is collected.
            for argument in &given {
                let typed = self.context.settle(argument.clone())?;
                self.context.check_comparable(&typed, Comparing::Equality)?;
                order_by.push((typed.expr, false, false));
            }
        }
        let arguments = self.document_arguments(name, given)?;
        let types: Vec<DataType> = arguments
            .iter()
            .map(|argument| self.context.type_of(argument))
            .collect();
        let aggregate = resolve_aggregate(name, &types, distinct)?.ok_or_else(|| no_function(name))?;
        let convert = |(argument, to): (Typed, &DataType)| self.context.coerce(argument, *to, CastContext::Implicit);
        let arguments = arguments
            .into_iter()
            .zip(&aggregate.argument_types)
            .map(convert)
            .collect::<Result<Vec<_>>>()?;
        let filter = function
            .filter
            .as_ref()
            .map(|filter| self.filter_condition(filter))
            .transpose()?;
        Ok(AggregateCall {
            distinct: aggregate.distinct,
            aggregate,
            arguments,
            filter,
            order_by,
        })
    }

    /// 42P10 if what DISTINCT values are sorted by is none of them.
    fn check_listed(&self, given: &[Typed], order_by: &[(Expr, bool, bool)]) -> Result<()> {
        let given = given
            .iter()
            .map(|argument| Ok(self.context.settle(argument.clone())?.expr));
        let given = given.collect::<Result<Vec<Expr>>>()?;
        if order_by.iter().all(|(expr, ..)| given.contains(expr)) {
            return Ok(());
        }
        let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
        Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, message))
    }

    fn filter_condition(&self, filter: &ast::Expr) -> Result<Expr> {
        let typed = self.bind(filter)?;
        located(self.context, filter.span(), self.context.condition(typed, "FILTER"))
    }

    /// The forms with keywords between their arguments, and what this version does not have.
    pub(super) fn special_form(&self, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as Ast;
        let call = |name: &str, arguments: Vec<&ast::Expr>| {
            let arguments = self.bind_all(&arguments)?;
            located(self.context, expr.span(), self.function_call(name, arguments))
        };
        match expr {
            Ast::Extract {
                field, expr: operand, ..
            } => {
                let field = field.to_string().trim_matches(['\'', '"']).to_ascii_lowercase();
                let field = Typed::new(Expr::Literal(Value::text(&field)), DataType::Text);
                let operand = self.bind(operand)?;
                located(
                    self.context,
                    expr.span(),
                    self.function_call("extract", vec![field, operand]),
                )
            }
            Ast::Ceil { expr, .. } => call("ceil", vec![expr]),
            Ast::Floor { expr, .. } => call("floor", vec![expr]),
            Ast::Position { expr, r#in } => call("position", vec![r#in, expr]),
            Ast::Substring {
                expr,
                substring_from,
                substring_for,
                shorthand,
                ..
            } => match (substring_from.as_deref(), substring_for.as_deref()) {
                // The short name takes no pattern: what it is given without a type are numbers.
                (Some(from), Some(length)) if *shorthand => call("substr", vec![expr, from, length]),
                (Some(from), None) if *shorthand => call("substr", vec![expr, from]),
                (Some(from), Some(length)) => call("substring", vec![expr, from, length]),
                (Some(from), None) => call("substring", vec![expr, from]),
                (None, Some(length)) => {
                    let one = Typed::new(Expr::Literal(Value::Int4(1)), DataType::Int4);
                    let arguments = vec![self.bind(expr)?, one, self.bind(length)?];
                    located(self.context, expr.span(), self.function_call("substring", arguments))
                }
                (None, None) => call("substring", vec![expr]),
            },
            Ast::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let what = trim_what
                    .as_deref()
                    .or_else(|| trim_characters.as_ref().and_then(|list| list.first()));
                call(name, [Some(&**expr), what].into_iter().flatten().collect())
            }
            Ast::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let arguments = [
                    Some(&**expr),
                    Some(&**overlay_what),
                    Some(&**overlay_from),
                    overlay_for.as_deref(),
                ];
                call("overlay", arguments.into_iter().flatten().collect())
            }
            Ast::AtTimeZone { timestamp, time_zone } => call("timezone", vec![time_zone, timestamp]),
            Ast::Subquery(query) => self.scalar_subquery(query),
            Ast::Exists { subquery, negated } => self.exists(subquery, *negated),
            Ast::InSubquery {
                expr,
                subquery,
                negated,
            } => self.in_subquery(expr, subquery, *negated),
            Ast::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => self.similar((expr, pattern), escape_char.as_deref(), *negated),
            Ast::Like {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => self.any_pattern((expr, if *negated { "NOT LIKE" } else { "LIKE" }), pattern, true),
            Ast::ILike {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => self.any_pattern((expr, if *negated { "NOT ILIKE" } else { "ILIKE" }), pattern, true),
            Ast::GroupingSets(_) | Ast::Cube(_) | Ast::Rollup(_) => Err(Error::unsupported("a grouping set")),
            Ast::Tuple(_) => Err(Error::unsupported("a row value outside of a comparison")),
            Ast::Wildcard(_) | Ast::QualifiedWildcard(..) => {
                Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"*\""))
            }
            other => Err(Error::unsupported(format!("the expression {other}"))),
        }
    }
}

/// Whether the order of what an aggregate is fed shows in its result.
fn collects(name: &str) -> bool {
    name.ends_with("_agg")
}

fn same_call(left: &AggregateCall, right: &AggregateCall) -> bool {
    left.aggregate == right.aggregate
        && left.arguments == right.arguments
        && left.distinct == right.distinct
        && left.filter == right.filter
        && left.order_by == right.order_by
}

/// The type of which `=` makes both operands where it is that of neither, or of one that is not the common type.
fn compared_by_another(types: &[DataType]) -> Option<DataType> {
    use DataType as T;
    let is_exact = |own: &DataType| matches!(own, T::Int2 | T::Int4 | T::Int8 | T::Numeric);
    match types {
        [T::Float4, other] | [other, T::Float4] if is_exact(other) => Some(T::Float8),
        [T::Char, T::Text] | [T::Text, T::Char] => Some(T::Text),
        _ => None,
    }
}

/// The type of the first of two operands where `=` compares the two as they are, or makes a text of the first. `None` where it takes
/// the common type.
fn compared_as(types: &[DataType]) -> Option<DataType> {
    use DataType as T;
    let [first, second] = types else { return None };
    let both = |group: &[DataType]| group.contains(first) && group.contains(second);
    let compares = both(&[T::Int2, T::Int4, T::Int8])
        || both(&[T::Float4, T::Float8])
        || both(&[T::Date, T::Timestamp, T::TimestampTz]);
    match first {
        _ if compares => Some(*first),
        T::Varchar => Some(T::Text),
        T::Char if *second != T::Char && *second != T::Unknown => Some(T::Text),
        _ => None,
    }
}

fn is_wildcard(argument: &ast::FunctionArg) -> bool {
    matches!(argument, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard))
}

/// The arguments without a `*`, in the order of the parameters.
fn argument_expressions<'a>(name: &str, list: &'a ast::FunctionArgumentList) -> Result<Vec<&'a ast::Expr>> {
    match list.args.as_slice() {
        [star] if is_wildcard(star) => Ok(Vec::new()),
        arguments => super::named_arguments::in_order(name, arguments),
    }
}

pub(super) fn no_function(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist"))
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}
