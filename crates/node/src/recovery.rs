//! Opening: the rows of the last checkpoint, and the log from its mark on.

mod definitions;

use crate::checkpoint::{MARK_TABLE, Mark, check_log_end, note_log_end, spill, with_attached};
use crate::commit_log::{Attached, LogEnd, LogWriter};
use crate::errors::{OwnPlace, log_error, store_error};
use crate::laying::Laying;
use crate::node::NodeSettings;
use crate::read_ahead::LogSource;
use crate::record::{LoggedChange, Record, damaged};
use crate::source::{StoreSource, StoredTables};
use parking_lot::Mutex;
use rubato_base::{
    ColumnSet, DataType, Error, GlobalId, Key, KeyReader, Lsn, NodeId, Result, SessionId, SqlState, TableId, Timestamp,
    Value,
};
use rubato_log::{Forcer, LogDirectory, Options, Reader};
use rubato_protocol::{BeginOptions, Change, DecisionRecord, FormulaDatabase, KeyRange, ScanEnd, StandingRecord};
use rubato_sql::advisory::AdvisoryLocks;
use rubato_sql::catalog::Catalog;
use rubato_sql::channels::Channels;
use rubato_sql::checkpoints::Checkpoints;
use rubato_sql::databases::{DatabaseId, Databases, storage_of};
use rubato_sql::executor::derived_row;
use rubato_sql::partition::{Attachment, Derived, Partition, SchemaChanges, SequenceValues};
use rubato_sql::row_numbers::{NUMBERS_OF_OTHERS, RowNumberCounters};
use rubato_storage::{Batch, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// What recovery found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Transactions replayed.
    pub transactions: u64,
    /// Bytes of log read.
    pub log_bytes: u64,
    /// Bytes of a torn tail that were cut: written by the last process and never forced.
    pub cut_bytes: u64,
    /// Where the log ends, in bytes from its beginning.
    pub log_end: u64,
}

/// How far a recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Bytes of log that have been replayed, ...
    pub log_bytes: u64,
    /// ... and that there are.
    pub log_bytes_total: u64,
}

/// How often a recovery tells how far it has come.
const PROGRESS_EVERY_US: i64 = 1_000_000;
/// Records whose rows are looked up together before they are replayed.
const NEAR_RECORDS: usize = 8;
/// Rows laid out again at a time.
const DERIVED_ROWS: usize = 256;

pub(crate) struct Recovery<'a> {
    pub(crate) database: FormulaDatabase,
    pub(crate) databases: Databases,
    sequences: SequenceValues,
    next_storage_id: u32,
    /// What the parts of a transaction say whose end is still to come; none before its first part.
    parts: Option<Vec<LoggedChange>>,
    stored: StoredTables,
    laying: Arc<Laying>,
    store: &'a dyn Store,
    grid: GridPast,
    /// Bytes of attachments.
    attached_bytes: u64,
    /// Where the mark was begun ([`Mark::begun_at`]), if it says so.
    mark_begun_at: Option<Lsn>,
    /// Where the record that is taken up begins.
    position: Lsn,
    /// The newest catalog of a row of commits that only say which is the catalog from there on: those before it count for nothing.
    pending: Option<PendingCatalog>,
}

/// What a commit says that changes a catalog and nothing else, not taken up yet.
struct PendingCatalog {
    database: DatabaseId,
    cts: Timestamp,
    attachment: Vec<u8>,
}

/// What the log of a node of a grid says beside its rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct GridPast {
    /// What the node knew of itself; none if it was never started in a grid.
    pub(crate) standing: Option<StandingRecord>,
    /// What it knew of what all agree on, in the form of the grid.
    pub(crate) agreement: Option<Vec<u8>>,
    /// Decisions of its coordinator that not everybody is known to have carried out.
    pub(crate) decisions: BTreeMap<GlobalId, (Timestamp, Vec<NodeId>)>,
    /// Those of them that this node had not carried out itself, although they change catalogs: it has now.
    settled: Vec<(GlobalId, Timestamp)>,
}

