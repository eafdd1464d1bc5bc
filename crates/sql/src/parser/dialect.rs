//! PostgreSQL's dialect as the library has it, but for which words may be the name of a column without AS, and how much operators in front
//! of their operand bind.

use sqlparser::ast::{Expr, UnaryOperator};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::any::TypeId;

/// A sign binds more than COLLATE, and thereby more than `^`; brackets and `::` bind more.
const SIGN_PRECEDENCE: u8 = 120;

/// Words that name a column of a SELECT only behind AS (`pg_get_keywords()` without `barelabel`): else `SELECT 1 ON CONFLICT ...` would be a column
/// that is called `on`.
const NO_BARE_LABELS: &[Keyword] = &[
    Keyword::ARRAY,
    Keyword::AS,
    Keyword::CHAR,
    Keyword::CHARACTER,
    Keyword::CREATE,
    Keyword::DAY,
    Keyword::EXCEPT,
    Keyword::FETCH,
    Keyword::FILTER,
    Keyword::FOR,
    Keyword::FROM,
    Keyword::GRANT,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::HOUR,
    Keyword::INTERSECT,
    Keyword::INTO,
    Keyword::LIMIT,
    Keyword::MINUTE,
    Keyword::MONTH,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::ORDER,
    Keyword::OVER,
    Keyword::OVERLAPS,
    Keyword::PRECISION,
    Keyword::RETURNING,
    Keyword::SECOND,
    Keyword::TO,
    Keyword::UNION,
    Keyword::VARYING,
    Keyword::WHERE,
    Keyword::WINDOW,
    Keyword::WITH,
    Keyword::WITHIN,
    Keyword::WITHOUT,
    Keyword::YEAR,
];

/// The dialect.
#[derive(Debug)]
pub(super) struct Postgres;

/// What the library's dialect says: every method that it has of its own.
macro_rules! as_the_library {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> $result {
            PostgreSqlDialect {}.$name($($argument),*)
        })*
    };
}

impl Dialect for Postgres {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn is_column_alias(&self, word: &Keyword, parser: &mut Parser<'_>) -> bool {
        PostgreSqlDialect {}.is_column_alias(word, parser) && !NO_BARE_LABELS.contains(word)
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let (op, precedence) = match parser.peek_token_ref().token {
            Token::Minus => (UnaryOperator::Minus, SIGN_PRECEDENCE),
            Token::Plus => (UnaryOperator::Plus, SIGN_PRECEDENCE),
            Token::Tilde => (UnaryOperator::BitwiseNot, self.prec_value(Precedence::PgOther)),
            Token::AtSign => (UnaryOperator::PGAbs, self.prec_value(Precedence::PgOther)),
            Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, self.prec_value(Precedence::PgOther)),
            Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, self.prec_value(Precedence::PgOther)),
            _ => return None,
        };
        parser.advance_token();
        let operand = parser.parse_subexpr(precedence);
        Some(operand.map(|operand| Expr::UnaryOp {
            op,
            expr: Box::new(operand),
        }))
    }

    /// `... COLLATE name`, which the library knows behind the beginning of an expression only, not behind `::`.
    fn parse_infix(&self, parser: &mut Parser<'_>, expr: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        if !parser.parse_keyword(Keyword::COLLATE) {
            return None;
        }
        let collation = parser.parse_object_name(false);
        Some(collation.map(|collation| Expr::Collate {
            expr: Box::new(expr.clone()),
            collation,
        }))
    }

    as_the_library! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(start: char) -> bool;
        is_identifier_start(start: char) -> bool;
        is_identifier_part(part: char) -> bool;
        supports_unicode_string_literal() -> bool;
        is_reserved_for_identifier(word: Keyword) -> bool;
        is_table_alias(word: &Keyword, parser: &mut Parser<'_>) -> bool;
        is_custom_operator_part(part: char) -> bool;
        get_next_precedence(parser: &Parser<'_>) -> Option<Result<u8, ParserError>>;
        supports_filter_during_aggregation() -> bool;
        supports_group_by_expr() -> bool;
        supports_alter_user_as_alter_role() -> bool;
        prec_value(precedence: Precedence) -> u8;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_listen_notify() -> bool;
        supports_exclude_constraint() -> bool;
        supports_factorial_operator() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comment_on() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_named_fn_args_with_expr_name() -> bool;
        supports_empty_projections() -> bool;
        supports_nested_comments() -> bool;
        supports_string_escape_constant() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_geometric_types() -> bool;
        supports_order_by_using_operator() -> bool;
        supports_set_names() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_left_associative_joins_without_parens() -> bool;
        supports_notnull_operator() -> bool;
        supports_interval_options() -> bool;
        supports_insert_table_alias() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_xml_expressions() -> bool;
        supports_aliased_function_args() -> bool;
        supports_comment_optimizer_hint() -> bool;
    }
}
