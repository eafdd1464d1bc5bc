//! TPC-C, YCSB and the hot spot: set up, run, check, over a small client trait.
//!
//! **What the room is.** Pure workload logic: what a terminal does next ([`Terminal`]), which SQL that is, what the
//! tables hold at the start, and what must be true at the end. Everything is generic over [`Client`], so the same
//! terminals drive a PostgreSQL server over a socket, a Rubato node in process and a simulated grid.
//!
//! **What it refuses to do.** No sockets, no threads, no clock: time comes in as an argument (microseconds since the
//! Unix epoch), randomness comes from one seed ([`Random`]). It measures nothing; the runner of `rubato-bench` does.
//!
//! **Invariants.**
//! 1. The input of a transaction is drawn once ([`Terminal::draw`]); every attempt of it ([`Terminal::attempt`]) runs
//!    on the same input, so a retry is the same transaction and not an easier one.
//! 2. The SQL is plain: no stored procedures, no vendor hints, no subqueries, the same text for every server.
//! 3. Loaded data depend on the seed alone, whatever the number of loading sessions.
//!
//! **Where to start.** [`client`] for the trait, [`terminal`] for the retry rule, [`tpcc`] for the largest workload.

pub mod client;
pub mod hotspot;
pub mod random;
pub mod terminal;
pub mod tpcc;
pub mod values;
pub mod ycsb;

pub use client::{Batch, Client, ClientError, Decimal, Param, Rows};
pub use random::Random;
/// Where the rows of the tables lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// As the server places tables by itself.
    #[default]
    AsIs,
    /// On all nodes of a grid, by the first column of the primary key.
    Spread,
}

/// What asks for that, behind a table's columns.
const SPREAD: &str = " WITH (spread = true)";

pub use terminal::{Drawn, Ending, Outcome, Terminal, run_transaction};
