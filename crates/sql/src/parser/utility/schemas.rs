//! Schemas, ALTER ... SET SCHEMA and RENAME, and materialised views.

use super::{Absent, Syntax};
use crate::parser::cursor::Cursor;
use crate::parser::lexer::TokenKind;
use crate::statement::{ExtensionChange, RelationKind};
use rubato_base::{Error, Result};

/// A statement about schemas, or what moves between them, before binding.
pub(crate) enum SchemaSyntax {
    Create {
        /// `None`: that of the role.
        name: Option<String>,
        role: Option<String>,
        if_not_exists: bool,
        /// What is made in it.
        elements: Vec<ElementSyntax>,
    },
    Drop {
        names: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    Rename {
        name: String,
        new_name: String,
    },
    /// ALTER ... SET SCHEMA or RENAME TO.
    Move {
        kind: RelationKind,
        if_exists: bool,
        relation: Vec<String>,
        to: Moved,
    },
    Refresh {
        relation: Vec<String>,
        with_data: bool,
        concurrently: bool,
    },
    CommentOnSchema {
        name: String,
        comment: Option<String>,
    },
    Extension(ExtensionChange),
    /// Of what there is none.
    DropAbsent {
        objects: Vec<Absent>,
        tag: &'static str,
    },
}

/// Where a relation goes.
pub(crate) enum Moved {
    Name(String),
    Schema(String),
}

/// CREATE MATERIALIZED VIEW before binding.
pub(crate) struct MaterialisedSyntax {
    pub name: Vec<String>,
    pub if_not_exists: bool,
    pub columns: Vec<String>,
    /// The bytes of the query.
    pub query: (usize, usize),
    pub with_data: bool,
}

fn schema(syntax: SchemaSyntax, cursor: &Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.expect_end()?;
    Ok(Some(Syntax::Schema(syntax)))
}

/// CREATE SCHEMA and CREATE MATERIALIZED VIEW; `None` for any other CREATE.
pub(super) fn create(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    if cursor.accept("schema") {
        return create_schema(&mut cursor);
    }
    if cursor.accept_all(&["materialized", "view"]) {
        return create_materialised(&mut cursor);
    }
    if cursor.accept("extension") {
        return create_extension(&mut cursor);
    }
    Ok(None)
}

/// What CREATE EXTENSION says of versions is read over: there is one of each.
fn create_extension(cursor: &mut Cursor<'_>) -> Result<Option<Syntax>> {
    let if_not_exists = cursor.accept_all(&["if", "not", "exists"]);
    let name = cursor.name()?;
    cursor.accept("with");
    let mut within = None;
    while let Some(option) = cursor.accept_any(&["schema", "version", "cascade"]) {
        match option {
            "schema" => within = Some(cursor.name()?),
            "version" => drop(cursor.advance()),
            _ => {}
        }
    }
    let change = ExtensionChange::Create {
        name,
        if_not_exists,
        schema: within,
    };
    schema(SchemaSyntax::Extension(change), cursor)
}

/// Nothing depends on an extension, so that CASCADE says nothing more.
fn drop_extension(cursor: &mut Cursor<'_>) -> Result<Option<Syntax>> {
    let if_exists = cursor.accept_all(&["if", "exists"]);
    let mut names = vec![cursor.name()?];
    while cursor.accept_symbol(b',') {
        names.push(cursor.name()?);
    }
    cursor.accept_any(&["cascade", "restrict"]);
    let change = ExtensionChange::Drop { names, if_exists };
    schema(SchemaSyntax::Extension(change), cursor)
}

fn create_schema(cursor: &mut Cursor<'_>) -> Result<Option<Syntax>> {
    let if_not_exists = cursor.accept_all(&["if", "not", "exists"]);
    let name = match cursor.at_keyword("authorization") {
        true => None,
        false => Some(cursor.name()?),
    };
    let role = match cursor.accept("authorization") {
        true => Some(cursor.name()?),
        false => None,
    };
    let elements = elements(cursor)?;
    schema(
        SchemaSyntax::Create {
            name,
            role,
            if_not_exists,
            elements,
        },
        cursor,
    )
}

/// What CREATE SCHEMA makes in the schema: a statement.
pub(crate) struct ElementSyntax {
    /// Its bytes.
    pub range: (usize, usize),
    /// In which order such things are made.
    pub rank: usize,
    /// The schema that it names.
    pub schema: Option<String>,
}

/// What CREATE SCHEMA may make, in the order in which it is made.
const ELEMENTS: [&str; 4] = ["sequence", "table", "view", "index"];

fn elements(cursor: &mut Cursor<'_>) -> Result<Vec<ElementSyntax>> {
    let mut elements: Vec<ElementSyntax> = Vec::new();
    while !cursor.is_at_end() {
        let start = cursor.offset();
        if cursor.at_keyword("grant") {
            return Err(Error::unsupported("GRANT"));
        }
        cursor.expect("create")?;
        while cursor
            .accept_any(&[
                "temporary",
                "temp",
                "local",
                "global",
                "unlogged",
                "unique",
                "or",
                "replace",
            ])
            .is_some()
        {}
        let kind = cursor.accept_any(&ELEMENTS).ok_or_else(|| cursor.error())?;
        let rank = ELEMENTS.iter().position(|own| *own == kind).unwrap_or_default();
        cursor.accept_all(&["if", "not", "exists"]);
        let mut path = match kind == "index" && cursor.at_keyword("on") {
            true => Vec::new(),
            false => cursor.qualified_name()?,
        };
        if kind == "index" && cursor.accept("on") {
            cursor.accept("only");
            path = cursor.qualified_name()?;
        }
        while !cursor.is_at_end() && !cursor.at_keyword("create") && !cursor.at_keyword("grant") {
            if cursor.accept_symbol(b'(') {
                cursor.skip_parenthesis()?;
            } else {
                cursor.advance();
            }
        }
        elements.push(ElementSyntax {
            range: (start, cursor.last_end()),
            rank,
            schema: path.len().checked_sub(2).map(|place| path.swap_remove(place)),
        });
    }
    elements.sort_by_key(|element| element.rank);
    Ok(elements)
}

fn create_materialised(cursor: &mut Cursor<'_>) -> Result<Option<Syntax>> {
    let if_not_exists = cursor.accept_all(&["if", "not", "exists"]);
    let name = cursor.qualified_name()?;
    let columns = match cursor.peek().map(|token| token.kind) {
        Some(TokenKind::Symbol(b'(')) => cursor.name_list()?,
        _ => Vec::new(),
    };
    // How rows are stored is not for the user to say here.
    if cursor.accept("using") {
        cursor.name()?;
    }
    if cursor.accept("with") {
        cursor.expect_symbol(b'(')?;
        cursor.skip_parenthesis()?;
    }
    if cursor.accept("tablespace") {
        cursor.name()?;
    }
    cursor.expect("as")?;
    let start = cursor.offset();
    let mut end = start;
    let mut with_data = true;
    while !cursor.is_at_end() {
        let before = cursor.last_end();
        if cursor.accept_all(&["with", "no", "data"]) && cursor.is_at_end() {
            (end, with_data) = (before, false);
        } else if cursor.accept_all(&["with", "data"]) && cursor.is_at_end() {
            end = before;
        } else {
            cursor.advance();
            end = cursor.last_end();
        }
    }
    if end == start {
        return Err(cursor.error());
    }
    Ok(Some(Syntax::Materialised(MaterialisedSyntax {
        name,
        if_not_exists,
        columns,
        query: (start, end),
        with_data,
    })))
}

/// DROP SCHEMA; `None` for any other DROP.
pub(super) fn drop_schema(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    if cursor.accept("extension") {
        return drop_extension(&mut cursor);
    }
    if !cursor.accept("schema") {
        return Ok(None);
    }
    let if_exists = cursor.accept_all(&["if", "exists"]);
    let mut names = vec![cursor.name()?];
    while cursor.accept_symbol(b',') {
        names.push(cursor.name()?);
    }
    let cascade = cursor.accept_any(&["cascade", "restrict"]) == Some("cascade");
    schema(
        SchemaSyntax::Drop {
            names,
            if_exists,
            cascade,
        },
        &cursor,
    )
}

/// ALTER SCHEMA, ALTER ... SET SCHEMA, and ALTER ... RENAME TO of what is no table; `None` for any other ALTER.
pub(super) fn alter(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    if cursor.accept("schema") {
        return alter_schema(&mut cursor);
    }
    let kinds: [(&[&str], RelationKind); 5] = [
        (&["table"], RelationKind::Table),
        (&["view"], RelationKind::View),
        (&["materialized", "view"], RelationKind::MaterialisedView),
        (&["sequence"], RelationKind::Sequence),
        (&["index"], RelationKind::Index),
    ];
    let Some((_, kind)) = kinds.into_iter().find(|(words, _)| cursor.accept_all(words)) else {
        return Ok(None);
    };
    let if_exists = cursor.accept_all(&["if", "exists"]);
    cursor.accept("only");
    let Ok(relation) = cursor.qualified_name() else {
        return Ok(None);
    };
    let to = if cursor.accept_all(&["set", "schema"]) {
        Moved::Schema(cursor.name()?)
    } else if kind != RelationKind::Table && cursor.accept_all(&["rename", "to"]) {
        Moved::Name(cursor.name()?)
    } else {
        return Ok(None);
    };
    schema(
        SchemaSyntax::Move {
            kind,
            if_exists,
            relation,
            to,
        },
        &cursor,
    )
}

fn alter_schema(cursor: &mut Cursor<'_>) -> Result<Option<Syntax>> {
    let name = cursor.name()?;
    // There is one owner of everything.
    if cursor.accept_all(&["owner", "to"]) {
        cursor.name()?;
        cursor.expect_end()?;
        let utility = crate::statement::Utility::Maintenance { tag: "ALTER SCHEMA" };
        return Ok(Some(Syntax::Done(Box::new(utility))));
    }
    cursor.expect("rename")?;
    cursor.expect("to")?;
    let new_name = cursor.name()?;
    schema(SchemaSyntax::Rename { name, new_name }, cursor)
}

/// `REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA]`
pub(super) fn refresh(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    cursor.expect("materialized")?;
    cursor.expect("view")?;
    let concurrently = cursor.accept("concurrently");
    let relation = cursor.qualified_name()?;
    let mut with_data = true;
    if cursor.accept("with") {
        with_data = !cursor.accept("no");
        cursor.expect("data")?;
    }
    cursor.expect_end()?;
    Ok(Syntax::Schema(SchemaSyntax::Refresh {
        relation,
        with_data,
        concurrently,
    }))
}

/// What stands behind `COMMENT ON SCHEMA`.
pub(super) fn comment_on_schema(cursor: &mut Cursor<'_>) -> Result<Option<Syntax>> {
    let name = cursor.name()?;
    cursor.expect("is")?;
    let comment = match cursor.accept("null") {
        true => None,
        false => Some(cursor.text_literal()?),
    };
    schema(SchemaSyntax::CommentOnSchema { name, comment }, cursor)
}
