//! What coordinators and participants say to each other.

use super::entries::EntriesRead;
use super::probe::Waiting;
use super::relay::{Passed, RelayJoin};
use super::sieve::Sieve;
use crate::api::{BlindUpdate, KeyRange};
use crate::sketch::Sketch;
use rubato_base::{ColumnSet, Error, GlobalId, Key, Lsn, NodeId, Row, TableId, Timestamp};
use rubato_formula::{Formula, PartialAggregate, RowBounds};

/// One message between a coordinator and a participant, about one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The transaction.
    pub transaction: GlobalId,
    /// What about it.
    pub body: Body,
}

/// Which way a message goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// From the coordinator to a participant.
    Request(Request),
    /// From a participant to the coordinator.
    Reply(Reply),
    /// From a participant to another one of the transaction.
    Passed(Passed),
    /// From a coordinator or a participant, along the waits between transactions.
    Waiting(Waiting),
}

/// What a coordinator asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Do operation `number` (from 0) of this transaction at this participant; number 0 begins the branch.
    Operate {
        /// Counts the operations of the transaction at this participant.
        number: u32,
        /// The transaction will not write.
        read_only: bool,
        /// What to do.
        operation: Operation,
    },
    /// Prepare: all these operations have been answered.
    Prepare {
        /// How many operations the branch has done.
        operations: u32,
        /// Where the transaction may come to stand: what was read is checked there at once, if the floor allows it.
        place: Option<Timestamp>,
    },
    /// Check what was read at the place; at the snapshot itself: tell when what was read is durable.
    Check {
        /// The place.
        place: Timestamp,
        /// How many operations the branch has done.
        operations: u32,
    },
    /// Commit: no other partition takes part.
    CommitAlone {
        /// How many operations the branch has done.
        operations: u32,
    },
    /// The transaction commits at this place, or was rolled back.
    Decide(Option<Timestamp>),
}

/// What a participant tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The answer of an operation.
    Answer {
        /// Which one.
        number: u32,
        /// What it gave.
        answer: Answer,
        /// What the coordinator has to know for the commit.
        notes: Notes,
    },
    /// The branch is prepared, durably.
    Prepared {
        /// The smallest place that it can take.
        floor: Timestamp,
        /// Above the begin tick it has to be checked first.
        check_above: bool,
        /// What was read holds at this place, for which it was asked.
        held: Option<Timestamp>,
    },
    /// What was read holds at the place, and is durable.
    Holds {
        /// The place.
        place: Timestamp,
    },
    /// The branch cannot go on: the transaction must be rolled back. With the reason.
    Refused(Error),
    /// The transaction of this partition alone committed, durably.
    Committed {
        /// Its place.
        cts: Timestamp,
    },
    /// The transaction began before this participant, which has nothing of it: what was not prepared is lost, but whether it has
    /// committed on this partition alone, if that was asked for, is not known here any more.
    Forgotten,
    /// Rule Q-10: the operation was not done, and it is not known when it can be: this node is cut off from whoever it would have to hear
    /// from first. Only what was asked last is meant by it: what was asked before may have been done in an earlier life.
    Unready {
        /// Which one.
        number: u32,
        /// From whom.
        error: Error,
    },
    /// The decision is carried out, durably.
    Done,
    /// What became of the transaction? The branch waits for it.
    Inquire,
    /// The branch has come to wait for another one; or the operation has come again, and waits for somebody else's transaction, whose
    /// coordinator is there: this is no silence.
    Waits,
    /// Another branch has come to wait for this one.
    Awaited,
}

/// What the coordinator has to know about a branch for the commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// It has placed changes.
    pub writes: bool,
    /// Its snapshot, if that has moved up from the begin tick, or if it has read through the formulas of others: it cannot stand there.
    pub moved_to: Option<Timestamp>,
    /// It stands behind somebody, or waits for readers, and has to settle before it can be prepared.
    pub behind: bool,
    /// It has read through the formulas of others, and has to confirm that before an error is told.
    pub through: bool,
}

/// Bytes of rows after which a page ends.
pub const PAGE_BYTES_MAX: usize = 512 << 10;
/// Rows that are looked at for one page, however few of them it has: then others have their turn.
pub const PAGE_LOOKED_AT_MAX: usize = 16 << 10;

/// How many operations there may be in one [`Operation::Several`].
pub const SEVERAL_MAX: usize = 1024;
/// Bytes of answers to one [`Operation::Several`] after which the rest of it is not done.
pub const SEVERAL_ANSWER_BYTES_MAX: usize = 4 << 20;

