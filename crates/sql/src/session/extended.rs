//! The extended query protocol: prepared statements and portals, up to Sync.

use super::portals::{Portal, Portals, cannot_be_run};
use super::prepared::{Prepared, prepared_key, result_type_changed};
use super::standing::runs_alone;
use super::{Block, Current, Next, Origin, PartitionLock, Session, SessionContext, ToBind};
use crate::client::{Bind, Format, Formats, OutputColumn, Request, Responder};
use crate::grid::DataEnd;
use crate::partition::Partition;
use crate::plan::PlanBody;
use crate::statement::{Statement, Utility};
use rubato_base::binary_format::parse_binary;
use rubato_base::text_format::parse_text;
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_stages::StageKind;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What kind of a request may have failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Query,
    Bind,
    Other,
}

impl Asked {
    fn of(request: &Request) -> Asked {
        match request {
            Request::Query { .. } => Asked::Query,
            Request::Bind(_) => Asked::Bind,
            _ => Asked::Other,
        }
    }

    /// Whether it is the client's words that are wrong: a script that cannot be taken apart, or a value that its type does not read. Labels
    /// of enumerations are what others make them.
    fn fails_by_words(self, error: &Error) -> bool {
        match self {
            Asked::Query => error.code() == SqlState::SYNTAX_ERROR,
            Asked::Bind => error.code().0.starts_with(b"22") && !error.message().contains("enum"),
            Asked::Other => false,
        }
    }
}

/// What a finished portal with rows answers when it is run again: its tag, with no rows.
fn without_rows(tag: &str) -> String {
    match tag.rsplit_once(' ') {
        Some((verb, rows)) if rows.bytes().all(|digit| digit.is_ascii_digit()) => format!("{verb} 0"),
        _ => tag.to_owned(),
    }
}

/// So many changes make a batch, which runs where its client is: what they ask of other nodes goes out together there, and each would be a way
/// there and back for a transaction that has gone to another node (decision 0060).
const BATCH_MIN: usize = 8;
/// Requests that are looked at to find them.
const BATCH_LOOKED_AT_MAX: usize = 8 * BATCH_MIN;

fn is_change(statement: &Statement) -> bool {
    let Statement::Planned(plan) = statement else {
        return false;
    };
    matches!(
        plan.body,
        PlanBody::Insert(_) | PlanBody::Update(_) | PlanBody::Delete(_)
    )
}

