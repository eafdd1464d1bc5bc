//! The work of sessions as bytes.

use super::traced::{put_context, read_context};
use super::{damaged, put_bool, put_u32, put_u64, read_bool};
use crate::work::{
    WorkCall, WorkCatalog, WorkContent, WorkDataEnd, WorkEnd, WorkMessage, WorkOutcome, WorkRun, WorkStatus,
};
use rubato_base::codec::{ByteReader, put_bytes, put_data_type, put_length, put_value};
use rubato_base::{Draws, Error, LastNumbers, RandomPlace, Result};

pub(super) fn put_work(out: &mut Vec<u8>, message: &WorkMessage) {
    put_u64(out, message.session);
    put_u64(out, message.number);
    match &message.content {
        WorkContent::Call(call) => {
            out.push(1);
            put_call(out, call);
        }
        WorkContent::More => out.push(2),
        WorkContent::GiveUp => out.push(3),
        WorkContent::Leave => out.push(4),
        WorkContent::Cancel => out.push(6),
        WorkContent::Answer { told, end } => {
            out.push(5);
            put_bytes(out, told);
            put_option(out, end.as_ref(), put_end);
        }
    }
}

pub(super) fn read_work(reader: &mut ByteReader<'_>) -> Result<WorkMessage> {
    let (session, number) = (reader.u64()?, reader.u64()?);
    let content = match reader.u8()? {
        1 => WorkContent::Call(Box::new(read_call(reader)?)),
        2 => WorkContent::More,
        3 => WorkContent::GiveUp,
        4 => WorkContent::Leave,
        6 => WorkContent::Cancel,
        5 => WorkContent::Answer {
            told: reader.bytes()?.to_vec(),
            end: read_option(reader, read_end)?,
        },
        _ => return Err(damaged("an unknown message about a session's work")),
    };
    Ok(WorkMessage {
        session,
        number,
        content,
    })
}

fn put_call(out: &mut Vec<u8>, call: &WorkCall) {
    put_text(out, &call.user);
    put_text(out, &call.database);
    put_u32(out, call.database_id);
    put_u32(out, call.backend_id as u32);
    put_option(out, call.settings.as_ref(), |out, settings| {
        put_length(out, settings.len());
        for (name, value) in settings {
            put_text(out, name);
            put_text(out, value);
        }
    });
    put_bool(out, call.in_block);
    put_option(out, call.begin.as_ref(), |out, begin| put_text(out, begin));
    put_u32(out, call.temporary);
    put_option(out, call.trace.as_ref(), put_context);
    put_option(out, call.draws.as_ref(), put_draws);
    put_option(out, call.numbers.as_ref(), put_numbers);
    put_option(out, call.began_us.as_ref(), |out, began_us| {
        put_u64(out, *began_us as u64)
    });
    match &call.run {
        WorkRun::Text(sql) => {
            out.push(1);
            put_text(out, sql);
        }
        WorkRun::LayAnew(sql) => {
            out.push(5);
            put_text(out, sql);
        }
        WorkRun::Prepared {
            sql,
            types,
            values,
            columns,
            binary,
            portal,
            max_rows,
        } => {
            out.push(2);
            put_text(out, sql);
            put_length(out, types.len());
            types.iter().for_each(|data_type| put_data_type(out, *data_type));
            put_length(out, values.len());
            values.iter().for_each(|value| put_value(out, value));
            put_option(out, columns.as_ref(), |out, columns| {
                put_length(out, columns.len());
                columns.iter().for_each(|data_type| put_data_type(out, *data_type));
            });
            put_length(out, binary.len());
            binary.iter().for_each(|is_binary| put_bool(out, *is_binary));
            put_text(out, portal);
            put_u32(out, *max_rows);
        }
        WorkRun::More { portal, max_rows } => {
            out.push(3);
            put_text(out, portal);
            put_u32(out, *max_rows);
        }
        WorkRun::Data { data, end } => {
            out.push(4);
            put_bytes(out, data);
            match end {
                WorkDataEnd::More => out.push(1),
                WorkDataEnd::Done => out.push(2),
                WorkDataEnd::Failed(why) => {
                    out.push(3);
                    put_text(out, why);
                }
            }
        }
    }
}

fn put_draws(out: &mut Vec<u8>, draws: &Draws) {
    put_option(out, draws.random.as_ref(), |out, state| {
        let parts = state.shown.iter().chain(&state.key).chain([&state.statement]);
        parts.for_each(|part| put_u64(out, *part));
    });
    put_sequence_numbers(out, &draws.numbers);
}

fn put_sequence_numbers(out: &mut Vec<u8>, numbers: &[(u32, i64)]) {
    put_length(out, numbers.len());
    for (sequence, number) in numbers {
        put_u32(out, *sequence);
        put_u64(out, *number as u64);
    }
}

fn read_sequence_numbers(reader: &mut ByteReader<'_>) -> Result<Vec<(u32, i64)>> {
    read_list(reader, |reader| Ok((reader.u32()?, reader.u64()? as i64)))
}

fn put_numbers(out: &mut Vec<u8>, numbers: &LastNumbers) {
    put_sequence_numbers(out, &numbers.by_sequence);
    put_option(out, numbers.last.as_ref(), |out, last| put_u64(out, *last as u64));
}

fn read_numbers(reader: &mut ByteReader<'_>) -> Result<LastNumbers> {
    Ok(LastNumbers {
        by_sequence: read_sequence_numbers(reader)?,
        last: read_option(reader, |reader| Ok(reader.u64()? as i64))?,
    })
}

