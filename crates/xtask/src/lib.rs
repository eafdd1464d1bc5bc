//! The project's own checks (`cargo xtask check`) and the one test command (`cargo xtask test`).
//!
//! What the room is: everything that a reviewer would otherwise have to look for by eye. [`check`] holds rules over the
//! tree (layering, sizes, forbidden words, links, openings of rooms); [`run`] calls the tools, installs what is missing
//! and drives the client suites of `tests/clients`.
//!
//! This room refuses to import any other room: a check must not depend on what it judges.
//!
//! Invariants:
//! - A rule is a pure function from texts to [`check::Finding`]s, and has a test that shows that it can fail.
//! - The same rules run in `cargo xtask check` and in `cargo test -p rubato-xtask`.
//! - A tool that is missing and cannot be installed fails the run with a sentence that names it; nothing is skipped silently.
//!
//! Start with [`check::run_all`], then [`run::test`].

pub mod check;
pub mod run;
pub mod source;
pub mod tree;
