//! What the statements of one partition work on: the formula database, the catalog, sequences and row numbers, and where
//! commits are written.

use crate::advisory::AdvisoryLocks;
use crate::catalog::{Catalog, RelationName, Sequence};
use crate::catalog_codec;
use crate::channels::Channels;
use crate::checkpoints::Checkpoints;
use crate::databases::{DatabaseFacts, DatabaseId, Databases, decode_facts, encode_facts, storage_of};
use crate::grid::GridDesk;
use crate::insight::Insight;
use crate::outcomes::{OutcomeRecord, Outcomes};
use crate::row_numbers::RowNumberCounters;
use crate::schema_change::{merge, without_temporary};
use rubato_base::codec::{ByteReader, put_bytes, put_length};
use rubato_base::{Error, Lsn, Result, SqlState, TableId, Timestamp, TransactionId};
use rubato_protocol::{CommitLog, CommitRecord, FormulaDatabase};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that a statement may change. Whoever executes a statement has it to himself.
pub struct Partition {
    /// Rows and transactions.
    pub database: FormulaDatabase,
    /// The databases with their committed catalogs; [`Partition::set_databases`] changes them.
    pub databases: Arc<Databases>,
    /// Where commits go.
    pub log: Box<dyn CommitLog + Send>,
    /// Values of sequences.
    pub sequences: SequenceValues,
    /// Numbers of rows without a primary key.
    pub row_numbers: RowNumberCounters,
    /// The next storage id: beyond every one ever given, also to transactions that were rolled back.
    pub next_storage_id: u32,
    /// Why nothing that writes may be begun now (the log cannot grow), if so. Whoever owns the partition keeps it up to date.
    pub refuses_writes: Option<Error>,
    /// What the system views say beside the catalog and the rows.
    pub insight: Arc<Insight>,
    /// Open schema changes.
    pub schema_changes: SchemaChanges,
    /// Locks that have nothing to do with rows.
    pub advisory: AdvisoryLocks,
    /// Who listens to what.
    pub channels: Channels,
    /// Checkpoints that statements ask for.
    pub checkpoints: Checkpoints,
    /// What sessions ask the grid for, on a node of one.
    pub grid: Option<Arc<dyn GridDesk>>,
}

/// The open schema changes of a partition: who changes which table, and storage that is no longer needed.
#[derive(Debug, Default)]
pub struct SchemaChanges {
    changing: Vec<TableChange>,
    committing: Option<Committing>,
    /// Storage that no catalog names any more, and since when.
    dropped: Vec<(TableId, Timestamp)>,
}

/// A table whose definition an open transaction changes.
#[derive(Debug)]
struct TableChange {
    database: DatabaseId,
    table: RelationName,
    owner: TransactionId,
}

/// A new catalog that all nodes of the transaction which has made it are committing.
#[derive(Debug)]
pub struct Committing {
    /// The transaction.
    pub owner: TransactionId,
    /// Whose catalog.
    pub database: DatabaseId,
    /// The catalog that it was made of.
    pub base: Arc<Catalog>,
    /// The new one.
    pub catalog: Arc<Catalog>,
    /// What the database is, if the transaction makes it.
    pub made: Option<DatabaseFacts>,
}

impl Committing {
    /// The databases with the new catalog. Meanwhile nobody has changed more than what was a session's own.
    pub fn installed(self, partition: &mut Partition) -> Databases {
        if let Some(facts) = &self.made {
            // Nobody has changed what databases there are meanwhile.
            let made = partition.databases.with_new(facts, &self.catalog);
            return made.unwrap_or_else(|_| (*partition.databases).clone());
        }
        let newest = partition.databases.catalog(self.database);
        let is_left_alone = Arc::ptr_eq(newest, &self.base);
        let merged = (!is_left_alone).then(|| merge(&self.base, &self.catalog, newest).ok());
        let catalog = match merged.flatten() {
            None => self.catalog,
            Some(mut merged) => {
                merged.version = u64::from(partition.take_storage_id());
                merged.next_id = merged.next_id.max(partition.next_storage_id);
                Arc::new(merged)
            }
        };
        partition.databases.with_catalog(self.database, catalog)
    }
}

