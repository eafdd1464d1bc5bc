//! What nodes tell of their sessions as bytes.

use super::work::read_list;
use super::{damaged, put_u32, put_u64};
use crate::sessions::{Asked, SESSIONS_MAX, SessionsMessage};
use rubato_base::Result;
use rubato_base::codec::{ByteReader, put_length, put_value};

pub(super) fn put_sessions(out: &mut Vec<u8>, message: &SessionsMessage) {
    match message {
        SessionsMessage::Wanted {
            session,
            number,
            views,
            database,
        } => {
            out.push(1);
            put_u64(out, *session);
            put_u64(out, *number);
            out.push(*views);
            put_u32(out, *database);
        }
        SessionsMessage::Given { session, number, rows } => {
            out.push(2);
            put_u64(out, *session);
            put_u64(out, *number);
            put_length(out, rows.len());
            for (view, row) in rows {
                out.push(*view);
                put_length(out, row.len());
                row.iter().for_each(|value| put_value(out, value));
            }
        }
        SessionsMessage::Signal { backend_id, asked } => {
            out.push(3);
            put_u32(out, *backend_id as u32);
            match asked {
                Asked::Cancel => out.push(0),
                Asked::Terminate => out.push(1),
                Asked::CancelBy(secret_key) => {
                    out.push(2);
                    put_u32(out, *secret_key as u32);
                }
            }
        }
    }
}

pub(super) fn read_sessions(reader: &mut ByteReader<'_>) -> Result<SessionsMessage> {
    Ok(match reader.u8()? {
        1 => SessionsMessage::Wanted {
            session: reader.u64()?,
            number: reader.u64()?,
            views: reader.u8()?,
            database: reader.u32()?,
        },
        2 => {
            let (session, number) = (reader.u64()?, reader.u64()?);
            let rows = read_list(reader, |reader| {
                Ok((reader.u8()?, read_list(reader, ByteReader::value)?))
            })?;
            if rows.len() > SESSIONS_MAX {
                return Err(damaged("more rows than a node tells of"));
            }
            SessionsMessage::Given { session, number, rows }
        }
        3 => SessionsMessage::Signal {
            backend_id: reader.u32()? as i32,
            asked: match reader.u8()? {
                0 => Asked::Cancel,
                1 => Asked::Terminate,
                2 => Asked::CancelBy(reader.u32()? as i32),
                _ => return Err(damaged("an unknown word to a session")),
            },
        },
        _ => return Err(damaged("an unknown message about sessions")),
    })
}
