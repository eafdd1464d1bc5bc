//! The packed row: what memory, log and store hold, in the same bytes.
//!
//! Layout: one byte of flags (bit 0: wide offsets), the number of columns as u16, the end offset of each column's bytes
//! (u16, or u32 when wide) counted from the start of the data, then the data. A column is [`crate::codec::encode_value`]'s
//! bytes; NULL is empty. A row may have fewer columns than its table has now: the missing ones were added later.

use crate::codec::{check_value, damaged, decode_value, encode_value};
use crate::{DataType, Result, Value};
use std::fmt;

const HEADER_BYTES: usize = 3;
const WIDE: u8 = 1;

/// A packed row.
#[derive(Clone, PartialEq, Eq)]
pub struct Row(Box<[u8]>);

/// A packed row somewhere else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RowRef<'a>(&'a [u8]);

impl Row {
    /// Packs `values`.
    pub fn from_values(values: &[Value]) -> Row {
        let mut builder = RowBuilder::with_capacity(values.iter().map(about_bytes).sum());
        values.iter().for_each(|value| builder.push(value));
        builder.finish()
    }

    /// Takes bytes from outside: every column is checked, so that later access cannot fail.
    pub fn from_bytes(bytes: Box<[u8]>) -> Result<Row> {
        check(&bytes)?;
        Ok(Row(bytes))
    }

    /// The row, borrowed.
    #[inline]
    pub fn as_ref(&self) -> RowRef<'_> {
        RowRef(&self.0)
    }

    /// The packed bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Column `index`; NULL if the row has fewer columns.
    #[inline]
    pub fn get(&self, index: usize) -> Value {
        self.as_ref().get(index)
    }

    /// Puts `value` in column `index` without moving anything, if the old and the new bytes are equally long.
    fn set_in_place(&mut self, index: usize, value: &Value, scratch: &mut Vec<u8>) -> bool {
        scratch.clear();
        encode_value(value, scratch);
        let Some((start, end)) = self.as_ref().column_range(index) else {
            return false;
        };
        if end - start != scratch.len() {
            return false;
        }
        self.0[start..end].copy_from_slice(scratch);
        true
    }

    /// Changes the given columns (column, new value); the row grows to hold the largest index, with NULL in what it did not have.
    pub fn set(&mut self, changes: &[(usize, Value)]) {
        let mut scratch = Vec::with_capacity(16);
        let moved: Vec<&(usize, Value)> = changes
            .iter()
            .filter(|(index, value)| !self.set_in_place(*index, value, &mut scratch))
            .collect();
        if moved.is_empty() {
            return;
        }
        let old = self.as_ref();
        let columns = changes
            .iter()
            .map(|(index, _)| index + 1)
            .max()
            .unwrap_or(0)
            .max(old.column_count());
        let mut builder = RowBuilder::with_capacity(self.0.len() + 32);
        for index in 0..columns {
            match moved.iter().rev().find(|change| change.0 == index) {
                Some(change) => builder.push(&change.1),
                None => builder.push_encoded(old.encoded(index)),
            }
        }
        *self = builder.finish();
    }
}

