//! `information_schema._pg_truetypid` and `_pg_truetypmod`: of rows of `pg_attribute` and `pg_type` the type that a column's values have,
//! whether it is one of a domain or not.

use super::expression::ExpressionBinder;
use super::typed::Typed;
use crate::parser::syntax::fold;
use rubato_base::Result;
use sqlparser::ast::{self, helpers::attached_token::AttachedToken};

/// What is read of the type of a domain, and of any other column.
const COLUMNS: [(&str, &str, &str); 2] = [
    ("_pg_truetypid", "typbasetype", "atttypid"),
    ("_pg_truetypmod", "typtypmod", "atttypmod"),
];

impl ExpressionBinder<'_> {
    /// A call of one of the two; `None` of any other function, or with arguments that are no rows of tables.
    pub(super) fn true_type(&self, name: &str, arguments: &ast::FunctionArguments) -> Result<Option<Typed>> {
        let Some((_, of_domain, of_column)) = COLUMNS.iter().find(|(own, ..)| *own == name) else {
            return Ok(None);
        };
        let ast::FunctionArguments::List(list) = arguments else {
            return Ok(None);
        };
        let [Some(attribute), Some(data_type)] = &list.args.iter().map(row).collect::<Vec<_>>()[..] else {
            return Ok(None);
        };
        let column = |row: &ast::Ident, name: &str| {
            ast::Expr::CompoundIdentifier(vec![row.clone(), ast::Ident::with_span(row.span, name)])
        };
        let is_domain = ast::Expr::BinaryOp {
            left: Box::new(column(data_type, "typtype")),
            op: ast::BinaryOperator::Eq,
            right: Box::new(ast::Expr::Value(ast::Value::SingleQuotedString("d".to_owned()).into())),
        };
        let either = ast::Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![ast::CaseWhen {
                condition: is_domain,
                result: column(data_type, of_domain),
            }],
            else_result: Some(Box::new(column(attribute, of_column))),
        };
        self.bind(&either).map(Some)
    }
}

/// The table that an argument names the row of: `a` or `a.*`.
fn row(argument: &ast::FunctionArg) -> Option<ast::Ident> {
    let ast::FunctionArg::Unnamed(argument) = argument else {
        return None;
    };
    let name = match argument {
        ast::FunctionArgExpr::Expr(ast::Expr::Identifier(name)) => name,
        ast::FunctionArgExpr::QualifiedWildcard(name) => match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(name)] => name,
            _ => return None,
        },
        ast::FunctionArgExpr::Expr(ast::Expr::QualifiedWildcard(name, _)) => match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(name)] => name,
            _ => return None,
        },
        _ => return None,
    };
    Some(ast::Ident {
        value: fold(name),
        quote_style: Some('"'),
        ..name.clone()
    })
}
