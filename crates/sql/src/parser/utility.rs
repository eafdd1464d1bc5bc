//! The small grammar: transaction control, settings, prepared statements, EXPLAIN, COPY and maintenance.

mod absent;
mod alter_table;
mod blocks;
mod comments;
mod constraints;
mod copy;
mod cursors;
mod databases;
mod domain;
mod enums;
mod maintenance;
mod nodes;
mod schemas;
mod sequence;

use super::cursor::Cursor;
use super::lexer::{Lexer, TokenKind};
use super::syntax::Source;
use crate::statement::{Block, CursorOptions, Discarded, TransactionModes, Utility};
use constraints::set_constraints;
use copy::copy;
use cursors::{close, declare, fetch};
use sequence::{alter_sequence, create_sequence};

pub(crate) use absent::Absent;
pub(crate) use alter_table::{AlterPiece, AlterTableSyntax};
pub(crate) use comments::{CommentSyntax, Commented};
pub(crate) use copy::CopySyntax;
pub(crate) use domain::{AlterDomainAction, DomainStatement, DomainSyntax, Part};
pub(crate) use enums::{AlterTypeAction, EnumStatement, NewValue};
use rubato_base::{Error, Result, SqlState};
pub(crate) use schemas::{ElementSyntax, MaterialisedSyntax, Moved, SchemaSyntax};
pub(crate) use sequence::{AlterSequenceSyntax, Altered, SequenceOptions, SequenceSyntax};

/// A statement of the small grammar. Parts that need the catalog are still text: byte ranges of the source.
pub(crate) enum Syntax {
    /// Nothing left to bind.
    Done(Box<Utility>),
    /// Nothing but blanks and comments.
    Empty,
    /// EXPLAIN of the statement that starts at a byte.
    Explain {
        analyze: bool,
        json: bool,
        statement: usize,
    },
    /// PREPARE with the bytes of its type names and the start of its statement.
    Prepare {
        name: String,
        types: Vec<(usize, usize)>,
        statement: (usize, usize),
    },
    /// EXECUTE with the bytes of its arguments.
    Execute {
        name: String,
        arguments: Option<(usize, usize)>,
    },
    /// DECLARE with the bytes of its query.
    Declare {
        name: String,
        options: CursorOptions,
        statement: (usize, usize),
    },
    /// COPY.
    Copy(Box<CopySyntax>),
    /// Schemas, and what moves between them.
    Schema(SchemaSyntax),
    /// CREATE MATERIALIZED VIEW.
    Materialised(MaterialisedSyntax),
    /// CREATE SEQUENCE.
    CreateSequence(SequenceSyntax),
    /// ALTER SEQUENCE.
    AlterSequence(AlterSequenceSyntax),
    /// ALTER TABLE with actions that the library does not read, and ALTER VIEW.
    AlterTable(Box<AlterTableSyntax>),
    /// COMMENT ON what the library knows no comments of.
    Comment(CommentSyntax),
    /// CREATE, ALTER and DROP DOMAIN.
    Domain(DomainStatement),
    /// CREATE TYPE ... AS ENUM and ALTER TYPE.
    Enum(EnumStatement),
    /// DO.
    Do(Block),
}