impl<'a> RowRef<'a> {
    /// Trusts `bytes` to be a row that [`Row::from_bytes`] would take; access to damaged columns gives NULL.
    pub fn trusted(bytes: &'a [u8]) -> RowRef<'a> {
        RowRef(bytes)
    }

    /// The packed bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// An owned copy.
    pub fn to_row(self) -> Row {
        Row(self.0.into())
    }

    /// How many columns are held.
    #[inline]
    pub fn column_count(self) -> usize {
        usize::from(u16::from_le_bytes([self.0[1], self.0[2]]))
    }

    #[inline]
    fn end(self, index: usize) -> usize {
        if self.0[0] & WIDE == 0 {
            let at = HEADER_BYTES + index * 2;
            usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
        } else {
            let at = HEADER_BYTES + index * 4;
            u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]]) as usize
        }
    }

    #[inline]
    fn column_range(self, index: usize) -> Option<(usize, usize)> {
        let count = self.column_count();
        if index >= count {
            return None;
        }
        let data = HEADER_BYTES + count * if self.0[0] & WIDE == 0 { 2 } else { 4 };
        let start = if index == 0 { 0 } else { self.end(index - 1) };
        Some((data + start, data + self.end(index)))
    }

    /// Where the data begins.
    fn data_start(self) -> usize {
        HEADER_BYTES + self.column_count() * if self.0[0] & WIDE == 0 { 2 } else { 4 }
    }

    /// The data of the columns from `index` on.
    fn data_from(self, index: usize) -> &'a [u8] {
        let before = if index == 0 { 0 } else { self.end(index - 1) };
        &self.0[self.data_start() + before..]
    }

    /// Appends the row to `out` with the columns of `tail` behind its own: those whose places it does not have. Nothing is
    /// appended but the row if it has as many columns as `tail`.
    pub fn lengthened_into(self, tail: RowRef<'_>, out: &mut Vec<u8>) {
        let (own, all) = (self.column_count(), tail.column_count());
        if own >= all {
            out.extend_from_slice(self.0);
            return;
        }
        let (data, more) = (self.data_from(0), tail.data_from(own));
        let is_narrow = (self.0[0] | tail.0[0]) & WIDE == 0 && data.len() + more.len() <= usize::from(u16::MAX);
        if !is_narrow {
            let columns = (0..all).map(|index| match index < own {
                true => self.encoded(index),
                false => tail.encoded(index),
            });
            return pack_columns(columns, out);
        }
        out.reserve(HEADER_BYTES + all * 2 + data.len() + more.len());
        out.push(0);
        out.extend_from_slice(&(all as u16).to_le_bytes());
        out.extend_from_slice(&self.0[HEADER_BYTES..HEADER_BYTES + own * 2]);
        let before = if own == 0 { 0 } else { tail.end(own - 1) };
        for index in own..all {
            let end = data.len() + tail.end(index) - before;
            out.extend_from_slice(&(end as u16).to_le_bytes());
        }
        out.extend_from_slice(data);
        out.extend_from_slice(more);
    }

    /// The row with the columns of `tail` behind its own, see [`RowRef::lengthened_into`].
    pub fn lengthened(self, tail: RowRef<'_>) -> Row {
        let mut bytes = Vec::new();
        self.lengthened_into(tail, &mut bytes);
        Row(bytes.into_boxed_slice())
    }

    /// The encoded bytes of column `index`: empty for NULL and for a column that the row does not have.
    #[inline]
    pub fn encoded(self, index: usize) -> &'a [u8] {
        self.column_range(index).map_or(&[], |(start, end)| &self.0[start..end])
    }

    /// Column `index`; NULL if the row has fewer columns.
    #[inline]
    pub fn get(self, index: usize) -> Value {
        decode_value(self.encoded(index)).unwrap_or_default()
    }

    /// The bytes of the text in column `index`, where it holds one.
    #[inline]
    pub fn text(self, index: usize) -> Option<&'a [u8]> {
        match self.encoded(index) {
            [tag, text @ ..] if *tag == DataType::Text.tag() => Some(text),
            _ => None,
        }
    }

    /// All columns.
    pub fn values(self) -> Vec<Value> {
        (0..self.column_count()).map(|index| self.get(index)).collect()
    }
}

impl fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values()).finish()
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

fn check(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER_BYTES || bytes[0] & !WIDE != 0 {
        return Err(damaged("a row has no header"));
    }
    let row = RowRef(bytes);
    let count = row.column_count();
    let data = HEADER_BYTES + count * if bytes[0] & WIDE == 0 { 2 } else { 4 };
    if bytes.len() < data {
        return Err(damaged("a row ends within its offsets"));
    }
    let mut start = 0;
    for index in 0..count {
        let end = row.end(index);
        if end < start || data + end > bytes.len() {
            return Err(damaged("a row has offsets out of order"));
        }
        check_value(&bytes[data + start..data + end])?;
        start = end;
    }
    if data + start != bytes.len() {
        return Err(damaged("a row is longer than its columns"));
    }
    Ok(())
}

/// Appends a row to `out` whose columns have these encoded bytes (see [`crate::codec::encode_value`]), without an allocation of
/// its own: for those that pack many rows.
pub fn pack_columns<'a>(columns: impl ExactSizeIterator<Item = &'a [u8]> + Clone, out: &mut Vec<u8>) {
    let data_bytes: usize = columns.clone().map(<[u8]>::len).sum();
    let wide = data_bytes > usize::from(u16::MAX);
    let offset_bytes = if wide { 4 } else { 2 };
    out.reserve(HEADER_BYTES + columns.len() * offset_bytes + data_bytes);
    out.push(if wide { WIDE } else { 0 });
    out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
    let mut end = 0u32;
    for column in columns.clone() {
        end += column.len() as u32;
        out.extend_from_slice(&end.to_le_bytes()[..offset_bytes]);
    }
    columns.for_each(|column| out.extend_from_slice(column));
}

/// Packs a row column by column.
pub struct RowBuilder {
    ends: Vec<u32>,
    data: Vec<u8>,
}

/// How many bytes the value takes in a row: that many for most, about that many for the rest.
fn about_bytes(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Int4(_) | Value::Date(_) | Value::Float4(_) => 5,
        Value::Int8(_) | Value::Float8(_) | Value::Timestamp(_) | Value::TimestampTz(_) => 9,
        Value::Text(text) => 1 + text.len(),
        other => 12 + other.heap_bytes(),
    }
}

