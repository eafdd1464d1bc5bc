//! Schema changes: a new catalog version that only this transaction sees until it commits.
//!
//! Whoever changes a table has it to himself for writing: others that write to it, or change it too, wait for the end of his
//! transaction, and he waits for those who have begun to write. Rows are moved in slices, meanwhile others read, and write
//! elsewhere. Two transactions that change different tables do not concern each other: their changes are put together.

use super::anew::insert_into;
use super::beside::{Beside, storage_of_tables};
use super::block::OpenTransaction;
use super::environment::handed_over;
use super::execute::is_current;
use super::running::Part;
use super::{Next, Session, SessionContext, ToBind};
use crate::catalog::{Catalog, RelationName, Spread, Table, redefined_storage};
use crate::client::Responder;
use crate::databases::{DatabaseId, Databases};
use crate::executor::{Cursor, SchemaRun, storage_of_rows};
use crate::far::stop_of;
use crate::outcomes::OutcomeRecord;
use crate::partition::{Attachment, Partition};
use crate::plan::{InsertSource, Plan};
use crate::schema_change::{Becomes, StorageWork, apply_deciding, changed_tables, merge};
use crate::statement::{CreateTableAs, SchemaChange, Statement};
use rubato_base::{Error, NodeId, Result, SqlState, TableId, TransactionId, Value};
use rubato_protocol::{FormulaDatabase, Outcome, Stop};
use rubato_stages::StageKind;
use std::sync::Arc;

/// Storage on several nodes with so many rows on this one is large: forcing the stores of all nodes costs less than pending rows do.
const SPREAD_ROWS_MIN: usize = 2048;

/// A schema change whose rows are being moved.
pub(super) struct SchemaChanging {
    pub(super) run: SchemaRun,
    /// As long as rows are gone over beside those who write.
    pub(super) beside: Option<Beside>,
    pub(super) after: Arc<Catalog>,
    /// The statement whose expressions say what becomes of rows, and its parameters.
    pub(super) statement: Option<(Box<Cursor>, Arc<[Value]>)>,
    pub(super) notices: Vec<Error>,
    pub(super) tag: &'static str,
    /// Whether there is anything to commit.
    pub(super) is_change: bool,
}

/// Whether a change lets go of rows: it is what makes room where memory and disk are full.
pub(super) fn lets_go(change: &SchemaChange) -> bool {
    matches!(
        change,
        SchemaChange::Truncate { .. } | SchemaChange::DropTable { .. } | SchemaChange::DropIndex { .. }
    )
}

impl Session {
    pub(super) fn change_schema(
        &mut self,
        change: &SchemaChange,
        create_as: Option<&CreateTableAs>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        let changing = match self.changing_schema.take() {
            Some(changing) => changing,
            // Others have changed what the rows come from while this one waited for them.
            None if create_as.is_some_and(|create| !self.is_bound_now(&create.source, partition)) => {
                self.to_bind = Some(ToBind::Again);
                return Ok(Next::To(StageKind::Optimizer));
            }
            // Or what the statement names: what there is to do for it was decided when it was bound.
            None if self.is_bound_otherwise(partition) => {
                self.to_bind = Some(ToBind::Again);
                return Ok(Next::To(StageKind::Optimizer));
            }
            None => {
                let closes = self.sources_to_close(create_as);
                Box::new(self.begin_schema_change((change, &closes), partition, context.now_us)?)
            }
        };
        let Some(changing) = self.change_beside_writers(changing, partition, context)? else {
            return Ok(Next::Yield);
        };
        let Some(changing) = self.move_rows(changing, partition, context)? else {
            return Ok(Next::Yield);
        };
        let after = changing.run.completed(&changing.after);
        let (derived, searched) = changing.run.into_parts();
        self.note_searched(change, searched, &after, partition);
        if changing.is_change
            && let Some(transaction) = &mut self.transaction
        {
            transaction.catalog = Some(after);
            transaction.derived.extend(derived);
        }
        for notice in &changing.notices {
            self.tell("NOTICE", notice, responder);
        }
        match create_as {
            None => Ok(self.answered(changing.tag.to_owned(), partition, responder)),
            Some(create) if create.with_data && changing.is_change => Ok(self.fill_created(create, partition)?),
            Some(create) => Ok(self.answered(create.tag.to_owned(), partition, responder)),
        }
    }

