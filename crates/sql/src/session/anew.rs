//! Statements that change more rows than a transaction may have pending.
//!
//! Such an UPDATE, DELETE or INSERT ... SELECT takes back what it has done and begins anew, with its table to itself, as a schema change has it
//! that moves rows: readers go on, writers wait for the end of the transaction. An UPDATE or DELETE lays the rows in new storage as it
//! leaves them; an INSERT lays those that are there, and its own behind them (see `protocol/src/laying.rs`). What is laid is not pending,
//! and goes to the store while it is laid.
//!
//! Where the client cannot tell, the transaction begins anew with the statement, so that nothing is held while others are waited for. In a
//! grid it runs on the keeper from then on, as schema changes do. What is not carried out in this way comes to the limit (53200): statements
//! that give rows back or have FROM, USING or ON CONFLICT, that are followed by rows of other tables or checked later, that insert what they
//! read of their own table, or that have a savepoint before them.

use super::block::OpenTransaction;
use super::environment::handed_over;
use super::place::Place;
use super::schema::SchemaChanging;
use super::{Current, Next, Session, SessionContext};
use crate::catalog::{Catalog, Table};
use crate::client::Responder;
use crate::executor::{Completion, Cursor, StatementKind, may_lay_rows};
use crate::partition::Partition;
use crate::plan::{Access, InsertPlan, InsertSource, Plan, PlanBody, Relation};
use crate::route::KnownNeeds;
use crate::schema_change::{RowsChange, keys_to_verify};
use crate::statement::{AlterAction, RelationKind, SchemaChange, Statement};
use rubato_base::{Error, Result, SqlState};
use rubato_protocol::{Outcome, Stop};
use rubato_stages::StageKind;
use std::sync::Arc;

/// How a statement goes on whose changes take more memory than they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anew {
    /// Its table is to be laid anew.
    Table,
    /// Its table was laid anew, and the INSERT lays its rows there.
    Rows,
}

impl Session {
    /// Whether the current statement, which fails with this error or is held back with it, can begin anew.
    pub(super) fn may_go_anew(&self, error: &Error, is_held: bool, partition: &mut Partition) -> bool {
        let (Some(transaction), Some(current)) = (&self.transaction, &self.current) else {
            return false;
        };
        let Statement::Planned(plan) = &current.statement else {
            return false;
        };
        // It may be that what a query holds is too much, which would be so again; what is pending on other nodes they know.
        let is_over_nodes = || transaction.far.as_ref().is_some_and(|far| far.has_begun());
        let is_pending = match &plan.body {
            PlanBody::Insert(_) => is_held || is_over_nodes() || partition.database.is_nearly_full(transaction.id),
            _ => true,
        };
        error.code() == SqlState::OUT_OF_MEMORY && is_pending && self.can_go_anew(plan, partition)
    }

    /// Whether the current statement, which was not begun, changes all rows of a table, and these are certainly too many, so that it is to
    /// begin like that.
    pub(super) fn is_to_begin_anew(&self, plan: &Arc<Plan>, partition: &mut Partition) -> bool {
        let (target, filter) = match &plan.body {
            PlanBody::Update(update) => (&update.target, &update.filter),
            PlanBody::Delete(delete) => (&delete.target, &delete.filter),
            _ => return false,
        };
        let is_of_all = matches!(target.access, Access::Full { .. })
            && target.condition.is_none()
            && target.filter_after.is_none()
            && filter.is_none();
        let is_too_much = |table: &Arc<Table>| partition.database.has_too_many_rows(table.id);
        is_of_all && changed_table(plan).is_some_and(is_too_much) && self.can_go_anew(plan, partition)
    }

    fn can_go_anew(&self, plan: &Arc<Plan>, partition: &mut Partition) -> bool {
        let is_kept_back =
            |transaction: &OpenTransaction| transaction.has_ended() || !transaction.savepoints.is_empty();
        let is_first = |current: &Current| current.anew.is_none() && current.fetch.is_none();
        if self.transaction.as_ref().is_some_and(is_kept_back) || !self.current.as_ref().is_some_and(is_first) {
            return false;
        }
        let catalog = self.catalog(partition);
        let is_possible = match &plan.body {
            PlanBody::Insert(insert) => may_lay_rows(insert, plan),
            _ => keys_to_verify(plan, &catalog).is_some(),
        };
        is_possible && self.may_lay_table_anew(plan, &catalog, partition)
    }

    /// Whether nothing of the session, and nothing of the table, is in the way of laying it anew.
    fn may_lay_table_anew(&self, plan: &Arc<Plan>, catalog: &Catalog, partition: &Partition) -> bool {
        let Some(table) = changed_table(plan).and_then(|table| catalog.tables.get(&table.key())) else {
            return false;
        };
        let change = change_of(plan, table);
        partition.database.takes_rows()
            && self.refuse_tables_in_use(&change, catalog).is_ok()
            && self.refuse_pending_checks(&change, catalog).is_ok()
    }

    /// The current statement takes back what it has done, and begins anew.
    pub(super) fn go_anew(&mut self, error: Error, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        if let Some(current) = &mut self.current {
            current.anew = Some(Anew::Table);
        }
        if self.may_run_again() {
            return self.begin_again(error, partition, responder);
        }
        let savepoint = self.current.as_ref().and_then(|current| current.savepoint.clone());
        if let Some(savepoint) = savepoint {
            self.undo_to(&savepoint, partition);
        }
        if let Some(current) = &mut self.current {
            current.cursor = None;
        }
        Next::To(StageKind::Transaction)
    }

