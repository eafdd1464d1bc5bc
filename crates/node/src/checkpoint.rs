//! Checkpoints: folded rows go to the store, then the log is cut.
//!
//! A checkpoint notes the end of the log, writes every row that was dirty then (in batches, each after the log was forced up to
//! the rows' own records), and then, atomically, its *mark*: where replay starts, the catalogs, sequences and the clock. Rows may
//! change again meanwhile; replay leaves out what a stored row already has, since a row carries the commit timestamp of its
//! last formula.

use crate::errors::{log_error, store_error};
use crate::node::Shared;
use crate::record::damaged;
use crate::source::batch_of;
use parking_lot::MutexGuard;
use rubato_base::codec::ByteReader;
use rubato_base::{Error, Lsn, Result, SqlState, TableId, Timestamp};
use rubato_log::Tail;
use rubato_protocol::{DirtyRow, FormulaDatabase};
use rubato_sql::catalog::Catalog;
use rubato_sql::databases::{DatabaseFacts, DatabaseId, Databases, Keeping};
use rubato_sql::outcomes::OutcomeRecord;
use rubato_sql::partition::{Attachment, Partition};
use rubato_storage::{Batch, Store};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Dropped tables leave the disk with a checkpoint, which is made for their sake so long after the last one, ...
const DROP_AFTER_US: i64 = 10_000_000;
/// ... and it is looked as often whether there are any.
const LOOK_AFTER_US: i64 = 1_000_000;
/// Rows taken while the partition is held. Each is a look at cold memory: with four times as many, and without handing
/// the partition over, the worker slept for it five times as long (decision 0018).
const TAKE_ROWS: usize = 256;
/// Bytes of one batch of the store, within these limits: one part in so many of the memory for rows. It is in memory twice.
const BATCH_SHARE: usize = 128;
const BATCH_BYTES_MIN: usize = 2 << 20;
const BATCH_BYTES_MAX: usize = 8 << 20;
/// What is written with room that was set aside: much less than there is of it, since files are made for it.
const LITTLE_TO_WRITE_BYTES: usize = 4 << 20;
/// The table of the store that holds the mark.
pub(crate) const MARK_TABLE: u32 = 0;
const MARK_KEY: &[u8] = b"checkpoint";
/// Beside it: how far the log certainly reached. There from the first opening on.
const LOG_KEY: &[u8] = b"log";
/// Format of the mark and of everything that it describes.
const FORMAT_VERSION: u32 = 5;
/// The format of a mark that does not say where it was begun: of one that was begun where replay starts, or by an earlier program.
const HEARD_VERSION: u32 = 4;
/// The format of a mark that says nothing of what the node has heard of its grid's catalogs.
const KEEPING_VERSION: u32 = 3;
/// The format of a mark that says nothing of who keeps what there is once in a grid.
const SEVERAL_DATABASES_VERSION: u32 = 2;
/// The format of a mark that says nothing of databases but what is in the first one: earlier programs read it.
const ONE_DATABASE_VERSION: u32 = 1;

/// What a checkpoint leaves behind beside rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    /// Where replay starts.
    pub(crate) log_start: u64,
    /// Where the log ended when it was begun: what records before that say beside rows, it has, and what they have made of rows is in the
    /// store. They are replayed for branches whose outcome was not known. `None` if it is not said: it was begun where replay starts, or an
    /// earlier program has made it.
    pub(crate) begun_at: Option<u64>,
    /// Above every timestamp handed out before.
    pub(crate) clock: Timestamp,
    pub(crate) next_storage_id: u32,
    pub(crate) databases: Databases,
    pub(crate) sequences: Vec<(u32, i64)>,
    pub(crate) outcomes: Option<OutcomeRecord>,
}

