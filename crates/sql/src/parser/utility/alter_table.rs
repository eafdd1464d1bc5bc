//! ALTER TABLE with actions that the library's grammar does not take: it is cut into its actions, and each is read by whom can.

use super::sequence::{Altered, alter_option};
use super::{Syntax, constraints};
use crate::catalog::Deferral;
use crate::parser::cursor::Cursor;
use crate::statement::RelationKind;
use rubato_base::{Error, Result};

/// ALTER TABLE and ALTER [MATERIALIZED] VIEW before binding.
pub(crate) struct AlterTableSyntax {
    pub kind: RelationKind,
    pub table: Vec<String>,
    pub if_exists: bool,
    /// How much of the text stands before the first action.
    pub head: usize,
    pub pieces: Vec<AlterPiece>,
}

/// One action.
pub(crate) enum AlterPiece {
    /// The bytes of one that the library reads.
    Library((usize, usize)),
    RenameColumn {
        from: String,
        to: String,
    },
    RenameConstraint {
        from: String,
        to: String,
    },
    AlterConstraint {
        name: String,
        deferral: Deferral,
    },
    DropExpression {
        column: String,
        if_exists: bool,
    },
    DropIdentity {
        column: String,
        if_exists: bool,
    },
    /// SET GENERATED, and what else is said of the sequence.
    SetIdentity {
        column: String,
        always: Option<bool>,
        sequence: Altered,
    },
    /// SET of options of a view: names and values.
    SetOptions(Vec<(String, Option<String>)>),
    ResetOptions(Vec<String>),
    /// ENABLE and DISABLE TRIGGER: one by name, or all of them.
    Triggers {
        name: Option<String>,
        enabled: bool,
    },
    /// What changes nothing here, but names a column.
    NothingOfColumn(String),
    /// The same of an index.
    NothingOfIndex(String),
    Nothing,
}

/// `None` for any other ALTER, and where the library reads every action.
pub(super) fn alter_table(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    let kinds: [(&[&str], RelationKind); 3] = [
        (&["table"], RelationKind::Table),
        (&["view"], RelationKind::View),
        (&["materialized", "view"], RelationKind::MaterialisedView),
    ];
    let Some((_, kind)) = kinds.into_iter().find(|(words, _)| cursor.accept_all(words)) else {
        return Ok(None);
    };
    let if_exists = cursor.accept_all(&["if", "exists"]);
    cursor.accept("only");
    let Ok(table) = cursor.qualified_name() else {
        return Ok(None);
    };
    cursor.accept_symbol(b'*');
    let head = cursor.last_end();
    let mut pieces = Vec::new();
    for mut piece in cursor.pieces() {
        let range = (piece.offset(), piece.end_offset());
        let own = own_action(&mut piece, kind)?.filter(|_| piece.is_at_end());
        pieces.push(own.unwrap_or(AlterPiece::Library(range)));
    }
    let is_own = pieces.iter().any(|piece| !matches!(piece, AlterPiece::Library(_)));
    let syntax = AlterTableSyntax {
        kind,
        table,
        if_exists,
        head,
        pieces,
    };
    Ok(is_own.then(|| Syntax::AlterTable(Box::new(syntax))))
}

/// An action that is read here; `None` leaves it to the library.
fn own_action(cursor: &mut Cursor<'_>, kind: RelationKind) -> Result<Option<AlterPiece>> {
    if cursor.accept_all(&["rename", "constraint"]) {
        let from = cursor.name()?;
        cursor.expect("to")?;
        return Ok(Some(AlterPiece::RenameConstraint {
            from,
            to: cursor.name()?,
        }));
    }
    if kind != RelationKind::Table && cursor.accept("rename") {
        cursor.accept("column");
        let from = cursor.name()?;
        cursor.expect("to")?;
        return Ok(Some(AlterPiece::RenameColumn {
            from,
            to: cursor.name()?,
        }));
    }
    if cursor.accept_all(&["alter", "constraint"]) {
        return Ok(Some(AlterPiece::AlterConstraint {
            name: cursor.name()?,
            deferral: constraints::deferral(cursor)?,
        }));
    }
    if cursor.accept_all(&["cluster", "on"]) {
        return Ok(Some(AlterPiece::NothingOfIndex(cursor.name()?)));
    }
    if cursor.accept_all(&["set", "without"]) {
        let is_known = cursor.accept_any(&["cluster", "oids"]).is_some();
        return Ok(is_known.then_some(AlterPiece::Nothing));
    }
    if cursor.accept_all(&["set", "access", "method", "heap"])
        || cursor.accept_all(&["set", "tablespace", "pg_default"])
    {
        return Ok(Some(AlterPiece::Nothing));
    }
    for (verb, enabled) in [("enable", true), ("disable", false)] {
        if kind == RelationKind::Table && cursor.accept_all(&[verb, "trigger"]) {
            return triggers(cursor, enabled).map(Some);
        }
    }
    if cursor.accept("alter") {
        return match kind {
            RelationKind::View => Err(Error::unsupported("a default of a column of a view")),
            _ => column_action(cursor),
        };
    }
    options(cursor, kind)
}

