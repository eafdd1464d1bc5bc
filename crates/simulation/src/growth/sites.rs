//! The nodes of a run with their disks and the sessions of their clients: how they start, go down, come back, join and leave.

use super::plan::GrowthTrouble;
use super::world::{Event, Phase, World};
use crate::answer::Gathering;
use crate::check::Violation;
use crate::clock;
use crate::connections::Connections;
use crate::disk::Disk;
use crate::grid::left_out_rounds;
use crate::world::log_options;
use rubato_base::NodeId;
use rubato_node::grid::{ByRows, GridNode, GridSettings};
use rubato_node::{NodeSettings, Policies, VerifyReport, verify};
use rubato_stages::worker::Wake;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One message in so many waits on its way, for as long as this at most: a node that gets no processor, or a packet that is said again.
const STALLS_EVERY: i64 = 100;
const STALL_US_MAX: i64 = 15_000;
/// How often nodes say again what was not answered.
const RETRY_US: i64 = 20_000;
/// How often a node looks whether a checkpoint is due.
const LOOK_US: i64 = 20_000;
/// Pause after a force that failed.
const FORCE_PAUSE_US: i64 = 20_000;
/// How long a node that has started waits for the others before it takes clients, as in the program.
const OPENS_US: i64 = 1_000_000;
/// How long a node is down, at most.
const DOWN_US_MAX: i64 = 400_000;
/// Log bytes after which a checkpoint is due.
const CHECKPOINT_LOG_BYTES: u64 = 48 * 1024;
/// The node that the grid begins with.
pub(super) const FIRST: NodeId = NodeId(0);

/// Rung when sessions have let branches go on.
#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A node that is up: its part in the grid, and the worker with its clients.
pub(super) struct Running {
    pub(super) node: GridNode,
    pub(super) connections: Connections,
    bell: Arc<Bell>,
    /// When it takes clients even if it has not heard of the others.
    opens_us: i64,
}

impl Running {
    /// Whether clients can connect: it can serve them, or has waited for that for long enough.
    pub(super) fn is_open(&self, now_us: i64) -> bool {
        now_us >= self.opens_us || self.node.figures().is_ready()
    }
}

/// What is under way for a node.
#[derive(Default)]
struct Scheduled {
    runs_at_us: Option<i64>,
    wakes: bool,
    forces: bool,
    reads: bool,
}

/// A node, up or down, with its disk.
pub(super) struct Site {
    number: u32,
    pub(super) disk: Disk,
    pub(super) running: Option<Running>,
    pub(super) life: u64,
    /// The list of nodes that it has written down.
    pub(super) members: BTreeSet<NodeId>,
    /// It is to be removed, or was: clients go elsewhere.
    pub(super) is_leaving: bool,
    scheduled: Scheduled,
}

impl Site {
    pub(super) fn new(number: u32, members: BTreeSet<NodeId>) -> Site {
        Site {
            number,
            disk: Disk::default(),
            running: None,
            life: 0,
            members,
            is_leaving: false,
            scheduled: Scheduled::default(),
        }
    }

    pub(super) fn id(&self) -> NodeId {
        NodeId(self.number)
    }
}

fn node_settings(policies: Policies) -> NodeSettings {
    NodeSettings {
        memory_bytes: 64 << 20,
        checkpoint_log_bytes: CHECKPOINT_LOG_BYTES,
        clock_us: clock::now_us,
        hosted_responder: Some(|| Box::new(Gathering::new(1))),
        policies,
        ..NodeSettings::default()
    }
}

fn failed(what: &'static str) -> impl Fn(rubato_base::Error) -> Violation {
    move |error| Violation::new(what, error.to_string())
}

