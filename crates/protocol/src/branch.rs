//! A partition's branch of a transaction over several partitions: prepare, check at the final place, commit or roll back.
//!
//! A branch lives like any transaction until its coordinator wants to commit. Then it is *prepared*: it gets a floor on each
//! item that it writes, and what it would do is durable. From then on it can neither fail nor give up by itself, others go on
//! around it (see `undecided.rs`), and it waits for nobody who is not prepared himself.

use crate::api::{BeginOptions, Change, Changes, CommitLog, DecisionRecord, Outcome, PrepareRecord, Stop, WaitReason};
use crate::database::{FormulaDatabase, item_name, table_of};
use crate::definition::Definition;
use crate::queue::holds_read;
use crate::read::{note_read, raise_marks, raise_marks_since};
use crate::rules::{Rule, is_kept};
use crate::statistics::AbortReason;
use crate::table::{RECOVERED_LSN, Slot};
use crate::tables::Tables;
use crate::transaction::{Transaction, WriteRecord};
use rubato_base::{ColumnSet, Error, GlobalId, Key, Lsn, Result, SessionId, TableId, Timestamp, TransactionId};
use rubato_formula::RowBounds;
use std::ops::ControlFlow;

/// Changes that are looked through to know whether a branch follows anybody.
const FOLLOWED_WRITES_MAX: usize = 256;

/// A branch that is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The smallest place that it can take.
    pub floor: Timestamp,
    /// Above its snapshot it has to be checked at the place first: something that it has read may change there.
    pub check_above: bool,
    /// Nothing may be said before the log is forced up to here.
    pub durable_at: Lsn,
}

impl FormulaDatabase {
    /// Makes this database one partition of a grid: transactions begin at the grid's ticks ([`FormulaDatabase::begin_at`]), and
    /// a snapshot may still come from elsewhere until [`FormulaDatabase::expect_snapshots`] says otherwise.
    pub fn join_grid(&mut self) {
        self.in_grid = true;
        self.live.expect(Vec::new(), Timestamp::ZERO);
    }

    /// The snapshots of the grid that may still come here: the live ones below `open_from`, and any from there on.
    pub fn expect_snapshots(&mut self, mut live: Vec<Timestamp>, open_from: Timestamp) {
        live.sort_unstable();
        self.live.expect(live, open_from);
    }

    /// Whether a transaction of the grid that began at this tick may still come here (rule F-6).
    pub fn may_come(&self, tick: Timestamp) -> bool {
        self.live.may_come(tick)
    }

    /// The oldest snapshot that versions are kept for, if there is one.
    pub fn oldest_snapshot(&self) -> Option<Timestamp> {
        self.live.oldest()
    }

    /// Begins a session's transaction at a tick of the grid.
    pub fn begin_at(&mut self, tick: Timestamp, options: BeginOptions) -> TransactionId {
        self.clock = self.clock.max(tick);
        self.live.insert(tick);
        self.transactions.begin(options, tick, self.policies.commit)
    }

    /// Begins a transaction of a node of the grid that no other one can ever notice: it reads and writes what is its session's own,
    /// if anything. It has no tick of the grid, and moves the clock to none: what came to stand above a tick that is still to be
    /// handed out would not be seen by who begins there.
    pub fn begin_private(&mut self, options: BeginOptions) -> TransactionId {
        self.live.insert(self.clock);
        self.transactions.begin(options, self.clock, self.policies.commit)
    }

    /// Begins a branch at a tick of the grid: the participant owns it, and is told of its wakes and its doom.
    pub fn begin_branch(&mut self, tick: Timestamp, read_only: bool) -> TransactionId {
        let session = SessionId::default();
        let branch = self.begin_at(tick, BeginOptions { session, read_only });
        if let Some(t) = self.transactions.get_mut(branch) {
            t.is_branch = true;
        }
        branch
    }

    /// Why the transaction must be rolled back, if it must.
    pub fn doom_of(&self, transaction: TransactionId) -> Option<&Error> {
        self.transactions.get(transaction).and_then(|t| t.doomed.as_ref())
    }

    /// Whether the transaction can be placed at the tick at which it began, as far as its reads go: the snapshot is still that tick,
    /// and it has read through nobody's formulas. Whoever has placed them may stand above the tick, or have taken them back to a
    /// savepoint: what was seen so is checked where the transaction comes to stand, and nothing is checked at the tick (rule P-3).
    pub fn reads_where_it_began(&self, transaction: TransactionId) -> bool {
        let stays = |t: &Transaction| t.ts == t.begun && t.after.is_empty() && t.after_cts <= t.begun;
        self.transactions.get(transaction).is_some_and(stays)
    }

