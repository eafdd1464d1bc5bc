//! The client's end of transactions that run on other nodes: what sessions here have called for, and what has come back.

use super::GridMessage;
use super::state::GridState;
use rubato_base::{Error, LastNumbers, Lsn, NodeId, Result, SessionId, SqlState};
use rubato_grid::work::{
    WorkCall, WorkCatalog, WorkContent, WorkDataEnd, WorkEnd, WorkMessage, WorkOutcome, WorkRun, WorkStatus,
};
use rubato_sql::catalog::SchemaId;
use rubato_sql::catalog_codec::decode_catalog;
use rubato_sql::client::{Format, TransactionStatus};
use rubato_sql::grid::{Answer, Call, Completed, DataEnd, Ended, Run};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What a session has told a node that keeps one for it: its settings, and the last numbers that it has had of sequences.
type Told = (Arc<[(String, String)]>, Option<Arc<LastNumbers>>);

/// What one life of a node calls or asks for is counted in so many bits: an answer to an earlier life is known by its number. Sessions have
/// the same numbers in each life.
pub(super) const NUMBER_BITS: u32 = 40;

/// What a session has called for.
#[derive(Default)]
struct Calling {
    /// Of its last call, which may have ended: the life of this node, and which of the session's calls it is.
    number: u64,
    /// The node that has not said how that call ended.
    awaits: Option<NodeId>,
    /// The node that was called last, unless that was given up or is lost: what it has answered may not have been taken, or asks for more.
    called: Option<NodeId>,
    /// Whether a transaction was there already, or was begun with the call.
    in_block: bool,
    /// Whether the call may have committed something.
    may_commit: bool,
    /// Whether it may have taken a lock of the session's.
    may_lock: bool,
    /// What has come and was not taken.
    answers: VecDeque<Answer>,
    /// The nodes that may keep a session for it, and what these have taken in of the client, where that is known.
    told: BTreeMap<NodeId, Option<Told>>,
    /// What the call says of the client: it is told when the answer says that it was taken in.
    says: Option<Told>,
    /// The node that has its advisory locks.
    locks_at: Option<NodeId>,
}

/// The calls of all sessions of a node.
#[derive(Default)]
pub(super) struct Calls {
    sessions: BTreeMap<SessionId, Calling>,
    /// Nodes that cannot be reached.
    down: BTreeSet<NodeId>,
    /// Nodes to which a channel stands. Of others it may not be known yet that they cannot be reached.
    up: BTreeSet<NodeId>,
    woken: Vec<SessionId>,
    /// Sessions whose advisory locks others may have.
    bereaved: Vec<SessionId>,
}

impl Calls {
    /// Sessions to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.woken)
    }

    /// Sessions that are to end because others may have their advisory locks.
    pub(super) fn take_bereaved(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.bereaved)
    }

    /// Whether a node has a session for this one, and has had it since it was first called.
    pub(super) fn is_kept_by(&self, session: SessionId, node: NodeId) -> bool {
        let calling = self.sessions.get(&session);
        calling.is_some_and(|calling| calling.told.contains_key(&node))
    }

    /// Whether the node can be reached.
    pub(super) fn is_up(&self, node: NodeId) -> bool {
        !self.down.contains(&node)
    }

    /// Whether a channel to the node stands.
    pub(super) fn is_connected(&self, node: NodeId) -> bool {
        self.up.contains(&node)
    }

    /// The nodes that cannot be reached.
    pub(super) fn down(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.down.iter().copied()
    }

    /// The node can be reached again.
    pub(super) fn on_up(&mut self, node: NodeId) {
        self.down.remove(&node);
        self.up.insert(node);
    }

    /// The node cannot be reached: what it was to answer is lost, and what it keeps for sessions here.
    pub(super) fn on_down(&mut self, node: NodeId) {
        self.down.insert(node);
        self.up.remove(&node);
        for (session, calling) in &mut self.sessions {
            calling.told.remove(&node);
            calling.called.take_if(|called| *called == node);
            if calling.locks_at.take_if(|keeper| *keeper == node).is_some() {
                self.bereaved.push(*session);
            }
            if calling.awaits.take_if(|awaited| *awaited == node).is_none() {
                continue;
            }
            let error = if calling.may_commit {
                let message = format!("the connection to node {} was lost while it committed", node.0);
                Error::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message)
                    .with_hint("Whether the transaction has committed can be seen by what it has changed.")
            } else {
                cannot_be_reached(node)
            };
            let end = Some(Ended::lost(error));
            calling.answers.push_back(Answer { told: Vec::new(), end });
            self.woken.push(*session);
        }
    }

    /// What a node says to a call; false if nobody waits for it.
    pub(super) fn on_answer(&mut self, from: NodeId, message: WorkMessage) -> bool {
        let session = SessionId(message.session);
        let WorkContent::Answer { told, end } = message.content else {
            return false;
        };
        let Some(calling) = self.sessions.get_mut(&session) else {
            return false;
        };
        if calling.number != message.number || calling.awaits != Some(from) {
            return false;
        }
        if let Some(end) = &end {
            calling.awaits = None;
            let says = calling.says.take().filter(|_| end.is_taken_in);
            if let (Some(told), Some(says)) = (calling.told.get_mut(&from), says) {
                *told = Some(says);
            }
            match end.locks {
                true => calling.locks_at = Some(from),
                false => drop(calling.locks_at.take_if(|keeper| *keeper == from)),
            }
        }
        calling.answers.push_back(Answer {
            told,
            end: end.map(ended),
        });
        self.woken.push(session);
        true
    }
}

