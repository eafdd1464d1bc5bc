//! The formula protocol: who reads what, which formula takes which place, who waits and who must abort.
//!
//! This room refuses to know SQL, clocks, threads, sockets and disks: rows that are not in memory come from a [`RowSource`],
//! commits go to a [`CommitLog`], and time is the database's own counter.
//!
//! Invariants:
//! - Commit timestamps of one item only grow, and each is above every read mark of what it changes.
//! - What a live snapshot reads is kept; what no live snapshot reads may be gone, and then nobody asks for it.
//! - A blind formula waits for nobody but read-to-write transactions that stand before it, and aborts nobody.
//! - A read waits for nobody unless it says that it will write.
//! - Nothing here decides by a clock or by the order in which a hash map is iterated.
//!
//! Start with [`FormulaDatabase`].

mod admission;
mod api;
mod branch;
mod chunks;
mod circles;
mod commit;
mod contention;
mod database;
mod definition;
mod escrow;
mod exact;
mod giving_up;
mod gone;
pub mod grid;
mod hollow;
mod item;
mod laying;
mod lifetime;
mod live;
mod memory;
mod noting;
mod owners;
mod queue;
mod read;
mod reads;
mod recovery;
mod redefined;
mod rules;
mod schema;
mod segments;
mod sketch;
mod statistics;
mod table;
mod tables;
mod tail;
mod transaction;
mod undecided;
mod versions;
mod write;

pub use admission::{Admission, Potential};
pub use api::{
    BeginOptions, BlindUpdate, Change, Changes, CommitLog, CommitPolicy, CommitRecord, Committed, DecisionRecord,
    Insertion, KeyRange, LaidRow, OnBusy, OrderedRead, Outcome, Policies, PrepareRecord, QueuePolicy, RowSource,
    Savepoint, ScanEnd, StandingRecord, Stop, StoredRow, Wait, WaitReason,
};
pub use branch::Prepared;
pub use contention::{HotItem, ItemCounts, Place, Waiting};
pub use database::FormulaDatabase;
pub use definition::{Definition, EndedDefinition};
pub use giving_up::{has_filled_memory, was_too_old};
pub use memory::DirtyRow;
pub use rules::{Rule, break_rule};
pub use segments::{Segment, Segments};
pub use sketch::Sketch;
pub use statistics::{AbortReason, Statistics};