/// An operation on the rows of one partition.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Snapshot read of a row: [`Answer::Row`].
    Read {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// What is read of it.
        columns: ColumnSet,
    },
    /// The rows of a range, in key order: [`Answer::Rows`].
    Scan {
        /// The table.
        table: TableId,
        /// The range.
        range: KeyRange,
        /// What is read of each row.
        columns: ColumnSet,
    },
    /// The next rows of a range, in key order or against it: [`Answer::Page`].
    Page {
        /// The table.
        table: TableId,
        /// The range.
        range: KeyRange,
        /// From its end on.
        reverse: bool,
        /// What is read of each row; nothing is protected where nothing is given, and who is about to be written is left out.
        columns: Option<ColumnSet>,
        /// At most so many rows; at most [`PAGE_BYTES_MAX`], of [`PAGE_LOOKED_AT_MAX`] rows looked at, in any case.
        rows_max: u32,
        /// What is left out.
        sieve: Sieve,
    },
    /// The next entries of an index, and the rows that they stand for, which lie on the same node: [`Answer::Entries`].
    Entries {
        /// Which.
        read: Box<EntriesRead>,
    },
    /// Groups made of the next rows of a range, in key order: [`Answer::Groups`].
    Aggregate {
        /// The table.
        table: TableId,
        /// The range.
        range: KeyRange,
        /// What is read of each row.
        columns: ColumnSet,
        /// Which rows count.
        sieve: Sieve,
        /// What is made of them.
        aggregate: PartialAggregate,
        /// At most so many rows are looked at; at most [`PAGE_LOOKED_AT_MAX`], for about [`PAGE_BYTES_MAX`] of groups, in any case.
        rows_max: u32,
    },
    /// The newest row, if nobody is about to write it: [`Answer::Row`] or [`Answer::Busy`]. Protects nothing.
    Peek {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
    },
    /// Read to write, without waiting for anybody: [`Answer::Row`] or [`Answer::Busy`].
    TryLock {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// What is read of it.
        columns: ColumnSet,
    },
    /// Read to write: [`Answer::Row`].
    Lock {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// What is read of it.
        columns: ColumnSet,
    },
    /// A blind formula: [`Answer::Blind`].
    Blind {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// The formula.
        formula: Formula,
        /// What the columns may become.
        bounds: RowBounds,
    },
    /// Read to write, and then a formula if the row exists: [`Answer::Row`] as it was before.
    Update {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// What is read of it.
        columns: ColumnSet,
        /// The formula.
        formula: Formula,
    },
    /// Insert unless the key exists: [`Answer::Row`] is the row that exists already.
    Insert {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// The row.
        row: Row,
    },
    /// Insert unless the key exists; else read to write, and then a formula: [`Answer::Row`] is the row that existed, as it was before.
    Upsert {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
        /// The row, if there is none.
        row: Row,
        /// The formula, if there is one.
        formula: Formula,
    },
    /// Delete: [`Answer::Row`] as it was before.
    Delete {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
    },
    /// Operations on rows, at most [`SEVERAL_MAX`], one after the other: [`Answer::Several`]. Each counts as one, and is one for
    /// [`Operation::Undo`]. One that has to wait is waited for; behind one that fails nothing is done.
    Several {
        /// The operations, each of which [`Operation::may_be_one_of_several`].
        operations: Vec<Operation>,
    },
    /// This node's part of a join that goes from node to node: [`Answer::Joined`], or [`Answer::Groups`] of what came out of it.
    Relay {
        /// The join.
        join: Box<RelayJoin>,
    },
    /// Wait until the branch follows nobody: [`Answer::Settled`].
    Settle,
    /// Wait until those have ended whose formulas the branch has read through, and look whether it was so, and whether all that it has
    /// read is so at a later place too: [`Answer::Settled`]. If not, the branch is given up (rule Q-7).
    Confirm {
        /// Where the transaction has read on other partitions.
        at: Timestamp,
    },
    /// Take back what the operations from number `kept` on have changed: [`Answer::Undone`]. What they did to definitions stays until
    /// the branch ends.
    Undo {
        /// So many operations stay.
        kept: u32,
    },
    /// Have these tables to itself for writing: [`Answer::Done`], when all others that write to them have ended.
    Close {
        /// The tables.
        tables: Vec<TableId>,
    },
    /// Make storage that is the branch's alone until it commits, and gone if it does not: [`Answer::Done`].
    Create {
        /// The storage.
        storage: Vec<TableId>,
    },
    /// Lay rows in storage that the branch has made: [`Answer::Laid`]. They are not pending, may leave memory, and are durable before
    /// the branch is prepared (rule D-10). Nothing takes them back but the end of the branch.
    Lay {
        /// The storage.
        table: TableId,
        /// The rows.
        rows: Vec<(Key, Row)>,
    },
    /// What rows of a storage have in columns that they lack, from now on: [`Answer::Done`]. The tables are closed.
    Lengthen {
        /// The storage.
        table: TableId,
        /// A row with all columns.
        tail: Option<Row>,
    },
    /// What the commit does beside rows, once it is decided: [`Answer::Done`]. The last one counts.
    Attach {
        /// In the form of the node's log.
        content: Vec<u8>,
    },
}

