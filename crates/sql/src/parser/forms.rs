//! Forms of expressions, and of statements that change nothing here, that the library does not read: their tokens are replaced by
//! others that say the same, and keep their places.

use super::rewrites::{is_blank, is_word};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens without blanks between them, as the library reads them. Where nothing is to be done they stay as they are.
pub(super) fn plain_forms(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_special = |token: &TokenWithSpan| SPECIAL.iter().any(|word| is_word(&token.token, word));
    if !tokens
        .iter()
        .any(|token| token.token == Token::Assignment || is_special(token))
    {
        return tokens;
    }
    let tokens: Vec<TokenWithSpan> = tokens.into_iter().filter(|token| !is_blank(token)).collect();
    let tokens = symmetric_ranges(null_tests(tokens));
    named_arguments(expanded_arrays(collations(regular_parts(trims(tokens)))))
}

/// Words that such a form has.
const SPECIAL: [&str; 8] = [
    "isnull",
    "notnull",
    "symmetric",
    "asymmetric",
    "variadic",
    "trim",
    "collation",
    "similar",
];

fn word_at(tokens: &[TokenWithSpan], place: usize, wanted: &str) -> bool {
    tokens.get(place).is_some_and(|token| is_word(&token.token, wanted))
}

pub(super) fn token_at(tokens: &[TokenWithSpan], place: usize) -> Option<&Token> {
    tokens.get(place).map(|token| &token.token)
}

fn keyword(word: &str) -> Token {
    Token::make_keyword(word)
}

/// Where the brackets close that open here.
pub(super) fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(place);
        }
    }
    None
}

/// `a ISNULL` is `a IS NULL`.
fn null_tests(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let is_test = match out.last().map(|before| &before.token) {
            None | Some(Token::Period | Token::LParen | Token::Comma) => false,
            Some(before) => !is_word(before, "as") && !is_word(before, "select"),
        };
        let words: &[&str] = match &token.token {
            word if is_test && is_word(word, "isnull") => &["IS", "NULL"],
            word if is_test && is_word(word, "notnull") => &["IS", "NOT", "NULL"],
            _ => {
                out.push(token);
                continue;
            }
        };
        let span = token.span;
        out.extend(words.iter().map(|word| TokenWithSpan {
            token: keyword(word),
            span,
        }));
    }
    out
}

/// `BETWEEN SYMMETRIC a AND b` is `BETWEEN !! (a) AND b`: no operator of that name goes before anything. Without it nothing is meant.
fn symmetric_ranges(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut place = 0;
    while place + 1 < tokens.len() {
        place += 1;
        if !word_at(&tokens, place - 1, "between") {
            continue;
        }
        if word_at(&tokens, place, "asymmetric") {
            tokens.remove(place);
        } else if word_at(&tokens, place, "symmetric")
            && let Some(and) = end_of_bound(&tokens, place + 1)
        {
            let span = tokens[place].span;
            let with = |token| TokenWithSpan { token, span };
            tokens.insert(and, with(Token::RParen));
            tokens.splice(place..=place, [with(Token::DoubleExclamationMark), with(Token::LParen)]);
        }
    }
    tokens
}

/// Where the AND stands behind the lower bound of a range.
fn end_of_bound(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let (mut place, mut cases) = (from, 0_usize);
    while place < tokens.len() {
        match &tokens[place].token {
            Token::LParen | Token::LBracket => place = closing(tokens, place)?,
            Token::RParen | Token::RBracket | Token::Comma => return None,
            token if is_word(token, "case") => cases += 1,
            token if is_word(token, "end") => cases = cases.checked_sub(1)?,
            token if cases == 0 && is_word(token, "and") => return (place > from).then_some(place),
            _ => {}
        }
        place += 1;
    }
    None
}

/// `trim(LEADING FROM a)` is `ltrim(a)`, and so on.
fn trims(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for place in (0..tokens.len()).rev() {
        let opens = token_at(&tokens, place + 1) == Some(&Token::LParen);
        if !opens || !word_at(&tokens, place, "trim") {
            continue;
        }
        let sides = [("leading", "ltrim"), ("trailing", "rtrim"), ("both", "btrim")];
        let side = sides.iter().find(|(side, _)| word_at(&tokens, place + 2, side));
        let from = place + 2 + usize::from(side.is_some());
        if word_at(&tokens, from, "from") {
            tokens[place].token = Token::make_word(side.map_or("btrim", |(_, name)| name), None);
            tokens.drain(place + 2..=from);
        }
    }
    tokens
}

