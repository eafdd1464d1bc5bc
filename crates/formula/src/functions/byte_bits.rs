//! The bits of byte strings, and changes of single bytes.

use super::FunctionEntry;
use super::argument::{entry, typed};
use rubato_base::{Error, Result, SqlState};

fn out_of_range(index: i64, count: i64) -> Error {
    let message = format!("index {index} out of valid range, 0..{}", count - 1);
    Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

/// The byte that has a bit, and the bit in it: bits count from the lowest of the first byte.
fn place_of_bit(bytes: &[u8], index: i64) -> Result<(usize, u8)> {
    let count = bytes.len() as i64 * 8;
    if !(0..count).contains(&index) {
        return Err(out_of_range(index, count));
    }
    Ok(((index / 8) as usize, 1 << (index % 8)))
}

fn bit(bytes: &[u8], index: i64) -> Result<i32> {
    let (byte, mask) = place_of_bit(bytes, index)?;
    Ok(i32::from(bytes[byte] & mask != 0))
}

fn with_bit(bytes: &[u8], index: i64, value: i32) -> Result<Vec<u8>> {
    let (byte, mask) = place_of_bit(bytes, index)?;
    let mut bytes = bytes.to_vec();
    match value {
        0 => bytes[byte] &= !mask,
        1 => bytes[byte] |= mask,
        _ => return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
    }
    Ok(bytes)
}

fn with_byte(bytes: &[u8], index: i32, value: i32) -> Result<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let count = bytes.len() as i64;
    let byte = usize::try_from(index).ok().and_then(|index| bytes.get_mut(index));
    *byte.ok_or_else(|| out_of_range(index.into(), count))? = value as u8;
    Ok(bytes)
}

fn count(bytes: &[u8]) -> i64 {
    bytes.iter().map(|byte| i64::from(byte.count_ones())).sum()
}

pub(super) static BYTE_BITS: &[FunctionEntry] = &[
    entry!("get_bit" (Bytea, Int8) -> Int4, typed!(|bytes: &[u8], index: i64| bit(bytes, index))),
    entry!("set_bit" (Bytea, Int8, Int4) -> Bytea, typed!(|bytes: &[u8], index: i64, value: i32| {
        with_bit(bytes, index, value)
    })),
    entry!("set_byte" (Bytea, Int4, Int4) -> Bytea, typed!(|bytes: &[u8], index: i32, value: i32| {
        with_byte(bytes, index, value)
    })),
    entry!("bit_count" (Bytea) -> Int8, typed!(|bytes: &[u8]| count(bytes))),
];
