//! Statements whose way is recorded: what sessions here have asked other nodes, and how long what others have asked takes here.
//!
//! Nothing is measured for statements of which nobody has asked for it: their messages travel as they are.

use super::GridMessage;
use super::state::GridState;
use crate::node::Shared;
use crate::relay::EPOCH_2000_US;
use rubato_base::trace::{Effort, Span, SpanId, SpanKind, TraceContext};
use rubato_base::{GlobalId, NodeId, SessionId};
use rubato_grid::traced::{TracedMessage, rows_of};
use rubato_protocol::grid::{Body, Message, Reply, Request};
use rubato_sql::grid::{FarCall, FarTold};
use std::collections::BTreeMap;

/// Branches here whose requests are measured; those of more are not.
const MEASURED_MAX: usize = 4096;
/// Rounds after which a request that was not answered is not measured any more.
const ROUNDS_MAX: u32 = 1200;

/// Something that a session has asked another node.
struct Asked {
    call: FarCall,
    /// Where it belongs, and what it is called itself, if it is traced.
    span: Option<(TraceContext, SpanId)>,
}

/// A request that is measured here.
struct Measured {
    context: Option<TraceContext>,
    what: &'static str,
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
    asked: BTreeMap<(SessionId, NodeId), Asked>,
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

    fn on_request(&mut self, message: &Message, context: Option<TraceContext>, now_us: i64) {
        let global = message.transaction;
        if self.here.len() < MEASURED_MAX || self.here.contains_key(&global) {
            let came_us = self.came_us;
            // What is said again was not answered: it came when it came first.
            self.here.entry(global).or_insert(Measured {
                context,
                what: rubato_grid::name_of(message),
                came_us,
                began_us: now_us,
                left_us: now_us,
                rounds: 0,
            });
        }
    }
}

/// Whether what was asked is not answered by this.
fn goes_on(reply: &Reply) -> bool {
    matches!(reply, Reply::Waits | Reply::Awaited | Reply::Inquire)
}

/// The time, as sessions read it.
pub(super) fn now_us(shared: &Shared) -> i64 {
    (shared.settings.clock_us)() - EPOCH_2000_US
}

impl GridState {
    /// A traced message has come: what it says.
    pub(super) fn on_traced(&mut self, shared: &Shared, from: NodeId, traced: TracedMessage) -> GridMessage {
        let TracedMessage {
            message,
            context,
            effort,
        } = traced;
        match &message.body {
            Body::Request(_) => self.traces.on_request(&message, context, now_us(shared)),
            Body::Reply(reply) => self.on_traced_reply(shared, from, (&message, reply), effort),
            // What goes from participant to participant, or along waits, is not measured.
            Body::Passed(_) | Body::Waiting(_) => {}
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
        let Some(Asked { call, .. }) = self.traces.asked.get_mut(&(session, from)) else {
            return;
        };
        call.messages += 1;
        call.bytes_received += bytes_of(message);
        if goes_on(reply) {
            return;
        }
        let Some(Asked { mut call, span }) = self.traces.asked.remove(&(session, from)) else {
            return;
        };
        if let Reply::Answer { answer, .. } = reply {
            call.rows = rows_of(answer);
        }
        call.answered_us = now_us(shared);
        call.effort = effort.unwrap_or_default();
        if let (Some((context, id)), Some(tracer)) = (span, &shared.settings.tracer) {
            tracer.take(span_of(&call, context, id));
        }
        self.far.note(session, FarTold::Called(call));
    }

    /// A message to another node as it travels: with what is to be known of its statement.
    pub(super) fn traced(&mut self, shared: &Shared, to: NodeId, message: Message) -> GridMessage {
        let is_own = to == self.settings.id;
        match &message.body {
            // Nobody answers that a transaction is rolled back.
            Body::Request(Request::Decide(None)) => {}
            Body::Request(_) if !is_own && !self.traces.sessions.is_empty() => {
                let session = self.far.session_of(message.transaction);
                let context = session.and_then(|session| Some((session, *self.traces.sessions.get(&session)?)));
                if let Some((session, context)) = context {
                    return self.ask_traced(shared, (session, to), message, context);
                }
            }
            Body::Reply(reply) if !self.traces.here.is_empty() => {
                let measured = match goes_on(reply) {
                    true => return self.traced_wait(message),
                    false => self.traces.here.remove(&message.transaction),
                };
                if let Some(measured) = measured {
                    let now_us = now_us(shared);
                    let effort = measured.effort(now_us);
                    if let (Some(context), Some(tracer)) = (measured.context, &shared.settings.tracer) {
                        tracer.take(measured.span((context, tracer.span_id()), effort, now_us));
                    }
                    return traced(message, None, Some(effort));
                }
            }
            _ => {}
        }
        GridMessage::Transaction(message)
    }

    fn ask_traced(
        &mut self,
        shared: &Shared,
        (session, to): (SessionId, NodeId),
        message: Message,
        context: Option<TraceContext>,
    ) -> GridMessage {
        let operations = match &message.body {
            Body::Request(Request::Operate { operation, .. }) => operation.count(),
            // The statement does not wait for it to be carried out: the other node's part belongs to the statement itself.
            Body::Request(Request::Decide(_)) if context.is_none() => return GridMessage::Transaction(message),
            Body::Request(Request::Decide(_)) => return traced(message, context, None),
            _ => 0,
        };
        // What is said again belongs to what was said first.
        let asked = self.traces.asked.entry((session, to)).or_insert_with(|| Asked {
            call: FarCall {
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
            },
            span: context.zip(shared.settings.tracer.as_ref().map(|tracer| tracer.span_id())),
        });
        asked.call.messages += 1;
        asked.call.bytes_sent += bytes_of(&message);
        let context = asked.span.map(|(context, id)| TraceContext {
            trace: context.trace,
            parent: id,
        });
        traced(message, context, None)
    }

    fn traced_wait(&self, message: Message) -> GridMessage {
        match self.traces.here.contains_key(&message.transaction) {
            true => traced(message, None, None),
            false => GridMessage::Transaction(message),
        }
    }
}

/// What a message is called in a span.
fn title_of(what: &'static str) -> &'static str {
    what.strip_prefix("message: ").unwrap_or(what)
}

fn span_of(call: &FarCall, context: TraceContext, id: SpanId) -> Span {
    let span = Span {
        context,
        id,
        name: format!("{} at node {}", title_of(call.what), call.node).into(),
        kind: SpanKind::Client,
        began_us: call.asked_us,
        ended_us: call.answered_us,
        ..Span::default()
    };
    span.with("rubato.operations", u64::from(call.operations))
        .with("rubato.messages", u64::from(call.messages))
        .with("rubato.bytes_sent", call.bytes_sent)
        .with("rubato.bytes_received", call.bytes_received)
        .with("rubato.rows", call.rows)
}

impl Measured {
    fn span(&self, (context, id): (TraceContext, SpanId), effort: Effort, ended_us: i64) -> Span {
        let span = Span {
            context,
            id,
            name: title_of(self.what).into(),
            kind: SpanKind::Server,
            began_us: self.came_us,
            ended_us,
            ..Span::default()
        };
        span.with("rubato.queued_us", effort.queued_us)
            .with("rubato.worked_us", effort.worked_us)
            .with("rubato.waited_us", effort.waited_us)
    }

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
