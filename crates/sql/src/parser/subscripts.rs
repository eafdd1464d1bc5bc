//! What the library's tokens and grammar do not have of subscripts and operators: `SET a[1] = value`, and `->-1`.

use rubato_base::{Error, Result};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The name of the function that `SET a[1] = value` is read as: of the column, the value and the subscripts.
pub(crate) const ASSIGNED_PART: &str = "[]=";

/// PostgreSQL's operators end with a sign only if they have a letter that no operator of the standard has: `->-1` is `-> -1`, and `5>-3`
/// is `5 > -3`.
pub(super) fn split_signs(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_joined =
        |token: &TokenWithSpan| matches!(&token.token, Token::CustomBinaryOperator(symbol) if signed(symbol).is_some());
    if !tokens.iter().any(is_joined) {
        return tokens;
    }
    let split = |token: TokenWithSpan| {
        let signed = match &token.token {
            Token::CustomBinaryOperator(symbol) => signed(symbol),
            _ => None,
        };
        match signed {
            Some((operator, sign)) => {
                let with = |token| TokenWithSpan {
                    token,
                    span: Span::empty(),
                };
                let token = TokenWithSpan {
                    token: operator,
                    ..token
                };
                vec![token, with(sign)]
            }
            None => vec![token],
        }
    };
    tokens.into_iter().flat_map(split).collect()
}

/// An operator and the sign behind it, if it is one of those that no sign may end.
fn signed(symbol: &str) -> Option<(Token, Token)> {
    let (operator, sign) = match (symbol.strip_suffix('-'), symbol.strip_suffix('+')) {
        (Some(operator), _) => (operator, Token::Minus),
        (None, Some(operator)) => (operator, Token::Plus),
        (None, None) => return None,
    };
    let operator = match operator {
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        "<" => Token::Lt,
        "<=" => Token::LtEq,
        ">" => Token::Gt,
        ">=" => Token::GtEq,
        "=" => Token::Eq,
        "<>" => Token::Neq,
        "+" => Token::Plus,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "/" => Token::Div,
        _ => return None,
    };
    Some((operator, sign))
}

/// Whether the last word is the name of a type, which no expression stands behind but a literal.
fn is_behind_type(tokens: &[TokenWithSpan]) -> bool {
    const TYPES: [Keyword; 14] = [
        Keyword::BIGINT,
        Keyword::BOOLEAN,
        Keyword::DATE,
        Keyword::INT,
        Keyword::INT2,
        Keyword::INT4,
        Keyword::INT8,
        Keyword::INTEGER,
        Keyword::NUMERIC,
        Keyword::REAL,
        Keyword::SMALLINT,
        Keyword::TEXT,
        Keyword::UUID,
        Keyword::VARCHAR,
    ];
    let last = tokens.iter().rev().find(|token| !is_blank(token));
    last.is_some_and(|token| TYPES.iter().any(|own| is_keyword(token, *own)))
}

/// The standard's `integer ARRAY` as `integer[]`, and `integer ARRAY[4]` as `integer[4]`.
pub(super) fn array_types(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_list = |token: &Token| matches!(token, Token::LBracket | Token::LParen);
    let mut behind_is_list = false;
    for place in (0..tokens.len()).rev() {
        if is_blank(&tokens[place]) {
            continue;
        }
        if is_keyword(&tokens[place], Keyword::ARRAY) && behind_is_list && is_behind_type(&tokens[..place]) {
            tokens.remove(place);
            continue;
        }
        if is_keyword(&tokens[place], Keyword::ARRAY) && !behind_is_list {
            let span = tokens[place].span;
            let brackets = [Token::LBracket, Token::RBracket];
            tokens.splice(place..=place, brackets.map(|token| TokenWithSpan { token, span }));
            behind_is_list = true;
            continue;
        }
        behind_is_list = is_list(&tokens[place].token);
    }
    tokens
}

/// Assignments to parts of columns, `SET a[1][2] = value`, as assignments to the columns: `a = "[]="(a, value, 1, 2)`. 0A000 for a slice.
pub(super) fn assigned_parts(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if !has_part(&tokens) || !tokens.iter().any(|token| is_keyword(token, Keyword::SET)) {
        return Ok(tokens);
    }
    let mut rewritten = Vec::with_capacity(tokens.len() + 16);
    let mut rest = tokens.as_slice();
    let mut lists = Lists::default();
    let mut begins = false;
    while let Some((token, behind)) = rest.split_first() {
        if begins && !is_blank(token) {
            begins = false;
            if let Some(part) = Part::read(rest)? {
                part.write(&mut rewritten);
                rest = part.rest;
                continue;
            }
        }
        begins |= lists.pass(token);
        rewritten.push(token.clone());
        rest = behind;
    }
    Ok(rewritten)
}

/// Where the text is in lists of assignments: one within the brackets of another, as WITH has them.
#[derive(Default)]
struct Lists {
    depth: usize,
    /// The depths of those that have begun.
    open: Vec<usize>,
    clauses: Clauses,
}

