//! What the protocol is asked and how it answers.

use rubato_base::codec::{ByteReader, put_bytes};
use rubato_base::{
    ColumnSet, Error, GlobalId, Key, KeyWriter, Lsn, NodeId, Result, Row, SessionId, SqlState, TableId, Timestamp,
    TransactionId, Value, prefix_successor,
};
use rubato_formula::Formula;
use std::ops::{Bound, ControlFlow};

/// The folded rows behind the formulas: what the database reads when a row is not in memory.
pub trait RowSource: Send {
    /// The row of `key`, with the commit timestamp of the last formula folded into it.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<StoredRow>>;

    /// At most `limit` rows between the bounds in key order, or from the last key down when `reverse`.
    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(Key, StoredRow)>>;

    /// The same, of no more than it takes for the rows to come to about `bytes`, at least one; and whether there may be more behind them.
    fn scan_some(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        (limit, _bytes): (usize, usize),
    ) -> Result<(Vec<(Key, StoredRow)>, bool)> {
        let rows = self.scan(table, from, to, reverse, limit)?;
        let may_be_more = rows.len() >= limit;
        Ok((rows, may_be_more))
    }

    /// Whether [`RowSource::lay_down`] takes rows.
    fn takes_rows(&self) -> bool {
        false
    }

    /// Takes rows of storage that one open transaction knows, see `laying.rs`, in the order of calls. They are on their way to the
    /// store then, and readable there once [`RowSource::laid_down`] has reached what this returns. Waits where too many are.
    ///
    /// An error, of this call or of an earlier one's rows, is one of the whole storage: it will not hold what was laid there.
    fn lay_down(&self, _table: TableId, _rows: &mut dyn Iterator<Item = LaidRow<'_>>) -> Result<u64> {
        Err(Error::internal("these rows are kept in memory only"))
    }

    /// How far what was laid down has come.
    fn laid_down(&self) -> u64 {
        0
    }

    /// Makes durable what was laid down in the storage `tables`, all of it.
    fn make_durable(&self, _tables: &[TableId]) -> Result<()> {
        Ok(())
    }
}

/// A row that is laid down: its key, the timestamp below which it counts as committed, the row.
pub type LaidRow<'a> = (&'a Key, Timestamp, &'a Row);

/// A row of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    /// The commit timestamp of the last formula folded into it.
    pub cts: Timestamp,
    /// The row.
    pub row: Row,
}

/// Where commits are written down. Appending makes nothing durable; the owner forces the log and withholds answers.
pub trait CommitLog {
    /// Appends one committed transaction; returns the log position behind it.
    fn append(&mut self, record: &CommitRecord<'_>) -> Result<Lsn>;

    /// Appends a prepared branch of a transaction over several partitions.
    fn append_prepare(&mut self, _record: &PrepareRecord<'_>) -> Result<Lsn> {
        Err(Error::internal(
            "this log keeps no branches of transactions over several partitions",
        ))
    }

    /// Appends that a transaction over several partitions was decided.
    fn append_decision(&mut self, _record: &DecisionRecord<'_>) -> Result<Lsn> {
        Err(Error::internal("this log keeps no decisions over several partitions"))
    }

    /// Appends that everybody has carried out a decision that was appended before. A log that cannot keep it may leave it out.
    fn append_end(&mut self, _transaction: GlobalId) -> Result<Lsn> {
        Ok(Lsn(0))
    }

    /// Appends what a node of a grid has to know of itself after a restart.
    fn append_standing(&mut self, _record: &StandingRecord) -> Result<Lsn> {
        Err(Error::internal("this log belongs to no node of a grid"))
    }

    /// Appends what a node of a grid has to know of what all agree on, in the grid's own form.
    fn append_agreement(&mut self, _record: &[u8]) -> Result<Lsn> {
        Err(Error::internal("this log belongs to no node of a grid"))
    }
}

/// A prepared branch as the log sees it: enough to commit it after a crash, and to keep others from what it holds meanwhile.
pub struct PrepareRecord<'a> {
    /// The transaction over several partitions.
    pub transaction: GlobalId,
    /// The smallest place that the branch may take.
    pub floor: Timestamp,
    /// All its changes, those of one item together and in order.
    pub changes: &'a dyn Changes,
    /// Where it stands in queues: the columns that nobody may change before it ends.
    pub places: &'a [(TableId, Key, ColumnSet)],
    /// What its commit does beside rows, as whoever coordinates it has put it ([`crate::grid::Operation::Attach`]).
    pub attachment: Option<&'a [u8]>,
}

/// A decision as the log sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionRecord<'a> {
    /// The transaction over several partitions.
    pub transaction: GlobalId,
    /// Its place; `None` if it was rolled back.
    pub cts: Option<Timestamp>,
    /// At the coordinator: the nodes that have to be told. Empty at a participant, which has been told.
    pub participants: &'a [NodeId],
}

