//! What makes several nodes a grid, without sockets, clocks and files: those come in as arguments, so that the same code runs in the
//! server and in virtual time.
//!
//! The room refuses to decide anything about transactions (that is `protocol`), to know SQL, and to open anything.
//!
//! Invariants: bytes of a peer, whatever they are, lead to an error value and never to a panic, and what they make the node hold is bounded.
//!
//! Start with decision 0030 in `docs/decisions`; the channel between nodes is described in `docs/channel.md`.

pub mod agreement;
pub mod catalogs;
pub mod channel;
mod codec;
pub mod frame;
pub mod links;
pub mod members;
mod message;
pub mod numbers;
pub mod onward;
pub mod placement;
pub mod sessions;
pub mod telling;
pub mod traced;
pub mod work;

pub use message::{GridMessage, name_of};
