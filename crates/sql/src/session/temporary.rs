//! The session's temporary relations: what becomes of them when a transaction commits, and when the session ends.
//!
//! They are relations like others, in a schema of the session's own. Nobody else changes them, so that what happens here never waits.

use super::block::OpenTransaction;
use super::schema::attachment_of;
use super::{Block, Session};
use crate::catalog::{Catalog, OnCommit, RelationName, SchemaId, Table};
use crate::grid::GridDesk;
use crate::partition::Partition;
use crate::plan::Plan;
use crate::route::for_each_written;
use crate::schema_change::apply_under;
use crate::statement::{CopyStatement, SchemaChange};
use rubato_base::{Error, Result, SessionId, SqlState};
use rubato_protocol::Stop;
use std::sync::Arc;

/// Where the session's temporary relations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Temporary {
    schema: SchemaId,
    /// They are on the node that keeps what there is once, where a session works for this one: it makes them and drops them.
    is_elsewhere: bool,
    /// The schema of those that are on this node.
    here: SchemaId,
}

impl Temporary {
    /// In a schema of the session's own.
    pub(super) fn of(session: SessionId) -> Temporary {
        let here = SchemaId::temporary(session.0);
        Temporary {
            schema: here,
            is_elsewhere: false,
            here,
        }
    }

    /// In this schema, if they are on this node.
    pub(super) fn make(&mut self, schema: SchemaId) {
        self.here = schema;
        if !self.is_elsewhere {
            self.schema = schema;
        }
    }
}

impl Session {
    /// The schema of the session's temporary relations.
    pub(super) fn own_schema(&self) -> SchemaId {
        self.temporary.schema
    }

    /// Whether the session has temporary relations here: those may change in a transaction that is read only, too.
    pub(super) fn has_temporary(&self, partition: &Partition) -> bool {
        let own = self.temporary.schema;
        own.is_temporary() && !self.committed(partition).is_empty_schema(own)
    }

    /// The session's temporary relations are on another node, which has yet to make some.
    pub fn has_temporary_elsewhere(&mut self) {
        self.temporary.schema = SchemaId::NO_TEMPORARY;
        self.temporary.is_elsewhere = true;
    }

    /// They are made where everything is that there is once. When that was handed over there were none.
    pub(super) fn follow_temporary(&mut self, partition: &Partition) {
        if self.temporary.is_elsewhere != partition.sequences.are_elsewhere {
            match partition.sequences.are_elsewhere {
                true => self.has_temporary_elsewhere(),
                false => {
                    self.temporary.is_elsewhere = false;
                    self.temporary.schema = self.temporary.here;
                }
            }
        }
    }

    /// Which schema they are in, where they are on another node; none if there are none.
    pub fn know_temporary(&mut self, schema: Option<SchemaId>) {
        if self.temporary.is_elsewhere {
            self.temporary.schema = schema.unwrap_or(SchemaId::NO_TEMPORARY);
        }
    }

    /// The keeper says where it has made them for the session, if it has.
    pub(super) fn hear_of_temporary(&mut self, schema: Option<SchemaId>) {
        if schema.is_some() {
            self.know_temporary(schema);
        }
    }

    /// The schema of temporary relations that are on this node.
    pub fn temporary_here(&self) -> Option<SchemaId> {
        (!self.temporary.is_elsewhere).then_some(self.temporary.schema)
    }

    /// That of those that are not.
    pub(super) fn temporary_elsewhere(&self) -> Option<SchemaId> {
        let is_known = self.temporary.is_elsewhere && self.temporary.schema != SchemaId::NO_TEMPORARY;
        is_known.then_some(self.temporary.schema)
    }

    /// What the other node has kept for the session may be gone, as when it was started again.
    pub(super) fn check_temporary(&mut self, partition: &Partition) {
        let is_kept = |desk: &Arc<dyn GridDesk>| desk.keeps_session(self.id);
        if self.temporary_elsewhere().is_some() && !partition.grid.as_ref().is_some_and(is_kept) {
            self.has_temporary_elsewhere();
        }
    }

    /// Whether the session has temporary relations on another node.
    pub(super) fn has_own_elsewhere(&self, catalog: &Catalog) -> bool {
        self.temporary_elsewhere()
            .is_some_and(|schema| !catalog.is_empty_schema(schema))
    }

    /// Whether a statement brings rows that go with its transaction, and are on another node: there alone they are taken away.
    pub(super) fn fills_until_commit(&self, plan: &Plan) -> bool {
        let mut is_any = false;
        if self.temporary_elsewhere().is_some() {
            for_each_written(&plan.body, &mut |table| is_any |= empties_at_commit(table));
        }
        is_any
    }

    /// Whether a COPY runs on the node that has the session's temporary relations: of them, or at the beginning of a block, which may come
    /// to change them. One whose transaction has begun here moves there for rows that go with it.
    pub(super) fn copies_with_temporary(&self, copy: &CopyStatement, partition: &Partition) -> bool {
        let is_of = |is: fn(&Table) -> bool| copy.table.as_ref().is_some_and(|table| is(table));
        let fills =
            || is_of(empties_at_commit) || copy.query.as_ref().is_some_and(|plan| self.fills_until_commit(plan));
        if self.is_of_this_node() {
            return self.temporary_elsewhere().is_some() && fills();
        }
        let may_change = self.block != Block::None || is_of(|table| table.schema.is_temporary()) || fills();
        may_change && self.has_own_elsewhere(&self.catalog(partition))
    }

