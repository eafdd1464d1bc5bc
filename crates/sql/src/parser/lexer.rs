//! PostgreSQL's tokens, without copying: what splitting, normalising and the small utility grammar read.
//!
//! The full grammar has its own tokenizer in the parser library; this one exists because splitting and normalising run for
//! every statement and must cost well under a microsecond a line.

use rubato_base::{Error, Result, SqlState};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An identifier or keyword without quotes.
    Word,
    /// `"an identifier"`
    QuotedWord,
    /// `'text'` with standard-conforming backslashes.
    Text,
    /// `E'..'`, `B'..'`, `X'..'`, `N'..'`, `U&'..'` or `$tag$..$tag$`.
    SpecialText,
    /// `$1`
    Parameter,
    /// Digits only.
    Integer,
    /// A number with a point or an exponent.
    Decimal,
    /// Any other single character.
    Symbol(u8),
}

/// One token: bytes `start..end` of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Its first byte.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

impl Token {
    /// The token's text.
    pub fn text<'a>(&self, sql: &'a str) -> &'a str {
        &sql[self.start..self.end]
    }

    /// Whether it is this keyword (given in upper or lower case) without quotes.
    pub fn is(&self, sql: &str, keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.text(sql).eq_ignore_ascii_case(keyword)
    }
}

