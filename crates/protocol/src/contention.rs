//! What stands in whose way: for people who ask why something waits or is refused.
//!
//! Waits and aborts are counted by item where they happen, which is never on the path of a statement that goes through. Everything
//! else is gathered when somebody asks.

use crate::api::WaitReason;
use crate::database::FormulaDatabase;
use crate::item::Item;
use crate::statistics::AbortReason;
use crate::transaction::Transaction;
use rubato_base::{Key, SessionId, TableId, TransactionId};
use std::collections::BTreeMap;

/// Items whose waits and aborts are counted; when there are more, those with the fewest are forgotten.
const ITEMS_MAX: usize = 1024;
/// Pending changes of one transaction that are looked at, and items that it has read to write: the rest of a bulk load is not hot.
const CHANGES_LOOKED_AT_MAX: usize = 4096;

/// Waits and aborts at one item since it was first seen to be hot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCounts {
    /// Aborts by [`AbortReason`], in the order of the enum.
    pub aborts: [u64; AbortReason::COUNT],
    /// Waits by [`WaitReason`], in the order of the enum.
    pub waits: [u64; WaitReason::COUNT],
}

impl ItemCounts {
    fn total(&self) -> u64 {
        self.aborts.iter().chain(&self.waits).sum()
    }
}

/// Where something happened: an item, or a whole range of a table (no key).
pub type Place = (TableId, Option<Key>);

/// Counts by item, of the hottest ones.
#[derive(Debug, Default)]
pub(crate) struct Contention(BTreeMap<Place, ItemCounts>);

impl Contention {
    pub(crate) fn aborted(&mut self, place: Place, reason: AbortReason) {
        self.at(place).aborts[reason as usize] += 1;
    }

    pub(crate) fn waited(&mut self, place: Place, reason: WaitReason) {
        self.at(place).waits[reason as usize] += 1;
    }

    fn at(&mut self, place: Place) -> &mut ItemCounts {
        if self.0.len() >= ITEMS_MAX && !self.0.contains_key(&place) {
            self.forget_the_coolest();
        }
        self.0.entry(place).or_default()
    }

    /// Keeps the hotter half.
    fn forget_the_coolest(&mut self) {
        let mut totals: Vec<u64> = self.0.values().map(ItemCounts::total).collect();
        totals.sort_unstable();
        let median = totals.get(totals.len() / 2).copied().unwrap_or(0);
        let above = totals.iter().filter(|total| **total > median).count();
        let mut room = (ITEMS_MAX / 2).saturating_sub(above);
        self.0.retain(|_, counts| {
            let fills_up = counts.total() == median && room > 0;
            room -= usize::from(fills_up);
            fills_up || counts.total() > median
        });
    }
}

/// An item with something pending, or that others have waited or were aborted for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotItem {
    /// Transactions with a place on it.
    pub transactions: u64,
    /// Their pending formulas, inserts and deletes.
    pub pending: u64,
    /// Of the transactions, those that read in order to write: the queue.
    pub queue: u64,
    /// Transactions that wait here now.
    pub waiting: u64,
    /// Waits and aborts so far.
    pub counts: ItemCounts,
}

/// Who waits for whom, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The session that waits.
    pub session: SessionId,
    /// Its transaction.
    pub transaction: TransactionId,
    /// The session that it waits for.
    pub owner_session: SessionId,
    /// The transaction of that one.
    pub owner: TransactionId,
    /// Why.
    pub reason: WaitReason,
    /// The item; without a key where the wait is for a transaction as a whole.
    pub place: Place,
}

impl FormulaDatabase {
    /// Everybody who waits now.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.transactions.iter().filter_map(|t| self.wait_of(t)).collect()
    }

    fn wait_of(&self, t: &Transaction) -> Option<Waiting> {
        let owner = self.transactions.get(t.waiting_for?)?;
        let (place, reason) = t.waits_at.clone()?;
        Some(Waiting {
            session: t.session,
            transaction: t.id,
            owner_session: owner.session,
            owner: owner.id,
            reason,
            place,
        })
    }

    /// The item of `table` that both have a place on, as far as the one who waits has written it.
    pub(crate) fn key_between(&self, transaction: TransactionId, owner: TransactionId, table: TableId) -> Option<Key> {
        let held = self.tables.get(table)?;
        let written = self.transactions.get(transaction)?.writes.iter().rev();
        let mut here = written.filter(|write| write.table == table).take(CHANGES_LOOKED_AT_MAX);
        let found = here.find(|write| held.item(write.slot).intent(owner).is_some())?;
        Some(found.key.clone())
    }

    /// Items on which something is pending now, and those that transactions waited or were aborted for.
    pub fn hot_items(&self) -> Vec<(Place, HotItem)> {
        let mut hot: BTreeMap<Place, HotItem> = BTreeMap::new();
        for t in self.transactions.iter() {
            for (table, item) in self.places_of(t) {
                hot.entry((table, Some(item.key.clone())))
                    .or_insert_with(|| pending_on(item));
            }
        }
        for waiting in self.waiting() {
            hot.entry(waiting.place).or_default().waiting += 1;
        }
        for (place, counts) in &self.contention.0 {
            hot.entry(place.clone()).or_default().counts = *counts;
        }
        hot.into_iter().collect()
    }

    /// The items on which a transaction has a place, of the first that it has come to. What it has read besides is not looked at: it may be much.
    fn places_of<'a>(&'a self, t: &'a Transaction) -> impl Iterator<Item = (TableId, &'a Item)> {
        let written = { t.writes.iter().take(CHANGES_LOOKED_AT_MAX) }.filter(|write| write.first);
        let read_to_write = t.queued.iter().take(CHANGES_LOOKED_AT_MAX).copied();
        let places = written.map(|write| (write.table, write.slot)).chain(read_to_write);
        places.filter_map(|(table, slot)| {
            let item = self.tables.get(table)?.peek(slot)?;
            item.intent(t.id).map(|_| (table, item))
        })
    }
}

fn pending_on(item: &Item) -> HotItem {
    let intents = item.intents();
    HotItem {
        transactions: intents.len() as u64,
        pending: intents.iter().map(|intent| intent.changes.len() as u64).sum(),
        queue: intents.iter().filter(|intent| !intent.ordered.is_empty()).count() as u64,
        waiting: 0,
        counts: ItemCounts::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Value;

    #[test]
    fn counts_are_kept_of_the_hottest_items() {
        let mut contention = Contention::default();
        let key = |number: i32| Key::of(&[Value::Int4(number)]);
        for number in 0..10_000 {
            contention.waited((TableId(1), Some(key(number))), WaitReason::Queue);
            contention.aborted((TableId(1), Some(key(i32::MAX))), AbortReason::ReadChanged);
        }
        assert!(contention.0.len() <= ITEMS_MAX);
        let hottest = &contention.0[&(TableId(1), Some(key(i32::MAX)))];
        assert_eq!((hottest.aborts[0], hottest.waits[0]), (10_000, 0));
    }
}
