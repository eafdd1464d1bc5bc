//! Functions of rows in FROM, where their arguments may name what stands before them.

use super::expression::ExpressionBinder;
use super::from::{From, push};
use super::records::{is_populating, is_record_function};
use super::scope::{Hidden, ScopeColumn};
use super::typed::Typed;
use super::{Context, located, object_name};
use crate::parser::syntax::fold;
use crate::plan::{Relation, RowsCall, RowsFrom};
use crate::system_tables;
use rubato_base::{ColumnType, DataType, Error, Result, Value};
use rubato_formula::{CastContext, Expr, is_set_function, resolve_set_function};
use sqlparser::ast::{self, Spanned};

/// A function of rows that was called: how, and its columns.
#[derive(PartialEq)]
pub(super) struct BoundSet {
    pub(super) call: RowsCall,
    pub(super) columns: Vec<(Option<&'static str>, ColumnType)>,
}

/// The name of a function that has no schema but PostgreSQL's own.
fn own_name(name: &ast::ObjectName) -> Result<Option<String>> {
    let mut path = object_name(name)?;
    let is_own = path.len() == 1 || (path.len() == 2 && path[0] == "pg_catalog");
    Ok(path.pop().filter(|_| is_own))
}

/// The calls that ROWS FROM lists. `unnest` of several arrays is several calls.
pub(super) fn calls_of_rows_from(listed: &[ast::FunctionArg]) -> Result<Vec<(&ast::ObjectName, &[ast::FunctionArg])>> {
    let mut calls = Vec::with_capacity(listed.len());
    for item in listed {
        let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Function(call))) = item else {
            return Err(Error::unsupported("this form of ROWS FROM"));
        };
        let ast::FunctionArguments::List(list) = &call.args else {
            return Err(Error::unsupported("this form of ROWS FROM"));
        };
        if is_record_function(&call.name) || is_populating(&call.name) {
            return Err(Error::unsupported(
                "a function that makes rows of documents in ROWS FROM",
            ));
        }
        match own_name(&call.name)?.as_deref() {
            Some("unnest") => calls.extend(list.args.chunks(1).map(|array| (&call.name, array))),
            _ => calls.push((&call.name, list.args.as_slice())),
        }
    }
    Ok(calls)
}

/// The arrays of `LATERAL unnest(a, b)`, which the parser takes for a function like others.
pub(super) fn several_arrays(name: &ast::ObjectName, arguments: &[ast::FunctionArg]) -> Option<Vec<ast::Expr>> {
    if arguments.len() < 2 || object_name(name).ok()? != ["unnest"] {
        return None;
    }
    let array = |argument: &ast::FunctionArg| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array)) => Some(array.clone()),
        _ => None,
    };
    arguments.iter().map(array).collect()
}