    /// Whether the transaction would have to wait if it were prepared now. It may, for all that is known, if it has changed more than is
    /// looked at: a branch is asked behind each of its operations.
    pub fn follows_anybody(&mut self, transaction: TransactionId) -> Outcome<bool> {
        let writes = self.transactions.get(transaction).map_or(0, |t| t.writes.len());
        Ok(writes > FOLLOWED_WRITES_MAX || self.must_follow(transaction)?.is_some())
    }

    /// Rule Q-6: waits until the transaction follows nobody any more; only then it may be prepared. Who stands behind it later
    /// stays behind it.
    pub fn settle(&mut self, transaction: TransactionId) -> Outcome<()> {
        self.active(transaction)?;
        match self.must_follow(transaction)? {
            Some((owner, table, reason)) => self.wait(transaction, owner, table, reason),
            None => Ok(()),
        }
    }

    /// Where the transaction reads, if it cannot be placed at the tick at which it began ([`FormulaDatabase::reads_where_it_began`]).
    pub fn moved_to(&self, transaction: TransactionId) -> Option<Timestamp> {
        self.snapshot(transaction)
            .filter(|_| !self.reads_where_it_began(transaction))
    }

    /// Checks that all that the transaction has read is the same at `at`, where its branches on other partitions have read, and marks it
    /// there, so that it stays so: what was seen on all of them is one state (rule Q-7). The snapshot stays where it is, since versions
    /// are kept for that one. Waits for prepared branches. `at` lies within a tick that was handed out.
    ///
    /// What it has confirmed at that place before stays so, by the marks, and is not looked at again: it is asked behind each statement.
    pub fn confirm_at(&mut self, transaction: TransactionId, at: Timestamp) -> Outcome<()> {
        let t = self.active(transaction)?;
        if at <= t.ts {
            return Ok(());
        }
        let since = t.confirmed_until(at);
        self.validate_since(transaction, since, at)?;
        self.clock = self.clock.max(at);
        if let Some(t) = self.transactions.get_mut(transaction) {
            if is_kept(Rule::V4) {
                raise_marks_since(&mut self.tables, t, since, at);
            }
            t.confirm(at);
        }
        Ok(())
    }

    /// Prepares a branch that follows nobody. Never waits. After [`Stop::Abort`] it must be rolled back.
    pub fn prepare(
        &mut self,
        transaction: TransactionId,
        global: GlobalId,
        log: &mut dyn CommitLog,
    ) -> Outcome<Prepared> {
        self.active(transaction)?;
        // An earlier reader is waited for before, if at all.
        if let Some((_, table, reason)) = self.must_follow(transaction)?
            && reason != WaitReason::Reader
        {
            return Err(self.refused("it still follows another transaction", format!("storage {table}")));
        }
        self.make_laid_durable(transaction)?;
        let floor = self.floor(transaction)?;
        self.check_formulas(transaction)?;
        let check_above = !self.is_held_in_place(transaction)?;
        let durable_at = self.append_prepare(transaction, global, floor, log)?;
        self.place_floor(transaction, floor);
        self.branches.insert(global, transaction);
        let since = self.last_lsn;
        self.last_lsn = since.max(durable_at);
        let depends = self.depends_on(transaction);
        let Some(t) = self.transactions.get_mut(transaction) else {
            unreachable!("checked above")
        };
        (t.floor, t.committing, t.prepared_since) = (Some(floor), true, since);
        Ok(Prepared {
            floor,
            check_above,
            durable_at: durable_at.max(depends),
        })
    }

    /// Rule P-5: checks that everything that the branch has read is the same at `place`, and marks it there, so that it stays so.
    /// Waits for older prepared branches only. Gives the log position that the reads depend on.
    pub fn check_at(&mut self, transaction: TransactionId, place: Timestamp) -> Outcome<Lsn> {
        let t = self.active(transaction)?;
        t.committing = true;
        // What was read through others is to be checked at the snapshot, too. (At its tick nobody stands who has read so.)
        let began = if t.after.is_empty() { t.ts } else { t.begun };
        let recovered = t.recovered;
        if recovered {
            let message = "the node was restarted, or has had to forget, and what was read is not known";
            return Err(self.refused(message, String::new()));
        }
        if place > began && is_kept(Rule::P5) {
            self.validate(transaction, place)?;
        }
        Ok(self.mark_at(transaction, place))
    }