    /// Whether the table of the current statement is to be laid anew.
    pub(super) fn is_anew(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.anew == Some(Anew::Table))
    }

    /// Where the table of the current statement is laid anew: where schema changes are made.
    ///
    /// Errors: 40001 if whoever sent it here did not know yet that this node has handed over.
    pub(super) fn place_of_laying(&self, partition: &Partition) -> Result<Place> {
        let keeper = partition.grid.as_ref().and_then(|desk| desk.keeper());
        let elsewhere = keeper.filter(|_| partition.sequences.are_elsewhere);
        match (elsewhere, self.is_of_this_node()) {
            (None, _) => Ok(Place::Here),
            (Some(_), false) if self.is_hosted => Err(handed_over()),
            (Some(keeper), false) => Ok(Place::At(keeper)),
            (Some(keeper), true) => Ok(Place::Moves(keeper)),
        }
    }

    /// Lays the table of the current statement anew for a slice, and goes on with the statement when that is done.
    pub(super) fn lay_table_anew(
        &mut self,
        plan: &Arc<Plan>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        let changing = match self.changing_schema.take() {
            Some(changing) => changing,
            None => self.begin_to_lay_anew(plan, partition, context)?,
        };
        let Some(changing) = self.move_rows(changing, partition, context)? else {
            return Ok(Next::Yield);
        };
        let after = changing.run.completed(&changing.after);
        let rows = changing.run.changed_rows();
        let (derived, _) = changing.run.into_parts();
        if let Some(transaction) = &mut self.transaction {
            transaction.catalog = Some(Arc::clone(&after));
            transaction.derived.extend(derived);
        }
        let PlanBody::Insert(insert) = &plan.body else {
            let kind = StatementKind::of(&plan.body);
            return Ok(self.answered(Completion { kind, rows }.to_string(), partition, responder));
        };
        let table = after.tables.get(&insert.table.key());
        let (Some(table), Some(current)) = (table, &mut self.current) else {
            return Err(Stop::Fail(Error::internal("INSERT has lost its table")));
        };
        // With what a view asks of rows that come through it.
        let mut table = (**table).clone();
        table.checks.clone_from(&insert.table.checks);
        current.statement = Statement::Planned(Arc::new(insert_into(&Arc::new(table), insert.source.clone(), plan)));
        current.catalog_version = after.version;
        (current.anew, current.cursor) = (Some(Anew::Rows), None);
        // Its text does not say that its rows are laid.
        current.streamed = true;
        Ok(Next::To(StageKind::Transaction))
    }

    fn begin_to_lay_anew(
        &mut self,
        plan: &Arc<Plan>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<Box<SchemaChanging>> {
        let catalog = self.catalog(partition);
        let table = changed_table(plan).and_then(|table| catalog.tables.get(&table.key()));
        let table = table.ok_or_else(|| Error::internal("a statement has lost its table"))?;
        let change = change_of(plan, table);
        let mut changing = self.begin_to_lay(&change, partition, context.now_us)?;
        if let Some(current) = &mut self.current {
            let cursor = Box::new(Cursor::new(Arc::clone(plan)));
            changing.statement = Some((cursor, Arc::clone(&current.parameters)));
        }
        Ok(changing)
    }

    /// Begins a schema change that moves the rows of a table, and lays all of them in the store.
    ///
    /// Errors: as [`Session::begin_schema_change`].
    pub(super) fn begin_to_lay(
        &mut self,
        change: &SchemaChange,
        partition: &mut Partition,
        now_us: i64,
    ) -> Outcome<Box<SchemaChanging>> {
        let made = self.transaction.as_ref().map_or(0, |own| own.created_storage.len());
        let changing = Box::new(self.begin_schema_change((change, &[]), partition, now_us)?);
        let created = self.transaction.as_ref().map(|own| &own.created_storage[made..]);
        if !partition.database.lay_down(created.unwrap_or_default()) {
            return Err(Stop::Fail(Error::internal("rows cannot be laid in new storage")));
        }
        Ok(changing)
    }
}

/// The table whose rows the statement changes, if it is of a kind that can begin anew.
fn changed_table(plan: &Plan) -> Option<&Arc<Table>> {
    let target = match &plan.body {
        PlanBody::Insert(insert) => return Some(&insert.table),
        PlanBody::Update(update) => &update.target,
        PlanBody::Delete(delete) => &delete.target,
        _ => return None,
    };
    match &target.relation {
        Relation::Table(table) => Some(table),
        _ => None,
    }
}

/// What is done to the table before the statement goes on, or in its place.
fn change_of(plan: &Arc<Plan>, table: &Table) -> SchemaChange {
    SchemaChange::AlterTable {
        table: table.key(),
        if_exists: false,
        actions: vec![AlterAction::Change(RowsChange(Arc::clone(plan)))],
        kind: RelationKind::Table,
    }
}

/// The plan of an INSERT into a table as it is now, of rows of a query that was planned with `of`.
pub(super) fn insert_into(table: &Arc<Table>, source: InsertSource, of: &Plan) -> Plan {
    let mut table_versions = of.table_versions.clone();
    table_versions.retain(|(name, _)| *name != table.key());
    table_versions.push((table.key(), table.version));
    Plan {
        body: PlanBody::Insert(InsertPlan {
            table: Arc::clone(table),
            source,
            on_conflict: None,
            returning: None,
        }),
        parameter_types: of.parameter_types.clone(),
        output: Vec::new(),
        table_versions,
        path: Arc::clone(&of.path),
        read_only: false,
        asks_sizes: of.asks_sizes,
        pinned: of.pinned.clone(),
        subqueries: Arc::clone(&of.subqueries),
        needs: KnownNeeds::default(),
    }
}
