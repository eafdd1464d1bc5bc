//! Regular expressions, on a matcher whose time is linear in the text.
//!
//! `regular_syntax` says PostgreSQL's patterns in the matcher's words. Back references and look-around cannot be matched in linear time
//! and are refused.

use super::FunctionEntry;
use super::argument::{entry, typed};
use super::like::similar_parts;
use super::regular_syntax::{Options, builder};
use ecow::EcoString;
use regex::{Captures, Regex};
use rubato_base::{Array, DataType, Error, Result, SqlState, Value};
use std::cell::RefCell;
use std::sync::Arc;

/// Compiled patterns kept by each thread: a statement seldom uses more, and compiling takes longer than matching.
const CACHE_ENTRIES: usize = 8;
/// Largest compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4 << 20;

struct Compiled {
    pattern: EcoString,
    ignore_case: bool,
    flags: EcoString,
    regex: Regex,
}

thread_local! {
    static CACHE: RefCell<Vec<Compiled>> = const { RefCell::new(Vec::new()) };
}

/// A compiled pattern. It costs one clone of a shared pointer when the pattern was used before.
pub(super) fn compiled(pattern: &str, ignore_case: bool, flags: &str) -> Result<Regex> {
    CACHE.with_borrow_mut(|cache| {
        let known =
            |entry: &Compiled| entry.pattern == pattern && entry.ignore_case == ignore_case && entry.flags == flags;
        if let Some(index) = cache.iter().position(known) {
            if index > 0 {
                cache.swap(index, index - 1);
            }
            return Ok(cache[index.saturating_sub(1)].regex.clone());
        }
        let regex = compile(pattern, ignore_case, flags)?;
        cache.truncate(CACHE_ENTRIES - 1);
        cache.push(Compiled {
            pattern: pattern.into(),
            ignore_case,
            flags: flags.into(),
            regex: regex.clone(),
        });
        Ok(regex)
    })
}

pub(super) fn invalid(message: &str) -> Error {
    Error::new(
        SqlState::INVALID_REGULAR_EXPRESSION,
        format!("invalid regular expression: {message}"),
    )
}

fn compile(pattern: &str, ignore_case: bool, flags: &str) -> Result<Regex> {
    let mut builder = builder(pattern, Options::new(ignore_case, flags)?)?;
    builder.size_limit(PATTERN_BYTES_MAX).build().map_err(|error| {
        // The last line of the matcher's message says what is wrong; those before it show where.
        let text = error.to_string();
        invalid(
            text.lines()
                .last()
                .unwrap_or("syntax error")
                .trim_start_matches("error: "),
        )
    })
}

/// Whether a pattern with flags is found in a text.
pub(crate) fn matches_pattern(text: &str, pattern: &str, flags: &str) -> Result<bool> {
    Ok(compiled(pattern, false, flags)?.is_match(text))
}

fn matches(text: &str, pattern: &str, ignore_case: bool) -> Result<bool> {
    Ok(compiled(pattern, ignore_case, "")?.is_match(text))
}

/// The matches from a byte of the text on, one of nothing right behind another one too. Behind one of nothing the search goes on a
/// character later.
pub(super) fn matches_from<'a>(regex: &'a Regex, text: &'a str, start: usize) -> impl Iterator<Item = Captures<'a>> {
    let mut next = Some(start);
    std::iter::from_fn(move || {
        let captures = regex.captures_at(text, next.filter(|next| *next <= text.len())?)?;
        let found = captures.get(0)?;
        next = match found.is_empty() {
            true => text[found.end()..]
                .chars()
                .next()
                .map(|letter| found.end() + letter.len_utf8()),
            false => Some(found.end()),
        };
        Some(captures)
    })
}

/// Appends a replacement text for a match, in which `\1` to `\9` and `\&` stand for what was matched, `\\` for a backslash.
fn append_replacement(replacement: &str, captures: &Captures<'_>, result: &mut String) {
    let mut letters = replacement.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            result.push(letter);
            continue;
        }
        match letters.next() {
            Some('&') => result.push_str(captures.get(0).map_or("", |all| all.as_str())),
            Some(digit @ '1'..='9') => {
                let index = digit as usize - '0' as usize;
                result.push_str(captures.get(index).map_or("", |group| group.as_str()));
            }
            Some('\\') | None => result.push('\\'),
            Some(other) => {
                result.push('\\');
                result.push(other);
            }
        }
    }
}

/// A text in which the match with this number is replaced, counted from 1 and from a byte of the text on; all of them for 0.
pub(super) fn replaced(text: &str, regex: &Regex, replacement: &str, (start, nth): (usize, usize)) -> EcoString {
    let (mut result, mut from) = (String::new(), 0);
    for (index, captures) in matches_from(regex, text, start).enumerate() {
        let is_wanted = nth == 0 || index + 1 == nth;
        if let (true, Some(found)) = (is_wanted, captures.get(0)) {
            result.push_str(&text[from..found.start()]);
            append_replacement(replacement, &captures, &mut result);
            from = found.end();
        }
        if is_wanted && nth != 0 {
            break;
        }
    }
    result.push_str(&text[from..]);
    result.into()
}

