//! What a log record says.
//!
//! A transaction is one record, or several *parts* followed by one that commits them: a record is bounded, a transaction is
//! not. Parts of one transaction stand together, since whoever appends is alone with the log. A transaction that failed
//! half-way (the disk was full) leaves parts that no commit follows: the next first part, or a whole transaction, ends them.

use rubato_base::codec::{ByteReader, put_bytes, put_length};
use rubato_base::{ColumnSet, Error, GlobalId, Key, NodeId, Result, Row, SqlState, TableId, Timestamp};
use rubato_formula::Formula;
use rubato_protocol::{Change, DecisionRecord, PrepareRecord, StandingRecord};

/// A change of one item as the log has it.
pub(crate) type LoggedChange = (TableId, Key, Change);

/// Bytes of changes after which a transaction is cut into parts.
pub(crate) const PART_BYTES_MAX: usize = 1 << 20;

const COMMIT: u8 = 1;
const PART: u8 = 2;
const FIRST_PART: u8 = 3;
const COMMIT_PARTS: u8 = 4;
const PREPARE: u8 = 5;
const DECISION: u8 = 6;
const END: u8 = 7;
const STANDING: u8 = 8;
const AGREEMENT: u8 = 9;
/// Format of the records of transactions over several partitions. A newer one is refused by name and left untouched.
const GRID_VERSION: u8 = 2;
/// The format of records that say nothing that programs of this version do not know: they read them.
const FIRST_GRID_VERSION: u8 = 1;

/// What a prepared branch has beside its changes.
const HAS_PARTS: u8 = 1;
const IS_ATTACHED: u8 = 2;

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
    /// A prepared branch of a transaction over several partitions.
    Prepare {
        transaction: GlobalId,
        floor: Timestamp,
        /// Where it stands in queues.
        places: Vec<LoggedPlace>,
        changes: Vec<LoggedChange>,
        /// What its commit does beside rows.
        attachment: Option<Vec<u8>>,
        has_parts: bool,
    },
    /// What became of a transaction over several partitions; at its coordinator, whom it has to tell.
    Decision {
        transaction: GlobalId,
        cts: Option<Timestamp>,
        participants: Vec<NodeId>,
    },
    /// Everybody has carried out the decision of this transaction.
    End { transaction: GlobalId },
    /// What a node of a grid knows of itself.
    Standing(StandingRecord),
    /// What it has to know of what all nodes agree on, in the form of the grid.
    Agreement(Vec<u8>),
}

impl Record {
    /// The changes of rows that stand in the record.
    pub(crate) fn changes(&self) -> &[LoggedChange] {
        match self {
            Record::Part { changes, .. } | Record::Commit { changes, .. } | Record::Prepare { changes, .. } => changes,
            Record::Decision { .. } | Record::End { .. } | Record::Standing(_) | Record::Agreement(_) => &[],
        }
    }

    /// Whether a transaction's records begin with this one: parts stand before what says of them that it has some.
    pub(crate) fn begins_transaction(&self) -> bool {
        match self {
            Record::Part { first, .. } => *first,
            Record::Commit { has_parts, .. } | Record::Prepare { has_parts, .. } => !has_parts,
            Record::Decision { .. } | Record::End { .. } | Record::Standing(_) | Record::Agreement(_) => true,
        }
    }

    /// Whether they end with this one.
    pub(crate) fn ends_transaction(&self) -> bool {
        !matches!(self, Record::Part { .. })
    }
}

/// A place in an item's queue as the log has it.
pub(crate) type LoggedPlace = (TableId, Key, ColumnSet);

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