/// Parses `source` if its first word belongs to the small grammar.
pub(crate) fn parse_utility(source: Source<'_>) -> Result<Option<Syntax>> {
    let mut lexer = Lexer::new(source.text);
    let Some(first) = lexer.next_token()? else {
        return Ok(Some(Syntax::Empty));
    };
    if first.kind == TokenKind::Symbol(b';') && lexer.next_token()?.is_none() {
        return Ok(Some(Syntax::Empty));
    }
    if first.kind != TokenKind::Word {
        return Ok(None);
    }
    if ["create", "alter", "drop"]
        .iter()
        .any(|verb| first.is(source.text, verb))
    {
        let syntax = match types(source)? {
            None => databases::databases(Cursor::new(source)?)?,
            syntax => syntax,
        };
        if syntax.is_some() {
            return Ok(syntax);
        }
    }
    if first.is(source.text, "create") {
        return match create_sequence(Cursor::new(source)?)? {
            None => schemas::create(Cursor::new(source)?),
            syntax => Ok(syntax),
        };
    }
    if first.is(source.text, "drop") {
        return match schemas::drop_schema(Cursor::new(source)?)? {
            None => absent::drop_absent(Cursor::new(source)?),
            syntax => Ok(syntax),
        };
    }
    if first.is(source.text, "alter") {
        if let Some(syntax) = nodes::alter_grid(source)? {
            return Ok(Some(syntax));
        }
        if let Some(syntax) = schemas::alter(Cursor::new(source)?)? {
            return Ok(Some(syntax));
        }
        return match alter_sequence(Cursor::new(source)?)? {
            None => alter_table::alter_table(Cursor::new(source)?),
            syntax => Ok(syntax),
        };
    }
    if first.is(source.text, "comment") {
        return comment(Cursor::new(source)?);
    }
    let word = first.text(source.text).to_ascii_lowercase();
    let Some((_, parse)) = STATEMENTS.iter().find(|(keyword, _)| *keyword == word) else {
        return Ok(None);
    };
    let mut cursor = Cursor::new(source)?;
    cursor.advance();
    let syntax = parse(&mut cursor)?;
    Ok(Some(syntax))
}

/// A statement about types.
fn types(source: Source<'_>) -> Result<Option<Syntax>> {
    match domain::domain(Cursor::new(source)?)? {
        None => enums::enums(Cursor::new(source)?),
        syntax => Ok(syntax),
    }
}

