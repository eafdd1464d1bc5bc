//! What a node of the grid knows beside its partition, and what it does when it hears something.

use super::activity::Activity;
use super::agreement::Agreeing;
use super::calls::Calls;
use super::catalogs::Catalogs;
use super::clients::Clients;
use super::cut_off::CutOff;
use super::far::FarSessions;
use super::keeping::HandingOver;
use super::numbers::Numbers;
use super::onward::Ways;
use super::outbox::{Along, HELD_MAX, Held};
use super::sessions::SessionTicks;
use super::telling::Tellings;
use super::traced::Traces;
use super::{ClientTold, GridMessage, GridSettings, SAY_AGAIN_ROUNDS, node_of_key};
use crate::hosted;
use crate::node::Shared;
use rubato_base::{Error, Lsn, NodeId, Result, Timestamp};
use rubato_grid::work::WorkContent;
use rubato_protocol::StandingRecord;
use rubato_protocol::grid::{
    Body, Coordinator, Heard, Message, Outgoing, Participant, Reply, Request, StageMessage, TickAsker, TickFor,
    TickSource, TimestampStage, Waiting,
};
use rubato_sql::databases::Databases;
use rubato_sql::partition::Partition;
use rubato_sql::route::Layout;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The parts of a node of the grid that are not its rows. Whoever works with it has the partition first.
pub(super) struct GridState {
    pub(super) settings: GridSettings,
    pub(super) standing: StandingRecord,
    /// How far the log reached when this life began.
    pub(super) log_end: u64,
    /// Behind the record of this life: nobody hears of the life before the log is forced up to here.
    pub(super) life_lsn: Lsn,
    pub(super) coordinator: Coordinator,
    /// From its birth on.
    pub(super) participant: Option<Participant>,
    pub(super) asker: TickAsker,
    /// Whether the rows keep no version for transactions that have not begun here.
    pub(super) knows_all_snapshots: bool,
    /// While this node leads.
    pub(super) stage: Option<TimestampStage>,
    pub(super) agreement: Agreeing,
    pub(super) outgoing: Held<(NodeId, GridMessage)>,
    /// What of it may leave.
    /// See [`super::GridNode::put_off_questions`].
    pub(super) puts_off_questions: bool,
    pub(super) leaving: Vec<(NodeId, GridMessage)>,
    /// What of it waits for more to be said.
    pub(super) along: Along,
    pub(super) told: Held<(u64, ClientTold)>,
    pub(super) clients: Clients,
    pub(super) far: FarSessions,
    /// How the rows lie by the catalogs that were asked about last.
    pub(super) layout: Option<(Arc<Databases>, Option<Arc<Layout>>)>,
    pub(super) sessions: SessionTicks,
    pub(super) calls: Calls,
    pub(super) cut_off: CutOff,
    pub(super) ways: Ways,
    pub(super) numbers: Numbers,
    pub(super) traces: Traces,
    pub(super) activity: Activity,
    pub(super) tellings: Tellings,
    pub(super) catalogs: Catalogs,
    pub(super) handing: HandingOver,
    /// Whether a change of catalogs holds back answers until others know of it.
    pub(super) holds_for_others: Arc<AtomicBool>,
    /// What was heard about the work for clients of other nodes.
    pub(super) work: Vec<hosted::Heard>,
    /// How far the log is forced, as the owner says.
    pub(super) forced: Lsn,
    pub(super) last_round_us: Option<i64>,
    /// Nodes that are to be members no more.
    pub(super) removed: BTreeSet<NodeId>,
    /// Why this node serves nobody any more, if it does not.
    pub(super) retired: Option<Error>,
    /// Messages refused before they reached anybody.
    pub(super) refused: u64,
}

impl GridState {
    /// Whether a node is a member, as far as is known here, and can be reached.
    pub(super) fn reaches(&self, node: NodeId) -> bool {
        self.settings.nodes.contains(&node) && self.calls.is_up(node)
    }