impl RowBuilder {
    /// A builder with room for `bytes` of data.
    pub fn with_capacity(bytes: usize) -> RowBuilder {
        RowBuilder {
            ends: Vec::with_capacity(16),
            data: Vec::with_capacity(bytes),
        }
    }

    /// Appends a column.
    pub fn push(&mut self, value: &Value) {
        encode_value(value, &mut self.data);
        self.ends.push(self.data.len() as u32);
    }

    /// Appends a column in its encoded form.
    #[inline]
    pub fn push_encoded(&mut self, encoded: &[u8]) {
        self.data.extend_from_slice(encoded);
        self.ends.push(self.data.len() as u32);
    }

    /// The packed row.
    pub fn finish(self) -> Row {
        let wide = self.data.len() > usize::from(u16::MAX);
        let offset_bytes = if wide { 4 } else { 2 };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.ends.len() * offset_bytes + self.data.len());
        bytes.push(if wide { WIDE } else { 0 });
        bytes.extend_from_slice(&(self.ends.len() as u16).to_le_bytes());
        for end in &self.ends {
            bytes.extend_from_slice(&end.to_le_bytes()[..offset_bytes]);
        }
        bytes.extend_from_slice(&self.data);
        Row(bytes.into_boxed_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Value> {
        vec![
            Value::Int4(1),
            Value::Null,
            Value::text("hello"),
            Value::Int8(-5),
            Value::text(""),
        ]
    }

    #[test]
    fn rows_round_trip_also_wide_ones() {
        let mut values = sample();
        for wide in [false, true] {
            if wide {
                values.push(Value::text(&"x".repeat(70_000)));
            }
            let row = Row::from_values(&values);
            assert_eq!(row.as_ref().values(), values);
            let mut packed = vec![7];
            pack_columns(
                (0..values.len()).map(|column| row.as_ref().encoded(column)),
                &mut packed,
            );
            assert_eq!(&packed[1..], row.as_bytes());
            assert_eq!(Row::from_bytes(row.as_bytes().into()).unwrap(), row);
            assert_eq!(row.get(99), Value::Null);
            let texts: Vec<_> = (0..6).map(|index| row.as_ref().text(index)).collect();
            assert_eq!(texts[..5], [None, None, Some(&b"hello"[..]), None, Some(&b""[..])]);
            assert_eq!(texts[5].map(<[u8]>::len), wide.then_some(70_000));
        }
    }

    #[test]
    fn columns_change_in_place_or_by_moving() {
        let mut row = Row::from_values(&sample());
        let length = row.as_bytes().len();
        row.set(&[(0, Value::Int4(9))]);
        assert_eq!((row.get(0), row.as_bytes().len()), (Value::Int4(9), length));
        row.set(&[
            (2, Value::text("a longer text")),
            (1, Value::Bool(true)),
            (6, Value::Int2(4)),
        ]);
        let expected = [
            Value::Int4(9),
            Value::Bool(true),
            Value::text("a longer text"),
            Value::Int8(-5),
            Value::text(""),
            Value::Null,
            Value::Int2(4),
        ];
        assert_eq!(row.as_ref().values(), expected);
    }

    #[test]
    fn a_row_gets_the_columns_that_it_does_not_have() {
        let long = Value::text(&"x".repeat(40_000));
        let tails = [
            vec![
                Value::Null,
                Value::Int4(8),
                Value::text("tail"),
                Value::Null,
                Value::Int8(7),
            ],
            vec![long.clone(), long.clone(), Value::Int2(3)],
            vec![Value::Null, Value::Null, long.clone()],
            vec![],
        ];
        let rows = [
            vec![],
            vec![Value::Int4(1)],
            sample(),
            vec![long.clone(), Value::Null],
            vec![long.clone(), long],
        ];
        for tail in &tails {
            for row in &rows {
                let mut expected = row.clone();
                expected.extend(tail.iter().skip(row.len()).cloned());
                let (row, tail) = (Row::from_values(row), Row::from_values(tail));
                let lengthened = row.as_ref().lengthened(tail.as_ref());
                assert_eq!(lengthened, Row::from_values(&expected));
                assert_eq!(Row::from_bytes(lengthened.as_bytes().into()).unwrap(), lengthened);
            }
        }
    }

    #[test]
    fn damaged_rows_are_refused_at_every_cut_and_flip() {
        let bytes = Row::from_values(&sample()).as_bytes().to_vec();
        for cut in 0..bytes.len() {
            assert!(Row::from_bytes(bytes[..cut].into()).is_err());
        }
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 0x80;
            if let Ok(row) = Row::from_bytes(flipped.into()) {
                row.as_ref().values();
            }
        }
    }
}
