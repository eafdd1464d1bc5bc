//! The workloads as commands and as library calls over any client.

pub mod demo;
pub mod hotspot;
pub(crate) mod tpch;
pub mod tpcc;
pub mod ycsb;