impl Session {
    /// Takes one request; gives the next stage if it needs one.
    pub(super) fn on_request<L: PartitionLock>(
        &mut self,
        request: Request,
        requests: &mut VecDeque<Request>,
        lock: &L,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        self.note_request(&request);
        if self.skip_to_sync && !matches!(request, Request::Sync | Request::Terminate) {
            return None;
        }
        if self.awaits_data() {
            // While data comes in, clients of the extended protocol have sent their Sync already: it is passed over.
            match &request {
                Request::Sync | Request::Flush | Request::GoOn | Request::Deliver => return None,
                Request::CopyData(_) | Request::CopyDone | Request::CopyFail(_) | Request::Terminate => {}
                _ => {
                    let error = Error::new(
                        SqlState::PROTOCOL_VIOLATION,
                        "unexpected message while COPY data is awaited",
                    );
                    let _ = self.fail(error, &mut lock.lock(), responder);
                    // What else comes may be meant as data: as in PostgreSQL the connection ends.
                    self.leave(&mut lock.lock());
                    self.is_over = true;
                    requests.clear();
                    return Some(Next::Idle);
                }
            }
        }
        let asked = Asked::of(&request);
        let outcome = match request {
            Request::LayAnew { sql } => {
                let started = self.start_script(&sql);
                self.script.iter_mut().for_each(|piece| piece.is_anew = true);
                started.map(|()| None)
            }
            Request::Query { sql } => {
                self.tell_long_names(&sql, responder);
                match self.start_script(&sql) {
                    Ok(()) if self.script.is_empty() => {
                        responder.empty_query();
                        Ok(None)
                    }
                    Ok(()) => Ok(None),
                    Err(error) => Err(error),
                }
            }
            Request::Parse {
                name,
                sql,
                parameter_types,
            } => self.parse(name, sql, &parameter_types, lock, context, responder),
            Request::Bind(bind) => self.bind(*bind, lock, context, responder),
            Request::BindValues {
                portal,
                statement,
                values,
                columns,
                formats,
            } => {
                let bound = self.bind_values((portal, &statement), values, formats, lock, context, responder);
                bound.and_then(|next| {
                    self.check_columns(&statement, columns.as_deref())?;
                    Ok(next)
                })
            }
            Request::DescribeStatement(name) => self.describe_statement(&name, lock, context, responder),
            Request::DescribePortal(name) => self.describe_portal(&name, responder),
            Request::Execute { portal, max_rows } => self.execute(portal, max_rows, requests, context, responder),
            Request::CloseStatement(name) => {
                self.prepared.remove(&name);
                responder.close_complete();
                Ok(None)
            }
            Request::ClosePortal(name) => {
                self.portals.remove(&name);
                responder.close_complete();
                Ok(None)
            }
            Request::Sync => return self.sync(&mut lock.lock(), responder),
            Request::Flush => return (!requests.is_empty()).then_some(Next::Yield),
            Request::GoOn => return None,
            Request::Deliver => {
                self.deliver(responder);
                return None;
            }
            Request::CopyData(data) if self.copy_away.is_some() => return self.data_away(&data, lock, responder),
            Request::CopyDone if self.copy_away.is_some() => return self.end_data_away(DataEnd::Done, lock, responder),
            Request::CopyFail(reason) if self.copy_away.is_some() => {
                return self.end_data_away(DataEnd::Failed(reason), lock, responder);
            }
            Request::CopyData(data) => return self.copy_data(data, lock, context, responder),
            Request::CopyDone => return self.copy_done(lock, context, responder),
            Request::CopyFail(reason) => return self.copy_fail(&reason, &mut lock.lock(), responder),
            Request::Invalid { error, simple } => {
                self.in_script |= simple;
                Err(error)
            }
            Request::Terminate => {
                self.leave(&mut lock.lock());
                requests.clear();
                return Some(Next::Idle);
            }
        };
        match outcome {
            Ok(next) => next,
            Err(error) => {
                self.fails_by_words = asked.fails_by_words(&error);
                Some(self.fail(error, &mut lock.lock(), responder))
            }
        }
    }

    /// The client is gone: its transaction is rolled back.
    pub fn leave(&mut self, partition: &mut Partition) {
        self.current = None;
        self.to_bind = None;
        self.after_replay = None;
        self.script.clear();
        self.in_script = false;
        self.copy_in = None;
        self.copy_again = None;
        self.copy_away = None;
        self.copy_out = None;
        self.give_up_schema_change(partition);
        self.commit_waits_since_us = None;
        self.roll_back(partition);
        self.leave_own(partition);
        partition.advisory.leave(self.id);
        if let Some(desk) = &partition.grid {
            desk.leave(self.id);
        }
        partition.channels.unlisten(self.id, None);
        self.block = Block::None;
        self.portals = Portals::default();
    }

