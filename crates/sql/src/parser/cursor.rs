//! Walking over tokens: what the utility grammar is written with.

use super::lexer::{Lexer, Token, TokenKind};
use super::syntax::{Source, cut};
use rubato_base::{Error, Result};

/// The tokens of one text and a place among them.
pub(crate) struct Cursor<'a> {
    /// The text.
    pub source: Source<'a>,
    tokens: Vec<Token>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first token.
    pub fn new(source: Source<'a>) -> Result<Cursor<'a>> {
        let mut lexer = Lexer::new(source.text);
        let mut tokens = Vec::new();
        while let Some(token) = lexer
            .next_token()
            .map_err(|error| error.moved(source.characters_before))?
        {
            tokens.push(token);
        }
        while tokens.last().is_some_and(|token| token.kind == TokenKind::Symbol(b';')) {
            tokens.pop();
        }
        Ok(Cursor { source, tokens, at: 0 })
    }

    pub fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    pub fn advance(&mut self) -> Option<Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    /// The byte offset of the next token, or the end of the text.
    pub fn offset(&self) -> usize {
        self.peek().map_or(self.end_offset(), |token| token.start)
    }

    /// One past the token that was taken last.
    pub fn last_end(&self) -> usize {
        self.at
            .checked_sub(1)
            .and_then(|last| self.tokens.get(last))
            .map_or(0, |token| token.end)
    }

    /// One past the last token.
    pub fn end_offset(&self) -> usize {
        self.tokens.last().map_or(0, |token| token.end)
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// Whether these keywords and symbols come next.
    pub fn at_words(&self, words: &[&str]) -> bool {
        let tokens = &self.tokens[self.at..];
        let is = |(token, word): (&Token, &&str)| token.text(self.source.text).eq_ignore_ascii_case(word);
        tokens.len() >= words.len() && tokens.iter().zip(words).all(is)
    }

    /// What is left, cut at commas that stand in no brackets.
    pub fn pieces(&self) -> Vec<Cursor<'a>> {
        let mut pieces = vec![Vec::new()];
        let mut depth = 0usize;
        for token in &self.tokens[self.at..] {
            match token.kind {
                TokenKind::Symbol(b'(' | b'[') => depth += 1,
                TokenKind::Symbol(b')' | b']') => depth = depth.saturating_sub(1),
                TokenKind::Symbol(b',') if depth == 0 => {
                    pieces.push(Vec::new());
                    continue;
                }
                _ => {}
            }
            if let Some(piece) = pieces.last_mut() {
                piece.push(*token);
            }
        }
        let source = self.source;
        let cursor = |tokens| Cursor { source, tokens, at: 0 };
        pieces.into_iter().map(cursor).collect()
    }

    /// Whether nothing follows the next token.
    pub fn is_at_last(&self) -> bool {
        self.at + 1 == self.tokens.len()
    }

    /// Whether the next token is this keyword.
    pub fn at_keyword(&self, keyword: &str) -> bool {
        self.peek().is_some_and(|token| token.is(self.source.text, keyword))
    }

    /// Takes the next token if it is this keyword.
    pub fn accept(&mut self, keyword: &str) -> bool {
        let found = self.at_keyword(keyword);
        self.at += usize::from(found);
        found
    }

    /// Takes these keywords if all of them come next.
    pub fn accept_all(&mut self, keywords: &[&str]) -> bool {
        let start = self.at;
        let found = keywords.iter().all(|keyword| self.accept(keyword));
        if !found {
            self.at = start;
        }
        found
    }

    /// Takes the next token if it is one of these keywords.
    pub fn accept_any(&mut self, keywords: &[&'static str]) -> Option<&'static str> {
        keywords.iter().copied().find(|keyword| self.accept(keyword))
    }

    pub fn accept_symbol(&mut self, symbol: u8) -> bool {
        let found = self.peek().is_some_and(|token| token.kind == TokenKind::Symbol(symbol));
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, keyword: &str) -> Result<()> {
        if self.accept(keyword) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    pub fn expect_symbol(&mut self, symbol: u8) -> Result<()> {
        if self.accept_symbol(symbol) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    pub fn expect_end(&self) -> Result<()> {
        if self.is_at_end() { Ok(()) } else { Err(self.error()) }
    }

    /// 42601 at the next token.
    pub fn error(&self) -> Error {
        self.source.syntax_error(self.offset())
    }

    /// An identifier, folded.
    pub fn name(&mut self) -> Result<String> {
        let Some(token) = self.peek() else {
            return Err(self.error());
        };
        let text = token.text(self.source.text);
        let name = match token.kind {
            TokenKind::Word => text.to_ascii_lowercase(),
            TokenKind::QuotedWord => text[1..text.len() - 1].replace("\"\"", "\""),
            _ => return Err(self.error()),
        };
        self.at += 1;
        Ok(cut(name))
    }

    /// A possibly qualified name; its parts.
    pub fn qualified_name(&mut self) -> Result<Vec<String>> {
        let mut parts = vec![self.name()?];
        while self.accept_symbol(b'.') {
            parts.push(self.name()?);
        }
        Ok(parts)
    }

    /// Names in parentheses, separated by commas.
    pub fn name_list(&mut self) -> Result<Vec<String>> {
        self.expect_symbol(b'(')?;
        let mut names = vec![self.name()?];
        while self.accept_symbol(b',') {
            names.push(self.name()?);
        }
        self.expect_symbol(b')')?;
        Ok(names)
    }

    /// A string literal's content.
    pub fn text_literal(&mut self) -> Result<String> {
        let Some(token) = self.peek() else {
            return Err(self.error());
        };
        let text = token.text(self.source.text);
        let content = match token.kind {
            TokenKind::Text => text[1..text.len() - 1].replace("''", "'"),
            TokenKind::SpecialText => special_text(text).ok_or_else(|| self.error())?,
            _ => return Err(self.error()),
        };
        self.at += 1;
        Ok(content)
    }

    /// Passes over tokens until the parenthesis that was just opened is closed; the bytes between.
    pub fn skip_parenthesis(&mut self) -> Result<(usize, usize)> {
        let start = self.offset();
        let mut depth = 1;
        while let Some(token) = self.advance() {
            match token.kind {
                TokenKind::Symbol(b'(') => depth += 1,
                TokenKind::Symbol(b')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok((start, token.start));
            }
        }
        Err(self.error())
    }
}

/// The content of `E'..'` or `$tag$..$tag$`; the escapes that COPY options use.
fn special_text(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix('$') {
        let tag = rest.find('$')? + 2;
        return Some(text[tag..text.len() - tag].to_owned());
    }
    let inner = text
        .strip_prefix(['e', 'E'])?
        .strip_prefix('\'')?
        .strip_suffix('\'')?
        .replace("''", "'");
    let mut out = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.push(match characters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'x' => {
                    let digits: String = characters.by_ref().take(2).collect();
                    char::from(u8::from_str_radix(&digits, 16).ok()?)
                }
                other => other,
            }),
            other => out.push(other),
        }
    }
    Some(out)
}