/// What an operation gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A row, or none.
    Row(Option<Row>),
    /// Rows in key order.
    Rows(Vec<(Key, Row)>),
    /// Rows in the order that was asked for.
    Page {
        /// The rows.
        rows: Vec<(Key, Row)>,
        /// The last key that was looked at; `None`: there are no more in the range.
        reached: Option<Key>,
    },
    /// Entries of an index in the order that was asked for.
    Entries {
        /// The entries.
        entries: Vec<(Key, Row)>,
        /// The last one that was looked at; `None`: there are no more in the range.
        reached: Option<Key>,
        /// The rows of the first of them, by their keys, or that there is none.
        rows: Vec<(Key, Option<Row>)>,
    },
    /// Groups of rows, or of joined tuples.
    Groups {
        /// Of each its keys, then what its aggregates have seen.
        groups: Vec<Row>,
        /// The last key that was looked at, of a join as in [`Answer::Joined`]; `None`: there are no more in the range.
        reached: Option<Key>,
        /// Of a join, as in [`Answer::Joined`].
        has_partner: bool,
    },
    /// Joined tuples.
    Joined {
        /// The tuples.
        tuples: Vec<Row>,
        /// The last key of this node's part of the first table that was looked at, or of a table that the round is of a part of; `None`:
        /// there are no more.
        reached: Option<Key>,
        /// Among the rows of that part there was a partner.
        has_partner: bool,
        /// Nothing counts of what all nodes have answered: it would have been too much, or another node has failed.
        is_too_much: bool,
    },
    /// Somebody else is about to write the row.
    Busy,
    /// What became of a blind formula.
    Blind(BlindUpdate),
    /// The branch follows nobody.
    Settled,
    /// The branch is what it was after the operations that were to stay.
    Undone,
    /// The operation failed and left nothing behind; the transaction may go on without it.
    Failed(Error),
    /// What was asked about definitions is done.
    Done,
    /// Rows are laid.
    Laid {
        /// Not all of them: the first whose key is taken, by its place, and those behind it are not.
        taken: Option<u32>,
    },
    /// One answer for each of several operations.
    Several(Vec<Answer>),
    /// One of several was not done: one before it failed, or had answers enough. It counts nevertheless.
    NotDone,
}

impl Message {
    /// Writes down what distinguishes this message.
    pub fn sketch(&self, sketch: &mut Sketch) {
        sketch.stamp(self.transaction.tick);
        match &self.body {
            Body::Request(request) => {
                sketch.number(1);
                request.sketch(sketch);
            }
            Body::Reply(reply) => {
                sketch.number(2);
                reply.sketch(sketch);
            }
            Body::Waiting(waiting) => waiting.sketch(sketch),
            Body::Passed(passed) => {
                sketch.number(3);
                passed.sketch(sketch);
            }
        }
    }
}

impl Request {
    /// An operation is told by its number: what a transaction does is fixed by its program.
    pub(crate) fn sketch(&self, sketch: &mut Sketch) {
        match self {
            Request::Operate { number, .. } => {
                sketch.number(1);
                sketch.number(u64::from(*number));
            }
            Request::Prepare { place, .. } => {
                sketch.number(2);
                sketch.stamp_or_none(*place);
            }
            Request::Check { place, .. } => {
                sketch.number(3);
                sketch.stamp(*place);
            }
            Request::CommitAlone { .. } => sketch.number(4),
            Request::Decide(outcome) => {
                sketch.number(5);
                sketch.stamp_or_none(*outcome);
            }
        }
    }
}

