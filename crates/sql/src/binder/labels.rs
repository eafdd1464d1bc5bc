//! What columns are called that have no alias.

use crate::parser::syntax::fold;
use sqlparser::ast;

/// The name that PostgreSQL gives to a column without an alias.
pub(super) fn column_name(expr: &ast::Expr) -> String {
    match name_of(expr) {
        Some(Label::Own(name) | Label::Weak(name)) => name,
        None => "?column?".to_owned(),
    }
}

/// What an expression would name its column.
enum Label {
    /// After a column or a function.
    Own(String),
    /// After a type or a CASE: a cast around it names the column anew.
    Weak(String),
}

fn name_of(expr: &ast::Expr) -> Option<Label> {
    use ast::Expr as Ast;
    let fixed = |name: &str| Some(Label::Own(name.to_owned()));
    match expr {
        Ast::Identifier(name) => Some(Label::Own(fold(name))),
        Ast::CompoundIdentifier(names) => names.last().map(fold).map(Label::Own),
        Ast::Nested(inner) => name_of(inner),
        Ast::Collate { expr, .. } => name_of(expr),
        Ast::Function(function) => {
            let name = function.name.0.last().and_then(ast::ObjectNamePart::as_ident);
            name.map(fold).map(Label::Own)
        }
        Ast::Cast { expr, data_type, .. } => match name_of(expr) {
            Some(Label::Own(name)) => Some(Label::Own(name)),
            inner => type_label(data_type).map(Label::Weak).or(inner),
        },
        Ast::TypedString(typed) => type_label(&typed.data_type).map(Label::Weak),
        Ast::Interval(_) => Some(Label::Weak("interval".to_owned())),
        Ast::Array(_) => fixed("array"),
        // The last field, whatever elements are taken of it.
        Ast::CompoundFieldAccess { root, access_chain } => {
            let mut fields = access_chain.iter().rev().filter_map(|access| match access {
                ast::AccessExpr::Dot(field) => Some(field),
                ast::AccessExpr::Subscript(_) => None,
            });
            name_of(fields.next().unwrap_or(root))
        }
        Ast::BinaryOp {
            op: ast::BinaryOperator::Overlaps,
            ..
        } => fixed("overlaps"),
        Ast::Case { else_result, .. } => match else_result.as_deref().and_then(name_of) {
            Some(Label::Own(name)) => Some(Label::Own(name)),
            _ => Some(Label::Weak("case".to_owned())),
        },
        Ast::Subquery(query) => first_column_name(query).map(Label::Own),
        Ast::Exists { negated: false, .. } => fixed("exists"),
        Ast::Extract { .. } => fixed("extract"),
        Ast::Substring { shorthand: true, .. } => fixed("substr"),
        Ast::Substring { .. } => fixed("substring"),
        Ast::Position { .. } => fixed("position"),
        Ast::Overlay { .. } => fixed("overlay"),
        Ast::Ceil { .. } => fixed("ceil"),
        Ast::Floor { .. } => fixed("floor"),
        Ast::AtTimeZone { .. } => fixed("timezone"),
        Ast::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => fixed("ltrim"),
            Some(ast::TrimWhereField::Trailing) => fixed("rtrim"),
            _ => fixed("btrim"),
        },
        _ => None,
    }
}

/// A query within an expression is called like its column.
fn first_column_name(query: &ast::Query) -> Option<String> {
    match &*query.body {
        ast::SetExpr::Select(select) => match select.projection.first()? {
            ast::SelectItem::UnnamedExpr(expr) => Some(column_name(expr)),
            ast::SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        },
        ast::SetExpr::Query(inner) => first_column_name(inner),
        ast::SetExpr::Values(_) => Some("column1".to_owned()),
        _ => None,
    }
}

/// PostgreSQL's internal name of a type.
fn type_label(data_type: &ast::DataType) -> Option<String> {
    // A number of an object is shown by its name, and called by what it is a number of.
    let spelled = data_type.to_string().to_ascii_lowercase();
    if spelled.starts_with("reg") {
        return Some(spelled);
    }
    if let Ok(column_type) = super::types::bind_type(data_type) {
        let data_type = column_type.data_type;
        return Some(crate::deparse::internal_name(data_type.element().unwrap_or(data_type)).to_owned());
    }
    match data_type {
        ast::DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _)
            | ast::ArrayElemTypeDef::AngleBracket(element)
            | ast::ArrayElemTypeDef::Parenthesis(element),
        ) => type_label(element),
        // One of the users' types.
        ast::DataType::Custom(name, _) => name.0.last()?.as_ident().map(fold),
        _ => None,
    }
}
