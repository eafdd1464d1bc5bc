//! Clients of the grid's nodes.

use super::plan::{GridPlan, GridTrouble, GridWorkload};
use super::talk::{GridTalk, Heard, Question, Stop};
use super::tpcc;
use super::world::{Event, Phase, World};
use crate::check::Violation;
use crate::history::{Fate, Step, Transaction};
use crate::programs::Ending;
use rubato_base::NodeId;
use rubato_node::grid::ClientTold;
use rubato_protocol::grid::Ending as Outcome;
use rubato_workload::Random;
use std::collections::{BTreeSet, VecDeque};

/// The transaction that a client is at.
pub(super) struct UnderWay {
    name: &'static str,
    workload: Option<GridWorkload>,
    number: i64,
    began: u64,
    heard: Vec<Heard>,
    steps: Vec<Step>,
    ticket: Option<u64>,
    /// Nodes that were asked for something.
    nodes: BTreeSet<NodeId>,
    asked_to_commit: bool,
}

/// A client. Number 0 reads everything in the end.
pub(super) struct Client {
    pub(super) number: usize,
    /// The node that it is connected to.
    pub(super) site: usize,
    /// Transactions that it has still to run.
    pub(super) left: usize,
    pub(super) under_way: Option<UnderWay>,
    inbox: VecDeque<ClientTold>,
    /// Since when it waits to be told something.
    pub(super) waits_since_us: Option<i64>,
    /// Counts its moves: an earlier one that is still to come comes to nothing.
    pub(super) generation: u64,
    /// Counts its transactions: what was told to an earlier one comes too late.
    pub(super) epoch: u64,
}

impl Client {
    pub(super) fn new(number: usize, plan: &GridPlan) -> Client {
        Client {
            number,
            site: number % plan.nodes as usize,
            left: if number == 0 { 0 } else { plan.transactions },
            under_way: None,
            inbox: VecDeque::new(),
            waits_since_us: None,
            generation: 0,
            epoch: 0,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.left > 0 || self.under_way.is_some()
    }

    pub(super) fn name(&self) -> &'static str {
        self.under_way.as_ref().map_or("nothing", |one| one.name)
    }

    fn ticket(&self) -> Option<u64> {
        self.under_way.as_ref().and_then(|one| one.ticket)
    }
}

