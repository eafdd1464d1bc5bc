//! `DO`: the part of PL/pgSQL that makes definitions and goes on where one is there already, as migrations have it.

use super::super::cursor::Cursor;
use super::super::lexer::TokenKind;
use super::super::syntax::Source;
use super::Syntax;
use crate::statement::{Block, Condition, Definition, Handler, Place, Step};
use rubato_base::{Error, Result, SqlState};

/// Blocks within blocks.
const DEPTH_MAX: usize = 32;

/// What a block may have in PL/pgSQL and has not here.
const REFUSED: [&str; 19] = [
    "case", "loop", "while", "for", "foreach", "exit", "continue", "return", "perform", "get", "open", "fetch", "move",
    "close", "call", "commit", "rollback", "assert", "raise",
];

/// The conditions that definitions fail with, and classes of them; those of rows are known by name too.
const CONDITIONS: [(&str, &[u8; 5]); 41] = [
    ("ambiguous_column", b"42702"),
    ("check_violation", b"23514"),
    ("datatype_mismatch", b"42804"),
    ("dependent_objects_still_exist", b"2BP01"),
    ("dependent_privilege_descriptors_still_exist", b"2B000"),
    ("division_by_zero", b"22012"),
    ("duplicate_alias", b"42712"),
    ("duplicate_column", b"42701"),
    ("duplicate_cursor", b"42P03"),
    ("duplicate_database", b"42P04"),
    ("duplicate_function", b"42723"),
    ("duplicate_object", b"42710"),
    ("duplicate_prepared_statement", b"42P05"),
    ("duplicate_schema", b"42P06"),
    ("duplicate_table", b"42P07"),
    ("feature_not_supported", b"0A000"),
    ("foreign_key_violation", b"23503"),
    ("insufficient_privilege", b"42501"),
    ("integrity_constraint_violation", b"23000"),
    ("invalid_catalog_name", b"3D000"),
    ("invalid_column_definition", b"42611"),
    ("invalid_column_reference", b"42P10"),
    ("invalid_foreign_key", b"42830"),
    ("invalid_object_definition", b"42P17"),
    ("invalid_parameter_value", b"22023"),
    ("invalid_schema_definition", b"42P15"),
    ("invalid_schema_name", b"3F000"),
    ("invalid_table_definition", b"42P16"),
    ("not_null_violation", b"23502"),
    ("object_in_use", b"55006"),
    ("object_not_in_prerequisite_state", b"55000"),
    ("raise_exception", b"P0001"),
    ("reserved_name", b"42939"),
    ("syntax_error", b"42601"),
    ("syntax_error_or_access_rule_violation", b"42000"),
    ("undefined_column", b"42703"),
    ("undefined_file", b"58P01"),
    ("undefined_function", b"42883"),
    ("undefined_object", b"42704"),
    ("undefined_table", b"42P01"),
    ("unique_violation", b"23505"),
];

/// `DO [LANGUAGE plpgsql] 'block'`, the two in either order.
pub(super) fn run_block(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let mut body = None;
    while !cursor.is_at_end() {
        if cursor.accept("language") {
            check_language(cursor)?;
        } else if body.is_none() {
            body = Some(read_body(cursor)?);
        } else {
            return Err(cursor.error());
        }
    }
    body.map(Syntax::Do).ok_or_else(|| cursor.error())
}

