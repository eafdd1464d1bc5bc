//! Reading: points, ranges, and the check that what was read is the same at a later place.

use crate::api::{Change, KeyRange, OrderedRead, Outcome, RowSource, ScanEnd, Stop, StoredRow, WaitReason};
use crate::contention::Place;
use crate::database::{FormulaDatabase, item_name, table_of};
use crate::item::{Item, apply_changes, same};
use crate::queue::is_busy;
use crate::rules::{Rule, is_kept};
use crate::statistics::AbortReason;
use crate::table::{Items, Slot, Table, byte_bounds, is_empty, key_bounds};
use crate::tables::Tables;
use crate::tail::Tail;
use crate::transaction::{RangeRecord, ReadRecord, Transaction};
use rubato_base::{ColumnSet, Error, Key, Lsn, Result, Row, RowRef, TableId, Timestamp, TransactionId};
use std::borrow::Cow;
use std::ops::Bound;

/// Rows taken from the store at first while a scan goes over a table that is not wholly in memory: many scans want few rows.
/// Each batch is twice as large as the one before, up to the second number.
const STORE_BATCH_ROWS: (usize, usize) = (8, 512);
/// A batch of the store ends with the row with which it comes to this: it is all in memory at once.
const STORE_BATCH_BYTES: usize = 1 << 20;

