//! Forms of statements that the library reads only when they are written otherwise: their tokens are replaced, and keep their places.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens as the library reads them.
pub(super) fn rewritten(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    untyped_columns(table_as_select(tokens))
}

/// The type that the columns of CREATE TABLE AS are given, which are written without one.
pub(crate) const UNTYPED: &str = "rubato_untyped";

/// `CREATE TABLE name (a, b) AS ...`: the columns get a type that stands for none.
fn untyped_columns(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len())
        .filter(|place| !is_blank(&tokens[*place]))
        .take(COLUMNS_LOOKED_AT_MAX)
        .collect();
    let Some(columns) = untyped_places(&tokens, &places) else {
        return tokens;
    };
    for place in columns.into_iter().rev() {
        let span = tokens[place].span;
        let token = Token::make_word(UNTYPED, None);
        tokens.insert(place + 1, TokenWithSpan { token, span });
    }
    tokens
}

/// More tokens than names of columns can be: PostgreSQL's tables have at most 1600 columns.
const COLUMNS_LOOKED_AT_MAX: usize = 4_000;

fn untyped_places(tokens: &[TokenWithSpan], places: &[usize]) -> Option<Vec<usize>> {
    let word = |index: usize| match &tokens.get(*places.get(index)?)?.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_lowercase()),
        _ => None,
    };
    let symbol = |index: usize| places.get(index).map(|place| &tokens[*place].token);
    let mut next = 0;
    if word(next)? != "create" {
        return None;
    }
    next += 1;
    while matches!(
        word(next)?.as_str(),
        "global" | "local" | "temp" | "temporary" | "unlogged"
    ) {
        next += 1;
    }
    if word(next)? != "table" {
        return None;
    }
    while symbol(next)? != &Token::LParen {
        let is_name = matches!(symbol(next)?, Token::Word(_) | Token::Period);
        if !is_name || word(next).as_deref() == Some("as") {
            return None;
        }
        next += 1;
    }
    let mut columns = Vec::new();
    loop {
        let Token::Word(_) = symbol(next + 1)? else { return None };
        columns.push(places[next + 1]);
        next += 2;
        match symbol(next)? {
            Token::Comma => {}
            Token::RParen => break,
            _ => return None,
        }
    }
    (word(next + 1)? == "as").then_some(columns)
}

/// What was cut out of `ON CONFLICT (...) [WHERE ...] DO`.
pub(super) struct CutTarget {
    pub keys: Vec<TokenWithSpan>,
    /// Empty without WHERE.
    pub predicate: Vec<TokenWithSpan>,
}

/// Cuts the target out of ON CONFLICT where it is more than a list of columns, which is all that the library reads.
pub(super) fn cut_conflict_target(tokens: &mut Vec<TokenWithSpan>) -> Option<CutTarget> {
    let is = |place: usize, word: &str| matches!(&tokens[place].token, Token::Word(own) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word));
    let next = |place: usize| (place + 1..tokens.len()).find(|place| !is_blank(&tokens[*place]));
    let is_clause = |on: &usize| is(*on, "on") && next(*on).is_some_and(|conflict| is(conflict, "conflict"));
    let on = (0..tokens.len()).find(is_clause)?;
    let open = next(next(on)?).filter(|open| tokens[*open].token == Token::LParen)?;
    let mut depth = 0usize;
    let mut close = None;
    let mut end = None;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.saturating_sub(1);
                close = close.or((depth == 0).then_some(place));
            }
            _ if depth == 0 && is(place, "do") => {
                end = Some(place);
                break;
            }
            _ => {}
        }
    }
    let (close, end) = (close?, end?);
    let behind = next(close).filter(|place| *place < end);
    if behind.is_some_and(|place| !is(place, "where")) {
        return None;
    }
    let is_column = |token: &TokenWithSpan| matches!(token.token, Token::Word(_) | Token::Comma | Token::Whitespace(_));
    if behind.is_none() && tokens[open + 1..close].iter().all(is_column) {
        return None;
    }
    let predicate = behind.map_or_else(Vec::new, |place| tokens[place + 1..end].to_vec());
    let keys = tokens[open + 1..close].to_vec();
    tokens.drain(open..end);
    Some(CutTarget { keys, predicate })
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// `TABLE name` is `SELECT * FROM name`; the library knows it only within other queries, and forgets how the name was written.
fn table_as_select(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let first = tokens.iter().position(|token| !is_blank(token));
    let is_table = |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("table"));
    let is_command = |first: &usize| is_table(&tokens[*first].token) && names_only(&tokens[*first + 1..]);
    if let Some(first) = first.filter(is_command) {
        let span = tokens[first].span;
        let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        let select = select.map(|token| TokenWithSpan { token, span });
        tokens.splice(first..=first, select);
    }
    tokens
}

/// Whether nothing but a table's name, and clauses that any query may end with, follows.
fn names_only(tokens: &[TokenWithSpan]) -> bool {
    let tokens = tokens.iter().map(|token| &token.token);
    let mut rest = tokens.filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut next = rest.next();
    while let Some(Token::Word(_)) = next {
        next = rest.next();
        match next {
            Some(Token::Period) => next = rest.next(),
            _ => break,
        }
    }
    match next {
        Some(Token::Word(word)) => TABLE_CLAUSES
            .iter()
            .any(|clause| word.value.eq_ignore_ascii_case(clause)),
        Some(token) => matches!(token, Token::SemiColon | Token::RParen | Token::EOF),
        None => true,
    }
}

/// What may follow `TABLE name`.
const TABLE_CLAUSES: [&str; 5] = ["order", "limit", "offset", "fetch", "for"];
