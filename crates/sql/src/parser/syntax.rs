//! The library's grammar behind our errors and limits.

use super::dialect::Postgres;
use super::lexer::{Lexer, TokenKind, character_position};
use super::places::Marks;
use super::rewrites::{CutTarget, cut_conflict_target, rewritten};
use super::subscripts::{array_types, assigned_parts, split_signs};
use super::unsupported::unsupported;
use crate::catalog::ViewCheck;
use rubato_base::{Error, NAME_BYTES_MAX, Result, SqlState, name_up_to};
use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError, ParserOptions};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};

/// The largest statement text: what a message may hold.
pub(crate) const STATEMENT_BYTES_MAX: usize = 256 << 20;
/// How many tokens it may have, each of which takes some 400 bytes while the statement is read; larger loads go through COPY.
const TOKENS_MAX: usize = 4 << 20;
/// How deep parentheses, CASE and casts may nest.
const NESTING_MAX: usize = 1000;
/// How many operators one expression may chain without a comma, AND, OR or bracket between them. The syntax tree of a chain is as
/// deep as the chain is long, and what it is bound to is evaluated by recursion.
const CHAIN_MAX: usize = 1500;
/// How many terms AND and OR may join. They are bound to a list; only the syntax tree is deep.
const TERMS_MAX: usize = 50_000;
/// How many queries UNION and its kin may join.
const QUERIES_MAX: usize = 1500;
/// How high what a text is bound to may be, counted in operators, brackets and words within each other: it is evaluated, kept and read
/// again by recursion.
const HEIGHT_MAX: usize = 2500;
/// How high the syntax tree may be, where the terms of AND and OR count as well.
const TREE_HEIGHT_MAX: usize = TERMS_MAX + 10_000;
/// The stack on which deep syntax trees are made, bound and dropped, all of it by recursion.
const DEEP_STACK_BYTES: usize = 256 << 20;

/// What is said where a text ends too early.
const END_OF_INPUT: &str = "syntax error at end of input";

/// An error of a statement that was cut off before its semicolon: where the statement ends too early, the semicolon is what
/// stands there.
pub(crate) fn at_semicolon(error: Error, semicolon: Option<u32>) -> Error {
    match semicolon {
        Some(position) if error.message() == END_OF_INPUT => {
            Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \";\"").with_position(Some(position))
        }
        _ => error,
    }
}

/// A text and how many characters of the client's text stand before it, for positions in errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// The text that the syntax tree was made of.
    pub text: &'a str,
    /// Characters before it.
    pub characters_before: u32,
}

impl<'a> Source<'a> {
    /// A text that is all the client sent.
    pub fn new(text: &'a str) -> Source<'a> {
        Source {
            text,
            characters_before: 0,
        }
    }

    /// The part of this text from byte `start`.
    pub fn tail(self, start: usize) -> Source<'a> {
        Source {
            text: &self.text[start..],
            characters_before: self.characters_before + character_position(self.text, start) - 1,
        }
    }

    /// The position of byte `offset`.
    pub fn byte_position(self, offset: usize) -> u32 {
        self.characters_before + character_position(self.text, offset)
    }

    /// 42601 at a byte of the text: PostgreSQL names the token there.
    pub fn syntax_error(self, offset: usize) -> Error {
        let position = Some(self.byte_position(offset));
        let mut lexer = Lexer::new(&self.text[offset..]);
        match lexer.next_token() {
            Ok(Some(token)) => {
                let near = token.text(&self.text[offset..]);
                let offset = offset + token.start;
                Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
                    .with_position(Some(self.byte_position(offset)))
            }
            Ok(None) => Error::new(SqlState::SYNTAX_ERROR, END_OF_INPUT).with_position(position),
            Err(error) => error,
        }
    }

