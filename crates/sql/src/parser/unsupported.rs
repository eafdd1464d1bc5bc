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
const KINDS: [&str; 34] = [
    "access method",
    "aggregate",
    "cast",
    "collation",
    "conversion",
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

/// Forms of statements and clauses: how the statement begins, the words that it has one behind the other (what stands for any name or
/// number is an underscore), and its name.
const FORMS: [(&str, &str, &str); 45] = [
    ("", "where current of", "WHERE CURRENT OF"),
    ("", "rows from (", "ROWS FROM with lists of column definitions"),
    ("", "exclude current row", "EXCLUDE of a window frame"),
    ("", "exclude group", "EXCLUDE of a window frame"),
    ("", "exclude ties", "EXCLUDE of a window frame"),
    ("with", "search depth first by", "SEARCH"),
    ("with", "search breadth first by", "SEARCH"),
    ("with", ") cycle _", "CYCLE"),
    ("create", "with check option", "WITH CHECK OPTION"),
    ("create", "with local check option", "WITH LOCAL CHECK OPTION"),
    ("create", "with cascaded check option", "WITH CASCADED CHECK OPTION"),
    ("create view", "_ with (", "CREATE VIEW WITH options"),
    ("create or replace view", "_ with (", "CREATE VIEW WITH options"),
    ("create table _ of", "", "CREATE TABLE ... OF type"),
    ("create table", ") using _", "CREATE TABLE ... USING an access method"),
    ("create", "as execute _", "CREATE TABLE ... AS EXECUTE"),
    ("create table", "set null (", "ON DELETE SET NULL of some columns"),
    ("create table", "set default (", "ON DELETE SET DEFAULT of some columns"),
    ("alter table", "set null (", "ON DELETE SET NULL of some columns"),
    ("alter table", "set default (", "ON DELETE SET DEFAULT of some columns"),
    ("create", "index on only", "CREATE INDEX ON ONLY"),
    ("alter index", "set (", "ALTER INDEX ... SET"),
    ("alter index", "reset (", "ALTER INDEX ... RESET"),
    ("alter index", "set tablespace", "ALTER INDEX ... SET TABLESPACE"),
    ("alter index", "attach partition", "ALTER INDEX ... ATTACH PARTITION"),
    ("alter index", "set statistics", "ALTER INDEX ... SET STATISTICS"),
    (
        "alter index",
        "depends on extension",
        "ALTER INDEX ... DEPENDS ON EXTENSION",
    ),
    ("alter materialized view", "", "this form of ALTER MATERIALIZED VIEW"),
    ("alter sequence", "logged", "ALTER SEQUENCE ... SET LOGGED"),
    ("alter table all in tablespace", "", "ALTER TABLE ALL IN TABLESPACE"),
    ("alter table", "set tablespace", "ALTER TABLE ... SET TABLESPACE"),
    ("alter table", "inherit _", "ALTER TABLE ... INHERIT"),
    ("alter table _ of", "", "ALTER TABLE ... OF type"),
    ("alter table _ not of", "", "ALTER TABLE ... NOT OF"),
    ("alter table", "attach partition", "ALTER TABLE ... ATTACH PARTITION"),
    ("alter table", "detach partition", "ALTER TABLE ... DETACH PARTITION"),
    ("alter table", "set compression", "ALTER TABLE ... SET COMPRESSION"),
    ("alter table", "drop identity", "ALTER TABLE ... DROP IDENTITY"),
    ("alter view", "alter", "ALTER VIEW ... ALTER COLUMN"),
    ("alter view", "rename column", "ALTER VIEW ... RENAME COLUMN"),
    ("alter view", "set (", "ALTER VIEW ... SET"),
    ("alter view", "reset (", "ALTER VIEW ... RESET"),
    ("set", "xml option", "SET XML OPTION"),
    ("select", "variadic", "VARIADIC"),
    ("", "tablesample", "TABLESAMPLE"),
];

/// How many tokens of a statement are looked at for a form.
const FORM_TOKENS_MAX: usize = 10_000;

/// 0A000 with the name of the form of a statement that the grammar does not read.
fn unsupported_form(sql: &str) -> Option<Error> {
    let mut lexer = Lexer::new(sql);
    let mut words: Vec<String> = Vec::new();
    while let Ok(Some(token)) = lexer.next_token() {
        if words.len() == FORM_TOKENS_MAX {
            break;
        }
        words.push(match token.kind {
            TokenKind::Word | TokenKind::Symbol(_) => token.text(sql).to_ascii_lowercase(),
            _ => "_".to_owned(),
        });
    }
    let fits = |own: &[String], wanted: &[&str]| {
        own.iter()
            .zip(wanted)
            .all(|(own, wanted)| *wanted == "_" || own == wanted)
    };
    let found = FORMS.iter().find(|(start, part, _)| {
        let start: Vec<&str> = start.split_whitespace().collect();
        let part: Vec<&str> = part.split_whitespace().collect();
        let begins = words.len() >= start.len() && fits(&words, &start);
        begins && (part.is_empty() || words.windows(part.len()).any(|window| fits(window, &part)))
    })?;
    Some(Error::unsupported(found.2))
}

/// 0A000 with the name of the construct, if a statement that is not read has one that there is in PostgreSQL and not here.
pub(crate) fn unsupported(sql: &str) -> Option<Error> {
    unsupported_construct(sql).or_else(|| unsupported_form(sql))
}

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
    fn forms_are_named() {
        for (sql, name) in [
            ("delete from t where current of c", "WHERE CURRENT OF"),
            (
                "create view v as select 1 with local check option",
                "WITH LOCAL CHECK OPTION",
            ),
            (
                "alter table only t attach partition p default",
                "ALTER TABLE ... ATTACH PARTITION",
            ),
            (
                "select sum(n) over (order by n rows 1 preceding exclude ties) from t",
                "EXCLUDE of a window frame",
            ),
            ("with recursive r as (select 1) cycle n set c using p select 1", "CYCLE"),
            (
                "select * from rows from (f(1) as (a int))",
                "ROWS FROM with lists of column definitions",
            ),
        ] {
            let error = unsupported(sql).unwrap();
            assert_eq!(error.code().as_str(), "0A000");
            assert_eq!(error.message(), format!("{name} is not supported"));
        }
        for other in [
            "select * fro t",
            "create tabel t (a int)",
            "update t sett n = 1",
            "select 1 +",
        ] {
            assert!(unsupported(other).is_none(), "{other}");
        }
    }

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