impl World<'_> {
    /// Nodes that are up.
    pub(super) fn there(&self) -> BTreeSet<NodeId> {
        let up = self.sites.iter().filter(|site| site.running.is_some());
        up.map(Site::id).collect()
    }

    /// Starts a node that is down.
    pub(super) fn start(&mut self, at: usize) -> Result<(), Violation> {
        let site = &mut self.sites[at];
        let nodes: Vec<NodeId> = site.members.iter().copied().collect();
        let settings = GridSettings {
            id: site.id(),
            founder: FIRST,
            retry_us: RETRY_US,
            left_out_rounds: left_out_rounds(self.plan.seed),
            router: Some(Arc::new(ByRows)),
            keeper: Some(GridSettings::keeper_unless_known(site.id(), &nodes)),
            last: nodes.iter().copied().max().unwrap_or(FIRST),
            nodes,
            ..GridSettings::of(site.number, site.number + 1)
        };
        let (store, directory) = (site.disk.store(), site.disk.directory());
        let own = node_settings(self.plan.policies());
        let opened = GridNode::open(store, directory, log_options(), own, settings);
        let (node, report) = opened.map_err(failed("does not recover"))?;
        let bell = Arc::new(Bell::default());
        node.set_wake(Arc::clone(&bell) as _);
        let connections = Connections::new(node.node(), 0, 1, false).map_err(failed("no worker"))?;
        let prepared = node.figures().prepared;
        site.running = Some(Running {
            node,
            connections,
            bell,
            opens_us: self.now_us + OPENS_US,
        });
        site.scheduled = Scheduled::default();
        let life = site.life;
        self.coverage.count("lives");
        self.coverage.add("records recovered", report.transactions);
        self.coverage.add("prepared branches recovered", prepared as u64);
        self.note(format_args!("node {at} starts: {prepared} prepared"));
        for (event, pause_us) in [
            (Event::Ticks(at, life), RETRY_US),
            (Event::Background(at, life), LOOK_US),
        ] {
            let delay_us = self.random.uniform(1, pause_us);
            self.at(delay_us, event);
        }
        self.set_members(at);
        Ok(())
    }

    /// A node goes down, with its clients, and will be started again.
    pub(super) fn go_down(&mut self, at: usize) {
        let Some(running) = self.sites[at].running.take() else {
            return;
        };
        let figures = running.node.figures();
        drop(running);
        self.note(format_args!("node {at} goes down, {} prepared", figures.prepared));
        self.coverage.count("crashes");
        for (name, is_so) in [
            ("crashes of the node that leads", figures.leads),
            ("crashes of the node that keeps what there is once", at == self.first),
            ("crashes with prepared branches", figures.prepared > 0),
            ("crashes with decisions not carried out", figures.undone_decisions > 0),
            ("crashes while tables move", self.operator.moves()),
        ] {
            self.coverage.add(name, u64::from(is_so));
        }
        self.end_life(at);
        let site = &mut self.sites[at];
        let loss = site.disk.goes_off_and_on(&mut self.random);
        let life = site.life;
        self.note(format_args!("node {at}: {loss}"));
        let long = self.random.uniform(0, 3) == 0;
        let down_us = self.random.uniform(100, if long { DOWN_US_MAX } else { 20_000 });
        self.at(down_us, Event::Starts(at, life));
    }

    /// What a node that is not there any more leaves behind: clients without answers, and channels that break.
    fn end_life(&mut self, at: usize) {
        let site = &mut self.sites[at];
        site.life += 1;
        site.running = None;
        let id = site.id();
        self.cut_off_clients_of(at);
        self.network.forget(id);
        for other in 0..self.sites.len() {
            self.disconnect(id, NodeId(other as u32));
        }
    }

    /// The channel between two nodes breaks, if there is one.
    pub(super) fn disconnect(&mut self, one: NodeId, other: NodeId) {
        if one == other {
            return;
        }
        let there = self.there();
        for end in self.network.break_between(one, other, &there) {
            let about = if end == one { other } else { one };
            let delay_us = self.random.uniform(1, 4_000);
            self.at(delay_us, Event::Loses(end, about));
        }
    }

    /// Nodes whose power has gone go down.
    pub(super) fn notice_power_cuts(&mut self) {
        for at in 0..self.sites.len() {
            if self.sites[at].running.is_some() && self.sites[at].disk.power.is_gone() {
                self.go_down(at);
            }
        }
    }

    /// Channels come about between nodes that know each other, can reach each other and have none.
    pub(super) fn connect_some(&mut self) {
        let delay_us = self.random.uniform(500, 3_000);
        self.at(delay_us, Event::Connects);
        let there: Vec<NodeId> = self.there().into_iter().collect();
        for (at, one) in there.iter().enumerate() {
            for other in &there[at + 1..] {
                let knows = |one: NodeId, other: NodeId| self.sites[one.0 as usize].members.contains(&other);
                let may = knows(*one, *other) && knows(*other, *one) && self.network.can_connect(*one, *other);
                if may && self.random.uniform(0, 2) > 0 {
                    self.connect(*one, *other);
                }
            }
        }
    }

    fn connect(&mut self, one: NodeId, other: NodeId) {
        self.network.connect(one, other);
        self.note(format_args!("{one} and {other} are connected"));
        for (teller, hearer) in [(one, other), (other, one)] {
            if teller.0 as usize == self.first {
                self.hear_members(hearer.0 as usize);
            }
        }
        for (end, about) in [(one, other), (other, one)] {
            let at = end.0 as usize;
            if let Some(running) = &self.sites[at].running {
                running.node.on_node_up(about);
            }
            self.drain(at);
        }
    }

    /// A node hears that its channel to another has broken.
    pub(super) fn lose(&mut self, end: NodeId, about: NodeId) {
        if !self.network.hears(end, about) {
            return;
        }
        self.note(format_args!("{end} cannot reach {about}"));
        let at = end.0 as usize;
        if let Some(running) = &self.sites[at].running {
            running.node.on_node_down(about);
        }
        self.drain(at);
    }

    /// One more node, which whoever keeps the list takes into it.
    pub(super) fn join(&mut self) -> Result<usize, Violation> {
        let at = self.sites.len();
        let id = NodeId(at as u32);
        let mut members = self.sites[self.first].members.clone();
        members.insert(id);
        self.sites.push(Site::new(at as u32, members.clone()));
        self.coverage.count("joins");
        self.note(format_args!("node {at} joins"));
        self.change_members(members);
        self.start(at)?;
        Ok(at)
    }

    /// Whoever keeps the list has another one, and tells it to the others.
    fn change_members(&mut self, members: BTreeSet<NodeId>) {
        let first = self.first;
        self.sites[first].members = members;
        self.set_members(first);
        for at in (0..self.sites.len()).filter(|at| *at != first) {
            if self.network.is_up(NodeId(first as u32), NodeId(at as u32)) {
                let (delay_us, life) = (self.random.uniform(50, 2_000), self.sites[at].life);
                self.at(delay_us, Event::HearsMembers(at, life));
            }
        }
    }

    /// A node hears the list.
    pub(super) fn hear_members(&mut self, at: usize) {
        let members = self.sites[self.first].members.clone();
        if at == self.first || self.sites[at].running.is_none() || self.sites[at].members == members {
            return;
        }
        let is_member = members.contains(&self.sites[at].id());
        self.sites[at].members = members;
        match is_member {
            true => self.set_members(at),
            false => self.leave(at),
        }
    }

    fn set_members(&mut self, at: usize) {
        let (id, members) = (self.sites[at].id(), self.sites[at].members.clone());
        let Some(running) = &self.sites[at].running else { return };
        let last = members.last().copied().unwrap_or(FIRST);
        running.node.set_members(members.iter().copied().collect(), last);
        for other in members.iter().filter(|other| **other != id) {
            if !self.network.is_up(id, *other) {
                running.node.on_node_down(*other);
            }
        }
        self.drain(at);
    }

    /// A node was removed: it serves nobody any more.
    fn leave(&mut self, at: usize) {
        self.note(format_args!("node {at} was removed"));
        self.coverage.count("removals");
        self.end_life(at);
    }

    /// Whoever keeps the list takes those out of it that are to be members no more.
    fn remove_members(&mut self) {
        let Some(running) = &self.sites[self.first].running else {
            return;
        };
        let removed = running.node.removed();
        if removed.is_empty() {
            return;
        }
        let mut members = self.sites[self.first].members.clone();
        members.retain(|node| !removed.contains(node));
        if members != self.sites[self.first].members {
            self.change_members(members);
        }
        // The one that has gone may not hear of it; the others speak with it no more.
        for node in removed {
            let (delay_us, life) = (self.random.uniform(2_000, 9_000), self.sites[node.0 as usize].life);
            self.at(delay_us, Event::IsGone(node.0 as usize, life));
        }
    }

    /// A node that was removed is gone in any case.
    pub(super) fn be_gone(&mut self, at: usize) {
        if self.sites[at].running.is_some() {
            self.leave(at);
        }
    }

    /// Takes what a node has to send and to tell, and schedules what it waits for.
    pub(super) fn drain(&mut self, at: usize) {
        self.follow_keeper(at);
        let from = self.sites[at].id();
        let Some(running) = &mut self.sites[at].running else {
            return;
        };
        let outgoing = running.node.poll_outgoing();
        let outcomes = running.connections.take_outcomes();
        for (to, message) in outgoing {
            self.coverage.count(message.name());
            // Some wait on their way, and what is said behind them comes with them.
            let waits_us = match self.random.uniform(1, STALLS_EVERY) {
                1 => self.random.uniform(2_000, STALL_US_MAX),
                _ => 0,
            };
            let arrives_us = self.now_us + waits_us + self.random.uniform(20, 600);
            if let Some((arrives_us, epoch)) = self.network.send(from, to, &message, arrives_us) {
                self.at(arrives_us - self.now_us, Event::Arrives(from, to, epoch));
            }
        }
        for (client, outcome) in outcomes {
            self.take_outcome(at, client, outcome);
        }
        self.schedule(at);
    }

    /// A node that has come to keep what there is once keeps the list, too, which it has heard before.
    fn follow_keeper(&mut self, at: usize) {
        let own = self.sites[at].id();
        let is_keeper = |running: &Running| running.node.keeper() == Some(own);
        if !self.sites[at].running.as_ref().is_some_and(is_keeper) {
            return;
        }
        let before = std::mem::replace(&mut self.first, at);
        if before != at {
            self.coverage.count("hand-overs");
            self.note(format_args!("node {at} keeps what there is once"));
            self.change_members(self.sites[before].members.clone());
        }
        self.remove_members();
    }

    fn schedule(&mut self, at: usize) {
        let has_slow_disk = self.plan.has(GrowthTrouble::SlowDisk);
        let site = &mut self.sites[at];
        let (life, scheduled) = (site.life, &mut site.scheduled);
        let Some(running) = &site.running else { return };
        let deadline_us = running.connections.next_deadline_us();
        let mut events = Vec::new();
        if running.bell.0.load(Ordering::SeqCst) && !std::mem::replace(&mut scheduled.wakes, true) {
            events.push((self.random.uniform(0, 30), Event::Wakes(at, life)));
        }
        let waits = running.node.waits_for_log() || running.connections.waits_for_log();
        if waits && !std::mem::replace(&mut scheduled.forces, true) {
            let longest_us = if has_slow_disk { 20_000 } else { 600 };
            events.push((self.random.uniform(50, longest_us), Event::Forces(at, life)));
        }
        if running.connections.waits_for_readers() && !std::mem::replace(&mut scheduled.reads, true) {
            events.push((self.random.uniform(1, 50), Event::Reads(at, life)));
        }
        let rung_us = running
            .connections
            .is_rung()
            .then(|| self.now_us + self.random.uniform(0, 30));
        let runs_at_us = [rung_us, deadline_us.map(|at_us| at_us.max(self.now_us + 1))];
        if let Some(at_us) = runs_at_us.into_iter().flatten().min()
            && scheduled.runs_at_us.is_none_or(|before| at_us < before)
        {
            scheduled.runs_at_us = Some(at_us);
            events.push((at_us - self.now_us, Event::Runs(at, life)));
        }
        for (delay_us, event) in events {
            self.at(delay_us, event);
        }
    }

    /// The worker of a node runs.
    pub(super) fn run_worker(&mut self, at: usize) {
        let (now_us, site) = (self.now_us, &mut self.sites[at]);
        // One that has run earlier than it was to has its next run elsewhere.
        if site.scheduled.runs_at_us.is_none_or(|at_us| at_us > now_us) {
            return;
        }
        site.scheduled.runs_at_us = None;
        if let Some(running) = &mut site.running {
            running.connections.run(now_us);
        }
        self.drain(at);
    }

    /// Sessions have let branches go on.
    pub(super) fn wake(&mut self, at: usize) {
        let site = &mut self.sites[at];
        site.scheduled.wakes = false;
        if let Some(running) = &site.running {
            running.bell.0.store(false, Ordering::SeqCst);
            running.node.on_wake();
        }
        self.drain(at);
    }

    /// Clients have read what was sent to them.
    pub(super) fn read(&mut self, at: usize) {
        let site = &mut self.sites[at];
        site.scheduled.reads = false;
        if let Some(running) = &mut site.running {
            running.connections.on_read();
        }
        self.drain(at);
    }

    /// A node's log is forced, or that fails and is tried again.
    pub(super) fn force(&mut self, at: usize) {
        let (now_us, site) = (self.now_us, &mut self.sites[at]);
        site.scheduled.forces = false;
        let Some(running) = &mut site.running else { return };
        running.connections.run(now_us);
        match running.node.force() {
            Ok(forced) => {
                running.node.on_forced(forced);
                self.drain(at);
            }
            Err(_) => {
                site.scheduled.forces = true;
                let life = site.life;
                self.at(FORCE_PAUSE_US, Event::Forces(at, life));
            }
        }
    }

    /// Has a node know the time.
    pub(super) fn tell_time(&mut self, at: usize) {
        let life = self.sites[at].life;
        if let Some(running) = &self.sites[at].running {
            running.node.look_after_log();
            running.node.on_timer(self.now_us);
        }
        let pause_us = self.random.uniform(RETRY_US / 4, RETRY_US);
        self.at(pause_us, Event::Ticks(at, life));
        self.drain(at);
    }

    /// The background's turn on a node.
    pub(super) fn in_background(&mut self, at: usize) {
        let eager = self.plan.has(GrowthTrouble::Checkpoints) && self.phase == Phase::Working;
        let Some(running) = &self.sites[at].running else { return };
        if eager || running.node.checkpoint_is_due() {
            let made = running.node.checkpoint();
            self.coverage.count(match &made {
                Ok(_) => "checkpoints",
                Err(_) => "checkpoints that failed",
            });
        }
        let life = self.sites[at].life;
        let pause_us = self.random.uniform(LOOK_US / 4, LOOK_US);
        self.at(pause_us, Event::Background(at, life));
        self.drain(at);
    }

    /// Checks that what a node leaves on its disk can be recovered; what it is.
    pub(super) fn verify_disk(&self, at: usize) -> Result<VerifyReport, Violation> {
        let disk = &self.sites[at].disk;
        let found = verify(&disk.store(), disk.directory());
        found.map_err(failed("cannot be recovered"))
    }
}
