//! A run: a node, its clients and its disk in virtual time. One thing happens after the other, each at its moment; what happens
//! next, and when, comes from the seed.

mod clients;
mod life;
mod troubles;

pub(crate) use life::log_options;

use crate::check::{self, Violation};
use crate::client::Client;
use crate::clock;
use crate::connections::{Connections, Outcome};
use crate::disk::Disk;
use crate::history::History;
use crate::plan::{Plan, Trouble, Weakness};
use crate::trace::{Coverage, Trace};
use rubato_node::Node;
use rubato_workload::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When a run begins: in microseconds since 1970.
const BEGIN_US: i64 = 1_800_000_000_000_000;
/// Virtual time after which a statement without an answer counts as hanging.
const ANSWER_US_MAX: i64 = 60_000_000;
/// Events after which a run counts as endless.
const EVENTS_MAX: u64 = 2_000_000;
/// How often something goes wrong in a run, at most.
const TROUBLES_MAX: usize = 40;
/// How often somebody looks for statements that hang.
const WATCH_US: i64 = 1_000_000;
/// How often the background looks whether a checkpoint is due, as in the program.
const LOOK_US: i64 = 20_000;
/// How often a log that could not grow is tried again, as in the program.
const LOG_US: i64 = 500_000;

/// How long after the last client has ended something may still be kept for it.
const DRAIN_US_MAX: i64 = 2_000_000;

/// Something that happens. Events of an earlier life of the node come to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client, if it is still of that generation, goes on.
    Acts(usize, u64),
    /// An answer reaches a client.
    Answered(usize, u64),
    /// A worker runs.
    Runs(usize, u64),
    /// The clients of a worker have read what it sent.
    Reads(usize, u64),
    /// A worker's forcing of the log comes to its end.
    Forces(usize, u64),
    /// The background looks whether a checkpoint is due, or makes one at any rate.
    Background(u64),
    /// The background looks after the log.
    LooksAfterLog(u64),
    /// Something goes wrong.
    Trouble(u64),
    /// The disk has room again.
    Room,
    /// Somebody looks whether statements hang.
    Watch,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Clients work, and things go wrong.
    Working,
    /// All have ended; everything is read.
    Reading,
    /// The same after a last power cut.
    ReadingAgain,
    /// It is over.
    Over,
}

/// What is scheduled for a worker.
#[derive(Clone, Copy, Default)]
struct Scheduled {
    runs_at_us: Option<i64>,
    forces: bool,
    reads: bool,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// What must not be.
    pub violations: Vec<Violation>,
    /// The search for one order was given up.
    pub undecided: bool,
    /// What the clients saw.
    pub history: History,
    /// How often what happened.
    pub coverage: Coverage,
    /// What happened, line by line.
    pub trace: Trace,
}

/// A run under way.
struct World<'p> {
    plan: &'p Plan,
    random: Random,
    disk: Disk,
    node: Option<Node>,
    workers: Vec<Connections>,
    scheduled: Vec<Scheduled>,
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    sequence: u64,
    now_us: i64,
    /// How far the wall clock is off.
    offset_us: i64,
    moment: u64,
    life: u64,
    phase: Phase,
    next_transaction: i64,
    next_session: u64,
    ended_transactions: usize,
    /// Since when all have ended and something is kept for them still.
    drains_since_us: Option<i64>,
    /// How often something may still go wrong: a node that is disturbed for ever gets nowhere.
    troubles_left: usize,
    /// Numbers of ended transactions at which the node is to go down.
    crashes_at: Vec<usize>,
    history: History,
    violations: Vec<Violation>,
    coverage: Coverage,
    trace: Trace,
}

/// Runs a plan. The trace keeps its text if asked to.
pub fn run(plan: &Plan, keeps_text: bool) -> Report {
    let mut world = World::new(plan, keeps_text);
    if let Err(violation) = world.live() {
        world.violations.push(violation);
    }
    world.into_report()
}