    /// A time for saying again what was not answered.
    pub(super) fn on_round(&mut self, partition: &mut Partition) {
        self.outgoing.hurry();
        self.along.hurry();
        self.end_decisions_of_removed(partition);
        self.coordinator.on_timer();
        if let Some(participant) = &mut self.participant {
            participant.on_timer();
            participant.end_waits_in_doubt(&mut partition.database);
        }
        let patience_rounds = self.patience_for_ticks_rounds();
        self.clients.on_round(patience_rounds, &mut self.told);
        self.sessions.on_round(patience_rounds);
        self.ways.on_round();
        self.on_round_of_numbers();
        self.cut_off
            .on_round(&self.calls, self.participant.is_some(), self.settings.keeper);
        self.traces.on_round();
        self.tell_late();
        self.activity.on_round(&self.calls);
        if let Some(again) = self.asker.on_timer() {
            self.send_to_stage(again);
        }
        self.on_round_of_catalogs();
        self.hand_over_again();
        let (nodes, keeper) = (&self.settings.nodes, self.settings.keeper);
        self.agreement.agreement.on_round(nodes, keeper);
        let report = self.asker.report(self.live(partition));
        match &mut self.stage {
            Some(stage) => {
                // Rule F-5: what was taken here until now is in it.
                stage.on_message(self.settings.id, report);
                stage.on_timer();
            }
            None => self.send_to_stage(report),
        }
    }

    /// A node that is no member any more has no rows: what was decided, and it is not known to have carried out, is done with.
    fn end_decisions_of_removed(&mut self, partition: &mut Partition) {
        for (transaction, _, owing) in self.coordinator.undone_decisions() {
            for node in owing.into_iter().filter(|node| !self.settings.nodes.contains(node)) {
                let body = Body::Reply(Reply::Done);
                let (done, mut no_ticks) = (Message { transaction, body }, TickSource::default());
                self.coordinator
                    .on_message(node, done, &mut no_ticks, &mut *partition.log);
            }
        }
    }

    /// Errors: 57P03 if the node was removed from its grid, or stands on a folder that is not its newest one.
    pub(super) fn check_member(&self) -> Result<()> {
        self.retired.clone().map_or(Ok(()), Err)
    }

    /// Another node is heard of, or is not any more.
    pub(super) fn on_reach(&mut self, node: NodeId, is_reached: bool) {
        if let Some(participant) = &mut self.participant {
            participant.on_reach(node, is_reached);
        }
    }

    /// Nothing comes from the node any more unless a channel to it comes about: what is waited for from there is lost.
    pub(super) fn on_lost(&mut self, node: NodeId) {
        self.calls.on_down(node);
        self.on_reach(node, false);
        self.on_far_node_down(node);
        self.activity.give_up(node);
        self.numbers.give_up(node);
        // Whoever comes by the next channel has not called for it.
        let is_kept = |(to, message): &(NodeId, GridMessage)| *to != node || !matches!(message, GridMessage::Work(_));
        self.outgoing.retain(is_kept);
        self.leaving.retain(is_kept);
        self.work.push(hosted::Heard::Down(node));
    }

    /// The node serves nobody any more: whoever asks it is told so, and who waits for others that what he waits for is lost, since no
    /// channel says that any more.
    pub(super) fn retire(&mut self, why: Error) {
        self.retired.get_or_insert(why);
        self.sessions.give_up();
        let own = self.settings.id;
        let others = self.settings.nodes.iter().copied().filter(|node| *node != own);
        for node in others.collect::<Vec<_>>() {
            self.on_lost(node);
        }
    }

    /// How many other nodes it does not reach.
    pub(super) fn unreached(&self) -> usize {
        let is_member = |node: &NodeId| self.settings.nodes.contains(node);
        self.calls.down().filter(is_member).count()
    }

    /// Where the transactions began that are live here, or are about to begin: each may come to any node.
    fn live(&self, partition: &Partition) -> Vec<Timestamp> {
        let mut live: Vec<Timestamp> = self.coordinator.open_transactions().map(|global| global.tick).collect();
        live.extend(self.sessions.ready());
        live.extend(partition.database.begun_by_sessions());
        live.sort_unstable();
        live.dedup();
        live
    }