    /// As [`FormulaDatabase::check_at`] for a branch that was just prepared; nothing if the reads do not hold there, or somebody would have
    /// to be waited for to know.
    pub fn hold_at(&mut self, transaction: TransactionId, place: Timestamp) -> Option<Lsn> {
        let holds = !is_kept(Rule::P5) || self.surely_holds(transaction, place).ok()?;
        holds.then(|| self.mark_at(transaction, place))
    }

    /// Gives the log position that the reads depend on.
    fn mark_at(&mut self, transaction: TransactionId, place: Timestamp) -> Lsn {
        self.clock = self.clock.max(place);
        let Some(t) = self.transactions.get(transaction) else {
            return Lsn(0);
        };
        if place > t.ts && is_kept(Rule::V4) {
            raise_marks(&mut self.tables, t, place);
        }
        self.depends_of(t)
    }

    /// Commits a branch at the place that its coordinator decided. One that has placed nothing needs no preparation. Gives the
    /// log position from which the decision is durable here too, or nothing if the branch was never prepared.
    pub fn commit_at(
        &mut self,
        transaction: TransactionId,
        global: GlobalId,
        place: Timestamp,
        log: &mut dyn CommitLog,
    ) -> Result<Option<Lsn>> {
        let Some(t) = self.transactions.get(transaction) else {
            return Ok(None);
        };
        let (ts, depends, places_nothing) = (t.ts, self.depends_of(t), t.writes.is_empty() && t.definition.is_none());
        if t.floor.is_none() && !places_nothing {
            return Ok(None);
        }
        let lsn = if t.floor.is_some() {
            log.append_decision(&DecisionRecord {
                transaction: global,
                cts: Some(place),
                participants: &[],
            })?
        } else {
            depends
        };
        if place > ts && is_kept(Rule::V4) {
            raise_marks(&mut self.tables, t, place);
        }
        self.branches.remove(&global);
        self.date_created(transaction, place);
        self.fold_branch(transaction, place, lsn);
        self.committed(transaction, place, lsn);
        Ok(Some(lsn))
    }

    /// Rolls a branch back, prepared or not. The log is told of one that was prepared, so that a restart need not ask again; if
    /// it cannot be told, it will ask.
    pub fn roll_back_branch(&mut self, transaction: TransactionId, global: GlobalId, log: &mut dyn CommitLog) {
        if self.branches.remove(&global).is_some() {
            let _ = log.append_decision(&DecisionRecord {
                transaction: global,
                cts: None,
                participants: &[],
            });
        }
        let touched = self.items_of(transaction);
        let adopted = self.transactions.get(transaction).filter(|t| t.is_adopted);
        match adopted.map(|t| t.doomed.clone()) {
            // Its session may not have been told yet (rule Q-8).
            Some(doomed) => {
                let ended =
                    || Error::serialization("the transaction was rolled back on another node", global.to_string());
                self.lose(transaction, doomed.unwrap_or_else(ended));
            }
            None => self.rollback(transaction),
        }
        self.settle_items(&touched);
    }

    /// The smallest place that a prepared branch can take.
    pub(crate) fn floor_of(&self, transaction: TransactionId) -> Option<Timestamp> {
        self.transactions.get(transaction).and_then(|t| t.floor)
    }

    /// The smallest place that a prepared branch can take.
    pub fn prepared_floor(&self, global: GlobalId) -> Option<Timestamp> {
        self.floor_of(*self.branches.get(&global)?)
    }