    /// ON COMMIT: tables that were to be dropped go with the transaction that is about to commit, rows of others too.
    ///
    /// Errors: 0A000 if it has brought such rows to another node from here.
    pub(super) fn end_temporary(&mut self, partition: &mut Partition) -> Result<()> {
        let Some(transaction) = &self.transaction else {
            return Ok(());
        };
        if self.temporary.is_elsewhere {
            return self.check_emptied_elsewhere(transaction, partition);
        }
        let catalog = self.catalog(partition);
        let own = self.own_schema();
        let first = RelationName::new(own, "");
        let tables = catalog
            .tables
            .range(&first..)
            .take_while(|(name, _)| name.schema == own);
        let (mut dropped, mut emptied) = (Vec::new(), Vec::new());
        for (name, table) in tables {
            match table.on_commit {
                OnCommit::Preserve => {}
                OnCommit::Drop => dropped.push(name.clone()),
                OnCommit::Delete => {
                    check_references(name, table, &catalog)?;
                    let is_written = transaction.written_versions.iter().any(|(written, _)| written == name);
                    emptied.extend(is_written.then(|| name.clone()));
                }
            }
        }
        if !emptied.is_empty() {
            self.change_own(&SchemaChange::EmptyTemporary { names: emptied }, partition)?;
        }
        if !dropped.is_empty() {
            let change = SchemaChange::DropTable {
                names: dropped,
                if_exists: false,
                cascade: true,
            };
            self.change_own(&change, partition)?;
        }
        Ok(())
    }

    /// What brings rows that go with the transaction runs where they are, but for EXPLAIN ANALYZE of an EXECUTE: those would stay.
    fn check_emptied_elsewhere(&self, transaction: &OpenTransaction, partition: &Partition) -> Result<()> {
        let Some(own) = self.temporary_elsewhere() else {
            return Ok(());
        };
        let catalog = self.catalog(partition);
        let is_left = |name: &RelationName| {
            name.schema == own && catalog.tables.get(name).is_some_and(|table| empties_at_commit(table))
        };
        match transaction.written_versions.iter().find(|(name, _)| is_left(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!(
                    "rows of the temporary table \"{}\" that go at COMMIT, which are on another node",
                    name.name
                );
                let hint = "Explain the statement itself instead of an EXECUTE of it.";
                Err(Error::unsupported(&message).with_hint(hint))
            }
        }
    }

    /// Everything in the session's own schema goes with the transaction.
    pub(super) fn drop_own(&mut self, partition: &mut Partition) -> Result<()> {
        let schema = self.own_schema();
        self.ensure_private_transaction(partition, self.now_us);
        self.change_own(&SchemaChange::DropTemporary { schema }, partition)
    }

    /// Whether the session has temporary relations on this node.
    pub(super) fn has_own(&self, partition: &Partition) -> bool {
        !self.temporary.is_elsewhere && !self.catalog(partition).is_empty_schema(self.own_schema())
    }

    /// A change of the session's own schema within its transaction. No row moves, and nobody is waited for.
    fn change_own(&mut self, change: &SchemaChange, partition: &mut Partition) -> Result<()> {
        let mut before = (*self.catalog(partition)).clone();
        before.next_id = before.next_id.max(partition.next_storage_id).max(1);
        let applied = apply_under(&self.path_in(&before), &before, change)?;
        let own = self.own_schema();
        if let Some(transaction) = &mut self.transaction {
            // Nobody else has changed them, and what was written to them is gone.
            transaction.written_versions.retain(|(name, _)| name.schema != own);
        }
        let after = self.own_version(&before, applied.catalog, &applied.work, partition);
        if let Some(transaction) = &mut self.transaction {
            transaction.catalog = Some(after);
        }
        Ok(())
    }

    /// The session ends: its temporary relations go. What cannot be written down now is forgotten when the server starts again.
    pub(super) fn leave_own(&mut self, partition: &mut Partition) {
        if self.has_own(partition) && self.commit_without_own(partition).is_err() {
            self.roll_back(partition);
        }
    }

    fn commit_without_own(&mut self, partition: &mut Partition) -> Result<()> {
        partition.admit_write()?;
        self.drop_own(partition)?;
        let lost = || Error::internal("a session lost its last transaction");
        let transaction = self.transaction.as_ref().ok_or_else(lost)?;
        let catalog = self.checked_catalog(transaction, partition)?;
        let attachment = attachment_of((self.identity.database_id, catalog.as_deref()), None, None, transaction);
        let id = transaction.id;
        let Partition { database, log, .. } = &mut *partition;
        match database.commit(id, Some(&attachment), &mut **log) {
            Ok(_) => {
                self.install_catalog(catalog, partition);
                self.transaction = None;
                partition.schema_changes.end(id);
                Ok(())
            }
            Err(Stop::Abort(error) | Stop::Fail(error)) => Err(error),
            Err(Stop::Wait(_)) => Err(lost()),
        }
    }
}

/// ON COMMIT DELETE ROWS.
fn empties_at_commit(table: &Table) -> bool {
    table.schema.is_temporary() && table.on_commit == OnCommit::Delete
}

/// 0A000 if rows that stay refer to rows that go with each transaction: those of `table`.
fn check_references(name: &RelationName, table: &Table, catalog: &Catalog) -> Result<()> {
    let stays = |other: &RelationName| {
        let referring = catalog.tables.get(other);
        referring.is_some_and(|referring| referring.on_commit != OnCommit::Delete)
    };
    match table.referenced_by.iter().find(|(other, _)| stays(other)) {
        None => Ok(()),
        Some((other, _)) => Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "unsupported ON COMMIT and foreign key combination",
        )
        .with_detail(format!(
            "Table \"{other}\" references \"{name}\", but they do not have the same ON COMMIT setting."
        ))),
    }
}
