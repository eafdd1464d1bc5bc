//! Numbers of sequences as bytes.

use super::{damaged, put_u32, put_u64};
use crate::numbers::{NUMBERS_MAX, NumbersMessage};
use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{Error, Result};

pub(super) fn put_numbers(out: &mut Vec<u8>, message: &NumbersMessage) {
    match message {
        NumbersMessage::Wanted {
            session,
            number,
            sequence,
            count,
        } => {
            out.push(1);
            put_u64(out, *session);
            put_u64(out, *number);
            put_u32(out, *sequence);
            put_u32(out, *count);
        }
        NumbersMessage::Given {
            session,
            number,
            outcome,
        } => {
            out.push(if outcome.is_ok() { 2 } else { 3 });
            put_u64(out, *session);
            put_u64(out, *number);
            match outcome {
                Ok(numbers) => {
                    put_length(out, numbers.len());
                    numbers.iter().for_each(|number| put_u64(out, *number as u64));
                }
                Err(error) => error.encode(out),
            }
        }
    }
}

pub(super) fn read_numbers(reader: &mut ByteReader<'_>) -> Result<NumbersMessage> {
    let tag = reader.u8()?;
    let (session, number) = (reader.u64()?, reader.u64()?);
    Ok(match tag {
        1 => NumbersMessage::Wanted {
            session,
            number,
            sequence: reader.u32()?,
            count: reader.u32()?,
        },
        2 => {
            let count = reader.length()?;
            if count > NUMBERS_MAX as usize {
                return Err(damaged("more numbers than are given at once"));
            }
            let numbers = (0..count).map(|_| reader.u64().map(|number| number as i64));
            NumbersMessage::Given {
                session,
                number,
                outcome: Ok(numbers.collect::<Result<_>>()?),
            }
        }
        3 => NumbersMessage::Given {
            session,
            number,
            outcome: Err(Error::decode(reader)?),
        },
        _ => return Err(damaged("an unknown message about numbers")),
    })
}
