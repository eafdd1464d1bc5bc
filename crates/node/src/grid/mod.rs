//! A node of the grid, without its network: one partition with its log and store, its part in the transactions of all, a coordinator
//! for its own clients, a voice in what all agree on, and on the node that leads there the timestamp stage.
//!
//! Time, network and disk come in as arguments: `on_message` takes what others say, `on_timer` tells the time now and then,
//! `force` and `on_forced` take the log to the disk, `poll_outgoing` and `poll_told` give what may leave by then. Clients call
//! `begin`, `operate`, `commit` and `roll_back`.
//!
//! Invariants:
//! - Nothing leaves, for another node or a client, before the log is forced as far as it needs (rules P-2, D-1, D-3).
//! - Each start is a *life* of its own, which the log knows before anybody else does: what was meant for an earlier one is refused.
//! - The participant takes part from its *birth* on, a tick that the stage hands out after the start (rule D-7).
//! - What the log has to keep beside rows (prepared branches, decisions not carried out, what is agreed on) outlives checkpoints.
//!
//! Start with [`GridNode`].

mod activity;
mod agreement;
mod calls;
mod catalogs;
mod clients;
mod cut_off;
mod far;
mod keeping;
mod numbers;
mod onward;
mod outbox;
mod sessions;
mod state;
mod telling;
mod traced;

pub use clients::{ClientTold, OPEN_TRANSACTIONS_MAX};
pub use rubato_grid::GridMessage;

use crate::checkpoint::CheckpointReport;
use crate::node::{Node, NodeFigures, NodeSettings};
use crate::recovery::RecoveryReport;
use crate::worker::NodeWorker;
use activity::Activity;
use agreement::{Agreeing, agreement_of};
use calls::{Calls, in_place_of};
use catalogs::Catalogs;
use clients::Clients;
use cut_off::CutOff;
use far::FarSessions;
use keeping::HandingOver;
use numbers::Numbers;
use onward::Ways;
use outbox::{Along, Held};
use rubato_base::{Error, Lsn, NodeId, Result, SqlState, TableId, Timestamp, Value};
use rubato_formula::RowBounds;
use rubato_grid::links::{PeerState, PeerStatus};
use rubato_grid::members::{Member, Members};
use rubato_grid::placement::{Shard, Spread};
use rubato_log::{LogDirectory, Options};
use rubato_protocol::StandingRecord;
use rubato_protocol::grid::{
    CommitCounts, Coordinator, Participant, RESERVED_TICKS, TickAsker, TickFor, TimestampStage,
};
use rubato_sql::catalog::RelationName;
use rubato_sql::databases::DatabaseId;
use rubato_sql::handing::hand_over;
use rubato_sql::insight::NodeFacts;
use rubato_sql::partition::Partition;
use rubato_sql::plan::Plan;
use rubato_sql::route::{Route, route_of};
use rubato_stages::worker::WakeHandle;
use rubato_storage::Store;
use sessions::{GridShared, SessionTicks};
use state::GridState;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use telling::Tellings;
use traced::Traces;

/// No worker's index: all are woken.
const NO_WORKER: usize = usize::MAX;
/// Nodes of one grid.
pub const NODES_MAX: usize = 1024;
/// How often a node says again what was not answered, if nothing else is asked for.
const RETRY_US: i64 = 50_000;

/// What was not answered is said again at every third of these: a node that has much to do may take longer than one, and what is said
/// twice makes more to do.
const SAY_AGAIN_ROUNDS: u32 = 3;
/// Ten seconds, as a node is set.
const LEFT_OUT_ROUNDS: u32 = 200;

/// A node's place in its grid.
#[derive(Clone, Debug)]
pub struct GridSettings {
    /// This node.
    pub id: NodeId,
    /// All nodes, this one among them.
    pub nodes: Vec<NodeId>,
    /// The last number that was given to a node, as far as this one has heard, also if that node has gone.
    pub last: NodeId,
    /// The node that the grid began with: where nothing is agreed on yet it leads.
    pub founder: NodeId,
    /// Ticks that the stage reserves by one durable write.
    pub reserved_ticks: u64,
    /// How often it says again what was not answered.
    pub retry_us: i64,
    /// Such times for which a node may be silent before nothing is kept for it any more (rule F-6).
    pub left_out_rounds: u32,
    /// Says where statements run; without one each runs on the node of its client.
    pub router: Option<Arc<dyn Router>>,
    /// The node that changes the catalogs and has everything else that there is once; without one each node has its own.
    pub keeper: Option<NodeId>,
}

