//! What is asked of the rows of a node, and what it answers.

use super::{damaged, put_bool, put_timestamp, put_u32, read_bool, read_timestamp};
use rubato_base::codec::{ByteReader, put_bytes, put_length};
use rubato_base::{ColumnSet, Error, Key, Result, Row, TableId};
use rubato_formula::{Formula, PartialAggregate, RowBounds};
use rubato_protocol::grid::{Answer, EntriesRead, Operation, Passed, RelayJoin, SEVERAL_MAX, Sieve};
use rubato_protocol::{BlindUpdate, KeyRange};

/// Several operations, and their answers: in neither is another of its kind.
const SEVERAL: u8 = 17;
const SEVERAL_ANSWERS: u8 = 13;

fn put_columns(out: &mut Vec<u8>, columns: ColumnSet) {
    out.extend_from_slice(&columns.0.to_le_bytes());
}

fn read_columns(reader: &mut ByteReader<'_>) -> Result<ColumnSet> {
    reader.u64().map(ColumnSet)
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    put_bytes(out, key.as_bytes());
}

fn read_key(reader: &mut ByteReader<'_>) -> Result<Key> {
    reader.bytes().map(Key::from_bytes)
}

fn put_row(out: &mut Vec<u8>, row: &Row) {
    put_bytes(out, row.as_ref().as_bytes());
}

fn read_row(reader: &mut ByteReader<'_>) -> Result<Row> {
    Row::from_bytes(reader.bytes()?.into())
}

fn put_place(out: &mut Vec<u8>, tag: u8, table: TableId, key: &Key) {
    out.push(tag);
    put_u32(out, table.0);
    put_key(out, key);
}

fn read_place(reader: &mut ByteReader<'_>) -> Result<(TableId, Key)> {
    Ok((TableId(reader.u32()?), read_key(reader)?))
}

pub(super) fn put_operation(out: &mut Vec<u8>, operation: &Operation) {
    match operation {
        Operation::Read { table, key, columns } => {
            put_place(out, 1, *table, key);
            put_columns(out, *columns);
        }
        Operation::Scan { table, range, columns } => {
            out.push(2);
            put_u32(out, table.0);
            range.encode(out);
            put_columns(out, *columns);
        }
        Operation::Page {
            table,
            range,
            reverse,
            columns,
            rows_max,
            sieve,
        } => {
            out.push(10);
            put_u32(out, table.0);
            range.encode(out);
            out.push(u8::from(*reverse) | (u8::from(columns.is_some()) << 1));
            put_columns(out, columns.unwrap_or(ColumnSet::EMPTY));
            put_u32(out, *rows_max);
            sieve.encode(out);
        }
        Operation::Entries { read } => {
            out.push(20);
            put_operation(out, &read.page());
            read.encode_rest(out);
        }
        Operation::Aggregate {
            table,
            range,
            columns,
            sieve,
            aggregate,
            rows_max,
        } => {
            out.push(18);
            put_u32(out, table.0);
            range.encode(out);
            put_columns(out, *columns);
            sieve.encode(out);
            aggregate.encode(out);
            put_u32(out, *rows_max);
        }
        Operation::Peek { table, key } => put_place(out, 11, *table, key),
        Operation::TryLock { table, key, columns } => {
            put_place(out, 12, *table, key);
            put_columns(out, *columns);
        }
        Operation::Lock { table, key, columns } => {
            put_place(out, 3, *table, key);
            put_columns(out, *columns);
        }
        Operation::Blind {
            table,
            key,
            formula,
            bounds,
        } => {
            put_place(out, 4, *table, key);
            formula.encode(out);
            bounds.encode(out);
        }
        Operation::Update {
            table,
            key,
            columns,
            formula,
        } => {
            put_place(out, 5, *table, key);
            put_columns(out, *columns);
            formula.encode(out);
        }
        Operation::Insert { table, key, row } => {
            put_place(out, 6, *table, key);
            put_row(out, row);
        }
        Operation::Upsert {
            table,
            key,
            row,
            formula,
        } => {
            put_place(out, 23, *table, key);
            put_row(out, row);
            formula.encode(out);
        }
        Operation::Delete { table, key } => put_place(out, 7, *table, key),
        Operation::Several { operations } => {
            out.push(SEVERAL);
            put_length(out, operations.len());
            operations.iter().for_each(|operation| put_operation(out, operation));
        }
        Operation::Relay { join } => {
            out.push(19);
            join.encode(out);
        }
        Operation::Settle => out.push(8),
        Operation::Confirm { at } => {
            out.push(22);
            put_timestamp(out, *at);
        }
        Operation::Undo { kept } => {
            out.push(9);
            put_u32(out, *kept);
        }
        Operation::Close { tables } => {
            out.push(13);
            put_tables(out, tables);
        }
        Operation::Create { storage } => {
            out.push(14);
            put_tables(out, storage);
        }
        Operation::Lengthen { table, tail } => {
            out.push(15);
            put_u32(out, table.0);
            out.push(u8::from(tail.is_some()));
            tail.iter().for_each(|tail| put_row(out, tail));
        }
        Operation::Lay { table, rows } => {
            out.push(21);
            put_u32(out, table.0);
            put_rows(out, rows);
        }
        Operation::Attach { content } => {
            out.push(16);
            put_bytes(out, content);
        }
    }
}

