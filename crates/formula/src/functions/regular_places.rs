//! Regular expressions searched from a place on, up to the match of a number, and for a group of it.

use super::argument::{Output, argument, entry, value_at};
use super::regular::{compiled, matches_from, replaced};
use super::{FunctionEntry, Implementation};
use regex::Regex;
use rubato_base::{Error, Result, SqlState, Value};

fn invalid(parameter: &str, value: i32) -> Error {
    let message = format!("invalid value for parameter \"{parameter}\": {value}");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Argument `index` if there are as many, of at least so much.
fn number(arguments: &[Value], index: usize, (name, least): (&str, i32), default: i32) -> Result<i32> {
    match value_at(arguments, index) {
        Value::Int4(value) if *value < least => Err(invalid(name, *value)),
        Value::Int4(value) => Ok(*value),
        _ => Ok(default),
    }
}

/// Where the character with this number begins, counted from 1; behind the end for one that is not there.
fn byte_of(text: &str, place: i32) -> usize {
    let places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places
        .into_iter()
        .nth(place.unsigned_abs() as usize - 1)
        .unwrap_or(text.len() + 1)
}

fn flags_of<'a>(arguments: &'a [Value], index: usize, name: &str) -> Result<&'a str> {
    let flags = value_at(arguments, index).as_str().unwrap_or("");
    without_global(flags, name)?;
    Ok(flags)
}

/// 22023 for the flag that asks for all matches.
pub(crate) fn without_global(flags: &str, name: &str) -> Result<()> {
    if flags.contains('g') {
        let message = format!("{name}() does not support the \"global\" option");
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(())
}

fn count(arguments: &[Value]) -> Result<Value> {
    let text: &str = argument(arguments, 0)?;
    let start = number(arguments, 2, ("start", 1), 1)?;
    let regex = compiled(argument(arguments, 1)?, false, flags_of(arguments, 3, "regexp_count")?)?;
    Ok(Value::Int4(
        matches_from(&regex, text, byte_of(text, start)).count() as i32
    ))
}

/// The group of the match with this number, where it begins and ends; the whole match as group 0.
fn find(text: &str, regex: &Regex, (start, nth, group): (i32, i32, i32)) -> Option<(usize, usize)> {
    let captures = matches_from(regex, text, byte_of(text, start)).nth(nth.unsigned_abs() as usize - 1)?;
    let found = captures.get(group.unsigned_abs() as usize)?;
    Some((found.start(), found.end()))
}

fn place(arguments: &[Value]) -> Result<Value> {
    let text: &str = argument(arguments, 0)?;
    let start = number(arguments, 2, ("start", 1), 1)?;
    let nth = number(arguments, 3, ("n", 1), 1)?;
    let end_option = number(arguments, 4, ("endoption", 0), 0)?;
    if end_option > 1 {
        return Err(invalid("endoption", end_option));
    }
    let flags = flags_of(arguments, 5, "regexp_instr")?;
    let group = number(arguments, 6, ("subexpr", 0), 0)?;
    let regex = compiled(argument(arguments, 1)?, false, flags)?;
    let found = find(text, &regex, (start, nth, group));
    let at = found.map(|(from, until)| if end_option == 1 { until } else { from });
    Ok(Value::Int4(at.map_or(0, |at| text[..at].chars().count() as i32 + 1)))
}

fn part(arguments: &[Value]) -> Result<Value> {
    let text: &str = argument(arguments, 0)?;
    let start = number(arguments, 2, ("start", 1), 1)?;
    let nth = number(arguments, 3, ("n", 1), 1)?;
    let flags = flags_of(arguments, 4, "regexp_substr")?;
    let group = number(arguments, 5, ("subexpr", 0), 0)?;
    let regex = compiled(argument(arguments, 1)?, false, flags)?;
    find(text, &regex, (start, nth, group))
        .map(|(from, until)| &text[from..until])
        .output()
}

/// With `start`, or `start` and `n`, or these and flags.
fn replace(arguments: &[Value]) -> Result<Value> {
    let (text, replacement): (&str, &str) = (argument(arguments, 0)?, argument(arguments, 2)?);
    let start = number(arguments, 3, ("start", 1), 1)?;
    let nth = number(arguments, 4, ("n", 0), 1)?;
    let flags: String = value_at(arguments, 5).as_str().unwrap_or("").replace('g', "");
    let regex = compiled(argument(arguments, 1)?, false, &flags)?;
    let places = (byte_of(text, start), nth.unsigned_abs() as usize);
    replaced(text, &regex, replacement, places).output()
}

pub(super) static REGULAR_PLACES: &[FunctionEntry] = &[
    entry!("regexp_count" (Text, Text) -> Int4, Implementation::Many(count)),
    entry!("regexp_count" (Text, Text, Int4) -> Int4, Implementation::Many(count)),
    entry!("regexp_count" (Text, Text, Int4, Text) -> Int4, Implementation::Many(count)),
    entry!("regexp_instr" (Text, Text) -> Int4, Implementation::Many(place)),
    entry!("regexp_instr" (Text, Text, Int4) -> Int4, Implementation::Many(place)),
    entry!("regexp_instr" (Text, Text, Int4, Int4) -> Int4, Implementation::Many(place)),
    entry!("regexp_instr" (Text, Text, Int4, Int4, Int4) -> Int4, Implementation::Many(place)),
    entry!("regexp_instr" (Text, Text, Int4, Int4, Int4, Text) -> Int4, Implementation::Many(place)),
    entry!("regexp_instr" (Text, Text, Int4, Int4, Int4, Text, Int4) -> Int4, Implementation::Many(place)),
    entry!("regexp_substr" (Text, Text) -> Text, Implementation::Many(part)),
    entry!("regexp_substr" (Text, Text, Int4) -> Text, Implementation::Many(part)),
    entry!("regexp_substr" (Text, Text, Int4, Int4) -> Text, Implementation::Many(part)),
    entry!("regexp_substr" (Text, Text, Int4, Int4, Text) -> Text, Implementation::Many(part)),
    entry!("regexp_substr" (Text, Text, Int4, Int4, Text, Int4) -> Text, Implementation::Many(part)),
    entry!("regexp_replace" (Text, Text, Text, Int4) -> Text, Implementation::Many(replace)),
    entry!("regexp_replace" (Text, Text, Text, Int4, Int4) -> Text, Implementation::Many(replace)),
    entry!("regexp_replace" (Text, Text, Text, Int4, Int4, Text) -> Text, Implementation::Many(replace)),
];
