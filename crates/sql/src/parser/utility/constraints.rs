//! SET CONSTRAINTS, and when constraints are checked.

use super::{Syntax, done};
use crate::catalog::Deferral;
use crate::parser::cursor::Cursor;
use crate::statement::Utility;
use rubato_base::{Error, Result, SqlState};

/// Behind SET CONSTRAINTS.
pub(super) fn set_constraints(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let names = if cursor.accept("all") {
        None
    } else {
        let mut names = vec![cursor.qualified_name()?];
        while cursor.accept_symbol(b',') {
            names.push(cursor.qualified_name()?);
        }
        Some(names)
    };
    let when = cursor.accept_any(&["deferred", "immediate"]);
    let deferred = when.ok_or_else(|| cursor.error())? == "deferred";
    done(cursor, Utility::SetConstraints { names, deferred })
}

/// What is said of when a constraint is checked.
pub(super) fn deferral(cursor: &mut Cursor<'_>) -> Result<Deferral> {
    let position = cursor.source.byte_position(cursor.offset());
    let (mut deferrable, mut initially_deferred) = (None, None);
    loop {
        let known = if cursor.accept("deferrable") {
            deferrable.replace(true)
        } else if cursor.accept_all(&["not", "deferrable"]) {
            deferrable.replace(false)
        } else if cursor.accept_all(&["initially", "deferred"]) {
            initially_deferred.replace(true)
        } else if cursor.accept_all(&["initially", "immediate"]) {
            initially_deferred.replace(false)
        } else {
            break;
        };
        if known.is_some_and(|known| Some(known) != deferrable && Some(known) != initially_deferred) {
            let error = Error::new(SqlState::SYNTAX_ERROR, "conflicting constraint properties");
            return Err(error.with_position(Some(position)));
        }
    }
    Deferral::of_clauses(deferrable, initially_deferred).map_err(|error| error.with_position(Some(position)))
}