    /// Hands a message to whom it concerns.
    pub(super) fn deliver(&mut self, partition: &mut Partition, shared: &Shared, from: NodeId, message: GridMessage) {
        if let GridMessage::Traced(traced) = message {
            let global = traced.message.transaction;
            let message = self.on_traced(shared, from, *traced);
            self.deliver(partition, shared, from, message);
            return self.on_request_left(shared, global);
        }
        if matches!(&message, GridMessage::Transaction(message) if may_change_rows(&message.body)) {
            // As for a session's statement that writes.
            shared.keep_admission(partition);
            if let Some(participant) = &mut self.participant {
                participant.refuse_writes(partition.refuses_writes.clone());
            }
        }
        let Partition {
            database,
            log,
            schema_changes,
            ..
        } = &mut *partition;
        match message {
            GridMessage::Transaction(message) => match (&message.body, &mut self.participant) {
                (Body::Reply(_) | Body::Waiting(Waiting::Behind(_) | Waiting::GiveWay), _) => {
                    let mut no_ticks = TickSource::default();
                    self.coordinator.on_message(from, message, &mut no_ticks, &mut **log);
                }
                // What is asked of storage that this node has not heard of waits until it has; so does what would write to a table by
                // a definition that may be the one before. Storage that is gone does not come: whoever asks is told so.
                (Body::Request(Request::Operate { operation, .. }), Some(_))
                    if operation
                        .table()
                        .is_some_and(|table| !database.has_table(table) && !schema_changes.is_gone(table))
                        || operation
                            .changed_table()
                            .is_some_and(|table| self.catalogs.is_untold(table)) =>
                {
                    self.defer(from, message);
                }
                (Body::Request(_) | Body::Passed(_) | Body::Waiting(Waiting::Ahead(_)), Some(participant)) => {
                    participant.on_message(database, from, message, &mut **log)
                }
                (Body::Request(_) | Body::Passed(_) | Body::Waiting(Waiting::Ahead(_)), None) => {
                    self.on_request_before_birth(from, &message);
                }
            },
            GridMessage::Stage(message @ (StageMessage::Wanted { .. } | StageMessage::LiveHere { .. })) => {
                self.on_stage_message(from, message);
            }
            GridMessage::Stage(StageMessage::Handed { catalogs, .. }) if !self.knows_catalogs(catalogs) => {
                self.refused += 1;
                self.look_for_catalogs();
            }
            GridMessage::Stage(message) => {
                let heard = self.asker.on_message(message);
                self.on_heard(partition, heard);
            }
            GridMessage::Work(message) if matches!(message.content, WorkContent::Answer { .. }) => {
                let is_awaited = self.calls.on_answer(from, message);
                self.refused += u64::from(!is_awaited);
            }
            GridMessage::Work(message) => self.work.push(hosted::Heard::Message(from, message)),
            GridMessage::Agreement(message) => self.agreement.agreement.on_message(from, message),
            GridMessage::Catalog(message) => self.on_catalogs(partition, shared, from, message),
            GridMessage::Numbers(message) => self.on_numbers(partition, from, message),
            GridMessage::Sessions(message) => self.on_sessions(partition, shared, from, message),
            GridMessage::Tell(message) => self.on_telling(partition, from, message),
            GridMessage::Onward(message) => {
                if let Some((from, message)) = self.on_onward(from, message) {
                    self.deliver(partition, shared, from, message);
                }
            }
            // Whoever has the channels sees to the members. What is traced was opened above.
            GridMessage::Member(_) | GridMessage::Traced(_) => self.refused += 1,
        }
    }

    fn on_heard(&mut self, partition: &mut Partition, heard: Heard) {
        let Partition { database, log, .. } = &mut *partition;
        match heard {
            Heard::Nothing => {}
            Heard::Live(live, open_from) => {
                if let Some(participant) = &mut self.participant {
                    participant.on_live_transactions(database, &live, open_from);
                }
            }
            Heard::Ticks(ticks) => {
                for (what, tick) in ticks {
                    self.coordinator.note_tick(tick);
                    match what {
                        TickFor::Birth => {
                            let mut participant = Participant::new(self.settings.id, database, tick);
                            participant.route_by(node_of_key);
                            participant.say_again_every(SAY_AGAIN_ROUNDS);
                            self.asker.say_again_every(SAY_AGAIN_ROUNDS);
                            self.calls.down().for_each(|node| participant.on_reach(node, false));
                            self.participant = Some(participant);
                            self.hold_until_told();
                        }
                        TickFor::Begin(ticket) => {
                            self.clients
                                .on_tick(ticket, tick, &mut self.coordinator, &mut self.told);
                        }
                        TickFor::Session(ticket) => self.sessions.on_tick(ticket, tick),
                        TickFor::Place(global) => self.coordinator.on_tick(global, tick, &mut **log),
                    }
                }
            }
        }
    }

    pub(super) fn send(&mut self, to: NodeId, message: GridMessage, durable_at: Lsn) {
        self.outgoing.push(durable_at, (to, message));
    }

