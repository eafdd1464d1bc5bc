//! The binary format: a signature, then records of counted fields, then a trailer.

use super::BINARY_SIGNATURE;
use super::fields::{Fields, Record, bad_format};
use rubato_base::Result;

/// Splits records of the binary format.
#[derive(Debug, Default)]
pub(super) struct BinaryParser {
    past_header: bool,
}

/// Header flags that say what must not be ignored; bit 16 is the old "has oids".
const CRITICAL_FLAGS: u32 = 0xffff_0000;

impl BinaryParser {
    /// Whether the signature was read.
    pub(super) fn past_header(&self) -> bool {
        self.past_header
    }

    /// Reads the header if it is all there: how many bytes it has.
    pub(super) fn parse_header(&mut self, data: &[u8]) -> Result<Option<usize>> {
        let known = data.len().min(BINARY_SIGNATURE.len());
        if data[..known] != BINARY_SIGNATURE[..known] {
            return Err(bad_format("COPY file signature not recognized"));
        }
        let (Some(flags), Some(extension)) = (
            number(data, BINARY_SIGNATURE.len()),
            number(data, BINARY_SIGNATURE.len() + 4),
        ) else {
            return Ok(None);
        };
        if flags & (1 << 16) != 0 {
            return Err(bad_format("invalid COPY file header (WITH OIDS)"));
        }
        if flags & CRITICAL_FLAGS != 0 {
            return Err(bad_format("unrecognized critical flags in COPY file header"));
        }
        if extension > i32::MAX as u32 {
            return Err(bad_format("invalid COPY file header (missing length)"));
        }
        let bytes = BINARY_SIGNATURE.len() + 8 + extension as usize;
        self.past_header = data.len() >= bytes;
        Ok(self.past_header.then_some(bytes))
    }

    /// Splits the first record of `data`, which must have `columns` fields.
    pub(super) fn parse(&mut self, data: &[u8], columns: usize, fields: &mut Fields) -> Result<Record> {
        fields.clear();
        let &[high, low, ..] = data else {
            return Ok(Record::Incomplete);
        };
        let count = i16::from_be_bytes([high, low]);
        if count == -1 {
            return Ok(Record::End);
        }
        if usize::try_from(count).ok() != Some(columns) {
            return Err(bad_format(format!("row field count is {count}, expected {columns}")));
        }
        let mut at = 2;
        for _ in 0..columns {
            let Some(length) = number(data, at) else {
                return Ok(Record::Incomplete);
            };
            at += 4;
            match length as i32 {
                -1 => fields.push_null(),
                negative if negative < 0 => return Err(bad_format("invalid field size")),
                length => {
                    let end = at + length as usize;
                    if end > data.len() {
                        return Ok(Record::Incomplete);
                    }
                    fields.push_data(at..end);
                    at = end;
                }
            }
        }
        Ok(Record::Row { bytes: at, lines: 1 })
    }
}

fn number(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at + 4)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}
