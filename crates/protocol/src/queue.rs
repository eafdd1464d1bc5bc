//! The read-to-write queue of an item (protocol.md section 4, read to write).
//!
//! A transaction that reads in order to write takes a place in the item's list of intents, behind what is there. It reads when
//! its turn has come: under [`QueuePolicy::Wait`] when those before it whose columns it needs have ended, under
//! [`QueuePolicy::Pipeline`] as soon as they have written, through their formulas, and then it commits after them. A formula
//! that is placed behind it takes effect behind it: the commit of its owner waits (see `commit.rs`). A list is as long as
//! there are live transactions, which the server bounds; a circle of waits ends when the transaction that would close it is
//! aborted.

use crate::api::{OnBusy, OrderedRead, Outcome, QueuePolicy, Stop, WaitReason};
use crate::database::{FormulaDatabase, item_name, table_of};
use crate::escrow::claim_behind;
use crate::item::{Intent, Item, apply_changes};
use crate::read::{note_read, visible};
use crate::rules::{Rule, is_kept};
use crate::table::{Slot, Table};
use crate::tail::Tail;
use crate::transaction::{ReadRecord, Transaction};
use rubato_base::{ColumnSet, Error, Key, Row, TableId, TransactionId};
use smallvec::SmallVec;
use std::borrow::Cow;

/// What stands before a read-to-write.
enum Before {
    /// Nothing that concerns it.
    Clear,
    /// This transaction must end first.
    Blocked(TransactionId),
    /// These have written and may be read through.
    Through(SmallVec<[TransactionId; 2]>),
}

impl FormulaDatabase {
    /// Waits until those have ended whose formulas the transaction has read through; [`Stop::Abort`] if one of them was rolled back,
    /// or has come to another value: it may have taken the formula back to a savepoint, or have placed another one.
    ///
    /// Rule Q-7: so a statement's refusal is told only when what it was drawn from is committed.
    pub fn settle_read_through(&mut self, transaction: TransactionId) -> Outcome<()> {
        let t = self.active(transaction)?;
        let (after, ts) = (t.after.clone(), t.ts);
        if let Some(owner) = after.iter().find(|owner| self.transactions.is_live(**owner)) {
            return self.wait(transaction, *owner, TableId(0), WaitReason::After);
        }
        match after.is_empty() {
            true => Ok(()),
            false => self.validate(transaction, self.last_cts.max(ts)),
        }
    }

    /// Whether the transaction has read through the formulas of others. What it has seen so is checked wherever it comes to stand.
    pub fn has_read_through(&self, transaction: TransactionId) -> bool {
        self.transactions.get(transaction).is_some_and(|t| !t.after.is_empty())
    }

    /// Reads a row in order to write it: takes a place in the item's queue and gives the newest value of the row, with this
    /// transaction's own changes. Waits for its turn ([`Stop::Wait`]), or tells with [`OnBusy::Tell`].
    ///
    /// The transaction's snapshot moves up to that value; if something it has read before is different there, it is aborted.
    pub fn read_for_update(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: &[u8],
        columns: ColumnSet,
        on_busy: OnBusy,
    ) -> Outcome<OrderedRead> {
        self.active_on(transaction, table)?;
        let slot = self.slot(table, key)?;
        let columns = columns.union(ColumnSet::EXISTENCE);
        if on_busy == OnBusy::Tell && is_busy(self.table_mut(table)?.item(slot), transaction) {
            return Ok(OrderedRead::Busy);
        }
        self.take_turn(transaction, table, slot, key, columns)?;
        let Some(t) = self.transactions.get(transaction) else {
            unreachable!("checked above")
        };
        let ts = t.ts;
        let held = table_of(&mut self.tables, table)?;
        let (item, tail) = (held.item(slot), &held.tail);
        let row = match t.reads.last().and_then(|read| read.through.as_deref()) {
            Some(seen) => own_changes(tail.whole_of(seen), item, transaction, tail)?,
            None => visible(item, ts, transaction, tail)?,
        };
        Ok(OrderedRead::Row(row.map(Cow::into_owned)))
    }

