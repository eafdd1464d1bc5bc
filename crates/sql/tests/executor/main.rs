//! The executor on plans built by hand, against the real formula database.

mod copy;
mod names;
mod pausing;
mod scripts;
mod select;
mod waiting;
mod world;
mod write;
