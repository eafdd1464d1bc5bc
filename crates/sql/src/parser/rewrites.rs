//! Forms of statements that the library reads only when they are written otherwise: their tokens are replaced, and keep their places.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens as the library reads them.
pub(super) fn rewritten(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    plain_words(merged_defaults(join_aliases(untyped_columns(table_as_select(tokens)))))
}

/// How an alias of `USING (...) AS alias` is quoted, which becomes the last of the columns.
pub(crate) const JOIN_ALIAS_QUOTE: char = '\'';

/// `USING (a, b) AS alias`: the alias goes into the list, since the library knows none.
fn join_aliases(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut place = 0;
    while let Some(using) = next_using(&tokens, place) {
        place = using + 1;
        let Some((close, alias)) = alias_behind(&tokens, using) else {
            continue;
        };
        let span = tokens[alias].span;
        let Token::Word(mut word) = tokens[alias].token.clone() else {
            continue;
        };
        if word.quote_style.is_none() {
            word.value.make_ascii_lowercase();
        }
        word.quote_style = Some(JOIN_ALIAS_QUOTE);
        tokens.drain(close + 1..=alias);
        let added = [Token::Comma, Token::Word(word)];
        tokens.splice(close..close, added.map(|token| TokenWithSpan { token, span }));
    }
    tokens
}

fn next_using(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let is_using = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::USING);
    tokens[from..].iter().position(is_using).map(|place| from + place)
}

/// The places of the bracket that ends the columns of USING, and of the alias behind it.
fn alias_behind(tokens: &[TokenWithSpan], using: usize) -> Option<(usize, usize)> {
    let mut rest = (using + 1..tokens.len()).filter(|place| !is_blank(&tokens[*place]));
    if tokens[rest.next()?].token != Token::LParen {
        return None;
    }
    let close = loop {
        let place = rest.next()?;
        match &tokens[place].token {
            Token::Word(_) | Token::Comma => {}
            Token::RParen => break place,
            _ => return None,
        }
    };
    let is_as = matches!(&tokens[rest.next()?].token, Token::Word(word) if word.keyword == Keyword::AS);
    let alias = rest.next()?;
    (is_as && matches!(tokens[alias].token, Token::Word(_))).then_some((close, alias))
}

/// Words of other dialects are names like any other.
fn plain_words(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for token in &mut tokens {
        if let Token::Word(word) = &mut token.token
            && OTHER_DIALECTS.contains(&word.keyword)
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}

/// Keywords of the library that PostgreSQL does not have.
const OTHER_DIALECTS: [Keyword; 12] = [
    Keyword::ANTI,
    Keyword::ASOF,
    Keyword::DISTRIBUTE,
    Keyword::MINUS,
    Keyword::PIVOT,
    Keyword::PREWHERE,
    Keyword::QUALIFY,
    Keyword::SAMPLE,
    Keyword::SEMI,
    Keyword::SETTINGS,
    Keyword::TOP,
    Keyword::UNPIVOT,
];

/// `INSERT DEFAULT VALUES` of MERGE is `INSERT VALUES (DEFAULT)`, since what is not given takes its default.
fn merged_defaults(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let is_merge = tokens.iter().any(|token| word(token) == Keyword::MERGE);
    let mut places: Vec<usize> = if is_merge {
        (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect()
    } else {
        Vec::new()
    };
    places.reverse();
    for window in places.windows(3) {
        let [values, default, insert] = [0, 1, 2].map(|place| window[place]);
        let keywords = [insert, default, values].map(|place| word(&tokens[place]));
        if keywords == [Keyword::INSERT, Keyword::DEFAULT, Keyword::VALUES] {
            let span = tokens[default].span;
            let rest = [
                Token::make_keyword("VALUES"),
                Token::LParen,
                Token::make_keyword("DEFAULT"),
                Token::RParen,
            ];
            tokens.splice(default..=values, rest.map(|token| TokenWithSpan { token, span }));
        }
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
