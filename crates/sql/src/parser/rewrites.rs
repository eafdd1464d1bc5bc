//! Forms of statements that the library reads only when they are written otherwise: their tokens are replaced, and keep their places.

mod words;

use super::forms::{plain_forms, types_without_collation};
use super::identity::identity_options;
use super::parenthesised::parenthesised_queries;
use super::queries::query_forms;
use super::rows_from::{recursive_views, rows_from};
use super::table_like::table_likes;
use super::tails::{plain_fetch_counts, single_locks};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens as the library reads them.
pub(super) fn rewritten(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = single_locks(plain_fetch_counts(types_without_collation(plain_strings(tokens))));
    let tokens = typed_literals(query_forms(plain_forms(rows_from(recursive_views(tokens)))));
    let tokens = identity_options(untyped_columns(values_as_select(table_as_select(tokens))));
    let tokens = option_values(distinct_nulls(join_aliases(named_operators(view_as_table(tokens)))));
    row_lists(bare_rows(plain_words(words::read_by_place(merged_defaults(
        table_likes(parenthesised_queries(tokens)),
    )))))
}

/// `$$text$$` is a string like others, also where the library knows those alone.
fn plain_strings(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for token in &mut tokens {
        if let Token::DollarQuotedString(text) = &token.token {
            token.token = Token::SingleQuotedString(text.value.clone());
        }
    }
    tokens
}

/// Types whose name may stand in front of a literal, besides those that the library knows.
const TYPES_OF_LITERALS: [&str; 5] = ["inet", "cidr", "macaddr", "macaddr8", "jsonpath"];

/// `inet '::1'` is `'::1'::inet`, at the place of both.
fn typed_literals(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    let is_type = |token: &Token| {
        let Token::Word(word) = token else { return false };
        let is_meant = |name: &&str| word.value.eq_ignore_ascii_case(name);
        word.quote_style.is_none() && TYPES_OF_LITERALS.iter().any(is_meant)
    };
    let is_literal = |token: &Token| matches!(token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
    for pair in places.windows(2).rev() {
        let (name, literal) = (&tokens[pair[0]], &tokens[pair[1]]);
        if !is_type(&name.token) || !is_literal(&literal.token) {
            continue;
        }
        let span = name.span.union(&literal.span);
        let cast = [literal.token.clone(), Token::DoubleColon, name.token.clone()];
        tokens.splice(pair[0]..=pair[1], cast.map(|token| TokenWithSpan { token, span }));
    }
    tokens
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

/// `(row).*` is `row.*`.
fn bare_rows(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    for window in places.windows(5).rev() {
        let [open, word, close, period, star] = [0, 1, 2, 3, 4].map(|place| &tokens[window[place]].token);
        let is_row = (open, close, period, star) == (&Token::LParen, &Token::RParen, &Token::Period, &Token::Mul);
        if is_row && matches!(word, Token::Word(_)) {
            tokens.remove(window[2]);
            tokens.remove(window[0]);
        }
    }
    tokens
}

/// `ROW (a, b)` is `(a, b)`.
fn row_lists(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_row = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::ROW);
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    for (index, place) in places.iter().enumerate().rev() {
        let opens = places
            .get(index + 1)
            .is_some_and(|next| tokens[*next].token == Token::LParen);
        let before = index.checked_sub(1).map(|before| &tokens[places[before]].token);
        if is_row(&tokens[*place]) && opens && !is_name_behind(before) && has_comma(&tokens[*place + 1..]) {
            tokens.remove(*place);
        }
    }
    tokens
}

/// Whether a word behind this is the name of a table.
fn is_name_behind(before: Option<&Token>) -> bool {
    match before {
        Some(Token::Word(word)) => matches!(
            word.keyword,
            Keyword::INTO | Keyword::TABLE | Keyword::REFERENCES | Keyword::ON | Keyword::COPY | Keyword::EXISTS
        ),
        Some(Token::Period) => true,
        _ => false,
    }
}

/// Whether the brackets that come first hold more than one expression.
fn has_comma(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket if depth <= 1 => return false,
            Token::RParen | Token::RBracket => depth -= 1,
            Token::Comma if depth == 1 => return true,
            _ => {}
        }
    }
    false
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

/// `CREATE VIEW name WITH (option)` is `WITH (option = true)`, which is all that the library reads.
fn option_values(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    let word = |index: usize, wanted: &str| {
        places
            .get(index)
            .is_some_and(|place| is_word(&tokens[*place].token, wanted))
    };
    let is_view = word(0, "create") && (1..5).any(|index| word(index, "view"));
    let open = (1..places.len())
        .take_while(|index| !word(*index, "as"))
        .find(|index| word(*index, "with"));
    let Some(open) = open.filter(|_| is_view) else {
        return tokens;
    };
    let symbol = |index: usize| places.get(index).map(|place| &tokens[*place].token);
    let mut bare = Vec::new();
    for (index, place) in places.iter().enumerate().skip(open + 2) {
        let begins = matches!(symbol(index - 1), Some(Token::LParen | Token::Comma));
        let ends = matches!(symbol(index + 1), Some(Token::RParen | Token::Comma));
        if begins && ends && matches!(symbol(index), Some(Token::Word(_))) {
            bare.push(*place);
        }
        if symbol(index) == Some(&Token::RParen) {
            break;
        }
    }
    for place in bare.into_iter().rev() {
        let span = tokens[place].span;
        let value = [Token::Eq, Token::make_keyword("TRUE")].map(|token| TokenWithSpan { token, span });
        tokens.splice(place + 1..place + 1, value);
    }
    tokens
}

