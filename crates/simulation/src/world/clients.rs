//! What clients do in a run.

use super::{Event, Phase, World};
use crate::check::Violation;
use crate::client::Move;
use crate::history::Fate;
use crate::plan::Trouble;
use rubato_sql::client::Request;
use std::collections::VecDeque;

/// How long a client waits until it tries again to connect.
const CONNECT_US: i64 = 1_000;

/// Errors that clients may be told, by the trouble that brings them; an empty list: always.
const ERRORS: [(&str, &str, &[Trouble]); 7] = [
    ("40001", "error 40001: serialization failure", &[]),
    ("23514", "error 23514: check refused", &[]),
    ("57014", "error 57014: cancelled", &[Trouble::Cancels]),
    (
        "53100",
        "error 53100: disk full",
        &[Trouble::FullDisk, Trouble::ForceFailures, Trouble::StoreFailures],
    ),
    ("53200", "error 53200: memory full", &[Trouble::SmallMemory]),
    (
        "58030",
        "error 58030: input or output",
        &[
            Trouble::ReadErrors,
            Trouble::StoreFailures,
            Trouble::ForceFailures,
            Trouble::FullDisk,
            Trouble::Crashes,
        ],
    ),
    ("25P02", "error 25P02: block failed before", &[]),
];

impl World<'_> {
    /// A client goes on.
    pub(super) fn act(&mut self, client: usize) -> Result<(), Violation> {
        if !self.clients[client].is_connected && !self.connect(client)? {
            return Ok(());
        }
        if self.clients[client].under_way.is_none() {
            if self.clients[client].left == 0 {
                return Ok(());
            }
            self.clients[client].left -= 1;
            let (number, moment) = (self.next_transaction, self.next_moment());
            self.next_transaction += 1;
            self.clients[client].begin(number, moment, &mut self.random);
            let name = self.clients[client].under_way.as_ref().map_or("", |one| one.name);
            self.note(format_args!("client {client} begins {number} {name}"));
        }
        let next = self.clients[client].go_on(self.plan);
        match next {
            Move::Ask(requests) => self.ask(client, requests),
            Move::Pause(pause_us) => {
                self.coverage.count("pauses within transactions");
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

    /// Has a client go on in a while, and not before.
    pub(super) fn act_in(&mut self, delay_us: i64, client: usize) {
        self.clients[client].generation += 1;
        let generation = self.clients[client].generation;
        self.at(delay_us, Event::Acts(client, generation));
    }

    fn connect(&mut self, client: usize) -> Result<bool, Violation> {
        let worker = self.clients[client].worker;
        if self.workers[worker].is_connected(client) {
            // Its last session is about to end.
            self.act_in(CONNECT_US, client);
            return Ok(false);
        }
        let session = self.next_session;
        self.next_session += 1;
        let connected = self.workers[worker].connect(client, session);
        connected.map_err(|error| Violation::new("no session", error.to_string()))?;
        self.clients[client].is_connected = true;
        self.clients[client].on_connected();
        Ok(true)
    }

    fn ask(&mut self, client: usize, requests: VecDeque<Request>) -> Result<(), Violation> {
        if let Some(Request::Query { sql } | Request::Parse { sql, .. }) = requests.front() {
            self.note(format_args!("client {client} asks {sql}"));
        } else {
            self.note(format_args!("client {client} asks {} requests", requests.len()));
        }
        let worker = self.clients[client].worker;
        if !self.workers[worker].submit(client, requests) {
            return Err(Violation::new(
                "lost session",
                format!("client {client} has no session"),
            ));
        }
        self.coverage.count("statements");
        self.clients[client].waits_since_us = Some(self.now_us);
        self.soon(worker);
        Ok(())
    }

    /// An answer reaches a client.
    pub(super) fn on_answer(&mut self, client: usize) -> Result<(), Violation> {
        let Some(answer) = self.clients[client].inbox.take() else {
            return Ok(());
        };
        self.clients[client].waits_since_us = None;
        let outputs: Vec<String> = (answer.outputs.iter())
            .map(|output| format!("{} {:?}", output.tag, output.rows))
            .collect();
        let code = answer.code();
        self.note(format_args!("client {client} is told {} {code}", outputs.join("; ")));
        if let Some(error) = &answer.error {
            let known = ERRORS.iter().find(|(known, _, _)| *known == code);
            let expected = known.filter(|(_, _, troubles)| {
                troubles.is_empty() || troubles.iter().any(|trouble| self.plan.has(*trouble))
            });
            let Some((_, name, _)) = expected else {
                return Err(Violation::new(
                    "unexpected error",
                    format!("client {client}: {code} {error}"),
                ));
            };
            self.coverage.count(name);
        }
        if std::mem::take(&mut self.clients[client].rolls_back) {
            return self.act(client);
        }
        if let Some(under_way) = &mut self.clients[client].under_way {
            under_way.answers.push(answer);
        }
        self.act(client)
    }

    fn on_transaction_ended(&mut self, client: usize, fate: Fate, in_block: bool) -> Result<(), Violation> {
        self.record(client, fate);
        if in_block {
            self.clients[client].rolls_back = true;
            let sql = "rollback".to_owned();
            return self.ask(client, VecDeque::from([Request::Query { sql }]));
        }
        let thinks_us = self.random.uniform(1, 2_000);
        self.act_in(thinks_us, client);
        Ok(())
    }

    /// Takes down how a client's transaction ended.
    fn record(&mut self, client: usize, fate: Fate) {
        let moment = self.next_moment();
        let Some(transaction) = self.clients[client].take(fate, moment) else {
            return;
        };
        self.ended_transactions += 1;
        self.coverage.count(match fate {
            Fate::Committed => "transactions committed",
            Fate::Aborted => "transactions aborted",
            Fate::Unknown => "transactions of unknown outcome",
        });
        self.note(format_args!("client {client} {fate:?} {}", transaction.name));
        if client > 0 && fate == Fate::Aborted && self.phase == Phase::Working && self.random.uniform(0, 2) == 0 {
            // Tried again, as another transaction.
            self.clients[client].left += 1;
        }
        self.history.transactions.push(transaction);
    }

    /// A client's connection breaks.
    pub(super) fn hang_up(&mut self, client: usize) {
        if !self.clients[client].is_connected {
            return;
        }
        let fate = self.clients[client].fate_if_cut_off();
        self.note(format_args!("client {client} hangs up, {fate:?}"));
        if fate == Fate::Unknown {
            self.coverage.count("connections broken during COMMIT");
            let moment = self.moment;
            self.clients[client].dying = self.clients[client].take(fate, moment);
        } else {
            self.coverage.count("connections broken otherwise");
            self.record(client, fate);
        }
        self.cut_off(client);
        let worker = self.clients[client].worker;
        self.workers[worker].hang_up(client);
        self.soon(worker);
        let away_us = self.random.uniform(100, 20_000);
        self.act_in(away_us, client);
    }

    /// What was under way to the client comes too late.
    pub(super) fn cut_off(&mut self, client: usize) {
        let client = &mut self.clients[client];
        client.generation += 1;
        client.is_connected = false;
        client.waits_since_us = None;
        client.rolls_back = false;
        client.inbox = None;
    }

    /// A session whose client had gone has ended: from now on its last transaction can not take effect any more.
    pub(super) fn on_session_ended(&mut self, client: usize) {
        let moment = self.next_moment();
        if let Some(mut transaction) = self.clients[client].dying.take() {
            transaction.ended = moment;
            self.ended_transactions += 1;
            self.coverage.count("transactions of unknown outcome");
            self.history.transactions.push(transaction);
        }
    }

    /// Everybody is cut off, since the node has gone.
    pub(super) fn cut_all_off(&mut self) {
        for client in 0..self.clients.len() {
            let fate = self.clients[client].fate_if_cut_off();
            if fate == Fate::Unknown {
                self.coverage.count("crashes during COMMIT");
            }
            self.record(client, fate);
            self.on_session_ended(client);
            self.cut_off(client);
        }
    }
}
