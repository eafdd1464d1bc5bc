//! What expressions see of the session while a statement runs.

use super::drawing::BlockDraws;
use super::had::HadNumbers;
use super::kept_open::OpenThings;
use super::pause::PauseView;
use super::random::{Random, Randoms};
use super::settings::Settings;
use super::shown::ShownModes;
use crate::binder::{ResolvedPath, name_of_text, no_relation, split_path};
use crate::catalog::{Catalog, SchemaId, Sequence, no_schema};
use crate::channels::{ChannelAction, ChannelActions};
use crate::databases::DatabaseId;
use crate::insight::Insight;
use crate::partition::SequenceValues;
use crate::system_tables::{self, View};
use rubato_base::text_format::{TextContext, parse_text};
use rubato_base::{Array, DataType, Error, Lsn, Result, SqlState, Value};
use rubato_formula::{AdvisoryKey, AdvisoryRequest, Drawn, Environment, KeptOpen, SessionFact};
use rubato_stages::worker::{Endpoint, Signal, Signals};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Who the session is.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// Its number.
    pub database_id: DatabaseId,
    /// The number by which the client can cancel it.
    pub backend_id: i32,
    /// The client's end of the connection, and the server's; `None` in process.
    pub remote: Option<Endpoint>,
    /// The server's end.
    pub local: Option<Endpoint>,
    /// Reaches the other sessions.
    pub signals: Option<Arc<dyn Signals>>,
    /// When the node was opened, in microseconds since 2000-01-01 UTC.
    pub node_started_us: i64,
}

/// Numbers that the session took from sequences.
#[derive(Clone, Debug, Default)]
pub struct TakenNumbers {
    pub(super) had: HadNumbers,
    /// Whether numbers or ids were taken since the session last wrote down how far they are.
    pub(super) are_new: bool,
    /// Numbers that were fetched for the statement from the node that has the sequences.
    pub(super) ahead: BTreeMap<u32, VecDeque<i64>>,
    /// Some were asked for, and have not come.
    pub(super) are_asked: bool,
    /// Sequences that have ended there, and what is said of them behind the last of these numbers.
    pub(super) ended: BTreeMap<u32, Error>,
    /// The statement has begun on the node that has the sequences, and takes numbers as it goes.
    pub(super) are_here: bool,
    /// What the statement has drawn, for the block to be run again.
    pub(super) drawn: BlockDraws,
}

impl TakenNumbers {
    /// Numbers that a statement has left over are nobody's.
    pub(super) fn forget_ahead(&mut self) {
        if !self.ahead.is_empty() {
            self.ahead.clear();
        }
        if !self.ended.is_empty() {
            self.ended.clear();
        }
    }
}

/// What a row's part draws, or has drawn before and draws again.
pub(super) struct Turn {
    drawn: Drawn,
    /// How many numbers of sequences it has drawn so far.
    numbers: usize,
    /// How many random numbers.
    random: usize,
}

/// The session as [`Environment`]. Changes that functions ask for are kept and carried out by the session afterwards.
pub(crate) struct SessionEnvironment<'a> {
    pub(crate) catalog: &'a Catalog,
    /// Where names without a schema are looked for.
    pub(crate) path: Arc<ResolvedPath>,
    pub(crate) sequences: RefCell<&'a mut SequenceValues>,
    pub(crate) taken: RefCell<&'a mut TakenNumbers>,
    pub(crate) settings: RefCell<&'a mut Settings>,
    /// How its transaction runs, which settings tell too.
    pub(super) modes: ShownModes<'a>,
    pub(crate) identity: &'a Identity,
    /// What the session sees beside its catalog.
    pub(crate) insight: &'a Insight,
    pub(crate) random: Cell<Randoms>,
    pub(crate) clock_us: i64,
    /// The part of a statement that belongs to one row, and what it has drawn.
    pub(super) turn: RefCell<Option<Turn>>,
    /// The id of the transaction, if it was asked for one.
    pub(crate) asked_id: Cell<Option<u64>>,
    /// Behind what the answer depends on beside rows.
    pub(crate) depends_on: Cell<Lsn>,
    /// What it may wait for.
    pub(crate) pauses: PauseView<'a>,
    /// What it does to channels.
    pub(crate) channels: RefCell<&'a mut ChannelActions>,
    /// Its prepared statements and cursors.
    pub(super) open: OpenThings<'a>,
}

