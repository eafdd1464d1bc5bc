//! A transaction: its place in time, what it read, what it is about to write, and for whom it waits.

use crate::api::{BeginOptions, CommitPolicy, KeyRange, WaitReason};
use crate::contention::Place;
use crate::definition::Definition;
use crate::table::Slot;
use rubato_base::{ColumnSet, Error, Key, Lsn, Row, SessionId, TableId, Timestamp, TransactionId};
use smallvec::SmallVec;

/// A point read.
#[derive(Clone, Debug)]
pub(crate) struct ReadRecord {
    pub(crate) table: TableId,
    pub(crate) slot: Slot,
    pub(crate) generation: u32,
    pub(crate) columns: ColumnSet,
    pub(crate) key: Key,
    /// What was seen, if that was not the committed row at the transaction's timestamp but one seen through pending formulas.
    pub(crate) through: Option<Box<Option<Row>>>,
}

/// A range read: what was visited of it.
#[derive(Clone, Debug)]
pub(crate) struct RangeRecord {
    pub(crate) table: TableId,
    pub(crate) range: KeyRange,
    pub(crate) columns: ColumnSet,
}

/// One pending change, in the order of the statements.
#[derive(Clone, Debug)]
pub(crate) struct WriteRecord {
    pub(crate) table: TableId,
    pub(crate) slot: Slot,
    pub(crate) key: Key,
    /// Whether it is this transaction's first change of the item; commit works on each item once.
    pub(crate) first: bool,
    /// What it costs in memory, about.
    pub(crate) bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) id: TransactionId,
    pub(crate) session: SessionId,
    /// The participant of a grid hears of the end of its wait, and no session.
    pub(crate) is_branch: bool,
    /// It began as a session's, and is a branch of a transaction of the grid: both hear of its end.
    pub(crate) is_adopted: bool,
    pub(crate) read_only: bool,
    pub(crate) policy: CommitPolicy,
    /// Its snapshot. Only grows.
    pub(crate) ts: Timestamp,
    pub(crate) reads: Vec<ReadRecord>,
    pub(crate) ranges: Vec<RangeRecord>,
    pub(crate) writes: Vec<WriteRecord>,
    /// What `writes` cost in memory, about.
    pub(crate) pending_bytes: usize,
    /// Items on which it stands in the queue.
    pub(crate) queued: Vec<(TableId, Slot)>,
    /// Owners of pending formulas that it read through: it commits after them and not without them.
    pub(crate) after: SmallVec<[TransactionId; 2]>,
    /// The commit timestamps of those of them that have committed.
    pub(crate) after_cts: Timestamp,
    /// Transactions that have this one in `after`.
    pub(crate) followers: SmallVec<[TransactionId; 2]>,
    /// Tables that it has announced to write to.
    pub(crate) announced: SmallVec<[TableId; 2]>,
    /// What it does to definitions of tables as a branch, if it does.
    pub(crate) definition: Option<Box<Definition>>,
    /// Whether its commit changes definitions.
    pub(crate) defines: bool,
    pub(crate) waiting_for: Option<TransactionId>,
    /// Where and why it waits, or waited last.
    pub(crate) waits_at: Option<(Place, WaitReason)>,
    pub(crate) waiters: SmallVec<[TransactionId; 2]>,
    /// Behind the last log record of what it read.
    pub(crate) depends_lsn: Lsn,
    /// Why it must be rolled back, if it must.
    pub(crate) doomed: Option<Error>,
    /// Where it began: its age.
    pub(crate) begun: Timestamp,
    /// Prepared, or checked at its last place: it waits for nobody who is not prepared himself.
    pub(crate) committing: bool,
    /// As a branch of a transaction over several partitions: the smallest place it may take.
    pub(crate) floor: Option<Timestamp>,
    /// While prepared: a log position before its record.
    pub(crate) prepared_since: Lsn,
    /// What it has read cannot be checked any more: it was read back from the log after a crash, or its snapshot was given up.
    pub(crate) recovered: bool,
    /// Nothing is kept for its snapshot any more (rule F-7).
    pub(crate) gave_up_snapshot: bool,
    confirmed: Option<Box<Confirmed>>,
}

/// What a transaction has confirmed that it has read is so at a place too, and is kept so there by marks.
#[derive(Clone, Debug)]
struct Confirmed {
    at: Timestamp,
    reads: usize,
    ranges: usize,
    /// The last of the ranges as it was then: a scan that goes on makes it longer.
    last_range: Option<KeyRange>,
}

impl Transaction {
    /// Whether it is, or may be, over several partitions: others may wait for it elsewhere.
    pub(crate) fn is_spread(&self) -> bool {
        self.is_branch || self.is_adopted
    }

    /// Whether it has done nothing that depends on when it began, and nobody waits for it.
    pub(crate) fn is_unused(&self) -> bool {
        let has_read = !self.reads.is_empty() || !self.ranges.is_empty() || !self.after.is_empty();
        let has_written = !self.writes.is_empty() || !self.queued.is_empty() || !self.announced.is_empty();
        let is_known = self.is_spread() || self.definition.is_some() || !self.waiters.is_empty();
        !has_read && !has_written && !is_known && self.doomed.is_none()
    }

    fn new(id: TransactionId, options: BeginOptions, ts: Timestamp, policy: CommitPolicy) -> Transaction {
        Transaction {
            id,
            session: options.session,
            is_branch: false,
            is_adopted: false,
            read_only: options.read_only,
            policy,
            ts,
            reads: Vec::new(),
            ranges: Vec::new(),
            writes: Vec::new(),
            pending_bytes: 0,
            queued: Vec::new(),
            after: SmallVec::new(),
            after_cts: Timestamp::ZERO,
            followers: SmallVec::new(),
            announced: SmallVec::new(),
            definition: None,
            defines: false,
            waiting_for: None,
            waits_at: None,
            waiters: SmallVec::new(),
            depends_lsn: Lsn(0),
            doomed: None,
            begun: ts,
            committing: false,
            floor: None,
            prepared_since: Lsn(0),
            recovered: false,
            gave_up_snapshot: false,
            confirmed: None,
        }
    }

