//! The formula database: the tables' items, the live transactions and the counter that orders them.

use crate::api::{BeginOptions, Change, CommitPolicy, Outcome, Policies, RowSource, Savepoint, Stop, Wait, WaitReason};
use crate::contention::{Contention, Place};
use crate::definition::EndedDefinition;
use crate::gone::{Awaited, Tombstones};
use crate::item::Item;
use crate::live::LiveSnapshots;
use crate::owners::Lost;
use crate::read::note_read;
use crate::redefined::Redefinitions;
use crate::rules::{Rule, is_kept};
use crate::statistics::{AbortReason, Statistics};
use crate::table::{Slot, Table};
use crate::tables::Tables;
use crate::transaction::{Transaction, Transactions};
use rubato_base::{ColumnSet, Error, GlobalId, Key, Lsn, SessionId, SqlState, TableId, Timestamp, TransactionId};
use std::collections::{BTreeMap, BTreeSet};

/// All formulas and rows of one partition that are in memory, and the transactions that work on them.
///
/// Method families: `begin`, `commit`, `rollback` and savepoints end or start work; `read`, `scan` and `read_for_update` read;
/// `insert`, `update_blind`, `update` and `delete` place formulas; `take_woken` and `take_woken_branches` say who may go on; `take_dirty` and `evict`
/// serve the store behind.
///
/// Invariants:
/// - The commit timestamps of one item only grow, and a commit timestamp is above every read mark of what it changes.
/// - Every live transaction's timestamp is in `live`; an item keeps undo for each of them that needs it.
/// - An intent on an item belongs to a live transaction.
pub struct FormulaDatabase {
    pub(crate) source: Box<dyn RowSource>,
    pub(crate) tables: Tables,
    pub(crate) transactions: Transactions,
    pub(crate) live: LiveSnapshots,
    /// The largest timestamp handed out.
    pub(crate) clock: Timestamp,
    /// The largest commit timestamp: nothing changed above it.
    pub(crate) last_cts: Timestamp,
    pub(crate) policies: Policies,
    pub(crate) woken: Vec<(TransactionId, SessionId)>,
    /// What may leave the ordered keys (see `gone.rs`).
    pub(crate) tombstones: Tombstones,
    /// What the first of them waits for, if that is known.
    pub(crate) awaited_gone: Option<Awaited>,
    pub(crate) memory_bytes: usize,
    /// What the pending changes of all transactions cost.
    pub(crate) pending_bytes: usize,
    pub(crate) memory_bytes_max: usize,
    pub(crate) statistics: Statistics,
    /// Waits and aborts by item.
    pub(crate) contention: Contention,
    /// The table at which the evicting hand goes on.
    pub(crate) hand_table: usize,
    /// Items that the hand has looked at since one could leave.
    pub(crate) fruitless_steps: usize,
    /// Scratch of the commit path.
    pub(crate) scratch: crate::commit::Scratch,
    /// Prepared branches of transactions over several partitions whose outcome is not known yet.
    pub(crate) branches: BTreeMap<GlobalId, TransactionId>,
    /// One partition of a grid: transactions begin at the grid's ticks, and may be over several.
    pub(crate) in_grid: bool,
    /// Who, over several partitions, has come to wait since their coordinators were told, and whether anew (rule Q-5).
    pub(crate) spread_waits: BTreeMap<TransactionId, bool>,
    /// For which sessions others wait beside rows (see `circles.rs`).
    pub(crate) waits_beside: BTreeMap<SessionId, Vec<SessionId>>,
    /// Until when transactions began that may know a table as it was before its definition changed.
    pub(crate) definitions_changed: BTreeMap<TableId, Timestamp>,
    /// Tables that are read under other names since, or with other columns.
    pub(crate) redefined: Redefinitions,
    /// Storage that is there for those who began before, and no table's any more.
    pub(crate) replaced: BTreeMap<TableId, Timestamp>,
    /// No storage is newer than this.
    pub(crate) last_made_at: Timestamp,
    /// Tables that one transaction has to itself for writing.
    pub(crate) closed: BTreeMap<TableId, TransactionId>,
    /// Storage that was dropped before it was anybody's but its creator's: the store may have rows of it, until it drops them.
    pub(crate) laid_in_vain: BTreeSet<TableId>,
    /// Definitions of branches that have ended, and were not taken.
    pub(crate) ended_definitions: Vec<EndedDefinition>,
    /// The end of the last record that is known to be in the log.
    pub(crate) last_lsn: Lsn,
    /// The end of the record by which definitions were changed last.
    pub(crate) definitions_lsn: Lsn,
    /// Branches whose wait is over.
    pub(crate) woken_branches: Vec<TransactionId>,
    /// In a grid: transactions of sessions that must be rolled back, and branches.
    pub(crate) doomed: Vec<TransactionId>,
    pub(crate) doomed_branches: Vec<TransactionId>,
    /// Transactions of sessions that were rolled back and do not know it yet.
    pub(crate) lost: BTreeMap<TransactionId, Lost>,
}

