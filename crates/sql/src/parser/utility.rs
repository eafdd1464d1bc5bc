//! The small grammar: transaction control, settings, prepared statements, EXPLAIN, COPY and maintenance.

use super::cursor::Cursor;
use super::lexer::{Lexer, TokenKind};
use super::syntax::Source;
use crate::statement::{CopyFormat, TransactionModes, Utility};
use rubato_base::{Error, Result, SqlState};

/// A statement of the small grammar. Parts that need the catalog are still text: byte ranges of the source.
pub(crate) enum Syntax {
    /// Nothing left to bind.
    Done(Utility),
    /// Nothing but blanks and comments.
    Empty,
    /// EXPLAIN of the statement that starts at a byte.
    Explain { analyze: bool, json: bool, statement: usize },
    /// PREPARE with the bytes of its type names and the start of its statement.
    Prepare { name: String, types: Vec<(usize, usize)>, statement: (usize, usize) },
    /// EXECUTE with the bytes of its arguments.
    Execute { name: String, arguments: Option<(usize, usize)> },
    /// COPY.
    Copy(CopySyntax),
    /// CREATE SEQUENCE.
    CreateSequence(SequenceSyntax),
}

/// CREATE SEQUENCE before binding.
pub(crate) struct SequenceSyntax {
    pub name: Vec<String>,
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
}

/// COPY before binding.
pub(crate) struct CopySyntax {
    /// The table's name and where it stands.
    pub table: Option<(Vec<String>, usize)>,
    pub columns: Vec<String>,
    /// The bytes of the query.
    pub query: Option<(usize, usize)>,
    pub from: bool,
    pub options: CopyOptions,
}

/// COPY's options, with PostgreSQL's defaults filled in.
pub(crate) struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    pub null: String,
    pub header: bool,
    pub quote: u8,
    pub escape: u8,
    /// `None`: `*`.
    pub force_quote: Option<Vec<String>>,
}

/// Parses `source` if its first word belongs to the small grammar.
pub(crate) fn parse_utility(source: Source<'_>) -> Result<Option<Syntax>> {
    let mut lexer = Lexer::new(source.text);
    let Some(first) = lexer.next_token()? else { return Ok(Some(Syntax::Empty)) };
    if first.kind == TokenKind::Symbol(b';') && lexer.next_token()?.is_none() {
        return Ok(Some(Syntax::Empty));
    }
    if first.kind != TokenKind::Word {
        return Ok(None);
    }
    if first.is(source.text, "create") {
        return create_sequence(Cursor::new(source)?);
    }
    let word = first.text(source.text).to_ascii_lowercase();
    let Some((_, parse)) = STATEMENTS.iter().find(|(keyword, _)| *keyword == word) else { return Ok(None) };
    let mut cursor = Cursor::new(source)?;
    cursor.advance();
    let syntax = parse(&mut cursor)?;
    Ok(Some(syntax))
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
    ("lock", lock),
    ("vacuum", |cursor| maintenance(cursor, "VACUUM")),
    ("analyze", |cursor| maintenance(cursor, "ANALYZE")),
    ("analyse", |cursor| maintenance(cursor, "ANALYZE")),
    ("checkpoint", |cursor| maintenance(cursor, "CHECKPOINT")),
    ("cluster", |cursor| maintenance(cursor, "CLUSTER")),
    ("reindex", |cursor| maintenance(cursor, "REINDEX")),
    ("comment", |cursor| maintenance(cursor, "COMMENT")),
    ("unlisten", |cursor| maintenance(cursor, "UNLISTEN")),
    ("listen", |cursor| refuse(cursor, "LISTEN")),
    ("notify", |cursor| refuse(cursor, "NOTIFY")),
    ("declare", |cursor| refuse(cursor, "DECLARE CURSOR")),
    ("fetch", |cursor| refuse(cursor, "FETCH from a cursor")),
    ("move", |cursor| refuse(cursor, "MOVE of a cursor")),
    ("close", |cursor| refuse(cursor, "CLOSE of a cursor")),
    ("do", |cursor| refuse(cursor, "DO")),
];

