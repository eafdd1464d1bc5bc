//! The tokens of JSON, and what PostgreSQL says where there is none.

use crate::{Error, SqlState};
use ecow::EcoString;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    String,
    Number,
    True,
    False,
    Null,
    End,
}

/// How much of a line an error shows.
const CONTEXT_BYTES: usize = 50;

/// Reads a text token by token.
pub(super) struct Lexer<'a> {
    pub text: &'a str,
    /// The token that was read last, where it begins and where it ends.
    pub token: Token,
    pub start: usize,
    pub end: usize,
    /// What a string means; empty where nobody wants to know.
    pub string: EcoString,
    decodes: bool,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    /// A lexer before the first token. Whether strings are decoded: what no text can hold is an error only then.
    pub fn new(text: &'a str, decodes: bool) -> Lexer<'a> {
        Lexer {
            text,
            token: Token::End,
            start: 0,
            end: 0,
            string: EcoString::new(),
            decodes,
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Reads the next token.
    pub fn advance(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        let mut at = self.end;
        while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            at += 1;
        }
        (self.start, self.end) = (at, at + 1);
        self.token = match self.byte(at) {
            None => {
                self.end = at;
                Token::End
            }
            Some(b'{') => Token::ObjectStart,
            Some(b'}') => Token::ObjectEnd,
            Some(b'[') => Token::ArrayStart,
            Some(b']') => Token::ArrayEnd,
            Some(b',') => Token::Comma,
            Some(b':') => Token::Colon,
            Some(b'"') => {
                self.string()?;
                Token::String
            }
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Token::Number
            }
            Some(_) => self.word()?,
        };
        Ok(())
    }

    fn word(&mut self) -> Result<Token, Error> {
        let rest = &self.text.as_bytes()[self.start..];
        let length = rest.iter().take_while(|byte| is_word(**byte)).count();
        self.end = self.start + length.max(1);
        match &rest[..length] {
            b"true" => Ok(Token::True),
            b"false" => Ok(Token::False),
            b"null" => Ok(Token::Null),
            _ => Err(self.invalid_token()),
        }
    }

    fn number(&mut self) -> Result<(), Error> {
        let mut at = self.start + usize::from(self.byte(self.start) == Some(b'-'));
        let digits = |lexer: &Lexer<'_>, at: &mut usize| {
            let from = *at;
            while lexer.byte(*at).is_some_and(|byte| byte.is_ascii_digit()) {
                *at += 1;
            }
            *at > from
        };
        let mut valid = match self.byte(at) {
            Some(b'0') => {
                at += 1;
                true
            }
            _ => digits(self, &mut at),
        };
        if self.byte(at) == Some(b'.') {
            at += 1;
            valid &= digits(self, &mut at);
        }
        if matches!(self.byte(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(self.byte(at), Some(b'+' | b'-')));
            valid &= digits(self, &mut at);
        }
        while self.byte(at).is_some_and(is_word) {
            valid = false;
            at += 1;
        }
        self.end = at;
        if valid { Ok(()) } else { Err(self.invalid_token()) }
    }

    fn string(&mut self) -> Result<(), Error> {
        let mut string = EcoString::new();
        let mut at = self.start + 1;
        // The first half of a character that takes two escapes.
        let mut high: Option<u32> = None;
        loop {
            let Some(byte) = self.byte(at) else {
                self.end = at;
                return Err(self.invalid_token());
            };
            if high.is_some() && !(byte == b'\\' && self.byte(at + 1) == Some(b'u')) {
                return Err(self.failure(LOW_SURROGATE));
            }
            match byte {
                b'"' => break,
                0..32 => {
                    self.end = at;
                    return Err(self.failure(&format!("Character with value 0x{byte:02x} must be escaped.")));
                }
                b'\\' => at = self.escape(at + 1, &mut string, &mut high)?,
                _ => {
                    let rest = &self.text[at..];
                    let plain = rest
                        .find(|letter: char| letter == '"' || letter == '\\' || letter < ' ')
                        .unwrap_or(rest.len());
                    if self.decodes {
                        string.push_str(&rest[..plain]);
                    }
                    at += plain;
                }
            }
        }
        self.end = at + 1;
        self.string = string;
        Ok(())
    }

    /// Reads the escape whose letter stands at `at`; where it ends.
    fn escape(&mut self, at: usize, string: &mut EcoString, high: &mut Option<u32>) -> Result<usize, Error> {
        let plain = match self.byte(at) {
            None => {
                self.end = at;
                return Err(self.invalid_token());
            }
            Some(b'u') => return self.unicode(at + 1, string, high),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(_) => {
                let letter = self.text[at..].chars().next().map_or(1, char::len_utf8);
                (self.start, self.end) = (at, at + letter);
                let message = format!("Escape sequence \"\\{}\" is invalid.", &self.text[at..at + letter]);
                return Err(self.failure(&message));
            }
        };
        if self.decodes {
            string.push(plain);
        }
        Ok(at + 1)
    }

    fn unicode(&mut self, at: usize, string: &mut EcoString, high: &mut Option<u32>) -> Result<usize, Error> {
        let mut number = 0;
        for place in at..at + 4 {
            let Some(byte) = self.byte(place) else {
                self.end = place;
                return Err(self.invalid_token());
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                self.end = place + self.text[place..].chars().next().map_or(1, char::len_utf8);
                return Err(self.failure("\"\\u\" must be followed by four hexadecimal digits."));
            };
            number = number * 16 + digit;
        }
        let end = at + 4;
        if !self.decodes {
            return Ok(end);
        }
        match (number, high.take()) {
            (0xd800..0xdc00, Some(_)) => {
                return Err(self.failure("Unicode high surrogate must not follow a high surrogate."));
            }
            (0xd800..0xdc00, None) => *high = Some(number),
            (0xdc00..0xe000, Some(high)) => {
                let number = 0x10000 + ((high & 0x3ff) << 10) + (number & 0x3ff);
                string.extend(char::from_u32(number));
            }
            (0xdc00..0xe000, None) | (_, Some(_)) => return Err(self.failure(LOW_SURROGATE)),
            (0, None) => {
                let error = Error::new(
                    SqlState::UNTRANSLATABLE_CHARACTER,
                    "unsupported Unicode escape sequence",
                );
                return Err(self.shown(error.with_detail("\\u0000 cannot be converted to text.")));
            }
            (number, None) => string.extend(char::from_u32(number)),
        }
        Ok(end)
    }

    /// The text of the token.
    pub fn token_text(&self) -> &'a str {
        let end = self.end.min(self.text.len());
        self.text.get(self.start..end).unwrap_or("")
    }

    /// What was expected in place of the token.
    pub fn expected(&self, what: &str) -> Error {
        if self.token == Token::End {
            return self.failure("The input string ended unexpectedly.");
        }
        self.failure(&format!("Expected {what}, but found \"{}\".", self.token_text()))
    }

    fn invalid_token(&self) -> Error {
        // A single byte of a character is shown as the whole of it.
        let mut end = self.end.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        self.failure(&format!("Token \"{}\" is invalid.", &self.text[self.start..end]))
    }

    fn failure(&self, detail: &str) -> Error {
        let error = Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type json",
        );
        self.shown(error.with_detail(detail))
    }

    /// The error with the line up to the token.
    fn shown(&self, error: Error) -> Error {
        let mut end = self.end.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        let before = &self.text[..end];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let mut from = line_start;
        while end - from >= CONTEXT_BYTES {
            from += self.text[from..].chars().next().map_or(1, char::len_utf8);
        }
        if from - line_start <= 3 {
            from = line_start;
        }
        let prefix = if from > line_start { "..." } else { "" };
        let goes_on = !matches!(self.byte(end), None | Some(b'\n' | b'\r'));
        let suffix = if goes_on { "..." } else { "" };
        let line = before.matches('\n').count() + 1;
        error.with_context(format!(
            "JSON data, line {line}: {prefix}{}{suffix}",
            &self.text[from..end]
        ))
    }
}

const LOW_SURROGATE: &str = "Unicode low surrogate must follow a high surrogate.";
