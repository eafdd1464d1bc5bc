//! Arrays: `ARRAY[...]`, subscripts and slices; and subscripts of documents, which are written alike.

use super::expression::ExpressionBinder;
use super::typed::Typed;
use super::{located, object_name};
use crate::parser::subscripts::ASSIGNED_PART;
use crate::system_tables::ObjectKind;
use rubato_base::{Array, ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{
    ARRAY_OF, ARRAY_OF_ARRAYS, CastContext, ELEMENT_AT, Expr, SLICE, WITH_ELEMENT, WITH_PART, resolve_function,
    resolve_operator,
};
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;
use std::borrow::Cow;
use std::sync::Arc;

/// The items of `ARRAY[...]`.
pub(super) fn listed(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match expr {
        ast::Expr::Array(ast::Array { elem, .. }) => Some(elem),
        ast::Expr::Nested(inner) => listed(inner),
        _ => None,
    }
}

/// Whether this is `ARRAY[...]`, or brackets within one.
pub(super) fn is_listed(expr: &ast::Expr) -> bool {
    listed(expr).is_some()
}

/// 0A000: a subscript that is none of an array's or a document's.
fn no_subscript(data_type: DataType) -> Error {
    let message = format!("cannot subscript type {data_type} because it does not support subscripting");
    Error::new(SqlState::DATATYPE_MISMATCH, message)
}

/// The arguments of an assignment to a part of a column: the column, the value and the subscripts.
fn part_arguments(value: &mut ast::Expr) -> Option<&mut Vec<ast::FunctionArg>> {
    let ast::Expr::Function(function) = value else {
        return None;
    };
    let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
        return None;
    };
    match &mut function.args {
        ast::FunctionArguments::List(list) if name.value == ASSIGNED_PART => Some(&mut list.args),
        _ => None,
    }
}

/// Assignments to several parts of one column as one, which changes them one after the other. The column is the `target`'s, whatever else
/// has one of its name.
pub(super) fn joined_parts<'a>(list: &'a [ast::Assignment], target: &str) -> Cow<'a, [ast::Assignment]> {
    let is_part = |assignment: &ast::Assignment| part_arguments(&mut assignment.value.clone()).is_some();
    if !list.iter().any(is_part) {
        return Cow::Borrowed(list);
    }
    let mut joined: Vec<ast::Assignment> = Vec::with_capacity(list.len());
    for assignment in list {
        let mut assignment = assignment.clone();
        let earlier = joined
            .iter_mut()
            .find(|earlier| is_same_target(&earlier.target, &assignment.target) && is_part(earlier));
        let column = part_arguments(&mut assignment.value).and_then(|arguments| arguments.first_mut());
        match (earlier, column) {
            (Some(earlier), Some(column)) => {
                *column = unnamed(earlier.value.clone());
                earlier.value = assignment.value;
            }
            (None, Some(column)) => {
                if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Identifier(name))) = column {
                    let table = ast::Ident::with_quote('"', target);
                    *column = unnamed(ast::Expr::CompoundIdentifier(vec![table, name.clone()]));
                }
                joined.push(assignment);
            }
            (_, None) => joined.push(assignment),
        }
    }
    Cow::Owned(joined)
}

fn is_same_target(one: &ast::AssignmentTarget, other: &ast::AssignmentTarget) -> bool {
    match (one, other) {
        (ast::AssignmentTarget::ColumnName(one), ast::AssignmentTarget::ColumnName(other)) => {
            object_name(one).ok() == object_name(other).ok()
        }
        _ => false,
    }
}

fn unnamed(expr: ast::Expr) -> ast::FunctionArg {
    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))
}

