//! The way of one statement through stages and nodes, where somebody has asked for it.

use super::{Next, Origin, Session};
use crate::explain::{NodeFigures, SliceFigures, WayFigures};
use crate::grid::FarCall;
use crate::partition::Partition;
use rubato_base::trace::{Span, SpanId, SpanKind, SpanValue, TraceContext, Tracer, context_in};
use rubato_base::{NodeId, SqlState};
use rubato_stages::StageKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slices of one statement that are told one by one; of more only how many they were.
const SLICE_SPANS_MAX: u64 = 128;
/// Letters of a statement's first word that its span is called by.
const VERB_LETTERS_MAX: usize = 16;

/// A statement of which spans are collected.
struct Traced {
    tracer: Arc<dyn Tracer>,
    /// Where the statement belongs.
    context: TraceContext,
    id: SpanId,
    name: String,
    began_us: i64,
    slices: u64,
}

/// How the statement has ended.
#[derive(Default)]
struct Over {
    failed: Option<SqlState>,
    rows: Option<u64>,
}

/// What is recorded of a statement. Times are in microseconds since 2000-01-01 UTC.
pub(super) struct Way {
    pub(super) began_us: i64,
    /// By the index of the stage.
    slices: BTreeMap<usize, SliceFigures>,
    nodes: BTreeMap<NodeId, NodeFigures>,
    /// The slice under way: where, and since when.
    under_way: Option<(StageKind, i64)>,
    /// When the last one ended, and whether it was to wait for others.
    left: Option<(i64, bool)>,
    traced: Option<Traced>,
    /// It ends with the slice under way.
    over: Option<Over>,
}

impl Way {
    pub(super) fn new(stage: StageKind, now_us: i64) -> Way {
        Way {
            began_us: now_us,
            slices: BTreeMap::new(),
            nodes: BTreeMap::new(),
            under_way: Some((stage, now_us)),
            left: None,
            traced: None,
            over: None,
        }
    }

    /// The figures are of what comes from now on.
    fn begin_anew(&mut self, now_us: i64) {
        (self.began_us, self.left) = (now_us, None);
        self.slices.clear();
        self.nodes.clear();
        if let Some((_, began_us)) = &mut self.under_way {
            *began_us = now_us;
        }
    }

    /// Where parts of the statement on other nodes belong.
    fn context(&self) -> Option<TraceContext> {
        let traced = self.traced.as_ref()?;
        Some(TraceContext {
            trace: traced.context.trace,
            parent: traced.id,
        })
    }

    fn begin_slice(&mut self, stage: StageKind, now_us: i64) {
        let slice = self
            .slices
            .entry(stage.index())
            .or_insert_with(|| SliceFigures::of(stage));
        if let Some((left_us, is_parked)) = self.left.take() {
            let rested_us = between(left_us, now_us);
            match is_parked {
                true => slice.parked_us += rested_us,
                false => slice.queued_us += rested_us,
            }
        }
        self.under_way = Some((stage, now_us));
    }

    fn end_slice(&mut self, is_parked: bool, now_us: i64) {
        if let Some((stage, began_us)) = self.under_way.take() {
            let slice = self
                .slices
                .entry(stage.index())
                .or_insert_with(|| SliceFigures::of(stage));
            slice.slices += 1;
            slice.worked_us += between(began_us, now_us);
            if let Some(traced) = &mut self.traced {
                traced.on_slice(stage, (began_us, now_us));
            }
        }
        self.left = Some((now_us, is_parked));
    }

    /// A node has answered.
    pub(super) fn on_call(&mut self, call: &FarCall) {
        let node = self
            .nodes
            .entry(call.node)
            .or_insert_with(|| NodeFigures::of(call.node));
        node.operations += u64::from(call.operations);
        node.messages += u64::from(call.messages);
        node.bytes_sent += call.bytes_sent;
        node.bytes_received += call.bytes_received;
        node.rows += call.rows;
        node.waited_us += between(call.asked_us, call.answered_us);
        node.effort.add(call.effort);
    }

    fn figures(&mut self, own: Option<NodeId>, now_us: i64) -> WayFigures {
        if self.under_way.is_some() {
            self.end_slice(false, now_us);
        }
        WayFigures {
            node: own,
            nodes: self.nodes.values().cloned().collect(),
            slices: self.slices.values().cloned().collect(),
        }
    }
}

impl Traced {
    fn on_slice(&mut self, stage: StageKind, (began_us, ended_us): (i64, i64)) {
        self.slices += 1;
        if self.slices > SLICE_SPANS_MAX {
            return;
        }
        self.tracer.take(Span {
            context: TraceContext {
                trace: self.context.trace,
                parent: self.id,
            },
            id: self.tracer.span_id(),
            name: format!("{stage} stage").into(),
            kind: SpanKind::Internal,
            began_us,
            ended_us,
            ..Span::default()
        });
    }

    /// The statement has ended.
    fn end(self, over: &Over, ended_us: i64) {
        let failed = over.failed.map(|state| state.as_str().to_owned());
        let state = failed.clone().unwrap_or_else(|| "00000".to_owned());
        let mut span = Span {
            context: self.context,
            id: self.id,
            name: self.name.into(),
            kind: SpanKind::Server,
            began_us: self.began_us,
            ended_us,
            failed,
            attributes: vec![
                ("db.system.name", SpanValue::Text("rubato".to_owned())),
                ("db.response.status_code", SpanValue::Text(state)),
            ],
        }
        .with("rubato.slices", self.slices);
        if let Some(rows) = over.rows {
            span = span.with("db.response.returned_rows", rows);
        }
        self.tracer.take(span);
    }
}