    /// Rule Q-1: takes the place, waits for the turn, moves the snapshot up, and notes the read as the transaction's last one.
    pub(crate) fn take_turn(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        slot: Slot,
        key: &[u8],
        columns: ColumnSet,
    ) -> Outcome<()> {
        self.take_place(transaction, table, slot, columns)?;
        let policy = self.policies.queue;
        let item = self.table_mut(table)?.item(slot);
        if let Some(owner) = claim_behind(item, transaction, columns) {
            return self.wait(transaction, owner, table, WaitReason::Queue);
        }
        match before(item, transaction, columns, policy) {
            Before::Clear => self.read_in_turn(transaction, table, slot, key, columns, None),
            Before::Blocked(owner) => {
                let place = (table, Some(Key::from_bytes(key)));
                self.wait_at(transaction, owner, place, WaitReason::Queue)
            }
            Before::Through(owners) => match self.younger_of(&owners, transaction) {
                Some(younger) => self.wait(transaction, younger, table, WaitReason::Queue),
                None => self.read_in_turn(transaction, table, slot, key, columns, Some(owners)),
            },
        }
    }

    /// The same for a read that must not wait: through what others have written, whatever the policy; false (and nothing
    /// noted) if someone stands before who has not written yet.
    pub(crate) fn try_turn(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        slot: Slot,
        key: &[u8],
        columns: ColumnSet,
    ) -> Outcome<bool> {
        let item = self.table_mut(table)?.item(slot);
        let through = match before(item, transaction, columns, QueuePolicy::Pipeline) {
            Before::Clear => None,
            Before::Blocked(_) => return Ok(false),
            // In a grid nobody follows a younger one: the two could wait for each other over two partitions.
            Before::Through(owners) if self.younger_of(&owners, transaction).is_some() => return Ok(false),
            Before::Through(owners) => Some(owners),
        };
        self.take_place(transaction, table, slot, columns)?;
        self.read_in_turn(transaction, table, slot, key, columns, through)?;
        Ok(true)
    }

    fn read_in_turn(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        slot: Slot,
        key: &[u8],
        columns: ColumnSet,
        through: Option<SmallVec<[TransactionId; 2]>>,
    ) -> Outcome<()> {
        self.statistics.ordered_reads += 1;
        let cts = self.table_mut(table)?.item(slot).newest_cts();
        self.advance(transaction, cts)?;
        self.settled(transaction, table, slot, columns)?;
        let Some(t) = self.transactions.get_mut(transaction) else {
            unreachable!("checked by the caller")
        };
        let read_only = std::mem::replace(&mut t.read_only, false);
        let held = table_of(&mut self.tables, table)?;
        note_read(t, table, slot, held.item_mut(slot), key, columns);
        t.read_only = read_only;
        let intent = held.item_mut(slot).intent_or_new(transaction);
        intent.awaited = ColumnSet(intent.awaited.0 & !columns.0);
        if let Some(owners) = through {
            let seen = seen_through((held.item(slot), &held.tail), transaction, &owners)
                .map_err(|error| Stop::Abort(formula_failed(table, key, &error)))?;
            if let Some(read) = t.reads.last_mut() {
                read.through = Some(Box::new(seen));
            }
            self.follow(transaction, &owners);
        }
        Ok(())
    }

    /// Stands in the queue to read these columns in turn.
    pub(crate) fn take_place(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        slot: Slot,
        columns: ColumnSet,
    ) -> Outcome<()> {
        let held = table_of(&mut self.tables, table)?;
        let intent = held.item_mut(slot).intent_or_new(transaction);
        let fresh = intent.ordered.is_empty();
        intent.awaited = ColumnSet(intent.awaited.0 | (columns.0 & !intent.ordered.0));
        intent.ordered = intent.ordered.union(columns);
        if let (true, Some(t)) = (fresh, self.transactions.get_mut(transaction)) {
            t.queued.push((table, slot));
        }
        Ok(())
    }

    /// Rule Q-3: who has read through the formulas of others commits after them and not without them.
    fn follow(&mut self, transaction: TransactionId, owners: &[TransactionId]) {
        for owner in owners.iter().filter(|_| is_kept(Rule::Q3)) {
            if let Some(t) = self.transactions.get_mut(transaction)
                && !t.after.contains(owner)
            {
                t.after.push(*owner);
            }
            if let Some(owner) = self.transactions.get_mut(*owner)
                && !owner.followers.contains(&transaction)
            {
                owner.followers.push(transaction);
            }
        }
    }

