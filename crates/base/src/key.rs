//! The ordered key codec: bytes that compare as the values do.
//!
//! A component is a tag (1 for a value, 255 for NULL, so that NULL stands last) and the value's bytes: whole numbers
//! big-endian with the sign flipped, floats with their order made bytewise, text with a 0 at its end (text holds no NUL),
//! bytea with 0 escaped as 0 255 and 0 0 at its end. The type of each component is known from the catalog, not from the key.

use crate::array::{DIMENSIONS_MAX, Dimension};
use crate::codec::damaged;
use crate::datetime::Interval;
use crate::{Array, DataType, EnumValue, Json, Network, Numeric, Result, Value};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const END_OF_ARRAY: u8 = 0;
const VALUE: u8 = 1;
const NULL: u8 = 255;

/// Bytes that a key holds inline: with its length and the mark of which form it is, a key is 32 bytes.
const INLINE_BYTES: usize = 30;

/// An encoded key. Up to 30 bytes are held inline.
///
/// Keys that are inline compare in words, without a loop over bytes: with those of a 24-byte `SmallVec`, which compare as
/// slices do, a search of the ordered keys took about twice as long, a quarter of the time of a recovery.
#[derive(PartialEq, Eq)]
pub struct Key(Bytes);

#[derive(PartialEq, Eq)]
enum Bytes {
    /// What is behind the length is zero.
    Inline { length: u8, bytes: [u8; INLINE_BYTES] },
    /// More than fit inline.
    Heap(Box<[u8]>),
}

/// The derived one would go through the parts of the enumeration.
impl Clone for Key {
    #[inline]
    fn clone(&self) -> Key {
        match &self.0 {
            Bytes::Inline { length, bytes } => Key(Bytes::Inline {
                length: *length,
                bytes: *bytes,
            }),
            Bytes::Heap(bytes) => Key(Bytes::Heap(bytes.clone())),
        }
    }
}

impl Default for Key {
    fn default() -> Key {
        Key::from_bytes(&[])
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        match (&self.0, &other.0) {
            (
                Bytes::Inline { length, bytes },
                Bytes::Inline {
                    length: other_length,
                    bytes: other_bytes,
                },
            ) => compare_inline(bytes, other_bytes).then(length.cmp(other_length)),
            _ => self.as_bytes().cmp(other.as_bytes()),
        }
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares as the bytes do that are there; where one goes on with zeros behind the end of the other, the lengths decide.
#[inline]
fn compare_inline(left: &[u8; INLINE_BYTES], right: &[u8; INLINE_BYTES]) -> Ordering {
    // The last word overlaps the one before it, in bytes that are equal by then.
    for from in [0, 8, 16, INLINE_BYTES - 8] {
        let (left, right) = (word(left, from), word(right, from));
        if left != right {
            return left.cmp(&right);
        }
    }
    Ordering::Equal
}

#[inline]
fn word(bytes: &[u8; INLINE_BYTES], from: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[from..from + 8]);
    u64::from_be_bytes(word)
}

impl Key {
    /// A key of these bytes.
    #[inline]
    pub fn from_bytes(from: &[u8]) -> Key {
        if from.len() > INLINE_BYTES {
            return Key(Bytes::Heap(from.into()));
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..from.len()].copy_from_slice(from);
        Key(Bytes::Inline {
            length: from.len() as u8,
            bytes,
        })
    }

    /// The key of these values.
    pub fn of(values: &[Value]) -> Key {
        let mut writer = KeyWriter::default();
        values.iter().for_each(|value| writer.push(value));
        writer.finish()
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Heap(bytes) => bytes,
        }
    }

    /// Bytes held outside the key itself.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Inline { .. } => 0,
            Bytes::Heap(bytes) => bytes.len(),
        }
    }
}

/// As the bytes do, since a key is looked for by them.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl Borrow<[u8]> for Key {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The smallest key above every key that starts with `prefix`; `None` if there is none.
pub fn prefix_successor(prefix: &[u8]) -> Option<Key> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut bytes: SmallVec<[u8; INLINE_BYTES]> = SmallVec::from_slice(&prefix[..=last]);
    bytes[last] += 1;
    Some(Key::from_bytes(&bytes))
}

/// Writes a key component by component.
#[derive(Default)]
pub struct KeyWriter(SmallVec<[u8; INLINE_BYTES]>);