impl FormulaDatabase {
    /// Snapshot read of one row: what had committed at the transaction's timestamp, with its own changes. Waits only for the
    /// outcome of a prepared branch whose floor is not above the snapshot ([`Stop::Wait`]; never outside a grid).
    ///
    /// Rule R-4: where its own formulas wrote what is read, their result goes to the client, and they are blind no more: the read is then
    /// one to write (see `queue.rs`), through what stands before, and whoever comes behind commits behind.
    ///
    /// Protects `columns` and the existence of the row: a formula on one of them takes a later place (rule R of protocol.md
    /// section 4), and the transaction's own commit checks that they still have the same values where it comes to stand.
    pub fn read(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: &[u8],
        columns: ColumnSet,
    ) -> Outcome<Option<Cow<'_, Row>>> {
        self.active_on(transaction, table)?;
        self.settled_storage(transaction, table)?;
        self.shorten_reads(transaction);
        let slot = self.slot(table, key)?;
        let own = table_of(&mut self.tables, table)?.item(slot).intent(transaction);
        let shows_own = own.is_some_and(|intent| !intent.changes.is_empty() && intent.written.intersects(columns));
        let columns = columns.union(ColumnSet::EXISTENCE);
        if shows_own && self.try_turn(transaction, table, slot, key, columns)? {
            return Ok(self.newest(transaction, table, slot)?.map(Cow::Owned));
        }
        self.settled(transaction, table, slot, columns)?;
        let Some(t) = self.transactions.get_mut(transaction) else {
            unreachable!("checked above")
        };
        let held = table_of(&mut self.tables, table)?;
        note_read(t, table, slot, held.item_mut(slot), key, columns);
        let ts = t.ts;
        Ok(visible(held.item(slot), ts, transaction, &held.tail)?)
    }

    /// Whether snapshot reads may have to wait: outcomes of branches are not known.
    pub fn reads_may_wait(&self) -> bool {
        !self.branches.is_empty()
    }

    /// The newest committed row with the transaction's own changes, for a statement that chooses among rows nobody is about to
    /// write (SKIP LOCKED): `Busy` if another transaction has a place on it. Protects nothing and proves nothing: what is chosen
    /// is read to write before anything depends on it.
    pub fn peek(&mut self, transaction: TransactionId, table: TableId, key: &[u8]) -> Outcome<OrderedRead> {
        self.active(transaction)?;
        let slot = self.slot(table, key)?;
        let held = table_of(&mut self.tables, table)?;
        let item = held.item(slot);
        if is_busy(item, transaction) {
            return Ok(OrderedRead::Busy);
        }
        let row = visible(item, Timestamp::MAX, transaction, &held.tail)?;
        Ok(OrderedRead::Row(row.map(Cow::into_owned)))
    }

    /// Visits the rows of `range` that nobody else is about to write, as [`FormulaDatabase::peek`] has them.
    pub fn peek_scan(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        range: &KeyRange,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
    ) -> Outcome<ScanEnd> {
        self.active(transaction)?;
        let held = table_of(&mut self.tables, table)?;
        let mut scan = Scan {
            transaction,
            ts: Timestamp::MAX,
            columns: ColumnSet::EMPTY,
            protects: false,
            reverse,
            depends: Lsn(0),
            unsettled: None,
            shown: None,
            notes_shown: false,
            lengthened: Vec::new(),
            visit,
        };
        if held.complete {
            scan.memory(held, range)
        } else {
            scan.merged(held, table, &*self.source, range)
        }
    }

    /// Visits the rows of `range` in key order (from the last to the first when `reverse`) as the transaction's snapshot has
    /// them. `visit` returns false to stop behind the row it was given. Waits as [`FormulaDatabase::read`] does, but only in front of
    /// the first row: behind others the scan stops, so that what was visited counts.
    ///
    /// Protects the visited part of the range, also for keys that do not exist yet, and `columns` of its rows.
    pub fn scan(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        range: &KeyRange,
        reverse: bool,
        columns: ColumnSet,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
    ) -> Outcome<ScanEnd> {
        self.active_on(transaction, table)?;
        self.settled_storage(transaction, table)?;
        self.shorten_reads(transaction);
        let columns = columns.union(ColumnSet::EXISTENCE);
        let notes_shown = self.reads_may_wait();
        let Some(t) = self.transactions.get_mut(transaction) else {
            unreachable!("checked above")
        };
        let held = table_of(&mut self.tables, table)?;
        let mut scan = Scan {
            transaction,
            ts: t.ts,
            columns,
            protects: true,
            reverse,
            depends: t.depends_lsn,
            unsettled: None,
            shown: None,
            notes_shown,
            lengthened: Vec::new(),
            visit,
        };
        let mut end = if held.complete {
            scan.memory(held, range)?
        } else {
            scan.merged(held, table, &*self.source, range)?
        };
        t.depends_lsn = scan.depends;
        if let Some(owner) = scan.unsettled {
            match scan.shown.take() {
                Some(key) => end = ScanEnd::Stopped(key),
                None => return self.wait(transaction, owner, table, WaitReason::Prepared),
            }
        }
        let visited = match &end {
            ScanEnd::Exhausted => range.clone(),
            ScanEnd::Stopped(key) if reverse => KeyRange {
                from: Bound::Included(key.clone()),
                to: range.to.clone(),
            },
            ScanEnd::Stopped(key) => KeyRange {
                from: range.from.clone(),
                to: Bound::Included(key.clone()),
            },
        };
        note_range(t, held, table, visited, columns);
        Ok(end)
    }

    /// Waits for the outcome of a prepared branch that the transaction's snapshot of the row depends on (rule P-4).
    pub(crate) fn settled(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        slot: Slot,
        columns: ColumnSet,
    ) -> Outcome<()> {
        if self.branches.is_empty() {
            return Ok(());
        }
        let Some(ts) = self.snapshot(transaction) else {
            return Ok(());
        };
        match table_of(&mut self.tables, table)?
            .item(slot)
            .unsettled(transaction, columns, ts)
        {
            Some(owner) => self.wait(transaction, owner, table, WaitReason::Prepared),
            None => Ok(()),
        }
    }

    /// Rule Q-2: moves the transaction's snapshot up to the newest commit, if it is below `wanted` and everything it has read is
    /// still the same there. The newest, because every version of that moment is known: of older ones only those that live snapshots
    /// read are kept.
    pub(crate) fn advance(&mut self, transaction: TransactionId, wanted: Timestamp) -> Outcome<()> {
        let Some(t) = self.transactions.get(transaction) else {
            return Ok(());
        };
        if wanted <= t.ts {
            return Ok(());
        }
        let to = self.last_cts;
        if is_kept(Rule::Q2) {
            self.validate(transaction, to)?;
        }
        let Some(t) = self.transactions.get_mut(transaction) else {
            return Ok(());
        };
        self.live.remove(t.ts);
        self.live.insert(to);
        t.ts = to;
        raise_marks(&mut self.tables, t, to);
        Ok(())
    }

    /// Checks that each read gives the same value at `when` (protocol.md section 4, commit); the error names the item.
    pub(crate) fn validate(&mut self, transaction: TransactionId, when: Timestamp) -> Outcome<()> {
        self.validate_since(transaction, (0, 0), when)
    }

    /// The same of what it has read behind so many reads of rows and of ranges.
    pub(crate) fn validate_since(
        &mut self,
        transaction: TransactionId,
        since: (usize, usize),
        when: Timestamp,
    ) -> Outcome<()> {
        match self.first_broken_read(transaction, since, when)? {
            Held::Yes => Ok(()),
            Held::No(reason, place) => {
                self.statistics.aborted(reason);
                self.contention.aborted(place.clone(), reason);
                Err(Stop::Abort(broken_read(&place)))
            }
            Held::Unsettled(owner, table) => self.wait(transaction, owner, table, WaitReason::Prepared),
        }
    }

    /// Whether each read gives the same value at `when`.
    pub(crate) fn holds(&mut self, transaction: TransactionId, when: Timestamp) -> Outcome<bool> {
        match self.first_broken_read(transaction, (0, 0), when)? {
            Held::Yes => Ok(true),
            Held::No(..) => Ok(false),
            Held::Unsettled(owner, table) => self.wait(transaction, owner, table, WaitReason::Prepared),
        }
    }

    /// The same without waiting: no, where it depends on an outcome that is not known yet.
    pub(crate) fn surely_holds(&mut self, transaction: TransactionId, when: Timestamp) -> Outcome<bool> {
        Ok(matches!(self.first_broken_read(transaction, (0, 0), when)?, Held::Yes))
    }

    /// Rule V-1: every row that was read has the same values at `when`. Rule V-2: every range has the same content.
    fn first_broken_read(
        &mut self,
        transaction: TransactionId,
        (rows, ranges): (usize, usize),
        when: Timestamp,
    ) -> Outcome<Held> {
        let Some(t) = self.transactions.get(transaction) else {
            return Ok(Held::Yes);
        };
        if when > t.ts
            && is_kept(Rule::V2)
            && let Some(table) = self.replaced_read(t, when).or_else(|| self.redefined_read(t, when))
        {
            return Ok(Held::No(AbortReason::RangeChanged, (table, None)));
        }
        let undecided = !self.branches.is_empty();
        if undecided && let Some((owner, table)) = self.replacing_read(t, when) {
            return Ok(Held::Unsettled(owner, table));
        }
        if self.last_cts <= t.ts && t.after.is_empty() && !undecided {
            return Ok(Held::Yes);
        }
        for read in t.reads[rows..].iter().filter(|_| is_kept(Rule::V1)) {
            let held = table_of(&mut self.tables, read.table)?;
            if undecided
                && let Some(slot) = current_slot(held, read)
                && let Some(owner) = held.item(slot).unsettled(transaction, read.columns, when)
            {
                return Ok(Held::Unsettled(owner, read.table));
            }
            if !read_still_good(held, read, t.ts, when) {
                let place = (read.table, Some(read.key.clone()));
                return Ok(Held::No(AbortReason::ReadChanged, place));
            }
        }
        for read in t.ranges[ranges..].iter().filter(|_| is_kept(Rule::V2)) {
            let held = table_of(&mut self.tables, read.table)?;
            if undecided && let Some(owner) = unsettled_in(held, read, transaction, when) {
                return Ok(Held::Unsettled(owner, read.table));
            }
            if held.last_cts > t.ts && !range_still_good(held, read, t.ts, when) {
                return Ok(Held::No(AbortReason::RangeChanged, (read.table, None)));
            }
        }
        Ok(Held::Yes)
    }
}