/// A node's parts, recovered.
pub(crate) struct Recovered {
    pub(crate) partition: Partition,
    pub(crate) forcer: Forcer,
    pub(crate) log_end: LogEnd,
    pub(crate) place: OwnPlace,
    pub(crate) report: RecoveryReport,
    /// What of it no later catalog has is dropped with the next mark.
    pub(crate) stored: StoredTables,
    pub(crate) laying: Arc<Laying>,
    pub(crate) grid: GridPast,
    pub(crate) attached: Attached,
}

/// Opens what is there, or an empty database.
pub(crate) fn recover(
    store: &Arc<dyn Store>,
    directory: Arc<dyn LogDirectory>,
    options: Options,
    settings: &NodeSettings,
) -> Result<Recovered> {
    // First what the log has is made durable: rows that memory cannot hold go to the store while the log is replayed, and the
    // store must never have what the log could still lose.
    let mark = Mark::read(&**store)?;
    log_reader(&directory, mark.as_ref())?;
    let found = Reader::open_newest(Arc::clone(&directory)).and_then(Reader::into_tail);
    let tail = found.map_err(|error| log_error(&error))?;
    // Before anything is repaired, or begun anew.
    let is_known = check_log_end(&**store, &tail, &directory.describe(""))?;
    let resumed = rubato_log::resume(Arc::clone(&directory), options, &tail);
    let (appender, forcer) = resumed.map_err(|error| log_error(&error))?;
    let bounds = ReplayBounds {
        log_end: tail.end.0,
        memory_bytes: settings.memory_bytes,
    };
    let (recovery, mut report) = replay(store, directory, settings, Some(bounds))?;
    report.cut_bytes = tail.dropped_bytes;
    let (stored, laying) = (Arc::clone(&recovery.stored), Arc::clone(&recovery.laying));
    drop_unknown(&**store, &stored.lock())?;
    let place = OwnPlace::default();
    let log_end: LogEnd = Arc::new(Mutex::new(Some(appender)));
    let attached = Attached::new(recovery.attached_bytes.into());
    let writer = LogWriter::new(
        Arc::clone(&log_end),
        forcer.clone(),
        place.clone(),
        Arc::clone(&attached),
    );
    let mut partition = Partition {
        database: recovery.database,
        databases: Arc::default(),
        log: Box::new(writer),
        sequences: recovery.sequences,
        row_numbers: RowNumberCounters::default(),
        next_storage_id: recovery.next_storage_id,
        refuses_writes: None,
        log_is_full: false,
        insight: Arc::default(),
        schema_changes: SchemaChanges::default(),
        checkpoints: Checkpoints::default(),
        grid: None,
        advisory: AdvisoryLocks::default(),
        channels: Channels::default(),
    };
    partition.set_databases(Arc::new(recovery.databases));
    for (transaction, cts) in &recovery.grid.settled {
        let appended = partition.log.append_decision(&DecisionRecord {
            transaction: *transaction,
            cts: Some(*cts),
            participants: &[],
        })?;
        partition.database.note_log_position(appended);
    }
    partition.forget_temporary();
    number_rows(&mut partition)?;
    if !is_known {
        let mut batch = Batch::new();
        note_log_end(&mut batch, tail.end);
        store.apply(batch).map_err(|error| store_error(&error))?;
    }
    // What has gone to a store that is full is in the log as well.
    match store.force().map_err(|error| store_error(&error)) {
        Err(error) if error.code() != SqlState::DISK_FULL => return Err(error),
        _ => {}
    }
    Ok(Recovered {
        partition,
        forcer,
        log_end,
        place,
        report,
        stored,
        laying,
        grid: recovery.grid,
        attached,
    })
}

/// What a replay that may write keeps to.
pub(crate) struct ReplayBounds {
    /// Where the log ends.
    log_end: u64,
    /// Beyond this much memory rows go to the store.
    memory_bytes: usize,
}