impl Mark {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let is_plain = self.databases.is_plain();
        let keeping = self.databases.keeping().copied();
        let heard = self.databases.heard().cloned();
        let begun_at = self.begun_at.filter(|begun_at| *begun_at != self.log_start);
        let version = match (keeping.is_some(), is_plain) {
            _ if begun_at.is_some() => FORMAT_VERSION,
            _ if heard.is_some() => HEARD_VERSION,
            (true, _) => KEEPING_VERSION,
            (false, false) => SEVERAL_DATABASES_VERSION,
            (false, true) => ONE_DATABASE_VERSION,
        };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&self.log_start.to_le_bytes());
        out.extend_from_slice(&self.clock.0.to_le_bytes());
        out.extend_from_slice(&self.next_storage_id.to_le_bytes());
        begun_at
            .iter()
            .for_each(|begun_at| out.extend_from_slice(&begun_at.to_le_bytes()));
        let catalogs = self.databases.iter();
        let catalogs = catalogs.map(|database| (database.facts.id, (*database.catalog).clone()));
        let rest = Attachment {
            catalogs: catalogs.collect(),
            databases: (!is_plain).then(|| self.databases.facts()),
            sequences: self.sequences.clone(),
            outcomes: self.outcomes.clone(),
            keeping,
            heard,
            ..Attachment::default()
        };
        out.extend_from_slice(&rest.encode());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Mark> {
        let mut reader = ByteReader::new(bytes);
        let version = reader.u32()?;
        if version > FORMAT_VERSION {
            let error = Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!(
                    "the data folder has format version {version}, this program reads up to version {FORMAT_VERSION}"
                ),
            );
            return Err(error.with_hint("Open it with the newer rubato that wrote it."));
        }
        let (log_start, clock, next_storage_id) = (reader.u64()?, Timestamp(reader.u64()?), reader.u32()?);
        let begun_at = (version > HEARD_VERSION).then(|| reader.u64()).transpose()?;
        let rest = Attachment::decode(reader.rest())?;
        if rest.catalogs.is_empty() {
            return Err(damaged("a checkpoint without a catalog"));
        }
        let databases = with_attached(&Databases::default(), rest.databases, rest.catalogs, rest.keeping);
        let databases = databases.with_heard(rest.heard);
        Ok(Mark {
            log_start,
            begun_at,
            clock,
            next_storage_id,
            databases,
            sequences: rest.sequences,
            outcomes: rest.outcomes,
        })
    }

    /// The mark of the last checkpoint, if there was one.
    pub(crate) fn read(store: &dyn Store) -> Result<Option<Mark>> {
        let bytes = store.get(MARK_TABLE, MARK_KEY).map_err(|error| store_error(&error))?;
        bytes.map(|bytes| Mark::decode(&bytes)).transpose()
    }
}

/// Notes how far the log certainly reaches, for [`check_log_end`].
pub(crate) fn note_log_end(batch: &mut Batch, forced: rubato_log::Lsn) {
    batch.put(MARK_TABLE, LOG_KEY, forced.0.to_le_bytes());
}

/// Whether the log is whole at its end, as far as the store knows: files of the log that are not there any more would otherwise be a
/// database with less in it, and without any a new one. Gives whether the store knows of a log at all.
///
/// Errors: XX001 where the log does not reach as far as it was once forced; 58030.
pub(crate) fn check_log_end(store: &dyn Store, tail: &Tail, log: &str) -> Result<bool> {
    let Some(bytes) = store.get(MARK_TABLE, LOG_KEY).map_err(|error| store_error(&error))? else {
        return Ok(false);
    };
    let reached = ByteReader::new(&bytes).u64()?;
    if tail.has_segment() && tail.end.0 >= reached {
        return Ok(true);
    }
    let found = match tail.has_segment() {
        true => format!("it ends at {}", tail.end),
        false => "there is none".to_owned(),
    };
    let message = format!("the log in {log} is damaged: {found}, although it was written up to {reached} once");
    Err(Error::new(SqlState::DATA_CORRUPTED, message)
        .with_detail("Files of the log are missing or cut; what they held is lost with them.")
        .with_hint("Put the missing files back, or restore a copy of the whole folder."))
}

/// The databases with what a record or a mark says of them.
pub(crate) fn with_attached(
    databases: &Databases,
    facts: Option<Vec<DatabaseFacts>>,
    catalogs: Vec<(DatabaseId, Catalog)>,
    keeping: Option<Keeping>,
) -> Databases {
    let mut changed = facts.map_or_else(|| databases.clone(), |facts| databases.with_facts(facts));
    if let Some(keeping) = keeping {
        changed = changed.with_keeping(keeping);
    }
    for (database, catalog) in catalogs {
        changed = changed.with_catalog(database, Arc::new(catalog));
    }
    changed
}