    /// Moves rows for a slice; gives the change back when all of them have been moved.
    pub(super) fn move_rows(
        &mut self,
        mut changing: Box<SchemaChanging>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<Option<Box<SchemaChanging>>> {
        let id = self.ensure_transaction(partition, false, context.now_us)?;
        let after = Arc::clone(&changing.after);
        let mut times_us = (context.now_us, (context.clock_us)());
        let run = &mut changing.run;
        let mut statement = changing.statement.as_mut();
        let parameters = statement.as_ref().map(|(_, parameters)| Arc::clone(parameters));
        if let (Some(_), Some(current)) = (&parameters, &self.current) {
            times_us = (current.started_us, current.started_us);
        }
        let part = Part {
            transaction: id,
            catalog: &after,
            parameters: parameters.as_deref().unwrap_or_default(),
            times_us,
            limits: context.limits,
            analytics: None,
        };
        let is_paused = |done: &bool| !done;
        let outcome = self.run_slice(
            partition,
            part,
            context.clock_us,
            is_paused,
            |execution| match &mut statement {
                None => run.run(execution),
                Some((cursor, _)) => cursor.with_known(execution, |execution| run.run(execution)),
            },
        );
        self.facts.builds(changing.run.progress(&after, &partition.database));
        if matches!(outcome, Err(Stop::Wait(_))) {
            self.changing_schema = Some(changing);
            outcome?;
            return Ok(None);
        }
        if !outcome? {
            self.changing_schema = Some(changing);
            self.deadline_us = self.statement_deadline_us();
            return Ok(None);
        }
        Ok(Some(changing))
    }

    /// Whether the statement was bound to another version of the catalog than there is by now.
    fn is_bound_otherwise(&self, partition: &Partition) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.catalog_version != self.catalog(partition).version)
    }

    fn is_bound_now(&mut self, plan: &Plan, partition: &Partition) -> bool {
        let catalog = self.catalog(partition);
        let path = self.path_in(&catalog);
        is_current(plan, &catalog, &path.searched)
    }

    /// What a statement that makes a table of rows reads, if others have changed that before it could commit: nobody else writes there while it
    /// is run again, or it might never come to its end beside them.
    fn sources_to_close(&self, create_as: Option<&CreateTableAs>) -> Vec<RelationName> {
        let source = create_as.filter(|_| self.retries > 0).map(|create| &create.source);
        let read = source.into_iter().flat_map(|source| &source.table_versions);
        let shared = read.filter(|(name, _)| !name.schema.is_temporary());
        shared.map(|(name, _)| name.clone()).collect()
    }

    /// CREATE TABLE AS goes on as the INSERT of its rows.
    fn fill_created(&mut self, create: &CreateTableAs, partition: &Partition) -> Result<Next> {
        let catalog = self.catalog(partition);
        // What was made may have added the session's own schema to the path.
        let path = Arc::clone(&self.path_in(&catalog).searched);
        let lost = || Error::internal("CREATE TABLE AS has lost its table");
        let table = catalog.tables.get(&create.name).ok_or_else(lost)?;
        let current = self.current.as_mut().ok_or_else(lost)?;
        let source = InsertSource::Rows(Arc::clone(&create.source));
        let filling = Statement::Planned(Arc::new(Plan {
            path,
            pinned: Vec::new(),
            ..insert_into(table, source, &create.source)
        }));
        current.making = Some(std::mem::replace(&mut current.statement, filling));
        current.catalog_version = catalog.version;
        current.told_tag = matches!(create.change, SchemaChange::Refresh { .. }).then_some(create.tag);
        current.streamed = true;
        Ok(Next::To(StageKind::Transaction))
    }

    /// Makes the next version of the catalog and new storage, when nobody else is at the tables any more, nor writes to those that it closes
    /// besides.
    pub(super) fn begin_schema_change(
        &mut self,
        (change, closes): (&SchemaChange, &[RelationName]),
        partition: &mut Partition,
        now_us: i64,
    ) -> Outcome<SchemaChanging> {
        if self.is_read_only() {
            let message = "cannot change the schema in a read-only transaction";
            return Err(Stop::Fail(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message)));
        }
        match lets_go(change) {
            true => partition.admit_letting_go()?,
            false => partition.admit_write()?,
        }
        let id = self.ensure_transaction(partition, false, now_us)?;
        self.replay.forget();
        self.hear_others(partition);
        if let Some(why) = self.transaction.as_ref().and_then(|open| open.why_ended()) {
            return Err(stop_of(why));
        }
        partition.database.catch_up(id)?;
        let newest = self.committed(partition).version;
        if let Some(transaction) = &mut self.transaction {
            transaction.seen_version = newest;
        }
        let mut before = (*self.catalog(partition)).clone();
        // Ids that other transactions have taken meanwhile are never given again.
        before.next_id = before.next_id.max(partition.next_storage_id).max(1);
        let before_version = before.version;
        let stepped = self.resolved_step(change, &before, partition)?;
        let change = stepped.as_ref().unwrap_or(change);
        let path = self.path_in(&before);
        let mut decide = |plan: &Arc<Plan>, catalog: &Catalog| self.holds((plan, catalog), id, partition);
        let mut applied = apply_deciding(&path, &before, change, &mut decide)?;
        if let Some(desk) = &partition.grid {
            spread_tables(&before, &mut applied.catalog, &desk.members());
        }
        check_last_number(change, &before, partition)?;
        self.refuse_tables_in_use(change, &before)?;
        self.refuse_pending_checks(change, &before)?;
        for carried in &applied.carried {
            super::moves::refuse_step(carried)?;
            self.refuse_tables_in_use(carried, &before)?;
            self.refuse_pending_checks(carried, &before)?;
        }
        let tables = changed_tables(&before, &applied.catalog);
        self.lock_changed(change, (&tables, &before), partition)?;
        // Nobody else reads what is the session's own.
        if tables.is_empty() || tables.iter().any(|name| !name.schema.is_temporary()) {
            partition.database.define(id);
        }
        let known = closes.iter().filter(|name| before.tables.contains_key(name));
        let closed: Vec<RelationName> = tables.iter().chain(known).cloned().collect();
        let own = (self.identity.database_id, &before);
        // Who reads beside writers begins anew again and again: in a grid each time would need a tick.
        let read_beside = match partition.grid {
            None => self.read_beside_writers(&applied.work, &applied.catalog, partition),
            Some(_) => None,
        };
        match read_beside {
            Some(_) => wait_for_changes(&closed, own, id, partition)?,
            None => have_to_itself(&closed, own, id, partition)?,
        }
        self.close_elsewhere(&closed, &before, partition)?;
        let is_change = applied.catalog.version != before_version;
        let after = self.own_version(&before, applied.catalog, &applied.work, partition);
        let beside = match read_beside {
            Some(read) => Some(self.begin_beside(read, (tables, before), partition)?),
            None => None,
        };
        Ok(SchemaChanging {
            run: SchemaRun::new(applied.work),
            beside,
            after,
            statement: None,
            notices: applied.notices,
            tag: applied.tag,
            is_change,
        })
    }

    /// The transaction's own next version of the catalog, with the storage that it needs.
    pub(super) fn own_version(
        &mut self,
        before: &Catalog,
        mut after: Catalog,
        works: &[StorageWork],
        partition: &mut Partition,
    ) -> Arc<Catalog> {
        partition.next_storage_id = partition.next_storage_id.max(after.next_id);
        if after.version != before.version {
            renumber(before, &mut after, u64::from(partition.take_storage_id()));
            after.next_id = after.next_id.max(partition.next_storage_id);
        }
        let committed = Arc::clone(self.committed(partition));
        let after = Arc::new(after);
        if let Some(transaction) = &mut self.transaction {
            // What others have committed since an earlier change that changed nothing, or was rolled back to a savepoint, is not this one's.
            match transaction.catalog {
                Some(_) => drop(transaction.base_catalog.get_or_insert(committed)),
                None => transaction.base_catalog = Some(committed),
            }
            transaction.placed_by = transaction.catalog.iter().chain([&after]).cloned().collect();
        }
        self.see_whereabouts(partition);
        for work in works {
            self.note_storage(work, works, partition, &after);
        }
        after
    }

    /// Storage is made at once, where nobody else finds it, and dropped when the transaction has ended one way or the other.
    pub(super) fn note_storage(
        &mut self,
        work: &StorageWork,
        works: &[StorageWork],
        partition: &mut Partition,
        after: &Catalog,
    ) {
        let is_on_others = |storage: TableId| self.is_on_others(storage);
        let created = match work {
            StorageWork::Create { storage } => Some(*storage).filter(|storage| is_on_others(*storage)),
            _ => None,
        };
        let is_here = |source: &TableId| created.is_none() && !is_on_others(*source);
        let source = match work {
            StorageWork::Create { storage } => source_of(*storage, works, after),
            _ => None,
        };
        let is_spread_and_large = source.is_some_and(|source| {
            let is_to_be_laid =
                || converts_rows(works) || self.is_large(source, had_key(source, works, after), partition);
            !is_here(&source) && is_to_be_laid()
        });
        let is_laid_here = source.as_ref().is_some_and(is_here);
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        if let (Some(far), Some(storage)) = (&mut transaction.far, created) {
            far.create(storage);
        }
        match work {
            StorageWork::Create { storage } => {
                partition.database.create_private_table(*storage);
                match source {
                    Some(source) if is_left_alone(source, transaction, partition) => {
                        let goes_down = is_laid_here && converts_rows(works);
                        if goes_down || is_spread_and_large {
                            // Recovery does not know what the rows became: they go to the store, or are logged like others.
                            partition.database.lay_down(&[*storage]);
                        } else if is_laid_here && was_there(source, transaction) {
                            partition.database.lay_out(*storage, source);
                        } else if is_laid_here && partition.database.is_laid_down(source) {
                            partition.database.lay_down(&[*storage]);
                        }
                    }
                    _ => {}
                }
                transaction.created_storage.push(*storage);
            }
            StorageWork::Drop { storage } => transaction.dropped_storage.push(*storage),
            StorageWork::SetMissing { table, .. } => {
                let table = after.tables.get(table);
                let storage = table.map(|table| storage_of_rows(table, works));
                transaction.lengthened.extend(storage);
            }
            StorageWork::StartSequence { name, next } => {
                if let Some(sequence) = after.sequences.get(name) {
                    partition.sequences.begin(sequence, *next);
                }
            }
            _ => {}
        }
    }

    /// Whether storage that lies on several nodes may have so many rows that what is made of them is not to be pending: more than a
    /// few are on this node, some have left its memory, or it has none of them and does not know. Rows without a key lie on the nodes
    /// that have made them, however many these are.
    fn is_large(&self, storage: TableId, has_key: bool, partition: &Partition) -> bool {
        let far = self.transaction.as_ref().and_then(|open| open.far.as_ref());
        let is_here = far.is_none_or(|far| far.whereabouts().holders(storage).contains(&None));
        let (rows, are_all) = partition.database.rows_in_memory(storage);
        !is_here || !are_all || !has_key || rows >= SPREAD_ROWS_MIN
    }

    /// The new catalog for the log, if the transaction changed the schema; 40001 if somebody else changed the same, or a table
    /// that this transaction wrote to.
    pub(super) fn checked_catalog(
        &self,
        transaction: &OpenTransaction,
        partition: &mut Partition,
    ) -> Result<Option<Arc<Catalog>>> {
        let changed = schema_changed;
        let own = transaction.catalog.as_ref().zip(transaction.base_catalog.as_ref());
        let committed = Arc::clone(self.committed(partition));
        if committed.version != transaction.base_version {
            for (name, version) in &transaction.written_versions {
                let is_own = own.is_some_and(|(own, base)| differs(name, base, own));
                if !is_own && committed.tables.get(name).map(|table| table.version) != Some(*version) {
                    return Err(changed(name));
                }
            }
        }
        self.check_viewed(transaction, partition)?;
        match own {
            None => Ok(None),
            Some((own, base)) if Arc::ptr_eq(base, &committed) => Ok(Some(Arc::clone(own))),
            Some((own, base)) => {
                let mut merged = merge(base, own, &committed).map_err(|name| changed(&name))?;
                // What has changed is newer than all who have begun meanwhile by the catalog of others: they tell by that what they have not seen.
                renumber(&committed, &mut merged, u64::from(partition.take_storage_id()));
                merged.next_id = merged.next_id.max(partition.next_storage_id);
                Ok(Some(Arc::new(merged)))
            }
        }
    }

    /// The transaction has committed: everybody sees its catalog from now on.
    pub(super) fn install_catalog(&mut self, catalog: Option<Arc<Catalog>>, partition: &mut Partition) {
        let (Some(catalog), Some(transaction)) = (catalog, &mut self.transaction) else {
            return;
        };
        note_changed_tables(&transaction.base_catalog, &catalog, partition);
        partition.set_catalog(self.identity.database_id, catalog);
        for storage in &transaction.created_storage {
            partition.database.publish_table(*storage);
        }
        partition.drop_storage(transaction.dropped_storage.drain(..));
    }
}

