//! SET CONSTRAINTS and ALTER TABLE ... ALTER CONSTRAINT.

use super::{Syntax, done};
use crate::catalog::Deferral;
use crate::parser::cursor::Cursor;
use crate::statement::Utility;
use rubato_base::{Error, Result, SqlState};

/// ALTER TABLE ... ALTER CONSTRAINT before binding.
pub(crate) struct AlterConstraintSyntax {
    pub table: Vec<String>,
    pub if_exists: bool,
    /// Names of constraints, and what becomes of them.
    pub constraints: Vec<(String, Deferral)>,
}

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

/// ALTER TABLE whose first action is ALTER CONSTRAINT, which the library's grammar does not take; `None` for any other ALTER.
pub(super) fn alter_constraint(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    if !cursor.accept("table") {
        return Ok(None);
    }
    let if_exists = cursor.accept_all(&["if", "exists"]);
    cursor.accept("only");
    let Ok(table) = cursor.qualified_name() else {
        return Ok(None);
    };
    if !cursor.accept_all(&["alter", "constraint"]) {
        return Ok(None);
    }
    let mut constraints = Vec::new();
    loop {
        constraints.push((cursor.name()?, deferral(&mut cursor)?));
        if !cursor.accept_symbol(b',') {
            break;
        }
        if !cursor.accept_all(&["alter", "constraint"]) {
            return Err(Error::unsupported("ALTER CONSTRAINT together with other changes")
                .with_hint("Say it in an ALTER TABLE of its own."));
        }
    }
    cursor.expect_end()?;
    Ok(Some(Syntax::AlterConstraint(AlterConstraintSyntax {
        table,
        if_exists,
        constraints,
    })))
}

/// ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION before binding.
pub(crate) struct DropExpressionSyntax {
    pub table: Vec<String>,
    pub if_exists: bool,
    pub column: String,
    /// IF EXISTS behind EXPRESSION.
    pub if_generated: bool,
}

/// ALTER TABLE whose only action is DROP EXPRESSION, which the library's grammar does not take; `None` for any other ALTER.
pub(super) fn drop_expression(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    if !cursor.accept("table") {
        return Ok(None);
    }
    let if_exists = cursor.accept_all(&["if", "exists"]);
    cursor.accept("only");
    let Ok(table) = cursor.qualified_name() else {
        return Ok(None);
    };
    if !cursor.accept("alter") {
        return Ok(None);
    }
    cursor.accept("column");
    let Ok(column) = cursor.name() else { return Ok(None) };
    if !cursor.accept_all(&["drop", "expression"]) {
        return Ok(None);
    }
    let if_generated = cursor.accept_all(&["if", "exists"]);
    if !cursor.is_at_end() {
        return Err(Error::unsupported("DROP EXPRESSION together with other changes")
            .with_hint("Say it in an ALTER TABLE of its own."));
    }
    Ok(Some(Syntax::DropExpression(DropExpressionSyntax {
        table,
        if_exists,
        column,
        if_generated,
    })))
}

fn deferral(cursor: &mut Cursor<'_>) -> Result<Deferral> {
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