    fn parse<L: PartitionLock>(
        &mut self,
        name: String,
        sql: String,
        types: &[u32],
        lock: &L,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Result<Option<Next>> {
        self.tell_long_names(&sql, responder);
        if !name.is_empty() && self.prepared.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        self.admit_prepared(&context.limits)?;
        let types = types.iter().map(|oid| {
            let built_in = DataType::from_oid(*oid);
            let found = built_in.or_else(|| self.catalog(&lock.lock()).type_by_oid(*oid));
            found.ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("type with OID {oid} does not exist"),
                )
            })
        });
        let types = types.collect::<Result<Vec<_>>>()?;
        if self.own_catalog().is_none()
            && let Some(key) = self.plan_key(&prepared_key(&sql, &types))
        {
            let cached = context.plans.lock().get(&key).cloned();
            if let Some(cached) = cached
                && let Some(path) = self.path_of_cached(&cached, &lock.lock())
            {
                let prepared = Prepared {
                    statement: cached.statement,
                    path,
                    catalog_version: cached.catalog_version,
                    sql: Arc::from(sql),
                    types: cached.parameter_types.to_vec(),
                    declared: None,
                    since_us: context.now_us,
                    runs: AtomicU64::new(0),
                };
                self.prepared.insert(name, Arc::new(prepared));
                responder.parse_complete();
                return Ok(None);
            }
        }
        self.to_bind = Some(ToBind::Parse { name, sql, types });
        Ok(Some(Next::To(StageKind::Optimizer)))
    }

    pub(super) fn portal_missing(name: &str) -> Error {
        Error::new(
            SqlState::INVALID_CURSOR_NAME,
            format!("portal \"{name}\" does not exist"),
        )
    }

    fn bind<L: PartitionLock>(
        &mut self,
        bind: Bind,
        lock: &L,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Result<Option<Next>> {
        let prepared = Arc::clone(self.prepared(&bind.statement)?);
        if self.block == Block::Failed && !super::block::allowed_after_error(&prepared.statement) {
            return Err(in_failed_block());
        }
        let (given, wanted) = (bind.parameters.len(), prepared.types.len());
        if given != wanted {
            let message = format!(
                "bind message supplies {given} parameters, but prepared statement \"{}\" requires {wanted}",
                bind.statement
            );
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        if bind.parameter_formats.len() > 1 && bind.parameter_formats.len() != given {
            let message = format!(
                "bind message has {} parameter formats but {given} parameters",
                bind.parameter_formats.len()
            );
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        self.portals.may_open(&bind.portal)?;
        if prepared.types.iter().any(|own| own.enum_number().is_some()) {
            self.see_enums(&self.catalog(&lock.lock()));
        }
        let parameters = self.parameters_of(&bind, &prepared)?;
        let prepared = self.renewed_by(&bind.statement, prepared, lock, context)?;
        let columns = output_of(self.answering(&prepared.statement)).len();
        if bind.result_formats.len() > 1 && bind.result_formats.len() != columns {
            let message = format!(
                "bind message has {} result formats but query has {columns} columns",
                bind.result_formats.len()
            );
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        prepared.runs.fetch_add(1, Ordering::Relaxed);
        let portal = Portal::new(prepared, parameters, bind.result_formats, context.now_us);
        self.portals.insert(bind.portal, portal);
        responder.bind_complete();
        Ok(None)
    }

    fn bind_values<L: PartitionLock>(
        &mut self,
        (portal, name): (String, &str),
        values: Vec<Value>,
        formats: Formats,
        lock: &L,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Result<Option<Next>> {
        let prepared = Arc::clone(self.prepared(name)?);
        let fits = |(value, data_type): (&Value, &DataType)| {
            let is_text = data_type.is_text() || matches!(data_type, DataType::Json | DataType::JsonPath);
            let is_number = *data_type == DataType::Oid && matches!(value, Value::Int8(_));
            value.is_null() || value.data_type() == *data_type || is_number || (value.as_str().is_some() && is_text)
        };
        if values.len() != prepared.types.len() || !values.iter().zip(&prepared.types).all(fits) {
            let message = format!("the statement takes parameters of types {:?}", prepared.types);
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let parameters = Arc::from(values);
        let prepared = self.renewed_by(name, prepared, lock, context)?;
        prepared.runs.fetch_add(1, Ordering::Relaxed);
        self.portals.may_open(&portal)?;
        let opened = Portal::new(prepared, parameters, formats, context.now_us);
        self.portals.insert(portal, opened);
        responder.bind_complete();
        Ok(None)
    }

    /// 0A000 if the columns of a statement are not those that its client knows of: its node has yet to hear of a change, of which those
    /// that have the rows know.
    fn check_columns(&self, name: &str, columns: Option<&[DataType]>) -> Result<()> {
        let own = output_of(&self.prepared(name)?.statement);
        match columns.is_none_or(|columns| own.iter().map(|column| &column.data_type).eq(columns)) {
            true => Ok(()),
            false => Err(result_type_changed()),
        }
    }

    /// The values that a statement is bound to.
    pub(super) fn parameters_of(&self, bind: &Bind, prepared: &Prepared) -> Result<Arc<[Value]>> {
        let values = bind.parameters.iter().zip(&prepared.types).enumerate();
        let parameters = values.map(|(index, (value, data_type))| {
            let format = format_of(&bind.parameter_formats, index);
            self.parameter(value, *data_type, format)
                .map_err(|error| error.with_context(format!("unnamed portal parameter ${}", index + 1)))
        });
        parameters.collect()
    }

    fn parameter(&self, value: Option<&[u8]>, data_type: DataType, format: Format) -> Result<Value> {
        let Some(bytes) = value else { return Ok(Value::Null) };
        if format == Format::Binary {
            return parse_binary(data_type, -1, bytes, &self.text);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| {
            Error::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\"",
            )
        })?;
        if text.contains('\0') {
            let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
            return Err(Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message));
        }
        parse_text(data_type, -1, text, &self.text)
    }

    fn describe_statement<L: PartitionLock>(
        &mut self,
        name: &str,
        lock: &L,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Result<Option<Next>> {
        let prepared = Arc::clone(self.prepared(name)?);
        let prepared = self.renewed_by(name, prepared, lock, context)?;
        let answering = self.answering(&prepared.statement);
        let types: Vec<DataType> = prepared.types.iter().map(|t| known_type(*t)).collect();
        responder.parameter_description(&types);
        describe(answering, &[], responder);
        Ok(None)
    }

    fn describe_portal(&mut self, name: &str, responder: &mut dyn Responder) -> Result<Option<Next>> {
        if let Some(portal) = self.portals.get(name) {
            describe(self.answering(&portal.prepared.statement), &portal.formats, responder);
            return Ok(None);
        }
        let elsewhere = self.cursor_elsewhere(name);
        let (statement, formats) = elsewhere.ok_or_else(|| Session::portal_missing(name))?;
        describe(self.answering(statement), &formats, responder);
        Ok(None)
    }

    fn execute(
        &mut self,
        name: String,
        max_rows: u32,
        requests: &VecDeque<Request>,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Result<Option<Next>> {
        let portal = self.portals.get(&name).ok_or_else(|| Session::portal_missing(&name))?;
        if let Some(tag) = portal.done.as_ref().filter(|_| self.block != Block::Failed) {
            if !returns_rows(self.answering(&portal.prepared.statement)) {
                return Err(cannot_be_run(&name));
            }
            responder.command_complete(&without_rows(tag));
            return Ok(None);
        }
        if self.block == Block::Failed && !super::block::allowed_after_error(&portal.prepared.statement) {
            return Err(in_failed_block());
        }
        if portal.has_failed {
            return Err(cannot_be_run(&name));
        }
        // Drivers that want no rows ask for one at most (pgjdbc, of whatever changes rows and of COMMIT). What has none is done as a whole.
        let max_rows = match returns_rows(self.answering(&portal.prepared.statement)) {
            true => max_rows,
            false => 0,
        };
        let portal = self
            .portals
            .get_mut(&name)
            .ok_or_else(|| Session::portal_missing(&name))?;
        // From here on it only reads on.
        if portal.scroll.take_if(|scroll| scroll.is_at_known_end()).is_none() && portal.scroll.is_some() {
            return Err(Error::unsupported("Execute of a cursor that FETCH has moved back"));
        }
        // What comes next may not have been read yet: only what a transaction costs goes by that.
        let is_known_to_be = max_rows == 0 && matches!(requests.front(), Some(Request::Sync));
        let alone = self.block == Block::None
            && self.transaction.is_none()
            && portal.cursor.is_none()
            && (is_known_to_be || runs_alone(&portal.prepared.statement));
        let current = Current {
            statement: portal.prepared.statement.clone(),
            catalog_version: portal.prepared.catalog_version,
            sql: Arc::clone(&portal.prepared.sql),
            is_prepared: true,
            parameters: Arc::clone(&portal.parameters),
            cursor: portal.cursor.take(),
            formats: portal.formats.clone(),
            max_rows: if max_rows == 0 { usize::MAX } else { max_rows as usize },
            rows: 0,
            describe: false,
            savepoint: None,
            mark: responder.buffered_bytes(),
            streamed: false,
            holds: false,
            alone,
            tag: None,
            fetch: None,
            failure: None,
            told_tag: None,
            making: None,
            origin: Origin::Portal(name),
            started_us: context.now_us,
            numbers: None,
            sees_others: false,
            anew: None,
        };
        if !alone
            && self.block == Block::None
            && !matches!(current.statement, Statement::Utility(ref u) if controls_blocks(u))
        {
            self.block = Block::Implicit;
        }
        self.is_batched = self.begins_batch(&current.statement, requests);
        self.current = Some(current);
        Ok(Some(Next::To(StageKind::Security)))
    }

    /// Whether a transaction begins with a change behind which the client has sent many more, or does not say yet that there are no more:
    /// drivers' `executemany` and batches.
    fn begins_batch(&self, first: &Statement, requests: &VecDeque<Request>) -> bool {
        if self.transaction.is_some() || self.away.is_some() || self.is_hosted || !is_change(first) {
            return false;
        }
        let mut changes = 0;
        for request in requests.iter().take(BATCH_LOOKED_AT_MAX) {
            let name = match request {
                Request::Bind(bind) => bind.statement.as_str(),
                Request::BindValues { statement, .. } => statement.as_str(),
                Request::Sync | Request::Flush => return false,
                _ => continue,
            };
            if !self.prepared(name).is_ok_and(|next| is_change(&next.statement)) {
                return false;
            }
            changes += 1;
            if changes >= BATCH_MIN {
                break;
            }
        }
        true
    }

    /// The portal that the current statement came from was run to its row limit: it keeps its place.
    pub(super) fn suspend_portal(&mut self, responder: &mut dyn Responder) {
        let Some(current) = self.current.take() else { return };
        // How long it might take is nothing to what comes next.
        self.deadline_us = None;
        // What it has shown cannot be shown again, and a block run again without it would lose what it wrote and read.
        self.replay.forget();
        if let Origin::Portal(name) = &current.origin
            && let Some(portal) = self.portals.get_mut(name)
        {
            portal.cursor = current.cursor;
        }
        responder.portal_suspended();
    }

    /// Notes that a portal has ended.
    pub(super) fn end_portal(&mut self, name: &str, tag: &str) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.done = Some(tag.to_owned());
            portal.cursor = None;
        }
    }

    fn sync(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Option<Next> {
        self.skip_to_sync = false;
        if self.block == Block::Implicit {
            match self.commit_now(partition, responder) {
                Ok(None) => {}
                Ok(Some(park)) => {
                    // Woken, it comes back to the parser stage, which ends the block first.
                    self.in_script = true;
                    return Some(park);
                }
                Err(error) => {
                    let _ = self.fail(error, partition, responder);
                    self.skip_to_sync = false;
                }
            }
        }
        if self.block != Block::Explicit && self.block != Block::Failed {
            self.portals.clear();
        }
        // Numbers of statements that failed: nobody was shown them, and the next attempt writes them down.
        let _ = self.note_sequences(partition);
        self.deliver(responder);
        self.tell_ready(responder);
        None
    }
}

/// 25P02.
pub(super) fn in_failed_block() -> Error {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Error::new(SqlState::IN_FAILED_SQL_TRANSACTION, message)
}

/// Transaction control ends or begins a block itself.
fn controls_blocks(utility: &Utility) -> bool {
    matches!(
        utility,
        Utility::Begin(_) | Utility::Commit { .. } | Utility::Rollback { .. }
    )
}

/// The columns of a statement's result.
pub(super) fn output_of(statement: &Statement) -> Cow<'_, [OutputColumn]> {
    match statement {
        Statement::Planned(plan) => Cow::Borrowed(&plan.output),
        Statement::Utility(utility) => Cow::Owned(super::utility::output(utility)),
        Statement::Empty | Statement::Elsewhere => Cow::Borrowed(&[]),
    }
}

fn returns_rows(statement: &Statement) -> bool {
    match statement {
        Statement::Planned(plan) => plan.returns_rows(),
        other => !output_of(other).is_empty(),
    }
}

fn describe(statement: &Statement, formats: &[Format], responder: &mut dyn Responder) {
    if returns_rows(statement) {
        responder.row_description(&output_of(statement), formats);
    } else {
        responder.no_data();
    }
}

fn format_of(formats: &[Format], index: usize) -> Format {
    match formats {
        [] => Format::Text,
        [all] => *all,
        each => each.get(index).copied().unwrap_or_default(),
    }
}

fn known_type(data_type: DataType) -> DataType {
    if data_type == DataType::Unknown {
        DataType::Text
    } else {
        data_type
    }
}
