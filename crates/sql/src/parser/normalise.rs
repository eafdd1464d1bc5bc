//! Taking the literals out of a statement, so that texts that differ only in literals share one plan.
//!
//! One pass over the tokens. A literal is taken only where an expression may start and no neighbour gives it another role; type
//! modifiers, typed literals, positions in ORDER BY and GROUP BY, patterns, escape strings and everything else of doubt stay in
//! the text. A text that is not understood is left alone as a whole.

use super::lexer::{Lexer, Token, TokenKind};
use ecow::EcoString;
use rubato_base::{DataType, Numeric, Value};
use rubato_formula::is_set_function;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt::Write;

/// Longer texts are left alone: they are bulk loads whose plan nobody meets again.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// More literals than this are left in the text.
const LITERALS_MAX: usize = 1024;
/// PostgreSQL's largest parameter number.
const PARAMETERS_MAX: usize = 65_535;

/// A literal taken out of a text, with the type that the text would give it.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A whole number that fits `integer`.
    Int4(i32),
    /// A whole number that fits `bigint`.
    Int8(i64),
    /// A larger whole number, or one with a point or an exponent.
    Numeric(Numeric),
    /// A string: its type is unknown until the context gives it one.
    Text(EcoString),
}

impl Literal {
    /// The type as a parameter: [`DataType::Unknown`] for a string.
    pub fn data_type(&self) -> DataType {
        match self {
            Literal::Int4(_) => DataType::Int4,
            Literal::Int8(_) => DataType::Int8,
            Literal::Numeric(_) => DataType::Numeric,
            Literal::Text(_) => DataType::Unknown,
        }
    }

    /// The value; a string is text that still has to be read as the type the context gave it.
    pub fn value(&self) -> Value {
        match self {
            Literal::Int4(number) => Value::Int4(*number),
            Literal::Int8(number) => Value::Int8(*number),
            Literal::Numeric(number) => Value::Numeric(number.clone()),
            Literal::Text(text) => Value::Text(text.clone()),
        }
    }

    fn letter(&self) -> char {
        match self {
            Literal::Int4(_) => 'i',
            Literal::Int8(_) => 'l',
            Literal::Numeric(_) => 'n',
            Literal::Text(_) => 't',
        }
    }
}

/// The literals of a statement, in the order of their parameter numbers.
pub type Literals = SmallVec<[Literal; 8]>;

/// A statement with its literals taken out.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalised<'a> {
    /// The text with parameters in place of literals, a NUL character and a letter for each literal's type: what a plan cache is
    /// keyed by. [`crate::binder::bind`] takes it as it is.
    pub key: Cow<'a, str>,
    /// What was taken out; their parameters follow the user's. Empty if the text was left alone.
    pub literals: Literals,
}

/// Takes the literals out of a SELECT, INSERT, UPDATE or DELETE. `declared_count` is how many parameter types the client
/// declared: the literals' parameters come after these and after every `$n` in the text. Binding the result gives the same
/// types and the same meaning as binding `sql`; if it fails, bind `sql` itself, so that the error speaks of the user's text.
pub fn normalise(sql: &str, declared_count: usize) -> Normalised<'_> {
    let unchanged = Normalised {
        key: Cow::Borrowed(sql),
        literals: Literals::new(),
    };
    if sql.len() > TEXT_BYTES_MAX {
        return unchanged;
    }
    let Some(first_parameter) = highest_parameter(sql).map(|highest| highest.max(declared_count) + 1) else {
        return unchanged;
    };
    match Pass::new(sql, first_parameter).run() {
        Some((mut key, literals)) if !literals.is_empty() => {
            key.push('\0');
            key.extend(literals.iter().map(Literal::letter));
            Normalised {
                key: Cow::Owned(key),
                literals,
            }
        }
        _ => unchanged,
    }
}

/// The text within a cache key.
pub fn text_of_key(key: &str) -> &str {
    key.split_once('\0').map_or(key, |(text, _)| text)
}