/// 40001 for whoever has read or written what others have changed the definition of.
pub(super) fn schema_changed(what: &RelationName) -> Error {
    let message = "the schema was changed by another transaction";
    Error::serialization(message, format!("table \"{what}\""))
}

/// Errors: 40001 for a schema change that has begun here, where the catalogs are not changed any more.
pub(super) fn check_changes_here(transaction: &OpenTransaction, partition: &Partition) -> Result<()> {
    match transaction.base_catalog.is_some() && partition.sequences.are_elsewhere {
        true => Err(handed_over()),
        false => Ok(()),
    }
}

/// Whoever has read tables as they were stands before this commit (rule R-8). In a grid: whoever has begun on another node may know them so, and is
/// not to read or write them like that any more.
fn note_changed_tables(before: &Option<Arc<Catalog>>, after: &Catalog, partition: &mut Partition) {
    let Some(before) = before else {
        return;
    };
    let last_tick = partition.grid.as_ref().and_then(|desk| desk.last_tick());
    let place = partition.database.newest_place();
    for storage in redefined_storage(before, after) {
        let until = last_tick.unwrap_or_default();
        partition.database.note_redefined(storage, place, until);
    }
    let Some(last_tick) = last_tick else {
        return;
    };
    let is_same = |table: &Arc<Table>| {
        before
            .tables
            .get(&table.key())
            .is_some_and(|former| Arc::ptr_eq(former, table))
    };
    for table in after.tables.values().filter(|table| !is_same(table)) {
        partition.database.note_definition_changed(table.id, last_tick);
    }
}

