//! What stands at the end of a query, where the library reads only one form of it.

use super::forms::closing;
use super::rewrites::is_blank;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// `FETCH FIRST (2) ROWS ONLY` is `FETCH FIRST 2 ROWS ONLY`, and `FETCH FIRST (a + 2) ROWS ONLY` is `LIMIT (a + 2)`: the library reads only
/// a number behind FIRST. WITH TIES stays behind that.
pub(super) fn plain_fetch_counts(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_fetch = |token: &TokenWithSpan| is_one_of(token, &[Keyword::FETCH]);
    if !tokens.iter().any(is_fetch) {
        return tokens;
    }
    for place in (0..tokens.len()).rev() {
        let Some(count) = is_fetch(&tokens[place])
            .then(|| count_in_brackets(&tokens, place))
            .flatten()
        else {
            continue;
        };
        if let Some(close) = count.only_number {
            tokens.remove(close);
            tokens.remove(count.open);
            continue;
        }
        let limit = TokenWithSpan {
            token: Token::make_keyword("LIMIT"),
            span: tokens[place].span,
        };
        let ties: Vec<TokenWithSpan> = match count.has_ties {
            true => tokens[place..count.open].to_vec(),
            false => Vec::new(),
        };
        let end = if count.has_ties { count.rows } else { count.end };
        tokens.splice(count.rows..end, ties);
        tokens.splice(place..count.open, [limit]);
    }
    tokens
}

fn is_one_of(token: &TokenWithSpan, words: &[Keyword]) -> bool {
    matches!(&token.token, Token::Word(word) if words.contains(&word.keyword))
}

/// The places of a FETCH whose count stands in brackets.
struct CountInBrackets {
    open: usize,
    /// Where the brackets close, if they hold a number or a parameter alone.
    only_number: Option<usize>,
    /// Of ROWS.
    rows: usize,
    /// Behind ONLY.
    end: usize,
    has_ties: bool,
}

fn count_in_brackets(tokens: &[TokenWithSpan], fetch: usize) -> Option<CountInBrackets> {
    let next = |from: usize| (from + 1..tokens.len()).find(|place| !is_blank(&tokens[*place]));
    let first = next(fetch).filter(|place| is_one_of(&tokens[*place], &[Keyword::FIRST, Keyword::NEXT]))?;
    let open = next(first).filter(|place| tokens[*place].token == Token::LParen)?;
    let close = closing(tokens, open)?;
    let rows = next(close).filter(|place| is_one_of(&tokens[*place], &[Keyword::ROW, Keyword::ROWS]))?;
    let last = next(rows).filter(|place| is_one_of(&tokens[*place], &[Keyword::ONLY, Keyword::WITH]))?;
    let inner = next(open)?;
    let is_number = matches!(tokens[inner].token, Token::Number(..) | Token::Placeholder(_));
    Some(CountInBrackets {
        open,
        only_number: Some(close).filter(|close| is_number && next(inner) == Some(*close)),
        rows,
        end: last + 1,
        has_ties: is_one_of(&tokens[last], &[Keyword::WITH]),
    })
}

/// `FOR UPDATE OF a, b NOWAIT` is `FOR UPDATE OF a NOWAIT FOR UPDATE OF b NOWAIT`.
pub(super) fn single_locks(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_of = |token: &TokenWithSpan| is_one_of(token, &[Keyword::OF]);
    for of in (2..tokens.len()).rev() {
        if !is_of(&tokens[of]) {
            continue;
        }
        let mut before = (0..of).rev().filter(|place| !is_blank(&tokens[*place]));
        let strength = before
            .next()
            .filter(|place| is_one_of(&tokens[*place], &[Keyword::UPDATE, Keyword::SHARE]));
        let Some(start) = before
            .next()
            .filter(|place| strength.is_some() && is_one_of(&tokens[*place], &[Keyword::FOR]))
        else {
            continue;
        };
        let (names, behind) = listed(&tokens, of);
        if names.len() < 2 {
            continue;
        }
        let end = end_of_wait(&tokens, behind);
        let (head, tail) = (tokens[start..=of].to_vec(), tokens[behind..end].to_vec());
        let blank = || TokenWithSpan {
            token: Token::Whitespace(Whitespace::Space),
            span: head[0].span,
        };
        let mut locks = Vec::new();
        for name in names {
            locks.extend(head.iter().cloned().chain([blank(), name, blank()]));
            locks.extend(tail.iter().cloned().chain([blank()]));
        }
        tokens.splice(start..end, locks);
    }
    tokens
}

/// The words behind this place that commas are between, and the place behind the last of them.
fn listed(tokens: &[TokenWithSpan], from: usize) -> (Vec<TokenWithSpan>, usize) {
    let mut names = Vec::new();
    let mut behind = from + 1;
    let mut rest = (from + 1..tokens.len()).filter(|place| !is_blank(&tokens[*place]));
    while let Some(name) = rest
        .next()
        .filter(|place| matches!(tokens[*place].token, Token::Word(_)))
    {
        names.push(tokens[name].clone());
        behind = name + 1;
        if rest.next().is_none_or(|place| tokens[place].token != Token::Comma) {
            break;
        }
    }
    (names, behind)
}

/// Behind NOWAIT or SKIP LOCKED, if that is what comes next.
fn end_of_wait(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut rest = (from..tokens.len()).filter(|place| !is_blank(&tokens[*place]));
    let first = rest.next();
    let is = |place: &usize, word: Keyword| is_one_of(&tokens[*place], &[word]);
    match (first, rest.next()) {
        (Some(place), _) if is(&place, Keyword::NOWAIT) => place + 1,
        (Some(skip), Some(place)) if is(&skip, Keyword::SKIP) && is(&place, Keyword::LOCKED) => place + 1,
        _ => from,
    }
}