    /// Branches whose outcome is not known, in order.
    pub fn prepared_branches(&self) -> impl Iterator<Item = (GlobalId, TransactionId)> + '_ {
        self.branches
            .iter()
            .map(|(global, transaction)| (*global, *transaction))
    }

    /// Whether a branch whose outcome is not known has changed rows of the storage.
    pub fn is_in_doubt(&self, table: TableId) -> bool {
        let mut undecided = self.branches.values().filter_map(|id| self.transactions.get(*id));
        undecided.any(|t| t.writes.iter().any(|write| write.table == table))
    }

    /// The log is known to have everything up to here: before each record that is read back, and behind the last.
    pub fn note_log_position(&mut self, position: Lsn) {
        self.last_lsn = self.last_lsn.max(position);
    }

    /// Behind the last record that is known to be in the log.
    pub fn log_position(&self) -> Lsn {
        self.last_lsn
    }

    /// Where the log has to be kept from, for branches whose outcome is not known: what they are, and what has committed above
    /// them and is not folded, stands behind this position.
    pub fn undecided_since(&self) -> Option<Lsn> {
        let prepared = self.branches.values().filter_map(|id| self.transactions.get(*id));
        prepared.map(|t| t.prepared_since).min()
    }

    /// Rule D-5: puts a prepared branch back that the log has and no decision for: its formulas, its floors, its places in
    /// queues, what it does to definitions. Comes in the order of the log, between the changes that [`FormulaDatabase::replay`] puts
    /// back, when the storage is there that its definition has created.
    pub fn recover_prepared(
        &mut self,
        global: GlobalId,
        floor: Timestamp,
        changes: Vec<(TableId, Key, Change)>,
        places: Vec<(TableId, Key, ColumnSet)>,
        definition: Option<Definition>,
    ) -> Result<()> {
        self.raise_clock(floor);
        let transaction = self.begin_branch(global.tick, false);
        for (table, key, change) in changes {
            if self.has_table(table) {
                self.recover_change(transaction, table, key, change)
                    .map_err(into_error)?;
            }
        }
        for (table, key, columns) in places {
            if self.has_table(table) {
                self.recover_place(transaction, table, key, columns)
                    .map_err(into_error)?;
            }
        }
        if let Some(t) = self.transactions.get_mut(transaction) {
            (t.floor, t.committing, t.recovered) = (Some(floor), true, true);
            t.prepared_since = self.last_lsn;
        }
        if let Some(definition) = definition {
            self.recover_definition(transaction, definition);
        }
        if is_kept(Rule::D5) {
            self.place_floor(transaction, floor);
        }
        self.branches.insert(global, transaction);
        Ok(())
    }

    /// Puts back a decision that the log has: the branch commits at `cts`, or goes.
    pub fn recover_decision(&mut self, global: GlobalId, cts: Option<Timestamp>) {
        let Some(transaction) = self.branches.remove(&global) else {
            return;
        };
        match cts {
            Some(cts) => {
                self.fold_branch(transaction, cts, RECOVERED_LSN);
                self.committed(transaction, cts, RECOVERED_LSN);
            }
            None => {
                let touched = self.items_of(transaction);
                self.rollback(transaction);
                self.settle_items(&touched);
            }
        }
    }

    /// The smallest place above `floor` that is not below `at_least`.
    ///
    /// Rule T-3: in a grid a step above the floor does not leave its tick, since the next tick may be handed out to somebody who
    /// begins after this was acknowledged.
    pub(crate) fn first_above(&mut self, floor: Timestamp, at_least: Timestamp) -> Outcome<Timestamp> {
        if at_least > floor {
            return Ok(at_least);
        }
        let next = floor.next();
        if self.in_grid && next.is_tick() {
            return Err(self.refused(
                "too many transactions have committed just above one reader",
                String::new(),
            ));
        }
        Ok(next)
    }

    /// As [`FormulaDatabase::first_above`], for who commits here alone.
    ///
    /// Rule T-4: a step that a prepared branch of this partition may come to have is left to it.
    pub(crate) fn first_free_above(&mut self, floor: Timestamp, at_least: Timestamp) -> Outcome<Timestamp> {
        let mut place = self.first_above(floor, at_least)?;
        while self.is_promised(place) {
            place = self.first_above(place, at_least)?;
        }
        Ok(place)
    }

    fn is_promised(&self, place: Timestamp) -> bool {
        let owner = place.owner().filter(|_| !self.branches.is_empty() && is_kept(Rule::T4));
        owner.is_some_and(|owner| self.branches.keys().any(|prepared| prepared.coordinator == owner))
    }

    pub(crate) fn refused(&mut self, message: &str, item: String) -> Stop {
        self.statistics.aborted(AbortReason::Deadlock);
        Stop::Abort(Error::serialization(message, item))
    }

    /// Rule P-1: above the read marks and the last commit of all that is written; the begin tick itself where nobody else has
    /// read there.
    fn floor(&mut self, transaction: TransactionId) -> Outcome<Timestamp> {
        let (ts, above) = self.must_stand_above(transaction)?;
        let unmoved = self.reads_where_it_began(transaction);
        // Only this transaction reads at its own tick: a mark there is its own.
        if (unmoved && above <= ts) || !is_kept(Rule::P1) {
            return Ok(ts);
        }
        self.first_above(above, ts)
    }

    fn check_formulas(&mut self, transaction: TransactionId) -> Outcome<()> {
        for (table, slot) in self.items_of(transaction) {
            let held = table_of(&mut self.tables, table)?;
            let (item, tail) = (held.item(slot), &held.tail);
            let Some(intent) = item.intent(transaction) else {
                continue;
            };
            crate::item::check_changes(&item.row, &intent.changes, tail)?;
            if item.has_undecided(transaction) && !item.survives(transaction, &intent.changes, tail) {
                return Err(self.refused(
                    "a formula could fail behind another that is not decided",
                    format!("storage {table}"),
                ));
            }
        }
        Ok(())
    }

    /// Whether everything that the branch has read stays as it is until it ends, wherever it comes to stand: what it has read
    /// to write, since others queue behind it, and the existence of rows that it writes. And whether it holds now.
    fn is_held_in_place(&mut self, transaction: TransactionId) -> Outcome<bool> {
        let Some(t) = self.transactions.get(transaction) else {
            return Ok(false);
        };
        let is_changed = self
            .replaced_read(t, Timestamp::MAX)
            .or_else(|| self.redefined_read(t, Timestamp::MAX));
        if !t.ranges.is_empty() || self.has_withdrawn(t) || is_changed.is_some() {
            return Ok(false);
        }
        for read in &t.reads {
            let held = table_of(&mut self.tables, read.table)?;
            if read.through.is_some() || !holds_read(held, read, transaction) {
                return Ok(false);
            }
        }
        let newest = self.last_cts.max(self.clock);
        self.surely_holds(transaction, newest)
    }

    /// Whether claims are left of formulas that were undone (rule E-4): the log has not these, so that a restart forgets them.
    fn has_withdrawn(&self, t: &Transaction) -> bool {
        t.queued.iter().any(|(table, slot)| {
            let held = self.tables.get(*table);
            let intent = held.and_then(|held| held.item(*slot).intent(t.id));
            intent.is_some_and(|intent| !intent.withdrawn.is_empty())
        })
    }

    fn append_prepare(
        &mut self,
        transaction: TransactionId,
        global: GlobalId,
        floor: Timestamp,
        log: &mut dyn CommitLog,
    ) -> Outcome<Lsn> {
        let Some(t) = self.transactions.get(transaction) else {
            unreachable!("checked by the caller")
        };
        let places = self.queued_places(t);
        let record = PrepareRecord {
            transaction: global,
            floor,
            changes: &AllChanges {
                tables: &self.tables,
                transaction: t,
            },
            places: &places,
            attachment: t.definition.as_ref().and_then(|own| own.attachment.as_deref()),
        };
        Ok(log.append_prepare(&record)?)
    }

    /// Each item that the transaction writes, once.
    fn items_of(&self, transaction: TransactionId) -> Vec<(TableId, Slot)> {
        let writes = self.transactions.get(transaction).map_or(&[][..], |t| &t.writes);
        let firsts = writes.iter().filter(|write| write.first);
        firsts.map(|write| (write.table, write.slot)).collect()
    }

    fn place_floor(&mut self, transaction: TransactionId, floor: Timestamp) {
        self.date_created(transaction, floor);
        for (table, slot) in self.items_of(transaction) {
            if let Ok(held) = table_of(&mut self.tables, table) {
                held.item_mut(slot).intent_or_new(transaction).floor = Some(floor);
            }
        }
    }

    fn fold_branch(&mut self, transaction: TransactionId, cts: Timestamp, lsn: Lsn) {
        let touched = self.items_of(transaction);
        // Its own snapshot reads nothing any more.
        let own = self
            .transactions
            .get(transaction)
            .filter(|t| !t.gave_up_snapshot)
            .map(|t| t.ts);
        own.iter().for_each(|ts| self.live.remove(*ts));
        for (table, slot) in &touched {
            let Ok(held) = table_of(&mut self.tables, *table) else {
                continue;
            };
            let item = held.item_mut(*slot);
            let intent = item.remove_intent(transaction).filter(|_| item.cts < cts);
            self.statistics.fold_failures += match intent {
                Some(intent) => {
                    let kept = intent.into_retained(cts, lsn);
                    held.fold_or_retain(*slot, kept, &self.live, &mut self.memory_bytes)
                }
                None => held.fold_settled(*slot, &self.live, &mut self.memory_bytes),
            };
        }
        own.iter().for_each(|ts| self.live.insert(*ts));
        self.keep_log_of_retained(transaction, cts, &touched);
    }

    /// Rule D-5: the changes of a branch that has committed above the floor of another are in the record of its preparation, which
    /// the log keeps until they are folded: as long as whoever holds them up is undecided.
    fn keep_log_of_retained(&mut self, transaction: TransactionId, cts: Timestamp, touched: &[(TableId, Slot)]) {
        let Some(since) = self.transactions.get(transaction).map(|t| t.prepared_since) else {
            return;
        };
        for (table, slot) in touched {
            let Ok(held) = table_of(&mut self.tables, *table) else {
                continue;
            };
            let item = held.item(*slot);
            if item.above().iter().all(|kept| kept.cts != cts) {
                continue;
            }
            let in_the_way = item
                .intents()
                .iter()
                .filter(|intent| intent.floor.is_some_and(|floor| floor <= cts));
            for intent in in_the_way {
                if let Some(other) = self.transactions.get_mut(intent.transaction) {
                    other.prepared_since = other.prepared_since.min(since);
                }
            }
        }
    }

    fn settle_items(&mut self, touched: &[(TableId, Slot)]) {
        for (table, slot) in touched {
            if let Ok(held) = table_of(&mut self.tables, *table) {
                let failures = held.fold_settled(*slot, &self.live, &mut self.memory_bytes);
                self.statistics.fold_failures += failures;
            }
        }
    }

    fn recover_change(&mut self, transaction: TransactionId, table: TableId, key: Key, change: Change) -> Outcome<()> {
        let slot = self.slot(table, key.as_bytes())?;
        let held = table_of(&mut self.tables, table)?;
        let bytes = crate::memory::pending_cost(&key, &change, held.item(slot).row.as_ref());
        let intent = held.item_mut(slot).intent_or_new(transaction);
        let first = intent.changes.is_empty();
        intent.written = intent.written.union(crate::write::columns_of(&change));
        intent.changes.push(change);
        // The bounds that its additions were let through under are not in the log: nobody may touch their columns (rule E-4).
        intent.claimed_under = RowBounds::Unknown;
        if let Some(t) = self.transactions.get_mut(transaction) {
            if first {
                note_read(
                    t,
                    table,
                    slot,
                    held.item_mut(slot),
                    key.as_bytes(),
                    ColumnSet::EXISTENCE,
                );
            }
            t.writes.push(WriteRecord {
                table,
                slot,
                key,
                first,
                bytes,
            });
            // As before the crash: a schema change waits for it.
            if !t.announced.contains(&table) {
                t.announced.push(table);
            }
            t.pending_bytes += bytes;
            self.pending_bytes += bytes;
        }
        Ok(())
    }

    fn recover_place(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: Key,
        columns: ColumnSet,
    ) -> Outcome<()> {
        let slot = self.slot(table, key.as_bytes())?;
        let held = table_of(&mut self.tables, table)?;
        held.item_mut(slot).intent_or_new(transaction).ordered = columns;
        if let Some(t) = self.transactions.get_mut(transaction) {
            t.queued.push((table, slot));
            note_read(t, table, slot, held.item_mut(slot), key.as_bytes(), columns);
        }
        Ok(())
    }
}

fn into_error(stop: Stop) -> Error {
    match stop {
        Stop::Fail(error) | Stop::Abort(error) => error,
        Stop::Wait(wait) => Error::internal(format!(
            "recovery would wait at {}",
            item_name(wait.table, &Key::default())
        )),
    }
}

/// All changes of a branch, those of one item together.
struct AllChanges<'a> {
    tables: &'a Tables,
    transaction: &'a Transaction,
}

impl Changes for AllChanges<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(TableId, &Key, &Change) -> ControlFlow<()>) {
        for write in self.transaction.writes.iter().filter(|write| write.first) {
            let table = self.tables.get(write.table);
            let Some(intent) = table.and_then(|table| table.item(write.slot).intent(self.transaction.id)) else {
                continue;
            };
            for change in &intent.changes {
                if visitor(write.table, &write.key, change).is_break() {
                    return;
                }
            }
        }
    }
}
