//! LIKE and ILIKE.

use super::FunctionEntry;
use super::argument::{entry, typed};
use ecow::EcoString;
use rubato_base::{Error, Result, SqlState};

fn ends_with_escape() -> Error {
    Error::new(
        SqlState::INVALID_ESCAPE_SEQUENCE,
        "LIKE pattern must not end with escape character",
    )
}

/// Whether `text` matches: `%` is any text, `_` any one character, and a backslash takes the next character as it is. Bytes are
/// compared, since in UTF-8 no character's bytes begin within another's; only `_` counts characters. Time is at most the product of
/// the lengths.
pub(crate) fn like(text: &str, pattern: &str) -> Result<bool> {
    matches(text.as_bytes(), pattern.as_bytes(), character_bytes)
}

/// The same of bytes, each of which is a character.
fn like_bytes(bytes: &[u8], pattern: &[u8]) -> Result<bool> {
    matches(bytes, pattern, |_| 1)
}

/// `length_of` says how long the character is that begins with a byte.
fn matches(text: &[u8], pattern: &[u8], length_of: fn(u8) -> usize) -> Result<bool> {
    let (mut at, mut next) = (0, 0);
    // Where to resume after the last `%`: pattern position behind it, and the text position it now reaches to.
    let mut resume: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(next) {
            Some(b'%') => {
                next += 1;
                resume = Some((next, at));
                continue;
            }
            Some(b'_') if at < text.len() => Some((next + 1, at + length_of(text[at]))),
            // As in PostgreSQL, a lone escape is only noticed where text is left for it to match.
            Some(b'\\') if at < text.len() => {
                let literal = *pattern.get(next + 1).ok_or_else(ends_with_escape)?;
                (text.get(at) == Some(&literal)).then_some((next + 2, at + 1))
            }
            Some(b'_' | b'\\') => None,
            Some(literal) => (text.get(at) == Some(literal)).then_some((next + 1, at + 1)),
            None if at == text.len() => return Ok(true),
            None => None,
        };
        match (step, resume) {
            (Some((pattern_position, text_position)), _) => (next, at) = (pattern_position, text_position),
            // The last `%` takes one character more.
            (None, Some((behind, reached))) if reached < text.len() => {
                let reached = reached + length_of(text[reached]);
                resume = Some((behind, reached));
                (next, at) = (behind, reached);
            }
            _ => return Ok(false),
        }
    }
}

/// The length of the character that starts with this byte.
fn character_bytes(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

fn ilike(text: &str, pattern: &str) -> Result<bool> {
    like(&text.to_lowercase(), &pattern.to_lowercase())
}

/// The pattern of `LIKE ... ESCAPE escape`, rewritten to the backslash.
fn with_escape(pattern: &str, escape: &str) -> Result<EcoString> {
    let escape = escape_character(escape)?;
    Ok(escaped_anew(pattern.chars(), escape, '\\').collect())
}

/// The same of bytes.
fn bytes_with_escape(pattern: &[u8], escape: &[u8]) -> Result<Vec<u8>> {
    if escape.len() > 1 {
        return Err(no_escape());
    }
    let bytes = pattern.iter().copied();
    Ok(escaped_anew(bytes, escape.first().copied(), b'\\').collect())
}

/// A pattern with a backslash in place of its escape.
fn escaped_anew<L: Copy + PartialEq>(
    pattern: impl Iterator<Item = L>,
    escape: Option<L>,
    backslash: L,
) -> impl Iterator<Item = L> {
    let mut literal = false;
    pattern.flat_map(move |letter| {
        let is_escape = !literal && Some(letter) == escape;
        let is_bare = letter == backslash && !literal && !is_escape;
        literal = is_escape;
        let letter = if is_escape { backslash } else { letter };
        is_bare.then_some(backslash).into_iter().chain([letter])
    })
}

/// The text that every match starts with, and whether the pattern is nothing else (no wildcards): for a range over an index.
/// `None` if the pattern is malformed.
pub fn like_prefix(pattern: &str) -> Option<(EcoString, bool)> {
    let mut prefix = EcoString::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' | '_' => return Some((prefix, false)),
            '\\' => prefix.push(letters.next()?),
            plain => prefix.push(plain),
        }
    }
    Some((prefix, true))
}

pub(super) static LIKE: &[FunctionEntry] = &[
    entry!("~~" (Text, Text) -> Bool, typed!(|a: &str, b: &str| like(a, b))),
    entry!("!~~" (Text, Text) -> Bool, typed!(|a: &str, b: &str| like(a, b).map(|matches| !matches))),
    entry!("~~*" (Text, Text) -> Bool, typed!(|a: &str, b: &str| ilike(a, b))),
    entry!("!~~*" (Text, Text) -> Bool, typed!(|a: &str, b: &str| ilike(a, b).map(|matches| !matches))),
    // The blanks that fill a char(n) are matched.
    entry!("~~" (Char, Text) -> Bool, typed!(|a: &str, b: &str| like(a, b))),
    entry!("!~~" (Char, Text) -> Bool, typed!(|a: &str, b: &str| like(a, b).map(|matches| !matches))),
    entry!("~~*" (Char, Text) -> Bool, typed!(|a: &str, b: &str| ilike(a, b))),
    entry!("!~~*" (Char, Text) -> Bool, typed!(|a: &str, b: &str| ilike(a, b).map(|matches| !matches))),
    entry!("~~" (Bytea, Bytea) -> Bool, typed!(|a: &[u8], b: &[u8]| like_bytes(a, b))),
    entry!("!~~" (Bytea, Bytea) -> Bool, typed!(|a: &[u8], b: &[u8]| like_bytes(a, b).map(|matches| !matches))),
    entry!("like" (Bytea, Bytea) -> Bool, typed!(|a: &[u8], b: &[u8]| like_bytes(a, b))),
    entry!("notlike" (Bytea, Bytea) -> Bool, typed!(|a: &[u8], b: &[u8]| like_bytes(a, b).map(|matches| !matches))),
    entry!("like_escape" (Bytea, Bytea) -> Bytea, typed!(|pattern: &[u8], escape: &[u8]| bytes_with_escape(pattern, escape))),
    entry!("like" (Text, Text) -> Bool, typed!(|text: &str, pattern: &str| like(text, pattern))),
    entry!("notlike" (Text, Text) -> Bool, typed!(|text: &str, pattern: &str| like(text, pattern).map(|found| !found))),
    entry!("similar_to_escape" (Text) -> Text, typed!(|pattern: &str| similar_pattern(pattern, "\\"))),
    entry!("similar_to_escape" (Text, Text) -> Text, typed!(|pattern: &str, escape: &str| similar_pattern(pattern, escape))),
    entry!("like_escape" (Text, Text) -> Text, typed!(|pattern: &str, escape: &str| with_escape(pattern, escape))),
];