pub(super) fn read_operation(reader: &mut ByteReader<'_>) -> Result<Operation> {
    let tag = reader.u8()?;
    match tag {
        SEVERAL => read_several(reader),
        _ => read_single(tag, reader),
    }
}

fn read_several(reader: &mut ByteReader<'_>) -> Result<Operation> {
    let count = reader.length()?;
    if !(1..=SEVERAL_MAX).contains(&count) {
        return Err(damaged("too many operations, or none"));
    }
    let mut operations = Vec::with_capacity(count);
    for _ in 0..count {
        let operation = read_single(reader.u8()?, reader)?;
        if !operation.may_be_one_of_several() {
            return Err(damaged("an operation that is not one of several"));
        }
        operations.push(operation);
    }
    Ok(Operation::Several { operations })
}

fn read_single(tag: u8, reader: &mut ByteReader<'_>) -> Result<Operation> {
    match tag {
        2 => {
            return Ok(Operation::Scan {
                table: TableId(reader.u32()?),
                range: KeyRange::decode(reader)?,
                columns: read_columns(reader)?,
            });
        }
        8 => return Ok(Operation::Settle),
        22 => {
            return Ok(Operation::Confirm {
                at: read_timestamp(reader)?,
            });
        }
        9 => return Ok(Operation::Undo { kept: reader.u32()? }),
        10 => return read_page_operation(reader),
        13..=16 => return read_definition(tag, reader),
        18 => return read_aggregate_operation(reader),
        19 => {
            let join = Box::new(RelayJoin::decode(reader)?);
            return Ok(Operation::Relay { join });
        }
        20 => return read_entries_operation(reader),
        21 => {
            let (table, rows) = (TableId(reader.u32()?), read_rows(reader)?);
            return Ok(Operation::Lay { table, rows });
        }
        1 | 3..=7 | 11 | 12 | 23 => {}
        _ => return Err(damaged("an unknown operation")),
    }
    let (table, key) = read_place(reader)?;
    Ok(match tag {
        1 => Operation::Read {
            table,
            key,
            columns: read_columns(reader)?,
        },
        3 => Operation::Lock {
            table,
            key,
            columns: read_columns(reader)?,
        },
        4 => Operation::Blind {
            table,
            key,
            formula: Formula::decode(reader)?,
            bounds: RowBounds::decode(reader)?,
        },
        5 => Operation::Update {
            table,
            key,
            columns: read_columns(reader)?,
            formula: Formula::decode(reader)?,
        },
        6 => Operation::Insert {
            table,
            key,
            row: read_row(reader)?,
        },
        23 => Operation::Upsert {
            table,
            key,
            row: read_row(reader)?,
            formula: Formula::decode(reader)?,
        },
        7 => Operation::Delete { table, key },
        11 => Operation::Peek { table, key },
        _ => Operation::TryLock {
            table,
            key,
            columns: read_columns(reader)?,
        },
    })
}

fn put_tables(out: &mut Vec<u8>, tables: &[TableId]) {
    put_length(out, tables.len());
    tables.iter().for_each(|table| put_u32(out, table.0));
}

fn read_tables(reader: &mut ByteReader<'_>) -> Result<Vec<TableId>> {
    let count = reader.length()?;
    // Not with room for `count`, as for rows.
    let mut tables = Vec::new();
    for _ in 0..count {
        tables.push(TableId(reader.u32()?));
    }
    Ok(tables)
}

/// What is asked about definitions of tables.
fn read_definition(tag: u8, reader: &mut ByteReader<'_>) -> Result<Operation> {
    Ok(match tag {
        13 => Operation::Close {
            tables: read_tables(reader)?,
        },
        14 => Operation::Create {
            storage: read_tables(reader)?,
        },
        15 => Operation::Lengthen {
            table: TableId(reader.u32()?),
            tail: match reader.u8()? {
                0 => None,
                1 => Some(read_row(reader)?),
                _ => return Err(damaged("an unknown kind of tail")),
            },
        },
        _ => Operation::Attach {
            content: reader.bytes()?.to_vec(),
        },
    })
}

