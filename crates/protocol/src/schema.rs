//! What schema changes need of the protocol: who writes to a table, and a snapshot that has moved up. The storage that they make is
//! in `laying.rs`.

use crate::api::{Outcome, Stop, Wait, WaitReason};
use crate::database::FormulaDatabase;
use rubato_base::{Error, TableId, Timestamp, TransactionId};

impl FormulaDatabase {
    /// The transaction is going to write to the table: a schema change of it waits for the transaction's end.
    pub fn announce_write(&mut self, transaction: TransactionId, table: TableId) {
        if let Some(t) = self.transactions.get_mut(transaction)
            && !t.announced.contains(&table)
        {
            t.announced.push(table);
        }
    }

    /// The live transactions that have announced to write to one of the tables, but for this one.
    pub fn other_writers(&self, transaction: TransactionId, tables: &[TableId]) -> Vec<TransactionId> {
        let others = self.transactions.iter().filter(|other| other.id != transaction);
        let writers = others.filter(|other| other.announced.iter().any(|table| tables.contains(table)));
        writers.map(|other| other.id).collect()
    }

    /// When the oldest live transaction began; `None` if there is none.
    pub fn oldest_begun(&self) -> Option<Timestamp> {
        self.transactions.iter().map(|transaction| transaction.begun).min()
    }

    /// Waits until `owner` has ended, and its session knows: [`Stop::Wait`] as long as it has not, or an abort if that would close a circle.
    pub fn wait_for(&mut self, transaction: TransactionId, owner: TransactionId, table: TableId) -> Outcome<()> {
        self.active(transaction)?;
        if self.transactions.is_live(owner) {
            return self.wait(transaction, owner, table, WaitReason::Table);
        }
        // What it did beside rows is not undone before its session knows that it is lost.
        if self.wait_for_lost(transaction, owner) {
            let reason = WaitReason::Table;
            self.statistics.waited(reason);
            return Err(Stop::Wait(Wait { owner, table, reason }));
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
}
