//! The formula log: opaque records, appended by one, forced in groups for all, replayed in order after a restart.
//!
//! The log knows nothing of formulas: a record is a string of bytes. It lies in a folder as a row of segment files, each
//! named by the position ([`Lsn`]) of its first record.
//!
//! # A record's life
//! 1. [`Appender::append`] copies it, framed, into a buffer in memory and returns the position where it ends.
//! 2. [`Forcer::force`] takes the whole buffer to the disk with one write and one fdatasync, for everybody who waits
//!    (group commit), and publishes [`Forcer::forced_lsn`]. Whoever appended may now acknowledge (protocol section 3.4).
//! 3. After a restart a [`Reader`] returns it, if it was forced; [`resume`] then continues the log behind it.
//! 4. Once a checkpoint covers it, [`Forcer::truncate_before`] lets its segment go.
//!
//! # Invariants
//! - What was forced is read back, in order and without a gap, or an error names the file and the offset.
//! - What was not forced may be read back, but only as a prefix: never a later record without all earlier ones.
//! - A segment begins where the forced bytes of the one before end; it is made only after those were forced.
//! - Every byte before the batch a record was written in was forced before that batch was written (see `tail`).
//! - Positions are never used twice for different acknowledged bytes.
//!
//! # What this room refuses
//! To guess at damage; to read a newer format; to acknowledge after an error; to lock the folder against a second
//! process (the program does, once, for the whole data folder).
//!
//! # Where to start
//! `forcer` for the writing side, `frame` and `segment` for the format, `tail` for torn or damaged, `memory` for a disk
//! that fails on demand. All access to the disk goes through [`LogDirectory`].

mod directory;
mod error;
mod forcer;
mod frame;
mod lsn;
mod memory;
mod options;
mod reader;
mod segment;
mod space;
mod spare;
mod tail;
mod window;
mod writer;

pub use directory::{FileDirectory, LogDirectory, LogFile};
pub use error::{AppendError, Error, Result};
pub use forcer::{Appender, Counters, Forcer, open, resume};
pub use frame::PAYLOAD_BYTES_MAX;
pub use lsn::Lsn;
pub use memory::{Faults, MemoryDirectory, PowerLoss};
pub use options::{Clock, Options};
pub use reader::{CheckReport, Reader, Record, Tail, check};
