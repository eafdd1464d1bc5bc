//! TPC-C over the nodes of a grid: the five transactions in operations of the protocol, with formulas as SQL makes them, at a small
//! scale, and its twelve conditions.
//!
//! There is no SQL over several nodes yet; the single node runs the workload in SQL ([`crate::programs::tpcc`]).

mod conditions;
mod population;
mod profiles;
mod rows;
mod tables;

pub use conditions::check;
pub(super) use population::{contents, schema_of};
pub(super) use profiles::{Profile, run};
pub(super) use tables::names;
