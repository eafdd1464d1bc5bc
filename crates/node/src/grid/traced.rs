//! Statements whose way is recorded: what sessions here have asked other nodes, and how long what others have asked takes here.
//!
//! Nothing is measured for statements of which nobody has asked for it: their messages travel as they are.

use super::GridMessage;
use super::state::GridState;
use crate::node::Shared;
use crate::relay::EPOCH_2000_US;
use rubato_base::trace::{Effort, TraceContext};
use rubato_base::{GlobalId, NodeId, SessionId};
use rubato_grid::traced::{TracedMessage, rows_of};
use rubato_protocol::grid::{Body, Message, Reply, Request};
use rubato_sql::grid::{FarCall, FarTold};
use std::collections::BTreeMap;

/// Branches here whose requests are measured; those of more are not.
const MEASURED_MAX: usize = 4096;
/// Rounds after which a request that was not answered is not measured any more.
const ROUNDS_MAX: u32 = 1200;

/// A request that is measured here.
struct Measured {
    came_us: i64,
    began_us: i64,
    /// When it was done, or began to wait for others.
    left_us: i64,
    rounds: u32,
}

/// What is recorded. Times are in microseconds since 2000-01-01 UTC.
#[derive(Default)]
pub(super) struct Traces {
    /// The sessions here whose statements are recorded.
    sessions: BTreeMap<SessionId, Option<TraceContext>>,
    /// What they have asked and not heard.
    asked: BTreeMap<(SessionId, NodeId), FarCall>,
    /// What others have asked here.
    here: BTreeMap<GlobalId, Measured>,
    /// When the message came that is taken in.
    pub(super) came_us: i64,
}

impl Traces {
    /// See [`rubato_sql::grid::GridDesk::trace`].
    pub(super) fn begin(&mut self, session: SessionId, context: Option<TraceContext>) {
        self.sessions.insert(session, context);
    }

    /// See [`rubato_sql::grid::GridDesk::end_trace`].
    pub(super) fn end(&mut self, session: SessionId) {
        if self.sessions.remove(&session).is_some() {
            self.asked.retain(|(of, _), _| *of != session);
        }
    }

    /// What has taken too long is not waited for.
    pub(super) fn on_round(&mut self) {
        self.here.retain(|_, measured| {
            measured.rounds += 1;
            measured.rounds <= ROUNDS_MAX
        });
    }

    fn on_request(&mut self, global: GlobalId, now_us: i64) {
        if self.here.len() < MEASURED_MAX || self.here.contains_key(&global) {
            let came_us = self.came_us;
            // What is said again was not answered: it came when it came first.
            self.here.entry(global).or_insert(Measured {
                came_us,
                began_us: now_us,
                left_us: now_us,
                rounds: 0,
            });
        }
    }
}

/// The time, as sessions read it.
pub(super) fn now_us(shared: &Shared) -> i64 {
    (shared.settings.clock_us)() - EPOCH_2000_US
}

impl GridState {
    /// A traced message has come: what it says.
    pub(super) fn on_traced(&mut self, shared: &Shared, from: NodeId, traced: TracedMessage) -> GridMessage {
        let TracedMessage { message, effort, .. } = traced;
        match &message.body {
            Body::Request(_) => self.traces.on_request(message.transaction, now_us(shared)),
            Body::Reply(reply) => self.on_traced_reply(shared, from, (&message, reply), effort),
            // What goes from participant to participant is not measured.
            Body::Passed(_) => {}
        }
        GridMessage::Transaction(message)
    }

    /// The request of this transaction is done, or waits.
    pub(super) fn on_request_left(&mut self, shared: &Shared, global: GlobalId) {
        if let Some(measured) = self.traces.here.get_mut(&global) {
            measured.left_us = now_us(shared);
        }
    }

    fn on_traced_reply(
        &mut self,
        shared: &Shared,
        from: NodeId,
        (message, reply): (&Message, &Reply),
        effort: Option<Effort>,
    ) {
        let Some(session) = self.far.session_of(message.transaction) else {
            return;
        };
        let Some(call) = self.traces.asked.get_mut(&(session, from)) else {
            return;
        };
        call.messages += 1;
        call.bytes_received += bytes_of(message);
        if matches!(reply, Reply::Waits | Reply::Inquire) {
            return;
        }
        let Some(mut call) = self.traces.asked.remove(&(session, from)) else {
            return;
        };
        if let Reply::Answer { answer, .. } = reply {
            call.rows = rows_of(answer);
        }
        call.answered_us = now_us(shared);
        call.effort = effort.unwrap_or_default();
        self.far.note(session, FarTold::Called(call));
    }

    /// A message to another node as it travels: with what is to be known of its statement.
    pub(super) fn traced(&mut self, shared: &Shared, to: NodeId, message: Message) -> GridMessage {
        let is_own = to == self.settings.id;
        match &message.body {
            // Nobody answers that a transaction is rolled back.
            Body::Request(Request::Decide(None)) => {}
            Body::Request(request) if !is_own && !self.traces.sessions.is_empty() => {
                let session = self.far.session_of(message.transaction);
                let context = session.and_then(|session| Some((session, *self.traces.sessions.get(&session)?)));
                if let Some((session, context)) = context {
                    let operations = match request {
                        Request::Operate { operation, .. } => operation.count(),
                        _ => 0,
                    };
                    let call = self.traces.asked.entry((session, to)).or_insert_with(|| FarCall {
                        node: to,
                        what: rubato_grid::name_of(&message),
                        operations,
                        rows: 0,
                        messages: 0,
                        bytes_sent: 0,
                        bytes_received: 0,
                        asked_us: now_us(shared),
                        answered_us: 0,
                        effort: Effort::default(),
                    });
                    call.messages += 1;
                    call.bytes_sent += bytes_of(&message);
                    return traced(message, context, None);
                }
            }
            Body::Reply(reply) if !self.traces.here.is_empty() => {
                let goes_on = matches!(reply, Reply::Waits | Reply::Inquire);
                let measured = match goes_on {
                    true => return self.traced_wait(message),
                    false => self.traces.here.remove(&message.transaction),
                };
                if let Some(measured) = measured {
                    let effort = measured.effort(now_us(shared));
                    return traced(message, None, Some(effort));
                }
            }
            _ => {}
        }
        GridMessage::Transaction(message)
    }

    fn traced_wait(&self, message: Message) -> GridMessage {
        match self.traces.here.contains_key(&message.transaction) {
            true => traced(message, None, None),
            false => GridMessage::Transaction(message),
        }
    }
}

impl Measured {
    fn effort(&self, now_us: i64) -> Effort {
        let between = |from_us: i64, to_us: i64| to_us.saturating_sub(from_us).max(0) as u64;
        Effort {
            queued_us: between(self.came_us, self.began_us),
            worked_us: between(self.began_us, self.left_us),
            waited_us: between(self.left_us, now_us),
        }
    }
}

fn traced(message: Message, context: Option<TraceContext>, effort: Option<Effort>) -> GridMessage {
    GridMessage::Traced(Box::new(TracedMessage {
        message,
        context,
        effort,
    }))
}

/// How many bytes a message takes on its way.
fn bytes_of(message: &Message) -> u64 {
    let mut bytes = Vec::new();
    GridMessage::Transaction(message.clone()).encode(&mut bytes);
    bytes.len() as u64
}
