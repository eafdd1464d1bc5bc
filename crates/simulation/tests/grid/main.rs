//! The grid: whole nodes by hand, and from seeds.

mod restarts;
mod seeds;
mod tpcc;
