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

/// What waits for one node to take it.
const UNTAKEN_MAX: usize = 10_000;
/// Of that, what is told again at once; more when that is taken.
const AGAIN_MAX: usize = 256;
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
    waiting: VecDeque<(u64, Lsn, Telling)>,
    rounds: u32,
}

impl GridState {
    /// See [`rubato_sql::grid::GridDesk::tell`].
    pub(super) fn tell(&mut self, (database, backend_id): (DatabaseId, i32), told: &[Told], durable_at: Lsn) {
        let told = told
            .iter()
            .map(|(channel, payload)| (channel.to_string(), payload.to_string()));
        let telling = Telling {
            database: database.0,
            backend_id,
            told: told.collect(),
        };
        for node in self.settings.nodes.clone() {
            if node == self.settings.id {
                continue;
            }
            let untaken = self.tellings.told.entry(node).or_default();
            untaken.last += 1;
            untaken.leaves_at = untaken.leaves_at.max(durable_at);
            let (number, leaves_at) = (untaken.last, untaken.leaves_at);
            untaken.waiting.push_back((number, leaves_at, telling.clone()));
            if untaken.waiting.len() > UNTAKEN_MAX {
                untaken.waiting.pop_front();
            }
            // With a gap before it, it would be refused.
            if self.calls.is_up(node) && number == untaken.said + 1 {
                untaken.said = number;
                self.say_told(node, number, leaves_at, telling.clone());
            }
        }
    }

    fn say_told(&mut self, node: NodeId, number: u64, leaves_at: Lsn, telling: Telling) {
        let untaken = self
            .tellings
            .told
            .get(&node)
            .and_then(|untaken| untaken.waiting.front());
        let message = TellMessage::Told {
            life: self.standing.life,
            number,
            oldest: untaken.map_or(number, |(oldest, ..)| *oldest),
            telling,
        };
        self.outgoing
            .push(leaves_at.max(self.life_lsn), (node, GridMessage::Tell(message)));
    }

    /// What a node has not taken is told again.
    pub(super) fn tell_again(&mut self, node: NodeId) {
        let Some(untaken) = self.tellings.told.get_mut(&node) else {
            return;
        };
        untaken.rounds = 0;
        let again: Vec<(u64, Lsn, Telling)> = untaken.waiting.iter().take(AGAIN_MAX).cloned().collect();
        untaken.said = again.last().map_or(untaken.last, |(number, ..)| *number);
        for (number, leaves_at, telling) in again {
            self.say_told(node, number, leaves_at, telling);
        }
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
                    partition.channels.tell(who, &told, Lsn(0));
                    self.tellings.heard.insert(from, (life, number));
                    last = number;
                }
                let taken = GridMessage::Tell(TellMessage::Taken { life, number: last });
                self.outgoing.push(Lsn(0), (from, taken));
            }
            TellMessage::Taken { life, number } if life == self.standing.life => {
                if let Some(untaken) = self.tellings.told.get_mut(&from) {
                    untaken.waiting.retain(|(own, _, _)| *own > number);
                    untaken.rounds = 0;
                    if number >= untaken.said && !untaken.waiting.is_empty() {
                        self.tell_again(from);
                    }
                }
            }
            TellMessage::Taken { .. } => self.refused += 1,
        }
    }
}
