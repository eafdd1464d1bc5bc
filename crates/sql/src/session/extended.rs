//! The extended query protocol: prepared statements and portals, up to Sync.

use super::plans::CachedPlan;
use super::script::{PLAN_TEXT_BYTES_MAX, parameter_types};
use super::{Block, Current, Next, Origin, PartitionLock, Session, SessionContext, ToBind};
use crate::binder;
use crate::client::{Bind, Format, Formats, OutputColumn, Request, Responder};
use crate::executor::Cursor;
use crate::partition::Partition;
use crate::statement::{Statement, Utility};
use rubato_base::binary_format::parse_binary;
use rubato_base::text_format::parse_text;
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_stages::StageKind;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Named prepared statements and portals that one session may keep.
const NAMES_MAX: usize = 65_536;

/// A prepared statement.
pub(super) struct Prepared {
    pub(super) statement: Statement,
    pub(super) catalog_version: u64,
    pub(super) sql: Arc<str>,
    pub(super) types: Vec<DataType>,
}

/// The portals of a session. Nearly always there is the unnamed one and no other: it needs no look-up.
#[derive(Default)]
pub(super) struct Portals {
    unnamed: Option<Portal>,
    named: BTreeMap<String, Portal>,
}

impl Portals {
    fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.named.get(name)
        }
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        if name.is_empty() {
            self.unnamed.as_mut()
        } else {
            self.named.get_mut(name)
        }
    }

    fn insert(&mut self, name: String, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name, portal);
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
        }
    }

    pub(super) fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }

    /// Forgets all but this one.
    pub(super) fn clear_but(&mut self, name: &str) {
        if name.is_empty() {
            self.named.clear();
        } else {
            self.unnamed = None;
            self.named.retain(|other, _| other == name);
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

/// A statement bound to values.
pub(super) struct Portal {
    prepared: Arc<Prepared>,
    parameters: Arc<[Value]>,
    formats: Formats,
    cursor: Option<Box<Cursor>>,
    rows: usize,
    done: Option<String>,
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
        if self.skip_to_sync
            && !matches!(
                request,
                Request::Sync | Request::Query { .. } | Request::Terminate | Request::Invalid { simple: true, .. }
            )
        {
            return None;
        }
        if self.copy_in.is_some() {
            // While data comes in, clients of the extended protocol have sent their Sync already: it is passed over.
            match &request {
                Request::Sync | Request::Flush | Request::GoOn => return None,
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
        let outcome = match request {
            Request::Query { sql } => {
                self.skip_to_sync = false;
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
            Request::Bind(bind) => self.bind(*bind, responder),
            Request::BindValues { statement, values } => self.bind_values(&statement, values, responder),
            Request::DescribeStatement(name) => self.describe_statement(&name, responder),
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
            Err(error) => Some(self.fail(error, &mut lock.lock(), responder)),
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
        self.copy_out = None;
        self.changing_schema = None;
        self.commit_waits_since_us = None;
        self.roll_back(partition);
        partition.advisory.leave(self.id);
        self.block = Block::None;
        self.portals.clear();
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
        if !name.is_empty() && self.prepared.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        if self.prepared.len() >= NAMES_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too many prepared statements in one session",
            ));
        }
        let types = types.iter().map(|oid| {
            DataType::from_oid(*oid).ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("type with OID {oid} does not exist"),
                )
            })
        });
        let types = types.collect::<Result<Vec<_>>>()?;
        let own_catalog = self
            .transaction
            .as_ref()
            .is_some_and(|transaction| transaction.catalog.is_some());
        if !own_catalog && self.settings.sees_public() {
            let cached = context.plans.lock().get(&prepared_key(&sql, &types)).cloned();
            if let Some(cached) = cached
                && cached.catalog_version == lock.lock().catalog.version
            {
                let prepared = Prepared {
                    statement: cached.statement,
                    catalog_version: cached.catalog_version,
                    sql: Arc::from(sql),
                    types: cached.parameter_types.to_vec(),
                };
                self.prepared.insert(name, Arc::new(prepared));
                responder.parse_complete();
                return Ok(None);
            }
        }
        self.to_bind = Some(ToBind::Parse { name, sql, types });
        Ok(Some(Next::To(StageKind::Optimizer)))
    }

    pub(super) fn bind_prepared(
        &mut self,
        sql: &str,
        declared: &[DataType],
        partition: &Partition,
        context: &SessionContext<'_>,
    ) -> Result<Prepared> {
        let catalog = self.catalog(partition);
        let statement = match binder::bind(sql, &[], declared, &catalog, self) {
            Err(error) if error.code() == SqlState::SYNTAX_ERROR => return Err(one_statement_only(sql, error)),
            bound => bound?,
        };
        let types = parameter_types(&statement);
        let is_own = !Arc::ptr_eq(&catalog, &partition.catalog) || !self.settings.sees_public();
        if !is_own && matches!(statement, Statement::Planned(_)) && sql.len() <= PLAN_TEXT_BYTES_MAX {
            let plan = CachedPlan {
                statement: statement.clone(),
                catalog_version: catalog.version,
                parameter_types: Arc::from(types.as_slice()),
            };
            context.plans.lock().put(&prepared_key(sql, declared), plan);
        }
        Ok(Prepared {
            statement,
            catalog_version: catalog.version,
            sql: Arc::from(sql),
            types,
        })
    }

    fn prepared(&self, name: &str) -> Result<&Arc<Prepared>> {
        self.prepared.get(name).ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    pub(super) fn portal_missing(name: &str) -> Error {
        Error::new(
            SqlState::INVALID_CURSOR_NAME,
            format!("portal \"{name}\" does not exist"),
        )
    }

    fn bind(&mut self, bind: Bind, responder: &mut dyn Responder) -> Result<Option<Next>> {
        let prepared = Arc::clone(self.prepared(&bind.statement)?);
        if self.block == Block::Failed && !super::utility::allowed_after_error(&prepared.statement) {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Error::new(SqlState::IN_FAILED_SQL_TRANSACTION, message));
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
        if self.portals.named.contains_key(&bind.portal) {
            let message = format!("cursor \"{}\" already exists", bind.portal);
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, message));
        }
        if self.portals.named.len() >= NAMES_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too many portals in one session",
            ));
        }
        let parameters = bind
            .parameters
            .iter()
            .zip(&prepared.types)
            .enumerate()
            .map(|(index, (value, data_type))| {
                let format = format_of(&bind.parameter_formats, index);
                self.parameter(value, *data_type, format)
                    .map_err(|error| error.with_context(format!("unnamed portal parameter ${}", index + 1)))
            });
        let parameters = parameters.collect::<Result<Arc<[Value]>>>()?;
        let columns = output_of(&prepared.statement).len();
        if bind.result_formats.len() > 1 && bind.result_formats.len() != columns {
            let message = format!(
                "bind message has {} result formats but query has {columns} columns",
                bind.result_formats.len()
            );
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let portal = Portal {
            prepared,
            parameters,
            formats: bind.result_formats,
            cursor: None,
            rows: 0,
            done: None,
        };
        self.portals.insert(bind.portal, portal);
        responder.bind_complete();
        Ok(None)
    }

    fn bind_values(&mut self, name: &str, values: Vec<Value>, responder: &mut dyn Responder) -> Result<Option<Next>> {
        let prepared = Arc::clone(self.prepared(name)?);
        let fits = |(value, data_type): (&Value, &DataType)| {
            value.is_null() || value.data_type() == *data_type || (value.as_str().is_some() && data_type.is_text())
        };
        if values.len() != prepared.types.len() || !values.iter().zip(&prepared.types).all(fits) {
            let message = format!("the statement takes parameters of types {:?}", prepared.types);
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let parameters = Arc::from(values);
        let portal = Portal {
            prepared,
            parameters,
            formats: Formats::new(),
            cursor: None,
            rows: 0,
            done: None,
        };
        self.portals.insert(String::new(), portal);
        responder.bind_complete();
        Ok(None)
    }

    fn parameter(&self, value: Option<&[u8]>, data_type: DataType, format: Format) -> Result<Value> {
        let Some(bytes) = value else { return Ok(Value::Null) };
        if format == Format::Binary {
            return parse_binary(data_type, -1, bytes);
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

    fn describe_statement(&mut self, name: &str, responder: &mut dyn Responder) -> Result<Option<Next>> {
        let prepared = Arc::clone(self.prepared(name)?);
        let types: Vec<DataType> = prepared.types.iter().map(|t| known_type(*t)).collect();
        responder.parameter_description(&types);
        describe(&prepared.statement, &[], responder);
        Ok(None)
    }

    fn describe_portal(&mut self, name: &str, responder: &mut dyn Responder) -> Result<Option<Next>> {
        let portal = self.portals.get(name).ok_or_else(|| Session::portal_missing(name))?;
        describe(&portal.prepared.statement, &portal.formats, responder);
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
        let portal = self
            .portals
            .get_mut(&name)
            .ok_or_else(|| Session::portal_missing(&name))?;
        if let Some(tag) = portal.done.as_ref().filter(|_| self.block != Block::Failed) {
            if !returns_rows(&portal.prepared.statement) {
                let message = format!("portal \"{name}\" cannot be run");
                return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
            }
            responder.command_complete(&without_rows(tag));
            return Ok(None);
        }
        let alone = self.block == Block::None
            && self.transaction.is_none()
            && portal.cursor.is_none()
            && max_rows == 0
            && matches!(requests.front(), Some(Request::Sync));
        let current = Current {
            statement: portal.prepared.statement.clone(),
            catalog_version: portal.prepared.catalog_version,
            sql: Arc::clone(&portal.prepared.sql),
            parameters: Arc::clone(&portal.parameters),
            cursor: portal.cursor.take(),
            formats: portal.formats.clone(),
            max_rows: if max_rows == 0 { usize::MAX } else { max_rows as usize },
            rows: portal.rows,
            describe: false,
            savepoint: None,
            mark: responder.buffered_bytes(),
            streamed: false,
            alone,
            tag: None,
            failure: None,
            origin: Origin::Portal(name),
            started_us: context.now_us,
        };
        if !alone
            && self.block == Block::None
            && !matches!(current.statement, Statement::Utility(ref u) if stands_alone(u))
        {
            self.block = Block::Implicit;
        }
        self.current = Some(current);
        Ok(Some(Next::To(StageKind::Security)))
    }

    /// The portal that the current statement came from was run to its row limit: it keeps its place.
    pub(super) fn suspend_portal(&mut self, responder: &mut dyn Responder) {
        let Some(current) = self.current.take() else { return };
        // What it has shown cannot be shown again, and a block run again without it would lose what it wrote and read.
        self.replay = None;
        if let Origin::Portal(name) = &current.origin
            && let Some(portal) = self.portals.get_mut(name)
        {
            portal.cursor = current.cursor;
            portal.rows = current.rows;
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
        responder.ready_for_query(self.status());
        None
    }
}

/// The plan cache's key of a Parse: the declared types and the text; no simple query's key begins like it.
fn prepared_key(sql: &str, declared: &[DataType]) -> String {
    let mut key = String::with_capacity(sql.len() + declared.len() + 2);
    key.push('\u{1}');
    key.extend(declared.iter().map(|data_type| char::from(b'A' + *data_type as u8)));
    key.push('\u{1}');
    key.push_str(sql);
    key
}

/// Transaction control ends or begins a block itself.
fn stands_alone(utility: &Utility) -> bool {
    matches!(
        utility,
        Utility::Begin(_) | Utility::Commit { .. } | Utility::Rollback { .. } | Utility::Set { .. } | Utility::Show(_)
    )
}

/// The columns of a statement's result.
pub(super) fn output_of(statement: &Statement) -> Cow<'_, [OutputColumn]> {
    match statement {
        Statement::Planned(plan) => Cow::Borrowed(&plan.output),
        Statement::Utility(utility) => Cow::Owned(super::utility::output(utility)),
        Statement::Empty => Cow::Borrowed(&[]),
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

fn one_statement_only(sql: &str, error: Error) -> Error {
    match crate::parser::split_script(sql) {
        Ok(pieces) if pieces.len() > 1 => Error::new(
            SqlState::SYNTAX_ERROR,
            "cannot insert multiple commands into a prepared statement",
        ),
        _ => error,
    }
}