/// Reads tokens one by one; blanks and comments are passed over.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    sql: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `sql`.
    pub fn new(sql: &'a str) -> Lexer<'a> {
        Lexer {
            sql,
            bytes: sql.as_bytes(),
            at: 0,
        }
    }

    /// The next token, `None` at the end; 42601 for a quote or comment that does not end and for letters right behind a number, 22025 for
    /// a Unicode escape that is none.
    pub fn next_token(&mut self) -> Result<Option<Token>> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(&first) = self.bytes.get(start) else {
            return Ok(None);
        };
        let kind = match first {
            b'\'' => {
                self.at = self.quoted(start, start, b'\'', false, "quoted string")?;
                TokenKind::Text
            }
            b'"' => {
                self.at = self.quoted(start, start, b'"', false, "quoted identifier")?;
                TokenKind::QuotedWord
            }
            b'$' => self.dollar(start)?,
            b'0'..=b'9' => self.number(start)?,
            b'.' if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => self.number(start)?,
            _ if is_word_start(first) => self.word(start)?,
            _ => {
                self.at += 1;
                TokenKind::Symbol(first)
            }
        };
        Ok(Some(Token {
            kind,
            start,
            end: self.at,
        }))
    }

    fn peek(&self, offset: usize) -> Option<u8> {
        self.bytes.get(self.at + offset).copied()
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            match self.peek(0) {
                Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) => self.at += 1,
                Some(b'-') if self.peek(1) == Some(b'-') => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                Some(b'/') if self.peek(1) == Some(b'*') => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<()> {
        let start = self.at;
        let mut depth = 0usize;
        while self.at < self.bytes.len() {
            match (self.bytes[self.at], self.peek(1)) {
                (b'/', Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(self.unterminated("/* comment", start))
    }

    /// One past the closing quote of the text that opens at `open`; its token starts at `start`.
    fn quoted(&self, start: usize, open: usize, quote: u8, backslashes: bool, what: &str) -> Result<usize> {
        let mut at = open + 1;
        while let Some(&byte) = self.bytes.get(at) {
            if byte == quote {
                if self.bytes.get(at + 1) != Some(&quote) {
                    return Ok(at + 1);
                }
                at += 2;
            } else if byte == b'\\' && backslashes {
                self.check_unicode_escape(at)?;
                at += 2;
            } else {
                at += 1;
            }
        }
        Err(self.unterminated(what, start))
    }

    /// What stands behind a backslash: `u` needs four digits, `U` eight.
    fn check_unicode_escape(&self, backslash: usize) -> Result<()> {
        let behind = &self.bytes[backslash + 1..];
        let digits = match behind.first() {
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => return Ok(()),
        };
        let is_whole = behind
            .get(1..=digits)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if is_whole {
            return Ok(());
        }
        let message = "invalid Unicode escape".to_owned();
        Err(self
            .error_at(SqlState::INVALID_ESCAPE_SEQUENCE, message, backslash)
            .with_hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX."))
    }

    fn dollar(&mut self, start: usize) -> Result<TokenKind> {
        let digits = self.bytes[start + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits > 0 {
            self.at = start + 1 + digits;
            return Ok(TokenKind::Parameter);
        }
        let tag = self.bytes[start + 1..]
            .iter()
            .take_while(|byte| is_word_part(**byte) && **byte != b'$')
            .count();
        if self.bytes.get(start + 1 + tag) != Some(&b'$') {
            self.at += 1;
            return Ok(TokenKind::Symbol(b'$'));
        }
        let delimiter = &self.sql[start..start + tag + 2];
        match self.sql[start + delimiter.len()..].find(delimiter) {
            Some(length) => self.at = start + length + 2 * delimiter.len(),
            None => return Err(self.unterminated("dollar-quoted string", start)),
        }
        Ok(TokenKind::SpecialText)
    }

    fn number(&mut self, start: usize) -> Result<TokenKind> {
        let mut kind = TokenKind::Integer;
        self.skip_digits();
        // `1..10` is not a number with a point, but nothing in the grammar has it; one point belongs to the number.
        if self.peek(0) == Some(b'.') && self.bytes.get(start) != Some(&b'.') || self.at == start {
            kind = TokenKind::Decimal;
            self.at += 1;
            self.skip_digits();
        }
        let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
        if matches!(self.peek(0), Some(b'e' | b'E')) && self.peek(1 + sign).is_some_and(|byte| byte.is_ascii_digit()) {
            kind = TokenKind::Decimal;
            self.at += 1 + sign;
            self.skip_digits();
        }
        if self.peek(0).is_some_and(is_word_start) {
            let junk = self.bytes[self.at..].iter().take_while(|byte| is_word_part(**byte));
            let junk = junk.count();
            // The sign of an exponent that has no digits belongs to it.
            let is_exponent =
                junk == 1 && matches!((self.peek(0), self.peek(1)), (Some(b'e' | b'E'), Some(b'+' | b'-')));
            let near = &self.sql[start..self.at + junk + usize::from(is_exponent)];
            let message = format!("trailing junk after numeric literal at or near \"{near}\"");
            return Err(self.error_at(SqlState::SYNTAX_ERROR, message, start));
        }
        Ok(kind)
    }

    fn skip_digits(&mut self) {
        while self.peek(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn word(&mut self, start: usize) -> Result<TokenKind> {
        while self.peek(0).is_some_and(is_word_part) {
            self.at += 1;
        }
        let word = &self.bytes[start..self.at];
        let prefixes_text = matches!(word, [b'e' | b'E' | b'b' | b'B' | b'x' | b'X' | b'n' | b'N']);
        if prefixes_text && self.peek(0) == Some(b'\'') {
            let backslashes = matches!(word, [b'e' | b'E']);
            self.at = self.quoted(start, self.at, b'\'', backslashes, "quoted string")?;
            return Ok(TokenKind::SpecialText);
        }
        if matches!(word, [b'u' | b'U']) && self.peek(0) == Some(b'&') {
            match self.peek(1) {
                Some(b'\'') => {
                    self.at = self.quoted(start, self.at + 1, b'\'', false, "quoted string")?;
                    return Ok(TokenKind::SpecialText);
                }
                Some(b'"') => {
                    self.at = self.quoted(start, self.at + 1, b'"', false, "quoted identifier")?;
                    return Ok(TokenKind::SpecialText);
                }
                _ => {}
            }
        }
        Ok(TokenKind::Word)
    }

    fn unterminated(&self, what: &str, start: usize) -> Error {
        let near: String = self.sql[start..].chars().take(80).collect();
        let message = format!("unterminated {what} at or near \"{near}\"");
        self.error_at(SqlState::SYNTAX_ERROR, message, start)
    }

    fn error_at(&self, state: SqlState, message: String, start: usize) -> Error {
        Error::new(state, message).with_position(Some(character_position(self.sql, start)))
    }
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_word_part(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// The character position, from 1, of byte `offset` of `sql`.
pub fn character_position(sql: &str, offset: usize) -> u32 {
    let head = sql.as_bytes().get(..offset).unwrap_or(sql.as_bytes());
    // Bytes that are not UTF-8 continuations start a character.
    head.iter().filter(|byte| (**byte & 0xc0) != 0x80).count() as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(sql: &str) -> Vec<(TokenKind, &str)> {
        let mut lexer = Lexer::new(sql);
        let mut tokens = Vec::new();
        while let Some(token) = lexer.next_token().unwrap() {
            tokens.push((token.kind, token.text(sql)));
        }
        tokens
    }

    #[test]
    fn tokens_of_every_kind() {
        use TokenKind::{Decimal, Integer, Parameter, QuotedWord, SpecialText, Symbol, Text, Word};
        assert_eq!(
            kinds(
                "a$1 \"b\"\"c\" 'd''e' E'f\\'g' $1 $$h'$$ $t$i$$j$t$ U&'k' 1 1.5 .5 1e-3 2 e - /* l /* m */ */ x'ff' -- n"
            ),
            vec![
                (Word, "a$1"),
                (QuotedWord, "\"b\"\"c\""),
                (Text, "'d''e'"),
                (SpecialText, "E'f\\'g'"),
                (Parameter, "$1"),
                (SpecialText, "$$h'$$"),
                (SpecialText, "$t$i$$j$t$"),
                (SpecialText, "U&'k'"),
                (Integer, "1"),
                (Decimal, "1.5"),
                (Decimal, ".5"),
                (Decimal, "1e-3"),
                (Integer, "2"),
                (Word, "e"),
                (Symbol(b'-'), "-"),
                (SpecialText, "x'ff'"),
            ]
        );
    }

    #[test]
    fn unterminated_pieces_are_told_with_their_place() {
        for (sql, position) in [("é 'a", 3), ("\"a", 1), ("1 /* /* */", 3), ("$$ a", 1), ("E'a\\'", 1)] {
            let mut lexer = Lexer::new(sql);
            let error = loop {
                match lexer.next_token() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{sql} should fail"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.fields().position, Some(position), "{sql}");
            assert_eq!(error.code(), SqlState::SYNTAX_ERROR);
        }
    }
}