impl GridState {
    /// See [`rubato_sql::grid::GridDesk::call`].
    pub(super) fn call(&mut self, session: SessionId, to: NodeId, call: Call) -> Result<()> {
        if to == self.settings.id {
            return Err(Error::internal("a node calls itself"));
        }
        if !self.settings.nodes.contains(&to) && to <= self.settings.last {
            // With it has gone what it had not been asked to commit. Another try goes where things are now.
            let message = format!("node {} was removed from the grid", to.0);
            return Err(Error::serialization(message, format!("session {}", session.0)));
        }
        if !self.reaches(to) {
            return Err(cannot_be_reached(to));
        }
        let life = self.standing.life;
        let calling = self.calls.sessions.entry(session).or_insert_with(|| Calling {
            number: life << NUMBER_BITS,
            ..Calling::default()
        });
        calling.number += 1;
        calling.answers.clear();
        (calling.awaits, calling.called) = (Some(to), Some(to));
        calling.in_block = call.in_block || call.begin.is_some();
        calling.may_lock = call.may_lock;
        let commits = matches!(&call.run, Run::Text(text) if text == "COMMIT");
        calling.may_commit = commits || !(calling.in_block || call.only_reads);
        calling.says = Some((Arc::clone(&call.settings), call.numbers.clone()));
        let known = calling.told.insert(to, None).flatten();
        let knows_settings = { known.as_ref() }.is_some_and(|(settings, _)| *settings == call.settings);
        let knows_numbers = known.map_or(call.numbers.is_none(), |(_, numbers)| numbers == call.numbers);
        let settings = (!knows_settings).then(|| call.settings.to_vec());
        let numbers = (!knows_numbers).then(|| call.numbers.as_deref().cloned().unwrap_or_default());
        let number = calling.number;
        let content = WorkContent::Call(Box::new(WorkCall {
            user: call.user,
            database: call.database,
            database_id: call.database_id.0,
            backend_id: call.backend_id,
            settings,
            in_block: call.in_block,
            begin: call.begin,
            temporary: call.temporary.map_or(0, |schema| schema.0),
            trace: call.trace,
            draws: call.draws,
            numbers,
            began_us: call.began_us,
            run: run(call.run),
        }));
        self.send_work(session, to, number, content);
        Ok(())
    }

    /// See [`rubato_sql::grid::GridDesk::take_answer`].
    pub(super) fn take_answer(&mut self, session: SessionId) -> Option<Answer> {
        let calling = self.calls.sessions.get_mut(&session)?;
        let answer = calling.answers.pop_front()?;
        let (number, awaits) = (calling.number, calling.awaits);
        if let (None, Some(node)) = (&answer.end, awaits) {
            self.send_work(session, node, number, WorkContent::More);
        }
        Some(answer)
    }

    /// See [`rubato_sql::grid::GridDesk::give_up`].
    pub(super) fn give_up(&mut self, session: SessionId) {
        let Some(calling) = self.calls.sessions.get_mut(&session) else {
            return;
        };
        calling.answers.clear();
        (calling.awaits, calling.says) = (None, None);
        let number = calling.number;
        if let Some(node) = calling.called.take() {
            self.send_work(session, node, number, WorkContent::GiveUp);
        }
    }

