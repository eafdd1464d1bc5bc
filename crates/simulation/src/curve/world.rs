//! A grid in virtual time.

use super::client::{CurveClient, Move};
use super::site::{CurveSite, Effects, Frame, Task};
use super::{Curve, CurveLoad, Found, Times};
use crate::answer::Answer;
use crate::check::Violation;
use crate::client::requests;
use crate::clock;
use crate::direct::rows;
use crate::talk::Question;
use bytes::Bytes;
use rubato_base::{DataType, NodeId};
use rubato_sql::client::Request;
use rubato_workload::tpcc::{self, Scale, Settings};
use rubato_workload::ycsb::{self, Shape};
use rubato_workload::{Client, ClientError, Param, Placement, Rows, values};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// When a run begins: in microseconds since 1970.
const BEGIN_US: i64 = 1_800_000_000_000_000;
/// Virtual time before anything counts.
const WARMUP_US: i64 = 200_000;
/// How often nodes are told the time.
const TICK_US: i64 = 50_000;
/// Rounds in which the answer of whoever loads has to come.
const ROUNDS_MAX: usize = 100_000;
/// Virtual time between two rounds of loading.
const ROUND_US: i64 = 1_000;
/// Fields of a record of YCSB.
const YCSB_COLUMNS: usize = 10;
/// Clients of a load have numbers from here on, for each load anew; below are sessions that load.
const CLIENTS_FROM: usize = 1_000;
/// Clients of all loads before the next: no more terminals than this are simulated at a time.
const CLIENTS_STEP: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A frame reaches a node.
    Arrives(u64),
    /// A processor has done what it was at.
    Done(u64),
    /// A disk has forced a log.
    Forced(usize),
    /// A node is told the time.
    Ticks(usize),
    /// A node wants to be run.
    Runs(usize),
    /// An answer reaches a client.
    Hears(usize),
    /// A client begins, or tries again.
    Acts(usize),
}

/// A frame under way, from a node.
struct Packet {
    from: NodeId,
    frame: Frame,
}

impl Packet {
    /// Whom it reaches, and what that gets.
    fn open(self) -> (usize, Frame) {
        let to = self.frame.node.0 as usize;
        let node = self.from;
        (to, Frame { node, ..self.frame })
    }
}

struct World<'c> {
    curve: &'c Curve,
    sites: Vec<CurveSite>,
    clients: Vec<CurveClient>,
    /// The number of the first client of the load.
    first_client: usize,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    sequence: u64,
    now_us: i64,
    packets: std::collections::BTreeMap<u64, Packet>,
    /// What a processor was at, until its time has passed.
    works: std::collections::BTreeMap<u64, (usize, Effects)>,
    times: Times,
    /// Nothing takes any time: the tables are loaded, or checked.
    is_loading: bool,
    /// Answers to sessions that load.
    loaded: Option<Answer>,
    counts_from_us: i64,
    next_session: u64,
    found: Found,
}

/// Loads a grid, and runs the loads on it one after the other.
///
/// # Errors
/// The grid does not load, or a client hears what cannot be.
pub fn measure(curve: &Curve) -> Result<Vec<Found>, Violation> {
    let mut world = World::new(curve)?;
    world.load()?;
    let mut all = Vec::new();
    for (number, load) in curve.loads.iter().enumerate() {
        all.push(world.run(number, *load)?);
    }
    Ok(all)
}