impl Shared {
    /// Makes a checkpoint. Called by one thread at a time; statements go on meanwhile. On a full disk the room that is set aside is given up
    /// for one that has little to write and makes room, as after TRUNCATE.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointReport> {
        match self.try_checkpoint() {
            Err(error)
                if error.code() == SqlState::DISK_FULL && self.would_make_room() && self.store.give_up_reserve() =>
            {
                self.try_checkpoint()
            }
            made => made,
        }
    }

    fn try_checkpoint(&self) -> Result<CheckpointReport> {
        let made = self.make_checkpoint();
        if made.is_err() {
            self.partition.lock().database.give_up_checkpoint();
        }
        made
    }

    fn would_make_room(&self) -> bool {
        let partition = &mut *self.partition.lock();
        partition.drop_storage([]);
        partition.database.dirty_bytes() <= LITTLE_TO_WRITE_BYTES && !self.unused_storage(partition).is_empty()
    }

    fn make_checkpoint(&self) -> Result<CheckpointReport> {
        let (mut mark, vain, unused, attached_bytes) = {
            let partition = &mut *self.partition.lock();
            partition.checkpoints.begin();
            self.checkpoint_asked.store(false, Ordering::Release);
            partition.drop_storage([]);
            partition.forget_dropped_sequences();
            // Branches whose outcome is not known are in the log only.
            let appended = self.forcer.appended_lsn().0;
            let undecided = partition.database.undecided_since().map_or(appended, |since| since.0);
            // The log before goes: whoever is prepared from now on must not ask for it, although some of the log's last records
            // may be none of the database's.
            partition.database.note_log_position(Lsn(appended));
            if let Some(grid) = &partition.grid {
                grid.write_down(&mut *partition.log)?;
            }
            partition.database.begin_checkpoint();
            self.note_stored(partition);
            let mark = Mark {
                log_start: appended.min(undecided),
                begun_at: Some(appended),
                clock: partition.database.clock(),
                next_storage_id: partition.next_storage_id,
                databases: (*partition.databases).clone(),
                sequences: partition.sequences.all(),
                outcomes: partition.sequences.outcomes.all(),
            };
            let unused = self.unused_storage(partition);
            let (vain, unused): (Vec<_>, Vec<_>) = unused
                .into_iter()
                .partition(|storage| partition.database.is_laid_in_vain(*storage));
            (mark, vain, unused, self.attached.load(Ordering::Relaxed))
        };
        // What no catalog ever had may go before the mark: on a full disk that is the room for the rest.
        if !vain.is_empty() {
            self.drop_unused_storage(&vain)?;
        }
        let mut report = CheckpointReport {
            log_start: mark.log_start,
            rows: 0,
        };
        loop {
            let rows = self.take_batch();
            if rows.is_empty() {
                break;
            }
            let written = self.write_rows(&rows);
            for some in rows.chunks(TAKE_ROWS) {
                let mut partition = self.partition.lock();
                match &written {
                    Ok(()) => partition.database.flushed(some),
                    Err(_) => partition.database.not_flushed(some),
                }
                MutexGuard::unlock_fair(partition);
            }
            written?;
            report.rows += rows.len() as u64;
        }
        // What was handed out while the rows were written must not be handed out again after a crash either.
        {
            let mut partition = self.partition.lock();
            mark.clock = mark.clock.max(partition.database.clock());
            partition.drop_storage([]);
        }
        let forced = self.forcer.force().map_err(|error| log_error(&error))?;
        let mut batch = Batch::new();
        batch.put(MARK_TABLE, MARK_KEY, mark.encode());
        note_log_end(&mut batch, forced);
        self.store
            .apply(batch)
            .and_then(|()| self.store.force())
            .map_err(|error| store_error(&error))?;
        self.forcer
            .truncate_before(rubato_log::Lsn(mark.log_start))
            .map_err(|error| log_error(&error))?;
        self.attached.fetch_sub(attached_bytes, Ordering::Relaxed);
        self.drop_unused_storage(&unused)?;
        self.store.keep_reserve();
        Ok(report)
    }

    /// The next rows of the checkpoint; none at its end.
    fn take_batch(&self) -> Vec<DirtyRow> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let bytes_max = batch_bytes(self.settings.memory_bytes);
        while bytes < bytes_max {
            let mut partition = self.partition.lock();
            let taken = partition.database.take_dirty(TAKE_ROWS);
            if taken.is_empty() && !partition.database.has_more_to_flush() {
                break;
            }
            // A statement that waits has its turn before the next rows.
            MutexGuard::unlock_fair(partition);
            bytes += taken.iter().map(row_cost).sum::<usize>();
            rows.extend(taken);
        }
        rows
    }

    fn write_rows(&self, rows: &[DirtyRow]) -> Result<()> {
        // The log before the store: else a crash could keep one row of a transaction whose record is lost.
        self.forcer.force().map_err(|error| log_error(&error))?;
        store_rows(rows, &*self.store)
    }

    /// Notes, before the first of them is written, of which storage the store is about to get rows. The catalogs do not tell: a table that was
    /// made and dropped since the last checkpoint is in none, and its rows go to the store as long as one who began before may read it. What was
    /// not noted here stayed in the store until the node was started again.
    fn note_stored(&self, partition: &Partition) {
        self.stored.lock().extend(partition.database.storage_to_flush());
    }

    /// Storage of which the store may hold rows, and that neither a catalog nor an open transaction has, as what is new or as what it
    /// still reads: once the mark with that catalog is written, nothing refers to it any more.
    fn unused_storage(&self, partition: &Partition) -> Vec<TableId> {
        let mut stored = self.stored.lock();
        let named: BTreeSet<TableId> = partition.databases.storage().into_iter().collect();
        let private: BTreeSet<TableId> = partition.database.private_tables().collect();
        let is_kept = |id: &TableId| private.contains(id) || partition.database.has_table(*id);
        let is_unused = |id: &&TableId| !named.contains(id) && !is_kept(id);
        let unused = stored.iter().filter(is_unused).copied().collect();
        stored.extend(named);
        unused
    }

    /// Whether a checkpoint is due because the store has dropped tables that take room on the disk: some while after the last one, since
    /// what is dropped and loaded leaves little in the log, which may not come to ask for one.
    pub(crate) fn has_storage_to_drop(&self) -> bool {
        let now_us = (self.settings.clock_us)();
        let is_long_since = |at: &AtomicI64, us| !(0..us).contains(&(now_us - at.load(Ordering::Relaxed)));
        if !is_long_since(&self.last_checkpoint_us, DROP_AFTER_US)
            || !is_long_since(&self.unused_looked_at_us, LOOK_AFTER_US)
        {
            return false;
        }
        self.unused_looked_at_us.store(now_us, Ordering::Relaxed);
        let mut partition = self.partition.lock();
        partition.drop_storage([]);
        !self.unused_storage(&partition).is_empty()
    }

    /// And what the store has left of what was dropped before.
    fn drop_unused_storage(&self, unused: &[TableId]) -> Result<()> {
        if !unused.is_empty() {
            // Rows that are still on their way there would come after it was dropped.
            self.laying.finish(&[])?;
        }
        let gone: Vec<u32> = unused.iter().map(|storage| storage.0).collect();
        self.store.drop_tables(&gone).map_err(|error| store_error(&error))?;
        for storage in unused {
            self.laying.forget(*storage);
            self.stored.lock().remove(storage);
        }
        Ok(())
    }
}

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Where replay would start now.
    pub log_start: u64,
    /// Rows written.
    pub rows: u64,
}