/// What the log is told of a new catalog, and of an id that the client has asked for.
pub(super) fn attachment_of(
    (database, catalog): (DatabaseId, Option<&Catalog>),
    databases: Option<&Databases>,
    outcomes: Option<OutcomeRecord>,
    transaction: &OpenTransaction,
) -> Vec<u8> {
    let has = |storage: TableId| {
        let mut tables = catalog.iter().flat_map(|catalog| catalog.tables.values());
        tables.any(|table| table.id == storage || table.indexes.iter().any(|index| index.id == storage))
    };
    let derived = transaction.derived.iter().copied();
    Attachment {
        catalogs: catalog.map(|catalog| (database, catalog.clone())).into_iter().collect(),
        databases: databases.map(Databases::facts),
        outcomes,
        derived: derived.filter(|derived| has(derived.to)).collect(),
        ..Attachment::default()
    }
    .encode()
}

/// A transaction that gave these tables columns has taken that back: their rows lack what this catalog says.
pub(super) fn take_tails_back(lengthened: &[TableId], catalog: &Catalog, database: &mut FormulaDatabase) {
    for storage in lengthened {
        let name = catalog.table_names.get(storage);
        if let Some(table) = name.and_then(|name| catalog.tables.get(name)) {
            database.set_tail(*storage, table.tail());
        }
    }
}

