//! Text: trimming, padding, replacing, splitting, characters by number.

use super::FunctionEntry;
use super::argument::{entry, typed};
use super::text::{TEXT_BYTES_MAX, replaced_window, too_long};
use ecow::EcoString;
use rubato_base::{Error, Result, SqlState};

fn trim<'a>(text: &'a str, set: &str, start: bool, end: bool) -> &'a str {
    let text = if start {
        text.trim_start_matches(|letter| set.contains(letter))
    } else {
        text
    };
    if end {
        text.trim_end_matches(|letter| set.contains(letter))
    } else {
        text
    }
}

/// `text` at `length` characters: cut at its end, or filled with `fill` at its start or end.
fn pad(text: &str, length: i32, fill: &str, at_start: bool) -> Result<EcoString> {
    let length = usize::try_from(length).unwrap_or(0);
    let own = text.chars().count();
    if own >= length || fill.is_empty() {
        return Ok(text.chars().take(length).collect());
    }
    if length.saturating_mul(4) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    let padding: EcoString = fill.chars().cycle().take(length - own).collect();
    let (first, second) = if at_start {
        (padding.as_str(), text)
    } else {
        (text, padding.as_str())
    };
    let mut result = EcoString::with_capacity(first.len() + second.len());
    result.push_str(first);
    result.push_str(second);
    Ok(result)
}

fn repeat(text: &str, count: i32) -> Result<EcoString> {
    let count = usize::try_from(count).unwrap_or(0);
    if text.len().saturating_mul(count) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(EcoString::from(text.repeat(count)))
}

fn replace(text: &str, from: &str, to: &str) -> Result<EcoString> {
    if from.is_empty() || !text.contains(from) {
        return Ok(EcoString::from(text));
    }
    let growth = to
        .len()
        .saturating_sub(from.len())
        .saturating_mul(text.len() / from.len());
    if growth > TEXT_BYTES_MAX && text.matches(from).count().saturating_mul(to.len()) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(EcoString::from(text.replace(from, to)))
}

/// Part `number` of `text` split at `delimiter`, from 1; negative numbers count from the end.
fn split_part(text: &str, delimiter: &str, number: i32) -> Result<EcoString> {
    if number == 0 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "field position must not be zero",
        ));
    }
    let index = number.unsigned_abs() as usize - 1;
    let part = if delimiter.is_empty() {
        (index == 0).then_some(text)
    } else if number > 0 {
        text.split(delimiter).nth(index)
    } else {
        text.rsplit(delimiter).nth(index)
    };
    Ok(EcoString::from(part.unwrap_or("")))
}

/// Each character of `from` becomes the one at its place in `to`, or goes where there is none.
fn translate(text: &str, from: &str, to: &str) -> EcoString {
    let mut result = EcoString::with_capacity(text.len());
    for letter in text.chars() {
        match from.chars().position(|candidate| candidate == letter) {
            None => result.push(letter),
            Some(place) => to
                .chars()
                .nth(place)
                .into_iter()
                .for_each(|replacement| result.push(replacement)),
        }
    }
    result
}

fn character(number: i32) -> Result<EcoString> {
    let error = |message: String| Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    match u32::try_from(number) {
        Ok(0) => error("null character not permitted".to_owned()),
        Err(_) => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "character number must be positive",
        )),
        Ok(number) => match char::from_u32(number) {
            Some(letter) => Ok(EcoString::from(letter)),
            None if number > 0x0010_ffff => error(format!("requested character too large for encoding: {number}")),
            None => error(format!("requested character not valid for encoding: {number}")),
        },
    }
}

pub(super) static TEXT_EDIT: &[FunctionEntry] = &[
    entry!("btrim" (Text) -> Text, typed!(|a: &str| trim(a, " ", true, true))),
    entry!("btrim" (Text, Text) -> Text, typed!(|a: &str, set: &str| trim(a, set, true, true))),
    entry!("trim" (Text) -> Text, typed!(|a: &str| trim(a, " ", true, true))),
    entry!("ltrim" (Text) -> Text, typed!(|a: &str| trim(a, " ", true, false))),
    entry!("ltrim" (Text, Text) -> Text, typed!(|a: &str, set: &str| trim(a, set, true, false))),
    entry!("rtrim" (Text) -> Text, typed!(|a: &str| trim(a, " ", false, true))),
    entry!("rtrim" (Text, Text) -> Text, typed!(|a: &str, set: &str| trim(a, set, false, true))),
    entry!("lpad" (Text, Int4) -> Text, typed!(|a: &str, length: i32| pad(a, length, " ", true))),
    entry!("lpad" (Text, Int4, Text) -> Text, typed!(|a: &str, length: i32, fill: &str| pad(a, length, fill, true))),
    entry!("rpad" (Text, Int4) -> Text, typed!(|a: &str, length: i32| pad(a, length, " ", false))),
    entry!("rpad" (Text, Int4, Text) -> Text, typed!(|a: &str, length: i32, fill: &str| pad(a, length, fill, false))),
    entry!("repeat" (Text, Int4) -> Text, typed!(|a: &str, count: i32| repeat(a, count))),
    entry!("reverse" (Text) -> Text, typed!(|a: &str| a.chars().rev().collect::<EcoString>())),
    entry!("replace" (Text, Text, Text) -> Text, typed!(|a: &str, from: &str, to: &str| replace(a, from, to))),
    entry!("overlay" (Text, Text, Int4) -> Text, typed!(|a: &str, b: &str, start: i32| {
        overlay(a, b, start, b.chars().count() as i32)
    })),
    entry!("overlay" (Text, Text, Int4, Int4) -> Text, typed!(|a: &str, b: &str, start: i32, length: i32| {
        overlay(a, b, start, length)
    })),
    entry!("split_part" (Text, Text, Int4) -> Text, typed!(|a: &str, delimiter: &str, number: i32| {
        split_part(a, delimiter, number)
    })),
    entry!("translate" (Text, Text, Text) -> Text, typed!(|a: &str, from: &str, to: &str| translate(a, from, to))),
    entry!("ascii" (Text) -> Int4, typed!(|a: &str| a.chars().next().map_or(0, |letter| letter as i32))),
    entry!("chr" (Int4) -> Text, typed!(|a: i32| character(a))),
    entry!("to_hex" (Int4) -> Text, typed!(|a: i32| format!("{a:x}"))),
    entry!("to_hex" (Int8) -> Text, typed!(|a: i64| format!("{a:x}"))),
];

/// `text` with `length` characters from `start` (from 1) replaced by `patch`.
fn overlay(text: &str, patch: &str, start: i32, length: i32) -> Result<EcoString> {
    let (start, resume) = replaced_window(start, length)?;
    Ok(text
        .chars()
        .take(start)
        .chain(patch.chars())
        .chain(text.chars().skip(resume))
        .collect())
}
