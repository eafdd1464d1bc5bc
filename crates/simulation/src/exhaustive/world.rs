//! One state of a configuration, and the events that lead from it to others.

use super::definition::{End, NEW_ROW, Op, Program, Seen, State};
use super::log::{Record, RecordLog};
use super::operations::{key, operation, row, shown};
use rubato_base::{GlobalId, Key, Lsn, NodeId, TableId, Timestamp, TransactionId};
use rubato_protocol::grid::{Answer, Coordinator, Ending, Message, Operation, Participant, TickSource, Told};
use rubato_protocol::{
    BlindUpdate, Change, CommitPolicy, FormulaDatabase, Policies, QueuePolicy, RowSource, Sketch, StoredRow,
};
use std::ops::Bound;
use std::rc::Rc;

pub(super) const TABLE: TableId = TableId(1);
/// The node of the coordinator; participants are nodes 0, 1, ...
pub(super) const COORDINATOR: NodeId = NodeId(100);

/// Who may crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// A participant.
    Participant,
    /// The coordinator.
    Coordinator,
}

/// What is explored.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What it is called.
    pub name: String,
    /// How many nodes keep rows.
    pub nodes: u8,
    /// The rows that exist at first, with the value 100.
    pub start: Vec<u8>,
    /// The transactions.
    pub programs: Vec<Program>,
    /// Commit and queue policy.
    pub policies: Policies,
    /// How many messages may be lost.
    pub lost: u8,
    /// How many messages may arrive twice.
    pub repeated: u8,
    /// Who may crash, once, and be started again.
    pub crash: Option<Crash>,
    /// One partition as the server runs it today: waits end by finding circles and not by age.
    pub alone: bool,
    /// Clients are sessions on node 0: what they do there they do themselves, and what they began there becomes a branch when they
    /// come to another node, or commit.
    pub sessions: bool,
    /// Steps at one node that follow each other are asked for together.
    pub together: bool,
}

impl Configuration {
    /// Without faults, over two nodes, with the rows 0 to 3.
    pub fn new(name: &str, programs: Vec<Program>) -> Configuration {
        Configuration {
            name: name.to_string(),
            nodes: 2,
            start: vec![0, 1],
            programs,
            policies: Policies {
                commit: CommitPolicy::Optimistic,
                queue: QueuePolicy::Wait,
            },
            lost: 0,
            repeated: 0,
            crash: None,
            alone: false,
            sessions: false,
            together: false,
        }
    }

    /// The rows at first.
    pub fn state(&self) -> State {
        self.start.iter().map(|x| (*x, NEW_ROW)).collect()
    }
}

#[derive(Clone)]
pub(super) struct NoRows;

impl RowSource for NoRows {
    fn get(&self, _: TableId, _: &[u8]) -> rubato_base::Result<Option<StoredRow>> {
        Ok(None)
    }

    fn scan(
        &self,
        _: TableId,
        _: Bound<&[u8]>,
        _: Bound<&[u8]>,
        _: bool,
        _: usize,
    ) -> rubato_base::Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }
}

/// A message under way, or something that a client is to be told.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) content: Content,
    /// The sender's log must be forced up to here.
    pub(super) needs: Lsn,
    /// It came twice: this one may be late for ever.
    pub(super) is_copy: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Message(Message),
    Told(GlobalId, Told),
}

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) global: Option<GlobalId>,
    /// Steps done.
    pub(super) at: usize,
    pub(super) seen: Seen,
    pub(super) asked_to_commit: bool,
    pub(super) end: Option<End>,
    /// Who had been acknowledged when it began.
    pub(super) before: u8,
    /// Its transaction on the node of its session.
    pub(super) session: Option<TransactionId>,
    /// Its next step is its own, and it waits for nobody.
    pub(super) is_ready: bool,
}

/// One node: its part in transactions, and its rows.
pub(super) struct Site {
    pub(super) participant: Participant,
    pub(super) database: FormulaDatabase,
}

