//! Forms of statements that the library reads only when they are written otherwise: their tokens are replaced, and keep their places.

use super::identity::identity_options;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens as the library reads them.
pub(super) fn rewritten(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    named_operators(view_as_table(identity_options(untyped_columns(table_as_select(
        tokens,
    )))))
}

/// `OPERATOR(pg_catalog.=) ANY (...)`, which the library knows only without ANY, as `= ANY (...)`.
fn named_operators(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_operator = |token: &TokenWithSpan| is_word(&token.token, "operator");
    if !tokens.iter().any(is_operator) {
        return tokens;
    }
    let mut rewritten: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        let plain = is_operator(first).then(|| operator_before_any(rest)).flatten();
        let (token, after) = plain.unwrap_or((first.clone(), behind));
        rewritten.push(token);
        rest = after;
    }
    rewritten
}

/// The operator itself, and what follows, where that is ANY, SOME or ALL.
fn operator_before_any(tokens: &[TokenWithSpan]) -> Option<(TokenWithSpan, &[TokenWithSpan])> {
    let places: Vec<usize> = (0..tokens.len())
        .filter(|place| !is_blank(&tokens[*place]))
        .take(7)
        .collect();
    let [_, open, schema, period, symbol, close, next] = places[..] else {
        return None;
    };
    let fits = tokens[open].token == Token::LParen
        && is_word(&tokens[schema].token, "pg_catalog")
        && tokens[period].token == Token::Period
        && tokens[close].token == Token::RParen
        && ["any", "some", "all"]
            .iter()
            .any(|word| is_word(&tokens[next].token, word));
    fits.then(|| (tokens[symbol].clone(), &tokens[close + 1..]))
}

pub(super) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// `ALTER VIEW name OWNER TO role` as what ALTER TABLE says alike.
fn view_as_table(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: &TokenWithSpan, wanted: &str| is_word(&token.token, wanted);
    let places: Vec<usize> = (0..tokens.len())
        .filter(|place| !is_blank(&tokens[*place]))
        .take(12)
        .collect();
    let owned = places
        .windows(2)
        .any(|pair| word(&tokens[pair[0]], "owner") && word(&tokens[pair[1]], "to"));
    if let [alter, view, ..] = places[..]
        && word(&tokens[alter], "alter")
        && word(&tokens[view], "view")
        && owned
    {
        tokens[view].token = Token::make_keyword("TABLE");
    }
    tokens
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

pub(super) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// `TABLE name` is `SELECT * FROM name`; the library knows it only within other queries, and forgets how the name was written.
fn table_as_select(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let first = tokens.iter().position(|token| !is_blank(token));
    let is_command = |first: &usize| is_word(&tokens[*first].token, "table") && names_only(&tokens[*first + 1..]);
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
