//! What stands at the end of a query, where the library reads only one form of it.

use super::forms::closing;
use super::lexer::{Lexer, TokenKind};
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

/// What the library writes for a count that stands elsewhere.
const TIES: [&str; 5] = ["fetch", "first", "rows", "with", "ties"];

/// The text of a query, as the library writes it, with counts in front of WITH TIES where SQL has them: `LIMIT (a + 2) FETCH FIRST ROWS WITH
/// TIES`, as [`plain_fetch_counts`] has it, is `FETCH FIRST (a + 2) ROWS WITH TIES`.
pub(crate) fn with_tied_counts(mut text: String) -> String {
    while let Some((limit, count, ties)) = tied_count(&text) {
        let tail = format!("FETCH FIRST {} ROWS WITH TIES", &text[count.0..count.1]);
        text.replace_range(ties.0..ties.1, &tail);
        let behind = &text[count.1..];
        let blanks = behind.len() - behind.trim_start().len();
        text.replace_range(limit..count.1 + blanks, "");
    }
    text
}

/// Where the first LIMIT stands that is the count of a WITH TIES, its brackets, and the words of [`TIES`].
fn tied_count(text: &str) -> Option<(usize, (usize, usize), (usize, usize))> {
    let mut lexer = Lexer::new(text);
    let tokens: Vec<_> = std::iter::from_fn(|| lexer.next_token().ok().flatten()).collect();
    let is = |place: usize, symbol: u8| tokens[place].kind == TokenKind::Symbol(symbol);
    (0..tokens.len()).find_map(|fetch| {
        let words = tokens.get(fetch..fetch + TIES.len())?;
        if !words.iter().zip(TIES).all(|(token, word)| token.is(text, word)) {
            return None;
        }
        let mut close = None;
        let mut depth = 0_usize;
        for place in (0..fetch).rev() {
            if is(place, b')') {
                close = Some(place).filter(|_| depth == 0).or(close);
                depth += 1;
            } else if is(place, b'(') {
                depth = depth.checked_sub(1)?;
            } else if depth == 0 && tokens[place].is(text, "limit") {
                let open = Some(place + 1).filter(|open| is(*open, b'('))?;
                let brackets = (tokens[open].start, tokens[close?].end);
                return Some((tokens[place].start, brackets, (words[0].start, words[4].end)));
            }
        }
        None
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::syntax::{Source, parse_statement};

    #[test]
    fn counts_of_ties_are_written_where_they_were_read() {
        let same = [
            "SELECT a FROM t ORDER BY a FETCH FIRST (1 + b) ROWS WITH TIES",
            "SELECT a FROM t ORDER BY a OFFSET 1 FETCH FIRST (1::BIGINT) ROWS WITH TIES",
            "SELECT (SELECT 1 LIMIT (2)) FROM t ORDER BY a FETCH FIRST ROWS WITH TIES",
            "SELECT a FROM (SELECT a FROM t ORDER BY a FETCH FIRST (1 + (2)) ROWS WITH TIES) AS q ORDER BY a LIMIT (3)",
            "SELECT a FROM t ORDER BY a FETCH FIRST ((SELECT b FROM t ORDER BY b FETCH FIRST (1 + 1) ROWS WITH TIES)) ROWS WITH TIES",
        ];
        for text in same {
            let read = parse_statement(Source::new(text)).unwrap().statement.to_string();
            assert_eq!(with_tied_counts(read), text);
        }
    }
}
