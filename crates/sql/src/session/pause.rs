//! Statements that wait for something other than rows: an advisory lock, the lock of a table, the time of `pg_sleep`, a checkpoint.
//!
//! A function cannot wait where it is called. It says what it waits for and gives an error; the statement is put back to its
//! start, and runs again when the session is woken. So only a SELECT can wait of which nothing has gone out by then; what it had
//! locked it gives back while it waits.

use super::finish::{reads_no_row, reset};
use super::{Current, Next, Session};
use crate::advisory::{AdvisoryLocks, LockMode, Locked};
use crate::checkpoints::Ticket;
use crate::client::Responder;
use crate::databases::DatabaseId;
use crate::partition::Partition;
use rubato_base::{Error, Result, SessionId, SqlState};
use rubato_formula::{AdvisoryKey, AdvisoryRequest, AdvisoryScope};
use rubato_protocol::Outcome;
use rubato_stages::StageKind;
use std::cell::{Cell, RefCell};

/// The longest sleep, in seconds: more than any server runs.
const SLEEP_S_MAX: f64 = 1e10;
/// How often CHECKPOINT looks whether it is done.
const CHECKPOINT_LOOK_US: i64 = 5_000;

/// What a statement waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// The time at which it goes on.
    Until(i64),
    /// An advisory lock.
    Lock,
    /// The lock of a table, of a statement that has done nothing yet.
    Table,
}

impl Pause {
    /// Whether it is a lock: whoever gives it back wakes the session.
    pub(super) fn is_for_lock(self) -> bool {
        matches!(self, Pause::Lock | Pause::Table)
    }
}

/// A lock that the statement under way was given.
type Grant = (AdvisoryKey, bool, AdvisoryScope);

/// Pauses of the statement under way.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// What it waits for now.
    pub(super) pause: Option<Pause>,
    /// Calls of `pg_sleep` that are over.
    slept: u32,
    /// The checkpoint that it has asked for.
    checkpoint: Option<Ticket>,
    /// Locks that it has been given, and has not given back itself.
    grants: Vec<Grant>,
    /// Locks from before it that it has given back, and whether they were shared: others may have them by now, so that this is not undone
    /// when it is run again, nor done twice.
    given_back: Vec<(AdvisoryKey, bool)>,
    /// Whether it has waited for the lock of a table, and may stand in its queue still.
    asks_for_table: bool,
    /// Whether the session has ever taken a lock.
    has_locked: bool,
    /// Whether it kept one when its last statement had ended.
    keeps_locks: bool,
}

/// The session's part of an evaluation.
pub(crate) struct PauseView<'a> {
    pauses: RefCell<&'a mut Pauses>,
    locks: RefCell<&'a mut AdvisoryLocks>,
    session: SessionId,
    database: DatabaseId,
    now_us: i64,
    sleeps: Cell<u32>,
    /// Locks that it had given back when it was run before, and not yet this time.
    to_give_back: RefCell<Vec<(AdvisoryKey, bool)>>,
}

