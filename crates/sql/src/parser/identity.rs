//! The options of identity columns, which the library reads in one order only and without the name of the sequence.

use super::rewrites::{is_blank, is_word};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The options in the library's order. The name of the sequence stands where CACHE has its number, as a placeholder.
const ORDER: [&str; 6] = ["increment", "minvalue", "maxvalue", "start", "cache", "cycle"];

/// What stands between the name of a sequence and the number of CACHE.
pub(crate) const BESIDE_NAME: char = '\u{0}';

/// `AS IDENTITY (options in any order)` with its options in the library's order.
pub(super) fn identity_options(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut place = 0;
    while place < tokens.len() {
        if is_word(&tokens[place].token, "identity")
            && let Some(open) = next_of(&tokens, place + 1).filter(|open| tokens[*open].token == Token::LParen)
            && let Some(length) = tokens[open..].iter().position(|token| token.token == Token::RParen)
            && let Some(options) = ordered(&tokens[open + 1..open + length])
        {
            tokens.splice(open + 1..open + length, options);
        }
        place += 1;
    }
    tokens
}

/// The options in order; `None` if there is something else among them, which is left to be found by the library.
fn ordered(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let mut options: [Vec<TokenWithSpan>; ORDER.len()] = Default::default();
    let mut rest: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_blank(token)).collect();
    while let Some(first) = rest.first() {
        let is_without = is_word(&first.token, "no");
        let word = if is_without { rest.get(1)? } else { first };
        if is_word(&word.token, "sequence") {
            let (name, length) = sequence_name(&rest)?;
            let cache = Token::make_keyword("CACHE");
            let spans = [(cache, first.span), (Token::Placeholder(name), word.span)];
            let given = spans.map(|(token, span)| TokenWithSpan { token, span });
            options[4] = given.to_vec();
            rest.drain(..length);
            continue;
        }
        let place = ORDER.iter().position(|option| is_word(&word.token, option))?;
        let starts = |token: &TokenWithSpan| match &token.token {
            Token::Word(word) => !matches!(word.value.to_ascii_lowercase().as_str(), "by" | "with"),
            _ => false,
        };
        let own = if is_without { 2 } else { 1 };
        let length = rest[own..].iter().position(|token| starts(token));
        let option: Vec<TokenWithSpan> = rest
            .drain(..length.map_or(rest.len(), |length| own + length))
            .cloned()
            .collect();
        let has_name = place == 4 && !options[place].is_empty();
        if options[place].is_empty() {
            options[place] = option;
        } else if has_name {
            add_to_name(&mut options[place], &option);
        } else {
            // Given twice: the library says so.
            return None;
        }
    }
    Some(options.concat())
}

/// The number of CACHE goes with the name that stands in its place.
fn add_to_name(name: &mut [TokenWithSpan], cache: &[TokenWithSpan]) {
    let number = cache.iter().find_map(|token| match &token.token {
        Token::Number(number, _) => Some(number),
        _ => None,
    });
    let place = name.iter_mut().find_map(|token| match &mut token.token {
        Token::Placeholder(name) => Some(name),
        _ => None,
    });
    if let (Some(number), Some(name)) = (number, place) {
        name.push(BESIDE_NAME);
        name.push_str(number);
    }
}

/// `SEQUENCE NAME name` with the name as it was written, and how many tokens that takes.
fn sequence_name(tokens: &[&TokenWithSpan]) -> Option<(String, usize)> {
    if !is_word(&tokens.get(1)?.token, "name") {
        return None;
    }
    let mut length = 2;
    let mut name = String::new();
    loop {
        let Token::Word(word) = &tokens.get(length)?.token else {
            return None;
        };
        name.push_str(&word.to_string());
        length += 1;
        if tokens.get(length).is_none_or(|token| token.token != Token::Period) {
            return Some((name, length));
        }
        name.push('.');
        length += 1;
    }
}

fn next_of(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    (from..tokens.len()).find(|place| !is_blank(&tokens[*place]))
}