impl SchemaChanges {
    /// The other transaction that changes this table's definition, if there is one.
    pub fn owner(
        &self,
        database: DatabaseId,
        table: &RelationName,
        transaction: TransactionId,
    ) -> Option<TransactionId> {
        self.other(database, table, transaction).map(|change| change.owner)
    }

    /// Another transaction whose new catalog all nodes are committing: nobody commits one meanwhile.
    pub fn other_committing(&self, transaction: TransactionId) -> Option<TransactionId> {
        let owner = self.committing.as_ref().map(|committing| committing.owner);
        owner.filter(|owner| *owner != transaction)
    }

    /// Whether all nodes are committing a new catalog of whomever.
    pub(crate) fn is_committing(&self) -> bool {
        self.committing.is_some()
    }

    /// All nodes are about to commit this.
    pub fn begin_commit(&mut self, committing: Committing) {
        self.committing = Some(committing);
    }

    /// The transaction has ended: what it was committing, if it was.
    pub fn take_committing(&mut self, transaction: TransactionId) -> Option<Committing> {
        self.committing.take_if(|committing| committing.owner == transaction)
    }

    fn other(&self, database: DatabaseId, table: &RelationName, transaction: TransactionId) -> Option<&TableChange> {
        let is_same = |change: &&TableChange| change.database == database && change.table == *table;
        self.changing
            .iter()
            .filter(is_same)
            .find(|change| change.owner != transaction)
    }

    /// Whether nobody changes anything.
    pub fn is_empty(&self) -> bool {
        self.changing.is_empty()
    }

    /// Whether somebody changes tables of a database.
    pub fn concern(&self, database: DatabaseId) -> bool {
        self.changing.iter().any(|change| change.database == database)
    }

    /// The transaction changes these tables of a database from now on.
    pub fn begin(&mut self, database: DatabaseId, tables: &[RelationName], owner: TransactionId) {
        for table in tables {
            let is_same = |change: &TableChange| change.database == database && change.table == *table;
            if !self.changing.iter().any(is_same) {
                self.changing.push(TableChange {
                    database,
                    table: table.clone(),
                    owner,
                });
            }
        }
    }

    /// The transaction has ended.
    pub fn end(&mut self, transaction: TransactionId) {
        self.changing.retain(|change| change.owner != transaction);
        self.take_committing(transaction);
    }
}

impl Partition {
    /// Gives a storage id that no one else has.
    pub fn take_storage_id(&mut self) -> u32 {
        self.next_storage_id = self.next_storage_id.max(self.databases.next_id()).max(1);
        let id = self.next_storage_id;
        self.next_storage_id += 1;
        id
    }

    /// These are the databases from now on, for the views of what happens now too.
    pub fn set_databases(&mut self, databases: Arc<Databases>) {
        self.insight.set_databases(Arc::clone(&databases));
        self.databases = databases;
        if let Some(grid) = &self.grid {
            grid.catalogs_change();
        }
    }

    /// This is the committed catalog of a database from now on.
    pub fn set_catalog(&mut self, database: DatabaseId, catalog: Arc<Catalog>) {
        self.set_databases(Arc::new(self.databases.with_catalog(database, catalog)));
    }

    /// Forgets storage that no catalog names any more: at once, or when the statements that may be reading it have ended and the
    /// checkpoint under way has taken all that it must. What was laid out of it is laid out again after a crash, from the rows of the last checkpoint and the log.
    pub fn drop_storage(&mut self, storage: impl IntoIterator<Item = TableId>) {
        let now = self.database.clock();
        let dropped = &mut self.schema_changes.dropped;
        dropped.extend(storage.into_iter().map(|storage| (storage, now)));
        if dropped.is_empty() || self.database.has_more_to_flush() {
            return;
        }
        let oldest = self.database.oldest_begun().unwrap_or(Timestamp::MAX);
        for (storage, _) in dropped.extract_if(.., |(_, since)| *since < oldest) {
            self.database.drop_table(storage);
        }
    }

