//! Cursors of SQL: DECLARE, FETCH, MOVE and CLOSE.

use super::{Syntax, done};
use crate::parser::cursor::Cursor;
use crate::parser::lexer::TokenKind;
use crate::statement::{CursorOptions, Movement, Utility};
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
    options.scrolls = (scrolls || no_scroll).then_some(scrolls);
    Ok(Syntax::Declare {
        name,
        options,
        statement: (cursor.offset(), cursor.end_offset()),
    })
}

fn both(one: &str, other: &str) -> Error {
    let message = format!("cannot specify both {one} and {other}");
    Error::new(SqlState::INVALID_CURSOR_DEFINITION, message)
}

/// `FETCH [direction] [FROM | IN] name`, and MOVE.
pub(super) fn fetch(cursor: &mut Cursor<'_>, is_move: bool) -> Result<Syntax> {
    let mut movement = Movement::Forward(1);
    // A last word is the name, whatever else it could be.
    if !cursor.is_at_last() {
        movement = direction(cursor)?;
        cursor.accept_any(&["from", "in"]);
    }
    let name = cursor.name()?;
    done(
        cursor,
        Utility::Fetch {
            name,
            movement,
            is_move,
        },
    )
}

fn direction(cursor: &mut Cursor<'_>) -> Result<Movement> {
    const WORDS: [&str; 9] = [
        "next", "prior", "first", "last", "absolute", "relative", "forward", "backward", "all",
    ];
    let word = cursor.accept_any(&WORDS);
    Ok(match word {
        Some("prior") => Movement::Backward(1),
        Some("first") => Movement::Absolute(1),
        Some("last") => Movement::Absolute(-1),
        Some("absolute") => Movement::Absolute(number(cursor)?.ok_or_else(|| cursor.error())?),
        Some("relative") => match number(cursor)?.ok_or_else(|| cursor.error())? {
            0 => Movement::Forward(0),
            number => Movement::Relative(number),
        },
        Some("all") => Movement::Forward(u64::MAX),
        Some("next") => Movement::Forward(1),
        forward_or_backward => {
            let is_backward = forward_or_backward == Some("backward");
            let has_word = forward_or_backward.is_some();
            let is_all = has_word && !cursor.is_at_last() && cursor.accept("all");
            let count = match is_all {
                true => i64::MAX,
                false if has_word && cursor.is_at_last() => 1,
                false => number(cursor)?.unwrap_or(1),
            };
            let rows = if is_all { u64::MAX } else { count.unsigned_abs() };
            if rows == 0 || is_backward == (count < 0) {
                Movement::Forward(rows)
            } else {
                Movement::Backward(rows)
            }
        }
    })
}

fn number(cursor: &mut Cursor<'_>) -> Result<Option<i64>> {
    let is_negative = cursor.accept_symbol(b'-');
    let has_sign = is_negative || cursor.accept_symbol(b'+');
    match cursor.peek().filter(|token| token.kind == TokenKind::Integer) {
        Some(token) => {
            let number = token.text(cursor.source.text).parse::<i32>();
            let number = i64::from(number.map_err(|_| cursor.error())?);
            cursor.advance();
            Ok(Some(if is_negative { -number } else { number }))
        }
        None if has_sign => Err(cursor.error()),
        None => Ok(None),
    }
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
