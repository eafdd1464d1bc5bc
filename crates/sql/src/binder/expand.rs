//! `information_schema._pg_expandarray`, by which drivers read the columns of a key: the elements of an array with their numbers.
//!
//! Its result is a record, and there are no records here: where one stands in a select list, its two fields do, side by side, under names
//! that no one else can have, and `(name).x` finds them.

use super::expression::ExpressionBinder;
use super::select::Item;
use super::typed::Typed;
use crate::parser::syntax::fold;
use rubato_base::{DataType, Error, Result, Value};
use rubato_formula::Expr;
use sqlparser::ast;

const FUNCTION: &str = "_pg_expandarray";
/// The element, and its number from 1.
const FIELDS: [&str; 2] = ["x", "n"];

/// The array of a call of the function; `None` for any other expression.
pub(super) fn expanded(expr: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(call) = expr else { return None };
    let [
        ast::ObjectNamePart::Identifier(schema),
        ast::ObjectNamePart::Identifier(name),
    ] = call.name.0.as_slice()
    else {
        return None;
    };
    let ast::FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array))] = list.args.as_slice() else {
        return None;
    };
    (fold(schema) == "information_schema" && fold(name) == FUNCTION).then_some(array)
}

fn is_identity(name: &ast::ObjectName) -> bool {
    let parts = name.0.iter().filter_map(ast::ObjectNamePart::as_ident).map(fold);
    let path: Vec<String> = parts.collect();
    match path.as_slice() {
        [schema, name] => schema == "pg_catalog" && name == "pg_identify_object",
        [name] => name == "pg_identify_object",
        _ => false,
    }
}

impl ExpressionBinder<'_> {
    /// The fields of a call in a select list.
    pub(super) fn expanded_items(&self, array: &ast::Expr, alias: Option<&str>) -> Result<Vec<Item>> {
        let item = |field: &str| {
            Ok(Item {
                typed: self.expanded_field(array, field)?,
                name: field_name(alias.unwrap_or(FUNCTION), field),
                origin: None,
            })
        };
        FIELDS.into_iter().map(item).collect()
    }

    fn expanded_field(&self, array: &ast::Expr, field: &str) -> Result<Typed> {
        if field == "x" {
            return self.set_value("unnest", vec![self.bind(array)?]);
        }
        let one = || Typed::new(Expr::Literal(Value::Int4(1)), DataType::Int4);
        let subscript = self.set_value("generate_subscripts", vec![self.bind(array)?, one()])?;
        let lowest = self.function_call("array_lower", vec![self.bind(array)?, one()])?;
        self.operator("+", self.operator("-", subscript, lowest)?, one())
    }

    /// A field of what `pg_identify_object` gives, which is a record too.
    fn identity_part(&self, record: &ast::Expr, field: &str) -> Result<Option<Typed>> {
        let ast::Expr::Function(call) = record else {
            return Ok(None);
        };
        let (is_own, ast::FunctionArguments::List(list)) = (is_identity(&call.name), &call.args) else {
            return Ok(None);
        };
        if !is_own || !["type", "schema", "name", "identity"].contains(&field) {
            return Ok(None);
        }
        let bind = |argument: &ast::FunctionArg| match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => self.bind(expr),
            _ => Err(Error::unsupported("a named function argument")),
        };
        let mut arguments = list.args.iter().map(bind).collect::<Result<Vec<_>>>()?;
        arguments.push(Typed::new(Expr::Literal(Value::text(field)), DataType::Text));
        self.function_call("rubato_identity_part", arguments).map(Some)
    }

    /// `(name).field`, or `(call).field`; `None` where the brackets hold something else.
    pub(super) fn record_field(&self, record: &ast::Expr, field: &ast::Ident) -> Result<Option<Typed>> {
        let ast::Expr::Nested(record) = record else {
            return Ok(None);
        };
        let field = fold(field);
        if let Some(part) = self.identity_part(record, &field)? {
            return Ok(Some(part));
        }
        if !FIELDS.contains(&field.as_str()) {
            return Ok(None);
        }
        if let Some(array) = expanded(record) {
            return self.expanded_field(array, &field).map(Some);
        }
        let (qualifier, name) = match &**record {
            ast::Expr::Identifier(name) => (None, fold(name)),
            ast::Expr::CompoundIdentifier(names) => match names.as_slice() {
                [relation, name] => (Some(fold(relation)), fold(name)),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let found = self.scope.find(qualifier.as_deref(), &field_name(&name, &field));
        Ok(found.ok().map(|found| Typed {
            modifier: found.column_type.modifier,
            ..Typed::new(Expr::Column(found.global), found.column_type.data_type)
        }))
    }
}

/// The name of a field's column. No quoted name of a statement would be looked for under it but by mistake.
fn field_name(record: &str, field: &str) -> String {
    format!("{record}.{field}")
}
