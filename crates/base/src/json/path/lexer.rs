//! The tokens of paths, as PostgreSQL's scanner cuts them.

use crate::{Error, Result, SqlState};
use ecow::EcoString;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name without quotes: a key or a keyword.
    Word(EcoString),
    String(EcoString),
    Variable(EcoString),
    /// A number as it is written.
    Number,
    /// An operator or a bracket.
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 32] = [
    "&&", "||", "==", "!=", "<>", "<=", ">=", "**", "?", "%", "$", ".", "[", "]", "{", "}", "(", ")", "|", "&", "!",
    "=", "<", ">", "@", "#", ",", "*", ":", "-", "+", "/",
];

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

/// Whether a character may stand in a name as it is.
fn is_plain(letter: char) -> bool {
    !is_blank(letter) && !"?%$.[]{}()|&!=<>@#,*:-+/\\\"".contains(letter)
}

/// Reads a text token by token.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// What the scanner would name as the place of the token that was read last; empty at the end.
    pub shown: &'a str,
}

/// 42601 at a place of the text; at its end if that is empty.
pub(super) fn failure(what: &str, shown: &str) -> Error {
    let message = if shown.is_empty() {
        format!("{what} at end of jsonpath input")
    } else {
        format!("{what} at or near \"{shown}\" of jsonpath input")
    };
    Error::new(SqlState::SYNTAX_ERROR, message)
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0, shown: "" }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            self.at = self.text.len() - self.rest().trim_start_matches(is_blank).len();
            if !self.rest().starts_with("/*") {
                return Ok(());
            }
            match self.rest().find("*/") {
                Some(end) if end >= 2 => self.at += end + 2,
                // `/*/` does not end what it begins.
                _ => match self.rest().get(2..).and_then(|inside| inside.find("*/")) {
                    Some(end) => self.at += end + 4,
                    None => return Err(failure("unexpected end of comment", "")),
                },
            }
        }
    }

    /// Reads the next token.
    pub fn next(&mut self) -> Result<Token> {
        self.skip_blanks()?;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            self.shown = "";
            return Ok(Token::End);
        };
        let digit_at = |place: usize| rest.as_bytes().get(place).is_some_and(u8::is_ascii_digit);
        if digit_at(0) || (first == '.' && digit_at(1)) {
            return self.number();
        }
        if first == '"' {
            return self.quoted(1).map(Token::String);
        }
        if first == '$' {
            if rest[1..].starts_with('"') {
                return self.quoted(2).map(Token::Variable);
            }
            let name = &rest[1..];
            let name = &name[..name.find(|letter| !is_plain(letter)).unwrap_or(name.len())];
            if !name.is_empty() {
                self.shown = &rest[..name.len() + 1];
                self.at += name.len() + 1;
                return Ok(Token::Variable(EcoString::from(name)));
            }
        }
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.shown = &rest[..symbol.len()];
            self.at += symbol.len();
            return Ok(Token::Symbol(symbol));
        }
        self.word()
    }

    fn number(&mut self) -> Result<Token> {
        let rest = self.rest();
        let digits_from = |place: usize| rest[place..].bytes().take_while(u8::is_ascii_digit).count();
        // A number does not begin with a zero before other digits.
        let mut end = if rest.starts_with('0') { 1 } else { digits_from(0) };
        if rest[end..].starts_with('.') {
            end += 1;
            end += digits_from(end);
        }
        let mut is_valid = true;
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let digits = digits_from(end + 1 + sign);
            is_valid = digits > 0;
            end += 1 + sign + digits;
        }
        if is_valid && let Some(junk) = rest[end..].chars().next().filter(|letter| is_plain(*letter)) {
            is_valid = false;
            end += junk.len_utf8();
        }
        self.shown = &rest[..end];
        self.at += end;
        if is_valid {
            Ok(Token::Number)
        } else {
            Err(failure("trailing junk after numeric literal", self.shown))
        }
    }

    fn quoted(&mut self, skipped: usize) -> Result<EcoString> {
        self.at += skipped;
        let mut string = EcoString::new();
        loop {
            let rest = self.rest();
            let plain = rest
                .find(['"', '\\'])
                .ok_or_else(|| failure("unexpected end of quoted string", ""))?;
            string.push_str(&rest[..plain]);
            self.at += plain;
            if rest[plain..].starts_with('"') {
                self.shown = &rest[plain..plain + 1];
                self.at += 1;
                return Ok(string);
            }
            self.escape(&mut string)?;
        }
    }

    fn word(&mut self) -> Result<Token> {
        let mut word = EcoString::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(|letter| !is_plain(letter)).unwrap_or(rest.len());
            word.push_str(&rest[..plain]);
            self.at += plain;
            if !rest[plain..].starts_with('\\') {
                break;
            }
            self.escape(&mut word)?;
        }
        // The scanner has read the blank that ends a name, but nothing else.
        let blank = self.rest().chars().next().filter(|letter| is_blank(*letter));
        self.shown = &self.rest()[..blank.map_or(0, char::len_utf8)];
        Ok(Token::Word(word))
    }

    /// Reads escapes from a backslash on.
    fn escape(&mut self, out: &mut EcoString) -> Result<()> {
        let rest = self.rest();
        let plain = match rest[1..].chars().next() {
            None => return Err(failure("unexpected end after backslash", rest)),
            Some('u') => return self.unicode(out),
            Some('x') => {
                let digits = hex_digits(&rest[2..], 2);
                let shown = &rest[..2 + digits];
                self.at += shown.len();
                if digits < 2 {
                    return Err(failure("invalid hex character sequence", shown));
                }
                return push_number(hex(&shown[2..]), out);
            }
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(other) => {
                self.at += 1 + other.len_utf8();
                out.push(other);
                return Ok(());
            }
        };
        self.at += 2;
        out.push(plain);
        Ok(())
    }

    /// Reads `\u0041` and `\u{41}`, and two of them where a character takes two.
    fn unicode(&mut self, out: &mut EcoString) -> Result<()> {
        let high = self.code_unit()?;
        let number = match high {
            0xd800..0xdc00 => {
                if !self.rest().starts_with("\\u") {
                    return Err(surrogate(LOW_MISSING));
                }
                match self.code_unit()? {
                    low @ 0xdc00..0xe000 => 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff),
                    0xd800..0xdc00 => {
                        return Err(surrogate("Unicode high surrogate must not follow a high surrogate."));
                    }
                    _ => return Err(surrogate(LOW_MISSING)),
                }
            }
            0xdc00..0xe000 => return Err(surrogate(LOW_MISSING)),
            number => number,
        };
        push_number(number, out)
    }

    fn code_unit(&mut self) -> Result<u32> {
        let rest = self.rest();
        let (digits, end) = if rest[2..].starts_with('{') {
            let count = hex_digits(&rest[3..], 6);
            let is_closed = count > 0 && rest[3 + count..].starts_with('}');
            (
                is_closed.then(|| &rest[3..3 + count]),
                3 + count + usize::from(is_closed),
            )
        } else {
            let count = hex_digits(&rest[2..], 4);
            ((count == 4).then(|| &rest[2..6]), 2 + count)
        };
        self.at += end;
        digits
            .map(hex)
            .ok_or_else(|| failure("invalid unicode sequence", &rest[..end]))
    }
}

const LOW_MISSING: &str = "Unicode low surrogate must follow a high surrogate.";

fn surrogate(detail: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        "invalid input syntax for type jsonpath",
    )
    .with_detail(detail)
}

fn hex_digits(text: &str, most: usize) -> usize {
    text.bytes().take(most).take_while(u8::is_ascii_hexdigit).count()
}

/// The number that at most six digits say.
fn hex(digits: &str) -> u32 {
    digits
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .fold(0, |number, digit| number * 16 + digit)
}

fn push_number(number: u32, out: &mut EcoString) -> Result<()> {
    if number == 0 {
        let error = Error::new(
            SqlState::UNTRANSLATABLE_CHARACTER,
            "unsupported Unicode escape sequence",
        );
        return Err(error.with_detail("\\u0000 cannot be converted to text."));
    }
    let letter =
        char::from_u32(number).ok_or_else(|| failure("invalid unicode sequence", &format!("\\u{{{number:x}}}")))?;
    out.push(letter);
    Ok(())
}
