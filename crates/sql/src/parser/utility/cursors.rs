//! Cursors of SQL: DECLARE, FETCH, MOVE and CLOSE.

use super::{Syntax, done};
use crate::parser::cursor::Cursor;
use crate::parser::lexer::TokenKind;
use crate::statement::{CursorOptions, FetchRows, Utility};
use rubato_base::{Error, Result, SqlState};

/// `DECLARE name [BINARY] [ASENSITIVE | INSENSITIVE] [[NO] SCROLL] CURSOR [{WITH | WITHOUT} HOLD] FOR query`
pub(super) fn declare(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = cursor.name()?;
    let mut options = CursorOptions::default();
    let (mut scrolls, mut asensitive, mut no_scroll) = (false, false, false);
    while !cursor.accept("cursor") {
        match cursor.accept_any(&["binary", "insensitive", "asensitive", "scroll"]) {
            Some("binary") => options.binary = true,
            Some("insensitive") => options.insensitive = true,
            Some("asensitive") => asensitive = true,
            Some(_) => scrolls = true,
            None if cursor.accept_all(&["no", "scroll"]) => no_scroll = true,
            None => return Err(cursor.error()),
        }
    }
    if cursor.accept("with") {
        cursor.expect("hold")?;
        options.hold = true;
    } else if cursor.accept("without") {
        cursor.expect("hold")?;
    }
    cursor.expect("for")?;
    if cursor.is_at_end() {
        return Err(cursor.error());
    }
    if scrolls && no_scroll {
        return Err(both("SCROLL", "NO SCROLL"));
    }
    if options.insensitive && asensitive {
        return Err(both("INSENSITIVE", "ASENSITIVE"));
    }
    if scrolls {
        return Err(Error::unsupported("DECLARE SCROLL CURSOR").with_hint(FORWARD_ONLY));
    }
    Ok(Syntax::Declare {
        name,
        options,
        statement: (cursor.offset(), cursor.end_offset()),
    })
}

const FORWARD_ONLY: &str = "Cursors are read forward: FETCH NEXT, FETCH FORWARD n, FETCH ALL.";

fn both(one: &str, other: &str) -> Error {
    let message = format!("cannot specify both {one} and {other}");
    Error::new(SqlState::INVALID_CURSOR_DEFINITION, message)
}

/// `FETCH [direction] [FROM | IN] name`, and MOVE.
pub(super) fn fetch(cursor: &mut Cursor<'_>, is_move: bool) -> Result<Syntax> {
    let mut rows = FetchRows::Next(1);
    // A last word is the name, whatever else it could be.
    if !cursor.is_at_last() {
        if cursor.accept("all") {
            rows = FetchRows::All;
        } else if cursor.accept("forward") {
            if cursor.accept("all") {
                rows = FetchRows::All;
            } else if !cursor.is_at_last() {
                rows = count(cursor, is_move)?.unwrap_or(rows);
            }
        } else if let Some(word) = cursor.accept_any(&["prior", "first", "last", "absolute", "relative", "backward"]) {
            return Err(not_forward(word, is_move));
        } else if !cursor.accept("next") {
            rows = count(cursor, is_move)?.unwrap_or(rows);
        }
        cursor.accept_any(&["from", "in"]);
    }
    let name = cursor.name()?;
    done(cursor, Utility::Fetch { name, rows, is_move })
}

fn count(cursor: &mut Cursor<'_>, is_move: bool) -> Result<Option<FetchRows>> {
    let is_negative = cursor.accept_symbol(b'-');
    let has_sign = is_negative || cursor.accept_symbol(b'+');
    match cursor.peek().filter(|token| token.kind == TokenKind::Integer) {
        Some(token) => {
            let number = token.text(cursor.source.text).parse::<i32>();
            let number = number.map_err(|_| cursor.error())?;
            cursor.advance();
            if is_negative && number > 0 {
                return Err(not_forward("backward", is_move));
            }
            Ok(Some(FetchRows::Next(number.unsigned_abs() as usize)))
        }
        None if has_sign => Err(cursor.error()),
        None => Ok(None),
    }
}

fn not_forward(direction: &str, is_move: bool) -> Error {
    let verb = if is_move { "MOVE" } else { "FETCH" };
    Error::unsupported(format!("{verb} {}", direction.to_ascii_uppercase())).with_hint(FORWARD_ONLY)
}

/// `CLOSE {name | ALL}`
pub(super) fn close(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = if cursor.accept("all") {
        None
    } else {
        Some(cursor.name()?)
    };
    done(cursor, Utility::Close(name))
}