impl<'c> World<'c> {
    fn new(curve: &'c Curve) -> Result<World<'c>, Violation> {
        clock::set(BEGIN_US);
        let sites: Result<Vec<CurveSite>, Violation> =
            (0..curve.nodes).map(|id| CurveSite::new(id, curve.nodes)).collect();
        let world = World {
            curve,
            sites: sites?,
            clients: Vec::new(),
            first_client: CLIENTS_FROM,
            events: BinaryHeap::new(),
            sequence: 0,
            now_us: BEGIN_US,
            packets: Default::default(),
            works: Default::default(),
            times: curve.times,
            is_loading: true,
            loaded: None,
            counts_from_us: i64::MAX,
            next_session: 1,
            found: Found::default(),
        };
        for one in &world.sites {
            for other in world.sites.iter().filter(|other| other.id != one.id) {
                one.node.on_node_up(other.id);
            }
        }
        Ok(world)
    }

    fn scale(&self) -> Scale {
        Scale::quick(i64::from(self.curve.nodes) * i64::from(self.curve.warehouses_per_node))
    }

    fn shape(&self) -> Shape {
        Shape {
            records: self.curve.records_per_node * u64::from(self.curve.nodes),
            columns: YCSB_COLUMNS,
        }
    }

    fn site_of_warehouse(&self, warehouse: i64) -> usize {
        warehouse.unsigned_abs() as usize % self.sites.len()
    }

    fn load(&mut self) -> Result<(), Violation> {
        let failed = |error: ClientError| Violation::new("does not load", error.to_string());
        let (scale, shape, seed) = (self.scale(), self.shape(), self.curve.seed);
        for site in 0..self.sites.len() {
            let session = self.session();
            self.sites[site].connect(site, session)?;
        }
        // Until all nodes are born and know each other.
        (0..100).for_each(|_| self.round());
        tpcc::create_tables(&mut Loader::at(self, 0), Placement::Spread).map_err(failed)?;
        ycsb::create_table(&mut Loader::at(self, 0), shape, Placement::Spread).map_err(failed)?;
        (0..100).for_each(|_| self.round());
        for job in tpcc::load_jobs(scale, seed) {
            let site = job.warehouse().map_or(0, |warehouse| self.site_of_warehouse(warehouse));
            job.run(&mut Loader::at(self, site), &|_| {}).map_err(failed)?;
        }
        for part in ycsb::load_parts(shape, seed) {
            part.run(&mut Loader::at(self, 0), &|_| {}).map_err(failed)?;
        }
        tpcc::create_indexes(&mut Loader::at(self, 0)).map_err(failed)
    }

    fn session(&mut self) -> u64 {
        self.next_session += 1;
        self.next_session
    }

    /// Everything that can be done is done, and takes no time.
    fn round(&mut self) {
        self.now_us += ROUND_US;
        clock::set(self.now_us);
        for at in 0..self.sites.len() {
            let task = if self.now_us % TICK_US < ROUND_US {
                Task::Tick
            } else {
                Task::Run
            };
            self.sites[at].inbox.push(task);
            clock::set(self.now_us);
            let now_us = self.now_us;
            while let Some(effects) = self.sites[at].work(now_us, &self.times) {
                self.hand_over(at, effects);
                if self.sites[at].waits_for_log() && self.sites[at].force().is_ok() {
                    let mut effects = Effects::default();
                    self.sites[at].collect(&mut effects, &self.times);
                    self.hand_over(at, effects);
                }
            }
        }
    }

    fn hand_over(&mut self, at: usize, effects: Effects) {
        let from = self.sites[at].id;
        for frame in effects.frames {
            let (to, frame) = Packet { from, frame }.open();
            self.sites[to].inbox.push(Task::Frame(frame));
        }
        if let Some((_, answer)) = effects.answers.into_iter().next_back() {
            self.loaded = Some(answer);
        }
    }

    fn ask(&mut self, client: usize, site: usize, requests: VecDeque<Request>) -> Result<Answer, ClientError> {
        self.loaded = None;
        self.sites[site].inbox.push(Task::Requests(client, requests));
        for _ in 0..ROUNDS_MAX {
            self.round();
            if let Some(answer) = self.loaded.take() {
                return match &answer.error {
                    Some(error) => Err(ClientError::server(error.code().as_str(), error.message())),
                    None => Ok(answer),
                };
            }
        }
        Err(ClientError::lost("no answer came"))
    }

    fn run(&mut self, number: usize, load: CurveLoad) -> Result<Found, Violation> {
        self.enter(number, load)?;
        self.is_loading = false;
        let begin_us = self.now_us;
        self.counts_from_us = begin_us + WARMUP_US;
        let end_us = self.counts_from_us + self.curve.measured_us;
        for client in 0..self.clients.len() {
            self.at(client as i64 % 100, Event::Acts(client));
        }
        for site in 0..self.sites.len() {
            self.at(site as i64, Event::Ticks(site));
        }
        let mut before = None;
        while let Some(Reverse((at_us, _, event))) = self.events.pop() {
            if at_us >= self.counts_from_us && before.is_none() {
                before = Some(self.counted());
                self.found.cpu_us = 0.0;
                self.found.messages_by_kind.clear();
                self.sites.iter_mut().for_each(CurveSite::count_from_now);
            }
            if at_us >= end_us {
                break;
            }
            self.now_us = self.now_us.max(at_us);
            clock::set(self.now_us);
            self.handle(event)?;
        }
        self.now_us = end_us;
        let ([forces, two_phases], [statements, messages, frames, bytes]) = self.counted();
        let ([forces_before, two_before], [statements_before, messages_before, frames_before, bytes_before]) =
            before.unwrap_or_default();
        let mut found = std::mem::take(&mut self.found);
        found.forces = forces - forces_before;
        found.two_phase_commits = two_phases - two_before;
        found.statements = statements - statements_before;
        (found.messages, found.bytes) = (messages - messages_before, bytes - bytes_before);
        found.frames = frames - frames_before;
        let measured_us = self.curve.measured_us as f64;
        found.busy = self.sites.iter().map(|site| site.busy(measured_us)).collect();
        found.latencies_us.sort_unstable_by_key(|(_, latency_us)| *latency_us);
        self.leave();
        if let CurveLoad::Tpcc { .. } = load {
            let scale = self.scale();
            let checked = tpcc::check_conditions(&mut Loader::at(self, 0), scale);
            let checked = checked.map_err(|error| Violation::new("conditions not checked", error.to_string()))?;
            found.conditions = checked.len();
            let broken = checked
                .into_iter()
                .filter_map(|result| Some(format!("{}: {}", result.text, result.violation?)));
            found.violations = broken.collect();
        }
        Ok(found)
    }

    /// What nodes have counted: forced writes and commits in two phases; and statements, messages, frames and bytes.
    fn counted(&self) -> ([u64; 2], [u64; 4]) {
        let (mut forces, mut two_phases) = (0, 0);
        for site in &self.sites {
            let figures = site.node.figures();
            forces += figures.node.log_forces;
            two_phases += figures.commits.in_two_phases;
        }
        let found = &self.found;
        (
            [forces, two_phases],
            [found.statements, found.messages, found.frames, found.bytes],
        )
    }

    /// Connects the clients of a load, and has them prepare their statements.
    fn enter(&mut self, number: usize, load: CurveLoad) -> Result<(), Violation> {
        let failed = |error: ClientError| Violation::new("no client", error.to_string());
        let (scale, shape) = (self.scale(), self.shape());
        let seed = self.curve.seed.wrapping_add((number as u64) << 32);
        self.first_client = CLIENTS_FROM + number * CLIENTS_STEP;
        (self.found, self.times) = (Found::default(), self.curve.times);
        for terminal in 0..self.curve.terminals_per_node * u64::from(self.curve.nodes) {
            let mut client = match load {
                CurveLoad::Tpcc { remote_share } => {
                    let site = self.site_of_warehouse(terminal as i64 % scale.warehouses + 1);
                    let settings = Settings::unpaced(scale, seed).with_remote_share(remote_share);
                    CurveClient::tpcc(settings, terminal, site).map_err(failed)?
                }
                CurveLoad::Ycsb(workload) => {
                    self.times.statement_us = self.curve.operation_us;
                    (self.times.frame_us, self.times.message_us) = self.curve.operation_talk_us;
                    let site = terminal as usize % self.sites.len();
                    CurveClient::ycsb(workload, shape, (seed, terminal), site).map_err(failed)?
                }
            };
            let (own, session) = (self.first_client + terminal as usize, self.session());
            self.sites[client.site].connect(own, session)?;
            let answer = self.ask(own, client.site, client.preparation()).map_err(failed)?;
            client.on_prepared(answer);
            self.clients.push(client);
        }
        Ok(())
    }

    /// The clients go away in the midst of what they do; what is under way comes to its end, or is rolled back.
    fn leave(&mut self) {
        self.is_loading = true;
        self.counts_from_us = i64::MAX;
        self.events.clear();
        for packet in std::mem::take(&mut self.packets).into_values() {
            let (to, frame) = packet.open();
            self.sites[to].inbox.push(Task::Frame(frame));
        }
        for (at, effects) in std::mem::take(&mut self.works).into_values() {
            self.hand_over(at, effects);
        }
        for site in &mut self.sites {
            (site.is_busy, site.is_forcing, site.runs_at_us) = (false, false, None);
        }
        for (number, client) in std::mem::take(&mut self.clients).into_iter().enumerate() {
            self.sites[client.site].hang_up(self.first_client + number);
        }
        (0..500).for_each(|_| self.round());
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Arrives(number) => {
                if let Some(packet) = self.packets.remove(&number) {
                    let (to, frame) = packet.open();
                    self.give(to, Task::Frame(frame));
                }
            }
            Event::Done(number) => {
                if let Some((at, effects)) = self.works.remove(&number) {
                    self.sites[at].is_busy = false;
                    self.send(at, effects);
                    self.force_log(at);
                    self.go_on(at);
                }
            }
            Event::Forced(at) => {
                self.sites[at].is_forcing = false;
                self.sites[at].force()?;
                self.give(at, Task::Run);
            }
            Event::Ticks(at) => {
                self.give(at, Task::Tick);
                self.at(TICK_US, event);
            }
            Event::Runs(at) => {
                self.sites[at].runs_at_us = None;
                self.give(at, Task::Run);
            }
            Event::Hears(client) => {
                if let Some(answer) = self.clients[client].inbox.take() {
                    let was_rolling_back = self.clients[client].is_rolling_back();
                    self.clients[client].hear(answer);
                    let next = match was_rolling_back {
                        true => self.clients[client].back_off(),
                        false => self.clients[client].go_on(),
                    };
                    self.act(client, next);
                }
            }
            Event::Acts(client) => {
                let next = self.clients[client].go_on_or_begin(self.now_us);
                self.act(client, next);
            }
        }
        Ok(())
    }

