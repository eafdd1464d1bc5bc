//! Names and escapes in texts: `parse_ident`, `unistr`.

use super::FunctionEntry;
use super::argument::{entry, typed};
use rubato_base::{Array, DataType, Error, Result, SqlState, Value};

fn invalid_name(text: &str) -> Error {
    let message = format!("string is not a valid identifier: \"{text}\"");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The parts of a name as SQL writes it. What stands behind it is an error if `strict`.
fn parse_name(text: &str, strict: bool) -> Result<Array> {
    let is_blank = |letter: char| matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0c');
    let begins = |letter: char| letter == '_' || letter.is_ascii_alphabetic() || !letter.is_ascii();
    let goes_on = |letter: char| begins(letter) || letter.is_ascii_digit() || letter == '$';
    let mut rest = text.trim_start_matches(is_blank);
    let mut parts = Vec::new();
    let mut follows_point = false;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut inside = quoted;
            loop {
                let unclosed = || invalid_name(text).with_detail("String has unclosed double quotes.");
                let end = inside.find('"').ok_or_else(unclosed)?;
                name.push_str(&inside[..end]);
                inside = &inside[end + 1..];
                match inside.strip_prefix('"') {
                    Some(more) => inside = more,
                    None => break,
                }
                name.push('"');
            }
            if name.is_empty() {
                return Err(invalid_name(text).with_detail("Quoted identifier must not be empty."));
            }
            parts.push(Value::text(&name));
            rest = inside;
        } else if rest.starts_with(begins) {
            let end = rest.find(|letter| !goes_on(letter)).unwrap_or(rest.len());
            parts.push(Value::text(&rest[..end].to_lowercase()));
            rest = &rest[end..];
        } else if rest.starts_with('.') {
            return Err(invalid_name(text).with_detail("No valid identifier before \".\"."));
        } else if follows_point {
            return Err(invalid_name(text).with_detail("No valid identifier after \".\"."));
        } else {
            return Err(invalid_name(text));
        }
        rest = rest.trim_start_matches(is_blank);
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start_matches(is_blank),
            None if rest.is_empty() || !strict => return Ok(Array::new(DataType::Text, parts)),
            None => return Err(invalid_name(text)),
        }
        follows_point = true;
    }
}

/// The text with its escapes `\0041`, `\u0041`, `\+000041` and `\U00000041` as characters.
fn unescaped(text: &str) -> Result<String> {
    let syntax = |message: &str| Error::new(SqlState::SYNTAX_ERROR, message);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut high: Option<u32> = None;
    while let Some(letter) = rest.chars().next() {
        if letter != '\\' || rest[1..].starts_with('\\') {
            if high.is_some() {
                return Err(syntax("invalid Unicode surrogate pair"));
            }
            out.push(letter);
            rest = &rest[letter.len_utf8() + usize::from(letter == '\\')..];
            continue;
        }
        let (skipped, width) = match rest.as_bytes().get(1) {
            Some(b'u') => (2, 4),
            Some(b'U') => (2, 8),
            Some(b'+') => (2, 6),
            _ => (1, 4),
        };
        let digits = rest.get(skipped..skipped + width);
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let number = digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| {
                syntax("invalid Unicode escape")
                    .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
            })?;
        rest = &rest[skipped + width..];
        let number = match (number, high.take()) {
            (0xd800..0xdc00, None) => {
                high = Some(number);
                continue;
            }
            (0xdc00..0xe000, Some(high)) => 0x10000 + ((high & 0x3ff) << 10) + (number & 0x3ff),
            (0xd800..0xe000, _) | (_, Some(_)) => return Err(syntax("invalid Unicode surrogate pair")),
            (number, None) => number,
        };
        let letter = char::from_u32(number).filter(|_| number > 0);
        let invalid = || {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid Unicode code point: {number:04X}"),
            )
        };
        out.push(letter.ok_or_else(invalid)?);
    }
    if high.is_some() {
        return Err(syntax("invalid Unicode surrogate pair"));
    }
    Ok(out)
}

pub(super) static NAMES: &[FunctionEntry] = &[
    entry!("parse_ident" (Text) -> TextArray, typed!(|text: &str| parse_name(text, true))),
    entry!("parse_ident" (Text, Bool) -> TextArray, typed!(|text: &str, strict: bool| parse_name(text, strict))),
    entry!("unistr" (Text) -> Text, typed!(|text: &str| unescaped(text))),
];