impl Site {
    pub(super) fn fork(&self) -> Site {
        Site {
            participant: self.participant.clone(),
            database: self.database.fork(Box::new(NoRows)),
        }
    }
}

/// A process with what is written of its state for comparison.
pub(super) struct Sketched<T> {
    pub(super) value: T,
    pub(super) sketch: Sketch,
}

/// One state.
#[derive(Clone)]
pub struct World {
    pub(super) configuration: Rc<Configuration>,
    pub(super) ticks: TickSource,
    pub(super) coordinator: Rc<Sketched<Coordinator>>,
    pub(super) participants: Vec<Rc<Sketched<Site>>>,
    /// The participants' logs, and the coordinator's at the end.
    pub(super) logs: Vec<Rc<RecordLog>>,
    pub(super) packets: Vec<Rc<(Packet, Sketch)>>,
    pub(super) clients: Vec<Client>,
    pub(super) lost: u8,
    pub(super) repeated: u8,
    pub(super) crashes: u8,
    pub(super) timer_rounds: u8,
    /// Something that must never be, whatever the order.
    pub(super) broken: Option<String>,
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client begins its transaction.
    Begin(usize),
    /// A session does its next step on its own node.
    Step(usize),
    /// The message arrives.
    Deliver(usize),
    /// It never does.
    Lose(usize),
    /// It arrives, and will arrive again.
    Repeat(usize),
    /// The process stops, its log keeps as many records, what is under way to and from it is lost if so said, and it is started
    /// again.
    Crash(usize, usize, bool),
    /// Nothing is under way: everybody says again what was not answered.
    Timer,
}

impl World {
    /// The first state.
    pub fn new(configuration: &Configuration) -> World {
        let configuration = Rc::new(configuration.clone());
        let mut ticks = TickSource::resume(Timestamp::ZERO);
        let bound = ticks.next_bound();
        ticks.on_bound_durable(bound);
        let mut logs = Vec::new();
        for node in 0..configuration.nodes {
            let rows = configuration.start.iter().filter(|x| **x % configuration.nodes == node);
            let changes = rows.map(|x| (TABLE, key(*x), Change::Insert(row(NEW_ROW)))).collect();
            logs.push(Rc::new(RecordLog {
                records: vec![Record::Commit(Timestamp(1), changes)],
                forced: 1,
            }));
        }
        logs.push(Rc::new(RecordLog::default()));
        let mut world = World {
            participants: Vec::new(),
            coordinator: Rc::new(Sketched {
                value: Coordinator::new(COORDINATOR),
                sketch: Sketch::default(),
            }),
            ticks,
            logs,
            packets: Vec::new(),
            clients: Vec::new(),
            lost: configuration.lost,
            repeated: configuration.repeated,
            crashes: u8::from(configuration.crash.is_some()),
            timer_rounds: 0,
            broken: None,
            configuration,
        };
        let client = Client {
            global: None,
            at: 0,
            seen: Vec::new(),
            asked_to_commit: false,
            end: None,
            before: 0,
            session: None,
            is_ready: false,
        };
        world.clients = vec![client; world.configuration.programs.len()];
        for node in 0..world.configuration.nodes {
            let participant = world.start(usize::from(node));
            world.participants.push(participant);
        }
        let coordinator = Coordinator::new(COORDINATOR);
        world.put_coordinator(coordinator);
        world
    }

    /// The state after an event.
    pub fn after(&self, event: Event) -> World {
        let mut world = self.clone();
        match event {
            Event::Begin(i) => world.begin(i),
            Event::Step(i) => world.step_at_home(i),
            Event::Deliver(at) => {
                let packet = world.packets.remove(at);
                world.deliver(&packet.0);
            }
            Event::Lose(at) => {
                world.packets.remove(at);
                world.lost -= 1;
            }
            Event::Repeat(at) => {
                let packet = world.packets.remove(at);
                world.repeated -= 1;
                world.deliver(&packet.0);
                let copy = Packet {
                    is_copy: true,
                    ..packet.0.clone()
                };
                world.packets.push(Rc::new((copy, packet.1.clone())));
            }
            Event::Crash(process, kept, cuts_off) => world.crash(process, kept, cuts_off),
            Event::Timer => world.timer(),
        }
        world
    }

