//! A run of the grid: nodes, clients, network and disks in virtual time, one event after the other.

use super::clients::Client;
use super::network::{Network, Packet};
use super::plan::{GridPlan, GridTrouble};
use super::sites::Site;
use super::talk::Layout;
use super::tpcc;
use crate::check::{self, Violation};
use crate::clock;
use crate::history::{History, Transaction};
use crate::trace::{Coverage, Trace};
use crate::world::Report;
use rubato_workload::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When a run begins: in microseconds since 1970.
const BEGIN_US: i64 = 1_800_000_000_000_000;
/// Virtual time after which a client without an answer, or a grid that does not come to rest, counts as hanging.
pub(super) const PATIENCE_US: i64 = 60_000_000;
/// Events after which a run counts as endless.
const EVENTS_MAX: u64 = 2_000_000;
/// How often something goes wrong in a run, at most.
const TROUBLES_MAX: usize = 40;
/// How often somebody looks for clients that hang.
const WATCH_US: i64 = 1_000_000;

/// Something that happens. Events of an earlier life of a node, or generation or epoch of a client, come to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A client goes on.
    Acts(usize, u64),
    /// A client hears what its node told it.
    Hears(usize, u64),
    /// A message arrives.
    Arrives(u64),
    /// A node is told the time.
    Ticks(usize, u64),
    /// A node's forcing of its log comes to its end.
    Forces(usize, u64),
    /// A node looks whether a checkpoint is due.
    Background(usize, u64),
    /// A node that is down is started.
    Starts(usize, u64),
    /// Something goes wrong.
    Trouble,
    /// What was cut or slow is mended.
    Mends,
    /// The disk of a node has room again.
    Room(usize),
    /// Somebody looks whether clients hang.
    Watch,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Clients work, and things go wrong.
    Working,
    /// All have ended, nothing goes wrong: the grid comes to rest.
    Resting,
    /// Everything is read.
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
    pub(super) plan: &'p GridPlan,
    pub(super) random: Random,
    pub(super) sites: Vec<Site>,
    pub(super) clients: Vec<Client>,
    pub(super) network: Network,
    pub(super) layout: Layout,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    sequence: u64,
    pub(super) now_us: i64,
    moment: u64,
    pub(super) phase: Phase,
    /// Since when the phase lasts.
    pub(super) since_us: i64,
    pub(super) next_transaction: i64,
    pub(super) troubles_left: usize,
    pub(super) crashes_left: usize,
    /// Transactions whose outcome no client knows; they can take effect until the grid has come to rest.
    pub(super) unknown: Vec<Transaction>,
    pub(super) history: History,
    violations: Vec<Violation>,
    pub(super) coverage: Coverage,
    trace: Trace,
}

/// Runs a plan. The trace keeps its text if asked to.
pub fn run(plan: &GridPlan, keeps_text: bool) -> Report {
    let mut world = World::new(plan, keeps_text);
    if let Err(violation) = world.live() {
        world.violations.push(violation);
    }
    world.into_report()
}

impl<'p> World<'p> {
    fn new(plan: &'p GridPlan, keeps_text: bool) -> World<'p> {
        World {
            plan,
            random: Random::derived(plan.seed, &[22]),
            sites: (0..plan.nodes).map(|number| Site::new(number, plan)).collect(),
            clients: (0..=plan.clients).map(|number| Client::new(number, plan)).collect(),
            network: Network::default(),
            layout: Layout::default(),
            events: BinaryHeap::new(),
            sequence: 0,
            now_us: BEGIN_US,
            moment: 0,
            phase: Phase::Working,
            since_us: BEGIN_US,
            next_transaction: 1,
            troubles_left: TROUBLES_MAX,
            crashes_left: if plan.has(GridTrouble::Crashes) {
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
        self.set_up()?;
        self.at(WATCH_US, Event::Watch);
        self.trouble_soon();
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
            Event::Acts(client, generation) if self.clients[client].generation == generation => self.act(client),
            Event::Hears(client, epoch) if self.clients[client].epoch == epoch => self.hear(client),
            Event::Arrives(number) => {
                if let Some(packet) = self.network.take(number) {
                    self.arrive(packet);
                }
                Ok(())
            }
            Event::Ticks(site, life) if self.sites[site].life == life => {
                self.tell_time(site);
                Ok(())
            }
            Event::Forces(site, life) if self.sites[site].life == life => {
                self.force(site);
                Ok(())
            }
            Event::Background(site, life) if self.sites[site].life == life => {
                self.in_background(site);
                Ok(())
            }
            Event::Starts(site, life) if self.sites[site].life == life => self.start(site),
            Event::Trouble => {
                self.make_trouble();
                Ok(())
            }
            Event::Mends => {
                self.network.heal();
                self.note(format_args!("the network is whole"));
                Ok(())
            }
            Event::Room(site) => {
                self.sites[site].make_room();
                Ok(())
            }
            Event::Watch => self.watch(),
            _ => Ok(()),
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let (from, to, message) = (packet.from, packet.to, packet.message());
        let name = message.name();
        let at = to.0 as usize;
        let Some(node) = self.sites.get_mut(at).and_then(|site| site.node.as_mut()) else {
            self.coverage.count("messages to a node that is down");
            return;
        };
        node.on_message(from, message);
        self.note(format_args!("{from} -> {to} {name}"));
        self.drain(at);
    }

    /// Takes what a node has to send and to tell.
    pub(super) fn drain(&mut self, at: usize) {
        let calm = self.phase != Phase::Working;
        let (outgoing, told) = self.sites[at].poll(self.plan);
        let from = self.sites[at].id();
        for (to, message) in outgoing {
            let packet = (Packet::new(from, to, &message), message.name());
            let arrivals = (self.network).send(packet, self.plan, calm, &mut self.random, &mut self.coverage);
            for (delay_us, number) in arrivals {
                self.at(delay_us, Event::Arrives(number));
            }
        }
        for (ticket, told) in told {
            self.take_told(at, ticket, told);
        }
        self.force_if_wanted(at);
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

    /// A client hangs if it has not been told anything for too long.
    fn watch(&mut self) -> Result<(), Violation> {
        self.at(WATCH_US, Event::Watch);
        let now_us = self.now_us;
        let late = |client: &&Client| {
            client
                .waits_since_us
                .is_some_and(|since_us| now_us - since_us > PATIENCE_US)
        };
        let Some(client) = self.clients.iter().find(late) else {
            return Ok(());
        };
        let what = format!(
            "client {} was told nothing for a minute in {}",
            client.number,
            client.name()
        );
        Err(Violation::new("hang", what))
    }

    fn into_report(mut self) -> Report {
        let mut undecided = false;
        let mut contents = crate::programs::contents();
        if self.plan.has_tpcc() {
            contents.extend(tpcc::contents());
            if self.violations.is_empty() {
                let (violations, readings) = tpcc::check(&self.history);
                self.violations.extend(violations);
                self.coverage.add("TPC-C: conditions checked", readings);
            }
        }
        if self.violations.is_empty() {
            let verdict = check::check(&self.history, &contents);
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
