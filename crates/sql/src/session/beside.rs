//! Schema changes whose rows are gone over while others write: when writers are waited for, and when they are shut out.

use super::running::Part;
use super::schema::{SchemaChanging, have_to_itself};
use super::{Session, SessionContext};
use crate::catalog::{Catalog, RelationName};
use crate::databases::storage_of_table;
use crate::executor::{BesideWriters, ExecutionContext, SchemaRun, read_beside_writers};
use crate::partition::Partition;
use crate::schema_change::StorageWork;
use rubato_base::{TableId, TransactionId};
use rubato_protocol::{Outcome, Stop};

/// Who writes while a schema change goes over rows.
#[derive(Debug)]
pub(super) struct Beside {
    writers: BesideWriters,
    /// The tables that change, and the catalog that knows their storage.
    tables: Vec<RelationName>,
    before: Catalog,
    standing: Standing,
}

#[derive(Debug)]
enum Standing {
    /// Others write.
    Beside,
    /// Those who had begun to write when all was nearly done are waited for: nobody else has to wait because one of them takes long.
    Behind(Vec<TransactionId>),
    /// Nobody else writes.
    Alone,
}

/// What a slice came to.
enum Slice {
    Paused,
    Done,
}

impl Session {
    /// The storage that the works' rows are in, if they can be gone over while others write: it was there before the transaction, which has no
    /// pending changes in it.
    pub(super) fn read_beside_writers(
        &self,
        works: &[StorageWork],
        after: &Catalog,
        partition: &Partition,
    ) -> Option<Vec<TableId>> {
        let transaction = self.transaction.as_ref()?;
        let read = read_beside_writers(works, after)?;
        let own = transaction.catalog.as_ref().and(transaction.base_catalog.as_ref());
        let base = own.unwrap_or(self.committed(partition));
        let was_there = |table: &TableId| base.tables.values().any(|other| other.id == *table);
        let written = partition.database.written_tables(transaction.id);
        let is_left_alone = |table: &TableId| was_there(table) && !written.contains(table);
        read.iter().all(is_left_alone).then_some(read)
    }

    /// Begins to go over the rows of this storage.
    pub(super) fn begin_beside(
        &self,
        read: Vec<TableId>,
        (tables, before): (Vec<RelationName>, Catalog),
        partition: &mut Partition,
    ) -> Outcome<Beside> {
        Ok(Beside {
            writers: BesideWriters::begin(read, self.id, &mut partition.database)?,
            tables,
            before,
            standing: Standing::Beside,
        })
    }

    /// Goes over rows as long as others may write, and then over what is left, with the tables to itself. Gives the change back when that is done; whoever
    /// does not get it back comes again.
    pub(super) fn change_beside_writers(
        &mut self,
        mut changing: Box<SchemaChanging>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<Option<Box<SchemaChanging>>> {
        let Some(mut beside) = changing.beside.take() else {
            return Ok(Some(changing));
        };
        match self.go_on_beside(&mut beside, &mut changing, partition, context) {
            Ok(Slice::Done) => {
                beside.writers.end(&mut partition.database);
                Ok(Some(changing))
            }
            Ok(Slice::Paused) => {
                changing.beside = Some(beside);
                self.changing_schema = Some(changing);
                self.deadline_us = self.statement_deadline_us();
                Ok(None)
            }
            Err(Stop::Wait(wait)) => {
                changing.beside = Some(beside);
                self.changing_schema = Some(changing);
                Err(Stop::Wait(wait))
            }
            Err(stop) => {
                beside.writers.end(&mut partition.database);
                Err(stop)
            }
        }
    }

    fn go_on_beside(
        &mut self,
        beside: &mut Beside,
        changing: &mut SchemaChanging,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<Slice> {
        if !matches!(beside.standing, Standing::Alone) {
            let is_time = self.slice_beside(beside, changing, partition, context, BesideWriters::go_on)?;
            if !is_time {
                return Ok(Slice::Paused);
            }
            self.shut_out(beside, partition, context.now_us)?;
        }
        let is_done = self.slice_beside(beside, changing, partition, context, BesideWriters::finish)?;
        Ok(if is_done { Slice::Done } else { Slice::Paused })
    }

    fn slice_beside(
        &mut self,
        beside: &mut Beside,
        changing: &mut SchemaChanging,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        work: impl FnOnce(&mut BesideWriters, &mut SchemaRun, &mut ExecutionContext<'_>) -> Outcome<bool>,
    ) -> Outcome<bool> {
        let id = self.ensure_transaction(partition, false, context.now_us)?;
        let part = Part {
            transaction: id,
            catalog: &changing.after,
            parameters: &[],
            times_us: (context.now_us, (context.clock_us)()),
            limits: context.limits,
            analytics: None,
        };
        let (run, writers) = (&mut changing.run, &mut beside.writers);
        let outcome = self.run_slice(
            partition,
            part,
            context.clock_us,
            |done: &bool| !done,
            |execution| work(writers, run, execution),
        );
        // What its snapshots had shows in errors.
        self.raise_durable(partition.database.depends_on(beside.writers.reader()));
        self.facts
            .builds(changing.run.progress(&changing.after, &partition.database));
        outcome
    }

    /// Waits for those who write, and then has the tables to itself.
    fn shut_out(&mut self, beside: &mut Beside, partition: &mut Partition, now_us: i64) -> Outcome<()> {
        let id = self.ensure_transaction(partition, false, now_us)?;
        let storage = storage_of_tables(&beside.tables, &beside.before);
        if matches!(beside.standing, Standing::Beside) {
            beside.standing = Standing::Behind(partition.database.other_writers(id, &storage));
        }
        let table = storage.first().copied().unwrap_or(TableId(0));
        if let Standing::Behind(writers) = &beside.standing {
            for writer in writers {
                partition.database.wait_for(id, *writer, table)?;
            }
        }
        have_to_itself(
            &beside.tables,
            (self.identity.database_id, &beside.before),
            id,
            partition,
        )?;
        partition.database.define(id);
        partition.database.catch_up(id)?;
        beside.standing = Standing::Alone;
        Ok(())
    }

    /// Gives the schema change under way up.
    pub(super) fn give_up_schema_change(&mut self, partition: &mut Partition) {
        let given_up = self.changing_schema.take();
        if let Some(beside) = given_up.and_then(|changing| changing.beside) {
            beside.writers.end(&mut partition.database);
        }
    }
}

/// The storage of tables' rows and of their indexes.
pub(super) fn storage_of_tables(tables: &[RelationName], catalog: &Catalog) -> Vec<TableId> {
    let tables = tables.iter().filter_map(|name| catalog.tables.get(name));
    tables.flat_map(|table| storage_of_table(table)).collect()
}
