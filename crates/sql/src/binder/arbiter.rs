//! ON CONFLICT: the unique index whose conflicts are resolved.

use super::expression::ExpressionBinder;
use super::scope::Scope;
use super::target::{Target, Write};
use super::{Context, located, object_name};
use crate::catalog::{Index, Table};
use crate::parser::ConflictTarget;
use crate::parser::syntax::fold;
use crate::planner::{implies, is_same};
use rubato_base::{Error, Result, SqlState};
use rubato_formula::Expr;
use sqlparser::ast;
use std::collections::BTreeSet;

impl Context<'_> {
    /// The arbiter that a clause names: `None` any, `Some(None)` the primary key, `Some(Some(i))` unique index i.
    pub(super) fn arbiter(
        &self,
        clause: &ast::OnConflict,
        target: Option<&ConflictTarget>,
        written: &Target,
    ) -> Result<Option<Option<usize>>> {
        let table = &written.table;
        if let Some(target) = target {
            let scope = written.scope();
            let wanted = self.inferred_keys(&target.keys, written, &scope)?;
            let predicate = target.predicate.as_ref();
            let binder = ExpressionBinder::new(self, &scope, "WHERE");
            let predicate = predicate.map(|predicate| binder.condition(predicate)).transpose()?;
            return self.arbiter_by_keys(&wanted, predicate, table).map(Some);
        }
        match &clause.conflict_target {
            None => {
                let put_off = table.indexes.iter().find(|index| index.deferral.is_deferrable());
                put_off.map_or(Ok(None), |index| Err(no_arbiter(table, index)))
            }
            Some(ast::ConflictTarget::Columns(names)) => {
                let mut wanted = BTreeSet::new();
                for name in names {
                    wanted.insert(located(self, name.span, written.column(&fold(name), Write::Update))?);
                }
                self.arbiter_by_keys(&wanted, None, table).map(Some)
            }
            Some(ast::ConflictTarget::OnConstraint(name)) => arbiter_by_name(name, written).map(Some),
        }
    }

    /// What the clause lists, as numbers in keys.
    fn inferred_keys(&self, keys: &[ast::Expr], written: &Target, scope: &Scope) -> Result<BTreeSet<usize>> {
        let table = &written.table;
        let mut wanted = BTreeSet::new();
        for key in keys {
            if let ast::Expr::Identifier(name) = key {
                wanted.insert(located(self, name.span, written.column(&fold(name), Write::Update))?);
                continue;
            }
            let typed = ExpressionBinder::new(self, scope, "index expressions").bind(key)?;
            let expr = self.settle(typed)?.expr.fold_constants();
            let number = match expr {
                Expr::Column(column) => Some(column),
                _ => table.number_of_expression(|own| is_same(&expr, &own.expr, self)),
            };
            wanted.insert(number.ok_or_else(no_match)?);
        }
        Ok(wanted)
    }

    fn arbiter_by_keys(
        &self,
        wanted: &BTreeSet<usize>,
        predicate: Option<Expr>,
        table: &Table,
    ) -> Result<Option<usize>> {
        let is_wanted = |columns: &[usize]| columns.iter().copied().collect::<BTreeSet<_>>() == *wanted;
        if !table.primary_key.is_empty() && is_wanted(&table.primary_key) {
            return Ok(None);
        }
        let terms: Vec<Expr> = predicate.into_iter().map(Expr::fold_constants).collect();
        let covers = |index: &Index| match &index.predicate {
            Some(own) => implies(&terms, &own.expr, self),
            None => true,
        };
        let index = table
            .indexes
            .iter()
            .position(|index| index.unique && is_wanted(&index.columns) && covers(index));
        let mut put_off = table.indexes.iter().filter(|index| index.deferral.is_deferrable());
        if index.is_none()
            && let Some(index) = put_off.find(|index| is_wanted(&index.columns))
        {
            return Err(no_arbiter(table, index));
        }
        index.map(Some).ok_or_else(no_match)
    }
}

/// 42P10.
fn no_match() -> Error {
    Error::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
    )
}

/// 55000: whether there is a conflict is known only later.
fn no_arbiter(table: &Table, index: &Index) -> Error {
    let message = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
    let error = Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
    table.named_in(error, None, Some(&index.name))
}

fn arbiter_by_name(name: &ast::ObjectName, written: &Target) -> Result<Option<usize>> {
    let table = &written.table;
    let name = object_name(name)?.pop().unwrap_or_default();
    if !written.is_view() && !table.primary_key.is_empty() && table.primary_key_name == name {
        return Ok(None);
    }
    let is_meant = |index: &Index| !written.is_view() && index.constraint && index.name == name;
    let index = table.indexes.iter().position(is_meant);
    if let Some(index) = index.map(|index| &table.indexes[index])
        && index.deferral.is_deferrable()
    {
        return Err(no_arbiter(table, index));
    }
    index.map(Some).ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{name}\" for table \"{}\" does not exist", written.name()),
        )
    })
}
