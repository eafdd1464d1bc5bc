//! One node: the stages wired together over one partition, its log and its store.
//!
//! [`Node::open`] recovers what is there. Each thread that serves clients has a [`NodeWorker`], which runs whole statements
//! through its own stages: a statement crosses no thread. What the workers share is the partition, which one step of one
//! statement at a time holds, the log and the store.
//!
//! This room refuses to start threads, read clocks and open files: whoever owns the node calls [`Node::checkpoint`] and
//! [`Node::look_after_log`] from a thread of its own, and hands in the log's folder and the store.
//!
//! Invariants:
//! - The log is forced before the store is written (see `checkpoint`).
//! - Answers leave with the log position that they wait for; nobody sends them before it is forced.
//! - A parked session is woken exactly by the end of the transaction that it waits for, by its deadline, or by a cancel.
//!
//! Start with [`Node`], then `worker`; a node of a grid is [`grid::GridNode`].

mod attached;
mod checkpoint;
mod commit_log;
mod door;
mod driver;
mod errors;
pub mod grid;
mod hosted;
mod laying;
mod memory;
mod node;
mod read_ahead;
mod record;
mod recovery;
mod relay;
mod source;
mod verify;
mod worker;

pub use checkpoint::CheckpointReport;
pub use node::{Node, NodeFigures, NodeSettings};
pub use recovery::{RecoveryProgress, RecoveryReport};
pub use rubato_protocol::{Admission, CommitPolicy, Policies, Potential, QueuePolicy};
pub use rubato_stages::{Helper, Job};
pub use verify::{VerifyReport, verify};
pub use worker::NodeWorker;