/// Starts a prepared branch; its changes follow.
pub(crate) fn begin_prepare(record: &PrepareRecord<'_>, has_parts: bool, out: &mut Vec<u8>) {
    out.clear();
    let version = record.attachment.map_or(FIRST_GRID_VERSION, |_| GRID_VERSION);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(has_parts, HAS_PARTS) | flag(record.attachment.is_some(), IS_ATTACHED);
    out.extend_from_slice(&[PREPARE, version, flags]);
    put_global(record.transaction, out);
    out.extend_from_slice(&record.floor.0.to_le_bytes());
    record.attachment.iter().for_each(|attached| put_bytes(out, attached));
    put_length(out, record.places.len());
    for (table, key, columns) in record.places {
        put_length(out, table.0 as usize);
        put_bytes(out, key.as_bytes());
        out.extend_from_slice(&columns.0.to_le_bytes());
    }
}

/// A whole decision.
pub(crate) fn put_decision(record: &DecisionRecord<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[DECISION, FIRST_GRID_VERSION, u8::from(record.cts.is_some())]);
    put_global(record.transaction, out);
    out.extend_from_slice(&record.cts.unwrap_or_default().0.to_le_bytes());
    put_length(out, record.participants.len());
    for node in record.participants {
        out.extend_from_slice(&node.0.to_le_bytes());
    }
}

/// A whole record that a decision is carried out.
pub(crate) fn put_end(transaction: GlobalId, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[END, FIRST_GRID_VERSION]);
    put_global(transaction, out);
}

/// A whole record of what a node of a grid knows of itself.
pub(crate) fn put_standing(record: &StandingRecord, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[STANDING, FIRST_GRID_VERSION]);
    out.extend_from_slice(&record.life.to_le_bytes());
    out.extend_from_slice(&record.tick_bound.0.to_le_bytes());
}

/// A whole record of what a node has to know of what all agree on.
pub(crate) fn put_agreement(record: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[AGREEMENT, FIRST_GRID_VERSION]);
    put_bytes(out, record);
}

fn put_global(global: GlobalId, out: &mut Vec<u8>) {
    out.extend_from_slice(&global.tick.0.to_le_bytes());
    out.extend_from_slice(&global.coordinator.0.to_le_bytes());
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
        PREPARE => prepare(&mut reader),
        DECISION => decision(&mut reader),
        END => {
            check_version(&mut reader)?;
            let transaction = global(&mut reader)?;
            Ok(Record::End { transaction })
        }
        STANDING => {
            check_version(&mut reader)?;
            Ok(Record::Standing(StandingRecord {
                life: reader.u64()?,
                tick_bound: Timestamp(reader.u64()?),
            }))
        }
        AGREEMENT => {
            check_version(&mut reader)?;
            Ok(Record::Agreement(reader.bytes()?.to_vec()))
        }
        kind => Err(damaged(&format!("a log record of unknown kind {kind}"))),
    }
}

fn prepare(reader: &mut ByteReader<'_>) -> Result<Record> {
    check_version(reader)?;
    let flags = reader.u8()?;
    if flags > HAS_PARTS | IS_ATTACHED {
        return Err(damaged("a prepared branch with unknown parts"));
    }
    let (transaction, floor) = (global(reader)?, Timestamp(reader.u64()?));
    let attachment = match flags & IS_ATTACHED {
        0 => None,
        _ => Some(reader.bytes()?.to_vec()),
    };
    let mut places = Vec::new();
    for _ in 0..reader.length()? {
        let key_of = (table_id(reader)?, Key::from_bytes(reader.bytes()?));
        places.push((key_of.0, key_of.1, ColumnSet(reader.u64()?)));
    }
    Ok(Record::Prepare {
        transaction,
        floor,
        places,
        changes: changes(reader)?,
        attachment,
        has_parts: flags & HAS_PARTS != 0,
    })
}

fn decision(reader: &mut ByteReader<'_>) -> Result<Record> {
    check_version(reader)?;
    let committed = reader.u8()? == 1;
    let (transaction, cts) = (global(reader)?, Timestamp(reader.u64()?));
    let mut participants = Vec::new();
    for _ in 0..reader.length()? {
        participants.push(NodeId(reader.u32()?));
    }
    Ok(Record::Decision {
        transaction,
        cts: committed.then_some(cts),
        participants,
    })
}