    /// Takes what has come up to be sent or told; what is for this node itself is delivered at once, when the log allows it.
    pub(super) fn settle(&mut self, partition: &mut Partition, shared: &Shared) {
        loop {
            self.gather(partition, shared);
            // Who has waited for them goes on then.
            while self.end_definitions(partition, shared) {
                self.gather(partition, shared);
            }
            let own = self.settings.id;
            let mut here = Vec::new();
            for (to, message) in self.outgoing.take_ready(self.forced) {
                if to == own {
                    here.push(message);
                } else if self.leaving.len() < HELD_MAX {
                    let leaving = self.by_way_of_another(to, message);
                    self.leaving.push(leaving);
                } else {
                    self.outgoing.dropped += 1;
                }
            }
            if here.is_empty() {
                break;
            }
            for message in here {
                self.deliver(partition, shared, own, message);
            }
        }
        self.note_snapshots(partition);
    }

    /// Keeps no version but for the transactions that have begun here, while there can be no others.
    ///
    /// Rule F-3: in a grid of one node a snapshot that is not known is that of a tick which was asked for and has not been begun at.
    fn note_snapshots(&mut self, partition: &mut Partition) {
        let ticks_are_begun_at = self.asker.is_idle() && self.sessions.ready().next().is_none();
        let is_alone = self.settings.nodes == [self.settings.id] && self.stage.is_some() && self.participant.is_some();
        if is_alone && ticks_are_begun_at && self.coordinator.is_idle() {
            self.knows_all_snapshots = true;
            partition.database.expect_snapshots(Vec::new(), Timestamp::MAX);
        } else {
            self.expect_snapshots(partition);
        }
    }

    /// From the next tick on any snapshot may come.
    fn expect_snapshots(&mut self, partition: &mut Partition) {
        if std::mem::take(&mut self.knows_all_snapshots) {
            let last_tick = self.stage.as_ref().map_or(Timestamp::ZERO, TimestampStage::last_tick);
            partition.database.expect_snapshots(Vec::new(), last_tick.next_tick());
        }
    }

    /// Has branches go on that sessions have woken.
    fn go_on(&mut self, partition: &mut Partition) {
        let Some(participant) = &mut self.participant else {
            return;
        };
        let Partition { database, log, .. } = &mut *partition;
        participant.go_on(database, &mut **log);
    }

    fn gather(&mut self, partition: &mut Partition, shared: &Shared) {
        self.go_on(partition);
        for global in self.coordinator.poll_tick_requests() {
            if !self.asker.want(TickFor::Place(global)) {
                self.coordinator.on_no_tick(global);
            }
        }
        let mut outgoing = self.coordinator.poll_outgoing();
        if let Some(participant) = &mut self.participant {
            outgoing.extend(participant.poll_outgoing());
        }
        for Outgoing {
            to,
            message,
            durable_at,
        } in outgoing
        {
            // Nobody waits to hear that a decision was carried out: no forced write is for that alone.
            let is_patient = matches!(message.body, Body::Reply(Reply::Done));
            let message = self.traced(shared, to, message);
            match is_patient {
                true => self.outgoing.push_patiently(durable_at, (to, message)),
                false => self.send(to, message, durable_at),
            }
        }
        partition.database.count_circles(self.coordinator.take_in_circles());
        let events = self.coordinator.poll_events();
        self.hold_for_decided(&events, partition);
        let events = self.far.on_events(events);
        self.clients.on_events(events, &mut self.told);
        // Rule T-5: what is asked from now on is no word for a term that has ended here.
        self.asker.set_term(self.agreement.agreement.term());
        let may_ask = !self.puts_off_questions || self.asker.is_urgent();
        if may_ask && let Some(question) = self.asker.poll_question() {
            self.expect_snapshots(partition);
            self.send_to_stage(question);
        }
        self.keep_agreement(partition, shared);
        if let Some(stage) = &mut self.stage {
            for (to, message) in stage.poll_outgoing() {
                let durable_at = self.life_lsn.max(self.catalogs.told_lsn());
                self.outgoing.push(durable_at, (to, GridMessage::Stage(message)));
            }
        }
    }
}

fn may_change_rows(body: &Body) -> bool {
    matches!(body, Body::Request(Request::Operate { operation, .. }) if operation.changed_table().is_some())
}