    fn library_error(self, error: ParserError) -> Error {
        let (ParserError::TokenizerError(message) | ParserError::ParserError(message)) = error else {
            return too_complex();
        };
        if message.contains("found: EOF") {
            return self.syntax_error(self.text.len());
        }
        let Some((what, place)) = message.rsplit_once(" at Line: ") else {
            return Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: {message}"));
        };
        let location = place.split_once(", Column: ").and_then(|(line, column)| {
            Some(Location {
                line: line.parse().ok()?,
                column: column.trim().parse().ok()?,
            })
        });
        match location.and_then(|location| Marks::of(self.text).places(self).offset(location)) {
            Some(offset) => self.syntax_error(offset),
            None => Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: {what}")),
        }
    }
}

fn too_complex() -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").with_hint(
        "The statement nests or chains too many expressions; use IN lists, VALUES lists or parameters instead.",
    )
}

/// A statement of the library's grammar and what its syntax tree has no room for.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The syntax tree.
    pub statement: ast::Statement,
    /// What INSERT says.
    pub insert: InsertClauses,
    /// Whether CREATE TABLE AS says WITH NO DATA.
    pub with_no_data: bool,
    /// WITH CHECK OPTION of CREATE VIEW.
    pub view_check: Option<ViewCheck>,
}

/// What INSERT says that the syntax tree has no room for.
#[derive(Debug, Default)]
pub(crate) struct InsertClauses {
    /// The OVERRIDING clause.
    pub overriding: Option<Overriding>,
    /// What ON CONFLICT lists, if that is more than columns.
    pub conflict_target: Option<ConflictTarget>,
}

/// `ON CONFLICT (keys) WHERE predicate`
#[derive(Debug)]
pub(crate) struct ConflictTarget {
    pub keys: Vec<ast::Expr>,
    pub predicate: Option<ast::Expr>,
}

/// INSERT ... OVERRIDING {SYSTEM | USER} VALUE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// Values given for identity columns are taken.
    System,
    /// They are ignored.
    User,
}

/// Parses one statement that is not in the utility grammar.
pub(crate) fn parse_statement(source: Source<'_>) -> Result<Parsed> {
    let mut clauses = Clauses::default();
    let blanked = blank_unknown_clauses(source, &mut clauses)?;
    let text = blanked.as_deref().unwrap_or(source.text);
    let source = Source { text, ..source };
    let mut tokens = assigned_parts(rewritten(tokens_of(source)?))?;
    let conflict_target = cut_conflict_target(&mut tokens)
        .map(|cut| conflict_target(source, cut))
        .transpose()?;
    let statement = parse_tokens(source, tokens, |parser| parser.parse_statement());
    // The library knows only part of what this version does not have.
    let statement = statement.map_err(|error| match error.code() {
        SqlState::SYNTAX_ERROR => unsupported(source.text).unwrap_or(error),
        _ => error,
    })?;
    Ok(Parsed {
        statement,
        insert: InsertClauses {
            overriding: clauses.overriding,
            conflict_target,
        },
        with_no_data: clauses.with_no_data,
        view_check: clauses.view_check,
    })
}

fn conflict_target(source: Source<'_>, cut: CutTarget) -> Result<ConflictTarget> {
    Ok(ConflictTarget {
        keys: parse_tokens(source, cut.keys, |parser| {
            parser.parse_comma_separated(Parser::parse_expr)
        })?,
        predicate: match cut.predicate.is_empty() {
            true => None,
            false => Some(parse_tokens(source, cut.predicate, |parser| parser.parse_expr())?),
        },
    })
}

/// What clauses say that the library does not know.
#[derive(Default)]
struct Clauses {
    overriding: Option<Overriding>,
    with_no_data: bool,
    view_check: Option<ViewCheck>,
}