    fn act(&mut self, client: usize, next: Move) {
        match next {
            Move::Ask(requests) => {
                let site = self.clients[client].site;
                self.give(site, Task::Requests(self.first_client + client, requests));
            }
            Move::BackOff(pause_us) => self.at(pause_us, Event::Acts(client)),
            Move::Ended(ended) => {
                self.count(client, ended);
                self.clients[client].is_idle = true;
                self.at(0, Event::Acts(client));
            }
        }
    }

    fn count(&mut self, client: usize, ended: Result<bool, String>) {
        if self.now_us < self.counts_from_us {
            return;
        }
        let of = &self.clients[client];
        self.found.retries += u64::from(of.retries());
        match ended {
            Ok(true) => {
                self.found.transactions += 1;
                self.found.first_kind += u64::from(of.kind == 0);
                self.found.latencies_us.push((of.kind, self.now_us - of.began_us));
            }
            Ok(false) => {}
            Err(error) => self.found.errors.push(error),
        }
    }

    fn give(&mut self, at: usize, task: Task) {
        self.sites[at].inbox.push(task);
        self.go_on(at);
    }

    /// A processor that is free takes what comes next.
    fn go_on(&mut self, at: usize) {
        if self.sites[at].is_busy {
            return;
        }
        let (now_us, times) = (self.now_us, self.times);
        if let Some(effects) = self.sites[at].work(now_us, &times) {
            self.found.cpu_us += effects.cpu_us;
            self.sites[at].processor_us += effects.cpu_us;
            self.found.statements += effects.statements;
            self.sites[at].is_busy = true;
            self.sequence += 1;
            let (number, cpu_us) = (self.sequence, effects.cpu_us.round() as i64);
            self.works.insert(number, (at, effects));
            self.at(cpu_us, Event::Done(number));
        }
        let deadline_us = self.sites[at].deadline_us();
        if let Some(deadline_us) = deadline_us
            && self.sites[at]
                .runs_at_us
                .is_none_or(|before_us| deadline_us < before_us)
        {
            self.sites[at].runs_at_us = Some(deadline_us);
            self.at((deadline_us - self.now_us).max(1), Event::Runs(at));
        }
    }

