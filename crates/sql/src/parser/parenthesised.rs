//! Queries in brackets whose first part is in brackets too, where an expression stands: the library takes them for expressions.

use super::forms::{closing, token_at};
use super::rewrites::{is_blank, is_word};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What follows the first part of such a query.
const BEHIND: [&str; 7] = ["union", "intersect", "except", "order", "limit", "offset", "fetch"];
/// Words before an expression in brackets. Behind others, and behind names of functions, brackets are something else.
const BEFORE: [&str; 17] = [
    "select",
    "any",
    "some",
    "all",
    "when",
    "then",
    "else",
    "and",
    "or",
    "not",
    "where",
    "having",
    "on",
    "between",
    "like",
    "ilike",
    "returning",
];
/// What begins a query.
const FIRST: [&str; 4] = ["select", "with", "values", "table"];
/// The name of what is put around it. Nothing can refer to it.
const ALIAS: &str = "?";

/// `((SELECT ...) UNION ...)` is `(SELECT * FROM ((SELECT ...) UNION ...) AS "?")`, at the place of its brackets.
pub(super) fn parenthesised_queries(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !goes_on_behind_bracket(&tokens) {
        return tokens;
    }
    let tokens: Vec<TokenWithSpan> = tokens.into_iter().filter(|token| !is_blank(token)).collect();
    let found = (0..tokens.len()).filter_map(|open| end_of_query(&tokens, open).map(|close| (open, close)));
    let found: Vec<(usize, usize)> = found.collect();
    let mut rewritten = Vec::with_capacity(tokens.len() + found.len() * 8);
    for (place, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        let mut put = |tokens: Vec<Token>| {
            rewritten.extend(tokens.into_iter().map(|token| TokenWithSpan { token, span }));
        };
        let is_open = found.iter().any(|(open, _)| *open == place);
        let is_close = found.iter().any(|(_, close)| *close == place);
        if is_open {
            let word = Token::make_keyword;
            put(vec![Token::LParen, word("SELECT"), Token::Mul, word("FROM")]);
        }
        if is_close {
            put(vec![Token::RParen, Token::make_keyword("AS")]);
            put(vec![Token::make_word(ALIAS, Some('"'))]);
        }
        put(vec![token.token]);
    }
    rewritten
}

/// Whether there is a closing bracket with one of the words behind it: most statements have none.
fn goes_on_behind_bracket(tokens: &[TokenWithSpan]) -> bool {
    let mut plain = tokens.iter().filter(|token| !is_blank(token));
    let mut before = None;
    plain.any(|token| before.replace(&token.token) == Some(&Token::RParen) && is_one_of(&token.token, &BEHIND))
}

/// Where such a query ends that opens here.
fn end_of_query(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let is_open = |place: usize| token_at(tokens, place) == Some(&Token::LParen);
    if !is_open(open) || !is_open(open + 1) || !may_stand_behind(tokens, open) {
        return None;
    }
    let first = (open + 1..tokens.len()).find(|place| !is_open(*place))?;
    if !is_one_of(&tokens[first].token, &FIRST) {
        return None;
    }
    let behind = closing(tokens, open + 1)? + 1;
    match is_one_of(token_at(tokens, behind)?, &BEHIND) {
        true => closing(tokens, open),
        false => None,
    }
}

/// Whether an expression may stand in brackets that open here. Where a query may stand too the library reads one.
fn may_stand_behind(tokens: &[TokenWithSpan], open: usize) -> bool {
    let token = |back: usize| open.checked_sub(back).and_then(|place| token_at(tokens, place));
    let Some(before) = token(1) else { return false };
    match before {
        // Of all queries, or of all elements.
        Token::Word(_) if is_word(before, "all") => {
            !token(2).is_some_and(|first| is_one_of(first, &["union", "intersect", "except"]))
        }
        Token::Word(_) => is_one_of(before, &BEFORE),
        Token::RParen | Token::RBracket | Token::SemiColon | Token::Period => false,
        _ => true,
    }
}

fn is_one_of(token: &Token, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}