impl SessionEnvironment<'_> {
    /// The next number that `draw` gives, or what the row's part has drawn in its place before.
    fn next_random(&self, draw: impl FnOnce(&mut Randoms) -> u64) -> u64 {
        let mut turn = self.turn.borrow_mut();
        let before = turn
            .as_ref()
            .and_then(|turn| turn.drawn.random.get(turn.random))
            .copied();
        let bits = before.unwrap_or_else(|| {
            let mut random = self.random.get();
            let bits = draw(&mut random);
            self.random.set(random);
            bits
        });
        if let Some(turn) = &mut *turn {
            turn.random += 1;
            if before.is_none() {
                turn.drawn.random.push(bits);
            }
        }
        bits
    }

    /// The next number of a sequence that a row's part has drawn before it had to wait.
    fn drawn_before(&self) -> Option<i64> {
        let mut turn = self.turn.borrow_mut();
        let turn = turn.as_mut()?;
        let value = turn.drawn.numbers.get(turn.numbers).copied()?;
        turn.numbers += 1;
        Some(value)
    }

    /// The schemas of the search path that there are, if `with_implicit` also those that are searched in front of them.
    fn current_schemas(&self, with_implicit: bool) -> Value {
        let schemas = if with_implicit {
            &self.path.searched
        } else {
            &self.path.listed
        };
        let name = |schema: &SchemaId| Value::text(&self.catalog.schema_name(*schema));
        let items = schemas.iter().map(name).collect();
        Value::Array(Arc::new(Array::new(DataType::Name, items)))
    }

    /// Errors: 0A000 on a node that does not have what there is once in a grid.
    fn once(&self, what: &str) -> Result<()> {
        if !self.sequences.borrow().are_elsewhere {
            return Ok(());
        }
        if self.taken.borrow().are_here {
            return Err(handed_over());
        }
        let message =
            format!("{what} in a statement that runs on another node than the one that keeps what there is once");
        Err(Error::unsupported(message)
            .with_hint("Connect to that node for this, or begin the transaction with it: then it runs there."))
    }

    /// The next number: of the sequence, or of those that were fetched for the statement.
    fn take_next(&self, sequence: &Sequence) -> Result<i64> {
        let is_here = !self.sequences.borrow().are_elsewhere;
        if self.taken.borrow().drawn.count(sequence.id) > 0 {
            let last = is_here.then(|| self.sequences.borrow().state(sequence));
            if let Some(again) = self.taken.borrow_mut().drawn.next(sequence, last) {
                return Ok(again);
            }
        }
        if is_here {
            return self.sequences.borrow_mut().next(sequence);
        }
        let ahead = |taken: &mut TakenNumbers| taken.ahead.get_mut(&sequence.id)?.pop_front();
        let fetched = ahead(&mut self.taken.borrow_mut());
        if let (None, Some(error)) = (fetched, self.taken.borrow().ended.get(&sequence.id)) {
            return Err(error.clone());
        }
        fetched.map_or_else(|| self.once("a sequence").map(|()| 0), Ok)
    }

    /// The number that a sequence has given last; NULL if it has given none, 42P01 if there is no such sequence.
    fn last_of_sequence(&self, number: i64) -> Result<Value> {
        self.once("a sequence")?;
        let Some(sequence) = system_tables::sequence_by_number(self.catalog, number) else {
            let message = format!("could not open relation with OID {number}");
            return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
        };
        let (last, is_called) = self.sequences.borrow().state(sequence);
        Ok(if is_called { Value::Int8(last) } else { Value::Null })
    }

    fn sequence(&self, name: &str) -> Result<&Sequence> {
        sequence_of(name, self.catalog, &self.path)
    }
}

/// 40001: the node did not keep any more, in the midst of what was done there, what there is once in the grid.
pub(super) fn handed_over() -> Error {
    let detail = "It has begun on a node that has handed over to another one what there is once in the grid.";
    Error::serialization("the transaction has to run on another node", detail.to_owned())
}

/// The sequence that a function names.
pub(super) fn sequence_of<'a>(name: &str, catalog: &'a Catalog, search_path: &ResolvedPath) -> Result<&'a Sequence> {
    // Defaults of columns know their sequences by number.
    if let Ok(number) = name.parse::<u32>() {
        let found = system_tables::sequence_by_number(catalog, i64::from(number));
        return found.map(|sequence| &**sequence).ok_or_else(|| {
            let message = format!("could not open relation with OID {number}");
            Error::new(SqlState::UNDEFINED_TABLE, message)
        });
    }
    let path = name_of_text(name)?;
    let (schema, bare) = split_path(&path, &search_path.database)?;
    let found = search_path.find(schema, bare, catalog)?;
    match found.as_ref().map(|found| (catalog.sequences.get(found), found)) {
        Some((Some(sequence), _)) => Ok(sequence),
        Some((None, found)) => {
            let message = format!("\"{found}\" is not a sequence");
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => {
            let is_there = |schema: &&str| catalog.schema_id(schema).is_some();
            let missing = schema.filter(|schema| !is_there(schema));
            Err(missing.map_or_else(|| no_relation(&path.join(".")), no_schema))
        }
    }
}

