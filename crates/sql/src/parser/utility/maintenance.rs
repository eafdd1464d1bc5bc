//! VACUUM, ANALYZE, CLUSTER, REINDEX and LOCK: there is nothing to do for them but to see that what they name is there.

use super::{Syntax, done};
use crate::parser::cursor::Cursor;
use crate::statement::{Utility, Where};
use rubato_base::Result;

/// What LOCK may ask for.
const LOCK_MODES: [&[&str]; 8] = [
    &["access", "share"],
    &["row", "share"],
    &["row", "exclusive"],
    &["share", "update", "exclusive"],
    &["share", "row", "exclusive"],
    &["share"],
    &["exclusive"],
    &["access", "exclusive"],
];

pub(super) fn vacuum(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    options(cursor, &["full", "freeze", "verbose", "analyze", "analyse"])?;
    let relations = relations(cursor)?;
    on("VACUUM", relations, Where::OutsideBlock("VACUUM"), cursor)
}

pub(super) fn analyze(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    options(cursor, &["verbose"])?;
    let relations = relations(cursor)?;
    on("ANALYZE", relations, Where::Anywhere, cursor)
}

pub(super) fn cluster(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    options(cursor, &["verbose"])?;
    if cursor.is_at_end() {
        return on("CLUSTER", Vec::new(), Where::OutsideBlock("CLUSTER"), cursor);
    }
    let mut relations = vec![cursor.qualified_name()?];
    if cursor.accept("using") {
        cursor.name()?;
    } else if cursor.accept("on") {
        // As it was written once: the index first.
        relations = vec![cursor.qualified_name()?];
    }
    on("CLUSTER", relations, Where::Anywhere, cursor)
}

pub(super) fn reindex(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    options(cursor, &[])?;
    let kinds = ["index", "table", "schema", "database", "system"];
    let kind = cursor.accept_any(&kinds).ok_or_else(|| cursor.error())?;
    let is_concurrent = cursor.accept("concurrently");
    let is_of_one = matches!(kind, "index" | "table");
    let named = match cursor.is_at_end() && matches!(kind, "database" | "system") {
        true => Vec::new(),
        false => vec![cursor.qualified_name()?],
    };
    let place = match kind {
        _ if is_concurrent => Where::OutsideBlock("REINDEX CONCURRENTLY"),
        "schema" => Where::OutsideBlock("REINDEX SCHEMA"),
        "database" => Where::OutsideBlock("REINDEX DATABASE"),
        "system" => Where::OutsideBlock("REINDEX SYSTEM"),
        _ => Where::Anywhere,
    };
    let relations = if is_of_one { named } else { Vec::new() };
    on("REINDEX", relations, place, cursor)
}

pub(super) fn lock(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    cursor.accept("table");
    let mut relations = Vec::new();
    loop {
        let is_only = cursor.accept("only");
        relations.push(cursor.qualified_name()?);
        if !is_only {
            cursor.accept_symbol(b'*');
        }
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    if cursor.accept("in") {
        if !LOCK_MODES.iter().any(|mode| cursor.accept_all(mode)) {
            return Err(cursor.error());
        }
        cursor.expect("mode")?;
    }
    cursor.accept("nowait");
    on("LOCK TABLE", relations, Where::WithinBlock, cursor)
}

fn on(tag: &'static str, relations: Vec<Vec<String>>, place: Where, cursor: &Cursor<'_>) -> Result<Syntax> {
    done(cursor, Utility::OnRelations { tag, relations, place })
}

/// Options in brackets, or as words in front.
fn options(cursor: &mut Cursor<'_>, words: &[&'static str]) -> Result<()> {
    if cursor.accept_symbol(b'(') {
        cursor.skip_parenthesis()?;
        return Ok(());
    }
    while cursor.accept_any(words).is_some() {}
    Ok(())
}

/// Any number of names, each with columns in brackets if need be.
fn relations(cursor: &mut Cursor<'_>) -> Result<Vec<Vec<String>>> {
    let mut relations = Vec::new();
    if cursor.is_at_end() {
        return Ok(relations);
    }
    loop {
        relations.push(cursor.qualified_name()?);
        if cursor.accept_symbol(b'(') {
            cursor.skip_parenthesis()?;
        }
        if !cursor.accept_symbol(b',') {
            return Ok(relations);
        }
    }
}