/// Whether what was read is the same at another place.
enum Held {
    Yes,
    /// Why not, and where.
    No(AbortReason, Place),
    /// A prepared branch of this transaction must be decided first.
    Unsettled(TransactionId, TableId),
}

/// 40001 for a row, or a range, that was read and is different where the transaction would have to stand.
fn broken_read(place: &Place) -> Error {
    match place {
        (table, Some(key)) => Error::serialization("a row that was read has been overwritten", item_name(*table, key)),
        (table, None) => Error::serialization("a range of rows that was read has changed", format!("storage {table}")),
    }
}

/// Raises the marks of everything that `t` has read to `ts`.
pub(crate) fn raise_marks(tables: &mut Tables, t: &Transaction, ts: Timestamp) {
    raise_marks_since(tables, t, (0, 0), ts);
}

/// The same for what it has read behind so many reads of rows and of ranges.
pub(crate) fn raise_marks_since(tables: &mut Tables, t: &Transaction, (rows, ranges): (usize, usize), ts: Timestamp) {
    for read in &t.reads[rows..] {
        let Ok(held) = table_of(tables, read.table) else {
            continue;
        };
        match current_slot(held, read) {
            Some(slot) => held.item_mut(slot).marks.raise(read.columns, ts),
            // It was evicted, unchanged: the whole table's mark has to say it.
            None => held.low_water = held.low_water.max(ts),
        }
    }
    for read in &t.ranges[ranges..] {
        let Ok(held) = table_of(tables, read.table) else {
            continue;
        };
        held.mark_range(&read.range, ts);
        // Rule R-6: for all rows at once.
        if read.range == KeyRange::WHOLE {
            held.all_read.raise(read.columns, ts);
            continue;
        }
        let Some(bounds) = key_bounds(&read.range) else {
            continue;
        };
        let (map, mut items) = held.map_and_items();
        for (_, slot) in map.range::<Key, _>(bounds) {
            items.get(*slot).marks.raise(read.columns, ts);
        }
    }
}

