//! The order of the queries of WITH RECURSIVE, each of which may read those behind it.

use super::{Context, located};
use crate::parser::lexer::{Lexer, TokenKind};
use crate::parser::syntax::fold;
use rubato_base::{Error, Result, SqlState};
use sqlparser::ast::{self, Spanned};

impl Context<'_> {
    /// How often recursive queries that are being bound were read so far.
    pub(super) fn recursive_reads(&self) -> usize {
        let names = self.names.borrow();
        let recursive = names.iter().filter(|named| named.is_recursive());
        recursive.map(|named| named.references).sum()
    }

    /// 42P19 if one was read since where that may not be: within an outer join, or EXCEPT.
    pub(super) fn check_not_within(&self, place: &str, before: usize) -> Result<()> {
        if self.recursive_reads() == before {
            return Ok(());
        }
        let names = self.names.borrow();
        let name = names.iter().rev().find(|named| named.is_recursive());
        let name = name.map_or("", |named| &named.name);
        Err(not_well_formed(name, &format!("within {place}")))
    }

    /// 42P19 if a recursive term, which was bound once, reads its query more than once.
    pub(super) fn check_reads_once(&self, name: &str, term: &ast::SetExpr) -> Result<()> {
        let names = self.names.borrow();
        let own = names.iter().rev().find(|named| named.name == name);
        match own.is_some_and(|named| named.references > 1) {
            true => located(self, term.span(), Err(not_well_formed(name, "more than once"))),
            false => Ok(()),
        }
    }

    /// Binds something that is bound once more: only then it counts how often names of WITH are read.
    pub(super) fn uncounted<T>(&self, bind: impl FnOnce() -> T) -> T {
        let before: Vec<usize> = self.names.borrow().iter().map(|named| named.references).collect();
        let bound = bind();
        let mut names = self.names.borrow_mut();
        for (named, references) in names.iter_mut().zip(before) {
            named.references = references;
        }
        bound
    }
}

fn not_well_formed(name: &str, how: &str) -> Error {
    let message = format!("recursive reference to query \"{name}\" must not appear {how}");
    Error::new(SqlState(*b"42P19"), message)
}

/// The queries of WITH, those before the ones that read them. Queries that seem to read each other stay as they are listed.
pub(super) fn in_order(with: &ast::With) -> Vec<&ast::Cte> {
    let mut waiting: Vec<&ast::Cte> = with.cte_tables.iter().collect();
    if !with.recursive || waiting.len() < 2 {
        return waiting;
    }
    let names: Vec<String> = waiting.iter().map(|table| fold(&table.alias.name)).collect();
    let mut reads: Vec<Vec<usize>> = waiting.iter().map(|table| named_in(table, &names)).collect();
    let mut places: Vec<usize> = (0..waiting.len()).collect();
    let mut ordered = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let is_free = |index: &usize| {
            reads[*index]
                .iter()
                .all(|other| *other == places[*index] || !places.contains(other))
        };
        let next = (0..waiting.len()).find(is_free).unwrap_or(0);
        ordered.push(waiting.remove(next));
        places.remove(next);
        reads.remove(next);
    }
    ordered
}

/// Which of the names stand somewhere in the text of a query.
fn named_in(table: &ast::Cte, names: &[String]) -> Vec<usize> {
    let text = table.query.to_string();
    let mut lexer = Lexer::new(&text);
    let mut found = Vec::new();
    while let Ok(Some(token)) = lexer.next_token() {
        let word = token.text(&text);
        let name = match token.kind {
            TokenKind::Word => word.to_ascii_lowercase(),
            TokenKind::QuotedWord => word[1..word.len() - 1].replace("\"\"", "\""),
            _ => continue,
        };
        found.extend(names.iter().position(|own| *own == name));
    }
    found
}