/// What stands behind ENABLE TRIGGER and DISABLE TRIGGER. Triggers of users' own there are none.
fn triggers(cursor: &mut Cursor<'_>, enabled: bool) -> Result<AlterPiece> {
    Ok(match cursor.accept_any(&["all", "user"]) {
        Some("user") => AlterPiece::Nothing,
        Some(_) => AlterPiece::Triggers { name: None, enabled },
        None => AlterPiece::Triggers {
            name: Some(cursor.name()?),
            enabled,
        },
    })
}

/// `SET (...)` and `RESET (...)`.
fn options(cursor: &mut Cursor<'_>, kind: RelationKind) -> Result<Option<AlterPiece>> {
    let sets = cursor.accept("set");
    if !(sets || cursor.accept("reset")) || !cursor.accept_symbol(b'(') {
        return Ok(None);
    }
    if !matches!(kind, RelationKind::View | RelationKind::Table) {
        cursor.skip_parenthesis()?;
        return Ok(Some(AlterPiece::Nothing));
    }
    let mut names = Vec::new();
    loop {
        let name = cursor.qualified_name()?.join(".");
        let value = match sets && cursor.accept_symbol(b'=') {
            true => Some(super::setting_value(cursor)?),
            false => None,
        };
        names.push((name, value));
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.expect_symbol(b')')?;
    Ok(Some(match sets {
        true => AlterPiece::SetOptions(names),
        false => AlterPiece::ResetOptions(names.into_iter().map(|(name, _)| name).collect()),
    }))
}

/// Behind ALTER.
fn column_action(cursor: &mut Cursor<'_>) -> Result<Option<AlterPiece>> {
    cursor.accept("column");
    let Ok(column) = cursor.name() else { return Ok(None) };
    if cursor.accept_all(&["drop", "expression"]) {
        let if_exists = cursor.accept_all(&["if", "exists"]);
        return Ok(Some(AlterPiece::DropExpression { column, if_exists }));
    }
    if cursor.accept_all(&["drop", "identity"]) {
        let if_exists = cursor.accept_all(&["if", "exists"]);
        return Ok(Some(AlterPiece::DropIdentity { column, if_exists }));
    }
    for words in [&["set", "statistics"], &["set", "storage"], &["set", "compression"]] {
        if cursor.accept_all(words) {
            cursor.accept_symbol(b'-');
            cursor.advance();
            return Ok(Some(AlterPiece::NothingOfColumn(column)));
        }
    }
    if cursor.at_words(&["set", "("]) || cursor.at_words(&["reset", "("]) {
        cursor.advance();
        cursor.advance();
        cursor.skip_parenthesis()?;
        return Ok(Some(AlterPiece::NothingOfColumn(column)));
    }
    identity(cursor, column)
}

/// `SET GENERATED ...`, `SET` option of the sequence, and `RESTART`, any number of them.
fn identity(cursor: &mut Cursor<'_>, column: String) -> Result<Option<AlterPiece>> {
    let mut sequence = Altered::default();
    let mut always = None;
    let mut is_any = false;
    while !cursor.is_at_end() {
        if cursor.accept_all(&["set", "generated"]) {
            always = Some(cursor.accept("always"));
            if always == Some(false) {
                cursor.expect("by")?;
                cursor.expect("default")?;
            }
        } else if cursor.at_keyword("restart") {
            alter_option(cursor, &mut sequence)?;
        } else if OPTIONS.iter().any(|option| cursor.at_words(&["set", option])) {
            cursor.advance();
            alter_option(cursor, &mut sequence)?;
        } else {
            return Ok(None);
        }
        is_any = true;
    }
    Ok(is_any.then_some(AlterPiece::SetIdentity {
        column,
        always,
        sequence,
    }))
}

/// How options of sequences begin.
const OPTIONS: [&str; 8] = [
    "increment",
    "minvalue",
    "maxvalue",
    "start",
    "cache",
    "cycle",
    "no",
    "restart",
];