/// Notes a range read. A scan that goes on where the one before it stopped is one range with it: a long scan in pieces is
/// checked as quickly as in one.
pub(crate) fn note_range(t: &mut Transaction, held: &mut Table, table: TableId, visited: KeyRange, columns: ColumnSet) {
    let last = t
        .ranges
        .last_mut()
        .filter(|last| last.table == table && last.columns == columns);
    if let Some(last) = last
        && let Some(joined) = joined(&last.range, &visited)
    {
        held.extend_mark(&last.range, &joined, t.ts);
        last.range = joined;
        return;
    }
    held.mark_range(&visited, t.ts);
    if !t.read_only {
        t.ranges.push(RangeRecord {
            table,
            range: visited,
            columns,
        });
    }
}

/// Both ranges as one, if one ends at the key where the other begins.
fn joined(first: &KeyRange, second: &KeyRange) -> Option<KeyRange> {
    let touch = |to: &Bound<Key>, from: &Bound<Key>| match (to, from) {
        (Bound::Included(to), Bound::Excluded(from)) | (Bound::Excluded(to), Bound::Included(from)) => to == from,
        _ => false,
    };
    let (below, above) = if touch(&first.to, &second.from) {
        (first, second)
    } else if touch(&second.to, &first.from) {
        (second, first)
    } else {
        return None;
    };
    Some(KeyRange {
        from: below.from.clone(),
        to: above.to.clone(),
    })
}

/// Notes a read on the item and, unless the transaction is read-only, in the transaction.
///
/// Rule R-2: the read mark of the columns rises to the snapshot. Rule D-2: the transaction is acknowledged when what it has
/// read is durable.
pub(crate) fn note_read(
    t: &mut Transaction,
    table: TableId,
    slot: Slot,
    item: &mut Item,
    key: &[u8],
    columns: ColumnSet,
) {
    if is_kept(Rule::R2) {
        item.marks.raise(columns, t.ts);
    }
    item.referenced = true;
    if is_kept(Rule::D2) {
        t.depends_lsn = t.depends_lsn.max(item.lsn);
    }
    if !t.read_only {
        let generation = item.generation;
        t.reads.push(ReadRecord {
            table,
            slot,
            generation,
            columns,
            key: Key::from_bytes(key),
            through: None,
        });
    }
}

/// The row as `transaction` sees it at `ts`: committed formulas up to there, then its own; with all columns.
pub(crate) fn visible<'a>(
    item: &'a Item,
    ts: Timestamp,
    transaction: TransactionId,
    tail: &Tail,
) -> Result<Option<Cow<'a, Row>>> {
    let row = item.committed_at(ts, tail);
    match item.intent(transaction) {
        Some(intent) if !intent.changes.is_empty() => apply_changes(row, &intent.changes, tail),
        _ => Ok(row),
    }
}

/// Whether [`visible`] shows a row. The last of its own changes that makes or takes the row decides; none is worked out, so that a batch of
/// additions to one row does not work out all of those before at each.
pub(crate) fn is_there(item: &Item, ts: Timestamp, transaction: TransactionId, tail: &Tail) -> bool {
    let own = item.intent(transaction).map_or(&[][..], |intent| &intent.changes);
    let decides = |change: &&Change| !matches!(change, Change::Update(_));
    match own.iter().rev().find(decides) {
        Some(change) => !matches!(change, Change::Delete),
        None => item.committed_at(ts, tail).is_some(),
    }
}

fn current_slot(held: &Table, read: &ReadRecord) -> Option<Slot> {
    match held.item_at(read.slot, read.generation) {
        Some(_) => Some(read.slot),
        None => held.find(read.key.as_bytes()),
    }
}

