//! Locks of tables: what LOCK TABLE asks for, and what changes of definitions take, up to the end of the transaction.
//!
//! They stand between those two only. Statements that read and write rows take none and wait for none: the order of transactions needs no
//! lock, and whoever has one is answered as if he had been alone. So a program that takes turns by LOCK TABLE gets turns, and what `pg_dump`
//! has locked is not dropped or emptied under it (decision 0070).

use super::Session;
use super::circles::changed_in_circle;
use super::moves::is_step;
use super::upkeep::found;
use crate::advisory::LockMode;
use crate::catalog::{Catalog, RelationName};
use crate::partition::Partition;
use crate::statement::{AlterAction, SchemaChange, Statement, UpkeepOf, Utility};
use rubato_base::{Error, Result, SqlState};
use rubato_protocol::{Outcome, Stop};
use std::collections::BTreeSet;

impl Session {
    /// LOCK TABLE, in the order of the names; of a view also what it reads, as far as that goes.
    ///
    /// Errors: 42P01 and 42809 for what is not there or cannot be locked, 55P03 where others have it and `waits` is false, 40P01. What has to
    /// wait begins again when it is woken, with all names: meanwhile there may be others of that name.
    pub(super) fn lock_tables(
        &mut self,
        relations: &[UpkeepOf],
        (mode, waits): (LockMode, bool),
        partition: &mut Partition,
        now_us: i64,
    ) -> Outcome<()> {
        let id = self.ensure_transaction(partition, false, now_us)?;
        let catalog = self.catalog(partition);
        let path = self.path_in(&catalog);
        for relation in relations {
            let name = found(&relation.path, &path, &catalog)?;
            for name in with_read(name, &catalog)? {
                if let Some(oid) = oid_of(&name, &catalog) {
                    self.lock_relation((oid, &name.name), mode, waits, partition)?;
                }
            }
        }
        // Whoever has waited is to see what was done before.
        if !self.is_read_only() {
            partition.database.catch_up(id)?;
        }
        Ok(())
    }

    /// What a change of definitions locks: the tables that it changes, but those that others do not see.
    pub(super) fn lock_changed(
        &mut self,
        change: &SchemaChange,
        (tables, before): (&[RelationName], &Catalog),
        partition: &mut Partition,
    ) -> Outcome<()> {
        let Some(mode) = mode_of(change) else { return Ok(()) };
        let others = tables.iter().filter(|name| !name.schema.is_temporary());
        for name in others {
            if let Some(table) = before.tables.get(name) {
                let locked = self.lock_relation((table.oid, &table.name), mode, true, partition);
                locked.map_err(|error| match error.code() {
                    SqlState::DEADLOCK_DETECTED => Stop::Abort(changed_in_circle()),
                    _ => Stop::Fail(error),
                })?;
            }
        }
        Ok(())
    }

    /// Whether the statement under way changes definitions.
    pub(super) fn changes_definitions(&self) -> bool {
        let statement = self.current.as_ref().map(|current| &current.statement);
        matches!(statement, Some(Statement::Utility(utility))
            if matches!(**utility, Utility::Schema(_) | Utility::CreateTableAs(_)))
    }
}

/// How a change of definitions locks what it changes, as PostgreSQL does; what is moved from node to node is the same afterwards.
fn mode_of(change: &SchemaChange) -> Option<LockMode> {
    match change {
        SchemaChange::Comment { .. } | SchemaChange::Remark { .. } => None,
        _ if is_step(change) => None,
        SchemaChange::CreateIndex { .. } => Some(LockMode::Share),
        // Those that it refers to.
        SchemaChange::CreateTable { .. } => Some(LockMode::ShareRowExclusive),
        SchemaChange::AlterTable { actions, .. } => Some(actions.iter().map(mode_of_action).max()?),
        _ => Some(LockMode::AccessExclusive),
    }
}

fn mode_of_action(action: &AlterAction) -> LockMode {
    match action {
        AlterAction::ValidateConstraint(_) => LockMode::ShareUpdateExclusive,
        AlterAction::AddForeignKey(_) | AlterAction::CheckReferences(_) => LockMode::ShareRowExclusive,
        _ => LockMode::AccessExclusive,
    }
}

/// A relation and, if it is a view, all that it reads. 42809 for what is neither a table nor a view.
fn with_read(name: RelationName, catalog: &Catalog) -> Result<Vec<RelationName>> {
    let is_systems = name.schema.system_name().is_some();
    if !is_systems && !catalog.tables.contains_key(&name) && !catalog.views.contains_key(&name) {
        let kind = match catalog.sequences.contains_key(&name) {
            true => "sequences",
            false => "indexes",
        };
        let message = format!("cannot lock relation \"{}\"", name.name);
        let error = Error::new(SqlState::WRONG_OBJECT_TYPE, message);
        return Err(error.with_detail(format!("This operation is not supported for {kind}.")));
    }
    let (mut seen, mut all) = (BTreeSet::from([name.clone()]), vec![name]);
    let mut next = 0;
    while let Some(name) = all.get(next) {
        next += 1;
        let view = catalog.views.get(name);
        let read = view.into_iter().flat_map(|view| &view.query.depends);
        let new: Vec<RelationName> = read
            .map(|dependency| dependency.relation.clone())
            .filter(|relation| seen.insert(relation.clone()))
            .collect();
        all.extend(new);
    }
    Ok(all)
}

fn oid_of(name: &RelationName, catalog: &Catalog) -> Option<u32> {
    let table = catalog.tables.get(name).map(|table| table.oid);
    table.or_else(|| catalog.views.get(name).map(|view| view.oid))
}
