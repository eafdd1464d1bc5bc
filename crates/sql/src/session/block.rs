//! Transactions of a session: blocks, savepoints, commit and rollback.

use super::everywhere::tell_tails;
use super::schema::check_changes_here;
use super::schema::{attachment_of, take_tails_back};
use super::{Block, Next, Session};
use crate::catalog::{Catalog, RelationName};
use crate::client::Responder;
use crate::databases::DatabaseFacts;
use crate::executor::{DeferredChecks, DeferredMark};
use crate::far::{FarRows, Mark, Rows};
use crate::partition::{Derived, Partition};
use crate::plan::Plan;
use crate::statement::{Statement, Utility};
use rubato_base::{Error, Lsn, Result, SqlState, TableId, TransactionId};
use rubato_protocol::{BeginOptions, Outcome, Stop, Wait, WaitReason};
use rubato_stages::StageKind;
use std::sync::Arc;

/// Savepoints that one transaction may hold.
const SAVEPOINTS_MAX: usize = 10_000;

/// What a statement says that cannot begin yet: nobody in particular has to end first.
const FOR_A_TICK: Wait = Wait {
    owner: TransactionId(0),
    table: TableId(0),
    reason: WaitReason::Tick,
};

/// The transaction that is open.
pub(super) struct OpenTransaction {
    pub(super) id: TransactionId,
    pub(super) started_us: i64,
    /// The catalog with this transaction's own schema changes, if it made any.
    pub(super) catalog: Option<Arc<Catalog>>,
    /// The committed catalog version that it started from.
    pub(super) base_version: u64,
    /// The committed catalog version that its snapshot has.
    pub(super) seen_version: u64,
    /// The committed catalog that its own one was made of.
    pub(super) base_catalog: Option<Arc<Catalog>>,
    /// The database that it makes.
    pub(super) new_database: Option<NewDatabase>,
    /// Storage that it has laid out of other storage.
    pub(super) derived: Vec<Derived>,
    pub(super) savepoints: Vec<NamedSavepoint>,
    /// Tables written, with the version that the statement was planned for.
    pub(super) written_versions: Vec<(RelationName, u64)>,
    /// In a grid: what it has run, each once, as far as that is kept.
    pub(super) used_plans: Vec<Arc<Plan>>,
    /// Views that were read, with the versions that they had.
    pub(super) viewed_versions: Vec<(RelationName, u64)>,
    /// Storage that only this transaction knows: dropped if it is rolled back.
    pub(super) created_storage: Vec<TableId>,
    /// Storage that nobody needs after it has committed.
    pub(super) dropped_storage: Vec<TableId>,
    /// Storage whose rows lack columns that it has added.
    pub(super) lengthened: Vec<TableId>,
    /// Checks of deferrable constraints that it has put off.
    pub(super) deferred: DeferredChecks,
    /// Its rows on other nodes, if any rows are there.
    pub(super) far: Option<Box<FarRows>>,
    /// It has begun at a tick of a grid, and may have rows on other nodes.
    pub(super) has_tick: bool,
    /// What has come of them is to be committed by all nodes together, and has been asked for.
    pub(super) commits_far: bool,
    /// By which catalogs of its own its rows lie: rows of a former one may be on their way to where the last one has them.
    pub(super) placed_by: Vec<Arc<Catalog>>,
    /// What all nodes are to know of its schema changes before they commit it, ...
    pub(super) attachment: Option<Vec<u8>>,
    /// ... and whether they do: what it did beside rows is not for this session to take back.
    pub(super) is_attached: bool,
}

/// A database that is made of another one.
pub(super) struct NewDatabase {
    pub(super) facts: DatabaseFacts,
    pub(super) catalog: Arc<Catalog>,
}

/// A savepoint.
pub(super) struct NamedSavepoint {
    name: String,
    savepoint: Mark,
    catalog: Option<Arc<Catalog>>,
    dropped_storage: usize,
    written_versions: usize,
    derived: usize,
    deferred: DeferredMark,
    channels: usize,
    pub(super) session: SessionMark,
}