fn read_still_good(held: &Table, read: &ReadRecord, ts: Timestamp, when: Timestamp) -> bool {
    // Only an item that no live snapshot could see an older version of is ever evicted: not in memory means not changed.
    let Some(slot) = current_slot(held, read) else {
        return true;
    };
    let item = held.item(slot);
    if !item.knows(when) || item.hides(read.columns, when) {
        return false;
    }
    let committed_at = |ts| item.committed_at(ts, &held.tail);
    match &read.through {
        Some(seen) => same(
            held.tail.whole_of(seen).as_deref(),
            committed_at(when).as_deref(),
            read.columns,
        ),
        None if item.cts <= ts => true,
        None => same(committed_at(ts).as_deref(), committed_at(when).as_deref(), read.columns),
    }
}

fn unsettled_in(held: &mut Table, read: &RangeRecord, reader: TransactionId, when: Timestamp) -> Option<TransactionId> {
    let bounds = key_bounds(&read.range)?;
    let (map, mut items) = held.map_and_items();
    map.range::<Key, _>(bounds)
        .find_map(|(_, slot)| items.get(*slot).unsettled(reader, read.columns, when))
}

fn range_still_good(held: &mut Table, read: &RangeRecord, ts: Timestamp, when: Timestamp) -> bool {
    let Some(bounds) = key_bounds(&read.range) else {
        return true;
    };
    let (map, mut items) = held.map_and_items();
    let tail = items.tail;
    map.range::<Key, _>(bounds).all(|(_, slot)| {
        let item = items.get(*slot);
        let unchanged = || {
            same(
                item.committed_at(ts, tail).as_deref(),
                item.committed_at(when, tail).as_deref(),
                read.columns,
            )
        };
        !item.hides(read.columns, when) && (item.cts <= ts || (item.knows(when) && unchanged()))
    })
}

/// One scan under way.
struct Scan<'a> {
    transaction: TransactionId,
    ts: Timestamp,
    columns: ColumnSet,
    /// Whether what it visits is marked as read; else it passes by what others are about to write.
    protects: bool,
    reverse: bool,
    depends: Lsn,
    /// A prepared transaction whose outcome has to be known first.
    unsettled: Option<TransactionId>,
    /// The last row that was shown, where it is noted: a scan that must wait stops behind it.
    shown: Option<Key>,
    /// There are branches of the grid, whose outcomes scans may have to wait for.
    notes_shown: bool,
    /// Room for rows that lack columns.
    lengthened: Vec<u8>,
    visit: &'a mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
}

