//! Text: lengths, case, parts, positions, joining.

use super::FunctionEntry;
use super::Implementation;
use super::argument::{entry, typed};
use crate::cast::text_of;
use crate::context::EvalContext;
use ecow::EcoString;
use rubato_base::{DataType, Error, Result, SqlState, Value};

/// Most bytes of one text, as in PostgreSQL.
pub(crate) const TEXT_BYTES_MAX: usize = 0x3fff_ffff;

pub(super) fn too_long() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

/// 54000 where the length of what is to be made of parts of these lengths is more than a value may have.
pub(super) fn fits(lengths: impl IntoIterator<Item = usize>) -> Result<usize> {
    let length = lengths.into_iter().fold(0, usize::saturating_add);
    (length <= TEXT_BYTES_MAX).then_some(length).ok_or_else(too_long)
}

fn joined(a: &str, b: &str) -> Result<EcoString> {
    let mut text = EcoString::with_capacity(fits([a.len(), b.len()])?);
    text.push_str(a);
    text.push_str(b);
    Ok(text)
}

fn characters(text: &str) -> i32 {
    if text.is_ascii() {
        text.len() as i32
    } else {
        text.chars().count() as i32
    }
}

/// Positions `from..to` (from 1) that a substring covers. 22011 if its length is negative.
pub(super) fn window(start: i32, length: Option<i32>) -> Result<(i64, i64)> {
    let start = i64::from(start);
    let end = match length {
        None => i64::MAX,
        Some(length) if length < 0 => {
            return Err(Error::new(
                SqlState::SUBSTRING_ERROR,
                "negative substring length not allowed",
            ));
        }
        Some(length) => start + i64::from(length),
    };
    Ok((start.max(1), end.max(1)))
}

/// How much stands before and from where it goes on behind what an overlay replaces: `length` from `start` (from 1). 22011 for a start
/// before the first.
pub(super) fn replaced_window(start: i32, length: i32) -> Result<(usize, usize)> {
    if start <= 0 {
        return Err(Error::new(
            SqlState::SUBSTRING_ERROR,
            "negative substring length not allowed",
        ));
    }
    let before = i64::from(start) - 1;
    let resume = usize::try_from(before + i64::from(length)).unwrap_or(0);
    Ok((before as usize, resume))
}

/// The byte position of character `index` (from 0), or the end.
fn byte_of(text: &str, index: i64) -> usize {
    let index = usize::try_from(index).unwrap_or(0);
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

fn substring(text: &str, start: i32, length: Option<i32>) -> Result<EcoString> {
    let (from, to) = window(start, length)?;
    let (from, to) = (byte_of(text, from - 1), byte_of(text, to - 1));
    Ok(EcoString::from(&text[from..to.max(from)]))
}

/// The first `count` characters, or all but the last `-count`.
fn left(text: &str, count: i32) -> EcoString {
    let kept = if count >= 0 {
        count
    } else {
        characters(text).saturating_add(count).max(0)
    };
    EcoString::from(&text[..byte_of(text, kept.into())])
}

/// The last `count` characters, or all but the first `-count`.
fn right(text: &str, count: i32) -> EcoString {
    let dropped = if count >= 0 {
        characters(text).saturating_sub(count).max(0)
    } else {
        count.saturating_neg()
    };
    EcoString::from(&text[byte_of(text, dropped.into())..])
}

/// The position of `wanted` in characters, from 1; 0 if it is not there.
fn position(text: &str, wanted: &str) -> i32 {
    text.find(wanted).map_or(0, |at| characters(&text[..at]) + 1)
}

/// The upper case of a letter, if that is one letter. As in PostgreSQL a text keeps its length, and `ß` stays `ß`.
fn upper(letter: char) -> char {
    single(letter, letter.to_uppercase())
}

/// The lower case of a letter, if that is one letter.
fn lower(letter: char) -> char {
    single(letter, letter.to_lowercase())
}

fn single(letter: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => letter,
    }
}

fn initcap(text: &str) -> EcoString {
    let mut result = EcoString::with_capacity(text.len());
    let mut inside = false;
    for letter in text.chars() {
        if inside {
            result.push(lower(letter));
        } else {
            result.push(upper(letter));
        }
        inside = letter.is_alphanumeric();
    }
    result
}

/// The text of any value as `CAST(... AS text)` gives it.
pub(super) fn cast_text(value: &Value, context: &EvalContext<'_>) -> Result<EcoString> {
    match value {
        Value::Bool(truth) => Ok(EcoString::from(if *truth { "true" } else { "false" })),
        Value::Inet(address) => Ok(EcoString::from(address.to_text())),
        other => text_of(other, DataType::Unknown, context.text),
    }
}

/// `concat` and `concat_ws`: the arguments that are not NULL, as a client would see them.
fn concatenate(values: &[Value], separator: &str, context: &EvalContext<'_>) -> Result<EcoString> {
    let mut result = EcoString::new();
    for (index, value) in values.iter().filter(|value| !value.is_null()).enumerate() {
        let separator = if index > 0 { separator } else { "" };
        let text = text_of(value, DataType::Unknown, context.text)?;
        fits([result.len(), separator.len(), text.len()])?;
        result.push_str(separator);
        result.push_str(&text);
    }
    Ok(result)
}

