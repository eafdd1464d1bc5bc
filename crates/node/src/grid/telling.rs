//! What transactions tell on channels, to the nodes that they have not run on.
//!
//! It is kept for each other node until that has taken it, and told again when it was not taken for a while or the node has come back.
//! A node that cannot be reached for long misses the oldest of it.

use super::GridMessage;
use super::state::GridState;
use rubato_base::{Lsn, NodeId};
use rubato_grid::telling::{TellMessage, Telling};
use rubato_sql::channels::Told;
use rubato_sql::databases::DatabaseId;
use rubato_sql::partition::Partition;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What waits for one node to take it, in transactions.
const UNTAKEN_MAX: usize = 10_000;
/// The same in bytes. All nodes share what waits for several of them.
const UNTAKEN_BYTES_MAX: usize = 8 << 20;
/// Of that, what is told again at once, in transactions; more when that is taken.
const AGAIN_MAX: usize = 256;
/// The same in bytes.
const AGAIN_BYTES_MAX: usize = 1 << 20;
/// Rounds after which it is told again.
const SILENT_ROUNDS: u32 = 20;

/// What was told, and heard.
#[derive(Default)]
pub(super) struct Tellings {
    told: BTreeMap<NodeId, Untaken>,
    /// Of each node, its life and the last that was heard of it.
    heard: BTreeMap<NodeId, (u64, u64)>,
}

/// What one node has not taken.
#[derive(Default)]
struct Untaken {
    last: u64,
    /// The last that was said, with all before it that wait: what comes next may be said.
    said: u64,
    /// The log has to be forced so far before the last one leaves. Those that come later leave behind it, in the order of their numbers.
    leaves_at: Lsn,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    rounds: u32,
}

/// What a transaction tells, by its number, and how far the log has to be forced before.
#[derive(Clone)]
struct Waiting {
    number: u64,
    leaves_at: Lsn,
    telling: Arc<Telling>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        const EACH: usize = 64;
        let told = self.telling.told.iter();
        told.map(|(channel, payload)| EACH + channel.len() + payload.len())
            .sum::<usize>()
            + EACH
    }
}

impl Untaken {
    /// Keeps it, and of what came before it the newest as far as it fits.
    fn keep(&mut self, waiting: Waiting) {
        self.waiting_bytes += waiting.bytes();
        self.waiting.push_back(waiting);
        while self.waiting.len() > UNTAKEN_MAX || (self.waiting_bytes > UNTAKEN_BYTES_MAX && self.waiting.len() > 1) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.waiting.pop_front() {
            self.waiting_bytes -= oldest.bytes();
        }
    }

    /// It was taken up to this number.
    fn take(&mut self, number: u64) {
        while self.waiting.front().is_some_and(|oldest| oldest.number <= number) {
            self.drop_oldest();
        }
        self.rounds = 0;
    }

    /// What is told again at once.
    fn again(&self) -> Vec<Waiting> {
        let mut bytes = 0;
        let fits = |waiting: &&Waiting| {
            let is_first = bytes == 0;
            bytes += waiting.bytes();
            is_first || bytes <= AGAIN_BYTES_MAX
        };
        self.waiting.iter().take(AGAIN_MAX).take_while(fits).cloned().collect()
    }
}

impl GridState {
    /// See [`rubato_sql::grid::GridDesk::tell`].
    pub(super) fn tell(&mut self, (database, backend_id): (DatabaseId, i32), told: &[Told], durable_at: Lsn) -> Lsn {
        let told = told
            .iter()
            .map(|(channel, payload)| (channel.to_string(), payload.to_string()));
        let telling = Arc::new(Telling {
            database: database.0,
            backend_id,
            told: told.collect(),
        });
        let mut all_leave_at = durable_at;
        for node in self.settings.nodes.clone() {
            if node == self.settings.id {
                continue;
            }
            let untaken = self.tellings.told.entry(node).or_default();
            untaken.last += 1;
            untaken.leaves_at = untaken.leaves_at.max(durable_at);
            let (number, leaves_at) = (untaken.last, untaken.leaves_at);
            all_leave_at = all_leave_at.max(leaves_at);
            let waiting = Waiting {
                number,
                leaves_at,
                telling: Arc::clone(&telling),
            };
            untaken.keep(waiting.clone());
            // With a gap before it, it would be refused. What is not said now is when what was said has been taken.
            let has_room = untaken.waiting.len() == 1 || untaken.waiting_bytes <= AGAIN_BYTES_MAX;
            if self.calls.is_up(node) && number == untaken.said + 1 && has_room {
                untaken.said = number;
                self.say_told(node, waiting);
            }
        }
        all_leave_at
    }

    fn say_told(&mut self, node: NodeId, told: Waiting) {
        let oldest = { self.tellings.told.get(&node) }.and_then(|untaken| untaken.waiting.front());
        let message = TellMessage::Told {
            life: self.standing.life,
            number: told.number,
            oldest: oldest.map_or(told.number, |oldest| oldest.number),
            telling: Arc::unwrap_or_clone(told.telling),
        };
        self.outgoing
            .push(told.leaves_at.max(self.life_lsn), (node, GridMessage::Tell(message)));
    }

    /// What a node has not taken is told again.
    pub(super) fn tell_again(&mut self, node: NodeId) {
        let Some(untaken) = self.tellings.told.get_mut(&node) else {
            return;
        };
        untaken.rounds = 0;
        let again = untaken.again();
        untaken.said = again.last().map_or(untaken.last, |waiting| waiting.number);
        again.into_iter().for_each(|waiting| self.say_told(node, waiting));
    }

    /// A time for telling again what was not taken.
    pub(super) fn tell_late(&mut self) {
        let members = &self.settings.nodes;
        self.tellings.told.retain(|node, _| members.contains(node));
        let mut late = Vec::new();
        for (node, untaken) in &mut self.tellings.told {
            untaken.rounds += 1;
            if !untaken.waiting.is_empty() && untaken.rounds >= SILENT_ROUNDS && self.calls.is_up(*node) {
                late.push(*node);
            }
        }
        late.into_iter().for_each(|node| self.tell_again(node));
    }

    pub(super) fn on_telling(&mut self, partition: &Partition, from: NodeId, message: TellMessage) {
        match message {
            TellMessage::Told {
                life,
                number,
                oldest,
                telling,
            } => {
                let heard = self.tellings.heard.get(&from).filter(|(own, _)| *own == life);
                let mut last = heard.map_or(0, |(_, last)| *last);
                if number > oldest.max(last.saturating_add(1)) {
                    // One before it is missing, and comes again.
                    self.refused += 1;
                    return;
                }
                if number > last {
                    let told = telling.told.into_iter();
                    let told: Vec<Told> = told
                        .map(|(channel, payload)| (channel.into(), payload.into()))
                        .collect();
                    let who = (DatabaseId(telling.database), telling.backend_id);
                    partition.channels.hear(who, &told);
                    self.tellings.heard.insert(from, (life, number));
                    last = number;
                }
                let taken = GridMessage::Tell(TellMessage::Taken { life, number: last });
                self.outgoing.push(Lsn(0), (from, taken));
            }
            TellMessage::Taken { life, number } if life == self.standing.life => {
                if let Some(untaken) = self.tellings.told.get_mut(&from) {
                    untaken.take(number);
                    if number >= untaken.said && !untaken.waiting.is_empty() {
                        self.tell_again(from);
                    }
                }
            }
            TellMessage::Taken { .. } => self.refused += 1,
        }
    }
}