/// The highest `$n` of the text, `None` if it cannot be told.
pub(crate) fn highest_parameter(sql: &str) -> Option<usize> {
    if !sql.as_bytes().contains(&b'$') {
        return Some(0);
    }
    let mut lexer = Lexer::new(sql);
    let mut highest = 0;
    while let Some(token) = lexer.next_token().ok()? {
        if token.kind == TokenKind::Parameter {
            highest = highest.max(token.text(sql)[1..].parse().ok()?);
        }
    }
    (highest <= PARAMETERS_MAX).then_some(highest)
}

/// What stands before a token, as far as it says whether a literal may start there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An operator, a comma, an opening bracket or a keyword that an expression follows.
    ExpressionStart,
    /// A string that was taken out: an adjacent one would have continued it.
    TakenText,
    /// A number: a word directly behind it would belong to it.
    Number,
    /// Anything else.
    Other,
}

struct Pass<'a> {
    sql: &'a str,
    lexer: Lexer<'a>,
    out: String,
    out_upto: usize,
    literals: Literals,
    first_parameter: usize,
    before: Before,
    /// Between ORDER BY or GROUP BY and the clause after it, numbers are positions.
    positional: bool,
    /// After `::` and AS: words and one pair of parentheses belong to a type.
    in_type: bool,
    colon: bool,
}