impl<'p> World<'p> {
    fn new(plan: &'p Plan, keeps_text: bool) -> World<'p> {
        let mut random = Random::derived(plan.seed, &[2]);
        let total = (plan.clients * plan.transactions) as i64;
        let mut crashes_at: Vec<usize> = match plan.has(Trouble::Crashes) {
            true => (0..plan.crashes).map(|_| random.uniform(0, total) as usize).collect(),
            false => Vec::new(),
        };
        crashes_at.sort_unstable();
        let disk = Disk::default();
        if plan.weakness == Some(Weakness::LyingDisk) {
            disk.power.lies();
        }
        World {
            plan,
            random,
            disk,
            node: None,
            workers: Vec::new(),
            scheduled: vec![Scheduled::default(); plan.workers],
            clients: (0..=plan.clients).map(|number| Client::new(number, plan)).collect(),
            events: BinaryHeap::new(),
            sequence: 0,
            now_us: BEGIN_US,
            offset_us: 0,
            moment: 0,
            life: 0,
            phase: Phase::Working,
            next_transaction: 1,
            next_session: 1,
            ended_transactions: 0,
            drains_since_us: None,
            troubles_left: TROUBLES_MAX,
            crashes_at,
            history: History::default(),
            violations: Vec::new(),
            coverage: Coverage::default(),
            trace: Trace::new(keeps_text),
        }
    }

    fn live(&mut self) -> Result<(), Violation> {
        self.start()?;
        let mut events = 0;
        while let Some(Reverse((at_us, _, event))) = self.events.pop() {
            self.now_us = self.now_us.max(at_us);
            self.set_clock();
            self.handle(event)?;
            self.deliver()?;
            if self.disk.power.is_gone() {
                self.go_down_and_up()?;
            }
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
            Event::Answered(client, generation) if self.clients[client].generation == generation => {
                self.on_answer(client)
            }
            Event::Runs(worker, life) if life == self.life && self.is_to_run(worker) => {
                self.scheduled[worker].runs_at_us = None;
                let wall_us = self.wall_us();
                self.workers[worker].run(wall_us);
                Ok(())
            }
            Event::Reads(worker, life) if life == self.life => {
                self.scheduled[worker].reads = false;
                self.workers[worker].on_read();
                self.soon(worker);
                Ok(())
            }
            Event::Forces(worker, life) if life == self.life => {
                self.scheduled[worker].forces = false;
                // A worker of the server runs its engine in every round before it forces: that is how the engine knows the time.
                let wall_us = self.wall_us();
                self.workers[worker].run(wall_us);
                let forced = self.workers[worker].force();
                self.coverage
                    .count(if forced { "log forced" } else { "log not forced" });
                Ok(())
            }
            Event::Background(life) if life == self.life => {
                self.on_background();
                Ok(())
            }
            Event::LooksAfterLog(life) if life == self.life => {
                if let Some(node) = &self.node {
                    node.look_after_log();
                }
                self.at(LOG_US, event);
                Ok(())
            }
            Event::Trouble(life) if life == self.life => {
                self.make_trouble();
                Ok(())
            }
            Event::Room => {
                self.make_room();
                Ok(())
            }
            Event::Watch => self.watch(),
            _ => Ok(()),
        }
    }

    /// Hands on what the workers have done, and schedules what they wait for.
    fn deliver(&mut self) -> Result<(), Violation> {
        for worker in 0..self.workers.len() {
            for (client, outcome) in self.workers[worker].take_outcomes() {
                match outcome {
                    Outcome::Answered(answer) => {
                        self.clients[client].inbox = Some(answer);
                        let delay_us = self.random.uniform(5, 200);
                        let generation = self.clients[client].generation;
                        self.at(delay_us, Event::Answered(client, generation));
                    }
                    Outcome::Ended => self.on_session_ended(client),
                }
            }
        }
        for worker in 0..self.workers.len() {
            self.schedule(worker);
        }
        Ok(())
    }

    fn schedule(&mut self, worker: usize) {
        if self.workers[worker].is_rung() {
            self.soon(worker);
        }
        if self.workers[worker].waits_for_readers() && !self.scheduled[worker].reads {
            self.scheduled[worker].reads = true;
            let longest_us = if self.plan.has(Trouble::SlowClients) {
                50_000
            } else {
                50
            };
            let delay_us = self.random.uniform(1, longest_us);
            self.at(delay_us, Event::Reads(worker, self.life));
        }
        if self.workers[worker].waits_for_log() && !self.scheduled[worker].forces {
            self.scheduled[worker].forces = true;
            let longest_us = if self.plan.has(Trouble::SlowDisk) { 40_000 } else { 400 };
            let delay_us = self.random.uniform(50, longest_us);
            self.at(delay_us.max(1), Event::Forces(worker, self.life));
        }
        if let Some(deadline_us) = self.workers[worker].next_deadline_us() {
            let delay_us = (deadline_us - self.wall_us()).max(1);
            self.run_worker_in(worker, delay_us);
        }
    }

    /// Runs a worker within a moment.
    fn soon(&mut self, worker: usize) {
        let delay_us = self.random.uniform(0, 30);
        self.run_worker_in(worker, delay_us);
    }

    fn run_worker_in(&mut self, worker: usize, delay_us: i64) {
        let at_us = self.now_us + delay_us;
        if self.scheduled[worker].runs_at_us.is_none_or(|before| at_us < before) {
            self.scheduled[worker].runs_at_us = Some(at_us);
            self.at(delay_us, Event::Runs(worker, self.life));
        }
    }

    /// Whether the worker is to run now. One that has run earlier than it was to has its next run elsewhere: if it ran for each that it
    /// was to have, and each had one follow, there would be more of them all the time.
    fn is_to_run(&self, worker: usize) -> bool {
        let runs_at_us = self.scheduled[worker].runs_at_us;
        runs_at_us.is_some_and(|at_us| at_us <= self.now_us)
    }

    fn at(&mut self, delay_us: i64, event: Event) {
        self.sequence += 1;
        self.events
            .push(Reverse((self.now_us + delay_us, self.sequence, event)));
    }

    fn wall_us(&self) -> i64 {
        self.now_us + self.offset_us
    }

    fn set_clock(&self) {
        clock::set(self.wall_us());
    }

    /// The next moment of the run.
    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn note(&mut self, line: std::fmt::Arguments<'_>) {
        let since_us = self.now_us - BEGIN_US;
        self.trace.note(format_args!("{since_us:>10} {line}"));
    }

    /// A statement hangs if its answer has not come for too long.
    fn watch(&mut self) -> Result<(), Violation> {
        self.at(WATCH_US, Event::Watch);
        let late = |client: &&Client| {
            client
                .waits_since_us
                .is_some_and(|since_us| self.now_us - since_us > ANSWER_US_MAX)
        };
        if let Some(client) = self.clients.iter().find(late) {
            let under_way = client.under_way.as_ref();
            let name = under_way.map_or("a rollback", |under_way| under_way.name);
            let what = format!("client {} got no answer for a minute in {name}", client.number);
            return Err(Violation::new("hang", what));
        }
        Ok(())
    }

    fn into_report(mut self) -> Report {
        let mut undecided = false;
        if self.violations.is_empty() {
            let contents = crate::programs::contents();
            let verdict = check::check(&self.history, &contents);
            self.violations.extend(verdict.violations);
            undecided = verdict.undecided;
        }
        for violation in &self.violations {
            self.trace
                .note(format_args!("violation: {}: {}", violation.kind, violation.what));
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