fn done(cursor: &Cursor<'_>, utility: Utility) -> Result<Syntax> {
    cursor.expect_end()?;
    Ok(Syntax::Done(utility))
}

fn refuse(_: &mut Cursor<'_>, what: &str) -> Result<Syntax> {
    Err(Error::unsupported(what))
}

/// Statements that have nothing to do here; their operands are read over.
fn maintenance(cursor: &mut Cursor<'_>, tag: &'static str) -> Result<Syntax> {
    while cursor.advance().is_some() {}
    Ok(Syntax::Done(Utility::Maintenance { tag }))
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
    found.map(|(_, level)| (*level).to_owned()).ok_or_else(|| cursor.error())
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
        return maintenance(cursor, "SET CONSTRAINTS");
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
            let name = if special == "role" { "role" } else { "session_authorization" };
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
        return done(cursor, Utility::Set { name, value: None, local });
    }
    let mut values = vec![setting_value(cursor)?];
    while cursor.accept_symbol(b',') {
        values.push(setting_value(cursor)?);
    }
    done(cursor, Utility::Set { name, value: Some(values.join(", ")), local })
}

fn setting_value(cursor: &mut Cursor<'_>) -> Result<String> {
    let Some(token) = cursor.peek() else { return Err(cursor.error()) };
    let text = token.text(cursor.source.text);
    match token.kind {
        TokenKind::Text | TokenKind::SpecialText => cursor.text_literal(),
        TokenKind::Word if token.is(cursor.source.text, "interval") => {
            cursor.advance();
            cursor.text_literal()
        }
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
    Ok(Syntax::Prepare { name, types, statement: (cursor.offset(), cursor.end_offset()) })
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
    let name = if cursor.accept("all") { None } else { Some(cursor.name()?) };
    done(cursor, Utility::Deallocate(name))
}

fn discard(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    match cursor.accept_any(&["all", "plans", "sequences", "temp", "temporary"]) {
        Some("all") => done(cursor, Utility::Discard),
        Some("plans") => maintenance(cursor, "DISCARD PLANS"),
        Some("sequences") => maintenance(cursor, "DISCARD SEQUENCES"),
        Some(_) => maintenance(cursor, "DISCARD TEMP"),
        None => Err(cursor.error()),
    }
}

fn lock(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    while cursor.advance().is_some() {}
    Ok(Syntax::Done(Utility::LockTable))
}

fn explain(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let (mut analyze, mut json) = (false, false);
    if cursor.accept_symbol(b'(') {
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
    Ok(Syntax::Explain { analyze, json, statement: cursor.offset() })
}

fn explain_format(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "json" => Ok(true),
        "text" => Ok(false),
        "xml" | "yaml" => Err(Error::unsupported(format!("EXPLAIN with FORMAT {}", value.to_ascii_uppercase()))
            .with_hint("FORMAT TEXT and FORMAT JSON are supported.")),
        other => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized value for EXPLAIN option \"format\": \"{other}\""),
        )),
    }
}

/// CREATE SEQUENCE with its options in any order, which the library's grammar does not take; `None` for any other CREATE.
fn create_sequence(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    let temporary = cursor.accept_any(&["temporary", "temp"]).is_some();
    if !cursor.accept("sequence") {
        return Ok(None);
    }
    if temporary {
        return Err(Error::unsupported("a temporary sequence"));
    }
    let if_not_exists = cursor.accept_all(&["if", "not", "exists"]);
    let name = cursor.qualified_name()?;
    let mut syntax =
        SequenceSyntax { name, if_not_exists, data_type: None, options: SequenceOptions::default(), owned_by: None };
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
    } else if cursor.accept("increment") {
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
        whole_number(cursor)?;
    } else if cursor.accept("cycle") {
        options.cycle = true;
    } else if cursor.accept_all(&["owned", "by"]) {
        let owner = cursor.qualified_name()?;
        syntax.owned_by = (owner != ["none"]).then_some(owner);
    } else if !(cursor.accept("no") && cursor.accept_any(&["minvalue", "maxvalue", "cycle"]).is_some()) {
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
                Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value \"{digits}\" is out of range for type bigint"))
            })?;
            cursor.advance();
            Ok(number)
        }
        _ => Err(cursor.error()),
    }
}