impl ExpressionBinder<'_> {
    /// `ARRAY[...]`
    pub(super) fn array(&self, items: &[ast::Expr]) -> Result<Typed> {
        if items.is_empty() {
            let message = "cannot determine type of empty array";
            return Err(Error::new(SqlState::INDETERMINATE_DATATYPE, message)
                .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        let bound = items.iter().map(|item| self.bind(item)).collect::<Result<Vec<_>>>()?;
        let span = items[0].span();
        let (items, element) = located(self.context, span, self.common("ARRAY", bound))?;
        let array = located(self.context, span, self.array_of_items(items, element.data_type))?;
        Ok(Typed {
            modifier: element.modifier,
            ..array
        })
    }

    /// An array of items that are of one type.
    pub(super) fn array_of_items(&self, items: Vec<Expr>, item_type: DataType) -> Result<Typed> {
        let (name, array_type) = match item_type.element() {
            Some(_) => (ARRAY_OF_ARRAYS, item_type),
            None => (ARRAY_OF, item_type.array().ok_or_else(|| no_array(item_type))?),
        };
        let element = array_type.element().unwrap_or(item_type);
        let kind = Value::Array(Arc::new(Array::new(element, Vec::new())));
        if items.is_empty() {
            return Ok(Typed::new(Expr::Literal(kind), array_type));
        }
        let types = [array_type].into_iter().chain(items.iter().map(|_| item_type));
        let resolved = resolve_function(name, &types.collect::<Vec<_>>())?;
        let arguments = [Expr::Literal(kind)].into_iter().chain(items).collect();
        let call = Expr::Call {
            function: resolved.function,
            arguments,
        };
        Ok(Typed::new(call, array_type))
    }

    /// `ARRAY[...]::type[]`: each item becomes one of the type, so that an empty list and unknown items have one.
    pub(super) fn cast_array(&self, items: &[ast::Expr], element: ColumnType, to: ColumnType) -> Result<Typed> {
        let mut has_arrays = false;
        let cast = |item: &ast::Expr| {
            if let Some(items) = listed(item) {
                has_arrays = true;
                return Ok(self.cast_array(items, element, to)?.expr);
            }
            let typed = self.bind(item)?;
            // A column of arrays within the list.
            let is_array = self.context.type_of(&typed).element().is_some();
            has_arrays |= is_array;
            let kind = ObjectKind::of_type(element.data_type, element.modifier);
            if let Some(kind) = kind.filter(|_| !is_array) {
                let number = self.number_of_object(kind, typed);
                return located(self.context, item.span(), number).map(|typed| typed.expr);
            }
            let to = if is_array { to } else { element };
            located(self.context, item.span(), self.context.cast(typed, to)).map(|typed| typed.expr)
        };
        let items = items.iter().map(cast).collect::<Result<Vec<_>>>()?;
        let item_type = if has_arrays { to.data_type } else { element.data_type };
        let array = self.array_of_items(items, item_type)?;
        Ok(Typed {
            modifier: to.modifier,
            ..array
        })
    }

    /// `root[...]...`: an element or a part of an array, or what a document has there.
    pub(super) fn access(&self, whole: &ast::Expr, root: &ast::Expr, chain: &[ast::AccessExpr]) -> Result<Typed> {
        if let [ast::AccessExpr::Dot(ast::Expr::Identifier(field))] = chain
            && let Some(typed) = self.record_field(root, field)?
        {
            return Ok(typed);
        }
        if let [ast::AccessExpr::Dot(ast::Expr::Identifier(field))] = chain
            && let Some(typed) = self.row_column(root, field)?
        {
            return Ok(typed);
        }
        let mut names: Vec<ast::Ident> = match root {
            ast::Expr::Identifier(name) => vec![name.clone()],
            _ => Vec::new(),
        };
        let mut subscripts = Vec::with_capacity(chain.len());
        for access in chain {
            match access {
                ast::AccessExpr::Subscript(subscript) => subscripts.push(subscript),
                // A table and its column, with the subscripts behind them.
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) if subscripts.is_empty() && !names.is_empty() => {
                    names.push(name.clone());
                }
                ast::AccessExpr::Dot(_) => return Err(Error::unsupported("field access")),
            }
        }
        let root = match names.len() {
            0 | 1 => self.bind(root)?,
            _ => self.bind(&ast::Expr::CompoundIdentifier(names))?,
        };
        let data_type = self.context.type_of(&root);
        let accessed = match data_type.element() {
            _ if data_type == DataType::Jsonb => self.document_part(root, &subscripts),
            None if data_type == DataType::Name => self.letter(root, &subscripts),
            None => Err(no_subscript(data_type)),
            Some(_) if subscripts.iter().any(|one| matches!(one, ast::Subscript::Slice { .. })) => {
                self.slice(root, &subscripts)
            }
            Some(_) => self.element(root, &subscripts),
        };
        located(self.context, whole.span(), accessed)
    }

    /// `name[n]`: a name is an array of single letters, which counts from 0.
    fn letter(&self, root: Typed, subscripts: &[&ast::Subscript]) -> Result<Typed> {
        let [ast::Subscript::Index { index }] = subscripts else {
            return Err(no_subscript(DataType::Name));
        };
        let number = |value| Typed::new(Expr::Literal(Value::Int4(value)), DataType::Int4);
        let resolved = resolve_operator("+", Some(DataType::Int4), DataType::Int4)?;
        let place = self.call(resolved, vec![self.subscript(index)?, number(1)], Span::empty())?;
        let arguments = vec![root, place, number(1)];
        let types: Vec<DataType> = arguments
            .iter()
            .map(|argument| self.context.type_of(argument))
            .collect();
        self.call(resolve_function("substr", &types)?, arguments, Span::empty())
    }

    fn element(&self, root: Typed, subscripts: &[&ast::Subscript]) -> Result<Typed> {
        let modifier = root.modifier;
        let mut arguments = vec![root];
        for subscript in subscripts {
            if let ast::Subscript::Index { index } = subscript {
                arguments.push(self.subscript(index)?);
            }
        }
        let element = self.function_call(ELEMENT_AT, arguments)?;
        Ok(Typed { modifier, ..element })
    }

    fn slice(&self, root: Typed, subscripts: &[&ast::Subscript]) -> Result<Typed> {
        let one = || Typed::new(Expr::Literal(Value::Int4(1)), DataType::Int4);
        let bound = |bound: &Option<ast::Expr>| match bound {
            Some(expr) => self.subscript(expr),
            None => Ok(Typed::new(Expr::Literal(Value::Bool(false)), DataType::Bool)),
        };
        let modifier = root.modifier;
        let mut arguments = vec![root];
        for subscript in subscripts {
            match subscript {
                // Beside a slice a single number is its upper bound.
                ast::Subscript::Index { index } => arguments.extend([one(), self.subscript(index)?]),
                ast::Subscript::Slice {
                    lower_bound,
                    upper_bound,
                    stride: None,
                } => arguments.extend([bound(lower_bound)?, bound(upper_bound)?]),
                ast::Subscript::Slice { .. } => {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \":\""));
                }
            }
        }
        let slice = self.function_call(SLICE, arguments)?;
        Ok(Typed { modifier, ..slice })
    }

    /// A subscript of an array as a whole number.
    pub(super) fn subscript(&self, expr: &ast::Expr) -> Result<Typed> {
        let typed = self.bind(expr)?;
        let from = self.context.type_of(&typed);
        let number = self
            .context
            .assign(typed, "", ColumnType::plain(DataType::Int4))
            .map_err(|error| {
                let is_mismatch = error.code() == SqlState::DATATYPE_MISMATCH && from != DataType::Unknown;
                if is_mismatch {
                    Error::new(SqlState::DATATYPE_MISMATCH, "array subscript must have type integer")
                } else {
                    error
                }
            });
        Ok(Typed::new(located(self.context, expr.span(), number)?, DataType::Int4))
    }

    /// `document['key'][1]`: as the operator `#>` with the subscripts as its path.
    fn document_part(&self, root: Typed, subscripts: &[&ast::Subscript]) -> Result<Typed> {
        let mut path = Vec::with_capacity(subscripts.len());
        for subscript in subscripts {
            let ast::Subscript::Index { index } = subscript else {
                let message = "jsonb subscript does not support slices";
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
            };
            path.push(self.document_subscript(index)?);
        }
        let path = self.array_of_items(path, DataType::Text)?;
        self.operator("#>", root, path)
    }

    /// `SET column[...] = value`: the column as it becomes.
    pub(super) fn assigned_part(&self, arguments: &[&ast::Expr]) -> Result<Typed> {
        let [target, value, subscripts @ ..] = arguments else {
            return Err(Error::internal("an assignment to a part without a target"));
        };
        let target = self.bind(target)?;
        let data_type = target.data_type;
        let given = self.bind(value)?;
        if data_type == DataType::Jsonb {
            let path = subscripts.iter().map(|subscript| self.document_subscript(subscript));
            let path = self.array_of_items(path.collect::<Result<_>>()?, DataType::Text)?;
            let new = located(
                self.context,
                value.span(),
                self.part_value(given, ColumnType::plain(data_type)),
            )?;
            return self.function_call(WITH_PART, vec![target, path, new]);
        }
        let column_type = ColumnType {
            data_type,
            modifier: target.modifier,
        };
        let Some(element) = column_type.element() else {
            return Err(no_subscript(data_type));
        };
        let new = located(self.context, value.span(), self.part_value(given, element))?;
        let mut arguments = vec![target, new];
        for subscript in subscripts {
            arguments.push(self.subscript(subscript)?);
        }
        self.function_call(WITH_ELEMENT, arguments)
    }

    /// The value of a part as one of its type. 42804 if it is of another one.
    fn part_value(&self, value: Typed, to: ColumnType) -> Result<Typed> {
        let from = self.context.type_of(&value);
        let new = self.context.assign(value, "", to).map_err(|error| {
            if error.code() != SqlState::DATATYPE_MISMATCH {
                return error;
            }
            let message = format!(
                "subscripted assignment requires type {} but expression is of type {from}",
                to.data_type
            );
            Error::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("You will need to rewrite or cast the expression.")
        })?;
        Ok(Typed::new(new, to.data_type))
    }

    /// A subscript of a document: a text, or a whole number as one.
    pub(super) fn document_subscript(&self, index: &ast::Expr) -> Result<Expr> {
        let typed = self.bind(index)?;
        match self.context.type_of(&typed) {
            DataType::Int2 | DataType::Int4 => {
                let to = ColumnType::plain(DataType::Text);
                Ok(self.context.cast(typed, to)?.expr)
            }
            other if other == DataType::Unknown || other.is_text() => {
                self.context.coerce(typed, DataType::Text, CastContext::Implicit)
            }
            other => {
                let message = format!("subscript type {other} is not supported");
                let error = Error::new(SqlState::DATATYPE_MISMATCH, message);
                let error = error.with_hint("jsonb subscript must be coercible to either integer or text.");
                located(self.context, index.span(), Err(error))
            }
        }
    }
}

fn no_array(element: DataType) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("could not find array type for data type {element}"),
    )
}
