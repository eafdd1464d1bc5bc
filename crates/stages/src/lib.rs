//! Stage, instruction, queue, outbox: how work flows through a node.
//!
//! A [`Stage`] is a single-threaded event handler in front of a [`BoundedQueue`]. [`Instruction`]s are the only thing that
//! flows: a stage takes one, and puts what follows from it into its [`Outbox`]; shells come from an [`InstructionPool`], so
//! that a hop allocates nothing. A driver moves them: [`driver::LocalRelay`] runs all stages on the thread that calls it,
//! [`driver::ThreadedRelay`] gives every kind of stage threads of its own (for comparison). [`worker`] is the agreed
//! interface between the thread that owns sockets and the engine that runs statements on the same thread.
//!
//! This room refuses to know what is in a payload, what SQL is, and where time comes from; only `driver::threads` starts
//! threads.
//!
//! Invariants:
//! - No queue grows beyond its capacity. Whoever meets a full queue gets the instruction back.
//! - Between two stages order is kept, by every driver with one thread per stage.
//! - A stage is never called twice at the same time.
//!
//! Start with [`Stage`], then [`driver::LocalRelay`].

pub mod driver;
mod helper;
mod instruction;
mod kind;
mod metrics;
mod queue;
mod stage;
pub mod worker;

pub use helper::{Helper, Helpers, Job};
pub use instruction::{Instruction, InstructionPool, NOT_SAMPLED, POOL_CAPACITY_DEFAULT};
pub use kind::StageKind;
pub use metrics::{SAMPLE_EVERY, StageMetrics, StageNumbers};
pub use queue::{BoundedQueue, QUEUE_CAPACITY_DEFAULT};
pub use stage::{Outbox, Stage};
