//! CREATE, ALTER and DROP DATABASE.
//!
//! They change no row, so that they have no transaction of the protocol: what databases there are from then on is one record of the
//! log. Within a block CREATE and DROP are refused; the others take effect at once, and are not rolled back.
//!
//! A database that is made of another is the exception: its rows are laid out of those as a schema change lays them out anew, in a
//! transaction that has the other's tables to itself and makes the database when it commits.

use super::block::NewDatabase;
use super::environment::handed_over;
use super::far::FOR_OTHERS;
use super::schema::{SchemaChanging, have_to_itself};
use super::{Next, Session, SessionContext};
use crate::catalog::RelationName;
use crate::client::Responder;
use crate::databases::{
    Applied, Copied, DatabaseChange, DatabaseCommand, DatabaseFacts, DatabaseId, Databases, copied, storage_of,
};
use crate::executor::SchemaRun;
use crate::far::stop_of;
use crate::partition::{Attachment, Partition};
use crate::schema_change::FIRST_ID;
use crate::system_tables::{ACTIVITY, backends_in};
use rubato_base::{Error, NodeId, Result, SqlState, Timestamp};
use rubato_protocol::{CommitRecord, Outcome, Stop};
use rubato_stages::worker::Signal;
use std::sync::Arc;

/// How long sessions that leave a database are waited for, as PostgreSQL does: a client that has closed its connection is gone a little later.
const LEAVING_US_MAX: i64 = 5_000_000;
/// How often it is looked whether a catalog is committed that all nodes of a grid are committing.
const COMMITTING_LOOK_US: i64 = 2_000;
/// How often it is looked whether they have left.
const LEAVING_LOOK_US: i64 = 10_000;

impl Session {
    pub(super) fn change_databases(
        &mut self,
        command: &DatabaseCommand,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        let tag = command.change.tag();
        if let Some(copying) = self.changing_schema.take() {
            return self.copy_rows(copying, partition, context, responder);
        }
        self.check_place(&command.change)?;
        partition.admit_write()?;
        // All nodes are told of it together with what databases there are.
        if partition.schema_changes.is_committing() {
            return Ok(self.look_again(COMMITTING_LOOK_US));
        }
        let command = self.with_known_setting(command)?;
        partition.next_storage_id = partition.next_storage_id.max(FIRST_ID);
        let new_id = match command.change {
            DatabaseChange::Create { .. } => partition.take_storage_id(),
            _ => 0,
        };
        let own = self.identity.database_id;
        match partition.databases.apply(&command, own, DatabaseId(new_id))? {
            Applied::Copied(facts, template) => {
                let copying = self.begin_copy(facts, template, partition, context.now_us)?;
                return self.copy_rows(Box::new(copying), partition, context, responder);
            }
            Applied::Told(severity, told) => self.tell(severity, &told, responder),
            Applied::Changed(databases, left) => {
                if let Some(next) = self.wait_for_leaving(left, &command, partition)? {
                    return Ok(next);
                }
                self.install_databases(databases, partition)?;
            }
        }
        Ok(self.answered(tag.to_owned(), partition, responder))
    }