fn copy(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let mut old_binary = cursor.accept("binary");
    let (mut table, mut columns, mut query) = (None, Vec::new(), None);
    if cursor.accept_symbol(b'(') {
        query = Some(cursor.skip_parenthesis()?);
    } else {
        let place = cursor.offset();
        table = Some((cursor.qualified_name()?, place));
        if cursor.peek().is_some_and(|token| token.kind == TokenKind::Symbol(b'(')) {
            columns = cursor.name_list()?;
        }
    }
    let from = match cursor.accept_any(&["from", "to"]) {
        Some("from") if query.is_none() => true,
        Some("to") => false,
        _ => return Err(cursor.error()),
    };
    copy_end_point(cursor, from)?;
    cursor.accept("with");
    let mut options = RawOptions::default();
    if cursor.accept_symbol(b'(') {
        loop {
            options.read(cursor)?;
            if !cursor.accept_symbol(b',') {
                break;
            }
        }
        cursor.expect_symbol(b')')?;
    } else {
        while !cursor.is_at_end() && !cursor.at_keyword("where") {
            options.read_old(cursor, &mut old_binary)?;
        }
    }
    if cursor.at_keyword("where") {
        return refuse(cursor, "COPY FROM with WHERE");
    }
    cursor.expect_end()?;
    if old_binary {
        options.format = Some(CopyFormat::Binary);
    }
    Ok(Syntax::Copy(CopySyntax { table, columns, query, from, options: options.finish(from)? }))
}

fn copy_end_point(cursor: &mut Cursor<'_>, from: bool) -> Result<()> {
    if cursor.accept(if from { "stdin" } else { "stdout" }) {
        return Ok(());
    }
    // PostgreSQL takes either word in either direction.
    if cursor.accept_any(&["stdin", "stdout"]).is_some() {
        return Ok(());
    }
    let is_file = cursor.at_keyword("program") || cursor.text_literal().is_ok();
    if is_file {
        return Err(Error::unsupported("COPY with a file or program of the server")
            .with_hint("Use COPY FROM STDIN or COPY TO STDOUT; psql's \\copy does so for local files."));
    }
    Err(cursor.error())
}

#[derive(Default)]
struct RawOptions {
    format: Option<CopyFormat>,
    delimiter: Option<String>,
    null: Option<String>,
    header: bool,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<Vec<String>>,
    force_quote_all: bool,
}