    fn force_log(&mut self, at: usize) {
        if self.sites[at].begins_to_force(self.now_us) {
            self.sites[at].disk_us += self.times.force_us;
            self.sites[at].owed_us += self.times.force_cpu_us;
            self.at(self.times.force_us.round() as i64, Event::Forced(at));
        }
    }

    /// Hands on what a node has said when its processor was done with it.
    fn send(&mut self, at: usize, effects: Effects) {
        let from = self.sites[at].id;
        for frame in effects.frames {
            let bytes: usize = frame.messages.iter().map(Vec::len).sum();
            self.found.messages += frame.messages.len() as u64;
            for kind in &frame.kinds {
                *self.found.messages_by_kind.entry(kind).or_default() += 1;
            }
            self.found.frames += 1;
            self.found.bytes += bytes as u64;
            let begins_us = self.sites[at].sends_from_us.max((self.now_us - BEGIN_US) as f64);
            let takes_us = bytes as f64 / self.times.bytes_per_us;
            let sent_us = begins_us + takes_us;
            self.sites[at].network_us += takes_us;
            self.sites[at].sends_from_us = sent_us;
            let arrives_us = sent_us + self.times.network_delay_us;
            self.sequence += 1;
            let number = self.sequence;
            self.packets.insert(number, Packet { from, frame });
            let delay_us = arrives_us.round() as i64 - (self.now_us - BEGIN_US);
            self.at(delay_us, Event::Arrives(number));
        }
        for (client, answer) in effects.answers {
            if let Some(client) = client.checked_sub(self.first_client)
                && let Some(own) = self.clients.get_mut(client)
            {
                own.inbox = Some(answer);
                self.at(0, Event::Hears(client));
            }
        }
    }