    fn next_tick(&mut self) -> Timestamp {
        self.ticks.next_tick().expect("a bound far above was reserved")
    }

    fn begin(&mut self, i: usize) {
        let tick = self.next_tick();
        let done = |client: &Client| client.end == Some(End::Committed);
        let before = (0..self.clients.len())
            .filter(|j| done(&self.clients[*j]))
            .fold(0, |set, j| set | (1 << j));
        let read_only = !self.configuration.programs[i].iter().any(|op| op.writes());
        let mut coordinator = self.coordinator.value.clone();
        let global = coordinator.begin(tick, read_only);
        self.clients[i].global = Some(global);
        self.clients[i].before = before;
        if self.configuration.sessions {
            self.begin_session(i, tick, read_only);
        }
        self.go_on(i, &mut coordinator);
        self.put_coordinator(coordinator);
    }

    /// The client's next step.
    pub(super) fn go_on(&mut self, i: usize, coordinator: &mut Coordinator) {
        let nodes = self.configuration.nodes;
        let Some(global) = self.clients[i].global else { return };
        let process = self.participants.len();
        match self.configuration.programs[i].get(self.clients[i].at).copied() {
            Some(Op::Rollback) => self.roll_back(i, coordinator),
            Some(op) if self.configuration.sessions && op.node(nodes) == 0 => self.clients[i].is_ready = true,
            _ if !self.joins(i, coordinator) => self.roll_back(i, coordinator),
            Some(op) => {
                let node = op.node(nodes);
                let rest = &self.configuration.programs[i][self.clients[i].at..];
                let at_node = |other: &&Op| !matches!(other, Op::Rollback) && other.node(nodes) == node;
                let count = match self.configuration.together {
                    true => rest.iter().take_while(at_node).count(),
                    false => 1,
                };
                let operation = match &rest[..count] {
                    [Op::Back(_)] => self.taking_back(i, node),
                    [op] => operation(*op),
                    several => Operation::Several {
                        operations: several.iter().map(|op| operation(*op)).collect(),
                    },
                };
                coordinator.operate(global, NodeId(u32::from(node)), operation);
            }
            None => {
                self.clients[i].asked_to_commit = true;
                let log = Rc::make_mut(&mut self.logs[process]);
                coordinator.commit(global, &mut self.ticks, log);
            }
        }
    }

    /// Takes back what the step before has done, on the node where it was.
    fn taking_back(&self, i: usize, node: u8) -> Operation {
        let (program, nodes) = (&self.configuration.programs[i], self.configuration.nodes);
        let before = &program[..self.clients[i].at.saturating_sub(1)];
        let kept = before.iter().filter(|op| op.node(nodes) == node).count();
        Operation::Undo { kept: kept as u32 }
    }

    /// The client gives up.
    pub(super) fn roll_back(&mut self, i: usize, coordinator: &mut Coordinator) {
        if let Some(global) = self.clients[i].global {
            coordinator.roll_back(global);
        }
        self.clients[i].end = Some(End::RolledBack);
        self.end_session(i);
    }

    fn deliver(&mut self, packet: &Packet) {
        if let Some(sender) = self.process(packet.from)
            && self.logs[sender].forced < packet.needs.0 as usize
        {
            Rc::make_mut(&mut self.logs[sender]).force(packet.needs);
        }
        match &packet.content {
            Content::Told(global, told) => {
                let mut coordinator = self.coordinator.value.clone();
                self.tell(*global, told, &mut coordinator);
                self.put_coordinator(coordinator);
            }
            Content::Message(message) if packet.to == COORDINATOR => {
                let mut coordinator = self.coordinator.value.clone();
                let process = self.participants.len();
                let log = Rc::make_mut(&mut self.logs[process]);
                coordinator.on_message(packet.from, message.clone(), &mut self.ticks, log);
                self.put_coordinator(coordinator);
            }
            Content::Message(message) => {
                let process = packet.to.0 as usize;
                let mut site = self.participants[process].value.fork();
                let log = Rc::make_mut(&mut self.logs[process]);
                site.participant
                    .on_message(&mut site.database, packet.from, message.clone(), log);
                self.put_participant(process, site);
            }
        }
    }