/// 22025
fn no_escape() -> Error {
    Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
        .with_hint("Escape string must be empty or one character.")
}

fn escape_character(escape: &str) -> Result<Option<char>> {
    let mut characters = escape.chars();
    let escape = characters.next();
    match characters.next() {
        Some(_) => Err(no_escape()),
        None => Ok(escape),
    }
}

/// The regular expression that a pattern of SIMILAR TO is. 22025 for an escape of more than one character.
fn similar_pattern(pattern: &str, escape: &str) -> Result<String> {
    Ok(format!(
        "^(?:{})$",
        translated(pattern, escape_character(escape)?, false)
    ))
}

/// The regular expression of `SUBSTRING(text SIMILAR pattern ESCAPE escape)`, whose group is what stands between the two separators, an
/// escape and a quote. 2200C for more than two.
pub(super) fn similar_parts(pattern: &str, escape: &str) -> Result<String> {
    let escape = escape_character(escape)?;
    let mut parts = vec![String::new()];
    let mut letters = pattern.chars();
    while let (Some(letter), Some(part)) = (letters.next(), parts.last_mut()) {
        if Some(letter) != escape {
            part.push(letter);
            continue;
        }
        match letters.next() {
            Some('"') => parts.push(String::new()),
            next => {
                part.push(letter);
                part.extend(next);
            }
        }
    }
    let whole = |part: &str| translated(part, escape, false);
    // What stands before is as short as it can be.
    let short = |part: &str| translated(part, escape, true);
    match parts.as_slice() {
        [all] => Ok(format!("^(?:{})$", whole(all))),
        [before, part] => Ok(format!("^(?:{})({})$", short(before), whole(part))),
        [before, part, behind] => {
            let (before, part, behind) = (short(before), whole(part), whole(behind));
            Ok(format!("^(?:{before})({part})(?:{behind})$"))
        }
        _ => {
            let message = "SQL regular expression may not contain more than two escape-double-quote separators";
            Err(Error::new(SqlState(*b"2200C"), message))
        }
    }
}

/// A pattern in the language of regular expressions, whose parts are repeated as seldom as can be if it `is_short`.
fn translated(pattern: &str, escape: Option<char>, is_short: bool) -> String {
    let mut out = String::new();
    let (mut is_escaped, mut in_class) = (false, false);
    for character in pattern.chars() {
        if is_escaped {
            out.push('\\');
            out.push(character);
            is_escaped = false;
        } else if Some(character) == escape {
            is_escaped = true;
        } else if in_class {
            if character == '\\' {
                out.push('\\');
            }
            out.push(character);
            in_class = character != ']';
        } else {
            match character {
                '[' => in_class = true,
                '\\' | '.' | '^' | '$' => out.push('\\'),
                _ => {}
            }
            match character {
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                other => out.push(other),
            }
            if is_short && matches!(character, '%' | '*' | '+' | '?' | '}') {
                out.push('?');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_postgresql() {
        let table = [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "a_c", true),
            ("abc", "_", false),
            ("", "%", true),
            ("", "_", false),
            ("aXbXc", "a%X%c", true),
            ("mississippi", "m%iss%ip%i", true),
            ("mississippi", "m%iss%ipx%", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("äöü", "_ö_", true),
            ("äöü", "__", false),
            ("日本語", "日%語", true),
            ("ab", "%%%_%_%", true),
            ("a", "%_%_%", false),
        ];
        for (text, pattern, expected) in table {
            assert_eq!(like(text, pattern).unwrap(), expected, "{text:?} LIKE {pattern:?}");
        }
        assert!(like("ab", "a\\").is_err());
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let text = "a".repeat(3000);
        let pattern = format!("{}b", "%a".repeat(300));
        assert!(!like(&text, &pattern).unwrap());
    }

    #[test]
    fn another_escape_is_rewritten() {
        assert_eq!(with_escape("10#%%", "#").unwrap(), "10\\%%");
        assert_eq!(with_escape("a\\b", "#").unwrap(), "a\\\\b");
        assert_eq!(with_escape("a##b", "#").unwrap(), "a\\#b");
        assert!(with_escape("a", "##").is_err());
        assert_eq!(like_prefix("abc%"), Some((EcoString::from("abc"), false)));
        assert_eq!(like_prefix("a\\%c"), Some((EcoString::from("a%c"), true)));
    }
}
