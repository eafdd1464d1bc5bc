//! A run under way: nodes, sessions, channels and disks in virtual time, one event after the other.

use super::network::Network;
use super::operator::Operator;
use super::plan::{GrowthPlan, GrowthTrouble};
use super::sites::Site;
use crate::check::{self, Violation};
use crate::client::Client;
use crate::clock;
use crate::history::{History, Transaction};
use crate::plan::Plan;
use crate::trace::{Coverage, Trace};
use crate::world::Report;
use rubato_base::NodeId;
use rubato_node::grid::GridMessage;
use rubato_workload::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When a run begins: in microseconds since 1970.
const BEGIN_US: i64 = 1_800_000_000_000_000;
/// Virtual time after which a client without an answer, or a grid that does not come to rest, counts as hanging.
pub(super) const PATIENCE_US: i64 = 60_000_000;
/// Events after which a run counts as endless.
const EVENTS_MAX: u64 = 4_000_000;
/// How often something goes wrong in a run, at most.
const TROUBLES_MAX: usize = 30;
/// How often somebody looks for clients that hang.
const WATCH_US: i64 = 1_000_000;
/// How long nodes cannot reach each other.
const CUT_US: (i64, i64) = (2_000, 1_500_000);
/// How many times the transactions of the plan there may be while the grid changes.
const BEYOND: usize = 3;

/// Something that happens. Events of an earlier life of a node, or generation of a client, come to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A client goes on.
    Acts(usize, u64),
    /// An answer reaches a client.
    Answered(usize, u64),
    /// The operator goes on, or hears an answer.
    Operates(u64),
    /// The next message of a channel arrives.
    Arrives(NodeId, NodeId, u64),
    /// A node hears that its channel to another has broken.
    Loses(NodeId, NodeId),
    /// Channels come about.
    Connects,
    /// A node hears the list of nodes.
    HearsMembers(usize, u64),
    /// A node that was removed is gone.
    IsGone(usize, u64),
    /// A node is told the time.
    Ticks(usize, u64),
    /// A node's worker runs.
    Runs(usize, u64),
    /// A node goes on with branches that sessions have let go on.
    Wakes(usize, u64),
    /// A node's clients have read what it sent.
    Reads(usize, u64),
    /// A node's forcing of its log comes to its end.
    Forces(usize, u64),
    /// A node looks whether a checkpoint is due.
    Background(usize, u64),
    /// A node that is down is started.
    Starts(usize, u64),
    /// Something goes wrong.
    Trouble,
    /// What was cut is mended.
    Mends,
    /// Somebody looks whether clients hang.
    Watch,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The grid comes to be, and the tables.
    Preparing,
    /// Clients and the operator work, and things go wrong.
    Working,
    /// All have ended, nothing goes wrong: the grid comes to rest.
    Resting,
    /// Everything is read, at each node.
    Reading,
    /// All nodes were started again.
    RestingAgain,
    /// Everything is read again.
    ReadingAgain,
    /// It is over.
    Over,
}

/// A run under way.
pub(super) struct World<'p> {
    pub(super) plan: &'p GrowthPlan,
    pub(super) of_clients: Plan,
    pub(super) random: Random,
    pub(super) sites: Vec<Site>,
    /// The one that keeps what there is once, the list of nodes among it, or was seen to last.
    pub(super) first: usize,
    pub(super) clients: Vec<Client>,
    /// The node that each client is connected to, or was last.
    pub(super) seats: Vec<usize>,
    pub(super) operator: Operator,
    pub(super) network: Network,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    sequence: u64,
    pub(super) now_us: i64,
    moment: u64,
    pub(super) phase: Phase,
    /// Since when the phase lasts.
    pub(super) since_us: i64,
    pub(super) next_transaction: i64,
    pub(super) next_session: u64,
    /// Transactions that clients may still have beyond those of the plan, while the grid changes.
    pub(super) beyond_left: usize,
    troubles_left: usize,
    crashes_left: usize,
    /// Transactions whose outcome no client knows; they can take effect until the grid has come to rest.
    pub(super) unknown: Vec<Transaction>,
    pub(super) history: History,
    violations: Vec<Violation>,
    pub(super) coverage: Coverage,
    trace: Trace,
}

/// Runs a plan. The trace keeps its text if asked to.
pub fn run(plan: &GrowthPlan, keeps_text: bool) -> Report {
    let mut world = World::new(plan, keeps_text);
    if let Err(violation) = world.live() {
        world.violations.push(violation);
    }
    world.into_report()
}

