//! What is told on channels as bytes.

use super::work::{put_text, read_list, read_text};
use super::{damaged, put_u32, put_u64};
use crate::telling::{TellMessage, Telling};
use rubato_base::Result;
use rubato_base::codec::{ByteReader, put_length};

pub(super) fn put_telling(out: &mut Vec<u8>, message: &TellMessage) {
    match message {
        TellMessage::Told {
            life,
            number,
            oldest,
            telling,
        } => {
            out.push(1);
            put_u64(out, *life);
            put_u64(out, *number);
            put_u64(out, *oldest);
            put_u32(out, telling.database);
            out.extend_from_slice(&telling.backend_id.to_le_bytes());
            put_length(out, telling.told.len());
            for (channel, payload) in &telling.told {
                put_text(out, channel);
                put_text(out, payload);
            }
        }
        TellMessage::Taken { life, number } => {
            out.push(2);
            put_u64(out, *life);
            put_u64(out, *number);
        }
    }
}

pub(super) fn read_telling(reader: &mut ByteReader<'_>) -> Result<TellMessage> {
    let tag = reader.u8()?;
    let (life, number) = (reader.u64()?, reader.u64()?);
    Ok(match tag {
        1 => TellMessage::Told {
            life,
            number,
            oldest: reader.u64()?,
            telling: Telling {
                database: reader.u32()?,
                backend_id: reader.u32()? as i32,
                told: read_list(reader, |reader| Ok((read_text(reader)?, read_text(reader)?)))?,
            },
        },
        2 => TellMessage::Taken { life, number },
        _ => return Err(damaged("an unknown message about channels")),
    })
}
