//! CREATE TYPE ... AS ENUM and ALTER TYPE; DROP TYPE is that of domains.

use super::{Moved, Syntax};
use crate::parser::cursor::Cursor;
use rubato_base::Result;

/// Statements about enums.
pub(crate) enum EnumStatement {
    Create { name: Vec<String>, labels: Vec<String> },
    Alter { name: Vec<String>, action: AlterTypeAction },
}

/// What becomes of a type.
pub(crate) enum AlterTypeAction {
    AddValue(NewValue),
    RenameValue {
        old: String,
        new: String,
    },
    Move(Moved),
    /// To whom it is given: everything is everybody's.
    Owner,
}

/// ADD VALUE.
#[derive(Clone, Debug)]
pub(crate) struct NewValue {
    pub label: String,
    pub if_not_exists: bool,
    /// Another label, and whether the new one comes behind it; behind all if there is none.
    pub neighbour: Option<(String, bool)>,
}

/// A statement about enums; `None` for any other.
pub(super) fn enums(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    let verb = cursor.accept_any(&["create", "alter"]);
    if verb.is_none() || !cursor.accept("type") {
        return Ok(None);
    }
    let name = cursor.qualified_name()?;
    let statement = match verb {
        Some("create") => {
            if !cursor.accept_all(&["as", "enum"]) {
                return Ok(None);
            }
            EnumStatement::Create {
                name,
                labels: labels(&mut cursor)?,
            }
        }
        _ => match action(&mut cursor)? {
            Some(action) => EnumStatement::Alter { name, action },
            None => return Ok(None),
        },
    };
    cursor.expect_end()?;
    Ok(Some(Syntax::Enum(statement)))
}

fn labels(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    cursor.expect_symbol(b'(')?;
    let mut labels = Vec::new();
    if cursor.accept_symbol(b')') {
        return Ok(labels);
    }
    loop {
        labels.push(cursor.text_literal()?);
        if !cursor.accept_symbol(b',') {
            cursor.expect_symbol(b')')?;
            return Ok(labels);
        }
    }
}

/// What ALTER TYPE does, if it is something that enums know.
fn action(cursor: &mut Cursor<'_>) -> Result<Option<AlterTypeAction>> {
    let action = if cursor.accept_all(&["add", "value"]) {
        let if_not_exists = cursor.accept_all(&["if", "not", "exists"]);
        let label = cursor.text_literal()?;
        let neighbour = match cursor.accept_any(&["before", "after"]) {
            Some(place) => Some((cursor.text_literal()?, place == "after")),
            None => None,
        };
        AlterTypeAction::AddValue(NewValue {
            label,
            if_not_exists,
            neighbour,
        })
    } else if cursor.accept_all(&["rename", "value"]) {
        let old = cursor.text_literal()?;
        cursor.expect("to")?;
        let new = cursor.text_literal()?;
        AlterTypeAction::RenameValue { old, new }
    } else if cursor.accept_all(&["rename", "to"]) {
        AlterTypeAction::Move(Moved::Name(cursor.name()?))
    } else if cursor.accept_all(&["set", "schema"]) {
        AlterTypeAction::Move(Moved::Schema(cursor.name()?))
    } else if cursor.accept_all(&["owner", "to"]) {
        cursor.name()?;
        AlterTypeAction::Owner
    } else {
        return Ok(None);
    };
    Ok(Some(action))
}
