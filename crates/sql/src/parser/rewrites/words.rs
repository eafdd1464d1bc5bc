//! Words that mean one thing or another by where they stand.

use super::is_blank;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Makes the library read each of them as PostgreSQL does.
pub(super) fn read_by_place(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    national_characters(columns_called_interval(precise_intervals(tokens)))
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// `interval (3) '1.2345 s'` is `'1.2345 s'::interval (3)`: the library reads over the precision.
fn precise_intervals(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(token) == Keyword::INTERVAL) {
        return tokens;
    }
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    for window in places.windows(5).rev() {
        let [own, open, number, close, literal] = [0, 1, 2, 3, 4].map(|at| &tokens[window[at]]);
        let is_precise = keyword(own) == Keyword::INTERVAL
            && open.token == Token::LParen
            && matches!(number.token, Token::Number(..))
            && close.token == Token::RParen
            && matches!(
                literal.token,
                Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)
            );
        if is_precise {
            let span = own.span.union(&literal.span);
            let cast = TokenWithSpan {
                token: Token::DoubleColon,
                span,
            };
            let turned = [literal, &cast, own, open, number, close].map(Clone::clone);
            tokens.splice(window[0]..=window[4], turned);
        }
    }
    tokens
}

/// `nchar (n)` and `national character` are `char`.
fn national_characters(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_one = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => {
            let mut names = ["nchar", "national"].iter();
            names.any(|own| word.value.eq_ignore_ascii_case(own))
        }
        _ => false,
    };
    if !tokens.iter().any(is_one) {
        return tokens;
    }
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    let mut removed = Vec::new();
    for pair in places.windows(2) {
        let [own, next] = [pair[0], pair[1]];
        if !is_one(&tokens[own]) {
            continue;
        }
        let behind = keyword(&tokens[next]);
        let is_nchar = matches!(&tokens[own].token, Token::Word(word) if word.value.eq_ignore_ascii_case("nchar"));
        if is_nchar && (behind == Keyword::VARYING || tokens[next].token == Token::LParen) {
            tokens[own].token = Token::make_keyword("char");
        }
        if !is_nchar && matches!(behind, Keyword::CHARACTER | Keyword::CHAR) {
            removed.push(own);
        }
    }
    for own in removed.into_iter().rev() {
        tokens.remove(own);
    }
    tokens
}

/// Words and signs behind which an expression stands, where `interval` is a literal only in front of a string or its precision.
fn is_before_expression(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            let is_one = matches!(
                word.keyword,
                Keyword::SELECT
                    | Keyword::DISTINCT
                    | Keyword::WHERE
                    | Keyword::HAVING
                    | Keyword::ON
                    | Keyword::BY
                    | Keyword::AND
                    | Keyword::OR
                    | Keyword::NOT
                    | Keyword::CASE
                    | Keyword::WHEN
                    | Keyword::THEN
                    | Keyword::ELSE
                    | Keyword::BETWEEN
                    | Keyword::LIKE
                    | Keyword::SET
                    | Keyword::RETURNING
            );
            is_one && word.quote_style.is_none()
        }
        Token::LParen | Token::Comma | Token::LBracket => true,
        Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => true,
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => true,
        _ => false,
    }
}

/// `interval` is a column where no literal of this type can be.
fn columns_called_interval(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_interval = |token: &TokenWithSpan| keyword(token) == Keyword::INTERVAL;
    if !tokens.iter().any(is_interval) {
        return tokens;
    }
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    for (at, place) in places.iter().enumerate().skip(1) {
        let behind = places.get(at + 1).map(|next| &tokens[*next].token);
        let begins_literal = matches!(
            behind,
            Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::LParen)
        );
        let is_column =
            is_interval(&tokens[*place]) && !begins_literal && is_before_expression(&tokens[places[at - 1]].token);
        if let Token::Word(word) = &mut tokens[*place].token
            && is_column
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}
