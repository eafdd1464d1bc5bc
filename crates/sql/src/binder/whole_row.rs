//! Whole rows: the name of a relation where a value is wanted. There are no records, so that such a name is what is made of it: a document
//! with the columns, a test for NULL, or one of its columns.

use super::Context;
use super::expression::{ExpressionBinder, and, boolean, not_if};
use super::scope::{Found, Hidden, Scope, ScopeColumn};
use super::select::{Item, expanded_columns};
use super::typed::Typed;
use crate::parser::syntax::fold;
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_formula::Expr;
use sqlparser::ast;

/// The columns of a row that is named.
pub(super) struct NamedRow {
    pub(super) columns: Vec<ast::Expr>,
    names: Vec<String>,
    /// It may be missing as a whole: then it is NULL.
    is_optional: bool,
}

/// Functions and aggregates that make documents of rows, or count them.
const TAKE_ROWS: [&str; 12] = [
    "count",
    "json_agg",
    "json_build_array",
    "json_build_object",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_object_agg",
    "row_to_json",
    "to_json",
    "to_jsonb",
];

/// Whether it is the document of a row.
pub(super) fn is_row_document(expr: &Expr) -> bool {
    match expr {
        Expr::Call { function, .. } => function.name() == ROW_DOCUMENT,
        Expr::Case { otherwise, .. } => is_row_document(otherwise),
        _ => false,
    }
}

/// The function that makes documents of rows.
const ROW_DOCUMENT: &str = "json_row";

impl Scope {
    /// The row that a name stands for, unless it is that of a column.
    fn row(&self, name: &ast::Ident) -> Option<NamedRow> {
        let folded = fold(name);
        let relation = self.relation_named(&folded).ok()?;
        let relation = &self.relations[relation];
        if relation.is_value || self.find(None, &folded).is_ok() {
            return None;
        }
        let seen = relation.columns.iter().enumerate();
        let seen = seen.filter(|(_, column)| matches!(column.hidden, Hidden::No | Hidden::Merged));
        let own_name = |place: usize| relation.own_names.as_ref()?.get(place).cloned();
        let quoted = |name: &str| ast::Ident {
            span: sqlparser::tokenizer::Span::empty(),
            ..ast::Ident::with_quote('"', name)
        };
        let column = |(place, own): (usize, &ScopeColumn)| {
            let path = vec![quoted(&folded), quoted(&own.name)];
            let name = own_name(place).unwrap_or_else(|| own.name.clone());
            (ast::Expr::CompoundIdentifier(path), name)
        };
        let (columns, names) = seen.map(column).unzip();
        Some(NamedRow {
            columns,
            names,
            is_optional: relation.is_optional,
        })
    }
}

/// The call with `row` in place of `row.*` among its arguments, which is the same there.
pub(super) fn naming_rows(function: &ast::Function) -> Option<ast::Function> {
    let row = |argument: &ast::FunctionArg| {
        let name = match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) => name,
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::QualifiedWildcard(name, _))) => name,
            _ => return None,
        };
        match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(name)] => Some(name.clone()),
            _ => None,
        }
    };
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    list.args.iter().find_map(row)?;
    let mut named = function.clone();
    if let ast::FunctionArguments::List(list) = &mut named.args {
        for argument in &mut list.args {
            if let Some(name) = row(argument) {
                *argument = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Identifier(name)));
            }
        }
    }
    Some(named)
}

