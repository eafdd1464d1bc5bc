//! CREATE, ALTER and DROP DOMAIN.

use super::{Moved, Syntax};
use crate::parser::cursor::Cursor;
use rubato_base::{Error, Result, SqlState};

/// The bytes of a part of the source.
pub(crate) type Part = (usize, usize);

/// What CREATE DOMAIN says before binding.
#[derive(Default)]
pub(crate) struct DomainSyntax {
    pub name: Vec<String>,
    pub base: Part,
    pub default: Option<Part>,
    pub not_null: bool,
    /// Conditions, with the names of their constraints.
    pub checks: Vec<(Option<String>, Part)>,
}

/// What becomes of a domain.
pub(crate) enum AlterDomainAction {
    SetDefault(Option<Part>),
    SetNotNull(bool),
    AddCheck {
        name: Option<String>,
        condition: Part,
        /// Not so where NOT VALID is said.
        is_valid: bool,
    },
    ValidateConstraint(String),
    RenameConstraint {
        from: String,
        to: String,
    },
    DropConstraint {
        name: String,
        if_exists: bool,
    },
    Move(Moved),
    /// To whom it is given: everything is everybody's.
    Owner,
}

/// Statements about domains.
pub(crate) enum DomainStatement {
    Create(DomainSyntax),
    Alter(Vec<String>, AlterDomainAction),
    Drop {
        names: Vec<Vec<String>>,
        if_exists: bool,
        cascade: bool,
        /// DROP DOMAIN or DROP TYPE.
        tag: &'static str,
    },
}

/// Words that end a type or a default.
const CLAUSES: [&str; 6] = ["default", "constraint", "not", "null", "check", "collate"];

/// A statement about domains; `None` for any other.
pub(super) fn domain(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    let verb = cursor.accept_any(&["create", "alter", "drop"]);
    // DROP TYPE says nothing of the kind.
    let drops_type = verb == Some("drop") && cursor.accept("type");
    if verb.is_none() || !(drops_type || cursor.accept("domain")) {
        return Ok(None);
    }
    let statement = match verb {
        Some("create") => create(&mut cursor)?,
        Some("alter") => alter(&mut cursor)?,
        _ => drop(&mut cursor, if drops_type { "DROP TYPE" } else { "DROP DOMAIN" })?,
    };
    cursor.expect_end()?;
    Ok(Some(Syntax::Domain(statement)))
}

/// The part up to a word that begins another clause; its first token belongs to it, whatever it is.
fn part(cursor: &mut Cursor<'_>) -> Result<Part> {
    let start = cursor.offset();
    if cursor.is_at_end() {
        return Err(cursor.error());
    }
    loop {
        if cursor.accept_symbol(b'(') {
            cursor.skip_parenthesis()?;
        } else if cursor.advance().is_none() {
            break;
        }
        let at_clause = CLAUSES.iter().any(|clause| cursor.at_keyword(clause));
        if cursor.is_at_end() || at_clause {
            break;
        }
    }
    Ok((start, cursor.last_end()))
}

fn condition(cursor: &mut Cursor<'_>) -> Result<Part> {
    cursor.expect_symbol(b'(')?;
    cursor.skip_parenthesis()
}

fn create(cursor: &mut Cursor<'_>) -> Result<DomainStatement> {
    let mut syntax = DomainSyntax {
        name: cursor.qualified_name()?,
        ..DomainSyntax::default()
    };
    cursor.accept("as");
    syntax.base = part(cursor)?;
    let mut nullable = None;
    while !cursor.is_at_end() {
        if cursor.accept("collate") {
            cursor.qualified_name()?;
            continue;
        }
        if cursor.accept("default") {
            syntax.default = Some(part(cursor)?);
            continue;
        }
        let name = match cursor.accept("constraint") {
            true => Some(cursor.name()?),
            false => None,
        };
        if cursor.accept("check") {
            syntax.checks.push((name, condition(cursor)?));
            continue;
        }
        let said = match cursor.accept_all(&["not", "null"]) {
            true => false,
            false if cursor.accept("null") => true,
            false => return Err(cursor.error()),
        };
        if nullable.replace(said).is_some_and(|before| before != said) {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "conflicting NULL/NOT NULL constraints",
            ));
        }
        syntax.not_null = !said;
    }
    Ok(DomainStatement::Create(syntax))
}

fn alter(cursor: &mut Cursor<'_>) -> Result<DomainStatement> {
    let name = cursor.qualified_name()?;
    let action = if cursor.accept_all(&["set", "default"]) {
        AlterDomainAction::SetDefault(Some(part(cursor)?))
    } else if cursor.accept_all(&["drop", "default"]) {
        AlterDomainAction::SetDefault(None)
    } else if cursor.accept_all(&["set", "not", "null"]) {
        AlterDomainAction::SetNotNull(true)
    } else if cursor.accept_all(&["drop", "not", "null"]) {
        AlterDomainAction::SetNotNull(false)
    } else if cursor.accept("add") {
        let constraint = match cursor.accept("constraint") {
            true => Some(cursor.name()?),
            false => None,
        };
        cursor.expect("check")?;
        AlterDomainAction::AddCheck {
            name: constraint,
            condition: condition(cursor)?,
            is_valid: !cursor.accept_all(&["not", "valid"]),
        }
    } else if cursor.accept_all(&["validate", "constraint"]) {
        AlterDomainAction::ValidateConstraint(cursor.name()?)
    } else if cursor.accept_all(&["rename", "constraint"]) {
        let from = cursor.name()?;
        cursor.expect("to")?;
        AlterDomainAction::RenameConstraint {
            from,
            to: cursor.name()?,
        }
    } else if cursor.accept_all(&["drop", "constraint"]) {
        let if_exists = cursor.accept_all(&["if", "exists"]);
        let name = cursor.name()?;
        cursor.accept_any(&["cascade", "restrict"]);
        AlterDomainAction::DropConstraint { name, if_exists }
    } else if cursor.accept_all(&["owner", "to"]) {
        cursor.name()?;
        AlterDomainAction::Owner
    } else if cursor.accept_all(&["rename", "to"]) {
        AlterDomainAction::Move(Moved::Name(cursor.name()?))
    } else if cursor.accept_all(&["set", "schema"]) {
        AlterDomainAction::Move(Moved::Schema(cursor.name()?))
    } else {
        return Err(cursor.error());
    };
    Ok(DomainStatement::Alter(name, action))
}

fn drop(cursor: &mut Cursor<'_>, tag: &'static str) -> Result<DomainStatement> {
    let if_exists = cursor.accept_all(&["if", "exists"]);
    let mut names = vec![cursor.qualified_name()?];
    while cursor.accept_symbol(b',') {
        names.push(cursor.qualified_name()?);
    }
    let cascade = cursor.accept_any(&["cascade", "restrict"]) == Some("cascade");
    Ok(DomainStatement::Drop {
        names,
        if_exists,
        cascade,
        tag,
    })
}
