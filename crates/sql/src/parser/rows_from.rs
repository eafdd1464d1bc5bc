//! `ROWS FROM (f(), g())`, which is read as a call of a function of that name, and CREATE RECURSIVE VIEW, which is a view of a
//! recursive query.

use super::rewrites::{is_blank, is_word};
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The name of the function that stands for ROWS FROM. Two words that are not quoted are no name; written down, they are what was meant.
const ROWS_FROM: &str = "ROWS FROM";

/// Whether a name in FROM stands for ROWS FROM.
pub(crate) fn is_rows_from(name: &ast::ObjectName) -> bool {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] => ident.quote_style.is_none() && ident.value == ROWS_FROM,
        _ => false,
    }
}

fn keyword_of(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// The words of ROWS FROM as one, where a relation stands.
pub(super) fn rows_from(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    let at = |index: usize| places.get(index).map(|place| &tokens[*place].token);
    let mut found = Vec::new();
    // For each bracket that is open, whether relations stand there.
    let mut lists_relations = vec![false];
    for index in 0..places.len() {
        let token = &tokens[places[index]].token;
        let is_rows = is_word(token, "rows") && at(index + 1).is_some_and(|next| is_word(next, "from"));
        if is_rows && at(index + 2) == Some(&Token::LParen) {
            let before = index.checked_sub(1).and_then(at);
            let is_relation = before.is_some_and(|before| match keyword_of(before) {
                Keyword::FROM | Keyword::JOIN | Keyword::LATERAL | Keyword::USING => true,
                _ => *before == Token::Comma && lists_relations.last() == Some(&true),
            });
            found.extend(is_relation.then_some((places[index], places[index + 1])));
        }
        match token {
            Token::LParen => lists_relations.push(false),
            Token::RParen if lists_relations.len() > 1 => drop(lists_relations.pop()),
            token => {
                if let Some(here) = lists_relations.last_mut() {
                    *here = match keyword_of(token) {
                        Keyword::FROM | Keyword::USING => true,
                        Keyword::SELECT
                        | Keyword::WHERE
                        | Keyword::GROUP
                        | Keyword::ORDER
                        | Keyword::HAVING
                        | Keyword::WINDOW
                        | Keyword::RETURNING => false,
                        _ => *here,
                    };
                }
            }
        }
    }
    for (rows, from) in found.into_iter().rev() {
        tokens[rows].token = Token::make_word(ROWS_FROM, None);
        tokens.drain(rows + 1..=from);
    }
    tokens
}

/// `CREATE RECURSIVE VIEW name (columns) AS query` is `CREATE VIEW name (columns) AS WITH RECURSIVE name (columns) AS (query) SELECT columns
/// FROM name`.
pub(super) fn recursive_views(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    match as_recursive_query(&tokens) {
        Some(rewritten) => rewritten,
        None => tokens,
    }
}

fn as_recursive_query(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let kept: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_blank(token)).collect();
    let word = |index: usize, wanted: &str| kept.get(index).is_some_and(|token| is_word(&token.token, wanted));
    let is_symbol = |index: usize, wanted: Token| kept.get(index).is_some_and(|token| token.token == wanted);
    if !word(0, "create") {
        return None;
    }
    let recursive = (1..5).find(|index| word(*index, "recursive"))?;
    let modifiers = ["or", "replace", "temp", "temporary"];
    let is_modifier = |index: usize| modifiers.iter().any(|modifier| word(index, modifier));
    if !(1..recursive).all(is_modifier) || !word(recursive + 1, "view") {
        return None;
    }
    let mut name = recursive + 2;
    while is_symbol(name + 1, Token::Period) {
        name += 2;
    }
    let open = Some(name + 1).filter(|open| is_symbol(*open, Token::LParen))?;
    let close = (open..kept.len()).find(|index| is_symbol(*index, Token::RParen))?;
    let begin = (close..kept.len()).find(|index| word(*index, "as"))?;
    let end = (begin..kept.len()).find(|index| is_symbol(*index, Token::SemiColon));
    let end = end.unwrap_or(kept.len());
    let span = kept[begin].span;
    let added = |token: Token| TokenWithSpan { token, span };
    let copies = |from: usize, to: usize| kept[from..to].iter().map(|token| (*token).clone());
    let mut rewritten: Vec<TokenWithSpan> = copies(0, recursive).chain(copies(recursive + 1, begin + 1)).collect();
    rewritten.extend(["WITH", "RECURSIVE"].map(|word| added(Token::make_keyword(word))));
    rewritten.extend(copies(name, close + 1));
    rewritten.extend([Token::make_keyword("AS"), Token::LParen].map(added));
    rewritten.extend(copies(begin + 1, end));
    rewritten.extend([Token::RParen, Token::make_keyword("SELECT")].map(added));
    rewritten.extend(copies(open + 1, close));
    rewritten.push(added(Token::make_keyword("FROM")));
    rewritten.extend(copies(name, name + 1));
    rewritten.extend(copies(end, kept.len()));
    Some(rewritten)
}