fn read_draws(reader: &mut ByteReader<'_>) -> Result<Draws> {
    let random = |reader: &mut ByteReader<'_>| {
        Ok(RandomPlace {
            shown: [reader.u64()?, reader.u64()?],
            key: [reader.u64()?, reader.u64()?],
            statement: reader.u64()?,
        })
    };
    Ok(Draws {
        random: read_option(reader, random)?,
        numbers: read_sequence_numbers(reader)?,
    })
}

fn read_call(reader: &mut ByteReader<'_>) -> Result<WorkCall> {
    Ok(WorkCall {
        user: read_text(reader)?,
        database: read_text(reader)?,
        database_id: reader.u32()?,
        backend_id: reader.u32()? as i32,
        settings: read_option(reader, |reader| {
            read_list(reader, |reader| Ok((read_text(reader)?, read_text(reader)?)))
        })?,
        in_block: read_bool(reader)?,
        begin: read_option(reader, read_text)?,
        temporary: reader.u32()?,
        trace: read_option(reader, read_context)?,
        draws: read_option(reader, read_draws)?,
        numbers: read_option(reader, read_numbers)?,
        began_us: read_option(reader, |reader| Ok(reader.u64()? as i64))?,
        run: match reader.u8()? {
            1 => WorkRun::Text(read_text(reader)?),
            2 => WorkRun::Prepared {
                sql: read_text(reader)?,
                types: read_list(reader, ByteReader::data_type)?,
                values: read_list(reader, ByteReader::value)?,
                columns: read_option(reader, |reader| read_list(reader, ByteReader::data_type))?,
                binary: read_list(reader, read_bool)?,
                portal: read_text(reader)?,
                max_rows: reader.u32()?,
            },
            3 => WorkRun::More {
                portal: read_text(reader)?,
                max_rows: reader.u32()?,
            },
            5 => WorkRun::LayAnew(read_text(reader)?),
            4 => WorkRun::Data {
                data: reader.bytes()?.to_vec(),
                end: match reader.u8()? {
                    1 => WorkDataEnd::More,
                    2 => WorkDataEnd::Done,
                    3 => WorkDataEnd::Failed(read_text(reader)?),
                    _ => return Err(damaged("an unknown end of data")),
                },
            },
            _ => return Err(damaged("an unknown kind of work")),
        },
    })
}

fn put_end(out: &mut Vec<u8>, end: &WorkEnd) {
    out.push(match end.status {
        WorkStatus::Idle => 0,
        WorkStatus::Open => 1,
        WorkStatus::Failed => 2,
    });
    match &end.outcome {
        WorkOutcome::Tag(tag) => {
            out.push(1);
            put_text(out, tag);
        }
        WorkOutcome::Suspended => out.push(2),
        WorkOutcome::Empty => out.push(3),
        WorkOutcome::Failed(error) => {
            out.push(4);
            error.encode(out);
        }
        WorkOutcome::AwaitsData => out.push(5),
    }
    put_u32(out, end.temporary);
    put_bool(out, end.locks);
    match &end.catalog {
        WorkCatalog::AsBefore => out.push(1),
        WorkCatalog::Committed => out.push(2),
        WorkCatalog::Own(content) => {
            out.push(3);
            put_bytes(out, content);
        }
    }
    put_numbers(out, &end.numbers);
    put_length(out, end.settings.len());
    for (name, value, local) in &end.settings {
        put_text(out, name);
        put_text(out, value);
        put_bool(out, *local);
    }
    put_bool(out, end.is_taken_in);
}

fn read_end(reader: &mut ByteReader<'_>) -> Result<WorkEnd> {
    let status = match reader.u8()? {
        0 => WorkStatus::Idle,
        1 => WorkStatus::Open,
        2 => WorkStatus::Failed,
        _ => return Err(damaged("an unknown state of a transaction")),
    };
    let outcome = match reader.u8()? {
        1 => WorkOutcome::Tag(read_text(reader)?),
        2 => WorkOutcome::Suspended,
        3 => WorkOutcome::Empty,
        4 => WorkOutcome::Failed(Error::decode(reader)?),
        5 => WorkOutcome::AwaitsData,
        _ => return Err(damaged("an unknown end of a session's work")),
    };
    let temporary = reader.u32()?;
    let locks = read_bool(reader)?;
    let catalog = match reader.u8()? {
        1 => WorkCatalog::AsBefore,
        2 => WorkCatalog::Committed,
        3 => WorkCatalog::Own(reader.bytes()?.to_vec()),
        _ => return Err(damaged("an unknown catalog of a transaction")),
    };
    Ok(WorkEnd {
        outcome,
        status,
        temporary,
        locks,
        catalog,
        numbers: read_numbers(reader)?,
        settings: read_list(reader, |reader| {
            Ok((read_text(reader)?, read_text(reader)?, read_bool(reader)?))
        })?,
        is_taken_in: read_bool(reader)?,
    })
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(super) fn read_text(reader: &mut ByteReader<'_>) -> Result<String> {
    reader.text().map(str::to_owned)
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    put_bool(out, value.is_some());
    if let Some(value) = value {
        put(out, value);
    }
}

fn read_option<'b, T>(
    reader: &mut ByteReader<'b>,
    read: impl FnOnce(&mut ByteReader<'b>) -> Result<T>,
) -> Result<Option<T>> {
    read_bool(reader)?.then(|| read(reader)).transpose()
}

/// Each element takes a byte at least: no length makes room for more than there are bytes.
pub(super) fn read_list<'b, T>(
    reader: &mut ByteReader<'b>,
    mut read: impl FnMut(&mut ByteReader<'b>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = reader.length()?;
    if count > reader.rest().len() {
        return Err(damaged("a list longer than its message"));
    }
    (0..count).map(|_| read(reader)).collect()
}