type ParseUtility = fn(&mut Cursor<'_>) -> Result<Syntax>;

const STATEMENTS: [(&str, ParseUtility); 33] = [
    ("begin", begin),
    ("start", start),
    ("commit", commit),
    ("end", commit),
    ("rollback", rollback),
    ("abort", rollback),
    ("savepoint", savepoint),
    ("release", release),
    ("set", set),
    ("show", show),
    ("reset", reset),
    ("prepare", prepare),
    ("execute", execute),
    ("deallocate", deallocate),
    ("discard", discard),
    ("explain", explain),
    ("copy", copy),
    ("lock", maintenance::lock),
    ("vacuum", maintenance::vacuum),
    ("analyze", maintenance::analyze),
    ("analyse", maintenance::analyze),
    ("checkpoint", |cursor| done(cursor, Utility::Checkpoint)),
    ("cluster", maintenance::cluster),
    ("reindex", maintenance::reindex),
    ("unlisten", unlisten),
    ("listen", listen),
    ("notify", notify),
    ("declare", declare),
    ("fetch", |cursor| fetch(cursor, false)),
    ("move", |cursor| fetch(cursor, true)),
    ("close", close),
    ("refresh", schemas::refresh),
    ("do", blocks::run_block),
];

fn done(cursor: &Cursor<'_>, utility: Utility) -> Result<Syntax> {
    cursor.expect_end()?;
    Ok(Syntax::Done(Box::new(utility)))
}

fn refuse(_: &mut Cursor<'_>, what: &str) -> Result<Syntax> {
    Err(Error::unsupported(what))
}

/// A statement that has nothing to do here, whatever stands in it.
fn read_over(cursor: &mut Cursor<'_>, tag: &'static str) -> Syntax {
    while cursor.advance().is_some() {}
    Syntax::Done(Box::new(Utility::Maintenance { tag }))
}

/// Comments on relations and columns are kept, which the grammar reads, and some others.
fn comment(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    let is_on = cursor.accept("on");
    if is_on && cursor.accept("schema") {
        return schemas::comment_on_schema(&mut cursor);
    }
    if is_on && cursor.accept("database") {
        return databases::comment_on_database(&mut cursor).map(Some);
    }
    let is_kept = is_on
        && cursor
            .accept_any(&["table", "column", "view", "materialized", "sequence"])
            .is_some();
    if is_kept {
        return Ok(None);
    }
    if is_on && let Some(syntax) = comments::comment(&mut cursor)? {
        return Ok(Some(syntax));
    }
    Ok(Some(read_over(&mut cursor, "COMMENT")))
}

fn listen(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let channel = cursor.name()?;
    done(cursor, Utility::Listen(channel))
}

fn unlisten(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let channel = if cursor.accept_symbol(b'*') {
        None
    } else {
        Some(cursor.name()?)
    };
    done(cursor, Utility::Unlisten(channel))
}

/// `NOTIFY channel [, 'payload']`
fn notify(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let channel = cursor.name()?;
    let payload = if cursor.accept_symbol(b',') {
        cursor.text_literal()?
    } else {
        String::new()
    };
    done(cursor, Utility::Notify { channel, payload })
}

fn begin(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    cursor.accept_any(&["work", "transaction"]);
    let modes = transaction_modes(cursor)?;
    done(cursor, Utility::Begin(modes))
}

fn start(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    cursor.expect("transaction")?;
    let modes = transaction_modes(cursor)?;
    done(cursor, Utility::Begin(modes))
}

fn transaction_modes(cursor: &mut Cursor<'_>) -> Result<TransactionModes> {
    let mut modes = TransactionModes::default();
    while !cursor.is_at_end() {
        if cursor.accept_all(&["isolation", "level"]) {
            modes.isolation = Some(isolation_level(cursor)?);
        } else if cursor.accept_all(&["read", "only"]) {
            modes.read_only = Some(true);
        } else if cursor.accept_all(&["read", "write"]) {
            modes.read_only = Some(false);
        } else if cursor.accept("deferrable") {
            modes.deferrable = Some(true);
        } else if cursor.accept_all(&["not", "deferrable"]) {
            modes.deferrable = Some(false);
        } else {
            return Err(cursor.error());
        }
        if cursor.accept_symbol(b',') && cursor.is_at_end() {
            return Err(cursor.error());
        }
    }
    Ok(modes)
}

fn isolation_level(cursor: &mut Cursor<'_>) -> Result<String> {
    let levels: [(&[&str], &str); 4] = [
        (&["serializable"], "serializable"),
        (&["repeatable", "read"], "repeatable read"),
        (&["read", "committed"], "read committed"),
        (&["read", "uncommitted"], "read uncommitted"),
    ];
    let found = levels.iter().find(|(words, _)| cursor.accept_all(words));
    found
        .map(|(_, level)| (*level).to_owned())
        .ok_or_else(|| cursor.error())
}

/// `[WORK | TRANSACTION] [AND [NO] CHAIN]`
fn and_chain(cursor: &mut Cursor<'_>) -> Result<bool> {
    cursor.accept_any(&["work", "transaction"]);
    if cursor.accept_all(&["and", "no", "chain"]) {
        return Ok(false);
    }
    Ok(cursor.accept_all(&["and", "chain"]))
}

fn commit(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    if cursor.at_keyword("prepared") {
        return refuse(cursor, "COMMIT PREPARED");
    }
    let and_chain = and_chain(cursor)?;
    done(cursor, Utility::Commit { and_chain })
}

fn rollback(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    if cursor.at_keyword("prepared") {
        return refuse(cursor, "ROLLBACK PREPARED");
    }
    let and_chain = and_chain(cursor)?;
    if cursor.accept("to") {
        cursor.accept("savepoint");
        let name = cursor.name()?;
        return done(cursor, Utility::RollbackTo(name));
    }
    done(cursor, Utility::Rollback { and_chain })
}

fn savepoint(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = cursor.name()?;
    done(cursor, Utility::Savepoint(name))
}

fn release(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    cursor.accept("savepoint");
    let name = cursor.name()?;
    done(cursor, Utility::Release(name))
}

fn set(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    if cursor.accept("transaction") {
        if cursor.at_keyword("snapshot") {
            return refuse(cursor, "SET TRANSACTION SNAPSHOT");
        }
        let modes = transaction_modes(cursor)?;
        return done(cursor, Utility::SetTransaction { modes, session: false });
    }
    if cursor.accept_all(&["session", "characteristics", "as", "transaction"]) {
        let modes = transaction_modes(cursor)?;
        return done(cursor, Utility::SetTransaction { modes, session: true });
    }
    if cursor.accept("constraints") {
        return set_constraints(cursor);
    }
    let local = cursor.accept("local");
    if !local {
        cursor.accept("session");
    }
    if cursor.accept_all(&["time", "zone"]) {
        return set_value(cursor, "timezone".to_owned(), local);
    }
    if cursor.accept("names") {
        return set_value(cursor, "client_encoding".to_owned(), local);
    }
    for special in ["role", "authorization"] {
        if cursor.accept(special) {
            let name = if special == "role" {
                "role"
            } else {
                "session_authorization"
            };
            if special == "role" && !cursor.accept_symbol(b'=') {
                cursor.accept("to");
            }
            return set_value(cursor, name.to_owned(), local);
        }
    }
    let name = cursor.qualified_name()?.join(".");
    if !cursor.accept_symbol(b'=') {
        cursor.expect("to")?;
    }
    set_value(cursor, name, local)
}

fn set_value(cursor: &mut Cursor<'_>, name: String, local: bool) -> Result<Syntax> {
    if cursor.accept("default") || (name == "timezone" && cursor.at_keyword("local") && cursor.accept("local")) {
        return done(
            cursor,
            Utility::Set {
                name,
                value: None,
                local,
            },
        );
    }
    let value = |cursor: &mut Cursor<'_>| match name.as_str() {
        "timezone" if cursor.at_keyword("interval") => zone_interval(cursor),
        // Each value is one name, whatever it holds.
        "search_path" => setting_value(cursor).map(|schema| crate::system_tables::quoted(&schema)),
        _ => setting_value(cursor),
    };
    let mut values = vec![value(cursor)?];
    while cursor.accept_symbol(b',') {
        values.push(value(cursor)?);
    }
    done(
        cursor,
        Utility::Set {
            name,
            value: Some(values.join(", ")),
            local,
        },
    )
}

