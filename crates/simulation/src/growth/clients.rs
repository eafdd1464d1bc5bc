//! Clients of the grid's nodes: each transaction is at the node that its client is connected to, and may need any.

use super::plan::GrowthTrouble;
use super::sites::Running;
use super::world::{Event, Phase, World};
use crate::answer::Answer;
use crate::check::Violation;
use crate::client::{Client, Move};
use crate::connections::Outcome;
use crate::history::{Fate, Transaction};
use rubato_sql::client::Request;
use std::collections::VecDeque;

/// How long a client waits until it tries again to connect.
const CONNECT_US: i64 = 2_000;
/// How long clients think between two transactions, at most.
const THINKS_US_MAX: i64 = 20_000;
/// One in so many transactions is begun at another node than the one before.
const MOVES_EVERY: i64 = 4;
/// The error of a commit whose outcome its node does not know.
pub(super) const UNKNOWN_OUTCOME: &str = "08007";

/// Errors that clients may be told, by the trouble that brings them; an empty list: always.
const ERRORS: [(&str, &str, &[GrowthTrouble]); 6] = [
    ("40001", "error 40001: serialization failure", &[]),
    ("23514", "error 23514: check refused", &[]),
    ("25P02", "error 25P02: block failed before", &[]),
    ("57P03", "error 57P03: a node cannot be reached", &UNREACHABLE),
    (UNKNOWN_OUTCOME, "error 08007: nobody knows the outcome", &UNREACHABLE),
    ("58030", "error 58030: input or output", &[GrowthTrouble::Crashes]),
];

/// What makes that a node cannot be reached.
const UNREACHABLE: [GrowthTrouble; 2] = [GrowthTrouble::Crashes, GrowthTrouble::Partitions];