    /// The items on which a transaction stands in the queue, with the columns that it has read there.
    pub(crate) fn queued_places(&self, t: &Transaction) -> Vec<(TableId, Key, ColumnSet)> {
        let place = |(table, slot): &(TableId, Slot)| {
            let item = self.tables.get(*table)?.item(*slot);
            let ordered = item.intent(t.id)?.read();
            (!ordered.is_empty()).then(|| (*table, item.key.clone(), ordered))
        };
        t.queued.iter().filter_map(place).collect()
    }
}

/// Whether another transaction has an intent on the item.
pub(crate) fn is_busy(item: &Item, transaction: TransactionId) -> bool {
    item.intents().iter().any(|intent| intent.transaction != transaction)
}

/// Whether nobody can change what was read before the reader ends. Whoever stands before it can, since it need not queue behind: it
/// may have placed a formula on what was read since, or may yet while it is not prepared. Who writes the existence of a row waits for those
/// prepared that write it, so that this is settled for all but those whom one that is prepared has forestalled.
pub(crate) fn holds_read(held: &Table, read: &ReadRecord, reader: TransactionId) -> bool {
    let Some(item) = held.item_at(read.slot, read.generation) else {
        return false;
    };
    let Some(at) = item.intents().iter().position(|intent| intent.transaction == reader) else {
        return false;
    };
    let (before, own) = (&item.intents()[..at], &item.intents()[at]);
    let forestalls = |intent: &Intent| intent.floor.is_some() && intent.written.contains_existence();
    if !own.changes.is_empty() && ColumnSet::EXISTENCE.covers(read.columns) {
        let mut others = item.intents().iter().filter(|intent| intent.transaction != reader);
        return !others.any(forestalls);
    }
    let columns = match own.changes.is_empty() {
        true => own.read(),
        false => own.read().union(ColumnSet::EXISTENCE),
    };
    let is_settled = |intent: &Intent| intent.floor.is_some() && !intent.written.intersects(read.columns);
    columns.covers(read.columns) && before.iter().all(is_settled)
}

fn before(item: &Item, transaction: TransactionId, columns: ColumnSet, policy: QueuePolicy) -> Before {
    // Who is prepared has its place already, also if it stands behind this transaction's own blind formula.
    let mut prepared = item.intents().iter().filter(|intent| intent.floor.is_some());
    let concerned = |intent: &&Intent| intent.transaction != transaction && intent.written.intersects(columns);
    if let Some(intent) = prepared.find(concerned) {
        return Before::Blocked(intent.transaction);
    }
    let mut through = SmallVec::new();
    for intent in item
        .intents()
        .iter()
        .take_while(|intent| intent.transaction != transaction)
    {
        let concerns = intent.ordered.intersects(columns) || intent.written.intersects(columns);
        if !concerns || !is_kept(Rule::Q1) {
            continue;
        }
        if policy == QueuePolicy::Wait || intent.changes.is_empty() {
            return Before::Blocked(intent.transaction);
        }
        through.push(intent.transaction);
    }
    if through.is_empty() {
        Before::Clear
    } else {
        Before::Through(through)
    }
}

/// The newest committed row with the formulas of `owners`, which stand before `transaction`.
fn seen_through(
    (item, tail): (&Item, &Tail),
    transaction: TransactionId,
    owners: &[TransactionId],
) -> rubato_base::Result<Option<Row>> {
    let mut row = tail.whole_of(&item.row);
    let before = item
        .intents()
        .iter()
        .take_while(|intent| intent.transaction != transaction);
    for intent in before.filter(|intent: &&Intent| owners.contains(&intent.transaction)) {
        row = apply_changes(row, &intent.changes, tail)?;
    }
    Ok(row.map(Cow::into_owned))
}

fn own_changes<'a>(
    row: Option<Cow<'a, Row>>,
    item: &'a Item,
    transaction: TransactionId,
    tail: &Tail,
) -> rubato_base::Result<Option<Cow<'a, Row>>> {
    match item.intent(transaction) {
        Some(intent) => apply_changes(row, &intent.changes, tail),
        None => Ok(row),
    }
}

fn formula_failed(table: TableId, key: &[u8], error: &Error) -> Error {
    Error::serialization(
        format!("a formula that stands before could not be applied: {}", error.message()),
        item_name(table, &Key::from_bytes(key)),
    )
}