/// `INTERVAL '..' [HOUR | MINUTE | HOUR TO MINUTE]`, as a value that says the same without the words behind it.
fn zone_interval(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.expect("interval")?;
    if cursor.accept_symbol(b'(') {
        cursor.skip_parenthesis()?;
    }
    let text = cursor.text_literal()?;
    let last = match cursor.accept_any(&["hour", "minute"]) {
        Some("hour") if cursor.accept("to") => {
            cursor.expect("minute")?;
            Some("minutes")
        }
        Some("hour") => Some("hours"),
        other => other.map(|_| "minutes"),
    };
    let is_number = text.trim().parse::<i64>().is_ok();
    let unit = last
        .filter(|_| is_number)
        .map_or_else(String::new, |unit| format!(" {unit}"));
    Ok(format!("INTERVAL '{text}{unit}'"))
}

fn setting_value(cursor: &mut Cursor<'_>) -> Result<String> {
    let Some(token) = cursor.peek() else {
        return Err(cursor.error());
    };
    let text = token.text(cursor.source.text);
    match token.kind {
        TokenKind::Text | TokenKind::SpecialText => cursor.text_literal(),
        TokenKind::Word => {
            cursor.advance();
            Ok(text.to_ascii_lowercase())
        }
        TokenKind::QuotedWord => cursor.name(),
        TokenKind::Integer | TokenKind::Decimal => {
            cursor.advance();
            Ok(text.to_owned())
        }
        TokenKind::Symbol(sign @ (b'-' | b'+')) => {
            cursor.advance();
            let sign = if sign == b'-' { "-" } else { "" };
            match cursor.peek() {
                Some(number) if matches!(number.kind, TokenKind::Integer | TokenKind::Decimal) => {
                    cursor.advance();
                    Ok(format!("{sign}{}", number.text(cursor.source.text)))
                }
                _ => Err(cursor.error()),
            }
        }
        _ => Err(cursor.error()),
    }
}

/// The setting that SHOW and RESET name.
fn setting_name(cursor: &mut Cursor<'_>) -> Result<String> {
    if cursor.accept_all(&["time", "zone"]) {
        return Ok("timezone".to_owned());
    }
    if cursor.accept_all(&["transaction", "isolation", "level"]) {
        return Ok("transaction_isolation".to_owned());
    }
    if cursor.accept_all(&["session", "authorization"]) {
        return Ok("session_authorization".to_owned());
    }
    Ok(cursor.qualified_name()?.join("."))
}

