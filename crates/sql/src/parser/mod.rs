//! From text to syntax: scripts are cut, literals taken out, and each statement parsed.
//!
//! The grammar of queries and schema statements is the `sqlparser` library's with its PostgreSQL dialect; transaction control,
//! settings, COPY, EXPLAIN and the like are read by a small grammar of our own (`utility`), because theirs lacks options that
//! drivers use and its syntax trees do not say where the inner statement starts.

pub(crate) mod cursor;
mod dialect;
mod forms;
pub(crate) mod identity;
pub(crate) mod lexer;
mod normalise;
mod parenthesised;
pub(crate) mod places;
mod queries;
mod rewrites;
mod rows_from;
mod script;
pub(crate) mod subscripts;
pub(crate) mod syntax;
mod table_like;
mod tails;
pub(crate) mod unsupported;
pub(crate) mod utility;

pub use normalise::{Literal, Literals, Normalised, normalise, text_of_key};
pub(crate) use normalise::{highest_parameter, number_literal};
pub(crate) use rewrites::{JOIN_ALIAS_QUOTE, NULLS_NOT_DISTINCT, UNTYPED};
pub(crate) use rows_from::is_rows_from;
pub use script::{Piece, split_script};
pub(crate) use syntax::{ConflictTarget, InsertClauses, at_semicolon};
pub(crate) use table_like::LIKE_QUOTE;
pub(crate) use tails::with_tied_counts;

/// 42601 if the text is no statement at all. What is found out later, by names and types, is no matter of this.
pub(crate) fn check_syntax(sql: &str) -> rubato_base::Result<()> {
    let source = syntax::Source::new(sql);
    let checked = match utility::parse_utility(source) {
        Ok(None) => syntax::with_stack_for(sql, || syntax::parse_statement(source).map(drop)),
        Ok(Some(_)) => Ok(()),
        Err(error) => Err(error),
    };
    match checked {
        Err(error) if error.code() == rubato_base::SqlState::SYNTAX_ERROR => Err(error),
        _ => Ok(()),
    }
}