/// What a node of a grid knows of itself after a restart. The last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StandingRecord {
    /// Counts its starts: what was meant for an earlier life comes too late.
    pub life: u64,
    /// Where the timestamp stage is: below this ticks may have been handed out (rule T-2).
    pub tick_bound: Timestamp,
}

/// A committed transaction as the log sees it.
pub struct CommitRecord<'a> {
    /// Its place in the order.
    pub cts: Timestamp,
    /// Its changes, in the order in which it made them; one for each item, or several together for an item above a prepared
    /// formula that is not decided yet.
    pub changes: &'a dyn Changes,
    /// Opaque bytes of the owner that belong to the same transaction (a new catalog).
    pub attachment: Option<&'a [u8]>,
}

/// The changes of a transaction where they are: a large transaction is not copied to be logged.
pub trait Changes {
    /// Calls `visitor` with each change in order until it breaks. Gives the same changes each time.
    fn visit(&self, visitor: &mut dyn FnMut(TableId, &Key, &Change) -> ControlFlow<()>);
}

/// No changes.
impl Changes for () {
    fn visit(&self, _: &mut dyn FnMut(TableId, &Key, &Change) -> ControlFlow<()>) {}
}

/// A change of one item.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The row comes into being.
    Insert(Row),
    /// The formula is applied to the row.
    Update(Formula),
    /// The row is replaced as a whole, wherever it was (delete and insert of one key in one transaction).
    Replace(Row),
    /// The row goes.
    Delete,
}

/// Why a call gave no result.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The transaction must wait for another one; undo the statement (see [`crate::FormulaDatabase::undo_statement`]) and run it
    /// again when [`crate::FormulaDatabase::take_woken`] names the transaction.
    Wait(Wait),
    /// The transaction cannot go on: roll it back. The error is 40001 with reason and item; the server may retry by itself
    /// when the client has seen nothing that depended on a read (promise 7).
    Abort(Error),
    /// The statement failed with this error; the transaction may go back to a savepoint.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Fail(error)
    }
}

/// For whom a transaction waits, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The transaction that must end (or write) first.
    pub owner: TransactionId,
    /// The table of the item.
    pub table: TableId,
    /// What kind of wait.
    pub reason: WaitReason,
}

/// Kinds of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// In a read-to-write queue.
    Queue,
    /// At commit, behind a transaction whose formulas were read.
    After,
    /// At commit, behind a read-to-write transaction that stands before in an item's queue.
    Ordered,
    /// At commit under the pessimistic policy, behind an earlier reader.
    Reader,
    /// Behind a prepared transaction over several partitions whose outcome is not known yet.
    Prepared,
    /// For a schema change of a table, or of a schema change for those who write to it.
    Table,
    /// To begin: the timestamp stage of the grid has been asked for a tick.
    Tick,
    /// For the answer of another node of the grid.
    Elsewhere,
}

impl WaitReason {
    /// How many reasons there are.
    pub const COUNT: usize = 8;
}

/// Result of a protocol call.
pub type Outcome<T> = std::result::Result<T, Stop>;

/// What a read-to-write does about an item that another transaction has queued on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBusy {
    /// Queue behind it ([`Stop::Wait`]).
    Queue,
    /// Give [`OrderedRead::Busy`].
    Tell,
}

/// Answer of a read-to-write.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderedRead {
    /// The row as it will be when this transaction's turn comes; `None` if there is none.
    Row(Option<Row>),
    /// Another transaction stands before ([`OnBusy::Tell`]).
    Busy,
}

/// Answer of an insert.
#[derive(Clone, Debug, PartialEq)]
pub enum Insertion {
    /// The row is there now (for this transaction).
    Inserted,
    /// A row with this key exists already.
    Exists(Row),
}

/// Answer of a blind update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlindUpdate {
    /// The formula is pending.
    Pending,
    /// There is no such row at this transaction's place.
    Missing,
    /// The formula could leave its bounds, depending on what else commits: read to write instead.
    MustBeOrdered,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Lower end.
    pub from: Bound<Key>,
    /// Upper end.
    pub to: Bound<Key>,
}

impl KeyRange {
    /// All keys.
    pub const WHOLE: KeyRange = KeyRange {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };

    /// What is left of it behind `key`, in the direction of a scan.
    pub fn rest_behind(&self, key: &Key, reverse: bool) -> KeyRange {
        match reverse {
            true => KeyRange {
                from: self.from.clone(),
                to: Bound::Excluded(key.clone()),
            },
            false => KeyRange {
                from: Bound::Excluded(key.clone()),
                to: self.to.clone(),
            },
        }
    }

