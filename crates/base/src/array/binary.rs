//! The binary form of arrays.

use super::{Array, DIMENSIONS_MAX, Dimension, Dimensions, too_many_dimensions};
use crate::binary_format::{parse_binary, write_binary};
use crate::text_format::TextContext;
use crate::{ColumnType, DataType, Error, Result, SqlState, Value};

/// Bytes of the binary form before the elements of an array of one dimension.
const HEADER_BYTES: usize = 20;
/// What the length of a NULL element is in the binary form.
const NULL_LENGTH: i32 = -1;

impl Array {
    /// Reads the binary form, of elements of this type. 22P03 for another form, 42804 for another element type.
    pub fn parse_binary(element: ColumnType, bytes: &[u8], context: &TextContext) -> Result<Array> {
        let mut reader = BinaryReader(bytes);
        let (dimensions, _flags, oid) = (reader.number()?, reader.number()?, reader.number()? as u32);
        let own = element.data_type;
        if oid != own.oid() {
            let message = format!(
                "binary data has array element type {oid} ({}) instead of expected {} ({own})",
                DataType::from_oid(oid).map_or("???", DataType::name),
                own.oid()
            );
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let count = usize::try_from(dimensions).map_err(|_| malformed())?;
        if count > DIMENSIONS_MAX {
            return Err(too_many_dimensions(count));
        }
        let mut dimensions = Dimensions::new();
        for _ in 0..count {
            let length = u32::try_from(reader.number()?).map_err(|_| malformed())?;
            let lower = reader.number()?;
            dimensions.push(Dimension { length, lower });
        }
        // An element is at least its length: a false count must not reserve memory.
        let mut items = Vec::new();
        while !reader.0.is_empty() {
            items.push(match reader.number()? {
                NULL_LENGTH => Value::Null,
                length => {
                    let length = usize::try_from(length).map_err(|_| malformed())?;
                    parse_binary(own, element.modifier, reader.take(length)?, context)?
                }
            });
        }
        Array::shaped(own, items, dimensions).map_err(|_| malformed())
    }

    /// Appends the binary form; `element` is what the elements are of by their type.
    pub fn write_binary(&self, element: DataType, context: &TextContext, out: &mut Vec<u8>) {
        out.reserve(HEADER_BYTES + 8 * self.items.len());
        let has_null = self.items.iter().any(Value::is_null);
        out.extend_from_slice(&(self.dimensions.len() as i32).to_be_bytes());
        out.extend_from_slice(&i32::from(has_null).to_be_bytes());
        out.extend_from_slice(&element.oid().to_be_bytes());
        for dimension in &self.dimensions {
            out.extend_from_slice(&dimension.length.to_be_bytes());
            out.extend_from_slice(&dimension.lower.to_be_bytes());
        }
        for item in &self.items {
            if item.is_null() {
                out.extend_from_slice(&NULL_LENGTH.to_be_bytes());
                continue;
            }
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            write_binary(item, element, context, out);
            let length = (out.len() - start - 4) as i32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

fn malformed() -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

struct BinaryReader<'a>(&'a [u8]);

impl<'a> BinaryReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<i32> {
        let bytes = self.take(4)?.try_into().map_err(|_| malformed())?;
        Ok(i32::from_be_bytes(bytes))
    }
}
