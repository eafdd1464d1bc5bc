//! The rows' part of schema changes: fills indexes, lays rows out under a new key, checks what is there.
//!
//! All of it reads under the protocol, in slices. New storage is known to nobody else before the new catalog is. Where rows are laid
//! in it (see `FormulaDatabase::lay_row`) they are not pending; unless they are in the store, what they were made of is said
//! ([`Derived`]), so that recovery can do it again. Other new storage is written to like any other. Nobody else writes to the table meanwhile: the
//! session has seen to that.

use super::anew::{Left, Reach, left_of};
use super::constraints::{shown_key, unique_constraint, unique_violation};
use super::deferred::is_shared;
use super::keys::{entry_key, entry_row, moved_row_key, row_key, row_values};
use super::missing::Missing;
use super::moving::MoveRun;
use super::referential::{check_referring, still_referred};
use super::rows::insert_entry;
use super::{BATCH_TUPLES, ExecutionContext, Turn, WRITTEN_ROW_COST};
use crate::catalog::{Catalog, Check, Index, RelationName, Table};
use crate::far::{LaidFrom, LaidInVain, waits_for_others};
use crate::moves::Searched;
use crate::partition::Derived;
use crate::schema_change::{Becomes, Conversion, StorageWork};
use rubato_base::{ColumnSet, DataType, Error, Key, KeyReader, Result, Row, SqlState, TableId, Value};
use rubato_formula::Tuple;
use rubato_protocol::{FormulaDatabase, Insertion, KeyRange, Outcome, ScanEnd, Stop};
use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The rows' part of one schema change under way. It borrows nothing between two calls.
#[derive(Debug)]
pub struct SchemaRun {
    pub(super) works: Vec<StorageWork>,
    /// The work under way, and what is left of its rows.
    pub(super) at: usize,
    pub(super) rest: Option<KeyRange>,
    read: ReadRows,
    pub(super) working: Working,
    /// What rows lack.
    missing: Missing,
    derived: Vec<Derived>,
    moving: MoveRun,
    /// The table whose rows an UPDATE or DELETE lays anew: what its works find wrong is told as the statement's.
    changes: Option<RelationName>,
}

/// Rows that have been read and not been gone over, in order, and whether there are none behind them.
#[derive(Debug, Default)]
struct ReadRows {
    rows: VecDeque<(Key, Row)>,
    is_last: bool,
}

/// What is known of works from one row to the next.
#[derive(Debug, Default)]
pub(super) struct Working {
    /// How many rows the work under way has seen.
    seen: u64,
    /// How many rows have been changed, or have gone, where an UPDATE or DELETE lays them anew.
    changed: u64,
    /// Entries of storage that is on its way to the store already, and what is to become of them, see `beside.rs`.
    pub(super) late: BTreeMap<(TableId, Key), Option<Row>>,
}

/// How far an index is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexProgress {
    /// The table and the index, by their numbers for users.
    pub relation: (u32, u32),
    /// Rows that were looked at.
    pub rows_done: u64,
    /// Rows that there are, as far as they are in memory.
    pub rows: u64,
}

impl SchemaRun {
    /// The works of a schema change, in order. Storage and sequences are the caller's: for `Create`, `Drop`, `StartSequence` and
    /// `DropSequence` nothing is done here.
    pub fn new(works: Vec<StorageWork>) -> SchemaRun {
        let changes = works.iter().find_map(|work| match work {
            StorageWork::Rewrite {
                table,
                becomes: Becomes::Changed(_),
                ..
            } => Some(table.clone()),
            _ => None,
        });
        SchemaRun {
            works,
            changes,
            at: 0,
            rest: None,
            read: ReadRows::default(),
            working: Working::default(),
            missing: Missing::default(),
            derived: Vec::new(),
            moving: MoveRun::default(),
        }
    }

