//! The formula protocol: who reads what, which formula takes which place, who waits and who must abort.
//!
//! This room refuses to know SQL, clocks, threads, sockets and disks: rows that are not in memory come from a [`RowSource`],
//! commits go to a [`CommitLog`], and time is the database's own counter.
//!
//! Start with [`FormulaDatabase`].

mod api;
mod commit;
mod database;
mod item;
mod live;
mod memory;
mod queue;
mod read;
mod recovery;
mod statistics;
mod table;
mod transaction;
mod write;

pub use api::{
    BeginOptions, BlindUpdate, Change, ColumnBounds, CommitLog, CommitPolicy, CommitRecord, Committed, Insertion, KeyRange,
    OnBusy, OrderedRead, Outcome, Policies, QueuePolicy, RowSource, Savepoint, ScanEnd, Stop, StoredRow, Wait, WaitReason,
};
pub use database::FormulaDatabase;
pub use memory::DirtyRow;
pub use statistics::{AbortReason, Statistics};
