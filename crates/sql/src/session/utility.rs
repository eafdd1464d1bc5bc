//! Statements that are not planned.

use super::execute::with_evaluation;
use super::extended::output_of;
use super::prepared::Prepared;
use super::script::parameter_types;
use super::{Block, Next, Origin, Session, SessionContext};
use crate::binder;
use crate::channels::ChannelAction;
use crate::client::{OutputColumn, Responder};
use crate::partition::Partition;
use crate::statement::{Discarded, SchemaChange, Statement, TransactionModes, Utility};
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_formula::cast_value;
use rubato_protocol::{Outcome, Stop};
use rubato_stages::StageKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The columns that a utility answers with.
pub(super) fn output(utility: &Utility) -> Vec<OutputColumn> {
    let text = |name: &str| OutputColumn {
        name: name.to_owned(),
        data_type: DataType::Text,
        modifier: -1,
        table: None,
        column_number: 0,
        told_type: None,
    };
    match utility {
        Utility::Show(name) if name.eq_ignore_ascii_case("all") => {
            vec![text("name"), text("setting"), text("description")]
        }
        Utility::Show(name) => vec![text(shown_name(name))],
        Utility::Explain { json, .. } => vec![OutputColumn {
            told_type: json.then_some(OutputColumn::JSON),
            ..text("QUERY PLAN")
        }],
        _ => Vec::new(),
    }
}

fn shown_name(name: &str) -> &str {
    match name.to_ascii_lowercase().as_str() {
        "timezone" | "time zone" => "TimeZone",
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "transaction isolation level" => "transaction_isolation",
        _ => name,
    }
}

impl Session {
    pub(super) fn run_utility(
        &mut self,
        utility: &Arc<Utility>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        self.see_enums(&self.catalog(partition));
        self.begin_utility_again();
        let tag = match &**utility {
            Utility::Begin(modes) => self.begin(modes, responder),
            Utility::Commit { and_chain } => return Ok(self.commit(*and_chain, partition, context, responder)),
            Utility::Rollback { and_chain } => self.rollback(*and_chain, partition, responder)?,
            Utility::Savepoint(name) => {
                self.set_savepoint(name, partition, context.now_us)?;
                "SAVEPOINT".into()
            }
            Utility::Release(name) => {
                self.release_savepoint(name)?;
                "RELEASE".into()
            }
            Utility::RollbackTo(name) => {
                self.rollback_to_savepoint(name, partition, responder)?;
                "ROLLBACK".into()
            }
            Utility::SetTransaction { modes, session } => self.set_transaction(modes, *session, responder)?,
            Utility::SetConstraints { names, deferred } => {
                return self.set_constraints(names.as_deref(), *deferred, partition, context, responder);
            }
            Utility::Set { name, value, local } => self.set(name, value.as_deref(), *local, responder)?,
            Utility::Show(name) => self.show(name, utility, responder)?,
            Utility::Reset(name) => self.reset(name, responder)?,
            Utility::Prepare { name, types, sql } => {
                self.admit_prepared(&context.limits)?;
                self.prepare(name, types, sql, partition)?
            }
            Utility::Execute { name, arguments } => {
                return Ok(self.execute_prepared(name, arguments, partition, context)?);
            }
            Utility::Deallocate(name) => self.deallocate(name.as_deref())?,
            Utility::Declare {
                name,
                options,
                statement,
                sql,
            } => {
                return self.declare((name, *options), statement, sql, partition, context, responder);
            }
            Utility::Fetch {
                name,
                movement,
                is_move,
            } => {
                return Ok(self.fetch(name, *movement, *is_move, partition, responder)?);
            }
            Utility::Close(name) => self.close_cursor(name.as_deref(), partition)?,
            Utility::Discard(Discarded::Temporary) => {
                let schema = self.own_schema();
                let change = SchemaChange::DropTemporary { schema };
                return self.change_schema(&change, None, partition, context, responder);
            }
            Utility::Discard(what) => self.discard(*what, partition, responder)?,
            Utility::Explain {
                analyze,
                json,
                statement,
            } => {
                return self.explain((*analyze, *json), statement, utility, partition, context, responder);
            }
            Utility::Copy(copy) => return self.start_copy(copy, partition, context, responder),
            Utility::Schema(change) => return self.change_schema(change, None, partition, context, responder),
            Utility::CreateTableAs(create) => {
                return self.change_schema(&create.change, Some(create), partition, context, responder);
            }
            Utility::Checkpoint => return self.checkpoint(partition, responder),
            Utility::RemoveNode(node) => self.remove_node(*node, partition)?,
            Utility::HandOver(node) => self.hand_over(*node, partition)?,
            Utility::Database(command) => return self.change_databases(command, partition, context, responder),
            Utility::Listen(channel) => {
                self.channels.add(ChannelAction::Listen(channel.as_str().into()))?;
                "LISTEN".into()
            }
            Utility::Unlisten(channel) => {
                self.channels
                    .add(ChannelAction::Unlisten(channel.as_deref().map(Into::into)))?;
                "UNLISTEN".into()
            }
            Utility::Notify { channel, payload } => {
                self.channels.add(ChannelAction::notify(channel, payload)?)?;
                "NOTIFY".into()
            }
            Utility::Maintenance { tag } => (*tag).to_owned(),
            Utility::LockTables { relations, mode, waits } => {
                self.lock_tables(relations, (*mode, *waits), partition, context.now_us)?;
                "LOCK TABLE".into()
            }
            Utility::OnRelations { tag, relations, place } => {
                self.check_on_relations(*place, relations, partition)?;
                (*tag).to_owned()
            }
        };
        Ok(self.answered(tag, partition, responder))
    }