/// Says which node runs a statement.
pub trait Router: std::fmt::Debug + Send + Sync {
    /// What a statement of a client of the first of these nodes needs; the second is the keeper.
    fn route_of(&self, plan: &Plan, parameters: &[Value], nodes: (NodeId, NodeId)) -> Route;
}

/// Statements run where their rows lie.
#[derive(Clone, Copy, Debug)]
pub struct ByRows;

impl Router for ByRows {
    fn route_of(&self, plan: &Plan, parameters: &[Value], nodes: (NodeId, NodeId)) -> Route {
        route_of(plan, parameters, nodes, shard_of)
    }
}

/// The shard of what begins with the value: whole numbers that follow each other have shards that follow each other.
fn shard_of(value: &Value) -> u16 {
    Spread::default().shard_of(value).map_or(0, Shard::number)
}

/// Where the rows lie of which another node says this.
fn node_of_key(places: &[u8]) -> Option<rubato_sql::route::NodeOfKey> {
    rubato_sql::route::node_of_key(places, shard_of)
}

impl GridSettings {
    /// Node `id` of the nodes 0 to `count - 1`, of which the first has begun the grid.
    pub fn of(id: u32, count: u32) -> GridSettings {
        GridSettings {
            id: NodeId(id),
            nodes: (0..count).map(NodeId).collect(),
            last: NodeId(count.saturating_sub(1)),
            founder: NodeId(0),
            reserved_ticks: RESERVED_TICKS,
            retry_us: RETRY_US,
            left_out_rounds: LEFT_OUT_ROUNDS,
            router: None,
            keeper: None,
        }
    }

    /// The keeper as a node takes it whose log does not say who it is: the one that has begun the grid, or where that has gone, any other.
    /// Never itself: who has been handed over to has that in its log.
    pub fn keeper_unless_known(own: NodeId, nodes: &[NodeId]) -> NodeId {
        if nodes.contains(&Members::FIRST) {
            return Members::FIRST;
        }
        nodes.iter().copied().find(|node| *node != own).unwrap_or(own)
    }

    /// 22023 if there can be no such grid.
    fn check(&self) -> Result<()> {
        if self.nodes.contains(&self.id) && self.nodes.len() <= NODES_MAX && self.retry_us > 0 {
            return Ok(());
        }
        let message = "the node is none of the grid's nodes";
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }
}

