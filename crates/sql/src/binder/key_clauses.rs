//! What is said of keys beside their columns.

use crate::catalog::{Deferral, KeyOrder, ReferentialAction};
use crate::parser::NULLS_NOT_DISTINCT;
use rubato_base::{Error, Result};
use sqlparser::ast;

/// How the columns of an index are said to be ordered; empty if as usual.
pub(super) fn key_orders(columns: &[ast::IndexColumn]) -> Vec<KeyOrder> {
    let order = |column: &ast::IndexColumn| {
        let said = &column.column.options;
        let descending = said.sort.as_ref().is_some_and(|sort| *sort == ast::OrderBySort::Desc);
        KeyOrder {
            descending,
            nulls_first: said.nulls_first.unwrap_or(descending),
        }
    };
    let orders: Vec<KeyOrder> = columns.iter().map(order).collect();
    match orders.iter().all(|order| *order == KeyOrder::default()) {
        true => Vec::new(),
        false => orders,
    }
}

/// Whether an option of a column is NULLS NOT DISTINCT of its UNIQUE.
pub(super) fn is_not_distinct(option: &ast::ColumnOptionDef) -> bool {
    matches!(&option.option, ast::ColumnOption::Collation(name) if name.to_string() == NULLS_NOT_DISTINCT)
}

/// What is said of when a constraint is checked.
pub(super) fn deferral(characteristics: Option<ast::ConstraintCharacteristics>) -> Result<Deferral> {
    let Some(said) = characteristics else {
        return Ok(Deferral::Never);
    };
    if said.enforced == Some(false) {
        return Err(Error::unsupported("a constraint that is NOT ENFORCED"));
    }
    let initially_deferred = said
        .initially
        .map(|initially| initially == ast::DeferrableInitial::Deferred);
    Deferral::of_clauses(said.deferrable, initially_deferred)
}

/// What ON DELETE and ON UPDATE say.
pub(super) fn referential_action(action: Option<&ast::ReferentialAction>) -> ReferentialAction {
    match action {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::Refuse,
        Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
    }
}
