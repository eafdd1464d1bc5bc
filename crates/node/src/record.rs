//! What a log record says.
//!
//! A transaction is one record, or several *parts* followed by one that commits them: a record is bounded, a transaction is
//! not. Parts of one transaction stand together, since whoever appends is alone with the log. A transaction that failed
//! half-way (the disk was full) leaves parts that no commit follows: the next first part, or a whole transaction, ends them.

use rubato_base::codec::{ByteReader, put_bytes, put_length};
use rubato_base::{Error, Key, Result, Row, SqlState, TableId, Timestamp};
use rubato_formula::Formula;
use rubato_protocol::Change;

/// A change of one item as the log has it.
pub(crate) type LoggedChange = (TableId, Key, Change);

/// Bytes of changes after which a transaction is cut into parts.
pub(crate) const PART_BYTES_MAX: usize = 1 << 20;

const COMMIT: u8 = 1;
const PART: u8 = 2;
const FIRST_PART: u8 = 3;
const COMMIT_PARTS: u8 = 4;

const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const REPLACE: u8 = 3;
const DELETE: u8 = 4;

/// A decoded record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// Changes of a transaction whose commit follows, if nothing went wrong; whether they are its first ones.
    Part { first: bool, changes: Vec<LoggedChange> },
    /// The end of a transaction: its place, its last changes, what else belongs to it, and whether parts stand before.
    Commit {
        cts: Timestamp,
        changes: Vec<LoggedChange>,
        attachment: Option<Vec<u8>>,
        has_parts: bool,
    },
}

/// Starts a part.
pub(crate) fn begin_part(first: bool, out: &mut Vec<u8>) {
    out.clear();
    out.push(if first { FIRST_PART } else { PART });
}

/// Starts the committing record.
pub(crate) fn begin_commit(cts: Timestamp, attachment: Option<&[u8]>, has_parts: bool, out: &mut Vec<u8>) {
    out.clear();
    out.push(if has_parts { COMMIT_PARTS } else { COMMIT });
    out.extend_from_slice(&cts.0.to_le_bytes());
    match attachment {
        Some(bytes) => {
            out.push(1);
            put_bytes(out, bytes);
        }
        None => out.push(0),
    }
}

/// Appends a change; the changes of a record run to its end.
pub(crate) fn put_change(table: TableId, key: &Key, change: &Change, out: &mut Vec<u8>) {
    put_length(out, table.0 as usize);
    put_bytes(out, key.as_bytes());
    match change {
        Change::Insert(row) => {
            out.push(INSERT);
            put_bytes(out, row.as_bytes());
        }
        Change::Replace(row) => {
            out.push(REPLACE);
            put_bytes(out, row.as_bytes());
        }
        Change::Update(formula) => {
            out.push(UPDATE);
            formula.encode(out);
        }
        Change::Delete => out.push(DELETE),
    }
}

/// Reads a record. XX001 if it is damaged.
pub(crate) fn decode(payload: &[u8]) -> Result<Record> {
    let mut reader = ByteReader::new(payload);
    match reader.u8()? {
        kind @ (PART | FIRST_PART) => Ok(Record::Part {
            first: kind == FIRST_PART,
            changes: changes(&mut reader)?,
        }),
        kind @ (COMMIT | COMMIT_PARTS) => {
            let cts = Timestamp(reader.u64()?);
            let attachment = if reader.u8()? == 1 {
                Some(reader.bytes()?.to_vec())
            } else {
                None
            };
            Ok(Record::Commit {
                cts,
                changes: changes(&mut reader)?,
                attachment,
                has_parts: kind == COMMIT_PARTS,
            })
        }
        kind => Err(damaged(&format!("a log record of unknown kind {kind}"))),
    }
}

fn changes(reader: &mut ByteReader<'_>) -> Result<Vec<LoggedChange>> {
    let mut changes = Vec::new();
    while !reader.is_empty() {
        let table = u32::try_from(reader.length()?).map_err(|_| damaged("a table number that is too large"))?;
        let key = Key::from_bytes(reader.bytes()?);
        let change = match reader.u8()? {
            INSERT => Change::Insert(Row::from_bytes(reader.bytes()?.into())?),
            REPLACE => Change::Replace(Row::from_bytes(reader.bytes()?.into())?),
            UPDATE => Change::Update(Formula::decode(reader)?),
            DELETE => Change::Delete,
            kind => return Err(damaged(&format!("a change of unknown kind {kind}"))),
        };
        changes.push((TableId(table), key, change));
    }
    Ok(changes)
}

pub(crate) fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("the log is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::{ColumnType, DataType, Value};
    use rubato_formula::Change as ColumnFormula;

    #[test]
    fn records_round_trip_and_cuts_are_errors_or_shorter() {
        let row = Row::from_values(&[Value::Int4(1), Value::text("x")]);
        let add = ColumnFormula::add(0, ColumnType::plain(DataType::Int4), Value::Int4(7));
        let all = [
            (TableId(3), Key::of(&[Value::Int4(1)]), Change::Insert(row.clone())),
            (
                TableId(300),
                Key::of(&[Value::Int4(2)]),
                Change::Update(Formula::new([add]).unwrap()),
            ),
            (TableId(3), Key::of(&[Value::Int4(3)]), Change::Replace(row)),
            (TableId(3), Key::of(&[Value::Int4(4)]), Change::Delete),
        ];
        let mut out = Vec::new();
        begin_commit(Timestamp(9), Some(b"attached"), false, &mut out);
        all.iter()
            .for_each(|(table, key, change)| put_change(*table, key, change, &mut out));
        let Record::Commit {
            cts,
            changes,
            attachment,
            has_parts: false,
        } = decode(&out).unwrap()
        else {
            panic!("a commit")
        };
        assert_eq!(
            (cts, &changes[..], attachment.as_deref()),
            (Timestamp(9), &all[..], Some(&b"attached"[..]))
        );
        for cut in 0..out.len() {
            if let Ok(Record::Commit { changes, .. }) = decode(&out[..cut]) {
                assert!(changes.len() < all.len());
            }
        }
        for first in [true, false] {
            begin_part(first, &mut out);
            put_change(all[3].0, &all[3].1, &all[3].2, &mut out);
            assert_eq!(
                decode(&out).unwrap(),
                Record::Part {
                    first,
                    changes: vec![all[3].clone()]
                }
            );
        }
        assert!(decode(&[]).is_err() && decode(&[77]).is_err());
    }
}