fn differs(name: &RelationName, before: &Catalog, after: &Catalog) -> bool {
    match (before.tables.get(name), after.tables.get(name)) {
        (Some(before), Some(after)) => !Arc::ptr_eq(before, after),
        _ => true,
    }
}

/// Waits for others that change these tables; whoever comes to change them from now on waits for this one.
fn wait_for_changes(
    tables: &[RelationName],
    (database, before): (DatabaseId, &Catalog),
    id: TransactionId,
    partition: &mut Partition,
) -> Outcome<()> {
    let mut owners = tables
        .iter()
        .filter_map(|name| partition.schema_changes.owner(database, name, id));
    if let Some(owner) = owners.next() {
        let table = storage_of_tables(tables, before).first().copied();
        return partition.database.wait_for(id, owner, table.unwrap_or(TableId(0)));
    }
    partition.schema_changes.begin(database, tables, id);
    Ok(())
}

/// Waits for others that change these tables, and then for those who have begun to write to them; whoever comes to write from
/// now on waits for this one.
pub(super) fn have_to_itself(
    tables: &[RelationName],
    (database, before): (DatabaseId, &Catalog),
    id: TransactionId,
    partition: &mut Partition,
) -> Outcome<()> {
    wait_for_changes(tables, (database, before), id, partition)?;
    let storage = storage_of_tables(tables, before);
    partition.database.close_tables(id, &storage)
}