    /// The utility has run: answers its tag, and commits what it did outside of a block.
    pub(super) fn answered(&mut self, tag: String, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        if let Some(current) = &mut self.current {
            current.tag = Some(tag);
        }
        self.finish(partition, responder)
    }

    fn begin(&mut self, modes: &TransactionModes, responder: &mut dyn Responder) -> String {
        if self.block == Block::Explicit {
            let notice = Error::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            );
            self.tell("WARNING", &notice, responder);
        } else {
            self.block = Block::Explicit;
            self.replay.forget();
        }
        self.merge_modes(modes);
        let is_start = |sql: &str| {
            sql.trim_start()
                .get(..5)
                .is_some_and(|verb| verb.eq_ignore_ascii_case("start"))
        };
        let is_start = self.current.as_ref().is_some_and(|current| is_start(&current.sql));
        if is_start {
            "START TRANSACTION".into()
        } else {
            "BEGIN".into()
        }
    }

    fn merge_modes(&mut self, modes: &TransactionModes) {
        self.modes.read_only = modes.read_only.or(self.modes.read_only);
        self.modes.deferrable = modes.deferrable.or(self.modes.deferrable);
        if modes.isolation.is_some() {
            self.modes.isolation.clone_from(&modes.isolation);
        }
    }

    fn commit(
        &mut self,
        and_chain: bool,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Next {
        let modes = self.modes.clone();
        if let Some(error) = self.end_outside("COMMIT", and_chain, responder) {
            return self.fail(error, partition, responder);
        }
        let tag = match self.block {
            Block::Failed => {
                self.roll_back(partition);
                self.end_block(false, responder);
                "ROLLBACK"
            }
            Block::None => "COMMIT",
            Block::Explicit | Block::Implicit => match self.check_and_commit(partition, context, responder) {
                Ok(None) => "COMMIT",
                Ok(Some(park)) => return park,
                Err(error) if error.is_retryable() && self.replay.is_kept() => {
                    return self.run_again(error, partition, responder);
                }
                Err(error) => {
                    // A COMMIT that fails ends the block all the same.
                    self.roll_back(partition);
                    self.end_block(false, responder);
                    return self.fail(error, partition, responder);
                }
            },
        };
        if and_chain {
            self.block = Block::Explicit;
            self.modes = modes;
        }
        self.answered_outside(tag, partition, responder)
    }

    /// Commits what has put checks off when these are done. `Some`: it goes on later.
    fn check_and_commit(
        &mut self,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Result<Option<Next>> {
        match self.check_deferred(true, partition, context) {
            Ok(true) => self.commit_now(partition, responder),
            Ok(false) => Ok(Some(Next::Yield)),
            Err(Stop::Wait(wait)) => Ok(Some(self.park(&wait))),
            Err(Stop::Abort(error) | Stop::Fail(error)) => Err(error),
        }
    }

    /// COMMIT or ROLLBACK where no BEGIN was said: a warning, or an error with AND CHAIN.
    fn end_outside(&self, verb: &str, and_chain: bool, responder: &mut dyn Responder) -> Option<Error> {
        if !matches!(self.block, Block::None | Block::Implicit) {
            return None;
        }
        let code = SqlState::NO_ACTIVE_SQL_TRANSACTION;
        if and_chain {
            let message = format!("{verb} AND CHAIN can only be used in transaction blocks");
            return Some(Error::new(code, message));
        }
        let warning = Error::new(code, "there is no transaction in progress");
        self.tell("WARNING", &warning, responder);
        None
    }

    fn rollback(
        &mut self,
        and_chain: bool,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Result<String> {
        if let Some(error) = self.end_outside("ROLLBACK", and_chain, responder) {
            return Err(error);
        }
        let modes = self.modes.clone();
        self.roll_back(partition);
        self.end_block(false, responder);
        if and_chain {
            self.block = Block::Explicit;
            self.modes = modes;
        }
        Ok("ROLLBACK".into())
    }

    /// Answers a statement that has ended the block itself.
    fn answered_outside(&mut self, tag: &str, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        if let Err(error) = self.note_sequences(partition) {
            return self.fail(error, partition, responder);
        }
        self.retries = 0;
        if let Some(current) = self.current.take() {
            responder.command_complete(tag);
            if let Origin::Portal(name) = &current.origin {
                self.end_portal(name, tag);
            }
        }
        Next::To(StageKind::Parser)
    }

    fn set_transaction(
        &mut self,
        modes: &TransactionModes,
        session: bool,
        responder: &mut dyn Responder,
    ) -> Result<String> {
        if session {
            if let Some(read_only) = modes.read_only {
                let value = if read_only { "on" } else { "off" };
                self.set("default_transaction_read_only", Some(value), false, responder)?;
            }
            if let Some(level) = &modes.isolation {
                self.set("default_transaction_isolation", Some(level), false, responder)?;
            }
        } else {
            if self.is_outside_block() {
                self.warn_without_block("SET TRANSACTION", responder);
            }
            if self.block == Block::None {
                return Ok("SET".into());
            }
            if modes.isolation.is_some() && self.is_of_this_node() {
                let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
                return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            if modes.read_only == Some(false) && self.modes.read_only == Some(true) && self.is_of_this_node() {
                let message = "transaction read-write mode must be set before any query";
                return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            self.merge_modes(modes);
        }
        Ok("SET".into())
    }

    fn set(&mut self, name: &str, value: Option<&str>, local: bool, responder: &mut dyn Responder) -> Result<String> {
        match name.to_ascii_lowercase().as_str() {
            "transaction_read_only" if self.block != Block::None => {
                self.modes.read_only = Some(!matches!(value, Some("off" | "false" | "no" | "0")));
            }
            "transaction_isolation" if self.block != Block::None => self.modes.isolation = value.map(str::to_owned),
            // Everybody may be who he is: there is nobody else to be.
            "role" | "session_authorization" if value == Some(self.identity.user.as_str()) => {}
            _ => {
                if local && self.is_outside_block() {
                    self.warn_without_block("SET LOCAL", responder);
                }
                let report = self.settings.set(name, value, local)?;
                if let Some((name, value)) = report {
                    responder.parameter_status(&name, &value);
                }
                self.settings.shape(&mut self.text);
                if name.eq_ignore_ascii_case("application_name") {
                    self.tell_application();
                }
            }
        }
        Ok("SET".into())
    }

    fn shown(&self, name: &str) -> Option<String> {
        match shown_name(name) {
            "session_authorization" => Some(self.identity.user.clone()),
            name => {
                let of_transaction = self.shown_modes().shown(name, &self.settings);
                of_transaction.or_else(|| self.settings.get(name))
            }
        }
    }

    fn show(&mut self, name: &str, utility: &Arc<Utility>, responder: &mut dyn Responder) -> Result<String> {
        let rows: Vec<Vec<Value>> = if name.eq_ignore_ascii_case("all") {
            let rows = self.settings.all().into_iter();
            rows.map(|(name, value)| vec![Value::text(&name), Value::text(&value), Value::text("")])
                .collect()
        } else {
            let value = self.shown(name).ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("unrecognized configuration parameter \"{name}\""),
                )
            })?;
            vec![vec![Value::text(&value)]]
        };
        self.answer_rows(utility, &rows, responder);
        Ok("SHOW".into())
    }

    /// Answers rows of a utility.
    pub(super) fn answer_rows(&mut self, utility: &Arc<Utility>, rows: &[Vec<Value>], responder: &mut dyn Responder) {
        let statement = Statement::Utility(Arc::clone(utility));
        let columns = output_of(&statement);
        let Some(current) = &mut self.current else { return };
        if std::mem::take(&mut current.describe) {
            responder.row_description(&columns, &current.formats);
        }
        for row in rows {
            responder.data_row(row, &columns, &current.formats, &self.text);
        }
    }

    pub(super) fn reset(&mut self, name: &str, responder: &mut dyn Responder) -> Result<String> {
        if name.eq_ignore_ascii_case("all") {
            for (name, value) in self.settings.reset_all() {
                responder.parameter_status(&name, &value);
            }
            self.settings.shape(&mut self.text);
        } else {
            self.set(name, None, false, responder)?;
        }
        Ok("RESET".into())
    }

    fn prepare(&mut self, name: &str, types: &[DataType], sql: &str, partition: &Partition) -> Result<String> {
        if self.prepared.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        let catalog = self.catalog(partition);
        let statement = binder::bind(sql, &[], types, &catalog, self)?;
        let types = parameter_types(&statement);
        let prepared = Prepared {
            statement,
            catalog_version: catalog.version,
            sql: Arc::from(sql),
            types,
            path: Arc::clone(&self.path_in(&catalog).searched),
            declared: self.current.as_ref().map(|current| Arc::clone(&current.sql)),
            since_us: self.now_us,
            runs: AtomicU64::new(0),
        };
        self.prepared.insert(name.to_owned(), Arc::new(prepared));
        Ok("PREPARE".into())
    }

    /// EXECUTE: the current statement becomes the prepared one.
    fn execute_prepared(
        &mut self,
        name: &str,
        arguments: &[(rubato_formula::Expr, Option<u32>)],
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Result<Next> {
        let (prepared, values) = self.execute_arguments(name, arguments, partition, context)?;
        if let Some(current) = &mut self.current {
            current.statement = prepared.statement.clone();
            current.catalog_version = prepared.catalog_version;
            current.sql = Arc::clone(&prepared.sql);
            current.is_prepared = true;
            current.parameters = values;
            // A portal is described by Describe.
            current.describe = current.portal().is_none();
        }
        Ok(Next::To(StageKind::Security))
    }

    /// What EXECUTE names, and its arguments as the types of the parameters.
    pub(super) fn execute_arguments(
        &mut self,
        name: &str,
        arguments: &[(rubato_formula::Expr, Option<u32>)],
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Result<(Arc<Prepared>, Arc<[Value]>)> {
        let prepared = Arc::clone(self.prepared(name)?);
        if arguments.len() != prepared.types.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!(
                "Expected {} parameters but got {}.",
                prepared.types.len(),
                arguments.len()
            );
            return Err(Error::new(SqlState::SYNTAX_ERROR, message).with_detail(detail));
        }
        let prepared = self.renewed(name, prepared, partition, context)?;
        prepared.runs.fetch_add(1, Ordering::Relaxed);
        let catalog = self.catalog(partition);
        let text = self.text.clone();
        let times_us = (context.now_us, context.now_us);
        let outside = (&mut partition.sequences, &mut partition.advisory, &*partition.insight);
        let values = with_evaluation(self, &catalog, outside, &[], times_us, |evaluation| {
            let values = arguments
                .iter()
                .zip(&prepared.types)
                .map(|((argument, position), data_type)| {
                    let value = argument.evaluate(&(), evaluation)?;
                    let to = rubato_base::ColumnType::plain(*data_type);
                    let from = match (value.data_type(), argument) {
                        // A string literal has no type of its own.
                        (DataType::Text, rubato_formula::Expr::Literal(_)) => DataType::Unknown,
                        (from, _) => from,
                    };
                    let cast = cast_value(value, from, to, false, &text);
                    cast.map_err(|error| match from {
                        DataType::Unknown => error.with_position(*position),
                        _ => error,
                    })
                });
            values.collect::<Result<Arc<[Value]>>>()
        })?;
        Ok((prepared, values))
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<String> {
        match name {
            None => {
                self.prepared.clear();
                Ok("DEALLOCATE ALL".into())
            }
            Some(name) => match self.prepared.remove(name) {
                Some(_) => Ok("DEALLOCATE".into()),
                None => {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    Err(Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, message))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_as_json_is_told_to_be_json() {
        for (json, told) in [(true, Some(OutputColumn::JSON)), (false, None)] {
            let columns = output(&Utility::Explain {
                analyze: false,
                json,
                statement: Statement::Empty,
            });
            assert_eq!(columns.len(), 1);
            assert_eq!((columns[0].told_type, columns[0].data_type), (told, DataType::Text));
        }
    }
}
