//! Definitions that others have changed since a transaction began: a statement sees them as they are by now.

use super::block::OpenTransaction;
use super::execute::{is_current, with_followers};
use super::schema::schema_changed;
use super::{Block, Session};
use crate::catalog::{Catalog, RelationName};
use crate::partition::Partition;
use crate::plan::Plan;
use rubato_base::{Error, Result, SqlState};
use rubato_protocol::{Outcome, Stop};
use std::sync::Arc;

/// Different statements of a block that are kept for that. Of one with more it is taken that it has used whatever was changed.
const USED_PLANS_MAX: usize = 128;

impl Session {
    /// Sees what the statement names as it is by now, and keeps which views these are: commit checks that they still say the same.
    ///
    /// Errors: [`Stop::Abort`] if the transaction has read through one of the views when it said something else (rule R-8, as for tables).
    pub(super) fn see_definitions(&mut self, named: &[(RelationName, u64)], partition: &mut Partition) -> Outcome<()> {
        self.see_schema(named.iter().map(|(_, version)| *version), partition)?;
        if self.committed(partition).views.is_empty() {
            return Ok(());
        }
        let catalog = Arc::clone(self.committed(partition));
        let Some(transaction) = self.transaction.as_mut().filter(|it| it.catalog.is_none()) else {
            return Ok(());
        };
        for (name, version) in named {
            if !catalog.views.contains_key(name) {
                continue;
            }
            match transaction.viewed_versions.iter().find(|(other, _)| other == name) {
                Some((_, seen)) if seen != version => return Err(Stop::Abort(schema_changed(name))),
                Some(_) => {}
                None => transaction.viewed_versions.push((name.clone(), *version)),
            }
        }
        Ok(())
    }

    /// What was read through a view that says something else by now is not what it says where the transaction's commit stands.
    ///
    /// Errors: 40001 if there is such a view.
    pub(super) fn check_viewed(&self, transaction: &OpenTransaction, partition: &Partition) -> Result<()> {
        let committed = self.committed(partition);
        if transaction.viewed_versions.is_empty() || committed.version == transaction.base_version {
            return Ok(());
        }
        let own = transaction.catalog.as_ref().zip(transaction.base_catalog.as_ref());
        let is_own = |name: &RelationName| own.is_some_and(|(own, base)| own.views.get(name) != base.views.get(name));
        let writes = !transaction.written_versions.is_empty();
        let is_same = |name: &RelationName, version: u64| {
            let view = committed.views.get(name);
            view.is_some_and(|view| view.version == version)
        };
        let mut viewed = transaction.viewed_versions.iter().filter(|_| writes);
        match viewed.find(|(name, version)| !is_same(name, *version) && !is_own(name)) {
            Some((name, _)) => Err(schema_changed(name)),
            None => Ok(()),
        }
    }

    /// Notes what a transaction that may be over several nodes runs.
    pub(super) fn note_used(&mut self, plan: &Arc<Plan>) {
        let Some(transaction) = self.transaction.as_mut().filter(|open| open.has_tick) else {
            return;
        };
        let used = &mut transaction.used_plans;
        let is_to_be_kept = self.block == Block::Explicit && used.len() < USED_PLANS_MAX;
        if is_to_be_kept && !plan.table_versions.is_empty() && !used.iter().any(|own| Arc::ptr_eq(own, plan)) {
            used.push(Arc::clone(plan));
        }
    }

    /// The error as a block may be told it that stands before changes of definitions: what has become of a table that it has read is so behind
    /// them only (rules ), and that there is no such table, or column, may be just that.
    pub(super) fn as_of_what_was_read(&self, error: Error, partition: &Partition) -> Error {
        let Some(transaction) = self
            .transaction
            .as_ref()
            .filter(|_| depends_on_definitions(error.code()))
        else {
            return error;
        };
        let committed = self.committed(partition);
        // What of these tables it has read on other nodes, this one does not know.
        let is_changed_plan = |plan: &Arc<Plan>| !is_current(plan, committed, &plan.path);
        let used = &transaction.used_plans;
        let has_changed_far = || {
            self.is_over_several_nodes()
                && committed.version != transaction.base_version
                && (used.len() >= USED_PLANS_MAX || used.iter().any(is_changed_plan))
        };
        let is_changed_view = |(name, version): &(RelationName, u64)| {
            let view = committed.views.get(name);
            view.is_none_or(|view| view.version != *version)
        };
        let mut views = transaction.viewed_versions.iter();
        let is_otherwise = partition.database.read_and_changed(transaction.id).is_some()
            || has_changed_far()
            || transaction.catalog.is_none() && views.any(is_changed_view);
        match is_otherwise {
            true => Error::serialization("the schema was changed by another transaction", error.message()),
            false => error,
        }
    }

    /// A table that was changed since the transaction began is as the transaction sees it only from then on: its snapshot moves
    /// up, or it is aborted.
    pub(super) fn see_schema(
        &mut self,
        mut versions: impl Iterator<Item = u64>,
        partition: &mut Partition,
    ) -> Outcome<()> {
        let newest = self.committed(partition).version;
        let Some(transaction) = self.transaction.as_mut().filter(|it| it.catalog.is_none()) else {
            return Ok(());
        };
        let seen = transaction.seen_version;
        if !versions.any(|version| version > seen) {
            return Ok(());
        }
        // Where the change stands this node need not know, and what other nodes read for it does not catch up: they would be asked at its tick
        // for what has another meaning since.
        if partition.grid.as_ref().is_some_and(|desk| desk.members().len() > 1) {
            return Err(Stop::Abort(Error::serialization(
                "a table was changed by another transaction",
                "the statement would read it as it was before",
            )));
        }
        partition.database.catch_up(transaction.id)?;
        transaction.seen_version = newest;
        Ok(())
    }

    /// The same of tables that a statement does not name and looks at all the same: whose rows those that it writes to refer to, and
    /// whose rows follow. They may have come to lie in other storage since the snapshot, where it would find nothing.
    pub(super) fn see_schema_of_related(
        &mut self,
        written: &[(RelationName, u64)],
        catalog: &Catalog,
        partition: &mut Partition,
    ) -> Outcome<()> {
        let seen = self.transaction.as_ref().map_or(u64::MAX, |own| own.seen_version);
        if self.committed(partition).version <= seen {
            return Ok(());
        }
        let mut versions = Vec::new();
        for table in written.iter().flat_map(|(name, _)| with_followers(name, catalog)) {
            let referred = table.foreign_keys.iter();
            let referred = referred.filter_map(|key| catalog.tables.get(&key.referenced_table));
            versions.extend(referred.map(|referred| referred.version));
            versions.push(table.version);
        }
        self.see_schema(versions.into_iter(), partition)
    }
}

/// Whether an error may come from what a definition has become: a name that is none, a column of another type, a value that it does not take,
/// a plan that would have other columns.
fn depends_on_definitions(code: SqlState) -> bool {
    let is_of_names = code.as_str().starts_with("42") || code.as_str().starts_with("3F");
    is_of_names || code == SqlState::INVALID_TEXT_REPRESENTATION || code == SqlState::FEATURE_NOT_SUPPORTED
}