    /// Forgets what belonged to sessions: none is there when the partition is opened.
    pub fn forget_temporary(&mut self) {
        let databases = Arc::clone(&self.databases);
        for database in databases.iter() {
            if database.catalog.temporary_schemas().is_empty() {
                continue;
            }
            let kept = without_temporary(&database.catalog);
            let left = storage_of(&kept);
            let gone = storage_of(&database.catalog).into_iter();
            let gone: Vec<TableId> = gone.filter(|storage| !left.contains(storage)).collect();
            self.set_catalog(database.facts.id, Arc::new(kept));
            self.drop_storage(gone);
        }
    }

    /// 53100 or the like while nothing that writes may be begun.
    pub fn admit_write(&self) -> Result<()> {
        self.refuses_writes.clone().map_or(Ok(()), Err)
    }

    /// Writes down how far sequences and ids of transactions have been taken, if that has moved: before any commit that may use
    /// the numbers. Numbers are written down ahead of their turn: who takes one that is has to wait for
    /// [`SequenceValues::logged_at`], whoever wrote it down.
    pub fn log_sequences(&mut self) -> Result<Option<Lsn>> {
        let moved = self.sequences.take_moved();
        let outcomes = self.sequences.outcomes.take_moved();
        if moved.is_empty() && outcomes.is_none() {
            return Ok(None);
        }
        let ids_moved = outcomes.is_some();
        let attachment = Attachment {
            sequences: moved.clone(),
            outcomes,
            ..Attachment::default()
        }
        .encode();
        let record = CommitRecord {
            cts: Timestamp::ZERO,
            changes: &(),
            attachment: Some(&attachment),
        };
        let appended = self.log.append(&record);
        if appended.is_err() {
            // The numbers have been given: the next attempt must write them down.
            self.sequences.put_back(moved);
            if ids_moved {
                self.sequences.outcomes.put_back();
            }
        }
        if let Ok(lsn) = &appended {
            self.sequences.logged_at = *lsn;
        }
        appended.map(Some)
    }
}

/// What a log record carries beside changes of rows.
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    /// Whole new catalogs, and whose they are. A commit has one at the most, a checkpoint all.
    pub catalogs: Vec<(DatabaseId, Catalog)>,
    /// What databases there are from now on, if that has changed.
    pub databases: Option<Vec<DatabaseFacts>>,
    /// Sequences (by id) and the value up to which their numbers may have been given.
    pub sequences: Vec<(u32, i64)>,
    /// Outcomes of transactions whose clients asked for an id.
    pub outcomes: Option<OutcomeRecord>,
    /// Storage of the new catalog whose rows are made of others', in order.
    pub derived: Vec<Derived>,
}

/// Storage whose rows were laid out of another's: a table under another key, or an index. The rows are not in the log; recovery
/// makes them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Where the table's rows were.
    pub from: TableId,
    /// The table's or the index's storage.
    pub to: TableId,
}

/// 2200H: what is said at the end of a sequence.
pub const SEQUENCE_ENDED: SqlState = SqlState(*b"2200H");

/// What an attachment has behind its sequences. The catalog of the first database stands at the end; those of others are told among
/// the databases, of which programs knew nothing that knew only one.
const HAS_CATALOG: u8 = 1;
const HAS_OUTCOMES: u8 = 2;
const HAS_DERIVED: u8 = 4;
const HAS_DATABASES: u8 = 8;