fn check_language(cursor: &mut Cursor<'_>) -> Result<()> {
    let is_text = cursor.peek().is_some_and(|token| token.kind == TokenKind::Text);
    let language = match is_text {
        true => cursor.text_literal()?,
        false => cursor.name()?,
    };
    match language.as_str() {
        "plpgsql" => Ok(()),
        "sql" | "c" | "internal" => {
            let message = format!("language \"{language}\" does not support inline code execution");
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        _ => {
            let message = format!("language \"{language}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

/// The text that is the block. Errors in one between dollars name their place.
fn read_body(cursor: &mut Cursor<'_>) -> Result<Block> {
    let token = cursor.peek().ok_or_else(|| cursor.error())?;
    let content = cursor.text_literal()?;
    let source = cursor.source;
    if !token.text(source.text).starts_with('$') {
        return read_source(Source::new(&content)).map_err(Error::without_position);
    }
    let start = token.start + (token.end - token.start - content.len()) / 2;
    read_source(Source {
        text: &content,
        characters_before: source.byte_position(start) - 1,
    })
}

fn read_source(source: Source<'_>) -> Result<Block> {
    let mut cursor = Cursor::new(source)?;
    let block = block(&mut cursor, 0)?;
    cursor.expect_end()?;
    Ok(block)
}

/// `[<<label>>] [DECLARE] BEGIN steps [EXCEPTION handlers] END [label]`
fn block(cursor: &mut Cursor<'_>, depth: usize) -> Result<Block> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    if cursor.accept_symbol(b'<') {
        cursor.expect_symbol(b'<')?;
        cursor.name()?;
        cursor.expect_symbol(b'>')?;
        cursor.expect_symbol(b'>')?;
    }
    if cursor.accept("declare") && !cursor.at_keyword("begin") {
        return Err(unsupported(cursor, "a variable"));
    }
    cursor.expect("begin")?;
    let steps = steps(cursor, depth)?;
    let mut handlers = Vec::new();
    if cursor.accept("exception") {
        while cursor.accept("when") {
            handlers.push(handler(cursor, depth)?);
        }
        if handlers.is_empty() {
            return Err(cursor.error());
        }
    }
    cursor.expect("end")?;
    if cursor.peek().is_some_and(|token| token.kind != TokenKind::Symbol(b';')) {
        cursor.name()?;
    }
    Ok(Block { steps, handlers })
}

fn handler(cursor: &mut Cursor<'_>, depth: usize) -> Result<Handler> {
    let mut conditions = vec![condition(cursor)?];
    while cursor.accept("or") {
        conditions.push(condition(cursor)?);
    }
    cursor.expect("then")?;
    let steps = steps(cursor, depth)?;
    Ok(Handler { conditions, steps })
}

fn condition(cursor: &mut Cursor<'_>) -> Result<Condition> {
    if cursor.accept("sqlstate") {
        let wrong = cursor.error();
        let code: [u8; 5] = cursor
            .text_literal()?
            .into_bytes()
            .try_into()
            .map_err(|_| wrong.clone())?;
        let is_letter = |letter: &u8| letter.is_ascii_digit() || letter.is_ascii_uppercase();
        return match code.iter().all(is_letter) {
            true => Ok(Condition::State(SqlState(code))),
            false => Err(wrong),
        };
    }
    let line = line_of(cursor);
    let name = cursor.name()?;
    if name == "others" {
        return Ok(Condition::Others);
    }
    let known = CONDITIONS.iter().find(|(own, _)| *own == name);
    known
        .map(|(_, code)| Condition::State(SqlState(**code)))
        .ok_or_else(|| {
            let message = format!("unrecognized exception condition \"{name}\"");
            let context = format!("compilation of PL/pgSQL function \"inline_code_block\" near line {line}");
            Error::new(SqlState::UNDEFINED_OBJECT, message).with_context(context)
        })
}

/// Words that steps end at.
const ENDS: [&str; 6] = ["end", "exception", "when", "elsif", "elseif", "else"];

/// Up to END, EXCEPTION, the next handler or the next part of an IF.
fn steps(cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    while !ENDS.iter().any(|word| cursor.at_keyword(word)) {
        if cursor.is_at_end() {
            return Err(cursor.error());
        }
        steps.extend(step(cursor, depth)?);
    }
    Ok(steps)
}

fn step(cursor: &mut Cursor<'_>, depth: usize) -> Result<Option<Step>> {
    let is_block = cursor.at_keyword("begin") || cursor.at_keyword("declare") || cursor.at_words(&["<", "<"]);
    let line = line_of(cursor);
    let step = if is_block {
        Some(Step::Block(block(cursor, depth + 1)?))
    } else if cursor.accept("null") {
        None
    } else if cursor.accept("if") {
        Some(choice(cursor, (depth, line))?)
    } else if cursor.accept_all(&["raise", "notice"]) {
        Some(Step::Notice(raised(cursor)?))
    } else if cursor.accept("execute") {
        let sql = cursor
            .text_literal()
            .map_err(|_| unsupported(cursor, "EXECUTE of an expression"))?;
        if !cursor.is_at_end() && !cursor.at_words(&[";"]) {
            return Err(unsupported(cursor, "EXECUTE of an expression"));
        }
        Some(Step::Definition(Definition {
            sql,
            line,
            place: Place::Execute,
        }))
    } else {
        Some(Step::Definition(definition(cursor, line)?))
    };
    cursor.expect_symbol(b';')?;
    Ok(step)
}

/// `condition THEN steps [ELSIF condition THEN steps ...] [ELSE steps] END IF`
fn choice(cursor: &mut Cursor<'_>, (depth, line): (usize, usize)) -> Result<Step> {
    if depth >= DEPTH_MAX {
        return Err(too_deep());
    }
    let mut branches = Vec::new();
    loop {
        let condition = Definition {
            sql: read_condition(cursor)?,
            line,
            place: Place::If,
        };
        branches.push((condition, steps(cursor, depth + 1)?));
        if cursor.accept_any(&["elsif", "elseif"]).is_none() {
            break;
        }
    }
    let otherwise = match cursor.accept("else") {
        true => steps(cursor, depth + 1)?,
        false => Vec::new(),
    };
    cursor.expect("end")?;
    cursor.expect("if")?;
    Ok(Step::If { branches, otherwise })
}

/// The text up to the THEN that is not of a CASE.
fn read_condition(cursor: &mut Cursor<'_>) -> Result<String> {
    let (start, mut cases) = (cursor.offset(), 0_usize);
    while cases > 0 || !cursor.at_keyword("then") {
        if cursor.at_keyword("case") {
            cases += 1;
        } else if cursor.at_keyword("end") {
            cases = cases.saturating_sub(1);
        }
        if cursor.at_words(&[";"]) || cursor.advance().is_none() {
            return Err(cursor.error());
        }
    }
    let sql = cursor.source.text[start..cursor.last_end().max(start)].to_owned();
    if sql.is_empty() {
        let place = cursor.source.byte_position(start);
        let missing = Error::new(SqlState::SYNTAX_ERROR, "missing expression at or near \"THEN\"");
        return Err(missing.with_position(Some(place)));
    }
    cursor.expect("then")?;
    Ok(sql)
}

/// The text of RAISE NOTICE, which names no parameters.
fn raised(cursor: &mut Cursor<'_>) -> Result<String> {
    let text = cursor.text_literal()?;
    if cursor.at_words(&[","]) || text.replace("%%", "").contains('%') {
        return Err(unsupported(cursor, "a parameter of RAISE"));
    }
    Ok(text.replace("%%", "%"))
}

/// A statement of SQL, up to its semicolon.
fn definition(cursor: &mut Cursor<'_>, line: usize) -> Result<Definition> {
    let start = cursor.offset();
    if let Some(word) = REFUSED.iter().find(|word| cursor.at_keyword(word)) {
        return Err(unsupported(cursor, &word.to_ascii_uppercase()));
    }
    let mut depth = 0_usize;
    while let Some(token) = cursor.peek() {
        match token.kind {
            TokenKind::Symbol(b';') if depth == 0 => break,
            TokenKind::Symbol(b'(') => depth += 1,
            TokenKind::Symbol(b')') => depth = depth.saturating_sub(1),
            TokenKind::Symbol(b':') if cursor.at_words(&[":", "="]) => return Err(unsupported(cursor, "a variable")),
            _ => {}
        }
        cursor.advance();
    }
    let end = cursor.last_end();
    if end <= start {
        return Err(cursor.error());
    }
    Ok(Definition {
        sql: cursor.source.text[start..end].to_owned(),
        line,
        place: Place::Statement,
    })
}

fn line_of(cursor: &Cursor<'_>) -> usize {
    let before = &cursor.source.text[..cursor.offset()];
    before.bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// 54001.
fn too_deep() -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "blocks of DO are nested too deeply")
}

/// 0A000.
fn unsupported(cursor: &Cursor<'_>, what: &str) -> Error {
    let place = cursor.source.byte_position(cursor.offset());
    Error::unsupported(format!("{what} in DO")).with_position(Some(place))
}
