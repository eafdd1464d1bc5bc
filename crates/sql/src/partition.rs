//! What the statements of one partition work on: the formula database, the catalog, sequences and row numbers, and where
//! commits are written.

mod sequences;

pub use sequences::{SEQUENCE_ENDED, SequenceValues};

use crate::advisory::AdvisoryLocks;
use crate::catalog::{Catalog, RelationName};
use crate::catalog_codec;
use crate::channels::Channels;
use crate::checkpoints::Checkpoints;
use crate::databases::{DatabaseFacts, DatabaseId, Databases, Heard, Keeping, decode_facts, encode_facts, storage_of};
use crate::grid::{Followed, GridDesk};
use crate::insight::Insight;
use crate::outcomes::OutcomeRecord;
use crate::row_numbers::RowNumberCounters;
use crate::schema_change::{merge, without_temporary};
use rubato_base::codec::{ByteReader, put_bytes, put_length};
use rubato_base::{Error, Lsn, Result, SqlState, TableId, Timestamp, TransactionId};
use rubato_protocol::{CommitLog, CommitRecord, FormulaDatabase};
use std::collections::{BTreeSet, VecDeque};
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
    /// Why nothing that writes may be begun now (the log cannot grow, or memory is full and the disk too), if so. Whoever owns the
    /// partition keeps it up to date.
    pub refuses_writes: Option<Error>,
    /// It is the log that cannot grow: nothing can be written down, not even what makes room.
    pub log_is_full: bool,
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
    dropped: VecDeque<(TableId, Timestamp)>,
    /// The last of those that are gone: nobody has to wait until they come.
    gone: BTreeSet<TableId>,
}