impl Attachment {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_length(&mut out, self.sequences.len());
        for (id, value) in &self.sequences {
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        let flag = |has: bool, flag: u8| if has { flag } else { 0 };
        let derived = !self.derived.is_empty();
        let is_first = |(id, _): &&(DatabaseId, Catalog)| *id == DatabaseId::RUBATO;
        let first = self.catalogs.iter().find(is_first);
        let others: Vec<_> = self.catalogs.iter().filter(|own| !is_first(own)).collect();
        let databases = self.databases.is_some() || !others.is_empty();
        out.push(
            flag(first.is_some(), HAS_CATALOG)
                | flag(self.outcomes.is_some(), HAS_OUTCOMES)
                | flag(derived, HAS_DERIVED)
                | flag(databases, HAS_DATABASES),
        );
        if let Some(outcomes) = &self.outcomes {
            outcomes.encode(&mut out);
        }
        if derived {
            put_length(&mut out, self.derived.len());
            for derived in &self.derived {
                out.extend_from_slice(&derived.from.0.to_le_bytes());
                out.extend_from_slice(&derived.to.0.to_le_bytes());
            }
        }
        if databases {
            out.push(u8::from(self.databases.is_some()));
            if let Some(facts) = &self.databases {
                encode_facts(facts, &mut out);
            }
            put_length(&mut out, others.len());
            for (id, catalog) in others {
                let mut bytes = Vec::new();
                catalog_codec::encode_catalog(catalog, &mut bytes);
                out.extend_from_slice(&id.0.to_le_bytes());
                put_bytes(&mut out, &bytes);
            }
        }
        if let Some((_, catalog)) = first {
            catalog_codec::encode_catalog(catalog, &mut out);
        }
        out
    }

    /// From bytes; XX001 if they are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Attachment> {
        let mut reader = ByteReader::new(bytes);
        let mut sequences = Vec::new();
        for _ in 0..reader.length()? {
            sequences.push((reader.u32()?, reader.u64()? as i64));
        }
        let parts = reader.u8()?;
        if parts > HAS_CATALOG | HAS_OUTCOMES | HAS_DERIVED | HAS_DATABASES {
            let message = format!("the log is damaged: an attachment with parts {parts}");
            return Err(Error::new(SqlState::DATA_CORRUPTED, message));
        }
        let outcomes = match parts & HAS_OUTCOMES {
            0 => None,
            _ => Some(OutcomeRecord::decode(&mut reader)?),
        };
        let mut derived = Vec::new();
        if parts & HAS_DERIVED != 0 {
            for _ in 0..reader.length()? {
                let (from, to) = (TableId(reader.u32()?), TableId(reader.u32()?));
                derived.push(Derived { from, to });
            }
        }
        let (mut databases, mut catalogs) = (None, Vec::new());
        if parts & HAS_DATABASES != 0 {
            if reader.u8()? != 0 {
                databases = Some(decode_facts(&mut reader)?);
            }
            for _ in 0..reader.length()? {
                let id = DatabaseId(reader.u32()?);
                catalogs.push((id, catalog_codec::decode_catalog(reader.bytes()?)?));
            }
        }
        if parts & HAS_CATALOG != 0 {
            let first = catalog_codec::decode_catalog(reader.rest())?;
            catalogs.push((DatabaseId::RUBATO, first));
        }
        Ok(Attachment {
            catalogs,
            databases,
            sequences,
            outcomes,
            derived,
        })
    }
}

/// Numbers taken ahead of what was logged: after a crash at most as many are skipped, as in PostgreSQL.
const LOGGED_AHEAD: i64 = 32;

/// The value of one sequence.
#[derive(Clone, Copy, Debug)]
struct SequenceValue {
    /// The number given last, if one was; or, unless `is_called`, the one before the next.
    last: Option<i64>,
    /// Whether `last` was given.
    is_called: bool,
    /// The number up to which the log says that numbers may have been given.
    logged: Option<i64>,
}

/// Values of sequences by id, and the ids of transactions, which are such a sequence too. They move outside of transactions, as in
/// PostgreSQL.
#[derive(Debug, Default)]
pub struct SequenceValues {
    /// They are on another node of the grid, with everything else that there is once: what is here counts for nothing.
    pub are_elsewhere: bool,
    /// Ids of transactions and their outcomes.
    pub outcomes: Outcomes,
    values: BTreeMap<u32, SequenceValue>,
    moved: Vec<(u32, i64)>,
    logged_at: Lsn,
}

impl SequenceValues {
    /// Behind the last record of numbers that may be given: no number, and no id, may be shown to anybody before the log is
    /// forced up to there, or a crash would give it again (promise 4).
    pub fn logged_at(&self) -> Lsn {
        self.logged_at
    }

