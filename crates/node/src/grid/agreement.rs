//! A node's voice in what all nodes agree on ([`rubato_grid::agreement`]): its records in the log, and what follows from it for the
//! timestamp stage, which is on the node that leads.

use super::state::GridState;
use super::{GridMessage, GridSettings};
use crate::node::Shared;
use rubato_base::{Lsn, NodeId, Result, Timestamp};
use rubato_grid::agreement::{Agreement, AgreementRecord};
use rubato_protocol::grid::{StageMessage, TickSource, TimestampStage};
use rubato_sql::partition::Partition;
use std::collections::VecDeque;

/// How often what follows from one thing may lead to another before others have their turn.
const STEPS_MAX: usize = 8;

/// What a node's log said of it, or what the first node of a grid begins with.
pub(super) fn agreement_of(settings: &GridSettings, past: Option<&[u8]>, founded_at: Timestamp) -> Result<Agreement> {
    Ok(match past {
        Some(record) => Agreement::resume(settings.id, AgreementRecord::decode(record)?),
        None if settings.founder == settings.id => Agreement::found(settings.id, founded_at),
        None => Agreement::resume(settings.id, AgreementRecord::default()),
    })
}

/// The state machine with what lies between it and the log.
pub(super) struct Agreeing {
    pub(super) agreement: Agreement,
    /// Records on their way to the disk.
    written: VecDeque<(Lsn, u64)>,
    /// Behind the last of them.
    last_lsn: Lsn,
    /// The round that the timestamp stage waits for.
    round: Option<u64>,
    /// No tick up to here: the node has rows of before.
    above: Timestamp,
}

impl Agreeing {
    pub(super) fn new(agreement: Agreement, above: Timestamp) -> Agreeing {
        Agreeing {
            agreement,
            written: VecDeque::new(),
            last_lsn: Lsn(0),
            round: None,
            above,
        }
    }

    /// Whether something waits for the log to be forced further.
    pub(super) fn waits(&self, forced: Lsn) -> bool {
        self.written.back().is_some_and(|(at, _)| *at > forced)
    }
}

impl GridState {
    /// The node that leads, and so hands out ticks; the one that the grid began with where nothing is known yet.
    pub(super) fn leader(&self) -> Option<NodeId> {
        let agreement = &self.agreement.agreement;
        let founder = agreement.voters().is_empty().then_some(self.settings.founder);
        agreement.leader().or(founder)
    }

    /// Whether so many nodes can be reached that they could agree on something.
    pub(super) fn has_majority(&self) -> bool {
        self.is_majority(|_| true)
    }

    /// Whether they could without this node: the only one that has a vote may not go.
    pub(super) fn may_do_without(&self, node: NodeId) -> bool {
        self.is_majority(|voter| voter != node)
    }

    fn is_majority(&self, counts: impl Fn(NodeId) -> bool) -> bool {
        let is_reached = |node| counts(node) && (node == self.settings.id || self.calls.is_up(node));
        let agreement = &self.agreement.agreement;
        match agreement.voters().is_empty() {
            true => is_reached(self.settings.founder),
            false => agreement.is_majority(is_reached),
        }
    }

    /// To whoever hands out ticks. Where nobody is known to, it is said again later.
    pub(super) fn send_to_stage(&mut self, message: StageMessage) {
        if let Some(leader) = self.leader() {
            self.send(leader, GridMessage::Stage(message), self.life_lsn);
        }
    }

    /// A node asks the timestamp stage, or tells it something.
    pub(super) fn on_stage_message(&mut self, from: NodeId, message: StageMessage) {
        let Some(stage) = &mut self.stage else {
            self.refused += 1;
            return;
        };
        let term = match &message {
            StageMessage::Wanted { term, .. } => Some(*term),
            _ => None,
        };
        stage.on_message(from, message);
        if term.is_some_and(|term| self.agreement.agreement.vouches(from, term)) {
            stage.on_vouched(from);
        }
    }

    /// Does what has become possible or necessary, and takes what is to be said.
    pub(super) fn keep_agreement(&mut self, partition: &mut Partition, shared: &Shared) {
        for _ in 0..STEPS_MAX {
            self.keep_records(partition);
            self.keep_stage();
            self.agree_on_catalogs(partition, shared);
            if self.agreement.agreement.record().is_none() {
                break;
            }
        }
        let durable_at = self.life_lsn.max(self.agreement.last_lsn);
        for (to, message) in self.agreement.agreement.poll_outgoing() {
            self.send(to, GridMessage::Agreement(message), durable_at);
        }
    }

    /// Writes down what has changed. A log that cannot take it is tried again, and nothing is said until then.
    fn keep_records(&mut self, partition: &mut Partition) {
        let own = &mut self.agreement;
        while let Some((at, number)) = own.written.front().copied()
            && at <= self.forced
        {
            own.written.pop_front();
            own.agreement.on_durable(number);
        }
        if let Some((number, record)) = own.agreement.record()
            && let Ok(at) = partition.log.append_agreement(&record.encode())
        {
            own.agreement.on_written(number);
            own.written.push_back((at, number));
            own.last_lsn = at;
        }
    }

    /// The timestamp stage is here as long as this node leads, and does what is agreed on.
    fn keep_stage(&mut self) {
        let own = &mut self.agreement;
        let Some((term, agreed)) = own.agreement.leads().zip(own.agreement.agreed()) else {
            (self.stage, own.round) = (None, None);
            return;
        };
        let (tick_bound, catalogs, catalogs_tick) = (agreed.tick_bound, agreed.catalogs, agreed.catalogs_tick);
        // Its own ticks come with that version as those do that others are told.
        self.catalogs.want(catalogs);
        if self.stage.as_ref().is_none_or(|stage| stage.life() != term) {
            // Rule T-2: every stage before this one was bound by what was agreed on.
            let ticks = TickSource::resume(tick_bound.max(own.above.tick()));
            let ticks = ticks.reserving(self.settings.reserved_ticks);
            let mut stage = TimestampStage::new(term, ticks, self.settings.nodes.iter().copied());
            stage.leave_out_after(self.settings.left_out_rounds);
            (self.stage, own.round) = (Some(stage), None);
        }
        let Some(stage) = &mut self.stage else { return };
        stage.set_alone(own.agreement.is_alone());
        stage.set_catalogs(catalogs, catalogs_tick);
        stage.on_bound_durable(tick_bound);
        if let Some(bound) = stage.wanted_bound() {
            own.agreement.want_bound(bound);
        }
        for _ in 0..STEPS_MAX {
            if own.round.is_none() && stage.asks() {
                own.round = Some(own.agreement.want_round(stage.spoken_to()));
            }
            if own.round.is_none_or(|round| round > own.agreement.confirmed_round()) {
                return;
            }
            own.round = None;
            stage.on_confirmed();
        }
    }
}
