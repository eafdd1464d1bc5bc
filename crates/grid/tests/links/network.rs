//! A network in memory: connections with delays, that may break or fall silent.

use rubato_base::NodeId;
use rubato_grid::GridMessage;
use rubato_grid::links::{Action, ConnectionId, Event, Links};
use std::collections::BTreeMap;

/// What is under way to one end of a connection.
enum Parcel {
    Connect { from: usize, connection: ConnectionId },
    Connected,
    Bytes(Vec<u8>),
    Written(usize),
    Closed,
}

/// An end of a connection: its node, and what that calls it.
type End = (usize, ConnectionId);

/// Some nodes, called by their places, whose addresses are these places too.
pub struct Network {
    pub nodes: Vec<Links>,
    /// What the nodes are called.
    pub number_of: Vec<NodeId>,
    pub now_us: u64,
    heard: Vec<(Vec<Event>, Vec<(NodeId, GridMessage)>)>,
    /// Nothing arrives, and nothing is lost either while a connection lives.
    pub is_silent: bool,
    /// The other end of each end.
    ends: BTreeMap<End, End>,
    parcels: BTreeMap<(u64, u64), (End, Parcel)>,
    /// What arrives at an end does so in order.
    last_us: BTreeMap<End, u64>,
    sent: u64,
    /// Connections that have come about.
    pub connected: u64,
    random: u64,
    varies: bool,
}

impl Network {
    pub fn new(nodes: Vec<Links>) -> Network {
        Network {
            number_of: nodes.iter().map(|node| node.identity().node).collect(),
            heard: nodes.iter().map(|_| Default::default()).collect(),
            nodes,
            now_us: 0,
            is_silent: false,
            ends: BTreeMap::new(),
            parcels: BTreeMap::new(),
            last_us: BTreeMap::new(),
            sent: 0,
            connected: 0,
            random: 1,
            varies: false,
        }
    }

    pub fn set_peer(&mut self, node: u32, other: u32) {
        let number = self.number_of[other as usize];
        self.nodes[node as usize].set_peer(number, Some(&other.to_string()), self.now_us);
    }

    /// From now on each way takes its own time.
    pub fn delay_by(&mut self, seed: u64) {
        self.random = seed | 1;
        self.varies = true;
    }

    /// What has happened to a node, but for messages.
    pub fn events(&mut self, node: u32) -> Vec<Event> {
        self.hear(node as usize);
        std::mem::take(&mut self.heard[node as usize].0)
    }

    pub fn messages(&mut self, node: u32) -> Vec<(NodeId, GridMessage)> {
        self.hear(node as usize);
        std::mem::take(&mut self.heard[node as usize].1)
    }

    fn hear(&mut self, node: usize) {
        while let Some(event) = self.nodes[node].poll_event() {
            match event {
                Event::Message { from, message } => self.heard[node].1.push((from, message)),
                event => self.heard[node].0.push(event),
            }
        }
    }

    /// Connections that both ends have.
    pub fn open_connections(&self) -> usize {
        self.ends.len() / 2
    }

    /// Another node at the place of one, whose connections end: with a word of the system, or without.
    pub fn replace(&mut self, place: usize, links: Links, with_word: bool) {
        self.nodes[place] = links;
        let gone: Vec<End> = self.ends.keys().filter(|end| end.0 == place).copied().collect();
        for end in gone {
            if let Some(other) = self.ends.remove(&end) {
                self.ends.remove(&other);
                if with_word {
                    self.send(other, Parcel::Closed);
                }
            }
        }
        self.parcels
            .retain(|_, (to, parcel)| to.0 != place || matches!(parcel, Parcel::Connect { .. }));
    }

    /// A connection breaks: each end learns of it in its time.
    pub fn break_one(&mut self) {
        let place = self.draw() as usize % self.ends.len().max(1);
        let Some(end) = self.ends.keys().nth(place).copied() else {
            return;
        };
        if let Some(other) = self.ends.remove(&end) {
            self.ends.remove(&other);
            self.send(end, Parcel::Closed);
            self.send(other, Parcel::Closed);
        }
    }

    pub fn run_us(&mut self, time_us: u64) {
        let end_us = self.now_us + time_us;
        loop {
            self.step();
            let arrives_us = self.parcels.keys().next().map(|(at_us, _)| *at_us);
            let arrives_us = arrives_us.filter(|_| !self.is_silent);
            let timers = self.nodes.iter().filter_map(Links::next_timer_us);
            let next_us = timers.chain(arrives_us).min().unwrap_or(end_us).max(self.now_us + 1);
            if next_us > end_us {
                self.now_us = end_us;
                return;
            }
            self.now_us = next_us;
            while let Some(entry) = self.parcels.first_entry().filter(|entry| entry.key().0 <= self.now_us) {
                if self.is_silent {
                    break;
                }
                let (to, parcel) = entry.remove();
                self.arrive(to, parcel);
            }
            let now_us = self.now_us;
            self.nodes.iter_mut().for_each(|node| node.on_timer(now_us));
        }
    }

    /// Does what the nodes want done.
    pub fn step(&mut self) {
        for place in 0..self.nodes.len() {
            while let Some(action) = self.nodes[place].poll_action() {
                self.act(place, action);
            }
        }
    }

    fn act(&mut self, place: usize, action: Action) {
        match action {
            Action::Dial { connection, address } => {
                let from = place;
                match address.parse() {
                    Ok(to) => self.send((to, ConnectionId(0)), Parcel::Connect { from, connection }),
                    // Nobody is there.
                    Err(_) => self.send((from, connection), Parcel::Closed),
                }
            }
            Action::Write { connection, bytes } => {
                let end = (place, connection);
                let length = bytes.len();
                if let Some(other) = self.ends.get(&end).copied() {
                    self.send(other, Parcel::Bytes(bytes));
                    self.send(end, Parcel::Written(length));
                }
            }
            Action::Close { connection } => {
                if let Some(other) = self.ends.remove(&(place, connection)) {
                    self.ends.remove(&other);
                    self.send(other, Parcel::Closed);
                }
            }
        }
    }

    fn send(&mut self, to: End, parcel: Parcel) {
        let delay_us = if self.varies { 1 + self.draw() % 60_000 } else { 500 };
        let last_us = self.last_us.entry(to).or_insert(0);
        // Those that are to connect do not wait for each other.
        let at_us = match parcel {
            Parcel::Connect { .. } => self.now_us + delay_us,
            _ => (self.now_us + delay_us).max(*last_us),
        };
        *last_us = at_us;
        self.sent += 1;
        self.parcels.insert((at_us, self.sent), (to, parcel));
    }

    fn arrive(&mut self, to: End, parcel: Parcel) {
        let (place, id) = to;
        let now_us = self.now_us;
        let node = &mut self.nodes[place];
        match parcel {
            Parcel::Connect { from, connection } => {
                let dialling = (from, connection);
                match node.on_accepted(&from.to_string(), now_us) {
                    Ok(id) => {
                        self.connected += 1;
                        self.ends.insert(dialling, (place, id));
                        self.ends.insert((place, id), dialling);
                        self.send(dialling, Parcel::Connected);
                    }
                    Err(_) => self.send(dialling, Parcel::Closed),
                }
            }
            Parcel::Connected => node.on_connected(id, now_us),
            Parcel::Bytes(bytes) => node.on_bytes(id, &bytes, now_us),
            Parcel::Written(bytes) => node.on_written(id, bytes),
            Parcel::Closed => node.on_closed(id, "it was reset", now_us),
        }
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
