//! Catalog, binder, planner, executor and session: from SQL text to steps on the relay and back to rows.
//!
//! A statement's life: [`parser::normalise`] takes the literals out of the text, so that texts that differ only in literals
//! share a plan; [`binder::bind`] turns text into a typed [`statement::Statement`], choosing keys and indexes in [`planner`];
//! the `executor` runs the plan step by step against the formula database; the `session` keeps what a client has said so far.
//!
//! What does not reach its rows by key runs as a tree of operators, on an engine that this room knows as a trait only ([`analytics`]).
//!
//! This room refuses to know DataFusion. It reads no clock, opens no file and draws no random number.
//!
//! Invariants:
//! - Binding is a function of text, literals' types, declared types and one catalog version: plans can be cached by these.
//! - A [`catalog::Catalog`] is a value; a schema change makes another one ([`schema_change::apply`]).
//! - A WHERE term is dropped only where the access to the rows guarantees it.
//!
//! Start with [`plan`], which says what the stages can do.

pub mod advisory;
pub mod analytics;
pub mod binder;
pub mod catalog;
pub mod catalog_codec;
mod caught;
pub mod channels;
pub mod checkpoints;
pub mod client;
pub mod databases;
mod deparse;
pub mod executor;
pub mod explain;
pub mod far;
pub mod grid;
pub mod handing;
pub mod insight;
pub mod layout;
mod moves;
pub mod outcomes;
pub mod parser;
pub mod partition;
pub mod plan;
pub mod planner;
pub mod route;
pub mod row_numbers;
pub mod schema_change;
pub mod session;
pub mod statement;
pub mod system_tables;
pub mod window;

pub use caught::is_caught;