fn batch_bytes(memory_bytes: usize) -> usize {
    (memory_bytes / BATCH_SHARE).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX)
}

/// A key whose deletion was taken may have a row again that was taken later: the last one counts.
fn store_rows(rows: &[DirtyRow], store: &dyn Store) -> Result<()> {
    store.apply(batch_of(rows.iter())).map_err(|error| store_error(&error))
}

fn row_cost(row: &DirtyRow) -> usize {
    size_of::<DirtyRow>() + row.key.heap_bytes() + row.row.as_ref().map_or(0, |row| row.as_bytes().len())
}

/// Rows of a database that recovers within its memory: what it cannot hold goes to the store at once. False if the disk is full: they stay
/// in memory, as they were before the crash, so that somebody can make room.
pub(crate) fn spill(database: &mut FormulaDatabase, store: &dyn Store, target_bytes: usize) -> Result<bool> {
    let mut has_room = true;
    database.begin_checkpoint();
    while database.has_more_to_flush() {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES_MIN && database.has_more_to_flush() {
            let taken = database.take_dirty(TAKE_ROWS);
            bytes += taken.iter().map(row_cost).sum::<usize>();
            rows.extend(taken);
        }
        match store_rows(&rows, store) {
            Ok(()) => database.flushed(&rows),
            Err(error) if error.code() == SqlState::DISK_FULL => {
                database.not_flushed(&rows);
                database.give_up_checkpoint();
                has_room = false;
            }
            Err(error) => return Err(error),
        }
    }
    while !database.evict(target_bytes) && !database.nothing_may_leave() {}
    Ok(has_room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::{Key, Row, Value};
    use rubato_storage::MemoryStore;

    #[test]
    fn a_key_that_was_deleted_and_has_a_row_again_keeps_it() {
        let at = |cts: u64, row: Option<Row>| DirtyRow::new(TableId(1), Key::from_bytes(b"key"), Timestamp(cts), row);
        let row = Row::from_values(&[Value::Int4(7)]);
        let store = MemoryStore::new();
        store_rows(&[at(1, None), at(2, Some(row.clone()))], &store).expect("applies");
        let stored = store.get(1, b"key").expect("reads").expect("a row");
        assert_eq!(&stored[8..], row.as_bytes());
    }
}
