//! Where entries of an index have the keys of their rows.

use rubato_base::codec::{ByteReader, put_data_type, put_length};
use rubato_base::{DataType, Error, KeyReader, Result, RowRef, Value};

/// Where an entry of an index has the key of its row.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryRow {
    /// In its only column: a unique index.
    InContent,
    /// In its key, behind values of these types.
    Behind(Vec<DataType>),
}

impl EntryRow {
    /// The key of the row, as bytes.
    pub(super) fn row_key(&self, entry: &[u8], content: RowRef<'_>) -> Result<Value> {
        match self {
            EntryRow::InContent => match content.get(0) {
                key @ Value::Bytea(_) => Ok(key),
                _ => Err(Error::internal("an entry of an index has no row key")),
            },
            EntryRow::Behind(types) => {
                let mut reader = KeyReader::new(entry);
                for data_type in types {
                    reader.next(*data_type)?;
                }
                Ok(Value::bytea(reader.rest()))
            }
        }
    }

    /// Appends it.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            EntryRow::InContent => out.push(0),
            EntryRow::Behind(types) => {
                out.push(1);
                put_length(out, types.len());
                types.iter().for_each(|data_type| put_data_type(out, *data_type));
            }
        }
    }

    /// Reads what [`EntryRow::encode`] wrote. XX001 for anything else.
    pub(super) fn decode(reader: &mut ByteReader<'_>) -> Result<EntryRow> {
        if reader.u8()? == 0 {
            return Ok(EntryRow::InContent);
        }
        // Not with room for what a message says: that is not what it has.
        let mut types = Vec::new();
        for _ in 0..reader.length()? {
            types.push(reader.data_type()?);
        }
        Ok(EntryRow::Behind(types))
    }
}