    /// Goes on; false when the context's rows are spent before all is done. `context.catalog` is the new catalog, and the storage
    /// that the works create is there.
    ///
    /// 23505, 23502, 23514 or 23503 if a row that is there does not satisfy what is new.
    pub fn run(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        while let Some(work) = self.works.get(self.at) {
            let later = &self.works[self.at + 1..];
            // An index that is made anew later, for rows under another key, need not be made for the rows as they are now.
            let is_in_vain = matches!(work, StorageWork::FillIndex { .. }) && later.contains(work);
            if let StorageWork::SetMissing { table, column, default } = work {
                let table = table_of(table, context)?;
                let storage = storage_of_rows(&table, later);
                self.missing.set((&table, storage), (*column, default), context)?;
            } else if let StorageWork::Move { table, work } = work {
                if !self.moving.run((table, work), context)? {
                    return Ok(false);
                }
            } else if !is_in_vain
                && let Some(task) = Task::of(work, later, context)?.map(|task| task.within(&self.changes))
                && !task.holds_anyway(&self.missing, context)?
            {
                let rest = self.rest.get_or_insert(KeyRange::WHOLE);
                if !task.run((rest, &mut self.read), &mut self.working, context)? {
                    return Ok(false);
                }
                // What waits for other nodes to have laid their rows goes on behind the last one.
                self.derived.extend(task.derived(context)?);
                self.rest = None;
                if task.becomes != Becomes::Same {
                    self.missing.forget(&task.table);
                }
            }
            self.working.seen = 0;
            self.at += 1;
        }
        Ok(true)
    }

    /// How many rows an UPDATE or DELETE has changed.
    pub fn changed_rows(&self) -> u64 {
        self.working.changed
    }

    /// How far the index is that is being built, if one is.
    pub fn progress(&self, catalog: &Catalog, database: &FormulaDatabase) -> Option<IndexProgress> {
        let StorageWork::FillIndex { table, index } = self.works.get(self.at)? else {
            return None;
        };
        let table = catalog.tables.get(table)?;
        let storage = storage_of_rows(table, &self.works[self.at + 1..]);
        Some(IndexProgress {
            relation: (table.oid, table.indexes.get(*index)?.id.0),
            rows_done: self.working.seen,
            rows: self.working.seen.max(database.rows_in_memory(storage).0 as u64),
        })
    }

    /// All is done: the new catalog, with what rows of its tables lack.
    pub fn completed(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        self.missing.completed(catalog, &self.works)
    }

    /// What was laid out of what; and what was found that is to move to other nodes, if that was looked for.
    pub fn into_parts(self) -> (Vec<Derived>, Option<Searched>) {
        (self.derived, self.moving.into_searched())
    }
}

/// Carries out the rows' part of a schema change in one go, see [`SchemaRun::run`].
pub fn carry_out_all(works: &[StorageWork], context: &mut ExecutionContext<'_>) -> Outcome<SchemaRun> {
    let rows_left = std::mem::replace(&mut context.rows_left, ExecutionContext::UNBOUNDED);
    let mut run = SchemaRun::new(works.to_vec());
    let outcome = run.run(context);
    context.rows_left = rows_left;
    outcome.map(|_| run)
}

/// Where a table's rows are while `later` works are still to come: a rewrite takes them from there.
pub(crate) fn storage_of_rows(table: &Table, later: &[StorageWork]) -> TableId {
    let rewritten = later.iter().find_map(|work| match work {
        StorageWork::Rewrite { table: name, from, .. } if *name == table.key() => Some(*from),
        _ => None,
    });
    rewritten.unwrap_or(table.id)
}

/// What is done with each row of a table.
#[derive(Clone, Copy)]
pub(super) enum Doing {
    FillIndex(usize),
    Rewrite,
    VerifyNotNull(usize),
    VerifyCheck(usize),
    VerifyForeignKey(usize),
    VerifyUnique(usize),
}

