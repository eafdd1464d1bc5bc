//! A node of the grid, without its network: one partition with its log and store, its part in the transactions of all, a coordinator
//! for its own clients, and on one node the timestamp stage.
//!
//! Time, network and disk come in as arguments: `on_message` takes what others say, `on_timer` tells the time now and then,
//! `force` and `on_forced` take the log to the disk, `poll_outgoing` and `poll_told` give what may leave by then. Clients call
//! `begin`, `operate`, `commit` and `roll_back`.
//!
//! Invariants:
//! - Nothing leaves, for another node or a client, before the log is forced as far as it needs (rules P-2, D-1, D-3).
//! - Each start is a *life* of its own, which the log knows before anybody else does: what was meant for an earlier one is refused.
//! - The participant takes part from its *birth* on, a tick that the stage hands out after the start (rule D-7).
//! - What the log has to keep beside rows (prepared branches, decisions not carried out, the bound of the ticks) outlives checkpoints.
//!
//! Start with [`GridNode`].

mod clients;
mod outbox;

pub use clients::{ClientTold, OPEN_TRANSACTIONS_MAX};
pub use rubato_grid::GridMessage;

use crate::checkpoint::CheckpointReport;
use crate::node::{Node, NodeFigures, NodeSettings};
use crate::recovery::RecoveryReport;
use crate::worker::NodeWorker;
use clients::Clients;
use outbox::Held;
use rubato_base::{Error, Lsn, NodeId, Result, SqlState, TableId, Timestamp};
use rubato_formula::RowBounds;
use rubato_log::{LogDirectory, Options};
use rubato_protocol::grid::{
    Body, Coordinator, Heard, Outgoing, Participant, RESERVED_TICKS, StageMessage, TickAsker, TickFor, TickSource,
    TimestampStage,
};
use rubato_protocol::{DecisionRecord, StandingRecord};
use rubato_sql::catalog::RelationName;
use rubato_sql::databases::DatabaseId;
use rubato_sql::partition::Partition;
use rubato_stages::worker::WakeHandle;
use rubato_storage::Store;
use std::sync::Arc;

/// No worker's index: all are woken.
const NO_WORKER: usize = usize::MAX;
/// Nodes of one grid.
pub const NODES_MAX: usize = 1024;
/// How often a node says again what was not answered, if nothing else is asked for.
const RETRY_US: i64 = 50_000;

/// A node's place in its grid.
#[derive(Clone, Debug)]
pub struct GridSettings {
    /// This node.
    pub id: NodeId,
    /// All nodes, this one among them.
    pub nodes: Vec<NodeId>,
    /// The node that hands out ticks.
    pub stage: NodeId,
    /// Ticks that the stage reserves by one durable write.
    pub reserved_ticks: u64,
    /// How often it says again what was not answered.
    pub retry_us: i64,
}

impl GridSettings {
    /// Node `id` of the nodes 0 to `count - 1`, of which the first has the timestamp stage.
    pub fn of(id: u32, count: u32) -> GridSettings {
        GridSettings {
            id: NodeId(id),
            nodes: (0..count).map(NodeId).collect(),
            stage: NodeId(0),
            reserved_ticks: RESERVED_TICKS,
            retry_us: RETRY_US,
        }
    }

    /// 22023 if there can be no such grid.
    fn check(&self) -> Result<()> {
        let has = |node: NodeId| self.nodes.contains(&node);
        if has(self.id) && has(self.stage) && self.nodes.len() <= NODES_MAX && self.retry_us > 0 {
            return Ok(());
        }
        let message = "the node, or that of the timestamp stage, is none of the grid's nodes";
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }
}

/// A node of the grid. See the module for how it is driven.
pub struct GridNode {
    node: Node,
    settings: GridSettings,
    standing: StandingRecord,
    /// Behind the record of this life: nobody hears of the life before the log is forced up to here.
    life_lsn: Lsn,
    coordinator: Coordinator,
    /// From its birth on.
    participant: Option<Participant>,
    asker: TickAsker,
    stage: Option<TimestampStage>,
    /// A bound for ticks on its way to the disk.
    bound: Option<(Lsn, Timestamp)>,
    outgoing: Held<(NodeId, GridMessage)>,
    told: Held<(u64, ClientTold)>,
    clients: Clients,
    /// How far the log is forced, as the owner says.
    forced: Lsn,
    last_round_us: Option<i64>,
    /// Messages refused before they reached anybody.
    refused: u64,
}

