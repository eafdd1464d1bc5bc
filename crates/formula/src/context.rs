//! What an expression may see besides its tuple: parameters, times, and the session around it.

use crate::expr::{ANSWER_BASE, OUTER_BASE};
use crate::lists::ListSets;
use rubato_base::datetime::TimeZone;
use rubato_base::text_format::TextContext;
use rubato_base::{Error, Result, SqlState, Value};
use std::sync::LazyLock;

/// What the part of a statement that belongs to one row has drawn: values that are others each time. A part that is done again after a
/// wait for other nodes has to come to the same, since these have done what it asked for.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// Random numbers, as they came. Where the generator stood says too little: parts behind this one have gone on with it before this one is
    /// done again, which may draw more than before.
    pub random: Vec<u64>,
    /// What the clock said then, in microseconds since 2000-01-01 UTC.
    pub clock_us: i64,
    /// Numbers of sequences.
    pub numbers: Vec<i64>,
}

/// The session and the machine, as far as volatile and stable functions look at them.
///
/// Every method has a default that answers "not here", so that a formula, which may call immutable functions only, needs no
/// session.
pub trait Environment {
    /// `nextval`: takes the next number of a sequence.
    fn next_value(&self, sequence: &str) -> Result<i64> {
        Err(no_session(&format!("nextval({sequence})")))
    }

    /// `currval`: the number that this session took last from a sequence. 55000 if none.
    fn current_value(&self, sequence: &str) -> Result<i64> {
        Err(no_session(&format!("currval({sequence})")))
    }

    /// `lastval`: the number that this session took last from any sequence. 55000 if none.
    fn last_value(&self) -> Result<i64> {
        Err(no_session("lastval()"))
    }

    /// `setval`: sets a sequence; if `is_called`, the next number is the one after `value`.
    fn set_value(&self, sequence: &str, value: i64, is_called: bool) -> Result<i64> {
        let _ = (value, is_called);
        Err(no_session(&format!("setval({sequence})")))
    }

    /// A sequence as SELECT reads it: a number, and whether `nextval` gives the one after it.
    fn sequence_state(&self, sequence: &str) -> Result<(i64, bool)> {
        Err(no_session(&format!("the sequence {sequence}")))
    }

    /// What the session that asks keeps open, as the rows of the system view that lists it.
    fn kept_open(&self, what: KeptOpen) -> Result<Vec<Vec<Value>>> {
        Err(no_session(&format!("the list of {what:?}")))
    }

    /// A random number, at least 0 and below 1.
    fn random(&self) -> Result<f64> {
        Err(no_session("random()"))
    }

    /// `setseed`: the numbers that come from here on. 22023 beyond -1 and 1.
    fn set_seed(&self, seed: f64) -> Result<()> {
        Err(no_session(&format!("setseed({seed})")))
    }

    /// Bytes that nobody can guess, and that come only once.
    fn secret_bytes(&self) -> Result<[u8; 16]> {
        Err(no_session("gen_random_uuid()"))
    }

    /// The clock now, in microseconds since 2000-01-01 UTC.
    fn clock_time_us(&self) -> Result<i64> {
        Err(no_session("clock_timestamp()"))
    }

    /// The part of a statement that belongs to one row begins. If it is done `again`, what it draws from now on is what it drew before.
    fn begin_turn(&self, again: Option<Drawn>) {
        let _ = again;
    }

    /// It ends, or has to wait: what it has drawn.
    fn end_turn(&self) -> Drawn {
        Drawn::default()
    }

    /// The text of a setting as SHOW gives it; `None` if there is no such setting.
    fn setting(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// `set_config`: sets a setting, for this transaction only if `local`, and returns its new text.
    fn set_setting(&self, name: &str, value: &str, local: bool) -> Result<String> {
        let _ = (value, local);
        Err(no_session(&format!("set_config({name})")))
    }

    /// `pg_current_xact_id`: the id of the transaction under way, given now if it has none.
    fn transaction_id(&self) -> Result<i64> {
        Err(no_session("pg_current_xact_id()"))
    }

    /// `pg_current_xact_id_if_assigned`.
    fn assigned_transaction_id(&self) -> Option<i64> {
        None
    }

    /// `pg_xact_status`: what became of the transaction with this id; `None` if it is too old to be known.
    fn transaction_status(&self, id: i64) -> Result<Option<&'static str>> {
        Err(no_session(&format!("pg_xact_status({id})")))
    }

    /// Takes an advisory lock; `false` if it is not to wait and others hold it.
    fn advisory_lock(&self, request: AdvisoryRequest) -> Result<bool> {
        let _ = request;
        Err(no_session("an advisory lock"))
    }

    /// Gives an advisory lock of the session back; `false` if it does not hold it.
    fn advisory_unlock(&self, key: AdvisoryKey, shared: bool) -> Result<bool> {
        let _ = (key, shared);
        Err(no_session("an advisory lock"))
    }

    /// Gives all advisory locks of the session back.
    fn advisory_unlock_all(&self) -> Result<()> {
        Err(no_session("an advisory lock"))
    }

    /// `pg_sleep`.
    fn sleep(&self, seconds: f64) -> Result<()> {
        Err(no_session(&format!("pg_sleep({seconds})")))
    }