fn show(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = setting_name(cursor)?;
    done(cursor, Utility::Show(name))
}

fn reset(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = setting_name(cursor)?;
    done(cursor, Utility::Reset(name))
}

fn prepare(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    if cursor.at_keyword("transaction") {
        return refuse(cursor, "PREPARE TRANSACTION");
    }
    let name = cursor.name()?;
    let mut types = Vec::new();
    if cursor.accept_symbol(b'(') {
        let (mut start, end) = cursor.skip_parenthesis()?;
        let list = &cursor.source.text[start..end];
        let mut depth = 0;
        for (offset, byte) in list.bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' => depth -= 1,
                b',' if depth == 0 => {
                    types.push((start, end - list.len() + offset));
                    start = end - list.len() + offset + 1;
                }
                _ => {}
            }
        }
        types.push((start, end));
    }
    cursor.expect("as")?;
    if cursor.is_at_end() {
        return Err(cursor.error());
    }
    Ok(Syntax::Prepare {
        name,
        types,
        statement: (cursor.offset(), cursor.end_offset()),
    })
}

fn execute(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = cursor.name()?;
    let mut arguments = None;
    if cursor.accept_symbol(b'(') {
        arguments = Some(cursor.skip_parenthesis()?);
    }
    cursor.expect_end()?;
    Ok(Syntax::Execute { name, arguments })
}

fn deallocate(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    cursor.accept("prepare");
    let name = if cursor.accept("all") {
        None
    } else {
        Some(cursor.name()?)
    };
    done(cursor, Utility::Deallocate(name))
}

fn discard(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    match cursor.accept_any(&["all", "plans", "sequences", "temp", "temporary"]) {
        Some("all") => done(cursor, Utility::Discard(Discarded::All)),
        Some("plans") => done(cursor, Utility::Discard(Discarded::Plans)),
        Some("sequences") => done(cursor, Utility::Discard(Discarded::Sequences)),
        Some(_) => done(cursor, Utility::Discard(Discarded::Temporary)),
        None => Err(cursor.error()),
    }
}

fn explain(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let (mut analyze, mut json) = (false, false);
    // A query may stand in brackets itself.
    let is_query = |word: &&str| cursor.at_words(&["(", word]);
    let is_query = ["select", "with", "values", "table", "("].iter().any(is_query);
    if !is_query && cursor.accept_symbol(b'(') {
        loop {
            let option = cursor.name()?;
            let value = match cursor.peek() {
                Some(token) if !matches!(token.kind, TokenKind::Symbol(b',' | b')')) => setting_value(cursor)?,
                _ => "true".to_owned(),
            };
            let on = !matches!(value.as_str(), "false" | "off" | "0");
            match option.as_str() {
                "analyze" | "analyse" => analyze = on,
                "format" => json = explain_format(&value)?,
                "verbose" | "costs" | "settings" | "buffers" | "wal" | "timing" | "summary" | "generic_plan" => {}
                other => {
                    let message = format!("unrecognized EXPLAIN option \"{other}\"");
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
            }
            if !cursor.accept_symbol(b',') {
                break;
            }
        }
        cursor.expect_symbol(b')')?;
    } else {
        analyze = cursor.accept_any(&["analyze", "analyse"]).is_some();
        cursor.accept("verbose");
    }
    if cursor.is_at_end() {
        return Err(cursor.error());
    }
    Ok(Syntax::Explain {
        analyze,
        json,
        statement: cursor.offset(),
    })
}

fn explain_format(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "json" => Ok(true),
        "text" => Ok(false),
        "xml" | "yaml" => Err(
            Error::unsupported(format!("EXPLAIN with FORMAT {}", value.to_ascii_uppercase()))
                .with_hint("FORMAT TEXT and FORMAT JSON are supported."),
        ),
        other => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized value for EXPLAIN option \"format\": \"{other}\""),
        )),
    }
}
