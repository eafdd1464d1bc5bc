//! CREATE SEQUENCE and ALTER SEQUENCE.

use super::Syntax;
use crate::parser::cursor::Cursor;
use crate::parser::lexer::TokenKind;
use rubato_base::{Error, Result, SqlState};

/// CREATE SEQUENCE before binding.
pub(crate) struct SequenceSyntax {
    pub name: Vec<String>,
    pub temporary: bool,
    pub if_not_exists: bool,
    /// The bytes of the type's name.
    pub data_type: Option<(usize, usize)>,
    pub options: SequenceOptions,
    /// OWNED BY table.column.
    pub owned_by: Option<Vec<String>>,
}

/// The numbers of a sequence, where given.
#[derive(Default)]
pub(crate) struct SequenceOptions {
    pub start: Option<i64>,
    pub increment: Option<i64>,
    pub minimum: Option<i64>,
    pub maximum: Option<i64>,
    pub cycle: bool,
    pub cache: Option<i64>,
}

/// ALTER SEQUENCE before binding.
pub(crate) struct AlterSequenceSyntax {
    pub name: Vec<String>,
    pub if_exists: bool,
    pub altered: Altered,
}

/// What is said anew of a sequence.
#[derive(Default)]
pub(crate) struct Altered {
    /// The bytes of the type's name.
    pub data_type: Option<(usize, usize)>,
    pub options: SequenceOptions,
    /// NO MINVALUE, NO MAXVALUE, NO CYCLE.
    pub without: Vec<&'static str>,
    /// RESTART [WITH number].
    pub restart: Option<Option<i64>>,
    /// OWNED BY table.column or NONE.
    pub owned_by: Option<Option<Vec<String>>>,
}

/// ALTER SEQUENCE; `None` for any other ALTER.
pub(super) fn alter_sequence(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    if !cursor.accept("sequence") {
        return Ok(None);
    }
    let if_exists = cursor.accept_all(&["if", "exists"]);
    let mut syntax = AlterSequenceSyntax {
        name: cursor.qualified_name()?,
        if_exists,
        altered: Altered::default(),
    };
    if cursor.is_at_end() {
        return Err(cursor.error());
    }
    while !cursor.is_at_end() {
        alter_option(&mut cursor, &mut syntax.altered)?;
    }
    Ok(Some(Syntax::AlterSequence(syntax)))
}

/// One option of ALTER SEQUENCE.
pub(super) fn alter_option(cursor: &mut Cursor<'_>, syntax: &mut Altered) -> Result<()> {
    if cursor.accept("restart") {
        let with = cursor.accept("with");
        let has_number = cursor
            .peek()
            .is_some_and(|token| matches!(token.kind, TokenKind::Integer | TokenKind::Symbol(b'-')));
        syntax.restart = Some((with || has_number).then(|| whole_number(cursor)).transpose()?);
    } else if cursor.accept_all(&["owned", "by"]) {
        let owner = cursor.qualified_name()?;
        syntax.owned_by = Some((owner != ["none"]).then_some(owner));
    } else if cursor.accept_all(&["owner", "to"]) {
        // There is one owner of everything.
        cursor.name()?;
    } else if cursor.accept("no") {
        let what = cursor.accept_any(&["minvalue", "maxvalue", "cycle"]);
        syntax.without.push(what.ok_or_else(|| cursor.error())?);
    } else if cursor.accept("as") {
        let start = cursor.offset();
        cursor.name()?;
        syntax.data_type = Some((start, cursor.last_end()));
    } else if cursor.accept_all(&["set", "logged"]) || cursor.accept_all(&["set", "unlogged"]) {
        // Every sequence is logged.
    } else {
        return number_option(cursor, &mut syntax.options);
    }
    Ok(())
}

/// CREATE SEQUENCE with its options in any order, which the library's grammar does not take; `None` for any other CREATE.
pub(super) fn create_sequence(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    let temporary = cursor.accept_any(&["temporary", "temp"]).is_some();
    if !cursor.accept("sequence") {
        return Ok(None);
    }
    let if_not_exists = cursor.accept_all(&["if", "not", "exists"]);
    let name = cursor.qualified_name()?;
    let mut syntax = SequenceSyntax {
        name,
        temporary,
        if_not_exists,
        data_type: None,
        options: SequenceOptions::default(),
        owned_by: None,
    };
    while !cursor.is_at_end() {
        sequence_option(&mut cursor, &mut syntax)?;
    }
    Ok(Some(Syntax::CreateSequence(syntax)))
}

fn sequence_option(cursor: &mut Cursor<'_>, syntax: &mut SequenceSyntax) -> Result<()> {
    let options = &mut syntax.options;
    if cursor.accept("as") {
        let start = cursor.offset();
        cursor.name()?;
        syntax.data_type = Some((start, cursor.last_end()));
    } else if cursor.accept_all(&["owned", "by"]) {
        let owner = cursor.qualified_name()?;
        syntax.owned_by = (owner != ["none"]).then_some(owner);
    } else if !(cursor.accept("no") && cursor.accept_any(&["minvalue", "maxvalue", "cycle"]).is_some()) {
        return number_option(cursor, options);
    }
    Ok(())
}

fn number_option(cursor: &mut Cursor<'_>, options: &mut SequenceOptions) -> Result<()> {
    if cursor.accept("increment") {
        cursor.accept("by");
        options.increment = Some(whole_number(cursor)?);
    } else if cursor.accept("minvalue") {
        options.minimum = Some(whole_number(cursor)?);
    } else if cursor.accept("maxvalue") {
        options.maximum = Some(whole_number(cursor)?);
    } else if cursor.accept("start") {
        cursor.accept("with");
        options.start = Some(whole_number(cursor)?);
    } else if cursor.accept("cache") {
        options.cache = Some(whole_number(cursor)?);
    } else if cursor.accept("cycle") {
        options.cycle = true;
    } else {
        return Err(cursor.error());
    }
    Ok(())
}

fn whole_number(cursor: &mut Cursor<'_>) -> Result<i64> {
    let negative = cursor.accept_symbol(b'-');
    match cursor.peek() {
        Some(token) if token.kind == TokenKind::Integer => {
            let digits = token.text(cursor.source.text);
            let number: i128 = digits.parse().unwrap_or(i128::MAX);
            let number = i64::try_from(if negative { -number } else { number }).map_err(|_| {
                Error::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("value \"{digits}\" is out of range for type bigint"),
                )
            })?;
            cursor.advance();
            Ok(number)
        }
        _ => Err(cursor.error()),
    }
}
