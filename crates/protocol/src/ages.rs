//! Waits between transactions over several partitions, by their ages (rule Q-5).
//!
//! A circle of waits over several partitions leads, on one of them at least, from an older transaction to a younger one. Where an older one
//! waits for rows, the younger is rolled back at once: many transactions lock rows in whatever order, and would be in circles all the time.
//! Where it waits for a schema change to end, the younger has a while: one after the other they end by themselves within milliseconds, and
//! circles are rare. While one lasts none of its transactions moves.

use crate::api::{Outcome, WaitReason};
use crate::database::FormulaDatabase;
use crate::rules::{Rule, is_kept};
use crate::statistics::AbortReason;
use crate::transaction::Transaction;
use rubato_base::{Error, Timestamp, TransactionId};
use std::collections::BTreeMap;

/// Who waits behind somebody else is left in the way for so many times as long: it is in a circle only if it waits on another partition as
/// well.
const WAITING_FACTOR: u32 = 8;

/// How long the younger are left in the way of the older, and which are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patience {
    /// Rounds of the clock; 0: they are rolled back as soon as the older one waits.
    rounds: u32,
    /// Those that were in the way at the last round, how each stood, and for how many rounds it has stood so.
    in_the_way: BTreeMap<TransactionId, (Stand, u32)>,
}

/// What changes when a transaction moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stand {
    /// For whose end it waits, directly or through others.
    waits_for: Option<TransactionId>,
    /// How much it has read and written here.
    done: usize,
}

impl FormulaDatabase {
    /// Leaves a younger transaction in the way of an older one that waits for the end of a schema change, or to make one, for so many rounds
    /// of the clock ([`FormulaDatabase::end_long_waits`]). Without this it is rolled back as soon as the older one begins to wait.
    pub fn wait_for_younger(&mut self, rounds: u32) {
        self.patience.rounds = rounds;
    }

    /// A round of the clock. Rule Q-5: who has been in the way of an older transaction for as many rounds as
    /// [`FormulaDatabase::wait_for_younger`] says, and has not moved, is rolled back.
    pub fn end_long_waits(&mut self) {
        if !self.in_grid || self.patience.rounds == 0 || !is_kept(Rule::Q5) {
            return;
        }
        let before = std::mem::take(&mut self.patience.in_the_way);
        for (id, stand) in self.in_the_way() {
            let rounds = match before.get(&id) {
                Some((same, rounds)) if *same == stand => rounds + 1,
                _ => 0,
            };
            let factor = if stand.waits_for.is_some() { WAITING_FACTOR } else { 1 };
            if rounds >= self.patience.rounds * factor {
                self.give_way(id);
            } else {
                self.patience.in_the_way.insert(id, (stand, rounds));
            }
        }
    }