fn replace(text: &str, pattern: &str, replacement: &str, flags: &str) -> Result<EcoString> {
    let regex = compiled(pattern, false, flags)?;
    let nth = usize::from(!flags.contains('g'));
    Ok(replaced(text, &regex, replacement, (0, nth)))
}

/// The first group of the first match, or the whole match where there is no group.
fn substring(text: &str, pattern: &str) -> Result<Option<EcoString>> {
    let regex = compiled(pattern, false, "")?;
    let captures = regex.captures(text);
    let group = captures.and_then(|captures| captures.get(usize::from(regex.captures_len() > 1)));
    Ok(group.map(|group| EcoString::from(group.as_str())))
}

/// The parts of a text between the matches of a pattern, as PostgreSQL takes them: a match of nothing at the start, at the end or right
/// behind another match parts nothing.
pub(crate) fn split_by_pattern(text: &str, pattern: &str, flags: &str) -> Result<Vec<Value>> {
    let regex = compiled(pattern, false, flags)?;
    let mut parts = Vec::new();
    let mut from = 0;
    for found in regex.find_iter(text) {
        if found.is_empty() && (found.start() == from || found.start() == text.len()) {
            continue;
        }
        parts.push(Value::text(&text[from..found.start()]));
        from = found.end();
    }
    parts.push(Value::text(&text[from..]));
    Ok(parts)
}

/// The groups of the first match, or the whole match where there is no group.
fn first_match(text: &str, pattern: &str, flags: &str) -> Result<Option<Array>> {
    super::regular_places::without_global(flags, "regexp_match")
        .map_err(|error| error.with_hint("Use the regexp_matches function instead."))?;
    let regex = compiled(pattern, false, flags)?;
    Ok(regex.captures(text).map(|captures| groups(&captures)))
}

/// The groups of all matches, or of the first one without the flag `g`.
pub(crate) fn all_matches(text: &str, pattern: &str, flags: &str) -> Result<Vec<Value>> {
    let regex = compiled(pattern, false, flags)?;
    let count = if flags.contains('g') { usize::MAX } else { 1 };
    let found = matches_from(&regex, text, 0).take(count);
    Ok(found
        .map(|captures| Value::Array(Arc::new(groups(&captures))))
        .collect())
}

fn groups(captures: &Captures<'_>) -> Array {
    let of = |group: Option<regex::Match<'_>>| group.map_or(Value::Null, |group| Value::text(group.as_str()));
    let skipped = usize::from(captures.len() > 1);
    Array::new(DataType::Text, captures.iter().skip(skipped).map(of).collect())
}

fn split_to_array(text: &str, pattern: &str, flags: &str) -> Result<Array> {
    Ok(Array::new(DataType::Text, split_by_pattern(text, pattern, flags)?))
}

pub(super) static REGULAR: &[FunctionEntry] = &[
    entry!("~" (Text, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, false))),
    entry!("~*" (Text, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, true))),
    entry!("!~" (Text, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, false).map(|found| !found))),
    entry!("!~*" (Text, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, true).map(|found| !found))),
    // The blanks that fill a char(n) are matched.
    entry!("~" (Char, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, false))),
    entry!("~*" (Char, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, true))),
    entry!("!~" (Char, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, false).map(|found| !found))),
    entry!("!~*" (Char, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, true).map(|found| !found))),
    entry!("regexp_like" (Text, Text) -> Bool, typed!(|a: &str, b: &str| matches(a, b, false))),
    entry!("regexp_like" (Text, Text, Text) -> Bool, typed!(|a: &str, b: &str, flags: &str| {
        super::regular_places::without_global(flags, "regexp_like")?;
        matches_pattern(a, b, flags)
    })),
    entry!("regexp_replace" (Text, Text, Text) -> Text, typed!(|a: &str, b: &str, replacement: &str| {
        replace(a, b, replacement, "")
    })),
    entry!("regexp_replace" (Text, Text, Text, Text) -> Text, typed!(
        |a: &str, b: &str, replacement: &str, flags: &str| replace(a, b, replacement, flags)
    )),
    entry!("regexp_match" (Text, Text) -> TextArray, typed!(|a: &str, b: &str| first_match(a, b, ""))),
    entry!("regexp_match" (Text, Text, Text) -> TextArray, typed!(|a: &str, b: &str, flags: &str| {
        first_match(a, b, flags)
    })),
    entry!("regexp_split_to_array" (Text, Text) -> TextArray, typed!(|a: &str, b: &str| split_to_array(a, b, ""))),
    entry!("regexp_split_to_array" (Text, Text, Text) -> TextArray, typed!(|a: &str, b: &str, flags: &str| {
        super::regular_places::without_global(flags, "regexp_split_to_array")?;
        split_to_array(a, b, flags)
    })),
    entry!("substring" (Text, Text) -> Text, typed!(|a: &str, b: &str| substring(a, b))),
    entry!("substring" (Text, Text, Text) -> Text, typed!(|a: &str, b: &str, escape: &str| {
        substring(a, &similar_parts(b, escape)?)
    })),
];
