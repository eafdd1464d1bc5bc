//! What schema changes need of the protocol: who writes to a table, and a snapshot that has moved up. The storage that they make is
//! in `laying.rs`, and what they do on other nodes than their session's in `definition.rs`.

use crate::api::{Outcome, Stop, Wait, WaitReason};
use crate::database::FormulaDatabase;
use crate::rules::{Rule, is_kept};
use crate::transaction::Transaction;
use rubato_base::{Error, Lsn, TableId, Timestamp, TransactionId};

impl FormulaDatabase {
    /// Definitions are others from now on, and storage may be found that was not before, by the last record that is known to be in the
    /// log ([`FormulaDatabase::log_position`]).
    ///
    /// Rule D-2: whatever is read from now on depends on that record, which rows that were laid do not name themselves.
    pub fn change_definitions(&mut self) {
        self.definitions_lsn = self.last_lsn;
    }

    /// Behind the last record that the transaction depends on.
    pub(crate) fn depends_of(&self, t: &Transaction) -> Lsn {
        match is_kept(Rule::D2) {
            true => t.depends_lsn.max(self.definitions_lsn),
            false => t.depends_lsn,
        }
    }

    /// The transaction is going to write to the table: a schema change of it waits for the transaction's end.
    ///
    /// Errors: [`Stop::Wait`] while another transaction has the table to itself ([`FormulaDatabase::close_tables`]).
    pub fn announce_write(&mut self, transaction: TransactionId, table: TableId) -> Outcome<()> {
        if let Some(owner) = self.closed.get(&table).copied().filter(|owner| *owner != transaction) {
            self.wait_for(transaction, owner, table)?;
        }
        if let Some(t) = self.transactions.get_mut(transaction)
            && !t.announced.contains(&table)
        {
            t.announced.push(table);
        }
        Ok(())
    }

    /// The transaction has these tables to itself for writing, until it ends: whoever comes to write waits for it, and it waits for
    /// those who have begun to write.
    ///
    /// Errors: [`Stop::Wait`] until the last of them has ended; nobody else begins meanwhile.
    pub fn close_tables(&mut self, transaction: TransactionId, tables: &[TableId]) -> Outcome<()> {
        self.active(transaction)?;
        for table in tables {
            if let Some(owner) = self.closed.get(table).copied().filter(|owner| *owner != transaction) {
                self.wait_for(transaction, owner, *table)?;
            }
            self.closed.insert(*table, transaction);
        }
        match (self.other_writers(transaction, tables).first(), tables.first()) {
            (Some(writer), Some(table)) => self.wait_for(transaction, *writer, *table),
            _ => Ok(()),
        }
    }

    /// The live transactions that have announced to write to one of the tables, but for this one.
    pub fn other_writers(&self, transaction: TransactionId, tables: &[TableId]) -> Vec<TransactionId> {
        let others = self.transactions.iter().filter(|other| other.id != transaction);
        let writers = others.filter(|other| other.announced.iter().any(|table| tables.contains(table)));
        writers.map(|other| other.id).collect()
    }

    /// The table's definition has changed, and whoever began up to `until` may know it as it was. On this node they do not go on with
    /// it: schema changes wait for them. Branches of transactions of other nodes are refused from now on ([`Stop::Abort`]).
    pub fn note_definition_changed(&mut self, table: TableId, until: Timestamp) {
        let changed = self.definitions_changed.entry(table).or_default();
        *changed = until.max(*changed);
    }

    /// It is known by now until when, for a table of which it may not have been ([`Timestamp::MAX`]).
    pub fn settle_definition_changed(&mut self, table: TableId, until: Timestamp) {
        let changed = self.definitions_changed.entry(table).or_insert(until);
        *changed = match *changed {
            Timestamp::MAX => until,
            known => known.max(until),
        };
    }

    /// It is known by now until when: for all tables of which it was not ([`Timestamp::MAX`]).
    pub fn settle_definitions_changed(&mut self, until: Timestamp) {
        let open = self.definitions_changed.values_mut();
        for changed in open.filter(|changed| **changed == Timestamp::MAX) {
            *changed = until;
        }
        self.settle_redefined(until);
    }

    /// A branch of a transaction of another node is going to write to the table: a schema change of it waits for its end.
    ///
    /// Errors: [`Stop::Abort`] if the transaction began before the table became what it is, or the table has other storage by now, which it
    /// knows nothing of. It may have waited for that.
    pub(crate) fn announce_branch_write(&mut self, transaction: TransactionId, table: TableId) -> Outcome<()> {
        self.not_replaced(table)?;
        let changed = self.definitions_changed.get(&table).copied();
        let began = self.transactions.get(transaction).map(|t| t.begun);
        let is_older = changed.zip(began).is_some_and(|(changed, began)| began <= changed);
        if is_older || self.has_changed_unheard(table) {
            let message = "the definition of a table was changed after the transaction had begun on another node";
            return Err(Stop::Abort(Error::serialization(message, format!("storage {table}"))));
        }
        self.announce_write(transaction, table)
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
