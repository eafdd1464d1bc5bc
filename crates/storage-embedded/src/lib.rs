//! The default store: [`EmbeddedStore`], folded rows in a log-structured tree on the local disk (the engine is fjall;
//! `docs/decisions/0002-embedded-store.md` says why).
//!
//! # Invariants
//! - All tables lie in one tree of the engine, so a batch is there whole or not at all, and the order of batches is kept.
//! - Rows become files, durably, and never go through the engine's journal; what this room notes of its tables always does.
//! - What was noted stays visible when the engine stops on a write error: it is held in memory until it is forced, and
//!   given to the engine that takes over. Reads go on while the disk is full.
//! - The number of a dropped table's key space is never used again.
//!
//! # What this room refuses
//! A second process on the same folder; a folder of a newer format; to go on over damage.
//!
//! # Where to start
//! `store` for the calls, `layout` for what is looked at before the engine starts, `tables` for
//! which of its files is damaged, `reserve` for room on a full disk, `keys` for how tables share the tree, `engine` for how the engine is set up.

mod engine;
mod keys;
mod layout;
mod reserve;
mod store;
mod tables;

pub use store::EmbeddedStore;