    /// The transactions over several partitions that are not prepared, and that an older one waits for, directly or through others.
    fn in_the_way(&self) -> Vec<(TransactionId, Stand)> {
        let waits = || self.transactions.iter().filter_map(|t| Some((t, t.waiting_for?)));
        if !waits().any(|(t, _)| t.is_spread()) {
            return Vec::new();
        }
        // How many wait for each and were not looked at yet: from the ends of the queues on.
        let mut open: BTreeMap<TransactionId, usize> = BTreeMap::new();
        waits().for_each(|(_, owner)| *open.entry(owner).or_default() += 1);
        let mut order: Vec<(TransactionId, TransactionId)> = Vec::new();
        let is_last = |(t, _): &(&Transaction, TransactionId)| !open.contains_key(&t.id);
        let mut next: Vec<(&Transaction, TransactionId)> = waits().filter(is_last).collect();
        // Where the oldest began of those behind each.
        let mut oldest: BTreeMap<TransactionId, Timestamp> = BTreeMap::new();
        while let Some((waiter, owner)) = next.pop() {
            order.push((waiter.id, owner));
            let own = waiter.is_spread().then_some(waiter.begun);
            if let Some(begun) = own.into_iter().chain(oldest.get(&waiter.id).copied()).min() {
                let behind = oldest.entry(owner).or_insert(begun);
                *behind = begun.min(*behind);
            }
            let left = open.entry(owner).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                let ahead = self.transactions.get(owner);
                next.extend(ahead.and_then(|t| Some((t, t.waiting_for?))));
            }
        }
        let mut first: BTreeMap<TransactionId, TransactionId> = BTreeMap::new();
        for (waiter, owner) in order.into_iter().rev() {
            let of_owner = first.get(&owner).copied().unwrap_or(owner);
            first.insert(waiter, of_owner);
        }
        let stands = |(id, behind): (&TransactionId, &Timestamp)| {
            let t = self.transactions.get(*id)?;
            let stand = Stand {
                waits_for: first.get(id).copied(),
                done: t.reads.len() + t.ranges.len() + t.writes.len() + t.queued.len(),
            };
            let is_in_the_way = t.is_spread() && !t.committing && t.doomed.is_none() && *behind < t.begun;
            is_in_the_way.then_some((*id, stand))
        };
        oldest.iter().filter_map(stands).collect()
    }

    /// Whether who is in the way of such a wait has time to end.
    fn has_time(&self, reason: WaitReason) -> bool {
        self.patience.rounds > 0 && reason == WaitReason::Table
    }

    fn waits_with_time(&self, t: &Transaction) -> bool {
        t.waits_at.as_ref().is_some_and(|(_, reason)| self.has_time(*reason))
    }

    fn give_way(&mut self, transaction: TransactionId) {
        let message = "an older transaction needs what this one holds";
        let error = Error::serialization(message, format!("transaction {transaction}"));
        self.doom(transaction, AbortReason::Wounded, error);
    }

    /// Rule Q-5: between transactions over several partitions waits go from the younger to the older, also through others. Who is
    /// younger, stands in the way and is not prepared is rolled back; who is prepared waits for nobody, and so everybody may wait for
    /// it, except that of two prepared ones the older does not wait. A circle over partitions would lead through two such transactions
    /// at least; one on this partition alone is found by rule Q-4. Where it has time, it is for
    /// [`FormulaDatabase::end_long_waits`] to do.
    pub(crate) fn wait_by_age(
        &mut self,
        transaction: TransactionId,
        owner: TransactionId,
        reason: WaitReason,
    ) -> Outcome<()> {
        if !is_kept(Rule::Q5) {
            return Ok(());
        }
        let (Some(waiter), Some(ahead)) = (self.transactions.get(transaction), self.transactions.get(owner)) else {
            return Ok(());
        };
        let older_waits = waiter.begun < ahead.begun;
        if waiter.committing && (older_waits || !ahead.committing) {
            return Err(self.refused(
                "another transaction that is about to commit stands in the way",
                owner.to_string(),
            ));
        }
        if self.has_time(reason) {
            return Ok(());
        }
        let Some(spread) = self.first_spread(owner).filter(|spread| !spread.committing) else {
            return Ok(());
        };
        let (spread, begun) = (spread.id, spread.begun);
        if self
            .oldest_spread_behind(transaction)
            .is_some_and(|oldest| oldest < begun)
        {
            self.give_way(spread);
        }
        Ok(())
    }

    /// Whether the transaction may come to be over several partitions: no older one waits for it already (rule Q-5) to whom it has to give
    /// way at once.
    pub(crate) fn may_spread(&mut self, transaction: TransactionId) -> bool {
        let Some(begun) = self.transactions.get(transaction).map(|t| t.begun) else {
            return false;
        };
        let oldest = self.oldest_spread_behind(transaction).filter(|_| is_kept(Rule::Q5));
        let may = oldest.is_none_or(|oldest| oldest >= begun);
        if !may {
            self.statistics.aborted(AbortReason::Wounded);
        }
        may
    }

    /// The first transaction over several partitions that has to end before `owner` can: itself, or one that it waits for.
    fn first_spread(&self, owner: TransactionId) -> Option<&Transaction> {
        let next = |t: &&Transaction| {
            self.transactions
                .get(t.waiting_for.filter(|_| !self.waits_with_time(t))?)
        };
        let chain = std::iter::successors(self.transactions.get(owner), next);
        // Bounded, for circles that rule Q-4 has not kept away.
        chain.take(self.transactions.len()).find(|t| t.is_spread())
    }

    /// Where the oldest began of the transactions over several partitions among this one and those that wait for it.
    fn oldest_spread_behind(&self, transaction: TransactionId) -> Option<Timestamp> {
        let (mut behind, mut next) = (vec![transaction], 0);
        let mut oldest: Option<Timestamp> = None;
        while let Some(id) = behind.get(next).copied() {
            next += 1;
            let Some(t) = self.transactions.get(id) else { continue };
            if t.is_spread() {
                oldest = Some(oldest.map_or(t.begun, |oldest| oldest.min(t.begun)));
            }
            let waits = |waiter: &&TransactionId| {
                let own = self.transactions.get(**waiter).filter(|own| !self.waits_with_time(own));
                own.and_then(|own| own.waiting_for) == Some(id) && !behind.contains(waiter)
            };
            let waiters: Vec<TransactionId> = t.waiters.iter().filter(waits).copied().collect();
            behind.extend(waiters);
        }
        oldest
    }

    /// One of `owners` that began after the transaction, in a grid.
    pub(crate) fn younger_of(&self, owners: &[TransactionId], transaction: TransactionId) -> Option<TransactionId> {
        let own = self.transactions.get(transaction)?.begun;
        let is_younger = |id: &&TransactionId| self.transactions.get(**id).is_some_and(|t| t.begun > own);
        owners.iter().filter(|_| self.in_grid).find(is_younger).copied()
    }
}