fn read_page_operation(reader: &mut ByteReader<'_>) -> Result<Operation> {
    let table = TableId(reader.u32()?);
    let range = KeyRange::decode(reader)?;
    let how = reader.u8()?;
    if how > 3 {
        return Err(damaged("an unknown way through a range"));
    }
    let columns = read_columns(reader)?;
    Ok(Operation::Page {
        table,
        range,
        reverse: how & 1 == 1,
        columns: (how & 2 == 2).then_some(columns),
        rows_max: reader.u32()?,
        sieve: Sieve::decode(reader)?,
    })
}

fn read_entries_operation(reader: &mut ByteReader<'_>) -> Result<Operation> {
    let page = match reader.u8()? {
        10 => read_page_operation(reader)?,
        _ => return Err(damaged("entries that are no page")),
    };
    let read = Box::new(EntriesRead::decode_rest(page, reader)?);
    Ok(Operation::Entries { read })
}

/// Tags of what participants say to each other, beside those of requests and replies.
pub(super) const PASSED: u8 = 128;

pub(super) fn put_passed(out: &mut Vec<u8>, passed: &Passed) {
    let (tag, round, step) = match passed {
        Passed::Piece { round, step, tuples } => (PASSED + u8::from(tuples.is_none()), round, step),
        Passed::Wanted { round, step } => (PASSED + 2, round, step),
    };
    out.push(tag);
    put_u32(out, *round);
    put_u32(out, *step);
    if let Passed::Piece {
        tuples: Some(tuples), ..
    } = passed
    {
        put_length(out, tuples.len());
        tuples.iter().for_each(|tuple| put_row(out, tuple));
    }
}

pub(super) fn read_passed(tag: u8, reader: &mut ByteReader<'_>) -> Result<Passed> {
    let (round, step) = (reader.u32()?, reader.u32()?);
    Ok(match tag.wrapping_sub(PASSED) {
        0 => Passed::Piece {
            round,
            step,
            tuples: Some(read_groups(reader)?),
        },
        1 => Passed::Piece {
            round,
            step,
            tuples: None,
        },
        2 => Passed::Wanted { round, step },
        _ => return Err(damaged("an unknown message between participants")),
    })
}

fn read_aggregate_operation(reader: &mut ByteReader<'_>) -> Result<Operation> {
    Ok(Operation::Aggregate {
        table: TableId(reader.u32()?),
        range: KeyRange::decode(reader)?,
        columns: read_columns(reader)?,
        sieve: Sieve::decode(reader)?,
        aggregate: PartialAggregate::decode(reader)?,
        rows_max: reader.u32()?,
    })
}

fn put_rows(out: &mut Vec<u8>, rows: &[(Key, Row)]) {
    put_length(out, rows.len());
    for (key, row) in rows {
        put_key(out, key);
        put_row(out, row);
    }
}

fn read_rows(reader: &mut ByteReader<'_>) -> Result<Vec<(Key, Row)>> {
    let count = reader.length()?;
    // Not with room for `count`: that is what the message says, not what it has.
    let mut rows = Vec::new();
    for _ in 0..count {
        rows.push((read_key(reader)?, read_row(reader)?));
    }
    Ok(rows)
}

fn read_rows_of_entries(reader: &mut ByteReader<'_>) -> Result<Vec<(Key, Option<Row>)>> {
    let count = reader.length()?;
    // Not with room for `count`, as for rows.
    let mut rows = Vec::new();
    for _ in 0..count {
        let key = read_key(reader)?;
        let row = read_bool(reader)?.then(|| read_row(reader)).transpose()?;
        rows.push((key, row));
    }
    Ok(rows)
}

fn read_groups(reader: &mut ByteReader<'_>) -> Result<Vec<Row>> {
    let count = reader.length()?;
    // Not with room for `count`, as for rows.
    let mut groups = Vec::new();
    for _ in 0..count {
        groups.push(read_row(reader)?);
    }
    Ok(groups)
}