fn concatenate_with_separator(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    match arguments.split_first() {
        Some((Value::Text(separator), values)) => concatenate(values, separator, context).map(Value::Text),
        _ => Ok(Value::Null),
    }
}

fn trimmed_blanks(text: &str) -> &str {
    text.trim_end_matches(' ')
}

pub(super) static TEXT: &[FunctionEntry] = &[
    entry!("||" (Text, Text) -> Text, typed!(|a: &str, b: &str| joined(a, b))),
    entry!("||" (Any, Text) -> Text, typed!(with c |a: &Value, b: &str| joined(&cast_text(a, c)?, b))).stable(),
    entry!("||" (Text, Any) -> Text, typed!(with c |a: &str, b: &Value| joined(a, &cast_text(b, c)?))).stable(),
    entry!("~<~" (Text, Text) -> Bool, typed!(|a: &str, b: &str| a < b)),
    entry!("~<=~" (Text, Text) -> Bool, typed!(|a: &str, b: &str| a <= b)),
    entry!("~>=~" (Text, Text) -> Bool, typed!(|a: &str, b: &str| a >= b)),
    entry!("~>~" (Text, Text) -> Bool, typed!(|a: &str, b: &str| a > b)),
    entry!("~<~" (Char, Char) -> Bool, typed!(|a: &str, b: &str| trimmed_blanks(a) < trimmed_blanks(b))),
    entry!("~<=~" (Char, Char) -> Bool, typed!(|a: &str, b: &str| trimmed_blanks(a) <= trimmed_blanks(b))),
    entry!("~>=~" (Char, Char) -> Bool, typed!(|a: &str, b: &str| trimmed_blanks(a) >= trimmed_blanks(b))),
    entry!("~>~" (Char, Char) -> Bool, typed!(|a: &str, b: &str| trimmed_blanks(a) > trimmed_blanks(b))),
    entry!("length" (Text) -> Int4, typed!(|a: &str| characters(a))),
    entry!("length" (Char) -> Int4, typed!(|a: &str| characters(trimmed_blanks(a)))),
    entry!("char_length" (Text) -> Int4, typed!(|a: &str| characters(a))),
    entry!("char_length" (Char) -> Int4, typed!(|a: &str| characters(trimmed_blanks(a)))),
    entry!("character_length" (Text) -> Int4, typed!(|a: &str| characters(a))),
    entry!("character_length" (Char) -> Int4, typed!(|a: &str| characters(trimmed_blanks(a)))),
    entry!("octet_length" (Text) -> Int4, typed!(|a: &str| a.len() as i32)),
    entry!("octet_length" (Char) -> Int4, typed!(|a: &str| a.len() as i32)),
    entry!("bit_length" (Text) -> Int4, typed!(|a: &str| (a.len() as i32).wrapping_mul(8))),
    entry!("lower" (Text) -> Text, typed!(|a: &str| a.chars().map(lower).collect::<EcoString>())),
    entry!("upper" (Text) -> Text, typed!(|a: &str| a.chars().map(upper).collect::<EcoString>())),
    entry!("initcap" (Text) -> Text, typed!(|a: &str| initcap(a))),
    entry!("substring" (Text, Int4) -> Text, typed!(|a: &str, start: i32| substring(a, start, None))),
    entry!("substr" (Text, Int4) -> Text, typed!(|a: &str, start: i32| substring(a, start, None))),
    entry!("substring" (Text, Int4, Int4) -> Text, typed!(|a: &str, start: i32, length: i32| {
        substring(a, start, Some(length))
    })),
    entry!("substr" (Text, Int4, Int4) -> Text, typed!(|a: &str, start: i32, length: i32| {
        substring(a, start, Some(length))
    })),
    entry!("left" (Text, Int4) -> Text, typed!(|a: &str, count: i32| left(a, count))),
    entry!("right" (Text, Int4) -> Text, typed!(|a: &str, count: i32| right(a, count))),
    entry!("strpos" (Text, Text) -> Int4, typed!(|a: &str, b: &str| position(a, b))),
    entry!("position" (Text, Text) -> Int4, typed!(|a: &str, b: &str| position(a, b))),
    entry!("starts_with" (Text, Text) -> Bool, typed!(|a: &str, b: &str| a.starts_with(b))),
    entry!("^@" (Text, Text) -> Bool, typed!(|a: &str, b: &str| a.starts_with(b))),
    entry!("concat" (Any) -> Text, Implementation::Context(|values, c| concatenate(values, "", c).map(Value::Text)))
        .lenient()
        .variadic()
        .stable(),
    entry!("concat_ws" (Text, Any) -> Text, Implementation::Context(concatenate_with_separator))
        .lenient()
        .variadic()
        .stable(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_is_no_longer_than_a_value_may_be() {
        assert_eq!(fits([TEXT_BYTES_MAX - 1, 1]).expect("fits"), TEXT_BYTES_MAX);
        for lengths in [[TEXT_BYTES_MAX, 1], [usize::MAX, usize::MAX]] {
            let error = fits(lengths).expect_err("too long");
            assert_eq!(error.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        }
    }
}
