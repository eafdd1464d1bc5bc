//! Functions of `bytea`.

use super::FunctionEntry;
use super::argument::{entry, typed};
use rubato_base::{Error, Result, SqlState};

fn joined(a: &[u8], b: &[u8]) -> Vec<u8> {
    [a, b].concat()
}

/// The part of `bytes` from position `start` (from 1), `length` long or to the end.
fn part(bytes: &[u8], start: i32, length: Option<i32>) -> Result<Vec<u8>> {
    let (from, to) = super::text::window(start, length)?;
    let clamp = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(bytes.len());
    Ok(bytes[clamp(from)..clamp(to).max(clamp(from))].to_vec())
}

fn position(bytes: &[u8], wanted: &[u8]) -> i32 {
    if wanted.is_empty() {
        return 1;
    }
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
        .map_or(0, |index| index as i32 + 1)
}

fn byte_at(bytes: &[u8], index: i32) -> Result<i32> {
    let byte = usize::try_from(index).ok().and_then(|index| bytes.get(index));
    byte.map(|byte| i32::from(*byte)).ok_or_else(|| {
        // PostgreSQL's code for it is 2202E.
        let last = bytes.len() as i64 - 1;
        Error::new(
            SqlState(*b"2202E"),
            format!("index {index} out of valid range, 0..{last}"),
        )
    })
}

pub(super) static BYTES: &[FunctionEntry] = &[
    entry!("||" (Bytea, Bytea) -> Bytea, typed!(|a: &[u8], b: &[u8]| joined(a, b))),
    entry!("length" (Bytea) -> Int4, typed!(|a: &[u8]| a.len() as i32)),
    entry!("octet_length" (Bytea) -> Int4, typed!(|a: &[u8]| a.len() as i32)),
    entry!("bit_length" (Bytea) -> Int4, typed!(|a: &[u8]| (a.len() as i32).wrapping_mul(8))),
    entry!("substring" (Bytea, Int4) -> Bytea, typed!(|a: &[u8], start: i32| part(a, start, None))),
    entry!("substr" (Bytea, Int4) -> Bytea, typed!(|a: &[u8], start: i32| part(a, start, None))),
    entry!("substring" (Bytea, Int4, Int4) -> Bytea, typed!(|a: &[u8], start: i32, length: i32| {
        part(a, start, Some(length))
    })),
    entry!("substr" (Bytea, Int4, Int4) -> Bytea, typed!(|a: &[u8], start: i32, length: i32| {
        part(a, start, Some(length))
    })),
    entry!("position" (Bytea, Bytea) -> Int4, typed!(|a: &[u8], b: &[u8]| position(a, b))),
    entry!("get_byte" (Bytea, Int4) -> Int4, typed!(|a: &[u8], index: i32| byte_at(a, index))),
];