    /// `pg_notify`: others are told when the transaction commits.
    fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        let _ = payload;
        Err(no_session(&format!("pg_notify({channel})")))
    }

    /// `pg_cancel_backend` and, if it `terminates`, `pg_terminate_backend`; `false` if there is no such session.
    fn signal(&self, backend_id: i32, terminates: bool) -> Result<bool> {
        let _ = terminates;
        Err(no_session(&format!("a signal to session {backend_id}")))
    }

    /// What the session knows about itself.
    fn fact(&self, fact: SessionFact) -> Value {
        let _ = fact;
        Value::Null
    }

    /// Functions that look into the catalog (`pg_get_indexdef`, `to_regclass`, `pg_relation_size` and their kind), by name, with
    /// the arguments' values. NULL where nothing is known.
    fn catalog_function(&self, name: &str, arguments: &[Value]) -> Result<Value> {
        let _ = (name, arguments);
        Ok(Value::Null)
    }
}

/// The name of an advisory lock: the two kinds never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdvisoryKey {
    /// One `bigint`.
    One(i64),
    /// Two `integer`s.
    Two(i32, i32),
}

/// How long an advisory lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdvisoryScope {
    /// Until it is given back, or the session ends.
    Session,
    /// Until the transaction ends.
    Transaction,
}

/// A wish for an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryRequest {
    /// Its name.
    pub key: AdvisoryKey,
    /// Whether others may hold it shared at the same time.
    pub shared: bool,
    /// How long.
    pub scope: AdvisoryScope,
    /// Whether to wait for it.
    pub waits: bool,
}

/// What a session keeps open between its statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeptOpen {
    /// `pg_prepared_statements`.
    Statements,
    /// `pg_cursors`.
    Cursors,
    /// `pg_listening_channels`.
    Channels,
}

/// A fact about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionFact {
    /// `version()`, text.
    Version,
    /// `current_database()`, text.
    CurrentDatabase,
    /// `current_schema()`, text.
    CurrentSchema,
    /// `current_user`, text.
    CurrentUser,
    /// `session_user`, text.
    SessionUser,
    /// `pg_backend_pid()`, int4.
    BackendId,
    /// `inet_server_addr()`, text.
    ServerAddress,
    /// `inet_server_port()`, int4.
    ServerPort,
    /// `inet_client_addr()`, inet.
    ClientAddress,
    /// `inet_client_port()`, int4.
    ClientPort,
    /// `pg_postmaster_start_time()` and `pg_conf_load_time()`, timestamptz.
    StartTime,
}

/// How many bytes relations take.
pub trait RelationSizes {
    /// The size of a relation, which is named by its number or by its name; `None` if there is none with this number. 42P01 for a
    /// name that is none.
    fn relation(&self, relation: &Value, part: SizePart) -> Result<Option<i64>>;

    /// The size of a database; `None` if there is none with this number. 3D000 for a name that is none.
    fn database(&self, database: &Value) -> Result<Option<i64>>;
}

/// Of what of a relation a size is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizePart {
    /// A table's rows, or an index.
    Own,
    /// The indexes of a table.
    Indexes,
    /// Both.
    Total,
}

fn no_session(what: &str) -> Error {
    Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("{what} cannot be evaluated outside a session"),
    )
}

/// An environment without a session: everything volatile is an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEnvironment;

impl Environment for NoEnvironment {}

/// Everything an expression may depend on besides its tuple.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    /// The parameters of the statement, `$1` first.
    pub parameters: &'a [Value],
    /// The session's time zone, and as `now_us` the start of the transaction.
    pub text: &'a TextContext,
    /// The start of the statement, in microseconds since 2000-01-01 UTC.
    pub statement_time_us: i64,
    /// The session.
    pub environment: &'a dyn Environment,
    /// How large relations are, where the statement asks for that.
    pub sizes: Option<&'a dyn RelationSizes>,
    /// The long lists of the statement by hash, where more than one row is looked at.
    pub lists: Option<&'a ListSets>,
    /// What the statement's queries gave that refer to nothing around them: parameters from [`ANSWER_BASE`] on.
    pub answers: &'a [Value],
    /// The tuple of the query around, as far as it is referred to: parameters from [`OUTER_BASE`] on.
    pub outer: &'a [Value],
    /// Where a step computes them: what queries give for a tuple.
    pub subqueries: Option<&'a dyn Subqueries>,
}

/// Queries within a statement, for one of its steps.
pub trait Subqueries {
    /// What the query with this number gives for these arguments. An error, which is nobody's but the caller's, if that is not known yet.
    fn answer(&self, number: usize, arguments: &[Value]) -> Result<Value>;
}

static PLAIN_TEXT: LazyLock<TextContext> = LazyLock::new(TextContext::default);

impl EvalContext<'static> {
    /// The context of expressions that depend on nothing: no parameters, UTC, no session.
    pub fn constant() -> EvalContext<'static> {
        EvalContext {
            parameters: &[],
            text: &PLAIN_TEXT,
            statement_time_us: 0,
            environment: &NoEnvironment,
            lists: None,
            sizes: None,
            answers: &[],
            outer: &[],
            subqueries: None,
        }
    }
}

impl EvalContext<'_> {
    /// The value of a parameter, by the number that it has in expressions.
    pub fn parameter(&self, index: usize) -> Option<&Value> {
        if index >= OUTER_BASE {
            self.outer.get(index - OUTER_BASE)
        } else if index >= ANSWER_BASE {
            self.answers.get(index - ANSWER_BASE)
        } else {
            self.parameters.get(index)
        }
    }

    /// The start of the transaction, in microseconds since 2000-01-01 UTC.
    pub fn transaction_time_us(&self) -> i64 {
        self.text.now_us
    }

    /// The session's time zone.
    pub fn time_zone(&self) -> &TimeZone {
        &self.text.time_zone
    }
}