impl KeyWriter {
    /// Continues after a key that is already there.
    #[inline]
    pub fn from_prefix(prefix: &[u8]) -> KeyWriter {
        KeyWriter(SmallVec::from_slice(prefix))
    }

    /// Appends a component.
    pub fn push(&mut self, value: &Value) {
        if value.is_null() {
            self.0.push(NULL);
            return;
        }
        self.0.push(VALUE);
        match value {
            Value::Null => {}
            Value::Bool(v) => self.0.push(u8::from(*v)),
            Value::Int2(v) => self.0.extend_from_slice(&((*v as u16) ^ (1 << 15)).to_be_bytes()),
            Value::Int4(v) | Value::Date(v) => self.push_u32((*v as u32) ^ (1 << 31)),
            Value::Int8(v) | Value::Time(v) | Value::Timestamp(v) | Value::TimestampTz(v) => self.push_i64(*v),
            Value::Float4(v) => self.push_u32(ordered_f32(*v)),
            Value::Float8(v) => self.push_u64(ordered_f64(*v)),
            Value::Numeric(v) => v.encode_key(&mut self.0),
            Value::Text(v) => {
                self.0.extend_from_slice(v.as_bytes());
                self.0.push(0);
            }
            Value::Bytea(v) => {
                for byte in v.iter() {
                    self.0.push(*byte);
                    if *byte == 0 {
                        self.0.push(255);
                    }
                }
                self.0.extend_from_slice(&[0, 0]);
            }
            Value::Interval(v) => {
                // Equal intervals of different spelling must be one key: the order value first, then the parts.
                self.0
                    .extend_from_slice(&(interval_order(v) ^ (1 << 127)).to_be_bytes());
            }
            Value::Uuid(v) => self.0.extend_from_slice(v),
            Value::Array(v) => self.push_array(v),
            Value::Jsonb(v) => v.write_key(self),
            Value::Enum(v) => self.push_i64(v.position),
            Value::Inet(v) | Value::Cidr(v) => v.encode_key(|bytes| self.0.extend_from_slice(bytes)),
            Value::MacAddr(v) => self.0.extend_from_slice(v),
            Value::MacAddr8(v) => self.0.extend_from_slice(v),
        }
    }

    /// The elements, then what orders arrays of the same elements: how many dimensions, their lengths and bounds.
    fn push_array(&mut self, array: &Array) {
        array.items.iter().for_each(|item| self.push(item));
        self.0.push(END_OF_ARRAY);
        self.0.push(array.dimensions().len() as u8);
        for dimension in array.dimensions() {
            self.push_u32(dimension.length);
        }
        for dimension in array.dimensions() {
            self.push_u32((dimension.lower as u32) ^ (1 << 31));
        }
    }

    #[inline]
    fn push_u32(&mut self, bits: u32) {
        self.0.extend_from_slice(&bits.to_be_bytes());
    }

    #[inline]
    fn push_u64(&mut self, bits: u64) {
        self.0.extend_from_slice(&bits.to_be_bytes());
    }

    #[inline]
    fn push_i64(&mut self, value: i64) {
        self.push_u64((value as u64) ^ (1 << 63));
    }

    /// Appends bytes that are already a key.
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key.
    pub fn finish(self) -> Key {
        Key::from_bytes(&self.0)
    }
}

/// Microseconds with 30-day months and 24-hour days, as PostgreSQL orders intervals.
fn interval_order(interval: &Interval) -> u128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    (days * 86_400_000_000 + i128::from(interval.microseconds)) as u128
}

fn ordered_f32(value: f32) -> u32 {
    let bits = if value.is_nan() {
        f32::NAN.to_bits()
    } else {
        (value + 0.0).to_bits()
    };
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

fn ordered_f64(value: f64) -> u64 {
    let bits = if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        (value + 0.0).to_bits()
    };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Reads a key component by component, given the types.
#[derive(Clone, Debug)]
pub struct KeyReader<'a> {
    rest: &'a [u8],
}

