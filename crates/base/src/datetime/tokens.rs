//! Cutting the text of a date or time into fields, as PostgreSQL's `ParseDateTime` does.

/// A field of the text, by its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Digits, perhaps with a fraction: `20240131`, `12.5`.
    Number(&'a str),
    /// Parts with `-`, `/` or `.` between them: `2024-01-31`, `31-Jan-2024`.
    Date(&'a str),
    /// Digits with colons: `12:34:56.789`.
    Time(&'a str),
    /// A sign and digits: `+02:00`, `-5`.
    Signed(&'a str),
    /// A word, without sign: `january`, `infinity`.
    Word(&'a str),
    /// A word that runs on over signs, slashes or digits: `Europe/Berlin`, `UTC+3`.
    Zone(&'a str),
    /// A sign before a word: `-infinity`.
    SignedWord { negative: bool, word: &'a str },
}

/// The fields of a text, or `None` if it has a character that belongs to none.
pub(super) fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::with_capacity(4);
    let mut scanner = Scanner { text, at: 0 };
    while let Some(c) = scanner.peek() {
        if c.is_ascii_whitespace() || c == b'\x0b' {
            scanner.at += 1;
        } else if c.is_ascii_digit() {
            found.push(scanner.digits());
        } else if c == b'.' {
            found.push(Token::Number(scanner.take(|c| c == b'.' || c.is_ascii_digit())));
        } else if c.is_ascii_alphabetic() {
            found.push(scanner.word());
        } else if c == b'+' || c == b'-' {
            found.push(scanner.signed()?);
        } else if c.is_ascii_punctuation() {
            scanner.at += 1;
        } else {
            return None;
        }
    }
    Some(found)
}

struct Scanner<'a> {
    text: &'a str,
    /// Always at a character boundary: only ASCII is ever stepped over.
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    fn digits(&mut self) -> Token<'a> {
        let start = self.at;
        self.take(|c| c.is_ascii_digit());
        match self.peek() {
            Some(b':') => {
                self.take(|c| c.is_ascii_digit() || c == b':' || c == b'.');
                Token::Time(self.since(start))
            }
            Some(separator @ (b'-' | b'/' | b'.')) => self.date_after_digits(start, separator),
            _ => Token::Number(self.since(start)),
        }
    }

    fn date_after_digits(&mut self, start: usize, separator: u8) -> Token<'a> {
        self.at += 1;
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.take(|c| c.is_ascii_digit());
            if self.peek() == Some(separator) {
                self.at += 1;
                self.take(|c| c.is_ascii_digit());
                return Token::Date(self.since(start));
            }
            return if separator == b'.' {
                Token::Number(self.since(start))
            } else {
                Token::Date(self.since(start))
            };
        }
        if separator == b'.' && !self.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
            return Token::Number(self.since(start));
        }
        self.take(|c| c.is_ascii_alphanumeric() || c == separator);
        Token::Date(self.since(start))
    }

    fn word(&mut self) -> Token<'a> {
        let start = self.at;
        let word = self.take(|c| c.is_ascii_alphabetic());
        let Some(next) = self.peek() else {
            return Token::Word(word);
        };
        let runs_on = matches!(next, b'-' | b'/' | b'.' | b'_')
            || ((next == b'+' || next.is_ascii_digit()) && !super::decode::is_date_word(word));
        if !runs_on {
            return Token::Word(word);
        }
        self.take(|c| c.is_ascii_alphanumeric() || matches!(c, b'/' | b'_' | b'-' | b'+' | b'.' | b':'));
        let whole = self.since(start);
        if super::decode::month_number(word).is_some() {
            Token::Date(whole)
        } else {
            Token::Zone(whole)
        }
    }

    fn signed(&mut self) -> Option<Token<'a>> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += 1;
        let blanks = self.take(|c| c.is_ascii_whitespace());
        let next = self.peek()?;
        if next.is_ascii_digit() || next == b'.' {
            self.take(|c| c.is_ascii_digit() || c == b':' || c == b'.' || c == b'-');
            // A sign that stands off from its digits is rare enough to be refused.
            return blanks.is_empty().then(|| Token::Signed(self.since(start)));
        }
        if !next.is_ascii_alphabetic() {
            return None;
        }
        let word = self.take(|c| c.is_ascii_alphabetic());
        Some(Token::SignedWord { negative, word })
    }
}
