//! What a definition within a block of DO does, and what a condition asks.

use super::{TextSettings, bind_source};
use crate::catalog::{Catalog, RelationName};
use crate::parser::syntax::Source;
use crate::plan::Plan;
use crate::statement::{SchemaChange, Statement, Utility};
use rubato_base::{Error, Result};
use std::sync::Arc;

/// A definition in a catalog in which those before it are carried out. Errors: those of binding it; 0A000 for any other statement.
pub(crate) fn bind_definition(sql: &str, settings: &TextSettings, catalog: &Catalog) -> Result<SchemaChange> {
    let bound = match bind_source(Source::new(sql), &[], &[], catalog, settings)? {
        Statement::Utility(utility) => Arc::into_inner(utility),
        _ => None,
    };
    match bound {
        Some(Utility::Schema(change)) if may_stand_in_block(&change) => Ok(change),
        _ => Err(Error::unsupported("anything but a definition in DO")),
    }
}

/// What a condition asks in a catalog in which the definitions before it are carried out. Errors: those of binding it; 0A000 where it reads
/// rows of the user's.
pub(crate) fn bind_condition(sql: &str, settings: &TextSettings, catalog: &Catalog) -> Result<Arc<Plan>> {
    // A comment may be the last of it.
    let query = format!("SELECT ({sql}\n)::boolean");
    let Statement::Planned(plan) = bind_source(Source::new(&query), &[], &[], catalog, settings)? else {
        return Err(Error::internal("a condition is no query"));
    };
    let reads_rows = |(name, _): &(RelationName, u64)| catalog.has_relation(name);
    if !plan.read_only || plan.table_versions.iter().any(reads_rows) {
        return Err(Error::unsupported("a condition over rows of tables in DO"));
    }
    Ok(plan)
}

/// What lets go of rows, or has to do with numbers or nodes, is a statement of its own.
fn may_stand_in_block(change: &SchemaChange) -> bool {
    !matches!(
        change,
        SchemaChange::Truncate { .. }
            | SchemaChange::EmptyTemporary { .. }
            | SchemaChange::DropTemporary { .. }
            | SchemaChange::DropSchema { .. }
            | SchemaChange::Refresh { .. }
            | SchemaChange::AlterSequence { .. }
            | SchemaChange::Do(_)
    )
}