/// Replaces clauses that the library does not know by blanks, so that positions stay: OVERRIDING ... VALUE, the lock
/// strengths FOR NO KEY UPDATE and FOR KEY SHARE, which are FOR UPDATE and FOR SHARE here, locks where there is no FROM, EXCLUDE NO OTHERS of window frames, ONLY, WITH [NO]
/// DATA of CREATE TABLE AS, and the tablespace that there is. `None` if there are none. 42704 for any other tablespace.
fn blank_unknown_clauses(source: Source<'_>, clauses: &mut Clauses) -> Result<Option<String>> {
    let sql = source.text;
    let mut lexer = Lexer::new(sql);
    let mut words: Vec<(usize, usize)> = Vec::new();
    let mut blanks: Vec<(usize, usize)> = Vec::new();
    let mut symbol = b' ';
    let (mut has_from, mut is_schema) = (false, None);
    while let Ok(Some(token)) = lexer.next_token() {
        let is = |word: &str| token.is(sql, word);
        let is_schema = *is_schema.get_or_insert(is("create") || is("alter"));
        if is_schema && let Some(clause) = tablespace_clause(source, &words, symbol, token)? {
            blanks.extend(clause);
            words.clear();
            continue;
        }
        if token.kind != TokenKind::Word {
            if let TokenKind::Symbol(seen) = token.kind {
                symbol = seen;
            }
            words.clear();
            continue;
        }
        words.push((token.start, token.end));
        has_from |= is("from");
        if ![
            "value",
            "update",
            "share",
            "only",
            "data",
            "option",
            "concurrently",
            "others",
        ]
        .iter()
        .any(|last| is(last))
        {
            continue;
        }
        let tail: Vec<String> = words
            .iter()
            .rev()
            .take(4)
            .rev()
            .map(|(start, end)| sql[*start..*end].to_ascii_lowercase())
            .collect();
        let tail: Vec<&str> = tail.iter().map(String::as_str).collect();
        let blanked = match tail.as_slice() {
            [.., "overriding", which @ ("system" | "user"), "value"] => {
                clauses.overriding = Some(if *which == "system" {
                    Overriding::System
                } else {
                    Overriding::User
                });
                &words[words.len() - 3..]
            }
            [.., "for", "no", "key", "update"] => &words[words.len() - 3..words.len() - 1],
            [.., "for", "key", "share"] => &words[words.len() - 2..words.len() - 1],
            // Without rows there is nothing to lock.
            [.., "for", "update" | "share"] if !has_from => &words[words.len() - 2..],
            [.., "with", "no", "data"] if is_schema => {
                clauses.with_no_data = true;
                &words[words.len() - 3..]
            }
            ["drop", "index", "concurrently"] => &words[2..],
            // Of a window frame: as if nothing was said.
            [.., "exclude", "no", "others"] => &words[words.len() - 3..],
            [.., "with", "check", "option"] if is_schema => {
                clauses.view_check = Some(ViewCheck::Cascaded);
                &words[words.len() - 3..]
            }
            [.., "with", which @ ("local" | "cascaded"), "check", "option"] if is_schema => {
                clauses.view_check = Some(match *which {
                    "local" => ViewCheck::Local,
                    _ => ViewCheck::Cascaded,
                });
                &words[words.len() - 4..]
            }
            [.., "with", "data"] if is_schema => &words[words.len() - 2..],
            [.., "from" | "update" | "join", "only"] => &words[words.len() - 1..],
            _ => continue,
        };
        blanks.extend_from_slice(blanked);
    }
    if blanks.is_empty() {
        return Ok(None);
    }
    let mut text = sql.to_owned();
    for (start, end) in blanks {
        text.replace_range(start..end, &" ".repeat(end - start));
    }
    Ok(Some(text))
}

/// The places of `[USING INDEX] TABLESPACE name` that ends with this token.
fn tablespace_clause(
    source: Source<'_>,
    words: &[(usize, usize)],
    symbol: u8,
    token: super::lexer::Token,
) -> Result<Option<Vec<(usize, usize)>>> {
    let word = |back: usize| {
        let (start, end) = *words.get(words.len().checked_sub(back)?)?;
        Some(&source.text[start..end])
    };
    let is = |back: usize, wanted: &str| word(back).is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    let clause = if is(1, "tablespace") && is(2, "index") && is(3, "using") {
        3
    } else if is(1, "tablespace") && words.len() == 1 && symbol == b')' {
        1
    } else {
        return Ok(None);
    };
    let name = match token.kind {
        TokenKind::Word => token.text(source.text).to_ascii_lowercase(),
        TokenKind::QuotedWord => token.text(source.text).trim_matches('"').replace("\"\"", "\""),
        _ => return Ok(None),
    };
    if name != "pg_default" {
        let message = format!("tablespace \"{name}\" does not exist");
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
    }
    let words = words[words.len() - clause..].iter().copied();
    Ok(Some(words.chain([(token.start, token.end)]).collect()))
}