impl World<'_> {
    /// Has a client go on in a while, and not before.
    pub(super) fn act_in(&mut self, delay_us: i64, client: usize) {
        self.clients[client].generation += 1;
        let generation = self.clients[client].generation;
        self.at(delay_us, Event::Acts(client, generation));
    }

    /// A client goes on.
    pub(super) fn act(&mut self, client: usize) -> Result<(), Violation> {
        if self.clients[client].under_way.is_none() && self.clients[client].left == 0 {
            self.leave_node(client);
            return Ok(());
        }
        if self.clients[client].under_way.is_none() && self.is_to_move(client) {
            self.leave_node(client);
        }
        if !self.clients[client].is_connected && !self.enter_node(client)? {
            return Ok(());
        }
        if self.clients[client].under_way.is_none() {
            self.begin(client);
        }
        match self.clients[client].go_on(&self.of_clients) {
            Move::Ask(requests) => self.ask(client, requests),
            Move::Pause(pause_us) => {
                if let Some(under_way) = &mut self.clients[client].under_way {
                    let last = under_way.answers.last().cloned().unwrap_or_default();
                    under_way.answers.push(last);
                }
                self.act_in(pause_us, client);
                Ok(())
            }
            Move::Ended(fate, in_block) => self.on_transaction_ended(client, fate, in_block),
            Move::Absurd(what) => Err(Violation::new("absurd answer", what)),
        }
    }

    fn begin(&mut self, client: usize) {
        self.clients[client].left -= 1;
        let (number, moment) = (self.next_transaction, self.next_moment());
        self.next_transaction += 1;
        self.clients[client].begin(number, moment, &mut self.random);
        let name = self.clients[client].under_way.as_ref().map_or("", |one| one.name);
        let at = self.seats[client];
        self.note(format_args!("client {client} at node {at} begins {number} {name}"));
    }

    /// Whether a client goes to another node before its next transaction.
    fn is_to_move(&mut self, client: usize) -> bool {
        let site = &self.sites[self.seats[client]];
        let is_gone = site.running.is_none() || site.is_leaving;
        is_gone || client == 0 || self.random.uniform(1, MOVES_EVERY) == 1
    }

    /// The client has no session at its node any more.
    fn leave_node(&mut self, client: usize) {
        if !std::mem::take(&mut self.clients[client].is_connected) {
            return;
        }
        let at = self.seats[client];
        if let Some(running) = &mut self.sites[at].running {
            running.connections.hang_up(client);
        }
        self.drain(at);
    }

    /// A session at any node that takes clients.
    fn enter_node(&mut self, client: usize) -> Result<bool, Violation> {
        let is_open = |at: &usize| {
            let site = &self.sites[*at];
            // (A session there that is about to end is in the way.)
            let running = site.running.as_ref();
            let is_free = |running: &Running| running.is_open(self.now_us) && !running.connections.is_connected(client);
            !site.is_leaving && running.is_some_and(is_free)
        };
        let open: Vec<usize> = (0..self.sites.len()).filter(is_open).collect();
        let chosen = self.random.uniform(0, open.len() as i64 - 1) as usize;
        let Some(at) = open.get(chosen).copied() else {
            self.act_in(CONNECT_US, client);
            return Ok(false);
        };
        self.next_session += 1;
        let session = self.next_session;
        if let Some(running) = &mut self.sites[at].running {
            let connected = running.connections.connect(client, session);
            connected.map_err(|error| Violation::new("no session", error.to_string()))?;
        }
        self.seats[client] = at;
        self.clients[client].is_connected = true;
        Ok(true)
    }

    fn ask(&mut self, client: usize, requests: VecDeque<Request>) -> Result<(), Violation> {
        if let Some(Request::Query { sql } | Request::Parse { sql, .. }) = requests.front() {
            self.note(format_args!("client {client} asks {sql}"));
        }
        let at = self.seats[client];
        let running = self.sites[at].running.as_mut();
        if !running.is_some_and(|running| running.connections.submit(client, requests)) {
            let what = format!("client {client} has no session at node {at}");
            return Err(Violation::new("lost session", what));
        }
        self.coverage.count("statements");
        self.clients[client].waits_since_us = Some(self.now_us);
        self.drain(at);
        Ok(())
    }

    /// What a node has to tell a client, or the operator.
    pub(super) fn take_outcome(&mut self, at: usize, client: usize, outcome: Outcome) {
        let Outcome::Answered(answer) = outcome else { return };
        let delay_us = self.random.uniform(5, 200);
        if client == self.operator_number() {
            return self.operator_hears_in(delay_us, answer);
        }
        if self.seats[client] == at && self.clients[client].is_connected {
            self.clients[client].inbox = Some(answer);
            let generation = self.clients[client].generation;
            self.at(delay_us, Event::Answered(client, generation));
        }
    }

    /// An answer reaches a client.
    pub(super) fn on_answer(&mut self, client: usize) -> Result<(), Violation> {
        let Some(answer) = self.clients[client].inbox.take() else {
            return Ok(());
        };
        self.clients[client].waits_since_us = None;
        self.note_answer(format_args!("client {client}"), &answer);
        let code = answer.code();
        if let Some(error) = &answer.error {
            let known = ERRORS.iter().find(|(known, _, _)| *known == code);
            let may = |troubles: &[GrowthTrouble]| {
                troubles.is_empty() || troubles.iter().any(|trouble| self.plan.has(*trouble))
            };
            let Some((_, name, _)) = known.filter(|(_, _, troubles)| may(troubles)) else {
                let what = format!("client {client}: {code} {error}");
                return Err(Violation::new("unexpected error", what));
            };
            self.coverage.count(name);
        }
        if std::mem::take(&mut self.clients[client].rolls_back) {
            return self.act(client);
        }
        let commits = |client: &Client| client.under_way.as_ref().is_some_and(|one| one.commits);
        if code == UNKNOWN_OUTCOME && commits(&self.clients[client]) {
            return self.on_transaction_ended(client, Fate::Unknown, answer.in_block);
        }
        if let Some(under_way) = &mut self.clients[client].under_way {
            under_way.answers.push(answer);
        }
        self.act(client)
    }

    /// Writes down what was told.
    pub(super) fn note_answer(&mut self, whom: std::fmt::Arguments<'_>, answer: &Answer) {
        let outputs = answer.outputs.iter();
        let outputs: Vec<String> = outputs
            .map(|output| format!("{} {:?}", output.tag, output.rows))
            .collect();
        let error = answer.error.as_ref().map(|error| error.to_string()).unwrap_or_default();
        let code = answer.code();
        self.note(format_args!("{whom} is told {} {code} {error}", outputs.join("; ")));
    }

    fn on_transaction_ended(&mut self, client: usize, fate: Fate, in_block: bool) -> Result<(), Violation> {
        self.record(client, fate);
        if in_block {
            self.clients[client].rolls_back = true;
            let sql = "rollback".to_owned();
            return self.ask(client, VecDeque::from([Request::Query { sql }]));
        }
        self.rest_a_while(client);
        Ok(())
    }

    fn rest_a_while(&mut self, client: usize) {
        let longest_us = if client > 0 { THINKS_US_MAX } else { 2_000 };
        let thinks_us = self.random.uniform(1, longest_us);
        self.act_in(thinks_us, client);
    }

    /// Takes down how a client's transaction ended.
    fn record(&mut self, client: usize, fate: Fate) {
        let moment = self.next_moment();
        let Some(transaction) = self.clients[client].take(fate, moment) else {
            return;
        };
        self.coverage.count(match fate {
            Fate::Committed => "transactions committed",
            Fate::Aborted => "transactions aborted",
            Fate::Unknown => "transactions of unknown outcome",
        });
        self.note(format_args!("client {client} {fate:?} {}", transaction.name));
        self.go_on_or_not(client, &transaction);
        match fate {
            Fate::Unknown => self.unknown.push(transaction),
            _ => self.history.transactions.push(transaction),
        }
    }

    /// Whether the client has more to do than it had.
    fn go_on_or_not(&mut self, client: usize, ended: &Transaction) {
        let is_tried_again = match client {
            // Who reads everything in the end tries until it has.
            0 => ended.fate != Fate::Committed,
            _ => ended.fate == Fate::Aborted && self.phase == Phase::Working && self.random.uniform(0, 2) == 0,
        };
        self.clients[client].left += usize::from(is_tried_again);
        let goes_on = client > 0 && !self.operator.is_done() && self.beyond_left > 0;
        if goes_on && self.clients[client].left == 0 {
            self.beyond_left -= 1;
            self.clients[client].left = 1;
        }
    }

    /// A node has gone, and its clients with their transactions.
    pub(super) fn cut_off_clients_of(&mut self, at: usize) {
        for client in 0..self.clients.len() {
            if self.seats[client] != at || !self.clients[client].is_connected {
                continue;
            }
            let fate = self.clients[client].fate_if_cut_off();
            if fate == Fate::Unknown {
                self.coverage.count("crashes during COMMIT");
            }
            self.record(client, fate);
            let own = &mut self.clients[client];
            own.is_connected = false;
            own.waits_since_us = None;
            own.rolls_back = false;
            own.inbox = None;
            self.rest_a_while(client);
        }
        self.cut_off_operator(at);
    }

    /// Whether nobody has a session at a node.
    pub(super) fn is_deserted(&self, at: usize) -> bool {
        let Some(running) = &self.sites[at].running else {
            return true;
        };
        (0..=self.operator_number()).all(|client| !running.connections.is_connected(client))
    }
}
