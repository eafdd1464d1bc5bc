//! Bit operations on whole numbers.

use super::FunctionEntry;
use super::argument::{entry, typed};

/// PostgreSQL shifts as the processor does: by the count modulo the width, and a smallint as an integer that is cut afterwards.
fn shift_left_16(a: i16, count: i32) -> i16 {
    i32::from(a).wrapping_shl(count as u32) as i16
}

fn shift_right_16(a: i16, count: i32) -> i16 {
    i32::from(a).wrapping_shr(count as u32) as i16
}

pub(super) static BITS: &[FunctionEntry] = &[
    entry!("&" (Int2, Int2) -> Int2, typed!(|a: i16, b: i16| a & b)),
    entry!("|" (Int2, Int2) -> Int2, typed!(|a: i16, b: i16| a | b)),
    entry!("#" (Int2, Int2) -> Int2, typed!(|a: i16, b: i16| a ^ b)),
    entry!("~" (Int2) -> Int2, typed!(|a: i16| !a)),
    entry!("<<" (Int2, Int4) -> Int2, typed!(|a: i16, b: i32| shift_left_16(a, b))),
    entry!(">>" (Int2, Int4) -> Int2, typed!(|a: i16, b: i32| shift_right_16(a, b))),
    entry!("&" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| a & b)),
    entry!("|" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| a | b)),
    entry!("#" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| a ^ b)),
    entry!("~" (Int4) -> Int4, typed!(|a: i32| !a)),
    entry!("<<" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| a.wrapping_shl(b as u32))),
    entry!(">>" (Int4, Int4) -> Int4, typed!(|a: i32, b: i32| a.wrapping_shr(b as u32))),
    entry!("&" (Int8, Int8) -> Int8, typed!(|a: i64, b: i64| a & b)),
    entry!("|" (Int8, Int8) -> Int8, typed!(|a: i64, b: i64| a | b)),
    entry!("#" (Int8, Int8) -> Int8, typed!(|a: i64, b: i64| a ^ b)),
    entry!("~" (Int8) -> Int8, typed!(|a: i64| !a)),
    entry!("<<" (Int8, Int4) -> Int8, typed!(|a: i64, b: i32| a.wrapping_shl(b as u32))),
    entry!(">>" (Int8, Int4) -> Int8, typed!(|a: i64, b: i32| a.wrapping_shr(b as u32))),
];
