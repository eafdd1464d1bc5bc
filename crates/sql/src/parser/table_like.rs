//! `LIKE table INCLUDING ...` among the columns of CREATE TABLE, which the library reads only where it stands alone.

use super::rewrites::{is_blank, is_word};
use super::syntax::cut;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// How the name of a column is quoted that stands for LIKE; its type is the table's name, with the options as modifiers.
pub(crate) const LIKE_QUOTE: char = '`';

/// What may be included.
const OPTIONS: [&str; 10] = [
    "all",
    "comments",
    "compression",
    "constraints",
    "defaults",
    "generated",
    "identity",
    "indexes",
    "statistics",
    "storage",
];

/// CREATE TABLE with a column in the place of each LIKE.
pub(super) fn table_likes(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    let Some(open) = begin_of_columns(&tokens, &places) else {
        return tokens;
    };
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for index in open..places.len() {
        match &tokens[places[index]].token {
            Token::LParen => depth += 1,
            Token::RParen if depth <= 1 => break,
            Token::RParen => depth -= 1,
            token if depth == 1 && is_word(token, "like") => {
                let begins = matches!(tokens[places[index - 1]].token, Token::LParen | Token::Comma);
                let column = begins.then(|| column_of(&tokens, &places[index..])).flatten();
                found.extend(column.map(|(column, length)| (places[index], places[index + length - 1], column)));
            }
            _ => {}
        }
    }
    for (first, last, column) in found.into_iter().rev() {
        tokens.splice(first..=last, column);
    }
    tokens
}

/// Where the list of columns opens, among the places.
fn begin_of_columns(tokens: &[TokenWithSpan], places: &[usize]) -> Option<usize> {
    let word = |index: usize, wanted: &str| {
        places
            .get(index)
            .is_some_and(|place| is_word(&tokens[*place].token, wanted))
    };
    if !word(0, "create") {
        return None;
    }
    let modifiers = ["global", "local", "temp", "temporary", "unlogged"];
    let table = (1..4).find(|index| !modifiers.iter().any(|modifier| word(*index, modifier)))?;
    if !word(table, "table") {
        return None;
    }
    let is_name = |index: &usize| matches!(tokens[places[*index]].token, Token::Word(_) | Token::Period);
    let open = (table + 1..places.len()).find(|index| !is_name(index))?;
    let is_query = (table + 1..open).any(|index| word(index, "as") || word(index, "of"));
    (!is_query && tokens[places[open]].token == Token::LParen).then_some(open)
}

/// The column that stands for a LIKE at the first of these places, and how many of them that takes.
fn column_of(tokens: &[TokenWithSpan], places: &[usize]) -> Option<(Vec<TokenWithSpan>, usize)> {
    let at = |index: usize| places.get(index).map(|place| &tokens[*place]);
    let with = |token: Token, like: &TokenWithSpan| TokenWithSpan { token, span: like.span };
    let like = at(0)?;
    let mut column = vec![with(Token::make_word("like", Some(LIKE_QUOTE)), like)];
    let mut next = 1;
    loop {
        let name = at(next)?;
        let Token::Word(word) = &name.token else { return None };
        let folded = match word.quote_style {
            Some(_) => word.value.clone(),
            None => cut(word.value.to_ascii_lowercase()),
        };
        column.push(with(Token::make_word(&folded, Some('"')), name));
        next += 1;
        match at(next).filter(|token| token.token == Token::Period) {
            Some(period) => column.push(period.clone()),
            None => break,
        }
        next += 1;
    }
    let mut options = Vec::new();
    while let Some(verb) = at(next).filter(|own| is_word(&own.token, "including") || is_word(&own.token, "excluding")) {
        let option = at(next + 1)?;
        OPTIONS.iter().find(|known| is_word(&option.token, known))?;
        options.extend([verb.clone(), option.clone()]);
        next += 2;
    }
    if !matches!(at(next)?.token, Token::Comma | Token::RParen) {
        return None;
    }
    if !options.is_empty() {
        column.push(with(Token::LParen, like));
        column.extend(options);
        column.push(with(Token::RParen, like));
    }
    Some((column, next))
}