    /// The keys that start with `prefix`.
    pub fn of_prefix(prefix: &[u8]) -> KeyRange {
        if prefix.is_empty() {
            return KeyRange::WHOLE;
        }
        KeyRange {
            from: Bound::Included(Key::from_bytes(prefix)),
            to: prefix_successor(prefix).map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// The keys that start with `prefix` and go on with a value that is not NULL, and within these bounds if there are any, each with
    /// whether it is included. It may be empty; `None`: it surely is.
    pub fn between(prefix: &[u8], low: Option<(&Value, bool)>, high: Option<(&Value, bool)>) -> Option<KeyRange> {
        let with = |value: &Value| {
            let mut writer = KeyWriter::from_prefix(prefix);
            writer.push(value);
            writer.finish()
        };
        let behind = |value: &Value| prefix_successor(with(value).as_bytes());
        let from = match low {
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Included(Key::from_bytes(prefix)),
            Some((value, true)) => Bound::Included(with(value)),
            Some((value, false)) => Bound::Included(behind(value)?),
        };
        // NULLs stand behind every value and satisfy no comparison.
        let to = match high {
            None => Some(with(&Value::Null)),
            Some((value, true)) => behind(value),
            Some((value, false)) => Some(with(value)),
        };
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        Some(KeyRange { from, to })
    }

    /// The keys that are in both; it may be empty.
    pub fn and(self, other: &KeyRange) -> KeyRange {
        let (Bound::Included(from) | Bound::Excluded(from)) = &other.from else {
            return self.and_below(&other.to);
        };
        let is_higher = match &self.from {
            Bound::Unbounded => true,
            Bound::Included(own) => own <= from,
            Bound::Excluded(own) => own < from,
        };
        let from = if is_higher { other.from.clone() } else { self.from };
        KeyRange { from, to: self.to }.and_below(&other.to)
    }

    fn and_below(self, end: &Bound<Key>) -> KeyRange {
        let (Bound::Included(to) | Bound::Excluded(to)) = end else {
            return self;
        };
        let is_lower = match &self.to {
            Bound::Unbounded => true,
            Bound::Included(own) => own >= to,
            Bound::Excluded(own) => own > to,
        };
        let to = if is_lower { end.clone() } else { self.to };
        KeyRange { from: self.from, to }
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for bound in [&self.from, &self.to] {
            match bound {
                Bound::Unbounded => out.push(0),
                Bound::Included(key) => {
                    out.push(1);
                    put_bytes(out, key.as_bytes());
                }
                Bound::Excluded(key) => {
                    out.push(2);
                    put_bytes(out, key.as_bytes());
                }
            }
        }
    }

    /// Reads what [`KeyRange::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<KeyRange> {
        let mut bound = || {
            Ok(match reader.u8()? {
                0 => Bound::Unbounded,
                1 => Bound::Included(Key::from_bytes(reader.bytes()?)),
                2 => Bound::Excluded(Key::from_bytes(reader.bytes()?)),
                _ => {
                    let message = "damaged data: an unknown end of a range";
                    return Err(Error::new(SqlState::DATA_CORRUPTED, message));
                }
            })
        };
        Ok(KeyRange {
            from: bound()?,
            to: bound()?,
        })
    }
}

/// How a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// Every row of the range was visited.
    Exhausted,
    /// The visitor stopped it behind this key, or what comes next has to be waited for: go on from `Bound::Excluded(key)`.
    Stopped(Key),
}

/// How a transaction is begun.
#[derive(Clone, Copy, Debug)]
pub struct BeginOptions {
    /// The session that owns it, named when it is woken.
    pub session: SessionId,
    /// It will not write: its reads are not kept for validation, and it never aborts.
    pub read_only: bool,
}

/// What a commit gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The transaction's place in the order.
    pub cts: Timestamp,
    /// Nothing may be acknowledged before the log is forced up to here: its own record and those of all it read.
    pub durable_at: Lsn,
}

/// A point in a transaction to which its writes can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    pub(crate) writes: usize,
}

/// Commit policy (paper rules P1/C1 and P2/C2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitPolicy {
    /// Commit and retain what earlier readers still need.
    #[default]
    Optimistic,
    /// Wait for earlier readers of what is written (bounded by the caller).
    Pessimistic,
}

/// What a read-to-write does behind another that has already written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePolicy {
    /// Wait until it has ended: no cascading aborts.
    #[default]
    Wait,
    /// Read through its formulas and commit after it: a pipeline, at the price of cascading aborts.
    Pipeline,
}

/// Settings of the protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policies {
    /// Commit policy.
    pub commit: CommitPolicy,
    /// Queue policy.
    pub queue: QueuePolicy,
}