pub(super) fn put_answer(out: &mut Vec<u8>, answer: &Answer) {
    match answer {
        Answer::Row(None) => out.push(1),
        Answer::Row(Some(row)) => {
            out.push(2);
            put_row(out, row);
        }
        Answer::Rows(rows) => {
            out.push(3);
            put_rows(out, rows);
        }
        Answer::Page { rows, reached } => {
            out.push(if reached.is_none() { 9 } else { 8 });
            put_rows(out, rows);
            reached.iter().for_each(|key| put_key(out, key));
        }
        Answer::Entries { entries, reached, rows } => {
            out.push(if reached.is_none() { 19 } else { 18 });
            put_rows(out, entries);
            reached.iter().for_each(|key| put_key(out, key));
            put_length(out, rows.len());
            for (key, row) in rows {
                put_key(out, key);
                put_bool(out, row.is_some());
                row.iter().for_each(|row| put_row(out, row));
            }
        }
        Answer::Groups {
            groups,
            reached,
            has_partner,
        } => {
            out.push(if reached.is_none() { 15 } else { 14 });
            put_bool(out, *has_partner);
            put_length(out, groups.len());
            groups.iter().for_each(|group| put_row(out, group));
            reached.iter().for_each(|key| put_key(out, key));
        }
        Answer::Joined {
            tuples,
            reached,
            has_partner,
            is_too_much,
        } => {
            out.push(if reached.is_none() { 17 } else { 16 });
            put_bool(out, *is_too_much);
            put_bool(out, *has_partner);
            put_length(out, tuples.len());
            tuples.iter().for_each(|tuple| put_row(out, tuple));
            reached.iter().for_each(|key| put_key(out, key));
        }
        Answer::Busy => out.push(10),
        Answer::Blind(update) => {
            out.push(4);
            out.push(match update {
                BlindUpdate::Pending => 0,
                BlindUpdate::Missing => 1,
                BlindUpdate::MustBeOrdered => 2,
            });
        }
        Answer::Settled => out.push(5),
        Answer::Failed(error) => {
            out.push(6);
            error.encode(out);
        }
        Answer::Undone => out.push(7),
        Answer::Done => out.push(11),
        Answer::NotDone => out.push(12),
        Answer::Laid { taken } => {
            out.push(if taken.is_none() { 20 } else { 21 });
            taken.iter().for_each(|place| put_u32(out, *place));
        }
        Answer::Several(answers) => {
            out.push(SEVERAL_ANSWERS);
            put_length(out, answers.len());
            answers.iter().for_each(|answer| put_answer(out, answer));
        }
    }
}

pub(super) fn read_answer(reader: &mut ByteReader<'_>) -> Result<Answer> {
    let tag = reader.u8()?;
    if tag != SEVERAL_ANSWERS {
        return read_single_answer(tag, reader);
    }
    let count = reader.length()?;
    if count > SEVERAL_MAX {
        return Err(damaged("too many answers"));
    }
    let mut answers = Vec::new();
    for _ in 0..count {
        answers.push(read_single_answer(reader.u8()?, reader)?);
    }
    Ok(Answer::Several(answers))
}

fn read_single_answer(tag: u8, reader: &mut ByteReader<'_>) -> Result<Answer> {
    Ok(match tag {
        1 => Answer::Row(None),
        2 => Answer::Row(Some(read_row(reader)?)),
        3 => Answer::Rows(read_rows(reader)?),
        tag @ (8 | 9) => Answer::Page {
            rows: read_rows(reader)?,
            reached: (tag == 8).then(|| read_key(reader)).transpose()?,
        },
        tag @ (18 | 19) => Answer::Entries {
            entries: read_rows(reader)?,
            reached: (tag == 18).then(|| read_key(reader)).transpose()?,
            rows: read_rows_of_entries(reader)?,
        },
        tag @ (14 | 15) => Answer::Groups {
            has_partner: read_bool(reader)?,
            groups: read_groups(reader)?,
            reached: (tag == 14).then(|| read_key(reader)).transpose()?,
        },
        tag @ (16 | 17) => Answer::Joined {
            is_too_much: read_bool(reader)?,
            has_partner: read_bool(reader)?,
            tuples: read_groups(reader)?,
            reached: (tag == 16).then(|| read_key(reader)).transpose()?,
        },
        10 => Answer::Busy,
        4 => Answer::Blind(match reader.u8()? {
            0 => BlindUpdate::Pending,
            1 => BlindUpdate::Missing,
            2 => BlindUpdate::MustBeOrdered,
            _ => return Err(damaged("an unknown outcome of a blind formula")),
        }),
        5 => Answer::Settled,
        6 => Answer::Failed(Error::decode(reader)?),
        7 => Answer::Undone,
        11 => Answer::Done,
        12 => Answer::NotDone,
        tag @ (20 | 21) => Answer::Laid {
            taken: (tag == 21).then(|| reader.u32()).transpose()?,
        },
        _ => return Err(damaged("an unknown answer")),
    })
}