impl<'a> PauseView<'a> {
    pub(super) fn new(
        pauses: &'a mut Pauses,
        locks: &'a mut AdvisoryLocks,
        (session, database): (SessionId, DatabaseId),
        now_us: i64,
    ) -> PauseView<'a> {
        PauseView {
            to_give_back: RefCell::new(pauses.given_back.clone()),
            pauses: RefCell::new(pauses),
            locks: RefCell::new(locks),
            session,
            database,
            now_us,
            sleeps: Cell::new(0),
        }
    }

    pub(crate) fn lock(&self, request: AdvisoryRequest) -> Result<bool> {
        let mut pauses = self.pauses.borrow_mut();
        pauses.has_locked = true;
        if self.locks.borrow_mut().lock(self.session, self.database, request)? {
            pauses.grants.push((request.key, request.shared, request.scope));
            pauses.pause = None;
            return Ok(true);
        }
        if !request.waits {
            return Ok(false);
        }
        pauses.pause = Some(Pause::Lock);
        Err(cannot_wait("an advisory lock that others hold"))
    }

    pub(crate) fn unlock(&self, key: AdvisoryKey, shared: bool) -> bool {
        let (mut pauses, mut before) = (self.pauses.borrow_mut(), self.to_give_back.borrow_mut());
        let own = { pauses.grants.iter() }.rposition(|grant| *grant == (key, shared, AdvisoryScope::Session));
        if let Some(at) = own {
            pauses.grants.swap_remove(at);
        } else if let Some(at) = before.iter().position(|given_back| *given_back == (key, shared)) {
            before.swap_remove(at);
            return true;
        }
        let mut locks = self.locks.borrow_mut();
        let is_held = locks.unlock(self.session, (self.database, key), shared, AdvisoryScope::Session);
        if is_held && own.is_none() {
            pauses.given_back.push((key, shared));
        }
        is_held
    }

    pub(crate) fn unlock_all(&self) {
        let mut pauses = self.pauses.borrow_mut();
        pauses.grants.retain(|grant| grant.2 != AdvisoryScope::Session);
        self.locks.borrow_mut().unlock_all(self.session);
    }

    pub(crate) fn sleep(&self, seconds: f64) -> Result<()> {
        let mut pauses = self.pauses.borrow_mut();
        let call = self.sleeps.replace(self.sleeps.get() + 1);
        if call < pauses.slept || seconds.is_nan() || seconds <= 0.0 {
            // One that did not wait counts like one that has.
            pauses.slept = pauses.slept.max(call + 1);
            return Ok(());
        }
        let sleep_us = (seconds.min(SLEEP_S_MAX) * 1e6).round() as i64;
        let end_us = match pauses.pause {
            // It was woken before its time.
            Some(Pause::Until(end_us)) => end_us,
            _ => self.now_us.saturating_add(sleep_us),
        };
        pauses.pause = Some(Pause::Until(end_us));
        Err(cannot_wait("pg_sleep()"))
    }
}

/// What is told where the statement cannot wait.
fn cannot_wait(what: &str) -> Error {
    Error::unsupported(format!(
        "waiting for {what} in a statement that writes, or whose rows are given in parts"
    ))
    .with_hint("Call the function in a SELECT of its own.")
}