/// Parses a comma-separated list of expressions.
pub(crate) fn parse_expressions(source: Source<'_>) -> Result<Vec<ast::Expr>> {
    parse_with(source, |parser| parser.parse_comma_separated(Parser::parse_expr))
}

/// Parses one expression.
pub(crate) fn parse_expression(source: Source<'_>) -> Result<ast::Expr> {
    parse_with(source, |parser| parser.parse_expr())
}

/// Parses one type name.
pub(crate) fn parse_type(source: Source<'_>) -> Result<ast::DataType> {
    parse_with(source, |parser| parser.parse_data_type())
}

fn parse_with<T>(
    source: Source<'_>,
    parse: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
) -> Result<T> {
    parse_tokens(source, tokens_of(source)?, parse)
}

fn tokens_of(source: Source<'_>) -> Result<Vec<TokenWithSpan>> {
    check_size(source)?;
    let mut tokenizer = Tokenizer::new(&Postgres, source.text).with_unescape(true);
    let tokens = tokenizer
        .tokenize_with_location()
        .map_err(|error| source.library_error(error.into()))?;
    let is_empty = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_some() && word.value.is_empty());
    match tokens.iter().find(is_empty) {
        Some(empty) => {
            let message = "zero-length delimited identifier at or near \"\"\"\"";
            Err(Error::new(SqlState::SYNTAX_ERROR, message)
                .with_position(Marks::of(source.text).places(source).position(empty.span)))
        }
        None => join_strings(source, array_types(split_signs(tokens))),
    }
}

/// Strings with a line end between them are one, as the standard has it. On one line they are an error; the library would take the
/// second for an alias.
fn join_strings(source: Source<'_>, tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let ends_line = |token: &TokenWithSpan| {
        matches!(
            token.token,
            Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. })
        )
    };
    let is_block_comment =
        |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(Whitespace::MultiLineComment(_)));
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // (Looked for backwards each time, it takes the square of the blanks in a row.)
    let mut before: Option<usize> = None;
    for token in tokens {
        if let (Token::SingleQuotedString(text), Some(at)) = (&token.token, before)
            && matches!(joined[at].token, Token::SingleQuotedString(_))
        {
            let between = &joined[at + 1..];
            if !between.iter().any(ends_line) || between.iter().any(is_block_comment) {
                let offset = Marks::of(source.text)
                    .places(source)
                    .offset(token.span.start)
                    .unwrap_or_default();
                return Err(source.syntax_error(offset));
            }
            joined.truncate(at + 1);
            if let Token::SingleQuotedString(begun) = &mut joined[at].token {
                begun.push_str(text);
            }
        } else {
            if !is_blank(&token) {
                before = Some(joined.len());
            }
            joined.push(token);
        }
    }
    Ok(joined)
}

fn parse_tokens<T>(
    source: Source<'_>,
    tokens: Vec<TokenWithSpan>,
    parse: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
) -> Result<T> {
    let mut parser = Parser::new(&Postgres)
        .with_recursion_limit(NESTING_MAX)
        .with_options(ParserOptions::new().with_unescape(true))
        .with_tokens_with_locations(tokens);
    let parsed = parse(&mut parser).map_err(|error| source.library_error(error))?;
    while parser.consume_token(&Token::SemiColon) {}
    let rest = parser.peek_token();
    match rest.token {
        Token::EOF => Ok(parsed),
        _ => {
            let offset = Marks::of(source.text).places(source).offset(rest.span.start);
            Err(source.syntax_error(offset.unwrap_or(source.text.len())))
        }
    }
}

