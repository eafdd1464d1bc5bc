//! Statements of upkeep, which have nothing to do: what they name has to be there.

use super::Session;
use crate::binder::{ResolvedPath, no_relation, split_path};
use crate::catalog::{Catalog, RelationName, Table, no_schema};
use crate::partition::Partition;
use crate::statement::{UpkeepKind, UpkeepOf, Where};
use crate::system_tables;
use rubato_base::{Error, Result, SqlState};
use std::collections::BTreeSet;

impl Session {
    /// Errors: 25001 where the statement may not stand; 42P01 and 42703 for what it names and is not there, 42809 for what is of another kind.
    pub(super) fn check_on_relations(
        &mut self,
        place: Where,
        relations: &[UpkeepOf],
        partition: &Partition,
    ) -> Result<()> {
        if let Where::OutsideBlock(what) = place {
            self.check_alone(what)?;
        }
        let catalog = self.catalog(partition);
        let path = self.path_in(&catalog);
        for relation in relations {
            let found = found(&relation.path, &path, &catalog)?;
            check_kind(relation.kind, &found, &catalog)?;
            let table = catalog.tables.get(&found);
            table.map_or(Ok(()), |table| check_columns(table, &relation.columns))?;
        }
        Ok(())
    }
}

/// The relation of a name, the system's too.
pub(super) fn found(name: &[String], path: &ResolvedPath, catalog: &Catalog) -> Result<RelationName> {
    let (schema, own) = split_path(name, &path.database)?;
    let is_systems = |found: &RelationName| {
        let schema = found.schema.system_name();
        schema.is_some_and(|schema| system_tables::find(Some(schema), &found.name).is_some())
    };
    let candidates = path.candidates(schema, own, catalog)?;
    if let (Some(schema), true) = (schema, candidates.is_empty()) {
        return Err(no_schema(schema));
    }
    let is_there = |candidate: &RelationName| is_systems(candidate) || catalog.has_relation(candidate);
    let found = candidates.into_iter().find(is_there);
    found.ok_or_else(|| no_relation(&name.join(".")))
}

fn check_kind(kind: UpkeepKind, found: &RelationName, catalog: &Catalog) -> Result<()> {
    let is_systems = found.schema.system_name().is_some();
    let (is_meant, what) = match kind {
        UpkeepKind::Relation => (true, ""),
        UpkeepKind::Table => (catalog.tables.contains_key(found), "a table or materialized view"),
        UpkeepKind::Index => (catalog.table_of_index(found).is_some(), "an index"),
    };
    if is_meant || is_systems {
        return Ok(());
    }
    let message = format!("\"{found}\" is not {what}");
    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
}

fn check_columns(table: &Table, columns: &[String]) -> Result<()> {
    let mut named = BTreeSet::new();
    for name in columns {
        let refused = |code, what: &str| {
            let message = format!("column \"{name}\" of relation \"{}\" {what}", table.name);
            Err(Error::new(code, message))
        };
        if !table.columns.iter().any(|own| !own.dropped && own.name == *name) {
            return refused(SqlState::UNDEFINED_COLUMN, "does not exist");
        }
        if !named.insert(name) {
            return refused(SqlState::DUPLICATE_COLUMN, "appears more than once");
        }
    }
    Ok(())
}