impl Session {
    /// The statement under way has failed because it has to wait: puts it back to its start until then. `None` where it cannot.
    pub(super) fn pause(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Option<Next> {
        let pause = self.pauses.pause?;
        let can_wait = |current: &Current| {
            let has_said_nothing = reads_no_row(&current.statement) && current.rows == 0;
            has_said_nothing || (pause == Pause::Lock && current.is_unseen_query())
        };
        if !self.current.as_ref().is_some_and(can_wait) {
            self.pauses.pause = None;
            partition.advisory.stop_waiting(self.id);
            return None;
        }
        self.give_back_grants(partition);
        if let Some(current) = &mut self.current {
            if current.rows > 0 {
                responder.truncate(current.mark);
            }
            reset(current);
        }
        let pause_us = match pause {
            Pause::Until(end_us) => Some(end_us),
            Pause::Lock | Pause::Table => return Some(self.park_for_lock()),
        };
        self.deadline_us = [self.statement_deadline_us(), pause_us].into_iter().flatten().min();
        Some(Next::Park(self.execution_stage()))
    }

    /// The statement under way begins again: it asks for the lock of a table once more, or for none, if that is gone.
    pub(super) fn begin_utility_again(&mut self) {
        self.pauses.pause.take_if(|pause| *pause == Pause::Table);
    }

    /// The statement under way begins again when its lock may be had, or fails when its time is up.
    pub(super) fn park_for_lock(&mut self) -> Next {
        let limit_us = self.settings.timeout_us("lock_timeout");
        let pause_us = limit_us.map(|limit_us| self.now_us + limit_us);
        self.deadline_us = [self.statement_deadline_us(), pause_us].into_iter().flatten().min();
        Next::Park(self.execution_stage())
    }

    /// Takes the lock of a relation up to the end of the transaction. An error where it does not wait for those who have it (55P03), where
    /// they wait for it (40P01), and, as a sign for [`Session::pause`], where it waits: the statement has done nothing by then.
    pub(super) fn lock_relation(
        &mut self,
        (id, name): (u32, &str),
        mode: LockMode,
        waits: bool,
        partition: &mut Partition,
    ) -> Result<()> {
        self.pauses.has_locked = true;
        let lock = (self.identity.database_id, Locked::Relation(id));
        // It may have waited for the one that had the name before.
        partition.advisory.stop_waiting_but(self.id, Some(lock));
        let how = (mode, AdvisoryScope::Transaction);
        if partition.advisory.take(self.id, lock, how, waits)? {
            self.pauses.pause = None;
            return Ok(());
        }
        if !waits {
            let message = format!("could not obtain lock on relation \"{name}\"");
            return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, message));
        }
        (self.pauses.pause, self.pauses.asks_for_table) = (Some(Pause::Table), true);
        Err(cannot_wait("the lock of a table that others hold"))
    }

    /// The statement under way is woken: what it has slept is over, if that is so. True if it goes on although its deadline has come.
    pub(super) fn wakes_up(&mut self, now_us: i64) -> bool {
        match self.pauses.pause {
            Some(Pause::Until(end_us)) if now_us >= end_us => {
                self.pauses.pause = None;
                self.pauses.slept += 1;
                // Its time may be up as well.
                self.statement_deadline_us()
                    .is_none_or(|deadline_us| end_us < deadline_us)
            }
            _ => false,
        }
    }

    /// CHECKPOINT: waits for one that begins now. Where nobody makes checkpoints there is nothing to do.
    pub(super) fn checkpoint(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Outcome<Next> {
        let asked = self.pauses.checkpoint.or_else(|| partition.checkpoints.ask());
        self.pauses.checkpoint = asked;
        match asked.map_or(Some(Ok(())), |ticket| partition.checkpoints.outcome(ticket)) {
            Some(outcome) => {
                outcome?;
                Ok(self.answered("CHECKPOINT".to_owned(), partition, responder))
            }
            None => Ok(self.look_again(CHECKPOINT_LOOK_US)),
        }
    }

    /// The utility under way is run again after a while: what it waits for wakes nobody.
    pub(super) fn look_again(&mut self, after_us: i64) -> Next {
        let look_us = self.now_us.saturating_add(after_us);
        self.pauses.pause = Some(Pause::Until(look_us));
        self.deadline_us = [self.statement_deadline_us(), Some(look_us)]
            .into_iter()
            .flatten()
            .min();
        Next::Park(StageKind::Transaction)
    }

    /// What the statement under way has locked it locks again when it is run again.
    pub(super) fn give_back_grants(&mut self, partition: &mut Partition) {
        for (key, shared, scope) in std::mem::take(&mut self.pauses.grants) {
            let name = (self.identity.database_id, key);
            partition.advisory.unlock(self.id, name, shared, scope);
        }
    }

    /// Whether the statement under way was given locks that it may have waited for.
    pub(super) fn was_given_locks(&self) -> bool {
        !self.pauses.grants.is_empty()
    }

    /// The statement under way has ended: it keeps what it has locked, and waits no longer.
    pub(super) fn end_pauses(&mut self, partition: &mut Partition) {
        let asks_for_table = std::mem::take(&mut self.pauses.asks_for_table);
        if self.pauses.pause.take().is_some_and(Pause::is_for_lock) || asks_for_table {
            partition.advisory.stop_waiting(self.id);
        }
        self.pauses.slept = 0;
        self.pauses.checkpoint = None;
        self.pauses.grants.clear();
        self.pauses.given_back.clear();
        self.pauses.keeps_locks = self.pauses.has_locked && partition.advisory.are_kept_by(self.id);
    }

    /// Whether the session has advisory locks on this node that its transaction does not end.
    pub fn keeps_locks(&self) -> bool {
        self.pauses.keeps_locks
    }

    /// The transaction has ended, and with it its locks.
    pub(super) fn end_transaction_locks(&mut self, partition: &mut Partition) {
        if self.pauses.has_locked {
            partition.advisory.end_transaction(self.id);
        }
    }

    /// The wall clock was set by so much.
    pub(super) fn shift_pause(&mut self, by_us: i64) {
        if let Some(Pause::Until(end_us)) = &mut self.pauses.pause {
            *end_us = end_us.saturating_add(by_us);
        }
    }
}
