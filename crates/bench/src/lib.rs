//! Workloads over the wire against any PostgreSQL server: run, measure, compare, report, plot.
//!
//! **What the room is.** The shell around `rubato-workload`: a lean blocking client of the PostgreSQL protocol
//! ([`Connection`]), the way to a server, plain or under TLS ([`transport`]), a runner with one thread per terminal
//! ([`run_terminals`]), measurement, reports as text, JSON and SVG, and the arguments of `rubato bench` ([`BenchCommand`]).
//! It also has what both ends of a connection read of a certificate ([`certificate`]).
//!
//! **What it refuses to do.** It knows nothing of Rubato: every server gets the same bytes. Only [`paper`] does, which starts
//! grids of it. It takes no part in what a transaction is; that is `rubato-workload`.
//!
//! **Invariants.**
//! 1. Servers under comparison are driven by the same client, the same settings and the same seed, in turn.
//! 2. Only transactions that end inside the measured interval count; the latency of one includes all its retries.
//! 3. An error that reached the client is never dropped: it is counted, and the first of each kind is shown.
//!
//! **Where to start.** [`execute`] for the command line, [`demo::run_demo`] for a library call, [`tpcc`] for runs over
//! any client, in process too.

mod arguments;
pub mod certificate;
mod chart;
mod commands;
mod compare;
mod error;
mod gate;
mod loading;
mod measure;
pub mod paper;
mod plot;
mod report;
mod report_text;
mod runner;
pub mod transport;
mod url;
mod wire;

pub use arguments::{
    BenchCommand, CommonArguments, HotspotArguments, OverloadArguments, PaperArguments, TpccArguments, TpchArguments,
    YcsbArguments,
};
pub use commands::{demo, hotspot, tpcc, ycsb};
pub use compare::execute;
pub use error::BenchError;
pub use gate::{Gate, Turn};
pub use report::{CheckReport, Comparison, Headline, KindReport, RoundReport, TargetReport};
pub use runner::{RunSettings, run_terminals};
pub use url::Target;
pub use wire::Connection;