    fn at(&mut self, delay_us: i64, event: Event) {
        self.sequence += 1;
        let at_us = self.now_us + delay_us.max(0);
        self.events.push(Reverse((at_us, self.sequence, event)));
    }
}

/// A session of a node that loads, or checks, while nothing takes any time.
struct Loader<'w, 'c> {
    world: &'w mut World<'c>,
    site: usize,
    types: Vec<Vec<DataType>>,
    in_block: bool,
}

impl<'w, 'c> Loader<'w, 'c> {
    fn at(world: &'w mut World<'c>, site: usize) -> Loader<'w, 'c> {
        Loader {
            world,
            site,
            types: Vec::new(),
            in_block: false,
        }
    }

    fn ask(&mut self, requests: VecDeque<Request>) -> Result<Answer, ClientError> {
        let answer = self.world.ask(self.site, self.site, requests)?;
        self.in_block = answer.in_block;
        Ok(answer)
    }
}

impl Client for Loader<'_, '_> {
    type Statement = usize;

    fn prepare(&mut self, sql: &str) -> Result<usize, ClientError> {
        let number = self.types.len();
        let name = format!("s{number}");
        let asked = VecDeque::from([
            Request::CloseStatement(name.clone()),
            Request::Parse {
                name: name.clone(),
                sql: sql.to_owned(),
                parameter_types: Vec::new(),
            },
            Request::DescribeStatement(name),
            Request::Sync,
        ]);
        let answer = self.ask(asked)?;
        self.types
            .push(answer.parameter_types.into_iter().next().unwrap_or_default());
        Ok(number)
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>]) -> Result<Rows, ClientError> {
        let types = self.types.get(statement).map_or(&[][..], Vec::as_slice);
        let call = (statement, values::values(params, types));
        let answer = self.ask(requests(Question::Run(vec![call])))?;
        Ok(answer.outputs.last().map(rows).unwrap_or_default())
    }

    fn simple(&mut self, sql: &str) -> Result<(), ClientError> {
        self.ask(requests(Question::Sql(sql.to_owned()))).map(drop)
    }

    fn copy_in(&mut self, sql: &str, chunks: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
        let mut asked = VecDeque::from([Request::Query { sql: sql.to_owned() }]);
        let mut chunk = Vec::new();
        while chunks(&mut chunk) {
            asked.push_back(Request::CopyData(Bytes::from(std::mem::take(&mut chunk))));
        }
        asked.push_back(Request::CopyDone);
        let answer = self.ask(asked)?;
        Ok(answer.outputs.last().map_or(0, crate::Output::affected))
    }

    fn in_transaction(&self) -> bool {
        self.in_block
    }
}
