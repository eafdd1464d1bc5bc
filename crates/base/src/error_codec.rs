//! Errors as bytes, for messages between nodes.

use crate::codec::{ByteReader, damaged, put_bytes};
use crate::{Error, Result, SqlState};

impl Error {
    /// Appends it to `out`, with all of its fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let fields = self.fields();
        out.extend_from_slice(&fields.code.0);
        put_bytes(out, fields.message.as_bytes());
        out.extend_from_slice(&fields.position.unwrap_or(0).to_le_bytes());
        let texts = [
            &fields.detail,
            &fields.hint,
            &fields.schema,
            &fields.table,
            &fields.column,
            &fields.data_type,
            &fields.constraint,
            &fields.context,
        ];
        for text in texts {
            out.push(u8::from(text.is_some()));
            if let Some(text) = text {
                put_bytes(out, text.as_bytes());
            }
        }
    }

    /// Reads what [`Error::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Error> {
        let mut code = [0; 5];
        code.copy_from_slice(reader.take(5)?);
        if !code.iter().all(u8::is_ascii_alphanumeric) {
            return Err(damaged("an error has no SQLSTATE"));
        }
        let mut error = Error::new(SqlState(code), reader.text()?);
        // Positions count from 1.
        let position = Some(reader.u32()?).filter(|position| *position > 0);
        error = error.with_position(position);
        let setters: [fn(Error, &str) -> Error; 8] = [
            |error, text| error.with_detail(text),
            |error, text| error.with_hint(text),
            |error, text| error.with_schema(text),
            |error, text| error.with_names(Some(text), None, None),
            |error, text| error.with_names(None, Some(text), None),
            |error, text| error.with_data_type(text),
            |error, text| error.with_names(None, None, Some(text)),
            |error, text| error.with_context(text),
        ];
        for set in setters {
            error = match reader.u8()? {
                0 => error,
                1 => set(error, reader.text()?),
                _ => return Err(damaged("a field of an error is neither there nor missing")),
            };
        }
        Ok(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_back_whole_and_cuts_are_errors() {
        let plain = Error::new(SqlState::DIVISION_BY_ZERO, "division by zero");
        let whole = Error::new(SqlState::UNIQUE_VIOLATION, "doppelt gemoppelt: ä")
            .with_detail("d")
            .with_hint("")
            .with_position(Some(7))
            .with_schema("s")
            .with_names(Some("t"), Some("c"), Some("n"))
            .with_data_type("y")
            .with_context("COPY t, line 3");
        for error in [plain, whole] {
            let mut bytes = Vec::new();
            error.encode(&mut bytes);
            assert_eq!(Error::decode(&mut ByteReader::new(&bytes)).unwrap(), error);
            for end in 0..bytes.len() {
                assert!(Error::decode(&mut ByteReader::new(&bytes[..end])).is_err());
            }
        }
        assert!(Error::decode(&mut ByteReader::new(b"\0\0\0\0\0")).is_err());
    }
}