impl Context<'_> {
    /// The columns of a relation of a query around this one. The error is what is said if there is none.
    pub(super) fn outer_row(&self, alias: &str, error: Error) -> Result<Vec<Item>> {
        let places = self.outer_scope(&|outer| {
            let relation = outer.relation_named(alias).ok()?;
            Some(expanded_columns(outer, relation))
        });
        let Some(places) = places.filter(|_| error.code() == SqlState::UNDEFINED_TABLE) else {
            return Err(error);
        };
        let item = |(index, name): (usize, String)| {
            let found = self.outer_column(&[], &|outer| {
                let relation = outer.relation_named(alias).ok()?;
                let column = outer.relations[relation].columns.get(index)?;
                Some(Ok(Found {
                    relation,
                    global: outer.relations[relation].global(index),
                    column_type: column.column_type,
                }))
            });
            let typed = found.unwrap_or_else(|| Err(Error::internal("a query lost the one around it")))?;
            Ok(Item {
                typed,
                name,
                origin: None,
            })
        };
        places.into_iter().map(item).collect()
    }

    /// The row of a relation in reach, here or around.
    fn named_row(&self, scope: &Scope, name: &ast::Ident) -> Option<NamedRow> {
        scope.row(name).or_else(|| self.outer_scope(&|outer| outer.row(name)))
    }
}

impl ExpressionBinder<'_> {
    /// The row that an expression names.
    pub(super) fn whole_row(&self, expr: &ast::Expr) -> Option<NamedRow> {
        match expr {
            ast::Expr::Identifier(name) => self.context.named_row(self.scope, name),
            ast::Expr::Nested(inner) => self.whole_row(inner),
            _ => None,
        }
    }

    /// The arguments of a function: rows as documents where it takes any.
    pub(super) fn bind_arguments(&self, function: &str, arguments: &[&ast::Expr]) -> Result<Vec<Typed>> {
        let takes_rows = TAKE_ROWS.contains(&function);
        let bind = |argument: &&ast::Expr| match self.row_document(argument, takes_rows)? {
            Some(document) => Ok(document),
            None => self.bind(argument),
        };
        arguments.iter().map(bind).collect()
    }

    fn row_document(&self, expr: &ast::Expr, wanted: bool) -> Result<Option<Typed>> {
        if !wanted {
            return Ok(None);
        }
        if let Some(row) = self.whole_row(expr) {
            return self.document_of(&row).map(Some);
        }
        let Some(items) = super::comparison::row_of(expr) else {
            return Ok(None);
        };
        let row = NamedRow {
            columns: items.to_vec(),
            names: (1..=items.len()).map(|number| format!("f{number}")).collect(),
            is_optional: false,
        };
        self.document_of(&row).map(Some)
    }

    fn document_of(&self, row: &NamedRow) -> Result<Typed> {
        let mut arguments = Vec::with_capacity(2 * row.columns.len());
        let mut are_null = Vec::with_capacity(row.columns.len());
        for (name, column) in row.names.iter().zip(&row.columns) {
            let value = self.context.settle(self.bind(column)?)?;
            are_null.push(Expr::IsNull(Box::new(value.expr.clone())));
            arguments.push(Typed::new(Expr::Literal(Value::text(name)), DataType::Text));
            arguments.push(self.function_call("to_json", vec![self.plain(value)?])?);
        }
        let mut document = self.function_call(ROW_DOCUMENT, arguments)?;
        if row.is_optional && !are_null.is_empty() {
            document.expr = Expr::Case {
                branches: vec![(Expr::And(are_null), Expr::Literal(Value::Null))],
                otherwise: Box::new(document.expr),
            };
        }
        Ok(document)
    }

    /// `row IS [NOT] NULL`: every column is NULL, or none is.
    pub(super) fn row_is_null(&self, columns: &[ast::Expr], negated: bool) -> Result<Typed> {
        let term = |column: &ast::Expr| {
            let value = self.context.settle(self.bind(column)?)?;
            Ok(not_if(negated, Expr::IsNull(Box::new(value.expr))))
        };
        let terms = columns.iter().map(term).collect::<Result<Vec<_>>>()?;
        Ok(boolean(and(terms)))
    }

    /// `(row).column`
    pub(super) fn row_column(&self, root: &ast::Expr, field: &ast::Ident) -> Result<Option<Typed>> {
        let ast::Expr::Nested(inner) = root else {
            return Ok(None);
        };
        let (Some(_), ast::Expr::Identifier(name)) = (self.whole_row(inner), &**inner) else {
            return Ok(None);
        };
        let names = vec![name.clone(), field.clone()];
        self.bind(&ast::Expr::CompoundIdentifier(names)).map(Some)
    }
}