impl<'a> Pass<'a> {
    fn new(sql: &'a str, first_parameter: usize) -> Pass<'a> {
        Pass {
            sql,
            lexer: Lexer::new(sql),
            out: String::with_capacity(sql.len() + 16),
            out_upto: 0,
            literals: Literals::new(),
            first_parameter,
            before: Before::Other,
            positional: false,
            in_type: false,
            colon: false,
        }
    }

    fn run(mut self) -> Option<(String, Literals)> {
        let first = self.lexer.next_token().ok()??;
        if !["select", "insert", "update", "delete"]
            .iter()
            .any(|keyword| first.is(self.sql, keyword))
        {
            return None;
        }
        self.keep(first);
        self.before = Before::ExpressionStart;
        while let Some(token) = self.lexer.next_token().ok()? {
            match token.kind {
                TokenKind::Word => self.word(token)?,
                TokenKind::Symbol(symbol) => {
                    if symbol == b';' {
                        return self
                            .lexer
                            .next_token()
                            .ok()?
                            .is_none()
                            .then_some((self.out, self.literals));
                    }
                    self.symbol(token, symbol)?;
                }
                TokenKind::Text => self.text(token)?,
                TokenKind::Integer | TokenKind::Decimal => self.number(token)?,
                TokenKind::QuotedWord | TokenKind::SpecialText | TokenKind::Parameter => {
                    if self.before == Before::TakenText {
                        return None;
                    }
                    self.keep_as(token, Before::Other);
                    self.in_type = false;
                }
            }
        }
        Some((self.out, self.literals))
    }

    /// Copies a token; blanks and comments before it become one blank.
    fn keep(&mut self, token: Token) {
        self.blank(token);
        self.out.push_str(token.text(self.sql));
    }

    fn keep_as(&mut self, token: Token, before: Before) {
        self.keep(token);
        self.before = before;
        self.colon = false;
    }

    fn blank(&mut self, token: Token) {
        if token.start > self.out_upto && self.out_upto > 0 {
            self.out.push(' ');
        }
        self.out_upto = token.end;
    }

    fn word(&mut self, token: Token) -> Option<()> {
        if self.before == Before::Number && token.start == self.out_upto {
            return None;
        }
        let word = token.text(self.sql);
        // Which keys a set has is told by their expressions, literals too; and so is which functions of rows are those of the list.
        if self.positional
            && (SETS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
                || is_set_function(&word.to_ascii_lowercase()))
        {
            return None;
        }
        let starts_expression = STARTS_EXPRESSION
            .iter()
            .any(|keyword| word.eq_ignore_ascii_case(keyword));
        if word.eq_ignore_ascii_case("order") || word.eq_ignore_ascii_case("group") {
            self.positional = true;
        } else if self.positional && ENDS_POSITIONS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)) {
            self.positional = false;
        }
        let is_type = TYPES_WITH_MODIFIER.iter().any(|name| word.eq_ignore_ascii_case(name));
        self.in_type = self.in_type || is_type || word.eq_ignore_ascii_case("as");
        self.keep_as(
            token,
            if starts_expression {
                Before::ExpressionStart
            } else {
                Before::Other
            },
        );
        Some(())
    }

    fn symbol(&mut self, token: Token, symbol: u8) -> Option<()> {
        if symbol == b'(' && self.in_type {
            return self.type_modifier(token);
        }
        let second_colon = symbol == b':' && self.colon;
        let before = match symbol {
            b')' | b']' | b'.' | b':' | b'$' | b'{' | b'}' | b'\\' => Before::Other,
            0 => return None,
            _ => Before::ExpressionStart,
        };
        self.keep_as(token, before);
        self.in_type = second_colon;
        self.colon = symbol == b':';
        Some(())
    }

    /// Copies a parenthesis behind a type name as it is.
    fn type_modifier(&mut self, open: Token) -> Option<()> {
        self.keep_as(open, Before::Other);
        let mut depth = 1;
        while depth > 0 {
            let token = self.lexer.next_token().ok()??;
            match token.kind {
                TokenKind::Symbol(b'(') => depth += 1,
                TokenKind::Symbol(b')') => depth -= 1,
                _ => {}
            }
            self.keep(token);
        }
        Some(())
    }

    fn text(&mut self, token: Token) -> Option<()> {
        match self.before {
            Before::TakenText => return None,
            Before::ExpressionStart if !self.positional => {
                let inner = &self.sql[token.start + 1..token.end - 1];
                let text = match inner.contains('\'') {
                    true => EcoString::from(inner.replace("''", "'")),
                    false => EcoString::from(inner),
                };
                self.take(token, Literal::Text(text))?;
                self.before = Before::TakenText;
            }
            _ => self.keep_as(token, Before::Other),
        }
        self.in_type = false;
        Some(())
    }

    fn number(&mut self, token: Token) -> Option<()> {
        let text = token.text(self.sql);
        if self.before == Before::ExpressionStart && !self.positional && !self.has_sign(text) {
            self.take(token, number_literal(text, token.kind)?)?;
        } else {
            self.keep(token);
        }
        self.before = Before::Number;
        self.in_type = false;
        self.colon = false;
        Some(())
    }

    /// Whether a minus before the number decides of what type it is.
    fn has_sign(&self, text: &str) -> bool {
        let is_between = |letter: char| letter == '(' || letter.is_whitespace();
        SIGNED.contains(&text) && self.out.trim_end_matches(is_between).ends_with('-')
    }

    fn take(&mut self, token: Token, literal: Literal) -> Option<()> {
        let number = self.first_parameter + self.literals.len();
        if self.literals.len() == LITERALS_MAX || number > PARAMETERS_MAX {
            return None;
        }
        self.blank(token);
        // A word may touch a literal (`in(1)` may not, `select'a'` may): the parameter must not run into it.
        if self
            .out
            .ends_with(|last: char| last.is_alphanumeric() || last == '_' || last == '$')
        {
            self.out.push(' ');
        }
        write!(self.out, "${number}").ok()?;
        self.literals.push(literal);
        self.colon = false;
        Some(())
    }
}

/// The literal that PostgreSQL makes of a number without a sign; `None` if it is out of every range.
pub(crate) fn number_literal(text: &str, kind: TokenKind) -> Option<Literal> {
    if kind == TokenKind::Integer {
        if let Ok(number) = text.parse::<i32>() {
            return Some(Literal::Int4(number));
        }
        if let Ok(number) = text.parse::<i64>() {
            return Some(Literal::Int8(number));
        }
    }
    Numeric::parse(text).ok().map(Literal::Numeric)
}

/// Numbers that are of a smaller type with a minus before them.
const SIGNED: [&str; 2] = ["2147483648", "9223372036854775808"];

