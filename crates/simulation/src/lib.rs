//! The simulation: whole nodes in virtual time, with every fault and every choice drawn from one seed.
//!
//! A *run* is a function of its seed: the same stages, sessions, protocol, log, recovery and checkpoints as in the server, over
//! a disk and a clock of its own. What the clients saw is written down as a history, and independent checkers, which know
//! nothing of the protocol's own facts, look for a place in one order for every transaction.
//!
//! This room refuses to read a clock, start a thread, open a file or draw randomness that does not come from the seed; only the
//! program (`main.rs` and `program`) prints and looks at the time for its progress line.
//!
//! Invariants:
//! - A seed replays to the byte: the trace of a run is the same on every machine.
//! - A checker judges by what clients saw and by what is left at the end, never by what the node says of itself.
//!
//! Start with [`plan`], then [`world`], then [`check`]; several nodes are in [`grid`], and with sessions, while
//! nodes come and go, in [`growth`]. How throughput grows with nodes is in [`curve`], where nothing goes wrong and everything takes
//! as long as it took on a real machine.

mod answer;
pub mod check;
mod client;
mod clock;
pub mod connections;
pub mod curve;
pub mod direct;
pub mod disk;
pub mod exhaustive;
pub mod grid;
pub mod growth;
pub mod history;
pub mod plan;
pub mod program;
pub mod programs;
pub mod seeds;
pub mod talk;
pub mod trace;
pub mod world;

pub use answer::{Answer, Output};
