//! What nodes tell of their sessions as bytes.

use super::work::read_list;
use super::{damaged, put_bool, put_u32, put_u64, read_bool};
use crate::sessions::{SESSIONS_MAX, SessionsMessage};
use rubato_base::Result;
use rubato_base::codec::{ByteReader, put_length, put_value};

pub(super) fn put_sessions(out: &mut Vec<u8>, message: &SessionsMessage) {
    match message {
        SessionsMessage::Wanted { session, number } => {
            out.push(1);
            put_u64(out, *session);
            put_u64(out, *number);
        }
        SessionsMessage::Given { session, number, rows } => {
            out.push(2);
            put_u64(out, *session);
            put_u64(out, *number);
            put_length(out, rows.len());
            for row in rows {
                put_length(out, row.len());
                row.iter().for_each(|value| put_value(out, value));
            }
        }
        SessionsMessage::Signal { backend_id, terminates } => {
            out.push(3);
            put_u32(out, *backend_id as u32);
            put_bool(out, *terminates);
        }
    }
}

pub(super) fn read_sessions(reader: &mut ByteReader<'_>) -> Result<SessionsMessage> {
    Ok(match reader.u8()? {
        1 => SessionsMessage::Wanted {
            session: reader.u64()?,
            number: reader.u64()?,
        },
        2 => {
            let (session, number) = (reader.u64()?, reader.u64()?);
            let rows = read_list(reader, |reader| read_list(reader, ByteReader::value))?;
            if rows.len() > SESSIONS_MAX {
                return Err(damaged("more sessions than a node tells of"));
            }
            SessionsMessage::Given { session, number, rows }
        }
        3 => SessionsMessage::Signal {
            backend_id: reader.u32()? as i32,
            terminates: read_bool(reader)?,
        },
        _ => return Err(damaged("an unknown message about sessions")),
    })
}