/// `substring(a SIMILAR b ESCAPE c)` is `substring(a, b, c)`.
fn regular_parts(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for place in 0..tokens.len() {
        if token_at(&tokens, place + 1) != Some(&Token::LParen) || !word_at(&tokens, place, "substring") {
            continue;
        }
        let Some(close) = closing(&tokens, place + 1) else {
            break;
        };
        let (mut at, mut similar) = (place + 2, None);
        while at < close {
            if matches!(tokens[at].token, Token::LParen | Token::LBracket) {
                at = closing(&tokens, at).unwrap_or(close);
            } else if similar.is_none() && word_at(&tokens, at, "similar") && !word_at(&tokens, at + 1, "to") {
                similar = Some(at);
            } else if let Some(similar) = similar.filter(|_| word_at(&tokens, at, "escape")) {
                tokens[similar].token = Token::Comma;
                tokens[at].token = Token::Comma;
                break;
            }
            at += 1;
        }
    }
    tokens
}

/// `COLLATION FOR (a)` is a function.
fn collations(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for place in (0..tokens.len()).rev() {
        let opens = token_at(&tokens, place + 2) == Some(&Token::LParen);
        if opens && word_at(&tokens, place, "collation") && word_at(&tokens, place + 1, "for") {
            tokens[place].token = Token::make_word("pg_collation_for", None);
            tokens.remove(place + 1);
        }
    }
    tokens
}

/// `f(a := 1)` is `f(a => 1)`.
fn named_arguments(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for place in 2..tokens.len() {
        let begins = matches!(tokens[place - 2].token, Token::LParen | Token::Comma);
        if begins && tokens[place].token == Token::Assignment && matches!(tokens[place - 1].token, Token::Word(_)) {
            tokens[place].token = Token::RArrow;
        }
    }
    tokens
}

/// `f(VARIADIC a)` has an argument of that name.
fn expanded_arrays(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for place in (1..tokens.len()).rev() {
        let begins = matches!(tokens[place - 1].token, Token::LParen | Token::Comma);
        let goes_on = !matches!(
            token_at(&tokens, place + 1),
            Some(Token::Comma | Token::RParen | Token::RArrow) | None
        );
        if begins && goes_on && word_at(&tokens, place, "variadic") {
            let span = tokens[place].span;
            tokens.insert(
                place + 1,
                TokenWithSpan {
                    token: Token::RArrow,
                    span,
                },
            );
        }
    }
    tokens
}

/// Collations that order texts by their bytes, as all texts are ordered.
const BY_BYTES: [&str; 4] = ["c", "posix", "default", "ucs_basic"];

/// `ALTER ... TYPE text COLLATE "C"` is the same without the collation, which the library does not read there. Any other one stays an error.
pub(super) fn types_without_collation(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let first = tokens.iter().find(|token| !is_blank(token));
    if first.is_none_or(|first| !is_word(&first.token, "alter")) {
        return tokens;
    }
    let (mut place, mut is_type) = (0, false);
    while place < tokens.len() {
        is_type = !word_at(&tokens, place, "using") && (is_type || word_at(&tokens, place, "type"));
        if is_type && word_at(&tokens, place, "collate") {
            let is_name = |token: &TokenWithSpan| match &token.token {
                Token::Word(word) => BY_BYTES.contains(&word.value.to_ascii_lowercase().as_str()),
                _ => false,
            };
            let is_part = |token: &TokenWithSpan| {
                is_blank(token) || token.token == Token::Period || is_word(&token.token, "pg_catalog")
            };
            let name = (place + 1..tokens.len()).find(|at| !is_part(&tokens[*at]));
            if let Some(name) = name.filter(|name| is_name(&tokens[*name])) {
                tokens.drain(place..=name);
                continue;
            }
        }
        place += 1;
    }
    tokens
}
