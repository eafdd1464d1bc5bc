//! The two ways to run stages: all on one thread, or each on threads of its own.

pub mod local;
pub mod threads;

pub use local::LocalRelay;
pub use threads::{Outcome, RelaySettings, ThreadedRelay};