impl Context<'_> {
    /// `FROM function(...)`, or several of them side by side.
    pub(super) fn functions(
        &self,
        calls: &[(&ast::ObjectName, &[ast::FunctionArg])],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        state: &mut From,
        factor: &ast::TableFactor,
    ) -> Result<()> {
        let first = calls.first().map(|(name, _)| own_name(name)).transpose()?.flatten();
        if let ([(_, [])], Some(name), false) = (calls, &first, ordinality)
            && let Some(function) = system_tables::function(name)
        {
            let alias_name = alias.map_or_else(|| name.clone(), |alias| fold(&alias.name));
            self.check_alias(&alias_name, &state.scope, factor)?;
            state.scope.push(&alias_name, function.scope_columns(), None);
            self.rename(alias, state)?;
            push(state, Relation::System(function.name.to_owned()));
            return Ok(());
        }
        let bound = calls.iter().map(|(name, arguments)| {
            let binder = ExpressionBinder::new(self, &state.scope, "functions in FROM");
            binder.rows_call(name, arguments)
        });
        let bound = bound.collect::<Result<Vec<_>>>()?;
        let own = bound.first().map_or_else(String::new, |first| first.call.name.clone());
        self.push_functions(bound, (&own, alias), ordinality, state, factor)
    }

    /// `FROM unnest(array, ...)`
    pub(super) fn unnest(
        &self,
        arrays: &[ast::Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        state: &mut From,
        factor: &ast::TableFactor,
    ) -> Result<()> {
        let binder = ExpressionBinder::new(self, &state.scope, "functions in FROM");
        let bind = |array: &ast::Expr| {
            let typed = binder.bind(array)?;
            located(self, array.span(), binder.set_call("unnest", vec![typed]))
        };
        let bound = arrays.iter().map(bind).collect::<Result<Vec<_>>>()?;
        let own = bound.first().map_or_else(String::new, |first| first.call.name.clone());
        self.push_functions(bound, (&own, alias), ordinality, state, factor)
    }

    /// `FROM sequence`: its last number and whether that was given; false if the name is not that of a sequence.
    pub(super) fn sequence(
        &self,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        state: &mut From,
        factor: &ast::TableFactor,
    ) -> Result<bool> {
        let path = object_name(name)?;
        let split = self.split_path(&path);
        let (schema, own) = located(self, sqlparser::ast::Spanned::span(name), split)?;
        let found = self.path.find(schema, own, self.catalog)?;
        let Some(sequence) = found.and_then(|found| self.catalog.sequences.get(&found)) else {
            return Ok(false);
        };
        let binder = ExpressionBinder::new(self, &state.scope, "functions in FROM");
        let name = sequence.key();
        self.tables
            .borrow_mut()
            .insert(name.clone(), self.catalog.plan_version(&name));
        let number = sequence.id.to_string();
        let literal = Typed::new(Expr::Literal(Value::text(&number)), DataType::Text);
        let bound = binder.set_call("pg_get_sequence_data", vec![literal])?;
        self.push_functions(vec![bound], (&sequence.name, alias), false, state, factor)?;
        Ok(true)
    }

    fn push_functions(
        &self,
        bound: Vec<BoundSet>,
        (own, alias): (&str, Option<&ast::TableAlias>),
        ordinality: bool,
        state: &mut From,
        factor: &ast::TableFactor,
    ) -> Result<()> {
        let alias_name = alias.map_or_else(|| own.to_owned(), |alias| fold(&alias.name));
        self.check_alias(&alias_name, &state.scope, factor)?;
        let is_single = bound.len() == 1;
        let mut columns = Vec::new();
        for set in &bound {
            // The alias of one function of one column is that column's name too.
            let own = if is_single { &alias_name } else { &set.call.name };
            columns.extend(set.columns.iter().map(|(name, column_type)| ScopeColumn {
                name: name.map_or_else(|| own.clone(), str::to_owned),
                column_type: *column_type,
                hidden: Hidden::No,
            }));
        }
        let is_value = columns.len() == 1 && !ordinality;
        columns.extend(ordinality.then(|| ScopeColumn {
            name: "ordinality".to_owned(),
            column_type: ColumnType::plain(DataType::Int8),
            hidden: Hidden::No,
        }));
        state.scope.push(&alias_name, columns, None);
        if let Some(relation) = state.scope.relations.last_mut() {
            relation.is_value = is_value;
        }
        self.rename(alias, state)?;
        let calls = bound.into_iter().map(|set| set.call).collect();
        push(
            state,
            Relation::Functions(RowsFrom {
                calls,
                ordinality,
                is_last: false,
            }),
        );
        Ok(())
    }
}

impl ExpressionBinder<'_> {
    /// A call in FROM: of a function of rows, or of one of a value, which is one row of one column.
    fn rows_call(&self, name: &ast::ObjectName, arguments: &[ast::FunctionArg]) -> Result<BoundSet> {
        if let Some(own) = own_name(name)?.filter(|own| is_set_function(own)) {
            let bind = |argument: &ast::FunctionArg| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => self.bind(expr),
                _ => Err(Error::unsupported("a named function argument")),
            };
            let arguments = arguments.iter().map(bind).collect::<Result<Vec<_>>>()?;
            return located(self.context, name.span(), self.set_call(&own, arguments));
        }
        let mut typed = self.context.settle(self.named_call(name, arguments)?)?;
        self.context.asked_before(&mut typed.expr, "a function in FROM")?;
        let column_type = ColumnType {
            data_type: typed.data_type,
            modifier: typed.modifier,
        };
        Ok(BoundSet {
            call: RowsCall {
                name: object_name(name)?.pop().unwrap_or_default(),
                function: None,
                arguments: vec![typed.expr],
                types: vec![column_type],
            },
            columns: vec![(None, column_type)],
        })
    }

    /// A call of a function of rows.
    pub(super) fn set_call(&self, name: &str, arguments: Vec<Typed>) -> Result<BoundSet> {
        let types: Vec<DataType> = arguments
            .iter()
            .map(|argument| self.context.type_of(argument))
            .collect();
        let resolved = resolve_set_function(name, &types)?;
        let convert = |(argument, to): (Typed, &DataType)| self.context.coerce(argument, *to, CastContext::Implicit);
        let arguments = arguments.into_iter().zip(&resolved.argument_types).map(convert);
        let mut arguments = arguments.collect::<Result<Vec<Expr>>>()?;
        arguments
            .iter_mut()
            .try_for_each(|argument| self.context.asked_before(argument, "a set-returning function"))?;
        let columns = resolved.columns.iter();
        let columns = columns.map(|(name, data_type)| (*name, ColumnType::plain(*data_type)));
        let columns: Vec<_> = columns.collect();
        Ok(BoundSet {
            call: RowsCall {
                name: name.to_owned(),
                function: Some(resolved.function),
                arguments,
                types: columns.iter().map(|(_, column_type)| *column_type).collect(),
            },
            columns,
        })
    }
}
