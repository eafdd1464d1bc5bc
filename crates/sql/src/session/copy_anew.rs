//! A COPY FROM of more rows than may be pending, into a table that others know.
//!
//! Its rows are inserted like others, until they take most of the memory that a transaction may hold. Then the table is laid anew, as a
//! schema change does that moves its rows under another key: what is in it, and what the COPY has inserted, is laid in new storage, and so
//! is what follows (see `protocol/src/laying.rs`). What was pending is taken back, since nobody will look for it there. Whoever writes to the
//! table meanwhile waits for the end of the transaction, as for that of any schema change.
//!
//! It is not begun where the COPY would have to wait for others that write to the table, or where something needs the rows to be pending, and
//! where the table had more rows than the COPY has brought only when there is hardly any room left: else the COPY goes on as before, and may
//! come to the limit (53200). In a grid a COPY begins again from its first row to do this (`copy_again.rs`).

use super::block::OpenTransaction;
use super::copy::CopyIn;
use super::{Session, SessionContext};
use crate::catalog::Table;
use crate::executor::CopyReader;
use crate::partition::Partition;
use crate::statement::{AlterAction, RelationKind, SchemaChange};
use rubato_base::{Error, RowRef, TransactionId};
use rubato_protocol::{FormulaDatabase, KeyRange, Outcome};
use std::sync::Arc;

impl Session {
    /// Whether the table of a COPY that is full can be laid anew.
    pub(super) fn is_to_lay_anew(&self, copy: &CopyIn, partition: &mut Partition) -> bool {
        let Some(transaction) = &self.transaction else {
            return false;
        };
        self.can_lay_anew(copy.reader.table(), transaction, partition)
            && (copy.reader.has_gone_on()
                || !copy.has_more_rows_than(copy.reader.rows(), transaction.id, &mut partition.database))
    }

    /// Whether nobody and nothing is in the way of it. In a grid others may write to the table meanwhile whom nobody here knows of.
    fn can_lay_anew(&self, table: &Table, transaction: &OpenTransaction, partition: &Partition) -> bool {
        let (storage, catalog, change) = (table.storage(), self.catalog(partition), lay_anew(table));
        let database = self.identity.database_id;
        let owner = partition.schema_changes.owner(database, &table.key(), transaction.id);
        let is_alone = owner.is_none() && partition.database.other_writers(transaction.id, &storage).is_empty();
        // Who has waited for a change of the table inserts into storage that is no more the table's: he is told so when he commits.
        let is_table_still = |now: &Arc<Table>| (now.id, now.version) == (table.id, table.version);
        transaction.far.is_none()
            && catalog.tables.get(&table.key()).is_some_and(is_table_still)
            && is_alone
            && transaction.savepoints.is_empty()
            && self.refuse_tables_in_use(&change, &catalog).is_ok()
            && self.refuse_pending_checks(&change, &catalog).is_ok()
    }

    /// Whether nothing of the session, and nothing of its table, is in the way of a COPY that lays it anew.
    pub(super) fn may_lay_copied(&self, reader: &CopyReader, partition: &Partition) -> bool {
        let (catalog, change) = (self.catalog(partition), lay_anew(reader.table()));
        reader.may_lay()
            && partition.database.takes_rows()
            && self.refuse_tables_in_use(&change, &catalog).is_ok()
            && self.refuse_pending_checks(&change, &catalog).is_ok()
    }

    /// Whether the table of a COPY is as it was when the statement was bound.
    pub(super) fn has_table_still(&self, reader: &CopyReader, partition: &Partition) -> bool {
        let (table, catalog) = (reader.table(), self.catalog(partition));
        let now = catalog.tables.get(&table.key());
        now.is_none_or(|now| (now.id, now.version) == (table.id, table.version))
    }

    /// Waits until the transaction has the table of a COPY to itself, which is to be laid anew.
    pub(super) fn have_table_to_lay(
        &mut self,
        reader: &CopyReader,
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Outcome<()> {
        if self.changing_schema.is_none() {
            self.changing_schema = Some(self.begin_to_lay(&lay_anew(reader.table()), partition, context.now_us)?);
        }
        self.has_table_to_lay();
        Ok(())
    }

    /// Lays the table anew for a slice; whether that is done, and the COPY goes on in its new storage.
    pub(super) fn lay_anew(
        &mut self,
        copy: &mut CopyIn,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<bool> {
        let changing = match self.changing_schema.take() {
            Some(changing) => changing,
            None => {
                let change = lay_anew(copy.reader.table());
                self.begin_to_lay(&change, partition, context.now_us)?
            }
        };
        let Some(changing) = self.move_rows(changing, partition, context)? else {
            return Ok(false);
        };
        let after = changing.run.completed(&changing.after);
        let table = after.tables.get(&copy.reader.table().key()).cloned();
        let table = table.ok_or_else(|| Error::internal("COPY has lost its table"))?;
        if let Some(transaction) = &mut self.transaction {
            transaction.catalog = Some(Arc::clone(&after));
        }
        if let Some(mark) = &copy.current.savepoint {
            self.undo_to(mark, partition);
        }
        copy.goes_on_in(table, after);
        Ok(true)
    }
}

impl CopyIn {
    /// Whether the table had more rows here than the COPY has brought, of which so many are here: what moves is no more than twice what has
    /// come, so that many a COPY into a large table does not move that each time.
    pub(super) fn has_more_rows_than(
        &self,
        brought: u64,
        transaction: TransactionId,
        database: &mut FormulaDatabase,
    ) -> bool {
        let (mut rows, rows_max) = (0, brought.saturating_mul(2));
        let mut visit = |_: &[u8], _: RowRef<'_>| {
            rows += 1;
            rows <= rows_max
        };
        let table = self.reader.table().id;
        let looked = database.peek_scan(transaction, table, &KeyRange::WHOLE, false, &mut visit);
        looked.is_err() || rows > rows_max
    }
}

fn lay_anew(table: &Table) -> SchemaChange {
    SchemaChange::AlterTable {
        table: table.key(),
        if_exists: false,
        actions: vec![AlterAction::Lay(table.spread.clone())],
        kind: RelationKind::Table,
    }
}