    /// How many reads of rows, and of ranges, are confirmed at this place.
    pub(crate) fn confirmed_until(&self, at: Timestamp) -> (usize, usize) {
        let Some(confirmed) = self.confirmed.as_deref().filter(|confirmed| confirmed.at == at) else {
            return (0, 0);
        };
        let last = confirmed.ranges.checked_sub(1).and_then(|last| self.ranges.get(last));
        let is_longer = last.map(|last| &last.range) != confirmed.last_range.as_ref();
        (confirmed.reads, confirmed.ranges - usize::from(is_longer))
    }

    /// What it has read is kept otherwise from now on.
    pub(crate) fn forget_confirmed(&mut self) {
        self.confirmed = None;
    }

    /// All that it has read so far is confirmed at this place.
    pub(crate) fn confirm(&mut self, at: Timestamp) {
        let last_range = self.ranges.last().map(|last| last.range.clone());
        self.confirmed = Some(Box::new(Confirmed {
            at,
            reads: self.reads.len(),
            ranges: self.ranges.len(),
            last_range,
        }));
    }

    /// Starts over as another transaction, keeping the room of its lists.
    fn reset(&mut self, id: TransactionId, options: BeginOptions, ts: Timestamp, policy: CommitPolicy) {
        let mut fresh = Transaction::new(id, options, ts, policy);
        std::mem::swap(&mut fresh.reads, &mut self.reads);
        std::mem::swap(&mut fresh.ranges, &mut self.ranges);
        std::mem::swap(&mut fresh.writes, &mut self.writes);
        std::mem::swap(&mut fresh.queued, &mut self.queued);
        *self = fresh;
    }
}

/// Lists larger than this are given back when their transaction ends, so that one large transaction does not hold memory.
const KEPT_CAPACITY_MAX: usize = 1024;
/// But two lists of writes are kept for the next large ones, if they are no larger than this: growing one anew for each piece of a
/// load, into memory that was given back, took a tenth of the load's time.
const LARGE_CAPACITY_MAX: usize = 32 * 1024;
const LARGE_LISTS_MAX: usize = 2;

/// Live transactions by id: the low bits of an id are its place here, the rest makes it unique.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transactions {
    places: Vec<(bool, Transaction)>,
    free: Vec<u32>,
    begun: u64,
    /// Empty lists with room for many writes.
    large: Vec<Vec<WriteRecord>>,
}

const PLACE_BITS: u32 = 20;

impl Transactions {
    pub(crate) fn begin(&mut self, options: BeginOptions, ts: Timestamp, policy: CommitPolicy) -> TransactionId {
        self.begun += 1;
        let place = self.free.pop().unwrap_or(self.places.len() as u32);
        let id = TransactionId((self.begun << PLACE_BITS) | u64::from(place));
        match self.places.get_mut(place as usize) {
            Some((live, transaction)) => {
                *live = true;
                transaction.reset(id, options, ts, policy);
            }
            None => self.places.push((true, Transaction::new(id, options, ts, policy))),
        }
        id
    }

    pub(crate) fn get(&self, id: TransactionId) -> Option<&Transaction> {
        let (live, transaction) = self.places.get(place(id))?;
        (*live && transaction.id == id).then_some(transaction)
    }

    pub(crate) fn get_mut(&mut self, id: TransactionId) -> Option<&mut Transaction> {
        let (live, transaction) = self.places.get_mut(place(id))?;
        (*live && transaction.id == id).then_some(transaction)
    }

    /// Notes a pending change; false if the transaction is not live.
    pub(crate) fn push_write(&mut self, id: TransactionId, write: WriteRecord) -> bool {
        let found = self.places.get_mut(place(id));
        let Some((_, transaction)) = found.filter(|(live, it)| *live && it.id == id) else {
            return false;
        };
        transaction.pending_bytes += write.bytes;
        let writes = &mut transaction.writes;
        if writes.len() == KEPT_CAPACITY_MAX
            && let Some(mut large) = self.large.pop()
        {
            large.append(writes);
            *writes = large;
        }
        writes.push(write);
        true
    }

    pub(crate) fn is_live(&self, id: TransactionId) -> bool {
        self.get(id).is_some()
    }

    pub(crate) fn end(&mut self, id: TransactionId) {
        let Some((live, transaction)) = self.places.get_mut(place(id)) else {
            return;
        };
        *live = false;
        transaction.reads.clear();
        transaction.ranges.clear();
        transaction.writes.clear();
        transaction.queued.clear();
        if transaction.reads.capacity() + transaction.writes.capacity() > KEPT_CAPACITY_MAX {
            transaction.reads = Vec::new();
            let writes = std::mem::take(&mut transaction.writes);
            let is_large = (KEPT_CAPACITY_MAX..=LARGE_CAPACITY_MAX).contains(&writes.capacity());
            if is_large && self.large.len() < LARGE_LISTS_MAX {
                self.large.push(writes);
            }
        }
        self.free.push(place(id) as u32);
    }

    /// Live transactions, in no particular but a fixed order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Transaction> {
        self.places.iter().filter(|place| place.0).map(|place| &place.1)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

fn place(id: TransactionId) -> usize {
    (id.0 & ((1 << PLACE_BITS) - 1)) as usize
}