impl Scan<'_> {
    /// Over a table whose rows are all in memory.
    fn memory(&mut self, held: &mut Table, range: &KeyRange) -> Outcome<ScanEnd> {
        let Some(bounds) = key_bounds(range) else {
            return Ok(ScanEnd::Exhausted);
        };
        let (map, mut items) = held.map_and_items();
        let stopped = if self.reverse {
            self.items(map.range::<Key, _>(bounds).rev(), &mut items)?
        } else {
            self.items(map.range::<Key, _>(bounds), &mut items)?
        };
        Ok(stopped.map_or(ScanEnd::Exhausted, |key| ScanEnd::Stopped(key.clone())))
    }

    fn items<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k Key, &'k Slot)>,
        items: &mut Items<'_>,
    ) -> Outcome<Option<&'k Key>> {
        for (key, slot) in keys {
            let tail = items.tail;
            if !self.item(key.as_bytes(), items.get(*slot), tail)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Visits an item of memory; false when the visitor stops.
    fn item(&mut self, key: &[u8], item: &mut Item, tail: &Tail) -> Outcome<bool> {
        if self.protects {
            self.unsettled = item.unsettled(self.transaction, self.columns, self.ts);
            if self.unsettled.is_some() {
                return Ok(false);
            }
            if is_kept(Rule::R2) {
                item.marks.raise(self.columns, self.ts);
            }
            item.referenced = true;
            self.depends = self.depends.max(item.lsn);
        } else if is_busy(item, self.transaction) {
            return Ok(true);
        }
        if let Some(row) = item.untouched_at(self.ts) {
            return Ok(self.show(key, row, tail));
        }
        match visible(item, self.ts, self.transaction, tail)? {
            Some(row) => {
                self.note_shown(key);
                Ok((self.visit)(key, row.as_ref().as_ref()))
            }
            None => Ok(true),
        }
    }

    /// Shows a row as it is kept.
    fn show(&mut self, key: &[u8], row: &Row, tail: &Tail) -> bool {
        self.note_shown(key);
        (self.visit)(key, tail.lengthened(row, &mut self.lengthened))
    }

    fn note_shown(&mut self, key: &[u8]) {
        if self.notes_shown {
            self.shown = Some(Key::from_bytes(key));
        }
    }

    /// Over a table of which some rows are only in the store: batches of the store, each overlaid with what memory has of the
    /// same span. Rows of the store are passed through, not kept: a scan must not drive hot rows out of memory.
    fn merged(
        &mut self,
        held: &mut Table,
        table: TableId,
        source: &dyn RowSource,
        range: &KeyRange,
    ) -> Outcome<ScanEnd> {
        let (mut rest, mut batch_rows) = (range.clone(), STORE_BATCH_ROWS.0);
        let mut passage = None;
        loop {
            let Some((from, to)) = byte_bounds(&rest) else {
                return Ok(ScanEnd::Exhausted);
            };
            let mut behind = None;
            if passage.is_none() && !self.reverse && held.private.is_none() {
                let (entered, end) = held.hollows.enter(from);
                (passage, behind) = (Some(entered), end);
            }
            let from = behind.as_ref().map_or(from, |key| Bound::Included(key.as_bytes()));
            let (mut batch, may_be_more) = match is_empty(from, to) {
                true => (Vec::new(), false),
                false => source.scan_some(table, from, to, self.reverse, (batch_rows, STORE_BATCH_BYTES))?,
            };
            let read_rows = batch.len();
            let last = { batch.last().filter(|_| may_be_more) }.map(|row| row.0.clone());
            batch.retain(|row| !held.deletions.hides(row.0.as_bytes()));
            if let Some(passage) = &mut passage {
                let first = batch.first().map(|row| &row.0);
                held.hollows.pass(passage, batch.len() < read_rows, first);
            }
            batch_rows = (batch_rows * 2).min(STORE_BATCH_ROWS.1);
            let span = match (&last, self.reverse) {
                (None, _) => rest.clone(),
                (Some(key), false) => KeyRange {
                    from: rest.from.clone(),
                    to: Bound::Included(key.clone()),
                },
                (Some(key), true) => KeyRange {
                    from: Bound::Included(key.clone()),
                    to: rest.to.clone(),
                },
            };
            if let Some(key) = self.span(held, &span, batch)? {
                return Ok(ScanEnd::Stopped(key));
            }
            match (last, self.reverse) {
                (None, _) => return Ok(ScanEnd::Exhausted),
                (Some(key), false) => rest.from = Bound::Excluded(key),
                (Some(key), true) => rest.to = Bound::Excluded(key),
            }
        }
    }

    /// Visits what memory and a batch of the store have between them in a span, in order; memory counts where both have a key.
    fn span(&mut self, held: &mut Table, span: &KeyRange, batch: Vec<(Key, StoredRow)>) -> Outcome<Option<Key>> {
        let Some(bounds) = key_bounds(span) else {
            return Ok(None);
        };
        let (map, mut items) = held.map_and_items();
        let range = map.range::<Key, _>(bounds);
        if self.reverse {
            self.both(range.rev(), batch, &mut items)
        } else {
            self.both(range, batch, &mut items)
        }
    }

    fn both<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k Key, &'k Slot)>,
        batch: Vec<(Key, StoredRow)>,
        items: &mut Items<'_>,
    ) -> Outcome<Option<Key>> {
        let mut keys = keys.peekable();
        let (reverse, tail) = (self.reverse, items.tail);
        let stands_before = |a: &Key, b: &Key| if reverse { a > b } else { a < b };
        for (stored_key, stored) in batch {
            while let Some((key, slot)) = keys.next_if(|(key, _)| stands_before(key, &stored_key)) {
                if !self.item(key.as_bytes(), items.get(*slot), tail)? {
                    return Ok(Some(key.clone()));
                }
            }
            let go_on = match keys.next_if(|(key, _)| **key == stored_key) {
                Some((_, slot)) => self.item(stored_key.as_bytes(), items.get(*slot), tail)?,
                None => self.show(stored_key.as_bytes(), &stored.row, tail),
            };
            if !go_on {
                return Ok(Some(stored_key));
            }
        }
        Ok(self.items(keys, items)?.cloned())
    }
}