    /// See [`rubato_sql::grid::GridDesk::cancel`].
    pub(super) fn cancel(&mut self, session: SessionId) -> bool {
        let leaves_something = |calling: &&Calling| calling.may_commit || calling.may_lock;
        let Some(calling) = self.calls.sessions.get(&session).filter(leaves_something) else {
            return false;
        };
        let (number, awaits, is_answered) = (calling.number, calling.awaits, !calling.answers.is_empty());
        if let Some(node) = awaits {
            self.send_work(session, node, number, WorkContent::Cancel);
        }
        awaits.is_some() || is_answered
    }

    /// See [`rubato_sql::grid::GridDesk::leave`].
    pub(super) fn leave(&mut self, session: SessionId) {
        let Some(calling) = self.calls.sessions.remove(&session) else {
            return;
        };
        for node in calling.told.into_keys() {
            self.send_work(session, node, calling.number, WorkContent::Leave);
        }
    }

    /// Not dropped, however many wait: nobody would say it again, and each session has one call at a time.
    fn send_work(&mut self, session: SessionId, to: NodeId, number: u64, content: WorkContent) {
        let message = GridMessage::Work(WorkMessage {
            session: session.0,
            number,
            content,
        });
        self.outgoing.push_anyway(Lsn(0), (to, message));
    }
}

/// What takes the place of a message that no channel takes: an answer in the place of a call, an error in that of an answer.
pub(super) fn in_place_of(message: WorkMessage) -> Option<(bool, WorkMessage)> {
    let is_call = match &message.content {
        WorkContent::Call(_) => true,
        WorkContent::Answer { .. } => false,
        WorkContent::More | WorkContent::GiveUp | WorkContent::Cancel | WorkContent::Leave => return None,
    };
    let what = if is_call { "statement" } else { "row" };
    let text = format!("a {what} is too large to be sent to another node of the grid");
    let error = Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text);
    let content = WorkContent::Answer {
        told: Vec::new(),
        end: Some(WorkEnd::lost(error)),
    };
    Some((is_call, WorkMessage { content, ..message }))
}

pub(super) fn cannot_be_reached(node: NodeId) -> Error {
    let message = format!("node {}, which has the rows, cannot be reached", node.0);
    Error::new(SqlState::CANNOT_CONNECT_NOW, message).with_hint("Try again when it is back.")
}

fn run(run: Run) -> WorkRun {
    match run {
        Run::Text(text) => WorkRun::Text(text),
        Run::LayAnew(text) => WorkRun::LayAnew(text),
        Run::More { portal, max_rows } => WorkRun::More { portal, max_rows },
        Run::Prepared {
            sql,
            types,
            values,
            columns,
            formats,
            portal,
            max_rows,
        } => WorkRun::Prepared {
            sql,
            types,
            values,
            columns,
            binary: formats.iter().map(|format| *format == Format::Binary).collect(),
            portal,
            max_rows,
        },
        Run::Data { data, end } => WorkRun::Data {
            data,
            end: match end {
                DataEnd::More => WorkDataEnd::More,
                DataEnd::Done => WorkDataEnd::Done,
                DataEnd::Failed(why) => WorkDataEnd::Failed(why),
            },
        },
    }
}

fn ended(end: WorkEnd) -> Ended {
    let (catalog, damage) = match end.catalog {
        WorkCatalog::AsBefore => (None, None),
        WorkCatalog::Committed => (Some(None), None),
        WorkCatalog::Own(content) => match decode_catalog(&content) {
            Ok(catalog) => (Some(Some(Arc::new(catalog))), None),
            Err(error) => (None, Some(error)),
        },
    };
    let outcome = match end.outcome {
        WorkOutcome::Tag(tag) => Ok(Completed::Tag(tag)),
        WorkOutcome::Suspended => Ok(Completed::Suspended),
        WorkOutcome::Empty => Ok(Completed::Empty),
        WorkOutcome::AwaitsData => Ok(Completed::AwaitsData),
        WorkOutcome::Failed(error) => Err(error),
    };
    Ended {
        outcome: damage.map_or(outcome, Err),
        status: match end.status {
            WorkStatus::Idle => TransactionStatus::Idle,
            WorkStatus::Open => TransactionStatus::InTransaction,
            WorkStatus::Failed => TransactionStatus::Failed,
        },
        temporary: (end.temporary != 0).then_some(SchemaId(end.temporary)),
        catalog,
        numbers: end.numbers,
        settings: end.settings,
    }
}
