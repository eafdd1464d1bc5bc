//! Placing formulas.

use crate::api::{BlindUpdate, Change, Insertion, Outcome, Stop};
use crate::database::{FormulaDatabase, table_of};
use crate::escrow::{claim, may_be_blind};
use crate::item::Item;
use crate::read::{is_there, note_read, visible};
use crate::rules::{Rule, is_kept};
use crate::table::Slot;
use crate::transaction::WriteRecord;
use rubato_base::{ColumnSet, Error, Key, Row, SqlState, TableId, TransactionId};
use rubato_formula::{Formula, RowBounds};
use std::borrow::Cow;

impl FormulaDatabase {
    /// Inserts a row. Rule W-3: ordered on the existence of its key: waits for another transaction that is about to insert or delete
    /// the same key, and gives the row that exists already, if one does.
    pub fn insert(&mut self, transaction: TransactionId, table: TableId, key: Key, row: Row) -> Outcome<Insertion> {
        self.writable(transaction, table)?;
        self.active_on(transaction, table)?;
        let slot = self.slot(table, key.as_bytes())?;
        let item = table_of(&mut self.tables, table)?.item(slot);
        // A key that is not there, and that nobody else is about to write, needs no queue. That it is not there need not be
        // checked again: this transaction stands first on it from now on, and whoever inserts the same key stands behind.
        if item.row.is_none() && (item.hot.is_none() || !is_kept(Rule::W3)) {
            let (cts, lsn) = (item.cts, item.lsn);
            self.advance(transaction, cts)?;
            let Some(t) = self.transactions.get_mut(transaction) else {
                unreachable!("checked above")
            };
            t.depends_lsn = t.depends_lsn.max(lsn);
        } else {
            self.take_turn(transaction, table, slot, key.as_bytes(), ColumnSet::EXISTENCE)?;
            if let Some(existing) = self.newest(transaction, table, slot)? {
                return Ok(Insertion::Exists(existing));
            }
        }
        let change = Change::Insert(row);
        self.spare_claims(transaction, table, slot, key.as_bytes(), &change)?;
        self.place(transaction, table, slot, key, change)?;
        Ok(Insertion::Inserted)
    }

    /// Places a blind formula. Rule W-2: it reads only that the row exists, waits for nobody, and takes its place when it commits
    /// (promise 2). An addition to a column that has `bounds` is blind while no outcome of what is pending can leave them, see
    /// the rules of escrow in `escrow.rs`; all who write to a table give the same bounds.
    pub fn update_blind(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: &[u8],
        formula: Formula,
        bounds: &RowBounds,
    ) -> Outcome<BlindUpdate> {
        self.writable(transaction, table)?;
        self.active_on(transaction, table)?;
        let slot = self.slot(table, key)?;
        self.settled(transaction, table, slot, ColumnSet::EXISTENCE)?;
        let Some(t) = self.transactions.get_mut(transaction) else {
            unreachable!("checked above")
        };
        let held = table_of(&mut self.tables, table)?;
        if is_kept(Rule::W2) {
            note_read(t, table, slot, held.item_mut(slot), key, ColumnSet::EXISTENCE);
        }
        let ts = t.ts;
        let (item, tail) = (held.item(slot), &held.tail);
        if !is_there(item, ts, transaction, tail) {
            return Ok(BlindUpdate::Missing);
        }
        if !may_be_blind((item, tail), transaction, &formula, bounds) {
            self.statistics.bounds_refused += 1;
            return Ok(BlindUpdate::MustBeOrdered);
        }
        self.statistics.blind_updates += 1;
        self.place(transaction, table, slot, Key::from_bytes(key), Change::Update(formula))?;
        claim(self.table_mut(table)?.item_mut(slot).intent_or_new(transaction), bounds);
        Ok(BlindUpdate::Pending)
    }

    /// Places a formula on a row that this transaction has read with [`FormulaDatabase::read_for_update`].
    pub fn update(&mut self, transaction: TransactionId, table: TableId, key: &[u8], formula: Formula) -> Outcome<()> {
        self.ordered_change(transaction, table, key, Change::Update(formula))
    }

    /// Deletes a row that this transaction has read with [`FormulaDatabase::read_for_update`].
    pub fn delete(&mut self, transaction: TransactionId, table: TableId, key: &[u8]) -> Outcome<()> {
        self.ordered_change(transaction, table, key, Change::Delete)
    }

    fn ordered_change(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: &[u8],
        change: Change,
    ) -> Outcome<()> {
        self.writable(transaction, table)?;
        let slot = self.slot(table, key)?;
        let holds_place = |item: &Item| item.intent(transaction).is_some();
        if !holds_place(table_of(&mut self.tables, table)?.item(slot)) {
            return Err(Stop::Fail(Error::internal(
                "a row was changed without its place in the queue",
            )));
        }
        self.spare_claims(transaction, table, slot, key, &change)?;
        self.place(transaction, table, slot, Key::from_bytes(key), change)
    }

    fn writable(&mut self, transaction: TransactionId, table: TableId) -> Outcome<()> {
        if self.active(transaction)?.read_only {
            let message = "cannot change rows in a read-only transaction";
            return Err(Stop::Fail(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message)));
        }
        self.not_replaced(table)
    }

    /// The newest row with the transaction's own changes, whose turn has come.
    pub(crate) fn newest(&mut self, transaction: TransactionId, table: TableId, slot: Slot) -> Outcome<Option<Row>> {
        let Some(t) = self.transactions.get(transaction) else {
            return Ok(None);
        };
        let ts = t.ts;
        let through = t.reads.last().and_then(|read| read.through.as_deref()).cloned();
        let held = table_of(&mut self.tables, table)?;
        let (item, tail) = (held.item(slot), &held.tail);
        Ok(match through {
            Some(seen) => {
                let own = item.intent(transaction).map_or(&[][..], |intent| &intent.changes);
                let seen = seen.map(|row| tail.whole(Cow::Owned(row)));
                crate::item::apply_changes(seen, own, tail)?.map(Cow::into_owned)
            }
            None => visible(item, ts, transaction, tail)?.map(Cow::into_owned),
        })
    }

    /// Rule W-1: appends a change to the transaction's intent; nothing is checked and nobody waits.
    fn place(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        slot: Slot,
        key: Key,
        change: Change,
    ) -> Outcome<()> {
        let row = table_of(&mut self.tables, table)?.item(slot).row.as_ref();
        let bytes = crate::memory::pending_cost(&key, &change, row);
        self.may_hold(transaction, bytes)?;
        let held = table_of(&mut self.tables, table)?;
        let intent = held.item_mut(slot).intent_or_new(transaction);
        let first = intent.changes.is_empty();
        intent.written = intent.written.union(columns_of(&change));
        intent.changes.push(change);
        let write = WriteRecord {
            table,
            slot,
            key,
            first,
            bytes,
        };
        if self.transactions.push_write(transaction, write) {
            self.pending_bytes += bytes;
        }
        Ok(())
    }
}

/// The columns that a change writes.
pub(crate) fn columns_of(change: &Change) -> ColumnSet {
    match change {
        Change::Update(formula) => formula.columns_written(),
        Change::Insert(_) | Change::Replace(_) | Change::Delete => ColumnSet::ALL,
    }
}
