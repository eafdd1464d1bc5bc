//! The rows' part of a schema change beside those who write to the table.
//!
//! All rows are gone over as a snapshot has them, see [`SchemaRun`], while commits note which rows they change. In rounds, what was done for
//! these rows is brought up to a newer snapshot, which is the one to go on with. When little is left to come back to, the session shuts
//! writers out for the last round.
//!
//! Invariant: between two rounds everything that is done is as the reader's snapshot has it, and what commits have changed since is noted.

use super::keys::{entry_key, entry_row};
use super::schema::{Doing, SchemaRun, Task, duplicated};
use super::{ExecutionContext, WRITTEN_ROW_COST};
use crate::catalog::{Catalog, Table};
use crate::schema_change::StorageWork;
use rubato_base::{ColumnSet, Error, Key, Result, Row, SessionId, TableId, TransactionId};
use rubato_protocol::{BeginOptions, FormulaDatabase, Insertion, OnBusy, OrderedRead, Outcome, Stop};
use std::ops::Bound;
use std::sync::Arc;

/// A round begins when commits have changed so many rows: what is noted stays small, and no snapshot is held for long.
const ROUND_ROWS: usize = 4096;
/// Writers are shut out when all is done but for so many rows, ...
const LAST_ROWS: usize = 256;
/// ... or after so many rounds behind the last row, ...
const LAST_ROUNDS_MAX: u32 = 16;
/// ... or when they change rows faster than these are gone over again.
const BEHIND_ROWS: usize = 1 << 18;

/// What a schema change needs that goes over rows while others write. It must be ended with [`BesideWriters::end`].
#[derive(Debug)]
pub struct BesideWriters {
    /// Has the snapshot.
    reader: TransactionId,
    session: SessionId,
    /// The tables whose changes are noted.
    tables: Vec<TableId>,
    round: Option<Round>,
    /// Rounds since the last row was gone over.
    last_rounds: u32,
}

/// Rows that commits have changed, and how far they have been gone over again.
#[derive(Debug)]
struct Round {
    /// Has the snapshot that everything is brought up to.
    reader: TransactionId,
    changed: Vec<(TableId, Key)>,
    work: usize,
    sweep: Sweep,
    at: usize,
}

/// What is done for a row that has changed. All former entries go before the new ones come: a key may have gone from one row to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    TakeOut,
    PutIn,
}

/// The storage of the tables that the works read, if others may write there meanwhile; `None` if one of the works has to have them
/// to itself from the beginning, or there is nothing to do with rows.
pub fn read_beside_writers(works: &[StorageWork], catalog: &Catalog) -> Option<Vec<TableId>> {
    let mut tables = Vec::new();
    for work in works {
        match work {
            StorageWork::FillIndex { table, .. }
            | StorageWork::VerifyNotNull { table, .. }
            | StorageWork::VerifyCheck { table, .. } => tables.push(catalog.tables.get(table)?.id),
            StorageWork::VerifyForeignKey { table, foreign_key } => {
                let table = catalog.tables.get(table)?;
                let parent = &table.foreign_keys.get(*foreign_key)?.referenced_table;
                tables.extend([table.id, catalog.tables.get(parent)?.id]);
            }
            // Who writes while rows lack a column would have to know it.
            StorageWork::SetMissing { .. }
            | StorageWork::Rewrite { .. }
            | StorageWork::VerifyUnique { .. }
            | StorageWork::Move { .. } => return None,
            StorageWork::Create { .. }
            | StorageWork::Drop { .. }
            | StorageWork::StartSequence { .. }
            | StorageWork::DropSequence { .. } => {}
        }
    }
    tables.sort_unstable();
    tables.dedup();
    (!tables.is_empty()).then_some(tables)
}

impl BesideWriters {
    /// Begins to read these tables, see [`read_beside_writers`], for a session.
    pub fn begin(tables: Vec<TableId>, session: SessionId, database: &mut FormulaDatabase) -> Outcome<BesideWriters> {
        for table in &tables {
            database.note_changes(*table)?;
        }
        Ok(BesideWriters {
            reader: begin_reader(session, database),
            session,
            tables,
            round: None,
            last_rounds: 0,
        })
    }

    /// The transaction whose snapshot is being read.
    pub fn reader(&self) -> TransactionId {
        self.round.as_ref().map_or(self.reader, |round| round.reader)
    }

    /// Ends it, whether it is done or given up.
    pub fn end(self, database: &mut FormulaDatabase) {
        let readers = [Some(self.reader), self.round.map(|round| round.reader)];
        readers
            .into_iter()
            .flatten()
            .for_each(|reader| database.rollback(reader));
        self.tables.iter().for_each(|table| database.stop_noting(*table));
    }

