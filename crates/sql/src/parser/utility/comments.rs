//! COMMENT ON what has no place of its own in the library's grammar.

use super::Syntax;
use crate::parser::cursor::Cursor;
use rubato_base::Result;

/// COMMENT before binding.
pub(crate) struct CommentSyntax {
    pub object: Commented,
    /// What is said; `None` takes it back.
    pub comment: Option<String>,
}

/// What is commented on.
pub(crate) enum Commented {
    Index(Vec<String>),
    /// A constraint of a table.
    Constraint(String, Vec<String>),
    /// TYPE, which may be a domain, or DOMAIN.
    Domain(Vec<String>, &'static str),
}

/// Behind COMMENT ON; `None` for what is not kept.
pub(super) fn comment(cursor: &mut Cursor<'_>) -> Result<Option<Syntax>> {
    let object = if cursor.accept("index") {
        Commented::Index(cursor.qualified_name()?)
    } else if cursor.accept("constraint") {
        let name = cursor.name()?;
        cursor.expect("on")?;
        if cursor.accept("domain") {
            return Ok(None);
        }
        Commented::Constraint(name, cursor.qualified_name()?)
    } else if let Some(kind) = cursor.accept_any(&["domain", "type"]) {
        Commented::Domain(cursor.qualified_name()?, kind)
    } else {
        return Ok(None);
    };
    cursor.expect("is")?;
    let comment = match cursor.accept("null") {
        true => None,
        false => Some(cursor.text_literal()?),
    };
    cursor.expect_end()?;
    Ok(Some(Syntax::Comment(CommentSyntax { object, comment })))
}