impl FormulaDatabase {
    /// An empty database over `source`, whose next transaction begins above `clock`.
    pub fn new(source: Box<dyn RowSource>, policies: Policies, clock: Timestamp) -> FormulaDatabase {
        FormulaDatabase {
            source,
            tables: Tables::default(),
            transactions: Transactions::default(),
            live: LiveSnapshots::default(),
            clock,
            last_cts: clock,
            policies,
            woken: Vec::new(),
            tombstones: Tombstones::new(),
            awaited_gone: None,
            memory_bytes: 0,
            pending_bytes: 0,
            memory_bytes_max: usize::MAX,
            statistics: Statistics::default(),
            contention: Contention::default(),
            hand_table: 0,
            fruitless_steps: 0,
            scratch: crate::commit::Scratch::default(),
            branches: BTreeMap::new(),
            in_grid: false,
            spread_waits: BTreeMap::new(),
            waits_beside: BTreeMap::new(),
            definitions_changed: BTreeMap::new(),
            redefined: Redefinitions::default(),
            replaced: BTreeMap::new(),
            last_made_at: Timestamp::ZERO,
            closed: BTreeMap::new(),
            laid_in_vain: BTreeSet::new(),
            ended_definitions: Vec::new(),
            last_lsn: Lsn(0),
            definitions_lsn: Lsn(0),
            woken_branches: Vec::new(),
            doomed: Vec::new(),
            doomed_branches: Vec::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Declares new, empty storage: all its rows are in memory until some are evicted.
    pub fn create_table(&mut self, table: TableId) {
        self.declare(table, true);
    }

    /// Declares storage whose rows are in the store.
    pub fn open_table(&mut self, table: TableId) {
        if !self.has_table(table) {
            self.declare(table, false);
            if let Some(opened) = self.tables.get_mut(table) {
                opened.note_stored(table, &*self.source);
            }
        }
    }

    fn declare(&mut self, table: TableId, complete: bool) {
        if !self.has_table(table) {
            self.tables.insert(table, Table::new(complete, self.clock));
        }
    }

    /// What the rows of a table in memory take with their keys, about: a sample of them is looked at. 0 if there is no such storage.
    pub fn table_bytes(&self, table: TableId) -> usize {
        let held = self.tables.get(table);
        held.map_or(0, |table| table.content_bytes())
    }

    /// How many rows of a table are in memory, deleted ones that are still kept included, and whether these are all that it has.
    pub fn rows_in_memory(&self, table: TableId) -> (usize, bool) {
        let held = self.tables.get(table);
        held.map_or((0, true), |held| (held.len(), held.complete))
    }

    /// Whether the storage is declared.
    pub fn has_table(&self, table: TableId) -> bool {
        self.tables.get(table).is_some()
    }

    /// Forgets a table's items. A live transaction that comes back to it is told that it is gone.
    pub fn drop_table(&mut self, table: TableId) {
        self.replaced.remove(&table);
        self.redefined.forget(table);
        if let Some(gone) = self.tables.remove(table) {
            self.memory_bytes = self.memory_bytes.saturating_sub(gone.bytes());
            if gone.is_laid_down() {
                self.laid_in_vain.insert(table);
            }
        }
    }

    /// Begins a transaction. Its snapshot is everything that has committed so far (promise 1: everything acknowledged is).
    ///
    /// Rule T-1: it begins on a whole tick above every timestamp handed out.
    pub fn begin(&mut self, options: BeginOptions) -> TransactionId {
        debug_assert!(
            !self.in_grid,
            "in a grid a transaction begins at a tick of the timestamp stage"
        );
        self.clock = self.clock.next_tick();
        self.live.insert(self.clock);
        self.transactions.begin(options, self.clock, self.policies.commit)
    }

    /// The transaction's snapshot.
    pub fn snapshot(&self, transaction: TransactionId) -> Option<Timestamp> {
        self.transactions.get(transaction).map(|t| t.ts)
    }

    /// The largest timestamp handed out.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Moves the counter up, after recovery.
    pub fn raise_clock(&mut self, clock: Timestamp) {
        self.clock = self.clock.max(clock);
        self.last_cts = self.last_cts.max(clock);
    }

    /// Chooses the commit policy of one transaction: the owner of a bounded pessimistic wait goes on as optimistic.
    pub fn set_commit_policy(&mut self, transaction: TransactionId, policy: CommitPolicy) {
        if let Some(transaction) = self.transactions.get_mut(transaction) {
            transaction.policy = policy;
        }
    }

    /// How many transactions are live.
    pub fn live_transactions(&self) -> usize {
        self.transactions.len()
    }

    /// Where the live transactions of sessions began, in no particular order: each may still become one of the grid.
    pub fn begun_by_sessions(&self) -> impl Iterator<Item = Timestamp> {
        self.transactions.iter().filter(|t| !t.is_branch).map(|t| t.begun)
    }

    /// The tick at which the transaction began, and whether it only reads. `None` if it has ended.
    pub fn begun(&self, transaction: TransactionId) -> Option<(Timestamp, bool)> {
        self.transactions.get(transaction).map(|t| (t.begun, t.read_only))
    }

    /// Whether the transaction has placed a change.
    pub fn has_written(&self, transaction: TransactionId) -> bool {
        self.transactions.get(transaction).is_some_and(|t| !t.writes.is_empty())
    }

    /// The storage that the transaction has pending changes in, each once, in order.
    pub fn written_tables(&self, transaction: TransactionId) -> Vec<TableId> {
        let mut tables: Vec<TableId> = self
            .transactions
            .get(transaction)
            .map_or(Vec::new(), |t| t.writes.iter().map(|write| write.table).collect());
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// Behind the last log record that the transaction's reads so far depend on (promise 4).
    pub fn depends_on(&self, transaction: TransactionId) -> Lsn {
        let own = self.transactions.get(transaction);
        own.map_or(Lsn(0), |t| self.depends_of(t))
    }

    /// Counters since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// A point to which [`FormulaDatabase::rollback_to`] can undo.
    pub fn savepoint(&self, transaction: TransactionId) -> Savepoint {
        Savepoint {
            writes: self.transactions.get(transaction).map_or(0, |t| t.writes.len()),
        }
    }

    /// Undoes the changes since `savepoint`, whose success was told to the client. What was read stays read, places in queues are
    /// kept, and so are the claims of escrow (rule E-4).
    pub fn rollback_to(&mut self, transaction: TransactionId, savepoint: Savepoint) {
        self.undo(transaction, savepoint, true);
    }

    /// Undoes the changes of a statement that failed or waits, and has told the client nothing yet. What was read stays read, and
    /// places in queues are kept.
    pub fn undo_statement(&mut self, transaction: TransactionId, savepoint: Savepoint) {
        self.undo(transaction, savepoint, false);
    }

    fn undo(&mut self, transaction: TransactionId, savepoint: Savepoint, was_told: bool) {
        let Some(t) = self.transactions.get_mut(transaction) else {
            return;
        };
        while t.writes.len() > savepoint.writes {
            let Some(write) = t.writes.pop() else { break };
            t.pending_bytes = t.pending_bytes.saturating_sub(write.bytes);
            self.pending_bytes = self.pending_bytes.saturating_sub(write.bytes);
            let Some(table) = self.tables.get_mut(write.table) else {
                continue;
            };
            let item = table.item_mut(write.slot);
            if was_told && last_is_insert(item, transaction) {
                // The place on the key protected that it was free, which the client was told. Without the place that is a read.
                note_read(
                    t,
                    write.table,
                    write.slot,
                    item,
                    write.key.as_bytes(),
                    ColumnSet::EXISTENCE,
                );
            }
            if undo_write(item, transaction, was_told) {
                // Rule E-4: that it kept the bounds was told of the row as it was then, or later.
                t.after_cts = t.after_cts.max(item.newest_cts());
                // Nothing but the claim may be left of the intent: it goes with the transaction.
                t.queued.push((write.table, write.slot));
            }
        }
    }

    /// The transaction that it waits for, if it waits.
    pub fn waits_for(&self, transaction: TransactionId) -> Option<TransactionId> {
        self.transactions.get(transaction)?.waiting_for
    }

    /// The transactions that wait for this one are to be rolled back for that reason: those of sessions, and branches.
    pub(crate) fn end_waits_for(&mut self, owner: TransactionId, error: &Error) {
        let waits = |t: &&Transaction| t.waiting_for == Some(owner);
        let waiting: Vec<TransactionId> = self.transactions.iter().filter(waits).map(|t| t.id).collect();
        for transaction in waiting {
            self.doom(transaction, AbortReason::InDoubt, error.clone());
        }
    }

    /// The transaction gives up its wait: its statement was cancelled.
    pub fn stop_waiting(&mut self, transaction: TransactionId) {
        if let Some(t) = self.transactions.get_mut(transaction) {
            t.waiting_for = None;
        }
    }

    /// Ends a transaction that has read and written nothing as if it had not begun. False if it has, or others know of it.
    pub fn withdraw(&mut self, transaction: TransactionId) -> bool {
        let is_unused = self.transactions.get(transaction).is_some_and(Transaction::is_unused);
        if is_unused {
            self.release(transaction);
        }
        is_unused
    }

    /// Ends the transaction without a trace.
    ///
    /// Rule A-1 (paper rule K1): those that have read through its formulas must be rolled back too.
    pub fn rollback(&mut self, transaction: TransactionId) {
        let Some(t) = self.transactions.get_mut(transaction) else {
            return self.forget_lost(transaction);
        };
        // One that is prepared is its coordinator's, whatever its session says.
        if t.floor.is_some() && self.branches.values().any(|branch| *branch == transaction) {
            return;
        }
        let followers = std::mem::take(&mut t.followers);
        self.statistics.rollbacks += 1;
        for follower in followers.into_iter().filter(|_| is_kept(Rule::A1)) {
            let message = "a transaction whose formula was read through was rolled back";
            let error = Error::serialization(message, format!("transaction {transaction}"));
            self.doom(follower, AbortReason::Cascade, error);
        }
        self.end_definition(transaction, None);
        self.release(transaction);
    }

    /// The transaction must be rolled back; it is told at its next call, and woken for that.
    pub(crate) fn doom(&mut self, transaction: TransactionId, reason: AbortReason, error: Error) {
        let Some(t) = self.transactions.get_mut(transaction) else {
            return;
        };
        if t.doomed.is_none() {
            t.doomed = Some(error);
            self.statistics.aborted(reason);
            match (self.in_grid, t.is_branch || t.is_adopted) {
                (true, true) => self.doomed_branches.push(transaction),
                (true, false) => self.doomed.push(transaction),
                (false, _) => {}
            }
        }
        if t.waiting_for.take().is_some() {
            self.tell_owner(transaction);
        }
    }

    /// Takes the transaction's intents off all items.
    ///
    /// Rule A-2: who ends wakes those that wait for it.
    pub(crate) fn release(&mut self, transaction: TransactionId) {
        let Some(t) = self.transactions.get_mut(transaction) else {
            return;
        };
        if !t.gave_up_snapshot {
            self.live.remove(t.ts);
        }
        self.pending_bytes = self.pending_bytes.saturating_sub(std::mem::take(&mut t.pending_bytes));
        for write in t.writes.iter().filter(|write| write.first) {
            if let Some(item) = remove_intent(&mut self.tables, write.table, write.slot, transaction)
                && item.row.is_none()
            {
                self.tombstones.push_back((write.table, write.key.clone()));
            }
        }
        for (table, slot) in &t.queued {
            remove_intent(&mut self.tables, *table, *slot, transaction);
        }
        let waiters = std::mem::take(&mut t.waiters);
        self.closed.retain(|_, owner| *owner != transaction);
        for waiter in waiters.into_iter().filter(|_| is_kept(Rule::A2)) {
            self.wake(waiter, transaction);
        }
        self.transactions.end(transaction);
    }

    /// Registers that `transaction` waits for `owner`.
    ///
    /// Rule Q-4: the wait that would close a circle is refused.
    pub(crate) fn wait<T>(
        &mut self,
        transaction: TransactionId,
        owner: TransactionId,
        table: TableId,
        reason: WaitReason,
    ) -> Outcome<T> {
        let key = self.key_between(transaction, owner, table);
        self.wait_at(transaction, owner, (table, key), reason)
    }

    /// The same where the item is known.
    pub(crate) fn wait_at<T>(
        &mut self,
        transaction: TransactionId,
        owner: TransactionId,
        place: Place,
        reason: WaitReason,
    ) -> Outcome<T> {
        let table = place.0;
        let mut next = Some(owner).filter(|_| is_kept(Rule::Q4));
        while let Some(id) = next {
            if id == transaction {
                self.statistics.aborted(AbortReason::Deadlock);
                self.contention.aborted(place, AbortReason::Deadlock);
                return Err(Stop::Abort(Error::serialization(
                    "two transactions would wait for each other for ever",
                    format!("storage {table}, transaction {owner}"),
                )));
            }
            next = self.transactions.get(id).and_then(|t| t.waiting_for);
        }
        let mut is_new = true;
        if self.in_grid {
            self.refuse_wait_of_prepared(transaction, owner)?;
            is_new = !self.stood_behind(transaction, owner, (&place, reason));
        }
        if let Some(owner) = self.transactions.get_mut(owner) {
            owner.waiters.push(transaction);
        }
        if let Some(t) = self.transactions.get_mut(transaction) {
            t.waiting_for = Some(owner);
            t.waits_at = Some((place.clone(), reason));
        }
        if self.in_grid {
            self.note_spread_wait(transaction, is_new);
        }
        self.statistics.waited(reason);
        self.contention.waited(place, reason);
        Err(Stop::Wait(Wait { owner, table, reason }))
    }

    /// The transaction, if it may go on.
    pub(crate) fn active(&mut self, transaction: TransactionId) -> Outcome<&mut Transaction> {
        let Some(t) = self.transactions.get_mut(transaction) else {
            // Rule Q-8: it may have been rolled back without its session.
            return Err(match self.lost.get(&transaction) {
                Some(lost) => Stop::Abort(lost.error.clone()),
                None => Stop::Fail(Error::internal("the transaction has ended")),
            });
        };
        match &t.doomed {
            Some(error) => Err(Stop::Abort(error.clone())),
            None => Ok(t),
        }
    }

    pub(crate) fn table_mut(&mut self, table: TableId) -> Outcome<&mut Table> {
        table_of(&mut self.tables, table)
    }

    /// The slot of `key`, loaded from the store if it must be.
    pub(crate) fn slot(&mut self, table: TableId, key: &[u8]) -> Outcome<Slot> {
        let held = table_of(&mut self.tables, table)?;
        Ok(held.find_or_load(table, key, &*self.source, &mut self.memory_bytes)?)
    }
}

/// The storage, or 40001: it was there when the statement was planned, so a schema change has committed since.
pub(crate) fn table_of(tables: &mut Tables, table: TableId) -> Outcome<&mut Table> {
    tables.get_mut(table).ok_or_else(|| {
        Stop::Abort(Error::new(
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access: the table was changed or dropped by another transaction",
        ))
    })
}

/// Gives the item back that the intent was taken off.
fn remove_intent(tables: &mut Tables, table: TableId, slot: Slot, transaction: TransactionId) -> Option<&mut Item> {
    let table = tables.get_mut(table)?;
    let item = table.peek_mut(slot)?;
    item.remove_intent(transaction);
    Some(item)
}

fn last_is_insert(item: &Item, transaction: TransactionId) -> bool {
    let intent = item.intent(transaction);
    matches!(intent.and_then(|intent| intent.changes.last()), Some(Change::Insert(_)))
}

/// Undoes the last change; true if a claim is left of it.
fn undo_write(item: &mut Item, transaction: TransactionId, was_told: bool) -> bool {
    let intent = item.intent_or_new(transaction);
    let undone = intent.changes.pop();
    let claims = was_told && !intent.claimed_under.is_unbounded();
    if let (true, Some(Change::Update(formula))) = (claims, undone) {
        intent.withdrawn.push(formula);
    }
    intent.written = intent.changes.iter().fold(ColumnSet::EMPTY, |set, change| {
        set.union(crate::write::columns_of(change))
    });
    let withdrawn = !intent.withdrawn.is_empty();
    if intent.changes.is_empty() && intent.ordered.is_empty() && !withdrawn {
        item.remove_intent(transaction);
    }
    withdrawn
}

/// How a message names an item. Keys are shown as bytes: only the catalog knows their types.
pub(crate) fn item_name(table: TableId, key: &Key) -> String {
    format!("storage {table}, key {key:?}")
}