/// The rows of the store with the log played back onto them; without bounds nothing is written.
pub(crate) fn replay<'a>(
    store: &'a Arc<dyn Store>,
    directory: Arc<dyn LogDirectory>,
    settings: &NodeSettings,
    bounds: Option<ReplayBounds>,
) -> Result<(Recovery<'a>, RecoveryReport)> {
    let found = Mark::read(&**store)?;
    let log_start = found.as_ref().map_or(0, |mark| mark.log_start);
    let reader = log_reader(&directory, found.as_ref())?;
    let described = directory.describe("");
    let mut source = LogSource::new(reader, settings.helper);
    let mark = found.unwrap_or(Mark {
        begun_at: Some(0),
        ..Mark::default()
    });
    let mut recovery = Recovery::new(store, settings, mark);
    let mut report = RecoveryReport::default();
    let mut told_us = (settings.clock_us)();
    let mut has_room = true;
    while let Some(batch) = source.next_records()? {
        report.log_bytes += batch.log_bytes;
        report.transactions += batch.records.len() as u64;
        recovery.take_all(batch.records)?;
        let Some(bounds) = &bounds else { continue };
        if has_room && recovery.database.memory_bytes() > bounds.memory_bytes {
            has_room = spill(&mut recovery.database, recovery.store, bounds.memory_bytes / 2)?;
        }
        let now_us = (settings.clock_us)();
        if now_us - told_us >= PROGRESS_EVERY_US {
            told_us = now_us;
            (settings.on_recovery)(RecoveryProgress {
                log_bytes: report.log_bytes,
                log_bytes_total: bounds.log_end.saturating_sub(log_start).max(report.log_bytes),
            });
        }
    }
    let tail = source.into_tail()?;
    check_log_end(&**store, &tail, &described)?;
    (report.cut_bytes, report.log_end) = (tail.dropped_bytes, tail.end.0);
    recovery.take_pending()?;
    recovery.settle_definitions()?;
    recovery.database.finish_recovery();
    recovery.database.set_memory_limit(settings.memory_bytes);
    Ok((recovery, report))
}

/// A reader of the log from where replay starts: from the mark, or where there was never a checkpoint, from the very beginning.
fn log_reader(directory: &Arc<dyn LogDirectory>, mark: Option<&Mark>) -> Result<Reader> {
    let from = mark.map_or(rubato_log::Lsn::ZERO, |mark| rubato_log::Lsn(mark.log_start));
    Reader::open(Arc::clone(directory), from).map_err(|error| {
        let error = log_error(&error);
        if mark.is_some() || error.code() != SqlState::DATA_CORRUPTED {
            return error;
        }
        let message = "the store is damaged: it holds no checkpoint, although the log was cut behind one";
        Error::new(SqlState::DATA_CORRUPTED, message).with_detail(error.to_string())
    })
}