impl Doing {
    /// Whether the table has what this is about.
    fn is_there(&self, table: &Table) -> bool {
        match *self {
            Doing::Rewrite => true,
            Doing::FillIndex(index) | Doing::VerifyUnique(index) => index < table.indexes.len(),
            Doing::VerifyNotNull(column) => column < table.columns.len(),
            Doing::VerifyCheck(check) => check < table.checks.len(),
            Doing::VerifyForeignKey(key) => key < table.foreign_keys.len(),
        }
    }
}

/// One work on the rows of a table.
pub(super) struct Task {
    pub(super) table: Arc<Table>,
    /// Where the rows are.
    pub(super) storage: TableId,
    pub(super) doing: Doing,
    /// What becomes of the rows that are laid out anew.
    becomes: Becomes,
    /// Rows that have no key stay with the numbers that they have.
    keeps_numbers: bool,
    /// See [`SchemaRun`].
    changes: Option<RelationName>,
    /// See [`left_of`].
    reach: OnceCell<Reach>,
}

impl Task {
    /// The work, if it is about rows.
    pub(super) fn of(
        work: &StorageWork,
        later: &[StorageWork],
        context: &ExecutionContext<'_>,
    ) -> Result<Option<Task>> {
        let (name, doing) = match work {
            StorageWork::Create { .. }
            | StorageWork::Drop { .. }
            | StorageWork::SetMissing { .. }
            | StorageWork::StartSequence { .. }
            | StorageWork::DropSequence { .. }
            | StorageWork::Move { .. } => return Ok(None),
            StorageWork::FillIndex { table, index } => (table, Doing::FillIndex(*index)),
            StorageWork::Rewrite { table, .. } => (table, Doing::Rewrite),
            StorageWork::VerifyNotNull { table, column } => (table, Doing::VerifyNotNull(*column)),
            StorageWork::VerifyCheck { table, check } => (table, Doing::VerifyCheck(*check)),
            StorageWork::VerifyForeignKey { table, foreign_key } => (table, Doing::VerifyForeignKey(*foreign_key)),
            StorageWork::VerifyUnique { table, index } => (table, Doing::VerifyUnique(*index)),
        };
        let table = table_of(name, context)?;
        if !doing.is_there(&table) {
            return Err(Error::internal("what is to be checked or filled is not there any more"));
        }
        let (storage, becomes) = match work {
            StorageWork::Rewrite { from, becomes, .. } => (*from, becomes.clone()),
            _ => (storage_of_rows(&table, later), Becomes::Same),
        };
        let had_no_key = matches!(work, StorageWork::Rewrite { old_key, .. } if old_key.is_empty());
        let keeps_numbers = had_no_key && table.primary_key.is_empty() && becomes != Becomes::Same;
        Ok(Some(Task {
            table,
            storage,
            doing,
            becomes,
            keeps_numbers,
            changes: None,
            reach: OnceCell::new(),
        }))
    }

    fn within(self, changes: &Option<RelationName>) -> Task {
        let changes = changes.clone();
        Task { changes, ..self }
    }

    pub(super) fn reads(&self) -> ColumnSet {
        let columns = match self.doing {
            Doing::FillIndex(index) | Doing::VerifyUnique(index) => {
                self.table.read_by_index(&self.table.indexes[index])
            }
            Doing::Rewrite => ColumnSet::ALL,
            Doing::VerifyNotNull(column) => ColumnSet::column(column),
            Doing::VerifyCheck(check) => self.table.checks[check].columns,
            Doing::VerifyForeignKey(key) => self.table.foreign_keys[key].columns.iter().copied().collect(),
        };
        columns.union(ColumnSet::EXISTENCE)
    }

    /// Whether it is known without a look at the rows that all of them are as they should be.
    fn holds_anyway(&self, missing: &Missing, context: &ExecutionContext<'_>) -> Result<bool> {
        match self.doing {
            Doing::VerifyNotNull(column) => Ok(missing.has_no_null(&self.table, column)),
            Doing::VerifyCheck(check) => missing.satisfies(&self.table, &self.table.checks[check], context),
            _ => Ok(false),
        }
    }

