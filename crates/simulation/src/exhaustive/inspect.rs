//! What is wrong with a world, and what distinguishes it from others.

use super::definition::{End, History, State, is_strictly_serializable};
use super::world::{COORDINATOR, Content, NoRows, TABLE, World};
use rubato_base::{ColumnSet, DataType, GlobalId, KeyReader, SessionId, Timestamp};
use rubato_protocol::{BeginOptions, KeyRange, Sketch, Stop};
use std::ops::Bound;

impl World {
    /// Whether everybody has ended and nobody holds anything any more.
    pub fn is_finished(&self) -> bool {
        self.packets.is_empty()
            && self.clients.iter().all(|client| client.end.is_some())
            && self.coordinator.value.open_transactions().next().is_none()
            && self
                .participants
                .iter()
                .all(|site| site.value.participant.open_branches() == 0)
    }

    /// Whether the transaction has begun.
    pub(super) fn has_begun(&self, i: usize) -> bool {
        self.clients[i].global.is_some()
    }

    /// Whether the transaction waits for another: it was asked something, and what was asked is not under way any more.
    pub(super) fn waits_for_turn(&self, i: usize) -> bool {
        self.has_begun(i) && self.clients[i].end.is_none() && self.request_of(i).is_none()
    }

    /// The request of the transaction that is under way.
    pub(super) fn request_of(&self, i: usize) -> Option<usize> {
        let global = self.clients[i].global?;
        self.packets.iter().position(|packet| match &packet.0.content {
            Content::Message(message) => message.transaction == global && packet.0.to != COORDINATOR,
            Content::Told(..) => false,
        })
    }

    /// Whether anything is under way.
    pub(super) fn has_packets(&self) -> bool {
        !self.packets.is_empty()
    }

    /// A reply that is under way.
    pub(super) fn reply(&self) -> Option<usize> {
        self.packets.iter().position(|packet| packet.0.to == COORDINATOR)
    }

    /// What is wrong with a state from which nothing can happen any more, or with any state.
    pub fn violation(&self, is_end: bool) -> Option<String> {
        if let Some(broken) = &self.broken {
            return Some(broken.clone());
        }
        if !is_end {
            return None;
        }
        if !self.is_finished() {
            let ends: Vec<Option<End>> = self.clients.iter().map(|client| client.end).collect();
            let open: Vec<usize> = self
                .participants
                .iter()
                .map(|site| site.value.participant.open_branches())
                .collect();
            let held: Vec<GlobalId> = self.coordinator.value.open_transactions().collect();
            return Some(format!(
                "somebody waits for ever: clients {ends:?}, branches {open:?}, coordinator {held:?}"
            ));
        }
        let history = match self.history() {
            Ok(history) => history,
            Err(problem) => return Some(problem),
        };
        let configuration = &self.configuration;
        let explained = is_strictly_serializable(
            &configuration.programs,
            &configuration.state(),
            configuration.nodes,
            &history,
        );
        (!explained).then(|| format!("not strictly serializable: {history:?}"))
    }

    /// How each transaction ended.
    pub fn ends(&self) -> impl Iterator<Item = Option<End>> + '_ {
        self.clients.iter().map(|client| client.end)
    }

    /// How often a transaction has waited, over all nodes.
    pub fn waits(&self) -> u64 {
        let participants = self.participants.iter();
        participants
            .map(|participant| participant.value.database.statistics().waits.iter().sum::<u64>())
            .sum()
    }

    fn history(&self) -> Result<History, String> {
        let mut last = State::new();
        for participant in &self.participants {
            let mut database = participant.value.database.fork(Box::new(NoRows));
            if database.statistics().fold_failures > 0 {
                return Err("a formula could not be folded".to_string());
            }
            let id = database.begin_at(
                self.ticks.clone().next_tick().unwrap_or(Timestamp::MAX),
                BeginOptions {
                    session: SessionId(0),
                    read_only: true,
                },
            );
            let mut visit = |key: &[u8], row: rubato_base::RowRef<'_>| {
                let x = KeyReader::new(key).next(DataType::Int4).ok().and_then(|x| x.as_i64());
                last.insert(x.unwrap_or(-1) as u8, row.get(0).as_i64().unwrap_or(i64::MIN));
                true
            };
            let all = KeyRange {
                from: Bound::Unbounded,
                to: Bound::Unbounded,
            };
            if let Err(stop) = database.scan(id, TABLE, &all, false, ColumnSet::ALL, &mut visit) {
                let Stop::Wait(wait) = stop else {
                    return Err(format!("the last state cannot be read: {stop:?}"));
                };
                return Err(format!("somebody is in doubt for ever: {wait:?}"));
            }
            database.rollback(id);
            if database.live_transactions() > 0 {
                return Err("a transaction is live that nobody knows".to_string());
            }
        }
        Ok(History {
            seen: self.clients.iter().map(|client| client.seen.clone()).collect(),
            ends: self
                .clients
                .iter()
                .map(|client| client.end.unwrap_or(End::RolledBack))
                .collect(),
            before: self.clients.iter().map(|client| client.before).collect(),
            last,
        })
    }

    /// What distinguishes this state from others.
    pub fn fingerprint(&self) -> Vec<u8> {
        let mut sketch = Sketch::new(self.crashes > 0);
        for number in [self.lost, self.repeated, self.crashes, self.timer_rounds] {
            sketch.number(u64::from(number));
        }
        for client in &self.clients {
            sketch.stamp_or_none(client.global.map(|global| global.tick));
            sketch.number(client.at as u64);
            sketch.number(u64::from(client.before));
            sketch.number(client.end.map_or(0, |end| 1 + end as u64));
            sketch.number(u64::from(client.asked_to_commit));
            sketch.number(u64::from(client.is_ready));
            sketch.number(client.seen.len() as u64);
            for seen in &client.seen {
                sketch.number(u64::from(seen.is_some()));
                sketch.number(seen.unwrap_or_default() as u64);
            }
        }
        sketch.append(&self.coordinator.sketch);
        for participant in &self.participants {
            sketch.append(&participant.sketch);
        }
        if self.crashes > 0 {
            self.logs.iter().for_each(|log| log.sketch(&mut sketch));
        }
        let mut packets: Vec<_> = self.packets.iter().collect();
        packets.sort_by(|a, b| {
            let (a_bytes, a_stamps) = a.1.order();
            let (b_bytes, b_stamps) = b.1.order();
            a_bytes.cmp(b_bytes).then_with(|| a_stamps.cmp(b_stamps))
        });
        sketch.number(packets.len() as u64);
        for packet in packets {
            sketch.number(u64::from(packet.0.is_copy));
            sketch.append(&packet.1);
        }
        sketch.finish()
    }
}
