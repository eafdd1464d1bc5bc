//! What schema changes need of the protocol: who writes to a table, a snapshot that has moved up, and storage that only one
//! transaction knows, in which rows are laid out without being pending first.
//!
//! Private storage is read by nobody else before its transaction has committed, so that its rows need no places and no intents:
//! they are there as soon as they are laid. They are not written to the store before, and the log does not have them: whoever
//! lays rows out of others writes down how, and does it again in recovery.

use crate::api::{Outcome, Stop, WaitReason};
use crate::database::{FormulaDatabase, table_of};
use crate::item::Item;
use rubato_base::{Error, Key, Row, TableId, TransactionId};

impl FormulaDatabase {
    /// The transaction is going to write to the table: a schema change of it waits for the transaction's end.
    pub fn announce_write(&mut self, transaction: TransactionId, table: TableId) {
        if let Some(t) = self.transactions.get_mut(transaction)
            && !t.announced.contains(&table)
        {
            t.announced.push(table);
        }
    }

    /// Another live transaction that has announced to write to one of the tables.
    pub fn other_writer(&self, transaction: TransactionId, tables: &[TableId]) -> Option<TransactionId> {
        let mut others = self.transactions.iter().filter(|other| other.id != transaction);
        let writer = others.find(|other| other.announced.iter().any(|table| tables.contains(table)));
        writer.map(|other| other.id)
    }

    /// Waits until `owner` has ended: [`Stop::Wait`] as long as it has not, or an abort if that would close a circle.
    pub fn wait_for(&mut self, transaction: TransactionId, owner: TransactionId, table: TableId) -> Outcome<()> {
        self.active(transaction)?;
        if self.transactions.is_live(owner) {
            return self.wait(transaction, owner, table, WaitReason::Table);
        }
        Ok(())
    }

    /// Moves the transaction's snapshot up to the newest commit: it is about to use a table whose definition is newer than its
    /// snapshot. Aborts it if something it has read is different there.
    pub fn catch_up(&mut self, transaction: TransactionId) -> Outcome<()> {
        let newest = self.last_cts;
        let t = self.active(transaction)?;
        if t.ts >= newest {
            return Ok(());
        }
        if t.read_only {
            return Err(Stop::Abort(Error::serialization(
                "the schema was changed by another transaction",
                "the snapshot of a read-only transaction does not move",
            )));
        }
        self.advance(transaction, newest)
    }

    /// Declares new, empty storage that only its creator knows.
    pub fn create_private_table(&mut self, table: TableId) {
        self.create_table(table);
        if let Ok(held) = table_of(&mut self.tables, table) {
            held.private = true;
        }
    }

    /// Whether the storage is known to its creator only.
    pub fn is_private(&self, table: TableId) -> bool {
        let held = self.tables.get(table.0 as usize);
        held.is_some_and(|held| held.as_ref().is_some_and(|held| held.private))
    }

    /// The creator of private storage has committed: others find it, and the next checkpoint stores its rows.
    pub fn publish_table(&mut self, table: TableId) {
        if let Ok(held) = table_of(&mut self.tables, table) {
            held.private = false;
        }
    }

    /// Puts a row into private storage; false if the key is taken. Nothing undoes it but dropping the storage.
    pub fn lay_row(&mut self, transaction: TransactionId, table: TableId, key: Key, row: Row) -> Outcome<bool> {
        let ts = self.active(transaction)?.ts;
        let held = table_of(&mut self.tables, table)?;
        if !held.private {
            let message = "rows are laid out in storage that others may read";
            return Err(Stop::Fail(Error::internal(message)));
        }
        if held.find(key.as_bytes()).is_some() {
            return Ok(false);
        }
        let item = Item {
            row: Some(row),
            cts: ts,
            dirty: true,
            ..Item::default()
        };
        held.add(key, item, &mut self.memory_bytes);
        held.dirty += 1;
        held.last_cts = held.last_cts.max(ts);
        Ok(true)
    }
}
