//! Statements of PostgreSQL that this version does not have, told by their first words.

use super::lexer::{Lexer, TokenKind};
use rubato_base::Error;

/// What there is instead.
pub(crate) const HINT: &str =
    "This version has schemas, tables, views, indexes and sequences; no functions, triggers, roles or grants.";

/// Verbs with no statement of ours.
const VERBS: [&str; 8] = [
    "call", "grant", "import", "load", "merge", "reassign", "revoke", "security",
];

/// What CREATE, ALTER and DROP may stand before, besides tables, indexes and sequences; two words where one alone is no name.
const KINDS: [&str; 36] = [
    "access method",
    "aggregate",
    "cast",
    "collation",
    "conversion",
    "database",
    "default privileges",
    "domain",
    "event trigger",
    "extension",
    "foreign data wrapper",
    "foreign table",
    "function",
    "group",
    "language",
    "large object",
    "operator",
    "owned",
    "policy",
    "procedure",
    "publication",
    "recursive view",
    "role",
    "routine",
    "rule",
    "server",
    "statistics",
    "subscription",
    "system",
    "tablespace",
    "text search",
    "transform",
    "trigger",
    "type",
    "user mapping",
    "user",
];

/// 0A000 with the name of the statement, if it is one that there is in PostgreSQL and not here.
pub(crate) fn unsupported_construct(sql: &str) -> Option<Error> {
    let words = first_words(sql);
    let verb = words.first()?.as_str();
    if VERBS.contains(&verb) {
        return Some(error(verb));
    }
    if !matches!(verb, "create" | "alter" | "drop") {
        return None;
    }
    let mut rest = words[1..].join(" ");
    for passed_over in ["or replace ", "trusted ", "procedural ", "constraint "] {
        rest = rest.strip_prefix(passed_over).map(str::to_owned).unwrap_or(rest);
    }
    let is_kind = |kind: &&&str| {
        rest.strip_prefix(**kind)
            .is_some_and(|behind| behind.is_empty() || behind.starts_with(' '))
    };
    KINDS.iter().find(is_kind).map(|kind| error(&format!("{verb} {kind}")))
}

fn error(what: &str) -> Error {
    Error::unsupported(what.to_ascii_uppercase()).with_hint(HINT)
}

/// The words without quotes that the text begins with, as many as matter.
fn first_words(sql: &str) -> Vec<String> {
    let mut lexer = Lexer::new(sql);
    let mut words = Vec::new();
    while let Ok(Some(token)) = lexer.next_token() {
        if token.kind != TokenKind::Word || words.len() == 6 {
            break;
        }
        words.push(token.text(sql).to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructs_are_named() {
        for (sql, name) in [
            ("ALTER SYSTEM SET a = 1", "ALTER SYSTEM"),
            (
                "create or replace procedure p() language sql as 'x'",
                "CREATE PROCEDURE",
            ),
            ("CREATE USER u PASSWORD 'x'", "CREATE USER"),
            ("create user mapping for u server s", "CREATE USER MAPPING"),
            (
                "alter default privileges grant select on tables to x",
                "ALTER DEFAULT PRIVILEGES",
            ),
            ("create constraint trigger t after insert on x", "CREATE TRIGGER"),
        ] {
            let error = unsupported_construct(sql).unwrap();
            assert_eq!(error.code().as_str(), "0A000");
            assert_eq!(error.message(), format!("{name} is not supported"));
        }
        for other in [
            "create table view (a int)",
            "alter index i rename to j",
            "select 1",
            "create typed",
            "\"grant\"",
            "",
        ] {
            assert!(unsupported_construct(other).is_none(), "{other}");
        }
    }
}