/// What a savepoint marks of the session, which is not undone where a block is run again.
#[derive(Clone, Copy)]
pub(super) struct SessionMark {
    advisory: u64,
    settings: usize,
    portals: u64,
    read_only: Option<bool>,
}

impl Session {
    /// The transaction that the current statement runs in, begun if there is none. In a grid it waits until it may begin: nothing
    /// may have been done before that cannot be done again.
    pub(super) fn ensure_transaction(
        &mut self,
        partition: &mut Partition,
        read_only: bool,
        now_us: i64,
    ) -> Outcome<TransactionId> {
        if let Some(transaction) = &self.transaction {
            let id = transaction.id;
            self.see_whereabouts(partition);
            return Ok(id);
        }
        let options = BeginOptions {
            session: self.id,
            read_only: read_only || (self.is_read_only() && !self.has_temporary(partition)),
        };
        let id = match partition.grid.clone() {
            None => partition.database.begin(options),
            Some(desk) => {
                let mut tick = desk.take_tick(self.id, &mut self.tick_ticket)?;
                // It has waited for so long that nothing is kept for it (rules F-6 and F-7).
                if tick.is_some_and(|tick| !partition.database.may_come(tick)) {
                    tick = desk.take_tick(self.id, &mut self.tick_ticket)?;
                }
                partition
                    .database
                    .begin_at(tick.ok_or(Stop::Wait(FOR_A_TICK))?, options)
            }
        };
        self.open_transaction(id, partition.grid.is_some(), partition, now_us);
        self.see_whereabouts(partition);
        Ok(id)
    }

    /// As [`Session::ensure_transaction`], for what no other session ever sees, or what sees no row: it needs no tick of the grid.
    pub(super) fn ensure_private_transaction(&mut self, partition: &mut Partition, now_us: i64) -> TransactionId {
        if let Some(transaction) = &self.transaction {
            return transaction.id;
        }
        let options = BeginOptions {
            session: self.id,
            read_only: false,
        };
        let id = match &partition.grid {
            None => partition.database.begin(options),
            Some(_) => partition.database.begin_private(options),
        };
        self.open_transaction(id, false, partition, now_us);
        id
    }

    fn open_transaction(&mut self, id: TransactionId, has_tick: bool, partition: &Partition, now_us: i64) {
        let version = self.committed(partition).version;
        self.tick_ticket = None;
        self.transaction = Some(OpenTransaction {
            id,
            started_us: self.began_us.take().unwrap_or(now_us),
            catalog: None,
            base_version: version,
            seen_version: version,
            base_catalog: None,
            new_database: None,
            derived: Vec::new(),
            savepoints: Vec::new(),
            written_versions: Vec::new(),
            used_plans: Vec::new(),
            viewed_versions: Vec::new(),
            created_storage: Vec::new(),
            dropped_storage: Vec::new(),
            lengthened: Vec::new(),
            deferred: DeferredChecks::default(),
            far: None,
            has_tick,
            commits_far: false,
            placed_by: Vec::new(),
            attachment: None,
            is_attached: false,
        });
    }

    pub(super) fn transaction_time_us(&self, now_us: i64) -> i64 {
        self.transaction
            .as_ref()
            .map_or(now_us, |transaction| transaction.started_us)
    }