/// A statement's first word.
fn verb_of(sql: &str) -> String {
    let letters = sql.trim_start().chars().take_while(char::is_ascii_alphabetic);
    let verb: String = letters
        .take(VERB_LETTERS_MAX)
        .map(|letter| letter.to_ascii_uppercase())
        .collect();
    if verb.is_empty() { "statement".to_owned() } else { verb }
}

fn between(from_us: i64, to_us: i64) -> u64 {
    to_us.saturating_sub(from_us).max(0) as u64
}

impl Session {
    /// Whether the way of the statement under way is recorded.
    pub fn is_recorded(&self) -> bool {
        self.way.is_some()
    }

    /// A stage begins its part of the work.
    pub fn begin_slice(&mut self, stage: StageKind, now_us: i64) {
        if let Some(way) = &mut self.way {
            way.begin_slice(stage, now_us);
        }
    }

    /// It has ended.
    pub fn end_slice(&mut self, next: Next, now_us: i64) {
        let is_over = self.current.is_none() && self.copy_in.is_none();
        let Some(way) = &mut self.way else { return };
        way.end_slice(matches!(next, Next::Park(_)), now_us);
        if (is_over || way.over.is_some())
            && let Some(way) = self.way.take()
            && let Some(traced) = way.traced
        {
            traced.end(&way.over.unwrap_or_default(), now_us);
        }
    }

    /// Its statements may say that they are traced.
    pub fn may_be_traced(&mut self) {
        self.is_traceable = true;
    }

    /// A script has come: its pieces are without the comments around them.
    pub(super) fn look_for_trace(&mut self, sql: &str) {
        if self.is_traceable {
            self.asked_trace = context_in(sql);
        }
    }

    /// What the session does for one on another node belongs here from now on.
    pub fn belongs_to(&mut self, context: Option<TraceContext>) {
        self.traced_by = context;
    }

    /// A statement begins, of which spans are collected if it is traced: because its client, or the node that it works for, says so,
    /// or by chance.
    pub fn begin_trace(&mut self, tracer: &Arc<dyn Tracer>, partition: &Partition, now_us: i64) {
        let Some(current) = &self.current else { return };
        let asked = match self.traced_by {
            Some(context) => Some(Some(context)),
            None if self.is_hosted => Some(None),
            None if current.origin == Origin::Script => self.asked_trace,
            None => context_in(&current.sql),
        };
        let context = match asked {
            Some(context) => context,
            None => tracer.chooses().then(|| TraceContext {
                trace: tracer.trace_id(),
                parent: SpanId(0),
            }),
        };
        let Some(context) = context.filter(|_| self.way.is_none()) else {
            return;
        };
        let mut way = Way::new(StageKind::Security, now_us);
        way.traced = Some(Traced {
            tracer: Arc::clone(tracer),
            context,
            id: tracer.span_id(),
            name: verb_of(&current.sql),
            began_us: current.started_us.min(now_us),
            slices: 0,
        });
        if let Some(desk) = &partition.grid {
            desk.trace(self.id, way.context());
        }
        self.way = Some(Box::new(way));
    }

    /// Where what other nodes do for the statement belongs.
    pub(super) fn trace_context(&self) -> Option<TraceContext> {
        self.way.as_ref().and_then(|way| way.context())
    }

    /// The statement's figures are wanted from here on.
    pub(super) fn record(&mut self, partition: &Partition, now_us: i64) {
        if let Some(way) = self.way.as_mut().filter(|way| way.traced.is_some()) {
            return way.begin_anew(now_us);
        }
        if let Some(desk) = &partition.grid {
            desk.trace(self.id, None);
        }
        self.way = Some(Box::new(Way::new(StageKind::Transaction, now_us)));
    }

    /// What has been recorded until now.
    pub(super) fn recorded(&mut self, partition: &Partition, now_us: i64) -> Option<WayFigures> {
        let own = partition.grid.as_ref().and_then(|desk| desk.node());
        self.way.as_mut().map(|way| way.figures(own, now_us))
    }

    /// The statement has ended, with this tag.
    pub(super) fn end_record(&mut self, partition: &Partition, tag: &str) {
        let rows = tag.rsplit(' ').next().and_then(|rows| rows.parse().ok());
        self.end_way(partition, Over { failed: None, rows });
    }

    /// It has failed.
    pub(super) fn fail_record(&mut self, partition: &Partition, state: SqlState) {
        let failed = Some(state);
        self.end_way(partition, Over { failed, rows: None });
    }

    fn end_way(&mut self, partition: &Partition, over: Over) {
        if let Some(way) = &mut self.way {
            way.over = Some(over);
            if let Some(desk) = &partition.grid {
                desk.end_trace(self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_called_by_the_first_word_of_its_statement() {
        assert_eq!(verb_of("  select 1"), "SELECT");
        assert_eq!(verb_of("$$"), "statement");
        assert_eq!(verb_of(&"x".repeat(99)).len(), VERB_LETTERS_MAX);
    }
}
