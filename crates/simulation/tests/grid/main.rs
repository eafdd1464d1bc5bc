//! The grid: whole nodes by hand, and from seeds.

mod growth;
mod restarts;
mod seeds;
mod tpcc;
