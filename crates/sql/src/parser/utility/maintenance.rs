//! VACUUM, ANALYZE, CLUSTER and REINDEX, for which there is nothing to do but to see that what they name is there, and LOCK.

use super::{Syntax, done};
use crate::advisory::LockMode;
use crate::parser::cursor::Cursor;
use crate::parser::lexer::TokenKind;
use crate::statement::{UpkeepKind, UpkeepOf, Utility, Where};
use rubato_base::{Error, Result, SqlState};

/// What LOCK may ask for; `share` behind what begins with it.
const LOCK_MODES: [(&[&str], LockMode); 8] = [
    (&["access", "share"], LockMode::AccessShare),
    (&["row", "share"], LockMode::RowShare),
    (&["row", "exclusive"], LockMode::RowExclusive),
    (&["share", "update", "exclusive"], LockMode::ShareUpdateExclusive),
    (&["share", "row", "exclusive"], LockMode::ShareRowExclusive),
    (&["share"], LockMode::Share),
    (&["exclusive"], LockMode::Exclusive),
    (&["access", "exclusive"], LockMode::AccessExclusive),
];

pub(super) fn vacuum(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let analyzes = options(cursor, &["full", "freeze", "verbose", "analyze", "analyse"])?;
    let relations = relations(cursor)?;
    if !analyzes && relations.iter().any(|relation| !relation.columns.is_empty()) {
        let message = "ANALYZE option must be specified when a column list is provided";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
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
    let mut relations = vec![named(UpkeepKind::Relation, cursor)?];
    if cursor.accept("using") {
        cursor.name()?;
    } else if cursor.accept("on") {
        // As it was written once: the index first.
        relations = vec![named(UpkeepKind::Relation, cursor)?];
    }
    on("CLUSTER", relations, Where::Anywhere, cursor)
}

pub(super) fn reindex(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    options(cursor, &[])?;
    let kinds = ["index", "table", "schema", "database", "system"];
    let kind = cursor.accept_any(&kinds).ok_or_else(|| cursor.error())?;
    let is_concurrent = cursor.accept("concurrently");
    let relations = match kind {
        "index" => vec![named(UpkeepKind::Index, cursor)?],
        "table" => vec![named(UpkeepKind::Table, cursor)?],
        "database" | "system" if cursor.is_at_end() => Vec::new(),
        _ => {
            cursor.qualified_name()?;
            Vec::new()
        }
    };
    let place = match kind {
        _ if is_concurrent => Where::OutsideBlock("REINDEX CONCURRENTLY"),
        "schema" => Where::OutsideBlock("REINDEX SCHEMA"),
        "database" => Where::OutsideBlock("REINDEX DATABASE"),
        "system" => Where::OutsideBlock("REINDEX SYSTEM"),
        _ => Where::Anywhere,
    };
    on("REINDEX", relations, place, cursor)
}

pub(super) fn lock(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    cursor.accept("table");
    let mut relations = Vec::new();
    loop {
        let is_only = cursor.accept("only");
        relations.push(named(UpkeepKind::Relation, cursor)?);
        if !is_only {
            cursor.accept_symbol(b'*');
        }
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    let mut mode = LockMode::AccessExclusive;
    if cursor.accept("in") {
        let asked = LOCK_MODES.iter().find(|(words, _)| cursor.accept_all(words));
        mode = asked.ok_or_else(|| cursor.error())?.1;
        cursor.expect("mode")?;
    }
    let waits = !cursor.accept("nowait");
    let utility = Utility::LockTables { relations, mode, waits };
    done(cursor, utility)
}

fn on(tag: &'static str, relations: Vec<UpkeepOf>, place: Where, cursor: &Cursor<'_>) -> Result<Syntax> {
    done(cursor, Utility::OnRelations { tag, relations, place })
}

/// Options in brackets, or as words in front: whether ANALYZE is one of them.
fn options(cursor: &mut Cursor<'_>, words: &[&'static str]) -> Result<bool> {
    const ANALYZE: [&str; 2] = ["analyze", "analyse"];
    let mut analyzes = false;
    if cursor.accept_symbol(b'(') {
        while !cursor.accept_symbol(b')') {
            if cursor.accept_any(&ANALYZE).is_some() {
                analyzes = cursor.accept_any(&["false", "off"]).is_none();
            } else if cursor.advance().is_none() {
                return Err(cursor.error());
            }
        }
        return Ok(analyzes);
    }
    while let Some(word) = cursor.accept_any(words) {
        analyzes |= ANALYZE.contains(&word);
    }
    Ok(analyzes)
}

fn named(kind: UpkeepKind, cursor: &mut Cursor<'_>) -> Result<UpkeepOf> {
    Ok(UpkeepOf {
        path: cursor.qualified_name()?,
        columns: Vec::new(),
        kind,
    })
}

/// Any number of names, each with columns in brackets if need be.
fn relations(cursor: &mut Cursor<'_>) -> Result<Vec<UpkeepOf>> {
    let mut relations = Vec::new();
    if cursor.is_at_end() {
        return Ok(relations);
    }
    loop {
        let mut relation = named(UpkeepKind::Relation, cursor)?;
        if cursor.peek().is_some_and(|token| token.kind == TokenKind::Symbol(b'(')) {
            relation.columns = cursor.name_list()?;
        }
        relations.push(relation);
        if !cursor.accept_symbol(b',') {
            return Ok(relations);
        }
    }
}