impl Lists {
    /// Whether an assignment may begin behind the token.
    fn pass(&mut self, token: &TokenWithSpan) -> bool {
        let depth = self.depth;
        self.depth = depth_behind(depth, &token.token);
        let is_ended = |own: &usize| self.depth < *own || (depth == *own && self.clauses.begin_with(token));
        if self.open.last().is_some_and(is_ended) {
            self.open.pop();
        }
        self.clauses.pass(token);
        if is_keyword(token, Keyword::SET) {
            self.open.push(depth);
            return true;
        }
        token.token == Token::Comma && self.open.last() == Some(&depth)
    }
}

/// What tells the clauses behind a list of assignments from words within its values.
#[derive(Default)]
struct Clauses {
    is_distinct: bool,
    cases: usize,
}

impl Clauses {
    /// Whether a clause, or the next statement, begins with the token.
    fn begin_with(&self, token: &TokenWithSpan) -> bool {
        token.token == Token::SemiColon
            || is_keyword(token, Keyword::WHERE)
            || is_keyword(token, Keyword::RETURNING)
            || (is_keyword(token, Keyword::FROM) && !self.is_distinct)
            || (is_keyword(token, Keyword::WHEN) && self.cases == 0)
    }

    fn pass(&mut self, token: &TokenWithSpan) {
        if is_blank(token) {
            return;
        }
        self.is_distinct = is_keyword(token, Keyword::DISTINCT);
        if is_keyword(token, Keyword::CASE) {
            self.cases += 1;
        } else if is_keyword(token, Keyword::END) {
            self.cases = self.cases.saturating_sub(1);
        }
    }
}

/// Whether a bracket closes right in front of an equals sign.
fn has_part(tokens: &[TokenWithSpan]) -> bool {
    let words: Vec<&Token> = tokens
        .iter()
        .filter(|token| !is_blank(token))
        .map(|token| &token.token)
        .collect();
    words
        .windows(2)
        .any(|pair| *pair[0] == Token::RBracket && *pair[1] == Token::Eq)
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

fn is_keyword(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

fn depth_behind(depth: usize, token: &Token) -> usize {
    match token {
        Token::LParen | Token::LBracket => depth + 1,
        Token::RParen | Token::RBracket => depth.saturating_sub(1),
        _ => depth,
    }
}

/// `target[...]... = value`
struct Part<'a> {
    target: &'a [TokenWithSpan],
    subscripts: Vec<&'a [TokenWithSpan]>,
    value: &'a [TokenWithSpan],
    rest: &'a [TokenWithSpan],
}

impl<'a> Part<'a> {
    /// The assignment at the start, if it is one to a part of a column.
    fn read(tokens: &'a [TokenWithSpan]) -> Result<Option<Part<'a>>> {
        let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_) | Token::Period) || is_blank(token);
        let names = tokens.iter().take_while(|token| is_name(token)).count();
        let (target, mut rest) = tokens.split_at(names);
        let mut subscripts = Vec::new();
        while let Some((Token::LBracket, behind)) = rest.split_first().map(|(token, behind)| (&token.token, behind)) {
            let mut depth = 1;
            let inside = behind.iter().take_while(|token| {
                depth = depth_behind(depth, &token.token);
                depth > 0
            });
            let (inside, behind) = behind.split_at(inside.count());
            if inside.iter().any(|token| token.token == Token::Colon) {
                return Err(Error::unsupported("an assignment to a slice of an array"));
            }
            subscripts.push(inside);
            rest = skip_blanks(behind.get(1..).unwrap_or_default());
        }
        let Some((Token::Eq, behind)) = rest.split_first().map(|(token, behind)| (&token.token, behind)) else {
            return Ok(None);
        };
        if subscripts.is_empty() {
            return Ok(None);
        }
        let (value, rest) = behind.split_at(value_length(behind));
        Ok(Some(Part {
            target,
            subscripts,
            value,
            rest,
        }))
    }

    fn write(&self, out: &mut Vec<TokenWithSpan>) {
        let span = self.target.first().map_or_else(Span::empty, |token| token.span);
        let mut put = |token| out.push(TokenWithSpan { token, span });
        for token in self.target {
            put(token.token.clone());
        }
        put(Token::Eq);
        put(Token::make_word(ASSIGNED_PART, Some('"')));
        put(Token::LParen);
        for token in self.target {
            put(token.token.clone());
        }
        for argument in std::iter::once(&self.value).chain(&self.subscripts) {
            out.push(TokenWithSpan {
                token: Token::Comma,
                span,
            });
            out.extend_from_slice(argument);
        }
        out.push(TokenWithSpan {
            token: Token::RParen,
            span,
        });
        // A blank, so that what follows stands apart.
        out.push(TokenWithSpan {
            token: Token::Whitespace(sqlparser::tokenizer::Whitespace::Space),
            span,
        });
    }
}

fn skip_blanks(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let blanks = tokens.iter().take_while(|token| is_blank(token)).count();
    &tokens[blanks..]
}

/// How many tokens the value of an assignment has: up to a comma or a clause of the statement.
fn value_length(tokens: &[TokenWithSpan]) -> usize {
    let mut depth = 0;
    let mut clauses = Clauses::default();
    for (place, token) in tokens.iter().enumerate() {
        let ends = matches!(token.token, Token::Comma | Token::RParen) || clauses.begin_with(token);
        if depth == 0 && ends {
            return place;
        }
        depth = depth_behind(depth, &token.token);
        clauses.pass(token);
    }
    tokens.len()
}
