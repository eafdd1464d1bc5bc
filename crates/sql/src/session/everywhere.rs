//! Schema changes of tables whose rows lie on several nodes of a grid: one transaction over all of them (decision 0032).

use super::schema::{attachment_of, check_changes_here};
use super::{Session, block::OpenTransaction};
use crate::catalog::{Catalog, RelationName};
use crate::databases::storage_of_table;
use crate::far::FarRows;
use crate::partition::{Attachment, Committing, Partition};
use rubato_base::{Error, NodeId, Result, TableId};
use rubato_protocol::Outcome;
use rubato_protocol::grid::Operation;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Session {
    /// Has the tables to itself for writing on all other nodes with rows of them, as [`super::schema::have_to_itself`] on this one.
    ///
    /// Errors: [`rubato_protocol::Stop::Wait`] until those who write there have ended; 57P03 if a node cannot be reached.
    pub(super) fn close_elsewhere(
        &mut self,
        tables: &[RelationName],
        before: &Catalog,
        partition: &mut Partition,
    ) -> Outcome<()> {
        self.hear_others(partition);
        let Some(transaction) = &mut self.transaction else {
            return Ok(());
        };
        let closing = closing_of(tables, before, transaction);
        let Some(far) = &mut transaction.far else {
            return Ok(());
        };
        let mut outcome = Ok(());
        for (node, tables) in closing {
            let closed = far.define([node], &Operation::Close { tables });
            outcome = outcome.and(closed);
        }
        self.ask_others(partition);
        outcome
    }

    /// The transaction is about to commit on several nodes: those on which it has changed definitions get to know the new catalog, which
    /// becomes part of the commit.
    ///
    /// The id that the client has asked for is attached to the branch of this node.
    pub(super) fn attach_on_all_nodes(&mut self, partition: &mut Partition) -> Outcome<()> {
        if let Some(content) = self.catalog_to_attach(partition)? {
            let outcome = self.attach(content, partition);
            self.ask_others(partition);
            return outcome;
        }
        match (self.own_attachment(partition)?, &self.transaction) {
            (Some(content), Some(own)) => partition.database.attach_to_session(own.id, content, &[], &[]),
            _ => Ok(()),
        }
    }

    /// What is attached to the branch of this node, if that is something of its own: what the others get, and the id.
    fn own_attachment(&self, partition: &Partition) -> Result<Option<Vec<u8>>> {
        let (Some(asked), Some(transaction)) = (self.asked_id, &self.transaction) else {
            return Ok(None);
        };
        let content = transaction.attachment.as_deref();
        let mut attached = content.map(Attachment::decode).transpose()?.unwrap_or_default();
        attached.outcomes = Some(partition.sequences.outcomes.record_of(asked));
        Ok(Some(attached.encode()))
    }

    fn attach(&mut self, content: Vec<u8>, partition: &mut Partition) -> Outcome<()> {
        let lost = || Error::internal("a schema change over several nodes has lost its part");
        let own = self.own_attachment(partition)?;
        let transaction = self.transaction.as_mut().ok_or_else(lost)?;
        let far = transaction.far.as_mut().ok_or_else(lost)?;
        let nodes = far.defining_nodes();
        far.define(
            nodes,
            &Operation::Attach {
                content: content.clone(),
            },
        )?;
        let (created, lengthened) = (&transaction.created_storage, &transaction.lengthened);
        partition
            .database
            .attach_to_session(transaction.id, own.unwrap_or(content), created, lengthened)?;
        transaction.is_attached = true;
        Ok(())
    }

    /// The new catalog in the form of the log, if there is one. From then on nobody else commits one.
    fn catalog_to_attach(&mut self, partition: &mut Partition) -> Outcome<Option<Vec<u8>>> {
        let Some(transaction) = self.transaction.as_ref().filter(|own| own.base_catalog.is_some()) else {
            return Ok(None);
        };
        if let Some(content) = &transaction.attachment {
            return Ok(Some(content.clone()));
        }
        let id = transaction.id;
        check_changes_here(transaction, partition)?;
        if let Some(owner) = partition.schema_changes.other_committing(id) {
            partition.database.wait_for(id, owner, TableId(0))?;
        }
        let made = transaction.new_database.as_ref();
        let catalog = match made {
            Some(new) => Some(Arc::clone(&new.catalog)),
            None => self.checked_catalog(transaction, partition)?,
        };
        let Some(catalog) = catalog else { return Ok(None) };
        let databases = made.map(|new| partition.databases.with_new(&new.facts, &catalog));
        let database = made.map_or(self.identity.database_id, |new| new.facts.id);
        let own = (database, Some(&*catalog));
        let content = attachment_of(own, databases.transpose()?.as_ref(), None, transaction);
        partition.schema_changes.begin_commit(Committing {
            owner: id,
            database,
            base: Arc::clone(partition.databases.catalog(database)),
            catalog,
            made: made.map(|new| new.facts.clone()),
        });
        if let Some(transaction) = &mut self.transaction {
            transaction.attachment = Some(content.clone());
        }
        Ok(Some(content))
    }
}

/// Which tables are to be closed on which other nodes: those that others know.
fn closing_of(
    tables: &[RelationName],
    before: &Catalog,
    transaction: &OpenTransaction,
) -> BTreeMap<NodeId, Vec<TableId>> {
    let mut closing: BTreeMap<NodeId, Vec<TableId>> = BTreeMap::new();
    let Some(far) = &transaction.far else {
        return closing;
    };
    let known = tables.iter().filter_map(|name| before.tables.get(name));
    for table in known.filter(|table| !transaction.created_storage.contains(&table.id)) {
        for storage in storage_of_table(table) {
            let nodes = far.whereabouts().holders(storage);
            for node in nodes.into_iter().flatten() {
                closing.entry(node).or_default().push(storage);
            }
        }
    }
    closing
}

/// Other nodes hear what rows have in columns that they lack, now that some were taken back.
pub(super) fn tell_tails(lengthened: &[TableId], catalog: &Catalog, far: &mut FarRows) {
    for storage in lengthened {
        let name = catalog.table_names.get(storage);
        let Some(table) = name.and_then(|name| catalog.tables.get(name)) else {
            continue;
        };
        let operation = Operation::Lengthen {
            table: *storage,
            tail: table.tail(),
        };
        let nodes = far.whereabouts().holders(*storage);
        for node in nodes.into_iter().flatten() {
            far.tell_definition(node, &operation);
        }
    }
}
