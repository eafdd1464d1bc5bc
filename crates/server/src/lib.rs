//! The rubato program: wire, login, TLS, metrics, configuration, command line.
//!
//! [`Server`] owns sockets and worker threads. A worker reads what clients send, decodes it ([`wire`]), lets the engine on the
//! same thread run it ([`SqlWorker`]), and sends the answers once the log is forced far enough.
//!
//! This room refuses to know SQL, transactions and storage: it knows requests, answers and log positions.
//!
//! Invariants:
//! - No thread blocks on a client. No message of a client's makes a thread panic.
//! - An answer leaves only when the log is forced up to the `durable_at` of its work.
//! - A session has at most one work under way, so its requests run in order.
//! - Memory of a connection is bounded: one message, one batch of requests, one buffer of answers. It is not read from while
//!   it has answers to take.
//! - Without passwords and TLS nothing but loopback is served.
//!
//! Start with [`Server::start`], then `worker/mod.rs`.

pub mod login;
pub mod metrics;
pub mod passwords;
mod peers;
pub mod program;
pub mod scram;
mod server;
mod settings;
mod spans;
pub mod tls;
pub mod wire;
mod worker;

pub use server::{Server, ServerSecurity, StartError};
pub use settings::{Sending, ServerSettings};
pub use worker::SqlWorker;
pub use worker::shared::WireCounters;