impl GridNode {
    /// Opens what is in `store` and the log's `directory`, a folder of a node alone or of this node of the grid, or starts empty.
    ///
    /// Errors: as [`Node::open`]; 22023 for settings of no grid.
    pub fn open(
        store: Arc<dyn Store>,
        directory: Arc<dyn LogDirectory>,
        options: Options,
        node_settings: NodeSettings,
        settings: GridSettings,
    ) -> Result<(GridNode, RecoveryReport)> {
        settings.check()?;
        let (node, report, past) = Node::open_with_past(store, directory, options, node_settings)?;
        let before = past.standing.unwrap_or_default();
        let clock = node.0.partition.lock().database.clock();
        let standing = StandingRecord {
            life: before.life + 1,
            tick_bound: before.tick_bound,
        };
        let life_lsn = node.0.partition.lock().log.append_standing(&standing)?;
        let stage = (settings.stage == settings.id).then(|| {
            let ticks = TickSource::resume(before.tick_bound.max(clock.tick()));
            let ticks = ticks.reserving(settings.reserved_ticks);
            TimestampStage::new(standing.life, ticks, settings.nodes.iter().copied())
        });
        let decisions = past.decisions.into_iter();
        let decisions = decisions.map(|(global, (place, participants))| (global, place, participants));
        let mut asker = TickAsker::new(standing.life, clock);
        asker.want(TickFor::Birth);
        let mut opened = GridNode {
            coordinator: Coordinator::recovered(settings.id, decisions.collect()),
            node,
            settings,
            standing,
            life_lsn,
            participant: None,
            asker,
            stage,
            bound: None,
            outgoing: Held::default(),
            told: Held::default(),
            clients: Clients::default(),
            forced: Lsn(0),
            last_round_us: None,
            refused: 0,
        };
        opened.settle();
        Ok((opened, report))
    }

    /// Which node it is.
    pub fn id(&self) -> NodeId {
        self.settings.id
    }

    /// Takes in a message of another node. One that is malformed, late, repeated or from a stranger is refused and counted.
    pub fn on_message(&mut self, from: NodeId, message: GridMessage) {
        if from == self.settings.id || !self.settings.nodes.contains(&from) {
            self.refused += 1;
            return;
        }
        self.deliver(from, message);
        self.settle();
    }

    /// Tells the time. Every [`GridSettings::retry_us`] it says again what was not answered; a clock that was set back does not
    /// hold that up.
    pub fn on_timer(&mut self, now_us: i64) {
        let pause_us = self
            .last_round_us
            .map_or(i64::MAX, |last_us| now_us.saturating_sub(last_us));
        if (0..self.settings.retry_us).contains(&pause_us) {
            return;
        }
        self.last_round_us = Some(now_us);
        self.coordinator.on_timer();
        if let Some(participant) = &mut self.participant {
            participant.on_timer();
        }
        self.clients.on_round(&mut self.told);
        let live = self.coordinator.open_transactions().map(|global| global.tick);
        let report = self.asker.report(live.collect());
        let again = self.asker.on_timer();
        for message in again.into_iter().chain([report]) {
            self.send(self.settings.stage, GridMessage::Stage(message), self.life_lsn);
        }
        if let Some(stage) = &mut self.stage {
            stage.on_timer();
        }
        self.settle();
    }

    /// Whoever drives this node's part in the grid is woken by this handle when sessions have let branches go on.
    pub fn set_wake(&self, wake: WakeHandle) {
        *self.node.0.grid_wake.lock() = Some(wake);
    }

    /// Sessions have worked on the rows: goes on with the branches that waited for them.
    pub fn on_wake(&mut self) {
        self.settle();
    }

    /// The engine of worker `index` for sessions on this node, as [`Node::worker`].
    ///
    /// Errors: 53200 if the threads of its stages cannot be started.
    pub fn worker(&self, index: usize, wake: Option<WakeHandle>) -> Result<NodeWorker> {
        self.node.worker(index, wake)
    }

    /// What may be sent now: to whom, and what.
    pub fn poll_outgoing(&mut self) -> Vec<(NodeId, GridMessage)> {
        self.outgoing.take_ready(self.forced).collect()
    }