    /// Goes over the rows in batches until the context's rows are spent: false, and what is left is in `rest`, as it is when a row has
    /// to wait.
    fn run(
        &self,
        (rest, read): (&mut KeyRange, &mut ReadRows),
        working: &mut Working,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        while !context.is_spent() {
            if read.rows.is_empty() {
                self.read(rest, read, context)?;
            }
            while let Some((key, _)) = read.rows.front() {
                let behind = rest.rest_behind(key, false);
                let outcome = self.front_row(&read.rows, working, context);
                // They are as the snapshot has them, which others may move.
                if outcome.as_ref().is_err_and(|stop| !waits_for_others(stop)) {
                    read.rows.clear();
                }
                outcome?;
                read.rows.pop_front();
                working.seen += 1;
                *rest = behind;
            }
            if read.is_last {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next rows.
    fn read(&self, rest: &KeyRange, read: &mut ReadRows, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        let rows = &mut read.rows;
        let mut visit = |key: &[u8], row: rubato_base::RowRef<'_>| {
            rows.push_back((Key::from_bytes(key), row.to_row()));
            rows.len() < BATCH_TUPLES
        };
        let (database, transaction) = (&mut context.database, context.transaction);
        let end = database.scan(transaction, self.storage, rest, false, self.reads(), &mut visit);
        if end.is_err() {
            read.rows.clear();
        }
        read.is_last = matches!(end?, ScanEnd::Exhausted);
        context.spend(read.rows.len() as u64 + 1);
        Ok(())
    }

    /// The first row, whose part may have to wait for other nodes; those behind it are run ahead then.
    fn front_row(
        &self,
        rows: &VecDeque<(Key, Row)>,
        working: &mut Working,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let Some((key, row)) = rows.front() else {
            return Ok(());
        };
        if self.lays_rows(context) {
            let laid_in_vain = context.database.may_lay(self.storage)?;
            self.refuse(laid_in_vain, context)?;
            return self.row(key, row, working, context);
        }
        let indexes = self.table.indexes.iter().map(|index| index.id);
        let mut storages = indexes.chain([self.storage, self.table.id]);
        // What the row refers to may be elsewhere, too.
        let is_verified = matches!(self.doing, Doing::VerifyForeignKey(_));
        if !is_verified && !storages.any(|storage| context.database.is_on_others(storage)) {
            return self.row(key, row, working, context);
        }
        context.row_in_turn(|context, turn| {
            let (key, row) = rows.get(turn.distance())?;
            match turn {
                Turn::Own => Some(self.row(key, row, working, context)),
                Turn::Prepared(_) => Some(Ok(())),
                Turn::Trial(_) => Some(self.row(key, row, &mut Working::default(), context)),
            }
        })
    }

    pub(super) fn row(
        &self,
        key: &Key,
        row: &Row,
        working: &mut Working,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let table = &*self.table;
        match self.doing {
            Doing::FillIndex(index) => {
                let is_new = fill_index(table, index, (key, row), &mut working.late, context)?;
                self.refuse_second(is_new, Some(index), row, context)
            }
            Doing::Rewrite => self.lay_anew((key, row), working, context),
            Doing::VerifyNotNull(column) => Ok(refuse_null(table, column, row)?),
            Doing::VerifyCheck(check) => verify_check(table, check, row, context),
            Doing::VerifyForeignKey(foreign_key) => {
                let outcome = verify_foreign_key(table, foreign_key, row, context);
                outcome.map_err(|stop| self.told_of_referred(stop, foreign_key, row, context))
            }
            Doing::VerifyUnique(index) => verify_unique(table, index, row, context),
        }
    }

    /// The row as it comes to be, in its new place.
    fn lay_anew(
        &self,
        (key, row): (&Key, &Row),
        working: &mut Working,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let mut counted = 0;
        let new = match &self.becomes {
            Becomes::Same => None,
            Becomes::Converted(conversions) => Some(converted(&self.table, conversions, row, context)?),
            Becomes::Changed(change) => {
                let left = left_of(&change.0, (key, row), &self.reach, context)?;
                counted = u64::from(!matches!(left, Left::Same));
                context.spend(counted * WRITTEN_ROW_COST);
                match left {
                    Left::Same => None,
                    Left::Changed(row) => Some(row),
                    Left::Gone => {
                        working.changed += counted;
                        return Ok(());
                    }
                }
            }
        };
        let row = new.as_ref().unwrap_or(row);
        let is_new = rewrite(&self.table, (Some(key).filter(|_| self.keeps_numbers), row), context)?;
        self.refuse_second(is_new, None, row, context)?;
        working.changed += counted;
        Ok(())
    }

    /// Errors: 23505 for a row that is not new in the table, or in an index of it.
    fn refuse_second(
        &self,
        is_new: bool,
        index: Option<usize>,
        row: &Row,
        context: &ExecutionContext<'_>,
    ) -> Outcome<()> {
        match is_new {
            true => Ok(()),
            false => Err(Stop::Fail(self.duplicated(index, row, context))),
        }
    }

    fn duplicated(&self, index: Option<usize>, row: &Row, context: &ExecutionContext<'_>) -> Error {
        match self.changes {
            Some(_) => unique_violation(&self.table, index, row, context.evaluation.text),
            None => duplicated(&self.table, index, row, context),
        }
    }

    /// What is wrong with a row that refers to one that an UPDATE or DELETE has taken away.
    fn told_of_referred(&self, stop: Stop, foreign_key: usize, row: &Row, context: &ExecutionContext<'_>) -> Stop {
        let parent = self.changes.as_ref().filter(|name| **name != self.table.key());
        let parent = parent.and_then(|name| context.catalog.tables.get(name));
        match (stop, parent) {
            (Stop::Fail(error), Some(parent)) if error.code() == SqlState::FOREIGN_KEY_VIOLATION => {
                let key = &self.table.foreign_keys[foreign_key];
                let values: Vec<Value> = key.columns.iter().map(|column| row.as_ref().get(*column)).collect();
                Stop::Fail(still_referred(parent, (&self.table, key), &values, context))
            }
            (stop, _) => stop,
        }
    }

    /// The storage that rows come to be in.
    fn made(&self) -> Option<TableId> {
        match self.doing {
            Doing::FillIndex(index) => Some(self.table.indexes[index].id),
            Doing::Rewrite => Some(self.table.id),
            _ => None,
        }
    }

    /// Whether the rows are laid, so that none of them is changed again for other nodes.
    fn lays_rows(&self, context: &mut ExecutionContext<'_>) -> bool {
        self.made().is_some_and(|to| context.database.here().is_laid_out(to))
    }

    /// Errors: 23505 for a row that another node has not laid.
    fn refuse(&self, laid_in_vain: Option<LaidInVain>, context: &ExecutionContext<'_>) -> Outcome<()> {
        let Some(LaidInVain { storage, row, .. }) = laid_in_vain else {
            return Ok(());
        };
        let index = self.table.indexes.iter().position(|index| index.id == storage);
        Err(Stop::Fail(self.duplicated(index, &row, context)))
    }

    /// What recovery must know, if rows were laid out in private storage and are not in the store.
    ///
    /// Errors: [`Stop::Wait`] until other nodes have laid theirs.
    fn derived(&self, context: &mut ExecutionContext<'_>) -> Outcome<Option<Derived>> {
        let Some(to) = self.made().filter(|_| self.lays_rows(context)) else {
            return Ok(None);
        };
        let laid_in_vain = context.database.finish_laying_elsewhere()?;
        self.refuse(laid_in_vain, context)?;
        let is_to_be_made_again = !context.database.here().finish_laying(&[to])?;
        let from = self.storage;
        Ok(is_to_be_made_again.then_some(Derived { from, to }))
    }
}

/// The row of derived storage that a row of its source becomes; `number` is the row's place, from 1, for tables without a primary
/// key. `None` if the catalog does not have that storage.
pub fn derived_row(
    catalog: &Catalog,
    derived: Derived,
    key: &Key,
    row: &Row,
    number: u64,
) -> Result<Option<(Key, Row)>> {
    for table in catalog.tables.values() {
        let is_own = |index: &Index| index.id == derived.to;
        if table.id != derived.to && !table.indexes.iter().any(is_own) {
            continue;
        }
        // Where the rows were, nothing may be known of what they lack: their table was changed in the same transaction.
        let lengthened = table.tail().map(|tail| row.as_ref().lengthened(tail.as_ref()));
        let row = lengthened.as_ref().unwrap_or(row);
        if table.id == derived.to {
            return Ok(Some((row_key(table, row, || number)?, row.clone())));
        }
        if let Some(index) = table.indexes.iter().find(|index| is_own(index)) {
            let entry = entry_key(table, index, row, key.as_bytes())?;
            return Ok(entry.map(|entry| (entry, entry_row(index, key.as_bytes()))));
        }
    }
    Ok(None)
}

pub(super) fn table_of(name: &RelationName, context: &ExecutionContext<'_>) -> Result<Arc<Table>> {
    let table = context.catalog.tables.get(name).cloned();
    table.ok_or_else(|| Error::internal(format!("the table \"{name}\" is not in the new catalog")))
}

fn fill_index(
    table: &Table,
    index: usize,
    (key, row): (&Key, &Row),
    late: &mut BTreeMap<(TableId, Key), Option<Row>>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<bool> {
    let own = &table.indexes[index];
    Ok(if context.database.here().is_laid_out(own.id) {
        let Some(entry) = entry_key(table, own, row, key.as_bytes())? else {
            context.spend(1);
            return Ok(true);
        };
        let entry_row = entry_row(own, key.as_bytes());
        context.spend(1);
        let place = (own.id, entry);
        match late.get_mut(&place) {
            Some(kept) => kept.is_none() && kept.replace(entry_row).is_none(),
            None => {
                let from = || LaidFrom {
                    line: 0,
                    row: Some(row.clone()),
                };
                context.database.lay_row(context.transaction, place, entry_row, from)?
            }
        }
    } else {
        context.spend(WRITTEN_ROW_COST);
        insert_entry(table, index, row, key, context)?.is_none()
    })
}

/// Puts a row into the storage of its table, under its own key or under one that it has; false if the key is taken.
fn rewrite(table: &Table, (kept, row): (Option<&Key>, &Row), context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    for &column in &table.primary_key {
        refuse_null(table, column, row)?;
    }
    let key = match kept {
        Some(key) => {
            let number = KeyReader::new(key.as_bytes()).next(DataType::Int8)?.as_i64();
            context
                .row_numbers
                .note_row_number(table.id, number.unwrap_or(0) as u64);
            key.clone()
        }
        None => moved_row_key(table, row, context)?,
    };
    let (database, transaction) = (&mut context.database, context.transaction);
    let is_new = if database.here().is_laid_out(table.id) {
        let from = || LaidFrom { line: 0, row: None };
        database.lay_row(transaction, (table.id, key), row.clone(), from)?
    } else {
        database.insert(transaction, table.id, key, row.clone())? == Insertion::Inserted
    };
    context.spend(1);
    Ok(is_new)
}

/// The row with its columns' new values, which are as the table wants them.
fn converted(table: &Table, conversions: &[Conversion], row: &Row, context: &mut ExecutionContext<'_>) -> Outcome<Row> {
    let mut values = row_values(table, row.as_ref());
    for conversion in conversions.iter().filter(|conversion| !conversion.is_new) {
        values[conversion.column] = conversion.value.evaluate(row, context.evaluation)?;
    }
    for conversion in conversions.iter().filter(|conversion| conversion.is_new) {
        values[conversion.column] = conversion.value.evaluate(&*values, context.evaluation)?;
    }
    let row = Row::from_values(&values);
    context.spend(WRITTEN_ROW_COST);
    for conversion in conversions {
        if table.columns[conversion.column].not_null {
            refuse_null(table, conversion.column, &row)?;
        }
    }
    for (place, check) in table.checks.iter().enumerate() {
        // Rows that violate a check of the table's own that is not valid may stay; values become those of a domain as by a cast.
        let is_asked = check.is_valid || check.domain.is_some();
        if is_asked && conversions.iter().any(|it| check.condition.reads(it.column)) {
            verify_check(table, place, &row, context)?;
        }
    }
    Ok(row)
}

fn verify_check(table: &Table, check: usize, row: &Row, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    context.spend(1);
    let check = &table.checks[check];
    if check.condition.is_not_false(row, context.evaluation)? {
        return Ok(());
    }
    if let Some(rule) = &check.domain {
        return Err(Stop::Fail(domain_violation(table, check, rule.constraint.is_none())));
    }
    let message = format!(
        "check constraint \"{}\" of relation \"{}\" is violated by some row",
        check.name, table.name
    );
    let error = Error::new(SqlState::CHECK_VIOLATION, message);
    Err(Stop::Fail(table.named_in(error, None, Some(&check.name))))
}

/// What is said of a column whose values are not what its domain says by now.
fn domain_violation(table: &Table, check: &Check, is_null: bool) -> Error {
    let mut column = 0;
    check.condition.for_each_column(&mut |own| column = own);
    let name = &table.columns[column].name;
    let (code, what) = match is_null {
        true => (SqlState::NOT_NULL_VIOLATION, "contains null values"),
        false => (
            SqlState::CHECK_VIOLATION,
            "contains values that violate the new constraint",
        ),
    };
    let message = format!("column \"{name}\" of table \"{}\" {what}", table.name);
    table.named_in(Error::new(code, message), Some(name), None)
}

fn verify_foreign_key(table: &Table, place: usize, row: &Row, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    let columns = &table.foreign_keys[place].columns;
    let values: Vec<Value> = columns.iter().map(|column| row.as_ref().get(*column)).collect();
    if values.iter().any(Value::is_null) {
        return Ok(());
    }
    check_referring(table, place, &values, context)
}

fn verify_unique(table: &Table, index: usize, row: &Row, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    let columns = &table.indexes[index].columns;
    let values: Vec<Value> = columns.iter().map(|column| row.as_ref().get(*column)).collect();
    let may_repeat = !table.indexes[index].options.nulls_not_distinct && values.iter().any(Value::is_null);
    if may_repeat || !is_shared(table, index, &values, context)? {
        return Ok(());
    }
    Err(Stop::Fail(duplicated(table, Some(index), row, context)))
}

pub(super) fn duplicated<T: Tuple + ?Sized>(
    table: &Table,
    index: Option<usize>,
    row: &T,
    context: &ExecutionContext<'_>,
) -> Error {
    let (columns, name) = unique_constraint(table, index);
    let key = shown_key(table, columns, row, true, context.evaluation.text);
    let message = format!("could not create unique index \"{name}\"");
    let error = Error::new(SqlState::UNIQUE_VIOLATION, message).with_detail(format!("Key {key} is duplicated."));
    table.named_in(error, None, Some(name))
}

fn refuse_null(table: &Table, column: usize, row: &Row) -> Result<()> {
    if !row.as_ref().encoded(column).is_empty() {
        return Ok(());
    }
    let name = &table.columns[column].name;
    let message = format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
    let error = Error::new(SqlState::NOT_NULL_VIOLATION, message);
    Err(table.named_in(error, Some(name), None))
}