impl Reply {
    pub(crate) fn sketch(&self, sketch: &mut Sketch) {
        match self {
            Reply::Answer { number, answer, notes } => {
                sketch.number(1);
                sketch.number(u64::from(*number));
                answer.sketch(sketch);
                let noted = [notes.writes, notes.behind, notes.through];
                noted.iter().for_each(|note| sketch.number(u64::from(*note)));
                sketch.number(notes.moved_to.map_or(0, |at| at.0));
            }
            Reply::Prepared {
                floor,
                check_above,
                held,
            } => {
                sketch.number(2);
                sketch.stamp(*floor);
                sketch.number(u64::from(*check_above));
                sketch.stamp_or_none(*held);
            }
            Reply::Holds { place } => {
                sketch.number(3);
                sketch.stamp(*place);
            }
            Reply::Refused(_) => sketch.number(4),
            Reply::Committed { cts } => {
                sketch.number(5);
                sketch.stamp(*cts);
            }
            Reply::Forgotten => sketch.number(6),
            Reply::Done => sketch.number(7),
            Reply::Inquire => sketch.number(8),
            Reply::Waits => sketch.number(9),
            Reply::Awaited => sketch.number(10),
            Reply::Unready { number, .. } => {
                sketch.number(11);
                sketch.number(u64::from(*number));
            }
        }
    }
}

impl Answer {
    pub(crate) fn sketch(&self, sketch: &mut Sketch) {
        match self {
            Answer::Row(row) => sketch.row(row.as_ref()),
            Answer::Rows(rows) => sketch_rows(rows, sketch),
            Answer::Blind(answer) => sketch.number(*answer as u64),
            Answer::Settled => sketch.number(3),
            Answer::Failed(_) => sketch.number(4),
            Answer::Undone => sketch.number(5),
            Answer::Busy => sketch.number(6),
            Answer::Done => sketch.number(9),
            Answer::NotDone => sketch.number(10),
            Answer::Laid { taken } => {
                sketch.number(16);
                sketch.number(taken.map_or(0, |place| u64::from(place) + 1));
            }
            Answer::Several(answers) => {
                sketch.number(11);
                sketch.number(answers.len() as u64);
                answers.iter().for_each(|answer| answer.sketch(sketch));
            }
            Answer::Joined {
                tuples,
                reached,
                has_partner,
                is_too_much,
            } => {
                sketch.number(14 + u64::from(reached.is_none()) + 2 * u64::from(*is_too_much));
                sketch.number(u64::from(*has_partner));
                tuples.iter().for_each(|tuple| sketch.row(Some(tuple)));
                reached.iter().for_each(|key| sketch.bytes(key.as_bytes()));
            }
            Answer::Groups {
                groups,
                reached,
                has_partner,
            } => {
                sketch.number(12 + u64::from(reached.is_none()));
                sketch.number(u64::from(*has_partner));
                groups.iter().for_each(|group| sketch.row(Some(group)));
                reached.iter().for_each(|key| sketch.bytes(key.as_bytes()));
            }
            Answer::Entries { entries, reached, rows } => {
                sketch.number(18 + u64::from(reached.is_none()));
                sketch_rows(entries, sketch);
                reached.iter().for_each(|key| sketch.bytes(key.as_bytes()));
                for (key, row) in rows {
                    sketch.bytes(key.as_bytes());
                    sketch.row(row.as_ref());
                }
            }
            Answer::Page { rows, reached } => {
                sketch.number(7 + u64::from(reached.is_none()));
                sketch_rows(rows, sketch);
                reached.iter().for_each(|key| sketch.bytes(key.as_bytes()));
            }
        }
    }
}

fn sketch_rows(rows: &[(Key, Row)], sketch: &mut Sketch) {
    sketch.number(rows.len() as u64);
    for (key, row) in rows {
        sketch.bytes(key.as_bytes());
        sketch.row(Some(row));
    }
}

/// A message to send, when the sender's log is forced up to `durable_at`.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// To whom.
    pub to: NodeId,
    /// What.
    pub message: Message,
    /// Not before the own log is forced up to here.
    pub durable_at: Lsn,
}

impl Outgoing {
    /// A message that waits for nothing.
    pub(super) fn at_once(to: NodeId, transaction: GlobalId, body: Body) -> Outgoing {
        Outgoing {
            to,
            message: Message { transaction, body },
            durable_at: Lsn(0),
        }
    }
}