/// Keywords that an expression may follow. Those after which a literal has another role (LIKE, ESCAPE, INTERVAL, DATE, FROM, FOR,
/// ZONE, FETCH FIRST ...) are left out on purpose.
const STARTS_EXPRESSION: [&str; 22] = [
    "select",
    "where",
    "and",
    "or",
    "not",
    "when",
    "then",
    "else",
    "case",
    "between",
    "in",
    "on",
    "having",
    "limit",
    "offset",
    "returning",
    "values",
    "set",
    "all",
    "any",
    "distinct",
    "some",
];

/// Type names that a modifier may follow where no cast announces them, as in `timestamp(3) '...'`.
const TYPES_WITH_MODIFIER: [&str; 8] = [
    "timestamp",
    "timestamptz",
    "time",
    "interval",
    "numeric",
    "decimal",
    "varchar",
    "char",
];

/// Keywords of GROUP BY that name sets of keys.
const SETS: [&str; 3] = ["sets", "rollup", "cube"];

/// Keywords that end ORDER BY and GROUP BY.
const ENDS_POSITIONS: [&str; 7] = ["having", "limit", "offset", "fetch", "for", "returning", "window"];

#[cfg(test)]
mod tests {
    use super::*;

    fn show(sql: &str) -> String {
        let normalised = normalise(sql, 0);
        let literals: Vec<String> = normalised
            .literals
            .iter()
            .map(|literal| format!("{:?}", literal))
            .collect();
        format!("{} | {}", normalised.key.replace('\0', "~"), literals.join(" "))
    }

    #[test]
    fn literals_become_parameters_beyond_the_users() {
        assert_eq!(
            show("select a, 'it''s' from t where b = $1 and c in(1, -2.5, 3000000000)  -- note"),
            "select a, $2 from t where b = $1 and c in($3, -$4, $5)~tinl | Text(\"it's\") Int4(1) Numeric(2.5) Int8(3000000000)"
                .replace("Numeric(2.5)", &format!("{:?}", Literal::Numeric(Numeric::parse("2.5").unwrap())))
        );
        assert_eq!(normalise("select 1", 3).key, "select $4\0i");
        assert_eq!(
            show("UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE aid = 5;"),
            "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2~ii | Int4(7) Int4(5)"
        );
    }

    #[test]
    fn what_is_not_an_expression_stays() {
        for sql in [
            "select a from t order by 1, 2 desc",
            "select a, b from t group by 1",
            "select generate_series(1, 2) from t group by Generate_Series(1, 2)",
            "select a::numeric(10,2), cast(b as char(3)) from t",
            "select date '2024-01-01', interval '1 day', timestamp(3) '2024-01-01'",
            "select * from t where a like 'x%'",
            "select E'a\\n', $$b$$, U&'c'",
            "select a from t where b::varchar(3)::char(5) is null",
            "create table t (a numeric(10,2) default 5)",
            "select substring(a from 2 for 3) from t",
            "select 1; select 2",
            "select 'a' 'b'",
            "select 12abc",
            "select 'a",
            "select extract(year from timestamp '2024-01-01')",
            "select a from t fetch first 5 rows only",
            "values (1, 2)",
        ] {
            assert_eq!(show(sql), format!("{sql} | "), "{sql}");
        }
    }

    #[test]
    fn clauses_after_a_position_are_open_again() {
        assert_eq!(
            show("select a from t order by 1 limit 5"),
            "select a from t order by 1 limit $1~i | Int4(5)"
        );
        assert_eq!(show("select a as b, 1 from t"), "select a as b, $1 from t~i | Int4(1)");
        assert_eq!(show("select a::int + 1"), "select a::int + $1~i | Int4(1)");
        assert_eq!(show("select/* x */1"), "select $1~i | Int4(1)");
        assert_eq!(show("select'a'"), "select $1~t | Text(\"a\")");
        assert_eq!(show("select $1 || '$9'"), "select $1 || $2~t | Text(\"$9\")");
    }
}
