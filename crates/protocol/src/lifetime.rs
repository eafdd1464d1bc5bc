//! From when to when storage is a table's: from the commit that has made it up to the one that has replaced it.
//!
//! TRUNCATE and whatever lays a table anew give it other storage, and rows there are not those of before. Which storage a table has is in the
//! catalogs, which a transaction of another node may have in an older or newer form than its snapshot. So storage itself knows who may read it.

use crate::api::{Outcome, Stop, WaitReason};
use crate::database::FormulaDatabase;
use crate::rules::{Rule, is_kept};
use crate::transaction::Transaction;
use rubato_base::{Error, TableId, Timestamp, TransactionId};

impl FormulaDatabase {
    /// The commit of the transaction changes definitions (rule C-8). Stays so until it ends.
    pub fn define(&mut self, transaction: TransactionId) {
        if let Some(t) = self.transactions.get_mut(transaction) {
            t.defines = true;
        }
    }

    /// What the commit has to stand above for that.
    ///
    /// Rule C-8: a schema change stands above every snapshot that has begun on its partition. Who has read the table as it was stands before it,
    /// and would find what the same commit has changed elsewhere if that lay below his snapshot.
    pub(crate) fn above_as_definition(&self, t: &Transaction) -> Timestamp {
        match t.defines && is_kept(Rule::C8) {
            true => self.clock,
            false => Timestamp::ZERO,
        }
    }

    /// The transaction, if it may read of the storage at its snapshot.
    ///
    /// Rule R-7: storage is read by snapshots from the commit on that has made it up to the one that has replaced it. Whoever has waited for a
    /// schema change can come with an older snapshot, and to a node that has prepared the change and not heard of its commit; whoever has not
    /// heard of it, with a newer one.
    ///
    /// Errors: [`Stop::Abort`] if it is too old or too new; begun anew, it finds the table as it is.
    pub(crate) fn active_on(&mut self, transaction: TransactionId, table: TableId) -> Outcome<()> {
        let t = self.active(transaction)?;
        let (ts, began) = (t.ts, t.begun);
        let knows_all = self.redefined.are_known_since(began);
        // So it is nearly always.
        if ts >= self.last_made_at && self.replaced.is_empty() && knows_all && self.ended_definitions.is_empty() {
            return Ok(());
        }
        let is_unknown = || self.redefined.is_unknown(table, began) || self.is_about_to_change(table, ts);
        if is_kept(Rule::R8) && is_unknown() {
            return Err(Stop::Abort(Error::serialization(
                "a table was changed by another transaction",
                format!("storage {table}"),
            )));
        }
        let is_newer = self.tables.get(table).is_some_and(|held| held.made_at > ts);
        let is_over = || self.replaced.get(&table).is_some_and(|replaced_at| *replaced_at <= ts);
        match (is_newer || is_over()) && is_kept(Rule::R7) {
            true => Err(Stop::Abort(Error::serialization(
                "a table was made anew by another transaction",
                format!("storage {table}"),
            ))),
            false => Ok(()),
        }
    }

    /// Whether a definition has committed at the snapshot or below that is still to be carried out here: what comes in the same frame as the
    /// decision finds the table as it was, and nobody to wait for.
    fn is_about_to_change(&self, table: TableId, ts: Timestamp) -> bool {
        let mut ended = self.ended_definitions.iter();
        ended.any(|own| own.committed_at.is_some_and(|place| place <= ts) && own.definition.closed.contains(&table))
    }

    /// Whether the storage may be written to: the table has no other since.
    ///
    /// Rule R-7: older snapshots read what was replaced, and nobody writes to it. A commit stands behind the change, where nobody reads it.
    ///
    /// Errors: [`Stop::Abort`]; begun anew, the transaction finds the table as it is.
    pub(crate) fn not_replaced(&self, table: TableId) -> Outcome<()> {
        if !self.replaced.contains_key(&table) || !is_kept(Rule::R7) {
            return Ok(());
        }
        let message = "a table was made anew by another transaction";
        Err(Stop::Abort(Error::serialization(message, format!("storage {table}"))))
    }

