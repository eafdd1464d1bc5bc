//! A grid that grows and shrinks beneath sessions: whole nodes ([`rubato_node::grid::GridNode`]) with SQL sessions of their clients, in
//! virtual time. One seed decides everything.
//!
//! The clients run the workloads of the one node, in SQL, at any node. Meanwhile an operator has nodes join, tables move and nodes
//! drained and removed, by the statements of `rubato grid` (decision 0036); nodes crash, at any message and any operation of their disks,
//! and channels between them break for a while. The history that the clients saw is judged by the checkers of the other runs. Where no
//! node crashes and no channel breaks, clients must not be told of anything but conflicts.
//!
//! Between two nodes there is a channel as `rubato_grid::links` has it: what is said comes in order and once, until the channel breaks.
//! (Messages that are lost alone, come twice or overtake each other are in [`crate::grid`].)
//!
//! Start with [`plan`], then [`run`].

mod clients;
mod end;
mod network;
mod operator;
pub mod plan;
mod sites;
mod world;

pub use plan::GrowthPlan;
pub use world::run;