    /// 25001 within a block, 25006 where nothing may be written.
    fn check_place(&self, change: &DatabaseChange) -> Result<()> {
        let tag = change.tag();
        if change.stands_alone() {
            self.check_alone(tag)?;
        }
        if self.is_read_only() {
            let message = format!("cannot execute {tag} in a read-only transaction");
            return Err(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// The statement with the setting as it is called, and its value as sessions take it. 42704, 22023.
    fn with_known_setting(&self, command: &DatabaseCommand) -> Result<DatabaseCommand> {
        let change = match &command.change {
            DatabaseChange::Set { setting, value } => {
                let (setting, value) = self.settings.checked(setting, value.as_deref())?;
                DatabaseChange::Set { setting, value }
            }
            DatabaseChange::SetFromCurrent { setting } => {
                let current = self.settings.get(setting);
                let (setting, value) = self.settings.checked(setting, current.as_deref())?;
                DatabaseChange::Set { setting, value }
            }
            other => other.clone(),
        };
        Ok(DatabaseCommand {
            name: command.name.clone(),
            change,
        })
    }

    /// Waits a while for the sessions in a database that is to be without any. 55006 if they stay.
    fn wait_for_leaving(
        &mut self,
        left: Option<DatabaseId>,
        command: &DatabaseCommand,
        partition: &Partition,
    ) -> Outcome<Option<Next>> {
        let Some(database) = left else { return Ok(None) };
        let here = partition.insight.sessions_in(database, self.id);
        let mut others: Vec<i32> = here.iter().map(|facts| facts.identity.backend_id).collect();
        let (elsewhere, silent) = self.backends_elsewhere(database, partition)?;
        others.extend(elsewhere);
        // Who has a part of his session here is in both.
        others.sort_unstable();
        others.dedup();
        // Nobody is in one that is being copied.
        if others.is_empty() && silent.is_none() && !partition.schema_changes.concern(database) {
            return Ok(None);
        }
        let started_us = self.current.as_ref().map_or(self.now_us, |current| current.started_us);
        if self.now_us.saturating_sub(started_us) < LEAVING_US_MAX {
            let is_forced = matches!(command.change, DatabaseChange::Drop { force: true, .. });
            for other in others.into_iter().filter(|_| is_forced) {
                partition.insight.signal(other, Signal::Terminate);
            }
            return Ok(Some(self.look_again(LEAVING_LOOK_US)));
        }
        let message = format!("database \"{}\" is being accessed by other users", command.name);
        let detail = match others.len() {
            0 if silent.is_some() => return Err(may_be_in(&command.name, silent).into()),
            0 | 1 => "There is 1 other session using the database.".to_owned(),
            count => format!("There are {count} other sessions using the database."),
        };
        Err(Error::new(SqlState::OBJECT_IN_USE, message).with_detail(detail).into())
    }

    /// Clients of other nodes that are in a database, idle ones too, and a node that does not say whether some are. Those of one that cannot
    /// be reached can do nothing until it is.
    ///
    /// Errors: [`Stop::Wait`] until the nodes have said so.
    fn backends_elsewhere(&self, database: DatabaseId, partition: &Partition) -> Outcome<(Vec<i32>, Option<NodeId>)> {
        let Some(desk) = &partition.grid else {
            return Ok((Vec::new(), None));
        };
        let shown = (ACTIVITY, self.identity.database_id);
        let others = desk.take_sessions(self.id, shown).ok_or(Stop::Wait(FOR_OTHERS))?;
        let own = partition.databases.get(database);
        let backends = own.map_or(Vec::new(), |own| backends_in(&others.rows, &own.facts.name));
        Ok((backends, others.silent.first().copied()))
    }

    /// The catalog of a database that is made of another, and what has to happen to rows.
    fn begin_copy(
        &mut self,
        facts: DatabaseFacts,
        template: DatabaseId,
        partition: &mut Partition,
        now_us: i64,
    ) -> Outcome<SchemaChanging> {
        let id = self.ensure_transaction(partition, false, now_us)?;
        self.replay.forget();
        partition.database.catch_up(id)?;
        let source = Arc::clone(partition.databases.catalog(template));
        self.see_whereabouts(partition);
        self.hear_others(partition);
        if let Some(why) = self.transaction.as_ref().and_then(|open| open.why_ended()) {
            return Err(stop_of(why));
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.base_catalog = Some(Arc::clone(&source));
            transaction.new_database = Some(NewDatabase {
                facts: facts.clone(),
                catalog: Arc::clone(&source),
            });
        }
        let tables: Vec<RelationName> = source.tables.keys().cloned().collect();
        have_to_itself(&tables, (template, &source), id, partition)?;
        self.close_elsewhere(&tables, &source, partition)?;
        let Copied { catalog, works, values } = copied(&source, || partition.take_storage_id());
        for (from, to) in values {
            partition.sequences.copy(from, to);
        }
        let after = Arc::new(catalog);
        if let Some(transaction) = &mut self.transaction {
            let catalog = Arc::clone(&after);
            transaction.placed_by = vec![Arc::clone(&after)];
            transaction.new_database = Some(NewDatabase { facts, catalog });
        }
        self.see_whereabouts(partition);
        for work in &works {
            self.note_storage(work, &works, partition, &after);
        }
        Ok(SchemaChanging {
            statement: None,
            run: SchemaRun::new(works),
            beside: None,
            after,
            notices: Vec::new(),
            tag: "CREATE DATABASE",
            is_change: true,
        })
    }

    /// Copies rows for a slice; the database is there when the transaction commits.
    fn copy_rows(
        &mut self,
        copying: Box<SchemaChanging>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        let Some(copied) = self.move_rows(copying, partition, context)? else {
            return Ok(Next::Yield);
        };
        let tag = copied.tag.to_owned();
        if let Some(transaction) = &mut self.transaction {
            transaction.derived.extend(copied.run.into_parts().0);
        }
        Ok(self.answered(tag, partition, responder))
    }

    /// The transaction that has made a database has committed: everybody sees it from now on.
    pub(super) fn install_new_database(&mut self, databases: Option<Databases>, partition: &mut Partition) {
        let (Some(databases), Some(transaction)) = (databases, &self.transaction) else {
            return;
        };
        partition.set_databases(Arc::new(databases));
        for storage in &transaction.created_storage {
            partition.database.publish_table(*storage);
        }
    }

    /// Writes down what databases there are, and forgets what was in those that are gone.
    fn install_databases(&mut self, databases: Databases, partition: &mut Partition) -> Result<()> {
        if partition.sequences.are_elsewhere {
            return Err(handed_over());
        }
        let attachment = Attachment {
            databases: Some(databases.facts()),
            ..Attachment::default()
        };
        let record = CommitRecord {
            cts: Timestamp::ZERO,
            changes: &(),
            attachment: Some(&attachment.encode()),
        };
        let appended = partition.log.append(&record)?;
        self.raise_durable(appended);
        partition.database.note_log_position(appended);
        let before = Arc::clone(&partition.databases);
        let gone = before.iter().filter(|own| databases.get(own.facts.id).is_none());
        let gone: Vec<_> = gone.map(|own| Arc::clone(&own.catalog)).collect();
        partition.set_databases(Arc::new(databases));
        for catalog in gone {
            let sequences = catalog.sequences.values().map(|sequence| sequence.values);
            partition.sequences.forget(sequences);
            partition.drop_storage(storage_of(&catalog));
        }
        Ok(())
    }
}

/// 55006: a node that can be reached does not answer.
fn may_be_in(database: &str, silent: Option<NodeId>) -> Error {
    let message = format!("database \"{database}\" may be being accessed by other users");
    let node = silent.map_or(0, |node| node.0);
    let detail = format!("Node {node} does not say whether sessions there use the database.");
    Error::new(SqlState::OBJECT_IN_USE, message)
        .with_detail(detail)
        .with_hint("Try again when that node answers, or is stopped.")
}
