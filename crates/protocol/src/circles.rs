//! Waits between transactions over several partitions (rule Q-5): who is told of them, so that circles over partitions are found.
//!
//! On one partition the wait that would close a circle is refused (rule Q-4). A circle over several leads from partition to partition
//! through transactions that are on both; their coordinators find it (`grid/probe.rs`), once the participants have told them of the waits
//! that are noted here. Sessions that wait for each other beside rows, for advisory locks, are links of such circles too: they lie on one
//! partition, which is told of them ([`FormulaDatabase::set_waits_beside`]).

use crate::api::{Outcome, WaitReason};
use crate::contention::Place;
use crate::database::FormulaDatabase;
use crate::rules::{Rule, is_kept};
use crate::statistics::AbortReason;
use crate::transaction::Transaction;
use rubato_base::{SessionId, TransactionId};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

/// A transaction that may be over several partitions, and waits here for another one that may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpreadWait {
    /// Who waits, directly or behind others that are on this partition alone.
    pub(crate) waiter: TransactionId,
    /// For whom, in the same way: the first that it comes to.
    pub(crate) ahead: TransactionId,
    /// Whether it has come to wait otherwise than by the turn of a queue in which it stood already.
    pub(crate) is_new: bool,
}

impl FormulaDatabase {
    /// The waits of which a coordinator has to hear since the last call, and that are still there.
    pub(crate) fn take_spread_waits(&mut self) -> Vec<SpreadWait> {
        let noted = std::mem::take(&mut self.spread_waits);
        let held = noted.into_iter().flat_map(|(waiter, is_new)| {
            let ahead = self.spread_ahead(waiter);
            ahead.into_iter().map(move |ahead| SpreadWait { waiter, ahead, is_new })
        });
        held.collect()
    }

    /// Whether there are such waits.
    pub(crate) fn has_spread_waits(&self) -> bool {
        !self.spread_waits.is_empty()
    }

    /// For which transactions that may be over several partitions this one waits, directly or through others that are on this one alone:
    /// the first in each direction. There is one direction but where sessions wait for several others beside rows.
    /// Who is prepared waits only for those that are, in the order of their ages, and so is in no circle.
    pub(crate) fn spread_ahead(&self, transaction: TransactionId) -> SmallVec<[TransactionId; 1]> {
        let mut found = SmallVec::new();
        let mut seen: SmallVec<[TransactionId; 4]> = smallvec![transaction];
        let mut next = 0;
        while let Some(waiter) = seen.get(next).copied() {
            next += 1;
            for ahead in self.ahead_of(waiter) {
                // Bounded, for circles that rule Q-4 has not kept away, too.
                if seen.contains(&ahead.id) || found.contains(&ahead.id) {
                    continue;
                }
                match ahead.is_spread() {
                    true if ahead.committing => {}
                    true => found.push(ahead.id),
                    false => seen.push(ahead.id),
                }
            }
        }
        found
    }

    /// For whom a transaction waits here, by itself: for a row, or beside rows.
    fn ahead_of(&self, waiter: TransactionId) -> SmallVec<[&Transaction; 1]> {
        let Some(waiter) = self.transactions.get(waiter) else {
            return SmallVec::new();
        };
        let for_row = waiter.waiting_for.and_then(|owner| self.transactions.get(owner));
        let beside = self.waits_beside.get(&waiter.session).filter(|_| for_row.is_none());
        let beside = beside
            .into_iter()
            .flatten()
            .flat_map(|session| self.of_session(*session));
        for_row.into_iter().chain(beside).collect()
    }

    fn of_session(&self, session: SessionId) -> impl Iterator<Item = &Transaction> {
        let live = self.transactions.iter();
        live.filter(move |t| t.session == session && session != SessionId::default())
    }

    /// Says for which others sessions wait beside rows, in a grid: all of them, each time that this changes. Sessions without a transaction
    /// here are in no circle that is found.
    pub fn set_waits_beside(&mut self, waits: BTreeMap<SessionId, Vec<SessionId>>) {
        let before = std::mem::replace(&mut self.waits_beside, waits);
        let changed = self
            .waits_beside
            .iter()
            .filter(|(waiter, ahead)| before.get(waiter) != Some(*ahead));
        let changed = changed.flat_map(|(waiter, _)| self.of_session(*waiter)).map(|t| t.id);
        for transaction in changed.collect::<Vec<_>>() {
            self.note_spread_wait(transaction, true);
        }
    }