    fn tell(&mut self, global: GlobalId, told: &Told, coordinator: &mut Coordinator) {
        let Some(i) = self.clients.iter().position(|client| client.global == Some(global)) else {
            return;
        };
        if self.clients[i].end.is_some() {
            return;
        }
        match told {
            // A participant that was restarted does not know what its prepared branches were let through for: the client gives up.
            Told::Answer(_, Answer::Blind(BlindUpdate::MustBeOrdered)) if self.configuration.crash.is_some() => {
                self.roll_back(i, coordinator);
            }
            Told::Answer(_, Answer::Several(answers)) => {
                let is_refused = |answer: &Answer| *answer == Answer::Blind(BlindUpdate::MustBeOrdered);
                if self.configuration.crash.is_some() && answers.iter().any(is_refused) {
                    return self.roll_back(i, coordinator);
                }
                answers.iter().for_each(|answer| self.see(i, answer));
                self.go_on(i, coordinator);
            }
            Told::Answer(_, answer) => self.on_answer(i, answer, coordinator),
            Told::Ended(ending) => {
                self.clients[i].end = Some(match ending {
                    Ending::Committed(_) => End::Committed,
                    Ending::RolledBack(_) => End::RolledBack,
                    Ending::Unknown => End::Unknown,
                });
                if self.clients[i].end != Some(End::Committed) {
                    self.end_session(i);
                }
            }
        }
    }

    pub(super) fn on_answer(&mut self, i: usize, answer: &Answer, coordinator: &mut Coordinator) {
        self.see(i, answer);
        self.go_on(i, coordinator);
    }

    fn see(&mut self, i: usize, answer: &Answer) {
        let op = self.configuration.programs[i][self.clients[i].at];
        let shown = shown(op, answer);
        if shown.is_none() {
            self.broken = Some(format!("transaction {i}: {op:?} was answered by {answer:?}"));
        }
        self.clients[i].seen.extend(shown.unwrap_or_default());
        self.clients[i].at += 1;
    }

    fn timer(&mut self) {
        self.timer_rounds += 1;
        let mut coordinator = self.coordinator.value.clone();
        coordinator.on_timer();
        self.put_coordinator(coordinator);
        for process in 0..self.participants.len() {
            let mut site = self.participants[process].value.fork();
            site.participant.on_timer();
            self.put_participant(process, site);
        }
    }

    fn crash(&mut self, process: usize, kept: usize, cuts_off: bool) {
        self.crashes -= 1;
        let log = Rc::make_mut(&mut self.logs[process]);
        log.records.truncate(kept);
        log.forced = kept;
        let node = if process == self.participants.len() {
            COORDINATOR
        } else {
            NodeId(process as u32)
        };
        // What waited for a record that is lost was never sent; what a client of the coordinator was not told it never learns.
        self.packets.retain(|packet| {
            let packet = &packet.0;
            let sent = packet.from != node || (packet.needs.0 as usize <= kept && !cuts_off);
            let arrives = packet.to != node || !cuts_off;
            let told = node == COORDINATOR && matches!(packet.content, Content::Told(..));
            sent && arrives && !told
        });
        if node != COORDINATOR {
            self.participants[process] = self.start(process);
            return;
        }
        let decisions = self.logs[process].records.iter().filter_map(|record| match record {
            Record::Decision(global, Some(cts), participants) => Some((*global, *cts, participants.clone())),
            _ => None,
        });
        let coordinator = Coordinator::recovered(COORDINATOR, decisions.collect());
        for client in self
            .clients
            .iter_mut()
            .filter(|client| client.global.is_some() && client.end.is_none())
        {
            client.end = Some(if client.asked_to_commit {
                End::Unknown
            } else {
                End::RolledBack
            });
        }
        self.put_coordinator(coordinator);
    }