/// 22023: a sequence's last number lies within its limits.
fn check_last_number(change: &SchemaChange, before: &Catalog, partition: &Partition) -> Result<()> {
    let SchemaChange::AlterSequence {
        sequence: Some(sequence),
        restart: None,
        ..
    } = change
    else {
        return Ok(());
    };
    let Some(former) = before.sequences.get(&sequence.key()) else {
        return Ok(());
    };
    let (last, _) = partition.sequences.state(former);
    let (side, limit) = match last {
        last if last > sequence.maximum => ("greater than MAXVALUE", sequence.maximum),
        last if last < sequence.minimum => ("less than MINVALUE", sequence.minimum),
        _ => return Ok(()),
    };
    let message = format!("RESTART value ({last}) cannot be {side} ({limit})");
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// Whether the rows that new storage is filled from have a primary key.
fn had_key(source: TableId, works: &[StorageWork], after: &Catalog) -> bool {
    let rewritten = works.iter().find_map(|work| match work {
        StorageWork::Rewrite { from, old_key, .. } if *from == source => Some(!old_key.is_empty()),
        _ => None,
    });
    let kept = || after.table_names.get(&source).and_then(|name| after.tables.get(name));
    rewritten.unwrap_or_else(|| kept().is_none_or(|table| !table.primary_key.is_empty()))
}

/// What new storage is filled from, if it is filled from other storage.
fn source_of(storage: TableId, works: &[StorageWork], after: &Catalog) -> Option<TableId> {
    let rewritten_from = |name: &RelationName| {
        works.iter().find_map(|work| match work {
            StorageWork::Rewrite { table, from, .. } if table == name => Some(*from),
            _ => None,
        })
    };
    works.iter().find_map(|work| match work {
        StorageWork::Rewrite { table, from, .. } if after.tables.get(table)?.id == storage => Some(*from),
        StorageWork::FillIndex { table, index } if after.tables.get(table)?.indexes.get(*index)?.id == storage => {
            rewritten_from(table).or(Some(after.tables.get(table)?.id))
        }
        _ => None,
    })
}

/// Whether rows can be laid out of the source: none of them is pending.
fn is_left_alone(source: TableId, transaction: &OpenTransaction, partition: &Partition) -> bool {
    !partition.database.written_tables(transaction.id).contains(&source)
}

/// Whether rows that are laid out anew get other values.
fn converts_rows(works: &[StorageWork]) -> bool {
    let converts =
        |work: &StorageWork| matches!(work, StorageWork::Rewrite { becomes, .. } if *becomes != Becomes::Same);
    works.iter().any(converts)
}

/// Whether the source was there before this transaction, so that recovery can lay rows out of it again.
fn was_there(source: TableId, transaction: &OpenTransaction) -> bool {
    let base = transaction.base_catalog.iter();
    base.flat_map(|base| base.tables.values())
        .any(|table| table.id == source)
}

/// Gives the new catalog and every table that it changed a version that no other catalog has, not even one that was rolled back:
/// plans are told apart by it.
fn renumber(before: &Catalog, after: &mut Catalog, version: u64) {
    after.version = version;
    for (name, table) in &mut after.tables {
        if !before.tables.get(name).is_some_and(|old| Arc::ptr_eq(old, table)) {
            Arc::make_mut(table).version = version;
        }
    }
    for (name, view) in &mut after.views {
        if !before.views.get(name).is_some_and(|old| Arc::ptr_eq(old, view)) {
            Arc::make_mut(view).version = version;
        }
    }
}

/// Gives the nodes of a grid to tables that are to be spread over them and have no rows yet, or get new storage for all of them.
fn spread_tables(before: &Catalog, after: &mut Catalog, members: &[NodeId]) {
    if members.len() < 2 {
        return;
    }
    let turns = super::moves::turns_of_others(before, members).unwrap_or_default();
    for table in after.tables.values_mut() {
        let is_new = |spread: &&Spread| spread.nodes.is_empty() || spread.is_moving();
        if table.spread.as_ref().filter(is_new).is_none() || before.table_names.contains_key(&table.id) {
            continue;
        }
        if let Some(spread) = &mut Arc::make_mut(table).spread {
            if spread.nodes.is_empty() {
                (spread.nodes, spread.turns) = (members.to_vec(), turns.clone());
            }
            // All of its rows are made where they come to be: the move has ended.
            (spread.former, spread.takes_new) = (Vec::new(), false);
        }
    }
}