/// A node of the grid. See the module for how it is driven.
#[derive(Clone)]
pub struct GridNode {
    node: Node,
    shared: Arc<GridShared>,
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
        mut settings: GridSettings,
    ) -> Result<(GridNode, RecoveryReport)> {
        settings.check()?;
        let (node, report, past) = Node::open_with_past(store, directory, options, node_settings)?;
        node.0.place.set(settings.id);
        let before = past.standing.unwrap_or_default();
        let mut partition = node.0.partition.lock();
        let clock = partition.database.clock();
        let standing = StandingRecord {
            life: before.life + 1,
            tick_bound: before.tick_bound,
        };
        let life_lsn = partition.log.append_standing(&standing)?;
        let keeping = partition.databases.keeping().copied();
        if let (Some(keeper), Some(keeping)) = (&mut settings.keeper, keeping) {
            *keeper = keeping.node;
        }
        partition.sequences.are_elsewhere = settings.keeper.is_some_and(|keeper| keeper != settings.id);
        // Also where there are no other nodes yet, or rows of all tables are here: what is here by then need not be all that was numbered.
        if settings.keeper.is_some() {
            partition.row_numbers.number_for(settings.id, standing.life);
        }
        partition.sequences.outcomes.give_for(settings.id);
        partition.sequences.outcomes.note_gone(settings.gone());
        let founded_at = before.tick_bound.max(clock.tick());
        let agreement = agreement_of(&settings, past.agreement.as_deref(), founded_at)?;
        let decisions = past.decisions.into_iter();
        let decisions = decisions.map(|(global, (place, participants))| (global, place, participants));
        let mut asker = TickAsker::new(standing.life, clock);
        asker.want(TickFor::Birth);
        let mut coordinator = Coordinator::recovered(settings.id, decisions.collect());
        coordinator.say_again_every(SAY_AGAIN_ROUNDS);
        let holds_for_others = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(GridShared::new(
            Arc::clone(&node.0.answers_held),
            GridState {
                holds_for_others,
                handing: HandingOver::of(&settings, keeping.as_ref()),
                coordinator,
                agreement: Agreeing::new(agreement, clock),
                settings,
                standing,
                log_end: report.log_end,
                life_lsn,
                participant: None,
                asker,
                stage: None,
                outgoing: Held::default(),
                leaving: Vec::new(),
                puts_off_questions: false,
                knows_all_snapshots: false,
                along: Along::default(),
                told: Held::default(),
                clients: Clients::default(),
                far: FarSessions::default(),
                layout: None,
                sessions: SessionTicks::default(),
                calls: Calls::default(),
                cut_off: CutOff::default(),
                ways: Ways::default(),
                numbers: Numbers::new(standing.life),
                activity: Activity::new(standing.life),
                tellings: Tellings::default(),
                traces: Traces::default(),
                catalogs: Catalogs::new(Arc::clone(&node.0.answers_held), &partition.databases),
                work: Vec::new(),
                forced: Lsn(0),
                last_round_us: None,
                removed: BTreeSet::new(),
                retired: None,
                refused: 0,
            },
        ));
        shared.state.lock().note_keeper();
        partition.grid = Some(Arc::clone(&shared) as _);
        drop(partition);
        let opened = GridNode { node, shared };
        opened.note_others();
        opened.drive(|_, _| {});
        Ok((opened, report))
    }

    /// Does something with the node's part in the grid, and then what follows of it.
    fn drive<T>(&self, work: impl FnOnce(&mut GridState, &mut Partition) -> T) -> T {
        let node = &self.node.0;
        let mut partition = node.partition.lock();
        let mut state = self.shared.state.lock();
        state.forced = state.forced.max(node.forced_lsn());
        let appended = Lsn(node.forcer.appended_lsn().0);
        state.tell_catalogs(&partition, appended);
        state.tell_next_keeper(&partition, appended);
        let given = work(&mut state, &mut partition);
        state.say_signals(&partition);
        state.end_bereaved(&partition);
        state.settle(&mut partition, node);
        if !node.answers_held.load(Ordering::Acquire) {
            for (durable_at, to, message) in std::mem::take(&mut *node.hosting.said.lock()) {
                state.outgoing.push_anyway(durable_at, (to, GridMessage::Work(message)));
            }
        }
        let mut woken = state.sessions.take_woken();
        woken.extend(state.calls.take_woken());
        woken.extend(state.far.take_woken());
        woken.extend(state.numbers.take_woken());
        woken.extend(state.activity.take_woken());
        node.host(state.work.drain(..));
        drop(state);
        node.wake_sessions(woken, NO_WORKER);
        partition.database.set_durable(node.forced_lsn());
        node.deliver_woken(&mut partition, NO_WORKER);
        node.keep_within_memory(&mut partition);
        given
    }

    /// Which node it is.
    pub fn id(&self) -> NodeId {
        self.shared.state.lock().settings.id
    }

    /// Takes in a message of another node. One that is malformed, late, repeated or from a stranger is refused and counted.
    pub fn on_message(&self, from: NodeId, message: GridMessage) {
        self.on_messages([(from, message)]);
    }

    /// As [`GridNode::on_message`] for each in its turn; what follows of them is done once.
    pub fn on_messages(&self, messages: impl IntoIterator<Item = (NodeId, GridMessage)>) {
        self.drive(|state, partition| {
            for (from, message) in messages {
                if from == state.settings.id || !state.settings.nodes.contains(&from) {
                    state.refused += 1;
                    continue;
                }
                if matches!(message, GridMessage::Traced(_)) {
                    state.traces.came_us = traced::now_us(&self.node.0);
                }
                state.deliver(partition, &self.node.0, from, message);
            }
        });
    }

    /// Tells the time. Every [`GridSettings::retry_us`] it says again what was not answered; a clock that was set back does not
    /// hold that up.
    pub fn on_timer(&self, now_us: i64) {
        {
            let mut state = self.shared.state.lock();
            let pause_us = state
                .last_round_us
                .map_or(i64::MAX, |last_us| now_us.saturating_sub(last_us));
            if (0..state.settings.retry_us).contains(&pause_us) {
                return;
            }
            state.last_round_us = Some(now_us);
        }
        self.drive(|state, partition| state.on_round(partition));
    }

    /// Whoever drives this node's part in the grid is woken by this handle when sessions have let branches go on.
    pub fn set_wake(&self, wake: WakeHandle) {
        *self.node.0.grid_wake.lock() = Some(wake);
    }

    /// Sessions have worked on the rows: goes on with the branches that waited for them.
    pub fn on_wake(&self) {
        self.drive(|_, _| {});
    }

    /// The engine of worker `index` for sessions on this node, as [`Node::worker`].
    ///
    /// Errors: 53200 if the threads of its stages cannot be started.
    pub fn worker(&self, index: usize, wake: Option<WakeHandle>) -> Result<NodeWorker> {
        self.node.worker(index, wake)
    }

    /// The channel to another node stands: what is for it reaches it.
    pub fn on_node_up(&self, node: NodeId) {
        self.drive(|state, _| {
            state.calls.on_up(node);
            state.tell_again(node);
            state.on_reach(node, true);
            state.agreement.agreement.on_up(node);
            state.ask_for_catalogs(node);
            state.hand_over_again();
        });
    }

    /// The nodes of the grid, this one among them, have changed; and the last number that was given to one.
    pub fn set_members(&self, nodes: Vec<NodeId>, last: NodeId) {
        self.drive(|state, partition| {
            if let Some(stage) = &mut state.stage {
                let is_new = |node: &&NodeId| !state.settings.nodes.contains(node);
                nodes.iter().filter(is_new).for_each(|node| stage.add_node(*node));
                let is_gone = |node: &&NodeId| !nodes.contains(node);
                let gone = state.settings.nodes.iter().filter(is_gone);
                gone.for_each(|node| stage.remove_node(*node));
            }
            state.removed.retain(|node| nodes.contains(node));
            state.settings.nodes = nodes;
            state.settings.last = state.settings.last.max(last);
            partition.sequences.outcomes.note_gone(state.settings.gone());
            state.note_keeper();
        });
        self.note_others();
    }

    /// The node is no member any more: whoever asks it is told so.
    pub fn on_removed(&self) {
        let message = "was removed from its grid, and serves nobody any more";
        self.retire(message, "Ask another node of the grid.");
    }

    /// Other nodes have seen more of this one than its folder has: whoever asks it is told so, since what it has may be out of date.
    pub fn on_outdated(&self, why: &str) {
        let message = format!("stands on a folder that is not its newest one, and serves nobody: {why}");
        self.retire(
            &message,
            "Ask another node of the grid; start this one with its newest folder.",
        );
    }

    fn retire(&self, message: &str, hint: &str) {
        self.drive(|state, _| {
            let message = format!("node {} {message}", state.settings.id.0);
            let error = Error::new(SqlState::CANNOT_CONNECT_NOW, message).with_hint(hint);
            state.retire(error);
        });
    }

    fn note_others(&self) {
        let has_others = self.shared.state.lock().settings.nodes.len() > 1;
        self.node.0.has_others.store(has_others, Ordering::Relaxed);
    }

    /// The node that keeps what there is once, as far as this one knows.
    pub fn keeper(&self) -> Option<NodeId> {
        self.shared.state.lock().settings.keeper
    }

    /// Has another node keep what there is once, if this one does. The log has to be forced before that one hears of it.
    ///
    /// Errors: those of [`hand_over`].
    pub fn hand_over(&self, to: NodeId) -> Result<()> {
        let mut partition = self.node.0.partition.lock();
        hand_over(&mut partition, to).map(|_| ())
    }

    /// Whether another node keeps what there is once, and has not got the vote of this one yet, which the others need: a grid of two has
    /// one.
    pub fn has_vote_of_keeper(&self) -> bool {
        let state = self.shared.state.lock();
        let (own, voters) = (state.settings.id, state.agreement.agreement.voters());
        let mut keeper = state.settings.keeper.iter();
        keeper.any(|keeper| *keeper != own && state.calls.is_up(*keeper)) && voters.len() <= 2 && voters.contains(&own)
    }

    /// The nodes that are to be members no more, until they are none by [`GridNode::set_members`].
    pub fn removed(&self) -> Vec<NodeId> {
        self.shared.state.lock().removed.iter().copied().collect()
    }

    /// Which of its starts this is. Nobody may hear of it before the log is forced ([`GridNode::force`]).
    pub fn life(&self) -> u64 {
        self.shared.state.lock().standing.life
    }

    /// How far its log reached when it was started, in bytes from its beginning.
    pub fn log_end(&self) -> u64 {
        self.shared.state.lock().log_end
    }

    /// The node beneath, as one that is alone.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The channel to another node is broken: what its clients have under way here is rolled back, and clients here are told that
    /// what they have under way there is lost.
    pub fn on_node_down(&self, node: NodeId) {
        self.drive(|state, _| {
            state.on_lost(node);
            state.agreement.agreement.on_down(node);
            if !state.has_majority() {
                state.sessions.give_up();
            }
        });
    }

    /// A message is larger than a channel takes: who waits for it, or for its answer, gets an error.
    pub fn on_too_large(&self, to: NodeId, message: GridMessage) {
        let GridMessage::Work(message) = message else { return };
        let Some((is_call, instead)) = in_place_of(message) else {
            return;
        };
        self.drive(|state, _| match is_call {
            true => drop(state.calls.on_answer(to, instead)),
            false => state.outgoing.push_anyway(Lsn(0), (to, GridMessage::Work(instead))),
        });
    }

    /// How it stands with the other nodes, for `rubato.nodes`.
    pub fn note_peers(&self, peers: Vec<PeerStatus>, members: &Members) {
        let (own, life, keeper, leader, term, voters) = {
            let state = self.shared.state.lock();
            let agreement = &state.agreement.agreement;
            (
                state.settings.id,
                state.standing.life,
                state.settings.keeper,
                state.leader(),
                agreement.term(),
                agreement.voters().clone(),
            )
        };
        let facts = |(node, member): (&NodeId, &Member)| NodeFacts {
            node: node.0,
            address: member.address.clone(),
            state: "here",
            life,
            is_keeper: keeper == Some(*node),
            is_leader: leader == Some(*node),
            votes: voters.contains(node),
            term: (leader == Some(*node)).then_some(term),
            ..NodeFacts::default()
        };
        let mut nodes: Vec<NodeFacts> = members.members.iter().map(facts).collect();
        for facts in nodes.iter_mut().filter(|facts| facts.node != own.0) {
            if let Some(peer) = peers.iter().find(|peer| peer.node.0 == facts.node) {
                note_peer(facts, peer);
            }
        }
        self.node.0.partition.lock().insight.set_nodes(nodes);
    }

    /// While this node has plenty to do, those who begin may wait for their ticks a little: then more of them share one question.
    pub fn put_off_questions(&self, are_put_off: bool) {
        let mut state = self.shared.state.lock();
        let were_put_off = std::mem::replace(&mut state.puts_off_questions, are_put_off);
        let ends = were_put_off && !are_put_off && state.asker.has_question();
        drop(state);
        if ends {
            self.drive(|_, _| {});
        }
    }

    /// What may be sent now: to whom, and what.
    pub fn poll_outgoing(&self) -> Vec<(NodeId, GridMessage)> {
        let state = &mut *self.shared.state.lock();
        let leaving = std::mem::take(&mut state.leaving);
        let ready = state.outgoing.take_ready(state.forced);
        state.along.choose(leaving.into_iter().chain(ready))
    }

    /// What clients may be told now, by the tickets that [`GridNode::begin`] gave.
    pub fn poll_told(&self) -> Vec<(u64, ClientTold)> {
        let state = &mut *self.shared.state.lock();
        state.told.take_ready(state.forced)
    }

    /// Whether answers to clients wait until this node's part in the grid allows them ([`GridNode::force`] is for whoever drives that
    /// then).
    pub fn holds_answers(&self) -> bool {
        self.node.0.answers_held.load(Ordering::Acquire)
    }

    /// Whether something waits for the log to be forced.
    pub fn waits_for_log(&self) -> bool {
        let state = self.shared.state.lock();
        state.agreement.waits(state.forced) || state.outgoing.waits(state.forced) || state.told.waits(state.forced)
    }

    /// Forces the log up to its end; gives how far it is forced, for [`GridNode::on_forced`]. May run elsewhere meanwhile.
    ///
    /// Errors: nothing is lost; try again.
    pub fn force(&self) -> Result<Lsn> {
        self.node.force()
    }

    /// The log is forced up to here.
    pub fn on_forced(&self, forced: Lsn) {
        self.drive(|state, _| state.forced = state.forced.max(forced));
    }

    /// As [`Node::checkpoint`]; what the log before it is needed for beside rows is written down again behind it.
    ///
    /// Errors: nothing is lost by a failure; the next attempt begins anew.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        self.node.checkpoint()
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

    /// How many commits of its sessions have gone over several nodes so far: one of [`GridNode::figures`], for who asks often.
    pub fn commits_in_two_phases(&self) -> u64 {
        self.shared.state.lock().coordinator.commits().in_two_phases
    }

    /// Figures of the moment.
    pub fn figures(&self) -> GridFigures {
        let figures = self.node.figures();
        let partition = self.node.0.partition.lock();
        let oldest_live = partition.database.oldest_snapshot();
        let (prepared, undecided_since) = (
            partition.database.prepared_branches().count(),
            partition.database.undecided_since(),
        );
        let state = self.shared.state.lock();
        let refused_by_participant = state.participant.as_ref().map_or(0, Participant::refused);
        let refused_by_stage = state.stage.as_ref().map_or(0, TimestampStage::refused);
        GridFigures {
            node: figures,
            is_born: state.participant.is_some(),
            has_catalogs: state.has_catalogs(),
            unreached: state.unreached(),
            open_transactions: state.coordinator.open_transactions().count() + state.clients.waiting(),
            open_branches: state.participant.as_ref().map_or(prepared, Participant::open_branches),
            prepared,
            undone_decisions: state.coordinator.undone_decisions().len(),
            undecided_since,
            oldest_live,
            refused: state.refused
                + state.coordinator.refused()
                + state.agreement.agreement.refused()
                + refused_by_participant
                + state.asker.refused()
                + refused_by_stage,
            dropped: state.outgoing.dropped,
            commits: state.coordinator.commits(),
            term: state.agreement.agreement.term(),
            leads: state.stage.is_some(),
            voters: state.agreement.agreement.voters().iter().copied().collect(),
        }
    }
}

