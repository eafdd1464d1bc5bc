//! From the text of a path to its steps.

use super::lexer::{Lexer, Token, failure};
use super::{BinaryOperator, Chain, JsonPath, LEVEL_LAST, Method, PATH_DEPTH_MAX, RegexFlags, Step, UnaryOperator};
use crate::{Error, Numeric, Result, SqlState};
use ecow::EcoString;

/// What was parsed: a value or a condition.
struct Parsed {
    chain: Chain,
    is_condition: bool,
    /// How deep it is.
    depth: usize,
}

impl Parsed {
    fn start(step: Step, depth: usize) -> Parsed {
        Parsed {
            chain: vec![step],
            is_condition: false,
            depth: depth + 1,
        }
    }

    fn condition(step: Step, depth: usize) -> Parsed {
        Parsed {
            is_condition: true,
            ..Parsed::start(step, depth)
        }
    }

    fn is_too_deep(&self) -> bool {
        self.depth > PATH_DEPTH_MAX
    }
}

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    /// How deep the calls are within each other.
    nesting: usize,
    /// How many filters and subscripts are around.
    filters: usize,
    subscripts: usize,
    /// What stands where it may not, of which the whole text is read first.
    misplaced: Option<Error>,
}

fn too_deep() -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
}

pub(super) fn parse(text: &str) -> Result<JsonPath> {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        token: Token::End,
        nesting: 0,
        filters: 0,
        subscripts: 0,
        misplaced: None,
    };
    parser.advance()?;
    if parser.token == Token::End {
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    let strict = parser.take_word("strict")?;
    if !strict {
        parser.take_word("lax")?;
    }
    let parsed = parser.any()?;
    if parser.token != Token::End {
        return Err(parser.unexpected());
    }
    match parser.misplaced {
        Some(error) => Err(error),
        None => Ok(JsonPath {
            strict,
            chain: parsed.chain,
        }),
    }
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn unexpected(&self) -> Error {
        failure("syntax error", self.lexer.shown)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.token, Token::Symbol(own) if own == symbol)
    }

    fn take(&mut self, symbol: &str) -> Result<bool> {
        let found = self.is_symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.take(symbol)? {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Whether the token is this keyword. The constants are written in lower case only.
    fn is_word(&self, keyword: &str) -> bool {
        match &self.token {
            Token::Word(word) if matches!(keyword, "null" | "true" | "false") => word == keyword,
            Token::Word(word) => word.eq_ignore_ascii_case(keyword),
            _ => false,
        }
    }

    fn take_word(&mut self, keyword: &str) -> Result<bool> {
        let found = self.is_word(keyword);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_word(&mut self, keyword: &str) -> Result<()> {
        if self.take_word(keyword)? {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Where a value is needed: the token behind something else is the one that is wrong.
    fn value(&self, parsed: Parsed) -> Result<Parsed> {
        if parsed.is_condition {
            Err(self.unexpected())
        } else {
            Ok(parsed)
        }
    }

    fn condition(&self, parsed: Parsed) -> Result<Parsed> {
        if parsed.is_condition {
            Ok(parsed)
        } else {
            Err(self.unexpected())
        }
    }

    fn binary(&self, operator: BinaryOperator, left: Parsed, right: Parsed) -> Result<Parsed> {
        use BinaryOperator::{Add, Divide, Modulo, Multiply, Subtract};
        let depth = left.depth.max(right.depth);
        let step = Step::Binary(operator, left.chain, right.chain);
        let parsed = Parsed {
            is_condition: !matches!(operator, Add | Subtract | Multiply | Divide | Modulo),
            ..Parsed::start(step, depth)
        };
        if parsed.is_too_deep() {
            Err(too_deep())
        } else {
            Ok(parsed)
        }
    }

    /// A value or a condition.
    fn any(&mut self) -> Result<Parsed> {
        self.nesting += 1;
        if self.nesting > PATH_DEPTH_MAX {
            return Err(too_deep());
        }
        let mut left = self.conjunction()?;
        while left.is_condition && self.take("||")? {
            let right = self.conjunction()?;
            let right = self.condition(right)?;
            left = self.binary(BinaryOperator::Or, left, right)?;
        }
        self.nesting -= 1;
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Parsed> {
        let mut left = self.comparison()?;
        while left.is_condition && self.take("&&")? {
            let right = self.comparison()?;
            let right = self.condition(right)?;
            left = self.binary(BinaryOperator::And, left, right)?;
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Parsed> {
        use BinaryOperator as Of;
        if self.take("!")? {
            let operand = if self.is_word("exists") {
                self.exists()?
            } else {
                self.in_brackets()?
            };
            let operand = self.condition(operand)?;
            return Ok(Parsed::condition(
                Step::Unary(UnaryOperator::Not, operand.chain),
                operand.depth,
            ));
        }
        if self.is_word("exists") {
            return self.exists();
        }
        let left = self.sum()?;
        if left.is_condition {
            return Ok(left);
        }
        let operator = match self.token {
            Token::Symbol("==") => Of::Equal,
            Token::Symbol("!=" | "<>") => Of::NotEqual,
            Token::Symbol("<") => Of::Less,
            Token::Symbol("<=") => Of::LessOrEqual,
            Token::Symbol(">") => Of::Greater,
            Token::Symbol(">=") => Of::GreaterOrEqual,
            _ => return self.text_comparison(left),
        };
        self.advance()?;
        let right = self.sum()?;
        let right = self.value(right)?;
        self.binary(operator, left, right)
    }

    /// `starts with` and `like_regex`, if one follows.
    fn text_comparison(&mut self, left: Parsed) -> Result<Parsed> {
        if self.take_word("starts")? {
            self.expect_word("with")?;
            let right = match &self.token {
                Token::String(text) => Step::String(text.clone()),
                Token::Variable(name) => Step::Variable(name.clone()),
                _ => return Err(self.unexpected()),
            };
            self.advance()?;
            return self.binary(BinaryOperator::StartsWith, left, Parsed::start(right, 0));
        }
        if !self.take_word("like_regex")? {
            return Ok(left);
        }
        let pattern = self.string()?;
        let flags = if self.take_word("flag")? {
            regex_flags(&self.string()?)?
        } else {
            RegexFlags::default()
        };
        let depth = left.depth;
        Ok(Parsed::condition(
            Step::LikeRegex {
                operand: left.chain,
                pattern,
                flags,
            },
            depth,
        ))
    }

    fn string(&mut self) -> Result<EcoString> {
        let Token::String(text) = &self.token else {
            return Err(self.unexpected());
        };
        let text = text.clone();
        self.advance()?;
        Ok(text)
    }

    fn exists(&mut self) -> Result<Parsed> {
        self.advance()?;
        self.expect("(")?;
        self.nesting += 1;
        if self.nesting > PATH_DEPTH_MAX {
            return Err(too_deep());
        }
        let operand = self.sum()?;
        let operand = self.value(operand)?;
        self.nesting -= 1;
        self.expect(")")?;
        Ok(Parsed::condition(
            Step::Unary(UnaryOperator::Exists, operand.chain),
            operand.depth,
        ))
    }

    fn in_brackets(&mut self) -> Result<Parsed> {
        self.expect("(")?;
        let inner = self.any()?;
        if !inner.is_condition {
            return Err(self.unexpected());
        }
        self.expect(")")?;
        Ok(inner)
    }

    fn sum(&mut self) -> Result<Parsed> {
        let mut left = self.product()?;
        while !left.is_condition {
            let operator = match self.token {
                Token::Symbol("+") => BinaryOperator::Add,
                Token::Symbol("-") => BinaryOperator::Subtract,
                _ => break,
            };
            self.advance()?;
            let right = self.product()?;
            let right = self.value(right)?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Parsed> {
        let mut left = self.signed()?;
        while !left.is_condition {
            let operator = match self.token {
                Token::Symbol("*") => BinaryOperator::Multiply,
                Token::Symbol("/") => BinaryOperator::Divide,
                Token::Symbol("%") => BinaryOperator::Modulo,
                _ => break,
            };
            self.advance()?;
            let right = self.signed()?;
            let right = self.value(right)?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Parsed> {
        let mut signs = Vec::new();
        loop {
            match self.token {
                Token::Symbol("+") => signs.push(UnaryOperator::Plus),
                Token::Symbol("-") => signs.push(UnaryOperator::Minus),
                _ => break,
            }
            self.advance()?;
        }
        let operand = self.accessed()?;
        if signs.is_empty() {
            return Ok(operand);
        }
        let mut operand = self.value(operand)?;
        if operand.depth + signs.len() > PATH_DEPTH_MAX {
            return Err(too_deep());
        }
        for sign in signs.into_iter().rev() {
            operand = match (sign, operand.chain.as_slice()) {
                // The sign of a number is part of it.
                (UnaryOperator::Plus, [Step::Number(_)]) => operand,
                (UnaryOperator::Minus, [Step::Number(number)]) => Parsed::start(Step::Number(number.neg()), 0),
                _ => Parsed::start(Step::Unary(sign, operand.chain), operand.depth),
            };
        }
        Ok(operand)
    }

    /// A start and the steps behind it.
    fn accessed(&mut self) -> Result<Parsed> {
        let mut parsed = if self.take("(")? {
            let inner = self.any()?;
            self.expect(")")?;
            if inner.is_condition && self.take_word("is")? {
                self.expect_word("unknown")?;
                let step = Step::Unary(UnaryOperator::IsUnknown, inner.chain);
                return Ok(Parsed::condition(step, inner.depth));
            }
            inner
        } else {
            Parsed::start(self.start()?, 0)
        };
        while let Some((step, depth)) = self.step()? {
            parsed.is_condition = false;
            parsed.depth = (parsed.depth + 1).max(parsed.chain.len() + depth);
            parsed.chain.push(step);
            if parsed.is_too_deep() {
                return Err(too_deep());
            }
        }
        Ok(parsed)
    }

    fn start(&mut self) -> Result<Step> {
        let step = match &self.token {
            Token::String(text) => Step::String(text.clone()),
            Token::Variable(name) => Step::Variable(name.clone()),
            Token::Number => Step::Number(Numeric::parse(self.lexer.shown)?),
            Token::Symbol("$") => Step::Root,
            Token::Symbol("@") => {
                if self.filters == 0 {
                    self.misplace("@ is not allowed in root expressions");
                }
                Step::Current
            }
            _ if self.is_word("null") => Step::Null,
            _ if self.is_word("true") => Step::Bool(true),
            _ if self.is_word("false") => Step::Bool(false),
            _ if self.is_word("last") => {
                if self.subscripts == 0 {
                    self.misplace("LAST is allowed only in array subscripts");
                }
                Step::Last
            }
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(step)
    }

    fn misplace(&mut self, message: &str) {
        let error = Error::new(SqlState::SYNTAX_ERROR, message);
        self.misplaced.get_or_insert(error);
    }

    /// The next step, and how deep it is, if there is one.
    fn step(&mut self) -> Result<Option<(Step, usize)>> {
        match self.token {
            Token::Symbol(".") => {
                self.advance()?;
                self.member().map(|step| Some((step, 1)))
            }
            Token::Symbol("[") => {
                self.advance()?;
                self.subscripts().map(Some)
            }
            Token::Symbol("?") => {
                self.advance()?;
                self.filters += 1;
                let condition = self.in_brackets()?;
                self.filters -= 1;
                Ok(Some((Step::Filter(condition.chain), condition.depth + 1)))
            }
            _ => Ok(None),
        }
    }

    fn member(&mut self) -> Result<Step> {
        match self.advance_over_member()? {
            Token::Symbol("*") => Ok(Step::AnyKey),
            Token::Symbol("**") => self.levels(),
            Token::String(key) => Ok(Step::Key(key)),
            Token::Word(word) => {
                if !self.is_symbol("(") {
                    return Ok(Step::Key(word));
                }
                self.method(&word)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn advance_over_member(&mut self) -> Result<Token> {
        match self.token {
            Token::Symbol("*" | "**") | Token::String(_) | Token::Word(_) => self.advance(),
            _ => Err(self.unexpected()),
        }
    }

    fn method(&mut self, name: &str) -> Result<Step> {
        const METHODS: [Method; 7] = [
            Method::Type,
            Method::Size,
            Method::Double,
            Method::Ceiling,
            Method::Floor,
            Method::Abs,
            Method::KeyValue,
        ];
        let method = METHODS.iter().find(|method| method.name().eq_ignore_ascii_case(name));
        let step = match method {
            Some(method) => {
                self.advance()?;
                Step::Method(*method)
            }
            None if name.eq_ignore_ascii_case("datetime") => {
                self.advance()?;
                let has_template = matches!(self.token, Token::String(_));
                Step::Datetime(if has_template { Some(self.string()?) } else { None })
            }
            None => return Err(self.unexpected()),
        };
        self.expect(")")?;
        Ok(step)
    }

    fn levels(&mut self) -> Result<Step> {
        if !self.take("{")? {
            return Ok(Step::AnyLevel(0, LEVEL_LAST));
        }
        let first = self.level()?;
        let last = if self.take_word("to")? { self.level()? } else { first };
        self.expect("}")?;
        Ok(Step::AnyLevel(first, last))
    }

    fn level(&mut self) -> Result<u32> {
        if self.take_word("last")? {
            return Ok(LEVEL_LAST);
        }
        let text = self.lexer.shown;
        if self.token != Token::Number || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected());
        }
        let level = text.parse::<i32>().map_err(|_| {
            let message = format!("value \"{text}\" is out of range for type integer");
            Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
        })?;
        self.advance()?;
        Ok(level.unsigned_abs())
    }

    fn subscripts(&mut self) -> Result<(Step, usize)> {
        if self.take("*")? {
            self.expect("]")?;
            return Ok((Step::AnyItem, 1));
        }
        self.subscripts += 1;
        let (mut items, mut depth) = (Vec::new(), 0);
        loop {
            let from = self.subscript()?;
            let until = if self.take_word("to")? {
                Some(self.subscript()?)
            } else {
                None
            };
            depth = depth.max(from.depth).max(until.as_ref().map_or(0, |until| until.depth));
            items.push((from.chain, until.map(|until| until.chain)));
            if !self.take(",")? {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect("]")?;
        Ok((Step::Items(items), depth + 1))
    }

    fn subscript(&mut self) -> Result<Parsed> {
        self.nesting += 1;
        if self.nesting > PATH_DEPTH_MAX {
            return Err(too_deep());
        }
        let subscript = self.sum()?;
        self.nesting -= 1;
        self.value(subscript)
    }
}

fn regex_flags(text: &str) -> Result<RegexFlags> {
    let mut flags = RegexFlags::default();
    for flag in text.chars() {
        match flag {
            'i' => flags.ignores_case = true,
            's' => flags.dot_is_all = true,
            'm' => flags.has_lines = true,
            'x' => flags.expanded = true,
            'q' => flags.is_quoted = true,
            other => {
                let error = Error::new(SqlState::SYNTAX_ERROR, "invalid input syntax for type jsonpath");
                let detail = format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.");
                return Err(error.with_detail(detail));
            }
        }
    }
    if flags.expanded && !flags.is_quoted {
        let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(flags)
}
