//! `jsonb` in rows and in keys.

use super::{DEPTH_MAX, Json};
use crate::codec::{ByteReader, damaged, put_bytes, put_length};
use crate::key::{KeyReader, KeyWriter};
use crate::{DataType, Numeric, Result, Value};
use ecow::EcoString;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

/// The rank in a key of a document that is an empty array, which stands before all others.
const EMPTY_DOCUMENT: u8 = 0;

impl Json {
    /// Appends the form that rows hold.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Json::Null => out.push(NULL),
            Json::Bool(truth) => out.push(if *truth { TRUE } else { FALSE }),
            Json::Number(number) => {
                let mut encoded = Vec::new();
                number.encode(&mut encoded);
                out.push(NUMBER);
                put_bytes(out, &encoded);
            }
            Json::String(string) => {
                out.push(STRING);
                put_bytes(out, string.as_bytes());
            }
            Json::Array(items) => {
                out.push(ARRAY);
                put_length(out, items.len());
                items.iter().for_each(|item| item.encode(out));
            }
            Json::Object(pairs) => {
                out.push(OBJECT);
                put_length(out, pairs.len());
                for (key, value) in pairs {
                    put_bytes(out, key.as_bytes());
                    value.encode(out);
                }
            }
        }
    }

    /// Reads what [`Json::encode`] wrote; `bytes` is exactly that.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Json> {
        let mut reader = ByteReader::new(bytes);
        let json = read(&mut reader, DEPTH_MAX + 1)?;
        if reader.is_empty() {
            Ok(json)
        } else {
            Err(damaged("bytes after a document"))
        }
    }

    /// Appends the key: what orders documents, as bytes.
    pub(crate) fn write_key(&self, key: &mut KeyWriter) {
        match self {
            Json::Array(items) if items.is_empty() => key.push_raw(&[EMPTY_DOCUMENT]),
            _ => self.write_key_within(key),
        }
    }

    fn write_key_within(&self, key: &mut KeyWriter) {
        key.push_raw(&[self.rank()]);
        let put_count = |key: &mut KeyWriter, count: usize| {
            key.push_raw(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
        };
        match self {
            Json::Null => {}
            Json::Bool(truth) => key.push(&Value::Bool(*truth)),
            Json::Number(number) => key.push(&Value::Numeric(number.clone())),
            Json::String(string) => key.push(&Value::Text(string.clone())),
            Json::Array(items) => {
                put_count(key, items.len());
                items.iter().for_each(|item| item.write_key_within(key));
            }
            Json::Object(pairs) => {
                put_count(key, pairs.len());
                for (name, value) in pairs {
                    key.push(&Value::Text(name.clone()));
                    value.write_key_within(key);
                }
            }
        }
    }

    /// Reads what [`Json::write_key`] wrote.
    pub(crate) fn read_key(reader: &mut KeyReader<'_>) -> Result<Json> {
        if reader.rest().first() == Some(&EMPTY_DOCUMENT) {
            reader.take(1)?;
            return Ok(Json::Array(Vec::new()));
        }
        read_key_within(reader, DEPTH_MAX + 1)
    }
}

fn read(reader: &mut ByteReader<'_>, depth: usize) -> Result<Json> {
    let depth = deeper(depth)?;
    Ok(match reader.u8()? {
        NULL => Json::Null,
        FALSE => Json::Bool(false),
        TRUE => Json::Bool(true),
        NUMBER => Json::Number(Numeric::decode(reader.bytes()?)?),
        STRING => Json::String(EcoString::from(reader.text()?)),
        ARRAY => {
            let count = reader.length()?;
            // An element is at least a byte: a false count must not reserve memory.
            let mut items = Vec::with_capacity(count.min(reader.rest().len()));
            for _ in 0..count {
                items.push(read(reader, depth)?);
            }
            Json::Array(items)
        }
        OBJECT => {
            let count = reader.length()?;
            let mut pairs = Vec::with_capacity(count.min(reader.rest().len() / 2));
            for _ in 0..count {
                let key = EcoString::from(reader.text()?);
                pairs.push((key, read(reader, depth)?));
            }
            Json::Object(pairs)
        }
        _ => return Err(damaged("a document has an unknown kind of value")),
    })
}

fn read_key_within(reader: &mut KeyReader<'_>, depth: usize) -> Result<Json> {
    let depth = deeper(depth)?;
    Ok(match reader.take(1)?[0] {
        1 => Json::Null,
        2 => Json::String(text_of(reader)?),
        3 => match reader.next(DataType::Numeric)? {
            Value::Numeric(number) => Json::Number(number),
            _ => return Err(damaged("a document in a key has no number")),
        },
        4 => Json::Bool(reader.next(DataType::Bool)? == Value::Bool(true)),
        5 => {
            let count = u32::from_be_bytes(reader.array()?);
            Json::Array(
                (0..count)
                    .map(|_| read_key_within(reader, depth))
                    .collect::<Result<_>>()?,
            )
        }
        6 => {
            let count = u32::from_be_bytes(reader.array()?);
            let pair = |_| Ok((text_of(reader)?, read_key_within(reader, depth)?));
            Json::Object((0..count).map(pair).collect::<Result<_>>()?)
        }
        _ => return Err(damaged("a document in a key has an unknown kind of value")),
    })
}

fn text_of(reader: &mut KeyReader<'_>) -> Result<EcoString> {
    match reader.next(DataType::Text)? {
        Value::Text(text) => Ok(text),
        _ => Err(damaged("a document in a key has no text")),
    }
}

fn deeper(depth: usize) -> Result<usize> {
    depth
        .checked_sub(1)
        .ok_or_else(|| damaged("a document is nested too deeply"))
}