    /// Goes on while others write; true when it is time to shut them out, and false when the context's rows are spent before.
    pub fn go_on(&mut self, run: &mut SchemaRun, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let own = context.transaction;
        let outcome = self.read_on(false, run, context);
        context.transaction = own;
        outcome
    }

    /// Goes on to the end: nobody else writes any more, and the context's transaction, whose snapshot is as new as can be, commits before anybody does. False
    /// when the context's rows are spent before all is done.
    pub fn finish(&mut self, run: &mut SchemaRun, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let own = context.transaction;
        let outcome = self.read_on(true, run, context);
        context.transaction = own;
        if !outcome? || !write_late(run, context)? {
            return Ok(false);
        }
        for table in &self.tables {
            context.database.here().protect_all(own, *table, ColumnSet::ALL)?;
        }
        Ok(true)
    }

    fn read_on(&mut self, to_the_end: bool, run: &mut SchemaRun, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        loop {
            if let Some(round) = &mut self.round {
                context.transaction = round.reader;
                if !round.run(self.reader, run, context)? {
                    return Ok(false);
                }
                context
                    .database
                    .here()
                    .rollback(std::mem::replace(&mut self.reader, round.reader));
                self.round = None;
            }
            let noted: usize = self
                .tables
                .iter()
                .map(|table| context.database.here().noted_changes(*table))
                .sum();
            if run.is_over() && noted == 0 {
                return Ok(true);
            }
            let is_near = run.is_over() && (noted <= LAST_ROWS || self.last_rounds >= LAST_ROUNDS_MAX);
            if !to_the_end && (is_near || noted >= BEHIND_ROWS) {
                return Ok(true);
            }
            if run.is_over() || noted >= ROUND_ROWS {
                self.last_rounds += u32::from(run.is_over());
                self.round = Some(self.next_round(context.database.here()));
                continue;
            }
            context.transaction = self.reader;
            if !run.run(context)? {
                return Ok(false);
            }
        }
    }

    fn next_round(&self, database: &mut FormulaDatabase) -> Round {
        let mut changed = Vec::new();
        for table in &self.tables {
            changed.extend(database.take_noted(*table).into_iter().map(|key| (*table, key)));
        }
        Round {
            reader: begin_reader(self.session, database),
            changed,
            work: 0,
            sweep: Sweep::TakeOut,
            at: 0,
        }
    }
}

fn begin_reader(session: SessionId, database: &mut FormulaDatabase) -> TransactionId {
    database.begin(BeginOptions {
        session,
        read_only: true,
    })
}

impl Round {
    /// Goes over the rows for each work that has been begun; false if the context's rows are spent before the last.
    fn run(&mut self, before: TransactionId, run: &mut SchemaRun, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        while self.work < run.works.len() && run.has_begun(self.work) {
            if let Some(task) = Task::of(&run.works[self.work], &[], context)? {
                while let Some((table, key)) = self.changed.get(self.at) {
                    if context.is_spent() {
                        return Ok(false);
                    }
                    context.spend(1);
                    self.row(*table, key, (before, &task), run, context)?;
                    self.at += 1;
                }
            }
            self.at = 0;
            match self.sweep {
                Sweep::TakeOut => self.sweep = Sweep::PutIn,
                Sweep::PutIn => {
                    self.sweep = Sweep::TakeOut;
                    self.work += 1;
                }
            }
        }
        Ok(true)
    }

    fn row(
        &self,
        table: TableId,
        key: &Key,
        (before, task): (TransactionId, &Task),
        run: &mut SchemaRun,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let parent = referred_to(task, context.catalog)?.filter(|(parent, _)| parent.id == table);
        let is_own = task.storage == table && run.has_gone_over(self.work, key);
        let is_looked_at = matches!(task.doing, Doing::FillIndex(_)) || self.sweep == Sweep::PutIn;
        if !is_looked_at || (!is_own && parent.is_none()) {
            return Ok(());
        }
        let (columns, database) = (task.reads(), &mut context.database);
        let former = database
            .read(before, table, key.as_bytes(), columns)?
            .map(|row| row.into_owned());
        let row = database
            .read(self.reader, table, key.as_bytes(), columns)?
            .map(|row| row.into_owned());
        if let Some((_, columns)) = parent
            && was_referred_to(&columns, former.as_ref(), row.as_ref())
        {
            run.do_again(self.work);
        }
        match (task.doing, row) {
            _ if !is_own => Ok(()),
            (Doing::FillIndex(index), row) => {
                let rows = (former.as_ref(), row.as_ref());
                self.index_row(&task.table, index, key, rows, run, context)
            }
            (_, Some(row)) => task.row(key, &row, &mut run.working, context),
            (_, None) => Ok(()),
        }
    }

