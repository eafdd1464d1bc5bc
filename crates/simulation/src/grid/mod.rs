//! The simulated grid: two to five whole nodes ([`rubato_node::grid::GridNode`]) in virtual time, over a network that delays, loses,
//! repeats and reorders messages, and disks that fail. One seed decides everything.
//!
//! Rows lie on the node that their number says; clients are attached to nodes, and run the workloads of the one node over all, and
//! TPC-C in operations ([`tpcc`]). Each run ends with a time in which nothing goes wrong any more: then every transaction has to be
//! decided everywhere, within a minute, logs can be cut, and all nodes start again with the same rows.
//!
//! Start with [`plan`], then [`run`].

pub mod broken;
mod clients;
mod end;
mod network;
pub mod plan;
mod sites;
mod talk;
pub mod tpcc;
mod troubles;
mod world;

pub(crate) use plan::left_out_rounds;
pub use plan::{GridPlan, GridWorkload};
pub use world::run;