impl<'a> Recovery<'a> {
    fn new(store: &'a Arc<dyn Store>, settings: &NodeSettings, mark: Mark) -> Recovery<'a> {
        let tables: BTreeSet<TableId> = mark.databases.storage().into_iter().collect();
        let stored = StoredTables::default();
        stored.lock().clone_from(&tables);
        let laying = Arc::new(Laying::new(Arc::clone(store), settings.helper, settings.memory_bytes));
        let source = Box::new(StoreSource {
            store: Arc::clone(store),
            stored: Arc::clone(&stored),
            laying: Arc::clone(&laying),
        });
        let mut database = FormulaDatabase::new(source, settings.policies, mark.clock);
        tables.iter().for_each(|storage| database.open_table(*storage));
        set_tails(&mut database, &mark.databases);
        database.note_log_position(Lsn(mark.log_start));
        let mut sequences = SequenceValues::default();
        mark.sequences
            .iter()
            .for_each(|(id, value)| sequences.recover(*id, *value));
        mark.outcomes
            .iter()
            .for_each(|outcomes| sequences.outcomes.recover(outcomes));
        Recovery {
            database,
            next_storage_id: mark.next_storage_id.max(mark.databases.next_id()),
            databases: mark.databases,
            sequences,
            parts: None,
            stored,
            laying,
            store: &**store,
            grid: GridPast::default(),
            attached_bytes: 0,
            mark_begun_at: mark.begun_at.map(Lsn),
            position: Lsn(mark.log_start),
            pending: None,
        }
    }

    fn take_all(&mut self, records: Vec<(Lsn, Lsn, Record)>) -> Result<()> {
        let mut records = records.into_iter();
        while !records.as_slice().is_empty() {
            let next = records.as_slice().iter().take(NEAR_RECORDS);
            let changes = next.flat_map(|(_, _, record)| record.changes());
            let near = changes.filter(|(table, key, _)| self.database.draw_near(*table, key));
            std::hint::black_box(near.count());
            for (start, end, record) in records.by_ref().take(NEAR_RECORDS) {
                self.position = start;
                let (begins, ends) = (record.begins_transaction(), record.ends_transaction());
                if begins {
                    self.database.note_log_position(start);
                }
                self.take(record)?;
                if ends {
                    self.database.note_log_position(end);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, record: Record) -> Result<()> {
        let Some(record) = self.put_off(record)? else {
            return Ok(());
        };
        match record {
            Record::Part { first, changes } => {
                if first {
                    self.parts = Some(Vec::new());
                }
                if let Some(parts) = &mut self.parts {
                    parts.extend(changes);
                }
                Ok(())
            }
            Record::Commit {
                cts,
                changes,
                attachment,
                has_parts,
            } => {
                if let Some(bytes) = attachment {
                    self.attach(cts, &bytes)?;
                }
                self.with_parts(changes, has_parts)?
                    .into_iter()
                    .try_for_each(|(table, key, change)| self.database.replay(cts, table, &key, change))
            }
            Record::Prepare {
                transaction,
                floor,
                places,
                changes,
                attachment,
                has_parts,
            } => {
                let changes = self.with_parts(changes, has_parts)?;
                let definition = attachment.map(|content| self.define(content)).transpose()?;
                self.database
                    .recover_prepared(transaction, floor, changes, places, definition)
            }
            Record::Decision {
                transaction,
                cts,
                participants,
            } => {
                match cts {
                    // A participant's record; a coordinator's names those who have to be told.
                    _ if participants.is_empty() => self.decide(transaction, cts)?,
                    Some(cts) => drop(self.grid.decisions.insert(transaction, (cts, participants))),
                    None => {}
                }
                Ok(())
            }
            Record::End { transaction } => {
                self.grid.decisions.remove(&transaction);
                Ok(())
            }
            Record::Standing(standing) => {
                self.grid.standing = Some(standing);
                Ok(())
            }
            Record::Agreement(agreement) => {
                self.grid.agreement = Some(agreement);
                Ok(())
            }
        }
    }

    /// Keeps a commit that only changes a catalog until the next record shows that it counts: to take a catalog apart takes as long as there
    /// are tables in it, and where one is made after the other each says all of them. Gives back any other record, for which it does count.
    fn put_off(&mut self, record: Record) -> Result<Option<Record>> {
        if let Record::Commit { attachment, .. } | Record::Prepare { attachment, .. } = &record {
            self.attached_bytes += attachment.as_ref().map_or(0, |bytes| bytes.len() as u64);
        }
        let (cts, attachment) = match record {
            Record::Commit {
                cts,
                changes,
                attachment: Some(attachment),
                has_parts: false,
            } if changes.is_empty() => (cts, attachment),
            other => {
                self.take_pending()?;
                return Ok(Some(other));
            }
        };
        let of = Attachment::only_catalog_of(&attachment)?;
        if of.is_some() && self.is_in_mark() {
            return Ok(None);
        }
        if self.pending.as_ref().is_none_or(|pending| of != Some(pending.database)) {
            self.take_pending()?;
        }
        match of {
            Some(database) => {
                self.pending = Some(PendingCatalog {
                    database,
                    cts,
                    attachment,
                });
            }
            None => self.attach(cts, &attachment)?,
        }
        Ok(None)
    }

    fn take_pending(&mut self) -> Result<()> {
        match self.pending.take() {
            Some(pending) => self.attach(pending.cts, &pending.attachment),
            None => Ok(()),
        }
    }

    /// The changes of a transaction, with those of its parts. XX001 if these are not there.
    fn with_parts(&mut self, changes: Vec<LoggedChange>, has_parts: bool) -> Result<Vec<LoggedChange>> {
        match (self.parts.take(), has_parts) {
            (_, false) => Ok(changes),
            (Some(mut all), true) => {
                all.extend(changes);
                Ok(all)
            }
            (None, true) => Err(damaged("a transaction whose first changes are missing")),
        }
    }

    /// Whether the mark has what the record that is taken up says beside rows.
    fn is_in_mark(&self) -> bool {
        self.mark_begun_at.is_some_and(|begun_at| self.position < begun_at)
    }

    fn attach(&mut self, cts: Timestamp, bytes: &[u8]) -> Result<()> {
        if self.is_in_mark() {
            return Ok(());
        }
        let attachment = Attachment::decode(bytes)?;
        for (id, value) in attachment.sequences {
            self.sequences.recover(id, value);
        }
        if let Some(outcomes) = &attachment.outcomes {
            self.sequences.outcomes.recover(outcomes);
        }
        if attachment.catalogs.is_empty() && attachment.databases.is_none() && attachment.keeping.is_none() {
            return Ok(());
        }
        let databases = with_attached(
            &self.databases,
            attachment.databases,
            attachment.catalogs,
            attachment.keeping,
        );
        let databases = databases.with_heard(attachment.heard);
        self.change_to(databases, (cts, cts), attachment.derived)
    }

    /// These are the databases from here in the log on, by a change that committed at `cts` and laid out these rows. Nothing below `floor`
    /// is undecided of where they were.
    fn change_to(
        &mut self,
        databases: Databases,
        (cts, floor): (Timestamp, Timestamp),
        derived: Vec<Derived>,
    ) -> Result<()> {
        let before: BTreeSet<TableId> = self.databases.storage().into_iter().collect();
        let after: BTreeSet<TableId> = databases.storage().into_iter().collect();
        for new in after.difference(&before) {
            // A checkpoint that was cut short may have stored some of its rows already.
            self.database.open_table(*new);
            self.stored.lock().insert(*new);
        }
        set_tails(&mut self.database, &databases);
        for derived in derived {
            // What was replaced or dropped before an earlier program's checkpoint is not there any more: the store has what was made of it.
            if self.mark_begun_at.is_none() && !self.database.has_table(derived.from) {
                continue;
            }
            let own = databases
                .iter()
                .find(|database| storage_of(&database.catalog).contains(&derived.to));
            let own = own.ok_or_else(|| damaged("rows of a table that is in no database"))?;
            derive(&mut self.database, &own.catalog, (cts, floor), derived)?;
        }
        // The log is read from before the catalogs of an earlier program's checkpoint, where a branch is undecided: what that has written to
        // comes again.
        for gone in before.difference(&after) {
            if !self.database.is_in_doubt(*gone) {
                self.database.drop_table(*gone);
            }
        }
        self.next_storage_id = self.next_storage_id.max(databases.next_id());
        self.databases = databases;
        Ok(())
    }
}

/// Rows have in columns that they lack what the catalogs say, from here in the log on; but for those to which a branch that is not
/// decided has added some.
fn set_tails(database: &mut FormulaDatabase, databases: &Databases) {
    for table in databases.iter().flat_map(|own| own.catalog.tables.values()) {
        if !database.is_lengthened(table.id) {
            database.set_tail(table.id, table.tail());
        }
    }
}

/// Lays rows out of others once more, as the schema change did that committed at `cts`: the source is as it was before. They come to
/// lie below `cts`: what the same transaction did to them later is still to come.
///
/// Of a branch that is decided here its changes are still pending, and its tables closed, from its floor on. Who reads below it does not
/// wait for them, and finds the source as it was: the branch has closed it, so that its floor is above all that had committed there.
fn derive(
    database: &mut FormulaDatabase,
    catalog: &Catalog,
    (cts, floor): (Timestamp, Timestamp),
    derived: Derived,
) -> Result<()> {
    database.raise_clock(cts);
    let before = |place: Timestamp| Timestamp(place.0.saturating_sub(1));
    let laid_at = before(cts);
    let options = BeginOptions {
        session: SessionId(0),
        read_only: true,
    };
    let id = database.begin_at(before(floor), options);
    let mut rest = KeyRange {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };
    let (mut number, mut batch) = (0, Vec::new());
    loop {
        let mut visit = |key: &[u8], row: rubato_base::RowRef<'_>| {
            batch.push((Key::from_bytes(key), row.to_row()));
            batch.len() < DERIVED_ROWS
        };
        let scanned = database.scan(id, derived.from, &rest, false, ColumnSet::ALL, &mut visit);
        let end = scanned.map_err(|_| damaged("rows that others are made of could not be read"))?;
        for (key, row) in batch.drain(..) {
            number += 1;
            if let Some((key, row)) = derived_row(catalog, derived, &key, &row, number)? {
                database.replay(laid_at, derived.to, &key, Change::Insert(row))?;
            }
        }
        match end {
            ScanEnd::Exhausted => break,
            ScanEnd::Stopped(key) => rest.from = Bound::Excluded(key),
        }
    }
    database.rollback(id);
    Ok(())
}

/// Drops what transactions have laid down that never committed: neither the last checkpoint nor the log knows it, and its number
/// will be given again.
fn drop_unknown(store: &dyn Store, known: &BTreeSet<TableId>) -> Result<()> {
    let tables = store.tables().map_err(|error| store_error(&error))?;
    let is_unknown = |table: &u32| *table != MARK_TABLE && !known.contains(&TableId(*table));
    let unknown: Vec<u32> = tables.into_iter().filter(is_unknown).collect();
    match unknown.is_empty() {
        true => Ok(()),
        false => store.drop_tables(&unknown).map_err(|error| store_error(&error)),
    }
}

/// Finds the largest row number of each table without a primary key. It waits for nobody: rows that a branch whose outcome is not known
/// writes are passed over, and where there are branches, numbers are of each start of a node ([`RowNumberCounters::number_for`]).
fn number_rows(partition: &mut Partition) -> Result<()> {
    let databases = Arc::clone(&partition.databases);
    let id = partition.database.begin(BeginOptions {
        session: SessionId(0),
        read_only: true,
    });
    // Above are those of other nodes.
    let own = KeyRange {
        from: Bound::Unbounded,
        to: Bound::Excluded(Key::of(&[Value::Int8(NUMBERS_OF_OTHERS as i64)])),
    };
    let tables = databases.iter().flat_map(|database| database.catalog.tables.values());
    for table in tables.filter(|table| table.primary_key.is_empty()) {
        let mut last = None;
        let mut visit = |key: &[u8], _: rubato_base::RowRef<'_>| {
            last = KeyReader::new(key)
                .next(DataType::Int8)
                .ok()
                .and_then(|value| value.as_i64());
            false
        };
        let scanned = partition.database.peek_scan(id, table.id, &own, true, &mut visit);
        scanned.map_err(|_| damaged("a table could not be read"))?;
        partition.row_numbers.raise(table.id, last.unwrap_or(0) as u64);
    }
    partition.database.rollback(id);
    Ok(())
}