impl Environment for SessionEnvironment<'_> {
    fn next_value(&self, sequence: &str) -> Result<i64> {
        let sequence = self.sequence(sequence)?;
        let value = match self.drawn_before() {
            Some(value) => value,
            None => {
                let value = self.take_next(sequence)?;
                self.taken.borrow_mut().drawn.note(sequence.id, value);
                if let Some(turn) = &mut *self.turn.borrow_mut() {
                    turn.drawn.numbers.push(value);
                    turn.numbers += 1;
                }
                value
            }
        };
        let mut taken = self.taken.borrow_mut();
        taken.had.note(sequence.id, value, true);
        taken.are_new = true;
        Ok(value)
    }

    fn current_value(&self, sequence: &str) -> Result<i64> {
        let sequence = self.sequence(sequence)?;
        self.taken.borrow().had.of(sequence.id).ok_or_else(|| {
            let message = format!(
                "currval of sequence \"{}\" is not yet defined in this session",
                sequence.name
            );
            Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn last_value(&self) -> Result<i64> {
        let last = self.taken.borrow().had.last();
        let is_there = |sequence: u32| system_tables::sequence_by_number(self.catalog, i64::from(sequence)).is_some();
        let last = last.filter(|(sequence, _)| is_there(*sequence));
        last.map(|(_, value)| value).ok_or_else(|| {
            Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "lastval is not yet defined in this session",
            )
        })
    }

    fn set_value(&self, sequence: &str, value: i64, is_called: bool) -> Result<i64> {
        self.once("a sequence")?;
        let sequence = self.sequence(sequence)?;
        let value = self.sequences.borrow_mut().set(sequence, value, is_called)?;
        self.taken.borrow_mut().drawn.is_set();
        if is_called {
            self.taken.borrow_mut().had.note(sequence.id, value, false);
        }
        Ok(value)
    }

    fn sequence_state(&self, sequence: &str) -> Result<(i64, bool)> {
        self.once("a sequence")?;
        let sequence = self.sequence(sequence)?;
        Ok(self.sequences.borrow().state(sequence))
    }

    fn kept_open(&self, what: KeptOpen) -> Result<Vec<Vec<Value>>> {
        match what {
            KeptOpen::Statements => self.open.statements(self),
            KeptOpen::Cursors => Ok(self.open.cursors()),
            KeptOpen::Channels => Ok(self.open.channels()),
        }
    }

    fn random(&self) -> Result<f64> {
        Ok(Random::share(self.next_random(Randoms::bits)))
    }

    fn set_seed(&self, seed: f64) -> Result<()> {
        if !(-1.0..=1.0).contains(&seed) {
            let message = format!("setseed parameter {seed} is out of allowed range [-1,1]");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let mut random = self.random.get();
        random.set_seed(seed);
        self.random.set(random);
        Ok(())
    }

    fn secret_bytes(&self) -> Result<[u8; 16]> {
        let mut rest = 0;
        let first = self.next_random(|random| {
            let [first, second] = random.secret();
            rest = second;
            first
        });
        let second = self.next_random(|_| rest);
        let both = u128::from(first) << u64::BITS | u128::from(second);
        Ok(both.to_be_bytes())
    }

    fn clock_time_us(&self) -> Result<i64> {
        let turn = self.turn.borrow();
        Ok(turn.as_ref().map_or(self.clock_us, |turn| turn.drawn.clock_us))
    }

    fn begin_turn(&self, again: Option<Drawn>) {
        let drawn = again.unwrap_or_else(|| Drawn {
            clock_us: self.clock_us,
            ..Drawn::default()
        });
        *self.turn.borrow_mut() = Some(Turn {
            drawn,
            numbers: 0,
            random: 0,
        });
    }

    fn end_turn(&self) -> Drawn {
        let turn = self.turn.borrow_mut().take();
        turn.map_or_else(Drawn::default, |turn| turn.drawn)
    }

    fn setting(&self, name: &str) -> Option<String> {
        let of_transaction = self.modes.shown(name, &self.settings.borrow());
        of_transaction.or_else(|| self.settings.borrow().get(name))
    }

    fn set_setting(&self, name: &str, value: &str, local: bool) -> Result<String> {
        let mut settings = self.settings.borrow_mut();
        // As with SET, everybody may be who he is.
        let is_own = ["role", "session_authorization"]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own));
        if is_own && value == self.identity.user.as_str() {
            return Ok(value.to_owned());
        }
        settings.set_within(name, value, local)?;
        Ok(settings.get(name).unwrap_or_default())
    }

    fn transaction_id(&self) -> Result<i64> {
        let id = match self.asked_id.get() {
            Some(id) => id,
            None => self.sequences.borrow_mut().outcomes.open(),
        };
        self.asked_id.set(Some(id));
        self.taken.borrow_mut().are_new = true;
        Ok(id as i64)
    }

    fn assigned_transaction_id(&self) -> Option<i64> {
        self.asked_id.get().map(|id| id as i64)
    }

    fn transaction_status(&self, id: i64) -> Result<Option<&'static str>> {
        let sequences = self.sequences.borrow();
        self.depends_on
            .set(self.depends_on.get().max(sequences.outcomes.newest()));
        sequences.outcomes.status(u64::try_from(id).unwrap_or(u64::MAX))
    }

    fn advisory_lock(&self, request: AdvisoryRequest) -> Result<bool> {
        self.once("an advisory lock")?;
        self.pauses.lock(request)
    }

    fn advisory_unlock(&self, key: AdvisoryKey, shared: bool) -> Result<bool> {
        Ok(self.pauses.unlock(key, shared))
    }

    fn advisory_unlock_all(&self) -> Result<()> {
        self.pauses.unlock_all();
        Ok(())
    }

    fn sleep(&self, seconds: f64) -> Result<()> {
        self.pauses.sleep(seconds)
    }

    fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        self.channels.borrow_mut().add(ChannelAction::notify(channel, payload)?)
    }

    fn signal(&self, backend_id: i32, terminates: bool) -> Result<bool> {
        if backend_id == self.identity.backend_id {
            return Err(match terminates {
                true => {
                    let message = "terminating connection due to administrator command";
                    Error::new(SqlState::ADMIN_SHUTDOWN, message)
                }
                false => Error::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"),
            });
        }
        let signal = if terminates { Signal::Terminate } else { Signal::Cancel };
        let signals = self.identity.signals.as_ref();
        let is_here = signals.is_some_and(|signals| signals.signal(backend_id, signal));
        Ok(is_here || self.insight.signal(backend_id, signal))
    }

    fn catalog_function(&self, name: &str, arguments: &[Value]) -> Result<Value> {
        if name == "current_schemas" {
            let with_implicit = matches!(arguments, [Value::Bool(true)]);
            return Ok(self.current_schemas(with_implicit));
        }
        if let ("pg_sequence_last_value", [Value::Int8(number)]) = (name, arguments) {
            return self.last_of_sequence(*number);
        }
        if let Some(value) = system_tables::shared_function(name, arguments, &self.insight.databases()) {
            return value;
        }
        let view = View {
            catalog: self.catalog,
            database: &self.identity.database,
            user: &self.identity.user,
            path: &self.path,
        };
        system_tables::call(name, arguments, &view)
    }

    fn fact(&self, fact: SessionFact) -> Value {
        let address = |end: &Option<Endpoint>| end.as_ref().map_or(Value::Null, internet_address);
        let port = |end: &Option<Endpoint>| end.as_ref().map_or(Value::Null, |end| Value::Int4(i32::from(end.port)));
        match fact {
            SessionFact::Version => Value::text(&format!(
                "PostgreSQL 15.0 (Rubato {}), strictly serializable by formulas",
                env!("CARGO_PKG_VERSION")
            )),
            SessionFact::CurrentDatabase => Value::text(&self.identity.database),
            SessionFact::CurrentSchema => {
                let first = self.path.listed.first();
                first.map_or(Value::Null, |schema| Value::text(&self.catalog.schema_name(*schema)))
            }
            SessionFact::CurrentUser | SessionFact::SessionUser => Value::text(&self.identity.user),
            SessionFact::BackendId => Value::Int4(self.identity.backend_id),
            SessionFact::ServerAddress => address(&self.identity.local),
            SessionFact::ServerPort => port(&self.identity.local),
            SessionFact::ClientAddress => address(&self.identity.remote),
            SessionFact::ClientPort => port(&self.identity.remote),
            SessionFact::StartTime => Value::TimestampTz(self.identity.node_started_us),
        }
    }
}

/// The address of one end of the connection; NULL where it is none of the internet.
fn internet_address(end: &Endpoint) -> Value {
    parse_text(DataType::Inet, -1, &end.address, &TextContext::default()).unwrap_or_default()
}