/// Of so much storage that is gone it is known that it was there.
const GONE_MAX: usize = 4096;

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

    /// Whether all nodes are committing the new catalog of this transaction.
    pub fn is_committing_of(&self, transaction: TransactionId) -> bool {
        let owner = self.committing.as_ref().map(|committing| committing.owner);
        owner == Some(transaction)
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

    /// Tables whose definition another transaction than this one changes.
    pub fn of_others(&self, transaction: Option<TransactionId>) -> impl Iterator<Item = (DatabaseId, &RelationName)> {
        let others = self
            .changing
            .iter()
            .filter(move |change| Some(change.owner) != transaction);
        others.map(|change| (change.database, &change.table))
    }

    /// Whether storage was here, and is no more.
    pub fn is_gone(&self, storage: TableId) -> bool {
        self.gone.contains(&storage)
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

    /// Tells those who look for circles of waits over several nodes who waits for whose advisory lock (rule Q-5). On a node alone sessions
    /// look themselves (`session/circles.rs`).
    pub fn note_lock_waits(&mut self) {
        if self.grid.is_some()
            && let Some(waits) = self.advisory.changed_waits()
            && (!waits.is_empty() || self.database.has_waits_beside())
        {
            self.database.set_waits_beside(waits);
        }
    }

    /// These are the databases from now on, for the views of what happens now too.
    pub fn set_databases(&mut self, databases: Arc<Databases>) {
        self.replace_databases(databases);
        self.database.change_definitions();
        if let Some(grid) = &self.grid {
            grid.catalogs_change();
        }
    }

    fn replace_databases(&mut self, databases: Arc<Databases>) {
        self.insight.set_databases(Arc::clone(&databases));
        self.databases = databases;
    }

    /// Another node keeps what there is once from now on; these are catalogs in which no more has changed than how tables are said to lie.
    pub(crate) fn hand_over(&mut self, keeping: Keeping, catalogs: Vec<(DatabaseId, Arc<Catalog>)>) {
        let mut databases = self.databases.with_keeping(keeping);
        for (database, catalog) in catalogs {
            databases = databases.with_catalog(database, catalog);
        }
        self.replace_databases(Arc::new(databases));
        if let Some(desk) = self.grid.clone()
            && let Some(followed) = desk.follow_keeper(&self.databases)
        {
            self.keeper_is_another(followed);
        }
    }

    /// Another node than before keeps what there is once.
    pub fn keeper_is_another(&mut self, followed: Followed) {
        self.sequences.are_elsewhere = !followed.is_here;
        // Numbers that a keeper of before gave to storage that did not come to be, and may give again after a crash.
        self.next_storage_id = self.next_storage_id.max(self.database.laid_in_vain_end());
        self.row_numbers.number_for(followed.own, followed.life);
    }

    /// This is the committed catalog of a database from now on.
    pub fn set_catalog(&mut self, database: DatabaseId, catalog: Arc<Catalog>) {
        self.set_databases(Arc::new(self.databases.with_catalog(database, catalog)));
    }

    /// Forgets storage that no catalog names any more: at once, or when the statements that may be reading it have ended and the
    /// checkpoint under way has taken all that it must. What was laid out of it is laid out again after a crash, from the rows of the last checkpoint and the log.
    pub fn drop_storage(&mut self, storage: impl IntoIterator<Item = TableId>) {
        let (now, newest) = (self.database.clock(), self.database.newest_place());
        let dropped = &mut self.schema_changes.dropped;
        dropped.extend(storage.into_iter().map(|storage| {
            self.database.note_replaced(storage, newest);
            (storage, now)
        }));
        if dropped.is_empty() || self.database.has_more_to_flush() {
            return;
        }
        let oldest = self.database.oldest_begun().unwrap_or(Timestamp::MAX);
        // They are in the order of time.
        while let Some((storage, _)) = dropped.front().copied().filter(|(_, since)| *since < oldest) {
            dropped.pop_front();
            self.database.drop_table(storage);
            let gone = &mut self.schema_changes.gone;
            gone.insert(storage);
            // Numbers are never given again, and grow.
            while gone.len() > GONE_MAX {
                gone.pop_first();
            }
        }
    }

    /// Forgets the values of sequences that were dropped or started over: a checkpoint would carry them on for ever. The node that keeps them does, which has
    /// all catalogs.
    pub fn forget_dropped_sequences(&mut self) {
        if self.sequences.are_elsewhere {
            return;
        }
        let catalogs = self.databases.iter().map(|database| &database.catalog);
        let known = catalogs.flat_map(|catalog| catalog.sequences.values().map(|sequence| sequence.values));
        let (known, now) = (known.collect(), self.database.clock());
        let oldest = self.database.oldest_begun().unwrap_or(Timestamp::MAX);
        self.sequences.forget_unknown(&known, now, oldest);
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

    /// The same for what lets go of rows, in memory and on the disk.
    pub fn admit_letting_go(&self) -> Result<()> {
        self.refuses_writes
            .clone()
            .filter(|_| self.log_is_full)
            .map_or(Ok(()), Err)
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
            self.sequences.note_logged(*lsn);
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
    /// Sequences (by [`Sequence::values`](crate::catalog::Sequence)) and the value up to which their numbers may have been given, as
    /// [`SequenceValues::recover`] takes them.
    pub sequences: Vec<(u32, i64)>,
    /// Outcomes of transactions whose clients asked for an id.
    pub outcomes: Option<OutcomeRecord>,
    /// Storage of the new catalog whose rows are made of others', in order.
    pub derived: Vec<Derived>,
    /// Who keeps what there is once in the grid from now on.
    pub keeping: Option<Keeping>,
    /// What this node has heard of catalogs with these.
    pub heard: Option<Heard>,
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

/// What an attachment has behind its sequences. The catalog of the first database stands at the end; those of others are told among
/// the databases, of which programs knew nothing that knew only one.
const HAS_CATALOG: u8 = 1;
const HAS_OUTCOMES: u8 = 2;
const HAS_DERIVED: u8 = 4;
const HAS_DATABASES: u8 = 8;
const HAS_KEEPING: u8 = 16;
const HAS_HEARD: u8 = 32;
const ALL_PARTS: u8 = HAS_CATALOG | HAS_OUTCOMES | HAS_DERIVED | HAS_DATABASES | HAS_KEEPING | HAS_HEARD;

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
                | flag(databases, HAS_DATABASES)
                | flag(self.keeping.is_some(), HAS_KEEPING)
                | flag(self.heard.is_some(), HAS_HEARD),
        );
        if let Some(outcomes) = &self.outcomes {
            outcomes.encode(&mut out);
        }
        if let Some(keeping) = &self.keeping {
            keeping.encode(&mut out);
        }
        if let Some(heard) = &self.heard {
            heard.encode(&mut out);
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

    /// Whose catalog it has, if that is all that it has: the next such attachment takes the place of this one. XX001.
    pub fn only_catalog_of(bytes: &[u8]) -> Result<Option<DatabaseId>> {
        let mut reader = ByteReader::new(bytes);
        if reader.length()? > 0 {
            return Ok(None);
        }
        match reader.u8()? {
            HAS_CATALOG => Ok(Some(DatabaseId::RUBATO)),
            HAS_DATABASES if reader.u8()? == 0 && reader.length()? == 1 => Ok(Some(DatabaseId(reader.u32()?))),
            _ => Ok(None),
        }
    }

    /// From bytes; XX001 if they are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Attachment> {
        let mut reader = ByteReader::new(bytes);
        let mut sequences = Vec::new();
        for _ in 0..reader.length()? {
            sequences.push((reader.u32()?, reader.u64()? as i64));
        }
        let parts = reader.u8()?;
        if parts > ALL_PARTS {
            let message = format!("the log is damaged: an attachment with parts {parts}");
            return Err(Error::new(SqlState::DATA_CORRUPTED, message));
        }
        let outcomes = match parts & HAS_OUTCOMES {
            0 => None,
            _ => Some(OutcomeRecord::decode(&mut reader)?),
        };
        let keeping = match parts & HAS_KEEPING {
            0 => None,
            _ => Some(Keeping::decode(&mut reader)?),
        };
        let heard = match parts & HAS_HEARD {
            0 => None,
            _ => Some(Heard::decode(&mut reader)?),
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
            keeping,
            heard,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::{NodeId, Timestamp};

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
            keeping: Some(Keeping {
                number: 3,
                node: NodeId(2),
                from: NodeId(1),
                version_base: 5 << 32,
                next_id: 20_001,
            }),
            heard: Some(Heard {
                version: 7 << 32,
                last_tick: Timestamp(9 << 16),
                catalogs: vec![(DatabaseId::RUBATO, 4)],
            }),
        };
        let back = Attachment::decode(&attachment.encode()).unwrap();
        assert_eq!(
            (back.sequences, back.databases),
            (attachment.sequences, attachment.databases)
        );
        let ids: Vec<DatabaseId> = back.catalogs.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [DatabaseId(20_000), DatabaseId::RUBATO]);
        assert_eq!(back.outcomes, attachment.outcomes);
        assert_eq!((back.derived, back.keeping), (attachment.derived, attachment.keeping));
        assert_eq!(back.heard, attachment.heard);
        let plain = Attachment::decode(&Attachment::default().encode()).unwrap();
        assert!(plain.outcomes.is_none() && plain.keeping.is_none() && plain.catalogs.is_empty());
        // What concerns the first database alone is as it was when there was no other.
        let first = Attachment {
            catalogs: vec![(DatabaseId::RUBATO, Catalog::default())],
            ..Attachment::default()
        };
        assert_eq!(first.encode()[..2], [0, HAS_CATALOG]);
        let whose = |attachment: &Attachment| Attachment::only_catalog_of(&attachment.encode()).unwrap();
        assert_eq!(whose(&first), Some(DatabaseId::RUBATO));
        let other = Attachment {
            catalogs: vec![(DatabaseId(20_000), Catalog::default())],
            ..Attachment::default()
        };
        assert_eq!(whose(&other), Some(DatabaseId(20_000)));
        let with_numbers = Attachment {
            sequences: vec![(1, 2)],
            ..other
        };
        assert_eq!((whose(&with_numbers), whose(&Attachment::default())), (None, None));
        assert!(Attachment::decode(&[0, 16]).is_err() && Attachment::decode(&[0, 32]).is_err());
        assert!(Attachment::decode(&[1, 0]).is_err());
    }
}