/// How `NULLS NOT DISTINCT` behind UNIQUE of a column is said to the library, which knows it only of tables: as a collation.
pub(crate) const NULLS_NOT_DISTINCT: &str = "rubato_nulls_not_distinct";

/// `column type UNIQUE NULLS [NOT] DISTINCT` with the words as a collation.
fn distinct_nulls(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    let word = |index: usize, wanted: &str| {
        places
            .get(index)
            .is_some_and(|place| is_word(&tokens[*place].token, wanted))
    };
    let mut found = Vec::new();
    for index in 0..places.len() {
        if !(word(index, "unique") && word(index + 1, "nulls")) {
            continue;
        }
        let is_not = word(index + 2, "not");
        let last = index + 2 + usize::from(is_not);
        let opens = places
            .get(last + 1)
            .is_some_and(|place| tokens[*place].token == Token::LParen);
        if word(last, "distinct") && !opens {
            found.push((places[index + 1], places[last], is_not));
        }
    }
    for (first, last, is_not) in found.into_iter().rev() {
        let span = tokens[first].span;
        let collation = [
            Token::make_keyword("COLLATE"),
            Token::make_word(NULLS_NOT_DISTINCT, None),
        ];
        let said = collation.into_iter().filter(|_| is_not);
        tokens.splice(
            first..=last,
            said.map(|token| TokenWithSpan { token, span }).collect::<Vec<_>>(),
        );
    }
    tokens
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
    let is_on_commit = word(next + 1)? == "on" && word(next + 2)? == "commit";
    let behind = match is_on_commit {
        true => (next + 3..next + 6).find(|index| word(*index).as_deref() == Some("as"))?,
        false => next + 1,
    };
    (word(behind)? == "as").then_some(columns)
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

pub(super) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// `TABLE name` is `SELECT * FROM name`; the library knows it only within other queries, and forgets how the name was written.
fn table_as_select(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_table = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::TABLE);
    let mut before = None;
    let mut found = Vec::new();
    for (place, token) in tokens.iter().enumerate().filter(|(_, token)| !is_blank(token)) {
        let begins = match &before {
            None | Some(Token::LParen) => true,
            Some(token) => ["as", "union", "intersect", "except", "all", "distinct"]
                .iter()
                .any(|word| is_word(token, word)),
        };
        if begins && is_table(token) && names_only(&tokens[place + 1..]) {
            found.push(place);
        }
        before = Some(token.token.clone());
    }
    for place in found.into_iter().rev() {
        let span = tokens[place].span;
        let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        let select = select.map(|token| TokenWithSpan { token, span });
        tokens.splice(place..=place, select);
    }
    tokens
}

/// `(VALUES ...)` within an expression is `(SELECT * FROM (VALUES ...) AS "*VALUES*")`: the library knows it in FROM and WITH only.
fn values_as_select(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_values =
        |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::VALUES);
    if !tokens
        .windows(2)
        .any(|pair| pair[0].token == Token::LParen && is_values(&pair[1]))
    {
        return tokens;
    }
    let mut written = Vec::with_capacity(tokens.len() + 16);
    // For each bracket that is open, whether it is such a query's.
    let mut open: Vec<bool> = Vec::new();
    let (mut earlier, mut before) = (Token::EOF, Token::EOF);
    let mut rest = tokens.into_iter();
    while let Some(token) = rest.next() {
        let span = token.span;
        let added = |token: Token| TokenWithSpan { token, span };
        let (is_open, is_close) = (token.token == Token::LParen, token.token == Token::RParen);
        // `values.a` is a column of a table of that name.
        let is_list = match rest.as_slice() {
            [first, second, ..] => is_values(first) && second.token != Token::Period,
            _ => false,
        };
        let is_query = is_open && !is_before_query(&earlier, &before) && is_list;
        if !is_blank(&token) {
            earlier = std::mem::replace(&mut before, token.token.clone());
        }
        if is_close && open.pop() == Some(true) {
            let alias = Token::make_word("*VALUES*", Some('"'));
            written.extend([Token::RParen, Token::make_keyword("AS"), alias].map(added));
        }
        written.push(token);
        if is_open {
            open.push(is_query);
        }
        if is_query {
            let select = ["SELECT", "*", "FROM", "("].map(|word| match word {
                "*" => Token::Mul,
                "(" => Token::LParen,
                word => Token::make_keyword(word),
            });
            written.extend(select.map(added));
        }
    }
    written
}

/// Whether what stands in brackets behind these two is a query already.
fn is_before_query(earlier: &Token, token: &Token) -> bool {
    let Token::Word(word) = token else { return false };
    let is_set = |keyword| matches!(keyword, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT);
    match word.keyword {
        // `= ALL (VALUES ...)` is none.
        Keyword::ALL => matches!(earlier, Token::Word(word) if is_set(word.keyword)),
        Keyword::FROM | Keyword::JOIN | Keyword::LATERAL | Keyword::AS | Keyword::USING | Keyword::MATERIALIZED => true,
        keyword => is_set(keyword),
    }
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
const TABLE_CLAUSES: [&str; 8] = [
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "intersect",
    "except",
];
