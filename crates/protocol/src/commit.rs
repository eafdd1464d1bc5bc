//! Commit: a formula takes its place when it commits (protocol.md section 4).

use crate::api::{Change, Changes, CommitLog, CommitPolicy, CommitRecord, Committed, Outcome, Stop, WaitReason};
use crate::database::{FormulaDatabase, item_name, table_of};
use crate::item::{Effect, Intent};
use crate::read::raise_marks;
use crate::rules::{Rule, is_kept};
use crate::statistics::AbortReason;
use crate::table::{contains, row_bytes};
use crate::tables::Tables;
use crate::tail::Tail;
use crate::transaction::{Transaction, WriteRecord};
use rubato_base::{ColumnSet, Key, Lsn, Result, Row, TableId, Timestamp, TransactionId};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Lists that a commit fills anew each time.
#[derive(Default)]
pub(crate) struct Scratch {
    /// What was evaluated, in the order of the writes that need it (see [`is_plain`]).
    computed: Vec<Computed>,
}

/// What an intent amounts to: the change for the log, if that is not the intent's only one, and the effect, if there is any.
struct Computed {
    change: Option<Change>,
    effect: Option<Effect>,
    /// It is kept as it is, above a prepared branch (see `undecided.rs`).
    retained: bool,
}

/// The changes of a transaction that commits, where they stand: in the items' intents.
struct Pending<'a> {
    tables: &'a Tables,
    transaction: &'a Transaction,
    computed: &'a [Computed],
}

impl Changes for Pending<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(TableId, &Key, &Change) -> ControlFlow<()>) {
        let mut computed = self.computed.iter();
        for write in self.transaction.writes.iter().filter(|write| write.first) {
            let Some(table) = self.tables.get(write.table) else {
                continue;
            };
            let Some(intent) = table.item(write.slot).intent(self.transaction.id) else {
                continue;
            };
            let evaluated = if is_plain(intent) { None } else { computed.next() };
            if evaluated.is_some_and(|computed| computed.retained) {
                for change in &intent.changes {
                    if visitor(write.table, &write.key, change).is_break() {
                        return;
                    }
                }
                continue;
            }
            let change = match evaluated {
                None => intent.changes.first(),
                Some(Computed { effect: None, .. }) => None,
                Some(Computed {
                    change: Some(change), ..
                }) => Some(change),
                Some(Computed { change: None, .. }) => intent.changes.first(),
            };
            if let Some(change) = change
                && visitor(write.table, &write.key, change).is_break()
            {
                return;
            }
        }
    }
}

/// Whether the intent is one change that needs no evaluation: its row is moved, not copied.
fn is_plain(intent: &Intent) -> bool {
    matches!(
        &intent.changes[..],
        [Change::Insert(_) | Change::Replace(_) | Change::Delete]
    )
}

/// Lists larger than this are given back after a large commit.
const SCRATCH_CAPACITY_MAX: usize = 4096;

