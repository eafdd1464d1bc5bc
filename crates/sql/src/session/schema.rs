//! Schema changes: a new catalog version that only this transaction sees until it commits.

use super::execute::with_evaluation;
use super::{Session, SessionContext};
use crate::catalog::Catalog;
use crate::client::Responder;
use crate::executor::{ExecutionContext, carry_out_all};
use crate::partition::Partition;
use crate::schema_change::{StorageWork, apply};
use crate::statement::SchemaChange;
use rubato_base::{Error, SqlState};
use rubato_protocol::{Outcome, Stop};
use std::sync::Arc;

impl Session {
    pub(super) fn change_schema(
        &mut self,
        change: &SchemaChange,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<String> {
        if self.is_read_only() {
            let message = "cannot change the schema in a read-only transaction";
            return Err(Stop::Fail(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message)));
        }
        partition.admit_write()?;
        let id = self.ensure_transaction(partition, false, context.now_us);
        let mut before = (*self.catalog(partition)).clone();
        // Ids that other transactions have taken meanwhile are never given again.
        before.next_id = before.next_id.max(partition.next_storage_id).max(1);
        let before_version = before.version;
        let applied = apply(&before, change)?;
        partition.next_storage_id = partition.next_storage_id.max(applied.catalog.next_id);
        self.replay = None;
        let mut after = applied.catalog;
        if after.version != before_version {
            renumber(&before, &mut after, u64::from(partition.take_storage_id()));
            after.next_id = after.next_id.max(partition.next_storage_id);
        }
        let after = Arc::new(after);
        for work in &applied.work {
            self.note_storage(work, partition, &after);
        }
        let Partition {
            database,
            sequences,
            row_numbers,
            insight,
            ..
        } = &mut *partition;
        let times_us = (context.now_us, (context.clock_us)());
        with_evaluation(self, &after, sequences, &[], times_us, |evaluation| {
            let limits = context.limits;
            let mut execution = ExecutionContext {
                database,
                transaction: id,
                catalog: &after,
                evaluation,
                row_numbers,
                limits,
                rows_left: ExecutionContext::UNBOUNDED,
                insight,
            };
            carry_out_all(&applied.work, &mut execution)
        })?;
        if after.version != before_version
            && let Some(transaction) = &mut self.transaction
        {
            transaction.catalog = Some(after);
        }
        for notice in &applied.notices {
            responder.notice("NOTICE", notice);
        }
        Ok(applied.tag.to_owned())
    }

    /// Storage is made at once, where nobody else finds it, and dropped when the transaction has ended one way or the other.
    fn note_storage(&mut self, work: &StorageWork, partition: &mut Partition, after: &Catalog) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        match work {
            StorageWork::Create { storage } => {
                partition.database.create_table(*storage);
                transaction.created_storage.push(*storage);
            }
            StorageWork::Drop { storage } => transaction.dropped_storage.push(*storage),
            StorageWork::StartSequence { name } => {
                if let Some(sequence) = after.sequences.get(name) {
                    partition.sequences.restart(sequence);
                }
            }
            _ => {}
        }
    }
}

/// Gives the new catalog and every table that it changed a version that no other catalog has, not even one that was rolled back:
/// plans are told apart by it.
fn renumber(before: &Catalog, after: &mut Catalog, version: u64) {
    after.version = version;
    for (name, table) in &mut after.tables {
        if !before.tables.get(name).is_some_and(|old| Arc::ptr_eq(old, table)) {
            Arc::make_mut(table).version = version;
        }
    }
}