/// Does what makes, binds and drops the syntax tree of a text with enough stack for it.
pub(crate) fn with_stack_for<T>(text: &str, work: impl FnOnce() -> T) -> T {
    // Nothing is deep in a short text: this is far more of anything that nests than the usual stack has no room for.
    if text.len() < SHALLOW_BYTES_MAX {
        return work();
    }
    match shape_of(Source::new(text)) {
        Ok(shape) if shape.is_deep => stacker::grow(DEEP_STACK_BYTES, work),
        _ => work(),
    }
}

/// How many bytes a text must have to be looked at.
const SHALLOW_BYTES_MAX: usize = 400;
/// How deep a tree may be on the usual stack.
const SHALLOW_MAX: usize = 200;

/// What the tokens say of the syntax tree.
struct Shape {
    is_deep: bool,
}

/// What chains at one level of brackets.
#[derive(Clone, Copy, Default)]
struct Chains {
    /// Operators of one term.
    links: usize,
    /// AND and OR.
    terms: usize,
    /// UNION and its kin.
    queries: usize,
    /// How high the term is, with what is in its brackets.
    height: usize,
    /// The same of the syntax tree of all terms.
    tree_height: usize,
    /// The highest so far of each.
    highest: (usize, usize),
}

impl Chains {
    fn link(&mut self) {
        self.links += 1;
        self.height += 1;
        self.tree_height += 1;
    }

    fn end_term(&mut self) {
        self.highest.0 = self.highest.0.max(self.height);
        (self.links, self.height) = (0, 0);
    }

    fn end_item(&mut self) {
        self.end_term();
        self.highest.1 = self.highest.1.max(self.tree_height);
        (self.terms, self.tree_height) = (0, 0);
    }

    /// How high what stands here is, and its syntax tree.
    fn heights(&self) -> (usize, usize) {
        let height = self.highest.0.max(self.height) + self.queries;
        (height, self.highest.1.max(self.tree_height) + self.queries)
    }

    /// Brackets within have ended.
    fn take(&mut self, within: &Chains) {
        let (height, tree_height) = within.heights();
        self.height = self.height.max(height + 1);
        self.tree_height = self.tree_height.max(tree_height + 1);
    }
}

/// Refuses what would overflow the stack later: see [`CHAIN_MAX`].
fn check_size(source: Source<'_>) -> Result<()> {
    shape_of(source).map(|_| ())
}

fn shape_of(source: Source<'_>) -> Result<Shape> {
    let too_long =
        |what: String| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what).with_hint("Use COPY to load many rows.");
    if source.text.len() > STATEMENT_BYTES_MAX {
        return Err(too_long(format!(
            "the statement is longer than {STATEMENT_BYTES_MAX} bytes"
        )));
    }
    let mut lexer = Lexer::new(source.text);
    let mut chains = vec![Chains::default()];
    let mut shape = Shape { is_deep: false };
    let mut tokens = 0;
    while let Some(token) = lexer
        .next_token()
        .map_err(|error| error.moved(source.characters_before))?
    {
        tokens += 1;
        if tokens > TOKENS_MAX {
            return Err(too_long(format!("the statement has more than {TOKENS_MAX} tokens")));
        }
        let word = token.text(source.text);
        let is_one_of = |words: &[&str]| words.iter().any(|keyword| word.eq_ignore_ascii_case(keyword));
        match token.kind {
            TokenKind::Symbol(b'(' | b'[') => chains.push(Chains::default()),
            TokenKind::Symbol(b')' | b']') if chains.len() > 1 => {
                if let (Some(within), Some(around)) = (chains.pop(), chains.last_mut()) {
                    around.take(&within);
                }
            }
            _ => {}
        }
        let Some(chain) = chains.last_mut() else { continue };
        match token.kind {
            TokenKind::Symbol(b',') => chain.end_item(),
            TokenKind::Symbol(b';') => *chain = Chains::default(),
            TokenKind::Symbol(b'(' | b')' | b'[' | b']' | b'.') => {}
            TokenKind::Symbol(_) => chain.link(),
            TokenKind::Word if is_one_of(&["and", "or"]) => {
                chain.end_term();
                chain.terms += 1;
                chain.tree_height += 1;
            }
            TokenKind::Word if is_one_of(&["union", "except", "intersect"]) => {
                chain.end_item();
                chain.queries += 1;
            }
            TokenKind::Word if is_one_of(&CHAINING) => chain.link(),
            _ => {}
        }
        let chain = *chain;
        let (height, tree_height) = chain.heights();
        shape.is_deep |= tree_height + chains.len() > SHALLOW_MAX;
        let is_too_long = chain.links > CHAIN_MAX || chain.terms > TERMS_MAX || chain.queries > QUERIES_MAX;
        let is_too_high = chains.len() > NESTING_MAX || height > HEIGHT_MAX || tree_height > TREE_HEIGHT_MAX;
        if is_too_long || is_too_high {
            return Err(too_complex());
        }
    }
    Ok(shape)
}

