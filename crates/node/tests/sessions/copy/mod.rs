//! COPY FROM STDIN whose data is read by another thread.

mod ahead;
mod anew;
pub mod data;
mod ends;
mod errors;
mod filter;
pub mod laid;
pub mod lent;
mod mutations;
mod waits;