impl<'a> KeyReader<'a> {
    /// A reader from the first component.
    pub fn new(key: &'a [u8]) -> KeyReader<'a> {
        KeyReader { rest: key }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next component, which was written with a value of `data_type`.
    pub fn next(&mut self, data_type: DataType) -> Result<Value> {
        match self.take(1)?[0] {
            NULL => return Ok(Value::Null),
            VALUE => {}
            _ => return Err(damaged("a key component has no tag")),
        }
        Ok(match data_type {
            DataType::Bool => Value::Bool(self.take(1)?[0] != 0),
            DataType::Int2 => Value::Int2((u16::from_be_bytes(self.array()?) ^ (1 << 15)) as i16),
            DataType::Int4 => Value::Int4((u32::from_be_bytes(self.array()?) ^ (1 << 31)) as i32),
            DataType::Date => Value::Date((u32::from_be_bytes(self.array()?) ^ (1 << 31)) as i32),
            DataType::Int8 | DataType::Oid => Value::Int8(self.i64()?),
            DataType::Time => Value::Time(self.i64()?),
            DataType::Timestamp => Value::Timestamp(self.i64()?),
            DataType::TimestampTz => Value::TimestampTz(self.i64()?),
            DataType::Float4 => {
                let bits = u32::from_be_bytes(self.array()?);
                Value::Float4(f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits }))
            }
            DataType::Float8 => {
                let bits = u64::from_be_bytes(self.array()?);
                Value::Float8(f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits }))
            }
            DataType::Numeric => {
                let (number, used) = Numeric::decode_key(self.rest)?;
                self.take(used)?;
                Value::Numeric(number)
            }
            DataType::Text | DataType::Varchar | DataType::Char | DataType::Name | DataType::Unknown => {
                let end = self
                    .rest
                    .iter()
                    .position(|byte| *byte == 0)
                    .ok_or_else(|| damaged("a text key has no end"))?;
                let text = std::str::from_utf8(self.take(end)?).map_err(|_| damaged("a text key is not UTF-8"))?;
                self.take(1)?;
                Value::text(text)
            }
            DataType::Bytea => Value::bytea(&self.escaped()?),
            DataType::Interval => {
                let order = (u128::from_be_bytes(self.array()?) ^ (1 << 127)) as i128;
                Value::Interval(Interval {
                    months: 0,
                    days: (order / 86_400_000_000) as i32,
                    microseconds: (order % 86_400_000_000) as i64,
                })
            }
            DataType::Uuid => Value::Uuid(self.array()?),
            DataType::Inet => Value::Inet(self.network()?),
            DataType::Cidr => Value::Cidr(self.network()?),
            DataType::MacAddr => Value::MacAddr(self.array()?),
            DataType::MacAddr8 => Value::MacAddr8(self.array()?),
            DataType::Jsonb => Value::Jsonb(Arc::new(Json::read_key(self)?)),
            DataType::Enum(type_oid) => Value::Enum(EnumValue {
                type_oid,
                position: self.i64()?,
            }),
            other => match other.element() {
                Some(element) => Value::Array(Arc::new(self.elements(element)?)),
                None => return Err(damaged(&format!("a key has a component of type {other}"))),
            },
        })
    }

    fn i64(&mut self) -> Result<i64> {
        Ok((u64::from_be_bytes(self.array()?) ^ (1 << 63)) as i64)
    }

    fn elements(&mut self, element: DataType) -> Result<Array> {
        let mut items = Vec::new();
        while self.rest.first() != Some(&END_OF_ARRAY) {
            items.push(self.next(element)?);
        }
        self.take(1)?;
        let count = usize::from(self.take(1)?[0]).min(DIMENSIONS_MAX + 1);
        let mut numbers = Vec::with_capacity(2 * count);
        for _ in 0..2 * count {
            numbers.push(u32::from_be_bytes(self.array()?));
        }
        let (lengths, lowers) = numbers.split_at(count);
        let dimensions = lengths.iter().zip(lowers).map(|(length, lower)| Dimension {
            length: *length,
            lower: (lower ^ (1 << 31)) as i32,
        });
        Array::shaped(element, items, dimensions.collect()).map_err(|error| damaged(error.message()))
    }

    fn network(&mut self) -> Result<Network> {
        let family = self.rest.first().copied().unwrap_or_default();
        Network::decode_key(self.take(Network::key_length(family))?)
    }

    fn escaped(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            match self.take(1)?[0] {
                0 => match self.take(1)?[0] {
                    0 => return Ok(bytes),
                    _ => bytes.push(0),
                },
                byte => bytes.push(byte),
            }
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.rest.len() {
            return Err(damaged("a key ends early"));
        }
        let (head, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(values: Vec<Value>, data_type: DataType) {
        for a in &values {
            let mut reader_key = Key::of(&[a.clone(), Value::Int4(5)]);
            let mut reader = KeyReader::new(reader_key.as_bytes());
            assert_eq!(&reader.next(data_type).unwrap(), a);
            assert_eq!(reader.next(DataType::Int4).unwrap(), Value::Int4(5));
            reader_key = Key::of(std::slice::from_ref(a));
            for b in &values {
                let other = Key::of(std::slice::from_ref(b));
                assert_eq!(reader_key.cmp(&other), a.order(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn keys_order_as_values_do() {
        use Value::{Float8, Int2, Int4, Int8, Null};
        ordered(
            vec![Int2(-5), Int2(0), Int2(i16::MAX), Int2(i16::MIN), Null],
            DataType::Int2,
        );
        ordered(
            vec![Int4(-5), Int4(0), Int4(i32::MAX), Int4(i32::MIN), Null],
            DataType::Int4,
        );
        ordered(
            vec![Int8(-5), Int8(0), Int8(i64::MAX), Int8(i64::MIN), Null],
            DataType::Int8,
        );
        let floats = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.5, f64::INFINITY, f64::NAN];
        ordered(floats.into_iter().map(Float8).collect(), DataType::Float8);
        ordered(
            floats.into_iter().map(|v| Value::Float4(v as f32)).collect(),
            DataType::Float4,
        );
        ordered(
            ["", "a", "ab", "b", "ä"]
                .into_iter()
                .map(Value::text)
                .chain([Null])
                .collect(),
            DataType::Text,
        );
        let blobs: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"\0\x01", b"\x01", b"\xff"];
        ordered(
            blobs.into_iter().map(Value::bytea).chain([Null]).collect(),
            DataType::Bytea,
        );
        ordered(vec![Value::Bool(false), Value::Bool(true), Null], DataType::Bool);
        ordered(vec![Value::Uuid([0; 16]), Value::Uuid([7; 16])], DataType::Uuid);
    }

    #[test]
    fn a_prefix_has_a_successor_above_all_its_keys() {
        let prefix = Key::of(&[Value::Int4(7)]);
        let above = prefix_successor(prefix.as_bytes()).unwrap();
        assert!(Key::of(&[Value::Int4(7), Value::Null]) < above);
        assert!(Key::of(&[Value::Int4(8)]) >= above);
        assert!(prefix_successor(&[0xff, 0xff]).is_none());
    }

    #[test]
    fn damaged_keys_are_errors() {
        assert!(KeyReader::new(&[]).next(DataType::Int4).is_err());
        assert!(KeyReader::new(&[1, 2]).next(DataType::Int4).is_err());
        assert!(KeyReader::new(&[1, b'a']).next(DataType::Text).is_err());
        assert!(KeyReader::new(&[3]).next(DataType::Text).is_err());
    }

    #[test]
    fn keys_compare_and_hash_as_their_bytes_do() {
        use std::hash::BuildHasher;
        let lengths = [0, 1, 7, 8, 9, 15, 16, 17, 22, 23, 24, 25, 29, 30, 31, 40];
        let mut all: Vec<Vec<u8>> = Vec::new();
        for length in lengths {
            all.push(vec![0; length]);
            all.push(vec![0xff; length]);
            for at in 0..length {
                let mut bytes = vec![1; length];
                bytes[at] = if at % 2 == 0 { 0 } else { 2 };
                all.push(bytes);
            }
        }
        let hashes = std::hash::RandomState::new();
        for a in &all {
            let key = Key::from_bytes(a);
            assert_eq!(key.as_bytes(), &a[..]);
            assert_eq!(key.heap_bytes() > 0, a.len() > INLINE_BYTES);
            assert_eq!(hashes.hash_one(&key), hashes.hash_one(&a[..]));
            for b in &all {
                let other = Key::from_bytes(b);
                assert_eq!(key.cmp(&other), a.cmp(b), "{a:?} {b:?}");
                assert_eq!(key == other, a == b, "{a:?} {b:?}");
            }
        }
    }
}
