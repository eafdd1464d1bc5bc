//! Constraints that are checked at the end of the transaction: SET CONSTRAINTS, and the checks of a commit.

use super::running::Part;
use super::{Next, Session, SessionContext};
use crate::catalog::{Catalog, Deferral, Table, no_schema};
use crate::client::Responder;
use crate::executor::{DeferredChecks, ExecutionContext};
use crate::partition::Partition;
use crate::schema_change::changed_in_place;
use crate::statement::SchemaChange;
use rubato_base::{Error, Result, SqlState};
use rubato_protocol::{Outcome, Stop};

impl Session {
    /// SET CONSTRAINTS: what is not deferred any more is checked at once.
    pub(super) fn set_constraints(
        &mut self,
        names: Option<&[Vec<String>]>,
        deferred: bool,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        if self.is_outside_block() {
            self.warn_without_block("SET CONSTRAINTS", responder);
        }
        let chosen = names.map(|names| chosen_constraints(names, &self.catalog(partition)));
        let chosen = chosen.transpose()?;
        self.ensure_transaction(partition, false, context.now_us)?;
        if let Some(transaction) = &mut self.transaction {
            let modes = &mut transaction.deferred.modes;
            match &chosen {
                None => modes.set_all(deferred),
                Some(chosen) => chosen
                    .iter()
                    .for_each(|(table, name)| modes.set(*table, name, deferred)),
            }
        }
        if !deferred && !self.check_deferred(false, partition, context)? {
            return Ok(Next::Yield);
        }
        Ok(self.answered("SET CONSTRAINTS".to_owned(), partition, responder))
    }

    /// Goes on with the outstanding checks of constraints that are not deferred any more, or of all; false when others are to have
    /// their turn first.
    pub(super) fn check_deferred(
        &mut self,
        all: bool,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<bool> {
        let Some((catalog, id, keeps)) = self.before_checks(partition)? else {
            return Ok(true);
        };
        let part = Part {
            transaction: id,
            catalog: &catalog,
            parameters: &[],
            times_us: (context.now_us, context.now_us),
            limits: context.limits,
            analytics: None,
        };
        let outcome = self.run_slice(
            partition,
            part,
            context.clock_us,
            |done| !done,
            |execution| check(execution, (all, keeps)),
        );
        self.after_checks(outcome, partition)
    }

    /// The outstanding checks of a transaction that commits, in one go.
    pub(super) fn check_outstanding(&mut self, partition: &mut Partition) -> Outcome<()> {
        let Some((catalog, id, _)) = self.before_checks(partition)? else {
            return Ok(());
        };
        let limits = self
            .transaction
            .as_ref()
            .map(|transaction| transaction.deferred.limits());
        let part = Part {
            transaction: id,
            catalog: &catalog,
            parameters: &[],
            times_us: (self.now_us, self.now_us),
            limits: limits.unwrap_or_default(),
            analytics: None,
        };
        // A commit that waits comes back here: what was checked stays known until then.
        let outcome = self.run_part(partition, part, ExecutionContext::UNBOUNDED, |execution| {
            check(execution, (true, true))
        });
        self.after_checks(outcome, partition).map(drop)
    }

    /// What checks run with, if any are outstanding. The snapshot knows the tables as they are now.
    #[allow(clippy::type_complexity)]
    fn before_checks(
        &mut self,
        partition: &mut Partition,
    ) -> Outcome<Option<(std::sync::Arc<Catalog>, rubato_base::TransactionId, bool)>> {
        let catalog = self.catalog(partition);
        let Some(transaction) = self.transaction.as_ref().filter(|it| it.deferred.is_due()) else {
            return Ok(None);
        };
        let (id, keeps) = (transaction.id, !transaction.savepoints.is_empty());
        let versions = transaction.deferred.versions(&catalog);
        self.see_schema(versions.into_iter(), partition)?;
        Ok(Some((catalog, id, keeps)))
    }

    /// An error is told once those have committed whose formulas it depends on (rule Q-7).
    fn after_checks(&mut self, outcome: Outcome<bool>, partition: &mut Partition) -> Outcome<bool> {
        if matches!(outcome, Err(Stop::Fail(_))) {
            self.confirm_read_through(partition)?;
        }
        if matches!(outcome, Ok(false)) {
            self.deadline_us = self.statement_deadline_us();
        }
        outcome
    }

    /// 55006 for a change of a table that has outstanding checks.
    pub(super) fn refuse_pending_checks(&self, change: &SchemaChange, catalog: &Catalog) -> Result<()> {
        let Some(deferred) = self.pending_checks() else {
            return Ok(());
        };
        let (verb, tables) = changed_in_place(change, catalog);
        let tables = tables.into_iter().filter_map(|name| catalog.tables.get(name));
        match tables.into_iter().find(|table| deferred.concerns(catalog, table)) {
            None => Ok(()),
            Some(table) => {
                let message = format!("cannot {verb} \"{}\" because it has pending trigger events", table.name);
                Err(Error::new(SqlState::OBJECT_IN_USE, message))
            }
        }
    }

    fn pending_checks(&self) -> Option<&DeferredChecks> {
        let transaction = self.transaction.as_ref()?;
        Some(&transaction.deferred).filter(|deferred| deferred.is_due())
    }
}

fn check(execution: &mut ExecutionContext<'_>, how: (bool, bool)) -> Outcome<bool> {
    let Some(deferred) = execution.deferred.take() else {
        return Ok(true);
    };
    deferred.check(how, execution)
}

/// The constraints of these names, by table and name. 42704, 42809.
fn chosen_constraints(names: &[Vec<String>], catalog: &Catalog) -> Result<Vec<(u32, String)>> {
    let mut chosen = Vec::new();
    for path in names {
        let schema = match path.as_slice() {
            [.., schema, _] => Some(catalog.schema_id(schema).ok_or_else(|| no_schema(schema))?),
            _ => None,
        };
        let name = path.last().map_or("", String::as_str);
        let known = catalog
            .tables
            .values()
            .filter(|table| schema.is_none_or(|schema| schema == table.schema))
            .filter_map(|table| Some((table.oid, deferral_of(table, name)?)));
        let known: Vec<(u32, Deferral)> = known.collect();
        let before = chosen.len();
        let deferrable = known.iter().filter(|(_, deferral)| deferral.is_deferrable());
        chosen.extend(deferrable.map(|(table, _)| (*table, name.to_owned())));
        if chosen.len() == before {
            return Err(match known.is_empty() {
                true => Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{name}\" does not exist"),
                ),
                false => Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("constraint \"{name}\" is not deferrable"),
                ),
            });
        }
    }
    Ok(chosen)
}

/// When the table's constraint of this name is checked, if it has one.
fn deferral_of(table: &Table, name: &str) -> Option<Deferral> {
    let key = table.foreign_keys.iter().find(|key| key.name == name);
    let index = table
        .indexes
        .iter()
        .find(|index| index.constraint && index.name == name);
    let is_other = (!table.primary_key.is_empty() && table.primary_key_name == name)
        || table
            .checks
            .iter()
            .any(|check| check.domain.is_none() && check.name == name);
    key.map(|key| key.deferral)
        .or(index.map(|index| index.deferral))
        .or(is_other.then_some(Deferral::Never))
}