    /// `nextval`. 2200H at its end.
    pub fn next(&mut self, sequence: &Sequence) -> Result<i64> {
        let value = self.values.entry(sequence.id).or_insert(SequenceValue {
            last: None,
            is_called: false,
            logged: None,
        });
        let next = match value.last {
            None => sequence.start,
            Some(last) => match last.checked_add(sequence.increment) {
                Some(next) if next >= sequence.minimum && next <= sequence.maximum => next,
                _ if sequence.cycle && sequence.increment > 0 => sequence.minimum,
                _ if sequence.cycle => sequence.maximum,
                _ => return Err(exhausted(sequence)),
            },
        };
        value.last = Some(next);
        value.is_called = true;
        let beyond = value.logged.is_none_or(|logged| {
            if sequence.increment > 0 {
                next > logged
            } else {
                next < logged
            }
        });
        if beyond || sequence.cycle {
            let ahead = next.saturating_add(sequence.increment.saturating_mul(LOGGED_AHEAD));
            let ahead = if sequence.cycle {
                next
            } else {
                ahead.clamp(sequence.minimum, sequence.maximum)
            };
            value.logged = Some(ahead);
            self.moved.push((sequence.id, ahead));
        }
        Ok(next)
    }

    /// `setval`. 22003 outside of the sequence's bounds.
    pub fn set(&mut self, sequence: &Sequence, value: i64, is_called: bool) -> Result<i64> {
        if value < sequence.minimum || value > sequence.maximum {
            let message = format!(
                "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                sequence.name, sequence.minimum, sequence.maximum
            );
            return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        let last = if is_called {
            value
        } else {
            value.saturating_sub(sequence.increment)
        };
        self.values.insert(
            sequence.id,
            SequenceValue {
                last: Some(last),
                is_called,
                logged: Some(last),
            },
        );
        self.moved.push((sequence.id, last));
        Ok(value)
    }

    /// A number, and whether `nextval` gives the one after it; else it gives the number itself.
    pub fn state(&self, sequence: &Sequence) -> (i64, bool) {
        let value = self.values.get(&sequence.id);
        let Some((value, last)) = value.and_then(|value| Some((value, value.last?))) else {
            return (sequence.start, false);
        };
        // What was recovered may stand one step in front of the first number.
        let is_number = last >= sequence.minimum && last <= sequence.maximum;
        match value.is_called && is_number {
            true => (last, true),
            false => (last.saturating_add(sequence.increment), false),
        }
    }

    /// Starts a sequence over (TRUNCATE ... RESTART IDENTITY).
    pub fn restart(&mut self, sequence: &Sequence) {
        let before = sequence.start.saturating_sub(sequence.increment);
        self.values.insert(
            sequence.id,
            SequenceValue {
                last: Some(before),
                is_called: false,
                logged: Some(before),
            },
        );
        self.moved.push((sequence.id, before));
    }

    /// Puts back what the log or a checkpoint says.
    pub fn recover(&mut self, id: u32, value: i64) {
        self.values.insert(
            id,
            SequenceValue {
                last: Some(value),
                is_called: true,
                logged: Some(value),
            },
        );
    }

    /// All sequences with the value up to which numbers may have been given, for a checkpoint.
    pub fn all(&self) -> Vec<(u32, i64)> {
        self.values
            .iter()
            .filter_map(|(id, value)| value.logged.map(|logged| (*id, logged)))
            .collect()
    }

    /// A sequence that begins as another one is now.
    pub fn copy(&mut self, from: u32, to: u32) {
        let Some(value) = self.values.get(&from).copied() else {
            return;
        };
        self.values.insert(to, value);
        self.moved.extend(value.logged.map(|logged| (to, logged)));
    }

    /// Sequences that are gone with their database.
    pub fn forget(&mut self, gone: impl IntoIterator<Item = u32>) {
        for id in gone {
            self.values.remove(&id);
            self.moved.retain(|(moved, _)| *moved != id);
        }
    }

    fn put_back(&mut self, moved: Vec<(u32, i64)>) {
        let since = std::mem::replace(&mut self.moved, moved);
        self.moved.extend(since);
    }

    fn take_moved(&mut self) -> Vec<(u32, i64)> {
        std::mem::take(&mut self.moved)
    }
}

fn exhausted(sequence: &Sequence) -> Error {
    let (end, limit) = if sequence.increment > 0 {
        ("maximum", sequence.maximum)
    } else {
        ("minimum", sequence.minimum)
    };
    Error::new(
        SEQUENCE_ENDED,
        format!(
            "nextval: reached {end} value of sequence \"{}\" ({limit})",
            sequence.name
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i64, cycle: bool) -> Sequence {
        let (minimum, maximum) = (1, 100);
        let start = if increment > 0 { minimum } else { maximum };
        Sequence {
            id: 7,
            schema: crate::catalog::SchemaId::PUBLIC,
            name: "s".into(),
            start,
            increment,
            minimum,
            maximum,
            cycle,
            owned_by: None,
            data_type: None,
        }
    }

    #[test]
    fn a_sequence_counts_is_logged_ahead_and_ends() {
        let (sequence, mut values) = (sequence(1, false), SequenceValues::default());
        assert_eq!(
            (values.next(&sequence).unwrap(), values.next(&sequence).unwrap()),
            (1, 2)
        );
        assert_eq!(values.take_moved(), vec![(7, 33)]);
        for expected in 3..=100 {
            assert_eq!(values.next(&sequence).unwrap(), expected);
        }
        assert!(values.take_moved().iter().all(|(_, value)| *value <= 100));
        assert_eq!(values.next(&sequence).unwrap_err().code().as_str(), "2200H");
        values.recover(7, 40);
        assert_eq!(values.next(&sequence).unwrap(), 41);
    }

    #[test]
    fn a_sequence_cycles_runs_down_and_is_set() {
        let mut values = SequenceValues::default();
        let down = sequence(-30, true);
        let given: Vec<i64> = (0..5).map(|_| values.next(&down).unwrap()).collect();
        assert_eq!(given, [100, 70, 40, 10, 100]);
        let up = sequence(1, false);
        values.set(&up, 50, false).unwrap();
        assert_eq!(values.next(&up).unwrap(), 50);
        values.set(&up, 50, true).unwrap();
        assert_eq!(values.next(&up).unwrap(), 51);
        assert!(values.set(&up, 101, true).is_err());
    }

    #[test]
    fn attachments_round_trip() {
        let attachment = Attachment {
            catalogs: vec![
                (DatabaseId(20_000), Catalog::default()),
                (DatabaseId::RUBATO, Catalog::default()),
            ],
            databases: Some(Databases::default().facts()),
            sequences: vec![(1, -5), (2, 7)],
            outcomes: Some(OutcomeRecord {
                reserved: 9,
                committed: vec![(1, 3)],
            }),
            derived: vec![Derived {
                from: TableId(3),
                to: TableId(70_000),
            }],
        };
        let back = Attachment::decode(&attachment.encode()).unwrap();
        assert_eq!(
            (back.sequences, back.databases),
            (attachment.sequences, attachment.databases)
        );
        let ids: Vec<DatabaseId> = back.catalogs.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [DatabaseId(20_000), DatabaseId::RUBATO]);
        assert_eq!(back.outcomes, attachment.outcomes);
        assert_eq!(back.derived, attachment.derived);
        let plain = Attachment::decode(&Attachment::default().encode()).unwrap();
        assert!(plain.outcomes.is_none() && plain.catalogs.is_empty());
        // What concerns the first database alone is as it was when there was no other.
        let first = Attachment {
            catalogs: vec![(DatabaseId::RUBATO, Catalog::default())],
            ..Attachment::default()
        };
        assert_eq!(first.encode()[..2], [0, HAS_CATALOG]);
        assert!(Attachment::decode(&[0, 16]).is_err());
        assert!(Attachment::decode(&[1, 0]).is_err());
    }
}