impl<'p> World<'p> {
    fn new(plan: &'p GrowthPlan, keeps_text: bool) -> World<'p> {
        let of_clients = plan.of_clients();
        let members = || (0..plan.nodes).map(NodeId).collect();
        World {
            plan,
            random: Random::derived(plan.seed, &[32]),
            sites: (0..plan.nodes).map(|number| Site::new(number, members())).collect(),
            first: 0,
            clients: (0..=plan.clients)
                .map(|number| Client::new(number, &of_clients))
                .collect(),
            seats: vec![0; plan.clients + 1],
            of_clients,
            operator: Operator::new(plan.changes),
            network: Network::default(),
            events: BinaryHeap::new(),
            sequence: 0,
            now_us: BEGIN_US,
            moment: 0,
            phase: Phase::Preparing,
            since_us: BEGIN_US,
            next_transaction: 1,
            next_session: 0,
            beyond_left: plan.clients * plan.transactions * BEYOND,
            troubles_left: TROUBLES_MAX,
            crashes_left: if plan.has(GrowthTrouble::Crashes) {
                plan.crashes
            } else {
                0
            },
            unknown: Vec::new(),
            history: History::default(),
            violations: Vec::new(),
            coverage: Coverage::default(),
            trace: Trace::new(keeps_text),
        }
    }

    fn live(&mut self) -> Result<(), Violation> {
        clock::set(self.now_us);
        for at in 0..self.sites.len() {
            self.start(at)?;
        }
        self.at(1, Event::Connects);
        self.at(WATCH_US, Event::Watch);
        self.operate_in(1);
        let mut events = 0;
        while let Some(Reverse((at_us, _, event))) = self.events.pop() {
            self.now_us = self.now_us.max(at_us);
            clock::set(self.now_us);
            self.handle(event)?;
            self.notice_power_cuts();
            self.enter_next_phase()?;
            if self.phase == Phase::Over {
                return Ok(());
            }
            events += 1;
            if events > EVENTS_MAX {
                return Err(Violation::new("endless", "the run does not come to an end"));
            }
        }
        Err(Violation::new(
            "stuck",
            "nothing is left to happen, and the run is not over",
        ))
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Acts(client, generation) if self.clients[client].generation == generation => self.act(client)?,
            Event::Answered(client, generation) if self.clients[client].generation == generation => {
                self.on_answer(client)?;
            }
            Event::Operates(generation) => self.operate(generation)?,
            Event::Arrives(from, to, epoch) => self.arrive(from, to, epoch),
            Event::Loses(end, about) => self.lose(end, about),
            Event::Connects => self.connect_some(),
            Event::Trouble => self.make_trouble(),
            Event::Mends => {
                self.network.heal();
                self.note(format_args!("the network is whole"));
            }
            Event::Watch => self.watch()?,
            Event::Starts(at, life) if self.sites[at].life == life => self.start(at)?,
            Event::Ticks(at, life)
            | Event::HearsMembers(at, life)
            | Event::IsGone(at, life)
            | Event::Runs(at, life)
            | Event::Wakes(at, life)
            | Event::Reads(at, life)
            | Event::Forces(at, life)
            | Event::Background(at, life)
                if self.sites[at].life == life =>
            {
                self.handle_of_site(at, event);
            }
            _ => {}
        }
        Ok(())
    }

    fn handle_of_site(&mut self, at: usize, event: Event) {
        match event {
            Event::Ticks(..) => self.tell_time(at),
            Event::HearsMembers(..) => self.hear_members(at),
            Event::IsGone(..) => self.be_gone(at),
            Event::Runs(..) => self.run_worker(at),
            Event::Wakes(..) => self.wake(at),
            Event::Reads(..) => self.read(at),
            Event::Forces(..) => self.force(at),
            Event::Background(..) => self.in_background(at),
            _ => {}
        }
    }

    fn arrive(&mut self, from: NodeId, to: NodeId, epoch: u64) {
        let messages = self.network.take(from, to, epoch, self.now_us);
        if messages.is_empty() {
            return;
        }
        let at = to.0 as usize;
        let Some(running) = &self.sites[at].running else { return };
        let names: Vec<&str> = messages.iter().map(GridMessage::name).collect();
        running
            .node
            .on_messages(messages.into_iter().map(|message| (from, message)));
        for name in names {
            self.note(format_args!("{from} -> {to} {name}"));
        }
        self.drain(at);
    }