    /// Commits the open transaction, if there is one. `Some` means that it has to wait; call again when woken. An error has
    /// not yet rolled it back.
    pub(super) fn commit_now(
        &mut self,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Result<Option<Next>> {
        if !self.commits_far() && !self.awaits_other() {
            let own = self.identity.database_id;
            partition.channels.check_room(own, self.channels.actions())?;
        }
        if let Some(next) = self.commit_away(partition)? {
            return Ok(Some(next));
        }
        if !self.commits_far() {
            if let Some(lsn) = partition.log_sequences()? {
                self.raise_durable(lsn);
            }
            match self.check_outstanding(partition) {
                Ok(()) => {}
                Err(Stop::Wait(wait)) => return Ok(Some(self.commit_waits(&wait))),
                Err(Stop::Abort(error) | Stop::Fail(error)) => return Err(error),
            }
            self.end_temporary(partition)?;
        }
        if self.transaction.is_none() {
            self.tell_channels(partition);
            self.end_transaction_locks(partition);
            self.end_block(true, responder);
            return Ok(None);
        }
        let outcome = match self.is_over_several_nodes() {
            true => self.commit_on_all_nodes(partition),
            false => self.commit_here(partition),
        };
        match outcome {
            Ok(()) => {
                self.tell_channels(partition);
                self.conflicts = self.conflicts.saturating_sub(1);
                self.commit_waits_since_us = None;
                self.deadline_us = None;
                self.end_transaction_locks(partition);
                self.end_block(true, responder);
                Ok(None)
            }
            Err(Stop::Wait(wait)) => Ok(Some(self.commit_waits(&wait))),
            Err(Stop::Abort(error) | Stop::Fail(error)) => Err(error),
        }
    }

    /// Commits what is on this node alone, its schema changes too.
    fn commit_here(&mut self, partition: &mut Partition) -> Outcome<()> {
        let Some(transaction) = &self.transaction else {
            return Ok(());
        };
        let own = self.identity.database_id;
        check_changes_here(transaction, partition)?;
        if transaction.base_catalog.is_some()
            && let Some(owner) = partition.schema_changes.other_committing(transaction.id)
        {
            partition.database.wait_for(transaction.id, owner, TableId(0))?;
        }
        let catalog = self.checked_catalog(transaction, partition)?;
        let new_database = transaction.new_database.as_ref();
        let databases = new_database.map(|new| partition.databases.with_new(&new.facts, &new.catalog));
        let databases = databases.transpose()?;
        let outcomes = self.asked_id.map(|id| partition.sequences.outcomes.record_of(id));
        let told = new_database.map(|new| (new.facts.id, Some(&*new.catalog)));
        let told = told.unwrap_or((own, catalog.as_deref()));
        let attachment = (told.1.is_some() || outcomes.is_some())
            .then(|| attachment_of(told, databases.as_ref(), outcomes, transaction));
        let (id, changes_schema) = (transaction.id, transaction.base_catalog.is_some());
        let Partition { database, log, .. } = partition;
        let committed = database.commit(id, attachment.as_deref(), &mut **log)?;
        self.raise_durable(committed.durable_at);
        if let Some(asked) = self.asked_id.take() {
            partition.sequences.outcomes.commit(asked, committed.durable_at);
        }
        self.install_catalog(catalog, partition);
        self.install_new_database(databases, partition);
        partition.drop_storage([]);
        self.transaction = None;
        if changes_schema {
            partition.schema_changes.end(id);
        }
        Ok(())
    }

    fn commit_waits(&mut self, wait: &Wait) -> Next {
        let stage = self.commit_stage();
        if stage == StageKind::Parser {
            self.commit_waits_since_us.get_or_insert(self.now_us);
        }
        self.wait_until(wait);
        Next::Park(stage)
    }

    /// A commit at the end of a script or at Sync goes on at the parser stage, that of a statement at the transaction stage.
    pub(super) fn commit_stage(&self) -> StageKind {
        if self.current.is_some() {
            StageKind::Transaction
        } else {
            StageKind::Parser
        }
    }

    /// Rolls the open transaction back, if there is one: its id, if it was asked for one, is that of an aborted transaction.
    pub(super) fn roll_back(&mut self, partition: &mut Partition) {
        // What all nodes are committing may have committed: its branch says how that ends.
        let outcomes = &mut partition.sequences.outcomes;
        match (self.asked_id.take(), self.commits_far()) {
            (Some(id), true) => outcomes.leave(id),
            (Some(id), false) => outcomes.abort(id),
            (None, _) => {}
        }
        self.undo(partition);
        self.roll_back_away(partition);
        self.end_transaction_locks(partition);
        self.began_us = None;
    }

    /// The transaction that begins next has begun for its client before, on another node: that is its time.
    pub fn begins_as_of(&mut self, began_us: Option<i64>) {
        self.began_us = began_us.or(self.began_us);
    }

    /// In a grid: a statement that depends on no row has ended, and the block has done nothing else. Its transaction begins anew with the
    /// next one, at a tick of that time, as the snapshot of a node alone moves up to what is read: whoever has waited for an advisory lock
    /// sees what was done under it.
    pub(super) fn begin_later(&mut self, partition: &mut Partition) {
        let is_unused = |open: &&OpenTransaction| open.has_tick && open.catalog.is_none() && !open.is_attached;
        let Some(transaction) = self.transaction.as_ref().filter(is_unused) else {
            return;
        };
        // One with an id is told of when it ends.
        if self.asked_id.is_some() || self.is_over_several_nodes() || !partition.database.withdraw(transaction.id) {
            return;
        }
        self.began_us = Some(transaction.started_us);
        self.transaction = None;
        self.begins_later = true;
    }

    /// Undoes what the open transaction has done so far, for the server to run it again under the same id.
    pub(super) fn undo(&mut self, partition: &mut Partition) {
        self.begins_later = false;
        self.channels.truncate(0);
        let Some(transaction) = self.transaction.take() else {
            return;
        };
        self.began_us = Some(transaction.started_us);
        self.portals.forget_unkept();
        match self.roll_back_on_all(&transaction, partition) {
            true => partition.database.leave(transaction.id),
            false => partition.database.rollback(transaction.id),
        }
        if transaction.is_attached {
            return;
        }
        partition.schema_changes.end(transaction.id);
        let committed = Arc::clone(self.committed(partition));
        take_tails_back(&transaction.lengthened, &committed, &mut partition.database);
        for storage in transaction.created_storage {
            partition.database.drop_table(storage);
        }
        partition.drop_storage([]);
    }

    /// The transaction has ended: portals, LOCAL settings and modes end with it.
    pub(super) fn end_block(&mut self, committed: bool, responder: &mut dyn Responder) {
        if committed {
            self.portals.keep_held();
        }
        match self.current.as_ref().and_then(super::Current::portal) {
            Some(name) => self.portals.clear_but(name),
            None => self.portals.clear(),
        }
        self.block = Block::None;
        self.begins_later = false;
        self.began_us = None;
        self.modes = Default::default();
        self.replay.forget();
        self.lost = None;
        let reports = self.settings.end_transaction(committed);
        self.after_settings(reports, responder);
    }

    /// Settings were put back.
    pub(super) fn after_settings(&mut self, reports: Vec<(String, String)>, responder: &mut dyn Responder) {
        self.settings.shape(&mut self.text);
        for (name, value) in reports {
            if name == "application_name" {
                self.tell_application();
            }
            responder.parameter_status(&name, &value);
        }
    }

    pub(super) fn set_savepoint(&mut self, name: &str, partition: &mut Partition, now_us: i64) -> Outcome<()> {
        let id = self.ensure_transaction(partition, false, now_us)?;
        let Some(transaction) = &mut self.transaction else {
            return Ok(());
        };
        let savepoint = Rows::new(&mut partition.database, transaction.far.as_deref_mut()).mark(id);
        if transaction.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too many savepoints in one transaction",
            )
            .into());
        }
        transaction.savepoints.push(NamedSavepoint {
            name: name.to_owned(),
            savepoint,
            catalog: transaction.catalog.clone(),
            dropped_storage: transaction.dropped_storage.len(),
            written_versions: transaction.written_versions.len(),
            derived: transaction.derived.len(),
            deferred: transaction.deferred.mark(),
            channels: self.channels.actions().len(),
            session: SessionMark {
                advisory: partition.advisory.mark(),
                settings: self.settings.mark(),
                portals: self.portals.mark(),
                read_only: self.modes.read_only,
            },
        });
        Ok(())
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        let at = self.savepoint_at(name)?;
        if let Some(transaction) = &mut self.transaction {
            if let Some(savepoint) = transaction.savepoints.get(at) {
                // As in PostgreSQL: what was said behind the savepoint goes with it, either way.
                self.modes.read_only = savepoint.session.read_only;
            }
            transaction.savepoints.truncate(at);
        }
        Ok(())
    }

    pub(super) fn rollback_to_savepoint(
        &mut self,
        name: &str,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Result<()> {
        let at = self.savepoint_at(name)?;
        let Some(transaction) = &mut self.transaction else {
            return Ok(());
        };
        transaction.savepoints.truncate(at + 1);
        if let Some(savepoint) = transaction.savepoints.last() {
            let mut rows = Rows::new(&mut partition.database, transaction.far.as_deref_mut());
            rows.roll_back_to(transaction.id, &savepoint.savepoint);
            transaction.catalog = savepoint.catalog.clone();
            transaction.dropped_storage.truncate(savepoint.dropped_storage);
            transaction.written_versions.truncate(savepoint.written_versions);
            transaction.derived.truncate(savepoint.derived);
            transaction.deferred.go_back(&savepoint.deferred);
            self.channels.truncate(savepoint.channels);
            partition.advisory.roll_back_to(self.id, savepoint.session.advisory);
            let current = self.current.as_ref().and_then(super::Current::portal);
            self.portals.close_since(savepoint.session.portals, current);
            self.modes.read_only = savepoint.session.read_only;
            let reports = self.settings.roll_back_to(savepoint.session.settings);
            self.after_settings(reports, responder);
        }
        self.take_tails_back(partition);
        self.ask_others(partition);
        self.block = Block::Explicit;
        Ok(())
    }

    /// Columns that were added since the savepoint are there no more.
    fn take_tails_back(&mut self, partition: &mut Partition) {
        let catalog = self.catalog(partition);
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        take_tails_back(&transaction.lengthened, &catalog, &mut partition.database);
        if let Some(far) = &mut transaction.far {
            tell_tails(&transaction.lengthened, &catalog, far);
        }
    }

    fn savepoint_at(&self, name: &str) -> Result<usize> {
        let found = self.transaction.as_ref().and_then(|transaction| {
            transaction
                .savepoints
                .iter()
                .rposition(|savepoint| savepoint.name == name)
        });
        found.ok_or_else(|| match &self.lost {
            Some(why) => why.clone(),
            None => Error::new(
                SqlState::INVALID_SAVEPOINT_SPECIFICATION,
                format!("savepoint \"{name}\" does not exist"),
            ),
        })
    }

    /// Numbers taken from sequences outside of a commit are written down before they are answered. Another session may have
    /// written down those that this one took, and not be forced yet.
    pub(super) fn note_sequences(&mut self, partition: &mut Partition) -> Result<()> {
        if let Some(lsn) = partition.log_sequences()? {
            self.raise_durable(lsn);
        }
        if std::mem::take(&mut self.taken.are_new) {
            self.raise_durable(partition.sequences.logged_at());
        }
        Ok(())
    }

    /// What a statement of the open transaction has read must be durable before its answer, unless the transaction goes on
    /// (promise 4: rows read inside an open transaction may be shown at once).
    pub(super) fn read_depends_on(&self, partition: &Partition) -> Lsn {
        self.transaction
            .as_ref()
            .map_or(Lsn(0), |transaction| partition.database.depends_on(transaction.id))
    }
}

/// What may be said in a failed block.
pub(super) fn allowed_after_error(statement: &Statement) -> bool {
    match statement {
        Statement::Utility(utility) => {
            matches!(
                **utility,
                Utility::Commit { .. } | Utility::Rollback { .. } | Utility::RollbackTo(_)
            )
        }
        Statement::Empty => true,
        Statement::Planned(_) | Statement::Elsewhere => false,
    }
}