    /// Whether sessions wait for others beside rows, as far as was said.
    pub fn has_waits_beside(&self) -> bool {
        !self.waits_beside.is_empty()
    }

    /// So many transactions of this node were rolled back because they were in circles, or long lines, over several partitions.
    pub fn count_circles(&mut self, count: u64) {
        self.statistics.aborts[AbortReason::Deadlock as usize] += count;
    }

    /// Notes that the transaction has come to wait, for those behind it too that are the first over several partitions.
    pub(crate) fn note_spread_wait(&mut self, transaction: TransactionId, is_new: bool) {
        let is_last = |t: &Transaction| !t.is_spread() && t.waiters.is_empty() && self.waits_beside.is_empty();
        if self.transactions.get(transaction).is_none_or(is_last) {
            return;
        }
        let (mut behind, mut next) = (vec![transaction], 0);
        while let Some(t) = behind.get(next).and_then(|id| self.transactions.get(*id)) {
            next += 1;
            if t.is_spread() {
                *self.spread_waits.entry(t.id).or_default() |= is_new;
                continue;
            }
            let waiters = self.behind(t);
            behind.extend(
                waiters
                    .into_iter()
                    .filter(|id| !behind.contains(id))
                    .collect::<Vec<_>>(),
            );
        }
    }

    /// Who waits for the transaction, by itself: for a row, or beside rows.
    fn behind(&self, owner: &Transaction) -> SmallVec<[TransactionId; 2]> {
        let for_rows = owner.waiters.iter().copied();
        let for_rows = for_rows.filter(|waiter| self.waits_for(*waiter) == Some(owner.id));
        let beside = self
            .waits_beside
            .iter()
            .filter(|(_, ahead)| ahead.contains(&owner.session));
        let beside = beside.flat_map(|(waiter, _)| self.of_session(*waiter)).map(|t| t.id);
        for_rows.chain(beside).collect()
    }

    /// Notes that those who wait for the transaction wait for one that may be over several partitions, since now.
    pub(crate) fn note_waits_behind(&mut self, transaction: TransactionId) {
        let waiters = self.transactions.get(transaction).map(|t| self.behind(t));
        for waiter in waiters.unwrap_or_default() {
            self.note_spread_wait(waiter, true);
        }
    }

    /// Whether the transaction has waited at the place already, as the owner has: then it stood behind the owner in the same queue when
    /// both waited for another one, and who has to know of that has been told.
    pub(crate) fn stood_behind(
        &self,
        transaction: TransactionId,
        owner: TransactionId,
        at: (&Place, WaitReason),
    ) -> bool {
        let has_waited = |id| {
            let waited = self.transactions.get(id).and_then(|t| t.waits_at.as_ref());
            waited.is_some_and(|(place, reason)| (place, *reason) == at)
        };
        at.1 == WaitReason::Queue && at.0.1.is_some() && has_waited(transaction) && has_waited(owner)
    }

    /// Rule Q-5: who is prepared waits for nobody who is not, and of two that are the older one does not wait.
    pub(crate) fn refuse_wait_of_prepared(&mut self, transaction: TransactionId, owner: TransactionId) -> Outcome<()> {
        let (Some(waiter), Some(ahead)) = (self.transactions.get(transaction), self.transactions.get(owner)) else {
            return Ok(());
        };
        if waiter.committing && (waiter.begun < ahead.begun || !ahead.committing) && is_kept(Rule::Q5) {
            let message = "another transaction that is about to commit stands in the way";
            return Err(self.refused(message, owner.to_string()));
        }
        Ok(())
    }

    /// One of `owners` that began after the transaction, in a grid.
    pub(crate) fn younger_of(&self, owners: &[TransactionId], transaction: TransactionId) -> Option<TransactionId> {
        let own = self.transactions.get(transaction)?.begun;
        let is_younger = |id: &&TransactionId| self.transactions.get(**id).is_some_and(|t| t.begun > own);
        owners.iter().filter(|_| self.in_grid).find(is_younger).copied()
    }
}