    pub(super) fn at(&mut self, delay_us: i64, event: Event) {
        self.sequence += 1;
        let at_us = self.now_us + delay_us.max(0);
        self.events.push(Reverse((at_us, self.sequence, event)));
    }

    /// The next moment of the run.
    pub(super) fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub(super) fn note(&mut self, line: std::fmt::Arguments<'_>) {
        let since_us = self.now_us - BEGIN_US;
        self.trace.note(format_args!("{since_us:>10} {line}"));
    }

    pub(super) fn trouble_soon(&mut self) {
        let pause_us = self.random.uniform(1_000, 60_000);
        self.at(pause_us, Event::Trouble);
    }

    /// Something goes wrong, of what may.
    fn make_trouble(&mut self) {
        if self.phase != Phase::Working {
            return;
        }
        self.trouble_soon();
        if self.troubles_left == 0 {
            return;
        }
        self.troubles_left -= 1;
        match self.random.uniform(0, 1) {
            0 if self.plan.has(GrowthTrouble::Partitions) => self.cut_ways(),
            1 if self.crashes_left > 0 => self.crash_somebody(),
            _ => {}
        }
    }

    /// A node goes down: any, or one in the midst of a commit; at once, or at some operation of its disk.
    fn crash_somebody(&mut self) {
        self.crashes_left -= 1;
        let there: Vec<NodeId> = self.there().into_iter().collect();
        let wanted = self.random.uniform(0, 2);
        let fits = |id: &&NodeId| {
            let figures = self.sites[id.0 as usize].running.as_ref().map(|own| own.node.figures());
            figures.is_some_and(|figures| match wanted {
                0 => figures.prepared > 0,
                1 => figures.undone_decisions > 0,
                _ => false,
            })
        };
        let any = self.random.uniform(0, there.len() as i64 - 1) as usize;
        let Some(chosen) = there.iter().find(fits).or(there.get(any)) else {
            return;
        };
        let at = chosen.0 as usize;
        if self.random.uniform(0, 1) == 0 {
            return self.go_down(at);
        }
        let operations = self.random.uniform(0, 12) as u64;
        self.sites[at].disk.power.goes_after(operations);
    }

    /// Two nodes, or one and all others, cannot reach each other for a while.
    fn cut_ways(&mut self) {
        let nodes = self.sites.len() as i64 - 1;
        let one = NodeId(self.random.uniform(0, nodes) as u32);
        let is_alone = self.random.uniform(0, 1) == 0;
        let other = NodeId(self.random.uniform(0, nodes) as u32);
        for at in 0..self.sites.len() as u32 {
            let end = NodeId(at);
            if end != one && (is_alone || end == other) {
                self.coverage.count("channels cut");
                self.network.cut(one, end);
                self.disconnect(one, end);
            }
        }
        self.note(format_args!("{one} is cut off, from all {is_alone}"));
        let cut_us = self.random.uniform(CUT_US.0, CUT_US.1);
        self.at(cut_us, Event::Mends);
    }

    /// A client hangs if it has not been told anything for too long.
    fn watch(&mut self) -> Result<(), Violation> {
        self.at(WATCH_US, Event::Watch);
        let now_us = self.now_us;
        let is_late = |since_us: Option<i64>| since_us.is_some_and(|since_us| now_us - since_us > PATIENCE_US);
        if let Some(client) = self.clients.iter().find(|client| is_late(client.waits_since_us)) {
            let name = client.under_way.as_ref().map_or("a rollback", |one| one.name);
            let what = format!("client {} was told nothing for a minute in {name}", client.number);
            return Err(Violation::new("hang", what));
        }
        match is_late(self.operator.waits_since_us) {
            true => Err(Violation::new("hang", "the operator was told nothing for a minute")),
            false => Ok(()),
        }
    }

    fn into_report(mut self) -> Report {
        let mut undecided = false;
        if self.violations.is_empty() {
            let verdict = check::check(&self.history, &crate::programs::contents());
            self.violations.extend(verdict.violations);
            undecided = verdict.undecided;
        }
        for violation in &self.violations {
            let line = format_args!("violation: {}: {}", violation.kind, violation.what);
            self.trace.note(line);
        }
        self.coverage
            .add("transactions", self.history.transactions.len() as u64);
        Report {
            violations: self.violations,
            undecided,
            history: self.history,
            coverage: self.coverage,
            trace: self.trace,
        }
    }
}