/// Words that make a syntax tree one level deeper, besides AND and OR: operators, and what others of its kind may stand in.
const CHAINING: [&str; 14] = [
    "not", "is", "collate", "join", "like", "between", "at", "case", "while", "if", "explain", "describe", "prepare",
    "declare",
];

/// A name as the catalog has it: folded to lower case unless quoted, cut to PostgreSQL's length.
pub(crate) fn fold(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => cut(ident.value.clone()),
        None => cut(ident.value.to_ascii_lowercase()),
    }
}

/// Cuts a name to PostgreSQL's length at a character boundary.
pub(crate) fn cut(mut name: String) -> String {
    name.truncate(name_up_to(&name, NAME_BYTES_MAX).len());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(sql: &str) -> (String, Option<u32>) {
        let error = parse_statement(Source::new(sql)).unwrap_err();
        (error.message().to_owned(), error.fields().position)
    }

    #[test]
    fn strings_on_several_lines_are_one() {
        let joined = parse_statement(Source::new("select 'a' -- more\n 'b'\n\n'c', 'd'")).unwrap();
        assert_eq!(joined.statement.to_string(), "SELECT 'abc', 'd'");
        assert_eq!(
            error("select 'a' 'b'"),
            ("syntax error at or near \"'b'\"".into(), Some(12))
        );
    }

    #[test]
    fn errors_name_the_token_and_its_place() {
        assert_eq!(error("selec 1"), ("syntax error at or near \"selec\"".into(), Some(1)));
        assert_eq!(
            error("select 1 from"),
            ("syntax error at end of input".into(), Some(14))
        );
        assert_eq!(
            error("select é,\n from )"),
            ("syntax error at or near \")\"".into(), Some(17))
        );
        assert_eq!(
            error("select 1 from ;"),
            ("syntax error at or near \";\"".into(), Some(15))
        );
        assert_eq!(error("select 1 1"), ("syntax error at or near \"1\"".into(), Some(10)));
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let nested = format!("select {}1{}", "(".repeat(3000), ")".repeat(3000));
        let chained = format!("select 1{}", "+1".repeat(50_000));
        let many = format!("select 1 where {}", vec!["a = 1"; 60_000].join(" or "));
        let queries = vec!["select 1, 2"; 20_000].join(" union ");
        let not = format!("select {} true", "not ".repeat(20_000));
        for sql in [nested, chained, many, not, queries] {
            assert_eq!(
                parse_statement(Source::new(&sql)).unwrap_err().code(),
                SqlState::STATEMENT_TOO_COMPLEX
            );
        }
        let rows = format!("insert into t values {}", vec!["(1, -2)"; 20_000].join(","));
        assert!(parse_statement(Source::new(&rows)).is_ok());
    }

    #[test]
    fn names_fold_and_are_cut() {
        assert_eq!(fold(&ast::Ident::new("ABC")), "abc");
        assert_eq!(fold(&ast::Ident::with_quote('"', "ABC")), "ABC");
        assert_eq!(cut("é".repeat(40)).len(), 62);
    }
}