    /// What clients may be told now, by the tickets that [`GridNode::begin`] gave.
    pub fn poll_told(&mut self) -> Vec<(u64, ClientTold)> {
        self.told.take_ready(self.forced).collect()
    }

    /// Whether something waits for the log to be forced.
    pub fn waits_for_log(&self) -> bool {
        let bound = self.bound.is_some_and(|(at, _)| at > self.forced);
        bound || self.outgoing.waits(self.forced) || self.told.waits(self.forced)
    }

    /// Forces the log up to its end; gives how far it is forced, for [`GridNode::on_forced`]. May run elsewhere meanwhile.
    ///
    /// Errors: nothing is lost; try again.
    pub fn force(&self) -> Result<Lsn> {
        self.node.force()
    }

    /// The log is forced up to here.
    pub fn on_forced(&mut self, forced: Lsn) {
        self.forced = self.forced.max(forced);
        self.settle();
    }

    /// Makes a checkpoint; what the log before it is needed for beside rows is written down again behind it.
    ///
    /// Errors: nothing is lost by a failure; the next attempt begins anew.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        let decisions = self.coordinator.undone_decisions();
        self.node.checkpoint_with(&mut |log| {
            for (transaction, place, participants) in &decisions {
                log.append_decision(&DecisionRecord {
                    transaction: *transaction,
                    cts: Some(*place),
                    participants,
                })?;
            }
            log.append_standing(&self.standing).map(drop)
        })
    }

    /// As [`Node::checkpoint_is_due`].
    pub fn checkpoint_is_due(&self) -> bool {
        self.node.checkpoint_is_due()
    }

    /// As [`Node::look_after_log`].
    pub fn look_after_log(&self) {
        self.node.look_after_log();
    }

    /// Where the rows of a table are, and the limits of its columns.
    pub fn storage_of(&self, table: &str) -> Option<(TableId, RowBounds)> {
        let databases = Arc::clone(&self.node.0.partition.lock().databases);
        let catalog = databases.catalog(DatabaseId::RUBATO);
        let table = catalog.tables.get(&RelationName::public(table))?;
        Some((table.id, table.row_bounds()))
    }

    /// Figures of the moment.
    pub fn figures(&self) -> GridFigures {
        let partition = self.node.0.partition.lock();
        let (prepared, undecided_since) = (
            partition.database.prepared_branches().count(),
            partition.database.undecided_since(),
        );
        drop(partition);
        let refused_by_participant = self.participant.as_ref().map_or(0, Participant::refused);
        let refused_by_stage = self.stage.as_ref().map_or(0, TimestampStage::refused);
        GridFigures {
            node: self.node.figures(),
            is_born: self.participant.is_some(),
            open_transactions: self.coordinator.open_transactions().count() + self.clients.waiting(),
            open_branches: self.participant.as_ref().map_or(prepared, Participant::open_branches),
            prepared,
            undone_decisions: self.coordinator.undone_decisions().len(),
            undecided_since,
            refused: self.refused
                + self.coordinator.refused()
                + refused_by_participant
                + self.asker.refused()
                + refused_by_stage,
            dropped: self.outgoing.dropped,
        }
    }

    /// Hands a message to whom it concerns.
    fn deliver(&mut self, from: NodeId, message: GridMessage) {
        let mut partition = self.node.0.partition.lock();
        let Partition { database, log, .. } = &mut *partition;
        match message {
            GridMessage::Transaction(message) => match (&message.body, &mut self.participant) {
                (Body::Reply(_), _) => {
                    let mut no_ticks = TickSource::default();
                    self.coordinator.on_message(from, message, &mut no_ticks, &mut **log);
                }
                (Body::Request(_), Some(participant)) => participant.on_message(database, from, message, &mut **log),
                // It comes again, when the participant is born.
                (Body::Request(_), None) => self.refused += 1,
            },
            GridMessage::Stage(message @ (StageMessage::Wanted { .. } | StageMessage::LiveHere { .. })) => {
                match &mut self.stage {
                    Some(stage) => stage.on_message(from, message),
                    None => self.refused += 1,
                }
            }
            GridMessage::Stage(message) if from == self.settings.stage => {
                let heard = self.asker.on_message(message);
                drop(partition);
                self.on_heard(heard);
            }
            GridMessage::Stage(_) => self.refused += 1,
        }
    }

    fn on_heard(&mut self, heard: Heard) {
        let mut partition = self.node.0.partition.lock();
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
                    match what {
                        TickFor::Birth => {
                            self.participant = Some(Participant::new(self.settings.id, database, tick));
                        }
                        TickFor::Begin(ticket) => {
                            self.clients
                                .on_tick(ticket, tick, &mut self.coordinator, &mut self.told);
                        }
                        TickFor::Place(global) => self.coordinator.on_tick(global, tick, &mut **log),
                    }
                }
            }
        }
    }

    fn send(&mut self, to: NodeId, message: GridMessage, durable_at: Lsn) {
        self.outgoing.push(durable_at, (to, message));
    }

    /// Takes what has come up to be sent or told; what is for this node itself is delivered at once, when the log allows it.
    fn settle(&mut self) {
        loop {
            self.gather();
            let own = self.settings.id;
            let ready: Vec<(NodeId, GridMessage)> = self.outgoing.take_ready(self.forced).collect();
            let (here, elsewhere): (Vec<_>, Vec<_>) = ready.into_iter().partition(|(to, _)| *to == own);
            for (to, message) in elsewhere {
                self.send(to, message, Lsn(0));
            }
            if here.is_empty() {
                break;
            }
            here.into_iter().for_each(|(_, message)| self.deliver(own, message));
        }
        let mut partition = self.node.0.partition.lock();
        partition.database.set_durable(Lsn(self.node.0.forcer.forced_lsn().0));
        self.node.0.deliver_woken(&mut partition, NO_WORKER);
        self.node.0.keep_within_memory(&mut partition);
    }

    /// Has branches go on that sessions have woken.
    fn go_on(&mut self) {
        let Some(participant) = &mut self.participant else {
            return;
        };
        let mut partition = self.node.0.partition.lock();
        let Partition { database, log, .. } = &mut *partition;
        participant.go_on(database, &mut **log);
    }

    fn gather(&mut self) {
        self.go_on();
        for global in self.coordinator.poll_tick_requests() {
            // If too many want one, the transaction is given up when it has been silent for too long.
            self.asker.want(TickFor::Place(global));
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
            self.send(to, GridMessage::Transaction(message), durable_at);
        }
        let events = self.coordinator.poll_events();
        self.clients.on_events(events, &mut self.told);
        if let Some(question) = self.asker.poll_question() {
            self.send(self.settings.stage, GridMessage::Stage(question), self.life_lsn);
        }
        self.keep_bound();
        if let Some(stage) = &mut self.stage {
            for (to, message) in stage.poll_outgoing() {
                self.outgoing.push(self.life_lsn, (to, GridMessage::Stage(message)));
            }
        }
    }

    /// Makes the next bound of the ticks durable when it is needed (rule T-2). A log that cannot take it is tried again.
    fn keep_bound(&mut self) {
        let Some(stage) = &mut self.stage else { return };
        if let Some((at, bound)) = self.bound
            && at <= self.forced
        {
            stage.on_bound_durable(bound);
            self.bound = None;
        }
        let (None, Some(tick_bound)) = (self.bound, stage.wanted_bound()) else {
            return;
        };
        let standing = StandingRecord {
            tick_bound,
            ..self.standing
        };
        if let Ok(at) = self.node.0.partition.lock().log.append_standing(&standing) {
            self.standing = standing;
            self.bound = Some((at, tick_bound));
        }
    }
}

/// Figures of a node of the grid.
#[derive(Clone, Copy, Debug, Default)]
pub struct GridFigures {
    /// Those of its partition, log and store.
    pub node: NodeFigures,
    /// Whether its participant is born.
    pub is_born: bool,
    /// Transactions of its clients that have not ended everywhere.
    pub open_transactions: usize,
    /// Branches here that have not ended.
    pub open_branches: usize,
    /// Of these, prepared ones.
    pub prepared: usize,
    /// Decisions that somebody has not carried out.
    pub undone_decisions: usize,
    /// Where the log has to be kept from for branches whose outcome is not known.
    pub undecided_since: Option<Lsn>,
    /// Messages that changed nothing.
    pub refused: u64,
    /// Messages dropped because too many waited for the log.
    pub dropped: u64,
}
