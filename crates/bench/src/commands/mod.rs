//! The workloads as commands and as library calls over any client.

pub mod demo;
pub mod hotspot;
pub mod tpcc;
pub(crate) mod tpch;
pub mod ycsb;
