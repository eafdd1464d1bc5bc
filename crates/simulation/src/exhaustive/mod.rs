//! Every order of events of small configurations, over the very code of the protocol.
//!
//! A [`Configuration`] says which transactions run over which nodes, and how often a message may be lost or repeated and a
//! process may crash. A [`World`] is one state of it: the [`rubato_protocol::grid::Coordinator`], the
//! [`rubato_protocol::grid::Participant`]s, their logs, the messages under way, and what the clients have seen. [`explore`]
//! visits every state that some order of events leads to, each once, and judges every end by the *definition* of strict
//! serializability (see [`definition`]): it knows nothing of timestamps, marks or queues.
//!
//! Decision 0007 says why this is not a kept model checker, and which orders are left out and why that loses nothing.

pub mod broken;
pub mod configurations;
pub mod definition;
mod events;
mod inspect;
mod log;
mod operations;
pub mod report;
pub mod schedules;

mod search;
mod sessions;
mod world;

pub use definition::{Op, Program};
pub use search::{Found, Limits, Report, explore};
pub use world::{Configuration, Crash, World};