    /// Starts a participant on its log.
    fn start(&mut self, process: usize) -> Rc<Sketched<Site>> {
        let mut database = FormulaDatabase::new(Box::new(NoRows), self.configuration.policies, Timestamp::ZERO);
        database.create_table(TABLE);
        for record in &self.logs[process].records {
            let replayed = match record.clone() {
                Record::Commit(cts, changes) => changes
                    .into_iter()
                    .try_for_each(|(table, key, change)| database.replay(cts, table, &key, change)),
                Record::Prepare(global, floor, changes, places) => {
                    database.recover_prepared(global, floor, changes, places, None)
                }
                Record::Decision(global, cts, _) => {
                    database.recover_decision(global, cts);
                    Ok(())
                }
            };
            if let Err(error) = replayed {
                self.broken = Some(format!("node {process} could not be recovered: {error}"));
            }
        }
        let birth = self.next_tick();
        let node = NodeId(process as u32);
        let participant = if self.configuration.alone {
            Participant::alone(node, &mut database, birth)
        } else {
            Participant::new(node, &mut database, birth)
        };
        self.sketched(Site { participant, database })
    }

    fn sketched(&self, site: Site) -> Rc<Sketched<Site>> {
        let mut sketch = Sketch::new(self.crashes > 0);
        site.participant.sketch(&mut sketch);
        site.database.sketch(&mut sketch);
        Rc::new(Sketched { value: site, sketch })
    }

    pub(super) fn put_participant(&mut self, process: usize, mut site: Site) {
        for (transaction, _) in site.database.take_woken() {
            let mut clients = self.clients.iter_mut();
            if let Some(client) = clients.find(|client| client.session == Some(transaction) && client.end.is_none()) {
                client.is_ready = true;
            }
        }
        let from = site.participant.node();
        for outgoing in site.participant.poll_outgoing() {
            let content = Content::Message(outgoing.message);
            self.send(from, outgoing.to, content, outgoing.durable_at);
        }
        self.participants[process] = self.sketched(site);
    }

    /// Takes over the coordinator's new state, what it sends, and what it tells clients, who go on at once: how long they think
    /// cannot be told from how long their next message takes.
    pub(super) fn put_coordinator(&mut self, mut coordinator: Coordinator) {
        loop {
            let events = coordinator.poll_events();
            if events.is_empty() {
                break;
            }
            for event in events {
                let waits = self.crashes > 0 && self.logs[self.participants.len()].forced < event.durable_at.0 as usize;
                if waits {
                    let content = Content::Told(event.transaction, event.told);
                    self.send(COORDINATOR, NodeId(u32::MAX), content, event.durable_at);
                } else {
                    self.tell(event.transaction, &event.told, &mut coordinator);
                }
            }
        }
        for outgoing in coordinator.poll_outgoing() {
            let content = Content::Message(outgoing.message);
            self.send(COORDINATOR, outgoing.to, content, outgoing.durable_at);
        }
        let mut sketch = Sketch::default();
        coordinator.sketch(&mut sketch);
        self.coordinator = Rc::new(Sketched {
            value: coordinator,
            sketch,
        });
    }

    fn send(&mut self, from: NodeId, to: NodeId, content: Content, needs: Lsn) {
        let mut sketch = Sketch::new(self.crashes > 0);
        sketch.number(u64::from(from.0));
        sketch.number(u64::from(to.0));
        sketch.lsn(needs);
        match &content {
            Content::Message(message) => message.sketch(&mut sketch),
            Content::Told(global, _) => sketch.stamp(global.tick),
        }
        let packet = Packet {
            from,
            to,
            content,
            needs,
            is_copy: false,
        };
        self.packets.push(Rc::new((packet, sketch)));
    }

    /// The index of a node's log.
    pub(super) fn process(&self, node: NodeId) -> Option<usize> {
        if node == COORDINATOR {
            return Some(self.participants.len());
        }
        ((node.0 as usize) < self.participants.len()).then_some(node.0 as usize)
    }
}