    /// Whether a definition of the table has committed that is still to be carried out here.
    pub(crate) fn has_changed_unheard(&self, table: TableId) -> bool {
        let mut ended = self.ended_definitions.iter();
        ended.any(|own| own.committed_at.is_some() && own.definition.closed.contains(&table))
    }

    /// Waits for a prepared branch that may replace the storage at or below the transaction's snapshot (rule R-7).
    pub(crate) fn settled_storage(&mut self, transaction: TransactionId, table: TableId) -> Outcome<()> {
        if self.closed.is_empty() {
            return Ok(());
        }
        let ts = self.snapshot(transaction).unwrap_or_default();
        match self.replacing(transaction, table, ts) {
            Some(owner) => self.wait(transaction, owner, table, WaitReason::Prepared),
            None => Ok(()),
        }
    }

    /// The prepared branch of another transaction that may replace the storage at `when` or below.
    fn replacing(&self, reader: TransactionId, table: TableId, when: Timestamp) -> Option<TransactionId> {
        let owner = self.closed.get(&table).copied().filter(|owner| *owner != reader)?;
        let floor = self.floor_of(owner)?;
        (floor <= when && is_kept(Rule::R7)).then_some(owner)
    }

    /// The same for any storage that the transaction has read of.
    pub(crate) fn replacing_read(&self, t: &Transaction, when: Timestamp) -> Option<(TransactionId, TableId)> {
        if self.closed.is_empty() {
            return None;
        }
        let mut read = t.read_tables();
        read.find_map(|table| Some((self.replacing(t.id, table, when)?, table)))
    }

    /// The least place that a prepared schema change may come to have here, if there is one. (Its catalogs may be told of before its decision is.)
    pub fn prepared_change(&self) -> Option<Timestamp> {
        let floors = self.closed.values().filter_map(|owner| self.floor_of(*owner));
        floors.min()
    }

    /// Storage that the transaction's definition has made is of this place, or of a later one.
    pub(crate) fn date_created(&mut self, transaction: TransactionId, place: Timestamp) {
        let own = self.transactions.get(transaction);
        let definition = own.and_then(|t| t.definition.as_deref());
        for table in definition.map_or(&[][..], |definition| &definition.created) {
            if let Some(held) = self.tables.get_mut(*table) {
                held.made_at = place;
                self.last_made_at = self.last_made_at.max(place);
            }
        }
    }

    /// The storage is no table's any more since the commit at `place`: the table was dropped, emptied or laid anew. It stays for those who began
    /// before until it is dropped ([`FormulaDatabase::drop_table`]). What is known already stays.
    ///
    /// Rule V-2: who has read of it cannot stand above that place, where the table has other rows, or none.
    pub fn note_replaced(&mut self, table: TableId, place: Timestamp) {
        self.replaced.entry(table).or_insert(place);
    }

    /// The place of the newest commit here.
    pub fn newest_place(&self) -> Timestamp {
        self.last_cts
    }

    /// Storage that the transaction has read of and that was replaced, or is read under another name or with other columns, behind its snapshot,
    /// if there is some. What it is told of the definitions that there are by now is not so where it stands (rules ).
    pub fn read_and_changed(&self, transaction: TransactionId) -> Option<TableId> {
        let t = self.transactions.get(transaction)?;
        let replaced = self.replaced_read(t, Timestamp::MAX);
        replaced.or_else(|| self.redefined_read(t, Timestamp::MAX))
    }

    /// Storage that the transaction has read of and that was replaced at `when` or below, if there is some.
    pub(crate) fn replaced_read(&self, t: &Transaction, when: Timestamp) -> Option<TableId> {
        if self.replaced.is_empty() {
            return None;
        }
        let is_replaced = |table: &TableId| self.replaced.get(table).is_some_and(|place| *place <= when);
        t.read_tables().find(is_replaced)
    }
}

impl Transaction {
    /// The storage that it has read of, some of it several times.
    pub(crate) fn read_tables(&self) -> impl Iterator<Item = TableId> + '_ {
        let rows = self.reads.iter().map(|read| read.table);
        rows.chain(self.ranges.iter().map(|range| range.table))
    }
}
