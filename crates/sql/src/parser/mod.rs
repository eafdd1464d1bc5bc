//! From text to syntax: scripts are cut, literals taken out, and each statement parsed.
//!
//! The grammar of queries and schema statements is the `sqlparser` library's with its PostgreSQL dialect; transaction control,
//! settings, COPY, EXPLAIN and the like are read by a small grammar of our own (`utility`), because theirs lacks options that
//! drivers use and its syntax trees do not say where the inner statement starts.

pub(crate) mod cursor;
pub(crate) mod lexer;
mod normalise;
mod script;
pub(crate) mod syntax;
pub(crate) mod utility;

pub use normalise::{Literal, Literals, Normalised, normalise, text_of_key};
pub(crate) use normalise::{highest_parameter, number_literal};
pub use script::{Piece, split_script};
