//! Transactions over several partitions: who says what to whom, as state machines without a network.
//!
//! A [`Coordinator`] runs the transactions of its clients over [`Participant`]s, one for each partition. Both take messages
//! and give [`Outgoing`] ones; whoever drives them carries those over a network that may lose, repeat, delay and reorder them,
//! forces the log before it sends what needs that ([`Outgoing::durable_at`]), and calls `on_timer` now and then, which says
//! again what was not answered.
//!
//! ```text
//! coordinator        participants that wrote          participants that only read
//!   operate  ───────────►  (answer)  ◄──────────────────────  operate
//!   settle   ───────────►  waits until the branch follows nobody (only where it stood behind somebody)
//!   prepare  ───────────►  floor, formulas durable;   check at the snapshot: what was read is durable
//!   check    ───────────►  reads at the place  ◄────  (only if the place is above the snapshot)
//!   decide   (forced)  ──►  fold, forced, done  ◄───  done
//! ```
//!
//! A transaction of one partition is one round, `commit alone`, without any of this.
//!
//! Real time: the [`TickSource`] hands out whole ticks, each once. A transaction begins at one, and commits at its own, at a
//! fresh one, or some logical steps above something that has a tick that was handed out, never leaving that tick; over several
//! partitions these are steps that only its coordinator gives (rule T-4). So whatever was acknowledged when a transaction begins has a place below its tick (promise 1 over all nodes),
//! whichever node's clock says what.
//!
//! The ticks come from the [`TimestampStage`] of one node; the others ask it ([`TickAsker`]).

mod asker;
mod coordinator;
mod entries;
mod entry_row;
mod message;
mod operation;
mod participant;
mod probe;
mod relay;
mod run;
mod sieve;
mod stage;
mod ticks;

pub use asker::{Heard, TickAsker, TickFor, WANTED_MAX};
pub use coordinator::{ClientEvent, CommitCounts, Coordinator, Ending, Recovered, Told};
pub use entries::EntriesRead;
pub use entry_row::EntryRow;
pub use message::{
    Answer, Body, Message, Notes, Operation, Outgoing, PAGE_BYTES_MAX, PAGE_LOOKED_AT_MAX, Reply, Request,
    SEVERAL_ANSWER_BYTES_MAX, SEVERAL_MAX,
};
pub use operation::laid_bytes;
pub use participant::Participant;
pub use probe::{PROBE_STEPS_MAX, Probe, Waiter, Waiting};
pub use relay::{
    Passed, Pieces, RELAY_BYTES_MAX, RELAY_PARTNERS_MAX, RELAY_ROWS_MAX, RELAY_STEPS_MAX, RelayJoin, RelayPart,
    RelayStep, RelayWork, RouteOf,
};
pub use run::SILENT_ROUNDS_MAX;
pub use sieve::Sieve;
pub use stage::{StageMessage, TICKS_MAX, TimestampStage};
pub use ticks::{RESERVED_TICKS, TickSource};
