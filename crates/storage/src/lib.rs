//! The store behind the formulas: what a [`Store`] is, one in memory, and the suite that every store passes.
//!
//! A store holds *folded* rows: ordered keys and values, per table, as bytes. It is written by the checkpoint, in
//! batches, and read for rows that are not in memory. It is not what makes a commit durable (the formula log is), so it
//! may lag behind; but what it holds is always a state that the checkpoint once gave it, never a mixture.
//!
//! # Invariants
//! - A batch is applied whole or not at all, also over a crash.
//! - After a crash the store holds a prefix of what was applied, and at least all that was forced.
//!
//! # What this room refuses
//! Transactions, versions, timestamps, column knowledge: those live above it. Which key holds the checkpoint's own
//! position is the caller's business (an ordinary key of table 0, in the same batch as the rows).
//!
//! # Where to start
//! `store` for the trait, `conformance` for what it means, `memory` for the simplest one.

mod batch;
pub mod conformance;
mod error;
mod memory;
mod store;

pub use batch::{Batch, Change, Sorted};
pub use error::{Error, Result};
pub use memory::{Faults, MemoryStore, bounds_are_empty};
pub use store::{CheckReport, KEY_BYTES_MAX, KeyValue, Store};
