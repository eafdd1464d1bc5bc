//! COPY and its options, in the forms of PostgreSQL 9 and before.

use super::{Syntax, setting_value};
use crate::parser::cursor::Cursor;
use crate::parser::lexer::TokenKind;
use crate::statement::CopyFormat;
use rubato_base::{Error, Result, SqlState};

/// COPY before binding.
pub(crate) struct CopySyntax {
    /// The table's name.
    pub table: Option<Vec<String>>,
    pub columns: Vec<String>,
    /// The bytes of the query.
    pub query: Option<(usize, usize)>,
    pub from: bool,
    /// The bytes of the condition of WHERE.
    pub filter: Option<(usize, usize)>,
    pub options: CopyOptions,
}

/// COPY's options, with PostgreSQL's defaults filled in.
pub(crate) struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    pub null: String,
    pub header: bool,
    /// HEADER MATCH.
    pub match_header: bool,
    pub quote: u8,
    pub escape: u8,
    /// `None`: `*`.
    pub force_quote: Option<Vec<String>>,
    pub force_null: Vec<String>,
    pub force_not_null: Vec<String>,
}

pub(super) fn copy(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let mut old_binary = cursor.accept("binary");
    let (mut table, mut columns, mut query) = (None, Vec::new(), None);
    if cursor.accept_symbol(b'(') {
        query = Some(cursor.skip_parenthesis()?);
    } else {
        table = Some(cursor.qualified_name()?);
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
    let filter = if from || table.is_some() {
        filter(cursor, from)?
    } else {
        None
    };
    cursor.expect_end()?;
    if old_binary {
        options.format = Some(CopyFormat::Binary);
    }
    Ok(Syntax::Copy(Box::new(CopySyntax {
        table,
        columns,
        query,
        from,
        filter,
        options: options.finish(from)?,
    })))
}

/// The rest of the statement, if it is WHERE with a condition.
fn filter(cursor: &mut Cursor<'_>, from: bool) -> Result<Option<(usize, usize)>> {
    let place = cursor.source.byte_position(cursor.offset());
    if !cursor.accept("where") {
        return Ok(None);
    }
    if !from {
        let error = Error::new(SqlState::SYNTAX_ERROR, "WHERE clause not allowed with COPY TO");
        return Err(error.with_position(Some(place)));
    }
    if cursor.is_at_end() {
        return Err(cursor.error());
    }
    let range = (cursor.offset(), cursor.end_offset());
    while cursor.advance().is_some() {}
    Ok(Some(range))
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

/// Names without brackets around them.
fn bare_names(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut names = vec![cursor.name()?];
    while cursor.accept_symbol(b',') {
        names.push(cursor.name()?);
    }
    Ok(names)
}

#[derive(Default)]
struct RawOptions {
    format: Option<CopyFormat>,
    delimiter: Option<String>,
    null: Option<String>,
    header: bool,
    match_header: bool,
    force_null: Vec<String>,
    force_not_null: Vec<String>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<Vec<String>>,
    force_quote_all: bool,
}

impl RawOptions {
    /// One `name value` of the list in parentheses.
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let place = cursor.source.byte_position(cursor.offset());
        let name = cursor.name()?;
        match name.as_str() {
            "format" => {
                let format = setting_value(cursor)?;
                self.format = Some(match format.as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    other => {
                        let error = option_error(format!("COPY format \"{other}\" not recognized"));
                        return Err(error.with_position(Some(place)));
                    }
                });
            }
            "delimiter" => self.delimiter = Some(cursor.text_literal()?),
            "null" => self.null = Some(cursor.text_literal()?),
            "quote" => self.quote = Some(cursor.text_literal()?),
            "escape" => self.escape = Some(cursor.text_literal()?),
            "header" if cursor.accept("match") => (self.header, self.match_header) = (true, true),
            "header" => {
                (self.header, self.match_header) = (self.flag(cursor)?, false);
            }
            "freeze" => {
                self.flag(cursor)?;
            }
            "encoding" => check_encoding(&cursor.text_literal()?)?,
            "force_quote" if cursor.accept_symbol(b'*') => self.force_quote_all = true,
            "force_quote" => self.force_quote = Some(cursor.name_list()?),
            "force_not_null" => self.force_not_null = cursor.name_list()?,
            "force_null" => self.force_null = cursor.name_list()?,
            other => {
                return Err(
                    Error::new(SqlState::SYNTAX_ERROR, format!("option \"{other}\" not recognized"))
                        .with_position(Some(place)),
                );
            }
        }
        Ok(())
    }

    fn flag(&mut self, cursor: &mut Cursor<'_>) -> Result<bool> {
        match cursor.peek() {
            Some(token) if !matches!(token.kind, TokenKind::Symbol(b',' | b')')) => {
                let value = setting_value(cursor)?;
                match value.to_ascii_lowercase().as_str() {
                    "true" | "on" | "1" => Ok(true),
                    "false" | "off" | "0" => Ok(false),
                    _ => Err(Error::new(SqlState::SYNTAX_ERROR, "a Boolean value is required")),
                }
            }
            _ => Ok(true),
        }
    }

    /// One option of the form before PostgreSQL 9.0.
    fn read_old(&mut self, cursor: &mut Cursor<'_>, binary: &mut bool) -> Result<()> {
        let keyword = cursor.accept_any(&[
            "binary",
            "csv",
            "header",
            "freeze",
            "delimiter",
            "delimiters",
            "null",
            "quote",
            "escape",
            "encoding",
            "force",
        ]);
        match keyword {
            Some("binary") => *binary = true,
            Some("csv") => self.format = Some(CopyFormat::Csv),
            Some("header") => self.header = true,
            Some("freeze") => {}
            Some("force") if cursor.accept("quote") => match cursor.accept_symbol(b'*') {
                true => self.force_quote_all = true,
                false => self.force_quote = Some(bare_names(cursor)?),
            },
            Some("force") if cursor.accept_all(&["not", "null"]) => self.force_not_null = bare_names(cursor)?,
            Some("force") => {
                cursor.expect("null")?;
                self.force_null = bare_names(cursor)?;
            }
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
            (
                "FORCE_QUOTE",
                self.force_quote.is_some() || self.force_quote_all,
                !csv || from,
            ),
            ("FORCE_NULL", !self.force_null.is_empty(), !csv || !from),
            ("FORCE_NOT_NULL", !self.force_not_null.is_empty(), !csv || !from),
        ];
        if let Some((option, ..)) = given.iter().find(|(_, given, refused)| *given && *refused) {
            return Err(option_error(format!(
                "COPY {option} is not available with this format or direction"
            )));
        }
        if self.match_header && !from {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot use \"match\" with HEADER in COPY TO",
            ));
        }
        let delimiter = one_byte("delimiter", self.delimiter.as_deref(), if csv { b',' } else { b'\t' })?;
        let quote = one_byte("quote", self.quote.as_deref(), b'"')?;
        let escape = one_byte("escape", self.escape.as_deref(), quote)?;
        if csv && delimiter == quote {
            return Err(option_error("COPY delimiter and quote must be different".to_owned()));
        }
        let illegal = !csv && (delimiter.is_ascii_alphanumeric() || matches!(delimiter, b'\\' | b'.'));
        if illegal || matches!(delimiter, b'\n' | b'\r') {
            return Err(option_error(format!(
                "COPY delimiter cannot be \"{}\"",
                char::from(delimiter)
            )));
        }
        let null = self
            .null
            .unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() });
        if null.contains(['\n', '\r']) || null.as_bytes().contains(&delimiter) {
            return Err(option_error(
                "COPY NULL must not contain line ends or the delimiter".to_owned(),
            ));
        }
        let force_quote = if self.force_quote_all {
            None
        } else {
            Some(self.force_quote.unwrap_or_default())
        };
        Ok(CopyOptions {
            format,
            delimiter,
            null,
            header: self.header,
            match_header: self.match_header,
            force_null: self.force_null,
            force_not_null: self.force_not_null,
            quote,
            escape,
            force_quote,
        })
    }
}

fn one_byte(what: &str, given: Option<&str>, default: u8) -> Result<u8> {
    match given.map(str::as_bytes) {
        None => Ok(default),
        Some([byte]) => Ok(*byte),
        Some(_) => Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("COPY {what} must be a single one-byte character"),
        )),
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