impl FormulaDatabase {
    /// Commits: waits for whom it must follow, takes the smallest place above everything it has to stand above, checks that
    /// its reads hold there, evaluates its formulas, appends them to `log` and makes them visible.
    ///
    /// Nothing may be acknowledged before the log is forced up to `durable_at`. After [`Stop::Abort`] the transaction must be
    /// rolled back; after [`Stop::Wait`] the commit is called again when the transaction is woken.
    pub fn commit(
        &mut self,
        transaction: TransactionId,
        attachment: Option<&[u8]>,
        log: &mut dyn CommitLog,
    ) -> Outcome<Committed> {
        self.active(transaction)?;
        if let Some((owner, table, reason)) = self.must_follow(transaction)? {
            return self.wait(transaction, owner, table, reason);
        }
        let Some(t) = self.transactions.get(transaction) else {
            unreachable!("checked above")
        };
        let (ts, depends, read_through) = (t.ts, self.depends_of(t), !t.after.is_empty());
        let nothing_to_place = t.writes.is_empty() && t.after.is_empty() && t.after_cts <= ts;
        if nothing_to_place && attachment.is_none() {
            self.statistics.read_only_commits += 1;
            self.release(transaction);
            return Ok(Committed {
                cts: ts,
                durable_at: depends,
            });
        }
        let mut cts = self.place_above(transaction)?;
        if cts > ts || read_through {
            // Where its reads do not hold at the smallest place, they may again hold at the newest.
            // Rule C-7: so the newest place is tried.
            if !self.holds(transaction, cts)? {
                cts = self.first_free_above(self.last_cts, cts)?;
                self.validate(transaction, cts)?;
            }
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let evaluated = self.evaluate(transaction, cts, &mut scratch);
        let appended = evaluated.and_then(|()| {
            let Some(transaction) = self.transactions.get(transaction) else {
                unreachable!("checked above")
            };
            let pending = Pending {
                tables: &self.tables,
                transaction,
                computed: &scratch.computed,
            };
            Ok(log.append(&CommitRecord {
                cts,
                changes: &pending,
                attachment,
            })?)
        });
        let outcome = appended.map(|lsn| {
            self.install(transaction, cts, lsn, &mut scratch);
            Committed {
                cts,
                durable_at: lsn.max(depends),
            }
        });
        scratch.computed.clear();
        if scratch.computed.capacity() <= SCRATCH_CAPACITY_MAX {
            self.scratch = scratch;
        }
        outcome
    }

    /// The first transaction that must end before this one can commit.
    ///
    /// Rule C-1: those whose formulas it has read through. Rule C-2: read-to-write places before its formulas, on their columns.
    /// Rule C-6: under the pessimistic policy, earlier readers of what it writes.
    pub(crate) fn must_follow(
        &mut self,
        transaction: TransactionId,
    ) -> Outcome<Option<(TransactionId, TableId, WaitReason)>> {
        let Some(t) = self.transactions.get(transaction) else {
            return Ok(None);
        };
        let mut after = t.after.iter().filter(|_| is_kept(Rule::C1));
        if let Some(owner) = after.find(|owner| self.transactions.is_live(**owner)) {
            return Ok(Some((*owner, TableId(0), WaitReason::After)));
        }
        for write in t.writes.iter().filter(|write| write.first) {
            let item = table_of(&mut self.tables, write.table)?.item(write.slot);
            let intents = item.intents();
            if intents.len() <= 1 {
                continue;
            }
            let written = item
                .intent(transaction)
                .map_or(ColumnSet::EMPTY, |intent| intent.written);
            let mut before = intents.iter().take_while(|intent| intent.transaction != transaction);
            // One who has not read yet is overtaken: it will read what this one has written.
            if let Some(intent) = before.find(|intent| intent.read().intersects(written) && is_kept(Rule::C2)) {
                return Ok(Some((intent.transaction, write.table, WaitReason::Ordered)));
            }
            // Whether the row exists is settled for a prepared branch: its formulas are counted as applied.
            let mut prepared = intents.iter().filter(|intent| intent.floor.is_some());
            if written.contains_existence()
                && let Some(intent) = prepared.find(|intent| intent.transaction != transaction)
            {
                return Ok(Some((intent.transaction, write.table, WaitReason::Prepared)));
            }
        }
        if t.policy == CommitPolicy::Pessimistic {
            return Ok(self
                .earlier_reader(t)
                .map(|(reader, table)| (reader, table, WaitReason::Reader)));
        }
        Ok(None)
    }

    /// Paper rule P1: a live transaction that has read what `t` writes, before it.
    fn earlier_reader(&self, t: &Transaction) -> Option<(TransactionId, TableId)> {
        // In a grid nobody waits for a younger one, and a reader is not rolled back for a writer.
        let in_the_way = |other: &&Transaction| other.id != t.id && (!self.in_grid || other.begun < t.begun);
        let readers = self.transactions.iter().filter(in_the_way);
        readers
            .flat_map(|reader| t.writes.iter().map(move |write| (reader, write)))
            .find_map(|(reader, write)| {
                let table = self.tables.get(write.table)?;
                let written = table.item(write.slot).intent(t.id)?.written;
                reader_of(reader, write, written).then_some((reader.id, write.table))
            })
    }

    /// Just above everything that the transaction has to stand above.
    fn place_above(&mut self, transaction: TransactionId) -> Outcome<Timestamp> {
        let (ts, floor) = self.must_stand_above(transaction)?;
        self.first_free_above(floor, ts)
    }

    /// The snapshot, and the largest timestamp that the place has to be above: the place of every transaction that this one
    /// follows, and for every item written its low-water mark and
    ///
    /// Rule C-3: the read marks of what is written, Rule C-4: the last committed formula, Rule C-5: for an insert or delete
    /// the marks of the ranges that hold the key.
    pub(crate) fn must_stand_above(&mut self, transaction: TransactionId) -> Outcome<(Timestamp, Timestamp)> {
        let Some(t) = self.transactions.get(transaction) else {
            unreachable!("checked by the caller")
        };
        let mut floor = t.after_cts.max(self.above_as_definition(t));
        for write in t.writes.iter().filter(|write| write.first) {
            let held = table_of(&mut self.tables, write.table)?;
            let item = held.item(write.slot);
            let written = item
                .intent(transaction)
                .map_or(ColumnSet::EMPTY, |intent| intent.written);
            floor = floor.max(held.low_water);
            if is_kept(Rule::C3) {
                floor = floor.max(item.marks.floor(written)).max(held.all_read.floor(written));
            }
            if is_kept(Rule::C4) {
                floor = floor.max(item.newest_cts());
            }
            if written.contains_existence() && is_kept(Rule::C5) {
                floor = floor.max(held.range_floor(write.key.as_bytes()));
            }
        }
        Ok((t.ts, floor))
    }

    /// Evaluates every changed item at its new place: what goes to the log, and what becomes of the row.
    ///
    /// Rule A-3: a formula that fails here fails before anything was acknowledged (protocol.md section 2, F).
    fn evaluate(&mut self, transaction: TransactionId, cts: Timestamp, scratch: &mut Scratch) -> Outcome<()> {
        let Some(t) = self.transactions.get(transaction) else {
            unreachable!("checked by the caller")
        };
        for write in t.writes.iter().filter(|write| write.first) {
            let held = table_of(&mut self.tables, write.table)?;
            let (item, tail) = (held.item(write.slot), &held.tail);
            let Some(intent) = item.intent(transaction) else {
                continue;
            };
            if is_plain(intent) {
                continue;
            }
            if !self.branches.is_empty() && item.must_retain(cts) {
                if !item.survives(transaction, &intent.changes, tail)
                    && let Some(owner) = item.unsettled(transaction, ColumnSet::ALL, cts)
                {
                    return self.wait(transaction, owner, write.table, WaitReason::Prepared);
                }
                scratch.computed.push(Computed {
                    change: None,
                    effect: None,
                    retained: true,
                });
                continue;
            }
            match evaluate_intent(tail.whole_of(&item.row), intent, tail) {
                Ok(computed) => scratch.computed.push(computed),
                Err(error) => {
                    self.statistics.aborted(AbortReason::FormulaFailed);
                    let place = (write.table, Some(write.key.clone()));
                    self.contention.aborted(place, AbortReason::FormulaFailed);
                    let context = format!("formula on {}", item_name(write.table, &write.key));
                    return Err(Stop::Fail(error.with_context(context)));
                }
            }
        }
        Ok(())
    }

    fn install(&mut self, transaction: TransactionId, cts: Timestamp, lsn: Lsn, scratch: &mut Scratch) {
        let Some(t) = self.transactions.get_mut(transaction) else {
            return;
        };
        // Rule V-4: what it has read was read at its place.
        if cts > t.ts && is_kept(Rule::V4) {
            raise_marks(&mut self.tables, t, cts);
        }
        self.live.remove(t.ts);
        let mut computed = scratch.computed.drain(..);
        for write in t.writes.iter().filter(|write| write.first) {
            let Ok(held) = table_of(&mut self.tables, write.table) else {
                continue;
            };
            let (item, tail) = held.item_and_tail(write.slot);
            let Some(mut intent) = item.remove_intent(transaction) else {
                continue;
            };
            let effect = if is_plain(&intent) {
                match intent.changes.pop() {
                    Some(Change::Insert(row) | Change::Replace(row)) => Some(Effect::Row(Some(row))),
                    _ => Some(Effect::Row(None)),
                }
            } else {
                match computed.next() {
                    Some(Computed { retained: true, .. }) => {
                        held.retain(write.slot, intent.into_retained(cts, lsn), &mut self.memory_bytes);
                        continue;
                    }
                    computed => computed.and_then(|computed| computed.effect),
                }
            };
            let Some(effect) = effect else { continue };
            let before = row_bytes(item);
            item.install(effect, (cts, lsn), &self.live, tail);
            if item.row.is_none() {
                self.tombstones.push_back((write.table, write.key.clone()));
            }
            held.last_cts = held.last_cts.max(cts);
            held.touched(write.slot, before, &mut self.memory_bytes);
        }
        drop(computed);
        // Their intents are off the items already.
        t.writes.clear();
        // `release` takes the snapshot off the live ones: put it back for that.
        self.live.insert(t.ts);
        self.committed(transaction, cts, lsn);
    }

    /// The transaction stands at `cts`: tells those that follow it, and ends it.
    pub(crate) fn committed(&mut self, transaction: TransactionId, cts: Timestamp, lsn: Lsn) {
        let Some(t) = self.transactions.get_mut(transaction) else {
            return;
        };
        let followers = std::mem::take(&mut t.followers);
        for follower in followers {
            if let Some(follower) = self.transactions.get_mut(follower) {
                follower.after_cts = follower.after_cts.max(cts);
                follower.depends_lsn = follower.depends_lsn.max(lsn);
            }
        }
        self.clock = self.clock.max(cts);
        self.last_cts = self.last_cts.max(cts);
        self.last_lsn = self.last_lsn.max(lsn);
        self.statistics.commits += 1;
        self.end_definition(transaction, Some(cts));
        self.release(transaction);
    }
}

fn reader_of(reader: &Transaction, write: &WriteRecord, written: ColumnSet) -> bool {
    let point = |read: &crate::transaction::ReadRecord| {
        read.table == write.table && read.key == write.key && read.columns.intersects(written)
    };
    let range = |read: &crate::transaction::RangeRecord| {
        read.table == write.table && read.columns.intersects(written) && contains(&read.range, write.key.as_bytes())
    };
    reader.reads.iter().any(point) || reader.ranges.iter().any(range)
}

/// What an intent that is not plain amounts to on `row`, which has all columns.
fn evaluate_intent(row: Option<Cow<'_, Row>>, intent: &Intent, tail: &Tail) -> Result<Computed> {
    if let [Change::Update(formula)] = &intent.changes[..] {
        let effect = row
            .map(|row| formula.apply(row.as_ref().as_ref()))
            .transpose()?
            .map(Effect::Columns);
        return Ok(Computed {
            change: None,
            effect,
            retained: false,
        });
    }
    let was_there = row.is_some();
    let after = crate::item::apply_changes(row, &intent.changes, tail)?.map(Cow::into_owned);
    let change = match (was_there, &after) {
        (false, None) => {
            return Ok(Computed {
                change: None,
                effect: None,
                retained: false,
            });
        }
        (true, None) => Change::Delete,
        (false, Some(new)) => Change::Insert(new.clone()),
        (true, Some(new)) => match composed(&intent.changes) {
            Some(formula) => Change::Update(formula),
            None => Change::Replace(new.clone()),
        },
    };
    Ok(Computed {
        change: Some(change),
        effect: Some(Effect::Row(after)),
        retained: false,
    })
}

/// Several formulas of one transaction on one item as one, if they compose.
fn composed(changes: &[Change]) -> Option<rubato_formula::Formula> {
    let mut formulas = changes.iter().map(|change| match change {
        Change::Update(formula) => Some(formula),
        _ => None,
    });
    let first = formulas.next()??.clone();
    formulas.try_fold(first, |so_far, next| so_far.compose(next?))
}