impl World<'_> {
    pub(super) fn act_in(&mut self, delay_us: i64, client: usize) {
        self.clients[client].generation += 1;
        let generation = self.clients[client].generation;
        self.at(delay_us, Event::Acts(client, generation));
    }

    /// A client goes on.
    pub(super) fn act(&mut self, client: usize) -> Result<(), Violation> {
        let site = self.clients[client].site;
        if self.sites[site].node.is_none() {
            let pause_us = self.random.uniform(500, 20_000);
            self.act_in(pause_us, client);
            return Ok(());
        }
        if self.clients[client].under_way.is_none() {
            if self.clients[client].left == 0 {
                return Ok(());
            }
            self.begin(client);
        }
        let (done, steps) = self.play(client);
        if let Some(under_way) = &mut self.clients[client].under_way {
            under_way.steps = steps;
        }
        match done {
            Ok(Ending::Committed) => self.ended(client, Fate::Committed),
            Ok(Ending::RolledBack) => {
                self.coverage.count("transactions that their clients rolled back");
                self.ended(client, Fate::Aborted);
            }
            Err(Stop::Asked(question)) => return self.ask(client, question),
            Err(Stop::Absurd(what)) => return Err(Violation::new("absurd answer", what)),
            Err(Stop::Failed(error)) => {
                self.note(format_args!("client {client} is told that {error}"));
                self.coverage.count("operations that failed");
                self.roll_back(client);
                self.ended(client, Fate::Aborted);
            }
        }
        Ok(())
    }

    fn begin(&mut self, client: usize) {
        self.clients[client].left -= 1;
        let workload = (client > 0).then(|| {
            let at = self.random.uniform(0, self.plan.workloads.len() as i64 - 1);
            self.plan.workloads[at as usize]
        });
        let number = self.next_transaction;
        self.next_transaction += 1;
        let under_way = UnderWay {
            name: self.name_of(workload, number),
            workload,
            number,
            began: self.next_moment(),
            heard: Vec::new(),
            steps: Vec::new(),
            ticket: None,
            nodes: BTreeSet::new(),
            asked_to_commit: false,
        };
        self.note(format_args!("client {client} begins {number} {}", under_way.name));
        self.clients[client].under_way = Some(under_way);
    }

    /// What is drawn for a transaction.
    fn random_of(&self, number: i64) -> Random {
        Random::derived(self.plan.seed, &[23, number as u64])
    }

    /// The name of what a client begins.
    fn name_of(&self, workload: Option<GridWorkload>, number: i64) -> &'static str {
        match workload {
            Some(GridWorkload::Tpcc) => tpcc::Profile::draw(&mut self.random_of(number)).name(),
            Some(workload) => workload.name(),
            None => "everything",
        }
    }

    /// Plays a client's program up to its next question.
    fn play(&self, client: usize) -> (Result<Ending, Stop>, Vec<Step>) {
        let Some(under_way) = &self.clients[client].under_way else {
            return (Err(Stop::Absurd("a client without a transaction".into())), Vec::new());
        };
        let number = under_way.number;
        let random = self.random_of(number);
        let pauses = self.plan.has(GridTrouble::Pauses);
        let mut talk = GridTalk::new(&self.layout, &under_way.heard, random, number, pauses);
        let done = match under_way.workload {
            Some(GridWorkload::Tables(workload)) => workload.run(&mut talk),
            Some(GridWorkload::Tpcc) => tpcc::run(&mut talk),
            None => talk.read_everything(),
        };
        (done, talk.steps)
    }

    fn ask(&mut self, client: usize, question: Question) -> Result<(), Violation> {
        let site = self.clients[client].site;
        self.note(format_args!("client {client} asks {question:?}"));
        let Some(node) = &mut self.sites[site].node else {
            return Ok(());
        };
        let Some(under_way) = &mut self.clients[client].under_way else {
            return Ok(());
        };
        let ticket = under_way.ticket.unwrap_or(0);
        match question {
            Question::Pause(pause_us) => {
                under_way.heard.push(Heard::Paused);
                self.act_in(pause_us, client);
                return Ok(());
            }
            Question::Begin { read_only } => match node.begin(read_only) {
                Ok(ticket) => {
                    under_way.ticket = Some(ticket);
                    self.sites[site].tickets.insert(ticket, client);
                }
                Err(error) => return Err(Violation::new("no transaction", error.to_string())),
            },
            Question::Operate(to, operation) => {
                // If not, the transaction has ended, and the client is about to hear of it.
                node.operate(ticket, to, *operation);
                under_way.nodes.insert(to);
                self.coverage.count("operations");
            }
            Question::Commit => {
                under_way.asked_to_commit = true;
                node.commit(ticket);
            }
            Question::RollBack => {
                under_way.heard.push(Heard::RolledBack);
                self.roll_back(client);
                return self.act(client);
            }
        }
        self.clients[client].waits_since_us = Some(self.now_us);
        self.drain(site);
        Ok(())
    }

    fn roll_back(&mut self, client: usize) {
        let site = self.clients[client].site;
        if let (Some(node), Some(ticket)) = (&mut self.sites[site].node, self.clients[client].ticket()) {
            node.roll_back(ticket);
            self.sites[site].tickets.remove(&ticket);
            self.drain(site);
        }
    }

    /// A node tells one of its clients something.
    pub(super) fn take_told(&mut self, site: usize, ticket: u64, told: ClientTold) {
        let Some(client) = self.sites[site].tickets.get(&ticket).copied() else {
            return;
        };
        if matches!(told, ClientTold::Ended(_)) {
            self.sites[site].tickets.remove(&ticket);
        }
        self.clients[client].inbox.push_back(told);
        let delay_us = self.random.uniform(5, 200);
        let epoch = self.clients[client].epoch;
        self.at(delay_us, Event::Hears(client, epoch));
    }

    /// A client hears the next thing that it was told.
    pub(super) fn hear(&mut self, client: usize) -> Result<(), Violation> {
        let Some(told) = self.clients[client].inbox.pop_front() else {
            return Ok(());
        };
        self.clients[client].waits_since_us = None;
        self.note(format_args!("client {client} hears {told:?}"));
        let Some(under_way) = &mut self.clients[client].under_way else {
            return Ok(());
        };
        match told {
            ClientTold::Began(_) => under_way.heard.push(Heard::Began),
            ClientTold::Answer(_, answer) => under_way.heard.push(Heard::Answer(answer)),
            ClientTold::Ended(Outcome::Committed(_)) => under_way.heard.push(Heard::Committed),
            ClientTold::Ended(Outcome::RolledBack(error)) => {
                self.coverage.count(reason(error.message()));
                self.ended(client, Fate::Aborted);
                return Ok(());
            }
            ClientTold::Ended(Outcome::Unknown) => {
                self.ended(client, Fate::Unknown);
                return Ok(());
            }
        }
        self.act(client)
    }

    /// Takes down how a client's transaction ended.
    fn ended(&mut self, client: usize, fate: Fate) {
        self.record(client, fate);
        if client > 0 && fate == Fate::Aborted && self.phase == Phase::Working && self.random.uniform(0, 2) == 0 {
            // Tried again, as another transaction.
            self.clients[client].left += 1;
        }
        // Who reads everything in the end tries until it has.
        if client == 0 && fate != Fate::Committed && self.phase != Phase::Working {
            self.clients[client].left += 1;
        }
        let thinks_us = self.random.uniform(1, 2_000);
        self.act_in(thinks_us, client);
    }

    fn record(&mut self, client: usize, fate: Fate) {
        let ended = self.next_moment();
        let Some(under_way) = self.clients[client].under_way.take() else {
            return;
        };
        self.clients[client].waits_since_us = None;
        self.clients[client].epoch += 1;
        self.clients[client].inbox.clear();
        self.coverage.count(match fate {
            Fate::Committed => "transactions committed",
            Fate::Aborted => "transactions aborted",
            Fate::Unknown => "transactions of unknown outcome",
        });
        if fate == Fate::Committed && under_way.workload == Some(GridWorkload::Tpcc) {
            self.coverage.count(under_way.name);
            if under_way.nodes.len() > 1 {
                self.coverage.count("TPC-C: over several nodes");
            }
        }
        self.note(format_args!("client {client} {fate:?} {}", under_way.number));
        let transaction = Transaction {
            name: under_way.name,
            client,
            began: under_way.began,
            ended,
            fate,
            steps: under_way.steps,
        };
        if fate == Fate::Unknown {
            self.unknown.push(transaction);
        } else {
            self.history.transactions.push(transaction);
        }
    }

    /// A node has gone, and its clients with their transactions.
    pub(super) fn cut_off_clients_of(&mut self, site: usize) {
        for client in 0..self.clients.len() {
            if self.clients[client].site != site || self.clients[client].under_way.is_none() {
                continue;
            }
            let in_commit = |one: &UnderWay| one.asked_to_commit;
            let fate = match self.clients[client].under_way.as_ref().is_some_and(in_commit) {
                true => Fate::Unknown,
                false => Fate::Aborted,
            };
            if fate == Fate::Unknown {
                self.coverage.count("crashes of a coordinator during COMMIT");
            }
            self.ended(client, fate);
        }
    }
}

/// The name under which an abort is counted.
fn reason(message: &str) -> &'static str {
    const REASONS: [(&str, &str); 9] = [
        ("started after", "aborts: a node was started anew"),
        ("did not answer", "aborts: no answer for too long"),
        ("older transaction", "aborts: an older one needed what it held"),
        ("wait for each other", "aborts: a circle of waits"),
        ("about to commit", "aborts: another is about to commit"),
        ("was rolled back", "aborts: cascade"),
        ("restarted", "aborts: a prepared branch was restarted"),
        ("still follows", "aborts: not settled"),
        ("changed", "aborts: a read changed"),
    ];
    let found = REASONS.iter().find(|(part, _)| message.contains(part));
    found.map_or("aborts: other reasons", |(_, name)| name)
}