impl RawOptions {
    /// One `name value` of the list in parentheses.
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let name = cursor.name()?;
        match name.as_str() {
            "format" => {
                let format = setting_value(cursor)?;
                self.format = Some(match format.as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    other => return Err(option_error(format!("COPY format \"{other}\" not recognized"))),
                });
            }
            "delimiter" => self.delimiter = Some(cursor.text_literal()?),
            "null" => self.null = Some(cursor.text_literal()?),
            "quote" => self.quote = Some(cursor.text_literal()?),
            "escape" => self.escape = Some(cursor.text_literal()?),
            "header" => self.header = self.flag(cursor)?,
            "freeze" => {
                self.flag(cursor)?;
            }
            "encoding" => check_encoding(&cursor.text_literal()?)?,
            "force_quote" if cursor.accept_symbol(b'*') => self.force_quote_all = true,
            "force_quote" => self.force_quote = Some(cursor.name_list()?),
            "force_not_null" | "force_null" => {
                return Err(Error::unsupported(format!("COPY with {}", name.to_ascii_uppercase())));
            }
            other => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, format!("option \"{other}\" not recognized")));
            }
        }
        Ok(())
    }

    fn flag(&mut self, cursor: &mut Cursor<'_>) -> Result<bool> {
        match cursor.peek() {
            Some(token) if !matches!(token.kind, TokenKind::Symbol(b',' | b')')) => {
                let value = setting_value(cursor)?;
                Ok(!matches!(value.as_str(), "false" | "off" | "0"))
            }
            _ => Ok(true),
        }
    }

    /// One option of the form before PostgreSQL 9.0.
    fn read_old(&mut self, cursor: &mut Cursor<'_>, binary: &mut bool) -> Result<()> {
        let keyword = cursor.accept_any(&[
            "binary", "csv", "header", "freeze", "delimiter", "delimiters", "null", "quote", "escape", "encoding", "force",
        ]);
        match keyword {
            Some("binary") => *binary = true,
            Some("csv") => self.format = Some(CopyFormat::Csv),
            Some("header") => self.header = true,
            Some("freeze") => {}
            Some("force") => return Err(Error::unsupported("COPY with FORCE outside of an option list")),
            Some(option) => {
                cursor.accept("as");
                let value = cursor.text_literal()?;
                match option {
                    "null" => self.null = Some(value),
                    "quote" => self.quote = Some(value),
                    "escape" => self.escape = Some(value),
                    "encoding" => check_encoding(&value)?,
                    _ => self.delimiter = Some(value),
                }
            }
            None => return Err(cursor.error()),
        }
        Ok(())
    }

    fn finish(self, from: bool) -> Result<CopyOptions> {
        let format = self.format.unwrap_or(CopyFormat::Text);
        let csv = format == CopyFormat::Csv;
        let given = [
            ("DELIMITER", self.delimiter.is_some(), format == CopyFormat::Binary),
            ("NULL", self.null.is_some(), format == CopyFormat::Binary),
            ("HEADER", self.header, format == CopyFormat::Binary),
            ("QUOTE", self.quote.is_some(), !csv),
            ("ESCAPE", self.escape.is_some(), !csv),
            ("FORCE_QUOTE", self.force_quote.is_some() || self.force_quote_all, !csv || from),
        ];
        if let Some((option, ..)) = given.iter().find(|(_, given, refused)| *given && *refused) {
            return Err(option_error(format!("COPY {option} is not available with this format or direction")));
        }
        let delimiter = one_byte("delimiter", self.delimiter.as_deref(), if csv { b',' } else { b'\t' })?;
        let quote = one_byte("quote", self.quote.as_deref(), b'"')?;
        let escape = one_byte("escape", self.escape.as_deref(), quote)?;
        if csv && delimiter == quote {
            return Err(option_error("COPY delimiter and quote must be different".to_owned()));
        }
        let illegal = !csv && (delimiter.is_ascii_alphanumeric() || matches!(delimiter, b'\\' | b'.'));
        if illegal || matches!(delimiter, b'\n' | b'\r') {
            return Err(option_error(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter))));
        }
        let null = self.null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() });
        if null.contains(['\n', '\r']) || null.as_bytes().contains(&delimiter) {
            return Err(option_error("COPY NULL must not contain line ends or the delimiter".to_owned()));
        }
        let force_quote = if self.force_quote_all { None } else { Some(self.force_quote.unwrap_or_default()) };
        Ok(CopyOptions { format, delimiter, null, header: self.header, quote, escape, force_quote })
    }
}

fn one_byte(what: &str, given: Option<&str>, default: u8) -> Result<u8> {
    match given.map(str::as_bytes) {
        None => Ok(default),
        Some([byte]) => Ok(*byte),
        Some(_) => Err(option_error(format!("COPY {what} must be a single one-byte character"))),
    }
}

fn check_encoding(encoding: &str) -> Result<()> {
    let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    if matches!(plain.to_ascii_uppercase().as_str(), "UTF8" | "UNICODE") {
        return Ok(());
    }
    Err(Error::unsupported(format!("encoding \"{encoding}\"")).with_hint("Only UTF8 is supported."))
}

fn option_error(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