    /// Takes the former entry of a row out of an index, or puts the new one in.
    fn index_row(
        &self,
        table: &Table,
        index: usize,
        key: &Key,
        (former, row): (Option<&Row>, Option<&Row>),
        run: &mut SchemaRun,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let own = &table.indexes[index];
        let entry_of = |row: Option<&Row>| row.map_or(Ok(None), |row| entry_key(table, own, row, key.as_bytes()));
        let (before, after) = (entry_of(former)?, entry_of(row)?);
        if before == after {
            return Ok(());
        }
        context.spend(1);
        match (self.sweep, before, after, row) {
            (Sweep::TakeOut, Some(entry), _, _) => run.lay_again(own.id, entry, None, context).map(drop),
            (Sweep::PutIn, _, Some(entry), Some(row)) => {
                let entry_row = entry_row(own, key.as_bytes());
                match run.lay_again(own.id, entry, Some(entry_row), context)? {
                    true => Ok(()),
                    false => Err(Stop::Fail(duplicated(table, Some(index), row, context))),
                }
            }
            _ => Ok(()),
        }
    }
}

/// The table that a foreign key under verification refers to, and the columns.
fn referred_to(task: &Task, catalog: &Catalog) -> Result<Option<(Arc<Table>, Vec<usize>)>> {
    let Doing::VerifyForeignKey(foreign_key) = task.doing else {
        return Ok(None);
    };
    let own = &task.table.foreign_keys[foreign_key];
    let lost = || {
        Error::internal(format!(
            "the table that \"{}\" refers to is not in the catalog",
            own.name
        ))
    };
    let parent = catalog.tables.get(&own.referenced_table).ok_or_else(lost)?;
    Ok(Some((Arc::clone(parent), own.referenced_columns.clone())))
}

/// Whether rows may have referred to what a row was, and it is that no more.
fn was_referred_to(columns: &[usize], former: Option<&Row>, row: Option<&Row>) -> bool {
    match (former, row) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(former), Some(row)) => {
            let (former, row) = (former.as_ref(), row.as_ref());
            columns
                .iter()
                .any(|column| former.encoded(*column) != row.encoded(*column))
        }
    }
}

/// Writes what has been kept back because its storage is in the store already: like other writes, so that the log has it.
fn write_late(run: &mut SchemaRun, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    while let Some(((storage, key), row)) = run.working.late.pop_first() {
        let (database, transaction) = (&mut context.database, context.transaction);
        let former = database.read_for_update(
            transaction,
            storage,
            key.as_bytes(),
            ColumnSet::EXISTENCE,
            OnBusy::Queue,
        )?;
        if matches!(former, OrderedRead::Row(Some(_))) {
            database.delete(transaction, storage, key.as_bytes())?;
        }
        if let Some(row) = row
            && !matches!(database.insert(transaction, storage, key, row)?, Insertion::Inserted)
        {
            return Err(Stop::Fail(Error::internal("an entry of an index is there twice")));
        }
        context.spend(WRITTEN_ROW_COST);
        if context.is_spent() && !run.working.late.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl SchemaRun {
    fn is_over(&self) -> bool {
        self.at >= self.works.len()
    }

    fn has_begun(&self, work: usize) -> bool {
        work < self.at || (work == self.at && self.rest.is_some())
    }

    fn has_gone_over(&self, work: usize, key: &Key) -> bool {
        let rest = self.rest.as_ref().filter(|_| work == self.at).map(|rest| &rest.from);
        match rest {
            _ if work < self.at => true,
            Some(Bound::Excluded(last)) => key <= last,
            Some(Bound::Included(next)) => key < next,
            Some(Bound::Unbounded) | None => false,
        }
    }

    /// A work is done once more, behind the others, unless it is still to come.
    fn do_again(&mut self, work: usize) {
        let Some(again) = self.works.get(work).cloned() else {
            return;
        };
        let mut to_come = self.works.iter().skip(self.at + usize::from(self.rest.is_some()));
        if !to_come.any(|other| *other == again) {
            self.works.push(again);
        }
    }

    /// Takes a laid entry out, or puts one in; false if there is one already.
    fn lay_again(
        &mut self,
        storage: TableId,
        entry: Key,
        row: Option<Row>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        let (database, late) = (context.database.here(), &mut self.working.late);
        let place = (storage, entry);
        if row.is_some() {
            let is_taken = match late.get(&place) {
                Some(kept) => kept.is_some(),
                None => database.is_laid(storage, place.1.as_bytes())?,
            };
            if is_taken {
                return Ok(false);
            }
        }
        if !database.lay_again(context.transaction, storage, place.1.clone(), row.clone())? {
            late.insert(place, row);
        }
        Ok(true)
    }
}