fn note_peer(facts: &mut NodeFacts, peer: &PeerStatus) {
    (facts.state, facts.why) = match &peer.state {
        PeerState::Down { why, .. } => ("down", Some(why.clone())),
        PeerState::Dialling => ("dialling", None),
        PeerState::Greeting => ("greeting", None),
        PeerState::Up { .. } => ("up", None),
    };
    if let PeerState::Up { round_trip_us, .. } = peer.state {
        facts.round_trip_us = round_trip_us;
    }
    let figures = &peer.figures;
    facts.life = peer.life;
    facts.waiting_bytes = peer.buffered_bytes as u64;
    facts.messages = [figures.messages_out, figures.messages_in];
    facts.frames = [figures.frames_out, figures.frames_in];
    facts.bytes = [figures.bytes_out, figures.bytes_in];
}

/// Figures of a node of the grid.
#[derive(Clone, Debug, Default)]
pub struct GridFigures {
    /// Those of its partition, log and store.
    pub node: NodeFigures,
    /// Whether its participant is born.
    pub is_born: bool,
    /// Whether it has all catalogs, as far as it knows.
    pub has_catalogs: bool,
    /// Other nodes that it does not reach.
    pub unreached: usize,
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
    /// The oldest snapshot that versions are kept for here.
    pub oldest_live: Option<Timestamp>,
    /// Messages that changed nothing.
    pub refused: u64,
    /// Messages dropped because too many waited for the log.
    pub dropped: u64,
    /// Transactions over nodes that it has committed as their coordinator.
    pub commits: CommitCounts,
    /// The term of the agreement that it is in.
    pub term: u64,
    /// Whether it leads, and so hands out ticks.
    pub leads: bool,
    /// The nodes that have a vote in the agreement, as far as it knows.
    pub voters: Vec<NodeId>,
}

impl GridFigures {
    /// Whether clients can be served as the whole grid would: it has heard what there is, and reaches all others.
    pub fn is_ready(&self) -> bool {
        self.is_born && self.has_catalogs && self.unreached == 0
    }
}
