//! Forms within queries that the library does not read: their tokens are replaced by others that say the same, and keep their places.

use super::forms::{closing, token_at};
use super::rewrites::{is_blank, is_word};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens without blanks between them. Where nothing is to be done they stay as they are.
pub(super) fn query_forms(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_special = |token: &TokenWithSpan| SPECIAL.iter().any(|word| is_word(&token.token, word));
    if !tokens.iter().any(is_special) {
        return tokens;
    }
    let tokens = tokens.into_iter().filter(|token| !is_blank(token)).collect();
    queries_of_patterns(elements_of_sets(distances_of_frames(tokens)))
}

/// Words that such a form has.
const SPECIAL: [&str; 7] = ["preceding", "following", "rollup", "cube", "sets", "like", "ilike"];

fn word_at(tokens: &[TokenWithSpan], place: usize, words: &[&str]) -> bool {
    token_at(tokens, place).is_some_and(|token| words.iter().any(|word| is_word(token, word)))
}

/// Puts brackets around the tokens of a range.
fn put_brackets(tokens: &mut Vec<TokenWithSpan>, (first, end): (usize, usize)) {
    let (before, behind) = (tokens[first].span, tokens[end - 1].span);
    let with = |token, span| TokenWithSpan { token, span };
    tokens.insert(end, with(Token::RParen, behind));
    tokens.insert(first, with(Token::LParen, before));
}

/// `RANGE '1 year'::interval PRECEDING` has its distance in brackets: the library takes the string for the whole of it.
fn distances_of_frames(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const BEFORE: [&str; 5] = ["between", "and", "range", "rows", "groups"];
    for place in (1..tokens.len()).rev() {
        let is_text = matches!(tokens[place].token, Token::SingleQuotedString(_));
        if !is_text
            || !word_at(&tokens, place - 1, &BEFORE)
            || token_at(&tokens, place + 1) != Some(&Token::DoubleColon)
        {
            continue;
        }
        if let Some(end) = end_of_distance(&tokens, place) {
            put_brackets(&mut tokens, (place, end));
        }
    }
    tokens
}

/// Where PRECEDING or FOLLOWING stands behind an expression.
fn end_of_distance(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut place = from;
    while place < tokens.len() {
        match &tokens[place].token {
            Token::LParen | Token::LBracket => place = closing(tokens, place)?,
            Token::RParen | Token::RBracket | Token::Comma | Token::SemiColon => return None,
            _ if word_at(tokens, place, &["preceding", "following"]) => return Some(place),
            _ if word_at(tokens, place, &["and"]) => return None,
            _ => {}
        }
        place += 1;
    }
    None
}

/// `ROLLUP ((a) + 1, b)` is `ROLLUP (((a) + 1), b)`: what begins with a bracket is a list for the library.
fn elements_of_sets(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for place in (0..tokens.len()).rev() {
        let names_sets = word_at(&tokens, place, &["rollup", "cube"])
            || (word_at(&tokens, place, &["sets"]) && place > 0 && word_at(&tokens, place - 1, &["grouping"]));
        if !names_sets || token_at(&tokens, place + 1) != Some(&Token::LParen) {
            continue;
        }
        for element in elements(&tokens, place + 1).into_iter().rev() {
            let goes_on = closing(&tokens, element.0).is_some_and(|close| close + 1 < element.1);
            if tokens[element.0].token == Token::LParen && goes_on {
                put_brackets(&mut tokens, element);
            }
        }
    }
    tokens
}

/// Where each element begins of the list in brackets that open here, and where it ends.
fn elements(tokens: &[TokenWithSpan], open: usize) -> Vec<(usize, usize)> {
    let Some(close) = closing(tokens, open) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let (mut first, mut place) = (open + 1, open + 1);
    while place <= close {
        let token = &tokens[place].token;
        if place == close || *token == Token::Comma {
            if first < place {
                found.push((first, place));
            }
            first = place + 1;
        } else if matches!(token, Token::LParen | Token::LBracket) {
            place = closing(tokens, place).unwrap_or(place);
        }
        place += 1;
    }
    found
}

/// `LIKE ALL (SELECT ...)` is `LIKE ALL ((SELECT ...))`, which the library reads as a function of a query's value.
fn queries_of_patterns(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const QUERIES: [&str; 3] = ["select", "with", "values"];
    for place in (1..tokens.len()).rev() {
        let is_all = word_at(&tokens, place, &["all"]) && word_at(&tokens, place - 1, &["like", "ilike"]);
        if is_all
            && word_at(&tokens, place + 2, &QUERIES)
            && token_at(&tokens, place + 1) == Some(&Token::LParen)
            && let Some(close) = closing(&tokens, place + 1)
        {
            put_brackets(&mut tokens, (place + 2, close));
        }
    }
    tokens
}
