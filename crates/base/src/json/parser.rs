//! From the tokens of JSON to its tree.

use super::DEPTH_MAX;
use super::lexer::{Lexer, Token};
use crate::{Error, Result, SqlState};
use ecow::EcoString;

/// A part of a document, and where it stands in the text.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// What it is.
    pub kind: NodeKind,
}

/// What a part of a document is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as its text says.
    Number,
    /// A string, decoded.
    String(EcoString),
    /// An array.
    Array(Vec<Node>),
    /// An object: keys and values in the order of the text, also those that come again.
    Object(Vec<(EcoString, Node)>),
}

/// Whether the text is JSON. 22P02 if not, 54001 if it nests too deeply.
pub fn check(text: &str) -> Result<()> {
    parse(text, false).map(drop)
}

impl Node {
    /// Reads a document. 22P02 for text that is none, 22P05 for an escape that no text can hold, 54001 for one that nests too deeply.
    pub fn parse(text: &str) -> Result<Node> {
        parse(text, true)
    }
}

fn parse(text: &str, builds: bool) -> Result<Node> {
    let mut parser = Parser {
        lexer: Lexer::new(text, builds),
        builds,
    };
    parser.lexer.advance()?;
    let node = parser.value(DEPTH_MAX)?;
    if parser.lexer.token == Token::End {
        Ok(node)
    } else {
        Err(parser.lexer.expected("end of input"))
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Whether the tree is wanted; otherwise the text is only checked.
    builds: bool,
}

impl Parser<'_> {
    /// The value that begins with the token, and the token behind it.
    fn value(&mut self, depth: usize) -> Result<Node> {
        let start = self.lexer.start;
        let kind = match self.lexer.token {
            Token::ObjectStart => NodeKind::Object(self.object(depth)?),
            Token::ArrayStart => NodeKind::Array(self.array(depth)?),
            Token::String => NodeKind::String(std::mem::take(&mut self.lexer.string)),
            Token::Number => NodeKind::Number,
            Token::True => NodeKind::Bool(true),
            Token::False => NodeKind::Bool(false),
            Token::Null => NodeKind::Null,
            _ => return Err(self.lexer.expected("JSON value")),
        };
        let end = self.lexer.end;
        self.lexer.advance()?;
        Ok(Node { start, end, kind })
    }

    /// Elements up to the closing bracket, which is the token then.
    fn array(&mut self, depth: usize) -> Result<Vec<Node>> {
        let depth = deeper(depth)?;
        let mut items = Vec::new();
        self.lexer.advance()?;
        if self.lexer.token == Token::ArrayEnd {
            return Ok(items);
        }
        loop {
            let item = self.value(depth)?;
            if self.builds {
                items.push(item);
            }
            match self.lexer.token {
                Token::Comma => self.lexer.advance()?,
                Token::ArrayEnd => return Ok(items),
                _ => return Err(self.lexer.expected("\",\" or \"]\"")),
            }
        }
    }

    /// Keys and values up to the closing brace, which is the token then.
    fn object(&mut self, depth: usize) -> Result<Vec<(EcoString, Node)>> {
        let depth = deeper(depth)?;
        let mut pairs = Vec::new();
        self.lexer.advance()?;
        match self.lexer.token {
            Token::ObjectEnd => return Ok(pairs),
            Token::String => {}
            _ => return Err(self.lexer.expected("string or \"}\"")),
        }
        loop {
            if self.lexer.token != Token::String {
                return Err(self.lexer.expected("string"));
            }
            let key = std::mem::take(&mut self.lexer.string);
            self.lexer.advance()?;
            if self.lexer.token != Token::Colon {
                return Err(self.lexer.expected("\":\""));
            }
            self.lexer.advance()?;
            let value = self.value(depth)?;
            if self.builds {
                pairs.push((key, value));
            }
            match self.lexer.token {
                Token::Comma => self.lexer.advance()?,
                Token::ObjectEnd => return Ok(pairs),
                _ => return Err(self.lexer.expected("\",\" or \"}\"")),
            }
        }
    }
}

fn deeper(depth: usize) -> Result<usize> {
    depth
        .checked_sub(1)
        .ok_or_else(|| Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(text: &str) -> String {
        let error = check(text).unwrap_err();
        assert_eq!(error.code(), SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        error.fields().detail.clone().unwrap_or_default()
    }

    /// Details as PostgreSQL 15 gives them.
    #[test]
    fn errors_name_the_token() {
        for (text, expected) in [
            ("", "The input string ended unexpectedly."),
            ("{\"a\":1", "The input string ended unexpectedly."),
            ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
            ("{1:2}", "Expected string or \"}\", but found \"1\"."),
            ("{\"a\":1,}", "Expected string, but found \"}\"."),
            ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
            ("[1,]", "Expected JSON value, but found \"]\"."),
            ("1 1", "Expected end of input, but found \"1\"."),
            ("nope", "Token \"nope\" is invalid."),
            ("01", "Token \"01\" is invalid."),
            ("1.", "Token \"1.\" is invalid."),
            ("'a'", "Token \"'\" is invalid."),
            ("\"abc", "Token \"\"abc\" is invalid."),
            ("\"a\\qb\"", "Escape sequence \"\\q\" is invalid."),
            ("\"\\u12g4\"", "\"\\u\" must be followed by four hexadecimal digits."),
            ("\"\n\"", "Character with value 0x0a must be escaped."),
        ] {
            assert_eq!(detail(text), expected, "{text}");
        }
        let error = Node::parse("\"\\ud800x\"").unwrap_err();
        assert_eq!(
            error.fields().detail.as_deref(),
            Some("Unicode low surrogate must follow a high surrogate.")
        );
        assert!(check("\"\\ud800x\"").is_ok());
        let error = Node::parse("[\"\\u0000\"]").unwrap_err();
        assert_eq!(error.code(), SqlState::UNTRANSLATABLE_CHARACTER);
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Node::parse(&nested(DEPTH_MAX)).is_ok());
        let error = check(&nested(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
    }
}