fn check_version(reader: &mut ByteReader<'_>) -> Result<()> {
    let version = reader.u8()?;
    if version <= GRID_VERSION {
        return Ok(());
    }
    let message = format!("the log has records of version {version}, this program reads up to version {GRID_VERSION}");
    let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
    Err(error.with_hint("Open it with the newer rubato that wrote it."))
}

fn global(reader: &mut ByteReader<'_>) -> Result<GlobalId> {
    Ok(GlobalId {
        tick: Timestamp(reader.u64()?),
        coordinator: NodeId(reader.u32()?),
    })
}

fn table_id(reader: &mut ByteReader<'_>) -> Result<TableId> {
    let number = u32::try_from(reader.length()?).map_err(|_| damaged("a table number that is too large"))?;
    Ok(TableId(number))
}

fn changes(reader: &mut ByteReader<'_>) -> Result<Vec<LoggedChange>> {
    let mut changes = Vec::new();
    while !reader.is_empty() {
        let table = table_id(reader)?;
        let key = Key::from_bytes(reader.bytes()?);
        let change = match reader.u8()? {
            INSERT => Change::Insert(Row::from_bytes(reader.bytes()?.into())?),
            REPLACE => Change::Replace(Row::from_bytes(reader.bytes()?.into())?),
            UPDATE => Change::Update(Formula::decode(reader)?),
            DELETE => Change::Delete,
            kind => return Err(damaged(&format!("a change of unknown kind {kind}"))),
        };
        changes.push((table, key, change));
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

    #[test]
    fn branches_and_decisions_round_trip_and_newer_ones_are_refused_by_name() {
        let transaction = GlobalId {
            tick: Timestamp(7 << 16),
            coordinator: NodeId(3),
        };
        let places = [(TableId(300), Key::of(&[Value::Int4(2)]), ColumnSet(5))];
        let change = (TableId(3), Key::of(&[Value::Int4(4)]), Change::Delete);
        let mut out = Vec::new();
        for (attachment, version) in [(None, FIRST_GRID_VERSION), (Some(&b"attached"[..]), GRID_VERSION)] {
            let record = PrepareRecord {
                transaction,
                floor: Timestamp(9),
                changes: &(),
                places: &places,
                attachment,
            };
            begin_prepare(&record, true, &mut out);
            put_change(change.0, &change.1, &change.2, &mut out);
            let expected = Record::Prepare {
                transaction,
                floor: Timestamp(9),
                places: places.to_vec(),
                changes: vec![change.clone()],
                attachment: attachment.map(<[u8]>::to_vec),
                has_parts: true,
            };
            assert_eq!((out[1], decode(&out).unwrap()), (version, expected.clone()));
            for cut in 0..out.len() {
                assert!(decode(&out[..cut]).map_or(true, |shorter| shorter != expected));
            }
        }
        out[1] = GRID_VERSION + 1;
        assert_eq!(decode(&out).unwrap_err().code(), SqlState::FEATURE_NOT_SUPPORTED);
        for (cts, participants) in [(None, vec![]), (Some(Timestamp(8)), vec![NodeId(1), NodeId(2)])] {
            let record = DecisionRecord {
                transaction,
                cts,
                participants: &participants,
            };
            put_decision(&record, &mut out);
            let expected = Record::Decision {
                transaction,
                cts,
                participants,
            };
            assert_eq!(decode(&out).unwrap(), expected);
        }
        put_end(transaction, &mut out);
        assert_eq!(decode(&out).unwrap(), Record::End { transaction });
        let standing = StandingRecord {
            life: 3,
            tick_bound: Timestamp(9 << 16),
        };
        put_standing(&standing, &mut out);
        assert_eq!(decode(&out).unwrap(), Record::Standing(standing));
        assert!(decode(&out[..out.len() - 1]).is_err());
        out[1] = GRID_VERSION + 1;
        assert_eq!(decode(&out).unwrap_err().code(), SqlState::FEATURE_NOT_SUPPORTED);
    }
}
