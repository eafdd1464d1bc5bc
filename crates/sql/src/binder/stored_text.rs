//! Texts of views that the catalog has, bound once more.

use super::Context;
use super::renaming::Names;
use super::search_path::ResolvedPath;
use crate::catalog::{Catalog, SchemaId, ViewQuery};
use crate::client::OutputColumn;
use crate::parser::syntax::{Source, parse_statement, with_stack_for};
use rubato_base::text_format::TextContext;
use rubato_base::{ColumnType, Error, Result, SqlState};
use sqlparser::ast;

/// Whether a view's text can be read, and has columns of these types.
pub(super) fn has_columns(query: &ViewQuery, catalog: &Catalog, output: &[OutputColumn]) -> bool {
    let is_same = |(own, wanted): (&ColumnType, &OutputColumn)| {
        (own.data_type, own.modifier) == (wanted.data_type, wanted.modifier)
    };
    meanings(catalog, query)
        .is_ok_and(|(_, types)| types.len() == output.len() && types.iter().zip(output).all(is_same))
}

/// Whether a view's text shows columns that it does not group by, and that no primary key of the catalog makes up for.
pub(crate) fn lacks_groups(query: &ViewQuery, catalog: &Catalog) -> bool {
    meanings(catalog, query).is_err_and(|error| error.code() == SqlState::GROUPING_ERROR)
}

/// What the names of a view's query mean, and the types of its columns.
pub(super) fn meanings(catalog: &Catalog, query: &ViewQuery) -> Result<(Names, Vec<ColumnType>)> {
    noted(catalog, query, |context, query| {
        let (_, output) = context.query(query, &[])?;
        let types = output.iter().map(|column| ColumnType {
            data_type: column.data_type,
            modifier: column.modifier,
        });
        Ok(types.collect())
    })
}

pub(super) fn noted<T>(
    catalog: &Catalog,
    query: &ViewQuery,
    bind: impl FnOnce(&Context<'_>, &ast::Query) -> Result<T>,
) -> Result<(Names, T)> {
    let schemas = query.depends.iter().map(|dependency| dependency.relation.schema);
    let temporary = schemas
        .chain(query.path.iter().copied())
        .find(|schema| schema.is_temporary());
    let path = ResolvedPath {
        searched: query.path.clone().into(),
        listed: query.path.clone().into(),
        temporary: temporary.unwrap_or(SchemaId::NOWHERE),
        ..ResolvedPath::default()
    };
    let mut context = Context::new(Source::new(&query.text), catalog, TextContext::default(), path);
    context.names_meant = Some(Default::default());
    context.views.borrow_mut().push(query.clone());
    context.defines_view.set(true);
    let bound = with_stack_for(&query.text, || {
        let parsed = parse_statement(Source::new(&query.text))?;
        match &parsed.statement {
            ast::Statement::Query(query) => bind(&context, query),
            _ => Err(Error::internal("a view without a query")),
        }
    })?;
    let names = context.names_meant.take().unwrap_or_default().into_inner();
    Ok((names, bound))
}
